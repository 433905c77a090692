"""Entropies and bound terms of single factors against scipy.stats, numerical integration and loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference
from helpers import (
    SAME_FORMULA,
    assert_monte_carlo,
    assert_same,
    random_gaussian,
    random_intermediate,
    random_kernels,
)
from scipy import integrate, stats

from bayesmkl.bemkl import moments
from bayesmkl.bemkl.moments import Gamma, Gaussian, IntermediateOutputs, PrecisionMoments
from bayesmkl.kernels.stacks.dense import DenseStack

N_KERNELS, N_SAMPLES = 3, 6
PRIORS = [Gamma(1.0, 1.0), Gamma(0.6, 2.1), Gamma(3.4, 0.2), Gamma(1e-10, 1e-10)]


def gamma_law(factor):
    return stats.gamma(factor.concentration, scale=1.0 / factor.rate)


def expectation(law, function):
    """Return E[function(x)] by quadrature in log x, piecewise because the left tail is long."""
    nodes = [-400.0, -100.0, -30.0, -10.0, -3.0, 0.0, 2.0, 4.0, 6.0]
    integrand = lambda u: np.exp(law.logpdf(np.exp(u)) + u) * function(np.exp(u))
    pieces = itertools.pairwise(nodes)
    return sum(integrate.quad(integrand, *ends, epsabs=1e-13, epsrel=1e-12)[0] for ends in pieces)


@pytest.mark.parametrize("factor", [Gamma(1.5, 0.8), Gamma(0.5, 2.0), Gamma(5.0, 3.0)])
def test_gamma_moments_against_integration(factor):
    factor = Gamma(factor.concentration, np.array(factor.rate))
    np.testing.assert_allclose(factor.mean, expectation(gamma_law(factor), lambda x: x), rtol=1e-9)
    np.testing.assert_allclose(factor.log_mean, expectation(gamma_law(factor), np.log), rtol=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("concentration", [0.5, 1.5, 4.2])
def test_gamma_bound_against_integration_and_scipy_entropy(prior, concentration):
    rates = np.array([0.3, 1.0, 2.5])
    expected = 0.0
    for rate in rates:
        law = gamma_law(Gamma(concentration, rate))
        expected += expectation(law, gamma_law(prior).logpdf) + law.entropy()
    found = Gamma(concentration, rates).bound(prior)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_gamma_bound_of_the_prior_itself_is_zero():
    for prior in PRIORS[:3]:
        factor = Gamma(prior.concentration, np.full(4, prior.rate))
        np.testing.assert_allclose(factor.bound(prior), 0.0, atol=1e-12)


def test_gaussian_entropy_and_moments_against_scipy(rng):
    factor = random_gaussian(rng, 5)
    np.testing.assert_allclose(factor.entropy, stats.multivariate_normal(factor.mean, factor.cov).entropy())
    np.testing.assert_allclose(factor.log_det, np.log(np.linalg.eigvalsh(factor.cov)).sum())
    np.testing.assert_allclose(factor.variance, np.diag(factor.cov))
    np.testing.assert_allclose(factor.square, np.diag(factor.cov + np.outer(factor.mean, factor.mean)))
    assert Gaussian.from_moments(factor.mean, 4.0 * factor.cov).log_det == pytest.approx(
        factor.log_det + 5 * np.log(4.0)
    )


def test_intermediate_entropy_against_scipy_column_by_column(rng):
    factor = random_intermediate(rng, N_KERNELS, N_SAMPLES)
    columns = [stats.multivariate_normal(column, factor.cov).entropy() for column in factor.mean.T]
    np.testing.assert_allclose(factor.entropy, sum(columns))


def test_readout_moments_against_the_outer_product(rng):
    mean, cov = rng.normal(size=4), random_gaussian(rng, 4).cov
    found = moments.readout_moments(mean, cov)
    second = np.outer(mean, mean) + cov
    assert found.intercept == mean[0]
    np.testing.assert_array_equal(found.weights, mean[1:])
    assert_same(found.weights_square, second[1:, 1:], SAME_FORMULA)
    assert_same(found.intercept_weights, second[0, 1:], SAME_FORMULA)


def test_zero_mean_normal_term_against_monte_carlo(rng):
    precision = Gamma(2.5, np.array([0.8, 3.0]))
    square = np.array([1.7, 0.4])
    tau = gamma_law(precision).rvs(size=(400_000, 2), random_state=rng)
    x = rng.normal(scale=np.sqrt(square), size=tau.shape)
    draws = stats.norm.logpdf(x, scale=1.0 / np.sqrt(tau)).sum(axis=1)
    assert_monte_carlo(draws, moments.expected_zero_mean(square, precision))


def test_residual_term_against_scipy_and_monte_carlo(rng):
    residuals = rng.normal(size=7)
    known = moments.known_precision(residuals, 2.5)
    expected = stats.norm.logpdf(residuals, scale=1.0 / np.sqrt(2.5)).sum()
    np.testing.assert_allclose(moments.expected_residual((residuals**2).sum(), 7, known), expected)
    unit = moments.expected_residual((residuals**2).sum(), 7, moments.UNIT_PRECISION)
    np.testing.assert_allclose(unit, stats.norm.logpdf(residuals).sum())
    learned = Gamma(4.0, np.array(1.5))
    tau = gamma_law(learned).rvs(size=(400_000, 1), random_state=rng)
    draws = stats.norm.logpdf(residuals, scale=1.0 / np.sqrt(tau)).sum(axis=1)
    assert_monte_carlo(draws, moments.expected_residual((residuals**2).sum(), 7, learned))


def test_noise_precision_update_is_the_normal_gamma_posterior(rng):
    prior, residuals = Gamma(1.3, 0.7), rng.normal(size=5)
    found = moments.update_noise_precision(prior, (residuals**2).sum(), 5)
    grid = np.array([0.3, 0.9, 2.0, 4.5])
    joint = [
        gamma_law(prior).logpdf(tau) + stats.norm.logpdf(residuals, scale=tau**-0.5).sum() for tau in grid
    ]
    ratio = joint - gamma_law(found).logpdf(grid)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10)


def test_intermediate_error_against_loops_and_monte_carlo(rng):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    stack = DenseStack(kernels)
    dual, factor = random_gaussian(rng, N_SAMPLES), random_intermediate(rng, N_KERNELS, N_SAMPLES)
    found = moments.intermediate_error(factor, stack.apply(dual.mean), stack.gram(), dual)
    expected = reference.g_error(kernels, dual.mean, dual.cov, factor.mean, factor.cov)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    a = rng.multivariate_normal(dual.mean, dual.cov, size=40_000)
    g = factor.mean + _columns(rng, factor, 40_000)
    assert_monte_carlo(((g - np.einsum("mij,sj->smi", kernels, a)) ** 2).sum(axis=(1, 2)), found)


def test_score_error_against_loops_and_monte_carlo(rng):
    scores = rng.normal(size=N_SAMPLES)
    readout, factor = random_gaussian(rng, 1 + N_KERNELS), random_intermediate(rng, N_KERNELS, N_SAMPLES)
    found = moments.score_error(scores, factor, readout, moments.readout_design(factor))
    expected = reference.y_error(scores, factor.mean, factor.cov, readout.mean, readout.cov)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    be = rng.multivariate_normal(readout.mean, readout.cov, size=40_000)
    g = factor.mean + _columns(rng, factor, 40_000)
    means = be[:, :1] + np.einsum("sm,smi->si", be[:, 1:], g)
    assert_monte_carlo(((scores - means) ** 2).sum(axis=1), found)


def _columns(rng, factor, n_draws):
    draws = rng.multivariate_normal(np.zeros(N_KERNELS), factor.cov, size=(n_draws, N_SAMPLES))
    return draws.transpose(0, 2, 1)


def test_readout_design_and_target_against_monte_carlo(rng):
    factor = random_intermediate(rng, N_KERNELS, N_SAMPLES)
    g = factor.mean + _columns(rng, factor, 40_000)
    ones_g = np.concatenate([np.ones((40_000, 1, N_SAMPLES)), g], axis=1)
    found = moments.readout_design(factor)
    assert found[0, 0] == N_SAMPLES
    np.testing.assert_array_equal(found, found.T)
    products = np.einsum("smi,shi->smh", ones_g, ones_g)
    for row in range(1 + N_KERNELS):
        for column in range(1, 1 + N_KERNELS):
            assert_monte_carlo(products[:, row, column], found[row, column])
    latent = rng.normal(size=N_SAMPLES)
    target = moments.readout_target(factor, latent)
    assert target[0] == pytest.approx(latent.sum())
    assert_monte_carlo((ones_g @ latent)[:, 1:], target[1:])


def test_precision_moments_of_a_known_precision():
    like = np.ones(2)
    assert PrecisionMoments(1.0, 0.0) == moments.UNIT_PRECISION
    known = moments.known_precision(like, 0.25)
    assert known.mean == 0.25
    assert known.log_mean == pytest.approx(-2.0 * np.log(2.0))


def test_latent_mean_is_the_expected_score(rng):
    readout = random_gaussian(rng, 1 + N_KERNELS)
    factor = IntermediateOutputs(rng.normal(size=(N_KERNELS, N_SAMPLES)), np.eye(N_KERNELS), 0.0)
    expected = [readout.mean[1:] @ factor.mean[:, i] + readout.mean[0] for i in range(N_SAMPLES)]
    assert_same(moments.latent_mean(factor, readout), expected, SAME_FORMULA)
