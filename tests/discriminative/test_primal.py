"""SVMs of one kernel: derivatives, exact steps, and optima against other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize, minimize_scalar
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.svm import LinearSVC

from bayesmkl._numerics.simplex import solve_simplex_qp
from bayesmkl.discriminative.primal import solve
from bayesmkl.discriminative.primal.primalmkl import minimize_nesterov
from bayesmkl.discriminative.primal.solve import (
    Huber,
    OneClass,
    PrimalProblem,
    PrimalState,
    Squared,
    SquaredHinge,
    exact_step,
    gradient_at,
    huber,
    intercept_shift,
    newton_direction,
    objective,
    one_class,
    solve_primal,
    squared,
    squared_hinge,
    state_at,
    truncated_direction,
)
from bayesmkl.discriminative.svm import libsvm

N = 40
REGS = (1.0, 0.1, 0.01)
SOLVERS = ("newton", "truncated", "pcg")
LOSSES = ("squared hinge", "squared", "huber", "one-class")


def gaussian_kernel(X, width=1.5):
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / (2.0 * width**2))


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 3))


@pytest.fixture
def kernel(X):
    return gaussian_kernel(X)


@pytest.fixture
def labels(rng, X):
    return np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.normal(size=N) > 0.5, 1.0, -1.0)


@pytest.fixture
def target(rng, X):
    return 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + rng.standard_t(2, size=N)


def loss_of(name, labels, target):
    return {
        "squared hinge": squared_hinge(labels),
        "squared": squared(target),
        "huber": huber(target, 0.7),
        "one-class": one_class(N),
    }[name]


def problem_of(name, labels, target, reg):
    return PrimalProblem(loss_of(name, labels, target), reg, float(name == "one-class"))


def hinge_value(labels, scores):
    return 0.5 * np.square(np.maximum(0.0, 1.0 - labels * scores)).sum()


def huber_value(residual, delta):
    inside = np.abs(residual) <= delta
    return np.where(inside, 0.5 * residual**2, delta * (np.abs(residual) - 0.5 * delta)).sum()


# --------------------------------------------------------------------------------- losses and exact steps


def test_losses_equal_their_formulas(rng, labels, target):
    scores = 2.0 * rng.normal(size=N)
    assert squared_hinge(labels).value(scores) == pytest.approx(hinge_value(labels, scores), rel=1e-13)
    assert squared(target).value(scores) == pytest.approx(0.5 * ((scores - target) ** 2).sum(), rel=1e-13)
    assert huber(target, 0.7).value(scores) == pytest.approx(huber_value(scores - target, 0.7), rel=1e-13)
    assert one_class(N).value(scores) == pytest.approx(
        0.5 * np.square(np.minimum(scores, 0.0)).sum(), rel=1e-13
    )


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_and_curvatures_are_finite_differences(rng, labels, target, name):
    loss = loss_of(name, labels, target)
    scores = 2.0 * rng.normal(size=N)
    np.testing.assert_allclose(approx_fprime(scores, loss.value, 1e-7), loss.slopes(scores), atol=2e-5)
    change = loss.slopes(scores + 1e-7) - loss.slopes(scores)
    np.testing.assert_allclose(change / 1e-7, loss.curved(scores).astype(float), atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_exact_step_equals_a_bounded_search(rng, labels, target, name):
    loss = loss_of(name, labels, target)
    for curvature in (0.0, 1e-3, 2.0):
        for _ in range(20):
            scores, change = 2.0 * rng.normal(size=N), rng.normal(size=N) * (rng.random(N) < 0.7)
            linear = -abs(rng.normal()) - float(change @ loss.slopes(scores))

            def along(s, scores=scores, change=change, linear=linear, curvature=curvature):
                return loss.value(scores + s * change) + linear * s + 0.5 * curvature * s**2

            step = exact_step(loss, scores, change, linear, curvature)
            found = minimize_scalar(along, bounds=(0.0, 50.0), method="bounded", options={"xatol": 1e-10})
            if found.x < 49.0:  # else the function may fall forever
                assert along(step) <= found.fun + 1e-10 * abs(found.fun)
    assert exact_step(loss, scores, change, 1e6, 0.0) == 0.0  # uphill


# ------------------------------------------------------------------------------- gradients and directions


def joint_objective(kernel, problem):
    def value(z):
        return objective(problem, PrimalState(z[:-1], kernel @ z[:-1], float(z[-1])))

    return value


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_a_finite_difference_in_coefficients_and_intercept(rng, kernel, labels, target, name):
    problem = problem_of(name, labels, target, 0.3)
    alpha = rng.normal(size=N)
    state = state_at(problem, alpha, kernel @ alpha)
    difference = approx_fprime(np.append(alpha, state.intercept), joint_objective(kernel, problem), 1e-7)
    gradient = gradient_at(kernel, problem, state)
    scale = np.abs(gradient.product).max()
    np.testing.assert_allclose(difference[:-1], gradient.product, atol=1e-4 * scale)
    assert abs(difference[-1]) <= 1e-4 * scale  # every state has the best intercept


@pytest.mark.parametrize("name", LOSSES)
def test_truncated_newton_solves_the_newton_system_of_the_true_hessian(rng, kernel, labels, target, name):
    problem = problem_of(name, labels, target, 0.3)
    alpha = 0.1 * rng.normal(size=N) + problem.total / N
    state = state_at(problem, alpha, kernel @ alpha)
    gradient = gradient_at(kernel, problem, state)
    curved = np.diag(problem.loss.curved(state.scores).astype(float))
    features = np.column_stack([kernel, np.ones(N)])  # scores = features @ z
    hessian = features.T @ curved @ features
    hessian[:N, :N] += problem.reg * kernel
    slopes = np.append(gradient.product, 0.0)

    def joint_gradient(z):
        scores = kernel @ z[:-1] + z[-1]
        slopes = problem.loss.slopes(scores)
        return np.append(kernel @ (problem.reg * z[:-1] + slopes), slopes.sum() + problem.reg * problem.total)

    z = np.append(alpha, state.intercept)
    probe = rng.normal(size=N + 1)
    probe /= np.abs(features @ probe).max()  # no score crosses a kink
    difference = (joint_gradient(z + 1e-6 * probe) - joint_gradient(z - 1e-6 * probe)) / 2e-6
    np.testing.assert_allclose(difference, hessian @ probe, atol=1e-6 * np.abs(difference).max())
    direction, n_products = truncated_direction(kernel, problem, state, gradient, eta=1e-9)
    q = np.append(direction.alpha, direction.intercept)
    assert np.linalg.norm(hessian @ q + slopes) <= 1e-7 * np.linalg.norm(slopes)
    np.testing.assert_allclose(direction.product, kernel @ direction.alpha, atol=1e-8)
    newton = newton_direction(kernel, problem, state)
    np.testing.assert_allclose(
        direction.product + direction.intercept, newton.product + newton.intercept, atol=1e-5
    )
    assert 1 <= n_products <= 3 * N


# ------------------------------------------------------------------------------------ optima: other solvers


@pytest.mark.parametrize("reg", REGS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_hinge_equals_liblinear_on_a_linear_kernel(X, labels, reg, solver):
    solution = solve_primal(X @ X.T, PrimalProblem(squared_hinge(labels), reg), solver, 1e-9)
    # liblinear penalizes the intercept, which a large scaling makes negligible
    svm = LinearSVC(C=0.5 / reg, loss="squared_hinge", dual=False, intercept_scaling=1e3, tol=1e-12)
    svm.fit(X, labels)
    np.testing.assert_allclose(X.T @ solution.signed_dual, svm.coef_[0], atol=2e-5)
    assert solution.intercept == pytest.approx(svm.intercept_[0], abs=2e-5)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reg", REGS)
def test_dual_value_equals_a_general_solver(kernel, labels, target, name, reg):
    problem = problem_of(name, labels, target, reg)
    loss, total = problem.loss, problem.total
    solution = solve_primal(kernel, problem)
    matrix = kernel + reg * np.eye(N)
    found = minimize(
        lambda v: 0.5 * v @ matrix @ v - v @ loss.target,
        np.full(N, total / N),
        jac=lambda v: matrix @ v - loss.target,
        bounds=list(zip(-loss.high / reg, -loss.low / reg, strict=True)),
        constraints={"type": "eq", "fun": lambda v: v.sum() - total, "jac": lambda v: np.ones(N)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert solution.objective == pytest.approx(-found.fun, rel=1e-6)
    assert solution.objective >= -found.fun - 1e-9 * abs(found.fun)
    assert 0.0 <= solution.gap <= 1e-9 * abs(solution.objective)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_solutions_are_canonical(kernel, labels, target, name, solver):
    problem = problem_of(name, labels, target, 0.05)
    v, b, dual, gap = solve_primal(kernel, problem, solver, 1e-9)
    tolerance = 1e-10 if solver == "newton" else 5e-6  # a gap of 1e-9 allows its root
    np.testing.assert_allclose(
        v, -problem.loss.slopes(kernel @ v + b) / problem.reg, rtol=0.0, atol=tolerance * np.abs(v).max()
    )
    assert v.sum() == pytest.approx(problem.total, abs=1e-10 * np.abs(v).max())
    primal = objective(problem, PrimalState(v, kernel @ v, b)) / problem.reg
    assert primal - dual == pytest.approx(gap, abs=1e-9 * abs(dual))


def test_solvers_agree_where_newton_needs_an_easier_problem_first(rng):
    X = rng.normal(size=(150, 4))
    kernel = gaussian_kernel(X)
    target = np.sin(X[:, 0]) + rng.standard_t(2, size=150)
    problem = PrimalProblem(huber(target, 0.01), 1e-3)
    newton, truncated = (solve_primal(kernel, problem, solver) for solver in ("newton", "truncated"))
    assert newton.gap <= 1e-8 * newton.objective
    assert newton.objective == pytest.approx(truncated.objective, rel=1e-7)


@pytest.mark.parametrize("reg", [*REGS, 1e-4])
@pytest.mark.parametrize("unit", [1.0, 1e12, 1e-12])
def test_libsvm_in_the_dual_finds_what_newton_finds(kernel, labels, reg, unit):
    kernel, reg = unit * kernel, unit * reg
    newton = SquaredHinge(reg).solve(kernel, labels, 1e-9)
    libsvm, violation = solve.solve_dual(kernel, SquaredHinge(reg).problem(labels), 1e-5)
    assert violation <= (1e-3 if reg < 1e-3 * unit else 3e-5)  # LibSVM's kernel has single precision
    np.testing.assert_allclose(
        libsvm.signed_dual, newton.signed_dual, rtol=0.0, atol=1e-3 * np.abs(newton.signed_dual).max()
    )
    assert libsvm.objective == pytest.approx(newton.objective, rel=1e-5)
    assert libsvm.gap <= 1e-4 * libsvm.objective
    finished = SquaredHinge(reg, "libsvm").solve(kernel, labels, 1e-9)  # Newton steps from there
    np.testing.assert_allclose(
        finished.signed_dual, newton.signed_dual, rtol=0.0, atol=1e-8 * np.abs(newton.signed_dual).max()
    )
    assert finished.intercept == pytest.approx(newton.intercept, abs=1e-7)


def test_libsvm_that_is_cut_short_is_finished_by_newton_steps(kernel, labels, monkeypatch):
    monkeypatch.setattr(libsvm, "STEPS_PER_SAMPLE", 1.0 / N)  # one step
    found = SquaredHinge(0.01, "libsvm").solve(kernel, labels, 1e-6)
    newton = SquaredHinge(0.01).solve(kernel, labels, 1e-6)
    np.testing.assert_allclose(found.signed_dual, newton.signed_dual, atol=1e-6)


# ----------------------------------------------------------------------------- regression and one class


@pytest.mark.parametrize("reg", REGS)
def test_squared_loss_is_kernel_ridge_regression_on_centered_data(rng, X, kernel, target, reg):
    solution = Squared(reg).solve(kernel, target, 1e-10)
    center = np.eye(N) - 1.0 / N
    ridge = KernelRidge(alpha=reg, kernel="precomputed").fit(center @ kernel @ center, target - target.mean())
    np.testing.assert_allclose(solution.signed_dual, ridge.dual_coef_, atol=1e-8 / reg)
    fitted = target.mean() + ridge.predict(center @ kernel @ center)
    np.testing.assert_allclose(kernel @ solution.signed_dual + solution.intercept, fitted, atol=1e-8)


def test_small_regularizations_approach_least_squares(X, target):
    solution = Squared(1e-6).solve(X @ X.T, target, 1e-10)
    line = LinearRegression().fit(X, target)
    np.testing.assert_allclose(X.T @ solution.signed_dual, line.coef_, atol=1e-5)
    assert solution.intercept == pytest.approx(line.intercept_, abs=1e-5)


@pytest.mark.parametrize("delta", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("solver", SOLVERS)
def test_huber_equals_a_general_solver(X, target, delta, solver):
    reg = 0.2
    solution = Huber(reg, solver, delta).solve(X @ X.T, target, 1e-9)

    def value(z):
        return 0.5 * reg * z[:-1] @ z[:-1] + huber_value(target - X @ z[:-1] - z[-1], delta)

    found = minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    assert reg * solution.objective == pytest.approx(found.fun, rel=1e-7)
    np.testing.assert_allclose(X.T @ solution.signed_dual, found.x[:-1], atol=2e-4)


def test_huber_with_a_wide_bound_is_the_squared_loss(kernel, target):
    wide, squared_loss = (svm.solve(kernel, target, 1e-10) for svm in (Huber(0.1, delta=1e6), Squared(0.1)))
    np.testing.assert_allclose(wide.signed_dual, squared_loss.signed_dual, atol=1e-10)


@pytest.mark.parametrize("reg", [10.0, 1.0, 0.1, 1e-3])
def test_one_class_equals_the_quadratic_program_on_the_simplex(kernel, reg):
    solution = OneClass(reg).solve(kernel, np.zeros(N), 1e-10)
    weights, residual = solve_simplex_qp(kernel + reg * np.eye(N), np.zeros(N))
    assert residual < 1e-9
    np.testing.assert_allclose(solution.signed_dual, weights, atol=1e-8)
    # the threshold is the score plus the slack on the support
    scores = kernel @ weights + reg * weights
    np.testing.assert_allclose(scores[weights > 1e-9], -solution.intercept, atol=1e-8)
    # samples with a coefficient are the ones below the threshold
    np.testing.assert_array_equal(kernel @ weights + solution.intercept < -1e-12, weights > 1e-12)


def test_one_class_tends_to_a_density_estimate(kernel):
    solution = OneClass(1e8).solve(kernel, np.zeros(N), 1e-10)
    np.testing.assert_allclose(solution.signed_dual, 1.0 / N, rtol=1e-6)


# ------------------------------------------------------------------------------------ limits and symmetries


def test_large_regularizations_leave_the_best_constant(kernel):
    labels = np.where(np.arange(N) < 12, 1.0, -1.0)
    solution = SquaredHinge(1e9).solve(kernel, labels, 1e-10)
    assert np.abs(solution.signed_dual).max() < 1e-8
    assert solution.intercept == pytest.approx((12 - 28) / N, abs=1e-7)  # argmin of sum (1 - y b)^2


@pytest.mark.parametrize("solver", ["libsvm", *SOLVERS])
def test_a_singular_kernel_is_no_obstacle(X, labels, solver):
    rows = np.repeat(X[: N // 4], 4, axis=0)  # rank 3, every sample four times, labels at odds
    kernel = rows @ rows.T
    solution = SquaredHinge(1e-3, solver).solve(kernel, labels, 1e-8)
    assert solution.gap <= 1e-6 * solution.objective


# ---------------------------------------------------------------------------------------- Nesterov's method


def test_nesterov_equals_the_active_set_on_the_simplex(rng):
    root = rng.normal(size=(30, 12))
    matrix, linear = root.T @ root / 30.0, rng.normal(size=12)
    visited = []

    def function(point):
        visited.append(float(point @ matrix @ point - 2.0 * linear @ point))
        return visited[-1], 2.0 * (matrix @ point - linear)

    start = np.full(12, 1.0 / 12)
    exact, _ = solve_simplex_qp(matrix, linear)
    found = minimize_nesterov(function, 1.0, start, tol=1e-12)
    np.testing.assert_allclose(found, exact, atol=1e-7)
    # stopped anywhere, it is not above the start, and later stops are not above earlier ones
    values = [function(minimize_nesterov(function, 1.0, start, 0.0, most))[0] for most in range(1, 40)]
    assert values[0] <= function(start)[0]
    assert np.diff(values).max() <= 1e-14


@pytest.mark.parametrize("far", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("total", [0.0, 0.3])
def test_the_intercept_by_newton_is_that_of_sorted_breakpoints(rng, far, total):
    labels = np.where(rng.random(40) < 0.4, -1.0, 1.0)
    losses = [squared_hinge(labels), squared(rng.normal(size=40)), huber(rng.normal(size=40), 0.7)]
    losses += [one_class(40)] if total else []
    for loss in losses:
        for spread in (1e-3, 1.0, 30.0):
            scores = spread * rng.normal(size=40) + far
            found = intercept_shift(loss, scores, total)
            slope = float(loss.slopes(scores).sum()) + total
            way = -1.0 if slope > 0.0 else 1.0
            sorted_out = way * exact_step(loss, scores, np.full(40, way), way * total, 0.0)
            value, expected = (loss.value(scores + s) + total * s for s in (found, sorted_out))
            assert value <= expected + 1e-12 * max(abs(expected), 1.0)
            if loss is not losses[2]:  # Huber's may be constant between two shifts
                assert found == pytest.approx(sorted_out, rel=1e-10, abs=1e-12 * (1.0 + spread + far))
