"""EasyMKL: the game against SLSQP and LibSVM's hard margin, weights against explicit sums, both classifiers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen, learn, random_kernels, random_labels
from scipy.optimize import minimize
from sklearn.svm import SVC

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.estimators.two_stage import EasyMKLClassifier
from bayesmkl.discriminative.global_weights.easymkl import KOMD, Easy, play
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

TIGHT = 1e-9
MACHINE = 1e-6


@pytest.fixture
def problem(rng):
    kernels, y = frozen(random_kernels(rng, 30, 4)), frozen(random_labels(rng, 30))
    return kernels, y


def objective(g, kernel, y, reg):
    return (1.0 - reg) * (g * y) @ kernel @ (g * y) + reg * g @ g


@pytest.mark.parametrize("reg", [0.02, 0.3, 0.8])
def test_the_game_agrees_with_slsqp(problem, reg):
    kernels, y = problem
    game = play(kernels[0], y, Easy(reg, "svm", 1e-7, 20_000))
    found = minimize(
        lambda g: 100.0 * objective(g, kernels[0], y, reg),
        np.where(y > 0, 1.0 / (y > 0).sum(), 1.0 / (y < 0).sum()),
        jac=lambda g: 200.0 * ((1.0 - reg) * y * (kernels[0] @ (g * y)) + reg * g),
        bounds=[(0.0, None)] * 30,
        constraints=[
            {"type": "eq", "fun": lambda g, side=side: g[side].sum() - 1.0} for side in (y > 0, y < 0)
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert game.outcome is Outcome.CONVERGED
    assert game.history[-1] == pytest.approx(found.fun / 100.0, rel=1e-6)
    np.testing.assert_allclose(game.distribution, found.x, atol=1e-4)


@pytest.mark.parametrize("reg", [0.1, 0.5])
def test_the_game_is_a_hard_margin_svm_on_a_ridged_kernel(problem, reg):
    """The nearest points of two hulls are the duals of a hard margin SVM, up to scale."""
    kernels, y = problem
    game = play(kernels[1], y, Easy(reg, "svm", 1e-12, 20_000))
    ridged = (1.0 - reg) * kernels[1] + reg * np.eye(30)
    svm = SVC(kernel="precomputed", C=1e8, tol=1e-9).fit(ridged, y)
    alpha = np.zeros(30)
    alpha[svm.support_] = np.abs(svm.dual_coef_[0])
    assert_same(game.distribution, 2.0 * alpha / alpha.sum(), 1e-4)


@pytest.mark.parametrize("reg", [0.0, 0.1, 1.0])
def test_the_gap_bounds_the_distance_from_the_minimum(problem, reg):
    kernels, y = problem
    exact = play(kernels[0], y, Easy(reg, "svm", 1e-10, 5_000)).history[-1]
    for max_iter in (1, 5, 25, 200):
        game = play(kernels[0], y, Easy(reg, "svm", 0.0, max_iter))
        assert -1e-8 <= game.history[-1] - exact <= game.gap + 1e-8
        assert np.all(np.diff(game.history) <= 1e-15)
        for side in (y > 0, y < 0):
            assert game.distribution[side].sum() == pytest.approx(1.0)
            assert game.distribution.min() >= 0.0


def test_reg_one_compares_the_means_of_the_classes(problem):
    kernels, y = problem
    game = play(kernels[0], y, Easy(1.0, "svm", 1e-10))
    assert_same(game.distribution, np.where(y > 0, 1.0 / (y > 0).sum(), 1.0 / (y < 0).sum()), SAME_FORMULA)


def test_weights_are_the_parts_of_the_distance(rng, problem):
    kernels, y = problem
    scales = 10.0 ** rng.uniform(-2, 2, size=4)
    scaled = kernels * scales[:, None, None]
    result = learn(DenseStack(scaled), y[None], Hinge(1.0), Easy(0.2, "svm", 1e-10))
    unit = scaled / np.trace(scaled, axis1=1, axis2=2)[:, None, None] * 30
    game = play(unit.mean(axis=0), y, Easy(0.2, "svm", 1e-10))
    parts = np.array([(game.distribution * y) @ kernel @ (game.distribution * y) for kernel in unit])
    assert_same(result.kernel_weights * scales, parts / parts.sum(), 1e-7)
    assert result.objective_history[-1] == pytest.approx(
        0.8 * parts.mean() + 0.2 * game.distribution @ game.distribution, rel=1e-8
    )


def test_final_svm_is_svc_on_the_combined_kernel(rng):
    X = np.moveaxis(random_kernels(rng, 55, 3), 0, -1)
    y = random_labels(rng, 40)
    train, test = X[:40, :40], X[40:, :40]
    model = EasyMKLClassifier("precomputed", C=3.0, tol=TIGHT).fit(train, y)
    svm = SVC(kernel="precomputed", C=3.0, tol=TIGHT).fit(train @ model.kernel_weights_, y)
    assert_same(model.decision_function(test), svm.decision_function(test @ model.kernel_weights_), MACHINE)
    one = EasyMKLClassifier("precomputed", C=3.0, tol=TIGHT).fit(train[..., :1], y)
    svm = SVC(kernel="precomputed", C=3.0, tol=TIGHT).fit(train[..., 0], y)
    assert_same(one.decision_function(test[..., :1]), svm.decision_function(test[..., 0]), MACHINE)


def test_komd_puts_the_threshold_halfway(problem):
    kernels, y = problem
    solution = KOMD(0.3).solve(kernels[0], y, 1e-8)
    g = np.abs(solution.signed_dual)
    scores = kernels[0] @ solution.signed_dual + solution.intercept
    above, below = (g * scores)[y > 0].sum(), (g * scores)[y < 0].sum()
    assert above == pytest.approx(-below, rel=1e-9)
    assert above > 0.0
    assert 0.0 <= solution.gap <= 1e-7 * solution.objective
    # the distance of the two points, once as a norm and once as a difference of scores
    assert above - below == pytest.approx(solution.signed_dual @ kernels[0] @ solution.signed_dual)


def test_shared_weights_add_up_the_games(rng):
    kernels, y = random_kernels(rng, 36, 3), np.arange(36) % 3
    X = np.moveaxis(kernels, 0, -1)
    unit = kernels / np.trace(kernels, axis1=1, axis2=2)[:, None, None] * 36
    parts, value = np.zeros(3), 0.0
    for c in range(3):
        target = np.where(y == c, 1.0, -1.0)
        game = play(unit.mean(axis=0), target, Easy(0.1, "svm", 1e-9))
        dual = game.distribution * target
        parts += [dual @ kernel @ dual for kernel in unit]
        value += game.history[-1]
    shared = EasyMKLClassifier("precomputed", multiclass="shared", tol=1e-9).fit(X, y)
    assert_same(shared.kernel_weights_, parts / parts.sum(), 1e-6)
    assert shared.objective_history_[-1] == pytest.approx(value, rel=1e-8)
    separate = EasyMKLClassifier("precomputed", tol=1e-9).fit(X, y)
    assert separate.kernel_weights_.shape == (3, 3)
    assert sum(history[-1] for history in separate.objective_history_) == pytest.approx(value, rel=1e-8)
