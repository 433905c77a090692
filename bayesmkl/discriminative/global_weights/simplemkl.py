"""Weights on the simplex by gradients (SimpleMKL), and by cutting planes (SILP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl.discriminative.problems import InnerProblem, MKLResult, WeightedFit, result_of
from bayesmkl.discriminative.svm.evaluator import (
    Evaluator,
    certify_by_planes,
    descend_spectrally,
    goal_on_simplex,
    look_around,
    lowest_point,
)
from bayesmkl.discriminative.weights import OnStep, Start, Training, WeightRule, one_of

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
            if on_step is not None:
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
            if on_step is not None:
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
