r"""Priors of kernel weights and noise, as functions of independent standard normal coordinates.

Inference moves in coordinates :math:`u \sim N(0, I)` in which the prior is the same for all models; a prior is
the map from them to kernel weights. There the posterior of a weight that the data say nothing of is its prior,
one of a weight near zero has a normal tail instead of a boundary, and what the data do say is a correction to a
normal density.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy import special

__all__ = ["DirichletShares", "HalfT", "Horseshoe", "LogNormal", "Mapped", "StudentT", "WeightPrior"]

FARTHEST = 8.0  # coordinate beyond which a prior is cut off


class Mapped(NamedTuple):
    """Values of coordinates, and the function that pulls a gradient by the values back to the coordinates."""

    values: np.ndarray
    pull: Callable[[np.ndarray], np.ndarray]


class WeightPrior(Protocol):
    """Contract of priors on kernel weights."""

    def n_coordinates(self, n_kernels: int) -> int:
        """Return how many coordinates the weights have."""
        ...

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights, (n_kernels,), of some coordinates."""
        ...


class HalfT(NamedTuple):
    """Independent half-t weights; their signs do not matter to the score.

    Attributes
    ----------
    df : float
        Degrees of freedom.
    scale : float
        In units of the score: of the latent score of labels, of the standardized target in regression.

    Examples
    --------
    >>> HalfT(df=4.0, scale=1.0).weights(np.zeros(1)).values.round(4)  # the median
    array([0.7407])
    """

    df: float = 4.0
    scale: float = 1.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel."""
        return n_kernels

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates."""
        values, slopes = _half_t(coordinates, self.df, self.scale)
        return Mapped(values, lambda gradient: slopes * gradient)


class StudentT(NamedTuple):
    """Independent Student t weights, whose signs matter; the paper's have two degrees of freedom.

    Attributes
    ----------
    df : float
        Degrees of freedom.
    scale : float
        In units of the score.
    """

    df: float = 2.0
    scale: float = 1.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel."""
        return n_kernels

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates."""
        size = np.clip(np.abs(coordinates), 0.0, FARTHEST)
        values, density = _upper_t(special.ndtr(-size), self.df)
        slopes = self.scale * _normal_density(size) / density * (np.abs(coordinates) == size)
        return Mapped(self.scale * np.sign(coordinates) * values, lambda gradient: slopes * gradient)


class DirichletShares(NamedTuple):
    r"""A total and shares: :math:`w_m^2 = \tau^2 \varphi_m`, :math:`\tau` half-t and :math:`\varphi` Dirichlet.

    The prior of a share does not get wider or narrower with what other kernels there are.

    Attributes
    ----------
    concentration : float
        Of the Dirichlet distribution, the same for all kernels; below one few kernels have most of the
        variance.
    df, scale : float
        Of the half-t prior on the total standard deviation.
    """

    concentration: float = 0.5
    df: float = 4.0
    scale: float = 2.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel, and one for the total."""
        return n_kernels + 1

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates, the first of which is that of the total."""
        (total,), (slope,) = _half_t(coordinates[:1], self.df, self.scale)
        parts, part_slopes = _gamma(coordinates[1:], self.concentration)
        root = np.sqrt(parts / parts.sum())

        def pull(gradient: np.ndarray) -> np.ndarray:
            inward = total * gradient * root
            by_log_part = 0.5 * (inward - root**2 * inward.sum())
            return np.concatenate([[slope * (gradient @ root)], by_log_part * part_slopes / parts])

        return Mapped(total * root, pull)


class Horseshoe(NamedTuple):
    r"""Regularized horseshoe: :math:`w_m = \tau \lambda_m / \sqrt{1 + \tau^2 \lambda_m^2 / c^2}`.

    :math:`\tau` and :math:`\lambda_m` are half-Cauchy.

    Attributes
    ----------
    scale : float
        Of :math:`\tau`: about the size of a weight that does not matter.
    slab : float
        `c`, the largest size of a weight.
    """

    scale: float = 0.3
    slab: float = 5.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel, and one for the common scale."""
        return n_kernels + 1

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates, the first of which is that of the common scale."""
        factors, slopes = _half_t(coordinates, 1.0, 1.0)
        common, own = self.scale * factors[0], factors[1:]
        size = common * own
        shrink = 1.0 / np.sqrt(1.0 + (size / self.slab) ** 2)

        def pull(gradient: np.ndarray) -> np.ndarray:
            by_size = gradient * shrink**3
            return slopes * np.concatenate([[self.scale * (by_size @ own)], by_size * common])

        return Mapped(size * shrink, pull)


class LogNormal(NamedTuple):
    r"""Log-normal parameters of a likelihood: :math:`\phi = \phi_0 + \mathrm{median}\, e^{s u}`.

    Attributes
    ----------
    median : float
    log_std : float
        `s`.
    least : float
        :math:`\phi_0`. Of targets without noise nothing but the prior would end the fall of the noise, far below
        the digits that there are.
    """

    median: float = 0.3
    log_std: float = 1.5
    least: float = 1e-4

    def parameters(self, coordinates: np.ndarray) -> Mapped:
        """Return the parameters of some coordinates."""
        above = self.median * np.exp(self.log_std * coordinates)
        return Mapped(self.least + above, lambda gradient: self.log_std * above * gradient)


def _half_t(coordinates: np.ndarray, df: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return half-t quantiles of normal coordinates and their slopes."""
    u = np.clip(coordinates, -FARTHEST, FARTHEST)
    values, density = _upper_t(0.5 * special.ndtr(-u), df)
    return scale * values, 0.5 * scale * _normal_density(u) / density * (u == coordinates)


def _upper_t(area: np.ndarray, df: float) -> tuple[np.ndarray, np.ndarray]:
    """Return where Student's t has this area above it, at most 1/2, and its density there."""
    values = -special.stdtrit(df, area)
    log_height = special.gammaln(0.5 * (df + 1.0)) - special.gammaln(0.5 * df) - 0.5 * math.log(df * math.pi)
    return values, np.exp(log_height - 0.5 * (df + 1.0) * np.log1p(values**2 / df))


def _gamma(coordinates: np.ndarray, shape: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Gamma quantiles of normal coordinates, with scale one, and their slopes."""
    u = np.clip(coordinates, -FARTHEST, FARTHEST)
    values = np.where(
        u < 0.0, special.gammaincinv(shape, special.ndtr(u)), special.gammainccinv(shape, special.ndtr(-u))
    )
    values = np.maximum(values, 1e-300)
    slopes = _normal_density(u) / np.exp((shape - 1.0) * np.log(values) - values - special.gammaln(shape))
    return values, slopes * (u == coordinates)


def _normal_density(u: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * u**2) / math.sqrt(2.0 * math.pi)
