"""LMKL as scikit-learn estimators: gates and SVM learned together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bayesmkl._estimator.gate_features import features_of
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Seed, Targets
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, check_number
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.checked import OnStep, check_tube
from bayesmkl.discriminative.estimators.feature_gated import FeatureGatedClassifier, FeatureGatedRegressor
from bayesmkl.discriminative.estimators.localized import LocalFit, Rows
from bayesmkl.discriminative.estimators.shared_docs import GATED, REGRESSOR
from bayesmkl.discriminative.estimators.solvers import (
    check_svm,
    fit_cached_columns,
    takes_bank_by_columns,
)
from bayesmkl.discriminative.gating import check_gating
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.localized.gatings import (
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
    check_gating_parameters,
)
from bayesmkl.discriminative.localized.lmkl import SOLVERS, LMKLOptions, LMKLResult, fit_lmkl, predict_lmkl
from bayesmkl.kernels.geometry import mean_row

if TYPE_CHECKING:
    from bayesmkl._estimator import BaseMKL
    from bayesmkl.discriminative.gating import Gating
    from bayesmkl.kernels.bank import KernelBank


__all__ = ["LMKLClassifier", "LMKLRegressor"]

GATINGS = {"softmax": SoftmaxGating(), "sigmoid": SigmoidGating(), "gaussian": GaussianGating()}
SMALLEST_TOL = 1e-12  # of the SVMs, whose rounding errors are larger
INNER_TOL = 1e-4  # of the SVMs, or a tenth of the tolerance where that is less


def _check_lmkl(model: BaseMKL) -> None:
    """Check the parameters that classifier and regressor have in common."""
    _options(model), _standardizes(model), _gating_object(model.gating)


def _options(model: BaseMKL) -> LMKLOptions:
    tol = check_number("tol", model.tol, low=0.0)
    return LMKLOptions(
        solver=check_choice("solver", model.solver, SOLVERS),
        tol=tol,
        max_iter=check_integer("max_iter", model.max_iter, low=1),
        n_init=check_integer("n_init", model.n_init, low=1),
        inner_tol=min(INNER_TOL, max(0.1 * tol, SMALLEST_TOL)),
    )


def _gating_object(gating: Gating | str) -> Any:
    if isinstance(gating, str):
        return GATINGS[check_choice("gating", gating, tuple(GATINGS))]
    methods = ("init", "gates", "pullback")
    if isinstance(gating, type) or not all(callable(getattr(gating, name, None)) for name in methods):
        raise ValueError(
            f"`gating` must be one of {', '.join(map(repr, GATINGS))}, or an object with the methods "
            f"{', '.join(f'`{name}`' for name in methods)}; got {gating!r}."
        )
    check_gating_parameters(gating)
    return gating


def _standardizes(model: BaseMKL) -> bool:
    if check_flag("standardize", model.standardize) and isinstance(model.gating, GroupGating):
        raise ValueError(
            "`standardize` must be False with GroupGating, whose feature is the number of a group; got True."
        )
    return bool(model.standardize)


def _scaled_features(
    model: BaseMKL, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
) -> Any:
    """Return the gate features, scaled by statistics of the training samples."""
    features = features_of(model, X, gate_features, n_rows, fitting)
    if fitting:
        model.gating_ = _gating_object(model.gating)
        model.gate_scaler_ = StandardScaler().fit(features) if _standardizes(model) else None
    scaled = features if model.gate_scaler_ is None else model.gate_scaler_.transform(features)
    if fitting and not isinstance(model.gating, str):
        check_gating(model.gating_, scaled, model.n_kernels_in_, model._rng())
    return scaled


def _learn(
    model: BaseMKL, training: Rows, target: np.ndarray, inner: InnerProblem, on_step: OnStep
) -> LMKLResult:
    return fit_lmkl(
        training.kernels,
        target,
        training.features,
        inner,
        model.gating_,
        _options(model),
        rng=model._rng(),
        on_step=on_step,
    )


def _described(result: LMKLResult) -> LocalFit:
    return LocalFit(
        gates=result.gates,
        signed_dual=result.signed_dual,
        intercept=result.intercept,
        objective_history=result.objective_history,
        duality_gap=result.inner_gap,
        outcome=result.outcome,
        n_solves=result.n_solves,
    )


def _warn_of_descent(model: BaseMKL, results: Sequence[LocalFit], accurate: str) -> None:
    """Warn once of descents that did not converge; `accurate` is the remedy for inaccurate SVMs."""
    unfinished = [result for result in results if not result.outcome.converged]
    if not unfinished:
        return
    if any(result.outcome is Outcome.MAX_ITER for result in unfinished):
        gain = max(_last_gain(result.objective_history) for result in unfinished)
        what = (
            f"stopped after max_iter={model.max_iter} steps, the last of them a relative gain of {gain:.1e}"
        )
        remedy = f"above tol={model.tol:g}. Increase `max_iter`, or `tol` if this is accurate enough."
    else:
        what = "stopped where errors of the SVMs hide progress that the gradient promises"
        remedy = f"above tol={model.tol:g}. {accurate}, or raise `tol`."
    warn_user(f"{type(model).__name__} {what}, {remedy}", ConvergenceWarning)


def _last_gain(history: np.ndarray) -> float:
    """Return by which share of it the last step lowered the objective."""
    return float((history[-2] - history[-1]) / max(abs(history[-1]), 1e-300)) if len(history) > 1 else np.inf


@fill_docs(GATED)
class LMKLClassifier(FeatureGatedClassifier):
    r"""Localized multiple kernel learning: how strongly each kernel acts depends on the sample.

    .. math:: \min_{V, w, b} \; \tfrac12 \sum_m \|w_m\|^2
       + C \sum_i \max\big(0, 1 - y_i f(x_i)\big), \qquad
       f(x) = \sum_m \eta_m(x; V) \langle w_m, \phi_m(x) \rangle + b .

    The gates :math:`\eta_m`, between 0 and 1, are functions of features whose parameters :math:`V` are learned
    together with the SVM [1]_. The problem is not convex in :math:`V`.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel, and the features of the gates are
        passed as `gate_features`. None is ``KernelBank()``.
    %(C)s
    gating : {"softmax", "sigmoid", "gaussian"} or Gating, default="softmax"
        "softmax": kernels compete, gates sum to one at every sample. "sigmoid": each gate for itself. "gaussian":
        each kernel has a center and a width, gates sum to one. Or an object such as
        :class:`~bayesmkl.discriminative.GroupGating`, or one of your own with the methods `init`, `gates` and
        `pullback`.
    %(gate_columns)s
    solver : {"lbfgs", "armijo", "paper"}, default="lbfgs"
        Quasi-Newton steps, gradient steps with a line search, or the line search of the original, which doubles and
        halves.
    n_init : int, default=1
        Random starts, of which the one that ends lowest is kept.
    standardize : bool, default=True
        Scale the features of the gates to mean 0 and standard deviation 1 over the training samples; constant ones
        become 0. Kernels do not see this.
    svm : {"libsvm", "mwu"}, default="libsvm"
        Solver of the SVM on the gated kernel. "mwu" trains by multiplicative weights from single columns, so that
        with a bank no training kernel is ever formed; its loss is the squared hinge,
        :math:`\tfrac C2 \sum_i \max(0, 1 - y_i f(x_i))^2`.
    mwu_epsilon : float, default=0.05
        Accuracy of "mwu", between 0 and 1.
    tol : float, default=1e-3
        Stop when a step lowers the objective by no more than this fraction of it.
    max_iter : int, default=100
        Maximum number of iterations from one start.
    %(indefinite)s
    %(kernel_names)s
    random_state : int or Generator, default=None
        Seed of the random starts, the same for every class. None is a fixed seed.
    %(verbose)s

    Attributes
    ----------
    %(classes_:separate)s
    gates_ : ndarray of shape (n_samples, n_kernels) *
        Gates at the training samples.
    gating_ : Gating
        Gates as a function of parameters and (standardized) features.
    gating_parameters_ : ndarray of shape (n_parameters,) *
        Its parameters. For "softmax" and "sigmoid" these are the rows :math:`(v_{m0}, v_m)` of all kernels, for
        "gaussian" the rows :math:`(s_m, \mu_m)`, one after the other.
    gate_scaler_ : StandardScaler or None
        Scaler of the gate features.
    %(n_gate_features_)s
    %(gate_columns_)s
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) *
        Optimal value of the SVM at the start that was kept and after each of its steps; it never rises.
    duality_gap_ : float *
        Of the SVM at the end. Of the gates there is no such certificate, only a minimum nearby.
    n_iter_, n_solves_ : int *
        Length of the history, and number of SVMs trained, for all starts.
    outcome_ : Outcome *
        Stopping reason of the descent.
    converged_ : bool
        Whether all descents reached the tolerance.
    results_ : tuple of LMKLResult
        Results of the fit for every class, or one result for two classes.
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    LMKLRegressor : The same for a real-valued target.
    CLMKLClassifier : Gates that are fixed beforehand by clusters, with weights from a convex problem.
    SAMKLClassifier : Kernels that are switched on or off for every sample.

    Notes
    -----
    The page *LMKL* maps equations to functions and lists departures from the paper. Every evaluation of the objective
    trains an SVM, and the gradient costs one more pass over the kernels. The minimum depends on the start:
    `n_init` tries several. `gates` are read sample by sample: a kernel with a gate near zero does not act there.

    References
    ----------
    .. [1] M. Gönen and E. Alpaydın (2008), Localized multiple kernel learning, ICML.
    .. [2] M. Gönen and E. Alpaydın (2013), Localized algorithms for multiple kernel learning, Pattern Recognition
       46(3).

    Examples
    --------
    Left of zero the class is told by the second column, right of it by the third:

    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import LMKLClassifier
    >>> from bayesmkl.kernels import Linear
    >>> X = np.random.default_rng(0).normal(size=(120, 3))
    >>> y = np.where(X[:, 0] < 0, X[:, 1], X[:, 2]) > 0
    >>> bank = KernelBank(Linear(), views={"second": [1], "third": [2]}, normalize=None)
    >>> model = LMKLClassifier(bank).fit(X, y)
    >>> rows = np.array([[-2.0, 1.0, 0.0], [2.0, 1.0, 0.0]])
    >>> print(model.gates(rows).round(1), model.score(X, y) > 0.95)
    [[1. 0.]
     [0. 1.]] True
    """

    _inner = check_svm
    _gate_features = _scaled_features

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        gating: Gating | str = "softmax",
        gate_columns: Sequence[str | int] | np.ndarray | None = None,
        solver: str = "lbfgs",
        n_init: int = 1,
        standardize: bool = True,
        svm: str = "libsvm",
        mwu_epsilon: float = 0.05,
        tol: float = 1e-3,
        max_iter: int = 100,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        random_state: Seed | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.gating = gating
        self.gate_columns = gate_columns
        self.solver = solver
        self.n_init = n_init
        self.standardize = standardize
        self.svm = svm
        self.mwu_epsilon = mwu_epsilon
        self.tol = tol
        self.max_iter = max_iter
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_lmkl(self)

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Fit the bank; with ``svm="mwu"``, return columns that are evaluated on demand."""
        if takes_bank_by_columns(self):
            return fit_cached_columns(self, X, y, **check_y)
        return super()._fit_stack(X, y, **check_y)

    def _most_steps(self) -> int:
        return int(self.max_iter) * int(self.n_init)

    def _learn_task(
        self, training: Rows, target: np.ndarray, inner: InnerProblem, on_step: OnStep
    ) -> LMKLResult:
        return _learn(self, training, target, inner, on_step)

    def _describe(self, result: LMKLResult, stopped: bool) -> LocalFit:
        return _described(result)

    def _store_local(self, results: list[LMKLResult], stopped: bool) -> None:
        self.gating_parameters_ = self._of_tasks([result.parameters for result in results])
        super()._store_local(results, stopped)

    def _components(self, result: LMKLResult, rows: Rows) -> np.ndarray:
        return result.gating.gates(result.parameters, rows.features)[None]

    def _scores_at(self, result: LMKLResult, rows: Rows) -> np.ndarray:
        return predict_lmkl(result, rows.kernels, rows.features)

    def _warn_unless_converged(self, results: Sequence[LocalFit]) -> None:
        normalize = "Normalize the kernels, lower `C`"
        _warn_of_descent(self, results, "Lower `mwu_epsilon`" if self.svm == "mwu" else normalize)


@fill_docs(REGRESSOR, GATED, LMKLClassifier)
class LMKLRegressor(FeatureGatedRegressor):
    r"""Localized multiple kernel learning for a real-valued target.

    .. math:: \min_{V, w, b} \; \tfrac12 \sum_m \|w_m\|^2
       + C \sum_i \max\big(0, |y_i - f(x_i)| - \epsilon\big), \qquad
       f(x) = \sum_m \eta_m(x; V) \langle w_m, \phi_m(x) \rangle + b .

    This is the regression of Gönen and Alpaydın (2013) [1]_: where the target follows different rules in different
    places, gates find the places and the kernel for each.

    Parameters
    ----------
    %(LMKLClassifier.kernels)s
    %(C)s
    %(epsilon)s
    %(LMKLClassifier.gating)s
    %(gate_columns)s
    %(LMKLClassifier.solver)s
    %(LMKLClassifier.n_init)s
    %(LMKLClassifier.standardize)s
    %(LMKLClassifier.tol)s
    %(LMKLClassifier.max_iter)s
    %(indefinite)s
    %(kernel_names)s
    random_state : int or Generator, default=None
        Seed of the random starts. None is a fixed seed.
    %(verbose)s

    Attributes
    ----------
    %(LMKLClassifier.gates_)s
    %(LMKLClassifier.gating_)s
    %(LMKLClassifier.gating_parameters_)s
    %(LMKLClassifier.gate_scaler_)s
    %(n_gate_features_)s
    %(gate_columns_)s
    %(dual_coef_)s
    %(intercept_)s
    %(support_)s
    %(support_fraction_)s
    n_active_kernels_ : int
        Kernels with a gate above 1e-6 of the largest, at any sample.
    %(LMKLClassifier.objective_history_)s
    %(LMKLClassifier.duality_gap_)s
    %(LMKLClassifier.n_iter_, n_solves_)s
    %(LMKLClassifier.outcome_)s
    %(converged_)s
    results_ : tuple of LMKLResult
        Result of the fit.
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    LMKLClassifier : The same for classes, with notes on the algorithm.

    References
    ----------
    .. [1] M. Gönen and E. Alpaydın (2013), Localized algorithms for multiple kernel learning, Pattern Recognition
       46(3).

    Examples
    --------
    A slope on either side of zero:

    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import LMKLRegressor
    >>> from bayesmkl.kernels import Linear
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> y = np.where(X[:, 0] < 0, X[:, 1], -2 * X[:, 2])
    >>> bank = KernelBank(Linear(), views={"second": [1], "third": [2]}, normalize=None)
    >>> model = LMKLRegressor(bank, C=10).fit(X, y)
    >>> print(model.score(X, y) > 0.9, model.gates(np.array([[-2.0, 0.0, 0.0]])).round(1))
    True [[1. 0.]]
    """

    _gate_features = _scaled_features

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float | None = None,
        epsilon: float | None = None,
        gating: Gating | str = "softmax",
        gate_columns: Sequence[str | int] | np.ndarray | None = None,
        solver: str = "lbfgs",
        n_init: int = 1,
        standardize: bool = True,
        tol: float = 1e-3,
        max_iter: int = 100,
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        random_state: Seed | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.epsilon = epsilon
        self.gating = gating
        self.gate_columns = gate_columns
        self.solver = solver
        self.n_init = n_init
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check_lmkl(self)

    def _inner(self, report: Callable[[float], None] | None = None) -> InnerProblem:
        return check_tube(self.C, self.epsilon)

    def _most_steps(self) -> int:
        return int(self.max_iter) * int(self.n_init)

    def _learn_task(
        self, training: Rows, target: np.ndarray, inner: InnerProblem, on_step: OnStep
    ) -> LMKLResult:
        """Learn deviations from the mean, which the intercept takes: a large one would cost their digits."""
        mean = float(mean_row(target))
        result = _learn(self, training, target - mean, inner, on_step)
        return result._replace(intercept=result.intercept + mean)

    def _describe(self, result: LMKLResult, stopped: bool) -> LocalFit:
        return _described(result)

    def _store_local(self, results: list[LMKLResult], stopped: bool) -> None:
        self.gating_parameters_ = self._of_tasks([result.parameters for result in results])
        super()._store_local(results, stopped)

    def _components(self, result: LMKLResult, rows: Rows) -> np.ndarray:
        return result.gating.gates(result.parameters, rows.features)[None]

    def _scores_at(self, result: LMKLResult, rows: Rows) -> np.ndarray:
        return predict_lmkl(result, rows.kernels, rows.features)

    def _warn_unless_converged(self, results: Sequence[LocalFit]) -> None:
        _warn_of_descent(self, results, "Normalize the kernels, lower `C`")
