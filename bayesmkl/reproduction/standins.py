"""Data for fast runs: some rows of the sets that scikit-learn ships, and synthetic sets of a given shape."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

from bayesmkl.datasets import fetch
from bayesmkl.evaluation.study import Data

__all__ = ["BUNDLED", "cut_down", "synthetic_features", "synthetic_kernels"]

BUNDLED = ("wdbc", "iris", "wine", "digits")
SEPARATION = 3.0  # distance between the means of two classes, in standard deviations: some errors remain
FEATURES_PER_VIEW = 3


def cut_down(name: str, n_samples: int) -> Data:
    """Return some rows of a set that scikit-learn ships, classes in their shares.

    Parameters
    ----------
    name : str
    n_samples : int

    Returns
    -------
    Data
    """
    X, y = fetch(name, return_X_y=True)
    rows, _ = train_test_split(np.arange(len(y)), train_size=n_samples, stratify=y, random_state=0)
    return Data(X[np.sort(rows)], y[np.sort(rows)])


def synthetic_features(n_samples: int, n_features: int, n_classes: int = 2, seed: int = 0) -> Data:
    """Return normal samples around one mean per class, as far apart as to leave some errors.

    Parameters
    ----------
    n_samples, n_features, n_classes : int
        Classes have the same size up to one; two are labeled -1 and +1, several 0, 1, ...
    seed : int

    Returns
    -------
    Data

    Examples
    --------
    >>> data = synthetic_features(60, 4)
    >>> data.X.shape, np.unique(data.y)
    ((60, 4), array([-1,  1]))
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    means = rng.standard_normal((n_classes, n_features)) * SEPARATION / np.sqrt(2.0 * n_features)
    X = means[y] + rng.standard_normal((n_samples, n_features))
    return Data(X, 2 * y - 1 if n_classes == 2 else y)


def synthetic_kernels(
    n_samples: int,
    n_kernels: int,
    n_classes: int = 2,
    content: str = "kernels",
    n_splits: int | None = None,
    seed: int = 0,
) -> Data:
    """Return Gaussian kernels (or distances) of as many views, every second of which knows nothing of the classes.

    Parameters
    ----------
    n_samples, n_kernels, n_classes : int
    content : {"kernels", "distances"}
    n_splits : int, optional
        Number of splits into halves that the data come with.
    seed : int

    Returns
    -------
    Data
        X of shape (n_samples, n_samples, n_kernels); kernels have unit diagonals.

    Examples
    --------
    >>> data = synthetic_kernels(30, 4, n_classes=3, n_splits=2)
    >>> data.X.shape, len(data.splits)
    ((30, 30, 4), 2)
    """
    y = synthetic_features(n_samples, 1, n_classes, seed).y
    classes = np.searchsorted(np.unique(y), y)
    rng = np.random.default_rng((seed, n_kernels))
    stack = np.empty((n_samples, n_samples, n_kernels))
    for m in range(n_kernels):
        means = (
            rng.standard_normal((n_classes, FEATURES_PER_VIEW))
            * SEPARATION
            / np.sqrt(2.0 * FEATURES_PER_VIEW)
        )
        view = rng.standard_normal((n_samples, FEATURES_PER_VIEW)) + (means[classes] if m % 2 == 0 else 0.0)
        stack[:, :, m] = pairwise_distances(view)
    if content == "kernels":
        stack = np.exp(-0.5 * stack**2 / FEATURES_PER_VIEW)
    if not n_splits:
        return Data(stack, y)
    halves = StratifiedShuffleSplit(n_splits, test_size=0.5, random_state=seed)
    return Data(stack, y, splits=list(halves.split(y, y)))
