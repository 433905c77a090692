r"""The contracts of outcomes, integrals over normal scores by quadrature, and what may be added to any likelihood.

A likelihood says how the target :math:`y_i` follows from the score :math:`f_i` of its sample, and from parameters
:math:`\phi` of its own that are inferred with the hyperparameters of the kernels. Inference of Gaussian processes
asks for nothing but a `Likelihood`: `log_density`, `derivatives`, `predict`, `noise_variance` and `sample` of one
that has no parameters. `Offset` adds known numbers to scores, `Repeated` lets samples count more or less than once.

BEMKL's closed-form updates ask an `Outcome` where scores start and what q(f) is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.truncated_normal import LOG_2PI
from bayesmkl._utils.docstrings import fulfil_docs

PROBIT, TARGET, LOG_ODDS = "standard deviations of a probit", "units of the target", "log odds"
LOG_RATE, LOG_TIME, LOG_HAZARD = "log rates", "log times", "log hazards"


class Mapped(NamedTuple):
    """Values of coordinates, and the function that pulls a gradient by the values back to the coordinates."""

    values: np.ndarray
    pull: Callable[[np.ndarray], np.ndarray]


def joined(mapped: Sequence[Mapped]) -> Mapped:
    """Return several values as one: one after the other, as are their coordinates.

    Examples
    --------
    >>> twice = Mapped(np.array([2.0]), lambda gradient: 2.0 * gradient)
    >>> both = joined([twice, Mapped(np.array([3.0, 4.0]), lambda gradient: gradient)])
    >>> both.values, both.pull(np.ones(3))
    (array([2., 3., 4.]), array([2., 1., 1.]))
    """
    ends = np.cumsum([len(own.values) for own in mapped])[:-1]

    def pull(gradient: np.ndarray) -> np.ndarray:
        parts = zip(mapped, np.split(gradient, ends), strict=True)
        return np.concatenate([own.pull(part) for own, part in parts])

    return Mapped(np.concatenate([own.values for own in mapped]), pull)


class LogNormal(NamedTuple):
    r"""Log-normal prior of likelihood parameters: :math:`\phi = \phi_0 + \mathrm{median}\, e^{s u}`.

    Parameters
    ----------
    median : float, default=0.3
        Median of the parameter, such as the standard deviation of noise, in units of the standardized target.
    log_std : float, default=1.5
        Standard deviation `s` of the logarithm.
    least : float, default=3e-4
        :math:`\phi_0`, the lower bound of the parameter. Without it, targets without noise would drive the parameter
        below floating-point precision.

    Examples
    --------
    >>> LogNormal(median=0.3, log_std=1.0).parameters(np.array([0.0, 1.0])).values.round(4)
    array([0.3003, 0.8158])
    """

    median: float = 0.3
    log_std: float = 1.5
    least: float = 3e-4

    def parameters(self, coordinates: np.ndarray) -> Mapped:
        """Return the parameters of some coordinates.

        Parameters
        ----------
        coordinates : ndarray of shape (n_coordinates,)
            Standard normal under the prior.

        Returns
        -------
        Mapped
            Parameters of the same shape, and what pulls a gradient by them back to the coordinates.
        """
        above = self.median * np.exp(self.log_std * coordinates)
        return Mapped(self.least + above, lambda gradient: self.log_std * above * gradient)


N_NODES = 65  # of the trapezoidal rule
REACH = 8.5  # of the nodes, in standard deviations of the score
FARTHEST = 100.0  # distance of the mode of the product from the mean of the score, in the same
CLOSE = 0.3  # last step to the mode, in units of the width there
MAX_STEPS = 40


class Derivatives(NamedTuple):
    r"""Derivatives of :math:`\log p(y_i \mid f_i, \phi)`, each of shape (n_samples,) or (n_parameters, n_samples)."""

    first: Any  # by the score
    second: Any
    third: Any
    parameters: Any  # of the log density by the parameters
    first_parameters: Any  # of `first` by the parameters
    second_parameters: Any  # of `second` by the parameters


class Tilted(NamedTuple):
    r"""Normalizer of the density times a normal score N(m, v), and its derivatives, each of shape (n_samples,).

    The product has mean :math:`m + v\,\partial_m \log Z` and variance :math:`v + v^2 \partial_m^2 \log Z`.
    """

    log_normalizer: Any
    first: Any  # by the mean of the score
    second: Any
    parameters: Any  # of the log normalizer by the parameters, (n_parameters, n_samples)


class Predicted(NamedTuple):
    """Mean and variance of targets whose scores are normal, each of shape (n_rows,)."""

    mean: Any
    variance: Any


class Likelihood:
    """Contract of likelihoods, with what is usual: no parameters, and integrals by quadrature.

    Arrays are NumPy's or JAX's; all are of shape (n_samples,) but `parameters`. A target is one number for each
    sample, or several, (n_fields, n_samples), of which a likelihood says what they are. Labels are -1 and +1. Scores
    may have more axes in front. All are log-concave in the score unless they say otherwise.
    """

    unit = TARGET  # of scores, in words; that of noise too, whose variance is `noise_variance`

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters; their logarithms are inferred."""
        return ()

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Prior of each parameter: the fields that are priors."""
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return tuple(value for value in values if isinstance(value, LogNormal))

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        r"""Return :math:`\log p(y_i \mid f_i, \phi)`.

        Parameters
        ----------
        y : array of shape (n_samples,) or (n_fields, n_samples)
            Targets.
        score : array of shape (n_samples,), or with more axes in front
            Scores.
        parameters : array of shape (n_parameters,), or with axes that go with those of `score`
            Parameters of the likelihood.

        Returns
        -------
        array of shape (n_samples,), or as `score`
            Log densities, or log probabilities of what is counted or known to lie in an interval.
        """
        raise NotImplementedError

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density.

        Parameters
        ----------
        y : array of shape (n_samples,) or (n_fields, n_samples)
            Targets.
        score : array of shape (n_samples,), or with more axes in front
            Scores.
        parameters : array of shape (n_parameters,), or with axes that go with those of `score`
            Parameters of the likelihood.
        order : int, default=3
            Below three only those that are asked for need be found: of order zero those of the log density itself by
            the parameters, of order two `first` and `second` as well.

        Returns
        -------
        Derivatives
            By the score and by the parameters.
        """
        raise NotImplementedError

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores; by quadrature unless a likelihood does better.

        Parameters
        ----------
        y : array of shape (n_samples,) or (n_fields, n_samples)
            Targets.
        mean, variance : array of shape (n_samples,)
            Mean and variance of every score.
        parameters : array of shape (n_parameters,)
            Parameters of the likelihood.

        Returns
        -------
        Tilted
            Logarithms of the integrals, and their derivatives.
        """
        return tilt(self, y, mean, variance, parameters)

    def heights(self, y: Array, score: Array, parameters: Array) -> tuple[Any, Any]:
        """Return the log density and its derivatives by the parameters; some find both at once.

        Parameters
        ----------
        y, score : array of shape (..., n_samples)
            Targets and scores.
        parameters : array of shape (n_parameters, ...)
            Of the likelihood.

        Returns
        -------
        log_density : array of shape (..., n_samples)
            Of every target.
        by_parameters : array of shape (n_parameters, ..., n_samples)
            Its derivatives.
        """
        by_parameters = self.derivatives(y, score, parameters, 0).parameters
        return self.log_density(y, score, parameters), by_parameters

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the target, of labels -1 and +1 where there are two classes.

        Parameters
        ----------
        mean, variance : array of shape (n_rows,), or with more axes in front
            Mean and variance of every score.
        parameters : array of shape (n_parameters,), or with axes that go with those of `mean`
            Parameters of the likelihood.
        y : array of shape (n_fields, n_rows), default=None
            Targets of which the first field is not known; where there is one field, nothing is.

        Returns
        -------
        Predicted
            Mean and variance of every target.
        """
        raise NotImplementedError

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score, of the shape of a parameter.

        Of counts it is that of the logarithm of a log-normal variable with their mean and variance.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_fields, n_samples)
            Targets.
        parameters : ndarray of shape (n_parameters, n_draws)
            Parameters of the likelihood.

        Returns
        -------
        ndarray of shape (n_draws,)
            The variance for every draw of the parameters.
        """
        raise NotImplementedError

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the first field of a target for every score; fields that are given and not drawn are those of `y`.

        Parameters
        ----------
        score : ndarray of shape (n_samples,), or with more axes in front
            Scores.
        parameters : ndarray of shape (n_parameters,), or with axes that go with those of `score`
            Parameters of the likelihood.
        rng : numpy.random.Generator
            Source of the draws.
        y : ndarray of shape (n_fields, n_samples), default=None
            Targets whose other fields are kept.

        Returns
        -------
        ndarray of shape (n_samples,), or as `score`
            The draws.
        """
        raise NotImplementedError


class Outcome:
    """What targets say of scores to closed-form updates; a NamedTuple of arrays, so that JAX can trace them.

    With μ_i = E[e]' E[g_i] + E[b], an outcome starts the scores f, or the targets themselves, `start`, and finds
    q(f) from μ, `update`: a normal distribution cut off to where its target says that the score is. `log_density` is
    that of targets of normal scores, noise included.
    """

    unit = PROBIT  # of scores, in words
    has_noise = False  # whether υ and ε are learned
    is_observed = False  # whether targets are the scores: there is no q(f)
    has_cuts = False  # whether there are cut points, which `update` moves
    competes = False  # whether q(f_i) is one distribution over all outputs

    def initial_noise(self, n_samples: int, rng: np.random.Generator | None) -> Any:
        """Return what `start` takes, at random, or where there is no generator its mean: of numbers N(0, 1)."""
        return np.zeros(n_samples) if rng is None else rng.standard_normal(n_samples)

    def start(self, y: Array, noise: Any) -> tuple[Any, Any]:
        """Return where scores start, and the distances of cut points, or None."""
        raise NotImplementedError

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[Any, Any]:
        """Return q(f) at the expected scores `loc`, or None, and the distances of cut points, or None."""
        raise NotImplementedError

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return log densities of targets whose scores, noise included, are normal."""
        raise NotImplementedError


def tilt(
    likelihood: Likelihood,
    y: Array,
    mean: Array,
    variance: Array,
    parameters: Array,
) -> Tilted:
    """Integrate a log-concave density over normal scores, by the trapezoidal rule around the mode of their product.

    Nodes are dense at the mode, by the curvature there, and reach as far as the normal score does. Where the standard
    deviation of the score is up to five times the scale of the density, the log normalizer is within 1e-8, and its
    second derivative times the variance within 1e-7; at ten times both are within 2e-6, and however wide the normal
    score is within 0.05: densities with one side that is flat and another that is steep have an edge at which nodes
    are far apart then.
    """
    xp = namespace(mean)
    mode, second = _mode(likelihood, y, mean, variance, parameters)
    curvature = xp.maximum(-second, 0.0)
    width, reach = 1.0 / xp.sqrt(1.0 / variance + curvature), REACH * xp.sqrt(variance)
    largest = xp.arcsinh(reach / width)
    steps = xp.linspace(-1.0, 1.0, N_NODES)[:, None] * largest
    scores = mode + width * xp.sinh(steps)
    log_steps = xp.log(width * xp.cosh(steps) * (2.0 / (N_NODES - 1)) * largest)
    log_density, by_parameters = likelihood.heights(y, scores, parameters)
    log_terms = log_density + log_normal(scores - mean, variance) + log_steps
    highest = log_terms.max(axis=0)
    terms = xp.exp(log_terms - highest)
    total = terms.sum(axis=0)
    shares = terms / total
    shift = (shares * (scores - mean)).sum(axis=0)
    centered = (shares * (scores - mean - shift) ** 2).sum(axis=0)
    return Tilted(
        highest + xp.log(total),
        shift / variance,
        (centered / variance - 1.0) / variance,
        (shares * by_parameters).sum(axis=1),
    )


class _Search(NamedTuple):
    """A bracket of the mode, the last step within it, and the derivatives of the log density where it led."""

    lower: Any
    upper: Any
    at: Any
    step: Any
    first: Any
    second: Any
    unfinished: Any
    n_steps: Any


def _mode(
    likelihood: Likelihood, y: Array, mean: Array, variance: Array, parameters: Array
) -> tuple[Any, Any]:
    """Return about where the product is highest, and the second derivative of the log density there.

    By Newton steps within a bracket, halved where they are slow. The slope of a log-concave density decreases, so
    that the mode is between the mean of the score and the place to which that slope alone would move it.
    """
    xp = namespace(mean)
    farthest = FARTHEST * xp.sqrt(variance)
    at_mean = likelihood.derivatives(y, mean, parameters, 2)
    pull = xp.clip(variance * at_mean.first, -farthest, farthest)

    def advance(found: _Search) -> _Search:
        rise = found.first - (found.at - mean) / variance
        precision = 1.0 / variance + xp.maximum(-found.second, 0.0)
        lower = xp.where(rise > 0.0, found.at, found.lower)
        upper = xp.where(rise > 0.0, found.upper, found.at)
        step = rise / precision
        inside = (found.at + step > lower) & (found.at + step < upper)
        quick = xp.abs(step) < 0.5 * xp.abs(found.step)
        near = xp.abs(step) <= CLOSE / xp.sqrt(precision)  # not halved, however far the other end is still
        step = xp.where((inside & quick) | near, step, 0.5 * (lower + upper) - found.at)
        at, unfinished = found.at + step, (~near).any()
        slopes = likelihood.derivatives(y, at, parameters, 2)
        return _Search(lower, upper, at, step, slopes.first, slopes.second, unfinished, found.n_steps + 1)

    start = _Search(
        mean + xp.minimum(pull, 0.0),
        mean + xp.maximum(pull, 0.0),
        mean,
        4.0 * pull,
        at_mean.first,
        at_mean.second,
        (pull != 0.0).any(),
        0,
    )
    end = repeat(advance, start, lambda found: found.unfinished & (found.n_steps < MAX_STEPS))
    return end.at, end.second


def repeat(advance: Callable[[Any], Any], state: Any, unfinished: Callable[[Any], Any]) -> Any:
    """Advance a state, a tuple, while it is unfinished, on NumPy or within a compiled function of JAX."""
    first = state
    while isinstance(first, tuple):
        first = first[0]
    if is_numpy(first):
        while unfinished(state):
            state = advance(state)
        return state
    import jax

    return jax.lax.while_loop(unfinished, advance, state)


def log_normal(rest: Array, variance: Any) -> Any:
    """Return the log density of a normal variable, from its distance to the mean."""
    xp = namespace(rest)
    return -0.5 * (rest**2 / variance + xp.log(variance) + LOG_2PI)


def no_parameters(score: Array) -> Any:
    """Return the derivatives by the parameters of a likelihood that has none, (0, n_samples)."""
    return namespace(score).zeros((0, *score.shape))


def other_fields(y: Array) -> Any:
    """Return the fields of targets, (..., n_fields, n_samples), before the last; a single one without its axis.

    Examples
    --------
    >>> other_fields(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 2.])
    """
    return y[..., 0, :] if y.shape[-2] == 2 else y[..., :-1, :]


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Wrapped(Likelihood):
    """A likelihood of something else than the score or of several copies, with the same parameters."""

    likelihood: Likelihood

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.likelihood.names

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        return self.likelihood.priors

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of scores, in words."""
        return self.likelihood.unit

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise of one copy in units of the score."""
        return self.likelihood.noise_variance(other_fields(y), parameters)

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the target, whatever its weight, of scores that have their offsets."""
        return self.likelihood.predict(mean, variance, parameters, None if y is None else other_fields(y))


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Offset(Wrapped):
    """Likelihood of the score plus a known offset, which is the last field of the target.

    Parameters
    ----------
    likelihood : Likelihood
        Likelihood of the target given the sum of score and offset.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.outcomes import Poisson
    >>> no_event_in_two_years = np.array([[0.0], [np.log(2.0)]])
    >>> Offset(Poisson()).log_density(no_event_in_two_years, np.zeros(1), np.zeros(0))
    array([-2.])
    """

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target."""
        return self.likelihood.log_density(other_fields(y), score + y[..., -1, :], parameters)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        return self.likelihood.derivatives(other_fields(y), score + y[..., -1, :], parameters, order)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores."""
        return self.likelihood.tilted(other_fields(y), mean + y[..., -1, :], variance, parameters)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the first field of a target for every score, with the offset of `y`, or none."""
        if y is None:
            return self.likelihood.sample(score, parameters, rng)
        own: Any = other_fields(y)
        return self.likelihood.sample(score + y[..., -1, :], parameters, rng, own)


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Repeated(Wrapped):
    r"""The power :math:`p(y_i \mid f_i, \phi)^{v_i}` of a likelihood; weights :math:`v_i` are a target's last field.

    A whole weight is so many copies of the sample. Where a site is found, or left out, copies are dealt with one by
    one: :math:`v_i` copies of the density, or the only copy of its power :math:`v_i < 1`.

    Parameters
    ----------
    likelihood : Likelihood
        Of one copy.
    is_fractional : bool, default=False
        Whether weights may be below one; their integrals over normal scores are by quadrature.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.outcomes import Gaussian
    >>> zero_twice = np.array([[0.0], [2.0]])
    >>> Repeated(Gaussian()).log_density(zero_twice, np.zeros(1), np.ones(1)).round(4)
    array([-1.8379])
    """

    is_fractional: bool = False

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target, times its weight."""
        return y[..., -1, :] * self.likelihood.log_density(other_fields(y), score, parameters)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        found = self.likelihood.derivatives(other_fields(y), score, parameters, order)
        return Derivatives(*(None if one is None else y[..., -1, :] * one for one in found))

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density of one copy over normal scores."""
        if not self.is_fractional:
            return self.likelihood.tilted(other_fields(y), mean, variance, parameters)
        xp = namespace(mean)
        power = xp.minimum(y[..., -1:, :], 1.0)
        return tilt(self, xp.concatenate([y[..., :-1, :], power], axis=-2), mean, variance, parameters)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the first field of a target for every score, whatever its weight."""
        own = None if y is None else other_fields(y)
        return self.likelihood.sample(score, parameters, rng, own)


def copies_of(likelihood: Likelihood, y: Array) -> Any:
    """Return how many copies of its density every target has, each with a site of its own: (n_samples,), or one.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.outcomes import Gaussian
    >>> copies_of(Repeated(Gaussian(), True), np.array([[0.0, 0.0], [0.5, 2.0]])), copies_of(Gaussian(), np.zeros(2))
    (array([1., 2.]), 1.0)
    """
    if not isinstance(likelihood, Repeated):
        return 1.0
    return namespace(y).maximum(y[-1], 1.0)


def of_one_copy(likelihood: Likelihood, y: Array) -> tuple[Likelihood, Any, Any]:
    """Return the likelihood of one copy, its targets, and their weights, (n_samples,), or one.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.outcomes import Gaussian
    >>> of_one_copy(Repeated(Gaussian()), np.array([[3.0, 4.0], [1.0, 2.0]]))[1:]
    (array([3., 4.]), array([1., 2.]))
    """
    if not isinstance(likelihood, Repeated):
        return likelihood, y, 1.0
    return likelihood.likelihood, other_fields(y), y[-1]


def repeated(
    likelihood: Likelihood, targets: np.ndarray, sample_weight: np.ndarray
) -> tuple[Repeated, np.ndarray]:
    """Return the likelihood of samples that count as often as weights say, and their targets with these.

    Parameters
    ----------
    likelihood : Likelihood
        Of one copy.
    targets : ndarray of shape (n_outputs, n_samples) or (n_outputs, n_fields, n_samples)
    sample_weight : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from bayesmkl.outcomes import Gaussian
    >>> repeated(Gaussian(), np.array([[3.0, 4.0]]), np.array([1.0, 2.0]))[1]
    array([[[3., 4.],
            [1., 2.]]])
    """
    fields = targets.reshape(len(targets), -1, targets.shape[-1])
    last = np.broadcast_to(sample_weight, (len(targets), 1, len(sample_weight)))
    return Repeated(likelihood, bool(sample_weight.min() < 1.0)), np.concatenate([fields, last], axis=1)
