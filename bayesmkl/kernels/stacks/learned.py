r"""Stacks some of whose kernels have widths that are inferred: what they hold is points, not numbers.

With :math:`z_j` the features of a view in units of prior medians of their widths, and :math:`v_j` the log of a width
in these units, one such kernel is

.. math:: k(x, x') = \exp \Bigl( -\tfrac12 \sum_j e^{-2 v_j} (z_j - z'_j)^2 \Bigr), \qquad
   \frac{\partial k}{\partial v_j} = k\, e^{-2 v_j} (z_j - z'_j)^2 .

All features of a view have the same :math:`v`, or each has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack


class Points(NamedTuple):
    """What one kernel compares.

    Attributes
    ----------
    kernel : int
        Its position in the stack.
    each : bool
        Whether every feature has a width of its own.
    rows, train : ndarray of shape (n_rows, n_features), (n_train, n_features)
        In units of median widths.
    medians : ndarray of shape (n_columns,)
        These widths, of all columns of the view, in units of the columns. They are infinite of columns that are the
        same in all training samples, which a kernel with a width for every feature does not see.
    """

    kernel: int
    each: bool
    rows: np.ndarray
    train: np.ndarray
    medians: np.ndarray

    @property
    def n_values(self) -> int:
        """Number of widths."""
        return self.train.shape[1] if self.each else 1

    def evaluate(self, values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the kernel of some log widths, (n_rows, n_train), in the memory `out` if it is given."""
        out = np.empty((len(self.rows), len(self.train))) if out is None else out
        if not self.train.shape[1]:  # no feature varies
            out.fill(1.0)
            return out
        factors = np.exp(-values)
        train = self.train * factors
        cdist(train if self.rows is self.train else self.rows * factors, train, "sqeuclidean", out=out)
        out *= -0.5
        return np.exp(out, out=out)

    def pull(self, values: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
        """Return the gradient by log widths from that by the kernel times the kernel, which is symmetric."""
        around = self.train - self.train.mean(axis=0)  # no digits are lost far from zero
        products = np.einsum("ij,ij->j", around, adjoint @ around)
        by_feature = 2.0 * np.exp(-2.0 * values) * (adjoint.sum(axis=1) @ around**2 - products)
        return by_feature if self.each else by_feature.sum(keepdims=True)


class LearnedStack(Stack):
    """Kernels in one array, in which those with unknown widths have median ones.

    Parameters
    ----------
    held : DenseStack
    learned : sequence of Points
        In the order of the kernels.
    """

    def __init__(self, held: DenseStack, learned: Sequence[Points]) -> None:
        self.held, self.learned = held, tuple(learned)
        ends = [0, *np.cumsum([one.n_values for one in self.learned]).tolist()]
        self._places = [slice(*own) for own in pairwise(ends)]
        self._fixed = np.setdiff1d(np.arange(self.n_kernels), [one.kernel for one in self.learned])
        self._latest: tuple[bytes, DenseStack] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and training points."""
        return self.held.shape

    @property
    def storage(self) -> str:
        """The form of the kernels."""
        return self.held.storage

    @property
    def nbytes(self) -> int:
        """Bytes that the kernels take."""
        return self.held.nbytes

    def each(self, index: Iterable[int] | None = None) -> Iterator[Any]:
        """Go through the kernels at median widths."""
        return self.held.each(index)

    def rows(self, index: Index) -> LearnedStack:
        """Return the stack of the query points at `index`."""
        return LearnedStack(
            self.held.rows(index), [one._replace(rows=one.rows[index]) for one in self.learned]
        )

    def _part(self, index: Any) -> LearnedStack:
        wanted = np.arange(self.n_kernels)[index].tolist()
        kept = {one.kernel: one for one in self.learned}
        learned = [kept[m]._replace(kernel=place) for place, m in enumerate(wanted) if m in kept]
        return LearnedStack(self.held.select(index), learned)

    def at(self, values: np.ndarray) -> DenseStack:
        """Return the kernels of some log widths; those of the latest ones are kept."""
        key = values.tobytes()
        if self._latest is None or self._latest[0] != key:
            kernels = np.empty(self.shape)
            kernels[self._fixed] = self.held.kernels[self._fixed]
            for one, own in self.by_kernel(values):
                one.evaluate(own, kernels[one.kernel])
            self._latest = key, DenseStack(kernels)
        return self._latest[1]

    def by_kernel(self, values: np.ndarray) -> Iterator[tuple[Points, np.ndarray]]:
        """Go through kernels and their log widths."""
        return ((one, values[own]) for one, own in zip(self.learned, self._places, strict=True))


def with_learned(held: DenseStack, bank: Any, X: np.ndarray | None = None) -> Any:
    """Return a stack that knows the points of those kernels of a bank whose widths are learned, if there are any.

    Parameters
    ----------
    held : DenseStack
        All kernels of the bank.
    bank : KernelBank
        Fitted.
    X : ndarray of shape (n_rows, n_columns), optional
        Validated rows of the stack; None: the training samples.
    """
    learned = [m for m, kernel in enumerate(bank.kernels_) if getattr(kernel, "learns", None) is not None]
    return LearnedStack(held, [points_of(bank, m, X) for m in learned]) if learned else held


def points_of(bank: Any, m: int, X: np.ndarray | None = None) -> Points:
    """Return what kernel `m` of a bank compares, whose widths are learned; parameters as in `with_learned`."""
    kernel, columns = bank.kernels_[m], bank.columns_seen(m)
    medians = np.broadcast_to(kernel.widths, len(columns))
    seen = np.isfinite(medians)

    def scaled(rows: np.ndarray) -> np.ndarray:
        return bank.seen(rows, columns[seen]) / medians[seen]

    train = scaled(bank.X_train_)
    units = medians if bank.scales_ is None else medians * bank.scales_[columns]
    return Points(m, kernel.learns == "each", train if X is None else scaled(X), train, units)
