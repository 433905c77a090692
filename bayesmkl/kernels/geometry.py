"""Distances and inner products of two sets of rows, shared by the kernels of a view, and typical distances."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform

from bayesmkl.kernels.sparse import SparseTable, dense_products, is_sparse, sparse_distances

WIDE = 32  # features from which on half of the distances take longer than a copy of all


class PairwiseGeometry:
    """Hold what kernels over the same rows have in common.

    Squared distances are sums of squared differences, not the expansion ``|x|^2 - 2 x.z + |z|^2``: they are
    never negative, exactly zero between equal rows, exactly symmetric, and keep all digits however far the
    data lie from the origin. They cost 0.3 ns per pair and feature (measured), once per view; among the training
    points each pair is taken once where there are many features. Rows that are a `SparseTable` are the exception:
    expansions touch what is not zero alone.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Query points.
    Z : ndarray of shape (n_train, n_features)
        Training points; pass the same object as `X` for the training kernel itself.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.geometry import PairwiseGeometry
    >>> X = 1e8 + np.array([[0.0], [0.5]])
    >>> PairwiseGeometry(X, X).squared_distances
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """

    def __init__(self, X: np.ndarray, Z: np.ndarray) -> None:
        self.X = X
        self.Z = Z
        self._about: tuple[np.ndarray, PairwiseGeometry] | None = None
        self._parts: dict[tuple[int, int], PairwiseGeometry] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Number of query points and of training points."""
        return self.X.shape[0], self.Z.shape[0]

    @cached_property
    def squared_distances(self) -> np.ndarray:
        """Squared Euclidean distances, shape (n_rows, n_train)."""
        if is_sparse(self.X) and is_sparse(self.Z):
            return sparse_distances(self.X, self.Z, self._memory("squared distances"))
        if self.X is self.Z and self.X.shape[1] >= WIDE:  # the same numbers, to the last bit
            return squareform(pdist(self.X, "sqeuclidean"))
        return cdist(self.X, self.Z, "sqeuclidean", out=self._memory("squared distances"))

    @cached_property
    def l1_distances(self) -> np.ndarray:
        """Sums of absolute differences, shape (n_rows, n_train)."""
        return cdist(self.X, self.Z, "cityblock", out=self._memory("l1 distances"))

    @cached_property
    def inner_products(self) -> np.ndarray:
        """Inner products ``x.z``, shape (n_rows, n_train); exactly symmetric when `X` is `Z`."""
        if is_sparse(self.X) and is_sparse(self.Z):
            return dense_products(self.X, self.Z, self._memory("inner products"))
        return np.matmul(self.X, np.asarray(self.Z).T, out=self._memory("inner products"))

    @cached_property
    def squared_norms(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared lengths of the rows of `X` and of `Z`, shapes (n_rows,) and (n_train,)."""
        of_z = squared_norms(self.Z)
        return (of_z if self.X is self.Z else squared_norms(self.X)), of_z

    def about(self, origin: np.ndarray) -> PairwiseGeometry:
        """Return the same rows with their columns measured from `origin`, shape (n_features,)."""
        if self._about is None or not np.array_equal(self._about[0], origin):
            self._about = origin, self._moved(origin)
        return self._about[1]

    def part(self, columns: slice) -> PairwiseGeometry:
        """Return the same rows with some of their columns, of positions from `start` up to `stop`."""
        key = columns.start, columns.stop
        if key not in self._parts:
            Z = np.ascontiguousarray(self.Z[:, columns])
            X = Z if self.X is self.Z else np.ascontiguousarray(self.X[:, columns])
            self._parts[key] = PairwiseGeometry(X, Z)
        return self._parts[key]

    def with_columns(self, X: np.ndarray, Z: np.ndarray) -> PairwiseGeometry:
        """Return rows with further columns, which have this geometry as the part of their first columns."""
        wide_z = np.hstack([self.Z, Z])
        wide = PairwiseGeometry(wide_z if self.X is self.Z else np.hstack([self.X, X]), wide_z)
        wide._parts[0, self.Z.shape[1]] = self
        return wide

    def _memory(self, name: str) -> np.ndarray | None:
        """Return an array (n_rows, n_train) to write into; None for a new one."""
        return None

    def _moved(self, origin: np.ndarray) -> PairwiseGeometry:
        Z = self.Z - origin
        return PairwiseGeometry(Z if self.X is self.Z else self.X - origin, Z)


def squared_norms(X: np.ndarray) -> np.ndarray:
    """Return the squared length of each row of `X`, shape (n_rows,)."""
    return X.squared_norms() if is_sparse(X) else np.einsum("ij,ij->i", X, X)


def mean_row(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the mean of the rows of `X`, exactly where all of them are equal, shape (n_features,).

    Rows count as often as `weights`, (n_rows,), say; None is once.
    """
    mean = np.average(X, axis=0, weights=weights)
    return mean + np.average(X - mean, axis=0, weights=weights)


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
