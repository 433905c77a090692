"""Plots of a comparison: scores, ranks, critical differences, pairs, time, curves; and of predicted survival."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_choice
from bayesmkl.evaluation.curves import CURVES
from bayesmkl.evaluation.plots.curves import plot_curve, plot_learning_curve
from bayesmkl.evaluation.plots.pairs import plot_pairwise
from bayesmkl.evaluation.plots.parts import PLOT
from bayesmkl.evaluation.plots.ranks import plot_critical_difference, plot_ranks
from bayesmkl.evaluation.plots.scores import plot_scores, plot_time
from bayesmkl.evaluation.plots.survival import plot_survival_calibration, plot_survival_functions

if TYPE_CHECKING:
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
