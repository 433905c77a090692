"""Agreement of Markov chains."""

from __future__ import annotations

import numpy as np

__all__ = ["agreement"]


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
