r"""Targets given their scores, as distributions of NumPyro.

`target_law` takes those that NumPyro has: normal, Student t, Poisson, negative binomial and beta-binomial. Labels,
grades and times are drawn here, and their log densities, with the derivatives that likelihoods know, are those of
`bayesmkl.outcomes`: automatic differentiation of intervals in the tails has no digits left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy import special
from numpyro.distributions import constraints

from bayesmkl._numerics.arrays import Array
from bayesmkl._numerics.truncated_normal import log_normal_cdf
from bayesmkl.outcomes import (
    BetaBinomial,
    FailureTime,
    Gaussian,
    Heteroscedastic,
    Logit,
    NegativeBinomial,
    Offset,
    OrdinalProbit,
    PiecewiseHazard,
    Poisson,
    Probit,
    StudentT,
)
from bayesmkl.outcomes.base import Likelihood

TIMES = FailureTime | PiecewiseHazard
# of new rows; their offset and task are those of the first sample where nothing else is said
NEW = {"trials": 1.0, "entry": -np.inf, "precision": 1.0}


class Known(NamedTuple):
    """Targets without what is known of them beforehand, and that by name.

    Attributes
    ----------
    y : ndarray of shape (..., n_samples), or (..., n_samples, 2) of times
        What is observed: of times the logarithms of the ends of an interval, equal where the time itself is known.
    given : dict of str to ndarray of shape (..., n_samples)
        `offset`, numbers that are added to scores; `trials` that successes are counted of; `entry`, logarithms of the
        times from which samples were under observation; `task`, whole numbers, and `precision` of noise.
    """

    y: np.ndarray
    given: dict[str, np.ndarray]

    def of_new(self, n_rows: int) -> dict[str, np.ndarray]:
        """Return what is taken as known of new rows, each of shape (..., n_rows), by names with "new_" in front."""
        found = {}
        for name, own in self.given.items():
            first = np.asarray(NEW[name]) if name in NEW else own[..., :1]
            found[f"new_{name}"] = np.broadcast_to(first, (*own.shape[:-1], n_rows)).copy()
        return found


def known_fields(likelihood: Likelihood, targets: np.ndarray) -> Known:
    """Return targets, whose fields are the axis before the last, and what is known of them beforehand."""
    given: dict[str, np.ndarray] = {}
    if isinstance(likelihood, Offset):
        given["offset"], likelihood = targets[..., -1, :], likelihood.likelihood
        targets = targets[..., 0, :] if targets.shape[-2] == 2 else targets[..., :-1, :]
    if isinstance(likelihood, Heteroscedastic):
        first = targets[(0,) * (targets.ndim - 2)]  # the same for all outputs
        given["task"], given["precision"] = first[1].astype(int), first[2]
        targets = targets[..., 0, :]
    if isinstance(likelihood, BetaBinomial):
        given["trials"], targets = targets[..., 1, :], targets[..., 0, :]
    if isinstance(likelihood, TIMES):
        given["entry"], targets = targets[..., 2, :], np.moveaxis(targets[..., :2, :], -2, -1)
    return Known(targets, given)


def target_law(
    likelihood: Likelihood, score: Any, parameters: Sequence[Any], given: Mapping[str, Any]
) -> dist.Distribution:
    """Return the distribution of targets whose scores are known.

    Parameters
    ----------
    likelihood : Likelihood
    score : array of shape (n_samples,) or (n_outputs, n_samples)
    parameters : sequence of arrays of shape () or (n_outputs,)
        Of the likelihood.
    given : dict of str to array
        What is known of targets beforehand; see `Known`.

    Raises
    ------
    TypeError
        If there is no distribution of the likelihood.
    """
    if isinstance(likelihood, Offset):
        return target_law(likelihood.likelihood, score + given["offset"], parameters, given)
    own = [value[..., None] for value in parameters]
    if isinstance(likelihood, Heteroscedastic):
        known = jnp.stack([jnp.asarray(given["task"], dtype=float), jnp.asarray(given["precision"])])
        own = list(likelihood.of_samples(known, jnp.stack(own)))
        likelihood = likelihood.likelihood
    match likelihood:
        case Gaussian():
            return dist.Normal(score, own[0])
        case StudentT():
            return dist.StudentT(own[1], score, own[0])
        case Poisson():
            return dist.Poisson(jnp.exp(score))
        case NegativeBinomial():
            return dist.NegativeBinomial2(jnp.exp(score), own[0])
        case BetaBinomial():
            p = own[0] * special.expit(score), own[0] * special.expit(-score)
            return dist.BetaBinomial(*p, jnp.asarray(given["trials"]).astype(int))
        case Probit() | Logit():
            return Label(score, likelihood)
        case OrdinalProbit():
            return Grade(score, jnp.stack(own) if own else jnp.zeros((0, *jnp.shape(score))), likelihood)
        case FailureTime() | PiecewiseHazard():
            return TimeInterval(score, jnp.stack(own), jnp.asarray(given["entry"]), likelihood)
    raise TypeError(f"`likelihood` must be one of bayesmkl.outcomes; got {likelihood!r}.")


class _Signs(constraints.ParameterFreeConstraint):
    is_discrete = True

    def __call__(self, x: Array) -> Any:
        return (x == -1) | (x == 1)

    def feasible_like(self, prototype: Array) -> Any:
        return jnp.ones_like(prototype)


class _Intervals(constraints.ParameterFreeConstraint):
    event_dim = 1

    def __call__(self, x: Array) -> Any:
        return x[..., 0] <= x[..., 1]

    def feasible_like(self, prototype: Array) -> Any:
        return jnp.zeros_like(prototype)


signs = _Signs()  # support of labels -1 and +1
intervals = _Intervals()  # of two numbers, the second not below the first


class Label(dist.Distribution):
    """Label -1 or +1 of a known score, by a likelihood of classes.

    Parameters
    ----------
    score : array
        f.
    likelihood : Likelihood
        Without parameters.
    """

    arg_constraints: ClassVar = {"score": constraints.real}
    pytree_aux_fields = ("likelihood",)
    support = signs

    def __init__(self, score: Array, likelihood: Likelihood, *, validate_args: bool | None = None) -> None:
        self.score, self.likelihood = score, likelihood
        super().__init__(jnp.shape(score), validate_args=validate_args)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw labels."""
        log_odds = self.log_prob(jnp.ones_like(self.score)) - self.log_prob(-jnp.ones_like(self.score))
        positive = dist.Bernoulli(logits=log_odds).sample(key, sample_shape)
        return jnp.where(positive == 1, 1.0, -1.0)

    def log_prob(self, value: Array) -> Any:
        """Return the log probability of labels."""
        return _log_density(
            self.likelihood, *_floats(value, self.score), jnp.zeros((0, *jnp.shape(self.score)))
        )


class Grade(dist.Distribution):
    """Grade of a known score, from 0.

    Parameters
    ----------
    score : array
        f.
    distances : array of shape (n_levels - 2, ...)
        Of neighboring cut points; the axes after the first broadcast with those of `score`.
    likelihood : OrdinalProbit

    Examples
    --------
    >>> law = Grade(jnp.zeros(3), jnp.full((1, 1), 2.0), OrdinalProbit(3))
    >>> np.exp(law.log_prob(jnp.arange(3.0))).round(2).astype(float).round(2)
    array([0.16, 0.68, 0.16])
    """

    arg_constraints: ClassVar = {"score": constraints.real}
    pytree_data_fields = ("distances",)
    pytree_aux_fields = ("likelihood",)

    def __init__(
        self, score: Array, distances: Array, likelihood: OrdinalProbit, *, validate_args: bool | None = None
    ) -> None:
        self.score, self.distances, self.likelihood = score, distances, likelihood
        super().__init__(jnp.shape(score), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Return the whole numbers from 0 to the highest grade."""
        return constraints.integer_interval(0, self.likelihood.n_levels - 1)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw grades."""
        noisy = self.score + jax.random.normal(key, sample_shape + self.batch_shape)
        return sum(jnp.where(noisy > cut, 1.0, 0.0) for cut in self.likelihood.cuts(self.distances))

    def log_prob(self, value: Array) -> Any:
        """Return the log probability of grades."""
        return _log_density(self.likelihood, *_floats(value, self.score), self.distances)


class TimeInterval(dist.Distribution):
    """Interval that the logarithm of a time is known to lie in, of a known score.

    A value is (lower, upper): equal where the time was observed, `upper` infinite where it was censored. Times that
    are drawn are all observed, and later than the entry.

    Parameters
    ----------
    score : array
        f.
    parameters : array of shape (n_parameters, ...)
        Of the likelihood; the axes after the first broadcast with those of `score`.
    entry : array
        Logarithms of the times from which samples were under observation, minus infinity if from the start.
    likelihood : FailureTime or PiecewiseHazard

    Examples
    --------
    >>> law = TimeInterval(jnp.zeros(2), jnp.ones((1, 1)), jnp.full(2, -jnp.inf), FailureTime("weibull"))
    >>> law.log_prob(jnp.array([[0.0, 0.0], [0.0, jnp.inf]])).tolist()
    [-1.0, -1.0]
    """

    arg_constraints: ClassVar = {"score": constraints.real}
    pytree_data_fields = ("entry", "parameters")
    pytree_aux_fields = ("likelihood",)
    support = intervals

    def __init__(
        self,
        score: Array,
        parameters: Array,
        entry: Array,
        likelihood: FailureTime | PiecewiseHazard,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.score, self.parameters, self.entry, self.likelihood = score, parameters, entry, likelihood
        super().__init__(jnp.shape(score), (2,), validate_args=validate_args)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw times, as intervals whose ends are equal."""
        more = jax.random.exponential(key, sample_shape + self.batch_shape)  # hazard after the entry
        if isinstance(self.likelihood, FailureTime):
            scale = self.parameters[0]
            later = LATER[self.likelihood.times]
            found = self.score + scale * later((self.entry - self.score) / scale, more)
        else:
            found = jnp.log(self._time_of_hazard(more * jnp.exp(-self.score), self.likelihood.breaks))
        return jnp.stack([found, found], axis=-1)

    def _time_of_hazard(self, baseline: Any, breaks: tuple[float, ...]) -> Any:
        """Return the time at which the baseline has accumulated so much hazard since the entry."""
        entry, ends = jnp.exp(self.entry), (*breaks, jnp.inf)
        time, left = entry, baseline
        for end, level in zip(ends, self.parameters, strict=True):
            spent = jnp.minimum(left / level, jnp.maximum(end - time, 0.0))
            time, left = time + spent, left - spent * level
        return jnp.maximum(time, jnp.finfo(jnp.result_type(float)).tiny)

    def log_prob(self, value: Array) -> Any:
        """Return the log density of times that were observed, and log probabilities of intervals."""
        value = jnp.asarray(value, self.score.dtype)
        entry = jnp.broadcast_to(jnp.asarray(self.entry, self.score.dtype), value.shape[:-1])
        fields = jnp.stack([value[..., 0], value[..., 1], entry], axis=-2)
        return _log_density(self.likelihood, fields, self.score, self.parameters)


def _later_normal(z: Any, more: Any) -> Any:
    return -special.ndtri(jnp.exp(log_normal_cdf(-z) - more))


def _later_logistic(z: Any, more: Any) -> Any:
    hazard = jnp.logaddexp(0.0, z) + more
    return hazard + jnp.log(-jnp.expm1(-hazard))


def _later_extreme(z: Any, more: Any) -> Any:
    return jnp.logaddexp(z, jnp.log(more))


# where the cumulative hazard of a distribution is higher by a given number
LATER = {"log-normal": _later_normal, "log-logistic": _later_logistic, "weibull": _later_extreme}


def _floats(value: Array, score: Array) -> tuple[Any, Any]:
    return jnp.asarray(value, score.dtype), score


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_density(likelihood: Likelihood, y: Array, score: Array, parameters: Array) -> Any:
    """Return log densities; with their derivatives known, programs compile faster and have digits in the tails."""
    return likelihood.log_density(y, score, parameters)


@_log_density.defjvp
def _log_density_jvp(
    likelihood: Likelihood, primals: tuple[Any, Any, Any], tangents: tuple[Any, Any, Any]
) -> tuple[Any, Any]:
    slopes = likelihood.derivatives(*primals, 2)
    along = slopes.first * tangents[1] + (slopes.parameters * tangents[2]).sum(axis=0)
    return _log_density(likelihood, *primals), along
