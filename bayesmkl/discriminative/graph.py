"""Graphs over samples: Laplacians of nearest neighbors through scikit-learn, and checks of given ones.

Sparse where the graph is (most entries of a nearest-neighbor Laplacian are zero), dense where it is not; both
multiply with ``@``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.neighbors import VALID_METRICS, NearestNeighbors
from sklearn.utils.validation import check_array

from bayesmkl._utils.given import check_numbers, naming
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import check_choice, check_integer
from bayesmkl.kernels.geometry import mean_row

# Largest |L - L'| and largest |row sum|, relative to the largest entry; those read from text reach 1e-8.
EXACT = 1e-8
METRICS = ("precomputed", *sorted({name for names in VALID_METRICS.values() for name in names}))
# Distances that scikit-learn may expand into squares of rows, which loses digits far from zero.
EXPANDED = ("euclidean", "l2", "minkowski", "p", "sqeuclidean")
# Share of non-zero entries up to which a sparse product beats a dense one (BLAS is about ten times denser work).
SPARSE = 0.1


def knn_laplacian(
    X: Any, n_neighbors: int = 10, metric: str | Callable[[np.ndarray, np.ndarray], float] = "euclidean"
) -> Any:
    r"""Return the Laplacian of the graph that joins each sample with its nearest neighbors.

    .. math:: L = D - W, \qquad W_{ij} = 1 \text{ if } i \text{ is a neighbor of } j \text{ or } j \text{ of } i,
       \qquad D_{ii} = \sum_j W_{ij}

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples, labeled and unlabeled; with ``metric="precomputed"`` the distances among them, of shape (n_samples,
        n_samples). One-sided distances need not be symmetric: neighbors of a sample are found in its row.
    n_neighbors : int, default=10
        Neighbors of each sample, without itself; where there are fewer other samples, all of them.
    metric : str or callable, default="euclidean"
        A distance known to :class:`sklearn.neighbors.NearestNeighbors`, or "precomputed".

    Returns
    -------
    csr_array or ndarray of shape (n_samples, n_samples)
        Sparse where at most a tenth of the entries differ from zero.

    Raises
    ------
    ValueError
        If `n_neighbors` is not a whole number of at least 1, `metric` is not known, or `X` does not hold finite
        numbers of at least two samples (or distances, which are zero on the diagonal, with ``metric="precomputed"``).
    TypeError
        If `X` is a sparse matrix, or does not hold numbers.

    References
    ----------
    M. Belkin, P. Niyogi and V. Sindhwani (2006), Manifold regularization: a geometric framework for learning from
    labeled and unlabeled examples, Journal of Machine Learning Research 7.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative import knn_laplacian
    >>> knn_laplacian(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1)
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    n_neighbors = check_integer("n_neighbors", n_neighbors, low=1)
    precomputed = isinstance(metric, str) and metric == "precomputed"
    if not callable(metric):
        check_choice("metric", metric, METRICS)
    X = check_distances("X", X) if precomputed else _samples(X)
    if isinstance(metric, str) and metric in EXPANDED:
        X = X - mean_row(X)
    n_neighbors = min(n_neighbors, len(X) - 1)
    neighbors = NearestNeighbors(n_neighbors=n_neighbors, metric=metric).fit(X)
    directed = scipy.sparse.csr_array(neighbors.kneighbors_graph())  # no sample is its own neighbor
    weights = directed.maximum(directed.T)
    return _compact(scipy.sparse.csr_array(scipy.sparse.diags_array(weights.sum(axis=1)) - weights))


def _samples(X: Samples) -> np.ndarray:
    check_numbers("X", X)
    with naming("X"):
        return check_array(X, dtype=np.float64, ensure_min_samples=2)


def squared_kernel_distances(kernel: np.ndarray) -> np.ndarray:
    r"""Return :math:`k(x, x) + k(z, z) - 2 k(x, z)` for all pairs, the squared distances in the feature space.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)

    Returns
    -------
    ndarray of shape (n_samples, n_samples)

    Examples
    --------
    >>> import numpy as np
    >>> squared_kernel_distances(np.array([[1.0, 2.0], [2.0, 4.0]]))
    array([[0., 1.],
           [1., 0.]])
    """
    diagonal = kernel.diagonal()
    return np.maximum(diagonal[:, None] + diagonal - (kernel + kernel.T), 0.0)


def check_laplacian(laplacian: Any, n_samples: int, name: str = "laplacian") -> Any:
    """Return a given Laplacian as float64 if it is one: symmetric, with zero row sums, positive semidefinite.

    Parameters
    ----------
    laplacian : array-like or sparse matrix of shape (n_samples, n_samples)
        ``D - W`` of a symmetric graph without negative weights, or a power of it.
    n_samples : int
        Number of training samples, labeled and unlabeled.
    name : str, default="laplacian"
        The argument that messages blame.

    Returns
    -------
    csr_array or ndarray of shape (n_samples, n_samples)

    Examples
    --------
    >>> import numpy as np
    >>> check_laplacian(np.array([[1, -1], [-1, 1]]), 2)
    array([[ 1., -1.],
           [-1.,  1.]])
    >>> check_laplacian(np.array([[0, 1], [1, 0]]), 2)
    Traceback (most recent call last):
    ...
    ValueError: `laplacian` must have zero row sums, as D - W has; the largest is 1. A graph given ...
    """
    is_sparse = scipy.sparse.issparse(laplacian)
    graph = laplacian if is_sparse else check_numbers(name, laplacian).astype(np.float64)
    if graph.ndim != 2 or graph.shape != (n_samples, n_samples):
        raise ValueError(
            f"`{name}` must be of shape (n_samples, n_samples) = ({n_samples}, {n_samples}), with labeled and "
            f"unlabeled training samples in the order of `X`; got {graph.shape}."
        )
    if graph.dtype.kind not in "biuf":
        raise ValueError(f"`{name}` must hold real numbers; got entries of type {graph.dtype}.")
    graph = scipy.sparse.csr_array(graph, dtype=np.float64)
    if not np.isfinite(graph.data).all():
        raise ValueError(f"`{name}` must be finite; got NaN or infinity.")
    size = np.abs(graph.data).max(initial=0.0)
    asymmetry = abs(graph - graph.T).max() if graph.nnz else 0.0
    if asymmetry > EXACT * size:
        raise ValueError(
            f"`{name}` must be symmetric; entries differ from their mirror images by up to {asymmetry:.3g}. "
            "Symmetrize the graph before its Laplacian is taken: W = np.maximum(W, W.T)."
        )
    row_sum = np.abs(graph.sum(axis=1)).max(initial=0.0)
    if row_sum > EXACT * size * np.sqrt(n_samples):
        raise ValueError(
            f"`{name}` must have zero row sums, as D - W has; the largest is {row_sum:.3g}. A graph given by its "
            "weights W needs np.diag(W.sum(axis=0)) - W; a normalized Laplacian is not used here."
        )
    _check_psd(graph, size, name)
    return _compact(graph)


def _check_psd(graph: sparse.sparray, size: float, name: str) -> None:
    """Raise for a negative eigenvalue; without negative weights there is none (diagonal dominance)."""
    off_diagonal = graph - scipy.sparse.diags_array(graph.diagonal())
    heaviest = off_diagonal.max() if off_diagonal.nnz else 0.0
    if heaviest <= EXACT * size:
        return
    smallest = scipy.linalg.eigvalsh(graph.toarray(), subset_by_index=[0, 0])[0]
    if smallest < -EXACT * size * graph.shape[0]:
        raise ValueError(
            f"`{name}` must be positive semidefinite; its smallest eigenvalue is {smallest:.3g}. Its graph has "
            f"negative weights, down to {-heaviest:.3g}: edges weigh similarity, zero where there is none."
        )


def check_distances(name: str, distances: ArrayLike) -> np.ndarray:
    """Return distances among samples as float64 if they are some; `name` is what messages blame.

    Examples
    --------
    >>> check_distances("distances", [[1.0, 0.0], [0.0, 1.0]])
    Traceback (most recent call last):
    ...
    ValueError: `distances`: Distances must not be negative, and be zero between a sample and itself; ...
    """
    distances = check_numbers(name, distances).astype(np.float64)
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1] or len(distances) < 2:
        raise ValueError(
            f"`{name}`: Distances must be those among all samples, of shape (n_samples, n_samples) with at least two "
            f"samples; got {distances.shape}."
        )
    if not np.isfinite(distances).all():
        raise ValueError(f"`{name}`: Distances must be finite; got NaN or infinity.")
    largest, diagonal = distances.max(), np.abs(distances.diagonal()).max()
    if distances.min() < 0 or diagonal > EXACT * largest:
        raise ValueError(
            f"`{name}`: Distances must not be negative, and be zero between a sample and itself; got values from "
            f"{distances.min():g} to {largest:g} and a diagonal of up to {diagonal:g}. Are these similarities?"
        )
    return distances


def _compact(graph: sparse.sparray) -> Any:
    return graph if graph.nnz <= SPARSE * graph.shape[0] ** 2 else graph.toarray()
