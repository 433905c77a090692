r"""Probabilities that all of many correlated normal numbers are positive, and weighted draws of them.

The numbers are drawn one after another, each above zero given those before (Genz 1992), from normal distributions
moved by the saddle point of Botev (2017, The normal law under linear restrictions: simulation and estimation via
minimax tilting, JRSSB 79). With :math:`U = \mathrm{diag}(L)^{-1} L`, :math:`\Sigma = L L^\top` and
:math:`r(t) = \phi(t) / \Phi(t)`, all equations of his saddle point come down to

.. math:: t = (U U^\top - I)\, r(t), \qquad \mu = (U - I)^\top r(t) ,

which Newton's method solves from zero. The least likely number is drawn first (Gibson, Glasbey and Elston 1994).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve
from scipy.special import log_ndtr, ndtri_exp

TOL, MOST_STEPS = 1e-8, 100


def positive_draws(
    covariance: np.ndarray, n_draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw normal numbers of mean zero given that all are positive.

    Parameters
    ----------
    covariance : ndarray of shape (n, n)
    n_draws : int
    rng : numpy.random.Generator

    Returns
    -------
    draws : ndarray of shape (n, n_draws)
    log_weights : ndarray of shape (n_draws,)
        The mean of the weights is an unbiased estimate of the probability.
    """
    order, lower = _ordered_root(covariance)
    unit = lower / np.diag(lower)[:, None]
    moves = _saddle_point(unit)
    own = np.empty((len(unit), n_draws))
    log_weights = np.zeros(n_draws)
    for i, move in enumerate(moves):
        t = move + unit[i, :i] @ own[:i]
        log_above = log_ndtr(t)
        own[i] = move - ndtri_exp(np.log(rng.random(n_draws)) + log_above)
        log_weights += 0.5 * move**2 - move * own[i] + log_above
    draws = np.empty_like(own)
    draws[order] = lower @ own
    return draws, log_weights


def _ordered_root(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order in which numbers are drawn, and the Cholesky factor of their covariance in that order."""
    rest, n = covariance.copy(), len(covariance)
    order, lower = np.arange(n), np.zeros((n, n))
    variance, mean = np.diag(covariance).copy(), np.zeros(n)
    for i in range(n):
        j = i + int(np.argmin(mean[i:] / np.sqrt(variance[i:])))
        for one in (order, variance, mean, lower, rest, rest.T):
            one[[i, j]] = one[[j, i]]
        lower[i, i] = math.sqrt(variance[i])
        lower[i + 1 :, i] = (rest[i + 1 :, i] - lower[i + 1 :, :i] @ lower[i, :i]) / lower[i, i]
        variance[i + 1 :] -= lower[i + 1 :, i] ** 2
        mean[i + 1 :] += lower[i + 1 :, i] * _ratio(mean[i] / lower[i, i])
    return order, lower


def _saddle_point(unit: np.ndarray) -> np.ndarray:
    """Return by how much the normal distributions are moved."""
    product, t = unit @ unit.T, np.zeros(len(unit))
    np.fill_diagonal(product, np.diag(product) - 1.0)
    for _ in range(MOST_STEPS):
        ratio = _ratio(t)
        step = solve(np.eye(len(t)) + product * (ratio * (t + ratio)), t - product @ ratio)
        t -= step
        if np.abs(step).max() < TOL:
            break
    return unit.T @ _ratio(t) - _ratio(t)


def _ratio(t: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * t**2 - 0.5 * math.log(2.0 * math.pi) - log_ndtr(t))
