"""Common parts of comparison plots: names, panels, models that can be shown."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from bayesmkl._utils.docstrings import entries
from bayesmkl._utils.validation import check_axes
from bayesmkl.evaluation.scoring import METRICS
from bayesmkl.evaluation.significance.ranks import rank_table
from bayesmkl.posterior.axes import NEUTRAL, new_axes, shorten

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

LONGEST_NAME = 28
INCHES_PER_CHARACTER = 0.085  # of names beside rows
INCHES_PER_LETTER = 0.058  # of small text

PLOT = entries(
    """
    comparison : Comparison
        Result of :func:`~bayesmkl.evaluation.compare_models`.
    metric : str, default=None
        One of its metrics; None is the first.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; None makes a figure.
    """
)


class Shown(NamedTuple):
    """One metric of a comparison, ready to be drawn."""

    metric: str
    title: str  # with units
    greater_is_better: bool
    scores: pd.DataFrame  # by data set and split, a column per model
    datasets: list[str]
    order: list[str]  # all models, by mean rank, those that failed somewhere last

    @property
    def direction(self) -> str:
        """The metric and which way is up, for an axis."""
        return f"{self.title} ({'higher' if self.greater_is_better else 'lower'} is better)"


def shown(comparison: Comparison, metric: str | None, dataset: str | None = None) -> Shown:
    """Look up a metric (None: the first) on one data set or all."""
    name = comparison.metrics[0] if metric is None else metric
    scores = comparison.scores(name, dataset)  # raises where there is no such metric or data set
    scores = scores.where(np.isfinite(scores))
    greater = bool(comparison.about["metrics"][name])
    title = METRICS[name].title if name in METRICS else name
    datasets = comparison.datasets if dataset is None else [dataset]
    order = [str(model) for model in rank_table(scores, greater).index]
    return Shown(name, title, greater, scores, datasets, order)


def short_names(models: list[str], longest: int = LONGEST_NAME) -> dict[str, str]:
    """Shorten names so that they stay different."""
    names = {model: shorten(model, longest) for model in models}
    taken = pd.Series(names).duplicated(keep=False)
    for model in taken.index[taken]:  # what tells them apart is at the end
        tail = longest // 2
        names[model] = f"{model[: longest - tail - 1]}…{model[-tail:]}"
    if len(set(names.values())) < len(models):
        return {model: f"{i + 1} {shorten(model, longest - 3)}" for i, model in enumerate(models)}
    return names


def width_of(names: Iterable[str]) -> float:
    """Return the width in inches of the longest of some names."""
    return INCHES_PER_CHARACTER * max(map(len, names))


def own_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or axes on a new figure of that size in inches."""
    check_axes("ax", ax)
    return new_axes(width, height)[0] if ax is None else ax


def panels(n: int, width: float, height: float, margins: tuple[float, float], most: int = 4) -> list[Axes]:
    """Return n axes side by side (at most `most` in a row) with one y-axis, each of a size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    n_rows = -(-n // most)
    n_columns = -(-n // n_rows)
    size = (margins[0] + n_columns * width, margins[1] + n_rows * height)
    figure = Figure(figsize=size, layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).ravel()
    for unused in axes[n:]:
        unused.set_visible(False)
    return list(axes[:n])


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write names beside rows 0, 1, ..., the first on top."""
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)


def explain(ax: Axes, text: str, width: float | None) -> None:
    """Write a text below axes that are so many inches wide (None: look), its long lines wrapped."""
    inches = ax.get_window_extent().width / ax.figure.dpi if width is None else width
    lines = [textwrap.wrap(line, max(24, int(inches / INCHES_PER_LETTER))) for line in text.splitlines()]
    ax.set_xlabel("\n".join(itertools.chain.from_iterable(lines)), loc="left", fontsize="small")


def literal(ax: Axes, *others: Artist) -> Axes:
    """Return axes whose texts, and those of others, are not read as formulas: names may have dollar signs."""
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    powers = [axis for axis in (ax.xaxis, ax.yaxis) if isinstance(axis.get_major_formatter(), LogFormatter)]
    formulas = {tick for axis in powers for tick in axis.get_ticklabels(which="both")}
    for artist in (ax, *others):
        for text in artist.findobj(Text):
            text.set_parse_math(text in formulas)
    return ax


def remark(ax: Axes, row: float, text: str) -> None:
    """Write a remark into a row, at its left end."""
    ax.text(
        0.01, row, text, transform=ax.get_yaxis_transform(), va="center", fontsize="x-small", color=NEUTRAL
    )
