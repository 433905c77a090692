"""PrimalMKL: the optimum by all schemes and solvers, its certificate, and its estimators."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from bayesmkl import KernelBank
from bayesmkl._numerics.simplex import project_lp_ball, project_simplex
from bayesmkl.datasets import load_iris
from bayesmkl.discriminative import PrimalMKLClassifier, PrimalMKLOneClass, PrimalMKLRegressor
from bayesmkl.discriminative.primal.primalmkl import (
    PrimalMKLOptions,
    _update_weights,
    fit_primalmkl,
)
from bayesmkl.discriminative.primal.solve import Huber, OneClass, Squared, SquaredHinge, state_at
from bayesmkl.discriminative.problems import dual_norm, fit_at
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

N = 60
WIDTHS = (0.3, 1.0, 3.0, 9.0)
SOLVERS = ("libsvm", "newton", "truncated", "pcg")
SCHEMES = ("spg", "closed", "paper")


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 3))


@pytest.fixture
def stack(X):
    """Gaussian kernels of four widths, and one of each feature."""
    views = [X, X, X, X, *(X[:, [j]] for j in range(3))]
    widths = (*WIDTHS, 1.0, 1.0, 1.0)
    return DenseStack(
        np.stack(
            [
                np.exp(-((V[:, None] - V[None]) ** 2).sum(axis=-1) / (2.0 * w**2))
                for V, w in zip(views, widths, strict=True)
            ]
        )
    )


@pytest.fixture
def labels(rng, X):
    return np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.normal(size=N) > 0.5, 1.0, -1.0)


@pytest.fixture
def target(rng, X):
    return np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=N)


def fit(stack, targets, inner, p_norm=1.0, weights="spg", tol=1e-6, **options):
    targets = np.atleast_2d(targets)
    return fit_primalmkl(stack, targets, inner, PrimalMKLOptions(p_norm, weights, tol, 3000), **options)


def objective_of(kernel, labels, reg, v, b):
    """Equation (10)."""
    scores = kernel @ v + b
    return 0.5 * reg * v @ kernel @ v + 0.5 * np.square(np.maximum(0.0, 1.0 - labels * scores)).sum()


# ----------------------------------------------------------------------------------------- the same optimum


@pytest.mark.parametrize("p_norm", [1.0, 4.0 / 3.0, 2.0, 8.0])
@pytest.mark.parametrize("reg", [1.0, 0.1, 0.01])
def test_optimum_equals_a_general_solver_of_the_dual(rng, reg, p_norm):
    kernels = np.stack([root @ root.T for root in rng.normal(size=(3, 14, 4))])
    labels = np.where(rng.random(14) < 0.5, 1.0, -1.0)
    labels[:2] = -1.0, 1.0
    result = fit(DenseStack(kernels), labels, SquaredHinge(reg), p_norm, tol=1e-7)

    # max 1'a - |a|²/2 - ||(v'K_m v)||_q / (2 reg) over v = y a, a >= 0, sum v = 0; the norm as a bound t for p = 1
    def penalty(z):
        quadratics = np.einsum("mij,i,j->m", kernels, z[:14], z[:14])
        return 0.5 / reg * (z[14] if p_norm == 1.0 else dual_norm(quadratics, p_norm))

    constraints = [{"type": "eq", "fun": lambda z: z[:14].sum()}]
    if p_norm == 1.0:
        constraints.append(
            {"type": "ineq", "fun": lambda z: z[14] - np.einsum("mij,i,j->m", kernels, z[:14], z[:14])}
        )
    found = minimize(
        lambda z: 0.5 * z[:14] @ z[:14] - labels @ z[:14] + penalty(z),
        np.append(0.1 * labels - 0.1 * labels.mean(), 100.0),
        bounds=[(0.0, None) if y > 0 else (None, 0.0) for y in labels] + [(0.0, None)],
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    assert result.objective_history[-1] == pytest.approx(-found.fun, rel=5e-6)  # SciPy 1.14 stops at 3e-6
    assert result.duality_gap <= 1e-7 * result.objective_history[-1]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("weights", "tol"), [("spg", 1e-5), ("closed", 1e-3), ("paper", 1e-3)])
@pytest.mark.parametrize("p_norm", [1.0, 2.0])
def test_schemes_and_solvers_reach_the_same_optimum(stack, labels, solver, weights, tol, p_norm):
    best = fit(stack, labels, SquaredHinge(0.5), p_norm, tol=1e-9).objective_history[-1]
    result = fit(stack, labels, SquaredHinge(0.5, solver), p_norm, weights, tol)
    assert result.outcome.converged
    assert best * (1.0 - 1e-8) <= result.objective_history[-1] <= best * (1.0 + tol)
    assert np.diff(result.objective_history).max(initial=0.0) <= 1e-9 * best  # never rises
    assert (result.kernel_weights**p_norm).sum() ** (1.0 / p_norm) <= 1.0 + 1e-9
    assert result.kernel_weights.min() >= 0.0


@pytest.mark.parametrize("weights", SCHEMES)
def test_the_gap_bounds_the_distance_from_the_optimum(stack, labels, weights):
    result = fit(stack, labels, SquaredHinge(0.5), 1.0, weights, 1e-2)
    v, b = result.signed_dual[0], result.intercept[0]
    primal = objective_of(stack.combine(result.kernel_weights), labels, 0.5, v, b)
    # the dual of the problem over all weights, in the paper's scale
    worst = stack.quadratic(v).max()
    dual = 0.5 * (v @ labels - 0.25 * v @ v - 0.5 * worst)
    best = fit(stack, labels, SquaredHinge(0.5), tol=1e-8).objective_history[-1]
    assert dual <= best * (1.0 + 1e-7)
    assert primal >= best * (1.0 - 1e-7)
    # of all dual values that were met, the largest one counts
    assert primal - best * (1.0 + 1e-7) <= result.duality_gap <= (primal - dual) * (1.0 + 1e-9)
    assert result.objective_history[-1] == pytest.approx(primal, rel=1e-8)
    assert result.duality_gap <= 1e-2 * primal


def test_a_stationary_point_with_other_coefficients_is_no_minimum():
    """Proposition 3: limits are stationary, which is a minimum only with the coefficients that residuals give."""
    y, lam = np.array([1.0, 1.0, -1.0, -1.0]), 0.5
    useless, useful = np.array([1.0, -1.0, 1.0, -1.0]), y
    kernels = np.stack([0.2 * np.outer(useless, useless), np.outer(useful, useful)])

    def gradients(d, alpha, b):
        K = np.tensordot(d, kernels, 1)
        residuals = -y * np.maximum(0.0, 1.0 - y * (K @ alpha + b))
        of_weights = [0.5 * lam * alpha @ one @ alpha + alpha @ one @ residuals for one in kernels]
        return K @ (lam * alpha + residuals), residuals.sum(), np.array(of_weights), residuals

    d, alpha = np.array([1.0, 0.0]), 6.0 * useful  # the first kernel maps the coefficients to zero
    of_alpha, of_b, of_weights, residuals = gradients(d, alpha, 0.0)
    np.testing.assert_array_equal(of_alpha, 0.0)
    assert of_b == 0.0
    assert of_weights[1] > of_weights[0] == 0.0  # no weight wants to move
    there = 0.5 * lam * alpha @ kernels[0] @ alpha + 0.5 * residuals @ residuals
    best = fit(DenseStack(kernels), y, SquaredHinge(lam), tol=1e-8)
    assert there == 2.0
    assert best.objective_history[-1] == pytest.approx(2.0 / 9.0, rel=1e-6)
    np.testing.assert_allclose(best.kernel_weights, [0.0, 1.0], atol=1e-8)
    # with the coefficients that residuals give, the other weight does want to
    of_weights = gradients(d, -residuals / lam, 0.0)[2]
    assert of_weights[1] < of_weights[0]


def test_gradients_in_the_weights_are_finite_differences(rng, stack, labels):
    weights = rng.dirichlet(np.ones(stack.n_kernels))
    inner = SquaredHinge(0.2)

    def value(d):
        return fit_at(stack, labels[None], inner, d, 1e-12).objective

    fitted = fit_at(stack, labels[None], inner, weights, 1e-12)
    np.testing.assert_allclose(
        approx_fprime(weights, value, 1e-6), -0.5 * fitted.quadratics, rtol=1e-4, atol=1e-5
    )
    midpoint = 0.5 * (weights + rng.dirichlet(np.ones(stack.n_kernels)))
    other = 2.0 * midpoint - weights
    assert value(midpoint) <= 0.5 * (value(weights) + value(other))  # convex


@pytest.mark.parametrize("p_norm", [1.0, 2.0])
def test_algorithm_4_minimizes_over_the_weights_at_fixed_coefficients(rng, stack, labels, p_norm):
    inner = SquaredHinge(0.3)
    problem = inner.problem(labels)
    alpha = 0.2 * labels + 0.05 * rng.normal(size=N)
    cache = stack.apply(alpha)
    start = np.full(stack.n_kernels, stack.n_kernels ** (-1.0 / p_norm))
    state = state_at(problem, alpha, start @ cache)

    def value(d):
        return objective_of(stack.combine(d), labels, 0.3, alpha, state.intercept)

    found = _update_weights([problem], [state], [cache], start, PrimalMKLOptions(p_norm))
    constraint = {"type": "ineq", "fun": lambda d: 1.0 - (np.maximum(d, 0.0) ** p_norm).sum()}
    if p_norm == 1.0:
        constraint = {"type": "eq", "fun": lambda d: d.sum() - 1.0}
    exact = minimize(
        value, start, bounds=[(0, 1)] * stack.n_kernels, constraints=[constraint], options={"ftol": 1e-12}
    )
    assert value(found) <= exact.fun * (1.0 + 1e-4)
    project = project_simplex if p_norm == 1.0 else lambda d: project_lp_ball(d, p_norm)
    np.testing.assert_allclose(project(found), found, atol=1e-12)


@pytest.mark.parametrize(
    "inner", [Squared(0.3), Huber(0.3, delta=0.2), OneClass(0.3)], ids=lambda i: type(i).__name__
)
def test_other_losses_reach_the_minimum_over_the_simplex(stack, target, inner):
    few = stack.select([0, 1, 4]).rows(slice(0, 40))
    few, target = DenseStack(few.kernels[:, :, :40]), target[:40]

    def value(free):
        d = np.array([free[0], free[1], 1.0 - free.sum()])
        return inner.reg * fit_at(few, target[None], inner, np.maximum(d, 0.0), 1e-10).objective

    grid = [np.array([a, b]) for a in np.linspace(0, 1, 9) for b in np.linspace(0, 1.0 - a, 9)]
    best = min(value(point) for point in grid)
    for weights in SCHEMES:
        result = fit(few, target, inner, 1.0, weights, 1e-4)
        assert result.outcome.converged, weights
        found = result.objective_history[-1]
        assert found <= best + 1.01e-4 * abs(found), weights
        assert found >= best - 2e-2 * abs(found), weights  # the grid is coarse
        assert np.diff(result.objective_history).max(initial=-1.0) <= 1e-9 * abs(found), weights


@pytest.mark.parametrize("tol", [1e-3, 1e-5, 1e-7])
def test_algorithm_1_stops_by_the_gap_however_small(X, labels, tol):
    bank = KernelBank([Gaussian(width=w) for w in WIDTHS], normalize=None)
    model = PrimalMKLClassifier(bank, reg=0.1, weights="paper", tol=tol, max_iter=1000).fit(X, labels)
    assert model.converged_
    assert model.duality_gap_ <= tol * model.objective_history_[-1]
    best = PrimalMKLClassifier(bank, reg=0.1, tol=1e-9).fit(X, labels).objective_history_[-1]
    assert -1e-9 <= model.objective_history_[-1] / best - 1.0 <= tol


# -------------------------------------------------------------------------------------------- degenerate cases


def test_a_large_norm_tends_to_the_sum_of_the_kernels(stack, labels):
    result = fit(stack, labels, SquaredHinge(0.1), p_norm=500.0)
    np.testing.assert_allclose(result.kernel_weights, 1.0, atol=0.02)


def test_several_tasks_share_weights_through_the_sum_of_their_objectives(stack, X, labels):
    second = np.where(X[:, 2] > 0.2, 1.0, -1.0)
    result = fit(stack, np.stack([labels, second]), SquaredHinge(0.3))
    alone = [
        0.3 * fit_at(stack, y[None], SquaredHinge(0.3), result.kernel_weights, 1e-10).objective
        for y in (labels, second)
    ]
    assert result.objective_history[-1] == pytest.approx(sum(alone), rel=1e-8)
    twice = fit(stack, np.stack([labels, labels]), SquaredHinge(0.3), tol=1e-7)
    once = fit(stack, labels, SquaredHinge(0.3), tol=1e-7)
    np.testing.assert_allclose(twice.kernel_weights, once.kernel_weights, atol=1e-3)
    paper = fit(stack, np.stack([labels, second]), SquaredHinge(0.3), 1.0, "paper", 1e-3)
    assert paper.objective_history[-1] == pytest.approx(result.objective_history[-1], rel=1e-3)


# --------------------------------------------------------------------------------------------------- estimators


def test_classes_have_weights_of_their_own_or_share_them():
    X, y = load_iris(return_X_y=True)
    bank = KernelBank([Gaussian(width=0.5), Gaussian(width=2)], views="each")
    own = PrimalMKLClassifier(bank, reg=0.1).fit(X, y)
    assert own.kernel_weights_.shape == (3, 8)
    for c in range(3):
        binary = PrimalMKLClassifier(bank, reg=0.1).fit(X, y == own.classes_[c])
        np.testing.assert_allclose(binary.decision_function(X), own.decision_function(X)[:, c], atol=1e-10)
    shared = PrimalMKLClassifier(bank, reg=0.1, multiclass="shared").fit(X, y)
    assert shared.kernel_weights_.shape == (8,)
    assert own.objective_history_[0][-1] > 0
    total = sum(history[-1] for history in own.objective_history_)
    assert total <= shared.objective_history_[-1] * (1 + 1e-3)  # sharing is a constraint
    assert min(own.score(X, y), shared.score(X, y)) > 0.95


def test_a_path_gives_what_single_fits_give(X, labels):
    bank = KernelBank([Gaussian(width=w) for w in WIDTHS])
    model = PrimalMKLClassifier(bank, tol=1e-6)
    path = model.path(X, labels, [1.0, 0.3, 0.1])
    assert path.parameter == "reg"
    for reg, warm in zip((1.0, 0.3, 0.1), path.models, strict=True):
        cold = PrimalMKLClassifier(bank, reg=reg, tol=1e-6).fit(X, labels)
        assert warm.objective_history_[-1] == pytest.approx(cold.objective_history_[-1], rel=2e-6)
        np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=5e-3)


def test_huber_ignores_outliers_that_the_squared_loss_follows(rng):
    X = rng.uniform(-2.0, 2.0, size=(120, 2))
    truth = np.sin(2.0 * X[:, 0])
    y = truth + 0.05 * rng.normal(size=120)
    y[::10] += 20.0
    bank = KernelBank([Gaussian(width=1)], views="each")
    errors = {}
    for loss in ("squared", "huber"):
        model = PrimalMKLRegressor(bank, reg=0.1, loss=loss, delta=0.1).fit(X, y)
        errors[loss] = np.abs(model.predict(X) - truth).mean()
        assert model.duality_gap_ <= 1e-3 * model.objective_history_[-1]
    assert errors["huber"] < 0.1
    assert errors["squared"] > 10.0 * errors["huber"]


def test_one_class_finds_what_lies_outside(rng):
    X = rng.normal(size=(150, 4))
    bank = KernelBank([Gaussian(width=1.5)], views={"left": [0, 1], "right": [2, 3]})
    model = PrimalMKLOneClass(bank, reg=0.1).fit(X)
    # without a share, outside are the samples with a coefficient
    np.testing.assert_array_equal(np.flatnonzero(model.predict(X) == -1), model.support_)
    np.testing.assert_allclose(model.decision_function(X), model.score_samples(X) - model.offset_)
    assert np.linalg.norm(model.kernel_weights_) == pytest.approx(1.0)
    assert model.objective_history_[-1] == pytest.approx(
        -0.05 * model.dual_coef_ @ (model.combined_kernel(X) + 0.1 * np.eye(150)) @ model.dual_coef_, rel=1e-3
    )
    assert (model.predict(X + np.array([8.0, 0.0, 0.0, 0.0])) == -1).mean() > 0.95
    for share in (0.05, 0.2):
        shared = PrimalMKLOneClass(bank, reg=0.1, contamination=share).fit(X)
        assert (shared.predict(X) == -1).sum() == pytest.approx(share * 150, abs=1)
