"""Uniform weights and the best kernel, against scikit-learn's SVMs and cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen, informed_target, random_kernels, random_labels
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC, SVR

from bayesmkl.discriminative.estimators.two_stage import (
    BestKernelClassifier,
    UniformMKLClassifier,
    UniformMKLRegressor,
)
from bayesmkl.discriminative.global_weights.two_stage import (
    fold_accuracy,
    fold_scores,
    shares,
)
from bayesmkl.discriminative.svm.libsvm import Hinge

pytestmark = pytest.mark.heavy

TIGHT = 1e-9
MACHINE = 1e-6  # two solutions of LibSVM at tolerance TIGHT, relative to the scores


@pytest.fixture
def problem(rng):
    """Training kernels, labels, and kernels of new samples, samples first."""
    kernels = np.moveaxis(random_kernels(rng, 60, 4), 0, -1)
    return frozen(kernels[:40, :40]), random_labels(rng, 40), frozen(kernels[40:, :40])


def precomputed(model, **parameters):
    return model(kernels="precomputed", tol=TIGHT, **parameters)


def svc(C):
    return SVC(kernel="precomputed", C=C, tol=TIGHT)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_uniform_classifier_is_svc_on_the_mean(problem, C):
    X, y, Z = problem
    model = precomputed(UniformMKLClassifier, C=C).fit(X, y)
    svm = svc(C).fit(X.mean(axis=-1), y)
    assert_same(model.decision_function(Z), svm.decision_function(Z.mean(axis=-1)), MACHINE)
    np.testing.assert_array_equal(model.support_, np.sort(svm.support_))
    assert model.kernel_weights_.tolist() == [0.25] * 4
    assert_same(model.combined_kernel(Z), Z.mean(axis=-1), SAME_FORMULA)


def test_uniform_regressor_is_svr_on_the_mean(rng, problem):
    X, _, Z = problem
    y = informed_target(rng, np.moveaxis(X, -1, 0))
    model = precomputed(UniformMKLRegressor, C=3.0, epsilon=0.2).fit(X, y)
    svm = SVR(kernel="precomputed", C=3.0, epsilon=0.2, tol=TIGHT).fit(X.mean(axis=-1), y)
    assert_same(model.predict(Z), svm.predict(Z.mean(axis=-1)), MACHINE)


def test_uniform_classifier_of_several_classes_is_one_svc_per_class(rng, problem):
    X, _, Z = problem
    y = np.array(["a", "b", "c"])[rng.integers(3, size=40)]
    model = precomputed(UniformMKLClassifier, C=2.0).fit(X, y)
    expected = np.stack(
        [
            svc(2.0).fit(X.mean(axis=-1), np.where(y == c, 1, -1)).decision_function(Z.mean(axis=-1))
            for c in "abc"
        ],
        axis=1,
    )
    assert_same(model.decision_function(Z), expected, MACHINE)
    np.testing.assert_array_equal(model.predict(Z), np.array(["a", "b", "c"])[expected.argmax(axis=1)])
    assert model.kernel_weights_.shape == (4,)
    assert model.dual_coef_.shape == (3, 40)


def test_best_kernel_scores_equal_cross_validation_of_svc(problem):
    X, y, Z = problem
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    model = precomputed(BestKernelClassifier, C=5.0, cv=4, random_state=3).fit(X, y)
    expected = [cross_val_score(svc(5.0), X[..., m], y, cv=folds).mean() for m in range(4)]
    assert_same(model.cv_scores_, expected, SAME_FORMULA)
    assert model.kernel_weights_.argmax() == np.argmax(expected)
    assert model.n_solves_ == 4 * 4 + 1
    best = np.argmax(expected)
    svm = svc(5.0).fit(X[..., best], y)
    assert_same(model.decision_function(Z), svm.decision_function(Z[..., best]), MACHINE)


@pytest.mark.parametrize("multiclass", ["shared", "one-versus-rest"])
def test_best_kernel_of_several_classes(rng, problem, multiclass):
    """Shared: accuracy of the highest score; otherwise binary accuracy per class."""
    X, _, _ = problem
    y = rng.integers(3, size=40)
    targets = np.where(y == np.arange(3)[:, None], 1.0, -1.0)
    model = precomputed(BestKernelClassifier, C=5.0, multiclass=multiclass).fit(X, y)
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    for c in range(3):
        expected = []
        labels = y if multiclass == "shared" else (targets[c] > 0).astype(int)
        for train, test in splitter.split(X, labels):
            scores = np.stack(
                [
                    svc(5.0).fit(X[train][:, train, 1], t[train]).decision_function(X[test][:, train, 1])
                    for t in targets
                ]
            )
            if multiclass == "shared":
                expected.append((scores.argmax(axis=0) == y[test]).mean())
            else:
                expected.append(((scores[c] > 0) == (targets[c, test] > 0)).mean())
        found = model.cv_scores_[1] if multiclass == "shared" else model.cv_scores_[c, 1]
        assert found == pytest.approx(np.mean(expected))
    assert model.kernel_weights_.shape == ((4,) if multiclass == "shared" else (3, 4))


@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
def test_best_kernel_takes_the_first_of_equals(problem):
    X, y, _ = problem
    for order in ([1, 1, 0], [0, 1, 1]):
        model = precomputed(BestKernelClassifier).fit(X[..., order], y)
        assert model.cv_scores_.argmax() == model.kernel_weights_.argmax()
        twice = [m for m in range(3) if order[m] == 1]
        assert model.cv_scores_[twice[0]] == model.cv_scores_[twice[1]]
        assert model.kernel_weights_[twice[1]] == 0.0


def test_own_folds_and_probabilities(problem):
    X, y, Z = problem
    folds = [(np.arange(20, 40), np.arange(20)), (np.arange(20), np.arange(20, 40))]
    model = precomputed(BestKernelClassifier, cv=folds).fit(X, y)
    expected = [np.mean([svc(1.0).fit(X[a][:, a, 2], y[a]).score(X[b][:, a, 2], y[b]) for a, b in folds])]
    assert model.cv_scores_[2] == pytest.approx(expected[0])
    calibrated = CalibratedClassifierCV(precomputed(UniformMKLClassifier), ensemble=False, cv=3).fit(X, y)
    assert_same(calibrated.predict_proba(Z).sum(axis=1), np.ones(20), SAME_FORMULA)


def test_a_class_that_is_alone_in_a_fold_wins_there(rng):
    kernel, y = random_kernels(rng, 12, 1)[0], np.repeat([1.0, -1.0], [5, 7])
    folds = [(np.arange(3), np.arange(3, 12)), (np.arange(8, 12), np.arange(8))]
    accuracy = fold_accuracy(fold_scores(kernel, y[None], Hinge(1.0), folds, TIGHT), y[None], folds)
    assert accuracy == pytest.approx((2 / 9 + 3 / 8) / 2)


def test_shares_of_tiny_and_huge_scores():
    assert_same(shares(np.array([1e-320, 3e-320])), [0.25, 0.75], 1e-3)  # few digits are left down there
    assert_same(shares(np.array([1e308, 1e308])), [0.5, 0.5], SAME_FORMULA)
    assert shares(np.array([-1.0, 0.0])).tolist() == [0.5, 0.5]
