r"""Inner problems on one combined kernel, and kernel weights around them: values, gradients, certificates, updates.

All inner problems are in standard form, over a function :math:`f = Kv + b` of the training samples:

.. math:: J = \min_{v, b} \; \tfrac12 v^\top K v + \sum_i \ell_i(f_i) .

Methods that are written with a regularization :math:`\lambda` instead of a loss factor :math:`C` are :math:`\lambda`
times this form with :math:`C = 1/\lambda`; the signed dual :math:`v` is the same.

For weights :math:`d \ge 0` the kernel is :math:`K(d) = \sum_m d_m K_m` and :math:`J(d)` the optimal value of the
inner problems of all tasks that share the weights, a convex function with

.. math:: \frac{\partial J}{\partial d_m} = -\tfrac12 S_m, \qquad S_m = \sum_c v_c^\top K_m v_c .

Under :math:`\|d\|_p \le 1` any feasible dual bounds the optimum from below, so that the duality gap at :math:`d` is
:math:`\tfrac12 (\|S\|_{p/(p-1)} - d^\top S)` plus the gaps of the inner problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_lp_ball, project_simplex
from bayesmkl.kernels.stacks.base import Stack

OnStep = Callable[[int, str], None]  # takes the number of steps done and a line of status
SMALLEST = 1e-10  # of the largest weight, after steps beyond the closed form


def silent(n_done: int, status: str) -> None:
    """Report nothing."""


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


class WeightedFit(NamedTuple):
    """The inner problems solved at given kernel weights.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
    objective : float
        :math:`J`, summed over tasks, from below.
    quadratics : ndarray of shape (n_kernels,)
        :math:`S_m`; the gradient of :math:`J` is ``-0.5 * quadratics``.
    solutions : tuple of InnerSolution
        One per task.
    """

    kernel_weights: np.ndarray
    objective: float
    quadratics: np.ndarray
    solutions: tuple[InnerSolution, ...]

    @property
    def inner_gap(self) -> float:
        """Duality gap of the inner problems, summed over tasks."""
        return sum(solution.gap for solution in self.solutions)


class MKLResult(NamedTuple):
    """Result of an algorithm for the tasks that share its kernel weights.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
    signed_dual : ndarray of shape (n_tasks, n_samples)
    intercept : ndarray of shape (n_tasks,)
    objective_history : ndarray of shape (n_iter,)
        Objective of the outer problem, lower is better.
    duality_gap : float
        Primal minus dual value of the outer problem; NaN where the method solves none.
    outcome : Outcome
    n_solves : int
        Inner problems that were solved.
    """

    kernel_weights: np.ndarray
    signed_dual: np.ndarray
    intercept: np.ndarray
    objective_history: np.ndarray
    duality_gap: float
    outcome: Outcome
    n_solves: int


def fit_at(
    stack: Stack,
    targets: np.ndarray,
    inner: InnerProblem,
    kernel_weights: np.ndarray,
    tol: float,
) -> WeightedFit:
    """Solve the inner problem of every task at `kernel_weights`.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    kernel_weights : ndarray of shape (n_kernels,)
    tol : float
        Tolerance of the inner solver.
    """
    kernel = stack.combine(kernel_weights)
    return gather(stack, kernel_weights, tuple(inner.solve(kernel, target, tol) for target in targets))


def gather(stack: Stack, kernel_weights: np.ndarray, solutions: tuple[InnerSolution, ...]) -> WeightedFit:
    """Sum objectives and gradients of the SVMs of all tasks at `kernel_weights`."""
    quadratics = np.sum([stack.quadratic(solution.signed_dual) for solution in solutions], axis=0)
    return WeightedFit(kernel_weights, sum(s.objective for s in solutions), quadratics, solutions)


def projection_for(p_norm: float) -> Callable[[np.ndarray], np.ndarray]:
    r"""Return the projection on the kernel weights: the simplex for ``p_norm=1``, else :math:`\|d\|_p \le 1`."""
    return project_simplex if p_norm == 1.0 else partial(project_lp_ball, p_norm=p_norm)


def dual_norm(values: np.ndarray, p_norm: float) -> float:
    r"""Return the norm :math:`\|\cdot\|_{p/(p-1)}` of nonnegative `values`, the largest of them for ``p_norm=1``.

    Examples
    --------
    >>> import numpy as np
    >>> dual_norm(np.array([3.0, 4.0]), 2.0), dual_norm(np.array([3.0, 4.0]), 1.0)
    (5.0, 4.0)
    """
    largest = float(values.max())
    if p_norm == 1.0 or largest <= 0.0:
        return largest
    order = 1.0 if np.isinf(p_norm) else p_norm / (p_norm - 1.0)
    return largest * float(((np.maximum(values, 0.0) / largest) ** order).sum()) ** (1.0 / order)


def outer_gap(fit: WeightedFit, p_norm: float) -> float:
    r"""Return the duality gap of `fit` under :math:`\|d\|_p \le 1`, the inner gaps included."""
    return (
        0.5 * (dual_norm(fit.quadratics, p_norm) - float(fit.kernel_weights @ fit.quadratics)) + fit.inner_gap
    )


def lp_weights(block_norms: np.ndarray, p_norm: float) -> np.ndarray:
    r"""Minimize :math:`\sum_m \|w_m\|^2 / d_m` over :math:`\|d\|_p = 1` (Kloft et al. 2011).

    Parameters
    ----------
    block_norms : ndarray of shape (n_kernels,)
        :math:`\|w_m\| = d_m \sqrt{S_m}`.
    p_norm : float
        :math:`p \ge 1`, also infinite.

    Returns
    -------
    ndarray of shape (n_kernels,)
        :math:`d_m \propto \|w_m\|^{2/(p+1)}`; uniform if all norms are zero.

    Examples
    --------
    >>> import numpy as np
    >>> lp_weights(np.array([3.0, 1.0]), 1.0)
    array([0.75, 0.25])
    """
    if np.isinf(p_norm):
        return np.ones_like(block_norms)
    largest = block_norms.max()
    relative = block_norms / largest if largest > 0.0 else np.ones_like(block_norms)
    weights = relative ** (2.0 / (p_norm + 1.0))
    return weights / (weights**p_norm).sum() ** (1.0 / p_norm)


def beyond(before: np.ndarray, closed: np.ndarray, length: float) -> np.ndarray:
    """Go `length` times as far from the weights `before` as to `closed`, in logarithms.

    Parameters
    ----------
    before, closed : ndarray of shape (n_kernels,)
        Weights, and those of a closed-form update of them; what is zero stays zero there.
    length : float
        1 for the closed-form update.

    Returns
    -------
    ndarray of shape (n_kernels,)
        After steps longer than 1, none that was positive is below 1e-10 of the largest, so that all can grow again.

    Examples
    --------
    >>> import numpy as np
    >>> beyond(np.array([1.0, 1.0, 0.0]), np.array([2.0, 0.5, 0.0]), 2.0)
    array([4.  , 0.25, 0.  ])
    """
    if length == 1.0:
        return closed
    ratio = np.divide(closed, before, out=np.ones_like(closed), where=before > 0.0)
    most = -np.log(SMALLEST)
    weights = before * np.exp(np.clip(length * np.log(np.maximum(ratio, SMALLEST)), -most, most))
    return np.maximum(weights, np.where(before > 0.0, SMALLEST * weights.max(), 0.0))


def result_of(
    fit: WeightedFit,
    history: Sequence[float],
    outcome: Outcome,
    n_solves: int,
    duality_gap: float = np.nan,
) -> MKLResult:
    """Assemble the result of an algorithm from its last fit."""
    return MKLResult(
        kernel_weights=fit.kernel_weights,
        signed_dual=np.stack([solution.signed_dual for solution in fit.solutions]),
        intercept=np.array([solution.intercept for solution in fit.solutions]),
        objective_history=np.asarray(history, dtype=np.float64),
        duality_gap=float(duality_gap),
        outcome=outcome,
        n_solves=n_solves,
    )
