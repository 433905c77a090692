"""Plots of a posterior: which kernels matter, and how the bound rose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_axes, check_choice, check_flag, check_integer
from bayesmkl.posterior.axes import COLORS, MARKERS, NEUTRAL, new_axes, shorten, tidy
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.shared_docs import MODEL
from bayesmkl.posterior.summary import kernel_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LONGEST_NAME, LONGEST_GROUP = 46, 28  # characters shown of a kernel name and of a view or class
INCHES_PER_CHARACTER = 0.085


@fill_docs(MODEL)
@own_settings
def plot_kernel_weights(
    model: BaseEstimator,
    kind: str = "shares",
    ci_prob: float = 0.94,
    max_kernels: int = 20,
    ax: Axes | None = None,
    *,
    by_view: bool = False,
    kernels: ArrayLike | None = None,
) -> Axes:
    """Show the most important kernels with their intervals.

    Parameters
    ----------
    %(model)s
        Or a multitask model.
    kind : {"shares", "weights"}, default="shares"
        The kernel's part of the score, which the model identifies, or the raw weight, which is known up to a common
        sign and scale. Kernels are sorted by share in both.
    %(ci_prob:plot)s
    max_kernels : int, default=20
        How many kernels to show.
    %(ax)s
    by_view : bool, default=False
        Put the kernels of each view together, under a heading with the name of the view and the sum of the shares of
        all its kernels. Views are sorted by that sum.
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
        If `by_view` is asked of precomputed kernels, which have no views.

    Notes
    -----
    Colors and shapes tell views apart where more than one and at most six are shown; where classes, labels
    (one-versus-all) or tasks have kernel weights of their own, they tell these apart, and kernels are sorted by their
    mean share.

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
    value = check_choice("kind", kind, ("shares", "weights"))[:-1]
    check_axes("ax", ax)
    check_flag("by_view", by_view)
    max_kernels = check_integer("max_kernels", max_kernels, low=1)
    table = kernel_table(model, ci_prob, kernels=kernels)
    shown, groups, grouped_by = _shown(table, max_kernels)
    labels, row_of, headings = _rows(table, shown, by_view)
    legend = groups if len(groups) > 1 and not (by_view and grouped_by == "view") else {}
    n_offsets = len(groups) if grouped_by != "view" else 1
    if ax is None:
        height = 1.4 + len(labels) * max(0.26, 0.16 * n_offsets)
        (ax,) = new_axes(_width(labels, legend), height)
    handles = []
    for g, group in enumerate(groups.values()):
        rows = np.array([row_of[name] for name in group["kernel"]], dtype=float)
        rows += 0.7 * ((g + 0.5) / n_offsets - 0.5) if n_offsets > 1 else 0.0
        handles.append(_draw_intervals(ax, rows, group, value, g))
    ax.set_yticks(range(len(labels)), [shorten(label, LONGEST_NAME) for label in labels])
    for row in headings:
        ax.get_yticklabels()[row].set_fontweight("bold")
    ax.set_ylim(len(labels) - 0.4, -0.6)
    tidy(ax, "x")
    _say_finding(ax, table, value, ci_prob)
    if legend:
        named = [shorten(label, LONGEST_GROUP) for label in legend]
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        ax.legend(handles, named, title=grouped_by, frameon=False, **place)
    return ax


def _say_finding(ax: Axes, table: pd.DataFrame, value: str, ci_prob: float) -> None:
    remark = table["interval_by"].iloc[0].partition(" ")[2]
    caution = {"(too narrow)": " (variational: too narrow)"}.get(remark, f" {remark}".rstrip())
    interval = f"\nposterior mean and {100 * ci_prob:g} % interval{caution}"
    if value == "share":
        ax.set_xlim(left=min(0.0, 105.0 * table["share_lower"].min()))  # parts of a variance can be negative
        ax.set_xlabel(f"share of the score in %{interval}")
        ax.set_title(_shares_finding(table), loc="left")
    else:
        ax.axvline(0.0, color=NEUTRAL, linewidth=0.8, zorder=0)
        ax.set_xlabel(f"kernel weight{interval}")
        ax.set_title(_weights_finding(table, ci_prob), loc="left")


def _rows(
    table: pd.DataFrame, shown: pd.DataFrame, by_view: bool
) -> tuple[list[str], dict[str, int], list[int]]:
    """Return labels from top to bottom, the row of each kernel, and the rows that are headings."""
    names = shown["kernel"].drop_duplicates().tolist()
    if not by_view:
        return names, {name: row for row, name in enumerate(names)}, []
    if "view" not in table:
        raise ValueError(
            "`by_view` needs the views of a KernelBank; `model` was fitted to precomputed kernels. Leave it out."
        )
    view_of = dict(zip(table["kernel"], table["view"], strict=True))
    n_classes = len(table) // table["kernel"].nunique()
    shares = table.groupby("view", sort=False)["share"].sum() / n_classes
    labels: list[str] = []
    row_of, headings = {}, []
    for view, share in shares.sort_values(ascending=False, kind="stable").items():
        members = [name for name in names if view_of[name] == view]
        if members:
            headings.append(len(labels))
            labels.append(f"{view}: {100 * share:.0f} %")
        for name in members:
            row_of[name] = len(labels)
            labels.append(name.removesuffix(f" · {view}"))
    return labels, row_of, headings


def _draw_intervals(ax: Axes, rows: np.ndarray, group: pd.DataFrame, value: str, g: int) -> Any:
    """Draw points and intervals in the color and shape of group number `g`; return the points."""
    factor = 100.0 if value == "share" else 1.0
    middle, lower, upper = (factor * group[f"{value}{end}"].to_numpy() for end in ("", "_lower", "_upper"))
    color, marker = COLORS[g % len(COLORS)], MARKERS[g % len(MARKERS)]
    ax.hlines(rows, lower, upper, color=color, linewidth=1.8)
    return ax.plot(middle, rows, marker, color=color, markeredgecolor="white", markersize=7)[0]


@fill_docs(MODEL)
@own_settings
def plot_elbo(model: BaseEstimator, ax: Axes | None = None) -> Axes:
    """Show how far the evidence lower bound was from its best value, after every iteration.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier or BEMKLRegressor fitted by "vb", or a Pipeline or search that ends in one. Or a
        multitask model.
    %(ax)s

    Returns
    -------
    matplotlib.axes.Axes
        One line per fitted model: one, or one per class or label where these have kernel weights of their own. The
        scale is logarithmic, so a line that still falls steeply at its end has not converged.

    Raises
    ------
    %(TypeError:tasks)s
    NotFittedError
        Before `fit`.
    ValueError
        For a model fitted by "nuts" or "gibbs", which raise no bound.

    Notes
    -----
    VB never lowers the bound: its best value is the last.

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
    check_axes("ax", ax)
    ax = new_axes(6.4, 3.6)[0] if ax is None else ax
    steps = [np.arange(1, 1 + len(history)) for history in fitted.histories]
    lines: list[Any] = []
    for g, (done, history) in enumerate(zip(steps, fitted.histories, strict=True)):
        gap = history[-1] - history
        below = gap > 0.0
        look: dict[str, Any] = {
            "color": COLORS[g % len(COLORS)],
            "marker": MARKERS[g % len(MARKERS)],
            "linewidth": 1.4,
        }
        lines += ax.plot(done[below], gap[below], markersize=4, markevery=0.1, **look)
    ax.set_yscale("log")
    ax.set_xlim(0.0, max(done[-1] for done in steps) + 1.0)
    ax.set_xlabel("iteration")
    ax.set_ylabel("ELBO below its last value (nats)")
    tidy(ax, "both")
    ax.set_title(_elbo_finding(fitted, max(done[-1] for done in steps)), loc="left")
    if fitted.class_names is not None and len(lines) > 1:
        ax.legend(lines, fitted.class_names, title=fitted.output_kind, frameon=False)
    return ax


def _width(names: list[str], groups: dict[str, pd.DataFrame]) -> float:
    """Return the width in inches for four of intervals and all texts beside them."""
    longest_name = min(max(map(len, names)), LONGEST_NAME)
    longest_group = min(max(map(len, groups)), LONGEST_GROUP) + 8 if len(groups) > 1 else 0
    return 4.2 + INCHES_PER_CHARACTER * (longest_name + longest_group)


def _shown(table: pd.DataFrame, max_kernels: int) -> tuple[pd.DataFrame, dict[str, pd.DataFrame], str]:
    """Return the rows to show, most important kernel first, and the groups that share a color and a shape."""
    model_column = _model_column(table)
    if model_column is not None:
        order = (
            table.groupby("kernel", sort=False)["share"].mean().sort_values(ascending=False, kind="stable")
        )
        kept = order.index[:max_kernels]
        rows = table.set_index("kernel").loc[kept].reset_index()
        return rows, _split(rows, model_column), model_column
    rows = table.head(max_kernels)
    if "view" not in rows or not 1 < rows["view"].nunique() <= len(COLORS):
        return rows, {"": rows}, "view"
    return rows, _split(rows, "view"), "view"


def _model_column(table: pd.DataFrame) -> str | None:
    """Return the column that names models with kernel weights of their own, if there are several."""
    return next((column for column in ("class", "label", "task") if column in table), None)


def _split(rows: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    return {str(label): group for label, group in rows.groupby(column, sort=False)}


def _shares_finding(table: pd.DataFrame) -> str:
    n_kernels = table["kernel"].nunique()
    if n_kernels == 1:
        return "One kernel makes the whole score"
    if _model_column(table) is not None:
        shares = table.groupby("kernel")["share"].mean().sort_values(ascending=False)
    else:
        shares = table["share"]
    n_half = int(np.searchsorted(np.cumsum(shares.to_numpy()), 0.5)) + 1
    return f"Half of the score comes from {n_half} of {n_kernels} kernels"


def _weights_finding(table: pd.DataFrame, ci_prob: float) -> str:
    away = int(((table["weight_lower"] > 0.0) | (table["weight_upper"] < 0.0)).sum())
    return f"{away} of {len(table)} kernel weights differ from zero ({100 * ci_prob:g} % interval)"


def _elbo_finding(fitted: FittedBEMKL, n_steps: int) -> str:
    estimator, n_models = fitted.estimator, len(fitted.histories)
    if n_models == 1:
        ending = f"{'Converged' if estimator.converged_ else 'Not converged'} after {n_steps} sweeps"
    else:
        converged = sum(outcome.converged for outcome in estimator.outcome_)
        ending = f"{converged} of {n_models} models converged, within {n_steps} sweeps"
    return f"{ending}; ELBO {estimator.elbo_:.2f} nats".replace("-", "\N{MINUS SIGN}")
