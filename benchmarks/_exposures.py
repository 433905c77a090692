"""Health effects of mixtures of exposures, simulated as `SimData` of the R package bkmr does, and models of them.

Five exposures, standard normal or with correlations .95, .3 and .1 of the first three; a covariate that depends on
the first; and a response 4 expit((z1 + z2 + z1 z2 / 2) / 1.2), neither linear nor additive, beside twice the
covariate and noise of variance .5. Judged is the posterior of the response of the training samples around its mean:
slope of its mean on the truth, R2, root mean squared error, coverage of 95 % intervals at each sample (Bobb et al.
2015, Bayesian kernel machine regression for estimating the health effects of multi-pollutant mixtures).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.gp import Design
from bayesmkl.kernels import Gaussian

N_EXPOSURES, NOISE_VARIANCE, EFFECT = 5, 0.5, 2.0
N_SAMPLES, LARGE = 100, 1200
MORE = {300: 10, 1000: 3}  # simulations of further numbers of samples
SCENARIOS = ("independent", "correlated")
REACH = 1.959964  # of 95 % intervals, in standard deviations
EXPOSURES = list(range(N_EXPOSURES))


class Response(NamedTuple):
    """Posterior mean and standard deviation of the centered response."""

    mean: np.ndarray
    std: np.ndarray


def simulate(seed: int, scenario: str, n_samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return exposures and the covariate after them, the centered response, and targets."""
    rng = np.random.default_rng([9200, seed])
    cov = np.eye(N_EXPOSURES)
    if scenario == "correlated":
        for i, j, r in ((0, 2, 0.95), (1, 2, 0.3), (0, 1, 0.1)):
            cov[i, j] = cov[j, i] = r
    Z = rng.multivariate_normal(np.zeros(N_EXPOSURES), cov, size=n_samples)
    covariate = 3.0 * np.cos(Z[:, 0]) + 2.0 * rng.standard_normal(n_samples)
    response = 4.0 * expit((Z[:, 0] + Z[:, 1] + 0.5 * Z[:, 0] * Z[:, 1]) / 1.2)
    y = EFFECT * covariate + response + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(n_samples)
    return np.column_stack([Z, covariate]), response - response.mean(), y


def _additive(bank: KernelBank) -> Callable[[np.ndarray, np.ndarray], Response]:
    def fit(X: np.ndarray, y: np.ndarray) -> Response:
        model = GPMKLRegressor(bank, design=Design(covariate_columns=N_EXPOSURES)).fit(X, y)
        drawn = model.y_scale_ * model._without_effects(model.posterior_)[:, 0]
        drawn -= drawn.mean(axis=1, keepdims=True)
        return Response(drawn.mean(axis=0), drawn.std(axis=0))

    return fit


def _relevances(X: np.ndarray, y: np.ndarray) -> Response:
    """Fit one Gaussian kernel with a learned relevance of every exposure, as bkmr has, at the mode."""
    n, scale = len(y), y.std()
    target, Z = (y - y.mean()) / scale, X[:, :N_EXPOSURES]
    covariate = (X[:, N_EXPOSURES] - X[:, N_EXPOSURES].mean()) / X[:, N_EXPOSURES].std()
    squares = (Z[:, None] - Z) ** 2
    fixed = 9.0 + 9.0 * np.outer(covariate, covariate)

    def covariances(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kernel = np.exp(at[0] - squares @ np.exp(at[1:-1]))
        return kernel, kernel + fixed + np.exp(at[-1]) * np.eye(n)

    def negative(at: np.ndarray) -> float:
        root = np.linalg.cholesky(covariances(at)[1] + 1e-9 * np.eye(n))
        white = np.linalg.solve(root, target)
        return float(0.5 * white @ white + np.log(root.diagonal()).sum() + at @ at / 18.0)

    start = np.array([0.0, *[-2.0] * N_EXPOSURES, -2.0])
    kernel, total = covariances(minimize(negative, start, method="L-BFGS-B").x)
    centering = np.eye(n) - 1.0 / n
    gain = centering @ np.linalg.solve(total, kernel).T
    variance = centering @ kernel @ centering - gain @ kernel @ centering
    return Response(scale * gain @ target, scale * np.sqrt(np.maximum(variance.diagonal(), 0.0)))


PAIRS = {f"{i + 1} and {j + 1}": [i, j] for i, j in combinations(EXPOSURES, 2)}
SMOOTHERS: dict[str, Callable[[np.ndarray, np.ndarray], Response]] = {
    "GPMKL, all exposures": _additive(KernelBank("auto")),
    "GPMKL, pairs and all": _additive(
        KernelBank([Gaussian(width=3)], views=PAIRS | {"all": EXPOSURES}, normalize="center")
    ),
    "one kernel, learned relevances": _relevances,
}


def exposure_cell(scenario: str, seed: int, model: str, n_samples: int = N_SAMPLES) -> dict[str, Any]:
    """Fit one model to one simulation and judge it."""
    X, truth, y = simulate(seed, scenario, n_samples)
    start = os.times().user
    found = SMOOTHERS[model](X, y)
    seconds = os.times().user - start
    rest = found.mean - truth
    return {
        "set": f"exposures, {scenario}" + (f", {n_samples}" if n_samples != N_SAMPLES else ""),
        "split": seed, "model": model, "seconds": round(seconds, 2),
        "slope": round(float(np.polyfit(truth, found.mean, 1)[0]), 4),
        "r2": round(float(np.corrcoef(truth, found.mean)[0, 1] ** 2), 4),
        "error": round(float(np.sqrt(np.mean(rest**2))), 4),
        "inside": round(float(np.mean(np.abs(rest) <= REACH * found.std)), 4),
    }  # fmt: skip
