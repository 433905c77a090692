"""Every contraction of a kernel stack against what the machine could do, NumPy and JAX.

For each contraction the bytes that must be read and written and the floating-point operations that must be done
give the shortest possible time: the longer of bytes / (measured read rate) and operations / (measured dgemm rate).
The share printed is that time over the measured one; 100 % cannot be beaten except by data that stays in cache.

The second table compares the ways to hold the same kernels: dense, compressed (a contraction reads its factors
twice) and in single precision, where all sums are in double precision.

    python benchmarks/contractions.py              130 kernels, 400 samples; 403 kernels of wdbc, 398 samples
    python benchmarks/contractions.py --fast       20 kernels, 150 samples; 26 kernels, 150 samples
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from _machine import Machine, measure
from _report import claim, finish, markdown_table, parser

from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.float32 import Float32Stack, store_float32
from bayesmkl.kernels.stacks.lowrank import LowRankStack, compress

ROUNDS, CALLS = 8, 2
MATRIX_WORK = 8  # operations per number from which on dgemm can be the limit
BACKENDS = ("numpy", "jax")
BATCH = 8  # vectors, columns of a batch, rows of weights


class Case(NamedTuple):
    """One contraction with its arguments and what it must move and compute."""

    label: str
    call: Callable[..., Any]  # (stack, *arguments)
    arguments: tuple
    numbers: int  # read and written
    flops: float


def cases(n_kernels: int, n: int, rng: np.random.Generator) -> list[Case]:
    """All contractions of DenseStack; symmetric products count the operations of one triangle."""
    P, stack, many = n_kernels, n_kernels * n * n, BATCH
    columns = np.sort(rng.choice(n, n // 10, replace=False))

    def case(label: str, shapes: Sequence[tuple[int, ...]], numbers: int, flops: float) -> Case:
        """Return a case whose label begins with the name of its method."""
        method = getattr(DenseStack, label.partition(",")[0])
        return Case(label, method, tuple(rng.standard_normal(shape) for shape in shapes), numbers, flops)

    return [
        case("combine", [(P,)], stack + n * n, 2 * stack),
        case(f"combine, {many} weightings", [(many, P)], stack + many * n * n, 2 * many * stack),
        case("combine_gated", [(P, n), (P, n)], stack + n * n, 3 * stack),
        case("apply", [(n,)], stack + P * n, 2 * stack),
        case(f"apply, {many} vectors", [(n, many)], stack + many * P * n, 2 * many * stack),
        case("apply, one per kernel", [(P, n, 1)], stack + P * n, 2 * stack),
        case("adjoint", [(P, n)], stack + P * n, 2 * stack),
        case(f"adjoint, {many} vectors", [(P, n, many)], stack + many * P * n, 2 * many * stack),
        case("gram", [], stack + n * n, stack * (n + 1)),
        case("quadratic", [(n,)], stack + P, 2 * stack),
        case("frobenius", [], stack + P * P, stack * (P + 1)),
        case("frobenius, one matrix", [(n, n)], stack + n * n, 2 * stack),
        Case(f"columns, {len(columns)} of {n}", DenseStack.columns, (columns,), 2 * P * n * len(columns), 0),
        case("diagonal", [], 2 * P * n, 0),
    ]


def cases_of(stack: Any, rng: np.random.Generator) -> list[Case]:
    """What fits and predictions need, of a square stack held in some way."""
    P, n = stack.n_kernels, stack.n_rows
    lines, numbers, entry = n * P, stack.n_kernels * n * n, 8
    if isinstance(stack, LowRankStack):
        lines = sum(z.shape[0] * z.shape[1] for z in stack.factors) + n * len(stack.dense)
        numbers = 2 * sum(z.size for z in stack.factors) + stack.dense.size
    elif isinstance(stack, Float32Stack):
        entry = 4
    read, flops = numbers * entry // 8, 2 * numbers  # in numbers of double precision

    def case(name: str, batch: int, written: int, *arguments: np.ndarray) -> Case:
        label = f"{name}, {batch} vectors" if batch > 1 else name
        return Case(label, getattr(type(stack), name), arguments, read + batch * written, flops * batch)

    return [
        case("apply", 1, P * n, rng.standard_normal(n)),
        case("apply", BATCH, P * n, rng.standard_normal((n, BATCH))),
        case("adjoint", 1, P * n, rng.standard_normal((P, n))),
        case("adjoint", BATCH, P * n, rng.standard_normal((P, n, BATCH))),
        Case("gram", type(stack).gram, (), read + n * n, lines * n * (n + 1)),
    ]


def storages(fast: bool) -> dict[str, Any]:
    """The same kernels held in every way: those of the paper on all features and on each of wdbc."""
    X = load_wdbc().data
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[: 150 if fast else 398, : 1 if fast else 30]
    dense = DenseStack(KernelBank("paper", views="all+each").fit(X).train_stack())
    return {
        "dense": dense,
        "compressed": compress(dense),
        "single precision": store_float32(dense.kernels, dense.n_kernels),
    }


def callables(
    case: Case, numpy_stack: Any, backends: tuple[str, ...] = BACKENDS
) -> dict[str, Callable[[], object]]:
    """The case on NumPy, and compiled by JAX with its result awaited."""
    on_numpy = {"numpy": lambda: case.call(numpy_stack, *case.arguments)}
    if "jax" not in backends:
        return on_numpy
    stack, arguments = jax.tree.map(jax.numpy.asarray, (numpy_stack, case.arguments))
    compiled = jax.jit(case.call)
    return on_numpy | {"jax": lambda: jax.block_until_ready(compiled(stack, *arguments))}


def best_of_rounds(functions: list[Callable[[], object]], rounds: int) -> list[float]:
    """Shortest time of each function over `rounds` rounds of all, so that a busy minute spoils none of them."""
    best = [np.inf] * len(functions)
    for _ in range(rounds):
        for k, function in enumerate(functions):
            function()  # threads of the function before have gone to sleep
            for _ in range(CALLS):
                start = time.perf_counter()
                function()
                best[k] = min(best[k], time.perf_counter() - start)
    return best


def timed(
    pairs: list[tuple[Case, Any]], rounds: int, backends: tuple[str, ...] = BACKENDS
) -> list[dict[str, float]]:
    """Seconds of every contraction by backend."""
    with jax.enable_x64(True):
        named = [callables(*pair, backends) for pair in pairs]
        seconds = iter(best_of_rounds([function for pair in named for function in pair.values()], rounds))
        return [{backend: next(seconds) for backend in pair} for pair in named]


def judged(case: Case, seconds: dict[str, float], machine: Machine) -> dict[str, Any]:
    """Rates of one contraction, and its shares of what the machine could do."""
    memory, compute = 8 * case.numbers / 1e9 / machine.read_gb_s, case.flops / 1e9 / machine.gemm_gflop_s
    if case.flops < MATRIX_WORK * case.numbers:
        compute = 0.0
    row: dict[str, Any] = {"contraction": case.label, "bound": "memory" if memory >= compute else "dgemm"}
    for backend, time_ in seconds.items():
        row |= {
            f"{backend}_gb_s": 8 * case.numbers / 1e9 / time_,
            f"{backend}_gflop_s": case.flops / 1e9 / time_,
            f"{backend}_share": max(memory, compute) / time_,
        }
    return row


def fastest(first: Machine, second: Machine) -> Machine:
    """The better of two measurements of each rate."""
    rates = ("read_gb_s", "copy_gb_s", "gemm_gflop_s")
    return second._replace(**{rate: max(getattr(first, rate), getattr(second, rate)) for rate in rates})


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table; a contraction without work (a NumPy view) has no share."""

    def cell(row: dict[str, Any], backend: str) -> list[str]:
        if row["contraction"] == "diagonal" and backend == "numpy":
            return ["a view", "–"]
        rate = (
            f"{row[f'{backend}_gb_s']:.1f} GB/s"
            if row["bound"] == "memory"
            else f"{row[f'{backend}_gflop_s']:.0f} GFLOP/s"
        )
        return [rate, f"{row[f'{backend}_share']:.0%}"]

    lines = [[row["contraction"], row["bound"], *cell(row, "numpy"), *cell(row, "jax")] for row in rows]
    return markdown_table(["contraction", "bound by", "NumPy", "share", "JAX", "share"], lines)


def storage_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of the ways to hold kernels."""
    dense = {row["contraction"]: row for row in rows if row["storage"] == "dense"}
    lines = [
        [
            row["contraction"],
            row["storage"],
            f"{1e3 * row['numpy_s']:.1f} ms",
            f"{row['numpy_share']:.0%}",
            f"{dense[row['contraction']]['numpy_s'] / row['numpy_s']:.1f}",
            *([f"{1e3 * row['jax_s']:.1f} ms", f"{row['jax_share']:.0%}"] if "jax_s" in row else ["–", "–"]),
        ]
        for row in rows
    ]
    headers = ["contraction", "kernels held", "NumPy", "share", "dense / this", "JAX", "share"]
    return markdown_table(headers, lines)


def compare_storages(fast: bool, machine: Machine) -> tuple[str, list[dict[str, Any]]]:
    """Time the contractions of every way to hold the same kernels."""
    stacks, rng = storages(fast), np.random.default_rng(0)
    named = [(name, case) for name, stack in stacks.items() for case in cases_of(stack, rng)]
    backends = BACKENDS[:1] if fast else BACKENDS  # compiling takes long
    seconds = timed([(case, stacks[name]) for name, case in named], 1 if fast else ROUNDS, backends)
    rows = [
        {"storage": name} | judged(case, times, machine) | {f"{backend}_s": t for backend, t in times.items()}
        for (name, case), times in zip(named, seconds, strict=True)
    ]
    labels = list(dict.fromkeys(case.label for _, case in named))
    rows.sort(key=lambda row: labels.index(row["contraction"]))
    dense = stacks["dense"]
    sizes = ", ".join(f"{name} {stack.nbytes / 1e6:.0f} MB" for name, stack in stacks.items())
    return f"{dense.n_kernels} kernels, {dense.n_rows} samples: {sizes}\n\n{storage_table(rows)}", rows


def main() -> None:
    options = parser(__doc__).parse_args()
    n_kernels, n = (20, 150) if options.fast else (130, 400)
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((n_kernels, n, n))
    all_cases = cases(n_kernels, n, rng)
    before = measure(options.fast)
    stack = DenseStack(kernels)
    seconds = timed([(case, stack) for case in all_cases], rounds=1 if options.fast else ROUNDS)
    machine = fastest(before, measure(options.fast))
    rows = [judged(case, times, machine) for case, times in zip(all_cases, seconds, strict=True)]
    compared, storage_rows = compare_storages(options.fast, machine)
    text = (
        f"{n_kernels} kernels, {n} samples, {kernels.nbytes / 1e6:.0f} MB; jax {jax.__version__} "
        f"on {jax.default_backend()}\n\n{table(rows)}\n\n{compared}"
    )
    print(machine.report() + "\n")
    worst = min(
        row["numpy_share"]
        for row in storage_rows
        if row["storage"] == "compressed" and row["bound"] == "memory"
    )
    claims = [claim("compressed contractions, share of the rate of memory", 0.6, worst, at_least=True)]
    numbers = {"machine": machine._asdict(), "rows": rows, "storages": storage_rows, "claims": claims}
    finish(options, "contractions", text, numbers)


if __name__ == "__main__":
    main()
