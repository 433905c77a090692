r"""Localized kernels of which single columns are evaluated, for solvers that ask for nothing else.

A solver that reads one column of its kernel at a time needs no localized kernel in memory:

.. math:: K_\gamma(\cdot, x_j) = \sum_m \Gamma_m(\cdot, x_j) \circ K_m(\cdot, x_j)

takes the columns of the base kernels alone. `GatedColumns` is that for gates with components (LMKL, C-LMKL), where
inner problems with the attribute ``by_columns = True`` get it in the place of a matrix; `ByColumns` trains the
classifiers of single kernels (SwMKL, LD-MKL) with such a solver.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.discriminative.gating import combine_components, gating_matrix
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.svm.one_kernel import SVM, OneKernel, constant_svm, one_class
from bayesmkl.kernels.stacks.base import KernelColumns, Stack


def takes_columns(inner: InnerProblem) -> bool:
    """Return whether an inner problem is solved from single columns of its kernel."""
    return bool(getattr(inner, "by_columns", False))


def localized_kernel(stack: Any, components: np.ndarray, inner: InnerProblem) -> Any:
    """Return the localized training kernel in the form that `inner` takes: columns on demand, or a matrix.

    Parameters
    ----------
    stack : Stack, or Stack
        The latter for problems that take columns only.
    components : ndarray of shape (n_components, n_kernels, n_train)
    inner : InnerProblem
    """
    if takes_columns(inner):
        return GatedColumns(stack, components)
    return combine_components(stack, components, components)


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


class ByColumns(NamedTuple):
    """A kernel whose classifiers a solver trains from single columns.

    Parameters
    ----------
    kernel : OneKernel
        Regressions are trained as this kernel trains them.
    solver : InnerProblem
        With a parameter `C`, and ``by_columns = True``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel, scores
    >>> from bayesmkl.discriminative.global_weights.mwumkl import MultiplicativeWeights
    >>> x = np.array([-2.0, 1.0, 3.0])
    >>> kernel = ByColumns(PrecomputedKernel(np.outer(x, x)), MultiplicativeWeights(epsilon=0.01))
    >>> svm = kernel.classify(np.array([-1.0, 1.0, 1.0]), C=10.0, tol=1e-3)
    >>> scores(kernel, svm).round(1)
    array([-1. ,  1. ,  2.3])
    """

    kernel: OneKernel
    solver: Any

    @property
    def training_rows(self) -> np.ndarray:
        """Rows of the training samples."""
        return self.kernel.training_rows

    def classify(self, target: np.ndarray, C: float, tol: float, subset: np.ndarray | None = None) -> SVM:
        """Train a support vector classifier with the solver, whose accuracy replaces `tol`; see `OneKernel`."""
        index = np.arange(len(target)) if subset is None else subset
        if one_class(target[index]):
            return constant_svm(float(target[index[0]]))
        columns = _SubsetColumns(self.kernel, index)
        solution = self.solver._replace(C=C).solve(columns, target[index], tol)
        support = np.flatnonzero(solution.signed_dual)
        return SVM(index[support], solution.signed_dual[support], solution.intercept)

    def regress(
        self, target: np.ndarray, C: float, epsilon: float, tol: float, subset: np.ndarray | None = None
    ) -> SVM:
        """Train support vector regression; see `OneKernel`."""
        return self.kernel.regress(target, C, epsilon, tol, subset)

    def block(self, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
        """Return kernel values; see `OneKernel`."""
        return self.kernel.block(rows, columns)

    def product(self, rows: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return ``block(rows, columns) @ coef``."""
        return self.kernel.product(rows, columns, coef)

    def diagonal(self) -> np.ndarray:
        """Return k(x, x) of the training samples, (n_train,)."""
        return self.kernel.diagonal()


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


# checked by mypy
_CONTRACTS: tuple[type[KernelColumns], ...] = (GatedColumns, _SubsetColumns)
