"""Seven ways to combine kernels, and a tuned support vector machine, compared on three data sets that come along.

All models see the same splits; those with the same bank of kernels share the kernels, which are computed once per
split; the grid of the support vector machine is searched inside each training part. The folder holds every score, and
a page to read them.

    python examples/compare_models.py                    a table, ranks and tests on the terminal; comparison/
    python examples/compare_models.py --splits 20        more splits
    python examples/compare_models.py --out elsewhere    another folder; one that was interrupted continues
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.discriminative import (
    AlignmentMKLClassifier,
    BestKernelClassifier,
    EasyMKLClassifier,
    LpMKLClassifier,
    SimpleMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.evaluation import Comparison, compare_models
from bayesmkl.kernels import Gaussian, Linear

DATASETS = ("iris", "wine", "wdbc")
BANK = KernelBank([Linear(), *(Gaussian(width=width) for width in (1.0, 2.0, 4.0, 8.0))])


def make_models() -> dict[str, Any]:
    """Return the models by name; a pair is a model and the parameters to try."""
    combined = {
        "BEMKL": BEMKLClassifier(BANK, tol=1e-4),
        "mean of the kernels": UniformMKLClassifier(BANK),
        "best single kernel": BestKernelClassifier(BANK),
        "kernel alignment": AlignmentMKLClassifier(BANK),
        "EasyMKL": EasyMKLClassifier(BANK),
        "SimpleMKL": SimpleMKLClassifier(BANK),
        "LpMKL, p = 2": LpMKLClassifier(BANK, p_norm=2.0),
    }
    models: dict[str, Any] = {
        name: make_pipeline(StandardScaler(), model) for name, model in combined.items()
    }
    grid = {"svc__C": [1.0, 10.0], "svc__gamma": [0.01, 0.1]}
    models["tuned SVM"] = (make_pipeline(StandardScaler(), SVC()), grid)
    return models


def compare(datasets: tuple[str, ...], n_splits: int, folder: Path) -> Comparison:
    """Fit all models to a quarter of the rows in every split, and score them on the others."""
    return compare_models(
        make_models(),
        datasets=list(datasets),
        cv=StratifiedShuffleSplit(n_splits, train_size=0.25, random_state=0),
        scoring=["accuracy", "mcc"],
        inner_cv=3,
        folder=folder,
        verbose=1,
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--datasets", nargs="+", default=DATASETS, metavar="NAME", help="what to compare on")
    options.add_argument("--splits", type=int, default=5, help="splits of each data set, at least 2")
    options.add_argument(
        "--out", type=Path, default=Path("comparison"), metavar="FOLDER", help="new, or to continue"
    )
    chosen = options.parse_args()
    found = compare(tuple(chosen.datasets), chosen.splits, chosen.out)
    print(found)
    print("\nMean ranks over data sets:")
    print(found.ranks().to_string())
    pairs = found.significance(test="corrected_t")
    real = pairs.loc[
        pairs["better"] != "", ["dataset", "first", "second", "difference", "p_adjusted", "better"]
    ]
    print(f"\nPairs that differ, of {len(pairs)} (corrected resampled t-test, Holm):")
    print("none" if real.empty else real.round(4).to_string(index=False))
    print(f"\n{found.to_html(chosen.out / 'report.html')}")


if __name__ == "__main__":
    main()
