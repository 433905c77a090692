"""Several outputs with one set of kernel weights, classes or targets: updates, limits, prediction, cost."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    SAME_FORMULA,
    SAME_ITERATION,
    assert_monte_carlo,
    assert_same,
    assert_same_factors,
    binary_problem,
    frozen,
    informed_target,
    random_covariance,
    random_kernels,
    random_labels,
    regression_problem,
)
from test_bound import one_output, random_state
from test_sweeps import assert_state, shapes_and_scales

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl import reading as predict
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import kernel_shares, share_draws
from bayesmkl.bemkl.model import Carry, Priors, Problem
from bayesmkl.bemkl.moments import Gamma, Gaussian
from bayesmkl.bemkl.reading import predict_score, predict_scores
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers

pytestmark = pytest.mark.heavy

N_OUTPUTS, N_KERNELS, N_SAMPLES = 3, 4, 9
PLAIN = LoopOptions(max_iter=30, tol=0.0, accelerate=False)
MODELS = pytest.mark.parametrize("model", ["classes", "targets"])
SINGLE = {"classes": bemkl, "targets": bemkl}


def problem_of(model, kernels, y, prior="non-sparse", margin=1.0, sigma=1.0):
    """Return module, problem and deterministic start; `prior` is a name or the priors themselves."""
    stack, y = DenseStack(frozen(kernels)), frozen(y)
    if model == "classes":
        priors = Priors(*BINARY_PRIORS.get(prior, prior) if isinstance(prior, str) else prior)
        problem = Problem(stack, frozen(stack.gram()), y, priors, Labels(margin), 1.0 / sigma**2)
        return bemkl, problem, bemkl.init(problem, np.ones(y.shape[1]))
    priors = Priors(*REGRESSION_PRIORS[prior] if isinstance(prior, str) else prior)
    problem = Problem(stack, frozen(stack.gram()), y, priors, Numbers())
    return bemkl, problem, bemkl.init(problem, np.zeros(y.shape[1]))


def single_problem(model, kernels, y, prior="non-sparse", margin=1.0, sigma=1.0):
    """Return the same for the model of one output."""
    if model == "classes":
        priors = BINARY_PRIORS[prior] if isinstance(prior, str) else prior
        problem = binary_problem(kernels, y, priors, margin, sigma)
        return bemkl, problem, bemkl.init(problem, np.ones(len(y)))
    priors = REGRESSION_PRIORS[prior] if isinstance(prior, str) else prior
    problem = regression_problem(kernels, y, priors)
    return bemkl, problem, bemkl.init(problem, np.zeros(len(y)))


def targets_of(model, rng, kernels, n_outputs=N_OUTPUTS):
    """Return informed targets, or the signs of them around their median."""
    y = np.array([informed_target(rng, kernels) for _ in range(n_outputs)])
    return np.where(y > np.median(y, axis=1, keepdims=True), 1.0, -1.0) if model == "classes" else y


def random_problem(model, rng, prior="non-sparse", n_samples=N_SAMPLES, **options):
    kernels = random_kernels(rng, n_samples, N_KERNELS)
    return problem_of(model, kernels, targets_of(model, rng, kernels), prior, **options)


# -------------------------------------------------------------------------- updates against equations in loops


def random_start(rng, y, kernels):
    """Return a start of both models in which no moment has a special value."""
    n_train, size = kernels.shape[2], N_OUTPUTS + N_KERNELS
    old = reference.OldOutputs(
        a_squared=frozen(rng.uniform(0.2, 2.0, size=(N_OUTPUTS, n_train))),
        G=frozen(rng.normal(size=(N_OUTPUTS, N_KERNELS, y.shape[1]))),
        be=frozen(rng.normal(size=size)),
        be_cov=frozen(random_covariance(rng, size)),
        f=frozen(y * rng.uniform(1.0, 3.0, size=y.shape)),
        upsilon=frozen(rng.uniform(0.5, 2.0, size=N_OUTPUTS)),
        epsilon=frozen(rng.uniform(0.5, 2.0, size=N_OUTPUTS)),
    )
    of_g = frozen([reference.pull_of(kernels, g) for g in old.G]), old.G  # so few samples that all are probed
    none = old.f.reshape(-1)[:0]
    classes = Carry(old.a_squared, none, none, *of_g, old.be, old.be_cov, none, old.f)
    targets = Carry(old.a_squared, old.upsilon, old.epsilon, *of_g, old.be, old.be_cov, none, none)
    return old, {"classes": classes, "targets": targets}


def with_one_covariance(found):
    """Classes share the covariance of q(G): the reference found it once per class."""
    mean, covs = found["G"]
    for cov in covs:
        assert_same(cov, covs[0], SAME_FORMULA)
    return found | {"G": (mean, covs[0])}


@pytest.mark.parametrize("n_train", [N_SAMPLES, 5], ids=["square", "landmarks"])
@pytest.mark.parametrize("prior", BINARY_PRIORS)
@MODELS
def test_sweeps_against_the_equations_in_loops(rng, model, prior, n_train):
    kernels = rng.normal(size=(N_KERNELS, N_SAMPLES, n_train))
    y = np.array([random_labels(rng, N_SAMPLES) for _ in range(N_OUTPUTS)])
    module, problem, _ = problem_of(model, kernels, y, prior, margin=0.7, sigma=1.9)
    old, starts = random_start(rng, y, kernels)
    state, _ = module.sweep(problem, starts[model])
    scales = shapes_and_scales(problem.priors)
    if model == "classes":
        found, _ = reference.multiclass_sweep(kernels, y, 0.7, 1.9, scales, old)
        assert_state(state, with_one_covariance(found), SAME_FORMULA)
    else:
        found, _ = reference.multioutput_sweep(kernels, y, scales, old)
        assert_state(state, found, SAME_FORMULA)


@MODELS
def test_start_agrees_with_the_targets(rng, model):
    _, problem, start = random_problem(model, rng, margin=0.7)
    if model == "classes":
        np.testing.assert_allclose(start.latent, 1.7 * problem.y)
        np.testing.assert_allclose(start.probe, np.repeat(start.latent[:, None], N_KERNELS, axis=1))
    else:
        fitted = start.readout[:N_OUTPUTS, None] + start.readout[N_OUTPUTS:] @ start.probe
        np.testing.assert_allclose(fitted, problem.y)


# -------------------------------------------------------------------------------------------- degenerate cases


@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
@pytest.mark.parametrize("prior", BINARY_PRIORS)
@MODELS
def test_degenerate_one_output_is_the_model_of_one(rng, model, prior, accelerate):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = targets_of(model, rng, kernels, 1)
    module, problem, start = problem_of(model, kernels, y, prior, margin=0.8, sigma=0.6)
    single, alone, alone_start = single_problem(model, kernels, y[0], prior, margin=0.8, sigma=0.6)
    options = PLAIN._replace(accelerate=accelerate, max_iter=12 if accelerate else 30)
    found = maximize_elbo(module, problem, start, options)
    expected = maximize_elbo(single, alone, alone_start, options)
    assert_same(found.elbo_history, expected.elbo_history, 1e-11)
    assert_same_factors(one_output(found.state, 0), expected.state, SAME_ITERATION)
    assert module.elbo(problem, found.state) == pytest.approx(single.elbo(alone, expected.state), rel=1e-11)


@MODELS
def test_degenerate_identical_outputs_share_what_one_has_with_a_weaker_prior(rng, model):
    """C equal outputs: E[e] as of one output with E[ω] / C, its covariance divided by C; all outputs stay equal."""
    n_outputs, kernels = 5, random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = np.repeat(targets_of(model, rng, kernels, 1), n_outputs, axis=0)
    module, problem, start = problem_of(model, kernels, y)
    state, _ = module.sweep(problem, start)
    first = one_output(state, 0)
    design = reference.be_update(
        first.intermediate.mean,
        first.intermediate.cov,
        start.latent[0] if model == "classes" else y[0],
        float(first.intercept_precision.mean),
        first.kernel_precision.mean / n_outputs,
        1.0,
    )
    assert_same(first.readout.mean, design[0], SAME_FORMULA)
    assert_same(first.readout.cov[1:, 1:], design[1][1:, 1:] / n_outputs, SAME_FORMULA)
    result = maximize_elbo(module, problem, start, PLAIN)
    for output in range(1, n_outputs):
        assert_same_factors(one_output(result.state, output), one_output(result.state, 0), SAME_ITERATION)


@MODELS
def test_degenerate_weights_held_at_zero_leave_outputs_that_know_nothing_of_each_other(rng, model):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = targets_of(model, rng, kernels)
    priors = (BINARY_PRIORS if model == "classes" else REGRESSION_PRIORS)["general"]
    priors = priors._replace(kernel=Gamma(1e12, 1.0))
    options = PLAIN._replace(max_iter=100)
    module, problem, start = problem_of(model, kernels, y, priors)
    found = maximize_elbo(module, problem, start, options)
    bounds = []
    for output in range(N_OUTPUTS):
        single, alone, alone_start = single_problem(model, kernels, y[output], priors)
        result = maximize_elbo(single, alone, alone_start, options)
        bounds.append(result.elbo_history[-1])
        state = one_output(found.state, output)
        assert_same(state.readout.mean[0], result.state.readout.mean[0], 1e-6)
        assert_same(state.readout.cov[0, 0], result.state.readout.cov[0, 0], 1e-6)
    assert found.elbo_history[-1] == pytest.approx(sum(bounds), abs=1e-3)


# -------------------------------------------------------------------------------------- prediction and shares


@pytest.fixture
def fitted(rng):
    _, problem, _ = random_problem("targets", rng)
    state, _ = random_state(rng, problem)
    rows = DenseStack(frozen(rng.normal(size=(N_KERNELS, 5, N_SAMPLES))))
    return rows, state, rng.uniform(0.3, 1.0, size=N_OUTPUTS)


def test_scores_of_all_outputs_against_draws_from_the_joint_posterior(rng, fitted):
    rows, state, variances = fitted
    found = predict_scores(rows, state.dual, state.readout, variances)
    be = rng.multivariate_normal(state.readout.mean, state.readout.cov, size=100_000)
    for c, score in enumerate(found):
        a = rng.multivariate_normal(state.dual.mean[c], state.dual.cov[c], size=len(be))
        g = a @ rows.kernels[:, 0].T + np.sqrt(variances[c]) * rng.normal(size=(len(be), N_KERNELS))
        draws = be[:, c] + (be[:, N_OUTPUTS:] * g).sum(axis=1)
        assert_monte_carlo(draws, score.mean[0])
        assert_monte_carlo((draws - score.mean[0]) ** 2, score.variance[0])


@pytest.mark.parametrize("rule", ["full", "paper"])
def test_scores_of_all_outputs_are_those_of_each_with_its_marginals(fitted, rule, monkeypatch):
    rows, state, variances = fitted
    expected = []
    for c in range(N_OUTPUTS):
        one = one_output(state, c)
        expected.append(predict_score(rows, one.dual, one.readout, variances[c], rule))
    for block in (predict.BLOCK_SIZE, 2 * N_KERNELS * N_SAMPLES):
        monkeypatch.setattr(predict, "BLOCK_SIZE", block)
        found = predict_scores(rows, state.dual, state.readout, variances, rule)
        assert_same(found, expected, SAME_FORMULA)
        same_noise = predict_scores(rows, state.dual, state.readout, variances[0], rule)
        assert_same(same_noise[0], expected[0], SAME_FORMULA)


def test_shares_of_one_output_and_of_equal_outputs_are_those_of_the_model_of_one(rng, fitted):
    _, state, _ = fitted
    stack, one = DenseStack(random_kernels(rng, N_SAMPLES, N_KERNELS)), one_output(state, 0)
    expected = kernel_shares(stack, one.dual, one.readout, np.random.default_rng(7))
    stacked = Gaussian(*(np.asarray(field)[None] for field in one.dual))
    found = kernel_shares(stack, stacked, one.readout, np.random.default_rng(7))
    np.testing.assert_array_equal(found, expected)
    dual, weights = one.dual.draw(20, rng), rng.normal(size=(20, N_KERNELS))
    assert_same(share_draws(stack, np.stack([dual] * 4), weights), share_draws(stack, dual, weights), 1e-12)


def test_shares_of_all_outputs_against_the_spread_of_each_part_of_the_scores(rng, fitted):
    _, state, _ = fitted
    stack = DenseStack(random_kernels(rng, N_SAMPLES, N_KERNELS))
    tiny = 1e-18
    duals = state.dual._replace(cov=tiny * state.dual.cov)
    readout = state.readout._replace(cov=tiny * state.readout.cov)
    found, _ = kernel_shares(stack, duals, readout, rng)
    parts = readout.mean[N_OUTPUTS:, None, None] * np.einsum("mij,cj->mci", stack.kernels, duals.mean)
    spread = [np.sqrt(sum(np.var(part) for part in of_kernel) / N_OUTPUTS) for of_kernel in parts]
    assert_same(found, np.array(spread) / np.sum(spread), 1e-7)
    assert found.sum() == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------ learning, and cost


def three_views(rng, n_samples):
    """Return points of three classes that only the first of three views tells apart."""
    labels = np.arange(n_samples) % 3
    views = rng.normal(size=(3, n_samples, 2))
    angle = 2.0 * np.pi * labels / 3.0
    views[0] = 0.4 * views[0] + np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return views, labels


def kernels_between(rows, columns):
    distances = ((rows[:, :, None] - columns[:, None]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * distances)
