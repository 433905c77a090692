"""SimpleMKL as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.validation import check_choice
from bayesmkl.discriminative.estimators.base import DiscriminativeClassifier, DiscriminativeRegressor, OnStep
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.estimators.optimizing import check_hinge, check_stopping
from bayesmkl.discriminative.estimators.path import path_over_C
from bayesmkl.discriminative.global_weights import simplemkl
from bayesmkl.discriminative.global_weights.simplemkl import SimpleMKLOptions, fit_simplemkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.kernels.stacks.base import StoredStack

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative
    from bayesmkl.kernels.bank import KernelBank


__all__ = ["SimpleMKLClassifier", "SimpleMKLRegressor"]


def _options(model: BaseDiscriminative) -> SimpleMKLOptions:
    return SimpleMKLOptions(check_choice("solver", model.solver, simplemkl.SOLVERS), **check_stopping(model))


class SimpleMKLClassifier(DiscriminativeClassifier):
    r"""SimpleMKL: the convex combination of kernels with the best soft margin.

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, 1 - y_i \big(\textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle + b\big)\Big)

    The constraint makes weights sparse [1]_: few kernels are kept.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=1.0
        Regularization parameter, :math:`C > 0`: penalty of margin violations.
    solver : {"spg", "reduced-gradient"}, default="spg"
        "spg", spectral projected gradients, needs several times fewer SVMs; "reduced-gradient" is the algorithm
        of the paper. Both find the same optimum.
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        Of more than two classes: kernel weights of its own for every class against the rest, or one set for all.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, attributes marked * have a leading axis of length n_classes (or are tuples), those
        marked + only with ``multiclass="one-versus-rest"``.
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights on the simplex, most of them exactly zero.
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual :math:`\alpha_i y_i`, zero off the support.
    intercept_ : float *
        The intercept `b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors, in any class.
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels with a weight above 1e-6 of the largest, in any class.
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective :math:`J` after every step; never rises with "reduced-gradient", may do so for a while with "spg".
    duality_gap_ : float +
        Primal minus dual value, a bound of the distance from the optimum.
    n_iter_, n_solves_ : int +
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome +
        Stopping reason of the optimization of the weights.
    converged_ : bool
        Whether it reached its tolerance everywhere.
    clipping_ : Clipping or None
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
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_hinge(self.C), _options(self)

    def _learn(
        self, stack: StoredStack, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        return fit_simplemkl(stack, targets, check_hinge(self.C), _options(self), start, on_step)


class SimpleMKLRegressor(DiscriminativeRegressor):
    r"""SimpleMKL for a real-valued target.

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + C \sum_i \max\Big(0, \big|y_i - \textstyle\sum_m \langle w_m, \phi_m(x_i) \rangle - b\big| - \epsilon\Big)

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    C : float, default=None
        Penalty of deviations beyond `epsilon`, :math:`C > 0`, in units of the target for kernels of about unit
        self-similarity. None: its standard deviation, so that its unit and origin do not matter.
    epsilon : float, default=None
        Deviations up to this cost nothing, in units of the target. None: a tenth of its standard deviation.
    solver : {"spg", "reduced-gradient"}, default="spg"
        "spg", spectral projected gradients, needs several times fewer SVMs; "reduced-gradient" is the algorithm
        of the paper. Both find the same optimum.
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    kernel_weights_ : ndarray of shape (n_kernels,)
        Weights on the simplex, most of them exactly zero.
    dual_coef_ : ndarray of shape (n_samples,)
        Coefficients of the training samples, zero off the support.
    intercept_ : float
        The intercept `b`.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors.
    support_fraction_ : float
        Their share of the training samples.
    n_active_kernels_ : int
        Kernels with a weight above 1e-6 of the largest.
    objective_history_ : ndarray of shape (n_iter_,)
        Objective :math:`J` after every step; never rises with "reduced-gradient", may do so for a while with "spg".
    duality_gap_ : float
        Primal minus dual value, a bound of the distance from the optimum.
    n_iter_, n_solves_ : int
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome
        Stopping reason of the optimization of the weights.
    converged_ : bool
        Whether it reached its tolerance.
    clipping_ : Clipping or None
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
        self, stack: StoredStack, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        return fit_simplemkl(stack, targets, check_tube(self.C, self.epsilon), _options(self), start, on_step)
