"""MWUMKL as a scikit-learn estimator that never forms a training kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, OnStep
from bayesmkl.discriminative.estimators.checked import fit_columns
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.global_weights.mwumkl import MWUOptions, fit_mwumkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.weights import Training

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
@dataclass(eq=False, repr=False, kw_only=True)
class MWUMKLClassifier(DiscriminativeClassifier):
    r"""Multiple kernel learning by multiplicative weights, in memory linear in the number of samples.

    .. math:: \min_{d, w, b}\; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + \tfrac{C}{2} \sum_i \max(0, 1 - y_i f(x_i))^2 , \qquad d \ge 0,\ \sum_m r_m d_m = 1 ,

    with :math:`f(x) = \sum_m \langle w_m, \phi_m(x) \rangle + b` and :math:`r_m` the mean of the diagonal of kernel
    `m` (one for a bank with unit self-similarities). With a bank, single columns of the kernels are evaluated when
    the algorithm [1]_ asks for them: it needs :math:`O(PN)` memory for `P` kernels and `N` samples, where other
    methods need :math:`O(PN^2)`.

    Parameters
    ----------
    %(kernels)s
    C : float, default=1.0
        Factor of the squared hinge loss.
    epsilon : float, default=0.05
        Accuracy, between 0 and 1. The number of steps grows as its inverse square at worst.
    stopping : {"gap", "paper"}, default="gap"
        "gap" stops when the duality gap is at most `epsilon` times the objective. "paper" makes
        :math:`\lceil 2 \ln N / \epsilon^2 \rceil` steps at a constant rate, after which the distance of the hulls is
        known up to `epsilon` times its largest possible value.
    max_iter : int, default=50000
        Maximum number of iterations. One takes two columns of every kernel.
    cache_mb : float, default=100.0
        Memory for columns that may be asked for again, in MB. With a bank only.
    %(multiclass)s
    %(indefinite)s
        "clip" evaluates all kernels in full.
    %(kernel_names)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights :math:`d_m`.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual coefficients of all training samples.
    %(intercept_)s *
    %(support_:coefficients)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Least primal value after every step.
    %(duality_gap_)s +
    n_iter_, n_solves_ : int +
        Steps.
    outcome_ : Outcome +
        How the iteration ended.
    converged_ : bool
        Whether the accuracy was reached everywhere.
    n_columns_ : int
        Columns that were evaluated, in each of the kernels. With a bank only.
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(clipping_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    PrimalMKLClassifier : The same problem, solved to high accuracy from kernels in memory.

    Notes
    -----
    ``bayesmkl.discriminative.global_weights.mwumkl`` lists where this departs from the paper. The paper scales
    kernels to trace one; its `C` is :math:`N` times this one.

    A bank with callables or other kernels that may be indefinite is tested on the kernels among 200 samples, not on
    whole kernels. Predictions work in blocks of rows.
    :class:`~bayesmkl.kernels.FromDistance` with a scale to learn takes all distances of the training samples at once.

    References
    ----------
    .. [1] J. Moeller, P. Raman, S. Venkatasubramanian and A. Saha (2014), A geometric algorithm for scalable multiple
       kernel learning, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import MWUMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.abs(X[:, 0]) > 0.7                                    # the second column says nothing
    >>> model = MWUMKLClassifier(KernelBank(Gaussian(width=1), views="each"), C=10.0).fit(X, y)
    >>> print(model.kernel_weights_.round(2), model.score(X, y) > 0.95, model.n_columns_ < 400)
    [...] True True
    """

    kernels: KernelBank | str | None = field(default=None, kw_only=False)
    C: float = 1.0
    epsilon: float = 0.05
    stopping: str = "gap"
    max_iter: int = 50_000
    cache_mb: float = 100.0
    multiclass: str = "one-versus-rest"
    indefinite: str = "raise"
    kernel_names: Sequence[str] | np.ndarray | None = None
    verbose: int = 1

    def _options(self) -> MWUOptions:
        epsilon = check_scale("epsilon", self.epsilon)
        if epsilon >= 1.0:
            raise ValueError(
                f"`epsilon` must be below 1, a share of the objective; got {epsilon:g}. Try 0.05."
            )
        return MWUOptions(
            C=check_scale("C", self.C),
            epsilon=epsilon,
            stopping=check_choice("stopping", self.stopping, ("gap", "paper")),
            max_iter=check_integer("max_iter", self.max_iter, low=1),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options()
        check_number("cache_mb", self.cache_mb, low=0.0, inclusive=True)

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Fit the bank, and return columns that are evaluated on demand."""
        if self._holds_kernels():
            return super()._fit_stack(X, y, **check_y)
        return fit_columns(self, X, y, float(self.cache_mb), **check_y)

    def _holds_kernels(self) -> bool:
        return self._is_precomputed() or self.indefinite == "clip"

    def _fit_tasks(self, training: Any, targets: np.ndarray, start: np.ndarray | None = None) -> None:
        super()._fit_tasks(training, targets, start)
        if not self._holds_kernels():
            self.n_columns_ = training.stack.n_evaluated

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        return fit_mwumkl(training.stack, targets, self._options(), on_step)

    def _warn_unless_converged(self, results: Sequence[MKLResult]) -> None:
        unfinished = [result for result in results if not result.outcome.converged]
        if not unfinished:
            return
        gap = max(result.duality_gap / result.objective_history[-1] for result in unfinished)
        if all(result.outcome is Outcome.MAX_ITER for result in unfinished):
            message = (
                f"stopped after max_iter={self.max_iter} steps with a relative duality gap of {gap:.1e}, "
                f'epsilon={self.epsilon:g} (stopping="{self.stopping}"). Increase `max_iter` or `epsilon`.'
            )
        else:
            message = (
                "met a dual value above a primal one, which only kernels that are not positive semidefinite allow. "
                'Leave such kernels out, or use `indefinite="clip"`.'
            )
        warn_user(f"{type(self).__name__} {message}", ConvergenceWarning)
