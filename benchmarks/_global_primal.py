"""PrimalMKL: convergence, preconditioning, and the figures of its paper (Hao et al. 2012, §5)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from _primal_accuracy import small_bases
from _primal_speed import draw_weights, figure_1, figure_2, figure_3, one_machine, preconditioning, schemes
from _protocol import have_real_data
from _report import STATIC

PARTS = {
    "schemes": schemes,
    "preconditioning": preconditioning,
    "one machine": one_machine,
    "figure 1": figure_1,
    "figure 2": figure_2,
    "figure 3": figure_3,
    "small bases": small_bases,
}
FIGURE = "primalmkl_weights.png"


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Measure all parts; the real sets need the folder that `BAYESMKL_DATA` names, else the fast form is run."""
    short = fast or not have_real_data()
    texts: list[str] = []
    numbers: dict[str, Any] = {"fast": short, "seconds": {}}
    for name, part in PARTS.items():
        start = time.perf_counter()
        text, found = part(short)
        numbers.update(found)
        numbers["seconds"][name] = time.perf_counter() - start
        texts.append(f"{text}\n\n({numbers['seconds'][name]:.0f} s)")
    return "\n\n".join(texts), numbers


def draw(numbers: dict[str, Any], folder: Path = STATIC) -> Path:
    """Draw figure 2, the evolution of the weights, from the numbers of `run`."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_weights(numbers["weights_history"], folder / FIGURE)
    return folder / FIGURE
