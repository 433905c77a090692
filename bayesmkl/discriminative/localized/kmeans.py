r"""Kernel k-means: clusters from inner products alone, in the feature space of any kernel.

Means are weighted sums of samples, so that one function is enough to know of the space: from weights, to the inner
products of the weighted sums with every sample.

A cluster that loses its last member takes the sample that is farthest from its own mean, among clusters with more
than one: all clusters have members as long as there are enough samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

STAY = 1e-12  # of the mean k(x, x): a sample moves only to a mean that is nearer by more than this

Products = Callable[[np.ndarray], np.ndarray]  # (n_clusters, n_samples) to (n_clusters, n_samples)


class KMeansRun(NamedTuple):
    """Result of k-means.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
    inertia : float
        Sum of the squared distances of samples to their means.
    """

    labels: np.ndarray
    inertia: float


def best_kmeans(
    products: Products,
    diagonal: np.ndarray,
    n_clusters: int,
    n_restarts: int,
    max_iter: int,
    rng: np.random.Generator,
) -> KMeansRun:
    """Run k-means from several starts, keep the least inertia, and number the clusters by their first members.

    Parameters
    ----------
    products : callable
        From weights of samples in sums, (n_sums, n_samples), to the inner products of the sums with every sample.
    diagonal : ndarray of shape (n_samples,)
        Squared length of every sample.
    n_clusters : int
    n_restarts : int
    max_iter : int
        Maximum number of rounds of a run.
    rng : Generator

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 0.2, 5.0, 5.2])
    >>> best_kmeans(lambda weights: np.outer(weights @ x, x), x**2, 2, 5, 100, np.random.default_rng(0)).labels
    array([0, 0, 1, 1])
    """
    runs = []
    for _ in range(max(1, n_restarts)):
        labels = _first_labels(products, diagonal, n_clusters, rng)
        runs.append(_lloyd(products, diagonal, labels, n_clusters, max_iter))
    best = min(runs, key=lambda run: run.inertia)
    first = np.unique(best.labels, return_index=True)[1]
    rank = np.empty(n_clusters, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(n_clusters)
    return best._replace(labels=rank[best.labels])


def averages(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the weights of samples in the means of their clusters, (n_clusters, n_samples)."""
    members = labels == np.arange(n_clusters)[:, None]
    return members / np.maximum(members.sum(axis=1, keepdims=True), 1)


def _first_labels(
    products: Products, diagonal: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw centers among the samples, each in proportion to its squared distance from those before."""
    n_samples = len(diagonal)
    nearest, labels = np.full(n_samples, np.inf), np.zeros(n_samples, dtype=np.intp)
    chosen = int(rng.integers(n_samples))
    for r in range(n_clusters):
        if r > 0:
            total = nearest.sum()
            share = nearest / total if total > 0.0 else np.full(n_samples, 1.0 / n_samples)
            chosen = int(rng.choice(n_samples, p=share))
        row = products(np.eye(1, n_samples, chosen))[0]
        distance = np.maximum(diagonal - 2.0 * row + diagonal[chosen], 0.0)
        labels[distance < nearest] = r
        nearest = np.minimum(nearest, distance)
    return _refill(labels, nearest, n_clusters)


def _lloyd(
    products: Products, diagonal: np.ndarray, labels: np.ndarray, n_clusters: int, max_iter: int
) -> KMeansRun:
    """Move samples to the nearest mean until none moves."""
    samples, slack = np.arange(len(labels)), STAY * float(diagonal.mean())
    for _ in range(max_iter):
        distances = _distances(products, diagonal, labels, n_clusters)
        nearest = distances.argmin(axis=0)
        stays = distances[labels, samples] <= distances[nearest, samples] + slack
        moved = np.where(stays, labels, nearest)
        moved = _refill(moved, distances[moved, samples], n_clusters)
        if np.array_equal(moved, labels):
            break
        labels = moved
    distances = _distances(products, diagonal, labels, n_clusters)
    return KMeansRun(labels, float(distances[labels, samples].sum()))


def _distances(products: Products, diagonal: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    coef = averages(labels, n_clusters)
    cross = products(coef)
    return diagonal - 2.0 * cross + np.einsum("ri,ri->r", cross, coef)[:, None]


def _refill(labels: np.ndarray, distances: np.ndarray, n_clusters: int) -> np.ndarray:
    """Give every empty cluster the sample that is farthest from its own mean, of clusters with several."""
    sizes = np.bincount(labels, minlength=n_clusters)
    for r in np.flatnonzero(sizes == 0):
        farthest = int(np.where(sizes[labels] > 1, distances, -np.inf).argmax())
        labels = labels.copy()
        sizes[labels[farthest]] -= 1
        labels[farthest], sizes[r] = r, 1
    return labels
