"""Ranks of the truth among draws from a posterior, and how far they are from uniform."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import binom, ks_2samp

LEVELS = (0.5, 0.8, 0.94)
GRID = np.arange(1, 20) / 20.0
N_LINES = 4


def weighted_rank(
    values: np.ndarray, weights: np.ndarray, n_effective: float, truth: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    r"""Return where the truth lies among weighted draws, between 0 and 1.

    With `n` equally likely draws the rank plus a uniform number is divided by `n + 1`: the truth counts as one more
    draw. Of weighted draws the same is asked of their effective number, :math:`(n_{\mathrm{eff}} F_< + U
    (n_{\mathrm{eff}} F_= + 1)) / (n_{\mathrm{eff}} + 1)`, with F the weight below the truth and of what equals it.

    Parameters
    ----------
    values : ndarray of shape (n_draws, entries)
    weights : ndarray of shape (n_draws,)
        They sum to one.
    n_effective : float
    truth : ndarray of shape (entries,)
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (entries,)

    Examples
    --------
    >>> values, weights = np.array([[0.0], [1.0], [2.0]]), np.array([0.2, 0.2, 0.6])
    >>> rank = weighted_rank(values, weights, 3.0, np.array([1.5]), np.random.default_rng(0))
    >>> bool(0.3 < rank[0] < 0.55)  # 1.2 of three draws are below, and the truth has the place up to 2.2
    True
    """
    below, equal = weights @ (values < truth), weights @ (values == truth)
    ties = rng.random(len(truth)) * (n_effective * equal + 1.0)
    return (n_effective * below + ties) / (n_effective + 1.0)


def coverage(uniform: np.ndarray) -> dict[str, list[float]]:
    """Coverage in per cent of central intervals, and its standard error; `uniform` is (simulations, entries)."""
    means, errors = [], []
    for level in LEVELS:
        share = (np.abs(uniform - 0.5) <= level / 2).mean(axis=1)
        means.append(100.0 * float(share.mean()))
        errors.append(100.0 * float(share.std(ddof=1)) / np.sqrt(len(share)))
    return {"coverage": means, "standard_error": errors}


def ecdf_difference(uniform: np.ndarray) -> list[list[float]]:
    """Distribution function of the ranks minus the uniform one on `GRID`, for at most four entries, spread evenly."""
    entries = np.unique(np.linspace(0, uniform.shape[1] - 1, N_LINES).astype(int))
    ecdf = (uniform[:, entries, None] <= GRID).mean(axis=0) - GRID
    return ecdf.round(4).tolist()


@cache
def simultaneous_band(n: int, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Bounds that the ECDF difference of `n` uniform numbers stays within on all of `GRID`."""
    cells = np.full(len(GRID) + 1, 1.0 / (len(GRID) + 1))
    counts = np.random.default_rng(0).multinomial(n, cells, size=20_000).cumsum(axis=1)[:, :-1]
    tail = np.minimum(binom.cdf(counts, n, GRID), binom.sf(counts - 1, n, GRID)).min(axis=1)
    each = np.quantile(tail, 1.0 - level)
    return binom.ppf(each, n, GRID) / n - GRID, binom.isf(each, n, GRID) / n - GRID


def asymmetry(uniform: np.ndarray) -> float:
    """Return the p-value of the Kolmogorov-Smirnov test that `uniform`, (simulations,), and 1 minus it are alike."""
    return float(ks_2samp(uniform, 1.0 - uniform).pvalue)
