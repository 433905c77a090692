"""The switches that SAMKL sets for each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.validation import check_axes
from bayesmkl.discriminative.plots.axes import new_axes, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_switches"]

# Light to dark: what was not touched, what made no difference, what did. As distinct in print as on a screen.
ON, OFF_INACTIVE, OFF_ACTIVE = "#F4F1E8", "#9FBAD0", "#0B3D6B"
NAMES = ("on", "off, the kernel has no weight", "off, the kernel has a weight")


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
