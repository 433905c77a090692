"""A training fold of a dense stack, held as the kernels of all samples and the places of those in the fold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy
from bayesmkl.kernels.stacks.base import (
    KernelStack,
    Spread,
    apply_and_mix,
    spread_of_products,
    spread_then_sum,
)
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.float32 import Float32Stack

__all__ = ["FoldStack", "HeldArray", "held_array", "is_fold"]

SAME = 1e-12  # of the largest entry: kernels that differ by rounding only


class FoldStack(NamedTuple):
    """Training kernels of some of the samples of a square stack, without a copy of them.

    Parameters
    ----------
    whole : DenseStack
        Kernels between all samples, NumPy.
    samples : array of integers
        Those of the fold, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> fold = FoldStack(DenseStack(np.arange(9.0).reshape(1, 3, 3)), np.array([0, 2]))
    >>> fold.apply(np.array([1.0, 1.0]))
    array([[ 2., 14.]])
    """

    whole: DenseStack
    samples: np.ndarray

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.whole.n_kernels

    @property
    def n_rows(self) -> int:
        """Number of samples of the fold."""
        return len(self.samples)

    @property
    def n_train(self) -> int:
        """Number of samples of the fold."""
        return len(self.samples)

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels of the fold would take."""
        return int(self.n_kernels * self.n_train**2 * self.whole.kernels.itemsize)

    @property
    def storage(self) -> str:
        """The form of the kernels, "dense"."""
        return "dense"

    @property
    def mesh(self) -> None:
        """No devices: the kernels are in one place."""
        return

    @property
    def present(self) -> None:
        """Every sample has what every kernel compares."""
        return

    def apply(self, vector: Array) -> np.ndarray:
        """Multiply every kernel from the right by one vector (n_train,) or a batch (n_train, q)."""
        spread = np.zeros((self.whole.n_train, *vector.shape[1:]))
        spread[self.samples] = vector
        return self.whole.apply(spread)[:, self.samples]

    def adjoint(self, rows: Array) -> np.ndarray:
        """Return ``sum_m K_m^T rows_m`` for rows of shape (n_kernels, n_rows) or (n_kernels, n_rows, q)."""
        spread = np.zeros((self.n_kernels, self.whole.n_rows, *rows.shape[2:]))
        spread[:, self.samples] = rows
        return self.whole.adjoint(spread)[self.samples]

    def gram(self) -> np.ndarray:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train), with one kernel of the fold at a time."""
        total = np.zeros((self.n_train, self.n_train))
        for kernel in self.whole.kernels:
            part = kernel[np.ix_(self.samples, self.samples)]
            total += part.T @ part
        return total

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)`` and ``mixing @ apply(vector) + offset``, see `KernelStack.apply_and_adjoin`."""
        return apply_and_mix(self, vector, mixing, offset)

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram, see `KernelStack.adjoint_and_mixed_gram`."""
        spread = np.zeros(self.whole.n_rows)
        spread[self.samples] = weights
        _, gram = self.whole.adjoint_and_mixed_gram(np.zeros((self.n_kernels, len(spread))), mixing, spread)
        return self.adjoint(rows), gram[np.ix_(self.samples, self.samples)]

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance over the samples of ``K_m v`` for a batch of vectors (n_train, q)."""
        return spread_of_products([(slice(None), self)], self.n_kernels, vectors)

    def spread_and_sum(self, vectors: np.ndarray, weights: np.ndarray) -> tuple[Spread, np.ndarray]:
        """Return the spread, and weighted sums of the products, see `KernelStack.spread_and_sum`."""
        return spread_then_sum(self, vectors, weights)


def is_fold(stack: KernelStack, whole: DenseStack, samples: np.ndarray) -> bool:
    """Return whether a stack holds the kernels between `samples`, each of them once, of `whole`.

    Parameters
    ----------
    stack : KernelStack
    whole : DenseStack
    samples : ndarray of int
    """
    if not isinstance(stack, DenseStack) or stack.kernels.shape[1:] != (len(samples), len(samples)):
        return False
    if stack.kernels.dtype != whole.kernels.dtype or len(np.unique(samples)) < len(samples):
        return False
    places = np.ix_(samples, samples)
    return all(
        np.abs(own - kernel[places]).max() <= SAME * np.abs(own).max()
        for own, kernel in zip(stack.kernels, whole.kernels, strict=True)
    )


class HeldArray(NamedTuple):
    """The array that holds the kernels of a stack, and their positions in it.

    Parameters
    ----------
    array : array of shape (n_kernels, n_all_rows, n_all_train)
        Several stacks may share it.
    rows, train : slice or array of integers
        Places of the query points and of the training points of the stack.
    kind : type
        `DenseStack` or `Float32Stack`.
    """

    array: Any
    rows: Any
    train: Any
    kind: Any

    def padded(self, n_rows: int, n_train: int) -> DenseStack | Float32Stack:
        """Return a stack of the whole array between zeros, (n_kernels, n_rows, n_train)."""
        if self.array.shape[1:] == (n_rows, n_train):
            return self.kind(self.array)
        padded = np.zeros((len(self.array), n_rows, n_train), dtype=self.array.dtype)
        padded[:, : self.array.shape[1], : self.array.shape[2]] = self.array
        return self.kind(padded)


def held_array(stack: KernelStack) -> HeldArray | None:
    """Return the NumPy array that holds the kernels of a stack; None where they are held in another way."""
    if isinstance(stack, FoldStack):
        return HeldArray(stack.whole.kernels, stack.samples, stack.samples, DenseStack)
    if isinstance(stack, (DenseStack, Float32Stack)) and is_numpy(stack.kernels):
        return HeldArray(stack.kernels, slice(0, stack.n_rows), slice(0, stack.n_train), type(stack))
    return None


# checked by mypy
_CONTRACT: type[KernelStack] = FoldStack
