"""A fit whose kernels are never stored: time, memory, and what an update costs over evaluating the kernels.

Breiman's twonorm, 20 features, written to a Parquet file and read from it by row groups; Gaussians of four widths
on four views of five features each, against landmarks. Every update multiplies by all kernels twice and evaluates
them once, a few rows at a time; asked is at most 1.5 times the time of two evaluations. Evaluations alone are timed
between updates, so that a busy minute slows both.

    python benchmarks/streamed.py              100 000 samples, 256 landmarks, about 15 minutes
    python benchmarks/streamed.py --fast       3000 samples, 32 landmarks
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from _machine import measure
from _memory import MB, alone, peak_of
from _report import claim, finish, markdown_table, parser
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.datasets import make_twonorm, open_rows
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.row_sources import fit_bank_to_rows
from bayesmkl.kernels.stacks.streamed import TILE, StreamedStack, streamed_stack
from bayesmkl.kernels.stacks.tiles import KernelTiles, Room

TOL = 1e-5
N_TEST = 10_000
WIDTHS = (1.0, 2.0, 4.0, 8.0)
ROW_GROUP = 20_000


class Size(NamedTuple):
    """How large the problem is, and how many updates are timed one by one."""

    n_samples: int
    n_landmarks: int
    updates: int
    max_iter: int


FULL, FAST = Size(100_000, 256, 10, 3000), Size(3000, 32, 4, 20)
NAMES = [f"x{k + 1}" for k in range(20)]


def bank(size: Size) -> KernelBank:
    """Return 16 kernels: four widths on four views."""
    views = {f"features {k + 1}-{k + 5}": slice(k, k + 5) for k in range(0, 20, 5)}
    return KernelBank([Gaussian(width=width) for width in WIDTHS], views=views, landmarks=size.n_landmarks)


def write_table(size: Size, folder: str) -> tuple[Path, np.ndarray]:
    """Write the features to a file; return its path and the labels."""
    sample = make_twonorm(size.n_samples, random_state=0)
    path = Path(folder) / "twonorm.parquet"
    pd.DataFrame(sample.data, columns=NAMES).to_parquet(path, row_group_size=ROW_GROUP)
    return path, sample.target


def fit(size: Size, path: Path, y: np.ndarray) -> dict[str, Any]:
    """Fit to convergence, in a process of its own, and predict new samples."""
    model = BEMKLClassifier(
        bank(size), storage="streamed", tol=TOL, max_iter=size.max_iter, margin=1.0, intermediate_scale=1.0
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stated in the table
        _, peak = peak_of(lambda: model.fit(open_rows(path), y))
    seconds = time.perf_counter() - start
    test = make_twonorm(min(N_TEST, size.n_samples), random_state=1)
    start = time.perf_counter()
    accuracy = float(np.mean(model.predict(pd.DataFrame(test.data, columns=NAMES)) == test.target))
    return {
        "seconds": seconds,
        "sweeps": int(model.n_iter_),
        "converged": bool(model.converged_),
        "elbo": float(model.elbo_),
        "peak_bytes": peak.process,
        "added_bytes": peak.added,
        "stack_bytes": model.kernel_bytes_,
        "accuracy": accuracy,
        "predict_rows_per_second": len(test.data) / (time.perf_counter() - start),
    }


def evaluation(stack: StreamedStack, X: np.ndarray) -> Callable[[], None]:
    """Return what evaluates all kernels once, in as many threads as the stack does, and uses them for nothing."""
    n_rows, tiles = max(1, TILE // stack.n_train), KernelTiles(stack.tiles.bank)
    parts, blas = np.array_split(X, stack.threads), ThreadpoolController()
    rooms = [Room(n_rows, stack.n_train) for _ in parts]

    def evaluate(rows: np.ndarray, room: Room) -> None:
        for start in range(0, len(rows), n_rows):
            for _ in tiles.of(rows[start : start + n_rows], room):
                pass

    def evaluate_all() -> None:
        with blas.limit(limits=1), ThreadPoolExecutor(stack.threads) as pool:
            list(pool.map(evaluate, parts, rooms))

    return evaluate_all


def updates(size: Size, path: Path, y: np.ndarray) -> dict[str, Any]:
    """Time the first updates of a fit, and evaluations of the kernels between them."""
    rows = open_rows(path)
    stack = streamed_stack(fit_bank_to_rows(bank(size), rows), rows)
    evaluate = evaluation(stack, rows[:])
    evaluate()
    start = time.perf_counter()
    gram = stack.gram()
    seconds = {"gram": time.perf_counter() - start}
    problem = binary.BinaryProblem(stack, gram, y.astype(float), binary.BinaryPriors(), 1.0, 1.0)
    marks: list[tuple[float, float]] = []  # when an update ended, and when the evaluation after it did

    def evaluate_after(_n: int, _elbo: float) -> None:
        ended = time.perf_counter()
        evaluate()
        marks.append((ended, time.perf_counter()))

    begin = binary.init(problem, np.full(size.n_samples, 0.8))
    options = LoopOptions(max_iter=size.updates + 1, tol=0.0)
    maximize_elbo(binary, problem, begin, options, evaluate_after)
    per_update = [after[0] - before[1] for before, after in pairwise(marks)]
    evaluations = [done - ended for ended, done in marks]
    vector, weights = np.ones(stack.n_train), np.ones((stack.n_kernels, stack.n_rows))
    for name, call in (("apply", lambda: stack.apply(vector)), ("adjoint", lambda: stack.adjoint(weights))):
        start = time.perf_counter()
        call()
        seconds[name] = time.perf_counter() - start
    return seconds | {
        "threads": stack.threads,
        "dense_bytes": stack.dense_nbytes,
        "update": float(np.median(per_update)),
        "evaluation": float(np.median(evaluations)),
        "ratio": float(np.median(per_update) / (2 * np.median(evaluations))),
    }


def table(size: Size, fitted: dict[str, Any], timed: dict[str, Any]) -> str:
    """Markdown table of what was measured."""
    memory = "–" if fitted["peak_bytes"] is None else f"{fitted['peak_bytes'] / MB:.0f} MB"
    ending = "converged" if fitted["converged"] else "not converged"
    rows = [
        ["kernels, if they were stored", f"{timed['dense_bytes'] / MB:.0f} MB"],
        ["what the stack holds at once", f"{fitted['stack_bytes'] / MB:.1f} MB"],
        ["largest memory of the process, imports included", memory],
        [f"fit ({ending} to {TOL:g}, {fitted['sweeps']} sweeps)", f"{fitted['seconds']:.1f} s"],
        [f"one evaluation of all kernels, {timed['threads']} threads", f"{timed['evaluation']:.3f} s"],
        ["one `apply`, one `adjoint`", f"{timed['apply']:.3f} s, {timed['adjoint']:.3f} s"],
        ["`gram`, once", f"{timed['gram']:.2f} s"],
        ["one update, which evaluates them once", f"{timed['update']:.3f} s"],
        ["one update over two evaluations", f"{timed['ratio']:.2f}"],
        ["accuracy on new samples (Bayes: 97.7 %)", f"{fitted['accuracy']:.1%}"],
        ["samples predicted per second", f"{fitted['predict_rows_per_second']:.0f}"],
    ]
    head = f"{size.n_samples} samples, 20 features, {size.n_landmarks} landmarks, {4 * len(WIDTHS)} kernels"
    return markdown_table([head, ""], rows)


def main() -> None:
    options = parser(__doc__).parse_args()
    size = FAST if options.fast else FULL
    machine = measure(options.fast)
    with tempfile.TemporaryDirectory() as folder:
        path, y = write_table(size, folder)
        fitted = fit(size, path, y) if options.fast else alone(fit, size, path, y)
        timed = updates(size, path, y)
    claims = [claim("an update over two evaluations of all kernels", 1.5, timed["ratio"])]
    if not options.fast:
        peak = fitted["peak_bytes"]
        claims += [
            claim(f"fit of {size.n_samples} samples to {TOL:g}", 900, fitted["seconds"], " s"),
            claim("its largest memory", 4.0, None if peak is None else peak / 1e9, " GB"),
        ]
    print(machine.report() + "\n")
    numbers = {"machine": machine._asdict(), "size": size._asdict(), "fit": fitted, "update": timed}
    finish(options, "streamed", table(size, fitted, timed), numbers | {"claims": claims})


if __name__ == "__main__":
    main()
