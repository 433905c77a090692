"""The loop: the bound never falls, every way to end, plain against accelerated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import (
    arrays_of,
    binary_problem,
    random_kernels,
    random_labels,
    step,
)

from bayesmkl._numerics.acceleration import Coordinate
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo

pytestmark = pytest.mark.heavy


def binary_start(problem):
    return bemkl.init(problem, np.ones(len(problem.y)))


@pytest.fixture
def problem(rng):
    n_samples = 12
    kernels = random_kernels(rng, n_samples, 3)
    return binary_problem(kernels, random_labels(rng, n_samples))


def test_plain_loop_is_exactly_the_chain_of_sweeps(problem):
    result = maximize_elbo(
        bemkl, problem, binary_start(problem), LoopOptions(max_iter=200, tol=0.0, accelerate=False)
    )
    state, bound = bemkl.sweep(problem, binary_start(problem))
    bounds = [bound]
    for _ in range(199):
        state, bound = step(bemkl, problem, state)
        bounds.append(bound)
    assert (result.n_iter, result.outcome, result.n_rejected) == (200, Outcome.MAX_ITER, 0)
    np.testing.assert_array_equal(result.elbo_history, bounds)
    for (name, found), (_, expected) in zip(arrays_of(result.state), arrays_of(state), strict=True):
        np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
@pytest.mark.parametrize("kind", ["zero", "constant", "identity", "smooth"])
def test_zero_tolerance_runs_every_sweep_even_at_rest(rng, kind, accelerate):
    shape = (2, 6, 6)
    kernels = {
        "zero": np.zeros(shape),
        "constant": np.ones(shape),
        "identity": np.eye(6) + np.zeros(shape),
        "smooth": random_kernels(rng, 6, 2),
    }[kind]
    problem = binary_problem(kernels, [1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    options = LoopOptions(max_iter=400, tol=0.0, accelerate=accelerate)
    result = maximize_elbo(bemkl, problem, binary_start(problem), options)
    assert (result.n_iter, result.outcome) == (400, Outcome.MAX_ITER)
    assert len(result.elbo_history) == 400


@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
def test_tolerance_ends_the_loop_at_the_optimum(problem, accelerate):
    best = maximize_elbo(bemkl, problem, binary_start(problem), LoopOptions(max_iter=20_000, tol=1e-14))
    options = LoopOptions(max_iter=20_000, tol=1e-7, accelerate=accelerate)
    result = maximize_elbo(bemkl, problem, binary_start(problem), options)
    assert result.outcome is Outcome.CONVERGED
    assert result.n_iter < 5000
    last = result.elbo_history[-1]
    assert np.diff(result.elbo_history)[-1] < 1e-7 * abs(last)
    assert best.elbo_history[-1] - last < (1e-4 if accelerate else 1e-2)


@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
def test_kernels_that_are_not_finite_end_the_loop_without_an_exception(rng, accelerate):
    kernels = random_kernels(rng, 6, 2)
    kernels[1, 2, 3] = np.nan
    problem = binary_problem(kernels, random_labels(rng, 6))
    options = LoopOptions(max_iter=10, accelerate=accelerate)
    result = maximize_elbo(bemkl, problem, binary_start(problem), options)
    assert result.outcome is Outcome.NOT_FINITE
    assert not result.outcome.converged


# ------------------------------------------------------------------------------- loop on algorithms made up here


class Point(NamedTuple):
    x: Any


def made_up(sweep):
    """Return an algorithm whose state is a point, with `sweep(x)` giving the next one and its bound."""

    def full_sweep(problem, start):
        x, bound = sweep(float(start.x[0]))
        return Point(np.array([x])), bound

    return SimpleNamespace(
        sweep=full_sweep,
        carry=lambda problem, state: state,
        COORDINATES=Point(Coordinate),
        scales=lambda state: Point(np.ones(1)),
    )


START = Point(np.array([0.0]))


def halfway(x):
    """Return the middle between x and 1, with the bound -|1 - x|: a linear map, at 1 after one extrapolation."""
    image = 0.5 * (1.0 + x)
    return image, -abs(1.0 - image)


def test_extrapolation_jumps_to_the_fixed_point_of_a_linear_map():
    options = LoopOptions(max_iter=4, tol=0.0)
    result = maximize_elbo(made_up(halfway), None, START, options)
    np.testing.assert_allclose(result.elbo_history[:3], [-0.5, -0.25, -0.125])
    assert abs(result.elbo_history[3]) < 1e-9
    assert result.n_rejected == 0


def test_tolerance_is_relative_to_the_bound_and_must_hold_three_times():
    """Sweep n gains 2^-n on a bound near -1000; 2^-10 is the first below 1e-6 of it, so the third is at n = 12."""

    def near_minus_thousand(x):
        image, bound = halfway(x)
        return image, bound - 1000.0

    options = LoopOptions(max_iter=50, tol=1e-6, accelerate=False)
    result = maximize_elbo(made_up(near_minus_thousand), None, START, options)
    assert (result.n_iter, result.outcome) == (12, Outcome.CONVERGED)


def test_extrapolations_that_lower_the_bound_are_dropped():
    def only_plain(x):
        image, bound = halfway(x)
        return image, bound if image in plain else -100.0

    plain, x = set(), 0.0
    for _ in range(30):
        x = halfway(x)[0]
        plain.add(x)
    result = maximize_elbo(made_up(only_plain), None, START, LoopOptions(max_iter=20, tol=0.0))
    assert result.n_rejected > 3
    assert (np.diff(result.elbo_history) >= 0.0).all()
    assert len(set(result.elbo_history)) == 20 - result.n_rejected
    assert float(result.state.x[0]) in plain
    assert result.elbo_history[-1] == halfway(2.0 * float(result.state.x[0]) - 1.0)[1]


@pytest.mark.parametrize("failure", ["exception", "nan"])
def test_extrapolations_that_fail_are_dropped(failure):
    def fragile(x):
        if x not in plain:
            if failure == "exception":
                raise np.linalg.LinAlgError("not positive definite")
            return x, float("nan")
        return halfway(x)

    plain, x = {0.0}, 0.0
    for _ in range(30):
        x = halfway(x)[0]
        plain.add(x)
    result = maximize_elbo(made_up(fragile), None, START, LoopOptions(max_iter=20, tol=0.0))
    assert result.outcome is Outcome.MAX_ITER
    assert result.n_rejected > 3
    assert np.isfinite(result.elbo_history).all()


@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
def test_a_plain_sweep_that_lowers_the_bound_ends_the_loop_with_the_best_state(accelerate):
    def rise_then_fall(x):
        return x + 1.0, -abs(x + 1.0 - 3.2)

    result = maximize_elbo(
        made_up(rise_then_fall), None, START, LoopOptions(max_iter=50, tol=0.0, accelerate=accelerate)
    )
    assert result.outcome is Outcome.NOT_IMPROVING
    assert result.elbo_history[-1] == result.elbo_history.max()
    assert result.elbo_history[-1] == pytest.approx(-abs(float(result.state.x[0]) - 3.2))


def test_a_bound_that_stops_being_finite_ends_the_loop_with_the_last_finite_state():
    def breaks(x):
        return x + 1.0, x if x < 2.5 else float("inf")

    result = maximize_elbo(made_up(breaks), None, START, LoopOptions(max_iter=50, tol=0.0, accelerate=False))
    assert result.outcome is Outcome.NOT_FINITE
    np.testing.assert_array_equal(result.elbo_history, [0.0, 1.0, 2.0])
    assert float(result.state.x[0]) == 3.0
