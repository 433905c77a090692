"""Multiplicative weights as the machine inside localized methods: table 3 of the unified view, and accuracy.

How fast and how accurate methods are with either machine; what a smaller epsilon costs, and which one gives the
paper's times. How much memory either takes is another section, `_localized_memory.py`.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from _localized_mwu_report import COSTLY_ROWS, EPSILON, Found, report_claims, report_epsilon, report_table
from _localized_protocol import GAMMAS, VARIANTS, Split, choose_width, load, split
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative.global_weights import mwumkl

__all__ = ["run"]

EPSILONS = (0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
SWEPT = ("LMKL, paper's search", "LMKL", "C-LMKL", "SwMKL", "LD-MKL")
SMALL = ("breast", "diabetes", "german", "liver")
TITLES = (
    "LMKL, paper's search",
    "LMKL",
    "SwMKL, paper",
    "SwMKL",
    "LD-MKL, paper",
    "LD-MKL",
    "C-LMKL",
)


class StepCount:
    """Machines and steps of multiplicative weights: takes the place of their function."""

    def __init__(self) -> None:
        self.n_machines = self.n_steps = 0
        self._fit = mwumkl.fit_mwumkl

    def __enter__(self) -> StepCount:
        mwumkl.fit_mwumkl = self._counted
        return self

    def __exit__(self, *_: Any) -> None:
        mwumkl.fit_mwumkl = self._fit

    def _counted(self, *arguments: Any) -> Any:
        result = self._fit(*arguments)
        self.n_machines += 1
        self.n_steps += len(result.objective_history)
        return result


def fit(title: str, gamma: float, part: Split, epsilon: float | None) -> Found:
    """Fit with multiplicative weights, or with LibSVM where `epsilon` is None."""
    model = VARIANTS[title].make(part.bank(gamma))
    if epsilon is not None:
        model.set_params(svm="mwu", mwu_epsilon=epsilon)
    with warnings.catch_warnings(), StepCount() as count:
        warnings.simplefilter("ignore")  # narrow Gaussian kernels are near the identity
        start = time.process_time()
        model.fit(part.X, part.y)
        seconds = time.process_time() - start
        accuracy = 100.0 * model.score(part.X_test, part.y_test)
    return Found(accuracy, 100.0 * model.support_fraction_, seconds, count.n_machines, count.n_steps)


def run(fast: bool, splits: int | None = None) -> tuple[str, dict[str, Any]]:
    """All three parts, on the paper's sets or on wdbc where these are missing."""
    here = fast or not os.environ.get("BAYESMKL_DATA")
    names = ("wdbc",) if here else (*SMALL, "mushrooms")
    n_splits = splits or (1 if here else 6)
    rows = 60 if fast else None
    titles = SWEPT[2:] if fast else TITLES
    epsilons = (0.3, EPSILON) if fast else EPSILONS
    with threadpool_limits(1):
        table = {
            name: compare(name, titles, n_splits if name in SMALL or here else 1, rows) for name in names
        }
        swept = {name: sweep(name, table[name], epsilons, rows) for name in names if name != "mushrooms"}
    numbers = {"table": table, "epsilon": swept}
    parts = [
        report_table(table, n_splits, here),
        report_claims(table),
        report_epsilon(swept),
    ]
    return "\n\n".join(parts), numbers


def parts_of(name: str, seed: int, title: str, n_rows: int | None) -> Split:
    """Return a split, cut for methods that take long on mushrooms."""
    X, y = load(name)
    chosen = np.random.default_rng(0).permutation(len(y))[:n_rows]
    part = split(X[chosen], y[chosen], seed)
    if name == "mushrooms" and VARIANTS[title].costly:
        part = part._replace(X=part.X[:COSTLY_ROWS], y=part.y[:COSTLY_ROWS])
    return part


def compare(name: str, titles: tuple[str, ...], n_splits: int, n_rows: int | None) -> dict[str, Any]:
    """Fit with either machine on the same splits, at the width that cross-validation with LibSVM chose once."""
    found: dict[str, Any] = {}
    for title in titles:
        first = parts_of(name, 0, title, n_rows)
        gamma = float(GAMMAS[choose_width(VARIANTS[title], GAMMAS, first, 0) if n_rows is None else 1])
        fits = {"libsvm": [], "mwu": []}
        for seed in range(n_splits):
            part = parts_of(name, seed, title, n_rows)
            fits["libsvm"].append(fit(title, gamma, part, None)._asdict())
            fits["mwu"].append(fit(title, gamma, part, EPSILON)._asdict())
        found[title] = {"gamma": gamma, "n_train": len(part.y), **fits}
    return found


def sweep(
    name: str, chosen: dict[str, Any], epsilons: tuple[float, ...], n_rows: int | None
) -> dict[str, Any]:
    """Fit on the first split with one epsilon after the other."""
    found = {}
    for title in SWEPT:
        if title in chosen:
            part, gamma = parts_of(name, 0, title, n_rows), chosen[title]["gamma"]
            fits = {str(epsilon): fit(title, gamma, part, epsilon)._asdict() for epsilon in epsilons}
            found[title] = {"n_train": len(part.y), "fits": fits}
    return found
