"""Plots of the same kernels under several posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import (
    check_axes,
    check_choice,
    check_integer,
    check_probability,
    generator_of,
)
from bayesmkl.bemkl.draws import share_of_each
from bayesmkl.posterior.axes import COLORS, LINES, MARKERS, NEUTRAL, legend_below, new_axes, shorten, tidy
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl
from bayesmkl.posterior.shared_docs import MODEL
from bayesmkl.posterior.summary import kernel_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAME = 40
INCHES_PER_CHARACTER = 0.085
HEIGHT, DEPTH = 0.64, 0.3  # of a row: the highest density above its line, and all intervals below it


@fill_docs(MODEL)
@own_settings
def plot_posteriors(
    models: Mapping[str, Any],
    kind: str = "shares",
    max_kernels: int = 8,
    ci_prob: float = 0.94,
    ax: Axes | None = None,
    *,
    label: object = None,
    n_draws: int = 1000,
    kernels: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Axes:
    """Show the posteriors of the same kernels under several inferences or priors.

    Parameters
    ----------
    models : mapping of str to estimator
        Two to six fitted models by name, such as ``{"VB": vb, "NUTS": nuts}``, of the same kernels. The last one is
        the reference: the others' standard deviations are given relative to its own.
    kind : {"shares", "weights"}, default="shares"
        Shares of the score, which the model identifies; or raw weights, known up to a common sign and, weakly, scale.
        Weights are mirrored where that brings them closer to the reference.
    max_kernels : int, default=8
        How many kernels to show, those with the largest shares under the reference.
    %(ci_prob:plot)s
    %(ax)s
    label : object, default=None
        Where classes or labels have kernel weights of their own (one-versus-all), the one whose models to show; None
        is the first.
    n_draws : int, default=1000
        Draws behind each density: of existing chains at most this many each.
    kernels : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels, needed for shares of models that were fitted to precomputed ones.
    random_state : int, numpy.random.Generator or None, default=0
        Seed or source of draws from variational posteriors.

    Returns
    -------
    matplotlib.axes.Axes
        One row per kernel: densities above its line, posterior means with intervals below it, ratios of standard
        deviations at the right.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If there are not two to six models, they differ in kernels or classes, or weights of BEMKL and of additive
        Gaussian processes are asked for together.

    Notes
    -----
    Shares of BEMKL are of standard deviations, those of additive Gaussian processes of variance.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import refine_posterior
    >>> from bayesmkl.posterior import plot_posteriors
    >>> X, noise = np.random.default_rng(0).normal(size=(30, 2)), np.random.default_rng(1).normal(size=30)
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> vb = BEMKLRegressor(bank).fit(X, X[:, 0] + noise)
    >>> gibbs = refine_posterior(vb, n_draws=80, random_state=0)
    >>> ax = plot_posteriors({"VB": vb, "Gibbs": gibbs})
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['linear · signal', 'linear · noise']
    """
    value = check_choice("kind", kind, ("shares", "weights"))[:-1]
    check_axes("ax", ax)
    max_kernels = check_integer("max_kernels", max_kernels, low=1)
    n_draws = check_integer("n_draws", n_draws, low=2)
    check_probability("ci_prob", ci_prob)
    rng = generator_of("random_state", random_state)
    fitted = _same_kernels(models)
    if value == "share" and len(next(iter(fitted.values())).kernel_names) == 1:
        raise ValueError('`kind`: the share of the only kernel is one in every draw. Use kind="weights".')
    if value == "weight" and len({one.is_marginal for one in fitted.values()}) == 2:
        raise ValueError(
            "`kind`: weights of BEMKL and of additive Gaussian processes are not of one kind, only the latter are "
            'standard deviations of parts of the score. Use kind="shares".'
        )
    k = _class_index(fitted, label)
    for model in fitted.values() if kernels is not None else ():
        model.training_stack(kernels)
    marginals = [
        _Marginals(_draws(one, k, value, n_draws, kernels, rng), _table(one, k, value, ci_prob, kernels))
        for one in fitted.values()
    ]
    if value == "weight":
        marginals = [one.mirrored_to(marginals[-1]) for one in marginals]
    shown = marginals[-1].table.index[:max_kernels].tolist()

    names = [shorten(name, LONGEST_NAME) for name in shown]
    if ax is None:
        height = 2.0 + len(names) * (0.55 + 0.1 * len(marginals))
        (ax,) = new_axes(6.6 + INCHES_PER_CHARACTER * max(map(len, names)), height)
    factor = 100.0 if value == "share" else 1.0
    densities = [[_density(factor * one.draws[name]) for name in shown] for one in marginals]
    peaks = [max(density.max(initial=0.0) for _, density in row) for row in zip(*densities, strict=True)]
    tables: list[Any] = [one.table.loc[shown] for one in marginals]
    handles = {}
    for g, name in enumerate(fitted):
        look = _Look(COLORS[g], LINES[g + 1], MARKERS[g + 1]) if g + 1 < len(marginals) else REFERENCE
        handles[name] = _draw_densities(ax, look, densities[g], peaks)
        depth = DEPTH * (g + 0.7) / len(marginals)
        _draw_intervals(ax, look, depth + np.arange(len(names)), factor * tables[g])
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.6, -0.8)
    tidy(ax, "both")
    _label_values(ax, value, ci_prob, pd.concat(tables))
    _say_ratios(ax, list(fitted), marginals, shown, _prefix(fitted, k))
    legend_below(ax, handles, n_columns=len(handles))
    return ax


def _label_values(ax: Axes, value: str, ci_prob: float, table: pd.DataFrame) -> None:
    interval = f"posterior densities; means and {100 * ci_prob:g} % intervals"
    if value == "share":
        ax.set_xlim(left=min(0.0, 105.0 * table["lower"].min()))  # parts of a variance can be negative
        ax.set_xlabel(f"share of the score in %\n{interval}")
    else:
        ax.axvline(0.0, color=NEUTRAL, linewidth=0.8, zorder=0)
        low, high = table["lower"].min(), table["upper"].max()  # tails reach far beyond
        ax.set_xlim(low - 0.2 * (high - low), high + 0.2 * (high - low))
        ax.set_xlabel(f"kernel weight\n{interval}")


def _same_kernels(models: Mapping[str, BaseEstimator]) -> dict[str, FittedBEMKL]:
    """Look into the models; raise unless they are two or more, of the same kernels and classes."""
    if not isinstance(models, Mapping) or not 2 <= len(models) <= len(COLORS):
        count = f"{len(models)} of them" if isinstance(models, Mapping) else f"a {type(models).__name__}"
        raise ValueError(
            f'`models` must be a mapping of names to two to {len(COLORS)} fitted models, such as {{"VB": vb, "NUTS": '
            f"nuts}}; got {count}. `plot_kernel_weights` shows one model."
        )
    fitted = {str(name): fitted_bemkl(model) for name, model in models.items()}
    (first, expected), *others = fitted.items()
    for name, one in others:
        for what in ("kernel_names", "model_names"):
            if getattr(one, what) != getattr(expected, what):
                raise ValueError(
                    f"`models` must share their kernels and classes; the {what.replace('_', ' ')} of {name!r} are "
                    f"{getattr(one, what)}, those of {first!r} {getattr(expected, what)}. Classes that share their "
                    'kernel weights are one model; multiclass="one-versus-all" has one for each.'
                )
    return fitted


def _classes(fitted: dict[str, FittedBEMKL]) -> list[str]:
    return next(iter(fitted.values())).class_names or []


def _class_index(fitted: dict[str, FittedBEMKL], label: object) -> int | None:
    classes = _classes(fitted)
    if not classes:
        if label is not None:
            raise ValueError(
                "`label` is for classes with kernel weights of their own; these models have one posterior each. "
                "Leave it out."
            )
        return None
    return 0 if label is None else classes.index(check_choice("label", str(label), classes))


def _prefix(fitted: dict[str, FittedBEMKL], k: int | None) -> str:
    kind = next(iter(fitted.values())).output_kind
    return "" if k is None else f"{kind} {_classes(fitted)[k]}, "


class _Marginals(NamedTuple):
    """One model's draws and table, of shares or weights."""

    draws: pd.DataFrame  # a column per kernel
    table: pd.DataFrame  # mean, std, lower and upper; a row per kernel, by falling share

    def mirrored_to(self, reference: _Marginals) -> _Marginals:
        """Change the sign of all weights, if they point away from those of `reference`."""
        if (self.table["mean"] * reference.table["mean"]).sum() >= 0.0:
            return self
        ends = {"mean": "mean", "std": "std", "lower": "upper", "upper": "lower"}
        table = pd.DataFrame({name: -self.table[ends[name]] for name in ends})
        return _Marginals(-self.draws, table.assign(std=self.table["std"]))


def _draws(
    fitted: FittedBEMKL,
    k: int | None,
    value: str,
    n_draws: int,
    kernels: ArrayLike | None,
    rng: np.random.Generator,
) -> pd.DataFrame:
    if fitted.is_marginal:
        draws = fitted.states[0]
        kept = evenly(draws.n_draws, n_draws)
        found = draws.shares if value == "share" else draws.kernel_weights[draws.point]
        return pd.DataFrame(found[kept], columns=fitted.kernel_names)
    flat = fitted.draws(n_draws, rng)[k or 0].flat()
    kept = evenly(len(flat.kernel_weights), n_draws)
    flat = flat.map(lambda values: values[kept])
    shown = flat.kernel_weights if value == "weight" else share_of_each(fitted.training_stack(kernels), flat)
    return pd.DataFrame(shown, columns=fitted.kernel_names)


def _table(
    fitted: FittedBEMKL, k: int | None, value: str, ci_prob: float, kernels: ArrayLike | None
) -> pd.DataFrame:
    table = kernel_table(fitted.estimator, ci_prob, kernels=kernels)
    if k is not None and fitted.class_labels is not None:
        table = table[table[fitted.output_kind] == fitted.class_labels[k]]
    columns = {value: "mean", f"{value}_std": "std", f"{value}_lower": "lower", f"{value}_upper": "upper"}
    return table.set_index("kernel")[list(columns)].rename(columns=columns)


class _Look(NamedTuple):
    """Style of one model in a plot."""

    color: str
    linestyle: Any
    marker: str


REFERENCE = _Look("black", "-", "o")


def _draw_densities(ax: Axes, look: _Look, densities: list[Any], peaks: list[float]) -> Any:
    """Draw the densities of one model above the line of each kernel; return what the legend shows."""
    from matplotlib.lines import Line2D

    for row, ((grid, density), peak) in enumerate(zip(densities, peaks, strict=True)):
        upper = row - HEIGHT * density / peak if len(grid) else grid
        ax.fill_between(grid, row, upper, color=look.color, alpha=0.12, linewidth=0.0)
        ax.plot(grid, upper, color=look.color, linestyle=look.linestyle, linewidth=1.5)
    return Line2D([], [], markeredgecolor="white", markersize=8, **look._asdict())


def _draw_intervals(ax: Axes, look: _Look, rows: np.ndarray, table: pd.DataFrame) -> None:
    ax.hlines(rows, table["lower"], table["upper"], color=look.color, linewidth=1.6)
    ax.plot(table["mean"], rows, look.marker, color=look.color, markeredgecolor="white", markersize=8)


def _density(draws: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid and the kernel density estimate on it, both empty for draws that are all the same."""
    from arviz_stats.base import array_stats

    values = draws.to_numpy()
    if values.std() <= 1e-12:
        return np.empty(0), np.empty(0)
    grid, density, _ = array_stats.kde(values)
    return grid, density


def _say_ratios(
    ax: Axes, names: list[str], marginals: list[_Marginals], shown: list[str], prefix: str
) -> None:
    """Write standard deviations relative to the reference beside the rows, and their medians into the title."""
    reference = marginals[-1].table["std"]
    others = dict(zip(names[:-1], (one.table["std"] / reference for one in marginals[:-1]), strict=True))
    for row, kernel in enumerate(shown):
        text = "\n".join(f"{name} {ratio[kernel]:.2f}" for name, ratio in others.items())
        ax.text(1.01, row, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    medians = ", ".join(f"{name} {ratio.median():.2f}" for name, ratio in others.items())
    below = f"{prefix}median of {len(reference)} kernels; each at the right"
    ax.set_title(f"Standard deviations relative to {names[-1]}: {medians}\n({below})", loc="left")
