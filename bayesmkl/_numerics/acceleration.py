r"""Anderson acceleration of a fixed-point map over named blocks of variables.

The map takes a NamedTuple ("carry") to the next one. Every field is accelerated in a coordinate in which mixing
keeps it valid: positive numbers as logarithms, covariances as log standard deviations and correlations.
With outputs :math:`T_j` and residuals :math:`F_j = T_j - x_j` of the last sweeps, the next point is

.. math:: T_k - \sum_j \gamma_j (T_{j+1} - T_j), \qquad
   \gamma = \arg\min \big\| D (F_k - \sum_j \gamma_j (F_{j+1} - F_j)) \big\|

(Walker and Ni 2011, type II). `D` measures every coordinate on its own posterior scale; without it, blocks in
large units decide alone. Whether a point is kept is the caller's decision, by its objective.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from bayesmkl._numerics.arrays import namespace

__all__ = [
    "EMPTY",
    "Coordinate",
    "CovarianceCoordinate",
    "History",
    "LogCoordinate",
    "extrapolate",
    "flatten",
    "remember",
    "restore",
]

# Ridge on the normal equations, relative to their trace: differences grow collinear near the fixed point.
RIDGE = 1e-12


class Coordinate:
    """A field's own values, the default coordinate."""

    @staticmethod
    def forward(value: Any) -> Any:
        """Map a field to the vector that is mixed."""
        return value.reshape(-1)

    @staticmethod
    def backward(vector: Any, like: Any) -> Any:
        """Map a mixed vector back to a field shaped as `like`."""
        return vector.reshape(like.shape)


class LogCoordinate(Coordinate):
    """Logarithm, for positive fields."""

    @staticmethod
    def forward(value: Any) -> Any:
        """Take the logarithm."""
        return namespace(value).log(value).reshape(-1)

    @staticmethod
    def backward(vector: Any, like: Any) -> Any:
        """Exponentiate."""
        return namespace(vector).exp(vector).reshape(like.shape)


class CovarianceCoordinate(Coordinate):
    """Log standard deviations and correlations, for covariance matrices.

    Mixed correlations need not be positive definite; the caller's factorization then fails and the point with it.
    """

    @staticmethod
    def forward(value: Any) -> Any:
        """Split a covariance into log standard deviations and correlations."""
        xp = namespace(value)
        scale = xp.sqrt(xp.diagonal(value))
        correlation = value / scale / scale[:, None]
        return xp.concatenate([xp.log(scale), correlation.reshape(-1)])

    @staticmethod
    def backward(vector: Any, like: Any) -> Any:
        """Assemble the covariance."""
        size = like.shape[0]
        scale = namespace(vector).exp(vector[:size])
        return vector[size:].reshape(size, size) * scale * scale[:, None]


class History(NamedTuple):
    """Outputs of the map and residuals (output minus input) of the last sweeps, oldest first."""

    outputs: tuple[Any, ...]
    residuals: tuple[Any, ...]


EMPTY = History((), ())


def flatten(carry: Any, coordinates: Any) -> Any:
    """Return the mixing vector of `carry`; `coordinates` holds one Coordinate per field."""
    parts = [coordinate.forward(field) for field, coordinate in zip(carry, coordinates, strict=True)]
    return namespace(parts[0]).concatenate(parts)


def restore(vector: Any, like: Any, coordinates: Any) -> Any:
    """Invert `flatten`; `like` is a carry with the right shapes."""
    fields, start = [], 0
    for field, coordinate in zip(like, coordinates, strict=True):
        size = coordinate.forward(field).shape[0]
        fields.append(coordinate.backward(vector[start : start + size], field))
        start += size
    return type(like)(*fields)


def remember(history: History, output: Any, residual: Any, depth: int) -> History:
    """Append one sweep and forget those beyond `depth` differences."""
    keep = depth + 1
    return History((*history.outputs, output)[-keep:], (*history.residuals, residual)[-keep:])


def extrapolate(history: History, scales: Any) -> Any:
    """Mix the history into the next starting vector.

    Parameters
    ----------
    history : History
        At least two sweeps.
    scales : array of shape (n_coordinates,)
        Diagonal of `D`, reciprocal scale of every coordinate.

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
    changes = xp.stack([new - old for old, new in pairwise(history.residuals)])
    weighted = changes * scales**2
    normal = weighted @ changes.T
    ridge = RIDGE * xp.trace(normal) + xp.finfo(normal.dtype).tiny  # positive even if nothing changed
    regular = normal + ridge * xp.eye(normal.shape[0], dtype=normal.dtype)
    mixing = xp.linalg.solve(regular, weighted @ history.residuals[-1])
    mixed = history.outputs[-1]
    for gamma, (old, new) in zip(mixing, pairwise(history.outputs), strict=True):
        mixed = mixed - gamma * (new - old)
    return mixed
