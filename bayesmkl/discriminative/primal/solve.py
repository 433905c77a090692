r"""Learners of one combined kernel that are trained in the primal (Chapelle 2007; Hao et al. 2012, §3.1).

In standard form, with :math:`f = Kv + b` and the losses of `losses`,

.. math:: J = \min_{v, b} \; \tfrac12 v^\top K v + \tfrac1\lambda \sum_i \ell_i(f_i) + \tau b
   \;=\; \max_v \; v^\top t - \tfrac\lambda2 \|v\|^2 - \tfrac12 v^\top K v,

the maximum over :math:`\sum_i v_i = \tau` and :math:`l_i \le -\lambda v_i \le h_i`. The paper's objective is
:math:`F = \lambda J`. From any scores with the best intercept, :math:`v_i = -\ell_i'(f_i) / \lambda` is feasible in
the dual, so that every state carries its own certificate; these canonical coefficients are what is returned, zero for
all samples without loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.discriminative.primal.losses import huber, one_class, squared, squared_hinge
from bayesmkl.discriminative.primal.steps import (
    Direction,
    Gradient,
    PrimalProblem,
    PrimalState,
    conjugate_direction,
    gradient_at,
    minimum_of_piece,
    move,
    newton_direction,
    objective,
    state_at,
    truncated_direction,
)
from bayesmkl.discriminative.svm.squared_hinge import solve_squared_hinge

SOLVERS = ("newton", "truncated", "pcg")
HINGE_SOLVERS = ("auto", "libsvm", *SOLVERS)
FINER = 0.1  # of the tolerance, for LibSVM: Newton steps end far below it, and gradients of the weights are as exact
MANY = 1000  # samples from which on LibSVM is faster than Newton steps that begin at the last solution
DENSE_LIMIT = 3000  # support vectors beyond which Newton's system is solved by conjugate gradients
MAX_STEPS = {"newton": 200, "truncated": 200, "pcg": 5000}
FIRST_STEPS = 25  # of Newton's method from zero, before it goes by way of a larger regularization
EASIER = 10.0
ROUNDING = 1e-12
NEARLY = 1.0 - 1e-9  # slopes this close to a bound are at it


class SquaredHinge(NamedTuple):
    r"""SVM with squared slacks: :math:`\ell_i(f) = \tfrac12 \max(0, 1 - y_i f)^2`.

    The solver "libsvm" solves the dual, and takes Newton steps from there where that is not exact enough; "auto" is
    "libsvm" for many samples, else "newton".
    """

    reg: float
    solver: str = "newton"

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem for labels -1 and +1."""
        return PrimalProblem(squared_hinge(target), self.reg)

    def solve(
        self, kernel: np.ndarray, target: np.ndarray, tol: float, start: InnerSolution | None = None
    ) -> InnerSolution:
        """Solve for labels -1 and +1."""
        problem, solver = self.problem(target), self.solver
        if solver == "auto":
            solver = "libsvm" if len(target) >= MANY else "newton"
        if solver == "libsvm":
            solver, (start, violation) = "newton", solve_dual(kernel, problem, FINER * tol)
            if violation <= tol * problem.unit:
                return start
        return solve_primal(kernel, problem, solver, tol, start).solution


class Squared(NamedTuple):
    r"""Kernel ridge regression with an intercept: :math:`\ell_i(f) = \tfrac12 (t_i - f)^2`."""

    reg: float
    solver: str = "newton"

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem for a real target."""
        return PrimalProblem(squared(target), self.reg)

    def solve(
        self, kernel: np.ndarray, target: np.ndarray, tol: float, start: InnerSolution | None = None
    ) -> InnerSolution:
        """Solve for a real target."""
        return solve_primal(kernel, self.problem(target), self.solver, tol, start).solution


class Huber(NamedTuple):
    """Robust regression: quadratic up to deviations of `delta`, linear beyond."""

    reg: float
    delta: float
    solver: str = "newton"

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem for a real target."""
        return PrimalProblem(huber(target, self.delta), self.reg)

    def solve(
        self, kernel: np.ndarray, target: np.ndarray, tol: float, start: InnerSolution | None = None
    ) -> InnerSolution:
        """Solve for a real target."""
        return solve_primal(kernel, self.problem(target), self.solver, tol, start).solution


class OneClass(NamedTuple):
    r"""One-class SVM: :math:`\ell_i(f) = \tfrac12 \max(0, -f)^2`, the intercept being minus the threshold."""

    reg: float
    solver: str = "newton"

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem; only the length of `target` counts."""
        return PrimalProblem(one_class(target.size), self.reg, total=1.0)

    def solve(
        self, kernel: np.ndarray, target: np.ndarray, tol: float, start: InnerSolution | None = None
    ) -> InnerSolution:
        """Solve for samples without labels."""
        return solve_primal(kernel, self.problem(target), self.solver, tol, start).solution


class PrimalSolution(NamedTuple):
    """A solution and its cost: iterations, and products with the kernel in conjugate gradients."""

    solution: InnerSolution
    n_steps: int
    n_products: int


def solve_primal(
    kernel: np.ndarray,
    problem: PrimalProblem,
    solver: str = "newton",
    tol: float = 1e-6,
    start: InnerSolution | None = None,
) -> PrimalSolution:
    r"""Minimize the primal objective at one kernel.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
    problem : PrimalProblem
    solver : {"newton", "truncated", "pcg"}
        Finite Newton steps, solved densely; truncated Newton; nonlinear conjugate gradients.
    tol : float
        Largest violation of the optimality conditions :math:`\lambda v_i + \ell_i'(f_i) = 0`, relative to the half
        range of the targets (1 for labels), to the bounds of the derivatives where these are smaller.
    start : InnerSolution, optional
        Of a similar problem.

    Returns
    -------
    PrimalSolution
        Of the standard form.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([-2.0, 1.0, 3.0]), np.array([-1.0, 1.0, 1.0])
    >>> solution = solve_primal(np.outer(x, x), PrimalProblem(squared_hinge(y), reg=0.1)).solution
    >>> solution.signed_dual.round(4), round(solution.intercept, 4), bool(solution.gap < 1e-12)
    (array([-0.2174,  0.2174,  0.    ]), 0.3261, True)
    """
    most = MAX_STEPS[solver] if solver == "pcg" or start is not None else FIRST_STEPS
    solution, converged = _descend(kernel, problem, solver, tol, start, most)
    if converged or most == MAX_STEPS[solver]:
        return solution
    if problem.reg < kernel.trace():  # an easier problem leads to the piece that this one's solution lies on
        easier = solve_primal(kernel, problem._replace(reg=EASIER * problem.reg), solver, tol)
        start = easier.solution._replace(signed_dual=EASIER * easier.solution.signed_dual)  # the same slopes
    else:
        easier, start = solution, solution.solution
    final, _ = _descend(kernel, problem, solver, tol, start, MAX_STEPS[solver])
    return PrimalSolution(
        final.solution, final.n_steps + easier.n_steps, final.n_products + easier.n_products
    )


def solve_dual(kernel: np.ndarray, problem: PrimalProblem, tol: float) -> tuple[InnerSolution, float]:
    """Minimize the primal objective of the squared hinge by way of its dual, with LibSVM.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
    problem : PrimalProblem
        Of the squared hinge, with both labels.
    tol : float
        As of `solve_primal`; below 1e-5 the single precision of LibSVM decides.

    Returns
    -------
    solution : InnerSolution
        Canonical, with its certificate.
    violation : float
        Largest violation of the optimality conditions.
    """
    signed_dual = solve_squared_hinge(kernel, problem.loss.target, problem.reg, tol)
    state = state_at(problem, signed_dual, kernel @ signed_dual)
    return canonical(problem, state, gradient_at(kernel, problem, state))


def _descend(
    kernel: np.ndarray,
    problem: PrimalProblem,
    solver: str,
    tol: float,
    start: InnerSolution | None,
    max_steps: int,
) -> tuple[PrimalSolution, bool]:
    """Take steps until the conditions hold; say whether they do, as well as rounding lets them."""
    state = _first_state(kernel, problem, solver, start)
    memory: Any = None
    n_products, largest = 0, tol * problem.unit
    for n_steps in range(max_steps + 1):
        gradient = gradient_at(kernel, problem, state)
        found, violation = canonical(problem, state, gradient)
        if violation <= largest:
            return PrimalSolution(found, n_steps, n_products), True
        if n_steps == max_steps:
            break
        state, memory, spent = take_step(kernel, problem, solver, state, gradient, memory)
        n_products += spent
        if memory is None:
            return PrimalSolution(found, n_steps, n_products), True
    return PrimalSolution(found, n_steps, n_products), False


def _first_state(
    kernel: np.ndarray, problem: PrimalProblem, solver: str, start: InnerSolution | None
) -> PrimalState:
    """Return zero coefficients or, if that is lower, those of `start`; for Newton's method those of its piece."""
    nothing = np.zeros(kernel.shape[0])
    zero = state_at(problem, nothing, nothing)
    if start is None:
        return zero
    slopes = -problem.reg * start.signed_dual
    low, high = NEARLY * problem.loss.low, NEARLY * problem.loss.high
    curved = (slopes > low) & (slopes < high)
    if solver == "newton" and np.count_nonzero(curved) <= DENSE_LIMIT:
        there = minimum_of_piece(kernel, problem, curved, slopes, start.intercept)
        there = state_at(problem, there.alpha, there.product)
    else:
        there = state_at(problem, start.signed_dual, kernel @ start.signed_dual)
    return there if objective(problem, there) < objective(problem, zero) else zero


def take_step(
    kernel: np.ndarray,
    problem: PrimalProblem,
    solver: str,
    state: PrimalState,
    gradient: Gradient,
    memory: tuple[Gradient, Direction] | None,
) -> tuple[PrimalState, tuple[Gradient, Direction] | None, int]:
    """Do one step of Algorithm 1, lines 5 to 10.

    Returns
    -------
    state : PrimalState
        With an objective that is not higher.
    memory : tuple of Gradient and Direction, or None
        For the next call; None where the objective cannot be lowered, up to rounding.
    n_products : int
        Products with the kernel that the direction took.
    """
    n_products = 0
    if solver == "pcg":
        direction = conjugate_direction(problem, state, gradient, memory)
    elif solver == "truncated" or np.count_nonzero(problem.loss.curved(state.scores)) > DENSE_LIMIT:
        direction, n_products = truncated_direction(kernel, problem, state, gradient)
    else:
        direction = newton_direction(kernel, problem, state)
        new = state_at(problem, state.alpha + direction.alpha, state.product + direction.product)
        if objective(problem, new) < objective(problem, state):  # the full step finds the piece sooner
            return new, (gradient, direction), n_products
    new, step = move(problem, state, direction)
    if step == 0.0 or objective(problem, new) > objective(problem, state):
        return state, None, n_products
    return new, (gradient, direction), n_products


def canonical(problem: PrimalProblem, state: PrimalState, gradient: Gradient) -> tuple[InnerSolution, float]:
    """Return the canonical solution of a state, its certificate, and its violation of the optimality conditions.

    For small regularizations `v` magnifies rounding errors of the scores; where the state's own coefficients are
    feasible and closer to the conditions, as after a Newton step, they are taken.
    """
    reg, loss = problem.reg, problem.loss
    signed_dual = 0.0 - loss.slopes(state.scores) / reg  # no negative zeros
    solved = state_at(problem, signed_dual, state.product - gradient.product / reg)
    violation = float(np.abs(reg * signed_dual + loss.slopes(solved.scores)).max())
    own_violation = float(np.abs(gradient.residual).max())
    if own_violation < violation and _is_feasible(problem, state.alpha):
        solved, violation = state, own_violation
    half_norm = 0.5 * float(solved.alpha @ solved.product)
    dual = float(solved.alpha @ (loss.target - 0.5 * reg * solved.alpha)) - half_norm
    gap = max(objective(problem, solved) / reg - dual, 0.0)
    return InnerSolution(solved.alpha, solved.intercept, dual, gap), violation


def _is_feasible(problem: PrimalProblem, alpha: np.ndarray) -> bool:
    """Return whether coefficients satisfy the constraints of the dual, their sum up to rounding."""
    slopes = -problem.reg * alpha
    within = np.all((slopes >= problem.loss.low) & (slopes <= problem.loss.high))
    return bool(within) and abs(alpha.sum() - problem.total) <= ROUNDING * np.abs(alpha).sum()
