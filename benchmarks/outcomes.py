"""Grades, counts and outliers: our models beside those of statsmodels and scikit-learn.

10 random splits with 200 training samples and at most 500 others of: party identification in anes96 (seven grades)
and ratings of marriages in fair (four grades), both against ordered probit and logit models and multinomial logistic
regression; visits to a doctor in randhie (counts), against generalized linear models; and diabetes, as it is and with
5 % of the training targets moved by six standard deviations up or down, against Huber regression. `_outcome_data.py`
has views and splits, `_outcome_models.py` how each model is set up. Ours have their defaults and the bank "auto" on
each view. Simulated grades (250 training samples) have known cut points.

The ranked probability score is the mean over cut points of (P(y <= k) - [y <= k])^2. Log scores are log probabilities
or densities of test targets, in nats each. Distances of cut points are in units of the noise; intervals are of 94 %,
those of ordered models by draws from the normal approximation to their maximum likelihood estimates. Seconds are user
time of choosing, fitting and predicting.

    python benchmarks/outcomes.py                 what is missing of 10 splits
    python benchmarks/outcomes.py --sets fair --models ordered --splits 3
    python benchmarks/outcomes.py --report --keep  tables from the committed results
    python benchmarks/outcomes.py --fast           simulations, few samples, without statsmodels

One JSON line per model, set and split is appended to benchmarks/results/outcomes_cells.jsonl; a run continues where
the file ends, and all sets finish split 0 before split 1 begins.
"""

from __future__ import annotations

import os
from argparse import Namespace
from functools import partial
from typing import Any

import numpy as np
from _cells import Jobs, chosen_rows, gap, run_study, told
from _outcome_data import CUTS, SETS, SHORT, Outcome, Split, available
from _outcome_models import MODELS, OF_STATSMODELS, OURS, PEERS, Prediction
from _report import claim, markdown_table

from bayesmkl.gp import Marginal

N_SPLITS = 10
LEAST = 1e-10  # probability of a grade, in log losses
HEADERS = {
    "grades": {"rps": "ranked probability score", "log_loss": "log loss", "accuracy": "accuracy"},
    "counts": {"log_score": "log score", "error": "RMSE", "absolute": "median absolute error"},
    "outliers": {"error": "RMSE / sd", "absolute": "median absolute error / sd", "log_score": "log score"},
}
SHORT_INFERENCE = Marginal(n_points=100, n_draws=100)


def ranked_probability_score(y: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean squared error of cumulative probabilities, over cut points and samples; grades begin at 0."""
    below = np.cumsum(probabilities, axis=1)[:, :-1]
    return float(np.mean((below - (y[:, None] <= np.arange(below.shape[1]))) ** 2))


def scores(kind: str, split: Split, found: Prediction) -> dict[str, float]:
    """Judge predictions of the test part."""
    if kind == "grades":
        own = found.probabilities[np.arange(len(split.y_test)), split.y_test]
        judged = {
            "rps": ranked_probability_score(split.y_test, found.probabilities),
            "log_loss": -float(np.log(np.maximum(own, LEAST)).mean()),
            "accuracy": float((found.probabilities.argmax(axis=1) == split.y_test).mean()),
        }
    else:
        unit = split.y_test.std() if kind == "outliers" else 1.0
        rest = np.abs(split.y_test - found.mean) / unit
        judged = {"error": float(np.sqrt(np.mean(rest**2))), "absolute": float(np.median(rest))}
        if found.log_scores is not None:
            judged["log_score"] = float(np.mean(found.log_scores))
    return {key: round(value, 5) for key, value in judged.items()}


def cell(name: str, outcome: Outcome, number: int, model: str, inference: Any = "marginal") -> dict[str, Any]:
    """Fit one model to one split and judge it; failures and warnings are a part of the result."""
    split = outcome.draw(number)
    row: dict[str, Any] = {"set": name, "split": number, "model": model}
    row |= {"n_train": len(split.y), "n_test": len(split.y_test)}
    start = os.times().user
    with told(row, "failure"):
        found = MODELS[outcome.kind][model](split, inference)
        row["seconds"] = round(os.times().user - start, 2)
        row |= scores(outcome.kind, split, found)
        if name == "simulated" and found.distances is not None:
            row["distances"] = np.round(found.distances, 4).tolist()
    return row


def models_of(outcome: Outcome) -> list[str]:
    """Models that can run here: statsmodels may not be installed."""
    return [model for model in MODELS[outcome.kind] if available() or model not in OF_STATSMODELS]


def cells(chosen: Namespace) -> Jobs:
    """Cells that are asked for."""
    if not available():
        print("statsmodels is not installed: without its models and its data.\n")
    for number in range(chosen.splits):
        for name, outcome in sets_of(chosen).items():
            for model in models_of(outcome):
                yield name, number, model, partial(cell, name, outcome, number, model)


def sets_of(chosen: Namespace) -> dict[str, Outcome]:
    """Sets that are asked for and here."""
    if chosen.fast:
        return SHORT
    return {name: SETS[name] for name in chosen.sets if available() or not SETS[name].needs_statsmodels}


def reported(rows: list[dict[str, Any]], chosen: Namespace) -> tuple[str, dict[str, Any]]:
    """Report the sets that are asked for."""
    return report(rows, sets_of(chosen))


def short() -> list[dict[str, Any]]:
    """Simulations of few samples, without statsmodels."""
    rows = [
        cell(name, outcome, 0, model, SHORT_INFERENCE)
        for name, outcome in SHORT.items()
        for model in MODELS[outcome.kind]
        if model not in OF_STATSMODELS and model not in OURS[outcome.kind][1:]
    ]
    if failures := [f"{row['model']}: {row['failure']}" for row in rows if "failure" in row]:
        raise SystemExit("\n".join(failures))
    return rows


# ----------------------------------------------------------------------------------------------------------- report


def table(kind: str, rows: list[dict[str, Any]], sets: dict[str, Outcome], numbers: dict[str, Any]) -> str:
    """Means of the scores on all sets of a kind; `numbers` gets them too."""
    body = []
    for name in (name for name, outcome in sets.items() if outcome.kind == kind):
        for model in MODELS[kind]:
            good = chosen_rows(rows, name, model)
            if not good:
                continue
            means = {
                key: float(np.mean([row[key] for row in good])) if key in good[0] else None
                for key in HEADERS[kind]
            }
            seconds = float(np.median([row["seconds"] for row in good]))
            warned = sum(bool(row["warnings"]) for row in good)
            numbers.setdefault(name, {})[model] = {
                **{key: value if value is None else round(value, 5) for key, value in means.items()},
                "seconds": seconds,
                "splits": len(good),
                "failed": sum((row["set"], row["model"]) == (name, model) for row in rows) - len(good),
                "with warnings": warned,
            }
            shown = [_shown(value) for value in means.values()]
            body.append([f"{name}: {model}", *shown, f"{seconds:.2g}", len(good), warned])
    return markdown_table(["set, model", *HEADERS[kind].values(), "seconds", "splits", "with warnings"], body)


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.1e}"


def cut_points(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> str:
    """Distances of the cut points of simulated grades beside the true ones."""
    body, truth = [], np.diff(CUTS)
    for model in MODELS["grades"]:
        found = np.array([r["distances"] for r in chosen_rows(rows, "simulated", model) if "distances" in r])
        if not len(found) or model == "ordered logit":  # its unit is another
            continue
        lower, middle, upper = found.transpose(1, 0, 2)
        inside = float(np.mean((lower <= truth) & (truth <= upper)))
        ratio = float(np.exp(np.log(middle / truth).mean()))
        error = float(np.sqrt(np.mean((middle - truth) ** 2)))
        numbers["cut points"] = numbers.get("cut points", {}) | {
            model: {"ratio": round(ratio, 4), "error": round(error, 4), "inside": round(inside, 4)}
        }
        covered = f"{100 * inside:.0f} %" if (lower < upper).any() else "–"
        body.append([model, f"{ratio:.2f}", f"{error:.3f}", covered, found[:, 0].size])
    headers = ["simulated grades", "estimated / true distance", "RMSE", "inside 94 % intervals", "distances"]
    return markdown_table(headers, body)


def claims(
    rows: list[dict[str, Any]], sets: dict[str, Outcome], numbers: dict[str, Any]
) -> list[dict[str, Any]]:
    """What is asked of ours, where all models have run."""
    if any(len(chosen_rows(rows, name, m)) < 2 for name in SETS for m in MODELS[SETS[name].kind]):
        return []
    ours, _ = OURS["grades"]
    level = 0
    for name in ("anes96", "fair"):
        against = [gap(rows, name, ours, peer, "rps") for peer in PEERS["grades"]]
        level += all(mean <= error for mean, error in against)
    best = max(PEERS["counts"], key=lambda peer: numbers["randhie"][peer]["log_score"])
    counted, error = gap(rows, "randhie", OURS["counts"][0], best, "log_score")
    asked = [
        claim(
            "grades: sets on which no ordered model has a better ranked probability score by a standard error",
            2,
            level,
            at_least=True,
        ),
        claim(
            "grades: true distances of cut points inside 94 % intervals",
            0.85,
            numbers["cut points"][ours]["inside"],
            at_least=True,
        ),
        claim(
            f"counts: log score above the best of the others ({best}), standard error {error:.3f}",
            0.0,
            counted,
            " nats",
            True,
        ),
    ]
    for name, allowed in (("diabetes", 1.02), ("diabetes, 5 % corrupted", 1.0)):
        robust, gaussian = (numbers[name][model]["error"] for model in OURS["outliers"])
        asked.append(claim(f"{name}: RMSE with Student t over Gaussian noise", allowed, robust / gaussian))
    return asked


def report(rows: list[dict[str, Any]], sets: dict[str, Outcome]) -> tuple[str, dict[str, Any]]:
    """The tables, and the numbers behind them with what is asked of ours."""
    numbers: dict[str, Any] = {}
    rows = [row for row in rows if row["set"] in sets]
    parts = [
        table(kind, rows, sets, numbers) for kind in HEADERS if any(o.kind == kind for o in sets.values())
    ]
    if "simulated" in sets:
        parts.insert(1, cut_points(rows, numbers))
    return "\n\n".join(parts), {"sets": numbers, "claims": claims(rows, sets, numbers)}


if __name__ == "__main__":
    run_study(__doc__, "outcomes", jobs=cells, report=reported, short=short, sets=list(SETS), splits=N_SPLITS)
