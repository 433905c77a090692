r"""Linear kernels on overlapping sets of features: ``K_m = X diag(s_m) X'``, of which X is held once.

Thousands of pathway kernels share a few thousand features. With a sparse row s_m for every kernel, which has its
scale at its features and zeros elsewhere, a sum of kernels is one of features,

.. math:: \sum_m w_m K_m = X \operatorname{diag}\Big(\sum_m w_m s_m\Big) X^\top, \qquad
    \operatorname{tr}(K_m A) = \sum_k s_{mk}\, (X^\top A X)_{kk},

which takes as many operations as there are features, however many kernels they make. Centered kernels have features
around their training means; those of unit self-similarity are of no such form, since every kernel scales samples by
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import (
    Spread,
    StoredStack,
    apply_and_mix,
    blocks_of_rows,
    gated_sum,
    mixed_gram_of_blocks,
)


class LinearStack(NamedTuple):
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

    features: np.ndarray
    members: Any
    left: np.ndarray | None = None

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return int(self.members.shape[0])

    @property
    def n_rows(self) -> int:
        """Number of query points."""
        return self._rows.shape[1]

    @property
    def n_train(self) -> int:
        """Number of training points."""
        return self.features.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that features and members take."""
        members = self.members
        own = members.data.nbytes + members.indices.nbytes + members.indptr.nbytes
        return int(own + self.features.nbytes + (0 if self.left is None else self.left.nbytes))

    @property
    def present(self) -> None:
        """Presence of the view of each kernel at the query points: all of them."""
        return None

    @property
    def storage(self) -> str:
        """The form of the kernels, "compressed"."""
        return "compressed"

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
        """Return weighted sums of the kernels, see `DenseStack.combine`."""
        if weights.ndim == 2:
            return np.array([self.combine(one) for one in weights])
        scales = self.members.T @ weights
        if self.left is None and scales.min(initial=0.0) >= 0.0:
            scaled = self.features * np.sqrt(scales)[:, None]
            return scaled.T @ scaled  # of one array with itself, which takes half of the operations
        return (self._rows * scales[:, None]).T @ self.features

    def frobenius(self, other: Array | None = None) -> Any:
        """Return Frobenius products of the kernels, see `DenseStack.frobenius`."""
        if other is None:
            return (
                self.members
                @ (self._similarity(self._rows) * self._similarity(self.features))
                @ self.members.T
            )
        if other.ndim == 3:
            return np.array([self.frobenius(one) for one in other])
        return self.members @ np.vecdot(self._rows @ other, self.features)

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right, see `DenseStack.apply`."""
        if vector.ndim == 1:
            return self._scaled(self.features @ vector) @ self._rows
        out = np.empty((self.n_kernels, self.n_rows, *vector.shape[1:2][: vector.ndim == 2]))
        inner = self.features @ vector if vector.ndim == 2 else None
        for m, (own, scales) in enumerate(self._members()):
            if inner is None:
                out[m] = (scales * (self.features[own] @ vector[m, :, 0])) @ self._rows[own]
            else:
                np.matmul(self._rows[own].T, scales[:, None] * inner[own], out=out[m])
        return out

    def apply_rows(self, index: np.ndarray, vector: Array) -> Any:
        """Return the rows at `index` of ``apply(vector)``."""
        return self.rows(index).apply(vector)

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``, see `DenseStack.adjoint`."""
        if rows.ndim == 2:
            return np.vecdot(self.members.T @ rows, self._rows) @ self.features
        return np.stack([self.adjoint(rows[..., j]) for j in range(rows.shape[2])], axis=1)

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""
        together = (self.members.T @ self.members).multiply(self._similarity(self._rows))
        return self.features.T @ (together @ self.features)

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)`` and ``mixing @ apply(vector) + offset``, see `KernelStack.apply_and_adjoin`."""
        return apply_and_mix(self, vector, mixing, offset)

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram, see `KernelStack.adjoint_and_mixed_gram`."""
        mixed = self.combine(mixing)
        return mixed_gram_of_blocks(self, rows, mixing, weights, mix=mixed.__getitem__)

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance over rows of ``K_m v`` for a batch of vectors (n_train, q)."""
        inner, center = self.features @ vectors, self._rows.mean(axis=1)
        around = self._rows - center[:, None]
        cov = self._similarity(around) / self.n_rows
        variance = np.empty((self.n_kernels, vectors.shape[1]))
        for m, (own, scales) in enumerate(self._members()):
            scaled = scales[:, None] * inner[own]
            variance[m] = (cov[np.ix_(own, own)] @ scaled * scaled).sum(axis=0)
        return Spread(self.members @ (center[:, None] * inner), np.maximum(variance, 0.0))  # rounding

    def spread_and_sum(self, vectors: np.ndarray, weights: np.ndarray) -> tuple[Spread, np.ndarray]:
        """Return the spread, and weighted sums of the products, see `KernelStack.spread_and_sum`."""
        scales = (self.members.T @ weights.T).T
        return self.spread(vectors), (scales * (self.features @ vectors).T) @ self._rows

    def quadratic(self, vector: Array) -> Any:
        """Return ``v^T K_m v`` for every kernel of a square stack, see `DenseStack.quadratic`."""
        if vector.ndim == 3:
            return (self.apply(vector) * vector[..., 0]).sum(axis=1)
        return self.members @ ((self._rows @ vector) * (self.features @ vector))

    def quadratics(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``v^T K_m v`` for several vectors (q, n_train), (q, n_kernels)."""
        return np.ascontiguousarray(self.quadratic(vectors.T).T)

    def combine_gated(self, row_gates: Array, train_gates: Array) -> Any:
        """Return ``sum_m (g_m g'_m^T) o K_m`` of shape (n_rows, n_train), see `DenseStack.combine_gated`."""
        return gated_sum(self, row_gates, train_gates)

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

    def select(self, index: Index) -> LinearStack:
        """Return the stack of the kernels at `index` (integers or a boolean mask)."""
        chosen = np.arange(self.n_kernels)[np.atleast_1d(np.asarray(index))]
        return self._replace(members=self.members[chosen])

    def of_samples(self, samples: np.ndarray) -> LinearStack:
        """Return the square stack of the training points at some positions."""
        return LinearStack(np.ascontiguousarray(self.features[:, samples]), self.members)

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, LinearStack]]:
        """Go through the rows at `index`, a few at a time: which of them, and their kernels."""
        return blocks_of_rows(self, index)

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels, or those at `index`, one matrix (n_rows, n_train) at a time."""
        for own, scales in self._members(index):
            if self.left is None:
                root = np.sqrt(scales)[:, None] * self.features[own]
                yield root.T @ root
            else:
                yield (scales[:, None] * self.left[own]).T @ self.features[own]

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        """Return entries of all kernels, or those at `kernels`, (n_kernels, n_rows, n_columns)."""
        return (self if kernels is None else self.select(kernels)).rows(rows).columns(columns)

    def _scaled(self, factors: np.ndarray) -> Any:
        """Return the members with their features times some factors."""
        members = self.members
        return csr_array(
            (members.data * factors[members.indices], members.indices, members.indptr), members.shape
        )

    @staticmethod
    def _similarity(features: np.ndarray) -> Any:
        """Return the products of features with each other over points, (n_features, n_features)."""
        return features @ features.T


def roots_of(stack: StoredStack) -> Iterator[np.ndarray] | None:
    """Return roots of the kernels, each (n_train, n_own_features), where a square stack has them; else None."""
    return stack.roots() if isinstance(stack, LinearStack) else None


# checked by mypy
_CONTRACT: type[StoredStack] = LinearStack
