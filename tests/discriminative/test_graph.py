"""Graphs against brute force, and combined Laplacians against SciPy, pseudo-inverses and harmonic functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from helpers import assert_same
from scipy.optimize import approx_fprime, minimize
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from bayesmkl.discriminative.global_weights.glks import LeastSquares, glks_transduce, graph_kernel
from bayesmkl.discriminative.graph import check_laplacian, knn_laplacian, squared_kernel_distances


def dense(laplacian):
    return laplacian if isinstance(laplacian, np.ndarray) else laplacian.toarray()


def brute_force(distances, n_neighbors):
    """Join every sample with its nearest others, one by one."""
    n = len(distances)
    weights = np.zeros((n, n))
    for i in range(n):
        others = [j for j in np.argsort(distances[i], kind="stable") if j != i]
        for j in others[:n_neighbors]:
            weights[i, j] = weights[j, i] = 1.0
    return np.diag(weights.sum(axis=1)) - weights


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
@pytest.mark.parametrize("n_samples", [15, 150])
def test_neighbors_by_brute_force(rng, metric, n_samples):
    X = rng.normal(size=(n_samples, 3))
    laplacian = knn_laplacian(X, 4, metric=metric)
    expected = brute_force(cdist(X, X, metric), 4)
    np.testing.assert_array_equal(dense(laplacian), expected)
    np.testing.assert_array_equal(dense(knn_laplacian(cdist(X, X, metric), 4, "precomputed")), expected)
    assert scipy.sparse.issparse(laplacian) == (n_samples == 150)


def test_one_sided_distances_by_brute_force(rng):
    distances = rng.uniform(1.0, 2.0, size=(20, 20))
    np.fill_diagonal(distances, 0.0)
    assert not np.allclose(distances, distances.T)
    np.testing.assert_array_equal(
        dense(knn_laplacian(distances, 3, "precomputed")), brute_force(distances, 3)
    )


def test_smoothness_is_the_sum_over_edges(rng):
    laplacian = dense(knn_laplacian(rng.normal(size=(30, 2)), 3))
    scores = rng.normal(size=30)
    edges = np.argwhere(np.triu(laplacian < 0))
    assert scores @ laplacian @ scores == pytest.approx(sum((scores[i] - scores[j]) ** 2 for i, j in edges))


def test_constants_on_components_cost_nothing(rng):
    X = np.concatenate([rng.normal(size=(12, 2)) + shift for shift in (0.0, 100.0, 200.0)])
    laplacian = dense(knn_laplacian(X, 3))
    eigenvalues = np.linalg.eigvalsh(laplacian)
    n_components = connected_components(laplacian)[0]
    assert n_components >= 3
    assert np.sum(eigenvalues < 1e-10) == n_components
    assert eigenvalues[0] > -1e-12


@pytest.mark.parametrize("n_neighbors", [9, 10, 50])
def test_more_neighbors_than_samples_give_the_complete_graph(rng, n_neighbors):
    expected = 10.0 * np.eye(10) - np.ones((10, 10))
    np.testing.assert_array_equal(knn_laplacian(rng.normal(size=(10, 2)), n_neighbors), expected)


def test_kernel_distances_are_those_of_the_features(rng):
    features = rng.normal(size=(12, 5))
    found = squared_kernel_distances(features @ features.T)
    np.testing.assert_allclose(found, cdist(features, features, "sqeuclidean"), atol=1e-12)
    assert (np.diagonal(found) == 0.0).all()


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.coo_array, list])
def test_laplacians_of_any_form_pass_unchanged(rng, form):
    laplacian = dense(knn_laplacian(rng.normal(size=(25, 2)), 3))
    np.testing.assert_array_equal(dense(check_laplacian(form(laplacian), 25)), laplacian)


@pytest.fixture
def problem(rng):
    """Two noisy clusters, four labels in each, and three connected graphs."""
    y = np.repeat([0, 1], 12)
    X = rng.normal(size=(24, 2)) + 2.0 * y[:, None]
    laplacians = [dense(knn_laplacian(X[:, columns], k)) for columns, k in (([0, 1], 6), ([0], 8), ([1], 10))]
    partly = np.where(np.isin(np.arange(24) % 12, (0, 3, 6, 9)), y, -1)
    return laplacians, partly, y


def objective(weights, laplacians, y, gamma, constant):
    """Minimize the printed objective over scores, through the inverse of the combined kernel."""
    kernels = [np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True) + constant for laplacian in laplacians]
    penalty = gamma * np.linalg.inv(np.tensordot(weights, kernels, axes=1))
    labeled = y != -1
    target = np.where(labeled, 2.0 * y - 1.0, 0.0)
    scores = np.linalg.solve(penalty + np.diag(labeled.astype(float)), target)
    return ((scores - target)[labeled] ** 2).sum() + scores @ penalty @ scores, scores


@pytest.mark.parametrize(("gamma", "constant"), [(0.05, 1.0), (1.0, 0.3)])
def test_optimum_is_scipys(problem, gamma, constant):
    laplacians, y, _ = problem
    found = glks_transduce(laplacians, y, gamma=gamma, constant=constant, tol=1e-9)
    arguments = (laplacians, y, gamma, constant)
    scipys = minimize(
        lambda weights: objective(weights, *arguments)[0],
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    assert found.objective == pytest.approx(scipys.fun, rel=1e-7)
    value, scores = objective(found.kernel_weights, *arguments)
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert_same(found.scores, scores, 1e-8)
    np.testing.assert_allclose(found.kernel_weights, scipys.x, atol=2e-3)


def test_gradient_of_the_objective_by_finite_differences(problem):
    laplacians, y, _ = problem
    weights, gamma, constant = np.array([0.5, 0.2, 0.3]), 0.1, 1.0
    labeled = y != -1
    kernels = np.stack([graph_kernel(laplacian, constant) for laplacian in laplacians])
    kernels = kernels[:, labeled][:, :, labeled]
    target = 2.0 * y[labeled] - 1.0
    dual = LeastSquares(gamma).solve(np.tensordot(weights, kernels, axes=1), target, 0.0).signed_dual
    gradient = -gamma * np.einsum("i,mij,j->m", dual, kernels, dual)
    numeric = approx_fprime(weights, lambda d: objective(d, laplacians, y, gamma, constant)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-5)


def test_gap_bounds_what_is_lost(problem):
    laplacians, y, _ = problem
    best = glks_transduce(laplacians, y, gamma=0.1, constant=1.0, tol=1e-10).objective
    for max_iter in (1, 2, 4):
        early = glks_transduce(laplacians, y, gamma=0.1, constant=1.0, tol=0.0, max_iter=max_iter)
        assert 0.0 <= early.objective - best <= early.duality_gap + 1e-12
    done = glks_transduce(laplacians, y, gamma=0.1, constant=1.0, tol=1e-4)
    assert done.outcome.converged
    assert done.duality_gap <= 1e-4 * done.objective
    assert done.objective_history[-1] == pytest.approx(done.objective, rel=1e-12)
    assert done.objective_history[0] > done.objective


@pytest.mark.parametrize("n_components", [1, 3])
def test_kernel_is_the_pseudo_inverse(rng, n_components):
    blocks = [dense(knn_laplacian(rng.normal(size=(7 + c, 2)), 4)) for c in range(n_components)]
    laplacian = scipy.linalg.block_diag(*blocks)
    np.testing.assert_allclose(graph_kernel(laplacian, 0.0), np.linalg.pinv(laplacian), atol=1e-12)
    together = scipy.linalg.block_diag(*[np.ones(block.shape) for block in blocks])
    np.testing.assert_allclose(graph_kernel(laplacian, 0.7) - graph_kernel(laplacian, 0.0), 0.7 * together)


def test_small_gamma_gives_the_harmonic_function(problem):
    """Zhu, Ghahramani & Lafferty (2003): labels are kept, all other scores are means of their neighbors'."""
    (laplacian, *_), y, truth = problem
    found = glks_transduce([laplacian], y, gamma=1e-9, constant=1e4)
    labeled = y != -1
    harmonic = -np.linalg.solve(
        laplacian[~labeled][:, ~labeled], laplacian[~labeled][:, labeled] @ (2.0 * y[labeled] - 1.0)
    )
    np.testing.assert_allclose(found.scores[~labeled], harmonic, atol=1e-5)
    np.testing.assert_allclose(found.scores[labeled], 2.0 * y[labeled] - 1.0, atol=1e-5)
    assert (found.transduction == truth).mean() > 0.9


def test_informative_graph_gets_the_weight(rng):
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 2)) + 4.0 * y[:, None]
    noise = rng.normal(size=(40, 2))
    partly = np.where(np.arange(40) % 20 < 4, y, -1)
    laplacians = [knn_laplacian(noise, 5), knn_laplacian(X, 5)]
    found = glks_transduce(laplacians, partly, constant=1.0)
    assert found.kernel_weights[1] > 0.8
    np.testing.assert_array_equal(found.transduction, y)
    # the clusters are not connected: with means of zero on each, one class there cannot be told
    assert glks_transduce(laplacians, partly).kernel_weights[1] < 0.1


def test_equal_graphs_are_one_graph(problem):
    (laplacian, *_), y, _ = problem
    one, three = glks_transduce([laplacian], y), glks_transduce(np.stack([laplacian] * 3), y)
    assert_same(three.scores, one.scores, 1e-10)
    assert one.kernel_weights == [1.0]
    assert one.duality_gap == pytest.approx(0.0, abs=1e-12)


def test_several_classes_share_weights_and_add_objectives(rng):
    y = np.repeat([3, 5, 8], 10)
    X = np.concatenate([rng.normal(size=(10, 2)) + shift for shift in ([0, 0], [5, 0], [0, 5])])
    laplacians = [knn_laplacian(X, k) for k in (11, 18)]  # connected: clusters have ten samples
    partly = np.where(np.arange(30) % 10 < 3, y, -1)
    found = glks_transduce(laplacians, partly, gamma=0.1, constant=1.0, tol=1e-9)
    np.testing.assert_array_equal(found.classes, [3, 5, 8])
    tasks = [np.where(partly == -1, -1, partly == label) for label in (3, 5, 8)]
    parts = [
        objective(found.kernel_weights, [dense(L) for L in laplacians], task, 0.1, 1.0) for task in tasks
    ]
    scores = np.stack([scores for _, scores in parts], axis=1)
    assert_same(found.scores, scores, 1e-8)
    unlabeled = partly == -1
    predicted = np.array([3, 5, 8])[scores.argmax(axis=1)]
    np.testing.assert_array_equal(found.transduction[unlabeled], predicted[unlabeled])
    np.testing.assert_array_equal(found.transduction[~unlabeled], y[~unlabeled])

    def total(first):
        weights = np.array([first, 1.0 - first])
        return sum(objective(weights, [dense(L) for L in laplacians], task, 0.1, 1.0)[0] for task in tasks)

    assert found.objective == pytest.approx(total(found.kernel_weights[0]), rel=1e-9)
    assert found.objective <= min(total(first) for first in np.linspace(0.0, 1.0, 41)) + 1e-9


def test_negative_weights_that_hide_a_null_space():
    """A semidefinite matrix with zero row sums whose null space is more than the constants."""
    vector = np.array([1.0, 1.0, -1.0, -1.0])
    with pytest.raises(ValueError, match=r"`laplacians\[0\]` does not penalize some functions"):
        glks_transduce([np.outer(vector, vector)], [0, 1, -1, -1])
