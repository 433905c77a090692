r"""Soft clusters in the feature space of a kernel: the likelihoods that C-LMKL starts from.

Kernel k-means assigns every sample to the nearest of the means of `n_clusters` groups,

.. math:: \|\phi(x) - \mu_r\|^2 = k(x, x) - \frac{2}{|S_r|} \sum_{i \in S_r} k(x, x_i)
   + \frac{1}{|S_r|^2} \sum_{i, j \in S_r} k(x_i, x_j) ,

and :math:`c_r(x) = \operatorname{softmax}_r(-\tau \|\phi(x) - \mu_r\|^2)` are soft memberships: uniform for
:math:`\tau = 0`, hard for :math:`\tau \to \infty`. The term k(x, x) is the same for all clusters and cancels.

For many samples, `landmark_kmeans` looks for means in the span of some landmarks only (Chitta, Jin, Havens and Jain
2011). With the Nyström features :math:`\tilde\phi(x) = \hat K^{-1/2} k_B(x)` that is ordinary k-means, and the part
of a distance that it leaves out is the same for all clusters. `sample_kmeans` clusters a sample exactly and assigns
the others to its means.

A cluster that loses its last member takes the sample that is farthest from its own mean, among clusters with more
than one: all clusters have members as long as there are enough samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import entr, softmax

RANK = 1e-12  # eigenvalues of the landmarks' kernel below this share of the largest are rounding
SAME = 1e-12  # of the mean distance: spreads below are rounding
STEEPEST = 2.0**60  # largest tau, in units of the inverse spread of the distances
STAY = 1e-12  # of the mean k(x, x): a sample moves only to a mean that is nearer by more than this

# what k-means knows of the space: from weights of samples in sums, (n_sums, n_samples), to the inner products of the
# sums with every sample
Products = Callable[[np.ndarray], np.ndarray]


class ClusterOptions(NamedTuple):
    r"""Number of clusters, and their softness.

    Parameters
    ----------
    n_clusters : int
    tau : float or None
        :math:`\tau \ge 0` of the memberships, also infinite; None takes the one of `evenness`.
    evenness : float
        Mean entropy of the training samples' memberships, over that of uniform ones; between 0 and 1.
    n_restarts : int
        Runs from different first centers; the one with the smallest inertia is kept.
    max_iter : int
        Maximum number of rounds of a run.
    """

    n_clusters: int = 3
    tau: float | None = None
    evenness: float = 0.5
    n_restarts: int = 10
    max_iter: int = 300


class Clusters(NamedTuple):
    r"""Means of clusters as combinations of some training samples, the basis.

    Parameters
    ----------
    basis : ndarray of shape (n_basis,)
        Positions of these samples.
    coef : ndarray of shape (n_clusters, n_basis)
        :math:`\mu_r = \sum_b a_{rb} \phi(x_b)`.
    offsets : ndarray of shape (n_clusters,)
        :math:`\|\mu_r\|^2`.
    tau : float
        Sharpness of the memberships.
    labels : ndarray of shape (n_samples,)
        Cluster of every training sample; clusters are numbered in the order of their first members.
    inertia : float
        Sum of the squared distances of the clustered samples to their means.
    """

    basis: np.ndarray
    coef: np.ndarray
    offsets: np.ndarray
    tau: float
    labels: np.ndarray
    inertia: float

    def distances(self, rows: np.ndarray) -> np.ndarray:
        """Return squared distances to the means less k(x, x), (n_clusters, n_rows).

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_basis)
            Kernel values against the basis.
        """
        return self.offsets[:, None] - 2.0 * (self.coef @ rows.T)

    def memberships(self, rows: np.ndarray) -> np.ndarray:
        """Return soft memberships, (n_clusters, n_rows), of kernel values against the basis, (n_rows, n_basis)."""
        return _memberships(self.distances(rows), self.tau)


def kernel_kmeans(kernel: np.ndarray, options: ClusterOptions, rng: np.random.Generator) -> Clusters:
    """Cluster the samples of a kernel.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
        Positive semidefinite; C-LMKL takes the mean of its kernels.
    options : ClusterOptions
    rng : Generator
        Draws first centers far from each other (as k-means++ does).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 0.2, 5.0, 5.1, 5.3])
    >>> kernel = np.exp(-0.5 * np.subtract.outer(x, x) ** 2)
    >>> clusters = kernel_kmeans(kernel, ClusterOptions(n_clusters=2), np.random.default_rng(0))
    >>> clusters.labels
    array([0, 0, 1, 1, 1])
    >>> clusters.memberships(kernel).sum(axis=0).round(12)
    array([1., 1., 1., 1., 1.])
    """
    labels, inertia = best_kmeans(lambda weights: weights @ kernel, kernel.diagonal(), options, rng)
    coef = averages(labels, options.n_clusters)
    offsets = np.einsum("ri,ri->r", coef @ kernel, coef)
    return _with_tau(Clusters(np.arange(len(kernel)), coef, offsets, 0.0, labels, inertia), kernel, options)


def landmark_kmeans(
    columns: np.ndarray, landmarks: np.ndarray, options: ClusterOptions, rng: np.random.Generator
) -> Clusters:
    """Cluster all samples around means in the span of landmarks.

    Parameters
    ----------
    columns : ndarray of shape (n_samples, n_landmarks)
        Kernel of all samples against the landmarks.
    landmarks : ndarray of shape (n_landmarks,)
        Positions of the landmarks.
    options : ClusterOptions
    rng : Generator

    Returns
    -------
    Clusters
        Its inertia is that of the Nyström features.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 0.2, 5.0, 5.1, 5.3])
    >>> kernel = np.exp(-0.5 * np.subtract.outer(x, x) ** 2)
    >>> landmarks = np.array([1, 3])
    >>> options = ClusterOptions(n_clusters=2)
    >>> landmark_kmeans(kernel[:, landmarks], landmarks, options, np.random.default_rng(0)).labels
    array([0, 0, 1, 1, 1])
    """
    values, vectors = np.linalg.eigh(columns[landmarks])
    kept = values > RANK * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    features = columns @ root
    squares = np.einsum("ij,ij->i", features, features)
    labels, inertia = best_kmeans(lambda weights: (weights @ features) @ features.T, squares, options, rng)
    centers = averages(labels, options.n_clusters) @ features
    offsets = (centers**2).sum(axis=1)
    return _with_tau(Clusters(landmarks, centers @ root.T, offsets, 0.0, labels, inertia), columns, options)


def sample_kmeans(
    columns: np.ndarray, sample: np.ndarray, options: ClusterOptions, rng: np.random.Generator
) -> Clusters:
    """Cluster a sample exactly, and assign all others to the nearest of its means.

    Parameters
    ----------
    columns : ndarray of shape (n_samples, n_sample)
        Kernel of all samples against those of the sample.
    sample : ndarray of shape (n_sample,)
        Their positions.
    options : ClusterOptions
    rng : Generator

    Returns
    -------
    Clusters
        Its inertia is that of the sample; `tau` is that of all samples.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 0.2, 5.0, 5.1, 5.3])
    >>> kernel = np.exp(-0.5 * np.subtract.outer(x, x) ** 2)
    >>> sample = np.array([0, 2, 4])
    >>> options = ClusterOptions(n_clusters=2)
    >>> sample_kmeans(kernel[:, sample], sample, options, np.random.default_rng(0)).labels
    array([0, 0, 1, 1, 1])
    """
    clusters = kernel_kmeans(columns[sample], options, rng)._replace(basis=sample)
    clusters = clusters._replace(labels=clusters.distances(columns).argmin(axis=0))
    return _with_tau(clusters, columns, options)


def mean_evenness(distances: np.ndarray, tau: float) -> float:
    """Return the mean entropy of memberships over that of uniform ones; 1 for a single cluster.

    Parameters
    ----------
    distances : ndarray of shape (n_clusters, n_samples)
        Squared, up to a constant per sample.
    tau : float
    """
    if len(distances) == 1:
        return 1.0
    return float(entr(_memberships(distances, tau)).sum(axis=0).mean() / np.log(len(distances)))


def evenness_temperature(distances: np.ndarray, evenness: float) -> float:
    r"""Return the :math:`\tau` at which `mean_evenness` has a given value between 0 and 1.

    Entropy falls with :math:`\tau`, from 1 on. Where ties of distances keep it above `evenness`, a value is returned
    that makes all other memberships hard; where no distances differ, 0.

    Examples
    --------
    >>> import numpy as np
    >>> distances = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> tau = evenness_temperature(distances, 0.5)
    >>> round(mean_evenness(distances, tau), 6)
    0.5
    """
    spread = float((distances - distances.min(axis=0)).mean())
    if spread <= SAME * float(np.abs(distances).mean()):
        return 0.0
    low = high = 1.0 / spread
    while mean_evenness(distances, high) > evenness:
        high *= 2.0
        if high * spread > STEEPEST:
            return high
    while mean_evenness(distances, low) <= evenness:
        low *= 0.5
    root = brentq(
        lambda log: mean_evenness(distances, np.exp(log)) - evenness, np.log(low), np.log(high), xtol=1e-9
    )
    return float(np.exp(root))


def _memberships(distances: np.ndarray, tau: float) -> np.ndarray:
    if np.isinf(tau):
        return (distances.argmin(axis=0) == np.arange(len(distances))[:, None]).astype(np.float64)
    return softmax(-tau * distances, axis=0)


def _with_tau(clusters: Clusters, rows: np.ndarray, options: ClusterOptions) -> Clusters:
    if options.tau is not None:
        return clusters._replace(tau=float(options.tau))
    return clusters._replace(tau=evenness_temperature(clusters.distances(rows), options.evenness))


def best_kmeans(
    products: Products, diagonal: np.ndarray, options: ClusterOptions, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Run k-means from several starts, keep the least inertia, and number the clusters by their first members.

    Parameters
    ----------
    products : callable
        From weights of samples in sums, (n_sums, n_samples), to the inner products of the sums with every sample.
    diagonal : ndarray of shape (n_samples,)
        Squared length of every sample.
    options : ClusterOptions
    rng : Generator

    Returns
    -------
    labels : ndarray of shape (n_samples,)
    inertia : float
        Sum of the squared distances of samples to their means.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 0.2, 5.0, 5.2])
    >>> options = ClusterOptions(n_clusters=2)
    >>> best_kmeans(lambda weights: np.outer(weights @ x, x), x**2, options, np.random.default_rng(0))[0]
    array([0, 0, 1, 1])
    """
    n_clusters, runs = options.n_clusters, []
    for _ in range(max(1, options.n_restarts)):
        labels = _first_labels(products, diagonal, n_clusters, rng)
        runs.append(_lloyd(products, diagonal, labels, n_clusters, options.max_iter))
    labels, inertia = min(runs, key=lambda run: run[1])
    rank = np.empty(n_clusters, dtype=np.intp)
    rank[np.argsort(np.unique(labels, return_index=True)[1])] = np.arange(n_clusters)
    return rank[labels], inertia


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
) -> tuple[np.ndarray, float]:
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
    return labels, float(distances[labels, samples].sum())


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
