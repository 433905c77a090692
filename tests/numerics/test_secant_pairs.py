"""Secant pairs against the formula with matrices."""

from __future__ import annotations

import numpy as np

from bayesmkl.bemkl.newton import SecantPairs


def test_direction_is_that_of_updated_inverses(rng):
    """Nocedal and Wright's (7.16), pair after pair, on the inverse of what is solved with."""
    n = 6
    A = np.cov(rng.normal(size=(n, 40))) + np.eye(n)
    start = np.diag(rng.uniform(1.0, 2.0, n))
    pairs, points = SecantPairs.none(n), rng.normal(size=(5, n))
    for point in points:
        pairs = pairs.at(point, -A @ point)
    inverse = np.linalg.inv(start)
    for step, fall in zip(pairs.steps, pairs.falls, strict=True):
        left = np.eye(n) - np.outer(fall, step) / (step @ fall)
        inverse = left.T @ inverse @ left + np.outer(step, step) / (step @ fall)
    found = pairs.direction(lambda slope: np.linalg.solve(start, slope))
    np.testing.assert_allclose(found, inverse @ pairs.slope, rtol=1e-10)
    np.testing.assert_allclose(inverse @ pairs.falls[-1], pairs.steps[-1], rtol=1e-10)  # the secant equation


def test_pairs_along_which_slopes_rise_are_left_out_and_old_ones_are_forgotten(rng, monkeypatch):
    monkeypatch.setattr("bayesmkl.bemkl.newton.DEPTH", 2)
    pairs, x = SecantPairs.none(3), np.zeros(3)
    pairs = pairs.at(x, np.ones(3)).at(x + 1.0, np.full(3, 2.0))
    assert len(pairs.steps) == 0
    np.testing.assert_array_equal(pairs.direction(lambda slope: slope), pairs.slope)
    for k in range(4):
        pairs = pairs.at(np.full(3, 2.0 + k), np.full(3, 1.0 - k))
    assert len(pairs.steps) == 2
    np.testing.assert_array_equal(pairs.point, np.full(3, 5.0))
