"""Distances as kernels, ``exp(-d / s)`` with a scale learned on training pairs (Gönen 2012, sec. 6.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.given import check_numbers, naming
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import float_of, shown
from bayesmkl.kernels.base import KERNEL, LARGEST, SMALLEST, Kernel
from bayesmkl.kernels.geometry import PairwiseGeometry, mean_distance, squared_norms

# Computed here from direct differences; exp(-d/s) is positive semidefinite for each of them.
OWN_METRICS = ("euclidean", "l2", "sqeuclidean", "cityblock", "l1", "manhattan")
BOOLEAN_METRICS = ("dice", "jaccard", "rogerstanimoto", "sokalsneath")
# Metrics of two rows alone. "seuclidean" and "mahalanobis" are missing on purpose: they take a variance from
# whatever rows they are called with, test rows included.
ANGLES = ("correlation", "cosine")
OTHER_METRICS = (
    "braycurtis",
    "canberra",
    "chebyshev",
    *ANGLES,
    "hamming",
    "haversine",
    "minkowski",
)
METRICS = OWN_METRICS + OTHER_METRICS + BOOLEAN_METRICS


@fill_docs(KERNEL)
class FromDistance(Kernel):
    r"""Kernel :math:`\exp(-d(x, z) / s)` of a distance :math:`d`.

    Parameters
    ----------
    distance : str, callable or array-like of shape (n_samples, n_samples), default="euclidean"
        * The name of a distance: "euclidean", "cityblock", "cosine", "chebyshev", "jaccard" and others.
        * A callable ``d(x, z)`` of two rows that gives one number.
        * A matrix of the distances between all samples. The view is then one column with the position of each
          sample in that matrix. In this way several distance matrices can be cross-validated together.
    scale : "train-mean" or float, default="train-mean"
        The scale :math:`s`, in units of the distance. "train-mean" is the mean distance over pairs of different
        training samples (1 where all those distances are zero).

    Attributes
    ----------
    scale_ : float
        The scale :math:`s` in use, in units of the distance.

    Notes
    -----
    The scale is that of [1]_, section 6.2.2. It never uses test samples, and the mean leaves out the zero distances
    of samples to themselves.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import FromDistance
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> kernel = FromDistance().fit(X)
    >>> kernel.scale_                                # the mean of 1, 2 and 3
    2.0
    >>> kernel(X[:1], X).round(4)
    array([[1.    , 0.6065, 0.2231]])
    """

    takes_units = True

    def __init__(
        self, distance: str | Callable[..., float] = "euclidean", scale: str | float = "train-mean"
    ) -> None:
        self.distance = distance
        self.scale = scale

    @property
    def label(self) -> str:
        """Name for tables and plots."""
        if isinstance(self.distance, str):
            name = self.distance
        else:
            name = callable_name(self.distance) if callable(self.distance) else "matrix"
        return (
            f"distance({name})" if isinstance(self.scale, str) else f"distance({name}, scale={self.scale:g})"
        )

    @property
    def is_matrix(self) -> bool:
        """Whether the feature is the position of a sample in a matrix of distances."""
        return not isinstance(self.distance, str) and not callable(self.distance)

    @property
    def known_psd(self) -> bool:
        """True for Euclidean, squared Euclidean and sum-of-differences distances."""
        return isinstance(self.distance, str) and self.distance in OWN_METRICS

    def check_parameters(self) -> None:
        """Raise for an unknown distance, a matrix without distances, or a scale that is not positive.

        Raises
        ------
        ValueError
            If `distance` is a word that is not known or no square matrix of distances (finite, none negative, zeros
            on the diagonal), or `scale` not positive.
        TypeError
            If `distance` holds other objects than numbers.
        """
        is_learned = isinstance(self.scale, str) and self.scale == "train-mean"
        if not is_learned and not SMALLEST <= float_of(self.scale) <= LARGEST:
            raise ValueError(
                f'`scale` of FromDistance must be "train-mean" or a positive number; got {shown(self.scale)}. '
                "It is a distance at which two samples still count as similar, between 1e-150 and 1e150."
            )
        if isinstance(self.distance, str):
            if self.distance not in METRICS:
                raise ValueError(
                    f"`distance` of FromDistance is {self.distance!r}, which is not known; it must be one of "
                    f"{', '.join(METRICS)}, a callable d(x, z), or a matrix of the distances among all samples."
                )
        elif not callable(self.distance):
            matrix = check_numbers("distance", self.distance).astype(np.float64)
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
                raise ValueError(
                    "`distance` of FromDistance must be a square matrix of the distances among all samples; "
                    f"got shape {matrix.shape}."
                )
            with naming("distance"):
                _check_distances(matrix)

    def fit(
        self, X: Samples, y: Targets | None = None, sample_weight: np.ndarray | None = None
    ) -> FromDistance:
        """Learn the scale from pairs of different training samples.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            Training points; positions of samples where `distance` is a matrix.
        y : None
            Ignored.
        sample_weight : ndarray of shape (n_train,), default=None
            How often each point counts in the mean: one of weight two is two points, which make pairs with all others
            and with each other. None is once.

        Returns
        -------
        self : FromDistance
            The fitted kernel.

        Raises
        ------
        ValueError
            For parameters that `check_parameters` refuses; if `X` does not hold distances, or positions, where it
            must; or if the distances are not finite, negative, or not zero between a sample and itself.
        TypeError
            If `X` is a sparse matrix, or does not hold numbers.
        """
        self.check_parameters()
        train = check_numbers("X", X).astype(np.float64)
        distances = self._distances(PairwiseGeometry(train, train))
        _check_distances(distances)
        if isinstance(self.scale, str):
            self.scale_ = mean_distance(distances, sample_weight) or 1.0
        else:
            self.scale_ = float(self.scale)
        return self

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a callable distance gives no number, or the rows are no positions in the matrix of distances.
        """
        check_is_fitted(self, "scale_")
        np.multiply(self._distances(geometry), -1.0 / self.scale_, out=out)
        np.exp(out, out=out)

    def _distances(self, geometry: PairwiseGeometry) -> np.ndarray:
        if callable(self.distance):
            return pairwise_distances(geometry.X, geometry.Z, metric=self.distance)
        if not isinstance(self.distance, str):
            matrix = np.asarray(self.distance, dtype=np.float64)
            rows, train = (positions_in("distance", side, len(matrix)) for side in (geometry.X, geometry.Z))
            return matrix[np.ix_(rows, train)]
        if self.distance in ("euclidean", "l2"):
            return np.sqrt(geometry.squared_distances)
        if self.distance == "sqeuclidean":
            return geometry.squared_distances
        if self.distance in OWN_METRICS:
            return geometry.l1_distances
        if self.distance in ANGLES:
            return _of_angles(geometry, centered=self.distance == "correlation")
        kind = bool if self.distance in BOOLEAN_METRICS else np.float64
        X = geometry.X.astype(kind, copy=False)
        Z = X if geometry.X is geometry.Z else geometry.Z.astype(kind, copy=False)
        return pairwise_distances(X, Z, metric=self.distance)


def _of_angles(geometry: PairwiseGeometry, centered: bool) -> np.ndarray:
    """Return one minus the cosines of the rows, of their deviations from their own means if `centered`.

    It is half the squared distance of rows of length one: the difference from one would keep no digits of small
    angles. A row without a direction is at distance one of all others; without a correlation, at none (NaN).
    """
    units = []
    for rows in (geometry.X, geometry.Z):
        rows = rows - rows.mean(axis=1, keepdims=True) if centered else rows
        lengths = np.sqrt(squared_norms(rows))[:, None]
        none = np.full_like(rows, np.nan if centered else 0.0)
        units.append(np.divide(rows, lengths, out=none, where=lengths > 0.0))
    distances = 0.5 * cdist(*units, "sqeuclidean")
    without = [squared_norms(rows) == 0.0 for rows in units]
    distances[without[0]], distances[:, without[1]] = 1.0, 1.0
    if geometry.X is geometry.Z:
        np.fill_diagonal(distances, 0.0)
    return distances


def callable_name(function: Callable[..., Any]) -> str:
    """Return the name a reader knows `function` by: its own, that of what a partial wraps, or its class."""
    function = getattr(function, "func", function)
    return getattr(function, "__name__", type(function).__name__)


def positions_in(name: str, X: np.ndarray, n_samples: int) -> np.ndarray:
    """Return the rows of a view as positions in the matrix that is called `name`."""
    if X.ndim != 2 or X.shape[1] != 1:
        raise ValueError(
            f"the view must have one column, of positions in the matrix `{name}`; got {X.shape[-1]}. Give it a view "
            "of its own"
        )
    positions = X[:, 0]
    wrong = (positions != np.floor(positions)) | (positions < 0) | (positions >= n_samples)
    if wrong.any():
        raise ValueError(
            f"the view must hold whole numbers from 0 to {n_samples - 1}, positions in the matrix `{name}`; got "
            f"{positions[wrong][0]:g}. Leave that column as it is where others are scaled, and give the matrix all "
            'samples; landmarks are those of landmark_selection="random"'
        )
    return positions.astype(np.intp)


def _check_distances(distances: np.ndarray) -> None:
    if not np.isfinite(distances).all():
        raise ValueError(
            "Distances must be finite; got NaN or infinity. Does the metric divide by a zero length?"
        )
    largest = distances.max(initial=0.0)
    if distances.min(initial=0.0) < 0 or np.abs(distances.diagonal()).max(initial=0.0) > 1e-6 * largest:
        raise ValueError(
            "Distances must be non-negative and zero between a sample and itself; got a smallest value of "
            f"{distances.min():g} and a diagonal of up to {np.abs(distances.diagonal()).max():g}. "
            "Are these similarities? Those are kernels already: pass them as a precomputed stack."
        )
