r"""Metrics of survival predictions, concordance, Brier score and calibration, and the Kaplan-Meier curve.

Censored times say only that the event came later. Where a metric needs to know what happened until a time, samples
about which it is known stand for those about which it is not: each weighs the inverse of the probability that it was
not censored before (inverse probability of censoring weighting, IPCW), by the Kaplan-Meier curve G of censoring. This
is right where censoring does not depend on what the event depends on.

Of samples with the same time, events come before censored ones. An event at t is therefore seen with the probability
G(t-), just before t, and a sample is known to be alive after t with the probability G(t). scikit-survival 0.28 weighs
events by 1 / G(t), which is larger where times are tied, as those in whole months are. As there, a score is asked for
at times within the follow-up of the scored samples, [first time, last time).

The band of a calibrated model is derived as follows. The Kaplan-Meier estimate of n samples that live beyond t with
probabilities :math:`s_i` of mean s has, by Greenwood, the variance

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

from bayesmkl._utils.given import as_array, finite_numbers
from bayesmkl._utils.survival_target import EventTimes, event_and_time
from bayesmkl._utils.units import SMALLEST
from bayesmkl._utils.validation import check_flag, check_integer, check_number, shown
from bayesmkl.outcomes.times import ordered_pairs

LEVEL = 0.95  # probability that a calibrated model is inside its band, in all bins
SPAN = (0.1, 0.9)  # of the observed times of events, over which the Brier score is integrated
N_TIMES = 60

# ----------------------------------------------------------------------------------------------------- Kaplan-Meier


class SurvivalCurve(NamedTuple):
    """Step function: the probability that there was no event until a time, it included.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        Distinct times of the samples, increasing; the last one is the end of the follow-up.
    survival : ndarray of shape (n_times,)
        Probability that the event is later than each of them.

    Examples
    --------
    >>> from bayesmkl.evaluation import kaplan_meier
    >>> curve = kaplan_meier([True, False, True], [1.0, 2.0, 4.0])
    >>> curve.at([0.5, 1.0, 3.0, 4.0]).round(3)
    array([1.   , 0.667, 0.667, 0.   ])
    """

    times: np.ndarray
    survival: np.ndarray

    def at(self, times: ArrayLike, before: bool = False) -> np.ndarray:
        """Evaluate the curve.

        Parameters
        ----------
        times : array-like of any shape, or float
            When. Beyond the end of the follow-up the curve keeps its last value.
        before : bool, default=False
            Whether to stop just before each time, so that a step at it does not count.

        Returns
        -------
        ndarray of the shape of `times`
            Probabilities.
        """
        steps = np.searchsorted(self.times, times, side="left" if before else "right")
        return np.concatenate([[1.0], self.survival])[steps]


def kaplan_meier(event: ArrayLike, time: ArrayLike, *, reverse: bool = False) -> SurvivalCurve:
    r"""Estimate the probability to survive without an event, whatever the distribution of the times.

    .. math:: \hat S(t) = \prod_{t_k \le t} \Bigl(1 - \frac{d_k}{n_k}\Bigr)

    with :math:`d_k` events at time :math:`t_k` among the :math:`n_k` samples whose time is not shorter.

    Parameters
    ----------
    event : array-like of bool, shape (n_samples,)
        Whether the event was seen, rather than the sample censored.
    time : array-like of shape (n_samples,)
        Time to the event or to censoring, not negative.
    reverse : bool, default=False
        Whether to estimate the probability not to be censored instead. Samples with an event at the time of a
        censored one were not at risk to be censored any more.

    Returns
    -------
    SurvivalCurve
        The estimate, as a step function.

    Raises
    ------
    ValueError
        If `event` is not boolean, `time` is negative, not finite, or of another length, or `reverse` no bool.
    TypeError
        If an argument is a sparse matrix, or `time` holds other objects than numbers.

    References
    ----------
    E. L. Kaplan and P. Meier (1958), Nonparametric estimation from incomplete observations, Journal of the American
    Statistical Association 53.

    Examples
    --------
    >>> from bayesmkl.evaluation import kaplan_meier
    >>> kaplan_meier([True, False, True], [1.0, 2.0, 4.0]).survival.round(3)
    array([0.667, 0.667, 0.   ])
    """
    event, time, reverse = (
        as_array("event", event),
        finite_numbers("time", time),
        check_flag("reverse", reverse),
    )
    if event.dtype != np.bool_ or event.ndim != 1 or event.shape != time.shape or not len(time):
        raise ValueError(
            "`event` and `time` must be a boolean and a number for every sample, and there must be one sample at "
            f"least; got {event.dtype} of shape {event.shape} and numbers of shape {time.shape}. Compare first: "
            "`event == code`, with the code of an event that was seen."
        )
    if (time < 0.0).any():
        raise ValueError(f"`time` must not be negative; got {time.min():g}.")
    times, of_sample, leaving = np.unique(time, return_inverse=True, return_counts=True)
    events = np.bincount(of_sample, weights=event, minlength=len(times))
    at_risk = leaving[::-1].cumsum()[::-1].astype(np.float64)
    ending = leaving - events if reverse else events
    if reverse:
        at_risk = np.maximum(at_risk - events, 1.0)  # where nobody is left, nobody is censored
    return SurvivalCurve(times, np.cumprod(1.0 - ending / at_risk))


# ------------------------------------------------------------------------------------------------------ concordance


def concordance_index(
    y: np.ndarray, risk: ArrayLike, *, y_train: np.ndarray | None = None, tau: float | None = None
) -> float:
    r"""Find how often the higher of two risks is that of the sample with the earlier event.

    .. math:: C = \frac{\sum_{ij} w_i \bigl(1\{r_i > r_j\} + \tfrac12 1\{r_i = r_j\}\bigr)}{\sum_{ij} w_i}

    over pairs of an event i and a sample j that is known to have lived longer. Harrell's index [1]_ has weights of
    one; it depends on the censoring. Uno's [2]_ has :math:`w_i = 1 / \hat G(t_i-)^2`, and does not;
    :math:`\hat G(t-)` is the probability not to be censored before t.

    Parameters
    ----------
    y : structured array of shape (n_samples,)
        Events and times: a boolean field and a field of numbers, of any names.
    risk : array-like of shape (n_samples,)
        Predictions, high for early events: ``model.predict(X)``.
    y_train : structured array of shape (n_train,), default=None
        Samples from which the distribution of censoring is estimated, usually those that the model was fitted to;
        None is for Harrell's index.
    tau : float, default=None
        Only events before this time count; None takes them all. Uno's index needs a `tau` where samples of `y` have
        events after the last time of `y_train`.

    Returns
    -------
    float
        Between 0 and 1 (all pairs in order); risks that say nothing have .5.

    Raises
    ------
    ValueError
        If `y` or `y_train` is no such array or holds no event, `risk` is not finite or of another length, `tau` is
        not positive, no pair can be compared, or events are later than what `y_train` says of censoring.
    TypeError
        If an argument is a sparse matrix, or `risk` holds other objects than numbers.

    Notes
    -----
    Samples with events at the same time cannot be compared; one that is censored at the time of an event lived
    longer.

    References
    ----------
    .. [1] F. E. Harrell, K. L. Lee and D. B. Mark (1996), Multivariable prognostic models, Statistics in Medicine 15.
    .. [2] H. Uno, T. Cai, M. J. Pencina, R. B. D'Agostino and L. J. Wei (2011), On the C-statistics for evaluating
       overall adequacy of risk prediction procedures with censored survival data, Statistics in Medicine 30.

    Examples
    --------
    Of five pairs that can be compared, four are in order:

    >>> import numpy as np
    >>> from bayesmkl.evaluation import concordance_index
    >>> y = np.rec.fromarrays([[True, True, False, True], [1.0, 2.0, 3.0, 4.0]], names="event,time")
    >>> concordance_index(y, [0.9, 0.4, 0.5, 0.1])
    0.8
    """
    event, time = event_and_time(y)
    risk = of_samples("risk", risk, len(time))
    if tau is not None:
        event = event & (time < check_number("tau", tau, low=0.0))
    weights = np.zeros(len(time))
    if y_train is None:
        weights[event] = 1.0
    else:
        censoring = _censoring_of(event_and_time(y_train, "y_train"))
        weights[event] = _not_censored(censoring, time[event], before=True) ** -2.0
    in_order, pairs = ordered_pairs(event, time, risk, weights)
    if pairs == 0.0:
        raise ValueError(
            "`y` must hold an event and a sample that lived longer; got no such pair"
            f"{'' if tau is None else f' before `tau`={tau:g}'}. Score more samples together."
        )
    return in_order / pairs


# ------------------------------------------------------------------------------------------------------ Brier score


def survival_brier_score(
    y_train: np.ndarray, y: np.ndarray, survival: ArrayLike, times: ArrayLike
) -> np.ndarray:
    r"""Average the squared errors of predicted survival at given times, weighted for censoring.

    .. math::
        \mathrm{BS}(t) = \frac1N \sum_i \Bigl[ \frac{1\{t_i \le t, \text{event}\}}{\hat G(t_i-)} \hat S_i(t)^2
        + \frac{1\{t_i > t\}}{\hat G(t)} \bigl(1 - \hat S_i(t)\bigr)^2 \Bigr]

    where :math:`\hat G(t)` is the probability not to be censored until t, and :math:`\hat G(t-)` that before t. At
    the last time of `y_train`, where :math:`\hat G(t)` may be zero, samples that are neither dead nor censored
    before t weigh :math:`1 / \hat G(t-)`.

    Parameters
    ----------
    y_train : structured array of shape (n_train,)
        Samples from which the distribution of censoring is estimated, usually those that the model was fitted to.
    y : structured array of shape (n_samples,)
        Events and times of the samples that are scored: a boolean field and a field of numbers, of any names.
    survival : array-like of shape (n_samples, n_times)
        Predicted probability that the event of each sample is later than each time.
    times : array-like of shape (n_times,)
        Increasing times within the follow-up of `y`: at least its shortest time, and below its longest one.

    Returns
    -------
    ndarray of shape (n_times,)
        Brier score at each time, 0 at best; .25 is what a survival of .5 for all has.

    Raises
    ------
    ValueError
        If `y` or `y_train` is no such array or holds no event, `times` do not increase within the follow-up,
        `survival` holds no probabilities or is of another shape, or `y_train` is not followed up for long enough.
    TypeError
        If an argument is a sparse matrix, or `survival` or `times` holds other objects than numbers.

    References
    ----------
    E. Graf, C. Schmoor, W. Sauerbrei and M. Schumacher (1999), Assessment and comparison of prognostic classification
    schemes for survival data, Statistics in Medicine 18.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.evaluation import survival_brier_score
    >>> y = np.rec.fromarrays([[True, True, False, True], [1.0, 2.0, 3.0, 4.0]], names="event,time")
    >>> survival_brier_score(y, y, [[0.2, 0.1], [0.7, 0.4], [0.9, 0.6], [0.8, 0.7]], [1.5, 2.5]).round(4)
    array([0.045, 0.105])
    """
    seen = event_and_time(y)
    when = _checked_times(times, seen)
    predicted = finite_numbers("survival", survival)
    if predicted.shape != (len(seen.time), len(when)):
        raise ValueError(
            f"`survival` must have a row for each of the {len(seen.time)} samples of `y` and a column for each of "
            f"the {len(when)} `times`; got shape {predicted.shape}."
        )
    check_probabilities("survival", predicted)
    censoring = _censoring_of(event_and_time(y_train, "y_train"))
    weights = np.stack([_known_status(censoring, seen, one) for one in when], axis=1)
    alive = ~(seen.event[:, None] & (seen.time[:, None] <= when))
    return np.asarray((weights * (alive - predicted) ** 2).mean(axis=0))


def integrated_brier_score(
    y_train: np.ndarray, y: np.ndarray, survival: ArrayLike, times: ArrayLike
) -> float:
    r"""Average the Brier score over a range of times.

    .. math:: \mathrm{IBS} = \frac{1}{t_{\max} - t_{\min}} \int_{t_{\min}}^{t_{\max}} \mathrm{BS}(t) \, dt

    by the trapezoidal rule over `times`.

    Parameters
    ----------
    y_train : structured array of shape (n_train,)
        Samples from which the distribution of censoring is estimated, usually those that the model was fitted to.
    y : structured array of shape (n_samples,)
        Events and times of the samples that are scored: a boolean field and a field of numbers, of any names.
    survival : array-like of shape (n_samples, n_times)
        Predicted probability that the event of each sample is later than each time.
    times : array-like of shape (n_times,)
        Two increasing times at least, within the follow-up of `y`.

    Returns
    -------
    float
        Mean Brier score, 0 at best.

    Raises
    ------
    ValueError
        If there is only one time, and as :func:`survival_brier_score` raises.
    TypeError
        If an argument is a sparse matrix, or `survival` or `times` holds other objects than numbers.

    References
    ----------
    E. Graf, C. Schmoor, W. Sauerbrei and M. Schumacher (1999), Assessment and comparison of prognostic classification
    schemes for survival data, Statistics in Medicine 18.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.evaluation import integrated_brier_score
    >>> y = np.rec.fromarrays([[True, True, False, True], [1.0, 2.0, 3.0, 4.0]], names="event,time")
    >>> round(integrated_brier_score(y, y, [[0.2, 0.1], [0.7, 0.4], [0.9, 0.6], [0.8, 0.7]], [1.5, 2.5]), 4)
    0.075
    """
    scores = survival_brier_score(y_train, y, survival, times)
    if len(scores) < 2:
        raise ValueError(
            f"`times` must hold at least two times to integrate over; got {len(scores)}. `survival_brier_score` "
            "scores one."
        )
    when = finite_numbers("times", times)
    return float(np.trapezoid(scores, when) / (when[-1] - when[0]))


# ------------------------------------------------------------------------------------------------------ calibration


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
    derived in the docstring of the module ``bayesmkl.evaluation.survival``. The ends are quantiles of a
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


# ------------------------------------------------------------------------------------- times of a comparison's scores


def median_event(y_train: np.ndarray) -> float:
    """Return the median time of the events of the training part."""
    event, time = event_and_time(y_train, "y_train")
    return float(np.median(time[event]))


def brier_times(y_train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the times of an integrated Brier score, the same for all models of a split.

    Parameters
    ----------
    y_train, y : structured arrays of shapes (n_train,) and (n_samples,)
        Events and times of the training and of the test part.

    Returns
    -------
    ndarray of shape (60,)
        Equally spaced between the first and the last tenth of the events of the training part, as far as the test
        part is followed.

    Raises
    ------
    ValueError
        If the test part is not followed then.

    Examples
    --------
    >>> y = np.rec.fromarrays([np.full(11, True), np.arange(1.0, 12.0)], names="event,time")
    >>> brier_times(y, y[1:])[[0, -1]]
    array([ 2., 10.])
    """
    (event, time), seen = event_and_time(y_train, "y_train"), event_and_time(y)
    low, high = np.quantile(time[event], SPAN)
    low, high = max(low, seen.time.min()), min(high, np.nextafter(seen.time.max(), 0.0))
    if low >= high:
        raise ValueError(
            f"`y` must be followed at the times of the events of training, {SPAN[0]:.0%} to {SPAN[1]:.0%} of them; "
            f"got times from {seen.time.min():g} to {seen.time.max():g}. Score larger test parts."
        )
    return np.linspace(low, high, N_TIMES)


# --------------------------------------------------------------------------------------------------------- censoring


def _known_status(censoring: SurvivalCurve, seen: EventTimes, when: float) -> np.ndarray:
    """Weigh each sample whose status at a time is known by 1 / probability that it is known; others get zero."""
    dead, alive = seen.event & (seen.time <= when), seen.time > when
    is_last = bool(censoring.at(when) <= 0.0)
    if is_last:  # nobody of training is followed for longer: samples that are censored at this time are alive
        alive = ~dead & (seen.time >= when)
    weights = np.zeros(len(seen.time))
    weights[dead] = 1.0 / _not_censored(censoring, seen.time[dead], before=True)
    if alive.any():
        weights[alive] = 1.0 / _not_censored(censoring, np.array([when]), before=is_last)
    return weights


def _not_censored(censoring: SurvivalCurve, times: np.ndarray, before: bool) -> np.ndarray:
    """Return the probabilities not to be censored until given times, or before them; the curve must reach so far."""
    last = censoring.times[-1]
    if (times > last).any():
        raise ValueError(
            f"`y_train` must be observed for as long as samples of `y` that count, {times.max():g}; got samples that "
            f"are observed until {last:g}. Score earlier times, `times` or `tau`."
        )
    return censoring.at(times, before)


def _censoring_of(seen: EventTimes) -> SurvivalCurve:
    """Estimate the probability not to be censored."""
    return kaplan_meier(seen.event, seen.time, reverse=True)


# ------------------------------------------------------------------------------------------------------------ checks


def of_samples(name: str, values: ArrayLike, n_samples: int) -> np.ndarray:
    """Return finite numbers, one for each sample of `y`."""
    numbers = finite_numbers(name, values)
    if numbers.shape != (n_samples,):
        raise ValueError(
            f"`{name}` must hold one number for each of the {n_samples} samples of `y`; got shape {numbers.shape}."
        )
    return numbers


def check_probabilities(name: str, values: np.ndarray) -> None:
    """Raise for numbers outside [0, 1]."""
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError(
            f"`{name}` must hold probabilities between 0 and 1; got {values.min():g} to {values.max():g}. "
            "Use `predict_survival_function`, not `predict`."
        )


def check_follow_up(name: str, times: np.ndarray, seen: EventTimes) -> None:
    """Raise for times before the first or from the last time of the samples on."""
    first, last = seen.time.min(), seen.time.max()
    if (times < first).any() or (times >= last).any():
        raise ValueError(
            f"`{name}` must lie within the follow-up of `y`, at least {first:g} and below {last:g}; got "
            f"{times.min():g} to {times.max():g}. Such as `np.quantile(time[event], [0.25, 0.5, 0.75])`."
        )


def _checked_times(times: ArrayLike, seen: EventTimes) -> np.ndarray:
    when = finite_numbers("times", times)
    if when.ndim != 1 or not len(when) or (np.diff(when) <= 0.0).any():
        raise ValueError(
            f"`times` must be a list of increasing times; got {shown(when.tolist())}. Use `np.unique(times)`."
        )
    check_follow_up("times", when, seen)
    return when
