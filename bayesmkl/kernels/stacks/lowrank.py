"""Low-rank stack: kernels as ``K_m = Z_m Z_m^T`` where their numerical rank is low.

Kernels of single features have rank 3 to 60 whatever the number of samples, so that a bank over many features is
mostly empty. Contractions are those of `DenseStack`; their results agree to the tolerance of the factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.typing import Index
from bayesmkl._utils.validation import check_number
from bayesmkl.kernels.stacks.base import (
    Spread,
    StoredStack,
    apply_and_mix,
    blocks_of_rows,
    frobenius_products,
    gated_sum,
    mixed_gram_of_blocks,
    quadratics_one_by_one,
    spread_then_sum,
)
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factorize import Factor, Factorizer, group_by_rank

TOLERANCE = 1e-10  # of an entry, relative to the largest entry of the diagonal
LOOKED_AFTER = 2**26  # bytes of dense kernels after which to look whether there is memory for more
REMEDY = "Compare samples with landmarks, KernelBank(landmarks=256), or use fewer kernels or samples."
GATHERED = 2**28  # bytes of factors that are put into groups at a time, during which they are there twice
PIECE = 2**20  # bytes of factors that stay in cache from their first use to the second


class LowRankStack(NamedTuple):
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
    >>> short = compress(stack)
    >>> short.factors[0].shape[1] < 20
    True
    >>> bool(abs(short.apply(x) - stack.apply(x)).max() < 1e-8)
    True
    """

    order: Any
    factors: tuple[Any, ...]
    dense: Any
    left: tuple[Any, ...] | None = None
    pivots: tuple[Any, ...] | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.order.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of query points."""
        return self.dense.shape[1]

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return self.dense.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes that factors and dense kernels take."""
        return self.dense.nbytes + sum(z.nbytes for z in (*self.factors, *(self.left or ())))

    @property
    def present(self) -> None:
        """Presence of the view of each kernel at the query points: all of them."""
        return None

    @property
    def storage(self) -> str:
        """The form of the kernels, "compressed"."""
        return "compressed"

    @property
    def _rest(self) -> DenseStack:
        return DenseStack(self.dense)

    @property
    def _members(self) -> Any:
        """Kernels in sorted order: those of the groups, then the dense ones."""
        return namespace(self.order).argsort(self.order)

    @property
    def _factored(self) -> int:
        return sum(len(z) for z in self.factors)

    def _pieces(self) -> Iterator[tuple[slice, Any, Any]]:
        """Go through the groups, on NumPy in parts that stay in cache.

        Yields positions in sorted order, the transposed L and the transposed R.
        """
        start = 0
        for left, right in zip(self.left or self.factors, self.factors, strict=True):
            size = len(right)
            step = max(1, PIECE * size // max(1, left.nbytes)) if is_numpy(right) else size
            for first in range(0, size, step):
                part = slice(first, min(first + step, size))
                yield slice(start + part.start, start + part.stop), left[part], right[part]
            start += size

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels, see `DenseStack.combine`."""
        if weights.ndim == 2:
            return namespace(weights).stack([self.combine(one) for one in weights])
        weights = weights[self._members]
        total = self._rest.combine(weights[self._factored :])
        for where, left, right in self._pieces():
            total = total + _tall(weights[where, None, None] * left).T @ _tall(right)
        return total

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right, see `DenseStack.apply`."""
        members = self._members
        own = vector[members] if vector.ndim == 3 else None
        rest = self._rest.apply(vector if own is None else own[self._factored :])
        products = self._products(vector, own)
        if not is_numpy(vector):
            return namespace(vector).concatenate([*(product for _, product in products), rest])[self.order]
        shape = rest.shape[1:]
        out = np.empty((self.n_kernels, *shape[::-1])).transpose(
            0, *range(len(shape), 0, -1)
        )  # vectors first
        for where, product in products:
            out[members[where]] = product
        out[members[self._factored :]] = rest
        return out

    def apply_rows(self, index: np.ndarray, vector: Array) -> Any:
        """Return the rows at `index` of ``apply(vector)``."""
        return self.rows(index).apply(vector)

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
        """Return ``sum_m K_m^T rows_m``, see `DenseStack.adjoint`."""
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
            if is_numpy(left):
                tall = np.concatenate([_root(z @ z.T) @ other for z, other in zip(left, right, strict=True)])
                total += tall.T @ tall
            else:
                total = total + _tall((left @ left.mT) @ right).T @ _tall(right)
        return total

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)`` and ``mixing @ apply(vector) + offset``, see `KernelStack.apply_and_adjoin`."""
        return apply_and_mix(self, vector, mixing, offset)

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram, see `KernelStack.adjoint_and_mixed_gram`."""
        return mixed_gram_of_blocks(self, rows, mixing, weights)

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

    def combine_gated(self, row_gates: Array, train_gates: Array) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train), see `DenseStack.combine_gated`."""
        return gated_sum(self, row_gates, train_gates)

    def frobenius(self, other: Array | None = None) -> Any:
        """Return Frobenius products of the kernels, see `DenseStack.frobenius`; those with a matrix on factors."""
        if other is None:
            return frobenius_products(self)
        if other.ndim == 3:
            return namespace(other).stack([self.frobenius(one) for one in other])
        parts = [
            ((_tall(left) @ other).reshape(right.shape) * right).sum(axis=(1, 2))
            for _, left, right in self._pieces()
        ]
        return namespace(self.dense).concatenate([*parts, self._rest.frobenius(other)])[self.order]

    def diagonal(self) -> Any:
        """Return the diagonals of a square stack, shape (n_kernels, n_rows)."""
        parts = [(left * right).sum(axis=1) for _, left, right in self._pieces()]
        return namespace(self.dense).concatenate([*parts, self._rest.diagonal()])[self.order]

    def columns(self, index: Index) -> Any:
        """Return the columns of all kernels at the training points `index`, (n_kernels, n_rows, n_columns)."""
        parts = [left.mT @ right[:, :, index] for _, left, right in self._pieces()]
        return namespace(self.dense).concatenate([*parts, self._rest.columns(index)])[self.order]

    def rows(self, index: Index) -> LowRankStack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        left = tuple(_in_order(z[:, :, index]) for z in self.left or self.factors)
        return self._replace(dense=_in_order(self.dense[:, index]), left=left)

    def select(self, index: Index) -> LowRankStack:
        """Return the stack of the kernels at `index` (integers or a boolean mask)."""
        chosen = np.arange(self.n_kernels)[np.atleast_1d(np.asarray(index))]
        places = np.asarray(self.order)[chosen]  # kept in sorted order, then put into that of `index`
        ends = np.cumsum([len(z) for z in self.factors], dtype=np.intp)
        kept = np.split(np.sort(places), np.searchsorted(np.sort(places), ends))
        inside = [own - (end - len(z)) for own, end, z in zip(kept[:-1], ends, self.factors, strict=True)]

        def part(arrays: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
            if arrays is None:
                return None
            return tuple(z[own] for z, own in zip(arrays, inside, strict=True) if len(own))

        return LowRankStack(
            np.argsort(np.argsort(places, kind="stable"), kind="stable"),
            part(self.factors) or (),
            self.dense[kept[-1] - self._factored],
            part(self.left),
            part(self.pivots),
        )

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, LowRankStack]]:
        """Go through the rows at `index`, a few at a time: which of them, and their kernels."""
        return blocks_of_rows(self, index)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) at a time, from its factors."""
        starts = np.cumsum([0, *(len(z) for z in self.factors)])
        for place in np.asarray(self.order)[slice(None) if index is None else list(index)]:
            group = int(np.searchsorted(starts, place, side="right")) - 1
            if group == len(self.factors):
                yield self.dense[place - starts[group]]
            else:
                left, right = (self.left or self.factors)[group], self.factors[group]
                yield left[place - starts[group]].T @ right[place - starts[group]]

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return entries of all kernels, or those at `kernels`, (n_kernels, n_rows, n_columns)."""
        return (self if kernels is None else self.select(kernels)).rows(rows).columns(columns)


def _in_order(array: Array) -> Any:
    """Undo the order of memory that indices leave behind on NumPy."""
    return np.ascontiguousarray(array) if is_numpy(array) else array


def _tall(factors: Array) -> Any:
    """Put the lines of all factors of a group (n_group, rank, n) below each other."""
    return factors.reshape(factors.shape[0] * factors.shape[1], factors.shape[2])


def _inner(factor: Array, vectors: Array) -> Any:
    """``Z_m^T v_m`` by the transposed Z (n_group, rank, n) and v (n_group or 1, n), (n_group, rank)."""
    if is_numpy(factor):
        return np.vecdot(factor, vectors[:, None])
    return (factor * vectors[:, None]).sum(
        axis=2
    )  # half as fast as a product on a CPU, which XLA compiles for 0.2 s


def _outer(inner: Array, factor: Array) -> Any:
    """``Z_m c_m`` by c (n_group, rank) and the transposed Z (n_group, rank, n), (n_group, n)."""
    if is_numpy(factor):
        return np.einsum("mr,mrn->mn", inner, factor)
    return (inner[..., None] * factor).sum(axis=1)


def _root(square: np.ndarray) -> np.ndarray:
    """Return C of as few rows as it takes with ``C^T C`` equal to a semidefinite matrix, up to rounding."""
    triangle, order, rank, _ = dpstrf(square.T, lower=1)
    root = np.triu(triangle.T[:rank])
    return root[:, np.argsort(order)]


def compress(
    stack: DenseStack, tolerance: float = TOLERANCE, rank: int | None = None
) -> LowRankStack | DenseStack:
    """Factorize the kernels of a square stack.

    Parameters
    ----------
    stack : DenseStack
        Training kernels, NumPy arrays.
    tolerance : float
        Largest error of an entry, relative to the largest entry of its kernel's diagonal.
    rank : int, optional
        Of the factors, at most, whatever they then miss.

    Returns
    -------
    LowRankStack, or DenseStack where no kernel gets shorter
    """
    short = compress_each(stack.kernels, stack.n_kernels, tolerance, rank)
    return stack if isinstance(short, DenseStack) else short


def compress_each(
    kernels: Iterable[np.ndarray], n_kernels: int, tolerance: float = TOLERANCE, rank: int | None = None
) -> LowRankStack | DenseStack:
    """Factorize training kernels one after the other; no more than one of those that get shorter is ever held.

    A kernel stays dense if its rank is at least half of its size, or if it is not symmetric and positive
    semidefinite.

    Parameters
    ----------
    kernels : iterable of ndarray of shape (n_train, n_train)
        Finite; every kernel may be overwritten when the next one is asked for.
    n_kernels : int
        How many there are.
    tolerance : float
        Largest error of an entry, relative to the largest entry of its kernel's diagonal.
    rank : int, optional
        Of the factors, at most, whatever they then miss.

    Returns
    -------
    LowRankStack, or DenseStack where no kernel gets shorter

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1.0, 1.0, 50)
    >>> stack = compress_each((np.outer(x, x) ** power for power in (1, 2, 3)), n_kernels=3)
    >>> stack.factors[0].shape, len(stack.dense)
    ((3, 1, 50), 0)
    """
    tolerance = check_number("tolerance", tolerance, low=0.0)
    groups = _Groups([], [], [])
    factors: dict[int, Factor] = {}  # of the groups to come
    n_bytes, dense, kept = 0, np.empty((0, 0, 0)), []
    for m, kernel in enumerate(kernels):
        if m == 0:
            factorize, dense = Factorizer(len(kernel), tolerance, rank), np.empty((0, *kernel.shape))
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
    if len(found) != n_kernels:
        raise ValueError(
            f"`n_kernels` must be the number of `kernels`; got {n_kernels} and {len(found)} kernels."
        )
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


# checked by mypy
_CONTRACT: type[StoredStack] = LowRankStack
