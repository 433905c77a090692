r"""Probabilities that a variable of a standard distribution lies in an interval, with their derivatives by its ends.

With the log probability of more than z, :math:`\sigma(z)`, and :math:`Q = q / (1 - q)`,
:math:`q = e^{\sigma(u) - \sigma(l)}`, the probability of an interval has the logarithm
:math:`\sigma(l) + \log(1 - q)`, whose derivatives are polynomials of `Q` and of those of :math:`\sigma`. Intervals
in the lower half are mirrored, so that nothing underflows or cancels in the tails; of narrow ones, where `q` is near
one, derivatives are moments of those of the log density within the interval, by Gauss's rule. The extreme value
distribution has closed forms of :math:`\delta = e^u - e^l`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.truncated_normal import LOG_2PI
from bayesmkl.outcomes.labels import log_cdf_derivatives

INFINITE = 1e8  # stands for infinite ends: there all densities are zero
LARGEST_LOG = 300.0  # of a cumulative hazard: its third power is still a number
SMALL, LARGE = 0.5, 700.0  # differences of cumulative hazards, between which closed forms have their digits
BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
SERIES = tuple((2 * place + 1, c) for place, c in enumerate(BERNOULLI))  # of 1 / (exp(d) - 1) - 1 / d + 1 / 2
GAUSS = np.polynomial.legendre.leggauss(12)


class Slopes(NamedTuple):
    """Logarithm of a density and three derivatives of it."""

    value: Any
    first: Any
    second: Any
    third: Any


class Mass(NamedTuple):
    """Log probability of an interval, derivatives by the ends and by a shift of both, and of these by the ends."""

    value: Any
    by_lower: Any
    by_upper: Any
    first: Any
    second: Any
    first_by_lower: Any
    first_by_upper: Any
    second_by_lower: Any
    second_by_upper: Any


class Law(NamedTuple):
    """A distribution without parameters.

    Attributes
    ----------
    largest : float
        Beyond it there is nothing.
    slopes : callable
        From z to `Slopes` of the log density.
    survival : callable
        From z to `Slopes` of the log probability that the variable is larger.
    mass : callable
        From the ends of intervals to the `Mass` between them.
    mean, variance : float
    """

    largest: float
    slopes: Callable[[Any], Slopes]
    survival: Callable[[Any], Slopes]
    mass: Callable[[Any, Any], Mass]
    mean: float
    variance: float


class Along(NamedTuple):
    """Derivatives of a log probability or density by a shift z -> z + e, and those of them in some direction.

    `value`, `first`, `second` and `third` are by the shift; `moved`, `first_moved` and `second_moved` are derivatives
    of the first three of these in the direction in which the ends move.
    """

    value: Any
    first: Any
    second: Any
    third: Any
    moved: Any
    first_moved: Any
    second_moved: Any


def log_mass_slopes(law: Law, lower: Array, upper: Array, directions: list[tuple[Any, Any]]) -> list[Along]:
    """Return derivatives of the log probability of intervals, in several directions.

    Parameters
    ----------
    law : Law
    lower, upper : array
        Ends, which may be infinite but not equal.
    directions : list of pairs of arrays
        How fast the ends move.
    """
    xp, own = namespace(lower), law.mass(lower, upper)
    found = []
    for by_lower, by_upper in directions:
        apart = by_upper - by_lower
        each = own.by_lower * by_lower + own.by_upper * by_upper
        together = 0.5 * (own.first * (by_lower + by_upper) + (own.by_upper - own.by_lower) * apart)
        found.append(
            Along(
                own.value,
                own.first,
                own.second,
                own.second_by_lower + own.second_by_upper,
                xp.where(xp.abs(apart) < 1.0, together, each),
                own.first_by_lower * by_lower + own.first_by_upper * by_upper,
                own.second_by_lower * by_lower + own.second_by_upper * by_upper,
            )
        )
    return found


def log_density_slopes(law: Law, z: Array) -> Along:
    """Return derivatives of the log density; the direction is that of z itself."""
    return _outwards(law.slopes(namespace(z).clip(z, -INFINITE, law.largest)), z)


def log_survival_slopes(law: Law, z: Array) -> Along:
    """Return derivatives of the log probability of more than z; the direction is that of z itself."""
    return _outwards(law.survival(namespace(z).clip(z, -INFINITE, law.largest)), z)


def _outwards(own: Slopes, z: Array) -> Along:
    return Along(*own, z * own.first, z * own.second, z * own.third)


def _normal_slopes(z: Array) -> Slopes:
    one = namespace(z).ones_like(z)
    return Slopes(-0.5 * z**2 - 0.5 * LOG_2PI, -z, -one, 0.0 * one)


def _normal_survival(z: Array) -> Slopes:
    value, ratio, second = log_cdf_derivatives(-z)
    return Slopes(value, -ratio, second, second * (2.0 * ratio - z) + ratio)


def _normal_rise(step: Array, mid: Array) -> tuple[Any, Any]:
    """Return how much the log density, and its slope, are above those at `mid` one step further."""
    return -step * (mid + 0.5 * step), -step


def _logistic_logs(z: Array) -> tuple[Any, Any]:
    """Return log probabilities of less and of more than z."""
    xp = namespace(z)
    rest = xp.log1p(xp.exp(-xp.abs(z)))
    return xp.minimum(z, 0.0) - rest, xp.minimum(-z, 0.0) - rest


def _logistic_slopes(z: Array) -> Slopes:
    xp, (log_below, log_above) = namespace(z), _logistic_logs(z)
    both, slope = xp.exp(log_below + log_above), -xp.tanh(0.5 * z)
    return Slopes(log_below + log_above, slope, -2.0 * both, -2.0 * both * slope)


def _logistic_survival(z: Array) -> Slopes:
    xp, (log_below, log_above) = namespace(z), _logistic_logs(z)
    below, left = xp.exp(log_below), xp.exp(log_above)
    return Slopes(log_above, -below, -below * left, below * left * xp.tanh(0.5 * z))


def _logistic_rise(step: Array, mid: Array) -> tuple[Any, Any]:
    """Return the same as `_normal_rise`, of a `mid` that is not negative."""
    xp = namespace(mid)
    beyond, at_mid = xp.exp(-mid - step), xp.exp(-mid)
    slope = 2.0 * at_mid * xp.expm1(-step) / ((1.0 + beyond) * (1.0 + at_mid))
    return -step - 2.0 * (xp.log1p(beyond) - xp.log1p(at_mid)), slope


def _symmetric_mass(
    slopes: Callable[[Any], Slopes],
    survival: Callable[[Any], Slopes],
    rise: Callable[[Any, Any], tuple[Any, Any]],
    is_steep: bool,
) -> Callable[[Any, Any], Mass]:
    """Return the mass of intervals of a symmetric distribution; a steep one falls the faster the farther."""

    def mass(lower: Array, upper: Array) -> Mass:
        xp = namespace(lower)
        lower, upper = (xp.clip(end, -INFINITE, INFINITE) for end in (lower, upper))
        right = lower + upper > 0.0
        low, high = xp.where(right, lower, -upper), xp.where(right, upper, -lower)
        is_narrow = (high - low) * (xp.maximum(high, 1.0) if is_steep else 1.0) < 1.0
        found = xp.stack(_wide(survival, low, xp.where(is_narrow, low + 1.0, high)))
        if not is_numpy(found):
            found = xp.where(is_narrow, xp.stack(_narrow(slopes, rise, low, high)), found)
        elif is_narrow.any():
            found[:, is_narrow] = np.stack(_narrow(slopes, rise, low[is_narrow], high[is_narrow]))
        own = Mass(*found)
        mirrored = Mass(
            own.value,
            -own.by_upper,
            -own.by_lower,
            -own.first,
            own.second,
            own.first_by_upper,
            own.first_by_lower,
            -own.second_by_upper,
            -own.second_by_lower,
        )
        return Mass(*(xp.where(right, one, other) for one, other in zip(own, mirrored, strict=True)))

    return mass


def _wide(survival: Callable[[Any], Slopes], lower: Array, upper: Array) -> Mass:
    """Return the mass of intervals from the log probabilities of more than their ends."""
    xp, below, above = namespace(lower), survival(lower), survival(upper)
    log_q = above.value - below.value
    odds = 1.0 / xp.expm1(xp.minimum(-log_q, LARGEST_LOG))
    spread, apart = odds * (1.0 + odds), below.first - above.first
    turn = below.second - above.second - (1.0 + 2.0 * odds) * apart**2
    return Mass(
        below.value + xp.log(-xp.expm1(log_q)),
        (1.0 + odds) * below.first,
        -odds * above.first,
        below.first + odds * apart,
        (1.0 + odds) * below.second - odds * above.second - spread * apart**2,
        (1.0 + odds) * (below.second - odds * below.first * apart),
        -odds * above.second + spread * above.first * apart,
        -spread * below.first * turn + (1.0 + odds) * below.third - 2.0 * spread * apart * below.second,
        spread * above.first * turn - odds * above.third + 2.0 * spread * apart * above.second,
    )


def _narrow(
    slopes: Callable[[Any], Slopes],
    rise: Callable[[Any, Any], tuple[Any, Any]],
    lower: Array,
    upper: Array,
) -> Mass:
    """Return the mass of intervals from moments of the derivatives of the log density within them."""
    xp, mid, half = namespace(lower), 0.5 * (lower + upper), 0.5 * (upper - lower)
    nodes, weights = (xp.asarray(own).reshape(-1, *(1,) * lower.ndim) for own in GAUSS)
    heights, steps = rise(half * nodes, mid)
    terms = weights * xp.exp(heights)
    area = terms.sum(axis=0)
    shares, at_mid = terms / area, slopes(mid)
    mean = (shares * steps).sum(axis=0)
    second = (shares * (slopes(mid + half * nodes).second + (steps - mean) ** 2)).sum(axis=0)

    def at_end(step: Any) -> tuple[Any, Any, Any]:
        height, own = rise(step, mid)
        density, own = xp.exp(height) / (half * area), own - mean
        return density, density * own, density * (slopes(mid + step).second + own**2 - second)

    low, high = at_end(-half), at_end(half)
    value = at_mid.value + xp.log(half * area)
    return Mass(value, -low[0], high[0], at_mid.first + mean, second, -low[1], high[1], -low[2], high[2])


def _extreme_slopes(z: Array) -> Slopes:
    hazard = namespace(z).exp(z)
    return Slopes(z - hazard, 1.0 - hazard, -hazard, -hazard)


def _extreme_survival(z: Array) -> Slopes:
    hazard = namespace(z).exp(z)
    return Slopes(-hazard, -hazard, -hazard, -hazard)


def _extreme_mass(lower: Array, upper: Array) -> Mass:
    xp = namespace(lower)
    last = xp.minimum(upper, 2.0 * LARGEST_LOG)
    start, end = xp.exp(xp.minimum(lower, LARGEST_LOG)), xp.exp(last)  # of cumulative hazard
    log_between = last + xp.log(-xp.expm1(lower - upper))
    between = xp.exp(log_between)
    is_small = between < SMALL
    small, large = xp.where(is_small, between, 0.0), xp.clip(between, SMALL, LARGE)
    odds = 1.0 / xp.expm1(large)
    spread = odds * (1.0 + odds)
    bend = large * spread
    # d / (exp(d) - 1), its derivative, and that of d times this
    flow, by_first, by_second = (
        xp.where(is_small, low, high)
        for low, high in (
            (sum((c * small ** (n + 1) for n, c in SERIES), 1.0 - 0.5 * small), large * odds),
            (sum((c * (n + 1) * small**n for n, c in SERIES), -0.5), odds - bend),
            (
                sum((c * (n + 1) ** 2 * small**n for n, c in SERIES), -0.5),
                odds + bend * (large * (1.0 + 2.0 * odds) - 3.0),
            ),
        )
    )
    log_part = xp.where(
        is_small,
        log_between + sum((c / (n + 1) * small ** (n + 1) for n, c in SERIES), -0.5 * small),
        xp.log(-xp.expm1(-xp.maximum(between, SMALL))),
    )
    return Mass(
        log_part - start,
        -start - xp.exp(xp.minimum(lower, last) - log_between) * flow,
        xp.exp(last - log_between) * flow,
        flow - start,
        between * by_first - start,
        -start * (1.0 + by_first),
        end * by_first,
        -start * (1.0 + by_second),
        end * by_second,
    )


EULER = 0.5772156649015329
LOGISTIC_VARIANCE = math.pi**2 / 3.0
NORMAL = _symmetric_mass(_normal_slopes, _normal_survival, _normal_rise, True)
LOGISTIC = _symmetric_mass(_logistic_slopes, _logistic_survival, _logistic_rise, False)
LAWS = {
    "normal": Law(INFINITE, _normal_slopes, _normal_survival, NORMAL, 0.0, 1.0),
    "logistic": Law(INFINITE, _logistic_slopes, _logistic_survival, LOGISTIC, 0.0, LOGISTIC_VARIANCE),
    "extreme value": Law(
        LARGEST_LOG, _extreme_slopes, _extreme_survival, _extreme_mass, -EULER, 0.5 * LOGISTIC_VARIANCE
    ),
}  # the last of minima: the logarithm of an exponential variable
