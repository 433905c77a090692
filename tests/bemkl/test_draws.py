"""Draws in one shape: alignment of signs, conditional precisions, draws from the variational factors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    assert_monte_carlo,
    binary_problem,
    informed_target,
    random_kernels,
    random_labels,
    regression_problem,
)
from scipy import stats

from bayesmkl.bemkl import Dirichlet
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import PosteriorDraws, align_signs, draw_precisions, variational_draws
from bayesmkl.bemkl.moments import Gamma


def mirrored_draws(rng, n_chains=3, n_draws=50):
    weights = rng.normal(size=4) + 0.1 * rng.normal(size=(n_chains, n_draws, 4))
    dual = rng.normal(size=6) + 0.1 * rng.normal(size=(n_chains, n_draws, 6))
    sign = rng.choice([-1.0, 1.0], size=(n_chains, n_draws, 1))
    draws = PosteriorDraws(sign * weights, rng.normal(size=(n_chains, n_draws)), sign * dual)
    return draws, weights, dual


def test_alignment_undoes_random_reflections(rng):
    draws, weights, dual = mirrored_draws(rng)
    aligned = align_signs(draws)
    overall = np.sign(np.sum(aligned.kernel_weights * weights))
    np.testing.assert_allclose(aligned.kernel_weights, overall * weights)
    np.testing.assert_allclose(aligned.dual, overall * dual)
    np.testing.assert_array_equal(aligned.intercept, draws.intercept)


def test_alignment_does_not_depend_on_the_order_of_kernels_draws_or_the_mirror_image(rng):
    draws, _, _ = mirrored_draws(rng)
    aligned = align_signs(draws)
    order = rng.permutation(4)
    permuted = align_signs(draws._replace(kernel_weights=draws.kernel_weights[..., order]))
    np.testing.assert_allclose(permuted.kernel_weights, aligned.kernel_weights[..., order])
    reversed_ = align_signs(draws.map(lambda values: values[::-1, ::-1]))
    np.testing.assert_allclose(reversed_.dual, aligned.dual[::-1, ::-1])
    opposite = draws._replace(kernel_weights=-draws.kernel_weights, dual=-draws.dual)
    np.testing.assert_allclose(align_signs(opposite).kernel_weights, aligned.kernel_weights)


def test_precisions_follow_their_conditionals(rng):
    n = 4000
    priors = BINARY_PRIORS["general"]
    one = PosteriorDraws(
        np.broadcast_to([[[0.3, -2.0]]], (1, n, 2)),
        np.full((1, n), 1.5),
        np.broadcast_to([[[0.0, 4.0, -1.0]]], (1, n, 3)),
    )
    drawn = draw_precisions(one, priors, rng)
    for name, prior, value in [
        ("kernel_precision", priors.kernel, [0.3, -2.0]),
        ("intercept_precision", priors.intercept, 1.5),
        ("sample_precision", priors.sample, [0.0, 4.0, -1.0]),
    ]:
        law = stats.gamma(prior.concentration + 0.5, scale=1.0 / (prior.rate + 0.5 * np.square(value)))
        values = getattr(drawn, name)[0]
        assert_monte_carlo(values, law.mean(), name)
        assert_monte_carlo((values - law.mean()) ** 2, law.var(), name)


def test_priors_on_the_weights_themselves_leave_no_precisions(rng):
    draws, _, _ = mirrored_draws(rng)
    drawn = draw_precisions(draws, BINARY_PRIORS["non-sparse"]._replace(kernel=Dirichlet()), rng)
    assert drawn.kernel_precision is None
    assert drawn.sample_precision.shape == draws.dual.shape


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_variational_draws_have_the_moments_of_the_factors(rng, task):
    kernels = random_kernels(rng, 12, 3)
    if task == "binary":
        algorithm, problem = bemkl, binary_problem(kernels, random_labels(rng, 12))
    else:
        priors = REGRESSION_PRIORS["general"]
        algorithm, problem = bemkl, regression_problem(kernels, informed_target(rng, kernels), priors)
    start = algorithm.init(problem, np.ones(12))
    state = maximize_elbo(algorithm, problem, start, LoopOptions(max_iter=30)).state
    draws = variational_draws(state, 4000, rng)
    assert (draws.n_chains, draws.n_draws, draws.n_kernels) == (1, 4000, 3)
    flat = draws.flat()
    readout = np.column_stack([flat.intercept, flat.kernel_weights])
    assert_monte_carlo(readout, state.readout.mean, "(b, e)")
    centered = readout - state.readout.mean
    assert_monte_carlo(centered[:, :, None] * centered[:, None, :], state.readout.cov, "Cov(b, e)")
    assert_monte_carlo(flat.dual, state.dual.mean, "a")
    assert_monte_carlo((flat.dual - state.dual.mean) ** 2, state.dual.variance, "Var(a)")
    for name, factor in state._asdict().items():
        if isinstance(factor, Gamma):
            assert_monte_carlo(getattr(flat, name), factor.mean, name)
