"""Small problems of marginal inference."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from bayesmkl.gp.covariances import Additive, Weighted, kernel_units
from bayesmkl.kernels.stacks.dense import DenseStack

NOTHING = np.zeros(0)


def kernels(rng, n_samples=40, n_features=4):
    """Two Gaussian kernels of different features and a linear one."""
    X = rng.normal(size=(n_samples, n_features))
    half = n_features // 2
    parts = [rbf_kernel(X[:, :half], gamma=0.3), rbf_kernel(X[:, half:], gamma=0.3), X @ X.T / n_features]
    return X, DenseStack(np.stack(parts))


def labels(rng, X):
    return np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 - 0.5 + 0.5 * rng.normal(size=len(X)) > 0.0, 1.0, -1.0)


def numbers(rng, X):
    return X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=len(X))


def processes(stack):
    return {
        "additive": Additive(stack, kernel_units(stack), 1.5),
        "weighted": Weighted(stack, 0.4, 1.5),
    }
