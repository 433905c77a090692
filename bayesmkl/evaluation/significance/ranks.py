"""Tests of several models over several data sets, by the ranks of their scores.

With R_j the mean rank of model j of k over N data sets (1 is best):

    Friedman          χ² = 12 N / (k (k + 1)) (Σ_j R_j² - k (k + 1)² / 4), divided by 1 - Σ (t³ - t) / (N k (k² - 1))
                      for ties of t models; χ² with k - 1 degrees of freedom
    Iman, Davenport   F = (N - 1) χ² / (N (k - 1) - χ²); F with k - 1 and (k - 1)(N - 1) degrees of freedom
    Nemenyi           two models differ where |R_i - R_j| > q sqrt(k (k + 1) / (6 N)), q the quantile of the
                      studentized range divided by sqrt(2)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from bayesmkl._utils.extras import require
from bayesmkl._utils.validation import check_flag, check_integer, check_number, shown

SAME = 12  # significant digits up to which two scores are a tie


class Blocks(NamedTuple):
    """Scores with one row per data set (or split), of the models that have a result in each of them."""

    scores: pd.DataFrame
    left_out: dict[Any, str]  # models, and why


class FriedmanTest(NamedTuple):
    """Result of a test that several models rank the same on average.

    Parameters
    ----------
    n_models : int
        Models that were compared.
    n_datasets : int
        Data sets over which they were.
    mean_ranks : Series of shape (n_models,)
        By model, the best first; 1 is best.
    statistic : float
        Friedman's chi-squared, corrected for ties.
    p_value : float
        Of `statistic`.
    f_statistic : float
        Iman and Davenport's less conservative form.
    f_p_value : float
        Of `f_statistic`.
    left_out : dict
        Models without a result somewhere, and where.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import friedman
    >>> result = friedman(pd.DataFrame({"A": [0.9, 0.8], "B": [0.8, 0.7], "C": [0.7, 0.6], "D": [0.9, None]}))
    >>> result.n_models, result.n_datasets, result.statistic, result.left_out
    (3, 2, 4.0, {'D': 'no result in 1 of 2'})
    """

    n_models: int
    n_datasets: int
    mean_ranks: pd.Series  # by model; 1 is best
    statistic: float  # Friedman's chi-squared, corrected for ties
    p_value: float
    f_statistic: float  # Iman and Davenport's less conservative form
    f_p_value: float
    left_out: dict[Any, str]  # models without a result somewhere, and where


def friedman(scores: pd.DataFrame, greater_is_better: bool = True) -> FriedmanTest:
    """Test whether several models rank the same on average over several data sets.

    Parameters
    ----------
    scores : DataFrame
        A column per model, a row per data set. With a two-level index (dataset, split) scores are averaged over the
        splits first. Models without a finite score in some row are left out, and named in the result.
    greater_is_better : bool, default=True
        Whether the largest score has rank 1.

    Returns
    -------
    FriedmanTest
        ``mean_ranks``; ``statistic`` and ``p_value`` of Friedman's test (``scipy.stats.friedmanchisquare``);
        ``f_statistic`` and ``f_p_value`` of Iman and Davenport's form, which is less conservative; ``left_out``.

    Raises
    ------
    TypeError
        If `scores` is no DataFrame.
    ValueError
        If fewer than three models or two data sets remain, or `scores` does not hold numbers.

    References
    ----------
    .. [1] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
       Research 7, 2006.
    .. [2] R. L. Iman and J. M. Davenport, "Approximations of the critical region of the Friedman statistic",
       Communications in Statistics 9, 1980.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import friedman
    >>> scores = pd.DataFrame({"A": [0.9, 0.8, 0.7, 0.8], "B": [0.8, 0.7, 0.8, 0.6], "C": [0.7, 0.6, 0.6, 0.5]})
    >>> result = friedman(scores)
    >>> result.mean_ranks.to_dict(), round(result.p_value, 3)
    ({'A': 1.25, 'B': 1.75, 'C': 3.0}, 0.039)
    """
    blocks = _ranked_blocks(scores, greater_is_better, "Friedman's test")
    ranks = blocks.scores
    n, k = ranks.shape
    if (ranks == ranks.iloc[0, 0]).all(axis=None):  # all models alike in every row
        chi_squared, p_value = 0.0, 1.0
    else:
        result = stats.friedmanchisquare(*ranks.to_numpy().T)
        chi_squared, p_value = float(result.statistic), float(result.pvalue)
    room = n * (k - 1) - chi_squared  # zero where all data sets agree
    f = (n - 1) * chi_squared / room if room > 1e-9 else math.inf
    f_p_value = float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
    return FriedmanTest(k, n, ranks.mean().sort_values(), chi_squared, p_value, f, f_p_value, blocks.left_out)


def nemenyi(scores: pd.DataFrame, greater_is_better: bool = True) -> pd.DataFrame:
    """Compare all pairs of models by their mean ranks over data sets, after Friedman's test.

    Parameters
    ----------
    scores : DataFrame
        A column per model, a row per data set; see :func:`friedman`.
    greater_is_better : bool, default=True
        Whether the largest score has rank 1.

    Returns
    -------
    DataFrame
        P-values, of shape (n_models, n_models), for all pairs at once (``scikit_posthocs.posthoc_nemenyi_friedman``),
        without the models that have no result in some row.

    Raises
    ------
    ImportError
        If scikit-posthocs is not installed; it is part of ``bayesmkl[compare]``.
    TypeError
        If `scores` is no DataFrame.
    ValueError
        If fewer than three models or two data sets remain, or `scores` does not hold numbers.

    References
    ----------
    .. [1] P. Nemenyi, "Distribution-free multiple comparisons", PhD thesis, Princeton University, 1963.
    .. [2] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
       Research 7, 2006.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import nemenyi
    >>> scores = pd.DataFrame({"A": [0.9, 0.8, 0.7, 0.8], "B": [0.8, 0.7, 0.8, 0.6], "C": [0.7, 0.6, 0.6, 0.5]})
    >>> round(float(nemenyi(scores).loc["A", "C"]), 3)
    0.036
    """
    ranks = _ranked_blocks(scores, greater_is_better, "Nemenyi's test").scores
    posthocs = require("scikit_posthocs", "scikit-posthocs", "Nemenyi's test")
    table = posthocs.posthoc_nemenyi_friedman(ranks.to_numpy())
    return pd.DataFrame(table.to_numpy().clip(0.0, 1.0), index=ranks.columns, columns=ranks.columns)


def critical_difference(n_models: int, n_datasets: int, alpha: float = 0.05) -> float:
    r"""Return the difference of mean ranks from which on two models differ, by Nemenyi's test.

    .. math:: \mathrm{CD} = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    Parameters
    ----------
    n_models : int
        Number of models :math:`k`.
    n_datasets : int
        Number of data sets :math:`N`.
    alpha : float, default=0.05
        Level of the test, for all pairs at once.

    Returns
    -------
    float
        In ranks.

    Raises
    ------
    ValueError
        If `n_models` is not a whole number of at least 2 or `n_datasets` of at least 1, or `alpha` is not strictly
        between 0 and 1.

    References
    ----------
    .. [1] P. Nemenyi, "Distribution-free multiple comparisons", PhD thesis, Princeton University, 1963.
    .. [2] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
       Research 7, 2006.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import critical_difference
    >>> round(critical_difference(n_models=4, n_datasets=14), 2)
    1.25
    """
    k, n = check_integer("n_models", n_models, low=2), check_integer("n_datasets", n_datasets, low=1)
    quantile = stats.studentized_range.ppf(1.0 - check_level(alpha), k, np.inf) / math.sqrt(2.0)
    return float(quantile * math.sqrt(k * (k + 1) / (6.0 * n)))


def rank_table(scores: pd.DataFrame, greater_is_better: bool = True) -> pd.DataFrame:
    """Rank the models in each data set and summarize their ranks.

    Parameters
    ----------
    scores : DataFrame
        A column per model, a row per data set. With a two-level index (dataset, split), scores are averaged over the
        splits of each data set first where there are several data sets; splits are ranked where there is one.
    greater_is_better : bool, default=True
        Whether the largest score has rank 1.

    Returns
    -------
    DataFrame
        A row per model, the best first: ``mean_rank``, ``times_best`` (first, or equal to it), ``times_worst``,
        ``n`` (data sets, or splits) and ``note``. Models without a finite score somewhere come last, unranked.

    Raises
    ------
    TypeError
        If `scores` is no DataFrame.
    ValueError
        If `scores` does not hold numbers, with a name of its own for every column, or none of them is finite.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import rank_table
    >>> scores = pd.DataFrame({"A": [0.9, 0.8, 0.7], "B": [0.8, 0.8, 0.6], "C": [0.7, 0.6, float("nan")]})
    >>> rank_table(scores)[["mean_rank", "times_best", "note"]]
       mean_rank  times_best               note
    A   1.166667           3
    B   1.833333           1
    C        NaN           0  no result in 1 of 3
    """
    check_table(scores)
    if scores.empty or not np.isfinite(scores.to_numpy(dtype=float)).any():
        raise ValueError("`scores` must hold at least one finite score; got none.")
    blocks = blocks_of(scores)
    ranks = ranks_of(blocks.scores, greater_is_better)
    table = pd.DataFrame(
        {
            "mean_rank": ranks.mean(),
            "times_best": ranks.eq(ranks.min(axis=1), axis=0).sum(),
            "times_worst": ranks.eq(ranks.max(axis=1), axis=0).sum(),
        }
    ).sort_values("mean_rank", kind="stable")
    table = table.reindex([*table.index, *blocks.left_out])
    counts = ["times_best", "times_worst"]
    table[counts] = table[counts].fillna(0).astype(int)
    return table.assign(n=len(ranks), note=[blocks.left_out.get(model, "") for model in table.index])


def blocks_of(scores: pd.DataFrame) -> Blocks:
    """Return one row per data set (or per split of the only data set), and the models that have them all."""
    check_table(scores)
    several = scores.index.nlevels > 1 and scores.index.get_level_values(0).nunique() > 1
    scores = scores.where(np.isfinite(scores)).dropna(how="all")
    if several:
        missing = scores.isna().groupby(level=0, sort=False).any()
        scores = scores.groupby(level=0, sort=False).mean().mask(missing)
    n_missing = scores.isna().sum()
    left_out = {
        model: f"no result in {count} of {len(scores)}" for model, count in n_missing.items() if count
    }
    return Blocks(scores.loc[:, n_missing == 0], left_out)


def check_table(scores: object) -> None:
    """Check that scores are a table of numbers with one column per model."""
    if not isinstance(scores, pd.DataFrame):
        raise TypeError(f"`scores` must be a DataFrame with a column per model; got {shown(scores)}.")
    if not scores.columns.is_unique:
        raise ValueError(f"`scores` must have columns of different names; got {list(scores.columns)}.")
    if not all(kind.kind in "biuf" for kind in map(np.dtype, map(_plain, scores.dtypes))):
        raise ValueError("`scores` must hold numbers, NaN where a model failed; got other columns.")


def _plain(dtype: object) -> Any:
    return dtype if isinstance(dtype, np.dtype) else object


def ranks_of(scores: pd.DataFrame, greater_is_better: bool) -> pd.DataFrame:
    """Rank the models in each row, 1 for the best; scores that agree to twelve digits share their mean rank."""
    check_flag("greater_is_better", greater_is_better)
    scale = scores.abs().max(axis=1)
    scaled = scores.div(scale.where(scale > 0.0, 1.0), axis=0).round(SAME)
    return scaled.rank(axis=1, ascending=not greater_is_better)


def check_level(alpha: float) -> float:
    """Return `alpha` if it lies between 0 and 1."""
    if check_number("alpha", alpha, low=0.0) >= 1.0:
        raise ValueError(f"`alpha` must be below 1; got {alpha:g}. 5 % is 0.05.")
    return float(alpha)


def _ranked_blocks(scores: pd.DataFrame, greater_is_better: bool, test: str) -> Blocks:
    """Return the ranks of models over data sets; raise where there are too few of either."""
    blocks = blocks_of(scores)
    n_datasets = blocks.scores.index.get_level_values(0).nunique()
    if n_datasets < 2:
        raise ValueError(
            f"`scores`: {test} compares models over at least 2 data sets; got {n_datasets}. Splits of one data set "
            'overlap and do not count as data sets: use test="corrected_t" there, or compare on more data sets.'
        )
    if blocks.scores.shape[1] < 3:
        out = "".join(f"; left out: {model} ({why})" for model, why in blocks.left_out.items())
        raise ValueError(
            f"`scores`: {test} compares at least 3 models; got {blocks.scores.shape[1]} with all results{out}. Use "
            'test="wilcoxon" for two.'
        )
    return Blocks(ranks_of(blocks.scores, greater_is_better), blocks.left_out)
