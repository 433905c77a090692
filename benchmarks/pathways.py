"""Which of many gene sets matter? False discoveries and power beside group lassos, on sets known to matter.

`make_pathways` draws 300 samples of 2000 correlated genes in 200 overlapping sets of 10 to 100, five of which enter
the score by a linear function each. GPMKL has one linear kernel per set under the spike-and-slab prior, and its list
is the longest whose expected false discovery rate is at most .1. Group lasso has a copy of a gene for each of its
sets; scMKL's recipe has random features of a Gaussian kernel per set (`_pathway_models.py`). Their lists promise no
rate, so power is compared where they discover no more false sets than GPMKL does: by the longest lists above a
threshold that all runs share, of the better of two scores. Seconds are of processor time, but for those of 1000
kernels, which are what one waits for.

    python benchmarks/pathways.py                        what is missing of 50 runs, then 1000 sets once
    python benchmarks/pathways.py --sets regression      of one task; --runs 5 of the first runs alone
    python benchmarks/pathways.py --models "group lasso" of models whose names hold this
    python benchmarks/pathways.py --report --keep        table from the committed results
    python benchmarks/pathways.py --fast                 12 sets of 60 samples

One JSON line per model and run is appended to benchmarks/results/pathways_cells.jsonl; a run continues where the file
ends. Group lassos need celer, `pip install 'bayesmkl[bench]'`; without it they are left out.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _cells import Jobs, chosen_rows, run_study
from _pathway_models import MODELS, NOMINAL, OURS, answer, available
from _report import claim, markdown_table
from sklearn.utils import Bunch

from bayesmkl.datasets import make_pathways

N_RUNS, SEED = 50, 7000
SIGNALS = {"regression": 0.6, "classification": 0.9}  # a label says less than a number
LARGE, N_LARGE = "1000 sets", 1000
LONGEST = 60  # sets of a ranking that are kept


def drawn(task: str, number: int, n_sets: int = 200) -> Bunch:
    """Draw a run."""
    seed = np.random.default_rng([SEED, number, n_sets])
    return make_pathways(n_sets=n_sets, signal=SIGNALS[task], task=task, random_state=seed)


SETS: dict[str, Callable[[int], Bunch]] = {task: partial(drawn, task) for task in SIGNALS}
SHORT = partial(make_pathways, 60, 12, 2, 120, min_size=5, max_size=15, block_size=20, signal=0.8)


def cell(name: str, sample: Bunch, number: int, model: str) -> dict[str, Any]:
    """Fit one model to one run: what its lists hold, and the beginnings of its rankings."""
    found, active = answer(model, sample, number), sample.active
    row: dict[str, Any] = {"set": name, "split": number, "model": model, "n_active": int(active.sum())}
    row |= found.facts
    row["lists"] = {rule: [int(own.sum()), int((own & active).sum())] for rule, own in found.lists.items()}
    row["rankings"] = {}
    for kind, scores in found.scores.items():
        order = np.argsort(-scores, kind="stable")[:LONGEST]
        order = order[scores[order] > 0.0]
        row["rankings"][kind] = {
            "scores": [float(f"{score:.5g}") for score in scores[order]],
            "active": active[order].astype(int).tolist(),
        }
    return row


def cells(chosen: Namespace) -> Jobs:
    """Cells that are asked for; 1000 sets come last."""
    for number in range(chosen.runs):
        for name in (name for name in chosen.sets if name != LARGE):
            for model in available():
                yield name, number, model, lambda n=name, k=number, m=model: cell(n, SETS[n](k), k, m)
    if LARGE in chosen.sets:
        yield LARGE, 0, OURS, lambda: cell(LARGE, drawn("regression", 0, N_LARGE), 0, OURS)


def reported(rows: list[dict[str, Any]], chosen: Namespace) -> tuple[str, dict[str, Any]]:
    """Report what is asked for."""
    return report(rows, ["short"] if chosen.fast else chosen.sets)


def short() -> list[dict[str, Any]]:
    """One run of few sets."""
    return [cell("short", SHORT(random_state=0), 0, model) for model in available()]


# ----------------------------------------------------------------------------------------------------------- report


def rates(rows: list[dict[str, Any]], rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of false discoveries in the list of each run, and of active sets in it."""
    n, true = np.array([row["lists"][rule] for row in rows]).T
    return (n - true) / np.maximum(n, 1), true / np.array([row["n_active"] for row in rows])


def at_most(rows: list[dict[str, Any]], kind: str, rate: float) -> tuple[float, np.ndarray]:
    """Return the rate and each run's power of the longest lists above a common threshold with at most this rate."""
    n_active = np.array([row["n_active"] for row in rows])
    runs = [row["rankings"][kind] for row in rows]
    scores = np.concatenate([one["scores"] for one in runs])
    run_of = np.repeat(np.arange(len(rows)), [len(one["scores"]) for one in runs])
    hits = np.concatenate([one["active"] for one in runs])
    n, true, best = np.zeros(len(rows)), np.zeros(len(rows)), (0.0, np.zeros(len(rows)))
    order = np.argsort(-scores, kind="stable")
    for i, place in enumerate(order):
        n[run_of[place]] += 1
        true[run_of[place]] += hits[place]
        if i + 1 < len(order) and scores[order[i + 1]] == scores[place]:  # a threshold takes both
            continue
        found = float(((n - true) / np.maximum(n, 1)).mean())
        if found <= rate:
            best = (found, true / n_active)
    return best


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and its standard error, 0 of a single run."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean()), float(error)


def compared(rows: list[dict[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    """Return what each model reaches on the runs that all of them have."""
    own = {model: chosen_rows(rows, name, model) for model in MODELS}
    own = {model: found for model, found in own.items() if found}
    common = set.intersection(*({row["split"] for row in found} for found in own.values())) if own else set()
    own = {
        model: sorted((row for row in found if row["split"] in common), key=lambda row: row["split"])
        for model, found in own.items()
    }
    found: dict[str, dict[str, Any]] = {}
    ours = rates(own[OURS], "list") if own.get(OURS) else None
    for model, cells in own.items():
        if not cells:
            continue
        numbers: dict[str, Any] = {"runs": len(cells), "lists": {}, "rankings": {}}
        for rule in cells[0]["lists"]:
            false, power = rates(cells, rule)
            keys = ("false", "false_error", "power", "power_error")
            numbers["lists"][rule] = dict(
                zip(keys, (*mean_and_error(false), *mean_and_error(power)), strict=True)
            )
            numbers["lists"][rule]["selected"] = float(np.mean([row["lists"][rule][0] for row in cells]))
        if ours is not None:
            for kind in cells[0]["rankings"]:
                rate, power = at_most(cells, kind, float(ours[0].mean()))
                gain, error = mean_and_error(ours[1] - power)
                numbers["rankings"][kind] = {
                    "false": rate,
                    "power": float(power.mean()),
                    "ahead": gain,
                    "error": error,
                }
        numbers["seconds"] = float(np.median([row["seconds"] for row in cells]))
        if model == OURS:
            numbers["expected"] = float(np.mean([row["expected"] for row in cells]))
        found[model] = numbers
    return found


def claims(
    numbers: dict[str, dict[str, dict[str, Any]]], large: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Compare with what was asked for, on sets that all models have."""
    made = []
    for name, models in numbers.items():
        if len(models) < len(MODELS):
            continue
        ours = models[OURS]["lists"]["list"]
        what = f"gene sets, {name}: false discovery rate (nominal {NOMINAL} and two standard errors)"
        made.append(claim(what, NOMINAL + 2.0 * ours["false_error"], ours["false"]))
        for model in MODELS[1:]:
            best = max(one["power"] for one in models[model]["rankings"].values())
            what = f"gene sets, {name}: power, beside that of {model} at no more false discoveries"
            made.append(claim(what, best, ours["power"], at_least=True))
    if large:
        made.append(claim("gene sets: 1000 kernels, 300 samples", 300.0, large[0]["wall"], " s"))
    return made


def report(rows: list[dict[str, Any]], names: list[str]) -> tuple[str, dict[str, Any]]:
    """Return a table, and the numbers behind it with what is asked of ours."""
    numbers = {name: compared(rows, name) for name in names if name in SETS or name == "short"}
    body = []
    for name, models in numbers.items():
        for model, found in models.items():
            powers = [f"{one['power']:.2f} ({kind})" for kind, one in found["rankings"].items()]
            for i, (rule, one) in enumerate(found["lists"].items()):
                at_our_rate, seconds = (
                    ("–", "") if i else (", ".join(powers) or "–", f"{found['seconds']:.2g}")
                )
                body.append(
                    f"{name}: {model}{'' if model == OURS else f', {rule}'} | {one['selected']:.1f} | "
                    f"{one['false']:.3f} ± {one['false_error']:.3f} | "
                    f"{one['power']:.3f} ± {one['power_error']:.3f} | {at_our_rate} | {seconds}"
                )
    headers = "task, model, list | sets in it | false discoveries | power | power at our rate | seconds"
    large = chosen_rows(rows, LARGE, OURS)
    runs = [
        f"{'–'.join(map(str, sorted({min(found), max(found)})))} runs of {task}"
        for task, models in numbers.items()
        if (found := [own["runs"] for own in models.values()])
    ]
    about = f"{' and '.join(runs)}: means and standard errors."
    if large:
        about += f" With 1000 sets the fit takes {large[0]['wall']:.0f} s."
    kept = {"tasks": numbers, "large": [row["wall"] for row in large], "claims": claims(numbers, large)}
    return about + "\n\n" + markdown_table(headers, body), kept


if __name__ == "__main__":
    run_study(__doc__, "pathways", jobs=cells, report=reported, short=short, sets=[*SETS, LARGE], runs=N_RUNS)
