"""What absent views cost: coverage of predictive intervals, and log loss beside ways of filling them in.

Views go missing at random, in training and test samples alike, and every sample keeps at least one. "integrated" is
``missing_views="integrate"``; "means" fills features with the mean of their column, "zeros" fills kernels with zeros;
"complete" is fitted to the samples that have all views, and fills test samples with the means of these. "BEMKL,
centered" has kernels that are centered on the samples that have their view, as integrating centers them. A full run
appends a JSON line per model, way, missing part and repeat to benchmarks/results/family_missing.jsonl, and continues
where the last one stopped; remove the file to start over.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from _cells import append, read
from _family_sets import load
from _protocol import have_real_data
from _report import ROOT, claim, markdown_table, mean_and_std
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import pdist
from scipy.special import logsumexp, ndtri
from scipy.stats import ttest_rel
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian, KernelQualityWarning
from bayesmkl.marginal import Marginal

RESULTS = ROOT / "benchmarks" / "results" / "family_missing.jsonl"
LEVEL = 0.94
ASKED = 0.02  # distance of the coverage from it
FRACTIONS = (0.1, 0.3, 0.5)
WAYS = ("integrated", "means", "zeros", "complete")
N_VIEWS, N_COLUMNS, SHARED = 4, 3, 0.8
WEIGHTS = np.array([1.0, 0.7, 0.4, 0.0])
N_WAVES, NOISE = 60, 0.3
FEW = Marginal(n_points=100, n_draws=200)
CENTERED = "BEMKL, centered"
REGRESSORS = {"GPMKL": lambda: GPMKLRegressor(inference=FEW), "BEMKL": lambda: BEMKLRegressor(tol=1e-5)}
CLASSIFIERS = {
    "GPMKL": lambda tol: GPMKLClassifier(inference=FEW, temperature=1.0),
    "BEMKL": lambda tol: BEMKLClassifier(tol=tol, margin=1.0, intermediate_scale=1.0),
    CENTERED: lambda tol: BEMKLClassifier(tol=tol, margin=1.0, intermediate_scale=1.0),
}


class Data(NamedTuple):
    """Samples with NaN where a view is absent, in training and test part, and the columns of the views."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    views: dict[str, np.ndarray]


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Run both studies; the second needs mfeat, or the bundled digits in the short form."""
    n_repeats, n_train, n_test = (1, 30, 40) if fast else (10, 200, 1000)
    name = "mfeat" if not fast and have_real_data() else "digits"
    sizes = (1, 40, 40) if fast else (2, 500, 500) if name == "mfeat" else (3, 200, 200)
    fractions = (0.3,) if fast else FRACTIONS
    cells = [
        (study, method, fraction, repeat)
        for repeat in range(max(n_repeats, sizes[0]))
        for study, methods, n in (("classes", CLASSIFIERS, sizes[0]), ("regression", REGRESSORS, n_repeats))
        for fraction in (fractions if fast else (0.0, *fractions))
        for method in methods
        if repeat < n and (study, fraction, method) != ("classes", 0.0, "GPMKL")
    ]
    cells.sort(key=lambda cell: (cell[3] > 0, cell[0] == "classes"))  # one split of all first
    known = [] if fast else read(RESULTS)
    done = {(row["study"], row["method"], row["fraction"], row["repeat"]) for row in known}
    with threadpool_limits(1), warnings.catch_warnings():
        for category in (ConvergenceWarning, KernelQualityWarning):  # the first is counted below
            warnings.simplefilter("ignore", category)
        for cell in cells:
            if cell in done:
                continue
            study, method, fraction, repeat = cell
            if study == "regression":
                found = intervals(simulate(fraction, n_train, n_test, repeat), fraction, REGRESSORS[method])
            else:
                data = class_set(name, fraction, *sizes[1:], repeat)
                found = accuracies(data, fraction, method, 1e-3 if fast else 1e-5)
            rows = [{"study": study, "method": method, "repeat": repeat} | row for row in found]
            for row in rows:  # together, so that no cell is done in part
                known.append(row)
                if not fast:
                    append(RESULTS, row)
    regression, classes = (
        [row for row in known if row["study"] == study] for study in ("regression", "classes")
    )
    text = "\n\n".join([
        f"Simulated regression: {N_VIEWS} correlated views of {N_COLUMNS} columns, one Gaussian kernel each, "
        f"{n_train} training and {n_test} test samples, {n_repeats} repeats; intervals of {LEVEL:.0%}.",
        interval_table(regression),
        *(verdict_of_intervals(regression, method) for method in REGRESSORS),
        f"{name}: one Gaussian per view at its median distance, {sizes[1]} training and {sizes[2]} test samples, "
        f"{sizes[0]} random splits; one model for all classes.",
        accuracy_table(classes),
        *(verdict_of_classes(classes, method) for method in CLASSIFIERS if method != CENTERED),
    ])  # fmt: skip
    numbers = {"regression": regression, "classes": classes}
    return text, numbers if fast else numbers | {"claims": claims(regression, classes)}


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


def fitted(model: Any, data: Data, way: str, width: float, normalize: Any = "spherical") -> tuple[Any, Any]:
    """Fit a model to what one way makes of absent views; return it with the test samples it takes."""
    bank = KernelBank(Gaussian(width=width), views=data.views, normalize=normalize)
    if way == "integrated":
        return model.set_params(kernels=bank, missing_views="integrate").fit(data.X, data.y), data.X_test
    if way in ("means", "complete"):
        kept = np.full(len(data.y), True) if way == "means" else ~np.isnan(data.X).any(axis=1)
        mean = np.nanmean(data.X[kept], axis=0)
        X, X_test = (np.where(np.isnan(part), mean, part) for part in (data.X[kept], data.X_test))
        return model.set_params(kernels=bank).fit(X, data.y[kept]), X_test
    bank = bank.set_params(missing_views="keep").fit(data.X)
    X, X_test = (np.nan_to_num(bank.transform(part)) for part in (data.X, data.X_test))
    return model.set_params(kernels="precomputed").fit(X, data.y), X_test


def ways_of(data: Data, fraction: float, of_classes: bool) -> Iterator[str]:
    """Go through the ways that there are: samples that have all views may be too few."""
    complete = data.y[~np.isnan(data.X).any(axis=1)]
    enough = len(complete) > 9
    if of_classes:
        labels, counts = np.unique(complete, return_counts=True)
        enough = len(labels) == len(np.unique(data.y)) and counts.min() > 1
    yield from (way for way in WAYS if way == "integrated" or (fraction and (enough or way != "complete")))


def intervals(data: Data, fraction: float, new_model: Any) -> Iterator[dict[str, Any]]:
    """Coverage, width and fit of the intervals that each way predicts."""
    incomplete = np.isnan(data.X_test).any(axis=1)
    for way in ways_of(data, fraction, False):
        start = time.process_time()
        model, X_test = fitted(new_model(), data, way, 2.0 * np.sqrt(N_COLUMNS))
        mean, std = model.predict(X_test, return_std=True)
        scaled = (data.y_test - mean) / std
        inside = np.abs(scaled) <= ndtri(0.5 + LEVEL / 2.0)
        log_loss = 0.5 * scaled**2 + np.log(std / data.y_test.std()) + 0.5 * np.log(2.0 * np.pi)
        yield {
            "fraction": fraction,
            "way": way,
            "coverage": 100.0 * float(inside.mean()),
            "incomplete": 100.0 * float(inside[incomplete].mean()) if incomplete.any() else None,
            "width": 2.0 * ndtri(0.5 + LEVEL / 2.0) * float(std.mean()) / float(data.y_test.std()),
            "r2": 1.0 - float(np.mean((data.y_test - mean) ** 2) / data.y_test.var()),
            "log loss": float(log_loss.mean()),
            "converged": bool(model.converged_),
            "seconds": time.process_time() - start,
        }  # fmt: skip


def accuracies(data: Data, fraction: float, method: str, tol: float) -> Iterator[dict[str, Any]]:
    """Accuracy and log loss of each way, and what its probabilities are like."""
    complete = ~np.isnan(data.X_test).any(axis=1)
    centered = method == CENTERED
    for way in ("zeros",) if centered else ways_of(data, fraction, True):
        start = time.process_time()
        normalize = ("spherical", "center") if centered else "spherical"
        model, X_test = fitted(CLASSIFIERS[method](tol), data, way, 1.0, normalize)
        probabilities = model.predict_proba(X_test)
        position = np.searchsorted(model.classes_, data.y_test)
        logs = np.log(np.maximum(probabilities, np.finfo(float).tiny))
        own, right = logs[np.arange(len(logs)), position], probabilities.argmax(axis=1) == position
        at_best = minimize_scalar(lambda log_t: tempered(logs, position, np.exp(log_t)), (-1.0, 1.0))  # noqa: B023
        yield {
            "fraction": fraction,
            "way": way,
            "accuracy": 100.0 * float(right.mean()),
            "log loss": -float(own.mean()),
            "of complete": -float(own[complete].mean()) if complete.any() else None,
            "of incomplete": None if complete.all() else -float(own[~complete].mean()),
            "excess": 100.0 * float((probabilities.max(axis=1) - right).mean()),
            "temperature": float(np.exp(at_best.x)),
            "tempered": float(at_best.fun),
            "converged": bool(model.converged_),
            "seconds": time.process_time() - start,
        }  # fmt: skip


def tempered(logs: np.ndarray, position: np.ndarray, temperature: float) -> float:
    """Return the log loss of probabilities to the power 1 / temperature, normalized."""
    scaled = logs / temperature
    return float((logsumexp(scaled, axis=1) - scaled[np.arange(len(scaled)), position]).mean())


# -------------------------------------------------------------------------------------------------------- tables


def cells(rows: list[dict[str, Any]]) -> dict[tuple[str, float, str], list[dict[str, Any]]]:
    """Rows by method, fraction and way, in the order of the table."""
    found: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["method"], row["fraction"], WAYS.index(row["way"]))):
        found.setdefault((row["method"], row["fraction"], row["way"]), []).append(row)
    return found


def table(rows: list[dict[str, Any]], columns: dict[str, tuple[str, int]]) -> str:
    """Markdown table of means and standard deviations of columns, by their headers: name and digits."""
    body = []
    for (method, fraction, way), cell in cells(rows).items():
        texts = []
        for name, digits in columns.values():
            values = [row[name] for row in cell if row[name] is not None]
            texts.append(mean_and_std(values, digits) if values else "")
        body.append([
            f"{method}, {fraction:.0%}, {way}", *texts, f"{sum(row['converged'] for row in cell)}/{len(cell)}"
        ])  # fmt: skip
    return markdown_table(["method, missing, way", *columns, "converged"], body)


def interval_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of the regression."""
    return table(rows, {
        "coverage %": ("coverage", 1), "of incomplete %": ("incomplete", 1), "width / sd": ("width", 2),
        "R²": ("r2", 2), "log loss": ("log loss", 3), "CPU s": ("seconds", 1),
    })  # fmt: skip


def accuracy_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of the classes."""
    return table(rows, {
        "accuracy %": ("accuracy", 1), "log loss": ("log loss", 3), "of complete": ("of complete", 3),
        "of incomplete": ("of incomplete", 3), "confidence - accuracy": ("excess", 1),
        "best temperature": ("temperature", 2), "log loss there": ("tempered", 3), "CPU s": ("seconds", 0),
    })  # fmt: skip


def verdict_of_intervals(rows: list[dict[str, Any]], method: str) -> str:
    """Say whether the coverage of ours stays where it should, at every fraction."""
    parts = []
    for (whose, fraction, way), cell in cells(rows).items():
        if (whose, way) == (method, "integrated"):
            mean = np.mean([row["coverage"] for row in cell]) / 100.0
            parts.append(f"{fraction:.0%}: {mean:.1%} ({'yes' if abs(mean - LEVEL) <= ASKED else 'no'})")
    return (
        f"Coverage within {100 * ASKED:.0f} points of {LEVEL:.0%}, {method} integrated: {'; '.join(parts)}."
    )


def verdict_of_classes(rows: list[dict[str, Any]], method: str) -> str:
    """Compare ours with all ways of filling in, split by split."""
    by_split = {(row["way"], row["fraction"], row["repeat"]): row for row in rows if row["method"] == method}
    parts = []
    for way in WAYS[1:]:
        splits = [key[1:] for key in by_split if key[0] == way and ("integrated", *key[1:]) in by_split]
        if not splits:
            continue
        ours, others = ([by_split[which, *split] for split in splits] for which in ("integrated", way))
        above = np.array([a["accuracy"] - b["accuracy"] for a, b in zip(ours, others, strict=True)])
        lower = np.array([b["log loss"] - a["log loss"] for a, b in zip(ours, others, strict=True)])
        test = ""
        if len(ours) > 2:
            first, second = ([row["log loss"] for row in each] for each in (ours, others))
            test = f", paired t-test p = {ttest_rel(first, second).pvalue:.2g}"
        parts.append(
            f"against {way}: accuracy {above.mean():+.1f} points (higher in {(above > 0).sum()} of {len(above)})"
            f", log loss {-lower.mean():+.3f} (lower in {(lower > 0).sum()}{test})"
        )
    return f"{method} integrated {'; '.join(parts)}."


def claims(regression: list[dict[str, Any]], classes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What GPMKL is asked for, at every fraction."""
    found = []
    for kind, rows in (("regression", regression), ("classes", classes)):
        means = {key: np.mean([row["log loss"] for row in cell]) for key, cell in cells(rows).items()}
        for fraction in FRACTIONS:
            own = {way: means["GPMKL", fraction, way] for way in WAYS if ("GPMKL", fraction, way) in means}
            if "integrated" not in own or len(own) < 3:
                continue
            best = min((value, way) for way, value in own.items() if way != "integrated")
            what = f"{kind}, {fraction:.0%} missing: log loss of GPMKL, integrated, beside {best[1]}"
            found.append(claim(what, float(best[0]), float(own["integrated"])))
    return found
