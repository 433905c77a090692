"""Exact posteriors of 28 problems, and every inference of the package that gives shares beside them.

A reference is made by chains over the hyperparameters, corrected to the exact evidence and with exact scores; see
`_pseudo_marginal.py`. What it must be: ten chains from dispersed starts, R-hat below 1.01 and more than 1000
effective draws of every share, no divergences. `results/reference_posteriors/` holds a file for each problem with
quantiles and moments of every share and of the standard deviations of score and noise, draws of the shares, the
evidence, and how the chains went.

Scored is the 94 % interval of every share: how much of the reference it holds (asked: 86 to 99 % in every problem, on
average over its shares), its width beside that of the reference (at most 1.25 times), and how far the mean is off, in
standard deviations of the reference. Priors and likelihood are those of the reference, but for the rows that say
otherwise: "VB, defaults" has BEMKL's margin 1, intermediate outputs of scale 1 and unknown precisions.

    python benchmarks/reference_posteriors.py --make           all references, 20 minutes on one core
    python benchmarks/reference_posteriors.py --make NAME...   some of them
    python benchmarks/reference_posteriors.py --brute          NUTS with explicit function values on three of them
    python benchmarks/reference_posteriors.py                  scores, 10 minutes on one core
    python benchmarks/reference_posteriors.py --fast           a short reference, and scores of two problems
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from _machine import measure
from _posteriors import LEVEL, flat_draws, quietly
from _pseudo_marginal import agreement, correct, log_evidence, resampled, run_chains
from _reference_sets import PROBLEMS, Problem, build, estimator
from _report import RESULTS, claim, finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, BEMKLRegressor
from bayesmkl._numerics.psis import smooth_weights
from bayesmkl.bemkl import NUTS
from bayesmkl.bemkl.reading.shares import share_draws
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal import Marginal

FOLDER = RESULTS / "reference_posteriors"
PERCENT = [0.1, 0.5, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50]
LEVELS = np.array(PERCENT + [100.0 - percent for percent in PERCENT[-2::-1]]) / 100.0
TAIL = (1.0 - LEVEL) / 2.0
N_CHAINS, N_WARMUP = 10, 40
N_SCORES = 256  # at each draw of hyperparameters
ENTRIES = 3000  # kept draws times kernels
UNITS = 1e4  # in which kept draws are whole numbers
LARGEST_RHAT, LEAST_ESS = 1.01, 1000
LEAST, MOST, WIDEST = 86.0, 99.0, 1.25
BRUTE = ("a_views_50", "a_wdbc_60", "w_views_50")
FAST = ("a_views_50", "w_views_50")

INFERENCES: dict[str, dict[str, Any]] = {
    "additive": {
        "GPMKL": Marginal(),
        "GPMKL, nuts": Marginal(sampler="nuts"),
        "GPMKL, laplace": Marginal(approximation="laplace"),
    },
    "weighted": {
        "BEMKL, VB": "vb",
        "BEMKL, VB, defaults": None,
        "BEMKL, NUTS": NUTS(n_chains=4, n_warmup=400, n_draws=400),
    },
}


# ------------------------------------------------------------------------------------------------ references


def n_draws_of(n_samples: int) -> int:
    """Return how many draws a chain has at first."""
    return 400 if n_samples <= 100 else 200 if n_samples <= 200 else 150


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


def save(found: dict[str, Any], path: Path) -> None:
    """Write a reference, one line for each entry and rows of numbers in one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(found) + "\n", encoding="utf-8")


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


# ---------------------------------------------------------------------------------------------- brute force


def brute(problem: Problem, reference: dict[str, Any], n_draws: int, seed: int) -> dict[str, Any]:
    """Compare a reference with NUTS on the program that has a site for every function value."""
    import jax
    from arviz_stats.base import array_stats
    from numpyro.infer import MCMC
    from numpyro.infer import NUTS as NoUTurn

    from bayesmkl._utils.numpyro_session import numpyro_session
    from bayesmkl.marginal.numpyro_program import explicit_program

    with numpyro_session():
        kernel = NoUTurn(explicit_program(problem.model), target_accept_prob=0.9)
        sampler = MCMC(
            kernel,
            num_warmup=500,
            num_samples=n_draws,
            num_chains=4,
            chain_method="sequential",
            progress_bar=False,
        )
        sampler.run(jax.random.key(seed), extra_fields=("diverging",))
        draws = {name: np.asarray(value) for name, value in sampler.get_samples(group_by_chain=True).items()}
        divergences = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    values = {
        "share": explicit_shares(problem, draws),
        "total_sd": draws["score"][:, :, 0].std(axis=-1)[..., None],
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
    weights, model = draws["kernel_weights"], problem.model
    flat = weights.reshape(-1, weights.shape[-1])
    if problem.process == "weighted":
        dual = draws["dual"].reshape(len(flat), -1)
        return share_draws(DenseStack(problem.kernels), dual, flat).reshape(weights.shape)
    roots = [
        np.linalg.cholesky(kernel + 1e-10 * np.trace(kernel) / len(kernel) * np.eye(len(kernel)))
        / math.sqrt(unit)
        for kernel, unit in zip(problem.kernels, model.covariance.units, strict=True)
    ]
    functions = draws["functions"].reshape(len(flat), len(roots), -1)
    parts = np.einsum("dm,mij,dmj->dmi", flat, roots, functions)
    around = parts - parts.mean(axis=-1, keepdims=True)
    products = np.einsum("dmi,di->dm", around, around.sum(axis=1))
    return (products / products.sum(axis=1, keepdims=True)).reshape(weights.shape)


# -------------------------------------------------------------------------------------------------- scoring


def held_mass(quantiles: np.ndarray, ends: np.ndarray) -> float:
    """Return how much of a reference an interval holds, in percent."""
    below, above = np.interp(ends, quantiles, LEVELS, left=0.0, right=1.0)
    return 100.0 * float(above - below)


def score(problem: Problem, reference: dict[str, Any], name: str, inference: Any) -> dict[str, Any]:
    """Fit a model to a problem and compare its shares with the reference."""
    start = time.process_time()
    X = np.moveaxis(problem.kernels, 0, -1)
    if inference is None:
        kind = BEMKLRegressor if problem.is_regression else BEMKLClassifier
        model = kind("precomputed").fit(X, problem.target)
    else:
        model = estimator(problem, inference).fit(X, problem.target)
    seconds = time.process_time() - start
    own = reference["quantities"]["share"]
    shares = shares_of(problem, model)
    quantiles = np.array(own["quantiles"])
    true = np.array([np.interp([TAIL, 1.0 - TAIL], LEVELS, row) for row in quantiles])
    ends = np.quantile(shares, [TAIL, 1.0 - TAIL], axis=0).T
    held = [held_mass(*pair) for pair in zip(quantiles, ends, strict=True)]
    width = np.diff(ends)[:, 0] / np.diff(true)[:, 0]
    error = np.abs(shares.mean(axis=0) - own["mean"]) / own["sd"]
    row = {
        "problem": problem.name,
        "inference": name,
        "held": float(np.mean(held)),
        "held_least": float(np.min(held)),
        "held_most": float(np.max(held)),
        "width": float(np.mean(width)),
        "width_most": float(np.max(width)),
        "error": float(np.mean(error)),
        "error_most": float(np.max(error)),
        "converged": bool(model.converged_),
        "seconds": seconds,
    }
    if problem.process == "additive" and np.isfinite(model.log_evidence_):
        row["log_evidence_off"] = float(model.log_evidence_ - reference["log_evidence"])
    return row


def shares_of(problem: Problem, model: Any) -> np.ndarray:
    """Return draws of the shares of a fitted model, (n_draws, n_kernels)."""
    if problem.process == "additive":
        return model.posterior_.shares
    draws = flat_draws(model.posterior_)
    return share_draws(DenseStack(problem.kernels), draws.dual, draws.kernel_weights)


def score_table(rows: list[dict[str, Any]], references: dict[str, dict[str, Any]]) -> str:
    """One row per problem and inference."""
    body = []
    for row in rows:
        own = references[row["problem"]]
        body.append([
            f"`{row['problem']}` ({own['n_samples']} x {own['n_kernels']}), {row['inference']}",
            f"{row['held']:.0f} ({row['held_least']:.0f} to {row['held_most']:.0f})",
            f"{row['width']:.2f} ({row['width_most']:.2f})",
            f"{row['error']:.2f} ({row['error_most']:.2f})",
            "yes" if row["converged"] else "no",
        ])  # fmt: skip
    headers = [
        "problem, inference",
        "held % (all shares)",
        "width (most)",
        "error (most)",
        "says it converged",
    ]
    return markdown_table(headers, body)


def summary_table(rows: list[dict[str, Any]]) -> str:
    """One row per inference."""
    body = []
    for name in dict.fromkeys(row["inference"] for row in rows):
        found = [row for row in rows if row["inference"] == name]
        held, width, error = (np.array([row[key] for row in found]) for key in ("held", "width", "error"))
        good = (held >= LEAST) & (held <= MOST)
        body.append([
            name,
            len(found),
            f"{good.sum()} of {len(found)}",
            f"{np.median(held):.1f} ({held.min():.0f} to {held.max():.0f})",
            f"{np.median(width):.2f} ({width.min():.2f} to {width.max():.2f})",
            f"{np.median(error):.2f} (≤ {error.max():.2f})",
            sum(not row["converged"] for row in found),
        ])  # fmt: skip
    headers = [
        "inference",
        "problems",
        f"held {LEAST:.0f} to {MOST:.0f} %",
        "held %, median",
        "width, median",
    ]
    return markdown_table([*headers, "error, median", "not converged"], body)


def reference_table(references: dict[str, dict[str, Any]]) -> str:
    """One row per reference."""
    body = []
    for name, own in references.items():
        share = own["quantities"]["share"]
        body.append([
            f"`{name}`: {own['data']}, prior {own['kernel_prior']}",
            own["n_samples"],
            own["n_kernels"],
            f"{max(share['rhat']):.3f}",
            f"{min(share['ess']):.0f}",
            own["divergences"],
            f"{own['log_weights_variance']:.3f}",
            f"{own['log_weights_k']:.2f}",
            f"{own['log_evidence']:.2f} ± {own['log_evidence_error']:.2f}",
        ])  # fmt: skip
    headers = [
        "reference",
        "N",
        "P",
        "R-hat",
        "ESS",
        "divergences",
        "var log W",
        "k-hat of W",
        "log evidence",
    ]
    return markdown_table(headers, body)


def claims_of(rows: list[dict[str, Any]], references: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is asked beside what was found."""
    shares = [own["quantities"]["share"] for own in references.values()]
    brutes = [own["brute_force"] for own in references.values() if "brute_force" in own]
    off = [
        abs(value)
        for one in brutes
        for key in ("share", "total_sd")
        for value in one[key]["difference_in_errors"]
    ]
    found = [
        claim("references", 20, len(references), at_least=True),
        claim(
            "references: R-hat of a share", LARGEST_RHAT, round(max(max(own["rhat"]) for own in shares), 4)
        ),
        claim(
            "references: effective draws of a share",
            1000,
            round(min(min(own["ess"]) for own in shares)),
            at_least=True,
        ),
        claim("references: divergences", 0, sum(own["divergences"] for own in references.values())),
        claim(
            f"references against NUTS with explicit functions, {len(off)} means: standard errors apart",
            3.5,
            round(max(off), 2) if off else None,
        ),
    ]
    for name in dict.fromkeys(row["inference"] for row in rows):
        held, width = (
            np.array([r[key] for r in rows if r["inference"] == name]) for key in ("held", "width")
        )
        found += [
            claim(
                f"{name}: least of the reference that intervals hold",
                LEAST,
                float(held.min()),
                " %",
                at_least=True,
            ),
            claim(f"{name}: most of it", MOST, float(held.max()), " %"),
            claim(f"{name}: width of intervals beside the reference's", WIDEST, float(width.max())),
        ]
    return found


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--make", nargs="*", metavar="NAME", help="make these references, or all")
    arguments.add_argument(
        "--brute",
        nargs="*",
        metavar="NAME",
        help=f"compare with NUTS on explicit functions ({', '.join(BRUTE)})",
    )
    options = arguments.parse_args()
    print(measure(options.fast).report() + "\n")
    with threadpool_limits(1), quietly():
        if options.make is not None:
            for name in options.make or PROBLEMS:
                problem = build(name)
                found = make_good(problem)
                save(found, FOLDER / f"{name}.json")
                print(reference_table({name: found}) + f"\n{found['processor_seconds']:.0f} s", flush=True)
            return
        if options.brute is not None:
            for name in options.brute or BRUTE:
                found = load(name)
                found["brute_force"] = brute(build(name), found, 1500, seed=6)
                save(arrays(found), FOLDER / f"{name}.json")
                print(name, found["brute_force"], flush=True)
            return
        references = {name: load(name) for name in PROBLEMS if (FOLDER / f"{name}.json").exists()}
        if options.fast:
            short = make(build(FAST[0]), 20, 20, 32, 0.8)
            print(reference_table({f"{FAST[0]}, short": short}) + "\n")
            references = {name: references[name] for name in FAST}
        rows = []
        for name, reference in references.items():
            problem = build(name)
            if not np.allclose(fingerprint(problem), reference["fingerprint"], rtol=1e-6):
                raise SystemExit(
                    f"{name}: the problem is not the one of the reference; make that anew (--make {name})."
                )
            for label, inference in INFERENCES[problem.process].items():
                if options.fast and "uts" in label.lower():
                    continue
                rows.append(score(problem, reference, label, inference))
                print(score_table(rows[-1:], references).splitlines()[-1], flush=True)
    text = (
        f"{summary_table(rows)}\n\nEvery problem, mean over its shares and in parentheses the worst:\n\n"
        f"{score_table(rows, references)}\n\nReferences:\n\n{reference_table(references)}"
    )
    finish(options, "reference_posteriors", text, {"rows": rows, "claims": claims_of(rows, references)})


def arrays(value: Any) -> Any:
    """Return what was read from a file as it was written: lists of numbers as arrays."""
    if isinstance(value, dict):
        return {key: one if key in ("fingerprint", "kernels") else arrays(one) for key, one in value.items()}
    return np.array(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
