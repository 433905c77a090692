"""lp-norm multiple kernel learning: closed form, descent, degenerate cases, limits, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from dual_reference import problem, quadratics
from helpers import assert_same, informed_target, learn
from scipy.optimize import minimize

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative import LpMKLClassifier, SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.discriminative.global_weights.lpmkl import Lp
from bayesmkl.discriminative.outer import fit_at
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive, Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

NORMS = [1.0, 1.1, 4.0 / 3.0, 2.0, 4.0, 8.0]
TIGHT = 1e-6
MACHINE = 2e-3  # scores of two solutions at a gap of TIGHT


def samples_first(kernels):
    return np.moveaxis(kernels, 0, -1)


def classifier(**parameters):
    return LpMKLClassifier("precomputed", **{"tol": TIGHT, **parameters})


@pytest.mark.parametrize("p_norm", NORMS)
def test_objective_never_rises_and_weights_have_norm_one(rng, p_norm):
    for C in (0.3, 30.0):
        kernels, y = problem(rng, 50, 8)
        result = learn(DenseStack(kernels), y[None], Hinge(C), Lp(p_norm, 1e-5, 3000))
        assert result.outcome is Outcome.CONVERGED
        assert len(result.objective_history) > 2
        assert np.all(np.diff(result.objective_history) < 0.0)
        assert np.linalg.norm(result.kernel_weights, p_norm) == pytest.approx(1.0)


@pytest.mark.parametrize("p_norm", NORMS[1:])
def test_weights_are_a_fixed_point_of_the_dual_form(rng, p_norm):
    """At the optimum d_m is proportional to S_m^(q/p), the maximizer of d'S over the ball."""
    kernels, y = problem(rng, 40, 5)
    result = learn(DenseStack(kernels), y[None], Hinge(2.0), Lp(p_norm, 1e-9, 5000))
    S = quadratics(kernels, result.signed_dual[0])
    expected = S ** (1.0 / (p_norm - 1.0))
    expected /= np.linalg.norm(expected, p_norm)
    assert_same(result.kernel_weights, expected, 5e-3)


def test_closed_form_is_the_best_of_all_weights(rng):
    """Against a general solver over weights on the sphere, for fixed block norms of an SVM."""
    kernels, y = problem(rng, 40, 3)
    stack, p_norm = DenseStack(kernels), 1.5
    first = np.full(3, 3.0 ** (-1.0 / p_norm))
    one_step = learn(stack, y[None], Hinge(2.0), Lp(p_norm, 1e-12, 1)).kernel_weights
    fit = fit_at(stack, y[None], Hinge(2.0), first, 1e-9)
    squares = first**2 * fit.quadratics  # ||w_m||^2

    found = minimize(
        lambda d: (squares / d).sum() / squares.sum(),
        first,
        bounds=[(1e-6, 1.0)] * 3,
        constraints={"type": "ineq", "fun": lambda d: 1.0 - (d**p_norm).sum()},
        options={"ftol": 1e-14},
    )
    assert_same(one_step, found.x, 1e-3)


def test_p_one_is_simplemkl(rng):
    kernels, y = problem(rng, 50, 6)
    train = samples_first(kernels)
    ours = classifier(p_norm=1.0, tol=1e-5, max_iter=5000, C=3.0).fit(train, y)
    other = SimpleMKLClassifier("precomputed", tol=1e-5, C=3.0).fit(train, y)
    assert ours.objective_history_[-1] == pytest.approx(other.objective_history_[-1], rel=2e-5)
    assert_same(ours.kernel_weights_, other.kernel_weights_, 0.02)
    assert_same(ours.decision_function(train), other.decision_function(train), 0.02)


def test_large_p_is_the_sum_of_all_kernels(rng):
    kernels, y = problem(rng, 60, 4)
    train, new = samples_first(kernels[:, :40, :40]), samples_first(kernels[:, 40:, :40])
    model = classifier(p_norm=1e4, C=0.5).fit(train, y[:40])
    np.testing.assert_allclose(model.kernel_weights_, 1.0, atol=1e-3)
    uniform = UniformMKLClassifier("precomputed", C=2.0, tol=1e-8).fit(train, y[:40])  # the mean: C times P
    assert_same(model.decision_function(new), uniform.decision_function(new), MACHINE)


@pytest.mark.parametrize("inner", [Hinge(2.0), EpsilonInsensitive(2.0, 0.1)], ids=str)
def test_shared_tasks_minimize_the_sum(rng, inner):
    kernels, y = problem(rng, 40, 3)
    targets = np.array([y, -y, problem(rng, 40, 2)[1]])
    if isinstance(inner, EpsilonInsensitive):
        targets = np.array([informed_target(rng, kernels) for _ in range(3)])
    stack = DenseStack(kernels)
    result = learn(stack, targets, inner, Lp(2.0, TIGHT))

    def objective(d):
        fits = fit_at(stack, targets, inner, np.maximum(d, 0.0), 1e-7)
        return fits.objective / result.objective_history[
            -1
        ], -0.5 * fits.quadratics / result.objective_history[-1]

    found = minimize(
        objective,
        np.full(3, 0.5),
        jac=True,
        bounds=[(0.0, 1.0)] * 3,
        constraints={"type": "ineq", "fun": lambda d: 1.0 - d @ d, "jac": lambda d: -2.0 * d},
        options={"ftol": 1e-12},
    )
    assert found.fun == pytest.approx(1.0, rel=1e-5)


def test_p_one_reports_the_gap_it_has(rng):
    kernels, y = problem(rng, 60, 12)
    with pytest.warns(match="stopped after max_iter=20 steps with a relative duality gap of"):
        model = classifier(p_norm=1.0, max_iter=20).fit(samples_first(kernels), y)
    assert model.duality_gap_ > TIGHT * model.objective_history_[-1]
    best = SimpleMKLClassifier("precomputed", tol=1e-6).fit(samples_first(kernels), y).objective_history_[-1]
    assert model.objective_history_[-1] - model.duality_gap_ <= best <= model.objective_history_[-1]
