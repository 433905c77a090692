r"""Calibration of predicted survival at a time, with the band of a calibrated model.

The band is derived as follows. The Kaplan-Meier estimate of n samples that live beyond t with probabilities
:math:`s_i` of mean s has, by Greenwood, the variance

.. math:: \frac{s^2}{n} \int_0^t \frac{dF(u)}{S(u)^2 \, G(u)} = \frac{s^2}{n} \int_0^t \frac{d(1 / S(u))}{G(u)}

over samples that are drawn with their predictions, with S and F their mean survival and distribution and G the
probability not to be censored before u. Sample i moves the estimate by
:math:`-\frac{s}{n} \int_0^t (dN_i - Y_i \, d\Lambda) / (S G)`, its event less the hazard while it was at risk; the
mean of this given the prediction does not depend on G, and so is what it is without censoring, :math:`(s_i - s) / n`.
Given the predictions, the variance is therefore less by the mean of :math:`(s_i - s)^2 / n`.

In a calibrated model the :math:`s_i` are the predictions of a bin. What these say of times before t is not asked for:
the cumulative hazard of each bin is taken to rise as that of all samples, :math:`\Lambda`, so that
:math:`S(u) = s^{\Lambda(u) / \Lambda(t)}`. G is estimated in the bin. In all

.. math::
    V = \frac{s^2}{n} \sum_k \frac{1 / S(u_k) - 1 / S(u_{k-1})}{G(u_k)} - \frac{1}{n^2} \sum_i (s_i - s)^2

over the times :math:`u_k` of events until t, which is :math:`\sum_i s_i (1 - s_i) / n^2` where nobody is censored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bayesmkl._utils.survival_target import EventTimes, event_and_time
from bayesmkl._utils.units import SMALLEST
from bayesmkl._utils.validation import check_integer, check_number
from bayesmkl.evaluation.survival import check_follow_up, check_probabilities, kaplan_meier, of_samples

LEVEL = 0.95  # probability that a calibrated model is inside its band, in all bins


class SurvivalCalibration(NamedTuple):
    """Predicted and observed survival at a time, bin by bin of the predictions, lowest first.

    Parameters
    ----------
    time : float
        When, in the unit of the data.
    predicted : ndarray of shape (n_bins,)
        Mean of the predicted survival in each bin.
    observed : ndarray of shape (n_bins,)
        Kaplan-Meier estimate of the share of its samples that live beyond the time.
    lower, upper : ndarray of shape (n_bins,)
        Band that holds the observed survival of all bins with a probability of 95 % if predictions are right.
    n_samples : ndarray of shape (n_bins,)
        Number of samples in each bin.
    statistic : float
        Sum over the bins of squared deviations over their variances under a calibrated model; chi-squared with as
        many degrees of freedom as there are bins, where these hold enough events.
    p_value : float
        Probability of a larger one.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.evaluation import survival_calibration
    >>> rng = np.random.default_rng(0)
    >>> hazard, censored = rng.uniform(0.1, 1.0, size=400), rng.uniform(0.5, 4.0, size=400)
    >>> died = rng.exponential(1.0 / hazard)
    >>> y = np.rec.fromarrays([died <= censored, np.minimum(died, censored)], names="event,time")
    >>> found = survival_calibration(y, np.exp(-2.0 * hazard), 2.0, n_bins=3)
    >>> found.calibrated, found.n_samples
    (True, array([133, 133, 134]))
    """

    time: float
    predicted: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    n_samples: np.ndarray
    statistic: float
    p_value: float

    @property
    def calibrated(self) -> bool:
        """Whether the observed survival of every bin is inside the band of a calibrated model."""
        return bool(((self.observed >= self.lower) & (self.observed <= self.upper)).all())

    @property
    def calibration_error(self) -> float:
        """Mean of ``|observed - predicted|`` over all samples."""
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.n_samples))


def survival_calibration(
    y: np.ndarray, survival_at: ArrayLike, time: float, *, n_bins: int = 5
) -> SurvivalCalibration:
    r"""Compare predicted survival at a time with what was observed, beside the band of a calibrated model.

    Samples are sorted into bins by their predictions [1]_ [2]_. The observed survival of a bin is its Kaplan-Meier
    estimate, in which those who are followed for longer stand for those who are censored; the predicted one is the
    mean.

    Parameters
    ----------
    y : structured array of shape (n_samples,)
        Events and times: a boolean field and a field of numbers, of any names.
    survival_at : array-like of shape (n_samples,)
        Predicted probability that the event of each sample is later than `time`, by models that were not fitted to
        that sample.
    time : float
        When, within the follow-up of `y`: at least its shortest time, and below its longest one.
    n_bins : int, default=5
        Number of bins with about equally many samples. There may be fewer: equal predictions share a bin, and a bin
        in which the last sample is censored before `time` is joined with the next one.

    Returns
    -------
    SurvivalCalibration
        Predicted and observed survival of every bin, the band, and a test of all bins.

    Raises
    ------
    ValueError
        If `y` is no such array or holds no event, `survival_at` holds no probabilities or is of another length,
        `time` is outside of the follow-up, or `n_bins` below 1.
    TypeError
        If an argument is a sparse matrix, or `survival_at` holds other objects than numbers.

    Notes
    -----
    The band is that of the observed survival if every sample lives beyond `time` with the probability that was
    predicted for it. Its variance is Greenwood's with the predicted survival and the censoring of the bin, which is
    derived in the docstring of the module ``bayesmkl.evaluation.survival_calibration``. The ends are quantiles of a
    beta distribution of that mean and variance, half a step of the estimate further out; their level is such that all
    bins, which are independent, are inside with a probability of 95 %.

    Censoring may depend on the predictions, but not, within a bin, on when the event comes.

    References
    ----------
    .. [1] R. B. D'Agostino and B.-H. Nam (2003), Evaluation of the performance of survival analysis models:
       discrimination and calibration measures, Handbook of Statistics 23.
    .. [2] O. V. Demler, N. P. Paynter and N. R. Cook (2015), Tests of calibration and goodness-of-fit in the survival
       setting, Statistics in Medicine 34.

    Examples
    --------
    A survival of .6 for all is right on average, and so inside; .9 is not:

    >>> import numpy as np
    >>> from bayesmkl.evaluation import survival_calibration
    >>> time = np.arange(1.0, 101.0)
    >>> y = np.rec.fromarrays([np.full(100, True), time], names="event,time")
    >>> found = survival_calibration(y, np.full(100, 0.6), 40.0)
    >>> found.observed.round(3), found.calibrated
    (array([0.6]), True)
    >>> survival_calibration(y, np.full(100, 0.9), 40.0).calibrated
    False
    """
    seen = event_and_time(y)
    predicted = of_samples("survival_at", survival_at, len(seen.time))
    check_probabilities("survival_at", predicted)
    when = check_number("time", time)
    check_follow_up("time", np.array([when]), seen)
    bins = _bins(predicted, seen, when, check_integer("n_bins", n_bins, low=1))
    rows = []
    for b in range(bins.max() + 1):
        own, inside = predicted[bins == b], EventTimes(seen.event[bins == b], seen.time[bins == b])
        observed = float(kaplan_meier(*inside).at(when))
        rows.append((own.mean(), observed, _variance(own, inside, seen, when), len(own)))
    expected, survival, variance, counts = map(np.array, zip(*rows, strict=True))
    lower, upper = _band(expected, variance)
    statistic = _statistic(survival - expected, variance)
    p_value = float(stats.chi2.sf(statistic, len(counts)))
    return SurvivalCalibration(when, expected, survival, lower, upper, counts, statistic, p_value)


def _bins(predicted: np.ndarray, seen: EventTimes, when: float, n_bins: int) -> np.ndarray:
    """Sort samples into bins 0, 1, ... by their predictions; of each the survival at `when` is known."""
    edges = np.unique(np.quantile(predicted, np.arange(1, n_bins) / n_bins))
    _, bins = np.unique(np.searchsorted(edges, predicted, side="right"), return_inverse=True)
    b = 0
    while b < bins.max():
        if _is_known(seen, bins == b, when):
            b += 1
        else:
            bins[bins > b] -= 1  # together with the next one
    if b > 0 and not _is_known(seen, bins == b, when):
        bins[bins == b] -= 1
    return bins


def _is_known(seen: EventTimes, inside: np.ndarray, when: float) -> bool:
    """Whether a sample is followed until `when`, or the last one had its event before."""
    last = seen.time[inside].max()
    return bool(last >= when or seen.event[inside & (seen.time == last)].all())


def _variance(predicted: np.ndarray, inside: EventTimes, everyone: EventTimes, when: float) -> float:
    """Return the variance of the Kaplan-Meier estimate of a bin of a calibrated model, V of the module."""
    s, n = predicted.mean(), len(predicted)
    if not SMALLEST < s < 1.0:
        return 0.0
    times, n_events = np.unique(everyone.time[everyone.event & (everyone.time <= when)], return_counts=True)
    at_risk = len(everyone.time) - np.searchsorted(np.sort(everyone.time), times)
    hazard = np.cumsum(n_events / at_risk)
    if not len(times):  # all events are later: as if they came at `time`
        times, hazard = np.array([when]), np.ones(1)
    inverse = s ** -(hazard / hazard[-1])  # 1 / S, from 1 to 1 / s
    not_censored = kaplan_meier(*inside, reverse=True).at(times, before=True)
    steps = np.diff(inverse, prepend=1.0)
    # 1 / n where nobody is left
    greenwood = s**2 / n * float(np.sum(steps / np.maximum(not_censored, 1.0 / n)))
    return max(greenwood - float(predicted.var()) / n, 0.0)


def _band(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles of beta distributions, half a step further out."""
    tail = 0.5 * (1.0 - LEVEL ** (1.0 / len(mean)))
    lower, upper, binary = mean.copy(), mean.copy(), mean * (1.0 - mean)
    varying = variance > 0.0  # else predictions are certain
    lower[variance >= binary], upper[variance >= binary] = 0.0, 1.0
    usual = varying & (variance < binary)
    size = binary[usual] / variance[usual]  # samples without censoring that vary as much
    shape = (size - 1.0) * mean[usual], (size - 1.0) * (1.0 - mean[usual])
    lower[usual] = stats.beta.ppf(tail, *shape) - 0.5 / size
    upper[usual] = stats.beta.ppf(1.0 - tail, *shape) + 0.5 / size
    lower[~varying], upper[~varying] = mean[~varying], mean[~varying]
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def _statistic(deviation: np.ndarray, variance: np.ndarray) -> float:
    """Sum squared deviations over their variances; infinite where a certain prediction was wrong."""
    certain = variance == 0.0
    if (np.abs(deviation[certain]) > 1e-12).any():
        return np.inf
    return float(np.sum(deviation[~certain] ** 2 / variance[~certain]))
