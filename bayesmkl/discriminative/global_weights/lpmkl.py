r"""Multiple kernel learning under an lp norm, p >= 1 (Kloft, Brefeld, Sonnenburg and Zien 2011; Xu et al. 2010).

.. math:: \min_{w, b, d \ge 0} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m} + \sum_i \ell_i\Big(\sum_m f_m(x_i) + b\Big)
   \quad\text{subject to}\quad \|d\|_p \le 1

Block coordinate descent on this jointly convex problem: an SVM on :math:`K(d)` gives
:math:`\|w_m\| = d_m \sqrt{S_m}`, and given these norms the optimal weights are, in closed form,

.. math:: d_m = \frac{\|w_m\|^{2/(p+1)}}{\big(\sum_h \|w_h\|^{2p/(p+1)}\big)^{1/p}} .

Neither step raises the objective. With :math:`p = 1` this is GLMKL, and its optimum that of SimpleMKL.
The dual is :math:`\max_\alpha 1^\top\alpha - \tfrac12 \|S\|_{p/(p-1)}`, so that the duality gap at `d` is
:math:`\tfrac12 (\|S\|_{p/(p-1)} - d^\top S)`.

Departures: several tasks that share the weights add their objectives and their :math:`\|w_m\|^2`; a start is mixed
with equal weights, as a weight that is zero would stay zero; steps go beyond the closed-form update, by a factor of
1.5 more after each that lowers the objective, as it takes hundreds of steps where `p` is close to 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.simplex import lp_norm
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult, WeightedFit, beyond, lp_weights, outer_gap, result_of
from bayesmkl.discriminative.svm.evaluator import Evaluator, Goal, OnStep, alternate
from bayesmkl.kernels.stacks.base import StoredStack

INNER_SHARE = 0.02  # share of the gap left to the SVMs: less than one step gains
REVIVED = 1e-2  # share of equal weights in a start


class LpMKLOptions(NamedTuple):
    """Norm of the weights, and stopping rule.

    Parameters
    ----------
    p_norm : float
        At least 1.
    tol : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the kernel weights.
    """

    p_norm: float = 2.0
    tol: float = 1e-3
    max_iter: int = 1000


def fit_lpmkl(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: LpMKLOptions = LpMKLOptions(),  # noqa: B008
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
    options : LpMKLOptions
    start : ndarray of shape (n_kernels,), optional
        First kernel weights; equal ones by default.
    on_step : callable, optional
        Takes the number of iterations done and a line of status.
    """
    p_norm = options.p_norm
    goal = Goal(
        lambda fit: fit.objective,
        lambda fit: outer_gap(fit, p_norm) - fit.inner_gap,
        options.tol,
        INNER_SHARE,
    )
    evaluate = Evaluator(stack, targets, inner, goal)

    def update(fit: WeightedFit, length: float) -> np.ndarray:
        block_norms = fit.kernel_weights * np.sqrt(np.maximum(fit.quadratics, 0.0))
        weights = beyond(fit.kernel_weights, lp_weights(block_norms, p_norm), length)
        return weights if length == 1.0 else weights / lp_norm(weights, p_norm)

    weights = _first_weights(start, stack.n_kernels, p_norm)
    fit, history, outcome = alternate(evaluate, update, weights, options.max_iter, on_step)
    return result_of(fit, history, outcome, evaluate.n_solves, evaluate.gap(fit))


def _first_weights(start: np.ndarray | None, n_kernels: int, p_norm: float) -> np.ndarray:
    """Return equal weights of norm one, or `start` with a little of them: no weight is zero."""
    equal = np.full(n_kernels, n_kernels ** (-1.0 / p_norm))
    if start is None:
        return equal
    mixed = (1.0 - REVIVED) * start / (lp_norm(start, p_norm) or 1.0) + REVIVED * equal
    return mixed / lp_norm(mixed, p_norm)
