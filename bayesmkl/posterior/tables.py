r"""Tables of the posterior: kernels, views, effects beside them, and tasks.

Their intervals are quantiles of draws, their Monte Carlo standard errors those of means and quantiles. Draws of an
additive Gaussian process that have hyperparameters in common are not independent: they count as many as there are
points, each with its probability :math:`p_j`. With the deviations :math:`r_j` of the means of each point, the squared
error of a mean is

.. math:: \sum_j p_j^2 r_j^2 .

Points of importance sampling are quasi-random, and what is linear in the logarithms of the hyperparameters comes out
nearly the same whatever the seed: :math:`r_j` are the residuals of a regression on them (control variates).
Points of chains say less than as many independent ones, by the ratio of their effective number. The error of a
quantile is that of the probability below it, divided by the density there (Woodruff 1952).

Draws in Markov chains count as many as their effective sample size says, of the quantity itself or of being below a
quantile; these errors are ArviZ's.

References: R. S. Woodruff (1952), Confidence intervals for medians and other position measures, Journal of the
American Statistical Association 47; A. B. Owen (2013), Monte Carlo theory, methods and examples, chapters 8 and 9.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp
from scipy.stats import beta, norm
from sklearn.base import BaseEstimator

from bayesmkl._numerics.quadrant import quadrant_quantiles
from bayesmkl._utils.validation import check_flag, check_probability
from bayesmkl.bemkl.nonnegative import CutOffNormals, CutOffPair, NonnegativeReadout
from bayesmkl.gp.design import FittedDesign
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.kernels.views import ALL_VIEWS, NOISE
from bayesmkl.outcomes import PiecewiseHazard
from bayesmkl.posterior.explained import Explained, explained_draws, unit_of
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl, public

NEAR_ZERO = 0.01  # of its mean, below which a weight is zero as far as shares go
POINTS_PER_COLUMN = 3  # of a regression
PART_OF_TAIL = 0.5  # of a probability to either side of a quantile over which the density there is measured
INTERVALS = {
    "vb": "of the variational posterior: too narrow, about half as wide as those of the exact posterior or less",
    "nuts": "of the posterior, by NUTS",
    "gibbs": "of the posterior, by Gibbs sampling",
    "marginal": "of the posterior, function values integrated out",
}
BETA = "Beta distributions with the mean and standard deviation of the share"
QUANTILES = "quantiles of the draws"
OF_SHARES = {"mean": "share", "std": "share_std", "lower": "share_lower", "upper": "share_upper"}
OF_SHARES |= {f"{end}_mcse": f"{name}_mcse" for end, name in OF_SHARES.items() if end != "std"}

Row = tuple[dict[str, Any], np.ndarray]  # the first columns, and draws


@public
def kernel_table(
    model: BaseEstimator, ci_prob: float = 0.94, *, shares: bool = False, kernels: ArrayLike | None = None
) -> pd.DataFrame:
    """List the kernels of a fitted model, the most important first.

    Parameters
    ----------
    %(model)s
        Or a multitask model.
    %(ci_prob)s
    shares : bool, default=False
        Whether to also list shares of the score, which sum to one even if the score predicts nothing.
    kernels : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels of a BEMKL model that was fitted to precomputed kernels. Without them, the table has
        shares instead of effects and explained variance, and with "vb" the intervals of shares come from Beta
        distributions.

    Returns
    -------
    pandas.DataFrame
        One row per kernel, sorted by falling explained variance. If classes, labels (one-versus-all) or tasks have
        their own kernel weights, there is one row per kernel for each of them, sorted within each. The columns are

        * ``class``, ``label`` or ``task``: as in ``classes_`` or ``tasks_``; only if these have their own kernel
          weights;
        * ``kernel``, ``view``: names (no view if kernels were precomputed);
        * ``effect``, ``explained``, each with ``_lower`` and ``_upper``: as in :func:`view_table`;
        * ``share``, ``share_std``, ``share_lower``, ``share_upper``: the kernel's part of the score, see Notes; with
          `shares`, and for models without draws of the parts of kernels;
        * ``weight``, ``weight_std``, ``weight_lower``, ``weight_upper``: the weight e;
        * ``prob_positive``: posterior probability of ``e > 0``; not for an additive Gaussian process, whose weights
          are positive;
        * ``prob_included``: posterior probability that the kernel is in the model, under a spike-and-slab prior only;
          see :func:`inclusion_table`;
        * ``share_mcse``, ``share_lower_mcse``, ``share_upper_mcse``: with `shares`, Monte Carlo standard errors of
          the mean share and of the ends of its interval. They show how far another seed would move these numbers.
          Only for additive Gaussian processes and for Markov chains ("nuts", "gibbs", :func:`refine_posterior`) whose
          shares have quantiles;
        * ``interval_by``: the inference that made the intervals, with a remark if they are too narrow or if its draws
          have not converged: "gibbs (not converged)".

        ``table.attrs`` describes the intervals by ``inference``, ``ci_prob``, ``intervals`` and ``share_intervals``;
        ``caption`` explains the numbers.

    Raises
    ------
    %(TypeError:tasks)s
    NotFittedError
        Before `fit`.
    ValueError
        If `ci_prob` is not strictly between 0 and 1, or `kernels` are not the training kernels of the model.

    Notes
    -----
    The data determine weights only up to a common sign and, weakly, a scale; weights are also small if their kernel
    is large. Effects, explained variance and shares do not have these problems. A share is the standard deviation
    over the training samples of the kernel's part of the score (or of all scores that share the weights), divided by
    the sum over kernels. For an additive Gaussian process, shares are parts of the variance, weights are standard
    deviations, and intervals are quantiles of the draws of the model.

    With draws, intervals are quantiles of the draws, and a bank evaluates the training kernels once more. Under a
    variational posterior ("vb") weights are jointly normal (truncated at zero if they cannot be negative), and their
    intervals are exact. The posterior of a share has no closed form; its interval is that of the Beta distribution
    with the same mean and standard deviation. Variational intervals are too narrow: on 100 samples of the Wisconsin
    breast cancer data their standard deviations are about half of those under the exact posterior, or less.
    Intervals reach nominal coverage with additive Gaussian processes (`GPMKLClassifier`, `GPMKLRegressor`), with
    ``inference="nuts"``, and with :func:`refine_posterior` if its chains agree.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import kernel_table
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> table = kernel_table(BEMKLClassifier(bank).fit(X, X[:, 0] > 0), shares=True)
    >>> table["view"].tolist(), round(float(table["share"].sum()), 6)
    (['signal', 'noise'], 1.0)
    >>> table.attrs["inference"]
    'vb'
    """
    tail = 0.5 * (1.0 - check_probability("ci_prob", ci_prob))
    check_flag("shares", shares)
    fitted = fitted_bemkl(model, multitask=True)
    fitted.refuse_kernels(kernels)  # where they are wrong, used or not
    evaluates = kernels is not None or fitted.estimator.kernel_bank_ is not None
    known: list[Any] = [None] * len(fitted.states)
    if fitted.is_marginal or (evaluates and fitted.output_kind != "task"):
        known = explained_draws(fitted, fitted.kernel_names, kernels=kernels)
    tables = [_of_kernels(fitted, k, tail, own, shares) for k, own in enumerate(known)]
    has_quantiles = fitted.is_marginal or (fitted.is_drawn and evaluates)
    table = of_all_models(fitted, tables, ci_prob, QUANTILES if has_quantiles else BETA)
    table.attrs["caption"] = (
        caption(fitted, ci_prob, "kernel")
        if known[0] is not None
        else (
            "Shares are parts of the score, whatever it is worth: there are no draws of the parts of kernels."
        )
    )
    return table


@public
def effect_table(model: BaseEstimator, ci_prob: float = 0.94, *, levels: bool = False) -> pd.DataFrame:
    r"""List the effects of covariates and groups on the score of an additive Gaussian process.

    Parameters
    ----------
    model : estimator
        A fitted estimator of `bayesmkl.gp` whose `design` has covariates or groups, or a Pipeline or search
        that ends in one.
    %(ci_prob)s
    levels : bool, default=False
        Whether to list every level of the groups, such as every site, instead of covariates and standard deviations.

    Returns
    -------
    pandas.DataFrame
        One row per covariate and per standard deviation of a group, in the order of `design`. With several outputs,
        each covariate has one row per output. The columns are

        * ``class``, ``label`` or ``output``: only if there are several, and not for standard deviations;
        * ``effect``: name of a covariate or of a group, or "covariate | group" for random slopes;
        * ``kind``: "covariate", the effect of one more unit of it; "group", the standard deviation of the effects of
          its levels; "slope", the standard deviation over levels of the effect of one more unit;
        * ``mean``, ``std``, ``lower``, ``upper``: posterior mean, standard deviation, ends of the equal-tailed
          interval;
        * ``time_ratio``, or ``hazard_ratio`` under piecewise constant hazards, and its ``_lower`` and ``_upper``: for
          times only, ``exp`` of the effects and of the ends of their intervals; NaN for standard deviations;
        * ``prob_positive``: posterior probability that the effect is positive; NaN for standard deviations;
        * ``mean_mcse``, ``lower_mcse``, ``upper_mcse``: Monte Carlo standard errors, as in :func:`kernel_table`;
        * ``interval_by``: the inference that made the intervals.

        With `levels` there is one row per level (and output), with ``level`` and ``n_samples``, its number of
        training samples; effects are differences from the mean level.

        Effects are in units of the score. In regression these are the units of the target, or with tasks its standard
        deviation within tasks. Counts have log rates, and successes log odds. Times have log times under accelerated
        failure times, and log hazards under piecewise constant hazards. Labels and grades have standard deviations of
        a probit.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model has neither covariates nor groups, or no groups with `levels`; if `ci_prob` is not strictly
        between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.gp import Design
    >>> from bayesmkl.posterior import effect_table
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(50, 80, 60)])
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 2] + 0.1 * rng.normal(size=60)
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views="each"), design=Design(covariate_columns=2)).fit(X, y)
    >>> effect_table(model)[["effect", "kind", "mean"]].round(1).to_numpy().tolist()
    [['x2', 'covariate', 0.1]]
    """
    ci_prob = check_probability("ci_prob", ci_prob)
    fitted = _process(model, "")
    design = fitted.design
    if design is None or not (design.groups if check_flag("levels", levels) else design.has_effects):
        raise ValueError(
            f"`model` must have {'groups' if levels else 'covariates or groups'} in its `design`; got "
            f"{fitted.estimator.design!r}. Name columns of `X` in a Design(covariate_columns=..., group_columns=...)."
        )
    rows = (_levels if levels else _terms)(fitted, design)
    about, values = [row for row, _ in rows], np.column_stack([values for _, values in rows])
    signed = None if levels else np.array([row["kind"] == "covariate" for row in about])
    table = table_of_draws(fitted, about, values, ci_prob, signed)
    if fitted.outcome == "times":
        ratio = "hazard_ratio" if isinstance(fitted.estimator.likelihood_, PiecewiseHazard) else "time_ratio"
        of_effects = np.exp(table[["mean", "lower", "upper"]].to_numpy())
        of_effects[[] if signed is None else ~signed] = np.nan
        table[[ratio, f"{ratio}_lower", f"{ratio}_upper"]] = of_effects
    return table


@public
def task_table(model: BaseEstimator, ci_prob: float = 0.94, *, shares: bool = False) -> pd.DataFrame:
    r"""List the correlations between tasks of an additive Gaussian process, or the shares of views in each task.

    Parameters
    ----------
    model : estimator
        A fitted estimator of `bayesmkl.gp` whose `design` has a `task_column`, or a Pipeline or search that
        ends in one.
    %(ci_prob)s
    shares : bool, default=False
        Whether to list every task with the shares of its views, instead of pairs of tasks with their correlations.

    Returns
    -------
    pandas.DataFrame
        One row per pair of tasks with the columns

        * ``task``, ``other``: the pair, in the order of their names;
        * ``mean``, ``std``, ``lower``, ``upper``: posterior mean, standard deviation and ends of the equal-tailed
          interval of the correlation of their functions. It is 1 if both have the same function, and 0 if their
          functions are unrelated and they only share which kernels matter;
        * ``prob_positive``: posterior probability that it is positive;
        * ``mean_mcse``, ``lower_mcse``, ``upper_mcse``: Monte Carlo standard errors, as in :func:`kernel_table`;
        * ``interval_by``: the inference that made the intervals.

        With `shares` there is one row per task and view, with the columns ``task``, ``view`` and ``n_samples``, the
        number of training samples of the task. ``mean`` and the other statistics then describe the view's share of
        the score among these samples, without ``prob_positive``. Precomputed kernels take the place of views.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model has no tasks; if `ci_prob` is not strictly between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.gp import Design
    >>> from bayesmkl.posterior import task_table
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 2, size=60)])
    >>> y = np.where(X[:, 2] == 0, 1.0, -3.0) * np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    >>> bank = KernelBank(["rbf"], views="each")
    >>> model = GPMKLRegressor(bank, design=Design(task_column=2), together=False).fit(X, y)
    >>> pairs = task_table(model)
    >>> pairs[["task", "other"]].to_numpy().tolist(), bool(pairs["mean"][0] < -0.8)
    ([['0', '1']], True)
    >>> views = task_table(model, shares=True)
    >>> views["view"].tolist(), (views["mean"] > 0.5).tolist()
    (['x0', 'x1', 'x0', 'x1'], [True, False, True, False])
    """
    ci_prob = check_probability("ci_prob", ci_prob)
    fitted = _process(model, " Tables of the multitask estimators have a column of tasks.")
    design = fitted.design
    if design is None or not design.has_tasks:
        raise ValueError(
            f"`model` must have tasks in its `design`; got {fitted.estimator.design!r}. Name the column of `X` that "
            "has the task of each sample in a Design(task_column=...)."
        )
    by_share = check_flag("shares", shares)
    rows, values = (_shares_of_tasks if by_share else _correlations)(fitted, design)
    return table_of_draws(fitted, rows, values, ci_prob, None if by_share else np.ones(len(rows), dtype=bool))


def _process(model: BaseEstimator, more: str) -> FittedBEMKL:
    """Return an additive Gaussian process; the message about other models says `more`."""
    fitted = fitted_bemkl(model)
    if not fitted.is_marginal:
        raise TypeError(
            f"`model` must be an estimator of bayesmkl.gp; got {type(fitted.estimator).__name__}, which has no "
            f"`design`.{more}"
        )
    return fitted


# --------------------------------------------------------------------------------------------------- the builder


def table_of_draws(
    fitted: FittedBEMKL,
    rows: list[dict[str, Any]] | pd.DataFrame,
    values: np.ndarray,
    ci_prob: float,
    signed: np.ndarray | None = None,
) -> pd.DataFrame:
    """Describe all draws of a model by moments, intervals and, where they are known, Monte Carlo errors.

    Parameters
    ----------
    fitted : FittedBEMKL
    rows : list of dict
        The first columns, row by row.
    values : ndarray of shape (n_draws, n_rows)
    ci_prob : float
        Checked.
    signed : ndarray of bool, of shape (n_rows,), optional
        Which rows are positive with a probability that is of interest; None: there is no such column.
    """
    tail, table = 0.5 * (1.0 - ci_prob), pd.DataFrame(rows)
    _, digits = np.frexp(np.abs(values).max(axis=0, initial=0.0))  # the squares of some units are no numbers
    values = np.ldexp(values, -digits)
    table["mean"], table["std"] = values.mean(axis=0), values.std(axis=0, ddof=1)
    table["lower"], table["upper"] = np.quantile(values, [tail, 1.0 - tail], axis=0)
    if signed is not None:
        table["prob_positive"] = np.where(signed, (values > 0.0).mean(axis=0), np.nan)
    errors = monte_carlo_errors(fitted, values, tail)
    for column, error in errors.items():
        table[column] = error
    for column in ("mean", "std", "lower", "upper", *errors):
        table[column] = np.ldexp(table[column], digits)
    table["interval_by"] = interval_by(fitted)
    table.attrs.update(inference=fitted.inference, ci_prob=float(ci_prob))
    return table


def row_labels(n_rows: int, *tables: Any) -> np.ndarray:
    """Return the index of the first of some tables that is a frame; positions where none is."""
    frame = next((table for table in tables if isinstance(table, pd.DataFrame)), None)
    return np.arange(n_rows) if frame is None else frame.index.to_numpy()


def of_all_models(
    fitted: FittedBEMKL, tables: list[pd.DataFrame], ci_prob: float, share_intervals: str
) -> pd.DataFrame:
    """Stack one table per model, each by falling size, beside their classes if there are several."""
    tables = [_sorted(table) for table in tables]
    stacked = pd.concat(tables, ignore_index=True)
    if fitted.class_labels is not None:
        labels = np.repeat(fitted.class_labels, [len(table) for table in tables])
        stacked.insert(0, fitted.output_kind, labels)
    is_open = fitted.inference != "vb" and not fitted.estimator.converged_
    stacked.attrs = {
        "inference": fitted.inference,
        "ci_prob": float(ci_prob),
        "intervals": INTERVALS[fitted.inference] + ": not converged" * is_open,
        "share_intervals": share_intervals,
    }
    return stacked


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """Sort by falling explained variance, or share; the rows of all views and of noise stay last."""
    is_part = ~table["view"].isin([ALL_VIEWS, NOISE]) if "view" in table else np.full(len(table), True)
    by = "explained" if "explained" in table else "share"
    return pd.concat([table[is_part].sort_values(by, ascending=False, kind="stable"), table[~is_part]])


def interval_by(fitted: FittedBEMKL) -> str:
    """Return the inference, with what is wrong with its intervals."""
    if fitted.inference == "vb":
        return f"{fitted.inference} (too narrow)"
    if fitted.is_marginal and fitted.has_landmarks and fitted.estimator.converged_:
        return f"{fitted.inference} (bound by {fitted.n_basis} landmarks)"
    return fitted.inference if fitted.estimator.converged_ else f"{fitted.inference} (not converged)"


# --------------------------------------------------------------------------------------------------------- kernels


def sizes(own: Explained, tail: float) -> dict[str, np.ndarray]:
    """Return means and ends of the intervals of effects and explained variance."""
    found = {}
    for name in ("effect", "explained"):
        values = getattr(own, name)
        found[name] = values.mean(axis=0)
        found[f"{name}_lower"], found[f"{name}_upper"] = np.quantile(values, [tail, 1.0 - tail], axis=0)
    return found


def caption(fitted: FittedBEMKL, ci_prob: float, of: str) -> str:
    """Say what effects and explained variance are, and on which scale."""
    unit, design = unit_of(fitted), fitted.design
    whole = "the target" if "target" in unit else "score and noise on that scale"
    left = ", what covariates and groups leave of it" if design is not None and design.has_effects else ""
    narrow = " (variational: too narrow)" if fitted.inference == "vb" else ""
    return (
        f"effect: standard deviation over {fitted.n_samples} training rows of what a {of} adds, in {unit}; "
        f"explained: its part of the variance of {whole}{left}; {100 * ci_prob:g} % intervals{narrow}."
    )


def _of_kernels(
    fitted: FittedBEMKL, k: int, tail: float, known: Explained | None, with_shares: bool
) -> pd.DataFrame:
    """Return the rows of one model, with quantiles of draws of the shares where there are some."""
    shares = None if known is None or fitted.inference == "vb" else known.share
    values = {
        name: np.atleast_2d(getattr(fitted.estimator, f"kernel_{name}_"))[k]
        for name in ("shares", "shares_std", "weights", "weights_std")
    }
    weights, included, errors = fitted.weight_draws(k), fitted.included(k), {}
    positive: np.ndarray | None = None
    if weights is None:
        readout = getattr(fitted.states[k], "readout", None)
        of_factors = _weights_of_factors(values["weights"], values["weights_std"], readout, tail)
        weight_lower, weight_upper, positive = of_factors
    else:
        weight_lower, weight_upper = np.quantile(weights, [tail, 1.0 - tail], axis=0)
        positive = None if fitted.is_marginal else (weights > 0.0).mean(axis=0)
    if shares is None:
        share_lower, share_upper = share_interval(values["shares"], values["shares_std"], tail)
    else:
        share_lower, share_upper = np.quantile(shares, [tail, 1.0 - tail], axis=0)
        errors = monte_carlo_errors(fitted, shares, tail)
    of_shares = {
        "share": values["shares"],
        "share_std": values["shares_std"],
        "share_lower": share_lower,
        "share_upper": share_upper,
    }
    with_shares = with_shares or known is None
    columns = {
        "kernel": fitted.kernel_names,
        "view": fitted.kernel_views,
        **({} if known is None else {name: own[:-2] for name, own in sizes(known, tail).items()}),
        **(of_shares if with_shares else {}),
        "weight": values["weights"],
        "weight_std": values["weights_std"],
        "weight_lower": weight_lower,
        "weight_upper": weight_upper,
        "prob_positive": positive,
        "prob_included": None if included is None else included.mean(axis=0),
        **{OF_SHARES[name]: error for name, error in errors.items() if with_shares},
    }
    table = pd.DataFrame({name: column for name, column in columns.items() if column is not None})
    return table.assign(interval_by=interval_by(fitted))


def _weights_of_factors(
    mean: np.ndarray, std: np.ndarray, readout: Any, tail: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lower and upper ends of the weights' intervals and the probabilities that weights are positive."""
    if isinstance(readout, NonnegativeReadout):
        law = readout.weights
        ends = [_quantile(law, tail), _quantile(law, 1.0 - tail)]
        return ends[0], ends[1], np.ones(len(mean))
    reach = -norm.ppf(tail) * std
    return mean - reach, mean + reach, norm.cdf(mean / std)


def _quantile(law: CutOffNormals | CutOffPair, probability: float) -> np.ndarray:
    """Return a quantile of every weight under a distribution that is cut off at zero."""
    if isinstance(law, CutOffPair):
        return quadrant_quantiles(law.linear, law.precision, probability)
    log_above = np.log1p(-probability) + log_ndtr(law.location / law.scale)
    return np.maximum(law.location - law.scale * ndtri_exp(log_above), 0.0)


def share_interval(mean: np.ndarray, std: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles `tail` and ``1 - tail`` of the Beta distributions with given means and standard deviations.

    Shares without spread (a single kernel) are their own quantiles.
    """
    certain = std <= 1e-12 * mean
    spread = np.where(certain, 1.0, std)
    size = np.where(certain, 1.0, mean * (1.0 - mean)) / spread**2 - 1.0
    size = np.where(certain, 1.0, size)
    shapes = np.where(certain, 1.0, mean) * size, np.where(certain, 1.0, 1.0 - mean) * size
    lower, upper = (np.where(certain, mean, beta.ppf(q, *shapes)) for q in (tail, 1.0 - tail))
    return lower, upper


# -------------------------------------------------------------------------------------- covariates, groups, tasks


def _coefficients(fitted: FittedBEMKL, design: FittedDesign) -> np.ndarray:
    """Return draws of the coefficients in the units of the user, (n_draws, n_outputs, n_effects).

    Those of covariates and slopes are per unit of the covariate.
    """
    draws: HyperDraws = fitted.states[0]
    return draws.effects * fitted.estimator._score_units()[:, None] / design.units


def _terms(fitted: FittedBEMKL, design: FittedDesign) -> list[Row]:
    """Return covariates, and the standard deviations of groups and slopes."""
    own, draws, units = _coefficients(fitted, design), fitted.states[0], fitted.estimator._score_units()
    rows: list[Row] = [
        ({**fitted.about_output(k), "effect": name, "kind": "covariate"}, own[:, k, j])
        for j, name in enumerate(design.covariates)
        for k in range(own.shape[1])
    ]
    in_units = len(units) > 1 and not np.allclose(units, units[0])  # then a term has a row for every output
    for t, (name, (_, c)) in enumerate(zip(design.term_names, design.terms, strict=True)):
        about = {"effect": name, "kind": "group" if c is None else "slope"}
        values = draws.group_std[draws.point, t] / (1.0 if c is None else design.scale[c])
        for k in range(len(units) if in_units else 1):
            rows.append(({**(fitted.about_output(k) if in_units else {}), **about}, values * units[k]))
    return rows


def _levels(fitted: FittedBEMKL, design: FittedDesign) -> list[Row]:
    """Return the levels of every term, around their mean."""
    own, X = _coefficients(fitted, design), fitted.estimator.kernel_bank_.X_train_
    rows: list[Row] = []
    first = len(design.covariates)
    for name, (g, c) in zip(design.term_names, design.terms, strict=True):
        last = first + len(design.levels[g])
        around = own[..., first:last] - own[..., first:last].mean(axis=-1, keepdims=True)
        counts = (X[:, design.group_columns[g]][:, None] == design.levels[g]).sum(axis=0)
        about = {"effect": name, "kind": "group" if c is None else "slope"}
        for k in range(own.shape[1]):
            for level, (label, count) in enumerate(zip(design.labels[g], counts, strict=True)):
                row = {**fitted.about_output(k), **about, "level": label, "n_samples": int(count)}
                rows.append((row, around[:, k, level]))
        first = last
    return rows


def _correlations(fitted: FittedBEMKL, design: FittedDesign) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return pairs of tasks, and draws of their correlations, (n_draws, n_pairs)."""
    draws: HyperDraws = fitted.states[0]
    n_tasks = len(design.tasks)
    later, earlier = np.tril_indices(n_tasks, -1)
    order = np.lexsort([later, earlier])
    rows = [{"task": design.tasks[earlier[k]], "other": design.tasks[later[k]]} for k in order]
    return rows, draws.task_values[draws.point][:, n_tasks:][:, order]


def _shares_of_tasks(fitted: FittedBEMKL, design: FittedDesign) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return tasks and views, and draws of their shares, (n_draws, n_tasks * n_views)."""
    draws: HyperDraws = fitted.states[0]
    of_kernels = fitted.kernel_groups(None)
    views = list(dict.fromkeys(of_kernels))
    member = np.array([[name == view for view in views] for name in of_kernels], dtype=float)
    counts = np.bincount(design.task(fitted.estimator.kernel_bank_.X_train_))  # type: ignore[arg-type]
    rows = [
        {"task": task, "view": view, "n_samples": int(count)}
        for task, count in zip(design.tasks, counts, strict=True)
        for view in views
    ]
    return rows, (draws.task_shares @ member).reshape(draws.n_draws, -1)


# ---------------------------------------------------------------------------------------------- Monte Carlo errors


def monte_carlo_errors(fitted: FittedBEMKL, values: np.ndarray, tail: float) -> dict[str, np.ndarray]:
    """Return Monte Carlo standard errors of means and both quantiles of all draws in a row, where they are known."""
    if fitted.is_marginal:
        links = monte_carlo(fitted, evenly(fitted.states[0].n_draws, len(values)))
        ends = [links.of_quantiles(values, probability) for probability in (tail, 1.0 - tail)]
        found = (links.of_means(values), *ends)
    elif fitted.is_drawn:
        found = errors_of_chains(values.reshape(fitted.states[0].n_chains, -1, values.shape[1]), tail)
    else:
        return {}
    return dict(zip(("mean_mcse", "lower_mcse", "upper_mcse"), found, strict=True))


class MonteCarlo(NamedTuple):
    """Links between draws.

    Attributes
    ----------
    point : ndarray of int, of shape (n_draws,)
        Position of the hyperparameters of each draw, from 0 to n_points - 1.
    known : ndarray of shape (n_points, n_columns)
        Functions of the hyperparameters whose means have next to no error; the first is constant.
    inflation : float
        How many points say as much as one independent point.
    """

    point: np.ndarray
    known: np.ndarray
    inflation: float

    def of_means(self, values: np.ndarray) -> np.ndarray:
        """Return standard errors of the means of (n_draws, n) values, (n,)."""
        counts = np.bincount(self.point, minlength=len(self.known))
        sums = np.zeros((len(counts), values.shape[1]))
        np.add.at(sums, self.point, values)
        root = np.sqrt(counts)[:, None]
        around, known = sums / root, self.known * root
        residual = around - known @ np.linalg.lstsq(known, around)[0]
        freedom = len(counts) / max(len(counts) - known.shape[1], 1)
        square = ((residual * root) ** 2).sum(axis=0) / len(self.point) ** 2
        return np.sqrt(freedom * self.inflation * square)

    def of_quantiles(self, values: np.ndarray, probability: float) -> np.ndarray:
        """Return standard errors of one quantile of each column of (n_draws, n) values, (n,)."""
        below = (values <= np.quantile(values, probability, axis=0)).astype(float)
        least = PART_OF_TAIL * min(probability, 1.0 - probability)
        found = np.empty(values.shape[1])
        for m, error in enumerate(self.of_means(below)):
            half = max(float(error), least)
            ends = np.clip([probability - half, probability + half], 0.0, 1.0)
            reach = float(np.diff(np.quantile(values[:, m], ends))[0])
            found[m] = error * reach / (ends[1] - ends[0])
        return found


def monte_carlo(fitted: FittedBEMKL, chosen: np.ndarray) -> MonteCarlo:
    """Say how draws of an additive Gaussian process are linked.

    Parameters
    ----------
    fitted : FittedBEMKL
    chosen : ndarray of int
        Positions of the draws that are used.
    """
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    kept, point = np.unique(draws.point[chosen], return_inverse=True)
    options, constant = estimator._inference(), np.ones((len(kept), 1))
    if np.isnan(estimator.pareto_k_):  # Markov chains
        return MonteCarlo(point, constant, max(1.0, options.most_points / estimator.ess_))
    weights = np.column_stack([draws.kernel_weights, draws.group_std])[kept]
    weights = weights + NEAR_ZERO * weights.mean(axis=0) + np.finfo(float).tiny
    parameters = draws.parameters[kept].reshape(len(kept), -1)
    rest = [own.reshape(len(draws.kernel_weights), -1)[kept] for own in (draws.task_values, draws.log_widths)]
    known = np.column_stack([constant, np.log(weights), np.log(parameters), *rest])
    enough = len(kept) >= POINTS_PER_COLUMN * known.shape[1]
    return MonteCarlo(point, known if enough else constant, 1.0)


def errors_of_chains(values: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Monte Carlo standard errors of means, lower and upper quantiles, each of shape (n,).

    Parameters
    ----------
    values : array of shape (n_chains, n_draws, n)
        What does not move has no error.
    tail : float
        Probability below the lower quantile, and above the upper one.
    """
    from arviz_stats.base import array_stats

    moves = np.ptp(values, axis=(0, 1)) > 0.0
    moving = np.moveaxis(values[..., moves], -1, 0)
    errors = np.zeros((3, values.shape[-1]))
    if moves.any():
        errors[0, moves] = array_stats.mcse(moving)
        errors[1, moves] = array_stats.mcse(moving, method="quantile", prob=tail)
        errors[2, moves] = array_stats.mcse(moving, method="quantile", prob=1.0 - tail)
    return errors[0], errors[1], errors[2]
