"""The contracts of kernel stacks: what algorithms may ask of kernels, and nothing else.

A stack holds kernels m = 1 ... P between `n_rows` query points and `n_train` training points, kernels first. How it
holds them (`dense`, `float32`, `packed`, `lowrank`, `linear`, `streamed`, `sharded`, `fold`, `columns`) is its own
affair; functions name the contract that they need:

=================  ====================================================================================
`Kernels`          what all have: their shape, and products from the right
`KernelStack`      training kernels of BEMKL: products from the right and from the left, and ``sum K' K``
`KernelRows`       kernels of new rows, to predict: products, weighted sums, parts
`KernelColumns`    single columns and the diagonal; also of one kernel that is a sum of gated ones
`SymmetricStack`   training kernels of localized methods: columns, and what follows from some rows
`StoredStack`      kernels in memory: all of these, and kernels one by one
=================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy
from bayesmkl._utils.typing import Index

BLOCK_ROWS = 64  # of all kernels that are copied at once
SPREAD_ENTRIES = 2**20  # of the products of a few vectors with a few kernels
SUM_ENTRIES = 2**24  # of the products of a few vectors with all kernels
MIXED_ENTRIES = 2**19  # of a mixture of kernels at once: 4 MB


class Spread(NamedTuple):
    """Mean and variance over rows of ``K_m v`` for q vectors, each of shape (n_kernels, q)."""

    mean: np.ndarray
    variance: np.ndarray


class Kernels(Protocol):
    """Kernels between query points and training points: their shape, and products from the right."""

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of query points."""
        ...

    @property
    def n_train(self) -> int:
        """Number of training points, or landmarks."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels take."""
        ...

    @property
    def present(self) -> Any:
        """Presence of the view of each kernel at the query points, (n_kernels, n_rows); None: all of them.

        The row of an absent query point holds zeros.
        """
        ...

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right.

        Parameters
        ----------
        vector : array of shape (n_train,), (n_train, q) or (n_kernels, n_train, 1)
            One vector for all kernels, a batch of `q` of them, or one vector per kernel.

        Returns
        -------
        array of shape (n_kernels, n_rows), (n_kernels, n_rows, q) or (n_kernels, n_rows)
        """
        ...


class KernelStack(Kernels, Protocol):
    """Training kernels as BEMKL needs them: `apply`, `adjoint`, `gram`, and the spread of scores.

    Where arrays are JAX's, so are those that are taken and returned, within compiled functions too.
    """

    @property
    def storage(self) -> str:
        """The form of the kernels: "dense", "compressed", "float32", "packed" or "streamed"."""
        ...

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``.

        Parameters
        ----------
        rows : array of shape (n_kernels, n_rows) or (n_kernels, n_rows, q)

        Returns
        -------
        array of shape (n_train,) or (n_train, q)
        """
        ...

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        ...

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)``, and ``mixing @ apply(vector) + offset``, of which `adjoint` is asked next.

        Kernels that are evaluated whenever they are needed are evaluated once for both.

        Parameters
        ----------
        vector : array of shape (n_train,)
        mixing : array of shape (n_kernels, n_kernels)
        offset : array of shape (n_kernels, n_rows)

        Returns
        -------
        product, mixed : arrays of shape (n_kernels, n_rows)
        """
        ...

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return ``adjoint(rows)``, and the weighted gram ``K^T diag(w) K`` of one mixture ``K = sum_m c_m K_m``.

        Kernels that are evaluated whenever they are needed are evaluated once for both. The mixture takes as many
        flops as `adjoint`, 2 P N B, its products with itself 2 N B^2, and nothing of size N B is kept.

        Parameters
        ----------
        rows : array of shape (n_kernels, n_rows)
        mixing : array of shape (n_kernels,)
            c.
        weights : array of shape (n_rows,)
            w, of either sign.

        Returns
        -------
        adjoint : array of shape (n_train,)
        gram : array of shape (n_train, n_train)
        """
        ...

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance of ``K_m v`` over the rows that are present.

        Parameters
        ----------
        vectors : ndarray of shape (n_train, q)
        """
        ...

    def spread_and_sum(self, vectors: np.ndarray, weights: np.ndarray) -> tuple[Spread, np.ndarray]:
        """Return ``spread(vectors)``, and the weighted sums of the same products over kernels.

        Kernels that are evaluated whenever they are needed are evaluated once for both.

        Parameters
        ----------
        vectors : ndarray of shape (n_train, q)
        weights : ndarray of shape (q, n_kernels)

        Returns
        -------
        spread : Spread
        sums : ndarray of shape (q, n_rows)
            ``sum_m w_jm K_m v_j`` for every vector j.
        """
        ...


class KernelRows(Kernels, Protocol):
    """Kernels between new rows and training points, to predict."""

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels.

        Parameters
        ----------
        weights : array of shape (n_kernels,) or (q, n_kernels)

        Returns
        -------
        array of shape (n_rows, n_train) or (q, n_rows, n_train)
        """
        ...

    def rows(self, index: Index) -> Self:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        ...

    def select(self, index: Index) -> Self:
        """Return the stack of the kernels at `index` (integers or a boolean mask)."""
        ...


class KernelColumns(Protocol):
    """Training kernels, or one kernel made of them, of which a solver reads single columns."""

    def columns(self, index: Any) -> Any:
        """Return the columns at the training points `index`, (n_kernels, n_rows, n_columns)."""
        ...

    def diagonal(self) -> Any:
        """Return the diagonals of square kernels, (n_kernels, n_rows)."""
        ...


class SymmetricStack(KernelColumns, Protocol):
    """Symmetric training kernels of which parts are asked for: held, or evaluated column by column."""

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        ...

    @property
    def n_train(self) -> int:
        """Number of training points."""
        ...

    def quadratic(self, vector: Array) -> Any:
        """Return ``v^T K_m v`` for every kernel, shape (n_kernels,) or (n_kernels, q).

        Parameters
        ----------
        vector : array of shape (n_train,) or (n_train, q); where kernels are held, also (n_kernels, n_train, 1)
        """
        ...

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors that are mostly zero, (q, n_kernels).

        Parameters
        ----------
        vectors : ndarray of shape (q, n_train)
        """
        ...

    def apply_rows(self, index: np.ndarray, vector: Array) -> Any:
        """Return the rows at `index` of ``apply(vector)``.

        Parameters
        ----------
        index : ndarray of int
        vector : array of shape (n_train,), (n_train, q) or (n_kernels, n_train, 1)
        """
        ...

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, KernelRows]]:
        """Go through the rows at `index`, some at a time: which of them, and their kernels."""
        ...


class StoredStack(KernelStack, KernelRows, SymmetricStack, Protocol):
    """Kernels in memory, of which an algorithm may ask anything."""

    def combine_gated(self, row_gates: Array, train_gates: Array) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train).

        Parameters
        ----------
        row_gates : array of shape (n_kernels, n_rows)
        train_gates : array of shape (n_kernels, n_train)
        """
        ...

    def frobenius(self, other: Array | None = None) -> Any:
        """Return all Frobenius products of the kernels, or theirs with one matrix, or with several.

        Parameters
        ----------
        other : array of shape (n_rows, n_train) or (q, n_rows, n_train), optional

        Returns
        -------
        array of shape (n_kernels, n_kernels), or (n_kernels,) or (q, n_kernels) with `other`
        """
        ...

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) at a time.

        They are not to be written to: they may be the memory of the stack.
        """
        ...

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return the entries of all kernels, or those at `kernels`, between some rows and columns.

        Parameters
        ----------
        rows, columns : ndarray of int
        kernels : ndarray of int, optional

        Returns
        -------
        array of shape (n_kernels, n_rows, n_columns)
        """
        ...


# ----------------------------------------------------------------------- contractions by way of other contractions


def apply_and_mix(stack: KernelStack, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
    """Do what `KernelStack.apply_and_adjoin` does, and leave the adjoint to later."""
    product = stack.apply(vector)
    return product, mixing @ product + offset


def mixed_gram_of_blocks(
    stack: Any,
    rows: Array,
    mixing: Array,
    weights: Array,
    mix: Callable[[slice], np.ndarray] | None = None,
    entries: int = MIXED_ENTRIES,
) -> tuple[Any, Any]:
    """Do what `KernelStack.adjoint_and_mixed_gram` does for a stack in memory, some rows at a time.

    On NumPy `mix` returns these rows of the mixture, by `combine` unless it is given; they have so many `entries`.
    """
    if not is_numpy(rows):
        mixed = stack.combine(mixing)
        return stack.adjoint(rows), (mixed * weights[:, None]).T @ mixed
    gram = np.zeros((stack.n_train, stack.n_train))
    step = max(1, entries // stack.n_train)
    for start in range(0, stack.n_rows, step):
        part = slice(start, start + step)
        mixed = stack.rows(part).combine(mixing) if mix is None else mix(part)
        gram += (mixed * weights[part, None]).T @ mixed
    return stack.adjoint(rows), gram


def spread_then_sum(
    stack: KernelStack, vectors: np.ndarray, weights: np.ndarray
) -> tuple[Spread, np.ndarray]:
    """Do what `KernelStack.spread_and_sum` does, one after the other."""
    return stack.spread(vectors), weighted_products(stack, vectors, weights)


def weighted_products(stack: Kernels, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ``sum_m w_jm K_m v_j`` for vectors (n_train, q) and weights (q, n_kernels), shape (q, n_rows)."""
    block = max(1, SUM_ENTRIES // (stack.n_kernels * stack.n_rows))
    sums = np.empty((len(weights), stack.n_rows))
    for start in range(0, len(weights), block):
        part = slice(start, start + block)
        sums[part] = np.einsum("sm,mis->si", weights[part], stack.apply(vectors[:, part]))
    return sums


def spread_of_products(
    parts: Iterable[tuple[slice, KernelStack]], n_kernels: int, vectors: np.ndarray
) -> Spread:
    """Do what `KernelStack.spread` does by products with a few kernels, (positions, stack), at a time."""
    mean, variance = np.empty((2, vectors.shape[1], n_kernels))
    for kernels, part in parts:
        all_present = part.present is None
        present = np.ones((1, 1, 1)) if all_present else np.asarray(part.present, dtype=float)[..., None]
        n_present = part.n_rows if all_present else present.sum(axis=1)
        block = max(1, SPREAD_ENTRIES // (part.n_kernels * part.n_rows))
        for some in (slice(start, start + block) for start in range(0, vectors.shape[1], block)):
            outputs = part.apply(vectors[:, some])  # zero where absent
            center = outputs.sum(axis=1) / n_present
            outputs -= present * center[:, None]
            mean[some, kernels] = center.T
            variance[some, kernels] = (np.einsum("mij,mij->mj", outputs, outputs) / n_present).T
    return Spread(mean.T, variance.T)


def kernels_at_once(stack: Kernels, n_vectors: int) -> Iterator[slice]:
    """Cut kernels into parts whose products with some vectors take little memory."""
    few = max(1, SPREAD_ENTRIES // (stack.n_rows * n_vectors))
    return (slice(first, first + few) for first in range(0, stack.n_kernels, few))


def quadratics_one_by_one(stack: SymmetricStack, vectors: np.ndarray) -> np.ndarray:
    """Do what `SymmetricStack.quadratics` does, every vector by its own support."""
    return np.stack([stack.quadratic(vector) for vector in vectors])


def blocks_of_rows(stack: KernelRows, index: np.ndarray) -> Iterator[tuple[slice, Any]]:
    """Do what `SymmetricStack.blocks` does by copies of a few rows."""
    for first in range(0, len(index), BLOCK_ROWS):
        part = slice(first, min(first + BLOCK_ROWS, len(index)))
        yield part, stack.rows(index[part])


def gated_sum(stack: StoredStack, row_gates: Array, train_gates: Array) -> Any:
    """Do what `StoredStack.combine_gated` does, kernel by kernel."""
    gated = zip(stack.each(), row_gates, train_gates, strict=True)
    return sum(of_rows[:, None] * kernel * of_train for kernel, of_rows, of_train in gated)


def frobenius_products(stack: StoredStack, other: Array | None = None) -> Any:
    """Do what `StoredStack.frobenius` does, with two kernels at a time."""
    if other is not None:
        found = [np.tensordot(other, kernel, 2) for kernel in stack.each()]
        return np.array(found).T
    products = np.empty((stack.n_kernels, stack.n_kernels))
    for m, kernel in enumerate(stack.each()):
        for n, second in enumerate(stack.each(range(m + 1))):
            products[m, n] = products[n, m] = np.vdot(kernel, second)
    return products
