"""Metrics of predictions of held-out samples, and their picture, by the kind of the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bayesmkl.evaluation.metrics import evaluate_classifier, evaluate_regressor
from bayesmkl.evaluation.plots import plot_survival_calibration
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.survival_calibration import survival_calibration
from bayesmkl.evaluation.survival_scores import concordance, concordance_uno, mean_brier
from bayesmkl.posterior import plot_predictions, plot_reliability

OF_NORMAL_LAWS = ("coverage_95", "nll")


def evaluated(on_test: Predictions, y: np.ndarray, task: str) -> dict[str, float]:
    """Return the metrics of a task by name.

    Parameters
    ----------
    on_test : Predictions
    y : ndarray of shape (n_rows,)
        Targets, structured ones of times.
    task : {"classification", "regression", "counts", "ordinal", "survival"}
    """
    if task == "survival":
        scores: dict[str, Callable[[Predictions, np.ndarray], float]] = {
            "concordance": concordance,
            "concordance_uno": concordance_uno,
            "integrated_brier_score": mean_brier,
        }
        return {name: score(on_test, y) for name, score in scores.items()}
    if task == "ordinal":
        return _of_grades(on_test, y)
    evaluate = evaluate_classifier if task == "classification" else evaluate_regressor
    found = evaluate(on_test.as_model(), on_test.X, y)
    return {name: value for name, value in found.items() if task != "counts" or name not in OF_NORMAL_LAWS}


def _of_grades(on_test: Predictions, y: np.ndarray) -> dict[str, float]:
    """Return the scores of grades: how often they are right, how far off, and two scores of their probabilities."""
    probabilities, codes = on_test.probabilities(), _codes(on_test.classes, y)
    predicted = _codes(on_test.classes, on_test.labels())
    reached = np.cumsum(probabilities, axis=1)[:, :-1]
    was_reached = codes[:, None] <= np.arange(reached.shape[1])
    own = np.maximum(probabilities[np.arange(len(codes)), codes], np.finfo(float).tiny)
    return {
        "accuracy": float(np.mean(predicted == codes)),
        "grades_off": float(np.mean(np.abs(predicted - codes))),
        "log_loss": float(-np.mean(np.log(own))),
        "rps": float(np.mean((reached - was_reached) ** 2)),
    }


def _codes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the places of labels among the grades, from 0."""
    sorter = np.argsort(classes)
    return sorter[np.searchsorted(classes, labels, sorter=sorter)]


def picture(on_test: Predictions, y: np.ndarray, task: str) -> tuple[str, Any]:
    """Return the name of the picture of a task, and its axes; parameters are those of `evaluated`."""
    if task == "survival":
        when = float(np.median(on_test.y_train["time"][on_test.y_train["event"]]))
        found = survival_calibration(y, on_test.survival(np.array([when]))[:, 0], when)
        return "calibration.png", plot_survival_calibration(found)
    if task in ("regression", "counts"):
        return "predicted_vs_observed.png", plot_predictions(y, *on_test.moments())
    labels = on_test.classes
    if task == "ordinal":
        y, labels = _codes(labels, y), np.arange(len(labels))
    return "reliability.png", plot_reliability(y, on_test.probabilities(), labels=labels)
