"""LMKL estimators: the unified view, other libraries, features of the gates, metadata routing, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from helpers import assert_same
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl.datasets import make_localized
from bayesmkl.discriminative.estimators.lmkl import LMKLClassifier
from bayesmkl.discriminative.gating import (
    GaussianGating,
    SigmoidGating,
    SoftmaxGating,
)
from bayesmkl.kernels import Gaussian, Linear, Polynomial

BANK = KernelBank([Gaussian(width=2), Linear(), Polynomial(degree=2)])
NAMED = {"softmax": SoftmaxGating, "sigmoid": SigmoidGating, "gaussian": GaussianGating}
EVERY_GATING = pytest.mark.parametrize("gating", NAMED)


def classes(rng, n_samples=60, n_classes=2):
    """Features and labels that the sign, or the sum, of the first two decides."""
    X = rng.normal(size=(n_samples, 3))
    scores = np.where(X[:, 2] > 0, X[:, 0], X[:, 1]) + 0.2 * rng.normal(size=n_samples)
    return X, np.digitize(scores, np.quantile(scores, np.arange(1, n_classes) / n_classes))


def regions(rng, n_samples):
    """Two linear kernels, each of which decides on one side of zero of a third variable."""
    a, b, side = rng.normal(size=(3, n_samples))
    stack = np.stack([np.outer(a, a), np.outer(b, b)], axis=-1)
    return stack, np.where(side > 0, a, b) > 0, side


def fit(X, y, *, gate_features=None, kernels: Any = BANK, **parameters):
    return LMKLClassifier(kernels, **{"max_iter": 5, "tol": 1e-9, "fallback": False} | parameters).fit(
        X, y, gate_features
    )


def with_gates(X, features):
    """Return samples with columns for the gates at their end."""
    return np.column_stack([X, features])


pytestmark = pytest.mark.filterwarnings(
    "ignore:LMKL.* stopped after max_iter:sklearn.exceptions.ConvergenceWarning"
)


# ------------------------------------------------------------------------------------------ degenerate, libraries


def test_other_library_multiplicative_weights_are_the_svm_with_squared_hinge(rng):
    X, y = classes(rng)
    kernel = KernelBank(Gaussian(gamma=0.5))
    model = fit(X, y, kernels=kernel, svm="mwu", mwu_epsilon=1e-3, tol=1e-3)
    gram = kernel.fit_transform(X)[..., 0]
    hard = SVC(kernel="precomputed", C=1e6, tol=1e-8).fit(gram + np.eye(60), y)  # 2-norm soft margin
    expected = gram[:, hard.support_] @ hard.dual_coef_[0] + hard.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), expected, atol=0.05 * np.abs(expected).max())


def test_degenerate_several_classes_are_one_model_each(rng):
    X, y = classes(rng, n_classes=3)
    model = fit(X, y)
    for c in range(3):
        alone = fit(X, y == c)
        np.testing.assert_array_equal(model.decision_function(X)[:, c], alone.decision_function(X))
        np.testing.assert_array_equal(model.gates_[c], alone.gates_)
        np.testing.assert_array_equal(model.gating_parameters_[c], alone.gating_parameters_)
        np.testing.assert_array_equal(model.objective_history_[c], alone.objective_history_)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))


# ------------------------------------------------------------------------------------------- features of the gates


@EVERY_GATING
def test_equivariance_units_of_features_do_not_matter(rng, gating):
    X, y = classes(rng)
    features = rng.normal(size=(60, 2))
    own = {"gating": gating, "gate_columns": [-2, -1]}
    first = fit(with_gates(X, features), y, **own)
    second = fit(with_gates(X, features * [100.0, 0.01] + [5.0, -3.0]), y, **own)
    rows = rng.normal(size=(8, 2))
    assert_same(
        second.decision_function(with_gates(X[:8], rows * [100.0, 0.01] + [5.0, -3.0])),
        first.decision_function(with_gates(X[:8], rows)),
        1e-6,
    )


# ----------------------------------------------------------------------------------------------- metadata routing


def test_routing_carries_features_of_gates_through_cross_validation(rng):
    stack, y, side = regions(rng, 90)
    folds = StratifiedKFold(3)
    by_hand = []
    for train, test in folds.split(stack, y):
        model = LMKLClassifier("precomputed").fit(stack[np.ix_(train, train)], y[train], side[train])
        found = model.predict(stack[np.ix_(test, train)], side[test])
        by_hand.append(np.mean(found == y[test]))
    with sklearn.config_context(enable_metadata_routing=True):
        model = LMKLClassifier("precomputed")
        model.set_fit_request(gate_features=True).set_score_request(gate_features=True)
        routed = cross_val_score(model, stack, y, cv=folds, params={"gate_features": side})
        grid = GridSearchCV(model, {"C": [1e-3, 1.0]}, cv=folds).fit(stack, y, gate_features=side)
        assert grid.score(stack, y, gate_features=side) > 0.9
    np.testing.assert_array_equal(routed, by_hand)
    assert routed.mean() > 0.85
    assert grid.best_params_ == {"C": 1.0}
    assert grid.cv_results_["mean_test_score"][1] == routed.mean()


# ------------------------------------------------------------------------------------------------- starts and stops


@pytest.mark.heavy
def test_recovery_gaussian_gates_find_an_interval_from_any_start():
    """From centers at samples (``spread=1``) every fourth start does."""
    sample = make_localized(400, design="hours", random_state=0)
    X, y = sample.data, sample.target
    bank = KernelBank(Gaussian(width=2), views=sample.views)
    gated = {"gating": "gaussian", "gate_columns": sample.gate_columns}
    accuracies = [
        LMKLClassifier(bank, **gated, random_state=seed).fit(X[:200], y[:200]).score(X[200:], y[200:])
        for seed in range(8)
    ]
    assert np.mean(accuracies) > 0.9
    assert np.std(accuracies) < 0.03


@pytest.mark.heavy
def test_starts_are_repeatable_and_the_lowest_is_kept(rng):
    X, y = classes(rng)
    several = fit(X, y, gating="gaussian", n_init=4, random_state=3)
    ends = several.results_[0].start_objectives
    assert np.ptp(ends) > 1e-3 * ends.min()
    assert several.objective_history_[-1] == ends.min()
    again = fit(X, y, gating="gaussian", n_init=4, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(again.gates_, several.gates_)
    other = fit(X, y, gating="gaussian", random_state=4)
    assert not np.array_equal(other.objective_history_, fit(X, y, gating="gaussian").objective_history_)
    np.testing.assert_array_equal(
        fit(X, y, gating="gaussian", random_state=0).gates_, fit(X, y, gating="gaussian").gates_
    )


def test_original_search_is_not_done_after_a_step_that_hardly_pays():
    """The first step pays .0003 of 2.1 where quasi-Newton steps reach .5."""
    X = np.random.default_rng(2).normal(size=(120, 2))
    model = LMKLClassifier(KernelBank("linear", views="each"), solver="paper", fallback=False)
    with pytest.warns(ConvergenceWarning, match="errors of the SVMs hide further progress"):
        model.fit(X, X[:, 1] > 0)
    assert not model.converged_
    assert model.objective_history_[-1] < 0.9 * model.objective_history_[0]


# ------------------------------------------------------------------------------------------------------ bad input


def test_precomputed_kernels_need_features(rng):
    stack, y, side = regions(rng, 30)
    model = LMKLClassifier("precomputed")
    with pytest.raises(
        ValueError, match=r"`gate_features` must be passed with precomputed .* of LMKLClassifier"
    ):
        model.fit(stack, y)
    with pytest.raises(
        ValueError, match=r"`gate_features` must have one row for each of the 30 rows of `X`; got 29"
    ):
        model.fit(stack, y, side[:-1])
    with pytest.raises(ValueError, match="gate_features contains NaN"):
        model.fit(stack, y, np.where(side > 1, np.nan, side))
    model.fit(stack, y, side)
    with pytest.raises(ValueError, match=r"`gate_features` must be passed"):
        model.predict(stack)
    with pytest.raises(ValueError, match=r"`gate_features` must have 1 columns, as when fitting; got 2\."):
        model.predict(stack, np.column_stack([side, side]))


def test_gates_may_become_as_sharp_as_steps():
    """An island in waves: from this start a gate shrinks until its derivative cannot be squared."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(300, 2))
    inside = np.hypot(*X.T) < 1.95
    y = np.where(inside, np.sin(np.pi * X[:, 0] / 1.5), np.sin(np.pi * X[:, 1] / 1.5)) > 0.0
    bank = KernelBank(Gaussian(width=0.5), views={"across": [0], "up": [1]})
    model = LMKLClassifier(bank, gating="gaussian", fallback=False, random_state=8).fit(X, y)
    assert np.isfinite(model.gating_parameters_).all()
    assert (np.diff(model.objective_history_) <= 0.0).all()
