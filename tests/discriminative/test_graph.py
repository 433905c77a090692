"""Graphs against brute force, and what a Laplacian must satisfy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

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
