"""GMKL: sums against a convex solver, products against one Gaussian kernel, regularizers against differences."""

from __future__ import annotations

import numpy as np
import pytest
from dual_reference import problem, quadratics
from helpers import SAME_FORMULA, assert_same, learn
from scipy.optimize import approx_fprime, minimize

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative import GMKLClassifier
from bayesmkl.discriminative.global_weights.gmkl import (
    GMKL,
    REGULARIZERS,
    combine_product,
)
from bayesmkl.discriminative.global_weights.simplemkl import Simple
from bayesmkl.discriminative.outer import fit_at
from bayesmkl.discriminative.svm.libsvm import Hinge, solve_svm
from bayesmkl.kernels import Gaussian, KernelBank, Linear
from bayesmkl.kernels.stacks.dense import DenseStack

SOLVERS = ("spg", "pg")


def samples_first(kernels):
    return np.moveaxis(kernels, 0, -1)


def classifier(**parameters):
    return GMKLClassifier("precomputed", **{"tol": 1e-6, **parameters})


def entropy(d):
    return float((d * np.log(d + 0.1)).sum()), np.log(d + 0.1) + d / (d + 0.1)


def ridge(d):
    return 0.5 * float(d @ d), d


def feature_problem(rng, n_samples=50):
    """One Gaussian kernel per feature; the first two decide together."""
    X = rng.normal(size=(n_samples, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    return X, np.exp(-0.5 * (X.T[:, :, None] - X.T[:, None, :]) ** 2), y


def best_value(objective, n_kernels, constraints=()):
    found = minimize(
        objective,
        np.full(n_kernels, 1.0 / n_kernels),
        jac=True,
        bounds=[(0.0, None)] * n_kernels,
        constraints=constraints,
        options={"ftol": 1e-12, "maxiter": 500},
        method="SLSQP",
    )
    return found.fun


@pytest.mark.heavy
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("regularizer", [*REGULARIZERS, ridge], ids=["l1", "uniform", "ridge"])
def test_sum_is_the_optimum_of_another_solver(rng, solver, regularizer):
    kernels, y = problem(rng, 40, 4)
    stack, parts = (
        DenseStack(kernels),
        {
            "l1": lambda d: (d.sum(), np.ones(4)),
            "uniform": lambda d: (0.5 * ((d - 0.25) ** 2).sum(), d - 0.25),
        },
    )
    regularize = parts.get(regularizer, ridge) if isinstance(regularizer, str) else regularizer
    result = learn(stack, y[None], Hinge(2.0), GMKL(regularizer, "sum", solver, 1e-6))
    scale = result.objective_history[-1]

    def objective(d):
        fit, (value, gradient) = fit_at(stack, y[None], Hinge(2.0), np.maximum(d, 0.0), 1e-8), regularize(d)
        return (fit.objective + value) / scale, (gradient - 0.5 * fit.quadratics) / scale

    simplex = [{"type": "eq", "fun": lambda d: d.sum() - 1.0, "jac": lambda d: np.ones(4)}]
    best = best_value(objective, 4, simplex if regularizer == "uniform" else ())
    assert result.outcome is Outcome.CONVERGED
    assert best == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("combination", ["sum", "product"])
def test_finite_difference_gradient(rng, combination):
    """Through one step of projected gradients: its direction is what the differences say."""
    _, kernels, y = feature_problem(rng, 30)
    stack, d = DenseStack(kernels), rng.uniform(0.5, 1.0, size=4)

    def objective(weights):
        kernel = combine_product(stack, weights) if combination == "product" else stack.combine(weights)
        return solve_svm(kernel, y, 2.0, 1e-9).objective + entropy(weights)[0]

    v = solve_svm(
        combine_product(stack, d) if combination == "product" else stack.combine(d), y, 2.0, 1e-9
    ).signed_dual
    if combination == "product":
        slopes = [v @ (np.log(k) * combine_product(stack, d)) @ v for k in kernels]
    else:
        slopes = quadratics(kernels, v)
    gradient = entropy(d)[1] - 0.5 * np.array(slopes)
    np.testing.assert_allclose(gradient, approx_fprime(d, objective, 1e-5), rtol=5e-3, atol=1e-3)

    seen = []

    def spy(weights):
        seen.append(weights)
        return entropy(weights)

    learn(stack, y[None], Hinge(2.0), GMKL(spy, combination, "pg", 1e-9, 1), start=d)
    moves = [weights - d for weights in seen if np.abs(weights - d).max() > 0.0 and np.all(weights > 0.0)]
    assert moves
    for move in moves:
        assert_same(move / np.linalg.norm(move), -gradient / np.linalg.norm(gradient), 0.01)


@pytest.mark.heavy
def test_product_of_features_is_one_gaussian_kernel(rng):
    """prod_m exp(-d_m (x_m - z_m)^2 / 2), whose widths another optimizer finds as well."""
    X, kernels, y = feature_problem(rng, 40)
    squares = (X.T[:, :, None] - X.T[:, None, :]) ** 2
    weights = np.array([0.3, 1.2, 0.0, 2.0])
    gaussian = np.exp(-0.5 * np.einsum("m,mij->ij", weights, squares))
    assert_same(combine_product(DenseStack(kernels), weights), gaussian, SAME_FORMULA)

    start, scale = np.array([1.0, 1.0, 0.3, 0.3]), 20.0

    def objective(d):
        kernel = np.exp(-0.5 * np.einsum("m,mij->ij", d, squares))
        solution = solve_svm(kernel, y, 3.0, 1e-8)
        v = solution.signed_dual
        gradient = [1.0 + 0.25 * v @ (square * kernel) @ v for square in squares]
        return (solution.objective + d.sum()) / scale, np.array(gradient) / scale

    found = minimize(objective, start, jac=True, bounds=[(0.0, None)] * 4, method="L-BFGS-B")
    for solver in SOLVERS:
        options = GMKL("l1", "product", solver, 3e-3, 2000)
        result = learn(DenseStack(kernels), y[None], Hinge(3.0), options, start=start)
        assert result.outcome is Outcome.CONVERGED
        assert np.isnan(result.duality_gap)
        assert min(result.objective_history) == pytest.approx(scale * found.fun, rel=0.01)


def test_product_predicts_with_the_product(rng):
    X, _, y = feature_problem(rng, 60)
    bank = KernelBank(Gaussian(width=1), views="each")
    model = GMKLClassifier(bank, combination="product", regularizer="uniform", C=3.0).fit(X[:40], y[:40])
    difference = X[40:, None] - X[None, :40]
    kernel = np.exp(-0.5 * (model.kernel_weights_ * difference**2).sum(axis=-1))
    assert_same(model.combined_kernel(X[40:]), kernel, SAME_FORMULA)
    assert_same(model.decision_function(X[40:]), kernel @ model.dual_coef_ + model.intercept_, SAME_FORMULA)
    far = np.full((1, 4), 100.0)  # its kernels underflow to zero
    assert_same(model.decision_function(far), [model.intercept_], SAME_FORMULA)


def test_l1_penalty_is_simplemkl_at_another_C(rng):
    """With weights of sum s the penalty's solution is that of the bound, at s times C and a kernel scaled by s."""
    kernels, y = problem(rng, 50, 5)
    result = learn(DenseStack(kernels), y[None], Hinge(2.0), GMKL("l1", tol=1e-7))
    total = result.kernel_weights.sum()
    other = learn(DenseStack(kernels), y[None], Hinge(2.0 * total), Simple(tol=1e-7))
    assert_same(result.kernel_weights / total, other.kernel_weights, 0.01)
    assert_same(total * result.signed_dual, other.signed_dual, 0.02)


def test_products_need_positive_entries(rng):
    X = rng.normal(size=(30, 2))
    bank = KernelBank([Gaussian(width=1), Linear()], normalize=None)
    model = GMKLClassifier(bank, combination="product")
    with pytest.raises(
        ValueError, match=r"needs kernels with positive entries: kernel 'linear · all' has \d+ others"
    ):
        model.fit(X, X[:, 0] > 0)
    kernels = samples_first(np.exp(-0.5 * (X.T[:, :, None] - X.T[:, None, :]) ** 2))
    model = classifier(combination="product", regularizer="uniform", tol=1e-2).fit(kernels, X[:, 0] > 0)
    kernels[0, 0, 1] = -0.1
    with pytest.raises(ValueError, match="nonnegative entries: kernel 'kernel 1'"):
        model.predict(kernels)
