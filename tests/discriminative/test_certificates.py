"""Duality gaps of the methods that optimize weights: small, true, and around the value another solver finds."""

from __future__ import annotations

import dual_reference
import numpy as np
import pytest
from helpers import learn, random_kernels, random_labels

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.global_weights.gmkl import GMKL
from bayesmkl.discriminative.global_weights.lpmkl import SMO, Lp
from bayesmkl.discriminative.global_weights.simplemkl import Simple
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

TOL = 1e-4
SOLVER = 1e-5  # of the objective, between two solvers
NORMS = [1.1, 4.0 / 3.0, 2.0, 4.0, 8.0]


def simple(solver):
    return lambda *problem, tol=TOL: learn(*problem, Simple(solver, tol))


def lp(p_norm):
    return lambda *problem, tol=TOL: learn(*problem, Lp(p_norm, tol))


def smo(p_norm, reg=0.7):
    return lambda *problem, tol=TOL: learn(*problem, SMO(p_norm, reg, tol=tol))


def smo_divergence(reg=0.7):
    return lambda *problem, tol=TOL: learn(*problem, SMO(reg_weights=reg, tol=tol, regularizer="divergence"))


def gmkl(regularizer, solver="spg"):
    return lambda *problem, tol=TOL: learn(*problem, GMKL(regularizer, "sum", solver, tol))


METHODS = {
    "simple spg": simple("spg"),
    "simple reduced": simple("reduced-gradient"),
    **{f"lp {p:.2g}": lp(p) for p in NORMS},
    **{f"smo {p:.2g}": smo(p) for p in NORMS},
    "smo divergence": smo_divergence(),
    "gmkl l1": gmkl("l1"),
    "gmkl l1 pg": gmkl("l1", "pg"),
    "gmkl uniform": gmkl("uniform"),
}


@pytest.mark.parametrize("name", METHODS)
def test_gap_at_most_tol_on_random_problems(rng, name):
    for kind in ("smooth", "rank deficient", "duplicated", "badly scaled"):
        kernels = random_kernels(rng, 40, 6, kind)
        y = random_labels(rng, 40)[None]
        result = METHODS[name](DenseStack(kernels), y, Hinge(10.0 ** rng.uniform(-1, 1)))
        assert result.outcome is Outcome.CONVERGED, kind
        assert -1e-9 <= result.duality_gap / result.objective_history[-1] <= TOL, kind
        assert (result.kernel_weights >= 0.0).all()


@pytest.mark.parametrize("name", ["simple spg", "simple reduced", *(f"lp {p:.2g}" for p in NORMS)])
def test_gap_reaches_down_to_the_optimum_of_another_solver(rng, name):
    kernels, y = dual_reference.problem(rng)
    C = 3.0
    if name.startswith("simple"):
        best = dual_reference.simplemkl(kernels, y, C)
    else:
        p_norm = next(p for p in NORMS if name == f"lp {p:.2g}")
        best = dual_reference.maximize(kernels, y, C, dual_reference.half_norm(p_norm / (p_norm - 1.0)))[0]
    for tol in (1e-2, 1e-6):
        result = METHODS[name](DenseStack(kernels), y[None], Hinge(C), tol=tol)
        value = dual_reference.primal(kernels, y, C, result)
        assert value - result.duality_gap <= best * (1.0 + SOLVER)  # the bound is one
        assert best * (1.0 - SOLVER) <= value <= best * (1.0 + tol + SOLVER)
    assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)


@pytest.mark.parametrize("p_norm", NORMS)
def test_smo_objective_is_that_of_another_solver(rng, p_norm):
    kernels, y = dual_reference.problem(rng)
    penalty = dual_reference.squared_norm(p_norm / (p_norm - 1.0), 0.7)
    best = dual_reference.maximize(kernels, y, 2.0, penalty)[0]
    result = smo(p_norm)(DenseStack(kernels), y[None], Hinge(2.0), tol=1e-6)
    assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)
    value = dual_reference.primal(kernels, y, 2.0, result)
    value += 0.35 * np.linalg.norm(result.kernel_weights, p_norm) ** 2
    assert best * (1.0 - SOLVER) <= value <= best * (1.0 + SOLVER)


@pytest.mark.parametrize("reg", [0.2, 2.0, 50.0])
def test_smo_with_a_divergence_is_that_of_another_solver(rng, reg):
    """Its dual: sum(alpha) - reg sum_m (exp(S_m / (2 reg)) - 1) / P."""
    kernels, y = dual_reference.problem(rng)

    def penalty(S):
        grown = np.exp(0.5 * S / reg) / len(S)
        return reg * (grown - 1.0 / len(S)).sum(), 0.5 * grown

    best, v = dual_reference.maximize(kernels, y, 2.0, penalty)
    result = smo_divergence(reg)(DenseStack(kernels), y[None], Hinge(2.0), tol=1e-6)
    weights = result.kernel_weights
    assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)
    value = dual_reference.primal(kernels, y, 2.0, result)
    value += reg * (weights * np.log(len(weights) * weights) - weights + 1.0 / len(weights)).sum()
    assert best * (1.0 - SOLVER) <= value <= best * (1.0 + SOLVER)
    np.testing.assert_allclose(
        weights, np.exp(0.5 * dual_reference.quadratics(kernels, v) / reg) / 4, rtol=0.02
    )
    assert (weights > 0.25).all()


def test_gmkl_objective_is_that_of_another_solver(rng):
    kernels, y = dual_reference.problem(rng)
    best = dual_reference.maximize(kernels, y, 2.0, lambda S: (0.0, np.zeros(len(S))), most=2.0)[0]
    for solver in ("spg", "pg"):
        result = gmkl("l1", solver)(DenseStack(kernels), y[None], Hinge(2.0), tol=1e-6)
        value = dual_reference.primal(kernels, y, 2.0, result) + result.kernel_weights.sum()
        assert value == pytest.approx(best, rel=SOLVER)
        assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)


@pytest.mark.parametrize("solver", ["spg", "reduced-gradient"])
def test_repeated_samples_make_kinks_that_one_dual_does_not_certify(rng, solver):
    """Kernels of single coarse features: samples of both classes coincide where few kernels are left."""
    features = rng.integers(0, 3, size=(60, 5)).astype(float)
    kernels = np.exp(-0.5 * (features.T[:, :, None] - features.T[:, None, :]) ** 2)
    y = np.where(features[:, 0] + features[:, 1] + rng.normal(size=60) > 2.0, 1.0, -1.0)
    result = simple(solver)(DenseStack(kernels), y[None], Hinge(1.0))
    assert result.outcome is Outcome.CONVERGED
    assert result.duality_gap <= TOL * result.objective_history[-1]
    value = dual_reference.primal(kernels, y, 1.0, result)
    assert value - result.duality_gap <= dual_reference.simplemkl(kernels, y, 1.0) * (1.0 + SOLVER)


def test_not_converged_says_so_with_a_true_gap(rng):
    kernels, y = dual_reference.problem(rng)
    best = dual_reference.simplemkl(kernels, y, 3.0)
    result = learn(DenseStack(kernels), y[None], Hinge(3.0), Simple("spg", 1e-8, 2))
    assert result.outcome is Outcome.MAX_ITER
    assert len(result.objective_history) == 3
    assert dual_reference.primal(kernels, y, 3.0, result) - result.duality_gap <= best
