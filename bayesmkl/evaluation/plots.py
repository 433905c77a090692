"""Plots of a comparison, its scores and critical differences, and of predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayesmkl._utils.axes import COLORS, LINES, NEUTRAL, legend_below, own_axes, shorten, tidy
from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.extras import require
from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.survival_target import event_and_time
from bayesmkl._utils.validation import check_axes, check_number
from bayesmkl._utils.validation import shown as shown_value
from bayesmkl.evaluation import significance
from bayesmkl.evaluation.metrics import METRICS, places_of
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.survival import (
    LEVEL,
    SurvivalCalibration,
    check_probabilities,
    kaplan_meier,
    median_event,
    survival_calibration,
)
from bayesmkl.posterior import plot_predictions, plot_reliability

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from bayesmkl.evaluation.comparison import Comparison

__all__ = [
    "plot_critical_difference",
    "plot_scores",
    "plot_survival_calibration",
    "plot_survival_functions",
]

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
LONGEST_NAME, LONGEST_KEY = 28, 40
INCHES_PER_CHARACTER = 0.085  # of names beside rows
# inches: height of a model, width of one of several data sets, of one
ROW, PANEL, ONLY_PANEL = 0.24, 2.7, 4.6
LEVEL_HEIGHT = 0.19  # inches: of a line of the critical-difference diagram


class Shown(NamedTuple):
    """One metric of a comparison, ready to be drawn."""

    title: str  # with units
    greater_is_better: bool
    scores: pd.DataFrame  # by data set and split, a column per model
    datasets: list[str]
    order: list[str]  # all models, by mean rank, those that failed somewhere last


def shown(comparison: Comparison, metric: str | None, dataset: str | None = None) -> Shown:
    """Look up a metric (None: the first) on one data set or all."""
    name = comparison.metrics[0] if metric is None else metric
    scores = comparison.scores(name, dataset)  # raises where there is no such metric or data set
    scores = scores.where(np.isfinite(scores))
    greater = bool(comparison.about["metrics"][name])
    title = METRICS[name].title if name in METRICS else name
    datasets = comparison.datasets if dataset is None else [dataset]
    order = [str(model) for model in significance.rank_table(scores, greater).index]
    return Shown(title, greater, scores, datasets, order)


def short_names(models: list[str]) -> dict[str, str]:
    """Shorten names; those that would be the same are numbered."""
    names = {model: shorten(model, LONGEST_NAME) for model in models}
    if len(set(names.values())) == len(models):
        return names
    return {model: f"{i + 1} {shorten(model, LONGEST_NAME - 3)}" for i, model in enumerate(models)}


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


def literal(ax: Axes, *others: Artist) -> Axes:
    """Return axes whose texts, and those of others, are not read as formulas: names may have dollar signs."""
    from matplotlib.text import Text

    for artist in (ax, *others):
        for text in artist.findobj(Text):
            text.set_parse_math(False)
    return ax


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
        them: :meth:`~bayesmkl.evaluation.Comparison.significance` says that, from paired differences.

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
        panel.set_yticks(np.arange(len(names)), names)
        panel.set_ylim(len(names) - 0.4, -0.6)  # the first on top
    direction = f"{what.title} ({'higher' if what.greater_is_better else 'lower'} is better)"
    explained = f"{direction}\nevery split; mean and {100 * confidence:g} % interval for overlapping splits"
    if len(axes) == 1:
        axes[0].set_xlabel(explained, loc="left", fontsize="small")
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
            ax.text(0.01, row, "no score", transform=ax.get_yaxis_transform(), va="center", color=NEUTRAL)
            continue
        spread = np.linspace(-0.24, 0.24, len(values)) if len(values) > 1 else np.zeros(1)
        ax.plot(values, row + spread, ".", color=NEUTRAL, alpha=0.5, markersize=4.5, markeredgewidth=0.0)
        mean = lower = upper = values.mean()
        if len(values) > 1:
            tested = significance.corrected_t(values, np.zeros(len(values)), ratio, confidence)
            lower, upper = tested.lower, tested.upper
        color, marker = (COLORS[1], "D") if model in best else (COLORS[0], "o")
        ax.hlines(row, lower, upper, color=color, linewidth=1.8, zorder=3)
        ax.plot(mean, row, marker, color=color, markeredgecolor="white", markersize=6.5, zorder=4)
    ax.set_title(dataset, loc="left")
    tidy(ax, "x")


@fill_docs(PLOT)
def plot_critical_difference(
    comparison: Comparison, metric: str | None = None, ax: Axes | None = None, *, alpha: float = 0.05
) -> Axes:
    """Draw the critical-difference diagram: mean ranks, and bars over models that do not differ by Nemenyi's test.

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
    significance.check_level("alpha", alpha)
    what = shown(comparison, metric)
    tested = significance.friedman(what.scores, what.greater_is_better)
    p_values = significance.nemenyi(what.scores, what.greater_is_better)
    names = short_names(list(p_values.index))
    posthocs = require("scikit_posthocs", "scikit-posthocs", "The critical-difference diagram")
    distance = significance.critical_difference(tested.n_models, tested.n_datasets, alpha)
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
        ax.figure.set(size_inches=(width, 0.75 + LEVEL_HEIGHT * (high - low)))
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


def picture(on_test: Predictions, y: np.ndarray, task: str) -> tuple[str, Any]:
    """Return the name of the picture of held-out predictions, and its axes; as `metrics.evaluated`."""
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


# ----------------------------------------------------------------------------------------------------------- survival


@fill_docs(PLOT)
def plot_survival_calibration(calibration: SurvivalCalibration, ax: Axes | None = None) -> Axes:
    """Plot observed survival at a time against the predicted one, with the band of a calibrated model.

    Parameters
    ----------
    calibration : SurvivalCalibration
        Result of :func:`~bayesmkl.evaluation.survival_calibration`.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        One point per bin, a diamond where it is outside of the band, and a bar for the band; the title says how many
        bins are inside.

    Raises
    ------
    TypeError
        If `calibration` is something else.
    ValueError
        If `ax` is no Axes.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.evaluation import survival_calibration
    >>> from bayesmkl.evaluation.plots import plot_survival_calibration
    >>> rng = np.random.default_rng(0)
    >>> hazard, censored = rng.uniform(0.1, 1.0, size=400), rng.uniform(0.5, 4.0, size=400)
    >>> died = rng.exponential(1.0 / hazard)
    >>> y = np.rec.fromarrays([died <= censored, np.minimum(died, censored)], names="event,time")
    >>> plot_survival_calibration(survival_calibration(y, np.exp(-2.0 * hazard), 2.0)).get_title(loc="left")
    '5 of 5 bins inside the band'
    """
    if not isinstance(calibration, SurvivalCalibration):
        raise TypeError(
            f"`calibration` must be a SurvivalCalibration; got {shown_value(calibration)}. Make one by "
            "`survival_calibration(y, survival_at, time)`."
        )
    ax = own_axes(ax, 5.0, 5.0)
    found = calibration
    inside = (found.observed >= found.lower) & (found.observed <= found.upper)
    ax.plot([0, 1], [0, 1], color=NEUTRAL, linestyle=(0, (4, 3)), linewidth=1.0, label="calibrated")
    ax.vlines(
        found.predicted,
        found.lower,
        found.upper,
        color=COLORS[4],
        alpha=0.55,
        linewidth=7.0,
        label=f"calibrated, {100 * LEVEL:g} % band of all bins",
    )
    for which, marker, color, label in (
        (inside, "o", COLORS[0], "observed"),
        (~inside, "D", COLORS[1], "observed, outside"),
    ):
        if which.any():
            points = found.predicted[which], found.observed[which]
            ax.plot(
                *points, marker, color=color, markeredgecolor="white", markersize=7.0, label=label, zorder=3
            )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_xlabel(f"predicted survival at {found.time:g}")
    ax.set_ylabel("observed survival (Kaplan-Meier)")
    ax.set_title(f"{np.count_nonzero(inside)} of {len(inside)} bins inside the band", loc="left")
    ax.legend(frameon=False, loc="best")
    tidy(ax, "both")
    return ax


@fill_docs(PLOT)
def plot_survival_functions(
    times: ArrayLike,
    survival: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    *,
    y: np.ndarray | None = None,
    names: Sequence[object] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the predicted survival of a few subjects over time, with bands.

    Parameters
    ----------
    times : array-like of shape (n_times,)
        Increasing times.
    survival : array-like of shape (n_subjects, n_times)
        Predicted probability that the event of each subject is later than each time; at most 6 subjects.
    lower, upper : array-like of shape (n_subjects, n_times), default=None
        Ends of the bands, such as of the 94 % interval; None draws no bands.
    y : structured array of shape (n_samples,), default=None
        Events and times of everyone, for their Kaplan-Meier curve as a thin line; None leaves it out.
    names : sequence of shape (n_subjects,), default=None
        Names of the subjects; None numbers them.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        One line per subject.

    Raises
    ------
    ValueError
        If `times` do not increase, `survival` holds no probabilities or more than 6 rows, bands or `names` are of
        another shape, only one end of the bands is given, `y` is no array of events and times, or `ax` no Axes.
    TypeError
        If an argument is a sparse matrix, or holds other objects than numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.evaluation.plots import plot_survival_functions
    >>> years = np.linspace(0.0, 5.0, 30)
    >>> survival = np.exp(-years * np.array([[0.1], [0.5]]))
    >>> ax = plot_survival_functions(years, survival, survival**1.3, survival**0.7, names=["low", "high"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['low', 'high']
    """
    when = finite_numbers("times", times)
    if when.ndim != 1 or len(when) < 2 or (np.diff(when) <= 0.0).any():
        raise ValueError(
            f"`times` must be a list of two increasing times at least; got {shown_value(when.tolist())}. Use "
            "`np.unique(times)`."
        )
    curves = _curves("survival", survival, when)
    if not 1 <= len(curves) <= len(COLORS):
        raise ValueError(
            f"`survival` must have a row for each of at most {len(COLORS)} subjects, more cannot be told apart; got "
            f"{len(curves)} rows. Choose some: `survival[:{len(COLORS)}]`."
        )
    if (lower is None) != (upper is None):
        given, missing = ("upper", "lower") if lower is None else ("lower", "upper")
        raise ValueError(f"`{missing}` must be given with `{given}`; got None. Pass both ends of the bands.")
    bands = None
    if lower is not None and upper is not None:
        bands = _curves("lower", lower, when, curves.shape), _curves("upper", upper, when, curves.shape)
    labels = [f"subject {i}" for i in range(len(curves))] if names is None else [str(name) for name in names]
    if len(labels) != len(curves):
        raise ValueError(f"`names` must name each of the {len(curves)} subjects; got {len(labels)} names.")
    everyone = None if y is None else kaplan_meier(*event_and_time(y, all_censored=True))

    ax = own_axes(ax, 6.0, 4.2)
    handles = {}
    if everyone is not None:
        steps = np.concatenate([[0.0], everyone.times]), np.concatenate([[1.0], everyone.survival])
        (line,) = ax.plot(*steps, drawstyle="steps-post", color=NEUTRAL, linewidth=0.9)
        handles["everyone (Kaplan-Meier)"] = line
    for i, (label, curve) in enumerate(zip(labels, curves, strict=True)):
        (line,) = ax.plot(when, curve, color=COLORS[i], linestyle=LINES[i], linewidth=1.8)
        key = shorten(label, LONGEST_KEY)
        handles[key if key not in handles else f"{key} ({i})"] = line
        if bands is not None:
            ax.fill_between(when, bands[0][i], bands[1][i], color=COLORS[i], alpha=0.15, linewidth=0.0)
    ax.set(xlim=(min(0.0, when[0]), when[-1]), ylim=(-0.02, 1.02), xlabel="time", ylabel="survival")
    tidy(ax, "both")
    legend_below(ax, handles)
    return ax


def _curves(
    name: str, values: ArrayLike, when: np.ndarray, shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """Return probabilities, a row per subject and a column per time."""
    curves = finite_numbers(name, values)
    wanted = (len(curves), len(when)) if shape is None else shape
    if curves.shape != wanted:
        rows = "each subject" if shape is None else f"each of the {shape[0]} subjects"
        raise ValueError(
            f"`{name}` must have a row for {rows} and a column for each of the {len(when)} `times`; got shape "
            f"{curves.shape}."
        )
    check_probabilities(name, curves)
    return curves
