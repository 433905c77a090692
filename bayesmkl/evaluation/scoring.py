"""Metrics by name, how each is computed from predictions, and which of them a comparison's models can give."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    get_scorer,
    get_scorer_names,
    log_loss,
    matthews_corrcoef,
    mean_absolute_error,
    r2_score,
    recall_score,
    root_mean_squared_error,
)
from sklearn.utils.multiclass import type_of_target

from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.typing import Scoring, Targets
from bayesmkl._utils.validation import check_choice
from bayesmkl._utils.warnings import holding_back, warn_user
from bayesmkl.evaluation.metrics import (
    area_under_curve,
    brier,
    coverage_95,
    equal_error_rate,
    expected_calibration_error,
    negative_log_density,
)
from bayesmkl.evaluation.predictions import Predictions, StoredPredictions, final_estimator, gives
from bayesmkl.evaluation.store import NotKeptError
from bayesmkl.evaluation.survival import brier_times, concordance_index, integrated_brier_score
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo import leave_each_out

N_DRAWS = 1000  # in each chain, for leaving training samples out
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
    "posterior": ("the posterior of BEMKL or of an additive Gaussian process", "Use one of their estimators"),
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
    return recall_score(y, predictions.labels(), labels=np.unique(y), average="macro", zero_division=0.0)


def _f1(predictions: Predictions, y: np.ndarray) -> float:
    """Return the F1 score of the second of two classes, or the mean over classes that occur or are predicted."""
    classes = np.union1d(predictions.classes, y)
    if len(classes) > 2:
        return f1_score(y, predictions.labels(), average="macro", zero_division=0.0)
    return f1_score(y, predictions.labels(), labels=classes, pos_label=classes[-1], zero_division=0.0)


def _mcc(predictions: Predictions, y: np.ndarray) -> float:
    """Return the Matthews correlation; zero where it is undefined, all labels being the same."""
    labels = predictions.labels()
    return matthews_corrcoef(y, labels) if len(np.union1d(y, labels)) > 1 else 0.0


def _auc(predictions: Predictions, y: np.ndarray) -> float:
    """Return the area under the ROC curve; NaN if all test samples are of one class."""
    return area_under_curve(y, predictions.scores(), predictions.classes) if len(np.unique(y)) > 1 else np.nan


def _eer(predictions: Predictions, y: np.ndarray) -> float:
    """Return the equal error rate; NaN if all test samples are of one class."""
    return equal_error_rate(y, predictions.scores(), predictions.classes) if len(np.unique(y)) > 1 else np.nan


def _log_loss(predictions: Predictions, y: np.ndarray) -> float:
    probabilities, classes = _of_all_classes(predictions, y)
    return log_loss(y, probabilities, labels=classes)


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
    return r2_score(y, predictions.labels()) if len(y) > 1 else np.nan


def _coverage_gap(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    return abs(coverage_95(y, mean, std) - 0.95)


def _concordance_uno(predictions: Predictions, y: np.ndarray) -> float:
    """Return Uno's index of the risks until the last time of the Brier score."""
    tau = brier_times(predictions.y_train, y)[-1]
    return concordance_index(y, predictions.labels(), y_train=predictions.y_train, tau=tau)


def _mean_brier(predictions: Predictions, y: np.ndarray) -> float:
    times = brier_times(predictions.y_train, y)
    return integrated_brier_score(predictions.y_train, y, predictions.survival(times), times)


def _elpd_loo(predictions: Predictions, y: np.ndarray) -> float:
    """Return leave-one-out accuracy by the posterior; warns where too many samples matter too much for it."""
    fitted, kernels = fitted_bemkl(predictions.model), None
    if fitted.estimator.kernel_bank_ is None and predictions.X_train is not None:
        kernels = fitted.transform(predictions.X_train)
    rng = np.random.default_rng(predictions.random_state)
    found = leave_each_out(fitted, N_DRAWS, rng, kernels)
    if found.n_bad:
        n_scored = len(found.elpd_i)
        warn_user(f"elpd_loo: the k-hat of {found.n_bad} of {n_scored} samples is too large.", UserWarning)
    return found.elpd / len(found.elpd_i)


# by task: name, what it needs, whether greater is better, how it is computed, and its title
_BY_TASK: dict[str, list[tuple[str, str, bool, Compute, str]]] = {
    "classification": [
        ("accuracy", "labels", True, _of(accuracy_score, "labels"), "accuracy"),
        ("balanced_accuracy", "labels", True, _balanced_accuracy, "balanced accuracy"),
        ("f1", "labels", True, _f1, "F1"),
        ("mcc", "labels", True, _mcc, "Matthews correlation"),
        ("auc", "scores", True, _auc, "AUC"),
        ("eer", "scores", False, _eer, "equal error rate"),
        ("log_loss", "probabilities", False, _log_loss, "log loss (nats)"),
        ("brier", "probabilities", False, _brier, "Brier score"),
        ("ece", "probabilities", False, _ece, "calibration error (ECE)"),
    ],
    "regression": [
        ("r2", "labels", True, _r2, "R²"),
        ("rmse", "labels", False, _of(root_mean_squared_error, "labels"), "RMSE (units of the target)"),
        ("mae", "labels", False, _of(mean_absolute_error, "labels"), "MAE (units of the target)"),
        ("nll", "std", False, _of(negative_log_density, "moments"), "negative log density (nats)"),
        ("coverage_gap", "std", False, _of(_coverage_gap, "moments"), "coverage of 95 % intervals, off by"),
        ("coverage_95", "std", True, _of(coverage_95, "moments"), "coverage of 95 % intervals"),
    ],
    "survival": [
        ("concordance", "labels", True, _of(concordance_index, "labels"), "Harrell's concordance"),
        ("concordance_uno", "labels", True, _concordance_uno, "Uno's concordance"),
        ("integrated_brier_score", "survival", False, _mean_brier, "integrated Brier score"),
    ],
    "any": [("elpd_loo", "posterior", True, _elpd_loo, "PSIS-LOO (nats per training sample)")],
}
ASKED_FOR = ("coverage_95", "elpd_loo")  # computed only where they are named
METRICS = {
    name: Metric(name, needs, greater, compute, task, title, name not in ASKED_FOR)
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
        least one model gives, except "elpd_loo", which takes its time.
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
    >>> from bayesmkl.evaluation.scoring import resolve_scoring
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
                f"`models`: {name!r} ({type(final).__name__}) is neither a classifier nor a "
                "regressor nor a model of survival. Leave it out."
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
    if name not in get_scorer_names():
        close = difflib.get_close_matches(str(name), [*METRICS, *get_scorer_names()], n=1, cutoff=0.0)[0]
        raise ValueError(f"`{argument}`: unknown metric {name!r}. Did you mean {close!r}?")
    # scorers do not say publicly what they ask a model for
    response = getattr(get_scorer(name), "_response_method", "predict")
    needs = {"predict": "labels", "predict_proba": "probabilities"}.get(str(response), "scores")
    task = "any" if needs == "labels" else "classification"
    return Metric(name, needs, True, partial(_by_scorer, name), task, name.replace("_", " "), False)


def _by_scorer(name: str, predictions: Predictions, y: np.ndarray) -> float:
    return get_scorer(name)(predictions.as_model(), predictions.X, y)


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
            f"`scoring`: {metric.name!r} does not know of censored times. Use 'concordance', 'concordance_uno' or "
            "'integrated_brier_score', or a function scorer(estimator, X, y)."
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
    if metric.needs in ("posterior", "model"):
        what = "the model itself" if metric.needs == "model" else NEEDS[metric.needs][0]
        raise NotKeptError(f"{metric.name!r} needs {what}, which cells do not keep")
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
    return {name: METRICS[name].compute(on_test, y) for name in OF_TASKS[task]}


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
