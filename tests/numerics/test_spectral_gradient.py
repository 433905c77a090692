"""Spectral projected gradients against SciPy, optimality conditions and functions with known minima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_lp_ball, project_simplex
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg


def quadratic(rng, size, condition=1e3):
    """Return f(x) = x'Ax/2 - b'x with eigenvalues from 1 to `condition`."""
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    matrix = basis * np.geomspace(1.0, condition, size) @ basis.T
    linear = matrix @ rng.normal(size=size)
    return lambda x: (float(0.5 * x @ matrix @ x - linear @ x), matrix @ x - linear, None)


def logistic(rng, size):
    features, labels = rng.normal(size=(40, size)), np.where(rng.random(40) < 0.5, -1.0, 1.0)

    def function(x):
        margins = labels * (features @ x)
        gradient = -features.T @ (labels / (1.0 + np.exp(margins)))
        return float(np.logaddexp(0.0, -margins).sum()), gradient, margins

    return function


def scipy_minimum(function, start, **constraints):
    found = minimize(
        lambda x: function(x)[:2], start, jac=True, options={"maxiter": 2000, "ftol": 1e-15}, **constraints
    )
    return found.fun


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_other_library_box(rng, make):
    function = make(rng, 12)
    result = minimize_spg(function, lambda x: np.clip(x, -0.3, 0.4), np.zeros(12))
    expected = scipy_minimum(function, np.zeros(12), bounds=[(-0.3, 0.4)] * 12, method="L-BFGS-B")
    assert result.outcome is Outcome.CONVERGED
    assert result.value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("make", [quadratic, logistic])
def test_other_library_simplex(rng, make):
    function = make(rng, 10)
    result = minimize_spg(function, project_simplex, np.zeros(10))
    constraint = {"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": lambda x: np.ones(10)}
    expected = scipy_minimum(
        function, np.full(10, 0.1), bounds=[(0.0, 1.0)] * 10, constraints=constraint, method="SLSQP"
    )
    assert result.outcome in (
        Outcome.CONVERGED,
        Outcome.NOT_IMPROVING,
    )  # the latter at the rounding of the objective
    assert result.point.sum() == pytest.approx(1.0, rel=1e-12)
    assert (result.point >= 0.0).all()
    assert result.value == pytest.approx(expected, rel=1e-7)
    gradient = function(result.point)[1]
    assert gradient @ result.point - gradient.min() <= 1e-6 * max(1.0, np.abs(gradient).max())


@pytest.mark.parametrize("p_norm", [1.0, 1.1, 4.0 / 3.0, 2.0, 4.0])
def test_other_library_lp_ball(rng, p_norm):
    function = quadratic(rng, 8, 30.0)
    result = minimize_spg(function, lambda x: project_lp_ball(x, p_norm), np.ones(8))
    constraint = {"type": "ineq", "fun": lambda x: 1.0 - (np.maximum(x, 0.0) ** p_norm).sum()}
    expected = scipy_minimum(
        function, np.full(8, 0.05), bounds=[(0.0, 1.0)] * 8, constraints=constraint, method="SLSQP"
    )
    assert result.outcome is Outcome.CONVERGED
    assert result.value == pytest.approx(expected, rel=1e-5)
    assert (result.point**p_norm).sum() <= 1.0 + 1e-9


def test_degenerate_without_constraint_it_finds_the_known_minimum(rng):
    center = rng.normal(size=6)
    scales = np.geomspace(0.1, 10.0, 6)
    result = minimize_spg(
        lambda x: (float(0.5 * scales @ (x - center) ** 2), scales * (x - center), None),
        lambda x: x,
        np.zeros(6),
        SPGOptions(tol=1e-10),
    )
    np.testing.assert_allclose(result.point, center, atol=1e-7)


def test_one_step_suffices_where_the_start_is_stationary():
    calls = []

    def function(x):
        calls.append(x)
        return float(x.sum()), np.ones_like(x), "payload"

    result = minimize_spg(function, lambda x: np.maximum(x, 0.0), -np.ones(3))
    assert len(calls) == result.n_evaluations == 1
    assert (result.outcome, result.payload, result.history) == (Outcome.CONVERGED, "payload", (0.0,))


def test_iterations_run_out(rng):
    seen = []
    result = minimize_spg(
        quadratic(rng, 20, 1e6),
        lambda x: x,
        np.ones(20),
        SPGOptions(max_iter=7),
        on_step=lambda done, value, payload: seen.append((done, value)),
    )
    assert result.outcome is Outcome.MAX_ITER
    assert [done for done, _ in seen] == list(range(1, 8))
    assert tuple(value for _, value in seen) == result.history[1:]
    assert result.n_evaluations >= 8


def test_caller_decides_by_the_payload_when_it_is_finished(rng):
    function = logistic(rng, 5)
    result = minimize_spg(
        lambda x: (*function(x)[:2], function(x)[0]),
        lambda x: x,
        np.zeros(5),
        finished=lambda value: value < function(np.zeros(5))[0] - 0.1,
    )
    assert result.outcome is Outcome.CONVERGED
    assert result.payload == result.value == result.history[-1]
    assert len(result.history) == 2 or result.history[-2] >= result.history[0] - 0.1


def test_gradient_that_contradicts_the_values_ends_the_search():
    """Ascent directions: no step lowers the value, as when the noise of an inner solver is reached."""
    result = minimize_spg(lambda x: (float(x @ x), -2.0 * x, None), lambda x: x, np.ones(3))
    assert result.outcome is Outcome.NOT_IMPROVING
    np.testing.assert_array_equal(result.point, 1.0)


@pytest.mark.parametrize("factor", [2.0**60, 2.0**-60])
def test_unusual_units_of_the_value_change_no_digit(rng, factor):
    function = quadratic(rng, 8)
    first = function(np.full(8, 0.125))
    size = max(abs(first[0]), np.abs(first[1]).max())

    def scaled(by):
        return lambda x: (by / size * function(x)[0], by / size * function(x)[1], "payload")

    seen = []
    plain = minimize_spg(scaled(1.5), project_simplex, np.full(8, 0.125))
    other = minimize_spg(
        scaled(factor * 1.5), project_simplex, np.full(8, 0.125), on_step=lambda *step: seen.append(step)
    )
    np.testing.assert_allclose(other.point, plain.point, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.array(other.history) / factor, plain.history, rtol=1e-9)
    assert other.value / factor == pytest.approx(plain.value, rel=1e-12)
    assert other.n_evaluations == plain.n_evaluations
    assert seen == [(k, value, "payload") for k, value in enumerate(other.history)][1:]


def test_the_best_point_is_returned_wherever_the_iterations_run_out(rng):
    function = quadratic(rng, 20, 1e5)
    n_worse = 0
    for max_iter in range(1, 60):
        result = minimize_spg(function, lambda x: x, np.ones(20), SPGOptions(max_iter=max_iter, memory=5))
        assert result.value == min(result.history)
        assert result.value == pytest.approx(function(result.point)[0], rel=1e-12)
        n_worse += result.history[-1] > result.value
    assert n_worse > 0
