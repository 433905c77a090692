"""ROC, precision-recall and calibration curves of stored predictions, and their means over splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

if TYPE_CHECKING:
    from bayesmkl.evaluation.stored import StoredPredictions

__all__ = ["CURVES", "Curve", "curve_of", "mean_curve"]

GRID = np.linspace(0.0, 1.0, 101)
N_BINS = 10
CURVES = {
    "roc": ("false positive rate", "true positive rate"),
    "precision_recall": ("recall", "precision"),
    "calibration": ("predicted probability", "observed frequency"),
}  # what lies on the axes


class Curve(NamedTuple):
    """Curve of one split on a common grid.

    Parameters
    ----------
    y : ndarray of shape (n_points,)
        NaN where there is none.
    x_sums, n_samples : ndarray of shape (n_points,)
        Of calibration, sums of probabilities and samples by bin; else zeros.
    """

    y: np.ndarray
    x_sums: np.ndarray
    n_samples: np.ndarray


def curve_of(kind: str, stored: StoredPredictions, positive: Any = None) -> Curve | None:
    """Return the curve of one cell; None where the model does not give what it needs, or has only one class to test.

    Raises
    ------
    ValueError
        If `positive` is no class, or must be given.
    """
    if stored.task != "classification":
        return None
    place = _place(stored.classes, positive)
    right = stored.y == stored.classes[place]
    if kind == "calibration":
        return (
            _calibration(right, stored.probabilities()[:, place])
            if "probabilities" in stored.offers
            else None
        )
    if "scores" not in stored.offers or right.all() or not right.any():
        return None
    scores = stored.scores()
    scores = (scores if place else -scores) if scores.ndim == 1 else scores[:, place]
    y = _roc(right, scores) if kind == "roc" else _precision(right, scores)
    return Curve(y, np.zeros(len(GRID)), np.zeros(len(GRID)))


def _place(classes: np.ndarray, positive: Any) -> int:
    if positive is None and len(classes) == 2:
        return 1
    found = np.flatnonzero(classes == positive) if positive is not None else np.array([], dtype=int)
    if len(found) != 1:
        raise ValueError(f"`positive` must be one of the classes {classes.tolist()}; got {positive!r}.")
    return int(found[0])


def _roc(right: np.ndarray, scores: np.ndarray) -> np.ndarray:
    false, true, _ = roc_curve(right, scores)
    return np.interp(GRID, false, true)  # of equal rates the last, which is the highest


def _precision(right: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the precision at the highest threshold that has at least the recall."""
    precision, recall, _ = precision_recall_curve(right, scores)  # recall falls, from the lowest threshold on
    precision, recall = precision[-2::-1], recall[-2::-1]  # without the point of no threshold
    return precision[np.searchsorted(recall, GRID - 1e-12)]


def _calibration(right: np.ndarray, probabilities: np.ndarray) -> Curve:
    """Return frequencies in bins of equal width."""
    bins = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
    n = np.bincount(bins, minlength=N_BINS).astype(float)
    hits = np.bincount(bins, weights=right.astype(float), minlength=N_BINS)
    sums = np.bincount(bins, weights=probabilities, minlength=N_BINS)
    return Curve(np.divide(hits, n, out=np.full(N_BINS, np.nan), where=n > 0), sums, n)


def mean_curve(kind: str, curves: list[Curve]) -> pd.DataFrame:
    """Return mean and spread of curves over splits, see :meth:`Comparison.curve`."""
    y = np.array([one.y for one in curves])
    if kind != "calibration":
        return _spread(GRID, y, y.mean(axis=0))
    n, sums = (np.array([getattr(one, name) for one in curves]) for name in ("n_samples", "x_sums"))
    there = n.sum(axis=0) > 0
    n, sums, y = n[:, there], sums[:, there], y[:, there]
    pooled = np.nansum(y * n, axis=0) / n.sum(axis=0)
    table = _spread(sums.sum(axis=0) / n.sum(axis=0), y, pooled)
    return table.assign(n_samples=n.sum(axis=0).astype(int))


def _spread(x: np.ndarray, y: np.ndarray, mean: np.ndarray) -> pd.DataFrame:
    n = np.isfinite(y).sum(axis=0)
    squares = np.nansum((y - mean) ** 2, axis=0)
    std = np.sqrt(np.divide(squares, n - 1, out=np.full(len(n), np.nan), where=n > 1))
    half = np.nan_to_num(std)
    lower, upper = np.clip(mean - half, 0.0, 1.0), np.clip(mean + half, 0.0, 1.0)
    return pd.DataFrame({"x": x, "mean": mean, "std": std, "lower": lower, "upper": upper, "n": n})
