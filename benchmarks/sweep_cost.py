"""One update on compressed kernels against the factorizations and products that it cannot do without.

Alone means: LAPACK's `potrf` and `potri` of one N x N, one P x P and one (P+1) x (P+1) matrix, the products P x P x N
and P x N x P, and the stack's `apply` and `adjoint`, each on its own. All times are medians of processor time on one
BLAS thread, as in a fit. Asked: an update, plain or accelerated, takes at most 1.5 times the sum of its parts.

    python benchmarks/sweep_cost.py               wdbc, 398 samples, 403 and 130 kernels
    python benchmarks/sweep_cost.py --fast        120 samples, 39 kernels
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _protocol import deterministic_start, load, paper_kernels, problem_of, split
from _report import begin, claim, finish, markdown_table
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.lowrank import compress

ASKED = 1.5
N_SWEEPS, FAST_SWEEPS = 60, 20
N_CALLS = 25  # of every part in a round
ROUNDS = 3  # of all measurements, so that a busy minute spoils none of them
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


def typical_seconds(function: Callable[[], object]) -> float:
    """Median processor time of a call."""
    times = []
    for _ in range(N_CALLS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return float(np.median(times))


def inverse(matrix: np.ndarray) -> np.ndarray:
    """Invert a positive definite matrix in Fortran order; one triangle of it."""
    factor, _ = lapack.dpotrf(matrix, lower=0, clean=0)
    return lapack.dpotri(factor, lower=0, overwrite_c=1)[0]


def alone(stack: Any, rng: np.random.Generator) -> dict[str, float]:
    """Seconds of everything that an update must do."""
    P, N = stack.n_kernels, stack.n_train

    def spd(size: int) -> np.ndarray:
        root = rng.standard_normal((size, size))
        return np.asfortranarray(root @ root.T / size + np.eye(size))

    large, small, readout = spd(N), spd(P), spd(P + 1)
    outputs, vector = rng.standard_normal((P, N)), rng.standard_normal(N)
    return {
        "invert N x N": typical_seconds(lambda: inverse(large)),
        "invert P x P": typical_seconds(lambda: inverse(small)),
        "invert (P+1) x (P+1)": typical_seconds(lambda: inverse(readout)),
        "product P x P x N": typical_seconds(lambda: small @ outputs),
        "product P x N x P": typical_seconds(lambda: outputs @ outputs.T),
        "apply": typical_seconds(lambda: stack.apply(vector)),
        "adjoint": typical_seconds(lambda: stack.adjoint(outputs)),
    }


def seconds_per_update(problem: binary.BinaryProblem, n_sweeps: int, accelerate: bool) -> float:
    """Median time of an update."""
    options = LoopOptions(max_iter=n_sweeps, tol=0.0, accelerate=accelerate)
    clock: dict[int, float] = {}
    maximize_elbo(
        binary,
        problem,
        deterministic_start(problem),
        options,
        lambda n, elbo: clock.update({n: time.process_time()}),
    )
    return float(np.median(np.diff(list(clock.values()))))


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


def compare(X: np.ndarray, y: np.ndarray, fast: bool) -> dict[str, Any]:
    """Update and parts, in turn."""
    stack = compress(DenseStack(np.moveaxis(paper_kernels().fit_transform(X), -1, 0)))
    problem = problem_of(stack, stack.gram(), y, "nonsparse")
    rng, n_sweeps = np.random.default_rng(0), FAST_SWEEPS if fast else N_SWEEPS
    rounds: list[dict[str, float]] = []
    for _ in range(1 if fast else ROUNDS):
        updates = {
            "plain": seconds_per_update(problem, n_sweeps, False),
            "accelerated": seconds_per_update(problem, n_sweeps, True),
        }
        rounds.append(alone(stack, rng) | updates)
    best = {key: min(row[key] for row in rounds) for key in rounds[0]}
    updates = {key: best.pop(key) for key in ("plain", "accelerated")}
    shares = profile(stack, y, LoopOptions(max_iter=n_sweeps, tol=0.0))
    return {
        "kernels": stack.n_kernels,
        "samples": stack.n_train,
        "alone": best,
        "seconds": updates,
        "shares": shares,
    }


def table(found: dict[str, Any]) -> str:
    """What each part takes alone, and an update as a multiple of their sum."""
    total = sum(found["alone"].values())
    rows = [
        [name, f"{1e3 * seconds:.2f}", f"{seconds / total:.2f}"] for name, seconds in found["alone"].items()
    ]
    rows += [
        [f"**{kind} update**", f"{1e3 * seconds:.2f}", f"**{seconds / total:.2f}**"]
        for kind, seconds in found["seconds"].items()
    ]
    headers = [f"{found['kernels']} kernels, {found['samples']} samples", "ms", "of all parts alone"]
    parts = sorted(found["shares"].items(), key=lambda item: -item[1])
    where = ", ".join(f"{name} {share:.0%}" for name, share in parts)
    return f"{markdown_table(headers, rows)}\n\nA profile of the accelerated loop: {where}."


def main() -> None:
    options = begin(__doc__)
    X, y = load("wdbc")
    n_train, features = (120, [2]) if options.fast else (398, [30, 9])
    X_train, _, y_train, _ = split(X, y, n_train, seed=0)
    with threadpool_limits(1):
        rows = [compare(X_train[:, :count], y_train, options.fast) for count in features]
    claims = [
        claim(
            f"{kind} update over its factorizations and products alone; {row['kernels']} kernels, "
            f"{row['samples']} samples, compressed",
            ASKED,
            seconds / sum(row["alone"].values()),
        )
        for row in rows
        for kind, seconds in row["seconds"].items()
        if not options.fast  # so small a problem is mostly the interpreter
    ]
    numbers = {"rows": rows, "claims": claims}
    finish(options, "sweep_cost", "\n\n".join(table(row) for row in rows), numbers)


if __name__ == "__main__":
    main()
