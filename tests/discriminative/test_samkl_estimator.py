"""SAMKL as an estimator: what it stores and predicts, against the algorithm, other methods and enumeration."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.datasets import load_iris, make_corrupted
from bayesmkl.discriminative import SimpleMKLClassifier
from bayesmkl.discriminative.estimators.samkl import SAMKLClassifier
from bayesmkl.discriminative.folds import evenly_dealt
from bayesmkl.discriminative.localized.samkl import SAMKLOptions, fit_samkl, infer_switches, initial_support
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

SEPARATIONS = (1.5, 1.0, 1.0, 0.0)
OF_USE = 19  # a seed with which switches help in the folds


def stack_of(kernels):
    return DenseStack(np.ascontiguousarray(np.moveaxis(kernels, -1, 0)))


@pytest.fixture(scope="module")
def pair():
    """Training kernels, those of new samples with them, labels of both."""
    sample = make_corrupted(90, corruption="kernels", fraction=0.3, separations=SEPARATIONS, random_state=0)
    return sample.kernels[:60, :60], sample.kernels[60:, :60], sample.target[:60], sample.target[60:]


@pytest.fixture(scope="module")
def three():
    """Iris in thirds: kernels of single features, three classes."""
    X, y = load_iris(return_X_y=True)
    bank = KernelBank(Gaussian(width=1), views="each").fit(X[::2])
    return bank.evaluate(X[::2]).transpose(1, 2, 0), bank.evaluate(X[1::4]).transpose(1, 2, 0), y[::2]


@pytest.fixture(scope="module")
def binary(pair):
    return SAMKLClassifier("precomputed", C=10.0, max_switches=2, fallback=False).fit(pair[0], pair[2])


@pytest.fixture(scope="module")
def several(three):
    return SAMKLClassifier("precomputed", C=10.0, max_switches=2, fallback=False).fit(three[0], three[2])


# ------------------------------------------------------------------------------------ against the algorithm


def test_attributes_are_those_of_the_algorithm(pair, binary):
    train, _, y, _ = pair
    result = fit_samkl(stack_of(train), y.astype(float), SAMKLOptions(10.0, 2, ties="smallest"))
    np.testing.assert_array_equal(binary.kernel_switches_, result.switches.T)
    np.testing.assert_array_equal(binary.kernel_weights_, result.kernel_weights)
    np.testing.assert_array_equal(binary.margins_, result.margins)
    np.testing.assert_array_equal(binary.patterns_, np.unique(binary.kernel_switches_, axis=0))
    np.testing.assert_allclose(binary.gates_**2, binary.kernel_weights_ * binary.kernel_switches_, atol=1e-15)
    np.testing.assert_array_equal(binary.gates(), binary.gates_)
    np.testing.assert_array_equal(binary.dual_coef_, result.signed_dual)
    assert binary.intercept_ == result.intercept
    assert binary.duality_gap_ == result.duality_gap
    assert (binary.n_iter_, binary.n_solves_) == (len(result.objective_history), result.n_solves)
    assert binary.outcome_ is Outcome.CONVERGED
    assert binary.converged_
    assert (
        binary.n_active_kernels_
        == ((binary.kernel_switches_ & (binary.kernel_weights_ > 0)).any(axis=0)).sum()
    )
    assert 0 < len(binary.support_) < 60


def test_duality_and_budget_hold_for_every_class(three, several):
    assert several.kernel_switches_.shape == (3, 75, 4)
    assert several.kernel_weights_.shape == (3, 4)
    assert several.margins_.shape == (3, 75)
    assert [patterns.shape[1] for patterns in several.patterns_] == [4, 4, 4]
    assert ((~several.kernel_switches_).sum(axis=2) <= 2).all()
    np.testing.assert_allclose(several.kernel_weights_.sum(axis=1), 1.0)
    np.testing.assert_allclose(several.dual_coef_.sum(axis=1), 0.0, atol=1e-8)
    signs = np.where(three[2] == several.classes_[:, None], 1.0, -1.0)
    assert (several.dual_coef_ * signs >= 0.0).all()
    assert (several.dual_coef_ * signs <= 10.0 / several.margins_ * (1 + 1e-9)).all()
    best = np.array([history.min() for history in several.objective_history_])
    assert (several.duality_gap_ <= 1e-2 * best * (1 + 1e-9)).all()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("rule", ["auto", "surest", "one-versus-rest"])
def test_brute_force_scores_of_new_samples(pair, binary, rule, normalize):
    _, new, _, _ = pair
    model = copy.copy(binary).set_params(rule=rule, normalize=normalize)
    norms = binary.results_[0].norms
    scores = []
    for row in new:
        contributions = binary.kernel_weights_ * ((row.T * binary.kernel_switches_.T) @ binary.dual_coef_)
        each = np.array([contributions[h].sum() + binary.intercept_ for h in binary.patterns_])
        if normalize:
            each /= [max(1e-3, norms[h].sum() / norms.sum()) for h in binary.patterns_]
        scores.append(each.max() if rule == "one-versus-rest" else max(each, key=abs))
    np.testing.assert_allclose(model.decision_function(new), scores, atol=1e-10)
    np.testing.assert_array_equal(model.predict(new), np.where(np.array(scores) > 0, 1, -1))


def test_brute_force_of_several_classes_is_the_largest_score(three, several):
    train, new, y = three
    for c, label in enumerate(several.classes_):
        target = np.where(y == label, 1.0, -1.0)
        result = fit_samkl(stack_of(train), target, SAMKLOptions(10.0, 2, ties="smallest"))
        inference = infer_switches(stack_of(new), result, "one-versus-rest")
        np.testing.assert_allclose(several.decision_function(new)[:, c], inference.scores, atol=1e-9)
        np.testing.assert_array_equal(
            several.gates(new)[c] > 0, (inference.switches.T & (result.kernel_weights > 0))
        )
    expected = several.classes_[several.decision_function(new).argmax(axis=1)]
    np.testing.assert_array_equal(several.predict(new), expected)


def test_two_classes_one_versus_rest_with_both_svms_is_the_surest_rule(pair):
    train, new, y, _ = pair
    settings = {"C": 10.0, "max_switches": 2, "gap_tol": 1e-6, "rule": "one-versus-rest", "fallback": False}
    positive, negative = (SAMKLClassifier("precomputed", **settings).fit(train, target) for target in (y, -y))
    mine, theirs = positive.decision_function(new), negative.decision_function(new)
    surest = positive.set_params(rule="surest").decision_function(new)
    np.testing.assert_allclose(np.where(mine >= theirs, mine, -theirs), surest, atol=2e-3)
    assert (np.sign(mine) != np.sign(surest)).any()  # alone it favors its class


# ------------------------------------------------------------------------------------------- the gating view


# ---------------------------------------------------------------------------------------- degenerate cases


def test_support_of_the_simplex_solution_is_where_samples_start(pair):
    train, _, y, _ = pair
    noise = np.repeat(np.eye(60)[:, :, None], 2, axis=2)  # says nothing about any other sample
    padded = np.concatenate([train, noise], axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels like the identity
        model = SAMKLClassifier("precomputed", initial_switches="support", fallback=False).fit(padded, y)
    support = initial_support(stack_of(padded), y.astype(float), SAMKLOptions())
    assert support.any()
    assert not support.all()
    assert ((model.kernel_switches_ != support).sum(axis=1) <= 1).all()
    assert not model.kernel_switches_[:, ~support].any()


def test_recovery_of_the_samples_that_a_kernel_takes_for_others():
    data = make_corrupted(120, corruption="kernels", fraction=0.3, separations=(2, 2, 2), random_state=1)
    model = SAMKLClassifier("precomputed", C=10.0, fallback=False).fit(data.kernels, data.target)
    off = ~model.kernel_switches_ & (model.kernel_weights_ > 0)
    assert off.sum() > 50
    assert data.corrupted[off].mean() > data.corrupted.mean() + 0.1


# ---------------------------------------------------------------------------------------- without switches


def by_hand(kernels, labels, budget):
    """Whether switches help in the folds of the estimator."""
    folds = evenly_dealt(np.arange(len(labels)), labels, 3, np.random.default_rng(0))
    wrong = []
    for train, new in folds:
        square, rows = kernels[np.ix_(train, train)], kernels[np.ix_(new, train)]
        models = [SAMKLClassifier("precomputed", max_switches=m, fallback=False) for m in (0, budget)]
        scores = [model.fit(square, labels[train]).decision_function(rows) for model in models]
        wrong.append(np.array([(f > 0.0) != (labels[new] > 0.0) for f in scores], dtype=float))
    none, some = np.hstack(wrong)
    gain = none - some
    return gain.mean() > gain.std() / np.sqrt(len(gain))


@pytest.mark.heavy
@pytest.mark.parametrize(("seed", "expected"), [(0, False), (OF_USE, True)])
def test_switches_are_kept_where_they_help_in_the_folds(seed, expected):
    data = make_corrupted(80, corruption="kernels", fraction=0.3, separations=SEPARATIONS, random_state=seed)
    K, y = data.kernels, data.target
    assert by_hand(K, y, 1) == expected
    model = SAMKLClassifier("precomputed").fit(K, y)
    same = SAMKLClassifier("precomputed", max_switches=int(expected), fallback=False).fit(K, y)
    assert model.is_local_ is expected
    assert model.fell_back_ is not expected
    np.testing.assert_array_equal(model.decision_function(K), same.decision_function(K))
    np.testing.assert_array_equal(model.kernel_switches_, same.kernel_switches_)
    if not expected:
        model, simple = (
            SAMKLClassifier("precomputed", gap_tol=1e-4),
            SimpleMKLClassifier("precomputed", tol=1e-4),
        )
        scores = [one.fit(K, y).decision_function(K) for one in (model, simple)]
        np.testing.assert_allclose(*scores, atol=0.02)


def test_classes_too_small_to_be_held_out_are_not_switched(pair):
    y = np.where(np.arange(60) == 7, 1, -1)
    assert SAMKLClassifier("precomputed", C=100.0).fit(pair[0], y).is_local_ is False


@pytest.mark.heavy
def test_classes_are_compared_together(three):
    K, _, y = three
    folds = evenly_dealt(np.arange(len(y)), np.searchsorted(np.unique(y), y), 3, np.random.default_rng(0))
    for C in (0.01, 10.0):
        gain = []
        for train, new in folds:
            square, rows = K[np.ix_(train, train)], K[np.ix_(new, train)]
            models = [SAMKLClassifier("precomputed", C=C, max_switches=m, fallback=False) for m in (0, 2)]
            none, some = (model.fit(square, y[train]).predict(rows) != y[new] for model in models)
            gain.append(none.astype(float) - some)
        gain = np.concatenate(gain)
        helps = gain.mean() > gain.std() / np.sqrt(len(gain))
        model = SAMKLClassifier("precomputed", C=C, max_switches=2).fit(K, y)
        assert model.fell_back_ == (not helps)
        several = (model.kernel_switches_ != model.kernel_switches_[:, :1]).any(axis=(1, 2))
        np.testing.assert_array_equal(model.is_local_, several)


# ---------------------------------------------------------------------------------------------- refusals


def test_one_warning_says_which_limit_was_met_and_what_to_do(pair):
    train, _, y, _ = pair
    model = SAMKLClassifier("precomputed", max_switches=2, ties="largest", max_iter=2, fallback=False)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 alternations .* Increase `max_iter`") as caught:
        model.fit(train, y)
    assert len(caught) == 1
    assert model.outcome_ is Outcome.MAX_ITER
    model.set_params(tol=0.0).fit(train, y)  # all alternations were asked for
    assert model.n_iter_ == 2
    # no SVM is solved to the last digit
    with pytest.warns(
        ConvergenceWarning, match=r"duality gap of .* above gap_tol=1e-15. Normalize"
    ) as caught:
        SAMKLClassifier("precomputed", ties="largest", tol=1e6, gap_tol=1e-15, fallback=False).fit(train, y)
    assert len(caught) == 1
