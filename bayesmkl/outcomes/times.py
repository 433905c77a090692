r"""Likelihoods of times to an event, of which some are known to lie in an interval only.

A target has the fields (`lower`, `upper`, `entry`), (3, n_samples): the logarithms of the ends of the interval that
the time lies in, equal where it was observed and `upper` infinite where it was censored, and of the time from which
the sample was under observation, minus infinity if from the start. All are in units in which times are about one.

Beside them are the scale that times have without features, checks that estimators share, and the truncated moments of
intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.truncated_normal import TruncatedMoments, interval_moments
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.survival_target import SurvivalTimes, event_and_time
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import check_number, shown
from bayesmkl.outcomes.base import (
    LOG_HAZARD,
    LOG_TIME,
    Derivatives,
    Likelihood,
    LogNormal,
    Outcome,
    Predicted,
)
from bayesmkl.outcomes.intervals import (
    INFINITE,
    LAWS,
    Along,
    Law,
    log_density_slopes,
    log_mass_slopes,
    log_survival_slopes,
)

OF_TIMES = {"log-normal": "normal", "log-logistic": "logistic", "weibull": "extreme value"}
NEEDED = {0: ("moved",), 2: ("moved", "first", "second"), 3: Along._fields[1:]}  # by order
N_QUANTILES = 400  # of the mean and variance of a distribution without closed ones


class SurvivalLikelihood(Likelihood):
    """Likelihood of times that also knows how probable it is to be alive."""

    unit = LOG_TIME
    rises = True  # whether times grow with the score

    def log_survival(self, log_time: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability that the event is later.

        Parameters
        ----------
        log_time : array of shape (n_times,), or one that goes with `score`
            Logarithms of the times.
        score : array of shape (n_samples, 1), or one that goes with `log_time`
            Scores.
        parameters : array of shape (n_parameters,), or with axes that go with those of `score`
            Parameters of the likelihood.

        Returns
        -------
        array of shape (n_samples, n_times)
            Log probabilities.
        """
        raise NotImplementedError

    def log_quantile(self, probability: np.ndarray, score: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the logarithm of the time until which the event has happened with a probability.

        Parameters
        ----------
        probability : array of shape (n_samples,), or float
            Probabilities between 0 and 1.
        score : array of shape (n_samples,)
            Scores.
        parameters : array of shape (n_parameters,), or with axes that go with those of `score`
            Parameters of the likelihood.

        Returns
        -------
        array of shape (n_samples,)
            Logarithms of the times.
        """
        raise NotImplementedError


@fulfil_docs(SurvivalLikelihood)
@dataclass(frozen=True)
class FailureTime(SurvivalLikelihood):
    r"""Accelerated failure time: :math:`\log T_i = f_i + \sigma \epsilon_i`.

    The time scale of a sample is multiplied by :math:`e^{f_i}`, so scores are differences of log times. The noise has
    a normal distribution ("log-normal" times), a logistic distribution ("log-logistic"), or that of the logarithm of
    an exponential variable ("weibull"; its shape is :math:`1 / \sigma`). The likelihood is log-concave except for
    log-logistic times with late entry.

    Parameters
    ----------
    times : {"log-normal", "log-logistic", "weibull"}, default="log-normal"
        Distribution of the times.
    scale_prior : LogNormal, default=LogNormal(0.5, 1.0)
        Prior of :math:`\sigma`, in units of the standard deviation of log times in a model without features.

    Examples
    --------
    >>> import numpy as np
    >>> observed, censored = [0.0, 0.0, -np.inf], [0.0, np.inf, -np.inf]
    >>> y = np.array([observed, censored]).T
    >>> FailureTime("weibull").log_density(y, np.zeros(2), np.array([1.0]))
    array([-1., -1.])
    """

    times: str = "log-normal"
    scale_prior: LogNormal = LogNormal(0.5, 1.0)

    names = ("log_time_scale",)

    @property
    def _law(self) -> Law:
        """Distribution of the noise."""
        return LAWS[OF_TIMES[self.times]]

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every observed time, and log probabilities of intervals."""
        found, is_observed, scale = self._slopes(y, score, parameters, ("value",))
        return found["value"] - is_observed * namespace(score).log(scale)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        found, is_observed, scale = self._slopes(y, score, parameters, NEEDED[order])
        by_scale = (-(found["moved"] + is_observed) / scale)[None]
        if order == 0:
            return Derivatives(None, None, None, by_scale, None, None)
        first, second = -found["first"] / scale, found["second"] / scale**2
        if order == 2:
            return Derivatives(first, second, None, by_scale, None, None)
        return Derivatives(
            first,
            second,
            -found["third"] / scale**3,
            by_scale,
            ((found["first"] + found["first_moved"]) / scale**2)[None],
            (-(2.0 * found["second"] + found["second_moved"]) / scale**3)[None],
        )

    def heights(self, y: Array, score: Array, parameters: Array) -> tuple[Any, Any]:
        """Return the log density, and its derivatives by the parameters."""
        found, is_observed, scale = self._slopes(y, score, parameters, ("value", "moved"))
        log_density = found["value"] - is_observed * namespace(score).log(scale)
        return log_density, (-(found["moved"] + is_observed) / scale)[None]

    def _slopes(
        self, y: Array, score: Array, parameters: Array, needed: tuple[str, ...]
    ) -> tuple[dict[str, Any], Any, Any]:
        """Return derivatives by the standardized log times, where they were observed, and their scale.

        The fields of `Along` that are `needed` are found.
        """
        xp, law, scale = namespace(score), self._law, parameters[0]
        lower, upper, entry = ((y[..., field, :] - score) / scale for field in range(3))
        is_observed, is_open = y[..., 0, :] == y[..., 1, :], y[..., 1, :] == xp.inf
        is_late = y[..., 2, :] > -xp.inf

        def between(start: Any, end: Any) -> Along:
            return log_mass_slopes(law, start, end, [(finite(start), finite(end))])[0]

        found = {name: xp.zeros(lower.shape) for name in needed}
        found = _put(found, is_observed, lambda z: log_density_slopes(law, z), lower)
        found = _put(found, is_open, lambda z: log_survival_slopes(law, finite(z)), lower)
        found = _put(found, ~(is_observed | is_open), between, lower, upper)
        found = _put(found, is_late, lambda z: log_survival_slopes(law, z), entry, sign=-1.0)
        return found, xp.where(is_observed, 1.0, 0.0), scale

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the logarithm of the time."""
        scale = parameters[0]
        return Predicted(mean + scale * self._law.mean, variance + scale**2 * self._law.variance)

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return parameters[0] ** 2 * self._law.variance

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the logarithm of a time for every score."""
        return self.log_quantile(rng.random(score.shape), score, parameters)

    def log_survival(self, log_time: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability that the event is later."""
        law, z = self._law, (log_time - score) / parameters[0]
        return law.survival(namespace(z).clip(z, -INFINITE, law.largest)).value

    def log_quantile(self, probability: np.ndarray, score: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return the logarithm of the time until which the event has happened with a probability."""
        quantiles = {
            "log-normal": special.ndtri,
            "log-logistic": special.logit,
            "weibull": lambda p: np.log(-np.log1p(-p)),
        }
        return score + parameters[0] * quantiles[self.times](probability)


@fulfil_docs(SurvivalLikelihood)
@dataclass(frozen=True)
class PiecewiseHazard(SurvivalLikelihood):
    r"""Proportional hazards :math:`\lambda(t) e^{f_i}` with a baseline that is constant between breaks.

    This equals Poisson counts of events with the time at risk as their exposure. An event between the times `l` and
    `u` has the log probability
    :math:`-e^f \Lambda(l) + \log(1 - e^{-e^f (\Lambda(u) - \Lambda(l))})`.

    Parameters
    ----------
    breaks : tuple of float, default=()
        Times at which the hazard changes, ascending.
    level_prior : LogNormal, default=LogNormal(1.0, 1.0)
        Prior of every :math:`\lambda_j`, a rate in events per unit of time.

    Examples
    --------
    >>> import numpy as np
    >>> censored_at_two = np.array([[np.log(2.0)], [np.inf], [-np.inf]])
    >>> PiecewiseHazard((1.0,)).log_density(censored_at_two, np.zeros(1), np.array([0.5, 2.0]))
    array([-2.5])
    """

    breaks: tuple[float, ...] = ()
    level_prior: LogNormal = LogNormal(1.0, 1.0)

    unit = LOG_HAZARD
    rises = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(f"hazard_{number}" for number in range(len(self.breaks) + 1))

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        return (self.level_prior,) * (len(self.breaks) + 1)

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every observed time, and log probabilities of intervals."""
        return _log_density_under(self._risk(y, score, parameters), score)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        xp, risk = namespace(score), self._risk(y, score, parameters)
        by_levels = _by_levels(risk, score, parameters)
        if order == 0:
            return Derivatives(None, None, None, by_levels, None, None)
        found = risk.within[0]
        first, second = risk.of_event - risk.before + found.first, -risk.before + found.second
        if order == 2:
            return Derivatives(first, second, None, by_levels, None, None)
        parts = list(zip(risk.by_level, risk.within, strict=True))
        return Derivatives(
            first,
            second,
            -risk.before + found.third,
            by_levels,
            xp.stack([own.first_moved - before for before, own in parts]),
            xp.stack([own.second_moved - before for before, own in parts]),
        )

    def heights(self, y: Array, score: Array, parameters: Array) -> tuple[Any, Any]:
        """Return the log density, and its derivatives by the parameters."""
        risk = self._risk(y, score, parameters)
        return _log_density_under(risk, score), _by_levels(risk, score, parameters)

    def _risk(self, y: Array, score: Array, parameters: Array) -> _Risk:
        xp, law = namespace(score), LAWS["extreme value"]
        is_observed, is_open = y[..., 0, :] == y[..., 1, :], ~xp.isfinite(y[..., 1, :])
        between = ~(is_observed | is_open)
        lower, entry = xp.exp(y[..., 0, :]), xp.exp(y[..., 2, :])
        upper = xp.exp(xp.where(is_open, 0.0, y[..., 1, :]))
        rate = xp.exp(xp.minimum(score, law.largest))
        until, before, later = self._spent(lower), self._spent(entry), self._spent(upper)
        by_level = [rate * (end - start) for end, start in zip(until, before, strict=True)]
        widths = [xp.where(between, end - start, 1.0) for end, start in zip(later, until, strict=True)]
        width = sum(level * own for level, own in zip(parameters, widths, strict=True))
        upper_end = finite(score + xp.log(width))
        directions: list[tuple[Any, Any]] = [(0.0, own / width) for own in widths]
        if is_numpy(upper_end) and not between.any():
            nothing = Along(*(0.0 for _ in Along._fields))
            within = [nothing] * len(directions)
        else:
            within = log_mass_slopes(law, xp.full_like(upper_end, -xp.inf), upper_end, directions)
            within = [Along(*(xp.where(between, value, 0.0) for value in own)) for own in within]
        events = [
            xp.where(is_observed & (lower >= start) & (lower < end), 1.0, 0.0) for start, end in self._periods
        ]
        return _Risk(
            xp.where(is_observed, 1.0, 0.0),
            events,
            sum(event * xp.log(level) for event, level in zip(events, parameters, strict=True)),
            sum(level * own for level, own in zip(parameters, by_level, strict=True)),
            by_level,
            within,
        )

    @property
    def _periods(self) -> list[tuple[float, float]]:
        """Starts and ends of the periods of the baseline."""
        return list(pairwise((0.0, *self.breaks, np.inf)))

    def _spent(self, time: Array) -> list[Any]:
        """Return the time between breaks until then."""
        xp = namespace(time)
        return [xp.clip(time - start, 0.0, end - start) for start, end in self._periods]

    def predict(self, mean: Any, variance: Any, parameters: Any, y: Any = None) -> Predicted:
        """Return moments of the logarithm of the time, by quantiles."""
        xp = namespace(mean)
        points = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
        scores: Any = mean + xp.sqrt(variance) * special.ndtri(points).reshape(-1, 1, *(1,) * mean.ndim)
        logs = self.log_quantile(points.reshape(-1, *(1,) * mean.ndim), scores, parameters)
        return Predicted(logs.mean(axis=(0, 1)), logs.var(axis=(0, 1)))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score, of the log of an exponential variable."""
        return np.full(parameters.shape[1:], LAWS["extreme value"].variance)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the logarithm of a time for every score."""
        return self.log_quantile(rng.random(score.shape), score, parameters)

    def log_survival(self, log_time: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability that the event is later."""
        xp = namespace(score)
        spent = self._spent(xp.exp(log_time))
        hazard = sum(level * own for level, own in zip(parameters, spent, strict=True))
        return -xp.exp(xp.minimum(score, LAWS["extreme value"].largest)) * hazard

    def log_quantile(self, probability: np.ndarray, score: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return the logarithm of the time until which the event has happened with a probability."""
        left = -np.log1p(-probability) * np.exp(-score)  # of the cumulative baseline hazard
        time = np.zeros_like(left)
        for (start, end), level in zip(self._periods, parameters, strict=True):
            spent = np.minimum(np.maximum(left, 0.0) / level, end - start)
            time, left = time + spent, left - spent * level
        return np.log(np.maximum(time, np.finfo(float).tiny))


class _Risk(NamedTuple):
    """What hazards say of observations; lists have an entry for every period of the baseline."""

    of_event: Any  # 1 of observed times
    events: list[Any]  # the same, in the period of the event
    log_level: Any  # of the baseline then
    before: Any  # cumulative hazard from the entry to the time, or the start of the interval
    by_level: list[Any]  # derivatives of it
    within: list[Along]  # log probability of the event within the interval, in the direction of every level


def _log_density_under(risk: _Risk, score: Array) -> Any:
    return risk.of_event * (score + risk.log_level) - risk.before + risk.within[0].value


def _by_levels(risk: _Risk, score: Array, parameters: Array) -> Any:
    """Return derivatives of the log density by the level of every period."""
    rows = zip(risk.events, parameters, risk.by_level, risk.within, strict=True)
    return namespace(score).stack([event / level - spent + own.moved for event, level, spent, own in rows])


def finite(ends: Array) -> Any:
    """Return ends with large numbers for infinite ones."""
    return namespace(ends).clip(ends, -INFINITE, INFINITE)


def _put(
    found: dict[str, Any], where: Any, slopes: Callable[..., Along], *ends: Any, sign: float = 1.0
) -> dict[str, Any]:
    """Add derivatives of some samples: on NumPy of these alone, else of all and a choice."""
    xp = namespace(next(iter(found.values())))
    if xp is np:
        chosen = np.flatnonzero(where)
        if len(chosen):
            own = slopes(*(end.take(chosen, axis=-1) for end in ends))
            for name, total in found.items():
                if sign > 0.0:  # nothing was there yet
                    total[..., chosen] = getattr(own, name)
                else:
                    total[..., chosen] -= getattr(own, name)
        return found
    own = slopes(*(xp.where(where, end, 0.5 * place) for place, end in enumerate(ends)))
    return {name: total + sign * xp.where(where, getattr(own, name), 0.0) for name, total in found.items()}


LEAST_SCALE = 1e-3  # of log times without features


def log_ends(times: SurvivalTimes) -> np.ndarray:
    """Return logarithms of lower ends, upper ends and entries, (3, n_samples)."""
    with np.errstate(divide="ignore"):
        return np.log(np.array([times.lower, times.upper, times.entry]))


def concordance(risk: np.ndarray, y: Targets) -> float:
    """Return the part of the pairs of times whose order is known that risks predict.

    Parameters
    ----------
    risk : ndarray of shape (n_rows,)
        The higher, the earlier the event.
    y : structured array of shape (n_rows,)

    Raises
    ------
    ValueError
        If there is another number of times, or no pair whose order is known.
    """
    event, time = event_and_time(y)
    if len(risk) != len(time):
        raise ValueError(f"`y` must hold a time for each of the {len(risk)} rows of `X`; got {len(time)}.")
    in_order, pairs = ordered_pairs(event, time, risk, np.ones(len(time)))
    if pairs == 0.0:
        raise ValueError(
            "`y` must hold an event and a sample that lived longer; got no such pair. Score more samples together."
        )
    return in_order / pairs


def check_quantile(q: float) -> float:
    """Return a probability strictly between 0 and 1; raise ValueError for anything else."""
    if not 0.0 < check_number("q", q) < 1.0:
        raise ValueError(f"`q` must be between 0 and 1; got {q!r}. 0.5 stands for the median time.")
    return float(q)


def log_slopes(targets: np.ndarray, location: float, scale: float) -> np.ndarray:
    """Return log derivatives of times by standardized log times where they were observed, zero elsewhere.

    Parameters
    ----------
    targets : ndarray of shape (3, n_samples)
        Standardized ends and entries.
    location, scale : float
        By which log times were standardized.
    """
    lower, upper, _ = targets
    is_observed = lower == upper
    log_time = location + scale * np.where(is_observed, lower, 0.0)
    return np.where(is_observed, log_time + np.log(scale), 0.0)


def standard_log_times(times: Any, location: float, scale: float) -> np.ndarray:
    """Return standardized logarithms of times of predictions; raise ValueError for what is none."""
    found = check_numbers("times", np.asarray(times)).astype(float)
    if found.ndim != 1 or not len(found) or not (np.isfinite(found) & (found >= 0.0)).all():
        raise ValueError(
            f"`times` must be a sequence of numbers that are finite and not negative; got {shown(times)}. Write "
            "[1.0, 5.0], in the units of the training times."
        )
    with np.errstate(divide="ignore"):
        return (np.log(found) - location) / scale


def without_features(
    likelihood: Any, logs: np.ndarray, sample_weight: np.ndarray | None = None
) -> tuple[float, float]:
    """Return location and scale of log times of a model that has the same score for all samples.

    Parameters
    ----------
    likelihood : FailureTime
    logs : ndarray of shape (3, n_samples)
        `log_ends`.
    sample_weight : ndarray of shape (n_samples,), optional
        How often samples count.

    Returns
    -------
    location, scale : float
        Scale is the standard deviation of the distribution.
    """
    counts = np.ones(logs.shape[1]) if sample_weight is None else sample_weight
    finite, of_finite = logs[np.isfinite(logs)], np.broadcast_to(counts, logs.shape)[np.isfinite(logs)]
    location = float(np.average(finite, weights=of_finite))
    spread = max(float(np.sqrt(np.average((finite - location) ** 2, weights=of_finite))), LEAST_SCALE)
    n_observed = counts @ (logs[0] == logs[1])
    nothing, one = np.zeros(logs.shape[1]), np.ones(1)

    def scale_of(log_factor: float) -> float:
        return spread * float(np.exp(np.clip(log_factor, np.log(LEAST_SCALE), -np.log(LEAST_SCALE))))

    def negative(at: np.ndarray) -> float:
        scale = scale_of(at[1])
        standard = (logs - location - spread * at[0]) / scale
        with np.errstate(all="ignore"):
            height = counts @ likelihood.log_density(standard, nothing, one) - n_observed * np.log(scale)
        return -height if np.isfinite(height) else np.inf

    found = optimize.minimize(
        negative, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8}
    )
    shift, log_scale = found.x
    return location + spread * float(shift), scale_of(log_scale) * float(np.sqrt(likelihood._law.variance))


# ------------------------------------------------------------------------- what intervals say to closed-form updates


class _Intervals(NamedTuple):
    upper: Any  # upper ends u, (n_samples,); the targets are the lower ones


class Intervals(_Intervals, Outcome):
    """Targets of which the ends of an interval are observed, y_i < f_i <= u_i, noise as that of `Numbers`.

    Where both ends are equal, the target itself is. An infinite upper end is right censoring, a lower one that is
    minus infinite left censoring. A target that was not observed is one more latent variable,

        q(f_i) = N(f_i; μ_i, 1/E[ε]) 1{y_i < f_i <= u_i} / Z_i,

    and its variance is added to the squared residual of which q(ε) learns. Where all targets are observed every sweep
    is that of `Numbers`.
    """

    unit = LOG_TIME
    has_noise = True

    def start(self, y: Array, noise: Array) -> tuple[Any, Any]:
        """Start targets that were not observed at their expectation under a standard normal law."""
        return update_targets(y, self.upper, namespace(y).zeros_like(y), 1.0).mean, None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Return q(f), without variance and entropy where a target was observed."""
        return update_targets(y, self.upper, loc, precision), None

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return the log density of a target, or the log probability of its interval."""
        targets = np.array([y, self.upper, np.full_like(y, -np.inf)])
        return FailureTime().log_density(targets, mean, np.broadcast_to(scale, mean.shape)[None])


def update_targets(lower: Array, upper: Array, loc: Array, precision: Array | float) -> TruncatedMoments:
    """Return q(z): normal between its ends, and a point where these are equal.

    Parameters
    ----------
    lower, upper : arrays of shape (n_samples,)
        Ends.
    loc : array of shape (n_samples,)
        μ.
    precision : float
        E[ε].
    """
    xp = namespace(lower)
    root, is_observed = xp.sqrt(precision * xp.ones_like(loc)), lower == upper
    end = xp.where(is_observed, lower + 1.0, upper)
    mean, variance, entropy, log_normalizer = interval_moments(root * loc, root * lower, root * end)
    return TruncatedMoments(
        xp.where(is_observed, lower, mean / root),
        xp.where(is_observed, 0.0, variance / root**2),
        xp.where(is_observed, 0.0, entropy - xp.log(root)),
        xp.where(is_observed, 0.0, log_normalizer),
    )


# ----------------------------------------------------------------------------------------------------- pairs in order


def ordered_pairs(
    event: np.ndarray, time: np.ndarray, risk: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Return the weight of the pairs that are in order, equal risks half, and that of all whose order is known.

    Parameters
    ----------
    event : ndarray of bool, of shape (n_samples,)
        Whether the event was seen.
    time : ndarray of shape (n_samples,)
        Time to the event, or to censoring, which comes after events of the same time.
    risk : ndarray of shape (n_samples,)
        The higher, the earlier the event.
    weights : ndarray of shape (n_samples,)
        Of a pair by the sample whose event is the earlier.

    Examples
    --------
    >>> seen, nothing = np.array([True, True]), np.ones(2)
    >>> ordered_pairs(seen, np.array([1.0, 2.0]), np.array([0.3, 0.1]), nothing)
    (1.0, 1.0)
    """
    in_order = pairs = 0.0
    for i in np.flatnonzero(event):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        higher, same = np.count_nonzero(risk[i] > risk[later]), np.count_nonzero(risk[i] == risk[later])
        in_order += float(weights[i]) * (higher + 0.5 * same)
        pairs += float(weights[i]) * np.count_nonzero(later)
    return float(in_order), float(pairs)
