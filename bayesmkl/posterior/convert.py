"""Draws of a posterior as arrays, as ArviZ data (a DataTree), and on disk (NetCDF, which ArviZ and xarray read)."""

from __future__ import annotations

import os
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.files import as_path, written_beside
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_flag, check_integer, generator_of
from bayesmkl.bemkl.draws import PosteriorDraws, log_prior, log_prior_terms, log_variational
from bayesmkl.gp.effects import correlations
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl, public
from bayesmkl.posterior.loo import log_predictive_of_points

if TYPE_CHECKING:
    from xarray import Dataset, DataTree

TIE = 1e-3  # nats that tell draws of one point apart: ArviZ divides by zero where the largest weights are the same
N_PRIOR = 500  # draws from the prior at most: each is a function at all training samples
# Own dimensions of variables. Variables with chains and draws have those first; OUTPUT stands for "class", "label" or
# "output" where there are several. Where each of them has kernel weights of its own it is a dimension of everything,
# but of constants and replicated classes that were counted already.
OUTPUT = "(output)"
BASIS = "(basis)"  # stands for "obs_id", or for "landmark" where there are landmarks
DIMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("kernel_weights", "kernel_precision", "kernel_inclusion", "kernel_shares"), ("kernel",)),
    **dict.fromkeys(("dual_coef", "sample_precision"), (OUTPUT, BASIS)),
    **dict.fromkeys(("intercept", "intercept_precision", "intermediate_precision"), (OUTPUT,)),
    **dict.fromkeys(("noise_precision", "noise_std", "y_mean", "y_scale"), (OUTPUT,)),
    **dict.fromkeys(("score", "y"), (OUTPUT, "obs_id")),
    "covariate_effects": (OUTPUT, "covariate"),
    "group_std": ("term",),
    "group_effects": (OUTPUT, "level"),
    "task_std": ("task",),
    "task_correlation": ("task", "other_task"),
    "task_shares": ("task", "kernel"),
    "view": ("kernel",),
    **dict.fromkeys(("label", "upper", "entry"), ("obs_id",)),
    "cut_points": ("cut",),
    "elbo": ("iteration",),
}


@public
def sample_posterior(
    model: BaseEstimator, n_draws: int | None = None, random_state: int | np.random.Generator | None = None
) -> dict[str, np.ndarray]:
    """Draw parameters from the posterior of a fitted model.

    Parameters
    ----------
    %(model)s
    n_draws : int, default=None
        Number of draws. A model fitted by any inference but "vb" already has draws: its chains are joined, and
        `n_draws` of them are taken at even distances. None takes all of them, or 1000 draws from a variational
        posterior.
    %(random_state)s

    Returns
    -------
    dict of str to ndarray of shape (n_draws, ...)
        The draw is the first axis. With more than two classes, or several labels or targets, the output is the second
        axis: of all arrays if each output has its own kernel weights (one-versus-all), otherwise of all arrays except
        those of the kernels.

        * ``kernel_weights`` (n_draws, n_kernels) and ``intercept`` (n_draws,): e and b;
        * ``dual_coef`` (n_draws, n_train): a, the weights of the training samples, or of the landmarks;
        * ``kernel_precision`` (n_draws, n_kernels), ``intercept_precision`` (n_draws,) and ``sample_precision``
          (n_draws, n_train): the precisions ω, γ and λ of their priors; no ω under a "dirichlet" or "spike-slab"
          prior;
        * ``intermediate_precision`` and ``noise_precision`` (n_draws,): υ and ε, in regression only;
        * ``kernel_inclusion`` (n_draws, n_kernels): whether the kernel is used, 0 or 1, under a "spike-slab" prior
          only.

        An additive Gaussian process has ``kernel_weights``, ``kernel_shares`` (n_draws, n_kernels), ``score``
        (n_draws, n_samples) of the training samples and, in regression, ``noise_std`` (n_draws,), in units of the
        standardized target. With several outputs, the output is the second axis of ``score`` and ``noise_std``.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `n_draws` is not positive, or larger than the number of draws that a sampled model has.

    Notes
    -----
    The variational posterior is a product of factors: (b, e) are drawn jointly, but independently of a and of all
    precisions. It therefore lacks the correlations between a and e of the exact posterior. The signs of e and a can
    change together without changing the model; the draws come from one of the two mirror images. Weights that cannot
    be negative have no mirror image.

    Examples
    --------
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import sample_posterior
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> model = BEMKLRegressor(KernelBank(["rbf", "linear"])).fit(X, 2 * X[:, 0])
    >>> draws = sample_posterior(model, n_draws=500, random_state=0)
    >>> draws["kernel_weights"].shape, draws["dual_coef"].shape
    ((500, 2), (500, 12))
    """
    n_draws = None if n_draws is None else check_integer("n_draws", n_draws, low=1)
    fitted = fitted_bemkl(model)
    if fitted.is_marginal:
        return parameters_of_process(fitted, _kept(fitted.states[0].n_draws, n_draws))
    rng, n_taken = generator_of("random_state", random_state), None if fitted.is_drawn else n_draws
    flat = [draws.flat() for draws in fitted.draws(n_taken, rng)]
    kept = _kept(len(flat[0].intercept), n_draws)
    per_model = [named_draws(fitted, draws.map(lambda values: values[kept])) for draws in flat]
    if fitted.class_names is None:
        return per_model[0]
    return {name: np.stack([draws[name] for draws in per_model], axis=1) for name in per_model[0]}


@public
def to_datatree(
    model: BaseEstimator,
    n_draws: int | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    kernels: ArrayLike | None = None,
    pointwise: bool | None = None,
) -> DataTree:
    r"""Convert the posterior of a fitted model to a DataTree, for ArviZ and xarray.

    Parameters
    ----------
    %(model)s
    n_draws : int, default=None
        Number of draws in each chain. A variational posterior gives this many (None: 1000); existing chains give at
        most this many, at even distances (None: all).
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws from a variational posterior and of the replicated targets.
    %(kernels:kept)s
    pointwise : bool, default=None
        Whether to evaluate the draws at the training samples: shares, replicated targets and log likelihood. This
        multiplies every training kernel with every draw, and a bank evaluates every kernel once more. None does it
        unless kernels were precomputed and are not given.

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
          "marginal" only: draws of "vb" and "svi" cannot be reweighted to fewer samples, see the notes;
        * ``log_prior``: log densities of ``kernel_weights``, ``intercept``, ``dual_coef`` and, in regression,
          ``intermediate_precision`` and ``noise_precision``, each a sum over its entries (and outputs, where these
          share their kernel weights);
        * ``observed_data``: ``y``, the targets;
        * ``constant_data``: ``view`` of each kernel where a bank made the kernels; in classification ``label`` of
          each sample, unless it has several, ``margin`` and ``intermediate_scale``; in regression ``y_mean`` and
          ``y_scale``;
        * ``sample_stats``: statistics that a sampler records for each draw, such as ``diverging``. For "vb" draws:
          ``log_variational``, their log density under the variational posterior; ``lp``, their log joint density with
          the target as the model uses it (`pointwise`); and ``elbo`` over ``iteration``, without chain or draw, which
          shows how the fit progressed. One-versus-all models that ended early are padded with NaN.

        Attributes name the model, the inference, the version and why the fit ended.

        An additive Gaussian process has no ``log_prior`` or ``sample_stats``; ``posterior`` has
        ``kernel_weights``, ``kernel_shares``, the training ``score`` and the parameters of the likelihood by name,
        such as ``noise_std`` of the standardized target; with a `design` also ``covariate_effects`` of standardized
        covariates, ``group_std`` of every ``term`` (groups and random slopes) and ``group_effects`` of its levels, in
        the units that the likelihood uses, and with tasks ``task_std``, ``task_correlation`` and ``task_shares``.
        ``log_likelihood`` has no dimension of outputs: it is the log density of a sample given all others and the
        hyperparameters of a draw. ``prior`` has draws of weights and parameters. ``prior_predictive`` has targets for
        scores that were drawn from the prior (`pointwise`). For grades, ``y`` holds their numbers from 0, and
        ``constant_data`` holds ``cut_points``. For times, ``y`` is the lower end of the interval that is known to
        contain the time, and ``constant_data`` holds ``upper`` and ``entry``.

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

    Outputs that share their kernel weights have the same draws of them. ``kernel_weights``, ``kernel_precision`` and
    ``kernel_shares`` then have no dimension of outputs. With ``multiclass="one-versus-all"`` all variables have it.

    In classification ``y`` is 1 for the second of two classes and 0 for the first; with more than two classes it is
    1 for samples of ``class``, with several labels for samples that have the ``label``. Unlabeled samples of
    semi-supervised learning are -1. The log likelihood is :math:`\log P(y_i f_i > \nu)`, which for :math:`\nu > 0`
    does not sum to one over the labels, because a score within the margin belongs to no label. For an unlabeled
    sample it is :math:`\log P(|f_i| > \nu)`. Replicated labels are drawn given that the sample has a label.

    With ``multiclass="multinomial"`` the class with the largest score is observed. The log likelihood then has no
    dimension of classes, and every draw takes an integral per class and sample (one or two seconds per 100 draws of
    500 samples of ten classes).

    In regression the target is standardized before the fit, and parameters refer to the standardized target.
    ``y`` is in the original units everywhere, and the log likelihood is that of the original target.

    ``lp`` minus ``log_variational`` is the log importance ratio of a draw.

    ``arviz_stats.loo`` and ``compare`` accept trees of additive Gaussian processes, for which they reproduce
    `elpd_i_`, and of sampled BEMKL models, whose k-hats show how reliable the result is. Both need
    ``log_likelihood``. Trees of "vb" do not have it, because ArviZ would take draws from a variational posterior for
    reliable and rank models wrongly. :func:`compare_loo` compares models of every inference. Do not use
    ``arviz_stats.loo_pit`` with Gaussian processes: their ``posterior_predictive`` is drawn given the sample's own
    target too. :func:`diagnose` leaves the sample's own target out.

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
    coords = _coords(fitted)
    if fitted.is_marginal:
        fitted.refuse_kernels(kernels)
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


@own_settings
def save_posterior(
    model: BaseEstimator | DataTree,
    path: str | os.PathLike[str],
    n_draws: int | None = None,
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> None:
    """Write the posterior of a model to a NetCDF file, which ArviZ and xarray can read.

    Parameters
    ----------
    model : estimator or xarray.DataTree
        A fitted model, or the result of :func:`to_datatree`.
    path : path-like
        File to write. It appears, or replaces an older one, only when it is complete.
    n_draws : int, default=None
        Draws in each chain, as in :func:`to_datatree`. This and the following arguments are ignored if `model` is a
        DataTree.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws, as in :func:`to_datatree`.
    **options : object
        `kernels` and `pointwise` of :func:`to_datatree`.

    Raises
    ------
    TypeError
        If `model` is a multitask model, or neither a Bayesian model nor a DataTree, or if `path` is not a path.
    NotFittedError
        Before `fit`.
    ValueError
        If `path` cannot be a file, or :func:`to_datatree` raises it.
    OSError
        If the file cannot be written. An existing file stays unchanged.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import load_posterior, save_posterior
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> model = BEMKLRegressor(KernelBank(["linear"])).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_posterior(model, f"{folder}/posterior.nc", random_state=0, pointwise=False)
    ...     tree = load_posterior(f"{folder}/posterior.nc")
    >>> sorted(tree.children)
    ['constant_data', 'log_prior', 'observed_data', 'posterior', 'sample_stats']
    """
    from xarray import DataTree

    with written_beside(path) as beside:
        tree = model if isinstance(model, DataTree) else to_datatree(model, n_draws, random_state, **options)
        content = tree.to_netcdf(engine="h5netcdf")  # in memory: HDF5 crashes where the disk is full
        beside.write_bytes(content)


@own_settings
def load_posterior(path: str | os.PathLike[str]) -> DataTree:
    """Read a posterior that :func:`save_posterior` wrote into memory.

    Parameters
    ----------
    path : path-like
        The NetCDF file.

    Returns
    -------
    xarray.DataTree
        Its groups are those of :func:`to_datatree`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is not a path.
    ValueError
        If the file is not a complete NetCDF file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from arviz_base import from_dict
    >>> from bayesmkl.posterior import load_posterior, save_posterior
    >>> tree = from_dict({"posterior": {"kernel_weights": np.zeros((1, 10, 3))}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_posterior(tree, f"{folder}/posterior.nc")
    ...     again = load_posterior(f"{folder}/posterior.nc")
    >>> again["posterior"]["kernel_weights"].shape
    (1, 10, 3)
    """
    from xarray import open_datatree

    if not as_path("path", path).is_file():
        raise FileNotFoundError(f"`path` must be a NetCDF file; there is no file at {str(path)!r}.")
    try:
        with open_datatree(path, engine="h5netcdf") as lazy:
            return lazy.load()
    except MemoryError:
        raise
    except Exception as error:  # whatever HDF5 and its readers stumble over
        raise ValueError(
            f"`path` is not a readable NetCDF file: {str(path)!r} ({str(error)[:300]}). Write it again with "
            "`save_posterior`."
        ) from error


def drawn_of_process(
    fitted: FittedBEMKL, n_draws: int | None, rng: np.random.Generator, pointwise: bool
) -> dict[str, dict[str, np.ndarray]]:
    """Return all that has one chain and draws, by group and variable; several outputs are the third axis.

    Parameters
    ----------
    fitted : FittedBEMKL
    n_draws : int or None
        At most this many of the draws, at even distances.
    rng : numpy.random.Generator
        Of replicated targets and draws from the prior.
    pointwise : bool
        Whether to draw targets from the prior, which takes the training kernels.
    """
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    chosen = evenly(draws.n_draws, n_draws)
    point, score = draws.point[chosen], draws.score[chosen]
    parameters, n_outputs = draws.parameters[point], draws.score.shape[1]
    groups = {"posterior": parameters_of_process(fitted, chosen)}
    if not fitted.has_landmarks:
        groups["posterior_predictive"] = {"y": _outputs(fitted, estimator._replicate(score, parameters, rng))}
        groups["log_likelihood"] = {"y": _left_out(fitted, point)}
    n_prior = min(N_PRIOR, len(chosen))
    weights, own = estimator._draw_prior(n_prior, n_outputs, rng)
    groups["prior"] = {"kernel_weights": weights[:, : estimator.n_kernels_in_], **_parameters(fitted, own)}
    if pointwise and not fitted.has_landmarks:
        scores = estimator._draw_prior_scores(weights, n_outputs, rng)
        groups["prior_predictive"] = {"y": _outputs(fitted, estimator._replicate(scores, own, rng))}
    return {
        group: {name: values[None] for name, values in variables.items()}
        for group, variables in groups.items()
    }


def parameters_of_process(fitted: FittedBEMKL, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Return weights, shares, scores and parameters of some draws, by the names that users see.

    Parameters
    ----------
    fitted : FittedBEMKL
    chosen : ndarray of int
        Positions of the draws.
    """
    draws: HyperDraws = fitted.states[0]
    point = draws.point[chosen]
    return {
        "kernel_weights": draws.kernel_weights[point],
        "kernel_shares": draws.shares[chosen],
        **({} if fitted.has_landmarks else {"score": _outputs(fitted, draws.score[chosen])}),
        **_parameters(fitted, draws.parameters[point]),
        **_effects(fitted, chosen),
    }


def _left_out(fitted: FittedBEMKL, point: np.ndarray) -> np.ndarray:
    """Return log densities of samples, with all their outputs, by the others, (n_draws, n_samples).

    The posterior of the hyperparameters without a sample is the posterior divided by this density, up to a constant.
    Importance weights 1 / p are therefore right with it. They are not with the density given the sample's own score.
    """
    estimator, draws = fitted.estimator, fitted.states[0]
    targets = estimator._targets_of_outputs()
    of_points = log_predictive_of_points(fitted, draws.cavity_mean, draws.cavity_variance)
    found = np.array([estimator._log_predictive(targets, each, each.sum(axis=0)) for each in of_points])
    return found[point] + np.random.default_rng(0).normal(scale=TIE, size=(len(point), found.shape[1]))


def _effects(fitted: FittedBEMKL, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Return draws of the coefficients of covariates and groups, and of what relates tasks, by name."""
    design = fitted.estimator.design_
    if design is None:
        return {}
    draws: HyperDraws = fitted.states[0]
    found, n_covariates = {}, len(design.covariates)
    if design.covariates:
        found["covariate_effects"] = _outputs(fitted, draws.effects[chosen][..., :n_covariates])
    if design.groups:
        found["group_std"] = draws.group_std[draws.point[chosen]]
        found["group_effects"] = _outputs(fitted, draws.effects[chosen][..., n_covariates:])
    if design.has_tasks:
        n_tasks, values = len(design.tasks), draws.task_values[draws.point[chosen]]
        found["task_std"] = values[:, :n_tasks]
        found["task_correlation"] = correlations(values[:, n_tasks:], n_tasks)
        found["task_shares"] = draws.task_shares[chosen]
    return found


def _parameters(fitted: FittedBEMKL, parameters: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters of the likelihood, (n_draws, n_outputs, n_parameters), by name."""
    names = fitted.estimator.likelihood_.names
    return {name: _outputs(fitted, parameters[..., k]) for k, name in enumerate(names)}


def _outputs(fitted: FittedBEMKL, values: np.ndarray) -> np.ndarray:
    """Drop the axis of outputs, the second, where there is one output."""
    return values[:, 0] if fitted.output_names is None else values


def _kept(n_total: int, n_draws: int | None) -> np.ndarray:
    """Return positions of the draws that are asked for; raise if these are more than there are."""
    if n_draws is not None and n_draws > n_total:
        raise ValueError(
            f"`n_draws` must be at most {n_total}, the number of draws in all chains; got {n_draws}. "
            "None takes all of them; fit with a larger `n_draws` for more."
        )
    return evenly(n_total, n_draws)


def named_draws(fitted: FittedBEMKL, draws: PosteriorDraws) -> dict[str, np.ndarray]:
    """Return the arrays of one model's `draws` that are there, by the names that users see."""
    if fitted.output_names is None:
        (draws,) = draws.outputs()
    names = {"dual": "dual_coef"}
    return {names.get(name, name): values for name, values in draws._asdict().items() if values is not None}


def _dataset(
    fitted: FittedBEMKL, group: str, variables: dict[str, Any], coords: dict[str, Any], **options: Any
) -> Dataset:
    """Name dimensions and coordinates of one group, by ArviZ."""
    from arviz_base import from_dict

    own = {} if group == "log_prior" else DIMS  # which has sums over the entries of a variable
    if group == "constant_data" and fitted.has_tasks:
        own = own | {"y_mean": ("task",), "y_scale": ("task",)}
    by_output = fitted.estimator.likelihood_.names if fitted.is_marginal else ()
    own = dict.fromkeys(by_output, (OUTPUT,)) | own
    dims = {name: _dims(fitted, group, own.get(name, ())) for name in variables}
    if group == "log_likelihood" and (fitted.is_multinomial or fitted.is_marginal):
        dims = {name: ["obs_id"] for name in variables}
    return from_dict({group: variables}, coords=coords, dims=dims, **options)[group].to_dataset()


def _dims(fitted: FittedBEMKL, group: str, own: tuple[str, ...]) -> list[str]:
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


def _coords(fitted: FittedBEMKL) -> dict[str, Any]:
    coords: dict[str, Any] = {"kernel": fitted.kernel_names, "obs_id": np.arange(fitted.n_samples)}
    if fitted.has_landmarks:
        coords["landmark"] = np.arange(fitted.n_basis)
    design = fitted.design
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
    """Return the history of the only model, or those of all, the shorter ones with NaN at their ends."""
    if fitted.class_names is None:
        return fitted.histories[0]
    return np.array(list(zip_longest(*fitted.histories, fillvalue=np.nan))).T


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
