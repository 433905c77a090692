"""Metrics of a comparison, checked against its models; scores and other facts of fitted models."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target

from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.typing import Scoring, Targets
from bayesmkl._utils.validation import check_choice
from bayesmkl._utils.warnings import holding_back, warn_user
from bayesmkl.bemkl.base import BaseBEMKL
from bayesmkl.evaluation.kernel_weights import kept_shares
from bayesmkl.evaluation.named_metrics import METRICS, NEEDS, Metric
from bayesmkl.evaluation.predictions import Predictions, final_estimator, gives
from bayesmkl.evaluation.store import NotKeptError
from bayesmkl.evaluation.stored import StoredPredictions

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = [
    "METRICS",
    "Metric",
    "Predictions",
    "facts",
    "metric_of",
    "resolve_scoring",
    "score",
    "stored_score",
    "task_of",
]
# of the largest |weight|: BEMKL's weights above it count as active, as no posterior mean is zero
ACTIVE = 1e-3


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
    training samples has probability zero, and a log loss of 36 nats where it turns up. Of several labels accuracy is
    the share of samples whose labels are all right, and every other metric the mean over labels; of several targets
    it is the mean over targets.

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
    n_classes = _check_target(task, y, models)
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


def _check_target(task: str, y: Targets | None, models: Mapping[str, Any]) -> int:
    """Raise for targets that the models do not take; return the number of classes, 2 where it is not known."""
    if y is None:
        return 2
    if task == "survival":
        event_and_time(y)
        return 2
    what = "one label" if task == "classification" else "one number"
    wanted = f"`y` must hold {what} per sample, or several of them as columns, for models of "
    if are_times(y):
        raise ValueError(
            f"{wanted}{task}; got a structured array, as of times to an event. Use models of survival, such as "
            "GPMKLSurvival, or give one of its fields."
        )
    with holding_back(UserWarning):  # scikit-learn 1.7 warns of numbers that could be classes
        kind = type_of_target(y, input_name="y")
    labels = ("binary", "multiclass", "multilabel-indicator")
    good = kind in labels if task == "classification" else np.asarray(y).dtype.kind in "biuf"
    if not good or np.ndim(y) > 2 or (np.ndim(y) == 2 and np.shape(y)[1] == 1):
        also = " Several labels are columns of 0 and 1." if task == "classification" else ""
        raise ValueError(f"{wanted}{task}; got {kind} data of shape {np.shape(y)}.{also}")
    if np.ndim(y) == 2:
        _check_several(task, models)
        return 2
    return len(np.unique(y)) if task == "classification" else 2


def _check_several(task: str, models: Mapping[str, Any]) -> None:
    """Raise for models that predict one label or number of a sample."""
    for name, model in models.items():
        tags, final = get_tags(model), final_estimator(model)
        of_labels = tags.classifier_tags is not None and tags.classifier_tags.multi_label
        if not (of_labels or tags.target_tags.multi_output or isinstance(final, OneVsRestClassifier)):
            wrapper = "OneVsRestClassifier" if task == "classification" else "MultiOutputRegressor"
            raise ValueError(
                f"`y` has several columns, and model {name!r} ({type(final).__name__}) predicts one. "
                f"Wrap it in scikit-learn's {wrapper}, or give one column."
            )


def _named(scoring: Any) -> dict[str, Metric]:
    if isinstance(scoring, Mapping) and scoring:
        return {str(name): _metric(value)._replace(name=str(name)) for name, value in scoring.items()}
    alone = isinstance(scoring, (str, Metric)) or not isinstance(scoring, Iterable)
    found = [_metric(value) for value in ([scoring] if alone else scoring)]
    names = [metric.name for metric in found]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"`scoring` must hold at least one metric, each once; got {names}.")
    return dict(zip(names, found, strict=True))


def _metric(value: object) -> Metric:
    if isinstance(value, Metric):
        return value
    if isinstance(value, str):
        return METRICS[value] if value in METRICS else _sklearn_metric(value)
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return Metric(name, "model", True, partial(_by_callable, value), "any", name.replace("_", " "), False)
    raise ValueError(
        f"`scoring` must hold names of metrics or callables scorer(estimator, X, y); got {value!r}."
    )


def _sklearn_metric(name: str) -> Metric:
    if name not in get_scorer_names():
        close = difflib.get_close_matches(name, [*METRICS, *get_scorer_names()], n=1, cutoff=0.0)[0]
        raise ValueError(f"`scoring`: unknown metric {name!r}. Did you mean {close!r}?")
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


# ---------------------------------------------------------------------------------------------------------- scoring


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
    if metric.needs in ("posterior", "bound"):
        raise NotKeptError(f"{metric.name!r} needs {NEEDS[metric.needs][0]}, which cells do not keep")
    return _computed(metric, stored, stored.y)


def metric_of(value: object) -> Metric:
    """Return a metric by its name, or that of a function ``scorer(estimator, X, y)``."""
    return _metric(value)


def _computed(metric: Metric, predictions: Predictions, y: np.ndarray) -> float:
    try:
        return float(metric.compute(predictions, y))
    except NotKeptError:
        raise
    except Exception as error:  # one metric must not cost the others
        warn_user(f"{metric.name} failed: {type(error).__name__}: {error}", UserWarning)
        return float("nan")


def facts(model: BaseEstimator, n_train: int) -> dict[str, Any]:
    """Describe a fitted model: how sparse it is, whether it converged, and what was chosen inside.

    Parameters
    ----------
    model : estimator
        Fitted; Pipelines and searches are seen through.
    n_train : int
        Training samples.

    Returns
    -------
    dict
        ``support_fraction``: share of the training samples that predictions depend on, NaN where the model has no
        such thing. ``n_active_kernels``: kernels with a weight (of BEMKL, above 1/1000 of the largest in absolute
        value, for any class), NaN where there are none. ``kernel_shares``: see
        :mod:`bayesmkl.evaluation.kernel_weights`. ``converged``: True, False, or None if the model does not
        say. ``n_iter`` and ``n_solves``: iterations and solved SVMs, over all problems of the model, NaN where it
        does not count. ``best_params``: the choice of a search as JSON, or an empty string.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.svm import SVC
    >>> from bayesmkl.evaluation.scoring import facts
    >>> X, y = load_iris(return_X_y=True)
    >>> found = facts(GridSearchCV(SVC(), {"C": [1.0, 10.0]}).fit(X, y), len(X))
    >>> found["support_fraction"], found["kernel_shares"], found["converged"], found["best_params"]
    (0.18, '', True, '{"C": 10.0}')
    """
    final = final_estimator(model)
    return {
        "support_fraction": _support_fraction(final, n_train),
        "n_active_kernels": _n_active_kernels(final),
        "kernel_shares": kept_shares(final),
        "converged": _converged(final),
        "n_iter": _total(getattr(final, "n_iter_", None)),
        "n_solves": _total(getattr(final, "n_solves_", None)),
        "best_params": _best_params(model),
    }


def _total(counts: Any) -> float:
    """Return a count, or the sum of those of several problems; NaN where the model has none."""
    with suppress(TypeError, ValueError):
        return float(np.sum(np.asarray(counts, dtype=float)))
    return float("nan")


def _support_fraction(final: BaseEstimator, n_train: int) -> float:
    if hasattr(final, "support_fraction_"):
        return float(final.support_fraction_)
    if hasattr(final, "n_support_"):  # LibSVM; selectors of features have a `support_` as well
        return len(final.support_) / n_train
    return float("nan")


def _n_active_kernels(final: BaseEstimator) -> float:
    if hasattr(final, "n_active_kernels_"):
        return int(final.n_active_kernels_)
    if not isinstance(final, BaseBEMKL):
        return float("nan")
    weights = np.abs(np.atleast_2d(final.kernel_weights_))
    return int((weights > ACTIVE * weights.max(axis=1, keepdims=True)).any(axis=0).sum())


def _converged(final: BaseEstimator) -> bool | None:
    if hasattr(final, "converged_"):
        return bool(np.all(final.converged_))
    return final.fit_status_ == 0 if hasattr(final, "fit_status_") else None


def _best_params(model: BaseEstimator) -> str:
    while not hasattr(model, "best_params_"):
        if not getattr(model, "steps", None):
            return ""
        model = model.steps[-1][1]
    return json.dumps(model.best_params_, default=_plain)


def _plain(value: object) -> Any:
    """Return a number or a list for what NumPy holds, and a description of everything else."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else repr(value)
