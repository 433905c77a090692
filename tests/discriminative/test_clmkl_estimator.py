"""CLMKLClassifier against LpMKLClassifier, SVC, scikit-learn's k-means, sums over features and its own pieces."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import assert_same
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl.datasets import load_iris
from bayesmkl.discriminative import CLMKLClassifier, LpMKLClassifier
from bayesmkl.discriminative.estimators import clmkl
from bayesmkl.discriminative.localized.clmkl import CLMKLOptions, ClusteredStack, fit_clmkl
from bayesmkl.discriminative.primal.solve import SquaredHinge
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack

BANK = KernelBank([Gaussian(width=1), Linear()], normalize=None)
EACH = KernelBank(Gaussian(width=1), views="each")


@pytest.fixture(scope="module")
def sides():
    """The first feature tells the classes apart on one side of the third, the second on the other."""
    rng = np.random.default_rng(0)
    X, left = rng.uniform(-1.0, 1.0, size=(200, 3)), np.arange(200) % 2 == 0
    X[:, 2] = np.where(left, -3.0, 3.0) + 0.5 * rng.normal(size=200)
    y = np.where(np.where(left, X[:, 0], X[:, 1]) > 0.0, "up", "down")
    return X[:100], y[:100], X[100:], y[100:]


@pytest.fixture(scope="module")
def iris():
    data = load_iris()
    rows = np.random.default_rng(1).permutation(150)
    X, y = data.data[rows], data.target[rows]
    return X[:90], y[:90], X[90:], y[90:]


def kernels_of(model, X):
    """Kernels of rows against the training samples, kernels last."""
    return model.kernel_bank_.transform(X)


# ------------------------------------------------------------------------------------- gates, kernels and scores


@pytest.mark.parametrize("multiclass", ["one-versus-rest", "shared"])
def test_svms_are_svms_on_the_combined_kernel(iris, multiclass):
    X, y, X_test, _ = iris
    model = CLMKLClassifier(BANK, C=3.0, multiclass=multiclass, tol=1e-5).fit(X, y)
    train, rows = (np.broadcast_to(model.combined_kernel(Z), (3, len(Z), len(X))) for Z in (X, X_test))
    for c in range(3):
        svm = SVC(kernel="precomputed", C=3.0, tol=1e-7).fit(train[c], y == c)
        assert_same(model.decision_function(X_test)[:, c], svm.decision_function(rows[c]), 1e-2)


def test_scores_are_sums_over_features_of_every_cluster(sides):
    X, y, X_test, _ = sides
    views = {"a": [0], "b": [1], "c": [2]}
    model = CLMKLClassifier(KernelBank(Linear(), views=views, normalize=None), C=2.0).fit(X, y)
    w = model.kernel_weights_ * np.einsum("i,ir,im->rm", model.dual_coef_, model.memberships_, X)
    expected = np.einsum("ir,rm,im->i", model.memberships(X_test), w, X_test) + model.intercept_
    assert_same(model.decision_function(X_test), expected, 1e-11)


# -------------------------------------------------------------------------------------------------- memberships


@pytest.mark.parametrize("tau", [0.3, np.inf])
def test_memberships_are_those_of_k_means_on_features(sides, tau):
    X, y, X_test, _ = sides
    bank = KernelBank(Linear(), views={"left": [0, 2], "right": [1, 2]}, normalize=None)
    model = CLMKLClassifier(bank, n_clusters=2, tau=tau).fit(X, y)
    scale = np.sqrt([0.5, 0.5, 1.0])  # two kernels of weight 1/2; the last feature is in both
    means = KMeans(2, n_init=10, random_state=0, tol=0.0).fit(scale * X)
    order = np.unique(means.labels_, return_index=True)[1].argsort()
    squares = means.transform(scale * X_test)[:, order] ** 2
    if np.isinf(tau):
        np.testing.assert_array_equal(model.memberships(X_test), squares.argmin(axis=1)[:, None] == [0, 1])
    else:
        assert_same(model.memberships(X_test), softmax(-tau * squares, axis=1), 1e-10)
    assert_same(model.memberships(X), model.memberships_, 1e-12)


def test_landmarks_of_either_kind_find_clear_clusters(sides):
    X, y, X_test, y_test = sides
    exact = CLMKLClassifier(EACH, n_clusters=2, C=10.0).fit(X, y)
    same = CLMKLClassifier(EACH, n_clusters=2, C=10.0, n_landmarks=100).fit(X, y)
    assert_same(same.memberships_, exact.memberships_, 1e-14)
    for kind, close in (("span", 0.05), ("sample", 0.15)):
        model = CLMKLClassifier(EACH, n_clusters=2, C=10.0, n_landmarks=30, landmark_means=kind).fit(X, y)
        assert model.clusters_.basis.shape == (30,)
        np.testing.assert_array_equal(model.clusters_.labels, exact.clusters_.labels)
        assert np.abs(model.memberships(X_test) - exact.memberships(X_test)).max() < close
        assert abs(model.score(X_test, y_test) - exact.score(X_test, y_test)) <= 0.04
        assert_same(model.memberships(X), model.memberships_, 1e-12)


def test_many_samples_take_landmarks_by_themselves(sides, monkeypatch):
    X, y, *_ = sides
    monkeypatch.setattr(clmkl, "EXACT", 60)
    monkeypatch.setattr(clmkl, "LANDMARKS", 25)
    few, many = (CLMKLClassifier(EACH, n_clusters=2).fit(X[:n], y[:n]) for n in (60, 100))
    assert len(few.clusters_.basis) == 60
    basis = many.clusters_.basis
    assert len(basis) == 25
    assert len(np.unique(basis)) == 25
    again, other = (CLMKLClassifier(EACH, n_clusters=2, random_state=seed).fit(X, y) for seed in (0, 1))
    np.testing.assert_array_equal(again.clusters_.basis, basis)
    assert not np.array_equal(other.clusters_.basis, basis)


# ---------------------------------------------------------------------------------------------- what it is for


def test_weights_by_cluster_beat_one_set_of_weights(sides):
    X, y, X_test, y_test = sides
    settings = {"C": 10.0, "p_norm": 1.1}
    model = CLMKLClassifier(EACH, n_clusters=2, tau=np.inf, **settings).fit(X, y)
    reference = LpMKLClassifier(EACH, **settings).fit(X, y)
    assert model.score(X_test, y_test) >= 0.94
    assert reference.score(X_test, y_test) <= 0.85
    left = int(X[0, 2] > 0.0)  # cluster 0 holds the first sample
    np.testing.assert_array_equal(model.kernel_weights_.argmax(axis=1), [left, 1 - left])
    stack = model.combined_kernel(X)
    hard = model.clusters_.labels
    assert np.all(stack[hard == 0][:, hard == 1] == 0.0)


def test_shared_weights_are_best_for_all_classes_together(iris):
    X, y, *_ = iris
    shared = CLMKLClassifier(BANK, multiclass="shared", tol=1e-5).fit(X, y)
    own = CLMKLClassifier(BANK, tol=1e-5).fit(X, y)
    assert len(shared.results_) == 1
    assert shared.kernel_weights_.shape == (3, 2)
    assert own.kernel_weights_.shape == (3, 3, 2)
    assert shared.gates_.shape == (90, 2)
    assert own.gates_.shape == (3, 90, 2)
    totals = [sum(history[-1] for history in own.objective_history_), shared.objective_history_[-1]]
    assert totals[0] < totals[1] < 1.2 * totals[0]
    values = []
    for result in own.results_:  # weights of one class, taken for all
        kernel = np.zeros((90, 90))
        for c, weights in zip(own.memberships_.T, result.kernel_weights, strict=True):
            kernel += np.outer(c, c) * (kernels_of(own, X) @ weights)
        for k in range(3):
            svm = SVC(kernel="precomputed", tol=1e-7).fit(kernel, y == k)
            v = svm.dual_coef_[0]
            values.append(np.abs(v).sum() - 0.5 * v @ kernel[np.ix_(svm.support_, svm.support_)] @ v)
    assert shared.objective_history_[-1] <= np.sum(np.reshape(values, (3, 3)), axis=1).min() * (1.0 + 1e-4)
    np.testing.assert_array_equal(own.memberships_, shared.memberships_)


# ------------------------------------------------------------------------------------- multiplicative weights


@pytest.mark.parametrize("epsilon", [0.1, 0.03])
def test_multiplicative_weights_reach_the_optimum_of_the_squared_hinge_loss(sides, epsilon):
    X, y, X_test, _ = sides
    settings = {"C": 5.0, "n_clusters": 2, "tau": np.inf, "svm": "mwu", "mwu_epsilon": epsilon}
    model = CLMKLClassifier(EACH, **settings).fit(X[:60], y[:60])
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(kernels_of(model, X[:60]), -1, 0)))
    memberships = np.ascontiguousarray(model.memberships_.T)
    clustered, target = ClusteredStack(stack, memberships, memberships), np.where(y[:60] == "up", 1.0, -1.0)
    best = fit_clmkl(clustered, target[None], SquaredHinge(0.2), CLMKLOptions(tol=1e-6)).objective_history[-1]
    assert best * (1.0 - 1e-4) <= model.objective_history_[-1] <= best * (1.0 + 2.0 * epsilon)
    assert model.duality_gap_ >= model.objective_history_[-1] - best
    scores = model.combined_kernel(X_test) @ model.dual_coef_ + model.intercept_
    assert_same(model.decision_function(X_test), scores, 1e-10)


# ------------------------------------------------------------------------------------------------- bad input


def test_coinciding_clusters_warn_once_and_share_members(sides):
    X = sides[0]
    rows = np.repeat(X[:2], 20, axis=0)  # two places
    labels = np.tile([0, 1], 20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CLMKLClassifier(BANK, n_clusters=4).fit(rows, labels)
    of_clusters = [str(w.message) for w in caught if "clusters" in str(w.message)]
    assert len(of_clusters) == 1
    assert "2 of n_clusters=4 clusters are not the nearest of any training sample" in of_clusters[0]
    assert np.isfinite(model.decision_function(rows)).all()
    assert len(np.unique(model.memberships_.round(9), axis=0)) == 2
