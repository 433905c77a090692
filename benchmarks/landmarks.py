"""Landmarks against exact fits: accuracy, log loss, probabilities and time, by the number of landmarks.

Six kernels on all features: Gaussians whose widths are 1/2, 1 and 2 times the median distance of training samples,
polynomials of degree 2 and 3 and the linear kernel. Classifiers are fitted to a relative change of the bound of
1e-5 and tested on samples that were left out. Times are of `fit`, kernels included.

    python benchmarks/landmarks.py              mushrooms, twonorm and usps (digits 0-4 against 5-9), about 10 minutes
    python benchmarks/landmarks.py --fast       scikit-learn's digits, 16 and 64 landmarks of 300 samples
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _report import begin, finish, markdown_table
from papers.uci import fetch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bayesmkl import BEMKLClassifier
from bayesmkl.kernels import Gaussian, KernelBank, Linear, Polynomial

TOL, MOST_SWEEPS = 1e-5, 500
N_TEST = 2000
SIZES = (64, 128, 256, 512, 1024)
DRAWN = (64, 256)  # numbers of landmarks that are also drawn at random


class Part(NamedTuple):
    """One data set and the sizes of what is fitted to it."""

    name: str
    n_train: int
    exact: bool  # whether an exact fit is a matter of minutes
    sizes: tuple[int, ...] = SIZES


PARTS = (
    Part("mushrooms", 2000, True),
    Part("twonorm", 3000, True),
    Part("usps", 2000, True),
    Part("usps", 7000, False),
)
FAST_PARTS = (Part("digits", 300, True, (16, 64)),)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels of two classes; digits below five against the others."""
    X, y = fetch(name, return_X_y=True)
    X, y = np.asarray(X, dtype=float), np.asarray(y).astype(int)
    return X, (y > 4).astype(int) if len(np.unique(y)) > 2 else (y == y.max()).astype(int)


def kernels(X: np.ndarray) -> list[Any]:
    """Return kernels on the scale of the training samples."""
    some = X[np.random.default_rng(0).permutation(len(X))[:300]]
    distances = np.sqrt(((some[:, None] - some) ** 2).sum(axis=-1))
    median = float(np.median(distances[np.triu_indices(len(some), 1)]))
    return [
        *(Gaussian(width=factor * median) for factor in (0.5, 1, 2)),
        Polynomial(2),
        Polynomial(3),
        Linear(),
    ]


def run(part: Part) -> list[dict[str, Any]]:
    """Fit one data set exactly and with landmarks, and compare on the samples left out."""
    X, y = load(part.name)
    X_train, X_test, y_train, y_test = train_test_split(
        X,
        y,
        train_size=part.n_train,
        test_size=min(N_TEST, len(X) - part.n_train),
        stratify=y,
        random_state=0,
    )
    functions = kernels(X_train)
    fits: list[tuple[int | None, str]] = [(None, "exact")] * part.exact
    fits += [(size, "kmeans") for size in part.sizes]
    fits += [(size, "random") for size in part.sizes if size in DRAWN or len(part.sizes) < len(SIZES)]
    rows: list[dict[str, Any]] = []
    for size, selection in fits:
        bank = KernelBank(
            functions, landmarks=size, landmark_selection="random" if size is None else selection
        )
        start = time.perf_counter()
        model = BEMKLClassifier(bank, tol=TOL, max_iter=MOST_SWEEPS, margin=1.0, intermediate_scale=1.0).fit(
            X_train, y_train
        )
        seconds = time.perf_counter() - start
        probability = model.predict_proba(X_test)[:, 1]
        rows.append(
            {
                "set": part.name,
                "n_train": part.n_train,
                "n_test": len(y_test),
                "landmarks": size,
                "selection": selection,
                "accuracy": float(np.mean((probability > 0.5) == y_test)),
                "log_loss": float(log_loss(y_test, probability)),
                "seconds": seconds,
                "sweeps": int(model.n_iter_),
                "converged": bool(model.converged_),
                "probability": probability,
            }
        )
        print(
            f"{part.name} {part.n_train} {selection} {size}: {seconds:.1f} s, {model.n_iter_} sweeps",
            flush=True,
        )
    exact = rows[0] if part.exact else None
    for row in rows:
        probability = row.pop("probability") if row is not exact else row["probability"]
        row["difference"] = (
            None if exact is None else float(np.abs(probability - exact["probability"]).mean())
        )
        row["speedup"] = None if exact is None else exact["seconds"] / row["seconds"]
    if exact is not None:
        del exact["probability"]
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Write all fits as a table."""
    headers = (
        "set | N | landmarks | accuracy | log loss | mean difference of probabilities | sweeps | s | "
        "exact / s"
    )
    cells = []
    for row in rows:
        how = "exact" if row["landmarks"] is None else f"{row['landmarks']} {row['selection']}"
        compared = row["difference"] is not None and row["landmarks"] is not None
        cells.append(
            [
                row["set"], row["n_train"], how, f"{row['accuracy']:.4f}", f"{row['log_loss']:.4f}",
                f"{row['difference']:.4f}" if compared else "",
                str(row["sweeps"]) + ("" if row["converged"] else "+"),
                f"{row['seconds']:.1f}", f"{row['speedup']:.1f}" if compared else "",
            ]
        )  # fmt: skip
    return markdown_table(headers, cells)


def main() -> None:
    options = begin(__doc__)
    # the table says which fits went on
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        rows = [row for part in (FAST_PARTS if options.fast else PARTS) for row in run(part)]
    text = (
        f"Six kernels, fits to a relative change of the bound of {TOL:g} (+: stopped after {MOST_SWEEPS} sweeps), "
        "tested on samples left out. Landmarks are centers of clusters (kmeans) or training samples (random); the "
        "last column is the time of the exact fit over that of the row.\n\n" + table(rows)
    )
    finish(options, "landmarks", text, {"rows": rows})


if __name__ == "__main__":
    main()
