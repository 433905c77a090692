"""How often are gates inside the bands of localized BEMKL, and localities inside their intervals?

Data are drawn from the models themselves: samples of two views, gates from their prior, and labels by the sign of
the score, or the score with noise. Gates are known up to the sign and the scale of all of them together, so they are
compared after division by their root mean square, with the sign of the posterior mean. A calibrated posterior has
94 % of the truth in its 94 % bands. Marginal inference has priors of its own: precisions of sample weights and
intercept are known, and those of gates are larger by the number of kernels. Variational inference promises nothing of
the kind.

    python benchmarks/gate_coverage.py           30 to 60 data sets of 100 samples of each kind (7 minutes)
    python benchmarks/gate_coverage.py --fast    1 data set of each
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _machine import measure
from _posteriors import quietly
from _report import claim, finish, markdown_table, parser
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bayesmkl import KernelBank
from bayesmkl.bemkl import BEMKLLocalizedClassifier, BEMKLLocalizedRegressor
from bayesmkl.bemkl.gate_basis import gate_basis, gate_scale
from bayesmkl.bemkl.reading.local_weights import local_draws
from bayesmkl.kernels import Gaussian

N, N_DRAWS, SCALE, WIDTH = 100, 1000, 0.3, 1.0
PROBABILITY, ASKED = 0.94, (0.90, 0.97)
ROUGH = 1e-3  # tolerance of the variational posterior that marginal inference starts from
KINDS = (("labels", "vb", 60), ("labels", "marginal", 30), ("target", "marginal", 60))  # and data sets
NAMES = {"vb": "variational", "marginal": "marginal"}


def cover(seed: int, task: str, inference: str) -> dict[str, Any] | None:
    """Return parts of the truth inside the intervals, and their median width; None for labels of one class."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.standard_normal((N, 4)), rng.uniform(-1.0, 1.0, N)]
    bank = KernelBank([Gaussian(width=2)], views={"one": [0, 1], "two": [2, 3]})
    z = X[:, 4:]
    phi = gate_basis(gate_scale(z, None, 0), z, WIDTH).features(z)
    kernels = np.moveaxis(bank.fit_transform(X), -1, 0)
    n_kernels, is_marginal, is_target = len(kernels), inference == "marginal", task == "target"
    precisions = rng.gamma(1.0, size=(2, n_kernels))  # of the constant and of the other weights
    weights = rng.standard_normal((n_kernels, phi.shape[1])) / np.sqrt(precisions[1])[:, None]
    weights[:, 0] = rng.standard_normal(n_kernels) / np.sqrt(precisions[0])
    of_dual, of_intercept = rng.gamma(1.0, size=N), rng.gamma(1.0)
    of_outputs, of_noise = rng.gamma(1.0, size=2) if is_target else (SCALE**-2, 1.0)
    if is_marginal:
        weights, of_dual, of_intercept = weights / np.sqrt(n_kernels), 1.0, 1.0
    dual = rng.standard_normal(N) / np.sqrt(of_dual)
    outputs = kernels @ dual + rng.standard_normal((n_kernels, N)) / np.sqrt(of_outputs)
    gates = phi @ weights.T
    intercept = rng.standard_normal() / np.sqrt(of_intercept)
    score = (gates * outputs.T).sum(axis=1) + intercept + rng.standard_normal(N) / np.sqrt(of_noise)
    y = score if is_target else np.where(score > 0.0, 1, -1)
    if not is_target and min((y > 0).sum(), (y < 0).sum()) < 5:
        return None
    settings: dict[str, Any] = {"gate_columns": [4], "gate_width": WIDTH, "inference": inference}
    if is_marginal:
        settings["tol"] = ROUGH
    model = (
        BEMKLLocalizedRegressor(bank, normalize_y=False, **settings)
        if is_target
        else BEMKLLocalizedClassifier(bank, intermediate_scale=SCALE, **settings)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` below
        model.fit(X, y)
    drawn = local_draws(model.posterior_, rng, N_DRAWS).gates(phi)
    center = model.gates()
    found, truth = (_scaled(each, center) for each in (drawn, gates[None]))
    low, high = np.quantile(found, [0.5 * (1 - PROBABILITY), 0.5 * (1 + PROBABILITY)], axis=0)
    locality = gates.var(axis=0) / (gates**2).mean(axis=0)
    interval = model.locality_interval_
    return {
        "seed": seed,
        "gates": float(((low <= truth[0]) & (truth[0] <= high)).mean()),
        "width": float(np.median(high - low)),
        "localities": float(((interval[:, 0] <= locality) & (locality <= interval[:, 1])).mean()),
        "rhat": float(model.rhat_) if is_marginal else None,
    }


def _scaled(gates: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Divide gates of every draw by their root mean square, and give them the sign of `center`."""
    size = np.sqrt((gates**2).mean(axis=(1, 2), keepdims=True))
    sign = np.where((gates * center).sum(axis=(1, 2), keepdims=True) < 0.0, -1.0, 1.0)
    return sign * gates / size


def main() -> None:
    options = parser(__doc__).parse_args()
    print(measure(options.fast).report() + "\n")
    rows, body, made = {}, [], []
    for task, inference, n_sets in KINDS:
        with threadpool_limits(1), quietly():
            found = [cover(seed, task, inference) for seed in range(1 if options.fast else n_sets)]
        own = rows[f"{task}, {inference}"] = [row for row in found if row is not None]
        means = {key: float(np.mean([row[key] for row in own])) for key in ("gates", "localities", "width")}
        error = float(np.std([row["gates"] for row in own]) / np.sqrt(len(own)))
        agreed = "" if inference == "vb" else f"{np.mean([row['rhat'] <= 1.05 for row in own]):.0%}"
        counts = [
            f"{means['gates']:.1%} ± {error:.1%}",
            f"{means['localities']:.1%}",
            f"{means['width']:.2f}",
        ]
        body.append([task, NAMES[inference], str(len(own)), *counts, agreed])
        made.append(
            claim(
                f"{NAMES[inference]} bands of gates, {task}: coverage of 94 %",
                ASKED[0],
                means["gates"],
                "",
                at_least=True,
            )
        )
    headers = [
        "",
        "inference",
        "data sets",
        "gates in 94 % bands",
        "localities in 94 % intervals",
        "median width of bands, in root mean squares",
        "R-hat at most 1.05",
    ]
    claims = [] if options.fast else made
    finish(options, "gate_coverage", markdown_table(headers, body), {"rows": rows, "claims": claims})


if __name__ == "__main__":
    main()
