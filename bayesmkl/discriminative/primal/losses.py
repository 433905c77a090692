r"""Losses that primal training takes: convex, piecewise quadratic, with curvature 0 or 1.

All of them have a derivative of one form, a residual that is cut off at two bounds,

.. math:: \ell_i'(f) = \operatorname{clip}(f - t_i,\; l_i,\; h_i), \qquad
   \ell_i(f) = \ell_i'(f) \left(f - t_i - \tfrac12 \ell_i'(f)\right),

so that solvers are written once. With labels :math:`y_i = \pm 1` the squared hinge
:math:`\tfrac12 \max(0, 1 - y_i f)^2` has :math:`t_i = y_i` and is cut off at 0 from the side of :math:`y_i`; the
squared loss is not cut off; Huber's is at :math:`\pm\delta`; the one-class loss :math:`\tfrac12 \max(0, -f)^2` is
the squared hinge around :math:`t_i = 0`. The conjugate is :math:`\ell_i^*(u) = \tfrac12 u^2 + u t_i` for
:math:`l_i \le u \le h_i`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_PIECES = 30  # of the derivative in the intercept, before its breakpoints are sorted
ROUNDED = 1e-9  # of the sum of the slopes, which rounding leaves of a derivative that is zero


class ClippedLoss(NamedTuple):
    """One loss per sample, with the derivative ``clip(scores - target, low, high)``.

    Parameters
    ----------
    target, low, high : ndarray of shape (n_samples,)
    """

    target: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def value(self, scores: np.ndarray) -> float:
        """Return the sum of the losses."""
        residual = scores - self.target
        slope = _clip(residual, self.low, self.high)
        return float(slope @ (residual - 0.5 * slope))

    def slopes(self, scores: np.ndarray) -> np.ndarray:
        """Return the derivatives, shape (n_samples,)."""
        return _clip(scores - self.target, self.low, self.high)

    def curved(self, scores: np.ndarray) -> np.ndarray:
        """Return where the second derivative is 1, shape (n_samples,); for the squared hinge the support vectors."""
        residual = scores - self.target
        return (residual > self.low) & (residual < self.high)


def squared_hinge(labels: np.ndarray) -> ClippedLoss:
    """Return ``max(0, 1 - y f)² / 2`` for labels -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> loss = squared_hinge(np.array([1.0, -1.0]))
    >>> loss.slopes(np.array([0.5, 0.5])), loss.value(np.array([0.5, 0.5]))
    (array([-0.5,  1.5]), 1.25)
    """
    return ClippedLoss(labels, np.where(labels > 0, -np.inf, 0.0), np.where(labels > 0, 0.0, np.inf))


def squared(target: np.ndarray) -> ClippedLoss:
    """Return ``(f - t)² / 2``."""
    return ClippedLoss(target, np.full(target.shape, -np.inf), np.full(target.shape, np.inf))


def huber(target: np.ndarray, delta: float) -> ClippedLoss:
    """Return ``(f - t)² / 2`` up to a deviation of `delta`, and linear continuations beyond."""
    return ClippedLoss(target, np.full(target.shape, -delta), np.full(target.shape, delta))


def one_class(n_samples: int) -> ClippedLoss:
    """Return ``max(0, -f)² / 2``, where `f` is the score minus the threshold."""
    return ClippedLoss(np.zeros(n_samples), np.full(n_samples, -np.inf), np.zeros(n_samples))


def exact_step(
    loss: ClippedLoss, scores: np.ndarray, change: np.ndarray, linear: float, curvature: float
) -> float:
    r"""Minimize over a step :math:`s \ge 0` along which scores change linearly.

    .. math:: \phi(s) = \sum_i \ell_i(f_i + s\, h_i) + a s + \tfrac12 c s^2

    Parameters
    ----------
    loss : ClippedLoss
    scores, change : ndarray of shape (n_samples,)
        :math:`f` and :math:`h`.
    linear, curvature : float
        :math:`a` and :math:`c \ge 0` of the other terms.

    Returns
    -------
    float
        The smallest minimizer, 0 if :math:`\phi'(0) \ge 0`. :math:`\phi'` is piecewise linear and does not fall: its
        breakpoints are sorted and the root lies between two of them.
    """
    residual = scores - loss.target
    slope = float(change @ _clip(residual, loss.low, loss.high)) + linear
    if slope >= 0.0:
        return 0.0
    moving = change != 0.0
    residual, rate = residual[moving], change[moving]
    bounds = np.stack([loss.low[moving] - residual, loss.high[moving] - residual]) / rate
    enter, leave = bounds.min(axis=0), bounds.max(axis=0)  # where each sample has curvature
    bend = rate**2
    steps = np.concatenate([enter, leave])
    bends = np.concatenate([bend, -bend])
    ahead = (steps > 0.0) & np.isfinite(steps)
    order = np.argsort(steps[ahead], kind="stable")
    steps = np.concatenate([[0.0], steps[ahead][order]])
    slopes_of_slope = curvature + bend[(enter <= 0.0) & (leave > 0.0)].sum()
    slopes_of_slope = slopes_of_slope + np.concatenate([[0.0], np.cumsum(bends[ahead][order])])
    slopes_of_slope = np.maximum(slopes_of_slope, curvature)  # rounding of the sums
    slopes = slope + np.concatenate([[0.0], np.cumsum(slopes_of_slope[:-1] * np.diff(steps))])
    last = np.flatnonzero(slopes < 0.0)[-1]
    if slopes_of_slope[last] <= 0.0:
        return float(steps[last])  # no curvature left: a direction of rounding errors
    return float(steps[last] - slopes[last] / slopes_of_slope[last])


def intercept_shift(loss: ClippedLoss, scores: np.ndarray, total: float = 0.0) -> float:
    """Return the shift `s` of all scores that minimizes ``loss.value(scores + s) + total * s``.

    Of several, the nearest to zero. Newton's steps from one linear piece of the derivative to the next end after a
    few of them; where one leaves the interval that holds the root, or finds no curvature, all breakpoints are sorted.
    """
    residual = scores - loss.target
    shift, below, above = 0.0, -np.inf, np.inf
    last = None
    for _ in range(MOST_PIECES):
        shifted = residual + shift
        slopes = _clip(shifted, loss.low, loss.high)
        slope = float(np.add.reduce(slopes)) + total
        curved = (shifted > loss.low) & (shifted < loss.high)
        n_curved = np.count_nonzero(curved)
        if slope == 0.0 and (n_curved or shift == 0.0):
            return shift
        same_piece = last is not None and not np.count_nonzero(curved != last)
        if same_piece and abs(slope) <= ROUNDED * float(np.add.reduce(np.abs(slopes))):
            return shift  # the last step has ended on the piece that it was computed for
        below, above = (shift, above) if slope < 0.0 else (below, shift)
        goal = shift - slope / n_curved if n_curved else np.nan
        if not below < goal < above:
            break
        shift, last = goal, curved
    slope = float(np.add.reduce(loss.slopes(scores))) + total
    direction = -1.0 if slope > 0.0 else 1.0
    change = np.full(scores.shape, direction)
    return direction * exact_step(loss, scores, change, direction * total, 0.0)


def _clip(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Do what ``np.clip`` does, which takes several times as long for a few hundred values."""
    return np.minimum(np.maximum(values, low), high)
