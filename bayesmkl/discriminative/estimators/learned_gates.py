"""Parts of the estimators of LMKL: parameters, features of gates, starts, comparison with equal gates, warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bayesmkl._estimator import BaseMKL
from bayesmkl._estimator.gate_features import features_of
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, check_number, shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.checked import OnStep
from bayesmkl.discriminative.estimators.localized import LocalFit, Rows
from bayesmkl.discriminative.folds import evenly_dealt
from bayesmkl.discriminative.gating import KernelGating, check_gating, check_given_gates
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.localized.comparison import Comparison
from bayesmkl.discriminative.localized.fixed_gating import FixedGating
from bayesmkl.discriminative.localized.gatings import (
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
    check_gating_parameters,
)
from bayesmkl.discriminative.localized.lmkl import SOLVERS, LMKLOptions, LMKLResult, fit_at_gates, fit_lmkl
from bayesmkl.discriminative.svm.by_columns import takes_columns
from bayesmkl.discriminative.svm.one_kernel import coefficients_of
from bayesmkl.kernels.stacks.base import StoredStack

SMALLEST_TOL = 1e-12  # of the SVMs, whose rounding errors are larger
INNER_TOL = 1e-4  # of the SVMs, or a tenth of the tolerance where that is less
# Every start of a name is one of each: nearly flat gates, and for Gaussian ones centers at samples, too.
GATINGS = {
    "softmax": (SoftmaxGating(),),
    "sigmoid": (SigmoidGating(),),
    "gaussian": (GaussianGating(), GaussianGating(spread=1.0)),
}
N_FOLDS = 3  # of the comparison with equal gates


def check_lmkl(model: BaseMKL) -> None:
    """Check the parameters that classifier and regressor have in common."""
    _options(model), _standardizes(model), _starts(model), _falls_back(model, named=True)


def _options(model: BaseMKL) -> LMKLOptions:
    tol = check_number("tol", model.tol, low=0.0)
    return LMKLOptions(
        solver=check_choice("solver", model.solver, SOLVERS),
        tol=tol,
        max_iter=check_integer("max_iter", model.max_iter, low=1),
        n_init=check_integer("n_init", model.n_init, low=1),
        inner_tol=min(INNER_TOL, max(0.1 * tol, SMALLEST_TOL)),
    )


def _starts(model: BaseMKL) -> tuple[Any, ...]:
    """Return the gating, and the same gates started in other ways."""
    gating = model.gating
    if isinstance(gating, str):
        return GATINGS[check_choice("gating", gating, tuple(GATINGS))]
    if isinstance(gating, (BaseMKL, ModelGates)):
        return (_of_model(model, gating),)
    if isinstance(gating, KernelGating) and not isinstance(gating, type):
        _refuse_before(model, "gates that are found before the SVM")
        return (gating,)
    methods = ("init", "gates", "pullback")
    if isinstance(gating, type) or not all(callable(getattr(gating, name, None)) for name in methods):
        raise ValueError(
            f"`gating` must be one of {', '.join(map(repr, GATINGS))}, an object with the methods "
            f"{', '.join(f'`{name}`' for name in methods)}, or a classifier with gates; got {gating!r}."
        )
    check_gating_parameters(gating)
    return (gating,)


class ModelGates(NamedTuple):
    """Gates of another classifier: `KernelGating`.

    Parameters
    ----------
    model : classifier
        Localized or global. It is fitted on the same kernels, precomputed, and on features of gates where they are
        named.
    """

    model: Any

    @property
    def sees_features(self) -> bool:
        """Return whether gates of the classifier can be functions of features."""
        return "gate_columns" in self.model.get_params(deep=False)

    def fit(self, features: np.ndarray | None, kernels: StoredStack, target: np.ndarray) -> ModelGates:
        """Fit a clone of the classifier."""
        model = clone(self.model).set_params(kernels="precomputed")
        named = {} if features is None else {"gate_features": features}
        return ModelGates(model.fit(_array(kernels), target, **named))

    def values(self, features: np.ndarray | None, kernels: StoredStack) -> np.ndarray:
        """Return its gates at rows, (n_kernels, n_rows)."""
        named = {} if features is None else {"gate_features": features}
        return self.model.gates(_array(kernels), **named).T


def _array(kernels: StoredStack) -> np.ndarray:
    """Return kernels as estimators take them, (n_rows, n_train, n_kernels)."""
    return np.stack(list(kernels.each()), axis=-1)


def _of_model(model: BaseMKL, gating: Any) -> ModelGates:
    """Return the gates of a classifier, if it has some that an SVM can read."""
    name = type(gating).__name__
    if not is_classifier(gating) or not callable(getattr(gating, "gates", None)):
        raise ValueError(
            f"`gating` must be a classifier that has `gates`; {name} is none. Take SwMKLClassifier()."
        )
    if "gating" in gating.get_params(deep=False):
        raise ValueError(
            f"`gating` must be a classifier with other gates than those of {type(model).__name__}; got {name}. Pass "
            "its own `gating`."
        )
    _refuse_before(model, f"gates of {name}")
    gates = ModelGates(gating)
    if model.gate_columns is not None and not gates.sees_features:
        raise ValueError(
            f"`gate_columns` must be None with gates of {name}, which see the kernels only; got "
            f"{shown(model.gate_columns)}. Leave the columns out of `views` instead."
        )
    return gates


def _refuse_before(model: BaseMKL, what: str) -> None:
    """Raise where gates that are found before the SVM cannot be read."""
    if not is_classifier(model):
        raise ValueError(f"`gating` must be learned with the SVM in {type(model).__name__}; got {what}.")
    if model.svm != "libsvm":
        raise ValueError(f'`svm` must be "libsvm" with {what}, which need whole kernels; got {model.svm!r}.')


def most_steps(model: BaseMKL) -> int:
    """Return the largest number of steps of a task, for the progress bar."""
    return int(model.max_iter) * int(model.n_init) * len(_starts(model))


def _standardizes(model: BaseMKL) -> bool:
    if check_flag("standardize", model.standardize) and isinstance(model.gating, GroupGating):
        raise ValueError(
            "`standardize` must be False with GroupGating, whose feature is the number of a group; got True."
        )
    return bool(model.standardize)


def scaled_features(
    model: BaseMKL, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
) -> Any:
    """Return the gate features, scaled by statistics of the training samples."""
    if fitting:
        model.gating_ = _starts(model)[0]
        model.n_gate_features_, model.gate_scaler_ = 0, None
    if isinstance(model.gating_, KernelGating) and not _named(model, gate_features, fitting):
        return None
    features = features_of(model, X, gate_features, n_rows, fitting)
    if fitting:
        model.gate_scaler_ = StandardScaler().fit(features) if _standardizes(model) else None
    scaled = features if model.gate_scaler_ is None else model.gate_scaler_.transform(features)
    if fitting and not isinstance(model.gating, str) and not isinstance(model.gating_, KernelGating):
        check_gating(model.gating_, scaled, model.n_kernels_in_, model._rng())
    return scaled


def _named(model: BaseMKL, gate_features: ArrayLike | None, fitting: bool) -> bool:
    """Return whether gates that are found before the SVM see features."""
    given = gate_features is not None
    if not fitting and model.n_gate_features_ == 0 and given:
        raise ValueError("`gate_features` must be None, as when fitting; got an array. Leave it out.")
    if fitting and given and isinstance(model.gating_, ModelGates) and not model.gating_.sees_features:
        name = type(model.gating_.model).__name__
        raise ValueError(
            f"`gate_features` must be None with gates of {name}, which see the kernels only; got an array."
        )
    return model.n_gate_features_ > 0 if not fitting else given or model.gate_columns is not None


def learn_gates(
    model: BaseMKL,
    training: Rows,
    target: np.ndarray,
    inner: InnerProblem,
    errors: Callable[[np.ndarray, np.ndarray], np.ndarray],
    labels: np.ndarray,
    on_step: OnStep,
) -> LMKLResult:
    """Learn gates, compared with equal ones by `errors` in folds that are stratified by `labels`."""
    gating, *others = _starts(model)
    if isinstance(gating, KernelGating):
        found = gating.fit(training.features, training.kernels, target)
        gates = found.values(training.features, training.kernels)
        name = type(found.model if isinstance(found, ModelGates) else found).__name__
        checked = check_given_gates(name, np.asarray(gates).T, len(target), bounded=False).T
        return fit_at_gates(training.kernels, target, inner, found, checked, _options(model))
    return fit_lmkl(
        training.kernels,
        target,
        training.features,
        inner,
        gating,
        _options(model),
        rng=model._rng(),
        others=others,
        comparison=held_out(model, labels, errors) if _compares(model, inner) else None,
        on_step=on_step,
    )


def _falls_back(model: BaseMKL, named: bool) -> bool:
    """Return whether equal gates may be kept, where features of gates are `named` or not."""
    if isinstance(model.fallback, str) and model.fallback == "auto":
        return not named
    if isinstance(model.fallback, str):
        raise ValueError(f'`fallback` must be "auto", True or False; got {model.fallback!r}.')
    return bool(check_flag("fallback", model.fallback))


def _compares(model: BaseMKL, inner: InnerProblem) -> bool:
    """Return whether the SVMs can be trained in folds, and there are gates to learn."""
    named = model.gate_columns is not None or model.kernel_bank_ is None
    able = not takes_columns(inner) and not isinstance(model.gating_, FixedGating)
    return able and _falls_back(model, named)


def held_out(
    model: BaseMKL, labels: np.ndarray, errors: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Comparison | None:
    """Return three folds and how to judge them; None where a class is too small to be held out."""
    n_folds = min(N_FOLDS, *np.unique(labels, return_counts=True)[1])
    if n_folds < 2:
        return None
    rng = model._rng()
    keys = () if model.kernel_bank_ is None else model.kernel_bank_.X_train_.T[::-1]
    order = np.lexsort((labels, *keys)) if len(keys) else np.arange(len(labels))
    return Comparison(evenly_dealt(order, labels, int(n_folds), rng), errors, rng)


def are_wrong(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return 1 where scores are on the wrong side of zero, 0 elsewhere."""
    return ((scores > 0.0) != (labels > 0.0)).astype(np.float64)


def are_others(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return 1 where another class than that of the label has the highest score, (n_rows, n_classes), 0 elsewhere."""
    return (scores.argmax(axis=1) != labels).astype(np.float64)


def absolute_errors(target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return distances from a real target."""
    return np.abs(target - predicted)


def described(result: LMKLResult) -> LocalFit:
    """Return a result in the fields that all localized methods have."""
    signed_dual, intercept = result.signed_dual, np.asarray(result.intercept)
    if result.voters is not None:
        signed_dual, intercept = coefficients_of(result.voters.svms, result.gates.shape[1])
    return LocalFit(
        gates=result.gates,
        signed_dual=signed_dual,
        intercept=intercept,
        objective_history=result.objective_history,
        duality_gap=result.inner_gap,
        outcome=result.outcome,
        n_solves=result.n_solves,
    )


def warn_of_descent(model: BaseMKL, results: Sequence[LocalFit], accurate: str) -> None:
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
