"""LapMKLClassifier: marks, graphs, classes, predictions and what users get wrong."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from helpers import assert_same
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import cross_val_score

from bayesmkl.discriminative import LapMKLClassifier, PrimalMKLClassifier
from bayesmkl.discriminative.graph import knn_laplacian
from bayesmkl.kernels import Gaussian, KernelBank, Linear

BANK = KernelBank([Gaussian(width=0.3), Gaussian(width=1.0), Gaussian(width=3.0)])


def moons(n_samples=80, n_labeled=3):
    """Two moons; -1 marks all but the first `n_labeled` of each."""
    X, y = make_moons(n_samples, noise=0.05, random_state=0)
    partly = np.full(n_samples, -1)
    for label in (0, 1):
        partly[np.flatnonzero(y == label)[:n_labeled]] = label
    return X, y, partly


def three_blobs(rng):
    y = np.repeat(["a", "b", "c"], 20)
    X = np.concatenate([rng.normal(size=(20, 2)) + shift for shift in ([0, 0], [7, 0], [0, 7])])
    return X, y, np.where(np.arange(60) % 20 < 3, y, "?")


def stack_of(X, Z=None):
    distances = cdist(X if Z is None else Z, X, "sqeuclidean")
    return np.stack([np.exp(-0.5 * distances / width**2) for width in (0.3, 1.0, 3.0)], axis=-1)


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_unlabeled_samples_help(solver):
    X, y, partly = moons()
    labeled = partly != -1
    model = LapMKLClassifier(BANK, n_neighbors=5, unlabeled_label=-1, solver=solver).fit(X, partly)
    supervised = LapMKLClassifier(BANK, gamma_intrinsic=0.0).fit(X[labeled], y[labeled])
    assert np.mean(model.transduction_ == y) > 0.97
    assert np.mean(supervised.predict(X) == y) < 0.95
    X_new, y_new = make_moons(200, noise=0.05, random_state=1)
    assert model.score(X_new, y_new) > 0.95


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_training_rows_are_predicted_as_they_were_learned(solver):
    X, _, partly = moons()
    model = LapMKLClassifier(BANK, unlabeled_label=-1, solver=solver).fit(X, partly)
    unlabeled = partly == -1
    np.testing.assert_array_equal(model.predict(X)[unlabeled], model.transduction_[unlabeled])
    np.testing.assert_array_equal(model.transduction_[~unlabeled], partly[~unlabeled])
    scores = model.decision_function(X)
    error = np.flatnonzero(~unlabeled & (np.where(partly == 1, 1, -1) * scores < 1.0))
    np.testing.assert_array_equal(model.support_, error)
    assert model.support_fraction_ == len(error) / 6


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_scores_of_new_rows_by_the_printed_sum(rng, solver):
    X, _, partly = moons()
    options = {"unlabeled_label": -1, "solver": solver, "p_norm": 2.0, "kernels": "precomputed"}
    model = LapMKLClassifier(**options).fit(stack_of(X), partly)
    rows = stack_of(X, X[:7] + 0.1)
    alphas = model.dual_coef_ if solver == "deformed" else [model.dual_coef_] * 3
    assert np.shape(alphas) == (3, 80)
    expected = model.intercept_ + sum(model.kernel_weights_[m] * rows[:, :, m] @ alphas[m] for m in range(3))
    np.testing.assert_allclose(model.decision_function(rows), expected, rtol=1e-10)
    combined = rows @ model.kernel_weights_
    np.testing.assert_allclose(model.combined_kernel(rows), combined, rtol=1e-12)


@pytest.mark.parametrize("solver", ["deformed", "paper"])
@pytest.mark.parametrize("without", ["price", "edges"])
def test_without_the_graph_it_is_primalmkl_on_labeled_rows(solver, without):
    X, y, partly = moons(n_labeled=10)
    graph = {"gamma_intrinsic": 0.0} if without == "price" else {"laplacian": np.zeros((80, 80))}
    options = {"kernels": "precomputed", "p_norm": 2.0, "tol": 1e-7}
    model = LapMKLClassifier(gamma_ambient=0.1, solver=solver, unlabeled_label=-1, **graph, **options)
    model.fit(stack_of(X), partly)
    labeled = partly != -1
    supervised = PrimalMKLClassifier(reg=0.1, **options).fit(stack_of(X[labeled]), y[labeled])
    assert model.objective_history_[-1] == pytest.approx(supervised.objective_history_[-1], rel=1e-6)
    np.testing.assert_allclose(model.kernel_weights_, supervised.kernel_weights_, atol=1e-3)
    expected = supervised.decision_function(stack_of(X[labeled], X))
    np.testing.assert_allclose(model.decision_function(stack_of(X)), expected, atol=1e-3)


def test_laplacian_is_kept():
    X, _, partly = moons()
    model = LapMKLClassifier(BANK, unlabeled_label=-1, n_neighbors=3).fit(X, partly)
    np.testing.assert_array_equal(model.laplacian_.toarray(), knn_laplacian(X, 3).toarray())


def euclidean(X):
    return cdist(X, X)


def test_given_graphs_are_the_graph_of_the_features():
    X, _, partly = moons()
    scores = [
        LapMKLClassifier(BANK, unlabeled_label=-1, n_neighbors=7, **graph).fit(X, partly).decision_function(X)
        for graph in (
            {},
            {"laplacian": knn_laplacian(X, 7)},
            {"laplacian": scipy.sparse.csr_matrix(knn_laplacian(X, 7))},
            {"distances": cdist(X, X)},
            {"distances": euclidean},
        )
    ]
    for found in scores[1:]:
        assert_same(found, scores[0], 1e-9)


def test_a_function_of_distances_needs_features():
    X, _, partly = moons()
    with pytest.raises(ValueError, match="`distances` cannot be a function with precomputed kernels"):
        LapMKLClassifier("precomputed", unlabeled_label=-1, distances=euclidean).fit(stack_of(X), partly)


def test_precomputed_kernels_find_neighbors_in_the_feature_space_of_their_mean():
    X, _, partly = moons()
    options = {"kernels": "precomputed", "unlabeled_label": -1, "n_neighbors": 4}
    stack = np.concatenate([stack_of(X[:, :1]), 0.3 * stack_of(X[:, 1:])], axis=-1)
    features = np.linalg.cholesky(stack.mean(axis=-1) + 1e-12 * np.eye(80))
    given = LapMKLClassifier(distances=cdist(features, features), **options).fit(stack, partly)
    found = LapMKLClassifier(**options).fit(stack, partly)
    assert_same(found.laplacian_.toarray(), given.laplacian_.toarray(), 0.0)
    assert_same(found.dual_coef_, given.dual_coef_, 1e-9)


def test_default_labels_are_all_labels():
    X, y, _ = moons()
    codes = np.where(y == 1, 1, -1)
    model = LapMKLClassifier(BANK).fit(X, codes)
    np.testing.assert_array_equal(model.classes_, [-1, 1])
    np.testing.assert_array_equal(model.transduction_, codes)
    marked = LapMKLClassifier(BANK, unlabeled_label=7).fit(X, codes)  # no sample has the mark
    assert_same(marked.dual_coef_, model.dual_coef_, 1e-12)


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_classes_one_by_one_are_binary_svms(rng, solver):
    X, y, partly = three_blobs(rng)
    model = LapMKLClassifier(BANK, unlabeled_label="?", solver=solver).fit(X, partly)
    np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
    assert np.mean(model.transduction_ == y) > 0.95
    for k, label in enumerate("abc"):
        binary = np.where(partly == "?", "?", np.where(partly == label, "yes", "no"))
        alone = clone(model).fit(X, binary)
        np.testing.assert_allclose(model.kernel_weights_[k], alone.kernel_weights_, atol=1e-12)
        np.testing.assert_allclose(model.decision_function(X)[:, k], alone.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_classes_can_share_weights(rng, solver):
    X, y, partly = three_blobs(rng)
    model = LapMKLClassifier(BANK, unlabeled_label="?", solver=solver, multiclass="shared", tol=1e-6).fit(
        X, partly
    )
    assert model.kernel_weights_.shape == (3,)
    assert np.mean(model.predict(X) == y) > 0.95

    own = clone(model).set_params(multiclass="one-versus-rest").fit(X, partly)
    separate = sum(history[-1] for history in own.objective_history_)
    assert separate <= model.objective_history_[-1] * (1 + 1e-6)
    assert model.objective_history_[-1] < model.objective_history_[0]
    np.testing.assert_array_equal(own.transduction_, model.transduction_)


def test_noise_kernel_gets_the_least_weight(rng):
    X, y, partly = moons(n_labeled=8)
    X = np.column_stack([X, rng.normal(size=(80, 2))])
    bank = KernelBank(Gaussian(width=0.5), views={"moons": [0, 1], "noise": [2, 3]})
    graph = knn_laplacian(X[:, :2], 5)
    model = LapMKLClassifier(bank, laplacian=graph, unlabeled_label=-1, p_norm=2.0).fit(X, partly)
    assert model.kernel_weights_[0] > 2.0 * model.kernel_weights_[1]
    assert np.mean(model.transduction_ == y) > 0.97


def test_cross_validation_takes_marks_and_kernels():
    X, y, _ = moons()
    model = LapMKLClassifier("precomputed", n_neighbors=5, unlabeled_label=-1)
    assert cross_val_score(model, stack_of(X), y, cv=3).min() > 0.9


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_need_a_mark(missing):
    X, y, _ = moons()
    y = y.astype(object)
    y[3:6] = missing
    with pytest.raises(ValueError, match=r"3 of 80 are missing.*`unlabeled_label=-1`"):
        LapMKLClassifier(BANK).fit(X, y)


def test_linear_kernel_is_a_linear_svm():
    """The scores of a linear kernel are linear in the features: f(x + z) + b = f(x) + f(z)."""
    X, _, partly = moons()
    bank = KernelBank(Linear(), normalize=None)
    model = LapMKLClassifier(bank, unlabeled_label=-1).fit(X, partly)
    scores = model.decision_function
    np.testing.assert_allclose(scores(X[:5] + X[5:10]) + model.intercept_, scores(X[:5]) + scores(X[5:10]))
