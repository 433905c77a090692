r"""Projections onto the simplex and onto the nonnegative part of an lp ball, and quadratic programs over weights.

The sets that kernel weights live in: :math:`\Delta = \{x \ge 0, \sum_m x_m = 1\}` and
:math:`\{x \ge 0, \|x\|_p \le 1\}`.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

# Newton's method on the multiplier and on each entry; both converge quadratically, bisection is the fallback.
MAX_NEWTON = 100
ROUNDING = 4 * np.finfo(np.float64).eps
# Ridge of the equality constrained systems, relative to the mean of the diagonal: duplicated kernels are singular.
RIDGE = 1e-12


def project_simplex(point: np.ndarray, total: float = 1.0) -> np.ndarray:
    r"""Return the point of a simplex that is nearest to `point`.

    .. math:: \arg\min_x \tfrac12 \|x - q\|^2 \quad\text{subject to}\quad x \ge 0,\ \sum_m x_m = s

    Parameters
    ----------
    point : array of shape (n,)
        The point :math:`q`.
    total : float, default=1.0
        The sum :math:`s > 0`.

    Returns
    -------
    array of shape (n,)
        ``max(point - threshold, 0)``.

    Notes
    -----
    The threshold comes from one sort (Duchi, Shalev-Shwartz, Singer and Chandra 2008, figure 1): with the entries
    in falling order, it is ``(u_1 + ... + u_k - total) / k`` for the largest `k` that leaves ``u_k`` positive.

    Examples
    --------
    >>> import numpy as np
    >>> project_simplex(np.array([0.5, 0.9, -1.0]))
    array([0.3, 0.7, 0. ])
    """
    point = point - point.max()  # changes nothing, and leaves digits for `total` where entries are huge
    falling = np.sort(point)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, point.size + 1)
    last = np.flatnonzero(falling > thresholds)[-1]
    return np.maximum(point - thresholds[last], 0.0)


def project_lp_ball(point: np.ndarray, p_norm: float, radius: float = 1.0) -> np.ndarray:
    r"""Return the nonnegative point of an lp ball that is nearest to `point`.

    .. math:: \arg\min_x \tfrac12 \|x - q\|^2 \quad\text{subject to}\quad x \ge 0,\ \|x\|_p \le r

    Parameters
    ----------
    point : array of shape (n,)
        The point :math:`q`.
    p_norm : float
        At least 1; ``inf`` gives a box.
    radius : float, default=1.0
        The radius :math:`r > 0`.

    Returns
    -------
    array of shape (n,)

    Notes
    -----
    Where the ball is active, :math:`x_m + t\,x_m^{p-1} = q_m` with one multiplier :math:`t`, which Newton's method
    finds between 0 and :math:`\|q\|_{p/(p-1)}`, with bisection where a step leaves the bracket.

    Examples
    --------
    >>> import numpy as np
    >>> project_lp_ball(np.array([3.0, 4.0, -1.0]), 2.0)
    array([0.6, 0.8, 0. ])
    >>> project_lp_ball(np.array([0.5, 0.9, -1.0]), 1.0)
    array([0.3, 0.7, 0. ])
    >>> (project_lp_ball(np.array([2.0, 1.0]), 4.0) ** 4).round(3)
    array([0.815, 0.185])
    """
    positive = np.maximum(point, 0.0) / radius
    if np.isinf(p_norm):
        return radius * np.minimum(positive, 1.0)
    if lp_norm(positive, p_norm) <= 1.0:
        return np.maximum(point, 0.0)
    if p_norm == 1.0:
        return radius * project_simplex(positive)
    if p_norm == 2.0:
        return radius * positive / lp_norm(positive, 2.0)
    projection = _project_unit_ball(positive, p_norm)
    return radius * projection / lp_norm(projection, p_norm)


def lp_norm(values: np.ndarray, p_norm: float) -> float:
    """Return the lp norm of `values`, shape (n,), without overflow for large `p_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> lp_norm(np.array([1e200, 1e200]), 1.0)
    2e+200
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or np.isinf(p_norm):
        return largest
    return largest * float(((np.abs(values) / largest) ** p_norm).sum()) ** (1.0 / p_norm)


def _project_unit_ball(point: np.ndarray, p_norm: float) -> np.ndarray:
    """Find the multiplier for a nonnegative `point` outside the unit ball, 1 < p_norm < inf."""
    low, high = 0.0, lp_norm(point, p_norm / (p_norm - 1.0))
    multiplier = high
    for _ in range(MAX_NEWTON):
        nearest = _shrink(point, multiplier, p_norm)
        powers = nearest ** (p_norm - 1.0)
        excess = float((powers * nearest).sum()) - 1.0
        low, high = (multiplier, high) if excess > 0 else (low, multiplier)
        # d x/d t = -x^(p-1) / (1 + t (p-1) x^(p-2)), multiplied by x above and below
        fall = nearest + multiplier * (p_norm - 1.0) * powers
        slope = (
            -p_norm * (np.divide(powers**2 * nearest, fall, out=np.zeros_like(fall), where=fall > 0)).sum()
        )
        step = multiplier - excess / slope if slope < 0 else np.inf
        proposal = step if low < step < high else 0.5 * (low + high)
        if abs(proposal - multiplier) <= ROUNDING * multiplier or abs(excess) <= ROUNDING:
            break
        multiplier = proposal
    return nearest


def _shrink(point: np.ndarray, multiplier: float, p_norm: float) -> np.ndarray:
    """Solve ``x + multiplier x^(p-1) = point`` for every entry of `point`.

    In `x` for p >= 2 and in ``x^(p-1)`` for p < 2 the left side is convex: from above, Newton's method descends.
    """
    power = p_norm - 1.0
    if power >= 1.0:
        weights, exponent = (1.0, multiplier), power
        start = np.minimum(point, (point / multiplier) ** (1.0 / power))
    else:
        weights, exponent = (multiplier, 1.0), 1.0 / power
        start = np.minimum(point / multiplier, point**power)
    root = start
    for _ in range(MAX_NEWTON):
        value = weights[0] * root + weights[1] * root**exponent - point
        slope = weights[0] + weights[1] * exponent * root ** (exponent - 1.0)
        new = np.maximum(root - value / slope, 0.0)
        done = np.all(np.abs(new - root) <= ROUNDING * root)
        root = new
        if done:
            break
    return root if power >= 1.0 else root**exponent


def solve_simplex_qp(matrix: np.ndarray, linear: np.ndarray, tol: float = 1e-10) -> tuple[np.ndarray, float]:
    r"""Minimize a convex quadratic function on the simplex.

    .. math:: \min_{x \in \Delta}\; x^\top M x - 2 a^\top x

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric positive semidefinite :math:`M`; it may be singular.
    linear : array of shape (n,)
        The vector :math:`a`.
    tol : float, default=1e-10
        Residual, see Returns, at which the search stops.

    Returns
    -------
    weights : array of shape (n,)
        A minimizer; entries off its support are exactly zero.
    kkt_residual : float
        Largest violation of the optimality conditions, relative to the largest :math:`|a_m|` (to the largest entry of
        `matrix` if that is zero): with the gradient :math:`g = 2(Mx - a)`, the larger of :math:`g^\top x - \min_m
        g_m`, which bounds the distance from the minimum, and of :math:`|g_m - g^\top x|` on the support.

    Notes
    -----
    Primal active set. From the best vertex on, the minimum over the affine hull of the support is approached until
    an entry becomes zero and leaves; once the gradient is constant on the support, the entry with the smallest
    gradient enters (several at once, as long as that leaves room to move). Steps solve for the change, so that the
    ridge of the system does not move the solution.

    Examples
    --------
    >>> import numpy as np
    >>> weights, kkt_residual = solve_simplex_qp(np.eye(3), np.array([0.5, 0.9, -1.0]))
    >>> weights, kkt_residual < 1e-10
    (array([0.3, 0.7, 0. ]), True)
    """
    start = np.zeros(linear.size)
    start[np.argmin(matrix.diagonal() - 2.0 * linear)] = 1.0
    return _active_set(matrix, linear, start, tol, on_simplex=True)


def solve_nonnegative_qp(
    matrix: np.ndarray, linear: np.ndarray, tol: float = 1e-10
) -> tuple[np.ndarray, float]:
    r"""Minimize a convex quadratic function over nonnegative numbers.

    .. math:: \min_{x \ge 0}\; x^\top M x - 2 a^\top x

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric positive semidefinite :math:`M`; it may be singular, with `linear` in its range.
    linear : array of shape (n,)
        The vector :math:`a`.
    tol : float, default=1e-10
        Residual, see Returns, at which the search stops.

    Returns
    -------
    weights : array of shape (n,)
        A minimizer; entries off its support are exactly zero.
    kkt_residual : float
        Largest of :math:`-g_m`, and of :math:`|g_m|` on the support, relative to the largest :math:`|a_m|`.

    Notes
    -----
    The active set of `solve_simplex_qp`, from zero on.

    Examples
    --------
    >>> import numpy as np
    >>> solve_nonnegative_qp(np.eye(3), np.array([0.5, 0.9, -1.0]))[0]
    array([0.5, 0.9, 0. ])
    """
    return _active_set(matrix, linear, np.zeros(linear.size), tol, on_simplex=False)


def _active_set(
    matrix: np.ndarray, linear: np.ndarray, start: np.ndarray, tol: float, on_simplex: bool
) -> tuple[np.ndarray, float]:
    scale = float(np.abs(linear).max()) or float(np.abs(matrix).max()) or 1.0
    ridge = RIDGE * (float(np.trace(matrix)) / linear.size or scale)
    weights, cautious = start, False
    best, best_residual = start, np.inf
    for _ in range(20 * linear.size + 20):
        gradient = 2.0 * (matrix @ weights - linear)
        level = float(gradient @ weights) if on_simplex else 0.0
        support = weights > 0.0
        unequal = float(np.abs(gradient[support] - level).max(initial=0.0)) / scale
        residual = max(unequal, (level - float(gradient.min())) / scale)
        if residual < best_residual:
            best, best_residual = weights, residual
        if residual <= tol:
            break
        if cautious or unequal <= 0.1 * tol:  # as equal as it gets
            entering = 1 if cautious else 1 + np.count_nonzero(support) // 2
            lowest = np.argsort(gradient, kind="stable")[:entering]
            support[lowest[gradient[lowest] < level]] = True
        moved = _step_on_support(matrix, gradient, weights, np.flatnonzero(support), (ridge, on_simplex))
        stuck = bool(np.abs(moved - weights).max() <= ROUNDING * np.abs(weights).max())
        if stuck and cautious:
            break
        weights, cautious = moved, stuck
    return best, best_residual


def _step_on_support(
    matrix: np.ndarray,
    gradient: np.ndarray,
    weights: np.ndarray,
    support: np.ndarray,
    how: tuple[float, bool],
) -> np.ndarray:
    """Move to the minimum over the hull of `support`, or to the first entry that becomes zero."""
    ridge, on_simplex = how
    size = support.size
    hessian = 2.0 * matrix[np.ix_(support, support)] + ridge * np.eye(size)
    try:
        factor = scipy.linalg.cho_factor(hessian)
    except np.linalg.LinAlgError:  # rounding errors in `matrix` above the ridge
        return _step_on_support(matrix, gradient, weights, support, (100.0 * ridge, on_simplex))
    right = np.stack([-gradient[support], np.ones(size)], axis=1)
    change, toward_ones = scipy.linalg.cho_solve(factor, right).T
    if on_simplex:
        change = change - toward_ones * (change.sum() / toward_ones.sum())
    ratios = np.full(size, np.inf)
    falling = change < 0.0
    with np.errstate(over="ignore"):  # a change of almost nothing
        ratios[falling] = -weights[support][falling] / change[falling]
    first = float(ratios.min())
    moved = weights.copy()
    moved[support] += min(1.0, first) * change
    if first <= 1.0:
        moved[support[np.argmin(ratios)]] = 0.0
    moved = np.maximum(moved, 0.0)
    return moved / moved.sum() if on_simplex else moved
