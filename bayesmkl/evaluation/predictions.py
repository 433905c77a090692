"""Predictions of fitted models on new samples, each computed once; and those that a cell of a comparison keeps."""

from __future__ import annotations

import inspect
import time
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import has_fit_parameter

from bayesmkl._utils.typing import Samples
from bayesmkl.evaluation.store import Kept, NotKeptError
from bayesmkl.evaluation.survival import brier_times

RESPONSES = ("predict", "decision_function", "predict_proba")
MOST_KEPT = 2**26  # bytes of predictions in a cell
PAIRS = ("moments", "latent")  # means with standard deviations
# what models that give it are asked
ASKED = {"probabilities": "predict_proba", "std": "moments", "latent": "latent"}


class Predictions:
    """Predictions of a fitted model for some rows, made when they are first asked for and then kept.

    Parameters
    ----------
    model : estimator
        Fitted; a Pipeline or a search will do.
    X : array-like
        Rows to predict, as `model` takes them.
    y_train : ndarray of shape (n_train,), default=None
        Training targets of `model`; metrics of survival weigh by their censoring.

    Attributes
    ----------
    seconds : float
        Time that `model` took to predict so far.
    """

    def __init__(
        self,
        model: BaseEstimator,
        X: Samples,
        y_train: np.ndarray | None = None,
    ) -> None:
        self.model = model
        self.X = X
        self.y_train: Any = y_train
        self.seconds = 0.0
        self._answers: dict[str, Any] = {}

    def labels(self) -> np.ndarray:
        """Return predicted classes, in regression values, of times to an event risks, (n_rows,)."""
        labels = self.ask("predict")
        return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels

    def scores(self) -> np.ndarray:
        """Return scores of the classes, (n_rows,) for two of them (the second), else (n_rows, n_classes).

        It is the decision function, or probabilities of models that have none.
        """
        if self.ranks_classes():
            return self.ask("decision_function")
        probabilities = self.probabilities()
        return probabilities[:, 1] if len(self.classes) == 2 else probabilities

    def ranks_classes(self) -> bool:
        """Return whether the model has a decision function for each class."""
        return _ranks_classes(self.model, len(self.classes))

    def probabilities(self) -> np.ndarray:
        """Return class probabilities, (n_rows, n_classes)."""
        return self.ask("predict_proba")

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the target, each (n_rows,)."""
        return self.ask("moments")

    def survival(self, times: np.ndarray) -> np.ndarray:
        """Return the probability that the event is later than each time, (n_rows, n_times)."""
        start = time.perf_counter()
        found = np.ascontiguousarray(survival_at(self.model, self.X, times))
        self.seconds += time.perf_counter() - start
        return found

    @property
    def offers(self) -> frozenset[str]:
        """What the model can give, see :func:`gives`."""
        return gives(self.model, len(getattr(self.model, "classes_", (0, 1))))

    @property
    def classes(self) -> np.ndarray:
        """Classes of the training samples, (n_classes,)."""
        return np.asarray(self.model.classes_)

    def answers(self, name: str) -> bool:
        """Return whether the model has a method."""
        return hasattr(self.model, name)

    def prepare(self, needs: str) -> None:
        """Have the model answer what a metric with these `needs` is going to read."""
        if needs == "std":
            self.moments()
        elif needs in ("labels", "scores", "probabilities"):
            getattr(self, needs)()

    def ask(self, question: str) -> Any:
        """Call a method of the model on the rows; "moments" and "latent" are means and deviations."""
        if question not in self._answers:
            if question == "predict" and "moments" in self._answers:
                return self._answers["moments"][0]
            start = time.perf_counter()
            self._answers[question] = self._answer(question)
            self.seconds += time.perf_counter() - start
        return self._answers[question]

    def _answer(self, question: str) -> Any:
        """Ask the model; answers lie in memory as they would after they were read from a file."""
        if question == "moments":  # searches do not pass `return_std` on
            model = getattr(self.model, "best_estimator_", self.model)
            return tuple(np.ascontiguousarray(moment) for moment in model.predict(self.X, return_std=True))
        if question == "latent":
            model, X = last_step(self.model, self.X)
            return tuple(np.ascontiguousarray(moment) for moment in model.predict_latent(X, return_std=True))
        return np.ascontiguousarray(getattr(self.model, question)(self.X))

    def as_model(self) -> Any:
        """Return a stand-in for the model that gives the predictions made here, whatever rows it is asked about."""
        return _Recorded(self)


class _Recorded:
    """Model interface for scikit-learn's scorers, with predictions that are there."""

    def __init__(self, predictions: Predictions) -> None:
        self._predictions = predictions

    def __getattr__(self, name: str) -> Any:
        if name not in RESPONSES or not self._predictions.answers(name):
            return getattr(self._predictions.model, name)  # AttributeError where the model cannot do it

        def replay(X: Samples, return_std: bool = False) -> Any:
            return self._predictions.ask("moments" if return_std else name)

        replay.__name__ = name  # scorers decide by it what comes back
        return replay


def final_estimator(model: BaseEstimator) -> Any:
    """Return the final estimator of a Pipeline or a search: the best one, or before the fit the one searched for."""
    while True:
        if getattr(model, "steps", None):
            model = model.steps[-1][1]
        elif _is_search(model):
            model = getattr(model, "best_estimator_", model.estimator)
        else:
            return model


def weight_argument(model: BaseEstimator) -> str | None:
    """Return by what name the fit of a Pipeline or a search takes weights of samples; None where it takes none.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> weight_argument(make_pipeline(SVC())), weight_argument(KNeighborsClassifier())
    ('svc__sample_weight', None)
    """
    if getattr(model, "steps", None):
        step, last = model.steps[-1]
        found, routed = weight_argument(last), get_config()["enable_metadata_routing"]
        return found if found is None or routed else f"{step}__{found}"
    if _is_search(model):
        return weight_argument(model.estimator)
    return "sample_weight" if has_fit_parameter(model, "sample_weight") else None


def _is_search(model: BaseEstimator) -> bool:
    return hasattr(model, "refit") and hasattr(model, "estimator")


def gives(model: BaseEstimator, n_classes: int = 2) -> frozenset[str]:
    """Return the metrics that can be computed from a model, fitted or not.

    Parameters
    ----------
    model : estimator
        A Pipeline or a search will do.
    n_classes : int, default=2
        Classes of the target; some decision functions rank pairs of classes where there are more than two.

    Returns
    -------
    frozenset of str
        Of "model", "labels", "scores", "probabilities", "std" (means with standard deviations), "latent" (those of
        the latent function) and "survival" (survival functions).
    """
    final = final_estimator(model)
    found = {"model", "labels"}
    if hasattr(model, "predict_proba"):
        found |= {"probabilities", "scores"}
    if _ranks_classes(model, n_classes):
        found.add("scores")
    if "return_std" in inspect.signature(final.predict).parameters:
        found.add("std")
    if hasattr(final, "predict_survival_function"):
        found.add("survival")
    if (
        hasattr(final, "predict_latent")
        and "return_std" in inspect.signature(final.predict_latent).parameters
    ):
        found.add("latent")
    return frozenset(found)


def _ranks_classes(model: BaseEstimator, n_classes: int) -> bool:
    """Return whether the decision function has one column per class, or a single one for two classes."""
    pairs = getattr(final_estimator(model), "decision_function_shape", "ovr") == "ovo"
    return hasattr(model, "decision_function") and not (pairs and n_classes > 2)


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
    first, last = getattr(function, "domain", (-np.inf, np.inf))
    return np.where(times < first, 1.0, np.asarray(function(np.clip(times, first, last))))


# ------------------------------------------------------------------------------------------------ kept predictions


def keep_predictions(
    predictions: Predictions, y: np.ndarray, rows: np.ndarray, task: str
) -> tuple[Kept | None, str]:
    """Return what a cell keeps of its test rows, or why it keeps nothing.

    Parameters
    ----------
    predictions : Predictions
    y : ndarray of shape (n_rows,)
        What is true of them.
    rows : ndarray of shape (n_rows,)
        Their positions in the data.
    task : {"classification", "regression", "survival"}

    Returns
    -------
    kept : Kept or None
    left_out : str
        Why there is nothing.
    """
    offers = predictions.offers
    arrays: dict[str, np.ndarray] = {"rows": np.asarray(rows), "y": np.asarray(y)}
    arrays["predict"] = predictions.ask("predict")
    if task == "classification":
        arrays["classes"] = predictions.classes
        if hasattr(predictions.model, "decision_function"):
            arrays["decision_function"] = predictions.ask("decision_function")
    for need, question in ASKED.items():
        if need in offers:
            found = predictions.ask(question)
            names = (f"{question}_mean", f"{question}_std") if question in PAIRS else (question,)
            arrays |= dict(zip(names, found if question in PAIRS else [found], strict=True))
    if task == "survival":
        arrays["y_train"] = np.asarray(predictions.y_train)
        with suppress(ValueError):  # followed too short a time
            arrays["times"] = brier_times(predictions.y_train, y)
        if "survival" in offers and "times" in arrays:
            arrays["survival"] = predictions.survival(arrays["times"])
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    plain = arrays | {name: np.array(arrays[name].tolist()) for name in objects}
    for name in objects:
        if plain[name].dtype.hasobject or plain[name].tolist() != arrays[name].tolist():
            return None, f"its {name!r} holds objects that no file keeps as they are"
    size = sum(array.nbytes for array in plain.values())
    if size > MOST_KEPT:
        return None, f"its predictions take {size / 2**20:.2g} MiB, and a cell keeps {MOST_KEPT // 2**20}"
    ranks = "decision_function" in arrays and predictions.ranks_classes()
    about = {"offers": sorted(offers), "task": task, "ranks": ranks, "objects": objects}
    return Kept(plain, about), ""


class StoredPredictions(Predictions):
    """Predictions of a cell, which answers as the model did and knows nothing else.

    Parameters
    ----------
    kept : Kept

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        What is true of the rows.
    rows : ndarray of shape (n_rows,)
        Their positions in the data.
    task : str
    arrays : dict of str to ndarray
        All that is kept.
    """

    def __init__(self, kept: Kept) -> None:
        arrays = {
            name: array.astype(object) if name in kept.about["objects"] else array
            for name, array in kept.arrays.items()
        }
        self.arrays = arrays
        self.y, self.rows, self.task = arrays["y"], arrays["rows"], str(kept.about["task"])
        self._offers, self._ranks = frozenset(kept.about["offers"]), bool(kept.about["ranks"])
        model: Any = STAND_INS[self.task]()
        model.classes_ = arrays.get("classes")
        no_rows: Any = None  # cells keep no samples
        super().__init__(model, no_rows, y_train=arrays.get("y_train"))
        self._answers = {name: arrays[name] for name in RESPONSES if name in arrays}
        self._answers |= {
            name: (arrays[f"{name}_mean"], arrays[f"{name}_std"])
            for name in PAIRS
            if f"{name}_mean" in arrays
        }

    @property
    def offers(self) -> frozenset[str]:
        """What the model could give; some of it is not kept."""
        return self._offers

    def ranks_classes(self) -> bool:
        """Return whether a decision function is kept that has scores of classes."""
        return self._ranks

    def survival(self, times: np.ndarray) -> np.ndarray:
        """Return the survival at the times of the Brier score, (n_rows, n_times)."""
        if "survival" not in self.arrays or not np.array_equal(times, self.arrays["times"]):
            raise NotKeptError("a cell keeps survival at the times of its Brier score only")
        return self.arrays["survival"]

    def ask(self, question: str) -> Any:
        """Return what is kept."""
        if question not in self._answers:
            raise NotKeptError(f"a cell of this model keeps no {question!r}")
        return self._answers[question]

    def answers(self, name: str) -> bool:
        """Return whether it is kept what a method answered."""
        return name in self._answers


class _Classifier(ClassifierMixin, BaseEstimator):
    """Classifier of which only the predictions are known."""


class _Regressor(RegressorMixin, BaseEstimator):
    """Regressor of which only the predictions are known."""


STAND_INS = {"classification": _Classifier, "regression": _Regressor, "survival": BaseEstimator}
