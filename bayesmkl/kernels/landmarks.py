"""Landmarks: a few points that all samples are compared with, in place of all training samples.

With B landmarks a kernel has N x B entries, so that kernels cost time and memory in proportion to N. Landmarks are
centers of clusters of the training samples, samples drawn at random, or points that the user has.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.threads import one_thread
from bayesmkl._utils.validation import shown
from bayesmkl._utils.warnings import holding_back
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.sparse import SparseTable, is_sparse
from bayesmkl.kernels.views import column_labels, have_same_columns

SELECTIONS = ("kmeans", "random")
# Clusters are learned from at most this many samples per landmark, so that they cost less than the kernels do.
SAMPLES_PER_LANDMARK = 50
LEAST_SAMPLES = 1000  # from all of them up to here
ROUNDS = 10  # of k-means at most


def choose_landmarks(
    X: Any,
    landmarks: Any,
    selection: str = "kmeans",
    random_state: int | None = None,
    columns: np.ndarray | None = None,
    scales: np.ndarray | None = None,
) -> Any:
    """Choose landmarks among or between training samples, or check those that are given.

    Parameters
    ----------
    X : ndarray of shape (n_train, n_features)
        Training samples, finite. A sample of them will do.
    landmarks : int or array-like of shape (n_landmarks, n_features)
        Their number, or the landmarks themselves.
    selection : {"kmeans", "random"}, default="kmeans"
        With a number: the centers of a k-means clustering, or distinct training samples in their order.
    random_state : int, default=None
        Seed of the clustering or the draw; None is a fixed seed.
    columns : ndarray of shape (n_used,), default=None
        Columns that kernels see, each once: samples that agree in them count as equal. None: all.
    scales : ndarray of shape (n_features,), default=None
        Units of columns in distances between samples; None: as they are.

    Returns
    -------
    landmarks : ndarray of shape (n_landmarks, n_features)
        In C order.

    Raises
    ------
    ValueError
        For a number that is not from 1 to the number of distinct training samples, and for an array of another
        number of columns, or with NaN or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.landmarks import choose_landmarks
    >>> X = np.array([[0.0], [0.2], [5.0], [5.2], [5.2]])
    >>> np.sort(choose_landmarks(X[:4], 2), axis=0).round(2).tolist()
    [[0.1], [5.1]]
    >>> choose_landmarks(X, 4, "random").tolist()
    [[0.0], [0.2], [5.0], [5.2]]
    """
    if isinstance(landmarks, bool) or not isinstance(landmarks, Integral):
        points = _given(landmarks, X.shape[1])
        return SparseTable(csr_array(points)) if is_sparse(X) else points
    if not 1 <= int(landmarks) <= len(X):
        raise ValueError(
            f"`landmarks` must be from 1 to the number of training samples, {len(X)}; got {shown(landmarks)}. "
            "None compares with all samples."
        )
    used = X if columns is None or len(columns) == X.shape[1] else X[:, columns]
    if scales is not None:
        used = used / (scales if used is X else scales[columns])
    draw = _centers if selection == "kmeans" else _rows
    drawn = draw(X, used, int(landmarks), np.random.default_rng(random_state or 0))
    return drawn if is_sparse(drawn) else np.ascontiguousarray(drawn)


def landmarks_of_bank(bank: Any, X: np.ndarray) -> np.ndarray:
    """Choose or check the landmarks of a bank among its training samples.

    Parameters
    ----------
    bank : KernelBank
        With `landmarks`; it knows its views, its kernel functions on them, and the labels of the columns.
    X : ndarray of shape (n_train, n_features)
        Training samples.

    Returns
    -------
    ndarray of shape (n_landmarks, n_features)

    Raises
    ------
    ValueError
        As `choose_landmarks` does; for centers where a matrix holds the distances, for landmarks with other columns
        than `X`, and where samples may lack views.
    """
    factors = [one for kernel in bank.kernels_ for one in kernel.factors()]
    have_matrix = any(isinstance(one, FromDistance) and one.is_matrix for one in factors)
    if have_matrix and isinstance(bank.landmarks, Integral) and bank.landmark_selection != "random":
        raise ValueError(
            '`landmark_selection` must be "random" where a matrix holds the distances of samples, which have no '
            f"centers; got {bank.landmark_selection!r}."
        )
    if bank.missing_views != "error":
        raise ValueError(
            f'`landmarks` must be None with `missing_views="{bank.missing_views}"`, because landmarks must '
            "have all views. Leave out samples that lack views, or compare with all training samples."
        )
    given, labels = bank.landmarks, column_labels(bank.landmarks)
    if not have_same_columns(labels, bank.column_labels_):
        raise ValueError(
            f"`landmarks` must have the columns of `X`, in their order; got {labels}. Select them: "
            "`landmarks[X.columns]`."
        )
    columns, plan = bank._used_columns(), bank.column_plan_
    if plan is not None:
        given = plan.encode(given) if labels is not None else given
        if isinstance(given, Integral) and bank.landmark_selection == "kmeans":
            plan.refuse(
                columns,
                "columns with `landmarks`",
                ["yes or no"],
                'Use `landmark_selection="random"`: categories have no centers.',
            )
    return choose_landmarks(X, given, bank.landmark_selection, bank.random_state, columns, bank.scales_)


def _given(landmarks: Any, n_features: int) -> np.ndarray:
    try:
        values = check_numbers("landmarks", landmarks.toarray() if issparse(landmarks) else landmarks)
        points = check_array(values, dtype=np.float64, order="C", copy=True, input_name="landmarks")
        if points.shape[1] != n_features:
            raise ValueError(f"got {points.shape[1]} columns. Every landmark is a row, as a sample is.")
    except (ValueError, TypeError) as error:
        raise ValueError(
            "`landmarks` must be None, a whole number of them, or an array of finite numbers of shape (n_landmarks, "
            f"n_features={n_features}): {error}"
        ) from error
    return points


def _rows(X: Any, used: Any, n_landmarks: int, rng: np.random.Generator) -> Any:
    """Draw distinct samples."""
    order = rng.permutation(len(X))
    first = distinct_rows(used[order[:n_landmarks]])
    if len(first) < n_landmarks:
        first = distinct_rows(used[order])
    _check_enough(len(first), n_landmarks)
    return X[np.sort(order[first[:n_landmarks]])]


def _centers(X: Any, used: Any, n_landmarks: int, rng: np.random.Generator) -> Any:
    """Cluster the samples, or some of them if they are many."""
    some, n_some = np.arange(len(X)), max(LEAST_SAMPLES, SAMPLES_PER_LANDMARK * n_landmarks)
    if len(X) > n_some:
        some = np.sort(rng.permutation(len(X))[:n_some])
        if len(distinct_rows(used[some])) < n_landmarks:
            some = distinct_rows(used)
    _check_enough(len(distinct_rows(used[some])), n_landmarks)
    points = used[some]
    labels = kmeans(points.values if is_sparse(points) else points, n_landmarks, 1, ROUNDS, 1e-4, rng)
    sizes = np.bincount(labels, minlength=n_landmarks)
    _check_enough(int(np.count_nonzero(sizes)), n_landmarks)  # samples may differ by rounding alone
    if is_sparse(X):
        members = csr_array((1.0 / sizes[labels], (labels, np.arange(len(some)))), (n_landmarks, len(some)))
        return SparseTable(csr_array(members @ X[some].values))
    centers = np.zeros((n_landmarks, X.shape[1]))
    np.add.at(centers, labels, X[some])
    return centers / sizes[:, None]


def kmeans(
    points: Any, n_clusters: int, n_init: int, max_iter: int, tol: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the cluster of every point by k-means: the best of `n_init` runs of at most `max_iter` rounds each.

    Where there are fewer different points than clusters, some clusters have none.
    """
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    clustering = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, tol=tol, random_state=seed)
    # threads add up in any order: one of them, for results that do not change in their last digits
    with one_thread(), holding_back(ConvergenceWarning):
        return clustering.fit(points).labels_


def distinct_rows(rows: Any) -> np.ndarray:
    """Return the positions of rows that equal no row before them, in ascending order."""
    return rows.distinct() if is_sparse(rows) else np.sort(np.unique(rows, axis=0, return_index=True)[1])


def _check_enough(n_distinct: int, n_landmarks: int) -> None:
    if n_distinct < n_landmarks:
        raise ValueError(
            f"`landmarks` must be at most the number of distinct training samples, {n_distinct}; got {n_landmarks}. "
            "Samples that agree in all columns of all views count once."
        )
