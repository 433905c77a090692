r"""Inner problem on one combined kernel: arguments, solution and dual loss.

All inner problems are in standard form, over a function :math:`f = Kv + b` of the training samples:

.. math:: J = \min_{v, b} \; \tfrac12 v^\top K v + \sum_i \ell_i(f_i) .

Methods that are written with a regularization :math:`\lambda` instead of a loss factor :math:`C` are :math:`\lambda`
times this form with :math:`C = 1/\lambda`; the signed dual :math:`v` is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

OnStep = Callable[[int, str], None] | None  # takes the number of steps done and a line of status


class InnerSolution(NamedTuple):
    """Solution of one inner problem.

    Parameters
    ----------
    signed_dual : ndarray of shape (n_samples,)
        :math:`v`, so that the scores of the training samples are ``kernel @ signed_dual + intercept``.
    intercept : float
        :math:`b`.
    objective : float
        Value of the dual at the solution: a lower bound of :math:`J`.
    gap : float
        Value of the primal minus that of the dual, at least 0 up to rounding.
    """

    signed_dual: np.ndarray
    intercept: float
    objective: float
    gap: float


class InnerProblem(Protocol):
    """A loss that can be minimized over the functions of one kernel.

    Problems with an attribute ``by_columns = True`` take the kernel as an object with `columns` and `diagonal`, as
    those of a stack of one, in the place of a matrix.
    """

    def solve(self, kernel: Any, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve for a kernel of shape (n_samples, n_samples) and a target of shape (n_samples,).

        `tol` is the largest violation of the optimality conditions, in units of the scores.
        """
        ...
