"""Exact posteriors of small problems, and every inference of the package that gives shares beside them.

A reference is made by chains over the hyperparameters, corrected to the exact evidence and with exact scores; see
`_pseudo_marginal.py`. What it must be: ten chains from dispersed starts, R-hat below 1.01 and more than 1000
effective draws of every share, no divergences. `results/reference_posteriors/` holds a file for each problem with
quantiles and moments of every share and of the standard deviations of score and noise, draws of the shares, the
evidence, and how the chains went.

Scored is the 94 % interval of every share: how much of the reference it holds (asked: 86 to 99 % in every problem, on
average over its shares), its width beside that of the reference (at most 1.25 times), and how far the mean is off, in
standard deviations of the reference. Priors and likelihood are those of the reference, but for the rows that say
otherwise: "VB, defaults" has BEMKL's own defaults of margin, intermediate scale and unknown precisions. Chains are
scored on four small problems, and nothing is scored against a reference that is not what it must be.

    python benchmarks/reference_posteriors.py --make           references that there are not yet
    python benchmarks/reference_posteriors.py --make NAME...   some of them anew
    python benchmarks/reference_posteriors.py --brute          NUTS with explicit function values on two of them
    python benchmarks/reference_posteriors.py                  scores, 5 minutes on one core; continues where
                                                               results/reference_posteriors/scores.jsonl ends
    python benchmarks/reference_posteriors.py --fast           a short reference, and scores of two problems
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from _cells import append, read
from _machine import measure
from _posteriors import flat_draws, quietly
from _reference_sets import PROBLEMS, Problem, build, estimator
from _references import (
    FOLDER,
    LARGEST_RHAT,
    LEVELS,
    TAIL,
    add_brute_force,
    fingerprint,
    held_mass,
    is_good,
    load,
    make,
    make_good,
    save,
)
from _report import claim, finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, BEMKLRegressor
from bayesmkl.bemkl import NUTS
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.gp import Marginal
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import refine_posterior

SCORES = FOLDER / "scores.jsonl"  # a run continues where it ends
LEAST, MOST, WIDEST = 86.0, 99.0, 1.25
WITH_CHAINS = ("a_views_50", "a_wdbc_60", "a_smooth_50", "w_views_50")  # which take minutes
BRUTE = ("a_views_50", "w_views_50")
FAST = ("a_views_50", "w_views_50")

KNOWN = "References; with an R-hat of 1.01 and more, or an ESS of 1000 and less, it is none and not scored:"

INFERENCES: dict[str, dict[str, Any]] = {
    "additive": {
        "GPMKL": Marginal(),
        "GPMKL, nuts": Marginal(sampler="nuts"),
        "GPMKL, laplace": Marginal(approximation="laplace"),
    },
    "weighted": {
        "BEMKL, VB": "vb",
        "BEMKL, VB, refined": "refined",
        "BEMKL, VB, defaults": None,
        "BEMKL, NUTS": NUTS(n_chains=4, n_warmup=300, n_draws=300),
    },
}


def score(problem: Problem, reference: dict[str, Any], name: str, inference: Any) -> dict[str, Any]:
    """Fit a model to a problem and compare its shares with the reference."""
    start = time.process_time()
    X = np.moveaxis(problem.kernels, 0, -1)
    if inference is None:
        kind = BEMKLRegressor if problem.is_regression else BEMKLClassifier
        model = kind("precomputed").fit(X, problem.target)
    elif inference == "refined":
        model = refine_posterior(estimator(problem, "vb").fit(X, problem.target), kernels=X, random_state=0)
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


def scored_before(references: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the scores that were kept, of the problems that there are references of."""
    latest = {(row["problem"], row["inference"]): row for row in read(SCORES)}
    good = {name for name, reference in references.items() if is_good(reference)}
    return [row for row in latest.values() if row["problem"] in good]


def brute_table(references: dict[str, dict[str, Any]]) -> str:
    """One row per reference that NUTS with explicit function values was run on."""
    body = []
    for name, own in references.items():
        if "brute_force" not in own:
            continue
        found = own["brute_force"]
        share, total = found["share"], found["total_sd"]
        body.append(
            f"`{name}` | {max(map(abs, share['difference_in_errors'])):.1f} | "
            f"{min(share['held']):.0f} to {max(share['held']):.0f} | "
            f"{own['quantities']['total_sd']['mean'][0]:.2f}, {total['mean'][0]:.2f} | "
            f"{abs(total['difference_in_errors'][0]):.1f} | {max(share['rhat'] + total['rhat']):.3f} | "
            f"{found['divergences']}"
        )
    headers = [
        "NUTS with explicit functions on",
        "shares, errors apart",
        "intervals hold %",
        "sd of the score",
    ]
    return markdown_table([*headers, "errors apart", "R-hat of NUTS", "its divergences"], body)


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
    headers = "problem, inference | held % (all shares) | width (most) | error (most) | says it converged"
    return markdown_table(headers, body)


def summary_table(rows: list[dict[str, Any]]) -> str:
    """One row per inference."""
    body = []
    for name in dict.fromkeys(row["inference"] for row in rows):
        found = [row for row in rows if row["inference"] == name]
        held, width, error = (np.array([row[key] for row in found]) for key in ("held", "width", "error"))
        good = (held >= LEAST) & (held <= MOST)
        body.append(
            f"{name} | {len(found)} | {good.sum()} of {len(found)} | "
            f"{np.median(held):.1f} ({held.min():.0f} to {held.max():.0f}) | "
            f"{np.median(width):.2f} ({width.min():.2f} to {width.max():.2f}) | "
            f"{np.median(error):.2f} (≤ {error.max():.2f}) | {sum(not row['converged'] for row in found)}"
        )
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
        body.append(
            f"`{name}`: {own['data']}, prior {own['kernel_prior']} | {own['n_samples']} | "
            f"{own['n_kernels']} | {max(share['rhat']):.3f} | {min(share['ess']):.0f} | "
            f"{own['divergences']} | {own['log_weights_variance']:.3f} | {own['log_weights_k']:.2f} | "
            f"{own['log_evidence']:.2f} ± {own['log_evidence_error']:.2f}"
        )
    headers = "reference | N | P | R-hat | ESS | divergences | var log W | k-hat of W | log evidence"
    return markdown_table(headers, body)


def claims_of(rows: list[dict[str, Any]], references: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is asked beside what was found."""
    good = [own for own in references.values() if is_good(own)]
    shares = [own["quantities"]["share"] for own in good]
    brutes = [own["brute_force"] for own in references.values() if "brute_force" in own]
    off = [
        abs(value)
        for one in brutes
        for key in ("share", "total_sd")
        for value in one[key]["difference_in_errors"]
    ]
    found = [
        claim(f"references, of {len(references)} that were tried", 20, len(good), at_least=True),
        claim(
            "references: R-hat of a share", LARGEST_RHAT, round(max(max(own["rhat"]) for own in shares), 4)
        ),
        claim(
            "references: effective draws of a share",
            1000,
            round(min(min(own["ess"]) for own in shares)),
            at_least=True,
        ),
        claim("references: divergences", 0, sum(own["divergences"] for own in good)),
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
    arguments.add_argument(
        "--make", nargs="*", metavar="NAME", help="make these references, or those missing"
    )
    arguments.add_argument(
        "--brute",
        nargs="*",
        metavar="NAME",
        help=f"compare with NUTS on explicit functions ({', '.join(BRUTE)})",
    )
    arguments.add_argument("--only", nargs="+", metavar="NAME", help="score these problems")
    options = arguments.parse_args()
    print(measure(options.fast).report() + "\n")
    with threadpool_limits(1), quietly():
        if options.make is not None:
            for name in options.make or [name for name in PROBLEMS if not (FOLDER / f"{name}.json").exists()]:
                found = make_good(build(name))
                save(found)
                print(reference_table({name: found}) + f"\n{found['processor_seconds']:.0f} s", flush=True)
            return
        if options.brute is not None:
            for name in options.brute or BRUTE:
                print(name, add_brute_force(build(name), n_draws=1500, seed=6), flush=True)
            return
        wanted = options.only or [name for name in PROBLEMS if (FOLDER / f"{name}.json").exists()]
        references = {name: load(name) for name in wanted}
        if options.fast:
            short = make(build(FAST[0]), 20, 20, 32, 0.8)
            print(reference_table({f"{FAST[0]}, short": short}) + "\n")
            references = {name: references[name] for name in FAST}
        rows = [] if options.fast else scored_before(references)
        known = {(row["problem"], row["inference"]) for row in rows}
        for name, reference in references.items():
            if not is_good(reference):
                continue
            problem = build(name)
            if not np.allclose(fingerprint(problem), reference["fingerprint"], rtol=1e-6):
                raise SystemExit(f"{name}: not the problem of the reference; make that anew (--make {name}).")
            for label, inference in INFERENCES[problem.process].items():
                is_chain = "nuts" in label.lower()
                skipped = is_chain and (options.fast or name not in WITH_CHAINS)
                exact = problem.is_regression and "laplace" in label  # the same as without
                if skipped or exact or (name, label) in known:
                    continue
                if options.fast and isinstance(inference, Marginal):
                    inference = replace(inference, n_points=100, n_draws=200)
                rows.append(score(problem, reference, label, inference))
                print(score_table(rows[-1:], references).splitlines()[-1], flush=True)
                if not options.fast:
                    append(SCORES, rows[-1])
    order = [(name, label) for name in references for label in INFERENCES[references[name]["process"]]]
    rows.sort(key=lambda row: order.index((row["problem"], row["inference"])))
    text = (
        f"{summary_table(rows)}\n\nEvery problem, mean over its shares and in parentheses the worst:\n\n"
        f"{score_table(rows, references)}\n\n{KNOWN}\n\n{reference_table(references)}\n\n"
        f"Means of references (first) against NUTS, apart in standard errors of both:\n\n{brute_table(references)}"
    )
    finish(options, "reference_posteriors", text, {"rows": rows, "claims": claims_of(rows, references)})


if __name__ == "__main__":
    main()
