"""Every contraction of a dense kernel stack against what the machine could do, NumPy and JAX.

For each contraction the bytes that must be read and written and the floating-point operations that must be done
give the shortest possible time: the longer of bytes / (measured read rate) and operations / (measured dgemm rate).
The share printed is that time over the measured one; 100 % cannot be beaten except by data that stays in cache.

    python benchmarks/contractions.py              130 kernels, 400 samples
    python benchmarks/contractions.py --fast       20 kernels, 150 samples
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from _machine import Machine, best_seconds, measure
from _report import finish, markdown_table, parser

from bayesmkl.kernels.stack import DenseStack

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
        Case(f"combine, {BATCH} weightings", DenseStack.combine, (normal(BATCH, P),), stack + BATCH * n * n, 2 * BATCH * stack),
        Case("combine_gated", DenseStack.combine_gated, (normal(P, n), normal(P, n)), stack + n * n, 3 * stack),
        Case("apply", DenseStack.apply, (normal(n),), stack + P * n, 2 * stack),
        Case(f"apply, {BATCH} vectors", DenseStack.apply, (normal(n, BATCH),), stack + BATCH * P * n, 2 * BATCH * stack),
        Case("apply, one per kernel", DenseStack.apply, (normal(P, n, 1),), stack + P * n, 2 * stack),
        Case("adjoint", DenseStack.adjoint, (normal(P, n),), stack + P * n, 2 * stack),
        Case(f"adjoint, {BATCH} vectors", DenseStack.adjoint, (normal(P, n, BATCH),), stack + BATCH * P * n, 2 * BATCH * stack),
        Case("gram", DenseStack.gram, (), stack + n * n, stack * (n + 1)),
        Case("quadratic", DenseStack.quadratic, (normal(n),), stack + P, 2 * stack),
        Case("frobenius", DenseStack.frobenius, (), stack + P * P, stack * (P + 1)),
        Case("frobenius, one matrix", DenseStack.frobenius, (normal(n, n),), stack + n * n, 2 * stack),
        Case(f"columns, {len(columns)} of {n}", DenseStack.columns, (columns,), 2 * P * n * len(columns), 0),
        Case("diagonal", DenseStack.diagonal, (), 2 * P * n, 0),
    ]  # fmt: skip


def on_numpy(case: Case, kernels: np.ndarray) -> float:
    """Seconds of one call."""
    stack = DenseStack(kernels)
    return best_seconds(lambda: case.call(stack, *case.arguments))


def on_jax(case: Case, kernels: np.ndarray) -> float:
    """Seconds of one compiled call, waiting for its result."""
    with jax.enable_x64(True):
        stack, arguments = jax.tree.map(jax.numpy.asarray, (DenseStack(kernels), case.arguments))
        compiled = jax.jit(case.call)
        return best_seconds(lambda: jax.block_until_ready(compiled(stack, *arguments)))


def measured(case: Case, kernels: np.ndarray, machine: Machine) -> dict[str, Any]:
    """Rates and shares of one contraction on both backends."""
    least = max(8 * case.numbers / 1e9 / machine.read_gb_s, case.flops / 1e9 / machine.gemm_gflop_s)
    row: dict[str, Any] = {
        "contraction": case.label,
        "bound": "memory" if 8 * case.numbers / machine.read_gb_s >= case.flops / machine.gemm_gflop_s else "dgemm",
    }
    for backend, run in (("numpy", on_numpy), ("jax", on_jax)):
        seconds = run(case, kernels)
        row |= {
            f"{backend}_gb_s": 8 * case.numbers / 1e9 / seconds,
            f"{backend}_gflop_s": case.flops / 1e9 / seconds,
            f"{backend}_share": least / seconds,
        }
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table; a contraction without work (a NumPy view) has no share."""

    def cell(row: dict[str, Any], backend: str) -> list[str]:
        if row[f"{backend}_share"] > 5.0:
            return ["–", "view"]
        rate = (
            f"{row[f'{backend}_gb_s']:.1f} GB/s"
            if row["bound"] == "memory"
            else f"{row[f'{backend}_gflop_s']:.0f} GFLOP/s"
        )
        return [rate, f"{row[f'{backend}_share']:.0%}"]

    lines = [
        [f"`{row['contraction'].split(',')[0]}`" + row["contraction"][len(row["contraction"].split(",")[0]) :]]
        + [row["bound"], *cell(row, "numpy"), *cell(row, "jax")]
        for row in rows
    ]
    return markdown_table(["contraction", "bound by", "NumPy", "share", "JAX", "share"], lines)


def main() -> None:
    options = parser(__doc__).parse_args()
    n_kernels, n = (20, 150) if options.fast else (130, 400)
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((n_kernels, n, n))
    machine = measure(options.fast)
    rows = [measured(case, kernels, machine) for case in cases(n_kernels, n, rng)]
    text = (
        f"{n_kernels} kernels, {n} samples, {kernels.nbytes / 1e6:.0f} MB; jax {jax.__version__} "
        f"on {jax.default_backend()}\n\n{table(rows)}"
    )
    print(machine.report() + "\n")
    finish(options, "contractions", text, {"machine": machine._asdict(), "rows": rows})


if __name__ == "__main__":
    main()
