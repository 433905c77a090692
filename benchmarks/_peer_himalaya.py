"""Multiple-kernel ridge regression of himalaya: weights by random search with cross-validation, or by gradients."""

from __future__ import annotations

import numpy as np
from _peer import Clock, Predict, Problem, gaussian_kernels, main


def ridge(problem: Problem, clock: Clock, solver: str) -> Predict:
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    chosen = {"progress_bar": False}
    if solver == "random_search":
        chosen["alphas"] = np.logspace(-5.0, 5.0, 11)
    model = MultipleKernelRidgeCV(
        "precomputed", solver=solver, solver_params=chosen, random_state=problem.seed
    )
    model.fit(gaussian_kernels(problem, problem.X), problem.y)  # whose mean is zero
    scores = np.asarray(model.cv_scores_)
    std = np.sqrt(-float(np.max(scores[np.isfinite(scores)])))  # scores are negative mean squared errors

    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ravel(model.predict(gaussian_kernels(problem, X))), np.full(len(X), std)

    return predict


METHODS = {"ridge": ridge}

if __name__ == "__main__":
    main(METHODS)
