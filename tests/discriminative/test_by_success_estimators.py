"""SwMKLClassifier and LDMKLClassifier: stacks, eigenvalues, gates on features, fallbacks, multiplicative weights."""

from __future__ import annotations

import numpy as np
import pytest
from cases import squared_hinge_scores
from helpers import assert_same
from scipy.linalg import eigvalsh
from sklearn.svm import SVC, SVR

from bayesmkl import KernelBank
from bayesmkl.datasets import make_localized
from bayesmkl.discriminative import LDMKLClassifier, SwMKLClassifier, UniformMKLClassifier
from bayesmkl.discriminative.localized.by_success import (
    LDMKLOptions,
    Offer,
    SuccessOptions,
    fit_ldmkl,
    gated_vote,
    ldmkl_gates,
)
from bayesmkl.discriminative.svm.native import native_kernels
from bayesmkl.discriminative.svm.one_kernel import GatedKernel
from bayesmkl.kernels import Gaussian, Laplacian, Linear, Polynomial

FUNCTIONS = [Gaussian(gamma=0.3), Polynomial(degree=2), Linear()]

SWMKL_OF_THE_PAPER = {"temperature": None, "gate_targets": "train", "gate_kernel": "own"}


def sw_mkl(*kernels, **settings):
    return SwMKLClassifier(*kernels, **SWMKL_OF_THE_PAPER | settings)


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


VIEWS = {"right": [1], "left": [2]}

LDMKL_OF_THE_PAPER = {"temperature": 1.0, "gate_targets": "train", "gate_kernel": "own"}


def ld_mkl(*kernels, **settings):
    return LDMKLClassifier(*kernels, **LDMKL_OF_THE_PAPER | settings)


def halves(rng, n_samples=160):
    """One feature decides where the first is positive, another where it is not."""
    X = rng.normal(size=(n_samples, 3))
    return X, np.where(np.where(X[:, 0] > 0.0, X[:, 1], X[:, 2]) > 0.0, 1, -1)


def bank_of_views(functions=FUNCTIONS, views=None):
    return KernelBank(functions, normalize=None) if views is None else KernelBank(functions, views, None)


# -------------------------------------------------------------------------------------------- equal inputs


def test_parameters_reach_the_algorithm(rng):
    X, y, new = toy(rng)
    kernels = native_kernels(bank_of_views().fit(X))
    draws = np.random.default_rng(7)
    order = np.lexsort((y, *X.T[::-1]))
    shuffled, fold = order[draws.permutation(len(y))], np.empty(len(y), dtype=int)
    for label in (-1, 1):
        of_class = shuffled[y[shuffled] == label]
        fold[of_class] = np.arange(len(of_class)) % 3
    folds = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    success = SuccessOptions(C=2.0, gate_C=3.0, gate_epsilon=0.05, tol=1e-5, order=order)
    options = LDMKLOptions("paper", "keep", 0.4, 0.3, success)
    result = fit_ldmkl(kernels, y.astype(float), options, Offer((), folds, draws))
    rows = [kernel.rows(new) for kernel in kernels]
    gates = ldmkl_gates(kernels, result, rows, 0.4)

    model = ld_mkl(
        bank_of_views(),
        C=2.0,
        sv_gate="paper",
        bias="keep",
        temperature=0.4,
        threshold=0.3,
        gate_targets="cv",
        gate_C=3.0,
        gate_epsilon=0.05,
        tol=1e-5,
        random_state=7,
    ).fit(X, y)
    np.testing.assert_array_equal(model.gates(new), gates.T)
    np.testing.assert_array_equal(model.decision_function(new), gated_vote(kernels, result.svms, rows, gates))
    np.testing.assert_array_equal(model.gates_, result.gates.T)
    np.testing.assert_array_equal(model.n_selected_, result.n_selected)
    np.testing.assert_array_equal(model.support_, result.support)
    assert model.n_solves_ == 3 * 3 + 3 + 3 + np.sum(result.retrained & (result.n_selected < len(y)))
    for m, svm in enumerate(result.svms):
        np.testing.assert_array_equal(model.dual_coef_[m, svm.support], svm.coef)
        assert np.count_nonzero(model.dual_coef_[m]) == len(svm.support)
        assert model.intercept_[m] == svm.intercept


# ------------------------------------------------------------------------------------------------- gating view


def test_gates_find_the_half_of_each_kernel(rng):
    X, y = halves(rng)
    test, labels = halves(rng, 400)
    accuracy = {}
    for gate_kernel in (Gaussian(width=0.7), "own"):
        model = ld_mkl(bank_of_views(Linear(), VIEWS), gate_kernel=gate_kernel, temperature=0.1)
        accuracy[str(gate_kernel)] = model.fit(X, y).score(test, labels)
        if gate_kernel != "own":
            gates = model.gates(np.array([[2.0, 0.5, -0.5], [-2.0, 0.5, -0.5]]))
            assert gates[0, 0] > 0.9
            assert gates[1, 1] > 0.9
    accurate, blind = accuracy.values()
    assert accurate > blind + 0.1
    assert accurate > 0.85


# -------------------------------------------------------------------------------------------- gates on features


def test_gates_on_features_of_their_own(rng):
    X, y, new = toy(rng)
    features, of_new = X[:, :2] ** 2, new[:, :2] ** 2
    bank = bank_of_views().fit(X)
    settings = {"gate_kernel": Gaussian(gamma=2.0), "tol": 1e-6}
    whole, of_rows = np.column_stack([X, features]), np.column_stack([new, of_new])
    model = ld_mkl(bank_of_views(), gate_columns=slice(-2, None), **settings).fit(whole, y)
    dense = ld_mkl("precomputed", **settings).fit(bank.transform(X), y, gate_features=features)
    expected = [SVR(gamma=2.0, tol=1e-6).fit(features, s).predict(of_new) for s in model.results_[0].success]
    expected = np.exp(expected) / np.exp(expected).sum(axis=0)
    assert_same(model.gates(of_rows), expected.T, 1e-5)
    scores = dense.decision_function(bank.transform(new), gate_features=of_new)
    assert_same(model.decision_function(of_rows), scores, 1e-4)
    assert model.n_gate_features_ == dense.n_gate_features_ == 2
    by_position = model.gating_matrix(of_rows, whole, 1)
    assert_same(by_position, np.outer(expected[1], model.gates_[:, 1]), 1e-5)


def test_a_kernel_of_the_gates_that_libsvm_has_not(rng):
    X, y, new = toy(rng)
    native = ld_mkl(bank_of_views(), gate_kernel=Gaussian(gamma=0.5), tol=1e-6).fit(X, y)
    formed = ld_mkl(bank_of_views(), gate_kernel=Laplacian(gamma=0.5), tol=1e-6).fit(X, y)
    assert np.abs(formed.gates(new) - native.gates(new)).max() > 1e-3
    svms = SVR(kernel="precomputed", tol=1e-6)
    kernel = Laplacian(gamma=0.5)
    raw = [svms.fit(kernel(X, X), s).predict(kernel(new, X)) for s in formed.results_[0].success]
    assert_same(formed.gates(new), (np.exp(raw) / np.exp(raw).sum(axis=0)).T, 1e-6)


def test_what_gates_need_and_what_they_do_not(rng):
    X, y, new = toy(rng)
    stack = bank_of_views().fit(X).transform(X)
    with pytest.raises(ValueError, match=r"`gate_features` must be passed with precomputed kernels"):
        ld_mkl("precomputed", gate_kernel=Gaussian(width=1)).fit(stack, y)
    with pytest.raises(ValueError, match=r'`gate_features` must be None with `gate_kernel="own"`'):
        ld_mkl("precomputed").fit(stack, y, gate_features=X)
    rows = bank_of_views().fit(X).transform(new)
    model = ld_mkl("precomputed", gate_kernel=Gaussian(width=1)).fit(stack, y, X[:, :2])
    with pytest.raises(ValueError, match=r"`gate_features` must have 2 columns"):
        model.predict(rows, gate_features=new)
    with pytest.raises(ValueError, match=r"`gate_features` must have one row for each"):
        model.predict(rows, gate_features=X[:, :2])


# --------------------------------------------------------------------------------------- fallbacks and draws


@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
def test_svms_of_one_class_are_kept(rng):
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] > np.quantile(X[:, 0], 1.0 / 3.0), 1, -1)
    labels = y[:, None].astype(float)  # gates that see the labels
    stack = np.stack([Gaussian(gamma=0.3)(X, X), np.zeros((60, 60))], axis=-1)
    settings = {"bias": "keep", "gate_kernel": Linear(), "gate_C": 10.0}
    model = ld_mkl("precomputed", threshold=0.45, **settings).fit(stack, y, labels)
    np.testing.assert_array_equal(model.retrained_, [True, False])
    np.testing.assert_array_equal(model.n_selected_, [60, 40])
    assert model.n_solves_ == 4  # all samples, or too few classes: nothing to train again
    first = SVC(kernel="precomputed").fit(stack[:, :, 1], y)
    assert model.intercept_[1] == pytest.approx(first.intercept_[0], abs=1e-9)
    model = ld_mkl("precomputed", threshold=0.99, **settings).fit(stack, y, labels)
    assert not model.retrained_.any()
    assert np.isfinite(model.decision_function(stack, labels)).all()


# ------------------------------------------------------------------------------------------------- orders of samples


def blobs(distance, seed, n_samples=200):
    """Two Gaussian blobs in the plane with as many samples each."""
    y = np.arange(n_samples) % 2
    X = np.random.default_rng(seed).normal(size=(n_samples, 2))
    X[:, 0] += distance * (y - 0.5)
    return X, y


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("distance", "seed"), [(2, 7), (3, 8), (4, 6)]
)  # half wrong with the paper's threshold
def test_defaults_tell_blobs_apart(distance, seed):
    X, y = blobs(distance, seed)
    new, labels = blobs(distance, 1000 + seed, 1000)
    model = LDMKLClassifier(KernelBank("paper")).fit(X, y)
    uniform = UniformMKLClassifier().fit(X, y).score(new, labels)
    assert model.score(new, labels) > uniform - 0.02
    assert uniform > 0.8


@pytest.mark.heavy
def test_defaults_do_not_depend_on_the_order_of_the_samples():
    X, y = blobs(2, 2, 60)
    new = blobs(2, 1002)[0]
    one = LDMKLClassifier(KernelBank("paper")).fit(X, y)
    order = np.random.default_rng(0).permutation(60)
    other = LDMKLClassifier(KernelBank("paper")).fit(X[order], y[order])
    assert_same(other.decision_function(new), one.decision_function(new), 1e-6)
    assert other.gate_kernel_ == one.gate_kernel_


def test_gates_see_what_votes_best():
    """Features that tell where kernels are right are taken, and kernels themselves where nothing else is known."""
    sample = make_localized(400, design="halves", random_state=0)
    X, y, views = sample.data, sample.target, KernelBank(Gaussian(width=2), views=sample.views)
    named = LDMKLClassifier(views, gate_columns=sample.gate_columns).fit(X[:200], y[:200])
    assert named.gate_kernel_ in named.gate_bank_.kernel_names_
    assert named.score(X[200:], y[200:]) > UniformMKLClassifier(views).fit(X[:200], y[:200]).score(
        X[200:], y[200:]
    )
    stack = named.kernel_bank_.transform(X[:200])
    unnamed = LDMKLClassifier("precomputed").fit(stack, y[:200])
    assert (unnamed.gate_kernel_, unnamed.gate_bank_) == ("own", None)
    kept = KernelBank([Gaussian(width=1), Linear()], missing_views="impute")
    assert LDMKLClassifier(kept).fit(X[:60], y[:60]).gate_kernel_ == "own"


def test_equal_gates_are_not_above_a_strict_threshold(rng):
    X, y, _ = toy(rng)
    one = bank_of_views([Gaussian(gamma=0.3)])
    kept = ld_mkl(one, threshold="paper").fit(X, y)
    np.testing.assert_array_equal(kept.n_selected_, len(y))
    left_out = ld_mkl(one, threshold="paper", strict=True).fit(X, y)
    np.testing.assert_array_equal(left_out.n_selected_, 0)


def test_the_threshold_follows_named_features(rng):
    X, y = halves(rng)
    bank = KernelBank(Gaussian(width=1), views={"one": [1], "other": [2]})
    common = {"gate_targets": "cv", "gate_kernel": Gaussian(width=1)}
    named = LDMKLClassifier(bank, gate_columns=[0], **common).fit(X, y)
    paper = LDMKLClassifier(bank, gate_columns=[0], threshold="paper", **common).fit(X, y)
    np.testing.assert_array_equal(named.decision_function(X), paper.decision_function(X))
    assert named.n_selected_.max() < len(y)
    unnamed = LDMKLClassifier(bank, **common).fit(X, y)
    assert unnamed.n_selected_.tolist() == [len(y)] * 2
    stack = bank.fit(X).transform(X)
    given = LDMKLClassifier("precomputed", **common).fit(stack, y, gate_features=X[:, 0])
    assert given.n_selected_.max() < len(y)
    own = LDMKLClassifier("precomputed").fit(stack, y)
    assert own.n_selected_.tolist() == [len(y)] * 2


def test_cross_validation_takes_a_class_of_a_single_sample(rng):
    X = rng.normal(size=(20, 3))
    y = np.arange(20) == 3
    model = ld_mkl(bank_of_views(), gate_targets="cv").fit(X, y)
    assert model.n_solves_ == 3 * (3 + 1 + 1)
    assert not model.results_[0].success[:, 3].any()  # its folds know one class only


# ------------------------------------------------------------------------------------- several classes, solvers


def test_multiplicative_weights_train_the_squared_hinge(rng):
    X, y, _ = toy(rng, 40)
    C, epsilon, functions = 2.0, 0.02, [Gaussian(gamma=0.3), Gaussian(gamma=1.0)]
    bank = bank_of_views(functions)
    model = ld_mkl(bank, C=C, bias="keep", threshold="paper", svm="mwu", mwu_epsilon=epsilon, tol=1e-3).fit(
        X, y
    )
    assert model.n_solves_ == 6

    def primal(norm, scores, labels):
        return 0.5 * norm + 0.5 * C * (np.maximum(0.0, 1.0 - labels * scores) ** 2).sum()

    for m, function in enumerate(functions):
        chosen = model.gates_[:, m] >= 0.5 * np.exp(-2e-3)
        assert chosen.sum() == model.n_selected_[m] < 40
        kernel, v, labels = function(X[chosen], X[chosen]), model.dual_coef_[m], y[chosen]
        assert not v[~chosen].any()
        scores = kernel @ v[chosen]
        found = primal(v[chosen] @ scores, scores + model.intercept_[m], labels)
        best = squared_hinge_scores(kernel, labels, C, kernel)
        dual = C * labels * np.maximum(0.0, 1.0 - labels * best)  # what the margins of the optimum say
        least = primal(dual @ kernel @ dual, best, labels)
        assert least * (1.0 - 1e-6) <= found <= least / (1.0 - epsilon)


def test_a_refitted_bias_of_multiplicative_weights(rng):
    X, y, _ = toy(rng, 40)
    C = 2.0
    model = ld_mkl(bank_of_views(Gaussian(gamma=0.3)), C=C, svm="mwu").fit(X, y)
    v = model.dual_coef_[0]
    support = np.flatnonzero(v)
    margins = 1.0 - np.abs(v[support]) / C  # all of them are free
    mean = np.mean(y[support] * margins - (Gaussian(gamma=0.3)(X, X) @ v)[support])
    assert model.intercept_[0] == pytest.approx(mean, abs=1e-10)
