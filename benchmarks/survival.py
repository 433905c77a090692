"""Survival: additive Gaussian processes beside Cox net, random survival forest and gradient boosting.

20 random splits of four clinical studies, 2/3 for training, the share of events kept; `_survival_data.py` has their
views, `_survival_models.py` how each model is set up. Everything that is tuned is tuned on the training part.

Concordance is Harrell's, and Uno's until the last time of the Brier score. The Brier score is weighted for censoring
and integrated between the first and the last tenth of the events, as far as test samples are followed. Calibration is
judged at the median time of the events, of everyone held out once (three splits in a row), in five bins beside the
band of a calibrated model (`bayesmkl.evaluation.survival_calibration`); its bins, observed values and bands are
averaged over the repetitions.
Seconds are user time of choosing, fitting and predicting.

The other models are those of scikit-survival (GPL-3), which is no dependency of this package: `pip install
scikit-survival` for this benchmark alone. Without it only our models run, without its files only the simulation.

    python benchmarks/survival.py                 what is missing of 20 splits
    python benchmarks/survival.py --models Cox --sets veterans --splits 6
    python benchmarks/survival.py --report --keep  table from the committed results
    python benchmarks/survival.py --fast           a simulation, few samples

One JSON line per model, study and split is appended to benchmarks/results/survival_cells.jsonl; a run continues where
the file ends, and all studies finish split 0 before split 1 begins.
"""

from __future__ import annotations

import os
from argparse import Namespace
from functools import partial
from typing import Any

import numpy as np
from _cells import Jobs, run_study, told
from _report import claim, markdown_table
from _survival_data import N_FOLDS, SETS, SIMULATED, Study, study_of
from _survival_models import MODELS, OPTIONS, OURS, PEERS, available

from bayesmkl.evaluation import concordance_index, integrated_brier_score, survival_calibration
from bayesmkl.gp import Marginal

N_SPLITS, N_BINS = 20, 5
SCORES = {"harrell": True, "uno": True, "brier": False}  # whether greater is better
FAST_SAMPLES = 90


def cell(name: str, study: Study, number: int, model: str) -> dict[str, Any]:
    """Fit one model to one split and judge it; failures and warnings are a part of the result."""
    data, times = study.split(number), study.times
    times = times[(times >= data.y_test["time"].min()) & (times < data.y_test["time"].max())]
    row: dict[str, Any] = {"set": name, "split": number, "model": model}
    row |= {"n_train": len(data.y), "n_test": len(data.y_test)}
    start = os.times().user
    with told(row):
        grid = np.append(times, study.median_time)
        order = np.argsort(grid, kind="stable")
        found = MODELS[model](data, study.views, grid[order])
        row["seconds"] = round(os.times().user - start, 2)
        survival = np.empty_like(found.survival)
        survival[:, order] = found.survival
        row |= {
            "harrell": concordance_index(data.y_test, found.risk),
            "uno": concordance_index(data.y_test, found.risk, y_train=data.y, tau=times[-1]),
            "brier": integrated_brier_score(data.y, data.y_test, survival[:, :-1], times),
            "survival": np.round(survival[:, -1], 4).tolist(),
            "notes": found.notes,
        }
        row |= {key: round(row[key], 5) for key in SCORES}
    return row


def cells(chosen: Namespace) -> Jobs:
    """Cells that are asked for."""
    if not set(PEERS) & set(available()):
        print("scikit-survival is not installed: without its models and its data.\n")
    for number in range(chosen.splits):
        for name, study in studies_of(chosen).items():
            for model in available():
                yield name, number, model, partial(cell, name, study, number, model)


def studies_of(chosen: Namespace) -> dict[str, Study]:
    """Read the studies that are asked for whose files are there; say which are not."""
    if chosen.fast:
        return {SIMULATED: study_of(SIMULATED, FAST_SAMPLES)}
    found = {}
    for name in chosen.sets:
        try:
            found[name] = study_of(name)
        except FileNotFoundError as error:
            print(error)
    return found


def reported(rows: list[dict[str, Any]], chosen: Namespace) -> tuple[str, dict[str, Any]]:
    """Report the studies that are asked for."""
    return report(rows, studies_of(chosen))


def short() -> list[dict[str, Any]]:
    """A simulation of few samples."""
    OPTIONS["inference"] = Marginal(n_points=100, n_draws=100)
    study = study_of(SIMULATED, FAST_SAMPLES)
    return [cell(SIMULATED, study, number, model) for number in range(N_FOLDS) for model in available()]


# ----------------------------------------------------------------------------------------------------------- report


def calibrated(study: Study, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Judge the calibration of everyone held out once, on average over the repetitions that are complete."""
    by_split = {row["split"]: row for row in rows if "survival" in row}
    found = []
    for first in range(0, max(by_split, default=0) + 1, N_FOLDS):
        splits = range(first, first + N_FOLDS)
        if all(number in by_split for number in splits):
            held_out = np.empty(len(study.y))
            for number in splits:
                held_out[study.split(number).test] = by_split[number]["survival"]
            found.append(survival_calibration(study.y, held_out, study.median_time, n_bins=N_BINS))
    if not found:
        return None
    n_bins = max(len(one.observed) for one in found)
    same = [one for one in found if len(one.observed) == n_bins]
    observed, lower, upper, predicted = (
        np.mean([getattr(one, key) for one in same], axis=0)
        for key in ("observed", "lower", "upper", "predicted")
    )
    return {
        "repetitions": len(found),
        "inside_each": sum(one.calibrated for one in found),
        "bins": n_bins,
        "bins_inside": int(np.count_nonzero((observed >= lower) & (observed <= upper))),
        "p_value": round(float(np.median([one.p_value for one in found])), 4),
        "error": round(float(np.mean([one.calibration_error for one in found])), 4),
        "predicted": np.round(predicted, 4).tolist(),
        "observed": np.round(observed, 4).tolist(),
        "lower": np.round(lower, 4).tolist(),
        "upper": np.round(upper, 4).tolist(),
    }


def values_of(rows: list[dict[str, Any]], key: str) -> dict[int, float]:
    """Scores by split."""
    return {row["split"]: row[key] for row in rows if key in row}


def difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], key: str) -> tuple[float, float]:
    """How much better ours are on common splits, and the standard error of that (Nadeau and Bengio)."""
    one, other = values_of(ours, key), values_of(theirs, key)
    sign = 1.0 if SCORES[key] else -1.0
    gaps = sign * np.array([one[number] - other[number] for number in sorted(one.keys() & other.keys())])
    ratio = ours[0]["n_test"] / ours[0]["n_train"]  # training parts overlap
    return float(gaps.mean()), float(np.sqrt((1.0 / len(gaps) + ratio) * gaps.var(ddof=1)))


def report(rows: list[dict[str, Any]], studies: dict[str, Study]) -> tuple[str, dict[str, Any]]:
    """One table, and the numbers behind it with what is asked of ours."""
    body, numbers = [], {}
    for name, study in studies.items():
        for model in MODELS:
            own = [row for row in rows if (row["set"], row["model"]) == (name, model)]
            good = [row for row in own if "brier" in row]
            if not good:
                continue
            judged = calibrated(study, good)
            means = {key: float(np.mean([row[key] for row in good])) for key in SCORES}
            seconds = float(np.median([row["seconds"] for row in good]))
            numbers.setdefault(name, {})[model] = {
                **{key: round(value, 5) for key, value in means.items()},
                "seconds": round(seconds, 2),
                "splits": len(good),
                "failed": len(own) - len(good),
                "calibration": judged,
            }
            about, n_failed = "–", len(own) - len(good)
            if judged:
                about = (
                    f"{judged['bins_inside']} of {judged['bins']}, p = {judged['p_value']:.2g}, "
                    f"{100 * judged['error']:.1f} %"
                )
            body.append(
                f"{name}: {model} | {means['harrell']:.3f} | {means['uno']:.3f} | {means['brier']:.4f} | {about} | "
                f"{seconds:.2g} | {len(good)}{f' ({n_failed} failed)' if n_failed else ''}"
            )
    headers = (
        "study, model | Harrell's C | Uno's C | Brier score | calibration: bins inside, p, error | "
        "seconds | splits"
    )
    return markdown_table(headers, body), {"studies": numbers, "claims": claims(rows, studies, numbers)}


def claims(
    rows: list[dict[str, Any]], studies: dict[str, Study], numbers: dict[str, Any]
) -> list[dict[str, Any]]:
    """What is asked of ours: no peer better by a standard error on three of four studies, and calibration."""
    by = {
        (name, model): [r for r in rows if (r["set"], r["model"]) == (name, model) and "brier" in r]
        for name in studies
        for model in MODELS
    }
    whole = [name for name in studies if all(len(by[name, model]) > 1 for model in (OURS, *PEERS))]
    if len(whole) < len(SETS):
        return []
    asked = []
    for key, what in (("harrell", "Harrell's C"), ("uno", "Uno's C"), ("brier", "integrated Brier score")):
        level = 0
        for name in whole:
            gaps = [difference(by[name, OURS], by[name, peer], key) for peer in PEERS]
            level += all(gap >= -error for gap, error in gaps)
        asked.append(
            claim(f"{what}: studies on which no peer is better by a standard error", 3, level, at_least=True)
        )
    judged = [numbers[name][OURS]["calibration"] for name in whole]
    inside = sum(bool(one) and one["bins_inside"] == one["bins"] for one in judged)
    asked.append(claim("studies on which calibration is inside the band", len(whole), inside, at_least=True))
    return asked


if __name__ == "__main__":
    run_study(__doc__, "survival", jobs=cells, report=reported, short=short, sets=list(SETS), splits=N_SPLITS)
