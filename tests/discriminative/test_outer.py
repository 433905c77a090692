"""The sums over kernels that all methods share, weights in closed form, and repeated solves at moving weights."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, random_kernels, random_labels
from scipy.optimize import approx_fprime, minimize

from bayesmkl.discriminative.problems import dual_norm, fit_at, lp_weights, outer_gap, projection_for
from bayesmkl.discriminative.svm.evaluator import (
    MovingCombination,
    SupportQuadratics,
)
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive, Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

EXACT = 1e-9
NORMS = [1.0, 1.1, 4.0 / 3.0, 2.0, 4.0]


def problem(rng, n_samples=30, n_kernels=3, n_tasks=1):
    stack = DenseStack(random_kernels(rng, n_samples, n_kernels))
    return stack, np.array([random_labels(rng, n_samples) for _ in range(n_tasks)])


def value(stack, targets, inner, weights):
    return fit_at(stack, targets, inner, weights, EXACT).objective


@pytest.mark.parametrize("n_tasks", [1, 3])
@pytest.mark.parametrize("inner", [Hinge(0.3), Hinge(10.0), EpsilonInsensitive(1.0, 0.1)], ids=str)
def test_finite_difference_gradient_is_half_the_negative_quadratic_forms(rng, inner, n_tasks):
    stack, targets = problem(rng, n_tasks=n_tasks)
    if isinstance(inner, EpsilonInsensitive):
        targets = rng.normal(size=targets.shape)
    weights = rng.uniform(0.2, 1.0, size=3)
    fit = fit_at(stack, targets, inner, weights, EXACT)
    numerical = approx_fprime(weights, lambda d: value(stack, targets, inner, d), 1e-5)
    np.testing.assert_allclose(-0.5 * fit.quadratics, numerical, rtol=2e-3, atol=1e-4)
    by_hand = sum(
        np.einsum("i,mij,j->m", solution.signed_dual, stack.kernels, solution.signed_dual)
        for solution in fit.solutions
    )
    np.testing.assert_allclose(fit.quadratics, by_hand, rtol=1e-11)
    assert fit.objective == pytest.approx(sum(solution.objective for solution in fit.solutions))


@pytest.mark.parametrize("p_norm", NORMS)
def test_other_library_gap_is_zero_at_the_optimum_and_bounds_the_distance_elsewhere(rng, p_norm):
    stack, targets = problem(rng, n_tasks=2)
    inner = Hinge(2.0)

    def with_gradient(d):
        fit = fit_at(stack, targets, inner, np.maximum(d, 0.0), EXACT)
        return fit.objective, -0.5 * fit.quadratics

    uniform = np.full(3, 3.0 ** (-1.0 / p_norm))
    best = minimize(
        with_gradient,
        uniform,
        jac=True,
        bounds=[(0.0, 1.0)] * 3,
        constraints={"type": "ineq", "fun": lambda d: 1.0 - (np.maximum(d, 0.0) ** p_norm).sum()},
        method="SLSQP",
        options={"ftol": 1e-11},
    )
    at_best = fit_at(stack, targets, inner, best.x, EXACT)
    # SLSQP keeps to the constraint up to its own tolerance
    assert 0.0 <= outer_gap(at_best, p_norm) + 1e-6 <= 1e-4 * best.fun
    for _ in range(5):
        weights = rng.dirichlet(np.ones(3))
        weights /= (weights**p_norm).sum() ** (1.0 / p_norm)
        fit = fit_at(stack, targets, inner, weights, EXACT)
        assert outer_gap(fit, p_norm) >= fit.objective - best.fun - 1e-6
    loose = fit_at(stack, targets, inner, uniform, 0.1)
    assert loose.inner_gap > 1e-3  # and part of the certificate
    assert outer_gap(loose, p_norm) >= loose.objective + loose.inner_gap - best.fun - 1e-6


def test_degenerate_one_kernel_has_no_outer_gap(rng):
    stack, targets = problem(rng, n_kernels=1)
    fit = fit_at(stack, targets, Hinge(1.0), np.ones(1), 1e-2)
    for p_norm in NORMS:
        assert outer_gap(fit, p_norm) == pytest.approx(fit.inner_gap, rel=1e-12)


@pytest.mark.parametrize("p_norm", [*NORMS, np.inf])
def test_other_library_dual_norm_is_the_largest_product_on_the_ball(rng, p_norm):
    values = rng.uniform(0.0, 3.0, size=5)
    order = np.inf if p_norm == 1.0 else 1.0 if np.isinf(p_norm) else p_norm / (p_norm - 1.0)
    assert dual_norm(values, p_norm) == pytest.approx(np.linalg.norm(values, order), rel=1e-12)
    assert dual_norm(1e200 * values, p_norm) == pytest.approx(1e200 * dual_norm(values, p_norm), rel=1e-12)
    assert dual_norm(np.zeros(3), p_norm) == 0.0
    for _ in range(20):
        point = np.abs(rng.normal(size=5))
        point /= np.linalg.norm(point, p_norm)
        assert point @ values <= dual_norm(values, p_norm) * (1.0 + 1e-12)


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # of SciPy 1.14
@pytest.mark.parametrize("p_norm", NORMS)
def test_other_library_closed_form_weights_minimize_the_block_norms(rng, p_norm):
    norms = rng.uniform(0.1, 2.0, size=4)
    weights = lp_weights(norms, p_norm)
    assert (weights**p_norm).sum() == pytest.approx(1.0, rel=1e-12)
    found = minimize(
        lambda d: (norms**2 / d).sum(),
        np.full(4, 4.0 ** (-1.0 / p_norm)),
        bounds=[(1e-6, 1.0)] * 4,
        constraints={"type": "ineq", "fun": lambda d: 1.0 - (d**p_norm).sum()},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(weights, found.x, atol=2e-4)
    assert (norms**2 / weights).sum() == pytest.approx(found.fun, rel=1e-7)
    np.testing.assert_allclose(lp_weights(1e-150 * norms, p_norm), weights, rtol=1e-12)


def test_degenerate_closed_form_weights():
    np.testing.assert_array_equal(lp_weights(np.array([0.3, 2.0]), np.inf), [1.0, 1.0])
    np.testing.assert_allclose(lp_weights(np.zeros(4), 2.0), 0.5)
    np.testing.assert_allclose(lp_weights(np.array([0.0, 2.0]), 1.0), [0.0, 1.0])


@pytest.mark.parametrize("p_norm", [*NORMS, np.inf])
def test_projection_for_a_norm_is_on_its_weights(rng, p_norm):
    """Nothing of the set is nearer; on the simplex the sum is one even from inside."""
    project = projection_for(p_norm)
    inside = np.array([0.1, 0.3, 0.2])
    expected = inside + 0.4 / 3 if p_norm == 1.0 else inside
    np.testing.assert_allclose(project(inside), expected, rtol=1e-12)
    outside = np.array([3.0, -1.0, 2.0])
    found = project(outside)
    assert np.linalg.norm(found, p_norm) == pytest.approx(1.0, rel=1e-9)
    for _ in range(50):
        other = rng.random(3)
        other /= np.linalg.norm(other, p_norm)
        assert (outside - found) @ (other - found) <= 1e-8


@pytest.mark.parametrize("p_norm", [1.1, 2.0, 4.0, np.inf])
@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.5, 1e9])
def test_dual_norm_of_any_size(rng, p_norm, size):
    values = size * np.array([1.0, 0.3, 0.7])
    order = 1.0 if p_norm == np.inf else p_norm / (p_norm - 1.0)
    assert dual_norm(values, p_norm) == pytest.approx(np.linalg.norm(values, order), rel=1e-12)
    assert dual_norm(-values, p_norm) == -0.3 * size  # the largest, where none is positive


@pytest.mark.parametrize("p_norm", [1.0, 2.0])
def test_gap_is_the_difference_of_primal_and_dual_values(rng, p_norm):
    """Half the largest weighted sum of quadratic forms, minus half that at the weights, plus the inner gaps."""
    stack, targets = problem(rng, n_tasks=2)
    weights = projection_for(p_norm)(rng.random(3))
    fit = fit_at(stack, targets, Hinge(2.0), weights, 1e-2)
    points = rng.dirichlet(np.full(3, 0.3), size=20_000)
    points /= np.linalg.norm(points, p_norm, axis=1, keepdims=True)
    largest = (points @ fit.quadratics).max()
    inner = sum(solution.gap for solution in fit.solutions)
    assert inner > 0.0
    assert outer_gap(fit, p_norm) == pytest.approx(
        0.5 * (largest - weights @ fit.quadratics) + inner, rel=1e-3
    )


@pytest.fixture
def stack(rng):
    return DenseStack(random_kernels(rng, 30, 12))


def sparse_vector(rng, n_samples, n_support):
    vector = np.zeros(n_samples)
    vector[rng.permutation(n_samples)[:n_support]] = rng.normal(size=n_support)
    return vector


@pytest.mark.heavy
def test_moving_combination_is_the_combination(rng, stack):
    moving = MovingCombination(stack)
    weights = rng.dirichlet(np.ones(12))
    for step in range(300):
        direction = rng.normal(size=12) * (rng.random(12) < rng.choice([0.1, 0.5, 1.0]))
        for length in (1.0, 0.3, 0.01, 3.0, 1e-7):  # along one line, as in a line search
            assert_same(
                moving(weights + length * direction), stack.combine(weights + length * direction), 1e-9
            )
        weights = np.abs(weights + 0.3 * direction) if step % 7 else np.zeros(12)


def test_rounding_does_not_build_up_on_a_long_walk(rng, stack):
    """Every point lies beyond the last two, so that a line through them would be followed for ever."""
    moving, direction = MovingCombination(stack), rng.normal(size=12)
    start = 20.0 + rng.random(12)
    for step in 1.5 ** np.arange(-20, 6):
        assert_same(moving(start + step * direction), stack.combine(start + step * direction), 1e-9)


@pytest.mark.parametrize("n_tasks", [1, 3])
def test_support_quadratics_are_the_quadratic_forms(rng, stack, n_tasks):
    remembering = SupportQuadratics(stack)
    some = np.array([1, 4, 7])
    for n_support in (5, 7, 2, 20, 6, 6, 8, 30, 3):
        vectors = np.stack([sparse_vector(rng, 30, n_support) for _ in range(n_tasks)])
        expected = sum(stack.quadratic(vector) for vector in vectors)
        assert_same(remembering(vectors), expected, SAME_FORMULA)
        assert_same(remembering.among(some)(vectors), expected[some], SAME_FORMULA)
