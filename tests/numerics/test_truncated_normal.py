"""Truncated normal moments against many-digit arithmetic, other libraries, sampling and finite differences."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from helpers import SPECIAL_FUNCTION, STANDARD_ERRORS
from scipy import stats

from bayesmkl._numerics import truncated_normal
from bayesmkl._numerics.truncated_normal import (
    draw_positive,
    label_moments,
    log_normal_cdf,
    split_moments,
    truncated_moments,
)

pytestmark = pytest.mark.heavy

# Dense around the switch between the formulas, around zero, and out to both extremes.
Z = np.concatenate(
    [
        [-1e4, -3456.7, -1e3, -321.0, -100.0, -50.5, -38.6, -20.0, -12.0, -8.3, -6.0, -5.0, -4.2],
        truncated_normal.TAIL + np.array([-0.3, -1e-2, -1e-6, -1e-15, 0.0, 1e-15, 1e-6, 1e-2, 0.3]),
        [-2.0, -1.0, -0.3, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.3, 1.0, 2.0, 3.0, 5.0, 6.5],
        [8.2, 8.4, 12.0, 20.0, 37.0, 100.0, 1e3, 1e4],
    ]
)
MARGINS = [0.0, 0.5, 1.0, 3.0]


def exact_moments(loc, y, margin):
    """Mean, variance, entropy and log normalizer at the very doubles that the code gets, with 60 digits."""
    with mpmath.workdps(60):
        loc, y, margin = (mpmath.mpf(float(value)) for value in (loc, y, margin))
        z = y * loc - margin
        upper = mpmath.erfc(z / mpmath.sqrt(2)) / 2
        cdf = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
        log_cdf = mpmath.log1p(-upper) if z > 0 else mpmath.log(cdf)
        mills = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi) / cdf
        mean = loc + y * mills
        variance = 1 - mills * (mills + z)
        # -E[log N(f; loc, 1)] + log Phi, with E[(f - loc)^2] = Var + (E f - loc)^2
        entropy = mpmath.log(2 * mpmath.pi) / 2 + (variance + (mean - loc) ** 2) / 2 + log_cdf
        return [float(value) for value in (mean, variance, entropy, log_cdf)]


def assert_digits(actual, desired, tolerance, floor):
    """Assert a relative error below `tolerance` for every entry, with `floor` as the least size that counts."""
    error = np.abs(np.asarray(actual) - desired) / np.maximum(np.abs(desired), floor)
    worst = int(error.argmax())
    assert error[worst] <= tolerance, f"entry {worst}: {error[worst]:.2e}"
    assert np.isfinite(error).all()


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_moments_against_60_digits(xp, side, margin):
    y = np.full_like(Z, side)
    loc = y * (Z + margin)
    found = truncated_moments(xp.asarray(loc), xp.asarray(y), margin)
    exact = np.array([exact_moments(*point, margin) for point in zip(loc, y, strict=True)]).T
    assert_digits(found.mean, exact[0], SPECIAL_FUNCTION, floor=1e-300)
    assert_digits(found.variance, exact[1], SPECIAL_FUNCTION, floor=1e-300)
    assert_digits(found.entropy, exact[2], SPECIAL_FUNCTION, floor=1.0)
    assert_digits(found.log_normalizer, exact[3], SPECIAL_FUNCTION, floor=1e-300)


def test_log_cdf_against_60_digits(xp):
    exact = np.array([exact_moments(z, 1.0, 0.0)[3] for z in Z])
    assert_digits(log_normal_cdf(xp.asarray(Z)), exact, SPECIAL_FUNCTION, floor=1e-300)


def test_moments_are_continuous_where_the_formula_switches(xp):
    below, above = np.nextafter(truncated_normal.TAIL, -np.inf), truncated_normal.TAIL
    moments = truncated_moments(xp.asarray([below, above]), xp.asarray([1.0, 1.0]), 0.0)
    for values in moments:
        assert abs(float(values[0] - values[1])) <= SPECIAL_FUNCTION * abs(float(values[0]))


def test_moments_against_scipy_truncnorm(rng):
    loc, margin = rng.uniform(-3.0, 3.0, size=40), 0.7
    positive = truncated_moments(loc, np.ones(40), margin)
    negative = truncated_moments(loc, -np.ones(40), margin)
    for found, law in [
        (positive, stats.truncnorm(margin - loc, 40.0, loc=loc)),
        (negative, stats.truncnorm(-40.0, -margin - loc, loc=loc)),
    ]:
        np.testing.assert_allclose(found.mean, law.mean(), rtol=1e-10)
        np.testing.assert_allclose(found.variance, law.var(), rtol=1e-8)
        np.testing.assert_allclose(found.entropy, law.entropy(), rtol=1e-9, atol=1e-9)


def test_log_cdf_slope_is_the_mills_ratio_by_finite_difference():
    z = np.array([-100.0, -20.0, -6.0, -3.5, -3.1, -2.9, -2.0, -0.5, 0.0, 0.5, 2.0, 4.0])
    h = 1e-5
    slope = (log_normal_cdf(z + h) - log_normal_cdf(z - h)) / (2 * h)
    mills = truncated_moments(z, np.ones_like(z), 0.0).mean - z
    np.testing.assert_allclose(slope, mills, rtol=1e-6)


def test_mean_slope_is_the_variance_by_finite_difference():
    loc = np.array([-100.0, -20.0, -6.0, -3.0, -2.0, 0.0, 1.5, 4.0, 9.0])
    for y in (-1.0, 1.0):
        side = np.full_like(loc, y)
        high, low = (truncated_moments(loc + step, side, 1.0) for step in (1e-5, -1e-5))
        variance = truncated_moments(loc, side, 1.0).variance
        np.testing.assert_allclose((high.mean - low.mean) / 2e-5, variance, rtol=2e-5)


# ------------------------------------------------------------------------------------------------ both sides remain

LOCATIONS = np.concatenate([[0.0], 10.0 ** np.arange(-12.0, 4.0), [3.0, 5.0, 7.0, 20.0, 30.0, 60.0]])
GAPS = [0.0, 1e-9, 1e-3, 0.3, 1.0, 3.0, 10.0]


def exact_split_moments(loc, margin):
    """Mean, variance, entropy and log normalizer of N(loc, 1) on |f| > margin, with 80 digits."""
    with mpmath.workdps(80):
        loc, margin = mpmath.mpf(float(loc)), mpmath.mpf(float(margin))
        above, below = (mpmath.erfc((margin - x) / mpmath.sqrt(2)) / 2 for x in (loc, -loc))
        at_upper, at_lower = (
            mpmath.exp(-((margin - x) ** 2) / 2) / mpmath.sqrt(2 * mpmath.pi) for x in (loc, -loc)
        )
        total = above + below
        shift = (at_upper - at_lower) / total
        square = 1 + ((margin - loc) * at_upper + (margin + loc) * at_lower) / total  # E (f - loc)^2
        entropy = mpmath.log(2 * mpmath.pi) / 2 + square / 2 + mpmath.log(total)
        return [float(v) for v in (loc + shift, square - shift**2, entropy, mpmath.log(total))]


@pytest.mark.parametrize("margin", GAPS)
def test_split_moments_against_80_digits(xp, margin):
    loc = np.concatenate([LOCATIONS, -LOCATIONS])
    found = split_moments(xp.asarray(loc), margin)
    exact = np.array([exact_split_moments(x, margin) for x in loc]).T
    assert_digits(found.mean, exact[0], SPECIAL_FUNCTION, floor=1e-300)
    assert_digits(found.variance, exact[1], SPECIAL_FUNCTION, floor=1e-300)
    assert_digits(found.entropy, exact[2], SPECIAL_FUNCTION, floor=1.0)
    assert_digits(found.log_normalizer, exact[3], SPECIAL_FUNCTION, floor=1.0)


def test_split_slopes_are_the_next_moments_by_finite_difference():
    loc, h = np.array([-9.0, -2.0, -0.7, 0.0, 0.3, 1.0, 4.0]), 1e-5
    for margin in (0.0, 0.5, 1.0, 3.0):
        here, high, low = (split_moments(loc + step, margin) for step in (0.0, h, -h))
        slope = (high.log_normalizer - low.log_normalizer) / (2 * h)
        np.testing.assert_allclose(slope, here.mean - loc, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose((high.mean - low.mean) / (2 * h), here.variance, rtol=1e-6)


def test_moments_by_label_are_those_of_the_side_or_of_both(xp):
    loc = xp.asarray(np.linspace(-6.0, 6.0, 25))
    y = xp.asarray(np.resize([-1.0, 0.0, 1.0, 1.0, 0.0], 25))
    found = label_moments(loc, y, 0.8)
    split, one_side = split_moments(loc, 0.8), truncated_moments(loc, xp.where(y == 0.0, 1.0, y), 0.8)
    for values, both, one in zip(found, split, one_side, strict=True):
        np.testing.assert_array_equal(values, xp.where(y == 0.0, both, one))
    labeled = xp.where(y == 0.0, -1.0, y)
    for values, one in zip(
        label_moments(loc, labeled, 0.8), truncated_moments(loc, labeled, 0.8), strict=True
    ):
        np.testing.assert_array_equal(values, one)


@pytest.mark.parametrize("loc", [-1e4, -40.0, -3.0, 0.0, 2.0, 1e3])
def test_draws_of_positive_numbers_against_the_moments(rng, loc):
    draws = draw_positive(np.full(200_000, loc), rng)
    exact = truncated_moments(np.array([loc]), np.ones(1), 0.0)
    assert (draws >= 0.0).all()
    assert abs(draws.mean() - exact.mean[0]) < STANDARD_ERRORS * draws.std() / np.sqrt(draws.size)
    squares = (draws - exact.mean[0]) ** 2
    assert abs(squares.mean() - exact.variance[0]) < STANDARD_ERRORS * squares.std() / np.sqrt(draws.size)


@pytest.mark.parametrize("distance", [-2.0, 0.5, 40.0, 0.999e5, 1.001e5, 1e8])
def test_draws_are_the_quantiles_of_a_random_share_to_both_sides_of_the_change_of_formula(distance):
    """P(f > x) / P(f > 0) is the share, whose minus logarithm the generator gives, with 40 digits."""

    class Shares:
        def standard_exponential(self, shape):
            return np.array([1e-3, 0.1, 1.0, 30.0]).reshape(shape)

    shares = Shares().standard_exponential(4)
    draws = draw_positive(np.full(4, -distance), Shares())
    with mpmath.workdps(40):
        log_above = lambda z: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)))
        start = mpmath.mpf(distance)
        found = [float(log_above(start) - log_above(start + mpmath.mpf(float(draw)))) for draw in draws]
    np.testing.assert_allclose(
        found, shares, rtol=1e-6, atol=1e-15 * max(1.0, distance) ** 2 * (distance < 1e5)
    )
