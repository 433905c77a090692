r"""The problem of SMO-MKL: a norm or a divergence of the weights as a penalty (Vishwanathan et al. 2010).

.. math:: \min_{w, b, d \ge 0} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m} + \sum_i \ell_i\Big(\sum_m f_m(x_i) + b\Big)
   + \lambda\, r(d), \qquad r(d) = \tfrac12 \|d\|_p^2, \quad p > 1

Its dual is differentiable, :math:`\max_\alpha 1^\top\alpha - \frac{1}{8\lambda} \|S\|_q^2` with
:math:`1/p + 1/q = 1`, which is what lets the paper solve it by sequential minimal optimization; the weights of the
optimum are

.. math:: d_m = \frac{1}{2\lambda} \Big(\sum_h S_h^q\Big)^{1/q - 1/p} S_m^{q/p} .

Departure: the paper's solver is not used. Iterating the map above between SVMs does not descend either. Block
coordinate descent in :math:`(w, d)` does: the direction of `d` given :math:`\|w_m\| = d_m \sqrt{S_m}` is that of
lp-norm multiple kernel learning, :math:`u`, and its length is
:math:`t = (\sum_m \|w_m\|^2 / u_m / (2\lambda))^{1/3}`. The fixed point is the same, and primal and dual meet there.
Steps go beyond the closed-form update as long as the objective falls
(`bayesmkl.discriminative.svm.evaluator.alternate`).

The other regularizer of the paper is a Bregman divergence, of the entropy, from weights :math:`d^0`, here 1 / P each:

.. math:: r(d) = \sum_m d_m \log \frac{d_m}{d^0_m} - d_m + d^0_m, \qquad
   \max_\alpha 1^\top\alpha - \lambda \sum_m d^0_m \bigl(e^{S_m / (2\lambda)} - 1\bigr), \qquad
   d_m = d^0_m e^{S_m / (2\lambda)} .

Given :math:`\|w_m\|` every weight is :math:`d^0_m \sqrt{2 c / W(2 c)}` with
:math:`c = \|w_m\|^2 / (2 \lambda (d^0_m)^2)` and Lambert's W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw, xlogy

from bayesmkl._numerics.simplex import lp_norm
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult, WeightedFit, beyond, dual_norm, lp_weights, result_of
from bayesmkl.discriminative.svm.evaluator import Evaluator, Goal, OnStep, alternate
from bayesmkl.kernels.stacks.base import StoredStack

INNER_SHARE = 0.02  # share of the gap left to the SVMs: less than one step gains
REVIVED = 1e-2  # share of equal weights in a start
LARGEST = 700.0  # exponent before exp overflows


class SMOMKLOptions(NamedTuple):
    r"""Penalty, and stopping rule.

    Parameters
    ----------
    p_norm : float
        Above 1; of the norm.
    reg_weights : float
        :math:`\lambda`.
    tol : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the kernel weights.
    regularizer : {"norm", "divergence"}
        :math:`r`.
    """

    p_norm: float = 2.0
    reg_weights: float = 1.0
    tol: float = 1e-3
    max_iter: int = 1000
    regularizer: str = "norm"


class Regularizer(NamedTuple):
    r"""A penalty of the weights, :math:`\lambda r(d)`.

    Attributes
    ----------
    start : ndarray of shape (n_kernels,)
        Weights to start from.
    penalty : callable
        Takes weights.
    conjugate : callable
        :math:`\max_d d^\top S / 2 - \lambda r(d)` of quadratic forms :math:`S`.
    weights : callable
        Minimizes :math:`\sum_m \|w_m\|^2 / (2 d_m) + \lambda r(d)` over `d`, given :math:`\|w_m\|`.
    """

    start: np.ndarray
    penalty: Callable[[np.ndarray], float]
    conjugate: Callable[[np.ndarray], float]
    weights: Callable[[np.ndarray], np.ndarray]


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
    make = _norm if options.regularizer == "norm" else _divergence
    regularizer = make(stack.n_kernels, options)

    def gap(fit: WeightedFit) -> float:
        weights, quadratics = fit.kernel_weights, fit.quadratics
        return (
            regularizer.conjugate(quadratics)
            + regularizer.penalty(weights)
            - 0.5 * float(weights @ quadratics)
        )

    def update(fit: WeightedFit, length: float) -> np.ndarray:
        block_norms = fit.kernel_weights * np.sqrt(np.maximum(fit.quadratics, 0.0))
        return beyond(fit.kernel_weights, regularizer.weights(block_norms), length)

    goal = Goal(
        lambda fit: fit.objective + regularizer.penalty(fit.kernel_weights), gap, options.tol, INNER_SHARE
    )
    evaluate = Evaluator(stack, targets, inner, goal)
    weights = regularizer.start
    if start is not None:
        size = start.sum() / weights.sum() or 1.0
        weights = (1.0 - REVIVED) * start + REVIVED * size * weights
    fit, history, outcome = alternate(evaluate, update, weights, options.max_iter, on_step)
    return result_of(fit, history, outcome, evaluate.n_solves, evaluate.gap(fit))


def _norm(n_kernels: int, options: SMOMKLOptions) -> Regularizer:
    """Return the squared norm."""
    p_norm, reg = options.p_norm, options.reg_weights

    def weights(block_norms: np.ndarray) -> np.ndarray:
        direction = lp_weights(block_norms, p_norm)
        costs = np.divide(block_norms**2, direction, out=np.zeros_like(direction), where=direction > 0.0)
        return float(costs.sum() / (2.0 * reg)) ** (1.0 / 3.0) * direction

    return Regularizer(
        np.full(n_kernels, n_kernels ** (-1.0 / p_norm)),
        lambda d: 0.5 * reg * lp_norm(d, p_norm) ** 2,
        lambda S: dual_norm(S, p_norm) ** 2 / (8.0 * reg),
        weights,
    )


def _divergence(n_kernels: int, options: SMOMKLOptions) -> Regularizer:
    """Return the divergence from equal weights."""
    reg, prior = options.reg_weights, np.full(n_kernels, 1.0 / n_kernels)

    def weights(block_norms: np.ndarray) -> np.ndarray:
        twice = block_norms**2 / (reg * prior**2)
        return prior * np.exp(0.5 * lambertw(twice).real)  # W(2 c) = log(2 c / W(2 c)), and 0 at 0

    return Regularizer(
        prior,
        lambda d: reg * float((xlogy(d, d / prior) - d + prior).sum()),
        lambda S: reg * float((prior * np.expm1(np.minimum(0.5 * S / reg, LARGEST))).sum()),
        weights,
    )
