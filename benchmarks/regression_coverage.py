"""Do 95 % intervals of BEMKLRegressor cover 95 % of new targets?

Diabetes (442 samples, 10 features, bundled with scikit-learn), 20 random splits 70/30, standardized features. The
rule "full" carries the whole posterior into the predictive variance; the rule "paper" leaves the variance of the
intermediate outputs out. Asked: "full" covers between 92 % and 98 %.

    python benchmarks/regression_coverage.py         20 splits, 13 kernels on all features and 143 on all and each
    python benchmarks/regression_coverage.py --fast  3 splits, 13 kernels
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _machine import measure
from _report import finish, markdown_table, mean_and_std, parser
from scipy.special import ndtri
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.datasets import load_diabetes
from bayesmkl.kernels import KernelQualityWarning

LEVEL = 0.95
ASKED = (92.0, 98.0)


def evaluate(views: str, seed: int) -> list[dict[str, Any]]:
    """Fit one split and predict by both rules."""
    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    scaler = StandardScaler().fit(X_train)
    start = time.perf_counter()
    model = BEMKLRegressor(KernelBank("paper", views=views))
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # counted below
        # the paper's smallest widths are there on purpose
        warnings.simplefilter("ignore", KernelQualityWarning)
        model.fit(scaler.transform(X_train), y_train)
    seconds = time.perf_counter() - start
    rows = []
    for rule in ("full", "paper"):
        mean, std = model.set_params(predictive=rule).predict(scaler.transform(X_test), return_std=True)
        inside = np.abs(y_test - mean) <= ndtri(0.5 + LEVEL / 2) * std
        rows.append(
            {
                "views": views,
                "kernels": model.n_kernels_in_,
                "split": seed,
                "rule": rule,
                "coverage": 100.0 * float(inside.mean()),
                "r2": float(r2_score(y_test, mean)),
                "nll": -float(norm.logpdf(y_test, mean, std).mean()),
                "width": 2 * ndtri(0.5 + LEVEL / 2) * float(std.mean()),
                "converged": model.converged_,
                "n_iter": int(model.n_iter_),
                "seconds": seconds,
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table: one row per bank and rule."""
    headers = ["kernels, rule", "coverage %", "R²", "NLL (nats)", "mean width", "sweeps", "converged"]
    body = []
    for views, rule in dict.fromkeys((row["views"], row["rule"]) for row in rows):
        cell = [row for row in rows if (row["views"], row["rule"]) == (views, rule)]

        def column(name: str, digits: int, cell: list = cell) -> str:
            return mean_and_std([row[name] for row in cell], digits)

        body.append(
            f"{cell[0]['kernels']}, {rule} | {column('coverage', 1)} | {column('r2', 3)} | "
            f"{column('nll', 3)} | {column('width', 0)} | {column('n_iter', 0)} | "
            f"{sum(row['converged'] for row in cell)}/{len(cell)}"
        )
    return markdown_table(headers, body)


def main() -> None:
    options = parser(__doc__).parse_args()
    n_splits, banks = (3, ["all"]) if options.fast else (20, ["all", "all+each"])
    print(measure(options.fast).report() + "\n")
    with threadpool_limits(1):
        rows = [row for views in banks for seed in range(n_splits) for row in evaluate(views, seed)]
    text = (
        f"diabetes, {n_splits} splits, {LEVEL:.0%} intervals "
        f'(asked of "full": {ASKED[0]:g} to {ASKED[1]:g} %); mean ± standard deviation over splits\n\n{table(rows)}'
    )
    finish(options, "regression_coverage", text, {"rows": rows})


if __name__ == "__main__":
    main()
