"""OBMKL as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    OnStep,
)
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes
from bayesmkl.discriminative.global_weights.obmkl import (
    ALTERNATING,
    METHODS,
    WITH_GRAM,
    OBMKLOptions,
    fit_obmkl,
)
from bayesmkl.discriminative.global_weights.two_stage import with_gram
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
class OBMKLClassifier(DiscriminativeClassifier):
    r"""Kernel weights by the empirical optimal kernel, then an SVM.

    .. math:: \min_{\eta \in \Delta} \; \Big\| \sum_m \eta_m K_m - K_{opti} \Big\|_F^2, \qquad
       [K_{opti}]_{ij} = \begin{cases} \max_m [K_m]_{ij} & y_i = y_j \\ \min_m [K_m]_{ij} & y_i \ne y_j
       \end{cases}

    Parameters
    ----------
    %(kernels)s
    %(C)s
    method : {"ratio", "qp", "aqp", "aqp-paper"}, default="qp"
        "ratio": weights proportional to the alignment of each kernel with :math:`K_{opti}`, eq. 10 of [1]_. "qp": the
        problem above, eq. 12. "aqp": the same with every pair weighted by the duals of its samples, in turn with the
        SVM, eqs. 14 and 15, with steps halved where weights swing. "aqp-paper": that with full steps throughout.
    tol : float, default=1e-4
        "aqp" stops when no weight changes by more; also the tolerance of LibSVM.
    max_iter : int, default=50
        Maximum number of alternations of "aqp".
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
    %(verbose)s

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

    fit = fit_weighted_classes

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        method: str = "qp",
        tol: float = 1e-4,
        max_iter: int = 50,
        multiclass: str = "one-versus-rest",
        class_weight: Mapping[Any, float] | str | None = None,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("tol", self.tol, low=0.0)
        check_choice("method", self.method, METHODS)
        check_scale("C", self.C)
        check_integer("max_iter", self.max_iter, low=1)

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[Training, np.ndarray]:
        training, targets = super()._prepare(X, y, sample_weight)
        counts = training.weights.counts
        if counts is not None and self.method in ALTERNATING:
            raise ValueError(
                f'`sample_weight` must be None with `method="{self.method}"`, which weights pairs by duals: copies '
                'of a sample share its dual in no fixed way. Use "qp" or "ratio", or repeat samples.'
            )
        return with_gram(training, self.method in WITH_GRAM), targets

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        options = OBMKLOptions(self.method, float(self.tol), int(self.max_iter))
        inner, counts = Hinge(float(self.C), training.weights.costs), training.weights.counts
        return fit_obmkl(training.stack, targets, inner, options, training.gram, on_step, counts)
