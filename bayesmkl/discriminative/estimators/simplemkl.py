"""SimpleMKL as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_choice
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, DiscriminativeRegressor, OnStep
from bayesmkl.discriminative.estimators.checked import check_hinge, check_stopping, check_tube
from bayesmkl.discriminative.estimators.path import path_over_C
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER, REGRESSOR
from bayesmkl.discriminative.estimators.weighted import fit_weighted_classes, fit_weighted_target
from bayesmkl.discriminative.global_weights import simplemkl
from bayesmkl.discriminative.global_weights.simplemkl import SimpleMKLOptions, fit_simplemkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative
    from bayesmkl.kernels.bank import KernelBank


def _options(model: BaseDiscriminative) -> SimpleMKLOptions:
    return SimpleMKLOptions(check_choice("solver", model.solver, simplemkl.SOLVERS), **check_stopping(model))


@fill_docs(CLASSIFIER)
class SimpleMKLClassifier(DiscriminativeClassifier):
    r"""SimpleMKL: the convex combination of kernels with the best soft margin.

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, 1 - y_i \big(\textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle + b\big)\Big)

    The constraint makes weights sparse [1]_: few kernels are kept.

    Parameters
    ----------
    %(kernels)s
    %(C)s
    solver : {"spg", "reduced-gradient"}, default="spg"
        "spg", spectral projected gradients, needs several times fewer SVMs; "reduced-gradient" is the algorithm
        of the paper. Both find the same optimum.
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
        Objective :math:`J` after every step; never rises with "reduced-gradient", may do so for a while with "spg".
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
    LpMKLClassifier : Weights that are not sparse; with ``p_norm=1`` the same problem.
    SimpleMKLRegressor : The same for a real-valued target.

    Notes
    -----
    The page *Optimized weights* maps equations to functions and lists departures. Kernels of larger
    trace are preferred: normalize them (a bank does). Kernels that are equal share their weight in any way.

    A step reads the kernels whose weight moved and, of the others, the entries between support vectors; memory is
    that of the stack plus at most a quarter of it. The first step is one pass over all :math:`P N^2` entries.

    References
    ----------
    .. [1] A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet (2008), SimpleMKL, JMLR 9.
    .. [2] E. G. Birgin, J. M. Martínez and M. Raydan (2000), Nonmonotone spectral projected gradient methods on
       convex sets, SIAM J. Optim. 10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SimpleMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views="each")
    >>> model = SimpleMKLClassifier(bank).fit(X[50:], y[50:])
    >>> for name, weight in zip(model.kernel_names_, model.kernel_weights_):
    ...     if weight > 0.01:
    ...         print(f"{name}: {weight:.1f}")
    gaussian(width=1) · x2: 0.5
    gaussian(width=1) · x3: 0.5
    >>> path = model.path(X[50:], y[50:], C_values=[0.1, 1.0, 10.0])
    >>> path.kernel_weights.shape
    (3, 8)
    """

    fit = fit_weighted_classes
    path = path_over_C

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
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
        check_hinge(self.C), _options(self)

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_hinge(self.C, training.weights.costs)
        return fit_simplemkl(training.stack, targets, inner, _options(self), start, on_step)


@fill_docs(REGRESSOR, SimpleMKLClassifier)
class SimpleMKLRegressor(DiscriminativeRegressor):
    r"""SimpleMKL for a real-valued target.

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, \big|y_i - \textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle - b\big| - \epsilon\Big)

    Parameters
    ----------
    %(kernels)s
    %(C)s
    %(epsilon)s
    %(SimpleMKLClassifier.solver)s
    %(tol)s
    %(max_iter)s, default=1000
    %(indefinite)s
    %(kernel_names)s
    %(verbose)s

    Attributes
    ----------
    %(SimpleMKLClassifier.kernel_weights_)s
    %(dual_coef_)s
    %(intercept_)s
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    %(SimpleMKLClassifier.objective_history_)s
    %(duality_gap_)s
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
    SimpleMKLClassifier : The same for classes, with notes on the algorithm.

    References
    ----------
    .. [1] A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet (2008), SimpleMKL, JMLR 9, §5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SimpleMKLRegressor
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(80, 3))
    >>> bank = KernelBank(Gaussian(width=1), views="each")
    >>> model = SimpleMKLRegressor(bank, C=10).fit(X, np.sin(X[:, 1]))
    >>> model.kernel_weights_.round(1)
    array([0., 1., 0.])
    """

    fit = fit_weighted_target
    path = path_over_C

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float | None = None,
        epsilon: float | None = None,
        solver: str = "spg",
        tol: float = 1e-3,
        max_iter: int = 1000,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.epsilon = epsilon
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_tube(self.C, self.epsilon), _options(self)

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        inner = check_tube(self.C, self.epsilon, training.weights.costs)
        return fit_simplemkl(training.stack, targets, inner, _options(self), start, on_step)
