r"""Tests of the difference between two models: over the same splits or data sets, or over both at once.

Those over splits, or over data sets, look at the differences d_1, ..., d_n of paired scores. With mean d̄ and
variance s² of the differences:

    paired t (Dietterich 1998)              t = d̄ / sqrt(s² / n)
    corrected t (Nadeau and Bengio 2003)    t = d̄ / sqrt(s² (1/n + n_test/n_train))
    Bayesian correlated t (Corani and Benavoli 2015, eq. of the posterior)
                                            mean difference ~ Student(n - 1, d̄, s² (1/n + ρ/(1 - ρ)))

with ρ = n_test / (n_test + n_train) the correlation between splits, so that ρ / (1 - ρ) = n_test / n_train: the last
two rest on the same variance. Wilcoxon's test ranks the differences.

The mixed-effects model is of several data sets, each with splits that overlap. With the difference :math:`d_{ij}` of
the scores in split j of data set i,

.. math:: d_{ij} = \delta_i + \varepsilon_{ij}, \qquad \delta_i \sim N(\mu, \tau^2), \qquad
          \varepsilon_i \sim N(0, \sigma_i^2 [(1 - \rho_i) I + \rho_i 1 1']), \qquad
          \rho_i = \frac{n_\mathrm{test}}{n_\mathrm{test} + n_\mathrm{train}} ,

and :math:`p(\mu, \tau, \sigma_1, \ldots) \propto \prod_i \sigma_i^{-1}`, what a data set says of its own
:math:`\delta_i` is the Student density of the Bayesian correlated t-test, a mixture of normal ones over the precision
:math:`\lambda`:

.. math:: p(\bar d_i \mid \mu, \tau) = \int N\bigl(\bar d_i; \mu, \tau^2 + v_i / \lambda\bigr)\,
          \mathrm{Ga}\bigl(\lambda; \tfrac{n_i - 1}{2}, \tfrac{n_i - 1}{2}\bigr) d\lambda, \qquad
          v_i = \Bigl(\tfrac{1}{n_i} + \tfrac{\rho_i}{1 - \rho_i}\Bigr) s_i^2 .

The integral over :math:`\lambda` is a Gauss-Laguerre rule, and the posterior of the two numbers :math:`\mu, \tau` a
grid: nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats
from scipy.special import logsumexp, ndtr, roots_genlaguerre

from bayesmkl._utils.extras import require
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.validation import check_number

MOST_WITH_TIES = 13  # pairs up to which all signs of tied differences are tried
SAME = 1e-12  # relative to the scores: differences up to it are rounding errors
# of the mixed-effects model
FEWEST = 3  # data sets: with two the posterior of tau is no distribution
N_NODES = 20  # of the rule for the precisions
N_MEANS, FARTHEST = 121, 12.0  # points of mu for every tau, and how many standard errors they reach
N_SPREADS = 80  # points of tau


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


# ---------------------------------------------------------------------------------------------- mixed effects


class MixedEffects(NamedTuple):
    r"""Posterior of the difference between two models on data sets like those compared.

    Parameters
    ----------
    n : int
        Data sets.
    difference : float
        Posterior median of the mean over data sets, :math:`\mu` of first - second, in the unit of the scores.
    lower, upper : float
        Central credible interval of :math:`\mu`.
    between : float
        Posterior median of :math:`\tau`, the standard deviation of the difference between data sets.
    p_first, p_equivalent, p_second : float
        Of a further data set: probability that the first score is larger there by more than the region of
        equivalence, that the difference lies in that region, and that the second score is larger.

    Examples
    --------
    >>> MixedEffects(5, 0.02, 0.01, 0.03, 0.005, 0.95, 0.05, 0.0).between
    0.005
    """

    n: int
    difference: float
    lower: float
    upper: float
    between: float
    p_first: float
    p_equivalent: float
    p_second: float


class _Effects(NamedTuple):
    """What the splits of data sets say: means of differences, their squared scales, and degrees of freedom."""

    mean: np.ndarray
    scale2: np.ndarray
    df: np.ndarray


def bayesian_mixed_effects(
    first: ArrayLike,
    second: ArrayLike,
    datasets: ArrayLike,
    test_train_ratio: float | Mapping[Hashable, float],
    rope: float = 0.01,
    confidence: float = 0.95,
) -> MixedEffects:
    r"""Compare two models over data sets and splits at once.

    Splits of a data set overlap, which makes them say less than their number, and data sets differ in what they say.
    A t-test over all rows takes neither into account; a test of the means of data sets takes a mean of two splits for
    as good as one of a hundred.

    Parameters
    ----------
    first, second : array-like of shape (n_rows,)
        Scores of two models on the same splits of all data sets, all finite.
    datasets : array-like of shape (n_rows,)
        Data set of every row; at least three data sets, and two splits of each.
    test_train_ratio : float or mapping of data set to float
        Size of a test set relative to its training set; 1/9 in tenfold cross-validation.
    rope : float, default=0.01
        Half width of the region of practical equivalence, in the unit of the scores.
    confidence : float, default=0.95
        Probability content of the credible interval.

    Returns
    -------
    MixedEffects
        ``n`` data sets, ``difference``, ``lower``, ``upper``, ``between``, and the probabilities of a further data
        set, ``p_first``, ``p_equivalent`` and ``p_second``.

    Raises
    ------
    ValueError
        If the scores are not finite, or not of one length; for fewer than three data sets, or one with a single
        split; if a data set has no `test_train_ratio`, or none that is positive; if `rope` is negative, or
        `confidence` not strictly between 0 and 1.
    TypeError
        If the scores are sparse, or hold other objects than numbers.

    Notes
    -----
    The model of [1]_ with normal effects of data sets in place of Student ones, and flat priors of :math:`\mu` and
    :math:`\tau`; the noise of each data set is integrated out, as in
    :func:`~bayesmkl.evaluation.significance.bayesian_correlated_t`.

    References
    ----------
    .. [1] G. Corani, A. Benavoli, J. Demšar, F. Mangili and M. Zaffalon, "Statistical comparison of classifiers
       through Bayesian hierarchical modelling", Machine Learning 106, 2017, eq. 5 to 7.

    Examples
    --------
    >>> from bayesmkl.evaluation.significance import bayesian_mixed_effects
    >>> first = [0.81, 0.84, 0.79, 0.92, 0.95, 0.90, 0.71, 0.74, 0.70, 0.88, 0.87, 0.90]
    >>> second = [0.77, 0.80, 0.76, 0.90, 0.92, 0.86, 0.68, 0.69, 0.66, 0.84, 0.84, 0.85]
    >>> result = bayesian_mixed_effects(first, second, [*"aaabbbcccddd"], test_train_ratio=1 / 2)
    >>> result.n, round(result.difference, 3), bool(result.lower > 0.0), result.p_first > 0.9
    (4, 0.037, True, True)
    """
    confidence = check_confidence(confidence)
    rope = check_number("rope", rope, low=0.0, inclusive=True)
    effects = _effects(first, second, datasets, test_train_ratio)
    mu, tau, weight = _posterior(effects)
    tail = 0.5 - confidence / 2.0
    difference, lower, upper = _quantiles(mu, weight, (0.5, tail, 1.0 - tail))
    (between,) = _quantiles(tau[:, 0], weight.sum(axis=1), (0.5,))
    above = float((weight * ndtr((mu - rope) / tau)).sum())  # of N(mu, tau^2), a data set more
    below = float((weight * ndtr((-rope - mu) / tau)).sum())
    inside = max(1.0 - above - below, 0.0)
    return MixedEffects(len(effects.mean), difference, lower, upper, between, above, inside, below)


def _effects(first: ArrayLike, second: ArrayLike, datasets: ArrayLike, ratios: object) -> _Effects:
    """Return what the splits of every data set say."""
    differences = paired_differences(first, second)
    names = np.asarray(datasets, dtype=object)
    if names.shape != differences.values.shape:
        raise ValueError(
            f"`datasets` must name the data set of each of the {len(differences.values)} scores; got shape "
            f"{names.shape}."
        )
    found = []
    different = list(dict.fromkeys(names))
    if len(different) < FEWEST:
        raise ValueError(
            f"`datasets`: effects of data sets need at least {FEWEST} of them; got {len(different)}. Use "
            "bayesian_correlated_t on each."
        )
    for name in different:
        own = differences._replace(values=differences.values[names == name])
        n = len(own.values)
        if n < 2:
            raise ValueError(
                f"`datasets`: {name!r} has one split; at least two are needed to say how they vary."
            )
        ratio = ratios.get(name) if isinstance(ratios, Mapping) else ratios
        if ratio is None:
            raise ValueError(f"`test_train_ratio` is missing for data set {name!r}.")
        factor = 1.0 / n + check_number("test_train_ratio", ratio, low=0.0)
        found.append((own.mean(), factor * own.variance(), n - 1.0))
    return _Effects(*np.array(found).T)


def _posterior(effects: _Effects) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return :math:`\mu` on a grid of (spreads, means), :math:`\tau` as a column of it, and probabilities."""
    usual = np.sqrt(np.median(effects.scale2) + effects.mean.var())
    usual = usual if usual > 0.0 else max(float(np.abs(effects.mean).max()), 1.0) * 1e-9  # nothing varies
    share = (np.arange(N_SPREADS) + 0.5) / N_SPREADS
    tau = usual * share / (1.0 - share)
    jacobian = usual / (1.0 - share) ** 2
    nodes, of_nodes = zip(*(_precisions(df) for df in effects.df), strict=True)
    noise = effects.scale2[:, None] / np.array(nodes)  # of data sets, nodes
    precision = 1.0 / (effects.scale2 + tau[:, None] ** 2)  # of spreads, data sets
    center = (precision @ effects.mean) / precision.sum(axis=1)
    width = 1.0 / np.sqrt(precision.sum(axis=1)) + usual / len(effects.mean)
    steps = np.linspace(-FARTHEST, FARTHEST, N_MEANS)
    mu = center[:, None] + width[:, None] * steps
    log_p = np.log(jacobian * width)[:, None] + np.zeros_like(mu)
    for mean, own, weights in zip(effects.mean, noise, of_nodes, strict=True):
        variance = tau[:, None, None] ** 2 + own
        exponent = -0.5 * ((mean - mu)[:, :, None] ** 2 / variance + np.log(variance))
        log_p += logsumexp(exponent, axis=2, b=weights)
    probability = np.exp(log_p - log_p.max())
    return mu, tau[:, None], probability / probability.sum()


def _precisions(df: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Return nodes and weights of :math:`\mathrm{Ga}(\lambda; \nu / 2, \nu / 2)`."""
    nodes, weights = roots_genlaguerre(N_NODES, 0.5 * df - 1.0)
    kept = weights > 0.0  # the last ones may underflow
    nodes, weights = np.where(kept, nodes, 1.0), np.where(kept, weights, 0.0)
    return nodes / (0.5 * df), weights / weights.sum()


def _quantiles(values: np.ndarray, weights: np.ndarray, levels: tuple[float, ...]) -> tuple[float, ...]:
    """Return weighted quantiles, between the points of the grid."""
    order = np.argsort(values, axis=None)
    below = weights.ravel()[order].cumsum() - 0.5 * weights.ravel()[order]
    return tuple(float(np.interp(level, below, values.ravel()[order])) for level in levels)
