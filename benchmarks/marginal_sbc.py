"""Simulation-based calibration of marginal inference, and of the closed form quantity by quantity.

Parameters are drawn from the prior of an estimator, data from its model (32 fixed points in two views, a Gaussian and
a linear kernel on each, no scaling of targets); then the place of the truth among draws from the posterior is uniform
if inference is right (Talts et al. 2018). So are places of anything that is computed from parameters and data
(Modrák et al. 2023). Ranked are every kernel's share and weight, the size of the score (its standard deviation), the
noise, four training scores, the log evidence of the kernel weights over that of none, and the log likelihood of all
targets together. Draws are weighted: where the truth lies is their distribution function there, `_ranks.py` says how.

`GPMKLClassifier` and `GPMKLRegressor` have the options that they have by default, also the nested prior and the part
"views together", but for 500 draws of scores in the place of 2000. Classes have an approximate evidence, of
expectation propagation. What that costs is measured on the same data sets: each of 250 draws is weighted by an
unbiased estimate of the exact evidence over it, with a score drawn by the same weights (`_pseudo_marginal.py`), and
ranked again as "exact".

"GPMKLRegressor, widths" has the kernels that the regressor has by default: a Gaussian one with a width for every
column, and a linear one, on each view. Log widths are drawn from their prior with the weights, and ranked, too.

The closed form (VB) is ranked on the model of `sbc.py`, N = 40, by the checks of Yao et al. (2018): the histogram of
the places of one number, and a test that it is symmetric. Scores change their sign with the parameters, and targets
with them, so that their histogram is symmetric whatever the inference: a score is ranked times its target's sign.

Rows go to `results/marginal_sbc/`, a file for each model, as they come; a run continues where these end.

    python benchmarks/marginal_sbc.py                       1000 simulations of every model, an hour on one core
    python benchmarks/marginal_sbc.py --simulations 100 --keep    the committed ones of GPMKL; VB has 1000
    python benchmarks/marginal_sbc.py --simulations 200 --models "GPMKLRegressor, widths" --keep    and 200 of widths
    python benchmarks/marginal_sbc.py --models GPMKLRegressor    of some models alone; the report has all
    python benchmarks/marginal_sbc.py --fast                two small ones of each, nothing kept
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _machine import measure
from _marginal_sbc_report import (
    claims_of,
    closed_table,
    summarize,
    summary_table,
    table,
)
from _marginal_simulation import MODELS, WIDTHS, Ranked, Simulation, Values, make
from _posteriors import quietly
from _ranks import weighted_rank
from _report import RESULTS, finish, parser
from _simulation import draw_posteriors, quantities, simulate, stacks
from threadpoolctl import threadpool_limits

from bayesmkl.gp import Marginal

FOLDER = RESULTS / "marginal_sbc"  # a run continues where its files end
CLOSED = {"VB, classes": "binary", "VB, targets": "regression"}
N_SAMPLES, N_DRAWS, N_CORRECTED, N_CLOSED = 32, 500, 250, 1000
FAST = (20, Marginal(n_points=100, n_draws=100), 50, 100)
FULL = (N_SAMPLES, Marginal(n_draws=N_DRAWS), N_CORRECTED, N_CLOSED)
INTRODUCTION = """\
Coverage in per cent ± Monte Carlo standard error; the largest difference of the distribution function of places from
the uniform one, and how many numbers leave the simultaneous 95 % band, or that of all numbers of a model together. 32
samples, 4 kernels; GPMKL has a fifth one, of the views together.

"""
Row = dict[str, float]  # by the names of columns


def rank_marginal(simulation: Simulation, n_corrected: int, seed: list[int]) -> Row:
    """Rank the truth of one simulation under marginal inference, and under the exact posterior of classes."""
    rng = np.random.default_rng(seed)
    case = simulation.simulate(rng)
    found = simulation.infer(case.y, seed[0])
    truth = case.truth | {"evidence": simulation.true_evidence(found, case.truth)}
    points = found.points
    row = {
        "pareto_k": round(points.pareto_k, 3),
        "ess": round(points.ess, 1),
        "unconverged": round(points.unconverged, 4),
        "rejected": case.n_rejected,
    }
    if simulation.is_regression:
        return row | places(found.ranked, truth, rng)
    exact = simulation.correct(found, n_corrected, rng)
    row |= {"worth": round(exact["share"].n_effective, 1)} | places(found.ranked, truth, rng)
    return row | places(exact, truth, rng, "exact ")


def places(ranked: dict[str, Ranked], truth: Values, rng: np.random.Generator, prefix: str = "") -> Row:
    """Return where the truth lies among the draws of every number."""
    return {
        f"{prefix}{name} {entry}": round(float(place), 4)
        for name, own in sorted(ranked.items())
        for entry, place in enumerate(weighted_rank(*own, truth[name], rng))
    }


def rank_closed(task: str, n_samples: int, n_draws: int, seed: list[int]) -> Row:
    """Rank the truth of one simulation under the closed form."""
    rng = np.random.default_rng(seed)
    case = simulate(task, *stacks(n_samples, 1), rng)
    (draws, _, _) = draw_posteriors(case.problem, {"vb": (0, n_draws)}, rng)["vb"]
    truth, own = quantities(case, case.truth, rng, case.y_new), quantities(case, draws, rng)
    shown = np.linspace(0, n_samples - 1, 4).astype(int)
    sides = np.sign(case.problem.y[shown])
    equal, ranked, true = np.full(n_draws, 1.0 / n_draws), {}, {}
    for name in ("shares", "weights"):
        ranked[name[:-1]], true[name[:-1]] = Ranked(own[name], equal, n_draws), truth[name][0]
    ranked["toward"] = Ranked(sides * own["latent"][:, shown], equal, n_draws)
    true["toward"] = sides * truth["latent"][0, shown]
    return places(ranked, true, rng)


def run(
    n: int, names: list[str], sizes: tuple[int, Marginal, int, int], kept: dict[str, list[Row]]
) -> Iterator[tuple[str, Row]]:
    """Yield names of models and the rows that there are not yet, in turns."""
    n_samples, options, n_corrected, n_closed = sizes
    rank: dict[str, Any] = {
        name: partial(rank_marginal, make(name, n_samples, options), n_corrected) for name in MODELS
    }
    rank |= {name: partial(rank_closed, task, n_samples + 8, n_closed) for name, task in CLOSED.items()}
    rank[WIDTHS] = rank.pop(WIDTHS)  # the last one, which leaves the others their seeds
    done = {name: {row["simulation"] for row in rows} for name, rows in kept.items()}
    for i in range(n):
        for position, (name, ranked) in enumerate(rank.items()):
            if name in names and i not in done.get(name, ()):
                yield name, {"simulation": i} | ranked([i, position])


def file_of(name: str) -> Path:
    """Return where the rows of a model are."""
    return FOLDER / f"{name.lower().replace(', ', '_')}.csv"


def load() -> dict[str, list[Row]]:
    """Read the rows that there are."""
    found = {}
    for name in (*MODELS, *CLOSED):
        if file_of(name).exists():
            with file_of(name).open(encoding="utf-8", newline="") as file:
                found[name] = [
                    {key: float(cell) for key, cell in row.items()} for row in csv.DictReader(file)
                ]
    return found


def append(name: str, row: Row) -> None:
    """Add a row to the file of its model."""
    FOLDER.mkdir(exist_ok=True)
    is_new = not file_of(name).exists()
    with file_of(name).open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--simulations", type=int, default=1000, help="of every model (1000)")
    every = [*MODELS, *CLOSED]
    arguments.add_argument("--models", nargs="+", choices=every, default=every, help="of these alone (all)")
    options = arguments.parse_args()
    print(measure(options.fast).report() + "\n")
    rows: dict[str, list[Row]] = {} if options.fast else load()
    n, sizes = (2, FAST) if options.fast else (options.simulations, FULL)
    with threadpool_limits(1), quietly():
        for name, row in run(n, options.models, sizes, rows):
            rows.setdefault(name, []).append(row)
            if not options.fast:
                append(name, row)
    summaries = summarize(rows)
    text = "Short form: N = 20, two simulations.\n\n" if options.fast else INTRODUCTION
    text += f"{summary_table(summaries, rows)}\n\n{table(summaries)}\n\n{closed_table(summaries)}"
    finish(options, "marginal_sbc", text, {"summaries": summaries, "claims": claims_of(summaries)})


if __name__ == "__main__":
    main()
