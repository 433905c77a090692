"""Predictions that a cell keeps, and metrics of them as they would be of the model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from bayesmkl.evaluation.predictions import RESPONSES, Predictions
from bayesmkl.evaluation.store import Kept, NotKeptError
from bayesmkl.evaluation.survival_scores import brier_times, median_event

PAIRS = ("moments", "latent")  # means with standard deviations
# what models that give it are asked
ASKED = {"probabilities": "predict_proba", "std": "moments", "latent": "latent"}


def keep_predictions(
    predictions: Predictions, y: np.ndarray, rows: np.ndarray, task: str, most: float
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
    most : float
        Largest number of bytes, as arrays.

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
            arrays |= _pair(question, found) if question in PAIRS else {question: found}
    if task == "survival":
        arrays["y_train"] = np.asarray(predictions.y_train)
        arrays |= _survival(predictions, y) if "survival" in offers else {}
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    plain = arrays | {name: np.array(arrays[name].tolist()) for name in objects}
    changed = [name for name in objects if not _is_same(plain[name], arrays[name])]
    if changed:
        return None, f"its {changed[0]!r} holds objects that no file keeps as they are"
    size = sum(array.nbytes for array in plain.values())
    if size > most:
        return (
            None,
            f"its predictions take {size / 2**20:.2g} MiB, and `keep_predictions` allows {most / 2**20:g}",
        )
    ranks = "decision_function" in arrays and predictions.ranks_classes()
    about = {"offers": sorted(offers), "task": task, "ranks": ranks, "objects": objects}
    return Kept(plain, about), ""


def _pair(name: str, moments: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}_mean": moments[0], f"{name}_std": moments[1]}


def _survival(predictions: Predictions, y: np.ndarray) -> dict[str, np.ndarray]:
    """Return survival at the times of the Brier score, where there are some, and at the median time."""
    times = {"median": np.array([median_event(predictions.y_train)])}
    with suppress(ValueError):  # followed too short a time
        times["brier"] = brier_times(predictions.y_train, y)
    found = {f"survival_{name}": predictions.survival(when) for name, when in times.items()}
    return found | {f"times_{name}": when for name, when in times.items()}


def _is_same(plain: np.ndarray, objects: np.ndarray) -> bool:
    """Return whether an array holds all that one of objects holds."""
    if plain.shape != objects.shape or plain.dtype.hasobject:
        return False
    return all(
        type(a) is type(b) and a == b for a, b in zip(plain.ravel().tolist(), objects.ravel(), strict=True)
    )


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
        super().__init__(_stand_in(self.task)(self, arrays), _NoRows(), y_train=arrays.get("y_train"))
        self._answers = {name: arrays[name] for name in RESPONSES if name in arrays}
        self._answers |= {name: _moments(arrays, name) for name in PAIRS if f"{name}_mean" in arrays}
        self._survival = {
            arrays[f"times_{name}"].tobytes(): arrays[f"survival_{name}"]
            for name in ("median", "brier")
            if f"times_{name}" in arrays
        }

    @property
    def offers(self) -> frozenset[str]:
        """What the model could give; some of it is not kept."""
        return self._offers

    def ranks_classes(self) -> bool:
        """Return whether a decision function is kept that has scores of classes."""
        return self._ranks

    def survival(self, times: np.ndarray) -> np.ndarray:
        """Return the survival at the times of a metric, (n_rows, n_times)."""
        found = self._survival.get(np.asarray(times).tobytes())
        if found is None:
            raise NotKeptError("a cell keeps survival at the times of its own metrics only")
        return found

    def ask(self, question: str) -> Any:
        """Return what is kept."""
        if question not in self._answers:
            raise NotKeptError(f"a cell of this model keeps no {question!r}")
        return self._answers[question]

    def as_model(self) -> Any:
        """Return the stand-in for the model."""
        return self.model


def _moments(arrays: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    return arrays[f"{name}_mean"], arrays[f"{name}_std"]


class _NoRows:
    """Samples that are not kept: whoever looks at them is told."""

    def __getattr__(self, name: str) -> Any:
        raise NotKeptError("cells keep no samples")

    __len__ = __iter__ = __getitem__ = __array__ = lambda self, *_: self.shape


class _StandIn(BaseEstimator):
    """Fitted model of which only the predictions are known."""

    def __init__(self, stored: StoredPredictions, arrays: dict[str, np.ndarray]) -> None:
        self.stored = stored
        if "classes" in arrays:
            self.classes_ = arrays["classes"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (name in RESPONSES and name not in self.stored.arrays):
            raise AttributeError(name)  # as of a model without it
        if name in RESPONSES:
            return self._answer(name)
        raise NotKeptError(f"{name!r} of the model is not kept")

    def _answer(self, name: str) -> Callable[..., Any]:
        def answer(X: Any, return_std: bool = False) -> Any:
            if X is not self.stored.X:
                raise NotKeptError("cells keep predictions of their test rows alone, not of others")
            return self.stored.ask("moments" if return_std else name)

        answer.__name__ = name  # scorers decide by it what comes back
        return answer


class _Classifier(ClassifierMixin, _StandIn):
    """Stand-in for a classifier."""


class _Regressor(RegressorMixin, _StandIn):
    """Stand-in for a regressor."""


def _stand_in(task: str) -> type[_StandIn]:
    return {"classification": _Classifier, "regression": _Regressor}.get(task, _StandIn)
