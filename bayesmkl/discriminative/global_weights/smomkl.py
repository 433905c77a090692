r"""The problem of SMO-MKL: the squared lp norm as a penalty (Vishwanathan, Sun, Theera-Ampornpunt and Varma 2010).

.. math:: \min_{w, b, d \ge 0} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m} + \sum_i \ell_i\Big(\sum_m f_m(x_i) + b\Big)
   + \frac\lambda2 \|d\|_p^2, \qquad p > 1

Its dual is differentiable, :math:`\max_\alpha 1^\top\alpha - \frac{1}{8\lambda} \|S\|_q^2` with
:math:`1/p + 1/q = 1`, which is what lets the paper solve it by sequential minimal optimization; the weights of the
optimum are

.. math:: d_m = \frac{1}{2\lambda} \Big(\sum_h S_h^q\Big)^{1/q - 1/p} S_m^{q/p} .

Departure: the paper's solver is not used. Iterating the map above between SVMs does not descend either. Block
coordinate descent in :math:`(w, d)` does: the direction of `d` given :math:`\|w_m\| = d_m \sqrt{S_m}` is that of
lp-norm multiple kernel learning, :math:`u`, and its length is
:math:`t = (\sum_m \|w_m\|^2 / u_m / (2\lambda))^{1/3}`. The fixed point is the same, and primal and dual meet there.
Steps go beyond the closed form as long as the objective falls (`bayesmkl.discriminative.svm.evaluator.alternate`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.simplex import lp_norm
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult, WeightedFit, beyond, dual_norm, lp_weights, result_of
from bayesmkl.discriminative.svm.evaluator import Evaluator, Goal, OnStep, alternate
from bayesmkl.kernels.stacks.base import StoredStack

__all__ = ["SMOMKLOptions", "fit_smomkl"]

INNER_SHARE = 0.02  # share of the gap left to the SVMs: less than one step gains
REVIVED = 1e-2  # share of equal weights in a start


class SMOMKLOptions(NamedTuple):
    r"""Penalty, and stopping rule.

    Parameters
    ----------
    p_norm : float
        Above 1.
    reg_weights : float
        :math:`\lambda`.
    tol : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the kernel weights.
    """

    p_norm: float = 2.0
    reg_weights: float = 1.0
    tol: float = 1e-3
    max_iter: int = 1000


def fit_smomkl(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: SMOMKLOptions = SMOMKLOptions(),  # noqa: B008
    start: np.ndarray | None = None,
    on_step: OnStep = None,
) -> MKLResult:
    """Alternate the SVM and closed-form weight updates.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    options : SMOMKLOptions
    start : ndarray of shape (n_kernels,), optional
        First kernel weights; equal ones of norm one by default.
    on_step : callable, optional
        Takes the number of iterations done and a line of status.
    """
    p_norm, reg = options.p_norm, options.reg_weights

    def penalty(fit: WeightedFit) -> float:
        return 0.5 * reg * lp_norm(fit.kernel_weights, p_norm) ** 2

    def gap(fit: WeightedFit) -> float:
        conjugate = dual_norm(fit.quadratics, p_norm) ** 2 / (8.0 * reg)
        return conjugate + penalty(fit) - 0.5 * float(fit.kernel_weights @ fit.quadratics)

    goal = Goal(lambda fit: fit.objective + penalty(fit), gap, options.tol, INNER_SHARE)
    evaluate = Evaluator(stack, targets, inner, goal)
    weights = np.full(stack.n_kernels, stack.n_kernels ** (-1.0 / p_norm))
    if start is not None:
        weights = (1.0 - REVIVED) * start + REVIVED * weights * (lp_norm(start, p_norm) or 1.0)

    def update(fit: WeightedFit, length: float) -> np.ndarray:
        return beyond(fit.kernel_weights, _update(fit, p_norm, reg), length)

    fit, history, outcome = alternate(evaluate, update, weights, options.max_iter, on_step)
    return result_of(fit, history, outcome, evaluate.n_solves, evaluate.gap(fit))


def _update(fit: WeightedFit, p_norm: float, reg: float) -> np.ndarray:
    """Minimize ``sum_m ||w_m||^2 / (2 d_m) + reg ||d||_p^2 / 2`` over `d`."""
    block_norms = fit.kernel_weights * np.sqrt(np.maximum(fit.quadratics, 0.0))
    direction = lp_weights(block_norms, p_norm)
    costs = np.divide(block_norms**2, direction, out=np.zeros_like(direction), where=direction > 0.0)
    return float(costs.sum() / (2.0 * reg)) ** (1.0 / 3.0) * direction
