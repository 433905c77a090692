"""Default settings of localized methods: what they lose where nothing is known to be local, and gain where it is.

Twelve real sets, all of whose features every kernel of the default bank sees, for LMKL also without its comparison
with equal gates; designs of `make_localized`, with the gate columns named; and SAMKL where kernels are wrong for some
samples, beside SimpleMKL.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _cells import completed
from _report import claim, markdown_table
from _scoreboard_sets import SETS, is_bundled
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import KernelBank
from bayesmkl.datasets import make_corrupted, make_localized
from bayesmkl.discriminative import (
    CLMKLClassifier,
    LDMKLClassifier,
    LMKLClassifier,
    SAMKLClassifier,
    SimpleMKLClassifier,
    SwMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.evaluation import compare_models
from bayesmkl.kernels import Gaussian

UNIFORM, WITHOUT = "equal weights", "LMKL, no fallback"
MODELS: dict[str, Callable[[], Any]] = {
    UNIFORM: UniformMKLClassifier,
    "LMKL": LMKLClassifier,
    "LMKL, Gaussian gates": lambda: LMKLClassifier(gating="gaussian"),
    WITHOUT: lambda: LMKLClassifier(fallback=False),
    "C-LMKL": lambda: CLMKLClassifier(random_state=0),
    "SwMKL": SwMKLClassifier,
    "LD-MKL": LDMKLClassifier,
    "SAMKL": SAMKLClassifier,
}
GATED = ("SwMKL", "LD-MKL", "LMKL", "LMKL, Gaussian gates")  # take gate columns
NAMES = (
    *("wdbc", "breast_wisconsin", "bupaliver", "pima", "heart_statlog", "ionosphere"),
    *("sonar", "australian", "german_numeric", "banana", "image", "wine"),
)
DESIGNS = ("hours", "halves", "regions", "global")
N_TRAIN, N_NEW, SHARE = 200, 500, 0.7
N_SPLITS, N_DRAWS = 10, 10
# points of accuracy, and accuracy in %
LEAST_MEAN, LEAST_SET, LEAST_LOCAL, LEAST_SAMKL = (-1.0, -3.0, 85.0, -1.0)
CORRUPTIONS, FRACTIONS = ("features", "kernels", "similarities"), (0.1, 0.2, 0.3, 0.4, 0.5)


def on_set(name: str, split: int) -> dict[str, float]:
    """Accuracies (%) on a random split of a real set."""
    data = SETS[name].load(np.random.default_rng(0))
    n_train = min(N_TRAIN, round(SHARE * len(data.y)))
    n_test = min(N_NEW, len(data.y) - n_train)
    folds = StratifiedShuffleSplit(split + 1, train_size=n_train, test_size=n_test, random_state=0)
    models = {title: make_pipeline(StandardScaler(), make()) for title, make in MODELS.items()}
    last = list(folds.split(data.X, data.y))[-1:]
    table = compare_models(models, data.X, data.y, cv=last, scoring="accuracy")
    return {title: 100.0 * float(table.scores("accuracy")[title].iloc[0]) for title in models}


def on_design(design: str, seed: int) -> dict[str, float]:
    """Accuracies (%) on a draw of a design."""
    found: dict[str, float] = {}
    sample = make_localized(N_TRAIN + N_NEW, design=design, random_state=seed)
    X, y, bank = sample.data, sample.target, KernelBank(Gaussian(width=2), sample.views)
    for title in (UNIFORM, *GATED):
        model = MODELS[title]().set_params(kernels=bank)
        if title in GATED:
            model.set_params(gate_columns=sample.gate_columns)
        found[title] = 100.0 * model.fit(X[:N_TRAIN], y[:N_TRAIN]).score(X[N_TRAIN:], y[N_TRAIN:])
    return found


def on_corrupted(condition: str, seed: int) -> dict[str, float]:
    """Points of accuracy of SAMKL over SimpleMKL on a draw: its default, and with switches for every rule of ties."""
    corruption, fraction = condition.split(", ")
    sample = make_corrupted(300, corruption=corruption, fraction=float(fraction), random_state=seed)
    K, K_new, y = sample.kernels[:100, :100], sample.kernels[100:, :100], sample.target
    plain = SimpleMKLClassifier("precomputed", tol=1e-2).fit(K, y[:100]).score(K_new, y[100:])
    models = {"default": SAMKLClassifier("precomputed")} | {
        f"fallback=False, {ties}": SAMKLClassifier("precomputed", fallback=False, ties=ties)
        for ties in ("smallest", "largest", "random")
    }
    return {
        title: 100.0 * (model.fit(K, y[:100]).score(K_new, y[100:]) - plain)
        for title, model in models.items()
    }


PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "sets": on_set,
    "designs": on_design,
    "corrupted": on_corrupted,
}


def computed(kind: str, *unit: Any) -> dict[str, float]:
    """One unit of one part, quietly and on one core."""
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        return PARTS[kind](*unit)


def gathered(cells: dict[tuple[Any, ...], dict[str, float]], kind: str) -> dict[str, dict[str, list[float]]]:
    """Numbers of a part by set (design, condition) and method."""
    found: dict[str, dict[str, list[float]]] = {}
    for (of, name, _), numbers in sorted(cells.items(), key=lambda cell: cell[0][2]):
        if of == kind:
            for title, value in numbers.items():
                found.setdefault(name, {}).setdefault(title, []).append(value)
    return found


def losses(sets: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Points of accuracy over equal weights, by method and set, of the splits on which a method could be fitted."""
    return {
        title: {
            name: float(np.nanmean(np.subtract(of[title], of[UNIFORM])))
            for name, of in sets.items()
            if not np.isnan(of[title]).all()
        }
        for title in MODELS
        if title != UNIFORM
    }


def failed(sets: dict[str, dict[str, list[float]]]) -> str:
    """Say where a method could not be fitted."""
    counts = {(t, name): int(np.isnan(of[t]).sum()) for name, of in sets.items() for t in of}
    said = [f"{n} split{'s' * (n > 1)} of {name} for {t}" for (t, name), n in counts.items() if n]
    return f" (without {', '.join(said)}, where the fit failed)" if said else ""


def claims(
    gains: dict[str, dict[str, float]],
    designs: dict[str, dict[str, list[float]]],
    corrupted: dict[str, dict[str, list[float]]],
) -> list[dict[str, Any]]:
    """Compare with what was asked for."""
    made = []
    for title, by_set in gains.items():
        if title == WITHOUT:
            continue
        values = list(by_set.values())
        made.append(claim(f"{title}: points over equal weights, mean", LEAST_MEAN, np.mean(values), "", True))
        made.append(claim(f"{title}: the same on the worst set", LEAST_SET, min(values), "", True))
    for title in ("SwMKL", "LD-MKL"):
        means = sorted(np.mean(of[title]) for name, of in designs.items() if name != "global")
        made.append(claim(f"{title}: second best design, accuracy %", LEAST_LOCAL, means[-2:][0], "", True))
    worst = min(float(np.mean(of["default"])) for of in corrupted.values())
    made.append(claim("SAMKL: points over SimpleMKL, worst condition", LEAST_SAMKL, worst, "", True))
    return made


def run(
    fast: bool, splits: int | None = None, cells: Path | None = None, part: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Run all three parts."""
    names = [name for name in NAMES if is_bundled(name)][:1] if fast else NAMES
    n_splits, n_draws = (1, 1) if fast else (splits or N_SPLITS, N_DRAWS)
    designs = DESIGNS[1:2] if fast else DESIGNS
    conditions = ["features, 0", *(f"{c}, {f:g}" for c in CORRUPTIONS for f in FRACTIONS)][
        : 1 if fast else None
    ]
    units = [
        *(("sets", name, split) for split in range(n_splits) for name in names),
        *(("designs", design, seed) for seed in range(n_draws) for design in designs),
        *(("corrupted", condition, seed) for seed in range(n_draws) for condition in conditions),
    ]
    found = completed(units, computed, cells, part)
    if part is not None:
        return f"{len(found)} of {len(units)} fits done", {}
    found = {unit: found[unit] for unit in units}
    sets, local, corrupted = (gathered(found, kind) for kind in PARTS)
    gains = losses(sets)
    numbers = {
        "sets": sets,
        "designs": local,
        "corrupted": corrupted,
        "claims": claims(gains, local, corrupted),
    }
    return report(numbers, gains), numbers


def report(numbers: dict[str, Any], gains: dict[str, dict[str, float]]) -> str:
    """Tables of the three parts."""
    sets, designs, corrupted = numbers["sets"], numbers["designs"], numbers["corrupted"]
    rows = [
        [
            name,
            f"{np.mean(sets[name][UNIFORM]):.1f}",
            *(f"{gains[title].get(name, np.nan):+.1f}".replace("+nan", "–") for title in gains),
        ]
        for name in sets
    ]
    means = [f"{np.mean(list(by_set.values())):+.2f}" for by_set in gains.values()]
    worst = [f"{min(by_set.values()):+.1f}" for by_set in gains.values()]
    rows += [["mean", "", *means], ["worst", "", *worst]]
    n_splits, n_draws = len(next(iter(sets.values()))[UNIFORM]), len(next(iter(designs.values()))[UNIFORM])
    local = [
        [title, *(f"{np.mean(of[title]):.1f} ± {np.std(of[title]):.1f}" for of in designs.values())]
        for title in (UNIFORM, *GATED)
    ]
    switched = [
        [condition, *(f"{np.mean(of[ties]):+.1f}" for ties in of)] for condition, of in corrupted.items()
    ]
    return (
        f"Every default, standardized features, at most {N_TRAIN} training samples, {n_splits} random splits: "
        f"accuracy (%) of equal weights, and points over it{failed(sets)}.\n\n"
        f"{markdown_table(['set', UNIFORM, *gains], rows)}\n\n"
        f"Accuracy (%) on `make_localized` with the gate columns named, {n_draws} draws of {N_TRAIN} samples; the "
        f"best classifier has 96.8.\n\n{markdown_table(['', *designs], local)}\n\n"
        "SAMKL at its defaults, and with switches whether they help or not, by what it does with ties of eq. 15: "
        f"points of accuracy over SimpleMKL, where a share of the samples is corrupted in {n_draws} draws of 100."
        "\n\n"
        f"{markdown_table(['corruption, share', *next(iter(corrupted.values()))], switched)}"
    )
