"""Inclusion probabilities of views and kernels under a spike-and-slab prior, and lists with few false ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from bayesmkl._utils.validation import check_choice, check_probability
from bayesmkl._utils.warnings import warn_user
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl, public
from bayesmkl.posterior.tables import monte_carlo_errors

LEAST = 0.03  # how often two would both be out if they knew nothing of each other
RARELY = 0.3  # part of that which alternatives are both out at most
MOST_NAMED = 3  # pairs in a warning


@public
def inclusion_table(model: BaseEstimator, by: str | None = None, *, fdr: float = 0.1) -> pd.DataFrame:
    r"""List views or kernels by the probability that they are in the model, and mark a list with few false ones.

    Parameters
    ----------
    model : estimator
        An estimator of `bayesmkl.gp` with ``kernel_prior="spike-slab"`` or a `SpikeSlabWeights`, or of BEMKL
        with ``inference="nuts"`` and a `SpikeSlab`, fitted; or a Pipeline or search that ends in one.
    by : {"view", "kernel"}, default=None
        What is in or out; a view is where one of its kernels is. None is views, and kernels where they were
        precomputed and have none.
    fdr : float, default=0.1
        Expected part of false ones in the list that is marked.

    Returns
    -------
    pandas.DataFrame
        One row per view or kernel, the most probable first; where classes or labels have kernel weights of their own,
        in turn; with the columns

        * ``class`` or ``label``: only where these have kernel weights of their own;
        * ``view`` or ``kernel``: name;
        * ``prob_included``, ``prob_mcse``: posterior probability that it is in the model, and its Monte Carlo
          standard error;
        * ``share``: posterior mean share of the score;
        * ``fdr``: expected part of false ones among this row and all above it, the mean of ``1 - prob_included``;
        * ``selected``: whether that is at most `fdr`;
        * ``alternative``, ``prob_either``: another one that is in nearly wherever this one is not, if there is one,
          and the probability that one of the two is in, or both.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If the prior of the model has no kernels that are out, `by` asks for views that precomputed kernels do not
        have, or `fdr` is not strictly between 0 and 1.

    Warns
    -----
    UserWarning
        Once, if one of such two is in with a probability of more than ``1 - fdr``, and neither is selected: the data
        do not tell which.

    See Also
    --------
    bayesmkl.gp.SpikeSlabWeights : The prior.
    relevance : What predictions lose without a view.

    Notes
    -----
    The expected part of false ones is that of the posterior (Newton et al. 2004): right where the prior and the model
    are. How many groups matter is learned, so that many that do not matter make each of them less probable.

    References
    ----------
    M. A. Newton, A. Noueiry, D. Sarkar and P. Ahlquist (2004), Detecting differential gene expression with a
    semiparametric hierarchical mixture method, Biostatistics 5, 155-176.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import inclusion_table
    >>> X = np.random.default_rng(0).normal(size=(60, 6))
    >>> bank = KernelBank(["linear"], views={f"view{k}": k for k in range(6)})
    >>> model = GPMKLRegressor(bank, kernel_prior="spike-slab").fit(X, X[:, 2] + 0.5 * X[:, 0])
    >>> table = inclusion_table(model)
    >>> print(table[table["selected"]][["view", "prob_included"]].round(1).to_string(index=False))
     view  prob_included
    view2            1.0
    view0            1.0
    """
    fdr = check_probability("fdr", fdr)
    fitted = fitted_bemkl(model)
    if by is not None:
        check_choice("by", by, ("view", "kernel"))
    groups = fitted.kernel_groups(by)
    by_view = groups is not fitted.kernel_names
    names, members = np.unique(groups, return_inverse=True)
    if not by_view:  # in their own order, each its own group
        names, members = np.array(groups, dtype=object), np.arange(len(groups))
    tables, unclear = [], []
    for k in range(len(fitted.states)):
        inside = (_included(fitted, k).astype(float) @ np.eye(len(names))[members]) > 0.5
        shares = np.bincount(members, weights=np.atleast_2d(fitted.estimator.kernel_shares_)[k])
        table, pairs = _table(fitted, inside, names.tolist(), shares, fdr, "view" if by_view else "kernel")
        if fitted.class_names is not None:
            table.insert(0, fitted.output_kind, fitted.class_names[k])
        tables.append(table)
        unclear += pairs
    if unclear:
        named = "; ".join(f"{a!r} and {b!r} ({either:.2f})" for a, b, either in unclear[:MOST_NAMED])
        more = f", and {len(unclear) - MOST_NAMED} more pairs" if len(unclear) > MOST_NAMED else ""
        kinds = "views" if by_view else "kernels"
        warn_user(
            f"The data do not tell which of two {kinds} is in the model, only that one is: {named}{more}. Read them "
            "together, or put their kernels into one view.",
            UserWarning,
        )
    table = pd.concat(tables, ignore_index=True)
    table.attrs.update(inference=fitted.inference, fdr=fdr)
    return table


def _included(fitted: FittedBEMKL, k: int) -> np.ndarray:
    """Return which kernels are in, in every draw of a model, (n_draws, n_kernels)."""
    found = fitted.included(k)
    if found is None:
        name = type(fitted.estimator).__name__
        how = 'kernel_prior="spike-slab"' + ("" if fitted.is_marginal else ' and inference="nuts"')
        raise ValueError(
            f"`model` must have a prior under which kernels can be out of the model; got a {name} whose kernels are "
            f"all in. Fit it with {how}."
        )
    return found


def _table(
    fitted: FittedBEMKL, inside: np.ndarray, names: list[str], shares: np.ndarray, fdr: float, kind: str
) -> tuple[pd.DataFrame, list[tuple[str, str, float]]]:
    """Return the rows of one model, and pairs of names of which one is in, with the probability that one is."""
    values = inside.astype(float)
    probability = values.mean(axis=0)
    order = np.argsort(-probability, kind="stable")
    expected = np.cumsum(1.0 - probability[order]) / np.arange(1, len(order) + 1)
    other, either = _alternatives(values)
    columns = {
        kind: np.array(names, dtype=object)[order],
        "prob_included": probability[order],
        "prob_mcse": monte_carlo_errors(fitted, values, 0.03)["mean_mcse"][order],
        "share": shares[order],
        "fdr": expected,
        "selected": expected <= fdr,
        "alternative": [None if other[i] < 0 else names[other[i]] for i in order],
        "prob_either": np.where(other[order] < 0, np.nan, either[order]),
    }
    selected = set(order[expected <= fdr].tolist())
    pairs = {
        (min(i, int(other[i])), max(i, int(other[i])))
        for i in range(len(names))
        if other[i] >= 0 and either[i] > 1.0 - fdr and not {i, int(other[i])} & selected
    }
    unclear = [(names[i], names[j], float(np.mean(inside[:, i] | inside[:, j]))) for i, j in sorted(pairs)]
    return pd.DataFrame(columns), unclear


def _alternatives(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each column the one that is in wherever it is not, or -1, and how often one of both is."""
    outside = 1.0 - values
    neither, apart = outside.T @ outside / len(values), np.outer(outside.mean(axis=0), outside.mean(axis=0))
    excess = np.where((apart > LEAST) & (neither < RARELY * apart), apart - neither, 0.0)
    np.fill_diagonal(excess, 0.0)
    other, rows = excess.argmax(axis=1), np.arange(len(excess))
    return np.where(excess[rows, other] > 0.0, other, -1), 1.0 - neither[rows, other]
