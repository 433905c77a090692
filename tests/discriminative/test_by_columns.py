"""SVMs by multiplicative weights inside localized methods: against LibSVM, MWUMKL, dense kernels; memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import random_kernels, random_labels
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.estimators.by_success import LDMKLClassifier, SwMKLClassifier
from bayesmkl.discriminative.estimators.clmkl import CLMKLClassifier
from bayesmkl.discriminative.estimators.lmkl import LMKLClassifier
from bayesmkl.discriminative.gating import SigmoidGating, SoftmaxGating
from bayesmkl.discriminative.global_weights.mwumkl import MultiplicativeWeights, MWUOptions, fit_mwumkl
from bayesmkl.discriminative.localized.clmkl import CLMKLOptions, ClusteredStack, fit_clmkl
from bayesmkl.discriminative.localized.lmkl import (
    SOLVERS,
    LMKLOptions,
    _Evaluator,
    _Problem,
    fit_lmkl,
)
from bayesmkl.discriminative.svm.native import native_kernels
from bayesmkl.discriminative.svm.one_kernel import (
    GatedKernel,
    PrecomputedKernel,
    classify_by_columns,
    precomputed_kernels,
    scores,
)
from bayesmkl.kernels import Gaussian, Linear, Polynomial
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

HARD = 1e5  # LibSVM's C for a hard margin
ESTIMATORS = pytest.mark.parametrize(
    "estimator", [LMKLClassifier, CLMKLClassifier, SwMKLClassifier, LDMKLClassifier]
)


def exact(kernel, y, C):
    """Dual, intercept and value of the squared hinge loss: LibSVM's hard margin on K + I / C."""
    ridge = kernel + np.eye(len(y)) / C
    fitted = SVC(kernel="precomputed", C=HARD, tol=1e-8).fit(ridge, y)
    v = np.zeros(len(y))
    v[fitted.support_] = fitted.dual_coef_[0]
    return v, fitted.intercept_[0], np.abs(v).sum() - 0.5 * v @ ridge @ v


def assert_accurate(kernel, y, C, v, b, epsilon):
    """The primal value is within epsilon of LibSVM's, and the function as near as strong convexity says then."""
    best, _, value = exact(kernel, y, C)
    f = kernel @ v
    primal = 0.5 * v @ f + 0.5 * C * np.sum(np.maximum(0.0, 1.0 - y * (f + b)) ** 2)
    assert value * (1.0 - 1e-6) <= primal <= value / (1.0 - epsilon)
    distance = np.sqrt(2.0 * (primal - value) + 1e-6 * value)
    assert (np.abs(f - kernel @ best) <= distance * np.sqrt(kernel.diagonal())).all()
    return primal


def two_sides(rng, n_samples):
    """Two features, each of which tells the classes apart on one side of a third."""
    X = rng.normal(size=(n_samples, 3))
    X[:, 2] = rng.uniform(-2.0, 2.0, size=n_samples)
    return X, np.where(np.where(X[:, 2] > 0.0, X[:, 0], X[:, 1]) > 0.0, 1.0, -1.0)


@pytest.fixture
def sides(rng):
    """The problem of two sides as a bank's columns, and as kernels in memory."""
    X, y = two_sides(rng, 70)
    bank = KernelBank([Gaussian(width=1.5), Polynomial(degree=2)], views={"a": [0], "b": [1]}).fit(X)
    return BankColumns(bank, 1.0), DenseStack(np.ascontiguousarray(bank.train_stack())), X, y


# --------------------------------------------------------------------------------------------------- the SVM


@pytest.mark.parametrize(("C", "epsilon"), [(0.1, 5e-3), (1.0, 5e-3), (30.0, 0.03)])
def test_other_library_one_svm_is_libsvm_with_squared_hinge(rng, C, epsilon):
    kernel, y = 7.0 * random_kernels(rng, 40, 1)[0], random_labels(rng, 40)
    found = MultiplicativeWeights(C, epsilon).solve(DenseStack(kernel[None]), y, 0.0)
    primal = assert_accurate(kernel, y, C, found.signed_dual, found.intercept, epsilon)
    assert primal == pytest.approx(found.objective + found.gap, rel=1e-9)
    assert found.objective <= exact(kernel, y, C)[2] * (1.0 + 1e-6)
    assert found.gap <= epsilon * primal
    assert found.intercept == pytest.approx(exact(kernel, y, C)[1], abs=0.3)


def test_invariance_kernel_and_price_scaled_against_each_other(rng):
    kernel, y = random_kernels(rng, 30, 1), random_labels(rng, 30)
    kernel *= rng.uniform(0.5, 2.0, size=30)[:, None] * np.ones(30)
    kernel = 0.5 * (kernel + kernel.transpose(0, 2, 1)) + 30.0 * np.eye(30)
    one = MultiplicativeWeights(2.0, 0.01).solve(DenseStack(kernel), y, 0.0)
    other = MultiplicativeWeights(2.0 / 64.0, 0.01).solve(DenseStack(64.0 * kernel), y, 0.0)
    np.testing.assert_allclose(64.0 * other.signed_dual, one.signed_dual, rtol=1e-9, atol=1e-15)
    assert 64.0 * other.objective == pytest.approx(one.objective, rel=1e-9)
    assert other.intercept == pytest.approx(one.intercept, rel=1e-9)


def test_a_kernel_of_zeros_leaves_a_constant(rng):
    y = np.array([1.0, 1.0, -1.0])
    found = MultiplicativeWeights(1.0, 0.01).solve(DenseStack(np.zeros((1, 3, 3))), y, 0.0)
    _, _, value = exact(np.zeros((3, 3)), y, 1.0)
    assert found.objective == pytest.approx(value, rel=0.011)
    assert found.intercept == pytest.approx(1.0 / 3.0, abs=0.01)  # the mean label


@pytest.mark.parametrize("kind", ["native", "precomputed"])
def test_other_library_svms_of_single_kernels(rng, kind):
    X, y = two_sides(rng, 60)
    bank = KernelBank([Gaussian(width=1.0), Polynomial(degree=2), Linear()]).fit(X)
    stack = DenseStack(np.ascontiguousarray(bank.train_stack()))
    kernels = native_kernels(bank) if kind == "native" else precomputed_kernels(stack)
    subset = rng.permutation(60)[:35]
    for kernel, values in zip(kernels, stack.kernels, strict=True):
        solver = MultiplicativeWeights(3.0, epsilon=0.01)
        for chosen in (np.arange(60), np.sort(subset)):
            svm = classify_by_columns(kernel, y, solver, 1e-3, None if len(chosen) == 60 else subset)
            assert np.isin(svm.support, chosen).all()
            v = np.zeros(60)
            v[svm.support] = svm.coef
            among = values[np.ix_(chosen, chosen)]
            assert_accurate(among, y[chosen], 3.0, v[chosen], svm.intercept, 0.01)
            expected = values @ v + svm.intercept
            np.testing.assert_allclose(scores(kernel, svm), expected, rtol=1e-6, atol=1e-6)


def test_degenerate_samples_of_one_class_give_its_constant(rng):
    kernel, y = PrecomputedKernel(random_kernels(rng, 30, 1)[0]), random_labels(rng, 30)
    constant = classify_by_columns(kernel, y, MultiplicativeWeights(), 1e-3, np.flatnonzero(y > 0.0))
    assert (constant.intercept, constant.support.size) == (1.0, 0)


@pytest.mark.parametrize("normalized", [False, True])
def test_other_library_last_svm_of_success_weights(rng, normalized):
    """On gated kernels, and on those that are normalized pair by pair as long as they stay definite."""
    kernels, y = precomputed_kernels(DenseStack(random_kernels(rng, 50, 2))), random_labels(rng, 50)
    gates = np.ones((1, 2, 50)) if normalized else rng.uniform(0.1, 1.0, size=(1, 2, 50))
    gated = GatedKernel(kernels, gates, normalized)
    found = MultiplicativeWeights(2.0, 0.01).solve(gated, y, 0.0)
    assert_accurate(gated.dense(), y, 2.0, found.signed_dual, found.intercept, 0.01)


# ------------------------------------------------------------------------------------------------ LMKL and C-LMKL


@pytest.mark.parametrize("gating", [SoftmaxGating(1.0), SigmoidGating(1.0)], ids=["softmax", "sigmoid"])
def test_finite_difference_gradient_of_the_exact_squared_hinge_value(sides, rng, gating):
    columns, dense, X, y = sides
    parameters = gating.init(X, 4, rng)

    def value(at):
        gates = gating.gates(at, X)
        return exact(dense.combine_gated(gates, gates), y, 1.0)[2]

    problem = _Problem(columns, y, X, MultiplicativeWeights(1.0, 1e-3), LMKLOptions())
    found = _Evaluator(problem, gating)(parameters).gradient
    direction = rng.normal(size=parameters.shape)
    slope = (value(parameters + 1e-4 * direction) - value(parameters - 1e-4 * direction)) / 2e-4
    assert found @ direction == pytest.approx(slope, rel=0.03, abs=0.03 * np.abs(found).max())


def test_degenerate_case_one_kernel_leaves_the_svm_itself(sides):
    _, dense, X, y = sides
    one = DenseStack(dense.kernels[:1])
    inner = MultiplicativeWeights(1.0, 1e-3)
    svm = inner.solve(one, y, 0.0)
    lmkl = fit_lmkl(one, y, X, inner, SoftmaxGating(), rng=np.random.default_rng(0))
    alone = np.ones((1, 70))
    clmkl = fit_clmkl(ClusteredStack(one, alone, alone), y[None], inner)
    for v in (lmkl.signed_dual, clmkl.signed_dual[0]):
        np.testing.assert_allclose(v, svm.signed_dual, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("epsilon", [0.3, 0.05])
def test_descent_on_noisy_svms_goes_down_and_ends(sides, solver, epsilon):
    columns, dense, X, y = sides
    options = LMKLOptions(solver=solver, max_iter=60)
    inner = MultiplicativeWeights(1.0, epsilon)
    result = fit_lmkl(columns, y, X, inner, SoftmaxGating(), options, rng=np.random.default_rng(0))
    assert result.outcome is Outcome.CONVERGED
    assert (np.diff(result.objective_history) < 0.0).all()
    same = fit_lmkl(dense, y, X, inner, SoftmaxGating(), options, rng=np.random.default_rng(0))
    np.testing.assert_allclose(same.gates, result.gates, atol=1e-6)
    start = SoftmaxGating().gates(SoftmaxGating().init(X, 4, np.random.default_rng(0)), X)
    before, after = (exact(dense.combine_gated(g, g), y, 1.0)[2] for g in (start, result.gates))
    assert after < before  # also of the exact values
    assert after * (1.0 - 1.1 * epsilon) <= result.objective_history[-1] <= after * (1.0 + 1e-6)


def test_other_algorithm_one_cluster_is_mwumkl(sides):
    columns, dense, _, y = sides
    everyone = np.ones((1, 70))
    found = fit_clmkl(
        ClusteredStack(columns, everyone, everyone),
        y[None],
        MultiplicativeWeights(1.0, 0.01),
        CLMKLOptions(p_norm=1.0, max_iter=100),
    )
    best = fit_mwumkl(dense, y[None], MWUOptions(1.0, 0.01))  # diagonals are one: the same constraint
    lowest, highest = best.objective_history[-1] - best.duality_gap, best.objective_history[-1]
    assert found.outcome is Outcome.CONVERGED
    assert lowest * (1.0 - 1e-9) <= found.objective_history[-1] <= highest * 1.02
    assert found.objective_history[-1] - found.duality_gap <= highest


# ---------------------------------------------------------------------------------------------------- estimators


@ESTIMATORS
def test_estimators_form_no_kernel_and_agree_with_precomputed_ones(rng, monkeypatch, estimator):
    X, y = two_sides(rng, 90)
    new = two_sides(rng, 20)[0]
    bank = KernelBank([Gaussian(width=1.5), Polynomial(degree=2)], views={"a": [0, 2], "b": [1, 2]})
    stacks = bank.fit_transform(X), bank.transform(new)
    if estimator is CLMKLClassifier:  # clusters of up to 2000 samples are exact
        special = {"n_clusters": 2, "n_landmarks": 20, "random_state": 0}
    else:
        special = {"random_state": 0} if estimator is LMKLClassifier else {"gate_kernel": "own"}
    precomputed = estimator("precomputed", svm="mwu", mwu_epsilon=0.005, **special)
    features = {"gate_features": X} if estimator is LMKLClassifier else {}
    precomputed.fit(stacks[0], y, **features)

    def refuse(*_, **__):
        raise AssertionError("a training kernel was formed")

    monkeypatch.setattr(KernelBank, "train_stack", refuse)
    monkeypatch.setattr(KernelBank, "fit_transform", refuse)
    model = estimator(bank, svm="mwu", mwu_epsilon=0.005, **special).fit(X, y)
    assert model.converged_
    assert model.score(X, y) > (0.6 if estimator is LDMKLClassifier else 0.75)
    features = {"gate_features": new} if estimator is LMKLClassifier else {}
    expected = precomputed.decision_function(stacks[1], **features)
    np.testing.assert_allclose(model.decision_function(new), expected, atol=0.05 * np.abs(expected).max())


@ESTIMATORS
def test_more_accurate_svms_approach_the_squared_hinge(rng, estimator):
    """With one kernel and constant gates all methods are the SVM itself, up to LD-MKL's tanh."""
    X, y = two_sides(rng, 60)
    bank = KernelBank([Gaussian(width=1.5)], normalize=None)
    special = {"n_clusters": 1} if estimator is CLMKLClassifier else {}
    model = estimator(bank, C=2.0, svm="mwu", mwu_epsilon=1e-3, **special).fit(X, y)
    kernel = bank.fit(X).train_stack()[0]
    v, b, _ = exact(kernel, y, 2.0)
    expected = kernel @ v + b
    expected = np.tanh(expected) if estimator is LDMKLClassifier else expected
    np.testing.assert_allclose(model.decision_function(X), expected, atol=0.04)


@ESTIMATORS
def test_svms_that_take_too_long_say_so_once(rng, monkeypatch, estimator):
    monkeypatch.setattr(MultiplicativeWeights, "__new__", _hurried)
    X, y = two_sides(rng, 40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator(KernelBank([Gaussian(width=1)]), svm="mwu", mwu_epsilon=0.01).fit(X, y)
    about = [w for w in caught if "steps of multiplicative weights" in str(w.message)]
    assert len(about) == 1
    assert about[0].category is ConvergenceWarning


_new = MultiplicativeWeights.__new__


def _hurried(cls, *args, **kwargs):
    return _new(cls, *args, **{**kwargs, "max_iter": 3})
