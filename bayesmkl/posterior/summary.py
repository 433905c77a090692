"""The posterior over kernels as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp
from scipy.stats import beta, norm
from sklearn.base import BaseEstimator

from bayesmkl._numerics.quadrant import quadrant_quantiles
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_integer, check_probability, generator_of
from bayesmkl.bemkl.draws import share_of_each
from bayesmkl.bemkl.nonnegative import CutOffNormals, CutOffPair, NonnegativeReadout
from bayesmkl.kernels.stacks.base import KernelStack
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl
from bayesmkl.posterior.monte_carlo import errors_of_chains, monte_carlo
from bayesmkl.posterior.shared_docs import MODEL

N_DRAWS = 200  # of the shares of views under a variational posterior
INTERVALS = {
    "vb": "of the variational posterior: too narrow, about half as wide as those of the exact posterior or less",
    "nuts": "of the posterior, by NUTS",
    "gibbs": "of the posterior, by Gibbs sampling",
    "marginal": "of the posterior, function values integrated out",
}
BETA = "Beta distributions with the mean and standard deviation of the share"
QUANTILES = "quantiles of the draws"


@fill_docs(MODEL)
@own_settings
def kernel_table(
    model: BaseEstimator, ci_prob: float = 0.94, *, kernels: ArrayLike | None = None
) -> pd.DataFrame:
    """List the kernels of a fitted model, the most important first.

    Parameters
    ----------
    %(model)s
        Or a multitask model.
    %(ci_prob)s
    kernels : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels, for quantiles of the shares of a model that has draws ("vb" has none) and was
        fitted to precomputed kernels. Without them its share intervals are those of Beta distributions.

    Returns
    -------
    pandas.DataFrame
        One row per kernel, sorted by falling share; where classes, labels (one-versus-all) or tasks have kernel
        weights of their own, one per kernel and class, sorted within each; with the columns

        * ``class``, ``label`` or ``task``: as in ``classes_`` or ``tasks_``; only where these have kernel weights of
          their own;
        * ``kernel``, ``view``: names (no view where kernels were precomputed);
        * ``share``, ``share_std``, ``share_lower``, ``share_upper``: the kernel's part of the score, see Notes;
        * ``weight``, ``weight_std``, ``weight_lower``, ``weight_upper``: the weight e;
        * ``prob_positive``: posterior probability of ``e > 0``; not of an additive Gaussian process, whose weights
          are positive;
        * ``prob_included``: posterior probability that the kernel is in the model, under a spike-and-slab prior only;
          see :func:`inclusion_table`;
        * ``share_mcse``, ``share_lower_mcse``, ``share_upper_mcse``: Monte Carlo standard errors of the mean share
          and of the ends of its interval, of an additive Gaussian process and of Markov chains ("nuts", "gibbs",
          :func:`refine_posterior`) whose shares have quantiles: how far another seed moves them;
        * ``interval_by``: the inference that made the intervals, with a remark where they are too narrow, or where
          its draws say themselves that they are not enough: "gibbs (not converged)".

        ``table.attrs`` says what made the intervals: ``inference``, ``ci_prob``, ``intervals`` and
        ``share_intervals``.

    Raises
    ------
    %(TypeError:tasks)s
    NotFittedError
        Before `fit`.
    ValueError
        If `ci_prob` is not strictly between 0 and 1, or `kernels` are not the training kernels of the model.

    Notes
    -----
    Weights are known up to a common sign and, weakly, a scale; they are also small where their kernel is large.
    Shares are free of that: the standard deviation over the training samples of the kernel's part of the score (or of
    all scores that share the weights), divided by the sum over kernels. Those of an additive Gaussian process are
    parts of the variance, and its weights standard deviations; its intervals are quantiles of draws that the model
    has.

    With draws, intervals are quantiles of the draws, and a bank evaluates the training kernels once more. Under a
    variational posterior ("vb") weights are jointly normal, cut off at zero where they are not negative, and their
    intervals exact; the posterior of a share has no closed form, and its interval is that of the Beta distribution
    with the share's posterior mean and standard deviation. Variational intervals are too narrow: on 100 samples of
    the Wisconsin breast cancer data their standard deviations are about half of those under the exact posterior, or
    less. Additive Gaussian processes (`GPMKLClassifier`, `GPMKLRegressor`) and ``inference="nuts"`` have intervals
    that hold, and so has :func:`refine_posterior` where its chains agree.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import kernel_table
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> table = kernel_table(BEMKLClassifier(bank).fit(X, X[:, 0] > 0))
    >>> table["view"].tolist(), round(float(table["share"].sum()), 6)
    (['signal', 'noise'], 1.0)
    >>> table.attrs["inference"]
    'vb'
    """
    tail = 0.5 * (1.0 - check_probability("ci_prob", ci_prob))
    fitted = fitted_bemkl(model, multitask=True)
    given = (
        None if kernels is None else fitted.training_stack(kernels)
    )  # refused where it is wrong, used or not
    stack = given if fitted.is_drawn else None
    if fitted.is_drawn and given is None and fitted.estimator.kernel_bank_ is not None:
        stack = fitted.training_stack()
    table = _sorted_by_class(fitted, [_table(fitted, k, tail, stack) for k in range(len(fitted.states))])
    has_draws = stack is not None or fitted.is_marginal
    table["interval_by"] = interval_by(fitted)
    table.attrs.update(_about_intervals(fitted, ci_prob, QUANTILES if has_draws else BETA))
    return table


@fill_docs(MODEL)
@own_settings
def view_table(
    model: BaseEstimator,
    ci_prob: float = 0.94,
    n_draws: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    """List the views of a fitted model, the most important first.

    Many similar kernels on one view divide its share among them; their sum says what the view is worth.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier, BEMKLRegressor or estimator of `bayesmkl.gp`, or a Pipeline or search that
        ends in one; its kernels come from a KernelBank.
    %(ci_prob)s
    n_draws : int, default=None
        Draws from the posterior; of existing chains at most this many each, at even distances. None is 200 from a
        variational posterior and all draws of chains. Each takes a matrix-vector product with every training kernel.
    %(random_state)s

    Returns
    -------
    pandas.DataFrame
        One row per view, or per view and class or label as in :func:`kernel_table`, sorted by falling share, with the
        columns ``class`` or ``label`` (as in ``classes_``; only where these have kernel weights of their own),
        ``view``, ``n_kernels``, and ``share``, ``share_std``, ``share_lower``, ``share_upper``: mean, standard
        deviation and quantiles of the summed shares over the draws; of an additive Gaussian process and of Markov
        chains also their Monte Carlo standard errors, as in :func:`kernel_table`. ``interval_by`` and ``table.attrs``
        say what made the intervals, as there.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `model` was fitted to precomputed kernels, which have no views; if `ci_prob` is not strictly between 0 and
        1, `n_draws` no whole number of at least 2, or `random_state` no seed.

    Notes
    -----
    The training kernels of a BEMKL model are evaluated again and take the memory that they took at `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import view_table
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["linear", "rbf"], views={"signal": 0, "noise": 1})
    >>> table = view_table(BEMKLClassifier(bank).fit(X, X[:, 0] > 0), random_state=0)
    >>> table["view"].tolist(), table["n_kernels"].tolist()
    (['signal', 'noise'], [2, 2])
    """
    tail = 0.5 * (1.0 - check_probability("ci_prob", ci_prob))
    fitted = fitted_bemkl(model)
    if fitted.kernel_views is None:
        raise ValueError(
            "`model` was fitted to precomputed kernels, which have no views. Put a KernelBank into the estimator, or "
            "add up the shares in `kernel_table`."
        )
    n_draws = None if n_draws is None else check_integer("n_draws", n_draws, low=2)
    rng = generator_of("random_state", random_state)
    views, members = np.unique(fitted.kernel_views, return_inverse=True)
    indicator = np.eye(len(views))[members]  # (n_kernels, n_views)
    tables = []
    for each in _shares_of_draws(fitted, n_draws, rng):
        shares = each @ indicator
        lower, upper = np.quantile(shares, [tail, 1.0 - tail], axis=0)
        errors = monte_carlo_errors(fitted, shares, tail)
        table = pd.DataFrame(
            {
                "view": views,
                "n_kernels": np.bincount(members),
                "share": shares.mean(axis=0),
                "share_std": shares.std(axis=0, ddof=1),
                "share_lower": lower,
                "share_upper": upper,
            }
            | errors
        )
        tables.append(table)
    table = _sorted_by_class(fitted, tables)
    table["interval_by"] = interval_by(fitted)
    table.attrs.update(_about_intervals(fitted, ci_prob, QUANTILES))
    return table


def table_of_draws(
    fitted: FittedBEMKL,
    rows: list[dict[str, Any]],
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
    errors = monte_carlo_errors(fitted, values, tail, ("mean_mcse", "lower_mcse", "upper_mcse"))
    for column, error in errors.items():
        table[column] = error
    for column in ("mean", "std", "lower", "upper", *errors):
        table[column] = np.ldexp(table[column], digits)
    table["interval_by"] = interval_by(fitted)
    table.attrs.update(inference=fitted.inference, ci_prob=float(ci_prob))
    return table


def _shares_of_draws(
    fitted: FittedBEMKL, n_draws: int | None, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield shares of draws, (n_draws, n_kernels), of every model."""
    if fitted.is_marginal:
        shares = fitted.states[0].shares
        yield shares[evenly(len(shares), n_draws)]
        return
    stack = fitted.training_stack()
    for own in fitted.draws(n_draws if fitted.is_drawn else n_draws or N_DRAWS, rng):
        yield share_of_each(stack, own.flat())


def monte_carlo_errors(
    fitted: FittedBEMKL,
    values: np.ndarray,
    tail: float,
    columns: tuple[str, ...] = ("share_mcse", "share_lower_mcse", "share_upper_mcse"),
) -> dict[str, np.ndarray]:
    """Return Monte Carlo standard errors of means and quantiles of all draws in a row, where they are known."""
    if fitted.is_marginal:
        links = monte_carlo(fitted, evenly(fitted.states[0].n_draws, len(values)))
        found = (
            links.of_means(values),
            links.of_quantiles(values, tail),
            links.of_quantiles(values, 1.0 - tail),
        )
    elif fitted.is_drawn:
        found = errors_of_chains(values.reshape(fitted.states[0].n_chains, -1, values.shape[1]), tail)
    else:
        return {}
    return dict(zip(columns, found, strict=True))


def interval_by(fitted: FittedBEMKL) -> str:
    """Return the inference, with what is wrong with its intervals."""
    if fitted.inference == "vb":
        return f"{fitted.inference} (too narrow)"
    if fitted.is_marginal and fitted.has_landmarks and fitted.estimator.converged_:
        return f"{fitted.inference} (bound by {fitted.n_basis} landmarks)"
    return fitted.inference if fitted.estimator.converged_ else f"{fitted.inference} (not converged)"


def _about_intervals(fitted: FittedBEMKL, ci_prob: float, share_intervals: str) -> dict[str, Any]:
    return {
        "inference": fitted.inference,
        "ci_prob": float(ci_prob),
        "intervals": INTERVALS[fitted.inference]
        + ("" if fitted.inference == "vb" or fitted.estimator.converged_ else ": not converged"),
        "share_intervals": share_intervals,
    }


def _sorted_by_class(fitted: FittedBEMKL, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Stack one table per model, each by falling share, beside their classes if there are several."""
    tables = [table.sort_values("share", ascending=False, kind="stable") for table in tables]
    stacked = pd.concat(tables, ignore_index=True)
    if fitted.class_labels is not None:
        labels = np.repeat(fitted.class_labels, [len(table) for table in tables])
        stacked.insert(0, fitted.output_kind, labels)
    return stacked


def _table(fitted: FittedBEMKL, k: int, tail: float, stack: KernelStack | None) -> pd.DataFrame:
    values = {
        name: np.atleast_2d(getattr(fitted.estimator, f"kernel_{name}_"))[k]
        for name in ("shares", "shares_std", "weights", "weights_std")
    }
    flat = fitted.states[k].flat() if fitted.is_drawn else None
    positive: np.ndarray | None = None
    errors: dict[str, np.ndarray] = {}
    if fitted.is_marginal:
        weights = fitted.states[k].kernel_weights[fitted.states[k].point]
        weight_lower, weight_upper = np.quantile(weights, [tail, 1.0 - tail], axis=0)
    elif flat is None:
        weight_lower, weight_upper, positive = _weights_of_factors(
            values["weights"], values["weights_std"], getattr(fitted.states[k], "readout", None), tail
        )
    else:
        weight_lower, weight_upper = np.quantile(flat.kernel_weights, [tail, 1.0 - tail], axis=0)
        positive = (flat.kernel_weights > 0.0).mean(axis=0)
    if fitted.is_marginal:
        share_lower, share_upper = np.quantile(fitted.states[k].shares, [tail, 1.0 - tail], axis=0)
        errors = monte_carlo_errors(fitted, fitted.states[k].shares, tail)
    elif stack is None or flat is None:
        share_lower, share_upper = share_interval(values["shares"], values["shares_std"], tail)
    else:
        shares = share_of_each(stack, flat)
        share_lower, share_upper = np.quantile(shares, [tail, 1.0 - tail], axis=0)
        errors = monte_carlo_errors(fitted, shares, tail)
    included = None if flat is None or flat.kernel_inclusion is None else flat.kernel_inclusion.mean(axis=0)
    if fitted.selects_kernels:
        included = (fitted.states[k].kernel_weights > 0.0)[fitted.states[k].point].mean(axis=0)
    columns = {
        "kernel": fitted.kernel_names,
        "view": fitted.kernel_views,
        "share": values["shares"],
        "share_std": values["shares_std"],
        "share_lower": share_lower,
        "share_upper": share_upper,
        "weight": values["weights"],
        "weight_std": values["weights_std"],
        "weight_lower": weight_lower,
        "weight_upper": weight_upper,
        "prob_positive": positive,
        "prob_included": included,
    }
    columns |= errors
    return pd.DataFrame({name: column for name, column in columns.items() if column is not None})


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
