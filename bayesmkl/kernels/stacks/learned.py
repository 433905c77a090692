r"""Stacks some of whose kernels have widths that are inferred: what they hold is points, not numbers.

With :math:`z_j` the features of a view in units of prior medians of their widths, and :math:`v_j` the log of a width
in these units, one such kernel is

.. math:: k(x, x') = \exp \Bigl( -\tfrac12 \sum_j e^{-2 v_j} (z_j - z'_j)^2 \Bigr), \qquad
   \frac{\partial k}{\partial v_j} = k\, e^{-2 v_j} (z_j - z'_j)^2 .

All features of a view have the same :math:`v`, or each has its own. The part "views together" is made of the kernels
at these widths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from bayesmkl._utils.typing import Index
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.together import ViewKernels, products_of_pairs


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
    own : ViewKernels, optional
        Of the part "views together", if it is the last kernel.
    to_train : LearnedStack, optional
        The kernels of the rows with the training points, of kernels between rows.
    """

    def __init__(
        self,
        held: DenseStack,
        learned: Sequence[Points],
        own: ViewKernels | None = None,
        to_train: LearnedStack | None = None,
    ) -> None:
        self.held, self.learned, self.own, self.to_train = held, tuple(learned), own, to_train
        ends = [0, *np.cumsum([one.n_values for one in self.learned]).tolist()]
        self._places = [slice(*own) for own in pairwise(ends)]
        self._fixed = np.setdiff1d(np.arange(self.n_kernels), [one.kernel for one in self.learned])
        self._latest: tuple[bytes, DenseStack, ViewKernels | None, Any] | None = None

    @property
    def moving(self) -> list[int]:
        """Positions of kernels that depend on widths."""
        last = [] if self.own is None else [self.n_kernels - 1]
        return [one.kernel for one in self.learned] + last

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
        learned = [one._replace(rows=one.rows[index]) for one in self.learned]
        return LearnedStack(self.held.rows(index), learned, self.own)

    def _part(self, index: Any) -> LearnedStack:
        wanted = np.arange(self.n_kernels)[index].tolist()
        kept = {one.kernel: one for one in self.learned}
        learned = [kept[m]._replace(kernel=place) for place, m in enumerate(wanted) if m in kept]
        return LearnedStack(
            self.held.select(index), learned, self.own if len(wanted) == self.n_kernels else None
        )

    def at(self, values: np.ndarray, train: LearnedStack | None = None) -> DenseStack:
        """Return the kernels of some log widths; those of the latest ones are kept.

        Rows other than the training samples need the stack of these, for "views together".
        """
        return self._at(values, train)[1]

    def _at(self, values: np.ndarray, train: LearnedStack | None) -> tuple[bytes, DenseStack, Any, Any]:
        key = values.tobytes()
        if self._latest is None or self._latest[0] != key:
            kernels, own, each = np.empty(self.shape), self.own, None
            kernels[self._fixed] = self.held.kernels[self._fixed]
            for one, widths in self.by_kernel(values):
                one.evaluate(widths, kernels[one.kernel])
            if own is not None and train is None:
                own, each = own.at_widths(kernels[:-1])
                kernels[-1] = products_of_pairs(each)
            elif train is not None and own is not None:
                own = train._at(values, None)[2]
                kernels[-1] = self._product(own, kernels, np.zeros(kernels.shape[:2]), values, train)[0]
            self._latest = key, DenseStack(kernels), own, each
        return self._latest

    def _product(
        self, own: ViewKernels, kernels: np.ndarray, diagonal: np.ndarray, *at: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        around = None
        if self.to_train is not None:
            around = own.around(self.to_train.at(*at).kernels[:-1] @ own.shares[0])
        return own.product(zip(count(), kernels[:-1], diagonal, strict=False), around)

    def diagonal_at(self, values: np.ndarray, diagonal: np.ndarray, train: LearnedStack) -> np.ndarray:
        """Return similarities of rows to themselves at some log widths from those at median ones."""
        _, stack, own, _ = self._at(values, train)
        if own is None:
            return diagonal
        of_part = self._product(own, stack.kernels, diagonal, values, train)[1]
        return np.concatenate([diagonal[:-1], of_part[None]])

    def pull(self, values: np.ndarray, by_kernels: dict[int, np.ndarray]) -> np.ndarray:
        """Return the gradient by log widths from those by kernels that depend on them, in the memory of these."""
        _, stack, own, each = self._at(values, None)
        if own is not None:
            *learned, last = self.moving
            more = own.pull(stack.kernels[:-1], each, by_kernels[last], learned)
            for m, part in zip(learned, more, strict=True):
                by_kernels[m] += part
        pulled = []
        for one, widths in self.by_kernel(values):
            by_kernels[one.kernel] *= stack.kernels[one.kernel]
            pulled.append(one.pull(widths, by_kernels[one.kernel]))
        return np.concatenate(pulled)

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
    if not learned:
        return held
    own = bank.kernels_[-1].own if bank.has_together else None
    if own is not None:  # a view is compared by kernels that adapt to its features, if there are such
        adapts = np.isin(own.views, own.views[learned])
        own = own._replace(weights=own.weights * (~adapts | np.isin(np.arange(len(adapts)), learned)))
    return LearnedStack(held, [points_of(bank, m, X) for m in learned], own)


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
