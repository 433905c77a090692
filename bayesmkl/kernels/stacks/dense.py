"""Kernels held as one array, the stack that all others are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import (
    KernelRows,
    Spread,
    StoredStack,
    apply_and_mix,
    blocks_of_rows,
    kernels_at_once,
    mixed_gram_of_blocks,
    quadratics_one_by_one,
    spread_of_products,
    spread_then_sum,
)

AXPY_READS = 3  # adding kernels one by one moves three numbers per entry, the product of all of them one
COPY_COST = 6  # copying a few rows to multiply them pays below this fraction of all rows
GATHER_COST = 6  # gathering the entries of a few samples pays below this fraction of all rows
GATHERED = 2**17  # entries gathered at once, so that they stay in cache
GATED = 2**18  # entries gated at once, likewise
GATED_KERNELS = 16  # of this many kernels
MIXED = 2**17  # entries of a mixture at once, likewise
ADDED = 2**15  # entries added up at once, likewise


class DenseStack(NamedTuple):
    """Kernels held as one dense array, a `bayesmkl.kernels.stacks.base.StoredStack`.

    Parameters
    ----------
    kernels : array of shape (n_kernels, n_rows, n_train)
        C-contiguous NumPy array or JAX array. A NamedTuple is a JAX pytree, so a stack passes through ``jit``.
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
    """

    kernels: Any
    present: Any = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.kernels.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of query points."""
        return self.kernels.shape[1]

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return self.kernels.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels take."""
        return self.kernels.nbytes

    @property
    def storage(self) -> str:
        """The form of the kernels, "dense"."""
        return "dense"

    @property
    def _tall(self) -> Any:
        return self.kernels.reshape(-1, self.kernels.shape[2])

    def combine(self, weights: Any) -> Any:
        """Return weighted sums of the kernels.

        Parameters
        ----------
        weights : array of shape (n_kernels,) or (q, n_kernels)

        Returns
        -------
        array of shape (n_rows, n_train) or (q, n_rows, n_train)
        """
        wide = self.kernels.reshape(self.n_kernels, self.n_rows * self.n_train)
        if weights.ndim == 1 and is_numpy(weights):
            active = np.flatnonzero(weights)
            if len(active) * AXPY_READS < self.n_kernels:
                return _add_up(wide, weights, active).reshape(self.n_rows, self.n_train)
        return (weights @ wide).reshape(*weights.shape[:-1], self.n_rows, self.n_train)

    def combine_gated(self, row_gates: Any, train_gates: Any) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train).

        Parameters
        ----------
        row_gates : array of shape (n_kernels, n_rows)
        train_gates : array of shape (n_kernels, n_train)
        """
        if is_numpy(self.kernels):
            return _add_gated(self.kernels, row_gates, train_gates)
        return _combine_gated_on_jax(self.kernels, row_gates, train_gates)

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right.

        Parameters
        ----------
        vector : array of shape (n_train,), (n_train, q) or (n_kernels, n_train, 1)
            One vector for all kernels, a batch of `q` of them, or one vector per kernel.

        Returns
        -------
        array of shape (n_kernels, n_rows), (n_kernels, n_rows, q) or (n_kernels, n_rows)
        """
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
        if len(index) * COPY_COST > self.n_rows:
            return self.apply(vector)[:, index]
        return self.rows(index).apply(vector)

    def adjoint(self, rows: Any) -> Any:
        """Return ``sum_m K_m^T rows_m``.

        Parameters
        ----------
        rows : array of shape (n_kernels, n_rows) or (n_kernels, n_rows, q)

        Returns
        -------
        array of shape (n_train,) or (n_train, q)
        """
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
        return self._tall.T @ self._tall if is_numpy(self.kernels) else gram_on_jax(self.kernels)

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)`` and ``mixing @ apply(vector) + offset``, see `KernelStack.apply_and_adjoin`."""
        return apply_and_mix(self, vector, mixing, offset)

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram, see `KernelStack.adjoint_and_mixed_gram`."""

        def mix(part: slice) -> np.ndarray:
            return np.einsum("m,mij->ij", mixing, self.kernels[:, part])  # `combine` would copy these rows

        return mixed_gram_of_blocks(self, rows, mixing, weights, mix, MIXED)

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance of ``K_m v`` over the rows that are present, for vectors (n_train, q)."""
        parts = kernels_at_once(self, vectors.shape[1])
        return spread_of_products(((some, self._part(some)) for some in parts), self.n_kernels, vectors)

    def spread_and_sum(self, vectors: np.ndarray, weights: np.ndarray) -> tuple[Spread, np.ndarray]:
        """Return the spread, and weighted sums of the products, see `KernelStack.spread_and_sum`."""
        return spread_then_sum(self, vectors, weights)

    def quadratic(self, vector: Any) -> Any:
        """Return ``v^T K_m v`` for every kernel of a square stack, shape (n_kernels,) or (n_kernels, q).

        Parameters
        ----------
        vector : array of shape (n_train,), (n_train, q) or (n_kernels, n_train, 1)
        """
        if vector.ndim == 1 and is_numpy(vector):
            support = np.flatnonzero(vector)
            if len(support) * GATHER_COST < self.n_train:
                return _quadratic_on(self.kernels, vector, support)
        product = self.apply(vector)
        if vector.ndim == 3:
            return (product * vector[..., 0]).sum(axis=1)
        return (product * vector).sum(axis=1)

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors (q, n_train) that are mostly zero, (q, n_kernels)."""
        return quadratics_one_by_one(self, vectors)

    def frobenius(self, other: Array | None = None) -> Any:
        """Return all Frobenius products of the kernels, or theirs with one matrix, or with several.

        Parameters
        ----------
        other : array of shape (n_rows, n_train) or (q, n_rows, n_train), optional

        Returns
        -------
        array of shape (n_kernels, n_kernels), or (n_kernels,) or (q, n_kernels) with `other`
        """
        wide = self.kernels.reshape(self.n_kernels, self.n_rows * self.n_train)
        if other is None:
            return wide @ wide.T
        return wide @ other.reshape(-1) if other.ndim == 2 else other.reshape(len(other), -1) @ wide.T

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`."""
        return self.kernels[:, :, index]

    def diagonal(self) -> Any:
        """Return the diagonals of a square stack, shape (n_kernels, n_rows)."""
        return namespace(self.kernels).diagonal(self.kernels, axis1=1, axis2=2)

    def rows(self, index: Index) -> DenseStack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        present = None if self.present is None else self.present[:, index]
        return DenseStack(self.kernels[:, index], present)

    def select(self, index: Index) -> DenseStack:
        """Return the stack of the kernels at `index` (integers or a boolean mask)."""
        return self._part(np.atleast_1d(np.asarray(index)))

    def _part(self, index: Index) -> DenseStack:
        return DenseStack(self.kernels[index], None if self.present is None else self.present[index])

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, DenseStack]]:
        """Go through the rows at `index`, a few at a time: which of them, and their kernels."""
        return blocks_of_rows(self, index)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) of the stack's own at a time."""
        return (self.kernels[m] for m in (range(self.n_kernels) if index is None else index))

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return entries of all kernels, or those at `kernels`, (n_kernels, n_rows, n_columns)."""
        chosen = slice(None) if kernels is None else kernels[:, None, None]  # a slice is twice as fast
        return self.kernels[chosen, rows[:, None], columns]


def gram_on_jax(kernels: Any) -> Any:
    """Return ``sum_m K_m^T K_m``, one kernel after the other, in double precision.

    One product of all of them would be compiled for as many seconds as it takes times trials of how to do it.
    """
    import jax

    def add(total: Array, kernel: Array) -> Any:
        wide = kernel.astype(total.dtype)
        return total + wide.T @ wide, None

    start = namespace(kernels).zeros((kernels.shape[2], kernels.shape[2]), dtype="float64")
    return jax.lax.scan(add, start, kernels)[0]


def in_c_order(stack: KernelRows) -> Any:
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


def stored_array(stack: StoredStack) -> np.ndarray:
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


def _combine_gated_on_jax(kernels: Array, row_gates: Array, train_gates: Array) -> Any:
    """Add one gated kernel after the other; XLA's fused sum over all of them reads memory at a sixth of the rate."""
    import jax

    def add(m: Array, combined: Any) -> Any:
        return combined + row_gates[m][:, None] * kernels[m] * train_gates[m]

    return jax.lax.fori_loop(0, kernels.shape[0], add, namespace(kernels).zeros_like(kernels[0]))


# checked by mypy
_CONTRACT: type[StoredStack] = DenseStack
