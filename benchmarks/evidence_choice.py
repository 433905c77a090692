"""Kernel widths chosen by the evidence lower bound, beside five-fold cross-validation.

    python benchmarks/evidence_choice.py          five splits
    python benchmarks/evidence_choice.py --fast   one split

With BAYESMKL_DATA=folder three sets of the UCI repository are read from there, beside the bundled one.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _protocol import have_real_data, split
from _report import begin, finish, markdown_table
from papers.uci import fetch
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl.evidence import select_by_elbo
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian

WIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # times the root of the number of features
SETS = ("wdbc", "heart_statlog", "ionosphere", "sonar")
MARGINS = (1.0, 0.0)
N_TRAIN = 120
FAST_WIDTHS, FAST_TRAIN = WIDTHS[::2], 60


def one_split(
    X: np.ndarray, y: np.ndarray, margin: float, seed: int, widths: tuple[float, ...], n_train: int
) -> dict[str, Any]:
    """Held-out log loss at both choices and at all widths, and the seconds that choosing took."""
    X_train, X_test, y_train, y_test = split(X, y, n_train, seed)
    grid = {"kernels": [KernelBank(Gaussian(width=float(w * np.sqrt(X.shape[1])))) for w in widths]}
    model = BEMKLClassifier(margin=margin, intermediate_scale=1.0)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    start = time.process_time()
    by_elbo = select_by_elbo(model, grid, X_train, y_train)
    middle = time.process_time()
    by_folds = GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds).fit(X_train, y_train)
    seconds = [middle - start, time.process_time() - middle]
    fits = [clone(model).set_params(kernels=bank).fit(X_train, y_train) for bank in grid["kernels"]]
    at_widths = [log_loss(y_test, fit.predict_proba(X_test)) for fit in fits]
    chosen = [grid["kernels"].index(search.best_params_["kernels"]) for search in (by_elbo, by_folds)]
    return {"at_widths": at_widths, "chosen": chosen, "seconds": seconds}


def main() -> None:
    """Run the study."""
    options = begin(__doc__)
    names = SETS if have_real_data() and not options.fast else SETS[:1]
    n_splits, widths, n_train = (1, FAST_WIDTHS, FAST_TRAIN) if options.fast else (5, WIDTHS, N_TRAIN)
    rows, numbers = [], {}
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for name in names:
            X, y = load_wdbc(return_X_y=True) if name == "wdbc" else fetch(name, return_X_y=True)
            for margin in MARGINS:
                splits = [one_split(X, y, margin, seed, widths, n_train) for seed in range(n_splits)]
                losses, chosen = (np.array([one[key] for one in splits]) for key in ("at_widths", "chosen"))
                rows.append(row_of(name, margin, losses, chosen))
                numbers[f"{name}, {margin:g}"] = splits
    every = [one["seconds"] for splits in numbers.values() for one in splits]
    text = (
        f"Log loss on held-out samples (nats) of a single Gaussian kernel, {n_train} training samples, {n_splits} "
        f"splits, width one of {len(widths)} from {widths[0]:g} to {widths[-1]:g} times the root of the number of "
        "features. "
        f"Cross-validation took {np.divide(*np.sum(every, axis=0)[::-1]):.1f} times as long as `select_by_elbo`.\n\n"
    )
    headers = "set | margin | by the ELBO | by cross-validation | best width | mean of widths | same choice"
    finish(options, "evidence_choice", text + markdown_table(headers, rows), numbers)


def row_of(name: str, margin: float, losses: np.ndarray, chosen: np.ndarray) -> list[str]:
    """Means over splits."""
    splits = np.arange(len(losses))
    values = [losses[splits, choice].mean() for choice in chosen.T]
    values += [losses.min(axis=1).mean(), losses.mean()]
    same = f"{int((chosen[:, 0] == chosen[:, 1]).sum())} of {len(splits)}"
    return [name, f"{margin:g}", *(f"{value:.3f}" for value in values), same]


if __name__ == "__main__":
    main()
