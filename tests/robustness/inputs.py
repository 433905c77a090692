"""Every public estimator in a form that stops early, the plain data, and what users may pass instead of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

import bayesmkl.bemkl
import bayesmkl.discriminative
import bayesmkl.gp
from bayesmkl import KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Gaussian, Linear

EVERY: dict[str, Any] = {
    name: getattr(package, name)
    for package in (bayesmkl.discriminative, bayesmkl.bemkl, bayesmkl.gp)
    for name in package.__all__
    if name.endswith(("Classifier", "Regressor", "OneClass", "Survival"))
}
CLASSIFIERS = [name for name, cls in EVERY.items() if is_classifier(cls()) and "Ordinal" not in name]
REGRESSORS = [name for name, cls in EVERY.items() if is_regressor(cls()) and not name.endswith("Survival")]
BAYESIAN = [name for name in EVERY if name.startswith(("BEMKL", "GPMKL"))]
DISCRIMINATIVE = [name for name in EVERY if name not in BAYESIAN]
GATED = [name for name in EVERY if name.startswith("LMKL")]  # by features, which kernels lack
# One estimator of each way from data to kernels and from targets to numbers: they meet every form of input.
ROADS = (
    "UniformMKLClassifier",
    "PrimalMKLOneClass",
    "LMKLRegressor",
    "BEMKLClassifier",
    "BEMKLMultitaskRegressor",
)
QUICK: dict[str, Any] = {"max_iter": 10, "tol": 0.05, "epsilon": 0.2, "cv": 2, "n_neighbors": 3}
METHODS = (
    "predict",
    "predict_proba",
    "predict_latent",
    "decision_function",
    "score_samples",
    "combined_kernel",
    "gates",
)
_rng = np.random.default_rng(0)
X = _rng.normal(size=(16, 3))
LABELS = np.where(X[:, 0] + 0.3 * _rng.normal(size=16) > 0.0, 1, -1)
TARGET = X[:, 1] + 0.5 * LABELS
NEW = _rng.normal(size=(5, 3))
for _array in (X, LABELS, TARGET, NEW):
    _array.flags.writeable = False  # no estimator may change what it is given


def bank(scale: float = 1.0, **options: Any) -> KernelBank:
    return KernelBank([Gaussian(width=2.0 * scale), Linear()], **options)


def known(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return those of `parameters` that the estimator has."""
    return {key: value for key, value in parameters.items() if key in EVERY[name]().get_params()}


def quick(name: str, kernels: Any = None, **parameters: Any) -> Any:
    """Return an estimator that stops early; those of the Bayesian family after as many sweeps as they are given."""
    own = known(name, QUICK) | ({"tol": 0.0} if name.startswith("BEMKL") else {})
    if name.startswith("GPMKL"):
        own = {"inference": Marginal(n_points=100, n_draws=100), "random_state": 0}
    return EVERY[name](bank() if kernels is None else kernels, **own | parameters)


def target_of(name: str) -> Any:
    if name.endswith("Survival"):
        return np.rec.fromarrays([LABELS > 0, np.exp(X[:, 0])], names="event,time")
    return TARGET if name in REGRESSORS else LABELS


def extra(name: str, rows: np.ndarray = X) -> dict[str, Any]:
    """Return what `fit` and `predict` need beside precomputed kernels."""
    return {"gate_features": rows} if name in GATED else {}


def scores(model: Any, rows: Any, **more: Any) -> np.ndarray:
    """Return the predictions that are real numbers."""
    method = "decision_function" if hasattr(model, "decision_function") else "predict"
    if hasattr(model, "levels"):
        method = "predict_latent"
    return np.asarray(getattr(model, method)(rows, **more))


def silently(call: Callable[[], Any]) -> Any:
    """Return the result of a call that may say what it thinks of kernels and of early stopping."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


@cache
def fitted(name: str) -> Any:
    """Return a model of the plain data; nobody may change it."""
    return silently(lambda: quick(name).fit(X, target_of(name)))


@cache
def stack() -> np.ndarray:
    """Return the kernels of the plain data, (n_samples, n_samples, n_kernels)."""
    kernels = np.ascontiguousarray(bank().fit_transform(X))
    kernels.flags.writeable = False
    return kernels


@cache
def fitted_to_stack(name: str) -> Any:
    return silently(lambda: quick(name, "precomputed").fit(stack(), target_of(name), **extra(name)))


def methods_of(name: str) -> list[str]:
    return [method for method in METHODS if hasattr(EVERY[name], method)]


def spoiled(array: np.ndarray, value: Any, dtype: Any = float) -> np.ndarray:
    """Return a copy with a value that is no good in one entry."""
    changed = array.astype(dtype)
    changed[(3, 1) if array.ndim > 1 else 3] = value
    return changed


def masked(array: np.ndarray) -> Any:
    mask = np.zeros(array.shape, dtype=bool)
    mask[3] = True
    return np.ma.array(array, mask=mask)


class OnlyAnArray:
    """An object of another library, which NumPy can convert."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array.astype(self.array.dtype if dtype is None else dtype)


def no_numbers(array: np.ndarray) -> dict[str, Any]:
    """Return what no argument that holds numbers may be, whatever its shape."""
    return {
        "NaN": spoiled(array, np.nan),
        "infinity": spoiled(array, np.inf),
        "numbers as text": array.astype(str),
        "a word among numbers": spoiled(array, "a", object),
        "None among numbers": spoiled(array, None, object),
        "bytes": array.astype("S5"),
        "complex": array + 0j,
        "dates": np.full(array.shape, "2020-01-01", dtype="M8[s]"),
        "structured": np.zeros(len(array), dtype=[("a", float), ("b", float)]),
        "masked entries": masked(array),
        "None": None,
        "a number": np.float64(3.0),
        "a word": "abc",
        "a dictionary": {"a": [1.0, 2.0]},
        "a generator": (row for row in array),
        "a class": np.ndarray,
        "ragged": [[1.0, 2.0], [3.0]] * (len(array) // 2),
    }
