"""A fit whose kernels are never stored: time, memory, passes over the kernels, and what an update costs over them.

Breiman's twonorm, 20 features, written to a Parquet file and read from it by row groups; Gaussians of four widths
on four views of five features each, against landmarks. Newton steps to a relative gain of 1e-3 are compared with the
same steps to 1e-4, in accuracy, log loss and kernel shares, on 100 000 samples (`gpu.py` compares 1e-4 with 1e-6);
smaller sizes say how the time grows. A pass is one evaluation of all kernels on all rows, of a part of them as much
less.

Every update of coordinate ascent (`VB(step="coordinate")`) multiplies by all kernels twice and evaluates them once, a
few rows at a time; asked is at most 1.5 times the time of two evaluations. Evaluations alone are timed between
updates, so that a busy minute slows both.

    python benchmarks/streamed.py              25 000 to 100 000 samples, 256 landmarks, about 4 minutes
    python benchmarks/streamed.py --million    1 000 000 samples as well
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
from _protocol import N_TWONORM_KERNELS, twonorm_bank
from _report import claim, finish, markdown_table, parser
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl import VB
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.datasets import make_twonorm, open_rows
from bayesmkl.kernels.stacks.streamed import (
    TILE,
    KernelTiles,
    Room,
    StreamedStack,
    fit_bank_to_rows,
    streamed_stack,
)
from bayesmkl.outcomes import Labels

TOL, CONVERGED_TOL = 1e-3, 1e-4
SMALLER = (25_000, 50_000)
MILLION = 1_000_000
N_TEST = 10_000
ROW_GROUP = 20_000


class Size(NamedTuple):
    """How large the problem is, and how many updates are timed one by one."""

    n_samples: int
    n_landmarks: int
    updates: int


FULL, FAST = Size(100_000, 256, 10), Size(3000, 32, 4)
NAMES = [f"x{k + 1}" for k in range(20)]


def write_table(size: Size, folder: str) -> tuple[Path, np.ndarray]:
    """Write the features to a file; return its path and the labels."""
    sample = make_twonorm(size.n_samples, random_state=0)
    path = Path(folder) / "twonorm.parquet"
    pd.DataFrame(sample.data, columns=NAMES).to_parquet(path, row_group_size=ROW_GROUP)
    return path, sample.target


def fit(size: Size, path: Path, y: np.ndarray, tol: float) -> dict[str, Any]:
    """Fit to convergence, in a process of its own, and predict new samples."""
    model = BEMKLClassifier(
        twonorm_bank(size.n_landmarks),
        inference=VB(step="newton"),
        storage="streamed",
        tol=tol,
        margin=1.0,
        intermediate_scale=1.0,
    )
    over_blocks, rows_evaluated = StreamedStack._over_blocks, [0]

    def counting(stack: StreamedStack, work: Callable[..., Any]) -> Any:
        rows_evaluated[0] += stack.n_rows
        return over_blocks(stack, work)

    StreamedStack._over_blocks = counting  # type: ignore[method-assign]
    start, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # stated in the table
        _, peak = peak_of(lambda: model.fit(open_rows(path), y))
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    StreamedStack._over_blocks = over_blocks  # type: ignore[method-assign]
    test = make_twonorm(min(N_TEST, size.n_samples), random_state=1)
    table = pd.DataFrame(test.data, columns=NAMES)
    start = time.perf_counter()
    predicted = model.predict(table)
    rate = len(test.data) / (time.perf_counter() - start)
    own = model.predict_proba(table)[np.arange(len(predicted)), np.searchsorted(model.classes_, test.target)]
    return {
        "n_samples": size.n_samples,
        "tol": tol,
        "seconds": seconds,
        "processor_seconds": processor,
        "iterations": int(model.n_iter_),
        "passes": rows_evaluated[0] / size.n_samples,
        "converged": bool(model.converged_),
        "elbo": float(model.elbo_),
        "peak_bytes": peak.process,
        "added_bytes": peak.added,
        "stack_bytes": model.kernel_bytes_,
        "accuracy": float(np.mean(predicted == test.target)),
        "log_loss": float(-np.log(own).mean()),
        "shares": model.kernel_shares_.tolist(),
        "predict_rows_per_second": rate,
    }


def run(size: Size, tol: float, separate: bool = True) -> dict[str, Any]:
    """Write the rows of a size, and fit them."""
    with tempfile.TemporaryDirectory() as folder:
        path, y = write_table(size, folder)
        found = alone(fit, size, path, y, tol) if separate else fit(size, path, y, tol)
    print(table_of_fits([found]), flush=True)
    return found


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
    stack = streamed_stack(fit_bank_to_rows(twonorm_bank(size.n_landmarks), rows), rows)
    evaluate = evaluation(stack, rows[:])
    evaluate()
    start = time.perf_counter()
    gram = stack.gram()
    seconds = {"gram": time.perf_counter() - start}
    problem = Problem(stack, gram, y.astype(float), Priors(), Labels(1.0), 1.0)
    marks: list[tuple[float, float]] = []  # when an update ended, and when the evaluation after it did

    def evaluate_after(_n: int, _elbo: float) -> None:
        ended = time.perf_counter()
        evaluate()
        marks.append((ended, time.perf_counter()))

    begin = bemkl.init(problem, np.full(size.n_samples, 0.8))
    options = LoopOptions(max_iter=size.updates + 1, tol=0.0)
    maximize_elbo(bemkl, problem, begin, options, evaluate_after)
    per_update = [after[0] - before[1] for before, after in pairwise(marks)]
    evaluations = [done - ended for ended, done in marks]
    vector, weights = np.ones(stack.n_train), np.ones((stack.n_kernels, stack.n_rows))
    calls: dict[str, Callable[[], Any]] = {
        "apply": lambda: stack.apply(vector),
        "adjoint": lambda: stack.adjoint(weights),
        "adjoint_and_mixed_gram": lambda: stack.adjoint_and_mixed_gram(weights, weights[:, 0], weights[0]),
    }
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        seconds[name] = time.perf_counter() - start
    return seconds | {
        "threads": stack.threads,
        "dense_bytes": 8 * stack.n_kernels * stack.n_rows * stack.n_train,
        "update": float(np.median(per_update)),
        "evaluation": float(np.median(evaluations)),
        "ratio": float(np.median(per_update) / (2 * np.median(evaluations))),
    }


def table_of_fits(fits: list[dict[str, Any]]) -> str:
    """Markdown table of the fits."""
    head = (
        "samples | to | ended | iterations | passes | s | of processor | memory | ELBO | accuracy | log loss"
    )
    rows = []
    for own in fits:
        memory = "–" if own["peak_bytes"] is None else f"{own['peak_bytes'] / MB:.0f} MB"
        rows.append(
            f"{own['n_samples']} | {own['tol']:g} | {'converged' if own['converged'] else 'at the limit'} | "
            f"{own['iterations']} | {own['passes']:.1f} | {own['seconds']:.1f} | "
            f"{own['processor_seconds']:.1f} | {memory} | {own['elbo']:.1f} | {own['accuracy']:.2%} | "
            f"{own['log_loss']:.4f}"
        )
    return markdown_table(head, rows)


def table(size: Size, fitted: dict[str, Any], timed: dict[str, Any]) -> str:
    """Markdown table of what was measured of the stack."""
    rows = [
        ["kernels, if they were stored", f"{timed['dense_bytes'] / MB:.0f} MB"],
        ["what the stack holds at once", f"{fitted['stack_bytes'] / MB:.1f} MB"],
        [f"one evaluation of all kernels, {timed['threads']} threads", f"{timed['evaluation']:.3f} s"],
        ["one `apply`, one `adjoint`", f"{timed['apply']:.3f} s, {timed['adjoint']:.3f} s"],
        ["`adjoint_and_mixed_gram`", f"{timed['adjoint_and_mixed_gram']:.3f} s"],
        ["`gram`, once", f"{timed['gram']:.2f} s"],
        ["one update, which evaluates them once", f"{timed['update']:.3f} s"],
        ["one update over two evaluations", f"{timed['ratio']:.2f}"],
        ["samples predicted per second", f"{fitted['predict_rows_per_second']:.0f}"],
    ]
    head = f"{size.n_samples} samples, 20 features, {size.n_landmarks} landmarks, {N_TWONORM_KERNELS} kernels"
    return markdown_table([head, ""], rows)


def claims_of_steps(fits: list[dict[str, Any]], newton: dict[str, Any]) -> list[dict[str, Any]]:
    """What is asked of Newton steps: passes and time, the same answer, and how the time grows."""
    exact = next(own for own in fits if own["tol"] == CONVERGED_TOL)
    same = [own for own in fits if own["tol"] == TOL and own["n_samples"] <= newton["n_samples"]]
    sizes, seconds = (np.log([own[key] for own in same]) for key in ("n_samples", "processor_seconds"))
    shares = np.abs(np.subtract(newton["shares"], exact["shares"])).max()
    asked = [
        claim("fit of 100000 samples by Newton steps", 60, newton["seconds"], " s"),
        claim("its passes over the kernels", 25, newton["passes"]),
        claim("its accuracy off the converged one", 0.001, abs(newton["accuracy"] - exact["accuracy"])),
        claim("its log loss off the converged one", 0.002, abs(newton["log_loss"] - exact["log_loss"])),
        claim("its kernel shares off the converged ones", 0.01, float(shares)),
        claim("exponent of processor time in the samples", 1.05, float(np.polyfit(sizes, seconds, 1)[0])),
    ]
    for own in (own for own in fits if own["n_samples"] == MILLION):
        peak = own["peak_bytes"]
        asked.append(claim("fit of 1000000 samples by Newton steps", 600, own["seconds"], " s"))
        asked.append(claim("its largest memory", 4.0, None if peak is None else peak / 1e9, " GB"))
    return asked


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--million", action="store_true", help="also 1 000 000 samples")
    options = arguments.parse_args()
    size = FAST if options.fast else FULL
    machine = measure(options.fast)
    if options.fast:
        fits = [run(size, TOL, separate=False)]
    else:
        sizes = [*SMALLER, size.n_samples, *([MILLION] if options.million else [])]
        fits = [run(size._replace(n_samples=n), TOL) for n in sizes]
        fits.append(run(size, CONVERGED_TOL))
    newton = next(own for own in fits if own["n_samples"] == size.n_samples)
    with tempfile.TemporaryDirectory() as folder:
        timed = updates(size, *write_table(size, folder))
    claims = [] if options.fast else claims_of_steps(fits, newton)
    claims.append(claim("an update over two evaluations of all kernels", 1.5, timed["ratio"]))
    text = f"{table_of_fits(fits)}\n\n{table(size, newton, timed)}"
    numbers = {"machine": machine._asdict(), "size": size._asdict(), "fits": fits, "update": timed}
    print(machine.report() + "\n")
    finish(options, "streamed", text, numbers | {"claims": claims})


if __name__ == "__main__":
    main()
