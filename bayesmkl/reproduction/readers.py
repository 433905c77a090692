"""Data that users bring: what a folder of kernels, distances or features holds, and kernels of distances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayesmkl.datasets._kernel_folder import LAYOUT, find_data, read_folder
from bayesmkl.evaluation.study import Data

__all__ = ["LAYOUT", "DistanceKernels", "find_data", "read_user_data"]


def read_user_data(folder: str, content: str = "kernels", unit_trace: bool = False) -> Data:
    """Read a folder as :func:`bayesmkl.datasets.load_kernels` does, or features.

    Parameters
    ----------
    folder : str
    content : {"kernels", "distances", "features"}
    unit_trace : bool
        Divide each kernel by its trace over all samples.

    Returns
    -------
    Data
        X of shape (n_samples, n_samples, n_kernels), or (n_samples, n_features); the splits of the folder, if any.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing, or shapes do not go together.
    """
    X, y, splits = read_folder(Path(folder), content)
    return Data(X / np.einsum("iik->k", X) if unit_trace else X, y, splits=splits)


class DistanceKernels(TransformerMixin, BaseEstimator):
    r"""Turn a stack of distances into kernels :math:`\exp(-d / s)`, :math:`s` the mean of training pairs.

    The rule of Gönen (2012, section 6.2.2) for the distance matrices of the flower sets; a step before an estimator
    with ``kernels="precomputed"``.

    Attributes
    ----------
    scales_ : ndarray of shape (n_kernels,)
        Mean distance over pairs of different training samples.

    Examples
    --------
    >>> import numpy as np
    >>> distances = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])[:, :, None]
    >>> kernels = DistanceKernels().fit(distances)
    >>> kernels.scales_
    array([2.])
    >>> kernels.transform(distances[:1])[0, :, 0].round(4)
    array([1.    , 0.6065, 0.2231])
    """

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> DistanceKernels:
        """Learn the scales from distances among training samples, (n_train, n_train, n_kernels)."""
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 3 or X.shape[0] != X.shape[1]:
            raise ValueError(f"`X` must be distances of shape (n_train, n_train, n_kernels); got {X.shape}.")
        off_diagonal = X.sum(axis=(0, 1)) - np.einsum("iik->k", X)
        mean = off_diagonal / max(len(X) * (len(X) - 1), 1)
        self.scales_ = np.where(mean > 0.0, mean, 1.0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the kernels of distances to the training samples, (n_rows, n_train, n_kernels)."""
        check_is_fitted(self, "scales_")
        return np.exp(-np.asarray(X, dtype=np.float64) / self.scales_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.three_d_array = True
        return tags
