r"""Descent on a smooth function that is costly to evaluate and not convex.

A point is anything with ``parameters``, ``objective`` and ``gradient``. Three ways down, all of which accept only
points below the last one:

* ``"lbfgs"``: quasi-Newton steps of SciPy's L-BFGS-B, without bounds;
* ``"armijo"``: along the gradient by Barzilai and Borwein's (1988) step length, back until Armijo's condition holds;
* ``"paper"``: the line search of Gönen and Alpaydın (2008): along the gradient by one, further by doubling while the
  objective falls, or back by halving until it does, and on until a move lowers it by more than the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.units import SMALLEST, unit_of

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


SOLVERS = ("lbfgs", "armijo", "paper")
SHORTEST = 1e-3  # the original search tries no shorter move
FINEST = 1e-8  # nor does the spectral one
SUFFICIENT = 1e-4  # Armijo's share of the predicted decrease
TRIALS = 10  # of a quasi-Newton step; where as many find nothing better, rounding or noise is in the way
GROWTH = 10.0  # a spectral step moves at most this many times as far as the one before


class Point(Protocol):
    """Value and gradient of the function at given parameters."""

    @property
    def parameters(self) -> np.ndarray:
        """Parameters, shape (n_parameters,)."""
        ...

    @property
    def objective(self) -> float:
        """The value."""
        ...

    @property
    def gradient(self) -> np.ndarray:
        """The gradient, shape (n_parameters,)."""
        ...


class Descent(NamedTuple):
    """Result of a descent.

    Parameters
    ----------
    end : Point
        The last accepted point, the lowest of them.
    history : list of float
        Objectives of the start and of all accepted points.
    outcome : Outcome
    """

    end: Any
    history: list[float]
    outcome: Outcome


Evaluate = Callable[..., Any]
Accept = Callable[[Any], bool]


def descend(
    evaluate: Evaluate,
    start: Point,
    solver: str,
    tol: float,
    max_iter: int,
    report: Callable[[int, Any], None] | None = None,
) -> Descent:
    """Take steps down from `start` until one lowers the objective by no more than `tol` times its size.

    Parameters
    ----------
    evaluate : callable
        Takes parameters, and for "paper" a value from which on a point counts as no lower, so that no more than that
        need be found out; returns a point.
    start : Point
    solver : {"lbfgs", "armijo", "paper"}
    tol : float
    max_iter : int
        Maximum number of accepted steps.
    report : callable, optional
        Takes the number of steps done and the point that was accepted.

    Returns
    -------
    Descent

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> def evaluate(x, enough=np.inf):
    ...     return SimpleNamespace(parameters=x, objective=1.0 + float(x @ x), gradient=2.0 * x)
    >>> descent = descend(evaluate, evaluate(np.array([3.0, 4.0])), "paper", tol=1e-3, max_iter=20)
    >>> np.round(descent.history, 6), descent.outcome.converged
    (array([26.,  2.,  1.]), True)
    """
    history, end = [start.objective], [start]
    if not start.parameters.size:
        return Descent(start, history, Outcome.CONVERGED)

    def accept(new: Point) -> bool:
        """Record a step; return whether it lowered the objective by no more than the tolerance."""
        history.append(new.objective)
        end[0] = new
        if report is not None:
            report(len(history) - 1, new)
        return _pays_little(history[-2], history[-1], tol)

    searches: dict[str, Callable[..., Outcome]] = {
        "lbfgs": _quasi_newton,
        "armijo": _spectral,
        "paper": partial(_doubling, tol),
    }
    outcome = searches[solver](evaluate, start, max_iter, accept)
    if outcome is Outcome.NOT_IMPROVING and SHORTEST * _steepness(end[0]) <= tol * abs(history[-1]):
        outcome = Outcome.CONVERGED  # a short move did not promise more than the tolerance
    return Descent(end[0], history, outcome)


def _quasi_newton(evaluate: Evaluate, start: Point, max_iter: int, accept: Accept) -> Outcome:
    """Run L-BFGS-B; an iterate is the point evaluated last, unless that lies above the one before."""
    last, lowest, n_accepted, settled = start, start.objective, 0, False
    unit = unit_of(max(abs(start.objective), float(np.abs(start.gradient).max(initial=0.0))))

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal last
        if not np.array_equal(parameters, last.parameters):
            last = evaluate(parameters.copy())
        gradient = last.gradient / unit
        gradient[np.abs(gradient) < SMALLEST] = 0.0  # their squares are, and steps would be divided by them
        return last.objective / unit, gradient

    def callback(intermediate_result: OptimizeResult) -> None:
        nonlocal lowest, n_accepted, settled
        objective(intermediate_result.x)
        if last.objective > lowest:  # its search ended with a warning, or looked again at what is noisy
            raise StopIteration
        lowest, n_accepted, settled = last.objective, n_accepted + 1, accept(last)
        if settled:
            raise StopIteration

    steps = {"maxiter": max_iter, "maxfun": np.iinfo(np.int32).max, "maxls": TRIALS}
    limits = {**steps, "ftol": 0.0, "gtol": 0.0}
    minimize(objective, start.parameters, jac=True, method="L-BFGS-B", callback=callback, options=limits)
    if settled:
        return Outcome.CONVERGED
    return Outcome.MAX_ITER if n_accepted >= max_iter else Outcome.NOT_IMPROVING


def _spectral(evaluate: Evaluate, at: Point, max_iter: int, accept: Accept) -> Outcome:
    """Take Barzilai and Borwein's steps, the first of them of length one."""
    length = 1.0
    for _ in range(max_iter):
        new = _backtrack(evaluate, at, max(length, FINEST))
        if new is None:
            return Outcome.NOT_IMPROVING
        move, change = new.parameters - at.parameters, new.gradient - at.gradient
        curvature, taken = float(move @ change), float(np.linalg.norm(move))
        spectral = taken**2 * _steepness(new) / curvature if curvature > 0.0 else np.inf
        length, at = min(spectral, GROWTH * taken), new
        if accept(at):
            return Outcome.CONVERGED
    return Outcome.MAX_ITER


def _backtrack(evaluate: Evaluate, at: Point, length: float) -> Any | None:
    """Shorten a move along the negative gradient, by parabolic interpolation, until the objective falls enough."""
    slope = -_steepness(at)
    while slope < 0.0 and length >= FINEST:
        new = evaluate(at.parameters + length * at.gradient / slope)
        rise = new.objective - at.objective
        if rise <= SUFFICIENT * length * slope:
            return new
        parabola = -0.5 * slope * length**2 / (rise - length * slope)
        length = float(np.clip(parabola, 0.1 * length, 0.5 * length))
    return None


def _doubling(tol: float, evaluate: Evaluate, at: Point, max_iter: int, accept: Accept) -> Outcome:
    """Move by one along the gradient, further while the objective falls, and back until a move pays.

    A unit move may cross a valley and end a little lower on its other side. Such a step is accepted, as the last one,
    only if no shorter move lowers the objective by more than the tolerance.
    """
    for _ in range(max_iter):
        if _steepness(at) == 0.0:
            return Outcome.NOT_IMPROVING
        direction, length = -at.gradient / _steepness(at), 1.0
        lowest = _further(evaluate, at, direction)
        while _pays_little(at.objective, lowest.objective, tol) and length >= 2.0 * SHORTEST:
            length *= 0.5
            new = evaluate(at.parameters + length * direction, lowest.objective)
            lowest = new if new.objective < lowest.objective else lowest
        if lowest is at:
            return Outcome.NOT_IMPROVING
        at = lowest
        if accept(at):
            return Outcome.CONVERGED
    return Outcome.MAX_ITER


def _further(evaluate: Evaluate, at: Point, direction: np.ndarray) -> Any:
    """Move by one, and by twice as much as long as the objective falls."""
    origin, length = at.parameters, 1.0
    while (new := evaluate(origin + length * direction, at.objective)).objective < at.objective:
        at, length = new, 2.0 * length
    return at


def _pays_little(before: float, after: float, tol: float) -> bool:
    """Return whether a step lowers the objective by no more than the tolerance."""
    return before - after <= tol * abs(after)


def _steepness(at: Point) -> float:
    return float(np.linalg.norm(at.gradient))
