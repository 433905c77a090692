"""Data of `outcomes.py`: grades and counts of statsmodels, a regression with corrupted targets, simulations.

anes96, fair and randhie are installed with statsmodels, which says where they are from; diabetes with scikit-learn.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

N_TRAIN, N_TEST, SEED = 200, 500, 8000
# part of the training targets, and by how many standard deviations they are moved
CORRUPTED, SHIFT = (0.05, 6.0)
CUTS = np.array([-1.5, -0.5, 0.2, 1.2])  # of simulated grades
Views = dict[str, list[int]]


class Split(NamedTuple):
    """Training and test part; features standardized by the former."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    views: Views


class Outcome(NamedTuple):
    """A set: what kind of target it has, and a function from the number of a split to the split."""

    kind: str  # "grades", "counts" or "outliers"
    draw: Callable[[int], Split]
    needs_statsmodels: bool = True


def _standardized(
    X: np.ndarray, y: np.ndarray, views: Views, number: int, n_train: int, by_grade: bool
) -> Split:
    train, test = train_test_split(
        np.arange(len(y)),
        train_size=n_train,
        test_size=min(N_TEST, len(y) - n_train),
        random_state=SEED + number,
        stratify=y if by_grade else None,
    )
    scaler = StandardScaler().fit(X[train])
    return Split(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test], views)


def _columns(table: object, views: dict[str, tuple[str, ...]]) -> tuple[np.ndarray, Views]:
    names = [name for view in views.values() for name in view]
    places = {view: [names.index(name) for name in columns] for view, columns in views.items()}
    return np.asarray(table[names], dtype=float), places  # type: ignore[index]


def party(number: int) -> Split:
    """Draw people of anes96: party, from strong Democrat (0) to strong Republican (6)."""
    from statsmodels.datasets import anes96

    table = anes96.load_pandas().data
    views = {
        "person": ("age", "educ", "income", "logpopul", "TVnews"),
        "opinions": ("selfLR", "ClinLR", "DoleLR"),
    }
    X, places = _columns(table, views)
    return _standardized(X, table["PID"].to_numpy(int), places, number, N_TRAIN, True)


def marriage(number: int) -> Split:
    """Draw women of fair: how they rate their marriage, (very) poor (0) to very good (3)."""
    from statsmodels.datasets import fair

    table = fair.load_pandas().data.assign(affairs=lambda data: np.log1p(data["affairs"]))
    views = {
        "family": ("age", "yrs_married", "children", "occupation_husb"),
        "person": ("religious", "educ", "occupation"),
        "affairs": ("affairs",),
    }
    X, places = _columns(table, views)
    # very poor, of which there are 99, and poor
    grades = np.maximum(table["rate_marriage"].to_numpy(int) - 2, 0)
    return _standardized(X, grades, places, number, N_TRAIN, True)


def visits(number: int) -> Split:
    """Draw years of people of randhie: visits to a doctor, of whom some pay a part themselves."""
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    views = {
        "insurance": ("lncoins", "idp", "lpi", "fmde"),
        "health": ("physlm", "disea", "hlthg", "hlthf", "hlthp"),
    }
    X, places = _columns(table, views)
    return _standardized(X, table["mdvis"].to_numpy(float), places, number, N_TRAIN, False)


def diabetes(number: int, corrupted: bool = False, n_train: int = N_TRAIN) -> Split:
    """Draw patients of diabetes; with `corrupted` some training targets are moved up or down."""
    X, y = load_diabetes(return_X_y=True)
    views = {"person": [0, 1, 2, 3], "serum": [4, 5, 6, 7, 8, 9]}
    split = _standardized(X, y, views, number, n_train, False)
    if not corrupted:
        return split
    rng = np.random.default_rng([SEED, number])
    wrong = rng.choice(n_train, size=round(CORRUPTED * n_train), replace=False)
    target = split.y.copy()
    target[wrong] += SHIFT * y.std() * rng.choice([-1.0, 1.0], size=len(wrong))
    return split._replace(y=target)


def simulated_grades(number: int, n_samples: int = 250, n_test: int = 250) -> Split:
    """Draw grades of a score that bends in one feature of four, with the cut points `CUTS`."""
    rng = np.random.default_rng([SEED, 1, number])
    X = rng.normal(size=(n_samples + n_test, 4))
    score = 1.5 * np.sin(1.5 * X[:, 0]) + X[:, 1]
    y = np.digitize(score + norm.rvs(size=len(X), random_state=rng), CUTS)
    views = {"signal": [0, 1], "noise": [2, 3]}
    return Split(X[:n_samples], y[:n_samples], X[n_samples:], y[n_samples:], views)


def simulated_counts(number: int, n_samples: int = 40) -> Split:
    """Draw counts of a log rate that is linear in one feature of two."""
    rng = np.random.default_rng([SEED, 2, number])
    X = rng.normal(size=(2 * n_samples, 2))
    y = rng.poisson(np.exp(0.7 * X[:, 0] + 1.0)).astype(float)
    return Split(X[:n_samples], y[:n_samples], X[n_samples:], y[n_samples:], {"signal": [0], "noise": [1]})


SETS = {
    "anes96": Outcome("grades", party),
    "fair": Outcome("grades", marriage),
    "randhie": Outcome("counts", visits),
    "diabetes": Outcome("outliers", diabetes, False),
    "diabetes, 5 % corrupted": Outcome("outliers", lambda number: diabetes(number, True), False),
    "simulated": Outcome("grades", simulated_grades, False),
}
SHORT = {
    "simulated": Outcome("grades", lambda number: simulated_grades(number, 40, 40), False),
    "simulated counts": Outcome("counts", simulated_counts, False),
    "diabetes, 5 % corrupted": Outcome("outliers", lambda number: diabetes(number, True, 40), False),
}


def available() -> bool:
    """Say whether statsmodels is installed."""
    return importlib.util.find_spec("statsmodels") is not None
