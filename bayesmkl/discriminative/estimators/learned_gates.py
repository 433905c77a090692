"""Parts of the estimators of LMKL: parameters, features of gates, starts, comparison with equal gates, warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bayesmkl._estimator.gate_features import features_of
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, check_number
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.checked import OnStep
from bayesmkl.discriminative.estimators.folds import evenly_dealt
from bayesmkl.discriminative.estimators.localized import LocalFit, Rows
from bayesmkl.discriminative.gating import check_gating
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
from bayesmkl.discriminative.localized.lmkl import SOLVERS, LMKLOptions, LMKLResult, fit_lmkl
from bayesmkl.discriminative.svm.by_columns import takes_columns

if TYPE_CHECKING:
    from bayesmkl._estimator import BaseMKL


__all__ = [
    "absolute_errors",
    "are_wrong",
    "check_lmkl",
    "described",
    "held_out",
    "learn_gates",
    "most_steps",
    "scaled_features",
    "warn_of_descent",
]

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
    methods = ("init", "gates", "pullback")
    if isinstance(gating, type) or not all(callable(getattr(gating, name, None)) for name in methods):
        raise ValueError(
            f"`gating` must be one of {', '.join(map(repr, GATINGS))}, or an object with the methods "
            f"{', '.join(f'`{name}`' for name in methods)}; got {gating!r}."
        )
    check_gating_parameters(gating)
    return (gating,)


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
    features = features_of(model, X, gate_features, n_rows, fitting)
    if fitting:
        model.gating_ = _starts(model)[0]
        model.gate_scaler_ = StandardScaler().fit(features) if _standardizes(model) else None
    scaled = features if model.gate_scaler_ is None else model.gate_scaler_.transform(features)
    if fitting and not isinstance(model.gating, str):
        check_gating(model.gating_, scaled, model.n_kernels_in_, model._rng())
    return scaled


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


def absolute_errors(target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return distances from a real target."""
    return np.abs(target - predicted)


def described(result: LMKLResult) -> LocalFit:
    """Return a result in the fields that all localized methods have."""
    return LocalFit(
        gates=result.gates,
        signed_dual=result.signed_dual,
        intercept=result.intercept,
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
