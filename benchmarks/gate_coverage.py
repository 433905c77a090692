"""How often are gates inside the bands of localized BEMKL, and localities inside their intervals?

Data are drawn from the model itself: samples of two views, gates from their prior, and labels by the sign of the
score. Gates are known up to the sign and the scale of all of them together, so they are compared after division by
their root mean square, with the sign of the posterior mean. A calibrated posterior has 94 % of the truth in its 94 %
bands; variational inference promises nothing of the kind.

    python benchmarks/gate_coverage.py           100 data sets of 100 samples (3 minutes)
    python benchmarks/gate_coverage.py --fast    5 data sets
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _machine import measure
from _posteriors import quietly
from _report import claim, finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl import KernelBank
from bayesmkl.bemkl import BEMKLLocalizedClassifier
from bayesmkl.bemkl.gate_basis import gate_basis, gate_scale
from bayesmkl.bemkl.reading.local_weights import local_draws
from bayesmkl.kernels import Gaussian

N, N_DRAWS, SCALE, WIDTH = 100, 1000, 0.3, 1.0
PROBABILITY, ASKED = 0.94, (0.90, 0.97)


def cover(seed: int) -> dict[str, Any] | None:
    """Return parts of the truth inside the intervals, and their median width; None for labels of one class."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.standard_normal((N, 4)), rng.uniform(-1.0, 1.0, N)]
    bank = KernelBank([Gaussian(width=2)], views={"one": [0, 1], "two": [2, 3]})
    z = X[:, 4:]
    phi = gate_basis(gate_scale(z, None, 0), z, WIDTH).features(z)
    kernels = np.moveaxis(bank.fit_transform(X), -1, 0)
    n_kernels = len(kernels)
    precisions = rng.gamma(1.0, size=(2, n_kernels))  # of the constant and of the other weights
    weights = rng.standard_normal((n_kernels, phi.shape[1])) / np.sqrt(precisions[1])[:, None]
    weights[:, 0] = rng.standard_normal(n_kernels) / np.sqrt(precisions[0])
    dual = rng.standard_normal(N) / np.sqrt(rng.gamma(1.0, size=N))
    outputs = kernels @ dual + SCALE * rng.standard_normal((n_kernels, N))
    gates = phi @ weights.T
    intercept = rng.standard_normal() / np.sqrt(rng.gamma(1.0))
    score = (gates * outputs.T).sum(axis=1) + intercept + rng.standard_normal(N)
    y = np.where(score > 0.0, 1, -1)
    if min((y > 0).sum(), (y < 0).sum()) < 5:
        return None
    model = BEMKLLocalizedClassifier(bank, gate_columns=[4], gate_width=WIDTH, intermediate_scale=SCALE)
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
    }


def _scaled(gates: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Divide gates of every draw by their root mean square, and give them the sign of `center`."""
    size = np.sqrt((gates**2).mean(axis=(1, 2), keepdims=True))
    sign = np.where((gates * center).sum(axis=(1, 2), keepdims=True) < 0.0, -1.0, 1.0)
    return sign * gates / size


def main() -> None:
    options = parser(__doc__).parse_args()
    print(measure(options.fast).report() + "\n")
    with threadpool_limits(1), quietly():
        found = [cover(seed) for seed in range(5 if options.fast else 100)]
    rows = [row for row in found if row is not None]
    means = {key: float(np.mean([row[key] for row in rows])) for key in ("gates", "localities", "width")}
    body = [
        ["gates", f"{PROBABILITY:.0%}", f"{means['gates']:.1%}", f"{means['width']:.2f}"],
        ["localities", f"{PROBABILITY:.0%}", f"{means['localities']:.1%}", ""],
    ]
    headers = [
        f"of {len(rows)} data sets",
        "promised",
        "covered",
        "median width of bands, in root mean squares",
    ]
    made = [] if options.fast else [
        claim("variational bands of gates: coverage of 94 %", ASKED[0], means["gates"], "", at_least=True)
    ]  # fmt: skip
    finish(options, "gate_coverage", markdown_table(headers, body), {"rows": rows, "claims": made})


if __name__ == "__main__":
    main()
