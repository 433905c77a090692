"""What all kernel objects have in common."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from bayesmkl.kernels.geometry import PairwiseGeometry

__all__ = ["Kernel", "is_positive"]


class Kernel(BaseEstimator):
    """Base of all kernel objects: a subclass writes `evaluate`, `diagonal` and `label`.

    A kernel is called as ``kernel(X, Z)``, rows of `X` being query points and rows of `Z` training points,
    and gives an array of shape (n_rows, n_train). `fit` learns what a kernel takes from training data (most
    take nothing) and rejects bad parameters.
    """

    @property
    def label(self) -> str:
        """Name for tables and plots."""
        raise NotImplementedError

    @property
    def known_psd(self) -> bool:
        """Whether mathematics guarantees a positive semidefinite matrix, so that nobody needs to test it."""
        return True

    def check_parameters(self) -> None:
        """Raise for constructor arguments out of range."""

    def fit(self, X: Any, y: Any = None) -> Kernel:
        """Check the parameters and learn training statistics, where the kernel has any.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            Training points.
        y : None
            Ignored.

        Returns
        -------
        self : Kernel
            The fitted kernel.
        """
        self.check_parameters()
        return self

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel between the two sides of `geometry` into `out`, shape (n_rows, n_train)."""
        raise NotImplementedError

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`, shape (n_rows,)."""
        return np.ones(len(X))

    def __call__(self, X: Any, Z: Any) -> np.ndarray:
        """Compare the rows of `X` with the rows of `Z`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Query points.
        Z : array-like of shape (n_train, n_features)
            Training points.

        Returns
        -------
        kernel : ndarray of shape (n_rows, n_train)
            The kernel's values.
        """
        self.check_parameters()
        rows = check_array(X, dtype=np.float64, input_name="X")
        train = rows if X is Z else check_array(Z, dtype=np.float64, input_name="Z")
        if rows.shape[1] != train.shape[1]:
            raise ValueError(
                f"`X` and `Z` must have the same columns; got {rows.shape[1]} and {train.shape[1]}. "
                "Rows are samples in both."
            )
        geometry = PairwiseGeometry(rows, train)
        out = np.empty(geometry.shape)
        self.evaluate(geometry, out)
        return out


def is_positive(value: Any) -> bool:
    """Say whether `value` is a finite number above zero."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) < np.inf
