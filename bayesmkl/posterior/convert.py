"""Posteriors as ArviZ data: a DataTree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_flag, check_integer, generator_of
from bayesmkl.bemkl.draws import log_prior, log_prior_terms, log_variational
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.gaussian_process import drawn_of_process
from bayesmkl.posterior.sample import named_draws
from bayesmkl.posterior.shared_docs import MODEL

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

# Own dimensions of variables, by group. Variables with chains and draws have those first; OUTPUT stands for "class",
# "label" or "output" where there are several. Where each of them has kernel weights of its own it is a dimension of
# everything, but of constants and replicated classes that were counted already.
OUTPUT = "(output)"
BASIS = "(basis)"  # stands for "obs_id", or for "landmark" where there are landmarks
DIMS: dict[str, dict[str, list[str]]] = {
    "posterior": {
        "kernel_weights": ["kernel"],
        "kernel_precision": ["kernel"],
        "kernel_inclusion": ["kernel"],
        "kernel_shares": ["kernel"],
        "dual_coef": [OUTPUT, BASIS],
        "sample_precision": [OUTPUT, BASIS],
        "intercept": [OUTPUT],
        "intercept_precision": [OUTPUT],
        "intermediate_precision": [OUTPUT],
        "noise_precision": [OUTPUT],
        "noise_std": [OUTPUT],
        "score": [OUTPUT, "obs_id"],
        "covariate_effects": [OUTPUT, "covariate"],
        "group_std": ["term"],
        "group_effects": [OUTPUT, "level"],
        "task_std": ["task"],
        "task_correlation": ["task", "other_task"],
        "task_shares": ["task", "kernel"],
    },
    "prior": {"kernel_weights": ["kernel"], "noise_std": [OUTPUT]},
    "prior_predictive": {"y": [OUTPUT, "obs_id"]},
    "posterior_predictive": {"y": [OUTPUT, "obs_id"]},
    "log_likelihood": {"y": [OUTPUT, "obs_id"]},
    "observed_data": {"y": [OUTPUT, "obs_id"]},
    "constant_data": {
        "view": ["kernel"],
        "label": ["obs_id"],
        "y_mean": [OUTPUT],
        "y_scale": [OUTPUT],
        "upper": ["obs_id"],
        "entry": ["obs_id"],
        "cut_points": ["cut"],
    },
    "sample_stats": {"elbo": ["iteration"]},
}


@fill_docs(MODEL)
@own_settings
def to_datatree(
    model: BaseEstimator,
    n_draws: int | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    kernels: ArrayLike | None = None,
    pointwise: bool | None = None,
    sample_names: Sequence[Any] | None = None,
) -> DataTree:
    r"""Convert the posterior of a fitted model to a DataTree, for ArviZ and xarray.

    Parameters
    ----------
    %(model)s
    n_draws : int, default=None
        Draws in each chain: from a variational posterior this many (None: 1000); of existing chains at most this
        many, at even distances (None: all).
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws from a variational posterior and of the replicated targets.
    %(kernels:kept)s
    pointwise : bool, default=None
        Whether to evaluate the draws at the training samples: shares, replicated targets and log likelihood. They
        take a product of every training kernel with every draw, and every kernel once more where a bank makes them.
        None does it where there are kernels, that is unless they were precomputed and are not given.
    sample_names : array-like of shape (n_samples,), default=None
        Names or numbers of the training samples for the dimension ``obs_id``; 0, 1, ... by default.

    Returns
    -------
    xarray.DataTree
        With the groups

        * ``posterior``: the parameters, named as in :func:`sample_posterior`, with the dimensions ``chain``,
          ``draw``, ``kernel`` (kernel names), ``obs_id`` (training samples), ``landmark`` in its place for weights of
          landmarks and, where there are several, ``class``, ``label`` or ``output``; and ``kernel_shares``, each
          kernel's part of the score (`pointwise`);
        * ``posterior_predictive``: ``y``, one new target of every training sample for every draw (`pointwise`);
        * ``log_likelihood``: ``y``, log p(y | a, b, e) of every training sample (`pointwise`), of "nuts", "gibbs" and
          "marginal" alone: draws of "vb" and "svi" cannot be reweighted to fewer samples, see the notes;
        * ``log_prior``: log densities of ``kernel_weights``, ``intercept``, ``dual_coef`` and, in regression,
          ``intermediate_precision`` and ``noise_precision``, each a sum over its entries (and outputs, where these
          share their kernel weights);
        * ``observed_data``: ``y``, the targets;
        * ``constant_data``: ``view`` of each kernel where a bank made the kernels; in classification ``label`` of
          each sample, unless it has several, ``margin`` and ``intermediate_scale``; in regression ``y_mean`` and
          ``y_scale``;
        * ``sample_stats``: what a sampler says of each draw, such as ``diverging``; of "vb" draws
          ``log_variational``, their log density under the variational posterior, ``lp``, their log joint density
          with the target as the model sees it (`pointwise`), and ``elbo`` over ``iteration``,
          which has no chain or draw: it tells how the posterior was found. One-versus-all models that ended early
          are padded with NaN.

        Attributes name the model, the inference, the version and why it ended.

        Of an additive Gaussian process there is no ``log_prior`` or ``sample_stats``; ``posterior`` has
        ``kernel_weights``, ``kernel_shares``, the training ``score`` and the parameters of the likelihood by name,
        such as ``noise_std`` of the standardized target; with a `design` also ``covariate_effects`` of standardized
        covariates, ``group_std`` of every ``term`` (groups and random slopes) and ``group_effects`` of its levels, in
        the units that the likelihood sees, and of tasks ``task_std``, ``task_correlation`` and ``task_shares``;
        ``log_likelihood`` has no dimension of outputs: it is the log density of a sample by all others, given the
        hyperparameters of a draw. ``prior`` has draws of weights and parameters, and
        ``prior_predictive`` targets of scores that were drawn from the prior (`pointwise`). ``y`` of grades are their
        numbers from 0, with ``cut_points`` in ``constant_data``; of times it is the lower end of the interval that a
        time is known to lie in, with ``upper`` and ``entry`` there.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If kernels are needed and missing, or an argument does not fit the model.

    Notes
    -----
    Likelihood and prior are those of the collapsed model, with precisions, intermediate outputs and latent scores
    integrated out; weights a, b and e are Student t variables there.

    Outputs that share their kernel weights have the same draws of them: ``kernel_weights``, ``kernel_precision`` and
    ``kernel_shares`` have no dimension of outputs then. Under ``multiclass="one-versus-all"`` everything has it.

    In classification ``y`` is 1 for the second of two classes and 0 for the first; with more than two classes it is
    1 for samples of ``class``, with several labels for samples that have the ``label``. Unlabeled samples of
    semi-supervised learning are -1. The log likelihood is :math:`\log P(y_i f_i > \nu)`, which for :math:`\nu > 0`
    does not sum to one over the labels: a score within the margin belongs to none; of an unlabeled sample it is
    :math:`\log P(|f_i| > \nu)`. Replicated labels are drawn given that there is a label.

    With ``multiclass="multinomial"`` one class has the largest score: the log likelihood has no dimension of classes,
    and every draw takes an integral per class and sample (one or two seconds per 100 draws of 500 samples of ten
    classes).

    In regression the target is standardized before the fit, and parameters are those of the standardized target.
    ``y`` is in the original units everywhere, and the log likelihood is that of the original target.

    ``lp`` less ``log_variational`` is the log importance ratio of a draw.

    ``arviz_stats.loo`` and ``compare`` take trees of additive Gaussian processes, where they find `elpd_i_`, and of
    sampled BEMKL models, whose k-hats say how far to trust them. They need ``log_likelihood``, which trees of "vb"
    do not have: draws from a variational posterior look reliable to ArviZ, and it ranks models wrongly.
    :func:`compare_loo` compares models of every inference. ``arviz_stats.loo_pit`` is wrong of Gaussian processes,
    whose ``posterior_predictive`` is drawn given the sample's own target too: :func:`diagnose` leaves that out.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import to_datatree
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> tree = to_datatree(BEMKLRegressor(KernelBank(["rbf", "linear"])).fit(X, X[:, 0]), random_state=0)
    >>> tree["posterior/kernel_shares"].dims, tree["posterior_predictive/y"].dims
    (('chain', 'draw', 'kernel'), ('chain', 'draw', 'obs_id'))
    >>> tree["posterior"].coords["kernel"].values.tolist()
    ['rbf · all', 'linear · all']
    """
    from xarray import DataTree

    n_draws = None if n_draws is None else check_integer("n_draws", n_draws, low=1)
    rng = generator_of("random_state", random_state)
    fitted = fitted_bemkl(model)
    if pointwise is not None:
        if check_flag("pointwise", pointwise):
            fitted.refuse_landmarks("`pointwise=True`")
    else:
        pointwise = kernels is not None or fitted.is_marginal or fitted.estimator.kernel_bank_ is not None
    coords = _coords(fitted, sample_names)
    if fitted.is_marginal:
        if kernels is not None:
            fitted.training_stack(kernels)  # refused where they are wrong; the model keeps its own
        groups = drawn_of_process(fitted, n_draws, rng, pointwise)
    else:
        groups = _drawn_groups(fitted, n_draws, rng, kernels, pointwise)
    datasets = {name: _dataset(fitted, name, variables, coords) for name, variables in groups.items()}
    datasets["observed_data"] = _dataset(fitted, "observed_data", {"y": _observed(fitted)}, coords)
    datasets["constant_data"] = _dataset(fitted, "constant_data", _constants(fitted), coords)
    if fitted.histories:
        iterations = {"iteration": np.arange(1, 1 + max(map(len, fitted.histories)))}
        trace = _dataset(fitted, "sample_stats", {"elbo": _elbo(fitted)}, coords | iterations, sample_dims=[])
        datasets["sample_stats"] = datasets["sample_stats"].merge(trace)
    tree = DataTree.from_dict(datasets)
    tree.attrs = _attributes(fitted)
    return tree


def _dataset(
    fitted: FittedBEMKL, group: str, variables: dict[str, Any], coords: dict[str, Any], **options: Any
) -> Dataset:
    """Name dimensions and coordinates of one group, by ArviZ."""
    from arviz_base import from_dict

    own = DIMS.get(group, {})
    design = fitted.estimator.design_ if fitted.is_marginal else None
    if group == "constant_data" and design is not None and design.has_tasks:
        own = own | {"y_mean": ["task"], "y_scale": ["task"]}
    by_output = fitted.estimator.likelihood_.names if fitted.is_marginal else ()
    dims = {
        name: _dims(fitted, group, own.get(name, [OUTPUT] if name in by_output else [])) for name in variables
    }
    if group == "log_likelihood" and (fitted.is_multinomial or fitted.is_marginal):
        dims = {name: ["obs_id"] for name in variables}
    return from_dict({group: variables}, coords=coords, dims=dims, **options)[group].to_dataset()


def _dims(fitted: FittedBEMKL, group: str, own: list[str]) -> list[str]:
    """Return own dimensions of a variable, the outputs first if there are several."""
    everywhere = fitted.class_names is not None and group != "constant_data"
    several = fitted.output_names is not None and (OUTPUT in own or everywhere)
    basis = "landmark" if fitted.has_landmarks else "obs_id"
    return [fitted.output_kind] * several + [basis if dim == BASIS else dim for dim in own if dim != OUTPUT]


def _drawn_groups(
    fitted: FittedBEMKL,
    n_draws: int | None,
    rng: np.random.Generator,
    kernels: ArrayLike | None,
    pointwise: bool,
) -> dict[str, dict[str, np.ndarray]]:
    """Return all that has chains and draws, by group and variable; several outputs are the third axis."""
    draws, statistics = fitted.draws(n_draws, rng), fitted.statistics(n_draws)
    problems = fitted.problems(kernels) if pointwise else fitted.problems_without_kernels()
    per_model = []
    for problem, state, own, stats in zip(problems, fitted.states, draws, statistics, strict=True):
        here = Evaluated(problem, own)
        groups = {
            "posterior": named_draws(fitted, own),
            "log_prior": {name: here.in_chains(v) for name, v in log_prior_terms(problem, here.flat).items()},
            "sample_stats": stats,
        }
        if not fitted.is_drawn:
            groups["sample_stats"] = {"log_variational": here.in_chains(log_variational(state, here.flat))}
        if pointwise:
            here.evaluate_shares_and_scores()
            groups["posterior"]["kernel_shares"] = here.in_chains(here.shares)
            groups["posterior_predictive"] = {"y": here.in_chains(_replicated(fitted, here, rng))}
            if fitted.is_drawn:
                groups["log_likelihood"] = {"y": here.in_chains(_log_likelihood(fitted, here))}
            else:  # draws from it cannot be reweighted to fewer samples
                log_joint = here.log_likelihood.sum(axis=1) + log_prior(problem, here.flat)
                groups["sample_stats"] |= {"lp": here.in_chains(log_joint)}
        per_model.append({group: variables for group, variables in groups.items() if variables})
    if fitted.class_names is None:
        return per_model[0]
    return {
        group: {name: np.stack([own[group][name] for own in per_model], axis=2) for name in variables}
        for group, variables in per_model[0].items()
    }


def _replicated(fitted: FittedBEMKL, model: Evaluated, rng: np.random.Generator) -> np.ndarray:
    """Return new targets in the units of the user, (n_draws, n_samples) or with outputs between these axes."""
    drawn = model.replicate(rng)
    if fitted.outcome == "times":
        return fitted.estimator._in_units(drawn)
    if model.is_regression:
        location, scale = _units(fitted)
        drawn = location[..., None] + scale[..., None] * drawn
    return drawn[:, 0] if drawn.ndim == 3 and fitted.output_names is None else drawn


def _log_likelihood(fitted: FittedBEMKL, model: Evaluated) -> np.ndarray:
    """Return log likelihoods of targets in the units of the user, with outputs between draws and samples."""
    if fitted.outcome == "times":
        return model.log_likelihood - fitted.estimator._log_units()
    if model.is_multinomial or fitted.output_names is None or fitted.class_names is not None:
        return model.log_likelihood - np.log(getattr(fitted.estimator, "y_scale_", 1.0))
    log_p = np.stack([output.log_likelihood for output in model.outputs], axis=1)
    return log_p - np.log(_units(fitted)[1])[:, None] if model.is_regression else log_p


def _units(fitted: FittedBEMKL) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(fitted.estimator.y_mean_), np.asarray(fitted.estimator.y_scale_)


def _observed(fitted: FittedBEMKL) -> np.ndarray:
    """Return targets in the units of the user: labels 0 and 1, or numbers; (n_outputs,) n_samples."""
    if fitted.is_classifier:
        labels = (fitted.estimator.target_ > 0).astype(np.int8)
        return np.where(fitted.labeled, labels, np.int8(-1))
    if fitted.outcome == "grades":
        return fitted.estimator.target_
    return fitted.target.T


def _constants(fitted: FittedBEMKL) -> dict[str, np.ndarray]:
    """Return the constant data of the model."""
    estimator = fitted.estimator
    constants: dict[str, Any] = {}
    names: tuple[str, ...]
    if fitted.kernel_views is not None:
        constants["view"] = np.array(fitted.kernel_views)
    if fitted.is_classifier:
        if not estimator.is_multilabel_:
            constants["label"] = np.array([str(label) for label in fitted.target])
        names = ()
        if not fitted.is_marginal:
            settings = estimator._settings()
            for name in ("margin", "intermediate_scale"):
                constants[name] = np.asarray(getattr(settings, name))
    elif fitted.outcome == "grades":
        names = ("cut_points_",) if fitted.is_marginal else ("cut_points_", "intermediate_scale_")
        constants["label"] = np.array([str(label) for label in fitted.target])
    elif fitted.outcome == "times":
        names = ("log_time_mean_", "log_time_scale_")
        for name, values in zip(("upper", "entry"), estimator._in_units(estimator.target_[1:]), strict=True):
            constants[name] = values
    else:
        names = ("y_mean_", "y_scale_")
    own = {name.removesuffix("_"): np.asarray(getattr(estimator, name), dtype=float) for name in names}
    return constants | own


def _coords(fitted: FittedBEMKL, sample_names: Sequence[Any] | None) -> dict[str, Any]:
    n_samples = fitted.n_samples
    names = np.arange(n_samples) if sample_names is None else np.asarray(sample_names)
    if names.shape != (n_samples,):
        raise ValueError(
            f"`sample_names` must hold one name for each of the {n_samples} training samples; got shape "
            f"{names.shape}."
        )
    if names.dtype == object:
        names = names.astype(str)
    if len(np.unique(names)) < n_samples:
        raise ValueError("`sample_names` must be different; got some of them several times.")
    coords: dict[str, Any] = {"kernel": fitted.kernel_names, "obs_id": names}
    if fitted.has_landmarks:
        coords["landmark"] = np.arange(fitted.n_basis)
    design = fitted.estimator.design_ if fitted.is_marginal else None
    if design is not None:
        coords |= {
            "covariate": list(design.covariates),
            "term": list(design.term_names),
            "level": list(design.level_names),
        }
        if design.has_tasks:
            coords |= {"task": list(design.tasks), "other_task": list(design.tasks)}
    return coords if fitted.output_names is None else coords | {fitted.output_kind: fitted.output_names}


def _elbo(fitted: FittedBEMKL) -> np.ndarray:
    if fitted.class_names is None:
        return fitted.histories[0]
    padded = np.full((len(fitted.histories), max(map(len, fitted.histories))), np.nan)
    for row, history in zip(padded, fitted.histories, strict=True):
        row[: len(history)] = history
    return padded


def _attributes(fitted: FittedBEMKL) -> dict[str, Any]:
    from bayesmkl import __version__

    estimator = fitted.estimator
    attributes = {
        "model": type(estimator).__name__,
        "inference": fitted.inference,
        "inference_library": "bayesmkl",
        "inference_library_version": __version__,
        "outcome": "; ".join(fitted.endings),
    }
    if fitted.histories:
        attributes["elbo"] = estimator.elbo_
    if fitted.is_marginal:
        attributes |= {"log_evidence": estimator.log_evidence_, "pareto_k": estimator.pareto_k_}
    return attributes
