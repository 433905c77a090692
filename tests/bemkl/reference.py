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


def pull_of(K, G):
    """Sum over kernels and samples of k_m,i g_m,i: all that equation (3) needs of G."""
    pull = np.zeros(K.shape[2])
    for m in range(K.shape[0]):
        for i in range(K.shape[1]):
            pull += K[m, i] * G[m, i]
    return pull


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
    lambda_prior, gamma_prior, omega_prior = shapes_scales[:3]
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


class OldOutputs(NamedTuple):
    """Expectations of the sweep before, of several outputs that share the kernel weights."""

    a_squared: Any  # one row per output, as all of the following but `be` and `be_cov`
    G: Any
    be: Any  # all intercepts, then the kernel weights
    be_cov: Any
    f: Any = None
    upsilon: Any = None
    epsilon: Any = None


def shared_be_update(G, G_cov, f, gamma, omega, epsilon):
    """Equation (4) as the Bayesian linear regression of all scores on [indicator of the output, its g_i]."""
    C, P, N = G.shape
    precision = np.diag(np.concatenate([gamma, omega]))
    right = np.zeros(C + P)
    for c in range(C):
        for i in range(N):
            row = np.concatenate([np.eye(C)[c], G[c, :, i]])
            outer = np.outer(row, row)
            outer[C:, C:] += G_cov[c]
            precision = precision + epsilon[c] * outer
            right = right + epsilon[c] * row * f[c, i]
    cov = inv(precision)
    return cov @ right, cov


def outputs_sweep(K, y, nu, shapes_scales, old, upsilon, epsilon):
    """One iteration for all outputs; `y` is None in regression, where E[f] is the target and stays."""
    lambda_prior, gamma_prior, omega_prior = shapes_scales[:3]
    C, P = old.G.shape[:2]
    lam, a, G = [], [], []
    for c in range(C):
        lam.append(gamma_update(*lambda_prior, old.a_squared[c], [1] * K.shape[2]))
        a.append(a_update(K, old.G[c], lam[c][0] * lam[c][1], upsilon[c]))
        pair = [c, *range(C, C + P)]  # b_c and e
        cov = old.be_cov[np.ix_(pair, pair)]
        G.append(g_update(K, a[c][0], old.f[c], old.be[pair], cov, upsilon[c], epsilon[c]))
    squares = diagonal_square(old.be, old.be_cov)
    gam = gamma_update(*gamma_prior, squares[:C], [1] * C)
    om = gamma_update(*omega_prior, squares[C:], [1] * P)
    (a, a_cov), (G, G_cov) = ([np.array(part) for part in zip(*found, strict=True)] for found in (a, G))
    be, be_cov = shared_be_update(G, G_cov, old.f, gam[0] * gam[1], om[0] * om[1], epsilon)
    lam = tuple(np.array(part) for part in zip(*lam, strict=True))
    found = {"λ": lam, "a": (a, a_cov), "G": (G, G_cov), "γ": gam, "ω": om, "be": (be, be_cov)}
    f = old.f
    if y is not None:
        truncated = [f_update(G[c], be[[c, *range(C, C + P)]], y[c], nu) for c in range(C)]
        found["f"] = tuple(np.array(part) for part in zip(*truncated, strict=True))
        f = found["f"][0]
    a_squared = np.array([diagonal_square(a[c], a_cov[c]) for c in range(C)])
    return found, OldOutputs(a_squared, G, be, be_cov, f, upsilon, epsilon)


def multiclass_sweep(K, y, nu, sigma_g, shapes_scales, old):
    """`outputs_sweep` with known noise."""
    C = len(y)
    return outputs_sweep(K, y, nu, shapes_scales, old, [1 / sigma_g**2] * C, [1.0] * C)


def multioutput_sweep(K, y, shapes_scales, old):
    """`outputs_sweep` with targets, and the noise precisions of every output last."""
    upsilon_prior, epsilon_prior = shapes_scales[3:]
    C, P, N = len(y), *K.shape[:2]
    found, new = outputs_sweep(K, None, None, shapes_scales, old._replace(f=y), old.upsilon, old.epsilon)
    (a, a_cov), (G, G_cov), (be, be_cov) = found["a"], found["G"], found["be"]
    g_errors = [g_error(K, a[c], a_cov[c], G[c], G_cov[c]) for c in range(C)]
    y_errors = []
    for c in range(C):
        pair = [c, *range(C, C + P)]
        y_errors.append(y_error(y[c], G[c], G_cov[c], be[pair], be_cov[np.ix_(pair, pair)]))
    found["υ"] = gamma_update(*upsilon_prior, g_errors, [N * P] * C)
    found["ε"] = gamma_update(*epsilon_prior, y_errors, [N] * C)
    return found, new._replace(upsilon=found["υ"][0] * found["υ"][1], epsilon=found["ε"][0] * found["ε"][1])
