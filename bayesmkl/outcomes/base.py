r"""The contract of likelihoods, and their integrals over normal scores by quadrature.

A likelihood says how the target :math:`y_i` follows from the score :math:`f_i` of its sample, and from
parameters :math:`\phi` of its own that are inferred with the hyperparameters of the kernels. `Likelihood` is
the contract; inference asks for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.truncated_normal import LOG_2PI
from bayesmkl.outcomes.priors import LogNormal

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


class Likelihood(Protocol):
    """Contract of likelihoods. Arrays are NumPy's or JAX's; all are of shape (n_samples,) but `parameters`.

    A target is one number for each sample, or several, (n_fields, n_samples), of which a likelihood says what they
    are. Labels are -1 and +1. Scores may have more axes in front. All are log-concave in the score unless they say
    otherwise.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters; their logarithms are inferred."""
        ...

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Prior of each parameter."""
        ...

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
        ...

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
        ...

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores.

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
        ...

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
        ...

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
        ...

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
        ...


def tilt(
    likelihood: Likelihood,
    y: Array,
    mean: Array,
    variance: Array,
    parameters: Array,
    heights: Callable[[Array], tuple[Any, Any]] | None = None,
) -> Tilted:
    """Integrate a log-concave density over normal scores, by the trapezoidal rule around the mode of their product.

    Nodes are dense at the mode, by the curvature there, and reach as far as the normal score does. Where the standard
    deviation of the score is up to five times the scale of the density, the log normalizer is within 1e-8, and its
    second derivative times the variance within 1e-7; at ten times both are within 2e-6, and however wide the normal
    score is within 0.05: densities with one side that is flat and another that is steep have an edge at which nodes
    are far apart then.

    `heights` maps scores to the log density and its derivatives by the parameters, for likelihoods that find both at
    once in less time than one after the other.
    """
    xp = namespace(mean)
    mode, second = _mode(likelihood, y, mean, variance, parameters)
    curvature = xp.maximum(-second, 0.0)
    width, reach = 1.0 / xp.sqrt(1.0 / variance + curvature), REACH * xp.sqrt(variance)
    largest = xp.arcsinh(reach / width)
    steps = xp.linspace(-1.0, 1.0, N_NODES)[:, None] * largest
    scores = mode + width * xp.sinh(steps)
    log_steps = xp.log(width * xp.cosh(steps) * (2.0 / (N_NODES - 1)) * largest)
    if heights is None:
        log_density = likelihood.log_density(y, scores, parameters)
        by_parameters = likelihood.derivatives(y, scores, parameters, 0).parameters
    else:
        log_density, by_parameters = heights(scores)
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
    """Advance a state, a NamedTuple, while it is unfinished, on NumPy or within a compiled function of JAX."""
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
