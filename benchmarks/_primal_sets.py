"""Data, kernels, splits and model selection of the PrimalMKL paper (Hao et al. 2012, §5)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import MinMaxScaler

from bayesmkl.datasets import fetch, load_wdbc, make_ringnorm, make_twonorm, make_waveform
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = [
    "BASES",
    "WIDTHS",
    "Method",
    "Problem",
    "evaluate",
    "gaussians",
    "labeled",
    "per_feature",
    "polynomials",
    "prepare",
    "sample",
    "with_unit_trace",
]

BASES = (1.1, 1.5, 2.0)
WIDTHS = np.unique(
    np.concatenate([base ** np.arange(-5.0, 6.0) for base in BASES])
)  # 31: width 1 comes thrice


class Method(NamedTuple):
    """A learner: `fit` takes a stack, labels, a regularization, a tolerance and weights to begin with."""

    fit: Callable[..., Any]
    grid: Sequence[float]  # the strongest regularization first
    combine: Callable[[DenseStack, np.ndarray], np.ndarray] = DenseStack.combine


class Problem(NamedTuple):
    """A training and a test part, features in [-1, 1] on the training part, labels -1 and +1."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def labeled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels -1, +1 of a set by name; what can be generated or is bundled needs no files."""
    if name == "wdbc":
        X, y = load_wdbc(return_X_y=True)
    elif name in ("twonorm", "ringnorm", "waveform"):
        make = {"twonorm": make_twonorm, "ringnorm": make_ringnorm, "waveform": make_waveform}[name]
        data = make(5000, random_state=0)
        X, y = data.data, data.target
    else:
        X, y = fetch(name, return_X_y=True)
    return np.asarray(X, dtype=float), np.where(y == np.unique(y)[-1], 1.0, -1.0)


def sample(name: str, n_samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random rows, features in [-1, 1]."""
    X, y = labeled(name)
    rows = np.random.default_rng(seed).permutation(len(y))[:n_samples]
    return MinMaxScaler((-1, 1)).fit_transform(X[rows]), y[rows]


def prepare(X: np.ndarray, y: np.ndarray, n_train: float, seed: int, n_test: int | None = None) -> Problem:
    """Split, and scale by the training part."""
    X, X_test, y, y_test = train_test_split(X, y, train_size=n_train, stratify=y, random_state=seed)
    scaler = MinMaxScaler((-1, 1)).fit(X)
    return Problem(scaler.transform(X), y, scaler.transform(X_test[:n_test]), y_test[:n_test])


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.maximum((A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T, 0.0)


def gaussians(
    X: np.ndarray, Z: np.ndarray, widths: Sequence[float] | np.ndarray = WIDTHS, convention: str = "2s2"
) -> DenseStack:
    """Gaussian kernels between the rows of two sets: ``exp(-d²/(2 s²))``, or ``exp(-d²/s²)`` with "s2"."""
    distances = squared_distances(X, Z) / (2.0 if convention == "2s2" else 1.0)
    return DenseStack(np.stack([np.exp(-distances / width**2) for width in widths]))


def per_feature(X: np.ndarray, Z: np.ndarray) -> DenseStack:
    """One Gaussian kernel of width 1 per feature."""
    return DenseStack(np.exp(-0.5 * (X.T[:, :, None] - Z.T[:, None, :]) ** 2))


def polynomials(X: np.ndarray, Z: np.ndarray) -> DenseStack:
    """Polynomial kernels of degree 1 to 10."""
    products = X @ Z.T + 1.0
    return DenseStack(np.stack([products**degree for degree in range(1, 11)]))


def with_unit_trace(train: DenseStack, test: DenseStack) -> tuple[DenseStack, DenseStack]:
    """Both stacks divided by the traces of the training kernels."""
    traces = train.diagonal().sum(axis=1)[:, None, None]
    return DenseStack(train.kernels / traces), DenseStack(test.kernels / traces)


def accuracy(method: Method, result: Any, rows: DenseStack, y: np.ndarray) -> float:
    scores = method.combine(rows, result.kernel_weights) @ result.signed_dual[0] + result.intercept[0]
    return float(np.mean(np.sign(scores) == y))


def evaluate(
    method: Method, stacks: tuple[DenseStack, DenseStack], problem: Problem, n_folds: int, cv_tol: float
) -> dict[str, float]:
    """Choose a regularization by cross-validation on the training part, and test it.

    Along the grid, the weights of one value start the next; the first of equally good values wins.
    """
    train, test = stacks
    scores = np.zeros(len(method.grid))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for inside, outside in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(
            problem.X, problem.y
        ):
            inner = DenseStack(np.ascontiguousarray(train.kernels[:, inside][:, :, inside]))
            rows = DenseStack(np.ascontiguousarray(train.kernels[:, outside][:, :, inside]))
            start = None
            for i, value in enumerate(method.grid):
                result = method.fit(inner, problem.y[inside], value, cv_tol, start)
                start = result.kernel_weights
                scores[i] += accuracy(method, result, rows, problem.y[outside])
        chosen = method.grid[int(np.argmax(scores.round(9)))]
        result = method.fit(train, problem.y, chosen, 1e-3, None)
    return {
        "accuracy": 100.0 * accuracy(method, result, test, problem.y_test),
        "active": int((result.kernel_weights > 1e-6 * result.kernel_weights.max()).sum()),
        "chosen": chosen,
    }
