"""Style of plots, and axes without global state of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesmkl._utils.validation import check_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colors, told apart by color-blind readers, in an order of distinct greys; shapes say the same.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "D", "^", "v", "P")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
NEUTRAL = "#555555"


def new_axes(
    width: float,
    height: float,
    height_ratios: tuple[float, ...] = (1.0,),
    width_ratios: tuple[float, ...] = (1.0,),
) -> Any:
    """Return axes above or beside each other on a new figure, its size in inches; not registered with pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    grid = {"height_ratios": height_ratios, "width_ratios": width_ratios}
    shape = len(height_ratios), len(width_ratios)
    return figure.subplots(*shape, sharex="col", sharey="row", squeeze=False, gridspec_kw=grid).ravel()


def own_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, checked, or axes on a new figure of that size in inches."""
    check_axes("ax", ax)
    return new_axes(width, height)[0] if ax is None else ax


def tidy(ax: Axes, grid: Any) -> None:
    """Keep two spines and draw a light grid behind the data, along the axis `grid`: "x", "y" or "both"."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="#DDDDDD", linewidth=0.7)
    ax.set_axisbelow(True)


def legend_below(ax: Axes, handles: dict[str, Any], n_columns: int = 2) -> None:
    """Put a legend of the handles, by their texts, below the label of the x-axis."""
    from matplotlib.transforms import ScaledTranslation

    lower = ax.transAxes + ScaledTranslation(0.0, -0.55, ax.figure.dpi_scale_trans)  # inches
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": lower}
    ax.legend(handles.values(), handles.keys(), frameon=False, ncols=n_columns, borderaxespad=0.0, **place)


def shorten(text: str, longest: int) -> str:
    """Cut a text to at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def intervals(
    ax: Axes, rows: Any, ends: tuple[Any, Any, Any], color: str, marker: str, markersize: float
) -> Any:
    """Draw points with horizontal intervals, `ends` mean, lower and upper; return the points, for a legend."""
    mean, lower, upper = ends
    ax.hlines(rows, lower, upper, color=color, linewidth=1.8)
    return ax.plot(mean, rows, marker, color=color, markeredgecolor="white", markersize=markersize)[0]
