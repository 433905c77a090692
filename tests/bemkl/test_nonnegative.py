"""Nonnegative kernel weights: exact for one and two kernels, the bound of the q that is used for more."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    STANDARD_ERRORS,
    assert_monte_carlo,
    assert_same,
    binary_problem,
    informed_target,
    random_covariance,
    random_kernels,
)
from scipy import stats

from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl import moments, nonnegative
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import kernel_shares
from bayesmkl.bemkl.reading import predict_score

pytestmark = pytest.mark.heavy
N_SAMPLES, N_DRAWS = 7, 40_000


def update(precision, linear, before, n_outputs=1):
    """Update q(b, e) for the density exp(linear' x - x' precision x / 2), until it rests."""
    prior, design = np.zeros(len(linear)), precision
    for _ in range(100 if len(before) > 2 else 1):  # one and two weights need no iterations
        readout = nonnegative.update_readout(before, design, linear, prior, 1.0)
        before = readout.mean[n_outputs:]
    return readout


def bound_of(readout, precision, linear):
    """E_q[linear' x - x' precision x / 2] + entropy, at most the log integral over e >= 0."""
    energy = linear @ readout.mean - 0.5 * readout.mean @ precision @ readout.mean
    return energy - 0.5 * np.sum(precision * readout.cov) + readout.entropy


def log_integral(precision, linear):
    """Log of the integral over all of space, mean and covariance of the normal distribution."""
    cov = np.linalg.inv(precision)
    size = len(linear)
    return (
        0.5 * (size * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1] + linear @ cov @ linear),
        cov @ linear,
        cov,
    )


def random_target(rng, n_kernels, scale=2.0):
    precision = np.linalg.inv(random_covariance(rng, 1 + n_kernels))
    return precision, precision @ rng.normal(scale=scale, size=1 + n_kernels)


def rejected(rng, precision, linear, n_draws=400_000, n_outputs=1):
    """Draw from the normal distribution where e >= 0; also return the share that was kept."""
    _, mean, cov = log_integral(precision, linear)
    draws = rng.multivariate_normal(mean, cov, size=n_draws)
    kept = draws[(draws[:, n_outputs:] >= 0.0).all(axis=1)]
    return kept, len(kept) / n_draws


# ------------------------------------------------------------------------------------- q(b, e) of a given target


@pytest.mark.parametrize("n_kernels", [1, 2])
def test_one_and_two_kernels_are_exact_the_bound_is_the_log_integral(rng, n_kernels):
    for _ in range(20):
        precision, linear = random_target(rng, n_kernels, 0.5)
        readout = update(precision, linear, np.ones(n_kernels))
        log_total, mean, cov = log_integral(precision, linear)
        share = stats.multivariate_normal(-mean[1:], cov[1:, 1:]).cdf(np.zeros(n_kernels))
        exact = log_total + np.log(share)
        assert bound_of(readout, precision, linear) == pytest.approx(exact, abs=1e-6 / share)


@pytest.mark.parametrize("n_kernels", [1, 2])
def test_moments_of_one_and_two_kernels_against_rejection(rng, n_kernels):
    cov = random_covariance(rng, 1 + n_kernels)
    precision = np.linalg.inv(cov)
    linear = precision @ np.r_[1.0, np.full(n_kernels, 0.1)]
    readout = update(precision, linear, np.ones(n_kernels))
    kept, _ = rejected(rng, precision, linear)
    assert_monte_carlo(kept, readout.mean)
    away = kept - readout.mean
    assert_monte_carlo(np.einsum("si,sj->sij", away, away), readout.cov)


@pytest.mark.parametrize("n_kernels", [1, 2, 3])
def test_weights_far_from_zero_have_the_normal_distribution_of_equation_4(rng, n_kernels):
    precision, _ = random_target(rng, n_kernels)
    if n_kernels == 3:  # independent given the data, with b integrated out
        precision[1:, 1:] = np.diag([1.0, 2.0, 3.0])
        precision[1:, 1:] += np.outer(precision[1:, 0], precision[0, 1:]) / precision[0, 0]
    linear = precision @ np.r_[1.0, np.full(n_kernels, 60.0)]
    readout = update(precision, linear, np.ones(n_kernels))
    free = moments.update_readout(precision, linear, np.zeros(1 + n_kernels), 1.0)
    assert_same(readout.mean, free.mean, 1e-10)
    assert_same(readout.cov, free.cov, 1e-8)
    assert readout.entropy == pytest.approx(free.entropy, abs=1e-8)


@pytest.mark.parametrize("n_kernels", [3, 5, 10])
def test_bound_of_the_product_is_below_the_log_integral_and_the_gap_is_its_divergence(rng, n_kernels):
    """The gap is also E_q[log q - log p], by Monte Carlo with densities from scipy."""
    size = 1 + n_kernels
    precision = np.eye(size) + 0.25 * random_covariance(rng, size)
    linear = precision @ np.r_[-0.5, np.full(n_kernels, 0.8)]
    readout = update(precision, linear, np.ones(n_kernels))
    log_total, mean, cov = log_integral(precision, linear)
    _, share = rejected(rng, precision, linear)
    bound = bound_of(readout, precision, linear)
    error = np.sqrt((1.0 - share) / share / 400_000)
    gap = log_total + np.log(share) - bound
    assert gap > -STANDARD_ERRORS * error
    weights, slope = readout.weights, readout.slope
    law = stats.truncnorm(-weights.location / weights.scale, np.inf, weights.location, weights.scale)
    e = law.rvs(size=(200_000, n_kernels), random_state=rng)
    offset = readout.mean[0] - slope[0] @ readout.mean[1:]
    given = stats.norm(offset + e @ slope[0], np.sqrt(readout.intercept_variance[0]))
    b = given.rvs(random_state=rng)
    log_q = law.logpdf(e).sum(axis=1) + given.logpdf(b)
    x = np.column_stack([b, e])
    log_p = stats.multivariate_normal(mean, cov).logpdf(x) - np.log(share)
    divergence = log_q - log_p
    error = np.hypot(error, divergence.std() / np.sqrt(len(divergence)))
    assert abs(divergence.mean() - gap) < STANDARD_ERRORS * error
    assert_monte_carlo(x, readout.mean)
    away = x - readout.mean
    assert_monte_carlo(np.einsum("si,sj->sij", away, away), readout.cov)


@pytest.mark.parametrize("n_kernels", [3, 10])
def test_the_product_finds_the_means_of_the_orthant_and_deviations_that_are_too_small(rng, n_kernels):
    """Exact moments by rejection. Correlations up to 0.2 move means by less than 3 % of a deviation."""
    root = 0.2 * rng.normal(size=(1 + n_kernels, 1 + n_kernels))
    precision = np.eye(1 + n_kernels) + root @ root.T / (1 + n_kernels)
    linear = precision @ np.r_[1.0, np.full(n_kernels, 0.9)]
    readout = update(precision, linear, np.ones(n_kernels))
    kept, _ = rejected(rng, precision, linear)
    deviations = kept.std(axis=0)
    assert (np.abs(kept.mean(axis=0) - readout.mean) < 0.03 * deviations).all()
    ratio = np.sqrt(readout.variance) / deviations
    assert (ratio < 1.01).all()
    assert (ratio > 0.95).all()


def test_several_intercepts_against_monte_carlo(rng):
    """Two outputs share three weights; given the weights the intercepts are independent, as in (4)."""
    precision = np.diag([3.0, 5.0, 2.0, 1.0, 4.0])
    precision[:2, 2:] = 0.4 * rng.normal(size=(2, 3))
    precision[2:, :2] = precision[:2, 2:].T
    linear = rng.normal(size=5)
    readout = update(precision, linear, np.ones(3), n_outputs=2)
    assert (readout.slope.shape, readout.mean.shape) == ((2, 3), (5,))
    draws = readout.draw(200_000, rng)
    assert (draws[:, 2:] >= 0.0).all()
    assert_monte_carlo(draws, readout.mean)
    away = draws - readout.mean
    assert_monte_carlo(np.einsum("si,sj->sij", away, away), readout.cov)
    exact, share = rejected(rng, precision, linear, n_outputs=2)
    log_total, _, _ = log_integral(precision, linear)
    assert 0.0 < log_total + np.log(share) - bound_of(readout, precision, linear) < 0.1
    assert (np.abs(exact.mean(axis=0) - readout.mean) < 0.1 * exact.std(axis=0)).all()


def test_mean_of_one_number_is_that_of_the_vector_formula():
    z = np.r_[-1e4, -50.0, nonnegative.TAIL + np.array([-1e-9, 0.0, 1e-9]), np.linspace(-4.9, 40.0, 50), 1e3]
    exact = truncated_moments(z, np.ones_like(z), 0.0).mean
    np.testing.assert_allclose([nonnegative._cut_off_mean(x) for x in z], exact, rtol=1e-13)


# --------------------------------------------------------------------------------------- fits, backends, predictions


def fitted(rng, n_samples=24, n_kernels=4, algorithm=nonnegative, **options):
    kernels = random_kernels(rng, n_samples, n_kernels)
    target = informed_target(rng, kernels)
    problem = binary_problem(kernels, np.where(target > np.median(target), 1.0, -1.0))
    start = bemkl.init(problem, np.ones(n_samples))
    return problem, maximize_elbo(algorithm, problem, start, LoopOptions(**options))


def test_permuted_kernels_have_permuted_weights(rng):
    problem, result = fitted(rng, max_iter=800, tol=1e-13)
    order = np.array([2, 0, 3, 1])
    moved = binary_problem(np.asarray(problem.stack.kernels)[order], problem.y)
    start = bemkl.init(moved, np.ones(24))
    again = maximize_elbo(nonnegative, moved, start, LoopOptions(max_iter=800, tol=1e-13))
    assert again.elbo_history[-1] == pytest.approx(result.elbo_history[-1], abs=1e-6)
    assert_same(again.state.readout.mean[1:], result.state.readout.mean[1:][order], 1e-3)


def test_a_weight_that_is_negative_in_the_free_model_is_positive():
    rng = np.random.default_rng(0)
    kernels = random_kernels(rng, 40, 3)
    kernels[1] = kernels[0]
    target = informed_target(rng, kernels)
    problem = binary_problem(kernels, np.where(target > np.median(target), 1.0, -1.0))
    start, options = bemkl.init(problem, np.ones(40)), LoopOptions(max_iter=400)
    free = maximize_elbo(bemkl, problem, start, options).state.readout
    held = maximize_elbo(nonnegative, problem, start, options).state.readout
    assert free.mean[3] < -0.1
    assert (held.mean[1:] > 0.0).all()
    assert held.mean[3] < 0.3 * held.mean[1]


def test_draws_and_shares_of_a_fit(rng):
    problem, result = fitted(rng, max_iter=60)
    state = result.state
    draws = state.readout.draw(100_000, rng)
    assert (draws[:, 1:] >= 0.0).all()
    assert_monte_carlo(draws, state.readout.mean)
    away = draws - state.readout.mean
    assert_monte_carlo(np.einsum("si,sj->sij", away, away), state.readout.cov)
    shares, _ = kernel_shares(problem.stack, state.dual, state.readout, rng)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.argmax() == 0  # the kernel that made the labels


def test_prediction_carries_all_of_the_posterior(rng):
    problem, result = fitted(rng, n_kernels=2, max_iter=60)
    state = result.state
    score = predict_score(problem.stack, state.dual, state.readout, 1.0)
    a = rng.multivariate_normal(state.dual.mean, state.dual.cov, size=100_000)
    be, k = state.readout.draw(100_000, rng), np.asarray(problem.stack.kernels)[:, 0]
    g = a @ k.T + rng.normal(size=(100_000, 2))
    f = be[:, 0] + (be[:, 1:] * g).sum(axis=1)
    assert_monte_carlo(f, score.mean[0])
    assert_monte_carlo((f - score.mean[0]) ** 2, score.variance[0])
