"""Every contraction of a dense kernel stack against what the machine could do, NumPy and JAX.

For each contraction the bytes that must be read and written and the floating-point operations that must be done
give the shortest possible time: the longer of bytes / (measured read rate) and operations / (measured dgemm rate).
The share printed is that time over the measured one; 100 % cannot be beaten except by data that stays in cache.

    python benchmarks/contractions.py              130 kernels, 400 samples
    python benchmarks/contractions.py --fast       20 kernels, 150 samples
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from _machine import Machine, measure
from _report import finish, markdown_table, parser

from bayesmkl.kernels.stack import DenseStack

ROUNDS, CALLS = 8, 2
MATRIX_WORK = 8  # operations per number from which on dgemm can be the limit
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
    P, stack = n_kernels, n_kernels * n * n
    columns = np.sort(rng.choice(n, n // 10, replace=False))

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape)

    return [
        Case("combine", DenseStack.combine, (normal(P),), stack + n * n, 2 * stack),
        Case(
            f"combine, {BATCH} weightings",
            DenseStack.combine,
            (normal(BATCH, P),),
            stack + BATCH * n * n,
            2 * BATCH * stack,
        ),
        Case(
            "combine_gated", DenseStack.combine_gated, (normal(P, n), normal(P, n)), stack + n * n, 3 * stack
        ),
        Case("apply", DenseStack.apply, (normal(n),), stack + P * n, 2 * stack),
        Case(
            f"apply, {BATCH} vectors",
            DenseStack.apply,
            (normal(n, BATCH),),
            stack + BATCH * P * n,
            2 * BATCH * stack,
        ),
        Case("apply, one per kernel", DenseStack.apply, (normal(P, n, 1),), stack + P * n, 2 * stack),
        Case("adjoint", DenseStack.adjoint, (normal(P, n),), stack + P * n, 2 * stack),
        Case(
            f"adjoint, {BATCH} vectors",
            DenseStack.adjoint,
            (normal(P, n, BATCH),),
            stack + BATCH * P * n,
            2 * BATCH * stack,
        ),
        Case("gram", DenseStack.gram, (), stack + n * n, stack * (n + 1)),
        Case("quadratic", DenseStack.quadratic, (normal(n),), stack + P, 2 * stack),
        Case("frobenius", DenseStack.frobenius, (), stack + P * P, stack * (P + 1)),
        Case("frobenius, one matrix", DenseStack.frobenius, (normal(n, n),), stack + n * n, 2 * stack),
        Case(f"columns, {len(columns)} of {n}", DenseStack.columns, (columns,), 2 * P * n * len(columns), 0),
        Case("diagonal", DenseStack.diagonal, (), 2 * P * n, 0),
    ]


def callables(case: Case, kernels: np.ndarray) -> dict[str, Callable[[], object]]:
    """The case on NumPy, and compiled by JAX with its result awaited."""
    numpy_stack = DenseStack(kernels)
    stack, arguments = jax.tree.map(jax.numpy.asarray, (numpy_stack, case.arguments))
    compiled = jax.jit(case.call)
    return {
        "numpy": lambda: case.call(numpy_stack, *case.arguments),
        "jax": lambda: jax.block_until_ready(compiled(stack, *arguments)),
    }


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


def timed(all_cases: list[Case], kernels: np.ndarray, rounds: int) -> list[dict[str, float]]:
    """Seconds of every contraction by backend."""
    with jax.enable_x64(True):
        named = [callables(case, kernels) for case in all_cases]
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


def main() -> None:
    options = parser(__doc__).parse_args()
    n_kernels, n = (20, 150) if options.fast else (130, 400)
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((n_kernels, n, n))
    all_cases = cases(n_kernels, n, rng)
    before = measure(options.fast)
    seconds = timed(all_cases, kernels, rounds=1 if options.fast else ROUNDS)
    machine = fastest(before, measure(options.fast))
    rows = [judged(case, times, machine) for case, times in zip(all_cases, seconds, strict=True)]
    text = (
        f"{n_kernels} kernels, {n} samples, {kernels.nbytes / 1e6:.0f} MB; jax {jax.__version__} "
        f"on {jax.default_backend()}\n\n{table(rows)}"
    )
    print(machine.report() + "\n")
    finish(options, "contractions", text, {"machine": machine._asdict(), "rows": rows})


if __name__ == "__main__":
    main()
