"""Seconds of the processor that default models take, and their peers, by the number of samples: the users' table.

Labels are those of wdbc, or of ringnorm where wdbc has too few samples; numbers are Friedman's first function of ten
features. scikit-learn's Gaussian processes have a sum of three Gaussian kernels, each with a factor and a
width that are learned, and noise; forests have their defaults. All run on one thread, one after the other.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _report import markdown_table
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Sum, WhiteKernel
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, GPMKLRegressor, load_model, save_model
from bayesmkl.datasets import load_wdbc, make_ringnorm

SIZES, FAST_SIZES, LARGE = (100, 200, 400), (60,), (1000, 2000)
WIDTHS = (0.5, 1.0, 2.0)  # where those of scikit-learn begin, in roots of twice the number of features
N_NEW = 100
HEADERS = ["samples", "model", "fit", "of its peer", "first prediction", "further", "save", "load"]


def sample(task: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standardized features and targets of `n` training samples and 100 others."""
    if task == "numbers":
        X, y = make_friedman1(n + N_NEW, noise=1.0, random_state=0)
    elif n + N_NEW > 569:
        samples = make_ringnorm(n + N_NEW, random_state=0)
        X, y = samples.data, samples.target
    else:
        X, y = load_wdbc(return_X_y=True)
        chosen = np.random.default_rng(0).permutation(len(y))[: n + N_NEW]
        X, y = X[chosen], y[chosen]
    return StandardScaler().fit(X[:n]).transform(X), y


def kernel(n_features: int, noise: bool) -> Any:
    """Return the sum of three kernels of scikit-learn's Gaussian processes."""
    first, second, third = (ConstantKernel() * RBF(width * np.sqrt(2.0 * n_features)) for width in WIDTHS)
    of_all = Sum(Sum(first, second), third)
    return Sum(of_all, WhiteKernel(0.1)) if noise else of_all


def models(task: str, n_features: int) -> dict[str, Any]:
    """Return the models of a task by name; the peer of GPMKL comes first."""
    if task == "labels":
        return {
            "scikit-learn's classifier": GaussianProcessClassifier(kernel(n_features, False), random_state=0),
            "GPMKLClassifier": GPMKLClassifier(verbose=0),
            "random forest, labels": RandomForestClassifier(random_state=0),
        }
    found = {
        "scikit-learn's regressor": GaussianProcessRegressor(
            kernel(n_features, True), normalize_y=True, random_state=0
        ),
        "GPMKLRegressor": GPMKLRegressor(verbose=0),
        "random forest, numbers": RandomForestRegressor(random_state=0),
    }
    if find_spec("himalaya"):
        from himalaya.kernel_ridge import KernelRidgeCV

        found["himalaya's KernelRidgeCV"] = KernelRidgeCV(kernel="rbf")
    return found


def seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its seconds of the processor."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def measure(name: str, model: Any, X: np.ndarray, y: np.ndarray, path: Path) -> dict[str, Any]:
    """Fit, predict twice, save and load."""
    ours, new = name.startswith("GPMKL"), X[-N_NEW:]
    predict = getattr(model, "predict_proba", model.predict)
    _, fit = seconds(lambda: model.fit(X[:-N_NEW], y[:-N_NEW]))
    row = {"model": name, "fit": fit, "first": seconds(lambda: predict(new))[1]}
    row["further"] = seconds(lambda: predict(new))[1]
    if ours:
        row["save"] = seconds(lambda: save_model(model, path))[1]
        row["load"] = seconds(lambda: load_model(path))[1]
        row |= {
            "n_evaluations": model.n_evaluations_,
            "pareto_k": model.pareto_k_,
            "converged": model.converged_,
        }
    return row


def run(fast: bool, large: bool) -> list[dict[str, Any]]:
    """Measure all models at all sizes."""
    rows = []
    sizes = FAST_SIZES if fast else (*SIZES, *LARGE) if large else SIZES
    with (
        tempfile.TemporaryDirectory() as folder,
        threadpool_limits(1),
        warnings.catch_warnings(action="ignore"),
    ):
        for n in sizes:
            for task in ("labels", "numbers"):
                X, y = sample(task, n)
                peer = None
                for name, model in models(task, X.shape[1]).items():
                    row = {"n": n, **measure(name, model, X, y, Path(folder) / "model.bmkl")}
                    peer = row["fit"] if peer is None else peer
                    rows.append(row | {"of_peer": row["fit"] / peer})
                    print(f"{n} {name}: {row['fit']:.2f} s", flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    lines = [
        [
            row["n"],
            row["model"],
            f"{row['fit']:.2g} s",
            f"{row['of_peer']:.1f}",
            *(
                f"{1000 * row[key]:.0f} ms" if key in row else "–"
                for key in ("first", "further", "save", "load")
            ),
        ]
        for row in rows
    ]
    return markdown_table(HEADERS, lines)
