"""Kernels of new rows of which some are in one stack and some in another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import KernelRows


class RowParts(NamedTuple):
    """Rows of which some are in one stack and some in another, for prediction.

    Parameters
    ----------
    parts : tuple of pairs (index, stack)
        Which rows, ascending, and their stack.
    """

    parts: tuple[tuple[np.ndarray, Any], ...]

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return int(self.parts[0][1].n_kernels)

    @property
    def n_rows(self) -> int:
        """Number of query points."""
        return sum(len(index) for index, _ in self.parts)

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return int(self.parts[0][1].n_train)

    @property
    def nbytes(self) -> int:
        """Bytes that all parts take."""
        return sum(stack.nbytes for _, stack in self.parts)

    @property
    def present(self) -> None:
        """Presence of the view of each kernel at the query points: all of them."""
        return None

    def apply(self, vector: Array) -> np.ndarray:
        """Multiply every kernel from the right, see `DenseStack.apply`."""
        tail = vector.shape[1:] if vector.ndim == 2 else ()
        out = np.empty((self.n_kernels, self.n_rows, *tail))
        for index, stack in self.parts:
            out[:, index] = stack.apply(vector)
        return out

    def combine(self, weights: Array) -> np.ndarray:
        """Return weighted sums of the kernels, see `DenseStack.combine`."""
        out = np.empty((*weights.shape[:-1], self.n_rows, self.n_train))
        for index, stack in self.parts:
            out[..., index, :] = stack.combine(weights)
        return out

    def rows(self, index: Index) -> RowParts:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        wanted = np.arange(self.n_rows)[index]
        parts = []
        for own, stack in self.parts:
            places = np.flatnonzero(np.isin(wanted, own))
            parts.append((places, stack.rows(np.searchsorted(own, wanted[places]))))
        return RowParts(tuple(parts))

    def select(self, index: Index) -> RowParts:
        """Return the stack of the kernels at `index` (integers or a boolean mask)."""
        return RowParts(tuple((own, stack.select(index)) for own, stack in self.parts))


# checked by mypy
_CONTRACT: type[KernelRows] = RowParts
