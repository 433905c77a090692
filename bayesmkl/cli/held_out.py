"""Rows that are held out of a fit: which ones, and what a model of each task makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from bayesmkl.cli.report import say
from bayesmkl.cli.tables import named
from bayesmkl.evaluation import evaluate_classifier, evaluate_regressor, survival_calibration
from bayesmkl.evaluation.design_groups import labels_of
from bayesmkl.evaluation.plots import plot_survival_calibration
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.survival_scores import concordance, concordance_uno, mean_brier
from bayesmkl.posterior import plot_predictions, plot_reliability

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from bayesmkl.cli.fit_options import FitOptions

__all__ = ["evaluated", "held_out", "picture", "predicted"]

TAIL = 0.03  # of the time to an event, on either side of its interval


def held_out(
    features: pd.DataFrame, y: np.ndarray, known: np.ndarray, options: FitOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of rows to fit and of rows to test, of those whose target is known.

    Classes, grades, events and tasks are spread over both; groups of a design stay together, as in comparisons.
    """
    if options.group:
        columns = [list(features.columns).index(name) for name in options.group]
        groups = labels_of(features, columns)[known]
        if len(np.unique(groups)) < 2:
            raise ValueError(
                f"--group {named(options.group)} connects all rows, so that no group can be held out for the "
                "metrics. Leave one of the columns out."
            )
        splitter = GroupShuffleSplit(1, test_size=options.test_size, random_state=options.seed)
        train, test = next(splitter.split(known, groups=groups))
        say(f"Rows held out are those of {len(np.unique(groups[test]))} groups of {named(options.group)}.")
        return known[train], known[test]
    spread: Any = None
    of = ""
    if options.task == "survival":
        spread, of = y["event"][known], f"--event {options.event!r}"
    elif options.task != "regression":
        spread = np.unique(y[known], return_inverse=True)[1]  # of which there are enough
    elif options.task_column is not None:
        spread, of = features[options.task_column].to_numpy()[known], f"--task-column {options.task_column!r}"
    if of and np.unique(spread, return_counts=True)[1].min() < 2:
        raise ValueError(
            f"{of} must have at least two rows of every value, one to fit and one to test; got a value of one row. "
            "Leave the row out."
        )
    train, test = train_test_split(
        known, test_size=options.test_size, random_state=options.seed, stratify=spread
    )
    return train, test


def evaluated(on_test: Predictions, y: np.ndarray, task: str) -> dict[str, float]:
    """Return the metrics of a task by name."""
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
    return evaluate(on_test.as_model(), on_test.X, y)


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
    """Return the name of the picture of a task, and its axes."""
    if task == "survival":
        when = float(np.median(on_test.y_train["time"][on_test.y_train["event"]]))
        found = survival_calibration(y, on_test.survival(np.array([when]))[:, 0], when)
        return "calibration.png", plot_survival_calibration(found)
    if task == "regression":
        return "predicted_vs_observed.png", plot_predictions(y, *on_test.moments())
    labels = on_test.classes
    if task == "ordinal":
        y, labels = _codes(labels, y), np.arange(len(labels))
    return "reliability.png", plot_reliability(y, on_test.probabilities(), labels=labels)


def predicted(model: BaseEstimator, features: pd.DataFrame, task: str) -> dict[str, np.ndarray]:
    """Return the columns of the table of predictions, which are all finite."""
    predictions = Predictions(model, features)
    first: dict[str, np.ndarray] = {}
    if task == "survival":
        rows, last = model[:-1].transform(features), model[-1]
        columns = {"risk": predictions.labels(), "median": last.predict_quantile(rows)}
        columns |= {
            "lower": last.predict_quantile(rows, TAIL),
            "upper": last.predict_quantile(rows, 1.0 - TAIL),
        }
    elif task == "regression":
        mean, std = predictions.moments()
        columns = {"mean": mean, "sd": std}
    else:
        probabilities = predictions.probabilities()
        columns = {f"probability_{c}": probabilities[:, k] for k, c in enumerate(model.classes_)}
        first = {"prediction": predictions.labels()}
    unusable = ~np.isfinite(list(columns.values())).all(axis=0)
    if unusable.any():
        raise ValueError(
            f"{unusable.sum()} of {len(features)} predictions are not finite, the first one of row "
            f"{np.flatnonzero(unusable)[0] + 1}. Its values are far from those that the model was fitted to, or the "
            "model is damaged: fit it again."
        )
    return first | columns
