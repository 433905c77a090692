r"""Gaussian kernels of any width, chosen greedily, beside banks of widths: is a list of widths enough?

PrimalMKL's paper recalls the greedy algorithm of Argyriou et al. for kernels with a continuous parameter (Hao et al.
2012, §4.1): the width whose kernel :math:`G(\omega)` lowers the objective fastest, the best step on the line to it,
:math:`K \leftarrow v\, G(\omega) + (1 - v) K`, and again. Here it lowers the objective of PrimalMKL. With the
coefficients v of the learner of K, the derivative of the objective towards G is
:math:`-\tfrac12 v^\top (G - K) v`; where none is steeper than the tolerance, no width would help any more.

    BAYESMKL_DATA=folder python benchmarks/continuous_widths.py    five sets, two regularizations
    python benchmarks/continuous_widths.py --fast                  80 samples of wdbc, one regularization
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _primal_sets import WIDTHS, sample, squared_distances
from _protocol import have_real_data
from _report import finish, markdown_table, parser
from scipy.optimize import minimize_scalar

from bayesmkl.discriminative.primal.primalmkl import fit_primalmkl
from bayesmkl.discriminative.primal.records import PrimalMKLOptions
from bayesmkl.discriminative.primal.solve import SquaredHinge, solve_primal
from bayesmkl.kernels.stacks.dense import DenseStack

SETS = ("sonar", "ionosphere", "bupaliver", "pima", "wdbc")
POWERS = 2.0 ** np.arange(-5.0, 6.0)
TOL, MOST_STEPS, GRID = 1e-3, 300, np.geomspace(WIDTHS[0], WIDTHS[-1], 60)


def greedy(squares: np.ndarray, y: np.ndarray, reg: float, most: int = MOST_STEPS) -> dict[str, Any]:
    """Return the objective of the greedy algorithm, what is left to gain to first order, and the chosen widths."""
    problem = SquaredHinge(reg).problem(y)

    def gaussian(log_width: float) -> np.ndarray:
        return np.exp(-0.5 * squares / np.exp(2.0 * log_width))

    def objective(kernel: np.ndarray) -> Any:
        return solve_primal(kernel, problem, "newton", 1e-8).solution

    logs = np.log(GRID)
    step = np.log(GRID[1] / GRID[0])
    first = min(logs, key=lambda log: objective(gaussian(log)).objective)
    kernel, chosen = gaussian(first), [float(np.exp(first))]
    for _ in range(most):
        learner = objective(kernel)
        v = learner.signed_dual

        def slope(log_width: float, v: np.ndarray = v) -> float:
            return -float(v @ gaussian(log_width) @ v)

        at = logs[int(np.argmin([slope(log) for log in logs]))]
        best = minimize_scalar(
            slope, bounds=(max(at - step, logs[0]), min(at + step, logs[-1])), method="bounded"
        ).x
        gap = 0.5 * (-slope(best) - float(v @ kernel @ v))
        if gap <= TOL * learner.objective:
            break
        towards = gaussian(best)
        length = minimize_scalar(
            lambda t, a=kernel, b=towards: objective((1.0 - t) * a + t * b).objective,
            bounds=(0.0, 1.0),
            method="bounded",
        ).x
        kernel = (1.0 - length) * kernel + length * towards
        chosen.append(float(np.exp(best)))
    return {
        "objective": float(learner.objective),
        "gap": gap / learner.objective,
        "steps": len(chosen) - 1,
        "widths": chosen,
    }


def of_bank(squares: np.ndarray, y: np.ndarray, reg: float, widths: np.ndarray) -> float:
    """Return the best objective of a bank, in the same units."""
    stack = DenseStack(np.stack([np.exp(-0.5 * squares / width**2) for width in widths]))
    found = fit_primalmkl(stack, y[None], SquaredHinge(reg), PrimalMKLOptions(tol=1e-5))
    combined = stack.combine(found.result.kernel_weights)
    return float(solve_primal(combined, SquaredHinge(reg).problem(y), "newton", 1e-8).solution.objective)


def measure(fast: bool) -> list[dict[str, Any]]:
    """All sets and regularizations."""
    short = fast or not have_real_data()
    rows = []
    for name in ("wdbc",) if short else SETS:
        X, y = sample(name, 80 if short else 240)
        squares = squared_distances(X, X)
        for reg in (1.0,) if short else (1.0, 0.1):
            found = greedy(squares, y, reg, 20 if short else MOST_STEPS)
            banks = {f"{len(w)} widths": of_bank(squares, y, reg, w) for w in (POWERS, WIDTHS)}
            rows.append({"set": name, "reg": reg, **banks, **found})
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """Objectives of banks over that of the greedy algorithm."""
    names = [f"{len(widths)} widths" for widths in (POWERS, WIDTHS)]
    few, many = names
    lines = [
        f"{row['set']} | {row['reg']:g} | {100 * (row[few] / row['objective'] - 1):+.2f} | "
        f"{100 * (row[many] / row['objective'] - 1):+.2f} | {row['steps']} | {100 * row['gap']:.2f} | "
        f"{min(row['widths']):.2g} to {max(row['widths']):.2g}"
        for row in rows
    ]
    heads = f"set | λ | {few}, % | {many}, % | greedy steps | left to gain, % | widths chosen"
    worst = {name: max(100 * (row[name] / row["objective"] - 1) for row in rows) for name in names}
    return (
        f"{markdown_table(heads, lines)}\n\n"
        f"Objectives of PrimalMKL with banks, above that of the greedy algorithm on all widths from {WIDTHS[0]:.2g} "
        f"to {WIDTHS[-1]:.2g}, whose own could still fall by what is left to gain. The worst is "
        + " and ".join(f"{value:+.2f} % with {name}" for name, value in worst.items())
        + "."
    )


def main() -> None:
    """Measure, print."""
    options = parser(__doc__).parse_args()
    rows = measure(options.fast)
    finish(options, "continuous_widths", report(rows), {"rows": rows})


if __name__ == "__main__":
    main()
