"""Inner solvers of PrimalMKL: LibSVM beside Newton's method and conjugate gradients, on more and more samples.

One SVM at uniform weights, for which all of them start from nothing. Whole fits, in which Newton's method starts from
the last solution and LibSVM does not, are another section, `_global_fits.py`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _primal_sets import WIDTHS, gaussians, sample
from _report import markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.discriminative.primal.solve import SquaredHinge, solve_dual, solve_primal
from bayesmkl.discriminative.primal.steps import PrimalProblem

SOLVERS = {
    "libsvm": "LibSVM",
    "newton": "Newton",
    "truncated": "truncated Newton",
    "pcg": "conjugate gradients",
}
SETS = ("twonorm", "waveform", "banana")
REGS = (1.0, 0.1, 0.01)
SIZES = (500, 1000, 1500, 2000, 3000, 4000)
FAST_SIZES = (40, 80)
TOL = 1e-4


def seconds_of(action: Any, *arguments: Any) -> tuple[Any, float]:
    """Return the result, and seconds of the processor."""
    start = time.process_time()
    found = action(*arguments)
    return found, time.process_time() - start


def solve(kernel: np.ndarray, problem: PrimalProblem, solver: str) -> InnerSolution:
    """Solve one SVM to the same tolerance."""
    if solver == "libsvm":
        return solve_dual(kernel, problem, TOL)[0]
    return solve_primal(kernel, problem, solver, TOL).solution


def one_svm(name: str, n_samples: int) -> list[dict[str, Any]]:
    """Solve for the mean of all kernels, with every solver."""
    X, y = sample(name, n_samples)
    kernel = np.zeros((n_samples, n_samples))
    for width in WIDTHS:
        kernel += gaussians(X, X, [width]).kernels[0] / len(WIDTHS)
    rows = []
    for reg in REGS:
        for solver in SOLVERS:
            solution, seconds = seconds_of(solve, kernel, SquaredHinge(reg).problem(y), solver)
            rows.append(
                {
                    "set": name,
                    "n": n_samples,
                    "reg": reg,
                    "solver": solver,
                    "seconds": seconds,
                    "objective": solution.objective,
                    "gap": solution.gap / solution.objective,
                    "support": float(np.mean(solution.signed_dual != 0.0)),
                }
            )
    return rows


def ratio(rows: list[dict[str, Any]], n: int, solver: str, key: str = "seconds") -> np.ndarray:
    """Return numbers of a solver over those of LibSVM, problem by problem."""
    at = {(row["set"], row["reg"], row["solver"]): row[key] for row in rows if row["n"] == n}
    return np.array([value / at[name, reg, "libsvm"] for (name, reg, s), value in at.items() if s == solver])


def report(svms: list[dict[str, Any]]) -> str:
    """Write the seconds, and how they grow."""
    sizes = list(dict.fromkeys(row["n"] for row in svms))
    cells = []
    for n in sizes:
        seconds = [np.mean([r["seconds"] for r in svms if (r["n"], r["solver"]) == (n, s)]) for s in SOLVERS]
        ratios = ratio(svms, n, "newton")
        cells.append([n, *(f"{1e3 * s:.0f}" for s in seconds), f"{ratios.min():.1f} to {ratios.max():.1f}"])
    grows = []
    for solver, label in SOLVERS.items():
        ends = [np.mean([r["seconds"] for r in svms if (r["n"], r["solver"]) == (n, solver)]) for n in sizes]
        late = slice(len(sizes) // 2 - 1, None)
        grows.append(f"{label} N^{np.polyfit(np.log(sizes[late]), np.log(ends[late]), 1)[0]:.1f}")
    away = max(
        abs(row["objective"] / other["objective"] - 1.0)
        for row in svms
        for other in svms
        if all(row[key] == other[key] for key in ("set", "n", "reg"))
    )
    names, regs = ", ".join(dict.fromkeys(row["set"] for row in svms)), ", ".join(f"{reg:g}" for reg in REGS)
    text = (
        f"One SVM on the mean of 31 Gaussian kernels to a violation of {TOL:g}: milliseconds of one processor, means "
        f"over {names} and λ of {regs}; and by how many times Newton's method takes longer than LibSVM. Objectives "
        f"differ by at most {away:.0e}, relatively.\n\n"
    )
    text += markdown_table(["N", *SOLVERS.values(), "Newton / LibSVM"], cells)
    return f"{text}\n\nSeconds from N = {sizes[len(sizes) // 2 - 1]} on grow as: {', '.join(grows)}."


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Return the table as Markdown, and all numbers."""
    names = SETS[:1] if fast else SETS
    with threadpool_limits(1):
        one_svm(names[0], 40)  # imports and first calls
        svms = [row for n in (FAST_SIZES if fast else SIZES) for name in names for row in one_svm(name, n)]
    return report(svms), {"one_svm": svms}
