r"""Learners of one combined kernel that are trained in the primal (Chapelle 2007; Hao et al. 2012, §3.1).

In standard form, with :math:`f = Kv + b` and the losses below,

.. math:: J = \min_{v, b} \; \tfrac12 v^\top K v + \tfrac1\lambda \sum_i \ell_i(f_i) + \tau b
   \;=\; \max_v \; v^\top t - \tfrac\lambda2 \|v\|^2 - \tfrac12 v^\top K v,

the maximum over :math:`\sum_i v_i = \tau` and :math:`l_i \le -\lambda v_i \le h_i`. The paper's objective is
:math:`F = \lambda J`. From any scores with the best intercept, :math:`v_i = -\ell_i'(f_i) / \lambda` is feasible in
the dual, so that every state carries its own certificate; these canonical coefficients are what is returned, zero for
all samples without loss.

Losses are convex, piecewise quadratic, with curvature 0 or 1.

All of them have a derivative of one form, a residual that is cut off at two bounds,

.. math:: \ell_i'(f) = \operatorname{clip}(f - t_i,\; l_i,\; h_i), \qquad
   \ell_i(f) = \ell_i'(f) \left(f - t_i - \tfrac12 \ell_i'(f)\right),

so that solvers are written once. With labels :math:`y_i = \pm 1` the squared hinge
:math:`\tfrac12 \max(0, 1 - y_i f)^2` has :math:`t_i = y_i` and is cut off at 0 from the side of :math:`y_i`; the
squared loss is not cut off; Huber's is at :math:`\pm\delta`; the one-class loss :math:`\tfrac12 \max(0, -f)^2` is
the squared hinge around :math:`t_i = 0`. The conjugate is :math:`\ell_i^*(u) = \tfrac12 u^2 + u t_i` for
:math:`l_i \le u \le h_i`.

Steps are finite Newton, truncated Newton and conjugate gradients.

The problem (Hao et al. 2012, eq. 10, for fixed kernel weights; :math:`f = K\alpha + b`):

.. math:: F(\alpha, b) = \tfrac12 \lambda\, \alpha^\top K \alpha + \sum_i \ell_i(f_i) + \lambda\, \tau\, b,

with :math:`\tau = 0`, except that one-class SVMs have :math:`\tau = 1`. Every state here has the best intercept
for its coefficients. With :math:`u = \lambda\alpha + \ell'(f)` the gradient in :math:`\alpha` is :math:`K u` (the
paper prints :math:`\lambda K\alpha` inside the brackets, §3.1), the Hessian is

.. math:: H = P B, \quad P = \begin{pmatrix} K & 0 \\ 0 & 1 \end{pmatrix}, \quad
   B = \begin{pmatrix} \lambda I + I_{sv} K & I_{sv} 1 \\ 1^\top I_{sv} K & 1^\top I_{sv} 1 \end{pmatrix},

and at the optimum that has :math:`u = 0`, the canonical one, :math:`\alpha_i = -\ell_i'(f_i) / \lambda`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from bayesmkl.discriminative.problems import InnerSolution
from bayesmkl.discriminative.svm.libsvm import solve_squared_hinge

MOST_PIECES = 30  # of the derivative in the intercept, before its breakpoints are sorted
ROUNDED = 1e-9  # of the sum of the slopes, which rounding leaves of a derivative that is zero


class ClippedLoss(NamedTuple):
    """One loss per sample, with the derivative ``clip(scores - target, low, high)``.

    Parameters
    ----------
    target, low, high : ndarray of shape (n_samples,)
    """

    target: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def value(self, scores: np.ndarray) -> float:
        """Return the sum of the losses."""
        residual = scores - self.target
        slope = _clip(residual, self.low, self.high)
        return float(slope @ (residual - 0.5 * slope))

    def slopes(self, scores: np.ndarray) -> np.ndarray:
        """Return the derivatives, shape (n_samples,)."""
        return _clip(scores - self.target, self.low, self.high)

    def curved(self, scores: np.ndarray) -> np.ndarray:
        """Return where the second derivative is 1, shape (n_samples,); for the squared hinge the support vectors."""
        residual = scores - self.target
        return (residual > self.low) & (residual < self.high)


def squared_hinge(labels: np.ndarray) -> ClippedLoss:
    """Return ``max(0, 1 - y f)² / 2`` for labels -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> loss = squared_hinge(np.array([1.0, -1.0]))
    >>> loss.slopes(np.array([0.5, 0.5])), loss.value(np.array([0.5, 0.5]))
    (array([-0.5,  1.5]), 1.25)
    """
    return ClippedLoss(labels, np.where(labels > 0, -np.inf, 0.0), np.where(labels > 0, 0.0, np.inf))


def squared(target: np.ndarray) -> ClippedLoss:
    """Return ``(f - t)² / 2``."""
    return ClippedLoss(target, np.full(target.shape, -np.inf), np.full(target.shape, np.inf))


def huber(target: np.ndarray, delta: float) -> ClippedLoss:
    """Return ``(f - t)² / 2`` up to a deviation of `delta`, and linear continuations beyond."""
    return ClippedLoss(target, np.full(target.shape, -delta), np.full(target.shape, delta))


def one_class(n_samples: int) -> ClippedLoss:
    """Return ``max(0, -f)² / 2``, where `f` is the score minus the threshold."""
    return ClippedLoss(np.zeros(n_samples), np.full(n_samples, -np.inf), np.zeros(n_samples))


def exact_step(
    loss: ClippedLoss, scores: np.ndarray, change: np.ndarray, linear: float, curvature: float
) -> float:
    r"""Minimize over a step :math:`s \ge 0` along which scores change linearly.

    .. math:: \phi(s) = \sum_i \ell_i(f_i + s\, h_i) + a s + \tfrac12 c s^2

    Parameters
    ----------
    loss : ClippedLoss
    scores, change : ndarray of shape (n_samples,)
        :math:`f` and :math:`h`.
    linear, curvature : float
        :math:`a` and :math:`c \ge 0` of the other terms.

    Returns
    -------
    float
        The smallest minimizer, 0 if :math:`\phi'(0) \ge 0`. :math:`\phi'` is piecewise linear and does not fall: its
        breakpoints are sorted and the root lies between two of them.
    """
    residual = scores - loss.target
    slope = float(change @ _clip(residual, loss.low, loss.high)) + linear
    if slope >= 0.0:
        return 0.0
    moving = change != 0.0
    residual, rate = residual[moving], change[moving]
    bounds = np.stack([loss.low[moving] - residual, loss.high[moving] - residual]) / rate
    enter, leave = bounds.min(axis=0), bounds.max(axis=0)  # where each sample has curvature
    bend = rate**2
    steps = np.concatenate([enter, leave])
    bends = np.concatenate([bend, -bend])
    ahead = (steps > 0.0) & np.isfinite(steps)
    order = np.argsort(steps[ahead], kind="stable")
    steps = np.concatenate([[0.0], steps[ahead][order]])
    slopes_of_slope = curvature + bend[(enter <= 0.0) & (leave > 0.0)].sum()
    slopes_of_slope = slopes_of_slope + np.concatenate([[0.0], np.cumsum(bends[ahead][order])])
    slopes_of_slope = np.maximum(slopes_of_slope, curvature)  # rounding of the sums
    slopes = slope + np.concatenate([[0.0], np.cumsum(slopes_of_slope[:-1] * np.diff(steps))])
    last = np.flatnonzero(slopes < 0.0)[-1]
    if slopes_of_slope[last] <= 0.0:
        return float(steps[last])  # no curvature left: a direction of rounding errors
    return float(steps[last] - slopes[last] / slopes_of_slope[last])


def intercept_shift(loss: ClippedLoss, scores: np.ndarray, total: float = 0.0) -> float:
    """Return the shift `s` of all scores that minimizes ``loss.value(scores + s) + total * s``.

    Of several, the nearest to zero. Newton's steps from one linear piece of the derivative to the next end after a
    few of them; where one leaves the interval that holds the root, or finds no curvature, all breakpoints are sorted.
    """
    residual = scores - loss.target
    shift, below, above = 0.0, -np.inf, np.inf
    last = None
    for _ in range(MOST_PIECES):
        shifted = residual + shift
        slopes = _clip(shifted, loss.low, loss.high)
        slope = float(np.add.reduce(slopes)) + total
        curved = (shifted > loss.low) & (shifted < loss.high)
        n_curved = np.count_nonzero(curved)
        if slope == 0.0 and (n_curved or shift == 0.0):
            return shift
        same_piece = last is not None and not np.count_nonzero(curved != last)
        if same_piece and abs(slope) <= ROUNDED * float(np.add.reduce(np.abs(slopes))):
            return shift  # the last step has ended on the piece that it was computed for
        below, above = (shift, above) if slope < 0.0 else (below, shift)
        goal = shift - slope / n_curved if n_curved else np.nan
        if not below < goal < above:
            break
        shift, last = goal, curved
    slope = float(np.add.reduce(loss.slopes(scores))) + total
    direction = -1.0 if slope > 0.0 else 1.0
    change = np.full(scores.shape, direction)
    return direction * exact_step(loss, scores, change, direction * total, 0.0)


def _clip(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Do what ``np.clip`` does, which takes several times as long for a few hundred values."""
    return np.minimum(np.maximum(values, low), high)


RIDGE = 1e-12  # relative to the mean of the diagonal, where a kernel has eigenvalues below zero by rounding


class PrimalProblem(NamedTuple):
    r"""Loss and regularization of one inner problem.

    Parameters
    ----------
    loss : ClippedLoss
    reg : float
        :math:`\lambda > 0`.
    total : float
        :math:`\tau`, the sum of the coefficients at the optimum.
    """

    loss: ClippedLoss
    reg: float
    total: float = 0.0

    @property
    def unit(self) -> float:
        """Size of a derivative that matters: the scale of tolerances."""
        if self.total:
            return self.reg * self.total / self.loss.target.size
        return 0.5 * min(float(np.ptp(self.loss.target)), float((self.loss.high - self.loss.low).min()))


class PrimalState(NamedTuple):
    """Iterate: coefficients (n_samples,), their product with the kernel (n_samples,), and the intercept."""

    alpha: np.ndarray
    product: np.ndarray
    intercept: float

    @property
    def scores(self) -> np.ndarray:
        r"""Return :math:`K\alpha + b`."""
        return self.product + self.intercept


class Gradient(NamedTuple):
    """:math:`u` and the gradient :math:`Ku`, both (n_samples,); the derivative for the intercept is zero."""

    residual: np.ndarray
    product: np.ndarray


class Direction(NamedTuple):
    """A change of coefficients (n_samples,), its product with the kernel (n_samples,), and of the intercept."""

    alpha: np.ndarray
    product: np.ndarray
    intercept: float


def state_at(problem: PrimalProblem, alpha: np.ndarray, product: np.ndarray) -> PrimalState:
    """Give coefficients the best intercept."""
    shift = intercept_shift(problem.loss, product, problem.reg * problem.total)
    # repeated, as the first shift may round away digits of the scores
    return PrimalState(
        alpha,
        product,
        shift + intercept_shift(problem.loss, product + shift, problem.reg * problem.total),
    )


def objective(problem: PrimalProblem, state: PrimalState) -> float:
    """Return :math:`F`."""
    penalty = 0.5 * float(state.alpha @ state.product) + problem.total * state.intercept
    return problem.reg * penalty + problem.loss.value(state.scores)


def gradient_at(kernel: np.ndarray, problem: PrimalProblem, state: PrimalState) -> Gradient:
    """Return the gradient; costs one product with the kernel."""
    residual = problem.reg * state.alpha + problem.loss.slopes(state.scores)
    return Gradient(residual, kernel @ residual)


def move(problem: PrimalProblem, state: PrimalState, direction: Direction) -> tuple[PrimalState, float]:
    """Take the exact best step along a direction, then the best intercept; return the state and the step."""
    linear = problem.reg * (float(state.alpha @ direction.product) + problem.total * direction.intercept)
    curvature = problem.reg * max(float(direction.alpha @ direction.product), 0.0)
    step = exact_step(problem.loss, state.scores, direction.product + direction.intercept, linear, curvature)
    alpha = state.alpha + step * direction.alpha
    return state_at(problem, alpha, state.product + step * direction.product), step


def newton_direction(kernel: np.ndarray, problem: PrimalProblem, state: PrimalState) -> Direction:
    """Return the way to the minimum of the quadratic piece that `state` lies on (Chapelle 2007)."""
    goal = minimum_of_piece(
        kernel, problem, problem.loss.curved(state.scores), problem.loss.slopes(state.scores), state.intercept
    )
    return Direction(goal.alpha - state.alpha, goal.product - state.product, goal.intercept - state.intercept)


def minimum_of_piece(
    kernel: np.ndarray, problem: PrimalProblem, curved: np.ndarray, slopes: np.ndarray, intercept: float
) -> PrimalState:
    r"""Minimize a quadratic piece of the objective, given by where losses are curved and by the slopes elsewhere.

    Coefficients are :math:`-\ell_i'/\lambda` where the loss is linear (0 beyond the hinge), and on the other samples,
    with :math:`c` the part of the scores that comes from the linear ones,

    .. math:: \begin{pmatrix} K_{ss} + \lambda I & 1 \\ 1^\top & 0 \end{pmatrix}
       \begin{pmatrix} \alpha_s \\ b \end{pmatrix} = \begin{pmatrix} t_s - c_s \\ \tau - \sum_{i \notin s} \alpha_i
       \end{pmatrix} .

    Without curved losses the `intercept` stays.
    """
    reg = problem.reg
    alpha = np.where(curved, 0.0, 0.0 - slopes / reg)
    sv = np.flatnonzero(curved)
    if sv.size:
        linear = np.flatnonzero(alpha)
        goal = problem.loss.target[sv] - kernel[np.ix_(sv, linear)] @ alpha[linear]
        towards_goal, towards_ones = _solve_shifted(
            kernel[np.ix_(sv, sv)], reg, np.stack([goal, np.ones(sv.size)], axis=1)
        ).T
        missing = problem.total - alpha[linear].sum()
        intercept = float((towards_goal.sum() - missing) / towards_ones.sum())
        alpha[sv] = towards_goal - intercept * towards_ones
    return PrimalState(alpha, _sparse_product(kernel, alpha), intercept)


def truncated_direction(
    kernel: np.ndarray,
    problem: PrimalProblem,
    state: PrimalState,
    gradient: Gradient,
    eta: float = 0.1,
    max_products: int = 1000,
) -> tuple[Direction, int]:
    r"""Solve :math:`H q = -\nabla F` up to a residual of ``eta`` times the gradient's norm (eq. 11, Algorithm 2).

    Conjugate gradients preconditioned by `P`: as the gradient is :math:`P u`, the preconditioned residual
    :math:`P^{-1} r` is carried along and each iteration costs one product with the kernel. Algorithm 2 as printed
    applies no preconditioner, and its stopping rule compares a norm with a fraction of itself.

    Returns
    -------
    direction : Direction
        Of descent after any number of iterations.
    n_products : int
        Products with the kernel.
    """
    curved = problem.loss.curved(state.scores)
    z, z_b = -gradient.residual, 0.0
    r = -gradient.product  # P z; the part of the intercept is z_b itself
    p, p_b, kp = z, z_b, r
    q, q_b, kq = np.zeros_like(z), 0.0, np.zeros_like(z)
    rho = float(r @ z)
    enough = eta * float(np.linalg.norm(r))
    n_products = 0
    while n_products < max_products and rho > 0.0:
        bend = np.where(curved, kp + p_b, 0.0)
        s, s_b = problem.reg * p + bend, float(bend.sum())  # s = B p
        w = kernel @ s  # P s = H p
        n_products += 1
        length = rho / (float(p @ w) + p_b * s_b)
        q, q_b, kq = q + length * p, q_b + length * p_b, kq + length * kp
        z, z_b, r = z - length * s, z_b - length * s_b, r - length * w
        if np.hypot(np.linalg.norm(r), z_b) <= enough:
            break
        rho, previous = float(r @ z) + z_b**2, rho
        p, p_b, kp = z + rho / previous * p, z_b + rho / previous * p_b, r + rho / previous * kp
    return Direction(q, kq, q_b), n_products


def conjugate_direction(
    problem: PrimalProblem,
    state: PrimalState,
    gradient: Gradient,
    previous: tuple[Gradient, Direction] | None,
) -> Direction:
    r"""Return the next direction of nonlinear conjugate gradients (Melacci & Belkin 2011, Polak and Ribière's rule).

    Preconditioned by `P` like the other steps, :math:`q = -u + \beta q_{old}`; the intercept moves along so that its
    derivative stays zero.
    """
    alpha, product = -gradient.residual, -gradient.product
    if previous is not None:
        old, direction = previous
        beta = float(gradient.product @ (gradient.residual - old.residual))
        beta = max(beta / float(old.product @ old.residual), 0.0)
        alpha, product = alpha + beta * direction.alpha, product + beta * direction.product
        if float(gradient.product @ alpha) >= 0.0:  # not of descent: restart
            alpha, product = -gradient.residual, -gradient.product
    curved = problem.loss.curved(state.scores)
    return Direction(alpha, product, -float(product[curved].mean()) if curved.any() else 0.0)


def _solve_shifted(kernel: np.ndarray, shift: float, right: np.ndarray) -> np.ndarray:
    """Solve ``(kernel + shift I) x = right`` for a kernel that may be singular up to rounding."""
    diagonal = np.einsum("ii->i", kernel)
    diagonal += shift
    try:
        factor = scipy.linalg.cho_factor(kernel, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        diagonal += RIDGE * kernel.shape[0] * diagonal.mean()
        factor = scipy.linalg.cho_factor(kernel, lower=True, check_finite=False)
    return scipy.linalg.cho_solve(factor, right, check_finite=False)


def _sparse_product(kernel: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return ``kernel @ alpha`` from the rows of the nonzero coefficients."""
    support = np.flatnonzero(alpha)
    if 2 * support.size > alpha.size:
        return kernel @ alpha
    return alpha[support] @ kernel[support]


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


@dataclass(frozen=True)
class PrimalLoss:
    """A loss, its regularization, and the solver of its inner problems."""

    reg: float
    solver: str = "newton"

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem for a target."""
        raise NotImplementedError

    def solve(
        self, kernel: np.ndarray, target: np.ndarray, tol: float, start: InnerSolution | None = None
    ) -> InnerSolution:
        """Solve for labels -1 and +1, for a real target, or for samples without either."""
        return solve_primal(kernel, self.problem(target), self.solver, tol, start)

    def solve_each(
        self,
        kernel: np.ndarray,
        targets: np.ndarray,
        tol: float,
        starts: tuple[InnerSolution, ...] | None = None,
    ) -> tuple[InnerSolution, ...]:
        """Solve for every target, each from its last solution."""
        begin = starts or (None,) * len(targets)
        pairs = zip(targets, begin, strict=True)
        return tuple(self.solve(kernel, target, tol, start) for target, start in pairs)


class SquaredHinge(PrimalLoss):
    r"""SVM with squared slacks: :math:`\ell_i(f) = \tfrac12 \max(0, 1 - y_i f)^2`.

    The solver "libsvm" solves the dual, and takes Newton steps from there where that is not exact enough; "auto" is
    "libsvm" for many samples, else "newton".
    """

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
        return solve_primal(kernel, problem, solver, tol, start)


class Squared(PrimalLoss):
    r"""Kernel ridge regression with an intercept: :math:`\ell_i(f) = \tfrac12 (t_i - f)^2`."""

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem for a real target."""
        return PrimalProblem(squared(target), self.reg)


@dataclass(frozen=True)
class Huber(PrimalLoss):
    """Robust regression: quadratic up to deviations of `delta`, linear beyond."""

    delta: float = 1.0

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem for a real target."""
        return PrimalProblem(huber(target, self.delta), self.reg)


class OneClass(PrimalLoss):
    r"""One-class SVM: :math:`\ell_i(f) = \tfrac12 \max(0, -f)^2`, the intercept being minus the threshold."""

    def problem(self, target: np.ndarray) -> PrimalProblem:
        """Return the problem; only the length of `target` counts."""
        return PrimalProblem(one_class(target.size), self.reg, total=1.0)


def solve_primal(
    kernel: np.ndarray,
    problem: PrimalProblem,
    solver: str = "newton",
    tol: float = 1e-6,
    start: InnerSolution | None = None,
) -> InnerSolution:
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
    InnerSolution
        Of the standard form.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([-2.0, 1.0, 3.0]), np.array([-1.0, 1.0, 1.0])
    >>> solution = solve_primal(np.outer(x, x), PrimalProblem(squared_hinge(y), reg=0.1))
    >>> solution.signed_dual.round(4), round(solution.intercept, 4), bool(solution.gap < 1e-12)
    (array([-0.2174,  0.2174,  0.    ]), 0.3261, True)
    """
    most = MAX_STEPS[solver] if solver == "pcg" or start is not None else FIRST_STEPS
    solution, converged = _descend(kernel, problem, solver, tol, start, most)
    if converged or most == MAX_STEPS[solver]:
        return solution
    if problem.reg < kernel.trace():  # an easier problem leads to the piece that this one's solution lies on
        easier = solve_primal(kernel, problem._replace(reg=EASIER * problem.reg), solver, tol)
        solution = easier._replace(signed_dual=EASIER * easier.signed_dual)  # the same slopes
    return _descend(kernel, problem, solver, tol, solution, MAX_STEPS[solver])[0]


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
) -> tuple[InnerSolution, bool]:
    """Take steps until the conditions hold; say whether they do, as well as rounding lets them."""
    state = _first_state(kernel, problem, solver, start)
    memory: Any = None
    for n_steps in range(max_steps + 1):
        gradient = gradient_at(kernel, problem, state)
        found, violation = canonical(problem, state, gradient)
        if violation <= tol * problem.unit:
            return found, True
        if n_steps == max_steps:
            break
        state, memory = take_step(kernel, problem, solver, state, gradient, memory)
        if memory is None:
            return found, True
    return found, False


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
) -> tuple[PrimalState, tuple[Gradient, Direction] | None]:
    """Do one step of Algorithm 1, lines 5 to 10.

    Returns
    -------
    state : PrimalState
        With an objective that is not higher.
    memory : tuple of Gradient and Direction, or None
        For the next call; None where the objective cannot be lowered, up to rounding.
    """
    if solver == "pcg":
        direction = conjugate_direction(problem, state, gradient, memory)
    elif solver == "truncated" or np.count_nonzero(problem.loss.curved(state.scores)) > DENSE_LIMIT:
        direction, _ = truncated_direction(kernel, problem, state, gradient)
    else:
        direction = newton_direction(kernel, problem, state)
        new = state_at(problem, state.alpha + direction.alpha, state.product + direction.product)
        if objective(problem, new) < objective(problem, state):  # the full step finds the piece sooner
            return new, (gradient, direction)
    new, step = move(problem, state, direction)
    if step == 0.0 or objective(problem, new) > objective(problem, state):
        return state, None
    return new, (gradient, direction)


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
