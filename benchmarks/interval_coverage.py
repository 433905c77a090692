"""How often 94 % predictive intervals of VB, refined VB, Gibbs and NUTS hold what they should.

* diabetes, N = 100: held-out targets, random splits. No truth is known but the targets.
* regression: targets of 200 new points; data from the model itself, parameters from its prior (N = 60, 4 kernels).
* latent score: m/s at 200 new points, the mean score in units of its noise, against the one that made the labels;
  data from the model. Raw scores have no scale: (c a, c b) with (a, e) -> (c a, e / c) fits nearly as well.
* latent probability: Φ(m/s) has the same coverage, as it grows with m/s; stated is how far off it is on average.

Intervals are central ones of draws: of m + s N(0, 1) for targets, of m/s for scores. The last row of VB on targets is
mean ± 1.88 standard deviations, as `predict(return_std=True)` gives them. Asked: 94 %, stated for each.

    python benchmarks/interval_coverage.py                      8 splits (NUTS: 1), 60 simulations of each kind (NUTS:
                                                                4 and 12), 10 minutes
    python benchmarks/interval_coverage.py --simulations 200    as many as you like
    python benchmarks/interval_coverage.py --fast               2 splits and 2 simulations, short chains, no NUTS
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _machine import measure
from _posteriors import LEVEL, case, inside, kernel_bank, quietly, subset
from _report import finish, markdown_table, parser
from _simulation import INFERENCES, Simulated, draw_posteriors, quantities, simulate, stacks
from scipy.special import ndtr, ndtri
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLRegressor
from bayesmkl.bemkl.models.regression import RegressionProblem
from bayesmkl.bemkl.reading.collapsed import score_means, score_scales
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.kernels.stacks.dense import DenseStack

LENGTHS = {"vb": (0, 1000), "refined": (50, 500), "gibbs": (300, 1500), "nuts": (300, 600)}
FAST_LENGTHS = {"vb": (0, 300), "refined": (20, 100), "gibbs": (50, 100)}
DIABETES, REGRESSION, LATENT = "diabetes", "regression, simulated", "latent m/s, simulated"
SPLITS = (8, 1)  # of diabetes: of all, of NUTS
FAST_REPLICATIONS = {DIABETES: (2, 0), REGRESSION: (2, 0), LATENT: (2, 0)}


def chosen(lengths: dict[str, Any], i: int, n_nuts: int) -> dict[str, Any]:
    """Inferences of replication `i`."""
    return {name: length for name, length in lengths.items() if name != "nuts" or i < n_nuts}


def diabetes(i: int, lengths: dict[str, Any], n_train: int) -> list[dict[str, Any]]:
    """Held-out targets of one split."""
    which = case("diabetes")
    data, rng = subset(which, i, n_train), np.random.default_rng(i)
    model = BEMKLRegressor(kernel_bank(which.n_kernels)).fit(data.X_train, data.y_train)
    (problem,) = model._problems(DenseStack(model.kernel_bank_.train_stack()))
    new = DenseStack(model.kernel_bank_.evaluate(data.X_test))
    targets = (data.y_test - model.y_mean_) / model.y_scale_
    mean, std = model.predict(data.X_test, return_std=True)
    half = ndtri(0.5 + LEVEL / 2) * std
    rows = [row(DIABETES, "VB, mean ± std", np.abs(data.y_test - mean) <= half, 2 * half / model.y_scale_)]
    for name, (draws, _, _) in draw_posteriors(problem, lengths, rng).items():
        rows.append(scored(DIABETES, INFERENCES[name], targets, predictive(draws, new, rng)))
    return rows


def predictive(draws: PosteriorDraws, new: DenseStack, rng: np.random.Generator) -> np.ndarray:
    """Targets of new points, noise included, one per draw."""
    means = score_means(new, draws)
    return means + score_scales(draws)[:, None] * rng.standard_normal(means.shape)


def simulated(task: str, i: int, lengths: dict[str, Any], n_train: int) -> list[dict[str, Any]]:
    """New targets, or new scores, of one data set that the model itself made."""
    rng = np.random.default_rng([i, len(task)])
    example = simulate("regression" if task == REGRESSION else "binary", *stacks(n_train, 200), rng)
    truth = quantities(example, example.truth, rng, example.y_new)["prediction"][0]
    rows = []
    for name, (draws, _, _) in draw_posteriors(example.problem, lengths, rng).items():
        values = quantities(example, draws, rng)["prediction"]
        rows.append(scored(task, INFERENCES[name], truth, values))
        rows[-1] |= {"error": error(example, truth, values), "size": float(np.median(np.abs(truth)))}
    return rows


def error(example: Simulated, truth: np.ndarray, values: np.ndarray) -> float | None:
    """Mean distance of the posterior mean of the class probability from the true one."""
    if isinstance(example.problem, RegressionProblem):
        return None
    return float(np.abs(ndtr(values).mean(axis=0) - ndtr(truth)).mean())


def scored(task: str, inference: str, truth: np.ndarray, draws: np.ndarray) -> dict[str, Any]:
    """Coverage and width of the central intervals of the draws."""
    low, high = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    return row(task, inference, inside(truth, draws), high - low)


def row(task: str, inference: str, held: np.ndarray, width: np.ndarray) -> dict[str, Any]:
    """Result of one replication."""
    return {
        "task": task,
        "inference": inference,
        "coverage": 100.0 * float(held.mean()),
        "width": float(np.median(width)),
        "error": None,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """One row per task and inference, with standard errors over replications."""
    body = []
    for task, inference in dict.fromkeys((r["task"], r["inference"]) for r in rows):
        found = [r for r in rows if (r["task"], r["inference"]) == (task, inference)]
        covered = np.array([r["coverage"] for r in found])
        errors = [r["error"] for r in found if r["error"] is not None]
        spread = f" ± {covered.std(ddof=1) / np.sqrt(len(found)):.1f}" if len(found) > 1 else ""
        body.append([
            f"{task}, {inference}",
            f"{covered.mean():.1f}{spread}",
            f"{np.median([r['width'] for r in found]):.2f}",
            f"{np.mean(errors):.3f}" if errors else "",
            len(found),
        ])  # fmt: skip
    headers = ["predicted, inference", f"coverage % of {LEVEL:.0%} intervals", "median width"]
    return markdown_table([*headers, "error of Φ(m/s)", "replications"], body)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--simulations", type=int, default=60, help="of each kind (60)")
    options = arguments.parse_args()
    print(measure(options.fast).report() + "\n")
    n = options.simulations
    full = {DIABETES: SPLITS, REGRESSION: (n, n // 15), LATENT: (n, n // 5)}
    lengths, replications = (FAST_LENGTHS, FAST_REPLICATIONS) if options.fast else (LENGTHS, full)
    n_train = {DIABETES: 50 if options.fast else 100, REGRESSION: 40 if options.fast else 60}
    rows = []
    with threadpool_limits(1), quietly():
        for task, (total, n_nuts) in replications.items():
            for i in range(total):
                use = chosen(lengths, i, n_nuts)
                if task == DIABETES:
                    rows += diabetes(i, use, n_train[DIABETES])
                else:
                    rows += simulated(task, i, use, n_train[REGRESSION])
            print(table([r for r in rows if r["task"] == task]) + "\n", flush=True)
    size = np.median([r["size"] for r in rows if r["task"] == LATENT])
    text = (
        "Coverage ± standard error over replications; widths in standard deviations of the training target "
        f"(diabetes), as they are (simulated). 4 kernels and N = {n_train[REGRESSION]} where simulated, 8 kernels "
        f"and N = {n_train[DIABETES]} on diabetes. Half of the true m/s are beyond ±{size:.1f}.\n\n{table(rows)}"
    )
    finish(options, "interval_coverage", text, {"rows": rows})


if __name__ == "__main__":
    main()
