"""Columns of training kernels, evaluated when they are asked for and kept in a bounded cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from bayesmkl._numerics.arrays import Array
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.base import SymmetricStack
from bayesmkl.kernels.stacks.dense import DenseStack

MEGABYTE = 2**20
MOST_MB = 1e12  # an exabyte: no limit
BLOCK = 2**20  # entries of the rows of all kernels that are held at once, 8 MB


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

    def __contains__(self, i: int) -> bool:
        """Return whether a column is kept."""
        return i in self._kept

    def columns(self, index: Sequence[int] | np.ndarray, keep: bool = True) -> np.ndarray:
        """Return columns, (n_kernels, n_train, n_columns); with ``keep=False`` the cache stays as it is."""
        return np.stack(self.each(index, keep), axis=1).transpose(0, 2, 1)

    def one(self, i: int, near: Callable[[int], list[int]]) -> np.ndarray:
        """Return one column, (n_kernels, n_train); where it is missing, those that `near` names are kept as well."""
        column = self._kept.get(i)
        if column is None:
            return self.each([i, *near(i)])[0]
        self._kept.move_to_end(i)
        return column

    def each(self, index: Sequence[int] | np.ndarray, keep: bool = True) -> list[np.ndarray]:
        """Return the columns one by one, each of shape (n_kernels, n_train)."""
        wanted = [int(i) for i in index]
        if keep and all(i in self._kept for i in wanted):
            for i in wanted:
                self._kept.move_to_end(i)
            return [self._kept[i] for i in wanted]
        missing = [i for i in dict.fromkeys(wanted) if i not in self._kept]
        found = {i: self._kept[i] for i in wanted if i in self._kept}
        if missing:
            computed = self._compute(missing)
            self.n_computed += len(missing)
            found |= {i: computed[:, :, k] for k, i in enumerate(missing)}
        if keep and self.capacity > 0:
            for i in wanted:
                self._keep(i, found[i])
        return [found[i] for i in wanted]

    def _keep(self, i: int, column: np.ndarray) -> None:
        if i in self._kept:
            self._kept.move_to_end(i)
            return
        self._kept[i] = np.array(column)  # a copy: the column may be a view of many
        while len(self._kept) > self.capacity:
            self._kept.popitem(last=False)


class BankColumns:
    """The training kernels of a fitted bank, of which no more than some columns are ever held.

    A :class:`~bayesmkl.kernels.stacks.base.SymmetricStack`: the kernels are taken to be symmetric, so that the column
    of a sample is its row.

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
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.bank.n_kernels_

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return len(self.bank.X_train_)

    @property
    def n_evaluated(self) -> int:
        """Columns that were computed, again where the cache had lost them."""
        return self._cache.n_computed

    def columns(self, index: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the columns of all kernels at the training points `index`, (n_kernels, n_train, n_columns)."""
        return self._cache.columns(index)

    def diagonal(self) -> np.ndarray:
        """Return the diagonals of all kernels, shape (n_kernels, n_train)."""
        return self.bank.train_diagonal()

    def principal(self, index: Sequence[int]) -> DenseStack:
        """Return the kernels among the training points `index` alone."""
        blocks = [self.columns([i])[:, index, 0] for i in index]
        return DenseStack(np.ascontiguousarray(np.stack(blocks, axis=1)))

    def apply_rows(self, index: np.ndarray, vector: Array) -> np.ndarray:
        """Multiply the rows at `index` of every kernel, evaluated block by block, as `DenseStack.apply` does.

        Parameters
        ----------
        index : ndarray of int of shape (n_rows,)
        vector : ndarray of shape (n_train,), (n_train, q) or (n_kernels, n_train, 1)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows), (n_kernels, n_rows, q) or (n_kernels, n_rows)

        Examples
        --------
        >>> import numpy as np
        >>> from bayesmkl.kernels import KernelBank, Linear
        >>> bank = KernelBank(Linear(), normalize=None).fit(np.array([[1.0], [2.0], [3.0]]))
        >>> BankColumns(bank).apply_rows(np.array([0, 2]), np.array([1.0, 1.0, 0.0]))
        array([[3., 9.]])
        """
        tail = vector.shape[1:] if vector.ndim == 2 else ()
        out = np.zeros((self.n_kernels, len(index), *tail))
        for part, rows in self.blocks(index):
            out[:, part] = rows.apply(vector)
        return out

    def quadratic(self, vector: Array) -> np.ndarray:
        """Return ``v^T K_m v`` for every kernel, (n_kernels,) or (n_kernels, q), from the rows where `v` is not zero.

        Parameters
        ----------
        vector : ndarray of shape (n_train,) or (n_train, q)
        """
        used = np.flatnonzero(vector if vector.ndim == 1 else vector.any(axis=1))
        product = self.apply_rows(used, vector)
        return (product * vector[used]).sum(axis=1)

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors (q, n_train), (q, n_kernels); every row is evaluated once."""
        return self.quadratic(vectors.T).T

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, DenseStack]]:
        """Go through the rows at `index`, as many at a time as little memory allows.

        Those that the cache has are taken from there; it does not change.
        """
        step = max(1, BLOCK // (self.n_kernels * self.n_train))
        for first in range(0, len(index), step):
            part = slice(first, min(first + step, len(index)))
            rows = self._cache.each(index[part].tolist(), keep=False)
            yield part, DenseStack(np.stack(rows, axis=1))


def _evaluate(bank: KernelBank, index: list[int]) -> np.ndarray:
    return bank.evaluate(bank.X_train_[index]).transpose(0, 2, 1)


# checked by mypy
_CONTRACT: type[SymmetricStack] = BankColumns
