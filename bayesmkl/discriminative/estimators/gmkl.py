"""GMKL as a scikit-learn estimator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, shown
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, OnStep
from bayesmkl.discriminative.estimators.checked import check_hinge, check_stopping
from bayesmkl.discriminative.estimators.path import path_over_C
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes
from bayesmkl.discriminative.global_weights import gmkl
from bayesmkl.discriminative.global_weights.gmkl import GMKLOptions, combine_product, fit_gmkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.training import Training
from bayesmkl.kernels.stacks.base import StoredStack

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
class GMKLClassifier(DiscriminativeClassifier):
    r"""Generalized multiple kernel learning: sums or products of kernels, with any regularizer.

    .. math:: \min_{d \ge 0} \; r(d) + \min_{w, b} \; \tfrac12 \|w\|^2
       + C \sum_i \max(0, 1 - y_i f(x_i)) \quad\text{with}\quad
       K(d) = \sum_m d_m K_m \;\text{ or }\; K(d)_{ij} = \prod_m (K_m)_{ij}^{d_m}

    A product of Gaussian kernels of single features (``views="each"``) learns a width for each of them [1]_.

    Parameters
    ----------
    %(kernels)s
    %(C)s
    regularizer : {"l1", "uniform"} or callable, default="l1"
        "l1" is :math:`\sum_m d_m` [1]_. "uniform" is :math:`\tfrac12 \|d - 1/P\|^2` with weights on the simplex,
        which [3]_ compares with. A callable takes weights of shape (n_kernels,) and returns :math:`r(d)` and its
        gradient; both must be finite for all :math:`d \ge 0`.
    combination : {"sum", "product"}, default="sum"
        How kernels are combined. A product needs kernels whose entries are positive.
    solver : {"spg", "pg"}, default="spg"
        Spectral projected gradients [2]_, or projected gradients with a monotone line search [1]_.
    tol : float, default=1e-3
        Largest duality gap, or measure of stationarity where there is none, relative to the objective.
    %(max_iter)s, default=1000
    %(multiclass)s
    %(class_weight)s
    %(indefinite)s
    %(kernel_names)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights :math:`d \ge 0`; on the simplex with "uniform".
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective after every step; never rises with "pg".
    duality_gap_ : float +
        Primal minus dual value of a sum with "l1" or "uniform"; NaN otherwise, where no dual is known.
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
    SimpleMKLClassifier : A bound on the sum of the weights instead of a penalty.

    Notes
    -----
    The page *Optimized weights* maps equations to functions. Sums are convex problems if the regularizer is
    convex. Products are not: what is found is a stationary point below the start at equal weights. Their loop stops
    when the objective changes by less than `tol`, to first order, as all weights move by their own size. It can
    be slow; raise `tol` if a warning says so. Powers of a kernel need not be positive semidefinite; those of Gaussian
    and Laplacian kernels are.

    Products hold the logarithms of all kernels, another :math:`8 P N^2` bytes.

    References
    ----------
    .. [1] M. Varma and B. R. Babu (2009), More generality in efficient multiple kernel learning, ICML.
    .. [2] A. Jain, S. V. N. Vishwanathan and M. Varma (2012), SPG-GMKL: generalized multiple kernel learning with a
       million kernels, KDD.
    .. [3] P. Wang, D. Cai, G. Zhang, Y. Bai, F. Cai and T. Zhang (2014), Empirical optimal kernel for convex multiple
       kernel learning.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import GMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> y = X[:, 0] * X[:, 1] > 0                                    # no feature says anything alone
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> model = GMKLClassifier(bank, combination="product", regularizer="uniform").fit(X, y)
    >>> model.kernel_weights_.round(1)
    array([0.5, 0.5, 0. , 0. ])
    """

    fit = fit_weighted_classes
    path = path_over_C

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        regularizer: str | Callable[[np.ndarray], tuple[float, np.ndarray]] = "l1",
        combination: str = "sum",
        solver: str = "spg",
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
        self.regularizer = regularizer
        self.combination = combination
        self.solver = solver
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

    def _options(self) -> GMKLOptions:
        regularizer = self.regularizer
        is_name = isinstance(regularizer, str) and regularizer in gmkl.REGULARIZERS
        if not is_name and not _takes_one_argument(regularizer):
            raise ValueError(
                f"`regularizer` must be one of {', '.join(map(repr, gmkl.REGULARIZERS))}, or a function that takes "
                f"kernel weights and returns a value and its gradient; got {shown(regularizer)}."
            )
        return GMKLOptions(
            regularizer,
            check_choice("combination", self.combination, gmkl.COMBINATIONS),
            check_choice("solver", self.solver, gmkl.SOLVERS),
            **check_stopping(self),
        )

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[StoredStack, np.ndarray]:
        stack, y = super()._fit_stack(X, y, **check_y)
        if self.combination == "product":
            self._refuse_entries(stack, [kernel <= 0.0 for kernel in stack.each()], "positive")
        return stack, y

    def _refuse_entries(self, stack: StoredStack, refused: list[np.ndarray], wanted: str) -> None:
        found = np.flatnonzero([entries.any() for entries in refused])
        if found.size:
            m = found[0]
            (kernel,) = stack.each([m])
            more = f", and {found.size - 1} more kernels" if found.size > 1 else ""
            raise ValueError(
                f'`combination="product"` needs kernels with {wanted} entries: kernel {self.kernel_names_[m]!r} has '
                f"{np.count_nonzero(refused[m])} others, down to {kernel.min():.3g}{more}. Use Gaussian or "
                'Laplacian kernels, wider ones if they underflow to zero, or `combination="sum"`.'
            )

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_hinge(self.C, training.weights.costs)
        return fit_gmkl(training.stack, targets, inner, self._options(), start, on_step)

    def _combine(self, stack: StoredStack, kernel_weights: np.ndarray) -> np.ndarray:
        if self.combination == "sum":
            return super()._combine(stack, kernel_weights)
        self._refuse_entries(stack, [kernel < 0.0 for kernel in stack.each()], "nonnegative")
        return combine_product(stack, kernel_weights)

    def gates(self, X: Samples | None = None) -> np.ndarray:
        r"""Return the same gates for every row, :math:`\sqrt{d_m}`; a product of kernels has none.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            Or (n_classes, n_rows, n_kernels) where every class has kernel weights of its own.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            With ``combination="product"``, and for an `X` that `predict` refuses.
        %(TypeError:X)s
        """
        if self.combination == "product":
            raise ValueError(
                '`combination` must be "sum" for gates: a product of kernels is no weighted sum of them; '
                'got "product". Look at `kernel_weights_`.'
            )
        return super().gates(X)


def _takes_one_argument(function: object) -> bool:
    """Return whether something can be called with kernel weights alone."""
    if not callable(function) or isinstance(function, type):
        return False
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # some functions of compiled modules do not tell
        return True
    return True
