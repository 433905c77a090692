"""Kernels of low numerical rank by pivoted Cholesky factorizations, and ranks that are near enough to share an array.

LAPACK's ``pstrf`` stops at the rank r and costs O(N r²), but O(N³) where it finds that there was nothing to gain. So
the ranks of small principal submatrices, which no rank of the kernel can be below, are looked at before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpstrf

SAMPLE = 32  # rows of the first submatrix that is looked at; then twice as many
# |K p - Z Z' p| for normal p, relative to N times the largest error of an entry: far below one for kernels that are
# positive semidefinite, whose errors have many signs; far above it for others, whose factorization is none of them.
MISFIT = 10.0
INDEFINITE = 1e-8  # of the largest entry of the diagonal, below zero, that no rounding leaves
CALL_BYTES = 2**17  # what is read from memory in the time of a call


class Factor(NamedTuple):
    """``K = Z Z^T``, and the samples whose columns of K say all of it."""

    transposed: np.ndarray  # Z', (rank, n_train), C order
    pivots: np.ndarray  # (rank,); Z at these rows is lower triangular


class Factorizer:
    """Factorize kernels of one size one after the other, in memory that is theirs.

    Parameters
    ----------
    n_train : int
        Rows of the kernels.
    tolerance : float
        Largest error of an entry, relative to the largest entry of the kernel's diagonal.
    rank : int, optional
        At which factorizations end, whatever they then miss; where it is less than half of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.factorize import Factorizer
    >>> factor = Factorizer(6, tolerance=1e-10)(np.outer(np.arange(6.0), np.arange(6.0)))
    >>> factor.transposed
    array([[0., 1., 2., 3., 4., 5.]])
    >>> Factorizer(6, tolerance=1e-10)(np.eye(6)) is None
    True
    """

    def __init__(self, n_train: int, tolerance: float, rank: int | None = None) -> None:
        rng = np.random.default_rng(0)
        self._tolerance = tolerance
        self._rank = rank
        self._longest = (n_train - 1) // 2  # ranks that save something: Z is read twice where K is read once
        self._order = rng.permutation(n_train)
        self._probe = rng.standard_normal(n_train)
        self._scratch = np.empty((n_train, n_train), order="F")

    def __call__(self, kernel: np.ndarray) -> Factor | None:
        """Return the factor of a kernel (n_train, n_train), or None where it would save nothing or is none.

        Parameters
        ----------
        kernel : ndarray of shape (n_train, n_train)
            Not changed.
        """
        largest = float(kernel.diagonal().max())
        threshold = self._tolerance * largest
        if largest <= 0.0:
            return None if kernel.any() else Factor(np.empty((0, len(kernel))), np.empty(0, dtype=np.intp))
        if self._rank is not None and self._rank <= self._longest:
            return first_columns(kernel, self._rank, threshold)
        self._scratch[...] = kernel.T
        if self._is_long(threshold):
            return None
        triangle, order, rank, _ = dpstrf(self._scratch, tol=threshold, lower=1, overwrite_a=1)
        if rank > self._longest:
            return None
        transposed = triangle.T[:rank]
        transposed[:, :rank] = np.triu(transposed[:, :rank])
        transposed = transposed.take(np.argsort(order), axis=1)
        misfit = np.abs(kernel @ self._probe - (transposed @ self._probe) @ transposed).max()
        if not misfit <= MISFIT * len(kernel) * threshold:
            return None
        return Factor(transposed, order[:rank].astype(np.intp) - 1)

    def _is_long(self, threshold: float) -> bool:
        """Return whether a submatrix shows that the rank is too large to save anything."""
        size = min(SAMPLE, self._longest + 1)
        while _has_full_rank(self._scratch, self._order[:size], threshold):
            if size > self._longest:
                return True
            size = min(2 * size, self._longest + 1)
        return False


def first_columns(kernel: np.ndarray, rank: int, threshold: float) -> Factor | None:
    """Return the first columns of the Cholesky factorization with complete pivoting; None of an indefinite kernel.

    They are the Nyström approximation through the pivots, each of which is the sample of which the others say least.

    Parameters
    ----------
    kernel : ndarray of shape (n_train, n_train)
    rank : int
        Columns, at most.
    threshold : float
        What may be missing in every entry of the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([0.0, 1.0, 2.0, 4.0])
    >>> factor = first_columns(np.outer(x, x) + np.eye(4), rank=1, threshold=0.0)
    >>> factor.pivots, (factor.transposed[0] * 17**0.5).round(6)
    (array([3]), array([ 0.,  4.,  8., 17.]))
    """
    missing = kernel.diagonal().copy()
    transposed, pivots = np.zeros((rank, len(kernel))), np.empty(rank, dtype=np.intp)
    for k in range(rank):
        pivot = int(missing.argmax())
        if missing[pivot] <= threshold:
            transposed, pivots = transposed[:k], pivots[:k]
            break
        row = (kernel[pivot] - transposed[:k, pivot] @ transposed[:k]) / np.sqrt(missing[pivot])
        row[pivots[:k]] = 0.0
        missing -= row**2
        missing[pivot] = 0.0
        transposed[k], pivots[k] = row, pivot
    if missing.min() < -max(threshold, INDEFINITE * kernel.diagonal().max()):
        return None
    return Factor(transposed, pivots)


def _has_full_rank(kernel: np.ndarray, rows: np.ndarray, threshold: float) -> bool:
    factor, info = dpotrf(kernel[np.ix_(rows, rows)], lower=1, overwrite_a=1, clean=0)
    return info == 0 and bool((factor.diagonal() ** 2 > threshold).all())


def group_by_rank(ranks: np.ndarray, n_train: int) -> list[np.ndarray]:
    """Put kernels of about the same rank together.

    Every group takes a call and every factor is padded to the longest of its group; the groups are those for which
    both together take least time.

    Parameters
    ----------
    ranks : ndarray of int of shape (n_kernels,)
    n_train : int
        Columns of the factors.

    Returns
    -------
    list of ndarray of int
        Positions of the members of each group, by ascending rank.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.factorize import group_by_rank
    >>> [group.tolist() for group in group_by_rank(np.array([900, 2, 3, 2, 901]), n_train=2000)]
    [[1, 2, 3], [0, 4]]
    """
    if len(ranks) == 0:
        return []
    order = np.argsort(ranks, kind="stable")
    lengths, counts = np.unique(ranks, return_counts=True)
    n_below = np.concatenate([[0], np.cumsum(counts)])
    call = CALL_BYTES / (8 * n_train)  # in rows of a factor
    costs, starts = np.zeros(1), []
    for stop, length in enumerate(lengths, start=1):
        totals = costs + call + length * (n_below[stop] - n_below[:stop])
        starts.append(int(np.argmin(totals)))
        costs = np.append(costs, totals.min())
    groups, stop = [], len(lengths)
    while stop > 0:
        start = starts[stop - 1]
        groups.append(np.sort(order[n_below[start] : n_below[stop]]))
        stop = start
    return groups[::-1]
