"""Parts of the scores of samples, by kernels and views, and average slopes of these parts along features."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import (
    check_choice,
    check_flag,
    check_integer,
    check_probability,
    generator_of,
)
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.reading import draw_new_parts, mean_duals, mean_new_parts
from bayesmkl.discriminative.estimators.base import BaseDiscriminative
from bayesmkl.gp import parts as of_processes
from bayesmkl.gp.design import FittedDesign
from bayesmkl.gp.effects import DesignRows
from bayesmkl.gp.parts import KernelSlopes, LearnedSlopes, draw_slopes, mean_slopes
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.gp.unknown_points import CompletedKernels
from bayesmkl.kernels.presence import present_views, refuse_absent
from bayesmkl.kernels.sparse import is_sparse
from bayesmkl.kernels.stacks.learned import points_of
from bayesmkl.kernels.views import column_names
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl, groups_of, passed, public, unwrapped
from bayesmkl.posterior.tables import row_labels, table_of_draws

if TYPE_CHECKING:
    from xarray import Dataset

BLOCK_ENTRIES = 2**23  # of the draws that are held at once


@public
def contributions(
    model: BaseEstimator,
    X: Samples,
    by: str | None = None,
    *,
    ci_prob: float = 0.94,
    n_draws: int = 1000,
    draws: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> Dataset:
    r"""Split the score of every sample into what each view or kernel adds, with intervals.

    The score is the sum of one function per kernel, an intercept, and the effects of a `Design`. Each of these is a
    part. The parts of a sample sum to its score, in the mean and in every draw.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier, BEMKLRegressor or estimator of `bayesmkl.gp`, with any inference; a discriminative
        method whose score is a weighted sum of kernels; or a Pipeline or search that ends in one.
    X : samples
        Samples, as for `predict` of the model. If the model integrates over missing views, these are NaN.
    by : {"view", "kernel"}, default=None
        Whether each view or each kernel is a part. None is "view" if the model has a KernelBank.
    %(ci_prob)s
    n_draws : int, default=1000
        Number of draws to compute intervals from; at most as many as the model has.
    draws : bool, default=False
        Whether to also return the draws.
    %(random_state)s

    Returns
    -------
    xarray.Dataset
        The dimension ``sample`` has the index of a DataFrame. The dimension ``part`` has the views or kernels, then
        "intercept", the covariates, groups and slopes of a `Design`, and "offset"; the coordinate ``kind`` has the
        kind of each part. With several outputs, the last dimension is ``class``, ``label`` or ``output``. Variables
        are

        * ``mean``, ``std``: posterior mean and standard deviation of each part;
        * ``interval``: ends of its equal-tailed interval, along ``quantile``;
        * ``score``, ``score_std``, ``score_interval``: the same for the sum of all parts;
        * ``draws``, with ``draws=True``: joint draws of the parts of a sample, along ``draw``.

        Discriminative methods only have ``mean`` and ``score``, which are point estimates.

        The attribute ``score`` names the method of the model that returns ``score``. It is ``predict`` for numbers
        in regression, in units of the target. It is ``predict_latent`` for all other Bayesian models: the score of a
        probit has unit noise, and the score of counts is a log rate or log odds. It is ``decision_function`` or
        ``predict`` for discriminative methods. Log odds of classes are not a sum of parts.

    Raises
    ------
    TypeError
        For any other model: multitask models, BEMKL of grades and times, localized methods and products of kernels.
    NotFittedError
        Before `fit`.
    ValueError
        If `by` is "view" for precomputed kernels without views, `n_draws` or `ci_prob` is out of range, or the model
        cannot predict `X`.

    Notes
    -----
    The level of a part is a convention. A constant can move between the intercept and a kernel that is not centered;
    both have wide intervals if the data cannot tell them apart. With ``KernelBank(..., normalize="center")`` parts
    are differences from the mean training sample.

    The parts of an additive Gaussian process are jointly normal given the hyperparameters. They are drawn at every
    draw of these, one sample at a time, so a draw is not a function over samples. The parts of BEMKL are
    :math:`e_m g_m` with the noise of the intermediate output. If a sample lacks a view, the part of the view has its
    distribution given the other views of the sample.

    See Also
    --------
    plot_contributions, plot_waterfall, plot_component : Plots of the result.
    kernel_table : Shares of kernels over all training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import contributions
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1}, normalize="center")
    >>> model = GPMKLRegressor(bank).fit(X, np.sin(2 * X[:, 0]))
    >>> found = contributions(model, X[:3], random_state=0)
    >>> found["part"].values.tolist()
    ['signal', 'noise', 'views together', 'intercept']
    >>> np.allclose(found["mean"].sum("part"), model.predict(X[:3]))
    True
    """
    from xarray import concat

    ci_prob, n_draws = check_probability("ci_prob", ci_prob), check_integer("n_draws", n_draws, low=2)
    with_draws, rng = check_flag("draws", draws), generator_of("random_state", random_state)
    if by is not None:
        check_choice("by", by, ("view", "kernel"))
    ends = np.array([0.5 * (1.0 - ci_prob), 0.5 * (1.0 + ci_prob)])
    found = unwrapped(model, (BaseDiscriminative,))
    if found is not None:
        estimator, transformers = found
        _check_is_sum(estimator)
        rows = passed(transformers, X)
        bank = estimator.kernel_bank_
        views = None if bank is None else list(bank.kernel_views_)
        named = _names([str(name) for name in estimator.kernel_names_], views, by, None)
        outputs = None
        if np.ndim(estimator.intercept_):
            labels = getattr(estimator, "classes_", range(len(estimator.intercept_)))
            kind = "class" if hasattr(estimator, "classes_") else "output"
            outputs = kind, [str(label) for label in labels]
        method = "decision_function" if hasattr(estimator, "decision_function") else "predict"
        blocks: Iterator[ScoreParts] = iter([parts_of_discriminative(estimator, rows, named)])
        about: dict[str, Any] = {"inference": "point estimate"}
    else:
        fitted = fitted_bemkl(model, of_outcome=False)
        rows = fitted.transform(X)
        named = _names(fitted.kernel_names, fitted.kernel_views, by, fitted.design)
        outputs = None if fitted.output_names is None else (fitted.output_kind, fitted.output_names)
        method = "predict" if fitted.outcome == "numbers" else "predict_latent"
        parts_of = parts_of_process if fitted.is_marginal else parts_of_bemkl
        blocks = parts_of(fitted, rows, named, n_draws, rng)
        about = {"inference": fitted.inference, "ci_prob": ci_prob}
    result = concat([_summarized(block, ends, with_draws) for block in blocks], dim="sample")
    result = result.transpose("quantile", "draw", "sample", "part", "output", missing_dims="ignore")
    coords = {"sample": row_labels(result.sizes["sample"], X, rows), "part": named.names}
    coords["kind"] = "part", named.kinds
    if outputs is None:
        result = result.isel(output=0)
    else:
        result, coords[outputs[0]] = result.rename(output=outputs[0]), outputs[1]
    if "interval" in result:
        coords["quantile"] = ends
    return result.assign_coords(coords).assign_attrs(score=method, **about)


class PartNames(NamedTuple):
    """Names of parts, what each is, and the kernels of the first of them, (n_groups, n_kernels) of bool."""

    names: list[str]
    kinds: list[str]
    groups: np.ndarray


class ScoreParts(NamedTuple):
    """Parts of the scores of some rows, in units of the user.

    Attributes
    ----------
    mean : ndarray of shape (n_outputs, n_parts, n_rows)
    draws : ndarray of shape (n_draws, n_outputs, n_parts, n_rows), or None
    """

    mean: np.ndarray
    draws: np.ndarray | None = None


def parts_of_process(
    fitted: FittedBEMKL, X: Any, named: PartNames, n_draws: int, rng: np.random.Generator
) -> Iterator[ScoreParts]:
    """Yield the parts of the scores of blocks of rows, of an additive Gaussian process.

    Parameters
    ----------
    fitted : FittedBEMKL
    X : samples
        As the estimator takes them.
    named : PartNames
        Kernels, the intercept, covariates and terms of the design, and the offset, where there is one.
    n_draws : int
        At most this many of the draws, at even distances.
    rng : numpy.random.Generator
    """
    estimator = fitted.estimator
    X = estimator._validate_rows(X)
    draws: HyperDraws = fitted.states[0]
    chosen = evenly(draws.n_draws, n_draws)
    covariance, blocks = estimator._covariance_and_rows(X)
    location, scale = _units(estimator, X)
    offsets = np.broadcast_to(estimator._offsets(X), location.shape)
    columns = [] if covariance.effects is None else covariance.effects.columns
    n_outputs, first = draws.parameters.shape[1], 0
    size = max(1, BLOCK_ENTRIES // (len(chosen) * n_outputs * len(named.names)))
    with blas_threads_for(covariance.stack.n_train):
        for kernels, diagonal, design_rows in blocks:
            for begin in range(0, kernels.n_rows, size):
                few = np.arange(begin, min(begin + size, kernels.n_rows))
                rows, of_design = kernels.rows(few), _rows_of(design_rows, few)
                about = rows, diagonal[:, few], named.groups
                drawn = of_processes.draw_new_parts(covariance, draws, chosen, *about, rng, of_design)
                if covariance.stack.learned:
                    mean = of_processes.mean_parts(covariance, draws, *about, of_design)
                else:
                    mean = _process_means(estimator, rows, of_design, named.groups, columns)
                units = [values[:, first + few] for values in (location, scale, offsets)]
                yield ScoreParts(*(_in_units(parts, named, *units) for parts in (mean, drawn)))
            first += kernels.n_rows


def _process_means(
    estimator: Any, rows: Any, design_rows: DesignRows | None, groups: np.ndarray, columns: list[np.ndarray]
) -> np.ndarray:
    """Return posterior means of the parts in the units of the score, (n_outputs, n_parts, n_rows)."""
    task = None if design_rows is None else design_rows.task
    duals = estimator.dual_coef_ if estimator._has_outputs or task is not None else estimator.dual_coef_[None]
    if estimator.pseudo_samples_ is not None:
        duals = estimator.pseudo_samples_.dual
    of_kernels = np.stack([rows.apply(dual[..., None]) for dual in duals])
    if task is not None:
        of_kernels = of_kernels[task, :, np.arange(rows.n_rows)].T[None]
    intercept = np.atleast_1d(estimator.intercept_)[:, None, None]
    found = [groups @ of_kernels, np.broadcast_to(intercept, (len(intercept), 1, rows.n_rows))]
    if columns and design_rows is not None:
        coefficients, basis = np.atleast_2d(estimator.effects_), design_rows.basis
        found.append(np.stack([coefficients[:, own] @ basis[:, own].T for own in columns], axis=1))
    return np.concatenate(found, axis=1)


def _in_units(
    parts: np.ndarray, named: PartNames, location: np.ndarray, scale: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Return parts, (..., n_outputs, n_parts, n_rows), in units of the user, with the offset as the last."""
    found = parts * scale[:, None]
    found[..., named.kinds.index("intercept"), :] += location
    if "offset" not in named.kinds:
        return found
    last = np.broadcast_to((offsets * scale)[:, None], (*found.shape[:-2], 1, found.shape[-1]))
    return np.concatenate([found, last], axis=-2)


def _units(estimator: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return location and scale of the scores of validated rows, (n_outputs, n_rows), or (1, n_rows)."""
    if estimator._OUTCOME != "numbers":
        return np.zeros((1, len(X))), np.ones((1, len(X)))
    location, scale = estimator._units(estimator._task(X))
    shape = len(location), len(X)
    return np.broadcast_to(location, shape), np.broadcast_to(scale, shape)


def _rows_of(design_rows: DesignRows | None, few: np.ndarray) -> DesignRows | None:
    if design_rows is None:
        return None
    task = design_rows.task
    return DesignRows(design_rows.basis[few], design_rows.unseen[few], None if task is None else task[few])


def parts_of_bemkl(
    fitted: FittedBEMKL, X: Any, named: PartNames, n_draws: int, rng: np.random.Generator
) -> Iterator[ScoreParts]:
    """Yield the parts of the scores of blocks of rows, of BEMKL.

    Parameters as in `parts_of_process`; `n_draws` is of all chains together.
    """
    estimator, stack = fitted.estimator, fitted.estimator._row_stack(X)
    n_chains = fitted.states[0].n_chains if fitted.is_drawn else 1
    draws = [own.flat() for own in fitted.draws(-(-n_draws // n_chains), rng)]
    variance = estimator.intermediate_scale_**2 if fitted.is_classifier else None
    units = [fitted.units(k) for k in range(len(fitted.output_names or [""]))]
    location, scale = (np.array(values)[:, None] for values in zip(*units, strict=True))
    n_entries = len(draws[0].kernel_weights) * (estimator.n_kernels_in_ + 1) * len(units)
    size = max(1, BLOCK_ENTRIES // n_entries)
    nothing = np.zeros((1, 1))
    for first in range(0, stack.n_rows, size):
        rows = stack.rows(np.arange(first, min(first + size, stack.n_rows)))
        means, drawn = [], []
        for posterior, own in zip(fitted.states, draws, strict=True):
            means.append(mean_new_parts(rows, posterior))
            source = None if fitted.is_drawn else posterior
            drawn.append(draw_new_parts(rows, own, variance, rng, source))
        both = (_grouped(np.concatenate(parts, axis=-3), named.groups) for parts in (means, drawn))
        yield ScoreParts(*(_in_units(parts, named, location, scale, nothing) for parts in both))


def parts_of_discriminative(estimator: BaseDiscriminative, X: Any, named: PartNames) -> ScoreParts:
    """Return the parts of the scores of rows, of a discriminative method; they are estimates without draws."""
    of_kernels = estimator._scores_of_each(X)
    intercept = np.atleast_1d(estimator.intercept_)[:, None, None]
    last = np.broadcast_to(intercept, (len(of_kernels), 1, of_kernels.shape[-1]))
    return ScoreParts(_grouped(np.concatenate([of_kernels, last], axis=1), named.groups))


def _grouped(parts: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Add the parts of kernels of a group; the intercept, the last, stays."""
    return np.concatenate([groups @ parts[..., :-1, :], parts[..., -1:, :]], axis=-2)


def _check_is_sum(estimator: Any) -> None:
    """Raise for a discriminative method whose score is no sum over kernels."""
    check_is_fitted(estimator, "kernel_weights_")
    if getattr(estimator, "combination", "sum") == "product":
        raise TypeError(
            '`model` must not have combination="product": its score is not a sum over kernels; got '
            f'{estimator!r}. Fit it with combination="sum".'
        )


def _names(
    kernels: list[str], views: list[str] | None, by: str | None, design: FittedDesign | None
) -> PartNames:
    """Name the parts: kernels or views, the intercept, and what a design adds."""
    members = groups_of(kernels, views, by)
    kind = "view" if members is views else "kernel"
    names = list(dict.fromkeys(members)) if kind == "view" else kernels
    groups = np.eye(len(kernels), dtype=bool)
    if kind == "view":
        groups = np.array([[own == name for own in members] for name in names])
    more = [("intercept", "intercept")]
    if design is not None:
        more += [(name, "covariate") for name in design.covariates]
        more += [
            (name, "group" if c is None else "slope")
            for name, (_, c) in zip(design.term_names, design.terms, strict=True)
        ]
        more += [("offset", "offset")] if design.offset_column is not None else []
    labels = [f"{name} ({what})" if name in names else name for name, what in more]
    return PartNames([*names, *labels], [kind] * len(names) + [what for _, what in more], groups)


def _summarized(parts: ScoreParts, ends: np.ndarray, with_draws: bool) -> Dataset:
    """Say what is known of the parts of a block of rows and of their sums, the scores."""
    from xarray import Dataset

    mean, drawn = parts
    of_parts, of_scores = ("output", "part", "sample"), ("output", "sample")
    found: dict[str, Any] = {"mean": (of_parts, mean), "score": (of_scores, mean.sum(axis=-2))}
    if drawn is not None:
        for name, dims, own in (("", of_parts, drawn), ("score_", of_scores, drawn.sum(axis=-2))):
            found[f"{name}std"] = dims, own.std(axis=0, ddof=1)
            found[f"{name}interval"] = ("quantile", *dims), np.quantile(own, ends, axis=0)
        if with_draws:
            found["draws"] = ("draw", *of_parts), drawn
    return Dataset(found)


QUICK_DRAWS = 200  # of a table in passing
MOST_ENTRIES = 3e7  # slopes of pairs of samples, of every kernel by every feature: a few seconds


@public
def feature_table(
    model: BaseEstimator,
    X: Samples | None = None,
    ci_prob: float = 0.94,
    *,
    per: str = "std",
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    r"""List the features along which the score rises or falls, by average slopes with intervals.

    Slopes are those of single views. Interactions of views are left out.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier, BEMKLRegressor or estimator of `bayesmkl.gp`, with any inference, fitted to a KernelBank
        of Gaussian, linear and polynomial kernels; or a Pipeline or search that ends in one.
    X : samples, default=None
        Samples to average slopes over, as for `predict` of the model. None: the training samples, weighted by their
        `sample_weight`.
    %(ci_prob)s
    per : {"std", "unit"}, default="std"
        Whether slopes are per standard deviation of the feature over these samples, or per unit of the feature after
        the steps of a Pipeline.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    pandas.DataFrame
        One row per view and feature, the largest ``size`` first; several outputs follow each other. The columns are

        * ``class``, ``label`` or ``output``: only where there are several;
        * ``view``, ``feature``: names;
        * ``size``: root mean square over the samples of the posterior mean slope, for one standard deviation of the
          feature. It is also large if the score both rises and falls along the feature. It has no interval;
        * ``relevance``, ``relevance_lower``, ``relevance_upper``: only where kernels have a width for every feature,
          ``Gaussian(width="each")``: the share of these kernels in the variance of the score, split between features
          in proportion to inverse squared widths, with an interval; NaN for features without such a kernel;
        * ``mean``, ``std``, ``lower``, ``upper``: posterior of the slope averaged over the samples; for a linear
          kernel it is the weight of the feature;
        * ``prob_positive``: posterior probability that this average is positive;
        * ``mean_mcse``, ``lower_mcse``, ``upper_mcse``: Monte Carlo standard errors, as in :func:`kernel_table`;
        * ``interval_by``: the inference that made the intervals.

        Slopes refer to the score, in the units of :func:`effect_table`. Categories have no slopes and no rows;
        ``table.attrs["caption"]`` names them.

    Raises
    ------
    TypeError
        For any other model, and for one that was fitted to sparse samples.
    NotFittedError
        Before `fit`.
    ValueError
        If the model was fitted to precomputed kernels, to kernels without slopes, to categories alone, or with tasks,
        or is a BEMKL model with missing views; if the model cannot predict `X` or all of `X` lacks a view; or if
        `ci_prob` or `per` is out of range.

    See Also
    --------
    plot_features : The table as a plot.
    contributions : What views add for every sample.
    relevance : Which views predictions need.

    Notes
    -----
    A slope belongs to the part of the view, without "views together", and holds all other features and views fixed.
    If features are correlated, so are their slopes, and one feature can stand for another. The prior of a kernel on
    many features treats them alike, so only the slopes show which features matter. Averages are linear in the
    functions and exact given hyperparameters; nothing is refitted. If samples lack a view, slopes are averaged over
    the samples that have it.

    For a kernel with a :class:`~bayesmkl.kernels.Gate`, slopes are with respect to the features of its view, at the
    gate columns of each sample. Gate columns have no slopes themselves; a gate column that is also in the view raises
    an error. Time grows with the square of the number of samples, and in proportion to the number of features.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams (2006), Gaussian processes for machine learning, §9.4.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import feature_table
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> bank = KernelBank(["rbf"], views={"genes": [0, 1], "noise": 2})
    >>> model = GPMKLRegressor(bank).fit(X, 2 * X[:, 0] + np.sin(3 * X[:, 1]))
    >>> table = feature_table(model, random_state=0)
    >>> table["feature"].tolist()
    ['x0', 'x1', 'x2']
    >>> bool(table["lower"][0] > 1), table["prob_positive"][0]
    (True, np.float64(1.0))
    """
    ci_prob, rng = check_probability("ci_prob", ci_prob), generator_of("random_state", random_state)
    check_choice("per", per, ("std", "unit"))
    return _table_of(fitted_bemkl(model, of_outcome=False), X, ci_prob, per, rng, None)


def _table_of(
    fitted: FittedBEMKL,
    X: Samples | None,
    ci_prob: float,
    per: str,
    rng: np.random.Generator,
    n_draws: int | None,
) -> pd.DataFrame:
    """Return the table, of additive Gaussian processes from `n_draws` of their draws; None: from all."""
    estimator, bank = fitted.estimator, _bank_of(fitted)
    rows, parts = _rows(fitted, X)
    present = present_views(rows, bank.views_)
    refuse_absent("`X`", present, bank.views_, "Leave `X` out for the training samples.")
    # values of the features of a view, and the parts of these rows in averages over those that have it
    numbers = bank.numbers_of_views()
    there = [
        (rows[own][:, columns], parts[own] / parts[own].sum())
        for columns, own in zip(numbers, present, strict=True)
    ]
    lacks_views = getattr(estimator, "kernel_centers_", None) is not None
    completed = estimator._completed_training() if lacks_views else None
    relevance = np.empty((0, 0))
    if fitted.is_marginal:
        duals = estimator.dual_coef_ if estimator.dual_coef_.ndim == 3 else estimator.dual_coef_[None]
        views = _of_views(fitted, completed, rows, [q for _, q in there], duals)
        draws: Any = fitted.states[0]
        relevance = _relevance(draws, views)
        drawn = draws._replace(point=draws.point[evenly(draws.n_draws, n_draws)])
        with blas_threads_for(fitted.n_samples):
            training = estimator._stored_training() if completed is None else completed.training
            averages = [view.averages for view in views]
            values = draw_slopes(estimator._covariance(training), drawn, averages, rng)
        units = estimator._score_units()
    else:
        draws = [own.flat() for own in fitted.draws(None, rng)]
        duals = np.concatenate([mean_duals(own) for own in draws])
        views = _of_views(fitted, completed, rows, [q for _, q in there], duals)
        values = _drawn_of_bemkl(draws, views)
        units = np.array([fitted.units(k)[1] for k in range(values.shape[1])])
    stds = np.concatenate([np.sqrt(q @ (own - q @ own) ** 2) for own, q in there])
    sizes = np.concatenate([view.size for view in views], axis=1) * stds * units[:, None]
    values = values * units[:, None] * (stds if per == "std" else 1.0)
    names = column_names(bank.n_features_in_, bank.column_labels_)
    of_views = list(zip(bank.views_, numbers, strict=True))
    features = [(view.name, names[j]) for view, columns in of_views for j in columns]
    others = dict.fromkeys(names[j] for view, own in of_views for j in np.setdiff1d(view.columns, own))
    named = [
        {**fitted.about_output(k), "view": view, "feature": feature}
        for k in range(len(sizes))
        for view, feature in features
    ]
    about = pd.DataFrame(named).assign(size=sizes.ravel())
    if len(relevance):
        ends = [0.5 * (1.0 - ci_prob), 0.5 * (1.0 + ci_prob)]
        found = [relevance.mean(axis=0), *np.quantile(relevance, ends, axis=0)]
        for end, own in zip(("", "_lower", "_upper"), found, strict=True):
            about[f"relevance{end}"] = np.tile(own, len(sizes))
    order = np.concatenate([k * len(stds) + np.argsort(-own, kind="stable") for k, own in enumerate(sizes)])
    in_order, about = values.reshape(len(values), -1)[:, order], about.iloc[order].reset_index(drop=True)
    table = table_of_draws(fitted, about, in_order, ci_prob, np.ones(len(order), dtype=bool))
    said = f"Categories have no slopes: {', '.join(others)}. Compare them with `contrast`." if others else ""
    table.attrs.update(per=per, ci_prob=ci_prob, caption=said)
    return table


def quick_feature_table(
    model: BaseEstimator, ci_prob: float, rng: np.random.Generator
) -> pd.DataFrame | None:
    """Return the table over training samples from few draws; None where there are no slopes, or they take long."""
    try:
        fitted = fitted_bemkl(model, of_outcome=False)
        bank = _bank_of(fitted)
        rows, _ = _rows(fitted, None)
        n_slopes = sum(len(view.columns) for view, _ in bank.slopes(rows[:1]))
    except (TypeError, ValueError):  # which say why there are none
        return None
    if n_slopes * float(len(rows)) ** 2 > MOST_ENTRIES:
        return None
    return _table_of(fitted, None, ci_prob, "std", rng, QUICK_DRAWS)


def _bank_of(fitted: FittedBEMKL) -> Any:
    """Return the bank of a model whose score has slopes."""
    estimator = fitted.estimator
    bank = estimator.kernel_bank_
    if bank is None:
        raise ValueError(
            "`model` was fitted to precomputed kernels, which have no features. Fit it to a KernelBank."
        )
    if fitted.has_tasks:
        raise ValueError("`model` must have no tasks. Fit one model for each task.")
    if is_sparse(bank.X_train_):
        raise TypeError("`model` was fitted to a sparse `X`, and slopes need a dense one. Fit `X.toarray()`.")
    if estimator.present_ is not None and not fitted.is_marginal:
        raise ValueError(
            f"`model` must have no missing views; got {type(estimator).__name__}. Fit it to samples that have all "
            "views, or an estimator of bayesmkl.gp to all of them."
        )
    return bank


def _rows(fitted: FittedBEMKL, X: Samples | None) -> tuple[np.ndarray, np.ndarray]:
    """Return validated samples and the part of each in averages, (n_rows,)."""
    estimator = fitted.estimator
    if X is not None:
        rows = estimator._validate_rows(fitted.transform(X))
        return rows, np.full(len(rows), 1.0 / len(rows))
    rows, counts = estimator.kernel_bank_.X_train_, getattr(estimator, "sample_weight_", None)
    if len(rows) != fitted.n_samples:
        raise ValueError(
            "`X` is missing: the model was fitted in blocks and does not keep its training samples. Pass `X`."
        )
    return rows, np.full(len(rows), 1.0 / len(rows)) if counts is None else counts / counts.sum()


class _View(NamedTuple):
    """Average slopes of the kernels of a view, and the root mean squares of its mean slopes.

    Of a kernel whose widths are inferred they are `LearnedSlopes` instead of `KernelSlopes`.

    These are for one unit of each feature, (n_outputs, n_features).
    """

    averages: list[Any]
    size: np.ndarray


def _of_views(
    fitted: FittedBEMKL,
    completed: CompletedKernels | None,
    rows: np.ndarray,
    parts: list[np.ndarray],
    duals: np.ndarray,
) -> list[_View]:
    """Return the slopes of all views.

    `completed` are the training kernels where samples may lack views, `parts` those of rows that have each view,
    `duals` mean weights, (n_outputs, n_kernels, n_basis).
    """
    found: list[_View] = []
    estimator = fitted.estimator
    n_widths = 0
    by_view = groupby(enumerate(estimator.kernel_bank_.slopes(rows)), key=lambda pair: pair[1][0].name)
    for (_, of_view), q in zip(by_view, parts, strict=True):
        averages: list[Any] = []
        slopes: Any = 0.0
        for m, (_, own) in of_view:  # one kernel at a time: each has several matrices of rows
            if own is None:
                points = points_of(estimator.kernel_bank_, m, rows)
                averages.append(LearnedSlopes(points, slice(n_widths, n_widths + points.n_values), q))
                n_widths += points.n_values
                covariance, _ = estimator._training_covariance()
                slopes = slopes + mean_slopes(covariance, fitted.states[0], averages[-1])
                continue
            cross, dual = own.over_rows(q).T, duals[:, m]
            if completed is not None:
                centers = estimator.kernel_centers_
                cross, dual = completed.slopes(m, centers, cross), completed.duals(m, centers, dual)
            if fitted.is_marginal and estimator.pseudo_samples_ is not None:
                cross = estimator.pseudo_samples_.from_landmarks(m, cross)
            averages.append(KernelSlopes(cross, own.variance(q)))
            slopes = slopes + np.stack([own.over_train(one) for one in dual])
        found.append(_View(averages, np.sqrt(np.einsum("r,krj->kj", q, slopes**2))))
    return found


def _relevance(draws: HyperDraws, views: list[_View]) -> np.ndarray:
    """Return shares of kernels with a width for every feature, split between these, (n_draws, n_features).

    They are in proportion to inverse squared widths, in standard deviations of features. Features of views without
    such a kernel have NaN; if all are so, there are no draws.
    """
    found = []
    for view in views:
        own: Any = np.full((draws.n_draws, view.size.shape[1]), np.nan)
        learned = [one for one in view.averages if isinstance(one, LearnedSlopes) and one.points.each]
        for one in learned:
            seen = np.isfinite(one.points.medians)
            rates = np.exp(-2.0 * draws.log_widths[draws.point, one.values])
            own = np.where(np.isnan(own), 0.0, own)
            own[:, seen] += draws.shares[:, [one.points.kernel]] * rates / rates.sum(axis=1, keepdims=True)
        found.append(own)
    whole = np.concatenate(found, axis=1)
    return whole[: 0 if np.isnan(whole).all() else None]


def _drawn_of_bemkl(draws: list[PosteriorDraws], views: list[_View]) -> np.ndarray:
    """Return the same of BEMKL: of the mean of its intermediate outputs, without their noise."""
    found = []
    for own in (output for each in draws for output in each.outputs()):
        weights = iter(own.kernel_weights.T[..., None])
        of_views = (view.averages for view in views)
        slopes = [sum(next(weights) * (own.dual @ one.cross.T) for one in kernels) for kernels in of_views]
        found.append(np.concatenate(slopes, axis=1))
    return np.stack(found, axis=1)
