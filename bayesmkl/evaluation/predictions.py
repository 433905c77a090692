"""Predictions of fitted models on new samples, each computed once."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import has_fit_parameter

from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Samples
from bayesmkl.bemkl import BEMKLClassifier, BEMKLRegressor
from bayesmkl.evaluation.survival_scores import last_step, survival_at
from bayesmkl.gp import GPMKLClassifier, GPMKLRegressor, GPMKLSurvival
from bayesmkl.posterior.fitted import fitted_bemkl

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


OURS = (BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, GPMKLSurvival)
SCORED = (BEMKLClassifier, GPMKLClassifier)  # all of whose predictions are those of one evaluation
RESPONSES = ("predict", "decision_function", "predict_proba")
FROM_SCORES = {
    "predict": "_labels",
    "decision_function": "_odds",
    "predict_proba": "_probabilities",
    "latent": "_latent",
}


class Predictions:
    """Predictions of a fitted model for some rows, made when they are first asked for and then kept.

    Parameters
    ----------
    model : estimator
        Fitted; a Pipeline or a search will do.
    X : array-like
        Rows to predict, as `model` takes them.
    X_train : array-like, default=None
        Training data of `model`; only leaving out training samples of a model of precomputed kernels needs it.
    random_state : int, default=0
        Seed of draws from the posterior.
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
        X_train: Samples | None = None,
        random_state: int = 0,
        y_train: np.ndarray | None = None,
    ) -> None:
        self.model = model
        self.X = X
        self.X_train = X_train
        self.random_state = random_state
        self.y_train: Any = y_train
        self.seconds = 0.0
        self._answers: dict[str, Any] = {}
        self._scored: tuple[Any, ...] = ()

    def labels(self) -> np.ndarray:
        """Return predicted classes, in regression values, of times to an event risks, (n_rows,).

        Of several labels or targets, (n_rows, n_labels).
        """
        labels = self.ask("predict")
        return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels

    def scores(self) -> np.ndarray:
        """Return scores of the classes, (n_rows,) for two of them (the second), else (n_rows, n_classes or n_labels).

        It is the decision function, or probabilities of models that have none.
        """
        if self.ranks_classes():
            return self.ask("decision_function")
        probabilities = self.probabilities()
        return probabilities[:, 1] if len(self.classes) == 2 and not self.of_several() else probabilities

    def ranks_classes(self) -> bool:
        """Return whether the model has a decision function for each class."""
        return _ranks_classes(self.model, len(self.classes))

    def probabilities(self) -> np.ndarray:
        """Return class probabilities, (n_rows, n_classes); of several labels, those of each, (n_rows, n_labels)."""
        return self.ask("predict_proba")

    def of_several(self) -> bool:
        """Return whether there are several labels or targets of a sample."""
        return self.labels().ndim == 2

    def of_label(self, k: int) -> OneLabel:
        """Return what is predicted of one of several labels."""
        return OneLabel(self, k)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the target, each (n_rows,)."""
        return self.ask("moments")

    def latent(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the latent function."""
        return self.ask("latent")

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
            if type(final_estimator(self.model)) is BEMKLClassifier:
                return tuple(np.ascontiguousarray(moment) for moment in self._answer_from_scores(question))
            model, X = last_step(self.model, self.X)
            return tuple(np.ascontiguousarray(moment) for moment in model.predict_latent(X, return_std=True))
        if type(final_estimator(self.model)) in SCORED and question in FROM_SCORES:
            return np.ascontiguousarray(self._answer_from_scores(question))
        found = getattr(self.model, question)(self.X)
        if isinstance(found, list):  # the probabilities of the classes of each of several labels
            found = np.column_stack([own[:, 1] for own in found])
        return np.ascontiguousarray(found)

    @own_settings
    def _answer_from_scores(self, question: str) -> Any:
        """Answer as the methods of the classifier do, all of them from one evaluation of the kernels."""
        fitted = fitted_bemkl(self.model)
        self._scored = self._scored or fitted.estimator._scores(fitted.transform(self.X))
        return getattr(fitted.estimator, FROM_SCORES[question])(*self._scored)

    def as_model(self) -> Any:
        """Return a stand-in for the model that gives the predictions made here, whatever rows it is asked about."""
        return _Recorded(self)


class OneLabel:
    """Predictions of one of several labels, as of two classes.

    Parameters
    ----------
    predictions : Predictions
    k : int
        Column of the label.
    """

    classes = np.array([0, 1])

    def __init__(self, predictions: Predictions, k: int) -> None:
        self.predictions, self.k = predictions, k

    def labels(self) -> np.ndarray:
        """Return whether rows have the label, (n_rows,)."""
        return self.predictions.labels()[:, self.k]

    def scores(self) -> np.ndarray:
        """Return the score of the label, (n_rows,)."""
        return self.predictions.scores()[:, self.k]

    def probabilities(self) -> np.ndarray:
        """Return the probabilities of its absence and presence, (n_rows, 2)."""
        present = self.predictions.probabilities()[:, self.k]
        return np.column_stack([1.0 - present, present])


class _Recorded:
    """Model interface for scikit-learn's scorers, with stored predictions."""

    def __init__(self, predictions: Predictions) -> None:
        self._predictions = predictions

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._predictions.model, name)  # AttributeError where the model cannot do it
        return self._replay(name) if name in RESPONSES else own

    def _replay(self, name: str) -> Callable[[Any], np.ndarray]:
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
        the latent function), "survival" (survival functions), "posterior" (draws of BEMKL or of an additive Gaussian
        process) and "bound" (the ELBO of BEMKL).
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
    if isinstance(final, OURS):
        found.add("posterior")
        if final._inference().name == "vb":
            found.add("bound")
    return frozenset(found)


def _ranks_classes(model: BaseEstimator, n_classes: int) -> bool:
    """Return whether the decision function has one column per class, or a single one for two classes."""
    pairs = getattr(final_estimator(model), "decision_function_shape", "ovr") == "ovo"
    return hasattr(model, "decision_function") and not (pairs and n_classes > 2)
