"""C-LMKL against lp-norm multiple kernel learning, SciPy, LibSVM, finite differences and its degenerate cases;
clusters.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers import assert_same, random_kernels, random_labels
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.svm import SVC

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.localized.clmkl import (
    CLMKLOptions,
    ClusteredStack,
    ClusterOptions,
    clmkl_scores,
    clustered_gap,
    fit_clmkl,
    kernel_kmeans,
    landmark_kmeans,
    sample_kmeans,
)
from bayesmkl.discriminative.problems import fit_at
from bayesmkl.discriminative.svm.libsvm import Hinge, solve_svm
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

NORMS = [1.0, 1.1, 4.0 / 3.0, 2.0, 4.0]
TIGHT = CLMKLOptions(tol=1e-5, max_iter=3000)
TIGHTEST = CLMKLOptions(tol=1e-8, max_iter=5000)


def problem(rng, n_samples=40, n_kernels=3, n_clusters=2):
    stack = DenseStack(random_kernels(rng, n_samples, n_kernels))
    memberships = rng.dirichlet(np.ones(n_clusters), size=n_samples).T
    return ClusteredStack(stack, memberships, memberships), random_labels(rng, n_samples)


def without_clusters(stack):
    ones = np.ones((1, stack.n_train))
    return ClusteredStack(stack, ones, ones)


def lp_mkl(kernels, y, C, p, n_iter=400):
    """lp-norm multiple kernel learning by alternation, written out: weights and combined SVM."""
    weights = np.full(len(kernels), len(kernels) ** (-1.0 / p))
    for _ in range(n_iter):
        kernel = sum(w * k for w, k in zip(weights, kernels, strict=True))
        svm = SVC(kernel="precomputed", C=C, tol=1e-7).fit(kernel, y)
        v = np.zeros(len(y))
        v[svm.support_] = svm.dual_coef_[0]
        norms = np.array([w * np.sqrt(v @ k @ v) for w, k in zip(weights, kernels, strict=True)])
        weights = norms ** (2.0 / (p + 1.0))
        weights /= (weights**p).sum() ** (1.0 / p)
    return weights, kernel @ v + svm.intercept_


def lq(values, p):
    """The norm that is dual to p."""
    return values.max() if p == 1.0 else (values ** (p / (p - 1.0))).sum() ** ((p - 1.0) / p)


@pytest.mark.parametrize("p", [1.1, 2.0, 4.0])
def test_one_cluster_is_lp_mkl(rng, p):
    clustered, y = problem(rng, 30)
    one = without_clusters(clustered.stack)
    result = fit_clmkl(one, y[None], Hinge(1.0), TIGHTEST._replace(p_norm=p))
    weights, scores = lp_mkl(clustered.stack.kernels, y, 1.0, p, 100)
    assert_same(result.kernel_weights[0], weights, 1e-3)
    assert_same(clmkl_scores(one, result)[0], scores, 2e-3)


@pytest.mark.parametrize("p", [1.1, 2.0])
def test_uniform_memberships_are_lp_mkl_on_smaller_kernels(rng, p):
    clustered, y = problem(rng, 30)
    kernels = clustered.stack.kernels
    clusters = kernel_kmeans(kernels.mean(axis=0), ClusterOptions(3, tau=0.0), rng)
    memberships = clusters.memberships(kernels.mean(axis=0))
    uniform = ClusteredStack(clustered.stack, memberships, memberships)
    result = fit_clmkl(uniform, y[None], Hinge(1.0), TIGHTEST._replace(p_norm=p))
    weights, scores = lp_mkl(kernels / 3.0, y, 1.0, p, 100)
    for of_cluster in result.kernel_weights:
        assert_same(of_cluster, weights, 1e-3)
    assert_same(clmkl_scores(uniform, result)[0], scores, 2e-3)


@pytest.mark.parametrize("p", NORMS)
def test_gap_monotone_and_on_the_sphere(rng, p):
    clustered, y = problem(rng, 50, 4, 3)
    result = fit_clmkl(clustered, y[None], Hinge(2.0), CLMKLOptions(p, tol=1e-4, max_iter=2000))
    assert result.outcome is Outcome.CONVERGED
    assert 0.0 <= result.duality_gap <= 1.0001e-4 * result.objective_history[-1]
    assert np.all(np.diff(result.objective_history) <= 0.0)
    np.testing.assert_allclose((result.kernel_weights**p).sum(axis=1), 1.0, rtol=1e-10)
    assert result.n_solves >= len(result.objective_history)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
def test_dual_value_against_scipy(rng, p):
    clustered, y = problem(rng, 10, 2, 2)
    kernels = [
        [np.outer(c, c) * kernel for kernel in clustered.stack.kernels] for c in clustered.train_memberships
    ]

    def negative_dual(parameters):  # with one bound per cluster instead of the norm where that is a maximum
        alpha, bounds = parameters[:10], parameters[10:]
        v = alpha * y
        if p == 1.0:
            return 0.5 * bounds.sum() - alpha.sum()
        penalties = [lq(np.array([v @ k @ v for k in of_cluster]), p) for of_cluster in kernels]
        return 0.5 * sum(penalties) - alpha.sum()

    constraints = [{"type": "eq", "fun": lambda a: a[:10] @ y}]
    if p == 1.0:
        for r, of_cluster in enumerate(kernels):
            for k in of_cluster:
                constraints.append(
                    {"type": "ineq", "fun": lambda a, r=r, k=k: a[10 + r] - (a[:10] * y) @ k @ (a[:10] * y)}
                )
    start = np.concatenate([0.1 + 0.1 * (y < 0) * (y > 0).sum() / (y < 0).sum(), np.ones(2)])
    reference = minimize(
        negative_dual,
        start,
        bounds=[(0.0, 1.0)] * 10 + [(0.0, None)] * 2,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    result = fit_clmkl(clustered, y[None], Hinge(1.0), TIGHT._replace(p_norm=p))
    assert reference.success
    np.testing.assert_allclose(result.objective_history[-1], -reference.fun, rtol=3e-5)
    alpha = result.signed_dual[0] * y
    np.testing.assert_allclose(
        negative_dual(np.concatenate([alpha, reference.x[10:]])), reference.fun, rtol=2e-2
    )


def test_gap_bounds_the_distance_to_the_optimum(rng):
    clustered, y = problem(rng)
    best = fit_clmkl(clustered, y[None], Hinge(1.0), TIGHT._replace(p_norm=2.0)).objective_history[-1]
    for _ in range(5):
        weights = rng.uniform(0.05, 1.0, size=(2, 3))
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        fit = fit_at(clustered, y[None], Hinge(1.0), weights, 1e-6)
        assert fit.objective - best <= clustered_gap(fit, 2.0)
        assert fit.objective >= best * (1.0 - 2e-5)


def test_quadratics_are_slopes_by_finite_differences(rng):
    clustered, y = problem(rng, 20)
    weights, step = rng.uniform(0.3, 1.0, size=(2, 3)), 1e-4
    slopes = -0.5 * fit_at(clustered, y[None], Hinge(1.0), weights, 1e-9).quadratics
    for r in range(2):
        for m in range(3):
            moves = np.zeros((2, 3))
            moves[r, m] = step
            ahead, behind = (
                fit_at(clustered, y[None], Hinge(1.0), weights + sign * moves, 1e-9).objective
                for sign in (1.0, -1.0)
            )
            np.testing.assert_allclose((ahead - behind) / (2.0 * step), slopes[r, m], rtol=1e-3)


def test_hard_clusters_split_the_kernel(rng):
    clustered, y = problem(rng, 30)
    sides = np.eye(2)[:, np.arange(30) % 2]
    hard = ClusteredStack(clustered.stack, sides, sides)
    result = fit_clmkl(hard, y[None], Hinge(1.0), CLMKLOptions(2.0))
    kernel = hard.combine(result.kernel_weights)
    assert np.all(kernel[::2, 1::2] == 0.0)
    for r in range(2):
        own = clustered.stack.combine(result.kernel_weights[r])[r::2, r::2]
        assert_same(kernel[r::2, r::2], own, 1e-14)
    assert np.isscalar(result.intercept[0])
    solution = solve_svm(kernel, y, 1.0, 1e-5)
    assert_same(clmkl_scores(hard, result)[0], kernel @ solution.signed_dual + solution.intercept, 1e-2)


def test_infinite_norm_takes_all_kernels_fully(rng):
    clustered, y = problem(rng)
    result = fit_clmkl(clustered, y[None], Hinge(1.0), CLMKLOptions(np.inf))
    np.testing.assert_array_equal(result.kernel_weights, np.ones((2, 3)))
    assert result.outcome is Outcome.CONVERGED


def test_kernels_of_zeros_and_clusters_of_nobody(rng):
    clustered, y = problem(rng)
    kernels = clustered.stack.kernels.copy()
    kernels[1] = 0.0
    memberships = np.vstack([np.ones(40), np.zeros(40)])
    stack = DenseStack(kernels)
    result = fit_clmkl(
        ClusteredStack(stack, memberships, memberships), y[None], Hinge(1.0), CLMKLOptions(1.5)
    )
    assert result.outcome is Outcome.CONVERGED
    assert result.kernel_weights[0, 1] == 0.0
    np.testing.assert_allclose(result.kernel_weights[1], 3.0 ** (-1.0 / 1.5))


# ------------------------------------------------------------------------------------------ clusters


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


@pytest.mark.parametrize("n_clusters", [3, 4, 6])
def test_no_cluster_stays_empty(rng, n_clusters):
    x = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])  # two places only
    clusters = kernel_kmeans(np.outer(x, x), ClusterOptions(n_clusters), rng)
    assert set(clusters.labels) == set(range(n_clusters))
    np.testing.assert_allclose(clusters.inertia, 0.0, atol=1e-12)
    assert np.isfinite(clusters.memberships(np.outer(x, x))).all()
