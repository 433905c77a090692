"""Stacks of kernels: every contraction that algorithms ask for, once, however the kernels are held.

A stack holds kernels m = 1 ... P between `n_rows` query points and `n_train` training points, kernels first. `Stack`
needs to be told how large they are and how to go through them, in `Stack.blocks` or in `Stack.each`; all contractions
follow, and a storage overrides those that it does faster (`dense`, `packed`, `factored`, `streamed`, `columns`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy
from bayesmkl._utils.typing import Index

ENTRIES = 2**17  # of blocks in double precision, 1 MB: they stay in cache
MANY_ENTRIES = 2**21  # likewise, where more kernels at a time count for more than the cache
HELD_ENTRIES = 2**20  # of the rows of all kernels that are held at once, 8 MB
SPREAD_ENTRIES = 2**20  # of the products of a few vectors with a few kernels
SUM_ENTRIES = 2**24  # of the products of a few vectors with all kernels
MIXED_ENTRIES = 2**19  # of a mixture of kernels at once: 4 MB


class Spread(NamedTuple):
    """Mean and variance over rows of ``K_m v`` for q vectors, each of shape (n_kernels, q)."""

    mean: np.ndarray
    variance: np.ndarray


class KernelColumns(Protocol):
    """What a solver asks for that reads single columns; also of one kernel that is a sum of gated ones."""

    def columns(self, index: Any) -> Any:
        """Return the columns at the training points `index`, (n_kernels, n_rows, n_columns)."""
        ...

    def diagonal(self) -> Any:
        """Return the diagonals of square kernels, (n_kernels, n_rows)."""
        ...


class Stack(ABC):
    """Kernels between query points and training points, or landmarks.

    Arguments and results are NumPy arrays in double precision; where kernels are arrays of JAX, so are those, also
    within compiled functions. `quadratic`, `quadratics` and `diagonal` are for square stacks.

    Attributes
    ----------
    storage : str
        The form of the kernels: "dense", "float32", "packed", "compressed", "streamed" or "columns".
    nbytes : int
        Bytes that the kernels take.
    present : bool array of shape (n_kernels, n_rows) or None
        Presence of the view of each kernel at the query points; None: all of them. The row of an absent query point
        holds zeros.
    learned : tuple
        Kernels whose widths are not known; see `bayesmkl.kernels.stacks.learned`.
    """

    present: Any = None
    learned: tuple[Any, ...] = ()

    @property
    def moving(self) -> list[int]:
        """Positions of kernels that depend on widths which are not known."""
        return []

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and training points."""

    @property
    @abstractmethod
    def storage(self) -> str:
        """The form of the kernels."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that the kernels take."""

    def blocks(self, entries: int = ENTRIES) -> Iterator[tuple[Any, Any, Any]]:
        """Go through the kernels on NumPy, a part at a time that should have about so many `entries`.

        Yields
        ------
        kernels, rows : slice or ndarray of int
            Which kernels, and which of their rows.
        block : DenseStack
            They, in double precision; the next block may overwrite them. One kernel at a time by default.
        """
        from bayesmkl.kernels.stacks.dense import DenseStack

        for m, kernel in enumerate(self.each()):
            yield slice(m, m + 1), slice(None), DenseStack(kernel[None])

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of query points."""
        return self.shape[1]

    @property
    def n_train(self) -> int:
        """Number of training points, or landmarks."""
        return self.shape[2]

    # --------------------------------------------------------------------------------------------------- products

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
        out = np.empty((self.n_kernels, self.n_rows, *(vector.shape[1:] if vector.ndim == 2 else ())))
        for kernels, rows, block in self.blocks():
            out[kernels, rows] = block.apply(vector[kernels] if vector.ndim == 3 else vector)
        return out

    def apply_rows(self, index: np.ndarray, vector: Array) -> Any:
        """Return the rows at `index` of ``apply(vector)``."""
        return self.rows(index).apply(vector)

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``.

        Parameters
        ----------
        rows : array of shape (n_kernels, n_rows) or (n_kernels, n_rows, q)

        Returns
        -------
        array of shape (n_train,) or (n_train, q)
        """
        total = np.zeros((self.n_train, *rows.shape[2:]))
        for kernels, part, block in self.blocks():
            total += block.adjoint(rows[kernels, part])
        return total

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        total = np.zeros((self.n_train, self.n_train))
        for _, _, block in self.blocks(MANY_ENTRIES):
            total += block.gram()
        return total

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
        product = self.apply(vector)
        return product, mixing @ product + offset

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
        if not is_numpy(rows):
            mixed = self.combine(mixing)
            return self.adjoint(rows), (mixed * weights[:, None]).T @ mixed
        gram = np.zeros((self.n_train, self.n_train))
        mix, entries = self._mixture(mixing)
        step = max(1, entries // self.n_train)
        for start in range(0, self.n_rows, step):
            part = slice(start, start + step)
            mixed = mix(part)
            gram += (mixed * weights[part, None]).T @ mixed
        return self.adjoint(rows), gram

    def _mixture(self, mixing: Any) -> tuple[Callable[[slice], np.ndarray], int]:
        """Return what gives some rows of a mixture, and how many entries of it to ask for at a time."""
        return lambda part: self.rows(part).combine(mixing), MIXED_ENTRIES

    # ------------------------------------------------------------------------------------------------------- sums

    def combine(self, weights: Array) -> Any:
        """Return weighted sums of the kernels.

        Parameters
        ----------
        weights : array of shape (n_kernels,) or (q, n_kernels)

        Returns
        -------
        array of shape (n_rows, n_train) or (q, n_rows, n_train)
        """
        total = np.zeros((*weights.shape[:-1], self.n_rows, self.n_train))
        for kernels, rows, block in self.blocks(MANY_ENTRIES):
            total[..., rows, :] += block.combine(weights[..., kernels])
        return total

    def combine_singly(self, weights: np.ndarray, constant: float = 0.0) -> np.ndarray:
        """Return ``combine(weights)`` plus a constant in single precision, of weights (q, n_kernels)."""
        return (self.combine(weights) + constant).astype(np.float32)

    def combine_rows(self, index: np.ndarray, weights: Array) -> np.ndarray:
        """Return the rows at `index` of ``combine(weights)``, of which few are held for every kernel."""
        out = np.empty((*weights.shape[:-1], len(index), self.n_train))
        for part in self._parts(len(index)):
            out[..., part, :] = self.rows(index[part]).combine(weights)
        return out

    def _parts(self, n_rows: int) -> list[slice]:
        """Cut rows into parts that may be held for all kernels."""
        step = max(1, HELD_ENTRIES // (self.n_kernels * self.n_train))
        return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]

    def combine_gated(self, row_gates: Array, train_gates: Array) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train).

        Parameters
        ----------
        row_gates : array of shape (n_kernels, n_rows)
        train_gates : array of shape (n_kernels, n_train)
        """
        gated = zip(self.each(), row_gates, train_gates, strict=True)
        return sum(of_rows[:, None] * kernel * of_train for kernel, of_rows, of_train in gated)

    # ------------------------------------------------------------------------- numbers for every kernel, and forms

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance of ``K_m v`` over the rows that are present, for vectors (n_train, q)."""
        mean, variance = np.empty((2, vectors.shape[1], self.n_kernels))
        few = max(1, SPREAD_ENTRIES // (self.n_rows * vectors.shape[1]))
        for kernels in (slice(first, first + few) for first in range(0, self.n_kernels, few)):
            part = self.select(kernels)
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

    def weighted_products(self, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_m w_jm K_m v_j`` for vectors (n_train, q) and weights (q, n_kernels), shape (q, n_rows)."""
        block = max(1, SUM_ENTRIES // (self.n_kernels * self.n_rows))
        sums = np.empty((len(weights), self.n_rows))
        for start in range(0, len(weights), block):
            part = slice(start, start + block)
            sums[part] = np.einsum("sm,mis->si", weights[part], self.apply(vectors[:, part]))
        return sums

    def weighted_forms(self, mixing: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
        r"""Return quadratic forms in the kernels of every query point, for every output, (n_roots, n_rows).

        They are what a Gaussian posterior over weights says of its scores. Every kernel m compares a query point with
        the training points, :math:`k_m`, and scores are :math:`\sum_m e_m k_m^\top a`. With :math:`E[e e^\top] = W`
        and :math:`\mathrm{Cov}[a] = S` their variance has the part

        .. math:: \sum_{mn} W_{mn}\, k_m^\top S\, k_n,

        which takes P N (P + N) operations per row where kernels are held.

        Parameters
        ----------
        mixing : ndarray of shape (q, n_kernels)
            R with ``R^T R = W``.
        roots : list of ndarray of shape (n_train, n_train)
            Roots of the S_c: ``root @ root.T = S_c``.

        Examples
        --------
        >>> import numpy as np
        >>> from bayesmkl.kernels.stacks.dense import DenseStack
        >>> stack = DenseStack(np.array([[[1.0, 2.0]], [[0.0, 3.0]]]))  # two kernels of one row
        >>> stack.weighted_forms(np.array([[2.0, 1.0]]), [np.eye(2)])  # |2 k_1 + k_2|²
        array([[53.]])
        """
        forms = np.empty((len(roots), self.n_rows))
        for rows in self._parts(self.n_rows):
            mixed = self.rows(rows).combine(mixing)  # R k, for every row
            for output, root in enumerate(roots):
                forms[output, rows] = ((mixed @ root) ** 2).sum(axis=(0, 2))
        return forms

    def quadratic(self, vector: Array) -> Any:
        """Return ``v^T K_m v`` for every kernel, shape (n_kernels,) or (n_kernels, q).

        Parameters
        ----------
        vector : array of shape (n_train,), (n_train, q) or (n_kernels, n_train, 1)
        """
        product = self.apply(vector)
        return (product * (vector[..., 0] if vector.ndim == 3 else vector)).sum(axis=1)

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors (q, n_train) that are mostly zero, (q, n_kernels)."""
        return np.stack([self.quadratic(vector) for vector in vectors])

    def frobenius(self, other: Array | None = None) -> Any:
        """Return all Frobenius products of the kernels, or theirs with one matrix, or with several.

        Parameters
        ----------
        other : array of shape (n_rows, n_train) or (q, n_rows, n_train), optional

        Returns
        -------
        array of shape (n_kernels, n_kernels), or (n_kernels,) or (q, n_kernels) with `other`
        """
        if other is not None:
            return np.array([np.tensordot(other, kernel, 2) for kernel in self.each()]).T
        products = np.empty((self.n_kernels, self.n_kernels))
        for m, kernel in enumerate(self.each()):
            for n, second in enumerate(self.each(range(m + 1))):
                products[m, n] = products[n, m] = np.vdot(kernel, second)
        return products

    def diagonal(self) -> Any:
        """Return the diagonals of square kernels, shape (n_kernels, n_rows)."""
        return np.array([kernel.diagonal() for kernel in self.each()])

    def roots(self) -> Iterator[np.ndarray] | None:
        """Go through roots `Z` with ``Z Z' = K_m``, (n_train, rank), where a square stack has them; else None."""
        return None

    # ------------------------------------------------------------------------------------- kernels, and parts of them

    def as_dense(self) -> Any:
        """Return the kernels as a `DenseStack` in double precision, with memory of its own."""
        from bayesmkl.kernels.stacks.dense import DenseStack

        out = np.empty(self.shape)
        for kernels, rows, block in self.blocks(MANY_ENTRIES):
            out[kernels, rows] = block.kernels
        return DenseStack(out, self.present)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) at a time.

        They are not to be written to: they may be the memory of the stack.
        """
        for m in range(self.n_kernels) if index is None else index:
            yield self.select([m]).as_dense().kernels[0]

    def columns(self, index: Index) -> Any:
        """Return the columns at the training points `index`, (n_kernels, n_rows, n_columns)."""
        return self.as_dense().kernels[:, :, index]

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return the entries of all kernels, or those at `kernels`, (n_kernels, n_rows, n_columns).

        Parameters
        ----------
        rows, columns : ndarray of int
        kernels : ndarray of int, optional
        """
        return (self if kernels is None else self.select(kernels)).rows(rows).columns(columns)

    def rows(self, index: Index) -> Stack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        found: Stack = self.as_dense().rows(index)
        return found

    def select(self, index: Any) -> Self:
        """Return the stack of the kernels at `index` (a slice, integers or a boolean mask)."""
        return self._part(index if isinstance(index, slice) else np.atleast_1d(np.asarray(index)))

    def _part(self, index: Any) -> Any:
        return self.as_dense().select(index)
