"""The bound against a Monte Carlo estimate of E_q[log p - log q], with every density from scipy.stats.

Wrong bounds that others have published must fail the same comparison: without the squared distance between the
truncated mean and its location, and with the product of means in the place of E[G G'].
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    STANDARD_ERRORS,
    binary_problem,
    random_gamma,
    random_gaussian,
    random_intermediate,
    random_kernels,
    random_labels,
    regression_problem,
)
from scipy import stats

from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.model import State

pytestmark = pytest.mark.heavy

N_SAMPLES, N_KERNELS, N_DRAWS = 7, 3, 40_000


def gamma_law(factor):
    return stats.gamma(factor.concentration, scale=1.0 / np.asarray(factor.rate))


def normal(factor):
    return stats.multivariate_normal(factor.mean, factor.cov)


def draw_shared(rng, state):
    """Draw λ, a, G, γ, ω, (b, e) from their factors and return them with their log density under q."""
    draws, log_q = {}, np.zeros(N_DRAWS)
    for name, size in [
        ("sample_precision", N_SAMPLES), ("intercept_precision", 1), ("kernel_precision", N_KERNELS)
    ]:  # fmt: skip
        law = gamma_law(getattr(state, name))
        draws[name] = law.rvs(size=(N_DRAWS, size), random_state=rng)
        log_q += law.logpdf(draws[name]).sum(axis=1)
    for name in ("dual", "readout"):
        draws[name] = normal(getattr(state, name)).rvs(size=N_DRAWS, random_state=rng)
        log_q += normal(getattr(state, name)).logpdf(draws[name])
    noise = stats.multivariate_normal(np.zeros(N_KERNELS), state.intermediate.cov)
    columns = noise.rvs(size=(N_DRAWS, N_SAMPLES), random_state=rng)
    draws["intermediate"] = state.intermediate.mean + columns.transpose(0, 2, 1)
    log_q += noise.logpdf(columns).sum(axis=1)
    return draws, log_q


def log_shared(problem, draws, intermediate_precision):
    """Log density of what `draw_shared` draws under the model."""
    priors, kernels = problem.priors, np.asarray(problem.stack.kernels)
    total = np.zeros(N_DRAWS)
    for name, prior in [
        ("sample_precision", priors.sample),
        ("intercept_precision", priors.intercept),
        ("kernel_precision", priors.kernel),
    ]:
        total += gamma_law(prior).logpdf(draws[name]).sum(axis=1)
    total += stats.norm.logpdf(draws["dual"], scale=draws["sample_precision"] ** -0.5).sum(axis=1)
    means = np.einsum("mij,sj->smi", kernels, draws["dual"])
    scale = np.asarray(intermediate_precision) ** -0.5
    total += stats.norm.logpdf(draws["intermediate"], loc=means, scale=scale).sum(axis=(1, 2))
    b, e = draws["readout"][:, :1], draws["readout"][:, 1:]
    total += stats.norm.logpdf(b, scale=draws["intercept_precision"] ** -0.5).sum(axis=1)
    total += stats.norm.logpdf(e, scale=draws["kernel_precision"] ** -0.5).sum(axis=1)
    return total


def scores(draws):
    return draws["readout"][:, :1] + np.einsum("sm,smi->si", draws["readout"][:, 1:], draws["intermediate"])


def binary_draws(rng, problem, state, loc):
    """Return draws of log p(y, Θ, Ξ) - log q(Θ, Ξ), q(f) being N(loc, 1) beyond the margin."""
    draws, log_q = draw_shared(rng, state)
    # sampled as y f, which lies above the margin
    law = stats.truncnorm(problem.outcome.margin - problem.y * loc, 60.0, loc=problem.y * loc)
    f = problem.y * law.rvs(size=(N_DRAWS, N_SAMPLES), random_state=rng)
    assert (problem.y * f > problem.outcome.margin).all()  # log p(y | f) is zero
    log_q += law.logpdf(problem.y * f).sum(axis=1)
    log_p = log_shared(problem, draws, problem.intermediate_precision)
    return log_p + stats.norm.logpdf(f, loc=scores(draws)).sum(axis=1) - log_q


def regression_draws(rng, problem, state):
    draws, log_q = draw_shared(rng, state)
    priors, precisions, log_p = problem.priors, {}, np.zeros(N_DRAWS)
    for name, prior in [("intermediate_precision", priors.intermediate), ("noise_precision", priors.noise)]:
        law = gamma_law(getattr(state, name))
        precisions[name] = law.rvs(size=N_DRAWS, random_state=rng)
        log_q += law.logpdf(precisions[name])
        log_p += gamma_law(prior).logpdf(precisions[name])
    log_p += log_shared(problem, draws, precisions["intermediate_precision"][:, None, None])
    scale = precisions["noise_precision"][:, None] ** -0.5
    return log_p + stats.norm.logpdf(problem.y, loc=scores(draws), scale=scale).sum(axis=1) - log_q


def deviation(draws, value):
    """Return how many standard errors lie between the mean of the draws and `value`."""
    return abs(draws.mean() - value) * np.sqrt(draws.size) / draws.std()


def missing_spread_of_intermediates(state, noise_precision=1.0):
    """Return by how much the bound changes when E[G G'] loses its covariance, in E(f - e'g - b)²."""
    second = state.readout.cov[1:, 1:] + np.outer(state.readout.mean[1:], state.readout.mean[1:])
    return 0.5 * noise_precision * N_SAMPLES * np.sum(second * state.intermediate.cov)


def shared_factors(rng):
    """Return random factors: not an optimum of anything, so that no term of the bound hides behind another."""
    return {
        "sample_precision": random_gamma(rng, N_SAMPLES),
        "dual": random_gaussian(rng, N_SAMPLES, 0.3),
        "intermediate": random_intermediate(rng, N_KERNELS, N_SAMPLES, 0.3),
        "intercept_precision": random_gamma(rng),
        "kernel_precision": random_gamma(rng, N_KERNELS),
        "readout": random_gaussian(rng, 1 + N_KERNELS, 0.3),
    }


SQUARE = [("non-sparse", 1.0, 1.0), ("sparse", 0.6, 1.4), ("general", 0.0, 0.7)]
OTHERS = [
    pytest.param(prior, margin, sigma, marks=pytest.mark.slow)
    for prior in BINARY_PRIORS
    for _, margin, sigma in SQUARE
    if (prior, margin, sigma) not in SQUARE
]


@pytest.mark.parametrize(("prior", "margin", "sigma"), SQUARE + OTHERS)
def test_binary_bound_of_random_factors_against_monte_carlo(rng, prior, margin, sigma):
    y = random_labels(rng, N_SAMPLES)
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    problem = binary_problem(kernels, y, BINARY_PRIORS[prior], margin, sigma)
    loc = rng.normal(size=N_SAMPLES)
    state = State(**shared_factors(rng), latent=truncated_moments(loc, y, margin))
    assert deviation(binary_draws(rng, problem, state, loc), bemkl.elbo(problem, state)) < STANDARD_ERRORS


@pytest.mark.parametrize("prior", REGRESSION_PRIORS)
def test_regression_bound_of_random_factors_against_monte_carlo(rng, prior):
    y = rng.normal(size=N_SAMPLES)
    problem = regression_problem(random_kernels(rng, N_SAMPLES, N_KERNELS), y, REGRESSION_PRIORS[prior])
    state = State(
        **shared_factors(rng), intermediate_precision=random_gamma(rng), noise_precision=random_gamma(rng)
    )
    assert deviation(regression_draws(rng, problem, state), bemkl.elbo(problem, state)) < STANDARD_ERRORS


@pytest.mark.parametrize(("margin", "sigma"), [(1.0, 1.0), (0.4, 0.6)])
@pytest.mark.parametrize("prior", ["non-sparse", "general"])
def test_binary_bound_after_sweeps_against_monte_carlo_which_published_variants_fail(
    rng, prior, margin, sigma
):
    y = random_labels(rng, N_SAMPLES)
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    problem = binary_problem(kernels, y, BINARY_PRIORS[prior], margin, sigma)
    state, bound = bemkl.sweep(problem, bemkl.init(problem, np.full(N_SAMPLES, 0.5)))
    for _ in range(4):
        state, bound = bemkl.step(problem, state)
    loc = state.readout.mean[0] + state.readout.mean[1:] @ state.intermediate.mean
    draws = binary_draws(rng, problem, state, loc)
    assert bound == pytest.approx(bemkl.elbo(problem, state), rel=1e-13)
    assert deviation(draws, bound) < STANDARD_ERRORS
    without_square = bound - 0.5 * ((state.latent.mean - loc) ** 2).sum()
    assert deviation(draws, without_square) > 5 * STANDARD_ERRORS
    product_of_means = bound + missing_spread_of_intermediates(state)
    assert deviation(draws, product_of_means) > 5 * STANDARD_ERRORS


@pytest.mark.parametrize("prior", ["non-sparse", "general"])
def test_regression_bound_after_sweeps_against_monte_carlo_which_the_product_of_means_fails(rng, prior):
    y = rng.normal(size=N_SAMPLES)
    problem = regression_problem(random_kernels(rng, N_SAMPLES, N_KERNELS), y, REGRESSION_PRIORS[prior])
    state, bound = bemkl.sweep(problem, bemkl.init(problem, np.zeros(N_SAMPLES)))
    for _ in range(4):
        state, bound = bemkl.step(problem, state)
    draws = regression_draws(rng, problem, state)
    assert bound == pytest.approx(bemkl.elbo(problem, state), rel=1e-13)
    assert deviation(draws, bound) < STANDARD_ERRORS
    noise_precision = state.noise_precision.concentration / state.noise_precision.rate
    product_of_means = bound + missing_spread_of_intermediates(state, noise_precision)
    assert deviation(draws, product_of_means) > 5 * STANDARD_ERRORS
