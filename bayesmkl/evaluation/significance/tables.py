"""Tests of all pairs of models, win-tie-loss tables, and tests of several models by the ranks of their scores.

With R_j the mean rank of model j of k over N data sets (1 is best):

    Friedman          χ² = 12 N / (k (k + 1)) (Σ_j R_j² - k (k + 1)² / 4), divided by 1 - Σ (t³ - t) / (N k (k² - 1))
                      for ties of t models; χ² with k - 1 degrees of freedom
    Iman, Davenport   F = (N - 1) χ² / (N (k - 1) - χ²); F with k - 1 and (k - 1)(N - 1) degrees of freedom
    Nemenyi           two models differ where |R_i - R_j| > q sqrt(k (k + 1) / (6 N)), q the quantile of the
                      studentized range divided by sqrt(2)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from bayesmkl._utils.extras import require
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, check_number, shown
from bayesmkl.evaluation.significance.pairs import (
    bayesian_correlated_t,
    bayesian_mixed_effects,
    corrected_t,
    paired_t,
    wilcoxon,
)

SAME = 12  # significant digits up to which two scores are a tie
TESTS = {  # their names for readers
    "corrected_t": "corrected resampled t-test (Nadeau and Bengio)",
    "paired_t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "nemenyi": "Nemenyi test",
    "bayesian": "Bayesian correlated t-test",
    "mixed_effects": "Bayesian mixed-effects model",
}
OVERLAPPING = ("corrected_t", "bayesian")  # made for splits of one data set
OF_DATASETS = ("nemenyi", "mixed_effects")  # of all together
WITH_RATIO = (*OVERLAPPING, "mixed_effects")
WITH_PROBABILITIES = ("bayesian", "mixed_effects")
ALL_DATASETS = "(all)"  # in the column `dataset` of a comparison over data sets
COMMON = ("first", "second", "n", "difference", "lower", "upper")  # columns of every test
SMALLEST_SAMPLE = 6  # pairs from which on Wilcoxon's p-value can be below 0.05


class Options(NamedTuple):
    """Validated options of :func:`pairwise`."""

    test: str
    alpha: float
    correction: str | None
    greater_is_better: bool
    rope: float


def pairwise(
    scores: pd.DataFrame,
    test: str = "corrected_t",
    *,
    test_train_ratio: float | Mapping[Any, float] | None = None,
    greater_is_better: bool = True,
    against: Hashable | None = None,
    over: str | None = None,
    correction: str | None = "holm",
    rope: float = 0.01,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Compare models two by two.

    Parameters
    ----------
    scores : DataFrame
        A column per model. Rows are splits of one data set, or, with a two-level index (dataset, split), of several;
        with ``over="datasets"`` and a plain index they are data sets.
    test : str, default="corrected_t"
        "corrected_t", "paired_t", "wilcoxon", "nemenyi", "bayesian" or "mixed_effects": :func:`corrected_t`,
        :func:`paired_t`, :func:`wilcoxon`, :func:`nemenyi`, :func:`bayesian_correlated_t`,
        :func:`bayesian_mixed_effects`, which takes the splits of several data sets, at least three.
    test_train_ratio : float or mapping of data set to float, default=None
        Size of a test set relative to its training set, needed by "corrected_t", "bayesian" and
        "mixed_effects".
    greater_is_better : bool, default=True
        Whether the larger score is the better one.
    against : object, default=None
        Compare only with this model, a column of `scores`; it becomes ``second``. None compares all pairs.
    over : {"splits", "datasets"}, default=None
        Whether pairs are compared on each data set over its splits, or once over the means of all data sets. None
        means "splits" for the t-tests, "datasets" for "nemenyi" and "mixed_effects", and for "wilcoxon" where there
        are several.
    correction : {"holm", None}, default="holm"
        Correct p-values for the number of pairs (of one data set) by :func:`holm`. Nemenyi's test does so itself, and
        the Bayesian ones need none.
    rope : float, default=0.01
        Half width of the region of practical equivalence of "bayesian" and "mixed_effects", in units of the scores.
    alpha : float, default=0.05
        Level of significance: decides ``better`` and the width 1 - alpha of the intervals.

    Returns
    -------
    DataFrame
        A row per pair (and data set): ``dataset``; ``first``, ``second``; ``n`` pairs of scores; ``difference`` of
        the mean scores, first - second (with "nemenyi" of the mean ranks, so that the negative one is better);
        ``lower``, ``upper``, its interval for this pair alone (with "nemenyi" for all pairs, with "wilcoxon" NaN);
        ``p_value`` and ``p_adjusted``, or with "bayesian" ``p_first`` (the first model is better by more than
        `rope`), ``p_equivalent`` and ``p_second``; ``better``, the name of the significantly better model (with
        "bayesian" the one that is better with a probability above 1 - alpha) or ""; ``note``. With "mixed_effects"
        the probabilities are those of a further data set, and ``between`` is the standard deviation of the
        difference between data sets. Where a model has no
        result in some row, its pairs have NaN and a note that says so.

    Raises
    ------
    TypeError
        If `scores` is no DataFrame.
    ValueError
        If `scores` does not hold numbers of at least two models with names of their own; for a `test`, `over` or
        `correction` that is not known, or does not go with the others; if `against` is no column; if
        `test_train_ratio` is needed and not given; if `rope` is negative, or `alpha` not strictly between 0 and 1;
        for "nemenyi", if there are fewer than three models or two data sets; for "mixed_effects", fewer than three
        data sets, or one of a single split.
    ImportError
        For "nemenyi" and "bayesian", if ``bayesmkl[compare]`` is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.evaluation.significance import pairwise
    >>> scores = pd.DataFrame({"A": [0.91, 0.93, 0.92, 0.94, 0.93], "B": [0.85, 0.86, 0.88, 0.86, 0.87],
    ...                        "C": [0.90, 0.94, 0.91, 0.93, 0.95]})
    >>> table = pairwise(scores, test_train_ratio=1 / 4)
    >>> table[["first", "second", "difference", "p_adjusted", "better"]].round(3)
      first second  difference  p_adjusted better
    0     A      B       0.062       0.010      A
    1     A      C       0.000       1.000
    2     B      C      -0.062       0.026      C
    """
    check_table(scores)
    check_flag("greater_is_better", greater_is_better)
    check_number("rope", rope, low=0.0, inclusive=True)
    options = Options(
        check_choice("test", test, tuple(TESTS)), check_level(alpha), correction, greater_is_better, rope
    )
    if correction not in ("holm", None):
        raise ValueError(f"`correction` must be 'holm' or None; got {correction!r}.")
    pairs = _pairs(scores, against)
    over = _unit(scores, test, over)
    if over == "datasets":
        groups: dict[Any, pd.DataFrame] = {ALL_DATASETS: scores}
    elif scores.index.nlevels > 1:
        groups = {name: group.droplevel(0) for name, group in scores.groupby(level=0, sort=False)}
    else:
        groups = {"": scores}
    parts = [
        _compared(group, pairs, options, test_train_ratio, name).assign(dataset=name)
        for name, group in groups.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    table = table[["dataset", *table.columns.drop("dataset")]]
    made: dict[Any, Any] = {"over": over, **options._asdict()}
    table.attrs = made
    return table


def holm(p_values: ArrayLike) -> np.ndarray:
    """Correct p-values for their number by Holm's step-down procedure.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        From 0 to 1; NaN is no test.

    Returns
    -------
    ndarray of shape (n_tests,)
        Corrected p-values, at most 1; NaN stays NaN.

    Raises
    ------
    ValueError
        If `p_values` is not a list of numbers from 0 to 1.
    TypeError
        If it is sparse, or holds other objects than numbers.

    References
    ----------
    S. Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p_values = check_numbers("p_values", p_values).astype(float)
    if p_values.ndim != 1 or ((p_values < 0.0) | (p_values > 1.0)).any():
        raise ValueError(f"`p_values` must be a list of numbers from 0 to 1; got {shown(p_values)}.")
    adjusted = np.full(p_values.shape, np.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    ordered = tested[np.argsort(p_values[tested], kind="stable")]
    steps = p_values[ordered] * np.arange(len(ordered), 0, -1)
    adjusted[ordered] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _pairs(scores: pd.DataFrame, against: Hashable) -> list[tuple[Any, Any]]:
    models = list(scores.columns)
    if len(models) < 2 or len(set(models)) < len(models):
        raise ValueError(
            f"`scores` must have a column for each of two or more different models; got {models}."
        )
    if against is None:
        return list(itertools.combinations(models, 2))
    if against not in models:
        raise ValueError(f"`against` must be a model of the comparison, {models}; got {against!r}.")
    return [(model, against) for model in models if model != against]


def _unit(scores: pd.DataFrame, test: str, over: str | None) -> str:
    """Return the unit of the pairs of scores of a test: "splits" or "datasets"."""
    n_datasets = scores.index.get_level_values(0).nunique() if scores.index.nlevels > 1 else 1
    if over is None:
        return "datasets" if test in OF_DATASETS or (test == "wilcoxon" and n_datasets > 1) else "splits"
    over = check_choice("over", over, ("splits", "datasets"))
    if over == "datasets" and scores.index.nlevels > 1 and n_datasets < 2:
        raise ValueError(
            '`over`: a comparison over data sets needs at least two; got one. Use over="splits".'
        )
    if over == "datasets" and test in OVERLAPPING:
        raise ValueError(
            f'`over`: test="{test}" corrects for overlapping splits of one data set, and data sets do not overlap. '
            'Use test="wilcoxon", "nemenyi" or "mixed_effects" over data sets.'
        )
    if over == "splits" and test in OF_DATASETS:
        raise ValueError(
            f'`over`: test="{test}" needs independent data sets. Use test="corrected_t" over splits.'
        )
    return over


def _ratio(ratios: Any, dataset: Hashable, test: str) -> float | None:
    if test not in WITH_RATIO:
        return None
    if isinstance(ratios, Mapping):
        ratios = ratios.get(dataset)
    if ratios is None:
        where = f" for data set {dataset!r}" if dataset != "" else ""
        raise ValueError(
            f'`test_train_ratio` is needed by test="{test}"{where}: the size of a test set relative to its training '
            "set, such as 1/9 for tenfold cross-validation."
        )
    return float(ratios)


# What is said of a pair; models that have no result somewhere, with the reason, are not compared.
Compared = tuple[Mapping[Any, str], Callable[[Any, Any], dict[Any, Any]]]


def _compared(
    scores: pd.DataFrame, pairs: list[tuple[Any, Any]], options: Options, ratios: Any, dataset: Hashable
) -> pd.DataFrame:
    """Compare the pairs over the rows of one table."""
    test = options.test
    if test == "nemenyi":
        left_out, compare = _by_ranks(scores, options)
    elif test == "mixed_effects":
        left_out, compare = _by_effects(scores, options, ratios)
    else:
        left_out, compare = _by_rows(scores, options, _ratio(ratios, dataset, test))
    rows = []
    for first, second in pairs:
        reason = "; ".join(f"{model}: {left_out[model]}" for model in (first, second) if model in left_out)
        found = {"n": 0, "note": reason} if reason else compare(first, second)
        rows.append({"first": first, "second": second, **found})
    probabilities = [*(["between"] if test == "mixed_effects" else []), "p_first", "p_equivalent", "p_second"]
    values = probabilities if test in WITH_PROBABILITIES else ["p_value"]
    table = pd.DataFrame(rows, columns=[*COMMON, *values, "note"])
    note = table.pop("note")
    if test in WITH_PROBABILITIES:
        is_first, is_second = (table[name] > 1.0 - options.alpha for name in ("p_first", "p_second"))
    else:
        correct = options.correction and test != "nemenyi"  # which does so itself
        table["p_adjusted"] = holm(table["p_value"]) if correct else table["p_value"]
        greater = options.greater_is_better and test != "nemenyi"  # of ranks the smaller one is better
        advantage = table["difference"] if greater else -table["difference"]
        significant = table["p_adjusted"] < options.alpha
        is_first, is_second = significant & (advantage > 0.0), significant & (advantage < 0.0)
    better = table["first"].where(is_first, table["second"].where(is_second, ""))
    return table.assign(better=better, note=note)


def _by_rows(scores: pd.DataFrame, options: Options, ratio: float | None) -> Compared:
    """Test over splits, or over the means of data sets."""
    blocks, confidence = blocks_of(scores), 1.0 - options.alpha
    n = len(blocks.scores)
    if n < 2 <= len(scores):
        return {}, lambda *_: {"n": 0, "note": f"no results but in {n} row{'s' * (n != 1)}"}

    def compare(*pair: Any) -> dict[Any, Any]:
        first, second = (blocks.scores[model].to_numpy() for model in pair)
        if options.test == "bayesian":
            return _of_better(
                bayesian_correlated_t(first, second, float(ratio or 0.0), options.rope, confidence), options
            )
        if options.test == "wilcoxon":
            few = f"{n} pairs are too few for p < {2.0 ** (1 - n):.3g}" if n < SMALLEST_SAMPLE else ""
            return wilcoxon(first, second)._asdict() | {"note": few}
        if options.test == "corrected_t":
            tested = corrected_t(first, second, float(ratio or 0.0), confidence)
        else:
            tested = paired_t(first, second, confidence)
        constant = math.isinf(tested.statistic)
        return tested._asdict() | {"note": "the same difference in every split" if constant else ""}

    return blocks.left_out, compare


def _by_ranks(scores: pd.DataFrame, options: Options) -> Compared:
    """Compare mean ranks over data sets by Nemenyi's test."""
    tested = friedman(scores, options.greater_is_better)
    p_values = nemenyi(scores, options.greater_is_better)
    distance = critical_difference(tested.n_models, tested.n_datasets, options.alpha)

    def compare(first: Any, second: Any) -> dict[Any, Any]:
        difference = tested.mean_ranks[first] - tested.mean_ranks[second]
        interval = {"lower": difference - distance, "upper": difference + distance}
        found = {"n": tested.n_datasets, "difference": difference, "p_value": p_values.loc[first, second]}
        return found | interval | {"note": ""}

    return tested.left_out, compare


def _by_effects(scores: pd.DataFrame, options: Options, ratios: Any) -> Compared:
    """Compare over data sets and splits at once."""
    scores = scores.where(np.isfinite(scores)).dropna(how="all")
    datasets = scores.index.get_level_values(0)
    ratio = {name: float(_ratio(ratios, name, options.test) or 0.0) for name in datasets.unique()}
    missing = scores.isna().sum()

    def compare(*pair: Any) -> dict[Any, Any]:
        first, second = (scores[model].to_numpy() for model in pair)
        found = bayesian_mixed_effects(first, second, datasets, ratio, options.rope, 1.0 - options.alpha)
        return _of_better(found, options)

    return {name: f"no result in {n} of {len(scores)} splits" for name, n in missing.items() if n}, compare


def _of_better(result: Any, options: Options) -> dict[Any, Any]:
    """Return probabilities of being larger as those of being better, and say where neither is."""
    found = result._asdict()
    if not options.greater_is_better:
        found["p_first"], found["p_second"] = found["p_second"], found["p_first"]
    return found | {"note": "equivalent" if found["p_equivalent"] > 1.0 - options.alpha else ""}


# ------------------------------------------------------------------------------------------------------------ wins


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


# ----------------------------------------------------------------------------------------------------------- ranks


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
