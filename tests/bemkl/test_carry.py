"""What one sweep hands to the next, and what of it the acceleration measures, with more samples than are probed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import reference
from helpers import (
    BINARY_PRIORS,
    SAME_FORMULA,
    TaskPriors,
    assert_monte_carlo,
    assert_same,
    assert_same_factors,
    binary_problem,
    frozen,
    informed_target,
    label_task,
    random_intermediate,
    random_kernels,
    regression_problem,
    target_task,
)
from sklearn.preprocessing import StandardScaler

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl import moments, multitask
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import PROBED, Gamma, IntermediateOutputs, probe, probe_scale
from bayesmkl.bemkl.multitask import MultitaskProblem
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Classes, Labels, Numbers

N_KERNELS, N_OUTPUTS = 3, 2
FEW, MANY = PROBED - 4, 3 * PROBED - 4  # all of the few samples are probed, every third of the many
MODULES = {
    "binary": bemkl,
    "regression": bemkl,
    "multiclass": bemkl,
    "multinomial": bemkl,
    "multioutput": bemkl,
    "multitask": multitask,
}
ALGORITHMS = pytest.mark.parametrize("name", MODULES)
BASES = pytest.mark.parametrize("n_train", [None, 7], ids=["square", "landmarks"])


@pytest.fixture(autouse=True)
def few_are_probed(monkeypatch):
    """Problems of this size would be probed as a whole."""
    monkeypatch.setattr(moments, "PROBED_ENTRIES", 0)


def signs(values):
    return np.where(values > np.median(values, axis=-1, keepdims=True), 1.0, -1.0)


def problem_of(name, rng, n_samples, n_train=None):
    """Return a problem and its deterministic start; kernels are on the first `n_train` samples."""
    kernels = random_kernels(rng, n_samples, N_KERNELS)
    y = np.array([informed_target(rng, kernels) for _ in range(N_OUTPUTS)])
    kernels = frozen(kernels[:, :, :n_train])
    stack = DenseStack(kernels)
    ones, gram = np.ones(n_samples), frozen(stack.gram())
    if name == "binary":
        problem = binary_problem(kernels, signs(y[0]))
    elif name == "regression":
        problem = regression_problem(kernels, y[0])
    elif name == "multiclass":
        problem = Problem(stack, gram, frozen(signs(y)), Priors(), Labels(1.0), 1.0)
    elif name == "multinomial":
        largest = np.where(np.arange(N_OUTPUTS)[:, None] == signs(y[0]).clip(0), 1.0, -1.0)
        problem = Problem(stack, gram, frozen(largest), Priors(), Classes(0.0), 1.0)
    elif name == "multioutput":
        problem = Problem(stack, gram, frozen(y), Priors(), Numbers())
    else:
        part = DenseStack(frozen(kernels[:, : n_samples // 2, : n_samples // 2]))
        tasks = (
            label_task(stack, signs(y[0]), 1.0, 1.0),
            target_task(part, y[1, : n_samples // 2]),
        )
        problem = TaskPriors().problem_of(tasks)
        ones = np.concatenate([ones, 0.0 * ones[: n_samples // 2]])
    noise = 0.0 * ones if name in ("regression", "multioutput") else ones
    return problem, MODULES[name].init(problem, noise)


def pulls_of(problem, intermediate):
    """Sum of K_m' g_m in loops, for E[G] of one output, of several, or of several tasks side by side."""
    if isinstance(problem, MultitaskProblem):
        ends = np.cumsum([len(task.y) for task in problem.tasks])[:-1]
        parts = np.split(intermediate, ends, axis=1)
        pairs = zip(problem.tasks, parts, strict=True)
        return np.concatenate([reference.pull_of(task.stack.kernels, part) for task, part in pairs])
    kernels = problem.stack.kernels
    if intermediate.ndim == 2:
        return reference.pull_of(kernels, intermediate)
    return np.array([reference.pull_of(kernels, part) for part in intermediate])


def intermediates_of(state):
    """Return E[G], of every task."""
    return [one.intermediate.mean for one in getattr(state, "tasks", [state])]


def factors_of(state):
    """Return nested factors without the tuple of tasks around them."""
    return [*state.tasks, state.readout] if hasattr(state, "tasks") else [state]


@BASES
@ALGORITHMS
def test_pull_is_the_sum_of_kernels_times_intermediate_outputs(rng, name, n_train):
    problem, start = problem_of(name, rng, FEW, n_train)
    assert_same(start.pull, pulls_of(problem, start.probe), SAME_FORMULA)
    for n_samples in (FEW, MANY):
        problem, start = problem_of(name, rng, n_samples, n_train)
        state, _ = MODULES[name].sweep(problem, start)
        here = MODULES[name].carry(problem, state)
        whole = np.concatenate(intermediates_of(state), axis=-1)
        assert_same(here.pull, pulls_of(problem, whole), SAME_FORMULA)
        assert np.shape(here.pull) == np.shape(here.dual_square)
        if n_samples == FEW:
            np.testing.assert_array_equal(here.probe, whole)


@pytest.mark.parametrize("n_samples", [FEW, PROBED, 3 * PROBED, 7 * PROBED])
def test_probe_stands_for_all_samples_in_the_expected_distance(rng, n_samples):
    """Scaled changes of standard normal size: their squared norm is the number of intermediate outputs."""
    factor = random_intermediate(rng, N_KERNELS, n_samples)
    shared = np.diag(factor.cov) ** 0.5
    changes = shared[:, None] * rng.normal(size=(4000, N_KERNELS, n_samples))
    draws = ((probe(changes) * probe_scale(factor)) ** 2).sum(axis=(1, 2))
    assert_monte_carlo(draws, N_KERNELS * n_samples)


def test_probe_scale_of_several_outputs_is_each_ones_own(rng):
    covs = np.array([np.diag(rng.uniform(0.5, 2.0, size=N_KERNELS)) for _ in range(N_OUTPUTS)])
    factor = IntermediateOutputs(np.zeros((N_OUTPUTS, N_KERNELS, MANY)), covs, np.zeros(N_OUTPUTS))
    expected = np.sqrt(3.0 / np.diagonal(covs, axis1=1, axis2=2))
    assert_same(probe_scale(factor), np.repeat(expected[..., None], -(-MANY // 3), axis=2), SAME_FORMULA)


@pytest.mark.parametrize(
    "name",
    ["binary", "multiclass"]
    + [
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("regression", "multioutput", "multinomial", "multitask")
    ],
)
def test_accelerated_and_plain_reach_the_same_posterior_of_many_samples(rng, name):
    """Priors that say much about the precisions: the plain loop, too, comes to rest."""
    module = MODULES[name]
    problem, start = problem_of(name, rng, PROBED + 8)
    tasks = [
        own._replace(priors=type(own.priors)(*[Gamma(100.0, 100.0)] * len(own.priors)))
        for own in getattr(problem, "tasks", [problem])
    ]
    problem = problem._replace(tasks=tuple(tasks)) if name == "multitask" else tasks[0]
    plain = maximize_elbo(module, problem, start, LoopOptions(3000, 1e-10, accelerate=False))
    fast = maximize_elbo(module, problem, start, LoopOptions(plain.n_iter // 3, 1e-12))
    assert plain.outcome.converged
    assert fast.outcome.converged
    assert fast.elbo_history[-1] == pytest.approx(plain.elbo_history[-1], rel=1e-7)
    assert fast.elbo_history[-1] > plain.elbo_history[-1]
    for found, expected in zip(factors_of(fast.state), factors_of(plain.state), strict=True):
        assert_same_factors(found, expected, 5e-3)


@pytest.fixture(scope="module")
def bank():
    X, y = load_wdbc(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:120]
    kernels = KernelBank("paper").fit_transform(StandardScaler().fit_transform(X[rows]))
    return np.moveaxis(kernels, -1, 0), y[rows].astype(float)


# Measured: 29 and 26 sweeps.
@pytest.mark.heavy
@pytest.mark.parametrize("prior", ["non-sparse", "sparse"])
def test_acceleration_reaches_the_bound_of_200_sweeps_in_a_quarter_of_them(bank, prior):
    kernels, y = bank
    assert kernels.shape == (13, 120, 120)
    problem = binary_problem(kernels, y, BINARY_PRIORS[prior])
    start = bemkl.init(problem, np.full(len(y), 0.8))
    plain = maximize_elbo(bemkl, problem, start, LoopOptions(200, 0.0, accelerate=False)).elbo_history
    fast = maximize_elbo(bemkl, problem, start, LoopOptions(50, 0.0)).elbo_history
    assert plain[-1] > plain[-2] > plain[0] + 10.0
    assert fast[-1] > plain[-1]
    assert (np.diff(fast) >= 0.0).all()


def test_a_start_keeps_single_precision(rng):
    problem, _ = problem_of("binary", rng, FEW)
    single = problem._replace(
        stack=DenseStack(jnp.asarray(problem.stack.kernels, dtype=np.float32)),
        y=jnp.asarray(problem.y, dtype=np.float32),
    )
    start = bemkl.init(single, jnp.ones(FEW, dtype=np.float32))
    assert {field.dtype for field in start} == {np.dtype(np.float32)}
