"""Whole fits of PrimalMKL with LibSVM and with Newton's method inside.

Newton's method starts every SVM from the last solution; LibSVM starts from nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _global_inner import REGS, SETS, ratio, seconds_of
from _primal_sets import WIDTHS, gaussians, sample
from _report import markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative.primal.primalmkl import fit_primalmkl
from bayesmkl.discriminative.primal.records import PrimalMKLOptions
from bayesmkl.discriminative.primal.solve import SquaredHinge

SIZES, FAST_SIZES = (500, 1000), (40, 80)
FIT_WIDTHS = WIDTHS[::3]


def whole_fit(name: str, n_samples: int) -> list[dict[str, Any]]:
    """Fit PrimalMKL with Newton's method and with LibSVM inside."""
    X, y = sample(name, n_samples)
    stack = gaussians(X, X, FIT_WIDTHS)
    rows = []
    for reg in REGS:
        for solver in ("libsvm", "newton"):
            found, seconds = seconds_of(
                fit_primalmkl, stack, y[None], SquaredHinge(reg, solver), PrimalMKLOptions()
            )
            rows.append(
                {
                    "set": name,
                    "n": n_samples,
                    "reg": reg,
                    "solver": solver,
                    "seconds": seconds,
                    "solves": found.result.n_solves,
                    "objective": found.result.objective_history[-1],
                    "gap": found.result.duality_gap / found.result.objective_history[-1],
                }
            )
    return rows


def report(fits: list[dict[str, Any]]) -> str:
    """Write seconds and solves of both, and their ratios."""
    cells = []
    for n in dict.fromkeys(row["n"] for row in fits):
        own = [row for row in fits if row["n"] == n]
        seconds, solves = (
            [np.mean([row[key] for row in own if row["solver"] == s]) for s in ("libsvm", "newton")]
            for key in ("seconds", "solves")
        )
        ratios = ratio(fits, n, "newton")
        cells.append(
            [
                *(n, f"{seconds[0]:.2f}", f"{solves[0]:.0f}", f"{seconds[1]:.2f}", f"{solves[1]:.0f}"),
                *(f"{np.median(ratios):.2f}", f"{ratios.min():.2f} to {ratios.max():.2f}"),
            ]
        )
    text = (
        f"Whole fits with {len(FIT_WIDTHS)} kernels to a gap of 1e-3, the same sets and λ: seconds, SVMs solved, "
        "and the ratio of the seconds.\n\n"
    )
    headers = ["N", "LibSVM s", "SVMs", "Newton s", "SVMs", "Newton / LibSVM, median", "range"]
    return text + markdown_table(headers, cells)


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Return the table as Markdown, and all numbers."""
    names = SETS[:1] if fast else SETS
    with threadpool_limits(1):
        whole_fit(names[0], 40)  # imports and first calls
        fits = [row for n in (FAST_SIZES if fast else SIZES) for name in names for row in whole_fit(name, n)]
    return report(fits), {"fits": fits}
