"""What absent views cost: coverage of predictive intervals, and accuracy beside ways of filling them in.

Views go missing at random, in training and test samples alike, and every sample keeps at least one. Ours integrates
over what is absent; "means" fills features with the mean of their column, "zeros" fills kernels with zeros.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _family_sets import load
from _protocol import have_real_data
from _report import markdown_table, mean_and_std
from scipy.spatial.distance import pdist
from scipy.special import ndtri
from scipy.stats import ttest_rel
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian

__all__ = ["run"]

LEVEL = 0.94
ASKED = 0.02  # distance of the coverage from it
FRACTIONS = (0.1, 0.3, 0.5)
WAYS = ("integrated", "means", "zeros")
N_VIEWS, N_COLUMNS, SHARED = 4, 3, 0.8
WEIGHTS = np.array([1.0, 0.7, 0.4, 0.0])
N_WAVES, NOISE = 60, 0.3


class Data(NamedTuple):
    """Samples with NaN where a view is absent, in training and test part, and the columns of the views."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    views: dict[str, np.ndarray]


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Run both studies; the second needs mfeat, or the bundled digits in the short form."""
    n_repeats, n_train, n_test = (2, 40, 100) if fast else (20, 200, 1000)
    name = "mfeat" if not fast and have_real_data() else "digits"
    sizes = (1, 60, 60) if fast else (3, 500, 500) if name == "mfeat" else (3, 200, 200)
    fractions = (0.3,) if fast else FRACTIONS
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted below
        regression = [
            row
            for fraction in ((0.3,) if fast else (0.0, *FRACTIONS))
            for repeat in range(n_repeats)
            for row in intervals(simulate(fraction, n_train, n_test, repeat), fraction)
        ]
        classes = [
            row
            for fraction in fractions
            for repeat in range(sizes[0])
            for row in accuracies(
                class_set(name, fraction, *sizes[1:], repeat), fraction, 1e-3 if fast else 1e-5
            )
        ]
    text = "\n\n".join([
        f"Simulated regression: {N_VIEWS} correlated views of {N_COLUMNS} columns, one Gaussian kernel each, "
        f"{n_train} training and {n_test} test samples, {n_repeats} repeats; intervals of {LEVEL:.0%}.",
        interval_table(regression),
        verdict_of_intervals(regression),
        f"{name}: one Gaussian per view at its median distance, {sizes[1]} training and {sizes[2]} test samples, "
        f"{sizes[0]} random splits; one model for all classes.",
        accuracy_table(classes),
        verdict_of_classes(classes),
    ])  # fmt: skip
    return text, {"regression": regression, "classes": classes}


# --------------------------------------------------------------------------------------------------------- data


def lose(rng: np.random.Generator, n_samples: int, n_views: int, fraction: float) -> np.ndarray:
    """Draw which sample lacks which view, (n_samples, n_views); who would lack all is drawn again."""
    lost = rng.random((n_samples, n_views)) < fraction
    while (all_lost := lost.all(axis=1)).any():
        lost[all_lost] = rng.random((all_lost.sum(), n_views)) < fraction
    return lost


def without(X: np.ndarray, views: dict[str, np.ndarray], lost: np.ndarray) -> np.ndarray:
    """Return the samples with NaN in the columns of the views that they lost."""
    X = X.copy()
    for columns, gone in zip(views.values(), lost.T, strict=True):
        X[np.ix_(gone, columns)] = np.nan
    return X


def simulate(fraction: float, n_train: int, n_test: int, repeat: int) -> Data:
    """Correlated views, and a target that is a weighted sum of random waves in each of them."""
    rng, n = np.random.default_rng(repeat), n_train + n_test
    common = rng.normal(size=(n, N_COLUMNS))
    X = SHARED * common + np.sqrt(1.0 - SHARED**2) * rng.normal(size=(N_VIEWS, n, N_COLUMNS))
    signal = np.zeros(n)
    for weight, view in zip(WEIGHTS, X, strict=True):
        waves = np.cos(0.4 * view @ rng.normal(size=(N_COLUMNS, N_WAVES)) + 2.0 * np.pi * rng.random(N_WAVES))
        signal += weight * waves @ rng.normal(size=N_WAVES)
    y = signal + NOISE * signal.std() * rng.normal(size=n)
    views = {f"view {m}": np.arange(N_COLUMNS) + m * N_COLUMNS for m in range(N_VIEWS)}
    X = without(np.concatenate(list(X), axis=1), views, lose(rng, n, N_VIEWS, fraction))
    return Data(X[:n_train], y[:n_train], X[n_train:], y[n_train:], views)


def class_set(name: str, fraction: float, n_train: int, n_test: int, repeat: int) -> Data:
    """Read a set of views, lose some, standardize what is left and scale each view to median distance 1."""
    data, rng = load(name), np.random.default_rng(repeat)
    X = without(data.X, data.views, lose(rng, len(data.y), len(data.views), fraction))
    train, test = train_test_split(
        np.arange(len(X)), train_size=n_train, test_size=n_test, stratify=data.y, random_state=repeat
    )
    scaler = StandardScaler().fit(X[train])  # of the samples that have the view
    X, X_test = scaler.transform(X[train]), scaler.transform(X[test])
    for columns in data.views.values():
        median = np.median(pdist(X[:, columns][~np.isnan(X[:, columns[0]])]))
        X[:, columns] /= median
        X_test[:, columns] /= median
    return Data(X, data.y[train], X_test, data.y[test], dict(data.views))


# -------------------------------------------------------------------------------------------------------- models


def fitted(model: Any, data: Data, way: str, width: float) -> tuple[Any, Any]:
    """Fit a model to what one way makes of absent views; return it with the test samples it takes."""
    bank = KernelBank(Gaussian(width=width), views=data.views)
    if way == "integrated":
        return model.set_params(kernels=bank, missing_views="integrate").fit(data.X, data.y), data.X_test
    if way == "means":
        mean = np.nanmean(data.X, axis=0)
        X, X_test = (np.where(np.isnan(part), mean, part) for part in (data.X, data.X_test))
        return model.set_params(kernels=bank).fit(X, data.y), X_test
    bank = bank.set_params(missing_views="keep").fit(data.X)
    X, X_test = (np.nan_to_num(bank.transform(part)) for part in (data.X, data.X_test))
    return model.set_params(kernels="precomputed").fit(X, data.y), X_test


def intervals(data: Data, fraction: float) -> list[dict[str, Any]]:
    """Coverage, width and fit of the intervals that each way predicts."""
    rows, incomplete = [], np.isnan(data.X_test).any(axis=1)
    for way in WAYS if fraction else WAYS[:1]:
        start = time.process_time()
        model, X_test = fitted(BEMKLRegressor(tol=1e-5), data, way, 2.0 * np.sqrt(N_COLUMNS))
        mean, std = model.predict(X_test, return_std=True)
        inside = np.abs(data.y_test - mean) <= ndtri(0.5 + LEVEL / 2.0) * std
        rows.append({
            "fraction": fraction,
            "way": way,
            "coverage": 100.0 * float(inside.mean()),
            "incomplete": 100.0 * float(inside[incomplete].mean()) if incomplete.any() else None,
            "width": 2.0 * ndtri(0.5 + LEVEL / 2.0) * float(std.mean()) / float(data.y_test.std()),
            "r2": 1.0 - float(np.mean((data.y_test - mean) ** 2) / data.y_test.var()),
            "sweeps": int(model.n_iter_),
            "converged": bool(model.converged_),
            "seconds": time.process_time() - start,
        })  # fmt: skip
    return rows


def accuracies(data: Data, fraction: float, tol: float) -> list[dict[str, Any]]:
    """Accuracy and log loss of each way."""
    rows = []
    for way in WAYS:
        start = time.process_time()
        model, X_test = fitted(BEMKLClassifier(tol=tol, margin=1.0, intermediate_scale=1.0), data, way, 1.0)
        probabilities = model.predict_proba(X_test)
        position = np.searchsorted(model.classes_, data.y_test)
        rows.append({
            "fraction": fraction,
            "way": way,
            "accuracy": 100.0 * float(np.mean(probabilities.argmax(axis=1) == position)),
            "log loss": -float(np.log(probabilities[np.arange(len(position)), position]).mean()),
            "sweeps": int(model.n_iter_),
            "converged": bool(model.converged_),
            "seconds": time.process_time() - start,
        })  # fmt: skip
    return rows


# -------------------------------------------------------------------------------------------------------- tables


def cells(rows: list[dict[str, Any]]) -> dict[tuple[float, str], list[dict[str, Any]]]:
    """Rows by fraction and way."""
    keys = dict.fromkeys((row["fraction"], row["way"]) for row in rows)
    return {key: [row for row in rows if (row["fraction"], row["way"]) == key] for key in keys}


def interval_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of the regression."""
    headers = ["missing, way", "coverage %", "of incomplete %", "width / sd", "R²", "sweeps", "converged"]
    body = []
    for (fraction, way), cell in cells(rows).items():
        incomplete = [row["incomplete"] for row in cell if row["incomplete"] is not None]
        body.append([
            f"{fraction:.0%}, {way}",
            mean_and_std([row["coverage"] for row in cell], 1),
            mean_and_std(incomplete, 1) if incomplete else "",
            *(mean_and_std([row[name] for row in cell], 2) for name in ("width", "r2")),
            mean_and_std([row["sweeps"] for row in cell], 0),
            f"{sum(row['converged'] for row in cell)}/{len(cell)}",
        ])  # fmt: skip
    return markdown_table(headers, body)


def accuracy_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of the classes."""
    headers = ["missing, way", "accuracy %", "log loss", "sweeps", "CPU s", "converged"]
    body = []
    for (fraction, way), cell in cells(rows).items():
        columns = (("accuracy", 1), ("log loss", 3), ("sweeps", 0), ("seconds", 0))
        body.append([
            f"{fraction:.0%}, {way}",
            *(mean_and_std([row[name] for row in cell], digits) for name, digits in columns),
            f"{sum(row['converged'] for row in cell)}/{len(cell)}",
        ])  # fmt: skip
    return markdown_table(headers, body)


def verdict_of_intervals(rows: list[dict[str, Any]]) -> str:
    """Say whether the coverage of ours stays where it should, at every fraction."""
    found = cells(rows)
    parts = []
    for (fraction, way), cell in found.items():
        if way == "integrated":
            mean = np.mean([row["coverage"] for row in cell]) / 100.0
            parts.append(f"{fraction:.0%}: {mean:.1%} ({'yes' if abs(mean - LEVEL) <= ASKED else 'no'})")
    return f"Coverage within {100 * ASKED:.0f} points of {LEVEL:.0%}, integrated: {'; '.join(parts)}."


def verdict_of_classes(rows: list[dict[str, Any]]) -> str:
    """Compare ours with both ways of filling in, split by split."""
    ours = [row for row in rows if row["way"] == "integrated"]
    parts = []
    for way in WAYS[1:]:
        others = [row for row in rows if row["way"] == way]
        above = np.array([a["accuracy"] - b["accuracy"] for a, b in zip(ours, others, strict=True)])
        lower = np.array([b["log loss"] - a["log loss"] for a, b in zip(ours, others, strict=True)])
        test = ""
        if len(ours) > 2:
            first, second = ([row["accuracy"] for row in each] for each in (ours, others))
            test = f", paired t-test p = {ttest_rel(first, second).pvalue:.2g}"
        parts.append(
            f"against {way}: accuracy {above.mean():+.1f} points (higher in {(above > 0).sum()} of {len(above)}{test}"
            f"), log loss {-lower.mean():+.3f} (lower in {(lower > 0).sum()})"
        )
    return f"Integrated {'; '.join(parts)}."
