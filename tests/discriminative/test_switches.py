"""The integer step against brute force and a mixed-integer solver, and what it must never do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesmkl.discriminative.localized.samkl import choose_switches


def random_instances(rng, n_kernels, n_samples, kind):
    """Contributions, requirements, h0, budget and h0 again as previous switches, a third of them infeasible."""
    if kind == "ties":  # exact in floating point, many equal sums and equalities in the constraint
        contributions = rng.integers(-3, 5, size=(n_kernels, n_samples)).astype(float)
        requirements = rng.integers(-6, 3 * n_kernels, size=n_samples).astype(float)
    else:
        contributions = rng.normal(0.2, 1.0, size=(n_kernels, n_samples))
        requirements = rng.normal(0.4 * n_kernels, 0.5 * n_kernels, size=n_samples)
    initial = rng.random(n_kernels) < rng.choice([0.3, 0.7, 1.0])
    max_switches = int(rng.integers(0, n_kernels + 1))
    previous = np.repeat(initial[:, None], n_samples, axis=1)
    return contributions, requirements, initial, max_switches, previous


def enumerate_best(contributions, requirement, initial, max_switches):
    """The fewest switches, then the largest sum, by trying all; None if nothing is feasible."""
    best = None
    for h in product([False, True], repeat=len(contributions)):
        h = np.array(h)
        total = contributions[h].sum()
        if np.sum(h != initial) <= max_switches and total >= requirement - 1e-9:
            key = (h.sum(), -round(total, 9))
            best = key if best is None else min(best, key)
    return best


def solve_milp(contributions, requirement, initial, max_switches):
    """Objective of eq. 15 by HiGHS; None if it is infeasible."""
    n_kernels = len(contributions)
    result = milp(
        np.ones(n_kernels),
        integrality=np.ones(n_kernels),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(contributions[None], requirement - 1e-9),
            LinearConstraint(1.0 - 2.0 * initial[None], ub=max_switches - initial.sum()),
        ],
    )
    return round(result.fun) if result.status == 0 else None


def assert_feasible(switches, contributions, requirements, initial, max_switches):
    assert ((switches != initial[:, None]).sum(axis=0) <= max_switches).all()
    slack = (contributions * switches).sum(axis=0) - requirements
    assert (slack >= -1e-8 * np.maximum(1.0, np.abs(requirements))).all()


@pytest.mark.parametrize("kind", ["smooth", "ties"])
@pytest.mark.parametrize("n_kernels", [1, 2, 5, 7])
def test_brute_force_fewest_kernels_then_largest_sum(rng, kind, n_kernels):
    n_found = 0
    for _ in range(8):
        instance = random_instances(rng, n_kernels, 10, kind)
        contributions, requirements, initial, max_switches, previous = instance
        marked = ~previous  # kept exactly where nothing is feasible
        switches = choose_switches(contributions, requirements, initial, max_switches, marked)
        for i in range(10):
            expected = enumerate_best(contributions[:, i], requirements[i], initial, max_switches)
            if expected is None:
                np.testing.assert_array_equal(switches[:, i], marked[:, i])
                continue
            n_found += 1
            chosen = switches[:, i]
            assert (chosen.sum(), -round(contributions[chosen, i].sum(), 9)) == expected
            assert (chosen != initial).sum() <= max_switches
    assert n_found > 20


def compare_with_milp(rng, n_instances, sizes):
    n_feasible = 0
    for number in range(n_instances):
        kind = ("smooth", "ties")[number % 2]
        contributions, requirements, initial, max_switches, previous = random_instances(
            rng, int(rng.choice(sizes)), 1, kind
        )
        nothing = np.zeros_like(previous)
        switches = choose_switches(contributions, requirements, initial, max_switches, nothing)
        expected = solve_milp(contributions[:, 0], requirements[0], initial, max_switches)
        if expected is None:
            assert not switches.any()
            continue
        n_feasible += 1
        assert switches.sum() == expected
        assert_feasible(switches, contributions, requirements, initial, max_switches)
    assert 0.3 * n_instances < n_feasible < 0.97 * n_instances


@pytest.mark.heavy
def test_other_solver_agrees_on_objective_and_feasibility(rng):
    compare_with_milp(rng, 300, sizes=[3, 8, 12])


@pytest.mark.slow
def test_other_solver_agrees_on_objective_and_feasibility_up_to_69_kernels(rng):
    compare_with_milp(rng, 1000, sizes=[3, 8, 12, 25, 69])


def test_feasible_numbers_are_an_interval_that_need_not_begin_at_zero():
    # nothing or one off: too little; the three negative ones off: just enough; one more off: too little again
    contributions = np.array([[-1.0], [-1.0], [-1.0], [2.0], [1.5]])
    previous = np.zeros((5, 1), dtype=bool)
    on = np.ones(5, dtype=bool)
    for budget, expected in [(2, [0, 0, 0, 0, 0]), (3, [0, 0, 0, 1, 1]), (5, [0, 0, 0, 1, 1])]:
        switches = choose_switches(contributions, np.array([3.5]), on, budget, previous)
        np.testing.assert_array_equal(switches[:, 0], expected)


def test_kernels_enter_only_if_they_help():
    contributions = np.array([[0.2], [3.0], [-1.0], [0.0]])
    initial = np.array([True, False, False, False])
    previous = np.repeat(initial[:, None], 1, axis=1)
    # 3.0 enters for 0.2, at the same number of kernels and with a larger sum
    switches = choose_switches(contributions, np.array([0.1]), initial, 2, previous)
    np.testing.assert_array_equal(switches[:, 0], [0, 1, 0, 0])
    # no room to exchange: nothing but to stay
    switches = choose_switches(contributions, np.array([0.1]), initial, 1, previous)
    np.testing.assert_array_equal(switches[:, 0], [1, 0, 0, 0])


def test_without_budget_the_initial_switches_stay_or_the_previous_ones_are_kept():
    contributions = np.ones((3, 2))
    initial = np.array([True, False, True])
    previous = np.array([[False, True], [True, True], [True, True]])
    switches = choose_switches(contributions, np.array([2.0, 2.5]), initial, 0, previous)
    np.testing.assert_array_equal(switches, [[1, 1], [0, 1], [1, 1]])


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_previous_switches_are_feasible_in_spite_of_rounding(rng, scale):
    contributions = scale * rng.normal(0.3, 1.0, size=(30, 400))
    only_feasible = contributions > 0.0
    # the same sums in another order: some come out larger by a unit in the last place
    requirements = np.array([sum(c[c > 0.0][::-1]) for c in contributions.T])
    assert (requirements > np.where(only_feasible, contributions, 0.0).sum(axis=0)).any()
    refused = np.zeros_like(only_feasible)
    switches = choose_switches(contributions, requirements, np.ones(30, dtype=bool), 30, refused)
    np.testing.assert_array_equal(switches, only_feasible)


def test_of_equally_good_choices_the_one_with_the_fewest_changes_is_taken():
    contributions = np.array([[1.0, 1.0], [1.0, 2.0]])
    initial = np.array([True, False])
    switches = choose_switches(contributions, np.array([0.5, 0.5]), initial, 2, np.ones((2, 2), dtype=bool))
    np.testing.assert_array_equal(switches, [[1, 0], [0, 1]])  # no exchange of equals


@pytest.mark.parametrize("requirement", [25.0, 10.0, 1.0])
def test_of_equal_kernels_those_that_come_first_are_switched(requirement):
    n_kernels, n_samples = 60, 3  # more than any sort takes in the order in which they come by itself
    contributions, budget = np.ones((n_kernels, n_samples)), n_kernels
    previous = np.zeros((n_kernels, n_samples), dtype=bool)
    required = np.full(n_samples, requirement)
    leaving = choose_switches(contributions, required, np.ones(n_kernels, dtype=bool), budget, previous)
    expected = np.arange(n_kernels) >= n_kernels - requirement  # the first ones left
    np.testing.assert_array_equal(leaving, np.repeat(expected[:, None], n_samples, axis=1))
    first = np.arange(n_kernels) == n_kernels - 1
    contributions[-1] = 0.0  # on at first, and of no use
    entering = choose_switches(contributions, required, first, budget, previous)
    np.testing.assert_array_equal(
        entering, np.repeat(np.arange(n_kernels)[:, None] < requirement, n_samples, 1)
    )


@pytest.mark.parametrize("kind", ["normal", "ties"])
@pytest.mark.parametrize("ties", ["smallest", "random"])
def test_ties_need_as_many_kernels_and_keep_the_slack(rng, kind, ties):
    for n_kernels in (3, 6, 9):
        given = random_instances(rng, n_kernels, 40, kind)
        contributions, requirements, initial, max_switches, _ = given
        largest, other = choose_switches(*given), choose_switches(*given, ties, rng)
        np.testing.assert_array_equal(other.sum(axis=0), largest.sum(axis=0))
        sums = [(contributions * h).sum(axis=0) for h in (largest, other)]
        assert (sums[1] <= sums[0] + 1e-12).all()
        met = sums[0] >= requirements - 1e-8
        assert_feasible(other[:, met], contributions[:, met], requirements[met], initial, max_switches)


def test_smallest_is_the_smallest_sum_of_one_switch(rng):
    for kind in ("normal", "ties"):
        contributions, requirements, *_ = random_instances(rng, 7, 60, kind)
        on = np.ones(7, dtype=bool)
        found = choose_switches(
            contributions, requirements, on, 1, np.ones(contributions.shape, bool), "smallest"
        )
        without = contributions.sum(axis=0) - contributions
        possible = np.where(without >= requirements - 1e-9, without, np.inf).min(axis=0)
        off = ~found.all(axis=0)
        np.testing.assert_array_equal(off, np.isfinite(possible))
        np.testing.assert_allclose((contributions * found).sum(axis=0)[off], possible[off], atol=1e-12)


def test_random_ties_follow_the_seed(rng):
    contributions, on = rng.random((8, 50)), np.ones(8, dtype=bool)
    given = (contributions, np.full(50, 1.0), on, 3, np.ones((8, 50), dtype=bool), "random")
    one, same, other = (choose_switches(*given, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
