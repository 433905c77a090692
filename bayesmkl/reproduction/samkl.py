"""Tables 1 and 2 of the SAMKL paper (Liu, Wang, Zhang, Yin 2014, §5), and a study of kernels that are corrupted.

The paper's kernels are the user's to bring. The synthetic study asks its question where the answer is known: does
switching kernels off help where they are wrong for some samples?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.model_selection import ShuffleSplit

from bayesmkl.discriminative import LMKLClassifier
from bayesmkl.evaluation.significance import corrected_t
from bayesmkl.evaluation.study import DataRef, ModelSpec, Study
from bayesmkl.reproduction.bemkl_files import PROTEIN_LAYOUT
from bayesmkl.reproduction.printing import provenance, published_beside_ours, values_of
from bayesmkl.reproduction.samkl_data import (
    NORMALIZED,
    PAPER,
    WithGateFeatures,
    convex,
    corrupted,
    halves_of_classes,
    of_unit_trace,
    protein_and_features,
    protein_pair,
    protein_stand_in,
    switching,
    unit_trace_stand_in,
    wanted_fast,
)
from bayesmkl.reproduction.tables import (
    Entry,
    Fetched,
    PaperSet,
    PaperTable,
    Printed,
    Published,
    Setting,
    Sizes,
    UserData,
    references,
    set_name,
)

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

__all__ = ["CALTECH", "CONDITIONS", "FOLDS", "SUBCELLULAR", "SYNTHETIC", "TABLES", "TASKS"]

PRICES = tuple(10.0**k for k in range(-1, 5))
FAST_PRICES = (1e3,)
FAST_PAIRS = ((7, 16), (9, 12), (1, 12))

# -------------------------------------------------------------------------------------------- published, in %

FOLDS: dict[tuple[int, int], tuple[float, float, float]] = {  # table 1: SAMKL, LMKL, SimpleMKL
    (7, 16): (88.0, 80.4, 86.9),
    (7, 9): (91.2, 89.5, 87.7),
    (7, 1): (98.0, 96.0, 98.0),
    (7, 12): (85.7, 77.8, 79.4),
    (16, 9): (95.1, 83.6, 95.1),
    (16, 1): (98.2, 96.3, 98.2),
    (16, 12): (86.6, 80.6, 86.6),
    (9, 1): (94.7, 89.5, 94.7),
    (9, 12): (84.4, 68.8, 84.4),
    (1, 12): (92.0, 72.0, 88.0),
}
Row = tuple[tuple[float, float], ...]  # SAMKL, SimpleMKL, LpMKL with p = 2, 4, 8, uniform weights
METHODS = ("SAMKL", "SimpleMKL", "LpMKL, p = 2", "LpMKL, p = 4", "LpMKL, p = 8", "UMKL")
SUBCELLULAR: dict[str, tuple[str, Row]] = {  # table 2, by metric
    "psortPos": ("f1", ((90.6, 1.5), (87.7, 2.3), (86.4, 1.8), (84.6, 2.0), (83.8, 2.2), (84.3, 1.9))),
    "psortNeg": ("f1", ((92.5, 1.0), (89.9, 1.1), (88.9, 1.1), (87.7, 1.3), (86.9, 1.2), (84.0, 1.5))),
    "plant": ("mcc", ((89.5, 1.7), (88.0, 1.7), (86.4, 1.5), (85.0, 1.9), (84.1, 2.1), (83.1, 2.2))),
}
CALTECH: Row = ((67.2, 1.0), (63.7, 1.3), (65.3, 1.5), (65.1, 1.5), (65.1, 1.5), (65.0, 1.8))

# ------------------------------------------------------------------------------------------------------- table 1


def _task(pair: tuple[int, int]) -> str:
    return f"c{pair[0]} vs. c{pair[1]}"


UCSD = "Publisher: the multiple kernel learning page of the University of California, San Diego"
PROTEIN = PaperSet(
    "protein",
    UserData(
        "protein",
        f'{UCSD}, "protein fold prediction": 12 representations.',
        load=protein_and_features,
        layout=f"{PROTEIN_LAYOUT}; or kernels, with features.csv for the gates of LMKL beside them",
    ),
    Sizes(694, n_kernels=12, n_classes=27, n_splits=1, n_train=311),
    DataRef(protein_stand_in),
)


def tuned(estimators: Mapping[str, Any], setting: Setting) -> dict[str, ModelSpec]:
    """Return models whose `C` is chosen by cross-validation."""
    prices = list(FAST_PRICES if setting.fast else PRICES)
    return {name: ModelSpec(estimator, {"C": prices}) for name, estimator in estimators.items()}


def studies_1(setting: Setting) -> list[Study]:
    """Return ten tasks of two folds each; LMKL has stacks that end with the features of its gates."""
    found = references([PROTEIN], setting)
    if not found:
        return []
    ((label, reference),) = found.items()
    ending = label.removeprefix(PROTEIN.name)
    pairs = FAST_PAIRS if setting.fast else FOLDS

    def tasks(features: bool) -> dict[str, DataRef]:
        return {
            _task(pair) + ending: DataRef(
                protein_pair, first=pair[0], second=pair[1], features=features, **reference.options
            )
            for pair in pairs
        }

    models = tuned({**switching(3), "SimpleMKL": convex()["SimpleMKL"]}, setting)
    inner_cv = 2 if setting.fast else 5
    study = Study(tasks(False), models, None, ("accuracy",), inner_cv, random_state=setting.random_state)
    lmkl = WithGateFeatures(LMKLClassifier("precomputed", solver="paper"), PROTEIN.sizes.n_kernels or 0)
    grid = {"estimator__C": list(FAST_PRICES if setting.fast else PRICES)}
    return [study, study._replace(datasets=tasks(True), models={"LMKL": ModelSpec(lmkl, grid)})]


TASKS = tuple(
    Entry(_task(pair), model, "accuracy", Published(value), 100.0, variant)
    for pair, (samkl, lmkl, simple) in FOLDS.items()
    for model, value, variant in (
        ("SAMKL", samkl, ""),
        ("SAMKL, normalized", samkl, NORMALIZED),
        ("LMKL", lmkl, ""),
        ("SimpleMKL", simple, ""),
    )
)


def print_1(comparison: Comparison, setting: Setting) -> list[Printed]:
    """Print the tasks, parts of one set, beside the published numbers."""
    return [published_beside_ours(TASKS, comparison, "Accuracy on pairs of protein folds")]


# ------------------------------------------------------------------------------------------------------- table 2


def _subcellular(name: str, n_samples: int, n_classes: int) -> PaperSet:
    source = UserData(
        name.lower(), f'{UCSD}, "protein subcellular localization" (Zien and Ong 2007).', load=of_unit_trace
    )
    stand_in = DataRef(unit_trace_stand_in, n_samples=48, n_kernels=69, n_classes=n_classes)
    return PaperSet(name, source, Sizes(n_samples, n_kernels=69, n_classes=n_classes), stand_in)


def _caltech(split: int) -> PaperSet:
    source = UserData(
        f"caltech101-25/split_{split}",
        f"{UCSD}, 25 kernels of Caltech-101; each of its five splits has kernels of its own: five folders.",
        load=halves_of_classes,
    )
    sizes = Sizes(3060, n_kernels=25, n_classes=102, n_splits=1, n_train=1530)
    stand_in = DataRef(unit_trace_stand_in, n_samples=48, n_kernels=25, n_classes=6, n_splits=1)
    return PaperSet(f"Caltech-101, split {split}", source, sizes, stand_in)


LOCATIONS = (
    _subcellular("psortPos", 541, 4),
    _subcellular("psortNeg", 1444, 5),
    _subcellular("plant", 940, 4),
)
IMAGES = tuple(_caltech(split) for split in range(1, 6))
FAST_SETS_2 = ("plant", "Caltech-101, split 1")
INNER_SCORING = {"f1": "f1_macro", "mcc": "matthews_corrcoef"}


def studies_2(setting: Setting) -> list[Study]:
    """Return protein sets in random halves, with `C` by cross-validation; images in the given splits, C = 1e4."""
    found = []
    for label, reference in wanted_fast(LOCATIONS, FAST_SETS_2, setting).items():
        metric, _ = SUBCELLULAR[set_name(label)]
        found.append(
            Study(
                {label: reference},
                tuned({**switching(20), **convex()}, setting),
                cv=ShuffleSplit(
                    setting.n_splits(20, fast=1), test_size=0.5, random_state=setting.random_state
                ),
                scoring=(metric,),
                inner_cv=2 if setting.fast else 5,
                inner_scoring=INNER_SCORING[metric],
                random_state=setting.random_state,
            )
        )
    images = wanted_fast(IMAGES, FAST_SETS_2, setting)
    if images:
        estimators = {**switching(10, C=1e4), **convex(C=1e4)}
        models = {name: ModelSpec(estimator) for name, estimator in estimators.items()}
        found.append(Study(images, models, None, ("accuracy",), random_state=setting.random_state))
    return found


def _beside(row: Row) -> list[tuple[str, Published, str]]:
    """Return model, published number and variant of each cell of a row of table 2."""
    found = [(model, Published(*known), "") for model, known in zip(METHODS, row, strict=True)]
    return [found[0], ("SAMKL, normalized", found[0][1], NORMALIZED), *found[1:]]


ENTRIES_2 = tuple(
    Entry(name, model, metric, known, 100.0, variant)
    for name, (metric, row) in SUBCELLULAR.items()
    for model, known, variant in _beside(row)
)


def print_2(comparison: Comparison, setting: Setting) -> list[Printed]:
    """Print the protein sets, and the images with the mean over their splits."""
    labels = {set_name(label): label for label in comparison.datasets}
    printed = []
    if any(name in labels for name in SUBCELLULAR):
        printed.append(published_beside_ours(ENTRIES_2, comparison, "Protein subcellular localization"))
    splits = [label for name, label in labels.items() if name not in SUBCELLULAR]
    if splits:
        rows = [_of_splits(comparison, splits, *cell) for cell in _beside(CALTECH)]
        printed.append(Printed("Caltech-101, mean over its splits", pd.DataFrame(rows)))
    return printed


def _of_splits(
    comparison: Comparison, labels: list[str], model: str, known: Published, variant: str
) -> dict[str, Any]:
    values = 100.0 * np.concatenate([values_of(comparison, label, model, "accuracy") for label in labels])
    return {
        **provenance(comparison, labels, variant),
        "splits": len(labels),
        "model": model,
        "metric": "accuracy (%)",
        "published": known.value,
        "published_sd": known.std,
        "ours": values.mean(),
        "ours_sd": values.std(ddof=1) if len(values) > 1 else np.nan,
        "difference": values.mean() - known.value,
        "difference_in_sd": (values.mean() - known.value) / (known.std or np.nan),
    }


# ----------------------------------------------------------------------------- kernels that are known to be wrong

# Wrong for some samples, in the three ways that the paper names in section 1.
CONDITIONS = {"clean": ("features", 0.0)} | {
    f"{corruption} {fraction:g}": (corruption, fraction)
    for corruption in ("features", "kernels", "similarities")
    for fraction in (0.1, 0.3, 0.5)
}
N_POOL, N_TRAIN, N_TEST, N_KERNELS = 900, 100, 200, 8
BUDGETS, PAPER_BUDGET = (0, 1, 2, 4), 2
FAST_CONDITIONS = ("kernels 0.3",)


def _condition(name: str) -> PaperSet:
    corruption, fraction = CONDITIONS[name]
    options = {"corruption": corruption, "fraction": fraction}
    source = Fetched("make_corrupted", {**options, "n_samples": N_POOL}, corrupted)
    stand_in = DataRef(corrupted, name="make_corrupted", n_samples=60, **options)
    return PaperSet(name, source, Sizes(N_POOL, n_kernels=N_KERNELS), stand_in)


CORRUPTED = tuple(_condition(name) for name in CONDITIONS)


def studies_synthetic(setting: Setting) -> list[Study]:
    """Return random training samples of one pool per condition; all parameters by the same cross-validation."""
    plain = wanted_fast(CORRUPTED, FAST_CONDITIONS, setting)
    featured = {
        label: DataRef(reference.load, **reference.options, features=True)
        for label, reference in plain.items()
    }
    prices = [10.0] if setting.fast else [0.1, 1.0, 10.0]
    budgets = BUDGETS[::2] if setting.fast else BUDGETS
    by_budget = [{"max_switches": [budget], "C": prices} for budget in budgets]  # fewest switches first
    models = {name: ModelSpec(estimator, by_budget) for name, estimator in switching(PAPER_BUDGET).items()}
    models[f"SAMKL, m0 = {PAPER_BUDGET}"] = ModelSpec(switching(PAPER_BUDGET)["SAMKL"], {"C": prices})
    others = convex()
    models |= {name: ModelSpec(others[name], {"C": prices}) for name in ("SimpleMKL", "LpMKL, p = 2", "UMKL")}
    lmkl = ModelSpec(WithGateFeatures(LMKLClassifier("precomputed"), N_KERNELS), {"estimator__C": prices})
    n_train, n_test = (30, 30) if setting.fast else (N_TRAIN, N_TEST)
    splits = ShuffleSplit(
        setting.n_splits(20), train_size=n_train, test_size=n_test, random_state=setting.random_state
    )
    inner_cv = 2 if setting.fast else 3
    study = Study(plain, models, splits, ("accuracy",), inner_cv, random_state=setting.random_state)
    return [study, study._replace(datasets=featured, models={"LMKL": lmkl})] if plain else []


VARIANTS = {
    "SAMKL": "m0 by cross-validation",
    "SAMKL, normalized": f"m0 by cross-validation, {NORMALIZED}",
    f"SAMKL, m0 = {PAPER_BUDGET}": "m0 fixed, as in the paper",
}


def print_synthetic(comparison: Comparison, setting: Setting) -> list[Printed]:
    """Print accuracies, and what each method gains over SimpleMKL."""
    rows = [_row(comparison, label, model) for label in comparison.datasets for model in comparison.models]
    title = "Accuracy in % where kernels are wrong for some samples; p of the corrected resampled t-test"
    return [Printed(title, pd.DataFrame(rows))]


def _row(comparison: Comparison, label: str, model: str) -> dict[str, Any]:
    accuracies = values_of(comparison, label, model, "accuracy")
    simple = values_of(comparison, label, "SimpleMKL", "accuracy")
    several = len(accuracies) > 1
    row = provenance(comparison, label, VARIANTS.get(model, "C by cross-validation")) | {
        "model": model,
        "ours": 100.0 * accuracies.mean(),
        "ours_sd": 100.0 * accuracies.std(ddof=1) if several else np.nan,
        "gain_over_simplemkl": 100.0 * (accuracies - simple).mean(),
    }
    if not several or model == "SimpleMKL":
        return row | {"p_value": np.nan}
    return row | {"p_value": corrected_t(accuracies, simple, comparison.test_train_ratio(label)).p_value}


SYNTHETIC = PaperTable(
    "samkl-synthetic",
    "Kernels that are wrong for some samples",
    f"{PAPER}, the question of section 1",
    f"Eight kernels of unequal worth and {N_POOL} samples (`make_corrupted`). A sample and a kernel are a corrupted "
    "pair with the given probability: its features are noisy, the kernel takes it for another sample, or its "
    f"similarities are wrong. 20 random splits with {N_TRAIN} training and {N_TEST} test samples; C one of 0.1, 1, "
    "10, and for SAMKL m0 one of 0, 1, 2, 4, by three-fold cross-validation.",
    CORRUPTED,
    studies_synthetic,
    (),
    print_synthetic,
)

# ----------------------------------------------------------------------------------------------------- the tables

_TABLES = (
    PaperTable(
        "samkl-table1",
        "Accuracy on pairs of protein folds",
        f"{PAPER}, table 1",
        "Ten pairs of folds of the protein set, with its split into training and test samples; kernels of unit trace "
        "(over the samples of the pair), C one of 0.1, ..., 1e4 by five-fold cross-validation, m0 = 3. Gates of LMKL "
        "are functions of all features, and it has the line search of its authors' code.",
        (PROTEIN,),
        studies_1,
        (),
        print_1,
    ),
    PaperTable(
        "samkl-table2",
        "F1, MCC and accuracy on protein and image sets",
        f"{PAPER}, table 2",
        "Kernels of unit trace. Protein sets: 20 random splits 50:50, C one of 0.1, ..., 1e4 by five-fold "
        "cross-validation, m0 = 20; F1 (psort) is the mean over classes. Caltech-101: five given splits, C = 1e4, "
        "m0 = 10. Several classes are learned one against the rest. Convex problems are solved to a relative duality "
        "gap of 1e-2.",
        LOCATIONS + IMAGES,
        studies_2,
        ENTRIES_2,
        print_2,
    ),
    SYNTHETIC,
)
TABLES = {table.name: table for table in _TABLES}
