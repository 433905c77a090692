"""SILP: SimpleMKL's optimum by another road, bounds from both sides, degenerate cases, equivariance, recovery."""

from __future__ import annotations

import dual_reference
import numpy as np
import pytest
from helpers import assert_same, learn, random_kernels, random_labels

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative import SILPMKLClassifier, SimpleMKLClassifier
from bayesmkl.discriminative.global_weights.simplemkl import SILP, Simple
from bayesmkl.discriminative.outer import fit_at
from bayesmkl.discriminative.svm.evaluator import lowest_point
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

TIGHT = 1e-6


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["smooth", "rank deficient", "duplicated", "badly scaled"])
def test_other_method_the_optimum_is_that_of_simplemkl(rng, kind):
    kernels, y = random_kernels(rng, 40, 6, kind), random_labels(rng, 40)[None]
    C = 10.0 ** rng.uniform(-1, 1)
    found = learn(DenseStack(kernels), y, Hinge(C), SILP(TIGHT))
    other = learn(DenseStack(kernels), y, Hinge(C), Simple(tol=TIGHT))
    assert found.outcome is Outcome.CONVERGED
    assert found.objective_history[-1] == pytest.approx(other.objective_history[-1], rel=3 * TIGHT)
    combined, expected = (
        np.einsum("m,mij,j->i", r.kernel_weights, kernels, r.signed_dual[0]) for r in (found, other)
    )
    assert_same(combined, expected, 5e-3)  # weights of equal kernels are not unique, their sum is
    if kind != "duplicated":
        np.testing.assert_allclose(found.kernel_weights, other.kernel_weights, atol=2e-3)


def test_other_solver_bounds_enclose_the_optimum_of_one_smooth_program(rng):
    kernels, y = dual_reference.problem(rng)
    best = dual_reference.simplemkl(kernels, y, 3.0)
    for tol in (1e-2, 1e-4, TIGHT):
        result = learn(DenseStack(kernels), y[None], Hinge(3.0), SILP(tol))
        value = dual_reference.primal(kernels, y, 3.0, result)
        assert 0.0 <= result.duality_gap <= tol * value
        assert value - result.duality_gap <= best * (1 + 1e-5)
        assert best * (1 - 1e-5) <= value <= best * (1 + tol + 1e-5)


def test_monotone_both_bounds_close_in(rng):
    """The best objective never rises, the value of the linear program over more planes never falls."""
    kernels, y = random_kernels(rng, 40, 5, "smooth"), random_labels(rng, 40)[None]
    stack, inner = DenseStack(kernels), Hinge(2.0)
    result = learn(stack, y, inner, SILP(TIGHT))
    assert len(result.objective_history) > 5
    assert (np.diff(result.objective_history) <= 0.0).all()
    weights, planes, bounds = np.full(5, 0.2), [], []
    for _ in range(12):
        planes.append(fit_at(stack, y, inner, weights, 1e-8))
        bound, weights = lowest_point(planes)
        bounds.append(bound)
    assert (np.diff(bounds) >= -1e-9 * bounds[-1]).all()
    assert bounds[0] < bounds[-1] <= result.objective_history[-1] * (1 + 1e-9)


def test_classes_share_weights_as_simplemkl_lets_them(rng):
    X = rng.normal(size=(90, 4))
    y = np.digitize(X[:, 1], [-0.5, 0.5])
    kernels = np.exp(-0.5 * (X[:, None] - X[None]) ** 2)
    for multiclass, shape in (("one-versus-rest", (3, 4)), ("shared", (4,))):
        found, other = (
            estimator("precomputed", tol=1e-5, multiclass=multiclass).fit(kernels, y)
            for estimator in (SILPMKLClassifier, SimpleMKLClassifier)
        )
        assert found.kernel_weights_.shape == shape
        np.testing.assert_allclose(found.kernel_weights_, other.kernel_weights_, atol=0.02)
