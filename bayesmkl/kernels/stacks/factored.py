r"""Kernels by factors: those of low numerical rank as ``K_m = Z_m Z_m^T``, linear ones by features that they share.

Kernels of single features have rank 3 to 60 whatever the number of samples, so that a bank over many features is
mostly empty. `LowRankStack` holds their pivoted Cholesky factors; its results agree with those of dense kernels to
the tolerance of the factors.

Thousands of pathway kernels share a few thousand features. `LinearStack` holds those once, and for every kernel a
sparse row s_m, which has its scale at its features and zeros elsewhere. A sum of kernels is then one of features,

.. math:: \sum_m w_m K_m = X \operatorname{diag}\Big(\sum_m w_m s_m\Big) X^\top, \qquad
    \operatorname{tr}(K_m A) = \sum_k s_{mk}\, (X^\top A X)_{kk},

which takes as many operations as there are features, however many kernels they make. Centered kernels have features
around their training means; those of unit self-similarity are of no such form, since every kernel scales samples by
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpstrf
from scipy.sparse import csr_array

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import MIXED_ENTRIES, Spread, Stack
from bayesmkl.kernels.stacks.dense import DenseStack

TOLERANCE = 1e-10  # of an entry, relative to the largest entry of the diagonal
LOOKED_AFTER = 2**26  # bytes of dense kernels after which to look whether there is memory for more
REMEDY = "Compare samples with landmarks, KernelBank(landmarks=256), or use fewer kernels or samples."
GATHERED = 2**28  # bytes of factors that are put into groups at a time, during which they are there twice
PIECE = 2**20  # bytes of factors that stay in cache from their first use to the second
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
    >>> from bayesmkl.kernels.stacks.factored import Factorizer
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
    >>> from bayesmkl.kernels.stacks.factored import group_by_rank
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


# -------------------------------------------------------------------------------------- kernels of low rank


class Factors(NamedTuple):
    """What a `LowRankStack` holds, and models keep of it."""

    order: Any
    factors: tuple[Any, ...]
    dense: Any
    left: tuple[Any, ...] | None = None
    pivots: tuple[Any, ...] | None = None


class LowRankStack(Factors, Stack):
    """Kernels ``L_m R_m^T``, in groups of about the same rank, and those that factors would not shorten.

    Parameters
    ----------
    order : int array of shape (n_kernels,)
        Position of every kernel in the concatenation of all groups and the dense ones.
    factors : tuple of arrays of shape (n_group, rank, n_train)
        The transposed R of the kernels of each group, padded with zeros to the largest rank.
    dense : array of shape (n_dense, n_rows, n_train)
        The other kernels.
    left : tuple of arrays of shape (n_group, rank, n_rows), optional
        The transposed L. None: rows are the training points, and L is R.
    pivots : tuple of int arrays of shape (n_group, rank), optional
        Training points at which R is lower triangular, -1 where it is padded.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1.0, 1.0, 50)
    >>> stack = DenseStack(np.exp(-0.5 * np.subtract.outer(x, x) ** 2)[None])
    >>> short = compress_each(stack.kernels)
    >>> short.factors[0].shape[1] < 20
    True
    >>> bool(abs(short.apply(x) - stack.apply(x)).max() < 1e-8)
    True
    """

    storage = "compressed"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and training points."""
        return self.order.shape[0], self.dense.shape[1], self.dense.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes that factors and dense kernels take."""
        return int(self.dense.nbytes + sum(z.nbytes for z in (*self.factors, *(self.left or ()))))

    @property
    def _rest(self) -> DenseStack:
        return DenseStack(self.dense)

    @property
    def _members(self) -> Any:
        """Kernels in sorted order: those of the groups, then the dense ones."""
        return np.argsort(self.order)

    @property
    def _factored(self) -> int:
        return sum(len(z) for z in self.factors)

    def _pieces(self) -> Iterator[tuple[slice, Any, Any]]:
        """Go through the groups, in parts that stay in cache.

        Yields positions in sorted order, the transposed L and the transposed R.
        """
        start = 0
        for left, right in zip(self.left or self.factors, self.factors, strict=True):
            size = len(right)
            step = max(1, PIECE * size // max(1, left.nbytes))
            for first in range(0, size, step):
                part = slice(first, min(first + step, size))
                yield slice(start + part.start, start + part.stop), left[part], right[part]
            start += size

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels."""
        if weights.ndim == 2:
            return np.stack([self.combine(one) for one in weights])
        weights = weights[self._members]
        total = self._rest.combine(weights[self._factored :])
        for where, left, right in self._pieces():
            total = total + _tall(weights[where, None, None] * left).T @ _tall(right)
        return total

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right."""
        members = self._members
        own = vector[members] if vector.ndim == 3 else None
        rest = self._rest.apply(vector if own is None else own[self._factored :])
        products = self._products(vector, own)
        shape = rest.shape[1:]
        vectors_first = np.empty((self.n_kernels, *shape[::-1]))
        out = vectors_first.transpose(0, *range(len(shape), 0, -1))
        for where, product in products:
            out[members[where]] = product
        out[members[self._factored :]] = rest
        return out

    def _products(self, vector: Array, own: Array | None) -> Iterator[tuple[slice, Any]]:
        """Multiply the factored kernels in sorted order by `vector`, or each by its `own`."""
        for where, left, right in self._pieces():
            if vector.ndim == 2:
                inner = (_tall(right) @ vector).reshape(*right.shape[:2], vector.shape[1])
                yield where, (inner.mT @ left).mT
            else:
                inner = _inner(right, vector[None] if own is None else own[where, :, 0])
                yield where, _outer(inner, left)

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``."""
        rows = rows[self._members]
        total = self._rest.adjoint(rows[self._factored :])
        for where, left, right in self._pieces():
            if rows.ndim == 3:
                total = total + (_tall(left @ rows[where]).T @ _tall(right)).T
            else:
                inner = _inner(left, rows[where])
                total = total + _outer(inner.reshape(1, -1), _tall(right)[None])[0]
        return total

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        total = self._rest.gram()
        for _, left, right in self._pieces():
            tall = np.concatenate([_root(z @ z.T) @ other for z, other in zip(left, right, strict=True)])
            total += tall.T @ tall
        return total

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance over rows of ``K_m v`` for a batch of vectors (n_train, q), NumPy."""
        mean, variance = np.empty((2, self.n_kernels, vectors.shape[1]))
        members = self._members
        for where, left, right in self._pieces():
            inner = (_tall(right) @ vectors).reshape(*right.shape[:2], vectors.shape[1])
            center = left.mean(axis=2)
            centered = left - center[..., None]
            mean[members[where]] = np.einsum("mr,mrq->mq", center, inner)
            variance[members[where]] = ((centered @ centered.mT @ inner) * inner).sum(axis=1) / self.n_rows
        for m, kernel in zip(members[self._factored :], self.dense, strict=True):
            values = kernel @ vectors
            mean[m], variance[m] = values.mean(axis=0), values.var(axis=0)
        return Spread(mean, np.maximum(variance, 0.0))  # rounding

    def weighted_forms(self, mixing: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
        """Return quadratic forms in the kernels of every query point.

        With factors, :math:`k_m = Z_m c_m`, they take either N operations per line of all factors and P² N, or the
        square of the number of lines, whichever is less.
        """
        ranks = np.repeat([z.shape[1] for z in self.factors], [z.shape[0] for z in self.factors])
        if self.n_rows * len(mixing) <= 2 * ranks.sum() or not self.factors:
            # few rows: not worth multiplying all factors by the roots
            return DenseStack(self.columns(slice(None))).weighted_forms(mixing, roots)
        mixing = mixing[:, np.argsort(self.order)]  # kernels in the order of the groups
        if len(self.dense) == 0 and ranks.sum() <= self.n_train:
            return self._forms_between_lines(mixing, roots, ranks)
        forms = np.empty((len(roots), self.n_rows))
        for output, root in enumerate(roots):
            rooted = [z @ root for z in self.factors]
            for rows in self._parts(self.n_rows):
                part = self.rows(rows)
                left = [z.mT @ own for z, own in zip(part.left or (), rooted, strict=True)]
                scores = np.concatenate([*left, part.dense @ root])
                mixed = mixing @ scores.reshape(len(scores), -1)
                forms[output, rows] = (mixed**2).reshape(-1, part.n_rows, self.n_train).sum(axis=(0, 2))
        return forms

    def _forms_between_lines(
        self, mixing: np.ndarray, roots: list[np.ndarray], ranks: np.ndarray
    ) -> np.ndarray:
        """Reduce the form to one in the coordinates of the query points, the same for all of them."""
        factors = np.concatenate([_tall(z) for z in self.factors])
        left = np.concatenate([_tall(z) for z in self.left or self.factors])
        kernel_of_line = np.repeat(np.arange(len(ranks)), ranks)
        weights = (mixing.T @ mixing)[np.ix_(kernel_of_line, kernel_of_line)]
        forms = np.empty((len(roots), self.n_rows))
        for output, root in enumerate(roots):
            rooted = factors @ root
            form = weights * (rooted @ rooted.T)
            forms[output] = ((form @ left) * left).sum(axis=0)
        return np.maximum(forms, 0.0)  # rounding

    def frobenius(self, other: Array | None = None) -> Any:
        """Return Frobenius products of the kernels; those with a matrix on factors."""
        if other is None:
            return super().frobenius()
        if other.ndim == 3:
            return np.stack([self.frobenius(one) for one in other])
        parts = [
            ((_tall(left) @ other).reshape(right.shape) * right).sum(axis=(1, 2))
            for _, left, right in self._pieces()
        ]
        return np.concatenate([*parts, self._rest.frobenius(other)])[self.order]

    def diagonal(self) -> Any:
        """Return the diagonals of a square stack, shape (n_kernels, n_rows)."""
        parts = [(left * right).sum(axis=1) for _, left, right in self._pieces()]
        return np.concatenate([*parts, self._rest.diagonal()])[self.order]

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`, (n_kernels, n_rows, n_columns)."""
        parts = [left.mT @ right[:, :, index] for _, left, right in self._pieces()]
        return np.concatenate([*parts, self._rest.columns(index)])[self.order]

    def rows(self, index: Index) -> LowRankStack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        left = tuple(np.ascontiguousarray(z[:, :, index]) for z in self.left or self.factors)
        return self._replace(dense=np.ascontiguousarray(self.dense[:, index]), left=left)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) at a time, from its factors."""
        starts = np.cumsum([0, *(len(z) for z in self.factors)])
        for place in self.order[slice(None) if index is None else list(index)]:
            group = int(np.searchsorted(starts, place, side="right")) - 1
            if group == len(self.factors):
                yield self.dense[place - starts[group]]
            else:
                left, right = (self.left or self.factors)[group], self.factors[group]
                yield left[place - starts[group]].T @ right[place - starts[group]]


def _tall(factors: Array) -> Any:
    """Put the lines of all factors of a group (n_group, rank, n) below each other."""
    return factors.reshape(factors.shape[0] * factors.shape[1], factors.shape[2])


def _inner(factor: Any, vectors: Any) -> Any:
    """``Z_m^T v_m`` by the transposed Z (n_group, rank, n) and v (n_group or 1, n), (n_group, rank)."""
    return np.vecdot(factor, vectors[:, None])


def _outer(inner: Any, factor: Any) -> Any:
    """``Z_m c_m`` by c (n_group, rank) and the transposed Z (n_group, rank, n), (n_group, n)."""
    return np.einsum("mr,mrn->mn", inner, factor)


def _root(square: np.ndarray) -> np.ndarray:
    """Return C of as few rows as it takes with ``C^T C`` equal to a semidefinite matrix, up to rounding."""
    triangle, order, rank, _ = dpstrf(square.T, lower=1)
    root = np.triu(triangle.T[:rank])
    return root[:, np.argsort(order)]


def compress_each(kernels: Iterable[np.ndarray], rank: int | None = None) -> LowRankStack | DenseStack:
    """Factorize training kernels one after the other; no more than one of those that get shorter is ever held.

    Factors miss no entry by more than `TOLERANCE` of the largest one of the kernel's diagonal. A kernel stays dense
    if its rank is at least half of its size, or if it is not symmetric and positive semidefinite.

    Parameters
    ----------
    kernels : iterable of ndarray of shape (n_train, n_train)
        Finite; every kernel may be overwritten when the next one is asked for.
    rank : int, optional
        Of the factors, at most, whatever they then miss.

    Returns
    -------
    LowRankStack, or DenseStack where no kernel gets shorter

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1.0, 1.0, 50)
    >>> stack = compress_each(np.outer(x, x) ** power for power in (1, 2, 3))
    >>> stack.factors[0].shape, len(stack.dense)
    ((3, 1, 50), 0)
    """
    groups = _Groups([], [], [])
    factors: dict[int, Factor] = {}  # of the groups to come
    n_bytes, dense, kept = 0, np.empty((0, 0, 0)), []
    for m, kernel in enumerate(kernels):
        if m == 0:
            factorize, dense = Factorizer(len(kernel), TOLERANCE, rank), np.empty((0, *kernel.shape))
        factor = factorize(kernel)
        if factor is not None:
            factors[m] = factor
            n_bytes += factor.transposed.nbytes
            if n_bytes > GATHERED:
                groups.gather(factors)
                n_bytes = 0
            continue
        kept.append(m)
        if dense.nbytes // LOOKED_AFTER != (dense.nbytes + kernel.nbytes) // LOOKED_AFTER:
            what = (
                f"what is left of the kernels after {m} of them, of which factors do not shorten {len(kept)},"
            )
            require_memory(max(kernel.nbytes, LOOKED_AFTER), what, REMEDY)
        dense.resize((len(kept), *kernel.shape), refcheck=False)  # extends its memory, copies nothing
        dense[-1] = kernel
    if factors:
        groups.gather(factors)
    found = np.concatenate([*groups.members, np.array(kept, dtype=np.intp)])
    if not groups.members:
        return DenseStack(dense)
    return LowRankStack(np.argsort(found), tuple(groups.padded), dense, None, tuple(groups.pivots))


class _Groups(NamedTuple):
    """Groups of kernels: their positions, and the fields of a stack."""

    members: list[np.ndarray]
    padded: list[np.ndarray]
    pivots: list[np.ndarray]

    def gather(self, factors: dict[int, Factor]) -> None:
        """Move factors into groups, one group at a time, and leave none."""
        positions = np.array(list(factors))
        ranks = np.array([len(factor.pivots) for factor in factors.values()])
        n_train = next(iter(factors.values())).transposed.shape[1]
        for group in group_by_rank(ranks, n_train):
            self.members.append(positions[group])
            rank = int(ranks[group].max())
            self.padded.append(np.zeros((len(group), rank, n_train)))
            self.pivots.append(np.full((len(group), rank), -1))
            for place, m in enumerate(positions[group].tolist()):
                factor = factors.pop(m)
                self.padded[-1][place, : len(factor.pivots)] = factor.transposed
                self.pivots[-1][place, : len(factor.pivots)] = factor.pivots


# ------------------------------------------------------------------------------------------- linear kernels


class _Shared(NamedTuple):
    """What a `LinearStack` holds."""

    features: np.ndarray
    members: Any
    left: np.ndarray | None = None


class LinearStack(_Shared, Stack):
    """Linear kernels on some of the same features.

    Parameters
    ----------
    features : ndarray of shape (n_features, n_train)
        Of the training points, one feature after the other.
    members : csr_array of shape (n_kernels, n_features)
        Scales of kernels at their features, at least zero.
    left : ndarray of shape (n_features, n_rows), optional
        Features of the query points. None: rows are the training points.

    Examples
    --------
    >>> import numpy as np
    >>> features = np.array([[1.0, 2.0], [0.0, 3.0]])
    >>> stack = LinearStack(features, csr_array(np.array([[1.0, 0.0], [1.0, 1.0]])))
    >>> stack.combine(np.array([2.0, 1.0]))
    array([[ 3.,  6.],
           [ 6., 21.]])
    """

    storage = "compressed"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and training points."""
        return int(self.members.shape[0]), self._rows.shape[1], self.features.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that features and members take."""
        members = self.members
        own = members.data.nbytes + members.indices.nbytes + members.indptr.nbytes
        return int(own + self.features.nbytes + (0 if self.left is None else self.left.nbytes))

    @property
    def _rows(self) -> np.ndarray:
        return self.features if self.left is None else self.left

    def _members(self, kernels: Iterable[int] | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Go through the kernels, or those at `kernels`: positions of their features, and scales there."""
        members = self.members
        for m in range(self.n_kernels) if kernels is None else kernels:
            own = slice(members.indptr[m], members.indptr[m + 1])
            yield members.indices[own], members.data[own]

    def roots(self) -> Iterator[np.ndarray]:
        """Go through the kernels of a square stack: `Z` with ``Z Z' = K_m``, (n_train, n_own_features)."""
        for own, scales in self._members():
            yield self.features[own].T * np.sqrt(scales)

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels."""
        if weights.ndim == 2:
            return np.array([self.combine(one) for one in weights])
        scales = self.members.T @ weights
        if self.left is None and scales.min(initial=0.0) >= 0.0:
            scaled = self.features * np.sqrt(scales)[:, None]
            return scaled.T @ scaled  # of one array with itself, which takes half of the operations
        return (self._rows * scales[:, None]).T @ self.features

    def frobenius(self, other: Array | None = None) -> Any:
        """Return Frobenius products of the kernels."""
        if other is None:
            both = (self._rows @ self._rows.T) * (self.features @ self.features.T)  # by pairs of features
            return self.members @ both @ self.members.T
        if other.ndim == 3:
            return np.array([self.frobenius(one) for one in other])
        return self.members @ np.vecdot(self._rows @ other, self.features)

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right."""
        if vector.ndim == 1:
            members, by_feature = self.members, self.features @ vector
            scaled = members.data * by_feature[members.indices]
            return csr_array((scaled, members.indices, members.indptr), members.shape) @ self._rows
        out = np.empty((self.n_kernels, self.n_rows, *vector.shape[1:2][: vector.ndim == 2]))
        inner = self.features @ vector if vector.ndim == 2 else None
        for m, (own, scales) in enumerate(self._members()):
            if inner is None:
                out[m] = (scales * (self.features[own] @ vector[m, :, 0])) @ self._rows[own]
            else:
                np.matmul(self._rows[own].T, scales[:, None] * inner[own], out=out[m])
        return out

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``."""
        if rows.ndim == 2:
            return np.vecdot(self.members.T @ rows, self._rows) @ self.features
        return np.stack([self.adjoint(rows[..., j]) for j in range(rows.shape[2])], axis=1)

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        together = (self.members.T @ self.members).multiply(self._rows @ self._rows.T)
        return self.features.T @ (together @ self.features)

    def _mixture(self, mixing: Any) -> tuple[Callable[[slice], np.ndarray], int]:
        return self.combine(mixing).__getitem__, MIXED_ENTRIES

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance over rows of ``K_m v`` for a batch of vectors (n_train, q)."""
        inner, center = self.features @ vectors, self._rows.mean(axis=1)
        around = self._rows - center[:, None]
        cov = around @ around.T / self.n_rows
        variance = np.empty((self.n_kernels, vectors.shape[1]))
        for m, (own, scales) in enumerate(self._members()):
            scaled = scales[:, None] * inner[own]
            variance[m] = (cov[np.ix_(own, own)] @ scaled * scaled).sum(axis=0)
        return Spread(self.members @ (center[:, None] * inner), np.maximum(variance, 0.0))  # rounding

    def weighted_products(self, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_m w_jm K_m v_j`` for vectors (n_train, q) and weights (q, n_kernels), shape (q, n_rows)."""
        scales = (self.members.T @ weights.T).T
        return (scales * (self.features @ vectors).T) @ self._rows

    def diagonal(self) -> Any:
        """Return the diagonals of a square stack, shape (n_kernels, n_rows)."""
        return self.members @ (self._rows * self.features)

    def self_similarity(self) -> Any:
        """Return the similarities of the query points to themselves, shape (n_kernels, n_rows)."""
        return self.members @ self._rows**2

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`, (n_kernels, n_rows, n_columns)."""
        chosen = self._replace(features=self.features[:, index], left=self._rows)
        return np.array(list(chosen.each()))

    def rows(self, index: Index) -> LinearStack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        return self._replace(left=np.ascontiguousarray(self._rows[:, index]))

    def _part(self, index: Any) -> LinearStack:
        return self._replace(members=self.members[np.arange(self.n_kernels)[index]])

    def of_samples(self, samples: np.ndarray) -> LinearStack:
        """Return the square stack of the training points at some positions."""
        return LinearStack(np.ascontiguousarray(self.features[:, samples]), self.members)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) at a time."""
        for own, scales in self._members(index):
            if self.left is None:
                root = np.sqrt(scales)[:, None] * self.features[own]
                yield root.T @ root
            else:
                yield (scales[:, None] * self.left[own]).T @ self.features[own]
