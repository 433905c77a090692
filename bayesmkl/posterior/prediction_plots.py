"""Pictures of predictions: against observed outcomes, and over the plane of two features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import entropy, norm

from bayesmkl._utils.given import as_array, check_numbers, finite_numbers
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_axes, check_choice, check_integer, check_probability
from bayesmkl.posterior.axes import COLORS, MARKERS, NEUTRAL, SHADES, legend_below, new_axes, tidy
from bayesmkl.posterior.checks import reliability
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl, has_outputs, public

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCK_SIZE = 2**22  # predictions are made in blocks of rows, whose kernels have about this many entries
MARGIN = 0.15  # of the range of the samples, on every side


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
        The histogram of the predictions hangs below it as an inset.

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
    """Show predicted against observed targets of a regression, with predictive intervals.

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
        Intervals that miss the observed value are drawn in another color and with a cross.

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
    check_axes("ax", ax)
    half = norm.ppf(0.5 * (1.0 + check_probability("ci_prob", ci_prob)))
    y_true, mean = finite_numbers("y_true", y_true), finite_numbers("mean", mean)
    std = finite_numbers("std", std)
    if not y_true.ndim == mean.ndim == std.ndim == 1 or not 0 < len(y_true) == len(mean) == len(std):
        raise ValueError(
            "`y_true`, `mean` and `std` must be of one length of at least one; got shapes "
            f"{y_true.shape}, {mean.shape} and {std.shape}. Of several targets, show one column at a time."
        )
    if (std < 0.0).any():
        raise ValueError(f"`std` must not be negative; got {std.min():g}. It is a standard deviation.")
    if ax is None:
        (ax,) = new_axes(5.2, 5.2)
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


class _Plane(NamedTuple):
    """Predictions at points of the plane."""

    value: np.ndarray  # shading
    uncertainty: np.ndarray  # contours
    probability: np.ndarray  # (n_points, n_classes); no classes in regression


@public
def plot_uncertainty(
    model: object,
    X: Samples,
    y: Targets | None = None,
    measure: str | None = None,
    n_grid: int = 60,
    ax: Axes | None = None,
    *,
    label: Any = None,
) -> Axes:
    """Show predictions and their uncertainty over the plane of two features.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier, BEMKLRegressor, GPMKLClassifier or GPMKLRegressor, or a Pipeline or search that ends in
        one, fitted to two features.
    X : array-like or DataFrame of shape (n_samples, 2)
        Samples to show, usually those of `fit`. The plane reaches 15 % of their range beyond them.
    y : array-like of shape (n_samples,), default=None
        Their labels or targets. Labels are told apart by shape and color; targets are shaded like the plane.
    measure : {"std", "entropy"}, default=None
        Contours of uncertainty: the predictive standard deviation (of the target in regression; of the latent score
        in classification, with its unit noise of BEMKL; with more than two classes, of the predicted class's score),
        or the entropy of the class probabilities in nats. None is "std", with more than two classes "entropy".
    n_grid : int, default=60
        Points of the plane along each feature.
    %(ax)s
    label : int, default=None
        With several labels or targets, the number of the one to show; `y` may then have all of them as columns.

    Returns
    -------
    matplotlib.axes.Axes
        Shading is the probability of ``classes_[1]`` (with more than two classes, of the predicted class), or the
        predictive mean in regression. Bold lines are where two classes are equally probable.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        Unless the model takes exactly two features, for labels that it does not know, or if it predicts several
        labels or targets and `label` does not choose one of them.

    Notes
    -----
    Probabilities are even near the boundary because classes overlap, and far from all samples because little is
    known; the standard deviation of the score tells the two apart.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import plot_uncertainty
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = BEMKLClassifier(KernelBank(["rbf"])).fit(X, X[:, 0] > 0)
    >>> ax = plot_uncertainty(model, X, X[:, 0] > 0, n_grid=20)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['False', 'True', 'equally probable', 'standard deviation of the score']
    """
    fitted = _of_two_features(model)
    number = _number_of(fitted.estimator, label)
    classes = getattr(fitted.estimator, "classes_", None) if number is None else None
    if number is not None and fitted.is_classifier:
        classes = np.array([0, 1])
    samples = check_numbers("X", X).astype(np.float64)
    if samples.ndim != 2 or samples.shape[1] != 2 or len(samples) == 0 or not np.isfinite(samples).all():
        raise ValueError(
            f"`X` must hold finite numbers and have the shape (n_samples, 2); got {samples.shape}."
        )
    check_axes("ax", ax)
    n_grid = check_integer("n_grid", n_grid, low=2)
    usual = "std" if classes is None or len(classes) == 2 else "entropy"
    measure = check_choice("measure", usual if measure is None else measure, ("std", "entropy"))
    if measure == "entropy" and classes is None:
        raise ValueError(
            '`measure` must be "std" in regression; got "entropy", which is that of class probabilities.'
        )
    targets = None if y is None else _targets(classes, number, y, len(samples))
    given = X if hasattr(X, "columns") else samples
    at_samples = _predict(fitted, number, given, measure).uncertainty
    first, second = (_reach(column, n_grid) for column in samples.T)
    points: Any = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
    if hasattr(model, "feature_names_in_"):
        points = pd.DataFrame(points, columns=model.feature_names_in_)
    plane = _predict(fitted, number, points, measure)
    name = f"standard deviation of the {'target' if classes is None else 'score'}"
    name = "entropy of the class in nats" if measure == "entropy" else name
    if ax is None:
        (ax,) = new_axes(6.2, 5.8)
    shading = _draw_shading(ax, first, second, plane, classes)
    handles = _draw_samples(ax, samples, targets, classes, shading)
    handles |= _draw_lines(ax, first, second, plane, name)
    names = getattr(X, "columns", getattr(model, "feature_names_in_", ("feature 0", "feature 1")))
    ax.set(xlim=first[[0, -1]], ylim=second[[0, -1]], xlabel=names[0], ylabel=names[1])
    middle, most = np.median(at_samples), plane.uncertainty.max()
    finding = f"median {middle:.2g} at the samples, up to {most:.2g} in the plane"
    ax.set_title(f"{name.capitalize()}:\n{finding}", loc="left")
    legend_below(ax, handles)
    return ax


def _of_two_features(model: Any) -> FittedBEMKL:
    """Return the posterior of a model; raise unless it takes two features."""
    fitted = fitted_bemkl(model, of_outcome=False)
    if fitted.kernel_views is None:
        raise ValueError(
            "`model` was fitted to precomputed kernels, which say nothing about a plane of features."
        )
    n_features = getattr(model, "n_features_in_", fitted.estimator.n_features_in_)
    if n_features != 2:
        raise ValueError(
            f"`model` must take exactly 2 features; it takes {n_features}. Fit one to the two features of interest."
        )
    if fitted.outcome == "times":
        raise ValueError("`model` must not be a model of times, which has no standard deviation to show.")
    return fitted


def _number_of(estimator: Any, label: int | None) -> int | None:
    """Return the number of the label or target to show, or None if there are not several of them."""
    if getattr(estimator, "is_multilabel_", has_outputs(estimator)):
        numbers = [str(number) for number in range(len(estimator.target_))]
        return int(check_choice("label", str(label), numbers))
    if label is not None:
        raise ValueError(
            "`label` chooses between several labels or targets of a sample; `model` has one. Leave it out."
        )
    return None


def _targets(classes: np.ndarray | None, number: int | None, y: Targets, n_samples: int) -> np.ndarray:
    """Return labels or numbers to show."""
    targets = finite_numbers("y", y) if classes is None else as_array("y", y)
    if number is not None and targets.ndim == 2 and targets.shape[1] > number:
        targets = targets[:, number]
    if targets.shape != (n_samples,):
        raise ValueError(
            f"`y` must have the shape ({n_samples},), an entry per row of `X`; got {targets.shape}."
        )
    if classes is not None and not np.isin(targets, classes).all():
        unknown = np.setdiff1d(targets, classes).tolist()
        raise ValueError(f"`y` must hold labels from {classes.tolist()}; got {unknown} as well.")
    return targets


def _reach(column: np.ndarray, n_grid: int) -> np.ndarray:
    """Return points from below the smallest to above the largest value of a feature."""
    low, high = column.min(), column.max()
    extent = high - low if high > low else 1.0
    return np.linspace(low - MARGIN * extent, high + MARGIN * extent, n_grid)


def _predict(fitted: FittedBEMKL, number: int | None, X: Any, measure: str) -> _Plane:
    """Predict in blocks of rows, where there are several labels or targets number `number` of them."""
    estimator, parts = fitted.estimator, []
    block = max(1, BLOCK_SIZE // (estimator.n_kernels_in_ * estimator.dual_coef_.shape[-1]))
    own = slice(None) if number is None else (slice(None), number)
    for start in range(0, len(X), block):
        few = slice(start, start + block)
        rows = fitted.transform(X.iloc[few] if hasattr(X, "iloc") else X[few])
        if not hasattr(estimator, "classes_"):
            mean, std = (moment[own] for moment in estimator.predict(rows, return_std=True))
            parts.append(_Plane(mean, std, np.empty((len(mean), 0))))
            continue
        probability = estimator.predict_proba(rows)[own]
        if number is not None:
            probability = np.column_stack([1.0 - probability, probability])
        binary = probability.shape[1] == 2
        value = probability[:, 1] if binary else probability.max(axis=1)
        if measure == "entropy":
            parts.append(_Plane(value, entropy(probability, axis=1), probability))
            continue
        std = estimator.predict_latent(rows, return_std=True)[1][own]
        if not binary:
            std = std[np.arange(len(std)), probability.argmax(axis=1)]
        parts.append(_Plane(value, std, probability))
    return _Plane(*map(np.concatenate, zip(*parts, strict=True)))


def _draw_shading(
    ax: Axes, first: np.ndarray, second: np.ndarray, plane: _Plane, classes: np.ndarray | None
) -> Any:
    """Fill the plane and add a color bar; return the shading."""
    from matplotlib.colors import LinearSegmentedColormap

    levels: Any = 10
    text = "predictive mean of the target"
    if classes is not None:
        binary = len(classes) == 2
        levels = np.linspace(0.0 if binary else 1.0 / len(classes), 1.0, 11)
        text = f"probability of {classes[1] if binary else 'the predicted class'}"
    shades = LinearSegmentedColormap.from_list("bayesmkl", SHADES)
    shading = ax.contourf(first, second, plane.value.reshape(len(second), -1), levels=levels, cmap=shades)
    ax.figure.colorbar(shading, ax=ax, label=text, format="%.2g")
    return shading


def _draw_samples(
    ax: Axes, samples: np.ndarray, targets: np.ndarray | None, classes: np.ndarray | None, shading: Any
) -> dict[str, Any]:
    """Draw the samples; return what the legend shows by its text."""
    edge: dict[str, Any] = {"s": 34.0, "edgecolors": "black", "linewidths": 0.7, "zorder": 3}
    if targets is None:
        return {"samples": ax.scatter(samples[:, 0], samples[:, 1], color="white", **edge)}
    if classes is None:
        edge |= {"c": targets, "cmap": shading.get_cmap(), "norm": shading.norm}
        return {"observed target": ax.scatter(samples[:, 0], samples[:, 1], **edge)}
    handles = {}
    for k, label in enumerate(classes):
        look: dict[str, Any] = {"color": COLORS[k % len(COLORS)], "marker": MARKERS[k % len(MARKERS)]}
        first, second = samples[targets == label].T
        handles[str(label)] = ax.scatter(first, second, **look, **edge)
    return handles


def _draw_lines(ax: Axes, first: np.ndarray, second: np.ndarray, plane: _Plane, name: str) -> dict[str, Any]:
    """Draw boundaries between classes and contours of uncertainty; return what the legend shows by its text."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    def contours(values: np.ndarray, levels: list[float], look: dict[str, Any]) -> Any:
        options = {f"{option}s": value for option, value in look.items()}
        return ax.contour(first, second, values.reshape(len(second), -1), levels, **options)

    bold: dict[str, Any] = {"color": "black", "linewidth": 2.0}
    thin: dict[str, Any] = {"color": "#222222", "linewidth": 0.9, "linestyle": "--"}
    handles = {}
    for k in range(plane.probability.shape[1]):
        lead = plane.probability[:, k] - np.delete(plane.probability, k, axis=1).max(axis=1)
        if lead.min() < 0.0 < lead.max():
            contours(lead, [0.0], bold)
            handles["equally probable"] = Line2D([], [], **bold)
    low, high = plane.uncertainty.min(), plane.uncertainty.max()
    levels = [level for level in MaxNLocator(6).tick_values(low, high) if low < level < high]
    if levels:
        ax.clabel(contours(plane.uncertainty, levels, thin), fontsize=8)
        handles[name] = Line2D([], [], **thin)
    return handles
