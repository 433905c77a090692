"""Pareto smoothed importance weights, by ArviZ."""

from __future__ import annotations

import math

import numpy as np

from bayesmkl._utils.warnings import holding_back

SAME = 1e-3  # weights whose logarithms differ by less need no smoothing
SMALL = 1.0  # so little a spread of log ratios is no heavy tail


def smooth_weights(log_ratios: np.ndarray, relative_efficiency: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Smooth importance weights and measure how heavy their tail is.

    Parameters
    ----------
    log_ratios : array of shape (..., n_draws)
        Logarithms of target over proposal density, up to a constant.
    relative_efficiency : float, default=1.0
        Effective draws per draw, where the draws are Markov chains.

    Returns
    -------
    log_weights : array of shape (..., n_draws)
        Of weights that sum to one.
    pareto_k : array of shape (...)
        Shape of the generalized Pareto distribution of the largest ratios; zero where these are nearly the same, and
        infinite where they differ but no distribution can be fitted.

    Examples
    --------
    >>> log_ratios = np.random.default_rng(0).exponential(size=1000)  # their exponentials have the tail index 1
    >>> log_weights, pareto_k = smooth_weights(log_ratios)
    >>> round(float(np.exp(log_weights).sum()), 6), bool(abs(pareto_k - 1.0) < 0.2)
    (1.0, True)
    """
    from arviz_stats.base import array_stats

    rows = log_ratios.reshape(-1, log_ratios.shape[-1])
    raw = rows - np.logaddexp.reduce(rows, axis=1)[:, None]
    log_weights, pareto_k = raw.copy(), np.zeros(len(rows))
    n_tail = math.ceil(0.1 * rows.shape[1])
    largest = np.sort(rows, axis=1)[:, -n_tail:]
    has_tail = largest[:, -1] - largest[:, 0] > SAME
    if has_tail.any():
        with holding_back(Warning):  # what ArviZ warns of, `pareto_k` says
            log_weights[has_tail], pareto_k[has_tail] = array_stats.psislw(
                -rows[has_tail], r_eff=relative_efficiency, axis=-1
            )
    known = np.isfinite(rows)  # a ratio of zero is a weight of zero
    failed = (~np.isfinite(log_weights) & known).any(axis=1)  # most of the tail is the same
    log_weights[failed] = raw[failed]
    pareto_k[failed] = np.where(np.ptp(rows[failed], axis=1) < SMALL, 0.0, np.inf)
    return log_weights.reshape(log_ratios.shape), pareto_k.reshape(log_ratios.shape[:-1])


def good_k(n_draws: int) -> float:
    """Return the largest k at which that many draws are enough (Vehtari et al. 2024, eq. 13)."""
    return min(1.0 - 1.0 / math.log10(n_draws), 0.7)
