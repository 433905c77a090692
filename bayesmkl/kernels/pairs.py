r"""Typical distances between two training points, which may have weights.

A point of weight two is two points: rows `i` and `j` make :math:`w_i w_j` pairs, and the copies of one row
:math:`w_i (w_i - 1) / 2` of distance zero, none for weights below one.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from bayesmkl.kernels.sparse import SparseTable, is_sparse, sparse_distances

__all__ = ["mean_distance", "median_distance", "weighted_median"]

ROUNDING = 1e-12  # of sums of weights
ENOUGH = 1000  # rows whose distances tell the median of all


def median_distance(X: np.ndarray | SparseTable, metric: str, weights: np.ndarray | None = None) -> float:
    """Return the median distance between two rows; of rows that are mostly equal the mean, of equal ones 1.

    Rows count as often as `weights`, (n_rows,), say; None is once.

    Examples
    --------
    >>> median_distance(np.array([[0.0], [1.0], [4.0]]), "euclidean")
    3.0
    """
    if weights is not None:
        X, weights = X[weights > 0.0], weights[weights > 0.0]
    some = slice(None, None, -(-len(X) // ENOUGH))
    if is_sparse(X):  # under a Gaussian kernel
        points = X[some]
        distances = np.sqrt(sparse_distances(points, points)[np.triu_indices(len(points), 1)])
    else:
        distances = pdist(X[some], metric)
    pairs = None
    if weights is not None:
        distances, pairs = weigh_pairs(distances, weights[some])
    if distances.size == 0 or (pairs is not None and not pairs.any()):
        return 1.0
    typical = np.median(distances) if pairs is None else weighted_median(distances, pairs)
    if typical <= 0.0:
        typical = np.average(distances, weights=pairs)
    return float(typical) if typical > 0.0 else 1.0


def weigh_pairs(distances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return distances between two of the points that rows stand for, and how often each comes.

    Rows `i` and `j` make :math:`w_i w_j` pairs, and the copies of one row :math:`w_i (w_i - 1) / 2` of distance zero,
    none for weights below one.

    Parameters
    ----------
    distances : ndarray of shape (n_rows * (n_rows - 1) / 2,)
        Between different rows, as `pdist` orders them.
    weights : ndarray of shape (n_rows,)

    Examples
    --------
    >>> weigh_pairs(np.array([5.0]), np.array([3.0, 1.0]))  # 0, 0, 0, 5, 5, 5
    (array([5., 0.]), array([3., 3.]))
    """
    first, second = np.triu_indices(len(weights), 1)
    copies = 0.5 * float((weights * np.maximum(weights - 1.0, 0.0)).sum())
    return np.append(distances, 0.0), np.append(weights[first] * weights[second], copies)


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the median of values that come as often as `weights` say.

    Examples
    --------
    >>> weighted_median(np.array([4.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.0]))  # of 1, 2, 4, 4
    3.0
    """
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    half = 0.5 * below[-1]
    first = np.searchsorted(below, (1.0 - ROUNDING) * half, "left")
    last = np.searchsorted(below, (1.0 + ROUNDING) * half, "right")
    return float(0.5 * (values[order[first]] + values[order[last]]))


def mean_distance(distances: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the mean of the distances between two points, (n_train, n_train).

    Examples
    --------
    >>> mean_distance(np.array([[0.0, 3.0], [3.0, 0.0]]), np.array([2.0, 1.0]))  # of 0, 3 and 3
    2.0
    """
    if weights is None:
        n_train = len(distances)
        return float(distances.sum() / max(n_train * (n_train - 1), 1))  # the diagonal is zero
    copies = weights * np.maximum(weights - 1.0, 0.0)  # pairs of the same point, at distance zero
    n_pairs = float(weights.sum() ** 2 - (weights**2).sum() + copies.sum())
    return float(weights @ distances @ weights) / n_pairs if n_pairs > 0.0 else 0.0
