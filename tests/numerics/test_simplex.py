"""Projections and quadratic programs over weights, against enumeration of faces, bisection, SLSQP and NNLS."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from helpers import assert_same
from scipy.optimize import brentq, lsq_linear, minimize

from bayesmkl._numerics.simplex import (
    lp_norm,
    project_lp_ball,
    project_simplex,
    solve_nonnegative_qp,
    solve_simplex_qp,
)

P_NORMS = [1.0, 1.001, 1.1, 4 / 3, 1.9, 2.0, 2.1, 3.0, 8.0, 100.0, np.inf]


def faces(size):
    """Yield every nonempty set of positions."""
    for k in range(1, size + 1):
        yield from (list(face) for face in combinations(range(size), k))


def simplex_qp_by_enumeration(matrix, linear):
    """Return the smallest value over the stationary points of all faces."""
    best = np.inf
    for face in faces(linear.size):
        k = len(face)
        system = np.zeros((k + 1, k + 1))
        system[:k, :k] = 2.0 * matrix[np.ix_(face, face)]
        system[:k, k] = system[k, :k] = 1.0
        solution = np.linalg.lstsq(system, np.append(2.0 * linear[face], 1.0), rcond=None)[0][:k]
        if solution.min() >= -1e-12 and abs(solution.sum() - 1.0) < 1e-9:
            best = min(best, solution @ matrix[np.ix_(face, face)] @ solution - 2.0 * linear[face] @ solution)
    return best


def value(matrix, linear, x):
    return x @ matrix @ x - 2.0 * linear @ x


@pytest.mark.parametrize("total", [1.0, 0.3, 7.0])
def test_projection_on_the_simplex_is_the_best_point_of_all_faces(rng, total):
    for _ in range(40):
        point = rng.normal(size=rng.integers(1, 7)) * 10.0 ** rng.uniform(-2, 2)
        best = np.inf
        for face in faces(point.size):
            candidate = np.zeros(point.size)
            candidate[face] = point[face] - (point[face].sum() - total) / len(face)
            if candidate.min() >= 0.0:
                best = min(best, ((candidate - point) ** 2).sum())
        projection = project_simplex(point, total)
        assert projection.min() >= 0.0
        assert projection.sum() == pytest.approx(total, rel=1e-12)
        assert ((projection - point) ** 2).sum() == pytest.approx(best, rel=1e-12)


def lp_projection_by_bisection(point, p_norm, radius):
    """Nested root finding, one multiplier outside and every entry inside."""

    def entries(multiplier):
        return np.array(
            [
                brentq(
                    lambda x, q=q: x + multiplier * x ** (p_norm - 1.0) - q, 0.0, q, xtol=1e-15, rtol=1e-14
                )
                for q in point[point > 0]
            ]
        )

    high = 1.0
    while lp_norm(entries(high), p_norm) > radius:
        high *= 2.0
    multiplier = brentq(lambda t: lp_norm(entries(t), p_norm) - radius, 0.0, high, xtol=1e-15, rtol=1e-14)
    projection = np.zeros_like(point)
    projection[point > 0] = entries(multiplier)
    return projection


@pytest.mark.parametrize("p_norm", [1.1, 4 / 3, 1.9, 2.0, 3.0, 8.0])
@pytest.mark.parametrize("radius", [1.0, 0.2])
def test_projection_on_a_ball_agrees_with_bisection(rng, p_norm, radius):
    point = np.append(rng.normal(size=5), 2.0)
    expected = lp_projection_by_bisection(point, p_norm, radius)
    assert_same(project_lp_ball(point, p_norm, radius), expected, 1e-8)


@pytest.mark.parametrize("p_norm", P_NORMS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e8])
def test_projection_on_a_ball_satisfies_the_variational_inequality(rng, p_norm, scale):
    """No point z of the set makes an angle below 90 degrees: max (q - x)'z is a dual norm of the positive part."""
    for _ in range(10):
        point = scale * rng.normal(size=rng.integers(1, 9))
        radius = 10.0 ** rng.uniform(-1, 1)
        x = project_lp_ball(point, p_norm, radius)
        assert x.min() >= 0.0
        assert lp_norm(x, p_norm) <= radius * (1 + 1e-12)
        order = {1.0: np.inf, np.inf: 1.0}.get(p_norm) or p_norm / (p_norm - 1.0)
        support = radius * lp_norm(np.maximum(point - x, 0.0), order)
        assert support - (point - x) @ x <= 1e-12 * radius * max(1.0, np.abs(point).max())


@pytest.mark.parametrize("p_norm", P_NORMS)
def test_points_of_the_ball_stay_and_negative_entries_become_zero(p_norm):
    point = np.array([0.1, -5.0, 0.3, 0.0])
    np.testing.assert_array_equal(project_lp_ball(point, p_norm), [0.1, 0.0, 0.3, 0.0])


def test_lp_norm_of_large_values_does_not_overflow():
    assert lp_norm(np.zeros(0), 3.0) == 0.0
    assert lp_norm(np.full(2, 1e300), 4.0) == pytest.approx(2**0.25 * 1e300)
    assert lp_norm(np.zeros(3), 1.5) == 0.0


def random_qp(rng, kind):
    size, rank = rng.integers(2, 7), rng.integers(1, 9)
    root = rng.normal(size=(size, rank)) * 10.0 ** rng.uniform(-2, 2)
    if kind == "positive":
        root = np.abs(root)
    if kind == "duplicated":
        root = root[rng.integers(0, size, size)]
    if kind == "with zeros":
        root[rng.integers(size)] = 0.0
    return root @ root.T, root @ rng.normal(size=rank), root


@pytest.mark.parametrize("kind", ["general", "positive", "duplicated", "with zeros"])
def test_simplex_qp_finds_the_value_of_the_best_face(rng, kind):
    for _ in range(40):
        matrix, linear, _ = random_qp(rng, kind)
        weights, residual = solve_simplex_qp(matrix, linear)
        assert residual <= 1e-10
        assert weights.min() >= 0.0
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        expected = simplex_qp_by_enumeration(matrix, linear)
        scale = max(np.abs(linear).max(), np.abs(matrix).max())
        assert value(matrix, linear, weights) <= expected + 1e-9 * scale


def test_simplex_qp_agrees_with_slsqp(rng):
    matrix, linear = np.cov(rng.normal(size=(12, 30))), rng.normal(size=12) * 0.3
    found = minimize(
        lambda x: value(matrix, linear, x),
        np.full(12, 1 / 12),
        jac=lambda x: 2.0 * (matrix @ x - linear),
        bounds=[(0.0, None)] * 12,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": lambda x: np.ones(12)},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    weights, _ = solve_simplex_qp(matrix, linear)
    np.testing.assert_allclose(weights, found.x, atol=1e-6)
    assert value(matrix, linear, weights) <= found.fun + 1e-14


def test_simplex_qp_with_the_identity_is_the_projection(rng):
    for size in (1, 2, 50, 400):
        point = rng.normal(size=size) / size
        assert_same(solve_simplex_qp(np.eye(size), point)[0], project_simplex(point), 1e-9)


def test_the_residual_is_the_violation_of_the_optimality_conditions(rng):
    matrix, linear, _ = random_qp(rng, "general")
    weights, residual = solve_simplex_qp(matrix, linear, tol=np.inf)  # stops at the best vertex
    assert np.count_nonzero(weights) == 1
    assert weights @ (matrix.diagonal() - 2.0 * linear) == min(
        value(matrix, linear, e) for e in np.eye(linear.size)
    )
    gradient = 2.0 * (matrix @ weights - linear)
    assert residual == pytest.approx((gradient @ weights - gradient.min()) / np.abs(linear).max())
    gap = value(matrix, linear, weights) - simplex_qp_by_enumeration(matrix, linear)
    assert gap <= residual * np.abs(linear).max() + 1e-12


def test_simplex_qp_follows_a_permutation_and_a_change_of_units(rng):
    matrix, linear = np.cov(rng.normal(size=(9, 40))), rng.normal(size=9) * 0.2
    order = rng.permutation(9)
    weights = solve_simplex_qp(matrix, linear)[0]
    assert_same(solve_simplex_qp(matrix[np.ix_(order, order)], linear[order])[0], weights[order], 1e-9)
    assert_same(solve_simplex_qp(1e12 * matrix, 1e12 * linear)[0], weights, 1e-9)


def test_simplex_qp_survives_nothing_and_rounding_errors(rng):
    weights, residual = solve_simplex_qp(np.zeros((3, 3)), np.zeros(3))
    assert weights.sum() == 1.0
    assert residual == 0.0
    assert solve_simplex_qp(np.zeros((3, 3)), np.array([0.0, 2.0, 1.0]))[0].argmax() == 1
    root = rng.normal(size=(30, 2))
    noise = rng.normal(size=(30, 30)) * 1e-9  # far above the ridge: a few negative eigenvalues
    weights, residual = solve_simplex_qp(root @ root.T + noise + noise.T, np.abs(root[:, 0]))
    assert residual < 1e-6


def test_simplex_qp_with_a_small_linear_term_goes_on_past_rounding_errors(rng):
    """The gradient is equal on the support to 1e-16 of the matrix only, which is much of the linear term."""
    for _ in range(20):
        root = np.abs(rng.normal(size=(12, 27))) * 600.0
        matrix, linear = root @ root.T, root @ rng.normal(size=27) * 0.01
        weights, residual = solve_simplex_qp(matrix, linear)
        gradient = 2.0 * (matrix @ weights - linear)
        assert gradient @ weights - gradient.min() <= 1e-12 * np.abs(matrix).max()
        assert residual <= 1e-7


def test_large_sparse_and_dense_solutions_satisfy_the_conditions(rng):
    root = np.abs(rng.normal(size=(300, 60)))
    for matrix, linear in (
        (root @ root.T, root @ rng.random(60)),
        (np.eye(300) + 1e-3 * root @ root.T, np.ones(300)),
    ):
        weights, residual = solve_simplex_qp(matrix, linear)
        gradient = 2.0 * (matrix @ weights - linear)
        assert residual <= 1e-10
        assert gradient[weights > 0].max() - gradient.min() <= 2e-10 * np.abs(linear).max()


@pytest.mark.parametrize("kind", ["general", "positive", "duplicated", "with zeros"])
def test_nonnegative_qp_agrees_with_bounded_least_squares(rng, kind):
    for _ in range(40):
        _, _, root = random_qp(rng, kind)
        target = rng.normal(size=root.shape[1])
        weights, residual = solve_nonnegative_qp(root @ root.T, root @ target)
        expected = lsq_linear(root.T, target, (0.0, np.inf), method="bvls", tol=1e-14).x
        distance = np.linalg.norm(root.T @ expected - target)
        assert residual <= 1e-9
        assert weights.min() >= 0.0
        np.testing.assert_allclose(root.T @ weights, root.T @ expected, atol=1e-5 * np.abs(target).max())
        assert np.linalg.norm(root.T @ weights - target) <= distance + 1e-7


def test_nonnegative_qp_with_no_descent_is_zero():
    np.testing.assert_array_equal(solve_nonnegative_qp(np.eye(2), np.array([-1.0, 0.0]))[0], [0.0, 0.0])
