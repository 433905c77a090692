"""Data, kernels and splits of the PrimalMKL paper (Hao et al. 2012, §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from papers.uci import fetch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from bayesmkl.datasets import load_wdbc, make_ringnorm, make_twonorm, make_waveform
from bayesmkl.kernels.stacks.dense import DenseStack

BASES = (1.1, 1.5, 2.0)
# 31: width 1 comes thrice
WIDTHS = np.unique(np.concatenate([base ** np.arange(-5.0, 6.0) for base in BASES]))


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
