"""Pictures of what discriminative methods, localized ones above all, decide for each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.axes import new_axes, shorten
from bayesmkl._utils.given import as_array, finite_numbers
from bayesmkl._utils.typing import Label, Samples, Targets
from bayesmkl._utils.validation import check_axes, check_integer, shown
from bayesmkl.discriminative.estimators.base import BaseDiscriminative
from bayesmkl.discriminative.estimators.checked import SUPPORT
from bayesmkl.discriminative.estimators.localized import BaseLocalized

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

# Okabe and Ito's colors and others, which color-blind readers tell apart, and of which neighbors also differ in grey:
# some for classes, others for kernels, so that no color means two things in one plot. Shapes say the same.
CLASS_COLORS = ("#004A7C", "#D55E00", "#8000E0", "#56B4E9")
KERNEL_COLORS = ("#006B4E", "#CC79A7", "#EDB233", "#3D3D9E", "#E0C0A0", "#40A040")
MARKERS = ("o", "s", "^", "D", "v", "P")
NEUTRAL, BOUNDARY = "#777777", "#111111"
OPACITIES = (0.42, 0.16)  # of regions: dark and light in turn
LONGEST = 46  # characters of a name that are shown
TIED = 1e-9  # of the largest gate: closer ones count as equal
ROOM = 0.06  # around the samples, of their range
MANY_VALUES = 12  # of `order_by`: up to here samples with one value are a group
MANY_NAMES = 40  # kernels: up to here every one is named
N_TICKS = 6  # on the axis of samples


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
    divide nothing: the plane stays white. Broken lines are the margins, where the score is -1 and +1, which a vote
    (:class:`LDMKLClassifier`) does not reach.

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
    classes, support = seen.estimator.classes_, seen.support()
    low, high = samples.min(axis=0), samples.max(axis=0)
    room = ROOM * np.where(high > low, high - low, 1.0)
    first, second = np.linspace(low - room, high + room, resolution).T
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(first, second)])
    grid = _like(X, points)
    scores = seen.model.decision_function(grid)
    ax = new_axes(5.4, 5.4)[0] if ax is None else ax
    _draw_samples(ax, samples, np.asarray(y), classes)
    circles: dict[str, Any] = {"facecolors": "none", "edgecolors": BOUNDARY, "linewidths": 0.9, "zorder": 4}
    ax.scatter(samples[support, 0], samples[support, 1], 52, label="support point", **circles)

    def draw_lines(values: np.ndarray, level: float, color: str, style: str, width: float) -> None:
        if values.min() < level < values.max():  # matplotlib warns of levels that do not occur
            plane = values.reshape(resolution, resolution)
            ax.contour(
                first, second, plane, [level], colors=[color], linestyles=style, linewidths=width, zorder=5
            )

    ax.plot([], [], color=BOUNDARY, linewidth=1.8, label="boundary")
    if scores.ndim == 2 and seen.task is None:
        for k in range(len(classes)):  # where two classes share the highest score
            lead = scores[:, k] - np.delete(scores, k, axis=1).max(axis=1)
            draw_lines(lead, 0.0, BOUNDARY, "solid", 1.8)
    else:
        scores, sides = (
            (scores, CLASS_COLORS) if seen.task is None else (scores[:, seen.task], 2 * (NEUTRAL,))
        )
        draw_lines(scores, 0.0, BOUNDARY, "solid", 1.8)
        for level, side in zip((-1.0, 1.0), sides, strict=False):
            draw_lines(scores, level, side, "dashed", 1.1)
        ax.plot([], [], color=NEUTRAL, linestyle="dashed", label="margins, at scores -1 and +1")
        if isinstance(seen.estimator, BaseLocalized):
            _draw_regions(ax, first, second, seen.gates(grid), seen.estimator.kernel_names_, seen.gates(X))
    ax.set(xlim=first[[0, -1]], ylim=second[[0, -1]], xlabel=names[0], ylabel=names[1])
    title = f"{seen.name}: {len(support)} support points of {len(samples)}"
    ax.set_title(title, loc="left", fontsize="medium")
    _legend_below(ax)
    return ax


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
    if y.shape != samples.shape[:1] or not np.isin(y, seen.estimator.classes_).any():
        raise ValueError(
            f"`y` must hold labels from {seen.estimator.classes_.tolist()}, one for each of the {len(samples)} rows "
            f"of `X`; got {shown(y.tolist())}."
        )
    rows = np.asarray(seen.transform(X), dtype=np.float64)
    if rows.shape != bank.X_train_.shape or not np.allclose(rows, bank.X_train_):
        raise ValueError(
            f"`X` must hold the {len(bank.X_train_)} samples that `model` was fitted to, in the same order; got "
            f"{len(samples)} others. Support points are among those."
        )
    return samples, [str(name) for name in getattr(X, "columns", ("feature 0", "feature 1"))]


def _like(X: Any, points: np.ndarray) -> Any:
    """Return points under the names of the features, where these have names."""
    if not hasattr(X, "columns"):
        return points
    import pandas as pd

    return pd.DataFrame(points, columns=list(X.columns))


def _draw_samples(ax: Axes, samples: np.ndarray, y: np.ndarray, classes: np.ndarray) -> None:
    size = float(np.clip(7000 / len(samples), 6.0, 28.0))
    for k, name in enumerate(classes):
        color, marker = CLASS_COLORS[k % len(CLASS_COLORS)], MARKERS[k % len(MARKERS)]
        look: dict[str, Any] = {"c": color, "marker": marker, "alpha": 0.8, "linewidths": 0, "zorder": 3}
        ax.scatter(samples[y == name, 0], samples[y == name, 1], size, label=str(name), **look)
    rest = samples[~np.isin(y, classes)]
    if len(rest):
        ax.scatter(
            rest[:, 0], rest[:, 1], size, c=NEUTRAL, marker="x", linewidths=0.8, zorder=3, label="no class"
        )


def _draw_regions(
    ax: Axes,
    first: np.ndarray,
    second: np.ndarray,
    gates: np.ndarray,
    names: np.ndarray,
    at_samples: np.ndarray,
) -> None:
    """Tint the plane where a kernel has the largest gate, unless gates are the same everywhere."""
    from matplotlib.colors import to_rgba

    largest = gates.max()
    if (np.ptp(gates, axis=0) <= TIED * largest).all():
        return
    for m, share in enumerate(_leading_shares(at_samples)):
        lead = gates[:, m] - np.delete(gates, m, axis=1).max(axis=1, initial=0.0)
        if lead.max() <= TIED * largest:
            continue
        tint = to_rgba(KERNEL_COLORS[m % len(KERNEL_COLORS)], OPACITIES[m % 2])
        plane = lead.reshape(len(second), len(first))
        ax.contourf(first, second, plane, [TIED * largest, 2.0 * largest], colors=[tint], zorder=1)
        text = f"{shorten(names[m], LONGEST)} (largest gate at {100 * share:.0f} %)"
        ax.plot([], [], color=tint, marker="s", markersize=9, linestyle="none", label=text)


def plot_gates(
    model: BaseEstimator,
    X: Samples | None = None,
    ax: Axes | None = None,
    *,
    order_by: ArrayLike | None = None,
    label: Label | None = None,
    gate_features: ArrayLike | None = None,
) -> Axes:
    """Plot the gate of each kernel at each sample.

    Parameters
    ----------
    model : estimator
        A fitted classifier of this module, or a Pipeline or search that ends in one.
    X : array-like or DataFrame of shape (n_rows, n_features), or kernels, default=None
        Samples; None is for the training samples.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; None makes a figure.
    order_by : array-like of shape (n_rows,), default=None
        One value per sample to sort samples by: numbers, or groups (such as labels) if there are at most 12 different
        values. None groups samples by the kernel with the largest gate.
    label : object, default=None
        Class whose gates are shown, if more than two classes have their own gates.
    gate_features : array-like of shape (n_rows, n_gate_features), default=None
        Features of the gates, if they were passed to `fit` and `X` is given.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``: ``ax.figure.savefig("gates.png")``. Up to six kernels are points of one color
        each; more kernels are rows of an image. The legend, or the name of a row, has the share of the samples at
        which a kernel has the largest gate.

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
        raise ValueError(f"`label` must be given, because each of the classes {classes} has its own gates.")
    order, values = _order(gates, order_by)
    texts = [
        f"{shorten(name, LONGEST)} (largest at {100 * share:.0f} %)"
        for name, share in zip(seen.estimator.kernel_names_, _leading_shares(gates), strict=True)
    ]
    ax = new_axes(6.4, float(np.clip(3.2 + 0.2 * len(texts), 3.2, 8.0)))[0] if ax is None else ax
    if len(texts) <= len(KERNEL_COLORS):
        size = float(np.clip(3000 / len(gates), 3.0, 18.0))
        for of_kernel, text, color, marker in zip(
            gates[order].T, texts, KERNEL_COLORS, MARKERS, strict=False
        ):
            ax.scatter(
                np.arange(len(gates)), of_kernel, size, c=color, marker=marker, linewidths=0, label=text
            )
        ax.set(ylabel="gate", xlim=(-0.5, len(gates) - 0.5))
        _legend_below(ax)
    else:
        image = ax.imshow(gates[order].T, cmap="cividis", vmin=0.0, aspect="auto", interpolation="nearest")
        if len(texts) <= MANY_NAMES:
            ax.set_yticks(range(len(texts)), texts, fontsize="small")
        ax.figure.colorbar(image, ax=ax, label="gate", fraction=0.04)
    _name_samples(ax, values, getattr(order_by, "name", None))
    ax.set_title(f"{seen.name}: gates of {len(gates)} samples", loc="left", fontsize="medium")
    return ax


def _order(gates: np.ndarray, order_by: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return positions from left to right, and the value of each."""
    leading = gates.argmax(axis=1)
    center = gates @ np.arange(gates.shape[1]) / np.maximum(gates.sum(axis=1), 1e-300)
    if order_by is None:
        return np.lexsort((center, leading)), np.array([])
    values = as_array("order_by", order_by)
    if values.shape != leading.shape or (values.dtype.kind == "f" and np.isnan(values).any()):
        raise ValueError(
            f"`order_by` must have one value for each of the {len(gates)} samples, and no NaN; got "
            f"{shown(values.tolist())}."
        )
    order = np.lexsort((center, leading, np.unique(values, return_inverse=True)[1]))
    return order, values[order]


def _name_samples(ax: Axes, values: np.ndarray, name: Any) -> None:
    """Label the axis of samples: with groups, with values, or with nothing but what it is."""
    if not values.size:
        ax.set_xticks([])
        ax.set_xlabel("samples, by the kernel with the largest gate")
        return
    different, firsts, counts = np.unique(values, return_index=True, return_counts=True)
    ax.set_xlabel("samples, sorted" if name is None else f"samples, sorted by {name}")
    if len(different) <= MANY_VALUES:
        for first in firsts[1:]:
            ax.axvline(first - 0.5, color="white" if ax.images else NEUTRAL, linewidth=1.2)
        ax.set_xticks(firsts + (counts - 1) / 2, [shorten(str(value), LONGEST) for value in different])
    else:
        places = np.linspace(0, len(values) - 1, N_TICKS).round().astype(int)
        ax.set_xticks(places, [f"{value:.3g}" for value in values[places]])


# ------------------------------------------------------------------------------------------- parts of both of them


def _legend_below(ax: Axes) -> None:
    """Put the legend below the axes and their labels."""
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.14), frameon=False, fontsize="small")


def _leading_shares(gates: np.ndarray) -> np.ndarray:
    """Return at which share of the rows each kernel has the largest gate, (n_kernels,); ties count for none."""
    first, *others = -np.sort(-gates, axis=1).T
    clear = first - others[0] > TIED * first if others else np.ones(len(gates), dtype=bool)
    return np.bincount(gates.argmax(axis=1)[clear], minlength=gates.shape[1]) / len(gates)


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
        """The last step and, of more than two classes, the one that is looked at."""
        name = type(self.estimator).__name__
        return name if self.task is None else f"{name}, class {self.estimator.classes_[self.task]}"

    def gates(self, X: Samples | None = None, **features: Any) -> np.ndarray:
        """Return the gates of the task, (n_rows, n_kernels); for all tasks together, those of every task."""
        rows = None if X is None else self.transform(X)
        gates = self.estimator.gates(rows, **features)
        return gates if self.task is None or gates.ndim == 2 else gates[self.task]

    def support(self) -> np.ndarray:
        """Return the positions of the support points of the task, or of any task."""
        if self.task is None:
            return self.estimator.support_
        duals = np.abs(self.estimator.dual_coef_)
        counted = duals[self.task] > SUPPORT * duals.max(initial=0.0)
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
    estimator, transform = model, lambda X: X
    if isinstance(model, Pipeline):
        estimator = model[-1]
        if len(model) > 1:
            transform = model[:-1].transform
    if not isinstance(estimator, BaseDiscriminative | BaseLocalized):
        raise ValueError(
            "`model` must be a classifier of `bayesmkl.discriminative`, or a Pipeline or search that ends in "
            f"one; got {type(estimator).__name__}. Only kernel weights and gates can be drawn."
        )
    check_is_fitted(estimator, "dual_coef_")
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise ValueError(
            f"`model` must be a classifier; got {type(estimator).__name__}, which has no classes."
        )
    if label is None:
        return Classifier(model, estimator, transform, None)
    found = np.flatnonzero(classes == label)
    if len(classes) == 2 or found.size != 1:
        expected = "left out of two classes" if len(classes) == 2 else f"one of {classes.tolist()}"
        raise ValueError(f"`label` must be {expected}; got {label!r}. It chooses one class against the rest.")
    return Classifier(model, estimator, transform, int(found[0]))
