"""Small problems of marginal inference.

Likelihoods of outcomes with targets of every kind, and their log densities in many digits.
"""

from __future__ import annotations

from functools import partial

import mpmath as mp
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.evidence import ep_evidence, laplace_evidence, mixture_evidence, student_evidence
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import (
    BetaBinomial,
    FailureTime,
    Gaussian,
    Logit,
    NegativeBinomial,
    Offset,
    OrdinalProbit,
    PiecewiseHazard,
    Poisson,
    Probit,
    StudentT,
)

NOTHING = np.zeros(0)
# Iterations go on to the last digits, which differences look at.
EP, MIXTURE = partial(ep_evidence, tol=1e-11), partial(mixture_evidence, tol=1e-13)
LAPLACE, STUDENT = partial(laplace_evidence, tol=1e-12), partial(student_evidence, tol=1e-11)


def label(value):
    """Name a parameter of a test, also where it is a partial function."""
    return getattr(getattr(value, "func", value), "__name__", value)


def kernels(rng, n_samples=40, n_features=4):
    """Two Gaussian kernels of different features and a linear one."""
    X = rng.normal(size=(n_samples, n_features))
    half = n_features // 2
    parts = [rbf_kernel(X[:, :half], gamma=0.3), rbf_kernel(X[:, half:], gamma=0.3), X @ X.T / n_features]
    return X, DenseStack(np.stack(parts))


def labels(rng, X):
    return np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 - 0.5 + 0.5 * rng.normal(size=len(X)) > 0.0, 1.0, -1.0)


def numbers(rng, X):
    return X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=len(X))


def additive(stack):
    return Additive(stack, kernel_units(stack), 1.5)


def differences_of(along, at, h=1e-4):
    """Return the slopes of a function of steps in every coordinate, by differences of fourth order."""
    return [
        (8 * (along(h * e) - along(-h * e)) - (along(2 * h * e) - along(-2 * h * e))) / (12 * h)
        for e in np.eye(len(at))
    ]


INF = np.inf

LIKELIHOODS = {
    "student-t": (StudentT(), [0.5, 4.0]),
    "poisson": (Poisson(), []),
    "negative-binomial": (NegativeBinomial(), [1.7]),
    "beta-binomial": (BetaBinomial(), [6.0]),
    "ordinal": (OrdinalProbit(4), [0.6, 1.1]),
    "log-normal": (FailureTime("log-normal"), [0.6]),
    "log-logistic": (FailureTime("log-logistic"), [0.4]),
    "weibull": (FailureTime("weibull"), [0.7]),
    "hazards": (PiecewiseHazard((0.6, 1.5)), [0.8, 1.3, 0.5]),
    "offset": (Offset(NegativeBinomial()), [1.7]),
}
KINDS = LIKELIHOODS | {"gaussian": (Gaussian(), [0.4]), "probit": (Probit(), []), "logit": (Logit(), [])}
TIMES = {name for name, (likelihood, _) in LIKELIHOODS.items() if hasattr(likelihood, "log_survival")}


def targets(name, n, rng):
    """Return targets of all that there is: observed, censored on either side, between visits, late entries."""
    if name in ("student-t", "gaussian"):
        return rng.normal(size=n)
    if name in ("probit", "logit"):
        return np.sign(rng.normal(size=n))
    if name in ("poisson", "negative-binomial"):
        return rng.poisson(2.0, n).astype(float)
    if name == "offset":
        return np.stack([rng.poisson(2.0, n).astype(float), rng.normal(size=n)])
    if name == "beta-binomial":
        trials = rng.integers(1, 12, n)
        return np.stack([rng.binomial(trials, 0.4), trials]).astype(float)
    if name == "ordinal":
        return (np.arange(n) % 4).astype(float)
    lower = rng.normal(size=n)
    kinds = np.arange(n) % 5
    upper = np.select([kinds <= 1, kinds == 2], [lower, INF], lower + rng.gamma(2.0, 0.5, n))
    entry = np.where(kinds % 2 == 1, lower - rng.gamma(2.0, 0.5, n), -INF)
    return np.stack([np.where(kinds == 4, -INF, lower), upper, entry])


def log_density_in_many_digits(name, y, score, parameters):
    """Return the log density of one target, by its definition."""
    f, p = mp.mpf(score), [mp.mpf(value) for value in parameters]
    y = [mp.mpf(float(value)) for value in np.atleast_1d(y)]
    if name == "student-t":
        scale, df = p
        height = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2 - mp.log(scale)
        return height - (df + 1) / 2 * mp.log1p(((y[0] - f) / scale) ** 2 / df)
    if name == "poisson":
        return y[0] * f - mp.exp(f) - mp.loggamma(y[0] + 1)
    if name == "offset":
        return log_density_in_many_digits("negative-binomial", y[:1], f + y[1], p)
    if name == "negative-binomial":
        (r,), mu, k = p, mp.exp(f), y[0]
        counted = mp.loggamma(k + r) - mp.loggamma(r) - mp.loggamma(k + 1)
        return counted + r * mp.log(r / (r + mu)) + k * mp.log(mu / (r + mu))
    if name == "beta-binomial":
        (kappa,), (k, n) = p, y
        a, b = kappa / (1 + mp.exp(-f)), kappa / (1 + mp.exp(f))

        def log_beta(u, v):
            return mp.loggamma(u) + mp.loggamma(v) - mp.loggamma(u + v)

        ways = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
        return ways + log_beta(k + a, n - k + b) - log_beta(a, b)
    if name == "ordinal":
        cuts = [sum(p[:k], mp.mpf(0)) for k in range(len(p) + 1)]
        middle = sum(cuts) / len(cuts)
        ends = [-mp.inf, *(cut - middle - f for cut in cuts), mp.inf]
        grade = int(y[0])
        return _log_mass("normal", ends[grade], ends[grade + 1])
    lower, upper, entry = y
    if name == "hazards":
        breaks = (0, mp.mpf(0.6), mp.mpf(1.5), mp.inf)

        def hazard(log_time):
            time = mp.exp(log_time)
            pieces = zip(breaks[:-1], breaks[1:], p, strict=True)
            return mp.exp(f) * sum(level * max(min(time, end) - start, 0) for start, end, level in pieces)

        before = hazard(lower) - hazard(entry)
        if lower == upper:
            level = p[sum(1 for start in breaks[1:-1] if mp.exp(lower) >= start)]
            return f + mp.log(level) - before
        if upper == mp.inf:
            return -before
        return -before + mp.log(-mp.expm1(hazard(lower) - hazard(upper)))
    law = {"log-normal": "normal", "log-logistic": "logistic", "weibull": "extreme"}[name]
    low, high, start = ((end - f) / p[0] for end in (lower, upper, entry))
    late = mp.log(_above(law, start)) if entry > -mp.inf else 0
    if lower == upper:
        return _log_height(law, low) - mp.log(p[0]) - late
    return _log_mass(law, low, high) - late


def _above(law, z):
    if law == "normal":
        return mp.erfc(z / mp.sqrt(2)) / 2
    return 1 / (1 + mp.exp(z)) if law == "logistic" else mp.exp(-mp.exp(z))


def _below(law, z):
    if law == "normal":
        return mp.erfc(-z / mp.sqrt(2)) / 2
    return 1 / (1 + mp.exp(-z)) if law == "logistic" else -mp.expm1(-mp.exp(z))


def _log_height(law, z):
    if law == "normal":
        return -(z**2) / 2 - mp.log(2 * mp.pi) / 2
    return -z - 2 * mp.log1p(mp.exp(-z)) if law == "logistic" else z - mp.exp(z)


def _log_mass(law, lower, upper):
    if lower == -mp.inf:
        return mp.log(_below(law, upper))
    if upper == mp.inf:
        return mp.log(_above(law, lower))
    if lower + upper > 0 or (law == "extreme" and lower > -3):
        return mp.log(_above(law, lower) - _above(law, upper))
    return mp.log(_below(law, upper) - _below(law, lower))
