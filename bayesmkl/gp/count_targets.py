"""Counts as targets: their fields, checked, and the score that all of them together speak for."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

WIDEST = 40.0  # difference of logarithms of exposures, a factor of 2e17
LARGEST_COUNT = 1e9  # beyond some 1e11 steps of the evidence lose their digits
LEAST_RATE = 0.5  # counts, or successes, that a target has at least when its mean rate is taken


def count_fields(y: np.ndarray, of_trials: bool) -> np.ndarray:
    """Return counts as (n_outputs, n_fields, n_samples), checked."""
    wrong = (y < 0.0) | (y != np.floor(y))
    if wrong.any():
        raise ValueError(
            f"`y` must hold counts, whole numbers that are not negative, with this `likelihood`; got "
            f'{y[wrong].flat[0]:g}. Round them if they are counts, or use likelihood="gaussian".'
        )
    if y.max() > LARGEST_COUNT:
        raise ValueError(
            f"`y` must hold counts of at most {LARGEST_COUNT:g} with this `likelihood`; got {y.max():g}. Counts that "
            'large are as good as numbers: fit their logarithms, np.log1p(y), with likelihood="gaussian".'
        )
    if not of_trials:
        return np.atleast_2d(y.T)[:, None]
    if y.ndim != 2 or y.shape[1] != 2:
        raise ValueError(
            f'`y` must be of shape (n_samples, 2) with likelihood="beta-binomial": successes and trials; got '
            f"{y.shape}."
        )
    over = (y[:, 0] > y[:, 1]) | (y[:, 1] < 1.0)
    if over.any():
        first = int(np.flatnonzero(over)[0])
        raise ValueError(
            f"`y` must hold at least one trial for each sample and no more successes than trials; got "
            f"{y[first, 0]:g} of {y[first, 1]:g} for sample {first} ({int(over.sum())} in all). Correct them, or "
            "leave them out."
        )
    return y.T[None]


def check_exposures(offset: np.ndarray) -> None:
    """Raise for offsets of counts that are no logarithms of exposures.

    Examples
    --------
    >>> check_exposures(np.array([1.0, 90.0]))
    Traceback (most recent call last):
    ...
    ValueError: `offset_column` must hold logarithms of exposures with counts; got 1 to 90, ...
    """
    low, high = float(offset.min()), float(offset.max())
    if high - low > WIDEST:
        raise ValueError(
            f"`offset_column` must hold logarithms of exposures with counts; got {low:g} to {high:g}, exposures that "
            f"differ by a factor of 1e{(high - low) / np.log(10.0):.0f}. Take the logarithm of the exposure."
        )


def base_scores(fields: np.ndarray, offset: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return the score of every output that all samples together speak for, beside their offsets."""
    weights = np.ones(len(offset)) if sample_weight is None else sample_weight
    counts = np.maximum(fields[:, 0] @ weights, LEAST_RATE)
    if fields.shape[1] == 1:
        return np.log(counts) - logsumexp(offset, b=weights)
    trials = fields[:, 1] @ weights
    return np.log(counts / np.maximum(trials - counts, LEAST_RATE)) - np.average(offset, weights=weights)
