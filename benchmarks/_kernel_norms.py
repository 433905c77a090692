"""Weights of BEMKL under sparse and other priors beside those of multiple kernel learning with an l1 and an l2 norm.

The paper says (section 3) that sparse priors act like the l1 norm and others like the l2 norm. Kernels are those of
its section 6.1, on all features and on each of them; half of the rows, at most 250, are for training.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
from _report import markdown_table, mean_and_std
from papers.uci import fetch
from scipy.stats import spearmanr
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.discriminative import LpMKLClassifier
from bayesmkl.kernels import Gaussian, Polynomial

SETS = ("bupaliver", "pima", "heart_statlog", "wdbc", "sonar")
N_SPLITS, MOST_ROWS = 5, 250
PRIORS, NORMS = ("sparse", "nonsparse"), ("l1", "l2")
VISIBLE = 0.01  # of the largest weight


def models(n_widths: int) -> dict[str, Any]:
    """Return BEMKL under both priors, and both norms with C chosen by cross-validation."""
    gaussians = [Gaussian(width=2.0**k) for k in range(-3, 7)][:n_widths]
    bank = KernelBank([*gaussians, *(Polynomial(d) for d in (1, 2, 3))], views="all+each")
    found: dict[str, Any] = {
        prior: BEMKLClassifier(bank, kernel_prior=prior, margin=1.0, intermediate_scale=1.0)
        for prior in PRIORS
    }
    for norm, p in zip(NORMS, (1.0, 2.0), strict=True):
        found[norm] = GridSearchCV(LpMKLClassifier(bank, p_norm=p), {"C": [0.1, 1.0, 10.0, 100.0]}, cv=3)
    return {name: make_pipeline(StandardScaler(), model) for name, model in found.items()}


def measure(fast: bool) -> list[dict[str, Any]]:
    """Fit all four on random splits of every set."""
    rows = []
    for name in ("wdbc",) if fast else SETS:
        X, y = fetch(name, return_X_y=True)
        X = X[:, :3] if fast else X
        n_train = 40 if fast else min(len(y) // 2, MOST_ROWS)
        splits = StratifiedShuffleSplit(2 if fast else N_SPLITS, train_size=n_train, random_state=0)
        for seed, (train, test) in enumerate(splits.split(X, y)):
            weights: dict[str, np.ndarray] = {}
            accuracy: dict[str, float] = {}
            for model, fitted in models(2 if fast else 10).items():
                with warnings.catch_warnings(action="ignore"):  # narrow kernels are near the identity
                    fitted.fit(X[train], y[train])
                last = getattr(fitted[-1], "best_estimator_", fitted[-1])
                weights[model] = np.abs(last.kernel_weights_)
                accuracy[model] = 100.0 * fitted.score(X[test], y[test])
            row = {"set": name, "seed": seed, "n_train": n_train, "accuracy": accuracy, **facts(weights)}
            rows.append(row)
            print(name, seed, {m: round(n, 1) for m, n in row["effective"].items()}, flush=True)
    return rows


def facts(weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return what the tables say of the weights of all four: how many count, and how a prior agrees with a norm."""
    pairs = [(f"{a}, {b}", weights[a], weights[b]) for a, b in product(PRIORS, NORMS)]
    return {
        "kernels": len(weights["l1"]),
        "effective": {m: effective(w) for m, w in weights.items()},
        "visible": {m: visible(w) for m, w in weights.items()},
        "cosine": {pair: cosine(*two) for pair, *two in pairs},
        "rank": {pair: float(spearmanr(*two).statistic) for pair, *two in pairs},
    }


def effective(weights: Any) -> float:
    """Return the effective number of kernels, one over the sum of their squared shares."""
    weights = np.asarray(weights)
    return float(weights.sum() ** 2 / (weights @ weights))


def visible(weights: Any) -> float:
    """Return the number of kernels that have at least a hundredth of the largest weight."""
    weights = np.asarray(weights)
    return float(np.sum(weights >= VISIBLE * weights.max()))


def cosine(one: Any, other: Any) -> float:
    """Return the cosine of the angle between two vectors of weights."""
    return float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))


def report(rows: list[dict[str, Any]]) -> str:
    """Write how many kernels each has, and which norm each prior is closer to."""
    by_set = {name: [r for r in rows if r["set"] == name] for name in dict.fromkeys(r["set"] for r in rows)}
    everyone = (*PRIORS, *NORMS)
    pairs = list(rows[0]["cosine"])
    counts, angles, ranks = [], [], []
    for name, own in by_set.items():
        cell = [f"{name} ({own[0]['n_train']})", own[0]["kernels"]]
        for number in ("effective", "visible"):
            cell += [mean_and_std([r[number][m] for r in own], 0) for m in everyone]
        counts.append(cell + [f"{np.mean([r['accuracy'][m] for r in own]):.1f}" for m in everyone])
        for table, agreement in ((angles, "cosine"), (ranks, "rank")):
            table.append([name, *(mean_and_std([r[agreement][pair] for r in own]) for pair in pairs)])
    shown = {"sparse": "sparse", "nonsparse": "non-sparse", "l1": "l1", "l2": "l2"}
    headers = ["set (training samples)", "kernels", *(f"effective, {shown[m]}" for m in everyone)]
    headers += [f"visible, {shown[m]}" for m in everyone] + [f"accuracy, {shown[m]}" for m in everyone]
    pair_names = [", ".join(shown[m] for m in pair.split(", ")) for pair in pairs]
    return "\n\n".join(
        [
            f"Weights of the kernels of the paper (§6.1), over {len(next(iter(by_set.values())))} random splits: "
            "BEMKL under both priors beside the weights of multiple kernel learning with $\\|d\\|_1 \\le 1$ and "
            "$\\|d\\|_2 \\le 1$, C of 0.1, 1, 10 and 100 by three folds. Effective: $(\\sum_m |w_m|)^2 / \\sum_m "
            "w_m^2$; visible: at least a hundredth of the largest; accuracy in %.",
            markdown_table(headers, counts),
            "Cosine between the absolute weights of a prior and of a norm:",
            markdown_table(["set", *pair_names], angles),
            "Rank correlation of the same:",
            markdown_table(["set", *pair_names], ranks),
        ]
    )
