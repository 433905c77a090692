"""Graphical models with plates, and axes that look alike, for the pictures of the algorithms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

# Okabe and Ito's colors, told apart by color-blind readers; markers and labels say the same
BLUE, ORANGE, GREEN, PINK, SKY, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
DARK, GREY, LIGHT = "#222222", "#777777", "#D9D9D9"
RADIUS = 0.4  # of a node, in units of a diagram


def draw_model(
    ax: Axes,
    nodes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str]],
    plates: Sequence[tuple[str, tuple[float, float, float, float], str]],
    observed: Collection[str] = (),
    marked: Collection[str] = (),
    size: float = 12,
) -> None:
    """Draw a graphical model.

    Nodes are known by their labels; observed ones are grey, marked ones have a thick orange rim. A plate is a label,
    (left, bottom, right, top), and where its label stands: "upper right", "lower left" and so on.
    """
    for label, (left, bottom, right, top), place in plates:
        corner, width, height = (left, bottom), right - left, top - bottom
        box = FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=0.15")
        box.set(facecolor="none", edgecolor=GREY, linewidth=1.2)
        ax.add_patch(box)
        row, column = place.split()
        x = right - 0.12 if column == "right" else left + 0.12
        y, vertical = (top - 0.1, "top") if row == "upper" else (bottom + 0.1, "bottom")
        ax.text(x, y, label, ha=column, va=vertical, color=DARK, fontsize=size - 2)
    for label, at in nodes.items():
        circle = Circle(at, RADIUS, facecolor=LIGHT if label in observed else "white", zorder=2)
        circle.set(edgecolor=ORANGE if label in marked else DARK, linewidth=2.6 if label in marked else 1.2)
        ax.add_patch(circle)
        ax.text(*at, label, ha="center", va="center_baseline", color=DARK, fontsize=size, zorder=3)
    for parent, child in edges:
        start, end = np.array(nodes[parent]), np.array(nodes[child])
        step = RADIUS * (end - start) / np.hypot(*(end - start))
        style = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 0, "shrinkB": 0}
        arrow = FancyArrowPatch(start + step, end - 1.05 * step, color=DARK, linewidth=1.2, **style)
        ax.add_patch(arrow)
    corners = [(x + s * RADIUS, y + s * RADIUS) for x, y in nodes.values() for s in (-1, 1)]
    corners += [corner for _, box, _ in plates for corner in (box[:2], box[2:])]
    low, high = np.min(corners, axis=0) - 0.08, np.max(corners, axis=0) + 0.08
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()


def tidy(ax: Axes, grid: str = "both") -> None:
    """Keep two spines, and draw a light grid behind the data along the axis `grid`: "x", "y" or "both"."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="#DDDDDD", linewidth=0.7)
    ax.set_axisbelow(True)
