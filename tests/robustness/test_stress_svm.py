"""Support vector machines from C = 1e-6 to 1e6, against the best of all active sets and optimality conditions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import random_kernels, random_labels
from verdicts import quietly

from bayesmkl.discriminative.svm import libsvm
from bayesmkl.discriminative.svm.libsvm import (
    BoxProblem,
    classification_box,
    regression_box,
    solve_box,
    solve_svm,
    solve_svr,
)
from bayesmkl.discriminative.svm.native import native_kernel
from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel, scores
from bayesmkl.kernels import Linear, Polynomial

pytestmark = [pytest.mark.family("numbers under stress"), pytest.mark.heavy]

PRICES = [1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6]
KINDS = ["smooth", "line", "near identity", "equal samples"]


def kernel_of(kind, rng, n_samples):
    match kind:
        case "line":  # rank one: classes overlap, and duals go to their bounds however large these are
            return np.outer(*[rng.normal(size=n_samples)] * 2)
        case "equal samples":
            half = np.arange(n_samples) // 2
            return random_kernels(rng, n_samples, 1)[0][np.ix_(half, half)]
    return random_kernels(rng, n_samples, 1, kind)[0]


def best_active_set(kernel, signs, linear, bounds, is_regression=False):
    """Return the largest value of p'x - v'Kv/2 over 0 <= x <= c with sum(v) = 0, v = s x, and the scores.

    Every dual is at 0, at its bound or in between. For each choice the duals in between solve a linear system; a
    choice with a regular one is among the best, and the best of those that are feasible is the optimum.
    """
    n, best, found = len(linear), -np.inf, None
    matrix = signs[:, None] * kernel * signs
    for choice in itertools.product((0, 1, 2), repeat=n):
        state = np.array(choice)
        if is_regression and (state[: n // 2] * state[n // 2 :]).any():
            continue  # one of the two duals of a sample is zero
        free, fixed = np.flatnonzero(state == 1), np.where(state == 2, bounds, 0.0)
        x = fixed.copy()
        if free.size:
            system = np.zeros((free.size + 1, free.size + 1))
            system[:-1, :-1] = matrix[np.ix_(free, free)]
            system[-1, :-1] = system[:-1, -1] = signs[free]
            if np.linalg.cond(system) > 1e12:
                continue
            right = np.append(linear[free] - matrix[free] @ fixed, -signs @ fixed)
            x[free] = np.linalg.solve(system, right)[:-1]
        inside = (x >= -1e-12 * bounds).all() and (x <= bounds * (1.0 + 1e-12)).all()
        if not inside or abs(signs @ x) > 1e-9 * bounds.max():
            continue
        value = linear @ x - 0.5 * x @ matrix @ x
        if value > best:
            best, found = value, kernel @ (signs * x)
    return best, found


def assert_kkt(kernel, target, bounds, solution, tolerance):
    """Check box, balance, and on which side of the margin each sample is."""
    alpha, size = solution.signed_dual * target, np.abs(solution.signed_dual).max()
    assert alpha.min() >= 0.0
    assert (alpha <= bounds * (1.0 + 1e-12)).all()
    assert abs(solution.signed_dual.sum()) <= 1e-10 * size * len(alpha)
    margin = target * (kernel @ solution.signed_dual + solution.intercept) - 1.0
    inside = 1e-7 * alpha.max()
    assert margin[alpha <= inside].min(initial=np.inf) >= -tolerance
    assert margin[alpha >= bounds - inside].max(initial=-np.inf) <= tolerance
    assert np.abs(margin[(alpha > inside) & (alpha < bounds - inside)]).max(initial=0.0) <= tolerance


@pytest.mark.parametrize("C", PRICES)
@pytest.mark.parametrize("kind", KINDS)
def test_classifier_is_the_best_active_set(rng, kind, C):
    n = 6
    kernel, y = kernel_of(kind, rng, n), np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    value, expected = best_active_set(kernel, y, np.ones(n), np.full(n, C))
    solution = quietly(lambda: solve_svm(kernel, y, C, tol=1e-9))
    assert solution.objective == pytest.approx(value, rel=1e-8)
    assert 0.0 <= solution.gap + 1e-12 * value <= 2e-6 * value
    size = np.abs(expected).max()
    np.testing.assert_allclose(kernel @ solution.signed_dual, expected, atol=3e-5 * max(size, 1.0))
    assert_kkt(kernel, y, np.full(n, C), solution, 1e-5)


@pytest.mark.parametrize("C", PRICES[::2])
@pytest.mark.parametrize("kind", KINDS)
def test_margins_and_bounds_of_their_own_are_the_best_active_set(rng, kind, C):
    n = 6
    kernel, y = kernel_of(kind, rng, n), np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    bounds, linear = C * rng.uniform(0.3, 3.0, size=n), rng.uniform(-0.5, 2.0, size=n)
    value, expected = best_active_set(kernel, y, linear, bounds)
    solution = quietly(lambda: solve_svm(kernel, y, bounds, tol=1e-9, linear=linear))
    assert solution.objective == pytest.approx(value, rel=1e-6)
    size = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(kernel @ solution.signed_dual, expected, atol=1e-4 * size)


@pytest.mark.parametrize("C", PRICES)
@pytest.mark.parametrize(("kind", "epsilon"), [("smooth", 0.0), ("line", 0.3), ("equal samples", 0.1)])
def test_regression_is_the_best_active_set(rng, kind, epsilon, C):
    n = 4
    kernel, target = kernel_of(kind, rng, n), rng.normal(size=n)
    signs = np.repeat([1.0, -1.0], n)
    both, linear = np.tile(kernel, (2, 2)), signs * np.tile(target, 2) - epsilon
    value, expected = best_active_set(both, signs, linear, np.full(2 * n, C), is_regression=True)
    solution = quietly(lambda: solve_svr(kernel, target, C, epsilon, tol=1e-9))
    assert solution.objective == pytest.approx(value, rel=1e-6, abs=1e-12)
    assert 0.0 <= solution.gap + 1e-9 * value <= 1e-4 * value + 1e-12 * C
    size = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(kernel @ solution.signed_dual, expected[:n], atol=1e-4 * size)
    assert np.abs(solution.signed_dual).max() <= C * (1.0 + 1e-12)


# ------------------------------------------------------------------------------- where LibSVM comes to no end


def primal(kernel, y, C, solution):
    slack = np.maximum(0.0, 1.0 - y * (kernel @ solution.signed_dual + solution.intercept))
    return 0.5 * solution.signed_dual @ kernel @ solution.signed_dual + C * slack.sum()


@pytest.mark.parametrize("n_samples", [20, 200])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_overlapping_classes_on_a_line_at_large_bounds(rng, n_samples, tol):
    """Steps of LibSVM shrink without end here; value and gap are what the primal says."""
    x, y, C = rng.normal(size=n_samples), random_labels(rng, n_samples), 1e6
    kernel = np.outer(x, x)
    solution = quietly(lambda: solve_svm(kernel, y, C, tol))
    # in one dimension: all slopes and thresholds of the best line, by the breakpoints of a piecewise linear loss
    best = min(
        0.5 * slope**2 + C * np.maximum(0.0, 1.0 - y * (slope * x + shift)).sum()
        for slope in np.linspace(-3.0, 3.0, 121)
        for shift in np.linspace(-2.0, 2.0, 81)
    )
    allowed = 1e-8 * best  # rounding: duals of 1e6 cancel to scores of one
    assert primal(kernel, y, C, solution) <= best + allowed
    assert 0.0 <= solution.gap <= allowed
    assert solution.objective <= best * (1.0 + 1e-9)
    assert solution.objective + solution.gap == pytest.approx(primal(kernel, y, C, solution), rel=1e-9)


def test_the_interior_point_method_is_what_takes_over(rng, monkeypatch):
    called = []
    monkeypatch.setattr(libsvm, "solve_box", lambda box: called.append(box) or solve_box(box))
    monkeypatch.setattr(libsvm, "MOST_STEPS_OF_FEW", 5)
    kernel, y, target = kernel_of("smooth", rng, 30), random_labels(rng, 30), rng.normal(size=30)
    linear = rng.uniform(-0.5, 2.0, size=30)
    cut_short = (
        solve_svm(kernel, y, 3.0),
        solve_svm(kernel, y, 3.0, linear=linear),
        solve_svr(kernel, target, 3.0, 0.1),
    )
    assert len(called) == 3
    monkeypatch.undo()
    ended = (
        solve_svm(kernel, y, 3.0, 1e-9),
        solve_svm(kernel, y, 3.0, 1e-9, linear),
        solve_svr(kernel, target, 3.0, 0.1, 1e-9),
    )
    for one, other in zip(cut_short, ended, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-7)
        assert one.gap <= 1e-9 * one.objective
        np.testing.assert_allclose(
            kernel @ one.signed_dual + one.intercept, kernel @ other.signed_dual + other.intercept, atol=1e-4
        )


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kind", ["smooth", "line", "near identity"])
def test_interior_points_satisfy_the_optimality_conditions(rng, kind, C):
    n = 40
    kernel, y, target = kernel_of(kind, rng, n), random_labels(rng, n), rng.normal(size=n)
    v, intercept = solve_box(classification_box(kernel, y, C))
    found = libsvm.InnerSolution(v, intercept, 0.0, 0.0)
    assert_kkt(kernel, y, np.full(n, C), found, 1e-6)
    value = y @ v - 0.5 * v @ kernel @ v
    assert primal(kernel, y, C, found) - value <= 1e-5 * value
    v, intercept = solve_box(regression_box(kernel, target, C, 0.2))
    assert np.abs(v).max() <= C * (1.0 + 1e-12)
    residuals = np.abs(target - kernel @ v - intercept)
    assert residuals[np.abs(v) < 1e-7 * np.abs(v).max()].max(initial=0.0) <= 0.2 + 1e-6
    assert residuals[np.abs(v) > C * (1.0 - 1e-7)].min(initial=np.inf) >= 0.2 - 1e-6


def test_interior_points_of_one_sample_per_class_and_of_no_kernel():
    kernel, y = np.eye(2), np.array([-1.0, 1.0])
    v, intercept = solve_box(classification_box(kernel, y, 1e3))
    np.testing.assert_allclose(v, y, rtol=1e-9)
    assert intercept == pytest.approx(0.0, abs=1e-9)
    v, intercept = solve_box(
        BoxProblem(np.zeros((3, 3)), np.array([[-1.0, 1.0, 1.0]]), np.ones((1, 3)), np.ones(3))
    )
    assert v[0] == pytest.approx(-1.0)
    assert v[1:].sum() == pytest.approx(1.0)
    assert intercept == pytest.approx(1.0, abs=1e-6)  # the larger class pays nothing


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2)], ids=str)
def test_svms_on_samples_come_to_an_end_too(rng, kernel):
    """Native kernels of low rank at a large bound, against the machine on the matrix."""
    X, y, target = rng.normal(size=(60, 2)), random_labels(rng, 60), rng.normal(size=60)
    native, matrix = native_kernel(kernel, X), PrecomputedKernel(kernel(X, X))
    for of_samples, of_matrix in [
        (native.classify(y, 1e6, 1e-3), matrix.classify(y, 1e6, 1e-3)),
        (native.regress(target, 1e6, 0.1, 1e-3), matrix.regress(target, 1e6, 0.1, 1e-3)),
    ]:
        np.testing.assert_allclose(scores(native, of_samples), scores(matrix, of_matrix), atol=1e-4)
