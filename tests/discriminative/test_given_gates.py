"""Gates that users give, and equal gates that are kept where gates do not help."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl.datasets import make_localized
from bayesmkl.discriminative import (
    FixedGating,
    LMKLClassifier,
    LMKLRegressor,
    UniformMKLClassifier,
    UniformMKLRegressor,
    check_gating,
)
from bayesmkl.kernels import Gaussian

SAMPLE = make_localized(160, design="halves", random_state=0)
X, Y, TRUTH = SAMPLE.data, SAMPLE.target, SAMPLE.gates
BANK = KernelBank(Gaussian(width=2), views=SAMPLE.views)


# ------------------------------------------------------------------------------------------------------- fixed


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_fixed_gates_are_the_svm_on_the_gated_kernel(scale):
    samples, columns = np.column_stack([X[:, :4], scale * TRUTH]), [4, 5]
    gating = FixedGating(lambda gates: gates)
    model = LMKLClassifier(BANK, gating=gating, gate_columns=columns, standardize=False, tol=1e-7)
    model.fit(samples[:100], Y[:100])
    assert_same(model.gates(samples), scale * TRUTH, SAME_FORMULA)
    kernels = model.kernel_bank_.evaluate(samples)
    kernel = sum(np.outer(g, g[:100]) * k for g, k in zip(scale * TRUTH.T, kernels, strict=True))
    svm = SVC(kernel="precomputed", tol=1e-9).fit(kernel[:100], Y[:100])
    assert_same(model.decision_function(samples), svm.decision_function(kernel), 1e-6)
    assert model.n_solves_ == 1
    assert model.converged_
    assert model.score(samples[100:], Y[100:]) > 0.85


def test_constant_gates_are_weights(rng):
    model = LMKLClassifier(BANK, gating=FixedGating([1.0, 0.0]), gate_columns=[4], tol=1e-6).fit(X, Y)
    first = KernelBank(Gaussian(width=2), views={"left": [0, 1]})
    alone = UniformMKLClassifier(first, tol=1e-7).fit(X, Y)
    assert_same(model.decision_function(X), alone.decision_function(X), 1e-4)
    check_gating(FixedGating([2.0, 1.0]), X, 2, rng)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, -0.5], r"at least 0; got -0.5 for kernel 1 at row 0. Clip or correct them."),
        ([1.0, np.nan], "at least 0; got nan for kernel 1"),
        ([1.0, np.inf], "at least 0; got inf for kernel 1"),
        ([1.0], "gates of 2 kernels, .* got 1"),
        (["a", "b"], r"numbers of shape \(n_rows, n_kernels\)"),
        (lambda z: np.column_stack([z, -z]), "at least 0; got -"),
        (lambda z: np.ones((2, len(z))), r"here 160 rows; got float64 of shape \(2, 160\)"),
    ],
    ids=["negative", "NaN", "infinite", "one", "text", "negative function", "transposed"],
)
def test_fixed_gates_that_cannot_be_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        LMKLClassifier(BANK, gating=FixedGating(values), gate_columns=[4]).fit(X, Y)


def test_fixed_gates_are_checked_at_new_rows():
    gating = FixedGating(lambda z: np.column_stack([np.ones(len(z)), np.where(z[:, 0] < 50.0, 1.0, -1.0)]))
    model = LMKLClassifier(BANK, gating=gating, gate_columns=[4], standardize=False).fit(X, Y)
    new = X.copy()
    new[7, 4] = 60.0
    with pytest.raises(ValueError, match="got -1 for kernel 1 at row 7"):
        model.predict(new)


# ------------------------------------------------------------------------------------------------- equal gates


def test_equal_gates_are_kept_where_nothing_is_local():
    sample = make_localized(160, design="global", random_state=1)
    model = LMKLClassifier(BANK, tol=1e-6, fallback=True).fit(sample.data, sample.target)
    uniform = UniformMKLClassifier(BANK, tol=1e-8).fit(sample.data, sample.target)
    assert model.is_local_ is False
    assert model.converged_
    assert np.isnan(model.gating_parameters_).all()
    assert_same(model.decision_function(sample.data), uniform.decision_function(sample.data), 1e-5)
    assert_same(model.gates(sample.data), np.full((160, 2), 0.5**0.5), SAME_FORMULA)
    assert model.n_solves_ > 10  # of the comparison


def test_gates_that_help_are_those_without_a_comparison():
    given = {"gate_columns": [4], "random_state": 0}
    compared = LMKLClassifier(BANK, fallback=True, **given).fit(X, Y)
    plain = LMKLClassifier(BANK, **given).fit(X, Y)  # gate columns are named
    assert compared.is_local_ is True
    assert plain.is_local_ is True
    np.testing.assert_array_equal(compared.decision_function(X), plain.decision_function(X))
    assert compared.n_solves_ > plain.n_solves_


@pytest.mark.heavy
def test_the_comparison_does_not_see_the_order_of_samples(rng):
    order = rng.permutation(len(Y))
    for sample in (SAMPLE, make_localized(160, design="global", random_state=1)):
        first = LMKLClassifier(BANK).fit(sample.data, sample.target)
        second = LMKLClassifier(BANK).fit(sample.data[order], sample.target[order])
        assert first.is_local_ == second.is_local_


@pytest.mark.heavy
def test_each_class_is_compared_for_itself(rng):
    Z = rng.normal(size=(150, 3))
    labels = np.where(np.where(Z[:, 0] > 0, Z[:, 1], Z[:, 2]) > 0, "local", "rest")
    labels[:4] = "few"
    bank = KernelBank(Gaussian(width=1), views={"second": [1], "third": [2]})
    model = LMKLClassifier(bank, max_iter=20, tol=1e-2).fit(Z, labels)
    assert model.is_local_.tolist() == [False, True, True]
    assert model.gating_parameters_.shape == (3, 8)
    assert np.isnan(model.gating_parameters_).all(axis=1).tolist() == [True, False, False]
    assert model.decision_function(Z).shape == (150, 3)


def test_a_class_of_one_sample_leaves_nothing_to_compare():
    labels = np.arange(20) == 0
    assert LMKLClassifier(BANK, fallback=True, max_iter=2, tol=0.5).fit(X[:20], labels).is_local_ is True


@pytest.mark.heavy
def test_regression_keeps_equal_gates_too():
    target = X[:, 0] + X[:, 2]
    model = LMKLRegressor(BANK, fallback=True, tol=1e-6).fit(X, target)
    assert model.is_local_ is False
    uniform = UniformMKLRegressor(BANK, tol=1e-8).fit(X, target)
    assert_same(model.predict(X), uniform.predict(X), 1e-4)
    local = np.where(X[:, 4] < 0, X[:, 0], X[:, 2])
    assert LMKLRegressor(BANK, gate_columns=[4], fallback=True).fit(X, local).is_local_ is True
