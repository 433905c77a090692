"""MWUMKL against LibSVM, SciPy, matrix exponentials and its degenerate cases; its memory; its estimator."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import random_kernels, random_labels
from scipy.linalg import expm
from scipy.optimize import minimize, minimize_scalar
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.datasets import load_wdbc
from bayesmkl.discriminative.estimators.joint import MWUMKLClassifier
from bayesmkl.discriminative.global_weights.mwumkl import (
    MWUOptions,
    _add_pair,
    _oracle,
    _schedule,
    _start,
    fit_mwumkl,
)
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

HARD = 1e5  # LibSVM's C for a hard margin


def problem(rng, n_samples=30, n_kernels=3, kind="smooth"):
    kernels = random_kernels(rng, n_samples, n_kernels, kind)
    return kernels / kernels.diagonal(axis1=1, axis2=2).mean(axis=1)[:, None, None], random_labels(
        rng, n_samples
    )


def svm(kernel, y, C):
    """The 2-norm soft margin through LibSVM: a hard margin on K + I / C."""
    return SVC(kernel="precomputed", C=HARD, tol=1e-8).fit(kernel + np.eye(len(y)) / C, y)


def dual_value(kernel, y, C):
    fitted = svm(kernel, y, C)
    v = np.zeros(len(y))
    v[fitted.support_] = fitted.dual_coef_[0]
    return np.abs(v).sum() - 0.5 * v @ (kernel + np.eye(len(y)) / C) @ v


def primal_value(kernels, y, result, C, task=0):
    v, b = result.signed_dual[task], result.intercept[task]
    kernel = np.tensordot(result.kernel_weights, kernels, axes=1)
    slack = np.maximum(0.0, 1.0 - y * (kernel @ v + b))
    return 0.5 * v @ kernel @ v + 0.5 * C * (slack**2).sum()


# ------------------------------------------------------------------------------------------------ other solvers


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_other_library_one_kernel_is_the_svm_with_squared_hinge(rng, C):
    kernels, y = problem(rng, 40, 1)
    result = fit_mwumkl(DenseStack(kernels), y[None], MWUOptions(C, epsilon=1e-4))
    fitted = svm(kernels[0], y, C)
    assert result.outcome is Outcome.CONVERGED
    np.testing.assert_allclose(result.kernel_weights, [1.0])
    assert result.objective_history[-1] == pytest.approx(dual_value(kernels[0], y, C), rel=1.1e-4)
    scores = kernels[0] @ result.signed_dual[0] + result.intercept[0]
    expected = kernels[0][:, fitted.support_] @ fitted.dual_coef_[0] + fitted.intercept_[0]
    np.testing.assert_allclose(scores, expected, atol=0.02 * np.abs(expected).max())


def test_other_library_hull_problem_by_sequential_quadratic_programming(rng):
    kernels, y = problem(rng, 14, 3)
    C = 2.0
    forms = y[:, None] * y * kernels + np.eye(14) / C
    constraints = [
        {"type": "eq", "fun": lambda x: x[:-1] @ (y > 0) - 0.5},
        {"type": "eq", "fun": lambda x: x[:-1] @ (y < 0) - 0.5},
        {"type": "ineq", "fun": lambda x: x[-1] - np.einsum("i,mij,j->m", x[:-1], forms, x[:-1])},
    ]
    start = np.append(np.where(y > 0, 0.5 / (y > 0).sum(), 0.5 / (y < 0).sum()), 1.0)
    bounds = [(0.0, 1.0)] * 14 + [(0.0, None)]
    hull = minimize(lambda x: x[-1], start, bounds=bounds, constraints=constraints, options={"ftol": 1e-12})
    result = fit_mwumkl(DenseStack(kernels), y[None], MWUOptions(C, epsilon=1e-3))
    value = 0.5 / hull.fun
    lower = result.objective_history[-1] - result.duality_gap
    assert lower <= value * (1.0 + 1e-9)
    assert result.objective_history[-1] >= value * (1.0 - 1e-9)
    assert result.objective_history[-1] == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(("C", "epsilon"), [(0.3, 1e-3), (10.0, 5e-3)])
def test_other_library_two_weights_by_a_search_over_svms(rng, C, epsilon):
    kernels, y = problem(rng, 50, 2)
    y = np.sign(kernels[0] @ rng.normal(size=50) + 0.5 * kernels[1] @ rng.normal(size=50))
    best = minimize_scalar(
        lambda d: dual_value(d * kernels[0] + (1.0 - d) * kernels[1], y, C), bounds=(0, 1), method="bounded"
    )
    result = fit_mwumkl(DenseStack(kernels), y[None], MWUOptions(C, epsilon))
    assert result.outcome is Outcome.CONVERGED
    assert best.fun * (1.0 - 1e-6) <= result.objective_history[-1] <= best.fun * (1.0 + epsilon)
    np.testing.assert_allclose(result.kernel_weights, [best.x, 1.0 - best.x], atol=0.03)


def test_other_library_tasks_that_share_weights(rng):
    kernels, _ = problem(rng, 45, 2)
    signal = kernels[0] @ rng.normal(size=45) + 0.5 * kernels[1] @ rng.normal(size=45)
    classes = signal.argsort().argsort() // 15
    targets = np.where(classes == np.arange(3)[:, None], 1.0, -1.0)

    def value(d):
        return sum(dual_value(d * kernels[0] + (1.0 - d) * kernels[1], y, 1.0) for y in targets)

    best = minimize_scalar(value, bounds=(0, 1), method="bounded")
    result = fit_mwumkl(DenseStack(kernels), targets, MWUOptions(epsilon=2e-3))
    assert result.outcome is Outcome.CONVERGED
    assert result.objective_history[-1] == pytest.approx(best.fun, rel=2e-3)
    np.testing.assert_allclose(result.kernel_weights, [best.x, 1.0 - best.x], atol=0.05)
    total = sum(primal_value(kernels, y, result, 1.0, c) for c, y in enumerate(targets))
    assert total == pytest.approx(result.objective_history[-1], rel=1e-10)
    np.testing.assert_allclose(result.signed_dual.sum(axis=1), 0.0, atol=1e-12)


def test_other_library_closed_form_of_the_matrix_exponential(rng):
    """The oracle's gradient is the one of the paper's density matrix, exp(-rate M) over its trace (§4)."""
    kernels, y = problem(rng, 8, 3)
    game, sums = _start(DenseStack(kernels), y[None], C=2.0)
    plus, minus = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    for _ in range(5):
        _add_pair(game, sums, 0, (int(rng.choice(plus)), int(rng.choice(minus))))
    alpha, rate = sums.dual[0], 0.3
    roots = [np.linalg.cholesky(y[:, None] * y * kernel + np.eye(8) / 2.0).T for kernel in kernels]
    densities = []
    for root in roots:
        arrow = np.zeros((9, 9))
        arrow[0, 1:] = arrow[1:, 0] = root @ alpha
        densities.append(expm(-rate * arrow))
    trace = sum(np.trace(density) for density in densities)
    # <density, arrow of e_j> for every sample j: the gain that the oracle of the paper looks at
    gain = sum(2.0 * density[0, 1:] @ root for density, root in zip(densities, roots, strict=True)) / trace
    forms = np.array([alpha @ root.T @ root @ alpha for root in roots])
    answer = _oracle(game, sums, np.sqrt(forms), rate * np.sqrt(forms))
    off_diagonal = sum(2.0 * np.linalg.norm(density[0, 1:]) for density in densities) / trace
    np.testing.assert_allclose(answer.gradient[0], -gain / off_diagonal, rtol=1e-10)
    assert answer.pair == (plus[gain[plus].argmax()], minus[gain[minus].argmax()])
    assert answer.bound == pytest.approx(-0.5 * (gain[plus].max() + gain[minus].max()) / off_diagonal)


# -------------------------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize("kind", ["smooth", "rank deficient", "near identity", "badly scaled"])
def test_certificate_holds_and_tightens_with_epsilon(rng, kind):
    kernels, y = problem(rng, 30, 4, kind)
    values = []
    for epsilon in (0.3, 0.03, 0.003):
        result = fit_mwumkl(DenseStack(kernels), y[None], MWUOptions(5.0, epsilon))
        assert result.outcome is Outcome.CONVERGED
        assert 0.0 <= result.duality_gap <= epsilon * result.objective_history[-1]
        assert np.all(np.diff(result.objective_history) <= 0.0)
        assert result.objective_history[-1] == pytest.approx(primal_value(kernels, y, result, 5.0), rel=1e-9)
        values.append((result.objective_history[-1], result.objective_history[-1] - result.duality_gap))
    optimum = 0.5 * sum(values[-1])
    for (value, lower), epsilon in zip(values, (0.3, 0.03, 0.003), strict=True):
        assert lower * (1.0 - 2e-3) <= optimum <= value * (1.0 + 2e-3)
        assert value - optimum <= epsilon * value
    assert values[0][0] > values[1][0] > values[2][0]


@pytest.mark.parametrize("epsilon", [0.3, 0.1])
def test_published_schedule_has_the_published_length_and_accuracy(rng, epsilon):
    kernels, y = problem(rng, 40, 3)
    options = MWUOptions(1.0, epsilon, "paper")
    result = fit_mwumkl(DenseStack(kernels), y[None], options)
    assert result.n_solves == int(np.ceil(2.0 * np.log(40) / epsilon**2))
    assert result.outcome is Outcome.CONVERGED
    exact = fit_mwumkl(DenseStack(kernels), y[None], MWUOptions(1.0, 1e-3))
    distance, upper = (
        np.sqrt(0.5 / (found.objective_history[-1] - found.duality_gap)) for found in (exact, result)
    )
    width = np.sqrt(kernels.diagonal(axis1=1, axis2=2).max() + 0.5)
    assert distance * (1.0 - 1e-3) <= upper <= distance + epsilon * width
    short = fit_mwumkl(DenseStack(kernels), y[None], options._replace(max_iter=20))
    assert short.outcome is Outcome.MAX_ITER
    assert short.n_solves == 20
    exponent, _ = _schedule(_start(DenseStack(kernels), y[None], 1.0)[0], options)
    np.testing.assert_allclose(exponent(np.array([2.0])), -2.0 * np.log(1.0 - epsilon) / width)


def test_certificate_is_never_negative_where_a_fit_claims_to_have_converged(rng):
    outcomes = set()
    for _ in range(20):
        kernels, y = problem(rng, 15, 2)
        noise = rng.normal(size=(2, 15, 15))
        kernels = kernels + rng.uniform(0.0, 0.7) * (noise + noise.transpose(0, 2, 1))
        kernels[:, np.arange(15), np.arange(15)] = 1.0
        result = fit_mwumkl(DenseStack(kernels), y[None], MWUOptions(max_iter=1000))
        outcomes.add(result.outcome)
        if result.outcome.converged:
            assert result.duality_gap >= -1e-9 * abs(result.objective_history[-1])
    assert outcomes == {Outcome.CONVERGED, Outcome.NOT_IMPROVING, Outcome.NOT_FINITE}


# ------------------------------------------------------------------------------------------------ columns, memory


def test_memory_is_linear_in_the_number_of_samples(monkeypatch):
    monkeypatch.setattr("bayesmkl.discriminative.estimators.checked.CACHE_MB", 4.0)
    monkeypatch.setattr("bayesmkl._estimator.base.BLOCK_ENTRIES", 2**20)  # of scores, 8 MB
    X, y = make_moons(3000, noise=0.2, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=(3000, 3))])
    bank = KernelBank(Gaussian(width=1), views="each")
    model = MWUMKLClassifier(bank, epsilon=0.1)
    tracemalloc.start()
    model.fit(X, y)
    fitting = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    scores = model.decision_function(X)
    scoring = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one_kernel = 8 * 3000**2  # 72 MB
    assert fitting < one_kernel / 5
    assert scoring < one_kernel / 2
    assert model.kernel_weights_[:2].sum() > 0.9
    assert ((scores > 0) == (y == 1)).mean() > 0.85


@pytest.fixture(scope="module")
def wdbc():
    data = load_wdbc()
    X = data.data[::2, [0, 1, 6, 7]]
    return (X - X.mean(axis=0)) / X.std(axis=0), data.target[::2]


@pytest.mark.parametrize("normalize", ["spherical", "trace", "center", None])
def test_degenerate_bank_stack_and_clipped_bank_agree(wdbc, normalize):
    X, y = wdbc
    bank = KernelBank([Gaussian(width=1), Linear()], "all+each", normalize)
    model = MWUMKLClassifier(bank, epsilon=0.2).fit(X[:200], y[:200])
    whole = MWUMKLClassifier(bank, epsilon=0.2, indefinite="clip").fit(X[:200], y[:200])
    given = MWUMKLClassifier("precomputed", epsilon=0.2).fit(bank.fit_transform(X[:200]), y[:200])
    for other in (whole, given):
        np.testing.assert_allclose(other.kernel_weights_, model.kernel_weights_, rtol=1e-6)
        np.testing.assert_allclose(other.duality_gap_, model.duality_gap_, rtol=1e-6)
    scores = model.decision_function(X[200:])
    np.testing.assert_allclose(whole.decision_function(X[200:]), scores, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(given.decision_function(bank.transform(X[200:])), scores, rtol=1e-6, atol=1e-9)


# ------------------------------------------------------------------------------------------------------ messages


def test_indefinite_callables_are_found_among_few_samples(wdbc):
    X, y = wdbc

    def shifted(X, Z):
        return X @ Z.T - 3.0

    bank = KernelBank([Gaussian(width=1), shifted], normalize=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelQualityWarning)
        with pytest.raises(ValueError, match=r"not positive semidefinite: .*shifted · all"):
            MWUMKLClassifier(bank).fit(X, y)
        clipped = MWUMKLClassifier(bank, indefinite="clip", epsilon=0.2).fit(X[:100], y[:100])
    assert clipped.score(X, y) > 0.9


@pytest.mark.parametrize(("C", "epsilon"), [(1.0, 0.02), (20.0, 0.05), (0.05, 0.1)])
def test_fewer_primal_values_change_no_step(C, epsilon):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0.2, 1.0, -1.0)
    stack, options = DenseStack(3.0 * (0.5 + X @ X.T)[None] ** 2), MWUOptions(C, epsilon)
    every, seldom = (fit_mwumkl(stack, y[None], options._replace(every=every)) for every in (1, 8))
    assert (every.n_solves, every.outcome) == (seldom.n_solves, seldom.outcome)
    assert (seldom.objective_history >= every.objective_history).all()
    np.testing.assert_array_equal(every.signed_dual, seldom.signed_dual)
