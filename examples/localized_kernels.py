"""Local and global combinations of a quadratic and a Gaussian kernel, as in figure 1 of Moeller et al. (2016).

In one half of the plane classes are separated by a hyperbola, in the other one class is surrounded by the other. A
quadratic kernel suits the first half and a narrow Gaussian the second. A global combination has to use both
everywhere, a localized one need not. The paper does not say how it drew its data; these are drawn to the same end.

    python examples/localized_kernels.py            print a table, save two pictures
    python examples/localized_kernels.py --docs     save all three in docs/, for docs/guide/localized.md

References
----------
J. Moeller, S. Swaminathan and S. Venkatasubramanian (2016). A unified view of localized kernel learning. SDM.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bayesmkl import KernelBank
from bayesmkl.discriminative import (
    CLMKLClassifier,
    LDMKLClassifier,
    LMKLClassifier,
    SAMKLClassifier,
    SimpleMKLClassifier,
    SwMKLClassifier,
    UniformMKLClassifier,
    plot_decision,
    plot_gates,
)
from bayesmkl.kernels import Gaussian, Polynomial

DOCS = Path(__file__).resolve().parents[1] / "docs"
BANK = KernelBank([Polynomial(degree=2), Gaussian(width=0.35)], normalize=None)
WIDE = Gaussian(width=2)  # of the gates: wider than what they tell apart
GATES: dict[str, Any] = {"gate_targets": "train", "gate_kernel": "own"}  # of the paper
AS_PRINTED: dict[str, Any] = {"threshold": "paper", "temperature": 1.0, "tol": 1e-3, **GATES}
IN_PLANE: dict[str, Any] = {"gate_targets": "train", "gate_kernel": WIDE}
MODELS: dict[str, Any] = {
    "global, mean of the kernels": UniformMKLClassifier(BANK),
    "global, SimpleMKL": SimpleMKLClassifier(BANK),
    "LD-MKL, as printed": LDMKLClassifier(BANK, sv_gate="paper", bias="drop", **AS_PRINTED),
    "LD-MKL": LDMKLClassifier(BANK, **AS_PRINTED),
    "LD-MKL, Gaussian gates": LDMKLClassifier(BANK, **AS_PRINTED | IN_PLANE | {"temperature": 0.2}),
    "SwMKL": SwMKLClassifier(BANK, temperature=None, **GATES),
    "SwMKL, Gaussian gates": SwMKLClassifier(BANK, temperature=None, **IN_PLANE),
    "LMKL": LMKLClassifier(BANK, fallback=False),
    "C-LMKL, two clusters": CLMKLClassifier(BANK, n_clusters=2, random_state=0),
    "SAMKL": SAMKLClassifier(BANK, ties="largest", fallback=False),
}
DRAWN = ("global, mean of the kernels", "LD-MKL, Gaussian gates", "LMKL", "C-LMKL, two clusters")


def make_halves(n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many samples in each half; on the left those near the boundary are left out."""
    n_left = n_samples // 2
    left = rng.uniform([-6.5, -3.0], [-0.5, 3.0], size=(8 * n_left, 2))
    side = (left[:, 0] + 3.5) * left[:, 1]
    chosen = np.flatnonzero(np.abs(side) > 0.5)[:n_left]
    inner = rng.random(n_samples - n_left) < 0.5
    radius = np.where(
        inner, 0.3 * np.abs(rng.normal(size=len(inner))), rng.normal(1.0, 0.08, size=len(inner))
    )
    angle = rng.uniform(0.0, 2.0 * np.pi, size=len(inner))
    right = np.column_stack([2.8 + radius * np.cos(angle), radius * np.sin(angle)])
    X, y = np.concatenate([left[chosen], right]), np.concatenate([side[chosen] > 0, inner])
    return X, np.where(y, "red", "blue")


def repeat(n_draws: int) -> str:
    """Return a table of support points and accuracy on 2000 new samples, over draws of 400 training samples."""
    support, accuracy = {name: [] for name in MODELS}, {name: [] for name in MODELS}
    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        train, new = make_halves(400, rng), make_halves(2000, rng)
        for name, model in MODELS.items():
            support[name].append(len(model.fit(*train).support_))
            accuracy[name].append(100 * model.score(*new))
    rows = ["| Method | Support points of 400 | Accuracy, % |", "| --- | ---: | ---: |"]
    rows += [f"| {name} | {spread(support[name])} | {spread(accuracy[name], 1)} |" for name in MODELS]
    return "\n".join(rows)


def spread(values: list[float], digits: int = 0) -> str:
    """Mean and standard deviation over draws."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def draw_decisions(names: tuple[str, ...] = DRAWN) -> Figure:
    """Draw boundary, margins, support points and regions of up to four methods for one draw."""
    X, y = make_halves(400, np.random.default_rng(1))
    figure = Figure(figsize=(11.5, 12.0), layout="constrained", dpi=80)
    for ax, name in zip(figure.subplots(2, 2).ravel(), names, strict=False):
        model = MODELS[name].fit(X, y)
        plot_decision(model, X, y, ax=ax)
        ax.set_title(f"{name}: {len(model.support_)} support points", loc="left", fontsize="medium")
    return figure


def draw_gates(names: tuple[str, ...] = DRAWN[1:3]) -> Figure:
    """Draw gates over the samples, from left to right in the plane."""
    X, y = make_halves(400, np.random.default_rng(1))
    figure = Figure(figsize=(11.5, 3.8), layout="constrained", dpi=80)
    for ax, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        plot_gates(MODELS[name].fit(X, y), ax=ax, order_by=X[:, 0])
        ax.set_title(name, loc="left", fontsize="medium")
        ax.set_xlabel("samples, sorted by feature 0")
    return figure


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--draws", type=int, default=20, help="training sets to average over, at least 2")
    options.add_argument(
        "--out", type=Path, default=Path(), metavar="FOLDER", help="where to put the pictures"
    )
    options.add_argument("--docs", action="store_true", help="write pictures into docs/")
    chosen = options.parse_args()
    table = repeat(chosen.draws)
    print(table)
    folder = DOCS / "_static" if chosen.docs else chosen.out
    folder.mkdir(parents=True, exist_ok=True)
    draw_decisions().savefig(folder / "localized_decisions.png")
    draw_gates().savefig(folder / "localized_gates.png")


if __name__ == "__main__":
    main()
