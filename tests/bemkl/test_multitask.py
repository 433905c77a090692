"""Tasks with related kernel weights: equations, limits, NumPy against JAX, prediction, recovery."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    SAME_FORMULA,
    TaskPriors,
    assert_monte_carlo,
    assert_same,
    binary_problem,
    frozen,
    informed_target,
    label_task,
    random_kernels,
    regression_problem,
    step,
    target_task,
)

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl import multitask
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Gamma, Gaussian, readout_design, readout_target
from bayesmkl.bemkl.multitask import (
    influence_of_tasks,
    task_evidence,
    update_task_readouts,
)
from bayesmkl.bemkl.reading import predict_score
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers

pytestmark = pytest.mark.heavy

N_KERNELS, N_SAMPLES = 3, 8
PLAIN = LoopOptions(max_iter=30, tol=0.0, accelerate=False)
KINDS = pytest.mark.parametrize("kind", ["labels", "targets"])
PRIORS = {
    "non-sparse": TaskPriors(),
    "sparse": TaskPriors(kernel=Gamma(1e-10, 1e-10)),
    "general": TaskPriors(
        Gamma(1.3, 0.7), Gamma(0.6, 2.1), Gamma(2.2, 0.4), Gamma(1.4, 0.6), Gamma(3.1, 1.7), Gamma(0.8, 0.3)
    ),
}


def predict_task(problem, state, t, rows, rule="full"):
    """Score new samples in one task by its own marginals."""
    task, one = problem.tasks[t], state.tasks[t]
    learned = one.intermediate_precision
    variance = 1.0 / task.intermediate_precision if learned is None else learned.mean_reciprocal
    return predict_score(rows, one.dual, state.readout.marginals[t], variance, rule)


def held(value):
    """Return a prior that leaves a precision no choice."""
    return Gamma(1e10, 1e10 / value)


def labels_of(y):
    return np.where(y > np.median(y), 1.0, -1.0)


def task_of(kind, kernels, y, margin=0.7, sigma=0.8):
    stack = DenseStack(frozen(kernels))
    if kind == "labels":
        return label_task(stack, y, margin, 1.0 / sigma**2)
    return target_task(stack, y)


def start_of(problem):
    """Return the deterministic start."""
    noise = [float(not task.outcome.has_noise) * np.ones(len(task.y)) for task in problem.tasks]
    return multitask.init(problem, np.concatenate(noise))


def random_task(rng, kind, n_samples=N_SAMPLES, n_kernels=N_KERNELS, family="smooth"):
    kernels = random_kernels(rng, n_samples, n_kernels, family)
    y = informed_target(rng, kernels)
    return task_of(kind, kernels, labels_of(y) if kind == "labels" else y)


def random_problem(rng, kinds=("labels", "targets", "labels"), prior="non-sparse", sizes=None):
    """Return tasks of both kinds and of different sizes, with their start."""
    sizes = sizes or [N_SAMPLES - 2 * (t % 2) for t in range(len(kinds))]
    tasks = tuple(random_task(rng, kind, size) for kind, size in zip(kinds, sizes, strict=True))
    priors = PRIORS[prior] if isinstance(prior, str) else prior
    problem = priors.problem_of(tasks)
    return problem, start_of(problem)


def fit_alone(task, priors, kernel, options):
    """Fit the model of one task with the prior `kernel` on ω."""
    kernels = task.stack.kernels
    if not task.outcome.has_noise:
        own = Priors(priors.sample, priors.intercept, kernel)
        problem = binary_problem(
            kernels, task.y, own, task.outcome.margin, float(task.intermediate_precision) ** -0.5
        )
        return maximize_elbo(bemkl, problem, bemkl.init(problem, np.ones(len(task.y))), options)
    values = priors._replace(kernel=kernel)._asdict()
    own = Priors(*(values[name] for name in Priors._fields))
    problem = regression_problem(kernels, task.y, own)
    return maximize_elbo(bemkl, problem, bemkl.init(problem, np.zeros(len(task.y))), options)


def assert_same_task(state, task, alone, tolerance):
    """Compare one task of a multitask posterior with the posterior of a model of its own."""
    one, readout = state.tasks[task], state.readout.marginals[task]
    assert_same(one.dual.mean, alone.dual.mean, tolerance, "E[a]")
    assert_same(one.dual.cov, alone.dual.cov, tolerance, "Cov[a]")
    assert_same(one.intermediate.mean, alone.intermediate.mean, tolerance, "E[G]")
    assert_same(one.intermediate.cov, alone.intermediate.cov, tolerance, "Cov[G]")
    assert_same(readout.mean, alone.readout.mean, tolerance, "E[b, e]")
    assert_same(readout.cov, alone.readout.cov, tolerance, "Cov[b, e]")
    for name in ("latent", "intermediate_precision", "noise_precision"):
        if getattr(alone, name) is not None:
            assert_same(getattr(one, name).mean, getattr(alone, name).mean, tolerance, name)


# ------------------------------------------------------------------------- the joint update against one big matrix


def joint_precision(design, target, gamma, omega, tau):
    """Return precision and linear term of (e, b_1, e_1, .., b_T, e_T), written out."""
    n_tasks, size = target.shape
    n_kernels = size - 1
    precision = np.zeros((n_kernels + n_tasks * size,) * 2)
    linear = np.concatenate([np.zeros(n_kernels), target.reshape(-1)])
    precision[:n_kernels, :n_kernels] = np.diag(omega) + n_tasks * tau * np.eye(n_kernels)
    for t in range(n_tasks):
        b = n_kernels + t * size
        block = slice(b, b + size)
        precision[block, block] = design[t] + np.diag([gamma[t], *[tau] * n_kernels])
        for m in range(n_kernels):
            precision[m, b + 1 + m] = precision[b + 1 + m, m] = -tau
    return precision, linear


def random_evidence(rng, n_tasks=4):
    size = 1 + N_KERNELS
    roots = rng.normal(size=(n_tasks, size, 3 * size))
    design = roots @ roots.transpose(0, 2, 1)
    return design, rng.normal(size=(n_tasks, size)), rng.uniform(0.5, 2.0, size=n_tasks)


@pytest.mark.parametrize("tau", [1e-3, 1.0, 1e3])
def test_readouts_against_the_inverse_of_the_joint_precision(rng, tau):
    design, target, gamma = random_evidence(rng)
    omega = rng.uniform(0.1, 3.0, size=N_KERNELS)
    found = update_task_readouts(task_evidence(design, target, gamma), omega, tau)
    precision, linear = joint_precision(design, target, gamma, omega, tau)
    cov = np.linalg.inv(precision)
    mean = cov @ linear
    tolerance = 1e-8  # of the inverse: the precision's condition number grows with τ
    assert_same(found.common.mean, mean[:N_KERNELS], tolerance)
    assert_same(found.common.cov, cov[:N_KERNELS, :N_KERNELS], tolerance)
    distance, size = 0.0, 1 + N_KERNELS
    for t in range(len(target)):
        b = N_KERNELS + t * size
        assert_same(found.mean[t], mean[b : b + size], tolerance)
        assert_same(found.cov[t], cov[b : b + size, b : b + size], tolerance)
        assert_same(found.slope[t] @ found.common.cov, cov[b : b + size, :N_KERNELS], tolerance)
        for m in range(N_KERNELS):
            i = b + 1 + m
            distance += (mean[i] - mean[m]) ** 2 + cov[i, i] + cov[m, m] - 2.0 * cov[i, m]
    assert found.distance == pytest.approx(distance, rel=1e-6)
    joint = Gaussian.from_moments(mean, cov)
    assert found.entropy == pytest.approx(joint.entropy, rel=1e-9)


def test_information_of_a_task_is_that_of_its_own_weights_with_the_spread_added(rng):
    evidence = task_evidence(*random_evidence(rng))
    own = evidence.weights_matrix(evidence.values)
    for tau in (1e-6, 1.0, 1e6):
        expected = np.linalg.inv(np.linalg.inv(own) + np.eye(N_KERNELS) / tau)
        assert_same(evidence.information(tau), expected, 1e-9)
    assert_same(evidence.information(1e300), own, 1e-12)


def test_sweep_sets_every_factor_by_the_equations(rng):
    """λ, a, G, γ as in the models of one task, ω, τ and the weights from formulas, f, υ, ε as in those models."""
    problem, start = random_problem(rng, prior="general")
    before, _ = multitask.sweep(problem, start)
    here = multitask.carry(problem, before)
    state, _ = step(multitask, problem, before)
    priors, designs, targets = TaskPriors.of(problem), [], []
    for t, task in enumerate(problem.tasks):
        old, one = before.tasks[t], state.tasks[t]
        labeled = not task.outcome.has_noise
        epsilon = 1.0 if labeled else old.noise_precision.mean
        latent = old.latent.mean if labeled else task.y
        upsilon = task.intermediate_precision if labeled else old.intermediate_precision.mean
        sample = (priors.sample.concentration + 0.5) / (priors.sample.rate + 0.5 * old.dual.square)
        cov = np.linalg.inv(np.diag(sample) + upsilon * sum(k.T @ k for k in task.stack.kernels))
        pull = sum(k.T @ g for k, g in zip(task.stack.kernels, old.intermediate.mean, strict=True))
        assert_same(one.dual.cov, cov, SAME_FORMULA)
        assert_same(one.dual.mean, upsilon * cov @ pull, SAME_FORMULA)
        readout = before.readout.marginals[t]
        moment = np.outer(readout.mean, readout.mean) + readout.cov
        cov = np.linalg.inv(upsilon * np.eye(N_KERNELS) + epsilon * moment[1:, 1:])
        pull = np.outer(readout.mean[1:], latent) - moment[1:, :1]
        mean = cov @ (upsilon * task.stack.kernels @ one.dual.mean + epsilon * pull)
        assert_same(one.intermediate.mean, mean, SAME_FORMULA)
        square = readout.mean[0] ** 2 + readout.cov[0, 0]
        assert one.intercept_precision.rate == pytest.approx(priors.intercept.rate + 0.5 * square)
        designs.append(epsilon * readout_design(one.intermediate))
        targets.append(epsilon * readout_target(one.intermediate, latent))
    omega, tau = state.kernel_precision, state.task_precision
    assert_same(omega.rate, priors.kernel.rate + 0.5 * before.readout.common.square, SAME_FORMULA)
    assert tau.rate == pytest.approx(priors.task.rate + 0.5 * here.distance)
    assert tau.concentration == priors.task.concentration + 0.5 * N_KERNELS * len(problem.tasks)
    gamma = np.array([one.intercept_precision.mean for one in state.tasks])
    precision, linear = joint_precision(np.array(designs), np.array(targets), gamma, omega.mean, tau.mean)
    mean = np.linalg.solve(precision, linear)
    assert_same(state.readout.common.mean, mean[:N_KERNELS], 1e-9)
    assert_same(state.readout.mean.reshape(-1), mean[N_KERNELS:], 1e-9)


# ------------------------------------------------------------------------------------------------------- limits


@KINDS
def test_limit_of_shared_weights_is_the_model_of_several_outputs(rng, kind):
    """All tasks have the same samples, and τ is held far above what they could tell."""
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    y = np.array([informed_target(rng, kernels) for _ in range(3)])
    y = np.array([labels_of(row) for row in y]) if kind == "labels" else y
    priors = PRIORS["general"]._replace(task=held(1e9))
    problem = priors.problem_of([task_of(kind, kernels, row) for row in y])
    found = maximize_elbo(multitask, problem, start_of(problem), PLAIN)
    stack, values = problem.tasks[0].stack, priors._asdict()
    own, gram = Priors(*(values[name] for name in Priors._fields)), problem.tasks[0].gram
    if kind == "labels":
        shared = Problem(stack, gram, y, own, Labels(0.7), 1.0 / 0.8**2)
        start = bemkl.init(shared, np.ones(N_SAMPLES))
    else:
        shared = Problem(stack, gram, y, own, Numbers())
        start = bemkl.init(shared, np.zeros(N_SAMPLES))
    expected = maximize_elbo(bemkl, shared, start, PLAIN)
    state = found.state
    assert_same(state.readout.common.mean, expected.state.readout.mean[3:], 1e-6)
    assert_same(state.readout.common.cov, expected.state.readout.cov[3:, 3:], 1e-6)
    assert_same(state.readout.mean[:, 0], expected.state.readout.mean[:3], 1e-6)
    for t in range(3):
        assert_same(state.readout.mean[t, 1:], state.readout.common.mean, 1e-6)
        assert_same(state.readout.cov[t, 1:, 1:], state.readout.common.cov, 1e-6)
        assert_same(state.tasks[t].dual.mean, expected.state.dual.mean[t], 1e-6)
    # the first sweep still has the spread of the start
    np.testing.assert_allclose(found.elbo_history[1:], expected.elbo_history[1:], atol=1e-3)


def test_limit_of_separate_weights_is_the_models_of_one_task(rng):
    """With e held at zero the tasks know nothing of each other, and τ is the precision of all their weights."""
    tau = 0.4
    priors = PRIORS["general"]._replace(kernel=held(1e10), task=held(tau))
    problem, start = random_problem(rng, prior=priors)
    found = maximize_elbo(multitask, problem, start, PLAIN)
    alone = [fit_alone(task, priors, held(tau), PLAIN) for task in problem.tasks]
    for t, result in enumerate(alone):
        assert_same_task(found.state, t, result.state, 1e-6)
    expected = sum(result.elbo_history for result in alone)
    np.testing.assert_allclose(found.elbo_history[1:], expected[1:], atol=1e-3)


@KINDS
def test_one_task_is_the_model_of_one_task(rng, kind):
    """e_1 ~ N(0, 1/ω + 1/τ): the precision of the model of one is the harmonic sum."""
    omega, tau = 0.7, 1.9
    priors = PRIORS["general"]._replace(kernel=held(omega), task=held(tau))
    problem, start = random_problem(rng, (kind,), priors)
    found = maximize_elbo(multitask, problem, start, PLAIN)
    alone = fit_alone(problem.tasks[0], priors, held(1.0 / (1.0 / omega + 1.0 / tau)), PLAIN)
    assert_same_task(found.state, 0, alone.state, 1e-6)
    np.testing.assert_allclose(found.elbo_history[1:], alone.elbo_history[1:], atol=1e-3)
    # with ω learned, the limit of shared weights
    priors = PRIORS["general"]._replace(task=held(1e9))
    problem = priors.problem_of(problem.tasks)
    found = maximize_elbo(multitask, problem, start, PLAIN)
    alone = fit_alone(problem.tasks[0], priors, priors.kernel, PLAIN)
    assert_same_task(found.state, 0, alone.state, 1e-6)
    assert_same(found.state.kernel_precision.rate, alone.state.kernel_precision.rate, 1e-6)


def test_numpy_and_jax_agree_after_thirty_sweeps(rng):
    problem, start = random_problem(rng, ("labels", "targets"), "general", sizes=[9, 6])
    with_numpy, with_jax = (
        maximize_elbo(multitask, problem, start, PLAIN._replace(backend=backend))
        for backend in ("numpy", "jax")
    )
    np.testing.assert_allclose(with_jax.elbo_history, with_numpy.elbo_history, rtol=1e-9)
    carries = (multitask.carry(problem, result.state) for result in (with_jax, with_numpy))
    for found, expected in zip(*carries, strict=True):
        assert type(found) in (np.ndarray, np.float64)
        assert_same(found, expected, 1e-9)


# ------------------------------------------------------------------------------------- prediction, shares, report


def test_predictions_against_draws_from_the_joint_posterior(rng):
    """Draws of e first, then of every task's (b_t, e_t) given e."""
    problem, start = random_problem(rng)
    state = maximize_elbo(multitask, problem, start, PLAIN).state
    readout, n_draws = state.readout, 100_000
    e = rng.multivariate_normal(readout.common.mean, readout.common.cov, size=n_draws)
    apart = 0.0
    for t, task in enumerate(problem.tasks):
        noise = rng.multivariate_normal(np.zeros(1 + N_KERNELS), readout.given.cov[t], size=n_draws)
        be = readout.given.mean[t] + (e - readout.common.mean) @ readout.slope[t].T + noise
        apart = apart + ((be[:, 1:] - e) ** 2).sum(axis=1)
        rows = DenseStack(rng.normal(size=(N_KERNELS, 2, len(task.y))))
        one = state.tasks[t]
        a = rng.multivariate_normal(one.dual.mean, one.dual.cov, size=n_draws)
        if not task.outcome.has_noise:
            upsilon = task.intermediate_precision
        else:
            law = one.intermediate_precision
            upsilon = rng.gamma(law.concentration, 1.0 / law.rate, size=(n_draws, 1))
        g = a @ rows.kernels[:, 0].T + rng.normal(size=(n_draws, N_KERNELS)) / np.sqrt(upsilon)
        draws = be[:, 0] + (be[:, 1:] * g).sum(axis=1)
        score = predict_task(problem, state, t, rows)
        assert_monte_carlo(draws, score.mean[0], f"mean of task {t}")
        assert_monte_carlo((draws - score.mean[0]) ** 2, score.variance[0], f"variance of task {t}")
        narrow = predict_task(problem, state, t, rows, "paper")
        assert_same(narrow.mean, score.mean, 1e-12)
        assert (narrow.variance < score.variance).all()
    assert_monte_carlo(apart, readout.distance, "distance")


def test_common_weights_are_the_precision_weighted_mean_of_the_tasks_own(rng):
    kinds, sizes = ("targets", "labels", "targets"), [6, 20, 9]
    problem, start = random_problem(rng, kinds, PRIORS["general"]._replace(task=Gamma(2.0, 0.5)), sizes)
    state = maximize_elbo(multitask, problem, start, LoopOptions(max_iter=3000, tol=1e-14)).state
    found, tau = state.readout.common, float(state.task_precision.mean)
    total, pull, parts = np.diag(state.kernel_precision.mean), np.zeros(N_KERNELS), []
    for task, one in zip(problem.tasks, state.tasks, strict=True):
        labeled = not task.outcome.has_noise
        epsilon = 1.0 if labeled else one.noise_precision.mean
        precision = epsilon * readout_design(one.intermediate)
        precision[0, 0] += one.intercept_precision.mean
        target = epsilon * readout_target(one.intermediate, one.latent.mean if labeled else task.y)
        alone = np.linalg.solve(precision, target)[1:]
        parts.append(np.linalg.inv(np.linalg.inv(precision)[1:, 1:] + np.eye(N_KERNELS) / tau))
        total, pull = total + parts[-1], pull + parts[-1] @ alone
    assert_same(found.cov, np.linalg.inv(total), 1e-5)
    assert_same(found.mean, np.linalg.solve(total, pull), 1e-5)
    assert_same(found.variance, np.diag(np.linalg.inv(total)), 1e-5)
    influence = [np.trace(np.linalg.solve(total, part)) / N_KERNELS for part in parts]
    assert_same(influence_of_tasks(problem, state), influence, 1e-5)
    prior = np.trace(np.linalg.solve(total, np.diag(state.kernel_precision.mean))) / N_KERNELS
    assert influence_of_tasks(problem, state).sum() + prior == pytest.approx(1.0, abs=1e-5)
