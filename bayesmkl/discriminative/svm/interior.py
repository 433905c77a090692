r"""Support vector machines by an interior point method, for problems on which LibSVM does not terminate.

Every sample has one dual (classification) or two (regression, one for either side of its tube), of known signs
:math:`s`. With :math:`v` their signed sum per sample,

.. math:: \min_x \; \tfrac12 v^\top K v - p^\top x \quad\text{with}\quad v = \sum s \circ x, \;
   \mathbf 1^\top v = 0, \; 0 \le x \le c .

Steps are those of Mehrotra (1992): one factorization of :math:`K + W^{-1}` serves a predictor and a corrector, `W`
being diagonal. Unlike decomposition methods it does not mind large bounds on kernels of low rank: some thirty steps
reach rounding errors whatever the kernel, at a cost of :math:`n^3 / 3` each.

Reference: Mehrotra, S. (1992), On the implementation of a primal-dual interior point method, SIAM Journal on
Optimization 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

MAX_STEPS = 100
PATIENCE = 8  # steps without progress, which rounding errors prevent, that end the search
RIDGE = 1e-15  # of the factorized matrix, relative to the mean of the kernel's diagonal
MOST_MOVED = 1e-7  # by which scores may change when duals are put on bounds, relative to the margins
TO_BOUNDARY = 0.99  # part of the way to the nearest bound that a step may go


class BoxProblem(NamedTuple):
    """Dual problem over a box: see the module's documentation."""

    kernel: np.ndarray  # K, (n_samples, n_samples)
    signs: np.ndarray  # s, (n_duals, n_samples) of -1.0 and +1.0, n_duals being 1 or 2
    linear: np.ndarray  # p, (n_duals, n_samples)
    bounds: np.ndarray  # c, (n_samples,), positive

    def signed(self, x: np.ndarray) -> np.ndarray:
        """Return v, one number per sample."""
        return (self.signs * x).sum(axis=0)


class _Point(NamedTuple):
    x: np.ndarray  # duals, (n_duals, n_samples)
    room: np.ndarray  # c - x
    low: np.ndarray  # multipliers of x >= 0
    high: np.ndarray  # and of x <= c
    intercept: float

    def complementarity(self) -> float:
        return float((self.x * self.low + self.room * self.high).sum()) / (2.0 * self.x.size)


def solve_box(problem: BoxProblem, tol: float = 1e-13) -> tuple[np.ndarray, float]:
    """Return the signed dual v and the intercept.

    Parameters
    ----------
    problem : BoxProblem
    tol : float, default=1e-13
        What the optimality conditions may lack, summed over all duals, relative to the objective.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[-1.0, 1.0, 1.0]])
    >>> kernel = np.outer([-2.0, 1.0, 3.0], [-2.0, 1.0, 3.0])
    >>> v, intercept = solve_box(BoxProblem(kernel, y, np.ones((1, 3)), np.full(3, 10.0)))
    >>> v.round(4) + 0.0, round(intercept, 4)
    (array([-0.2222,  0.2222,  0.    ]), 0.3333)
    """
    point = _start(problem)
    best, smallest, idle = point, np.inf, 0
    for _ in range(MAX_STEPS):
        stationarity, imbalance, scale = _residuals(problem, point)
        products = point.complementarity() * 2.0 * point.x.size
        error = products + float((np.abs(stationarity) * point.x).sum()) + abs(imbalance * point.intercept)
        if error < smallest:  # not relative to the objective, which may fall as fast from a start far away
            best, smallest, idle = point, error, 0
        else:
            idle += 1
        if error <= tol * scale or idle == PATIENCE:
            break
        moved = _step(problem, point, stationarity, imbalance)
        if moved is None:
            break
        point = moved
    return _balanced(problem, best), best.intercept


def _start(problem: BoxProblem) -> _Point:
    """Begin in the middle of the box, with multipliers as large as the slopes there."""
    x = 0.5 * problem.bounds * np.ones_like(problem.linear)
    slope = problem.signs * (problem.kernel @ problem.signed(x)) - problem.linear
    size = max(float(np.abs(slope).max()), float(np.abs(problem.linear).max()), 1e-300)
    return _Point(x, x.copy(), np.full_like(x, size), np.full_like(x, size), 0.0)


def _residuals(problem: BoxProblem, point: _Point) -> tuple[np.ndarray, float, float]:
    """Return the residuals of stationarity and balance, and the size of the objective's terms."""
    v = problem.signed(point.x)
    scores = problem.kernel @ v
    slope = problem.signs * (scores + point.intercept) - problem.linear
    scale = abs(float(v @ scores)) + float(np.abs(problem.linear * point.x).sum())
    return point.low - point.high - slope, -float(v.sum()), max(scale, 1e-300)


def _step(problem: BoxProblem, point: _Point, stationarity: np.ndarray, imbalance: float) -> _Point | None:
    """Take one predictor-corrector step, or return None where the system cannot be factorized."""
    x, room, low, high, intercept = point
    stiffness = low / x + high / room
    spread = (1.0 / stiffness).sum(axis=0)  # W
    diagonal = 1.0 / spread + RIDGE * float(np.trace(problem.kernel)) / len(spread)
    try:
        factor = scipy.linalg.cho_factor(problem.kernel + np.diag(diagonal), lower=True)
    except (np.linalg.LinAlgError, ValueError):
        return None
    ones = scipy.linalg.cho_solve(factor, np.ones_like(spread))
    softest, samples = stiffness.argmin(axis=0), np.arange(len(spread))

    def direction(to_low: np.ndarray, to_high: np.ndarray) -> tuple[np.ndarray, ...]:
        """Solve for products x * low and room * high that change by `to_low` and `to_high`."""
        right = stationarity + to_low / x - to_high / room
        pull = (problem.signs * right / stiffness).sum(axis=0) / spread
        change = scipy.linalg.cho_solve(factor, pull)
        shift = (float(change.sum()) - imbalance) / float(ones.sum())
        change = change - shift * ones
        by_x = (right - problem.signs * (pull - change / spread)) / stiffness
        lacking = change - problem.signed(by_x)  # of the dual that moves most easily, by cancellation
        by_x[softest, samples] += problem.signs[softest, samples] * lacking
        return by_x, (to_low - low * by_x) / x, (to_high + high * by_x) / room, np.array(shift)

    predictor = direction(-x * low, -room * high)
    length = _length(point, predictor)
    far = float(
        ((x + length * predictor[0]) * (low + length * predictor[1])).sum()
        + ((room - length * predictor[0]) * (high + length * predictor[2])).sum()
    ) / (2.0 * x.size)
    mean = point.complementarity()
    target = mean * min(1.0, max(far / mean, 0.0)) ** 3
    second = predictor[0] * predictor[1], predictor[0] * predictor[2]
    found = direction(target - x * low - second[0], target - room * high + second[1])
    length = TO_BOUNDARY * _length(point, found)
    by_x, by_low, by_high, shift = (length * part for part in found)
    return _Point(x + by_x, room - by_x, low + by_low, high + by_high, intercept + float(shift))


def _length(point: _Point, step: tuple[np.ndarray, ...]) -> float:
    """Return the largest step, up to one, that leaves nothing below zero."""
    by_x, by_low, by_high, _ = step
    pairs = ((point.x, by_x), (point.room, -by_x), (point.low, by_low), (point.high, by_high))
    ratios = [
        float((-value[change < 0.0] / change[change < 0.0]).min(initial=np.inf)) for value, change in pairs
    ]
    return min(1.0, *ratios)


def _balanced(problem: BoxProblem, point: _Point) -> np.ndarray:
    """Put duals that tend to a bound there, and spread what is then missing from the balance over the others.

    Where that changes scores, since many duals could as well be others, they stay as they are.
    """
    x, room, low, high, _ = point
    slope = max(float(multipliers.max()) for multipliers in (low, high, np.abs(problem.linear)))
    # near a bound it is the distance that goes to zero, elsewhere the multiplier
    at_low, at_high = x * slope < low * x.max(), room * slope < high * problem.bounds
    x = np.where(at_low, 0.0, np.where(at_high, problem.bounds, x))
    surplus = float(problem.signed(x).sum())
    falls = problem.signs * surplus > 0.0
    capacity = np.where(at_low | at_high, 0.0, np.where(falls, x, problem.bounds - x))
    if (total := float(capacity.sum())) > 0.0:
        x = x + np.where(falls, -1.0, 1.0) * capacity * min(1.0, abs(surplus) / total)
    before, after = problem.signed(point.x), problem.signed(x)
    moved = np.abs(problem.kernel @ (after - before)).max()
    return after if moved <= MOST_MOVED * np.abs(problem.linear).max() else before
