"""Problems on which peers are compared: two real sets with views, and two generators of any size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import train_test_split

from bayesmkl.datasets import load_wdbc, make_ringnorm

N_TEST = 10_000
REAL = {"wdbc": 398, "diabetes": 309}
SETS = {"classification": ("wdbc", "ringnorm"), "regression": ("diabetes", "friedman1")}
FIVES = [list(range(first, first + 5)) for first in range(0, 20, 5)]


class Data(NamedTuple):
    """Standardized features; labels 0 and 1, or standardized targets; columns of the views."""

    X: np.ndarray
    X_test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    views: list[list[int]]
    widths: list[float]
    regression: bool


def load(name: str, n_train: int, n_test: int = N_TEST) -> Data:
    """Draw or split a set.

    Views: means, errors and worst values of wdbc; body and blood of diabetes; four times five of the twenty features
    of the others. Only the first view says something of Friedman's function; all views do of ringnorm.
    """
    regression = name in SETS["regression"]
    if name in REAL:
        X, y = load_diabetes(return_X_y=True) if regression else load_wdbc(return_X_y=True)
        views = (
            [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]
            if regression
            else [list(range(k, k + 10)) for k in (0, 10, 20)]
        )
        kept = None if regression else y
        X, X_test, y, y_test = train_test_split(X, y, train_size=n_train, random_state=0, stratify=kept)
    else:
        views = FIVES
        if regression:
            X, y = make_friedman1(n_train + n_test, n_features=20, noise=1.0, random_state=0)
        else:
            sample = make_ringnorm(n_train + n_test, random_state=0)
            X, y = sample.data, sample.target
        X, X_test, y, y_test = X[:n_train], X[n_train:], y[:n_train], y[n_train:]
    center, scale = X.mean(axis=0), X.std(axis=0)
    if regression:
        y, y_test = ((values - y.mean()) / y.std() for values in (y, y_test))
    else:
        y, y_test = ((values == values.max()).astype(float) for values in (y, y_test))
    typical = float(np.sqrt(np.mean([len(view) for view in views])))
    return Data(
        (X - center) / scale,
        (X_test - center) / scale,
        y,
        y_test,
        views,
        [typical, 3.0 * typical],
        regression,
    )
