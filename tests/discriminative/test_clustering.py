"""Kernel k-means against brute force, scikit-learn and explicit Nyström features; memberships and their sharpness."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers import assert_same, random_kernels
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from bayesmkl.discriminative.localized.clmkl import (
    ClusterOptions,
    evenness_temperature,
    kernel_kmeans,
    landmark_kmeans,
    mean_evenness,
    sample_kmeans,
)
from bayesmkl.kernels import Gaussian

OPTIONS = ClusterOptions(n_clusters=3, n_restarts=20)


def blobs(rng, n_samples=90, spread=0.6):
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    X = centers[np.arange(n_samples) % 3] + spread * rng.normal(size=(n_samples, 2))
    return X, Gaussian(width=2.0)(X, X)


def inertia_of(kernel, labels):
    """Sum of squared distances to means, from sums over pairs of members."""
    total = kernel.trace()
    for r in np.unique(labels):
        members = labels == r
        total -= kernel[np.ix_(members, members)].sum() / members.sum()
    return total


def distances_of(kernel, labels):
    """Squared distances to means, formula by formula."""
    n_clusters = labels.max() + 1
    out = np.empty((n_clusters, len(kernel)))
    for r in range(n_clusters):
        members = np.flatnonzero(labels == r)
        for i in range(len(kernel)):
            out[r, i] = kernel[i, i] - 2.0 * np.mean([kernel[i, j] for j in members])
            out[r, i] += np.mean([kernel[j, k] for j in members for k in members])
    return out


@pytest.mark.parametrize("n_clusters", [2, 3])
@pytest.mark.parametrize("kind", ["smooth", "rank deficient"])
def test_inertia_is_the_least_of_all_partitions(rng, n_clusters, kind):
    kernel = random_kernels(rng, 7, 1, kind)[0]
    clusters = kernel_kmeans(kernel, ClusterOptions(n_clusters, n_restarts=40), rng)
    least = min(inertia_of(kernel, np.array(labels)) for labels in product(range(n_clusters), repeat=7))
    np.testing.assert_allclose(clusters.inertia, least, rtol=1e-10)
    np.testing.assert_allclose(clusters.inertia, inertia_of(kernel, clusters.labels), rtol=1e-10)


def test_linear_kernel_gives_k_means(rng):
    X = blobs(rng, 81, spread=1.2)[0]
    clusters = kernel_kmeans(X @ X.T, OPTIONS, rng)
    reference = KMeans(3, n_init=20, random_state=0, tol=0.0).fit(X)
    np.testing.assert_allclose(clusters.inertia, reference.inertia_, rtol=1e-8)
    assert adjusted_rand_score(clusters.labels, reference.labels_) == 1.0
    new = rng.normal(size=(10, 2))
    relative = clusters.distances(new @ X.T) + (new**2).sum(axis=1)
    expected = np.sort(reference.transform(new) ** 2, axis=1)
    assert_same(np.sort(relative.T, axis=1), expected, 1e-8)


def test_distances_memberships_and_labels(rng):
    _, kernel = blobs(rng, 24)
    clusters = kernel_kmeans(kernel, OPTIONS, rng)
    expected = distances_of(kernel, clusters.labels)
    assert_same(clusters.distances(kernel) + kernel.diagonal(), expected, 1e-12)
    weights = np.exp(-clusters.tau * expected)
    assert_same(clusters.memberships(kernel), weights / weights.sum(axis=0), 1e-10)
    np.testing.assert_array_equal(clusters.labels, expected.argmin(axis=0))
    np.testing.assert_allclose(clusters.inertia, expected.min(axis=0).sum(), rtol=1e-10)
    first = [np.flatnonzero(clusters.labels == r)[0] for r in range(3)]
    assert first == sorted(first)


def test_inertia_never_rises(rng):
    _, kernel = blobs(rng, spread=2.0)
    inertias = [
        kernel_kmeans(kernel, ClusterOptions(5, n_restarts=1, max_iter=n), np.random.default_rng(7)).inertia
        for n in range(1, 12)
    ]
    assert np.all(np.diff(inertias) <= 1e-12)
    assert inertias[-1] < inertias[0] - 1e-3


def test_sharpness_from_uniform_to_hard(rng):
    _, kernel = blobs(rng)
    soft = kernel_kmeans(kernel, OPTIONS._replace(tau=0.0), np.random.default_rng(0))
    np.testing.assert_allclose(soft.memberships(kernel), 1.0 / 3.0)
    hard = kernel_kmeans(kernel, OPTIONS._replace(tau=np.inf), np.random.default_rng(0))
    np.testing.assert_array_equal(hard.memberships(kernel), np.eye(3)[:, hard.labels])
    nearly = hard._replace(tau=1e6)
    np.testing.assert_allclose(nearly.memberships(kernel), hard.memberships(kernel), atol=1e-6)
    assert np.isfinite(nearly.memberships(1e3 * kernel)).all()


@pytest.mark.parametrize("evenness", [0.1, 0.5, 0.9])
def test_default_sharpness_reaches_the_asked_entropy(rng, evenness):
    _, kernel = blobs(rng)
    clusters = kernel_kmeans(kernel, OPTIONS._replace(evenness=evenness), rng)
    c = clusters.memberships(kernel)
    entropy = -(c * np.log(np.maximum(c, 1e-300))).sum(axis=0).mean() / np.log(3.0)
    np.testing.assert_allclose(entropy, evenness, atol=1e-7)


def test_entropy_falls_with_sharpness(rng):
    distances = rng.uniform(size=(4, 50))
    values = [mean_evenness(distances, tau) for tau in (0.0, *np.geomspace(1e-3, 1e4, 40))]
    assert values[0] == pytest.approx(1.0)
    assert np.all(np.diff(values) < 0.0)


def test_sharpness_where_distances_say_little():
    assert evenness_temperature(np.ones((3, 5)), 0.5) == 0.0
    assert evenness_temperature(np.zeros((1, 5)), 0.5) == 0.0
    ties = np.zeros((2, 10))
    ties[1, :3] = 1.0  # seven samples stay between the clusters
    tau = evenness_temperature(ties, 0.5)
    assert np.isfinite(tau)
    assert mean_evenness(ties, tau) == pytest.approx(0.7)


def test_all_samples_as_landmarks_give_the_exact_clusters(rng):
    _, kernel = blobs(rng, 60)
    exact = kernel_kmeans(kernel, OPTIONS, np.random.default_rng(0))
    landmark = landmark_kmeans(kernel, np.arange(60), OPTIONS, np.random.default_rng(1))
    sampled = sample_kmeans(kernel, np.arange(60), OPTIONS, np.random.default_rng(2))
    for other in (landmark, sampled):
        np.testing.assert_array_equal(other.labels, exact.labels)
        np.testing.assert_allclose(other.inertia, exact.inertia, rtol=1e-6)
        assert_same(other.memberships(kernel), exact.memberships(kernel), 1e-6)


def test_landmarks_give_k_means_on_nystrom_features(rng):
    X, kernel = blobs(rng, spread=1.0)
    landmarks = np.sort(rng.choice(90, 15, replace=False))
    clusters = landmark_kmeans(kernel[:, landmarks], landmarks, OPTIONS._replace(n_restarts=40), rng)
    values, vectors = np.linalg.eigh(kernel[np.ix_(landmarks, landmarks)])
    root = vectors / np.sqrt(values) @ vectors.T
    features = kernel[:, landmarks] @ root
    reference = KMeans(3, n_init=40, random_state=0, tol=0.0).fit(features)
    np.testing.assert_allclose(clusters.inertia, reference.inertia_, rtol=1e-8)
    assert adjusted_rand_score(clusters.labels, reference.labels_) == 1.0
    new = Gaussian(width=2.0)(rng.normal(size=(8, 2)), X[landmarks])
    squares = ((new @ root) ** 2).sum(axis=1)
    found = np.sort(clusters.distances(new) + squares, axis=0)
    assert_same(found, np.sort(reference.transform(new @ root).T ** 2, axis=0), 1e-8)


def test_a_sample_decides_for_the_others(rng):
    _, kernel = blobs(rng)
    sample = np.sort(rng.choice(90, 30, replace=False))
    clusters = sample_kmeans(kernel[:, sample], sample, OPTIONS, rng)
    exact = kernel_kmeans(kernel[np.ix_(sample, sample)], OPTIONS, rng)
    np.testing.assert_array_equal(clusters.labels[sample], exact.labels)
    assert adjusted_rand_score(clusters.labels, np.arange(90) % 3) == 1.0
    assert mean_evenness(clusters.distances(kernel[:, sample]), clusters.tau) == pytest.approx(0.5)


@pytest.mark.parametrize("n_clusters", [3, 4, 6])
def test_no_cluster_stays_empty(rng, n_clusters):
    x = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])  # two places only
    clusters = kernel_kmeans(np.outer(x, x), ClusterOptions(n_clusters), rng)
    assert set(clusters.labels) == set(range(n_clusters))
    np.testing.assert_allclose(clusters.inertia, 0.0, atol=1e-12)
    assert np.isfinite(clusters.memberships(np.outer(x, x))).all()
