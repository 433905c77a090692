"""SimpleMKL: degenerate cases, descent, equivariance, differences, warm starts, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from dual_reference import problem
from helpers import assert_same, informed_target, learn
from scipy.optimize import minimize_scalar

from bayesmkl.discriminative import SimpleMKLClassifier
from bayesmkl.discriminative.global_weights.simplemkl import (
    Simple,
)
from bayesmkl.discriminative.outer import fit_at
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive, Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

SOLVERS = ("spg", "reduced-gradient")

pytestmark = pytest.mark.heavy

TIGHT = 1e-6


def samples_first(kernels):
    return np.moveaxis(kernels, 0, -1)


def classifier(**parameters):
    return SimpleMKLClassifier("precomputed", **{"tol": TIGHT, **parameters})


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("inner", [Hinge(2.0), EpsilonInsensitive(2.0, 0.1)], ids=str)
def test_two_kernels_are_a_line_search(rng, solver, inner):
    kernels, y = problem(rng, 40, 2)
    target = y if isinstance(inner, Hinge) else informed_target(rng, kernels)
    stack = DenseStack(kernels)

    def objective(t):
        return fit_at(stack, target[None], inner, np.array([t, 1.0 - t]), 1e-8).objective

    best = minimize_scalar(objective, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-7})
    result = learn(stack, target[None], inner, Simple(solver, TIGHT))
    assert result.objective_history[-1] == pytest.approx(best.fun, rel=1e-5)
    assert result.kernel_weights[0] == pytest.approx(best.x, abs=0.01)


@pytest.mark.parametrize("solver", SOLVERS)
def test_tasks_that_share_weights_add_their_objectives(rng, solver):
    kernels, y = problem(rng, 40, 2)
    stack, targets = DenseStack(kernels), np.array([y, problem(rng, 40, 2)[1], -y])

    def objective(t):
        weights = np.array([t, 1.0 - t])
        return sum(fit_at(stack, target[None], Hinge(2.0), weights, 1e-8).objective for target in targets)

    best = minimize_scalar(objective, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-7})
    result = learn(stack, targets, Hinge(2.0), Simple(solver, TIGHT))
    assert result.objective_history[-1] == pytest.approx(best.fun, rel=1e-5)
    assert result.signed_dual.shape == (3, 40)


def test_reduced_gradient_never_rises(rng):
    for C in (0.3, 3.0, 100.0):
        kernels, y = problem(rng, 50, 10)
        result = learn(DenseStack(kernels), y[None], Hinge(C), Simple("reduced-gradient", 1e-5))
        assert result.outcome.converged
        assert np.all(np.diff(result.objective_history) <= 0.0)
        assert len(result.objective_history) > 3


def test_noise_kernels_are_left_out(rng):
    X = rng.normal(size=(120, 10))
    y = np.where(X[:, 3] + X[:, 7] ** 2 > 1.0, "yes", "no")
    kernels = np.exp(-0.5 * (X[:, None] - X[None]) ** 2)
    model = classifier(tol=1e-3, C=3.0).fit(kernels, y)
    assert model.kernel_weights_[[3, 7]].sum() > 0.7
    assert model.n_active_kernels_ < 10


@pytest.mark.parametrize(
    ("solver", "n_kernels", "tol"),
    [("spg", 15, 1e-4), pytest.param("reduced-gradient", 8, 1e-3, marks=pytest.mark.slow)],
)
def test_warm_starts_find_the_same_optima_with_fewer_svms(rng, solver, n_kernels, tol):
    grid, n_warm, n_cold = [0.3, 1.0, 3.0, 10.0, 30.0], 0, 0
    for _ in range(3):
        kernels, y = problem(rng, 50, n_kernels)
        path = classifier(tol=tol, solver=solver).path(samples_first(kernels), y, C_values=grid)
        cold = [classifier(tol=tol, solver=solver, C=C).fit(samples_first(kernels), y) for C in grid]
        for warm, model in zip(path.models, cold, strict=True):
            assert warm.objective_history_[-1] == pytest.approx(model.objective_history_[-1], rel=2 * tol)
        n_warm += sum(model.n_solves_ for model in path.models)
        n_cold += sum(model.n_solves_ for model in cold)
    assert n_warm < 0.95 * n_cold


def test_several_classes_have_weights_of_their_own_or_shared_ones(rng):
    X = rng.normal(size=(90, 4))
    y = np.digitize(X[:, 1], [-0.5, 0.5])
    kernels = np.exp(-0.5 * (X[:, None] - X[None]) ** 2)
    own = classifier(tol=1e-4).fit(kernels, y)
    shared = classifier(tol=1e-4, multiclass="shared").fit(kernels, y)
    assert own.kernel_weights_.shape == (3, 4)
    assert shared.kernel_weights_.shape == (4,)
    for c in range(3):
        alone = classifier(tol=1e-4).fit(kernels, y == c)
        assert_same(own.kernel_weights_[c], alone.kernel_weights_, 0.05)
    assert shared.objective_history_[-1] >= sum(history[-1] for history in own.objective_history_) * (
        1 - 1e-4
    )
    assert min(own.score(kernels, y), shared.score(kernels, y)) > 0.85
