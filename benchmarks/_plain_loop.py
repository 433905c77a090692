"""BEMKL for two classes as its equations are printed, in plain NumPy: the yardstick of benchmarks/speed.py.

Updates of Gönen (2012, §4.1) in the paper's order, with `inv` and `tensordot`, as one writes them down at first. No
function of the package is used; the equations are in docs/algorithms/bemkl.md. `as_state` turns the factors that it
ends with into the package's, so that one function computes the bound of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from bayesmkl._numerics.truncated_normal import label_moments
from bayesmkl.bemkl import Gamma
from bayesmkl.bemkl.model import State
from bayesmkl.bemkl.moments import Gaussian, IntermediateOutputs

PRIOR = 1.0  # concentration and rate of all precisions: the non-sparse choice


class Factors(NamedTuple):
    """What the last iteration found, by the paper's names."""

    lambda_rate: np.ndarray
    a_mean: np.ndarray
    a_cov: np.ndarray
    G_mean: np.ndarray
    G_cov: np.ndarray
    gamma_rate: float
    omega_rate: np.ndarray
    be_mean: np.ndarray
    be_cov: np.ndarray


def fit_plain(K: np.ndarray, y: np.ndarray, n_iter: int, margin: float = 1.0) -> Factors:
    """Run `n_iter` iterations on kernels of shape (n_kernels, n_samples, n_samples), with σ_g = 1."""
    P, N, _ = K.shape
    KK = np.tensordot(K, K, axes=([0, 1], [0, 1]))  # sum_m K_m K_m'
    start = np.sqrt(2.0 / np.pi)
    f = y * (margin + start)
    G_mean = np.ones((P, 1)) * f
    a_square = np.ones(N)
    be_mean, be_cov = np.ones(1 + P), np.eye(1 + P)
    be_mean[0] = 0.0
    shape = PRIOR + 0.5
    for _ in range(n_iter):
        # sample precisions
        lambda_rate = PRIOR + 0.5 * a_square
        # sample weights
        a_cov = np.linalg.inv(np.diag(shape / lambda_rate) + KK)
        a_mean = a_cov @ np.tensordot(K, G_mean, axes=([0, 1], [0, 1]))
        a_square = a_mean**2 + np.diag(a_cov)
        # intermediate outputs
        be_square = np.outer(be_mean, be_mean) + be_cov
        G_cov = np.linalg.inv(np.eye(P) + be_square[1:, 1:])
        Ka = np.tensordot(K, a_mean, axes=([2], [0]))
        G_mean = G_cov @ (Ka + np.outer(be_mean[1:], f) - be_square[1:, :1])
        # precisions of bias and kernel weights
        gamma_rate = PRIOR + 0.5 * be_square[0, 0]
        omega_rate = PRIOR + 0.5 * np.diag(be_square)[1:]
        # bias and kernel weights
        total = G_mean.sum(axis=1)
        precision = np.empty((1 + P, 1 + P))
        precision[0, 0] = shape / gamma_rate + N
        precision[0, 1:] = precision[1:, 0] = total
        precision[1:, 1:] = np.diag(shape / omega_rate) + G_mean @ G_mean.T + N * G_cov
        be_cov = np.linalg.inv(precision)
        be_mean = be_cov @ np.concatenate([[f.sum()], G_mean @ f])
        # latent scores: normal distributions cut off at the margin
        loc = be_mean[1:] @ G_mean + be_mean[0]
        inside = y * loc - margin
        f = loc + y * norm.pdf(inside) / norm.cdf(inside)
    return Factors(lambda_rate, a_mean, a_cov, G_mean, G_cov, gamma_rate, omega_rate, be_mean, be_cov)


def as_state(factors: Factors, y: np.ndarray, margin: float = 1.0) -> State:
    """The same factors as the package names them."""
    shape = PRIOR + 0.5
    loc = factors.be_mean[1:] @ factors.G_mean + factors.be_mean[0]
    return State(
        Gamma(shape, factors.lambda_rate),
        Gaussian.from_moments(factors.a_mean, factors.a_cov),
        IntermediateOutputs(factors.G_mean, factors.G_cov, np.linalg.slogdet(factors.G_cov)[1]),
        Gamma(shape, np.asarray(factors.gamma_rate)),
        Gamma(shape, factors.omega_rate),
        Gaussian.from_moments(factors.be_mean, factors.be_cov),
        label_moments(loc, y, margin),
    )
