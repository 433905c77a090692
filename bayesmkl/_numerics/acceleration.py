r"""Anderson acceleration of a fixed-point map over named blocks of variables.

The map takes a NamedTuple ("carry") to the next one. Every field is accelerated in a coordinate in which mixing
keeps it valid: positive numbers as logarithms, covariances as log standard deviations and correlations.
With outputs :math:`T_j` and residuals :math:`F_j = T_j - x_j` of the last sweeps, the next point is

.. math:: T_k - \sum_j \gamma_j (T_{j+1} - T_j), \qquad
   \gamma = \arg\min \big\| D (F_k - \sum_j \gamma_j (F_{j+1} - F_j)) \big\|

(Walker and Ni 2011, type II). `D` measures every coordinate on its own posterior scale; without it, blocks in
large units decide alone. All coordinates are mixed, but not all are measured: a few hundred per block say as well
how far a point is from being fixed, and a sweep's worth of arithmetic is saved. Whether a point is kept is the
caller's decision, by its objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from bayesmkl._numerics.arrays import Array, is_numpy, namespace

# Ridge on the normal equations, relative to their trace: differences grow collinear near the fixed point.
RIDGE = 1e-12
# Of a covariance, about as many correlations as this many columns have are measured.
MEASURED_COLUMNS = 16
AT_ONCE = 2**11  # coordinates of all residuals that are multiplied at once, so that they stay in cache


class Coordinate:
    """A field's own values, the default coordinate."""

    @staticmethod
    def forward(value: Array) -> Any:
        """Map a field to the vector that is mixed."""
        return value.reshape(-1)

    @staticmethod
    def size(like: Array) -> int:
        """Return the length of `forward` of a field shaped as `like`."""
        return int(like.size)

    @staticmethod
    def backward(vector: Array, like: Array) -> Any:
        """Map a mixed vector back to a field shaped as `like`."""
        return vector.reshape(like.shape)

    @staticmethod
    def measure(vector: Array, like: Array) -> Any:
        """Return the part of `forward` whose residual decides how points are mixed: all of it."""
        return vector


class UnmeasuredCoordinate(Coordinate):
    """Values that are only mixed: another field measures what they follow from."""

    @staticmethod
    def measure(vector: Array, like: Array) -> Any:
        """Return nothing."""
        return vector[:0]


class LogCoordinate(Coordinate):
    """Logarithm, for positive fields."""

    @staticmethod
    def forward(value: Array) -> Any:
        """Take the logarithm."""
        return namespace(value).log(value).reshape(-1)

    @staticmethod
    def backward(vector: Array, like: Array) -> Any:
        """Exponentiate."""
        return namespace(vector).exp(vector).reshape(like.shape)


class CovarianceCoordinate(Coordinate):
    """Log standard deviations and correlations (each once), for covariance matrices.

    Mixed correlations need not be positive definite; the caller's factorization then fails and the point with it.
    """

    @staticmethod
    def forward(value: Array) -> Any:
        """Split a covariance into log standard deviations and correlations."""
        xp, (rows, columns) = namespace(value), _below_diagonal(value.shape[0])
        scale = xp.sqrt(xp.diagonal(value))
        return xp.concatenate([xp.log(scale), value[rows, columns] / (scale[rows] * scale[columns])])

    @staticmethod
    def size(like: Array) -> int:
        """Return the length of `forward`."""
        n = like.shape[-1]
        return int(n + n * (n - 1) // 2)

    @staticmethod
    def backward(vector: Array, like: Array) -> Any:
        """Assemble the covariance."""
        xp, n = namespace(vector), like.shape[0]
        scale = xp.exp(vector[:n])
        correlations = xp.concatenate([vector[n:], xp.ones((1,), dtype=vector.dtype)])
        return xp.take(correlations, _places(n)) * scale * scale[:, None]

    @staticmethod
    def measure(vector: Array, like: Array) -> Any:
        """Return the log standard deviations, and correlations at regular distances that count for both triangles."""
        n = like.shape[-1]
        step = -(-n // (2 * MEASURED_COLUMNS))
        return namespace(vector).concatenate([vector[:n], (2 * step) ** 0.5 * vector[n::step]])


@lru_cache(maxsize=8)
def _below_diagonal(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the entries below the diagonal."""
    return np.tril_indices(size, -1)


@lru_cache(maxsize=8)
def _places(size: int) -> np.ndarray:
    """Return the place of each entry of a symmetric matrix among those below the diagonal, then on the diagonal."""
    rows, columns = _below_diagonal(size)
    places = np.full((size, size), len(rows))
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places


class History(NamedTuple):
    """Outputs of the map and measured residuals (output minus input) of the last sweeps, oldest first."""

    outputs: tuple[Any, ...]
    residuals: tuple[Any, ...]


EMPTY = History((), ())


def flatten(carry: Any, coordinates: Sequence[Any]) -> Any:
    """Return the mixing vector of `carry`; `coordinates` holds one Coordinate per field."""
    parts = [coordinate.forward(field) for field, coordinate in zip(carry, coordinates, strict=True)]
    return namespace(parts[0]).concatenate(parts)


def restore(vector: Array, like: Any, coordinates: Sequence[Any]) -> Any:
    """Invert `flatten`; `like` is a carry with the right shapes."""
    parts = zip(_parts(vector, like, coordinates), like, coordinates, strict=True)
    return type(like)(*(coordinate.backward(part, field) for part, field, coordinate in parts))


def measure(vector: Array, like: tuple[Array, ...], coordinates: Sequence[Any]) -> Any:
    """Return the measured coordinates of a mixing vector; `like` is a carry with the right shapes."""
    parts = zip(_parts(vector, like, coordinates), like, coordinates, strict=True)
    return namespace(vector).concatenate(
        [coordinate.measure(part, field) for part, field, coordinate in parts]
    )


def _parts(vector: Array, like: tuple[Array, ...], coordinates: Sequence[Any]) -> list[Any]:
    """Cut a mixing vector into the parts of the fields."""
    sizes = [coordinate.size(field) for field, coordinate in zip(like, coordinates, strict=True)]
    return [vector[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def remember(history: History, output: Array, residual: Array, depth: int) -> History:
    """Append one sweep and forget those beyond `depth` differences."""
    keep = depth + 1
    return History((*history.outputs, output)[-keep:], (*history.residuals, residual)[-keep:])


def forget(history: History) -> History:
    """Keep the last sweep alone, to start over from it."""
    return History(history.outputs[-1:], history.residuals[-1:])


def extrapolate(history: History, scales: Array) -> Any:
    """Mix the history into the next starting vector.

    Parameters
    ----------
    history : History
        At least two sweeps.
    scales : array of shape (n_measured,)
        Diagonal of `D`, reciprocal scale of every measured coordinate.

    Returns
    -------
    array of shape (n_coordinates,)

    Examples
    --------
    A linear map of two variables is solved after three evaluations:

    >>> import numpy as np
    >>> matrix, shift = np.array([[0.9, 0.05], [0.0, 0.5]]), np.array([1.0, 1.0])
    >>> point, history = np.zeros(2), EMPTY
    >>> for _ in range(3):
    ...     image = matrix @ point + shift
    ...     history = remember(history, image, image - point, depth=5)
    ...     point = image
    >>> extrapolate(history, np.ones(2)).round(3)
    array([11.,  2.])
    """
    xp = namespace(scales)
    normal: Any = 0.0
    right: Any = 0.0
    size = min(AT_ONCE, len(scales)) if is_numpy(scales) else len(scales)  # JAX compiles one product
    for first in range(0, len(scales), size):
        some = slice(first, first + size)
        residuals = xp.stack([residual[some] for residual in history.residuals])
        changes = xp.diff(residuals, axis=0)
        weighted = changes * scales[some] ** 2
        normal, right = normal + weighted @ changes.T, right + weighted @ residuals[-1]
    ridge = RIDGE * xp.trace(normal) + xp.finfo(normal.dtype).tiny  # positive even if nothing changed
    regular = normal + ridge * xp.eye(normal.shape[0], dtype=normal.dtype)
    mixing = xp.linalg.solve(regular, right)
    # sum_j c_j T_j, whose coefficients sum to one
    coefficients = xp.diff(xp.concatenate([xp.zeros(1), mixing, xp.ones(1)]))
    mixed = coefficients[-1] * history.outputs[-1]
    for coefficient, output in zip(coefficients[:-1], history.outputs[:-1], strict=True):
        mixed = daxpy(output, mixed, a=coefficient) if is_numpy(mixed) else mixed + coefficient * output
    return mixed
