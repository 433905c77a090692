"""Parts of the estimators of SwMKL and LD-MKL: kernels for LibSVM, and kernels of the gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.gate_features import features_of, refuse_gate_features
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale, shown
from bayesmkl.discriminative.estimators.checked import SINGLE_PRECISION, check_among_some, fit_bank
from bayesmkl.discriminative.estimators.localized import BaseLocalized, Rows
from bayesmkl.discriminative.folds import evenly_dealt
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.localized.success import Folds, SuccessOptions
from bayesmkl.discriminative.svm.by_columns import ByColumns
from bayesmkl.discriminative.svm.native import NativeKernel, native_kernels
from bayesmkl.discriminative.svm.one_kernel import (
    NOT_HELD,
    InOrder,
    OneKernel,
    PrecomputedKernel,
    precomputed_kernels,
    row_blocks,
)
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.functions import Gaussian
from bayesmkl.kernels.quality import describe_indefinite, indefinite_kernels
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack

if TYPE_CHECKING:
    from bayesmkl._estimator import BaseMKL


GATE_TARGETS = ("auto", "cv", "train")
OWN, AUTO = "own", "auto"
WIDTHS = (0.5, 0.25)  # of Gaussians of named features, in median distances
N_FOLDS = 5


# ----------------------------------------------------------------------------------------------- parameters


def success_options(model: BaseMKL) -> SuccessOptions:
    """Check the parameters that both estimators have and return the options of their regressions."""
    check_choice("gate_targets", model.gate_targets, GATE_TARGETS)
    named = isinstance(model.gate_kernel, str) and model.gate_kernel in (OWN, AUTO)
    if not named and not isinstance(model.gate_kernel, Kernel):
        raise ValueError(
            f'`gate_kernel` must be "auto", "own" or a kernel such as Gaussian(width=1); got '
            f"{model.gate_kernel!r}."
        )
    if isinstance(model.gate_kernel, Kernel):
        _check_kernel(model.gate_kernel)
    limit = model.gate_subsample
    return SuccessOptions(
        C=check_scale("C", model.C),
        gate_C=check_scale("gate_C", model.gate_C),
        gate_epsilon=check_scale("gate_epsilon", model.gate_epsilon, zero=True),
        gate_subsample=None if limit is None else check_integer("gate_subsample", limit, low=2),
        tol=check_number("tol", model.tol, low=0.0),
        targets=model.gate_targets,
    )


def _sees_kernels_only(model: BaseMKL) -> bool:
    return isinstance(model.gate_kernel, str) and model.gate_kernel == OWN


def check_gates(model: BaseMKL) -> None:
    """Raise for columns of gates that see kernels."""
    if model.gate_columns is not None and _sees_kernels_only(model):
        raise ValueError(
            '`gate_columns` must be None with `gate_kernel="own"`, where gates see the kernels only; got '
            f"{shown(model.gate_columns)}. Give them a kernel: `gate_kernel=Gaussian(width=1)`."
        )


def refuse_unseen_features(model: BaseMKL, gate_features: ArrayLike | None, has_samples: bool) -> None:
    """Raise for features of gates that see kernels, or columns of the samples."""
    if gate_features is not None and _sees_kernels_only(model):
        raise ValueError(
            '`gate_features` must be None with `gate_kernel="own"`, where gates see the kernels only; got an '
            f"array of shape {np.shape(gate_features)}. Give them a kernel: `gate_kernel=Gaussian(width=1)`."
        )
    refuse_gate_features(model, gate_features, has_samples)


def _check_kernel(kernel: Kernel) -> None:
    """Raise for a kernel whose own parameters are wrong."""
    try:
        kernel.check_parameters()
    except ValueError as error:
        raise ValueError(f"`gate_kernel`: {error}") from error


# -------------------------------------------------------------------------------------------------- fitting


def fit_single_kernels(
    model: BaseLocalized, X: Samples, y: Targets, **check_y: Any
) -> tuple[Sequence[OneKernel], np.ndarray]:
    """Return the training kernels one by one, as objects on which SVMs can be trained."""
    if model._is_precomputed():
        stack, y = BaseLocalized._fit_stack(model, X, y, **check_y)
        return precomputed_kernels(stack), y
    bank, y = fit_bank(model, X, y, **check_y)
    native = native_of(bank)
    if native is not None:
        check_among_some(model, BankColumns(bank, 0.0))
        return native, y
    stack = model._check_kernels(DenseStack(bank.train_stack()), bank.kernels_known_psd_)
    return precomputed_kernels(stack), y


def learn_gate_features(
    model: BaseMKL, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
) -> np.ndarray | None:
    """Return the features of the gates, or None where they see the kernels themselves."""
    if fitting and not _takes_features(model, X, gate_features):
        model.gate_bank_ = model.gate_columns_ = None
        return None
    if not fitting and model.gate_bank_ is None:
        return None
    features = features_of(model, X, gate_features, n_rows, fitting)
    if fitting:
        given = isinstance(model.gate_kernel, Kernel)
        named = model.gate_columns is not None or X is None
        if named:
            _refuse_constant(model, features)
        widths = WIDTHS if named else (1.0,)
        offered = [model.gate_kernel] if given else [Gaussian(relative_width=width) for width in widths]
        model.gate_bank_ = KernelBank(offered, normalize=None).fit(features)
    return features


def _refuse_constant(model: BaseMKL, features: np.ndarray) -> None:
    """Raise if no feature of the gates differs between training samples."""
    if (features != features[0]).any():
        return
    columns = model.gate_columns_
    given = "`gate_features`" if columns is None else f"`gate_columns` {shown(model.gate_columns)}"
    raise ValueError(
        f"{given} must differ between training samples, else gates are the same everywhere; got "
        f"{shown(features[0])} in all {len(features)}. Leave them out, or name other columns."
    )


def _takes_features(model: BaseMKL, X: np.ndarray | None, gate_features: ArrayLike | None) -> bool:
    """Return whether gates see features; "auto" leaves missing and constant ones, and none, to the kernels."""
    if isinstance(model.gate_kernel, Kernel) or model.gate_columns is not None or gate_features is not None:
        return True
    bank = model.kernel_bank_
    if model.gate_kernel == OWN or X is None or bank is None or bank.missing_views != "error":
        return False
    return bool((X[0] != X).any())


def _offers_own(model: BaseMKL) -> bool:
    """Return whether gates that see the kernels themselves are the first candidate."""
    if model.gate_bank_ is None:
        return True
    auto = isinstance(model.gate_kernel, str) and model.gate_kernel == AUTO
    return auto and model.gate_columns_ is None and model.kernel_bank_ is not None


def gate_kernels(model: BaseMKL, own: Sequence[OneKernel], order: np.ndarray) -> list[Sequence[OneKernel]]:
    """Return the training kernels that gates may see, once per kernel; `own` are the kernels themselves.

    SVMs are trained on samples in `order`.
    """
    candidates = [own] if _offers_own(model) else []
    bank = model.gate_bank_
    if bank is None:
        return candidates
    native = native_of(bank)
    if native is not None:
        return candidates + [[InOrder(kernel, order)] * model.n_kernels_in_ for kernel in native]
    stack = bank.train_stack()
    found = indefinite_kernels(stack, bank.kernels_known_psd_, SINGLE_PRECISION)
    if found:
        described = describe_indefinite(stack, list(bank.kernel_names_), found)
        raise ValueError(f"`gate_kernel` must be positive semidefinite; got {described}. A Gaussian is.")
    return [*candidates, [InOrder(PrecomputedKernel(stack[0]), order)] * model.n_kernels_in_]


class Draws(NamedTuple):
    """What is drawn at random, independent of the order of the training samples.

    Parameters
    ----------
    folds : sequence of (ndarray, ndarray) or None
        Training and validation samples, where a fit needs them.
    rng : Generator
        Draws further.
    """

    folds: Folds | None
    rng: np.random.Generator


def draw(model: BaseMKL, order: np.ndarray, target: np.ndarray, compares: bool) -> Draws:
    """Draw folds for successes by cross-validation and for comparisons of gates.

    Parameters
    ----------
    model : SwMKLClassifier or LDMKLClassifier
    order : ndarray of shape (n_train,)
        The training samples, sorted by what is known of them.
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    compares : bool
        Whether gates are compared.
    """
    rng = model._rng()
    in_sample = model.gate_targets == "train" or (model.gate_targets == "auto" and model.gate_bank_ is None)
    if in_sample and not compares:
        return Draws(None, rng)
    folds = evenly_dealt(order, target, N_FOLDS, rng)
    return Draws(folds if len(folds) > 1 else None, rng)


def sorted_samples(model: BaseMKL, training: Rows, target: np.ndarray) -> np.ndarray:
    """Return samples sorted by features of gates, those of kernels or values of precomputed ones, and labels."""
    if model.kernel_bank_ is not None:
        keys = [*model.kernel_bank_.X_train_.T]
    else:
        total = sum(kernel.training_rows for kernel in training.kernels)
        keys = [total.diagonal(), np.sort(total, axis=1).sum(axis=1)]
    if training.features is not None:
        keys = [*training.features.T, *keys]
    return np.lexsort((target, *keys[::-1]))


def trainable(
    kernels: Sequence[OneKernel], svm: str, inner: InnerProblem, order: np.ndarray
) -> Sequence[OneKernel]:
    """Return the kernels with classifiers by the solver that was asked for, LibSVM on samples in `order`."""
    if svm != "libsvm":
        return [ByColumns(kernel, inner) for kernel in kernels]
    return [InOrder(kernel, order) for kernel in kernels]


# -------------------------------------------------------------------------------------------------- results


def some_training_rows(_model: BaseLocalized, training: Rows, part: slice) -> Rows:
    """Return some of the training samples as rows to score."""
    features = None if training.features is None else training.features[part]
    return Rows([kernel.training_rows[part] for kernel in training.kernels], features)


def voting(model: BaseLocalized) -> Sequence[OneKernel]:
    """Return the kernels as they are needed to score rows."""
    native = native_of(model.kernel_bank_)
    return [NOT_HELD] * model.n_kernels_in_ if native is None else native


def kernels_of_parts(model: BaseMKL, X: Samples, gate_features: ArrayLike | None = None) -> Iterator[Rows]:
    """Cut rows into parts; native kernels take all rows at once, unless the kernel of the gates is a matrix."""
    check_is_fitted(model, "results_")
    native = native_of(model.kernel_bank_)
    if native is None:
        for rows in BaseLocalized._row_parts(model, X, gate_features):
            yield Rows(list(rows.kernels.each()), rows.features)
        return
    X = model._validate_rows(X)
    model._refuse_gate_features(gate_features, True)
    features = model._gate_features(X, gate_features, len(X), fitting=False)
    bank = model.gate_bank_
    held = 1 if bank is None or native_of(bank) is not None else len(bank.X_train_)
    for part in row_blocks(len(X), held):
        yield Rows([k.rows(X[part]) for k in native], None if features is None else features[part])


def gate_kernel_names(model: BaseMKL, results: Sequence[Any]) -> str | list[str]:
    """Return the names of the kernels that gates see, one for two classes, else one per class."""
    bank = model.gate_bank_
    names = [OWN] if _offers_own(model) else []
    names += [] if bank is None else list(bank.kernel_names_)
    chosen = [names[result.chosen] for result in results]
    return chosen if len(chosen) > 1 else chosen[0]


def gate_arguments(
    model: BaseMKL, result: Any, rows: Rows
) -> tuple[Sequence[OneKernel], Any, Sequence[np.ndarray]]:
    """Return the kernels that gates see, the result, and the rows in the form of each of the kernels."""
    bank, position = model.gate_bank_, result.chosen - int(_offers_own(model))
    if position < 0:
        return voting(model), result, rows.kernels
    native = native_of(bank)
    kernel: OneKernel
    if native is None:
        kernel, of_rows = NOT_HELD, bank.evaluate(rows.features)[position]
    else:
        kernel, of_rows = native[position], native[position].rows(rows.features)
    return [kernel] * model.n_kernels_in_, result, [of_rows] * model.n_kernels_in_


def native_of(bank: KernelBank | None) -> Sequence[NativeKernel] | None:
    """Return the kernels of a bank in LibSVM's form, if it has all of them and none can be indefinite."""
    return None if bank is None or not np.all(bank.kernels_known_psd_) else native_kernels(bank)
