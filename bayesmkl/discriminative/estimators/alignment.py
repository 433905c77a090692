"""Kernel alignment followed by an SVM, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    DiscriminativeRegressor,
    OnStep,
)
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes, fit_weighted_target
from bayesmkl.discriminative.global_weights.alignment import (
    CENTERED,
    METHODS,
    WITH_GRAM,
    AlignmentOptions,
    InUnitVariance,
    fit_alignment,
)
from bayesmkl.discriminative.global_weights.two_stage import with_gram
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge, spread_of
from bayesmkl.discriminative.training import Training
from bayesmkl.kernels.alignment import centering_errors
from bayesmkl.kernels.stacks.base import StoredStack

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative
    from bayesmkl.discriminative.inner import InnerProblem
    from bayesmkl.kernels.bank import KernelBank


def _check_alignment(model: BaseDiscriminative) -> None:
    """Check the parameters that classifier and regressor have in common."""
    check_number("tol", model.tol, low=0.0)
    check_choice("method", model.method, METHODS)
    if model.C is not None:
        check_scale("C", model.C)


def _lost(errors: np.ndarray, stack: StoredStack, method: str) -> np.ndarray:
    """Add the rounding errors of the centering that the method does to those of the bank."""
    return np.maximum(errors, centering_errors(stack)) if method in CENTERED else errors


def _align(
    model: BaseDiscriminative,
    training: Training,
    targets: np.ndarray,
    svm: InnerProblem,
    unit: float = 1.0,
) -> MKLResult:
    """Align, then train the SVM; without a `C`, on the kernel in units of its variance."""
    options = AlignmentOptions(model.method, float(model.tol) * unit)
    counts = training.weights.counts
    inner = svm if model.C is not None else InUnitVariance(svm, counts)
    return fit_alignment(training.stack, targets, inner, options, training.gram, counts)


@fill_docs(CLASSIFIER)
class AlignmentMKLClassifier(DiscriminativeClassifier):
    r"""Kernel weights by alignment with the labels, then an SVM.

    .. math:: \text{alignf:} \quad \max_{\eta \ge 0} \;
       \frac{\langle K_\eta^c,\, yy^\top \rangle_F}{\|K_\eta^c\|_F}, \qquad
       \text{convex:} \quad \min_{\eta \in \Delta} \; \|K_\eta - yy^\top\|_F^2, \qquad
       K_\eta = \sum_m \eta_m K_m, \quad K^c = HKH .

    Parameters
    ----------
    %(kernels)s
    C : float, default=None
        Penalty of margin violations, :math:`C > 0`. None: one over the variance of the samples in the feature space
        of the combined kernel, :math:`\operatorname{tr}(K_\eta^c) / N`; the units of the kernels do not matter then.
    method : {"ratio", "convex", "align", "alignf"}, default="alignf"
        "ratio": weights proportional to the alignment of each kernel [1]_. "convex": the convex combination nearest
        to the target matrix [2]_. "align": proportional to the centered alignment of each kernel [3]_. "alignf": the
        conic combination of highest centered alignment [3]_.
    %(tol:libsvm)s
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Nonnegative, with sum one.
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        One entry: the squared distance :math:`\|K_\eta - T\|_F^2` for "convex", else the objective of the
        trained SVM(s).
    duality_gap_ : float +
        Of the squared distance for "convex", else NaN.
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
    OBMKLClassifier : Alignment with the empirical optimal kernel.
    bayesmkl.kernels.alignment.centered_alignment : The alignment of every kernel of a bank.

    Notes
    -----
    Weights are divided by their sum for all methods ([3]_ divides by their length), so that a given `C` means what it
    means for UniformMKLClassifier; the SVM sees the kernels uncentered. Centered alignment is blind to the
    constant part of a kernel: the kernels that "align" and "alignf" prefer are often wide Gaussians, which hardly
    vary, and `C = 1` is far too low for them. By default `C` is therefore relative to the variance. If no
    kernel is aligned, weights are uniform; a kernel of zeros gets none from "ratio", "align" and "alignf". With
    ``multiclass="shared"`` the target is the mean of the classes' :math:`y_c y_c^\top`.

    "convex" and "alignf" cost one matrix product of :math:`P^2 N^2 / 2` multiplications, the others
    :math:`O(P N^2)`.

    References
    ----------
    .. [1] S. Qiu and T. Lane (2009), A framework for multiple kernel support vector regression and its applications
       to siRNA efficacy prediction, IEEE/ACM Transactions on Computational Biology and Bioinformatics 6.
    .. [2] J. He, S.-F. Chang and L. Xie (2008), Fast kernel learning for spatial pyramid matching, CVPR.
    .. [3] C. Cortes, M. Mohri and A. Rostamizadeh (2012), Algorithms for learning kernels based on centered
       alignment, JMLR 13.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import AlignmentMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = AlignmentMKLClassifier(bank, method="align", multiclass="shared").fit(X, y)
    >>> model.kernel_weights_.round(2)
    array([0.4, 0.6])
    """

    fit = fit_weighted_classes

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float | None = None,
        method: str = "alignf",
        tol: float = 1e-3,
        multiclass: str = "one-versus-rest",
        class_weight: Mapping[Any, float] | str | None = None,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.method = method
        self.tol = tol
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.indefinite = indefinite
        self.kernel_names = kernel_names

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_alignment(self)

    def _centering_errors(self, stack: StoredStack) -> np.ndarray:
        return _lost(super()._centering_errors(stack), stack, self.method)

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[Training, np.ndarray]:
        training, targets = super()._prepare(X, y, sample_weight)
        return with_gram(training, self.method in WITH_GRAM, self.method in CENTERED), targets

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = Hinge(1.0 if self.C is None else float(self.C), training.weights.costs)
        return _align(self, training, targets, inner)


@fill_docs(REGRESSOR, AlignmentMKLClassifier)
class AlignmentMKLRegressor(DiscriminativeRegressor):
    r"""Kernel weights by alignment with the target, then support vector regression.

    .. math:: \text{alignf:} \quad \max_{\eta \ge 0} \;
       \frac{\langle K_\eta^c,\, yy^\top \rangle_F}{\|K_\eta^c\|_F}, \qquad
       K_\eta = \sum_m \eta_m K_m, \quad K^c = HKH .

    Parameters
    ----------
    %(kernels)s
    C : float, default=None
        Penalty of deviations beyond `epsilon`, :math:`C > 0`. None: the standard deviation of the target over the
        variance of the samples in the feature space of the combined kernel, :math:`\operatorname{tr}(K_\eta^c) / N`;
        neither the units of the target nor those of the kernels matter then.
    %(epsilon)s
    %(AlignmentMKLClassifier.method)s
    %(tol:libsvm)s
    %(indefinite)s
    %(kernel_names)s

    Attributes
    ----------
    %(AlignmentMKLClassifier.kernel_weights_)s
    %(dual_coef_)s
    %(intercept_)s
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,)
        One entry: the squared distance :math:`\|K_\eta - T\|_F^2` for "convex", else the objective of the
        trained SVM.
    %(AlignmentMKLClassifier.duality_gap_)s
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
    AlignmentMKLClassifier : The same for labels.

    Notes
    -----
    "align" and "alignf" center the target with the kernels, so that a constant added to `y` changes nothing. "ratio"
    and "convex" take it as it is: center `y` before. "convex" also divides it by its root mean square, so that the
    target matrix has the size of kernels with unit diagonal. The regression itself is on `y` as given. Why `C` is
    relative to the variance of the kernel by default: see AlignmentMKLClassifier.

    References
    ----------
    .. [1] S. Qiu and T. Lane (2009), A framework for multiple kernel support vector regression and its applications
       to siRNA efficacy prediction, IEEE/ACM Transactions on Computational Biology and Bioinformatics 6.
    .. [2] J. He, S.-F. Chang and L. Xie (2008), Fast kernel learning for spatial pyramid matching, CVPR.
    .. [3] C. Cortes, M. Mohri and A. Rostamizadeh (2012), Algorithms for learning kernels based on centered
       alignment, JMLR 13.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import AlignmentMKLRegressor
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(60, 2))
    >>> y = np.sin(X[:, 0]) + 5.0
    >>> model = AlignmentMKLRegressor(KernelBank(Gaussian(width=1), views="each"), C=10).fit(X, y)
    >>> model.kernel_weights_.round(1)
    array([1., 0.])
    """

    fit = fit_weighted_target

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float | None = None,
        epsilon: float | None = None,
        method: str = "alignf",
        tol: float = 1e-3,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.epsilon = epsilon
        self.method = method
        self.tol = tol
        self.indefinite = indefinite
        self.kernel_names = kernel_names

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_alignment(self)
        check_tube(self.C, self.epsilon)

    def _centering_errors(self, stack: StoredStack) -> np.ndarray:
        return _lost(super()._centering_errors(stack), stack, self.method)

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[Training, np.ndarray]:
        training, targets = super()._prepare(X, y, sample_weight)
        return with_gram(training, self.method in WITH_GRAM, self.method in CENTERED), targets

    def _centers_target(self) -> bool:
        return self.method in CENTERED

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        counts = training.weights.counts
        inner = check_tube(self.C, self.epsilon, counts)
        return _align(self, training, targets, inner, spread_of(targets[0], counts))
