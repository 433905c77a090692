"""Covariates and groups beside kernels: coverage where sites have strong effects, and repeated measurements.

Simulations: 120 samples of ten sites of unequal size and of three views of two features, whose means differ from site
to site; functions of the first two views are draws from Gaussian processes, with shares of .7 and .3 of their
variance before centering; sites have effects of three times their standard deviation, a covariate that differs
between sites has one, and noise of .4. Asked is how often 95 % intervals hold the shares of the views in the views'
part of the score, their effects at four samples (around their mean), and the effect of the covariate: with
`Design(covariate_columns=..., group_columns=...)`, and with the covariate but without sites.

Sets: 10 random splits of repeated measurements, rows of known subjects held out, see `_design_data.py`; log scores
are log densities or probabilities of test targets, in nats each.

Exposures: 20 simulations of mixtures of five exposures with a covariate, see `_exposures.py`, 10 of 300 samples, 3 of
1000 and one of 1200. The intercept of the mean on the truth is zero, as both are centered.

Tasks: 20 draws of each simulation in `_design_tasks.py`: a column of tasks
beside multitask BEMKL and a model per task.

    python benchmarks/designs.py                   what is missing of 400 simulations, 10 splits and 20 draws
    python benchmarks/designs.py --report --keep   tables from the committed results
    python benchmarks/designs.py --fast            two simulations, one draw of small tasks, no sets

One JSON line per simulation, or per model, set and split, is appended to benchmarks/results/designs_cells.jsonl; a
run continues where the file ends.
"""

from __future__ import annotations

import os
from argparse import Namespace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from _cells import Jobs, run_study
from _design_data import MODELS, SETS, available, split
from _design_tasks import FAMILY, SETTINGS, set_of, task_cell, task_claims, tasks_table
from _exposures import LARGE, MORE, SCENARIOS, SMOOTHERS, exposure_cell
from _posteriors import quietly
from _report import claim, markdown_table

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.gp import Design, Marginal
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.reading import PriorParts, draw_normal, draw_scores
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import effect_table

N_SIMULATIONS, N_SPLITS, N_EXPOSED, N_DRAWS = 400, 10, 20, 20
N_OF_TASK = 40  # samples
N_SAMPLES, N_SITES = 120, 10
LEVEL = 0.95
VIEWS = {"first": [0, 1], "second": [2, 3], "nothing": [4, 5]}
PARTS = np.sqrt([0.7, 0.3, 0.0])
SITE_STD, COVARIATE, NOISE_STD, SHIFT = 3.0, 1.0, 0.4, 0.7
WIDTH, SHOWN = 2.0, [0, 1, 2, 3]
PAIRS, RELEVANCES = "GPMKL, pairs and all", "one kernel, learned relevances"
SMALL = 0.03  # where an interval of a share that allows for nothing begins
DESIGNS = {"sites": Design(covariate_columns=6, group_columns=7), "no sites": Design(covariate_columns=6)}


def simulate(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples (with covariate and site), targets, and what every view adds, (3, n_samples), centered."""
    rng = np.random.default_rng([9100, seed])
    site = rng.choice(N_SITES, size=N_SAMPLES, p=rng.dirichlet(np.full(N_SITES, 3.0)))
    X = rng.standard_normal((N_SAMPLES, 6)) + SHIFT * rng.standard_normal((N_SITES, 6))[site]
    covariate = rng.standard_normal(N_SAMPLES) + SHIFT * rng.standard_normal(N_SITES)[site]
    parts = np.zeros((3, N_SAMPLES))
    for part, weight, columns in zip(parts, PARTS, VIEWS.values(), strict=True):
        kernel = Gaussian(width=WIDTH)(X[:, columns], X[:, columns])
        values, vectors = np.linalg.eigh(kernel)
        drawn = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(N_SAMPLES))
        part[...] = weight * (drawn - drawn.mean())
    y = parts.sum(axis=0) + COVARIATE * covariate + SITE_STD * rng.standard_normal(N_SITES)[site]
    y += NOISE_STD * rng.standard_normal(N_SAMPLES)
    return np.column_stack([X, covariate, site]), y, parts


def draw_views(model: GPMKLRegressor, y: np.ndarray, seed: int) -> np.ndarray:
    """Draw what every view adds to the training targets, centered, (n_draws, n_views, n_samples)."""
    stack, draws, rng = model._stored_training(), model.posterior_, np.random.default_rng(seed)
    hypermodel: Hypermodel = model._hypermodel(stack, model._targets_of_outputs(), model._inference())
    covariance = hypermodel.covariance
    prior = PriorParts(covariance, draws.n_draws, 1, rng)
    sums, residuals = prior.total(draws.weights, draws.point), np.empty((draws.n_draws, 1, len(y)))
    normal = draw_normal(covariance, (draws.n_draws, len(y)), rng)
    for at, weights in enumerate(draws.weights):
        here, matrix = np.flatnonzero(draws.point == at), covariance.matrix(weights)
        found = hypermodel.evidence(
            hypermodel.likelihood, hypermodel.targets[0], matrix, draws.parameters[at, 0]
        )
        residuals[here, 0], *_ = draw_scores(
            covariance, weights, found.posterior, found.sites, matrix, sums[here, 0], normal[here]
        )
    parts = np.empty((draws.n_draws, covariance.stack.n_kernels, len(y)))
    for kernels, here, own in prior.corrected(draws.weights, draws.point, residuals):
        parts[np.ix_(here, kernels)] = own[:, 0]
    return model.y_scale_ * (parts - parts.mean(axis=-1, keepdims=True))


def held(truth: np.ndarray, draws: np.ndarray) -> list[bool]:
    """Return whether equal-tailed intervals of draws (the first axis) hold what is true."""
    low, high = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    return ((low <= truth) & (truth <= high)).ravel().tolist()


def coverage_cell(seed: int, name: str, inference: str | Marginal) -> dict[str, Any]:
    """Fit one simulation; return what intervals hold."""
    X, y, parts = simulate(seed)
    X = X if name == "sites" else X[:, :7]
    bank = KernelBank([Gaussian(width=WIDTH)], views=VIEWS, normalize="center")
    start = os.times().user
    model = GPMKLRegressor(bank, design=DESIGNS[name], inference=inference, random_state=seed).fit(X, y)
    seconds = os.times().user - start
    products = parts @ parts.sum(axis=0)
    shares = products / products.sum()
    effects = effect_table(model, ci_prob=LEVEL).iloc[0]
    starts = float(np.quantile(model.posterior_.shares[:, 2], 0.5 - LEVEL / 2))
    ends = np.quantile(model.posterior_.shares[:, 0], [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return {
        "set": "simulations", "split": seed, "model": name, "seconds": round(seconds, 2),
        "shares": [*held(shares[:2], model.posterior_.shares[:, :2]), starts < SMALL],
        "effects": held(parts[:2][:, SHOWN], draw_views(model, y, seed)[:, :2][..., SHOWN]),
        "covariate": [bool(effects["lower"] <= COVARIATE <= effects["upper"])],
        "widths": [round(float(v), 4) for v in (np.diff(ends)[0], effects["upper"] - effects["lower"])],
        "converged": bool(model.converged_),
    }  # fmt: skip


def set_cell(name: str, number: int, model: str, inference: str | Marginal = "marginal") -> dict[str, Any]:
    """Fit one model to one split and judge it."""
    panel = SETS[name]()
    rows = split(panel, number)
    start = os.times().user
    found = MODELS[model](panel, rows, inference)
    rest = panel.y[rows.test] - found.mean
    return {
        "set": name, "split": number, "model": model, "seconds": round(os.times().user - start, 2),
        "error": float(np.sqrt(np.mean(rest**2))), "log_score": float(np.mean(found.log_scores)),
        "inside": None if found.inside is None else float(np.mean(found.inside)),
    }  # fmt: skip


def models_of(name: str) -> list[str]:
    """Models of a set: those of numbers, or of counts."""
    other = "linear mixed model (REML)" if name == "epil" else "negative binomial regression"
    return [model for model in MODELS if model != other]


def cells(chosen: Namespace) -> Jobs:
    """Cells that are asked for."""
    n = chosen.simulations
    for number in range(chosen.splits if available() else 0):
        for name in SETS:
            for model in models_of(name):
                yield name, number, model, partial(set_cell, name, number, model)
    for seed, scenario, model in product(range(min(N_EXPOSED, n)), SCENARIOS, SMOOTHERS):
        yield f"exposures, {scenario}", seed, model, partial(exposure_cell, scenario, seed, model)
    for size, n_more in MORE.items():
        for seed, scenario, model in product(range(min(n_more, n)), SCENARIOS, (PAIRS, RELEVANCES)):
            name = f"exposures, {scenario}, {size}"
            yield name, seed, model, partial(exposure_cell, scenario, seed, model, size)
    for seed, setting, model in product(range(min(N_DRAWS, n)), SETTINGS, FAMILY):
        yield set_of(setting), seed, model, partial(task_cell, setting, N_OF_TASK, seed, model)
    large = f"exposures, {SCENARIOS[0]}, {LARGE}"
    yield large, 0, PAIRS, partial(exposure_cell, SCENARIOS[0], 0, PAIRS, LARGE)
    for seed, name in product(range(n), DESIGNS):
        yield "simulations", seed, name, partial(coverage_cell, seed, name, "marginal")


def short() -> list[dict[str, Any]]:
    """Two simulations, one draw of small tasks, no sets."""
    inference = Marginal(n_points=100, n_draws=100)
    rows = [coverage_cell(seed, name, inference) for seed in range(2) for name in DESIGNS]
    return rows + [task_cell(SETTINGS[0], 12, 0, model, inference) for model in FAMILY]


def coverage_table(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> str:
    """How often intervals hold, by design; `numbers` gets it too."""
    body = []
    for name in DESIGNS:
        own = [row for row in rows if (row["set"], row["model"]) == ("simulations", name)]
        if not own:
            continue
        shown = []
        for key in ("shares", "effects", "covariate"):
            each = np.array([row[key] for row in own], dtype=float)
            each = each[:, :2] if key == "shares" else each
            error = each.mean(axis=1).std(ddof=1) / np.sqrt(len(own)) if len(own) > 1 else np.nan
            numbers.setdefault(name, {})[key] = round(float(each.mean()), 4)
            shown.append(f"{100 * each.mean():.1f} ± {100 * error:.1f}")
        small = np.mean([row["shares"][2] for row in own])
        widths = np.mean([row["widths"] for row in own], axis=0)
        warned = sum(not row["converged"] for row in own)
        body.append(
            [name, *shown, f"{100 * small:.0f}", *(f"{w:.2f}" for w in widths), f"{warned} of {len(own)}"]
        )
    headers = [
        "design", "shares held, %", "effects of views held, %", "effect of the covariate held, %",
        f"share of nothing begins below {SMALL:g}, %", "width of shares", "width of the covariate", "warned",
    ]  # fmt: skip
    return markdown_table(headers, body)


def sets_table(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> str:
    """Means of scores, and gaps to ours with their standard errors."""
    body = []
    for name in SETS:
        ours = {r["split"]: r for r in rows if (r["set"], r["model"]) == (name, "GPMKL, groups")}
        for model in models_of(name):
            own = [r for r in rows if (r["set"], r["model"]) == (name, model) and r["split"] in ours]
            if not own:
                continue
            gaps = np.array([r["log_score"] - ours[r["split"]]["log_score"] for r in own])
            error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
            means = {key: float(np.mean([r[key] for r in own])) for key in ("error", "log_score", "seconds")}
            inside = [r["inside"] for r in own if r["inside"] is not None]
            numbers.setdefault(name, {})[model] = means | {"gap": float(gaps.mean()), "se": float(error)}
            body.append([
                f"{name}: {model}", f"{means['error']:.3f}", f"{means['log_score']:.3f}",
                "" if model == "GPMKL, groups" else f"{gaps.mean():+.3f} ± {error:.3f}",
                f"{100 * np.mean(inside):.1f}" if inside else "–", f"{means['seconds']:.1f}", len(own),
            ])  # fmt: skip
    headers = "set, model | RMSE | log score | against the first | in 94 % intervals, % | seconds | splits"
    return markdown_table(headers, body)


def exposures_table(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> str:
    """Means of what is said of the response to exposures."""
    body = []
    for name in dict.fromkeys(row["set"] for row in rows if row["set"].startswith("exposures")):
        for model in SMOOTHERS:
            own = [row for row in rows if (row["set"], row["model"]) == (name, model)]
            if not own:
                continue
            means = {
                key: float(np.mean([r[key] for r in own]))
                for key in ("slope", "r2", "error", "inside", "seconds")
            }
            numbers.setdefault(name, {})[model] = means
            shown = [f"{means[key]:.3f}" for key in ("slope", "r2", "error")]
            body.append([
                f"{name}: {model}", *shown, f"{100 * means['inside']:.1f}", f"{means['seconds']:.1f}", len(own),
            ])  # fmt: skip
    headers = ["set, model", "slope", "R2", "RMSE", "in 95 % intervals, %", "seconds", "simulations"]
    return markdown_table(headers, body)


def claims(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """What is asked: nominal coverage with sites, and none without; no peer ahead by a standard error."""
    made = []
    for key, what in (("shares", "shares"), ("effects", "effects of views"), ("covariate", "covariates")):
        if "sites" in numbers:
            apart = abs(100.0 * numbers["sites"][key] - 95.0)
            made.append(
                claim(f"designs: coverage of 95 % intervals of {what}, off by", 2.0, apart, " points")
            )
    if "no sites" in numbers:
        found = 100.0 * numbers["no sites"]["shares"]
        made.append(claim("designs: coverage of shares without sites", 93.0, found, " %"))
    for name in SETS:
        for model, own in numbers.get(name, {}).items():
            if not model.startswith("GPMKL"):
                what = f"designs, {name}: log score of {model} above ours, standard error {own['se']:.3f}"
                made.append(claim(what, own["se"], own["gap"], " nats"))
    for name, own in numbers.items():
        if name.startswith("exposures") and {PAIRS, RELEVANCES} <= own.keys():
            gap = own[PAIRS]["r2"] - own[RELEVANCES]["r2"]
            made.append(claim(f"designs, {name}: R2 above that of {RELEVANCES}", 0.0, gap, "", True))
    large = numbers.get(f"exposures, {SCENARIOS[0]}, {LARGE}", {})
    if large:
        made.append(claim(f"designs, exposures, {LARGE} samples: time", 300.0, large[PAIRS]["seconds"], " s"))
    return made + task_claims(numbers)


def report(rows: list[dict[str, Any]], chosen: Namespace) -> tuple[str, dict[str, Any]]:
    """All tables that there are cells for."""
    numbers: dict[str, Any] = {}
    text = coverage_table(rows, numbers)
    sets = sets_table(rows, numbers)
    if any(row["set"] in SETS for row in rows):
        text += "\n\n" + sets
    if any(row["set"].startswith("exposures") for row in rows):
        text += "\n\n" + exposures_table(rows, numbers)
    if any(row["set"].startswith("tasks") for row in rows):
        text += "\n\n" + tasks_table(rows, numbers)
    return text, {"designs": numbers, "claims": [] if chosen.fast else claims(numbers)}


if __name__ == "__main__":
    with quietly():
        run_study(
            __doc__,
            "designs",
            jobs=cells,
            report=report,
            short=short,
            simulations=N_SIMULATIONS,
            splits=N_SPLITS,
        )
