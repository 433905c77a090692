"""Axes that no global state of matplotlib knows of, and the colors of classes and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CLASS_COLORS",
    "CLASS_MARKERS",
    "KERNEL_COLORS",
    "KERNEL_MARKERS",
    "NEUTRAL",
    "kernel_colors",
    "legend_below",
    "new_axes",
    "percent",
    "shorten",
]

# Mostly Okabe and Ito's colors, which color-blind readers tell apart: some for classes, others for kernels, so that
# no color means two things in one plot. Shapes say the same.
CLASS_COLORS = ("#0072B2", "#D55E00", "#7B2D8B", "#56B4E9")
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P")
KERNEL_COLORS = ("#009E73", "#CC79A7", "#E69F00", "#5F5FC4", "#8A6E4B", "#3F9FA8")
KERNEL_MARKERS = ("o", "D", "^", "s", "v", "P")
NEUTRAL = "#777777"
LONGEST = 30  # characters of a name that are shown


def new_axes(width: float, height: float) -> Axes:
    """Return axes on a figure of its own, its size in inches, which pyplot never hears of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure.subplots()


def legend_below(ax: Axes, handles: list[Any], inches: float, n_columns: int = 2) -> None:
    """Put a legend of labeled handles below the axes, at a distance that leaves room for their labels."""
    from matplotlib.transforms import ScaledTranslation

    lower = ax.transAxes + ScaledTranslation(0.0, -inches, ax.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": lower}
    ax.legend(handles=handles, frameon=False, ncols=n_columns, borderaxespad=0.0, fontsize="small", **place)


def kernel_colors(importance: np.ndarray) -> list[str]:
    """Return a color per kernel, by position; of more kernels than colors the least important share a grey."""
    if len(importance) <= len(KERNEL_COLORS):
        return list(KERNEL_COLORS[: len(importance)])
    colors = [NEUTRAL] * len(importance)
    for color, m in zip(KERNEL_COLORS, np.argsort(-importance, kind="stable"), strict=False):
        colors[m] = color
    return colors


def percent(share: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * share:.0f} %"


def shorten(text: str, longest: int = LONGEST) -> str:
    """Cut a name to what there is room for."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
