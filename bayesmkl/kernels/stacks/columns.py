"""Columns of training kernels, evaluated when they are asked for and kept in a bounded cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.base import ENTRIES, Stack
from bayesmkl.kernels.stacks.dense import DenseStack

MEGABYTE = 2**20
MOST_MB = 1e12  # an exabyte: no limit


class ColumnCache:
    """Columns that were computed before, those that were asked for last.

    Parameters
    ----------
    compute : callable
        Takes a list of positions, returns their columns, (n_kernels, n_train, n_columns).
    column_entries : int
        Numbers in one column of all kernels.
    cache_mb : float
        Memory for columns, in MB; those not asked for the longest time go first.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = np.outer(np.arange(3.0), np.arange(3.0))
    >>> cache = ColumnCache(lambda index: kernel[None, :, index], column_entries=3, cache_mb=1.0)
    >>> cache.columns([2, 0, 2])[0].tolist(), cache.n_computed
    ([[0.0, 0.0, 0.0], [2.0, 0.0, 2.0], [4.0, 0.0, 4.0]], 2)
    """

    def __init__(
        self, compute: Callable[[list[int]], np.ndarray], column_entries: int, cache_mb: float
    ) -> None:
        self.n_computed = 0
        self._compute = compute
        self._kept: OrderedDict[int, np.ndarray] = OrderedDict()
        self.capacity = int(min(cache_mb, MOST_MB) * MEGABYTE / (8 * column_entries))

    def columns(self, index: Sequence[int] | np.ndarray, keep: bool = True) -> np.ndarray:
        """Return columns, (n_kernels, n_train, n_columns); with ``keep=False`` the cache stays as it is."""
        return np.stack(self.each(index, keep), axis=1).transpose(0, 2, 1)

    def each(self, index: Sequence[int] | np.ndarray, keep: bool = True) -> list[np.ndarray]:
        """Return the columns one by one, each of shape (n_kernels, n_train)."""
        wanted = [int(i) for i in index]
        missing = [i for i in dict.fromkeys(wanted) if i not in self._kept]
        found = {i: self._kept[i] for i in wanted if i in self._kept}
        if missing:
            computed = self._compute(missing)
            self.n_computed += len(missing)
            found |= {i: computed[:, :, k] for k, i in enumerate(missing)}
        if keep and self.capacity > 0:
            for i in wanted:
                if i not in self._kept:
                    self._kept[i] = np.array(found[i])  # a copy: the column may be a view of many
                self._kept.move_to_end(i)
                if len(self._kept) > self.capacity:
                    self._kept.popitem(last=False)
        return [found[i] for i in wanted]


class BankColumns(Stack):
    """The training kernels of a fitted bank, of which no more than some columns are ever held.

    The kernels are taken to be symmetric, so that the column of a sample is its row. Contractions with sparse vectors
    read the rows where these are not zero, some at a time; those that the cache has are taken from there.

    Parameters
    ----------
    bank : KernelBank
        A fitted bank.
    cache_mb : float, default=100.0
        Memory for columns that were asked for before, in MB; those not asked for the longest time go first.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, KernelBank, Linear
    >>> bank = KernelBank([Gaussian(width=2), Linear()]).fit(np.arange(12.0).reshape(6, 2))
    >>> BankColumns(bank).columns([0, 3]).shape
    (2, 6, 2)
    """

    storage = "columns"

    def __init__(self, bank: KernelBank, cache_mb: float = 100.0) -> None:
        if bank.landmarks_ is not None:
            raise ValueError(
                "`bank` must compare training samples with each other for columns of training kernels; got one with "
                "landmarks. Use `landmarks=None`."
            )
        self.bank = bank
        # no method of this object: the two would keep each other, and so all columns, in memory
        self._cache = ColumnCache(partial(_evaluate, bank), self.n_kernels * self.n_train, cache_mb)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, and twice of training points."""
        return self.bank.n_kernels_, len(self.bank.X_train_), len(self.bank.X_train_)

    @property
    def nbytes(self) -> int:
        """Bytes that columns may take."""
        return 8 * self.n_kernels * self.n_train * min(self._cache.capacity, self.n_train)

    @property
    def n_evaluated(self) -> int:
        """Columns that were computed, again where the cache had lost them."""
        return self._cache.n_computed

    def columns(self, index: Index) -> np.ndarray:
        """Return the columns of all kernels at the training points `index`, (n_kernels, n_train, n_columns)."""
        return self._cache.columns(np.arange(self.n_train)[index])

    def diagonal(self) -> np.ndarray:
        """Return the diagonals of all kernels, shape (n_kernels, n_train)."""
        return self.bank.train_diagonal()

    def principal(self, index: Sequence[int]) -> DenseStack:
        """Return the kernels among the training points `index` alone."""
        blocks = [self.columns([i])[:, index, 0] for i in index]
        return DenseStack(np.ascontiguousarray(np.stack(blocks, axis=1)))

    def rows(self, index: Index) -> DenseStack:
        """Return the stack of the samples at `index`; the cache does not change."""
        index = np.arange(self.n_train)[index]
        rows = np.empty((self.n_kernels, len(index), self.n_train))
        for place, row in enumerate(self._cache.each(index, keep=False)):
            rows[:, place] = row
        return DenseStack(rows)

    def blocks(self, entries: int = ENTRIES) -> Iterator[tuple[slice, slice, DenseStack]]:
        """Evaluate rows, as many at a time as little memory allows."""
        yield from ((slice(None), part, self.rows(part)) for part in self._parts(self.n_rows))

    def apply_rows(self, index: np.ndarray, vector: Array) -> np.ndarray:
        """Return the rows at `index` of ``apply(vector)``, some at a time.

        Examples
        --------
        >>> import numpy as np
        >>> from bayesmkl.kernels import KernelBank, Linear
        >>> bank = KernelBank(Linear(), normalize=None).fit(np.array([[1.0], [2.0], [3.0]]))
        >>> BankColumns(bank).apply_rows(np.array([0, 2]), np.array([1.0, 1.0, 0.0]))
        array([[3., 9.]])
        """
        out = np.zeros((self.n_kernels, len(index), *(vector.shape[1:] if vector.ndim == 2 else ())))
        for part in self._parts(len(index)):
            out[:, part] = self.rows(index[part]).apply(vector)
        return out

    def quadratic(self, vector: Array) -> np.ndarray:
        """Return ``v^T K_m v`` for every kernel, from the rows where `v` is not zero."""
        own = vector[..., 0] if vector.ndim == 3 else vector
        used = np.flatnonzero(own if vector.ndim == 1 else own.any(axis=3 - vector.ndim))
        product = self.apply_rows(used, vector)
        return (product * (own[:, used] if vector.ndim == 3 else own[used])).sum(axis=1)

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors (q, n_train), (q, n_kernels); every row is evaluated once."""
        return self.quadratic(vectors.T).T

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Evaluate all kernels, and go through them, or those at `index`."""
        return iter(self.as_dense().each(index))


def _evaluate(bank: KernelBank, index: list[int]) -> np.ndarray:
    return bank.evaluate(bank.X_train_[index]).transpose(0, 2, 1)
