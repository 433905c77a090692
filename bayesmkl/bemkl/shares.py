"""Kernel shares: how much of the score each kernel makes, on a scale that the model identifies.

The weights (a, e) are known only up to a common sign and, weakly, a scale: (c a, e / c) fits as well as (a, e). The
spread of each kernel's part of the score, ``sd_i(e_m k_mi' a)``, is free of both. Shares are these spreads divided
by their sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.bemkl._moments import Gaussian
from bayesmkl.bemkl.draws import PosteriorDraws

__all__ = ["KernelShares", "kernel_shares", "share_draws", "shares_of_draws"]

N_DRAWS = 200
BLOCK_SIZE = 2**24  # draws are taken in blocks, so that (n_kernels, n_rows, block) stays near this size


class KernelShares(NamedTuple):
    """Posterior mean and standard deviation of the shares, each of shape (n_kernels,); means sum to one."""

    mean: np.ndarray
    std: np.ndarray


def share_draws(stack: Any, dual: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the shares of given parameters.

    Parameters
    ----------
    stack : DenseStack
        Training kernels.
    dual : array of shape (n_draws, n_train)
    weights : array of shape (n_draws, n_kernels)

    Returns
    -------
    array of shape (n_draws, n_kernels)
        Every row sums to one (a row without any spread is uniform).
    """
    block = max(1, BLOCK_SIZE // (stack.n_kernels * stack.n_rows))
    starts = range(0, len(dual), block)
    spreads = [stack.apply(dual[start : start + block].T).std(axis=1).T for start in starts]
    spread = np.concatenate(spreads) * np.abs(weights)
    total = spread.sum(axis=1, keepdims=True)
    uniform = np.full_like(spread, 1.0 / spread.shape[1])
    return np.divide(spread, total, out=uniform, where=total > 0.0)


def kernel_shares(stack: Any, dual: Gaussian, readout: Gaussian, rng: np.random.Generator) -> KernelShares:
    """Posterior mean and standard deviation of the shares, by Monte Carlo over q(a) q(e).

    Parameters
    ----------
    stack : DenseStack
        Training kernels.
    dual, readout : Gaussian
        q(a) and q(b, e).
    rng : numpy.random.Generator
    """
    return _moments(share_draws(stack, dual.draw(N_DRAWS, rng), readout.draw(N_DRAWS, rng)[:, 1:]))


def shares_of_draws(stack: Any, draws: PosteriorDraws) -> KernelShares:
    """Posterior mean and standard deviation of the shares over draws with one leading axis."""
    return _moments(share_draws(stack, draws.dual, draws.kernel_weights))


def _moments(shares: np.ndarray) -> KernelShares:
    return KernelShares(shares.mean(axis=0), shares.std(axis=0, ddof=1))
