"""Kernel weights and SVM by one objective: presets of the rules, and MWUMKL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer, check_scale
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier
from bayesmkl.discriminative.estimators.checked import check_below_one
from bayesmkl.discriminative.estimators.mkl import ClassifierParameters, RegressorParameters
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.global_weights.gmkl import GMKL
from bayesmkl.discriminative.global_weights.joint import SILP, SMO, Lp, Simple
from bayesmkl.discriminative.global_weights.mwumkl import MWUOptions, fit_mwumkl
from bayesmkl.discriminative.problems import MKLResult, OnStep
from bayesmkl.discriminative.weights import Training


@fill_docs(CLASSIFIER, Simple)
@dataclass(eq=False, repr=False, kw_only=True)
class SimpleMKLClassifier(ClassifierParameters):
    r"""SimpleMKL: the convex combination of kernels with the best soft margin.

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, 1 - y_i \big(\textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle + b\big)\Big)

    The constraint makes weights sparse [1]_: few kernels are kept.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(verbose)s
    %(Simple.solver)s
    %(Simple.tol)s
    %(Simple.max_iter)s

    Attributes
    ----------
    %(classes_)s
    %(kernel_weights_:sparse)s +
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective :math:`J` after every step; never rises with "reduced-gradient", may do so for a while with "spg".
    %(duality_gap_)s +
    %(n_iter_, n_solves_)s +
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
    LpMKLClassifier : Weights that are not sparse; with ``p_norm=1`` the same problem.
    SimpleMKLRegressor : The same for a real-valued target.

    Notes
    -----
    The page *Optimized weights* maps equations to functions and lists departures. Kernels of larger
    trace are preferred: normalize them (a bank does). Kernels that are equal share their weight in any way.

    A step reads the kernels whose weight moved and, of the others, the entries between support vectors; memory is
    that of the stack plus at most a quarter of it. The first step is one pass over all :math:`P N^2` entries.

    References
    ----------
    .. [1] A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet (2008), SimpleMKL, JMLR 9.
    .. [2] E. G. Birgin, J. M. Martínez and M. Raydan (2000), Nonmonotone spectral projected gradient methods on
       convex sets, SIAM J. Optim. 10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SimpleMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views="each")
    >>> model = SimpleMKLClassifier(bank).fit(X[50:], y[50:])
    >>> for name, weight in zip(model.kernel_names_, model.kernel_weights_):
    ...     if weight > 0.01:
    ...         print(f"{name}: {weight:.1f}")
    gaussian(width=1) · x2: 0.5
    gaussian(width=1) · x3: 0.5
    >>> path = model.path(X[50:], y[50:], C_values=[0.1, 1.0, 10.0])
    >>> path.kernel_weights.shape
    (3, 8)
    """

    RULE = Simple

    solver: str = "spg"
    tol: float = 1e-3
    max_iter: int = 1000


@fill_docs(REGRESSOR, Simple, SimpleMKLClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class SimpleMKLRegressor(RegressorParameters):
    r"""SimpleMKL for a real-valued target.

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, \big|y_i - \textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle - b\big| - \epsilon\Big)

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(epsilon)s
    %(verbose)s
    %(Simple.solver)s
    %(Simple.tol)s
    %(Simple.max_iter)s

    Attributes
    ----------
    %(SimpleMKLClassifier.kernel_weights_)s
    %(dual_coef_)s
    %(intercept_)s
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(SimpleMKLClassifier.objective_history_)s
    %(duality_gap_)s
    %(n_iter_, n_solves_)s
    %(outcome_)s
    %(converged_)s
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    SimpleMKLClassifier : The same for classes, with notes on the algorithm.

    References
    ----------
    .. [1] A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet (2008), SimpleMKL, JMLR 9, §5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SimpleMKLRegressor
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(80, 3))
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> model = SimpleMKLRegressor(bank, C=10).fit(X, np.sin(X[:, 1]))
    >>> model.kernel_weights_.round(1)
    array([0., 1., 0.])
    """

    RULE = Simple

    solver: str = "spg"
    tol: float = 1e-3
    max_iter: int = 1000


@fill_docs(CLASSIFIER, SILP)
@dataclass(eq=False, repr=False, kw_only=True)
class SILPMKLClassifier(ClassifierParameters):
    r"""SimpleMKL's problem as a semi-infinite linear program, solved by cutting planes.

    .. math:: \max_{\theta,\, \beta \ge 0,\, \sum_m \beta_m = 1} \; \theta \quad\text{subject to}\quad
       \sum_m \beta_m \Big(\tfrac12 v^\top K_m v - \sum_i \alpha_i\Big) \ge \theta
       \;\text{ for all }\; 0 \le \alpha \le C,\; y^\top \alpha = 0, \qquad v = \alpha \circ y

    An SVM finds the constraint that the current weights violate most, and a linear program finds the next weights
    [1]_. The optimum is the same as for SimpleMKL.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(verbose)s
    %(SILP.tol)s
    %(SILP.max_iter)s

    Attributes
    ----------
    %(classes_)s
    %(kernel_weights_:sparse)s +
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective of the best weights after every step; it never rises.
    %(duality_gap_)s +
    %(n_iter_, n_solves_)s +
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
    SimpleMKLClassifier : The same optimum by gradients, with fewer iterations for high accuracy.

    Notes
    -----
    The page *SILP* maps equations to functions and lists departures. Weights jump between corners of the simplex
    until there are enough constraints, so a low `max_iter` may end far from the optimum; `duality_gap_` shows how
    far. Equal kernels share their weight arbitrarily. An iteration takes one SVM (one per class with
    ``multiclass="shared"``), one pass over the kernels, and a linear program with `n_kernels` unknowns and one
    constraint per iteration so far.

    References
    ----------
    .. [1] S. Sonnenburg, G. Rätsch, C. Schäfer and B. Schölkopf (2006), Large scale multiple kernel learning, JMLR 7.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SILPMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views="each")
    >>> model = SILPMKLClassifier(bank).fit(X[50:], y[50:])
    >>> for name, weight in zip(model.kernel_names_, model.kernel_weights_):
    ...     if weight > 0.01:
    ...         print(f"{name}: {weight:.1f}")
    gaussian(width=1) · x2: 0.5
    gaussian(width=1) · x3: 0.5
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_history_[-1])
    True
    """

    RULE = SILP

    tol: float = 1e-3
    max_iter: int = 1000


@fill_docs(CLASSIFIER, Lp)
@dataclass(eq=False, repr=False, kw_only=True)
class LpMKLClassifier(ClassifierParameters):
    r"""Multiple kernel learning with weights in an lp ball.

    .. math:: \min_{d \ge 0,\, \|d\|_p \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, 1 - y_i \big(\textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle + b\big)\Big)

    Larger `p` gives weights that are more equal [1]_.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(verbose)s
    %(Lp.p_norm)s
    %(Lp.tol)s
    %(Lp.max_iter)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Positive weights of norm :math:`\|d\|_p = 1`; they do not sum to one.
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(objective_history_)s +
    %(duality_gap_)s +
    %(n_iter_, n_solves_)s +
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
    SimpleMKLClassifier : ``p_norm=1`` by methods that set weights to zero exactly.
    SMOMKLClassifier : The squared norm as a penalty instead of a bound.
    UniformMKLClassifier : The limit of large `p_norm`, up to a factor of `C`.

    Notes
    -----
    The page *Optimized weights* maps equations to functions. SVM and closed-form weight updates alternate. A
    step is one pass over the :math:`P N^2` entries of all kernels, as none has weight zero. Few steps suffice for
    :math:`p \ge 4/3`; at ``p_norm=1`` weights on their way to zero are slow, and the duality gap falls like one over
    the number of steps.

    The combined kernel grows with the number of kernels, up to :math:`P^{1 - 1/p}` times a single one: the same `C`
    means less regularization at larger `p_norm`.

    References
    ----------
    .. [1] M. Kloft, U. Brefeld, S. Sonnenburg and A. Zien (2011), lp-norm multiple kernel learning, JMLR 12.
    .. [2] Z. Xu, R. Jin, H. Yang, I. King and M. R. Lyu (2010), Simple and efficient multiple kernel learning by
       group lasso, ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import LpMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> sharp, even = (LpMKLClassifier(bank, p_norm=p).fit(X[50:], y[50:]).kernel_weights_ for p in (1.1, 8))
    >>> print(sharp.min() / sharp.max() < 0.1, even.min() / even.max() > 0.5)
    True True
    """

    RULE = Lp

    p_norm: float = 2.0
    tol: float = 1e-3
    max_iter: int = 1000


@fill_docs(REGRESSOR, Lp, LpMKLClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class LpMKLRegressor(RegressorParameters):
    r"""Multiple kernel learning with weights in an lp ball, for a real-valued target.

    .. math:: \min_{d \ge 0,\, \|d\|_p \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, \big|y_i - \textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle - b\big| - \epsilon\Big)

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(epsilon)s
    %(verbose)s
    %(Lp.p_norm)s
    %(Lp.tol)s
    %(Lp.max_iter)s

    Attributes
    ----------
    %(LpMKLClassifier.kernel_weights_)s
    %(dual_coef_)s
    %(intercept_)s
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(objective_history_)s
    %(duality_gap_)s
    %(n_iter_, n_solves_)s
    %(outcome_)s
    %(converged_)s
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    LpMKLClassifier : The same for classes, with notes on the algorithm.

    References
    ----------
    .. [1] M. Kloft, U. Brefeld, S. Sonnenburg and A. Zien (2011), lp-norm multiple kernel learning, JMLR 12.
    .. [2] Z. Xu, R. Jin, H. Yang, I. King and M. R. Lyu (2010), Simple and efficient multiple kernel learning by
       group lasso, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import LpMKLRegressor
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(80, 3))
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> model = LpMKLRegressor(bank, C=10).fit(X, np.sin(X[:, 1]))
    >>> int(model.kernel_weights_.argmax()), model.score(X, np.sin(X[:, 1])) > 0.95
    (1, True)
    """

    RULE = Lp

    p_norm: float = 2.0
    tol: float = 1e-3
    max_iter: int = 1000


@fill_docs(CLASSIFIER, GMKL)
@dataclass(eq=False, repr=False, kw_only=True)
class GMKLClassifier(ClassifierParameters):
    r"""Generalized multiple kernel learning: sums or products of kernels, with any regularizer.

    .. math:: \min_{d \ge 0} \; r(d) + \min_{w, b} \; \tfrac12 \|w\|^2
       + C \sum_i \max(0, 1 - y_i f(x_i)) \quad\text{with}\quad
       K(d) = \sum_m d_m K_m \;\text{ or }\; K(d)_{ij} = \prod_m (K_m)_{ij}^{d_m}

    A product of Gaussian kernels of single features (``views="each"``) learns a width for each of them [1]_.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(verbose)s
    %(GMKL.regularizer)s
    %(GMKL.combination)s
    %(GMKL.solver)s
    %(GMKL.tol)s
    %(GMKL.max_iter)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights :math:`d \ge 0`; on the simplex with "uniform".
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective after every step; never rises with "pg".
    duality_gap_ : float +
        Primal minus dual value of a sum with "l1" or "uniform"; NaN otherwise, where no dual is known.
    %(n_iter_, n_solves_)s +
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
    SimpleMKLClassifier : A bound on the sum of the weights instead of a penalty.

    Notes
    -----
    The page *Optimized weights* maps equations to functions. Sums are convex problems if the regularizer is
    convex. Products are not: what is found is a stationary point below the start at equal weights. Their loop stops
    when the objective changes by less than `tol`, to first order, as all weights move by their own size. It can
    be slow; raise `tol` if a warning says so. Powers of a kernel need not be positive semidefinite; those of Gaussian
    and Laplacian kernels are.

    Products hold the logarithms of all kernels, another :math:`8 P N^2` bytes.

    References
    ----------
    .. [1] M. Varma and B. R. Babu (2009), More generality in efficient multiple kernel learning, ICML.
    .. [2] A. Jain, S. V. N. Vishwanathan and M. Varma (2012), SPG-GMKL: generalized multiple kernel learning with a
       million kernels, KDD.
    .. [3] P. Wang, D. Cai, G. Zhang, Y. Bai, F. Cai and T. Zhang (2014), Empirical optimal kernel for convex multiple
       kernel learning.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import GMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> y = X[:, 0] * X[:, 1] > 0                                    # no feature says anything alone
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> model = GMKLClassifier(bank, combination="product", regularizer="uniform").fit(X, y)
    >>> model.kernel_weights_.round(1)
    array([0.5, 0.5, 0. , 0. ])
    """

    RULE = GMKL

    regularizer: str | Callable[[np.ndarray], tuple[float, np.ndarray]] = "l1"
    combination: str = "sum"
    solver: str = "spg"
    tol: float = 1e-3
    max_iter: int = 1000


@fill_docs(CLASSIFIER, SMO)
@dataclass(eq=False, repr=False, kw_only=True)
class SMOMKLClassifier(ClassifierParameters):
    r"""Multiple kernel learning with the squared lp norm of the weights, or a divergence, as a penalty.

    .. math:: \min_{d \ge 0} \; \lambda\, r(d) + \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, 1 - y_i \big(\textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle + b\big)\Big)

    The problem that SMO-MKL solves [1]_, with :math:`r(d) = \|d\|_p^2 / 2`, or the divergence
    :math:`\sum_m d_m \log (P d_m) - d_m + 1 / P` from equal weights: its dual is differentiable, and the weights find
    their own scale.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(verbose)s
    %(SMO.reg_weights)s
    %(SMO.p_norm)s
    %(SMO.regularizer)s
    %(SMO.tol)s
    %(SMO.max_iter)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Positive weights; their scale depends on `reg_weights` and `C`.
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(objective_history_)s +
    %(duality_gap_)s +
    %(n_iter_, n_solves_)s +
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
    LpMKLClassifier : The norm as a bound: for every `reg_weights` there is a `C` that gives the same function.

    Notes
    -----
    The page *Optimized weights* maps equations to functions. The problem is the paper's, the solver is not:
    SVM and closed-form weight updates alternate, which descends, and ends where primal and dual meet. A step is one
    pass over all :math:`P N^2` entries.

    References
    ----------
    .. [1] S. V. N. Vishwanathan, Z. Sun, N. Theera-Ampornpunt and M. Varma (2010), Multiple kernel learning and the
       SMO algorithm, NIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SMOMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> model = SMOMKLClassifier(bank, p_norm=1.5).fit(X[50:], y[50:])
    >>> print(model.kernel_weights_.argmax(), model.duality_gap_ < 1e-3 * model.objective_history_[-1])
    2 True
    """

    RULE = SMO

    reg_weights: float = 1.0
    p_norm: float = 2.0
    regularizer: str = "norm"
    tol: float = 1e-3
    max_iter: int = 1000


@fill_docs(CLASSIFIER)
@dataclass(eq=False, repr=False, kw_only=True)
class MWUMKLClassifier(DiscriminativeClassifier):
    r"""Multiple kernel learning by multiplicative weights, in memory linear in the number of samples.

    .. math:: \min_{d, w, b}\; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + \tfrac{C}{2} \sum_i \max(0, 1 - y_i f(x_i))^2 , \qquad d \ge 0,\ \sum_m r_m d_m = 1 ,

    with :math:`f(x) = \sum_m \langle w_m, \phi_m(x) \rangle + b` and :math:`r_m` the mean of the diagonal of kernel
    `m` (one for a bank with unit self-similarities). With a bank, single columns of the kernels are evaluated when
    the algorithm [1]_ asks for them: it needs :math:`O(PN)` memory for `P` kernels and `N` samples, where other
    methods need :math:`O(PN^2)`.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
        "clip" evaluates all kernels in full.
    %(kernel_names)s
    C : float, default=1.0
        Factor of the squared hinge loss.
    epsilon : float, default=0.05
        Accuracy, between 0 and 1. The number of steps grows as its inverse square at worst.
    stopping : {"gap", "paper"}, default="gap"
        "gap" stops when the duality gap is at most `epsilon` times the objective. "paper" makes
        :math:`\lceil 2 \ln N / \epsilon^2 \rceil` steps at a constant rate, after which the distance of the hulls is
        known up to `epsilon` times its largest possible value.
    max_iter : int, default=50000
        Maximum number of iterations. One takes two columns of every kernel.
    %(multiclass)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights :math:`d_m`.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual coefficients of all training samples.
    %(intercept_)s *
    %(support_:coefficients)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Least primal value after every step.
    %(duality_gap_)s +
    n_iter_, n_solves_ : int +
        Steps.
    outcome_ : Outcome +
        How the iteration ended.
    converged_ : bool
        Whether the accuracy was reached everywhere.
    n_columns_ : int
        Columns that were evaluated, in each of the kernels. With a bank only.
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(clipping_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    PrimalMKLClassifier : The same problem, solved to high accuracy from kernels in memory.

    Notes
    -----
    ``bayesmkl.discriminative.global_weights.mwumkl`` lists where this departs from the paper. The paper scales
    kernels to trace one; its `C` is :math:`N` times this one.

    A bank with callables or other kernels that may be indefinite is tested on the kernels among 200 samples, not on
    whole kernels. Predictions work in blocks of rows.
    :class:`~bayesmkl.kernels.FromDistance` with a scale to learn takes all distances of the training samples at once.

    References
    ----------
    .. [1] J. Moeller, P. Raman, S. Venkatasubramanian and A. Saha (2014), A geometric algorithm for scalable multiple
       kernel learning, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import MWUMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.abs(X[:, 0]) > 0.7                                    # the second column says nothing
    >>> model = MWUMKLClassifier(KernelBank(Gaussian(width=1), views="each"), C=10.0).fit(X, y)
    >>> print(model.kernel_weights_.round(2), model.score(X, y) > 0.95, model.n_columns_ < 400)
    [...] True True
    """

    C: float = 1.0
    epsilon: float = 0.05
    stopping: str = "gap"
    max_iter: int = 50_000
    multiclass: str = "one-versus-rest"
    verbose: int = 1

    def _options(self) -> MWUOptions:
        return MWUOptions(
            C=check_scale("C", self.C),
            epsilon=check_below_one("epsilon", self.epsilon, "a share of the objective", 0.05),
            stopping=check_choice("stopping", self.stopping, ("gap", "paper")),
            max_iter=check_integer("max_iter", self.max_iter, low=1),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options()

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Fit the bank, and return columns that are evaluated on demand."""
        if self._holds_kernels():
            return super()._fit_stack(X, y, **check_y)
        return self._fit_columns(X, y, **check_y)

    def _holds_kernels(self) -> bool:
        return self._is_precomputed() or self.indefinite == "clip"

    def _fit_tasks(self, training: Any, targets: np.ndarray, start: np.ndarray | None = None) -> None:
        super()._fit_tasks(training, targets, start)
        if not self._holds_kernels():
            self.n_columns_ = training.stack.n_evaluated

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        return fit_mwumkl(training.stack, targets, self._options(), on_step)

    def _warn_unless_converged(self, results: Sequence[MKLResult]) -> None:
        unfinished = [result for result in results if not result.outcome.converged]
        if not unfinished:
            return
        gap = max(result.duality_gap / result.objective_history[-1] for result in unfinished)
        if all(result.outcome is Outcome.MAX_ITER for result in unfinished):
            message = (
                f"stopped after max_iter={self.max_iter} steps with a relative duality gap of {gap:.1e}, "
                f'epsilon={self.epsilon:g} (stopping="{self.stopping}"). Increase `max_iter` or `epsilon`.'
            )
        else:
            message = (
                "met a dual value above a primal one, which only kernels that are not positive semidefinite allow. "
                'Leave such kernels out, or use `indefinite="clip"`.'
            )
        warn_user(f"{type(self).__name__} {message}", ConvergenceWarning)
