"""Every public estimator in a form that stops early, and what users may pass to it."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
from in_turn import in_turn
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from verdicts import assert_refused

import bayesmkl.bemkl
import bayesmkl.discriminative
from bayesmkl import KernelBank
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear

EVERY: dict[str, Any] = {
    name: getattr(package, name)
    for package in (bayesmkl.discriminative, bayesmkl.bemkl)
    for name in package.__all__
    if name.endswith(("Classifier", "Regressor", "OneClass"))
}
ORDINAL = [name for name in EVERY if "Ordinal" in name]  # whose grades have an order: text alone is none
CLASSIFIERS = [name for name, cls in EVERY.items() if is_classifier(cls()) and name not in ORDINAL]
REGRESSORS = [name for name, cls in EVERY.items() if is_regressor(cls())]
SUPERVISED = [*CLASSIFIERS, *ORDINAL, *REGRESSORS]
DISCRIMINATIVE = [name for name in EVERY if not name.startswith("BEMKL")]
BAYESIAN = [name for name in EVERY if name.startswith("BEMKL")]
MULTITASK = [name for name in EVERY if "Multitask" in name]
ONE_COLUMN = [name for name in SUPERVISED if not name.startswith("BEMKL")]  # of `y`
# by features, which kernels lack
GATED = [name for name in EVERY if name.startswith("LMKL")]
# One estimator of each way from data to kernels: it meets every form of input, the others one.
ROADS = (
    "UniformMKLClassifier",
    "PrimalMKLOneClass",
    "LMKLRegressor",
    "BEMKLClassifier",
    "BEMKLMultitaskRegressor",
)
QUICK = {"max_iter": 10, "tol": 0.05, "epsilon": 0.2, "cv": 2, "n_neighbors": 3}  # where it has the parameter
METHODS = (
    "predict",
    "predict_proba",
    "predict_latent",
    "decision_function",
    "score_samples",
    "combined_kernel",
    "gates",
)

N_SAMPLES = 16
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N_SAMPLES, 3))
LABELS = np.where(X[:, 0] + 0.3 * _rng.normal(size=N_SAMPLES) > 0.0, 1, -1)
TARGET = X[:, 1] + 0.5 * LABELS
NEW = _rng.normal(size=(5, 3))
SPOILED = (3, 1)  # the entry of a table that is no good
assert min(np.sum(LABELS == 1), np.sum(LABELS == -1)) >= 5
for _array in (X, LABELS, TARGET, NEW):
    _array.flags.writeable = False  # no estimator may change what it is given


# ----------------------------------------------------------------------------------------------------- models


def bank(scale: float = 1.0, **options: Any) -> KernelBank:
    return KernelBank([Gaussian(width=2.0 * scale), Linear()], **options)


def known(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return those of `parameters` that the estimator has."""
    return {key: value for key, value in parameters.items() if key in EVERY[name]().get_params()}


def quick(name: str, kernels: Any = None, **parameters: Any) -> Any:
    """Return an estimator that stops early; those of the Bayesian family after as many sweeps as they are given."""
    own = known(name, QUICK) | ({"tol": 0.0} if name in BAYESIAN else {})
    return EVERY[name](bank() if kernels is None else kernels, **own | parameters)


def target_of(name: str) -> np.ndarray:
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
        warnings.filterwarnings("ignore", "LDMKLClassifier predicts")  # one class, stopped early
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", KernelQualityWarning)
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


def takes(method: Any, argument: str) -> bool:
    return argument in inspect.signature(method).parameters


def pairs(names: Iterable[str], forms: Iterable[str], common: str) -> Any:
    """Parametrize a test by every form for one estimator of each way to kernels, by the commonest for all."""
    names = list(names)
    chosen = [name for name in names if name in ROADS]
    return in_turn(
        ("name", "form"),
        [(name, form) for form in forms for name in (names if form == common else chosen)],
    )


# ---------------------------------------------------------------------------------------------------- verdicts


def refused(call: Callable[[], Any], *arguments: str) -> BaseException:
    """Check that a call is refused by an error that names one of the arguments as a word of its own."""
    error = assert_refused(call)
    found = [name for name in arguments if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error))]
    assert found, f"the message names none of {arguments}: {error}"
    return error


class Form(NamedTuple):
    """Something to pass as an argument."""

    make: Callable[[np.ndarray], Any]  # from the plain array
    plain: Callable[[np.ndarray], np.ndarray] = lambda array: array  # the array that means the same
    names: tuple[str, ...] = ("X",)


def spoiled(value: Any, dtype: Any = float) -> Callable[[np.ndarray], np.ndarray]:
    """Return what puts a value into one entry of an array."""

    def put(array: np.ndarray) -> np.ndarray:
        changed = array.astype(dtype)
        changed[SPOILED if array.ndim > 1 else SPOILED[0]] = value
        return changed

    return put


def masked(array: np.ndarray) -> Any:
    mask = np.zeros(array.shape, dtype=bool)
    mask[3] = True
    return np.ma.array(array, mask=mask)


def frame(array: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])


def strided(array: np.ndarray) -> np.ndarray:
    """Return a view of every second entry of something larger, backwards."""
    wide = np.full((2 * len(array), *(2 * size for size in array.shape[1:])), np.nan)
    every_second = (slice(None, None, -2), *(slice(None, None, 2) for _ in array.shape[1:]))
    wide[every_second] = array
    return wide[every_second]


class OnlyAnArray:
    """An object of another library, which NumPy can convert."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array.astype(self.array.dtype if dtype is None else dtype)


def decimals(array: np.ndarray) -> np.ndarray:
    return np.array([Decimal(value) for value in array.ravel().tolist()], dtype=object).reshape(array.shape)


# What no argument that holds numbers may be, whatever its shape.
NO_NUMBERS = {
    "NaN": Form(spoiled(np.nan)),
    "infinity": Form(spoiled(np.inf)),
    "minus infinity": Form(spoiled(-np.inf)),
    "numbers as text": Form(lambda array: array.astype(str)),
    "words": Form(lambda array: np.full(array.shape, "a")),
    "bytes": Form(lambda array: array.astype("S5")),
    "a word among numbers": Form(spoiled("a", object)),
    "a number as text among numbers": Form(spoiled("1.5", object)),
    "a dictionary among numbers": Form(spoiled({}, object)),
    "None among numbers": Form(spoiled(None, object)),
    "an array among numbers": Form(spoiled(None, object)),
    "complex": Form(lambda array: array + 0j),
    "dates": Form(lambda array: np.full(array.shape, "2020-01-01", dtype="M8[s]")),
    "durations": Form(lambda array: np.zeros(array.shape, dtype="m8[s]")),
    "structured": Form(lambda array: np.zeros(len(array), dtype=[("a", float), ("b", float)])),
    "masked entries": Form(masked),
    "None": Form(lambda array: None),
    "a number": Form(lambda array: np.float64(3.0)),
    "a word": Form(lambda array: "abc"),
    "a dictionary": Form(lambda array: {"a": [1.0, 2.0]}),
    "a set": Form(lambda array: {1.0, 2.0}),
    "a generator": Form(lambda array: (row for row in array)),
    "a function": Form(lambda array: np.sum),
    "a class": Form(lambda array: np.ndarray),
    "ragged": Form(lambda array: [[1.0, 2.0], [3.0]] * (len(array) // 2)),
}
# Tables that are none.
NO_TABLES = NO_NUMBERS | {
    "sparse": Form(lambda array: sparse.csr_matrix(array)),
    "sparse array": Form(lambda array: sparse.coo_array(array)),
    "matrix": Form(np.matrix),
    "no rows": Form(lambda array: array[:0], names=("X",)),
    "no columns": Form(lambda array: array[:, :0]),
    "one dimension": Form(lambda array: array[:, 0]),
    "three dimensions": Form(lambda array: array[:, :, None]),
    "four dimensions": Form(lambda array: array[:, :, None, None]),
    "a series": Form(lambda array: frame(array)["x0"]),
    "a frame with text": Form(lambda array: frame(array).assign(x1="a"), names=("x1",)),
    "a frame with dates": Form(lambda array: frame(array).assign(x1=pd.Timestamp("2020")), names=("x1",)),
    "a frame with categories": Form(
        lambda array: frame(array).assign(x1=pd.Categorical(["a"] * len(array))), names=("x1",)
    ),
    "a frame with complex numbers": Form(lambda array: frame(array).assign(x1=1j), names=("x1",)),
    "a frame with gaps": Form(lambda array: frame(array).astype("Float64").mask(frame(array) > 1.0)),
    "a polars query": Form(lambda array: pl.from_numpy(array).lazy()),
    "a sparse frame": Form(lambda array: frame(array).astype(pd.SparseDtype("float", 0.0))),
    "a frame with two columns of one name": Form(
        lambda array: frame(array).set_axis(["a", "a", "b"], axis=1)
    ),
    "a frame with names of two kinds": Form(lambda array: frame(array).set_axis(["a", 1, "b"], axis=1)),
    "a polars frame with text": Form(
        lambda array: pl.DataFrame({"x0": ["a"] * len(array), "x1": array[:, 1]}), names=("x0",)
    ),
    "a polars frame with gaps": Form(
        lambda array: pl.DataFrame({"x0": [None, *array[1:, 0]], "x1": array[:, 1], "x2": array[:, 2]})
    ),
}
