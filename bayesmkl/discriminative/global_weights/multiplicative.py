r"""SVM with squared hinge loss on one kernel, by multiplicative weights, from single columns.

MWUMKL with one kernel (Moeller, Swaminathan and Venkatasubramanian 2016, section 5.2). It scales its kernel to mean
diagonal one: with :math:`r` the mean diagonal of :math:`K`, the solution for :math:`K` and :math:`C` is that for
:math:`K / r` and :math:`C r`, the dual and the objective divided by :math:`r`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.global_weights.mwumkl import MWUOptions, fit_mwumkl
from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.kernels.stacks.base import KernelColumns
from bayesmkl.kernels.stacks.columns import ColumnCache

__all__ = ["MultiplicativeWeights"]

MOST_STEPS = 50_000
CACHE_MB = 50.0


class MultiplicativeWeights(NamedTuple):
    r"""Classifier with squared hinge loss: :math:`\ell_i(f) = \tfrac{C}{2} \max(0, 1 - y_i f)^2`.

    Parameters
    ----------
    C : float
        Factor of the loss.
    epsilon : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of iterations; an SVM that needs more has a larger gap.
    cache_mb : float
        Memory for columns that are asked for again, in MB.
    report : callable, optional
        Takes the relative duality gap of an SVM that was stopped by `max_iter`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> x, y = np.array([-2.0, 1.0, 3.0]), np.array([-1.0, 1.0, 1.0])
    >>> solution = MultiplicativeWeights(C=10.0, epsilon=1e-3).solve(DenseStack(np.outer(x, x)[None]), y, tol=0.0)
    >>> scores = np.outer(x, x) @ solution.signed_dual + solution.intercept
    >>> np.round(scores, 2), round(solution.objective, 3)
    (array([-0.98,  0.98,  2.28]), 0.217)
    """

    C: float = 1.0
    epsilon: float = 0.05
    max_iter: int = MOST_STEPS
    cache_mb: float = CACHE_MB
    report: Callable[[float], None] | None = None

    @property
    def by_columns(self) -> bool:
        """The kernel is taken as columns."""
        return True

    def solve(self, kernel: KernelColumns, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve for a kernel given as columns and labels -1 and +1; `epsilon` is the tolerance, not `tol`."""
        scale = float(np.asarray(kernel.diagonal()).mean())
        scale = scale if scale > 0.0 else 1.0
        stack = _Kept(kernel, len(target), self.cache_mb)
        options = MWUOptions(self.C * scale, self.epsilon, max_iter=self.max_iter)
        result = fit_mwumkl(stack, target[None], options)
        primal = result.objective_history[-1] if result.n_solves else np.nan
        gap = float(max(result.duality_gap, 0.0) / scale)
        if self.report is not None and result.outcome is Outcome.MAX_ITER:
            self.report(gap * scale / primal)
        return InnerSolution(
            signed_dual=result.signed_dual[0] / scale,
            intercept=float(result.intercept[0]),
            objective=float(primal / scale - gap),
            gap=gap,
        )


class _Kept:
    """Columns of a kernel and a cache."""

    def __init__(self, kernel: KernelColumns, n_train: int, cache_mb: float) -> None:
        self.diagonal = kernel.diagonal
        self.columns = ColumnCache(kernel.columns, n_train, cache_mb).columns
