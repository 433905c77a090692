"""Reliability of predicted probabilities, bin by bin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from bayesmkl._utils.given import as_array, check_numbers
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import check_integer, check_probability, shown

SUM_TO_ONE = 1e-3  # what single precision and rounding to four digits leave


class Reliability(NamedTuple):
    """Predicted and observed frequencies, bin by bin; bins without predictions are left out.

    Parameters
    ----------
    probability : ndarray of shape (n_filled_bins,)
        Mean prediction in each bin.
    frequency : ndarray of shape (n_filled_bins,)
        Observed frequency of its events.
    lower, upper : ndarray of shape (n_filled_bins,)
        Ends of the Wilson interval of that share.
    n_events : ndarray of shape (n_filled_bins,)
        Number of its events.
    edges : ndarray of shape (n_bins + 1,)
        Edges of all bins.
    counts : ndarray of shape (n_bins,)
        Number of predictions in all bins, zeros included.

    Examples
    --------
    >>> from bayesmkl.posterior import reliability
    >>> found = reliability([0, 1, 1, 1], [0.1, 0.8, 0.8, 0.8], n_bins=4)
    >>> found.n_events, found.counts, round(found.calibration_error, 3)
    (array([1, 3]), array([1, 0, 0, 3]), 0.175)
    """

    probability: np.ndarray  # mean prediction in the bin
    frequency: np.ndarray  # observed frequency of its events
    lower: np.ndarray  # Wilson interval of that share
    upper: np.ndarray
    n_events: np.ndarray
    edges: np.ndarray  # of all bins, (n_bins + 1,)
    counts: np.ndarray  # predictions in every bin, (n_bins,)

    @property
    def calibration_error(self) -> float:
        """Mean of ``|frequency - probability|`` over all predictions."""
        return float(np.average(np.abs(self.frequency - self.probability), weights=self.n_events))


@own_settings
def reliability(
    y_true: Targets,
    y_prob: ArrayLike,
    n_bins: int = 10,
    labels: ArrayLike | None = None,
    ci_prob: float = 0.94,
) -> Reliability:
    """Compare predicted probabilities with the frequencies of what they predict.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        Observed outcomes: 0/1, -1/+1 or False/True with a one-dimensional `y_prob`, any labels with a table. With
        several labels per sample, a table of 0/1 of the shape of `y_prob`: every label of every sample is an event.
    y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of every class. A table with two columns counts as the
        probability of its second class; with more, the event is that the most probable class is the true one.
    n_bins : int, default=10
        Number of bins of equal width on [0, 1].
    labels : array-like of shape (n_classes,), default=None
        Class of each column of `y_prob`, ``model.classes_``. None takes the sorted labels in `y_true`.
    ci_prob : float, default=0.94
        Probability content of the Wilson interval of each frequency.

    Returns
    -------
    Reliability
        Mean prediction, frequency and its interval, number of events of every bin that holds predictions.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1], unequal lengths, labels that do not fit, `n_bins` below 1, or a `ci_prob`
        that is not strictly between 0 and 1.
    TypeError
        If an argument is a sparse matrix, or `y_prob` holds other objects than numbers.

    References
    ----------
    M. H. DeGroot and S. E. Fienberg (1983), The comparison and evaluation of forecasters, The Statistician 32.

    E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference, Journal of the American
    Statistical Association 22.

    Examples
    --------
    >>> result = reliability([0, 1, 1, 1], [0.1, 0.8, 0.8, 0.8], n_bins=2)
    >>> result.probability, result.frequency
    (array([0.1, 0.8]), array([0., 1.]))
    """
    n_bins = check_integer("n_bins", n_bins, low=1)
    check_probability("ci_prob", ci_prob)
    happened, probability = _events(
        as_array("y_true", y_true), check_numbers("y_prob", y_prob).astype(np.float64), labels
    )
    edges = np.arange(n_bins + 1) / n_bins  # 6/10 is the double 0.6, which linspace misses by one bit
    bins = np.searchsorted(edges[1:-1], probability, side="right")
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0
    hits = np.bincount(bins, weights=happened, minlength=n_bins)[filled]
    total = np.bincount(bins, weights=probability, minlength=n_bins)[filled]
    n_events = counts[filled]
    intervals = [
        binomtest(int(k), int(n)).proportion_ci(ci_prob, method="wilson")
        for k, n in zip(hits, n_events, strict=True)
    ]
    lower, upper = np.array(intervals).T
    return Reliability(total / n_events, hits / n_events, lower, upper, n_events, edges, counts)


def _events(
    y_true: np.ndarray, y_prob: np.ndarray, labels: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Reduce any classification to one event per sample, or per label of it, and its predicted probability."""
    if y_true.ndim == 2 and y_true.shape == y_prob.shape:
        y_true, y_prob = y_true.ravel(), y_prob.ravel()
    if y_true.ndim != 1 or y_prob.ndim not in (1, 2) or len(y_true) != len(y_prob) or len(y_true) == 0:
        raise ValueError(
            "`y_true` and `y_prob` must hold one label and one row of probabilities per sample, and at least "
            f"one sample; got shapes {y_true.shape} and {y_prob.shape}."
        )
    if not np.all((y_prob >= 0.0) & (y_prob <= 1.0)):
        raise ValueError(
            "`y_prob` must hold probabilities between 0 and 1; got values from "
            f"{y_prob.min():g} to {y_prob.max():g}. Use `predict_proba`, not `decision_function`."
        )
    if any(label is None for label in y_true.tolist()):
        raise ValueError("`y_true` must hold a label of every sample; got None.")
    if y_prob.ndim == 1 and labels is None:
        return _positive(y_true), y_prob
    if y_prob.ndim == 1:
        y_prob = np.stack([1.0 - y_prob, y_prob], axis=1)
    classes = np.unique(y_true) if labels is None else as_array("labels", labels)
    if classes.ndim != 1 or len(classes) != y_prob.shape[1] or len(np.unique(classes)) < len(classes):
        raise ValueError(
            f"`labels` must name the class of each of the {y_prob.shape[1]} columns of `y_prob`, each once; got "
            f"{shown(classes.tolist())}. Pass the `classes_` of the model."
        )
    unknown = np.setdiff1d(y_true, classes)
    if len(unknown):
        raise ValueError(
            f"`y_true` holds labels that `labels` does not: {unknown.tolist()} are not in {classes.tolist()}."
        )
    sums = y_prob.sum(axis=1)
    if np.abs(sums - 1.0).max() > SUM_TO_ONE:
        raise ValueError(
            f"`y_prob` must have rows that sum to one; got sums from {sums.min():g} to {sums.max():g}. Of "
            "labels that a sample may have together, pass `y_true` of the same shape."
        )
    if len(classes) == 2:
        return y_true == classes[1], y_prob[:, 1]
    top = y_prob.argmax(axis=1)
    return y_true == classes[top], y_prob[np.arange(len(top)), top]


def _positive(y_true: np.ndarray) -> np.ndarray:
    numeric = y_true.dtype.kind in "biuf"
    if not numeric or not (np.isin(y_true, (0, 1)).all() or np.isin(y_true, (-1, 1)).all()):
        raise ValueError(
            "`y_true` must hold 0/1, -1/+1 or False/True where `y_prob` is one-dimensional; got "
            f"{np.unique(y_true)[:5].tolist()}. Compare with the positive label first: y_true == label."
        )
    return y_true == 1
