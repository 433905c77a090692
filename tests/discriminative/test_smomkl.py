"""The problem of SMO-MKL: descent, the paper's map at the fixed point, degenerate cases, scaling, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from dual_reference import primal, problem, quadratics, squared_norm
from helpers import assert_same, learn
from scipy.optimize import minimize, minimize_scalar

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative import SMOMKLClassifier
from bayesmkl.discriminative.global_weights.lpmkl import SMO, Lp, _divergence
from bayesmkl.discriminative.outer import fit_at
from bayesmkl.discriminative.svm.libsvm import Hinge, solve_svm
from bayesmkl.kernels.stacks.dense import DenseStack

NORMS = [1.1, 4.0 / 3.0, 2.0, 4.0]


def samples_first(kernels):
    return np.moveaxis(kernels, 0, -1)


def classifier(**parameters):
    return SMOMKLClassifier("precomputed", **{"tol": 1e-6, **parameters})


def weights_of_dual(S, p_norm, reg):
    """Map of the paper from quadratic forms of a dual optimum to weights."""
    q = p_norm / (p_norm - 1.0)
    return (S**q).sum() ** (1.0 / q - 1.0 / p_norm) * S ** (q / p_norm) / (2.0 * reg)


@pytest.mark.parametrize("p_norm", NORMS)
@pytest.mark.parametrize("reg", [0.01, 1.0, 100.0])
def test_descends_to_where_primal_and_dual_meet(rng, p_norm, reg):
    kernels, y = problem(rng, 40, 5)
    result = learn(DenseStack(kernels), y[None], Hinge(2.0), SMO(p_norm, reg, "norm", 1e-6, 3000))
    assert result.outcome is Outcome.CONVERGED
    assert np.all(np.diff(result.objective_history) < 0.0)
    S = quadratics(kernels, result.signed_dual[0])
    assert_same(result.kernel_weights, weights_of_dual(S, p_norm, reg), 0.02)
    value = np.abs(result.signed_dual).sum() - squared_norm(p_norm / (p_norm - 1.0), reg)(S)[0]
    upper = primal(kernels, y, 2.0, result) + 0.5 * reg * np.linalg.norm(result.kernel_weights, p_norm) ** 2
    assert 0.0 <= upper - value + 1e-9 * upper <= 2e-6 * upper


def test_weights_minimize_the_objective_of_fixed_blocks(rng):
    """One closed-form step against a general solver."""
    kernels, y = problem(rng, 40, 3)
    stack, p_norm, reg = DenseStack(kernels), 1.5, 0.3
    first = np.full(3, 3.0 ** (-1.0 / p_norm))
    one_step = learn(stack, y[None], Hinge(2.0), SMO(p_norm, reg, "norm", 1e-12, 1)).kernel_weights
    squares = first**2 * fit_at(stack, y[None], Hinge(2.0), first, 1e-9).quadratics
    found = minimize(
        lambda d: 0.5 * (squares / d).sum() + 0.5 * reg * np.linalg.norm(d, p_norm) ** 2,
        first,
        bounds=[(1e-6, None)] * 3,
        options={"ftol": 1e-14, "gtol": 1e-10},
    )
    assert_same(one_step, found.x, 1e-3)


@pytest.mark.parametrize("reg", [0.01, 0.3, 10.0])
def test_weights_of_the_divergence_minimize_it_for_fixed_blocks(rng, reg):
    block_norms = np.append(10.0 ** rng.uniform(-4, 2, size=5), 0.0)
    found = _divergence(6, SMO(reg_weights=reg))
    for own, weight in zip(block_norms, found.weights(block_norms), strict=True):
        best = minimize_scalar(
            lambda log_d, n=own: (
                0.5 * n**2 * np.exp(-log_d) + reg * (np.exp(log_d) * (log_d + np.log(6) - 1.0))
            ),
            bounds=(-3.0, 12.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert weight == pytest.approx(np.exp(best.x), rel=1e-5)
    S = 10.0 ** rng.uniform(-2, 1, size=6) * reg
    weights = np.exp(0.5 * S / reg) / 6.0
    assert found.conjugate(S) == pytest.approx(0.5 * weights @ S - found.penalty(weights))


def test_a_strong_divergence_leaves_equal_weights(rng):
    kernels, y = problem(rng, 40, 4)
    near = classifier(regularizer="divergence", reg_weights=1e6).fit(samples_first(kernels), y)
    assert_same(near.kernel_weights_, np.full(4, 0.25), 1e-3)
    free = classifier(regularizer="divergence", reg_weights=0.05, C=5.0).fit(samples_first(kernels), y)
    assert free.kernel_weights_.max() > 2.0 * free.kernel_weights_.min()
    assert free.converged_


def test_one_kernel_is_a_svm_at_the_best_scale(rng):
    kernels, y = problem(rng, 40, 2)
    result = learn(DenseStack(kernels[:1]), y[None], Hinge(2.0), SMO(2.0, 0.5, "norm", 1e-7))
    best = minimize_scalar(
        lambda d: solve_svm(d * kernels[0], y, 2.0, 1e-8).objective + 0.25 * d**2,
        bounds=(1e-3, 50.0),
        method="bounded",
    )
    assert result.objective_history[-1] == pytest.approx(best.fun, rel=1e-6)
    assert result.kernel_weights[0] == pytest.approx(best.x, rel=5e-3)


def test_penalty_is_a_bound_at_another_C(rng):
    kernels, y = problem(rng, 50, 4)
    result = learn(DenseStack(kernels), y[None], Hinge(2.0), SMO(2.0, 0.1, "norm", 1e-7))
    norm = np.linalg.norm(result.kernel_weights)
    bound = learn(DenseStack(kernels), y[None], Hinge(2.0 * norm), Lp(2.0, 1e-7))
    assert_same(result.kernel_weights / norm, bound.kernel_weights, 5e-3)
    assert_same(norm * result.signed_dual, bound.signed_dual, 0.02)
