"""How often 94 % share intervals of GPMKL, with all its defaults, hold the share that a view has.

Unlike in `marginal_sbc.py` truth is not a draw from the prior: a fixed additive function of three views of two
standard normal features each. The first view adds sin(2 x) + x²/2, the second a linear function, the third nothing;
parts are scaled so that the first makes .7 of the variance of the score, and that is four times the variance of the
noise (regression), or the score has standard deviation 2 (labels, by a normal distribution function). Kernels are
those that the estimators choose, per view; targets are standardized. Compared is Cov(f_v, f) / Var(f) over the
training samples, of the true function and of draws. The share of the third view is zero, and no interval of a
variance holds that: asked is whether it begins below .03.

    python benchmarks/share_coverage.py                       100 data sets of each kind, 8 minutes on one core
    python benchmarks/share_coverage.py --simulations 1000    as many as you like
    python benchmarks/share_coverage.py --fast                two small ones of each kind
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _posteriors import LEVEL, quietly
from _report import begin, finish, markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import Marginal

VIEWS = {"smooth": [0, 1], "linear": [2, 3], "nothing": [4, 5]}
PARTS = (0.7, 0.3)  # of the variance of the score
STD = {"classes": 2.0, "targets": 1.0}  # of the score
NOISE_STD = 0.5  # of targets
SMALL = 0.03  # where an interval that allows for nothing begins


def parts_of(X: np.ndarray) -> np.ndarray:
    """Return what each view adds to a score of unit variance, (3, n_samples)."""
    smooth = np.sin(2.0 * X[:, 0]) + 0.5 * (X[:, 1] ** 2 - 1.0)
    linear = X[:, 2] - X[:, 3]
    variances = 0.5 * (1.0 - np.exp(-8.0)) + 0.5, 2.0
    scaled = [
        part * np.sqrt(own / variance)
        for part, own, variance in zip((smooth, linear), PARTS, variances, strict=True)
    ]
    return np.array([*scaled, np.zeros(len(X))])


def shares_of(parts: np.ndarray) -> np.ndarray:
    """Return the shares of parts in the variance of their sum."""
    around = parts - parts.mean(axis=1, keepdims=True)
    products = around @ around.sum(axis=0)
    return products / products.sum()


def simulate(task: str, seed: int, n_samples: int, inference: str | Marginal) -> dict[str, Any]:
    """Fit one data set; return true shares, ends of intervals and means, each by view."""
    rng = np.random.default_rng([seed, len(task)])
    X = rng.standard_normal((n_samples, 6))
    parts = parts_of(X)
    score = STD[task] * parts.sum(axis=0)
    size = NOISE_STD if task == "targets" else 1.0
    y = score + size * rng.standard_normal(n_samples)
    kind = GPMKLRegressor if task == "targets" else GPMKLClassifier
    model = kind(KernelBank("auto", views=VIEWS), inference=inference, random_state=seed)
    model.fit(X, y if task == "targets" else y > 0.0)
    views = np.array([name.split(" · ")[-1] for name in model.kernel_names_])
    draws = np.stack([model.posterior_.shares[:, views == view].sum(axis=1) for view in VIEWS], axis=1)
    ends = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    found = {"truth": shares_of(parts), "low": ends[0], "high": ends[1], "mean": draws.mean(axis=0)}
    return {"task": task, "converged": bool(model.converged_)} | {
        k: v.round(4).tolist() for k, v in found.items()
    }


def table(rows: list[dict[str, Any]]) -> str:
    """One row per task and view."""
    body = []
    for task in STD:
        own = [row for row in rows if row["task"] == task]
        truth, low, high, mean = (
            np.array([row[key] for row in own]) for key in ("truth", "low", "high", "mean")
        )
        for v, view in enumerate(VIEWS):
            held = (low[:, v] <= truth[:, v]) & (truth[:, v] <= high[:, v])
            if view == "nothing":
                held = low[:, v] < SMALL
            percent = 100.0 * held.mean()
            error = np.sqrt(percent * (100.0 - percent) / len(own))
            body.append(
                f"{task}: {view}{f', begins below {SMALL:g}' if view == 'nothing' else ''} | "
                f"{percent:.0f} ± {error:.0f} | {truth[:, v].mean():.2f} | {mean[:, v].mean():.2f} | "
                f"{(high - low)[:, v].mean():.2f} | {sum(not row['converged'] for row in own)} of {len(own)}"
            )
    headers = ["view", f"held % of {LEVEL:.0%} intervals", "true share", "posterior mean", "width", "warned"]
    return markdown_table(headers, body)


def main() -> None:
    options = begin(__doc__, simulations=100)
    n, n_samples = (2, 30) if options.fast else (options.simulations, 100)
    inference: str | Marginal = Marginal(n_points=100, n_draws=100) if options.fast else "marginal"
    with threadpool_limits(1), quietly():
        rows = [simulate(task, seed, n_samples, inference) for task in STD for seed in range(n)]
    text = f"Means over {n} data sets of {n_samples} samples and 12 kernels.\n\n{table(rows)}"
    finish(options, "share_coverage", text, {"rows": rows})


if __name__ == "__main__":
    main()
