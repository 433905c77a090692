"""Solver of the SVMs of localized methods: LibSVM or multiplicative weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._utils.validation import check_choice, check_scale
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.checked import CheckedKernels
from bayesmkl.discriminative.global_weights.multiplicative import MOST_STEPS, MultiplicativeWeights
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.svm.by_columns import takes_columns
from bayesmkl.discriminative.svm.libsvm import Hinge

__all__ = ["SVMS", "SVMChoice"]

SVMS = ("libsvm", "mwu")
CACHE_MB = 100.0  # for columns of the kernels


class SVMChoice(CheckedKernels):
    """The parameters `C`, `svm` and `mwu_epsilon`.

    With ``svm="mwu"`` the loss is the squared hinge, and the training kernels of a bank are columns on demand.
    """

    C: float
    svm: str
    mwu_epsilon: float

    _stopped: list[float]  # while fitting: relative gaps of machines that took too many steps

    def _inner(self) -> InnerProblem:
        """Validate the parameters and return the machine."""
        C = check_scale("C", self.C)
        svm = check_choice("svm", self.svm, SVMS)
        epsilon = check_scale("mwu_epsilon", self.mwu_epsilon)
        if epsilon >= 1.0:
            raise ValueError(
                f"`mwu_epsilon` must be below 1, a share of the objective; got {epsilon:g}. Try 0.05."
            )
        if svm == "libsvm":
            return Hinge(C)
        stopped = getattr(self, "_stopped", None)
        return MultiplicativeWeights(C, epsilon, report=None if stopped is None else stopped.append)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._inner()

    def _fit_stack(self, X: Any, y: Any, **check_y: Any) -> tuple[Any, np.ndarray]:
        """With a bank and ``svm="mwu"``, return columns that are evaluated on demand."""
        if not takes_columns(self._inner()) or self._is_precomputed() or self.indefinite == "clip":
            return super()._fit_stack(X, y, **check_y)
        return self._fit_columns(X, y, CACHE_MB, **check_y)

    def _fit_local(self, kernels: Any, targets: np.ndarray, gate_features: Any) -> None:
        """Learn, and warn once of machines that took too many steps."""
        stopped: list[float] = []
        self._stopped = stopped
        try:
            super()._fit_local(kernels, targets, gate_features)
        finally:
            del self._stopped
        if stopped:
            warn_user(
                f"{type(self).__name__}: {len(stopped)} machines stopped after {MOST_STEPS} steps of multiplicative "
                f"weights with relative duality gaps up to {max(stopped):.1e}, above "
                f"mwu_epsilon={self.mwu_epsilon:g}. Lower `C`, raise `mwu_epsilon`, or use "
                '`svm="libsvm"`.',
                ConvergenceWarning,
            )
