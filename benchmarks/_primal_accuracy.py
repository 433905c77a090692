"""How accurate PrimalMKL with a small basis is; the tables of its paper are repeated by ``papers/run.py``."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _primal_sets import WIDTHS, gaussians, labeled, prepare
from _report import markdown_table

from bayesmkl.discriminative.primal.basis import fit_basis_mkl
from bayesmkl.discriminative.primal.primalmkl import fit_primalmkl
from bayesmkl.discriminative.primal.records import PrimalMKLOptions
from bayesmkl.discriminative.primal.solve import SquaredHinge
from bayesmkl.kernels.stacks.dense import DenseStack


def small_bases(fast: bool) -> tuple[str, dict[str, Any]]:
    """Accuracy and objective against the number of basis samples."""
    sizes = (2, 8) if fast else (1, 2, 5, 10, 20, 50)
    rows, numbers = [], {}
    for name in ("twonorm",) if fast else ("banana", "twonorm", "waveform", "wdbc"):
        X, y = labeled(name)
        cells: list[Any] = [name]
        numbers[name] = []
        runs = [prepare(X, y, 80 if fast else 350, seed, 2000) for seed in range(1 if fast else 3)]
        stacks = [(gaussians(p.X, p.X, WIDTHS[::3]), gaussians(p.X_test, p.X, WIDTHS[::3])) for p in runs]
        for size in (*sizes, None):
            found = [_sparse(problem, *pair, size) for problem, pair in zip(runs, stacks, strict=True)]
            score, support = np.mean([f[0] for f in found]), np.mean([f[1] for f in found])
            seconds = np.mean([f[2] for f in found])
            numbers[name].append({"size": size, "accuracy": score, "support": support, "seconds": seconds})
            cells.append(f"{score:.1f}" if size else f"{score:.1f} ({support:.0f})")
        rows.append(cells)
    headers = ["set", *map(str, sizes), "all (support vectors)"]
    text = (
        "Test accuracy against the number of basis samples (`max_basis`), λ = 0.5, 11 Gaussian kernels, "
        f"{len(runs)} splits with {len(runs[0].y)} training samples:\n\n"
    )
    return text + markdown_table(headers, rows), {"small_bases": numbers}


def _sparse(problem: Any, train: DenseStack, test: DenseStack, size: int | None) -> tuple[float, int, float]:
    start = time.perf_counter()
    arguments = train, problem.y[None], SquaredHinge(0.5), PrimalMKLOptions()
    result = fit_primalmkl(*arguments).result if size is None else fit_basis_mkl(*arguments, size).result
    seconds = time.perf_counter() - start
    scores = test.combine(result.kernel_weights) @ result.signed_dual[0] + result.intercept[0]
    return (
        100.0 * float(np.mean(np.sign(scores) == problem.y_test)),
        np.count_nonzero(result.signed_dual[0]),
        seconds,
    )
