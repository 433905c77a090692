"""Curves of compared classifiers, ROC, precision over recall, and calibration, with bands over splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.evaluation.curves import CURVES
from bayesmkl.evaluation.plots.parts import PLOT, own_axes, short_names
from bayesmkl.posterior.axes import COLORS, LINES, MARKERS, NEUTRAL, legend_below, tidy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

__all__ = ["plot_curve"]

SIDE = 4.2  # inches
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
    there = list(dict.fromkeys(table["model"]))
    chosen = there[:MOST_MODELS] if models is None else list(models)
    unknown = [model for model in chosen if model not in there]
    if unknown or not chosen or len(chosen) > MOST_MODELS:
        raise ValueError(
            f"`models` must be one to {MOST_MODELS} of those that have the curve, {there}; got {chosen}."
        )
    ax = own_axes(ax, SIDE, SIDE + 0.2 * len(chosen))
    names, handles = short_names(chosen), {}
    for k, model in enumerate(chosen):
        own = table[table["model"] == model]
        style: dict[str, Any] = {"color": COLORS[k], "linestyle": LINES[k], "linewidth": 1.6}
        if kind == "calibration":
            style |= {"marker": MARKERS[k], "markersize": 4.5}
        ax.fill_between(own["x"], own["lower"], own["upper"], color=COLORS[k], alpha=0.15, linewidth=0.0)
        (handles[names[model]],) = ax.plot(own["x"], own["mean"], **style)
    if kind != "precision_recall":
        ax.plot([0.0, 1.0], [0.0, 1.0], color=NEUTRAL, linewidth=0.8, zorder=1)
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.set_xlabel(CURVES[kind][0])
    ax.set_ylabel(CURVES[kind][1])
    left_out = len(there) - len(chosen)
    more = f"; without {left_out} further models" if left_out else ""
    where = comparison.datasets[0] if dataset is None else dataset
    ax.set_title(f"{where}, mean ± sd over splits{more}", loc="left", fontsize="medium")
    tidy(ax, "both")
    legend_below(ax, handles)
    return ax
