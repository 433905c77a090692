"""Plots of chains, by ArviZ: mixing and agreement."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_choice, check_collection, check_integer, check_probability
from bayesmkl.bemkl.inference.runs import RHAT
from bayesmkl.posterior.axes import COLORS, LINES, shorten, tidy, without_pyplot
from bayesmkl.posterior.convert import to_datatree
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.shared_docs import MODEL

if TYPE_CHECKING:
    from arviz_plots import PlotCollection
    from xarray import DataTree

__all__ = ["plot_rank", "plot_trace"]

UNITS = {"shares": "share of the score", "weights": "kernel weight"}
MOST_RANKED = 250  # draws of each chain, where the bounds are simulated
LONGEST_NAME, LONGEST_PANEL_NAME = 36, 31
NO_CHAINS = (
    'whose draws are in random order: there are no chains to show. Its `rhat_` is that of its sampler "nuts"; '
    "`diagnose` says whether its draws can be relied on."
)
BY_CHAIN = {"color": ["chain"], "linestyle": ["chain"], "overlay": ["chain"]}


@fill_docs(MODEL)
@own_settings
def plot_trace(
    model: BaseEstimator | DataTree,
    kind: str = "shares",
    max_kernels: int = 8,
    *,
    label: object = None,
    kernels: ArrayLike | None = None,
    plot_collection: PlotCollection | None = None,
) -> PlotCollection:
    """Show the draws of every chain, as densities and one after the other.

    Parameters
    ----------
    model : estimator or xarray.DataTree
        A BEMKLClassifier or BEMKLRegressor fitted by "nuts" or "gibbs", or a Pipeline or search that ends in one; or
        what :func:`to_datatree` made of it.
    kind : {"shares", "weights"}, default="shares"
        Shares of the score, which the model identifies; or raw weights, whose common scale may wander although
        predictions have long converged.
    %(max_kernels)s
    label : object, default=None
        Where classes or labels have kernel weights of their own (one-versus-all), the one whose model to show; None
        is the one whose chains agree least.
    %(kernels)s
    %(plot_collection)s

    Returns
    -------
    arviz_plots.PlotCollection
        ``collection.savefig("trace.png")`` saves the figure, which is ``collection.viz["figure"].item()``; its axes
        are in ``collection.viz["plot"]``. Ticks at the lower edges are divergent transitions.

    Raises
    ------
    %(TypeError:tree)s
    NotFittedError
        Before `fit`.
    ValueError
        For a model without chains; its draws are independent, and :func:`plot_elbo` shows how it converged.

    Examples
    --------
    >>> import numpy as np
    >>> from arviz_base import from_dict
    >>> from bayesmkl.posterior import plot_trace
    >>> draws = np.random.default_rng(0).dirichlet([8, 4], size=(2, 50))
    >>> names = {"dims": {"kernel_shares": ["kernel"]}, "coords": {"kernel": ["rbf", "linear"]}}
    >>> collection = plot_trace(from_dict({"posterior": {"kernel_shares": draws}}, **names))
    >>> collection.viz["plot"]["kernel_shares"].sizes
    Frozen({'kernel': 2, 'column': 2})
    """
    from arviz_plots import plot_trace_dist

    check_collection("plot_collection", plot_collection)
    chains = _chains(model, kind, max_kernels, label, kernels)
    look = {} if plot_collection is not None else _look(8.0, 1.2 + 1.05 * len(chains.names))
    collection = plot_trace_dist(
        chains.tree,
        compact=False,
        backend="matplotlib",
        plot_collection=plot_collection,
        visuals={"label": False},
        **look,
    )
    axes = collection.viz["plot"][chains.variable].transpose("kernel", "column").values
    for name, (density, trace) in zip(chains.names, axes, strict=True):
        density.set_title(shorten(name, LONGEST_NAME), loc="left", fontsize="medium")
        trace.spines[["top", "right"]].set_visible(False)
        trace.set_xlabel("")
        for line in trace.lines:
            line.set_linewidth(0.7)
    axes[-1, 0].set_xlabel(f"{UNITS[kind]}, a line per chain")
    axes[-1, 1].set_xlabel("draw")
    return without_pyplot(collection, chains.finding)


@fill_docs(MODEL)
@own_settings
def plot_rank(
    model: BaseEstimator | DataTree,
    kind: str = "shares",
    max_kernels: int = 8,
    ci_prob: float = 0.94,
    *,
    label: object = None,
    kernels: ArrayLike | None = None,
    plot_collection: PlotCollection | None = None,
) -> PlotCollection:
    """Show whether the ranks of every chain's draws, among the draws of all chains, are uniform.

    Parameters
    ----------
    model : estimator or xarray.DataTree
        A BEMKLClassifier or BEMKLRegressor fitted by "nuts" or "gibbs" with at least two chains, or a Pipeline or
        search that ends in one; or what :func:`to_datatree` made of it.
    kind : {"shares", "weights"}, default="shares"
        Shares of the score, which the model identifies; or raw weights.
    %(max_kernels)s
    ci_prob : float, default=0.94
        Chains that agree stay within the shaded bounds with this probability (ArviZ before 1.2), or are left without
        a mark with this probability (since).
    label : object, default=None
        Where classes or labels have kernel weights of their own, the one whose model to show, as in
        :func:`plot_trace`.
    %(kernels)s
    %(plot_collection)s

    Returns
    -------
    arviz_plots.PlotCollection
        One panel per kernel: the distribution function of each chain's ranks, less that of the uniform distribution.
        ``collection.savefig("ranks.png")`` saves the figure, which is ``collection.viz["figure"].item()``.

    Raises
    ------
    %(TypeError:tree)s
    NotFittedError
        Before `fit`.
    ValueError
        For a model without chains, or with one only.

    Notes
    -----
    Shaded bounds are those of independent draws; for them, draws are thinned to about as many as are effective, and
    at most 250 of each chain.

    References
    ----------
    T. Säilynoja, P.-C. Bürkner and A. Vehtari (2022), Graphical test for discrete uniformity and its applications in
    goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32.

    Examples
    --------
    >>> import numpy as np
    >>> from arviz_base import from_dict
    >>> from bayesmkl.posterior import plot_rank
    >>> draws = np.random.default_rng(0).dirichlet([8, 4], size=(2, 50))
    >>> names = {"dims": {"kernel_shares": ["kernel"]}, "coords": {"kernel": ["rbf", "linear"]}}
    >>> collection = plot_rank(from_dict({"posterior": {"kernel_shares": draws}}, **names))
    >>> collection.viz["plot"]["kernel_shares"].sizes
    Frozen({'kernel': 2})
    """
    from arviz_plots import plot_rank as plot_ranks

    probability = check_probability("ci_prob", ci_prob)
    check_collection("plot_collection", plot_collection)
    chains = _chains(model, kind, max_kernels, label, kernels)
    if chains.tree["posterior"].sizes["chain"] < 2:
        raise ValueError(
            "`model` has one chain only, and ranks compare chains. Fit it with four, as by "
            "`inference=NUTS(n_chains=4)`."
        )
    options = signature(plot_ranks).parameters
    n_columns = min(len(chains.names), 4)
    given: dict[str, Any] = {"envelope_prob" if "envelope_prob" in options else "ci_prob": probability}
    if plot_collection is None:
        given |= _look(1.0 + 2.6 * n_columns, 1.2 + 1.9 * -(-len(chains.names) // n_columns))
        given |= {"col_wrap": n_columns, "linestyle": list(LINES[:4]), "aes": BY_CHAIN}
    tests_chains = "method" in options
    tree = chains.tree if tests_chains else chains.thinned()
    collection = plot_ranks(
        tree,
        backend="matplotlib",
        plot_collection=plot_collection,
        visuals={"title": False, "xlabel": False, "remove_axis": False},
        **given,
    )
    if not tests_chains:
        _correct_ranks(collection, tree["posterior"][chains.variable])
    axes = collection.viz["plot"][chains.variable].values
    for name, ax in zip(chains.names, axes, strict=True):
        ax.set_title(shorten(name, LONGEST_PANEL_NAME), loc="left", fontsize="small")
        tidy(ax, "y")
    axes[0].set_ylabel("share of ranks below,\nless the expected one")
    for ax in axes[-n_columns:]:
        ax.set_xlabel("rank / number of draws")
        ax.tick_params(labelbottom=True)
    return without_pyplot(collection, chains.finding)


class _Chains(NamedTuple):
    """Draws of the kernels to show, and their diagnostics."""

    tree: DataTree  # these draws are the only variable of its group "posterior"
    variable: str
    names: list[str]  # of the kernels
    finding: str
    step: int  # every so many draws are about independent

    def thinned(self) -> DataTree:
        """Keep draws that are about independent, and no more than simulated bounds can be had for in a second."""
        n_draws = self.tree["posterior"].sizes["draw"]
        return self.tree.isel(draw=slice(None, None, max(self.step, -(-n_draws // MOST_RANKED))))


def _chains(
    model: BaseEstimator | DataTree, kind: str, max_kernels: int, label: object, kernels: ArrayLike | None
) -> _Chains:
    """Select the draws of the most important kernels, of those that move at all."""
    from arviz_base import from_dict
    from arviz_stats.base import array_stats

    variable = f"kernel_{check_choice('kind', kind, tuple(UNITS))}"
    max_kernels = check_integer("max_kernels", max_kernels, low=1)
    tree = _tree(model, kernels)
    if variable not in tree["posterior"]:
        raise ValueError(f"`model` is a DataTree without posterior/{variable}. Make it with `to_datatree`.")
    posterior, diverging, title = _one_class(tree, variable, label)
    draws = posterior[variable].transpose("chain", "draw", "kernel")
    draws = draws[..., draws.values.std(axis=(0, 1)) > 1e-12]
    if draws.sizes["kernel"] == 0:
        raise ValueError('`kind`: the share of the only kernel is one in every draw. Use kind="weights".')

    rhat = np.max(array_stats.rhat(draws.values, chain_axis=0, draw_axis=1))
    ess = np.min(array_stats.ess(draws.values, chain_axis=0, draw_axis=1))
    alone = sum(array_stats.ess(chain[None], chain_axis=0, draw_axis=1) for chain in draws.values)
    n_draws = draws.sizes["chain"] * draws.sizes["draw"]
    verdict = "the chains agree" if rhat <= RHAT else "the chains do not agree"
    finding = f"{title}{verdict} (R-hat {rhat:.3f}), {ess:.0f} of {n_draws} draws are effective"

    importance = (
        posterior.get("kernel_shares", np.abs(draws)).mean(["chain", "draw"]).sel(kernel=draws["kernel"])
    )
    order = np.argsort(-importance.values, kind="stable")[:max_kernels]
    groups = {"posterior": {variable: draws.values[..., order]}}
    if diverging is not None:
        groups["sample_stats"] = {"diverging": diverging.values}
        finding += f", {int(diverging.sum())} diverged"
    names = [str(name) for name in draws["kernel"].values[order]]
    shown = from_dict(groups, dims={variable: ["kernel"]}, coords={"kernel": names})
    finding = finding[0].upper() + finding[1:]
    return _Chains(shown, variable, names, finding, step=max(1, int(n_draws // np.min(alone))))


def _correct_ranks(collection: PlotCollection, draws: Any) -> None:
    """Draw the ranks over the ranks of all chains.

    arviz-plots 0.8 divides them by the largest rank of each chain instead, and a chain that stays low looks uniform.
    """
    lines = collection.viz["ecdf_lines"][draws.name].transpose("kernel", "chain").values
    for kernel, own in zip(draws.transpose("kernel", "chain", "draw").values, lines, strict=True):
        relative = rankdata(kernel).reshape(kernel.shape) / kernel.size
        grid = np.linspace(0.0, 1.0, kernel.shape[1])
        for line, ranks in zip(own, np.sort(relative, axis=1), strict=True):
            line.set_data(grid, np.searchsorted(ranks, grid, side="right") / len(ranks) - grid)
        own[0].axes.relim()
        own[0].axes.autoscale_view()


def _tree(model: BaseEstimator | DataTree, kernels: ArrayLike | None) -> DataTree:
    from xarray import DataTree

    given = isinstance(model, DataTree)
    found = None if given else fitted_bemkl(model, no_process=NO_CHAINS)
    inference = model.attrs.get("inference", "nuts") if found is None else found.inference
    if inference == "marginal":
        n_chains = model["posterior"].sizes["chain"] if found is None else found.states[0].n_chains
        if n_chains == 1:
            raise ValueError(
                '`model` was fitted by inference="marginal", whose draws are in random order: there are no chains. '
                'Its `pareto_k_` and `ess_` say how it went; or fit with `Marginal(sampler="nuts")`.'
            )
    elif inference not in ("nuts", "gibbs"):
        raise ValueError(
            f'`model` was fitted by inference="{inference}", whose draws are independent: there are no chains. '
            'Use `plot_elbo` to see how it converged, or fit with inference="nuts".'
        )
    return model if given else to_datatree(model, kernels=kernels)


def _one_class(tree: DataTree, variable: str, label: object) -> tuple[Any, Any, str]:
    """Select the posterior and the divergent transitions of one class, where there are several."""
    from arviz_stats.base import array_stats

    posterior = tree["posterior"].dataset
    diverging = tree["sample_stats"].get("diverging") if "sample_stats" in tree else None
    kind = next((dim for dim in ("class", "label") if dim in posterior[variable].dims), None)
    if kind is None:
        if label is not None:
            raise ValueError(
                "`label` chooses between classes that have kernel weights of their own; `model` has one set. Leave "
                "it out."
            )
        return posterior, diverging, ""
    names = [str(name) for name in posterior[kind].values]
    if label is None:
        draws = posterior[variable].transpose("chain", "draw", kind, "kernel").values
        rhat = array_stats.rhat(draws, chain_axis=0, draw_axis=1)
        k = int(np.argmax(np.nanmax(rhat, axis=1)))
    else:
        k = names.index(check_choice("label", str(label), names))
    selected = None if diverging is None else diverging.isel({kind: k})
    return posterior.isel({kind: k}), selected, f"{kind.capitalize()} {names[k]}: "


def _look(width: float, height: float) -> dict[str, Any]:
    """Return size in inches and colors of a new figure."""
    return {"figure_kwargs": {"figsize": (width, height), "layout": "constrained"}, "color": list(COLORS)}
