"""Spectral projected gradients: minimize a smooth function over a convex set that can be projected on.

Birgin, Martínez & Raydan (2000): steps of Barzilai and Borwein's length, projected, with a non-monotone line search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.units import unit_of

Function = Callable[[np.ndarray], tuple[float, np.ndarray, Any]]
SHORTEST, LONGEST = 1e-10, 1e10  # of the spectral step
SUFFICIENT = 1e-4  # Armijo's share of the predicted decrease
SMALLEST_FRACTION = 1e-10  # of a step, below which the line search gives up


class SPGOptions(NamedTuple):
    """Stopping rule and line search.

    Parameters
    ----------
    max_iter : int
    tol : float
        Stop when the projected gradient step moves no coordinate by more than this.
    memory : int
        The line search accepts values below the largest of this many last ones; 1 makes it monotone.
    """

    max_iter: int = 500
    tol: float = 1e-8
    memory: int = 10


class SPGResult(NamedTuple):
    """The best point that was found.

    Parameters
    ----------
    point : ndarray
    value : float
    payload : Any
        What the function returned beside value and gradient at `point`.
    history : tuple of float
        Values of all accepted points.
    n_evaluations : int
    outcome : Outcome
        NOT_IMPROVING: no step along the projected gradient lowered the value (its noise level is reached).
    """

    point: np.ndarray
    value: float
    payload: Any
    history: tuple[float, ...]
    n_evaluations: int
    outcome: Outcome


class _Iterate(NamedTuple):
    point: np.ndarray
    value: float
    gradient: np.ndarray
    payload: Any


def minimize_spg(
    function: Function,
    project: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    options: SPGOptions = SPGOptions(),  # noqa: B008
    finished: Callable[[Any], bool] | None = None,
    on_step: Callable[[int, float, Any], None] | None = None,
) -> SPGResult:
    """Minimize `function` over the set that `project` projects on.

    Parameters
    ----------
    function : callable
        Takes a point, returns its value, its gradient and a payload (anything).
    project : callable
        Euclidean projection on the feasible set.
    start : ndarray
        Is projected first.
    options : SPGOptions
    finished : callable, optional
        Takes the payload of an accepted point; true ends the iteration as converged.
    on_step : callable, optional
        Takes the number of iterations done, the value and the payload.

    Returns
    -------
    SPGResult

    Examples
    --------
    >>> import numpy as np
    >>> def square(x):
    ...     return float((x - 2.0) @ (x - 2.0)), 2.0 * (x - 2.0), None
    >>> result = minimize_spg(square, lambda x: np.clip(x, 0.0, 1.0), np.zeros(2))
    >>> result.point, result.outcome.converged
    (array([1., 1.]), True)
    """
    point = project(start)
    at = _Iterate(point, *function(point))
    unit = unit_of(max(abs(at.value), float(np.abs(at.gradient).max(initial=0.0))))
    at = _in_units(at, unit)
    best, history, n_evaluations = at, [at.value], 1
    recent = deque([at.value], maxlen=options.memory)
    step = _first_step(at, project)
    outcome = Outcome.MAX_ITER
    for iteration in range(options.max_iter + 1):
        if (finished is not None and finished(at.payload)) or _is_stationary(at, project, options.tol):
            outcome = Outcome.CONVERGED
            break
        if iteration == options.max_iter:
            break
        direction = project(at.point - step * at.gradient) - at.point
        new, spent = _search(function, at, direction, max(recent), unit)
        n_evaluations += spent
        if new is None:
            outcome = Outcome.NOT_IMPROVING
            break
        step = spectral_step(new.point - at.point, new.gradient - at.gradient)
        at = new
        recent.append(at.value)
        history.append(at.value)
        best = at if at.value <= best.value else best
        if on_step is not None:
            on_step(iteration + 1, unit * at.value, at.payload)
    found = at if outcome is Outcome.CONVERGED else best
    values = tuple(unit * value for value in history)
    return SPGResult(found.point, unit * found.value, found.payload, values, n_evaluations, outcome)


def _in_units(at: _Iterate, unit: float) -> _Iterate:
    """Divide by the unit in which values are of the order of one."""
    return at if unit == 1.0 else at._replace(value=at.value / unit, gradient=at.gradient / unit)


def _is_stationary(at: _Iterate, project: Callable[[np.ndarray], np.ndarray], tol: float) -> bool:
    return bool(np.abs(project(at.point - at.gradient) - at.point).max() <= tol)


def _first_step(at: _Iterate, project: Callable[[np.ndarray], np.ndarray]) -> float:
    move = np.abs(project(at.point - at.gradient) - at.point).max()
    return float(np.clip(1.0 / move, SHORTEST, LONGEST)) if move > 0.0 else 1.0


def _search(
    function: Function, at: _Iterate, direction: np.ndarray, reference: float, unit: float
) -> tuple[_Iterate | None, int]:
    """Go back along `direction` until the value is sufficiently below `reference`."""
    slope, fraction, spent = float(at.gradient @ direction), 1.0, 0
    while fraction > SMALLEST_FRACTION and slope < 0.0:
        point = at.point + fraction * direction
        new = _in_units(_Iterate(point, *function(point)), unit)
        spent += 1
        if new.value <= reference + SUFFICIENT * fraction * slope:
            return new, spent
        curvature = new.value - at.value - fraction * slope
        parabola = -0.5 * slope * fraction**2 / curvature if curvature > 0.0 else 0.0
        fraction = float(np.clip(parabola, 0.1 * fraction, 0.5 * fraction))
    return None, spent


def spectral_step(move: np.ndarray, change: np.ndarray) -> float:
    """Return Barzilai and Borwein's step ``<s, s> / <s, g>`` after a move `s` that changed the gradient by `g`."""
    curvature = float(move @ change)
    if curvature <= 0.0:
        return LONGEST
    return float(np.clip(move @ move / curvature, SHORTEST, LONGEST))
