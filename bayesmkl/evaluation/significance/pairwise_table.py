"""All pairs of models, compared by a test: one table in the same form for every test."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.validation import check_choice, check_flag, check_number, shown
from bayesmkl.evaluation.significance.mixed_effects import bayesian_mixed_effects
from bayesmkl.evaluation.significance.pairs import bayesian_correlated_t, corrected_t, paired_t, wilcoxon
from bayesmkl.evaluation.significance.ranks import (
    blocks_of,
    check_level,
    check_table,
    critical_difference,
    friedman,
    nemenyi,
)

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
    if test == "nemenyi":
        return _nemenyi_pairs(scores, pairs, options)
    if test == "mixed_effects":
        return _mixed_effects_pairs(scores, pairs, options, test_train_ratio)
    if over == "datasets":  # `_tested` averages over their splits
        groups: dict[Any, pd.DataFrame] = {ALL_DATASETS: scores}
    elif scores.index.nlevels > 1:
        groups = {name: group.droplevel(0) for name, group in scores.groupby(level=0, sort=False)}
    else:
        groups = {"": scores}
    parts = [
        _tested(group, pairs, options, _ratio(test_train_ratio, name, test)).assign(dataset=name)
        for name, group in groups.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    return _with_attributes(table[["dataset", *table.columns.drop("dataset")]], options, over)


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


def _tested(
    scores: pd.DataFrame, pairs: list[tuple[Any, Any]], options: Options, ratio: float | None
) -> pd.DataFrame:
    """Test the pairs over the rows of one table."""
    blocks = blocks_of(scores)
    n, values = len(blocks.scores), {model: blocks.scores[model].to_numpy() for model in blocks.scores}
    if n < 2 <= len(scores):
        rows = [_untested(pair, f"no results but in {n} row{'s' * (n != 1)}") for pair in pairs]
    else:
        rows = [
            _untested(pair, reason)
            if (reason := _reason(pair, blocks.left_out))
            else _named(pair) | _result(values[pair[0]], values[pair[1]], options, ratio)
            for pair in pairs
        ]
    bayesian = options.test == "bayesian"
    columns = ["p_first", "p_equivalent", "p_second"] if bayesian else ["p_value"]
    table = pd.DataFrame(rows, columns=[*COMMON, *columns, "note"])
    if bayesian:
        return _with_better(table, table["p_first"], table["p_second"], 1.0 - options.alpha)
    adjusted = holm(table["p_value"]) if options.correction else table["p_value"]
    table.insert(len(table.columns) - 1, "p_adjusted", adjusted)
    return _with_significant(table, options.alpha, options.greater_is_better)


def _result(first: np.ndarray, second: np.ndarray, options: Options, ratio: float | None) -> dict[Any, Any]:
    confidence = 1.0 - options.alpha
    if options.test == "bayesian":
        result = bayesian_correlated_t(first, second, float(ratio or 0.0), options.rope, confidence)
        return _of_better(result._asdict(), options)
    if options.test == "wilcoxon":
        few = f"{len(first)} pairs are too few for p < {2.0 ** (1 - len(first)):.3g}"
        note = few if len(first) < SMALLEST_SAMPLE else ""
        return wilcoxon(first, second)._asdict() | {"note": note}
    if options.test == "corrected_t":
        tested = corrected_t(first, second, float(ratio or 0.0), confidence)
    else:
        tested = paired_t(first, second, confidence)
    constant = math.isinf(tested.statistic)
    return tested._asdict() | {"note": "the same difference in every split" if constant else ""}


def _nemenyi_pairs(scores: pd.DataFrame, pairs: list[tuple[Any, Any]], options: Options) -> pd.DataFrame:
    """Return Nemenyi's p-values in the form of the other tests; differences are of mean ranks."""
    tested = friedman(scores, options.greater_is_better)
    p_values = nemenyi(scores, options.greater_is_better)
    distance = critical_difference(tested.n_models, tested.n_datasets, options.alpha)
    rows: list[dict[Any, Any]] = []
    for pair in pairs:
        if reason := _reason(pair, tested.left_out):
            rows.append(_untested(pair, reason))
            continue
        difference = tested.mean_ranks[pair[0]] - tested.mean_ranks[pair[1]]
        p_value = p_values.loc[pair[0], pair[1]]
        interval = {"lower": difference - distance, "upper": difference + distance}
        result = {"n": tested.n_datasets, "difference": difference, "p_value": p_value, "p_adjusted": p_value}
        rows.append(_named(pair) | result | interval | {"note": ""})
    table = pd.DataFrame(rows, columns=[*COMMON, "p_value", "p_adjusted", "note"])
    table.insert(0, "dataset", ALL_DATASETS)
    table = _with_significant(table, options.alpha, greater_is_better=False)
    return _with_attributes(table, options, "datasets")


def _mixed_effects_pairs(
    scores: pd.DataFrame, pairs: list[tuple[Any, Any]], options: Options, ratios: Any
) -> pd.DataFrame:
    """Compare over data sets and splits at once."""
    scores = scores.where(np.isfinite(scores)).dropna(how="all")
    of_rows = scores.index.get_level_values(0)
    ratio = {name: float(_ratio(ratios, name, options.test) or 0.0) for name in of_rows.unique()}
    missing = scores.isna().sum()
    left_out = {name: f"no result in {n} of {len(scores)} splits" for name, n in missing.items() if n}
    rows: list[dict[Any, Any]] = []
    for pair in pairs:
        if reason := _reason(pair, left_out):
            rows.append(_untested(pair, reason))
            continue
        first, second = (scores[model].to_numpy() for model in pair)
        found = bayesian_mixed_effects(first, second, of_rows, ratio, options.rope, 1.0 - options.alpha)
        rows.append(_named(pair) | _of_better(found._asdict(), options))
    columns = [*COMMON, "between", "p_first", "p_equivalent", "p_second", "note"]
    table = pd.DataFrame(rows, columns=columns)
    table.insert(0, "dataset", ALL_DATASETS)
    table = _with_better(table, table["p_first"], table["p_second"], 1.0 - options.alpha)
    return _with_attributes(table, options, "datasets")


def _of_better(found: dict[Any, Any], options: Options) -> dict[Any, Any]:
    """Return probabilities of being larger as those of being better, and say where neither is."""
    if not options.greater_is_better:
        found["p_first"], found["p_second"] = found["p_second"], found["p_first"]
    return found | {"note": "equivalent" if found["p_equivalent"] > 1.0 - options.alpha else ""}


def _with_significant(table: pd.DataFrame, alpha: float, greater_is_better: bool) -> pd.DataFrame:
    advantage = table["difference"] if greater_is_better else -table["difference"]
    significant = table["p_adjusted"] < alpha
    return _with_better(table, significant & (advantage > 0.0), significant & (advantage < 0.0), 0.5)


def _with_better(table: pd.DataFrame, first: pd.Series, second: pd.Series, level: float) -> pd.DataFrame:
    better = table["first"].where(first > level, table["second"].where(second > level, ""))
    table.insert(len(table.columns) - 1, "better", better)
    return table


def _with_attributes(table: pd.DataFrame, options: Options, over: str) -> pd.DataFrame:
    """Remember how the table was made."""
    made: dict[Any, Any] = {"over": over, **options._asdict()}
    table.attrs = made
    return table


def _reason(pair: tuple[Any, Any], left_out: Mapping[Any, str]) -> str:
    """Return the reason why a pair cannot be compared; "" if it can."""
    return "; ".join(f"{model}: {left_out[model]}" for model in pair if model in left_out)


def _untested(pair: tuple[Any, Any], note: str) -> dict[Any, Any]:
    return _named(pair) | {"n": 0, "note": note}


def _named(pair: tuple[Any, Any]) -> dict[Any, Any]:
    return {"first": pair[0], "second": pair[1]}
