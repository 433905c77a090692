"""Baselines that learn no weights: the mean of all kernels, and the best single one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_random_state

from bayesmkl._numerics.validation import check_folds, check_integer, check_number, check_scale
from bayesmkl.discriminative._outer import MKLResult
from bayesmkl.discriminative._svm import Hinge, spread_of
from bayesmkl.discriminative.best_kernel import fit_best_kernel
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    DiscriminativeRegressor,
    OnStep,
)
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.uniform import fit_uniform
from bayesmkl.kernels.stack import DenseStack

__all__ = ["BestKernelClassifier", "UniformMKLClassifier", "UniformMKLRegressor"]


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
        Price of margin violations, :math:`C > 0`.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    indefinite : {"raise", "clip"}, default="raise"
        What to do with kernels that are not positive semidefinite: an error, or their negative eigenvalues removed.
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
        One entry, the objective of the trained machine(s).
    duality_gap_ : float
        NaN: the weights solve no optimization problem.
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
    BestKernelClassifier : One kernel instead of all.
    UniformMKLRegressor : The same for a real-valued target.

    Notes
    -----
    One machine costs what an SVC on the averaged kernel costs. The mean instead of the sum only rescales `C`. The
    method is called RBMKL in [1]_. With more than two classes, one machine per class.

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
        kernels: Any = None,
        *,
        C: float = 1.0,
        tol: float = 1e-3,
        indefinite: str = "raise",
        kernel_names: Any = None,
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

    def _learn(self, stack: DenseStack, targets: np.ndarray, start: Any, on_step: OnStep) -> MKLResult:
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
        Price of deviations beyond `epsilon`, :math:`C > 0`, in units of the target for kernels of about unit
        self-similarity. None: its standard deviation, so that its unit and origin do not matter.
    epsilon : float, default=None
        Deviations up to this cost nothing, in units of the target. None: a tenth of its standard deviation.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions in standard deviations of the target.
    indefinite : {"raise", "clip"}, default="raise"
        What to do with kernels that are not positive semidefinite: an error, or their negative eigenvalues removed.
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
        One entry, the objective of the trained machine.
    duality_gap_ : float
        NaN: the weights solve no optimization problem.
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
        kernels: Any = None,
        *,
        C: float | None = None,
        epsilon: float | None = None,
        tol: float = 1e-3,
        indefinite: str = "raise",
        kernel_names: Any = None,
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

    def _learn(self, stack: DenseStack, targets: np.ndarray, start: Any, on_step: OnStep) -> MKLResult:
        inner = check_tube(self.C, self.epsilon)
        return fit_uniform(stack, targets, inner, float(self.tol) * spread_of(targets))


class BestKernelClassifier(DiscriminativeClassifier):
    r"""Support vector machine on the one kernel that does best in cross-validation.

    .. math:: m^\star = \arg\max_m \frac1F \sum_{f=1}^F \operatorname{accuracy}_f(K_m)

    Kernels compete on folds of the training samples, the same for all of them [1]_; the first of equals wins.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=1.0
        Price of margin violations, :math:`C > 0`.
    cv : int, cross-validation generator or iterable, default=5
        Number of stratified, shuffled folds, or what scikit-learn takes for `cv`.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes: a kernel of its own for each class, by binary accuracy, or one for all,
        by the accuracy of the class of the highest score.
    indefinite : {"raise", "clip"}, default="raise"
        What to do with kernels that are not positive semidefinite: an error, or their negative eigenvalues removed.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    random_state : int or None, default=None
        Seed of the folds. None is a fixed seed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, attributes marked * get a leading axis of length n_classes, or are tuples of that
        length; under ``multiclass="shared"`` only `dual_coef_` and `intercept_` do.
    kernel_weights_ : ndarray of shape (n_kernels,) *
        One for the chosen kernel, zero for the others.
    cv_scores_ : ndarray of shape (n_kernels,) *
        Mean accuracy of each kernel over the folds.
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
        One entry, the objective of the trained machine(s).
    duality_gap_ : float *
        NaN: the weights solve no optimization problem.
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
    UniformMKLClassifier : All kernels instead of one.

    Notes
    -----
    Trains `cv` machines per kernel (and class). Tune `C` around it, with GridSearchCV.

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

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        cv: Any = 5,
        tol: float = 1e-3,
        multiclass: str = "one-versus-rest",
        indefinite: str = "raise",
        kernel_names: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.cv = cv
        self.tol = tol
        self.multiclass = multiclass
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scale("C", self.C)
        check_number("tol", self.tol, low=0.0)
        check_folds("cv", self.cv)

    def _fit_tasks(self, stack: DenseStack, targets: np.ndarray, start: Any = None) -> None:
        self._accuracies: list[np.ndarray] = []
        super()._fit_tasks(stack, targets, start)
        scores = np.stack(self._accuracies)
        self.cv_scores_ = scores if len(scores) > 1 else scores[0]
        del self._accuracies

    def _learn(self, stack: DenseStack, targets: np.ndarray, start: Any, on_step: OnStep) -> MKLResult:
        inner, folds = Hinge(float(self.C)), self._folds(targets)
        result, accuracies = fit_best_kernel(stack, targets, inner, folds, float(self.tol))
        self._accuracies.append(accuracies)
        return result

    def _folds(self, targets: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return training and validation positions of every fold."""
        labels = (targets[0] > 0.0).astype(int) if len(targets) == 1 else targets.argmax(axis=0)
        if isinstance(self.cv, (int, np.integer)) and not isinstance(self.cv, bool):
            n_folds = check_integer("cv", self.cv, low=2)
            most = int(np.bincount(labels).max())
            if most < n_folds:
                raise ValueError(
                    f"`cv` must not exceed the number of samples of the largest class; got cv={n_folds} with classes "
                    f"of at most {most}. Use fewer folds."
                )
            seed = 0 if self.random_state is None else self.random_state
            if isinstance(seed, np.random.Generator):  # which scikit-learn does not take
                seed = int(seed.integers(2**31))
            if np.bincount(labels).min() < n_folds:
                return _dealt_folds(labels, n_folds, check_random_state(seed))
            splitter: Any = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        else:
            splitter = check_cv(self.cv, labels, classifier=True)
        return list(splitter.split(np.zeros((len(labels), 1)), labels))


def _dealt_folds(
    labels: np.ndarray, n_folds: int, rng: np.random.RandomState
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Deal the samples of every class over the folds, also of a class with fewer samples than folds."""
    fold, dealt = np.empty(len(labels), dtype=np.intp), 0
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        fold[rows] = (dealt + np.arange(len(rows))) % n_folds
        dealt += len(rows)
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]
