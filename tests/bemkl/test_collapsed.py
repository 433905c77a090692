"""The collapsed densities against scipy.stats, and against NumPyro's collapsed model."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    assert_same,
    binary_problem,
    random_gamma,
    random_gaussian,
    random_kernels,
    random_labels,
    regression_problem,
)
from scipy import stats

from bayesmkl.bemkl import Dirichlet, SpikeSlab
from bayesmkl.bemkl.draws import (
    PosteriorDraws,
    log_likelihood,
    log_prior,
    log_variational,
    score_means,
    score_scales,
)
from bayesmkl.kernels.stacks.base import SUM_ENTRIES
from bayesmkl.outcomes.labels import log_beyond

pytestmark = pytest.mark.heavy

N_SAMPLES, N_KERNELS, N_DRAWS = 9, 3, 5


def problem_and_draws(rng, task, kernel_prior=None):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    draws = PosteriorDraws(
        rng.normal(size=(N_DRAWS, N_KERNELS)), rng.normal(size=N_DRAWS), rng.normal(size=(N_DRAWS, N_SAMPLES))
    )
    if task == "binary":
        priors = BINARY_PRIORS["general"]
        priors = priors if kernel_prior is None else priors._replace(kernel=kernel_prior)
        return binary_problem(kernels, random_labels(rng, N_SAMPLES), priors, 0.7, 1.4), draws
    draws = draws._replace(
        intermediate_precision=rng.gamma(2.0, size=N_DRAWS), noise_precision=rng.gamma(2.0, size=N_DRAWS)
    )
    return regression_problem(kernels, rng.normal(size=N_SAMPLES), REGRESSION_PRIORS["general"]), draws


def literal_means(problem, draws):
    kernels = np.asarray(problem.stack.kernels)
    return np.array(
        [
            sum(e * kernel @ a for e, kernel in zip(weights, kernels, strict=True)) + b
            for weights, b, a in zip(draws.kernel_weights, draws.intercept, draws.dual, strict=True)
        ]
    )


def test_score_means_are_the_literal_sum_whatever_the_block(rng, monkeypatch):
    problem, draws = problem_and_draws(rng, "binary")
    expected = literal_means(problem, draws)
    assert_same(score_means(problem.stack, draws), expected, 1e-13)
    monkeypatch.setattr("bayesmkl.kernels.stacks.base.SUM_ENTRIES", 2 * N_KERNELS * N_SAMPLES)
    assert_same(score_means(problem.stack, draws), expected, 1e-13)
    assert SUM_ENTRIES > 2 * N_KERNELS * N_SAMPLES


def test_binary_likelihood_is_the_normal_probability_beyond_the_margin(rng):
    problem, draws = problem_and_draws(rng, "binary")
    spread = np.sqrt(1.0 + 1.4**2 * (draws.kernel_weights**2).sum(axis=1))
    assert_same(score_scales(draws, 1.4**-2), spread, 1e-14)
    means = literal_means(problem, draws)
    above = stats.norm.logsf(problem.outcome.margin, means, spread[:, None])
    below = stats.norm.logcdf(-problem.outcome.margin, means, spread[:, None])
    assert_same(log_likelihood(problem, draws), np.where(problem.y > 0, above, below), 1e-12)
    sides = log_beyond(means / spread[:, None], problem.outcome.margin / spread[:, None])
    assert_same(sides, np.stack([below, above], axis=-1), 1e-12)


def test_regression_likelihood_is_normal(rng):
    problem, draws = problem_and_draws(rng, "regression")
    square = (draws.kernel_weights**2).sum(axis=1)
    spread = np.sqrt(1.0 / draws.noise_precision + square / draws.intermediate_precision)
    expected = stats.norm.logpdf(problem.y, literal_means(problem, draws), spread[:, None])
    assert_same(log_likelihood(problem, draws), expected, 1e-12)


def student(prior):
    return stats.t(2.0 * prior.concentration, scale=np.sqrt(prior.rate / prior.concentration))


def gamma_law(prior):
    return stats.gamma(prior.concentration, scale=1.0 / np.asarray(prior.rate))


def test_prior_density(rng):
    for task in ("binary", "regression"):
        problem, draws = problem_and_draws(rng, task)
        priors = problem.priors
        expected = student(priors.sample).logpdf(draws.dual).sum(axis=1)
        expected += student(priors.intercept).logpdf(draws.intercept)
        expected += student(priors.kernel).logpdf(draws.kernel_weights).sum(axis=1)
        if task == "regression":
            expected += gamma_law(priors.intermediate).logpdf(draws.intermediate_precision)
            expected += gamma_law(priors.noise).logpdf(draws.noise_precision)
        assert_same(log_prior(problem, draws), expected, 1e-12)


def test_prior_density_of_weights_on_the_simplex_and_of_switched_ones(rng):
    problem, draws = problem_and_draws(rng, "binary", Dirichlet(0.6))
    draws = draws._replace(kernel_weights=rng.dirichlet(np.ones(N_KERNELS), size=N_DRAWS))
    rest = student(problem.priors.sample).logpdf(draws.dual).sum(axis=1)
    rest += student(problem.priors.intercept).logpdf(draws.intercept)
    expected = stats.dirichlet(np.full(N_KERNELS, 0.6)).logpdf(draws.kernel_weights.T)
    assert_same(log_prior(problem, draws), rest + expected, 1e-12)

    problem = problem._replace(priors=problem.priors._replace(kernel=SpikeSlab(0.2, 3.0)))
    on = rng.integers(0, 2, size=(N_DRAWS, N_KERNELS))
    weights = on * rng.normal(size=on.shape)
    draws = draws._replace(kernel_weights=weights, kernel_inclusion=on)
    slab = stats.bernoulli(0.2).logpmf(on) + on * stats.norm(0.0, 3.0).logpdf(weights)
    assert_same(log_prior(problem, draws), rest + slab.sum(axis=1), 1e-12)


def test_variational_density(rng):
    class State:
        dual, readout = random_gaussian(rng, N_SAMPLES), random_gaussian(rng, 1 + N_KERNELS)
        intermediate_precision, noise_precision = random_gamma(rng), random_gamma(rng)

    _, draws = problem_and_draws(rng, "regression")
    readout = np.column_stack([draws.intercept, draws.kernel_weights])
    expected = stats.multivariate_normal(State.dual.mean, State.dual.cov).logpdf(draws.dual)
    expected += stats.multivariate_normal(State.readout.mean, State.readout.cov).logpdf(readout)
    expected += gamma_law(State.intermediate_precision).logpdf(draws.intermediate_precision)
    expected += gamma_law(State.noise_precision).logpdf(draws.noise_precision)
    assert_same(log_variational(State, draws), expected, 1e-11)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_same_densities_as_the_numpyro_model(rng, task):
    from numpyro.infer.util import log_density

    from bayesmkl._utils.devices import numpyro_session
    from bayesmkl.bemkl.program import collapsed_model

    problem, draws = problem_and_draws(rng, task)
    ours = log_prior(problem, draws) + log_likelihood(problem, draws).sum(axis=1)
    sites = [name for name, values in draws._asdict().items() if values is not None]
    with numpyro_session():
        for s in range(N_DRAWS):
            values = {name: getattr(draws, name)[s] for name in sites}
            found = float(log_density(collapsed_model, (problem,), {}, values)[0])
            assert abs(found - ours[s]) < 1e-9 * abs(ours[s])
