"""Draws of Markov chains, with how far the chains agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayesmkl.gp.hyperposterior import Draws, Point


def draws_of_chains(coordinates: np.ndarray, points: Sequence[Point], chains: np.ndarray) -> Draws:
    """Return draws of the same weight, chain after chain, without the evidence of the model, which is NaN.

    Parameters
    ----------
    coordinates : ndarray of shape (n_draws, n_coordinates)
        Of all chains together.
    points : sequence of Point
        What was found at each draw.
    chains : ndarray of shape (n_chains, n_draws, n)
        Numbers that the chains should agree on.
    """
    rhat, ess = agreement(chains)
    weights = np.full(len(coordinates), 1.0 / len(coordinates))
    return Draws(coordinates, weights, tuple(points), np.nan, np.nan, ess, rhat)


def agreement(chains: np.ndarray) -> tuple[float, float]:
    """Return the largest R-hat of numbers, (n_chains, n_draws, n), and the smallest effective number of draws.

    Numbers that never move say nothing.
    """
    from arviz_stats.base import array_stats

    moving = chains[..., np.ptp(chains, axis=(0, 1)) > 0.0]
    if not moving.shape[-1]:
        return np.nan, float(chains.shape[0] * chains.shape[1])
    each = np.moveaxis(moving, -1, 0)
    rhat = np.nan if len(chains) == 1 else float(np.nanmax(array_stats.rhat(each)))
    return rhat, float(np.min(array_stats.ess(each)))
