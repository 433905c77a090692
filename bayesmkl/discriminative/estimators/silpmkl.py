"""Multiple kernel learning as a semi-infinite linear program, a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, OnStep
from bayesmkl.discriminative.estimators.checked import check_hinge, check_stopping
from bayesmkl.discriminative.estimators.path import path_over_C
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes
from bayesmkl.discriminative.global_weights.silpmkl import SILPMKLOptions, fit_silpmkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
class SILPMKLClassifier(DiscriminativeClassifier):
    r"""SimpleMKL's problem as a semi-infinite linear program, solved by cutting planes.

    .. math:: \max_{\theta,\, \beta \ge 0,\, \sum_m \beta_m = 1} \; \theta \quad\text{subject to}\quad
       \sum_m \beta_m \Big(\tfrac12 v^\top K_m v - \sum_i \alpha_i\Big) \ge \theta
       \;\text{ for all }\; 0 \le \alpha \le C,\; y^\top \alpha = 0, \qquad v = \alpha \circ y

    An SVM finds the constraint that the present weights violate most, a linear program finds the next weights [1]_.
    The optimum is that of SimpleMKL.

    Parameters
    ----------
    %(kernels)s
    %(C)s
    %(tol)s
    %(max_iter)s, default=1000
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    %(kernel_weights_:sparse)s +
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective of the best weights after every step; it never rises.
    %(duality_gap_)s +
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
    SimpleMKLClassifier : The same optimum by gradients, with fewer iterations where much accuracy is asked for.

    Notes
    -----
    The page *SILP* maps equations to functions and lists departures. Weights jump between corners of the simplex
    until there are enough constraints, so that a low `max_iter` may end far from the optimum; `duality_gap_` says how
    far. Kernels that are equal share their weight in any way. An iteration takes one SVM (one per class with
    ``multiclass="shared"``), one pass over the kernels, and a linear program with `n_kernels` unknowns and one
    constraint per iteration so far.

    References
    ----------
    .. [1] S. Sonnenburg, G. Rätsch, C. Schäfer and B. Schölkopf (2006), Large scale multiple kernel learning, JMLR 7.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SILPMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views="each")
    >>> model = SILPMKLClassifier(bank).fit(X[50:], y[50:])
    >>> for name, weight in zip(model.kernel_names_, model.kernel_weights_):
    ...     if weight > 0.01:
    ...         print(f"{name}: {weight:.1f}")
    gaussian(width=1) · x2: 0.5
    gaussian(width=1) · x3: 0.5
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_history_[-1])
    True
    """

    fit = fit_weighted_classes
    path = path_over_C

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        multiclass: str = "one-versus-rest",
        class_weight: Mapping[Any, float] | str | None = None,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_hinge(self.C), self._options()

    def _options(self) -> SILPMKLOptions:
        return SILPMKLOptions(**check_stopping(self))

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_hinge(self.C, training.weights.costs)
        return fit_silpmkl(training.stack, targets, inner, self._options(), start, on_step)
