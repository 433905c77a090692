"""What a comparison costs beyond its fits: every classifier on five UCI sets, ten splits, two processes.

Kernels are counted: one stack per split and bank for training, one for the rows to predict. A comparison may take
1.1 times the seconds of its fits and predictions; what is shared between models is counted once there.

With ``--grow`` a model is added to the folder of a comparison of 20 models on 50 splits: which cells are computed,
and how long the call takes beside their fits and predictions.

    python benchmarks/comparison_cost.py --grow                      wdbc, 20 SVMs, then BEMKL
    BAYESMKL_DATA=folder python benchmarks/comparison_cost.py        sonar, ionosphere, pima, bupaliver, heart_statlog
    python benchmarks/comparison_cost.py --fast                      wdbc and wine, two features, two splits
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _report import finish, markdown_table, parser
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import bayesmkl.discriminative as discriminative
from bayesmkl import BEMKLClassifier
from bayesmkl.datasets import load_wdbc, load_wine
from bayesmkl.evaluation import Comparison, compare_models
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial

SETS = ("sonar", "ionosphere", "pima", "bupaliver", "heart_statlog")
MOST = 1.1  # seconds of a comparison over those of its fits and predictions


def classifiers() -> dict[str, Any]:
    """All classifiers of the package on one bank, and a machine on one kernel."""
    bank = KernelBank(
        [*(Gaussian(width=s) for s in (0.5, 1.0, 2.0, 4.0, 8.0)), *(Polynomial(degree=q) for q in (1, 2, 3))],
        views="all",
    )
    models: dict[str, Any] = {
        "BEMKL": BEMKLClassifier(bank, margin=1.0, intermediate_scale=1.0),
        "BEMKL, sparse": BEMKLClassifier(bank, kernel_prior="sparse", margin=1.0, intermediate_scale=1.0),
    }
    for name in discriminative.__all__:
        if name.endswith("Classifier"):
            models[name.removesuffix("Classifier")] = getattr(discriminative, name)(bank)
    models["SVM, one kernel"] = SVC()
    return {name: make_pipeline(StandardScaler(), model) for name, model in models.items()}


def compare(fast: bool, n_jobs: int) -> tuple[Comparison, float]:
    """The comparison and its seconds."""
    if fast:
        sets: Any = {
            name: (load(return_X_y=True)[0][:80, :2], load(return_X_y=True)[1][:80])
            for name, load in (("wdbc", load_wdbc), ("wine", load_wine))
        }
    else:
        sets = list(SETS)
    start = time.perf_counter()
    found = compare_models(
        classifiers(), datasets=sets, cv=2 if fast else 10, scoring=["accuracy", "auc"], n_jobs=n_jobs
    )
    return found, time.perf_counter() - start


def grow(fast: bool) -> tuple[str, dict[str, Any]]:
    """Add BEMKL to twenty machines in a folder."""
    X, y = load_wdbc(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows, n_splits = (slice(0, 80), 4) if fast else (slice(0, 300), 50)
    cv = RepeatedStratifiedKFold(n_splits=2 if fast else 5, n_repeats=2 if fast else 10, random_state=0)
    models: dict[str, Any] = {f"SVM, C = 2^{k}": SVC(C=2.0**k) for k in range(-10, 10)}
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"cv": cv, "scoring": ["accuracy", "auc"], "folder": Path(folder) / "run"}
        compare_models(models, X[rows], y[rows], **options)
        added = {"BEMKL": BEMKLClassifier(KernelBank("auto"), intermediate_scale=1.0)}
        before = {path.name for path in (options["folder"] / "cells").glob("*.json")}
        start = time.perf_counter()
        found = compare_models(models | added, X[rows], y[rows], **options)
        seconds = time.perf_counter() - start
        n_new = len({path.name for path in (options["folder"] / "cells").glob("*.json")} - before)
    cells = found.cells.query("model == 'BEMKL'")
    spent = float((cells["fit_seconds"] + cells["predict_seconds"]).sum())
    assert (len(before), n_new) == (20 * n_splits, n_splits), (len(before), n_new)
    text = (
        f"{len(models)} models on {n_splits} splits, {len(before)} cells; one model more computes {n_new} cells in "
        f"{seconds:.1f} s. Their fits and predictions take {spent:.1f} s: {seconds / spent:.2f} times (asked: at "
        f"most {MOST})."
    )
    return text, {"grown_seconds": seconds, "spent_seconds": spent, "n_new": n_new}


def report(found: Comparison, seconds: float, n_jobs: int) -> str:
    """Ratios, and what was found."""
    cells = found.cells
    spent = float((cells["fit_seconds"] + cells["predict_seconds"] - cells["reused_seconds"]).sum())
    alone = float((cells["fit_seconds"] + cells["predict_seconds"]).sum())
    n_splits = len(cells[["dataset", "split"]].drop_duplicates())
    stacks = cells.groupby("model")["kernel_stacks"].sum()
    first = found.models[0]
    by_others = stacks.drop(first)[lambda n: n > 0]
    ratio = n_jobs * seconds / spent
    lines = [
        f"{found!r}, {n_jobs} process(es) on {os.cpu_count()} cores: {seconds:.1f} s; fits and predictions "
        f"{spent:.1f} s of processors, {alone:.1f} s had every model computed its own kernels.",
        "",
        f"Seconds of the processes over those of fits and predictions: {ratio:.2f} (asked: at most {MOST}).",
        f"Kernel stacks computed in {n_splits} splits: {stacks[first]:.0f} by the first model (training and test "
        f"rows of each split), {by_others.sum():.0f} by the {len(stacks) - 1} others.",
        "",
    ]
    table = found.summary("accuracy").pivot(index="model", columns="dataset", values="mean").loc[found.models]
    ranks = found.ranks("accuracy")["mean_rank"]
    rows = [
        [model, *(f"{100 * table.loc[model, name]:.1f}" for name in found.datasets), f"{ranks[model]:.1f}"]
        for model in found.models
    ]
    return "\n".join(lines) + markdown_table(["accuracy, %", *found.datasets, "mean rank"], rows)


def main() -> None:
    """Run, print."""
    options = parser(__doc__)
    options.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options.add_argument("--grow", action="store_true", help="one model more in a folder of twenty")
    chosen = options.parse_args()
    if chosen.grow:
        finish(chosen, "comparison_growth", *grow(chosen.fast))
        return
    real = bool(os.environ.get("BAYESMKL_DATA"))
    n_jobs = 1 if chosen.fast else chosen.jobs
    found, seconds = compare(chosen.fast or not real, n_jobs)
    assert found.failures.empty, found.failures
    numbers = {"seconds": seconds, "models": found.models, "n_cells": len(found.cells)}
    numbers["accuracy"] = np.round(found.scores("accuracy").to_numpy(), 4).tolist()
    finish(chosen, "comparison_cost", report(found, seconds, n_jobs), numbers)


if __name__ == "__main__":
    main()
