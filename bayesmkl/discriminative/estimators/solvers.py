"""Choice of the SVM solver of localized methods: LibSVM, or multiplicative weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_scale
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.checked import fit_columns
from bayesmkl.discriminative.global_weights.mwumkl import MOST_STEPS, MultiplicativeWeights
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.svm.by_columns import takes_columns
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.columns import BankColumns

if TYPE_CHECKING:
    from bayesmkl._estimator import BaseMKL


SVMS = ("libsvm", "mwu")
CACHE_MB = 100.0  # for columns of the kernels


def check_svm(model: BaseMKL, report: Callable[[float], None] | None = None) -> InnerProblem:
    """Return the SVM of an estimator with valid `C`, `svm` and `mwu_epsilon`.

    With ``svm="mwu"`` the loss is the squared hinge, and `report` is told the relative duality gap wherever the
    solver takes too many steps.
    """
    C = check_scale("C", model.C)
    svm = check_choice("svm", model.svm, SVMS)
    epsilon = check_scale("mwu_epsilon", model.mwu_epsilon)
    if epsilon >= 1.0:
        raise ValueError(
            f"`mwu_epsilon` must be below 1, a share of the objective; got {epsilon:g}. Try 0.05."
        )
    return Hinge(C) if svm == "libsvm" else MultiplicativeWeights(C, epsilon, report=report)


def takes_bank_by_columns(model: BaseMKL) -> bool:
    """Return whether an estimator wants the training kernels of a bank as columns that are evaluated on demand."""
    return takes_columns(check_svm(model)) and not model._is_precomputed() and model.indefinite != "clip"


def fit_cached_columns(
    model: BaseMKL, X: Samples, y: Targets, **check_y: Any
) -> tuple[BankColumns, np.ndarray]:
    """Fit the bank and return its columns, of which as many are kept as `CACHE_MB` holds."""
    return fit_columns(model, X, y, CACHE_MB, **check_y)


def warn_of_stopped(model: BaseMKL, stopped: Sequence[float]) -> None:
    """Warn once of SVMs that took too many steps; `stopped` are their relative duality gaps."""
    if stopped:
        warn_user(
            f"{type(model).__name__}: {len(stopped)} SVMs stopped after {MOST_STEPS} steps of multiplicative "
            f"weights with relative duality gaps up to {max(stopped):.1e}, above "
            f"mwu_epsilon={model.mwu_epsilon:g}. Lower `C`, raise `mwu_epsilon`, or use "
            '`svm="libsvm"`.',
            ConvergenceWarning,
        )
