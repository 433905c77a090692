r"""Probabilities that a variable of a standard law lies in an interval, with their derivatives by its ends.

With the density `g` of the law and :math:`D = \int_l^u g`, derivatives of :math:`\log D` are polynomials of the
ratios :math:`g(l) / D` and :math:`g(u) / D`, which are taken in logarithms: nothing underflows in the tails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scipy import special

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.truncated_normal import LOG_2PI, log_normal_cdf
from bayesmkl.marginal.likelihoods.binary import log_cdf_derivatives

__all__ = [
    "INFINITE",
    "LAWS",
    "Along",
    "Law",
    "Slopes",
    "log_density_slopes",
    "log_mass_slopes",
    "log_survival_slopes",
]

INFINITE = 1e8  # stands for infinite ends: there all densities are zero
LARGEST_LOG = 300.0  # of a cumulative hazard: its third power is still a number
SMALL = 1e-8  # difference of cumulative hazards below which it is the probability of the interval


class Slopes(NamedTuple):
    """Logarithm of a density and three derivatives of it."""

    value: Any
    first: Any
    second: Any
    third: Any


class Law(NamedTuple):
    """A law without parameters.

    Attributes
    ----------
    largest : float
        Beyond it there is nothing.
    slopes : callable
        From z to `Slopes` of the log density.
    survival : callable
        From z to `Slopes` of the log probability that the variable is larger.
    log_mass : callable
        From the ends of intervals to the logarithms of their probabilities.
    mean, variance : float
    """

    largest: float
    slopes: Callable[[Any], Slopes]
    survival: Callable[[Any], Slopes]
    log_mass: Callable[[Any, Any], Any]
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
    xp = namespace(lower)
    lower, upper = (xp.clip(end, -INFINITE, law.largest) for end in (lower, upper))
    log_mass = law.log_mass(lower, upper)
    below, above = law.slopes(lower), law.slopes(upper)
    at_lower, at_upper = xp.exp(below.value - log_mass), xp.exp(above.value - log_mass)

    def difference(of_lower: Any, of_upper: Any) -> Any:
        return at_upper * of_upper - at_lower * of_lower

    bends = [own.second + own.first**2 for own in (below, above)]
    first, second, third = (
        difference(1.0, 1.0),
        difference(below.first, above.first),
        difference(bends[0], bends[1]),
    )
    of_log = second - first**2
    found = []
    for by_lower, by_upper in directions:
        moved = difference(by_lower, by_upper)
        first_moved = difference(below.first * by_lower, above.first * by_upper) - first * moved
        second_moved = difference(bends[0] * by_lower, bends[1] * by_upper) - second * moved
        found.append(
            Along(
                log_mass,
                first,
                of_log,
                third - 3.0 * first * second + 2.0 * first**3,
                moved,
                first_moved,
                second_moved - 2.0 * first * first_moved,
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


def _log1mexp(negative: Array) -> Any:
    """Return log(1 - exp(x)) of x < 0."""
    xp = namespace(negative)
    return xp.log(-xp.expm1(negative))


def _normal_slopes(z: Array) -> Slopes:
    one = namespace(z).ones_like(z)
    return Slopes(-0.5 * z**2 - 0.5 * LOG_2PI, -z, -one, 0.0 * one)


def _normal_survival(z: Array) -> Slopes:
    value, ratio, second = log_cdf_derivatives(-z)
    return Slopes(value, -ratio, second, second * (2.0 * ratio - z) + ratio)


def _log_cdf(z: Array) -> Any:
    return special.log_ndtr(z) if is_numpy(z) else log_normal_cdf(z)


def _normal_log_mass(lower: Array, upper: Array) -> Any:
    xp = namespace(lower)
    right = lower + upper > 0.0  # of two areas that are the same the one in the lower tail has its digits
    low, high = xp.where(right, -upper, lower), xp.where(right, -lower, upper)
    log_high = _log_cdf(high)
    return log_high + _log1mexp(_log_cdf(low) - log_high)


def _logistic_slopes(z: Array) -> Slopes:
    xp = namespace(z)
    log_below, log_above = -xp.logaddexp(0.0 * z, -z), -xp.logaddexp(0.0 * z, z)
    both = xp.exp(log_below + log_above)
    tilt = xp.exp(log_above) - xp.exp(log_below)
    return Slopes(log_below + log_above, tilt, -2.0 * both, -2.0 * both * tilt)


def _logistic_survival(z: Array) -> Slopes:
    xp = namespace(z)
    value = -xp.logaddexp(0.0 * z, z)
    left = xp.exp(value)
    below = 1.0 - left
    return Slopes(value, -below, -below * left, -below * left * (left - below))


def _logistic_log_mass(lower: Array, upper: Array) -> Any:
    xp = namespace(lower)
    return -xp.logaddexp(0.0 * lower, lower) - xp.logaddexp(0.0 * upper, -upper) + _log1mexp(lower - upper)


def _extreme_slopes(z: Array) -> Slopes:
    hazard = namespace(z).exp(z)
    return Slopes(z - hazard, 1.0 - hazard, -hazard, -hazard)


def _extreme_survival(z: Array) -> Slopes:
    hazard = namespace(z).exp(z)
    return Slopes(-hazard, -hazard, -hazard, -hazard)


def _extreme_log_mass(lower: Array, upper: Array) -> Any:
    xp = namespace(lower)
    start = xp.exp(lower)
    between = xp.exp(upper) - start
    is_small = between < SMALL
    small = upper + _log1mexp(lower - upper)
    return xp.where(is_small, small, _log1mexp(-xp.where(is_small, 1.0, between))) - start


EULER = 0.5772156649015329
LAWS = {
    "normal": Law(INFINITE, _normal_slopes, _normal_survival, _normal_log_mass, 0.0, 1.0),
    "logistic": Law(
        INFINITE, _logistic_slopes, _logistic_survival, _logistic_log_mass, 0.0, 3.289868133696453
    ),
    "extreme value": Law(
        LARGEST_LOG, _extreme_slopes, _extreme_survival, _extreme_log_mass, -EULER, 1.6449340668482264
    ),
}  # the last of minima: the logarithm of an exponential variable
