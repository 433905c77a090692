"""Time of one plain fit of 200 sweeps against the time that reading the kernels would take.

A sweep must read the stack twice (once for K_m a, once for sum_m K_m' g_m). The yardstick is 200 x 2 x the size of
the stack divided by the read rate that this machine shows in the same run; the fit includes sum_m K_m' K_m, which
is computed once. Asked: at most 4 times the yardstick for 400 samples and 130 kernels on two cores.

    python benchmarks/fit_time.py               wdbc, 400 samples, 13 kernels on all of 9 features and on each
    python benchmarks/fit_time.py --fast        100 samples, 26 kernels
"""

from __future__ import annotations

import cProfile
import pstats
import time
from typing import Any

import numpy as np
from _machine import FAST_STREAM_BYTES, STREAM_BYTES, best_seconds, measure, read_rate
from _protocol import deterministic_start, load, paper_kernels, problem_of, split
from _report import claim, finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.kernels.stacks.dense import DenseStack

N_SWEEPS, FAST_SWEEPS = 200, 50
ASKED = 4.0
REPEATS = 3
TOO_SLOW = 20.0  # seconds
# (function, caller or None for all callers, what it is)
PARTS = [
    ("adjoint", None, "read 1: sum_m K_m' g_m"),
    ("apply", None, "read 2: K_m a"),
    ("spd_inverse", "update_dual", "factorize N x N, q(a)"),
    ("spd_inverse", "update_intermediate", "factorize P x P, q(G)"),
    ("spd_inverse", "update_readout", "factorize (P+1) x (P+1), q(b, e)"),
    ("readout_design", None, "E[G G'], a product P x N x P"),
    ("truncated_moments", None, "truncated normals, q(f)"),
    ("elbo", None, "the bound"),
]


def fit(stack: DenseStack, y: np.ndarray, options: LoopOptions) -> Any:
    """What `BEMKLClassifier.fit` does with kernels that are given."""
    problem = problem_of(stack, stack.gram(), y, "nonsparse")
    return maximize_elbo(binary, problem, deterministic_start(problem), options)


def profile(stack: DenseStack, y: np.ndarray, options: LoopOptions) -> dict[str, float]:
    """Share of the sweeps' time in each of `PARTS`, from a profile of one fit."""
    problem = problem_of(stack, stack.gram(), y, "nonsparse")
    profiler = cProfile.Profile()
    profiler.runcall(maximize_elbo, binary, problem, deterministic_start(problem), options)
    functions = pstats.Stats(profiler).stats  # (file, line, name) -> (calls, _, own, cumulative, callers)
    total = max(entry[3] for entry in functions.values())
    shares = {}
    for name, caller, label in PARTS:
        seconds = 0.0
        for (_, _, function), (_, _, _, cumulative, callers) in functions.items():
            if function == name:
                by_caller = {key[2]: entry[3] for key, entry in callers.items()}
                seconds += cumulative if caller is None else by_caller.get(caller, 0.0)
        shares[label] = seconds / total
    shares["everything else (products with P x P, copies)"] = 1.0 - sum(shares.values())
    return shares


def timed(
    stack: DenseStack, y: np.ndarray, options: LoopOptions, threads: list[int], stream: int
) -> list[dict[str, float]]:
    """Fits with each number of BLAS threads, and the best read rate of all that were measured between them."""
    source = stack.kernels.reshape(-1)
    source = np.concatenate([source] * max(1, stream // source.nbytes))
    runs: list[dict[str, float]] = []
    rate = read_rate(source, max(threads))
    for n_threads in threads * REPEATS:
        if any(run["threads"] == n_threads and run["seconds"] > TOO_SLOW for run in runs):
            continue  # once is enough
        start = time.perf_counter()
        with threadpool_limits(n_threads):
            fit(stack, y, options)
        runs.append({"threads": n_threads, "seconds": time.perf_counter() - start})
        rate = max(rate, read_rate(source, max(threads)))
    yardstick = 2 * options.max_iter * stack.nbytes / 1e9 / rate
    return [run | {"read_gb_s": rate, "ratio": run["seconds"] / yardstick} for run in runs]


def main() -> None:
    options = parser(__doc__).parse_args()
    n, n_features = (100, 1) if options.fast else (400, 9)
    X, y = load("wdbc")
    X_train, _, y_train, _ = split(X[:, :n_features], y, n, seed=0)
    machine = measure(options.fast)
    threads = [1] if options.fast else sorted({1, machine.cores})
    start = time.perf_counter()
    stack = DenseStack(np.moveaxis(paper_kernels().fit_transform(X_train), -1, 0))
    bank_seconds = time.perf_counter() - start
    n_sweeps = FAST_SWEEPS if options.fast else N_SWEEPS
    plain = LoopOptions(max_iter=n_sweeps, tol=0.0, accelerate=False)

    runs = timed(stack, y_train, plain, threads, stream=FAST_STREAM_BYTES if options.fast else STREAM_BYTES)
    best = min(runs, key=lambda run: run["ratio"])
    yardstick = best["seconds"] / best["ratio"]
    with threadpool_limits(best["threads"]):
        gram_seconds = best_seconds(stack.gram, repeats=3)
        shares = profile(stack, y_train, plain)
    jax_seconds = jax_fit_seconds(stack, y_train, plain)

    rows = [[f"fit, NumPy, {t} BLAS thread{'s' * (t > 1)}", *_ratios(runs, t)] for t in threads]
    rows += [
        ["of it `gram`, once", f"{gram_seconds / yardstick:.2f}", ""],
        ["fit, JAX on the CPU, compiled before", f"{jax_seconds / yardstick:.2f}", ""],
        ["evaluating the kernels, before the fit", f"{bank_seconds / yardstick:.2f}", ""],
    ]
    parts = sorted(shares.items(), key=lambda item: -item[1])
    text = (
        f"{stack.n_kernels} kernels, {stack.n_train} samples, {n_sweeps} plain sweeps. The yardstick, "
        f"{2 * n_sweeps} reads of {stack.nbytes / 1e6:.0f} MB at {best['read_gb_s']:.1f} GB/s, is 1; asked of the "
        f"fit: at most {ASKED:g}.\n\n"
        + markdown_table(["", "times the yardstick", "all runs"], rows)
        + "\n\n"
        + markdown_table(["part of a sweep", "share"], [[name, f"{share:.0%}"] for name, share in parts])
    )
    print(machine.report() + f"\n         yardstick {yardstick:.2f} s, fit {best['seconds']:.2f} s\n")
    numbers = {"machine": machine._asdict(), "runs": runs, "shares": shares, "jax": jax_seconds / yardstick}
    what = f"{n_sweeps} plain sweeps over the time of their reads; {stack.n_kernels} kernels, {stack.n_train} samples"
    numbers["claims"] = [claim(what, ASKED, best["ratio"])]
    finish(options, "fit_time", text, numbers)


def jax_fit_seconds(stack: DenseStack, y: np.ndarray, options: LoopOptions) -> float:
    """One fit on JAX, without its compilation (all sweeps share one compiled function per `maximize_elbo`)."""
    clock: dict[int, float] = {}
    problem = problem_of(stack, stack.gram(), y, "nonsparse")
    maximize_elbo(
        binary,
        problem,
        deterministic_start(problem),
        options._replace(backend="jax"),
        lambda n_sweeps, elbo: clock.setdefault(n_sweeps, time.perf_counter()),
    )
    first, last = min(clock), max(clock)
    return (clock[last] - clock[first]) * options.max_iter / (last - first)


def _ratios(runs: list[dict[str, float]], threads: int) -> list[str]:
    ratios = sorted(run["ratio"] for run in runs if run["threads"] == threads)
    return [f"{ratios[0]:.2f}", ", ".join(f"{ratio:.2f}" for ratio in ratios)]


if __name__ == "__main__":
    main()
