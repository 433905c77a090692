"""Uniform kernel weights as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    DiscriminativeRegressor,
    OnStep,
)
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes, fit_weighted_target
from bayesmkl.discriminative.global_weights.uniform import fit_uniform
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge, spread_of
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
class UniformMKLClassifier(DiscriminativeClassifier):
    r"""Support vector machine on the mean of all kernels.

    .. math:: K = \frac1P \sum_{m=1}^P K_m, \qquad
       \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i f(x_i))

    The baseline that multiple kernel learning has to beat, and often does not [1]_.

    Parameters
    ----------
    %(kernels)s
    %(C)s
    %(class_weight)s
    %(tol:libsvm)s
    %(indefinite)s
    %(kernel_names)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, `dual_coef_` and `intercept_` get a leading axis of length n_classes.
    kernel_weights_ : ndarray of shape (n_kernels,)
        :math:`1/P` each.
    %(dual_coef_)s, or (n_classes, n_samples) for more than two
    %(intercept_)s, or ndarray of shape (n_classes,)
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,)
        One entry, the objective of the trained SVM(s).
    %(duality_gap_:none)s
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

    _needs_sums_alone = True
    fit = fit_weighted_classes

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        tol: float = 1e-3,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.class_weight = class_weight
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
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = Hinge(float(self.C), training.weights.costs)
        return fit_uniform(training.stack, targets, inner, float(self.tol))


@fill_docs(REGRESSOR, UniformMKLClassifier)
class UniformMKLRegressor(DiscriminativeRegressor):
    r"""Support vector regression on the mean of all kernels.

    .. math:: K = \frac1P \sum_{m=1}^P K_m, \qquad
       \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i \max(0, |y_i - f(x_i)| - \epsilon)

    Parameters
    ----------
    %(kernels)s
    %(C)s
    %(epsilon)s
    %(tol:libsvm)s
    %(indefinite)s
    %(kernel_names)s

    Attributes
    ----------
    %(UniformMKLClassifier.kernel_weights_)s
    %(dual_coef_)s
    %(intercept_)s
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,)
        One entry, the objective of the trained SVM.
    %(duality_gap_:none)s
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

    _needs_sums_alone = True
    fit = fit_weighted_target

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
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        counts = training.weights.counts
        inner = check_tube(self.C, self.epsilon, counts)
        return fit_uniform(training.stack, targets, inner, float(self.tol) * spread_of(targets[0], counts))
