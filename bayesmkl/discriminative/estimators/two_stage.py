"""Kernel weights by a criterion of their own, then an SVM: presets of the rules. SVMs first, then weights: LP-β."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Splits
from bayesmkl._utils.validation import check_folds, check_number, check_scale, shown
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier
from bayesmkl.discriminative.estimators.checked import check_below_one
from bayesmkl.discriminative.estimators.mkl import ClassifierByRule, ClassifierParameters, RegressorByRule
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.folds import stratified_folds
from bayesmkl.discriminative.global_weights.easymkl import Easy
from bayesmkl.discriminative.global_weights.lpboostmkl import fit_lpboostmkl
from bayesmkl.discriminative.global_weights.two_stage import Alignment, BestKernel, OptimalKernel, Uniform
from bayesmkl.discriminative.problems import OnStep
from bayesmkl.discriminative.weights import Learned, Training
from bayesmkl.kernels.stacks.base import Stack


@fill_docs(CLASSIFIER, Uniform)
@dataclass(eq=False, repr=False, kw_only=True)
class UniformMKLClassifier(ClassifierByRule):
    r"""Support vector machine on the mean of all kernels.

    .. math:: K = \frac1P \sum_{m=1}^P K_m, \qquad
       \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i \max(0, 1 - y_i f(x_i))

    The baseline that multiple kernel learning has to beat, and often does not [1]_.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(class_weight)s
    %(tol:libsvm)s

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

    RULE = Uniform

    C: float = 1.0
    class_weight: Mapping[Any, float] | str | None = None
    tol: float = 1e-3


@fill_docs(REGRESSOR, Uniform, UniformMKLClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class UniformMKLRegressor(RegressorByRule):
    r"""Support vector regression on the mean of all kernels.

    .. math:: K = \frac1P \sum_{m=1}^P K_m, \qquad
       \min_{w, b} \; \tfrac12 \|w\|^2 + C \sum_i \max(0, |y_i - f(x_i)| - \epsilon)

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(epsilon)s
    %(tol:libsvm)s

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

    RULE = Uniform

    C: float | None = None
    epsilon: float | None = None
    tol: float = 1e-3


@fill_docs(CLASSIFIER, BestKernel)
@dataclass(eq=False, repr=False, kw_only=True)
class BestKernelClassifier(ClassifierByRule):
    r"""Support vector machine on the one kernel that does best in cross-validation.

    .. math:: m^\star = \arg\max_m \frac1F \sum_{f=1}^F \operatorname{accuracy}_f(K_m)

    Kernels compete on folds of the training samples, the same for all of them [1]_; the first of equals wins.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(BestKernel.cv)s
    %(BestKernel.tol)s
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes. "one-versus-rest": a separate kernel for each class, by binary accuracy. "shared":
        one kernel for all classes, by multiclass accuracy.
    %(BestKernel.random_state)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        One for the chosen kernel, zero for the others.
    cv_scores_ : ndarray of shape (n_kernels,) +
        Mean accuracy of each kernel over the folds.
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        One entry, the objective of the trained SVM(s).
    %(duality_gap_:none)s +
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
    UniformMKLClassifier : All kernels instead of one.

    Notes
    -----
    Trains `cv` SVMs per kernel (and class). Tune `C` around it, with GridSearchCV.

    References
    ----------
    .. [1] P. Wang et al. (2014), Empirical optimal kernel for convex multiple kernel learning, WCECS ("SVM(best)").

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import BestKernelClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = BestKernelClassifier(bank, multiclass="shared").fit(X, y)
    >>> print(model.kernel_names_[model.kernel_weights_.argmax()], model.cv_scores_.round(2))
    gaussian(width=1) · petal [0.8... 0.9...]
    """

    RULE = BestKernel
    fit = DiscriminativeClassifier.fit  # type: ignore[assignment]  # without weights of samples

    C: float = 1.0
    cv: Splits = 5
    tol: float = 1e-3
    multiclass: str = "one-versus-rest"
    random_state: int | None = None


@fill_docs(CLASSIFIER, Alignment)
@dataclass(eq=False, repr=False, kw_only=True)
class AlignmentMKLClassifier(ClassifierByRule):
    r"""Kernel weights by alignment with the labels, then an SVM.

    .. math:: \text{alignf:} \quad \max_{\eta \ge 0} \;
       \frac{\langle K_\eta^c,\, yy^\top \rangle_F}{\|K_\eta^c\|_F}, \qquad
       \text{convex:} \quad \min_{\eta \in \Delta} \; \|K_\eta - yy^\top\|_F^2, \qquad
       K_\eta = \sum_m \eta_m K_m, \quad K^c = HKH .

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float, default=None
        Penalty of margin violations, :math:`C > 0`. None: one over the variance of the samples in the feature space
        of the combined kernel, :math:`\operatorname{tr}(K_\eta^c) / N`; the units of the kernels do not matter then.
    %(Alignment.method)s
    %(tol:libsvm)s
    %(multiclass)s
    %(class_weight)s

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

    RULE = Alignment

    C: float | None = None
    method: str = "alignf"
    tol: float = 1e-3
    multiclass: str = "one-versus-rest"
    class_weight: Mapping[Any, float] | str | None = None


@fill_docs(REGRESSOR, Alignment, AlignmentMKLClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class AlignmentMKLRegressor(RegressorByRule):
    r"""Kernel weights by alignment with the target, then support vector regression.

    .. math:: \text{alignf:} \quad \max_{\eta \ge 0} \;
       \frac{\langle K_\eta^c,\, yy^\top \rangle_F}{\|K_\eta^c\|_F}, \qquad
       K_\eta = \sum_m \eta_m K_m, \quad K^c = HKH .

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float, default=None
        Penalty of deviations beyond `epsilon`, :math:`C > 0`. None: the standard deviation of the target over the
        variance of the samples in the feature space of the combined kernel, :math:`\operatorname{tr}(K_\eta^c) / N`;
        neither the units of the target nor those of the kernels matter then.
    %(epsilon)s
    %(Alignment.method)s
    %(tol:libsvm)s

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

    RULE = Alignment

    C: float | None = None
    epsilon: float | None = None
    method: str = "alignf"
    tol: float = 1e-3


@fill_docs(CLASSIFIER, OptimalKernel)
@dataclass(eq=False, repr=False, kw_only=True)
class OBMKLClassifier(ClassifierParameters):
    r"""Kernel weights by the empirical optimal kernel, then an SVM.

    .. math:: \min_{\eta \in \Delta} \; \Big\| \sum_m \eta_m K_m - K_{opti} \Big\|_F^2, \qquad
       [K_{opti}]_{ij} = \begin{cases} \max_m [K_m]_{ij} & y_i = y_j \\ \min_m [K_m]_{ij} & y_i \ne y_j
       \end{cases}

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    %(multiclass)s
    %(class_weight)s
    %(verbose)s
    %(OptimalKernel.method)s
    %(OptimalKernel.tol)s
    %(OptimalKernel.max_iter)s

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
        One entry for "ratio" (the objective of the trained SVMs) and "qp" (the squared distance above); for "aqp"
        the objective of the SVM at every alternation, which need not fall.
    duality_gap_ : float +
        Of the squared distance for "qp", else NaN.
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
    AlignmentMKLClassifier : Alignment with the labels.
    bayesmkl.kernels.alignment.empirical_optimal_kernel : The kernel that weights are drawn towards.

    Notes
    -----
    The empirical optimal kernel is indefinite in general and never trained on. It stays the same when one of several
    equal kernels is left out, but one outlying kernel changes it everywhere: normalize the bank.

    The alternation of "aqp" has no common objective and may swing between weights for ever, as "aqp-paper" then does;
    steps are halved while it does. With kernels that are nearly alike it may still find no fixed point, and warns.
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

    RULE = OptimalKernel

    method: str = "qp"
    tol: float = 1e-4
    max_iter: int = 50


@fill_docs(CLASSIFIER, Easy)
@dataclass(eq=False, repr=False, kw_only=True)
class EasyMKLClassifier(ClassifierByRule):
    r"""Kernel weights from the distance between the classes, then a classifier on the combined kernel.

    With kernels :math:`\hat K_m` of mean diagonal one and their mean :math:`\bar K`, two points are sought, one in
    the hull of each class, that are near each other and made of many samples [1]_:

    .. math:: \min_g \; (1-\lambda)\, g^\top Y \bar K Y g + \lambda \|g\|^2 \quad \text{subject to} \quad
       g \ge 0, \; \sum_{y_i=+1} g_i = \sum_{y_i=-1} g_i = 1, \qquad
       \eta_m \propto g^\top Y \hat K_m Y g .

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float, default=1.0
        Regularization parameter of the final SVM, :math:`C > 0`: penalty of margin violations; "komd" has none.
    %(Easy.reg)s
    %(Easy.final)s
    %(Easy.tol)s
    %(Easy.max_iter)s
    %(multiclass)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Of the kernels as given: :math:`\eta_m`, which sum to one, divided by the mean of the kernel's diagonal.
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective of the game, summed over classes that share weights.
    duality_gap_ : float +
        Of that objective.
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

    RULE = Easy
    fit = DiscriminativeClassifier.fit  # type: ignore[assignment]  # without weights of samples

    C: float = 1.0
    reg: float = 0.1
    final: str = "svm"
    tol: float = 1e-3
    max_iter: int = 5000
    multiclass: str = "one-versus-rest"
    verbose: int = 1


@fill_docs(CLASSIFIER)
@dataclass(eq=False, repr=False, kw_only=True)
class LPBoostMKLClassifier(DiscriminativeClassifier):
    r"""LP-β: one SVM per kernel, combined by the weights of largest soft margin in cross-validation.

    .. math:: \max_{\beta \ge 0,\, \sum_m \beta_m = 1,\, \xi \ge 0,\, \rho} \; \rho - \frac{1}{\nu n} \sum_i \xi_i
       \quad\text{subject to}\quad y_i \sum_m \beta_m f_m(x_i) + \xi_i \ge \rho, \qquad
       f(x) = \sum_m \beta_m f_m(x)

    Uninformative kernels get no weight, and kernels are only combined in the sum of scores [1]_.

    Parameters
    ----------
    %(kernels)s
    %(indefinite)s
    %(kernel_names)s
    C : float, default=1.0
        Penalty of margin violations in the SVMs of all kernels, :math:`C > 0`.
    C_values : sequence of float, default=None
        Values that every kernel chooses its own `C` from, by accuracy in the folds.
    nu : float, default=0.2
        :math:`0 < \nu < 1`, the largest share of samples with a margin below :math:`\rho`. Near 1 the mean margin
        decides, and one kernel gets all; low values heed the samples that are hard to tell.
    cv : int, cross-validation generator or iterable, default=5
        Number of stratified, shuffled folds, or what scikit-learn takes for `cv`.
    %(tol:libsvm)s
    multiclass : {"one-versus-rest", "shared"}, default="shared"
        With more than two classes. "shared": one set of weights for all classes, by the margins of the class of a
        sample against every other class (the paper). "one-versus-rest": separate weights for every class against the
        rest.
    random_state : int or None, default=None
        Seed of the folds. None is a fixed seed.

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights :math:`\beta` on the simplex.
    C_ : ndarray of shape (n_kernels,) +
        Penalty of margin violations in the SVM of every kernel.
    margin_ : float +
        The margin :math:`\rho` in cross-validation.
    dual_coef_ : ndarray of shape (n_kernels, n_samples) *
        Signed dual :math:`\alpha_i y_i` of the SVM of every kernel, zero where it has no weight.
    intercept_ : float *
        The sum of their intercepts :math:`b_m`, weighted like the kernels.
    %(support_:kernels)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (1,) +
        :math:`\tfrac{1}{\nu n} \sum_i \xi_i - \rho`.
    duality_gap_ : float +
        Of the linear program.
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
    BestKernelClassifier : The one kernel of highest accuracy in the same folds.
    LDMKLClassifier : SVMs per kernel that vote with a weight for every sample.

    Notes
    -----
    The page *LP-β* derives the dual and lists departures. Scores are not those of an SVM on the
    `combined_kernel`, as every kernel has coefficients of its own. Kernels that are equal share their weight in any
    way. Trains an SVM per kernel, value of `C`, fold and class; the linear program has `n_kernels` + `n_samples`
    unknowns.

    References
    ----------
    .. [1] P. Gehler and S. Nowozin (2009), On feature combination for multiclass object classification, ICCV (LP-β).
    .. [2] A. Demiriz, K. P. Bennett and J. Shawe-Taylor (2002), Linear programming boosting via column generation,
       Machine Learning 46.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import LPBoostMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = LPBoostMKLClassifier(bank, C_values=[1, 10]).fit(X, y)
    >>> print(model.kernel_names_[model.kernel_weights_.argmax()], model.score(X, y) > 0.95)
    gaussian(width=1) · petal True
    """

    C: float = 1.0
    C_values: Sequence[float] | np.ndarray | None = None
    nu: float = 0.2
    cv: Splits = 5
    tol: float = 1e-3
    multiclass: str = "shared"
    random_state: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._grid()
        check_below_one("nu", self.nu, "a share of the samples", 0.2)
        check_number("tol", self.tol, low=0.0)
        check_folds("cv", self.cv)

    def _grid(self) -> tuple[float, ...]:
        C, values = check_scale("C", self.C), self.C_values
        if values is None:
            return (C,)
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise ValueError(
                f"`C_values` must be a list of at least one positive number, or None for `C`; got {shown(values)}."
            )
        return tuple(check_scale("C_values", value) for value in values)

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> Any:
        folds = stratified_folds(self.cv, self.random_state, targets)
        C_values, nu, tol = self._grid(), float(self.nu), float(self.tol)
        voters, C, margin = fit_lpboostmkl(training.stack, targets, folds, C_values, nu, tol)
        weights, dual = voters.kernel_weights, voters.signed_dual
        # the sum of all intercepts, and what a sample adds to the scores at most
        intercept, most = voters.intercept @ weights, np.einsum("m,cmi->ci", weights, np.abs(dual))
        more = {"C": C, "margin": margin, "dual_coef": dual[0] if len(dual) == 1 else dual}
        return Learned(voters._replace(signed_dual=most, intercept=intercept), more)

    def _scores_of(self, stack: Stack, used: np.ndarray | slice = slice(None)) -> np.ndarray:
        dual = self.dual_coef_.reshape(-1, *self.dual_coef_.shape[-2:])[:, used]
        weighted = np.atleast_2d(self.kernel_weights_)[:, used, None] * dual
        scores = np.stack([stack.apply(vectors[..., None]).sum(axis=0) for vectors in weighted])
        return scores + np.atleast_1d(self.intercept_)[:, None]
