"""Unlabeled samples: loops, integration, Monte Carlo, the supervised model, and what a margin of zero means."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from helpers import (
    BINARY_PRIORS,
    SAME_FORMULA,
    arrays_of,
    assert_monte_carlo,
    assert_same,
    binary_problem,
    random_kernels,
    random_labels,
)
from scipy import integrate, stats
from test_bound import random_state

from bayesmkl._numerics.truncated_normal import label_moments
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import labeled_part, positive_probability, start_from_labeled
from bayesmkl.bemkl.moments import intermediate_error
from bayesmkl.outcomes.labels import log_beyond

pytestmark = pytest.mark.heavy

N_SAMPLES, N_KERNELS = 7, 3


def some_labels(rng, n_samples, share=0.5):
    """Return labels of both classes, of which about `share` are replaced by 0."""
    y = random_labels(rng, n_samples)
    y[2:] *= rng.random(n_samples - 2) > share
    y[-1] = 0.0
    return y


def problem_of(rng, n_samples=N_SAMPLES, n_kernels=N_KERNELS, prior="non-sparse", **settings):
    kernels = random_kernels(rng, n_samples, n_kernels)
    return binary_problem(kernels, some_labels(rng, n_samples), BINARY_PRIORS[prior], **settings)


def loc_of(state):
    return state.readout.mean[0] + state.readout.mean[1:] @ state.intermediate.mean


# ------------------------------------------------------------------------------------------------------- one sweep


def test_one_sweep_against_the_equations_in_loops_and_integration(rng):
    problem = problem_of(rng, margin=0.8, sigma=0.7)
    start = bemkl.init(problem, np.full(N_SAMPLES, 0.5))
    state, _ = bemkl.sweep(problem, start)
    old = reference.Old(start.dual_square, start.probe, start.readout, start.readout_cov, start.latent)
    kernels, priors = np.asarray(problem.stack.kernels), [(1.0, 1.0)] * 3
    expected, _ = reference.binary_sweep(kernels, problem.y, 0.8, 0.7, priors, old)
    for name, factor in [("a", state.dual), ("G", state.intermediate), ("be", state.readout)]:
        assert_same(factor.mean, expected[name][0], 1e-9, name)
        assert_same(factor.cov, expected[name][1], 1e-9, name)
    labeled, (mean, variance) = problem.y != 0.0, expected["f"]
    assert_same(state.latent.mean[labeled], mean[labeled], 1e-8)
    assert_same(state.latent.variance[labeled], variance[labeled], 1e-8)
    for i in np.flatnonzero(~labeled):
        moment = lambda f, k, i=i: f**k * stats.norm.pdf(f, loc=loc_of(state)[i])
        sides = [(-20.0, -0.8), (0.8, 20.0)]
        moments = [sum(integrate.quad(moment, *side, args=(k,))[0] for side in sides) for k in range(3)]
        assert state.latent.mean[i] == pytest.approx(moments[1] / moments[0], rel=1e-8)
        variance = moments[2] / moments[0] - (moments[1] / moments[0]) ** 2
        assert state.latent.variance[i] == pytest.approx(variance, rel=1e-8)


# ------------------------------------------------------------------------------------- degenerate: all are labeled


def test_all_labeled_is_the_supervised_fit_exactly(rng):
    kernels, y = random_kernels(rng, 12, 3), random_labels(rng, 12)
    problem = binary_problem(kernels, y)
    options = LoopOptions(max_iter=20, tol=0.0)
    fitted = maximize_elbo(bemkl, problem, bemkl.init(problem, np.ones(12)), options)
    part = labeled_part(problem)
    again = maximize_elbo(bemkl, part, bemkl.init(part, np.ones(12)), options)
    for (name, found), (_, expected) in zip(arrays_of(again), arrays_of(fitted), strict=True):
        np.testing.assert_array_equal(found, expected, err_msg=name)
    start = start_from_labeled(problem, fitted.state)
    for name, found, expected in zip(start._fields, start, bemkl.carry(problem, fitted.state), strict=True):
        np.testing.assert_array_equal(found, expected, err_msg=name)
    np.testing.assert_array_equal(positive_probability(problem, fitted.state), (y > 0).astype(float))


# ------------------------------------------------------------------------------------------- degenerate: no margin


def test_without_margin_an_unlabeled_score_keeps_its_normal_distribution(rng):
    problem = problem_of(rng, margin=0.0)
    state, _ = bemkl.sweep(problem, bemkl.init(problem, np.ones(N_SAMPLES)))
    unlabeled = problem.y == 0.0
    assert_same(state.latent.mean[unlabeled], loc_of(state)[unlabeled], 1e-15)
    assert_same(state.latent.variance[unlabeled], np.ones(unlabeled.sum()), 1e-15)
    np.testing.assert_allclose(state.latent.entropy[unlabeled], stats.norm.entropy(), rtol=1e-14)
    np.testing.assert_allclose(state.latent.log_normalizer[unlabeled], 0.0, atol=1e-15)


@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_exact_likelihood_of_an_unlabeled_sample_is_flat_without_margin_only(rng, margin):
    """With f and G integrated out, P(|f_i| > ν) given (a, b, e): one at ν = 0, whatever a, b and e are."""
    means, scales = rng.normal(size=(50, 4)), rng.uniform(1.0, 3.0, size=(50, 1))
    log_p = np.logaddexp(*log_beyond(means / scales, margin / scales).transpose(2, 0, 1))
    if margin == 0.0:
        np.testing.assert_allclose(log_p, 0.0, atol=1e-14)
    else:
        assert log_p.max() < -0.01
        assert np.ptp(log_p) > 0.1


def cost_of_unlabeled(problem, state):
    """What unlabeled samples take from the bound at ν = 0, by the formula of the module's documentation."""
    readout, factor = state.readout, state.intermediate
    kernels, cost = np.asarray(problem.stack.kernels), 0.0
    weights_square = np.outer(readout.mean[1:], readout.mean[1:]) + readout.cov[1:, 1:]
    for i in np.flatnonzero(problem.y == 0.0):
        one_g, k = np.concatenate([[1.0], factor.mean[:, i]]), kernels[:, i]
        variance = one_g @ readout.cov @ one_g + np.sum(weights_square * factor.cov)
        away = factor.mean[:, i] - k @ state.dual.mean
        upsilon = problem.intermediate_precision
        divergence = 0.5 * (
            upsilon * (np.trace(factor.cov) + away @ away)
            - N_KERNELS * (1.0 + np.log(upsilon))
            - np.linalg.slogdet(factor.cov)[1]
        )
        cost += 0.5 * variance + divergence + 0.5 * upsilon * np.trace(k @ state.dual.cov @ k.T)
    return cost


def without_unlabeled(problem, state):
    kept = problem.y != 0.0
    latent = type(state.latent)(*(values[kept] for values in state.latent))
    intermediate = state.intermediate._replace(mean=state.intermediate.mean[:, kept])
    return labeled_part(problem), state._replace(intermediate=intermediate, latent=latent)


@pytest.mark.parametrize("sigma", [1.0, 0.5])
def test_without_margin_unlabeled_samples_cost_what_the_factorization_costs(rng, sigma):
    problem = problem_of(rng, margin=0.0, sigma=sigma)
    state, _ = random_state(rng, problem)
    state = state._replace(latent=label_moments(loc_of(state), problem.y, 0.0))
    difference = bemkl.elbo(*without_unlabeled(problem, state)) - bemkl.elbo(problem, state)
    assert difference == pytest.approx(cost_of_unlabeled(problem, state), rel=1e-10)
    assert difference > 0.1


def test_without_margin_the_highest_bound_is_that_of_the_labeled_samples_or_lower(rng):
    problem = problem_of(rng, 14, margin=0.0)
    part, options = labeled_part(problem), LoopOptions(max_iter=400, tol=1e-10)
    supervised = maximize_elbo(bemkl, part, bemkl.init(part, np.ones(len(part.y))), options)
    fitted = maximize_elbo(bemkl, problem, start_from_labeled(problem, supervised.state), options)
    assert fitted.elbo_history[-1] < supervised.elbo_history[-1] - 0.1


# ------------------------------------------------------------------------------------------- labels of the unlabeled


def test_positive_probability_against_monte_carlo_and_integration(rng):
    problem = problem_of(rng, margin=0.6)
    state, _ = bemkl.sweep(problem, bemkl.init(problem, np.ones(N_SAMPLES)))
    found, loc = positive_probability(problem, state), loc_of(state)
    unlabeled = problem.y == 0.0
    f = loc + rng.normal(size=(400_000, N_SAMPLES))
    for i in np.flatnonzero(unlabeled):  # what lies within the margin is refused
        assert_monte_carlo(f[np.abs(f[:, i]) > 0.6, i] > 0.6, found[i])
    np.testing.assert_array_equal(found[~unlabeled], (problem.y > 0.0)[~unlabeled])
    upper, lower = (stats.norm.sf(0.6, loc=side * loc[unlabeled]) for side in (1.0, -1.0))
    assert_same(found[unlabeled], upper / (upper + lower), SAME_FORMULA)


def test_positive_probability_is_finite_far_in_the_tails(rng):
    problem = problem_of(rng, margin=0.5)
    state, _ = random_state(rng, problem)
    mean = np.zeros((N_KERNELS, N_SAMPLES))
    mean[0, -2:] = -1e4, 1e4
    readout = state.readout._replace(mean=np.array([0.0, 1.0, 0.0, 0.0]))
    state = state._replace(intermediate=state.intermediate._replace(mean=mean), readout=readout)
    problem = problem._replace(y=np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    np.testing.assert_array_equal(positive_probability(problem, state)[2:], [0.5, 0.5, 0.5, 0.0, 1.0])


# ------------------------------------------------------------------------------------------ equivariance, backends


def test_swapped_classes(rng):
    problem = problem_of(rng, 12, margin=0.8)
    options = LoopOptions(max_iter=25, tol=0.0, accelerate=False)
    magnitude = np.abs(rng.normal(size=12))
    state = maximize_elbo(bemkl, problem, bemkl.init(problem, magnitude), options).state
    swapped = problem._replace(y=-problem.y)
    mirrored = maximize_elbo(bemkl, swapped, bemkl.init(swapped, magnitude), options).state
    assert_same(mirrored.latent.mean, -state.latent.mean, 1e-9)
    unlabeled = problem.y == 0.0
    assert_same(
        positive_probability(swapped, mirrored)[unlabeled],
        1.0 - positive_probability(problem, state)[unlabeled],
        1e-9,
    )


def test_start_from_labeled_predicts_the_unlabeled_scores(rng):
    problem = problem_of(rng, 12, margin=0.7)
    part = labeled_part(problem)
    state, _ = bemkl.sweep(part, bemkl.init(part, np.ones(len(part.y))))
    start, labeled = start_from_labeled(problem, state), problem.y != 0.0
    assert_same(start.probe[:, labeled], state.intermediate.mean, 1e-15)
    kernels = np.asarray(problem.stack.kernels)
    assert_same(start.probe[:, ~labeled], (kernels @ state.dual.mean)[:, ~labeled], SAME_FORMULA)
    assert_same(start.pull, reference.pull_of(kernels, start.probe), SAME_FORMULA)
    loc = state.readout.mean[0] + state.readout.mean[1:] @ start.probe
    assert_same(start.latent, label_moments(loc, problem.y, 0.7).mean, SAME_FORMULA)
    rectangular = intermediate_error(
        state.intermediate, part.stack.apply(state.dual.mean), part.gram, state.dual
    )
    loops = reference.g_error(
        kernels[:, labeled], state.dual.mean, state.dual.cov, state.intermediate.mean, state.intermediate.cov
    )
    assert rectangular == pytest.approx(loops, rel=1e-10)  # rows are the labeled samples, columns all of them
