"""Samples that lack views: conditional moments, updates, bound, rounds, prediction, coverage, limits."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    SAME_FORMULA,
    SAME_ITERATION,
    arrays_of,
    assert_monte_carlo,
    assert_same,
    assert_same_factors,
    frozen,
    informed_target,
    random_covariance,
    random_kernels,
    step,
)
from scipy import optimize, stats
from scipy.special import ndtri
from test_bound import (
    KINDS,
    bound_draws,
    check_flat,
    check_monotone,
    deviation,
    location_of,
    moves_of_gamma,
    moves_of_normal,
)

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import missing as missing_views
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl import reading as predict
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.bemkl.missing import (
    absent_views,
    em_step,
    fit_with_missing_views,
    posterior_moments,
)
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Gaussian
from bayesmkl.bemkl.outputs import (
    CompletedOutputs,
    ViewMoments,
    completion,
    view_moments,
    view_patterns,
)
from bayesmkl.bemkl.reading import (
    predict_class_scores,
    predict_scores,
)
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Classes, Labels, Numbers

pytestmark = pytest.mark.heavy

N_OUTPUTS, N_KERNELS, N_SAMPLES = 3, 3, 9
MODELS = pytest.mark.parametrize("model", ["labels", "classes", "targets"])
PLAIN = LoopOptions(max_iter=20, tol=0.0, accelerate=False)


def random_present(rng, n_kernels, n_samples, fraction=0.4):
    """Return which sample has which view, at least one each; the first two samples lack something and nothing."""
    present = rng.random((n_kernels, n_samples)) >= fraction
    present[rng.integers(n_kernels, size=n_samples), np.arange(n_samples)] = True
    present[:, 0] = np.arange(n_kernels) == 0
    present[:, 1] = True
    return present


def random_covs(rng, n_kernels=N_KERNELS, n_outputs=N_OUTPUTS):
    return np.array([random_covariance(rng, n_kernels) for _ in range(n_outputs)])


def moments_with(covs, n_train=N_SAMPLES):
    """Return moments of outputs whose kernels need no centering."""
    return ViewMoments(np.zeros((covs.shape[1], n_train)), np.zeros(covs.shape[:2]), covs)


def targets_of(model, rng, kernels, n_outputs):
    y = np.array([informed_target(rng, kernels) for _ in range(n_outputs)])
    if model == "targets":
        return y
    if model == "classes":
        y = y - np.median(y, axis=1, keepdims=True)
        return np.where(y.argmax(axis=0) == np.arange(n_outputs)[:, None], 1.0, -1.0)
    return np.where(y > np.median(y, axis=1, keepdims=True), 1.0, -1.0)


def problem_of(model, kernels, y, present=None, prior="general", margin=0.7, sigma=1.3):
    """Return module, problem and deterministic start; rows and columns of absent views are set to zero."""
    if present is not None:
        kernels = kernels * present[:, :, None] * present[:, None]
    stack, y = DenseStack(frozen(kernels), present), frozen(y)
    if model == "targets":
        problem = Problem(stack, frozen(stack.gram()), y, Priors(*REGRESSION_PRIORS[prior]), Numbers())
        return bemkl, problem, bemkl.init(problem, np.zeros(y.shape[1]))
    outcome = Labels(margin) if model == "labels" else Classes(margin)
    problem = Problem(stack, frozen(stack.gram()), y, BINARY_PRIORS[prior], outcome, 1.0 / sigma**2)
    return bemkl, problem, bemkl.init(problem, np.ones(y.shape[1]))


def deterministic_start(problem):
    """Return the start that `problem_of` returns, of the problem on centered kernels."""
    noise = np.zeros if problem.outcome.has_noise else np.ones
    return bemkl.init(problem, noise(problem.y.shape[1]))


def random_problem(model, rng, n_samples=N_SAMPLES, n_kernels=N_KERNELS, n_outputs=N_OUTPUTS, **options):
    """Return module, problem with given moments, and start."""
    kernels = random_kernels(rng, n_samples, n_kernels)
    y = targets_of(model, rng, kernels, n_outputs)
    present = random_present(rng, n_kernels, n_samples)
    module, problem, start = problem_of(model, kernels, y, present, **options)
    moments = moments_with(random_covs(rng, n_kernels, n_outputs), n_samples)
    size = n_outputs + n_kernels
    noise = rng.uniform(0.5, 2.0, size=n_outputs) if model == "targets" else None
    absent = absent_views(problem, moments, rng.normal(size=size), random_covariance(rng, size), noise)
    assert (absent.excess.max() > 0.1) == (model == "targets")
    return module, problem._replace(absent=absent), start


# --------------------------------------------------------------------------------------- what follows from what


@pytest.mark.parametrize("n_kernels", [1, 2, 3, 6])
def test_absent_views_follow_present_ones_as_the_conditional_normal_distribution_says(rng, n_kernels):
    covs, present = random_covs(rng, n_kernels), random_present(rng, n_kernels, 20)
    patterns, index = view_patterns(present)
    np.testing.assert_array_equal(patterns[index].T, present)
    found = completion(patterns, covs)
    for c, cov in enumerate(covs):
        for number, pattern in enumerate(patterns):
            o, a = np.flatnonzero(pattern), np.flatnonzero(pattern == 0.0)
            g = rng.normal(size=n_kernels)
            expected, spread = g.copy(), np.zeros((n_kernels, n_kernels))
            slope = np.linalg.solve(cov[np.ix_(o, o)], cov[np.ix_(o, a)]).T
            expected[a] = slope @ g[o]
            spread[np.ix_(a, a)] = cov[np.ix_(a, a)] - slope @ cov[np.ix_(o, a)]
            assert_same(found.slope[c, number] @ g, expected, SAME_FORMULA)
            np.testing.assert_allclose(found.cov[c, number], spread, atol=1e-12)
            np.testing.assert_array_equal(found.slope[c, number][:, a], 0.0)


@pytest.mark.parametrize("lacking", [(1,), (0, 2)], ids=["one", "two"])
def test_score_of_an_incomplete_sample_by_quadrature_over_what_it_lacks(rng, lacking):
    """For P = 3 the density of f given the present outputs is the integral over the absent ones."""
    covs, e, b, f = random_covs(rng, n_outputs=1), rng.normal(size=3), 0.3, 0.9
    present = np.ones(3)
    present[list(lacking)] = 0.0
    law, g = completion(present[None], covs), rng.normal(size=3)
    x, excess = law.slope[0, 0] @ g, e @ law.cov[0, 0] @ e
    joint = stats.multivariate_normal(np.zeros(3), covs[0])
    nodes, weights = np.polynomial.legendre.leggauss(120)
    grid = np.meshgrid(*[9.0 * nodes] * len(lacking))
    full = np.repeat(g[None], 120 ** len(lacking), axis=0)
    full[:, list(lacking)] = np.reshape(grid, (len(lacking), -1)).T
    density = joint.pdf(full) * stats.norm.pdf(f, full @ e + b)
    value = density @ reduce(np.multiply.outer, [9.0 * weights] * len(lacking)).ravel()
    kept = [m for m in range(3) if m not in lacking]
    marginal = stats.multivariate_normal(np.zeros(len(kept)), covs[0][np.ix_(kept, kept)])
    expected = marginal.pdf(g[kept]) * stats.norm.pdf(f, e @ x + b, np.sqrt(1.0 + excess))
    assert value == pytest.approx(expected, rel=1e-7)


# --------------------------------------------------------------------------------------------- updates and bound


@MODELS
def test_intermediate_outputs_against_the_equations_sample_by_sample(rng, model):
    module, problem, start = random_problem(model, rng)
    state, _ = module.sweep(problem, start)
    absent, found = problem.absent, state.intermediate
    moment = np.outer(start.readout, start.readout) + start.readout_cov
    square, n = moment[N_OUTPUTS:, N_OUTPUTS:], N_OUTPUTS
    for c, i in np.ndindex(N_OUTPUTS, N_SAMPLES):
        p = absent.pattern[i]
        kept = np.flatnonzero(problem.stack.present[:, i])
        slope = absent.slope[c, p][:, kept]
        if model == "targets":
            upsilon, epsilon, f = start.intermediate_precision[c], start.noise_precision[c], problem.y[c, i]
        else:
            upsilon, epsilon, f = problem.intermediate_precision, 1.0, start.latent[c, i]
        epsilon = epsilon / (1.0 + absent.excess[c, p])
        cov = np.linalg.inv(upsilon * np.eye(len(kept)) + epsilon * slope.T @ square @ slope)
        pull = start.readout[n:] * f - moment[c, n:]
        project = problem.stack.kernels[kept, i] @ state.dual.mean[c]
        mean = cov @ (upsilon * project + epsilon * slope.T @ pull)
        assert_same(found.mean[c, :, i], slope @ mean, SAME_FORMULA)
        assert_same(found.mean[c, kept, i], mean, SAME_FORMULA)
        assert_same(found.cov[c, p], slope @ cov @ slope.T, SAME_FORMULA)
        assert found.log_det[c, p] == pytest.approx(np.linalg.slogdet(cov)[1])


@pytest.mark.parametrize("model", ["labels", "targets"])
def test_bound_after_sweeps_against_monte_carlo(rng, model):
    module, problem, start = random_problem(model, rng)
    state, bound = module.sweep(problem, start)
    for _ in range(2):
        state, bound = step(module, problem, state)
    assert bound == pytest.approx(module.elbo(problem, state), rel=1e-13)
    draws = bound_draws(rng, problem, state, location_of(problem, state), 6000)
    assert deviation(draws, bound) < 4.0
    for wrong in (problem.absent.excess + 2.0, problem.absent.excess * 0.0):  # the weights of scores matter
        if np.array_equal(wrong, problem.absent.excess):
            continue
        moved = state.intermediate._replace(absent=problem.absent._replace(excess=wrong))
        assert deviation(draws, module.elbo(problem, state._replace(intermediate=moved))) > 10.0


@pytest.mark.parametrize("n_problems", [5, pytest.param(100, marks=pytest.mark.slow)])
@MODELS
def test_monotone_bound_on_random_problems(rng, model, n_problems):
    n_gains = 0
    for index in range(n_problems):
        n_samples, n_kernels = int(rng.integers(6, 25)), int(rng.integers(2, 8))
        kernels = random_kernels(rng, n_samples, n_kernels, KINDS[index % len(KINDS)])
        y = targets_of(model, rng, kernels, 3)
        present = random_present(rng, n_kernels, n_samples, rng.choice([0.1, 0.3, 0.6]))
        prior = ["non-sparse", "sparse", "general"][index % 3]
        module, problem, start = problem_of(model, kernels, y, present, prior, float(rng.integers(0, 2)))
        moments = moments_with(random_covs(rng, n_kernels), n_samples)
        noise = start.noise_precision if model == "targets" else None
        absent = absent_views(problem, moments, start.readout, start.readout_cov, noise)
        for accelerate in (False, True):
            options = PLAIN._replace(accelerate=accelerate)
            n_gains += check_monotone(module, problem._replace(absent=absent), start, options)
    assert n_gains > 10 * n_problems


def moved_outputs(intermediate, c, i, kept, shift):
    """Return q(G) with the mean of one sample's present outputs moved."""
    slope = intermediate.absent.slope[c, intermediate.absent.pattern[i]]
    mean = np.array(intermediate.mean)
    mean[c, :, i] += slope[:, kept] @ shift
    return intermediate._replace(mean=mean)


def moved_cov(intermediate, c, p, factor):
    """Return q(G) with the standard deviations of one pattern's outputs multiplied."""
    kept = int(intermediate.absent.present[p].sum())
    cov, log_det = np.array(intermediate.cov), np.array(intermediate.log_det)
    cov[c, p] *= factor**2
    log_det[c, p] += 2.0 * kept * np.log(factor)
    return intermediate._replace(cov=cov, log_det=log_det)


def moves(problem, state):
    """Yield (name, function of the step that returns the moved state)."""
    for field in ("sample_precision", "kernel_precision", "intermediate_precision", "noise_precision"):
        if getattr(state, field) is not None:
            for name, move in moves_of_gamma(getattr(state, field)):
                yield f"{field}.{name}", lambda h, f=field, move=move: state._replace(**{f: move(h)})
    for name, move in moves_of_normal(state.readout):
        yield f"readout.{name}", lambda h, move=move: state._replace(readout=move(h))
    for i in range(problem.stack.n_train):
        unit = np.zeros_like(state.dual.mean)
        unit[1, i] = np.sqrt(state.dual.cov[1, i, i])
        yield (
            f"dual{i}",
            lambda h, u=unit, dual=state.dual: state._replace(dual=dual._replace(mean=dual.mean + h * u)),
        )
        for j, m in enumerate(kept := np.flatnonzero(problem.stack.present[:, i])):
            shift = 0.3 * np.eye(len(kept))[j]
            move = partial(moved_outputs, state.intermediate, 1, i, kept)
            yield (
                f"output{i},{m}",
                lambda h, s=shift, move=move: state._replace(intermediate=move(h * s)),
            )
    for p in range(len(problem.absent.counts)):
        move = partial(moved_cov, state.intermediate, 1, p)
        yield f"spread{p}", lambda h, move=move: state._replace(intermediate=move(np.exp(h)))


@MODELS
def test_bound_is_flat_at_convergence_by_finite_difference(rng, model):
    module, problem, start = random_problem(model, rng, n_samples=7, prior="non-sparse", sigma=0.7)
    state, _ = check_flat(module, problem, start, LoopOptions(max_iter=800, tol=1e-14), moves)
    assert np.abs(state.dual.mean).max() > 0.01


# -------------------------------------------------------------------------------------------------- limits


@MODELS
def test_degenerate_complete_samples_are_the_plain_model(rng, model):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = targets_of(model, rng, kernels, N_OUTPUTS)
    module, problem, start = problem_of(model, kernels, y)
    plain = maximize_elbo(module, problem, start, PLAIN)
    for present in (None, np.ones((N_KERNELS, N_SAMPLES), bool)):
        again = problem._replace(stack=problem.stack._replace(present=present))
        found, _ = fit_with_missing_views(module, again, deterministic_start, PLAIN)
        assert_same(found.elbo_history, plain.elbo_history, SAME_FORMULA)
        assert isinstance(found.state.intermediate, CompletedOutputs)
        for field in plain.state._fields:
            if field != "intermediate":
                expected = getattr(plain.state, field)
                assert_same_factors(getattr(found.state, field), expected, SAME_ITERATION)
        assert_same(found.state.intermediate.mean, plain.state.intermediate.mean, SAME_ITERATION)
        moments = view_moments(found.state)  # of a complete sample: its mean and covariance, and the noise
        values = np.array([problem.stack.apply(a) for a in found.state.dual.mean])
        assert_same(moments.mean, values.mean(axis=2), SAME_ITERATION)
        noise = 1.3**2 if model != "targets" else found.state.intermediate_precision.mean_reciprocal
        for c, cov in enumerate(moments.cov):
            variance = np.broadcast_to(noise, N_OUTPUTS)[c] * np.eye(N_KERNELS)
            assert_same(cov, np.cov(values[c], bias=True) + variance, SAME_ITERATION)


def test_degenerate_view_that_nobody_has_only_makes_scores_less_precise(rng):
    """Uncorrelated with the others and of mean zero: as without it, at noise (1 + ρ) / ε in the place of 1 / ε."""
    kernels = random_kernels(rng, N_SAMPLES, 2)
    y, present = targets_of("targets", rng, kernels, 1), np.ones((2, N_SAMPLES), bool)
    present[1] = False
    module, problem, start = problem_of("targets", kernels, y, present)
    moments = moments_with(np.eye(2)[None])
    absent = absent_views(problem, moments, start.readout, 0.0 * start.readout_cov, np.ones(1))
    np.testing.assert_allclose(absent.excess, 1.0)
    found, _ = module.sweep(problem._replace(absent=absent), start)
    module, alone, _ = problem_of("targets", kernels[:1], y)
    part = np.array([0, 1])
    expected, _ = module.sweep(
        alone,
        start._replace(
            noise_precision=0.5 * start.noise_precision,
            probe=start.probe[:, :1],  # the absent view pulls nothing: its kernel is zero
            readout=start.readout[part],
            readout_cov=start.readout_cov[np.ix_(part, part)],
        ),
    )
    assert_same(found.dual.mean, expected.dual.mean, SAME_FORMULA)
    assert_same(found.intermediate.mean[:, :1], expected.intermediate.mean, SAME_FORMULA)
    assert_same(found.readout.mean[part], expected.readout.mean, SAME_FORMULA)
    assert found.readout.mean[2] == 0.0


def test_equivariance_under_permuted_samples_and_kernels(rng):
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = targets_of("labels", rng, kernels, 2)
    present = random_present(rng, N_KERNELS, N_SAMPLES)
    samples, order = rng.permutation(N_SAMPLES), rng.permutation(N_KERNELS)
    options = LoopOptions(max_iter=60)
    module, problem, _ = problem_of("labels", kernels, y, present)
    found, _ = fit_with_missing_views(module, problem, deterministic_start, options)
    module, problem, _ = problem_of(
        "labels", kernels[np.ix_(order, samples, samples)], y[:, samples], present[np.ix_(order, samples)]
    )
    moved, _ = fit_with_missing_views(module, problem, deterministic_start, options)
    assert moved.n_iter == found.n_iter
    assert_same(moved.elbo_history, found.elbo_history, 1e-7)
    assert_same(moved.state.dual.mean, found.state.dual.mean[:, samples], 1e-5)
    assert_same(moved.state.readout.mean[2:], found.state.readout.mean[2:][order], 1e-5)
    assert_same(view_moments(moved.state).cov, view_moments(found.state).cov[:, order[:, None], order], 1e-5)


# ------------------------------------------------------------------------------------------- learning the moments


def log_likelihood(values, present, noise, cov):
    """Log density of the present values with their noise, averaged over it, up to a constant."""
    total = 0.0
    for i in range(values.shape[1]):
        o = np.flatnonzero(present[:, i])
        law = stats.multivariate_normal(np.zeros(len(o)), cov[np.ix_(o, o)])
        total += law.logpdf(values[o, i]) - 0.5 * noise * np.trace(np.linalg.inv(cov[np.ix_(o, o)]))
    return total


def test_moments_are_the_maximum_of_the_likelihood_of_what_is_present(rng):
    present, noise = random_present(rng, 2, 40), 0.3
    values, covs = np.array([[1.0, 0.0], [0.8, 0.5]]) @ rng.normal(size=(2, 40)), np.eye(2)[None]
    bounds = []
    for n_steps in (1, 1, 1, 5, 200):
        for _ in range(n_steps):
            covs = em_step(np.where(present, values, 77.0)[None], present, np.array([noise]), covs)
        bounds.append(log_likelihood(values, present, noise, covs[0]))
    assert (np.diff(bounds) > 0.0).all()

    def negative(point):
        root = np.array([[np.exp(point[0]), 0.0], [point[1], np.exp(point[2])]])
        return -log_likelihood(values, present, noise, root @ root.T)

    root = np.linalg.cholesky(covs[0])
    point = np.array([np.log(root[0, 0]), root[1, 0], np.log(root[1, 1])])
    assert negative(point) == pytest.approx(-bounds[-1], rel=1e-12)
    assert np.abs(optimize.approx_fprime(point, negative, 1e-6)).max() < 1e-3
    assert all(negative(point + 0.2 * step) > negative(point) for step in rng.normal(size=(10, 3)))


def test_incomplete_kernels_are_centered_on_the_samples_that_have_the_view(rng):
    """A constant added to the rows of a view changes nothing but the intercept, in training and for new samples."""
    kernels = random_kernels(rng, 20, 2)
    y, present = targets_of("targets", rng, kernels, 1), random_present(rng, 2, 20)
    shift = rng.normal(size=(2, 1, 20))
    rows = random_kernels(rng, 20, 2)[:, :6]
    found = []
    for added in (0.0, shift):
        module, problem, _ = problem_of("targets", kernels + added, y, present)
        stack = problem.stack._replace(kernels=(kernels + added) * present[:, :, None])
        problem, options = problem._replace(stack=stack, gram=stack.gram()), LoopOptions(max_iter=100)
        state = fit_with_missing_views(module, problem, deterministic_start, options)[0].state
        for has in (None, present[:, :6]):
            new = DenseStack(rows + added if has is None else (rows + added) * has[:, :, None], has)
            noise = state.intermediate_precision.mean_reciprocal
            scores = predict_scores(new, state.dual, state.readout, noise, moments=view_moments(state))
            found.append(np.array(scores[0]))
        assert np.abs(problem.stack.kernels).max() > 0.5
    assert_same(found[2], found[0], 1e-6)
    assert_same(found[3], found[1], 1e-6)


@pytest.mark.parametrize("model", ["labels", "targets"])
def test_rounds_end_at_their_fixed_point(rng, model):
    kernels = random_kernels(rng, 20, 3)
    y = targets_of(model, rng, kernels, 2)
    module, problem, _ = problem_of(model, kernels, y, random_present(rng, 3, 20, 0.3), "non-sparse")
    seen = []
    result, problem = fit_with_missing_views(
        module, problem, deterministic_start, LoopOptions(), lambda n, elbo: seen.append(n)
    )
    assert result.outcome is Outcome.CONVERGED
    assert seen == list(range(1, result.n_iter + 1))
    assert len(result.elbo_history) < result.n_iter
    assert (np.diff(result.elbo_history) > -1e-9 * np.abs(result.elbo_history[1:])).all()
    assert module.elbo(problem, result.state) == pytest.approx(result.elbo_history[-1], rel=1e-12)
    state, absent = result.state, problem.absent
    again = posterior_moments(problem, state, absent.moments)
    assert_same(again.cov, absent.moments.cov, 0.01)
    np.testing.assert_array_equal(again.mean, 0.0)
    assert_same(problem.gram, problem.stack.gram(), SAME_FORMULA)
    sums = (problem.stack.kernels * problem.stack.present[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)
    noise = state.noise_precision.mean if model == "targets" else None
    follows = absent_views(problem, again, state.readout.mean, state.readout.cov, noise)
    assert np.abs(np.log((1 + follows.excess) / (1 + absent.excess))).max() < 1.1 * missing_views.SETTLED
    assert np.abs(follows.slope - absent.slope).max() < 1.1 * missing_views.SETTLED


def test_rounds_share_the_sweeps_and_say_when_they_have_not_settled(rng):
    kernels = random_kernels(rng, 20, 3)
    y = targets_of("targets", rng, kernels, 1)
    module, problem, _ = problem_of("targets", kernels, y, random_present(rng, 3, 20))
    for options in (LoopOptions(max_iter=12), LoopOptions(max_iter=33, tol=0.0), LoopOptions(max_iter=1)):
        result, _ = fit_with_missing_views(module, problem, deterministic_start, options)
        assert result.n_iter == options.max_iter
        assert result.outcome is Outcome.MAX_ITER


# ------------------------------------------------------------------------------------ NumPy against JAX, weights


@pytest.mark.parametrize(
    "model", ["targets", *(pytest.param(name, marks=pytest.mark.slow) for name in ("labels", "classes"))]
)
def test_numpy_and_jax_agree_after_twenty_sweeps(rng, model):
    module, problem, start = random_problem(model, rng, n_outputs=2)
    with_numpy, with_jax = (
        maximize_elbo(module, problem, start, PLAIN._replace(backend=backend)) for backend in ("numpy", "jax")
    )
    assert_same_factors(with_jax.state, with_numpy.state, 1e-9)
    np.testing.assert_allclose(with_jax.elbo_history, with_numpy.elbo_history, rtol=1e-9)
    assert all(type(array) is np.ndarray for _, array in arrays_of(with_jax.state))


# --------------------------------------------------------------------------------------------------- prediction


@pytest.fixture
def fitted(rng):
    """Rows that lack views, posterior factors, moments and noise, none of them an optimum."""
    rows = DenseStack(rng.normal(size=(N_KERNELS, 6, N_SAMPLES)), random_present(rng, N_KERNELS, 6))
    rows = rows._replace(kernels=rows.kernels * rows.present[:, :, None])
    covs = np.array([random_covariance(rng, N_SAMPLES, 0.2) for _ in range(N_OUTPUTS)])
    duals = Gaussian.from_moments(rng.normal(size=(N_OUTPUTS, N_SAMPLES)), covs)
    size = N_OUTPUTS + N_KERNELS
    readout = Gaussian.from_moments(rng.normal(size=size), random_covariance(rng, size, 0.3))
    center, mean = rng.normal(size=(N_KERNELS, N_SAMPLES)), rng.normal(size=(N_OUTPUTS, N_KERNELS))
    moments = ViewMoments(center, mean, random_covs(rng))
    return rows, duals, readout, moments, rng.uniform(0.3, 1.0, size=N_OUTPUTS)


def test_scores_of_incomplete_samples_against_draws(rng, fitted):
    rows, duals, readout, moments, noise = fitted
    found = predict_scores(rows, duals, readout, noise, moments=moments)
    be = rng.multivariate_normal(readout.mean, readout.cov, size=40_000)
    for c, score in enumerate(found):
        a = rng.multivariate_normal(duals.mean[c], duals.cov[c], size=len(be))
        for i in (0, 1, 4):
            o, missing = (np.flatnonzero(rows.present[:, i] == value) for value in (True, False))
            g = np.empty((len(be), N_KERNELS))
            g[:, o] = a @ (rows.kernels[o, i] - moments.center[o]).T + np.sqrt(noise[c]) * rng.normal(
                size=(len(be), len(o))
            )
            mu, cov = moments.mean[c], moments.cov[c]
            slope = np.linalg.solve(cov[np.ix_(o, o)], cov[np.ix_(o, missing)]).T
            spread = cov[np.ix_(missing, missing)] - slope @ cov[np.ix_(o, missing)]
            if len(missing):
                errors = rng.multivariate_normal(np.zeros(len(missing)), spread, size=len(be))
                g[:, missing] = mu[missing] + (g[:, o] - mu[o]) @ slope.T + errors
            draws = be[:, c] + (be[:, N_OUTPUTS:] * g).sum(axis=1)
            assert_monte_carlo(draws, score.mean[i])
            assert_monte_carlo((draws - score.mean[i]) ** 2, score.variance[i])


@pytest.mark.parametrize("rule", ["full", "paper"])
def test_complete_rows_are_predicted_as_without_moments(fitted, rule, monkeypatch):
    rows, duals, readout, moments, noise = fitted
    complete = DenseStack(rows.kernels[:, 1:2] - moments.center[:, None])
    expected = predict_scores(complete, duals, readout, noise, rule)
    monkeypatch.setattr(predict, "BLOCK_SIZE", 2 * N_KERNELS * N_SAMPLES)
    found = predict_scores(rows, duals, readout, noise, rule, moments=moments)
    for one, other in zip(found, expected, strict=True):
        assert_same(one.mean[1:2], other.mean, SAME_FORMULA)
        assert_same(one.variance[1:2], other.variance, SAME_FORMULA)
    full = predict_scores(rows, duals, readout, noise, "full", moments=moments)
    assert all((a.variance <= b.variance).all() for a, b in zip(found, full, strict=True))


def test_class_probabilities_of_incomplete_samples_against_draws(rng, fitted):
    rows, duals, readout, moments, _ = fitted
    readout = Gaussian.from_moments(readout.mean, 0.2 * readout.cov)
    scores = predict_class_scores(rows, duals, readout, 0.7, moments=moments)
    probabilities = np.exp(scores.log_class_probabilities(0.0))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    for i in range(rows.n_rows):
        cov = scores.common[i] + np.diag(1.0 + scores.variance[:, i])
        f = rng.multivariate_normal(scores.mean[:, i], cov, size=40_000)
        wins = np.bincount(f.argmax(axis=1), minlength=N_OUTPUTS) / len(f)
        assert np.abs(wins - probabilities[i]).max() < 0.02
    joint = predict_scores(rows, duals, readout, 0.7, moments=moments)
    total = scores.variance + np.diagonal(scores.common, axis1=1, axis2=2).T
    assert_same(total, np.array([score.variance for score in joint]), 1e-10)


def test_shares_come_from_the_samples_that_have_a_view(rng):
    present = random_present(rng, N_KERNELS, 12)
    kernels = random_kernels(rng, 12, N_KERNELS) * present[:, :, None]
    dual, weights = rng.normal(size=(5, 12)), rng.normal(size=(5, N_KERNELS))
    found = share_draws(DenseStack(kernels, present), dual, weights)
    spread = [
        [abs(e) * np.std(kernel[has] @ a) for e, kernel, has in zip(draw, kernels, present, strict=True)]
        for a, draw in zip(dual, weights, strict=True)
    ]
    assert_same(found, spread / np.sum(spread, axis=1, keepdims=True), SAME_FORMULA)


# ------------------------------------------------------------------------------------------------ bad input


def test_samples_without_any_view_are_refused(rng, fitted):
    rows, duals, readout, moments, noise = fitted
    present = rows.present.copy()
    present[:, 3] = False
    with pytest.raises(ValueError, match=r"`X` .* 1 of 6 have none, the first at index 3"):
        predict_scores(rows._replace(present=present), duals, readout, noise, moments=moments)
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    present = np.ones((N_KERNELS, N_SAMPLES), bool)
    present[:, [2, 5]] = False
    y = targets_of("targets", rng, kernels, 1)
    module, problem, _ = problem_of("targets", kernels, y, present)
    with pytest.raises(ValueError, match=r"2 of 9 have none, the first at index 2. Drop"):
        fit_with_missing_views(module, problem, deterministic_start, PLAIN)


# ---------------------------------------------------------------------------------------- coverage and accuracy


def views_of(rng, n_samples, n_views, shared=0.8):
    """Return views of two columns each, correlated through what they have in common."""
    common = rng.normal(size=(n_samples, 2))
    own = rng.normal(size=(n_views, n_samples, 2))
    return shared * common + np.sqrt(1.0 - shared**2) * own


def kernels_between(rows, columns, rows_present, columns_present):
    distances = ((rows[:, :, None] - columns[:, None]) ** 2).sum(axis=-1)
    return np.exp(-distances / 8.0) * rows_present[:, :, None] * columns_present[:, None]


def coverage(rng, fraction, n_train=50, n_test=200, level=0.94):
    """Fit a simulated regression, and return which new targets their intervals cover, and the widths of these."""
    train, test = views_of(rng, n_train, 3), views_of(rng, n_test, 3)
    directions = rng.normal(size=(3, 2))
    y, new = (
        np.einsum("m,mnd,md->n", [1.0, 0.7, 0.4], np.sin(views), directions)
        + 0.4 * rng.normal(size=len(views[0]))
        for views in (train, test)
    )
    y, new = (y - y.mean()) / y.std(), (new - y.mean()) / y.std()
    present = random_present(rng, 3, n_train, fraction), random_present(rng, 3, n_test, fraction)
    stack = DenseStack(kernels_between(train, train, present[0], present[0]), present[0])
    problem = Problem(stack, stack.gram(), y[None], Priors(), Numbers())
    options = LoopOptions(tol=1e-5)
    result, _ = fit_with_missing_views(bemkl, problem, deterministic_start, options)
    state, rows = result.state, DenseStack(kernels_between(test, train, present[1], present[0]), present[1])
    noise = state.intermediate_precision.mean_reciprocal
    (score,) = predict_scores(rows, state.dual, state.readout, noise, moments=view_moments(state))
    width = ndtri(0.5 + level / 2.0) * np.sqrt(score.variance + state.noise_precision.mean_reciprocal)
    complete = present[1].all(axis=0)
    return np.abs(new - score.mean) < width, (width[complete].mean(), width[~complete].mean())


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.5])
def test_coverage_stays_nominal_and_intervals_widen_as_views_go_missing(rng, fraction):
    found = [coverage(rng, fraction) for _ in range(3)]
    assert 0.90 < np.mean([inside for inside, _ in found]) < 0.99
    complete, incomplete = np.mean([widths for _, widths in found], axis=0)
    assert incomplete > 1.1 * complete
