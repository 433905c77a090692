"""A training fold of a dense stack, held as the kernels of all samples and the places of those in the fold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["FoldStack"]


class FoldStack(NamedTuple):
    """Training kernels of some of the samples of a square stack, without a copy of them.

    Parameters
    ----------
    whole : DenseStack
        Kernels between all samples, NumPy.
    samples : array of integers
        Those of the fold, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> fold = FoldStack(DenseStack(np.arange(9.0).reshape(1, 3, 3)), np.array([0, 2]))
    >>> fold.apply(np.array([1.0, 1.0]))
    array([[ 2., 14.]])
    """

    whole: DenseStack
    samples: np.ndarray

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.whole.n_kernels

    @property
    def n_rows(self) -> int:
        """Number of samples of the fold."""
        return len(self.samples)

    @property
    def n_train(self) -> int:
        """Number of samples of the fold."""
        return len(self.samples)

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels of the fold would take."""
        return int(self.n_kernels * self.n_train**2 * self.whole.kernels.itemsize)

    @property
    def present(self) -> None:
        """Every sample has what every kernel compares."""
        return

    def apply(self, vector: Any) -> np.ndarray:
        """Multiply every kernel from the right by one vector (n_train,) or a batch (n_train, q)."""
        spread = np.zeros((self.whole.n_train, *vector.shape[1:]))
        spread[self.samples] = vector
        return self.whole.apply(spread)[:, self.samples]

    def adjoint(self, rows: Any) -> np.ndarray:
        """Return ``sum_m K_m^T rows_m`` for rows of shape (n_kernels, n_rows) or (n_kernels, n_rows, q)."""
        spread = np.zeros((self.n_kernels, self.whole.n_rows, *rows.shape[2:]))
        spread[:, self.samples] = rows
        return self.whole.adjoint(spread)[self.samples]

    def gram(self) -> np.ndarray:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train), with one kernel of the fold at a time."""
        total = np.zeros((self.n_train, self.n_train))
        for kernel in self.whole.kernels:
            part = kernel[np.ix_(self.samples, self.samples)]
            total += part.T @ part
        return total
