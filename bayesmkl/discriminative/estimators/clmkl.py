"""C-LMKL as a scikit-learn estimator: clusters first, then kernel weights for every cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import check_choice, check_integer, check_number
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.base import MULTICLASS
from bayesmkl.discriminative.estimators.checked import ACTIVE
from bayesmkl.discriminative.estimators.localized import LocalFit, LocalizedClassifier, Rows
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.gating import gates_of_components
from bayesmkl.discriminative.localized import clmkl
from bayesmkl.discriminative.problems import MKLResult, OnStep
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

EXACT = 2000  # most samples that are clustered without landmarks
LANDMARKS = 1000  # beyond
LANDMARK_MEANS = {"span": clmkl.landmark_kmeans, "sample": clmkl.sample_kmeans}


@dataclass(eq=False, repr=False, kw_only=True)
@fill_docs(CLASSIFIER)
class CLMKLClassifier(LocalizedClassifier):
    r"""C-LMKL: separate kernel weights for every cluster of samples, from a convex problem.

    .. math:: \min_{\beta \ge 0, w, b} \; \tfrac12 \sum_r \sum_m \frac{\|w_{rm}\|^2}{\beta_{rm}}
       + C \sum_i \max\big(0, 1 - y_i f(x_i)\big) , \qquad \|\beta_r\|_p \le 1 \;\; \forall r ,

    with :math:`f(x) = \sum_r c_r(x) \sum_m \langle w_{rm}, \phi_m(x) \rangle + b`. The memberships
    :math:`c_r(x) \ge 0`, which sum to one, are found beforehand by kernel k-means on the mean of the kernels. Because
    they stay fixed, the problem is convex [1]_, unlike that of `LMKLClassifier`. There is one optimum, and the
    duality gap bounds the distance to it.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    random_state : int, default=None
        Seed of landmarks and first means. None uses a fixed seed.
    %(verbose)s
    n_clusters : int, default=3
        Number of clusters; with 1 this is `LpMKLClassifier`.
    p_norm : float, default=4/3
        :math:`p \ge 1`. Within a cluster, weights are sparse at 1 and equal for large values.
    tau : float, default=None
        Sharpness of the memberships :math:`c_r(x) \propto \exp(-\tau \|\phi(x) - \mu_r\|^2)`: 0 for equal ones,
        ``np.inf`` for hard clusters. None takes the value of `evenness`.
    evenness : float, default=0.5
        If `tau` is None: mean entropy of the memberships of training samples, relative to equal memberships. Between
        0 and 1.
    n_landmarks : int, default=None
        Number of training samples, drawn at random, that are used to find clusters. All samples are used if there are
        no more than this. None: all samples up to 2000, and 1000 landmarks for more.
    landmark_means : {"span", "sample"}, default="span"
        "span" clusters all samples around means in the span of the landmarks [2]_. "sample" clusters the landmarks
        alone and assigns the other samples to their means, as the unified view of localized methods does [3]_.
    n_restarts : int, default=10
        Runs of k-means from different first means; the tightest clusters are kept.
    %(multiclass)s
        The clusters are the same for all classes.
    svm : {"libsvm", "mwu"}, default="libsvm"
        "mwu" trains the SVMs by multiplicative weights from single columns of the kernels, in memory linear in
        the number of samples, with squared hinge loss and the accuracy `mwu_epsilon`.
    mwu_epsilon : float, default=0.05
        Accuracy of the SVMs with ``svm="mwu"``, relative to their objective.
    %(tol)s
        With ``svm="mwu"`` the search also ends where a step no longer lowers the objective; the gap is then that of
        the SVMs.
    %(max_iter)s, default=500

    Attributes
    ----------
    %(classes_)s
    memberships_ : ndarray of shape (n_samples, n_clusters)
        :math:`c_r(x)` of the training samples.
    kernel_weights_ : ndarray of shape (n_clusters, n_kernels) +
        :math:`\beta_{rm}`; every row has norm :math:`\|\beta_r\|_p = 1`.
    gates_ : ndarray of shape (n_samples, n_kernels) +
        Gate of each kernel at each training sample,
        :math:`(\sum_r \beta_{rm} c_r(x)^2)^{1/2}`.
    dual_coef_ : ndarray of shape (n_samples,) *
        Coefficients of the training samples, zero off the support.
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    n_active_kernels_ : int
        Kernels with a weight above 1e-6 of the largest, in any cluster and class.
    clusters_ : Clusters
        Means, sharpness `tau`, hard labels and inertia of the clusters.
    objective_history_ : ndarray of shape (n_iter_,) +
        Least objective after every step.
    %(duality_gap_)s +
    %(n_iter_, n_solves_)s +
    %(outcome_)s +
    %(converged_)s
    results_ : tuple of MKLResult
        Results of the fit, class by class, or for all classes together.
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    LMKLClassifier : Gates that are learned together with the SVM; not convex.
    LpMKLClassifier : The same weights for all samples.

    Notes
    -----
    The page *C-LMKL* maps equations to functions and lists departures. SVM and closed-form weight updates alternate,
    with over-relaxation. Clustering needs nothing but the kernels, so that precomputed ones need no
    features beside them. Kernels of different scale count differently in their mean: normalize them (a bank does).

    A cluster that loses its last member during k-means gets the sample that is farthest from the mean of its own. If
    training samples have fewer different places than `n_clusters`, some clusters coincide and a warning says so; they
    share their members. A cluster without support vectors has equal weights.

    Memory is that of the kernels; exact clustering adds one matrix of the size of one kernel, also with
    ``svm="mwu"``, where `n_landmarks` bounds it.

    References
    ----------
    .. [1] Y. Lei, A. Binder, U. Dogan and M. Kloft (2016), Localized multiple kernel learning: a convex approach,
       ACML.
    .. [2] R. Chitta, R. Jin, T. C. Havens and A. K. Jain (2011), Approximate kernel k-means: solution to large scale
       kernel clustering, KDD.
    .. [3] J. Moeller, S. Swaminathan and S. Venkatasubramanian (2016), A unified view of localized kernel learning,
       SDM.

    Examples
    --------
    The first column separates the classes on one side, the second column on the other:

    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import CLMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X, left = rng.uniform(-1, 1, size=(80, 3)), np.arange(80) < 40
    >>> y = np.where(left, X[:, 0], X[:, 1]) > 0
    >>> X[:, 2] = np.where(left, -4, 4)
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> model = CLMKLClassifier(bank, C=10, n_clusters=2, tau=np.inf, p_norm=1).fit(X, y)
    >>> model.kernel_weights_.argmax(axis=1), model.memberships(X[[0, -1]])
    (array([0, 1]), array([[1., 0.],
           [0., 1.]]))
    """

    n_clusters: int = 3
    p_norm: float = 4.0 / 3.0
    tau: float | None = None
    evenness: float = 0.5
    n_landmarks: int | None = None
    landmark_means: str = "span"
    n_restarts: int = 10
    multiclass: str = "one-versus-rest"
    svm: str = "libsvm"
    mwu_epsilon: float = 0.05
    tol: float = 1e-3
    max_iter: int = 500

    PER_TASK = ("kernel_weights",)

    # ------------------------------------------------------------------------------------------- parameters

    def _options(self) -> clmkl.CLMKLOptions:
        return clmkl.CLMKLOptions(
            p_norm=check_number("p_norm", self.p_norm, low=1.0, inclusive=True),
            tol=check_number("tol", self.tol, low=0.0),
            max_iter=check_integer("max_iter", self.max_iter, low=1),
        )

    def _cluster_options(self) -> clmkl.ClusterOptions:
        evenness = check_number("evenness", self.evenness)
        if not 0.0 < evenness < 1.0:
            raise ValueError(
                f"`evenness` must lie between 0 and 1; got {evenness:g}. `tau=0` makes memberships equal, "
                "`tau=np.inf` hard."
            )
        if self.tau is not None and not (np.isscalar(self.tau) and self.tau == np.inf):
            check_number("tau", self.tau, low=0.0, inclusive=True)
        return clmkl.ClusterOptions(
            n_clusters=check_integer("n_clusters", self.n_clusters, low=1),
            tau=None if self.tau is None else float(self.tau),
            evenness=evenness,
            n_restarts=check_integer("n_restarts", self.n_restarts, low=1),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options()
        options = self._cluster_options()
        check_choice("multiclass", self.multiclass, MULTICLASS)
        check_choice("landmark_means", self.landmark_means, tuple(LANDMARK_MEANS))
        if self.n_landmarks is not None:
            check_integer("n_landmarks", self.n_landmarks, low=options.n_clusters)

    # ---------------------------------------------------------------------------------------------- fitting

    def _fit_local(self, kernels: DenseStack, targets: np.ndarray, gate_features: ArrayLike | None) -> None:
        self._cluster(kernels)
        super()._fit_local(kernels, targets, gate_features)

    def _cluster(self, kernels: Stack) -> None:
        """Find clusters, and the memberships of the training samples."""
        options, n_samples = self._cluster_options(), kernels.n_train
        if options.n_clusters > n_samples:
            raise ValueError(
                f"`n_clusters` must be at most the number of samples, {n_samples}; got {options.n_clusters}."
            )
        rng = self._rng()
        n_landmarks = self.n_landmarks
        if n_landmarks is None:
            n_landmarks = n_samples if n_samples <= EXACT else max(LANDMARKS, options.n_clusters)
        if n_landmarks >= n_samples:
            rows = _mean_columns(kernels, np.arange(n_samples))
            self.clusters_ = clmkl.kernel_kmeans(rows, options, rng)
        else:
            landmarks = np.sort(rng.choice(n_samples, n_landmarks, replace=False))
            rows = _mean_columns(kernels, landmarks)
            self.clusters_ = LANDMARK_MEANS[self.landmark_means](rows, landmarks, options, rng)
        self.memberships_ = self.clusters_.memberships(rows).T
        _warn_of_empty_clusters(self.clusters_.distances(rows))

    def _groups(self, targets: np.ndarray) -> Sequence[np.ndarray]:
        return [targets] if self.multiclass == "shared" else [target[None] for target in targets]

    def _learn_task(self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep) -> MKLResult:
        """Learn weights for targets of shape (n_tasks, n_train)."""
        memberships = np.ascontiguousarray(self.memberships_.T)
        clustered = clmkl.ClusteredStack(training.kernels, memberships, memberships)
        return clmkl.fit_clmkl(clustered, target, inner, self._options(), on_step=on_step)

    def _describe(self, result: MKLResult, stopped: bool) -> LocalFit:
        one = len(result.signed_dual) == 1
        gates = gates_of_components(self._train_components(result)).T
        dual, intercept = (part[0] if one else part for part in (result.signed_dual, result.intercept))
        return LocalFit(gates, dual, intercept, *result[3:])

    def _store_local(self, results: list[Any], stopped: bool) -> None:
        super()._store_local(results, stopped)
        weights = np.stack([result.kernel_weights for result in results])
        self.n_active_kernels_ = int((weights > ACTIVE * weights.max()).any(axis=(0, 1)).sum())

    # ----------------------------------------------------------------------------------------------- results

    def _row_parts(self, X: Samples, gate_features: ArrayLike | None = None) -> Iterator[Rows]:
        """Add memberships, of shape (n_rows, n_clusters), as the features that gates are functions of."""
        for rows in super()._row_parts(X, gate_features):
            mean = rows.kernels.combine(np.full(rows.kernels.n_kernels, 1.0 / rows.kernels.n_kernels))
            yield rows._replace(features=self.clusters_.memberships(mean[:, self.clusters_.basis]).T)

    def _train_components(self, result: MKLResult) -> np.ndarray:
        return clmkl.clmkl_components(result.kernel_weights, self.memberships_.T)

    def _components(self, result: MKLResult, rows: Rows) -> np.ndarray:
        return clmkl.clmkl_components(result.kernel_weights, self._of(rows).row_memberships)

    def _scores_at(self, result: MKLResult, rows: Rows) -> np.ndarray:
        return clmkl.clmkl_scores(self._of(rows), result)

    def _of(self, rows: Rows) -> clmkl.ClusteredStack:
        return clmkl.ClusteredStack(rows.kernels, np.asarray(rows.features).T, self.memberships_.T)

    def memberships(self, X: Samples | None = None) -> np.ndarray:
        """Return the cluster memberships of each row.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.

        Returns
        -------
        ndarray of shape (n_rows, n_clusters)
            :math:`c_r(x)`; rows sum to one.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        check_is_fitted(self, "results_")
        if X is None:
            return self.memberships_.copy()
        return np.concatenate([rows.features for rows in self._row_parts(X)])


def _mean_columns(kernels: Stack, index: np.ndarray) -> np.ndarray:
    """Return the columns of the mean kernel at the training samples `index`, (n_train, n_columns)."""
    share = np.full(kernels.n_kernels, 1.0 / kernels.n_kernels)
    return kernels.combine_rows(index, share).T  # kernels are symmetric


def _warn_of_empty_clusters(distances: np.ndarray) -> None:
    """Warn where some clusters are the nearest of no training sample."""
    n_clusters, used = len(distances), len(np.unique(distances.argmin(axis=0)))
    if used < n_clusters:
        warn_user(
            f"{n_clusters - used} of n_clusters={n_clusters} clusters are not the nearest of any training sample, "
            "because many samples coincide. These clusters share the members of others. Lower `n_clusters`.",
            UserWarning,
        )
