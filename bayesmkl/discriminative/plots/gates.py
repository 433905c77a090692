"""Plots of gates and of switches over samples."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.given import as_array, finite_numbers
from bayesmkl._utils.typing import Label, Samples
from bayesmkl._utils.validation import check_axes
from bayesmkl.discriminative.estimators.base import BaseDiscriminative
from bayesmkl.discriminative.estimators.localized import BaseLocalized
from bayesmkl.discriminative.plots.parts import (
    KERNEL_COLORS,
    KERNEL_MARKERS,
    NEUTRAL,
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

MANY_VALUES = 12  # of `order_by`: up to here samples with one value are a group
MANY_NAMES = 40  # kernels: up to here every one is named
N_TICKS = 6  # on the axis of samples
LONGEST_NAME, INCHES_PER_CHARACTER = 46, 0.07  # of a kernel
LEGEND_INCHES, LEGEND_SIZE = 0.5, 24.0  # below the axes; of its markers
# Light to dark: what was not touched, what made no difference, what did. As distinct in print as on a screen.
ON, OFF_INACTIVE, OFF_ACTIVE = "#F4F1E8", "#9FBAD0", "#0B3D6B"
NAMES = ("on", "off, the kernel has no weight", "off, the kernel has a weight")


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
    seen = read_classifier(model, label, (BaseDiscriminative, BaseLocalized))
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
    _draw(ax, state)
    return ax


def _draw(ax: Axes, state: np.ndarray) -> None:
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
        for color, name, share in zip(colors, NAMES, shares, strict=True)
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
