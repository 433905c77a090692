"""Axes without global state of matplotlib, and the colors of classes and kernels."""

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
    "KERNEL_TINTS",
    "NEUTRAL",
    "kernel_colors",
    "legend_below",
    "new_axes",
    "percent",
    "shorten",
]

# Okabe and Ito's colors, which color-blind readers tell apart, some of them darker, so that neighbors also differ in
# grey: some for classes, others for kernels, so that no color means two things in one plot. Shapes say the same.
CLASS_COLORS = ("#004A7C", "#D55E00", "#7B2D8B", "#56B4E9")
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P")
KERNEL_COLORS = ("#006B4E", "#CC79A7", "#EDB233", "#3D3D9E", "#6FBBC3", "#6B5135")
KERNEL_MARKERS = ("o", "D", "^", "s", "v", "P")
KERNEL_OPACITIES = (0.42, 0.16, 0.4, 0.2, 0.4, 0.2)  # of regions: dark and light in turn
KERNEL_HATCHES = ("", "", "///", "\\\\\\", "...", "xx")
KERNEL_TINTS = tuple(zip(KERNEL_OPACITIES, KERNEL_HATCHES, strict=True))
NEUTRAL = "#777777"
LONGEST = 30  # characters of a name that are shown


def new_axes(width: float, height: float) -> Axes:
    """Return axes on a figure of its own, its size in inches, not registered with pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure.subplots()


def legend_below(
    ax: Axes, handles: list[Any], inches: float, n_columns: int = 2, marker_scale: float = 1.0
) -> None:
    """Put a legend of labeled handles below the axes, at a distance that leaves room for their labels."""
    from matplotlib.transforms import ScaledTranslation

    lower = ax.transAxes + ScaledTranslation(0.0, -inches, ax.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": lower}
    look: dict[str, Any] = {"frameon": False, "borderaxespad": 0.0, "fontsize": "small"}
    ax.legend(handles=handles, ncols=n_columns, markerscale=marker_scale, **look, **place)


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
    """Shorten a name to the available width."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
