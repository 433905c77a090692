"""Pairs of samples whose events come in the order of their risks."""

from __future__ import annotations

import numpy as np


def ordered_pairs(
    event: np.ndarray, time: np.ndarray, risk: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Return the weight of the pairs that are in order, equal risks half, and that of all whose order is known.

    Parameters
    ----------
    event : ndarray of bool, of shape (n_samples,)
        Whether the event was seen.
    time : ndarray of shape (n_samples,)
        Time to the event, or to censoring, which comes after events of the same time.
    risk : ndarray of shape (n_samples,)
        The higher, the earlier the event.
    weights : ndarray of shape (n_samples,)
        Of a pair by the sample whose event is the earlier.

    Examples
    --------
    >>> seen, nothing = np.array([True, True]), np.ones(2)
    >>> ordered_pairs(seen, np.array([1.0, 2.0]), np.array([0.3, 0.1]), nothing)
    (1.0, 1.0)
    """
    in_order = pairs = 0.0
    for i in np.flatnonzero(event):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        higher, same = np.count_nonzero(risk[i] > risk[later]), np.count_nonzero(risk[i] == risk[later])
        in_order += float(weights[i]) * (higher + 0.5 * same)
        pairs += float(weights[i]) * np.count_nonzero(later)
    return float(in_order), float(pairs)
