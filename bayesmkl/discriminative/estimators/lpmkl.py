"""Multiple kernel learning under an lp norm as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.validation import check_number
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, DiscriminativeRegressor, OnStep
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.estimators.optimizing import check_hinge, check_stopping
from bayesmkl.discriminative.estimators.path import path_over_C
from bayesmkl.discriminative.global_weights.lpmkl import LpMKLOptions, fit_lpmkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.kernels.stacks.base import StoredStack

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative
    from bayesmkl.kernels.bank import KernelBank


__all__ = ["LpMKLClassifier", "LpMKLRegressor"]


def _options(model: BaseDiscriminative) -> LpMKLOptions:
    return LpMKLOptions(
        check_number("p_norm", model.p_norm, low=1.0, inclusive=True), **check_stopping(model)
    )


class LpMKLClassifier(DiscriminativeClassifier):
    r"""Multiple kernel learning with weights in an lp ball.

    .. math:: \min_{d \ge 0,\, \|d\|_p \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, 1 - y_i \big(\textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle + b\big)\Big)

    Larger `p` gives weights that are more equal [1]_.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=1.0
        Regularization parameter, :math:`C > 0`: penalty of margin violations.
    p_norm : float, default=2.0
        :math:`p \ge 1`. Weights are sparse at 1 (SimpleMKL's problem; called GLMKL in this form [2]_) and equal for
        large values.
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        Of more than two classes: kernel weights of its own for every class against the rest, or one set for all.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, attributes marked * have a leading axis of length n_classes (or are tuples), those
        marked + only with ``multiclass="one-versus-rest"``.
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Positive weights of norm :math:`\|d\|_p = 1`; they do not sum to one.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual :math:`\alpha_i y_i`, zero off the support.
    intercept_ : float *
        The intercept `b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors, in any class.
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels with a weight above 1e-6 of the largest, in any class.
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective after every step; it never rises.
    duality_gap_ : float +
        Primal minus dual value, a bound of the distance from the optimum.
    n_iter_, n_solves_ : int +
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome +
        Stopping reason of the optimization of the weights.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : Clipping or None
        Clipping of indefinite kernels.
    kernel_names_ : ndarray of shape (n_kernels,)
        Names of the kernels.
    n_kernels_in_ : int
        Number of kernels.
    kernel_bank_ : KernelBank or None
        The fitted bank.
    n_features_in_ : int
        Number of features, or of training samples with precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, where `X` had them.

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
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_hinge(self.C), _options(self)

    def _learn(
        self, stack: StoredStack, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        return fit_lpmkl(stack, targets, check_hinge(self.C), _options(self), start, on_step)


class LpMKLRegressor(DiscriminativeRegressor):
    r"""Multiple kernel learning with weights in an lp ball, for a real-valued target.

    .. math:: \min_{d \ge 0,\, \|d\|_p \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, \big|y_i - \textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle - b\big| - \epsilon\Big)

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=None
        Penalty of deviations beyond `epsilon`, :math:`C > 0`, in units of the target for kernels of about unit
        self-similarity. None: its standard deviation, so that its unit and origin do not matter.
    epsilon : float, default=None
        Deviations up to this cost nothing, in units of the target. None: a tenth of its standard deviation.
    p_norm : float, default=2.0
        :math:`p \ge 1`. Weights are sparse at 1 (SimpleMKL's problem; called GLMKL in this form [2]_) and equal for
        large values.
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        Positive weights of norm :math:`\|d\|_p = 1`; they do not sum to one.
    dual_coef_ : ndarray of shape (n_samples,)
        Coefficients of the training samples, zero off the support.
    intercept_ : float
        The intercept `b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors.
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels with a weight above 1e-6 of the largest.
    objective_history_ : ndarray of shape (n_iter_,)
        Objective after every step; it never rises.
    duality_gap_ : float
        Primal minus dual value, a bound of the distance from the optimum.
    n_iter_, n_solves_ : int
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome
        Stopping reason of the optimization of the weights.
    converged_ : bool
        Whether it reached its tolerance.
    clipping_ : Clipping or None
        Clipping of indefinite kernels.
    kernel_names_ : ndarray of shape (n_kernels,)
        Names of the kernels.
    n_kernels_in_ : int
        Number of kernels.
    kernel_bank_ : KernelBank or None
        The fitted bank.
    n_features_in_ : int
        Number of features, or of training samples with precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, where `X` had them.

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
        self, stack: StoredStack, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        return fit_lpmkl(stack, targets, check_tube(self.C, self.epsilon), _options(self), start, on_step)
