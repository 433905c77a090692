"""Descents on functions with known minima, and how they end."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.localized.lmkl import SOLVERS, descend

EVERY = pytest.mark.parametrize("solver", SOLVERS)


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


@EVERY
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


@EVERY
def test_curved_valley_is_followed_down(solver):
    evaluate, _ = counted(
        lambda at: 1.0 + scipy.optimize.rosen(at), lambda at: np.asarray(scipy.optimize.rosen_der(at))
    )
    found = descend(evaluate, evaluate(np.array([-1.2, 1.0])), solver, 1e-10, 3000)
    assert np.all(np.diff(found.history) <= 0.0)
    assert found.end.objective < (1.0 + 1e-8 if solver == "lbfgs" else 1.3)


@EVERY
def test_stops_when_a_step_pays_less_than_the_tolerance(rng, solver):
    value, gradient, center = quadratic(rng)
    evaluate, _ = counted(value, gradient)
    found = descend(evaluate, evaluate(center + 3.0), solver, 0.02, 500)
    gains = -np.diff(found.history) / np.array(found.history[1:])
    assert found.outcome is Outcome.CONVERGED
    assert np.all(gains[:-1] > 0.02)
    assert gains[-1] <= 0.02


@EVERY
def test_a_flat_start_is_the_end(solver):
    evaluate, asked = counted(lambda at: 5.0, np.zeros_like)
    start = evaluate(np.ones(3))
    found = descend(evaluate, start, solver, 1e-3, 10)
    assert found.end is start
    assert found.outcome is Outcome.CONVERGED
    assert len(asked) == 1


@EVERY
def test_a_plain_whose_slope_cannot_be_squared_is_the_end(solver):
    """Gradients of 1e-201, as sharp gates have them, are no direction: a step divided by their square is NaN."""

    def value(at):
        return 5.0 + float(np.where(at > 2.0, at - 2.0, 1e-201 * at).sum())

    evaluate, asked = counted(value, lambda at: np.where(at > 2.0, 1.0, 1e-201))
    found = descend(evaluate, evaluate(np.full(2, 2.5)), solver, 1e-3, 10)
    assert all(np.isfinite(at).all() for at in asked)
    assert found.end.objective == pytest.approx(5.0)
    assert found.outcome is Outcome.CONVERGED


@EVERY
def test_a_gradient_of_the_wrong_sign_is_not_taken_for_convergence(rng, solver):
    value, gradient, center = quadratic(rng)
    evaluate, _ = counted(value, lambda at: -gradient(at))
    start = evaluate(center + 3.0)
    found = descend(evaluate, start, solver, 1e-6, 10)
    assert found.outcome is Outcome.NOT_IMPROVING
    assert found.end.objective <= start.objective


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


def test_original_search_halves_on_where_a_unit_move_crosses_a_valley():
    """The unit move ends lower by .002 of 1.5, on the other side; half of it reaches the bottom."""
    evaluate, asked = counted(lambda at: 1.0 + float(abs(at[0] - 0.501)), lambda at: np.sign(at - 0.501))
    found = descend(evaluate, evaluate(np.zeros(1)), "paper", 0.01, 10)
    assert [float(at[0]) for at in asked[:4]] == [0.0, 1.0, 2.0, 0.5]
    assert found.end.objective < 1.01
    assert found.outcome is Outcome.CONVERGED


@EVERY
def test_noise_in_the_objective_ends_a_descent_after_few_evaluations(rng, solver):
    value, gradient, center = quadratic(rng)
    evaluate, asked = counted(lambda at: value(at) + 0.01 * rng.normal(), gradient)
    found = descend(evaluate, evaluate(center + 3.0), solver, 1e-6, 500)
    assert np.all(np.diff(found.history) <= 0.0)
    assert value(found.end.parameters) < 1.1
    assert len(asked) < len(found.history) * 4 + 25
