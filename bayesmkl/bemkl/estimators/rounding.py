"""Rounding error of a posterior whose kernels are large and nearly singular.

q(a) has the covariance of (υ Σ_m K_m' K_m + diag E[λ])^-1. Where kernels are zero, the prior decides, and there the
rounding errors of the first term, relative to its largest entry, must be small next to E[λ]. They are, unless kernels
of low rank have entries of a million: the default bank normalizes its kernels to one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["TOO_MUCH", "rounding_error"]

# Bound on the relative error of a variance from which on it is reported. The errors themselves were a hundredth of it
# and below in comparisons with 50 digits.
TOO_MUCH = 0.1


def rounding_error(problem: Any, state: Any) -> float:
    """Return a bound on the relative rounding error of the variances of a; one problem may be of several tasks."""
    if hasattr(problem, "tasks"):
        return max(rounding_error(*pair) for pair in zip(problem.tasks, state.tasks, strict=True))
    learned = getattr(state, "intermediate_precision", None)
    precision = problem.intermediate_precision if learned is None else learned.mean
    largest = np.asarray(state.dual.variance).max(axis=-1) * np.asarray(problem.gram).diagonal().max()
    return float(np.finfo(np.float64).eps * np.max(precision * largest))
