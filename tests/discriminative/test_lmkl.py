"""LMKL: gradients, degenerate cases, other libraries, equivariance and recovery; descents."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen, informed_target, random_kernels, random_labels
from sklearn.svm import SVC, SVR

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.gating import (
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
    combine_components,
    gating_matrix,
)
from bayesmkl.discriminative.localized.lmkl import (
    SOLVERS,
    LMKLOptions,
    descend,
    fit_lmkl,
    gate_slopes,
    predict_lmkl,
)
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive, Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

N_GROUPS = 4
GATINGS = {
    "softmax": SoftmaxGating(init_scale=1.0),
    "sigmoid": SigmoidGating(init_scale=1.0),
    "gaussian": GaussianGating(width=2.0),
    "group": GroupGating(N_GROUPS, init_scale=1.0),
}
INNERS = {"classification": Hinge(2.0), "regression": EpsilonInsensitive(2.0, 0.2)}
EVERY_GATING = pytest.mark.parametrize("gating", GATINGS)
EVERY_INNER = pytest.mark.parametrize("inner", INNERS)
EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS)
TIGHT = LMKLOptions(max_iter=3, inner_tol=1e-9)  # few exact steps: rounding has no time to grow


class Problem(NamedTuple):
    stack: DenseStack
    target: np.ndarray
    features: np.ndarray
    inner: object
    gating: object

    def fit(self, options=TIGHT, seed=0, **replaced):
        return fit_lmkl(*self._replace(**replaced), options, rng=np.random.default_rng(seed))

    def predict(self, result):
        return predict_lmkl(result, self.stack, result.gates_at(self.features))


def make(rng, gating="softmax", inner="classification", n_samples=40, n_kernels=3):
    kernels = random_kernels(rng, n_samples, n_kernels)
    target = random_labels(rng, n_samples) if inner == "classification" else informed_target(rng, kernels)
    features = rng.normal(size=(n_samples, 2))
    if gating == "group":
        features = rng.integers(N_GROUPS, size=(n_samples, 1)).astype(float)
    return Problem(
        DenseStack(frozen(kernels)), frozen(target), frozen(features), INNERS[inner], GATINGS[gating]
    )


def objective_at(problem, parameters, tol=1e-9):
    """Return J and the signed dual of the SVM on the combined kernel, built by einsum."""
    gates = problem.gating.gates(parameters, problem.features)
    kernel = np.einsum("mi,mij,mj->ij", gates, problem.stack.kernels, gates)
    solution = problem.inner.solve(kernel, problem.target, tol)
    return solution.objective, solution.signed_dual, gates


def regions(rng, n_samples):
    """Two linear kernels, each of which decides on one side of zero of a third variable."""
    a, b, side = rng.normal(size=(3, n_samples))
    return a, b, side[:, None], np.where(np.where(side > 0, a, b) > 0, 1.0, -1.0)


@EVERY_INNER
@EVERY_GATING
def test_gradient_against_finite_differences(rng, gating, inner):
    problem = make(rng, gating, inner)
    at = problem.gating.init(problem.features, 3, rng)
    _, signed_dual, gates = objective_at(problem, at)
    slopes = gate_slopes(problem.stack, gates, signed_dual)
    found = problem.gating.pullback(at, problem.features, slopes)
    step = 1e-4
    moves = step * np.eye(at.size)
    expected = np.array(
        [objective_at(problem, at + move)[0] - objective_at(problem, at - move)[0] for move in moves]
    )
    assert_same(found, expected / (2 * step), 1e-4)


def test_gradient_against_the_published_double_sum(rng):
    """Sums over all pairs of samples and of kernels, as the authors write them for the softmax."""
    problem = make(rng, n_samples=12)
    at = problem.gating.init(problem.features, 3, rng)
    _, v, gates = objective_at(problem, at)
    affine = np.column_stack([np.ones(12), problem.features])
    expected = np.zeros((3, 3))
    for m in range(3):
        for h in range(3):
            for i in range(12):
                for j in range(12):
                    term = v[i] * v[j] * gates[h, i] * problem.stack.kernels[h, i, j] * gates[h, j]
                    lean = affine[i] * ((m == h) - gates[m, i]) + affine[j] * ((m == h) - gates[m, j])
                    expected[m] -= 0.5 * term * lean
    found = problem.gating.pullback(at, problem.features, gate_slopes(problem.stack, gates, v))
    assert_same(found, expected.ravel(), SAME_FORMULA)
    np.testing.assert_allclose(found.reshape(3, 3).sum(axis=0), 0.0, atol=1e-12 * np.abs(found).max())


@EVERY_SOLVER
@EVERY_INNER
@EVERY_GATING
def test_objective_never_rises_over_accepted_steps(rng, gating, inner, solver):
    problem = make(rng, gating, inner)
    result = problem.fit(LMKLOptions(solver=solver, max_iter=8))
    history = result.objective_history
    assert len(history) > 1
    assert np.all(np.diff(history) <= 0.0)
    assert history[-1] < 0.99 * history[0]
    exact, _, gates = objective_at(problem, result.gating_parameters)
    np.testing.assert_allclose(history[-1], exact, rtol=1e-3)
    assert_same(result.gates, gates, SAME_FORMULA)
    assert 0.0 <= result.duality_gap <= 1e-2 * exact


@pytest.mark.parametrize(("gating", "share"), [("softmax", 1 / 9), ("sigmoid", 1 / 4), ("group", 1 / 9)])
def test_start_at_zero_is_a_svm_on_the_sum_of_kernels(rng, gating, share):
    problem = make(rng, gating)
    zero = GATINGS[gating]._replace(init_scale=0.0)
    result = problem.fit(LMKLOptions(max_iter=1, inner_tol=1e-9), gating=zero)
    kernel = share * problem.stack.kernels.sum(axis=0)
    svm = SVC(kernel="precomputed", C=2.0, tol=1e-9).fit(kernel, problem.target)
    v = np.zeros(40)
    v[svm.support_] = svm.dual_coef_[0]
    np.testing.assert_allclose(result.objective_history[0], np.abs(v).sum() - 0.5 * v @ kernel @ v, rtol=1e-7)


@EVERY_GATING
def test_scores_come_from_the_combined_kernel(rng, gating):
    problem = make(rng, gating)
    result = problem.fit()
    train = result.gates[None]
    part = slice(5, 12)
    rows = problem.gating.gates(result.gating_parameters, problem.features[part])[None]
    kernel = sum(gating_matrix(rows, train, m) * problem.stack.kernels[m, part] for m in range(3))
    assert_same(combine_components(problem.stack.rows(part), rows, train), kernel, SAME_FORMULA)
    found = predict_lmkl(result, problem.stack.rows(part), result.gates_at(problem.features[part]))
    assert_same(found, kernel @ result.signed_dual + result.intercept, SAME_FORMULA)


@EVERY_SOLVER
def test_each_region_gets_the_kernel_it_needs_and_no_global_kernel_does_as_well(rng, solver):
    a, b, features, target = regions(rng, 150)
    test_a, test_b, test_features, truth = regions(rng, 400)
    stack = DenseStack(np.stack([np.outer(a, a), np.outer(b, b)]))
    query = DenseStack(np.stack([np.outer(test_a, a), np.outer(test_b, b)]))
    problem = Problem(stack, target, features, Hinge(1.0), SoftmaxGating())
    result = problem.fit(LMKLOptions(solver=solver))
    localized = np.mean(np.sign(predict_lmkl(result, query, result.gates_at(test_features))) == truth)
    best = 0.0  # of all global weights, chosen with the test labels
    for weight in np.linspace(0.0, 1.0, 21):
        weights = np.array([weight, 1.0 - weight])
        svm = SVC(kernel="precomputed", C=1.0).fit(stack.combine(weights), target)
        best = max(best, svm.score(query.combine(weights), truth))
    assert localized > 0.9
    assert best < 0.82
    side = features[:, 0]
    assert result.gates[0, side > 0.5].min() > 0.8
    assert result.gates[0, side < -0.5].max() < 0.2


def test_regression_follows_two_regimes(rng):
    a, b, side = rng.normal(size=(3, 160))
    target = np.where(side > 0, 2.0 * a, -1.5 * b) + 0.05 * rng.normal(size=160)
    stack = DenseStack(np.stack([np.outer(a, a), np.outer(b, b)]))
    problem = Problem(stack, target, side[:, None], EpsilonInsensitive(10.0, 0.05), SoftmaxGating())
    result = problem.fit(LMKLOptions())
    residual = np.mean((problem.predict(result) - target) ** 2)
    mean_kernel = stack.combine(np.array([0.5, 0.5]))
    svm = SVR(kernel="precomputed", C=10.0, epsilon=0.05).fit(mean_kernel, target)
    assert residual < 0.15 * np.mean((svm.predict(mean_kernel) - target) ** 2)


@EVERY_GATING
def test_end_is_a_local_minimum(rng, gating):
    problem = make(rng, gating)
    result = problem.fit(LMKLOptions(tol=1e-9, max_iter=400, inner_tol=1e-8))
    ends = [
        objective_at(
            problem, result.gating_parameters + 1e-2 * rng.normal(size=result.gating_parameters.shape), 1e-6
        )[0]
        for _ in range(20)
    ]
    assert min(ends) > result.objective_history[-1] * (1.0 - 1e-4)


# ------------------------------------------------------------------------------------------ descents


def counted(value, gradient):
    """Return an evaluation and the list of all points that it was asked for."""
    asked = []

    def evaluate(at, enough=np.inf):
        asked.append(at)
        return SimpleNamespace(parameters=at, objective=float(value(at)), gradient=gradient(at))

    return evaluate, asked


def quadratic(rng, n=6):
    """Return a convex quadratic function with minimum 1, and where that is."""
    root, center = rng.normal(size=(n, 2 * n)), rng.normal(size=n)
    hessian = root @ root.T / n

    def value(at):
        return 1.0 + 0.5 * (at - center) @ hessian @ (at - center)

    return value, lambda at: hessian @ (at - center), center


@EVERY_SOLVER
def test_quadratic_minimum_is_found_without_ever_rising(rng, solver):
    value, gradient, center = quadratic(rng)
    evaluate, _ = counted(value, gradient)
    reports = []
    tol = 1e-5 if solver == "paper" else 1e-12  # its shortest move is a thousandth
    found = descend(evaluate, evaluate(center + 3.0), solver, tol, 500, lambda n, at: reports.append(n))
    assert found.outcome is Outcome.CONVERGED
    assert np.all(np.diff(found.history) <= 0.0)
    assert np.abs(found.end.parameters - center).max() < (0.1 if solver == "paper" else 1e-4)
    assert found.end.objective == found.history[-1] == value(found.end.parameters)
    assert reports == list(range(1, len(found.history)))


@EVERY_SOLVER
def test_a_plain_whose_slope_cannot_be_squared_is_the_end(solver):
    """Gradients of 1e-201, as sharp gates have them, are no direction: a step divided by their square is NaN."""

    def value(at):
        return 5.0 + float(np.where(at > 2.0, at - 2.0, 1e-201 * at).sum())

    evaluate, asked = counted(value, lambda at: np.where(at > 2.0, 1.0, 1e-201))
    found = descend(evaluate, evaluate(np.full(2, 2.5)), solver, 1e-3, 10)
    assert all(np.isfinite(at).all() for at in asked)
    assert found.end.objective == pytest.approx(5.0)
    assert found.outcome is Outcome.CONVERGED


def test_original_search_doubles_and_halves(rng):
    """Along one coordinate every trial point can be written down."""
    evaluate, asked = counted(lambda at: 1.0 + float(abs(at[0] - 6.5)), lambda at: np.sign(at - 6.5))
    found = descend(evaluate, evaluate(np.zeros(1)), "paper", 1e-9, 1)
    assert [float(at[0]) for at in asked] == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert found.end.parameters == 8.0
    evaluate, asked = counted(lambda at: 1.0 + float(abs(at[0] - 0.2)), lambda at: np.sign(at - 0.2))
    found = descend(evaluate, evaluate(np.zeros(1)), "paper", 1e-9, 1)
    assert [float(at[0]) for at in asked] == [0.0, 1.0, 0.5, 0.25]
    assert found.end.parameters == 0.25


@EVERY_SOLVER
def test_noise_in_the_objective_ends_a_descent_after_few_evaluations(rng, solver):
    value, gradient, center = quadratic(rng)
    evaluate, asked = counted(lambda at: value(at) + 0.01 * rng.normal(), gradient)
    found = descend(evaluate, evaluate(center + 3.0), solver, 1e-6, 500)
    assert np.all(np.diff(found.history) <= 0.0)
    assert value(found.end.parameters) < 1.1
    assert len(asked) < len(found.history) * 4 + 25
