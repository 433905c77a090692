"""Moments of a normal between two ends against many-digit arithmetic, another library and sampling."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from helpers import SPECIAL_FUNCTION
from scipy import stats

from bayesmkl._numerics.truncated_normal import interval_moments, truncated_moments

INF = np.inf
# Mean, lower and upper end: around the switch between the formulas, short and long, near and out to both extremes.
INTERVALS = np.array(
    [
        *[(0.0, -1.0, 1.0), (0.0, 5.0, 6.0), (0.0, 30.0, 31.0), (0.0, -40.0, -39.0), (2.0, 1e3, 1e3 + 1.0)],
        *[(0.0, -0.5, 0.5), (0.0, -0.49, 0.5), (0.0, 20.0, 20.049), (0.0, 20.0, 20.051), (0.0, 0.0, 1e-6)],
        *[(0.0, 3.0, 3.25), (0.0, 2.5, 3.5), (0.0, -50.0, 60.0), (0.0, -300.0, 1e-3), (0.0, -1e4, 2e4)],
        *[(0.0, 1e4, INF), (1.0, -INF, -1e3), (0.3, -INF, 0.2), (-0.7, 0.0, INF), (-8.0, 0.0, 0.5)],
    ]
)


def exact_moments(loc, lower, upper):
    """Mean, variance, entropy and log probability at the very doubles that the code gets, with 400 digits."""
    with mpmath.workdps(400):
        loc, lower, upper = (mpmath.mpf(float(value)) for value in (loc, lower, upper))
        sign = 1 if lower + upper > 2 * loc else -1
        low, high = sorted([sign * (lower - loc), sign * (upper - loc)])
        above = [mpmath.erfc(end / mpmath.sqrt(2)) / 2 for end in (low, high)]
        mass = above[0] - above[1]
        density = [mpmath.npdf(end) / mass for end in (low, high)]
        moved = [
            end * own if mpmath.isfinite(end) else mpmath.mpf(0)
            for end, own in zip((low, high), density, strict=True)
        ]
        mean = density[0] - density[1]
        variance = 1 + moved[0] - moved[1] - mean**2
        entropy = mpmath.log(mass) + (mpmath.log(2 * mpmath.pi) + variance + mean**2) / 2
        return [float(value) for value in (loc + sign * mean, variance, entropy, mpmath.log(mass))]


@pytest.mark.heavy
def test_moments_against_400_digits(xp):
    found = interval_moments(*(xp.asarray(column) for column in INTERVALS.T))
    exact = np.array([exact_moments(*interval) for interval in INTERVALS]).T
    for values, truth, floor in zip(found, exact, (1e-3, 1e-300, 1.0, 1e-3), strict=True):
        # ends of 20 and more leave that many units of rounding in the width of a short interval
        np.testing.assert_array_less(
            np.abs(np.asarray(values) - truth) / np.maximum(np.abs(truth), floor), 100 * SPECIAL_FUNCTION
        )


def test_an_open_interval_is_one_side_and_a_free_one_is_normal():
    loc = np.linspace(-40.0, 40.0, 41)
    one_side = truncated_moments(loc, np.ones(41), 0.7)
    below = truncated_moments(loc, -np.ones(41), -0.7)
    everywhere = np.full(41, INF)
    for found, expected in (
        (interval_moments(loc, np.full(41, 0.7), everywhere), one_side),
        (interval_moments(loc, -everywhere, np.full(41, 0.7)), below),
        (interval_moments(loc, -everywhere, everywhere), (loc, 1.0, stats.norm.entropy(), 0.0)),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)


def test_moments_against_scipy(rng):
    loc, lower = rng.uniform(-2.0, 2.0, size=(2, 30))
    upper = lower + rng.uniform(0.3, 4.0, size=30)
    law, found = stats.truncnorm(lower - loc, upper - loc, loc=loc), interval_moments(loc, lower, upper)
    np.testing.assert_allclose(found.mean, law.mean(), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.variance, law.var(), rtol=1e-6)
    np.testing.assert_allclose(found.entropy, law.entropy(), atol=1e-8)


def test_slopes_of_the_log_probability_by_finite_differences():
    loc, h = np.array([-30.0, -3.0, 0.0, 0.2, 4.0]), 1e-5
    lower, upper = np.full(5, -0.3), np.full(5, 0.9)

    def log_p(loc, lower=lower, upper=upper):
        return interval_moments(loc, lower, upper).log_normalizer

    found = interval_moments(loc, lower, upper)
    np.testing.assert_allclose(
        (log_p(loc + h) - log_p(loc - h)) / (2 * h), found.mean - loc, rtol=1e-6, atol=1e-8
    )
    density = stats.norm.logpdf(upper - loc) - found.log_normalizer
    slope = (log_p(loc, upper=upper + h) - log_p(loc, upper=upper - h)) / (2 * h)
    np.testing.assert_allclose(slope, np.exp(density), rtol=1e-6, atol=1e-9)
