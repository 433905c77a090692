"""Columns of training kernels, evaluated when they are asked for and kept in a bounded cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stack import DenseStack

__all__ = ["BankColumns"]

MEGABYTE = 2**20


class BankColumns:
    """The training kernels of a fitted bank, of which no more than single columns are ever held.

    Has those contractions of :class:`~bayesmkl.kernels.stack.DenseStack` that need no whole kernel. The kernels are
    taken to be symmetric: the column of a sample is its row.

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
        self.bank = bank
        self.n_evaluated = 0  # columns that were computed, again where the cache had lost them
        self._cache: OrderedDict[int, np.ndarray] = OrderedDict()
        self._capacity = int(cache_mb * MEGABYTE / (8 * self.n_kernels * self.n_train))

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.bank.n_kernels_

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return len(self.bank.X_train_)

    def columns(self, index: Sequence[int]) -> np.ndarray:
        """Return the columns of all kernels at the training points `index`, (n_kernels, n_train, n_columns)."""
        wanted = [int(i) for i in index]
        missing = [i for i in dict.fromkeys(wanted) if i not in self._cache]
        found = {i: self._cache[i] for i in wanted if i in self._cache}
        if missing:
            rows = self.bank.evaluate(self.bank.X_train_[missing])
            self.n_evaluated += len(missing)
            found |= {i: rows[:, k] for k, i in enumerate(missing)}
        for i in wanted:
            self._keep(i, found[i])
        return np.stack([found[i] for i in wanted], axis=2)

    def diagonal(self) -> np.ndarray:
        """Return the diagonals of all kernels, shape (n_kernels, n_train)."""
        return self.bank.train_diagonal()

    def principal(self, index: Sequence[int]) -> DenseStack:
        """Return the kernels among the training points `index` alone."""
        blocks = [self.columns([i])[:, index, 0] for i in index]
        return DenseStack(np.ascontiguousarray(np.stack(blocks, axis=1)))

    def _keep(self, i: int, column: np.ndarray) -> None:
        if self._capacity == 0:
            return
        self._cache.pop(i, None)
        self._cache[i] = column if column.base is None else column.copy()
        while len(self._cache) > self._capacity:
            self._cache.popitem(last=False)
