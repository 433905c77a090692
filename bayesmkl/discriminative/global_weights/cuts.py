r"""Cutting planes below :math:`J`: the lowest point of the largest of them over the simplex, a linear program.

Every feasible dual gives :math:`J(d) \ge \ell - \tfrac12 d^\top S` for all :math:`d`, with :math:`\ell` its linear
part, and so the minimum over the simplex of the largest of some such planes bounds that of :math:`J` (Kelley 1960).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from bayesmkl._numerics.simplex import project_simplex
from bayesmkl.discriminative.outer import WeightedFit

__all__ = ["lowest_point"]

ROUNDING = 1e-10  # violations that the solver accepts, the least that it can be asked for


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
