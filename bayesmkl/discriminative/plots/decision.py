"""Decision boundary of a classifier of two features, and the leading kernel of each region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesmkl._utils.given import as_array, finite_numbers
from bayesmkl._utils.typing import Label, Samples, Targets
from bayesmkl._utils.validation import check_axes, check_integer, shown
from bayesmkl.discriminative.estimators.localized import BaseLocalized
from bayesmkl.discriminative.plots.parts import (
    CLASS_COLORS,
    CLASS_MARKERS,
    KERNEL_COLORS,
    KERNEL_TINTS,
    NEUTRAL,
    TIED,
    Classifier,
    kernel_colors,
    leading_kernels,
    legend_below,
    new_axes,
    percent,
    read_classifier,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

ROOM = 0.06  # around the samples, of their range
BOUNDARY, SUPPORT_EDGE = "#111111", "#111111"
OTHER_TINT = (0.20, "")  # opacity and hatching of the regions of kernels that share a grey
LEGEND_INCHES = 0.5  # below the axes: tick labels and the label of the first feature
MANY_ENTRIES = 8  # of the legend: up to here its first column has short ones only, and two columns fit


class Plane(NamedTuple):
    """Scores and gates of a classifier at the points of a grid.

    Parameters
    ----------
    first : ndarray of shape (resolution,)
        Values of the first feature.
    second : ndarray of shape (resolution,)
        Values of the second.
    scores : ndarray of shape (resolution, resolution), or with a leading axis of length n_classes
        Rows go with the second feature.
    gates : ndarray of shape (resolution, resolution, n_kernels), or None
        None for all classes together, and for methods with the same gates everywhere.
    svms : ndarray of shape (n_kernels, resolution, resolution), or None
        Scores of the SVM of each kernel, where each has one.
    """

    first: np.ndarray
    second: np.ndarray
    scores: np.ndarray
    gates: np.ndarray | None
    svms: np.ndarray | None


def plot_decision(
    model: BaseEstimator,
    X: Samples,
    y: Targets,
    ax: Axes | None = None,
    *,
    label: Label | None = None,
    resolution: int = 150,
) -> Axes:
    """Show boundary, margins and support points of a classifier of two features, and which kernel acts where.

    Parameters
    ----------
    model : estimator
        A fitted classifier of this module with a bank, or a Pipeline or search that ends in one.
    X : array-like or DataFrame of shape (n_samples, 2)
        The samples that it was fitted to.
    y : array-like of shape (n_samples,)
        Their labels. Samples whose label is not one of the classes are drawn in grey.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; None makes a figure.
    label : object, default=None
        Of more than two classes, the one whose boundary to the rest is drawn. None draws the borders between all
        classes, without margins and regions.
    resolution : int, default=150
        The plane is evaluated at this many values of each feature.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``: ``ax.figure.savefig("decision.png")``. The title gives the number of support
        points, which are circled.

    Raises
    ------
    NotFittedError
        If `model` is not fitted.
    ValueError
        If `X` does not hold two features of the training samples, or `model` has no bank.
    TypeError
        If an array is a sparse matrix, or holds other objects than numbers.

    Notes
    -----
    The plane is tinted with the color of the kernel that has the largest gate, and the legend gives the share of the
    samples in each region. Gates that are the same everywhere, those of all methods with one set of kernel weights,
    divide nothing: the plane stays white.

    Broken lines are the margins, where the score is -1 and +1. :class:`LDMKLClassifier` has an SVM per kernel and
    a score that stays between -1 and 1: there dotted lines in the color of a kernel are the margins of its own
    SVM, in its region. This follows figure 1 of Moeller, Swaminathan and Venkatasubramanian (2016).

    References
    ----------
    J. Moeller, S. Swaminathan, S. Venkatasubramanian (2016). A unified view of localized kernel learning. SDM.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import UniformMKLClassifier, plot_decision
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> ax = plot_decision(UniformMKLClassifier(KernelBank(["linear"])).fit(X, y), X, y, resolution=50)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['left', 'right', 'support point', 'boundary', 'margins, at scores -1 and +1']
    """
    check_axes("ax", ax)
    resolution = check_integer("resolution", resolution, low=2)
    seen = read_classifier(model, label)
    samples, names = _training_samples(seen, X, y)
    plane = _evaluate(seen, X, samples, resolution)
    if ax is None:
        ax = new_axes(5.4, 5.4)
    handles = [*_draw_samples(ax, samples, np.asarray(y), seen.estimator.classes_)]
    support = seen.support()
    handles.append(_draw_support(ax, samples[support]))
    handles += _draw_boundary(ax, plane)
    if plane.scores.ndim == 2:
        sides = CLASS_COLORS[:2] if seen.task is None else (NEUTRAL, _class_style(seen.task)["c"])
        handles.append(_draw_margins(ax, plane, sides))
    if plane.gates is not None:
        handles += _draw_regions(ax, plane, plane.gates, seen.estimator.kernel_names_, seen.gates(X))
    ax.set(xlim=plane.first[[0, -1]], ylim=plane.second[[0, -1]], xlabel=names[0], ylabel=names[1])
    title = f"{seen.name}: {len(support)} support points of {len(samples)}"
    ax.set_title(title, loc="left", fontsize="medium")
    legend_below(ax, handles, LEGEND_INCHES, n_columns=2 if len(handles) <= MANY_ENTRIES else 1)
    return ax


# ------------------------------------------------------------------------------------------------- what is drawn


def _training_samples(seen: Classifier, X: Samples, y: Targets) -> tuple[np.ndarray, list[str]]:
    """Return the samples as numbers and the names of the two features."""
    bank = seen.estimator.kernel_bank_
    if bank is None:
        raise ValueError(
            "`model` must have been fitted to features, with `kernels=KernelBank(...)`; it was fitted to precomputed "
            "kernels, which cannot be evaluated between the samples."
        )
    samples = finite_numbers("X", X)
    if samples.ndim != 2 or samples.shape[1] != 2:
        raise ValueError(f"`X` must hold two features, shape (n_samples, 2); got {samples.shape}.")
    y = as_array("y", y)
    known = np.isin(y, seen.estimator.classes_).any()  # others are samples without a class
    if y.ndim != 1 or not known:
        raise ValueError(
            f"`y` must hold labels from {seen.estimator.classes_.tolist()}; got {shown(y.tolist())}."
        )
    if len(y) != len(samples):
        raise ValueError(f"`y` must have one label for each of the {len(samples)} rows of `X`; got {len(y)}.")
    rows = np.asarray(seen.transform(X), dtype=np.float64)
    if rows.shape != bank.X_train_.shape or not np.allclose(rows, bank.X_train_):
        raise ValueError(
            f"`X` must hold the {len(bank.X_train_)} samples that `model` was fitted to, in the same order; got "
            f"{len(samples)} others. Support points are among those."
        )
    return samples, [str(name) for name in getattr(X, "columns", ("feature 0", "feature 1"))]


def _evaluate(seen: Classifier, X: Samples, samples: np.ndarray, resolution: int) -> Plane:
    low, high = samples.min(axis=0), samples.max(axis=0)
    room = ROOM * np.where(high > low, high - low, 1.0)
    first, second = np.linspace(low - room, high + room, resolution).T
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(first, second)])
    grid = _like(X, points)
    shape = (resolution, resolution)
    scores = seen.model.decision_function(grid)
    if scores.ndim == 2 and seen.task is None:  # all classes
        return Plane(first, second, scores.T.reshape(-1, *shape), None, None)
    if scores.ndim == 2:
        scores = scores[:, seen.task]
    localized = isinstance(seen.estimator, BaseLocalized)
    svms = _svm_scores(seen, grid)
    return Plane(
        first,
        second,
        scores.reshape(shape),
        seen.gates(grid).reshape(*shape, -1) if localized else None,
        None if svms is None else svms.reshape(-1, *shape),
    )


def _like(X: Any, points: np.ndarray) -> Any:
    """Return points under the names of the features, where these have names."""
    if not hasattr(X, "columns"):
        return points
    import pandas as pd

    return pd.DataFrame(points, columns=list(X.columns))


def _svm_scores(seen: Classifier, grid: np.ndarray) -> np.ndarray | None:
    """Return the scores of the SVM of each kernel, (n_kernels, n_points), where each kernel has one."""
    dual, intercepts = seen.svm()
    if not intercepts.ndim:
        return None
    blocks = seen.estimator._row_blocks(seen.transform(grid), np.arange(len(dual)))
    scores = [stack.apply(dual[..., None]) for stack in blocks]
    return np.concatenate(scores, axis=1) + intercepts[:, None]


# ------------------------------------------------------------------------------------------------- how it is drawn


def _draw_samples(ax: Axes, samples: np.ndarray, y: np.ndarray, classes: np.ndarray) -> list[Any]:
    size = float(np.clip(7000 / len(samples), 6.0, 28.0))
    handles = []
    for k, name in enumerate(classes):
        style: dict[str, Any] = {"alpha": 0.8, "linewidths": 0, "zorder": 3, **_class_style(k)}
        first, second = samples[y == name].T
        handles.append(ax.scatter(first, second, size, label=str(name), **style))
    rest = samples[~np.isin(y, classes)]
    if len(rest):
        style = {"c": NEUTRAL, "marker": "x", "linewidths": 0.8, "zorder": 3}
        handles.append(ax.scatter(rest[:, 0], rest[:, 1], size, label="no class", **style))
    return handles


def _class_style(k: int) -> dict[str, Any]:
    return {"c": CLASS_COLORS[k % len(CLASS_COLORS)], "marker": CLASS_MARKERS[k % len(CLASS_MARKERS)]}


def _draw_support(ax: Axes, samples: np.ndarray) -> Any:
    style: dict[str, Any] = {"facecolors": "none", "edgecolors": SUPPORT_EDGE, "linewidths": 0.9}
    return ax.scatter(samples[:, 0], samples[:, 1], 52, zorder=4, label="support point", **style)


def _draw_boundary(ax: Axes, plane: Plane) -> list[Any]:
    """Draw where the score is zero, or where two classes share the highest."""
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"colors": [BOUNDARY], "linewidths": 1.8, "linestyles": "solid", "zorder": 5}
    if plane.scores.ndim == 2:
        _contour(ax, plane, plane.scores, [0.0], **style)
    else:
        for k, scores in enumerate(plane.scores):
            lead = scores - np.delete(plane.scores, k, axis=0).max(axis=0)
            _contour(ax, plane, lead, [0.0], **style)
    return [Line2D([], [], color=BOUNDARY, linewidth=1.8, label="boundary")]


def _draw_margins(ax: Axes, plane: Plane, sides: tuple[str, ...]) -> Any:
    """Draw where the score is -1 and +1; with an SVM per kernel, where its own is, in the kernel's region."""
    from matplotlib.lines import Line2D

    if plane.svms is None or plane.gates is None:
        text, width, dashes = "margins, at scores -1 and +1", 1.1, "dashed"
        style: dict[str, Any] = {"linewidths": width, "linestyles": dashes, "zorder": 5}
        _contour(ax, plane, plane.scores, [-1.0, 1.0], colors=sides, **style)
    else:
        text, width, dashes = "margins of the SVM of each kernel", 1.5, "dotted"
        style = {"linewidths": width, "linestyles": dashes, "zorder": 5}
        leading = leading_kernels(plane.gates.reshape(-1, len(plane.svms))).reshape(plane.scores.shape)
        colors = _colors(plane.gates)
        for m, scores in enumerate(plane.svms):
            inside = np.ma.masked_where(leading != m, scores)
            _contour(ax, plane, inside, [-1.0, 1.0], colors=(colors[m], colors[m]), **style)
    return Line2D([], [], color=NEUTRAL, linewidth=width, linestyle=dashes, label=text)


def _draw_regions(
    ax: Axes, plane: Plane, gates: np.ndarray, names: np.ndarray, sample_gates: np.ndarray
) -> list[Any]:
    """Tint the plane where a kernel has the largest gate, unless gates are the same everywhere."""
    from matplotlib.patches import Patch

    largest = gates.max()
    if (np.ptp(gates, axis=(0, 1)) <= TIED * largest).all():
        return []
    handles, colors = [], _colors(gates)
    at_samples = leading_kernels(sample_gates)
    for m, name in enumerate(names):
        lead = gates[..., m] - np.delete(gates, m, axis=2).max(axis=2, initial=0.0)
        if lead.max() <= TIED * largest:
            continue
        levels = [TIED * largest, 2.0 * largest]
        tint, hatch = _tint(colors[m])
        style: dict[str, Any] = {"colors": [tint], "hatches": [hatch], "zorder": 1}
        region = ax.contourf(plane.first, plane.second, lead, levels=levels, **style)
        region.set(edgecolor=colors[m], linewidth=0.0)  # the edge's color is that of the hatching
        text = f"{shorten(name)} (largest gate at {percent((at_samples == m).mean())})"
        handles.append(Patch(facecolor=tint, edgecolor=colors[m], hatch=hatch, linewidth=0.5, label=text))
    return handles


def _tint(color: str) -> tuple[Any, str]:
    """Return the tint of a kernel's regions and their hatching."""
    from matplotlib.colors import to_rgba

    tints = dict(zip(KERNEL_COLORS, KERNEL_TINTS, strict=True))
    opacity, hatch = tints.get(color, OTHER_TINT)
    return to_rgba(color, opacity), hatch


def _colors(gates: np.ndarray) -> list[str]:
    """Return the color of each kernel; of many, those with the largest gates over the plane have their own."""
    return kernel_colors(gates.sum(axis=(0, 1)))


def _contour(ax: Axes, plane: Plane, values: np.ndarray, levels: list[float], **style: Any) -> None:
    """Draw those of the levels that occur, each in its color; matplotlib warns of the others."""
    for level, color in zip(levels, style.pop("colors"), strict=True):
        if values.min() < level < values.max():
            ax.contour(plane.first, plane.second, values, levels=[level], colors=[color], **style)
