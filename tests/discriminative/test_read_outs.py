"""Gates that users give or other methods learn, read by an SVM or a vote; equal gates where gates do not help."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl.datasets import make_localized
from bayesmkl.discriminative import (
    CLMKLClassifier,
    FixedGating,
    LDMKLClassifier,
    LMKLClassifier,
    LMKLRegressor,
    SAMKLClassifier,
    SimpleMKLClassifier,
    SwMKLClassifier,
    UniformMKLClassifier,
    UniformMKLRegressor,
    check_gating,
)
from bayesmkl.kernels import Gaussian
from bayesmkl.persistence import load_model, save_model

SAMPLE = make_localized(200, design="halves", random_state=0)
X, Y = SAMPLE.data, SAMPLE.target
NEW, TRAIN = slice(120, 200), slice(0, 120)
BANK = KernelBank(Gaussian(width=2), SAMPLE.views)
NAMED = {"gate_columns": SAMPLE.gate_columns}
STACK = BANK.fit(X[TRAIN]).transform(X)  # of all samples against the training samples
K, K_NEW = STACK[TRAIN], STACK[NEW]


def fitted(gating, **settings):
    return LMKLClassifier(BANK, gating=gating, **settings).fit(X[TRAIN], Y[TRAIN])


def trained(estimator):
    return estimator.set_params(kernels=BANK).fit(X[TRAIN], Y[TRAIN])


# ----------------------------------------------------------------------------------------- the methods that are named


def test_success_gates_and_an_svm_are_swmkl():
    success = {"tol": 1e-8, "temperature": 0.1}
    sw = trained(SwMKLClassifier(**success, **NAMED))
    model = fitted(SwMKLClassifier(**success), tol=1e-7, **NAMED)
    np.testing.assert_allclose(model.gates(X), sw.gates(X), atol=1e-9)
    np.testing.assert_allclose(model.combined_kernel(X), sw.combined_kernel(X), atol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), sw.decision_function(X), atol=1e-5)


def test_success_gates_and_a_vote_are_ldmkl():
    ld = trained(LDMKLClassifier(threshold="paper", tol=1e-8, **NAMED))
    model = fitted(LDMKLClassifier(tol=1e-8), readout="vote", tol=1e-7, **NAMED)
    np.testing.assert_allclose(model.gates(X), ld.gates(X), atol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), ld.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(model.dual_coef_, ld.dual_coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, ld.intercept_, atol=1e-4)
    np.testing.assert_array_equal(model.results_[0].voters.retrained, ld.retrained_)


def test_global_weights_and_an_svm_are_the_global_method():
    simple = trained(SimpleMKLClassifier(tol=1e-6))
    model = fitted(SimpleMKLClassifier(tol=1e-6), tol=1e-7)
    np.testing.assert_allclose(model.gates_**2, np.tile(simple.kernel_weights_, (120, 1)), atol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), simple.decision_function(X), atol=2e-3)


def test_one_cluster_and_an_svm_are_clmkl():
    one = CLMKLClassifier(n_clusters=1, tol=1e-6)
    model = fitted(one, tol=1e-7)
    np.testing.assert_allclose(model.decision_function(X), trained(one).decision_function(X), atol=2e-3)


def test_switches_without_budget_and_an_svm_are_samkl():
    none = SAMKLClassifier(max_switches=0, gap_tol=1e-6)
    model = fitted(none, tol=1e-7)
    np.testing.assert_allclose(model.decision_function(X), trained(none).decision_function(X), atol=5e-3)


def test_equal_gates_vote_with_equal_shares():
    model = fitted(FixedGating([2.0, 2.0]), readout="vote", standardize=False, tol=1e-7)
    votes = [SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K[..., m], Y[TRAIN]) for m in range(2)]
    expected = np.mean([np.tanh(svm.decision_function(K_NEW[..., m])) for m, svm in enumerate(votes)], axis=0)
    np.testing.assert_allclose(model.decision_function(X[NEW]), expected, atol=1e-4)


# ------------------------------------------------------------------------------------------------ those that are not


@pytest.mark.parametrize(
    ("gating", "settings"),
    [
        ("softmax", NAMED),
        ("gaussian", NAMED | {"random_state": 0}),
        (SwMKLClassifier(), NAMED),
        (CLMKLClassifier(n_clusters=2), {}),
        (SAMKLClassifier(fallback=False), {}),
    ],
    ids=["softmax", "gaussian", "success", "clusters", "switches"],
)
def test_votes_are_those_of_svms_on_open_samples(gating, settings):
    model = fitted(gating, readout="vote", tol=1e-6, **settings)
    shares = model.gates(X) / model.gates(X).sum(axis=1, keepdims=True)
    total = np.zeros(80)
    for m in range(2):
        open_ = shares[TRAIN, m] >= 0.5 - 1e-9
        open_ = open_ if len(np.unique(Y[TRAIN][open_])) == 2 else np.ones(120, dtype=bool)
        svm = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(
            K[np.ix_(open_, open_, [m])][..., 0], Y[TRAIN][open_]
        )
        total += shares[NEW, m] * np.tanh(svm.decision_function(K_NEW[:, open_, m]))
    np.testing.assert_allclose(model.decision_function(X[NEW]), total, atol=2e-3)


@pytest.mark.parametrize(
    ("gating", "settings"),
    [(LDMKLClassifier(), NAMED), (CLMKLClassifier(n_clusters=2), {}), (SAMKLClassifier(fallback=False), {})],
    ids=["success", "clusters", "switches"],
)
def test_gates_of_other_methods_and_an_svm(gating, settings):
    """The SVM on the kernel of the gates at rows, by scikit-learn."""
    model = fitted(gating, tol=1e-7, **settings)
    gates = model.gates(X)
    gated, new = (np.einsum("im,jm,ijm->ij", gates[rows], gates[TRAIN], STACK[rows]) for rows in (TRAIN, NEW))
    svm = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(gated, Y[TRAIN])
    np.testing.assert_allclose(model.decision_function(X[NEW]), svm.decision_function(new), atol=1e-4)
    np.testing.assert_allclose(model.combined_kernel(X[NEW]), new, atol=1e-9)


# ---------------------------------------------------------------------------------------------------------- the rest


def test_precomputed_kernels_and_several_classes():
    labels = np.where(X[:, 0] > 1.0, 2, Y)
    model = LMKLClassifier("precomputed", gating=CLMKLClassifier(n_clusters=2), readout="vote")
    model.fit(K, labels[TRAIN])
    same = LMKLClassifier(BANK, gating=CLMKLClassifier(n_clusters=2), readout="vote").fit(
        X[TRAIN], labels[TRAIN]
    )
    np.testing.assert_allclose(model.decision_function(K_NEW), same.decision_function(X[NEW]), atol=1e-9)
    assert model.decision_function(K_NEW).shape == (80, 3)
    assert model.dual_coef_.shape == (3, 2, 120)
    named = LMKLClassifier("precomputed", gating=SwMKLClassifier())
    named.fit(K, Y[TRAIN], gate_features=X[TRAIN][:, SAMPLE.gate_columns])
    bank = fitted(SwMKLClassifier(), **NAMED)
    found = named.decision_function(K_NEW, gate_features=X[NEW][:, SAMPLE.gate_columns])
    np.testing.assert_allclose(found, bank.decision_function(X[NEW]), atol=1e-6)


@pytest.mark.parametrize("readout", ["svm", "vote"])
def test_saved_models_have_their_gates(readout, tmp_path):
    model = fitted(SwMKLClassifier(), readout=readout, **NAMED)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.gates(X), model.gates(X))


@pytest.mark.heavy
def test_parameters_of_the_gates_are_searched():
    grid = {"gating__temperature": [0.1, 1.0], "readout": ["svm", "vote"]}
    search = GridSearchCV(LMKLClassifier(BANK, gating=LDMKLClassifier(), **NAMED), grid, cv=2)
    search.fit(X[TRAIN], Y[TRAIN])
    assert set(search.best_params_) == set(grid)
    assert search.score(X[NEW], Y[NEW]) > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"gating": LMKLClassifier()},
            r"`gating` must be a classifier with gates of its own, .* got LMKLClassifier",
        ),
        (
            {"gating": LMKLRegressor()},
            r"`gating` must be a classifier with gates of its own, .* got LMKLRegressor",
        ),
        ({"gating": CLMKLClassifier(), **NAMED}, "`gate_columns` must be None with gates of CLMKLClassifier"),
        ({"gating": SwMKLClassifier(), "svm": "mwu"}, '`svm` must be "libsvm" with gates of SwMKLClassifier'),
        ({"readout": "vote", "svm": "mwu"}, '`svm` must be "libsvm" for a vote'),
        ({"readout": "votes"}, "`readout` must be one of 'svm', 'vote'; got 'votes'"),
    ],
)
def test_what_cannot_be_read_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LMKLClassifier(BANK, **settings).fit(X[TRAIN], Y[TRAIN])


def test_gates_found_before_are_refused_where_nothing_reads_them():
    with pytest.raises(ValueError, match="`gating` must be learned with the SVM in LMKLRegressor"):
        LMKLRegressor(BANK, gating=SwMKLClassifier()).fit(X[TRAIN], X[TRAIN, 0])
    stack = LMKLClassifier("precomputed", gating=SAMKLClassifier())
    with pytest.raises(ValueError, match="`gate_features` must be None with gates of SAMKLClassifier"):
        stack.fit(K, Y[TRAIN], gate_features=X[TRAIN])
    stack.fit(K, Y[TRAIN])
    with pytest.raises(ValueError, match="`gate_features` must be None, as when fitting"):
        stack.predict(K_NEW, gate_features=X[NEW])


HALVES = make_localized(160, design="halves", random_state=0)
SAMPLES, LABELS, TRUTH = HALVES.data, HALVES.target, HALVES.gates
VIEWS = KernelBank(Gaussian(width=2), views=HALVES.views)


# ------------------------------------------------------------------------------------------------------- fixed


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_fixed_gates_are_the_svm_on_the_gated_kernel(scale):
    samples, columns = np.column_stack([SAMPLES[:, :4], scale * TRUTH]), [4, 5]
    gating = FixedGating(lambda gates: gates)
    model = LMKLClassifier(VIEWS, gating=gating, gate_columns=columns, standardize=False, tol=1e-7)
    model.fit(samples[:100], LABELS[:100])
    assert_same(model.gates(samples), scale * TRUTH, SAME_FORMULA)
    kernels = model.kernel_bank_.evaluate(samples)
    kernel = sum(np.outer(g, g[:100]) * k for g, k in zip(scale * TRUTH.T, kernels, strict=True))
    svm = SVC(kernel="precomputed", tol=1e-9).fit(kernel[:100], LABELS[:100])
    assert_same(model.decision_function(samples), svm.decision_function(kernel), 1e-6)
    assert model.n_solves_ == 1
    assert model.converged_
    assert model.score(samples[100:], LABELS[100:]) > 0.85


def test_constant_gates_are_weights(rng):
    model = LMKLClassifier(VIEWS, gating=FixedGating([1.0, 0.0]), gate_columns=[4], tol=1e-6).fit(
        SAMPLES, LABELS
    )
    first = KernelBank(Gaussian(width=2), views={"left": [0, 1]})
    alone = UniformMKLClassifier(first, tol=1e-7).fit(SAMPLES, LABELS)
    assert_same(model.decision_function(SAMPLES), alone.decision_function(SAMPLES), 1e-4)
    check_gating(FixedGating([2.0, 1.0]), SAMPLES, 2, rng)


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
        LMKLClassifier(VIEWS, gating=FixedGating(values), gate_columns=[4]).fit(SAMPLES, LABELS)


def test_fixed_gates_are_checked_at_new_rows():
    gating = FixedGating(lambda z: np.column_stack([np.ones(len(z)), np.where(z[:, 0] < 50.0, 1.0, -1.0)]))
    model = LMKLClassifier(VIEWS, gating=gating, gate_columns=[4], standardize=False).fit(SAMPLES, LABELS)
    new = SAMPLES.copy()
    new[7, 4] = 60.0
    with pytest.raises(ValueError, match="got -1 for kernel 1 at row 7"):
        model.predict(new)


# ------------------------------------------------------------------------------------------------- equal gates


def test_equal_gates_are_kept_where_nothing_is_local():
    sample = make_localized(160, design="global", random_state=1)
    model = LMKLClassifier(VIEWS, tol=1e-6, fallback=True).fit(sample.data, sample.target)
    uniform = UniformMKLClassifier(VIEWS, tol=1e-8).fit(sample.data, sample.target)
    assert model.is_local_ is False
    assert model.converged_
    assert np.isnan(model.gating_parameters_).all()
    assert_same(model.decision_function(sample.data), uniform.decision_function(sample.data), 1e-5)
    assert_same(model.gates(sample.data), np.full((160, 2), 0.5**0.5), SAME_FORMULA)
    assert model.n_solves_ > 10  # of the comparison


def test_gates_that_help_are_those_without_a_comparison():
    given = {"gate_columns": [4], "random_state": 0}
    compared = LMKLClassifier(VIEWS, fallback=True, **given).fit(SAMPLES, LABELS)
    plain = LMKLClassifier(VIEWS, **given).fit(SAMPLES, LABELS)  # gate columns are named
    assert compared.is_local_ is True
    assert plain.is_local_ is True
    np.testing.assert_array_equal(compared.decision_function(SAMPLES), plain.decision_function(SAMPLES))
    assert compared.n_solves_ > plain.n_solves_


@pytest.mark.heavy
def test_the_comparison_does_not_see_the_order_of_samples(rng):
    order = rng.permutation(len(LABELS))
    for sample in (HALVES, make_localized(160, design="global", random_state=1)):
        first = LMKLClassifier(VIEWS).fit(sample.data, sample.target)
        second = LMKLClassifier(VIEWS).fit(sample.data[order], sample.target[order])
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
    assert (
        LMKLClassifier(VIEWS, fallback=True, max_iter=2, tol=0.5).fit(SAMPLES[:20], labels).is_local_ is True
    )


@pytest.mark.heavy
def test_regression_keeps_equal_gates_too():
    target = SAMPLES[:, 0] + SAMPLES[:, 2]
    model = LMKLRegressor(VIEWS, fallback=True, tol=1e-6).fit(SAMPLES, target)
    assert model.is_local_ is False
    uniform = UniformMKLRegressor(VIEWS, tol=1e-8).fit(SAMPLES, target)
    assert_same(model.predict(SAMPLES), uniform.predict(SAMPLES), 1e-4)
    local = np.where(SAMPLES[:, 4] < 0, SAMPLES[:, 0], SAMPLES[:, 2])
    assert LMKLRegressor(VIEWS, gate_columns=[4], fallback=True).fit(SAMPLES, local).is_local_ is True
