"""How many updates the accelerated loop and Newton steps save, on two kernel banks of wdbc and both kernel priors.

Plain sweeps (the paper's loop), accelerated ones and Newton steps start at the same point. Printed: the update at
which the accelerated loop passes the ELBO that 200 plain sweeps reach (rejected extrapolations count as updates), the
update at which it stops by its own rule (relative ELBO change below 1e-8 three times in a row), both ELBOs, and the
time. A Newton step reads the kernels twice, as an update does; it ends by its own rule with the same tolerance.
Asked: at most 50 updates non-sparse and 100 sparse for the first, at most 500 non-sparse for the second, and at most
150 Newton steps non-sparse.

    python benchmarks/acceleration.py              N = 398; 13 kernels on all features, and 403 on all and on each
    python benchmarks/acceleration.py --docs       the same, and saves the table and the figure of both curves
    python benchmarks/acceleration.py --fast       N = 150, 13 kernels
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _machine import measure
from _protocol import deterministic_start, load, paper_kernels, problem_of, split
from _report import STATIC, claim, finish, markdown_table, parser
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.inference.newton import maximize_by_newton
from bayesmkl.bemkl.models import binary
from bayesmkl.kernels.stacks.dense import DenseStack

N_PLAIN = 200
N_CURVE = 500  # plain sweeps in the figure
MAX_ITER = 1500
TOL = 1e-8
ASKED = {"nonsparse": 50, "sparse": 100}
ASKED_OPTIMUM = 500
ASKED_STEPS = 150


def curve(problem: binary.BinaryProblem, options: LoopOptions, newton: bool = False) -> dict[str, Any]:
    """ELBO and seconds of processor time after every update, or Newton step."""
    start = time.process_time()
    clock: dict[int, float] = {}

    def on_sweep(n_updates: int, elbo: float) -> None:
        clock[n_updates] = time.process_time() - start

    begin = deterministic_start(problem)
    if newton:
        result = maximize_by_newton(problem, begin, options, on_sweep)
    else:
        result = maximize_elbo(binary, problem, begin, options, on_sweep)
    return {
        "elbo": result.elbo_history,
        "seconds": np.interp(np.arange(1, result.n_iter + 1), list(clock), list(clock.values())),
        "rejected": result.n_rejected,
        "outcome": result.outcome.name,
    }


def compare(stack: DenseStack, gram: np.ndarray, y: np.ndarray, prior: str) -> dict[str, Any]:
    """Both loops and Newton steps on one problem."""
    problem = problem_of(stack, gram, y, prior)
    plain = curve(problem, LoopOptions(max_iter=N_CURVE, tol=0.0, accelerate=False))
    fast = curve(problem, LoopOptions(max_iter=MAX_ITER, tol=TOL, accelerate=True))
    steps = curve(problem, LoopOptions(max_iter=MAX_ITER, tol=TOL), newton=True)
    target = plain["elbo"][N_PLAIN - 1]
    reached = int(np.argmax(fast["elbo"] >= target)) + 1 if fast["elbo"][-1] >= target else None
    seconds = fast["seconds"][reached - 1] / plain["seconds"][N_PLAIN - 1] if reached else None
    return {
        "kernels": stack.n_kernels,
        "samples": stack.n_train,
        "prior": prior,
        "elbo_plain": float(target),
        "updates_to_plain": reached,
        "time_to_plain": seconds,
        "updates_to_optimum": len(fast["elbo"]),
        "outcome": fast["outcome"],
        "elbo_optimum": float(fast["elbo"][-1]),
        "rejected": fast["rejected"],
        "time_to_optimum": fast["seconds"][-1] / plain["seconds"][N_PLAIN - 1],
        "steps_to_optimum": len(steps["elbo"]),
        "steps_outcome": steps["outcome"],
        "elbo_of_steps": float(steps["elbo"][-1]),
        "time_of_steps": steps["seconds"][-1] / plain["seconds"][N_PLAIN - 1],
        "decreases": int(
            sum((np.diff(c["elbo"]) < -1e-9 * np.abs(c["elbo"][1:])).sum() for c in (plain, fast, steps))
        ),
        "curves": {"plain": plain["elbo"], "accelerated": fast["elbo"], "Newton": steps["elbo"]},
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown table; times are shares of the time of 200 plain sweeps."""
    headers = ["kernels, prior", "ELBO of 200 plain", "reached at update", "asked", "time", "ELBO at the end"]
    headers += ["update", "asked", "rejected", "time", "Newton: ELBO", "steps", "asked", "time"]
    body = []
    for row in rows:
        ends = ["" if row[key] == "CONVERGED" else " (not converged)" for key in ("outcome", "steps_outcome")]
        asked = (ASKED_OPTIMUM, ASKED_STEPS) if row["prior"] == "nonsparse" else ("–", "–")
        time_to_plain = f"{row['time_to_plain']:.2f}" if row["updates_to_plain"] else "–"
        body.append(
            f"{row['kernels']}, {row['prior']} | {row['elbo_plain']:.1f} | {row['updates_to_plain'] or 'never'} | "
            f"{ASKED[row['prior']]} | {time_to_plain} | {row['elbo_optimum']:.1f} | "
            f"{row['updates_to_optimum']}{ends[0]} | {asked[0]} | {row['rejected']} | "
            f"{row['time_to_optimum']:.2f} | {row['elbo_of_steps']:.1f} | {row['steps_to_optimum']}{ends[1]} | "
            f"{asked[1]} | {row['time_of_steps']:.2f}"
        )
    return markdown_table(headers, body)


def claims_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is asked of the updates on every bank."""
    claims = []
    for row in rows:
        of = f"{row['kernels']} kernels, {row['prior']}"
        asked, updates = ASKED[row["prior"]], row["updates_to_plain"]
        claims.append(claim(f"updates to the ELBO of {N_PLAIN} plain sweeps; {of}", asked, updates))
        if row["prior"] == "nonsparse":
            end = row["updates_to_optimum"] if row["outcome"] == "CONVERGED" else None
            claims.append(claim(f"updates to a relative change of {TOL:g}; {of}", ASKED_OPTIMUM, end))
            end = row["steps_to_optimum"] if row["steps_outcome"] == "CONVERGED" else None
            claims.append(claim(f"Newton steps to a relative change of {TOL:g}; {of}", ASKED_STEPS, end))
    return claims


def figure(rows: list[dict[str, Any]]) -> Figure:
    """Distance to the best ELBO seen against updates, one panel per bank and prior."""
    figure = Figure(figsize=(9.0, 2.9 * ((len(rows) + 1) // 2)), layout="constrained")
    axes = np.atleast_1d(figure.subplots((len(rows) + 1) // 2, 2, squeeze=False)).ravel()
    for panel, row in zip(axes, rows, strict=False):
        best = max(values.max() for values in row["curves"].values())
        for label, color in (("plain", "0.55"), ("accelerated", "tab:blue"), ("Newton", "tab:red")):
            values = row["curves"][label]
            panel.plot(np.arange(1, len(values) + 1), best - values, label=label, color=color)
        target = best - row["elbo_plain"]
        panel.axhline(target, color="0.8", linewidth=0.8, zorder=0)
        panel.annotate("200 plain", (N_CURVE, target), ha="right", va="bottom", fontsize=8, color="0.4")
        panel.set(yscale="symlog", xlim=(0, N_CURVE), title=f"{row['kernels']} kernels, {row['prior']}")
        panel.set_yscale("symlog", linthresh=1e-3)
        panel.set_ylim(0, None)
    for panel in axes[len(rows) :]:
        panel.set_visible(False)
    for panel in axes[: len(rows)][-2:]:
        panel.set_xlabel("updates")
    for panel in axes[::2]:
        panel.set_ylabel("nats below the best ELBO")
    axes[0].legend(frameon=False)
    return figure


def main() -> None:
    options = parser(__doc__).parse_args()
    n_train, banks = (150, ["all"]) if options.fast else (398, ["all", "all+each"])
    X_train, _, y_train, _ = split(*load("wdbc"), n_train, seed=0)
    print(measure(options.fast).report() + "\n")
    rows = []
    with threadpool_limits(1):  # processor time is then the time of the fit, however busy the machine
        for views in banks:
            stack = DenseStack(np.moveaxis(paper_kernels(views=views).fit_transform(X_train), -1, 0))
            gram = stack.gram()
            rows += [compare(stack, gram, y_train, prior) for prior in ("nonsparse", "sparse")]
    text = (
        f"wdbc, {n_train} samples. Updates include rejected extrapolations; times are processor times relative to "
        f"200 plain sweeps.\n\n{table(rows)}"
    )
    if options.docs:
        STATIC.mkdir(parents=True, exist_ok=True)
        figure(rows).savefig(STATIC / "acceleration.png", dpi=110)
    numbers = [{key: value for key, value in row.items() if key != "curves"} for row in rows]
    finish(options, "acceleration", text, {"rows": numbers, "claims": claims_of(numbers)})
    print(f"\nELBO decreases beyond rounding, all curves: {sum(row['decreases'] for row in rows)}")


if __name__ == "__main__":
    main()
