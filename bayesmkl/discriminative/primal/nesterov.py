r"""Nesterov's projected gradient method (Hao et al. 2012, Algorithm 4), made monotone.

Departures from the printed algorithm: the majorization of line 13 is tested at the projected point, where it has to
hold, not at the point before projection; the last point is returned; and the momentum starts again whenever the
function would rise, so that it never does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["minimize_nesterov"]

STEEPEST = 1e30  # Lipschitz constant beyond which only rounding is left


def minimize_nesterov(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    project: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    tol: float = 1e-5,
    max_iter: int = 1000,
) -> np.ndarray:
    r"""Minimize a convex function over a set that can be projected on.

    Parameters
    ----------
    function : callable
        Takes a point, also outside the set, and returns value and gradient.
    project : callable
        Euclidean projection on the set.
    start : ndarray
        A point of the set.
    tol : float
        :math:`\chi_1`: stop when a step moves no coordinate by more than this.
    max_iter : int

    Returns
    -------
    ndarray
        Where the function is not larger than at `start`.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([0.5, 2.0])
    >>> square = lambda x: (0.5 * (x - target) @ (x - target), x - target)
    >>> minimize_nesterov(square, lambda x: np.clip(x, 0.0, 1.0), np.zeros(2))
    array([0.5, 1. ])
    """
    point = previous = start
    value, _ = function(start)
    old_momentum, momentum, lipschitz = 0.0, 1.0, 1.0  # line 2
    for _ in range(max_iter):
        ahead = point + (old_momentum - 1.0) / momentum * (point - previous)  # line 5
        ahead_value, gradient = function(ahead)
        while True:  # lines 6 to 16
            new = project(ahead - gradient / lipschitz)
            step = new - ahead
            new_value, _ = function(new)
            bound = ahead_value + float(gradient @ step) + 0.5 * lipschitz * float(step @ step)
            if new_value <= bound or np.abs(step).max() < tol or lipschitz > STEEPEST:
                break
            lipschitz *= 2.0
        done = np.abs(step).max() < tol  # line 9
        if new_value > value:  # restart from the last point, which guarantees descent
            if np.array_equal(ahead, point):
                break
            previous, old_momentum, momentum = point, 0.0, 1.0
            continue
        previous, point, value = point, new, new_value
        old_momentum, momentum = momentum, 0.5 + 0.5 * np.sqrt(1.0 + 4.0 * momentum**2)  # line 17
        if done:
            break
    return point
