"""The best single kernel as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Splits
from bayesmkl._utils.validation import check_folds, check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    OnStep,
)
from bayesmkl.discriminative.estimators.folds import stratified_folds
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.global_weights.best_kernel import fit_best_kernel
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
class BestKernelClassifier(DiscriminativeClassifier):
    r"""Support vector machine on the one kernel that does best in cross-validation.

    .. math:: m^\star = \arg\max_m \frac1F \sum_{f=1}^F \operatorname{accuracy}_f(K_m)

    Kernels compete on folds of the training samples, the same for all of them [1]_; the first of equals wins.

    Parameters
    ----------
    %(kernels)s
    %(C)s
    %(cv)s
    %(tol:libsvm)s
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes: a kernel of its own for each class, by binary accuracy, or one for all,
        by the accuracy of the class of the highest score.
    %(indefinite)s
    %(kernel_names)s
    %(random_state:folds)s

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
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> tuple[MKLResult, np.ndarray]:
        """Return result and accuracies."""
        folds = stratified_folds(self.cv, self.random_state, targets)
        return fit_best_kernel(training.stack, targets, Hinge(float(self.C)), folds, float(self.tol))

    def _result_of(self, found: tuple[MKLResult, np.ndarray]) -> MKLResult:
        return found[0]

    def _store(self, found: Sequence[tuple[MKLResult, np.ndarray]], n_tasks: int) -> None:
        super()._store(found, n_tasks)
        scores = np.stack([accuracies for _, accuracies in found])
        self.cv_scores_ = scores if len(scores) > 1 else scores[0]
