"""SAMKL: convex step against general solvers, alternation against the model, rules against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers import random_kernels, random_labels
from scipy.optimize import minimize

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.datasets import make_corrupted
from bayesmkl.discriminative.localized.samkl import (
    SAMKLOptions,
    WeightsStep,
    check_options,
    fit_samkl,
    infer_switches,
    solve_weights,
    update_switches,
)
from bayesmkl.discriminative.problems import InnerSolution, fit_at, outer_gap
from bayesmkl.discriminative.svm.libsvm import Hinge, solve_svm
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

TIGHT = 1e-6  # duality gap, relative, of the fits that are compared to numbers


def problem(n_samples=60, n_new=30, corruption="kernels", seed=0, fraction=0.3):
    """Training and cross kernels, labels of both; four views of which one tells nothing."""
    sample = make_corrupted(
        n_samples + n_new,
        corruption=corruption,
        fraction=fraction,
        separations=(1.5, 1.0, 1.0, 0.0),
        random_state=seed,
    )
    kernels = np.ascontiguousarray(sample.kernels.transpose(2, 0, 1))
    train, new = kernels[:, :n_samples, :n_samples].copy(), kernels[:, n_samples:, :n_samples].copy()
    y = sample.target.astype(float)
    return DenseStack(train), DenseStack(new), y[:n_samples], y[n_samples:]


def convex(C, tol, **options):
    return SAMKLOptions(C, gap_tol=tol, **options)


def switched_problem(rng, n_kernels=3, n_samples=14):
    """A convex step with switches and margins that no alternation has touched."""
    kernels, target = random_kernels(rng, n_samples, n_kernels), random_labels(rng, n_samples)
    switches = rng.random((n_kernels, n_samples)) < 0.7
    switches[rng.integers(n_kernels, size=n_samples), np.arange(n_samples)] = True
    return DenseStack(kernels), target, switches, rng.uniform(0.2, 1.0, size=n_samples)


def masked(stack, switches):
    return stack.kernels * switches[:, :, None] * switches[:, None, :]


def solve_in_general(stack, target, switches, margins, C):
    """Eq. 13 as min t/2 - tau'beta with t >= S_p(beta) for all p, by sequential quadratic programming."""
    n_samples = len(target)
    quadratics = masked(stack, switches) * np.outer(target, target)
    constraints = [
        {
            "type": "ineq",
            "fun": lambda x, Q=Q: x[-1] - x[:-1] @ Q @ x[:-1],
            "jac": lambda x, Q=Q: np.append(-2.0 * Q @ x[:-1], 1.0),
        }
        for Q in quadratics
    ]
    constraints.append(
        {"type": "eq", "fun": lambda x: target @ x[:-1], "jac": lambda x: np.append(target, 0.0)}
    )
    gradient = np.append(-margins, 0.5)
    result = minimize(
        lambda x: gradient @ x,
        np.zeros(n_samples + 1),
        jac=lambda x: gradient,
        bounds=[*zip(np.zeros(n_samples), C / margins, strict=True), (0.0, None)],
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert result.success
    return -result.fun


def equal(n_kernels):
    return np.full(n_kernels, 1.0 / n_kernels)


def everything_on(stack):
    return np.ones((stack.n_kernels, stack.n_train), dtype=bool), np.ones(stack.n_train)


# The convex step, eq. 13


@pytest.mark.parametrize("C", [0.3, 5.0])
def test_other_solver_convex_step_with_switches_and_margins(rng, C):
    stack, target, switches, margins = switched_problem(rng)
    step = solve_weights(stack, target, switches, margins, convex(C, TIGHT), equal(3))
    expected = solve_in_general(stack, target, switches, margins, C)
    assert step.objective == pytest.approx(expected, rel=1e-5)
    assert step.outcome is Outcome.CONVERGED
    assert 0.0 <= step.gap <= TIGHT * step.objective


def test_finite_difference_gradient_of_the_convex_step(rng):
    stack, target, switches, margins = switched_problem(rng, n_samples=20)
    weights, C = np.array([0.5, 0.3, 0.2]), 2.0

    def value(weights):
        kernel = np.tensordot(weights, masked(stack, switches), axes=1)
        return solve_svm(kernel, target, C / margins, 1e-10, margins).objective

    step = solve_weights(stack, target, switches, margins, convex(C, 1e-8, max_iter_weights=0), weights)
    np.testing.assert_array_equal(step.kernel_weights, weights)
    for m, unit in enumerate(1e-5 * np.eye(3)):
        difference = (value(weights + unit) - value(weights - unit)) / 2e-5
        assert difference == pytest.approx(-0.5 * step.quadratics[m], rel=1e-3)


@pytest.mark.parametrize("all_on", [True, False])
def test_other_solver_where_one_dual_does_not_certify(all_on):
    """Coarse features: samples of both classes coincide where few kernels are left, and gradients jump there."""
    rng = np.random.default_rng(0)
    features = rng.integers(0, 3, size=(60, 5)).astype(float)
    stack = DenseStack(np.exp(-0.5 * (features.T[:, :, None] - features.T[:, None, :]) ** 2))
    target = np.where(features[:, 0] + features[:, 1] + rng.normal(size=60) > 2.0, 1.0, -1.0)
    switches = (rng.random((5, 60)) < 0.8) | all_on
    switches[0] = True
    step = solve_weights(stack, target, switches, np.ones(60), convex(1.0, 1e-4), equal(5))
    expected = solve_in_general(stack, target, switches, np.ones(60), 1.0)
    assert step.outcome is Outcome.CONVERGED
    assert step.gap <= 1e-4 * step.objective
    assert step.objective - step.gap <= expected * (1.0 + 1e-6)
    assert step.objective + step.solution.gap >= expected * (1.0 - 1e-6)
    assert step.n_solves < 150  # several hundred, and a gap of 2e-4, by gradients alone


def test_duality_gap_counts_what_the_svm_lacks(rng):
    stack, target, switches, margins = switched_problem(rng, n_kernels=1)
    C = 2.0
    step = solve_weights(stack, target, switches, margins, convex(C, 0.2), np.ones(1))
    v, f = step.solution.signed_dual, step.products[0] * switches[0] + step.solution.intercept
    quadratic = v @ masked(stack, switches)[0] @ v
    primal = 0.5 * quadratic + (C / margins * np.maximum(0.0, margins - target * f)).sum()
    dual = margins @ (v * target) - 0.5 * quadratic
    assert step.objective == pytest.approx(dual, rel=1e-12)
    assert step.gap == pytest.approx(primal - dual, rel=1e-6)
    assert step.gap > 0.0


def test_duality_primal_value_of_the_model_equals_the_objective():
    stack, _, y, _ = problem()
    C, options = 3.0, SAMKLOptions(3.0, 1, gap_tol=TIGHT)
    result = fit_samkl(stack, y, options)
    contributions = result.kernel_weights[:, None] * (masked_products(stack, result))
    f = (result.switches * contributions).sum(axis=0) + result.intercept
    active = result.kernel_weights > 0.0
    regularizer = 0.5 * (result.norms[active] ** 2 / result.kernel_weights[active]).sum()
    primal = regularizer + C * np.maximum(0.0, 1.0 - y * f / result.margins).sum()  # eq. 11
    assert primal == pytest.approx(result.objective_history.min(), rel=10 * TIGHT)


def masked_products(stack, result):
    """``K_p (v o h_p)``, one kernel at a time."""
    rows = zip(stack.kernels, result.switches, strict=True)
    return np.array([K @ (result.signed_dual * h) for K, h in rows])


# Degenerate cases of the alternation


def test_degenerate_no_budget_is_multiple_kernel_learning_on_the_simplex(rng):
    kernels, target = random_kernels(rng, 14, 3), random_labels(rng, 14)
    stack, C = DenseStack(kernels), 2.0
    result = fit_samkl(stack, target, SAMKLOptions(C, 0, gap_tol=TIGHT))
    assert result.switches.all()
    np.testing.assert_array_equal(result.margins, 1.0)
    expected = solve_in_general(stack, target, *everything_on(stack), C)
    assert result.objective_history.tolist() == pytest.approx([expected, expected], rel=1e-5)
    fit = fit_at(stack, target[None], Hinge(C), result.kernel_weights, tol=1e-9)
    assert fit.objective == pytest.approx(expected, rel=1e-5)
    assert outer_gap(fit, 1.0) < 1e-5 * expected


@pytest.mark.parametrize("max_switches", [0, 1, 2])
def test_degenerate_initial_switches_are_a_choice_of_kernels(max_switches):
    stack, new, y, _ = problem()
    chosen = np.array([True, False, True, True])
    options = SAMKLOptions(1.0, max_switches, chosen, gap_tol=1e-6)
    result = fit_samkl(stack, y, options)
    alone = fit_samkl(stack.select(chosen), y, options._replace(initial_switches=None))
    np.testing.assert_allclose(result.kernel_weights[chosen], alone.kernel_weights, atol=1e-8)
    np.testing.assert_array_equal(result.switches[chosen], alone.switches)
    assert not result.switches[1].any()
    assert result.kernel_weights[1] == 0.0
    assert not result.patterns[:, 1].any()
    scores = infer_switches(new, result).scores
    np.testing.assert_allclose(scores, infer_switches(new.select(chosen), alone).scores, atol=1e-6)


def test_zero_kernel_gets_no_influence():
    stack, new, y, _ = problem()
    padded = DenseStack(np.concatenate([stack.kernels, np.zeros((1, 60, 60))]))
    cross = DenseStack(np.concatenate([new.kernels, np.zeros((1, 30, 60))]))
    options = SAMKLOptions(1.0, 0, gap_tol=TIGHT)
    plain, result = fit_samkl(stack, y, options), fit_samkl(padded, y, options)
    assert result.kernel_weights[4] < 1e-6
    expected = infer_switches(new, plain).scores
    np.testing.assert_allclose(infer_switches(cross, result).scores, expected, atol=2e-3)
    # every sample can do without it, if not without another one
    switched = fit_samkl(padded, y, options._replace(max_switches=1))
    np.testing.assert_array_equal((~switched.switches).sum(axis=0), 1)


# What every fit must satisfy


@pytest.mark.parametrize("corruption", ["features", "kernels", "similarities"])
@pytest.mark.parametrize(("max_switches", "C"), [(1, 1.0), (2, 10.0), (4, 0.3)])
def test_constraints_of_the_model_hold(corruption, max_switches, C):
    stack, _, y, _ = problem(corruption=corruption)
    result = fit_samkl(stack, y, SAMKLOptions(C, max_switches, gap_tol=1e-4))
    beta, tau = result.signed_dual * y, result.margins
    assert abs(result.signed_dual.sum()) < 1e-8 * np.abs(beta).sum()  # sum_i beta_i y_i = 0
    assert (beta >= 0.0).all()
    assert (beta <= C / tau * (1 + 1e-9)).all()
    assert ((~result.switches).sum(axis=0) <= max_switches).all()
    assert result.kernel_weights.sum() == pytest.approx(1.0)
    assert (result.kernel_weights >= 0.0).all()
    assert ((tau > 0.0) & (tau <= 1.0)).all()
    assert result.duality_gap <= 1e-4 * result.objective_history.min() * (1 + 1e-9)
    assert (~result.switches).any()  # else there is nothing to see here


def test_all_kernels_off_are_not_a_choice():
    # the intercept alone serves all samples: nothing has to be on, so that all may be off
    solution = InnerSolution(np.array([1.0, 1.0, 1.0]), 5.0, 1.0, 0.0)
    products = np.array([[0.0, 1.0, -9.0], [0.5, -1.0, -9.0], [0.0, 0.0, 0.0]])
    step = WeightsStep(np.array([0.5, 0.5, 0.0]), solution, products, np.array([4.0, 4.0, 0.0]), 0.0)
    previous = np.array([[True, True, False], [True, True, False], [True, True, True]])
    on = np.array([True, True, True])
    switches = update_switches(step, np.ones(3), previous, np.ones(3), on, 3)
    # the kernel that helps most stays; the third sample had no active one and can bear none: back to all
    np.testing.assert_array_equal(switches, [[0, 1, 1], [1, 0, 1], [0, 0, 1]])


# The alternation


def two_halves(n_half=10, seed=0):
    """Two kernels, each of which knows one half of the samples and misleads about the other."""
    rng = np.random.default_rng(seed)
    target = np.resize([1.0, 1.0, -1.0, -1.0], 2 * n_half)
    first = np.arange(2 * n_half) < n_half
    told = target * np.stack([np.where(first, 1.0, -0.5), np.where(first, -0.5, 1.0)])
    told += 0.1 * rng.normal(size=told.shape)
    return DenseStack(told[:, :, None] * told[:, None, :]), target, first


def test_recovery_of_the_kernel_that_knows_each_sample():
    stack, target, first = two_halves()
    result = fit_samkl(stack, target, SAMKLOptions(10.0, 1, tol=1e-2))
    np.testing.assert_array_equal(result.switches, [first, ~first])
    assert result.outcome is Outcome.CONVERGED
    assert (np.sign(infer_switches(stack, result).scores) == target).all()
    plain = fit_samkl(stack, target, SAMKLOptions(10.0, 0))
    assert result.objective_history.min() < 0.2 * plain.objective_history.min()


def alternate_as_printed(stack, y, C, max_switches, n_iter):
    """Algorithm 1 sample by sample, eq. 15 by enumeration and eq. 16 by its double sums."""
    kernels, n_samples = stack.kernels, stack.n_train
    H, tau = np.ones((n_samples, stack.n_kernels)), np.ones(n_samples)
    patterns = [np.array(h) for h in product((0.0, 1.0), repeat=stack.n_kernels)]
    history = []
    for _ in range(n_iter):
        start = equal(stack.n_kernels)
        step = solve_weights(stack, y, H.T > 0.5, tau, convex(C, TIGHT), start)
        history.append(step.objective)
        gamma, b = step.kernel_weights, step.solution.intercept
        beta_y = step.solution.signed_dual  # alpha y / tau
        lengths = np.array(
            [
                gamma[p] * np.sqrt(np.sum(np.outer(beta_y * h, beta_y * h) * kernels[p]))
                for p, h in enumerate(H.T)
            ]
        )
        new = H.copy()
        for i in range(n_samples):
            g = np.array([gamma[p] * np.sum(beta_y * h * kernels[p, :, i]) for p, h in enumerate(H.T)])
            xi = max(0.0, 1.0 - y[i] / tau[i] * (H[i] @ g + b))
            feasible = [
                h
                for h in patterns
                if y[i] * (h @ g + b) >= tau[i] * (1.0 - xi) - 1e-8
                and np.sum(h == 0.0) <= max_switches
                and h @ lengths > 0.0
            ]
            everything = np.ones_like(H[i])
            new[i] = min(feasible, key=lambda h: (h.sum(), -y[i] * (h @ g)), default=everything)
        H, tau = new, np.maximum(1e-3, new @ lengths / lengths.sum())
    return history


@pytest.mark.parametrize(
    ("seed", "C", "max_switches"), [(0, 2.0, 1), (0, 2.0, 2), (1, 0.5, 3), (2, 10.0, 2), (2, 10.0, 3)]
)
def test_alternation_follows_the_algorithm_as_printed(seed, C, max_switches):
    stack, _, y, _ = problem(n_samples=40, seed=seed)
    options = SAMKLOptions(C, max_switches, gap_tol=TIGHT, max_iter=6)
    history = fit_samkl(stack, y, options).objective_history
    assert len(history) > 2
    expected = alternate_as_printed(stack, y, C, max_switches, len(history))
    np.testing.assert_allclose(history, expected, rtol=1e-5)


def test_best_solution_is_kept_where_the_alternation_ends_higher():
    rises = 0
    for seed in range(6):
        stack, _, y, _ = problem(seed=seed)
        result = fit_samkl(stack, y, SAMKLOptions(1.0, 2, gap_tol=1e-4))
        history = result.objective_history
        rises += history[-1] > history.min()
        # everything that is returned belongs to one solution of eq. 13, the best one
        step = solve_weights(
            stack, y, result.switches, result.margins, convex(1.0, 1e-4), result.kernel_weights
        )
        assert step.objective == pytest.approx(history.min(), rel=2e-4)
        np.testing.assert_allclose(result.norms, step.norms, rtol=0.05, atol=1e-3 * step.norms.max())
    assert rises >= 2


# Prediction


def test_patterns_without_active_kernels_are_passed_over():
    stack, target, _ = two_halves()
    result = fit_samkl(stack, target, SAMKLOptions(10.0, 1))
    switches = result.switches.copy()
    switches[:, 0] = False
    empty = result._replace(switches=switches, intercept=100.0)
    chosen = infer_switches(stack, empty, normalize=True).switches
    assert chosen.any(axis=0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_switches": 4}, "`max_switches` must be at most the number of kernels, 3; got 4"),
        ({"initial_switches": np.zeros(3, dtype=bool)}, "`initial_switches` must be None or 3 booleans"),
        ({"initial_switches": np.ones(2, dtype=bool)}, "`initial_switches` must be None or 3 booleans"),
        ({"initial_switches": [0.5, 1.0, 1.0]}, "`initial_switches` must be None or 3 booleans"),
    ],
)
def test_switches_that_do_not_fit_the_kernels_are_refused_by_name(changes, message):
    check_options(SAMKLOptions(max_switches=3, initial_switches=[0, 1, 1]), 3)
    with pytest.raises(ValueError, match=message):
        check_options(SAMKLOptions()._replace(**changes), 3)
