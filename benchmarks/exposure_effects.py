"""Contrasts and inclusion probabilities of mixtures of exposures: coverage, time, false lists, credible sets.

Contrasts are of simulations in the manner of `SimData` of the R package bkmr, see `_exposures.py`, with correlated
exposures and a covariate, by GPMKL with its default bank: all exposures at a quartile against their medians, each of
them alone, and pairs of samples. Counted are 94 % intervals that hold the difference of the true response, and bands
of 94 % that hold it along the whole curve.

Inclusion is of 18 exposures, each with a Gaussian kernel, three covariates, and the prior "spike-slab". Null sets
have a response of covariates and noise alone, and exposures with correlation 0, .5 or .9; a list of them is false.
Credible sets are of pairs of exposures with a correlation of .95, three of which have an active one.

    python benchmarks/exposure_effects.py                                20 simulations of each kind
    python benchmarks/exposure_effects.py --simulations 500              seeds 0 to 499
    python benchmarks/exposure_effects.py --fast                         one small one of each
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _exposures import N_EXPOSURES, simulate
from _posteriors import quietly
from _report import begin, claim, finish, markdown_table
from scipy.special import expit
from scipy.stats import beta
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.gp import Design, Marginal
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import contrast, inclusion_table, overall_effect

QUARTILES = (0.25, 0.5, 0.75)
PAIRS = 20  # of samples
N_COLUMNS, N_COVARIATES = 18, 3
CORRELATIONS = (0.0, 0.5, 0.9)
TWINS, ACTIVE, SIZE = 0.95, (0, 4, 8), 0.4  # correlation within pairs, active exposures, their slopes
COVERED = (93.0, 97.0)


def response(Z: np.ndarray) -> np.ndarray:
    """Return the response of bkmr's simulations."""
    return 4.0 * expit((Z[..., 0] + Z[..., 1] + 0.5 * Z[..., 0] * Z[..., 1]) / 1.2)


def contrasts(seed: int, n_samples: int, inference: Any) -> dict[str, Any]:
    """Fit one simulation, and count intervals that hold the truth."""
    X, _, y = simulate(seed, "correlated", n_samples)
    model = GPMKLRegressor(
        KernelBank("auto"), design=Design(covariate_columns=N_EXPOSURES), inference=inference
    )
    model.fit(X, y)
    Z, rng = X[:, :N_EXPOSURES], np.random.default_rng(seed)
    medians = np.median(Z, axis=0)
    ends = np.quantile(Z, QUARTILES, axis=0)
    overall = overall_effect(model, X, QUARTILES, random_state=seed)
    truth = response(ends) - response(medians)
    each = overall_effect(model, X, QUARTILES, by="feature", random_state=seed)
    alone = np.array([np.where(np.arange(N_EXPOSURES) == j, ends, medians) for j in range(N_EXPOSURES)])
    of_each = response(alone) - response(medians)
    a, b = rng.choice(n_samples, (2, PAIRS))
    same = np.column_stack([Z[b], X[a, N_EXPOSURES:]])  # the covariate is that of the other
    pairs = contrast(model, X[a], same)
    moved = [0, 2]

    def held(table: Any, values: np.ndarray, name: str = "") -> np.ndarray:
        low, high = (table[f"{name}{end}"].to_numpy().reshape(values.shape) for end in ("lower", "upper"))
        return (low <= values) & (values <= high)

    inside = {
        "quartiles, all exposures": held(overall, truth)[moved],
        "quartiles, one exposure": held(each, of_each)[:, moved].ravel(),
        "pairs of samples": held(pairs, response(Z[a]) - response(Z[b]))[a != b],
        "bands, one exposure": held(each, of_each, "band_")[:, moved].all(axis=1),
    }
    return {"seed": seed, "n_samples": n_samples} | {name: own.mean() for name, own in inside.items()}


def exposures(rng: np.random.Generator, n_samples: int, correlation: float) -> np.ndarray:
    """Return exposures with the same correlation between any two."""
    shared = np.sqrt(correlation) * rng.standard_normal((n_samples, 1))
    return shared + np.sqrt(1.0 - correlation) * rng.standard_normal((n_samples, N_COLUMNS))


def selected(Z: np.ndarray, response: np.ndarray, rng: np.random.Generator, inference: Any) -> dict[str, Any]:
    """Fit the response with covariates and noise; return the table and CPU seconds."""
    covariates = rng.standard_normal((len(Z), N_COVARIATES))
    y = response + covariates @ [0.5, -0.3, 0.2] + rng.standard_normal(len(Z))
    design = Design(covariate_columns=list(range(N_COLUMNS, N_COLUMNS + N_COVARIATES)))
    bank = KernelBank([Gaussian(relative_width=1)], views="each")
    model = GPMKLRegressor(
        bank, kernel_prior="spike-slab", together=False, design=design, inference=inference
    )
    start = time.process_time()
    table = inclusion_table(model.fit(np.column_stack([Z, covariates]), y))
    return {
        "table": table,
        "seconds": time.process_time() - start,
        "n_sweeps": model.posterior_.included.shape[1],
    }


def null_set(seed: int, n_samples: int, correlation: float, inference: Any) -> dict[str, Any]:
    """Return whether there is a list of nothing, and a credible set."""
    rng = np.random.default_rng([57, seed])
    Z = exposures(rng, n_samples, correlation)
    found = selected(Z, np.zeros(n_samples), rng, inference)
    table = found["table"]
    return {
        "seed": seed, "n_samples": n_samples, "correlation": correlation, "seconds": round(found["seconds"], 2),
        "listed": bool(table["selected"].any()), "sets": int(table["credible_set"].max() or 0)
        if table["credible_set"].notna().any() else 0, "mcse": round(float(table["prob_mcse"].max()), 4),
    }  # fmt: skip


def twins(seed: int, n_samples: int, inference: Any) -> dict[str, Any]:
    """Return how many credible sets there are, how many of them have an active exposure, and their sizes."""
    rng = np.random.default_rng([58, seed])
    first = rng.standard_normal((n_samples, N_COLUMNS // 2))
    other = TWINS * first + np.sqrt(1.0 - TWINS**2) * rng.standard_normal(first.shape)
    Z = np.stack([first, other], axis=2).reshape(n_samples, N_COLUMNS)
    table = selected(Z, SIZE * Z[:, ACTIVE].sum(axis=1), rng, inference)["table"]
    active = {f"x{j}" for j in ACTIVE}
    sets = [set(own["view"]) for _, own in table[table["credible_set"].notna()].groupby("credible_set")]
    listed = set(table["view"][table["selected"]])
    return {
        "seed": seed, "n_samples": n_samples, "sets": len(sets), "right": sum(bool(own & active) for own in sets),
        "sizes": [len(own) for own in sets], "winners": len(listed), "wrong": len(listed - active),
    }  # fmt: skip


def exact_interval(k: int, n: int) -> str:
    """Return the exact 95 % interval of a frequency in percent."""
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return f"{100 * low:.1f} to {100 * high:.1f}"


def main() -> None:
    options = begin(__doc__, simulations=20, first=0)
    seeds = range(options.first, options.first + (1 if options.fast else options.simulations))
    inference: Any = Marginal(n_points=100, n_draws=100, n_warmup=20) if options.fast else "marginal"
    sizes = (30,) if options.fast else (100, 300)
    with threadpool_limits(1), quietly():
        of_contrasts = [contrasts(seed, n, inference) for n in sizes for seed in seeds]
        print(f"contrasts: {time.process_time():.0f} s of CPU", flush=True)
        large = exposures(np.random.default_rng(0), 60 if options.fast else 1003, 0.5)
        timed = selected(
            large, 0.25 * large[:, 0] + 0.3 * np.sin(large[:, 4]), np.random.default_rng(1), inference
        )
        print(f"1003 x 18: {timed['seconds']:.0f} s of CPU", flush=True)
        # one design of the six for each seed, in turn
        designs = [(n, r) for n in sizes for r in CORRELATIONS]
        nulls = [null_set(seed, *designs[seed % len(designs)], inference) for seed in seeds]
        of_twins = [twins(seed, sizes[-1], inference) for seed in seeds]
    names = [name for name in of_contrasts[0] if name not in ("seed", "n_samples")]
    rows = []
    for n in sizes:
        own = [row for row in of_contrasts if row["n_samples"] == n]
        for name in names:
            held = 100.0 * np.array([row[name] for row in own])
            error = held.std(ddof=1) / np.sqrt(len(held)) if len(held) > 1 else np.nan
            rows.append(f"{n} samples, {name} | {held.mean():.1f} ± {error:.1f}")
    false, n_sets = sum(row["listed"] for row in nulls), sum(row["sets"] for row in of_twins)
    right = sum(row["right"] for row in of_twins)
    mcse, seconds = float(timed["table"]["prob_mcse"].max()), timed["seconds"]
    text = "\n\n".join(
        [
            markdown_table(["94 % intervals that hold the truth", "%"], rows),
            f"{len(large)} samples, {N_COLUMNS} exposures, {N_COVARIATES} covariates: {seconds:.0f} s of CPU, "
            f"{timed['n_sweeps']} sweeps a chain, largest Monte Carlo error {mcse:.3f}.",
            f"Null sets: {false} lists of {len(nulls)} not empty (95 % interval {exact_interval(false, len(nulls))} "
            f"%); {sum(row['sets'] for row in nulls)} credible sets.",
            f"Twins: {right} of {n_sets} credible sets have an active exposure (95 % interval "
            f"{exact_interval(right, n_sets)} %); {sum(row['wrong'] for row in of_twins)} of "
            f"{sum(row['winners'] for row in of_twins)} single winners are wrong.",
        ]
    )
    claims = [
        claim("CPU of 1003 x 18", 60.0, seconds, " s"),
        claim("largest Monte Carlo error of an inclusion probability", 0.02, mcse),
        claim("null sets with a list", 5.0, 100.0 * false / len(nulls), " %"),
        claim(
            "credible sets with an active exposure", 95.0, 100.0 * right / max(n_sets, 1), " %", at_least=True
        ),
    ]
    numbers = {"contrasts": of_contrasts, "nulls": nulls, "twins": of_twins, "claims": claims}
    finish(options, "exposure_effects", text, numbers)


if __name__ == "__main__":
    main()
