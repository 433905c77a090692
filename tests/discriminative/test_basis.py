"""Sparse SVMs: the reduced problem, the greedy choice, and the way to the full problem."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from bayesmkl import KernelBank
from bayesmkl.datasets import load_iris, make_twonorm
from bayesmkl.discriminative import PrimalMKLClassifier
from bayesmkl.discriminative.primal import basis as basis_module
from bayesmkl.discriminative.primal.basis import fit_basis_mkl, grow, solve_in_features
from bayesmkl.discriminative.primal.primalmkl import PrimalMKLOptions, fit_primalmkl
from bayesmkl.discriminative.primal.solve import OneClass, Squared, SquaredHinge
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

N = 50
MACHINES = {"squared hinge": SquaredHinge(0.1), "squared": Squared(0.1), "one-class": OneClass(0.1)}


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 3))


@pytest.fixture
def stack(X):
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    return DenseStack(np.stack([np.exp(-distances / (2.0 * w**2)) for w in (0.5, 1.0, 3.0)]))


@pytest.fixture
def labels(rng, X):
    return np.where(X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=N) > 0.5, 1.0, -1.0)


def reduced_objective(kernel, basis, problem):
    """The objective in the coefficients of the kernel columns and the intercept."""
    columns = kernel[:, basis]

    def value(z):
        beta, b = z[:-1], z[-1]
        penalty = 0.5 * beta @ columns[basis] @ beta + problem.total * b
        return problem.reg * penalty + problem.loss.value(columns @ beta + b)

    return value


@pytest.mark.parametrize("name", MACHINES)
def test_svm_minimizes_the_reduced_objective(stack, labels, name):
    kernel, problem = stack.kernels[1], MACHINES[name].problem(labels)
    svm = grow(kernel, problem, basis_module._empty(problem), 6)
    value = reduced_objective(kernel, svm.basis, problem)
    at = np.append(svm.beta, svm.intercept)
    assert value(at) == pytest.approx(svm.objective, rel=1e-9)
    found = minimize(value, np.zeros(7), method="BFGS", options={"gtol": 1e-8})
    assert svm.objective <= found.fun + 1e-9 * abs(found.fun)
    np.testing.assert_allclose(kernel[:, svm.basis] @ svm.beta + svm.intercept, svm.scores)
    np.testing.assert_allclose(svm.lower @ svm.lower.T, kernel[np.ix_(svm.basis, svm.basis)])


def with_candidate(kernel, problem, svm, candidate):
    """The SVM with one more basis sample, solved in full."""
    basis = np.append(svm.basis, candidate)
    grown = svm._replace(basis=basis, lower=np.eye(len(basis)), coef=np.zeros(len(basis)))
    return solve_in_features(problem, basis_module._at_weights(kernel[:, basis], grown))


@pytest.mark.parametrize(("name", "share"), [("squared", 1.0), ("squared hinge", 0.7)])
def test_greedy_choice_against_all_samples_by_brute_force(stack, labels, name, share):
    kernel, problem = stack.kernels[1], MACHINES[name].problem(labels)
    svm = basis_module._empty(problem)
    for _ in range(6):
        chosen = grow(kernel, problem, svm, svm.basis.size + 1)
        outside = np.setdiff1d(np.arange(N), svm.basis)
        values = np.array([with_candidate(kernel, problem, svm, j).objective for j in outside])
        decrease = svm.objective - chosen.objective
        # exact for the squared loss; for the hinge a quadratic model, not always the best
        assert decrease >= share * (svm.objective - values.min()) * (1.0 - 1e-6)
        if share == 1.0:
            rest = kernel - svm.features @ svm.features.T
            gains = basis_module._gains(problem, svm, rest)[outside]
            np.testing.assert_allclose(gains, svm.objective - values, atol=1e-7 * svm.objective)
        svm = chosen


@pytest.mark.parametrize("name", MACHINES)
def test_weight_gradient_is_a_finite_difference(rng, stack, labels, name):
    problem = MACHINES[name].problem(labels)
    weights = rng.dirichlet(np.ones(3))
    svm = grow(stack.combine(weights), problem, basis_module._empty(problem), 5)
    columns = DenseStack(stack.columns(svm.basis))

    def value(d):
        return solve_in_features(problem, basis_module._at_weights(columns.combine(d), svm)).objective

    np.testing.assert_allclose(
        basis_module._weight_gradient(problem, columns, svm),
        approx_fprime(weights, value, 1e-6),
        rtol=1e-3,
        atol=1e-4 * abs(svm.objective),
    )


@pytest.mark.parametrize("p_norm", [1.0, 2.0])
def test_all_samples_as_a_basis_give_the_full_problem(stack, labels, p_norm):
    options = PrimalMKLOptions(p_norm, "spg", 1e-5, 500)
    full = fit_primalmkl(stack, labels[None], SquaredHinge(0.1), options).result
    sparse = fit_basis_mkl(stack, labels[None], SquaredHinge(0.1), options, N).result
    assert sparse.objective_history[-1] == pytest.approx(full.objective_history[-1], rel=1e-4)
    np.testing.assert_allclose(sparse.kernel_weights, full.kernel_weights, atol=0.02)


def test_larger_bases_are_better_and_never_beat_the_full_problem(stack, labels):
    options = PrimalMKLOptions(1.0, "spg", 1e-3, 500)
    full = fit_primalmkl(stack, labels[None], SquaredHinge(0.1), options).result.objective_history[-1]
    one = stack.select([1])
    sizes, values = (1, 2, 4, 8, 16, 32), []
    for size in sizes:
        found = fit_basis_mkl(one, labels[None], SquaredHinge(0.1), options, size)
        assert found.basis[0].size == size
        values.append(found.result.objective_history[-1])
    assert np.diff(values).max() < 0.0
    for size in (4, 16):
        result = fit_basis_mkl(stack, labels[None], SquaredHinge(0.1), options, size).result
        assert result.objective_history[-1] >= full * (1.0 - 1e-3)
        assert np.diff(result.objective_history).max(initial=-1.0) <= 1e-12 * full  # never rises
        assert result.outcome.converged
        assert np.isnan(result.duality_gap)


def test_basis_samples_alone_have_coefficients():
    X, y = load_iris(return_X_y=True)
    bank = KernelBank([Gaussian(width=w) for w in (0.5, 1, 3)])
    binary = PrimalMKLClassifier(bank, reg=0.1, max_basis=4).fit(X[50:], y[50:])
    np.testing.assert_array_equal(np.flatnonzero(binary.dual_coef_), binary.basis_)
    np.testing.assert_array_equal(binary.support_, binary.basis_)
    model = PrimalMKLClassifier(bank, reg=0.1, max_basis=4).fit(X, y)
    assert [len(basis) for basis in model.basis_] == [4, 4, 4]
    for coefficients, basis in zip(model.dual_coef_, model.basis_, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(coefficients), basis)
    assert model.score(X, y) > 0.93
    np.testing.assert_array_equal(model.decision_function(X).shape, (150, 3))


def test_a_few_samples_predict_almost_as_well_as_all():
    data = make_twonorm(600, random_state=0)
    X, y = data.data, data.target
    bank = KernelBank([Gaussian(width=w) for w in (2, 6, 20)])
    full = PrimalMKLClassifier(bank).fit(X[:200], y[:200])
    sparse = PrimalMKLClassifier(bank, max_basis=10).fit(X[:200], y[:200])
    assert sparse.support_fraction_ == pytest.approx(0.05)
    assert full.support_fraction_ > 0.3
    assert sparse.score(X[200:], y[200:]) > full.score(X[200:], y[200:]) - 0.02
