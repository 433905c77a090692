"""What a comparison costs beyond its fits: every classifier on five UCI sets, ten splits, two processes.

Kernels are counted: one stack per split and bank for training, one for the rows to predict. A comparison may take
1.1 times the seconds of its fits and predictions; what is shared between models is counted once there.

    BAYESMKL_DATA=folder python benchmarks/comparison_cost.py        sonar, ionosphere, pima, bupaliver, heart_statlog
    python benchmarks/comparison_cost.py --fast                      wdbc and wine, two features, two splits
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from _report import finish, markdown_table, parser
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
    chosen = options.parse_args()
    real = bool(os.environ.get("BAYESMKL_DATA"))
    n_jobs = 1 if chosen.fast else chosen.jobs
    found, seconds = compare(chosen.fast or not real, n_jobs)
    assert found.failures.empty, found.failures
    numbers = {"seconds": seconds, "models": found.models, "n_cells": len(found.cells)}
    numbers["accuracy"] = np.round(found.scores("accuracy").to_numpy(), 4).tolist()
    finish(chosen, "comparison_cost", report(found, seconds, n_jobs), numbers)


if __name__ == "__main__":
    main()
