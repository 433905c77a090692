"""Counts of events, and of successes out of a number of trials: their checks, and their likelihoods."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayesmkl._numerics.arrays import Array, namespace, special_functions
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl.outcomes.base import (
    LOG_ODDS,
    LOG_RATE,
    Derivatives,
    Likelihood,
    LogNormal,
    Predicted,
    no_parameters,
)

LARGEST_LOG = 300.0  # of a rate: its third power is still a number
LARGEST_LOGIT = 60.0  # beyond it a probability is 0 or 1
N_QUANTILES = 129  # of a normal score
REACH = 8.5  # of them, in standard deviations
LEAST_MEAN = 1e-3  # of counts, where the variance of their logarithm is taken
WIDEST = 40.0  # difference of logarithms of exposures, a factor of 2e17
LARGEST_COUNT = 1e9  # beyond some 1e11 steps of the evidence lose their digits
LEAST_RATE = 0.5  # counts, or successes, that a target has at least when its mean rate is taken


class Rated(Likelihood):
    """Likelihood of counts, and of other targets whose scores are logarithms of rates, which offsets add to."""

    unit = LOG_RATE

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Return targets as the likelihood sees them, checked.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Targets of the user.

        Returns
        -------
        ndarray of shape (n_outputs, n_fields, n_samples)
            A count has one field, a count of trials two.
        """
        check_counts(y)
        return np.atleast_2d(y.T)[:, None]

    def base_scores(
        self, fields: np.ndarray, offset: np.ndarray, sample_weight: np.ndarray | None
    ) -> np.ndarray:
        """Return the score of every output that all samples together speak for, beside their offsets.

        Parameters
        ----------
        fields : ndarray of shape (n_outputs, n_fields, n_samples)
            Encoded targets.
        offset : ndarray of shape (n_samples,)
            What scores have beside those of kernels.
        sample_weight : ndarray of shape (n_samples,), or None
            How often samples count.

        Returns
        -------
        ndarray of shape (n_outputs,)
            Logarithms of rates, or log odds.
        """
        weights = np.ones(len(offset)) if sample_weight is None else sample_weight
        return np.log(np.maximum(fields[:, 0] @ weights, LEAST_RATE)) - special.logsumexp(offset, b=weights)

    def rate(self, score: np.ndarray) -> Any:
        """Return the mean of a target at a score.

        Parameters
        ----------
        score : ndarray
            Of any shape.

        Returns
        -------
        ndarray
            Of the same shape.
        """
        with np.errstate(over="ignore"):  # of an offset of zero, far from those that there are
            return np.exp(score)


def check_counts(y: np.ndarray) -> None:
    """Raise for targets that are no counts, or beyond what can be told apart."""
    wrong = (y < 0.0) | (y != np.floor(y))
    if wrong.any():
        raise ValueError(
            f"`y` must hold counts, whole numbers that are not negative, with this `likelihood`; got "
            f'{y[wrong].flat[0]:g}. Round them if they are counts, or use likelihood="gaussian".'
        )
    if y.max() > LARGEST_COUNT:
        raise ValueError(
            f"`y` must hold counts of at most {LARGEST_COUNT:g} with this `likelihood`; got {y.max():g}. Treat "
            'counts this large as numbers: fit their logarithms, np.log1p(y), with likelihood="gaussian".'
        )


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Poisson(Rated):
    r"""Counts of events: :math:`y_i \sim \mathrm{Poisson}(e^{f_i})`.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().log_density(np.array([0.0, 2.0]), np.zeros(2), np.zeros(0)).round(4)
    array([-1.    , -1.6931])
    """

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability of every count."""
        return y * score - _rate(score) - special_functions(y).gammaln(y + 1.0)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log probability."""
        rate, none = _rate(score), no_parameters(score)
        return Derivatives(y - rate, -rate, -rate, none, none, none)

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the count."""
        rate, of_rate = _moments_of_rate(mean, variance)
        return Predicted(rate, rate + of_rate)

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.full(parameters.shape[1:], np.log1p(1.0 / max(y.mean(), LEAST_MEAN)))

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a count for every score."""
        return _draw_counts(np.exp(score), rng)


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class NegativeBinomial(Rated):
    r"""Counts of events whose rate varies: mean :math:`\mu_i = e^{f_i}`, variance :math:`\mu_i + \mu_i^2 / r`.

    The rate of a Poisson distribution is multiplied by a Gamma variable with mean one and shape `r`, the
    concentration.

    Parameters
    ----------
    concentration_prior : LogNormal, default=LogNormal(3.0, 1.5)
        Prior of the concentration `r`; the smaller, the more the counts vary.

    Examples
    --------
    >>> import numpy as np
    >>> NegativeBinomial().log_density(np.array([0.0, 2.0]), np.zeros(2), np.array([1.0])).round(4)
    array([-0.6931, -2.0794])
    """

    concentration_prior: LogNormal = LogNormal(3.0, 1.5)

    names = ("concentration",)

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability of every count."""
        return self.heights(y, score, parameters)[0]

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log probability."""
        if order == 0:
            return Derivatives(None, None, None, self.heights(y, score, parameters)[1], None, None)
        xp, special, own = namespace(score), special_functions(score), parameters[0]
        log_total = xp.logaddexp(xp.log(own), score)
        total, part, rest = xp.exp(log_total), xp.exp(score - log_total), xp.exp(xp.log(own) - log_total)
        weight, spread = y + own, part * rest
        gammas = special.digamma(y + own) - special.digamma(own)
        return Derivatives(
            y - weight * part,
            -weight * spread,
            -weight * spread * (rest - part),
            (gammas + xp.log(own) - log_total + 1.0 - weight / total)[None],
            (-part + weight * part / total)[None],
            (-spread + weight * (rest - part) * part / total)[None],
        )

    def heights(self, y: Array, score: Array, parameters: Array) -> tuple[Any, Any]:
        """Return the log probability, and its derivatives by the parameters."""
        xp, special, own = namespace(score), special_functions(score), parameters[0]
        log_own, weight = xp.log(own), y + own
        log_total = xp.logaddexp(log_own, score)
        ways = special.gammaln(weight) - special.gammaln(own) - special.gammaln(y + 1.0)
        log_probability = ways + own * (log_own - log_total) + y * (score - log_total)
        gammas = special.digamma(weight) - special.digamma(own) + log_own + 1.0
        return log_probability, (gammas - log_total - weight * xp.exp(-log_total))[None]

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the count."""
        rate, of_rate = _moments_of_rate(mean, variance)
        return Predicted(rate, rate + of_rate + (of_rate + rate**2) / parameters[0])

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.log1p(1.0 / max(y.mean(), LEAST_MEAN) + 1.0 / parameters[0])

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a count for every score."""
        own = np.broadcast_to(parameters[0], score.shape)
        return _draw_counts(np.exp(score) * rng.gamma(own) / own, rng)


@fulfil_docs(Rated)
@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class BetaBinomial(Rated):
    r"""Numbers of successes, with success probabilities that vary around :math:`p_i = 1 / (1 + e^{-f_i})`.

    :math:`y_i \sim \mathrm{Binomial}(n_i, q_i)`, :math:`q_i \sim \mathrm{Beta}(\kappa p_i, \kappa (1 - p_i))`. A
    target has the fields (successes, trials), (2, n_samples). The likelihood is log-concave in the score except in
    its unlikely tails.

    Parameters
    ----------
    concentration_prior : LogNormal, default=LogNormal(10.0, 1.5)
        Prior of the concentration :math:`\kappa`; the smaller, the more the probabilities vary.

    Examples
    --------
    >>> import numpy as np
    >>> of_one_trial = np.array([[1.0], [1.0]])
    >>> np.exp(BetaBinomial().log_density(of_one_trial, np.ones(1), np.array([2.0]))).round(4)
    array([0.7311])
    """

    concentration_prior: LogNormal = LogNormal(10.0, 1.5)

    unit = LOG_ODDS
    names = ("concentration",)

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Return successes and trials as (1, 2, n_samples), checked."""
        check_counts(y)
        if y.ndim != 2 or y.shape[1] != 2:
            raise ValueError(
                f'`y` must be of shape (n_samples, 2) with likelihood="beta-binomial": successes and trials; got '
                f"{y.shape}."
            )
        over = (y[:, 0] > y[:, 1]) | (y[:, 1] < 1.0)
        if over.any():
            first = int(np.flatnonzero(over)[0])
            raise ValueError(
                f"`y` must hold at least one trial for each sample and no more successes than trials; got "
                f"{y[first, 0]:g} of {y[first, 1]:g} for sample {first} ({int(over.sum())} in all). Correct them, or "
                "leave them out."
            )
        return y.T[None]

    def base_scores(
        self, fields: np.ndarray, offset: np.ndarray, sample_weight: np.ndarray | None
    ) -> np.ndarray:
        """Return the log odds that all samples together speak for, beside their offsets."""
        weights = np.ones(len(offset)) if sample_weight is None else sample_weight
        won, tried = fields[:, 0] @ weights, fields[:, 1] @ weights
        won = np.maximum(won, LEAST_RATE)
        return np.log(won / np.maximum(tried - won, LEAST_RATE)) - np.average(offset, weights=weights)

    def rate(self, score: np.ndarray) -> Any:
        """Return the probability of a success at a score."""
        return special.expit(score)

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability of every number of successes."""
        xp, special, own = namespace(score), special_functions(score), parameters[0]
        won, tried = y[..., 0, :], y[..., 1, :]
        lost = tried - won

        def rise(log_start: Any, start: Any, count: Any) -> Any:
            """Return log Gamma(start + count) - log Gamma(start), of starts that may be tiny."""
            some = special.gammaln(start + xp.maximum(count, 1.0)) - special.gammaln(start + 1.0) + log_start
            return xp.where(count > 0.0, some, 0.0)

        log_own = xp.log(own)
        starts = [log_own - xp.logaddexp(0.0 * score, sign * score) for sign in (-1.0, 1.0)]
        ways = special.gammaln(tried + 1.0) - special.gammaln(won + 1.0) - special.gammaln(lost + 1.0)
        of_each = sum(
            rise(log_start, xp.exp(log_start), count)
            for log_start, count in zip(starts, (won, lost), strict=True)
        )
        return ways + of_each - rise(log_own, own, tried)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log probability."""
        special, own = special_functions(score), parameters[0]
        p, rest = _probabilities(score)

        def rises(k: int) -> list[Any]:
            """Return k-th derivatives of log Gamma(start + count) - log Gamma(start), of either side."""
            return [
                _gamma_slope(special, k, start + count) - _gamma_slope(special, k, start)
                for start, count in sides
            ]

        successes, tried = y[..., 0, :], y[..., 1, :]
        sides = (own * p, successes), (own * rest, tried - successes)
        won, lost = zip(*(rises(k) for k in range(1, order + 1 if order else 2)), strict=True)
        both = special.digamma(own + tried) - special.digamma(own)
        by_own = (p * won[0] + rest * lost[0] - both)[None]
        if order == 0:
            return Derivatives(None, None, None, by_own, None, None)
        slope = p * rest
        bend, twist = slope * (rest - p), slope * (1.0 - 6.0 * slope)
        by_p, by_p2 = own * (won[0] - lost[0]), own**2 * (won[1] + lost[1])
        first, second = slope * by_p, bend * by_p + slope**2 * by_p2
        if order == 2:
            return Derivatives(first, second, None, by_own, None, None)
        by_p3 = own**3 * (won[2] - lost[2])
        crossed = (
            p * won[1] - rest * lost[1]
        )  # of the difference of the first derivatives, by the concentration
        doubled = p * won[2] + rest * lost[2]
        return Derivatives(
            first,
            second,
            twist * by_p + 3.0 * slope * bend * by_p2 + slope**3 * by_p3,
            by_own,
            (slope * (by_p / own + own * crossed))[None],
            (bend * (by_p / own + own * crossed) + slope**2 * (2.0 * by_p2 / own + own**2 * doubled))[None],
        )

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the success of a single trial, 0 or 1."""
        xp = namespace(mean)
        steps = xp.linspace(-REACH, REACH, N_QUANTILES).reshape(-1, *(1,) * mean.ndim)
        weights = xp.exp(-0.5 * steps**2)
        p = (weights * _probabilities(mean + xp.sqrt(variance) * steps)[0]).sum(axis=0) / weights.sum()
        return Predicted(p, p * (1.0 - p))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score, that of a logistic variable for one trial."""
        return np.full(parameters.shape[1:], np.pi**2 / 3.0)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the successes of as many trials as those of `y`, or of a single one, for every score."""
        own, (p, rest) = parameters[0], _probabilities(score)
        won, lost = (rng.gamma(np.maximum(own * side, 1e-12)) for side in (p, rest))
        tried = np.ones_like(score) if y is None else np.broadcast_to(y[..., 1, :], score.shape)
        return rng.binomial(tried.astype(np.int64), won / np.maximum(won + lost, 1e-300)).astype(float)


def _gamma_slope(special: Any, k: int, x: Array) -> Any:
    """Return the k-th derivative of the logarithm of the gamma function; k is at least one."""
    return special.digamma(x) if k == 1 else (-1.0) ** k * math.factorial(k - 1) * special.zeta(k, x)


def _rate(score: Array) -> Any:
    xp = namespace(score)
    return xp.exp(xp.minimum(score, LARGEST_LOG))


def _moments_of_rate(mean: Array, variance: Array) -> tuple[Any, Any]:
    """Return mean and variance of the exponential of a normal score."""
    xp = namespace(mean)
    rate = xp.exp(xp.minimum(mean + 0.5 * variance, 0.5 * LARGEST_LOG))
    return rate, rate**2 * xp.expm1(xp.minimum(variance, LARGEST_LOG))


def _draw_counts(rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw Poisson counts, of rates that are too large for whole numbers by their normal limit."""
    large = rate > 1e15
    drawn = rng.poisson(np.where(large, 0.0, rate)).astype(float)
    return np.where(large, rate, drawn)


def _probabilities(score: Array) -> tuple[Any, Any]:
    """Return the probability of a success, and of none."""
    xp = namespace(score)
    inside = xp.clip(score, -LARGEST_LOGIT, LARGEST_LOGIT)
    return 1.0 / (1.0 + xp.exp(-inside)), 1.0 / (1.0 + xp.exp(inside))


def check_exposures(offset: np.ndarray) -> None:
    """Raise for offsets of counts that are no logarithms of exposures.

    Examples
    --------
    >>> check_exposures(np.array([1.0, 90.0]))
    Traceback (most recent call last):
    ...
    ValueError: `offset_column` must hold logarithms of exposures with counts; got 1 to 90, ...
    """
    low, high = float(offset.min()), float(offset.max())
    if high - low > WIDEST:
        raise ValueError(
            f"`offset_column` must hold logarithms of exposures with counts; got {low:g} to {high:g}, exposures that "
            f"differ by a factor of 1e{(high - low) / np.log(10.0):.0f}. Take the logarithm of the exposure."
        )
