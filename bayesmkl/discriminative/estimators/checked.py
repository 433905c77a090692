"""Checks of parameters and kernels, clipping of indefinite ones, kernels by columns, weights of samples, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._estimator import BaseMKL, check_targets, encode_labels
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_scale, float_of, shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.inner import OnStep as OnStep
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.precomputed import SharedKernels
from bayesmkl.kernels.quality import KernelQualityWarning, describe_indefinite, fit_clipping, judge_for_svm
from bayesmkl.kernels.stacks.base import KernelColumns, Stack
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative


INDEFINITE = ("raise", "clip")
SINGLE_PRECISION = 1e-6  # of the Frobenius norm: what float32 leaves of a zero eigenvalue
CHECKED_SAMPLES = 200  # whose kernels are checked where whole kernels are never formed
ACTIVE = 1e-6  # of the largest weight: kernels above it count as active
SUPPORT = 1e-8  # of the largest coefficient: samples above it count as support


ROUNDING = 1e-15  # of the entries of a kernel


def check_above_rounding(name: str, value: float, stack: KernelColumns) -> None:
    """Raise for a regularization that rounding errors of the kernels exceed, so that it has no effect."""
    smallest = ROUNDING * float(np.max(np.mean(stack.diagonal(), axis=-1)))
    if value < smallest:
        raise ValueError(
            f"`{name}` must be at least {smallest:.1e} with these kernels, whose rounding errors are as large; got "
            f"{value:g}. Raise it, or normalize the kernels."
        )


def check_tube(
    C: float | None, epsilon: float | None, weights: np.ndarray | None = None
) -> EpsilonInsensitive:
    """Return support vector regression with valid parameters; None is for what suits the target."""
    return EpsilonInsensitive(
        None if C is None else check_scale("C", C),
        None if epsilon is None else check_scale("epsilon", epsilon, zero=True),
        weights,
    )


def check_definite(
    model: BaseDiscriminative, stack: DenseStack, known_psd: np.ndarray | None, lost: np.ndarray
) -> DenseStack:
    """Reject or clip indefinite kernels: only without them are the problems of these methods convex.

    Parameters
    ----------
    model : estimator
        Gets `clipping_`.
    stack : Stack
        Training kernels.
    known_psd : ndarray of bool of shape (n_kernels,) or None
        Kernels that need no test of definiteness; None tests all.
    lost : ndarray of shape (n_kernels,)
        Rounding errors that centering leaves.
    """
    names = list(model.kernel_names_)
    kernels = stack.columns(slice(None))
    found, doubts = judge_for_svm(kernels, names, known_psd, SINGLE_PRECISION, lost)
    if found and model.indefinite == "raise":
        raise ValueError(
            f"`X`: not positive semidefinite: {describe_indefinite(kernels, names, found)}. Leave such "
            'kernels out, or remove their negative eigenvalues with `indefinite="clip"`.'
        )
    if doubts:
        warn_user(doubts, KernelQualityWarning)
    model.clipping_ = fit_clipping(kernels, found) if found else None
    return clip_rows(model, stack)


def is_shared(model: BaseMKL, X: Any) -> bool:
    """Return whether `X` are parts of shared kernels, for a model of precomputed ones."""
    return model._is_precomputed() and isinstance(X, SharedKernels)


def take_shared(model: BaseDiscriminative, X: Any, y: Targets) -> Any:
    """Validate training targets, and kernels that are parts of shared ones; all of these are judged, once.

    Parts of kernels that are definite are so as well.

    Returns
    -------
    tuple of SharedKernels and ndarray, or None
        None for all else, indefinite kernels, those that are not square and those of one sample included.
    """
    if not is_shared(model, X) or len(X) < 2 or not np.array_equal(X.rows, X.train):
        return None
    several = model._takes_several_targets
    y = check_targets(y, len(X), type(model).__name__, numeric=not is_classifier(model), several=several)
    model.__dict__.pop("feature_names_in_", None)  # of a fit before
    model.n_features_in_, model._column_labels = len(X), None
    model.kernel_bank_, model.clipping_ = None, None
    model.kernel_names_ = model._names(_numbered(X.n_kernels))
    model.n_kernels_in_ = X.n_kernels
    names = tuple(model.kernel_names_)
    if names not in X.known:
        X.known[names] = judge_for_svm(X.whole, names, None, SINGLE_PRECISION)
    found, doubts = X.known[names]
    if found:
        return None
    if doubts:
        warn_user(doubts, KernelQualityWarning)
    return X, y


@lru_cache(maxsize=8)  # many fits in a row are of as many kernels
def _numbered(n_kernels: int) -> tuple[str, ...]:
    return tuple(f"kernel {m}" for m in range(n_kernels))


def clip_rows(model: BaseDiscriminative, stack: DenseStack, kernels: np.ndarray | None = None) -> DenseStack:
    """Clip rows of kernels as the training kernels were; `kernels` are the positions of those in the stack."""
    if model.clipping_ is None:
        return stack
    return DenseStack(model.clipping_.apply(stack.columns(slice(None)), kernels))


def bank_errors(model: BaseMKL, stack: Stack) -> np.ndarray:
    """Bound the rounding errors that centering by the bank leaves in the kernels, (n_kernels,)."""
    return np.zeros(stack.n_kernels) if model.kernel_bank_ is None else model.kernel_bank_.centering_errors()


def fit_columns(
    model: BaseMKL, X: Samples, y: Targets, cache_mb: float, **check_y: Any
) -> tuple[BankColumns, np.ndarray]:
    """Validate training data and fit the bank as `_fit_stack` does, but form no training kernel.

    Kernels among some of the samples stand for all where they are checked.
    """
    bank, y = fit_bank(model, X, y, **check_y)
    stack = BankColumns(bank, cache_mb)
    check_among_some(model, stack)
    return stack, y


def fit_bank(model: BaseMKL, X: Samples, y: Any, **check_y: Any) -> tuple[KernelBank, np.ndarray]:
    """Validate training data and fit the bank."""
    table, y = model._fit_rows(X, y, check_y)
    bank = model._new_bank(table).fit(table)
    model.kernel_bank_, model.n_kernels_in_ = bank, bank.n_kernels_
    model.kernel_names_ = model._names(bank.kernel_names_)
    return bank, y


def check_among_some(model: BaseMKL, stack: BankColumns) -> None:
    """Check the kernels among some training samples."""
    checked = np.linspace(0, stack.n_train - 1, min(stack.n_train, CHECKED_SAMPLES)).astype(int)
    model._check_kernels(stack.principal(checked.tolist()), stack.bank.kernels_known_psd_)


def store_convergence(model: BaseMKL, results: Sequence[Any]) -> None:
    """Set how the optimization of each result converged; attributes of several results are arrays or tuples."""
    each: dict[str, list[Any]] = {
        "objective_history_": [result.objective_history for result in results],
        "duality_gap_": [result.duality_gap for result in results],
        "n_iter_": [max(1, len(result.objective_history)) for result in results],
        "outcome_": [result.outcome for result in results],
        "n_solves_": [result.n_solves for result in results],
    }
    for name, values in each.items():
        if len(results) == 1:
            setattr(model, name, values[0])
        else:
            as_tuple = name in ("objective_history_", "outcome_")
            setattr(model, name, tuple(values) if as_tuple else np.array(values))
    model.converged_ = all(result.outcome.converged for result in results)


def warn_unless_converged(model: BaseDiscriminative, results: Sequence[Any], stopping: Any = None) -> None:
    """Issue one ConvergenceWarning with the largest gap; `stopping` has `tol` and `max_iter`, else the model."""
    unfinished = [result for result in results if not result.outcome.converged]
    stopping = model if stopping is None else stopping
    tol, max_iter = stopping.tol, getattr(stopping, "max_iter", 1)
    if not unfinished or tol == 0.0:
        return
    scales = [max(abs(float(result.objective_history[-1])), 1e-300) for result in unfinished]
    gaps = [result.duality_gap / scale for result, scale in zip(unfinished, scales, strict=True)]
    gap = f"a relative duality gap of {np.nanmax(gaps):.1e}" if np.isfinite(gaps).any() else "no certificate"
    if any(result.outcome is Outcome.MAX_ITER for result in unfinished):
        what = f"stopped after max_iter={max_iter} steps with {gap}"
        remedy = "Increase `max_iter`, or `tol` if this is accurate enough."
    else:
        what = f"stopped with {gap}, where errors of the SVMs inside hide further progress"
        simpler = "lower `C`" if model.PATH_PARAMETER == "C" else f"raise `{model.PATH_PARAMETER}`"
        remedy = f"Normalize the kernels, {simpler}, or raise `tol` if this is accurate enough."
    warn_user(f"{type(model).__name__} {what}, above tol={tol:g}. {remedy}", ConvergenceWarning)


def position_of(model: BaseMKL, kernel: int | str) -> int:
    """Return the position of a kernel that is given by position or name."""
    if isinstance(kernel, str):
        found = np.flatnonzero(model.kernel_names_ == kernel)
        if found.size:
            return int(found[0])
    elif isinstance(kernel, int | np.integer) and -model.n_kernels_in_ <= kernel < model.n_kernels_in_:
        return int(kernel) % model.n_kernels_in_
    raise ValueError(
        f"`kernel` must be a position from 0 to {model.n_kernels_in_ - 1} or one of {list(model.kernel_names_)}; "
        f"got {kernel!r}."
    )


def check_class_weight(class_weight: Any) -> None:
    """Raise for what can be no weights of classes, whatever the classes are.

    Examples
    --------
    >>> check_class_weight({"rare": 0.0})
    Traceback (most recent call last):
    ...
    ValueError: `class_weight` must hold finite numbers > 0; got 0.0 for class 'rare'. To leave a class out, leave ...
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            '`class_weight` must be None, "balanced" or a dict of a weight for each class; got '
            f"{shown(class_weight)}. Weights of single samples are the `sample_weight` of `fit`."
        )
    for label, weight in class_weight.items():
        if not 0.0 < float_of(weight) < np.inf:
            raise ValueError(
                f"`class_weight` must hold finite numbers > 0; got {shown(weight)} for class {shown(label)}. To "
                "leave a class out, leave its samples out."
            )


def encode_counted(y: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return classes and targets of `encode_labels`; samples that do not count make no class, and are of none.

    Examples
    --------
    >>> encode_counted(np.array([2, 0, 1, 0]), np.array([0.0, 1.0, 3.0, 1.0]))
    (array([0, 1]), array([[-1., -1.,  1., -1.]]))
    """
    if counts is None:
        return encode_labels(y)
    kept = np.flatnonzero(counts)
    classes, encoded = encode_labels(np.asarray(y)[kept])
    targets = np.full((len(encoded), len(counts)), -1.0)
    targets[:, kept] = encoded
    return classes, targets


def weigh(
    class_weight: Any, classes: np.ndarray, y: np.ndarray, counts: np.ndarray | None
) -> np.ndarray | None:
    r"""Return factors of `C`, (n_samples,): `counts` times the weight of the class; None where all are one.

    "balanced" is :math:`W / (K W_c)`, with the sum :math:`W_c` of the counts of class `c`, their total `W`, and `K`
    classes.

    Examples
    --------
    >>> weigh("balanced", np.array([0, 1]), np.array([0, 1, 1, 1]), np.array([3.0, 1.0, 1.0, 1.0]))
    array([3., 1., 1., 1.])
    """
    if class_weight is None:
        return counts
    among = np.asarray(y)[:, None] == classes
    ones = np.ones(len(among)) if counts is None else counts
    if isinstance(class_weight, Mapping):
        factors = _of_classes(class_weight, classes)
    else:
        factors = ones.sum() / (len(classes) * (ones @ among))
    costs = ones * (among @ factors)
    return None if np.all(costs == 1.0) else costs


def _of_classes(class_weight: Mapping[Any, Any], classes: np.ndarray) -> np.ndarray:
    """Return the weight of each class, one where none is given; refuse labels that are likely misspelled."""
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    without = [label for label in labels if label not in class_weight]
    if unknown and without:
        raise ValueError(
            f"`class_weight` must name classes of `y`, {shown(labels)}; got {shown(unknown)}, and no weight for "
            f"{shown(without)}. Use the labels as they are in `y`."
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def refuse_clipped(model: BaseDiscriminative, counts: np.ndarray | None) -> None:
    """Raise where kernels were clipped by eigenvalues that count all samples once."""
    if counts is not None and model.clipping_ is not None:
        raise ValueError(
            '`sample_weight` must be None where `indefinite="clip"` clips kernels, whose eigenvalues count every '
            "sample once; got kernels that are not positive semidefinite. Leave them out, or repeat samples."
        )
