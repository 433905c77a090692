"""Covariance of q(b, e) for many kernels, in parts (`many_kernels`), and its coordinates for the acceleration."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.linalg import bordered
from bayesmkl._numerics.low_rank import DiagonalPlusLowRank


class WeightCovariance(NamedTuple):
    """Covariance of q(b, e), in parts: the counterpart of a matrix (1 + n_kernels, 1 + n_kernels), intercept first.

    ``covariance @ x``, ``covariance[rows, columns]``, ``diagonal`` and ``np.asarray`` are those of an array.
    """

    weights: DiagonalPlusLowRank  # C, of e
    first_order: DiagonalPlusLowRank  # C₁
    variance: np.ndarray  # (1 + n_kernels,), of b and e
    cross: np.ndarray  # (n_kernels,), of b with e
    slope: np.ndarray  # (n_kernels,): E[b | e] falls by slope' e
    intercept_variance: float  # of b given e
    design_product: (
        float  # sum of the entries of `readout_design` times those of this, by the equation for it
    )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.variance), len(self.variance)

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        cross = self.cross if other.ndim == 1 else self.cross[:, None]
        top = self.variance[0] * other[:1] + (self.cross @ other[1:])[None]
        return np.concatenate([top, cross * other[:1] + self.weights @ other[1:]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        dense = bordered(self.variance[0], self.cross, np.asarray(self.weights))
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def diagonal(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> np.ndarray:
        """Return the variances; the parameters of the array method are of no use here."""
        return self.variance

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws of a normal distribution of mean zero with this covariance, (n_draws, 1 + n_kernels)."""
        weights = self.weights.draw(n_draws, rng)
        noise = np.sqrt(self.intercept_variance) * rng.standard_normal(n_draws)
        return np.column_stack([noise - weights @ self.slope, weights])


class WeightCovarianceCoordinate:
    """Coordinates of a `WeightCovariance`: log standard deviations, and the correlations of b with e.

    The rest is not mixed but kept: an update has little of it, and any start is a valid one.
    """

    @staticmethod
    def forward(value: WeightCovariance) -> np.ndarray:
        """Return the vector that is mixed."""
        scale = np.sqrt(value.variance)
        return np.concatenate([np.log(scale), value.cross / (scale[0] * scale[1:])])

    @staticmethod
    def size(like: WeightCovariance) -> int:
        """Return the length of `forward`."""
        return 2 * len(like.variance) - 1

    @staticmethod
    def backward(vector: np.ndarray, like: WeightCovariance) -> WeightCovariance:
        """Put mixed values into the latest covariance."""
        scale = np.exp(vector[: len(like.variance)])
        return like._replace(variance=scale * scale, cross=vector[len(scale) :] * scale[0] * scale[1:])

    @staticmethod
    def measure(vector: np.ndarray, like: WeightCovariance) -> np.ndarray:
        """Return the log standard deviations."""
        return vector[: len(like.variance)]


def cov_of_weights(cov: np.ndarray | WeightCovariance, n_outputs: int) -> Any:
    """Return the covariance of e, of that of q(b, e) with `n_outputs` intercepts."""
    return cov.weights if isinstance(cov, WeightCovariance) else cov[n_outputs:, n_outputs:]
