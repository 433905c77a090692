"""How all plots look, and axes that no global state of matplotlib knows of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "MARKERS", "NEUTRAL", "new_axes", "tidy"]

# Okabe and Ito's colors, told apart by color-blind readers, in an order of distinct greys; shapes say the same.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "D", "^", "v", "P")
NEUTRAL = "#555555"


def new_axes(width: float, height: float, height_ratios: tuple[float, ...] = (1.0,)) -> Any:
    """Return axes above each other on a new figure, its size in inches; pyplot never hears of it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    grid = {"height_ratios": height_ratios}
    return figure.subplots(len(height_ratios), sharex=True, squeeze=False, gridspec_kw=grid)[:, 0]


def tidy(ax: Axes, grid: Any) -> None:
    """Keep two spines and draw a light grid behind the data, along the axis `grid`: "x", "y" or "both"."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="#DDDDDD", linewidth=0.7)
    ax.set_axisbelow(True)
