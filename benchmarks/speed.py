"""BEMKL against its own equations in plain NumPy: time, sweeps and memory to the same bound, and to convergence.

The plain loop is `benchmarks/_plain_loop.py`, 200 iterations as in the paper, at the better of one and all BLAS
threads. The package runs the same sweeps on dense kernels, then its accelerated loop on dense and on compressed
ones; the compression is counted. All start at the same point, with all kernels evaluated. The last column is the
largest memory that a fit from samples, kernels included, adds to a new process.

    python benchmarks/speed.py               wdbc with 403 and with 130 kernels, waveform with 1000: 10 minutes
    python benchmarks/speed.py --case wdbc-130
    python benchmarks/speed.py --table       default models beside peers, by the number of samples: a minute
    python benchmarks/speed.py --table --large            and with 1000 and 2000 samples
    python benchmarks/speed.py --fast        120 samples, 39 kernels
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _machine import Machine, measure
from _memory import MB, alone, peak_of
from _plain_loop import as_state, fit_plain
from _protocol import deterministic_start, problem_of
from _report import claim, finish, markdown_table, parser
from _speed_cases import Case, cases
from _speed_table import run as run_table
from _speed_table import table as table_of_users
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factored import compress_each

N_PLAIN, FAST_PLAIN = 200, 50
TRIAL = 5  # iterations that choose the number of threads
MAX_ITER = 5000
REPEATS = 3
ENOUGH = 30.0  # seconds: what takes longer is not repeated
SAME_BOUND = 1e-6  # relative: the loops are the same up to rounding
PLAIN = "plain NumPy loop"
WAYS = {"dense": "accelerated, dense kernels", "compressed": "accelerated, compressed kernels"}


def plain_loop(case: Case, stack: DenseStack, n_iter: int, machine: Machine) -> dict[str, Any]:
    """Time of the plain loop, and the bound of what it ends with."""

    def seconds(n: int, threads: int) -> tuple[float, Any]:
        start = time.perf_counter()
        with threadpool_limits(threads):
            factors = fit_plain(stack.kernels, case.y, n)
        return time.perf_counter() - start, factors

    choices = sorted({1, machine.blas_threads})
    threads = min(choices, key=lambda count: seconds(TRIAL, count)[0]) if len(choices) > 1 else 1
    took, factors = seconds(n_iter, threads)
    problem = problem_of(stack, stack.gram(), case.y, "nonsparse")
    bound = float(bemkl.elbo(problem, as_state(factors, case.y)))
    return {"seconds": took, "sweeps": n_iter, "elbo": bound, "threads": threads, "nbytes": stack.nbytes}


def package_loop(
    case: Case, build: Callable[[], Any], options: LoopOptions, target: float | None
) -> dict[str, Any]:
    """Time of a fit from kernels: the stack, its gram, the sweeps; and when it passed the bound `target`."""
    clock: dict[int, float] = {}
    start = time.perf_counter()
    stack = build()
    built = time.perf_counter() - start
    problem = problem_of(stack, stack.gram(), case.y, "nonsparse")
    result = maximize_elbo(
        bemkl,
        problem,
        deterministic_start(problem),
        options,
        lambda n, elbo: clock.update({n: time.perf_counter() - start}),
    )
    row = {
        "seconds": time.perf_counter() - start,
        "seconds_to_build": built,
        "sweeps": result.n_iter,
        "elbo": float(result.elbo_history[-1]),
        "outcome": result.outcome.name,
        "nbytes": stack.nbytes,
    }
    if target is not None and row["elbo"] >= target:
        reached = int(np.argmax(result.elbo_history >= target)) + 1
        row |= {"sweeps_to_elbo": reached, "seconds_to_elbo": clock[reached]}
    return row


def whole_fit(case: Case, storage: str) -> dict[str, Any]:
    """Time and memory of the estimator, from samples to a converged fit; to be called in a new process."""
    model = BEMKLClassifier(
        case.bank, tol=case.tol, max_iter=MAX_ITER, storage=storage, margin=1.0, intermediate_scale=1.0
    )
    start = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):  # on kernels that are unlikely to help
        _, peak = peak_of(lambda: model.fit(case.X, case.y))
    return {
        "seconds": time.perf_counter() - start,
        "sweeps": int(model.n_iter_),
        "converged": model.converged_,
        **peak._asdict(),
    }


def compare(case: Case, fast: bool, machine: Machine) -> dict[str, Any]:
    """Every way to fit one problem, one after the other, the short ones several times."""
    n_iter = FAST_PLAIN if fast else N_PLAIN
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(case.bank.fit_transform(case.X), -1, 0)))
    plain = plain_loop(case, stack, n_iter, machine)
    same = LoopOptions(max_iter=n_iter, tol=0.0, accelerate=False)
    to_end = LoopOptions(max_iter=MAX_ITER, tol=case.tol)
    # plain loops end on the same bound, up to the rounding of other orders of summation
    target = plain["elbo"] - SAME_BOUND * abs(plain["elbo"])
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "sweeps": partial(package_loop, case, lambda: stack, same, target),
        "dense": partial(package_loop, case, lambda: stack, to_end, plain["elbo"]),
        "compressed": partial(
            package_loop, case, lambda: compress_each(stack.kernels), to_end, plain["elbo"]
        ),
    }
    best: dict[str, dict[str, Any]] = {}
    for k in range(1 if fast else REPEATS):
        if k > 0 and plain["seconds"] < ENOUGH:
            plain = min(plain, plain_loop(case, stack, n_iter, machine), key=lambda r: r["seconds"])
        for name, run in runs.items():
            if name not in best or best[name]["seconds"] < ENOUGH:
                row = run()
                best[name] = min(best.get(name, row), row, key=lambda r: r["seconds"])
    here = (lambda function, *arguments: function(*arguments)) if fast else alone
    fits = {storage: here(whole_fit, case, storage) for storage in WAYS}
    off = abs(best["sweeps"]["elbo"] / plain["elbo"] - 1.0)
    if off > SAME_BOUND:
        raise AssertionError(f"{case.name}: the bounds of both plain loops differ by {off:.1e}, relative.")
    shape = {"kernels": stack.n_kernels, "samples": stack.n_train, "tol": case.tol}
    return {"case": case.name, "title": case.title, **shape, "plain": plain, **best, "fits": fits}


def claims_of(case: Case, found: dict[str, Any]) -> list[dict[str, Any]]:
    """What is asked of this case."""
    plain, short, fit = found["plain"]["seconds"], found["compressed"], found["fits"]["compressed"]
    name = f"{found['title']}, {found['kernels']} kernels, {found['samples']} samples: "
    to_elbo, end = short.get("seconds_to_elbo"), f"to a relative change of {case.tol:g}"
    n_iter = found["plain"]["sweeps"]
    asked = []
    if case.share_to_elbo is not None:
        share = None if to_elbo is None else to_elbo / plain
        asked.append(claim(f"{name}share of the plain loop's time to its bound", case.share_to_elbo, share))
    if case.share_to_end is not None:
        text = f"{name}{end}, share of the time of {n_iter} plain iterations"
        asked.append(claim(text, case.share_to_end, short["seconds"] / plain))
    if case.seconds_to_end is not None:
        seconds = fit["seconds"] if fit["converged"] else None
        asked.append(claim(f"{name}from samples, {end}", case.seconds_to_end, seconds, " s"))
    if case.megabytes is not None and fit["process"] is not None:
        asked.append(claim(f"{name}memory of the process", case.megabytes, fit["process"] / MB, " MB"))
    return asked


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of all ways on all problems."""
    lines = []
    for found in rows:
        plain = found["plain"]
        n_iter = plain["sweeps"]
        label = f"{found['title']}, {found['kernels']} kernels, {found['samples']} samples"
        lines.append([f"**{label}**"] + [""] * 7)
        lines.append([PLAIN, n_iter, _s(plain["seconds"]), "1", "", "", _mb(plain["nbytes"]), ""])
        same = found["sweeps"]
        share = f"{same['seconds'] / plain['seconds']:.3f}"
        lines.append(
            ["the same sweeps here", n_iter, _s(same["seconds"]), share, "", "", _mb(same["nbytes"]), ""]
        )
        for name, way in WAYS.items():
            row, fit = found[name], found["fits"][name]
            reached = row.get("seconds_to_elbo")
            to_elbo = (
                [row["sweeps_to_elbo"], _s(reached), f"{reached / plain['seconds']:.3f}"]
                if reached is not None
                else ["never", "–", "–"]
            )
            to_end = [row["sweeps"], _s(row["seconds"])]
            lines.append([way, *to_elbo, *to_end, _mb(row["nbytes"]), _mb(fit["added"])])
    headers = ["", "sweeps to the bound", "seconds", "of plain", "sweeps to the end", "seconds"]
    return markdown_table([*headers, "kernels, MB", "whole fit, MB"], lines)


def _s(seconds: float) -> str:
    return f"{seconds:.3g}"


def _mb(n_bytes: float | None) -> str:
    return "–" if n_bytes is None else f"{n_bytes / MB:.0f}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--case", help="one problem alone")
    options.add_argument("--table", action="store_true", help="default models beside peers alone")
    options.add_argument("--large", action="store_true", help="with 1000 and 2000 samples, too")
    chosen = options.parse_args()
    all_cases = cases(chosen.fast)
    names = [case.name for case in all_cases]
    if chosen.case and chosen.case not in names:
        options.error(f"--case must be one of {', '.join(names)}; got {chosen.case}.")
    wanted = [case for case in all_cases if chosen.case in (None, case.name)]
    machine = measure(chosen.fast)
    print(machine.report() + "\n")
    if chosen.table:
        found = run_table(chosen.fast, chosen.large)
        finish(chosen, "speed_table", table_of_users(found), {"machine": machine._asdict(), "rows": found})
        return
    rows = [compare(case, chosen.fast, machine) for case in wanted]
    claims = [c for case, found in zip(wanted, rows, strict=True) for c in claims_of(case, found)]
    ends = ", ".join(f"{row['tol']:g} ({row['title']}, {row['kernels']} kernels)" for row in rows)
    text = (
        f"The bound is that of {rows[0]['plain']['sweeps']} plain iterations; the end is a relative change of it "
        f"below {ends}. Times count everything from dense kernels on, the compression too; the whole fit begins with "
        f"samples.\n\n{table(rows)}"
    )
    finish(chosen, "speed", text, {"machine": machine._asdict(), "rows": rows, "claims": claims})


if __name__ == "__main__":
    main()
