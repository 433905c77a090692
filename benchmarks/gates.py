"""Does the evidence tell where local weights are needed, and do gated kernels predict better there?

`make_localized` draws samples whose label one view tells here and another one there, as gate columns say, and samples
of which nothing is local. GPMKL on a Gaussian kernel of every view is compared with the same kernels beside their
products with a gate, `[kernel, kernel * Gate(columns)]`, by the log evidence and by the accuracy on new samples. What
gated kernels get of the shares says how local the score is.

    python benchmarks/gates.py           20 draws of each design with 200 samples, 500 new ones (8 minutes)
    python benchmarks/gates.py --fast    one draw of each with 60 samples
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _posteriors import quietly
from _report import begin, claim, finish, markdown_table, mean_and_std
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import make_localized
from bayesmkl.kernels import Gate, Gaussian
from bayesmkl.marginal import Marginal

SETTINGS = (("hours", 0.1), ("halves", 0.1), ("regions", 0.1), ("global", 0.1), ("global", 0.5))
WIDTH = 2.0
# Nats gained at least, and accuracy with gates; and nats lost at most where nothing is local.
ASKED = {"hours": (23.0, 0.89), "halves": (38.0, 0.91), "regions": (10.0, 0.71)}
LOST = 0.2


def compare(
    design: str, noise: float, seed: int, n_train: int, n_new: int, inference: str | Marginal
) -> dict[str, Any]:
    """Return log evidences and accuracies without and with gates, and the share of gated kernels."""
    sample = make_localized(n_train + n_new, design=design, noise=noise, random_state=seed)
    X, y, train, new = sample.data, sample.target, slice(0, n_train), slice(n_train, None)
    kernel, row = Gaussian(width=WIDTH), {"design": design, "noise": noise, "seed": seed}
    row["bayes_accuracy"] = sample.bayes_accuracy
    for name, kernels in (("plain", [kernel]), ("gated", [kernel, kernel * Gate(sample.gate_columns)])):
        model = GPMKLClassifier(KernelBank(kernels, sample.views), inference=inference, random_state=seed)
        model.fit(X[train], y[train])
        row[name] = {
            "log_evidence": float(model.log_evidence_),
            "accuracy": float(model.score(X[new], y[new])),
        }
    row["share"] = float(model.kernel_shares_[1::2].sum())
    return row


def gains(rows: list[dict[str, Any]]) -> np.ndarray:
    """Return differences of log evidence by gates."""
    return np.array([row["gated"]["log_evidence"] - row["plain"]["log_evidence"] for row in rows])


def mean_of(rows: list[dict[str, Any]], model: str, key: str) -> float:
    """Return the mean of a number of a model."""
    return float(np.mean([row[model][key] for row in rows]))


def claims(by_setting: dict[tuple[str, float], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Compare with what was asked for."""
    made = []
    for (design, noise), rows in by_setting.items():
        gain = gains(rows)
        if design in ASKED:
            nats, accuracy = ASKED[design]
            found = mean_of(rows, "gated", "accuracy")
            made += [
                claim(f"gates, {design}: gain of log evidence", nats, gain.mean(), " nats", True),
                claim(f"gates, {design}: accuracy with gates", accuracy, found, at_least=True),
                claim(
                    f"gates, {design}: part of draws whose evidence is for gates",
                    0.95,
                    (gain > 0).mean(),
                    "",
                    True,
                ),
            ]
        else:
            what = f"gates, nothing local, noise {noise:g}: log evidence lost"
            made.append(claim(what, LOST, -gain.mean(), " nats"))
    return made


def table(by_setting: dict[tuple[str, float], list[dict[str, Any]]]) -> str:
    """Means over the draws of each design."""
    body = []
    for (design, noise), rows in by_setting.items():
        gain = gains(rows)
        evidences = (f"{mean_of(rows, name, 'log_evidence'):.1f}" for name in ("plain", "gated"))
        accuracies = (f"{mean_of(rows, name, 'accuracy'):.3f}" for name in ("plain", "gated"))
        body.append([
            f"{design}, noise {noise:g}", *evidences, mean_and_std(gain, 1), f"{(gain > 0).sum()} of {len(rows)}",
            *accuracies, f"{rows[0]['bayes_accuracy']:.3f}", f"{np.mean([row['share'] for row in rows]):.2f}",
        ])  # fmt: skip
    headers = [
        "design", "log evidence", "with gates", "difference", "for gates", "accuracy", "with gates", "best possible",
        "share of gated kernels",
    ]  # fmt: skip
    return markdown_table(headers, body)


def main() -> None:
    options = begin(__doc__)
    n_draws, n_train, n_new = (1, 60, 100) if options.fast else (20, 200, 500)
    inference: str | Marginal = Marginal(n_points=100, n_draws=100) if options.fast else "marginal"
    by_setting = {}
    with threadpool_limits(1), quietly():
        for design, noise in SETTINGS:
            by_setting[design, noise] = [
                compare(design, noise, seed, n_train, n_new, inference) for seed in range(n_draws)
            ]
    rows = [row for own in by_setting.values() for row in own]
    made = [] if options.fast else claims(by_setting)
    finish(options, "gates", table(by_setting), {"rows": rows, "claims": made})


if __name__ == "__main__":
    main()
