"""Samples that count more or less than once: checks, and leaving out those that do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bayesmkl._utils.given import check_weights
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.kernels.views import check_samples

if TYPE_CHECKING:
    from bayesmkl.marginal.estimators.base import BaseGPMKL

__all__ = ["counted"]


def counted(
    model: BaseGPMKL, X: Samples, y: Targets, sample_weight: ArrayLike | None
) -> tuple[Samples, Targets, np.ndarray | None]:
    """Return samples that count, their targets, and how often they count; None of the last is once each.

    Parameters
    ----------
    model : BaseGPMKL
        That is fitted to them.
    X : array-like of shape (n_samples, n_features), or precomputed kernels
    y : array-like of shape (n_samples, ...)
    sample_weight : array-like of shape (n_samples,) or None

    Raises
    ------
    ValueError
        If weights are no weights of the samples, or zero where kernels are precomputed.
    """
    if sample_weight is None:
        return X, y, None
    n_samples = _length(X) or check_samples(X, may_be_sparse=model._may_be_sparse())  # groups may be text
    counts = check_weights(sample_weight, n_samples)
    if counts is None:
        return X, y, None
    if counts.min() > 0.0:
        return X, y, counts
    if model._is_precomputed():
        raise ValueError(
            "`sample_weight` must be above zero with precomputed kernels, whose columns are the training samples; "
            f"got {int((counts == 0.0).sum())} zeros. Leave rows and columns of these samples out."
        )
    kept = np.flatnonzero(counts)
    if len(kept) < 2:
        raise ValueError(
            f"`sample_weight` must be above zero for at least two samples; got {n_samples - 1} zeros of {n_samples}. "
            "Weights of zero leave samples out."
        )
    if _length(y) == n_samples:  # an error is due otherwise, and not of this
        y = _safe_indexing(y, kept)
    return _safe_indexing(X, kept), y, counts[kept]


def _length(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") and not issparse(values) else 0
