"""Nonnegative kernel weights that several outputs share: the limit of one output, the bound, prediction."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_ITERATION, assert_monte_carlo, assert_same, assert_same_factors, random_kernels
from test_missing_views import problem_of, targets_of
from test_multiclass import PLAIN, single_problem
from test_multiclass import problem_of as two_models

from bayesmkl.bemkl import nonnegative
from bayesmkl.bemkl.ascent import maximize_elbo
from bayesmkl.bemkl.nonnegative import NonnegativeReadout
from bayesmkl.bemkl.reading import predict_scores
from bayesmkl.kernels.stacks.dense import DenseStack

N_SAMPLES = 9


@pytest.mark.parametrize("n_kernels", [1, 2, 4])
@pytest.mark.parametrize("model", ["classes", "targets"])
def test_degenerate_one_output_is_the_model_of_one(rng, model, n_kernels):
    kernels = random_kernels(rng, N_SAMPLES, n_kernels)
    y = targets_of("labels" if model == "classes" else model, rng, kernels, 1)
    _, problem, start = two_models(model, kernels, y, "general")
    _, alone, alone_start = single_problem(model, kernels, y[0], "general")
    found = maximize_elbo(nonnegative, problem, start, PLAIN)
    expected = maximize_elbo(nonnegative, alone, alone_start, PLAIN)
    assert_same(found.elbo_history, expected.elbo_history, 1e-11)
    assert isinstance(found.state.readout, NonnegativeReadout)
    assert_same_factors(found.state.readout, expected.state.readout, SAME_ITERATION)
    assert_same(found.state.dual.mean[0], expected.state.dual.mean, SAME_ITERATION)


def test_scores_of_several_outputs_against_draws(rng):
    kernels = random_kernels(rng, N_SAMPLES, 3)
    _, problem, start = problem_of("targets", kernels, targets_of("targets", rng, kernels, 2))
    state = maximize_elbo(nonnegative, problem, start, PLAIN).state
    rows, noise = DenseStack(rng.normal(size=(3, 2, N_SAMPLES))), np.array([0.4, 0.9])
    found = predict_scores(rows, state.dual, state.readout, noise)
    be = state.readout.draw(60_000, rng)
    for c, score in enumerate(found):
        a = rng.multivariate_normal(state.dual.mean[c], state.dual.cov[c], size=len(be))
        g = a @ rows.kernels[:, 1].T + np.sqrt(noise[c]) * rng.normal(size=(len(be), 3))
        draws = be[:, c] + (be[:, 2:] * g).sum(axis=1)
        assert_monte_carlo(draws, score.mean[1])
        assert_monte_carlo((draws - score.mean[1]) ** 2, score.variance[1])
