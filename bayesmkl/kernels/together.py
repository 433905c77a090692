r"""The part "views together": functions of two views at once that no sum of functions of single views has.

A view's kernel is the mean of its kernels, each centered in the measure of the training samples and of unit variance
there. Smooth ones count more, since products of rough functions of two views need far more samples: weights are
:math:`d_m^{-2}`, where :math:`1 / d_m` is the mean square of the entries of kernel `m` and :math:`d_m` its effective
number of dimensions. With :math:`\bar K_v` that mean, of unit variance, the kernel of the part is the sum over pairs
of views,

.. math:: \sum_{u < v} \bar K_u \circ \bar K_v
   = \tfrac12 \Big[ \Big(\sum_v \bar K_v\Big)^{\circ 2} - \sum_v \bar K_v^{\circ 2} \Big] .

Averages of its functions over one view, distributed as in training, are zero whatever the other view is, so that they
are orthogonal to all functions of single views where views are independent (Durrande et al. 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy, dger

from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.views import TOGETHER

CONSTANT = 1e-10  # part of a kernel around its mean that is rounding error
SMOOTH = 2  # power of the mean square of a kernel's entries, by which kernels of a view are weighted
TINY = float(np.finfo(float).tiny)
# Position of a kernel, its values, NaN where samples lack its view, and similarities of rows to themselves. Kernels
# of one view are neighbors.
Evaluated = Iterable[tuple[int, np.ndarray, np.ndarray]]


class ViewKernels(NamedTuple):
    """Centered kernels of views, as they were learned from the training samples.

    Attributes
    ----------
    views : ndarray of int, of shape (n_kernels,)
        View of every kernel, numbered from zero on.
    factors : ndarray of shape (n_kernels,)
        Of kernels in the sum over those of their view; zero of constant ones.
    scales : ndarray of shape (n_views,)
        What the sum is multiplied by for unit variance; zero of a view that does not vary.
    shares : ndarray of shape (n_views, n_train)
        Weights of the training samples in means; zero where they lack the view.
    means : ndarray of shape (n_views, n_train)
        Mean of the sum over the training samples, for each of them.
    weights : ndarray of shape (n_kernels,)
        Of kernels of unit variance in the sum over those of their view; zero of constant ones.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
    >>> kernels = [np.outer(x, x) + 5.0, 3.0 * np.outer(y, y)]
    >>> own = ViewKernels.learn(lambda: enumerate(kernels), np.array([0, 1]))
    >>> values, diagonal = own.product((m, kernel, kernel.diagonal()) for m, kernel in enumerate(kernels))
    >>> bool(np.allclose(values, np.outer(x * y, x * y))), diagonal
    (True, array([1., 1., 1., 1.]))
    """

    views: np.ndarray
    factors: np.ndarray
    scales: np.ndarray
    shares: np.ndarray
    means: np.ndarray
    weights: np.ndarray

    @classmethod
    def learn(
        cls,
        kernels: Callable[[], Iterable[tuple[int, np.ndarray]]],
        views: np.ndarray,
        counts: np.ndarray | None = None,
    ) -> ViewKernels:
        """Learn from training kernels, which are gone through once; samples count as often as `counts` says."""
        factors, scales, shares, means = np.zeros(len(views)), np.zeros(int(views.max()) + 1), [], []
        weights = np.zeros(len(views))
        for v, group in groupby(kernels(), key=lambda pair: views[pair[0]]):
            total: Any = 0.0
            for m, kernel in group:
                share = _shares(kernel, counts)
                filled = _filled(kernel)
                mean = filled @ share
                size, grand = share @ filled.diagonal(), share @ mean
                if size - grand > CONSTANT * abs(size):
                    square = share @ np.square(filled) @ share - 2.0 * (share @ mean**2) + grand**2
                    weights[m] = (square / (size - grand) ** 2) ** SMOOTH
                    factors[m] = weights[m] / (size - grand)
                    scales[v] += weights[m]
                total = total + factors[m] * kernel
            shares.append(_shares(total, counts))
            means.append(_filled(total) @ shares[-1])
        inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0.0)
        return cls(views, factors, inverse, np.array(shares), np.array(means), weights)

    @property
    def are_several(self) -> bool:
        """Whether two views vary at least."""
        return int((self.scales > 0.0).sum()) > 1

    def around(self, means: np.ndarray) -> np.ndarray:
        """Return the mean of every view's sum over the training samples from those of its kernels, (n_kernels, n)."""
        return np.stack([(self.factors * (self.views == v)) @ means for v in range(len(self.scales))])

    def each(
        self, kernels: Evaluated, around: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the kernel of every view on some rows, and similarities of rows to themselves.

        Kernels are zero where samples lack the view, which is the mean, and similarities NaN. Kernels among rows need
        what is `around` these, see there.
        """
        for v, group in groupby(kernels, key=lambda one: self.views[one[0]]):
            total: Any = 0.0
            own: Any = 0.0
            for m, kernel, diagonal in group:
                total, own = total + self.factors[m] * kernel, own + self.factors[m] * diagonal
            mean, share = self.means[v], self.shares[v]
            half = 0.5 * (share @ mean)
            of_rows, mean = (_filled(total) @ share, mean) if around is None else (around[v], around[v])
            total -= np.add.outer(of_rows - half, mean - half)
            own = self.scales[v] * (own - 2.0 * of_rows + 2.0 * half)
            yield _filled(self.scales[v] * total), own

    def product(self, kernels: Evaluated, around: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum over pairs of views of the products of their kernels, and its similarities.

        These are NaN where samples have fewer than two views. Parameters as in `each`.
        """
        sums, squares, n_views = [0.0, 0.0], [0.0, 0.0], 0
        for kernel, own in self.each(kernels, around):
            n_views = n_views + ~np.isnan(own)
            for k, values in enumerate((kernel, np.nan_to_num(own))):
                sums[k], squares[k] = sums[k] + values, squares[k] + np.square(values)
        values, diagonal = (0.5 * (np.square(s) - q) for s, q in zip(sums, squares, strict=True))
        values[n_views < 2] = diagonal[n_views < 2] = np.nan
        values[:, ((self.shares > 0.0).sum(axis=0) if around is None else n_views) < 2] = np.nan
        return values, diagonal

    def at_widths(self, kernels: np.ndarray) -> tuple[ViewKernels, np.ndarray]:
        """Return the same of training kernels with other widths, and the kernel of every view, (n_views, n, n).

        All samples have all views. Weights of kernels stay as they are.
        """
        share, factors, scales = self.shares[0], np.zeros(len(self.views)), np.zeros(len(self.scales))
        means, each = np.zeros(self.means.shape), np.zeros((len(scales), *kernels.shape[1:]))
        for m in np.flatnonzero(self.weights):
            v, mean = self.views[m], kernels[m] @ share
            size, grand = share @ kernels[m].diagonal(), share @ mean
            if size - grand > CONSTANT * abs(size):
                factors[m] = self.weights[m] / (size - grand)
                scales[v] += self.weights[m]
                means[v] += factors[m] * mean
                daxpy(kernels[m].ravel(), each[v].ravel(), a=factors[m])
        scales = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0.0)
        for own, mean, scale in zip(each, means, scales, strict=True):
            around = scale * (mean - 0.5 * (share @ mean))
            own *= scale
            own -= around
            own -= around[:, None]
        return self._replace(factors=factors, scales=scales, means=means), each

    def pull(
        self, kernels: np.ndarray, each: np.ndarray, adjoint: np.ndarray, wanted: Iterable[int]
    ) -> Iterator[np.ndarray]:
        r"""Yield the gradients by `wanted` kernels of what has the gradient `adjoint` by the kernel of the part.

        Samples have all views, diagonals and weights are given, and `adjoint` is symmetric. The gradient by
        :math:`\bar K_v` is :math:`G = A \circ (\sum_u \bar K_u - \bar K_v)`; that by kernel `m`, of variance
        :math:`c_m`, is in proportion to :math:`G - p r^\top - r p^\top + s\, p p^\top`, with :math:`r = G 1`,
        proportions `p` of samples, and an `s` that accounts for :math:`c_m`, too. Kernels `each` are those of views.
        """
        total, share = each.sum(axis=0), self.shares[0]
        for m in wanted:
            v, factor = self.views[m], self.factors[m]
            found = total - each[v]
            found *= adjoint
            rows, mean = found.sum(axis=1), kernels[m] @ share
            square = rows.sum()
            if factor:
                product = np.vdot(found, kernels[m]) - 2.0 * rows @ mean + square * (share @ mean)
                square += factor / self.weights[m] * product
            around = rows - 0.5 * square * share
            for one, other in ((share, around), (around, share)):
                dger(-1.0, one, other, a=found.T, overwrite_a=1)
            found *= self.scales[v] * factor
            yield found


def products_of_pairs(each: np.ndarray) -> np.ndarray:
    """Return the sum over pairs of the products of kernels of views, (n, n)."""
    total, found = each[0].copy(), np.zeros(each.shape[1:])
    for own in each[1:]:
        found += total * own
        total += own
    return found


def _filled(kernel: np.ndarray) -> np.ndarray:
    """Return a kernel with zeros in the rows and columns of samples that lack its view, which are NaN."""
    complete = not (np.isnan(kernel[:1]).any() or np.isnan(kernel[:, :1]).any())
    return kernel if complete else np.nan_to_num(kernel)


def _shares(kernel: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """Return weights of training samples in means over those that have what a kernel compares."""
    present = ~np.isnan(kernel.diagonal()) * (1.0 if counts is None else counts)
    return present / max(present.sum(), TINY)


class Together(Kernel):
    """The kernel of the part, on all columns: what a bank appends to its kernels.

    Parameters
    ----------
    bank : KernelBank
        Fitted, without the part.
    own : ViewKernels
        Learned from its kernels.
    """

    label = TOGETHER

    def __init__(self, bank: Any, own: ViewKernels) -> None:
        self.bank = bank
        self.own = own

    @property
    def known_psd(self) -> bool:
        """True where all kernels of the bank are known to be positive semidefinite."""
        return bool(self.bank.kernels_known_psd_.all())

    def rows(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the kernel of rows with the points of the bank, and similarities of rows to themselves."""
        return self.own.product(self.bank.each_with_diagonal(X))

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`; training points are those of the bank."""
        out[...] = self.rows(geometry.X)[0]

    def diagonal(self, X: Any) -> np.ndarray:
        """Return k(x, x) for each row of `X`."""
        return self.rows(X)[1]
