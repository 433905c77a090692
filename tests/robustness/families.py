"""A small fitted model of every kind that can be kept in a file, and the predictions that identify it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLClassifier,
    GPMKLRegressor,
    KernelBank,
    discriminative,
)
from bayesmkl.bemkl import (
    BEMKLMultitaskClassifier,
    BEMKLMultitaskRegressor,
    BEMKLOrdinalClassifier,
    BEMKLSurvival,
    Gibbs,
)
from bayesmkl.gp import DirichletShares, GPMKLOrdinalClassifier, GPMKLSurvival, Marginal
from bayesmkl.kernels import Gaussian, Linear, Polynomial

N_TRAIN, N_NEW = 16, 6
QUICK: dict[str, Any] = {"max_iter": 4, "tol": 0.05}
SHORT: dict[str, Any] = {"max_iter": 3, "tol": 0.0}
CHAINS: dict[str, Any] = {"inference": Gibbs(n_chains=1, n_warmup=5, n_draws=10)}


def data(n: int = N_TRAIN, seed: int = 5) -> np.ndarray:
    """Return features that do not depend on the version of NumPy's generators."""
    i, j = np.arange(n)[:, None] + 31 * seed, np.arange(3)
    return np.round(np.sin(1.7 * i * (j + 1) + 0.3 * j) + 0.25 * np.cos(0.9 * i + j), 6)


def target(X: np.ndarray) -> np.ndarray:
    return np.round(X[:, 0] - 0.7 * X[:, 1] + 0.2 * np.sin(5 * X[:, 2]), 6)


def labels(X: np.ndarray, n_classes: int) -> np.ndarray:
    ranks = target(X).argsort().argsort()
    return np.array(["low", "middle", "high"][:n_classes])[ranks * n_classes // len(X)]


def bank(**options: Any) -> KernelBank:
    return KernelBank([Gaussian(width=1), Polynomial()], views={"left": [0, 1], "right": 2}, **options)


def without_views(X: np.ndarray) -> np.ndarray:
    """Return `X` with the second view missing in every fifth row."""
    X = X.copy()
    X[::5, 2] = np.nan
    return X


def discriminative_classes() -> dict[str, type]:
    found = {name: getattr(discriminative, name) for name in discriminative.__all__}
    return {
        name: cls
        for name, cls in found.items()
        if inspect.isclass(cls) and name.endswith(("Classifier", "Regressor", "OneClass"))
    }


def _discriminative(cls: type, **parameters: Any) -> Any:
    known = inspect.signature(cls).parameters
    return cls(bank(), **{k: v for k, v in (QUICK | {"cv": 2}).items() if k in known} | parameters)


def _fit_discriminative(cls: type, n_classes: int) -> Callable[[], Any]:
    def fit() -> Any:
        X, model = data(), _discriminative(cls)
        if is_outlier_detector(model):
            return model.fit(X)
        return model.fit(X, target(X) if is_regressor(model) else labels(X, n_classes))

    return fit


def _classifier(n_classes: int = 2, **parameters: Any) -> Callable[[], Any]:
    return lambda: BEMKLClassifier(bank(), **SHORT | parameters, intermediate_scale=1.0).fit(
        data(), labels(data(), n_classes)
    )


def _regressor(**parameters: Any) -> Callable[[], Any]:
    return lambda: BEMKLRegressor(bank(), **SHORT | parameters).fit(data(), target(data()))


def _process(regression: bool, **parameters: Any) -> Callable[[], Any]:
    def fit() -> Any:
        cls, y = (GPMKLRegressor, target(data())) if regression else (GPMKLClassifier, labels(data(), 2))
        return cls(bank(), inference=Marginal(n_points=100, n_draws=100), **parameters).fit(data(), y)

    return fit


def _process_of(kind: str) -> Callable[[], Any]:
    def fit() -> Any:
        X, few = data(), Marginal(n_points=100, n_draws=100)
        if kind == "times":
            noise = 0.3 * np.cos(
                7.0 * np.arange(len(X))
            )  # times that know their scores take far longer to fit
            times = np.round(np.exp(target(X) + noise), 6)
            y = np.rec.fromarrays([np.arange(len(X)) % 3 > 0, times], names="event,time")
            return GPMKLSurvival(bank(), inference=few).fit(X, y)
        if kind == "grades":
            ordinal = GPMKLOrdinalClassifier(bank(), levels=["low", "middle", "high"], inference=few)
            return ordinal.fit(X, labels(X, 3))
        counts = np.floor(np.exp(target(X) + 1.0))
        return GPMKLRegressor(bank(), likelihood="negative-binomial", inference=few).fit(X, counts)

    return fit


def _grades(**parameters: Any) -> Callable[[], Any]:
    def fit() -> Any:
        ordinal = BEMKLOrdinalClassifier(
            bank(), levels=["low", "middle", "high"], **SHORT | parameters, intermediate_scale=1.0
        )
        return ordinal.fit(data(), labels(data(), 3))

    return fit


def _times() -> Any:
    X = data()
    times = np.round(np.exp(target(X) + 0.3 * np.cos(7.0 * np.arange(len(X)))), 6)
    y = np.rec.fromarrays([np.arange(len(X)) % 3 > 0, times], names="event,time")
    return BEMKLSurvival(bank(), **SHORT).fit(X, y)


def _several_outputs() -> Any:
    y = target(data())
    return BEMKLRegressor(bank(), **SHORT).fit(data(), np.c_[y, y**2, np.sin(y)])


def _several_labels() -> Any:
    X = data()
    return BEMKLClassifier(bank(), **SHORT, intermediate_scale=1.0).fit(
        X, np.c_[X[:, 0] > 0, X[:, 1] > 0.1].astype(int)
    )


def _missing(regression: bool) -> Callable[[], Any]:
    def fit() -> Any:
        cls, y = (BEMKLRegressor, target(data())) if regression else (BEMKLClassifier, labels(data(), 2))
        return cls(bank(), missing_views="integrate", **SHORT).fit(without_views(data()), y)

    return fit


def _process_of_missing() -> Any:
    few = Marginal(n_points=100, n_draws=100)
    X = without_views(data())
    return GPMKLRegressor(bank(), missing_views="impute", inference=few).fit(X, target(data()))


def _few_labels() -> Any:
    y = labels(data(), 2)
    y[::4] = "?"
    return BEMKLClassifier(bank(), unlabeled_label="?", **SHORT, intermediate_scale=1.0).fit(data(), y)


def _graph() -> Any:
    y = labels(data(), 2)
    y[::4] = "?"
    return discriminative.LapMKLClassifier(
        bank(), n_neighbors=4, unlabeled_label="?", max_iter=4, tol=0.05
    ).fit(data(), y)


def _tasks(regression: bool, relation: str) -> Callable[[], Any]:
    def fit() -> Any:
        cls = BEMKLMultitaskRegressor if regression else BEMKLMultitaskClassifier
        y = target(data()) if regression else labels(data(), 2)
        tasks = np.arange(N_TRAIN) % 2
        return cls(bank(), relation=relation, **SHORT).fit(data(), y, tasks=tasks)

    return fit


def _precomputed() -> Any:
    stack = KernelBank([Gaussian(width=1), Linear()]).fit_transform(data())
    return BEMKLRegressor("precomputed", kernel_names=["one", "two"], **SHORT).fit(stack, target(data()))


def _pipeline() -> Any:
    model = make_pipeline(StandardScaler(), BEMKLClassifier(bank(), **SHORT, intermediate_scale=1.0))
    return model.fit(data(), labels(data(), 2))


def _gatings() -> dict[str, Callable[[], Any]]:
    def fit(gating: Any) -> Callable[[], Any]:
        return lambda: _discriminative(discriminative.LMKLClassifier, gating=gating).fit(
            data(), labels(data(), 2)
        )

    gatings = {
        "sigmoid gating": discriminative.SigmoidGating(),
        "softmax gating": discriminative.SoftmaxGating(),
        "Gaussian gating": discriminative.GaussianGating(),
    }
    return {name: fit(gating) for name, gating in gatings.items()}


def families() -> dict[str, Callable[[], Any]]:
    """Return what fits a model, by name."""
    two = {name: _fit_discriminative(cls, 2) for name, cls in discriminative_classes().items()}
    several = {
        f"{name}, three classes": _fit_discriminative(cls, 3)
        for name, cls in discriminative_classes().items()
        if is_classifier(cls())
    }
    return (
        two
        | several
        | _gatings()
        | {
            "binary": _classifier(),
            "binary, sparse": _classifier(kernel_prior="sparse"),
            "binary, paper's prediction": _classifier(predictive="paper"),
            "shared weights": _classifier(3),
            "one-versus-all": _classifier(3, multiclass="one-versus-all"),
            "multinomial": _classifier(3, multiclass="multinomial"),
            "nonnegative binary": _classifier(nonnegative=True),
            "grades": _grades(),
            "nonnegative grades": _grades(nonnegative=True),
            "times": _times,
            "several labels": _several_labels,
            "few labels": _few_labels,
            "graph": _graph,
            "regression": _regressor(),
            "nonnegative regression": _regressor(nonnegative=True),
            "several outputs": _several_outputs,
            "missing views, binary": _missing(False),
            "missing views, regression": _missing(True),
            "Gibbs, binary": _classifier(**CHAINS),
            "Gibbs, regression": _regressor(**CHAINS),
            "Gaussian process, binary": _process(False),
            "Gaussian process, regression": _process(True, kernel_prior=DirichletShares(0.3)),
            "Gaussian process, missing views": _process_of_missing,
            **{f"Gaussian process, {kind}": _process_of(kind) for kind in ("counts", "grades", "times")},
            "precomputed": _precomputed,
            "pipeline": _pipeline,
        }
        | {
            f"tasks, {relation}, {'regression' if regression else 'binary'}": _tasks(regression, relation)
            for relation in ("learned", "shared", "separate")
            for regression in (False, True)
        }
    )


def fitted(fit: Callable[[], Any]) -> Any:
    """Fit a model that stops early, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit()


def predictions(model: Any) -> dict[str, np.ndarray]:
    """Return everything that a model says about new rows, as numbers, by method."""
    X = data(N_NEW, seed=9)
    last = model[-1] if hasattr(model, "steps") else model
    if getattr(last, "missing_views", "error") != "error":
        X = without_views(X)
    if isinstance(getattr(last, "kernels", None), str):
        X = KernelBank([Gaussian(width=1), Linear()]).fit(data()).transform(X)
    options: dict[str, Any] = {"tasks": np.arange(N_NEW) % 2} if "Multitask" in type(last).__name__ else {}
    found = {}
    for method in ("predict", "predict_proba", "decision_function", "combined_kernel", "gates"):
        if hasattr(model, method):
            asked = {} if method in ("combined_kernel", "gates") else options
            found[method] = _numbers(getattr(model, method)(X, **asked), last)
    if hasattr(last, "predict_survival_function"):
        found["survival"] = last.predict_survival_function(X, [0.5, 1.0, 2.0])
    if type(last).__name__ in ("BEMKLRegressor", "BEMKLMultitaskRegressor"):
        found["std"] = _numbers(model.predict(X, return_std=True, **options)[1], last)
    return found


def _numbers(result: Any, model: Any) -> np.ndarray:
    """Return labels as their positions, and lists of arrays as one."""
    array = np.asarray(result)
    if array.dtype.kind in "fiub":
        return array.astype(float)
    classes = np.unique(np.concatenate([np.ravel(c) for c in np.atleast_1d(model.classes_)]).astype(str))
    return np.searchsorted(classes, array.astype(str)).astype(float)
