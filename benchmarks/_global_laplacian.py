"""LapMKL: what sharing coefficients costs; the tables of its paper are repeated by ``papers/run.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import markdown_table

from bayesmkl.discriminative.graph import knn_laplacian
from bayesmkl.discriminative.primal.lapmkl import Graph, LapMKLOptions, deform, fit_lapmkl, share
from bayesmkl.kernels.stacks.dense import DenseStack


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """How far (18) ends above the optimum of (16), and values of (18) above the chord between two weights."""
    n_problems, n_chords = (3, 5) if fast else (50, 20)
    rng = np.random.default_rng(0)
    rows, numbers = [], {}
    for ratio in (1.0, 10.0, 100.0):
        excess, above, worst = [], 0, 0.0
        for _ in range(n_problems):
            X = rng.normal(size=(4, 40, 2))
            kernels = np.exp(-0.5 * ((X[:, :, None] - X[:, None]) ** 2).sum(axis=-1))
            y = np.where(X[0, :12, 0] + X[1, :12, 0] > 0, 1.0, -1.0)
            y[:2] = -1.0, 1.0
            graph = Graph(knn_laplacian(X[0], 5), np.arange(12), 0.01, 0.01 * ratio)
            models = [form(DenseStack(kernels), graph) for form in (deform, share)]
            values = [fit_lapmkl(m, y[None], LapMKLOptions(tol=1e-8)).objective_history.min() for m in models]
            excess.append(100.0 * (values[1] / values[0] - 1.0))
            for _ in range(n_chords):
                ends = rng.dirichlet(np.ones(4), size=2)
                chord = np.mean([models[1].evaluate(d, y[None]).objective for d in ends])
                rise = models[1].evaluate(ends.mean(axis=0), y[None]).objective / chord - 1.0
                above, worst = above + int(rise > 1e-7), max(worst, 100.0 * rise)
        share_above = 100.0 * above / (n_problems * n_chords)
        rows.append(
            f"{ratio:g} | {np.median(excess):.2f} | {max(excess):.2f} | {share_above:.0f} | {worst:.2f}"
        )
        numbers[f"{ratio:g}"] = {"excess": excess, "midpoints_above": share_above, "worst": worst}
    headers = ["γ_I / γ_A", "end of (18) above the optimum of (16), %, median", "largest"]
    headers += ["midpoints above the chord, % of pairs", "by up to, %"]
    text = f"Shared coefficients on {n_problems} random problems (4 kernels, 40 samples, 12 labeled).\n\n"
    return text + markdown_table(headers, rows), numbers
