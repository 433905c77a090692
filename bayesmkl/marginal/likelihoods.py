r"""Likelihoods of a latent score: densities, their derivatives, and their integrals over normal scores.

A likelihood says how the target :math:`y_i` follows from the score :math:`f_i` of its sample, and from
parameters :math:`\phi` of its own that are inferred with the hyperparameters of the kernels. `Likelihood` is
the contract; inference asks for nothing else.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import special

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.truncated_normal import LOG_2PI, log_normal_cdf, truncated_moments

__all__ = ["Derivatives", "Gaussian", "Likelihood", "Logit", "Predicted", "Probit", "Tilted", "tilt"]

NODES = np.linspace(-8.5, 8.5, 129)  # of the trapezoidal rule, in standard deviations of the score
LOG_STEP = math.log(NODES[1] - NODES[0])
NEWTON_STEPS = 12
FAR = (
    -50.0
)  # below it z and the ratio of density and distribution function cancel, and their sum is a short series


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

    Labels are -1 and +1. All are log-concave in the score unless they say otherwise.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters; their logarithms are inferred."""
        ...

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        r"""Return :math:`\log p(y_i \mid f_i, \phi)`."""
        ...

    def derivatives(self, y: Array, score: Array, parameters: Array) -> Derivatives:
        """Return derivatives of the log density."""
        ...

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores."""
        ...

    def predict(self, mean: Array, variance: Array, parameters: Array) -> Predicted:
        """Return moments of the target, of labels -1 and +1 where there are two classes."""
        ...

    def sample(self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a target for every score."""
        ...


class Gaussian(NamedTuple):
    r"""Normal noise: :math:`y_i \mid f_i \sim N(f_i, \phi^2)` with the standard deviation :math:`\phi`.

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian().log_density(np.zeros(1), np.zeros(1), np.array([1.0])).round(4)
    array([-0.9189])
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return ("noise_std",)

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target."""
        return _log_normal(y - score, parameters[0] ** 2)

    def derivatives(self, y: Array, score: Array, parameters: Array) -> Derivatives:
        """Return derivatives of the log density."""
        rest, variance = y - score, parameters[0] ** 2
        one = namespace(y).ones_like(rest)
        by_std = (rest**2 / variance - 1.0) / parameters[0]
        precision_by_std = -2.0 / (variance * parameters[0])
        return Derivatives(
            rest / variance,
            -one / variance,
            0.0 * one,
            by_std[None],
            (precision_by_std * rest)[None],
            (-precision_by_std * one)[None],
        )

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores."""
        total = variance + parameters[0] ** 2
        rest = y - mean
        by_std = (rest**2 / total - 1.0) / total * parameters[0]
        return Tilted(_log_normal(rest, total), rest / total, -1.0 / total, by_std[None])

    def predict(self, mean: Array, variance: Array, parameters: Array) -> Predicted:
        """Return moments of the target."""
        return Predicted(mean, variance + parameters[0] ** 2)

    def sample(self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a target for every score."""
        return score + parameters[0] * rng.standard_normal(score.shape)


class Probit(NamedTuple):
    r"""Labels -1 and +1 by the sign of a noisy score: :math:`p(y_i \mid f_i) = \Phi(y_i f_i)`.

    With a margin, :math:`\Phi(y_i f_i - \nu)`, a score within the margin belongs to no label: densities of the two
    labels do not sum to one, and predictions are their ratio.

    Parameters
    ----------
    margin : float, default=0.0
        :math:`\nu`.

    Examples
    --------
    >>> import numpy as np
    >>> labels, nothing = np.array([1.0, -1.0]), np.zeros(0)
    >>> np.exp(Probit().log_density(labels, np.ones(2), nothing)).round(4)
    array([0.8413, 0.1587])
    """

    margin: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters: none."""
        return ()

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every label."""
        return log_normal_cdf(y * score - self.margin)

    def derivatives(self, y: Array, score: Array, parameters: Array) -> Derivatives:
        """Return derivatives of the log density."""
        z = y * score - self.margin
        _, ratio, second = _log_cdf_derivatives(z)
        none = namespace(y).zeros((0, *score.shape))
        third = -second * (z + 2.0 * ratio) - ratio
        return Derivatives(y * ratio, second, y * third, none, none, none)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores (Rasmussen and Williams, eq. 3.82)."""
        xp = namespace(y)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        z = (y * mean - self.margin) * scale
        log_cdf, ratio, second = _log_cdf_derivatives(z)
        return Tilted(log_cdf, y * ratio * scale, second * scale**2, xp.zeros((0, *mean.shape)))

    def predict(self, mean: Array, variance: Array, parameters: Array) -> Predicted:
        """Return moments of the label."""
        xp = namespace(mean)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        own, other = (log_normal_cdf((side * mean - self.margin) * scale) for side in (1.0, -1.0))
        probability = xp.exp(own - xp.logaddexp(own, other)) if self.margin else xp.exp(own)
        return Predicted(2.0 * probability - 1.0, 4.0 * probability * (1.0 - probability))

    def sample(self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a label for every score, as labels are observed."""
        mean = self.predict(score, np.zeros_like(score), parameters).mean
        return np.where(special.ndtri(0.5 + 0.5 * mean) + rng.standard_normal(score.shape) > 0.0, 1.0, -1.0)


class Logit(NamedTuple):
    r"""Labels -1 and +1 with log odds equal to the score: :math:`p(y_i \mid f_i) = 1 / (1 + e^{-y_i f_i})`.

    Examples
    --------
    >>> import numpy as np
    >>> labels, nothing = np.array([1.0, -1.0]), np.zeros(0)
    >>> np.exp(Logit().log_density(labels, np.ones(2), nothing)).round(4)
    array([0.7311, 0.2689])
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters: none."""
        return ()

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every label."""
        xp = namespace(y)
        return -xp.logaddexp(xp.zeros_like(score), -y * score)

    def derivatives(self, y: Array, score: Array, parameters: Array) -> Derivatives:
        """Return derivatives of the log density."""
        xp = namespace(y)
        wrong = xp.exp(self.log_density(-y, score, parameters))  # probability of the other label
        second = -wrong * (1.0 - wrong)
        none = xp.zeros((0, *score.shape))
        return Derivatives(y * wrong, second, y * second * (2.0 * wrong - 1.0), none, none, none)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores, by quadrature."""
        return tilt(self, y, mean, variance, parameters)

    def predict(self, mean: Array, variance: Array, parameters: Array) -> Predicted:
        """Return moments of the label."""
        xp = namespace(mean)
        probability = xp.exp(tilt(self, xp.ones_like(mean), mean, variance, parameters).log_normalizer)
        return Predicted(2.0 * probability - 1.0, 4.0 * probability * (1.0 - probability))

    def sample(self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a label for every score."""
        return np.where(score + rng.logistic(size=score.shape) > 0.0, 1.0, -1.0)


def tilt(likelihood: Likelihood, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
    """Integrate a log-concave density over normal scores, by the trapezoidal rule around the mode of their product.

    Of densities without sharp edges its error decays exponentially with the number of nodes.
    """
    xp = namespace(y)
    mode = mean
    for _ in range(NEWTON_STEPS):
        slopes = likelihood.derivatives(y, mode, parameters)
        mode = mode + (variance * slopes.first - (mode - mean)) / (1.0 - variance * slopes.second)
    spread = xp.sqrt(variance)
    scores = mode + spread * xp.asarray(NODES)[:, None]
    log_terms = likelihood.log_density(y, scores, parameters) + _log_normal(scores - mean, variance)
    highest = log_terms.max(axis=0)
    terms = xp.exp(log_terms - highest)
    total = terms.sum(axis=0)
    shares = terms / total
    shift = (shares * (scores - mean)).sum(axis=0)
    centered = (shares * (scores - mean - shift) ** 2).sum(axis=0)
    by_parameters = likelihood.derivatives(y, scores, parameters).parameters
    return Tilted(
        highest + xp.log(total) + xp.log(spread) + LOG_STEP,
        shift / variance,
        (centered / variance - 1.0) / variance,
        (shares * by_parameters).sum(axis=1),
    )


def _log_cdf_derivatives(z: Array) -> tuple[Any, Any, Any]:
    """Return the logarithm of the normal distribution function and two derivatives, with all digits in both tails."""
    if is_numpy(z):
        ratio = math.sqrt(2.0 / math.pi) / special.erfcx(-z / math.sqrt(2.0))
        w = 1.0 / np.minimum(z, FAR) ** 2
        excess = np.where(
            z < FAR, -z * w * (1.0 - w * (2.0 - w * (10.0 - w * (74.0 - 706.0 * w)))), z + ratio
        )
        return special.log_ndtr(z), ratio, -ratio * excess
    xp = namespace(z)
    above = truncated_moments(z, xp.ones_like(z), 0.0)
    ratio = xp.where(z < 0.0, above.mean - z, xp.exp(-0.5 * z * z - 0.5 * LOG_2PI - above.log_normalizer))
    second = xp.where(z < 0.0, above.variance - 1.0, -ratio * (z + ratio))
    return above.log_normalizer, ratio, second


def _log_normal(rest: Array, variance: Any) -> Any:
    xp = namespace(rest)
    return -0.5 * (rest**2 / variance + xp.log(variance) + LOG_2PI)
