"""How often intervals of what a view adds to the score of a new sample hold it, and those of its average slope.

Truth is a draw from the prior of GPMKL: kernel weights, noise, intercept, a function of each of three views at 60
training and 20 new samples. Then intervals of `contributions` hold the part of a view at a new sample at nominal
rate, on average over data sets, and those of `feature_table` the slope of a view's part, averaged over the training
samples; that of the truth is by differences. Kernels are centered on the training samples, so that parts are
differences from their mean. Standard errors are over data sets, whose samples have the same functions.

    python benchmarks/component_coverage.py                       200 data sets of each kind
    python benchmarks/component_coverage.py --simulations 1000    as many as you like
    python benchmarks/component_coverage.py --fast                two small ones of each kind
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _posteriors import quietly
from _report import begin, finish, markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import HalfT, Marginal
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import contributions, feature_table

N_VIEWS, N_NEW = 3, 20
LEVELS = (0.5, 0.8, 0.94)
STEP = 1e-3  # to either side of a sample, for slopes
DF = 4.0  # of the prior of kernel weights, whose scale is one
NOISE = 0.3, 1.5  # median, and standard deviation of the logarithm: the default prior


def kernels_of(X: np.ndarray, n_train: int) -> np.ndarray:
    """Return kernels of all samples with all, centered and scaled on the first, (n_views, n, n)."""
    found = np.moveaxis(KernelBank([Gaussian(width=1)], views="each").fit_transform(X), -1, 0)
    means = found[:, :, :n_train].mean(axis=2, keepdims=True)
    centered = found - means - means.mT + means[:, :n_train].mean(axis=1, keepdims=True)
    units = np.einsum("mii->mi", centered)[:, :n_train].mean(axis=1)
    return centered / units[:, None, None]


def simulate(task: str, seed: int, n_train: int, inference: str | Marginal) -> dict[str, Any]:
    """Fit one data set; return what the ranks of the truth among draws say."""
    rng = np.random.default_rng([seed, len(task)])
    X = rng.standard_normal((n_train + N_NEW, N_VIEWS))
    kernels = kernels_of(np.vstack([X, X[:n_train] + STEP, X[:n_train] - STEP]), n_train)
    weights = np.abs(rng.standard_t(DF, N_VIEWS))
    values, vectors = np.linalg.eigh(kernels)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    parts = weights[:, None] * np.einsum("mij,mj->mi", roots, rng.standard_normal((N_VIEWS, len(values[0]))))
    parts, above, below = np.split(parts, [len(X), len(X) + n_train], axis=1)
    slopes = (above - below).mean(axis=1) / (2.0 * STEP)
    kind = GPMKLRegressor if task == "targets" else GPMKLClassifier
    options: dict[str, Any] = {"normalize_y": False} if task == "targets" else {}
    model = kind(
        KernelBank([Gaussian(width=1)], views="each", normalize="center"),
        kernel_prior=HalfT(DF, 1.0),
        intercept_std=1.0,
        together=False,
        inference=inference,
        random_state=seed,
        **options,
    )
    score = parts.sum(axis=0) + rng.standard_normal()
    noise = 1e-4 + NOISE[0] * np.exp(NOISE[1] * rng.standard_normal()) if task == "targets" else 1.0
    y = score + noise * rng.standard_normal(len(X))
    target = y if task == "targets" else y > 0.0
    if len(set(target[:n_train])) < 2:
        return {"task": task, "skipped": True}
    model.fit(X[:n_train], target[:n_train])
    found = contributions(model, X[n_train:], n_draws=2000, draws=True, random_state=seed)
    drawn = found["draws"].values[..., :N_VIEWS]
    of_parts = (drawn < parts[:, n_train:].T).mean(axis=0)
    of_score = (found["draws"].values.sum(axis=-1) < score[n_train:]).mean(axis=0)
    return {
        "task": task,
        "converged": bool(model.converged_),
        "parts": summary(of_parts),
        "score": summary(of_score),
        "slopes": held_slopes(model, slopes, seed),
    }


def held_slopes(model: Any, slopes: np.ndarray, seed: int) -> list[float]:
    """Return how many intervals of each level hold the average slope of a view's part, in parts of one."""
    held = []
    for level in LEVELS:
        table = feature_table(model, ci_prob=level, per="unit", random_state=seed).sort_values("view")
        held.append(float(((table["lower"] <= slopes) & (slopes <= table["upper"])).mean()))
    return np.round(held, 4).tolist()


def summary(ranks: np.ndarray) -> list[float]:
    """Return how many intervals of each level hold the truth, in parts of one, and the mean rank."""
    held = [(np.abs(ranks - 0.5) <= 0.5 * level).mean() for level in LEVELS]
    return np.round([*held, ranks.mean()], 4).tolist()


def table(rows: list[dict[str, Any]]) -> str:
    """One row per task, of parts and of the score."""
    body = []
    for task in ("targets", "labels"):
        own = [row for row in rows if row["task"] == task and "parts" in row]
        for name, key in (
            ("a view's part", "parts"),
            ("score", "score"),
            ("average slope of a view's part", "slopes"),
        ):
            values = np.array([row[key] for row in own])
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            held = [f"{100 * v:.1f} ± {100 * e:.1f}" for v, e in zip(values.mean(axis=0), error, strict=True)]
            held = held[: len(LEVELS)]
            warned = sum(not row["converged"] for row in own)
            rank = "–" if key == "slopes" else f"{values[:, -1].mean():.3f} ± {error[-1]:.3f}"
            body.append([f"{task}: {name}", *held, rank, f"{warned} of {len(own)}"])
    headers = ["what", *(f"held % of {level:.0%}" for level in LEVELS), "mean rank", "warned"]
    return markdown_table(headers, body)


def main() -> None:
    options = begin(__doc__, simulations=200)
    n, n_train = (2, 25) if options.fast else (options.simulations, 60)
    inference: str | Marginal = Marginal(n_points=100, n_draws=100) if options.fast else "marginal"
    with threadpool_limits(1), quietly():
        rows = [
            simulate(task, seed, n_train, inference) for seed in range(n) for task in ("targets", "labels")
        ]
    text = f"{n} data sets of {n_train} training and {N_NEW} new samples.\n\n{table(rows)}"
    finish(options, "component_coverage", text, {"rows": rows})


if __name__ == "__main__":
    main()
