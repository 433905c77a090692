"""Localized classifiers on two Gaussian blobs: one answer for everything, and the order of the samples.

200 samples in the plane, half of them of each class, with the means of the classes some distance apart, and the
kernels ``KernelBank("paper")`` at default settings. Counted are fits that predict one class for all training samples;
accuracy is that on 1000 new samples, beside the one of equal kernel weights. The same where one class is rare. Then
few samples are fitted in six orders, and the scores of 200 new ones compared.

    python benchmarks/one_answer.py           40 seeds, about half an hour
    python benchmarks/one_answer.py --fast    one seed, one distance
    python benchmarks/one_answer.py --part 1/4 --cells 1.jsonl    one of four parts
    python benchmarks/one_answer.py --cells all.jsonl             what is left, and the table
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _cells import completed
from _report import claim, finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl import KernelBank
from bayesmkl.discriminative import (
    CLMKLClassifier,
    LDMKLClassifier,
    LMKLClassifier,
    SAMKLClassifier,
    SwMKLClassifier,
    UniformMKLClassifier,
)


def as_printed() -> LDMKLClassifier:
    """LD-MKL with the threshold and the gates of the paper."""
    return LDMKLClassifier(threshold="paper", temperature=1.0, gate_targets="train", gate_kernel="own")


BANK = KernelBank("paper")
Distances = tuple[float, ...]
DISTANCES: Distances = (1.0, 1.5, 2.0, 3.0, 4.0)
N_SAMPLES, N_NEW, N_FEW, RARE = 200, 1000, 60, 0.1
N_ORDERS, FAST_ORDERS = 6, 2
FAST_SAMPLES, FAST_FEW = 60, 24
UNIFORM, DEFAULTS, PAPER = "equal kernel weights", "LD-MKL", "LD-MKL, the paper's threshold"
MODELS: dict[str, Callable[[], Any]] = {
    UNIFORM: UniformMKLClassifier,
    DEFAULTS: LDMKLClassifier,
    PAPER: as_printed,
    "SwMKL": SwMKLClassifier,
    "LMKL": lambda: LMKLClassifier(random_state=0),
    "C-LMKL": lambda: CLMKLClassifier(random_state=0),
    "SAMKL": SAMKLClassifier,
}
IN_ORDERS: dict[str, Callable[[], Any]] = {
    "default": LDMKLClassifier,
    "tol=1e-4": lambda: LDMKLClassifier(tol=1e-4),
    "paper": as_printed,
}


class Fit(NamedTuple):
    """What a fit came to."""

    one_answer: bool
    warned: bool
    accuracy: float


def blobs(
    distance: float, seed: int, n_samples: int, n_classes: int = 2, share: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Samples around two points, or three at equal distances from the first."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    if n_classes == 2 and share < 0.5:
        y = (np.arange(n_samples) < share * n_samples).astype(int)
    return rng.normal(size=(n_samples, 2)) + distance * np.eye(3, 2)[(y - 1) % 3], y


def fit(name: str, distance: float, seed: int, n_samples: int, share: float) -> Fit:
    """Fit one model to one draw."""
    X, y = blobs(distance, seed, n_samples, share=share)
    model = MODELS[name]().set_params(kernels=BANK)
    with warnings.catch_warnings(record=True, action="always") as caught:
        model.fit(X, y)
    one_answer = len(np.unique(model.predict(X))) == 1
    warned = any("for all training samples" in str(warning.message) for warning in caught)
    return Fit(one_answer, warned, model.score(*blobs(distance, 1000 + seed, N_NEW, share=share)))


def spread(title: str, n_classes: int, distance: float, seed: int, n_few: int, n_orders: int) -> float:
    """Largest difference of a score between orders of the same samples."""
    make = IN_ORDERS[title]
    X, y = blobs(distance, seed, n_few, n_classes)
    new = blobs(distance, 1000 + seed, N_SAMPLES, n_classes)[0]
    scores = []
    for order in range(n_orders):
        rows = np.random.default_rng(order).permutation(n_few)
        with warnings.catch_warnings(action="ignore"):
            scores.append(make().set_params(kernels=BANK).fit(X[rows], y[rows]).decision_function(new))
    return float(np.ptp(scores, axis=0).max())


def answers_table(distances: Distances, fits: dict[str, list[list[Fit]]]) -> str:
    """Counts of one answer, and mean and worst accuracies."""
    rows = [
        [
            name,
            *(
                f"{sum(f.one_answer for f in at)}; {100 * np.mean([f.accuracy for f in at]):.1f} "
                f"({100 * min(f.accuracy for f in at):.1f})"
                for at in of_model
            ),
        ]
        for name, of_model in fits.items()
    ]
    return markdown_table(["", *(f"distance {distance:g}" for distance in distances)], rows)


def flat(of_model: list[list[Fit]]) -> list[Fit]:
    return [f for at in of_model for f in at]


def main() -> None:
    """Run, print."""
    options_parser = parser(__doc__)
    options_parser.add_argument(
        "--cells", type=Path, metavar="FILE", help="append fits here, leave out those there"
    )
    options_parser.add_argument(
        "--part", metavar="I/N", help="do one of N parts only, for --cells; print no table"
    )
    options = options_parser.parse_args()
    n_seeds, n_rare, n_drawn = (1, 1, 1) if options.fast else (40, 10, 4)
    n_orders = FAST_ORDERS if options.fast else N_ORDERS
    n_samples, n_few = (FAST_SAMPLES, FAST_FEW) if options.fast else (N_SAMPLES, N_FEW)
    distances = DISTANCES[1:2] if options.fast else DISTANCES
    orders_of = list(product(("orders",), IN_ORDERS, (2, 3), distances, range(n_drawn)))
    units: list[tuple[Any, ...]] = [
        *product((0.5,), MODELS, distances, range(n_seeds)),
        *product((RARE,), MODELS, distances, range(n_rare)),
        *orders_of,
    ]

    def computed(kind: float | str, name: str, *of: Any) -> Any:
        if kind == "orders":
            return spread(name, *of, n_few, n_orders)
        return list(fit(name, *of, n_samples, float(kind)))

    with threadpool_limits(1):
        found = completed(units, computed, options.cells, options.part)
    if options.part:
        print(f"{len(found)} of {len(units)} fits done")
        return

    def fits(share: float, n_seeds: int) -> dict[str, list[list[Fit]]]:
        """Fits by model and distance."""
        return {
            name: [[Fit(*found[share, name, at, seed]) for seed in range(n_seeds)] for at in distances]
            for name in MODELS
        }

    balanced, rare = fits(0.5, n_seeds), fits(RARE, n_rare)
    orders = {title: [found[unit] for unit in orders_of if unit[1] == title] for title in IN_ORDERS}
    losses = [
        uniform.accuracy - ours.accuracy
        for uniform, ours in zip(flat(balanced[UNIFORM]), flat(balanced[DEFAULTS]), strict=True)
    ]
    unsaid = sum(
        f.one_answer and not f.warned
        for fits in (balanced, rare)
        for name in (DEFAULTS, PAPER, "SAMKL")
        for f in flat(fits[name])
    )
    claims = [
        claim("fits of LD-MKL with one answer", 0, sum(f.one_answer for f in flat(balanced[DEFAULTS]))),
        claim("largest loss of accuracy against equal weights", 0.05, max(losses)),
        claim("fits with one answer and no warning", 0, unsaid),
        claim("scores in other orders", 1e-6, max(orders["default"])),
    ]
    text = (
        f"Fits of {n_seeds} with one answer; accuracy (%), mean and in brackets the worst:\n\n"
        f"{answers_table(distances, balanced)}\n\n"
        f"The same where one class has {RARE:.0%} of the samples, of {n_rare}:\n\n"
        f"{answers_table(distances, rare)}\n\n"
        f"Largest difference of a score between {n_orders} orders of {n_few} samples, over "
        f"{len(orders['default'])} problems of two and three classes: {max(orders['default']):.1e} with the "
        f"defaults, {max(orders['tol=1e-4']):.1e} with `tol=1e-4`, {max(orders['paper']):.2f} with the paper's "
        "threshold."
    )
    numbers = {
        "claims": claims,
        "balanced": {name: [[list(f) for f in at] for at in of] for name, of in balanced.items()},
        "rare": {name: [[list(f) for f in at] for at in of] for name, of in rare.items()},
        "orders": orders,
    }
    finish(options, "one_answer", text, numbers)


if __name__ == "__main__":
    main()
