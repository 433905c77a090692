"""Which intervals hold the truth: those of GPMKL, BEMKL (variational), or bootstrapped permutation importance.

Data are the targets of `share_coverage.py`, where the part of each view is known. GPMKL and BEMKL have their default
kernels, per view; `explained` of `view_table` is compared with the true part of the variance of the target.
Permutation importance is computed for scikit-learn's support vector regression, refitted to 100 bootstrap samples and
scored on the samples left out. A view is permuted as a whole. The importance of a view in an additive function is
twice its variance, so importances divided by their sum are compared with the true shares. Widths are relative to
what all views explain.

    python benchmarks/share_methods.py         40 data sets of 100 samples, 2 minutes on one core
    python benchmarks/share_methods.py --fast  two small ones
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _posteriors import LEVEL, quietly
from _report import begin, finish, markdown_table
from share_coverage import NOISE_STD, VIEWS, parts_of, shares_of
from sklearn.svm import SVR
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLRegressor, GPMKLRegressor
from bayesmkl.posterior import view_table

METHODS = {"GPMKL": GPMKLRegressor, "BEMKL": BEMKLRegressor, "permutation importance, bootstrapped": None}
Array = np.ndarray


def permuted(X: Array, y: Array, rng: np.random.Generator, n_boot: int = 100, n_repeats: int = 5) -> Array:
    """Return the ends of bootstrap intervals of relative importances, (2, n_views)."""
    found = []
    for _ in range(n_boot):
        rows = rng.integers(len(X), size=len(X))
        out = np.setdiff1d(np.arange(len(X)), rows)
        svr = SVR(C=10.0).fit(X[rows], y[rows])
        least, drops = np.mean((y[out] - svr.predict(X[out])) ** 2), []
        for columns in VIEWS.values():
            shuffled = np.tile(X[out], (n_repeats, 1, 1))
            for copy in shuffled:
                copy[:, columns] = copy[rng.permutation(len(out))][:, columns]
            errors = np.tile(y[out], n_repeats) - svr.predict(shuffled.reshape(-1, X.shape[1]))
            drops.append(np.mean(errors**2) - least)
        found.append(np.array(drops) / np.sum(drops))
    return np.quantile(found, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)


def simulate(seed: int, n_samples: int) -> list[dict[str, Any]]:
    """Return for each method the true shares, the ends of their intervals and processor seconds."""
    rng = np.random.default_rng([seed, len("targets")])
    X = rng.standard_normal((n_samples, 6))
    parts = parts_of(X)
    y, rows = parts.sum(axis=0) + NOISE_STD * rng.standard_normal(n_samples), []
    for name, kind in METHODS.items():
        start = time.process_time()
        if kind is None:
            ends = permuted(X, y, rng)
        else:
            model = kind(views=VIEWS, random_state=seed).fit(X, y)
            table = view_table(model).set_index("view").loc[list(VIEWS)]
            ends = table[["explained_lower", "explained_upper"]].to_numpy().T
        seconds = time.process_time() - start
        variance = parts.sum(axis=0).var()
        truth = shares_of(parts) * (1.0 if kind is None else variance / (variance + NOISE_STD**2))
        rows.append(
            {
                "method": name,
                "truth": truth.tolist(),
                "ends": ends.round(4).tolist(),
                "seconds": round(seconds, 3),
            }
        )
    return rows


def main() -> None:
    options = begin(__doc__, simulations=40)
    n, n_samples = (2, 40) if options.fast else (options.simulations, 100)
    with threadpool_limits(1), quietly():
        rows = [row for seed in range(n) for row in simulate(seed, n_samples)]
    body = []
    for name in METHODS:
        own = [row for row in rows if row["method"] == name]
        truth, ends = (np.array([row[key] for row in own]) for key in ("truth", "ends"))
        held = 100.0 * ((ends[:, 0] <= truth) & (truth <= ends[:, 1]))[:, :2].mean(axis=0)
        widths = np.mean((ends[:, 1] - ends[:, 0]) / truth.sum(axis=1, keepdims=True), axis=0)[:2]
        seconds = np.mean([row["seconds"] for row in own])
        body.append(
            f"{name} | {held[0]:.0f} | {held[1]:.0f} | {widths[0]:.2f} | {widths[1]:.2f} | {seconds:.1f}"
        )
    headers = [
        "method",
        "held %, smooth view",
        "held %, linear view",
        "width, smooth",
        "width, linear",
        "seconds",
    ]
    text = f"Over {n} data sets of {n_samples} samples, {LEVEL:.0%} intervals.\n\n{markdown_table(headers, body)}"
    finish(options, "share_methods", text, {"rows": rows})


if __name__ == "__main__":
    main()
