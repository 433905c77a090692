r"""Cutting planes below :math:`J` on the simplex, where gradients cannot go on.

Every feasible dual gives :math:`J(d) \ge \ell - \tfrac12 d^\top S` for all :math:`d`, with :math:`\ell` its linear
part, and so the minimum over the simplex of the largest of some such planes, a linear program, bounds that of
:math:`J` (Kelley 1960). Where :math:`J` has a kink, that of one dual alone says little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linprog

from bayesmkl._numerics.simplex import project_simplex
from bayesmkl.discriminative.outer import WeightedFit, outer_gap
from bayesmkl.discriminative.svm.evaluator import Evaluator, Goal

NEARBY = 1e-2, 1e-4  # how far from a kink other duals are looked for, at most and at least
MOST_PLANES, LEAST_RISE = 20, 0.05  # of the bound, relative to what is missing
ROUNDING = 1e-10  # violations that the solver accepts, the least that it can be asked for


def goal_on_simplex(tol: float) -> Goal:
    """Return :math:`J` as the goal, with the gap of one dual, and the largest relative gap."""
    return Goal(lambda fit: fit.objective, lambda fit: outer_gap(fit, 1.0) - fit.inner_gap, tol)


def certify_by_planes(evaluate: Evaluator) -> Callable[[WeightedFit], bool]:
    """Return what `descend_spectrally` asks on the simplex, where the objective no longer falls."""

    def certify(fit: WeightedFit) -> bool:
        look_around(evaluate, fit)
        return evaluate.is_optimal(fit)

    return certify


def look_around(evaluate: Evaluator, at: WeightedFit) -> WeightedFit:
    r"""Raise the bound, and find a better point, where :math:`J` has a kink: there, one of many duals says little.

    The minimum over the simplex of the largest of their planes bounds that of :math:`J`. Planes are added
    on the way to this minimum, close to the best point, as long as that helps.
    """
    best, bound, reach = evaluate.refresh(at), -np.inf, NEARBY[0]
    planes = [best]
    for _ in range(MOST_PLANES):
        before, (bound, lowest) = bound, lowest_point(planes)
        evaluate.raise_bound(bound)
        missing = best.objective + best.inner_gap - bound
        if missing <= evaluate.goal.tol * abs(best.objective):
            break
        new = evaluate.refresh(evaluate((1.0 - reach) * best.kernel_weights + reach * lowest))
        planes.append(new)
        if new.objective < best.objective:
            best = new
        elif bound - before < LEAST_RISE * missing:
            reach *= 0.1
        if reach < NEARBY[1]:
            break
    return best


def lowest_point(planes: Sequence[WeightedFit]) -> tuple[float, np.ndarray]:
    """Minimize the largest of some planes over the simplex; return a lower bound of the minimum, and the weights.

    Parameters
    ----------
    planes : sequence of WeightedFit
        Inner solutions with the quadratics of all kernels up to date.

    Examples
    --------
    Two planes that are 1 at one kernel and 0 at the other meet halfway:

    >>> import numpy as np
    >>> weights = np.array([0.5, 0.5])
    >>> bound, lowest = lowest_point([WeightedFit(weights, 0.5, np.array(s), ()) for s in ([0.0, 2.0], [2.0, 0.0])])
    >>> round(bound, 6), lowest.round(6)
    (0.5, array([0.5, 0.5]))
    """
    slopes = -0.5 * np.stack([fit.quadratics for fit in planes])
    offsets = np.array([fit.objective + 0.5 * fit.kernel_weights @ fit.quadratics for fit in planes])
    unit = float(np.abs(offsets).max()) or 1.0  # the tolerances of the solver are absolute
    n_kernels = slopes.shape[1]
    found = linprog(
        np.r_[np.zeros(n_kernels), 1.0],  # the weights, and the height above which all planes lie
        A_ub=np.hstack([slopes / unit, -np.ones((len(planes), 1))]),
        b_ub=-offsets / unit,
        A_eq=np.r_[np.ones(n_kernels), 0.0][None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n_kernels + [(None, None)],
        options={"primal_feasibility_tolerance": ROUNDING, "dual_feasibility_tolerance": ROUNDING},
    )
    shares = np.maximum(-found.ineqlin.marginals, 0.0)
    shares /= shares.sum()  # any mean of the planes is a bound, also with the rounding of the solver
    return float(shares @ offsets + (shares @ slopes).min()), project_simplex(found.x[:-1])
