"""Does localized BEMKL find where views matter, and does its evidence say whether anything is local?

`make_localized` draws samples whose label one view tells here and another one there, as gate columns say, and samples
of which nothing is local. BEMKLLocalizedClassifier with the defaults, and the default kernels of every view, is
compared with BEMKL's global weights (its own gates that are the same everywhere) by the bound, which are the two
that it compares itself, and by accuracy and log loss on new samples.

    python benchmarks/local_weights.py           20 draws of each design with 200 samples, 1000 new ones (5 minutes)
    python benchmarks/local_weights.py --fast    one draw of each with 60 samples
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _posteriors import quietly
from _report import begin, claim, finish, markdown_table, mean_and_std
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import BEMKLLocalizedClassifier
from bayesmkl.datasets import make_localized

# Mean accuracy at least, and part of the draws whose evidence is right.
ASKED = {"hours": 0.92, "halves": 0.94, "regions": 0.83, "global": None}
RIGHT = 19 / 20
SECONDS = 10.0


def compare(design: str, seed: int, n_train: int, n_new: int) -> dict[str, Any]:
    """Return what the localized model and the global one reach, and what the bound says."""
    sample = make_localized(n_train + n_new, design=design, random_state=seed)
    X, y, train, new = sample.data, sample.target, slice(0, n_train), slice(n_train, None)
    bank = KernelBank("auto", sample.views)
    local = BEMKLLocalizedClassifier(bank, gate_columns=sample.gate_columns)
    row: dict[str, Any] = {"design": design, "seed": seed, "bayes_accuracy": sample.bayes_accuracy}
    for name, model in (("local", local), ("global", BEMKLClassifier(bank, intermediate_scale=0.3))):
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit(X[train], y[train])
        seconds, of_cpu = time.perf_counter() - wall, time.process_time() - cpu
        says = model.predict_proba(X[new])[np.arange(n_new), (y[new] > 0).astype(int)]
        row[name] = {
            "accuracy": float(model.score(X[new], y[new])),
            "log_loss": float(-np.log(says).mean()),
            "seconds": seconds,
            "cpu_seconds": of_cpu,
        }
    row["gain"] = float(local.elbo_gain_)
    row["is_right"] = bool((local.elbo_gain_ > 0.0) == (design != "global"))
    row["width"] = "constant" if np.isinf(local.gate_width_) else local.gate_width_
    row["locality"] = local.locality_.tolist()
    return row


def mean_of(rows: list[dict[str, Any]], model: str, key: str) -> float:
    """Return the mean of a number of a model."""
    return float(np.mean([row[model][key] for row in rows]))


def claims(by_design: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Compare with what was asked for."""
    made = []
    for design, rows in by_design.items():
        asked = ASKED[design]
        if asked is not None:
            found = mean_of(rows, "local", "accuracy")
            made.append(claim(f"localized BEMKL, {design}: accuracy", asked, found, at_least=True))
        right = float(np.mean([row["is_right"] for row in rows]))
        made.append(
            claim(f"localized BEMKL, {design}: part of draws with right evidence", RIGHT, right, "", True)
        )
    slowest = max(row["local"]["cpu_seconds"] for rows in by_design.values() for row in rows)
    made.append(claim("localized BEMKL: seconds of the slowest fit", SECONDS, slowest, " s"))
    return made


def table(by_design: dict[str, list[dict[str, Any]]]) -> str:
    """Means over the draws of each design."""
    body = []
    for design, rows in by_design.items():
        numbers = [
            f"{mean_of(rows, model, key):.3f}"
            for key in ("accuracy", "log_loss")
            for model in ("global", "local")
        ]
        body.append([
            design, *numbers[:2], f"{rows[0]['bayes_accuracy']:.3f}", *numbers[2:],
            mean_and_std(np.array([row["gain"] for row in rows]), 1),
            f"{sum(row['is_right'] for row in rows)} of {len(rows)}", f"{mean_of(rows, 'local', 'cpu_seconds'):.1f}",
        ])  # fmt: skip
    headers = [
        "design", "accuracy, global", "localized", "best possible", "log loss, global", "localized",
        "bound, local - constant", "right", "seconds",
    ]  # fmt: skip
    return markdown_table(headers, body)


def main() -> None:
    options = begin(__doc__)
    n_draws, n_train, n_new = (1, 60, 100) if options.fast else (20, 200, 1000)
    with threadpool_limits(1), quietly():
        by_design = {
            design: [compare(design, seed, n_train, n_new) for seed in range(n_draws)] for design in ASKED
        }
    rows = [row for own in by_design.values() for row in own]
    made = [] if options.fast else claims(by_design)
    finish(options, "local_weights", table(by_design), {"rows": rows, "claims": made})


if __name__ == "__main__":
    main()
