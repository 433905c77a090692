"""LMKL as scikit-learn estimators: gates and SVM learned together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Seed, Targets
from bayesmkl._utils.validation import check_choice
from bayesmkl.discriminative.estimators.checked import OnStep, check_tube
from bayesmkl.discriminative.estimators.feature_gated import FeatureGatedClassifier, FeatureGatedRegressor
from bayesmkl.discriminative.estimators.learned_gates import (
    INNER_TOL,
    absolute_errors,
    are_wrong,
    check_lmkl,
    described,
    learn_gates,
    most_steps,
    scaled_features,
    warn_of_descent,
)
from bayesmkl.discriminative.estimators.localized import BaseLocalized, LocalFit, Rows
from bayesmkl.discriminative.estimators.shared_docs import GATED, REGRESSOR
from bayesmkl.discriminative.estimators.solvers import (
    check_svm,
    fit_cached_columns,
    takes_bank_by_columns,
)
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.localized.lmkl import LMKLResult, add_voters, gates_at, predict_lmkl
from bayesmkl.discriminative.svm.one_kernel import precomputed_kernels
from bayesmkl.kernels.geometry import mean_row

if TYPE_CHECKING:
    from bayesmkl._estimator import BaseMKL
    from bayesmkl.discriminative.gating import Gating, KernelGating
    from bayesmkl.kernels.bank import KernelBank


READOUTS = ("svm", "vote")


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
        each kernel has a center and a width, gates sum to one; starts are of two kinds, `spread` 0.1 and 1 of
        :class:`~bayesmkl.discriminative.GaussianGating`. Or an object such as
        :class:`~bayesmkl.discriminative.GroupGating`, :class:`~bayesmkl.discriminative.JaxGating` for functions of
        JAX, :class:`~bayesmkl.discriminative.FixedGating` for gates that are known, or one of your own with the
        methods `init`, `gates` and `pullback`. Or gates that are found before the SVM: those of another classifier,
        ``SwMKLClassifier()``, which is fitted on the same kernels and, where they are named, features of the gates;
        or a :class:`~bayesmkl.discriminative.KernelGating`.
    readout : {"svm", "vote"}, default="svm"
        What reads the gates: one SVM on the gated kernel; or an SVM per kernel, on the samples where its share of the
        gates is at least 1 / n_kernels, and their vote, weighted by shares, as in
        :class:`~bayesmkl.discriminative.LDMKLClassifier`.
    %(gate_columns)s
    solver : {"lbfgs", "armijo", "paper"}, default="lbfgs"
        Quasi-Newton steps, gradient steps with a line search, or the line search of the original, which doubles and
        halves.
    n_init : int, default=1
        Random starts, of which the one that ends lowest is kept; for "gaussian" of each kind.
    fallback : bool or "auto", default="auto"
        Compare with equal gates, those of :class:`~bayesmkl.discriminative.UniformMKLClassifier`, in three folds, and
        keep these unless errors at held-out samples fall by more than one standard error. "auto": where neither
        `gate_columns` nor `gate_features` say what gates may depend on. Not with `svm="mwu"`.
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
    is_local_ : bool, or ndarray of bool of shape (n_classes,)
        False where equal gates were kept.
    gating_parameters_ : ndarray of shape (n_parameters,) *
        Its parameters, NaN where equal gates were kept. For "softmax" and "sigmoid" these are the rows
        :math:`(v_{m0}, v_m)` of all kernels, for "gaussian" the rows :math:`(s_m, \mu_m)`, one after the other.
    gate_scaler_ : StandardScaler or None
        Scaler of the gate features.
    %(n_gate_features_)s
    %(gate_columns_)s
    dual_coef_ : ndarray of shape (n_samples,) *
        Signed dual coefficients of the SVM; of a vote, (n_kernels, n_samples).
    intercept_ : float *
        Its intercept; of a vote, (n_kernels,).
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) *
        Optimal value of the SVM at the start that was kept and after each of its steps; it never rises.
    duality_gap_ : float *
        Of the SVM at the end. Of the gates there is no such certificate, only a minimum nearby.
    n_iter_, n_solves_ : int *
        Length of the history, and number of SVMs trained, for all starts, without those of another classifier whose
        gates are read.
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
    _gate_features = scaled_features
    _most_steps = most_steps

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        gating: Gating | KernelGating | BaseMKL | str = "softmax",
        readout: str = "svm",
        gate_columns: Sequence[str | int] | np.ndarray | None = None,
        solver: str = "lbfgs",
        n_init: int = 1,
        fallback: bool | str = "auto",
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
        self.readout = readout
        self.gate_columns = gate_columns
        self.solver = solver
        self.n_init = n_init
        self.fallback = fallback
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
        check_lmkl(self)
        if check_choice("readout", self.readout, READOUTS) == "vote" and self.svm != "libsvm":
            raise ValueError(
                f'`svm` must be "libsvm" for a vote, which needs whole kernels; got {self.svm!r}.'
            )

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Fit the bank; with ``svm="mwu"``, return columns that are evaluated on demand."""
        if takes_bank_by_columns(self):
            return fit_cached_columns(self, X, y, **check_y)
        return super()._fit_stack(X, y, **check_y)

    def _learn_task(
        self, training: Rows, target: np.ndarray, inner: InnerProblem, on_step: OnStep
    ) -> LMKLResult:
        result = learn_gates(self, training, target, inner, are_wrong, target, on_step)
        if self.readout == "svm":
            return result
        tol = min(INNER_TOL, 0.1 * self.tol)
        return add_voters(result, precomputed_kernels(training.kernels), target, self.C, tol)

    def _describe(self, result: LMKLResult, stopped: bool) -> LocalFit:
        return described(result)

    def _store_local(self, results: list[LMKLResult], stopped: bool) -> None:
        self.gating_parameters_ = self._of_tasks([result.parameters for result in results])
        local = [result.is_local for result in results]
        self.is_local_ = np.array(local) if len(local) > 1 else local[0]
        BaseLocalized._store_local(self, results, stopped)

    def _components(self, result: LMKLResult, rows: Rows) -> np.ndarray:
        return gates_at(result, rows.kernels, rows.features)[None]

    def _scores_at(self, result: LMKLResult, rows: Rows) -> np.ndarray:
        return predict_lmkl(result, rows.kernels, rows.features)

    def _warn_unless_converged(self, results: Sequence[LocalFit]) -> None:
        normalize = "Normalize the kernels, lower `C`"
        warn_of_descent(self, results, "Lower `mwu_epsilon`" if self.svm == "mwu" else normalize)


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
    fallback : bool or "auto", default="auto"
        Compare with equal gates in three folds, and keep these unless absolute errors at held-out samples fall by
        more than one standard error. "auto": where neither `gate_columns` nor `gate_features` say what gates may
        depend on.
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
    is_local_ : bool
        False where equal gates were kept.
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

    _gate_features = scaled_features
    _most_steps = most_steps
    _describe = LMKLClassifier._describe
    _store_local = LMKLClassifier._store_local
    _components = LMKLClassifier._components
    _scores_at = LMKLClassifier._scores_at

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
        fallback: bool | str = "auto",
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
        self.fallback = fallback
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_lmkl(self)

    def _inner(self, report: Callable[[float], None] | None = None) -> InnerProblem:
        return check_tube(self.C, self.epsilon)

    def _learn_task(
        self, training: Rows, target: np.ndarray, inner: InnerProblem, on_step: OnStep
    ) -> LMKLResult:
        """Learn deviations from the mean, which the intercept takes: a large one would cost their digits."""
        mean = float(mean_row(target))
        alike = np.zeros_like(target)
        result = learn_gates(self, training, target - mean, inner, absolute_errors, alike, on_step)
        return result._replace(intercept=result.intercept + mean)

    def _warn_unless_converged(self, results: Sequence[LocalFit]) -> None:
        warn_of_descent(self, results, "Normalize the kernels, lower `C`")
