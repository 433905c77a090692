"""The problems on which benchmarks/speed.py measures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from _protocol import have_real_data, load, paper_kernels, split
from papers.uci import fetch

from bayesmkl.kernels import Gaussian, KernelBank

WIDTHS = [2.0**k for k in range(-3, 7)]  # the paper's
PAIR_WIDTHS = WIDTHS[2:]  # by the two narrowest, samples that differ in two features resemble only themselves


class Case(NamedTuple):
    """Training data, kernels, and what is asked of the fit."""

    name: str
    title: str
    X: np.ndarray
    y: np.ndarray
    bank: KernelBank
    tol: float  # of a converged fit
    share_to_elbo: float | None = None  # of the plain loop's time, to its ELBO
    share_to_end: float | None = None  # of the plain loop's time, converged
    seconds_to_end: float | None = None  # from samples to a converged fit
    megabytes: float | None = None  # of the whole process


def cases(fast: bool) -> list[Case]:
    """One bank with kernels of every feature, one of few features, and one of a thousand kernels."""
    X, y = load("wdbc")
    if fast:
        X_train, _, y_train, _ = split(X[:, :2], y, 120, seed=0)
        return [Case("wdbc-39", "wdbc, 2 features", X_train, y_train, paper_kernels(), 1e-6)]
    all_features, _, y_all, _ = split(X, y, 398, seed=0)
    nine, _, y_nine, _ = split(X[:, :9], y, 400, seed=0)
    return [
        Case("wdbc-403", "wdbc", all_features, y_all, paper_kernels(), 1e-8, 1 / 15, 1.0),
        Case("wdbc-130", "wdbc, 9 features", nine, y_nine, paper_kernels(), 1e-8, 1 / 5),
        Case(
            "waveform-1000",
            "waveform",
            *_waveform_sample(500),
            _pairs_bank(21, 1000),
            1e-6,
            seconds_to_end=120.0,
            megabytes=1000.0,
        ),
    ]


def waveform(n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two of the three classes of Breiman et al. (1984): random mixtures of two of three triangular waves."""
    t = np.arange(1, 22)
    first, second, third = (np.maximum(6.0 - np.abs(t - peak), 0.0) for peak in (11, 15, 7))
    y = rng.choice([-1.0, 1.0], n_samples)
    mix = rng.uniform(size=(n_samples, 1))
    other = np.where(y[:, None] > 0.0, second, third)
    return mix * first + (1.0 - mix) * other + rng.standard_normal((n_samples, 21)), y


def _waveform_sample(n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    if have_real_data():
        X, y = fetch("waveform", return_X_y=True)
        X, y = np.asarray(X, dtype=float), np.where(np.asarray(y) == np.max(y), 1.0, -1.0)
    else:
        X, y = waveform(5000, np.random.default_rng(0))
    X_train, _, y_train, _ = split(X, y, n_samples, seed=0)
    return X_train, y_train


def _pairs_bank(n_features: int, n_kernels: int) -> KernelBank:
    """Gaussians on every feature and on random pairs of features, all of the widths in `PAIR_WIDTHS`."""
    pairs = [(i, j) for i in range(n_features) for j in range(i)]
    n_pairs = n_kernels // len(PAIR_WIDTHS) - n_features
    chosen = np.random.default_rng(0).choice(len(pairs), n_pairs, replace=False)
    views: dict[str, Any] = {f"feature {i}": [i] for i in range(n_features)}
    views |= {f"features {i}, {j}": [i, j] for i, j in (pairs[k] for k in sorted(chosen))}
    return KernelBank([Gaussian(width=width) for width in PAIR_WIDTHS], views=views)
