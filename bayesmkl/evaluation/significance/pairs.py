"""Tests of the difference between two models over the same splits (or data sets).

All of them look at the differences d_1, ..., d_n of paired scores. With mean d̄ and variance s² of the differences:

    paired t (Dietterich 1998)              t = d̄ / sqrt(s² / n)
    corrected t (Nadeau and Bengio 2003)    t = d̄ / sqrt(s² (1/n + n_test/n_train))
    Bayesian correlated t (Corani and Benavoli 2015, eq. of the posterior)
                                            mean difference ~ Student(n - 1, d̄, s² (1/n + ρ/(1 - ρ)))

with ρ = n_test / (n_test + n_train) the correlation between splits, so that ρ / (1 - ρ) = n_test / n_train: the last
two rest on the same variance. Wilcoxon's test ranks the differences.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from bayesmkl._utils.extras import require
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.validation import check_number

MOST_WITH_TIES = 13  # pairs up to which all signs of tied differences are tried
SAME = 1e-12  # relative to the scores: differences up to it are rounding errors


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

    n: int  # pairs of scores
    difference: float  # mean of first - second, in the unit of the scores
    lower: float  # confidence interval of the mean difference; NaN where the test has none
    upper: float
    statistic: float
    p_value: float  # two-sided


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

    n: int  # pairs of scores
    difference: float  # posterior mean of first - second, in the unit of the scores
    lower: float  # central credible interval
    upper: float
    p_first: float  # probability that the first score is larger by more than the region of equivalence
    p_equivalent: float  # probability that the difference lies in that region
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
    statistic, p_value = _signed_ranks(counts)
    return PairedTest(n, differences.mean(), math.nan, math.nan, statistic, p_value)


def bayesian_correlated_t(
    first: ArrayLike, second: ArrayLike, test_train_ratio: float, rope: float = 0.01, confidence: float = 0.95
) -> BayesianTest:
    r"""Return the probabilities that a model is better, worse, or as good for all practical purposes.

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


def _signed_ranks(differences: np.ndarray) -> tuple[float, float]:
    """Return the smaller sum of ranks and its two-sided p-value; exact with ties in small samples too."""
    n, sizes = len(differences), np.abs(differences)
    if n > MOST_WITH_TIES or len(np.unique(sizes[sizes > 0.0])) == n:
        result = stats.wilcoxon(differences, zero_method="zsplit")
        return float(result.statistic), min(float(result.pvalue), 1.0)
    ranks = stats.rankdata(sizes)
    halves = np.where(differences == 0.0, 0.5, differences > 0.0)  # zeros count half on both sides
    positive = float(halves @ ranks)
    signs = np.arange(2**n)[:, None] >> np.arange(n) & 1
    sums = np.where(differences == 0.0, 0.5, signs) @ ranks  # of all signs, which are equally likely
    tail = min((sums <= positive).mean(), (sums >= positive).mean())
    return min(positive, float(ranks.sum()) - positive), min(2.0 * float(tail), 1.0)


def check_confidence(confidence: float) -> float:
    """Return the probability content of an interval, checked."""
    confidence = check_number("confidence", confidence, low=0.0)
    if confidence >= 1.0:
        raise ValueError(f"`confidence` must be below 1; got {confidence:g}. 95 % is 0.95.")
    return confidence


def _interval(mean: float, scale: float, n: int, confidence: float) -> tuple[float, float]:
    confidence = check_confidence(confidence)
    half = float(special.stdtrit(n - 1, 0.5 + confidence / 2.0)) * scale
    return mean - half, mean + half
