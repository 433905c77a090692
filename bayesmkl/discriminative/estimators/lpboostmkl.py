"""LP-β, SVMs of single kernels combined by a linear program, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Splits
from bayesmkl._utils.validation import check_folds, check_number, check_scale, shown
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, OnStep
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.folds import stratified_folds
from bayesmkl.discriminative.global_weights.lpboostmkl import LPBoostMKLOptions, fit_lpboostmkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.weights import Training
from bayesmkl.kernels.stacks.base import Stack

if TYPE_CHECKING:
    from bayesmkl.discriminative.global_weights.lpboostmkl import LPBoostMKLResult
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
@dataclass(eq=False, repr=False, kw_only=True)
class LPBoostMKLClassifier(DiscriminativeClassifier):
    r"""LP-β: one SVM per kernel, combined by the weights of largest soft margin in cross-validation.

    .. math:: \max_{\beta \ge 0,\, \sum_m \beta_m = 1,\, \xi \ge 0,\, \rho} \; \rho - \frac{1}{\nu n} \sum_i \xi_i
       \quad\text{subject to}\quad y_i \sum_m \beta_m f_m(x_i) + \xi_i \ge \rho, \qquad
       f(x) = \sum_m \beta_m f_m(x)

    Kernels that tell nothing get no weight, and kernels meet in the sum of scores only [1]_.

    Parameters
    ----------
    %(kernels)s
    C : float, default=1.0
        Penalty of margin violations in the SVMs of all kernels, :math:`C > 0`.
    C_values : sequence of float, default=None
        Values that every kernel chooses its own `C` from, by accuracy in the folds.
    nu : float, default=0.2
        :math:`0 < \nu < 1`, the largest share of samples with a margin below :math:`\rho`. Near 1 the mean margin
        decides, and one kernel gets all; low values heed the samples that are hard to tell.
    %(cv)s
    %(tol:libsvm)s
    multiclass : {"one-versus-rest", "shared"}, default="shared"
        Of more than two classes: one set of weights for all, by the margins of the class of a sample against every
        other one (the paper), or weights of its own for every class against the rest.
    %(indefinite)s
    %(kernel_names)s
    %(random_state:folds)s

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

    kernels: KernelBank | str | None = field(default=None, kw_only=False)
    C: float = 1.0
    C_values: Sequence[float] | np.ndarray | None = None
    nu: float = 0.2
    cv: Splits = 5
    tol: float = 1e-3
    multiclass: str = "shared"
    indefinite: str = "raise"
    kernel_names: Sequence[str] | np.ndarray | None = None
    random_state: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options()
        check_folds("cv", self.cv)

    def _options(self) -> LPBoostMKLOptions:
        nu = check_number("nu", self.nu, low=0.0)
        if nu >= 1.0:
            raise ValueError(f"`nu` must be below 1, a share of the samples; got {nu:g}. Try 0.2.")
        return LPBoostMKLOptions(self._grid(), nu, check_number("tol", self.tol, low=0.0))

    def _grid(self) -> tuple[float, ...]:
        C, values = check_scale("C", self.C), self.C_values
        if values is None:
            return (C,)
        if (
            isinstance(values, str | bytes)
            or not isinstance(values, Sequence | np.ndarray)
            or not len(values)
        ):
            raise ValueError(
                f"`C_values` must be a list of at least one positive number, or None for `C`; got {shown(values)}."
            )
        return tuple(check_scale("C_values", value) for value in values)

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> Any:
        folds = stratified_folds(self.cv, self.random_state, targets)
        return fit_lpboostmkl(training.stack, targets, folds, self._options())

    def _result_of(self, found: LPBoostMKLResult) -> MKLResult:
        return _in_sum(found.voters)

    def _store(self, results: Sequence[Any], n_tasks: int) -> None:
        """Set the fitted attributes; coefficients have an axis for the kernel."""
        super()._store(results, n_tasks)
        dual = np.concatenate([result.voters.signed_dual for result in results])
        self.dual_coef_ = dual if n_tasks > 1 else dual[0]
        prices, margins = [result.C for result in results], [result.margin for result in results]
        own_weights = len(results) > 1
        self.C_ = np.stack(prices) if own_weights else prices[0]
        self.margin_ = np.array(margins) if own_weights else margins[0]

    def _scores_of(self, stack: Stack, used: np.ndarray | slice = slice(None)) -> np.ndarray:
        dual = self.dual_coef_.reshape(-1, *self.dual_coef_.shape[-2:])[:, used]
        weighted = np.atleast_2d(self.kernel_weights_)[:, used, None] * dual
        scores = np.stack([stack.apply(vectors[..., None]).sum(axis=0) for vectors in weighted])
        return scores + np.atleast_1d(self.intercept_)[:, None]


def _in_sum(voters: MKLResult) -> MKLResult:
    """Return a result with the sum of all intercepts, and what a sample adds to the scores at most."""
    weights, magnitudes = voters.kernel_weights, np.abs(voters.signed_dual)
    return voters._replace(
        signed_dual=np.einsum("m,cmi->ci", weights, magnitudes), intercept=voters.intercept @ weights
    )
