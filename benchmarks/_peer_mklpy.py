"""EasyMKL of MKLpy, and its average of kernels, with the SVM of scikit-learn; labels without probabilities."""

from __future__ import annotations

import numpy as np
from _peer import Clock, Predict, Problem, gaussian_kernels, main


def fit(problem: Problem, clock: Clock, method: str) -> Predict:
    import MKLpy.algorithms
    import torch
    from sklearn.svm import SVC

    def kernels(X: np.ndarray) -> list[torch.Tensor]:
        return [torch.from_numpy(kernel) for kernel in gaussian_kernels(problem, X)]

    model = getattr(MKLpy.algorithms, method)(learner=SVC(C=1.0))
    model.fit(kernels(problem.X), problem.y)
    return lambda X: (np.asarray(model.predict(kernels(X))), None)


METHODS = {"fit": fit}

if __name__ == "__main__":
    main(METHODS)
