"""Likelihoods of samples that count more or less than once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl.outcomes.base import Derivatives, Likelihood, Predicted, Tilted, other_fields, tilt
from bayesmkl.outcomes.priors import LogNormal


@fulfil_docs(Likelihood)
class Repeated(NamedTuple):
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

    likelihood: Likelihood
    is_fractional: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.likelihood.names

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        return self.likelihood.priors

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

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the target, whatever its weight."""
        own = None if y is None else other_fields(y)
        return self.likelihood.predict(mean, variance, parameters, own)

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise of one copy in units of the score."""
        return self.likelihood.noise_variance(other_fields(y), parameters)

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
