"""One evidence of marginal inference with its gradient against what it cannot do without.

Alone means: LAPACK's `potrf` and `potri` of one N x N matrix for every step of the sites, the stack's `combine`
and `frobenius` once, and for the paper's process (Weighted) two products N x N x N. All times are medians of
processor time on one BLAS thread, of rounds that time everything in turn, each right after a call of its own that
fills caches. Asked: at most 1.5 times the sum of its parts, and in the median at most 6 steps where sites start from
those of a point nearby, on the way to the mode and among draws of hyperparameters.

    python benchmarks/marginal_cost.py            wdbc, 398 samples, 6 and 13 kernels
    python benchmarks/marginal_cost.py --fast     80 samples, 3 kernels
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _protocol import load, split
from _report import begin, claim, finish, markdown_table
from sklearn.preprocessing import StandardScaler
from sweep_cost import inverse
from threadpoolctl import threadpool_limits

from bayesmkl import KernelBank
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal.covariances import Additive, Weighted, kernel_units
from bayesmkl.marginal.evidence import ep_evidence, exact_evidence, laplace_evidence
from bayesmkl.marginal.hyperposterior import Hypermodel, draw_importance, evaluate, evaluate_slope
from bayesmkl.marginal.hyperpriors import HalfT, LogNormal, StudentT
from bayesmkl.marginal.likelihoods import Gaussian as GaussianNoise
from bayesmkl.marginal.likelihoods import Probit
from bayesmkl.marginal.modes import find_mode

ASKED, ASKED_STEPS = 1.5, 6
INFERENCES = {
    "exact": (exact_evidence, GaussianNoise()),
    "EP": (ep_evidence, Probit()),
    "Laplace": (laplace_evidence, Probit()),
}
N_ROUNDS = 25
N_DRAWS, FAST_DRAWS = 400, 120
MOVE = 0.05  # of every coordinate, from the point whose sites are known


def models(stack: DenseStack, y: np.ndarray) -> dict[str, Hypermodel]:
    """Both processes with every inference."""
    covariances = {
        "additive": (Additive(stack, kernel_units(stack), 3.0), HalfT(4.0, 2.0)),
        "weighted": (Weighted(stack, 0.3, 3.0), StudentT(2.0, 1.0 / np.sqrt(stack.n_kernels))),
    }
    return {
        f"{process}, {name}": Hypermodel(covariance, likelihood, y[None], prior, LogNormal(), evidence)
        for process, (covariance, prior) in covariances.items()
        for name, (evidence, likelihood) in INFERENCES.items()
    }


def seconds_in_turn(*functions: Callable[[], object]) -> list[float]:
    """Median processor time of a call of each, warm."""
    times = np.empty((N_ROUNDS, len(functions)))
    for row in times:
        for k, function in enumerate(functions):
            function()
            start = time.process_time()
            function()
            row[k] = time.process_time() - start
    return [float(seconds) for seconds in np.median(times, axis=0)]


def cost(model: Hypermodel) -> dict[str, Any]:
    """Seconds of a warm evaluation with gradient, and of its parts."""
    stack, at = model.covariance.stack, np.full(model.n_coordinates, 0.3)
    start = evaluate(model, at, None)[0].sites
    near = at + MOVE
    n_steps = int(evaluate(model, near, start)[1][0].n_steps)
    weights, _ = model.values(near)
    matrix = np.asfortranarray(model.covariance.matrix(weights) + np.eye(stack.n_train))
    seconds, *alone = seconds_in_turn(
        lambda: evaluate_slope(model, near, start),
        lambda: inverse(matrix),
        lambda: stack.combine(weights),
        lambda: stack.frobenius(matrix),
        lambda: matrix @ matrix,
    )
    n_products = 2 if isinstance(model.covariance, Weighted) else 0
    counts = {"steps": n_steps, "combine": 1, "frobenius": 1, "products": n_products}
    parts = {name: counts[name] * one for name, one in zip(counts, alone, strict=True)}
    return {"seconds": seconds, "steps": n_steps, "parts": parts, "ratio": seconds / sum(parts.values())}


def counted(model: Hypermodel, n_draws: int) -> dict[str, Any]:
    """Steps of every evaluation on the way to the mode and among draws, and what the draws are worth."""
    steps: list[int] = []

    def counting(*args: Any, **kwargs: Any) -> Any:
        found = model.evidence(*args, **kwargs)
        steps.append(int(found.n_steps))
        return found

    watched = model._replace(evidence=counting)
    mode = find_mode(watched)
    climb, steps[:] = list(steps), []
    draws = draw_importance(watched, mode, n_draws, np.random.default_rng(0))
    return {
        "climb": float(np.median(climb)),
        "draws": float(np.median(steps)),
        "n_climb": len(climb),
        "ess": draws.ess,
        "pareto_k": draws.pareto_k,
    }


def compare(X: np.ndarray, y: np.ndarray, bank: KernelBank, fast: bool) -> list[dict[str, Any]]:
    """Every inference of both processes on one bank."""
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(bank.fit_transform(X), -1, 0)))
    rows = []
    for name, model in models(stack, y).items():
        row = {"model": name, "samples": stack.n_train, "kernels": stack.n_kernels, **cost(model)}
        if name in ("additive, EP", "weighted, EP"):
            row |= counted(model, FAST_DRAWS if fast else N_DRAWS)
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Costs, and steps where they were counted."""
    headers = ["N, P, model", "ms", "steps", "of all parts alone", "climb: steps", "draws: steps", "ESS", "k"]
    cells = []
    for row in rows:
        about = ["climb", "draws", "ess", "pareto_k"]
        counts = [f"{row[key]:.3g}" for key in about] if "ess" in row else [""] * len(about)
        size = f"{row['samples']}, {row['kernels']}, {row['model']}"
        cells.append([size, f"{1e3 * row['seconds']:.1f}", row["steps"], f"{row['ratio']:.2f}", *counts])
    return markdown_table(headers, cells)


def main() -> None:
    options = begin(__doc__)
    X, y = load("wdbc")
    X, _, y, _ = split(X, y, 80 if options.fast else 398, seed=0)
    X = StandardScaler().fit_transform(X)
    y = np.where(y > 0, 1.0, -1.0)
    views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
    banks = [KernelBank([Linear()], views=views)]
    if not options.fast:
        widths = [2.0**k for k in range(-1, 5)]
        banks = [
            KernelBank([Gaussian(width=1), Gaussian(width=4)], views=views),
            KernelBank(
                [*(Gaussian(width=w) for w in widths), *(Gaussian(width=3 * w) for w in widths), Linear()]
            ),
        ]
    with threadpool_limits(1):
        rows = [row for bank in banks for row in compare(X, y, bank, options.fast)]
    claims = []
    for row in rows if not options.fast else []:  # so small a problem is mostly the interpreter
        size = f"{row['samples']} samples, {row['kernels']} kernels, {row['model']}"
        claims.append(claim(f"evidence with gradient over its parts alone; {size}", ASKED, row["ratio"]))
        if "ess" in row:
            claims.append(claim(f"median steps on the way to the mode; {size}", ASKED_STEPS, row["climb"]))
            claims.append(claim(f"median steps among draws; {size}", ASKED_STEPS, row["draws"]))
    finish(options, "marginal_cost", table(rows), {"rows": rows, "claims": claims})


if __name__ == "__main__":
    main()
