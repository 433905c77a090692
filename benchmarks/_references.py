"""References: exact posteriors of problems as data files, and NUTS with explicit function values beside them."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import numpy as np
from _posteriors import LEVEL
from _pseudo_marginal import agreement, correct, log_evidence, resampled, run_chains
from _reference_sets import Problem
from _report import RESULTS

from bayesmkl._numerics.psis import smooth_weights
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.kernels.stacks.dense import DenseStack

FOLDER = RESULTS / "reference_posteriors"
PERCENT = [0.1, 0.5, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50]
LEVELS = np.array(PERCENT + [100.0 - percent for percent in PERCENT[-2::-1]]) / 100.0
TAIL = (1.0 - LEVEL) / 2.0
N_CHAINS, N_WARMUP = 10, 40
N_SCORES = 256  # weighted draws of labels at each draw of hyperparameters
ENTRIES = 3000  # kept draws times kernels
UNITS = 1e4  # in which kept draws are whole numbers
LARGEST_RHAT, LEAST_ESS = 1.01, 1000


def n_draws_of(n_samples: int) -> int:
    """Return how many draws a chain has at first."""
    return 250 if n_samples <= 100 else 150


def make_good(problem: Problem) -> dict[str, Any]:
    """Make the reference of a problem, and once more with longer chains and shorter steps if it is not good."""
    n_draws = n_draws_of(len(problem.target))
    found = make(problem, N_WARMUP, n_draws, N_SCORES, 0.9 if problem.process == "weighted" else 0.8)
    return found if is_good(found) else make(problem, 2 * N_WARMUP, 2 * n_draws, N_SCORES, 0.95)


def is_good(reference: dict[str, Any]) -> bool:
    """Whether a reference is what it must be."""
    share = reference["quantities"]["share"]
    mixed = max(share["rhat"]) < LARGEST_RHAT and min(share["ess"]) > LEAST_ESS
    return bool(mixed and reference["divergences"] == 0)


def make(problem: Problem, n_warmup: int, n_draws: int, n_scores: int, acceptance: float) -> dict[str, Any]:
    """Make the reference of a problem by chains of given lengths."""
    start, model = time.process_time(), problem.model
    chains = run_chains(model, N_CHAINS, n_warmup, n_draws, acceptance, seed=1)
    exact = correct(model, chains, 1 if problem.is_regression else n_scores, seed=2)
    evidence, error = log_evidence(model, chains, exact.log_weights, n_points=400, seed=3)
    log_weights = exact.log_weights.ravel()
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    summaries = {}
    for name, values in exact.quantities.items():
        flat = values.reshape(len(weights), -1)
        rhat, ess = agreement(exact, name, seed=4)
        mean = weights @ flat
        summaries[name] = {
            "mean": mean,
            "sd": np.sqrt(weights @ (flat - mean) ** 2),
            "quantiles": np.array([weighted_quantiles(column, weights) for column in flat.T]),
            "rhat": rhat,
            "ess": ess,
        }
    shares = exact.quantities["share"].reshape(len(weights), -1)
    kept = resampled(log_weights, min(300, ENTRIES // shares.shape[1]), np.random.default_rng(5))
    return {
        "name": problem.name,
        "data": problem.data,
        "process": problem.process,
        "kernel_prior": problem.kernel_prior,
        "likelihood": "normal noise" if problem.is_regression else "probit",
        "n_samples": len(problem.target),
        "n_kernels": len(problem.kernels),
        "kernels": problem.kernel_names,
        "fingerprint": fingerprint(problem),
        "n_chains": N_CHAINS,
        "n_warmup": n_warmup,
        "n_draws": n_draws,
        "n_scores": 1 if problem.is_regression else n_scores,
        "n_evaluations": chains.n_evaluations,
        "processor_seconds": time.process_time() - start,
        "divergences": chains.n_divergent,
        "accepted": chains.accepted,
        "log_weights_variance": float(log_weights.var()),
        "log_weights_k": float(smooth_weights(log_weights)[1]),
        "effective_part": float(1.0 / (weights**2).sum() / len(weights)),
        "scores_relative_variance": exact.spread,
        "scores_k": float(np.median(exact.inner_k)),
        "scores_k_above_0.7": float(np.mean(exact.inner_k > 0.7)),
        "residual_of_parts": exact.residual,
        "log_evidence": evidence,
        "log_evidence_error": error,
        "levels": LEVELS,
        "quantities": summaries,
        "share_draws": np.round(UNITS * shares[kept]).astype(int),
    }


def weighted_quantiles(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the quantiles of weighted draws at `LEVELS`."""
    order = np.argsort(values)
    at = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.interp(LEVELS, at, values[order])


def fingerprint(problem: Problem) -> list[float]:
    """Return two numbers that tell whether kernels and targets are still the same."""
    alternating = np.cos(np.arange(len(problem.target)))
    forms = problem.kernels @ alternating @ alternating
    return [float(np.sum(forms)), float(problem.target @ alternating)]


def save(found: dict[str, Any]) -> None:
    """Write a reference, one line for each entry and rows of numbers in one line each."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{found['name']}.json").write_text(_text(found) + "\n", encoding="utf-8")


def _text(value: Any, indent: str = "") -> str:
    if isinstance(value, dict):
        inner = indent + " "
        rows = [f"{inner}{json.dumps(key)}: {_text(one, inner)}" for key, one in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return "[\n" + ",\n".join(f"{indent} {_text(row)}" for row in value) + f"\n{indent}]"
    if isinstance(value, np.ndarray):
        return "[" + ",".join(_text(one) for one in value.tolist()) + "]"
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else "null"
    if isinstance(value, list):
        return "[" + ", ".join(_exactly(one) for one in value) + "]"
    return json.dumps(value)


def _exactly(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else json.dumps(value)


def load(name: str) -> dict[str, Any]:
    """Read the reference of a problem."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def add_brute_force(problem: Problem, n_draws: int, seed: int) -> dict[str, Any]:
    """Compare the reference of a problem with NUTS, keep what was found in its file, and return it."""
    reference = load(problem.name)
    reference["brute_force"] = brute(problem, reference, n_draws, seed)
    save(arrays(reference))
    return reference["brute_force"]


def brute(problem: Problem, reference: dict[str, Any], n_draws: int, seed: int) -> dict[str, Any]:
    """Compare a reference with NUTS on the program that has a site for every function value."""
    import _weighted
    import jax
    from arviz_stats.base import array_stats
    from numpyro.infer import MCMC
    from numpyro.infer import NUTS as NoUTurn

    from bayesmkl._utils.devices import numpyro_session
    from bayesmkl.gp import program as additive

    with numpyro_session():
        programs = _weighted if problem.process == "weighted" else additive
        program = programs.explicit_program(problem.model)
        kernel = NoUTurn(program.model, target_accept_prob=0.9)
        sampler = MCMC(
            kernel,
            num_warmup=500,
            num_samples=n_draws,
            num_chains=4,
            chain_method="sequential",
            progress_bar=False,
        )
        sampler.run(jax.random.key(seed), extra_fields=("diverging",), **program.data)
        draws = {name: np.asarray(value) for name, value in sampler.get_samples(group_by_chain=True).items()}
        divergences = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    values = {
        "share": explicit_shares(problem, draws),
        "total_sd": draws["score"].reshape(4, n_draws, -1).std(axis=-1)[..., None],
    }
    found: dict[str, Any] = {"n_draws": n_draws, "n_chains": 4, "divergences": divergences}
    for name, chains in values.items():
        by_number = np.moveaxis(chains, -1, 0)
        ess = np.array([float(array_stats.ess(one)) for one in by_number])
        flat = chains.reshape(-1, chains.shape[-1])
        own = reference["quantities"][name]
        error = np.sqrt(flat.var(axis=0) / ess + np.square(own["sd"]) / own["ess"])
        quantiles = np.array(own["quantiles"])
        held = [
            held_mass(quantiles[m], np.quantile(flat[:, m], [TAIL, 1.0 - TAIL]))
            for m in range(len(quantiles))
        ]
        found[name] = {
            "mean": flat.mean(axis=0),
            "sd": flat.std(axis=0),
            "rhat": np.array([float(array_stats.rhat(one)) for one in by_number]),
            "ess": ess,
            "difference_in_errors": (flat.mean(axis=0) - own["mean"]) / error,
            "held": np.array(held),
        }
    return found


def explicit_shares(problem: Problem, draws: dict[str, np.ndarray]) -> np.ndarray:
    """Return the shares of draws with explicit functions, (n_chains, n_draws, n_kernels)."""
    weights = draws["kernel_weights"]
    flat = weights.reshape(-1, weights.shape[-1])
    if problem.process == "weighted":
        dual = draws["dual"].reshape(len(flat), -1)
        return share_draws(DenseStack(problem.kernels), dual, flat).reshape(weights.shape)
    return draws["kernel_shares"]


def held_mass(quantiles: np.ndarray, ends: np.ndarray) -> float:
    """Return how much of a reference an interval holds, in percent."""
    below, above = np.interp(ends, quantiles, LEVELS, left=0.0, right=1.0)
    return 100.0 * float(above - below)


def arrays(value: Any) -> Any:
    """Return what was read from a file as it is written: lists of numbers as arrays."""
    if isinstance(value, dict):
        return {key: one if key in ("fingerprint", "kernels") else arrays(one) for key, one in value.items()}
    return np.array(value) if isinstance(value, list) else value
