r"""SimpleMKL: kernel weights on the simplex (Rakotomamonjy, Bach, Canu and Grandvalet 2008).

.. math:: \min_{d \in \Delta} J(d), \qquad
   J(d) = \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m} + \sum_i \ell_i\Big(\sum_m f_m(x_i) + b\Big)

:math:`J` is convex and differentiable with :math:`\partial J / \partial d_m = -\tfrac12 S_m`,
:math:`S_m = v^\top K_m v`, and the duality gap at `d` is :math:`\tfrac12 (\max_m S_m - d^\top S)`. Two ways to the
same optimum: the reduced gradient of the paper (its algorithm 1), which walks along one direction over several
corners, and spectral projected gradients (Birgin, Martínez and Raydan 2000), which let many weights become zero at
once and need fewer SVMs.

Departures: the line search backtracks by parabolas instead of a golden section; weights below 1e-8 become zero at a
corner; several tasks that share the weights add their objectives; SVMs are solved as accurately as the present
duality gap needs. The paper assumes strictly positive definite kernels. Without (samples that agree in the features
of all kernels that are left), :math:`J` has kinks, and a certificate needs more than one dual: `svm.cuts`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult, WeightedFit, result_of
from bayesmkl.discriminative.svm.cuts import certify_by_planes, goal_on_simplex, look_around
from bayesmkl.discriminative.svm.evaluator import Evaluator, OnStep, descend_spectrally
from bayesmkl.kernels.stacks.base import StoredStack

SOLVERS = ("spg", "reduced-gradient")
SMALLEST = 1e-8  # smaller weights become zero at a corner, as each of them would be the next one
ROUNDING = 1e-12  # entries of a direction that are smaller, relative to the largest, are zero
SUFFICIENT = 1e-4  # Armijo's share of the predicted decrease
SHORTEST = 1e-8  # fraction of a step below which a line search gives up


class SimpleMKLOptions(NamedTuple):
    """Solver and stopping rule.

    Parameters
    ----------
    solver : {"spg", "reduced-gradient"}
    tol : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the kernel weights.
    """

    solver: str = "spg"
    tol: float = 1e-3
    max_iter: int = 1000


def fit_simplemkl(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: SimpleMKLOptions = SimpleMKLOptions(),  # noqa: B008
    start: np.ndarray | None = None,
    on_step: OnStep = None,
) -> MKLResult:
    """Minimize :math:`J` over the simplex.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    options : SimpleMKLOptions
    start : ndarray of shape (n_kernels,), optional
        First kernel weights; equal ones by default.
    on_step : callable, optional
        Takes the number of iterations done and a line of status.
    """
    evaluate = Evaluator(stack, targets, inner, goal_on_simplex(options.tol))
    weights = np.full(stack.n_kernels, 1.0 / stack.n_kernels) if start is None else start
    weights = _without_small(project_simplex(weights))
    if options.solver == "spg":
        certify = certify_by_planes(evaluate)
        found = descend_spectrally(evaluate, project_simplex, weights, options.max_iter, on_step, certify)
    else:
        found = _descend_reduced(evaluate, weights, options.max_iter, on_step)
    fit, history, outcome = found
    return result_of(fit, history, outcome, evaluate.n_solves, evaluate.gap(fit))


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
