"""Are interactions of views found, and only where there are some? Simulated views, with labels and with numbers.

Three views of three standard normal features, the default bank, 200 samples. Scores: a product of features of two
views, with and without functions of each of them; a sum of functions of single views; nothing. Labels are logistic,
numbers have normal noise of the standard deviation 1.

    python benchmarks/interactions.py           20 seeds of each, a quarter of an hour on one core
    python benchmarks/interactions.py --fast    1 seed, 60 samples, numbers that are a product
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _report import begin, claim, finish, markdown_table

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.posterior import interaction_table, relevance

N_SEEDS, N_SAMPLES = 20, 200
VIEWS = {"first": [0, 1, 2], "second": [3, 4, 5], "third": [6, 7, 8]}
SCORES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], bool]] = {
    "product": (lambda X: 2.0 * X[:, 0] * X[:, 3], True),
    "sum and product": (lambda X: 1.5 * (X[:, 0] + X[:, 3] + X[:, 0] * X[:, 3]), True),
    "sum": (lambda X: 1.5 * (X[:, 0] + np.sin(2.0 * X[:, 3])), False),
    "nothing": (lambda X: np.zeros(len(X)), False),
}
COLUMNS = (
    "score, targets", "additive model: signal", "any two", "first × second", "other pairs",
    "log evidence, any two", "log density left out, any two",
)  # fmt: skip


def run(score: str, labels: bool, seed: int, n_samples: int) -> dict[str, Any]:
    """Fit the additive model to one draw and ask for interactions."""
    rng = np.random.default_rng([seed, 7])
    X = rng.normal(size=(n_samples, 9))
    f = SCORES[score][0](X)
    bank = KernelBank("auto", views=VIEWS)
    if labels:
        model: Any = GPMKLClassifier(bank, random_state=seed).fit(X, rng.logistic(size=n_samples) < f)
    else:
        model = GPMKLRegressor(bank, random_state=seed).fit(X, f + rng.normal(size=n_samples))
    table = interaction_table(model).set_index("views")
    found = table["verdict"] == "interaction"
    return {
        "score": score,
        "labels": labels,
        "seed": seed,
        "signal": bool(relevance(model, by="all")["verdict"][0] == "signal"),
        "any": bool(found["any two"]),
        "pair": bool(found["first × second"]),
        "others": int(found.drop(["any two", "first × second"]).sum()),
        "log_evidence_diff": float(table.loc["any two", "log_evidence_diff"]),
        "elpd_diff": float(table.loc["any two", "elpd_diff"]),
    }


def main() -> None:
    options = begin(__doc__)
    seeds, n_samples = (1, 60) if options.fast else (N_SEEDS, N_SAMPLES)
    scores = ["product"] if options.fast else list(SCORES)
    kinds = (False,) if options.fast else (True, False)
    cells = []
    with warnings.catch_warnings(action="ignore"):
        for seed in range(seeds):
            cells += [run(score, labels, seed, n_samples) for score in scores for labels in kinds]
    rows, missed, false = [], [], []
    for score in scores:
        for labels in kinds:
            own = [cell for cell in cells if (cell["score"], cell["labels"]) == (score, labels)]

            def of(name: str, own: list[dict[str, Any]] = own) -> np.ndarray:
                return np.array([cell[name] for cell in own], dtype=float)

            rows.append(
                f"{score}, {'labels' if labels else 'numbers'} | {of('signal').mean():.0%} | "
                f"{of('any').mean():.0%} | {of('pair').mean():.0%} | {of('others').mean() / 2:.0%} | "
                f"{of('log_evidence_diff').mean():+.1f} | {of('elpd_diff').mean():+.1f}"
            )
            if SCORES[score][1] and not labels:
                missed.append(of("pair").mean())
            if not SCORES[score][1]:
                false += [of("any").mean(), of("pair").mean()]
    claims = [
        claim("interactions of numbers that are found", 0.95, float(np.min(missed)), at_least=True),
        claim(
            "interactions that are none, most over scores and targets",
            0.05,
            float(np.max(false, initial=0.0)),
        ),
    ]
    text = f"{seeds} draws of each.\n\n{markdown_table(list(COLUMNS), rows)}"
    finish(options, "interactions", text, {"cells": cells, "claims": claims})


if __name__ == "__main__":
    main()
