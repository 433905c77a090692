r"""Significance tests between models: pairs, several models, and win-tie-loss tables.

On one data set, models are compared over the splits they share; over several data sets, by their mean score or rank
in each. Functions take scores of two models, or a table of scores with a column per model, as ``Comparison.scores``
gives it.

Those over splits, or over data sets, look at the differences d_1, ..., d_n of paired scores. With mean d̄ and
variance s² of the differences:

    paired t (Dietterich 1998)              t = d̄ / sqrt(s² / n)
    corrected t (Nadeau and Bengio 2003)    t = d̄ / sqrt(s² (1/n + n_test/n_train))
    Bayesian correlated t (Corani and Benavoli 2015, eq. of the posterior)
                                            mean difference ~ Student(n - 1, d̄, s² (1/n + ρ/(1 - ρ)))

with ρ = n_test / (n_test + n_train) the correlation between splits, so that ρ / (1 - ρ) = n_test / n_train: the last
two rest on the same variance. Wilcoxon's test ranks the differences.

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
from scipy import special, stats

from bayesmkl._utils.extras import require
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, check_number, shown

__all__ = [
    "BayesianTest",
    "FriedmanTest",
    "PairedTest",
    "bayesian_correlated_t",
    "corrected_t",
    "critical_difference",
    "friedman",
    "holm",
    "nemenyi",
    "paired_t",
    "pairwise",
    "rank_table",
    "wilcoxon",
]

MOST_WITH_TIES = 13  # pairs up to which all signs of tied differences are tried
SAME = 1e-12  # relative to the scores: differences up to it are rounding errors
SAME_DIGITS = 12  # significant digits up to which two scores are a tie
TESTS = ("corrected_t", "paired_t", "wilcoxon", "nemenyi", "bayesian")
WITH_RATIO = ("corrected_t", "bayesian")
ALL_DATASETS = "(all)"  # in the column `dataset` of a comparison over data sets
COMMON = ("first", "second", "n", "difference", "lower", "upper")  # columns of every test
SMALLEST_SAMPLE = 6  # pairs from which on Wilcoxon's p-value can be below 0.05


class Differences(NamedTuple):
    """Differences of paired scores, with bounds on their rounding errors."""

    values: np.ndarray
    resolution: float

    def mean(self) -> float:
        """Return the mean difference, zero within the resolution."""
        mean = float(self.values.mean())
        return mean if abs(mean) > self.resolution else 0.0

    def variance(self) -> float:
        """Return the variance between splits, zero where they agree within the resolution."""
        return float(self.values.var(ddof=1)) if np.ptp(self.values) > self.resolution else 0.0

    def counts(self) -> np.ndarray:
        """Return them as whole multiples of the resolution, so that equal ones are ties."""
        return np.round(self.values / self.resolution) if self.resolution else self.values


class PairedTest(NamedTuple):
    """Result of a test that two models score the same.

    Parameters
    ----------
    n : int
        Pairs of scores.
    difference : float
        Mean of first - second, in the unit of the scores.
    lower, upper : float
        Confidence interval of the mean difference; NaN where the test has none.
    statistic : float
        Statistic of the test: t, or the smaller sum of signed ranks.
    p_value : float
        Two-sided.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import paired_t
    >>> result = paired_t([0.81, 0.84, 0.79, 0.86], [0.78, 0.80, 0.80, 0.81])
    >>> result.n, round(result.lower, 3), round(result.upper, 3), round(result.statistic, 2)
    (4, -0.014, 0.069, 2.09)
    """

    n: int
    difference: float
    lower: float
    upper: float
    statistic: float
    p_value: float


class BayesianTest(NamedTuple):
    """Posterior of the mean difference between two models.

    Parameters
    ----------
    n : int
        Pairs of scores.
    difference : float
        Posterior mean of first - second, in the unit of the scores.
    lower, upper : float
        Central credible interval of the mean difference.
    p_first : float
        Probability that the first score is larger by more than the region of equivalence.
    p_equivalent : float
        Probability that the difference lies in that region.
    p_second : float
        Probability that the second score is larger by more than the region of equivalence.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import bayesian_correlated_t
    >>> result = bayesian_correlated_t([0.9, 0.9, 0.8], [0.8, 0.7, 0.7], test_train_ratio=1 / 9)
    >>> round(result.p_first + result.p_equivalent + result.p_second, 6), result.lower < result.difference
    (1.0, True)
    """

    n: int
    difference: float
    lower: float
    upper: float
    p_first: float
    p_equivalent: float
    p_second: float


def paired_t(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> PairedTest:
    """Test whether two models score the same on average, taking splits as independent.

    Parameters
    ----------
    first, second : array-like of shape (n_splits,)
        Scores of two models on the same splits, all finite.
    confidence : float, default=0.95
        Confidence of the interval of the difference.

    Returns
    -------
    PairedTest
        ``n``, ``difference``, ``lower``, ``upper``, ``statistic``, ``p_value`` (two-sided).

    Raises
    ------
    ValueError
        If the scores are not finite, not of one length, or fewer than two; if `confidence` is not
        strictly between 0 and 1.
    TypeError
        If they are sparse, or hold other objects than numbers.

    Notes
    -----
    Splits of one data set share samples, so that their scores are not independent: the test finds differences where
    there are none, far more often than its level says [1]_. It is here because papers use it; :func:`corrected_t`
    is the one to prefer.

    References
    ----------
    .. [1] T. G. Dietterich, "Approximate statistical tests for comparing supervised classification learning
       algorithms", Neural Computation 10, 1998.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import paired_t
    >>> result = paired_t([0.81, 0.84, 0.79, 0.86], [0.78, 0.80, 0.80, 0.81])
    >>> round(result.difference, 4), round(result.p_value, 3)
    (0.0275, 0.128)
    """
    differences = paired_differences(first, second)
    return _t_test(differences, 1.0 / len(differences.values), confidence)


def corrected_t(
    first: ArrayLike, second: ArrayLike, test_train_ratio: float, confidence: float = 0.95
) -> PairedTest:
    r"""Test whether two models score the same on average, over splits whose training sets overlap.

    .. math:: t = \frac{\bar d}{\sqrt{(1/n + n_\mathrm{test} / n_\mathrm{train})\, s^2}}

    with n - 1 degrees of freedom.

    Parameters
    ----------
    first, second : array-like of shape (n_splits,)
        Scores of two models on the same splits (of one cross-validation, of several repetitions of it, or random
        ones), all finite.
    test_train_ratio : float
        Size of a test set relative to its training set: 1/9 in tenfold cross-validation, 3/7 for 70:30 splits.
    confidence : float, default=0.95
        Confidence of the interval of the difference.

    Returns
    -------
    PairedTest
        ``n``, ``difference``, ``lower``, ``upper``, ``statistic``, ``p_value`` (two-sided).

    Raises
    ------
    ValueError
        If the scores are not finite, not of one length, or fewer than two; if `test_train_ratio` is not
        positive, or `confidence` not strictly between 0 and 1.
    TypeError
        If they are sparse, or hold other objects than numbers.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
    .. [2] R. R. Bouckaert and E. Frank, "Evaluating the replicability of significance tests for comparing learning
       algorithms", PAKDD 2004.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import corrected_t
    >>> result = corrected_t([0.81, 0.84, 0.79, 0.86], [0.78, 0.80, 0.80, 0.81], test_train_ratio=1 / 3)
    >>> round(result.difference, 4), round(result.p_value, 3)
    (0.0275, 0.264)
    """
    differences = paired_differences(first, second)
    ratio = check_number("test_train_ratio", test_train_ratio, low=0.0)
    return _t_test(differences, 1.0 / len(differences.values) + ratio, confidence)


def wilcoxon(first: ArrayLike, second: ArrayLike) -> PairedTest:
    """Test whether the differences of paired scores are symmetric about zero, by Wilcoxon's signed ranks.

    Parameters
    ----------
    first, second : array-like of shape (n_datasets,)
        Scores of two models, one pair per data set (or per split), all finite.

    Returns
    -------
    PairedTest
        ``statistic`` is the smaller sum of ranks; ``p_value`` is two-sided, exact up to 50 pairs without ties and up
        to 13 with them, else of the normal approximation, as in ``scipy.stats.wilcoxon``. There is no interval:
        ``lower`` and ``upper`` are NaN.

    Raises
    ------
    ValueError
        If the scores are not finite, not of one length, or fewer than two.
    TypeError
        If they are sparse, or hold other objects than numbers.

    Notes
    -----
    Ranks of pairs without a difference are split evenly, as Demšar [1]_ proposes. Differences that agree to twelve
    digits of the scores are ties. n pairs cannot give a p-value below 2 to the power 1 - n: 0.0625 for five.

    References
    ----------
    .. [1] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
       Research 7, 2006.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import wilcoxon
    >>> wilcoxon([0.9, 0.8, 0.7, 0.9, 0.8, 0.6], [0.8, 0.6, 0.4, 0.5, 0.3, 0.0]).p_value
    0.03125
    """
    differences = paired_differences(first, second)
    n, counts = len(differences.values), differences.counts()
    if not counts.any():
        return PairedTest(n, 0.0, math.nan, math.nan, n * (n + 1) / 4.0, 1.0)
    sizes = np.abs(counts)
    has_ties = len(np.unique(sizes[sizes > 0.0])) < n
    method = stats.PermutationMethod(n_resamples=2**n) if has_ties and n <= MOST_WITH_TIES else "auto"
    result = stats.wilcoxon(counts, zero_method="zsplit", method=method)
    return PairedTest(
        n, differences.mean(), math.nan, math.nan, float(result.statistic), min(float(result.pvalue), 1.0)
    )


def bayesian_correlated_t(
    first: ArrayLike, second: ArrayLike, test_train_ratio: float, rope: float = 0.01, confidence: float = 0.95
) -> BayesianTest:
    r"""Return the probabilities that a model is better, worse, or practically equivalent.

    .. math:: \mu \mid d_1, \ldots, d_n \sim \mathrm{St}\Bigl(n - 1,\ \bar d,\
              \bigl(\tfrac{1}{n} + \tfrac{\rho}{1 - \rho}\bigr) s^2\Bigr), \qquad
              \rho = \frac{n_\mathrm{test}}{n_\mathrm{test} + n_\mathrm{train}}

    Parameters
    ----------
    first, second : array-like of shape (n_splits,)
        Scores of two models on the same splits, all finite.
    test_train_ratio : float
        Size of a test set relative to its training set; 1/9 in tenfold cross-validation.
    rope : float, default=0.01
        Half width of the region of practical equivalence, in the unit of the scores: differences up to it do not
        matter. 0.01 is a percentage point of accuracy. With 0, one of the two is better.
    confidence : float, default=0.95
        Probability content of the credible interval.

    Returns
    -------
    BayesianTest
        ``n``, ``difference``, ``lower``, ``upper``, ``p_first`` (first larger by more than `rope`),
        ``p_equivalent``, ``p_second``.

    Raises
    ------
    ImportError
        If baycomp is not installed; it is part of ``bayesmkl[compare]``.
    ValueError
        If the scores are not finite, not of one length, or fewer than two; if `test_train_ratio` is not positive,
        `rope` negative, or `confidence` not strictly between 0 and 1.
    TypeError
        If the scores are sparse, or hold other objects than numbers.

    References
    ----------
    .. [1] G. Corani and A. Benavoli, "A Bayesian approach for comparing cross-validated algorithms on multiple data
       sets", Machine Learning 100, 2015.
    .. [2] A. Benavoli, G. Corani, J. Demšar and M. Zaffalon, "Time for a change: a tutorial for comparing multiple
       classifiers through Bayesian analysis", Journal of Machine Learning Research 18, 2017.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import bayesian_correlated_t
    >>> result = bayesian_correlated_t([0.81, 0.84, 0.79, 0.86], [0.78, 0.80, 0.80, 0.81], test_train_ratio=1 / 3)
    >>> round(result.p_first, 3), round(result.p_equivalent, 3), round(result.p_second, 3)
    (0.776, 0.145, 0.079)
    """
    differences = paired_differences(first, second)
    ratio = check_number("test_train_ratio", test_train_ratio, low=0.0)
    rope = check_number("rope", rope, low=0.0, inclusive=True)
    posterior_class = require("baycomp.single", "baycomp", "The Bayesian correlated t-test").Posterior
    n, mean = len(differences.values), differences.mean()
    variance = differences.variance() * (1.0 / n + ratio)
    # baycomp gives the probabilities of (-inf, -rope), the region itself unless it is empty, and (rope, inf)
    *left, right = posterior_class(mean, variance, n - 1, rope).probs()
    lower, upper = _interval(mean, math.sqrt(variance), n, confidence)
    return BayesianTest(n, mean, lower, upper, float(right), float(sum(left[1:])), float(left[0]))


def paired_differences(first: ArrayLike, second: ArrayLike) -> Differences:
    """Return first - second of two lists of finite scores."""
    first = check_numbers("first", first).astype(float)
    second = check_numbers("second", second).astype(float)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            "`first` and `second` must be lists of scores of the same length, one per split; got shapes "
            f"{first.shape} and {second.shape}."
        )
    n_missing = int((~np.isfinite(first) | ~np.isfinite(second)).sum())
    if n_missing:
        raise ValueError(
            f"`first` and `second` must be finite; {n_missing} of {len(first)} pairs are not. Leave out models or "
            "splits that failed."
        )
    if len(first) < 2:
        raise ValueError(
            f"`first` and `second`: A paired test needs at least two pairs of scores; got {len(first)}. Compare on "
            "more splits (or data sets), such as cv=10."
        )
    return Differences(first - second, SAME * max(np.abs(first).max(), np.abs(second).max()))


def _t_test(differences: Differences, factor: float, confidence: float) -> PairedTest:
    """Test the mean against zero, its variance being `factor` times that of the differences."""
    n, mean, scale = len(differences.values), differences.mean(), math.sqrt(factor * differences.variance())
    lower, upper = _interval(mean, scale, n, confidence)
    if scale == 0.0:  # the limit of a variance that goes to zero
        return PairedTest(
            n, mean, lower, upper, math.copysign(math.inf, mean) if mean else 0.0, float(not mean)
        )
    statistic = mean / scale
    return PairedTest(n, mean, lower, upper, statistic, float(2.0 * special.stdtr(n - 1, -abs(statistic))))


def _interval(mean: float, scale: float, n: int, confidence: float) -> tuple[float, float]:
    check_level("confidence", confidence)
    half = float(special.stdtrit(n - 1, 0.5 + confidence / 2.0)) * scale
    return mean - half, mean + half


# --------------------------------------------------------------------------------------------------- all pairs


def pairwise(
    scores: pd.DataFrame,
    test: str = "corrected_t",
    *,
    test_train_ratio: float | Mapping[Any, float] | None = None,
    greater_is_better: bool = True,
    against: Hashable | None = None,
    correction: str | None = "holm",
    rope: float = 0.01,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Compare models two by two.

    Parameters
    ----------
    scores : DataFrame
        A column per model. Rows are splits of one data set, or, with a two-level index (dataset, split), of several;
        "nemenyi" takes the rows of a plain index for data sets.
    test : str, default="corrected_t"
        "corrected_t", "paired_t", "wilcoxon", "nemenyi" or "bayesian": :func:`corrected_t`, :func:`paired_t`,
        :func:`wilcoxon`, :func:`nemenyi`, :func:`bayesian_correlated_t`. The t-tests and "bayesian" compare the
        splits of each data set, "nemenyi" all data sets at once, and "wilcoxon" the means of data sets where there
        are several.
    test_train_ratio : float or mapping of data set to float, default=None
        Size of a test set relative to its training set, needed by "corrected_t" and "bayesian".
    greater_is_better : bool, default=True
        Whether the larger score is the better one.
    against : object, default=None
        Compare only with this model, a column of `scores`; it becomes ``second``. None compares all pairs.
    correction : {"holm", None}, default="holm"
        Correct p-values for the number of pairs (of one data set) by :func:`holm`. Nemenyi's test does so itself, and
        the Bayesian one needs none.
    rope : float, default=0.01
        Half width of the region of practical equivalence of "bayesian", in units of the scores.
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
        "bayesian" the one that is better with a probability above 1 - alpha) or ""; ``note``. Where a model has no
        result in some row, its pairs have NaN and a note that says so.

    Raises
    ------
    TypeError
        If `scores` is no DataFrame.
    ValueError
        If `scores` does not hold numbers of at least two models with names of their own; for a `test` or
        `correction` that is not known; if `against` is no column; if
        `test_train_ratio` is needed and not given; if `rope` is negative, or `alpha` not strictly between 0 and 1;
        for "nemenyi", if there are fewer than three models or two data sets.
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
    check_choice("test", test, TESTS)
    check_flag("greater_is_better", greater_is_better)
    check_number("rope", rope, low=0.0, inclusive=True)
    check_level("alpha", alpha)
    if correction not in ("holm", None):
        raise ValueError(f"`correction` must be 'holm' or None; got {correction!r}.")
    pairs = _pairs(scores, against)
    several = scores.index.nlevels > 1 and scores.index.get_level_values(0).nunique() > 1
    groups: dict[Any, pd.DataFrame] = {"": scores}
    if test == "nemenyi" or (test == "wilcoxon" and several):
        groups = {ALL_DATASETS: scores}
    elif scores.index.nlevels > 1:
        groups = {name: group.droplevel(0) for name, group in scores.groupby(level=0, sort=False)}
    values = ["p_first", "p_equivalent", "p_second"] if test == "bayesian" else ["p_value"]
    tables = []
    for dataset, group in groups.items():
        if test == "nemenyi":
            left_out, compare = _by_ranks(group, greater_is_better, alpha)
        else:
            left_out, compare = _by_rows(group, test, _ratio(test_train_ratio, dataset, test), rope, alpha)
        rows = []
        for first, second in pairs:
            reason = "; ".join(f"{m}: {left_out[m]}" for m in (first, second) if m in left_out)
            found = {"n": 0, "note": reason} if reason else {"note": ""} | compare(first, second)
            rows.append({"dataset": dataset, "first": first, "second": second, **found})
        own = pd.DataFrame(rows, columns=["dataset", *COMMON, *values, "note"])
        if "p_value" in own:
            correct = correction and test != "nemenyi"  # which does so itself
            own["p_adjusted"] = holm(own["p_value"]) if correct else own["p_value"]
        tables.append(own)
    table = pd.concat(tables, ignore_index=True)
    note = table.pop("note")
    if test == "bayesian":
        if not greater_is_better:
            table[["p_first", "p_second"]] = table[["p_second", "p_first"]].to_numpy()
        is_first, is_second = (table[name] > 1.0 - alpha for name in ("p_first", "p_second"))
        note = note.mask(table["p_equivalent"] > 1.0 - alpha, "equivalent")
    else:
        greater = greater_is_better and test != "nemenyi"  # of ranks the smaller one is better
        advantage = table["difference"] if greater else -table["difference"]
        significant = table["p_adjusted"] < alpha
        is_first, is_second = significant & (advantage > 0.0), significant & (advantage < 0.0)
    better = table["first"].where(is_first, table["second"].where(is_second, ""))
    return table.assign(better=better, note=note)


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


def _ratio(ratios: Any, dataset: Hashable, test: str) -> float:
    if test not in WITH_RATIO:
        return 0.0
    if isinstance(ratios, Mapping):
        ratios = ratios.get(dataset)
    if ratios is None:
        where = f" for data set {dataset!r}" if dataset != "" else ""
        raise ValueError(
            f'`test_train_ratio` is needed by test="{test}"{where}: the size of a test set relative to its training '
            "set, such as 1/9 for tenfold cross-validation."
        )
    return float(ratios)


# Why models are left out, by name; and a function that compares two of the others.
Compared = tuple[Mapping[Any, str], Callable[[Any, Any], dict[Any, Any]]]


def _by_rows(scores: pd.DataFrame, test: str, ratio: float, rope: float, alpha: float) -> Compared:
    """Test over splits, or over the means of data sets."""
    blocks, left_out = blocks_of(scores)
    n = len(blocks)
    if n < 2 <= len(scores):
        return {}, lambda *_: {"n": 0, "note": f"results in only {n} row{'s' * (n != 1)}"}

    def compare(*pair: Any) -> dict[Any, Any]:
        first, second = (blocks[model].to_numpy() for model in pair)
        if test == "bayesian":
            return bayesian_correlated_t(first, second, ratio, rope, 1.0 - alpha)._asdict()
        if test == "wilcoxon":
            few = f"{n} pairs are too few for p < {2.0 ** (1 - n):.3g}" if n < SMALLEST_SAMPLE else ""
            return wilcoxon(first, second)._asdict() | {"note": few}
        if test == "corrected_t":
            tested = corrected_t(first, second, ratio, 1.0 - alpha)
        else:
            tested = paired_t(first, second, 1.0 - alpha)
        constant = math.isinf(tested.statistic)
        return tested._asdict() | {"note": "the same difference in every split" if constant else ""}

    return left_out, compare


def _by_ranks(scores: pd.DataFrame, greater_is_better: bool, alpha: float) -> Compared:
    """Compare mean ranks over data sets by Nemenyi's test."""
    tested, p_values = friedman(scores, greater_is_better), nemenyi(scores, greater_is_better)
    distance = critical_difference(tested.n_models, tested.n_datasets, alpha)

    def compare(first: Any, second: Any) -> dict[Any, Any]:
        difference = tested.mean_ranks[first] - tested.mean_ranks[second]
        interval = {"lower": difference - distance, "upper": difference + distance}
        found = {"n": tested.n_datasets, "difference": difference, "p_value": p_values.loc[first, second]}
        return found | interval

    return tested.left_out, compare


# ----------------------------------------------------------------------------------------------------------- ranks


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
    mean_ranks: pd.Series
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    left_out: dict[Any, str]


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
    ranks, left_out = _ranked_blocks(scores, greater_is_better, "Friedman's test")
    n, k = ranks.shape
    if (ranks == ranks.iloc[0, 0]).all(axis=None):  # all models alike in every row
        chi_squared, p_value = 0.0, 1.0
    else:
        result = stats.friedmanchisquare(*ranks.to_numpy().T)
        chi_squared, p_value = float(result.statistic), float(result.pvalue)
    room = n * (k - 1) - chi_squared  # zero where all data sets agree
    f = (n - 1) * chi_squared / room if room > 1e-9 else math.inf
    f_p_value = float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
    return FriedmanTest(k, n, ranks.mean().sort_values(), chi_squared, p_value, f, f_p_value, left_out)


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
    ranks, _ = _ranked_blocks(scores, greater_is_better, "Nemenyi's test")
    posthocs = require("scikit_posthocs", "scikit-posthocs", "Nemenyi's test")
    table = posthocs.posthoc_nemenyi_friedman(ranks.to_numpy())
    return pd.DataFrame(table.to_numpy().clip(0.0, 1.0), index=ranks.columns, columns=ranks.columns)


def critical_difference(n_models: int, n_datasets: int, alpha: float = 0.05) -> float:
    r"""Return the smallest difference of mean ranks that is significant by Nemenyi's test.

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
    quantile = stats.studentized_range.ppf(1.0 - check_level("alpha", alpha), k, np.inf) / math.sqrt(2.0)
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
    blocks, left_out = blocks_of(scores)
    ranks = ranks_of(blocks, greater_is_better)
    table = pd.DataFrame(
        {
            "mean_rank": ranks.mean(),
            "times_best": ranks.eq(ranks.min(axis=1), axis=0).sum(),
            "times_worst": ranks.eq(ranks.max(axis=1), axis=0).sum(),
        }
    ).sort_values("mean_rank", kind="stable")
    table = table.reindex([*table.index, *left_out])
    counts = ["times_best", "times_worst"]
    table[counts] = table[counts].fillna(0).astype(int)
    return table.assign(n=len(ranks), note=[left_out.get(model, "") for model in table.index])


def blocks_of(scores: pd.DataFrame) -> tuple[pd.DataFrame, dict[Any, str]]:
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
    return scores.loc[:, n_missing == 0], left_out


def check_table(scores: object) -> None:
    """Check that scores are a table of numbers with one column per model."""
    if not isinstance(scores, pd.DataFrame):
        raise TypeError(f"`scores` must be a DataFrame with a column per model; got {shown(scores)}.")
    if not scores.columns.is_unique:
        raise ValueError(f"`scores` must have columns of different names; got {list(scores.columns)}.")
    if not all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in scores.dtypes):
        raise ValueError("`scores` must hold numbers, NaN where a model failed; got other columns.")


def ranks_of(scores: pd.DataFrame, greater_is_better: bool) -> pd.DataFrame:
    """Rank the models in each row, 1 for the best; scores that agree to twelve digits share their mean rank."""
    check_flag("greater_is_better", greater_is_better)
    scale = scores.abs().max(axis=1)
    scaled = scores.div(scale.where(scale > 0.0, 1.0), axis=0).round(SAME_DIGITS)
    return scaled.rank(axis=1, ascending=not greater_is_better)


def check_level(name: str, value: float) -> float:
    """Return a level or a probability content, checked to lie between 0 and 1."""
    if check_number(name, value, low=0.0) >= 1.0:
        raise ValueError(f"`{name}` must be below 1; got {value:g}. 5 % is 0.05.")
    return float(value)


def _ranked_blocks(
    scores: pd.DataFrame, greater_is_better: bool, test: str
) -> tuple[pd.DataFrame, dict[Any, str]]:
    """Return the ranks of models over data sets; raise where there are too few of either."""
    blocks, left_out = blocks_of(scores)
    n_datasets = blocks.index.get_level_values(0).nunique()
    if n_datasets < 2:
        raise ValueError(
            f"`scores`: {test} compares models over at least 2 data sets; got {n_datasets}. Splits of one data set "
            'overlap and do not count as data sets: use test="corrected_t" there, or compare on more data sets.'
        )
    if blocks.shape[1] < 3:
        out = "".join(f"; left out: {model} ({why})" for model, why in left_out.items())
        raise ValueError(
            f"`scores`: {test} compares at least 3 models; got {blocks.shape[1]} with all results{out}. Use "
            'test="wilcoxon" for two.'
        )
    return ranks_of(blocks, greater_is_better), left_out
