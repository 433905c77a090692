"""One triangle of symmetric kernels in single precision: a quarter of their memory, sums in double precision.

Sums of ten thousand kernels, and their Frobenius products with a matrix, are products of one matrix of all triangles,
for as many weights at once as are asked for. Factors of rank r would take r times as many operations: what many
kernels cost is that none of them is cheaper than its own entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dspmv

from bayesmkl._numerics.arrays import Array
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
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.float32 import Float32Stack, stored_singly

TILE = 8, 2**15  # kernels, and entries of their triangles, that are converted at once: they stay in cache
LARGE_TILE = 128, 2**13  # likewise, where they are multiplied by several vectors
ASYMMETRIC = 1e-5  # difference of triangles, relative to the largest entry, that no rounding leaves
UNPACKED = 2**22  # entries of kernels that are whole at a time, 32 MB


class PackedStack(NamedTuple):
    """Symmetric training kernels held by their upper triangles, row after row, in single precision.

    Parameters
    ----------
    triangles : float32 array of shape (n_kernels, n_train * (n_train + 1) / 2)
    n_train : int
        Number of training points.

    Examples
    --------
    >>> import numpy as np
    >>> stack = pack([np.eye(2), np.ones((2, 2))], n_kernels=2)
    >>> stack.combine(np.array([1.0, 0.5])), stack.nbytes
    (array([[1.5, 0.5],
           [0.5, 1.5]]), 24)
    """

    triangles: Any
    n_train: int

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return len(self.triangles)

    @property
    def n_rows(self) -> int:
        """Number of query points: the training points."""
        return self.n_train

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels take."""
        return self.triangles.nbytes

    @property
    def present(self) -> None:
        """Presence of the view of each kernel at the query points: all of them."""
        return None

    @property
    def storage(self) -> str:
        """The form of the kernels, "packed"."""
        return "packed"

    def _tiles(self, shape: tuple[int, int]) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Go through parts of some triangles at a time, in double precision."""
        size, (n_kernels, width) = self.triangles.shape[1], shape
        scratch = np.empty(shape)
        for start in range(0, size, width):
            entries = slice(start, min(start + width, size))
            for m in range(0, self.n_kernels, n_kernels):
                kernels = slice(m, min(m + n_kernels, self.n_kernels))
                tile = scratch[: kernels.stop - m, : entries.stop - start]
                tile[...] = self.triangles[kernels, entries]
                yield kernels, entries, tile

    def _parts(self) -> Iterator[tuple[slice, DenseStack]]:
        """Go through some kernels at a time, whole and in double precision."""
        places, step = _places(self.n_train), max(1, UNPACKED // self.n_train**2)
        for m in range(0, self.n_kernels, step):
            kernels = slice(m, min(m + step, self.n_kernels))
            yield kernels, DenseStack(self.triangles[kernels].take(places, axis=1).astype(float))

    def _product(self, triangle: np.ndarray, vector: Any) -> np.ndarray:
        """Multiply one kernel by a vector."""
        found: np.ndarray = dspmv(self.n_train, 1.0, triangle.astype(float), vector, lower=1)
        return found

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels, see `DenseStack.combine`."""
        total = np.zeros((*weights.shape[:-1], self.triangles.shape[1]))
        for kernels, entries, tile in self._tiles(TILE if weights.ndim == 1 else LARGE_TILE):
            total[..., entries] += weights[..., kernels] @ tile
        return total[..., _places(self.n_train)]

    def frobenius(self, other: Array | None = None) -> Any:
        """Return Frobenius products of the kernels, see `DenseStack.frobenius`."""
        if other is None:
            return frobenius_products(self)
        both = (other + other.mT)[..., *np.triu_indices(self.n_train)]
        both[..., _places(self.n_train).diagonal()] *= 0.5
        found = np.zeros((*other.shape[:-2], self.n_kernels))
        for kernels, entries, tile in self._tiles(TILE if other.ndim == 2 else LARGE_TILE):
            found[..., kernels] += both[..., entries] @ tile.T
        return found

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right, see `DenseStack.apply`."""
        if vector.ndim == 1:
            return np.array([self._product(triangle, vector) for triangle in self.triangles])
        tail = vector.shape[1:] if vector.ndim == 2 else ()
        out = np.empty((self.n_kernels, self.n_train, *tail))
        for kernels, part in self._parts():
            out[kernels] = part.apply(vector[kernels] if vector.ndim == 3 else vector)
        return out

    def apply_rows(self, index: np.ndarray, vector: Array) -> Any:
        """Return the rows at `index` of ``apply(vector)``."""
        return self.rows(index).apply(vector)

    def combine_gated(self, row_gates: Array, train_gates: Array) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train), see `DenseStack.combine_gated`."""
        return gated_sum(self, row_gates, train_gates)

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``, see `DenseStack.adjoint`."""
        if rows.ndim == 2:
            return sum(self._product(*pair) for pair in zip(self.triangles, rows, strict=True))
        total = np.zeros((self.n_train, *rows.shape[2:]))
        for kernels, part in self._parts():
            total += part.adjoint(rows[kernels])
        return total

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        total = np.zeros((self.n_train, self.n_train))
        for _, part in self._parts():
            total += part.gram()
        return total

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)`` and ``mixing @ apply(vector) + offset``, see `KernelStack.apply_and_adjoin`."""
        return apply_and_mix(self, vector, mixing, offset)

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram, see `KernelStack.adjoint_and_mixed_gram`."""
        mixed = self.combine(mixing)
        return mixed_gram_of_blocks(self, rows, mixing, weights, mix=mixed.__getitem__)

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance of ``K_m v`` over the rows, for vectors (n_train, q)."""
        parts = kernels_at_once(self, vectors.shape[1])
        return spread_of_products(((some, self._part(some)) for some in parts), self.n_kernels, vectors)

    def spread_and_sum(self, vectors: np.ndarray, weights: np.ndarray) -> tuple[Spread, np.ndarray]:
        """Return the spread, and weighted sums of the products, see `KernelStack.spread_and_sum`."""
        return spread_then_sum(self, vectors, weights)

    def quadratic(self, vector: Array) -> Any:
        """Return ``v^T K_m v`` for every kernel, see `DenseStack.quadratic`."""
        if vector.ndim == 1:
            return self.frobenius(np.outer(vector, vector))
        product = self.apply(vector)
        return (product * (vector[..., 0] if vector.ndim == 3 else vector)).sum(axis=1)

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors (q, n_train) that are mostly zero, (q, n_kernels)."""
        return quadratics_one_by_one(self, vectors)

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`."""
        return self.triangles[:, _places(self.n_train)[:, index]].astype(float)

    def diagonal(self) -> Any:
        """Return the diagonals, shape (n_kernels, n_rows)."""
        return self.triangles[:, _places(self.n_train).diagonal()].astype(float)

    def rows(self, index: Index) -> Any:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        return Float32Stack(self.triangles[:, _places(self.n_train)[index]])

    def select(self, index: Index) -> PackedStack:
        """Return the stack of the kernels at `index` (integers or a boolean mask)."""
        return self._part(np.atleast_1d(np.asarray(index)))

    def _part(self, index: Index) -> PackedStack:
        return PackedStack(self.triangles[index], self.n_train)

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Go through the rows at `index`, a few at a time: which of them, and their kernels."""
        return blocks_of_rows(self, index)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) in double precision at a time."""
        places = _places(self.n_train)
        for m in range(self.n_kernels) if index is None else index:
            yield self.triangles[m].take(places).astype(float)

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return entries of all kernels, or those at `kernels`, (n_kernels, n_rows, n_columns)."""
        places = _places(self.n_train)[rows[:, None], columns]
        chosen = slice(None) if kernels is None else kernels[:, None, None]
        return self.triangles[chosen, places].astype(float)


@lru_cache(maxsize=4)
def _places(n_train: int) -> np.ndarray:
    """Return the position in the triangle of every entry of a kernel, (n_train, n_train)."""
    places = np.empty((n_train, n_train), dtype=np.intp)
    upper = np.triu_indices(n_train)
    places[upper] = places.T[upper] = np.arange(len(upper[0]))
    places.flags.writeable = False
    return places


def pack(kernels: Iterable[np.ndarray], n_kernels: int) -> PackedStack:
    """Store the upper triangles of training kernels in single precision, one after the other.

    Parameters
    ----------
    kernels : iterable of ndarray of shape (n_train, n_train)
        Finite and symmetric; every kernel may be overwritten when the next one is asked for.
    n_kernels : int
        How many there are.

    Returns
    -------
    PackedStack

    Raises
    ------
    ValueError
        For kernels that are not symmetric, entries that are too large for single precision, and for another number
        of kernels.
    """
    sizes: list[int] = []

    def triangles() -> Iterator[np.ndarray]:
        upper = None
        for m, kernel in enumerate(kernels):
            if upper is None:
                sizes.append(len(kernel))
                upper = np.ravel_multi_index(np.triu_indices(len(kernel)), kernel.shape)
            unlike = float(np.abs(kernel - kernel.T).max())
            if unlike > ASYMMETRIC * float(np.abs(kernel).max()):
                raise ValueError(
                    f'`storage` "packed" holds one triangle of symmetric kernels; those of kernel {m} differ by up '
                    f'to {unlike:.3g}. Use `storage="float32"`.'
                )
            yield kernel.take(upper)

    stored = stored_singly(triangles(), n_kernels, "packed")
    return PackedStack(stored, sizes[0])


def unheld(n_kernels: int, n_train: int) -> PackedStack:
    """Return the stack of kernels that nobody asks for: their numbers alone are known."""
    return PackedStack(np.empty((n_kernels, 0), dtype=np.float32), n_train)


# checked by mypy
_CONTRACT: type[StoredStack] = PackedStack
