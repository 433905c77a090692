"""Relevance samples: what a sparse prior on the sample weights keeps, and what it costs.

The paper (Gönen 2012, §3) says that a sparsity-inducing prior on λ leaves few training samples with a weight, as in
a relevance vector machine. Both priors are fitted to convergence on random splits 70/30 (13 kernels on all
features, non-sparse kernel weights). A sample counts as kept when |a_i| exceeds 1 % of the largest; that the others
do not matter is checked by setting their weights to zero and predicting again.

    BAYESMKL_DATA=folder python benchmarks/sample_sparsity.py       wdbc, sonar, pima; 10 splits
    python benchmarks/sample_sparsity.py --fast                     wdbc with 150 training samples, 2 splits
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _machine import measure
from _protocol import (
    KERNEL_PRIORS,
    SETS,
    deterministic_start,
    have_real_data,
    load,
    paper_kernels,
    problem_of,
    split,
)
from _report import finish, markdown_table, mean_and_std, parser
from threadpoolctl import threadpool_limits

from bayesmkl.bemkl.inference.loop import LoopOptions, LoopResult, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.bemkl.reading.predict import log_probabilities, predict_score
from bayesmkl.kernels.stacks.dense import DenseStack

KEPT = 0.01  # of the largest |a_i|
OPTIONS = LoopOptions(max_iter=1000, tol=1e-6)


def fit(stack: DenseStack, y: np.ndarray, sample_prior: str) -> LoopResult:
    """Converged fit with a prior on the sample weights; kernel weights have the non-sparse one."""
    problem = problem_of(stack, stack.gram(), y, "nonsparse")
    problem = problem._replace(priors=problem.priors._replace(sample=KERNEL_PRIORS[sample_prior]))
    return maximize_elbo(binary, problem, deterministic_start(problem), OPTIONS)


def accuracy(score_mean: np.ndarray, y: np.ndarray) -> float:
    """Per cent of scores with the right sign."""
    return 100.0 * float(np.mean(np.where(score_mean > 0, 1.0, -1.0) == y))


def evaluate(name: str, n_train: int, seed: int) -> list[dict[str, Any]]:
    """Both priors on one split."""
    X_train, X_test, y_train, y_test = split(*load(name), n_train, seed)
    bank = paper_kernels(views="all")
    stack, test = (
        DenseStack(np.moveaxis(bank.fit_transform(X_train), -1, 0)),
        DenseStack(bank.row_stack(X_test)),
    )
    rows = []
    for prior in ("nonsparse", "sparse"):
        result = fit(stack, y_train, prior)
        dual, readout = result.state.dual, result.state.readout
        size = np.abs(dual.mean)
        kept = size > KEPT * size.max()
        score = predict_score(test, dual, readout, 1.0, "full")
        log_p = log_probabilities(score, 1.0)
        pruned = readout.mean[0] + readout.mean[1:] @ test.apply(np.where(kept, dual.mean, 0.0))
        rows.append(
            {
                "set": name,
                "n_train": n_train,
                "split": seed,
                "prior": prior,
                "kept": 100.0 * float(kept.mean()),
                "kept_1e-3": 100.0 * float((size > 1e-3 * size.max()).mean()),
                "participation": float(size.sum() ** 2 / (size**2).sum()),
                "accuracy": accuracy(score.mean, y_test),
                "accuracy_pruned": accuracy(pruned, y_test),
                "log_loss": -float(np.mean(np.where(y_test > 0, log_p[:, 1], log_p[:, 0]))),
                "n_iter": result.n_iter,
                "converged": result.outcome.converged,
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table: one row per set and prior."""
    headers = [
        "set, sample prior",
        "N",
        f"kept, |a| > {KEPT:g} max (%)",
        "|a| > 0.001 max (%)",
        "effective number",
    ]
    headers += ["accuracy %", "only the kept %", "log loss", "sweeps", "converged"]
    body = []
    for name, prior in dict.fromkeys((row["set"], row["prior"]) for row in rows):
        cell = [row for row in rows if (row["set"], row["prior"]) == (name, prior)]

        def column(key: str, digits: int, cell: list = cell) -> str:
            return mean_and_std([row[key] for row in cell], digits)

        body.append(
            [f"{name}, {prior}", cell[0]["n_train"]]
            + [
                column(key, 1)
                for key in ("kept", "kept_1e-3", "participation", "accuracy", "accuracy_pruned")
            ]
            + [column("log_loss", 3), column("n_iter", 0)]
            + [f"{sum(row['converged'] for row in cell)}/{len(cell)}"]
        )
    return markdown_table([header.replace("|", "\\|") for header in headers], body)


def main() -> None:
    options = parser(__doc__).parse_args()
    if options.fast or not have_real_data():
        sets, n_splits = {"wdbc": 150 if options.fast else SETS["wdbc"].n_train}, 2 if options.fast else 10
    else:
        sets, n_splits = {name: SETS[name].n_train for name in ("wdbc", "sonar", "pima")}, 10
    print(measure(options.fast).report() + "\n")
    with threadpool_limits(1):
        rows = [
            row for name, n in sets.items() for seed in range(n_splits) for row in evaluate(name, n, seed)
        ]
    text = (
        f"{n_splits} splits, 13 kernels on all features; mean ± standard deviation over splits. The effective number "
        f"is (Σ\\|a\\|)² / Σa²: N if all weights are equally large, 1 if one has it all.\n\n{table(rows)}"
    )
    finish(options, "sample_sparsity", text, {"rows": rows})


if __name__ == "__main__":
    main()
