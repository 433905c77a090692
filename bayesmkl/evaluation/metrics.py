"""Metrics of predictions, probabilities and intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    log_loss,
    r2_score,
    roc_auc_score,
    roc_curve,
    root_mean_squared_error,
)
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bayesmkl._utils.given import as_array, finite_numbers, naming, refuse_unevaluated
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import shown
from bayesmkl.posterior.checks import reliability

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


TAIL_95 = norm.ppf(0.975)  # half width of a central 95 % interval in standard deviations


def expected_calibration_error(
    y_true: ArrayLike, y_prob: ArrayLike, n_bins: int = 10, labels: ArrayLike | None = None
) -> float:
    r"""Average the distance between predicted probabilities and observed frequencies.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{N} \bigl| \bar y_b - \bar p_b \bigr|

    over bins of equal width, with :math:`\bar p_b` the mean prediction and :math:`\bar y_b` the frequency of the
    predicted event in bin b.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        0/1, -1/+1 or False/True with a one-dimensional `y_prob`, any labels with a table.
    y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of every class. A table with two columns counts as the probability
        of its second class; with more, the event is that the most probable class is the true one (top-label
        calibration).
    n_bins : int, default=10
        Number of bins on [0, 1].
    labels : array-like of shape (n_classes,), default=None
        Class of each column of `y_prob`, ``model.classes_``. None takes the sorted labels in `y_true`.

    Returns
    -------
    float
        Between 0 (calibrated) and 1.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1], unequal lengths, labels that do not fit, or `n_bins` below 1.
    TypeError
        If an argument is a sparse matrix, or `y_prob` holds other objects than numbers.

    Notes
    -----
    With few samples per bin the error of a perfectly calibrated model is above zero: it is of the order of
    :math:`\sqrt{n_\mathrm{bins} / N}` at the worst. Compare models on the same samples only.

    References
    ----------
    .. [1] M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
       binning", AAAI 2015.

    Examples
    --------
    Four predictions of 0.75 of which three come true are calibrated; of 0.95 they would be 0.2 too sure:

    >>> from bayesmkl.evaluation import expected_calibration_error
    >>> expected_calibration_error([1, 1, 1, 0], [0.75, 0.75, 0.75, 0.75])
    0.0
    >>> round(expected_calibration_error([1, 1, 1, 0], [0.95, 0.95, 0.95, 0.95]), 6)
    0.2
    """
    return reliability(y_true, y_prob, n_bins, labels).calibration_error


def equal_error_rate(y_true: ArrayLike, y_score: ArrayLike, labels: ArrayLike | None = None) -> float:
    r"""Find the error rate at the threshold where false alarms are as frequent as misses.

    .. math:: \mathrm{EER} = P(s > t \mid y = -1) = P(s \le t \mid y = +1)

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of any kind. Of two classes the second is the positive one.
    y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
        Scores that are high for the positive class, or for each class. A table with two columns counts as the score
        of its second class; with more, the rates of each class against the others are averaged over the classes that
        occur in `y_true`.
    labels : array-like of shape (n_classes,), default=None
        All classes, in the order of the columns of `y_score`: ``model.classes_``. None takes the sorted labels in
        `y_true`.

    Returns
    -------
    float
        Between 0 (the classes are separated) and 1; chance is 0.5.

    Raises
    ------
    ValueError
        If `y_true` holds a single class or lacks labels, `y_score` is not finite or of another length, or `labels`
        are not the classes.
    TypeError
        If an argument is a sparse matrix, or `y_score` holds other objects than numbers.

    Notes
    -----
    Between the thresholds that the scores allow, rates are interpolated linearly, as is the area under the curve.

    Examples
    --------
    Thresholds miss one of four or raise one false alarm of four:

    >>> from bayesmkl.evaluation import equal_error_rate
    >>> equal_error_rate([0, 0, 0, 1, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.35, 0.4, 0.7, 0.8, 0.9])
    0.25
    """
    return _mean_over_events(_equal_error, y_true, y_score, labels)


def area_under_curve(y_true: ArrayLike, y_score: ArrayLike, labels: ArrayLike | None = None) -> float:
    """Return the area under the receiver operating curve; arguments and errors as of :func:`equal_error_rate`."""
    return _mean_over_events(roc_auc_score, y_true, y_score, labels)


def _mean_over_events(
    measure: Callable[[np.ndarray, np.ndarray], float],
    y_true: ArrayLike,
    y_score: ArrayLike,
    labels: ArrayLike | None,
) -> float:
    events = _events(_labels("y_true", y_true), finite_numbers("y_score", y_score), labels)
    if not events:
        raise ValueError(
            f"`y_true` must hold at least two classes; got {np.unique(y_true).tolist()}. There are no misses, or no "
            "false alarms, without samples of both kinds."
        )
    return float(np.mean([measure(*event) for event in events]))


def _events(
    y_true: np.ndarray, y_score: np.ndarray, labels: ArrayLike | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split any classification into events that happened or not and their scores; constant events are left out.

    There is one event for scores of two classes, else one for each class against the others.
    """
    if not len(y_true):
        raise ValueError("`y_true` must hold at least one label; got none.")
    classes = np.unique(y_true) if labels is None else as_array("labels", labels)
    once = classes.ndim == 1 and len(np.unique(classes)) == len(classes)
    if not once or (labels is not None and (len(classes) < 2 or not np.isin(y_true, classes).any())):
        raise ValueError(
            f"`labels` must hold at least two classes, each once, among them those in `y_true`; got "
            f"{shown(classes.tolist())} with labels "
            f"{shown(np.unique(y_true).tolist())}. Pass the `classes_` of the model."
        )
    n_classes = y_score.shape[1] if y_score.ndim == 2 else min(len(classes), 2)
    if y_score.shape[:1] != y_true.shape or y_score.ndim > 2 or len(classes) != n_classes:
        raise ValueError(
            "`y_score` must have a row for every sample in `y_true`, and a column for every class in `labels` "
            f"unless there are two; got shapes {y_true.shape} and {y_score.shape}, and classes {classes.tolist()}."
        )
    if n_classes > 2:
        events = [(y_true == label, column) for label, column in zip(classes, y_score.T, strict=True)]
    else:
        events = [(y_true == classes[-1], y_score if y_score.ndim == 1 else y_score[:, -1])]
    return [(happened, scores) for happened, scores in events if 0 < np.count_nonzero(happened) < len(y_true)]


def _equal_error(happened: np.ndarray, scores: np.ndarray) -> float:
    false, true, _ = roc_curve(happened, scores, drop_intermediate=False)
    excess = false + true - 1.0  # false alarms minus misses: rises from -1 to 1
    after = int(np.argmax(excess >= 0.0))
    step = -excess[after - 1] / (excess[after] - excess[after - 1])
    return float(false[after - 1] + step * (false[after] - false[after - 1]))


def _labels(name: str, y: Targets) -> np.ndarray:
    """Return labels as an array of one dimension, none of them missing."""
    labels = _column(name, as_array(name, y))
    if any(label is None or label != label for label in labels.tolist()):
        raise ValueError(
            f"`{name}` must hold a label of every sample; got None or NaN. Leave these samples out."
        )
    return labels


def _column(name: str, values: np.ndarray) -> np.ndarray:
    with naming(name):
        return column_or_1d(values)


def _require(model: BaseEstimator, *names: str) -> None:
    """Raise for a model without the methods or attributes that are needed, before it works."""
    missing = [name for name in names if not hasattr(model, name)]
    if isinstance(model, type) or missing:
        what = (
            "an estimator, not a class"
            if isinstance(model, type)
            else f"a fitted estimator with `{missing[0]}`"
        )
        raise TypeError(f"`model` must be {what}; got {shown(model)}.")


def brier(y: np.ndarray, probabilities: np.ndarray, classes: np.ndarray) -> float:
    """Return the mean squared error of probabilities: of the second of two classes, summed over classes with more."""
    if len(classes) == 2:
        return float(brier_score_loss(y == classes[1], probabilities[:, 1]))
    return float(brier_score_loss(y, probabilities, labels=classes))


def negative_log_density(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    """Return the mean negative log density of normal distributions, in nats."""
    return float(-norm.logpdf(y, mean, std).mean())


def coverage_95(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    """Share of targets inside the central 95 % interval of normal distributions."""
    return float(np.mean(np.abs(y - mean) <= TAIL_95 * std))


def evaluate_classifier(model: BaseEstimator, X: Samples, y: Targets, n_bins: int = 10) -> dict[str, float]:
    """Score a fitted classifier on labelled samples.

    Parameters
    ----------
    model : estimator
        Fitted, with `predict_proba` and `classes_`; a Pipeline will do.
    X : array-like of shape (n_samples, n_features), or what else `model` takes
        Samples.
    y : array-like of shape (n_samples,)
        True labels, all of them known to `model`.
    n_bins : int, default=10
        Bins of the calibration error.

    Returns
    -------
    dict of str to float
        ``accuracy``; ``log_loss`` (nats per sample); ``brier`` (mean squared error of the probabilities: of the
        second class with two classes, summed over classes with more); ``ece``
        (:func:`expected_calibration_error`).

    Raises
    ------
    TypeError
        If `model` is no fitted estimator with `predict_proba` and `classes_`.
    ValueError
        If `y` lacks labels, holds classes that `model` does not know, or is not as long as `X`; if `n_bins` is below
        1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from bayesmkl.evaluation import evaluate_classifier
    >>> X, y = load_iris(return_X_y=True)
    >>> scores = evaluate_classifier(LogisticRegression(max_iter=1000).fit(X, y), X, y)
    >>> sorted(scores), round(scores["accuracy"], 3)
    (['accuracy', 'brier', 'ece', 'log_loss'], 0.973)
    """
    _require(model, "predict_proba", "classes_")
    y, classes = _labels("y", y), np.asarray(model.classes_)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`y` must hold classes that the model was fitted with, {classes.tolist()}; got {unknown.tolist()} too. "
            "Leave those samples out, or fit with samples of every class."
        )
    refuse_unevaluated("X", X)
    check_consistent_length(X, y)
    probabilities = np.asarray(model.predict_proba(X))
    return {
        "accuracy": float(accuracy_score(y, model.predict(X))),
        "log_loss": float(log_loss(y, probabilities, labels=classes)),
        "brier": brier(y, probabilities, classes),
        "ece": expected_calibration_error(y, probabilities, n_bins, labels=classes),
    }


def evaluate_regressor(model: BaseEstimator, X: Samples, y: Targets) -> dict[str, float]:
    """Score a fitted regressor that predicts standard deviations.

    Parameters
    ----------
    model : estimator
        Fitted, with ``predict(X, return_std=True)``; a Pipeline will do.
    X : array-like of shape (n_samples, n_features), or what else `model` takes
        Samples.
    y : array-like of shape (n_samples,)
        True targets.

    Returns
    -------
    dict of str to float
        ``r2``; ``rmse`` (units of `y`); ``nll`` (mean negative log density of the predicted normal distributions,
        nats per sample); ``coverage_95`` (share of targets inside their central 95 % interval).

    Raises
    ------
    TypeError
        If `model` does not predict standard deviations, or `y` holds other objects than numbers.
    ValueError
        If `y` is not finite, or not as long as `X`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import BayesianRidge
    >>> from bayesmkl.evaluation import evaluate_regressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [1.0, -2.0] + rng.normal(size=200)
    >>> scores = evaluate_regressor(BayesianRidge().fit(X, y), X, y)
    >>> sorted(scores), 0.9 < scores["coverage_95"] < 1.0
    (['coverage_95', 'nll', 'r2', 'rmse'], True)
    """
    _require(model, "predict")
    y = _column("y", finite_numbers("y", y))
    refuse_unevaluated("X", X)
    check_consistent_length(X, y)
    try:
        mean, std = model.predict(X, return_std=True)
    except TypeError as error:
        raise TypeError(
            "`model` must predict standard deviations, `predict(X, return_std=True)`; "
            f"{type(model).__name__} does not."
        ) from error
    return {
        "r2": float(r2_score(y, mean)),
        "rmse": float(root_mean_squared_error(y, mean)),
        "nll": negative_log_density(y, mean, std),
        "coverage_95": coverage_95(y, mean, std),
    }
