"""Mixing of chains: R-hat, effective sample sizes, divergences."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl.bemkl.runs import DIVERGENT, ESS, RHAT
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.report import Section, table, worst

BAD_RHAT, BAD_ESS, BAD_DIVERGENT = 1.05, 100.0, 0.05
LOW_BFMI = 0.3
IDENTIFIED = ("kernel shares", "training scores m/s", "class probabilities")
RAW = "raw weights (b, e)"
WHY_RAW = (
    "Raw weights are known up to a sign, which the draws have aligned, and, weakly, a scale (c a, e / c) with heavy "
    "tails: they may mix worse than what they make together, and nothing that you read depends on it."
)


def sampling_section(
    names: list[str], models: list[Evaluated], stats: list[dict[str, np.ndarray]]
) -> Section:
    """Judge the chains by the quantities that the model identifies.

    Parameters
    ----------
    names : list of str
        Of the models.
    models : list of Evaluated
    stats : list of dict
        What the sampler says of each draw.
    """
    values, rows, verdicts = {}, [], []
    for name, model, own in zip(names, models, stats, strict=True):
        found = {what: convergence(draws) for what, draws in _quantities(model).items()}
        values[name] = found | _trajectories(own)
        verdicts.append(_verdict(found, values[name], model.draws.n_chains))
        prefix = f"{name}: " if len(names) > 1 else ""
        rows += [
            [prefix + what, c["n"], f"{c['rhat']:.3f}", c["ess_bulk"], c["ess_tail"]]
            for what, c in found.items()
        ]
    draws = models[0].draws
    n_taken = stats[0]["diverging"].shape[1] if "diverging" in stats[0] else draws.n_draws
    thinned = "" if n_taken == draws.n_draws else f" (thinned from {n_taken})"
    lines = [f"{draws.n_chains} chain(s) of {draws.n_draws} draws{thinned}; the worst of each kind:"]
    lines += table(["", "number", "R-hat", "bulk ESS", "tail ESS"], rows)
    lines += _trajectory_lines(names, values)
    verdict = worst(verdicts)
    single = values if len(names) > 1 else values[names[0]]
    return Section("sampling", "Sampling", single, lines, verdict, _advice(verdict, draws.n_chains))


def convergence(draws: np.ndarray) -> dict[str, float]:
    """Return the largest R-hat and the smallest bulk and tail ESS of several quantities.

    Parameters
    ----------
    draws : array of shape (n_chains, n_draws, n)
        Quantities that do not move at all, such as the share of a single kernel, are left out.

    Returns
    -------
    dict
        ``n`` quantities; ``rhat`` (rank normalized, split; NaN for a single chain), ``ess_bulk``, ``ess_tail`` (of
        the 5 % and 95 % quantiles).

    References
    ----------
    Vehtari, A. et al. (2021). Rank-normalization, folding, and localization: an improved R-hat for assessing
    convergence of MCMC. Bayesian Analysis 16.
    """
    from arviz_stats.base import array_stats

    moving = np.moveaxis(draws[..., draws.std(axis=(0, 1)) > 1e-12], -1, 0)
    if len(moving) == 0:
        return {"n": 0, "rhat": np.nan, "ess_bulk": np.nan, "ess_tail": np.nan}
    several = draws.shape[0] > 1
    return {
        "n": len(moving),
        "rhat": float(array_stats.rhat(moving).max()) if several else np.nan,
        "ess_bulk": float(array_stats.ess(moving).min()),
        "ess_tail": float(array_stats.ess(moving, method="tail", prob=(0.05, 0.95)).min()),
    }


def _quantities(model: Evaluated) -> dict[str, np.ndarray]:
    flat, outputs = model.flat, model.outputs
    quantities = {
        "kernel shares": model.shares,
        "training scores m/s": np.hstack([output.standard_means for output in outputs]),
    }
    if not model.is_regression:
        quantities["class probabilities"] = np.hstack([output.label_probabilities for output in outputs])
    quantities[RAW] = np.column_stack([flat.intercept, flat.kernel_weights])
    return {what: model.in_chains(values) for what, values in quantities.items()}


def _trajectories(stats: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the statistics of the trajectories of NUTS; nothing for Gibbs."""
    from arviz_stats.base import array_stats

    found: dict[str, Any] = {}
    if "diverging" in stats:
        found["n_divergent"] = int(stats["diverging"].sum())
        found["divergent"] = float(stats["diverging"].mean())
    if "energy" in stats:
        found["bfmi"] = float(np.min(array_stats.bfmi(stats["energy"])))
    if "n_steps" in stats:
        found["mean_steps"] = float(stats["n_steps"].mean())
    return found


def _verdict(found: dict[str, dict[str, float]], trajectories: dict[str, Any], n_chains: int) -> str:
    identified = [found[what] for what in IDENTIFIED if what in found and found[what]["n"]]
    rhat = max(c["rhat"] for c in identified)
    ess = min(min(c["ess_bulk"], c["ess_tail"]) for c in identified)
    divergent, bfmi = trajectories.get("divergent", 0.0), trajectories.get("bfmi", 1.0)
    if rhat > BAD_RHAT or not ess >= BAD_ESS or divergent > BAD_DIVERGENT:
        return "bad"
    if n_chains == 1 or not rhat <= RHAT or ess < ESS or divergent > DIVERGENT or bfmi < LOW_BFMI:
        return "caution"
    return "good"


def _trajectory_lines(names: list[str], values: dict[str, dict[str, Any]]) -> list[str]:
    lines = []
    for name in names:
        own = values[name]
        if "divergent" in own:
            prefix = f"{name}: " if len(names) > 1 else ""
            lines.append(
                f"{prefix}{own['n_divergent']} divergent draws ({100 * own['divergent']:.2g} %); BFMI "
                f"{own['bfmi']:.2f}; {own['mean_steps']:.0f} leapfrog steps per draw on average."
            )
    return lines


def _advice(verdict: str, n_chains: int) -> str:
    limits = (
        f"Wanted of the first rows: R-hat at most {RHAT}, ESS at least {ESS:.0f}, divergences at most "
        f"{100 * DIVERGENT:.1g} %."
    )
    alone = " One chain alone has no R-hat: it cannot show that it missed a part." if n_chains == 1 else ""
    divergences = "; against divergences bring its `target_accept` closer to 1"
    say = {
        "good": f"The chains agree, and there are enough effective draws for 94 % intervals. {WHY_RAW}",
        "caution": f"Means are usable, ends of intervals are rough.{alone} {limits} Increase `n_draws` of "
        f"`inference`{divergences}. {WHY_RAW}",
        "bad": f"Do not use these draws yet.{alone} {limits} Increase `n_warmup` and `n_draws` of "
        f"`inference`{divergences}. {WHY_RAW}",
    }
    return say[verdict]
