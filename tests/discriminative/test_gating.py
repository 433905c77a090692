"""Gates: chain rules against finite differences, limits, the unified view, and errors in gatings of users."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from helpers import SAME_FORMULA, assert_same, frozen

from bayesmkl.discriminative.gating import (
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
    check_gating,
)

N_KERNELS, N_SAMPLES, N_FEATURES, N_GROUPS = 4, 25, 3, 5
GATINGS = {
    "softmax": SoftmaxGating(init_scale=1.0),
    "sigmoid": SigmoidGating(init_scale=1.0),
    "gaussian": GaussianGating(width=1.5),
    "group": GroupGating(N_GROUPS, init_scale=1.0),
}
EVERY = pytest.mark.parametrize("name", GATINGS)


def make(rng, name):
    """Return a gating, features and parameters that are no special case."""
    gating = GATINGS[name]
    features = rng.normal(size=(N_SAMPLES, N_FEATURES))
    if name == "group":
        features = rng.integers(N_GROUPS, size=(N_SAMPLES, 1)).astype(float)
    parameters = gating.init(features, N_KERNELS, rng)
    return gating, frozen(features), frozen(parameters + 0.3 * rng.normal(size=parameters.shape))


def differences(function, at, step=1e-6):
    """Return central differences of a number by every coordinate."""
    steps = step * np.eye(at.size)
    return np.array([(function(at + move) - function(at - move)) / (2 * step) for move in steps])


@EVERY
def test_pullback_against_finite_differences(rng, name):
    gating, features, parameters = make(rng, name)
    slopes = frozen(rng.normal(size=(N_KERNELS, N_SAMPLES)))
    found = gating.pullback(parameters, features, slopes)
    expected = differences(lambda at: float((slopes * gating.gates(at, features)).sum()), parameters)
    assert found.shape == parameters.shape
    assert_same(found, expected, 1e-7)


@EVERY
def test_gates_of_rows_do_not_depend_on_other_rows(rng, name):
    gating, features, parameters = make(rng, name)
    gates = gating.gates(parameters, features)
    assert_same(gating.gates(parameters, features[3:5]), gates[:, 3:5], SAME_FORMULA)
    if name != "sigmoid":
        np.testing.assert_allclose(gates.sum(axis=0), 1.0, rtol=1e-12)


def test_softmax_gates_against_scipy_also_for_huge_scores(rng):
    features, rows = rng.normal(size=(6, 2)), 1e4 * rng.normal(size=(3, 3))
    expected = scipy.special.softmax(rows[:, :1] + rows[:, 1:] @ features.T, axis=0)
    np.testing.assert_allclose(SoftmaxGating().gates(rows.ravel(), features), expected, atol=1e-12)
    steep = SigmoidGating().gates(np.array([0.0, 1e5]), np.array([[-1.0], [0.0], [1.0]]))
    np.testing.assert_array_equal(steep, [[0.0, 0.5, 1.0]])


@pytest.mark.parametrize("width", [0.0, 1e-9, -1e-3])
def test_narrow_gaussian_gates_choose_the_nearest_center(rng, width):
    features, centers = rng.normal(size=(N_SAMPLES, 2)), rng.normal(size=(3, 2))
    parameters = np.column_stack([np.full(3, width), centers]).ravel()
    nearest = ((features[None] - centers[:, None]) ** 2).sum(axis=2).argmin(axis=0)
    np.testing.assert_allclose(GaussianGating().gates(parameters, features), np.eye(3)[:, nearest], atol=1e-9)
    pulled = GaussianGating().pullback(parameters, features, rng.normal(size=(3, N_SAMPLES)))
    assert np.isfinite(pulled).all()


def test_wide_gaussian_gates_are_equal(rng):
    features = rng.normal(size=(N_SAMPLES, 2))
    parameters = np.column_stack([np.full(3, 1e6), rng.normal(size=(3, 2))]).ravel()
    np.testing.assert_allclose(GaussianGating().gates(parameters, features), 1 / 3, rtol=1e-9)


def test_group_gates_are_softmax_gates_of_indicators(rng):
    gating, features, parameters = make(rng, "group")
    indicators = np.eye(N_GROUPS)[features[:, 0].astype(int)]
    rows = np.column_stack([np.zeros(N_KERNELS), parameters.reshape(N_GROUPS, N_KERNELS).T])
    slopes = rng.normal(size=(N_KERNELS, N_SAMPLES))
    assert_same(
        gating.gates(parameters, features), SoftmaxGating().gates(rows.ravel(), indicators), SAME_FORMULA
    )
    expected = SoftmaxGating().pullback(rows.ravel(), indicators, slopes).reshape(N_KERNELS, -1)[:, 1:].T
    assert_same(gating.pullback(parameters, features, slopes), expected.ravel(), SAME_FORMULA)


@EVERY
def test_check_accepts_the_gatings_of_the_package(rng, name):
    gating, features, _ = make(rng, name)
    check_gating(gating, features, N_KERNELS, rng)
