"""A training stack without its redundancy: kernels as ``K_m = Z_m Z_m^T`` where their numerical rank is low.

Kernels of single features have rank 3 to 60 whatever the number of samples, so that a bank over many features is
mostly empty. The factors come from pivoted Cholesky factorizations (LAPACK ``pstrf``), which stop at the rank and
cost O(N r²) each. Contractions are those of `DenseStack`; their results agree to the tolerance of the factors.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf

from bayesmkl._numerics.arrays import namespace
from bayesmkl.kernels.stack import DenseStack

__all__ = ["LowRankStack", "compress"]

TOLERANCE = 1e-12  # of an entry, relative to the largest entry of the diagonal


class LowRankStack(NamedTuple):
    """A square stack, sorted into groups of kernels of about the same rank.

    Parameters
    ----------
    order : array of shape (n_kernels,)
        Position of every kernel in the concatenation of all groups.
    factors : tuple of arrays of shape (n_group, n_train, rank)
        Z of the compressed kernels, padded with zeros to the largest rank of their group.
    dense : array of shape (n_dense, n_train, n_train)
        Kernels that factors would not shorten, after all groups.
    """

    order: Any
    factors: tuple[Any, ...]
    dense: Any

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.order.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of query points, here the training points."""
        return self.dense.shape[1]

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return self.dense.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that factors and dense kernels take."""
        return self.dense.nbytes + sum(factor.nbytes for factor in self.factors)

    def apply(self, vector: Any) -> Any:
        """Multiply every kernel from the right by one vector (n_train,) or a batch (n_train, q)."""
        xp = namespace(vector)
        columns = vector.reshape(self.n_train, -1)
        parts = [z @ (z.transpose(0, 2, 1) @ columns) for z in self.factors]
        parts.append(DenseStack(self.dense).apply(columns))
        return xp.concatenate(parts)[self.order].reshape(self.n_kernels, *vector.shape)

    def adjoint(self, rows: Any) -> Any:
        """Return ``sum_m K_m^T rows_m`` for rows of shape (n_kernels, n_train)."""
        sorted_rows = rows[namespace(rows).argsort(self.order)]
        total, start = 0.0, 0
        for z in self.factors:
            stop = start + z.shape[0]
            inner = z.transpose(0, 2, 1) @ sorted_rows[start:stop, :, None]
            total = total + (z @ inner).sum(axis=0)[:, 0]
            start = stop
        return total + DenseStack(self.dense).adjoint(sorted_rows[start:])

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        total = DenseStack(self.dense).gram()
        for z in self.factors:
            inner = z.transpose(0, 2, 1) @ z
            left = (z @ inner).transpose(1, 0, 2).reshape(self.n_train, -1)
            total = total + left @ z.transpose(1, 0, 2).reshape(self.n_train, -1).T
        return total


def compress(stack: DenseStack, tolerance: float = TOLERANCE) -> LowRankStack:
    """Factorize the kernels of a square stack.

    Parameters
    ----------
    stack : DenseStack
        Symmetric positive semidefinite training kernels.
    tolerance : float
        Largest error of an entry, relative to the largest entry of its kernel's diagonal.

    Returns
    -------
    LowRankStack

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1.0, 1.0, 50)
    >>> stack = DenseStack(np.exp(-0.5 * np.subtract.outer(x, x) ** 2)[None])
    >>> short = compress(stack)
    >>> short.factors[0].shape[2] < 20
    True
    >>> bool(abs(short.apply(x) - stack.apply(x)).max() < 1e-10)
    True
    """
    kernels, n_train = stack.kernels, stack.n_train
    factors = [_pivoted_cholesky(kernel, tolerance) for kernel in kernels]
    ranks = np.array([factor.shape[1] for factor in factors])
    # two products with Z instead of one with K: shorter below half of n_train
    groups = [np.flatnonzero((ranks > low) & (ranks <= high)) for low, high in _rank_groups(n_train // 2)]
    groups = [members for members in groups if len(members)]
    dense = np.flatnonzero(ranks > n_train // 2)
    padded = tuple(
        np.stack([np.pad(factors[m], ((0, 0), (0, ranks[members].max() - ranks[m]))) for m in members])
        for members in groups
    )
    return LowRankStack(np.argsort(np.concatenate([*groups, dense])), padded, kernels[dense])


def _rank_groups(largest: int) -> list[tuple[int, int]]:
    """Rank intervals (low, high] whose ends grow by a third, so that padding wastes at most a quarter."""
    ends = [-1, 4]
    while ends[-1] < largest:
        ends.append(min(largest, ends[-1] + max(2, ends[-1] // 3)))
    ends = [end for end in ends if end <= largest]
    return list(pairwise(ends))


def _pivoted_cholesky(kernel: np.ndarray, tolerance: float) -> np.ndarray:
    """Return Z of shape (n, rank) with ``|K - Z Z^T| <= tolerance * max(diag K)`` in every entry."""
    threshold = tolerance * max(float(kernel.diagonal().max()), np.finfo(float).tiny)
    factor, pivots, rank, _ = dpstrf(kernel, tol=threshold, lower=1)
    z = np.zeros((len(kernel), rank))
    z[pivots - 1] = np.tril(factor)[:, :rank]
    return z
