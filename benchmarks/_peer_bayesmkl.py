"""Estimators of this package, on one Gaussian of every width for each view."""

from __future__ import annotations

from typing import Any

import numpy as np
from _peer import Clock, Predict, Problem, main

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import Storage
from bayesmkl.discriminative import (
    EasyMKLClassifier,
    SimpleMKLClassifier,
    SimpleMKLRegressor,
    UniformMKLClassifier,
    UniformMKLRegressor,
)
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Gaussian


def _bank(problem: Problem, landmarks: int | None = None) -> KernelBank:
    views = {f"view {k + 1}": columns for k, columns in enumerate(problem.views)}
    return KernelBank([Gaussian(width=width) for width in problem.widths], views=views, landmarks=landmarks)


def _fitted(model: Any, problem: Problem, probabilities: bool = True) -> Predict:
    model.fit(problem.X, problem.y)

    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if not probabilities:
            return model.predict(X), None
        if problem.regression:
            return model.predict(X, return_std=True)
        second = model.predict_proba(X)[:, 1]
        return second > 0.5, second

    return predict


def bemkl(problem: Problem, clock: Clock, landmarks: int | None = None, tol: float = 1e-6) -> Predict:
    kind = BEMKLRegressor if problem.regression else BEMKLClassifier
    on_gpu = problem.device == "cuda"
    storage = Storage("dense", backend="jax") if on_gpu else Storage(backend="numpy")
    return _fitted(kind(_bank(problem, landmarks), storage=storage, tol=tol), problem)


def gpmkl(problem: Problem, clock: Clock, landmarks: int | None = None, total: int | None = None) -> Predict:
    kind = GPMKLRegressor if problem.regression else GPMKLClassifier
    inference = "marginal" if total is None else Marginal(total_landmarks=total)
    return _fitted(kind(_bank(problem, landmarks), inference=inference, random_state=problem.seed), problem)


def _discriminative(classifier: Any, regressor: Any) -> Any:
    def fit(problem: Problem, clock: Clock) -> Predict:
        kind = regressor if problem.regression else classifier
        return _fitted(kind(_bank(problem)), problem, probabilities=False)

    return fit


METHODS = {
    "bemkl": bemkl,
    "gpmkl": gpmkl,
    "uniform": _discriminative(UniformMKLClassifier, UniformMKLRegressor),
    "simple": _discriminative(SimpleMKLClassifier, SimpleMKLRegressor),
    "easy": _discriminative(EasyMKLClassifier, None),
}

if __name__ == "__main__":
    main(METHODS)
