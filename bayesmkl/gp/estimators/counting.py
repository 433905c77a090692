"""Samples that count more or less than once: checks, and leaving out those that do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bayesmkl._utils.given import check_weights
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.warnings import warn_user
from bayesmkl.kernels.views import check_samples

if TYPE_CHECKING:
    from bayesmkl.gp.estimators.base import BaseGPMKL

MOST = 1.05  # mean weight of numbers that has no effect, and that folds of weights of mean one may have


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


def of_numbers(counts: np.ndarray | None, groups: list[np.ndarray], what: str = "") -> np.ndarray | None:
    r"""Return weights of samples whose targets are numbers, with a mean of at most one.

    The density of a number under noise of scale :math:`\phi` is at most of order :math:`1 / \phi`. To the power of
    weights that add up to more than the number of samples it rises without limit where the score follows them all.

    Parameters
    ----------
    counts : ndarray of shape (n_samples,), or None
    groups : list of ndarray of bool, of shape (n_samples,)
        Samples with noise of a scale of their own.
    what : str, default=""
        Which samples these are, for the warning.
    """
    if counts is None:
        return None
    mean = max((float(counts[own].mean()) for own in groups if own.any()), default=0.0)
    if mean <= MOST:
        return counts
    warn_user(
        f"`sample_weight` should have a mean of 1{what}; got {mean:.4g}. Copies of a number look like measurements "
        f"without noise, so that all weights were divided by {mean:.4g}. Pass `sample_weight / {mean:.4g}`.",
        UserWarning,
    )
    return None if np.allclose(counts, mean) else counts / mean


def _length(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") and not issparse(values) else 0
