"""The posterior over kernels as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, norm

from bayesmkl.bemkl.shares import share_draws
from bayesmkl.kernels.stack import DenseStack
from bayesmkl.posterior.fitted import FittedBEMKL, check_probability, fitted_bemkl
from bayesmkl.posterior.sample import sample_posterior

__all__ = ["kernel_table", "view_table"]


def kernel_table(model: Any, ci_prob: float = 0.94) -> pd.DataFrame:
    """List the kernels of a fitted BEMKL model, the most important first.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier or BEMKLRegressor, or a Pipeline or search that ends in one.
    ci_prob : float, default=0.94
        Probability content of the intervals, the same in both tails.

    Returns
    -------
    pandas.DataFrame
        One row per kernel (with more than two classes, per kernel and class), sorted by falling share (within each
        class), with the columns

        * ``class``: only with more than two classes, each a model of its own against the rest;
        * ``kernel``, ``view``: names (no view where kernels were precomputed);
        * ``share``, ``share_std``, ``share_lower``, ``share_upper``: the kernel's part of the score, see Notes;
        * ``weight``, ``weight_std``, ``weight_lower``, ``weight_upper``: the weight e;
        * ``prob_positive``: posterior probability of ``e > 0``.

    Notes
    -----
    Weights are known up to a common sign and, weakly, a scale; they are also small where their kernel is large.
    Shares are free of that: the standard deviation over the training samples of the kernel's part of the score,
    divided by the sum over kernels. Intervals of weights are exact under the variational posterior, where weights
    are jointly normal. The posterior of a share has no closed form; its interval is that of the Beta distribution
    with the share's posterior mean and standard deviation.

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
    """
    tail = 0.5 * (1.0 - check_probability("ci_prob", ci_prob))
    fitted = fitted_bemkl(model)
    return _sorted_by_class(fitted, [_table(fitted, k, tail) for k in range(len(fitted.states))])


def view_table(
    model: Any,
    ci_prob: float = 0.94,
    n_draws: int = 200,
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    """List the views of a fitted BEMKL model, the most important first.

    Many similar kernels on one view divide its share among them; their sum says what the view is worth.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier or BEMKLRegressor, or a Pipeline or search that ends in one; its kernels come from a
        KernelBank.
    ci_prob : float, default=0.94
        Probability content of the intervals, the same in both tails.
    n_draws : int, default=200
        Draws from the posterior. Each takes a matrix-vector product with every training kernel.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    pandas.DataFrame
        One row per view (with more than two classes, per view and class), sorted by falling share (within each
        class), with the columns ``class`` (only with more than two classes), ``view``, ``n_kernels``, and ``share``,
        ``share_std``, ``share_lower``, ``share_upper``: mean, standard deviation and quantiles of the summed shares
        over the draws.

    Notes
    -----
    The training kernels are evaluated again and take the memory that they took at `fit`.

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
    draws = sample_posterior(model, n_draws, random_state)
    n_states = len(fitted.states)
    duals, weights = (draws[name].reshape(n_draws, n_states, -1) for name in ("dual_coef", "kernel_weights"))
    stack = DenseStack(fitted.estimator.kernel_bank_.train_stack())
    views, members = np.unique(fitted.kernel_views, return_inverse=True)
    indicator = np.eye(len(views))[members]  # (n_kernels, n_views)
    tables = []
    for k in range(n_states):
        shares = share_draws(stack, duals[:, k], weights[:, k]) @ indicator
        lower, upper = np.quantile(shares, [tail, 1.0 - tail], axis=0)
        table = pd.DataFrame(
            {
                "view": views,
                "n_kernels": np.bincount(members),
                "share": shares.mean(axis=0),
                "share_std": shares.std(axis=0, ddof=1),
                "share_lower": lower,
                "share_upper": upper,
            }
        )
        tables.append(table)
    return _sorted_by_class(fitted, tables)


def _sorted_by_class(fitted: FittedBEMKL, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Stack one table per model, each by falling share, under the names of the classes if there are several."""
    tables = [table.sort_values("share", ascending=False, kind="stable") for table in tables]
    if fitted.class_names is not None:
        for name, table in zip(fitted.class_names, tables, strict=True):
            table.insert(0, "class", name)
    return pd.concat(tables, ignore_index=True)


def _table(fitted: Any, k: int, tail: float) -> pd.DataFrame:
    values = {
        name: np.atleast_2d(getattr(fitted.estimator, f"kernel_{name}_"))[k]
        for name in ("shares", "shares_std", "weights", "weights_std")
    }
    weight, weight_std = values["weights"], values["weights_std"]
    share_lower, share_upper = share_interval(values["shares"], values["shares_std"], tail)
    columns = {
        "kernel": fitted.kernel_names,
        "view": fitted.kernel_views,
        "share": values["shares"],
        "share_std": values["shares_std"],
        "share_lower": share_lower,
        "share_upper": share_upper,
        "weight": weight,
        "weight_std": weight_std,
        "weight_lower": weight + norm.ppf(tail) * weight_std,
        "weight_upper": weight - norm.ppf(tail) * weight_std,
        "prob_positive": norm.cdf(weight / weight_std),
    }
    return pd.DataFrame({name: column for name, column in columns.items() if column is not None})


def share_interval(mean: np.ndarray, std: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles `tail` and ``1 - tail`` of the Beta distributions with given means and standard deviations.

    Shares without spread (a single kernel) are their own quantiles.
    """
    certain = std <= 1e-12 * mean
    spread = np.where(certain, 1.0, std)
    size = np.where(certain, 1.0, mean * (1.0 - mean)) / spread**2 - 1.0
    size = np.where(certain, 1.0, size)
    shapes = np.where(certain, 1.0, mean) * size, np.where(certain, 1.0, 1.0 - mean) * size
    lower, upper = (np.where(certain, mean, beta.ppf(q, *shapes)) for q in (tail, 1.0 - tail))
    return lower, upper
