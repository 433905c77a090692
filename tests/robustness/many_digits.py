"""BEMKL with 50 digits: the sweeps and the bound of every model, written out over arrays of mpmath numbers.

Nothing here imports the package. Outputs (classes, labels, targets) have a leading axis throughout; the models of one
output are the case of one. Gamma distributions are given by shape and rate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mpf

DIGITS = 50
LOG_2PI = mpmath.log(2 * mpmath.pi)


def exact(values: Any) -> Any:
    """Return the very doubles as numbers of many digits."""
    array = np.asarray(values, dtype=np.float64)
    out = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        out[place] = mpf(float(array[place]))
    return out if array.ndim else out[()]


def doubles(values: Any) -> np.ndarray:
    return np.vectorize(float, otypes=[float])(np.asarray(values, dtype=object))


def elementwise(function, *arrays):
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
    arrays = [np.broadcast_to(np.asarray(a, dtype=object), shape) for a in arrays]
    out = np.empty(shape, dtype=object)
    for place in np.ndindex(shape):
        out[place] = function(*(a[place] for a in arrays))
    return out


def log(values):
    return elementwise(mpmath.log, values)


def eye(size):
    return exact(np.eye(size))


def inverse(matrix):
    """Return inverse and log determinant of the inverse, by Cholesky's factorization."""
    n = len(matrix)
    root = exact(np.zeros((n, n)))
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i, j] - sum((root[i, k] * root[j, k] for k in range(j)), mpf(0))
            root[i, j] = mpmath.sqrt(rest) if i == j else rest / root[j, j]
    lower = exact(np.zeros((n, n)))
    for j in range(n):
        for i in range(j, n):
            rest = mpf(i == j) - sum((root[i, k] * lower[k, j] for k in range(j, i)), mpf(0))
            lower[i, j] = rest / root[i, i]
    return lower.T @ lower, -2 * sum(mpmath.log(root[i, i]) for i in range(n))


# ------------------------------------------------------------------------------------------ truncated variables


def cdf(z):
    return mpmath.erfc(-z / mpmath.sqrt(2)) / 2


def truncated(loc, y, margin):
    """Mean, variance, entropy and log normalizer of N(loc, 1) given y f > margin."""
    with mpmath.workdps(DIGITS + 20):
        z = y * loc - margin
        log_cdf = mpmath.log1p(-mpmath.erfc(z / mpmath.sqrt(2)) / 2) if z > 0 else mpmath.log(cdf(z))
        r = mpmath.exp(-z * z / 2 - log_cdf) / mpmath.sqrt(2 * mpmath.pi)
        mean, variance = loc + y * r, 1 - r * (r + z)
        return mean, variance, LOG_2PI / 2 + (variance + (mean - loc) ** 2) / 2 + log_cdf, log_cdf


def largest(locs, own, margin):
    """Means, variances, entropy and log normalizer of N(locs, 1) given that the one at `own` exceeds the others."""
    others = [c for c in range(len(locs)) if c != own]
    with mpmath.workdps(30):
        mills = lambda z: mpmath.npdf(z) / cdf(z)
        low = max([mpf(0)] + [locs[c] + margin - locs[own] for c in others])
        slope = lambda u: u - sum(mills(u + locs[own] - locs[c] - margin) for c in others)
        width = 1 / mpmath.sqrt(len(locs))
        center = low / 2
        for _ in range(60):  # a convex decreasing function of the mode: Newton's steps do not overshoot
            z = [center + locs[own] - locs[c] - margin for c in others]
            rate = 1 + sum(mills(value) * (mills(value) + value) for value in z)
            center, before = center - slope(center) / rate, center
            if abs(center - before) < mpf(10) ** -20:
                break
        step = mpf("0.4") * width
        nodes = [center + k * step for k in range(-30, 45)]
        total, mean, square = mpf(0), [mpf(0)] * len(locs), [mpf(0)] * len(locs)
        top = -(center**2) / 2 + sum(mpmath.log(cdf(center + locs[own] - locs[c] - margin)) for c in others)
        for u in nodes:
            z = {c: u + locs[own] - locs[c] - margin for c in others}
            areas = {c: cdf(value) for c, value in z.items()}
            p = mpmath.exp(-u * u / 2 + sum(mpmath.log(area) for area in areas.values()) - top)
            total += p
            mean[own] += p * u
            square[own] += p * u * u
            for c in others:  # of f_c - loc_c, cut off above u + loc_own - margin
                r = mpmath.npdf(z[c]) / areas[c]
                mean[c] -= p * r
                square[c] += p * (1 - z[c] * r)
        mean, square = [m / total for m in mean], [s / total for s in square]
        log_z = mpmath.log(total * step) + top - LOG_2PI / 2
        entropy = len(locs) * LOG_2PI / 2 + sum(square) / 2 + log_z
        variance = [s - m * m for m, s in zip(mean, square, strict=True)]
        return [loc + m for loc, m in zip(locs, mean, strict=True)], variance, entropy, log_z


# -------------------------------------------------------------------------------------------------- bound terms


def gamma_moments(shape, rate):
    """Mean, mean of the logarithm, and entropy."""
    mean = shape / rate
    log_mean = elementwise(mpmath.digamma, shape) - log(rate)
    entropy = (
        shape
        - log(rate)
        + elementwise(mpmath.loggamma, shape)
        + (1 - shape) * elementwise(mpmath.digamma, shape)
    )
    return mean, log_mean, entropy


def gamma_bound(shape, rate, prior):
    """Expected log prior plus entropy, summed."""
    a, b = (exact(value) for value in prior)
    mean, log_mean, entropy = gamma_moments(shape, rate)
    log_prior = a * mpmath.log(b) - mpmath.loggamma(a) + (a - 1) * log_mean - b * mean
    return np.sum(log_prior + entropy)


def zero_mean_bound(square, shape, rate):
    mean, log_mean, _ = gamma_moments(shape, rate)
    return np.sum(log_mean - LOG_2PI - mean * square) / 2


def normal_entropy(size, log_det):
    return (size * (1 + LOG_2PI) + log_det) / 2


# -------------------------------------------------------------------------------------------------------- sweeps


class Settings(NamedTuple):
    """What is fixed: kernels (P, N, N), labels or targets (C, N), (shape, rate) of the priors, and the noise."""

    kernels: Any
    y: Any
    sample: Any
    intercept: Any
    kernel: Any
    margin: Any = 1.0
    sigma: Any = 1.0
    intermediate: Any = None  # priors of the noise precisions of regressions
    noise: Any = None
    compete: bool = False  # classes of which one has the largest score
    nonnegative: bool = False


class Old(NamedTuple):
    """Expectations of the sweep before."""

    a_square: Any  # (C, N)
    G: Any  # (C, P, N)
    be: Any  # (C + P,)
    be_cov: Any
    f: Any  # (C, N), of regressions the targets
    upsilon: Any  # (C,)
    epsilon: Any


def sweep(settings: Settings, old: Old) -> tuple[dict[str, Any], Old, Any]:
    """Return factors (means, and what else is compared), what the next sweep reads, and the bound."""
    K, y = exact(settings.kernels), exact(settings.y)
    (P, N, _), C = K.shape, len(y)
    is_regression = settings.noise is not None
    half = mpf(1) / 2
    # λ, a
    a0, b0 = (exact(value) for value in settings.sample)
    lam = np.broadcast_to(a0 + half, (C, N)), b0 + old.a_square / 2
    gram = sum(k.T @ k for k in K)
    a, a_cov, a_log_det = [], [], []
    for c in range(C):
        cov, log_det = inverse(old.upsilon[c] * gram + np.diag(lam[0][c] / lam[1][c]))
        pull = sum(K[m].T @ old.G[c, m] for m in range(P))
        a.append(old.upsilon[c] * (cov @ pull)), a_cov.append(cov), a_log_det.append(log_det)
    # G
    moment = np.outer(old.be, old.be) + old.be_cov
    e, ee = old.be[C:], moment[C:, C:]
    G, G_cov, G_log_det = [], [], []
    projections = [np.array([K[m] @ a[c] for m in range(P)], dtype=object) for c in range(C)]
    for c in range(C):
        cov, log_det = inverse(old.upsilon[c] * eye(P) + old.epsilon[c] * ee)
        pull = old.epsilon[c] * (np.outer(e, old.f[c]) - moment[c, C:][:, None])
        G.append(cov @ (old.upsilon[c] * projections[c] + pull)), G_cov.append(cov), G_log_det.append(log_det)
    # γ, ω
    square = np.diag(moment)
    (ga, gb), (oa, ob) = (
        [exact(value) for value in prior] for prior in (settings.intercept, settings.kernel)
    )
    gam = np.broadcast_to(ga + half, C), gb + square[:C] / 2
    om = np.broadcast_to(oa + half, P), ob + square[C:] / 2
    # b, e
    precision = np.diag(np.concatenate([gam[0] / gam[1], om[0] / om[1]]))
    right = exact(np.zeros(C + P))
    for c in range(C):
        rows = np.concatenate([np.outer(exact(np.eye(C)[c]), exact(np.ones(N))), G[c]])
        block = rows @ rows.T
        block[C:, C:] = block[C:, C:] + N * G_cov[c]
        precision = precision + old.epsilon[c] * block
        right = right + old.epsilon[c] * (rows @ old.f[c])
    if settings.nonnegative:
        be, be_cov, be_entropy = cut_off_readout(precision, right, e, C)
    else:
        be_cov, log_det = inverse(precision)
        be, be_entropy = be_cov @ right, normal_entropy(C + P, log_det)
    # noise, scores
    readout = np.outer(be, be) + be_cov
    misfits = [g_misfit(projections[c], G[c], G_cov[c], gram, a_cov[c]) for c in range(C)]
    found = {"a": np.array(a), "G": np.array(G), "be": be, "λ": lam[1], "ω": om[1], "be_cov": be_cov}
    bound = (
        gamma_bound(*lam, settings.sample)
        + gamma_bound(*gam, settings.intercept)
        + gamma_bound(*om, settings.kernel)
        + zero_mean_bound(np.array([a[c] ** 2 + np.diag(a_cov[c]) for c in range(C)]), *lam)
        + zero_mean_bound(np.diag(readout)[:C], *gam)
        + zero_mean_bound(np.diag(readout)[C:], *om)
        + sum(normal_entropy(N, value) for value in a_log_det)
        + sum(normal_entropy(N * P, N * value) for value in G_log_det)
        + be_entropy
        + (P * mpmath.log(2) if settings.nonnegative else 0)
    )
    if is_regression:
        f, upsilon, epsilon = old.f, [], []
        for c in range(C):
            f_misfit = score_misfit(f[c], G[c], G_cov[c], be, be_cov, c, C)
            for size, misfit, prior, kept in [
                (N * P, misfits[c], settings.intermediate, upsilon),
                (N, f_misfit, settings.noise, epsilon),
            ]:
                shape, rate = exact(prior[0]) + mpf(size) / 2, exact(prior[1]) + misfit / 2
                mean, log_mean, _ = gamma_moments(shape, rate)
                bound += gamma_bound(shape, rate, prior) + (size * (log_mean - LOG_2PI) - mean * misfit) / 2
                kept.append(mean)
        found |= {"υ": np.array(upsilon), "ε": np.array(epsilon)}
    else:
        upsilon, epsilon = old.upsilon, old.epsilon
        locs = np.array([be[C:] @ G[c] + be[c] for c in range(C)])
        margin = exact(settings.margin)
        f, variance, entropy = scores(locs, y, margin, settings.compete)
        bound += entropy
        for c in range(C):
            misfit = score_misfit(f[c], G[c], G_cov[c], be, be_cov, c, C) + np.sum(variance[c])
            bound += -(N * LOG_2PI + misfit) / 2
            bound += (N * P * (mpmath.log(upsilon[c]) - LOG_2PI) - upsilon[c] * misfits[c]) / 2
        found |= {"f": f}
    a_square = np.array([a[c] ** 2 + np.diag(a_cov[c]) for c in range(C)])
    return found, Old(a_square, np.array(G), be, be_cov, f, upsilon, epsilon), bound


def scores(locs, y, margin, compete):
    """Return E[f], Var[f], each (C, N), and the entropy of all."""
    (C, N), entropy = locs.shape, mpf(0)
    f, variance = (exact(np.zeros((C, N))) for _ in range(2))
    if compete:
        for i in range(N):
            f[:, i], variance[:, i], one, _ = largest(
                list(locs[:, i]), int(np.argmax(doubles(y[:, i]))), margin
            )
            entropy += one
        return f, variance, entropy
    for c, i in np.ndindex(C, N):
        f[c, i], variance[c, i], one, _ = truncated(locs[c, i], y[c, i], margin)
        entropy += one
    return f, variance, entropy


def g_misfit(projection, G, G_cov, gram, a_cov):
    """E of the squared distance between intermediate outputs and k' a."""
    residual = G - projection
    return np.sum(residual * residual) + G.shape[1] * np.trace(G_cov) + np.sum(gram * a_cov)


def score_misfit(f, G, G_cov, be, be_cov, c, C):
    """E (f - e'g - b)², without the variance of f, by expanding the square."""
    pair = [c, *range(C, len(be))]
    mean, cov = be[pair], be_cov[np.ix_(pair, pair)]
    second = np.outer(mean, mean) + cov
    total = mpf(0)
    for i in range(len(f)):
        row = np.concatenate([exact(np.ones(1)), G[:, i]])
        outer = np.outer(row, row)
        outer[1:, 1:] = outer[1:, 1:] + G_cov
        total += f[i] ** 2 - 2 * f[i] * (mean @ row) + np.sum(second * outer)
    return total


def cut_off_readout(precision, right, before, C):
    """q(b | e) and independent q(e_m), one after the other: mean, covariance and entropy over (b, e)."""
    P = len(right) - C
    variance = np.array([1 / precision[c, c] for c in range(C)])
    slope = -variance[:, None] * precision[:C, C:]
    inner = precision[C:, C:] + precision[C:, :C] @ slope
    pull = right[C:] + slope.T @ right[:C]
    mean, spread, entropy = np.array(before), exact(np.zeros(P)), mpf(0)
    for m in range(P):
        scale = 1 / mpmath.sqrt(inner[m, m])
        rest = sum((inner[m, h] * mean[h] for h in range(P) if h != m), mpf(0))
        location = (pull[m] - rest) * scale**2
        unit, unit_variance, unit_entropy, _ = truncated(location / scale, mpf(1), mpf(0))
        mean[m], spread[m] = scale * unit, scale**2 * unit_variance
        entropy += unit_entropy + mpmath.log(scale)
    top = np.diag(variance) + (slope * spread) @ slope.T
    cov = np.block([[top, slope * spread], [(slope * spread).T, np.diag(spread)]])
    entropy += sum(normal_entropy(1, mpmath.log(value)) for value in variance)
    return np.concatenate([variance * right[:C] + slope @ mean, mean]), cov, entropy
