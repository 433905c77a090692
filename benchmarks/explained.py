"""What tables of views say of noise, and how often their 94 % intervals of explained variance hold the truth.

Eight standard normal features in two, three or four views, 200 samples, GPMKL with all its defaults. Truth is not a
draw from the prior but a fixed function: the first view makes three quarters of the variance of the score, the second
one the rest, x² of its first feature; the others add nothing. "smooth" is x + sin x' of two features of the first
view, "rough" x + sin 2x'. Noise has unit variance, and the score the variance with which views explain .1, .3 or .6:
of numbers, of labels (on the latent scale) and of log times, a third of which are censored. The true part is taken
over the training samples, as in draws, and in the population: the variance of the true function over 200 samples is
not that over all samples. A part of zero is held if the interval begins below .01.

    python benchmarks/explained.py                      60 data sets of each kind, 200 of noise: half an hour
    python benchmarks/explained.py --simulations 200    as many as you like
    python benchmarks/explained.py --fast               two small ones of each kind
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _posteriors import LEVEL, quietly
from _report import begin, finish, markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, GPMKLRegressor
from bayesmkl.gp import GPMKLSurvival, Marginal
from bayesmkl.posterior import view_table

N_FEATURES = 8
PARTS = np.array([0.75, 0.25])  # of the variance of the score
TRUTHS = (0.1, 0.3, 0.6)
N_NOISE = 200
SMALL = 0.01  # where an interval that allows for nothing begins
KINDS = {"noise": "numbers", "smooth": "numbers", "rough": "numbers", "labels": "smooth", "times": "smooth"}


def parts_of(X: np.ndarray, views: list[np.ndarray], rough: bool) -> np.ndarray:
    """Return what each view adds to a score of unit variance, (n_views, n_samples)."""
    a, b = views[:2]
    rate = 2.0 if rough else 1.0
    square = 0.5 * (1.0 - np.exp(-2.0 * rate**2))  # mean of the squared sine of a normal variable
    found = np.zeros((len(views), len(X)))
    first = (X[:, a[0]] + np.sin(rate * X[:, a[1]]) / np.sqrt(square)) / np.sqrt(2.0)
    found[:2] = np.sqrt(PARTS)[:, None] * np.array([first, (X[:, b[0]] ** 2 - 1.0) / np.sqrt(2.0)])
    return found


def simulate(kind: str, truth: float, seed: int, n_samples: int, inference: str | Marginal) -> dict[str, Any]:
    """Fit one data set; return ends of intervals and true parts, of all views and of each."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), int(100 * truth)])
    views = np.array_split(np.arange(N_FEATURES), 2 + seed % 3)
    X = rng.standard_normal((n_samples, N_FEATURES))
    parts = np.sqrt(truth / (1.0 - truth)) * parts_of(X, views, kind == "rough")
    score = parts.sum(axis=0)
    noisy = score + rng.standard_normal(n_samples)
    named = {f"view {v}": list(map(int, own)) for v, own in enumerate(views)}
    model: Any = {"labels": GPMKLClassifier, "times": GPMKLSurvival}.get(kind, GPMKLRegressor)
    y: Any = noisy > 0.0 if kind == "labels" else noisy
    if kind == "times":
        until = score + rng.standard_normal(n_samples) + 0.6
        y = np.rec.fromarrays([noisy <= until, np.exp(np.minimum(noisy, until))], names="event,time")
    model = model(views=named, inference=inference, random_state=seed).fit(X, y)
    table = view_table(model, LEVEL).set_index("view")
    around = parts - parts.mean(axis=1, keepdims=True)
    own = around @ around.sum(axis=0) / n_samples
    of_samples = np.append(own, own.sum()) / (own.sum() + 1.0)
    of_all = np.append(np.pad(truth * PARTS, (0, len(views) - 2)), truth)
    names = [*named, "all views"]
    return {
        "kind": kind,
        "truth": truth,
        "seed": seed,
        "views": names,
        "in_sample": of_samples.round(4).tolist(),
        "population": of_all.round(4).tolist(),
        "low": table["explained_lower"][names].round(4).tolist(),
        "mean": table["explained"][names].round(4).tolist(),
        "high": table["explained_upper"][names].round(4).tolist(),
        "verdict": table["verdict"]["all views"],
        "converged": bool(model.converged_),
    }


def held(low: np.ndarray, truth: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return whether intervals hold the truth."""
    return np.where(truth == 0.0, low < SMALL, (low <= truth) & (truth <= high))


def coverage(rows: list[dict[str, Any]]) -> str:
    """One row per kind, truth, and view."""
    body = []
    for kind, truth in sorted({(row["kind"], row["truth"]) for row in rows if row["truth"] > 0.0}):
        sets = [row for row in rows if (row["kind"], row["truth"]) == (kind, truth)]
        for name, chosen in (("all views", [-1]), ("first", [0]), ("second", [1]), ("others", None)):
            own = [
                [row[key][v] for key in ("low", "in_sample", "population", "mean", "high")]
                for row in sets
                for v in (chosen or range(2, len(row["views"]) - 1))
            ]
            if own:
                low, inside, whole, mean, high = np.array(own).T
                rates = [100.0 * held(low, true, high).mean() for true in (inside, whole)]
                body.append(
                    f"{kind}, {truth:g}: {name} | {rates[0]:.0f} | {rates[1]:.0f} | {inside.mean():.3f} | "
                    f"{mean.mean():.3f} | {(high - low).mean():.3f} | {len(low)}"
                )
    headers = ["view", "held %, in sample", "held %, population", "truth", "mean", "width", "intervals"]
    return markdown_table(headers, body)


def of_noise(rows: list[dict[str, Any]]) -> str:
    """Say how much of noise intervals call explained."""
    high = np.array([row["high"][-1] for row in rows if row["kind"] == "noise"])
    median, most = np.quantile(high, [0.5, 0.95])
    found = [row["verdict"] for row in rows if row["kind"] == "noise"]
    false = sum(word in ("clear", "weak") for word in found)
    return (
        f"Of noise, upper ends for all views are {median:.3f} in the median and {most:.3f} in 95 % of {len(high)} "
        f"sets (largest {high.max():.3f}); {false} have a verdict that is clear or weak."
    )


def main() -> None:
    options = begin(__doc__, simulations=60)
    n, n_noise, n_samples = (2, 2, 30) if options.fast else (options.simulations, N_NOISE, 200)
    inference: str | Marginal = Marginal(n_points=100, n_draws=100) if options.fast else "marginal"
    jobs = [(kind, truth) for kind in KINDS for truth in ((0.0,) if kind == "noise" else TRUTHS)]
    jobs = [(kind, truth, seed) for seed in range(max(n, n_noise)) for kind, truth in jobs]
    with threadpool_limits(1), quietly():
        rows = [
            simulate(kind, truth, seed, n_samples, inference)
            for kind, truth, seed in jobs
            if seed < (n_noise if kind == "noise" else n) and (KINDS[kind] == "numbers" or truth != TRUTHS[0])
        ]
    text = f"{of_noise(rows)}\n\n{coverage(rows)}"
    finish(options, "explained", text, {"rows": rows})


if __name__ == "__main__":
    main()
