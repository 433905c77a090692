"""Pictures of what discriminative methods, localized ones above all, decide for each sample."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.given import as_array, finite_numbers
from bayesmkl._utils.typing import Label, Samples, Targets
from bayesmkl._utils.validation import check_axes, check_integer, shown
from bayesmkl.discriminative.estimators.base import BaseDiscriminative
from bayesmkl.discriminative.estimators.checked import SUPPORT
from bayesmkl.discriminative.estimators.localized import BaseLocalized

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

# Okabe and Ito's colors, which color-blind readers tell apart, some of them darker, so that neighbors also differ in
# grey: some for classes, others for kernels, so that no color means two things in one plot. Shapes say the same.
CLASS_COLORS = ("#004A7C", "#D55E00", "#7B2D8B", "#56B4E9")
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P")
KERNEL_COLORS = ("#006B4E", "#CC79A7", "#EDB233", "#3D3D9E", "#6FBBC3", "#6B5135")
KERNEL_MARKERS = ("o", "D", "^", "s", "v", "P")
KERNEL_OPACITIES = (0.42, 0.16, 0.4, 0.2, 0.4, 0.2)  # of regions: dark and light in turn
KERNEL_HATCHES = ("", "", "///", "\\\\\\", "...", "xx")
KERNEL_TINTS = tuple(zip(KERNEL_OPACITIES, KERNEL_HATCHES, strict=True))
NEUTRAL = "#777777"
LONGEST = 30  # characters of a name that are shown
TIED = 1e-9  # of the largest gate: closer ones count as equal
ROOM = 0.06  # around the samples, of their range
BOUNDARY, SUPPORT_EDGE = "#111111", "#111111"
OTHER_TINT = (0.20, "")  # opacity and hatching of the regions of kernels that share a grey
LEGEND_INCHES = 0.5  # below the axes: tick labels and the label of the first feature
MANY_ENTRIES = 8  # of the legend: up to here its first column has short ones only, and two columns fit
MANY_VALUES = 12  # of `order_by`: up to here samples with one value are a group
MANY_NAMES = 40  # kernels: up to here every one is named
N_TICKS = 6  # on the axis of samples
LONGEST_NAME, INCHES_PER_CHARACTER = 46, 0.07  # of a kernel
LEGEND_SIZE = 24.0  # of markers in a legend of gates
# Light to dark: what was not touched, what made no difference, what did. As distinct in print as on a screen.
ON, OFF_INACTIVE, OFF_ACTIVE = "#F4F1E8", "#9FBAD0", "#0B3D6B"
STATES = ("on", "off, the kernel has no weight", "off, the kernel has a weight")


# ---------------------------------------------------------------------------------- boundary and leading kernels


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


# ------------------------------------------------------------------------------------------------------- gates


def plot_gates(
    model: BaseEstimator,
    X: Samples | None = None,
    ax: Axes | None = None,
    *,
    order_by: ArrayLike | None = None,
    label: Label | None = None,
    gate_features: ArrayLike | None = None,
) -> Axes:
    """Show how strongly each kernel acts at each sample.

    Parameters
    ----------
    model : estimator
        A fitted classifier of this module, or a Pipeline or search that ends in one.
    X : array-like or DataFrame of shape (n_rows, n_features), or kernels, default=None
        Samples; None is for the training samples.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; None makes a figure.
    order_by : array-like of shape (n_rows,), default=None
        A value per sample, by which samples are sorted: numbers, or groups if there are at most 12 different values,
        such as labels. None groups samples by the kernel with the largest gate.
    label : object, default=None
        Of more than two classes that have gates of their own, the one whose gates are shown.
    gate_features : array-like of shape (n_rows, n_gate_features), default=None
        Features of the gates, if they were passed to `fit` and `X` is given.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``: ``ax.figure.savefig("gates.png")``. Up to six kernels are points of one color
        each; more are rows of a picture. The legend, or the name of a row, says at which share of the samples a
        kernel has the largest gate.

    Raises
    ------
    NotFittedError
        If `model` is not fitted.
    ValueError
        If `order_by` does not fit the samples, or `label` is missing.
    TypeError
        If an array is a sparse matrix, or holds other objects than numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SimpleMKLClassifier, plot_gates
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> ax = plot_gates(SimpleMKLClassifier(bank).fit(X, X[:, 0] > 0))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['linear · signal (largest at 100 %)', 'linear · noise (largest at 0 %)']
    """
    check_axes("ax", ax)
    seen = read_classifier(model, label)
    features = {} if gate_features is None else {"gate_features": gate_features}
    gates = seen.gates(X, **features)
    if gates.ndim == 3:
        classes = seen.estimator.classes_.tolist()
        raise ValueError(f"`label` must be given: each of the classes {classes} has gates of its own.")
    order, values = _order(gates, order_by)
    names = [shorten(name, LONGEST_NAME) for name in seen.estimator.kernel_names_]
    shares = [(leading_kernels(gates) == m).mean() for m in range(len(names))]
    if len(names) <= len(KERNEL_COLORS):
        ax = new_axes(6.4, 3.2 + 0.2 * len(names)) if ax is None else ax
        _draw_points(ax, gates[order], names, shares)
    else:
        ax = new_axes(*_picture_size(names)) if ax is None else ax
        _draw_picture(ax, gates[order], names, shares)
    _name_samples(ax, values, getattr(order_by, "name", None))
    ax.set_title(f"{seen.name}: gates of {len(gates)} samples", loc="left", fontsize="medium")
    return ax


def _order(gates: np.ndarray, order_by: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return positions from left to right, and the value of each."""
    leading = gates.argmax(axis=1)
    center = gates @ np.arange(gates.shape[1]) / np.maximum(gates.sum(axis=1), 1e-300)
    if order_by is None:
        order = np.lexsort((center, leading))
        return order, np.array([])
    values = as_array("order_by", order_by)
    if values.shape != leading.shape:
        raise ValueError(
            f"`order_by` must have one value for each of the {len(gates)} samples; got shape {values.shape}."
        )
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError("`order_by` must have a value for every sample; got NaN.")
    if len(np.unique(values)) <= MANY_VALUES:
        order = np.lexsort((center, leading, np.unique(values, return_inverse=True)[1]))
    else:
        order = np.argsort(values, kind="stable")
    return order, values[order]


def _draw_points(ax: Axes, gates: np.ndarray, names: list[str], shares: list[float]) -> None:
    size = float(np.clip(3000 / len(gates), 3.0, 18.0))
    handles = []
    for m, (name, share) in enumerate(zip(names, shares, strict=True)):
        text = f"{name} (largest at {percent(share)})"
        style: dict[str, Any] = {"c": KERNEL_COLORS[m], "marker": KERNEL_MARKERS[m]}
        points = ax.scatter(np.arange(len(gates)), gates[:, m], s=size, linewidths=0, label=text, **style)
        handles.append(points)
    ax.set_ylabel("gate")
    ax.set_ylim(-0.03 * gates.max(), 1.05 * gates.max())
    ax.set_xlim(-0.5, len(gates) - 0.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    ax.set_axisbelow(True)
    legend_below(ax, handles, LEGEND_INCHES, n_columns=1, marker_scale=(LEGEND_SIZE / size) ** 0.5)


def _picture_size(names: list[str]) -> tuple[float, float]:
    longest = max(len(name) for name in names) if len(names) <= MANY_NAMES else 0
    return 6.0 + INCHES_PER_CHARACTER * longest, float(np.clip(1.4 + 0.2 * len(names), 3.6, 8.0))


def _draw_picture(ax: Axes, gates: np.ndarray, names: list[str], shares: list[float]) -> None:
    image = ax.imshow(gates.T, cmap="cividis", vmin=0.0, aspect="auto", interpolation="nearest")
    if len(names) <= MANY_NAMES:
        largest = [f" (largest at {percent(share)})" if share else "" for share in shares]
        ax.set_yticks(range(len(names)), np.char.add(names, largest).tolist(), fontsize="small")
    else:
        ax.set_ylabel("kernel")
    ax.figure.colorbar(image, ax=ax, label="gate", fraction=0.04)


def _name_samples(ax: Axes, values: np.ndarray, name: Hashable | None) -> None:
    """Label the axis of samples: with groups, with values, or with nothing but what it is."""
    if not values.size:
        ax.set_xticks([])
        ax.set_xlabel("samples, by the kernel with the largest gate")
        return
    different, firsts, counts = np.unique(values, return_index=True, return_counts=True)
    by = "" if name is None else f" by {name}"
    if len(different) <= MANY_VALUES:
        for first in firsts[1:]:
            ax.axvline(first - 0.5, color="white" if ax.images else NEUTRAL, linewidth=1.2)
        ax.set_xticks(firsts + (counts - 1) / 2, [shorten(str(value)) for value in different])
        ax.tick_params(axis="x", length=0)
        ax.set_xlabel(f"samples, grouped{by}")
        return
    places = np.linspace(0, len(values) - 1, N_TICKS).round().astype(int)
    ax.set_xticks(places, [f"{value:.3g}" for value in values[places]])
    ax.set_xlabel(f"samples, sorted{by}")


# ---------------------------------------------------------------------------------------------------- switches


def plot_switches(switches: ArrayLike, active: ArrayLike, ax: Axes | None = None) -> Axes:
    """Show which kernels are switched off for which samples.

    Parameters
    ----------
    switches : array-like of bool of shape (n_samples, n_kernels)
        Whether each kernel is on for each sample.
    active : array-like of shape (n_kernels,)
        Which kernels have a weight, or the weights.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``: ``ax.figure.savefig("switches.png")``. The legend gives the share of
        all switches that is in each state.

    Raises
    ------
    ValueError
        If the shapes do not fit each other.

    Notes
    -----
    To switch off a kernel without weight changes no score. Figure 1 of Liu et al. (2014) calls the two kinds of
    switches that are off active (the kernel has a weight) and inactive.

    References
    ----------
    X. Liu, L. Wang, J. Zhang, J. Yin (2014). Sample-adaptive multiple kernel learning. AAAI.

    Examples
    --------
    >>> ax = plot_switches([[1, 0, 1], [0, 1, 1]], active=[0.7, 0.3, 0.0])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['on (67 %)', 'off, the kernel has no weight (0 %)', 'off, the kernel has a weight (33 %)']
    """
    check_axes("ax", ax)
    on, has_weight = _check_switches(switches, active)
    state = np.where(on, 0, np.where(has_weight, 2, 1))
    if ax is None:
        n_samples, n_kernels = on.shape
        width, height = np.clip(1.5 + 0.12 * n_kernels, 4.0, 10.0), np.clip(1.5 + 0.03 * n_samples, 3.0, 8.0)
        ax = new_axes(width, height)
    _draw_switches(ax, state)
    return ax


def _draw_switches(ax: Axes, state: np.ndarray) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    colors = (ON, OFF_INACTIVE, OFF_ACTIVE)
    ax.imshow(state, cmap=ListedColormap(colors), vmin=-0.5, vmax=2.5, aspect="auto", interpolation="nearest")
    ax.set_xlabel("kernel")
    ax.set_ylabel("training sample")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    shares = np.bincount(state.ravel(), minlength=3) / state.size
    handles = [
        Patch(facecolor=color, edgecolor="#555555", label=f"{name} ({percent(share)})")
        for color, name, share in zip(colors, STATES, shares, strict=True)
    ]
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, borderaxespad=0.2)


def _check_switches(switches: ArrayLike, active: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    on, weights = finite_numbers("switches", switches), finite_numbers("active", active)
    if not np.isin(on, (0.0, 1.0)).all():
        raise ValueError("`switches` must be True or False, or 1 or 0; got other numbers.")
    on, has_weight = on.astype(bool), weights.astype(bool)
    if on.ndim != 2 or not on.size:
        raise ValueError(
            f"`switches` must have shape (n_samples, n_kernels); got {on.shape}. "
            "Pass the switches of one class at a time."
        )
    if has_weight.shape != on.shape[1:]:
        raise ValueError(
            f"`active` must have one entry for each of the {on.shape[1]} kernels of `switches`; got shape "
            f"{has_weight.shape}. Pass the kernel weights; samples are the rows of `switches`."
        )
    return on, has_weight


# ----------------------------------------------------------------------------------------- parts of all of them


def new_axes(width: float, height: float) -> Axes:
    """Return axes on a figure of its own, its size in inches, not registered with pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure.subplots()


def legend_below(
    ax: Axes, handles: list[Any], inches: float, n_columns: int = 2, marker_scale: float = 1.0
) -> None:
    """Put a legend of labeled handles below the axes, at a distance that leaves room for their labels."""
    from matplotlib.transforms import ScaledTranslation

    lower = ax.transAxes + ScaledTranslation(0.0, -inches, ax.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": lower}
    look: dict[str, Any] = {"frameon": False, "borderaxespad": 0.0, "fontsize": "small"}
    ax.legend(handles=handles, ncols=n_columns, markerscale=marker_scale, **look, **place)


def kernel_colors(importance: np.ndarray) -> list[str]:
    """Return a color per kernel, by position; of more kernels than colors the least important share a grey."""
    if len(importance) <= len(KERNEL_COLORS):
        return list(KERNEL_COLORS[: len(importance)])
    colors = [NEUTRAL] * len(importance)
    for color, m in zip(KERNEL_COLORS, np.argsort(-importance, kind="stable"), strict=False):
        colors[m] = color
    return colors


def percent(share: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * share:.0f} %"


def shorten(text: str, longest: int = LONGEST) -> str:
    """Shorten a name to the available width."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class Classifier(NamedTuple):
    """A fitted classifier, in a pipeline or not, seen from one of its classes.

    Parameters
    ----------
    model : estimator
        What takes samples as the user has them.
    estimator : BaseDiscriminative or BaseLocalized
        Its last step.
    transform : callable
        The steps before, from samples as the user has them to those of `estimator`.
    task : int or None
        Which one-versus-rest task is looked at; None for two classes, or for all tasks together.
    """

    model: Any
    estimator: Any
    transform: Callable[[Any], Any]
    task: int | None

    @property
    def name(self) -> str:
        """The last step and, of more than two classes or several targets, the one that is looked at."""
        name = type(self.estimator).__name__
        if self.task is None:
            return name
        classes = getattr(self.estimator, "classes_", None)
        return f"{name}, target {self.task}" if classes is None else f"{name}, class {classes[self.task]}"

    def gates(self, X: Samples | None = None, **features: Any) -> np.ndarray:
        """Return the gates of the task, (n_rows, n_kernels); for all tasks together, those of every task."""
        rows = None if X is None else self.transform(X)
        gates = self.estimator.gates(rows, **features)
        return gates if self.task is None or gates.ndim == 2 else gates[self.task]

    def svm(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the signed dual of the task, and its intercept; each one per kernel where kernels have SVMs."""
        dual, intercept = self.estimator.dual_coef_, np.asarray(self.estimator.intercept_)
        return (dual, intercept) if self.task is None else (dual[self.task], intercept[self.task])

    def support(self) -> np.ndarray:
        """Return the positions of the support points of the task, or of any task."""
        if self.task is None:
            return self.estimator.support_
        counted = np.abs(self.svm()[0]) > SUPPORT * np.abs(self.estimator.dual_coef_).max(initial=0.0)
        return np.flatnonzero(np.atleast_2d(counted).any(axis=0))


def read_classifier(model: BaseEstimator, label: Label | None = None) -> Classifier:
    """Look at a fitted classifier of this package, at the last step of a Pipeline, or at the best of a search.

    Parameters
    ----------
    model : estimator
    label : object
        One of more than two classes, or None.

    Raises
    ------
    ValueError
        If `model` is something else, or `label` not one of its classes.
    """
    model = getattr(model, "best_estimator_", model)
    estimator, transform = model, _as_it_is
    if isinstance(model, Pipeline):
        estimator = model[-1]
        if len(model) > 1:
            transform = model[:-1].transform
    if not isinstance(estimator, BaseDiscriminative | BaseLocalized):
        raise ValueError(
            "`model` must be a classifier of `bayesmkl.discriminative`, or a Pipeline or search that ends in one; "
            f"got {type(estimator).__name__}. Kernel weights and gates are what is drawn."
        )
    check_is_fitted(estimator, "dual_coef_")
    if not hasattr(estimator, "classes_"):
        raise ValueError(
            f"`model` must be a classifier; got {type(estimator).__name__}, which has no classes."
        )
    return Classifier(model, estimator, transform, _task_of(label, estimator.classes_))


def leading_kernels(gates: np.ndarray) -> np.ndarray:
    """Return the position of the kernel with the largest gate at each row, or -1 where several are equal.

    Parameters
    ----------
    gates : ndarray of shape (n_rows, n_kernels)

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> leading_kernels(np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]]))
    array([ 1, -1,  0])
    """
    leading = gates.argmax(axis=1)
    if gates.shape[1] == 1:
        return leading
    second, first = np.sort(gates, axis=1)[:, -2:].T
    return np.where(first - second > TIED * first, leading, -1)


def _task_of(label: Label | None, classes: np.ndarray) -> int | None:
    if label is None:
        return None
    found = np.flatnonzero(classes == label)
    if len(classes) == 2 or found.size != 1:
        expected = "left out of two classes" if len(classes) == 2 else f"one of {classes.tolist()}"
        raise ValueError(f"`label` must be {expected}; got {label!r}. It chooses one class against the rest.")
    return int(found[0])


def _as_it_is(X: Samples) -> Any:
    return X
