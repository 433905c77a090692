"""Uniform kernel weights as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.validation import check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    DiscriminativeRegressor,
    OnStep,
)
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.global_weights.uniform import fit_uniform
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge, spread_of
from bayesmkl.kernels.stacks.base import StoredStack

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


__all__ = ["UniformMKLClassifier", "UniformMKLRegressor"]


class UniformMKLClassifier(DiscriminativeClassifier):
    r"""Support vector machine on the mean of all kernels.

    .. math:: K = \frac1P \sum_{m=1}^P K_m, \qquad
       \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i f(x_i))

    The baseline that multiple kernel learning has to beat, and often does not [1]_.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=1.0
        Regularization parameter, :math:`C > 0`: penalty of margin violations.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, `dual_coef_` and `intercept_` get a leading axis of length n_classes.
    kernel_weights_ : ndarray of shape (n_kernels,)
        :math:`1/P` each.
    dual_coef_ : ndarray of shape (n_samples,), or (n_classes, n_samples) for more than two
        Signed dual :math:`\alpha_i y_i`, zero off the support.
    intercept_ : float, or ndarray of shape (n_classes,)
        :math:`b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors (of any class).
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels whose weight exceeds 1e-6 of the largest (for any class).
    objective_history_ : ndarray of shape (n_iter_,)
        One entry, the objective of the trained SVM(s).
    duality_gap_ : float
        NaN: the weights solve no optimization problem.
    n_iter_, n_solves_ : int
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome
        Stopping reason of the optimization of the weights.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : object or None
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
    BestKernelClassifier : One kernel instead of all.
    UniformMKLRegressor : The same for a real-valued target.

    Notes
    -----
    One SVM costs what an SVC on the averaged kernel costs. The mean instead of the sum only rescales `C`. The
    method is called RBMKL in [1]_. With more than two classes, one SVM per class.

    References
    ----------
    .. [1] M. Gönen and E. Alpaydın (2011), Multiple kernel learning algorithms, JMLR 12.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import UniformMKLClassifier
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X, y = load_iris(return_X_y=True)
    >>> model = UniformMKLClassifier(KernelBank([Gaussian(width=1), Linear()]), C=10).fit(X, y)
    >>> print(f"{model.score(X, y):.2f}, {len(model.support_)} support vectors")
    0.9..., ... support vectors
    """

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        tol: float = 1e-3,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.tol = tol
        self.indefinite = indefinite
        self.kernel_names = kernel_names

    def _shares_weights(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scale("C", self.C)
        check_number("tol", self.tol, low=0.0)

    def _learn(
        self, stack: StoredStack, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        return fit_uniform(stack, targets, Hinge(float(self.C)), float(self.tol))


class UniformMKLRegressor(DiscriminativeRegressor):
    r"""Support vector regression on the mean of all kernels.

    .. math:: K = \frac1P \sum_{m=1}^P K_m, \qquad
       \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i \max(0, |y_i - f(x_i)| - \epsilon)

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
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions in standard deviations of the target.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        :math:`1/P` each.
    dual_coef_ : ndarray of shape (n_samples,)
        Coefficients of the training samples, zero off the support.
    intercept_ : float
        :math:`b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors.
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels whose weight exceeds 1e-6 of the largest.
    objective_history_ : ndarray of shape (n_iter_,)
        One entry, the objective of the trained SVM.
    duality_gap_ : float
        NaN: the weights solve no optimization problem.
    n_iter_, n_solves_ : int
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome
        Stopping reason of the optimization of the weights.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : object or None
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
    UniformMKLClassifier : The same for labels.

    References
    ----------
    M. Gönen and E. Alpaydın (2011), Multiple kernel learning algorithms, JMLR 12.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import UniformMKLRegressor
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = UniformMKLRegressor(KernelBank([Gaussian(width=s) for s in (0.5, 1, 2)]), C=10, epsilon=0.05)
    >>> bool(np.abs(model.fit(X, y).predict(X) - y).max() < 0.06)
    True
    """

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float | None = None,
        epsilon: float | None = None,
        tol: float = 1e-3,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.indefinite = indefinite
        self.kernel_names = kernel_names

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_tube(self.C, self.epsilon)
        check_number("tol", self.tol, low=0.0)

    def _learn(
        self, stack: StoredStack, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_tube(self.C, self.epsilon)
        return fit_uniform(stack, targets, inner, float(self.tol) * spread_of(targets))
