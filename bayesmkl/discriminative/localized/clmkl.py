r"""C-LMKL: kernel weights of their own for every cluster, a convex localized method.

Lei, Binder, Dogan and Kloft (2016). With memberships :math:`c_r(x) \ge 0` that are fixed beforehand and
:math:`p \ge 1`,

.. math:: \min_{\beta \ge 0, w, b} \; \tfrac12 \sum_r \sum_m \frac{\|w_{rm}\|^2}{\beta_{rm}} + \sum_i \ell_i(f(x_i)),
   \qquad f(x) = \sum_r c_r(x) \sum_m \langle w_{rm}, \phi_m(x) \rangle + b, \quad \|\beta_r\|_p \le 1 \;\forall r ,

is convex in weights and functions together. For fixed weights it is an SVM on the kernel
:math:`K(\beta) = \sum_r \sum_m \beta_{rm} (c_r c_r^\top) \circ K_m`; for fixed functions, with
:math:`S_{rm} = (v \circ c_r)^\top K_m (v \circ c_r)` and :math:`\|w_{rm}\| = \beta_{rm} \sqrt{S_{rm}}`, the
weights of every cluster have the closed-form solution of lp-norm multiple kernel learning. The two alternate. The
duality gap is :math:`\tfrac12 \sum_r (\|S_r\|_{p/(p-1)} - \beta_r^\top S_r)`; the largest dual value so far counts.

The unified view of localized kernels (Moeller, Swaminathan and Venkatasubramanian 2016) writes weights
:math:`\sqrt\beta`: those are of features, that is of the gates :math:`\sqrt{\beta_{rm}}\, c_r(x)`; the weights of
kernels have no root. There is one clustering, into several clusters.

Departures: the closed-form updates alone need hundreds of SVMs where `p` is near one, so that steps go further in its
direction, on a logarithmic scale, as long as that lowers the objective (as Salakhutdinov and Roweis 2003 do for
expectation maximization); the closed-form update itself follows where it does not. Several tasks that share the
weights add their objectives. SVMs are solved as accurately as the present gap needs.

Clusters are found beforehand in the feature space of the mean kernel. Kernel k-means assigns every sample to the
nearest of the means of `n_clusters` groups,

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

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import entr, softmax

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.problems import (
    InnerProblem,
    MKLResult,
    OnStep,
    WeightedFit,
    dual_norm,
    lp_weights,
    result_of,
    silent,
)
from bayesmkl.discriminative.svm.one_kernel import GatedColumns, takes_columns
from bayesmkl.kernels.landmarks import kmeans

BLOCK_ROWS = 64  # of the combined kernel that are computed at once
INNER_SHARE = 0.1  # of the outer gap, or of the tolerance, that the inner gaps may take
# Steps beyond the closed-form update: how much longer the next one is after a success, how much shorter after a
# failure, and by which factor a weight changes at most.
GROWTH, RETREAT, LARGEST = 1.5, 0.25, 1e3
SMALLEST = (
    1e-3  # of the tolerance, over all kernels: weights stay above this share, so that they can grow again
)
FIRST_TOL, LAST_TOL = 1e-3, 1e-6  # of the inner solver
RANK = 1e-12  # eigenvalues of a kernel below this share of the largest are rounding
SAME = 1e-12  # of the mean distance: spreads below are rounding
STEEPEST = 2.0**60  # largest tau, in units of the inverse spread of the distances


class CLMKLOptions(NamedTuple):
    """Norm of the weights, and stopping rule.

    Parameters
    ----------
    p_norm : float
        At least 1; small values make weights sparse within every cluster.
    tol : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the weights.
    """

    p_norm: float = 4.0 / 3.0
    tol: float = 1e-3
    max_iter: int = 500


class ClusteredStack(NamedTuple):
    r"""The kernels :math:`(c_r c_r^\top) \circ K_m`, one for every cluster and every kernel.

    Parameters
    ----------
    stack : Stack, Stack or Stack
        :math:`K_m`, of shape (n_kernels, n_rows, n_train): to learn from, to predict, or for SVMs that are
        trained from columns, which take no `combine`.
    row_memberships : ndarray of shape (n_clusters, n_rows)
    train_memberships : ndarray of shape (n_clusters, n_train)
        The same array for training kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> hard = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> clustered = ClusteredStack(DenseStack(np.ones((2, 3, 3))), hard, hard)
    >>> clustered.combine(np.array([[1.0, 0.0], [0.5, 1.5]]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 2.]])
    """

    stack: Any
    row_memberships: np.ndarray
    train_memberships: np.ndarray

    def combine(self, kernel_weights: np.ndarray) -> np.ndarray:
        r"""Return :math:`K(\beta)`, (n_rows, n_train), for weights of shape (n_clusters, n_kernels)."""
        combined = np.empty((self.stack.n_rows, self.stack.n_train))
        for first in range(0, len(combined), BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            kernels = self.stack.rows(rows).combine(kernel_weights)  # of every cluster
            combined[rows] = np.einsum(
                "rij,ri,rj->ij", kernels, self.row_memberships[:, rows], self.train_memberships
            )
        return combined

    def quadratic(self, vector: np.ndarray) -> np.ndarray:
        """Return :math:`S_{rm}`, (n_clusters, n_kernels), for a vector of shape (n_train,)."""
        vectors = vector * self.train_memberships
        return np.maximum(self.stack.quadratics(vectors), 0.0)  # rounding

    def kernel_for(self, inner: InnerProblem, kernel_weights: np.ndarray) -> Any:
        r"""Return the training kernel :math:`K(\beta)` in the form that `inner` takes."""
        if takes_columns(inner):
            return GatedColumns(self.stack, clmkl_components(kernel_weights, self.train_memberships))
        return self.combine(kernel_weights)


def fit_clmkl(
    clustered: ClusteredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: CLMKLOptions = CLMKLOptions(),  # noqa: B008
    on_step: OnStep = silent,
) -> MKLResult:
    r"""Alternate SVMs and closed-form weight updates until the duality gap is small.

    Parameters
    ----------
    clustered : ClusteredStack
        Training kernels and memberships.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    options : CLMKLOptions
    on_step : callable, optional
        Takes the number of iterations done and a line of status.

    Returns
    -------
    MKLResult
        Its kernel weights have shape (n_clusters, n_kernels), every row of norm one; a cluster without any
        support vector has equal weights. The history holds the least primal value so far.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.libsvm import Hinge
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> rng = np.random.default_rng(0)
    >>> X, left = rng.normal(size=(40, 2)), np.arange(40) % 2 == 0
    >>> y = np.where(np.where(left, X[:, 0], X[:, 1]) > 0.0, 1.0, -1.0)     # which feature tells depends on the side
    >>> stack, sides = DenseStack(np.stack([np.outer(x, x) for x in X.T])), np.stack([left, ~left]).astype(float)
    >>> result = fit_clmkl(ClusteredStack(stack, sides, sides), y[None], Hinge(1.0), CLMKLOptions(p_norm=1.0))
    >>> result.kernel_weights.argmax(axis=1)
    array([0, 1])
    """
    weights = np.ones((len(clustered.train_memberships), clustered.stack.n_kernels))
    weights /= np.linalg.norm(weights, ord=options.p_norm, axis=1, keepdims=True)
    evaluate = _SVMs(clustered, targets, inner, options)
    fit, relaxation, dual = evaluate(weights), 1.0, -np.inf
    history: list[float] = []
    outcome = Outcome.MAX_ITER
    for step in range(1, options.max_iter + 1):
        history.append(min([*history[-1:], _primal(fit)]))
        dual = max(dual, _primal(fit) - clustered_gap(fit, options.p_norm))
        gap = _primal(fit) - dual
        on_step(step, f"objective {history[-1]:.6g}, relative gap {_relative(gap, fit):.1e}")
        if gap <= options.tol * abs(fit.objective):
            outcome = Outcome.CONVERGED
            break
        if not np.isfinite(gap):
            outcome = Outcome.NOT_FINITE
            break
        new, relaxation = _step(evaluate, fit, options, relaxation)
        if evaluate.settled(new, fit):
            outcome = Outcome.CONVERGED
            break
        if evaluate.exhausted(new, gap) or new.objective > _primal(fit):
            outcome = Outcome.NOT_IMPROVING  # the inner solver is at its end, or a kernel is indefinite
            break
        fit = new
    return result_of(fit, history, outcome, evaluate.n_solves, _primal(fit) - dual)


def update_weights(fit: WeightedFit, p_norm: float) -> np.ndarray:
    r"""Return the best weights for the functions of `fit`: :math:`\beta_{rm} \propto \|w_{rm}\|^{2/(p+1)}`."""
    block_norms = fit.kernel_weights * np.sqrt(fit.quadratics)
    return np.stack([lp_weights(of_cluster, p_norm) for of_cluster in block_norms])


def clustered_gap(fit: WeightedFit, p_norm: float) -> float:
    r"""Return the duality gap under :math:`\|\beta_r\|_p \le 1` for every cluster, the inner gaps included."""
    largest = sum(dual_norm(of_cluster, p_norm) for of_cluster in fit.quadratics)
    return 0.5 * (largest - float((fit.kernel_weights * fit.quadratics).sum())) + fit.inner_gap


def clmkl_components(kernel_weights: np.ndarray, memberships: np.ndarray) -> np.ndarray:
    r"""Return the gates :math:`\sqrt{\beta_{rm}}\, c_r(x)`, shape (n_clusters, n_kernels, n_rows).

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_clusters, n_kernels)
    memberships : ndarray of shape (n_clusters, n_rows)
    """
    return np.sqrt(kernel_weights)[:, :, None] * memberships[:, None, :]


def clmkl_scores(clustered: ClusteredStack, result: MKLResult) -> np.ndarray:
    """Return the scores of the rows of `clustered`, shape (n_tasks, n_rows)."""
    kernel = clustered.combine(result.kernel_weights)
    return result.signed_dual @ kernel.T + result.intercept[:, None]


class _SVMs:
    """Solver of SVMs at given weights, as accurate as the outer gap needs."""

    def __init__(
        self, clustered: ClusteredStack, targets: np.ndarray, inner: InnerProblem, options: CLMKLOptions
    ) -> None:
        self.n_solves = 0
        self._clustered, self._targets, self._inner, self._options = clustered, targets, inner, options
        self._scale = float(targets.std(axis=1).max()) or 1.0
        self._by_columns = takes_columns(inner)
        self._tol = LAST_TOL if self._by_columns else FIRST_TOL

    def __call__(self, kernel_weights: np.ndarray, below: float = np.inf) -> WeightedFit:
        """Solve until the inner gaps are a small share, and the primal value is not above `below`."""
        kernel = self._clustered.kernel_for(self._inner, kernel_weights)
        while True:
            fit = self._solve(kernel, kernel_weights)
            outer = clustered_gap(fit, self._options.p_norm) - fit.inner_gap
            allowed = INNER_SHARE * max(outer, self._options.tol * abs(fit.objective))
            good = fit.inner_gap <= allowed and _primal(fit) <= below
            if good or self._tol <= LAST_TOL or not np.isfinite(fit.objective):
                return fit
            self._tol = max(LAST_TOL, 0.1 * self._tol)

    def settled(self, new: WeightedFit, fit: WeightedFit) -> bool:
        """Return whether a step after `fit` changes nothing that SVMs of a fixed accuracy can show."""
        return self._by_columns and _primal(new) >= _primal(fit)

    def exhausted(self, fit: WeightedFit, gap: float) -> bool:
        """Return whether the inner gaps are most of `gap`, and cannot become smaller."""
        return not self._by_columns and self._tol <= LAST_TOL and fit.inner_gap > 0.5 * gap

    def _solve(self, kernel: np.ndarray, kernel_weights: np.ndarray) -> WeightedFit:
        solve = self._inner.solve
        solutions = tuple(solve(kernel, target, self._tol * self._scale) for target in self._targets)
        self.n_solves += len(solutions)
        quadratics = np.sum([self._clustered.quadratic(s.signed_dual) for s in solutions], axis=0)
        return WeightedFit(kernel_weights, sum(s.objective for s in solutions), quadratics, solutions)


def _step(
    evaluate: _SVMs, fit: WeightedFit, options: CLMKLOptions, relaxation: float
) -> tuple[WeightedFit, float]:
    """Over-relax the closed-form update by `relaxation`, or take it exactly if that does not lower the objective."""
    closed = update_weights(fit, options.p_norm)
    if relaxation > 1.0:
        new = evaluate(_relaxed(fit.kernel_weights, closed, relaxation, options))
        if _primal(new) < _primal(fit):
            return new, GROWTH * relaxation
    new = evaluate(closed, below=_primal(fit))
    return new, max(GROWTH, RETREAT * relaxation)


def _relaxed(weights: np.ndarray, closed: np.ndarray, relaxation: float, options: CLMKLOptions) -> np.ndarray:
    """Extrapolate on a logarithmic scale; weights of zero stay."""
    ratio = np.divide(closed, weights, out=np.ones_like(closed), where=weights > 0.0)
    steps = relaxation * np.log(np.clip(ratio, 1.0 / LARGEST, LARGEST))
    moved = weights * np.exp(np.clip(steps, -np.log(LARGEST), np.log(LARGEST)))
    moved /= np.linalg.norm(moved, ord=options.p_norm, axis=1, keepdims=True)
    moved = np.where(closed > 0.0, np.maximum(moved, SMALLEST * options.tol / weights.shape[1]), 0.0)
    return moved / np.linalg.norm(moved, ord=options.p_norm, axis=1, keepdims=True)


def _primal(fit: WeightedFit) -> float:
    return fit.objective + fit.inner_gap


def _relative(gap: float, fit: WeightedFit) -> float:
    return gap / max(abs(fit.objective), np.finfo(float).tiny)


# ---------------------------------------------------------------------------------------------------- clusters


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
    values, vectors = np.linalg.eigh(kernel)
    kept = values > RANK * values[-1]
    labels = _cluster(vectors[:, kept] * np.sqrt(values[kept]), options, rng)
    coef, samples = averages(labels, options.n_clusters), np.arange(len(kernel))
    cross = coef @ kernel
    offsets = np.einsum("ri,ri->r", cross, coef)
    inertia = float((kernel.diagonal() - 2.0 * cross[labels, samples] + offsets[labels]).sum())
    return _with_tau(Clusters(samples, coef, offsets, 0.0, labels, inertia), kernel, options)


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
    labels = _cluster(features, options, rng)
    centers = averages(labels, options.n_clusters) @ features
    offsets, inertia = (centers**2).sum(axis=1), float(((features - centers[labels]) ** 2).sum())
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


def _cluster(features: np.ndarray, options: ClusterOptions, rng: np.random.Generator) -> np.ndarray:
    """Return the cluster of every row; all have members, and they are numbered by the first ones."""
    n_clusters = options.n_clusters
    if not features.shape[1]:  # the kernel is zero
        features = np.zeros((len(features), 1))
    labels = kmeans(features, n_clusters, options.n_restarts, options.max_iter, 0.0, rng)
    centers = averages(labels, n_clusters) @ features
    labels = _refill(labels, ((features - centers[labels]) ** 2).sum(axis=1), n_clusters)
    rank = np.empty(n_clusters, dtype=np.intp)
    rank[np.argsort(np.unique(labels, return_index=True)[1])] = np.arange(n_clusters)
    return rank[labels]


def averages(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the weights of samples in the means of their clusters, (n_clusters, n_samples)."""
    members = labels == np.arange(n_clusters)[:, None]
    return members / np.maximum(members.sum(axis=1, keepdims=True), 1)


def _refill(labels: np.ndarray, distances: np.ndarray, n_clusters: int) -> np.ndarray:
    """Give every empty cluster the sample that is farthest from its own mean, of clusters with several."""
    sizes = np.bincount(labels, minlength=n_clusters)
    for r in np.flatnonzero(sizes == 0):
        farthest = int(np.where(sizes[labels] > 1, distances, -np.inf).argmax())
        labels = labels.copy()
        sizes[labels[farthest]] -= 1
        labels[farthest], sizes[r] = r, 1
    return labels
