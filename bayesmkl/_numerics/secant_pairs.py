r"""Pairs of steps and changes of slopes, which correct the curvature that a step is solved with.

A maximum is looked for with slopes :math:`g_k` and matrices :math:`A_k` that are near the negative second derivative,
but leave part of it out. The last pairs :math:`s_j = x_{j+1} - x_j` and :math:`y_j = g_j - g_{j+1}` say what it is
along the steps that were taken: the direction is that of the limited-memory BFGS formula (Nocedal and Wright 2006,
Numerical Optimization, algorithm 7.4), with :math:`A_k^{-1}` in the place of its scaled identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DEPTH = 10
LEAST_COSINE = 1e-10  # between a step and the change of slopes


class SecantPairs(NamedTuple):
    """The last pairs, and the point from which the next one is told.

    Attributes
    ----------
    steps, falls : ndarray of shape (n_pairs, n)
        Of points, and of slopes.
    point, slope : ndarray of shape (n,), or (0,) before there is a point

    Examples
    --------
    Slopes of a quadratic function with the second derivative -A; two pairs make up for a matrix without couplings.

    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> pairs, x = SecantPairs.none(2), np.array([1.0, 1.0])
    >>> for _ in range(4):
    ...     pairs = pairs.at(x, -A @ x)
    ...     x = x + pairs.direction(lambda slope: slope / np.diag(A))
    >>> bool(np.abs(x).max() < 1e-2)
    True
    """

    steps: np.ndarray
    falls: np.ndarray
    point: np.ndarray
    slope: np.ndarray

    @classmethod
    def none(cls, n: int) -> SecantPairs:
        """Return no pairs of vectors of `n` numbers."""
        return cls(np.empty((0, n)), np.empty((0, n)), np.empty(0), np.empty(0))

    def at(self, point: np.ndarray, slope: np.ndarray) -> SecantPairs:
        """Return the same with the pair that leads to a point, if slopes fall along it."""
        steps, falls = self.steps, self.falls
        if self.point.size:
            step, fall = point - self.point, self.slope - slope
            if step @ fall > LEAST_COSINE * np.linalg.norm(step) * np.linalg.norm(fall):
                steps, falls = (np.vstack([own, new])[-DEPTH:] for own, new in ((steps, step), (falls, fall)))
        return SecantPairs(steps, falls, point, slope)

    def direction(self, solve: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the direction from the last point.

        Parameters
        ----------
        solve : callable
            Multiplies a slope with the inverse of the curvature that is to be corrected.
        """
        rest, sizes = self.slope.copy(), []
        for step, fall in zip(self.steps[::-1], self.falls[::-1], strict=True):
            sizes.append((step @ rest) / (step @ fall))
            rest -= sizes[-1] * fall
        found = solve(rest)
        for step, fall, size in zip(self.steps, self.falls, sizes[::-1], strict=True):
            found = found + (size - (fall @ found) / (step @ fall)) * step
        return found
