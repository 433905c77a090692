"""Uniform weights, the best kernel and OBMKL, against scikit-learn, explicit matrices, SLSQP and fixed points."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen, informed_target, learn, random_kernels, random_labels
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC, SVR

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.estimators.two_stage import (
    BestKernelClassifier,
    OBMKLClassifier,
    UniformMKLClassifier,
    UniformMKLRegressor,
)
from bayesmkl.discriminative.global_weights.two_stage import (
    OptimalKernel,
    Problem,
    fold_accuracy,
    fold_scores,
    optimal_kernel,
    select_by_alignment,
    select_weighted,
    shares,
)
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.alignment import empirical_optimal_kernel
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

TIGHT = 1e-9
MACHINE = 1e-6  # two solutions of LibSVM at tolerance TIGHT, relative to the scores


@pytest.fixture
def samples(rng):
    """Training kernels, labels, and kernels of new samples, samples first."""
    kernels = np.moveaxis(random_kernels(rng, 60, 4), 0, -1)
    return frozen(kernels[:40, :40]), random_labels(rng, 40), frozen(kernels[40:, :40])


def precomputed(model, **parameters):
    return model(kernels="precomputed", tol=TIGHT, **parameters)


def svc(C):
    return SVC(kernel="precomputed", C=C, tol=TIGHT)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_uniform_classifier_is_svc_on_the_mean(samples, C):
    X, y, Z = samples
    model = precomputed(UniformMKLClassifier, C=C).fit(X, y)
    svm = svc(C).fit(X.mean(axis=-1), y)
    assert_same(model.decision_function(Z), svm.decision_function(Z.mean(axis=-1)), MACHINE)
    np.testing.assert_array_equal(model.support_, np.sort(svm.support_))
    assert model.kernel_weights_.tolist() == [0.25] * 4
    assert_same(model.combined_kernel(Z), Z.mean(axis=-1), SAME_FORMULA)


def test_uniform_regressor_is_svr_on_the_mean(rng, samples):
    X, _, Z = samples
    y = informed_target(rng, np.moveaxis(X, -1, 0))
    model = precomputed(UniformMKLRegressor, C=3.0, epsilon=0.2).fit(X, y)
    svm = SVR(kernel="precomputed", C=3.0, epsilon=0.2, tol=TIGHT).fit(X.mean(axis=-1), y)
    assert_same(model.predict(Z), svm.predict(Z.mean(axis=-1)), MACHINE)


def test_uniform_classifier_of_several_classes_is_one_svc_per_class(rng, samples):
    X, _, Z = samples
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


def test_best_kernel_scores_equal_cross_validation_of_svc(samples):
    X, y, Z = samples
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
def test_best_kernel_of_several_classes(rng, samples, multiclass):
    """Shared: accuracy of the highest score; otherwise binary accuracy per class."""
    X, _, _ = samples
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
def test_best_kernel_takes_the_first_of_equals(samples):
    X, y, _ = samples
    for order in ([1, 1, 0], [0, 1, 1]):
        model = precomputed(BestKernelClassifier).fit(X[..., order], y)
        assert model.cv_scores_.argmax() == model.kernel_weights_.argmax()
        twice = [m for m in range(3) if order[m] == 1]
        assert model.cv_scores_[twice[0]] == model.cv_scores_[twice[1]]
        assert model.kernel_weights_[twice[1]] == 0.0


def test_own_folds_and_probabilities(samples):
    X, y, Z = samples
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


METHODS = ("ratio", "qp", "aqp", "aqp-paper")


FIXED = 1e-7  # of the alternation: LibSVM's rounding moves weights by 1e-8
UNIFORM = np.full(4, 0.25)


@pytest.fixture
def problem(rng):
    """Four kernels of 40 samples, kernels first, and labels that follow the first of them."""
    kernels = frozen(random_kernels(rng, 40, 4))
    signal = kernels[0] @ rng.normal(size=40)
    return kernels, frozen(np.where(signal > np.median(signal), 1.0, -1.0))


def fit(kernels, y, method, C=1.0):
    stack = DenseStack(np.ascontiguousarray(kernels))
    return learn(stack, np.atleast_2d(y), Hinge(C), OptimalKernel(method, FIXED))


def nearest_by_slsqp(kernels, target, pairs):
    """Minimize the distance with every squared difference weighted by `pairs`."""
    size = kernels.shape[-1]
    found = minimize(
        lambda w: (pairs * (np.einsum("m,mij->ij", w, kernels) - target) ** 2).sum() / size**2,
        np.full(len(kernels), 1 / len(kernels)),
        bounds=[(0.0, None)] * len(kernels),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-15, "maxiter": 300},
    )
    return found.x


def test_qp_objective_is_the_squared_distance_from_the_optimal_kernel(problem):
    kernels, y = problem
    result = fit(kernels, y, "qp")
    target = empirical_optimal_kernel(np.moveaxis(kernels, 0, -1), y)
    combined = np.einsum("m,mij->ij", result.kernel_weights, kernels)
    assert result.objective_history[0] == pytest.approx(np.linalg.norm(combined - target) ** 2, rel=1e-10)


@pytest.mark.parametrize("kind", ["smooth", "rank deficient", "duplicated", "badly scaled"])
def test_qp_satisfies_its_optimality_conditions_to_1e_8(rng, kind):
    for _ in range(5):
        kernels, y = random_kernels(rng, 25, 12, kind), random_labels(rng, 25)
        result = fit(kernels, y, "qp")
        target = empirical_optimal_kernel(np.moveaxis(kernels, 0, -1), y)
        combined = np.einsum("m,mij->ij", result.kernel_weights, kernels)
        gradient = 2.0 * np.einsum("mij,ij->m", kernels, combined - target)
        scale = np.abs(np.einsum("mij,ij->m", kernels, target)).max()
        assert gradient @ result.kernel_weights - gradient.min() <= 1e-8 * scale
        assert result.duality_gap <= 1e-8 * scale
        assert result.kernel_weights.sum() == pytest.approx(1.0)


def test_qp_agrees_with_slsqp(problem):
    kernels, y = problem
    target = empirical_optimal_kernel(np.moveaxis(kernels, 0, -1), y)
    expected = nearest_by_slsqp(kernels, target, np.ones((40, 40)))
    np.testing.assert_allclose(fit(kernels, y, "qp").kernel_weights, expected, atol=1e-5)


def test_ratio_is_proportional_to_explicit_alignments(rng):
    kernels, y = random_kernels(rng, 20, 5, "rank deficient"), random_labels(rng, 20)
    kernels[3] = np.outer(y, y) * 1e-3  # small everywhere: K_opti has nothing of it
    kernels[4] *= np.outer(y, y) * -1.0  # negative where K_opti is large: clipped
    target = empirical_optimal_kernel(np.moveaxis(kernels, 0, -1), y)
    alignments = np.array([(k * target).sum() / np.linalg.norm(k) for k in kernels])
    assert alignments[4] < 0.0
    expected = np.maximum(alignments, 0.0)
    assert_same(fit(kernels, y, "ratio").kernel_weights, expected / expected.sum(), 1e-10)


def test_aqp_ends_where_weights_and_duals_reproduce_each_other(problem):
    """Independent of the algorithm: SVC for (15), SLSQP on explicit matrices for (14)."""
    kernels, y = problem
    result = fit(kernels, y, "aqp", C=2.0)
    assert result.outcome is Outcome.CONVERGED
    weights = result.kernel_weights
    svm = SVC(kernel="precomputed", C=2.0, tol=TIGHT).fit(np.einsum("m,mij->ij", weights, kernels), y)
    alpha = np.zeros(40)
    alpha[svm.support_] = np.abs(svm.dual_coef_[0])
    target = empirical_optimal_kernel(np.moveaxis(kernels, 0, -1), y)
    expected = nearest_by_slsqp(kernels, target, np.outer(alpha**2, alpha**2) / alpha.max() ** 4)
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    assert_same(np.abs(result.signed_dual[0]), alpha, 1e-5)
    assert np.abs(weights - fit(kernels, y, "qp").kernel_weights).max() > 1e-3


def test_aqp_with_equal_duals_is_qp_and_ignores_their_scale(rng, problem):
    kernels, y = problem
    stack, targets = DenseStack(kernels), y[None]
    known = Problem(stack, targets, Hinge(1.0), optimal_kernel(stack, targets))
    qp = fit(kernels, y, "qp").kernel_weights
    assert_same(select_weighted(known, [np.full(40, 7.0)], UNIFORM), qp, 1e-8)
    alpha = rng.random(40) * (rng.random(40) < 0.5)
    weights = select_weighted(known, [alpha], UNIFORM)
    assert_same(select_weighted(known, [1e5 * alpha], UNIFORM), weights, 1e-8)
    assert_same(select_weighted(known, [alpha, alpha], UNIFORM), weights, 1e-8)
    some = np.flatnonzero(alpha)
    sliced = kernels[:, some][:, :, some]
    assert_same(
        weights,
        select_weighted(
            Problem(DenseStack(sliced), targets[:, some], Hinge(1.0), known.optimal[np.ix_(some, some)]),
            [alpha[some]],
            UNIFORM,
        ),
        1e-8,
    )
    np.testing.assert_array_equal(select_weighted(known, [np.zeros(40)], UNIFORM), UNIFORM)


def test_where_nothing_swings_the_paper_takes_the_same_steps(problem):
    kernels, y = problem
    found = [
        OBMKLClassifier("precomputed", method=method, tol=1e-6).fit(np.moveaxis(kernels, 0, -1), y)
        for method in ("aqp", "aqp-paper")
    ]
    assert found[0].converged_
    np.testing.assert_allclose(*(model.kernel_weights_ for model in found), atol=1e-5)


@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
def test_kernels_of_zeros(problem):
    """Ratio gives them nothing; qp may shrink the others with them, in which they have no say."""
    kernels, y = problem
    with_zeros = np.concatenate([np.zeros((1, 40, 40)), kernels])
    assert fit(with_zeros, y, "ratio").kernel_weights[0] == 0.0
    assert fit(np.zeros((3, 40, 40)), y, "ratio").kernel_weights.tolist() == [1 / 3] * 3
    for method in ("qp", "aqp"):
        result = fit(with_zeros, y, method)
        without = np.einsum("m,mij->ij", result.kernel_weights[1:], kernels)
        expected = Hinge(1.0).solve(without, y, TIGHT)
        assert_same(result.signed_dual[0], expected.signed_dual, 1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_shared_weights_use_equality_of_classes(rng, monkeypatch, method):
    kernels, y = random_kernels(rng, 36, 3), np.arange(36) % 3
    X = np.moveaxis(kernels, 0, -1)
    targets = np.where(y == np.arange(3)[:, None], 1.0, -1.0)
    target = empirical_optimal_kernel(X, y)
    np.testing.assert_array_equal(optimal_kernel(DenseStack(kernels), targets), target)
    model = OBMKLClassifier("precomputed", method=method, multiclass="shared", tol=FIXED, C=2.0).fit(X, y)
    if method == "ratio":
        alignments = np.array([(k * target).sum() / np.linalg.norm(k) for k in kernels])
        expected = alignments / alignments.sum()
    else:
        pairs = np.ones((36, 36))
        if method != "qp":
            squares = model.dual_coef_**2
            pairs = np.einsum("ci,cj->ij", squares, squares) / squares.max() ** 2
        expected = nearest_by_slsqp(kernels, target, pairs)
    np.testing.assert_allclose(model.kernel_weights_, expected, atol=1e-4)
    assert model.dual_coef_.shape == (3, 36)


def test_qp_and_convex_alignment_agree_for_the_ideal_target(rng):
    """With kernels -1 and 1 off and on the classes, K_opti is yy' itself and both solve one problem."""
    y = random_labels(rng, 20)
    noise = np.where(rng.random((20, 20)) < 0.5, -1.0, 1.0)
    kernels = np.stack([np.outer(y, y), np.outer(noise[0], noise[0]), np.outer(noise[1], noise[1])])
    convex = select_by_alignment(DenseStack(kernels), y[None], "convex")
    result = fit(kernels, y, "qp")
    assert_same(result.kernel_weights, convex.kernel_weights, 1e-9)
    assert result.kernel_weights[0] == pytest.approx(1.0)
