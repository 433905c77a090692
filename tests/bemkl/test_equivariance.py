"""What must not matter does not, and special cases with an answer of their own."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    arrays_of,
    assert_same,
    binary_problem,
    informed_target,
    random_kernels,
    random_labels,
    regression_problem,
)
from scipy import stats

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors
from bayesmkl.bemkl.moments import Gamma

N_SAMPLES, N_KERNELS = 11, 4
OPTIONS = LoopOptions(max_iter=60, tol=0.0, accelerate=False)


def fit_binary(kernels, y, start=None, margin=1.0, priors=BINARY_PRIORS["non-sparse"], options=OPTIONS):
    problem = binary_problem(kernels, y, priors, margin)
    magnitude = np.ones(len(y)) if start is None else start
    return maximize_elbo(bemkl, problem, bemkl.init(problem, magnitude), options)


def fit_regression(kernels, y, priors=None, options=OPTIONS):
    problem = regression_problem(kernels, y, *([] if priors is None else [priors]))
    return maximize_elbo(bemkl, problem, bemkl.init(problem, np.zeros(len(y))), options)


def test_equivariance_shifted_regression_target_from_the_same_readout_spread(rng):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = informed_target(rng, kernels)
    vague = Priors(intercept=Gamma(1e6, 1e16))  # an intercept that is free to follow
    plain, moved = fit_regression(kernels, y, vague), fit_regression(kernels, y + 50.0, vague)
    assert_same(moved.state.intermediate.mean, plain.state.intermediate.mean, 1e-4)
    assert_same(moved.state.readout.mean[1:], plain.state.readout.mean[1:], 1e-4)
    assert moved.state.readout.mean[0] - plain.state.readout.mean[0] == pytest.approx(50.0, abs=1e-3)


def test_degenerate_kernel_of_zeros_is_a_bayesian_probit_intercept(rng):
    """Weights held at zero by their prior leave y f > ν, f ~ N(b, 1), b ~ N(0, 1/γ), γ ~ Gamma."""
    y, margin = random_labels(rng, N_SAMPLES), 0.4
    priors = Priors(intercept=Gamma(1.2, 0.5), kernel=Gamma(1e12, 1.0))
    kernels = random_kernels(rng, N_SAMPLES, 1)
    result = fit_binary(kernels, y, margin=margin, priors=priors, options=OPTIONS._replace(max_iter=400))
    mean, variance, latent = 0.0, 1.0, y * (margin + 1.0)
    for _ in range(400):
        gamma = (1.2 + 0.5) / (0.5 + 0.5 * (mean**2 + variance))
        variance = 1.0 / (gamma + N_SAMPLES)
        mean = variance * latent.sum()
        z = y * mean - margin
        latent = mean + y * stats.norm.pdf(z) / stats.norm.cdf(z)
    assert result.state.readout.mean[0] == pytest.approx(mean, rel=1e-6)
    assert result.state.readout.cov[0, 0] == pytest.approx(variance, rel=1e-6)
    assert_same(result.state.latent.mean, latent, 1e-6)


def test_degenerate_known_precisions_give_the_exact_evidence(rng):
    """With every precision pinned by its prior and the weights at zero, y ~ N(0, I/ε + 11'/γ): the bound is tight."""
    y, sharp = rng.normal(1.0, 2.0, size=5), 1e7
    priors = Priors(
        sample=Gamma(sharp, sharp / 1e6),
        intercept=Gamma(sharp * 0.3, sharp),
        kernel=Gamma(sharp, sharp / 1e9),
        intermediate=Gamma(sharp, sharp),
        noise=Gamma(sharp * 0.7, sharp),
    )
    result = fit_regression(random_kernels(rng, 5, 2), y, priors)
    evidence = stats.multivariate_normal(np.zeros(5), np.eye(5) / 0.7 + 1.0 / 0.3).logpdf(y)
    assert result.elbo_history[-1] == pytest.approx(evidence, abs=1e-4)


def test_degenerate_single_kernel_is_ridge_regression_when_precisions_are_known(rng):
    """One kernel, known υ, λ, ε, no intercept: given q(e), E[a] solves the ridge regression with g integrated out."""
    sharp, strong, n_samples = 1e9, 100.0, 8
    kernels = random_kernels(rng, n_samples, 1)
    y = informed_target(rng, kernels)
    priors = Priors(
        sample=Gamma(sharp, sharp),
        intercept=Gamma(sharp, sharp / 1e12),
        kernel=Gamma(sharp, sharp),
        intermediate=Gamma(sharp * strong, sharp),
        noise=Gamma(sharp * 4.0, sharp),
    )
    problem = regression_problem(kernels, y, priors)
    result = maximize_elbo(
        bemkl, problem, bemkl.init(problem, np.zeros(n_samples)), LoopOptions(20_000, 1e-13)
    )
    state, K = result.state, kernels[0]
    e, e_square = state.readout.mean[1], state.readout.square[1]
    # optimum over q(a) q(g) given q(e): the exact joint posterior mean of the Gaussian chain a -> g -> y
    noise = np.eye(n_samples) / (strong + 4.0 * e_square)
    precision = np.eye(n_samples) + strong * K @ K - strong**2 * K @ noise @ K
    expected = np.linalg.solve(precision, strong * K @ noise @ (4.0 * e * y))
    assert_same(state.dual.mean, expected, 1e-4)
    fitted = e * K @ state.dual.mean
    assert np.corrcoef(fitted, y)[0, 1] > 0.9


def test_every_factor_is_finite_in_extreme_but_legal_problems(rng):
    for margin, scale in [(0.0, 1e-6), (30.0, 1.0), (1.0, 1e4)]:
        kernels = scale * random_kernels(rng, N_SAMPLES, N_KERNELS)
        state = fit_binary(kernels, random_labels(rng, N_SAMPLES), margin=margin).state
        for name, values in arrays_of(state):
            assert np.isfinite(values).all(), (margin, scale, name)
        assert (state.latent.variance > 0.0).all()
        assert (state.latent.variance <= 1.0).all()
