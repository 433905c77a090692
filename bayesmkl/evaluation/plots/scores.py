"""Plots of scores: on every split, and against what they cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_axes, check_number
from bayesmkl.evaluation.plots.parts import (
    PLOT,
    Shown,
    explain,
    literal,
    name_rows,
    own_axes,
    panels,
    remark,
    short_names,
    shown,
    width_of,
)
from bayesmkl.posterior.axes import COLORS, NEUTRAL, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

# inches: height of a model, width of one of several data sets, of one
ROW, PANEL, ONLY_PANEL = (0.24, 2.7, 4.6)
PLANE = 4.4  # inches: width of time against score
LINE = 0.165  # inches between the names in a list


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
