"""Metrics of predictions, probabilities and intervals; by name, and which of them a comparison's models can give."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn import metrics as skm
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bayesmkl._utils.given import as_array, finite_numbers, naming, refuse_unevaluated
from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.typing import Samples, Scoring, Targets
from bayesmkl._utils.validation import check_choice, shown
from bayesmkl._utils.warnings import holding_back, warn_user
from bayesmkl.evaluation.predictions import Predictions, StoredPredictions, final_estimator, gives
from bayesmkl.evaluation.store import NotKeptError
from bayesmkl.evaluation.survival import brier_times, concordance_index, integrated_brier_score
from bayesmkl.posterior.checks import reliability

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
    false, true, _ = skm.roc_curve(happened, scores, drop_intermediate=False)
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


def brier(y: np.ndarray, probabilities: np.ndarray, classes: np.ndarray) -> float:
    """Return the mean squared error of probabilities: of the second of two classes, summed over classes with more."""
    if len(classes) == 2:
        return float(skm.brier_score_loss(y == classes[1], probabilities[:, 1]))
    return float(skm.brier_score_loss(y, probabilities, labels=classes))


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
    AttributeError
        If `model` has no `predict_proba` or `classes_`.
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
    y, classes = _labels("y", y), np.asarray(model.classes_)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`y` must hold classes that the model was fitted with, {classes.tolist()}; got {unknown.tolist()} too. "
            "Leave those samples out, or fit with samples of every class."
        )
    refuse_unevaluated("X", X)
    check_consistent_length(X, y)
    on_test = Predictions(model, X)
    ece = expected_calibration_error(y, on_test.probabilities(), n_bins, labels=classes)
    return evaluated(on_test, y, "classification") | {"ece": ece}


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
    y = _column("y", finite_numbers("y", y))
    refuse_unevaluated("X", X)
    check_consistent_length(X, y)
    on_test = Predictions(model, X)
    on_test.moments()  # means and deviations are asked for together, and kept for all metrics
    return evaluated(on_test, y, "regression")


# ---------------------------------------------------------------------------------------------------- metrics by name

OF_TASKS = {  # what reports have
    "classification": ("accuracy", "log_loss", "brier", "ece"),
    "regression": ("r2", "rmse", "nll", "coverage_95"),
    "counts": ("r2", "rmse"),
    "survival": ("concordance", "concordance_uno", "integrated_brier_score"),
}


class Metric(NamedTuple):
    """Metric of predictions."""

    name: str
    needs: str  # what a model must give, one of `NEEDS`
    greater_is_better: bool
    compute: Callable[[Predictions, np.ndarray], float]
    task: str  # "classification", "regression", "survival" or "any"
    title: str  # for axes and tables, with units
    default: bool = True  # whether it is computed where no metric is asked for


# What metrics need of a model: in words, and what to do about a model that does not have it.
NEEDS = {
    "scores": (
        "a score for each class (`decision_function` or `predict_proba`)",
        "Use an estimator that has one of them",
    ),
    "probabilities": (
        "class probabilities (`predict_proba`)",
        "Wrap the model in CalibratedClassifierCV(model, ensemble=False)",
    ),
    "std": (
        "standard deviations (`predict(X, return_std=True)`)",
        "Use BEMKLRegressor or another Bayesian model",
    ),
    "survival": (
        "survival functions (`predict_survival_function`)",
        "Use GPMKLSurvival or another model that has them",
    ),
}


Compute = Callable[[Any, np.ndarray], float]


def _of(measure: Callable[..., float], what: str) -> Compute:
    """Return the metric that compares targets with one kind of predictions."""
    return partial(_measured, measure, what)


def _measured(measure: Callable[..., float], what: str, predictions: Predictions, y: np.ndarray) -> float:
    found = getattr(predictions, what)()
    return measure(y, *found) if what == "moments" else measure(y, found)


def _balanced_accuracy(predictions: Predictions, y: np.ndarray) -> float:
    """Return the mean recall of the classes that occur in `y`."""
    return skm.recall_score(y, predictions.labels(), labels=np.unique(y), average="macro", zero_division=0.0)


def _f1(predictions: Predictions, y: np.ndarray) -> float:
    """Return the F1 score of the second of two classes, or the mean over classes that occur or are predicted."""
    classes = np.union1d(predictions.classes, y)
    if len(classes) > 2:
        return skm.f1_score(y, predictions.labels(), average="macro", zero_division=0.0)
    return skm.f1_score(y, predictions.labels(), labels=classes, pos_label=classes[-1], zero_division=0.0)


def _mcc(predictions: Predictions, y: np.ndarray) -> float:
    """Return the Matthews correlation; zero where it is undefined, all labels being the same."""
    labels = predictions.labels()
    return skm.matthews_corrcoef(y, labels) if len(np.union1d(y, labels)) > 1 else 0.0


def _of_events(measure: Callable[..., float], predictions: Predictions, y: np.ndarray) -> float:
    """Return the mean over classes; NaN if all test samples are of one class."""
    if len(np.unique(y)) < 2:
        return np.nan
    return _mean_over_events(measure, y, predictions.scores(), predictions.classes)


def _log_loss(predictions: Predictions, y: np.ndarray) -> float:
    probabilities, classes = _of_all_classes(predictions, y)
    return skm.log_loss(y, probabilities, labels=classes)


def _brier(predictions: Predictions, y: np.ndarray) -> float:
    return brier(y, *_of_all_classes(predictions, y))


def _ece(predictions: Predictions, y: np.ndarray) -> float:
    probabilities, classes = _of_all_classes(predictions, y)
    return expected_calibration_error(y, probabilities, labels=classes)


def _of_all_classes(predictions: Predictions, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and classes, with zeros for classes of `y` that the model has never seen."""
    classes = np.union1d(predictions.classes, y)
    if len(classes) == len(predictions.classes):
        return predictions.probabilities(), classes
    table = np.zeros((len(y), len(classes)))
    table[:, np.searchsorted(classes, predictions.classes)] = predictions.probabilities()
    return table, classes


def _r2(predictions: Predictions, y: np.ndarray) -> float:
    return skm.r2_score(y, predictions.labels()) if len(y) > 1 else np.nan


def _coverage_gap(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    return abs(coverage_95(y, mean, std) - 0.95)


def _concordance_uno(predictions: Predictions, y: np.ndarray) -> float:
    """Return Uno's index of the risks until the last time of the Brier score."""
    tau = brier_times(predictions.y_train, y)[-1]
    return concordance_index(y, predictions.labels(), y_train=predictions.y_train, tau=tau)


def _mean_brier(predictions: Predictions, y: np.ndarray) -> float:
    times = brier_times(predictions.y_train, y)
    return integrated_brier_score(predictions.y_train, y, predictions.survival(times), times)


# by task: name, what it needs, whether greater is better, how it is computed, and its title
_BY_TASK: dict[str, list[tuple[str, str, bool, Compute, str]]] = {
    "classification": [
        ("accuracy", "labels", True, _of(skm.accuracy_score, "labels"), "accuracy"),
        ("balanced_accuracy", "labels", True, _balanced_accuracy, "balanced accuracy"),
        ("f1", "labels", True, _f1, "F1"),
        ("mcc", "labels", True, _mcc, "Matthews correlation"),
        ("auc", "scores", True, partial(_of_events, skm.roc_auc_score), "AUC"),
        ("eer", "scores", False, partial(_of_events, _equal_error), "equal error rate"),
        ("log_loss", "probabilities", False, _log_loss, "log loss (nats)"),
        ("brier", "probabilities", False, _brier, "Brier score"),
        ("ece", "probabilities", False, _ece, "calibration error (ECE)"),
    ],
    "regression": [
        ("r2", "labels", True, _r2, "R²"),
        ("rmse", "labels", False, _of(skm.root_mean_squared_error, "labels"), "RMSE (units of the target)"),
        ("mae", "labels", False, _of(skm.mean_absolute_error, "labels"), "MAE (units of the target)"),
        ("nll", "std", False, _of(negative_log_density, "moments"), "negative log density (nats)"),
        ("coverage_gap", "std", False, _of(_coverage_gap, "moments"), "coverage of 95 % intervals, off by"),
        ("coverage_95", "std", True, _of(coverage_95, "moments"), "coverage of 95 % intervals"),
    ],
    "survival": [
        ("concordance", "labels", True, _of(concordance_index, "labels"), "Harrell's concordance"),
        ("concordance_uno", "labels", True, _concordance_uno, "Uno's concordance"),
        ("integrated_brier_score", "survival", False, _mean_brier, "integrated Brier score"),
    ],
}
METRICS = {
    name: Metric(name, needs, greater, compute, task, title, name != "coverage_95")
    for task, rows in _BY_TASK.items()
    for name, needs, greater, compute, title in rows
}


def resolve_scoring(
    scoring: Scoring | None, models: Mapping[str, Any], y: Targets | None = None, unavailable: str = "raise"
) -> dict[str, Metric]:
    """Find the metrics of a comparison, and make sure that the models can give them.

    Parameters
    ----------
    scoring : None, str, Metric, sequence of these, or dict
        Names of `METRICS`, or of :func:`sklearn.metrics.get_scorer_names`; a dict has names as keys, and as values
        these names, a Metric, or callables ``scorer(estimator, X, y)``. None takes those metrics of the task that at
        least one model gives, except "coverage_95", for which "coverage_gap" stands.
    models : mapping of str to estimator
        Not necessarily fitted; Pipelines and searches are seen through.
    y : array-like of shape (n_samples,), default=None
        Labels or targets, which have to suit the models and the metrics.
    unavailable : {"raise", "nan"}, default="raise"
        Treatment of a metric that some model cannot give: an error, or NaN as its score.

    Returns
    -------
    dict of str to Metric

    Raises
    ------
    ValueError
        For unknown metrics, metrics of another task, metrics that a model cannot give, and targets of another task.

    Notes
    -----
    With two classes, F1 is that of the second, ``classes_[1]``; with more, it is averaged over classes. AUC and equal
    error rate of more than two classes are averages of each class against the others. A class that was not among the
    training samples has probability zero, and a log loss of 36 nats where it turns up.

    Survival is weighted by the censoring of the training part. The Brier score is integrated between the first and
    the last tenth of the events of the training part, as far as the test part is followed, and Uno's concordance
    counts events until then.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.svm import SVC
    >>> from bayesmkl.evaluation.metrics import resolve_scoring
    >>> models = {"svm": SVC(), "logistic": LogisticRegression()}
    >>> list(resolve_scoring(None, models))
    ['accuracy', 'balanced_accuracy', 'f1', 'mcc', 'auc', 'eer', 'log_loss', 'brier', 'ece']
    >>> resolve_scoring("acuracy", models)
    Traceback (most recent call last):
    ...
    ValueError: `scoring`: unknown metric 'acuracy'. Did you mean 'accuracy'?
    """
    check_choice("unavailable", unavailable, ("raise", "nan"))
    task = task_of(models, y)
    n_classes = _check_target(task, y)
    given = {name: gives(model, n_classes) for name, model in models.items()}
    if scoring is None:
        offered = frozenset().union(*given.values())
        return {
            name: metric
            for name, metric in METRICS.items()
            if metric.default and metric.task in (task, "any") and metric.needs in offered
        }
    metrics = _named(scoring)
    for metric in metrics.values():
        if metric.task not in (task, "any"):
            fitting = [one.name for one in METRICS.values() if one.task == task]
            raise ValueError(
                f"`scoring`: {metric.name!r} is for {metric.task}; the models are for {task}. Use "
                f"{' or '.join(map(repr, fitting[:3]))}."
            )
        if unavailable == "raise":
            _check_given(metric, given, models)
        _check_suits(metric, task, y)
    return metrics


def task_of(models: Mapping[str, Any], y: Targets | None = None) -> str:
    """Return the task of all models, "classification", "regression" or "survival".

    A structured array as `y` tells that models which only predict, and are neither classifiers nor regressors,
    predict risks. Models of different tasks, or of none, are a ValueError.
    """
    tasks, times = {}, y is not None and are_times(y)
    for name, model in models.items():
        final = final_estimator(model)
        if is_classifier(model) or is_regressor(model):
            tasks[name] = "classification" if is_classifier(model) else "regression"
        elif hasattr(final, "predict_survival_function") or (times and hasattr(final, "predict")):
            tasks[name] = "survival"
        else:
            raise ValueError(
                f"`models`: {name!r} ({type(final).__name__}) is not a classifier, a regressor or a survival "
                "model. Leave it out."
            )
    if len(set(tasks.values())) != 1:
        raise ValueError(
            f"`models` must be for one task; got {tasks}. Compare classifiers, regressors or models of survival, not "
            "several at once."
        )
    return next(iter(tasks.values()))


def _check_target(task: str, y: Targets | None) -> int:
    """Raise for targets that the models do not take; return the number of classes, 2 where it is not known."""
    if y is None:
        return 2
    if task == "survival":
        event_and_time(y)
        return 2
    what = "one label" if task == "classification" else "one number"
    wanted = f"`y` must hold {what} per sample for models of "
    if are_times(y):
        raise ValueError(
            f"{wanted}{task}; got a structured array, as of times to an event. Use models of survival, such as "
            "GPMKLSurvival, or give one of its fields."
        )
    with holding_back(UserWarning):  # scikit-learn 1.7 warns of numbers that could be classes
        kind = type_of_target(y, input_name="y")
    good = (
        kind in ("binary", "multiclass") if task == "classification" else np.asarray(y).dtype.kind in "biuf"
    )
    if not good or np.ndim(y) != 1:
        remedy = " Compare one column at a time." if np.ndim(y) > 1 else ""
        raise ValueError(f"{wanted}{task}; got {kind} data of shape {np.shape(y)}.{remedy}")
    return len(np.unique(y)) if task == "classification" else 2


def _named(scoring: Any) -> dict[str, Metric]:
    if isinstance(scoring, Mapping) and scoring:
        return {str(name): metric_of(value)._replace(name=str(name)) for name, value in scoring.items()}
    alone = isinstance(scoring, (str, Metric)) or not isinstance(scoring, Iterable)
    found = [metric_of(value) for value in ([scoring] if alone else scoring)]
    names = [metric.name for metric in found]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"`scoring` must hold at least one metric, each once; got {names}.")
    return dict(zip(names, found, strict=True))


def metric_of(value: object, argument: str = "scoring") -> Metric:
    """Return a metric by its name, or that of a function ``scorer(estimator, X, y)``."""
    if isinstance(value, Metric):
        return value
    if isinstance(value, str):
        return METRICS[value] if value in METRICS else sklearn_metric(value, argument)
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return Metric(name, "model", True, partial(_by_callable, value), "any", name.replace("_", " "), False)
    raise ValueError(
        f"`{argument}` must hold names of metrics or callables scorer(estimator, X, y); got {value!r}."
    )


def sklearn_metric(name: str, argument: str) -> Metric:
    """Return a metric of scikit-learn by its name."""
    if name not in skm.get_scorer_names():
        close = difflib.get_close_matches(str(name), [*METRICS, *skm.get_scorer_names()], n=1, cutoff=0.0)[0]
        raise ValueError(f"`{argument}`: unknown metric {name!r}. Did you mean {close!r}?")
    # scorers do not say publicly what they ask a model for
    response = getattr(skm.get_scorer(name), "_response_method", "predict")
    needs = {"predict": "labels", "predict_proba": "probabilities"}.get(str(response), "scores")
    task = "any" if needs == "labels" else "classification"
    return Metric(name, needs, True, partial(_by_scorer, name), task, name.replace("_", " "), False)


def _by_scorer(name: str, predictions: Predictions, y: np.ndarray) -> float:
    return skm.get_scorer(name)(predictions.as_model(), predictions.X, y)


def _by_callable(scorer: Callable[..., float], predictions: Predictions, y: np.ndarray) -> float:
    return scorer(predictions.model, predictions.X, y)


def _check_given(metric: Metric, given: Mapping[str, frozenset[str]], models: Mapping[str, Any]) -> None:
    lacking = [name for name, offered in given.items() if metric.needs not in offered]
    if lacking:
        what, remedy = NEEDS[metric.needs]
        kind = type(final_estimator(models[lacking[0]])).__name__
        raise ValueError(
            f"`scoring`: {metric.name!r} needs {what}, which model {lacking[0]!r} ({kind}) does not give. {remedy}, "
            'leave the metric out, or pass `unavailable="nan"` for empty cells.'
        )


def _check_suits(metric: Metric, task: str, y: Targets | None) -> None:
    """Try a scorer of scikit-learn on guesses, so that one for other targets fails before anything is fitted."""
    if y is None or getattr(metric.compute, "func", None) is not _by_scorer:
        return
    if task == "survival":
        raise ValueError(
            f"`scoring`: {metric.name!r} does not allow for censored times. Use 'concordance', "
            "'concordance_uno' or 'integrated_brier_score', or a function scorer(estimator, X, y)."
        )
    y = np.asarray(y)
    guesses = DummyClassifier(strategy="stratified", random_state=0)
    dummy = guesses if task == "classification" else DummyRegressor()
    rows = np.zeros((len(y), 1))
    with holding_back(Warning):
        try:
            metric.compute(Predictions(dummy.fit(rows, y), rows), y)
        except Exception as error:
            raise ValueError(f"`scoring`: {metric.name!r} does not suit `y`: {error}") from error


def score(predictions: Predictions, y: Targets | None, metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Compute metrics of one fitted model; NaN for those that it cannot give.

    A metric that fails although the model did not is NaN too, with a UserWarning.
    """
    y, offered = np.asarray(y), predictions.offers
    found = dict.fromkeys(metrics, np.nan)
    # deviations come with predictions
    first = sorted(metrics.items(), key=lambda item: item[1].needs != "std")
    for name, metric in first:
        if metric.needs in offered:
            predictions.prepare(metric.needs)
            found[name] = _computed(metric, predictions, y)
    return found


def stored_score(metric: Metric, stored: StoredPredictions) -> float:
    """Compute a metric of what a cell keeps, as of the model.

    Raises
    ------
    NotKeptError
        If it takes more than the predictions of the test rows.
    """
    if metric.needs not in stored.offers:
        return float("nan")
    if metric.needs == "model":
        raise NotKeptError(f"{metric.name!r} needs the model itself, which cells do not keep")
    return _computed(metric, stored, stored.y)


def _computed(metric: Metric, predictions: Predictions, y: np.ndarray) -> float:
    try:
        return float(metric.compute(predictions, y))
    except NotKeptError:
        raise
    except Exception as error:  # one metric must not cost the others
        warn_user(f"{metric.name} failed: {type(error).__name__}: {error}", UserWarning)
        return float("nan")


def evaluated(on_test: Predictions, y: np.ndarray, task: str) -> dict[str, float]:
    """Return the metrics of held-out samples by name, those of the task.

    Parameters
    ----------
    on_test : Predictions
    y : ndarray of shape (n_rows,)
        Targets, structured ones of times.
    task : {"classification", "regression", "counts", "ordinal", "survival"}
    """
    if task == "ordinal":
        return _of_grades(on_test, y)
    return {name: float(METRICS[name].compute(on_test, y)) for name in OF_TASKS[task]}


def _of_grades(on_test: Predictions, y: np.ndarray) -> dict[str, float]:
    """Return the scores of grades: how often they are right, how far off, and two scores of their probabilities."""
    probabilities, codes = on_test.probabilities(), places_of(on_test.classes, y)
    predicted = places_of(on_test.classes, on_test.labels())
    reached = np.cumsum(probabilities, axis=1)[:, :-1]
    was_reached = codes[:, None] <= np.arange(reached.shape[1])
    own = np.maximum(probabilities[np.arange(len(codes)), codes], np.finfo(float).tiny)
    return {
        "accuracy": float(np.mean(predicted == codes)),
        "grades_off": float(np.mean(np.abs(predicted - codes))),
        "log_loss": float(-np.mean(np.log(own))),
        "rps": float(np.mean((reached - was_reached) ** 2)),
    }


def places_of(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the places of labels among the grades, from 0."""
    sorter = np.argsort(classes)
    return sorter[np.searchsorted(classes, labels, sorter=sorter)]
