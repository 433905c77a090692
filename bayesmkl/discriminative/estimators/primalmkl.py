"""PrimalMKL as scikit-learn estimators, and LapMKL: its classifier with a graph over samples without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Label, Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    BaseDiscriminative,
    DiscriminativeClassifier,
    DiscriminativeRegressor,
    NoveltyDetector,
    path_over_reg,
    refuse_missing_labels,
)
from bayesmkl.discriminative.estimators.checked import check_above_rounding
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.graph import (
    check_distances,
    check_laplacian,
    knn_laplacian,
    squared_kernel_distances,
)
from bayesmkl.discriminative.primal import primalmkl, solve
from bayesmkl.discriminative.problems import MKLResult, OnStep
from bayesmkl.discriminative.weights import Training
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes.labels import LabelSplit, split_labels


@dataclass(eq=False, repr=False, kw_only=True)
class BasePrimalMKL(BaseDiscriminative):
    """A loss of its own, and kernel weights that all tasks of a fit share."""

    PATH_PARAMETER = "reg"

    reg: float = 1.0
    p_norm: float = 1.0
    weights: str = "spg"
    solver: str = "newton"
    tol: float = 1e-3
    max_iter: int = 500
    verbose: int = 1

    def _inner_loss(self) -> Any:
        raise NotImplementedError

    def _options(self) -> primalmkl.PrimalMKLOptions:
        return primalmkl.PrimalMKLOptions(
            p_norm=check_number("p_norm", self.p_norm, low=1.0, inclusive=True),
            weights=check_choice("weights", self.weights, primalmkl.WEIGHT_SCHEMES),
            tol=check_number("tol", self.tol, low=0.0, inclusive=True),
            max_iter=check_integer("max_iter", self.max_iter, low=1),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._inner_loss(), self._options()

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        check_above_rounding("reg", self.reg, training.stack)
        return primalmkl.fit_primalmkl(
            training.stack, targets, self._inner_loss(), self._options(), start, on_step
        )


@fill_docs(CLASSIFIER)
@dataclass(eq=False, repr=False, kw_only=True)
class PrimalMKLClassifier(BasePrimalMKL, DiscriminativeClassifier):
    r"""Multiple kernel learning in the primal, with the squared hinge loss.

    .. math:: \min_{d, \alpha, b} \; F = \tfrac12 \lambda\, \alpha^\top K(d)\, \alpha
       + \tfrac12 \sum_i \max(0, 1 - y_i f_i)^2, \qquad f = K(d)\, \alpha + b, \quad K(d) = \sum_m d_m K_m,

    over kernel weights :math:`d \ge 0`, :math:`\|d\|_p \le 1` [1]_.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    reg : float, default=1.0
        :math:`\lambda > 0`; `1 / C` of an SVM with squared slacks.
    p_norm : float, default=1.0
        :math:`p \ge 1`; 1 (the paper) gives few kernels weight, larger values spread it.
    weights : {"spg", "closed", "paper"}, default="spg"
        Optimization of the weights. "spg": spectral projected gradients, the inner problem solved at every step.
        "closed": the closed-form weights for fixed functions (every kernel keeps some weight). "paper": one step of
        `solver`, then Nesterov's method on the weights for fixed coefficients (Algorithm 1), slow for small `reg`.
    solver : {"auto", "libsvm", "newton", "truncated", "pcg"}, default="auto"
        "libsvm": the dual by LibSVM, finished by Newton steps where single precision does not do. "newton": finite
        Newton steps, solved densely up to 3000 support vectors and by conjugate gradients beyond. "auto" is "libsvm"
        from 1000 samples on, else "newton"; the single steps of ``weights="paper"`` are Newton's for all three.
        "truncated": truncated Newton (Algorithm 2), one product with the kernel per inner iteration. "pcg": nonlinear
        preconditioned conjugate gradients, what the paper compares itself with.
    tol : float, default=1e-3
        Stop when the duality gap is at most this share of the objective.
    %(max_iter)s, default=500
    %(verbose)s
    %(multiclass)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        :math:`d`.
    dual_coef_ : ndarray of shape (n_samples,) *
        :math:`\alpha`, one entry per training sample, zero off the support.
    %(intercept_)s *
    %(support_:coefficients)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        `F` at the start and after every update; it never rises.
    duality_gap_ : float +
        Of the objective.
    n_iter_, n_solves_ : int +
        Length of the histories, and number of inner problems solved.
    %(outcome_)s +
    %(converged_)s
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    LapMKLClassifier : The same method with unlabeled samples and a graph.

    Notes
    -----
    One step costs :math:`O(P N^2)` for the kernels and, with `s` support vectors, :math:`O(s^3)` for the inner
    problem (:math:`O(N^2)` per inner iteration of "truncated", and about as much for "libsvm"). Coefficients are
    canonical, :math:`\alpha_i = y_i \xi_i / \lambda` with :math:`\xi_i = \max(0, 1 - y_i f_i)`.

    Departures from [1]_: the duality gap decides when to stop, which is possible as the problem is convex in the
    weights; the start is uniform instead of random; ``p_norm``; weights by "spg" instead of Algorithm 4, unless asked
    for.

    References
    ----------
    .. [1] Z. Hao, G. Yuan, X. Yang and Z. Chen (2012), A primal method for multiple kernel learning, Neural Computing
       and Applications.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import PrimalMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)[:200]
    >>> bank = KernelBank([Gaussian(width=w) for w in (1, 4, 16)], views={"mean": range(10), "worst": range(20, 30)})
    >>> model = PrimalMKLClassifier(bank, reg=0.1).fit(X, y[:200])
    >>> model.n_active_kernels_, bool(model.duality_gap_ <= 1e-3 * model.objective_history_[-1])
    (..., True)
    """

    path = path_over_reg

    solver: str = "auto"
    multiclass: str = "one-versus-rest"

    def _inner_loss(self) -> solve.SquaredHinge:
        return solve.SquaredHinge(
            check_scale("reg", self.reg), check_choice("solver", self.solver, solve.HINGE_SOLVERS)
        )


@fill_docs(REGRESSOR, PrimalMKLClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class PrimalMKLRegressor(BasePrimalMKL, DiscriminativeRegressor):
    r"""Multiple kernel regression in the primal: kernel ridge regression, or its robust form.

    .. math:: \min_{d, \alpha, b} \; F = \tfrac12 \lambda\, \alpha^\top K(d)\, \alpha + \sum_i \ell(t_i - f_i),
       \qquad f = K(d)\, \alpha + b, \quad K(d) = \sum_m d_m K_m,

    over kernel weights :math:`d \ge 0`, :math:`\|d\|_p \le 1`, with :math:`\ell(r) = \tfrac12 r^2`, or Huber's loss
    that is linear beyond :math:`\delta` [1]_.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    reg : float, default=1.0
        :math:`\lambda > 0`; with one kernel and the squared loss, `alpha` of kernel ridge regression.
    p_norm : float, default=1.0
        :math:`p \ge 1`; 1 gives few kernels weight, larger values spread it.
    %(PrimalMKLClassifier.weights)s
    solver : {"newton", "truncated", "pcg"}, default="newton"
        "newton": finite Newton steps, solved densely up to 3000 support vectors and by conjugate gradients beyond.
        "truncated": truncated Newton (Algorithm 2), one product with the kernel per inner iteration. "pcg": nonlinear
        preconditioned conjugate gradients, what the paper compares itself with.
    %(PrimalMKLClassifier.tol)s
    %(max_iter)s, default=500
    %(verbose)s
    loss : {"squared", "huber"}, default="squared"
        Huber's loss bounds the influence of outliers.
    delta : float, default=1.0
        :math:`\delta > 0` of Huber's loss, in units of the target.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        :math:`d`.
    %(PrimalMKLClassifier.dual_coef_)s
    %(intercept_)s
    support_ : ndarray of shape (n_support,)
        Positions of the samples with a coefficient.
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(PrimalMKLClassifier.objective_history_)s
    duality_gap_ : float
        Of the objective.
    %(PrimalMKLClassifier.n_iter_, n_solves_)s
    %(outcome_)s
    %(converged_)s
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    Notes
    -----
    The paper says that primal regression trains in the same way, without experiments. The intercept is not
    penalized: with one kernel and the squared loss the function is that of kernel ridge regression on the centered
    kernel and the centered target.

    References
    ----------
    .. [1] Z. Hao, G. Yuan, X. Yang and Z. Chen (2012), A primal method for multiple kernel learning, Neural Computing
       and Applications.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import PrimalMKLRegressor
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)[:150]
    >>> bank = KernelBank([Gaussian(width=2), Linear()], views={"person": [0, 1, 2, 3], "blood": slice(4, 10)})
    >>> model = PrimalMKLRegressor(bank, loss="huber", delta=30.0).fit(X, y[:150])
    >>> print(dict(zip(model.kernel_names_, model.kernel_weights_.round(2).tolist())))
    {...'linear · blood': ...}
    """

    path = path_over_reg

    loss: str = "squared"
    delta: float = 1.0

    def _inner_loss(self) -> solve.Squared | solve.Huber:
        reg = check_scale("reg", self.reg)
        solver = check_choice("solver", self.solver, solve.SOLVERS)
        delta = check_scale("delta", self.delta)
        if check_choice("loss", self.loss, ("squared", "huber")) == "squared":
            return solve.Squared(reg, solver)
        return solve.Huber(reg, solver, delta)


@fill_docs(REGRESSOR, PrimalMKLClassifier, PrimalMKLRegressor)
@dataclass(eq=False, repr=False, kw_only=True)
class PrimalMKLOneClass(BasePrimalMKL, NoveltyDetector):
    r"""Novelty detection with several kernels: a one-class SVM with squared slacks, in the primal.

    .. math:: \min_{d, \alpha, \rho} \; F = \tfrac12 \lambda\, \alpha^\top K(d)\, \alpha - \lambda \rho
       + \tfrac12 \sum_i \max(0, \rho - s_i)^2, \qquad s = K(d)\, \alpha, \quad K(d) = \sum_m d_m K_m,

    over kernel weights :math:`d \ge 0`, :math:`\|d\|_p \le 1` [1]_. Samples are far from the origin where their score
    `s` reaches the threshold :math:`\rho`.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    reg : float, default=1.0
        :math:`\lambda > 0`; large values make the score a kernel density estimate, small ones leave few samples
        below the threshold.
    p_norm : float, default=2.0
        :math:`p \ge 1`; 1 gives few kernels weight, larger values spread it.
    %(PrimalMKLClassifier.weights)s
    %(PrimalMKLRegressor.solver)s
    %(PrimalMKLClassifier.tol)s
    %(max_iter)s, default=500
    %(verbose)s
    contamination : "auto" or float, default="auto"
        Share of the training samples, at most 0.5, that the threshold of `predict` puts outside. "auto" is
        :math:`\rho`, below which lie exactly the samples with a coefficient.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        :math:`d`.
    %(PrimalMKLClassifier.dual_coef_)s
    intercept_ : float
        :math:`-\rho`.
    %(PrimalMKLRegressor.support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(PrimalMKLClassifier.objective_history_)s
    duality_gap_ : float
        Of the objective.
    %(PrimalMKLClassifier.n_iter_, n_solves_)s
    %(outcome_)s
    %(converged_)s
    offset_ : float
        Threshold of the score.
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    Notes
    -----
    The dual is :math:`\min_\alpha \tfrac12 \alpha^\top (K + \lambda I)\, \alpha` over :math:`\alpha \ge 0`,
    :math:`\sum_i \alpha_i = 1`; a factor before :math:`\lambda\rho` would only scale the solution. Kernel weights
    maximize the distance from the origin, so that kernels under which all samples look alike, such as wide Gaussians,
    get most of the weight: use kernels of comparable width on different views, and ``p_norm`` above 1. The paper
    names one-class SVMs among those that its method trains, without equations.

    References
    ----------
    .. [1] Z. Hao, G. Yuan, X. Yang and Z. Chen (2012), A primal method for multiple kernel learning, Neural Computing
       and Applications.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import PrimalMKLOneClass
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> bank = KernelBank(Gaussian(width=1), views={"left": [0, 1], "right": [2, 3]})
    >>> model = PrimalMKLOneClass(bank, contamination=0.1).fit(X)
    >>> int((model.predict(X) == -1).sum()), model.predict([[0, 0, 0, 0], [0, 0, 9, 9]]).tolist()
    (10, [1, -1])
    """

    contamination: str | float = "auto"
    p_norm: float = 2.0

    def _inner_loss(self) -> solve.OneClass:
        return solve.OneClass(
            check_scale("reg", self.reg), check_choice("solver", self.solver, solve.SOLVERS)
        )


LAPMKL_SOLVERS = ("deformed", "paper")


@fill_docs(CLASSIFIER)
@dataclass(eq=False, repr=False, kw_only=True)
class LapMKLClassifier(DiscriminativeClassifier):
    r"""Semi-supervised multiple kernel learning with a graph over labeled and unlabeled samples.

    Scores fit the labels by the squared hinge loss and vary little along the edges of a graph with Laplacian
    :math:`L` [1]_:

    .. math:: \min_{d, f, b} \; \tfrac12 \Big\{ \gamma_A \sum_m d_m \|f_m\|^2
       + \gamma_I \sum_m d_m f_m^\top L f_m + \sum_{i \text{ labeled}} \max(0, 1 - y_i f(x_i))^2 \Big\},
       \qquad f = \sum_m d_m f_m + b,

    with kernel weights :math:`d \ge 0`, :math:`\|d\|_p \le 1`. New samples are classified as well.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on all rows of `X`, labeled or not. With "precomputed", `X` is a stack of kernels
        of shape (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
        One kernel makes a Laplacian support vector machine (LapSVM).
    %(indefinite)s
    %(kernel_names)s
    gamma_ambient : float, default=0.01
        :math:`\gamma_A > 0`, penalty of the norms; `reg` of PrimalMKL.
    gamma_intrinsic : float, default=0.01
        :math:`\gamma_I \ge 0`, penalty of differences along edges. It sums over edges, so its effect grows with the
        number of neighbors. With 0, unlabeled samples have no effect. Search values below `gamma_ambient` too.
    n_neighbors : int, default=10
        Number of nearest neighbors that edges join each sample with (or all others, if there are fewer). The distance
        is Euclidean in the columns of `X`, so scale these; with precomputed kernels, in the feature space of their
        mean. Not used with `laplacian`.
    laplacian : array-like or sparse matrix of shape (n_samples, n_samples), default=None
        Laplacian of a graph over the training samples: symmetric, with zero row sums.
    distances : array-like of shape (n_samples, n_samples) or callable, default=None
        Distances among the training samples to find neighbors by. Like `laplacian`, an array belongs to the rows of
        one training set, so that cross-validation cannot split it. A function of `X`, which must not be precomputed
        kernels, returns such an array for every training set.
    unlabeled_label : label, default=None
        Label that marks unlabeled samples, such as -1; two other labels must remain. None: all samples are labeled,
        and -1 is an ordinary class.
    solver : {"deformed", "paper"}, default="deformed"
        "deformed" minimizes the problem above, which is convex. "paper" is its eq. (18), where all :math:`f_m` share
        one vector of coefficients: a restriction whose optimum is never lower, not convex in the weights, and for one
        kernel the same.
    p_norm : float, default=1.0
        :math:`p \ge 1`; 1 (the paper) gives few kernels weight, larger values spread it.
    tol : float, default=1e-3
        Stop when the duality gap is at most this share of the objective. "paper" has no duality gap and uses the
        decrease that the gradient predicts.
    %(max_iter)s, default=200
    %(multiclass)s
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, without `unlabeled_label`. With more than two, attributes marked * get a leading axis of length
        n_classes, except `kernel_weights_` and the history under ``multiclass="shared"``.
    transduction_ : ndarray of shape (n_samples,)
        Labels of all training samples: the given labels, and predictions for unlabeled samples.
    kernel_weights_ : ndarray of shape (n_kernels,) *
        :math:`d`.
    dual_coef_ : ndarray of shape (n_kernels, n_samples) or (n_samples,) *
        Coefficients over all training samples, one vector for each kernel ("deformed": :math:`f_m = K_m \alpha_m`) or
        for all ("paper": :math:`f_m = K_m \alpha`).
    %(intercept_)s *
    laplacian_ : ndarray or csr_array of shape (n_samples, n_samples)
        Laplacian of the graph, sparse where at most a tenth of its entries differ from zero.
    support_ : ndarray of shape (n_support,)
        Positions of labeled samples with a loss (of any class).
    support_fraction_ : float
        Their share of the labeled samples.
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) *
        The objective above, or eq. (18), at the weights of every step.
    duality_gap_ : float *
        Of the objective; NaN for "paper".
    %(n_iter_, n_solves_)s *
    %(outcome_)s *
    converged_ : bool
        Whether `tol` was reached everywhere.
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    glks_transduce : Label the samples of a graph through a combination of graphs.

    Notes
    -----
    "deformed" factorizes one matrix per kernel, :math:`O(P n^3)` once for all classes and steps, and then trains on
    the labeled samples alone, :math:`O(P l^2 + l^3)` per step. "paper" factorizes one matrix per step, and keeps as
    many numbers again as the kernels have. The single-kernel LapSVM of [2]_ divides the loss by `l` and
    :math:`\gamma_I` by :math:`n^2`; the objective above does neither, as in [1]_.

    Departures from [1]_: the loss is that of labeled samples only (the sums of eq. (15) and (18) run over all);
    weights follow spectral projected gradients of the minimized objective.

    References
    ----------
    .. [1] Z. Hao, G. Yuan, X. Yang and Z. Chen (2012), A primal method for multiple kernel learning, Neural Computing
       and Applications, section 4.
    .. [2] S. Melacci and M. Belkin (2011), Laplacian support vector machines trained in the primal, JMLR 12.

    Examples
    --------
    Two moons with two labels each:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import LapMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = make_moons(100, noise=0.05, random_state=0)
    >>> partly = np.full(100, -1)
    >>> for label in (0, 1):
    ...     partly[np.flatnonzero(y == label)[:2]] = label
    >>> bank = KernelBank([Gaussian(width=0.3), Gaussian(width=1), Gaussian(width=3)])
    >>> model = LapMKLClassifier(bank, n_neighbors=5, unlabeled_label=-1).fit(X, partly)
    >>> print(f"{np.mean(model.transduction_ == y):.2f}")
    1.00
    >>> model.kernel_weights_.round(2)
    array([...])

    One kernel makes a LapSVM:

    >>> lapsvm = LapMKLClassifier(KernelBank(Gaussian(width=0.3)), unlabeled_label=-1, n_neighbors=5)
    >>> print(f"{np.mean(lapsvm.fit(X, partly).predict(X) == y):.2f}")
    1.00
    """

    PATH_PARAMETER = "gamma_ambient"
    _LABELS = ("unlabeled_label",)

    _takes_sparse = False  # the graph compares samples

    gamma_ambient: float = 0.01
    gamma_intrinsic: float = 0.01
    n_neighbors: int = 10
    laplacian: ArrayLike | sparse.sparray | sparse.spmatrix | None = None
    distances: ArrayLike | Callable[[np.ndarray], np.ndarray] | None = None
    unlabeled_label: Label | None = None
    solver: str = "deformed"
    p_norm: float = 1.0
    tol: float = 1e-3
    max_iter: int = 200
    multiclass: str = "one-versus-rest"
    verbose: int = 1

    def fit(self, X: Samples, y: Targets) -> LapMKLClassifier:
        """Learn kernel weights and classifier from labeled and unlabeled samples.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            All samples, labeled or not. With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples,)
            Labels of at least two classes, and `unlabeled_label` for samples without.

        Returns
        -------
        self : LapMKLClassifier
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:y)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._check_parameters()  # first: a mistake in them costs no time
        refuse_missing_labels(
            y,
            "a label or a mark",
            "Write a mark, such as -1, in their place and pass `unlabeled_label=-1`.",
        )
        stack, y = self._fit_stack(X, y)
        check_above_rounding("gamma_ambient", self.gamma_ambient, stack)
        split = split_labels(y, self.unlabeled_label)
        self.classes_ = split.classes
        self.laplacian_ = self._laplacian(stack)
        graph = primalmkl.Graph(self.laplacian_, split.labeled, *self._gammas())
        self._fit_tasks(
            (primalmkl.share if self.solver == "paper" else primalmkl.deform)(stack, graph), split.targets
        )
        self._store_training(stack, split)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options(), self._gammas()
        check_choice("solver", self.solver, LAPMKL_SOLVERS)
        check_integer("n_neighbors", self.n_neighbors, low=1)
        if self.laplacian is not None and self.distances is not None:
            raise ValueError("`laplacian` and `distances` both define the graph; give one of them.")

    def _gammas(self) -> tuple[float, float]:
        return (
            check_scale("gamma_ambient", self.gamma_ambient),
            check_scale("gamma_intrinsic", self.gamma_intrinsic, zero=True),
        )

    def _options(self) -> primalmkl.LapMKLOptions:
        return primalmkl.LapMKLOptions(
            p_norm=check_number("p_norm", self.p_norm, low=1.0, inclusive=True),
            tol=check_number("tol", self.tol, low=0.0, inclusive=True),
            max_iter=check_integer("max_iter", self.max_iter, low=1),
        )

    def _learn(self, stack: Any, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep) -> MKLResult:
        """Learn from kernels with their graph (what `deform` or `share` returned) in place of a plain stack."""
        return primalmkl.fit_lapmkl(stack, targets, self._options(), start, on_step)

    def _laplacian(self, stack: Stack) -> Any:
        """Return the graph: the given one, or nearest neighbors by given distances, features or kernels."""
        if self.laplacian is not None:
            return check_laplacian(self.laplacian, stack.n_train)
        if self.distances is not None:
            distances = check_distances("distances", self._distances())
            if distances.shape != (stack.n_train, stack.n_train):
                raise ValueError(
                    f"`distances` must be those among the {stack.n_train} training samples, of shape "
                    f"({stack.n_train}, {stack.n_train}); got {distances.shape}."
                )
            return knn_laplacian(distances, int(self.n_neighbors), metric="precomputed")
        if self.kernel_bank_ is not None:
            return knn_laplacian(self._features(), int(self.n_neighbors))
        mean = stack.combine(np.full(stack.n_kernels, 1.0 / stack.n_kernels))
        return knn_laplacian(squared_kernel_distances(mean), int(self.n_neighbors), metric="precomputed")

    def _distances(self) -> Any:
        if not callable(self.distances):
            return self.distances
        if self.kernel_bank_ is None:
            raise ValueError(
                "`distances` cannot be a function with precomputed kernels, which have no features. Pass an array."
            )
        return self.distances(self._features())

    def _features(self) -> np.ndarray:
        """Return training samples as points, which categories are not."""
        bank: Any = self.kernel_bank_
        if bank.column_plan_ is not None:
            every, remedy = range(bank.n_features_in_), "Pass a `laplacian` or `distances`."
            bank.column_plan_.refuse(every, "columns of a graph of neighbors", ["yes or no"], remedy)
        return bank.X_train_

    def _store_training(self, stack: Stack, split: LabelSplit) -> None:
        """Set the fitted attributes that depend on scores of the training samples."""
        scores = self._scores_of(stack)
        self.transduction_ = split.transduce(scores.T)
        lossy = (split.targets * scores[:, split.labeled] < 1.0).any(axis=0)
        self.support_ = split.labeled[lossy]
        self.support_fraction_ = len(self.support_) / len(split.labeled)

    def _scores_of(self, stack: Stack, used: np.ndarray | slice = slice(None)) -> np.ndarray:
        if self.solver == "paper":
            return super()._scores_of(stack, used)
        dual = self.dual_coef_.reshape(-1, self.n_kernels_in_, stack.n_train)[:, used]
        weights = np.broadcast_to(np.atleast_2d(self.kernel_weights_)[:, used], dual.shape[:2])
        scores = [w @ stack.apply(alpha[:, :, None]) for w, alpha in zip(weights, dual, strict=True)]
        return np.stack(scores) + np.atleast_1d(self.intercept_)[:, None]
