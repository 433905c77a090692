"""The problem of SMO-MKL as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_choice, check_number, check_scale
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, OnStep
from bayesmkl.discriminative.estimators.checked import check_hinge, check_stopping
from bayesmkl.discriminative.estimators.path import path_over_C
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes
from bayesmkl.discriminative.global_weights.smomkl import SMOMKLOptions, fit_smomkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
class SMOMKLClassifier(DiscriminativeClassifier):
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
    reg_weights : float, default=1.0
        :math:`\lambda > 0`, penalty of the weights.
    p_norm : float, default=2.0
        :math:`p > 1`, of the norm. Closer to one, weights are closer to sparse.
    regularizer : {"norm", "divergence"}, default="norm"
        :math:`r`. Under the divergence no weight is below 1 / P, that of a kernel which the labels say nothing of.
    %(tol)s
    %(max_iter)s, default=1000
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
    %(verbose)s

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

    fit = fit_weighted_classes
    path = path_over_C

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        reg_weights: float = 1.0,
        p_norm: float = 2.0,
        regularizer: str = "norm",
        tol: float = 1e-3,
        max_iter: int = 1000,
        multiclass: str = "one-versus-rest",
        class_weight: Mapping[Any, float] | str | None = None,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.reg_weights = reg_weights
        self.p_norm = p_norm
        self.regularizer = regularizer
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_hinge(self.C), self._options()

    def _options(self) -> SMOMKLOptions:
        return SMOMKLOptions(
            check_number("p_norm", self.p_norm, low=1.0),
            check_scale("reg_weights", self.reg_weights),
            **check_stopping(self),
            regularizer=check_choice("regularizer", self.regularizer, ("norm", "divergence")),
        )

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_hinge(self.C, training.weights.costs)
        return fit_smomkl(training.stack, targets, inner, self._options(), start, on_step)
