"""Plots of ranks over data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.extras import require
from bayesmkl.evaluation.plots.parts import (
    PLOT,
    explain,
    literal,
    name_rows,
    own_axes,
    remark,
    short_names,
    shown,
    width_of,
)
from bayesmkl.evaluation.significance.ranks import (
    blocks_of,
    check_level,
    critical_difference,
    friedman,
    nemenyi,
    ranks_of,
)
from bayesmkl.posterior.axes import COLORS, NEUTRAL, SHADES, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

ROW, PLANE = 0.26, 4.6  # inches: height of a model, width of the axis of ranks
LEVEL = 0.19  # inches: height of a line of the critical-difference diagram


@fill_docs(PLOT)
def plot_ranks(
    comparison: Comparison, metric: str | None = None, ax: Axes | None = None, *, alpha: float = 0.05
) -> Axes:
    """Show the ranks of the models in every data set (in every split where there is one data set).

    Parameters
    ----------
    %(comparison)s
    %(metric)s
    %(ax)s
    alpha : float, default=0.05
        Level of Nemenyi's test, whose critical difference from the best mean rank is shaded where there are at least
        three models and two data sets.

    Returns
    -------
    matplotlib.axes.Axes
        Circles as large as a rank is frequent, diamonds at the mean ranks.

    Raises
    ------
    ValueError
        If `metric` is not one of the comparison, or `ax` no Axes, or `alpha` not strictly between
        0 and 1.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot_ranks
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "normal": GaussianNB()}
    >>> found = compare_models(models, datasets=["iris"], scoring="accuracy")
    >>> [label.get_text() for label in plot_ranks(found).get_yticklabels()]
    ['logistic', 'normal']
    """
    alpha = check_level(alpha)
    what = shown(comparison, metric)
    blocks = blocks_of(what.scores)
    ranks = ranks_of(blocks.scores, what.greater_is_better)
    names = list(short_names(what.order).values())
    given, ax = ax, own_axes(ax, PLANE + 0.3 + width_of(names), 1.3 + ROW * len(names))
    for row, model in enumerate(what.order):
        if model in blocks.left_out:
            remark(ax, row, blocks.left_out[model])
            continue
        places, counts = np.unique(ranks[model], return_counts=True)
        ax.scatter(
            places, np.full(len(places), row), s=170.0 * counts / len(ranks), color=NEUTRAL, alpha=0.35
        )
        ax.plot(ranks[model].mean(), row, "D", color=COLORS[1], markeredgecolor="white", markersize=7.5)
    name_rows(ax, names)
    n_models = max(ranks.shape[1], 1)
    ax.set_xlim(0.6, n_models + 0.4)
    ax.set_xticks(np.arange(1, n_models + 1, max(1, n_models // 10)))
    tidy(ax, "x")
    blocks_are = "data sets" if len(what.datasets) > 1 else f"splits of {what.datasets[0]}"
    explained = f"rank by {what.title} in {len(ranks)} {blocks_are} (1 is best); diamonds: mean ranks"
    if len(what.datasets) > 1 and n_models > 2:
        distance = critical_difference(n_models, len(ranks), alpha)
        best = ranks.mean().min()
        ax.axvspan(
            best, min(best + distance, n_models + 0.4), color=SHADES[1], alpha=0.2, zorder=0, linewidth=0.0
        )
        explained += (
            f"\nshaded: mean ranks within the critical difference {distance:.2f} of the best (α = {alpha:g})"
        )
    explain(ax, explained, PLANE if given is None else None)
    return literal(ax)


@fill_docs(PLOT)
def plot_critical_difference(
    comparison: Comparison, metric: str | None = None, ax: Axes | None = None, *, alpha: float = 0.05
) -> Axes:
    """Draw the critical-difference diagram: mean ranks, and bars over models that Nemenyi's test cannot tell apart.

    Parameters
    ----------
    comparison : Comparison
        Result of :func:`~bayesmkl.evaluation.compare_models`, of at least three models on two data sets.
    %(metric)s
    %(ax)s
    alpha : float, default=0.05
        Level of Nemenyi's test.

    Returns
    -------
    matplotlib.axes.Axes
        With the axis of mean ranks on top, 1 at the left.

    Raises
    ------
    ImportError
        If scikit-posthocs, which draws it, is not installed; it is part of ``bayesmkl[compare]``.
    ValueError
        If there are fewer than three models with all results or two data sets, `metric` is not one of the comparison,
        `ax` no Axes, or `alpha` not strictly between 0 and 1.

    References
    ----------
    .. [1] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
       Research 7, 2006.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot_critical_difference
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "normal": GaussianNB(), "none": DummyClassifier()}
    >>> found = compare_models(models, datasets=["iris", "wdbc"], scoring="accuracy")
    >>> plot_critical_difference(found).get_title(loc="left").partition(";")[0]
    'accuracy: mean ranks over 2 data sets'
    """
    alpha = check_level(alpha)
    what = shown(comparison, metric)
    tested = friedman(what.scores, what.greater_is_better)
    p_values = nemenyi(what.scores, what.greater_is_better)
    names = short_names(list(p_values.index))
    posthocs = require("scikit_posthocs", "scikit-posthocs", "The critical-difference diagram")
    distance = critical_difference(tested.n_models, tested.n_datasets, alpha)
    width = 5.0 + 2.0 * width_of(names.values())
    given, ax = ax, own_axes(ax, width, 3.0)
    posthocs.critical_difference_diagram(
        tested.mean_ranks.rename(names),
        p_values.rename(index=names, columns=names),
        alpha=alpha,
        ax=ax,
        label_fmt_left="{label}  {rank:.2f} ",
        label_fmt_right=" {rank:.2f}  {label}",
        label_props={"fontsize": "small"},
        marker_props={"s": 16.0, "color": "black"},
        elbow_props={"color": "black", "linewidth": 0.8},
        crossbar_props={"color": COLORS[0], "linewidth": 3.0, "solid_capstyle": "round"},
    )
    _draw_distance(ax, tested.mean_ranks, distance)
    title = f"{what.title}: mean ranks over {tested.n_datasets} data sets; Friedman's test p = {tested.p_value:.2g}"
    without = ", ".join(short_names([str(model) for model in tested.left_out]).values())
    ax.set_title(f"{title}\nwithout {without} (failed)" if without else title, loc="left", fontsize="medium")
    if given is None:
        low, high = ax.get_ylim()
        ax.figure.set(size_inches=(width, 0.75 + LEVEL * (high - low)))
    return literal(ax)


def _draw_distance(ax: Axes, mean_ranks: pd.Series, distance: float) -> None:
    """Draw the critical difference above the axis of ranks, and set the limits so that all is seen."""
    n_models, lowest = len(mean_ranks), ax.dataLim.ymin
    ax.set_xlim(1.0, n_models)
    ax.set_xticks(np.arange(1, n_models + 1, max(1, n_models // 12)))
    ax.tick_params(axis="x", labelsize="small")
    end = min(1.0 + distance, float(n_models))
    ax.plot([1.0, end], [2.6, 2.6], color="black", linewidth=1.2, marker="|")
    beyond = " (beyond the axis)" if end < 1.0 + distance else ""
    ax.text(
        (1.0 + end) / 2.0, 3.0, f"critical difference {distance:.2f}{beyond}", ha="center", fontsize="small"
    )
    ax.set_ylim(lowest - 0.8, 4.2)
    for artist in [*ax.lines, *ax.collections]:
        artist.set_clip_on(False)  # markers at both ends of the axis
