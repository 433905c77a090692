"""Plots of weights, bounds, parts of scores, slopes, and of predictions against what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.base import BaseEstimator

from bayesmkl._utils.axes import COLORS, MARKERS, NEUTRAL, intervals, new_axes, own_axes, shorten, tidy
from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import check_axes, check_flag, check_integer, check_probability, shown
from bayesmkl.posterior.checks import reliability
from bayesmkl.posterior.explained import unit_of
from bayesmkl.posterior.fitted import fitted_bemkl, public
from bayesmkl.posterior.relevance import AGAINST, NO_EVIDENCE
from bayesmkl.posterior.summary import view_table
from bayesmkl.posterior.tables import kernel_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import Dataset

LONGEST_NAME, LONGEST_GROUP, LONGEST = 46, 28, 24  # characters of a kernel, of a view or class, of a part
INCHES_PER_CHARACTER = 0.085
CLAIMED = 0.01  # part of a variance from which on an interval excludes nothing at all
GREY = "#999999"  # of what is not explained
CONSTANT = ("intercept", "offset")  # kinds of parts that say nothing of features


@public
def plot_kernel_weights(
    model: BaseEstimator,
    ci_prob: float = 0.94,
    max_kernels: int = 20,
    ax: Axes | None = None,
    *,
    by_view: bool = False,
    kernels: ArrayLike | None = None,
) -> Axes:
    """Plot how much variance of the outcome each of the most important kernels explains, with intervals.

    Parameters
    ----------
    %(model)s
        Or a multitask model.
    %(ci_prob:plot)s
    max_kernels : int, default=20
        Maximum number of kernels to show.
    %(ax)s
    by_view : bool, default=False
        Whether to group the kernels by view. The heading of a group has the name of the view and the variance that
        all its kernels explain; views are sorted by it.
    kernels : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels of a model that was fitted to precomputed ones, see :func:`kernel_table`.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``: ``ax.figure.savefig("kernels.png")``.

    Raises
    ------
    %(TypeError:tasks)s
    NotFittedError
        Before `fit`.
    ValueError
        If `by_view` is used with precomputed kernels, which have no views.

    Notes
    -----
    Colors and shapes mark views if two to six are shown. If classes, labels (one-versus-all) or tasks have their own
    kernel weights, colors and shapes mark these instead, and kernels are sorted by their mean. Models without draws
    of the parts of kernels, such as multitask models, show shares of the score.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import plot_kernel_weights
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> ax = plot_kernel_weights(BEMKLClassifier(bank).fit(X, X[:, 0] > 0))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['linear · signal', 'linear · noise']
    """
    check_flag("by_view", by_view)
    max_kernels = check_integer("max_kernels", max_kernels, low=1)
    table = kernel_table(model, ci_prob, kernels=kernels)
    of_model = next((column for column in ("class", "label", "task") if column in table), None)
    size = "explained" if "explained" in table else "share"
    means = table[size]  # falling, of kernels with several models their means
    if of_model is not None:
        means = table.groupby("kernel", sort=False)[size].mean().sort_values(ascending=False, kind="stable")
    names = means.index[:max_kernels] if of_model is not None else table["kernel"].head(max_kernels)
    rows = table.set_index("kernel").loc[list(names)].reset_index()
    groups, grouped_by = {"": rows}, of_model or "view"
    if of_model is not None or ("view" in rows and 1 < rows["view"].nunique() <= len(COLORS)):
        groups = {str(label): group for label, group in rows.groupby(grouped_by, sort=False)}
    labels, row_of, headings = _rows(table, list(names), by_view, size)
    legend = groups if len(groups) > 1 and not (by_view and of_model is None) else {}
    n_offsets = len(groups) if of_model is not None else 1
    longest_group = min(max(map(len, legend)), LONGEST_GROUP) + 8 if legend else 0
    longest = min(max(map(len, labels)), LONGEST_NAME) + longest_group
    height = 1.4 + len(labels) * max(0.26, 0.16 * n_offsets)
    ax = own_axes(ax, 4.2 + INCHES_PER_CHARACTER * longest, height)  # four inches of intervals, and texts
    handles = []
    for g, group in enumerate(groups.values()):
        at = np.array([row_of[name] for name in group["kernel"]], dtype=float)
        at += 0.7 * ((g + 0.5) / n_offsets - 0.5) if n_offsets > 1 else 0.0
        mean, lower, upper = (100.0 * group[f"{size}{end}"].to_numpy() for end in ("", "_lower", "_upper"))
        look = COLORS[g % len(COLORS)], MARKERS[g % len(MARKERS)]
        handles.append(intervals(ax, at, (mean, lower, upper), *look, markersize=7.0))
    ax.set_yticks(range(len(labels)), [shorten(label, LONGEST_NAME) for label in labels])
    for row in headings:
        ax.get_yticklabels()[row].set_fontweight("bold")
    ax.set_ylim(len(labels) - 0.4, -0.6)
    tidy(ax, "x")
    remark = table["interval_by"].iloc[0].partition(" ")[2]
    remark = "(variational: too narrow)" if remark == "(too narrow)" else remark
    interval = f"\nposterior mean and {100 * ci_prob:g} % interval {remark}".rstrip()
    ax.set_xlim(left=min(0.0, 105.0 * table[f"{size}_lower"].min()))  # parts of a variance can be negative
    what = "variance explained" if size == "explained" else "share of the score"
    ax.set_xlabel(f"{what} in %{interval}")
    first = rows.iloc[0]
    verb = "explains" if size == "explained" else "has a share of"
    what = f"{verb} {_percent(first[f'{size}_lower'], first[f'{size}_upper'])}"
    ax.set_title(f"{shorten(str(first['kernel']), LONGEST_GROUP)} {what}", loc="left")
    if legend:
        named = [shorten(label, LONGEST_GROUP) for label in legend]
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        ax.legend(handles, named, title=grouped_by, frameon=False, **place)
    return ax


def _rows(
    table: pd.DataFrame, names: list[str], by_view: bool, size: str
) -> tuple[list[str], dict[str, int], list[int]]:
    """Return labels from top to bottom, the row of each kernel, and the rows that are headings."""
    if not by_view:
        return names, {name: row for row, name in enumerate(names)}, []
    if "view" not in table:
        raise ValueError(
            "`by_view` needs the views of a KernelBank; `model` was fitted to precomputed kernels. Leave it out."
        )
    view_of = dict(zip(table["kernel"], table["view"], strict=True))
    n_classes = len(table) // table["kernel"].nunique()
    sums = table.groupby("view", sort=False)[size].sum() / n_classes
    labels: list[str] = []
    row_of, headings = {}, []
    for view, whole in sums.sort_values(ascending=False, kind="stable").items():
        members = [name for name in names if view_of[name] == view]
        if members:
            headings.append(len(labels))
            labels.append(f"{view}: {100 * whole:.0f} %")
        for name in members:
            row_of[name] = len(labels)
            labels.append(name.removesuffix(f" · {view}"))
    return labels, row_of, headings


def _percent(lower: float, upper: float) -> str:
    """Say what an interval of a part supports."""
    return f"{100 * lower:.0f} to {100 * upper:.0f} %" if lower >= CLAIMED else f"at most {100 * upper:.0f} %"


@public
def plot_views(
    model: BaseEstimator,
    ci_prob: float = 0.94,
    output: Any = None,
    ax: Axes | None = None,
    *,
    kernels: ArrayLike | None = None,
) -> Axes:
    """Plot the effect of each view and the variance that it explains, side by side.

    Parameters
    ----------
    model : estimator
        As in :func:`view_table`.
    %(ci_prob:plot)s
    output : label, default=None
        Class or label, if these have their own kernel weights.
    %(ax)s
        Explained variance is in its right half.
    %(kernels:kept)s

    Returns
    -------
    matplotlib.axes.Axes
        Effects with intervals, sorted by falling explained variance. The bars to the right show explained variance;
        the last, grey bar is the variance that is not explained.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If a BEMKL model was fitted to precomputed kernels and `kernels` are missing, or the model has no such
        `output`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import plot_views
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> ax = plot_views(GPMKLRegressor(bank, together=False).fit(X, X[:, 0] + 0.5 * rng.normal(size=60)))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['signal', 'noise', 'all views', 'not explained']
    """
    table = view_table(model, ci_prob, random_state=0, kernels=kernels)
    check_axes("ax", ax)
    return draw_views(table, unit_of(fitted_bemkl(model)), ci_prob, output, ax)


def draw_views(
    table: pd.DataFrame, unit: str, ci_prob: float, output: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw a table of views, whose last rows are those of all views and of what is not explained."""
    rows = _of_one_output(table, output, "effects").reset_index(drop=True)
    height = 1.5 + 0.3 * len(rows)
    if ax is None:
        longest = min(max(map(len, rows["view"])), LONGEST_GROUP)
        ax, beside = new_axes(7.2 + INCHES_PER_CHARACTER * longest, height, width_ratios=(1.0, 1.0))
    else:
        from mpl_toolkits.axes_grid1 import make_axes_locatable  # type: ignore[import-untyped]

        beside = make_axes_locatable(ax).append_axes("right", "100%", 0.2, sharey=ax)
    at = np.arange(len(rows))
    colors = [COLORS[0]] * (len(rows) - 2) + ["black", GREY]
    for row, color in zip(at, colors, strict=True):
        mean, lower, upper = (rows[f"effect{end}"][row] for end in ("", "_lower", "_upper"))
        intervals(ax, [row], ([mean], [lower], [upper]), color, "o", markersize=7.0)
        mean, lower, upper = (100.0 * rows[f"explained{end}"][row] for end in ("", "_lower", "_upper"))
        beside.barh(row, mean, height=0.62, color=color, alpha=0.75)
        beside.plot([lower, upper], [row, row], color="black" if color != "black" else NEUTRAL, linewidth=1.2)
        if rows["verdict"][row]:
            beside.annotate(f" {rows['verdict'][row]}", (max(mean, upper), row), va="center", color=NEUTRAL)
    ax.set_yticks(at, [shorten(view, LONGEST_GROUP) for view in rows["view"]])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    beside.tick_params(labelleft=False)
    ax.set_xlim(left=0.0)
    beside.set_xlim(min(0.0, 105.0 * rows["explained_lower"].min()), 100.0)
    remark = rows["interval_by"].iloc[0].partition(" ")[2]
    ax.set_xlabel(f"effect in {unit}\nmean and {100 * ci_prob:g} % interval {remark}".rstrip())
    beside.set_xlabel("variance explained in %")
    part = _percent(rows["explained_lower"].iloc[-2], rows["explained_upper"].iloc[-2])
    shown = rows["verdict"].iloc[-2] not in (NO_EVIDENCE, AGAINST)
    finding = f"All views explain {part} of the variance"
    ax.set_title(finding if shown else "No evidence that views explain anything", loc="left")
    tidy(ax, "x")
    tidy(beside, "x")
    return ax


@public
def plot_elbo(model: BaseEstimator, ax: Axes | None = None) -> Axes:
    """Plot the distance of the evidence lower bound from its best value, for every iteration.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier or BEMKLRegressor fitted by "vb", a multitask model, or a Pipeline or search that ends in
        one.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        One line, or one line per class or label if these have their own kernel weights. The scale is logarithmic: a
        line that still falls steeply at its end has not converged.

    Raises
    ------
    %(TypeError:tasks)s
    NotFittedError
        Before `fit`.
    ValueError
        For a model fitted by "nuts" or "gibbs", which do not have a bound.

    Notes
    -----
    VB never lowers the bound, so its last value is the best.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import plot_elbo
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> plot_elbo(BEMKLRegressor(KernelBank(["linear"])).fit(X, X[:, 0])).get_xlabel()
    'iteration'
    """
    no_process = "which has no evidence lower bound. `diagnose` says whether its draws can be relied on."
    fitted = fitted_bemkl(model, multitask=True, no_process=no_process)
    if not fitted.histories:
        instead = "Use `diagnose` to see whether its chains agree."
        raise ValueError(
            f'`model` was fitted by inference="{fitted.inference}", which has no evidence lower bound. {instead}'
        )
    ax = own_axes(ax, 6.4, 3.6)
    lines: list[Any] = []
    for g, history in enumerate(fitted.histories):
        gap = history[-1] - history
        done = np.flatnonzero(gap > 0.0)
        look: dict[str, Any] = {"color": COLORS[g % len(COLORS)], "marker": MARKERS[g % len(MARKERS)]}
        lines += ax.plot(1 + done, gap[done], markersize=4, markevery=0.1, linewidth=1.4, **look)
    n_steps, estimator = max(map(len, fitted.histories)), fitted.estimator
    ax.set_yscale("log")
    ax.set_xlim(0.0, n_steps + 1.0)
    ax.set_xlabel("iteration")
    ax.set_ylabel("ELBO below its last value (nats)")
    tidy(ax, "both")
    if len(fitted.histories) == 1:
        ending = f"{'Converged' if estimator.converged_ else 'Not converged'} after {n_steps} sweeps"
    else:
        converged = sum(outcome.converged for outcome in estimator.outcome_)
        ending = f"{converged} of {len(fitted.histories)} models converged, within {n_steps} sweeps"
    finding = f"{ending}; ELBO {estimator.elbo_:.2f} nats".replace("-", "\N{MINUS SIGN}")
    ax.set_title(finding, loc="left")
    if fitted.class_names is not None and len(lines) > 1:
        ax.legend(lines, fitted.class_names, title=fitted.output_kind, frameon=False)
    return ax


@public
def plot_waterfall(
    found: Dataset, sample: Any, output: Any = None, max_parts: int = 10, ax: Axes | None = None
) -> Axes:
    """Plot how the parts of one sample's score add up, the largest first (waterfall plot).

    Parameters
    ----------
    found : xarray.Dataset
        Of :func:`contributions`.
    sample : label
        A value of the coordinate ``sample`` of `found`.
    output : label, default=None
        Class, label or output, where there are several.
    max_parts : int, default=10
        Number of parts to show in addition to the intercept. The others are combined in one bar.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        One bar per part, from one partial sum to the next, with its interval; the score is below them.

    Raises
    ------
    TypeError
        If `found` is no such Dataset.
    ValueError
        If it lacks the sample or the output.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import contributions, plot_waterfall
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = BEMKLRegressor(KernelBank(["rbf"], views="each", normalize="center")).fit(X, X[:, 0])
    >>> found = contributions(model, X[:3], random_state=0)
    >>> plot_waterfall(found, sample=2).get_xlabel()
    'score (predict); bars: 94 % intervals'
    """
    max_parts = check_integer("max_parts", max_parts, low=1)
    found = _of_output(found, output)
    if sample not in found["sample"].values:
        raise ValueError(
            f"`sample` must be one of the {found.sizes['sample']} in `found`, such as "
            f"{found['sample'].values[0]!r}; got {shown(sample)}."
        )
    one = found.sel(sample=sample)
    mean, names = one["mean"].values, list(map(str, found["part"].values))
    first = [i for i, kind in enumerate(found["kind"].values) if kind in CONSTANT]
    order = [i for i in np.argsort(-np.abs(mean), kind="stable") if i not in first]
    shown_parts, rest = order[:max_parts], order[max_parts:]
    steps = [(names[i], float(mean[i]), i) for i in [*first, *shown_parts]]
    if rest:
        steps.append((f"{len(rest)} more", float(mean[rest].sum()), -1))
    n_steps = len(steps)
    ax = own_axes(ax, 6.0, 1.4 + 0.32 * (n_steps + 1))
    total = 0.0
    for position, (_, value, i) in enumerate(steps):
        color = NEUTRAL if i in first else COLORS[0] if value >= 0.0 else COLORS[1]
        ax.barh(position, value, left=total, height=0.62, color=color, alpha=0.75)
        if "interval" in one and i >= 0:
            lower, upper = total + one["interval"].values[:, i]
            ax.plot([lower, upper], [position, position], color="black", linewidth=1.2)
        total += value
        ax.plot([total, total], [position - 0.31, position + 1.31], color=NEUTRAL, linewidth=0.7)
    score = float(one["score"])
    ax.plot(score, n_steps, "D", color="black", markersize=5.5)
    if "score_interval" in one:
        ax.plot(one["score_interval"].values, [n_steps, n_steps], color="black", linewidth=1.2)
    ax.set_yticks(range(n_steps + 1), [*(shorten(name, LONGEST) for name, _, _ in steps), "score"])
    ax.invert_yaxis()
    ax.set_xlabel(f"score ({found.attrs['score']}){_bars(found)}")
    largest = f"{names[order[0]]!r} adds most, {mean[order[0]]:+.2g}" if order else "no parts"
    ax.set_title(f"Sample {sample}: {largest}", loc="left")
    tidy(ax, "x")
    return ax


@public
def plot_contributions(
    found: Dataset, output: Any = None, max_parts: int = 20, ax: Axes | None = None
) -> Axes:
    """Plot the parts of the scores of many samples as a heat map.

    Parameters
    ----------
    found : xarray.Dataset
        Of :func:`contributions`.
    output : label, default=None
        Class, label or output, where there are several.
    max_parts : int, default=20
        Number of parts to show, the largest (mean size over samples) first.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        One row per sample, by falling score, and one column per part, by falling size. The intercept and an offset
        are left out. Parts whose interval contains zero are pale.

    Raises
    ------
    TypeError
        If `found` is no such Dataset.
    ValueError
        If it lacks the output.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import contributions, plot_contributions
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = BEMKLRegressor(KernelBank(["rbf"], views="each", normalize="center")).fit(X, X[:, 0])
    >>> plot_contributions(contributions(model, X, random_state=0)).get_ylabel()
    '40 samples, by falling score'
    """
    max_parts = check_integer("max_parts", max_parts, low=1)
    found = _of_output(found, output)
    varying = np.flatnonzero(~np.isin(found["kind"].values, CONSTANT))
    size = np.abs(found["mean"].values).mean(axis=0)
    parts = varying[np.argsort(-size[varying], kind="stable")][:max_parts]
    samples = np.argsort(-found["score"].values, kind="stable")
    values = found["mean"].values[np.ix_(samples, parts)]
    ax = own_axes(ax, 2.6 + 0.42 * len(parts), 5.6)
    reach = max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)
    options: dict[str, Any] = {"vmin": -reach, "vmax": reach, "aspect": "auto", "interpolation": "nearest"}
    alpha = np.ones_like(values)
    if "interval" in found:
        lower, upper = found["interval"].values[:, samples][:, :, parts]
        alpha = np.where((lower <= 0.0) & (upper >= 0.0), 0.35, 1.0)
    image = ax.imshow(values, cmap="PuOr_r", alpha=alpha, **options)
    ax.figure.colorbar(image, ax=ax, label=f"part of the score ({found.attrs['score']})")
    names = found["part"].values[parts]
    ax.set_xticks(range(len(parts)), [shorten(str(n), LONGEST) for n in names], rotation=45, ha="right")
    ax.set_yticks([])
    ax.set_ylabel(f"{len(samples)} samples, by falling score")
    sure = f"Sure of its sign: {100 * np.mean(alpha == 1.0):.0f} % of cells"
    ax.set_title(sure if "interval" in found else "", loc="left", fontsize="medium")
    return ax


@public
def plot_component(
    found: Dataset, part: Any, values: ArrayLike, output: Any = None, ax: Axes | None = None
) -> Axes:
    """Plot the part of a view or kernel with one feature against that feature.

    Parameters
    ----------
    found : xarray.Dataset
        Of :func:`contributions`.
    part : label
        A value of the coordinate ``part`` of `found`.
    values : array-like of shape (n_samples,)
        Values of the feature for the samples in `found`.
    output : label, default=None
        Class, label or output, where there are several.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        Mean and interval at every value; ticks at the bottom mark the values.

    Raises
    ------
    TypeError
        If `found` is not such a Dataset, or `values` are not numbers.
    ValueError
        If it lacks the part or the output, or has another number of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import contributions, plot_component
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = BEMKLRegressor(KernelBank(["rbf"], views="each", normalize="center")).fit(X, X[:, 0])
    >>> found = contributions(model, X, random_state=0)
    >>> plot_component(found, found["part"].values[0], X[:, 0]).get_title(loc="left")
    "Part of 'x0'"
    """
    found = _of_output(found, output)
    if part not in found["part"].values:
        raise ValueError(
            f"`part` must be one of {', '.join(map(repr, map(str, found['part'].values[:8])))}; got {shown(part)}."
        )
    values = finite_numbers("values", values)
    if values.shape != (found.sizes["sample"],):
        raise ValueError(
            f"`values` must be of shape ({found.sizes['sample']},), one for each sample in `found`; got "
            f"{values.shape}. A view of several features has no such plot."
        )
    order = np.argsort(values, kind="stable")
    own, x = found.sel(part=part), values[order]
    ax = own_axes(ax, 5.6, 3.8)
    if "interval" in own:
        lower, upper = own["interval"].values[:, order]
        ax.fill_between(x, lower, upper, color=COLORS[0], alpha=0.2, linewidth=0.0)
    ax.plot(x, own["mean"].values[order], color=COLORS[0])
    ax.plot(x, np.zeros_like(x), "|", color=NEUTRAL, transform=ax.get_xaxis_transform(), markersize=7)
    ax.axhline(0.0, color=NEUTRAL, linewidth=0.7, linestyle=(0, (4, 3)))
    ax.set(xlabel="feature", ylabel=f"part of the score{_bars(found).replace('bars', 'band')}")
    ax.set_title(f"Part of {str(part)!r}", loc="left")
    tidy(ax, "both")
    return ax


@public
def plot_features(
    table: pd.DataFrame, output: Any = None, max_features: int = 20, ax: Axes | None = None
) -> Axes:
    """Plot the features along which the score rises or falls, by their average slopes.

    Parameters
    ----------
    table : pandas.DataFrame of shape (n_rows, n_columns)
        Of :func:`feature_table`.
    output : label, default=None
        Class, label or output, where there are several.
    max_features : int, default=20
        Number of features to show, the largest slopes first.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        The average slope of every feature with its interval. A pale bar is the root mean square slope, which is also
        large if the score both rises and falls along the feature.

    Raises
    ------
    TypeError
        If `table` is no such table.
    ValueError
        If it lacks the output.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import feature_table, plot_features
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = GPMKLRegressor(KernelBank(["rbf"])).fit(X, X[:, 1])
    >>> plot_features(feature_table(model, random_state=0)).get_title(loc="left")
    "'x1' has the largest slopes"
    """
    max_features = check_integer("max_features", max_features, low=1)
    if not isinstance(table, pd.DataFrame) or not {"feature", "size", "lower"} <= set(table.columns):
        raise TypeError(
            f"`table` must be the result of `feature_table`; got {shown(table)}. Call feature_table(model)."
        )
    rows = _of_one_output(table, output, "slopes")
    n_all, rows = len(rows), rows.head(max_features)
    names = [str(feature) for feature in rows["feature"]]
    if rows["feature"].duplicated().any():  # views share columns
        names = [f"{name} · {view}" for name, view in zip(names, rows["view"], strict=True)]
    ax = own_axes(ax, 6.6, 1.5 + 0.3 * len(rows))
    at, size, of_std = np.arange(len(rows)), rows["size"].to_numpy(), table.attrs.get("per", "std") == "std"
    if of_std:  # the scale that sizes have
        ax.barh(at, 2.0 * size, left=-size, height=0.6, color="#DDDDDD")
    is_sure = ((rows["lower"] > 0.0) | (rows["upper"] < 0.0)).to_numpy()
    for own, color, marker in ((is_sure, COLORS[0], "o"), (~is_sure, NEUTRAL, "D")):
        mean, lower, upper = (rows[end].to_numpy()[own] for end in ("mean", "lower", "upper"))
        intervals(ax, at[own], (mean, lower, upper), color, marker, markersize=6.5)
    ax.axvline(0.0, color=NEUTRAL, linewidth=0.7)
    ax.set_yticks(at, [shorten(name, 2 * LONGEST) for name in names])
    ax.invert_yaxis()
    about = "one standard deviation" if of_std else "one unit"
    how = f"mean and {100 * table.attrs.get('ci_prob', 0.94):g} % interval by {rows['interval_by'].iloc[0]}"
    ax.set_xlabel(f"average slope of the score for {about}\n{how}" + "\nbar: root mean square slope" * of_std)
    first = shorten(str(rows["feature"].iloc[0]), LONGEST)
    more = f" ({len(rows)} of {n_all})" if n_all > len(rows) else ""
    ax.set_title(f"{first!r} has the largest slopes{more}", loc="left")
    tidy(ax, "x")
    return ax


@public
def plot_overall_effect(table: pd.DataFrame, output: Any = None, ax: Axes | None = None) -> Axes:
    """Plot how the outcome changes when all features move between their quantiles together.

    Parameters
    ----------
    table : pandas.DataFrame of shape (n_rows, n_columns)
        Of :func:`overall_effect`, without `by`.
    output : label, default=None
        Class, label or output, where there are several.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        The difference from the medians, or ratio to them, with its interval at every quantile.

    Raises
    ------
    TypeError
        If `table` is no such table.
    ValueError
        If it lacks the output.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import overall_effect, plot_overall_effect
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views="each")).fit(X, X[:, 0] + X[:, 1])
    >>> plot_overall_effect(overall_effect(model, X, [0.25, 0.5, 0.75])).get_title(loc="left")
    'Clear of the medians at 2 of 3 quantiles'
    """
    rows = _of_effects(table, output, by_feature=False)
    ax = own_axes(ax, 5.6, 3.8)
    mean, lower, upper = (rows[end].to_numpy() for end in ("mean", "lower", "upper"))
    ax.vlines(rows["quantile"], lower, upper, color=COLORS[0], linewidth=1.8)
    ax.plot(rows["quantile"], mean, MARKERS[0], color=COLORS[0], markeredgecolor="white", markersize=7)
    level = _level(ax, table)
    ax.set(xlabel="quantile of all features", ylabel=f"{table.attrs.get('unit', 'effect')}\nto the medians")
    n_clear = int(((lower > level) | (upper < level)).sum())
    ax.set_title(f"Clear of the medians at {n_clear} of {len(rows)} quantiles", loc="left")
    tidy(ax, "both")
    return ax


@public
def plot_effects(table: pd.DataFrame, output: Any = None, max_features: int = 9) -> np.ndarray:
    """Plot how the outcome changes along each feature while the others stay at their medians.

    Parameters
    ----------
    table : pandas.DataFrame of shape (n_rows, n_columns)
        Of :func:`overall_effect` with ``by="feature"``.
    output : label, default=None
        Class, label or output, where there are several.
    max_features : int, default=9
        Number of features to show, those with the largest change of the mean first.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        One Axes per feature, with the mean and its interval at every value. The paler band contains the whole curve.

    Raises
    ------
    TypeError
        If `table` is no such table.
    ValueError
        If it lacks the output.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import overall_effect, plot_effects
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views="each")).fit(X, X[:, 0])
    >>> axes = plot_effects(overall_effect(model, X, np.linspace(0.05, 0.95, 9), by="feature"))
    >>> [ax.get_title(loc="left") for ax in axes]
    ['x0', 'x1']
    """
    rows = _of_effects(table, output, by_feature=True)
    ranges = rows.groupby("feature", sort=False)["mean"].agg(np.ptp)
    names = ranges.sort_values(ascending=False, kind="stable").index
    names = names[: check_integer("max_features", max_features, low=1)]
    n_columns = min(3, len(names))
    n_rows = -(-len(names) // n_columns)
    figure = new_axes(3.0 * n_columns, 2.6 * n_rows)[0].figure
    figure.clear()
    grid = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).ravel()
    for ax in grid[len(names) :]:
        ax.remove()
    for name, ax in zip(names, grid, strict=False):
        own = rows[rows["feature"] == name].sort_values("value", kind="stable")
        x = own["value"].to_numpy()
        for ends, alpha in ((("band_lower", "band_upper"), 0.15), (("lower", "upper"), 0.25)):
            ax.fill_between(x, *(own[end] for end in ends), color=COLORS[0], alpha=alpha, linewidth=0.0)
        ax.plot(x, own["mean"], color=COLORS[0])
        _level(ax, table)
        ax.set_title(shorten(str(name), LONGEST), loc="left")
        ax.set_xlabel("value")
        tidy(ax, "both")
    for ax in grid[: len(names) : n_columns]:
        ax.set_ylabel(table.attrs.get("unit", "effect"))
    return grid[: len(names)]


def _of_effects(table: Any, output: Any, by_feature: bool) -> pd.DataFrame:
    """Return the rows of one output in a table of `overall_effect`, checked."""
    is_table = isinstance(table, pd.DataFrame) and {"quantile", "band_lower"} <= set(table.columns)
    if not is_table or ("feature" in table) != by_feature:
        call = f"overall_effect(model, X{', by=' + chr(34) + 'feature' + chr(34) if by_feature else ''})"
        raise TypeError(f"`table` must be the result of `{call}`; got {shown(table)}. Call it first.")
    return _of_one_output(table, output, "effects")


def _level(ax: Axes, table: pd.DataFrame) -> float:
    """Draw where nothing changes, and return it; ratios are on a logarithmic scale."""
    is_ratio = table.attrs.get("unit", "").endswith("ratio")
    if is_ratio:
        ax.set_yscale("log")
    level = 1.0 if is_ratio else 0.0
    ax.axhline(level, color=NEUTRAL, linewidth=0.7, linestyle=(0, (4, 3)))
    return level


def _of_one_output(table: pd.DataFrame, output: Any, what: str) -> pd.DataFrame:
    """Return the rows of one output; raise where it is not there."""
    kinds = [name for name in ("class", "label", "output") if name in table]
    labels = table[kinds[0]].drop_duplicates().tolist() if kinds else []
    _check_output(output, labels, output in labels, what)
    return table if not kinds else table[table[kinds[0]] == output].reset_index(drop=True)


def _bars(found: Dataset) -> str:
    prob = found.attrs.get("ci_prob")
    return "" if prob is None else f"; bars: {100 * prob:g} % intervals"


def _of_output(found: Any, output: Any) -> Dataset:
    """Return parts of one output, checked."""
    from xarray import Dataset

    if not isinstance(found, Dataset) or not {"mean", "score", "kind"} <= set(found.variables):
        raise TypeError(
            f"`found` must be the result of `contributions`; got {shown(found)}. Call "
            "contributions(model, X)."
        )
    others = [name for name in found["mean"].dims if name not in ("sample", "part")]
    labels = found[others[0]].values.tolist() if others else []
    _check_output(output, labels, output is not None and str(output) in labels, "parts")
    return found.sel({others[0]: str(output)}) if others else found


def _check_output(output: Any, labels: list[Any], is_known: bool, what: str) -> None:
    """Raise where an output is named of a model that has one, and where none of several is."""
    if not labels:
        if output is not None:
            raise ValueError(f"`output` must be None: the model has one output; got {shown(output)}.")
    elif not is_known:
        raise ValueError(
            f"`output` must be one of {', '.join(map(repr, labels))}, each of which has {what} of its own; got "
            f"{shown(output)}."
        )


@public
def plot_reliability(
    y_true: Targets,
    y_prob: ArrayLike,
    n_bins: int = 10,
    labels: ArrayLike | None = None,
    ci_prob: float = 0.94,
    ax: Axes | None = None,
) -> Axes:
    """Plot the observed frequency of events against their predicted probability (reliability diagram).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
        Observed outcomes, as in :func:`reliability`.
    y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probability of the positive class, or of every class.
    n_bins : int, default=10
        Number of bins of equal width on [0, 1].
    labels : array-like of shape (n_classes,), default=None
        Class of each column of `y_prob`, ``model.classes_``. None takes the sorted labels in `y_true`.
    ci_prob : float, default=0.94
        Probability content of the Wilson interval of each frequency.
    %(ax)s
        An inset below it shows the histogram of the predictions.

    Returns
    -------
    matplotlib.axes.Axes
        Observed frequency against mean prediction with Wilson intervals, one point per bin that holds predictions.

    Raises
    ------
    ValueError
        If `ax` is no Axes, and as :func:`reliability` raises.
    TypeError
        If an argument is a sparse matrix, or `y_prob` holds other objects than numbers.

    References
    ----------
    M. H. DeGroot and S. E. Fienberg (1983), The comparison and evaluation of forecasters, The Statistician 32.

    E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference, Journal of the American
    Statistical Association 22.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.posterior import plot_reliability
    >>> rng = np.random.default_rng(0)
    >>> probability = rng.uniform(size=500)
    >>> plot_reliability(rng.uniform(size=500) < probability, probability).get_ylabel()
    'observed frequency'
    """
    check_axes("ax", ax)
    found = reliability(y_true, y_prob, n_bins, labels, ci_prob)
    top_label = np.ndim(y_prob) == 2 and np.shape(y_prob)[1] > 2 and np.ndim(y_true) == 1
    if ax is None:
        ax, below = new_axes(5.0, 5.6, height_ratios=(4.0, 1.0))
    else:
        below = ax.inset_axes((0.0, -0.27, 1.0, 0.22), sharex=ax)
    ax.plot([0, 1], [0, 1], color=NEUTRAL, linestyle=(0, (4, 3)), linewidth=1.0, label="calibrated")
    reach = np.array([found.frequency - found.lower, found.upper - found.frequency]).clip(min=0.0)
    look: dict[str, Any] = {"fmt": "o", "color": COLORS[0], "capsize": 3}
    label = f"observed, {100 * ci_prob:g} % interval"
    ax.errorbar(found.probability, found.frequency, yerr=reach, label=label, **look)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="observed frequency")
    inside = int(((found.lower <= found.probability) & (found.probability <= found.upper)).sum())
    ax.set_title(
        f"Calibration error {found.calibration_error:.3f} on {int(found.counts.sum())} samples;\n"
        f"{inside} of {len(found.probability)} bins agree with the diagonal",
        loc="left",
    )
    ax.legend(frameon=False, loc="best")
    tidy(ax, "both")
    ax.tick_params(labelbottom=False)
    widths: dict[str, Any] = {"width": np.diff(found.edges), "align": "edge"}
    below.bar(found.edges[:-1], found.counts, color="#B0C4D8", edgecolor="white", **widths)
    below.set_ylabel("samples")
    below.set_xlabel("probability of the predicted class" if top_label else "predicted probability")
    tidy(below, "y")
    return ax


@public
def plot_predictions(
    y_true: Targets, mean: ArrayLike, std: ArrayLike, ci_prob: float = 0.94, ax: Axes | None = None
) -> Axes:
    """Plot predicted against observed targets of a regression, with predictive intervals.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Observed outcomes.
    mean, std : array-like of shape (n_samples,)
        Predictive means and standard deviations, ``model.predict(X, return_std=True)``.
    ci_prob : float, default=0.94
        Probability content of the predictive intervals.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        Intervals that miss the observed value have another color and a cross.

    Raises
    ------
    ValueError
        If `ax` is no Axes, `ci_prob` not strictly between 0 and 1, or the arrays are not finite, of one dimension and
        of one length; or for a negative standard deviation.
    TypeError
        If an argument is a sparse matrix, or holds other objects than numbers.

    Examples
    --------
    >>> from bayesmkl.posterior import plot_predictions
    >>> plot_predictions([1.0, 2.0], [1.1, 1.8], [0.2, 0.2]).get_title(loc="left")
    '94 % intervals cover 100 % of 2 samples'
    """
    half = norm.ppf(0.5 * (1.0 + check_probability("ci_prob", ci_prob)))
    y_true, mean = finite_numbers("y_true", y_true), finite_numbers("mean", mean)
    std = finite_numbers("std", std)
    if not y_true.ndim == mean.ndim == std.ndim == 1 or not 0 < len(y_true) == len(mean) == len(std):
        raise ValueError(
            "`y_true`, `mean` and `std` must have the same length, at least one; got shapes "
            f"{y_true.shape}, {mean.shape} and {std.shape}. With several targets, show one column at a time."
        )
    if (std < 0.0).any():
        raise ValueError(f"`std` must not be negative; got {std.min():g}. It is a standard deviation.")
    ax = own_axes(ax, 5.2, 5.2)
    covered = np.abs(y_true - mean) <= half * std
    for kept, color, marker in ((covered, COLORS[0], "o"), (~covered, COLORS[1], "X")):
        lower, upper = (mean - half * std)[kept], (mean + half * std)[kept]
        ax.vlines(mean[kept], lower, upper, color=color, alpha=0.3, linewidth=0.9)
        ax.plot(mean[kept], y_true[kept], marker, color=color, markersize=4.5, markeredgewidth=0.0)
    ends = [min(y_true.min(), mean.min()), max(y_true.max(), mean.max())]
    ax.plot(ends, ends, color=NEUTRAL, linestyle=(0, (4, 3)), linewidth=1.0)
    ax.set(xlabel="predicted mean", ylabel=f"observed (bars: predictive {100 * ci_prob:g} % intervals)")
    finding = f"intervals cover {100 * covered.mean():.3g} % of {len(covered)} samples"
    ax.set_title(f"{100 * ci_prob:g} % {finding}", loc="left")
    tidy(ax, "both")
    return ax
