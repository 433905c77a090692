"""Kernel shares: how much of the score each kernel makes, on a scale that the model identifies.

The weights (a, e) are known only up to a common sign and, weakly, a scale: (c a, e / c) fits as well as (a, e). The
spread of each kernel's part of the score, ``sd_i(e_m k_mi' a)``, is free of both. Shares are these spreads divided
by their sum. Where several outputs share the weights, the spread of a kernel's part is that of all their scores, the
root of its mean variance over outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl.bemkl.models.moments import Gaussian
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.kernels.stacks.base import KernelStack, Spread

N_DRAWS = 200


class KernelShares(NamedTuple):
    """Posterior mean and standard deviation of the shares, each of shape (n_kernels,); means sum to one."""

    mean: np.ndarray
    std: np.ndarray


def share_draws(stack: KernelStack, dual: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the shares of given parameters.

    Parameters
    ----------
    stack : KernelStack
        Training kernels.
    dual : array of shape (n_draws, n_train) or (n_outputs, n_draws, n_train)
    weights : array of shape (n_draws, n_kernels)

    Returns
    -------
    array of shape (n_draws, n_kernels)
        Every row sums to one (a row without any spread is uniform).
    """
    spreads = [stack.spread(draws.T) for draws in (dual if dual.ndim == 3 else dual[None])]
    return _shares(spreads, weights)


def shares_and_sums(stack: KernelStack, draws: PosteriorDraws) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the shares of draws with one leading axis, and each output's mean scores without the intercept.

    Kernels that are evaluated whenever they are needed are evaluated once for both.

    Parameters
    ----------
    stack : KernelStack
        Training kernels.
    draws : PosteriorDraws

    Returns
    -------
    shares : array of shape (n_draws, n_kernels)
    sums : list of array of shape (n_draws, n_rows)
    """
    both = [stack.spread_and_sum(own.dual.T, draws.kernel_weights) for own in draws.outputs()]
    return _shares([spread for spread, _ in both], draws.kernel_weights), [sums for _, sums in both]


def _shares(spreads: list[Spread], weights: np.ndarray) -> np.ndarray:
    variances = [spread.variance.T for spread in spreads]
    spread = np.sqrt(np.mean(variances, axis=0)) * np.abs(weights)
    total = spread.sum(axis=1, keepdims=True)
    uniform = np.full_like(spread, 1.0 / spread.shape[1])
    return np.divide(spread, total, out=uniform, where=total > 0.0)


def kernel_shares(
    stack: KernelStack, dual: Gaussian, readout: Gaussian, rng: np.random.Generator
) -> KernelShares:
    """Return the posterior mean and standard deviation of the shares, by Monte Carlo over q(a) q(e).

    Parameters
    ----------
    stack : KernelStack
        Training kernels.
    dual, readout : Gaussian
        q(a), with a leading axis if there are several outputs, and q(b, e), all intercepts first.
    rng : numpy.random.Generator
    """
    outputs = [dual] if dual.mean.ndim == 1 else [Gaussian(*fields) for fields in zip(*dual, strict=True)]
    draws = np.stack([output.draw(N_DRAWS, rng) for output in outputs])
    return _moments(share_draws(stack, draws, readout.draw(N_DRAWS, rng)[:, len(outputs) :]))


def share_of_each(stack: KernelStack, draws: PosteriorDraws) -> np.ndarray:
    """Return the shares of draws with one leading axis, (n_draws, n_kernels)."""
    outputs = draws.outputs()
    dual = np.stack([own.dual for own in outputs]) if draws.has_outputs else draws.dual
    return share_draws(stack, dual, draws.kernel_weights)


def shares_of_draws(stack: KernelStack, draws: PosteriorDraws) -> KernelShares:
    """Return the posterior mean and standard deviation of the shares over draws with one leading axis."""
    return _moments(share_of_each(stack, draws))


def _moments(shares: np.ndarray) -> KernelShares:
    return KernelShares(shares.mean(axis=0), shares.std(axis=0, ddof=1))
