"""Tables and claims of the calibration of marginal inference and of the closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from _ranks import LEVELS, asymmetry, coverage, ecdf_difference, simultaneous_band
from _report import claim, markdown_table

from bayesmkl.gp.hyperposterior import LARGEST_K, LEAST_DRAWS, MOST_UNKNOWN

QUANTITIES = {
    "share": "kernel shares",
    "weight": "kernel weights",
    "width": "log widths",
    "size": "sd of the score",
    "noise": "noise",
    "score": "training scores",
    "evidence": "log evidence ratio",
    "likelihood": "log likelihood",
}
OF_VB = {"share": "kernel shares", "weight": "\\|e\\|", "toward": "score towards its target"}
EXACT = ", exact"
N_BINS = 10
OUTER = 0.1  # of all places, at both ends together
Rows = dict[str, list[dict[str, float]]]


def summarize(rows: Rows) -> list[dict[str, Any]]:
    """Return a summary of every quantity under every inference, of all fits and of those that converged."""
    found = []
    for model, own in rows.items():
        for suffix, prefix in (("", ""), (EXACT, "exact ")):
            for quantity in (*QUANTITIES, "toward"):
                start = f"{prefix}{quantity} "
                columns = [key for key in own[0] if key.startswith(start)]
                if columns:
                    uniform = np.array([[row[key] for key in columns] for row in own])
                    found.append({"model": model + suffix, "quantity": quantity} | _summary(uniform, own))
    by_model = {one["model"]: 0 for one in found}
    for one in found:
        by_model[one["model"]] += one["entries"]
    for one in found:  # inside on all numbers of a model with at least 95 %, by Šidák's correction
        level = 0.95 ** (1.0 / by_model[one["model"]])
        one["outside_joint"] = _outside(one["ecdf_difference"], one["simulations"], level)
    return found


def _summary(uniform: np.ndarray, rows: list[dict[str, float]]) -> dict[str, Any]:
    n, entries = uniform.shape
    difference = ecdf_difference(uniform)
    ends = (np.abs(uniform - 0.5) > 0.5 - OUTER / 2).mean(axis=1)
    good = np.array([_converged(row) for row in rows])
    kept = {"converged": int(good.sum())}
    if good.sum() > 1:
        kept["outside_converged"] = _outside(ecdf_difference(uniform[good]), int(good.sum()))
    return {
        "simulations": n,
        "entries": entries,
        **coverage(uniform),
        "mean": float(uniform.mean()),
        "mean_error": float(uniform.mean(axis=1).std(ddof=1) / np.sqrt(n)),
        "ends": 100.0 * float(ends.mean()),
        "ends_error": 100.0 * float(ends.std(ddof=1) / np.sqrt(n)),
        "asymmetry": [asymmetry(places) for places in uniform.T],
        "histogram": [np.histogram(places, N_BINS, (0.0, 1.0))[0].tolist() for places in uniform.T],
        "ecdf_difference": difference,
        "farthest": float(np.abs(difference).max()),
        "outside": _outside(difference, n),
        **kept,
    }


def _converged(row: dict[str, float]) -> bool:
    """Return whether a fit said that it converged, as `Draws.converged`; the closed form always did."""
    if "pareto_k" not in row:
        return True
    return row["pareto_k"] <= LARGEST_K and row["ess"] >= LEAST_DRAWS and row["unconverged"] < MOST_UNKNOWN


def _outside(difference: list[list[float]], n: int, level: float = 0.95) -> int:
    """Return how many lines leave the band."""
    low, high = simultaneous_band(n, level)
    lines = np.array(difference)
    return int(((lines < low - 1e-4) | (lines > high + 1e-4)).any(axis=1).sum())  # they are rounded


def table(summaries: list[dict[str, Any]]) -> str:
    """One row per model and quantity of marginal inference."""
    body = []
    for one in summaries:
        if one["model"].startswith("VB"):
            continue
        cells = [f"{m:.1f} ± {e:.1f}" for m, e in zip(one["coverage"], one["standard_error"], strict=True)]
        body.append(
            f"{one['model']}: {QUANTITIES[one['quantity']]} | {' | '.join(cells)} | {one['farthest']:.3f} | "
            f"{one['outside']} of {one['entries']} | {one['outside_joint']} | {one['simulations']}"
        )
    headers = ["model: quantity", *(f"{level:.0%} interval" for level in LEVELS), "largest difference"]
    return markdown_table([*headers, "outside 95 % band", "outside joint band", "simulations"], body)


def summary_table(summaries: list[dict[str, Any]], rows: Rows) -> str:
    """One row per model of marginal inference."""
    body = []
    for model in dict.fromkeys(one["model"] for one in summaries if not one["model"].startswith("VB")):
        own = {one["quantity"]: one for one in summaries if one["model"] == model}
        held = [
            f"{own[name]['coverage'][-1]:.1f} ± {own[name]['standard_error'][-1]:.1f}" if name in own else ""
            for name in ("share", "size", "noise", "likelihood")
        ]
        entries, outside = (sum(one[key] for one in own.values()) for key in ("entries", "outside"))
        joint = [QUANTITIES[name] for name, one in own.items() if one["outside_joint"]]
        warned = sum(not _converged(row) for row in rows[model.removesuffix(EXACT)])
        simulations, names = own["share"]["simulations"], ", ".join(joint) or "none"
        body.append([model, simulations, warned, *held, f"{outside} of {entries}", names])
    headers = ["model", "simulations", "warned", "shares", "sd of the score", "noise", "log likelihood"]
    return markdown_table([*headers, "numbers outside 95 % band", "outside the joint one"], body)


def closed_table(summaries: list[dict[str, Any]]) -> str:
    """One row per quantity of the closed form."""
    body = []
    for one in summaries:
        if not one["model"].startswith("VB"):
            continue
        below = np.mean([places < 1e-3 for places in one["asymmetry"]]) * one["entries"]
        body.append(
            f"{one['model']}: {OF_VB[one['quantity']]} | "
            f"{one['coverage'][-1]:.1f} ± {one['standard_error'][-1]:.1f} | "
            f"{one['ends']:.1f} ± {one['ends_error']:.1f} | {one['mean']:.3f} ± {one['mean_error']:.3f} | "
            f"{below:.0f} of {one['entries']} | {one['simulations']}"
        )
    headers = ["model: quantity", f"{LEVELS[-1]:.0%} interval", f"places in the outer {OUTER:.0%}"]
    return markdown_table([*headers, "mean place", "asymmetric (p < .001)", "simulations"], body)


def claims_of(summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is asked beside what was found: every number inside the joint band of its model."""
    found = []
    for model in dict.fromkeys(one["model"] for one in summaries):
        if not model.startswith("VB") and not model.endswith(EXACT):
            own = [one for one in summaries if one["model"] == model]
            entries = sum(one["entries"] for one in own)
            what = f"SBC of {model}: of {entries} numbers, outside their joint 95 % band"
            found.append(claim(what, 0, sum(one["outside_joint"] for one in own)))
    return found
