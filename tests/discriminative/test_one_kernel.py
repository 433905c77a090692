"""SVMs on one kernel: native and precomputed ones against each other and LibSVM, memory, the gated kernel."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from helpers import assert_same, random_kernels
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC, SVR

from bayesmkl import KernelBank
from bayesmkl.discriminative.gating import combine_components
from bayesmkl.discriminative.localized.by_success import (
    LDMKLOptions,
    Offer,
    SuccessOptions,
    fit_ldmkl,
    fit_success,
)
from bayesmkl.discriminative.svm.native import native_kernel, native_kernels
from bayesmkl.discriminative.svm.one_kernel import GatedKernel, PrecomputedKernel, precomputed_kernels, scores
from bayesmkl.kernels import Cosine, Gaussian, Laplacian, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack

TIGHT = 1e-8  # LibSVM's tolerance
FUNCTIONS = [
    Gaussian(width=1.5),
    Gaussian(gamma=0.2),
    Polynomial(degree=2),
    Polynomial(degree=3, offset=0.5),
    Linear(),
]
NORMALIZATIONS = [None, "spherical", "trace", ("trace", "spherical"), ("spherical", "trace")]


def toy(rng, n_samples=60, n_features=3):
    X = rng.normal(size=(n_samples, n_features))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n_samples) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("normalize", NORMALIZATIONS, ids=str)
def test_native_values_are_those_of_the_bank(rng, normalize):
    X, _ = toy(rng)
    X[3] = 0.0  # no self-similarity under linear and cosine kernels
    bank = KernelBank([*FUNCTIONS, Cosine()], normalize=normalize).fit(X)
    new = rng.normal(size=(7, 3)) + 2.0
    for native, train, rows in zip(
        native_kernels(bank), bank.train_stack(), bank.row_stack(new), strict=True
    ):
        assert_same(native.block(native.training_rows, slice(None)), train, 1e-12)
        assert_same(native.block(native.rows(new), slice(None)), rows, 1e-12)
        assert_same(native.block(native.rows(new), np.array([5, 2])), rows[:, [5, 2]], 1e-12)
        assert_same(native.diagonal(), train.diagonal(), 1e-12)


@pytest.mark.parametrize("subset", [None, "half"])
@pytest.mark.parametrize("normalize", [None, "spherical"])
def test_native_and_precomputed_svms_agree(rng, normalize, subset):
    X, y = toy(rng)
    bank = KernelBank(FUNCTIONS, normalize=normalize).fit(X)
    target = np.sin(2.0 * X[:, 0])
    chosen = None if subset is None else rng.permutation(60)[:30]
    new = rng.normal(size=(9, 3))
    for native, kernel, rows in zip(
        native_kernels(bank), bank.train_stack(), bank.row_stack(new), strict=True
    ):
        dense = PrecomputedKernel(kernel)
        for one, other in (
            (native.classify(y, 1.0, TIGHT, chosen), dense.classify(y, 1.0, TIGHT, chosen)),
            (native.regress(target, 1.0, 0.1, TIGHT, chosen), dense.regress(target, 1.0, 0.1, TIGHT, chosen)),
        ):
            assert_same(scores(native, one), scores(dense, other), 1e-5)
            assert_same(scores(native, one, native.rows(new)), scores(dense, other, rows), 1e-5)
            large = np.abs(one.coef) > 1e-6
            np.testing.assert_array_equal(one.support[large], other.support[np.abs(other.coef) > 1e-6])


@pytest.mark.parametrize("make", ["native", "precomputed"])
def test_svms_are_those_of_libsvm(rng, make):
    X, y = toy(rng)
    new, subset = rng.normal(size=(9, 3)), np.array([50, 3, 4, 8, 20, 31, 17, 42, 11, 29])
    kernel = native_kernel(Gaussian(gamma=0.3), X)
    rows = kernel.rows(new)
    if make == "precomputed":
        rows, kernel = Gaussian(gamma=0.3)(new, X), PrecomputedKernel(Gaussian(gamma=0.3)(X, X))
    classifier = SVC(gamma=0.3, C=2.0, tol=TIGHT)
    classifier.fit(X, y)
    svm = kernel.classify(y, 2.0, TIGHT)
    np.testing.assert_array_equal(svm.support, np.sort(classifier.support_))
    assert_same(scores(kernel, svm, rows), classifier.decision_function(new), 1e-6)
    classifier.fit(X[subset], y[subset])
    svm = kernel.classify(y, 2.0, TIGHT, subset)
    assert set(svm.support) == set(subset[classifier.support_])
    assert_same(scores(kernel, svm, rows), classifier.decision_function(new), 1e-6)
    regression = SVR(gamma=0.3, C=2.0, epsilon=0.05, tol=TIGHT).fit(X[subset], X[subset, 0])
    svm = kernel.regress(X[:, 0], 2.0, 0.05, TIGHT, subset)
    assert_same(scores(kernel, svm, rows), regression.predict(new), 1e-6)


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_native_gaussians_keep_their_digits_far_from_the_origin(rng, far):
    X = toy(rng)[0]
    native = native_kernel(Gaussian(width=1.0), X + far)
    assert_same(native.block(native.training_rows, slice(None)), Gaussian(width=1.0)(X + far, X + far), 1e-8)
    assert_same(native.block(native.rows(X[:4] + far), slice(None)), Gaussian(width=1.0)(X[:4], X), 1e-8)


def test_samples_of_one_class_give_its_constant(rng):
    X, y = toy(rng)
    for kernel in (native_kernel(Linear(), X), PrecomputedKernel(X @ X.T)):
        svm = kernel.classify(y, 1.0, 1e-3, np.flatnonzero(y < 0))
        assert svm.support.size == 0
        np.testing.assert_array_equal(scores(kernel, svm), -np.ones(60))


def test_regression_of_a_constant_has_no_support(rng):
    X, _ = toy(rng)
    for kernel in (native_kernel(Gaussian(), X), PrecomputedKernel(X @ X.T)):
        svm = kernel.regress(np.ones(60), 1.0, 0.1, 1e-3)
        assert svm.support.size == 0
        np.testing.assert_allclose(scores(kernel, svm), 1.0, atol=1e-12)


def test_kernels_without_a_native_form(rng):
    class Own(Gaussian):
        pass

    X, _ = toy(rng)
    centered = KernelBank([Linear()], normalize="center").fit(X)
    assert native_kernels(centered) is None
    assert native_kernels(KernelBank([Linear(), Laplacian()]).fit(X)) is None
    assert native_kernels(KernelBank([lambda A, B: A @ B.T], normalize=None).fit(X)) is None
    assert native_kernel(Own(), X) is None
    spherical = KernelBank([Polynomial(2, offset=1.0)]).fit(X).normalizers_[0]
    assert native_kernel(Polynomial(2, offset=-0.1), X, normalizers=spherical) is None
    negative = native_kernel(Polynomial(2, offset=-0.1), X)
    assert_same(negative.block(X, slice(None)), Polynomial(2, offset=-0.1)(X, X), 1e-12)


def test_native_svms_never_hold_a_kernel(rng):
    X, y = toy(rng, n_samples=3000)
    kernels = [native_kernel(Gaussian(width=1.0), X), native_kernel(Polynomial(2), X / 3.0)]
    tracemalloc.start()
    result = fit_ldmkl(kernels, y, LDMKLOptions(success=SuccessOptions(tol=0.1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.support.size > 500
    assert peak < 0.2 * 8 * 3000**2


def test_successes_are_those_of_libsvm(rng):
    X, y = toy(rng)
    kernel = native_kernel(Gaussian(gamma=0.3), X)
    classifier = SVC(gamma=0.3, tol=1e-6)
    options = SuccessOptions(tol=1e-6)
    found = fit_success([kernel], y, options)
    expected = (classifier.fit(X, y).predict(X) == y).astype(float)
    np.testing.assert_array_equal(found.success[0], expected)
    assert_same(found.outputs[0], SVR(gamma=0.3, tol=1e-6).fit(X, expected).predict(X), 1e-5)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    found = fit_success([kernel], y, options, Offer(folds=folds))
    expected = (cross_val_predict(classifier, X, y, cv=folds) == y).astype(float)
    np.testing.assert_array_equal(found.success[0], expected)
    assert 0.0 < expected.mean() < 1.0


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("normalized", [False, True])
def test_gated_kernel_against_gating_matrices(rng, n_components, normalized):
    stack = DenseStack(random_kernels(rng, 20, 4))
    gates = rng.uniform(0.1, 1.0, size=(n_components, 4, 20))
    gated = GatedKernel(precomputed_kernels(stack), gates, normalized)
    expected = combine_components(stack, gates, gates)
    if normalized:
        expected = expected / np.einsum("rmi,rmj->ij", gates, gates)
    assert_same(gated.dense(), expected, 1e-13)
    index = np.array([3, 0, 11])
    assert_same(gated.columns(index)[0], expected[:, index], 1e-13)
    assert_same(gated.diagonal()[0], expected.diagonal(), 1e-13)
    rows = [kernel.training_rows[4:9] for kernel in gated.kernels]
    assert_same(gated.block(rows, gates[:, :, 4:9], index), expected[4:9][:, index], 1e-13)


def test_gated_native_kernel_in_blocks_of_rows(rng, monkeypatch):
    monkeypatch.setattr("bayesmkl.discriminative.svm.one_kernel.BLOCK", 250)
    X, _ = toy(rng)
    bank = KernelBank(FUNCTIONS).fit(X)
    gates = rng.uniform(0.1, 1.0, size=(1, len(FUNCTIONS), 60))
    native = GatedKernel(native_kernels(bank), gates).dense()
    dense = GatedKernel(precomputed_kernels(DenseStack(bank.train_stack())), gates).dense()
    assert_same(native, dense, 1e-12)
    coef = rng.normal(size=60)
    kernel = native_kernels(bank)[1]
    expected = bank.train_stack()[1] @ coef
    assert_same(kernel.product(kernel.training_rows, np.arange(60), coef), expected, 1e-12)
