"""Curves of compared models, ROC, precision over recall, calibration, and learning, with bands over splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.evaluation.curves import CURVES
from bayesmkl.evaluation.plots.parts import PLOT, literal, own_axes, short_names, shown
from bayesmkl.posterior.axes import COLORS, LINES, MARKERS, NEUTRAL, legend_below, tidy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

SIDE = 4.2  # inches
WIDTH, HEIGHT = 5.2, 3.4
MOST_MODELS = len(COLORS)


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
