"""Weights in closed form around an SVM: an lp norm as a bound (lp-MKL, GLMKL), or a penalty (SMO-MKL)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import lambertw, xlogy

from bayesmkl._numerics.simplex import lp_norm
from bayesmkl._utils.validation import check_scale
from bayesmkl.discriminative.problems import (
    InnerProblem,
    MKLResult,
    WeightedFit,
    beyond,
    dual_norm,
    lp_weights,
    outer_gap,
    result_of,
)
from bayesmkl.discriminative.svm.evaluator import Evaluator, Goal, alternate
from bayesmkl.discriminative.weights import OnStep, Start, Training, WeightRule, number, one_of

INNER_SHARE = 0.02  # share of the gap left to the SVMs: less than one step gains
REVIVED = 1e-2  # share of equal weights in a start
LARGEST = 700.0  # exponent before exp overflows


@dataclass(eq=False, repr=False)
class Lp(WeightRule):
    r"""Kernel weights under an lp norm, p >= 1 (Kloft, Brefeld, Sonnenburg and Zien 2011; Xu et al. 2010).

    .. math:: \min_{w, b, d \ge 0} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m} + \sum_i \ell_i\Big(\sum_m f_m(x_i)
       + b\Big) \quad\text{subject to}\quad \|d\|_p \le 1

    Parameters
    ----------
    p_norm : float, default=2.0
        :math:`p \ge 1`. Weights are sparse at 1 (SimpleMKL's problem; called GLMKL in this form) and equal for large
        values.
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.

    Notes
    -----
    Block coordinate descent on this jointly convex problem: an SVM on :math:`K(d)` gives
    :math:`\|w_m\| = d_m \sqrt{S_m}`, and given these norms the optimal weights are, in closed form,

    .. math:: d_m = \frac{\|w_m\|^{2/(p+1)}}{\big(\sum_h \|w_h\|^{2p/(p+1)}\big)^{1/p}} .

    Neither step raises the objective. The dual is :math:`\max_\alpha 1^\top\alpha - \tfrac12 \|S\|_{p/(p-1)}`, so
    that the duality gap at `d` is :math:`\tfrac12 (\|S\|_{p/(p-1)} - d^\top S)`.

    Departures: several tasks that share the weights add their objectives and their :math:`\|w_m\|^2`; a start is
    mixed with equal weights, as a weight that is zero would stay zero; steps go beyond the closed-form update, by a
    factor of 1.5 more after each that lowers the objective, as it takes hundreds of steps where `p` is close to 1.

    Examples
    --------
    >>> from bayesmkl.discriminative import Lp, MKLClassifier
    >>> MKLClassifier(weights=Lp(1.5))
    MKLClassifier(weights=Lp(p_norm=1.5))
    """

    CHECKS: ClassVar = {"p_norm": number(1.0, inclusive=True)}

    p_norm: float = 2.0
    tol: float = 1e-3
    max_iter: int = 1000

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Alternate the SVM and closed-form weight updates."""
        stack = training.stack
        p_norm = self.p_norm
        goal = Goal(
            lambda fit: fit.objective,
            lambda fit: outer_gap(fit, p_norm) - fit.inner_gap,
            self.tol,
            INNER_SHARE,
        )
        evaluate = Evaluator(stack, targets, svm, goal)

        def update(fit: WeightedFit, length: float) -> np.ndarray:
            block_norms = fit.kernel_weights * np.sqrt(np.maximum(fit.quadratics, 0.0))
            weights = beyond(fit.kernel_weights, lp_weights(block_norms, p_norm), length)
            return weights if length == 1.0 else weights / lp_norm(weights, p_norm)

        weights = _first_weights(start, stack.n_kernels, p_norm)
        fit, history, outcome = alternate(evaluate, update, weights, self.max_iter, on_step)
        return result_of(fit, history, outcome, evaluate.n_solves, evaluate.gap(fit))


@dataclass(eq=False, repr=False)
class SMO(WeightRule):
    r"""The problem of SMO-MKL (Vishwanathan, Sun, Theera-Ampornpunt and Varma 2010): a penalty of the weights.

    .. math:: \min_{d \ge 0} \; \lambda\, r(d) + \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
       + \sum_i \ell_i\Big(\sum_m f_m(x_i) + b\Big), \qquad r(d) = \tfrac12 \|d\|_p^2

    Parameters
    ----------
    p_norm : float, default=2.0
        :math:`p > 1`, of the norm. Closer to one, weights are closer to sparse.
    reg_weights : float, default=1.0
        :math:`\lambda > 0`, penalty of the weights.
    regularizer : {"norm", "divergence"}, default="norm"
        :math:`r`. Under the divergence no weight is below 1 / P, that of a kernel which the labels say nothing of.
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.

    Notes
    -----
    Its dual is differentiable, :math:`\max_\alpha 1^\top\alpha - \frac{1}{8\lambda} \|S\|_q^2` with :math:`1/p + 1/q
    = 1`, which is what lets the paper solve it by sequential minimal optimization; the weights of the optimum are

    .. math:: d_m = \frac{1}{2\lambda} \Big(\sum_h S_h^q\Big)^{1/q - 1/p} S_m^{q/p} .

    Departure: the paper's solver is not used. Iterating the map above between SVMs does not descend either. Block
    coordinate descent in :math:`(w, d)` does: the direction of `d` given :math:`\|w_m\| = d_m \sqrt{S_m}` is that of
    lp-norm multiple kernel learning, :math:`u`, and its length is :math:`t = (\sum_m \|w_m\|^2 / u_m /
    (2\lambda))^{1/3}`. The fixed point is the same, and primal and dual meet there. Steps go beyond the closed-form
    update as long as the objective falls (`bayesmkl.discriminative.svm.evaluator.alternate`).

    The other regularizer of the paper is a Bregman divergence, of the entropy, from weights :math:`d^0`, here 1 / P
    each:

    .. math:: r(d) = \sum_m d_m \log \frac{d_m}{d^0_m} - d_m + d^0_m, \qquad
       \max_\alpha 1^\top\alpha - \lambda \sum_m d^0_m \bigl(e^{S_m / (2\lambda)} - 1\bigr), \qquad
       d_m = d^0_m e^{S_m / (2\lambda)} .

    Given :math:`\|w_m\|` every weight is :math:`d^0_m \sqrt{2 c / W(2 c)}` with
    :math:`c = \|w_m\|^2 / (2 \lambda (d^0_m)^2)` and Lambert's W.

    Examples
    --------
    >>> from bayesmkl.discriminative import MKLRegressor, SMO
    >>> MKLRegressor(weights=SMO(1.5))
    MKLRegressor(weights=SMO(p_norm=1.5))
    """

    CHECKS: ClassVar = {
        "p_norm": number(1.0),
        "reg_weights": check_scale,
        "regularizer": one_of("norm", "divergence"),
    }

    p_norm: float = 2.0
    reg_weights: float = 1.0
    regularizer: str = "norm"
    tol: float = 1e-3
    max_iter: int = 1000

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Alternate the SVM and closed-form weight updates."""
        stack = training.stack
        make = _norm if self.regularizer == "norm" else _divergence
        regularizer = make(stack.n_kernels, self)

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
            lambda fit: fit.objective + regularizer.penalty(fit.kernel_weights), gap, self.tol, INNER_SHARE
        )
        evaluate = Evaluator(stack, targets, svm, goal)
        weights = regularizer.start
        if start is not None:
            size = start.sum() / weights.sum() or 1.0
            weights = (1.0 - REVIVED) * start + REVIVED * size * weights
        fit, history, outcome = alternate(evaluate, update, weights, self.max_iter, on_step)
        return result_of(fit, history, outcome, evaluate.n_solves, evaluate.gap(fit))


def _first_weights(start: np.ndarray | None, n_kernels: int, p_norm: float) -> np.ndarray:
    """Return equal weights of norm one, or `start` with a little of them: no weight is zero."""
    equal = np.full(n_kernels, n_kernels ** (-1.0 / p_norm))
    if start is None:
        return equal
    mixed = (1.0 - REVIVED) * start / (lp_norm(start, p_norm) or 1.0) + REVIVED * equal
    return mixed / lp_norm(mixed, p_norm)


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


def _norm(n_kernels: int, rule: SMO) -> Regularizer:
    """Return the squared norm."""
    p_norm, reg = rule.p_norm, rule.reg_weights

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


def _divergence(n_kernels: int, rule: SMO) -> Regularizer:
    """Return the divergence from equal weights."""
    reg, prior = rule.reg_weights, np.full(n_kernels, 1.0 / n_kernels)

    def weights(block_norms: np.ndarray) -> np.ndarray:
        twice = block_norms**2 / (reg * prior**2)
        return prior * np.exp(0.5 * lambertw(twice).real)  # W(2 c) = log(2 c / W(2 c)), and 0 at 0

    return Regularizer(
        prior,
        lambda d: reg * float((xlogy(d, d / prior) - d + prior).sum()),
        lambda S: reg * float((prior * np.expm1(np.minimum(0.5 * S / reg, LARGEST))).sum()),
        weights,
    )
