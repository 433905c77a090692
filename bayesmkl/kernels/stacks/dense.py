"""Kernels held as one array, in double precision or in single, the stack that all others are compared with.

In single precision kernels take half the memory, on NumPy. An entry is off by 6e-8 of itself at most, and nothing
else is: every block is converted before it is multiplied, in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import ENTRIES, Stack

AXPY_READS = 3  # adding kernels one by one moves three numbers per entry, the product of all of them one
COPY_COST = 6  # copying a few rows to multiply them pays below this fraction of all rows
GATHER_COST = 6  # gathering the entries of a few samples pays below this fraction of all rows
GATHERED = 2**17  # entries gathered at once, so that they stay in cache
GATED = 2**18  # entries gated at once, likewise
GATED_KERNELS = 16  # of this many kernels
MIXED = 2**17  # entries of a mixture at once, likewise
CONVERTED = 2**17  # entries converted to single precision at once, likewise
ADDED = 2**15  # entries added up at once, likewise
SINGLE = np.dtype(np.float32)  # comparisons with it are fast


class _Held(NamedTuple):
    """What a `DenseStack` holds; a NamedTuple is a JAX pytree, so a stack passes through ``jit``."""

    kernels: Any
    present: Any = None


class DenseStack(_Held, Stack):
    """Kernels held as one array.

    Parameters
    ----------
    kernels : array of shape (n_kernels, n_rows, n_train)
        C-contiguous NumPy array or JAX array, float64; or float32, which contractions convert.
    present : bool array of shape (n_kernels, n_rows), optional
        Which query points have what each kernel compares; None: all of them. The row of an absent query point and the
        column of an absent training point hold zeros, so that no contraction needs to look here.

    Examples
    --------
    >>> import numpy as np
    >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
    >>> stack.combine(np.array([1.0, 0.5]))
    array([[1.5, 0.5],
           [0.5, 1.5]])
    >>> stack.apply(np.array([1.0, 2.0]))
    array([[1., 2.],
           [3., 3.]])
    >>> store_float32([np.eye(2), np.ones((2, 2))], n_kernels=2).apply(np.array([1.0, 2.0]))
    array([[1., 2.],
           [3., 3.]])
    """

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and training points."""
        n_kernels, n_rows, n_train = self.kernels.shape
        return n_kernels, n_rows, n_train

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels take."""
        return int(self.kernels.nbytes)

    @property
    def is_single(self) -> bool:
        """Whether entries are converted to double precision when they are used."""
        return self.kernels.dtype == SINGLE and is_numpy(self.kernels)

    @property
    def storage(self) -> str:
        """The form of the kernels."""
        return "float32" if self.is_single else "dense"

    @property
    def _tall(self) -> Any:
        return self.kernels.reshape(-1, self.kernels.shape[2])

    def _decoded(self, entries: Array) -> Any:
        """Return some of the entries in double precision."""
        return entries.astype("float64") if self.is_single else entries

    def blocks(self, entries: int = ENTRIES) -> Iterator[tuple[slice, slice, DenseStack]]:
        """Yield the stack itself; of single precision some kernels, or some rows of one, at a time."""
        if not self.is_single:
            yield slice(None), slice(None), self
            return
        n_rows = max(1, min(self.n_rows, entries // self.n_train))
        n_kernels = max(1, entries // (n_rows * self.n_train)) if n_rows == self.n_rows else 1
        scratch = np.empty((n_kernels, n_rows, self.n_train))
        for m in range(0, self.n_kernels, n_kernels):
            kernels = slice(m, min(m + n_kernels, self.n_kernels))
            for start in range(0, self.n_rows, n_rows):
                rows = slice(start, min(start + n_rows, self.n_rows))
                block = scratch[: kernels.stop - m, : rows.stop - start]
                block[...] = self.kernels[kernels, rows]
                yield kernels, rows, DenseStack(block)

    def combine(self, weights: Any) -> Any:
        """Return weighted sums of the kernels."""
        if self.is_single:
            return super().combine(weights)
        wide = self.kernels.reshape(self.n_kernels, self.n_rows * self.n_train)
        if weights.ndim == 1 and is_numpy(weights):
            active = np.flatnonzero(weights)
            if len(active) * AXPY_READS < self.n_kernels:
                return _add_up(wide, weights, active).reshape(self.n_rows, self.n_train)
        return (weights @ wide).reshape(*weights.shape[:-1], self.n_rows, self.n_train)

    def combine_singly(self, weights: np.ndarray, constant: float = 0.0) -> np.ndarray:
        """Return weighted sums of the kernels plus a constant in single precision, in blocks that stay in cache."""
        found = np.empty((len(weights), self.n_rows, self.n_train), dtype=SINGLE)
        singly, step = weights.astype(SINGLE), max(1, CONVERTED // (self.n_kernels * self.n_train))
        for rows in (slice(first, first + step) for first in range(0, self.n_rows, step)):
            block = self.kernels[:, rows].reshape(self.n_kernels, -1).astype(SINGLE, copy=False)
            part = singly @ block
            part += SINGLE.type(constant)
            found[:, rows] = part.reshape(len(weights), -1, self.n_train)
        return found

    def combine_gated(self, row_gates: Any, train_gates: Any) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train)."""
        if self.is_single or not is_numpy(self.kernels):
            return super().combine_gated(row_gates, train_gates)
        return _add_gated(self.kernels, row_gates, train_gates)

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right."""
        if self.is_single:
            return super().apply(vector)
        if vector.ndim == 3 and is_numpy(vector):
            # OpenBLAS's product reads memory at half the rate of this one
            return np.vecdot(self.kernels, vector[..., 0][:, None])
        if vector.ndim == 3:
            return (self.kernels @ vector)[..., 0]
        if vector.ndim == 1 and is_numpy(vector):  # likewise
            return np.vecdot(self._tall, vector).reshape(self.n_kernels, self.n_rows)
        if is_numpy(vector):  # vectors first in memory: up to twice as fast for a few of them
            product = vector.T @ self._tall.T
            return np.moveaxis(product.reshape(vector.shape[1], self.n_kernels, self.n_rows), 0, -1)
        return (self._tall @ vector).reshape(self.n_kernels, self.n_rows, *vector.shape[1:])

    def apply_rows(self, index: np.ndarray, vector: Array) -> Any:
        """Return the rows at `index` of ``apply(vector)``."""
        if not self.is_single and len(index) * COPY_COST > self.n_rows:
            return self.apply(vector)[:, index]
        return self.rows(index).apply(vector)

    def adjoint(self, rows: Any) -> Any:
        """Return ``sum_m K_m^T rows_m``."""
        if self.is_single:
            return super().adjoint(rows)
        if rows.ndim == 2 and is_numpy(rows):  # as in `apply`
            return np.einsum("i,ij->j", rows.reshape(-1), self._tall)
        if rows.ndim == 2:
            # XLA's transposed product on a CPU is far below the memory rate, one per kernel is not
            return (rows[:, None, :] @ self.kernels)[:, 0].sum(axis=0)
        if is_numpy(rows):  # as in `apply`
            flat = np.moveaxis(rows, -1, 0).reshape(rows.shape[2], self.n_kernels * self.n_rows)
            return (flat @ self._tall).T
        return self._tall.T @ rows.reshape(self.n_kernels * self.n_rows, rows.shape[2])

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        if not is_numpy(self.kernels):
            return _gram_on_jax(self.kernels)
        return super().gram() if self.is_single else self._tall.T @ self._tall

    def _mixture(self, mixing: Any) -> tuple[Callable[[slice], np.ndarray], int]:
        if self.is_single:
            return super()._mixture(mixing)
        # `combine` would copy
        return lambda part: np.einsum("m,mij->ij", mixing, self.kernels[:, part]), MIXED

    def quadratic(self, vector: Any) -> Any:
        """Return ``v^T K_m v`` for every kernel, shape (n_kernels,) or (n_kernels, q)."""
        if vector.ndim == 1 and is_numpy(vector) and not self.is_single:
            support = np.flatnonzero(vector)
            if len(support) * GATHER_COST < self.n_train:
                return _quadratic_on(self.kernels, vector, support)
        return super().quadratic(vector)

    def frobenius(self, other: Array | None = None) -> Any:
        """Return all Frobenius products of the kernels, or theirs with one matrix, or with several."""
        if self.is_single:
            return super().frobenius(other)
        wide = self.kernels.reshape(self.n_kernels, self.n_rows * self.n_train)
        if other is None:
            return wide @ wide.T
        return wide @ other.reshape(-1) if other.ndim == 2 else other.reshape(len(other), -1) @ wide.T

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`."""
        return self._decoded(self.kernels[:, :, index])

    def diagonal(self) -> Any:
        """Return the diagonals of square kernels, shape (n_kernels, n_rows)."""
        return self._decoded(namespace(self.kernels).diagonal(self.kernels, axis1=1, axis2=2))

    def rows(self, index: Index) -> DenseStack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        present = None if self.present is None else self.present[:, index]
        return DenseStack(self.kernels[:, index], present)

    def _part(self, index: Any) -> DenseStack:
        return DenseStack(self.kernels[index], None if self.present is None else self.present[index])

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) at a time."""
        kernels = (self.kernels[m] for m in (range(self.n_kernels) if index is None else index))
        return (kernel.astype("float64") for kernel in kernels) if self.is_single else kernels

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return entries of all kernels, or those at `kernels`, (n_kernels, n_rows, n_columns)."""
        chosen = slice(None) if kernels is None else kernels[:, None, None]  # a slice is twice as fast
        return self._decoded(self.kernels[chosen, rows[:, None], columns])


def _gram_on_jax(kernels: Any) -> Any:
    """Return ``sum_m K_m^T K_m``, one kernel after the other, in double precision.

    One product of all of them would be compiled for as many seconds as it takes times trials of how to do it.
    """
    import jax

    def add(total: Array, kernel: Array) -> Any:
        wide = kernel.astype(total.dtype)
        return total + wide.T @ wide, None

    start = namespace(kernels).zeros((kernels.shape[2], kernels.shape[2]), dtype="float64")
    return jax.lax.scan(add, start, kernels)[0]


def in_c_order(stack: Stack) -> Any:
    """Return the stack with its array in C order, which the rows at integers or a mask are not."""
    return DenseStack(np.ascontiguousarray(stack.kernels)) if isinstance(stack, DenseStack) else stack


def _add_up(wide: np.ndarray, weights: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Add the weighted rows of `wide` at `active`, one after the other, in blocks that stay in cache."""
    total = np.zeros(wide.shape[1])
    for start in range(0, len(total), ADDED):
        block = slice(start, start + ADDED)
        for m in active:
            daxpy(wide[m, block], total[block], a=weights[m])
    return total


def _add_gated(kernels: np.ndarray, row_gates: np.ndarray, train_gates: np.ndarray) -> np.ndarray:
    """Add gated kernels in blocks that stay in cache, up to twice as fast as einsum over all three factors."""
    if kernels.size <= GATED or len(kernels) == 1:
        return np.einsum("mij,mi,mj->ij", kernels, row_gates, train_gates)
    combined = np.zeros((kernels.shape[1], 1, kernels.shape[2]))
    used = np.flatnonzero(row_gates.any(axis=1) & train_gates.any(axis=1))
    for first in range(0, len(used), GATED_KERNELS):
        part = used[first : first + GATED_KERNELS]
        step = max(1, min(len(combined), GATED // (len(part) * kernels.shape[2])))
        columns = np.repeat(train_gates[part, None], step, axis=1)  # equal shapes multiply fastest
        by_row = np.ascontiguousarray(row_gates[part].T)[:, None]
        gated = np.empty_like(columns)
        for start in range(0, len(combined), step):
            rows = slice(start, start + step)
            size = len(by_row[rows])
            for k, m in enumerate(part):
                np.multiply(kernels[m, rows], columns[k, :size], out=gated[k, :size])
            factors = by_row[rows], gated[:, :size].transpose(1, 0, 2)
            if first == 0:
                np.matmul(*factors, out=combined[rows])
            else:
                combined[rows] += np.matmul(*factors)
    return combined[:, 0]


def stored_array(stack: Stack) -> np.ndarray:
    """Return kernels stored in any form as one array in double precision, (n_kernels, n_rows, n_train)."""
    return np.stack([np.asarray(kernel, dtype=np.float64) for kernel in stack.each()])


def _quadratic_on(kernels: np.ndarray, vector: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Return the quadratic forms of a vector that is zero outside of `support`."""
    products = np.outer(vector[support], vector[support]).ravel()
    values = np.empty(len(kernels))
    block = max(1, GATHERED // max(1, len(products)))
    for first in range(0, len(kernels), block):
        part = kernels[first : first + block][:, support[:, None], support]
        values[first : first + block] = part.reshape(len(part), -1) @ products
    return values


def store_float32(kernels: Iterable[np.ndarray], n_kernels: int) -> DenseStack:
    """Store training kernels in single precision, one after the other.

    Parameters
    ----------
    kernels : iterable of ndarray of shape (n_rows, n_train)
        Finite; every kernel may be overwritten when the next one is asked for.
    n_kernels : int
        How many there are.

    Raises
    ------
    ValueError
        For entries that are too large for single precision.
    """
    return DenseStack(stored_singly(kernels, n_kernels, "float32"))


def stored_singly(arrays: Iterable[np.ndarray], n_arrays: int, storage: str) -> np.ndarray:
    """Gather the numbers of kernels in one array of single precision, for a stack of some `storage`."""
    stored = np.empty(0, dtype=np.float32)
    for m, kernel in enumerate(arrays):
        if m == 0:
            stored = np.empty((n_arrays, *kernel.shape), dtype=np.float32)
        largest = max(float(kernel.max()), -float(kernel.min()))
        if not largest <= float(np.finfo(np.float32).max):
            raise ValueError(
                f'`storage` "{storage}" holds numbers up to 3.4e38; kernel {m} has entries up to {largest:.3g}. '
                'Normalize the kernels (`KernelBank(normalize="spherical")`), or use `storage="dense"`.'
            )
        stored[m] = kernel
    return stored
