"""Sums and quadratic forms that remember, against the stack's own."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, random_kernels, random_labels

from bayesmkl.discriminative.outer import fit_at, outer_gap
from bayesmkl.discriminative.svm.evaluator import (
    Evaluator,
    Goal,
    MovingCombination,
    ShrinkingQuadratics,
    SupportQuadratics,
)
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.dense import DenseStack


class CountingStack(DenseStack):
    """Counts passes over all kernels."""

    passes = 0

    def combine(self, weights):
        CountingStack.passes += 1
        return super().combine(weights)


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


def test_shrinking_quadratics_are_up_to_date_where_weights_are(rng, stack):
    stack = DenseStack(stack.kernels * np.repeat([1.0, 0.1], [4, 8])[:, None, None])
    shrinking = ShrinkingQuadratics(stack)
    stale = 0
    for step in range(40):
        weights = np.zeros(12)
        weights[[0, 1, step % 3]] = 1.0
        vectors = sparse_vector(rng, 30, 6)[None]
        expected, found = stack.quadratic(vectors[0]), shrinking(vectors, weights)
        assert_same(found[weights > 0], expected[weights > 0], SAME_FORMULA)
        stale += not np.allclose(found, expected)
        if step % 9 == 0:
            assert_same(shrinking.refresh(vectors, weights), expected, SAME_FORMULA)
    assert stale > 5  # or nothing was saved


def test_evaluator_is_the_fit_at_the_same_weights(rng):
    stack, targets = (
        DenseStack(random_kernels(rng, 40, 5)),
        np.array([random_labels(rng, 40) for _ in range(2)]),
    )
    goal = Goal(lambda fit: fit.objective, lambda fit: outer_gap(fit, 1.0) - fit.inner_gap, 1e-5)
    evaluate = Evaluator(stack, targets, Hinge(2.0), goal)
    for _ in range(10):
        weights = rng.dirichlet(np.ones(5))
        found, expected = evaluate(weights), fit_at(stack, targets, Hinge(2.0), weights, 1e-9)
        gap = goal.gap(found)
        assert found.inner_gap <= 0.1 * max(gap, 1e-5 * found.objective)
        assert found.objective == pytest.approx(expected.objective, abs=0.1 * gap + 1e-6)
    assert evaluate.n_solves >= 20


def test_lower_bounds_hold_wherever_they_were_met(rng):
    stack, targets = DenseStack(random_kernels(rng, 40, 5)), random_labels(rng, 40)[None]
    goal = Goal(lambda fit: fit.objective, lambda fit: outer_gap(fit, 1.0) - fit.inner_gap, 1e-5)
    evaluate = Evaluator(stack, targets, Hinge(2.0), goal)
    points = rng.dirichlet(np.ones(5), size=50)
    fits = [evaluate(weights) for weights in points]
    gaps = [evaluate.gap(fit) for fit in fits]
    bounds = [fit.objective + fit.inner_gap - gap for fit, gap in zip(fits, gaps, strict=True)]
    assert max(bounds) <= min(fit.objective + fit.inner_gap for fit in fits)
    own = max(fit.objective - goal.gap(fit) for fit in fits)
    assert bounds[-1] == pytest.approx(own, rel=1e-9)  # the best of all of them, at every point
