r"""Steps of primal training on one combined kernel: finite Newton, truncated Newton, conjugate gradients.

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

from typing import NamedTuple

import numpy as np
import scipy.linalg

from bayesmkl.discriminative.primal.losses import ClippedLoss, exact_step, intercept_shift

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
