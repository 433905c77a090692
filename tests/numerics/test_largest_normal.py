"""The largest of independent normal variables: quadrature against many digits, closed forms, sampling, slopes."""

from __future__ import annotations

import jax
import mpmath
import numpy as np
import pytest
from helpers import assert_monte_carlo, assert_same
from scipy import stats

from bayesmkl._numerics import largest_normal
from bayesmkl._numerics.largest_normal import largest_moments, log_largest
from bayesmkl._numerics.truncated_normal import log_normal_cdf, truncated_moments

QUADRATURE = 1e-10  # up to ten variables
# The first variable is the largest.
LOCS = {
    "two": [0.3, -0.4],
    "equal": [0.0] * 5,
    "above": [6.0, 1.0, -2.0],
    "far above": [60.0, 1.0, -2.0],
    "below": [-4.0, 3.0, 2.0, -1.0],
    "far below": [-50.0, 40.0, 39.5, -300.0],
    "ten": [1.0, 2.0, -3.0, 0.5, 0.7, 1.8, -6.0, 1.1, 2.5, -0.2],
    "ten below": [-9.0, *np.linspace(-2.0, 2.0, 9)],
}


def marked(loc, largest=0):
    loc = np.asarray(loc, dtype=float)
    return np.where(np.arange(len(loc)) == largest, 1.0, -1.0)


def exact_moments(loc, margin):
    """Mean, variance, entropy, log Z by the trapezoidal rule with 30 digits; entropy by the chain rule."""
    with mpmath.workdps(30):
        loc, margin = [mpmath.mpf(float(value)) for value in loc], mpmath.mpf(margin)
        low = max([mpmath.mpf(0)] + [value + margin - loc[0] for value in loc[1:]])  # the mode is below it
        step, others = mpmath.mpf("0.2"), range(1, len(loc))
        center = mpmath.findroot(
            lambda u: u - sum(mills(u + loc[0] - loc[c] - margin) for c in others), low / 2
        )
        nodes = [center + k * step for k in range(-45, 60)]
        tables = [[truncated(u + loc[0] - loc[c] - margin) for c in others] for u in nodes]
        density = [
            mpmath.npdf(u) * mpmath.fprod(t[0] for t in row) for u, row in zip(nodes, tables, strict=True)
        ]
        normalizer = step * mpmath.fsum(density)
        w = [step * value / normalizer for value in density]
        average = lambda values: mpmath.fsum(p * value for p, value in zip(w, values, strict=True))
        mean, variance = [loc[0] + average(nodes)], [average(u * u for u in nodes) - average(nodes) ** 2]
        for c in others:
            r = [row[c - 1][1] for row in tables]
            mean.append(loc[c] - average(r))
            variance.append(average(row[c - 1][2] + row[c - 1][1] ** 2 for row in tables) - average(r) ** 2)
        entropy = average(mpmath.fsum(t[3] for t in row) for row in tables)
        entropy -= average(mpmath.log(value / normalizer) for value in density)
        return [np.array([float(v) for v in values]) for values in (mean, variance)] + [
            float(entropy),
            float(mpmath.log(normalizer)),
        ]


def mills(z):
    return mpmath.npdf(z) / mpmath.ncdf(z)


def truncated(z):
    """Probability below z, Mills ratio, variance and entropy of a standard normal variable cut off above z."""
    r = mills(z)
    entropy = mpmath.log(2 * mpmath.pi) / 2 + mpmath.log(mpmath.ncdf(z)) + (1 - r * z) / 2
    return mpmath.ncdf(z), r, 1 - r * (r + z), entropy


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "margin"), list(zip(LOCS, [0.0, 1.0] * 4, strict=True)))
def test_moments_against_30_digits(name, margin):
    loc = np.array(LOCS[name])
    found = largest_moments(loc[:, None], marked(loc)[:, None], margin)
    mean, variance, entropy, log_normalizer = exact_moments(loc, margin)
    assert_same(found.mean[:, 0], mean, QUADRATURE)
    assert_same(found.variance[:, 0], variance, QUADRATURE)
    assert float(found.entropy[0]) == pytest.approx(entropy, abs=QUADRATURE * max(1.0, -log_normalizer))
    assert float(found.log_normalizer[0]) == pytest.approx(log_normalizer, rel=QUADRATURE, abs=QUADRATURE)


@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_degenerate_two_variables_are_a_truncated_difference_and_a_free_sum(margin):
    difference = np.concatenate(
        [-(10.0 ** np.arange(4.0, -1.0, -0.5)), np.linspace(-0.9, 9.0, 12), [50.0, 1e3]]
    )
    loc = np.stack([0.8 * difference, -0.2 * difference])
    found = largest_moments(loc, np.array([[1.0], [-1.0]]) * np.ones_like(loc), margin)
    # (f_1 - f_2) / sqrt(2) is normal with unit variance and cut off below, (f_1 + f_2) / sqrt(2) is free
    half = np.sqrt(0.5)
    cut = truncated_moments(half * difference, np.ones_like(difference), half * margin)
    total = half * (loc[0] + loc[1])
    size = np.maximum(1.0, np.abs(difference))
    np.testing.assert_array_less(np.abs(found.mean[0] - half * (total + cut.mean)) / size, 1e-12)
    np.testing.assert_array_less(np.abs(found.mean[1] - half * (total - cut.mean)) / size, 1e-12)
    np.testing.assert_array_less(np.abs(found.variance - 0.5 * (1.0 + cut.variance)) / size**2, 1e-12)
    entropy = cut.entropy + 0.5 * np.log(2.0 * np.pi * np.e)
    np.testing.assert_array_less(np.abs(found.entropy - entropy) / size**2, 1e-12)
    np.testing.assert_allclose(found.log_normalizer, cut.log_normalizer, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("loc", [[0.2, 0.9, -0.5], [-1.0, 0.5, 0.3, 0.4, -2.0]])
def test_moments_against_draws(rng, loc):
    loc, margin = np.array(loc), 0.3
    draws = loc + rng.normal(size=(400_000, len(loc)))
    draws = draws[draws[:, 0] > draws[:, 1:].max(axis=1) + margin]
    found = largest_moments(loc[:, None], marked(loc)[:, None], margin)
    mean, variance = found.mean[:, 0], found.variance[:, 0]
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 3.0 * error)
    squares = (draws - mean) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - variance) < 3.0 * squares.std(axis=0) / np.sqrt(len(draws)))
    surprise = -stats.norm.logpdf(draws, loc).sum(axis=1) + found.log_normalizer[0]
    assert_monte_carlo(surprise, found.entropy[0])
    probability = len(draws) / 400_000
    assert abs(probability - np.exp(found.log_normalizer[0])) < 3.0 * np.sqrt(probability / 400_000)


def test_means_and_variances_are_derivatives_of_the_log_normalizer(rng):
    loc = 2.0 * rng.normal(size=(6, 8))
    y = np.where(np.arange(6)[:, None] == rng.integers(6, size=8), 1.0, -1.0)
    found, h = largest_moments(loc, y, 0.4), 1e-4
    for c in range(6):
        move = h * (np.arange(6) == c)[:, None]
        up, down = (largest_moments(loc + sign * move, y, 0.4) for sign in (1.0, -1.0))
        slope = (up.log_normalizer - down.log_normalizer) / (2 * h)
        np.testing.assert_allclose(slope, (found.mean - loc)[c], atol=1e-7)
        np.testing.assert_allclose((up.mean[c] - down.mean[c]) / (2 * h), found.variance[c], atol=1e-7)


def test_a_common_level_moves_all_means_and_nothing_else(rng):
    loc = 3.0 * rng.normal(size=(5, 20))
    y = np.where(np.arange(5)[:, None] == rng.integers(5, size=20), 1.0, -1.0)
    plain, moved = largest_moments(loc, y, 0.5), largest_moments(loc + 17.0, y, 0.5)
    np.testing.assert_allclose(moved.mean, plain.mean + 17.0, rtol=1e-12)
    for name in ("variance", "entropy", "log_normalizer"):
        np.testing.assert_allclose(getattr(moved, name), getattr(plain, name), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(plain.mean.sum(axis=0), loc.sum(axis=0), atol=1e-12)


@pytest.mark.heavy
def test_moments_do_not_depend_on_blocks_or_compilation(rng, monkeypatch):
    loc = 2.0 * rng.normal(size=(4, 30))
    y = np.where(np.arange(4)[:, None] == rng.integers(4, size=30), 1.0, -1.0)
    plain, logs = largest_moments(loc, y, 0.0), log_largest(loc, np.ones_like(loc), 0.0)
    with jax.enable_x64(True):
        jitted = jax.jit(largest_moments)(loc, y, 0.0)
        for found, expected in zip(jitted, plain, strict=True):
            assert_same(found, expected, 1e-12)
    monkeypatch.setattr(largest_normal, "BLOCK_SIZE", 7 * 4 * largest_normal.N_NODES)
    for found, expected in zip(largest_moments(loc, y, 0.0), plain, strict=True):
        assert_same(found, expected, 1e-14)
    assert_same(log_largest(loc, np.ones_like(loc), 0.0), logs, 1e-14)


# ------------------------------------------------------------------------------------- probabilities of all


@pytest.mark.parametrize("n_variables", [2, 3, 6, 10, 26])
def test_probabilities_sum_to_one_whatever_the_scales(rng, n_variables):
    loc, spread = 3.0 * rng.normal(size=(n_variables, 40)), rng.uniform(size=(n_variables, 40))
    for ratio, tolerance in [(1.0, QUADRATURE if n_variables <= 10 else 1e-9), (1.5, 1e-7), (3.0, 2e-5)]:
        total = np.exp(log_largest(loc, ratio**spread, 0.0)).sum(axis=0)
        assert np.abs(total - 1.0).max() < tolerance, ratio


def test_probabilities_of_two_variables_against_the_closed_form(rng):
    loc = np.stack([np.linspace(-60.0, 60.0, 41), np.zeros(41)])
    scale, margin = rng.uniform(1.0, 3.0, size=loc.shape), 0.6
    z = (np.stack([loc[0] - loc[1], loc[1] - loc[0]]) - margin) / np.hypot(*scale)
    np.testing.assert_allclose(log_largest(loc, scale, margin), log_normal_cdf(z), rtol=1e-9, atol=1e-6)


def test_probabilities_of_three_variables_against_the_bivariate_normal(rng):
    loc, scale, margin = np.array([0.4, -0.3, 1.2]), np.array([1.0, 1.7, 1.3]), 0.25
    found = np.exp(log_largest(loc[:, None], scale[:, None], margin))[:, 0]
    for c in range(3):
        j, k = (other for other in range(3) if other != c)
        cov = np.full((2, 2), scale[c] ** 2) + np.diag([scale[j] ** 2, scale[k] ** 2])
        law = stats.multivariate_normal(np.zeros(2), cov)
        assert found[c] == pytest.approx(
            law.cdf([loc[c] - loc[j] - margin, loc[c] - loc[k] - margin]), abs=1e-7
        )


def test_probability_of_unit_scale_is_the_normalizer_and_equivariant(rng):
    loc, order = 5.0 * rng.normal(size=(5, 12)), rng.permutation(5)
    logs = log_largest(loc, np.ones_like(loc), 0.9)
    for c in range(5):
        y = np.where(np.arange(5)[:, None] == c, 1.0, -1.0) * np.ones_like(loc)
        np.testing.assert_allclose(largest_moments(loc, y, 0.9).log_normalizer, logs[c], rtol=1e-13)
    assert_same(log_largest(loc[order], np.ones_like(loc), 0.9), logs[order], 1e-12)
