"""Data sets and splits of the scoreboard: real ones, and simulated views whose truth is known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from papers.uci import fetch
from scipy.special import expit, softmax
from sklearn.datasets import make_friedman1, make_friedman2
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bayesmkl.datasets import load_diabetes, load_digits_views, load_iris, load_wdbc, load_wine

MOST = {"binary": 200, "several": 120, "regression": 200}  # training samples
MOST_TEST = 500
SHARE = 0.7  # of small sets, for training
LEAST = 10  # samples of a class; smaller classes are left out
FIRST_SEED = 7000
WIDE = "diabetes, 143 kernels"
Views = dict[str, list[int]]


class Samples(NamedTuple):
    """What a set consists of; `truth` has one row per sample where the set is simulated.

    The truth is the probability of every class, or the mean and the standard deviation of the target.
    """

    X: np.ndarray
    y: np.ndarray
    views: Views | str | None = None
    truth: np.ndarray | None = None


class DataSet(NamedTuple):
    """A data set of the scoreboard."""

    task: str  # "binary", "several" (classes) or "regression"
    load: Callable[[np.random.Generator], Samples]  # simulations draw new samples for every split
    about: str
    bundled: bool = False  # needs no file but those of scikit-learn
    n_train: int | None = None  # in place of `MOST`
    only: tuple[str, ...] = ()  # models that run on it; such a set takes no part in the summaries


class Split(NamedTuple):
    """Training and test part; features, and targets of a regression, standardized by the training part."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    views: Views | str | None
    truth: np.ndarray | None  # of the test part
    task: str
    seed: int
    unit: float = 1.0  # of the target: its standard deviation in the training part


def is_bundled(name: str) -> bool:
    """Say whether a set needs no file but those of scikit-learn."""
    return SETS[name].bundled


def split_of(name: str, number: int, n_train: int | None = None, n_test: int = MOST_TEST) -> Split:
    """Draw a split; classes keep their shares.

    Parameters
    ----------
    name : str
        One of `SETS`.
    number : int
        Of the split, from 0.
    n_train, n_test : int, optional
        At most so many samples; `MOST` of the task without.
    """
    dataset, seed = SETS[name], FIRST_SEED + number
    data = dataset.load(np.random.default_rng(seed))
    is_regression = dataset.task == "regression"
    rows = np.arange(len(data.y))
    if not is_regression:
        labels, counts = np.unique(data.y, return_counts=True)
        rows = rows[np.isin(data.y, labels[counts >= LEAST])]
    n_train = min(n_train or dataset.n_train or MOST[dataset.task], round(SHARE * len(rows)))
    strata = None if is_regression else data.y[rows]
    train, rest = train_test_split(rows, train_size=n_train, stratify=strata, random_state=seed)
    test = np.random.default_rng(seed).permutation(rest)[:n_test]
    scaler = StandardScaler().fit(data.X[train])
    X, X_test = (scaler.transform(data.X[part]) for part in (train, test))
    y, y_test = data.y[train], data.y[test]
    truth, spread = None if data.truth is None else data.truth[test], 1.0
    if is_regression:
        center, spread = y.mean(), float(y.std())
        y, y_test = (y - center) / spread, (y_test - center) / spread
        if truth is not None:
            truth = (truth - [center, 0.0]) / spread
    return Split(X, y, X_test, y_test, data.views, truth, dataset.task, seed, spread)


# -------------------------------------------------------------------------------------------------- real data


def _fetched(name: str, target: str = "target") -> Callable[[np.random.Generator], Samples]:
    def load(rng: np.random.Generator) -> Samples:
        found = fetch(name)
        return Samples(np.asarray(found["data"], float), np.asarray(found[target]), found.get("views"))

    return load


def _australian(rng: np.random.Generator) -> Samples:
    """Leave out A2, A3 and A7, of which copies have lost the decimal points."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # that says so
        X, y = fetch("australian", return_X_y=True)
    return Samples(np.delete(np.asarray(X, float), [1, 2, 6], axis=1), np.asarray(y))


def _bundled(loader: Callable[..., Any]) -> Callable[[np.random.Generator], Samples]:
    return lambda rng: Samples(*loader(return_X_y=True))


def _column(loader: Callable[..., Any], column: int) -> Callable[[np.random.Generator], Samples]:
    """Predict a measurement from the others, without the class."""

    def load(rng: np.random.Generator) -> Samples:
        X = np.asarray(loader(return_X_y=True)[0], float)
        return Samples(np.delete(X, column, axis=1), X[:, column])

    return load


def _diabetes_on_each(rng: np.random.Generator) -> Samples:
    """Kernels on all features and on each of them."""
    return Samples(*load_diabetes(return_X_y=True), "all+each")


def _five_digits(loader: Callable[[], Any]) -> Callable[[np.random.Generator], Samples]:
    """Digits 5 to 9, which keeps several classes and many views affordable."""

    def load(rng: np.random.Generator) -> Samples:
        found = loader()
        kept = found["target"] >= 5
        views = {name: list(columns) for name, columns in found["views"].items()}
        return Samples(found["data"][kept].astype(float), found["target"][kept], views)

    return load


def _liver(**options: Any) -> Any:
    return fetch("bupaliver", **options)


# ------------------------------------------------------------------------------------------------- simulated


def _blocks(*sizes: int) -> Views:
    ends = np.cumsum([0, *sizes])
    return {f"view {v}": list(range(ends[v], ends[v + 1])) for v in range(len(sizes))}


def _labels(rng: np.random.Generator, X: np.ndarray, score: np.ndarray, views: Views) -> Samples:
    p = expit(score)
    return Samples(X, (rng.random(len(X)) < p).astype(int), views, np.column_stack([1.0 - p, p]))


def _targets(rng: np.random.Generator, X: np.ndarray, mean: np.ndarray, std: float, views: Any) -> Samples:
    y = mean + std * rng.standard_normal(len(X))
    return Samples(X, y, views, np.column_stack([mean, np.full(len(X), std)]))


N_DRAWN = MOST["binary"] + MOST_TEST


def one_view_of_four(rng: np.random.Generator) -> Samples:
    """A logistic model of three of the five features of the first view."""
    X = rng.standard_normal((N_DRAWN, 20))
    return _labels(rng, X, X[:, :3] @ [2.0, -2.0, 1.5], _blocks(5, 5, 5, 5))


def between_views(rng: np.random.Generator) -> Samples:
    """The sign of a product: neither of two views tells anything without the other."""
    X = rng.standard_normal((N_DRAWN, 8))
    return _labels(rng, X, 4.0 * X[:, 0] * X[:, 2], _blocks(2, 2, 2, 2))


def local_views(rng: np.random.Generator) -> Samples:
    """One of two views speaks, by the sign of a feature of a third."""
    X = rng.standard_normal((N_DRAWN, 8))
    score = 3.0 * np.where(X[:, 6] > 0.0, X[:, 0], X[:, 3])
    return _labels(rng, X, score, _blocks(3, 3, 2))


def three_classes(rng: np.random.Generator) -> Samples:
    """Scores of three classes from two of four views, one of them through a sine."""
    X = rng.standard_normal((N_DRAWN, 12))
    scores = np.column_stack([2.5 * X[:, 0], 2.5 * np.sin(2.0 * X[:, 3]), np.zeros(len(X))])
    p = softmax(scores, axis=1)
    y = (rng.random((len(X), 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return Samples(X, y, _blocks(3, 3, 3, 3), p)


def sum_of_views(rng: np.random.Generator) -> Samples:
    """A linear part of the first view and a sine of the second; two views of noise."""
    X = rng.standard_normal((N_DRAWN, 12))
    mean = X[:, :3] @ [1.0, -1.0, 0.5] + 1.5 * np.sin(2.0 * X[:, 3])
    return _targets(rng, X, mean, 0.7, _blocks(3, 3, 3, 3))


def product_of_views(rng: np.random.Generator) -> Samples:
    """A product of features of two views."""
    X = rng.standard_normal((N_DRAWN, 8))
    return _targets(rng, X, X[:, 0] * X[:, 2], 0.3, _blocks(2, 2, 2, 2))


def local_regression(rng: np.random.Generator) -> Samples:
    """One of two views speaks, by the sign of a feature of a third."""
    X = rng.standard_normal((N_DRAWN, 8))
    return _targets(rng, X, np.where(X[:, 6] > 0.0, X[:, 0], X[:, 3]), 0.3, _blocks(3, 3, 2))


def friedman1(rng: np.random.Generator) -> Samples:
    """Friedman's first function: five of ten features matter; noise of standard deviation 1."""
    X, mean = make_friedman1(N_DRAWN, noise=0.0, random_state=int(rng.integers(2**31)))
    return _targets(rng, X, mean, 1.0, None)


def friedman2(rng: np.random.Generator) -> Samples:
    """Friedman's second function, of four features; noise of standard deviation 125, a third of the signal's."""
    X, mean = make_friedman2(N_DRAWN, noise=0.0, random_state=int(rng.integers(2**31)))
    return _targets(rng, X, mean, 125.0, None)


SETS: dict[str, DataSet] = {
    "wdbc": DataSet("binary", _bundled(load_wdbc), "30 features", True),
    "breast_wisconsin": DataSet("binary", _fetched("breast_wisconsin"), "9 features"),
    "bupaliver": DataSet("binary", _fetched("bupaliver"), "6 features"),
    "pima": DataSet("binary", _fetched("pima"), "8 features"),
    "heart_statlog": DataSet("binary", _fetched("heart_statlog"), "13 features"),
    "ionosphere": DataSet("binary", _fetched("ionosphere"), "33 features"),
    "sonar": DataSet("binary", _fetched("sonar"), "60 features"),
    "australian": DataSet("binary", _australian, "11 features"),
    "german_numeric": DataSet("binary", _fetched("german_numeric"), "24 features"),
    "banana": DataSet("binary", _fetched("banana"), "2 features"),
    "image": DataSet("binary", _fetched("image"), "18 features"),
    "one view of four": DataSet("binary", one_view_of_four, "simulated, 4 views of 5 features", True),
    "between views": DataSet("binary", between_views, "simulated, 4 views of 2 features", True),
    "local views": DataSet("binary", local_views, "simulated, views of 3, 3 and 2 features", True),
    "iris": DataSet("several", _bundled(load_iris), "3 classes, 4 features", True),
    "wine": DataSet("several", _bundled(load_wine), "3 classes, 13 features", True),
    "glass": DataSet("several", _fetched("glass"), "5 classes, 9 features"),
    "ecoli": DataSet("several", _fetched("ecoli"), "5 classes, 7 features"),
    "waveform": DataSet("several", _fetched("waveform", "target_multiclass"), "3 classes, 21 features"),
    "usps": DataSet("several", _fetched("usps"), "10 classes, 256 features"),
    "mfeat": DataSet("several", _five_digits(lambda: fetch("mfeat")), "digits 5 to 9, 6 views"),
    "digits": DataSet("several", _five_digits(load_digits_views), "digits 5 to 9, 6 views", True),
    "three classes": DataSet("several", three_classes, "simulated, 4 views of 3 features", True),
    "diabetes": DataSet("regression", _bundled(load_diabetes), "10 features", True),
    "wine, alcohol": DataSet("regression", _column(load_wine, 0), "12 features", True),
    "iris, petal width": DataSet("regression", _column(load_iris, 3), "3 features", True),
    "bupaliver, drinks": DataSet("regression", _column(_liver, 5), "5 features"),
    "friedman1": DataSet("regression", friedman1, "simulated, 10 features", True),
    "friedman2": DataSet("regression", friedman2, "simulated, 4 features", True),
    "sum of views": DataSet("regression", sum_of_views, "simulated, 4 views of 3 features", True),
    "product of views": DataSet("regression", product_of_views, "simulated, 4 views of 2 features", True),
    "local regression": DataSet("regression", local_regression, "simulated, views of 3, 3 and 2", True),
    WIDE: DataSet(
        "regression",
        _diabetes_on_each,
        "paper bank on all 10 features and on each",
        True,
        309,
        ("class frequencies, or a constant", "BEMKL, paper bank", "GPMKL, paper bank"),
    ),
}
