"""One triangle of symmetric kernels in single precision: a quarter of their memory, sums in double precision.

Sums of ten thousand kernels, and their Frobenius products with a matrix, are products of one matrix of all triangles,
for as many weights at once as are asked for. Factors of rank r would take r times as many operations: what many
kernels cost is that none of them is cheaper than its own entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dspmv

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import ENTRIES, MIXED_ENTRIES, Stack
from bayesmkl.kernels.stacks.dense import DenseStack, stored_singly

TILE = 8, 2**15  # kernels, and entries of their triangles, that are converted at once: they stay in cache
LARGE_TILE = 128, 2**13  # likewise, where they are multiplied by several vectors
ASYMMETRIC = 1e-5  # difference of triangles, relative to the largest entry, that no rounding leaves
UNPACKED = 2**22  # entries of kernels that are whole at a time, 32 MB


class _Triangles(NamedTuple):
    """What a `PackedStack` holds."""

    triangles: Any
    n_points: int


class PackedStack(_Triangles, Stack):
    """Symmetric training kernels held by their upper triangles, row after row, in single precision.

    Parameters
    ----------
    triangles : float32 array of shape (n_kernels, n_train * (n_train + 1) / 2)
    n_points : int
        Number of training points.

    Examples
    --------
    >>> import numpy as np
    >>> stack = pack([np.eye(2), np.ones((2, 2))], n_kernels=2)
    >>> stack.combine(np.array([1.0, 0.5])), stack.nbytes
    (array([[1.5, 0.5],
           [0.5, 1.5]]), 24)
    """

    storage = "packed"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and training points."""
        return len(self.triangles), self.n_points, self.n_points

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels take."""
        return int(self.triangles.nbytes)

    def blocks(self, entries: int = ENTRIES) -> Iterator[tuple[slice, slice, DenseStack]]:
        """Go through some kernels at a time, whole: no part of a triangle is a block."""
        places, step = _places(self.n_train), max(1, UNPACKED // self.n_train**2)
        for m in range(0, self.n_kernels, step):
            kernels = slice(m, min(m + step, self.n_kernels))
            yield kernels, slice(None), DenseStack(self.triangles[kernels].take(places, axis=1).astype(float))

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

    def _product(self, triangle: np.ndarray, vector: Any) -> np.ndarray:
        """Multiply one kernel by a vector."""
        found: np.ndarray = dspmv(self.n_train, 1.0, triangle.astype(float), vector, lower=1)
        return found

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels, see `Stack.combine`."""
        total = np.zeros((*weights.shape[:-1], self.triangles.shape[1]))
        for kernels, entries, tile in self._tiles(TILE if weights.ndim == 1 else LARGE_TILE):
            total[..., entries] += weights[..., kernels] @ tile
        return total[..., _places(self.n_train)]

    def frobenius(self, other: Array | None = None) -> Any:
        """Return Frobenius products of the kernels, see `Stack.frobenius`."""
        if other is None:
            return super().frobenius()
        both = (other + other.mT)[..., *np.triu_indices(self.n_train)]
        both[..., _places(self.n_train).diagonal()] *= 0.5
        found = np.zeros((*other.shape[:-2], self.n_kernels))
        for kernels, entries, tile in self._tiles(TILE if other.ndim == 2 else LARGE_TILE):
            found[..., kernels] += both[..., entries] @ tile.T
        return found

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right, see `Stack.apply`."""
        if vector.ndim == 1:
            return np.array([self._product(triangle, vector) for triangle in self.triangles])
        return super().apply(vector)

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``, see `Stack.adjoint`."""
        if rows.ndim == 2:
            return sum(self._product(*pair) for pair in zip(self.triangles, rows, strict=True))
        return super().adjoint(rows)

    def _mixture(self, mixing: Any) -> tuple[Callable[[slice], np.ndarray], int]:
        return self.combine(mixing).__getitem__, MIXED_ENTRIES

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`."""
        return self.triangles[:, _places(self.n_train)[:, index]].astype(float)

    def diagonal(self) -> Any:
        """Return the diagonals, shape (n_kernels, n_rows)."""
        return self.triangles[:, _places(self.n_train).diagonal()].astype(float)

    def rows(self, index: Index) -> DenseStack:
        """Return the stack of the query points at `index`, which have no triangles, in single precision."""
        return DenseStack(self.triangles[:, _places(self.n_train)[index]])

    def _part(self, index: Any) -> PackedStack:
        return PackedStack(self.triangles[index], self.n_train)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) in double precision at a time."""
        places = _places(self.n_train)
        for m in range(self.n_kernels) if index is None else index:
            yield self.triangles[m].take(places).astype(float)


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
        For kernels that are not symmetric, and for entries that are too large for single precision.
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
