"""Plots of pairs of models: which of them differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.evaluation.plots.parts import (
    PLOT,
    Shown,
    explain,
    literal,
    own_axes,
    short_names,
    shown,
    width_of,
)
from bayesmkl.evaluation.significance.pairwise_table import (
    OF_DATASETS,
    TESTS,
    WITH_PROBABILITIES,
    WITH_RATIO,
    pairwise,
)
from bayesmkl.evaluation.significance.win_counts import wins
from bayesmkl.posterior.axes import NEUTRAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

CELL, LEAST = 0.4, 3.0  # inches: width of a cell, and of all at least
ENDS = ("#F6C79F", "#FFFFFF", "#1F5F99")  # row worse, no difference, row better: pale and dark, also in grey
LUMINANCE, DARK = (0.2126, 0.7152, 0.0722), 0.5  # of red, green and blue; texts on what is below are white
UNTESTED = "#E4E4E4"


class Square(NamedTuple):
    """Cell of a plot of pairs: the row's model against the column's."""

    values: np.ndarray  # -1 (row worse) to 1 (row better); NaN where not tested
    texts: np.ndarray
    explained: str


@fill_docs(PLOT)
def plot_pairwise(
    comparison: Comparison,
    metric: str | None = None,
    test: str = "corrected_t",
    ax: Axes | None = None,
    *,
    dataset: str | None = None,
    rope: float = 0.01,
    alpha: float = 0.05,
) -> Axes:
    """Show which pairs of models differ.

    Parameters
    ----------
    %(comparison)s
    %(metric)s
    test : {"corrected_t", "paired_t", "wilcoxon", "nemenyi", "bayesian", "mixed_effects"}, default="corrected_t"
        See :func:`~bayesmkl.evaluation.significance.pairwise`.
    %(ax)s
    dataset : str, default=None
        One of its data sets. With None and several, "nemenyi", "wilcoxon" and "mixed_effects" compare over them, and
        the other tests show on how many of them the model of the row is better, not different, and worse.
    rope : float, default=0.01
        Half width of the region of practical equivalence of "bayesian" and "mixed_effects", in the metric's unit.
    alpha : float, default=0.05
        Level of significance.

    Returns
    -------
    matplotlib.axes.Axes
        Blue: the model of the row is better than that of the column; orange: worse. Texts are p-values, with a sign
        where they are below `alpha`; with "bayesian" and "mixed_effects", the probability in percent that the model
        of the row is better, there of a further data set.

    Raises
    ------
    ValueError
        If `metric` or `dataset` is not one of the comparison, or `ax` no Axes; and as
        :func:`~bayesmkl.evaluation.significance.pairwise` raises.
    ImportError
        For "nemenyi" and "bayesian", if ``bayesmkl[compare]`` is not installed.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot_pairwise
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "normal": GaussianNB()}
    >>> found = compare_models(models, datasets=["iris"], scoring="accuracy")
    >>> ax = plot_pairwise(found, test="paired_t")
    >>> ax.get_title(loc="left"), [label.get_text() for label in ax.get_yticklabels()]
    ('accuracy, iris', ['logistic', 'normal'])
    """
    what = shown(comparison, metric, dataset)
    options: dict[str, Any] = {"greater_is_better": what.greater_is_better, "rope": rope, "alpha": alpha}
    if test in WITH_RATIO:
        options["test_train_ratio"] = {name: comparison.test_train_ratio(name) for name in what.datasets}
    if len(what.datasets) > 1 and test not in (*OF_DATASETS, "wilcoxon"):
        square = _won(wins(what.scores, test, **options), what, test, alpha)
    else:
        square = _tested(pairwise(what.scores, test, **options), what, test)
    names = short_names(what.order)
    square_width = max(CELL * len(names), LEAST)
    width = 0.3 + square_width + width_of(names.values())
    given, ax = ax, own_axes(ax, width, width + 0.8)
    _draw(ax, square, list(names.values()))
    where = what.datasets[0] if len(what.datasets) == 1 else f"{len(what.datasets)} data sets"
    ax.set_title(f"{what.title}, {where}", loc="left")
    text = f"{square.explained}\ndark blue: row better, pale orange: row worse\n{TESTS[test]}"
    explain(ax, text, square_width if given is None else None)
    return literal(ax)


def _tested(table: pd.DataFrame, what: Shown, test: str) -> Square:
    """Return p-values or probabilities of all pairs."""
    place = {model: i for i, model in enumerate(what.order)}
    n = len(place)
    values, texts = np.full((n, n), np.nan), np.full((n, n), "", dtype=object)
    for row in table.to_dict("records"):
        i, j = place[row["first"]], place[row["second"]]
        if np.isnan(row["difference"]):
            continue
        if test in WITH_PROBABILITIES:
            values[i, j] = row["p_first"] - row["p_second"]
            texts[i, j], texts[j, i] = (f"{100 * row[name]:.0f}" for name in ("p_first", "p_second"))
        else:
            sign = (row["better"] == row["first"]) * 1.0 - (row["better"] == row["second"])
            values[i, j] = sign * min(1.0, 0.4 - 0.2 * np.log10(max(row["p_adjusted"], 1e-9)))
            for a, b, s in ((i, j, sign), (j, i, -sign)):
                texts[a, b] = {1.0: "+", -1.0: "−", 0.0: ""}[s] + _p_text(row["p_adjusted"])
        values[j, i] = -values[i, j]
    if test in WITH_PROBABILITIES:
        where = " on another data set" if test in OF_DATASETS else ""
        more = f"by more than {table.attrs['rope']:g}{where}"
        return Square(values, texts, f"row better than column, {more}: probability in %")
    corrected = ", corrected for all pairs" if table.attrs["correction"] or test == "nemenyi" else ""
    return Square(values, texts, f"p-values{corrected}; +: row better than column, −: worse")


def _won(table: pd.DataFrame, what: Shown, test: str, alpha: float) -> Square:
    """Return on how many data sets one is better, not different, and worse."""
    place = {model: i for i, model in enumerate(what.order)}
    n = len(place)
    values, texts = np.full((n, n), np.nan), np.full((n, n), "", dtype=object)
    for row in table.to_dict("records"):
        i, j = place[row["model"]], place[row["opponent"]]
        if n_tested := row["wins"] + row["ties"] + row["losses"]:
            values[i, j] = (row["wins"] - row["losses"]) / n_tested
            texts[i, j] = f"{row['wins']}-{row['ties']}-{row['losses']}"
    sure = f"probability > {1 - alpha:g}" if test == "bayesian" else f"p < {alpha:g}"
    return Square(values, texts, f"data sets on which the row is better - not different - worse, {sure}")


def _draw(ax: Axes, square: Square, names: list[str]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("pairs", ENDS).with_extremes(bad=UNTESTED)
    values = np.ma.masked_invalid(square.values)
    image = ax.imshow(values, cmap=colors, vmin=-1.0, vmax=1.0, aspect="equal")
    size = 6.0 if len(names) > 8 else 8.0
    greys = image.to_rgba(values)[..., :3] @ LUMINANCE
    for (i, j), text in np.ndenumerate(square.texts):
        color = "white" if greys[i, j] < DARK else "black"
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color=color)
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(names)), names)
    ax.xaxis.tick_top()
    ax.tick_params(length=0.0)
    ax.spines[:].set_color(NEUTRAL)
    ax.set_xticks(np.arange(len(names) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1.0)
    ax.tick_params(which="minor", length=0.0)


def _p_text(p_value: float) -> str:
    if p_value < 0.001:
        return "<.001"
    text = f"{p_value:.2f}" if p_value >= 0.1 else f"{p_value:.3f}"
    return text.removeprefix("0")
