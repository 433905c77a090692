"""Simulation-based calibration of VB, refined VB, Gibbs and NUTS.

Parameters are drawn from the prior and data from the model (N = 40 fixed points, 4 kernels); then the rank of the
truth among 99 draws from the posterior is uniform if the inference is right (Talts et al. 2018). Ranked are kernel
shares, absolute kernel weights, latent scores at the training points and predictions at 20 new points; why in this
form, and why the margin is zero, `_simulation.py` says. One chain per fit, thinned evenly to 99 draws: VB's are
independent; refined VB has 500 sweeps (every 5th is ranked), Gibbs 1500 (every 15th), NUTS 600 (every 6th). Ranks
of chains with few effective draws pile up at both ends, which is what their intervals suffer from too.

Printed: coverage of the truth by central 50, 80 and 94 % intervals, averaged over the entries of a quantity, with its
Monte Carlo standard error over simulations. Figure: difference between the distribution function of the ranks and the
uniform one, one line for each of four entries, in simultaneous 95 % bands (Säilynoja et al. 2022, by simulation).

NUTS takes the first fifth of the simulations; in regression, where its trajectories are longest, Gibbs stands alone.

    python benchmarks/sbc.py                       200 binary simulations, 100 of regression; 15 minutes
    python benchmarks/sbc.py --simulations 1000    as many as you like
    python benchmarks/sbc.py --fast                3 binary simulations with short chains, without NUTS
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _ranks import GRID, LEVELS, coverage, ecdf_difference, simultaneous_band
from _report import STATIC, begin, finish, markdown_table
from _simulation import INFERENCES, QUANTITIES, draw_posteriors, quantities, simulate, stacks
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

N_RANKED = 99
LENGTHS = {"vb": (0, N_RANKED), "refined": (50, 500), "gibbs": (300, 1500), "nuts": (300, 600)}
FAST_LENGTHS = {"vb": (0, N_RANKED), "refined": (10, 100), "gibbs": (20, 100)}
STYLES = ("-", "--", ":", "-.")


def study(
    task: str, sizes: tuple[int, int], lengths: dict[str, tuple[int, int]], n_train: int = 40
) -> dict[str, Any]:
    """Rank the truth of every simulation under every inference."""
    train, new = stacks(n_train, 20)
    ranks: dict[tuple[str, str], list[np.ndarray]] = {}
    seconds: dict[str, list[float]] = {}
    ess: dict[str, list[float]] = {}
    for i in range(sizes[0]):
        rng = np.random.default_rng([i, len(task)])
        case = simulate(task, train, new, rng)
        truth = quantities(case, case.truth, rng, case.y_new)
        chosen = {name: value for name, value in lengths.items() if name != "nuts" or i < sizes[1]}
        for name, (draws, took, effective) in draw_posteriors(case.problem, chosen, rng).items():
            kept = np.arange(N_RANKED) * len(draws.dual) // N_RANKED
            thinned = draws.map(lambda values, kept=kept: values[kept])
            for quantity, values in quantities(case, thinned, rng).items():
                below = (values < truth[quantity]).sum(axis=0)
                uniform = (below + rng.random(below.shape)) / (N_RANKED + 1)
                ranks.setdefault((name, quantity), []).append(uniform)
            seconds.setdefault(name, []).append(took)
            ess.setdefault(name, []).append(effective)
    return {
        "task": task,
        "results": [
            {
                "inference": name,
                "quantity": quantity,
                "simulations": len(found),
                **coverage(np.array(found)),
                "ecdf_difference": ecdf_difference(np.array(found)),
                "seconds": float(np.median(seconds[name])),
                "ess": float(np.median(ess[name])),
            }
            for (name, quantity), found in ranks.items()
        ],
    }


def table(studies: list[dict[str, Any]]) -> str:
    """One row per task, quantity and inference."""
    body = []
    for found in studies:
        task = found["task"]
        for quantity, label in QUANTITIES[task].items():
            for row in found["results"]:
                if row["quantity"] == quantity:
                    cells = [
                        f"{mean:.1f} ± {error:.1f}"
                        for mean, error in zip(row["coverage"], row["standard_error"], strict=True)
                    ]
                    label_cell = (
                        f"{task}: {label.replace('|', chr(92) + '|')}, {INFERENCES[row['inference']]}"
                    )
                    counts = [row["simulations"], f"{row['ess']:.0f}", f"{row['seconds']:.2f}"]
                    body.append([label_cell, *cells, *counts])
    headers = ["task: quantity, inference", *(f"{level:.0%} interval" for level in LEVELS)]
    return markdown_table([*headers, "simulations", "effective draws, smallest", "seconds"], body)


def figure(found: dict[str, Any]) -> Figure:
    """ECDF differences: a row per quantity, a column per inference."""
    labels = QUANTITIES[found["task"]]
    names = list(dict.fromkeys(row["inference"] for row in found["results"]))
    drawing = Figure(figsize=(2.3 * len(names), 1.9 * len(labels)), layout="constrained")
    axes = drawing.subplots(len(labels), len(names), sharex=True, sharey="row", squeeze=False)
    for row in found["results"]:
        ax = axes[list(labels).index(row["quantity"]), names.index(row["inference"])]
        low, high = simultaneous_band(row["simulations"])
        ax.fill_between(GRID, low, high, color="0.85", linewidth=0)
        for line, style in zip(row["ecdf_difference"], STYLES, strict=True):
            ax.plot(GRID, line, style, color="black", linewidth=1.0)
    for ax, name in zip(axes[0], names, strict=True):
        count = next(row["simulations"] for row in found["results"] if row["inference"] == name)
        ax.set_title(f"{INFERENCES[name]} (n = {count})", fontsize=10)
    for ax, label in zip(axes[:, 0], labels.values(), strict=True):
        ax.set_ylabel(label)
    for ax in axes[-1]:
        ax.set_xlabel("normalized rank")
    drawing.suptitle(f"{found['task']}: ECDF of ranks minus uniform, simultaneous 95 % band", fontsize=11)
    return drawing


def main() -> None:
    options = begin(__doc__, simulations=200)
    with threadpool_limits(1):
        if options.fast:
            studies = [study("binary", (3, 0), FAST_LENGTHS, n_train=20)]
        else:
            studies = []
            n = options.simulations
            for task, sizes in (("binary", (n, n // 5)), ("regression", (n // 2, 0))):
                studies.append(study(task, sizes, LENGTHS))
                print(table(studies[-1:]) + "\n", flush=True)
    drawing = figure(studies[0])
    text = (
        "Coverage in per cent ± Monte Carlo standard error; margin 0, N = 40, 4 kernels; by\n"
        f"`python benchmarks/sbc.py --simulations {options.simulations}`.\n\n"
        if not options.fast
        else "Short form: N = 20.\n\n"
    ) + table(studies)
    if options.keep:
        drawing.savefig(STATIC / "sbc.png", dpi=110)
    finish(options, "sbc", text, {"studies": studies})


if __name__ == "__main__":
    main()
