"""What unlabeled samples cost: sweeps and whole fits with 0, 50 and 90 % of the labels left out.

BEMKL's paper says "a slight increase in computational cost" (section 5.2). Every share is measured at the same number
of samples, and beside a model of the labeled samples alone. Seconds are of the processor.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _family_semisupervised import digit_pair, estimator
from _protocol import deterministic_start, have_real_data
from _report import markdown_table
from papers.uci import fetch
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels.stacks.dense import DenseStack

SHARES = (0.0, 0.5, 0.9)  # without a label
N_SWEEPS, REPEATS = 100, 3


def samples(fast: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and labels -1 and +1, by name."""
    if fast or not have_real_data():
        X, y = load_wdbc(return_X_y=True)
        images, digits = load_digits(return_X_y=True)
        pair = digit_pair(images / 8.0 - 1.0, digits, (1, 7), 30, 0)
        return {"digits 1 / 7": (pair.X, pair.y)} if fast else {"wdbc": (X, np.where(y > y.min(), 1, -1))}
    found = {}
    images, digits = fetch("usps", return_X_y=True)
    for pair in ((2, 7), (3, 8)):
        one = digit_pair(images, digits, pair, 200, 0)
        found[f"usps {pair[0]} / {pair[1]}"] = (one.X, one.y)
    for name in ("ionosphere", "pima"):
        X, y = fetch(name, return_X_y=True)
        found[name] = (StandardScaler().fit_transform(X), np.where(y == np.max(y), 1, -1))
    return found


def hidden(y: np.ndarray, share: float) -> np.ndarray:
    """Labels of which a share is zero, in both classes alike."""
    y, rng = y.copy(), np.random.default_rng(0)
    for label in (-1, 1):
        rows = rng.permutation(np.flatnonzero(y == label))
        y[rows[: round(share * len(rows))]] = 0
    return y


def sweep_seconds(X: np.ndarray, y: np.ndarray) -> float:
    """Return the seconds of one sweep, the least of some runs."""
    model = estimator("defaults", X)
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(model.kernels.fit_transform(X), -1, 0)))
    problem = binary.BinaryProblem(stack, stack.gram(), y.astype(float), binary.BinaryPriors(), 1.0, 1.0)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        maximize_elbo(binary, problem, deterministic_start(problem), LoopOptions(max_iter=N_SWEEPS, tol=0.0))
        times.append((time.process_time() - start) / N_SWEEPS)
    return min(times)


def fit(X: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Return seconds and sweeps of a whole fit."""
    model = estimator("defaults", X).set_params(unlabeled_label=0 if (y == 0).any() else None)
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start, int(model.n_iter_)


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Measure every share of every set."""
    found: list[dict[str, Any]] = []
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for name, (X, y) in samples(fast).items():
            fit(X, y)  # first calls
            for share in SHARES:
                partly = hidden(y, share)
                known = partly != 0
                every, alone = (fit(X, partly), sweep_seconds(X, partly)), None
                if share:
                    alone = (fit(X[known], partly[known]), sweep_seconds(X[known], partly[known]))
                found.append({"set": name, "n": len(y), "share": share, "all": every, "labeled": alone})
    return report(found), {"rows": found}


def report(found: list[dict[str, Any]]) -> str:
    """Write seconds beside those of the fully labeled fit, and of the labeled samples alone."""
    rows, ratios = [], []
    for one in found:
        (seconds, sweeps), per_sweep = one["all"]
        full = next(other for other in found if other["set"] == one["set"] and other["share"] == 0.0)
        row = [f"{one['set']} ({one['n']})", f"{100 * one['share']:.0f}", f"{1e3 * per_sweep:.2f}"]
        row += [
            sweeps,
            f"{seconds:.2f}",
            f"{per_sweep / full['all'][1]:.2f}",
            f"{seconds / full['all'][0][0]:.2f}",
        ]
        if one["labeled"] is None:
            row += ["–"] * 4
        else:
            (few_seconds, few_sweeps), few_per_sweep = one["labeled"]
            row += [
                f"{1e3 * few_per_sweep:.2f}",
                few_sweeps,
                f"{few_seconds:.2f}",
                f"{seconds / few_seconds:.1f}",
            ]
            ratios.append((per_sweep / full["all"][1], seconds / full["all"][0][0], seconds / few_seconds))
        rows.append(row)
    headers = "set (samples) | unlabeled % | ms per sweep | sweeps | fit s | sweep, to full | fit, to full"
    headers += " | alone: ms per sweep | sweeps | fit s | fit, to alone"
    sweep, fits, more = np.array(ratios).T
    return (
        f"Processor time of semi-supervised BEMKL, 13 kernels, defaults with a margin of 1; {N_SWEEPS} sweeps for "
        "the time of one, and fits until they converge. *to full*: divided by that with all labels; *alone*: the "
        "labeled samples without the others.\n\n"
        f"{markdown_table(headers, rows)}\n\n"
        f"At the same number of samples a sweep takes {sweep.min():.2f} to {sweep.max():.2f} times that with all "
        f"labels, a fit {fits.min():.1f} to {fits.max():.1f} times; beside a fit of the labeled samples alone it is "
        f"{more.min():.1f} to {more.max():.1f} times."
    )
