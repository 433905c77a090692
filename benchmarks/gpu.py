"""The JAX backend on the devices that JAX sees: contractions against copying, kernels evaluated there, one fit.

`apply` and `adjoint` read every kernel once. Their rate, bytes of kernels over seconds, is compared with the rate at
which the same devices read a long array and write it again, bytes read and bytes written, measured in the same run.
Asked of a GPU: at least 60 % of it for both, with 100 kernels of 4000 samples in double precision. Streamed kernels
are evaluated anew in every contraction: there the rate is that of entries. The fit is that of `BEMKLClassifier`, its
first sweep, which compiles, apart from the others.

    python benchmarks/gpu.py                4000 samples, 100 kernels on an accelerator; 600 and 40 on a CPU
    python benchmarks/gpu.py --fast         200 samples, 20 kernels
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from _machine import measure
from _report import claim, finish, markdown_table, parser

from bayesmkl._utils.devices import resolve_devices
from bayesmkl._utils.memory import format_bytes
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.stacks.sharded import ShardedStack, shard_rows
from bayesmkl.kernels.stacks.streamed_jax import shard_bank, stream

ASKED = 0.6
N_FEATURES = 20
TOL = 1e-6


class Size(NamedTuple):
    """How much is measured."""

    n_samples: int
    n_kernels: int  # a multiple of the number of features
    copied: int  # bytes of the array that is copied, on every device
    repeats: int


def size_of(platform: str, fast: bool) -> Size:
    if fast:
        return Size(200, 20, 2**24, 3)
    return Size(600, 40, 2**27, 7) if platform == "cpu" else Size(4000, 100, 2**31, 20)


def data(size: Size) -> tuple[np.ndarray, np.ndarray, KernelBank]:
    """Samples of two classes that three features tell apart, and a bank of Gaussians on single features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((size.n_samples, N_FEATURES))
    y = np.where(X[:, :3].sum(axis=1) + 0.5 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    widths = np.geomspace(0.25, 4.0, size.n_kernels // N_FEATURES)
    return X, y, KernelBank([Gaussian(width=float(w)) for w in widths], views="each").fit(X)


def seconds_of(function: Callable[..., Any], *arguments: Any, repeats: int) -> float:
    """Shortest of `repeats` calls of a compiled function, its result awaited, after one that compiles it."""
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*arguments))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
    return min(times)


def copy_gb_s(stack: ShardedStack, size: Size) -> float:
    """Bytes read and written per second, of all devices together, when each writes an array anew from itself."""
    n = size.copied // 8
    source = shard_rows(
        lambda rows: np.ones((1, rows.stop - rows.start, 1)), (1, n * stack.mesh.size, 1), stack.mesh.size
    )
    negate = jax.jit(lambda array: -array, donate_argnums=0)
    array, best = jax.block_until_ready(negate(source.local.kernels)), np.inf
    for _ in range(size.repeats):
        start = time.perf_counter()
        array = jax.block_until_ready(negate(array))
        best = min(best, time.perf_counter() - start)
    return 2 * array.nbytes / 1e9 / best


def contractions(stack: ShardedStack, size: Size) -> dict[str, float]:
    """Seconds of both contractions of a sweep, from arrays that lie on the devices to such arrays."""
    rng = np.random.default_rng(1)
    vector = jax.numpy.asarray(rng.standard_normal(stack.n_train))
    rows = jax.jit(ShardedStack.apply)(stack, vector)  # placed where a sweep has them
    return {
        "apply": seconds_of(ShardedStack.apply, stack, vector, repeats=size.repeats),
        "adjoint": seconds_of(ShardedStack.adjoint, stack, rows, repeats=size.repeats),
    }


def fit(stack: ShardedStack, y: np.ndarray, max_iter: int) -> dict[str, Any]:
    """One fit: seconds of its parts, and how it ended."""
    start = time.perf_counter()
    problem = binary.BinaryProblem(stack, stack.gram(), y, binary.BinaryPriors(), 1.0, 1.0)
    gram = time.perf_counter() - start
    clock: list[float] = []
    result = maximize_elbo(
        binary,
        problem,
        binary.init(problem, np.ones(len(y))),
        LoopOptions(max_iter=max_iter, tol=TOL, backend="jax"),
        lambda n_sweeps, elbo: clock.append(time.perf_counter()),
    )
    return {
        "gram": gram,
        "first_sweep": clock[0] - start - gram,
        "other_sweeps": clock[-1] - clock[0],
        "n_sweeps": result.n_iter,
        "elbo": float(result.elbo_history[-1]),
        "converged": result.outcome.converged,
        "fit": time.perf_counter() - start,
    }


def report(dense: ShardedStack, copy: float, seconds: dict[str, Any], fitted: dict[str, Any]) -> str:
    """Markdown of all that was measured."""
    entries, rows = dense.n_kernels * dense.n_rows * dense.n_train, []
    for name in ("apply", "adjoint"):
        rate = 8 * entries / 1e9 / seconds["dense"][name]
        rows.append(
            [
                f"{name}, kernels held",
                f"{seconds['dense'][name]:.3g} s",
                f"{rate:.0f} GB/s",
                f"{rate / copy:.0%}",
            ]
        )
        rate = entries / 1e9 / seconds["streamed"][name]
        rows.append(
            [
                f"{name}, kernels streamed",
                f"{seconds['streamed'][name]:.3g} s",
                f"{rate:.2f} G entries/s",
                "–",
            ]
        )
    sweep = fitted["other_sweeps"] / max(1, fitted["n_sweeps"] - 1)
    steps = [
        ["kernels evaluated and placed on the devices", f"{seconds['place']:.2f} s"],
        ["`gram`, compiled and run once", f"{fitted['gram']:.2f} s"],
        ["first sweep, with its compilation", f"{fitted['first_sweep']:.2f} s"],
        [f"other sweeps, {sweep * 1e3:.1f} ms each", f"{fitted['other_sweeps']:.2f} s"],
        [
            f"fit, {fitted['n_sweeps']} sweeps, {'' if fitted['converged'] else 'not '}converged",
            f"{fitted['fit']:.2f} s",
        ],
    ]
    return (
        f"{_devices(dense)}; jax {jax.__version__}. {dense.n_kernels} kernels, {dense.n_rows} samples, "
        f"{format_bytes(dense.nbytes)} in double precision; copying runs at {copy:.0f} GB/s, read and written.\n\n"
        + markdown_table(["contraction", "time", "rate", "share of copying"], rows)
        + "\n\n"
        + markdown_table(["one fit", "time"], steps)
    )


def _devices(stack: ShardedStack) -> str:
    devices = list(stack.mesh.devices.flat)
    kind = f"{devices[0].platform} ({devices[0].device_kind})"
    return f"1 device, {kind}" if len(devices) == 1 else f"{len(devices)} devices, each {kind}"


def main() -> None:
    options = parser(__doc__).parse_args()
    platform = resolve_devices("all")[0].platform
    size = size_of(platform, options.fast)
    machine = measure(options.fast)
    X, y, bank = data(size)
    start = time.perf_counter()
    dense = shard_bank(bank, X, "all")
    jax.block_until_ready(dense.local.kernels)
    seconds: dict[str, Any] = {"place": time.perf_counter() - start}
    with jax.enable_x64(True):
        copy = copy_gb_s(dense, size)
        seconds["dense"] = contractions(dense, size)
        seconds["streamed"] = contractions(stream(bank, X, "all"), size)
        copy = max(copy, copy_gb_s(dense, size))
    fitted = fit(dense, y, max_iter=20 if options.fast else 1000)
    print(machine.report() + "\n")
    numbers = {
        "machine": machine._asdict(),
        "devices": _devices(dense),
        "jax": jax.__version__,
        "n_samples": len(X),
        "n_kernels": dense.n_kernels,
        "copy_gb_s": copy,
        "seconds": seconds,
        "fit": fitted,
        "claims": [
            claim(
                f"{name} against copying, kernels held on {_devices(dense)}",
                ASKED,
                dense.nbytes / 1e9 / seconds["dense"][name] / copy,
                at_least=True,
            )
            for name in ("apply", "adjoint")
            if platform != "cpu"  # that the benchmark of contractions looks at
        ],
    }
    finish(options, "gpu", report(dense, copy, seconds, fitted), numbers)


if __name__ == "__main__":
    main()
