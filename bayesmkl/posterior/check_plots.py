"""Plots of predictive checks against the training data, by ArviZ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._numerics.psis import quietly
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Seed
from bayesmkl._utils.validation import check_collection, check_integer, check_probability, generator_of
from bayesmkl.posterior.axes import COLORS, NEUTRAL, shorten, tidy, without_pyplot
from bayesmkl.posterior.convert import to_datatree
from bayesmkl.posterior.diagnose import Diagnosis
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo_comparison import leave_each_out
from bayesmkl.posterior.reliability import reliability
from bayesmkl.posterior.shared_docs import MODEL

if TYPE_CHECKING:
    from arviz_plots import PlotCollection
    from arviz_stats import ELPDData
    from xarray import DataTree

__all__ = ["plot_pareto_k", "plot_posterior_predictive"]

LONGEST_NAME = 24
N_SHOWN = 50  # replicated data sets


@fill_docs(MODEL)
@own_settings
def plot_posterior_predictive(
    model: BaseEstimator | DataTree,
    ci_prob: float = 0.94,
    n_draws: int = 500,
    *,
    kernels: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = 0,
    plot_collection: PlotCollection | None = None,
) -> PlotCollection:
    """Show whether targets that the fitted model would produce look like those it was fitted to.

    Parameters
    ----------
    model : estimator or xarray.DataTree
        A fitted BEMKLClassifier, BEMKLRegressor, GPMKLClassifier or GPMKLRegressor, or a Pipeline or search that ends
        in one; any inference. Or what :func:`to_datatree` made of it.
    ci_prob : float, default=0.94
        Probability content of the bands around observed frequencies (classification), and of the predictive intervals
        whose coverage the title tells (regression).
    n_draws : int, default=500
        Draws of all training targets; of existing chains at most this many each. Not used for a DataTree.
    %(kernels)s
    random_state : int, numpy.random.Generator or None, default=0
        Seed or source of the draws. Not used for a DataTree.
    %(plot_collection)s

    Returns
    -------
    arviz_plots.PlotCollection
        In classification a calibration plot for the second of two classes, or one for each of several classes or
        labels: observed frequency against predicted probability, made monotone. In regression the densities of the
        observed and of 50 replicated targets, in a panel for each of several. ``collection.savefig("check.png")``
        saves the figure, which is ``collection.viz["figure"].item()``; its axes are in ``collection.viz["plot"]``.

    Raises
    ------
    %(TypeError:tree)s
    NotFittedError
        Before `fit`.
    ValueError
        If kernels are needed and missing, or a DataTree has no replicated targets.

    Notes
    -----
    The model has seen these targets: agreement is necessary, not sufficient. :func:`plot_reliability` and
    :func:`plot_predictions` show predictions of held-out samples.

    References
    ----------
    T. Dimitriadis, T. Gneiting and A. I. Jordan (2021), Stable reliability diagrams for probabilistic classifiers,
    Proceedings of the National Academy of Sciences 118(8).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import plot_posterior_predictive
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> y = X[:, 0] + np.random.default_rng(0).normal(scale=0.2, size=30)
    >>> collection = plot_posterior_predictive(BEMKLRegressor(KernelBank(["linear"])).fit(X, y))
    >>> collection.viz["plot"]["y"].item().get_xlabel()
    'target, in its own units'
    """
    from xarray import DataTree

    ci_prob = check_probability("ci_prob", ci_prob)
    n_draws = check_integer("n_draws", n_draws, low=2)
    check_collection("plot_collection", plot_collection)
    given = isinstance(model, DataTree)
    tree = model if given else to_datatree(model, n_draws, random_state, kernels=kernels, pointwise=True)
    for group, what in (("posterior_predictive", "replicated"), ("observed_data", "observed")):
        if group not in tree.children or "y" not in tree[group]:
            raise ValueError(
                f"`model` is a DataTree without {group}/y, the {what} targets. Make it with "
                "`to_datatree(model, pointwise=True)`."
            )
    if np.issubdtype(tree["observed_data/y"].dtype, np.integer):
        return _plot_calibration(tree, ci_prob, plot_collection)
    return _plot_densities(tree, ci_prob, plot_collection)


@fill_docs(MODEL)
@own_settings
def plot_pareto_k(
    model: BaseEstimator | Diagnosis | ELPDData,
    n_draws: int = 1000,
    *,
    kernels: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = 0,
    plot_collection: PlotCollection | None = None,
) -> PlotCollection:
    """Show for which training samples leave-one-out by importance sampling can be trusted.

    Parameters
    ----------
    model : estimator, Diagnosis or arviz_stats.ELPDData
        A fitted BEMKLClassifier, BEMKLRegressor, GPMKLClassifier or GPMKLRegressor, or a Pipeline or search that ends
        in one, of any inference; what :func:`diagnose` found; or the result of ``arviz_stats.loo(...,
        pointwise=True)``.
    n_draws : int, default=1000
        Draws in each chain, at most, as in :func:`diagnose`. Used for an estimator only, as all that follow.
    %(kernels)s
    random_state : int, numpy.random.Generator or None, default=0
        Seed or source of draws from a variational posterior.
    plot_collection : arviz_plots.PlotCollection, default=None
        Axes to draw on, for any `model`; None makes a figure.

    Returns
    -------
    arviz_plots.PlotCollection
        ``collection.savefig("k.png")`` saves the figure, which is ``collection.viz["figure"].item()``; its axes are
        ``collection.viz["plot"].item()``. Crosses mark samples above the line, which too few draws stand for.

    Raises
    ------
    TypeError
        For anything else than such a model, a Diagnosis or a result of ArviZ; for a multitask model too.
    NotFittedError
        Before `fit`.
    ValueError
        If precomputed kernels are missing, there are too few draws, `random_state` is no seed, or `plot_collection`
        is none.

    References
    ----------
    A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry (2024), Pareto smoothed importance sampling, Journal of
    Machine Learning Research 25.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import plot_pareto_k
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = BEMKLRegressor(KernelBank(["linear"])).fit(X, X[:, 0] ** 2)
    >>> plot_pareto_k(model).viz["plot"].item().get_ylabel()
    'Pareto k-hat'
    """
    from arviz_plots import plot_khat

    check_collection("plot_collection", plot_collection)
    pareto_k, threshold = _pareto_k(model, n_draws, kernels, random_state)
    collection = plot_khat(
        SimpleNamespace(pareto_k=pareto_k, good_k=threshold),
        hline_values=[threshold],
        backend="matplotlib",
        color=COLORS[0],
        plot_collection=plot_collection,
        visuals={"hlines": {"color": NEUTRAL, "linestyle": "--"}, "xlabel": False, "ylabel": False},
        **_size(plot_collection, 6.4, 3.6),
    )
    values = pareto_k.values.ravel()
    bad = np.flatnonzero(~(values <= threshold))
    ax = collection.viz["plot"].item()
    ax.plot(bad, values[bad], "X", color=COLORS[1], markeredgecolor="white", markersize=10)
    ax.set(xlabel="training sample", ylabel="Pareto k-hat")
    tidy(ax, "y")
    verdict = "cannot be trusted there" if len(bad) else "can be trusted"
    finding = (
        f"{len(bad)} of {len(values)} samples have a k-hat above {threshold:.2f}:\nleave-one-out {verdict}"
    )
    return without_pyplot(collection, finding)


def _pareto_k(
    model: Any,
    n_draws: int,
    kernels: ArrayLike | None,
    random_state: Seed | None,
) -> tuple[Any, float]:
    """Return k-hat of every sample and how large it may be."""
    from xarray import DataArray

    if getattr(model, "pareto_k", None) is not None:
        return model.pareto_k, float(model.good_k)
    if isinstance(model, Diagnosis):
        return DataArray(model["loo"]["pareto_k"], dims=["obs_id"]), model["loo"]["good_k"]
    fitted = fitted_bemkl(model, of_outcome=False)
    n_draws = check_integer("n_draws", n_draws, low=100)
    found = leave_each_out(fitted, n_draws, generator_of("random_state", random_state), kernels)
    return DataArray(found.pareto_k, dims=["obs_id"]), found.good_k


def _plot_calibration(tree: DataTree, ci_prob: float, plot_collection: Any) -> PlotCollection:
    from arviz_plots import plot_ppc_pava

    names, replicated, observed = _by_class(tree)
    variables, columns = [f"y_{k}" for k in range(len(names))], min(len(names), 4)
    collection = plot_ppc_pava(
        _panels(variables, replicated, observed),
        data_type="binary",
        ci_prob=ci_prob,
        backend="matplotlib",
        plot_collection=plot_collection,
        visuals={"title": False, "xlabel": False, "ylabel": False},
        **_size(plot_collection, 0.9 + 3.4 * columns, 1.0 + 3.4 * -(-len(names) // columns)),
    )
    for name, variable in zip(names, variables, strict=True):
        ax = collection.viz["plot"][variable].item()
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=f"probability of {shorten(name, LONGEST_NAME)}")
        tidy(ax, "both")
    collection.viz["plot"][variables[0]].item().set_ylabel(f"observed frequency, {100 * ci_prob:g} % band")
    errors = [
        reliability(own, draws.mean(axis=(0, 1))).calibration_error
        for own, draws in zip(observed, replicated, strict=True)
    ]
    finding = f"Calibration error {np.mean(errors):.3f} on the {len(observed[0])} fitted samples"
    return without_pyplot(collection, finding)


def _panels(variables: list[str], replicated: list[np.ndarray], observed: list[np.ndarray]) -> DataTree:
    """Return a tree of targets under the names of `variables`, each of which gets a panel."""
    from arviz_base import from_dict

    groups = {
        "posterior_predictive": dict(zip(variables, replicated, strict=True)),
        "observed_data": dict(zip(variables, observed, strict=True)),
    }
    return from_dict(groups, dims={variable: ["obs_id"] for variable in variables})


def _by_class(tree: DataTree) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """Return labels, and the replicated and observed answers to whether a labeled sample has that label."""
    replicated: Any = tree["posterior_predictive/y"]
    observed: Any = tree["observed_data/y"]
    kind = _several(observed)
    if kind is not None:
        names = [str(name) for name in observed[kind].values]
        order = (kind, "chain", "draw", "obs_id")
        return (
            names,
            list(replicated.transpose(*order).values),
            list(observed.transpose(kind, "obs_id").values),
        )
    known = "constant_data" in tree.children and "label" in tree["constant_data"]
    label = np.asarray(tree["constant_data/label"])[observed.values == 1][0] if known else 1
    labeled = observed.values >= 0
    drawn = replicated.transpose("chain", "draw", "obs_id").values[..., labeled]
    return [str(label)], [drawn], [observed.values[labeled]]


def _several(targets: Any) -> str | None:
    """Return the dimension of several classes, labels or targets."""
    return next((kind for kind in ("class", "label", "output") if kind in targets.dims), None)


def _plot_densities(tree: DataTree, ci_prob: float, plot_collection: Any) -> PlotCollection:
    from arviz_plots import plot_ppc_dist

    names, replicated, observed = _by_output(tree)
    variables = ["y"] if len(names) == 1 else [f"y_{k}" for k in range(len(names))]
    n_shown, columns = min(N_SHOWN, replicated[0].shape[0] * replicated[0].shape[1]), min(len(names), 3)
    with quietly():  # xarray says how ArviZ should drop a coordinate of several variables
        collection = plot_ppc_dist(
            _panels(variables, replicated, observed),
            var_names=variables,
            num_samples=n_shown,
            kind="kde",
            backend="matplotlib",
            plot_collection=plot_collection,
            visuals={
                "title": False,
                "predictive_dist": {"color": COLORS[0]},
                "observed_dist": {"color": "black"},
            },
            **_size(plot_collection, 6.4 + 4.6 * (columns - 1), 4.2 * -(-len(names) // columns)),
        )
    for name, variable in zip(names, variables, strict=True):
        ax, line = collection.viz["plot"][variable].item(), collection.viz["observed_dist"][variable].item()
        line.set_linewidth(2.2)
        ax.set_xlabel(f"{name}, in its own units")
        if variable == variables[0]:
            ax.legend([line, ax.lines[0]], ["observed", f"{n_shown} of the replicated"], frameon=False)
    tail = 50.0 * (1.0 - ci_prob)
    lower, upper = np.percentile(replicated, [tail, 100.0 - tail], axis=(1, 2))
    covered = np.mean((lower <= observed) & (observed <= upper))
    finding = (
        f"{100 * ci_prob:g} % intervals cover {100 * covered:.3g} % of the {len(observed[0])} fitted samples"
    )
    return without_pyplot(collection, finding)


def _by_output(tree: DataTree) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """Return names of targets, and the replicated and observed ones."""
    replicated: Any = tree["posterior_predictive/y"]
    observed: Any = tree["observed_data/y"]
    if _several(observed) is None:
        return ["target"], [replicated.transpose("chain", "draw", "obs_id").values], [observed.values]
    names = [f"target {name}" for name in observed["output"].values]
    drawn = replicated.transpose("output", "chain", "draw", "obs_id").values
    return names, list(drawn), list(observed.transpose("output", "obs_id").values)


def _size(plot_collection: Any, width: float, height: float) -> dict[str, Any]:
    """Return the size in inches of a new figure."""
    return (
        {}
        if plot_collection is not None
        else {"figure_kwargs": {"figsize": (width, height), "layout": "constrained"}}
    )
