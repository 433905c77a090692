"""LMKL as scikit-learn estimators: gates and SVM learned together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._estimator.gate_features import features_of
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, check_number, shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.estimators.localized import (
    FeatureGatedClassifier,
    FeatureGatedRegressor,
    LocalizedParameters,
    Rows,
    are_wrong,
)
from bayesmkl.discriminative.estimators.shared_docs import GATED, REGRESSOR
from bayesmkl.discriminative.gating import (
    FixedGating,
    Gating,
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
    check_gating,
    check_gating_parameters,
)
from bayesmkl.discriminative.localized import lmkl
from bayesmkl.discriminative.problems import OnStep
from bayesmkl.discriminative.svm.one_kernel import precomputed_kernels, takes_columns
from bayesmkl.kernels.geometry import mean_row
from bayesmkl.kernels.stacks.base import Stack

READOUTS = ("svm", "vote")
SMALLEST_TOL = 1e-12  # of the SVMs, whose rounding errors are larger
INNER_TOL = 1e-4  # of the SVMs, or a tenth of the tolerance where that is less
# Every start of a name is one of each: nearly flat gates, and for Gaussian ones centers at samples, too.
GATINGS = {
    "softmax": (SoftmaxGating(),),
    "sigmoid": (SigmoidGating(),),
    "gaussian": (GaussianGating(), GaussianGating(spread=1.0)),
}


class ModelGates(NamedTuple):
    """Gates of another classifier.

    Parameters
    ----------
    model : classifier
        Localized or global, fitted on the same kernels, precomputed, and on features of gates where they are named.
    """

    model: Any

    @property
    def sees_features(self) -> bool:
        """Return whether gates of the classifier can be functions of features."""
        return "gate_columns" in self.model.get_params(deep=False)

    def fit(self, training: Rows, target: np.ndarray) -> ModelGates:
        """Fit a clone of the classifier."""
        model = clone(self.model).set_params(kernels="precomputed")
        return ModelGates(model.fit(_array(training.kernels), target, **_named(training.features)))

    def at(self, rows: Rows) -> np.ndarray:
        """Return its gates at rows, (n_kernels, n_rows)."""
        return self.model.gates(_array(rows.kernels), **_named(rows.features)).T


def _array(kernels: Stack) -> np.ndarray:
    """Return kernels as estimators take them, (n_rows, n_train, n_kernels)."""
    return np.stack(list(kernels.each()), axis=-1)


def _named(features: np.ndarray | None) -> dict[str, np.ndarray]:
    return {} if features is None else {"gate_features": features}


@dataclass(eq=False, repr=False, kw_only=True)
class LearnedGates(LocalizedParameters):
    """What classifier and regressor have in common: parameters, features of gates, starts, comparison, warnings."""

    gating: Gating | BaseMKL | str = "softmax"
    gate_columns: Sequence[str | int] | np.ndarray | None = None
    solver: str = "lbfgs"
    n_init: int = 1
    fallback: bool | str = "auto"
    standardize: bool = True
    tol: float = 1e-3
    max_iter: int = 100

    PER_TASK = ("gating_parameters", "is_local")

    # ------------------------------------------------------------------------------------------- parameters

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options(), self._standardizes(), self._starts(), self._falls_back(named=True)

    def _options(self) -> lmkl.LMKLOptions:
        tol = check_number("tol", self.tol, low=0.0)
        return lmkl.LMKLOptions(
            solver=check_choice("solver", self.solver, lmkl.SOLVERS),
            tol=tol,
            max_iter=check_integer("max_iter", self.max_iter, low=1),
            n_init=check_integer("n_init", self.n_init, low=1),
            inner_tol=min(INNER_TOL, max(0.1 * tol, SMALLEST_TOL)),
        )

    def _standardizes(self) -> bool:
        if check_flag("standardize", self.standardize) and isinstance(self.gating, GroupGating):
            raise ValueError(
                "`standardize` must be False with GroupGating, whose feature is the number of a group; got True."
            )
        return bool(self.standardize)

    def _starts(self) -> tuple[Any, ...]:
        """Return the gating, and the same gates started in other ways."""
        gating = self.gating
        if isinstance(gating, str):
            return GATINGS[check_choice("gating", gating, tuple(GATINGS))]
        if isinstance(gating, BaseMKL):
            return (self._gates_of(gating),)
        methods = ("init", "gates", "pullback")
        if isinstance(gating, type) or not all(callable(getattr(gating, name, None)) for name in methods):
            raise ValueError(
                f"`gating` must be one of {', '.join(map(repr, GATINGS))}, an object with the methods "
                f"{', '.join(f'`{name}`' for name in methods)}, or a classifier with gates; got {gating!r}."
            )
        check_gating_parameters(gating)
        return (gating,)

    def _gates_of(self, gating: BaseMKL) -> ModelGates:
        """Return the gates of a classifier, if it has some that an SVM can read."""
        gates, name = ModelGates(gating), type(gating).__name__
        own = callable(getattr(gating, "gates", None)) and "gating" not in gating.get_params(deep=False)
        if not is_classifier(gating) or not own:
            raise ValueError(
                "`gating` must be a classifier with gates of its own, such as SwMKLClassifier(); got "
                f"{name}. For another LMKL, pass its `gating`."
            )
        if not is_classifier(self):
            raise ValueError(
                f"`gating` must be learned with the SVM in {type(self).__name__}; got gates of {name}."
            )
        if self.svm != "libsvm":
            raise ValueError(
                f'`svm` must be "libsvm" with gates of {name}, which need whole kernels; got {self.svm!r}.'
            )
        if self.gate_columns is not None and not gates.sees_features:
            raise ValueError(
                f"`gate_columns` must be None with gates of {name}, which depend on the kernels only; got "
                f"{shown(self.gate_columns)}. Leave the columns out of `views` instead."
            )
        return gates

    def _falls_back(self, named: bool) -> bool:
        """Return whether equal gates may be kept, where features of gates are `named` or not."""
        if isinstance(self.fallback, str) and self.fallback == "auto":
            return not named
        if not isinstance(self.fallback, bool | np.bool_):
            raise ValueError(f'`fallback` must be "auto", True or False; got {shown(self.fallback)}.')
        return bool(self.fallback)

    # ------------------------------------------------------------------------------------- features of gates

    def _gate_features(
        self, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
    ) -> Any:
        """Return the gate features, scaled by statistics of the training samples."""
        if fitting:
            self.gating_ = self._starts()[0]
            self.n_gate_features_, self.gate_scaler_ = 0, None
        found_before = isinstance(self.gating_, ModelGates)
        if found_before and not self._takes_features(gate_features, fitting):
            return None
        features = features_of(self, X, gate_features, n_rows, fitting)
        if fitting:
            self.gate_scaler_ = StandardScaler().fit(features) if self._standardizes() else None
        scaled = features if self.gate_scaler_ is None else self.gate_scaler_.transform(features)
        if fitting and not isinstance(self.gating, str) and not found_before:
            check_gating(self.gating_, scaled, self.n_kernels_in_, self._rng())
        return scaled

    def _takes_features(self, gate_features: ArrayLike | None, fitting: bool) -> bool:
        """Return whether gates that are found before the SVM see features."""
        given = gate_features is not None
        if fitting and given and not self.gating_.sees_features:
            name = type(self.gating_.model).__name__
            raise ValueError(
                f"`gate_features` must be None with gates of {name}, which depend on the kernels only; got an array."
            )
        if fitting:
            return given or self.gate_columns is not None
        if self.n_gate_features_ == 0 and given:
            raise ValueError("`gate_features` must be None, as when fitting; got an array. Leave it out.")
        return self.n_gate_features_ > 0

    # ----------------------------------------------------------------------------------------------- fitting

    def _most_steps(self) -> int:
        return int(self.max_iter) * int(self.n_init) * len(self._starts())

    def _learn_gates(
        self,
        training: Rows,
        target: np.ndarray,
        inner: Any,
        errors: Callable[[np.ndarray, np.ndarray], np.ndarray],
        labels: np.ndarray,
        on_step: OnStep,
    ) -> lmkl.LMKLResult:
        """Learn gates, compared with equal ones by `errors` in folds that are stratified by `labels`."""
        kernels, features, options = training.kernels, training.features, self._options()
        gating, *others = self._starts()
        if isinstance(gating, ModelGates):
            found = gating.fit(training, target)
            return lmkl.fit_at_gates(kernels, target, inner, found, found.at(training), options)
        named = self.gate_columns is not None or self.kernel_bank_ is None
        compares = (
            not takes_columns(inner) and not isinstance(gating, FixedGating) and self._falls_back(named)
        )
        comparison = self._held_out(labels, errors) if compares else None
        problem = kernels, target, features, inner, gating, options
        return lmkl.fit_lmkl(*problem, rng=self._rng(), others=others, comparison=comparison, on_step=on_step)

    def _components(self, result: lmkl.LMKLResult, rows: Rows) -> np.ndarray:
        found_before = isinstance(result.gating, ModelGates)
        return (result.gating.at(rows) if found_before else result.gates_at(rows.features))[None]

    def _scores_at(self, result: lmkl.LMKLResult, rows: Rows) -> np.ndarray:
        return lmkl.predict_lmkl(result, rows.kernels, self._components(result, rows)[0])

    def _warn_unless_converged(self, results: Sequence[lmkl.LMKLResult]) -> None:
        """Warn once of descents that did not converge."""
        unfinished = [result for result in results if not result.outcome.converged]
        if not unfinished:
            return
        if any(result.outcome is Outcome.MAX_ITER for result in unfinished):
            gain = max(_last_gain(result.objective_history) for result in unfinished)
            what = f"stopped after max_iter={self.max_iter} steps, the last of them a relative gain of {gain:.1e}"
            remedy = f"above tol={self.tol:g}. Increase `max_iter`, or `tol` if this is accurate enough."
        else:
            accurate = "Lower `mwu_epsilon`" if self.svm == "mwu" else "Normalize the kernels, lower `C`"
            what = "stopped because numerical errors of the SVMs hide further progress"
            remedy = f"above tol={self.tol:g}. {accurate}, or raise `tol`."
        warn_user(f"{type(self).__name__} {what}, {remedy}", ConvergenceWarning)


def _last_gain(history: np.ndarray) -> float:
    """Return by which share of it the last step lowered the objective."""
    return float((history[-2] - history[-1]) / max(abs(history[-1]), 1e-300)) if len(history) > 1 else np.inf


@dataclass(eq=False, repr=False, kw_only=True)
@fill_docs(GATED)
class LMKLClassifier(LearnedGates, FeatureGatedClassifier):
    r"""Localized multiple kernel learning: how strongly each kernel acts depends on the sample.

    .. math:: \min_{V, w, b} \; \tfrac12 \sum_m \|w_m\|^2
       + C \sum_i \max\big(0, 1 - y_i f(x_i)\big), \qquad
       f(x) = \sum_m \eta_m(x; V) \langle w_m, \phi_m(x) \rangle + b .

    The gates :math:`\eta_m`, between 0 and 1, are functions of features whose parameters :math:`V` are learned
    together with the SVM [1]_. The problem is not convex in :math:`V`.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted to `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel, and the features of the gates are
        passed as `gate_features`. None is ``KernelBank()``.
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    random_state : int or Generator, default=None
        Seed of the random starts, the same for every class. None is a fixed seed.
    %(verbose)s
    gating : {"softmax", "sigmoid", "gaussian"} or Gating, default="softmax"
        "softmax": kernels compete, and gates sum to one at every sample. "sigmoid": every gate is independent.
        "gaussian": each kernel has a center and a width, and gates sum to one; there are two kinds of starts, with
        `spread` 0.1 and 1 of :class:`~bayesmkl.discriminative.GaussianGating`. You can also pass an object such as
        :class:`~bayesmkl.discriminative.GroupGating`, :class:`~bayesmkl.discriminative.FixedGating` for known gates,
        or your own with the methods `init`, `gates` and `pullback`. Or pass another classifier, such as
        ``SwMKLClassifier()``, to use its gates: it is fitted before the SVM to the same kernels and the same named
        gate features.
    %(gate_columns)s
    solver : {"lbfgs", "paper"}, default="lbfgs"
        "lbfgs": quasi-Newton steps. "paper": the original line search along the gradient, by doubling and halving.
    n_init : int, default=1
        Number of random starts (for "gaussian", of each kind); the one with the lowest objective is kept.
    fallback : bool or "auto", default="auto"
        Whether to compare with the equal gates of :class:`~bayesmkl.discriminative.UniformMKLClassifier` in three
        folds of at most 400 samples. Equal gates are kept unless errors on held-out samples fall by more than one
        standard error. "auto": only if neither `gate_columns` nor `gate_features` are given. Not with `svm="mwu"`.
    standardize : bool, default=True
        Whether to scale the features of the gates to mean 0 and standard deviation 1 over the training samples;
        constant features become 0. Kernels use the original features.
    tol : float, default=1e-3
        Stop when a step lowers the objective by no more than this fraction of it.
    max_iter : int, default=100
        Maximum number of iterations from one start.
    readout : {"svm", "vote"}, default="svm"
        How the gates are used. "svm": one SVM on the gated kernel. "vote": one SVM per kernel, on the samples where
        its share of the gates is at least 1 / n_kernels, and a vote weighted by shares, as in
        :class:`~bayesmkl.discriminative.LDMKLClassifier`.
    svm : {"libsvm", "mwu"}, default="libsvm"
        Solver of the SVM on the gated kernel. "mwu" trains by multiplicative weights from single columns, so that
        with a bank no training kernel is ever formed; its loss is the squared hinge,
        :math:`\tfrac C2 \sum_i \max(0, 1 - y_i f(x_i))^2`.
    mwu_epsilon : float, default=0.05
        Accuracy of "mwu", between 0 and 1.

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
        Duality gap of the final SVM. Gates have no such certificate; they are only a local minimum.
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
    The class depends on the second column left of zero, and on the third column right of it:

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

    readout: str = "svm"
    svm: str = "libsvm"
    mwu_epsilon: float = 0.05

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if check_choice("readout", self.readout, READOUTS) == "vote" and self.svm != "libsvm":
            raise ValueError(
                f'`svm` must be "libsvm" for a vote, which needs whole kernels; got {self.svm!r}.'
            )

    def _learn_task(self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep) -> lmkl.LMKLResult:
        result = self._learn_gates(training, target, inner, are_wrong, target, on_step)
        if self.readout == "svm":
            return result
        tol = min(INNER_TOL, 0.1 * self.tol)
        return lmkl.add_voters(result, precomputed_kernels(training.kernels), target, self.C, tol)


@dataclass(eq=False, repr=False, kw_only=True)
@fill_docs(REGRESSOR, GATED, LMKLClassifier)
class LMKLRegressor(LearnedGates, FeatureGatedRegressor):
    r"""Localized multiple kernel learning for a real-valued target.

    .. math:: \min_{V, w, b} \; \tfrac12 \sum_m \|w_m\|^2
       + C \sum_i \max\big(0, |y_i - f(x_i)| - \epsilon\big), \qquad
       f(x) = \sum_m \eta_m(x; V) \langle w_m, \phi_m(x) \rangle + b .

    This is the regression of Gönen and Alpaydın (2013) [1]_. If the target follows different rules in different
    regions, gates find the regions and the kernel for each.

    Parameters
    ----------
    %(LMKLClassifier.kernels)s
    %(indefinite)s
    %(kernel_names)s
    %(C)s
    random_state : int or Generator, default=None
        Seed of the random starts. None is a fixed seed.
    %(verbose)s
    %(LMKLClassifier.gating)s
    %(gate_columns)s
    %(LMKLClassifier.solver)s
    %(LMKLClassifier.n_init)s
    fallback : bool or "auto", default="auto"
        Whether to compare with equal gates in three folds of at most 400 samples. Equal gates are kept unless
        absolute errors on held-out samples fall by more than one standard error. "auto": only if neither
        `gate_columns` nor `gate_features` are given.
    %(LMKLClassifier.standardize)s
    %(LMKLClassifier.tol)s
    %(LMKLClassifier.max_iter)s
    %(epsilon)s

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

    C: float | None = None
    epsilon: float | None = None

    def _inner(self, report: Callable[[float], None] | None = None) -> Any:
        return check_tube(self.C, self.epsilon)

    def _learn_task(self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep) -> lmkl.LMKLResult:
        """Learn deviations from the mean, which the intercept takes: a large one would cost their digits."""
        mean, alike = float(mean_row(target)), np.zeros_like(target)
        errors = lambda target, predicted: np.abs(target - predicted)
        result = self._learn_gates(training, target - mean, inner, errors, alike, on_step)
        return result._replace(intercept=result.intercept + mean)
