"""ROC, precision-recall and calibration curves of stored predictions, and their means over splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

if TYPE_CHECKING:
    from bayesmkl.evaluation.stored import StoredPredictions

GRID = np.linspace(0.0, 1.0, 101)
N_BINS = 10
CURVES = {
    "roc": ("false positive rate", "true positive rate"),
    "precision_recall": ("recall", "precision"),
    "calibration": ("predicted probability", "observed frequency"),
}  # what lies on the axes


class Calibrated(NamedTuple):
    """Probabilities of one split.

    Parameters
    ----------
    right : ndarray of bool of shape (n_rows,)
        Whether rows are of the class.
    probabilities : ndarray of shape (n_rows,)
    """

    right: np.ndarray
    probabilities: np.ndarray


def positive_class(cells: list[StoredPredictions], positive: Any = None) -> Any:
    """Return the class that all curves are of: of splits whose training parts differ in classes the same one.

    Raises
    ------
    ValueError
        If `positive` is no class, or must be given.
    """
    those = [stored.classes for stored in cells if _has_one_class(stored)]
    if not those:
        return positive
    classes = np.unique(np.concatenate(those))
    return classes[_place(classes, positive)]


def _has_one_class(stored: StoredPredictions) -> bool:
    """Return whether each row has one class."""
    return stored.task == "classification" and stored.y.ndim == 1


def curve_of(kind: str, stored: StoredPredictions, positive: Any) -> np.ndarray | Calibrated | None:
    """Return the curve of one cell on the grid, or what calibration takes.

    None where the model does not give what it needs, or does not know the class, or there is only one class to test.
    """
    if not _has_one_class(stored) or positive not in stored.classes:
        return None
    place = _place(stored.classes, positive)
    right = stored.y == stored.classes[place]
    if kind == "calibration":
        given = "probabilities" in stored.offers
        return Calibrated(right, stored.probabilities()[:, place]) if given else None
    if "scores" not in stored.offers or right.all() or not right.any():
        return None
    scores = stored.scores()
    scores = (scores if place else -scores) if scores.ndim == 1 else scores[:, place]
    return _roc(right, scores) if kind == "roc" else _precision(right, scores)


def _place(classes: np.ndarray, positive: Any) -> int:
    if positive is None and len(classes) == 2:
        return 1
    known = positive is not None and np.ndim(positive) == 0
    found = np.flatnonzero(classes == positive) if known else np.array([], dtype=int)
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


def mean_curve(kind: str, curves: list[Any]) -> pd.DataFrame:
    """Return mean and spread of curves over splits, see :meth:`Comparison.curve`."""
    if kind == "calibration":
        return _calibration(curves)
    y = np.array(curves)
    return _spread(GRID, y, y.mean(axis=0))


def _calibration(parts: list[Calibrated]) -> pd.DataFrame:
    """Return frequencies in tenths of the probabilities of all splits, ties in one of them."""
    pooled = np.concatenate([part.probabilities for part in parts])
    edges = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, N_BINS + 1)[1:-1]))
    n, hits, sums = np.zeros((3, len(parts), len(edges) + 1))
    for k, part in enumerate(parts):
        bins = np.searchsorted(edges, part.probabilities, side="right")
        for table, weights in ((n, None), (hits, part.right.astype(float)), (sums, part.probabilities)):
            table[k] = np.bincount(bins, weights=weights, minlength=len(edges) + 1)
    there = n.sum(axis=0) > 0
    n, hits, sums = n[:, there], hits[:, there], sums[:, there]
    total = n.sum(axis=0)
    y = np.divide(hits, n, out=np.full(n.shape, np.nan), where=n > 0)
    found = _spread(sums.sum(axis=0) / total, y, hits.sum(axis=0) / total)
    return found.assign(n_samples=total.astype(int))


def _spread(x: np.ndarray, y: np.ndarray, mean: np.ndarray) -> pd.DataFrame:
    n = np.isfinite(y).sum(axis=0)
    squares = np.nansum((y - mean) ** 2, axis=0)
    std = np.sqrt(np.divide(squares, n - 1, out=np.full(len(n), np.nan), where=n > 1))
    half = np.nan_to_num(std)
    lower, upper = np.clip(mean - half, 0.0, 1.0), np.clip(mean + half, 0.0, 1.0)
    return pd.DataFrame({"x": x, "mean": mean, "std": std, "lower": lower, "upper": upper, "n": n})
