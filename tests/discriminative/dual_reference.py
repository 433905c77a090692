"""Multiple kernel learning as one smooth concave program in the dual, solved by SciPy: the oracle of the optimizers.

Nothing of the package is used here. N is small, since SLSQP works with dense matrices.
"""

from __future__ import annotations

import numpy as np
from helpers import random_kernels
from scipy.optimize import minimize


def problem(rng, n_samples=30, n_kernels=4):
    """Return kernels, kernels first, and labels that two of them explain up to some noise."""
    kernels = random_kernels(rng, n_samples, n_kernels)
    scores = (kernels[0] + 0.5 * kernels[1]) @ rng.normal(size=n_samples)
    y = np.where(scores + 0.3 * scores.std() * rng.normal(size=n_samples) > np.median(scores), 1.0, -1.0)
    return kernels, y


def quadratics(kernels, v):
    return np.einsum("i,mij,j->m", v, kernels, v)


def maximize(kernels, y, C, penalty, most=np.inf):
    """Maximize sum(alpha) - penalty(S) with S_m = v' K_m v <= `most`; return the value and v.

    `penalty` returns its value and its derivatives with respect to S.
    """
    n = len(y)

    def negative(alpha):
        v = alpha * y
        value, slope = penalty(quadratics(kernels, v))
        return value - alpha.sum(), 2.0 * y * (np.einsum("m,mij->ij", slope, kernels) @ v) - 1.0

    constraints = [{"type": "eq", "fun": lambda alpha: alpha @ y, "jac": lambda alpha: y}]
    if np.isfinite(most):
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda alpha: most - quadratics(kernels, alpha * y),
                "jac": lambda alpha: -2.0 * y * np.einsum("mij,j->mi", kernels, alpha * y),
            }
        )
    found = minimize(
        negative,
        np.zeros(n),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, C)] * n,
        constraints=constraints,
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    return -found.fun, found.x * y


def simplemkl(kernels, y, C):
    """Maximize sum(alpha) - t / 2 with S_m <= t for all kernels."""
    n = len(y)
    constraints = [
        {"type": "eq", "fun": lambda z: z[:n] @ y, "jac": lambda z: np.append(y, 0.0)},
        {
            "type": "ineq",
            "fun": lambda z: z[n] - quadratics(kernels, z[:n] * y),
            "jac": lambda z: np.column_stack(
                [-2.0 * y * np.einsum("mij,j->mi", kernels, z[:n] * y), np.ones(len(kernels))]
            ),
        },
    ]
    found = minimize(
        lambda z: (0.5 * z[n] - z[:n].sum(), np.append(-np.ones(n), 0.5)),
        np.zeros(n + 1),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, C)] * n + [(0.0, None)],
        constraints=constraints,
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    return -found.fun


def half_norm(order):
    """Half the norm of the given order, and its derivatives: the dual of a bound on the norm of the weights."""

    def penalty(S):
        norm = np.linalg.norm(S, order)
        return 0.5 * norm, 0.5 * (S / max(norm, 1e-300)) ** (order - 1.0)

    return penalty


def squared_norm(order, reg):
    """Norm squared over 8 reg: the dual of a squared norm as a penalty."""

    def penalty(S):
        norm = np.linalg.norm(S, order)
        return norm**2 / (8.0 * reg), norm / (4.0 * reg) * (S / max(norm, 1e-300)) ** (order - 1.0)

    return penalty


def primal(kernels, y, C, result, task=0):
    """Primal value: half the sum of ||w_m||^2 / d_m, with w_m = d_m sum_i v_i phi_m(x_i), plus the hinge loss."""
    v, d = result.signed_dual[task], result.kernel_weights
    scores = np.einsum("m,mij,j->i", d, kernels, v) + result.intercept[task]
    return 0.5 * d @ quadratics(kernels, v) + C * np.maximum(0.0, 1.0 - y * scores).sum()
