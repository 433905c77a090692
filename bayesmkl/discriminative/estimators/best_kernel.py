"""The best single kernel as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.typing import Splits
from bayesmkl._utils.validation import check_folds, check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    OnStep,
)
from bayesmkl.discriminative.estimators.folds import stratified_folds
from bayesmkl.discriminative.global_weights.best_kernel import fit_best_kernel
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.base import StoredStack

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


__all__ = ["BestKernelClassifier"]


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
        Regularization parameter, :math:`C > 0`: penalty of margin violations.
    cv : int, cross-validation generator or iterable, default=5
        Number of stratified, shuffled folds, or what scikit-learn takes for `cv`.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes: a kernel of its own for each class, by binary accuracy, or one for all,
        by the accuracy of the class of the highest score.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.
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
        One entry, the objective of the trained SVM(s).
    duality_gap_ : float *
        NaN: the weights solve no optimization problem.
    n_iter_, n_solves_ : int *
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome *
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

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        cv: Splits = 5,
        tol: float = 1e-3,
        multiclass: str = "one-versus-rest",
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
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

    def _learn(
        self, stack: StoredStack, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> tuple[MKLResult, np.ndarray]:
        """Return result and accuracies."""
        folds = stratified_folds(self.cv, self.random_state, targets)
        return fit_best_kernel(stack, targets, Hinge(float(self.C)), folds, float(self.tol))

    def _result_of(self, found: tuple[MKLResult, np.ndarray]) -> MKLResult:
        return found[0]

    def _store(self, found: Sequence[tuple[MKLResult, np.ndarray]], n_tasks: int) -> None:
        super()._store(found, n_tasks)
        scores = np.stack([accuracies for _, accuracies in found])
        self.cv_scores_ = scores if len(scores) > 1 else scores[0]
