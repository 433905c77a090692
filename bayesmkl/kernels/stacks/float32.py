"""Kernels stored in single precision: half the memory, entries to seven digits, sums in double precision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import (
    Spread,
    StoredStack,
    apply_and_mix,
    blocks_of_rows,
    frobenius_products,
    gated_sum,
    kernels_at_once,
    mixed_gram_of_blocks,
    quadratics_one_by_one,
    spread_of_products,
    spread_then_sum,
)
from bayesmkl.kernels.stacks.dense import DenseStack, gram_on_jax

ENTRIES = 2**17  # converted at once to double precision, 1 MB: they stay in cache
MANY_ENTRIES = 2**21  # likewise, where more kernels at a time count for more than the cache


class Float32Stack(NamedTuple):
    """Kernels held as one array of single precision; all contractions take and return double precision.

    An entry is off by 6e-8 of itself at most, and nothing else is: every block is converted before it is multiplied,
    on NumPy in cache, on JAX within the compiled sum.

    Parameters
    ----------
    kernels : float32 array of shape (n_kernels, n_rows, n_train)
    present : bool array of shape (n_kernels, n_rows), optional
        As in `DenseStack`.

    Examples
    --------
    >>> import numpy as np
    >>> stack = store_float32([np.eye(2), np.ones((2, 2))], n_kernels=2)
    >>> stack.apply(np.array([1.0, 2.0])), stack.nbytes
    (array([[1., 2.],
           [3., 3.]]), 32)
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
        """The form of the kernels, "float32"."""
        return "float32"

    def _blocks(self, entries: int = ENTRIES) -> Iterator[tuple[slice, slice, DenseStack]]:
        """Go through some kernels, or some rows of one, at a time, in double precision."""
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

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels, see `DenseStack.combine`."""
        if not is_numpy(self.kernels):
            return _combine_on_jax(self.kernels, weights)
        total = np.zeros((*weights.shape[:-1], self.n_rows, self.n_train))
        for kernels, rows, block in self._blocks(MANY_ENTRIES):
            total[..., rows, :] += block.combine(weights[..., kernels])
        return total

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right, see `DenseStack.apply`."""
        if not is_numpy(self.kernels):
            return _apply_on_jax(self.kernels, vector)
        tail = vector.shape[1:] if vector.ndim == 2 else ()
        out = np.empty((self.n_kernels, self.n_rows, *tail))
        for kernels, rows, block in self._blocks():
            out[kernels, rows] = block.apply(vector[kernels] if vector.ndim == 3 else vector)
        return out

    def apply_rows(self, index: np.ndarray, vector: Array) -> Any:
        """Return the rows at `index` of ``apply(vector)``."""
        return self.rows(index).apply(vector)

    def combine_gated(self, row_gates: Array, train_gates: Array) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train), see `DenseStack.combine_gated`."""
        return gated_sum(self, row_gates, train_gates)

    def frobenius(self, other: Array | None = None) -> Any:
        """Return Frobenius products of the kernels, see `DenseStack.frobenius`."""
        return frobenius_products(self, other)

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``, see `DenseStack.adjoint`."""
        if not is_numpy(self.kernels):
            return _adjoint_on_jax(self.kernels, rows)
        total = np.zeros((self.n_train, *rows.shape[2:]))
        for kernels, part, block in self._blocks():
            total += block.adjoint(rows[kernels, part])
        return total

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        if not is_numpy(self.kernels):
            return gram_on_jax(self.kernels)
        total = np.zeros((self.n_train, self.n_train))
        for _, _, block in self._blocks(MANY_ENTRIES):
            total += block.gram()
        return total

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)`` and ``mixing @ apply(vector) + offset``, see `KernelStack.apply_and_adjoin`."""
        return apply_and_mix(self, vector, mixing, offset)

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram, see `KernelStack.adjoint_and_mixed_gram`."""
        return mixed_gram_of_blocks(self, rows, mixing, weights)

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance of ``K_m v`` over the rows that are present, for vectors (n_train, q)."""
        parts = kernels_at_once(self, vectors.shape[1])
        return spread_of_products(((some, self._part(some)) for some in parts), self.n_kernels, vectors)

    def spread_and_sum(self, vectors: np.ndarray, weights: np.ndarray) -> tuple[Spread, np.ndarray]:
        """Return the spread, and weighted sums of the products, see `KernelStack.spread_and_sum`."""
        return spread_then_sum(self, vectors, weights)

    def quadratic(self, vector: Array) -> Any:
        """Return ``v^T K_m v`` for every kernel of a square stack, see `DenseStack.quadratic`."""
        product = self.apply(vector)
        return (product * (vector[..., 0] if vector.ndim == 3 else vector)).sum(axis=1)

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors (q, n_train) that are mostly zero, (q, n_kernels)."""
        return quadratics_one_by_one(self, vectors)

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`."""
        return self.kernels[:, :, index].astype("float64")

    def diagonal(self) -> Any:
        """Return the diagonals of a square stack, shape (n_kernels, n_rows)."""
        return namespace(self.kernels).diagonal(self.kernels, axis1=1, axis2=2).astype("float64")

    def rows(self, index: Index) -> Float32Stack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        return Float32Stack(self.kernels[:, index], None if self.present is None else self.present[:, index])

    def select(self, index: Index) -> Float32Stack:
        """Return the stack of the kernels at `index` (integers or a boolean mask)."""
        return self._part(np.atleast_1d(np.asarray(index)))

    def _part(self, index: Index) -> Float32Stack:
        return Float32Stack(self.kernels[index], None if self.present is None else self.present[index])

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, Float32Stack]]:
        """Go through the rows at `index`, a few at a time: which of them, and their kernels."""
        return blocks_of_rows(self, index)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) in double precision at a time."""
        return (_double(self.kernels[m]) for m in (range(self.n_kernels) if index is None else index))

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return entries of all kernels, or those at `kernels`, (n_kernels, n_rows, n_columns)."""
        chosen = slice(None) if kernels is None else kernels[:, None, None]
        return _double(self.kernels[chosen, rows[:, None], columns])


def store_float32(kernels: Iterable[np.ndarray], n_kernels: int) -> Float32Stack:
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
    return Float32Stack(stored_singly(kernels, n_kernels, "float32"))


def stored_singly(arrays: Iterable[np.ndarray], n_arrays: int, storage: str) -> np.ndarray:
    """Gather the numbers of kernels in one array of single precision, for a stack of some `storage`."""
    stored, n_stored = np.empty(0, dtype=np.float32), 0
    for m, kernel in enumerate(arrays):
        if m == 0:
            stored = np.empty((n_arrays, *kernel.shape), dtype=np.float32)
        n_stored += 1
        if m >= n_arrays:
            continue
        largest = max(float(kernel.max()), -float(kernel.min()))
        if not largest <= float(np.finfo(np.float32).max):
            raise ValueError(
                f'`storage` "{storage}" holds numbers up to 3.4e38; kernel {m} has entries up to {largest:.3g}. '
                'Normalize the kernels (`KernelBank(normalize="spherical")`), or use `storage="dense"`.'
            )
        stored[m] = kernel
    if n_stored != n_arrays:
        raise ValueError(
            f"`n_kernels` must be the number of `kernels`; got {n_arrays} and {n_stored} kernels."
        )
    return stored


# ------------------------------------------------------------- JAX: sums convert as they read, products by kernel


def _double(array: Array) -> Any:
    return array.astype("float64")


def _combine_on_jax(kernels: Array, weights: Array) -> Any:
    import jax

    def add(m: Array, total: Array) -> Any:
        return total + weights[..., m, None, None] * _double(kernels[m])

    shape = (*weights.shape[:-1], *kernels.shape[1:])
    return jax.lax.fori_loop(0, kernels.shape[0], add, namespace(weights).zeros(shape, dtype="float64"))


def _apply_on_jax(kernels: Array, vector: Array) -> Any:
    import jax

    if vector.ndim == 2:
        return jax.lax.map(lambda kernel: _double(kernel) @ vector, kernels)
    by_kernel = vector[:, None, :, 0] if vector.ndim == 3 else vector
    return (_double(kernels) * by_kernel).sum(axis=2)


def _adjoint_on_jax(kernels: Array, rows: Array) -> Any:
    import jax

    def add(total: Array, pair: Any) -> Any:
        kernel, own = pair
        if own.ndim == 1:
            return total + (own[:, None] * _double(kernel)).sum(axis=0), None
        return total + _double(kernel).T @ own, None

    start = namespace(rows).zeros((kernels.shape[2], *rows.shape[2:]), dtype="float64")
    return jax.lax.scan(add, start, (kernels, rows))[0]


# checked by mypy
_CONTRACT: type[StoredStack] = Float32Stack
