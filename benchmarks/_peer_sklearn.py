"""What scikit-learn has: a grid of SVMs with calibration, Gaussian processes, linear models on Nyström features."""

from __future__ import annotations

import numpy as np
from _peer import Clock, Predict, Problem, main
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

FACTORS = [0.1, 0.3, 1.0]  # of one over the number of features
PRICES = [1.0, 10.0, 100.0]


def _probabilities(model: object) -> Predict:
    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        second = model.predict_proba(X)[:, 1]  # type: ignore[attr-defined]
        return second > 0.5, second

    return predict


def _gammas(problem: Problem) -> list[float]:
    return [factor / problem.X.shape[1] for factor in FACTORS]


def svc(problem: Problem, clock: Clock) -> Predict:
    grid = {"C": PRICES, "gamma": _gammas(problem)}
    search = GridSearchCV(SVC(cache_size=1000), grid, cv=5, refit=False).fit(problem.X, problem.y)
    best = SVC(cache_size=1000, **search.best_params_)
    return _probabilities(CalibratedClassifierCV(best, ensemble=False).fit(problem.X, problem.y))


def gaussian_process(problem: Problem, clock: Clock) -> Predict:
    """Targets with a length scale for every feature; labels with one, since one for each takes minutes."""
    n_features = problem.X.shape[1]
    if problem.regression:
        kernel = ConstantKernel() * RBF(np.full(n_features, np.sqrt(n_features))) + WhiteKernel()
        model = GaussianProcessRegressor(kernel).fit(problem.X, problem.y)
        return lambda X: model.predict(X, return_std=True)
    kernel = ConstantKernel() * RBF(np.sqrt(n_features))
    return _probabilities(GaussianProcessClassifier(kernel).fit(problem.X, problem.y))


def nystroem(problem: Problem, clock: Clock, components: int = 256) -> Predict:
    features = Nystroem(n_components=min(components, len(problem.y) // 2), random_state=problem.seed)
    grid: dict[str, list[float]] = {"nystroem__gamma": _gammas(problem)}
    if problem.regression:
        search = GridSearchCV(make_pipeline(features, BayesianRidge()), grid, cv=3)
        model = search.fit(problem.X, problem.y).best_estimator_
        return lambda X: model.predict(X, return_std=True)
    grid["logisticregression__C"] = PRICES
    pipeline = make_pipeline(features, LogisticRegression(max_iter=300))
    return _probabilities(
        GridSearchCV(pipeline, grid, cv=3, scoring="neg_log_loss").fit(problem.X, problem.y)
    )


METHODS = {"svc": svc, "gp": gaussian_process, "nystroem": nystroem}

if __name__ == "__main__":
    main(METHODS)
