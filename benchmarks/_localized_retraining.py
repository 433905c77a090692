"""LD-MKL's second training: what it does to support points and accuracy (section 4 of the unified view).

The paper trains each machine again on the samples whose gate is at least 1 / P, which "reduces the support points".
`threshold=0` leaves the first machines as they are; everything else is the same, gates included.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _localized_mwu import problems
from _protocol import have_real_data
from _report import markdown_table, mean_and_std
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from threadpoolctl import threadpool_limits

from bayesmkl.reproduction import localized

__all__ = ["run"]

N_SPLITS = 20
TEMPERATURES = (1.0, 0.1)  # the paper's, and the default
THRESHOLDS = {"first machines": 0.0, "trained again": "paper"}


def fit(
    model: Pipeline, part: list[np.ndarray], temperature: float, threshold: float | str
) -> dict[str, float]:
    """Return shares of the training samples, and accuracy, in %."""
    X, X_test, y, y_test = part
    model = clone(model).set_params(model__temperature=temperature, model__threshold=threshold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # narrow Gaussian kernels are near the identity
        fitted = model.fit(X, y)["model"]
        accuracy = 100.0 * model.score(X_test, y_test)
    return {
        "support": 100.0 * fitted.support_fraction_,
        "per_machine": 100.0 * float(np.mean(fitted.dual_coef_ != 0.0)),
        "selected": 100.0 * float(np.mean(fitted.n_selected_)) / len(y),
        "accuracy": accuracy,
    }


def choose_width(
    name: str, gammas: tuple[float, ...], X: np.ndarray, y: np.ndarray
) -> tuple[float, Pipeline]:
    """Return a width by three folds of the training samples, and LD-MKL at it."""
    ranges = [localized.features_in(name, gamma) for gamma in gammas]
    pipe = Pipeline([("scale", MinMaxScaler()), ("model", localized.ld_mkl())])
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(pipe, {"scale__feature_range": ranges}, cv=folds, refit=False).fit(X, y)
    best = search.best_index_
    return gammas[best], pipe.set_params(scale__feature_range=ranges[best])


def run(fast: bool, splits: int | None = None) -> tuple[str, dict[str, Any]]:
    """Fit LD-MKL with and without its second training on the same splits."""
    here = fast or not have_real_data()
    n_splits = splits or (2 if fast else N_SPLITS)
    numbers: dict[str, Any] = {}
    with threadpool_limits(1):
        for name, (X, y) in problems(here, 150 if fast else None).items():
            parts = [
                train_test_split(X, y, test_size=localized.TEST_SHARE, random_state=seed)
                for seed in range(n_splits)
            ]
            gammas = localized.GAMMAS[2:4] if fast else localized.GAMMAS[: localized.N_WIDTHS.get(name)]
            X, _, y, _ = parts[0]
            gamma, model = choose_width(name, gammas, X, y)
            numbers[name] = {"gamma": gamma, "n_train": len(y)}
            for temperature in TEMPERATURES:
                numbers[name][f"{temperature:g}"] = {
                    label: [fit(model, part, temperature, threshold) for part in parts]
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
