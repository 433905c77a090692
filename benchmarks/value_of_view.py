"""Does the predicted value of a view rank samples as the realized one does?

A score of three views of one feature each, the second of which depends on the first, gives labels; views of 250
training samples are absent at random in 15 %. Of new samples one view is hidden in turn, `value_of_view` says by how
much measuring it would change the log loss, and then it is shown. One realized change depends on one label: changes
are averaged in 20 bins of samples and views by falling prediction.

    python benchmarks/value_of_view.py           5 data sets with 1500 new samples each
    python benchmarks/value_of_view.py --fast    one small one
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from _machine import measure
from _posteriors import quietly
from _report import claim, finish, markdown_table, parser
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import value_of_view

N_BINS, ABSENT = 20, 0.15


def losses(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of every sample."""
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y.astype(int)])


def simulate(seed: int, n_train: int, n_new: int, inference: str | Marginal) -> dict[str, Any]:
    """Return rank correlations of predicted and realized changes in bins, and mean changes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_train + n_new, 3))
    X[:, 1] += 0.6 * X[:, 0]
    score = 1.5 * np.sin(1.5 * X[:, 0]) + 1.5 * X[:, 1] + 0.7 * (X[:, 2] ** 2 - 1.0)
    y = score + rng.standard_normal(len(X)) > 0.0
    train, new = X[:n_train].copy(), X[n_train:]
    absent = rng.random(train.shape) < ABSENT
    absent[absent.all(axis=1)] = False
    train[absent] = np.nan
    bank = KernelBank(["rbf"], views="each")
    model = GPMKLClassifier(bank, missing_views="integrate", inference=inference, random_state=seed)
    model.fit(train, y[:n_train])
    complete, tables = losses(model, new, y[n_train:]), []
    labels = model.predict(new)
    for v in range(3):
        hidden = new.copy()
        hidden[:, v] = np.nan
        table = value_of_view(model, hidden)
        table["realized"] = complete - losses(model, hidden, y[n_train:])
        table["flipped"] = labels != model.predict(hidden)
        tables.append(table)
    table = pd.concat(tables)
    return {
        "log_loss": in_bins(table["log_loss_change"].to_numpy(), table["realized"].to_numpy()),
        "decision": in_bins(table["decision_change"].to_numpy(), table["flipped"].to_numpy(float)),
        "predicted": float(table["log_loss_change"].mean()),
        "realized": float(table["realized"].mean()),
    }


def in_bins(predicted: np.ndarray, realized: np.ndarray) -> float:
    """Return the rank correlation of means in bins of equal size."""
    bins = np.array_split(np.argsort(predicted, kind="stable"), N_BINS)
    return float(spearmanr([predicted[i].mean() for i in bins], [realized[i].mean() for i in bins])[0])


def claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare with what was asked for."""
    least = min(row["log_loss"] for row in rows)
    what = "value of a view: rank correlation with the change of log loss, 20 bins"
    return [claim(what, 0.8, least, at_least=True)]


def main() -> None:
    options = parser(__doc__).parse_args()
    print(measure(options.fast).report() + "\n")
    n_sets, n_train, n_new = (1, 60, 100) if options.fast else (5, 250, 1500)
    inference: str | Marginal = Marginal(n_points=100, n_draws=100) if options.fast else "marginal"
    with threadpool_limits(1), quietly():
        rows = [simulate(seed, n_train, n_new, inference) for seed in range(n_sets)]
    body = [
        [seed, *(f"{row[key]:.2f}" for key in ("log_loss", "decision")),
         *(f"{row[key]:.3f}" for key in ("predicted", "realized"))]
        for seed, row in enumerate(rows)
    ]  # fmt: skip
    headers = ["data set", "rank correlation, log loss", "changed label", "predicted mean change", "realized"]
    made = claims(rows)
    finish(options, "value_of_view", markdown_table(headers, body), {"rows": rows, "claims": made})


if __name__ == "__main__":
    main()
