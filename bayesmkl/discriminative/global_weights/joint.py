r"""Kernel weights and SVM by one objective: SimpleMKL, SILP, weights in an lp ball, and SMO-MKL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import lambertw, xlogy

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import lp_norm, project_simplex
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
from bayesmkl.discriminative.svm.evaluator import (
    Evaluator,
    Goal,
    alternate,
    certify_by_planes,
    descend_spectrally,
    goal_on_simplex,
    look_around,
    lowest_point,
)
from bayesmkl.discriminative.weights import OnStep, Start, Training, WeightRule, number, one_of

SMALLEST = 1e-8  # smaller weights become zero at a corner, as each of them would be the next one
ROUNDING = 1e-12  # entries of a direction that are smaller, relative to the largest, are zero
SUFFICIENT = 1e-4  # Armijo's share of the predicted decrease
SHORTEST = 1e-8  # fraction of a step below which a line search gives up


@dataclass(eq=False, repr=False)
class Simple(WeightRule):
    r"""SimpleMKL: kernel weights on the simplex (Rakotomamonjy, Bach, Canu and Grandvalet 2008).

    .. math:: \min_{d \in \Delta} J(d), \qquad
       J(d) = \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m} + \sum_i \ell_i\Big(\sum_m f_m(x_i) + b\Big)

    :math:`J` is convex and differentiable with :math:`\partial J / \partial d_m = -\tfrac12 S_m`,
    :math:`S_m = v^\top K_m v`, and the duality gap at `d` is :math:`\tfrac12 (\max_m S_m - d^\top S)`.

    Parameters
    ----------
    solver : {"spg", "reduced-gradient"}, default="spg"
        "spg", spectral projected gradients, needs several times fewer SVMs; "reduced-gradient" is the algorithm
        of the paper. Both find the same optimum.
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.

    Notes
    -----
    Two ways to the same optimum: the reduced gradient of the paper (its algorithm 1), which walks along one direction
    over several corners, and spectral projected gradients (Birgin, Martínez and Raydan 2000), which let many weights
    become zero at once and need fewer SVMs.

    Departures: the line search backtracks by parabolas instead of a golden section; weights below 1e-8 become zero at
    a corner; several tasks that share the weights add their objectives; SVMs are solved as accurately as the present
    duality gap needs. The paper assumes strictly positive definite kernels. Without (samples that agree in the
    features of all kernels that are left), :math:`J` has kinks, and a certificate needs more than one dual:
    `look_around` of `svm.evaluator`.

    Examples
    --------
    >>> from bayesmkl.discriminative import MKLRegressor, Simple
    >>> MKLRegressor(weights=Simple(tol=1e-4)).get_params()["weights__tol"]
    0.0001
    """

    CHECKS: ClassVar = {"solver": one_of("spg", "reduced-gradient")}

    solver: str = "spg"
    tol: float = 1e-3
    max_iter: int = 1000

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Minimize :math:`J` over the simplex."""
        stack = training.stack
        evaluate = Evaluator(stack, targets, svm, goal_on_simplex(self.tol))
        weights = np.full(stack.n_kernels, 1.0 / stack.n_kernels) if start is None else start
        weights = _without_small(project_simplex(weights))
        if self.solver == "spg":
            certify = certify_by_planes(evaluate)
            found = descend_spectrally(evaluate, project_simplex, weights, self.max_iter, on_step, certify)
        else:
            found = _descend_reduced(evaluate, weights, self.max_iter, on_step)
        fit, history, outcome = found
        return result_of(fit, history, outcome, evaluate.n_solves, evaluate.gap(fit))


@dataclass(eq=False, repr=False)
class SILP(WeightRule):
    r"""SimpleMKL's problem as a semi-infinite linear program (Sonnenburg, Rätsch, Schäfer and Schölkopf 2006).

    .. math:: \max_{\theta, \beta \in \Delta} \; \theta \quad \text{subject to} \quad
       \sum_m \beta_m S_m(\alpha) \ge \theta \;\text{ for all }\; \alpha, \qquad
       S_m(\alpha) = \tfrac12 v^\top K_m v - 1^\top\alpha, \quad v = \alpha \circ y

    with one constraint per feasible dual :math:`\alpha`: the problem of SimpleMKL, :math:`-\theta` being
    :math:`\min_{\beta \in \Delta} J(\beta)`.

    Parameters
    ----------
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.

    Notes
    -----
    Column generation (algorithm 1): the SVM at the present weights gives the constraint that they violate most, a
    linear program over all constraints so far gives the next weights, and its value bounds the optimum. The iteration
    ends at :math:`1 - S / \theta \le \epsilon`, :math:`S` being that of the best weights so far.

    Departures: :math:`S` is that of the best weights, not of the last ones; several tasks that share the weights add
    their :math:`S_m`; SVMs are solved as accurately as the present duality gap needs; and no constraint is discarded.

    Examples
    --------
    >>> from bayesmkl.discriminative import MKLRegressor, SILP
    >>> MKLRegressor(weights=SILP())
    MKLRegressor(weights=SILP())
    """

    tol: float = 1e-3
    max_iter: int = 1000

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Alternate SVMs and linear programs."""
        stack = training.stack
        evaluate = Evaluator(stack, targets, svm, goal_on_simplex(self.tol))
        weights = np.full(stack.n_kernels, 1.0 / stack.n_kernels) if start is None else project_simplex(start)
        best = evaluate.refresh(evaluate(weights))
        cuts, history, outcome = [best], [_primal_value(best)], Outcome.CONVERGED
        while not evaluate.is_optimal(best):
            if len(history) > self.max_iter:
                outcome = Outcome.MAX_ITER
                break
            bound, weights = lowest_point(cuts)
            evaluate.raise_bound(bound)  # theta
            new = evaluate.refresh(evaluate(weights))
            is_cut_off = new.objective > bound and not np.array_equal(weights, cuts[-1].kernel_weights)
            cuts.append(new)
            if not is_cut_off and not evaluate.tighten():  # rounding of the solvers hides the rest
                outcome = Outcome.NOT_IMPROVING
                break
            best = min(best, new, key=_primal_value)
            history.append(_primal_value(best))
            on_step(len(history) - 1, evaluate.status(best))
        return result_of(best, history, outcome, evaluate.n_solves, evaluate.gap(best))


def _primal_value(fit: WeightedFit) -> float:
    return fit.objective + fit.inner_gap


def _descend_reduced(
    evaluate: Evaluator, weights: np.ndarray, max_iter: int, on_step: OnStep
) -> tuple[WeightedFit, list[float], Outcome]:
    """Run algorithm 1; where rounding of the SVMs stops the search, solve them to a smaller tolerance."""
    at = evaluate.refresh(evaluate(weights))
    history = [at.objective]
    while not evaluate.is_optimal(at):
        if len(history) > max_iter:
            return at, history, Outcome.MAX_ITER
        new = _walk_and_search(evaluate, at) or look_around(evaluate, at)
        if new.objective < at.objective:
            at = evaluate.refresh(evaluate.complete(new))
            history.append(at.objective)
            on_step(len(history) - 1, evaluate.status(at))
        elif evaluate.is_optimal(at):
            break
        elif evaluate.tighten():
            at = evaluate.refresh(evaluate(at.kernel_weights))
        else:
            return at, history, Outcome.NOT_IMPROVING
    return at, history, Outcome.CONVERGED


def reduced_gradient(kernel_weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the direction of the paper: it keeps the sum, and no zero weight falls.

    Examples
    --------
    >>> import numpy as np
    >>> reduced_gradient(np.array([0.7, 0.3, 0.0]), np.array([-1.0, -2.0, -0.5]))
    array([-1.,  1.,  0.])
    """
    largest = int(np.argmax(kernel_weights))
    direction = gradient[largest] - gradient
    direction[(kernel_weights <= 0.0) & (direction < 0.0)] = 0.0
    direction[largest] = -direction.sum()
    return direction


def _walk_and_search(evaluate: Evaluator, at: WeightedFit) -> WeightedFit | None:
    """Follow the reduced gradient over corners while the objective falls, then search before the next one."""
    largest = int(np.argmax(at.kernel_weights))
    gradient = evaluate.goal.gradient(at)
    direction = reduced_gradient(at.kernel_weights, gradient)
    smallest = ROUNDING * np.abs(direction).max()
    current = at
    while (direction < -smallest).any():
        falling = np.flatnonzero(direction < -smallest)
        steps = -current.kernel_weights[falling] / direction[falling]
        corner = evaluate.value(_move(current.kernel_weights, direction, float(steps.min())))
        if corner.objective >= current.objective:
            slope = float(gradient @ direction) if current is at else 0.0
            found = _search(evaluate, current, direction, slope, (float(steps.min()), corner.objective))
            return found or (None if current is at else current)
        current = corner
        first = falling[np.argmin(steps)]
        direction[largest] += direction[first]
        direction[first] = 0.0
    return None if current is at else current


def _move(weights: np.ndarray, direction: np.ndarray, step: float) -> np.ndarray:
    return _without_small(weights + step * direction)


def _without_small(weights: np.ndarray) -> np.ndarray:
    kept = np.where(weights < SMALLEST, 0.0, weights)
    return kept / kept.sum()


def _search(
    evaluate: Evaluator, at: WeightedFit, direction: np.ndarray, slope: float, corner: tuple[float, float]
) -> WeightedFit | None:
    """Go back from `corner` (step and objective there) until the objective falls sufficiently for its `slope`."""
    longest, value = corner
    step = longest
    while step > SHORTEST * longest:
        curvature = value - at.objective - step * slope
        parabola = -0.5 * slope * step**2 / curvature if curvature > 0.0 else 0.0
        step = float(np.clip(parabola, 0.1 * step, 0.5 * step))
        new = evaluate.value(_move(at.kernel_weights, direction, step))
        if new.objective < at.objective and new.objective <= at.objective + SUFFICIENT * step * slope:
            return new
        value = new.objective
    return None


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
