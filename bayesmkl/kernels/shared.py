"""Kernels of all samples that stay whole while cross-validation takes parts of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl._utils.validation import shown
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["SharedKernels"]


class SharedKernels:
    """Kernels of shape (n_rows, n_train, n_kernels) whose parts are copied where their entries are needed.

    `bayesmkl.kernels.NamedKernels.shared` returns them, for ``kernels="precomputed"`` in cross-validation and grid
    searches of scikit-learn, which cut a part out for every fit.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_samples, n_samples)
        Of all samples, in memory that nothing writes to.
    rows, train : ndarray of int
        Samples of this part.
    known : dict
        What was computed of the kernels of all samples: the last weights with their sum, and by the names of kernels
        whether SVMs may be trained on them. All parts have it in common.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import stack_kernels
    >>> kernels = stack_kernels([np.eye(3), np.ones((3, 3))]).shared
    >>> part = kernels[np.ix_([0, 2], [1, 2])]
    >>> part, np.asarray(part)[:, :, 0]
    (<2 shared kernels of 2 x 2 samples>, array([[0., 0.],
           [0., 1.]]))
    """

    ndim = 3
    dtype = np.dtype(np.float64)

    def __init__(
        self, kernels: np.ndarray, rows: np.ndarray, train: np.ndarray, known: dict[Any, Any]
    ) -> None:
        self.whole, self.rows, self.train, self.known = kernels, rows, train, known

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, training samples and kernels."""
        return len(self.rows), len(self.train), len(self.whole)

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return len(self.whole)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        n_rows, n_train, n_kernels = self.shape
        return f"<{n_kernels} shared kernels of {n_rows} x {n_train} samples>"

    def __getitem__(self, index: Any) -> SharedKernels:
        """Return a part: ``kernels[rows]``, or of rows and columns, ``kernels[np.ix_(rows, train)]``."""
        parts = index if isinstance(index, tuple) else (index, slice(None))
        try:
            rows, train = (one if isinstance(one, slice) else np.asarray(one).ravel() for one in parts)
            return SharedKernels(self.whole, self.rows[rows], self.train[train], self.known)
        except (IndexError, ValueError) as error:
            raise IndexError(
                f"{self!r} is indexed by samples, `kernels[rows]` or `kernels[np.ix_(rows, train)]`; got "
                f"{shown(index)}. Index `np.asarray(kernels)` otherwise."
            ) from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a copy of the entries, (n_rows, n_train, n_kernels), contiguous with kernels first."""
        part = np.empty((len(self.whole), len(self.rows), len(self.train)))
        for own, kernel in zip(part, self.whole, strict=True):
            self._part(kernel, own)
        return np.moveaxis(part, 0, -1).astype(dtype or np.float64, copy=False)

    def __reduce__(self) -> Any:
        return SharedKernels, (self.whole, self.rows, self.train, {})

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the kernels, (n_rows, n_train), a part of that of all samples."""
        last = self.known.get("sum")
        if last is None or not np.array_equal(last[0], weights):
            self.known["sum"] = last = weights.copy(), DenseStack(self.whole).combine(weights)
        return self._part(last[1])

    def _part(self, matrix: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the entries of this part of a matrix of all samples, in half the time of one index of both."""
        return np.take(matrix[self.rows], self.train, axis=1, out=out, mode="clip")  # all are in bounds
