"""Pictures of predictions: against observed outcomes, and over the plane of two features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import check_axes, check_probability
from bayesmkl.posterior.axes import COLORS, NEUTRAL, new_axes, tidy
from bayesmkl.posterior.checks import reliability
from bayesmkl.posterior.fitted import public

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
