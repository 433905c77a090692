"""Metrics by name: what each needs of a model, and how it is computed from predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    log_loss,
    matthews_corrcoef,
    mean_absolute_error,
    r2_score,
    recall_score,
    root_mean_squared_error,
)

from bayesmkl._utils.warnings import warn_user
from bayesmkl.evaluation.metrics import (
    area_under_curve,
    brier,
    coverage_95,
    equal_error_rate,
    expected_calibration_error,
    negative_log_density,
)
from bayesmkl.evaluation.predictions import Predictions, final_estimator
from bayesmkl.evaluation.survival_scores import (
    calibration_at_median,
    concordance,
    concordance_uno,
    mean_brier,
)
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo import leave_each_out

N_DRAWS = 1000  # in each chain, for leaving training samples out


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
    "model": ("a model", "Fit one"),
    "labels": ("predictions", "Use an estimator with `predict`"),
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
    "bound": ('the evidence bound of BEMKL with inference "vb"', "Use one of these"),
}


Compute = Callable[[Any, np.ndarray], float]

# -------------------------------------------------------------------------------------------------- classification


def _of_labels(compute: Compute) -> Compute:
    """Return a metric of two or more classes as one of several labels too: its mean over those that it knows."""

    @wraps(compute)
    def mean(predictions: Predictions, y: np.ndarray) -> float:
        if y.ndim == 1:
            return compute(predictions, y)
        each = [compute(predictions.of_label(k), own) for k, own in enumerate(y.T)]
        return float(np.nanmean(each)) if np.isfinite(each).any() else np.nan

    return mean


def _accuracy(predictions: Predictions, y: np.ndarray) -> float:
    return accuracy_score(y, predictions.labels())


@_of_labels
def _balanced_accuracy(predictions: Predictions, y: np.ndarray) -> float:
    """Return the mean recall of the classes that occur in `y`."""
    return recall_score(y, predictions.labels(), labels=np.unique(y), average="macro", zero_division=0.0)


@_of_labels
def _f1(predictions: Predictions, y: np.ndarray) -> float:
    """Return the F1 score of the second of two classes, or the mean over classes that occur or are predicted."""
    classes = np.union1d(predictions.classes, y)
    if len(classes) > 2:
        return f1_score(y, predictions.labels(), average="macro", zero_division=0.0)
    return f1_score(y, predictions.labels(), labels=classes, pos_label=classes[-1], zero_division=0.0)


@_of_labels
def _mcc(predictions: Predictions, y: np.ndarray) -> float:
    """Return the Matthews correlation; zero where it is undefined, all labels being the same."""
    labels = predictions.labels()
    return matthews_corrcoef(y, labels) if len(np.union1d(y, labels)) > 1 else 0.0


@_of_labels
def _auc(predictions: Predictions, y: np.ndarray) -> float:
    """Return the area under the ROC curve; NaN if all test samples are of one class."""
    return area_under_curve(y, predictions.scores(), predictions.classes) if len(np.unique(y)) > 1 else np.nan


@_of_labels
def _eer(predictions: Predictions, y: np.ndarray) -> float:
    """Return the equal error rate; NaN if all test samples are of one class."""
    return equal_error_rate(y, predictions.scores(), predictions.classes) if len(np.unique(y)) > 1 else np.nan


@_of_labels
def _log_loss(predictions: Predictions, y: np.ndarray) -> float:
    probabilities, classes = _of_all_classes(predictions, y)
    return log_loss(y, probabilities, labels=classes)


@_of_labels
def _brier(predictions: Predictions, y: np.ndarray) -> float:
    return brier(y, *_of_all_classes(predictions, y))


@_of_labels
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


# ------------------------------------------------------------------------------------------------------ regression


def _r2(predictions: Predictions, y: np.ndarray) -> float:
    return r2_score(y, predictions.labels()) if len(y) > 1 else np.nan


def _rmse(predictions: Predictions, y: np.ndarray) -> float:
    return root_mean_squared_error(y, predictions.labels())


def _mae(predictions: Predictions, y: np.ndarray) -> float:
    return mean_absolute_error(y, predictions.labels())


def _nll(predictions: Predictions, y: np.ndarray) -> float:
    return negative_log_density(y, *predictions.moments())


def _coverage_95(predictions: Predictions, y: np.ndarray) -> float:
    return coverage_95(y, *predictions.moments())


def _coverage_gap(predictions: Predictions, y: np.ndarray) -> float:
    return abs(coverage_95(y, *predictions.moments()) - 0.95)


# ------------------------------------------------------------------------------- BEMKL's own, of the training samples


def _elbo(predictions: Predictions, y: np.ndarray) -> float:
    """Return the evidence lower bound of the training labels, or of the target in its own units."""
    final = final_estimator(predictions.model)
    log_scale = np.log(getattr(final, "y_scale_", 1.0))
    return final.elbo_ / final.target_.shape[-1] - np.sum(log_scale)


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


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "labels", True, _accuracy, "classification", "accuracy"),
        Metric(
            "balanced_accuracy", "labels", True, _balanced_accuracy, "classification", "balanced accuracy"
        ),
        Metric("f1", "labels", True, _f1, "classification", "F1"),
        Metric("mcc", "labels", True, _mcc, "classification", "Matthews correlation"),
        Metric("auc", "scores", True, _auc, "classification", "AUC"),
        Metric("eer", "scores", False, _eer, "classification", "equal error rate"),
        Metric("log_loss", "probabilities", False, _log_loss, "classification", "log loss (nats)"),
        Metric("brier", "probabilities", False, _brier, "classification", "Brier score"),
        Metric("ece", "probabilities", False, _ece, "classification", "calibration error (ECE)"),
        Metric("r2", "labels", True, _r2, "regression", "R²"),
        Metric("rmse", "labels", False, _rmse, "regression", "RMSE (units of the target)"),
        Metric("mae", "labels", False, _mae, "regression", "mean absolute error (units of the target)"),
        Metric("nll", "std", False, _nll, "regression", "negative log density (nats)"),
        Metric(
            "coverage_gap", "std", False, _coverage_gap, "regression", "coverage of 95 % intervals, off by"
        ),
        Metric("coverage_95", "std", True, _coverage_95, "regression", "coverage of 95 % intervals", False),
        Metric("concordance", "labels", True, concordance, "survival", "Harrell's concordance"),
        Metric("concordance_uno", "labels", True, concordance_uno, "survival", "Uno's concordance"),
        Metric("integrated_brier_score", "survival", False, mean_brier, "survival", "integrated Brier score"),
        Metric(
            "calibration_at_median",
            "survival",
            False,
            calibration_at_median,
            "survival",
            "calibration error at the median time",
            False,
        ),
        Metric("elbo", "bound", True, _elbo, "any", "ELBO (nats per training sample)"),
        Metric("elpd_loo", "posterior", True, _elpd_loo, "any", "PSIS-LOO (nats per training sample)", False),
    )
}
