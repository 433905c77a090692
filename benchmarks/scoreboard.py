"""What to take: BEMKL, additive Gaussian processes and other MKL beside what one would otherwise take, on many sets.

Binary labels, several classes and regression, real and simulated with known truth; all models see the same splits
and standardized features (and targets). `_scoreboard_sets.py` says what is predicted from what,
`_scoreboard_models.py` how each model is set up.

Classification: log loss with probabilities clipped from below at 1e-4 for all models (forests predict zeros; losses
clipped at 1e-15 are kept beside it), Brier score, expected calibration error, accuracy. Regression, in standard
deviations of the training targets: negative log density of a normal distribution, R², coverage and width of 95 %
intervals; models without a predictive distribution get the variance of held-out residuals. Seconds are user time of
choosing, fitting and predicting.

    BAYESMKL_DATA=folder python benchmarks/scoreboard.py             what is missing of 10 splits, two hours
    BAYESMKL_DATA=folder python benchmarks/scoreboard.py --splits 10 --sets "sonar;pima"
    python benchmarks/scoreboard.py --report --keep                  tables from the committed results
    python benchmarks/scoreboard.py --fast                           bundled data, few samples and models

One JSON line per model, set and split is appended to benchmarks/results/scoreboard_cells.jsonl; a run continues where
the file ends, and all sets finish split 0 before split 1 begins.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from _cells import Jobs, run_study, told
from _protocol import have_real_data
from _scoreboard_models import CONSTANT, MODELS, TRUTH, Prediction, is_installed
from _scoreboard_report import report
from _scoreboard_sets import SETS, Split, is_bundled, split_of
from sklearn.metrics import accuracy_score, r2_score

from bayesmkl.evaluation.metrics import brier, coverage_95, expected_calibration_error, negative_log_density

LEAST, TINY = 1e-4, 1e-15  # probabilities are clipped at
TAIL_95 = 1.959964
N_SPLITS, N_EXTRA = 10, 2
FAST_SETS = ("one view of four", "iris", "diabetes")
FAST_MODELS = (
    CONSTANT,
    "BEMKL, auto bank",
    "GPMKL",
    "logistic or ridge regression",
    "GP, learned width",
)
FAST_TRAIN, FAST_TEST = 30, 60


def scores_of(data: Split, found: Prediction) -> dict[str, float]:
    """Judge predictions of the test part."""
    y = data.y_test
    if found.probabilities is None:
        mean, std = found.mean, found.std
        scores = {
            "nll": negative_log_density(y, mean, std),
            "r2": r2_score(y, mean),
            "coverage": coverage_95(y, mean, std),
            "width": float(np.mean(2.0 * TAIL_95 * std)),
        }
    else:
        p, classes = found.probabilities, np.unique(data.y)
        codes = np.searchsorted(classes, y)
        own = p[np.arange(len(y)), codes]
        scores = {
            "log_loss": -float(np.log(np.maximum(own, LEAST)).mean()),
            "log_loss_tiny": -float(np.log(np.maximum(own, TINY)).mean()),
            "clipped": float(np.mean(own < LEAST)),
            "brier": brier(y, p, classes),
            "ece": expected_calibration_error(y, p, labels=classes),
            "accuracy": accuracy_score(codes, p.argmax(axis=1)),
        }
    if not all(np.isfinite(list(scores.values()))):
        raise ArithmeticError("predictions are not finite")
    return {key: round(float(value), 5) for key, value in scores.items()}


def cell(name: str, number: int, model: str, data: Split) -> dict[str, Any]:
    """Fit one model to one split and judge it; failures and warnings are a part of the result."""
    row: dict[str, Any] = {"set": name, "split": number, "model": model}
    row |= {"task": data.task, "n_train": len(data.y), "n_test": len(data.y_test)}
    row["unit"] = round(data.unit, 4)
    run = MODELS[model].of(data.task)
    start = os.times().user
    with told(row):
        found = run(data)
        row |= scores_of(data, found) | {"notes": found.notes or {}}
    row["seconds"] = round(os.times().user - start, 2)
    return row


def models_for(name: str, extra: bool) -> list[str]:
    """Models that run on a set: the common ones, or those that run on the first splits.

    These run on "all" sets, on "plain" ones without views, on simulated "views", or on several "classes".
    """
    dataset = SETS[name]
    if dataset.only:
        return list(dataset.only) if extra else []
    wanted = []
    for label, model in MODELS.items():
        if model.of(dataset.task) is None or bool(model.extra) != extra:
            continue
        if label == TRUTH and "simulated" not in dataset.about:
            continue
        has_views = "views" in dataset.about
        if model.extra == "classes" and dataset.task != "several":
            continue
        if (model.extra == "plain" and has_views) or (
            model.extra == "views" and not (has_views and "simulated" in dataset.about)
        ):
            continue
        if is_installed(label):
            wanted.append(label)
    return wanted


def jobs(names: list[str], n_splits: int) -> Iterator[tuple[str, int, list[str]]]:
    """Sets, splits and models in the order in which they are run: extra ones wait for the next split."""
    n_extra = min(N_EXTRA, n_splits)
    for number in range(n_splits + 1):
        for name in names if number < n_splits else []:
            yield name, number, models_for(name, extra=False)
        for name in names if 1 <= number <= n_extra else []:
            yield name, number - 1, models_for(name, extra=True)


def cells(chosen: Namespace) -> Jobs:
    """Cells that are asked for, of the sets that are here."""
    names, split = (
        [n for n in chosen.sets if have_real_data() or is_bundled(n)],
        lru_cache(maxsize=1)(split_of),
    )
    for name, number, models in jobs(names, chosen.splits):
        for model in models:
            yield name, number, model, lambda n=name, k=number, m=model: cell(n, k, m, split(n, k))


def short() -> list[dict[str, Any]]:
    """Few samples and models."""
    rows = []
    for name in FAST_SETS:
        data = split_of(name, 0, FAST_TRAIN, FAST_TEST)
        able = [model for model in FAST_MODELS if MODELS[model].of(data.task)]
        rows += [cell(name, 0, model, data) for model in able]
    return rows


if __name__ == "__main__":
    run_study(
        __doc__,
        "scoreboard",
        jobs=cells,
        report=lambda rows, _: report(rows),
        short=short,
        sets=list(SETS),
        splits=N_SPLITS,
    )
