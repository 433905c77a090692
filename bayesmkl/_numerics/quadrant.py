r"""Two normal variables cut off to the positive quadrant: moments, entropy and draws.

For the density proportional to :math:`\exp(h^\top x - \tfrac12 x^\top P x)` on :math:`x \ge 0` put
:math:`u_i = x_i \sqrt{P_{ii}}`, in which the precision is a correlation matrix with entry `c` and the linear term is
`h`. Given the first variable the second is a normal distribution cut off below, N(z, 1) with
:math:`z = h_2 - c u_1`, and the first alone has the density

.. math:: \exp \ell(u_1), \qquad
   \ell(u) = h_1 u - \tfrac12 u^2 + \tfrac12 z^2 + \log\Phi(z) + \text{const}, \qquad -1 \le \ell'' \le c^2 - 1 .

One integral is left, of smooth functions that change on the scale of one. It is done by Gauss-Legendre quadrature on
the interval where :math:`\ell` is within `DEPTH` of its maximum; everything else is in closed form, and no tail
probability of two variables is needed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.truncated_normal import draw_positive, log_normal_cdf, truncated_moments

DEPTH = 40.0
# The interval is searched for on grids of this many points, each time between two points of the grid before.
GRID, ROUNDS = 65, 5
# Rounding is reached while a panel is not wider than 4, which takes |c| < 0.999 at worst.
PANELS, ORDER = 128, 16
NODES, WEIGHTS = np.polynomial.legendre.leggauss(ORDER)


class QuadrantMoments(NamedTuple):
    """Moments of two normal variables in the positive quadrant."""

    mean: Any  # (2,)
    cov: Any  # (2, 2)
    entropy: Any  # in nats


class _Marginal(NamedTuple):
    """The first variable in units of its conditional deviation, on the nodes of a quadrature."""

    unit: Any  # (2,), 1 / sqrt(P_ii)
    u: Any  # (n_nodes,)
    p: Any  # (n_nodes,), weights that sum to one
    log_density: Any  # (n_nodes,)
    z: Any  # (n_nodes,), location of the second variable given the first


def quadrant_moments(linear: Array, precision: Array) -> QuadrantMoments:
    """Return mean, covariance and entropy of two normal variables, given that both are positive.

    Parameters
    ----------
    linear : array of shape (2,)
        Precision matrix times the mean before the cut.
    precision : array of shape (2, 2)
        Before the cut, positive definite.

    Returns
    -------
    QuadrantMoments

    Examples
    --------
    Independent half normals have means sqrt(2/pi):

    >>> import numpy as np
    >>> quadrant_moments(np.zeros(2), np.eye(2)).mean.round(4)
    array([0.7979, 0.7979])
    """
    xp = namespace(linear)
    unit, u, p, log_density, z = _marginal(linear, precision)
    second = truncated_moments(z, xp.ones_like(z), 0.0)
    mean = xp.stack([p @ u, p @ second.mean])
    away = xp.stack([u - mean[0], second.mean - mean[1]])
    cov = (p * away) @ away.T
    cov = cov + xp.diag(xp.stack([xp.zeros_like(mean[0]), p @ second.variance]))
    entropy = p @ (second.entropy - log_density) + xp.log(unit).sum()
    return QuadrantMoments(unit * mean, unit[:, None] * unit * cov, entropy)


def draw_quadrant(
    linear: np.ndarray, precision: np.ndarray, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of shape (n_draws, 2), the first variable by its quantiles between the nodes."""
    unit, nodes, p, _, z = _marginal(linear, precision)
    u = np.interp(rng.random(n_draws), np.cumsum(p) - 0.5 * p, nodes)
    return unit * np.stack([u, draw_positive(np.interp(u, nodes, z), rng)], axis=1)


def quadrant_quantiles(linear: np.ndarray, precision: np.ndarray, probability: float) -> np.ndarray:
    """Return the quantile of each of the two variables, between the nodes, shape (2,).

    Examples
    --------
    >>> quadrant_quantiles(np.zeros(2), np.eye(2), 0.5).round(4)  # medians of half normal variables
    array([0.6745, 0.6745])
    """
    found = []
    for order in ([0, 1], [1, 0]):
        unit, nodes, p, _, _ = _marginal(linear[order], precision[np.ix_(order, order)])
        found.append(unit[0] * np.interp(probability, np.cumsum(p) - 0.5 * p, nodes))
    return np.array(found)


def _height(h: Array, c: Array, u: Array) -> Any:
    r"""Return :math:`\ell(u)` up to a constant, without the difference of huge numbers that its squares are.

    For z < 0, ½z² + log Φ(z) changes slowly, and the rest is a square; for z > 0 ½z² joins it. Both squares are
    measured from a point near the maximum of the whole, r; there they differ by ½z(r)², which goes to the one that
    does not have the maximum.
    """
    xp, curvature = namespace(u), 1.0 - c * c
    mode = xp.where(h[1] > c * h[0], (h[0] - c * h[1]) / curvature, h[0])  # of one square, or of the other
    r = xp.maximum(mode, 0.0)
    z, at_r = h[1] - c * u, h[1] - c * r
    apart = 0.5 * at_r * at_r
    above = (u - r) * (h[0] - c * h[1] - 0.5 * curvature * (u + r)) + xp.where(at_r < 0.0, apart, 0.0)
    below = (u - r) * (h[0] - 0.5 * (u + r)) - xp.where(at_r < 0.0, 0.0, apart) + 0.5 * z * z
    return xp.where(z < 0.0, below, above) + log_normal_cdf(z)


def _marginal(linear: Array, precision: Array) -> _Marginal:
    xp = namespace(linear)
    unit = 1.0 / xp.sqrt(xp.diagonal(precision))
    h, c = unit * linear, precision[0, 1] * unit[0] * unit[1]
    height = partial(_height, h, c)
    # the slope at 0 is at most this, and falls by 1 - c^2 per unit
    rise = xp.maximum(h[0] + xp.abs(c) * (xp.abs(h[1]) + 1.0), 0.0)
    curvature = 1.0 - c * c
    low, high = xp.zeros_like(rise), rise / curvature + xp.sqrt(2.0 * DEPTH / curvature)
    steps = xp.linspace(0.0, 1.0, GRID, dtype=linear.dtype)
    for _ in range(ROUNDS):
        grid = low + (high - low) * steps
        heights = height(grid)
        inside = heights > heights.max() - DEPTH
        first, last = xp.argmax(inside), GRID - 1 - xp.argmax(inside[::-1])
        low, high = grid[xp.maximum(first - 1, 0)], grid[xp.minimum(last + 1, GRID - 1)]
    width = (high - low) / PANELS
    starts = low + width * xp.arange(PANELS, dtype=linear.dtype)
    u = (starts[:, None] + width * xp.asarray(0.5 * (1.0 + NODES))).reshape(-1)
    heights = height(u)
    top = heights.max()
    mass = xp.exp(heights - top) * xp.tile(xp.asarray(0.5 * WEIGHTS), PANELS) * width
    total = mass.sum()
    return _Marginal(unit, u, mass / total, heights - top - xp.log(total), h[1] - c * u)
