"""BEMKL's updates and bound written out element by element, with explicit inverses, for comparison only.

Transcribed from the model of Gönen (2012), §§3-4, with its notation and its SCALE parameters of the Gamma
distributions (reciprocals of the package's rates), and with the intermediate standard deviation σ_g kept.
Nothing here imports the package.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import inv
from scipy import stats


class Old(NamedTuple):
    """Expectations of the sweep before."""

    a_squared: Any
    G: Any
    be: Any
    be_cov: Any
    f: Any = None
    upsilon: float = 1.0
    epsilon: float = 1.0


def gamma_update(alpha, beta, squares, counts):
    """Return shape and scale parameters, §4.1, of precisions of `counts` variables each."""
    shape = np.array([alpha + count / 2 for count in counts])
    scale = np.array([1 / (1 / beta + square / 2) for square in squares])
    return shape, scale


def a_update(K, G, lam, upsilon):
    """Equation (3)."""
    P, N, n_train = K.shape
    precision = np.diag(np.array(lam, dtype=float))
    right = np.zeros(n_train)
    for m in range(P):
        for i in range(N):
            k = K[m, i]  # kernels of sample i against the training samples
            precision = precision + upsilon * np.outer(k, k)
            right = right + upsilon * k * G[m, i]
    cov = inv(precision)
    return cov @ right, cov


def g_update(K, a, f, be, be_cov, upsilon, epsilon):
    """The product of normals after equation (3)."""
    P, N, _ = K.shape
    b, e = be[0], be[1:]
    ee = np.empty((P, P))
    b_e = np.empty(P)
    for m in range(P):
        b_e[m] = b * e[m] + be_cov[0, 1 + m]
        for h in range(P):
            ee[m, h] = e[m] * e[h] + be_cov[1 + m, 1 + h]
    cov = inv(upsilon * np.eye(P) + epsilon * ee)
    G = np.empty((P, N))
    for i in range(N):
        ka = np.array([K[m, i] @ a for m in range(P)])
        G[:, i] = cov @ (upsilon * ka + epsilon * (f[i] * e - b_e))
    return G, cov


def be_update(G, G_cov, f, gamma, omega, epsilon):
    """Equation (4), with the expectation of G G^T."""
    P, N = G.shape
    precision = np.diag(np.concatenate([[gamma], omega]))
    right = np.zeros(1 + P)
    for i in range(N):
        one_g = np.concatenate([[1.0], G[:, i]])
        outer = np.outer(one_g, one_g)
        outer[1:, 1:] += G_cov
        precision = precision + epsilon * outer
        right = right + epsilon * one_g * f[i]
    cov = inv(precision)
    return cov @ right, cov


def f_update(G, be, y, nu):
    """Mean and variance of the truncated normals."""
    mean, variance = np.empty(len(y)), np.empty(len(y))
    for i in range(len(y)):
        mu = be[1:] @ G[:, i] + be[0]
        low, high = (nu - mu, 60.0) if y[i] > 0 else (-60.0, -nu - mu)
        law = stats.truncnorm(low, high, loc=mu, scale=1.0)
        mean[i], variance[i] = law.mean(), law.var()
    return mean, variance


def diagonal_square(mean, cov):
    return np.array([mean[i] ** 2 + cov[i, i] for i in range(len(mean))])


def binary_sweep(K, y, nu, sigma_g, shapes_scales, old):
    """One iteration in the paper's order; `shapes_scales` is ((α, β) of λ, of γ, of ω)."""
    lambda_prior, gamma_prior, omega_prior = shapes_scales
    upsilon = 1 / sigma_g**2
    lam = gamma_update(*lambda_prior, old.a_squared, [1] * K.shape[2])
    a, a_cov = a_update(K, old.G, lam[0] * lam[1], upsilon)
    G, G_cov = g_update(K, a, old.f, old.be, old.be_cov, upsilon, 1.0)
    squares = diagonal_square(old.be, old.be_cov)
    gam = gamma_update(*gamma_prior, squares[:1], [1])
    om = gamma_update(*omega_prior, squares[1:], [1] * len(K))
    be, be_cov = be_update(G, G_cov, old.f, (gam[0] * gam[1])[0], om[0] * om[1], 1.0)
    f, f_var = f_update(G, be, y, nu)
    found = {
        "λ": lam, "a": (a, a_cov), "G": (G, G_cov), "γ": gam, "ω": om, "be": (be, be_cov), "f": (f, f_var),
    }  # fmt: skip
    return found, Old(diagonal_square(a, a_cov), G, be, be_cov, f)


def g_error(K, a, a_cov, G, G_cov):
    """E of the squared distance between intermediate outputs and their means."""
    total = 0.0
    for m in range(K.shape[0]):
        for i in range(K.shape[1]):
            k = K[m, i]
            total += (G[m, i] - k @ a) ** 2 + G_cov[m, m] + k @ a_cov @ k
    return total


def y_error(y, G, G_cov, be, be_cov):
    """E of the squared distance between targets and their means."""
    total = 0.0
    for i in range(len(y)):
        one_g = np.concatenate([[1.0], G[:, i]])
        moment = np.outer(one_g, one_g)
        moment[1:, 1:] += G_cov
        total += y[i] ** 2 - 2 * y[i] * (be @ one_g) + np.sum((np.outer(be, be) + be_cov) * moment)
    return total


def regression_sweep(K, y, shapes_scales, old):
    """One iteration of the same derivation with υ ~ Gamma, ε ~ Gamma; noise precisions last."""
    lambda_prior, gamma_prior, omega_prior, upsilon_prior, epsilon_prior = shapes_scales
    P, N = K.shape[:2]
    lam = gamma_update(*lambda_prior, old.a_squared, [1] * K.shape[2])
    a, a_cov = a_update(K, old.G, lam[0] * lam[1], old.upsilon)
    G, G_cov = g_update(K, a, y, old.be, old.be_cov, old.upsilon, old.epsilon)
    squares = diagonal_square(old.be, old.be_cov)
    gam = gamma_update(*gamma_prior, squares[:1], [1])
    om = gamma_update(*omega_prior, squares[1:], [1] * P)
    be, be_cov = be_update(G, G_cov, y, (gam[0] * gam[1])[0], om[0] * om[1], old.epsilon)
    ups = gamma_update(*upsilon_prior, [g_error(K, a, a_cov, G, G_cov)], [N * P])
    eps = gamma_update(*epsilon_prior, [y_error(y, G, G_cov, be, be_cov)], [N])
    found = {
        "λ": lam, "a": (a, a_cov), "G": (G, G_cov), "γ": gam, "ω": om, "be": (be, be_cov), "υ": ups, "ε": eps,
    }  # fmt: skip
    new = Old(
        diagonal_square(a, a_cov), G, be, be_cov, upsilon=(ups[0] * ups[1])[0], epsilon=(eps[0] * eps[1])[0]
    )
    return found, new
