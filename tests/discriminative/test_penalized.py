"""GMKL, SMO-MKL and SILP: convex solvers, products of one Gaussian kernel, differences, bounds from both sides."""

from __future__ import annotations

import dual_reference
import numpy as np
import pytest
from dual_reference import primal, problem, quadratics, squared_norm
from helpers import SAME_FORMULA, assert_same, learn, random_kernels, random_labels, samples_first
from scipy.optimize import approx_fprime, minimize, minimize_scalar

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative import GMKLClassifier, SILPMKLClassifier, SimpleMKLClassifier, SMOMKLClassifier
from bayesmkl.discriminative.global_weights.gmkl import (
    GMKL,
    REGULARIZERS,
    combine_product,
)
from bayesmkl.discriminative.global_weights.joint import SILP, SMO, Lp, Simple, _divergence
from bayesmkl.discriminative.problems import fit_at
from bayesmkl.discriminative.svm.evaluator import lowest_point
from bayesmkl.discriminative.svm.libsvm import Hinge, solve_svm
from bayesmkl.kernels import Gaussian, KernelBank, Linear
from bayesmkl.kernels.stacks.dense import DenseStack

SOLVERS = ("spg", "pg")


def gmkl_classifier(**parameters):
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
    model = gmkl_classifier(combination="product", regularizer="uniform", tol=1e-2).fit(kernels, X[:, 0] > 0)
    kernels[0, 0, 1] = -0.1
    with pytest.raises(ValueError, match="nonnegative entries: kernel 'kernel 1'"):
        model.predict(kernels)


NORMS = [1.1, 4.0 / 3.0, 2.0, 4.0]


def smo_classifier(**parameters):
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
    near = smo_classifier(regularizer="divergence", reg_weights=1e6).fit(samples_first(kernels), y)
    assert_same(near.kernel_weights_, np.full(4, 0.25), 1e-3)
    free = smo_classifier(regularizer="divergence", reg_weights=0.05, C=5.0).fit(samples_first(kernels), y)
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
