"""A study of SAMKL where kernels are known to be wrong for some samples: whether it helps to switch them off.

They are wrong in the three ways that the paper names (Liu, Wang, Zhang, Yin 2014, section 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.model_selection import ShuffleSplit

from bayesmkl.discriminative import LMKLClassifier
from bayesmkl.evaluation.significance import corrected_t
from bayesmkl.evaluation.study import DataRef, ModelSpec, Study
from bayesmkl.reproduction.printing import provenance, values_of
from bayesmkl.reproduction.samkl_data import (
    NORMALIZED,
    PAPER,
    WithGateFeatures,
    convex,
    corrupted,
    switching,
    wanted_fast,
)
from bayesmkl.reproduction.tables import Fetched, PaperSet, PaperTable, Printed, Setting, Sizes

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

__all__ = ["CONDITIONS", "SYNTHETIC"]

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


SETS = tuple(_condition(name) for name in CONDITIONS)


def studies_synthetic(setting: Setting) -> list[Study]:
    """Return random training samples of one pool per condition; all parameters by the same cross-validation."""
    plain = wanted_fast(SETS, FAST_CONDITIONS, setting)
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
    SETS,
    studies_synthetic,
    (),
    print_synthetic,
)
