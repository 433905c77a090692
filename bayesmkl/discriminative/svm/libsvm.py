r"""Support vector machines on one combined kernel, solved by LibSVM.

The general problem has a linear term :math:`p` and a bound :math:`c_i` of its own for every sample:

.. math:: \max_\alpha \; p^\top\alpha - \tfrac12 v^\top K v \quad \text{with } v = \alpha \circ y, \;
   y^\top\alpha = 0, \; 0 \le \alpha_i \le c_i .

LibSVM's classifier knows :math:`p = 1` only. Any other :math:`p` goes through its regression: with a wide tube
:math:`E` and targets :math:`z_i = y_i (p_i + E)`, the linear coefficients of the two duals of sample `i`,
:math:`(E - z_i, E + z_i)`, are :math:`-p_i` and :math:`2E + p_i`, the first of them on the side of :math:`y_i`. The
other one is zero as long as :math:`y_i f_i < p_i + 2E`, and then the two problems are the same.

LibSVM keeps the kernel in single precision, so it is given one whose largest entry is of the order of one. Where it
does not terminate, an interior point method takes over.

Interior points: every sample has one dual (classification) or two (regression, one for either side of its tube), of
known signs :math:`s`. With :math:`v` their signed sum per sample,

.. math:: \min_x \; \tfrac12 v^\top K v - p^\top x \quad\text{with}\quad v = \sum s \circ x, \;
   \mathbf 1^\top v = 0, \; 0 \le x \le c .

Steps are those of Mehrotra (1992): one factorization of :math:`K + W^{-1}` serves a predictor and a corrector, `W`
being diagonal. Unlike decomposition methods it does not mind large bounds on kernels of low rank: some thirty steps
reach rounding errors whatever the kernel, at a cost of :math:`n^3 / 3` each.

Reference: Mehrotra, S. (1992), On the implementation of a primal-dual interior point method, SIAM Journal on
Optimization 2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from sklearn import config_context
from sklearn.svm import SVC, SVR

from bayesmkl._utils.units import unit_of
from bayesmkl.discriminative.problems import InnerSolution

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


CACHE_MB = 1000
# LibSVM has no limit of its own, and on kernels of low rank its steps can shrink without end. An SVM of many
# samples that was cut short says so by its duality gap.
MOST_STEPS, MOST_STEPS_PER_SAMPLE = 10**6, 200
MOST_INTERIOR = 2000  # samples of problems that are then solved otherwise,
MOST_STEPS_OF_FEW = 10**5  # and their limit
POLISHED_BELOW = 1e-5  # tolerance from which on LibSVM's single precision matters
MOST_POLISHED = 1000  # duals in the system that is solved again
POLISH_ROUNDS = 10
FREE = 1e-8  # of the largest dual above zero, and of its own bound below that: a dual in between is free
TUBE_OF_SPREAD = 0.1  # epsilon, where none is given
CONSTANT = 1e-14  # of the largest magnitude: what rounding leaves of a deviation
TUBE = 10.0  # E in units of the largest |p_i|
WIDEST_TUBE = 1e9
# LibSVM draws nothing, but scikit-learn takes a seed for it: of np.random, or of a generator that is made anew for an
# integer, in a tenth of the time of a small problem.
UNUSED = np.random.RandomState(0)


class Hinge(NamedTuple):
    r"""Support vector classifier: :math:`\ell_i(f) = C w_i \max(0, 1 - y_i f)`, with weights :math:`w_i \ge 0`.

    None is for weights of one.
    """

    C: float
    weights: np.ndarray | None = None

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve for labels -1 and +1."""
        return solve_svm(kernel, target, self.C if self.weights is None else self.C * self.weights, tol)


class EpsilonInsensitive(NamedTuple):
    r"""Support vector regression: :math:`\ell_i(f) = C w_i \max(0, |t_i - f| - \epsilon)`, with :math:`w_i \ge 0`.

    None is for the standard deviation of the target and for a tenth of it, so that its unit and origin do not matter,
    and for weights of one.
    """

    C: float | None
    epsilon: float | None
    weights: np.ndarray | None = None

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve for a real target."""
        spread = spread_of(target, self.weights)
        C = spread if self.C is None else self.C
        epsilon = TUBE_OF_SPREAD * spread if self.epsilon is None else self.epsilon
        return solve_svr(kernel, target, C if self.weights is None else C * self.weights, epsilon, tol)


def spread_of(target: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the standard deviation of a target, the size of one that is constant, and one for zeros.

    `weights` of the samples, (n_samples,), count them; None counts each once.

    Examples
    --------
    >>> import numpy as np
    >>> spread_of(np.array([4.0, 6.0])), spread_of(np.full(3, 0.1)), spread_of(np.zeros(2))
    (1.0, 0.1, 1.0)
    """
    if weights is not None:
        target, weights = target[weights > 0.0], weights[weights > 0.0]
        variance = np.average((target - np.average(target, weights=weights)) ** 2, weights=weights)
    else:
        variance = target.var()
    spread, size = float(np.sqrt(variance)), float(np.abs(target).max())
    return spread if spread > CONSTANT * size else size or 1.0


def solve_svm(
    kernel: np.ndarray,
    target: np.ndarray,
    C: float | np.ndarray,
    tol: float = 1e-3,
    linear: np.ndarray | None = None,
) -> InnerSolution:
    r"""Solve an SVM with any linear term and any bounds.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
    target : ndarray of shape (n_samples,)
        Labels -1 and +1.
    C : float or ndarray of shape (n_samples,)
        Upper bounds :math:`c_i \ge 0` of the duals; samples whose bound is zero are left out.
    tol : float
        LibSVM's tolerance, the largest violation of the optimality conditions.
    linear : ndarray of shape (n_samples,), optional
        Margins :math:`p_i` that are asked for, of any sign; 1 by default.

    Returns
    -------
    InnerSolution
        Of :math:`\tfrac12 \|w\|^2 + \sum_i c_i \max(0, p_i - y_i f_i)`.

    Examples
    --------
    >>> import numpy as np
    >>> solution = solve_svm(np.outer([-2.0, 1.0, 3.0], [-2.0, 1.0, 3.0]), np.array([-1.0, 1.0, 1.0]), C=10.0)
    >>> solution.signed_dual.round(4), round(solution.intercept, 4)
    (array([-0.2222,  0.2222,  0.    ]), 0.3333)
    """
    bounds = _bounds(C, target)
    if not bounds.all():
        return _among(
            np.flatnonzero(bounds),
            len(target),
            lambda kept: solve_svm(
                kernel[np.ix_(kept, kept)],
                target[kept],
                bounds[kept],
                tol,
                None if linear is None else linear[kept],
            ),
        )
    if (unit := unit_of(float(kernel.diagonal().max()))) != 1.0:
        return in_units(unit, solve_svm(kernel / unit, target, bounds * unit, tol, linear))
    if linear is None:
        largest, shares = _shares(bounds)
        svm = SVC(kernel="precomputed", C=largest, **libsvm_limits(len(target), tol))
        box = lambda: classification_box(kernel, target, bounds)
        signed_dual, intercept = train(svm, kernel, target, box, shares)
        linear = np.ones_like(target)
    else:
        signed_dual, intercept = _through_regression(kernel, target, bounds, linear, tol)
    limits = lambda v: classification_limits(kernel @ v, target, v, linear)
    signed_dual, intercept = settled(signed_dual, intercept, bounds, limits)
    found = _certified(kernel, target, bounds, linear, signed_dual, intercept)
    if tol > POLISHED_BELOW:
        return found
    polished = _polish(kernel, target, bounds, linear, found.signed_dual)
    if polished is None:
        return found
    return min(
        found, _certified(kernel, target, bounds, linear, *polished), key=lambda solution: solution.gap
    )


def solve_svr(
    kernel: np.ndarray, target: np.ndarray, C: float | np.ndarray, epsilon: float, tol: float = 1e-3
) -> InnerSolution:
    r"""Solve support vector regression with the epsilon-insensitive loss.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
    target : ndarray of shape (n_samples,)
    C : float or ndarray of shape (n_samples,)
        Upper bounds :math:`c_i \ge 0` of the duals; samples whose bound is zero are left out.
    epsilon : float
        Deviations up to this cost nothing, in units of the target.
    tol : float
        LibSVM's tolerance.

    Returns
    -------
    InnerSolution
        Of :math:`\tfrac12 \|w\|^2 + \sum_i c_i \max(0, |t_i - f_i| - \epsilon)`.
    """
    bounds = _bounds(C, target)
    if not bounds.all():
        return _among(
            np.flatnonzero(bounds),
            len(target),
            lambda kept: solve_svr(kernel[np.ix_(kept, kept)], target[kept], bounds[kept], epsilon, tol),
        )
    if (unit := unit_of(float(np.abs(target).max()))) != 1.0:  # which LibSVM's tolerance is compared with
        signed_dual, intercept, *values = solve_svr(
            kernel, target / unit, bounds / unit, epsilon / unit, tol / unit
        )
        return InnerSolution(signed_dual * unit, intercept * unit, *(value * unit**2 for value in values))
    if (unit := unit_of(float(kernel.diagonal().max()))) != 1.0:
        return in_units(unit, solve_svr(kernel / unit, target, bounds * unit, epsilon, tol))
    largest, shares = _shares(bounds)
    svm = SVR(kernel="precomputed", C=largest, epsilon=epsilon, **libsvm_limits(len(target), tol))
    box = lambda: regression_box(kernel, target, bounds, epsilon)
    signed_dual, intercept = train(svm, kernel, target, box, shares)
    limits = lambda v: regression_limits(kernel @ v, target, v, epsilon)
    signed_dual, intercept = settled(signed_dual, intercept, bounds, limits)
    found = _certified_regression(kernel, target, bounds, epsilon, signed_dual, intercept)
    if tol > POLISHED_BELOW:
        return found
    side = np.where(signed_dual < 0.0, -1.0, 1.0)  # samples with a dual, each on its side of the tube
    polished = _polish(kernel, side, bounds, side * target - epsilon, signed_dual)
    if polished is None:
        return found
    again = _certified_regression(kernel, target, bounds, epsilon, *polished)
    return min(found, again, key=lambda solution: solution.gap)


def _bounds(C: float | np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(C, dtype=np.float64), target.shape))


def _shares(bounds: np.ndarray) -> tuple[float, np.ndarray | None]:
    """Return the largest bound, and each as a share of it; None if all are equal."""
    largest = float(bounds.max())
    return largest, None if np.all(bounds == largest) else bounds / largest


def _among(kept: np.ndarray, n_samples: int, solve: Callable[[np.ndarray], InnerSolution]) -> InnerSolution:
    """Solve for the samples at the positions `kept`; the dual of all others is zero.

    LibSVM leaves samples without weight out itself, but then counts support vectors among the others.
    """
    found = solve(kept)
    signed_dual = np.zeros(n_samples)
    signed_dual[kept] = found.signed_dual
    return found._replace(signed_dual=signed_dual)


def _certified_regression(
    kernel: np.ndarray,
    target: np.ndarray,
    bounds: np.ndarray,
    epsilon: float,
    signed_dual: np.ndarray,
    intercept: float,
) -> InnerSolution:
    """Add dual value and gap to a regression."""
    scores = kernel @ signed_dual
    norm = float(signed_dual @ scores)
    loss = bounds @ np.maximum(0.0, np.abs(target - scores - intercept) - epsilon)
    objective = float(target @ signed_dual - epsilon * np.abs(signed_dual).sum()) - 0.5 * norm
    return InnerSolution(signed_dual, intercept, objective, 0.5 * norm + float(loss) - objective)


def _certified(
    kernel: np.ndarray,
    target: np.ndarray,
    bounds: np.ndarray,
    linear: np.ndarray,
    signed_dual: np.ndarray,
    intercept: float,
) -> InnerSolution:
    """Add dual value and gap to a classifier."""
    scores = kernel @ signed_dual
    norm = float(signed_dual @ scores)  # ||w||^2
    slack = np.maximum(0.0, linear - target * (scores + intercept))
    objective = float(linear @ (signed_dual * target)) - 0.5 * norm
    return InnerSolution(signed_dual, intercept, objective, 0.5 * norm + float(bounds @ slack) - objective)


def _polish(
    kernel: np.ndarray, target: np.ndarray, bounds: np.ndarray, linear: np.ndarray, signed_dual: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Solve again for the duals that are not at a bound, whose samples lie on the margin, in double precision.

    LibSVM keeps the kernel in single precision, which shows in the gap where the scores are large. Duals that leave
    their bounds are put there, and the others are solved for once more. None where that does not end.
    """
    dual = signed_dual * target
    for _ in range(POLISH_ROUNDS):
        free = np.flatnonzero((dual > 0.0) & (dual < bounds))
        if not 0 < len(free) <= MOST_POLISHED:
            return None
        fixed = target * np.where(dual >= bounds, bounds, 0.0)
        system = np.ones((len(free) + 1, len(free) + 1))
        system[:-1, :-1], system[-1, -1] = kernel[np.ix_(free, free)], 0.0
        known = np.append((target * linear)[free] - kernel[free] @ fixed, -fixed.sum())
        try:
            solved = np.linalg.solve(system, known)
        except np.linalg.LinAlgError:
            return None
        dual = target * fixed
        dual[free] = target[free] * solved[:-1]
        inside = (dual >= 0.0) & (dual <= bounds)
        if inside.all():
            return target * dual, float(solved[-1])
        dual = np.clip(dual, 0.0, bounds)
    return None


def _through_regression(
    kernel: np.ndarray, target: np.ndarray, bounds: np.ndarray, linear: np.ndarray, tol: float
) -> Any:
    """Train LibSVM's regression with a tube so wide that only one side of it matters."""
    tube = TUBE * max(1.0, float(np.abs(linear).max()))
    exactly = partial(classification_box, kernel, target, bounds, linear)
    while True:
        svm = SVR(kernel="precomputed", C=1.0, epsilon=tube, **libsvm_limits(len(target), tol))
        fitted = train(svm, kernel, target * (linear + tube), exactly, bounds)
        if np.all(fitted[0] * target >= 0.0) or tube > WIDEST_TUBE:
            return fitted
        tube *= 10.0  # a score left the tube on the far side


def settled(
    signed_dual: np.ndarray,
    intercept: float,
    bounds: float | np.ndarray,
    limits: Callable[[np.ndarray], list[np.ndarray]],
) -> tuple[np.ndarray, float]:
    """Put duals to their bounds that only rounding keeps off them, where no other one is free.

    LibSVM takes its intercept from such a dual. Which one it is, if any, depends on the order of the samples, and any
    intercept of an interval may be found. Here the middle of the interval is.

    Parameters
    ----------
    signed_dual : ndarray of shape (n_samples,)
    intercept : float
    bounds : float or ndarray of shape (n_samples,)
        Upper bounds of the duals.
    limits : callable
        Takes signed duals and returns what the intercept must not be below, and what not above.
    """
    size, share = np.abs(signed_dual), np.abs(signed_dual) / bounds
    off = (size > 0.0) & (share < 1.0)
    if not off.any() or np.any((size > FREE * size.max()) & (share < 1.0 - FREE)):  # bounds may be far away
        return signed_dual, intercept
    signed_dual = np.sign(signed_dual) * bounds * np.round(share)
    below, above = limits(signed_dual)
    ends = [below.max(initial=-np.inf), above.min(initial=np.inf)]
    return signed_dual, float(np.mean([end for end in ends if np.isfinite(end)]))


def classification_limits(
    scores: np.ndarray, target: np.ndarray, signed_dual: np.ndarray, linear: float | np.ndarray = 1.0
) -> list[np.ndarray]:
    """Return the least and the largest intercepts that a classifier's duals at bounds allow, sample by sample.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> [ends.round(1) for ends in classification_limits(np.array([-0.4, -0.2, 0.3, 0.5]), target, 0.1 * target)]
    [array([-0.6, -0.8]), array([0.7, 0.5])]
    """
    exact = target * linear - scores  # at which each sample has its margin
    least = (target > 0.0) == (signed_dual == 0.0)
    return [exact[least], exact[~least]]


def regression_limits(
    scores: np.ndarray, target: np.ndarray, signed_dual: np.ndarray, epsilon: float
) -> list[np.ndarray]:
    """Return the least and the largest intercepts that a regression's duals at bounds allow, sample by sample.

    Examples
    --------
    >>> import numpy as np
    >>> regression_limits(np.zeros(3), np.array([0.0, 1.0, -1.0]), np.array([0.0, 2.0, -2.0]), 0.25)
    [array([-0.25, -0.75]), array([0.25, 0.75])]
    """
    exact, inside = target - scores, signed_dual == 0.0
    below = [exact[inside] - epsilon, exact[signed_dual < 0.0] + epsilon]
    above = [exact[inside] + epsilon, exact[signed_dual > 0.0] - epsilon]
    return [np.concatenate(below), np.concatenate(above)]


def classification_box(
    kernel: np.ndarray, target: np.ndarray, bounds: float | np.ndarray, linear: np.ndarray | None = None
) -> BoxProblem:
    """Return the dual of a classifier."""
    margins = np.ones_like(target) if linear is None else linear
    return BoxProblem(kernel, target[None], margins[None], np.broadcast_to(bounds, target.shape))


def regression_box(
    kernel: np.ndarray, target: np.ndarray, bounds: float | np.ndarray, epsilon: float
) -> BoxProblem:
    """Return the dual of support vector regression."""
    signs = np.stack([np.ones_like(target), -np.ones_like(target)])
    return BoxProblem(kernel, signs, signs * target - epsilon, np.broadcast_to(bounds, target.shape))


def libsvm_limits(n_samples: int, tol: float) -> dict[str, Any]:
    """Return when LibSVM stops, and what memory it takes."""
    few = n_samples <= MOST_INTERIOR
    most = MOST_STEPS_OF_FEW if few else max(MOST_STEPS, MOST_STEPS_PER_SAMPLE * n_samples)
    return {"tol": tol, "max_iter": most, "cache_size": CACHE_MB}


def train(
    svm: SVC | SVR,
    rows: np.ndarray,
    target: np.ndarray,
    box: Callable[[], BoxProblem] | None = None,
    weights: float | np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Fit an SVM with LibSVM; return signed dual and intercept, or those of `box` where it does not end.

    Parameters
    ----------
    svm : SVC or SVR
        With `libsvm_limits`.
    rows : ndarray
        Kernels or features of the samples.
    target : ndarray of shape (n_samples,)
    box : callable, optional
        Returns the same problem as a BoxProblem, which is solved where LibSVM does not end with few samples. By
        default what LibSVM has is returned, with its warning.
    weights : ndarray of shape (n_samples,), optional
        Factors of the bounds.
    """
    few = box is not None and len(target) <= MOST_INTERIOR
    if few:
        svm._warn_from_fit_status = _nothing
    svm.random_state = UNUSED
    with config_context(skip_parameter_validation=True):  # a fifth of the time of a small problem
        svm.fit(rows, target, sample_weight=weights)
    if box is not None and few and svm.fit_status_ != 0:
        return solve_box(box())
    signed_dual = np.zeros(len(target))
    signed_dual[svm.support_] = svm.dual_coef_[0]
    return signed_dual, float(svm.intercept_[0])


def _nothing() -> None:
    pass


def in_units(unit: float, solution: InnerSolution) -> InnerSolution:
    """Return the solution for a kernel from that for the kernel over `unit` and bounds times it."""
    signed_dual, intercept, objective, gap = solution
    return InnerSolution(signed_dual / unit, intercept, objective / unit, gap / unit)


FINEST = 1e-5  # tolerance beyond which LibSVM's single precision decides
STEPS_PER_SAMPLE = 100  # about one is enough for most problems


def solve_squared_hinge(kernel: np.ndarray, target: np.ndarray, reg: float, tol: float = 1e-3) -> np.ndarray:
    r"""Solve an SVM with squared slacks, whose dual has no upper bounds and the kernel :math:`K + \lambda I`.

    Its objective, :math:`\tfrac12 \|w\|^2 + \tfrac1{2\lambda} \sum_i \xi_i^2`, is at most :math:`n / 2 \lambda`, so
    that no slack is above :math:`\sqrt n`, and no dual above :math:`\sqrt n / \lambda`; LibSVM's bound is twice
    that. Where it does not end, its last duals are returned.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
    target : ndarray of shape (n_samples,)
        Labels -1 and +1, both of them.
    reg : float
        :math:`\lambda > 0`.
    tol : float
        LibSVM's tolerance.

    Returns
    -------
    ndarray of shape (n_samples,)
        Signed duals, up to the accuracy of LibSVM.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-2.0, 1.0, 3.0])
    >>> solve_squared_hinge(np.outer(x, x), np.array([-1.0, 1.0, 1.0]), reg=0.1, tol=1e-5).round(3)
    array([-0.217,  0.217,  0.   ])
    """
    shifted = kernel.copy()
    np.einsum("ii->i", shifted)[:] += reg
    unit = unit_of(float(shifted.diagonal().max()))
    if unit != 1.0:
        shifted /= unit
    svm = SVC(
        kernel="precomputed",
        C=2.0 * np.sqrt(len(target)) * unit / reg,
        tol=max(tol, FINEST),
        max_iter=round(STEPS_PER_SAMPLE * len(target)),
        cache_size=CACHE_MB,
    )
    svm._warn_from_fit_status = _nothing
    return train(svm, shifted, target)[0] / unit
