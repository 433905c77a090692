"""Few labels, with and without the unlabeled samples: BEMKL on pairs of digits and on sets of the UCI repository.

A full run appends one JSON line per set and repeat to benchmarks/results/family_semisupervised.jsonl and continues
where that file ends; all sets finish a repeat before the next one begins.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from _cells import append, read
from _protocol import deterministic_start, have_real_data
from _report import ROOT, markdown_table
from papers.uci import fetch
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import Gamma
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.bemkl.models.semisupervised import labeled_part
from bayesmkl.bemkl.reading.predict import log_probabilities, predict_score
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

RESULTS = ROOT / "benchmarks" / "results" / "family_semisupervised.jsonl"
PAIRS = ((1, 7), (2, 3), (2, 7), (3, 8), (4, 7))
SETS = {"ionosphere": 20, "thyroid": 20, "heart_statlog": 10, "sonar": 10, "bupaliver": 10}  # repeats of each
N_REPEATS = 20
LABELS_PER_DIGIT = 6
LABELED_SHARE = 0.1
SHARES_OF_MEDIAN = (0.25, 0.5, 1.0)  # widths of Gaussians in the recipe, relative to the median distance
SETTINGS = ("defaults", "recipe")
WAYS = ("labeled", "basis", "semi")
UNLABELED = 0


class Sample(NamedTuple):
    """Samples of which some have labels."""

    X: np.ndarray
    y: np.ndarray  # (n_samples,) of -1 and +1
    labeled: np.ndarray  # (n_labeled,) positions

    @property
    def unlabeled(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self.y)), self.labeled)


# ------------------------------------------------------------------------------------------------------- samples


def digit_pair(
    images: np.ndarray, digits: np.ndarray, pair: tuple[int, int], per_class: int, seed: int
) -> Sample:
    """`per_class` images of each of two digits, six of each with labels."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(digits == digit))[:per_class] for digit in pair])
    labeled = np.concatenate([first + np.arange(LABELS_PER_DIGIT) for first in (0, per_class)])
    return Sample(images[rows].reshape(len(rows), -1), np.repeat([-1, 1], per_class), labeled)


def partly_labeled(name: str, seed: int) -> Sample:
    """A tenth of each class with labels, at least two; features standardized over all samples."""
    X, y = fetch(name, return_X_y=True)
    y, rng = np.where(y == np.max(y), 1, -1), np.random.default_rng(seed)
    classes = [rng.permutation(np.flatnonzero(y == label)) for label in (-1, 1)]
    labeled = np.concatenate([rows[: max(2, round(LABELED_SHARE * len(rows)))] for rows in classes])
    return Sample(StandardScaler().fit_transform(X), y, labeled)


def samples_of(seed: int, fast: bool) -> Iterator[tuple[str, Sample]]:
    """All sets of one repeat, by name."""
    if fast:
        images, digits = load_digits(return_X_y=True)
        yield "digits 1 / 7", digit_pair(images / 8.0 - 1.0, digits, (1, 7), 30, seed)
        return
    images, digits = fetch("usps", return_X_y=True)
    for pair in PAIRS:
        yield f"usps {pair[0]} / {pair[1]}", digit_pair(images, digits, pair, 200, seed)
    for name, n_repeats in SETS.items():
        if seed < n_repeats:
            yield name, partly_labeled(name, seed)


# ---------------------------------------------------------------------------------------------------------- fits


def estimator(setting: str, X: np.ndarray) -> BEMKLClassifier:
    """The defaults, or what keeps unlabeled samples from gathering on one side."""
    if setting == "defaults":
        return BEMKLClassifier(KernelBank("paper"), margin=1.0, intermediate_scale=1.0)
    kernels = [Gaussian(width=float(share * np.median(pdist(X)))) for share in SHARES_OF_MEDIAN]
    return BEMKLClassifier(
        KernelBank(kernels, normalize=("center", "trace")),
        bias_prior=Gamma(1e4, 1.0),
        margin=1.0,
        intermediate_scale=1.0,
    )


def with_all_columns(model: BEMKLClassifier, sample: Sample) -> np.ndarray:
    """Log probabilities from the labels alone, with sample weights and kernels over all samples: the semi's start."""
    bank = clone(model.kernels)
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(bank.fit_transform(sample.X), -1, 0)))
    y = np.zeros(len(sample.y))
    y[sample.labeled] = sample.y[sample.labeled]
    priors = binary.BinaryPriors(intercept=model._prior("bias_prior"))
    part = labeled_part(binary.BinaryProblem(stack, stack.gram(), y, priors, model.margin, 1.0))
    state = maximize_elbo(binary, part, deterministic_start(part), LoopOptions()).state
    score = predict_score(stack, state.dual, state.readout, 1.0)
    return log_probabilities(score, model.margin)[sample.unlabeled]


def one_cell(setting: str, sample: Sample) -> dict[str, Any]:
    """Accuracy in %, and log loss in nats, on the unlabeled samples."""
    model, rows = estimator(setting, sample.X), sample.unlabeled
    start = time.process_time()
    supervised = clone(model).fit(sample.X[sample.labeled], sample.y[sample.labeled])
    middle = time.process_time()
    y = np.full(len(sample.y), UNLABELED)
    y[sample.labeled] = sample.y[sample.labeled]
    semi = clone(model).set_params(unlabeled_label=UNLABELED).fit(sample.X, y)
    seconds = time.process_time() - middle
    log_p = {
        "labeled": np.log(supervised.predict_proba(sample.X[rows])),
        "basis": with_all_columns(model, sample),
        "semi": np.log(semi.predict_proba(sample.X[rows])),
    }
    truth = (sample.y[rows] > 0).astype(int)
    return {
        "accuracy": {way: 100.0 * float(np.mean(log_p[way].argmax(axis=1) == truth)) for way in WAYS},
        "log_loss": {way: -float(log_p[way][np.arange(len(rows)), truth].mean()) for way in WAYS},
        "transduction": 100.0 * float(np.mean(semi.transduction_[rows] == sample.y[rows])),
        "seconds": [middle - start, seconds],
        "n_iter": int(semi.n_iter_),
        "converged": bool(semi.converged_),
        "n_samples": [len(sample.labeled), len(sample.y)],
    }


def all_cells(fast: bool) -> list[dict[str, Any]]:
    """Every set and repeat, one after the other; a full run keeps what it has done."""
    done = [] if fast else read(RESULTS)
    known = {(cell["set"], cell["seed"]) for cell in done}
    for seed in range(2 if fast else N_REPEATS):
        for name, sample in samples_of(seed, fast):
            if (name, seed) in known:
                continue
            cell = {"set": name, "seed": seed} | {setting: one_cell(setting, sample) for setting in SETTINGS}
            done.append(cell)
            if not fast:
                append(RESULTS, cell)
    return done


# -------------------------------------------------------------------------------------------------------- report


def gain(cells: list[dict[str, Any]], setting: str, over: str) -> tuple[float, float]:
    """Mean gain in accuracy over another way, and the p-value of the paired t-test."""
    accuracy = [cell[setting]["accuracy"] for cell in cells]
    difference = np.array([values["semi"] - values[over] for values in accuracy])
    if not difference.any():
        return 0.0, 1.0
    return float(difference.mean()), float(stats.ttest_1samp(difference, 0.0).pvalue)


def loss_of(cells: list[dict[str, Any]], setting: str, way: str) -> float:
    """Mean log loss over repeats."""
    return float(np.mean([cell[setting]["log_loss"][way] for cell in cells]))


def row_of(name: str, setting: str, cells: list[dict[str, Any]]) -> list[str]:
    accuracy = {way: np.array([cell[setting]["accuracy"][way] for cell in cells]) for way in WAYS}
    row = [name if setting == SETTINGS[0] else "", setting]
    row += [f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" for values in accuracy.values()]
    for over in ("labeled", "basis"):
        difference, p_value = gain(cells, setting, over)
        row.append(f"{difference:+.1f} ({'< 0.001' if p_value < 0.001 else f'{p_value:.3f}'})")
    return [*row, " / ".join(f"{loss_of(cells, setting, way):.2f}" for way in WAYS)]


def verdict(by_set: dict[str, list[dict[str, Any]]]) -> str:
    """Count the sets on which the unlabeled samples help."""
    sentences = []
    for over, what in (
        ("labeled", "labeled samples alone"),
        ("basis", "labels with weights for all samples"),
    ):
        parts = []
        for setting in SETTINGS:
            gains = [gain(cells, setting, over) for cells in by_set.values()]
            better, surely = sum(g > 0.0 for g, _ in gains), sum(g > 0.0 and p < 0.05 for g, p in gains)
            worse = sum(g < 0.0 and p < 0.05 for g, p in gains)
            parts.append(
                f"with the {setting} on {better} of {len(gains)} sets (p < 0.05 on {surely}; worse with p < 0.05 on "
                f"{worse})"
            )
        sentences.append(f"More accurate than from {what}: {', '.join(parts)}.")
    lower = [
        sum(loss_of(cells, setting, "semi") < loss_of(cells, setting, "labeled") for cells in by_set.values())
        for setting in SETTINGS
    ]
    sentences.append(f"Lower log loss than from labeled samples alone: on {lower[0]} and {lower[1]} sets.")
    return " ".join(sentences)


def report(cells: list[dict[str, Any]], fast: bool) -> tuple[str, dict[str, Any]]:
    by_set: dict[str, list[dict[str, Any]]] = {}
    for cell in sorted(cells, key=lambda cell: cell["seed"]):
        by_set.setdefault(cell["set"], []).append(cell)
    if not fast:
        order = [*(f"usps {a} / {b}" for a, b in PAIRS), *SETS]
        by_set = {name: by_set[name] for name in order if name in by_set}
    rows = [row_of(name, setting, own) for name, own in by_set.items() for setting in SETTINGS]
    headers = "set | setting | labeled samples alone | labels, weights for all samples | semi-supervised"
    headers += " | gain over the first (p) | over the second (p) | log loss of the three"
    fits = [cell[setting] for cell in cells for setting in SETTINGS]
    counts = [len(own) for own in by_set.values()]
    n_repeats = f"{max(counts)} repeats"
    if min(counts) < max(counts):
        fewer = [f"{name} {count}" for name, count in zip(by_set, counts, strict=True) if count < max(counts)]
        n_repeats += f" ({', '.join(fewer)})"
    digits = "30 of each class of scikit-learn's digits" if fast else "200 of each class of USPS"
    uci = "" if fast else " UCI sets: a tenth of each class with labels, features standardized."
    text = (
        f"Accuracy in % on the unlabeled samples, {n_repeats}, mean and standard deviation; p-values of "
        f"paired t-tests. Digits: {digits}, {LABELS_PER_DIGIT} of each with labels.{uci} Defaults: "
        '`BEMKLClassifier(KernelBank("paper"), margin=1, intermediate_scale=1)`. Recipe: Gaussians of a quarter, '
        'half and once the median distance, `normalize=("center", "trace")`, `bias_prior=Gamma(1e4, 1)`. The second '
        "way sees the unlabeled samples in "
        "the kernels, not in the likelihood: it is where the semi-supervised fit starts.\n\n"
    )
    seconds = np.median([fit["seconds"] for fit in fits], axis=0)
    apart = max(abs(fit["transduction"] - fit["accuracy"]["semi"]) for fit in fits)
    ending = (
        f"\n\n{verdict(by_set)} A semi-supervised fit took {seconds[1]:.1f} s of processor time (median), a "
        f"supervised one {seconds[0]:.2f} s; {sum(fit['converged'] for fit in fits)} of {len(fits)} semi-supervised "
        f"fits converged. `transduction_` and `predict` differ in accuracy by at most {apart:.1f} points."
    )
    return text + markdown_table(headers, rows) + ending, {"cells": cells}


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Return the table as Markdown, and all numbers."""
    fast = fast or not have_real_data()
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        return report(all_cells(fast), fast)
