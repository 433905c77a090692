"""Table 1 of the BEMKL paper: eight data sets, sparse and non-sparse, published numbers beside ours.

Protocol (Gönen 2012, §6.1): 20 random splits 70/30, features standardized by the training part, Gaussian kernels
of width 2^-3..2^6 and polynomials of degree 1..3 on all features and on each, unit diagonals, 200 plain
iterations, σ_g = 1, prediction by the paper's rule. ν is not stated; we take 1. Beside it a converged fit:
accelerated, stopped at a relative ELBO change of 1e-6 (at most 500 sweeps), with full prediction.

The paper says neither what its Gaussian width means (exp(-d²/2s²), here "2s2", or exp(-d²/s²), "s2"; both are run)
nor when a kernel counts as selected (|e| above each of a grid of thresholds is recorded).

    BAYESMKL_DATA=folder python benchmarks/bemkl_table1.py                    all 20 splits, resumes where it stopped
    BAYESMKL_DATA=folder python benchmarks/bemkl_table1.py --splits 3 --sets sonar,pima --workers 2
    python benchmarks/bemkl_table1.py --report                                the tables, from the committed results
    python benchmarks/bemkl_table1.py --fast                                  a small piece, bundled data only

One JSON line per fit is appended to benchmarks/results/table1.jsonl. All sets finish split 0 before split 1 begins.
The whole run takes several hours on one core.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _machine import measure
from _protocol import SETS, deterministic_start, have_real_data, load, paper_kernels, problem_of, split
from _report import GENERATED, ROOT, finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl.bemkl import binary
from bayesmkl.bemkl.loop import LoopOptions, LoopResult, maximize_elbo
from bayesmkl.bemkl.predict import log_probabilities, predict_score
from bayesmkl.kernels.stack import DenseStack

RESULTS = ROOT / "benchmarks" / "results" / "table1.jsonl"
PRIORS = ("sparse", "nonsparse")
# What is fitted on every split: (width convention, how).
FITS = (("2s2", "paper"), ("s2", "paper"), ("2s2", "converged"))
OPTIONS = {
    "paper": LoopOptions(max_iter=200, tol=0.0, accelerate=False),
    "converged": LoopOptions(max_iter=500, tol=1e-6, accelerate=True),
}
RULES = {"paper": "paper", "converged": "full"}
THRESHOLDS = [round(10.0 ** (-k / 4), 5) for k in range(21)]  # 1 down to 1e-5, on |e| and on |e| / max |e|


# ------------------------------------------------------------------------------------------------------- running


def fit_split(name: str, seed: int, todo: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Fit everything in `todo` (convention, prior, mode) on one split; kernels are computed once."""
    with threadpool_limits(1):
        paper = SETS[name]
        X_train, X_test, y_train, y_test = split(*load(name), paper.n_train, seed)
        rows = []
        for convention in dict.fromkeys(key[0] for key in todo):
            bank = paper_kernels(convention)
            stack = DenseStack(np.moveaxis(bank.fit_transform(X_train), -1, 0))
            assert (stack.n_train, stack.n_kernels) == (paper.n_train, paper.n_kernels), stack.kernels.shape
            gram, test = stack.gram(), DenseStack(bank.row_stack(X_test))
            for _, prior, mode in (key for key in todo if key[0] == convention):
                start = time.perf_counter()
                result = fit(problem_of(stack, gram, y_train, prior), OPTIONS[mode])
                seconds = time.perf_counter() - start
                rows.append(
                    {"set": name, "split": seed, "convention": convention, "prior": prior, "mode": mode}
                    | evaluate(result, test, y_test, RULES[mode])
                    | {"seconds": round(seconds, 2)}
                )
        return rows


def fit(problem: binary.BinaryProblem, options: LoopOptions) -> LoopResult:
    """One fit from the deterministic start."""
    return maximize_elbo(binary, problem, deterministic_start(problem), options)


def evaluate(result: LoopResult, test: DenseStack, y_test: np.ndarray, rule: str) -> dict[str, Any]:
    """Accuracy (%), log loss (nats), kernels above each threshold, and how the loop ended."""
    score = predict_score(test, result.state.dual, result.state.readout, 1.0, rule)
    log_p = log_probabilities(score, 1.0)
    weights = np.abs(result.state.readout.mean[1:])
    return {
        "accuracy": round(100.0 * float(np.mean(np.where(log_p[:, 1] > log_p[:, 0], 1.0, -1.0) == y_test)), 3),
        "log_loss": round(-float(np.mean(np.where(y_test > 0, log_p[:, 1], log_p[:, 0]))), 5),
        "above": [int((weights > t).sum()) for t in THRESHOLDS],
        "above_relative": [int((weights > t * weights.max()).sum()) for t in THRESHOLDS],
        "elbo": round(float(result.elbo_history[-1]), 3),
        "n_iter": result.n_iter,
        "n_rejected": result.n_rejected,
        "outcome": result.outcome.name,
    }


def run(results: Path, names: Iterable[str], splits: int, workers: int) -> None:
    """Fit what is missing in `results`, split by split."""
    done = {key_of(row) for row in read(results)}
    jobs = []
    for seed in range(splits):
        for name in names:
            wanted = [(convention, prior, mode) for convention, mode in FITS for prior in PRIORS]
            todo = [key for key in wanted if (name, seed, *key) not in done]
            if todo:
                jobs.append((name, seed, todo))
    results.parent.mkdir(parents=True, exist_ok=True)
    for rows in completed(jobs, workers):
        with results.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        seconds = sum(row["seconds"] for row in rows)
        print(f"{rows[0]['set']:<11} split {rows[0]['split']:>2}  {len(rows)} fits, {seconds:.0f} s", flush=True)


def completed(jobs: list[tuple], workers: int) -> Iterator[list[dict[str, Any]]]:
    """Results of the jobs in their order, from this process or from several."""
    if workers == 1:
        yield from (fit_split(*job) for job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(fit_split, *zip(*jobs, strict=True)) if jobs else ()


def read(results: Path) -> list[dict[str, Any]]:
    """All fits done so far."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines() if line]


def key_of(row: dict[str, Any]) -> tuple:
    """What identifies a fit."""
    return row["set"], row["split"], row["convention"], row["prior"], row["mode"]


def main() -> None:
    """Run what is asked for, then report."""
    options = parser(__doc__).parse_args()
    run(RESULTS, list(SETS), 20, 1)


if __name__ == "__main__":
    main()
