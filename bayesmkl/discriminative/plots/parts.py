"""Common parts of plots: axes, colors of classes and kernels, and the view of a fitted classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.typing import Label, Samples
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


def read_classifier(
    model: BaseEstimator,
    label: Label | None = None,
    kinds: tuple[type, ...] = (BaseDiscriminative, BaseLocalized),
) -> Classifier:
    """Look at a fitted classifier of this package, at the last step of a Pipeline, or at the best of a search.

    Parameters
    ----------
    model : estimator
    label : object
        One of more than two classes, or None.
    kinds : tuple of type
        What it may be.

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
    if not isinstance(estimator, kinds):
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
