"""Plots of predicted survival: over time for a few subjects, and against what was observed at one time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.survival_target import event_and_time
from bayesmkl._utils.validation import check_axes, shown
from bayesmkl.evaluation.survival import LEVEL, SurvivalCalibration, check_probabilities, kaplan_meier
from bayesmkl.posterior.axes import COLORS, LINES, NEUTRAL, legend_below, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAME = 40
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


def own_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or axes on a new figure of that size in inches."""
    check_axes("ax", ax)
    return new_axes(width, height)[0] if ax is None else ax


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
            f"`calibration` must be a SurvivalCalibration; got {shown(calibration)}. Make one by "
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
    check_axes("ax", ax)
    when = finite_numbers("times", times)
    if when.ndim != 1 or len(when) < 2 or (np.diff(when) <= 0.0).any():
        raise ValueError(
            f"`times` must be a list of two increasing times at least; got {shown(when.tolist())}. Use "
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
        key = label if len(label) <= LONGEST_NAME else f"{label[: LONGEST_NAME - 1]}…"
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
