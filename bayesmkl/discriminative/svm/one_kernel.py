r"""SVMs on one kernel, trained on samples or on the kernel itself, and the kernel that gates make of several.

Methods that train one SVM per kernel see a kernel as an object with the methods of `OneKernel`. Two kinds exist:
`PrecomputedKernel` holds the matrix; `NativeKernel` of the module `native` holds samples and leaves kernel values to
LibSVM, so that nothing of size `n_train` x `n_train` is formed for more than 2000 samples.

Query points come as rows, in the form that the kernel understands: kernel values (n_rows, n_train) for the first
kind, features (n_rows, n_features) for the second. ``kernel.training_rows`` are those of the training samples.

A solver that reads one column of its kernel at a time needs no localized kernel in memory:

.. math:: K_\gamma(\cdot, x_j) = \sum_m \Gamma_m(\cdot, x_j) \circ K_m(\cdot, x_j)

takes the columns of the base kernels alone. `GatedColumns` is that for gates with components (LMKL, C-LMKL), where
inner problems with the attribute ``by_columns = True`` get it in the place of a matrix; `classify_by_columns` trains
the classifiers of single kernels (SwMKL, LD-MKL) with such a solver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesmkl.discriminative.gating import combine_components, gating_matrix
from bayesmkl.discriminative.problems import InnerProblem, InnerSolution
from bayesmkl.discriminative.svm.libsvm import solve_svm, solve_svr
from bayesmkl.kernels.stacks.base import KernelColumns, Stack

BLOCK = 2**19  # entries of a kernel that are held at once, 4 MB


class SVM(NamedTuple):
    r"""A trained function :math:`f(x) = \sum_s v_s k(x_s, x) + b`.

    Parameters
    ----------
    support : ndarray of shape (n_support,)
        Positions of the :math:`x_s` among the training samples, rising.
    coef : ndarray of shape (n_support,)
        :math:`v_s`.
    intercept : float
        :math:`b`.
    """

    support: np.ndarray
    coef: np.ndarray
    intercept: float


class OneKernel(Protocol):
    """One kernel on the training samples, on which SVMs can be trained."""

    @property
    def training_rows(self) -> np.ndarray:
        """Rows of the training samples; the first axis is `n_train`."""

    def classify(self, target: np.ndarray, C: float, tol: float, subset: np.ndarray | None = None) -> SVM:
        """Train a support vector classifier.

        Parameters
        ----------
        target : ndarray of shape (n_train,)
            Labels -1 and +1.
        C : float
        tol : float
        subset : ndarray of shape (n_subset,), optional
            Positions of the samples to train on, in that order; all of them by default. If they are of one class, the
            SVM is the constant of that class.
        """

    def regress(
        self, target: np.ndarray, C: float, epsilon: float, tol: float, subset: np.ndarray | None = None
    ) -> SVM:
        """Train support vector regression on a target of shape (n_train,), on all samples or on a subset."""

    def block(self, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
        """Return kernel values of rows against training samples, (n_rows, n_columns); not to be written to."""

    def product(self, rows: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return ``block(rows, columns) @ coef`` without holding the block."""

    def diagonal(self) -> np.ndarray:
        """Return k(x, x) of the training samples, (n_train,)."""


class PrecomputedKernel(NamedTuple):
    """A kernel held as a matrix.

    Parameters
    ----------
    kernel : ndarray of shape (n_train, n_train)

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-2.0, 1.0, 3.0])
    >>> kernel = PrecomputedKernel(np.outer(x, x))
    >>> svm = kernel.classify(np.array([-1.0, 1.0, 1.0]), C=10.0, tol=1e-6)
    >>> svm.support, svm.coef.round(4)
    (array([0, 1]), array([-0.2222,  0.2222]))
    >>> scores(kernel, svm, rows=np.outer([5.0], x)).round(4)
    array([3.6667])
    """

    kernel: np.ndarray

    @property
    def training_rows(self) -> np.ndarray:
        """The kernel itself."""
        return self.kernel

    def classify(self, target: np.ndarray, C: float, tol: float, subset: np.ndarray | None = None) -> SVM:
        """Train a support vector classifier; see `OneKernel`."""
        index = np.arange(len(target)) if subset is None else subset
        if one_class(target[index]):
            return constant_svm(float(target[index[0]]))
        return _svm(solve_svm(self._among(index, subset), target[index], C, tol), index)

    def regress(
        self, target: np.ndarray, C: float, epsilon: float, tol: float, subset: np.ndarray | None = None
    ) -> SVM:
        """Train support vector regression; see `OneKernel`."""
        index = np.arange(len(target)) if subset is None else subset
        return _svm(solve_svr(self._among(index, subset), target[index], C, epsilon, tol), index)

    def block(self, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
        """Return columns of rows; see `OneKernel`."""
        return rows[:, columns]

    def product(self, rows: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return ``block(rows, columns) @ coef``."""
        vector = np.zeros(rows.shape[1])
        vector[columns] = coef
        return rows @ vector

    def diagonal(self) -> np.ndarray:
        """Return the diagonal, (n_train,)."""
        return self.kernel.diagonal()

    def _among(self, index: np.ndarray, subset: np.ndarray | None) -> np.ndarray:
        return self.kernel if subset is None else self.kernel[index].take(index, axis=1)


NOT_HELD = PrecomputedKernel(np.zeros((0, 0)))  # the training kernel, where only rows are scored


def classify_by_columns(
    kernel: OneKernel, target: np.ndarray, solver: InnerProblem, tol: float, subset: np.ndarray | None = None
) -> SVM:
    """Train a classifier on one kernel with a solver that takes single columns of it.

    Parameters
    ----------
    kernel : OneKernel
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    solver : InnerProblem
        With ``by_columns = True``.
    tol : float
        Passed to the solver.
    subset : ndarray, optional
        Positions of the samples to train on; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.global_weights.mwumkl import MultiplicativeWeights
    >>> from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel, classify_by_columns, scores
    >>> x, y = np.array([-2.0, 1.0, 3.0]), np.array([-1.0, 1.0, 1.0])
    >>> kernel = PrecomputedKernel(np.outer(x, x))
    >>> scores(kernel, classify_by_columns(kernel, y, MultiplicativeWeights(10.0, 0.01), 1e-3)).round(1)
    array([-1. ,  1. ,  2.3])
    """
    index = np.arange(len(target)) if subset is None else subset
    if one_class(target[index]):
        return constant_svm(float(target[index[0]]))
    return _svm(solver.solve(_SubsetColumns(kernel, index), target[index], tol), index)


class _SubsetColumns:
    """A kernel among the samples at `index`, as a stack of one."""

    def __init__(self, kernel: OneKernel, index: np.ndarray) -> None:
        everything = np.array_equal(index, np.arange(len(kernel.training_rows)))
        self._kernel, self._index = kernel, index
        self._rows = kernel.training_rows if everything else kernel.training_rows[index]

    def columns(self, index: np.ndarray | slice) -> np.ndarray:
        return self._kernel.block(self._rows, self._index[np.asarray(index)])[None]

    def diagonal(self) -> np.ndarray:
        return self._kernel.diagonal()[self._index][None]


class GatedKernel(NamedTuple):
    r"""The kernel of localized methods, never held as a whole.

    .. math:: \kappa(x, z) = \sum_m \Gamma_m(x, z) k_m(x, z), \qquad \Gamma_m(x, z) = \sum_r g_{rm}(x)\, g_{rm}(z)

    and, with `normalized`, :math:`\Gamma_m` divided by :math:`\sum_h \Gamma_h`.

    Parameters
    ----------
    kernels : tuple of OneKernel
    gates : ndarray of shape (n_components, n_kernels, n_train)
        :math:`g_{rm} \ge 0` at the training samples.
    normalized : bool

    Notes
    -----
    `columns` and `diagonal` are what solvers that read single columns take, as one kernel of a stack.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = tuple(PrecomputedKernel(k) for k in (np.eye(2), np.ones((2, 2))))
    >>> gated = GatedKernel(kernels, np.array([[[1.0, 1.0], [2.0, 0.5]]]))
    >>> gated.dense()
    array([[5.  , 1.  ],
           [1.  , 1.25]])
    >>> gated.columns([1])[0], gated.diagonal()[0]
    (array([[1.  ],
           [1.25]]), array([5.  , 1.25]))
    """

    kernels: tuple[OneKernel, ...]
    gates: np.ndarray
    normalized: bool = False

    def block(
        self, rows: Sequence[np.ndarray], row_gates: np.ndarray, columns: np.ndarray | slice = slice(None)
    ) -> np.ndarray:
        """Return kernel values against training samples, (n_rows, n_columns).

        Parameters
        ----------
        rows : sequence of ndarray
            One per kernel.
        row_gates : ndarray of shape (n_components, n_kernels, n_rows)
        columns : ndarray or slice
            Positions of training samples.
        """
        train_gates = self.gates[:, :, columns]
        total = np.zeros((row_gates.shape[2], train_gates.shape[2]))
        norm = np.zeros_like(total) if self.normalized else np.ones(1)
        for m, (kernel, of_rows) in enumerate(zip(self.kernels, rows, strict=True)):
            gating = gating_matrix(row_gates, train_gates, m)
            if self.normalized:
                norm += gating
            gating *= kernel.block(of_rows, columns)
            total += gating
        return np.divide(total, norm, out=total) if self.normalized else total

    def dense(self) -> np.ndarray:
        """Return the whole training kernel, (n_train, n_train), formed in blocks of rows."""
        n_train = self.gates.shape[2]
        out = np.empty((n_train, n_train))
        rows = [kernel.training_rows for kernel in self.kernels]
        for part in row_blocks(n_train, n_train):
            out[part] = self.block([of_all[part] for of_all in rows], self.gates[:, :, part])
        return out

    def columns(self, index: np.ndarray | slice) -> np.ndarray:
        """Return columns of the training kernel as those of a stack of one, (1, n_train, n_columns)."""
        return self.block([kernel.training_rows for kernel in self.kernels], self.gates, np.asarray(index))[
            None
        ]

    def diagonal(self) -> np.ndarray:
        """Return the diagonal as that of a stack of one, (1, n_train)."""
        gating = (self.gates**2).sum(axis=0)
        total = sum(g * kernel.diagonal() for g, kernel in zip(gating, self.kernels, strict=True))
        return (total / gating.sum(axis=0) if self.normalized else total)[None]


class GatedColumns(NamedTuple):
    r"""The localized kernel :math:`\sum_m \Gamma_m \circ K_m`, column by column.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    components : ndarray of shape (n_components, n_kernels, n_train)
        :math:`g_{rm}`, with :math:`\Gamma_m(x, z) = \sum_r g_{rm}(x)\, g_{rm}(z)`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
    >>> gated = GatedColumns(stack, np.array([[[1.0, 1.0], [2.0, 0.5]]]))
    >>> gated.columns([1]).tolist(), gated.diagonal().tolist()
    ([[[1.0], [1.25]]], [[5.0, 1.25]])
    """

    stack: Stack
    components: np.ndarray

    def columns(self, index: np.ndarray | slice) -> np.ndarray:
        """Return columns, as those of a stack of one kernel: (1, n_train, n_columns)."""
        index = np.asarray(index)
        columns = self.stack.columns(index)
        total = np.zeros(columns.shape[:0:-1])
        for m, of_kernel in enumerate(columns):
            gating = gating_matrix(self.components[:, :, index], self.components, m)
            gating *= of_kernel.T
            total += gating
        return total.T[None]

    def diagonal(self) -> np.ndarray:
        """Return the diagonal, as that of a stack of one kernel: (1, n_train)."""
        return ((self.components**2).sum(axis=0) * self.stack.diagonal()).sum(axis=0)[None]


def takes_columns(inner: InnerProblem) -> bool:
    """Return whether an inner problem is solved from single columns of its kernel."""
    return bool(getattr(inner, "by_columns", False))


def localized_kernel(stack: Any, components: np.ndarray, inner: InnerProblem) -> Any:
    """Return the localized training kernel in the form that `inner` takes: columns on demand, or a matrix.

    Parameters
    ----------
    stack : Stack
        Kernels; columns alone are read for problems that take no more.
    components : ndarray of shape (n_components, n_kernels, n_train)
    inner : InnerProblem
    """
    if takes_columns(inner):
        return GatedColumns(stack, components)
    return combine_components(stack, components, components)


def precomputed_kernels(stack: Stack) -> tuple[PrecomputedKernel, ...]:
    """Return the kernels of a square stack one by one, sharing its memory."""
    return tuple(map(PrecomputedKernel, stack.each()))


def coefficients_of(svms: Sequence[SVM], n_train: int) -> tuple[np.ndarray, np.ndarray]:
    """Return signed duals, (n_svms, n_train), and intercepts, (n_svms,), of some SVMs."""
    duals = np.zeros((len(svms), n_train))
    for row, svm in zip(duals, svms, strict=True):
        row[svm.support] = svm.coef
    return duals, np.array([svm.intercept for svm in svms])


def scores(kernel: OneKernel, svm: SVM, rows: np.ndarray | None = None) -> np.ndarray:
    """Return the values of an SVM at `rows`, or at the training samples, shape (n_rows,)."""
    rows = kernel.training_rows if rows is None else rows
    if svm.support.size == 0:
        return np.full(len(rows), svm.intercept)
    return kernel.product(rows, svm.support, svm.coef) + svm.intercept


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Cut rows into blocks of at most `BLOCK` entries."""
    step = max(1, BLOCK // max(1, n_columns))
    for first in range(0, n_rows, step):
        yield slice(first, first + step)


def one_class(target: np.ndarray) -> bool:
    """Return whether labels, at least one, are all the same."""
    return bool((target == target[0]).all())


def constant_svm(value: float) -> SVM:
    """Return the SVM that is `value` everywhere."""
    return SVM(np.zeros(0, dtype=np.intp), np.zeros(0), value)


def _svm(solution: InnerSolution, index: np.ndarray) -> SVM:
    """Keep the support vectors of an inner solution on the samples at `index`."""
    support = np.flatnonzero(solution.signed_dual)
    return SVM(index[support], solution.signed_dual[support], solution.intercept)


# checked by mypy
_CONTRACTS: tuple[type[KernelColumns], ...] = (GatedKernel, GatedColumns, _SubsetColumns)
