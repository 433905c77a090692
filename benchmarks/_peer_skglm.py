"""Group lasso of skglm on random Fourier features of every view, its penalty chosen on a fifth of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from _peer import Clock, Predict, Problem, main

FEATURES = 64  # pairs of a view and a width
PENALTIES = np.geomspace(1.0, 1e-3, 10)  # of the smallest that switches all views off
KEPT = 0.8


def group_lasso(problem: Problem, clock: Clock) -> Predict:
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import LogisticGroup, QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD, GroupProxNewton
    from skglm.utils.data import grp_converter

    rng = np.random.default_rng(problem.seed)
    frequencies = [
        (view, rng.standard_normal((len(view), FEATURES)) / width)
        for view in problem.views
        for width in problem.widths
    ]
    size = 2 * FEATURES * len(problem.widths)
    of_groups, pointers = grp_converter([size] * len(problem.views), size * len(problem.views))

    def features(X: np.ndarray) -> np.ndarray:
        angles = [X[:, view] @ frequency for view, frequency in frequencies]
        found = np.concatenate([part for angle in angles for part in (np.cos(angle), np.sin(angle))], axis=1)
        return np.asfortranarray(found / np.sqrt(FEATURES))

    def made(penalty: float, start: Any = None) -> Any:
        weights = np.ones(len(problem.views))
        if problem.regression:
            datafit, solver = QuadraticGroup(pointers, of_groups), GroupBCD(max_iter=100, tol=1e-4)
        else:
            datafit, solver = LogisticGroup(pointers, of_groups), GroupProxNewton(max_iter=20, tol=1e-4)
        solver.fit_intercept, solver.warm_start = True, start is not None
        model = GeneralizedLinearEstimator(
            datafit, WeightedGroupL2(penalty, weights, pointers, of_groups), solver
        )
        if start is not None:
            model.coef_, model.intercept_ = start.coef_, start.intercept_
        return model

    def score_of(model: Any, Z: np.ndarray) -> np.ndarray:
        return np.ravel(Z @ np.ravel(model.coef_) + model.intercept_)

    def loss(score: np.ndarray, target: np.ndarray) -> float:
        if problem.regression:
            return float(np.mean((target - score) ** 2))
        return float(np.mean(np.logaddexp(0.0, -target * score)))

    target = problem.y if problem.regression else 2.0 * problem.y - 1.0
    Z = features(problem.X)
    order = rng.permutation(len(target))
    train, rest = np.split(order, [round(KEPT * len(target))])
    slope = target[train] - target[train].mean()
    norms = np.linalg.norm((Z[train].T @ slope).reshape(len(problem.views), size), axis=1) / len(train)
    largest = float(norms.max()) / (1.0 if problem.regression else 2.0)
    inner, outer, best, model = np.asfortranarray(Z[train]), Z[rest], (np.inf, 0.0), None
    for factor in PENALTIES:
        model = made(factor * largest, model).fit(inner, target[train])
        best = min(best, (loss(score_of(model, outer), target[rest]), factor * largest))
    final = made(best[1], model).fit(Z, target)

    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        score = score_of(final, features(X))
        if problem.regression:
            return score, np.full(len(X), np.sqrt(best[0]))
        return score > 0.0, 1.0 / (1.0 + np.exp(-score))

    return predict


METHODS = {"group lasso": group_lasso}

if __name__ == "__main__":
    main(METHODS)
