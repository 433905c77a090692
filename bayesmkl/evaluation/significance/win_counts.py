"""Win-tie-loss tables: numbers of data sets on which one model is better than another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pandas as pd

from bayesmkl._utils.validation import check_choice
from bayesmkl.evaluation.significance.pairwise_table import pairwise


def wins(
    scores: pd.DataFrame,
    test: str = "paired_t",
    *,
    test_train_ratio: float | Mapping[Any, float] | None = None,
    greater_is_better: bool = True,
    correction: str | None = None,
    rope: float = 0.01,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Count on how many data sets each model is significantly better and worse than each other one.

    Parameters
    ----------
    scores : DataFrame
        A column per model; rows (dataset, split), or the splits of one data set.
    test : {"paired_t", "corrected_t", "wilcoxon", "bayesian"}, default="paired_t"
        Test over the splits of each data set. The paired t-test is the one in published tables; it takes splits
        as independent and so finds more wins and losses than there are, which "corrected_t" does not.
    test_train_ratio : float or mapping of data set to float, default=None
        Size of a test set relative to its training set, needed by "corrected_t" and "bayesian".
    greater_is_better : bool, default=True
        Whether the larger score is the better one.
    correction : {"holm", None}, default=None
        Whether p-values are corrected for the number of pairs (of one data set).
    rope : float, default=0.01
        Half width of the region of practical equivalence of "bayesian", in the unit of the scores.
    alpha : float, default=0.05
        Level of significance.

    Returns
    -------
    DataFrame
        A row per ordered pair: ``model``, ``opponent``, ``wins``, ``ties`` and ``losses`` of the model, and
        ``untested``, the data sets where one of the two has no result.

    Raises
    ------
    TypeError
        If `scores` is no DataFrame.
    ValueError
        If `test` is none of those above, and as :func:`pairwise` raises.
    ImportError
        For "bayesian", if ``bayesmkl[compare]`` is not installed.

    See Also
    --------
    win_matrix : The same as a square table to read.
    win_totals : Sums over all opponents.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import win_matrix, win_totals, wins
    >>> index = pd.MultiIndex.from_product([["one", "two"], [0, 1, 2]], names=["dataset", "split"])
    >>> scores = pd.DataFrame(
    ...     {"A": [0.9, 0.8, 0.85, 0.7, 0.6, 0.8], "B": [0.8, 0.71, 0.74, 0.7, 0.8, 0.6]}, index=index)
    >>> table = wins(scores)
    >>> win_matrix(table)
    opponent      A      B
    model
    A             —  1-1-0
    B         0-1-1      —
    >>> win_totals(table)
           wins  ties  losses  untested  win_rate
    model
    A         1     1       0         0       0.5
    B         0     1       1         0       0.0
    """
    test = check_choice("test", test, ("paired_t", "corrected_t", "wilcoxon", "bayesian"))
    table = pairwise(
        scores,
        test,
        test_train_ratio=test_train_ratio,
        greater_is_better=greater_is_better,
        over="splits",
        correction=correction,
        rope=rope,
        alpha=alpha,
    )
    pairs = list(itertools.permutations(scores.columns, 2))
    forth = table.rename(columns={"first": "model", "second": "opponent"})
    back = table.rename(columns={"second": "model", "first": "opponent"})
    both = pd.concat([forth, back])[["model", "opponent", "difference", "better"]]
    counted = pd.DataFrame(
        {
            "model": both["model"],
            "opponent": both["opponent"],
            "wins": both["better"] == both["model"],
            "ties": both["difference"].notna() & (both["better"] == ""),
            "losses": both["better"] == both["opponent"],
            "untested": both["difference"].isna(),
        }
    )
    counts = counted.groupby(["model", "opponent"]).sum().astype(int).loc[pairs].reset_index()
    counts.attrs = table.attrs
    return counts


def win_matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Write the counts of :func:`wins` as a square table.

    Parameters
    ----------
    table : DataFrame
        Result of :func:`wins`, a row per ordered pair of models.

    Returns
    -------
    DataFrame of shape (n_models, n_models)
        "wins-ties-losses" of the model of the row against that of the column.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import win_matrix, wins
    >>> table = wins(pd.DataFrame({"A": [0.9, 0.8, 0.9], "B": [0.5, 0.5, 0.4], "C": [0.9, 0.8, 0.8]}))
    >>> win_matrix(table)
    opponent      A      B      C
    model
    A             —  1-0-0  0-1-0
    B         0-0-1      —  0-0-1
    C         0-1-0  1-0-0      —
    """
    text = table.assign(text=[f"{w}-{t}-{l}" for w, t, l in table[["wins", "ties", "losses"]].to_numpy()])
    order = table["model"].unique()
    return text.pivot(index="model", columns="opponent", values="text").loc[order, order].fillna("—")


def win_totals(table: pd.DataFrame) -> pd.DataFrame:
    """Sum the counts of :func:`wins` over opponents.

    Parameters
    ----------
    table : DataFrame
        Result of :func:`wins`, a row per ordered pair of models.

    Returns
    -------
    DataFrame
        A row per model: ``wins``, ``ties``, ``losses``, ``untested`` and ``win_rate``, the share of wins, the highest
        first.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import win_totals, wins
    >>> table = wins(pd.DataFrame({"A": [0.9, 0.8, 0.9], "B": [0.5, 0.5, 0.4], "C": [0.9, 0.8, 0.8]}))
    >>> win_totals(table)
           wins  ties  losses  untested  win_rate
    model
    A         1     1       0         0       0.5
    C         1     1       0         0       0.5
    B         0     0       2         0       0.0
    """
    totals = table.groupby("model", sort=False)[["wins", "ties", "losses", "untested"]].sum()
    tested = totals[["wins", "ties", "losses"]].sum(axis=1)
    return totals.assign(win_rate=totals["wins"] / tested).sort_values(
        "win_rate", ascending=False, kind="stable"
    )
