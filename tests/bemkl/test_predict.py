"""Predictive moments and probabilities against sampling from q and against the printed equations."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from helpers import STANDARD_ERRORS, assert_same, frozen, random_gaussian
from scipy import stats

from bayesmkl.bemkl.moments import Gaussian
from bayesmkl.bemkl.reading import ScoreMoments, binary_log_odds, log_probabilities, predict_score
from bayesmkl.kernels.stacks.dense import DenseStack

N_KERNELS, N_ROWS, N_TRAIN, N_DRAWS = 3, 4, 6, 1_000_000
SIGMA = 0.7


@pytest.fixture
def posterior(rng):
    kernels = frozen(rng.normal(size=(N_KERNELS, N_ROWS, N_TRAIN)))
    return kernels, random_gaussian(rng, N_TRAIN, 0.3), random_gaussian(rng, 1 + N_KERNELS, 0.3)


def draw_scores(rng, kernels, dual, readout, row):
    """Return draws of b + e' g under q for one row, without the noise of f."""
    a = rng.multivariate_normal(dual.mean, dual.cov, size=N_DRAWS)
    be = rng.multivariate_normal(readout.mean, readout.cov, size=N_DRAWS)
    g = a @ kernels[:, row].T + SIGMA * rng.normal(size=(N_DRAWS, N_KERNELS))
    return be[:, 0] + (be[:, 1:] * g).sum(axis=1)


@pytest.mark.heavy
def test_full_rule_against_a_million_draws(rng, posterior):
    kernels, dual, readout = posterior
    score = predict_score(DenseStack(kernels), dual, readout, SIGMA**2)
    for row in range(2):
        draws = draw_scores(rng, *posterior, row)
        error = draws.std() / np.sqrt(N_DRAWS)
        assert abs(draws.mean() - score.mean[row]) < STANDARD_ERRORS * error
        squares = (draws - draws.mean()) ** 2
        error = squares.std() / np.sqrt(N_DRAWS)
        assert abs(squares.mean() - score.variance[row]) < STANDARD_ERRORS * error
        paper = predict_score(DenseStack(kernels), dual, readout, SIGMA**2, rule="paper")
        assert abs(squares.mean() - paper.variance[row]) > 10 * STANDARD_ERRORS * error


def test_full_rule_against_the_law_of_total_variance_in_loops(posterior):
    kernels, dual, readout = posterior
    score = predict_score(DenseStack(kernels), dual, readout, SIGMA**2, rule="full")
    for row in range(N_ROWS):
        k = kernels[:, row]
        g_mean, g_cov = k @ dual.mean, k @ dual.cov @ k.T + SIGMA**2 * np.eye(N_KERNELS)
        one_g = np.concatenate([[1.0], g_mean])
        g_second = np.outer(one_g, one_g)
        g_second[1:, 1:] += g_cov
        mean = readout.mean @ one_g
        second = np.sum((np.outer(readout.mean, readout.mean) + readout.cov) * g_second)
        assert score.mean[row] == pytest.approx(mean, rel=1e-12)
        assert score.variance[row] == pytest.approx(second - mean**2, rel=1e-10)


def test_paper_rule_against_the_printed_equations(posterior):
    """§4.3: μ(b, e)' [1, g] and [1, g] Σ(b, e) [1, g]' at the mean of g; its unit noise enters with Φ."""
    kernels, dual, readout = posterior
    score = predict_score(DenseStack(kernels), dual, readout, SIGMA**2, rule="paper")
    log_p = log_probabilities(score, margin=0.5)
    for row in range(N_ROWS):
        one_g = np.array([1.0, *(dual.mean @ kernels[m, row] for m in range(N_KERNELS))])
        mean, variance = readout.mean @ one_g, 1.0 + one_g @ readout.cov @ one_g
        assert score.mean[row] == pytest.approx(mean, rel=1e-12)
        assert score.variance[row] == pytest.approx(variance - 1.0, rel=1e-11)
        deviation = np.sqrt(variance)  # printed without the root
        above, below = stats.norm.cdf([(mean - 0.5) / deviation, (-mean - 0.5) / deviation])
        assert_same(np.exp(log_p[row]), [below / (above + below), above / (above + below)], 1e-11)


def test_pruned_kernels_take_no_part(posterior):
    """Weights of 1e-12 leave the prediction of the remaining kernels."""
    kernels, dual, readout = posterior
    keep = np.array([1.0, 1.0, 1e-12, 1e-12])
    pruned = Gaussian.from_moments(readout.mean * keep, readout.cov * np.outer(keep, keep))
    alone = Gaussian.from_moments(readout.mean[:2], readout.cov[:2, :2])
    found = predict_score(DenseStack(kernels), dual, pruned, SIGMA**2)
    expected = predict_score(DenseStack(kernels[:1]), dual, alone, SIGMA**2)
    assert_same(found.mean, expected.mean, 1e-10)
    assert_same(found.variance, expected.variance, 1e-10)


@pytest.mark.heavy
@pytest.mark.parametrize("margin", [0.0, 0.8])
def test_probability_of_a_normal_score_against_monte_carlo(rng, margin):
    """With known weights the score is normal and the rule is exact: P(f > ν) against P(f < -ν) by counting."""
    kernels = rng.normal(size=(N_KERNELS, 1, N_TRAIN))
    dual = random_gaussian(rng, N_TRAIN, 0.3)
    readout = Gaussian(np.array([0.2, 0.5, -0.7, 0.9]), np.zeros((4, 4)), -np.inf)
    score = predict_score(DenseStack(kernels), dual, readout, SIGMA**2)
    f = draw_scores(rng, kernels, dual, readout, 0) + rng.normal(size=N_DRAWS)
    above, below = (f > margin).mean(), (f < -margin).mean()
    share = above / (above + below)
    error = np.sqrt(share * (1.0 - share) / (N_DRAWS * (above + below)))
    found = np.exp(log_probabilities(score, margin)[0, 1])
    assert abs(found - share) < STANDARD_ERRORS * error
    spread = 1.0 + score.variance[0]  # the printed rule, variance in the place of the deviation
    sides = stats.norm.cdf([(score.mean[0] - margin) / spread, (-score.mean[0] - margin) / spread])
    assert abs(sides[0] / sides.sum() - share) > 5 * STANDARD_ERRORS * error


SCORES = ScoreMoments(
    np.array([-1e4, -300.0, -37.0, -2.0, -0.1, 0.0, 0.4, 5.0, 60.0, 1e4]),
    np.array([0.0, 2.0, 0.5, 1.0, 3.0, 0.2, 0.7, 1e-3, 4.0, 0.0]),
)


@pytest.mark.parametrize("margin", [0.0, 1.0, 2.5])
def test_log_probabilities_and_odds_against_many_digits(margin):
    log_p, odds = log_probabilities(SCORES, margin), binary_log_odds(SCORES, margin)
    with mpmath.workdps(50):
        for i, (mean, variance) in enumerate(zip(*SCORES, strict=True)):
            root = mpmath.sqrt(2 * (1 + mpmath.mpf(float(variance))))
            mean, nu = mpmath.mpf(float(mean)), mpmath.mpf(margin)
            above, below = mpmath.erfc((nu - mean) / root), mpmath.erfc((nu + mean) / root)
            exact = [float(mpmath.log(side / (above + below))) for side in (below, above)]
            np.testing.assert_allclose(log_p[i], exact, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(odds[i], float(mpmath.log(above / below)), rtol=1e-12, atol=1e-14)
