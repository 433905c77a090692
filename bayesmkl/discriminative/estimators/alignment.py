"""Two-stage methods: kernel weights by alignment with a target, then a support vector machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl._numerics.validation import check_choice, check_integer, check_number, check_scale
from bayesmkl.discriminative import alignment_based, obmkl
from bayesmkl.discriminative._outer import MKLResult
from bayesmkl.discriminative._svm import Hinge, spread_of
from bayesmkl.discriminative.alignment_based import AlignmentOptions, InUnitVariance, fit_alignment
from bayesmkl.discriminative.easymkl import KOMD, EasyMKLOptions, fit_easymkl
from bayesmkl.discriminative.estimators.base import (
    BaseDiscriminative,
    DiscriminativeClassifier,
    DiscriminativeRegressor,
    OnStep,
)
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.obmkl import OBMKLOptions, fit_obmkl
from bayesmkl.kernels.alignment import centering_errors, frobenius_gram
from bayesmkl.kernels.stack import DenseStack

__all__ = ["AlignmentMKLClassifier", "AlignmentMKLRegressor", "EasyMKLClassifier", "OBMKLClassifier"]


class _SharedGram(BaseDiscriminative):
    """Compute the Frobenius products once for all classes, where the method needs them."""

    tol: float
    method: str
    METHODS: tuple[str, ...]
    WITH_GRAM: tuple[str, ...]
    CENTERED: tuple[str, ...] = ()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("tol", self.tol, low=0.0)
        check_choice("method", self.method, self.METHODS)

    def _centering_errors(self, stack: DenseStack) -> np.ndarray:
        errors = super()._centering_errors(stack)
        return np.maximum(errors, centering_errors(stack)) if self.method in self.CENTERED else errors

    def _fit_tasks(self, stack: DenseStack, targets: np.ndarray, start: Any = None) -> None:
        method = self.method
        self._gram = frobenius_gram(stack, method in self.CENTERED) if method in self.WITH_GRAM else None
        try:
            super()._fit_tasks(stack, targets, start)
        finally:
            del self._gram


class _Alignment(_SharedGram):
    C: float | None  # None: what suits the combined kernel
    METHODS = alignment_based.METHODS
    WITH_GRAM = alignment_based.WITH_GRAM
    CENTERED = alignment_based.CENTERED

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.C is not None:
            check_scale("C", self.C)

    def _align(self, stack: DenseStack, targets: np.ndarray, machine: Any, unit: float = 1.0) -> MKLResult:
        options = AlignmentOptions(self.method, float(self.tol) * unit)
        inner = machine if self.C is not None else InUnitVariance(machine)
        return fit_alignment(stack, targets, inner, options, self._gram)


class AlignmentMKLClassifier(_Alignment, DiscriminativeClassifier):
    r"""Kernel weights by alignment with the labels, then a support vector machine.

    .. math:: \text{alignf:} \quad \max_{\eta \ge 0} \;
       \frac{\langle K_\eta^c,\, yy^\top \rangle_F}{\|K_\eta^c\|_F}, \qquad
       \text{convex:} \quad \min_{\eta \in \Delta} \; \|K_\eta - yy^\top\|_F^2, \qquad
       K_\eta = \sum_m \eta_m K_m, \quad K^c = HKH .

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=None
        Price of margin violations, :math:`C > 0`. None: one over the variance of the samples in the feature space
        of the combined kernel, :math:`\operatorname{tr}(K_\eta^c) / N`; the units of the kernels do not matter then.
    method : {"ratio", "convex", "align", "alignf"}, default="alignf"
        "ratio": weights proportional to the alignment of each kernel [1]_. "convex": the convex combination nearest
        to the target matrix [2]_. "align": proportional to the centered alignment of each kernel [3]_. "alignf": the
        conic combination of highest centered alignment [3]_.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes: kernel weights of its own for each class, or one set of weights for all.
    indefinite : {"raise", "clip"}, default="raise"
        What to do with kernels that are not positive semidefinite: an error, or their negative eigenvalues removed.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, attributes marked * get a leading axis of length n_classes, or are tuples of that
        length; under ``multiclass="shared"`` only `dual_coef_` and `intercept_` do.
    kernel_weights_ : ndarray of shape (n_kernels,) *
        Nonnegative, with sum one.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual :math:`\alpha_i y_i`, zero off the support.
    intercept_ : float *
        :math:`b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors (of any class).
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels whose weight exceeds 1e-6 of the largest (for any class).
    objective_history_ : ndarray of shape (n_iter_,) *
        One entry: the squared distance :math:`\|K_\eta - T\|_F^2` for "convex", else the objective of the
        trained machine(s).
    duality_gap_ : float *
        Of the squared distance for "convex", else NaN.
    n_iter_, n_solves_ : int *
        Length of the history, and machines that were trained.
    outcome_ : Outcome *
        How the search for the weights ended.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : object or None
        What ``indefinite="clip"`` removed.
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
    OBMKLClassifier : Alignment with the empirical optimal kernel.
    bayesmkl.kernels.alignment.centered_alignment : The alignment of every kernel of a bank.

    Notes
    -----
    Weights are divided by their sum for all methods ([3]_ divides by their length), so that a given `C` means what it
    means for UniformMKLClassifier; the machine sees the kernels uncentered. Centered alignment is blind to the
    constant part of a kernel: the kernels that "align" and "alignf" prefer are often wide Gaussians, which hardly
    vary, and a price of one is far too low for them. By default `C` is therefore relative to the variance. If no
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

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float | None = None,
        method: str = "alignf",
        tol: float = 1e-3,
        multiclass: str = "one-versus-rest",
        indefinite: str = "raise",
        kernel_names: Any = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.method = method
        self.tol = tol
        self.multiclass = multiclass
        self.indefinite = indefinite
        self.kernel_names = kernel_names

    def _learn(self, stack: DenseStack, targets: np.ndarray, start: Any, on_step: OnStep) -> MKLResult:
        return self._align(stack, targets, Hinge(1.0 if self.C is None else float(self.C)))


class AlignmentMKLRegressor(_Alignment, DiscriminativeRegressor):
    r"""Kernel weights by alignment with the target, then support vector regression.

    .. math:: \text{alignf:} \quad \max_{\eta \ge 0} \;
       \frac{\langle K_\eta^c,\, yy^\top \rangle_F}{\|K_\eta^c\|_F}, \qquad
       K_\eta = \sum_m \eta_m K_m, \quad K^c = HKH .

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=None
        Price of deviations beyond `epsilon`, :math:`C > 0`. None: the standard deviation of the target over the
        variance of the samples in the feature space of the combined kernel, :math:`\operatorname{tr}(K_\eta^c) / N`;
        neither the units of the target nor those of the kernels matter then.
    epsilon : float, default=None
        Deviations up to this cost nothing, in units of the target. None: a tenth of its standard deviation.
    method : {"ratio", "convex", "align", "alignf"}, default="alignf"
        "ratio": weights proportional to the alignment of each kernel [1]_. "convex": the convex combination nearest
        to the target matrix [2]_. "align": proportional to the centered alignment of each kernel [3]_. "alignf": the
        conic combination of highest centered alignment [3]_.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions in standard deviations of the target.
    indefinite : {"raise", "clip"}, default="raise"
        What to do with kernels that are not positive semidefinite: an error, or their negative eigenvalues removed.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        Nonnegative, with sum one.
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
        One entry: the squared distance :math:`\|K_\eta - T\|_F^2` for "convex", else the objective of the
        trained machine.
    duality_gap_ : float
        Of the squared distance for "convex", else NaN.
    n_iter_, n_solves_ : int
        Length of the history, and machines that were trained.
    outcome_ : Outcome
        How the search for the weights ended.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : object or None
        What ``indefinite="clip"`` removed.
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

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float | None = None,
        epsilon: float | None = None,
        method: str = "alignf",
        tol: float = 1e-3,
        indefinite: str = "raise",
        kernel_names: Any = None,
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
        check_tube(self.C, self.epsilon)

    def _centers_target(self) -> bool:
        return self.method in self.CENTERED

    def _learn(self, stack: DenseStack, targets: np.ndarray, start: Any, on_step: OnStep) -> MKLResult:
        return self._align(stack, targets, check_tube(self.C, self.epsilon), spread_of(targets))


class OBMKLClassifier(_SharedGram, DiscriminativeClassifier):
    r"""Kernel weights by the empirical optimal kernel, then a support vector machine.

    .. math:: \min_{\eta \in \Delta} \; \Big\| \sum_m \eta_m K_m - K_{opti} \Big\|_F^2, \qquad
       [K_{opti}]_{ij} = \begin{cases} \max_m [K_m]_{ij} & y_i = y_j \\ \min_m [K_m]_{ij} & y_i \ne y_j
       \end{cases}

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=1.0
        Price of margin violations, :math:`C > 0`.
    method : {"ratio", "qp", "aqp"}, default="qp"
        "ratio": weights proportional to the alignment of each kernel with :math:`K_{opti}`, eq. 10 of [1]_. "qp": the
        problem above, eq. 12. "aqp": the same with every pair weighted by the duals of its samples, in turn with the
        machine, eqs. 14 and 15.
    tol : float, default=1e-4
        "aqp" stops when no weight changes by more; also the tolerance of LibSVM.
    max_iter : int, default=50
        Most alternations of "aqp".
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes: kernel weights of its own for each class, or one set of weights for all.
    indefinite : {"raise", "clip"}, default="raise"
        What to do with kernels that are not positive semidefinite: an error, or their negative eigenvalues removed.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, attributes marked * get a leading axis of length n_classes, or are tuples of that
        length; under ``multiclass="shared"`` only `dual_coef_` and `intercept_` do.
    kernel_weights_ : ndarray of shape (n_kernels,) *
        Nonnegative, with sum one.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual :math:`\alpha_i y_i`, zero off the support.
    intercept_ : float *
        :math:`b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors (of any class).
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels whose weight exceeds 1e-6 of the largest (for any class).
    objective_history_ : ndarray of shape (n_iter_,) *
        One entry for "ratio" (the objective of the trained machines) and "qp" (the squared distance above); for "aqp"
        the objective of the machine at every alternation, which need not fall.
    duality_gap_ : float *
        Of the squared distance for "qp", else NaN.
    n_iter_, n_solves_ : int *
        Length of the history, and machines that were trained.
    outcome_ : Outcome *
        How the search for the weights ended.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : object or None
        What ``indefinite="clip"`` removed.
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
    AlignmentMKLClassifier : Alignment with the labels.
    bayesmkl.kernels.alignment.empirical_optimal_kernel : The kernel that weights are drawn towards.

    Notes
    -----
    The empirical optimal kernel is indefinite in general and never trained on. It stays the same when one of several
    equal kernels is left out, but one outlying kernel changes it everywhere: normalize the bank.

    The alternation of "aqp" has no common objective and may swing between weights for ever; steps are halved while it
    does. With kernels that are nearly alike it may still find no fixed point, and warns.
    With ``multiclass="shared"`` pairs of the same class take the largest value, all others the smallest.

    "qp" costs one matrix product of :math:`P^2 N^2 / 2` multiplications, "aqp" another one over the support vectors
    in every alternation.

    References
    ----------
    .. [1] P. Wang, D. Cai, G. Zhang, Y. Bai, F. Cai and T. Zhang (2014), Empirical optimal kernel for convex multiple
       kernel learning, Proceedings of the World Congress on Engineering and Computer Science II.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import OBMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = OBMKLClassifier(bank, multiclass="shared").fit(X, y)
    >>> model.kernel_weights_.round(2)
    array([0.04, 0.96])
    """

    METHODS = obmkl.METHODS
    WITH_GRAM = obmkl.WITH_GRAM

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        method: str = "qp",
        tol: float = 1e-4,
        max_iter: int = 50,
        multiclass: str = "one-versus-rest",
        indefinite: str = "raise",
        kernel_names: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scale("C", self.C)
        check_integer("max_iter", self.max_iter, low=1)

    def _learn(self, stack: DenseStack, targets: np.ndarray, start: Any, on_step: OnStep) -> MKLResult:
        options = OBMKLOptions(self.method, float(self.tol), int(self.max_iter))
        return fit_obmkl(stack, targets, Hinge(float(self.C)), options, self._gram, on_step)


class EasyMKLClassifier(DiscriminativeClassifier):
    r"""Kernel weights from the distance between the classes, then a classifier on the combined kernel.

    With kernels :math:`\hat K_m` of mean diagonal one and their mean :math:`\bar K`, two points are sought, one in
    the hull of each class, that are near each other and made of many samples [1]_:

    .. math:: \min_g \; (1-\lambda)\, g^\top Y \bar K Y g + \lambda \|g\|^2 \quad \text{subject to} \quad
       g \ge 0, \; \sum_{y_i=+1} g_i = \sum_{y_i=-1} g_i = 1, \qquad
       \eta_m \propto g^\top Y \hat K_m Y g .

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=1.0
        Price of margin violations of the final SVM, :math:`C > 0`; "komd" has none.
    reg : float, default=0.1
        :math:`\lambda` between 0 (the nearest points of the hulls) and 1 (the means of the classes).
    final : {"svm", "komd"}, default="svm"
        The classifier on the combined kernel: a support vector machine, or the game above again, with the threshold
        halfway between its two points [2]_, as in [1]_.
    tol : float, default=1e-3
        Largest duality gap of the game, relative to its objective; also the tolerance of LibSVM.
    max_iter : int, default=5000
        Most iterations of the game.
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes: kernel weights of its own for each class, or one set of weights for all.
    indefinite : {"raise", "clip"}, default="raise"
        What to do with kernels that are not positive semidefinite: an error, or their negative eigenvalues removed.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, attributes marked * get a leading axis of length n_classes, or are tuples of that
        length; under ``multiclass="shared"`` only `dual_coef_` and `intercept_` do.
    kernel_weights_ : ndarray of shape (n_kernels,) *
        Of the kernels as given: :math:`\eta_m`, which sum to one, divided by the mean of the kernel's diagonal.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual :math:`\alpha_i y_i`, zero off the support.
    intercept_ : float *
        :math:`b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors (of any class).
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels whose weight exceeds 1e-6 of the largest (for any class).
    objective_history_ : ndarray of shape (n_iter_,) *
        Objective of the game, summed over classes that share weights.
    duality_gap_ : float *
        Of that objective.
    n_iter_, n_solves_ : int *
        Length of the history, and machines that were trained.
    outcome_ : Outcome *
        How the search for the weights ended.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : object or None
        What ``indefinite="clip"`` removed.
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
    AlignmentMKLClassifier : Weights by alignment; ``reg=1`` here comes near it.

    Notes
    -----
    Departures from [1]_: the mean of the kernels instead of their sum, so that `reg` does not depend on their number;
    weights are divided by their sum instead of their length. Small values of `reg` take many iterations.

    Memory is that of one kernel beside the stack; the cost is :math:`O(P N^2)` plus :math:`O(N^2)` per iteration.

    References
    ----------
    .. [1] F. Aiolli and M. Donini (2015), EasyMKL: a scalable multiple kernel learning algorithm, Neurocomputing 169.
    .. [2] F. Aiolli, G. Da San Martino and A. Sperduti (2008), A kernel method for the optimization of the margin
       distribution, ICANN.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import EasyMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = EasyMKLClassifier(bank, reg=0.5).fit(X[50:], y[50:])
    >>> model.kernel_weights_.round(2)
    array([0.05, 0.95])
    """

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        reg: float = 0.1,
        final: str = "svm",
        tol: float = 1e-3,
        max_iter: int = 5000,
        multiclass: str = "one-versus-rest",
        indefinite: str = "raise",
        kernel_names: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.reg = reg
        self.final = final
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if check_number("reg", self.reg, low=0.0, inclusive=True) > 1.0:
            raise ValueError(
                f"`reg` must lie between 0 and 1; got {self.reg!r}. 1 compares the means of the classes."
            )
        check_scale("C", self.C)
        check_number("tol", self.tol, low=0.0)
        check_integer("max_iter", self.max_iter, low=1)
        check_choice("final", self.final, ("svm", "komd"))

    def _learn(self, stack: DenseStack, targets: np.ndarray, start: Any, on_step: OnStep) -> MKLResult:
        options = EasyMKLOptions(float(self.reg), float(self.tol), int(self.max_iter))
        inner = Hinge(float(self.C)) if self.final == "svm" else KOMD(options.reg, options.max_iter)
        return fit_easymkl(stack, targets, inner, options, on_step)
