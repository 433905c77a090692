"""Kernel weights and SVM by one objective: presets of the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.discriminative.estimators.mkl import (
    ClassifierParameters,
    RegressorParameters,
)
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.global_weights.gmkl import GMKL
from bayesmkl.discriminative.global_weights.lpmkl import SMO, Lp
from bayesmkl.discriminative.global_weights.simplemkl import SILP, Simple

if TYPE_CHECKING:
    pass


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
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
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
    %(C)s
    %(epsilon)s
    %(indefinite)s
    %(kernel_names)s
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

    An SVM finds the constraint that the present weights violate most, a linear program finds the next weights [1]_.
    The optimum is that of SimpleMKL.

    Parameters
    ----------
    %(kernels)s
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
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
    SimpleMKLClassifier : The same optimum by gradients, with fewer iterations where much accuracy is asked for.

    Notes
    -----
    The page *SILP* maps equations to functions and lists departures. Weights jump between corners of the simplex
    until there are enough constraints, so that a low `max_iter` may end far from the optimum; `duality_gap_` says how
    far. Kernels that are equal share their weight in any way. An iteration takes one SVM (one per class with
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
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
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
    %(C)s
    %(epsilon)s
    %(indefinite)s
    %(kernel_names)s
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
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
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
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
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
        Positive weights, of a scale that `reg_weights` and `C` decide.
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
