"""Simulation-based calibration of marginal inference for outcomes of every kind.

Kernel weights, parameters of the likelihood and functions are drawn from their priors, targets from the model (30
fixed points in two views, a Gaussian kernel on one and a linear kernel on the other); then the place of the truth
among draws from the posterior is uniform if inference is right (Talts et al. 2018). Ranked are shares and weights of
both kernels, the parameters, the size of the score (its standard deviation) and four training scores. What is drawn
here uses none of the package's maps, densities or samplers. Times are censored after a time of their own; of one
sample in ten the event is seen between visits only. Normal noise that is not the same for all has a standard
deviation of either half of the samples, and known precisions from 1/4 to 4. Targets of which one is above 10 000 are
drawn anew: whether a data set is kept depends on its targets alone, and given those the posterior is what it was.

The priors are those of `GPMKLRegressor(kernel_prior="dirichlet", together=False, intercept_std=1)`. There are 500
draws of scores and 256 points.

    python benchmarks/outcome_sbc.py                       500 simulations of every likelihood, two hours on one core
    python benchmarks/outcome_sbc.py --sets "poisson;weibull"
    python benchmarks/outcome_sbc.py --report --keep       tables from the committed results
    python benchmarks/outcome_sbc.py --fast                one small one of each, nothing kept

One JSON line per simulation is appended to benchmarks/results/outcome_sbc_cells.jsonl; a run continues where the file
ends.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _cells import Jobs, run_study
from _posteriors import quietly
from _ranks import coverage, ecdf_difference, simultaneous_band, weighted_rank
from _report import claim, markdown_table

from bayesmkl import KernelBank
from bayesmkl import outcomes as of
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.drawing import find_mode
from bayesmkl.gp.evidence import ep_evidence, exact_evidence, student_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, draw_importance
from bayesmkl.gp.hyperpriors import DirichletShares, ParameterPriors
from bayesmkl.gp.reading import PriorParts
from bayesmkl.gp.reading import read as read_posterior
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack

N_SIMULATIONS, N_SAMPLES, N_POINTS, N_DRAWS = 500, 30, 256, 500
LARGEST = 1e4  # target
PRIOR, INTERCEPT_STD = DirichletShares(0.5, 4.0, 1.0), 1.0
SHOWN = [0, 10, 20, 29]
BREAKS = (0.5, 1.5)
QUANTITIES = {
    "share": "shares",
    "weight": "kernel weights",
    "parameter": "parameters",
    "size": "sd of the score",
    "score": "training scores",
}
Draw = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def _student_t(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return f + p[0] * rng.standard_t(p[1], len(f))


def _poisson(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(np.exp(np.minimum(f, 30.0))).astype(float)


def _negative_binomial(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rates = np.exp(np.minimum(f, 30.0)) * rng.gamma(p[0], 1.0 / p[0], len(f))
    return rng.poisson(rates).astype(float)


def _beta_binomial(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    trials, odds = rng.integers(1, 15, len(f)), 1.0 / (1.0 + np.exp(-f))
    rates = rng.beta(np.maximum(p[0] * odds, 1e-12), np.maximum(p[0] * (1.0 - odds), 1e-12))
    return np.stack([rng.binomial(trials, rates), trials]).astype(float)


def _ordinal(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    cuts = np.concatenate([[0.0], np.cumsum(p)])
    noisy = f + rng.standard_normal(len(f))
    return (noisy[:, None] > cuts - cuts.mean()).sum(axis=1).astype(float)


def _intervals(log_times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Censor times, and show some of the others between visits only."""
    n = len(log_times)
    end = rng.normal(1.0, 1.0, n)
    lower, upper = np.minimum(log_times, end), np.where(log_times <= end, log_times, np.inf)
    visited = (np.arange(n) % 10 == 0) & (log_times <= end)
    before = np.log(np.floor(2.0 * np.exp(np.minimum(log_times, 20.0))) / 2.0 + 1e-300)
    after = np.log(np.floor(2.0 * np.exp(np.minimum(log_times, 20.0))) / 2.0 + 0.5)
    lower = np.where(visited, np.where(before < -600.0, -np.inf, before), lower)
    return np.stack([lower, np.where(visited, after, upper), np.full(n, -np.inf)])


def _uneven_normal(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    half, precision = (np.arange(len(f)) % 2).astype(float), 4.0 ** rng.uniform(-1.0, 1.0, len(f))
    noise = p[half.astype(int)] / np.sqrt(precision) * rng.standard_normal(len(f))
    return np.stack([f + noise, half, precision])


def _failure(kind: str) -> Draw:
    def draw(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = {
            "log-normal": rng.standard_normal,
            "log-logistic": lambda n: rng.logistic(size=n),
            "weibull": lambda n: np.log(rng.exponential(size=n)),
        }[kind](len(f))
        return _intervals(f + p[0] * noise, rng)

    return draw


def _hazards(f: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw times at which the cumulative hazard is an exponential variable."""
    wanted = rng.exponential(size=len(f)) / np.exp(f)
    starts, ends = np.array([0.0, *BREAKS]), np.array([*BREAKS, np.inf])
    until = np.concatenate([[0.0], np.cumsum((ends - starts)[:-1] * p[:-1])])
    period = np.searchsorted(until, wanted, side="right") - 1
    return _intervals(np.log(starts[period] + (wanted - until[period]) / p[period]), rng)


MODELS: dict[str, tuple[Any, Draw]] = {
    "student-t": (of.StudentT(), _student_t),
    "poisson": (of.Poisson(), _poisson),
    "negative-binomial": (of.NegativeBinomial(), _negative_binomial),
    "beta-binomial": (of.BetaBinomial(), _beta_binomial),
    "ordinal": (of.OrdinalProbit(4), _ordinal),
    **{kind: (of.FailureTime(kind), _failure(kind)) for kind in ("log-normal", "log-logistic", "weibull")},
    "piecewise-hazard": (of.PiecewiseHazard(BREAKS), _hazards),
    "heteroscedastic": (of.Heteroscedastic(of.Gaussian(), ("even", "odd")), _uneven_normal),
}
EVIDENCES: dict[str, Any] = {"student-t": student_evidence, "heteroscedastic": exact_evidence}  # else EP


def kernels() -> np.ndarray:
    """Evaluate both kernels, (2, n_samples, n_samples)."""
    X = np.random.default_rng(0).standard_normal((N_SAMPLES, 4))
    banks = [KernelBank(Gaussian(width=2.0), views={"a": [0, 1]}), KernelBank(Linear(), views={"b": [2, 3]})]
    return np.concatenate([np.moveaxis(bank.fit_transform(X), -1, 0) for bank in banks])


def places(name: str, seed: int, n_points: int, n_draws: int) -> dict[str, Any]:
    """Simulate one data set and rank the truth."""
    likelihood, draw = MODELS[name]
    rng = np.random.default_rng([9300, list(MODELS).index(name), seed])
    stack = kernels()
    around = stack - stack.mean(axis=1, keepdims=True)
    units = np.einsum("mii->m", around) / N_SAMPLES
    values, vectors = np.linalg.eigh(stack)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :] / np.sqrt(units)[:, None, None]
    rejected = -1
    while True:
        rejected += 1
        total = PRIOR.scale * abs(rng.standard_t(PRIOR.df))
        weights = total * np.sqrt(rng.dirichlet(np.full(2, PRIOR.concentration)))
        own = np.array(
            [p.least + p.median * np.exp(p.log_std * rng.standard_normal()) for p in likelihood.priors]
        )
        parts = weights[:, None] * np.einsum("mij,mj->mi", roots, rng.standard_normal((2, N_SAMPLES)))
        score = parts.sum(axis=0) + INTERCEPT_STD * rng.standard_normal()
        y = draw(score, own, rng)
        if np.abs(y[np.isfinite(y)]).max(initial=0.0) <= LARGEST:
            break
    centered = parts - parts.mean(axis=1, keepdims=True)
    products = centered @ centered.sum(axis=0)
    truth = {
        "share": products / products.sum(), "weight": weights, "parameter": own,
        "size": np.array([score.std()]), "score": score[SHOWN],
    }  # fmt: skip
    start = os.times().user
    dense = DenseStack(stack)
    model = Hypermodel(
        Additive(dense, kernel_units(dense), INTERCEPT_STD), likelihood, y[None], PRIOR,
        ParameterPriors(likelihood.priors), EVIDENCES.get(name, ep_evidence),
    )  # fmt: skip
    inner = np.random.default_rng([9301, seed])
    points = draw_importance(model, find_mode(model), 2 * n_points, inner)
    prior = PriorParts(model.covariance, n_draws, 1, inner)
    drawn = read_posterior(model, points, prior, inner).draws
    scores = drawn.score[:, 0]
    found = {
        "share": drawn.shares, "weight": drawn.kernel_weights[drawn.point],
        "parameter": drawn.parameters[drawn.point, 0], "size": scores.std(axis=1, keepdims=True),
        "score": scores[:, SHOWN],
    }  # fmt: skip
    equal, worth = np.full(n_draws, 1.0 / n_draws), min(float(n_draws), points.ess)
    ranked = {
        key: weighted_rank(found[key], equal, worth, truth[key], rng).round(4).tolist()
        for key in QUANTITIES
        if len(truth[key])
    }
    return {
        "set": name, "split": seed, "model": "GPMKL", "seconds": round(os.times().user - start, 2),
        "rejected": rejected, "pareto_k": round(points.pareto_k, 3), "ess": round(points.ess, 1),
        "unconverged": round(points.unconverged, 4), "places": ranked,
    }  # fmt: skip


def outside(lines: np.ndarray, n: int, n_together: int) -> int:
    """Return how many differences of distribution functions leave the band that so many together stay within."""
    low, high = simultaneous_band(n, 0.95 ** (1.0 / n_together))
    return int(((lines < low - 1e-4) | (lines > high + 1e-4)).any(axis=1).sum())


def report(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> str:
    """One row per likelihood and quantity; `numbers` gets them too."""
    body = []
    found = {
        (name, key): np.array([row["places"][key] for row in rows if row["set"] == name])
        for name in MODELS
        for key in QUANTITIES
        if any(row["set"] == name and key in row["places"] for row in rows)
    }
    n_entries = sum(uniform.shape[1] for uniform in found.values())
    for (name, key), uniform in found.items():
        n, entries = uniform.shape
        if n < 2:
            continue
        held, lines = coverage(uniform), np.array(ecdf_difference(uniform))
        numbers.setdefault(name, {})[key] = {
            "coverage": held["coverage"], "error": held["standard_error"], "simulations": n,
            "outside": outside(lines, n, entries), "outside_joint": outside(lines, n, n_entries),
            "farthest": float(np.abs(lines).max()),
        }  # fmt: skip
        cells = [f"{m:.1f} ± {e:.1f}" for m, e in zip(held["coverage"], held["standard_error"], strict=True)]
        own = f"{outside(lines, n, entries)} of {entries}"
        body.append([f"{name}: {QUANTITIES[key]}", *cells, f"{np.abs(lines).max():.3f}", own, n])
    headers = [
        "likelihood: quantity", "50 % interval", "80 % interval", "94 % interval", "largest difference",
        "outside 95 % band", "simulations",
    ]  # fmt: skip
    return markdown_table(headers, body)


def claims(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """What is asked: places of all numbers inside their joint band, and so many simulations."""
    if len(numbers) < len(MODELS):
        return []
    n_outside = sum(own["outside_joint"] for found in numbers.values() for own in found.values())
    fewest = min(own["simulations"] for found in numbers.values() for own in found.values())
    return [
        claim("calibration of outcomes: numbers outside the 95 % band of all", 0.0, float(n_outside)),
        claim(
            "calibration of outcomes: simulations of every likelihood", N_SIMULATIONS, fewest, at_least=True
        ),
    ]


def cells(chosen: Namespace) -> Jobs:
    """Simulations of every likelihood."""
    for seed in range(chosen.simulations):
        for name in chosen.sets:
            yield name, seed, "GPMKL", partial(places, name, seed, N_POINTS, N_DRAWS)


def short() -> list[dict[str, Any]]:
    """Two small ones of two likelihoods."""
    return [places(name, seed, 50, 50) for name in ("poisson", "weibull") for seed in range(2)]


def reported(rows: list[dict[str, Any]], chosen: Namespace) -> tuple[str, dict[str, Any]]:
    """The table, and what is asked."""
    numbers: dict[str, Any] = {}
    text = report(rows, numbers)
    return text, {"likelihoods": numbers, "claims": [] if chosen.fast else claims(numbers)}


if __name__ == "__main__":
    with quietly(), np.errstate(all="ignore"):
        counts = {"simulations": N_SIMULATIONS}
        run_study(
            __doc__, "outcome_sbc", jobs=cells, report=reported, short=short, sets=list(MODELS), **counts
        )
