r"""Moments of a unit-variance normal cut off below, or cut out around zero, exact in both tails.

For :math:`f \sim N(\mu, 1)` given :math:`yf > \nu` with :math:`y \in \{-1, +1\}` put
:math:`z = y\mu - \nu` and :math:`r = \varphi(z)/\Phi(z)`. Then

.. math:: E[f] = \mu + y r, \qquad Var[f] = 1 - r (r + z), \qquad
   H[f] = \tfrac12 \log(2\pi e) + \log\Phi(z) - \tfrac12 z r .

All three cancel for :math:`z \ll 0`. There, with :math:`x = -z`, Laplace's continued fraction

.. math:: r = x + \frac{1}{t}, \qquad t = x + \frac{2}{x + \frac{3}{x + \dots}}

gives them without a subtraction of near-equal numbers: :math:`yE[f] = \nu + 1/t`, :math:`Var = (t - r)/t`,
:math:`H = \tfrac12 - \log r + \tfrac{x}{2t}`, :math:`\log\Phi = -\tfrac{x^2}{2} - \log(r\sqrt{2\pi})`.

Given :math:`|f| > \nu` both sides remain, f being above :math:`\nu` with probability :math:`w = \Phi(\mu - \nu)/Z`,
:math:`Z = \Phi(\mu - \nu) + \Phi(-\mu - \nu)`. With the moments :math:`m_\pm, v_\pm, H_\pm` of the two sides,

.. math:: E[f] = \mu + \frac{\varphi(\nu - \mu) - \varphi(\nu + \mu)}{Z}, \quad
   Var[f] = w v_+ + (1 - w) v_- + w (1 - w) (m_+ - m_-)^2, \quad
   H[f] = w (H_+ - \log w) + (1 - w) (H_- - \log(1 - w)) .

For :math:`\mu \ge 0` the mean is :math:`\mu (1 - c) + m_+ c` with :math:`c = w (1 - e^{-2 \nu \mu})`, a sum without
cancellation like the other two; the rest is symmetry.

Given :math:`l < f < u` the interval is what lies above `l` without what lies above `u`, which has the share
:math:`q = \Phi(\mu - u) / \Phi(\mu - l)` of it. With the moments :math:`m_l, v_l, H_l` and :math:`m_u, v_u, H_u`
of these two sides and :math:`d = m_u - m_l`,

.. math:: E[f] = m_l - \frac{q d}{1 - q}, \quad Var[f] = \frac{v_l - q v_u}{1 - q} - \frac{q d^2}{(1 - q)^2}, \quad
   H[f] = \frac{H_l - q (H_u - \log q)}{1 - q} + \log(1 - q) .

Intervals below :math:`\mu` are mirrored, so that `q` is the smaller share. Of narrow ones, where `q` is near one,
moments are integrals over the interval by Gauss's rule.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri_exp

from bayesmkl._numerics.arrays import Array, is_numpy, namespace, special_functions

LOG_2PI = math.log(2.0 * math.pi)
# Below this the fraction is used. With 64 terms it is exact to rounding from x = 3 on, and above z = -3 the direct
# formula for the variance loses at most two digits.
TAIL = -3.0
TERMS = 64
# Rule for intervals over which the log density rises or falls by about one.
GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(12)
# Below this draws use the exponent alone, whose relative error is 1 / x^2.
FAR = -1e5


class TruncatedMoments(NamedTuple):
    """Mean, variance, entropy (nats) and log normalizer of a truncated normal, each of shape (n_samples,)."""

    mean: Any
    variance: Any
    entropy: Any
    log_normalizer: Any


def truncated_moments(loc: Array, y: Array | float, margin: Array | float) -> TruncatedMoments:
    """Return the moments of :math:`N(loc, 1)` restricted to ``y * f > margin``.

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
    excess, variance, entropy, log_normalizer = _above(margin - y * loc)
    return TruncatedMoments(y * (margin + excess), variance, entropy, log_normalizer)


def split_moments(loc: Array, margin: Array | float) -> TruncatedMoments:
    """Return the moments of :math:`N(loc, 1)` restricted to ``abs(f) > margin``.

    Parameters
    ----------
    loc : array of shape (n_samples,)
        Mean before truncation.
    margin : float
        Half the width of the gap, not negative; 0 leaves the normal distribution as it is.

    Returns
    -------
    TruncatedMoments

    Examples
    --------
    The gap pushes the mean away from zero, on the side where it is:

    >>> import numpy as np
    >>> split_moments(np.array([-0.5, 0.0, 0.5]), 1.0).mean.round(4)
    array([-1.0929,  0.    ,  1.0929])
    """
    xp = namespace(loc)
    distance, ones = xp.abs(loc), xp.ones_like(loc)
    near, far = truncated_moments(distance, ones, margin), truncated_moments(distance, -ones, margin)
    log_odds = _log_odds(distance, margin, near.log_normalizer - far.log_normalizer)
    log_w = -xp.log1p(xp.exp(-log_odds))  # of the near side; its odds are at least one
    w, rest = xp.exp(log_w), xp.exp(log_w - log_odds)
    pushed = -w * xp.expm1(-2.0 * margin * distance)
    mean = (1.0 - pushed) * distance + pushed * near.mean
    variance = w * near.variance + rest * far.variance + w * rest * (near.mean - far.mean) ** 2
    entropy = w * (near.entropy - log_w) + rest * (far.entropy - log_w + log_odds)
    return TruncatedMoments(xp.sign(loc) * mean, variance, entropy, near.log_normalizer - log_w)


def _log_odds(distance: Array, margin: Array | float, difference: Array) -> Any:
    """Return the log odds of the near side: the `difference` of two logarithms, or its limit where both are huge."""
    xp = namespace(distance)
    in_tail = distance - margin < TAIL
    near, far = (
        _tail_fraction(xp.where(in_tail, margin + sign * distance, -TAIL))[0] for sign in (-1.0, 1.0)
    )
    return xp.where(in_tail, 2.0 * margin * distance + xp.log(far / near), difference)


def label_moments(loc: Array, y: Array, margin: Array | float) -> TruncatedMoments:
    """Return moments of :math:`N(loc, 1)` beyond the margin, on the side of the label, or on both sides for 0.

    Parameters
    ----------
    loc : array of shape (n_samples,)
        Mean before truncation.
    y : array of shape (n_samples,)
        Labels -1.0 and +1.0 (`truncated_moments`), 0.0 for none (`split_moments`).
    margin : float
        Not negative.

    Returns
    -------
    TruncatedMoments
    """
    if is_numpy(y) and y.all():
        return truncated_moments(loc, y, margin)
    xp, unlabeled = namespace(loc), y == 0.0
    one_side = truncated_moments(loc, xp.where(unlabeled, 1.0, y), margin)
    pairs = zip(split_moments(loc, margin), one_side, strict=True)
    return TruncatedMoments(*(xp.where(unlabeled, split, one) for split, one in pairs))


def interval_moments(loc: Array, lower: Array, upper: Array) -> TruncatedMoments:
    """Return the moments of :math:`N(loc, 1)` restricted to ``lower < f < upper``.

    Parameters
    ----------
    loc : array of shape (n_samples,)
        Mean before truncation.
    lower, upper : array of shape (n_samples,)
        Ends of the intervals, of which either or both may be infinite; ``lower < upper``.

    Returns
    -------
    TruncatedMoments

    Examples
    --------
    Far from the mean the density falls within an interval, and it is nearly constant within a short one:

    >>> import numpy as np
    >>> interval_moments(np.zeros(2), np.array([10.0, 0.0]), np.array([11.0, 0.1])).mean.round(3)
    array([10.098,  0.05 ])
    """
    xp = namespace(loc)
    start, end = lower - loc, upper - loc
    is_free = xp.isinf(start) & xp.isinf(end)
    start, end = xp.where(is_free, 0.0, start), xp.where(is_free, xp.inf, end)
    is_above = start + end > 0.0
    low, high = xp.where(is_above, start, -end), xp.where(is_above, end, -start)
    is_narrow = (high - low) * xp.maximum(high, 1.0) < 1.0
    wide = _wide(low, xp.where(is_narrow, low + 1.0, high))
    narrow = _narrow(xp.where(is_narrow, low, 0.0), xp.where(is_narrow, high, 0.5))
    excess, variance, entropy, log_normalizer = (
        xp.where(is_narrow, n, w) for n, w in zip(narrow, wide, strict=True)
    )
    mean = xp.where(is_above, lower + excess, upper - excess)
    free = (loc, 1.0, 0.5 * (LOG_2PI + 1.0), 0.0)
    found = (mean, variance, entropy, log_normalizer)
    return TruncatedMoments(*(xp.where(is_free, own, each) for own, each in zip(free, found, strict=True)))


def _wide(low: Array, high: Array) -> tuple[Any, Any, Any, Any]:
    """Return mean above `low`, variance, entropy and log probability, from those of the sides beyond both ends."""
    xp = namespace(low)
    is_open = xp.isinf(high)
    high = xp.where(is_open, low + 1.0, high)
    (near, near_variance, near_entropy, log_near), (far, far_variance, far_entropy, log_far) = map(
        _above, (low, high)
    )
    log_q = xp.where(is_open, -xp.inf, log_far - log_near)
    q, rest = xp.exp(log_q), -xp.expm1(log_q)
    distance = (high - low) + far - near  # of the means of the two sides
    crowd = far_entropy - xp.where(is_open, 0.0, log_q)
    return (
        near - q * distance / rest,
        (near_variance - q * far_variance) / rest - q * (distance / rest) ** 2,
        (near_entropy - q * crowd) / rest + xp.log(rest),
        log_near + xp.log(rest),
    )


def _above(cut: Array) -> tuple[Any, Any, Any, Any]:
    """Return mean above the cut, variance, entropy and log probability of a standard normal above it."""
    xp, z = namespace(cut), -cut
    in_tail = z < TAIL
    body = _body(xp.where(in_tail, TAIL, z))
    if is_numpy(cut) and cut.ndim:  # few are in the tail, whose fraction takes longest
        for whole, own in zip(body, _tail(-z[in_tail]), strict=True):
            whole[in_tail] = own
        return body
    tail = _tail(xp.where(in_tail, -z, -TAIL))
    excess, variance, entropy, log_normalizer = (
        xp.where(in_tail, t, b) for t, b in zip(tail, body, strict=True)
    )
    return excess, variance, entropy, log_normalizer


def _narrow(low: Array, high: Array) -> tuple[Any, Any, Any, Any]:
    """Return the same as `_wide`, by Gauss's rule around the middle."""
    xp, middle, half = namespace(low), 0.5 * (low + high), 0.5 * (high - low)
    nodes, weights = (xp.asarray(own).reshape(-1, *(1,) * low.ndim) for own in (GAUSS_NODES, GAUSS_WEIGHTS))
    steps = half * nodes
    rises = -steps * (middle + 0.5 * steps)  # of the log density
    terms = weights * xp.exp(rises)
    area = terms.sum(axis=0)
    shares = terms / area
    mean = (shares * steps).sum(axis=0)
    log_area = xp.log(half * area)
    return (
        half + mean,
        (shares * (steps - mean) ** 2).sum(axis=0),
        log_area - (shares * rises).sum(axis=0),
        log_area - 0.5 * (middle * middle + LOG_2PI),
    )


def draw_positive(loc: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from N(loc, 1) restricted to positive numbers, one for every entry of `loc`, however far in the tail."""
    share = rng.standard_exponential(loc.shape)  # minus the log of a uniform share of what is kept
    drawn = np.maximum(loc - ndtri_exp(log_normal_cdf(loc) - share), 0.0)
    # there log Phi has no digits left for the share, and is that of the exponent x^2 / 2 alone
    distance = np.maximum(-loc, 1.0)
    far = 2.0 * share / (distance + np.sqrt(distance**2 + 2.0 * share))
    return np.where(loc < FAR, far, drawn)


def log_normal_cdf(z: Array) -> Any:
    """Return the logarithm of the standard normal distribution function, exact in both tails.

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


def _log_cdf_body(z: Array) -> Any:
    xp, special = namespace(z), special_functions(z)
    lower = 0.5 * special.erfc(xp.abs(z) / math.sqrt(2.0))  # the smaller of the two tail areas
    negative = z < 0.0
    return xp.where(negative, xp.log(xp.where(negative, lower, 1.0)), xp.log1p(-lower))


def _body(z: Array) -> tuple[Any, Any, Any, Any]:
    """Return mean above the cut, variance, entropy and log cdf for z >= TAIL."""
    xp = namespace(z)
    log_cdf = _log_cdf_body(z)
    mills = xp.exp(-0.5 * z * z - 0.5 * LOG_2PI - log_cdf)
    excess = z + mills
    return excess, 1.0 - mills * excess, 0.5 * (LOG_2PI + 1.0) + log_cdf - 0.5 * z * mills, log_cdf


def _tail(x: Array) -> tuple[Any, Any, Any, Any]:
    """Return the same as `_body` for z = -x <= TAIL, by the continued fraction from its far end."""
    mills, t, fraction = _tail_fraction(x)
    variance = (2.0 / fraction - 1.0 / t) / t
    log_mills = namespace(x).log(mills)
    entropy = 0.5 - log_mills + 0.5 * x / t
    return 1.0 / t, variance, entropy, -0.5 * x * x - 0.5 * LOG_2PI - log_mills


def _tail_fraction(x: Array) -> tuple[Any, Any, Any]:
    """Return r, t and ``x + 3 / (x + ...)``."""
    fraction = x
    for k in range(TERMS, 2, -1):
        fraction = x + k / fraction
    t = x + 2.0 / fraction
    return x + 1.0 / t, t, fraction
