"""How good predictions are, and whether their probabilities and intervals can be believed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, r2_score, root_mean_squared_error
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bayesmkl.posterior.reliability import reliability

__all__ = ["evaluate_classifier", "evaluate_regressor", "expected_calibration_error"]

TAIL_95 = norm.ppf(0.975)  # half width of a central 95 % interval in standard deviations


def expected_calibration_error(y_true: Any, y_prob: Any, n_bins: int = 10, labels: Any = None) -> float:
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


def evaluate_classifier(model: Any, X: Any, y: Any, n_bins: int = 10) -> dict[str, float]:
    """Score a fitted classifier on labelled samples.

    Parameters
    ----------
    model : estimator
        Fitted, with `predict_proba` and `classes_`; a Pipeline will do.
    X : array-like
        Samples, as `model` takes them.
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
    y, classes = column_or_1d(y), np.asarray(model.classes_)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`y` must hold classes that the model was fitted with, {classes.tolist()}; got {unknown.tolist()} too. "
            "Leave those samples out, or fit with samples of every class."
        )
    check_consistent_length(X, y)
    probabilities = np.asarray(model.predict_proba(X))
    scored = probabilities[:, 1] if len(classes) == 2 else probabilities
    return {
        "accuracy": float(accuracy_score(y, model.predict(X))),
        "log_loss": float(log_loss(y, probabilities, labels=classes)),
        "brier": float(
            brier_score_loss(y == classes[1], scored)
            if len(classes) == 2
            else brier_score_loss(y, scored, labels=classes)
        ),
        "ece": expected_calibration_error(y, probabilities, n_bins, labels=classes),
    }


def evaluate_regressor(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Score a fitted regressor that predicts standard deviations.

    Parameters
    ----------
    model : estimator
        Fitted, with ``predict(X, return_std=True)``; a Pipeline will do.
    X : array-like
        Samples, as `model` takes them.
    y : array-like of shape (n_samples,)
        True targets.

    Returns
    -------
    dict of str to float
        ``r2``; ``rmse`` (units of `y`); ``nll`` (mean negative log density of the predicted normal distributions,
        nats per sample); ``coverage_95`` (share of targets inside their central 95 % interval).

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
    y = column_or_1d(y).astype(np.float64)
    check_consistent_length(X, y)
    mean, std = model.predict(X, return_std=True)
    error = (y - mean) / std
    return {
        "r2": float(r2_score(y, mean)),
        "rmse": float(root_mean_squared_error(y, mean)),
        "nll": float(-norm.logpdf(y, mean, std).mean()),
        "coverage_95": float(np.mean(np.abs(error) <= TAIL_95)),
    }
