"""One kernel function and its normalizations, fitted to the training samples of a view."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from bayesmkl._utils.typing import Index
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.fitted import check_finite
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.normalize import Normalizer, fit_normalizers, fit_normalizers_by_rows, move_origin
from bayesmkl.kernels.sparse import is_sparse

__all__ = ["fit_training", "fit_weighted", "learn_by_rows"]


def fit_weighted(kernel: Kernel, train: np.ndarray, weights: np.ndarray) -> None:
    """Fit a kernel function to training samples that count as `weights` say."""
    if not has_fit_parameter(kernel, "sample_weight"):
        raise ValueError(
            f"the `fit` of {type(kernel).__name__} must take a `sample_weight` where samples have weights. Give it "
            "one, or fit without weights"
        )
    kernel.fit(train, sample_weight=weights)


def fit_training(
    normalize: tuple[str, ...],
    kernel: Kernel,
    geometry: PairwiseGeometry,
    values: np.ndarray,
    weights: np.ndarray | None,
) -> list[Normalizer]:
    """Write the normalized training kernel into `values`, (n_train, n_train), and return the normalizations."""
    moved = None
    if "center" in normalize:
        kernel, moved = move_origin(normalize, kernel, geometry.Z, weights)
    kernel.evaluate(geometry, values)
    check_finite(values)
    if not normalize:
        return []
    return fit_normalizers(normalize, values, check_finite(kernel.diagonal(geometry.Z)), moved, weights)


def learn_by_rows(
    normalize: tuple[str, ...], kernel: Kernel, train: np.ndarray, weights: np.ndarray | None
) -> list[Normalizer]:
    """Learn the normalizations without holding the training kernel."""
    if not normalize:
        return []
    kernel, moved = move_origin(normalize, kernel, train, weights)
    diagonal = check_finite(kernel.diagonal(train))
    return fit_normalizers_by_rows(normalize, partial(_rows, kernel, train), diagonal, moved, weights)


def _rows(kernel: Kernel, train: np.ndarray, index: Index) -> np.ndarray:
    """Return rows of the training kernel before normalization, (n_rows, n_train)."""
    rows = train[index]
    is_whole = rows.shape == train.shape and not is_sparse(train) and np.may_share_memory(rows, train)
    geometry = PairwiseGeometry(train if is_whole else rows, train)
    out = np.empty(geometry.shape)
    kernel.evaluate(geometry, out)
    return check_finite(out)
