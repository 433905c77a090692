"""LD-MKL's second training: what it does to support points and accuracy (section 4 of the unified view).

The paper trains each machine again on the samples whose gate is at least 1 / P, which "reduces the support points".
`threshold=0` leaves the first machines as they are; everything else is the same, gates included.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _localized_sets import SMALL, load, scaled
from _protocol import have_real_data
from _report import markdown_table, mean_and_std
from papers import localized
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from threadpoolctl import threadpool_limits

N_SPLITS = 20
TEMPERATURES = (1.0, 0.1)  # the paper's, and the default
THRESHOLDS = {"first machines": 0.0, "trained again": "paper"}


def width_of(name: str, X: np.ndarray, y: np.ndarray, n_widths: int | None) -> float:
    """Return the width with the best accuracy in cross-validation; the widest kernel of equals."""
    models = {
        gamma: make_pipeline(MinMaxScaler(localized.feature_range(name, gamma)), localized.ld_mkl())
        for gamma in localized.GAMMAS[: n_widths or localized.N_WIDTHS.get(name)]
    }
    return max(models, key=lambda gamma: cross_val_score(models[gamma], X, y, cv=3).mean())


def fit(part: tuple[np.ndarray, ...], temperature: float, threshold: float | str) -> dict[str, float]:
    """Return shares of the training samples, and accuracy, in %."""
    X, X_test, y, y_test = part
    model = localized.ld_mkl().set_params(temperature=temperature, threshold=threshold).fit(X, y)
    return {
        "support": 100.0 * model.support_fraction_,
        "per_machine": 100.0 * float(np.mean(model.dual_coef_ != 0.0)),
        "selected": 100.0 * float(np.mean(model.n_selected_)) / len(y),
        "accuracy": 100.0 * model.score(X_test, y_test),
    }


def run(fast: bool, splits: int | None = None) -> tuple[str, dict[str, Any]]:
    """Fit LD-MKL with and without its second training on the same splits."""
    names = SMALL if have_real_data() and not fast else ("wdbc",)
    n_splits = splits or (2 if fast else N_SPLITS)
    numbers: dict[str, Any] = {}
    # narrow Gaussian kernels are near the identity
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for name in names:
            X, y = load(name)
            first, _, first_y, _ = train_test_split(X, y, test_size=localized.TEST_SHARE, random_state=0)
            gamma = width_of(name, first, first_y, 2 if fast else None)
            limits = localized.feature_range(name, gamma)
            parts = [scaled(limits, X, y, seed) for seed in range(n_splits)]
            numbers[name] = {"gamma": gamma, "n_train": len(first_y)}
            for temperature in TEMPERATURES:
                numbers[name][f"{temperature:g}"] = {
                    label: [fit(part, temperature, threshold) for part in parts]
                    for label, threshold in THRESHOLDS.items()
                }
    return report(numbers, n_splits), numbers


def report(numbers: dict[str, Any], n_splits: int) -> str:
    """Write support points of both, and the paired difference."""
    rows = []
    for name, found in numbers.items():
        for temperature in TEMPERATURES:
            first, again = (found[f"{temperature:g}"][label] for label in THRESHOLDS)
            row = [f"{name} ({found['n_train']})", f"{temperature:g}"]
            row.append(mean_and_std([one["selected"] for one in again], 0))
            for key in ("support", "per_machine", "accuracy"):
                row += [mean_and_std([one[key] for one in fits], 1) for fits in (first, again)]
            rows.append(row)
    headers = ["set (training samples)", "temperature", "trained on (%)", "support (%)", "again"]
    headers += ["per machine (%)", "again", "accuracy (%)", "again"]
    return (
        "LD-MKL with the machines that were trained on all samples, and *again* on those whose gate is at least one "
        f"half: {n_splits} random splits, two kernels, gates as in the paper, the width chosen by cross-validation "
        "once per set. Support: samples that are a support vector of either machine; per machine: of one of them, on "
        "average.\n\n" + markdown_table(headers, rows)
    )
