r"""Scores and gates of localized BEMKL (`bayesmkl.bemkl.models.localized`).

The score of a sample with the features φ of its gates, :math:`f = b + \sum_m e_m g_m` with :math:`e_m = w_m^\top φ`,
has under q(a) q(b, w), with :math:`ĝ_m = k_m^\top μ_a`,

    E[f]   = E[b] + E[e]ᵀ ĝ
    Var[f] = [1, ĝ ⊗ φ] Σ_bw [1, ĝ ⊗ φ]ᵀ                                 rule "paper"
             + Σ_mn E[e_m e_n] (δ_mn/υ + k_mᵀ Σ_a k_n)                   added by rule "full"

as in `bayesmkl.bemkl.reading.predict`, where weights do not depend on the sample.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.bemkl.models.localized import LocalizedState, gate_moments
from bayesmkl.bemkl.reading.predict import ScoreDraws, ScoreMoments
from bayesmkl.kernels.stacks.base import KernelStack, StoredStack

__all__ = [
    "LocalDraws",
    "LocalSummary",
    "aligned",
    "gate_means",
    "local_draws",
    "local_score",
    "parts_of_draws",
    "score_of_local_draws",
    "standardized",
    "summarize",
]

N_DRAWS = 200
PROBABILITY = 0.94  # of the intervals of localities


class LocalDraws(NamedTuple):
    """Draws of all parameters, with one leading axis; standard deviations of noise are of marginal inference."""

    weights: np.ndarray  # w, (n_draws, n_kernels, n_features)
    intercept: np.ndarray  # (n_draws,)
    dual: np.ndarray  # a, (n_draws, n_train)
    intermediate_std: Any = None  # υ^(-1/2), (n_draws,)
    noise_std: Any = None  # ε^(-1/2), (n_draws,)

    def gates(self, features: np.ndarray) -> np.ndarray:
        """Return the gates of rows, (n_draws, n_rows, n_kernels)."""
        return features @ self.weights.transpose(0, 2, 1)


class LocalSummary(NamedTuple):
    """What the gates of the training samples say of every kernel, each of shape (n_kernels,) but for the interval."""

    shares: np.ndarray  # posterior mean of the part in the spread of the score
    shares_std: np.ndarray
    locality: np.ndarray  # posterior mean of the part of the gate's mean square that is variance
    locality_interval: np.ndarray  # (n_kernels, 2)


def aligned(state: LocalizedState) -> LocalizedState:
    """Return the same posterior with gates whose sum is positive on average: (a, w) and (-a, -w) are one model."""
    n_kernels, mean = state.intermediate.mean.shape[0], state.readout.mean
    if mean[1:].reshape(n_kernels, -1)[:, 0].sum() >= 0.0:
        return state
    signs = np.where(np.arange(len(mean)) > 0, -1.0, 1.0)
    readout = state.readout._replace(mean=signs * mean, cov=np.outer(signs, signs) * state.readout.cov)
    return state._replace(
        dual=state.dual._replace(mean=-state.dual.mean),
        intermediate=state.intermediate._replace(mean=-state.intermediate.mean),
        readout=readout,
    )


def local_draws(posterior: Any, rng: np.random.Generator, n_draws: int = N_DRAWS) -> LocalDraws:
    """Draw from a posterior: a `LocalizedState`, or the draws of marginal inference, which are returned as they are.

    Parameters
    ----------
    posterior : LocalizedState or LocalDraws
    rng : numpy.random.Generator
    n_draws : int, default=200
        From a `LocalizedState`.
    """
    if isinstance(posterior, LocalDraws):
        return posterior
    state: LocalizedState = posterior
    readout = state.readout.draw(n_draws, rng)
    weights = readout[:, 1:].reshape(n_draws, state.intermediate.mean.shape[0], -1)
    return LocalDraws(weights, readout[:, 0], state.dual.draw(n_draws, rng))


def standardized(draws: LocalDraws, features: np.ndarray) -> LocalDraws:
    """Return draws with gates of mean square one over training samples and kernels, and with a common sign.

    (a, w) and (c a, w / c) are one model, where the standard deviation of the intermediate outputs is c times as
    large. The sign is that of the leading eigenvector of the second moments of all gates, which points to a positive
    sum of mean gates.

    Parameters
    ----------
    draws : LocalDraws
        Of marginal inference.
    features : ndarray of shape (n_samples, n_features)
        Of the training samples.
    """
    root = np.linalg.qr(features, mode="r") / np.sqrt(len(features) * draws.weights.shape[1])
    gates = draws.weights @ root.T  # their squares sum to the mean square
    size = np.sqrt((gates**2).sum(axis=(1, 2)))
    size = np.where(size > 0.0, size, 1.0)
    flat = gates.reshape(len(gates), -1) / size[:, None]
    axis = np.linalg.eigh(flat.T @ flat)[1][:, -1]
    signs = np.where(flat @ axis < 0.0, -1.0, 1.0)
    mean = (signs / size) @ draws.weights[:, :, 0].sum(axis=1)
    signs *= 1.0 if mean >= 0.0 else -1.0
    return draws._replace(
        weights=(signs / size)[:, None, None] * draws.weights,
        dual=(signs * size)[:, None] * draws.dual,
        intermediate_std=size * draws.intermediate_std,
    )


def parts_of_draws(
    stack: KernelStack, features: np.ndarray, draws: LocalDraws
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return shares and localities of every draw, each (n_draws, n_kernels).

    A share is the spread over training samples of what a kernel adds to the score, :math:`e_m(z_i) k_{mi}^\top a`,
    divided by the sum of these. The locality is :math:`\mathrm{Var}_i\, e_m(z_i) / \frac1N \sum_i e_m(z_i)^2`: zero
    of a gate that is the same everywhere, one of a gate that is zero on average. Neither knows of the common sign of
    (a, w), or of their scales.

    Parameters
    ----------
    stack : KernelStack
        Training kernels.
    features : ndarray of shape (n_samples, n_features)
    draws : LocalDraws
    """
    gates = draws.gates(features)
    outputs = stack.apply(draws.dual.T)  # (n_kernels, n_samples, n_draws)
    spreads = (gates * outputs.transpose(2, 1, 0)).std(axis=1)
    total = spreads.sum(axis=1, keepdims=True)
    uniform = np.full_like(spreads, 1.0 / spreads.shape[1])
    shares = np.divide(spreads, total, out=uniform, where=total > 0.0)
    square = (gates**2).mean(axis=1)
    locality = np.divide(gates.var(axis=1), square, out=np.zeros_like(square), where=square > 0.0)
    if features.shape[1] == 1:
        locality = np.zeros_like(square)  # and not rounding errors
    return shares, locality


def summarize(stack: KernelStack, features: np.ndarray, draws: LocalDraws) -> LocalSummary:
    """Return moments and intervals of `parts_of_draws`, whose parameters these are."""
    shares, locality = parts_of_draws(stack, features, draws)
    tail = 0.5 * (1.0 - PROBABILITY)
    return LocalSummary(
        shares.mean(axis=0),
        shares.std(axis=0, ddof=1),
        locality.mean(axis=0),
        np.quantile(locality, [tail, 1.0 - tail], axis=0).T,
    )


def score_of_local_draws(stack: StoredStack, features: np.ndarray, draws: LocalDraws) -> ScoreDraws:
    """Return the scores of new samples by every draw of marginal inference, their noise included.

    Parameters
    ----------
    stack : StoredStack
        Kernels of the new samples (rows) against the training samples.
    features : ndarray of shape (n_rows, n_features)
    draws : LocalDraws
    """
    means = np.repeat(draws.intercept[:, None], len(features), axis=1)
    square = np.zeros_like(means)
    for m, kernel in enumerate(stack.each()):
        gates = draws.weights[:, m] @ features.T
        means += gates * (draws.dual @ kernel.T)
        square += gates**2
    variance = draws.noise_std[:, None] ** 2 + draws.intermediate_std[:, None] ** 2 * square
    return ScoreDraws(means, np.sqrt(variance))


def gate_means(posterior: Any, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and standard deviations of the gates of rows, each (n_rows, n_kernels).

    Parameters
    ----------
    posterior : LocalizedState or LocalDraws
    features : ndarray of shape (n_rows, n_features)
    """
    if isinstance(posterior, LocalDraws):
        mean = features @ posterior.weights.mean(axis=0).T
        covs = [np.atleast_2d(np.cov(own.T)) for own in posterior.weights.swapaxes(0, 1)]
        variance = np.stack([((features @ cov) * features).sum(axis=1) for cov in covs], axis=1)
    else:
        readout = posterior.readout
        mean, second, _ = gate_moments(readout.mean, readout.cov, features)
        variance = np.einsum("imm->im", second) - mean**2
    return mean, np.sqrt(np.maximum(variance, 0.0))


def local_score(
    stack: StoredStack, features: np.ndarray, state: LocalizedState, intermediate_variance: float, rule: str
) -> ScoreMoments:
    """Return mean and variance of the score of new samples, without its own noise.

    Parameters
    ----------
    stack : StoredStack
        Kernels of the new samples (rows) against the training samples.
    features : ndarray of shape (n_rows, n_features)
    state : LocalizedState
    intermediate_variance : float
        E[1/υ]: σ_g² of labels.
    rule : {"full", "paper"}
    """
    readout, outputs = state.readout, stack.apply(state.dual.mean)  # ĝ, (n_kernels, n_rows)
    mean, square, _ = gate_moments(readout.mean, readout.cov, features)
    score = readout.mean[0] + (mean * outputs.T).sum(axis=1)
    inputs = (outputs.T[:, :, None] * features[:, None, :]).reshape(len(features), -1)
    inputs = np.hstack([np.ones((len(features), 1)), inputs])
    variance = ((inputs @ readout.cov) * inputs).sum(axis=1)
    if rule == "full":
        root = np.linalg.cholesky(state.dual.cov)
        turned = np.stack([kernel @ root for kernel in stack.each()], axis=1)  # (n_rows, n_kernels, n_train)
        outputs_cov = turned @ turned.transpose(0, 2, 1)
        variance = variance + (square * outputs_cov).sum(axis=(1, 2))
        variance = variance + intermediate_variance * np.einsum("imm->i", square)
    return ScoreMoments(score, variance)
