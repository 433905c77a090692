"""Plots of a comparison: scores, ranks, critical differences, pairs, time, curves; and of predicted survival."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.extras import require
from bayesmkl._utils.validation import check_axes, check_choice, check_number
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.scoring import METRICS, places_of
from bayesmkl.evaluation.significance import (
    critical_difference,
    friedman,
    nemenyi,
    pairwise,
    rank_table,
    wins,
)
from bayesmkl.evaluation.significance.tables import (
    OF_DATASETS,
    TESTS,
    WITH_PROBABILITIES,
    WITH_RATIO,
    blocks_of,
    check_level,
    ranks_of,
)
from bayesmkl.evaluation.survival import median_event, survival_calibration
from bayesmkl.evaluation.survival_plots import (
    PLOT,
    own_axes,
    plot_survival_calibration,
    plot_survival_functions,
)
from bayesmkl.posterior import plot_predictions, plot_reliability
from bayesmkl.posterior.axes import COLORS, LINES, MARKERS, NEUTRAL, SHADES, legend_below, shorten, tidy

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

__all__ = [
    "PLOTS",
    "plot",
    "plot_critical_difference",
    "plot_curve",
    "plot_learning_curve",
    "plot_pairwise",
    "plot_ranks",
    "plot_scores",
    "plot_survival_calibration",
    "plot_survival_functions",
    "plot_time",
]

LONGEST_NAME = 28
INCHES_PER_CHARACTER = 0.085  # of names beside rows
INCHES_PER_LETTER = 0.058  # of small text
# inches: height of a model, width of one of several data sets, of one
ROW, PANEL, ONLY_PANEL = 0.24, 2.7, 4.6
PLANE = 4.4  # inches: width of time against score
LINE = 0.165  # inches between the names in a list
RANK_ROW, RANK_PLANE = 0.26, 4.6  # inches: height of a model, width of the axis of ranks
LEVEL = 0.19  # inches: height of a line of the critical-difference diagram
CELL, LEAST = 0.4, 3.0  # inches: width of a cell, and of all at least
ENDS = ("#F6C79F", "#FFFFFF", "#1F5F99")  # row worse, no difference, row better: pale and dark, also in grey
LUMINANCE, DARK = (0.2126, 0.7152, 0.0722), 0.5  # of red, green and blue; texts on what is below are white
UNTESTED = "#E4E4E4"
SIDE = 4.2  # inches
WIDTH, HEIGHT = 5.2, 3.4
MOST_MODELS = len(COLORS)
CURVES = {
    "roc": ("false positive rate", "true positive rate"),
    "precision_recall": ("recall", "precision"),
    "calibration": ("predicted probability", "observed frequency"),
}  # what lies on the axes


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


# ---------------------------------------------------------------------------------------------------- scores and time


@fill_docs(PLOT)
def plot_scores(
    comparison: Comparison,
    metric: str | None = None,
    dataset: str | None = None,
    ax: Axes | None = None,
    *,
    confidence: float = 0.95,
) -> Axes:
    """Show the scores of every model on every split, with mean and interval.

    Parameters
    ----------
    %(comparison)s
    %(metric)s
    dataset : str, default=None
        One of its data sets; None shows all, in a panel each.
    ax : matplotlib.axes.Axes, default=None
        Axes for one data set; None makes a figure.
    confidence : float, default=0.95
        Confidence of the intervals of the means. They are as wide as overlapping training sets demand (the variance
        of :func:`~bayesmkl.evaluation.significance.corrected_t`). Whether two models differ is not to be read off
        them: :func:`plot_pairwise` shows that, from paired differences.

    Returns
    -------
    matplotlib.axes.Axes
        The first panel; all are in ``ax.figure.axes``. Models are sorted by mean rank, the best on top; the best mean
        of a panel is a diamond, the others are circles.

    Raises
    ------
    ValueError
        If `metric` or `dataset` is not one of the comparison, or `ax` no Axes or for one data set while several are
        shown; if `confidence` is not positive.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.svm import SVC
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot_scores
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "rbf": SVC()}
    >>> found = compare_models(models, datasets=["iris"], scoring="accuracy")
    >>> plot_scores(found).get_xlabel().splitlines()[0]
    'accuracy (higher is better)'
    """
    check_axes("ax", ax)
    confidence = check_number("confidence", confidence, low=0.0)
    what = shown(comparison, metric, dataset)
    names = _names(what)
    width = PANEL if len(what.datasets) > 1 else ONLY_PANEL
    if ax is None:
        height = 0.55 + ROW * len(names)
        axes = panels(len(what.datasets), width, height, (0.2 + width_of(names), 0.6))
    elif len(what.datasets) == 1:
        axes = [ax]
    else:
        raise ValueError(f"`ax` holds one data set; choose one of {what.datasets} by `dataset`.")
    for panel, name in zip(axes, what.datasets, strict=True):
        _draw_scores(panel, what, name, comparison.test_train_ratio(name), confidence)
        name_rows(panel, names)
    explained = (
        f"{what.direction}\nevery split; mean and {100 * confidence:g} % interval for overlapping splits"
    )
    if len(axes) == 1:
        explain(axes[0], explained, width if ax is None else None)
    else:
        axes[0].figure.supxlabel(explained, fontsize="small")
        literal(axes[0], axes[0].figure)
    return literal(axes[0])


def _names(what: Shown) -> list[str]:
    """Return the names of the models, with the number of scores that are missing."""
    names, missing = short_names(what.order), what.scores.isna().sum()
    return [
        f"{names[model]} ({missing[model]} of {len(what.scores)} missing)" if missing[model] else names[model]
        for model in what.order
    ]


def _draw_scores(ax: Axes, what: Shown, dataset: str, ratio: float, confidence: float) -> None:
    scores = what.scores.loc[[dataset]]
    complete = [model for model in what.order if scores[model].notna().all()]
    means = scores[complete].mean()
    best = means.index[means == (means.max() if what.greater_is_better else means.min())]
    for row, model in enumerate(what.order):
        values = scores[model].dropna().to_numpy()
        if not len(values):
            remark(ax, row, "no score")
            continue
        spread = np.linspace(-0.24, 0.24, len(values)) if len(values) > 1 else np.zeros(1)
        ax.plot(values, row + spread, ".", color=NEUTRAL, alpha=0.5, markersize=4.5, markeredgewidth=0.0)
        mean, half = values.mean(), _half_width(values, ratio, confidence)
        color, marker = (COLORS[1], "D") if model in best else (COLORS[0], "o")
        ax.hlines(row, mean - half, mean + half, color=color, linewidth=1.8, zorder=3)
        ax.plot(mean, row, marker, color=color, markeredgecolor="white", markersize=6.5, zorder=4)
    ax.set_title(dataset, loc="left")
    tidy(ax, "x")


def _half_width(values: np.ndarray, ratio: float, confidence: float) -> float:
    n = len(values)
    if n < 2:
        return 0.0
    scale = math.sqrt((1.0 / n + ratio) * float(values.var(ddof=1)))
    return float(stats.t.ppf(0.5 + confidence / 2.0, n - 1)) * scale


@fill_docs(PLOT)
def plot_time(
    comparison: Comparison, metric: str | None = None, dataset: str | None = None, ax: Axes | None = None
) -> Axes:
    """Show what the scores of the models cost in time.

    Parameters
    ----------
    %(comparison)s
    %(metric)s
    dataset : str, default=None
        One of its data sets; None takes the mean over all, of models that have a score on each split.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        Mean score against the seconds of a fit and its predictions, as if the model had computed all its kernels
        itself. Models that no other one beats in both are filled.

    Raises
    ------
    ValueError
        If no model has a score on every split, `metric` or `dataset` is not one of the comparison, or `ax` no Axes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot_time
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "normal": GaussianNB()}
    >>> found = compare_models(models, datasets=["iris"], scoring="accuracy")
    >>> ax = plot_time(found)
    >>> ax.get_ylabel(), ax.get_xscale()
    ('accuracy (higher is better)', 'log')
    """
    what = shown(comparison, metric, dataset)
    table = _costs(comparison, what)
    if table.empty:
        raise ValueError(
            f"No model has a finite {what.title} on every split. See `failures`, or choose a `dataset`."
        )
    names = short_names(list(table.index))
    height = max(3.4, 1.1 + LINE * len(table))
    given, ax = ax, own_axes(ax, PLANE + 0.9 + width_of(names.values()), height)
    front = _front(table, what.greater_is_better)
    colors = [COLORS[0] if good else "white" for good in front]
    ax.scatter(
        table["seconds"], table["score"], s=34.0, c=colors, edgecolors=COLORS[0], linewidths=1.2, zorder=3
    )
    ax.set_xscale("log")
    low, high = table["score"].min(), table["score"].max()
    margin = 0.06 * ((high - low) or abs(high) or 1.0)
    ax.set_ylim(low - margin, high + margin)
    tidy(ax, "both")
    _name_points(ax, table, names, front, gap=LINE / (height - 1.1))
    where = what.datasets[0] if len(what.datasets) == 1 else f"mean over {len(what.datasets)} data sets"
    left_out = [model for model in what.order if model not in table.index]
    without = f"; without {', '.join(short_names(left_out).values())} (failed)" if left_out else ""
    ax.set_title(f"{where}{without}", loc="left")
    explained = "seconds to fit and predict one split\nfilled: no other model is both faster and better"
    explain(ax, explained, PLANE if given is None else None)
    ax.set_ylabel(what.direction)
    return literal(ax)


def _costs(comparison: Comparison, what: Shown) -> pd.DataFrame:
    """Return mean score and seconds, over data sets of means over splits, of the models that never failed."""
    cells = comparison.cells[comparison.cells["dataset"].isin(what.datasets)]
    seconds = (
        (cells["fit_seconds"] + cells["predict_seconds"]).groupby([cells["dataset"], cells["model"]]).mean()
    )
    complete = what.scores.dropna(axis=1).columns
    table = pd.DataFrame(
        {
            "seconds": seconds.groupby(level="model").mean(),
            "score": what.scores[complete].groupby(level=0).mean().mean(),
        }
    )
    return table.reindex(index=[model for model in what.order if model in complete])


def _front(table: pd.DataFrame, greater_is_better: bool) -> np.ndarray:
    """Return a mask of the models on the Pareto front of time and score."""
    seconds, score = (
        table["seconds"].to_numpy(),
        table["score"].to_numpy() * (1.0 if greater_is_better else -1.0),
    )
    faster, better = seconds[:, None] < seconds, score[:, None] > score
    return np.logical_not((faster & better).any(axis=0))


def _name_points(ax: Axes, table: pd.DataFrame, names: dict[str, str], front: np.ndarray, gap: float) -> None:
    """List the names at the right in the order of the scores, each with a line to its point."""
    low, high = ax.get_ylim()
    wanted = (table["score"].to_numpy() - low) / (high - low)
    places = spaced(wanted, gap)
    for (model, point), place, good in zip(table.iterrows(), places, front, strict=True):
        ax.annotate(
            names[str(model)],
            xy=(point["seconds"], point["score"]),
            xytext=(1.06, place),
            textcoords="axes fraction",
            va="center",
            fontsize="small",
            fontweight="bold" if good else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": NEUTRAL,
                "linewidth": 0.5,
                "alpha": 0.7,
                "relpos": (0.0, 0.5),
            },
        )


def spaced(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Return places in [0, 1] near the wanted ones, in their order, at least `gap` apart if there is room."""
    order = np.argsort(wanted, kind="stable")
    steps = min(gap, 1.0 / max(len(wanted) - 1, 1)) * np.arange(len(wanted))
    free = np.maximum.accumulate(wanted[order] - steps)  # places up from the bottom, none below its wish
    top = 1.0 - steps[-1]
    places = np.empty_like(wanted)
    places[order] = np.clip(free, 0.0, top) + steps
    return places


# -------------------------------------------------------------------------------------------------------------- ranks


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
    given, ax = ax, own_axes(ax, RANK_PLANE + 0.3 + width_of(names), 1.3 + RANK_ROW * len(names))
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
    explain(ax, explained, RANK_PLANE if given is None else None)
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


# -------------------------------------------------------------------------------------------------------------- pairs


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
    _draw_square(ax, square, list(names.values()))
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


def _draw_square(ax: Axes, square: Square, names: list[str]) -> None:
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


# ------------------------------------------------------------------------------------------------------------- curves


@fill_docs(PLOT)
def plot_curve(
    comparison: Comparison,
    kind: str = "roc",
    dataset: str | None = None,
    positive: Any = None,
    models: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Show a curve of every classifier, its mean over splits and a band of one standard deviation.

    Parameters
    ----------
    %(comparison)s
    kind : {"roc", "precision_recall", "calibration"}, default="roc"
        See :meth:`~bayesmkl.evaluation.Comparison.curve`. Calibration has a point for each tenth of the predictions.
    dataset : str, default=None
        One of its data sets; None is the only one.
    positive : object, default=None
        Class that is meant; None is the second of two.
    models : sequence of str, default=None
        Up to six, in the order of their colors; None takes the first six that have the curve.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        Both axes from 0 to 1; grey is chance, or perfect calibration.

    Raises
    ------
    ValueError
        If `kind`, `dataset`, `positive` or one of `models` is not known, there are more than six, no model has the
        curve, predictions are not kept, or `ax` is no Axes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayesmkl.datasets import load_wdbc
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot_curve
    >>> X, y = load_wdbc(return_X_y=True)
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "normal": GaussianNB()}
    >>> found = compare_models(models, X[::4, :4], y[::4], scoring="auc", cv=3)
    >>> ax = plot_curve(found, "calibration")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('predicted probability', 'observed frequency')
    """
    table = comparison.curve(kind, dataset, positive)
    chosen, left_out = _chosen(list(dict.fromkeys(table["model"])), models, "that have the curve")
    ax = own_axes(ax, SIDE, SIDE + 0.2 * len(chosen))
    handles = _bands(ax, table, chosen, "x", markers=kind == "calibration")
    if kind != "precision_recall":
        ax.plot([0.0, 1.0], [0.0, 1.0], color=NEUTRAL, linewidth=0.8, zorder=1)
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.set_xlabel(CURVES[kind][0])
    ax.set_ylabel(CURVES[kind][1])
    where = comparison.datasets[0] if dataset is None else dataset
    ax.set_title(f"{where}, mean ± sd over splits{left_out}", loc="left", fontsize="medium")
    tidy(ax, "both")
    legend_below(ax, handles)
    return literal(ax)


@fill_docs(PLOT)
def plot_learning_curve(
    comparison: Comparison,
    metric: str | None = None,
    dataset: str | None = None,
    models: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Show the scores of models over the number of training rows, with a band of one standard deviation over splits.

    Parameters
    ----------
    %(comparison)s
        Its splits differ in the size of the training part.
    %(metric)s
    dataset : str, default=None
        One of its data sets; None is the only one.
    models : sequence of str, default=None
        Up to six, in the order of their colors; None takes the first six.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        Means of :meth:`~bayesmkl.evaluation.Comparison.learning_curve` over training rows.

    Raises
    ------
    ValueError
        If `metric`, `dataset` or one of `models` is not known, there are more than six models, all splits train on as
        many rows, no score is finite, or `ax` is no Axes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import StratifiedShuffleSplit
    >>> from bayesmkl.datasets import load_wdbc
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot_learning_curve
    >>> X, y = load_wdbc(return_X_y=True)
    >>> X = X[:, :4] / X[:, :4].std(axis=0)
    >>> sizes = [StratifiedShuffleSplit(3, train_size=n, test_size=100, random_state=0) for n in (20, 40, 80)]
    >>> splits = [pair for size in sizes for pair in size.split(X, y)]
    >>> found = compare_models({"logistic": LogisticRegression()}, X, y, cv=splits, scoring="accuracy")
    >>> plot_learning_curve(found).get_xlabel()
    'training rows'
    """
    one = comparison._one(dataset)
    what = shown(comparison, metric, one)
    table = comparison.learning_curve(what.metric, one)
    table = table[table["n"] > 0]
    if table["n_train"].nunique() < 2:
        raise ValueError(
            f"`dataset`: the splits of {one!r} that have scores all train on as many rows. Give compare_models "
            "splits of several sizes, such as the pairs of several StratifiedShuffleSplit(5, train_size=n)."
        )
    chosen, left_out = _chosen(list(dict.fromkeys(table["model"])), models, "that have scores")
    half = table["std"].fillna(0.0)
    table = table.assign(lower=table["mean"] - half, upper=table["mean"] + half)
    ax = own_axes(ax, WIDTH, HEIGHT + 0.2 * len(chosen))
    handles = _bands(ax, table, chosen, "n_train", markers=True)
    ax.set_xlabel("training rows")
    ax.set_ylabel(what.direction)
    ax.set_title(f"{one}, mean ± sd over splits{left_out}", loc="left", fontsize="medium")
    tidy(ax, "both")
    legend_below(ax, handles)
    return literal(ax)


def _chosen(there: list[str], models: Sequence[str] | None, which: str) -> tuple[list[str], str]:
    """Return the models to draw, and what the title says of the others."""
    chosen = there[:MOST_MODELS] if models is None else list(models)
    unknown = [model for model in chosen if model not in there]
    if unknown or not chosen or len(chosen) > MOST_MODELS:
        raise ValueError(f"`models` must be one to {MOST_MODELS} of those {which}, {there}; got {chosen}.")
    left_out = len(there) - len(chosen)
    return chosen, f"; without {left_out} further models" if left_out else ""


def _bands(ax: Axes, table: pd.DataFrame, models: list[str], x: str, markers: bool) -> dict[str, Any]:
    """Draw the mean of each model between ``lower`` and ``upper``; return the lines by their names."""
    names, handles = short_names(models), {}
    for k, model in enumerate(models):
        own = table[table["model"] == model]
        style: dict[str, Any] = {"color": COLORS[k], "linestyle": LINES[k], "linewidth": 1.6}
        if markers:
            style |= {"marker": MARKERS[k], "markersize": 4.5}
        ax.fill_between(own[x], own["lower"], own["upper"], color=COLORS[k], alpha=0.15, linewidth=0.0)
        (handles[names[model]],) = ax.plot(own[x], own["mean"], **style)
    return handles


PLOTS: dict[str, Callable[..., Axes]] = {
    "scores": plot_scores,
    "ranks": plot_ranks,
    "critical_difference": plot_critical_difference,
    "pairwise": plot_pairwise,
    "time": plot_time,
    "learning_curve": plot_learning_curve,
}


@fill_docs(PLOT)
def plot(comparison: Comparison, kind: str = "scores", metric: str | None = None, **options: Any) -> Axes:
    """Draw a comparison.

    Parameters
    ----------
    %(comparison)s
    kind : str, default="scores"
        "scores", "ranks", "critical_difference", "pairwise", "time" or "learning_curve": :func:`plot_scores`,
        :func:`plot_ranks`, :func:`plot_critical_difference`, :func:`plot_pairwise`, :func:`plot_time`,
        :func:`plot_learning_curve`. "roc", "precision_recall" or "calibration": :func:`plot_curve`, which has no
        `metric`.
    %(metric)s
    **options
        Of that function, such as ``dataset`` or ``ax``.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``: ``ax.figure.savefig("scores.png")``.

    Raises
    ------
    ValueError
        If `kind` or `metric` is not known, or `ax` no Axes; and as the function raises.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.evaluation.plots import plot
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "normal": GaussianNB()}
    >>> found = compare_models(models, datasets=["iris"], scoring="accuracy")
    >>> [label.get_text() for label in plot(found, "ranks").get_yticklabels()]
    ['logistic', 'normal']
    """
    if check_choice("kind", kind, (*PLOTS, *CURVES)) in PLOTS:
        return PLOTS[kind](comparison, metric, **options)
    if metric is not None:
        raise ValueError(f"`metric` must be None for a curve {kind!r}, which has none; got {metric!r}.")
    return plot_curve(comparison, kind, **options)


def picture(on_test: Predictions, y: np.ndarray, task: str) -> tuple[str, Any]:
    """Return the name of the picture of held-out predictions, and its axes; as `scoring.evaluated`."""
    if task == "survival":
        when = median_event(on_test.y_train)
        found = survival_calibration(y, on_test.survival(np.array([when]))[:, 0], when)
        return "calibration.png", plot_survival_calibration(found)
    if task in ("regression", "counts"):
        return "predicted_vs_observed.png", plot_predictions(y, *on_test.moments())
    labels = on_test.classes
    if task == "ordinal":
        y, labels = places_of(labels, y), np.arange(len(labels))
    return "reliability.png", plot_reliability(y, on_test.probabilities(), labels=labels)
