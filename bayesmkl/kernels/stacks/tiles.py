"""Kernels of a fitted bank on a few rows at a time, evaluated over and over into the same memory.

A tile is one kernel between a few rows and all basis points. It stays in cache: who multiplies by it before the next
tile comes never waits for memory. Values are those of `KernelBank.evaluate`, up to the rounding of inner products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from bayesmkl.kernels.adapters import CallableKernel
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.normalize import Normalizer, Spherical, normalized_kernel
from bayesmkl.kernels.sparse import columns_of, dense_products, is_sparse, sparse_distances


class Room:
    """Memory for one tile, or all kernels of a few rows, and what the kernels of a view share; one for every thread.

    Parameters
    ----------
    n_rows, n_basis : int
        Largest size of a tile.
    """

    def __init__(self, n_rows: int, n_basis: int) -> None:
        self.n_rows, self.n_basis = n_rows, n_basis
        self._arrays: dict[str, np.ndarray] = {}
        self._kernels = np.empty(0)

    def array(self, name: str, n_rows: int) -> np.ndarray:
        """Return an array of shape (n_rows, n_basis) that holds whatever it held before under this name."""
        if name not in self._arrays:
            self._arrays[name] = np.empty((self.n_rows, self.n_basis))
        return self._arrays[name][:n_rows]

    def kernels(self, n_kernels: int, n_rows: int) -> np.ndarray:
        """Return an array of shape (n_kernels, n_rows, n_basis) in the memory of the last one, if that suffices."""
        size = n_kernels * n_rows * self.n_basis
        if self._kernels.size < size:
            self._kernels = np.empty(size)
        return self._kernels[:size].reshape(n_kernels, n_rows, self.n_basis)


class _RoomyGeometry(PairwiseGeometry):
    """Write distances and inner products into memory that is there: fresh pages cost as much as their contents."""

    def __init__(self, X: np.ndarray, Z: np.ndarray, room: Room, products: str = "inner products") -> None:
        super().__init__(X, Z)
        self._room, self._products = room, products

    @cached_property
    def squared_distances(self) -> np.ndarray:
        out = self._room.array("squared distances", len(self.X))
        if is_sparse(self.X) and is_sparse(self.Z):
            return sparse_distances(self.X, self.Z, out)
        return cdist(self.X, self.Z, "sqeuclidean", out=out)

    @cached_property
    def l1_distances(self) -> np.ndarray:
        return cdist(self.X, self.Z, "cityblock", out=self._room.array("l1 distances", len(self.X)))

    @cached_property
    def inner_products(self) -> np.ndarray:
        out = self._room.array(self._products, len(self.X))
        if is_sparse(self.X) and is_sparse(self.Z):
            return dense_products(self.X, self.Z, out)
        return np.matmul(self.X, self.Z.T, out=out)

    def _moved(self, origin: np.ndarray) -> PairwiseGeometry:
        return _RoomyGeometry(self.X - origin, self.Z - origin, self._room, "moved inner products")


class _Member(NamedTuple):
    """One kernel of a view."""

    place: int  # among the kernels that are wanted
    name: str
    kernel: Kernel
    normalizers: list[Normalizer]  # empty where they would change nothing


class _View(NamedTuple):
    """The columns that some kernels share."""

    columns: Any
    basis: np.ndarray  # (n_basis, n_columns)
    members: list[_Member]


class KernelTiles:
    """Data needed to evaluate kernels of a bank on rows.

    Parameters
    ----------
    bank : KernelBank
        Fitted, with ``missing_views="error"``.
    kernels : ndarray of int, default=None
        Positions of the kernels that are wanted, each once, in any order; None: all.

    Attributes
    ----------
    names : list of str
        Names of the kernels that are wanted.
    n_kernels, n_basis, n_features : int
        Kernels that are wanted, points that rows are compared with, columns of rows.
    threads_allowed : bool
        False where a function of the user takes part, which may not be made for several threads.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, KernelBank, Linear
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> bank = KernelBank([Gaussian(width=2), Linear()], views="each").fit(X)
    >>> tiles = KernelTiles(bank, np.array([5, 0]))
    >>> room = Room(4, tiles.n_basis)
    >>> {place: bool((tile == bank.evaluate(X[:4])[[5, 0][place]]).all()) for place, tile in tiles.of(X[:4], room)}
    {1: True, 0: True}
    """

    def __init__(self, bank: KernelBank, kernels: np.ndarray | None = None) -> None:
        self.bank = bank
        self.wanted = np.arange(bank.n_kernels_) if kernels is None else np.asarray(kernels, dtype=np.intp)
        self.names = [bank.kernel_names_[m] for m in self.wanted]
        self.n_kernels, (self.n_basis, self.n_features) = len(self.wanted), bank.basis_.shape
        places = {int(m): place for place, m in enumerate(self.wanted)}
        self._views = []
        for view, of_view in zip(bank.views_, bank.kernels_of_views(), strict=True):
            members = [_member(bank, m, places[m]) for m in of_view if m in places]
            if members:
                basis = columns_of(bank.basis_, view.columns)
                self._views.append(_View(view.columns, basis, members))
        self.threads_allowed = not any(
            _is_foreign(member.kernel) for view in self._views for member in view.members
        )

    def of(self, X: np.ndarray, room: Room) -> Iterator[tuple[int, np.ndarray]]:
        """Yield place and values (n_rows, n_basis) of every kernel on rows `X`; the next one overwrites them."""
        values = room.array("values", len(X))
        for place in self._evaluate(X, room, lambda _: values):
            yield place, values

    def together(self, X: np.ndarray, room: Room) -> np.ndarray:
        """Return all kernels on rows `X`, (n_kernels, n_rows, n_basis); the next call overwrites them."""
        kernels = room.kernels(self.n_kernels, len(X))
        for _ in self._evaluate(X, room, kernels.__getitem__):
            pass
        return kernels

    def _evaluate(self, X: np.ndarray, room: Room, memory: Callable[[int], np.ndarray]) -> Iterator[int]:
        """Evaluate every kernel into the memory for its place, and yield the place."""
        for view in self._views:
            geometry = _RoomyGeometry(columns_of(X, view.columns), view.basis, room)
            for place, name, kernel, normalizers in view.members:
                values = memory(place)
                seen: PairwiseGeometry = geometry
                if len(kernel.gate_columns):
                    gates = kernel.gate_columns
                    seen = geometry.with_columns(X[:, gates], self.bank.basis_[:, gates])
                try:
                    kernel.evaluate(seen, values)
                    if normalizers:
                        diagonal = kernel.diagonal(seen.X)
                        for normalizer in normalizers:
                            diagonal = normalizer.apply(values, diagonal)
                except ValueError as error:
                    raise ValueError(f"kernel {name!r}: {error}") from error
                yield place


def _member(bank: KernelBank, m: int, place: int) -> _Member:
    normalizers = bank.normalizers_[m]
    kernel = normalized_kernel(bank.kernels_[m], normalizers)
    if type(kernel).diagonal is Kernel.diagonal and all(map(_keeps_unit_diagonal, normalizers)):
        normalizers = []  # k(x, x) is 1 for every row
    return _Member(place, bank.kernel_names_[m], kernel, normalizers)


def _keeps_unit_diagonal(normalizer: Normalizer) -> bool:
    return isinstance(normalizer, Spherical) and bool(np.all(normalizer.inverse_norms == 1.0))


def _is_foreign(kernel: Kernel) -> bool:
    return any(
        isinstance(one, CallableKernel) or (isinstance(one, FromDistance) and callable(one.distance))
        for one in kernel.factors()
    )
