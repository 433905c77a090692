r"""Independent kernel weights of any distribution that NumPyro has on the positive numbers.

A coordinate :math:`u \sim N(0, 1)` becomes the weight :math:`w = F^{-1}(\Phi(u))`, of which NumPyro has the density
alone: few of its distributions have :math:`F^{-1}`. The density of :math:`t = \log w` is integrated once, from either
end, which gives :math:`u` on a grid of :math:`t` with all digits in both tails; between nodes :math:`t(u)` is a cubic
polynomial with the slopes that it has at the nodes, :math:`\varphi(u) / p(t)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution
from scipy.interpolate import CubicHermiteSpline
from scipy.special import ndtri

from bayesmkl._utils.devices import numpyro_session
from bayesmkl.gp.hyperpriors import FARTHEST, Mapped

LogDensity = Callable[[np.ndarray], np.ndarray]
N_NODES = 2000
LONGEST = 300.0  # of a logarithm, so that powers of weights are numbers
DEPTH = 50.0  # of the log density below its largest value, where a tail ends
STEP, AREA = 0.05, 0.01  # of the log density between two nodes, and of what is between them, at most
N_HALVINGS = 40
GAUSS = np.polynomial.legendre.leggauss(4)
BLOCK = 4096  # densities that are evaluated at once, by a function that is compiled once
WRONG = 1e-6  # by which the density may miss its integral


class NumPyroPrior(NamedTuple):
    """Independent weights of one distribution.

    Attributes
    ----------
    distribution : numpyro.distributions.Distribution
        Of a weight.
    log_weight : callable
        Logarithm of the weight of a coordinate, a `CubicHermiteSpline`.
    """

    distribution: Distribution
    log_weight: CubicHermiteSpline

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel."""
        return n_kernels

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates."""
        u = np.clip(coordinates, *self.log_weight.x[[0, -1]])
        values = np.exp(self.log_weight(u))
        slopes = values * self.log_weight(u, 1) * (u == coordinates)
        return Mapped(values, lambda gradient: slopes * gradient)


def numpyro_prior(distribution: Distribution) -> NumPyroPrior:
    """Prepare a distribution for inference.

    Raises
    ------
    ValueError
        If it is not one of a single positive number, or its density cannot be integrated.
    """
    _check_support(distribution)
    with numpyro_session():
        log_density = _log_density(distribution)
        nodes, heights = _nodes(log_density)
        areas = _areas(log_density, nodes)
    below, above = np.cumsum(areas), np.cumsum(areas[::-1])[::-1]
    if not abs(below[-1] - 1.0) < WRONG:
        raise ValueError(
            f"`kernel_prior` must have a density that integrates to one; that of {type(distribution).__name__} gives "
            f"{below[-1]:.6g} between e^{-LONGEST:.0f} and e^{LONGEST:.0f}. Give one with less mass near zero, or "
            "lighter tails."
        )
    below, above = np.concatenate([[0.0], below]), np.concatenate([above, [0.0]])
    u = np.where(below < above, ndtri(below), -ndtri(above))
    kept = np.abs(u) <= FARTHEST
    kept[kept] = np.diff(u[kept], prepend=-np.inf) > 0.0
    u, nodes, heights = u[kept], nodes[kept], heights[kept]
    slopes = np.exp(-0.5 * u**2 - 0.5 * np.log(2.0 * np.pi) - heights)
    return NumPyroPrior(distribution, CubicHermiteSpline(u, nodes, slopes))


def _check_support(distribution: Distribution) -> None:
    """Raise for a distribution that is not of one positive number, with densities at all of them."""
    support: Any = distribution.support
    shape = (*distribution.batch_shape, *distribution.event_shape)
    if shape != ():
        got = f"shape {shape}"
    elif support is None or support.is_discrete or hasattr(support, "upper_bound"):
        got = f"support {support}"
    elif np.all(np.asarray(getattr(support, "lower_bound", None)) == 0.0):
        return
    else:
        got = f"support {support}"
    raise ValueError(
        "`kernel_prior` must be a distribution of one positive number of any size, the same for all kernels, such as "
        f"numpyro.distributions.Gamma(2, 1); got {type(distribution).__name__} with the {got}. Use "
        "numpyro.distributions.FoldedDistribution for one that has negative numbers too."
    )


def _nodes(log_density: LogDensity) -> tuple[np.ndarray, np.ndarray]:
    """Return logarithms of weights between which the log density changes little, with that density.

    Intervals are halved where it changes more or much is between them, unless it is far below its largest value at
    any node. That finds a narrow peak as well: it is next to the largest value, which rises with every halving.
    """
    nodes = np.linspace(-LONGEST, LONGEST, N_NODES)
    heights = log_density(nodes)
    for _ in range(N_HALVINGS):
        above = np.maximum(heights, heights.max() - DEPTH)
        lower, higher = np.sort([above[1:], above[:-1]], axis=0)
        coarse = (higher - lower > STEP) | (np.exp(higher) * np.diff(nodes) > AREA)
        if not coarse.any():
            break
        middle = 0.5 * (nodes[1:] + nodes[:-1])[coarse]
        at = 1 + np.flatnonzero(coarse)
        nodes, heights = np.insert(nodes, at, middle), np.insert(heights, at, log_density(middle))
    return nodes, heights


def _areas(log_density: LogDensity, nodes: np.ndarray) -> np.ndarray:
    """Integrate the density of the logarithm between neighboring nodes, by Gauss's rule."""
    points, weights = GAUSS
    half = 0.5 * np.diff(nodes)[:, None]
    inner = 0.5 * (nodes[1:] + nodes[:-1])[:, None] + half * points
    return (half * weights * np.exp(log_density(inner.ravel()).reshape(inner.shape))).sum(axis=1)


def _log_density(distribution: Distribution) -> LogDensity:
    """Return the log density of logarithms of weights; minus infinity for what is no number, and at poles."""
    compiled = jax.jit(lambda log_weights: distribution.log_prob(jnp.exp(log_weights)))

    def evaluate(log_weights: np.ndarray) -> np.ndarray:
        blocks = np.resize(log_weights, (-(-len(log_weights) // BLOCK), BLOCK))
        found = np.concatenate([np.asarray(compiled(jnp.asarray(block))) for block in blocks])
        found = found[: len(log_weights)] + log_weights
        return np.where(np.isfinite(found), found, -np.inf)

    return evaluate
