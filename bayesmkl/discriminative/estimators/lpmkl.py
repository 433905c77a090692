"""Multiple kernel learning under an lp norm as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_number
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, DiscriminativeRegressor, OnStep
from bayesmkl.discriminative.estimators.checked import check_hinge, check_stopping, check_tube
from bayesmkl.discriminative.estimators.path import path_over_C
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes, fit_weighted_target
from bayesmkl.discriminative.global_weights.lpmkl import LpMKLOptions, fit_lpmkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative
    from bayesmkl.kernels.bank import KernelBank


def _options(model: BaseDiscriminative) -> LpMKLOptions:
    return LpMKLOptions(
        check_number("p_norm", model.p_norm, low=1.0, inclusive=True), **check_stopping(model)
    )


@fill_docs(CLASSIFIER)
class LpMKLClassifier(DiscriminativeClassifier):
    r"""Multiple kernel learning with weights in an lp ball.

    .. math:: \min_{d \ge 0,\, \|d\|_p \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, 1 - y_i \big(\textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle + b\big)\Big)

    Larger `p` gives weights that are more equal [1]_.

    Parameters
    ----------
    %(kernels)s
    %(C)s
    p_norm : float, default=2.0
        :math:`p \ge 1`. Weights are sparse at 1 (SimpleMKL's problem; called GLMKL in this form [2]_) and equal for
        large values.
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

    fit = fit_weighted_classes
    path = path_over_C

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        p_norm: float = 2.0,
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
        self.p_norm = p_norm
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_hinge(self.C), _options(self)

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_hinge(self.C, training.weights.costs)
        return fit_lpmkl(training.stack, targets, inner, _options(self), start, on_step)


@fill_docs(REGRESSOR, LpMKLClassifier)
class LpMKLRegressor(DiscriminativeRegressor):
    r"""Multiple kernel learning with weights in an lp ball, for a real-valued target.

    .. math:: \min_{d \ge 0,\, \|d\|_p \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, \big|y_i - \textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle - b\big| - \epsilon\Big)

    Parameters
    ----------
    %(kernels)s
    %(C)s
    %(epsilon)s
    %(LpMKLClassifier.p_norm)s
    %(tol)s
    %(max_iter)s, default=1000
    %(indefinite)s
    %(kernel_names)s
    %(verbose)s

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

    fit = fit_weighted_target
    path = path_over_C

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float | None = None,
        epsilon: float | None = None,
        p_norm: float = 2.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.epsilon = epsilon
        self.p_norm = p_norm
        self.tol = tol
        self.max_iter = max_iter
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_tube(self.C, self.epsilon), _options(self)

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_tube(self.C, self.epsilon, training.weights.costs)
        return fit_lpmkl(training.stack, targets, inner, _options(self), start, on_step)
