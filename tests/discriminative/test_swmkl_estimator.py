"""SwMKLClassifier: banks against stacks, gating matrices, eigenvalues, gates on features, multiplicative weights."""

from __future__ import annotations

import numpy as np
import pytest
from cases import squared_hinge_scores
from helpers import assert_same
from scipy.linalg import eigvalsh

from bayesmkl import KernelBank
from bayesmkl.datasets import make_localized
from bayesmkl.discriminative import SwMKLClassifier
from bayesmkl.discriminative.svm.one_kernel import GatedKernel
from bayesmkl.kernels import Gaussian, Linear, Polynomial

FUNCTIONS = [Gaussian(gamma=0.3), Polynomial(degree=2), Linear()]

GATES_OF_THE_PAPER = {"temperature": None, "gate_targets": "train", "gate_kernel": "own"}


def sw_mkl(*kernels, **settings):
    return SwMKLClassifier(*kernels, **GATES_OF_THE_PAPER | settings)


def toy(rng, n_samples=80, n_new=15):
    X = rng.normal(size=(n_samples + n_new, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0.0, 1, -1)
    return X[:n_samples], y[:n_samples], X[n_samples:]


def plain_bank(functions=FUNCTIONS, views="all"):
    return KernelBank(functions, views, normalize=None)


def test_smallest_eigenvalue_and_gap(rng):
    X, y, _ = toy(rng)
    paper = sw_mkl(plain_bank(), psd="paper", gate_C=10.0).fit(X, y)
    lowest = eigvalsh(paper.combined_kernel(X))[0]
    assert lowest < -1e-3
    np.testing.assert_allclose(paper.smallest_eigenvalue_, lowest, rtol=1e-8)
    assert np.isnan(paper.duality_gap_)
    unit = sw_mkl(plain_bank(), gate_C=10.0, tol=1e-4).fit(X, y)
    kernel, v = unit.combined_kernel(X), unit.dual_coef_
    assert eigvalsh(kernel)[0] > -1e-10
    assert np.isnan(unit.smallest_eigenvalue_)
    slack = np.maximum(0.0, 1.0 - y * (kernel @ v + unit.intercept_))
    primal = 0.5 * v @ kernel @ v + slack.sum()
    np.testing.assert_allclose(unit.objective_history_[0] + unit.duality_gap_, primal, rtol=1e-10)
    assert 0.0 <= unit.duality_gap_ < 1e-2 * primal


def test_cross_validation_sees_that_a_flexible_kernel_fails(rng):
    X = np.column_stack([rng.permutation(150), rng.permutation(150)]) / 75.0 - 1.0
    y = X[:, 0] > 0.0
    bank = plain_bank(Gaussian(width=0.01), views="each")  # both learn all their samples by heart
    kept = {}
    for targets in ("train", "cv"):
        model = sw_mkl(bank, C=100.0, gate_targets=targets).fit(X, y)
        kept[targets] = (model.gates_[:, 1] / model.gates_[:, 0]).mean()
    assert kept["train"] == pytest.approx(1.0, abs=1e-6)
    assert kept["cv"] < 0.8


def test_gates_on_features_help_where_kernels_fail_by_region(rng):
    X = rng.normal(size=(460, 3))
    y = np.where(np.where(X[:, 0] > 0.0, X[:, 1], X[:, 2]) > 0.0, 1, -1)
    bank, train, test = plain_bank(Linear(), {"right": [1], "left": [2]}), slice(0, 160), slice(160, 460)
    accuracy = {}
    for name, settings in (("own", {}), ("features", {"gate_kernel": Gaussian(width=0.7)})):
        model = sw_mkl(bank, **settings).fit(X[train], y[train])
        accuracy[name] = model.score(X[test], y[test])
    assert accuracy["features"] > accuracy["own"] + 0.1
    gates, right = model.gates(X[test]), X[test, 0] > 0.0
    assert gates[right, 0].mean() > gates[right, 1].mean() + 0.2
    assert gates[~right, 1].mean() > gates[~right, 0].mean() + 0.2
    stack = plain_bank(Linear(), {"right": [1], "left": [2]}).fit(X[train]).transform(X[train])
    dense = sw_mkl("precomputed", gate_kernel=Gaussian(width=0.7))
    with pytest.raises(ValueError, match=r"`gate_features` must be passed with precomputed kernels"):
        dense.fit(stack, y[train])
    dense.fit(stack, y[train], gate_features=X[train])
    assert_same(dense.gates_, model.gates_, 1e-3)


def test_multiplicative_weights_form_no_kernel(rng, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a kernel matrix was formed")

    monkeypatch.setattr(GatedKernel, "dense", refuse)
    X, y, _ = toy(rng, 40)
    C, epsilon = 2.0, 0.02
    bank = plain_bank([Gaussian(gamma=0.3), Gaussian(gamma=1.0)])
    with pytest.raises(AssertionError, match="was formed"):
        sw_mkl(bank).fit(X, y)
    model = sw_mkl(bank, C=C, svm="mwu", mwu_epsilon=epsilon).fit(X, y)
    kernel, v = model.combined_kernel(X), model.dual_coef_
    best = squared_hinge_scores(kernel, y, C, kernel)
    dual = C * y * np.maximum(0.0, 1.0 - y * best)

    def primal(dual, scores):
        return 0.5 * dual @ kernel @ dual + 0.5 * C * (np.maximum(0.0, 1.0 - y * scores) ** 2).sum()

    least, found = primal(dual, best), primal(v, model.decision_function(X))
    assert least * (1.0 - 1e-6) <= found <= least / (1.0 - epsilon)
    np.testing.assert_allclose(model.objective_history_[0] + model.duality_gap_, found, rtol=1e-6)
    assert model.duality_gap_ <= epsilon * found


def test_a_kernel_of_the_gates_must_be_semidefinite(rng):
    X, y, _ = toy(rng)

    class Indefinite(Gaussian):
        known_psd = False

        def evaluate(self, geometry, out):
            super().evaluate(geometry, out)
            out -= 0.5

    with pytest.raises(ValueError, match=r"`gate_kernel` must be positive semidefinite"):
        sw_mkl(plain_bank(), gate_kernel=Indefinite(width=1.0)).fit(X, y)


@pytest.mark.parametrize("design", ["halves", "hours"])
def test_sharp_gates_of_named_features_tell_where_views_are_right(design):
    sample = make_localized(700, design=design, random_state=0)
    X, y, bank = sample.data, sample.target, KernelBank(Gaussian(width=2), views=sample.views)
    model = SwMKLClassifier(bank, gate_columns=sample.gate_columns).fit(X[:200], y[:200])
    assert model.temperature_ == 0.05
    assert model.score(X[200:], y[200:]) > 0.83
    soft = SwMKLClassifier(bank, gate_columns=sample.gate_columns, temperature=None).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > soft.score(X[200:], y[200:]) + 0.03


def test_gates_that_see_kernels_are_soft(rng):
    """Their regressions follow single training samples."""
    model = SwMKLClassifier(gate_kernel="own").fit(rng.normal(size=(60, 2)), np.arange(60) % 2)
    assert (model.temperature_, model.gate_kernel_, model.gate_bank_) == (None, "own", None)
