"""How often are gates inside the bands of localized BEMKL, and localities inside their intervals?

Data are drawn from the models themselves: samples of two views, gates from their prior, and labels by the sign of
the score, or the score with noise. Gates are known up to the sign and the scale of all of them together, so they are
compared after division by their root mean square, with the sign of the posterior mean. A calibrated posterior has
94 % of the truth in its 94 % bands. Marginal inference has priors of its own: precisions of sample weights and
intercept are known, and those of gates are larger by the number of kernels. Variational inference promises nothing of
the kind.

Chains of marginal inference warn where they do not agree. How many fits do, and how long they take, is counted on
these data, on 200 samples of each design of `make_localized`, and on 200 samples each of two sets of scikit-learn, of
tumors gated by their size and of patients by their age, with one Gaussian kernel for every view. Fits that take more
points than `n_points` are those that would have warned without them.

    python benchmarks/gate_coverage.py                         what is not done yet (50 minutes)
    python benchmarks/gate_coverage.py --sets target --results part.jsonl    a part of it
    python benchmarks/gate_coverage.py --report                only report
    python benchmarks/gate_coverage.py --fast                  1 data set of each
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from functools import partial
from typing import Any

import numpy as np
from _cells import Jobs, chosen_rows, run_study
from _posteriors import quietly
from _report import claim, markdown_table
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from bayesmkl import KernelBank
from bayesmkl.bemkl import BEMKLLocalizedClassifier, BEMKLLocalizedRegressor
from bayesmkl.bemkl.gate_basis import gate_basis, gate_scale
from bayesmkl.bemkl.reading.local_weights import local_draws
from bayesmkl.datasets import make_localized
from bayesmkl.kernels import Gaussian
from bayesmkl.marginal import Marginal

N, N_DRAWS, SCALE, WIDTH = 100, 1000, 0.3, 1.0
PROBABILITY, ASKED = 0.94, (0.90, 0.97)
ROUGH = 1e-3  # tolerance of the variational posterior that marginal inference starts from
# Data sets of each kind; labels of one class, of about every fourth seed, are left out.
KINDS = {("labels", "vb"): 60, ("labels", "marginal"): 277, ("target", "marginal"): 200}
NAMES = {"vb": "variational", "marginal": "marginal"}
DESIGNS = ("hours", "halves", "regions", "global")
REAL = ("tumors", "diabetes")
PARTS = {"data of the models": ("labels", "target"), "designs": DESIGNS, "real sets": REAL}
N_AGREEING, N_FITS = 200, 10  # samples, and fits of each design or set
AGREED = 0.9  # part of the fits that is asked for
SECONDS = 10.0
N_POINTS = Marginal().n_points


def cover(seed: int, task: str, inference: str) -> dict[str, Any]:
    """Return parts of the truth inside the intervals, and their median width; a failure for labels of one class."""
    row = {"set": task, "split": seed, "model": inference}
    rng = np.random.default_rng(seed)
    X = np.c_[rng.standard_normal((N, 4)), rng.uniform(-1.0, 1.0, N)]
    bank = KernelBank([Gaussian(width=2)], views={"one": [0, 1], "two": [2, 3]})
    z = X[:, 4:]
    phi = gate_basis(gate_scale(z, None, 0), z, WIDTH).features(z)
    kernels = np.moveaxis(bank.fit_transform(X), -1, 0)
    n_kernels, is_marginal, is_target = len(kernels), inference == "marginal", task == "target"
    precisions = rng.gamma(1.0, size=(2, n_kernels))  # of the constant and of the other weights
    weights = rng.standard_normal((n_kernels, phi.shape[1])) / np.sqrt(precisions[1])[:, None]
    weights[:, 0] = rng.standard_normal(n_kernels) / np.sqrt(precisions[0])
    of_dual, of_intercept = rng.gamma(1.0, size=N), rng.gamma(1.0)
    of_outputs, of_noise = rng.gamma(1.0, size=2) if is_target else (SCALE**-2, 1.0)
    if is_marginal:
        weights, of_dual, of_intercept = weights / np.sqrt(n_kernels), 1.0, 1.0
    dual = rng.standard_normal(N) / np.sqrt(of_dual)
    outputs = kernels @ dual + rng.standard_normal((n_kernels, N)) / np.sqrt(of_outputs)
    gates = phi @ weights.T
    intercept = rng.standard_normal() / np.sqrt(of_intercept)
    score = (gates * outputs.T).sum(axis=1) + intercept + rng.standard_normal(N) / np.sqrt(of_noise)
    y = score if is_target else np.where(score > 0.0, 1, -1)
    if not is_target and min((y > 0).sum(), (y < 0).sum()) < 5:
        return row | {"failure": "one class"}
    settings: dict[str, Any] = {"gate_columns": [4], "gate_width": WIDTH, "inference": inference}
    if is_marginal:
        settings["tol"] = ROUGH
    model = (
        BEMKLLocalizedRegressor(bank, normalize_y=False, **settings)
        if is_target
        else BEMKLLocalizedClassifier(bank, intermediate_scale=SCALE, **settings)
    )
    found_by = fitted(model, X, y)
    drawn = local_draws(model.posterior_, rng, N_DRAWS).gates(phi)
    center = model.gates()
    found, truth = (_scaled(each, center) for each in (drawn, gates[None]))
    low, high = np.quantile(found, [0.5 * (1 - PROBABILITY), 0.5 * (1 + PROBABILITY)], axis=0)
    locality = gates.var(axis=0) / (gates**2).mean(axis=0)
    interval = model.locality_interval_
    return row | {
        "gates": float(((low <= truth[0]) & (truth[0] <= high)).mean()),
        "width": float(np.median(high - low)),
        "localities": float(((interval[:, 0] <= locality) & (locality <= interval[:, 1])).mean()),
        **(found_by if is_marginal else {}),
    }


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit a model, and return how far its chains agree, how many different points they have, and CPU seconds."""
    started = time.process_time()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # counted instead
        model.fit(X, y)
    seconds = time.process_time() - started
    if not hasattr(model, "rhat_"):
        return {"seconds": seconds}
    n_points = len(np.unique(model.posterior_.weights[:, 0, 0]))
    return {
        "rhat": float(model.rhat_),
        "agrees": bool(model.converged_),
        "n_points": n_points,
        "seconds": seconds,
    }


def agree(seed: int, name: str) -> dict[str, Any]:
    """Fit a design of `make_localized`, or a random part of a real set, with the defaults of marginal inference."""
    if name in DESIGNS:
        sample = make_localized(N_AGREEING, design=name, random_state=seed)
        X, y, views, columns = sample.data, sample.target, sample.views, list(sample.gate_columns)
    else:
        loaded = load_breast_cancer() if name == "tumors" else load_diabetes()
        rows = np.random.default_rng(seed).choice(len(loaded.data), N_AGREEING, replace=False)
        X, y, columns = scale(loaded.data[rows]), loaded.target[rows], [0]  # mean radius, age
        blocks = (
            {"mean": (0, 10), "error": (10, 20), "worst": (20, 30)}
            if name == "tumors"
            else {"body": (2, 4), "blood": (4, 10)}
        )
        views = {view: list(range(*ends)) for view, ends in blocks.items()}
    bank = KernelBank([Gaussian(relative_width=1.0)], views=views)
    kind = BEMKLLocalizedRegressor if name == "diabetes" else BEMKLLocalizedClassifier
    model = kind(bank, gate_columns=columns, inference="marginal", random_state=seed)
    return {"set": name, "split": seed, "model": "marginal", **fitted(model, X, y)}


def _scaled(gates: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Divide gates of every draw by their root mean square, and give them the sign of `center`."""
    size = np.sqrt((gates**2).mean(axis=(1, 2), keepdims=True))
    sign = np.where((gates * center).sum(axis=(1, 2), keepdims=True) < 0.0, -1.0, 1.0)
    return sign * gates / size


def coverage_table(rows: list[dict[str, Any]], made: list[dict[str, Any]]) -> str:
    """One row for each kind of data; claims are appended."""
    body = []
    for task, inference in KINDS:
        own = chosen_rows(rows, task, inference)
        if not own:
            continue
        means = {key: float(np.mean([row[key] for row in own])) for key in ("gates", "localities", "width")}
        error = float(np.std([row["gates"] for row in own]) / np.sqrt(len(own)))
        counts = [
            f"{means['gates']:.1%} ± {error:.1%}",
            f"{means['localities']:.1%}",
            f"{means['width']:.2f}",
        ]
        body.append([task, NAMES[inference], str(len(own)), *counts])
        what = f"{NAMES[inference]} bands of gates, {task}: coverage of 94 %"
        made.append(claim(what, ASKED[0], means["gates"], "", at_least=True))
        if inference == "marginal":
            made.append(claim(what, ASKED[1], means["gates"]))
    headers = (
        " | inference | data sets | gates in 94 % bands | localities in 94 % intervals | "
        "median width of bands, in root mean squares"
    )
    return markdown_table(headers, body)


def agreement_table(rows: list[dict[str, Any]], made: list[dict[str, Any]]) -> str:
    """One row for each set that marginal inference is fitted to; claims are appended."""
    body: list[list[str]] = []
    for name in ("labels", "target", *DESIGNS, *REAL):
        own = chosen_rows(rows, name, "marginal")
        if not own:
            continue
        first = np.mean([row["agrees"] and row["n_points"] <= N_POINTS for row in own])
        seconds = [row["seconds"] for row in own]
        body.append([
            f"{name}, from the model" if name in ("labels", "target") else name, str(len(own)), f"{first:.0%}",
            f"{np.mean([row['agrees'] for row in own]):.0%}", f"{np.max([row['rhat'] for row in own]):.2f}",
            f"{np.mean(seconds):.1f}", f"{np.max(seconds):.1f}",
        ])  # fmt: skip
    for whose, names in PARTS.items():
        own = [row for name in names for row in chosen_rows(rows, name, "marginal")]
        if not own:
            continue
        agrees = float(np.mean([row["agrees"] for row in own]))
        what = f"marginal gates, {whose}: part of the fits whose chains agree"
        made.append(claim(what, AGREED, agrees, at_least=True))
        mean = float(np.mean([row["seconds"] for row in own]))
        made.append(claim(f"marginal gates, {whose}: CPU seconds of a fit, on average", SECONDS, mean, " s"))
    headers = (
        f" | fits | agree with {N_POINTS} points | agree in the end | largest R-hat | CPU seconds | longest"
    )
    return markdown_table(headers, body)


def cells(chosen: Namespace) -> Jobs:
    """Data sets of each kind, and of the designs and sets."""
    agreeing = {(name, "marginal"): N_FITS for name in (*DESIGNS, *REAL)}
    for (name, inference), n in sorted((KINDS | agreeing).items()):
        for seed in range(n if name in chosen.sets else 0):
            compute = (
                partial(cover, seed, name, inference)
                if (name, inference) in KINDS
                else partial(agree, seed, name)
            )
            yield name, seed, inference, compute


def short() -> list[dict[str, Any]]:
    """One data set of each kind."""
    return [cover(0, *kind) for kind in KINDS]


def report(rows: list[dict[str, Any]], _: Namespace) -> tuple[str, dict[str, Any]]:
    """Both tables, and what is asked."""
    made: list[dict[str, Any]] = []
    text = "\n\n".join([coverage_table(rows, made), agreement_table(rows, made)])
    return text, {"claims": made}


if __name__ == "__main__":
    with quietly():
        every = ["labels", "target", *DESIGNS, *REAL]
        run_study(__doc__, "gate_coverage", jobs=cells, report=report, short=short, sets=every)
