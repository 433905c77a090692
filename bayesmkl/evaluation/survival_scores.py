"""Scores of survival predictions on a test part, with times and weights by the training part."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.survival_target import event_and_time
from bayesmkl._utils.typing import Samples
from bayesmkl.evaluation.survival import concordance_index, integrated_brier_score
from bayesmkl.evaluation.survival_calibration import survival_calibration

if TYPE_CHECKING:
    from bayesmkl.evaluation.predictions import Predictions

SPAN = (0.1, 0.9)  # of the observed times of events, over which the Brier score is integrated
N_TIMES = 60


def concordance(predictions: Predictions, y: np.ndarray) -> float:
    """Return Harrell's index of the risks."""
    return concordance_index(y, predictions.labels())


def concordance_uno(predictions: Predictions, y: np.ndarray) -> float:
    """Return Uno's index of the risks until the last time of the Brier score."""
    tau = brier_times(predictions.y_train, y)[-1]
    return concordance_index(y, predictions.labels(), y_train=predictions.y_train, tau=tau)


def mean_brier(predictions: Predictions, y: np.ndarray) -> float:
    """Return the integrated Brier score of the survival functions."""
    times = brier_times(predictions.y_train, y)
    return integrated_brier_score(predictions.y_train, y, predictions.survival(times), times)


def calibration_at_median(predictions: Predictions, y: np.ndarray) -> float:
    """Return the calibration error at the median time of the events of the training part."""
    when = median_event(predictions.y_train)
    survival = predictions.survival(np.array([when]))
    return survival_calibration(y, survival[:, 0], when).calibration_error


def median_event(y_train: np.ndarray) -> float:
    """Return the median time of the events of the training part."""
    event, time = event_and_time(y_train, "y_train")
    return float(np.median(time[event]))


def brier_times(y_train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the times of an integrated Brier score, the same for all models of a split.

    Parameters
    ----------
    y_train, y : structured arrays of shapes (n_train,) and (n_samples,)
        Events and times of the training and of the test part.

    Returns
    -------
    ndarray of shape (60,)
        Equally spaced between the first and the last tenth of the events of the training part, as far as the test
        part is followed.

    Raises
    ------
    ValueError
        If the test part is not followed then.

    Examples
    --------
    >>> y = np.rec.fromarrays([np.full(11, True), np.arange(1.0, 12.0)], names="event,time")
    >>> brier_times(y, y[1:])[[0, -1]]
    array([ 2., 10.])
    """
    (event, time), seen = event_and_time(y_train, "y_train"), event_and_time(y)
    low, high = np.quantile(time[event], SPAN)
    low, high = max(low, seen.time.min()), min(high, np.nextafter(seen.time.max(), 0.0))
    if low >= high:
        raise ValueError(
            f"`y` must be followed at the times of the events of training, {SPAN[0]:.0%} to {SPAN[1]:.0%} of them; "
            f"got times from {seen.time.min():g} to {seen.time.max():g}. Score larger test parts."
        )
    return np.linspace(low, high, N_TIMES)


def survival_at(model: Any, X: Samples, times: np.ndarray) -> np.ndarray:
    """Return the survival of rows at times, as a fitted model predicts it.

    Parameters
    ----------
    model : estimator
        With `predict_survival_function`, which takes `times`, or returns a step function for each row as those of
        scikit-survival do; searches and pipelines are seen through.
    X : array-like of shape (n_rows, n_features)
    times : ndarray of shape (n_times,)

    Returns
    -------
    ndarray of shape (n_rows, n_times)
        Step functions are 1 before the times that they are defined for, and constant after them.
    """
    model, X = last_step(model, X)
    predict = model.predict_survival_function
    if "times" in inspect.signature(predict).parameters:
        return np.asarray(predict(X, times=times))
    return np.stack([_of_function(function, times) for function in predict(X)])


def last_step(model: Any, X: Samples) -> tuple[Any, Samples]:
    """Return the fitted estimator at the end of searches and pipelines, and the rows as it takes them."""
    while getattr(model, "steps", None) or hasattr(model, "best_estimator_"):
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            X = model[:-1].transform(X) if len(model.steps) > 1 else X
            model = model.steps[-1][1]
    return model, X


def _of_function(function: Any, times: np.ndarray) -> np.ndarray:
    if not callable(function):
        raise TypeError(
            "`predict_survival_function` must take `times`, or return a function of times for each row; got "
            f"{type(function).__name__}."
        )
    first, last = getattr(function, "domain", (-np.inf, np.inf))
    return np.where(times < first, 1.0, np.asarray(function(np.clip(times, first, last))))
