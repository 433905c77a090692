"""Sets of the unified view of localized kernels, and their splits, as `papers.localized` has them."""

from __future__ import annotations

import numpy as np
from papers import localized
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from bayesmkl.datasets import load_wdbc

SMALL = ("breast", "diabetes", "german", "liver")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a set of the paper, or of wdbc."""
    if name == "wdbc":
        return load_wdbc(return_X_y=True)
    data = localized.load(name)
    return np.asarray(data.X), data.y


def scaled(
    limits: tuple[float, float], X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut off a random quarter, and scale features by the others: X, X_test, y, y_test."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=localized.TEST_SHARE, random_state=seed)
    scaler = MinMaxScaler(limits).fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test
