r"""The models of `bayesmkl.gp` as NumPyro programs, with every function value explicit.

`explicit_program` has a site for every function value, so that what NUTS says of it depends on no approximation of an
integral. Its sites, of several outputs with a leading axis for them where not said otherwise:

==================  ==============================================================================================
`kernel_weights`    by their prior, (n_kernels,); deterministic where the prior is of `total` and `parts_of_total`
                    (`DirichletShares`), or of `common_scale` and `own_scales` (`Horseshoe`)
parameters          log-normal, each by its name in `Likelihood.names`, such as `noise_std` in regression
`intercept`         normal
`covariate_effects` normal, (n_covariates,): of standardized covariates, where there are some
`group_std`         half-t, (n_terms,): standard deviations of groups and random slopes
`group_effects`     normal with these, (n_levels,), one term after the other
`task_std`          log-normal, (n_tasks,): standard deviations of tasks relative to each other, where there are some
`task_root`         Cholesky factor of their correlations, (n_tasks, n_tasks); `common_correlation`, uniform, where
                    all pairs have the same
`task_correlation`  deterministic, (n_tasks, n_tasks)
`whitened`          standard normal, (n_kernels, n_samples), with an axis of tasks in front: :math:`g_m = L_m z_m`,
                    :math:`L_m L_m^\top = K_m / c_m`
`parts`             deterministic, (n_kernels, n_samples): what every kernel adds to the score
`score`             deterministic, (n_samples,): their sum, and the intercept, without offsets
`kernel_shares`     deterministic, (n_kernels,), of all outputs: :math:`\operatorname{Cov}(f_m, f) /
                    \operatorname{Var}(f)`
`y`                 (n_samples,), of times (n_samples, 2): the ends of the interval that a log time lies in
==================  ==============================================================================================

What is known of targets before they are observed is data too, each (n_samples,): `offset` of scores, `trials` that
successes are counted of, `entry` of times under observation, `task` and `precision` of noise. New rows add
`whitened_new`, `score_new` and `y_new`, every row on its own, with the data `new_offset`, `new_trials` (one),
`new_entry` (none), `new_task` and `new_precision` (one); with `effects` also `unseen_effects`, standard normal
(n_rows, n_terms), of levels that no training sample is of.

Kernel weights may have any distribution that NumPyro has on the positive numbers. A coordinate
:math:`u \sim N(0, 1)` becomes the weight :math:`w = F^{-1}(\Phi(u))`, of which NumPyro has the density alone: few
of its distributions have :math:`F^{-1}`. The density of :math:`t = \log w` is integrated once, from either end,
which gives :math:`u` on a grid of :math:`t` with all digits in both tails; between nodes :math:`t(u)` is a cubic
polynomial with the slopes that it has at the nodes, :math:`\varphi(u) / p(t)`.

Targets given their scores are distributions of NumPyro. `target_law` takes those that NumPyro has: normal, Student
t, Poisson, negative binomial and beta-binomial. Labels, grades and times are drawn here, and their log densities,
with the derivatives that likelihoods know, are those of `bayesmkl.outcomes`: automatic differentiation of intervals
in the tails has no digits left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy import special
from numpyro.distributions import Distribution, constraints, transforms
from scipy import linalg
from scipy.interpolate import CubicHermiteSpline
from scipy.special import ndtri

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._numerics.arrays import Array
from bayesmkl._numerics.truncated_normal import log_normal_cdf
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.gp.effects import JITTER, SCALE_LOG_STD, DesignRows, TaskPrior, correlations, n_pairs
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import (
    FARTHEST,
    DirichletShares,
    HalfT,
    Horseshoe,
    LogNormal,
    Mapped,
    ParameterPriors,
    SharesOfKernels,
    WeightPrior,
    WithDesign,
)
from bayesmkl.gp.selection import SpikeSlabOfKernels
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
from bayesmkl.outcomes.numbers import task_and_precision

LogDensity = Callable[[np.ndarray], np.ndarray]
N_NODES = 2000
LONGEST = 300.0  # of a logarithm, so that powers of weights are numbers
DEPTH = 50.0  # of the log density below its largest value, where a tail ends
STEP, AREA = 0.05, 0.01  # of the log density between two nodes, and of what is between them, at most
N_HALVINGS = 40
GAUSS = np.polynomial.legendre.leggauss(4)
BLOCK = 4096  # densities that are evaluated at once, by a function that is compiled once
WRONG = 1e-6  # by which the density may miss its integral


class NumPyroPrior(NamedTuple):
    """Independent weights of one distribution.

    Attributes
    ----------
    distribution : numpyro.distributions.Distribution
        Of a weight.
    log_weight : callable
        Logarithm of the weight of a coordinate, a `CubicHermiteSpline`.
    """

    distribution: Distribution
    log_weight: CubicHermiteSpline

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel."""
        return n_kernels

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates."""
        u = np.clip(coordinates, *self.log_weight.x[[0, -1]])
        values = np.exp(self.log_weight(u))
        slopes = values * self.log_weight(u, 1) * (u == coordinates)
        return Mapped(values, lambda gradient: slopes * gradient)


def numpyro_prior(distribution: Distribution) -> NumPyroPrior:
    """Prepare a distribution for inference.

    Raises
    ------
    ValueError
        If it is not one of a single positive number, or its density cannot be integrated.
    """
    _check_support(distribution)
    with numpyro_session():
        log_density = _log_density_of_weight(distribution)
        nodes, heights = _nodes(log_density)
        areas = _areas(log_density, nodes)
    below, above = np.cumsum(areas), np.cumsum(areas[::-1])[::-1]
    if not abs(below[-1] - 1.0) < WRONG:
        raise ValueError(
            f"`kernel_prior` must have a density that integrates to one; that of {type(distribution).__name__} gives "
            f"{below[-1]:.6g} between e^{-LONGEST:.0f} and e^{LONGEST:.0f}. Use a prior with less mass near zero, "
            "or lighter tails."
        )
    below, above = np.concatenate([[0.0], below]), np.concatenate([above, [0.0]])
    u = np.where(below < above, ndtri(below), -ndtri(above))
    kept = np.abs(u) <= FARTHEST
    kept[kept] = np.diff(u[kept], prepend=-np.inf) > 0.0
    u, nodes, heights = u[kept], nodes[kept], heights[kept]
    slopes = np.exp(-0.5 * u**2 - 0.5 * np.log(2.0 * np.pi) - heights)
    return NumPyroPrior(distribution, CubicHermiteSpline(u, nodes, slopes))


def _check_support(distribution: Distribution) -> None:
    """Raise for a distribution that is not of one positive number, with densities at all of them."""
    support: Any = distribution.support
    shape = (*distribution.batch_shape, *distribution.event_shape)
    is_endless = support is not None and not support.is_discrete and not hasattr(support, "upper_bound")
    if shape == () and is_endless and np.all(np.asarray(getattr(support, "lower_bound", None)) == 0.0):
        return
    got = f"support {support}" if shape == () else f"shape {shape}"
    raise ValueError(
        "`kernel_prior` must be a distribution of one positive number, the same for all kernels, such as "
        f"numpyro.distributions.Gamma(2, 1); got {type(distribution).__name__} with the {got}. Use "
        "numpyro.distributions.FoldedDistribution for a distribution that has negative numbers too."
    )


def _nodes(log_density: LogDensity) -> tuple[np.ndarray, np.ndarray]:
    """Return logarithms of weights between which the log density changes little, with that density.

    Intervals are halved where it changes more or much is between them, unless it is far below its largest value at
    any node. That finds a narrow peak as well: it is next to the largest value, which rises with every halving.
    """
    nodes = np.linspace(-LONGEST, LONGEST, N_NODES)
    heights = log_density(nodes)
    for _ in range(N_HALVINGS):
        above = np.maximum(heights, heights.max() - DEPTH)
        lower, higher = np.sort([above[1:], above[:-1]], axis=0)
        coarse = (higher - lower > STEP) | (np.exp(higher) * np.diff(nodes) > AREA)
        if not coarse.any():
            break
        middle = 0.5 * (nodes[1:] + nodes[:-1])[coarse]
        at = 1 + np.flatnonzero(coarse)
        nodes, heights = np.insert(nodes, at, middle), np.insert(heights, at, log_density(middle))
    return nodes, heights


def _areas(log_density: LogDensity, nodes: np.ndarray) -> np.ndarray:
    """Integrate the density of the logarithm between neighboring nodes, by Gauss's rule."""
    points, weights = GAUSS
    half = 0.5 * np.diff(nodes)[:, None]
    inner = 0.5 * (nodes[1:] + nodes[:-1])[:, None] + half * points
    return (half * weights * np.exp(log_density(inner.ravel()).reshape(inner.shape))).sum(axis=1)


def _log_density_of_weight(distribution: Distribution) -> LogDensity:
    """Return the log density of logarithms of weights; minus infinity for what is no number, and at poles."""
    compiled = jax.jit(lambda log_weights: distribution.log_prob(jnp.exp(log_weights)))

    def evaluate(log_weights: np.ndarray) -> np.ndarray:
        blocks = np.resize(log_weights, (-(-len(log_weights) // BLOCK), BLOCK))
        found = np.concatenate([np.asarray(compiled(jnp.asarray(block))) for block in blocks])
        found = found[: len(log_weights)] + log_weights
        return np.where(np.isfinite(found), found, -np.inf)

    return evaluate


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
        given["task"], given["precision"] = task_and_precision(targets)
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
        value = jnp.asarray(value, self.score.dtype)
        return _log_density(self.likelihood, value, self.score, jnp.zeros((0, *jnp.shape(self.score))))


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
        value = jnp.asarray(value, self.score.dtype)
        return _log_density(self.likelihood, value, self.score, self.distances)


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


def explicit_program(
    model: Hypermodel,
    new_kernels: np.ndarray | None = None,
    diagonal: np.ndarray | None = None,
    design_rows: DesignRows | None = None,
) -> NumPyroProgram:
    """Return the NumPyro program of a model; a single output has no axis.

    Parameters
    ----------
    model : Hypermodel
        With a dense stack.
    new_kernels : ndarray of shape (n_kernels, n_rows, n_train), optional
        Kernels of new rows against the training samples.
    diagonal : ndarray of shape (n_kernels, n_rows), optional
        Similarities of new rows to themselves, for `Additive`.
    design_rows : DesignRows, optional
        Effects and tasks of new rows, where the covariance has some.

    Raises
    ------
    numpy.linalg.LinAlgError
        With the position of a kernel that is not positive semidefinite.
    ValueError
        Under a spike-and-slab prior, whose discrete variables NumPyro's NUTS does not sample.
    """
    covariance = model.covariance
    if isinstance(model.kernel_prior, SpikeSlabOfKernels):
        raise ValueError(
            "`kernel_prior` must be a distribution of continuous weights for a NumPyro program; got a spike-and-slab "
            'prior. Use "horseshoe", which makes most weights small.'
        )
    outputs = () if len(model.targets) == 1 else (len(model.targets),)
    seen = known_fields(model.likelihood, model.targets if outputs else model.targets[0])
    of_new = {} if new_kernels is None else seen.of_new(new_kernels.shape[1])
    data = {"y": seen.y} | seen.given
    if covariance.effects is not None:
        data["basis"] = covariance.effects.basis
        if design_rows is not None:
            of_new |= {"new_basis": design_rows.basis, "new_unseen": design_rows.unseen}
    if covariance.tasks is not None:
        data["task"] = covariance.tasks.task
        if design_rows is not None and design_rows.task is not None:
            of_new["new_task"] = design_rows.task
    factors = covariance.factors()
    new = {} if new_kernels is None else _new_factors(factors, new_kernels, diagonal, covariance.units)

    def additive(
        factors: Array,
        y: Array | None = None,
        new_factors: Array | None = None,
        new_std: Array | None = None,
        **given: Array,
    ) -> None:
        drawn = _draw_hyperparameters(model, outputs)
        of_tasks = () if drawn.task_root is None else jnp.shape(drawn.task_root)[:1]

        def of_samples(functions: Any, task: Any) -> Any:
            if drawn.task_root is not None:
                functions = jnp.einsum("...tmi,it->...mi", functions, drawn.task_root[task])
            return drawn.weights[:, None] * functions

        whitened = _normal("whitened", (*outputs, *of_tasks, *jnp.shape(factors)[:2]))
        parts = of_samples(jnp.einsum("mij,...mj->...mi", factors, whitened), given.get("task"))
        if new_factors is not None:
            alone = new_std * _normal("whitened_new", (*outputs, *of_tasks, *jnp.shape(new_factors)[:2]))
            known = jnp.einsum("mij,...mj->...mi", new_factors, whitened)
            new_parts = of_samples(known + alone, given.get("new_task"))
        law = dist.Normal(0.0, covariance.intercept_std).expand(outputs)
        intercept = numpyro.sample("intercept", law.to_event(len(outputs)))[..., None]
        own, of_new_rows = _draw_effects(model, drawn.group_std, outputs, given)
        parts = numpyro.deterministic("parts", parts)
        score = numpyro.deterministic("score", parts.sum(axis=-2) + intercept + own)
        numpyro.deterministic("kernel_shares", _shares(parts))
        observe("y", target_law(model.likelihood, score, drawn.parameters, given), y)
        if new_factors is not None:
            new_score = numpyro.deterministic("score_new", new_parts.sum(axis=-2) + intercept + of_new_rows)
            given_new = {name: given[f"new_{name}"] for name in seen.given}
            observe("y_new", target_law(model.likelihood, new_score, drawn.parameters, given_new), None)

    return NumPyroProgram(additive, {"factors": factors} | data, new | of_new)


def _new_factors(
    factors: np.ndarray, kernels: np.ndarray, diagonal: np.ndarray | None, units: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the weights of `whitened` in functions at new rows, and their standard deviation given it."""
    mixed = np.stack(
        [
            linalg.solve_triangular(factor, kernel.T / unit, lower=True).T
            if np.isfinite(unit)
            else 0.0 * kernel
            for factor, kernel, unit in zip(factors, kernels, units, strict=True)
        ]
    )
    rest = np.asarray(diagonal) / units[:, None] - np.einsum("mij,mij->mi", mixed, mixed)
    return {"new_factors": mixed, "new_std": np.sqrt(np.maximum(rest, 0.0))}


def _draw_effects(
    model: Hypermodel, group_std: Any, outputs: tuple[int, ...], given: dict[str, Array]
) -> tuple[Any, Any]:
    """Draw coefficients of covariates and groups; return what they add to the scores, and to those of new rows."""
    effects = model.covariance.effects
    if effects is None:
        return 0.0, 0.0
    n_covariates, coefficients = effects.n_covariates, []
    if n_covariates:
        law = dist.Normal(0.0, effects.covariate_std).expand((*outputs, n_covariates))
        coefficients.append(numpyro.sample("covariate_effects", law.to_event(len(outputs) + 1)))
    if effects.n_terms:
        of_levels = group_std[effects.term[n_covariates:]]
        law = dist.Normal(0.0, of_levels).expand((*outputs, len(of_levels)))
        coefficients.append(numpyro.sample("group_effects", law.to_event(len(outputs) + 1)))
    drawn = jnp.concatenate(coefficients, axis=-1)
    own = drawn @ given["basis"].T
    if "new_basis" not in given:
        return own, 0.0
    unseen = group_std * _normal("unseen_effects", (*outputs, *jnp.shape(given["new_unseen"])))
    return own, drawn @ given["new_basis"].T + (jnp.sqrt(given["new_unseen"]) * unseen).sum(axis=-1)


def _shares(parts: Any) -> Any:
    around = parts - parts.mean(axis=-1, keepdims=True)
    total = around.sum(axis=-2, keepdims=True)
    covariance = (around * total).sum(axis=-1).reshape(-1, parts.shape[-2]).sum(axis=0)
    return covariance / covariance.sum()


def _normal(name: str, shape: tuple[int, ...]) -> Any:
    return numpyro.sample(name, dist.Normal().expand(shape).to_event(len(shape)))


def observe(name: str, law: dist.Distribution, y: Array | None) -> None:
    """Observe targets, or draw them where there are none, in plates of outputs, if there are several, and samples."""
    with ExitStack() as plates:
        for axis, size in enumerate(law.batch_shape):
            dim = axis - len(law.batch_shape)
            plates.enter_context(
                numpyro.plate(f"{name}_{'sample' if dim == -1 else 'output'}", size, dim=dim)
            )
        numpyro.sample(name, law, obs=None if y is None else jnp.asarray(y))


class _Hyperparameters(NamedTuple):
    """Kernel weights, standard deviations of groups, the factor of tasks, and parameters of every output."""

    weights: Any
    group_std: Any
    task_root: Any
    parameters: list[Any]


def _draw_hyperparameters(model: Hypermodel, outputs: tuple[int, ...]) -> _Hyperparameters:
    prior, given, names = model.weight_prior, model.parameter_prior, model.likelihood.names
    priors = given.each if isinstance(given, ParameterPriors) else (given,) * len(names)
    weights = _weights(model.kernel_prior, model.covariance.stack.n_kernels)
    group_std, task_root = jnp.zeros(0), None
    if isinstance(prior, WithDesign):
        group_std = numpyro.sample(
            "group_std", _half_t(prior.group_prior).expand([prior.n_terms]).to_event(1)
        )
        if prior.task_prior is not None:
            task_root = _draw_tasks(prior.task_prior)
    parameters = [
        numpyro.sample(name, law_of_parameter(own).expand(outputs).to_event(len(outputs)))
        for name, own in zip(names, priors, strict=True)
    ]
    return _Hyperparameters(weights, group_std, task_root, parameters)


def _draw_tasks(prior: TaskPrior) -> Any:
    """Draw what relates tasks; return the Cholesky factor of their covariance."""
    n_tasks = prior.n_tasks
    std = numpyro.sample("task_std", dist.LogNormal(0.0, SCALE_LOG_STD).expand([n_tasks]).to_event(1))
    if prior.equal:
        rho = numpyro.sample("common_correlation", dist.Uniform(-1.0 / (n_tasks - 1), 1.0))
        correlation = correlations(jnp.full(n_pairs(n_tasks), rho), n_tasks)
        root = jnp.linalg.cholesky(correlation + JITTER * jnp.eye(n_tasks))
    else:
        root = numpyro.sample("task_root", dist.LKJCholesky(n_tasks, 1.0))
        correlation = root @ root.T
    numpyro.deterministic("task_correlation", correlation)
    return std[:, None] * root


def law_of_parameter(prior: LogNormal) -> dist.Distribution:
    """Return the distribution of a parameter: log-normal above the least one."""
    above = transforms.AffineTransform(prior.least, 1.0, domain=constraints.positive)
    logarithm = dist.Normal(np.log(prior.median), prior.log_std)
    return dist.TransformedDistribution(logarithm, [transforms.ExpTransform(), above])


def _half_t(prior: Any) -> dist.Distribution:
    return dist.FoldedDistribution(dist.StudentT(prior.df, 0.0, prior.scale))


def _weights(prior: WeightPrior, n_kernels: int) -> Any:
    def each(law: dist.Distribution) -> dist.Distribution:
        return law.expand([n_kernels]).to_event(1)

    if isinstance(prior, HalfT):
        return numpyro.sample("kernel_weights", each(_half_t(prior)))
    if isinstance(prior, DirichletShares):
        total = numpyro.sample("total", _half_t(prior))
        parts = numpyro.sample("parts_of_total", dist.Dirichlet(jnp.full(n_kernels, prior.concentration)))
        return numpyro.deterministic("kernel_weights", total * jnp.sqrt(parts))
    if isinstance(prior, SharesOfKernels):
        total = numpyro.sample("total", _half_t(prior.prior))
        parts = numpyro.sample(
            "parts_of_total", dist.Dirichlet(jnp.full(prior.n_views, prior.prior.concentration))
        )
        own = numpyro.sample("own_parts", each(dist.Gamma(prior.prior.within)))
        own = own / jnp.zeros(prior.n_views).at[prior.group].add(own)[prior.group]
        return numpyro.deterministic("kernel_weights", total * jnp.sqrt(parts[prior.group] * own))
    if isinstance(prior, Horseshoe):
        size = numpyro.sample("common_scale", dist.HalfCauchy(prior.scale))
        size = size * numpyro.sample("own_scales", each(dist.HalfCauchy(1.0)))
        return numpyro.deterministic("kernel_weights", size / jnp.sqrt(1.0 + (size / prior.slab) ** 2))
    if isinstance(prior, NumPyroPrior):
        return numpyro.sample("kernel_weights", each(prior.distribution))
    raise TypeError(f"`weight_prior` must be a prior of bayesmkl.gp; got {prior!r}.")
