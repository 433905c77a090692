r"""Moments of a unit-variance normal cut off below, exact in both tails.

For :math:`f \sim N(\mu, 1)` given :math:`yf > \nu` with :math:`y \in \{-1, +1\}` put
:math:`z = y\mu - \nu` and :math:`r = \varphi(z)/\Phi(z)`. Then

.. math:: E[f] = \mu + y r, \qquad Var[f] = 1 - r (r + z), \qquad
   H[f] = \tfrac12 \log(2\pi e) + \log\Phi(z) - \tfrac12 z r .

All three cancel for :math:`z \ll 0`. There, with :math:`x = -z`, Laplace's continued fraction

.. math:: r = x + \frac{1}{t}, \qquad t = x + \frac{2}{x + \frac{3}{x + \dots}}

gives them without a subtraction of near-equal numbers: :math:`yE[f] = \nu + 1/t`, :math:`Var = (t - r)/t`,
:math:`H = \tfrac12 - \log r + \tfrac{x}{2t}`, :math:`\log\Phi = -\tfrac{x^2}{2} - \log(r\sqrt{2\pi})`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesmkl._numerics.arrays import namespace, special_functions

__all__ = ["TruncatedMoments", "log_normal_cdf", "truncated_moments"]

LOG_2PI = math.log(2.0 * math.pi)
# Below this the fraction is used. With 64 terms it is exact to rounding from x = 3 on, and above z = -3 the direct
# formula for the variance loses at most two digits.
TAIL = -3.0
TERMS = 64


class TruncatedMoments(NamedTuple):
    """Mean, variance, entropy (nats) and log normalizer of a truncated normal, each of shape (n_samples,)."""

    mean: Any
    variance: Any
    entropy: Any
    log_normalizer: Any


def truncated_moments(loc: Any, y: Any, margin: Any) -> TruncatedMoments:
    """Moments of :math:`N(loc, 1)` restricted to ``y * f > margin``.

    Parameters
    ----------
    loc : array of shape (n_samples,)
        Mean before truncation.
    y : array of shape (n_samples,)
        Side that is kept, -1.0 or +1.0.
    margin : float
        Lower end of the kept side.

    Returns
    -------
    TruncatedMoments

    Examples
    --------
    A half normal has mean sqrt(2/pi) and variance 1 - 2/pi:

    >>> import numpy as np
    >>> half = truncated_moments(np.zeros(1), np.ones(1), 0.0)
    >>> half.mean.round(4), half.variance.round(4)
    (array([0.7979]), array([0.3634]))
    """
    xp = namespace(loc)
    z = y * loc - margin
    in_tail = z < TAIL
    body, tail = _body(xp.where(in_tail, TAIL, z)), _tail(xp.where(in_tail, -z, -TAIL))
    excess, variance, entropy, log_normalizer = (
        xp.where(in_tail, t, b) for t, b in zip(tail, body, strict=True)
    )
    return TruncatedMoments(y * (margin + excess), variance, entropy, log_normalizer)


def log_normal_cdf(z: Any) -> Any:
    """Logarithm of the standard normal distribution function, exact in both tails.

    Examples
    --------
    >>> import numpy as np
    >>> log_normal_cdf(np.array([-1e4, 0.0])).round(4)
    array([-5.00000101e+07, -6.93100000e-01])
    """
    xp = namespace(z)
    in_tail = z < TAIL
    return xp.where(
        in_tail, _tail(xp.where(in_tail, -z, -TAIL))[3], _log_cdf_body(xp.where(in_tail, TAIL, z))
    )


def _log_cdf_body(z: Any) -> Any:
    xp, special = namespace(z), special_functions(z)
    lower = 0.5 * special.erfc(xp.abs(z) / math.sqrt(2.0))  # the smaller of the two tail areas
    negative = z < 0.0
    return xp.where(negative, xp.log(xp.where(negative, lower, 1.0)), xp.log1p(-lower))


def _body(z: Any) -> tuple[Any, Any, Any, Any]:
    """Mean above the cut, variance, entropy and log cdf for z >= TAIL."""
    xp = namespace(z)
    log_cdf = _log_cdf_body(z)
    mills = xp.exp(-0.5 * z * z - 0.5 * LOG_2PI - log_cdf)
    excess = z + mills
    return excess, 1.0 - mills * excess, 0.5 * (LOG_2PI + 1.0) + log_cdf - 0.5 * z * mills, log_cdf


def _tail(x: Any) -> tuple[Any, Any, Any, Any]:
    """Return the same as `_body` for z = -x <= TAIL, by the continued fraction from its far end."""
    xp = namespace(x)
    fraction = x
    for k in range(TERMS, 2, -1):
        fraction = x + k / fraction
    t = x + 2.0 / fraction
    mills = x + 1.0 / t
    variance = (2.0 / fraction - 1.0 / t) / t
    entropy = 0.5 - xp.log(mills) + 0.5 * x / t
    return 1.0 / t, variance, entropy, -0.5 * x * x - 0.5 * LOG_2PI - xp.log(mills)
