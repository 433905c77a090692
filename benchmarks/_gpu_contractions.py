"""Contractions and updates of a fit on a device of JAX, beside the least time that their bytes and flops take.

An update of BEMKLClassifier reads all kernels twice, once for `K_m a` and once for the sum of `K_m' g_m`, and
inverts one matrix of as many rows as there are samples, which takes `n_samples**3` multiplications and additions.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import numpy as np
from _gpu_devices import device, is_accelerator, seconds_of
from _report import claim, markdown_table

from bayesmkl._utils.devices import double_precision
from bayesmkl._utils.memory import format_bytes
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels

N_FEATURES = 20
TOL = 1e-6
UPDATES = 21  # plain ones that are timed, the first of which compiles
ASKED_MS, ASKED_GB_S = 12.0, 4800.0  # of an update, at this rate of reading


class Size(NamedTuple):
    """How much is measured."""

    n_samples: int
    n_kernels: int  # a multiple of the number of features
    max_iter: int


def size_of(fast: bool) -> Size:
    if is_accelerator() and not fast:
        return Size(4000, 100, 1000)
    return Size(200, 20, 20) if fast else Size(600, 40, 1000)


def data(size: Size) -> tuple[np.ndarray, KernelBank]:
    """Samples of two classes that three features tell apart, and a bank of Gaussians on single features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((size.n_samples, N_FEATURES))
    y = np.where(X[:, :3].sum(axis=1) + 0.5 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)
    widths = np.geomspace(0.25, 4.0, size.n_kernels // N_FEATURES)
    return y, KernelBank([Gaussian(width=float(w)) for w in widths], views="each").fit(X)


def contractions(stack: DenseStack) -> dict[str, float]:
    """Seconds of both contractions of an update, from arrays that lie on the device to such arrays."""
    rng = np.random.default_rng(1)
    vector = jax.numpy.asarray(rng.standard_normal(stack.n_train))
    rows = jax.jit(DenseStack.apply)(stack, vector)
    return {
        "apply": seconds_of(DenseStack.apply, stack, vector),
        "adjoint": seconds_of(DenseStack.adjoint, stack, rows),
    }


def fit(stack: DenseStack, y: np.ndarray, options: LoopOptions) -> dict[str, Any]:
    """One fit: seconds of its parts, and how it ended."""
    start = time.perf_counter()
    with double_precision():
        squares = jax.block_until_ready(jax.jit(DenseStack.gram)(stack))
    problem = Problem(stack, np.asarray(squares), y, Priors(), Labels(1.0), 1.0)
    gram = time.perf_counter() - start
    clock: list[float] = []
    result = maximize_elbo(
        bemkl,
        problem,
        bemkl.init(problem._replace(stack=DenseStack(np.asarray(stack.kernels))), np.ones(len(y))),
        options,
        lambda n_sweeps, elbo: clock.append(time.perf_counter()),
    )
    return {
        "gram": gram,
        "first_update": clock[0] - start - gram,
        "update": float(np.median(np.diff(clock))),
        "n_updates": result.n_iter,
        "elbo": float(result.elbo_history[-1]),
        "converged": result.outcome.converged,
        "fit": time.perf_counter() - start,
    }


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Measure contractions, plain and accelerated updates, and one fit."""
    rates, size = device(fast), size_of(fast)
    y, bank = data(size)
    start = time.perf_counter()
    with double_precision():
        dense = DenseStack(jax.block_until_ready(jax.numpy.asarray(bank.train_stack())))
    place = time.perf_counter() - start
    with double_precision():
        held = contractions(dense)
    plain = fit(dense, y, LoopOptions(max_iter=UPDATES, tol=0.0, accelerate=False, backend="jax"))
    fitted = fit(dense, y, LoopOptions(max_iter=size.max_iter, tol=TOL, backend="jax"))
    floor = 2 * dense.nbytes / 1e9 / rates.read_gb_s + 2 * size.n_samples**3 / 1e9 / rates.gemm_gflop_s
    numbers = {
        "device": rates._asdict(),
        "size": size._asdict(),
        "bytes": dense.nbytes,
        "place": place,
        "held": held,
        "plain": plain,
        "fit": fitted,
        "floor": floor,
        "claims": claims(rates.read_gb_s, dense.nbytes, held, plain) if is_accelerator() else [],
    }
    return report(numbers, rates.report()), numbers


def claims(rate: float, n_bytes: int, held: dict[str, float], plain: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare with what is asked of an accelerator."""
    shares = [
        claim(
            f"{name} against reading, kernels held on a GPU",
            0.6,
            n_bytes / 1e9 / seconds / rate,
            at_least=True,
        )
        for name, seconds in held.items()
    ]
    update = claim(
        f"an update on a GPU, 4000 samples, 100 kernels ({ASKED_MS:g} ms where it reads {ASKED_GB_S / 1e3:g} TB/s, "
        f"here {rate / 1e3:.1f})",
        ASKED_MS * ASKED_GB_S / rate,
        1e3 * plain["update"],
        " ms",
    )
    return [*shares, update]


def report(numbers: dict[str, Any], rates: str) -> str:
    """Markdown of all that was measured."""
    size, rate = numbers["size"], numbers["device"]["read_gb_s"]
    entries = size["n_kernels"] * size["n_samples"] ** 2
    rows = []
    for name in ("apply", "adjoint"):
        held = numbers["held"][name]
        share = 8 * entries / 1e9 / held / rate
        rows.append([f"{name}, kernels held", f"{held * 1e3:.3g} ms", f"{share:.0%} of the rate of reading"])
    plain, fitted, floor = numbers["plain"], numbers["fit"], numbers["floor"]
    ending = "converged" if fitted["converged"] else "not converged"
    rows += [
        [
            "an update",
            f"{plain['update'] * 1e3:.3g} ms",
            f"{plain['update'] / floor:.2f} times its reads and flops",
        ],
        [
            "an accelerated update",
            f"{fitted['update'] * 1e3:.3g} ms",
            f"{fitted['update'] / floor:.2f} times",
        ],
        ["kernels evaluated and placed", f"{numbers['place']:.2f} s", ""],
        ["`gram`, compiled and run", f"{plain['gram']:.2f} s", f"{fitted['gram']:.2f} s the second time"],
        ["first update, with its compilation", f"{plain['first_update']:.2f} s", ""],
        [
            "fit, compiled before",
            f"{fitted['fit']:.2f} s",
            f"{fitted['n_updates']} updates, {ending} to {TOL:g}",
        ],
    ]
    head = f"{rates} {size['n_kernels']} kernels of {size['n_samples']} samples, {format_bytes(numbers['bytes'])}."
    return f"{head}\n\n" + markdown_table(["", "time", ""], rows)
