"""A likelihood of scores to which a known number is added."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl.outcomes.base import Derivatives, Likelihood, Predicted, Tilted, other_fields
from bayesmkl.outcomes.priors import LogNormal


@fulfil_docs(Likelihood)
class Offset(NamedTuple):
    """A likelihood of the score and an offset, which is the last field of a target, after those of the likelihood.

    Parameters
    ----------
    likelihood : Likelihood
        Of the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.outcomes import Poisson
    >>> no_event_in_two_years = np.array([[0.0], [np.log(2.0)]])
    >>> Offset(Poisson()).log_density(no_event_in_two_years, np.zeros(1), np.zeros(0))
    array([-2.])
    """

    likelihood: Likelihood

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.likelihood.names

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        return self.likelihood.priors

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target."""
        return self.likelihood.log_density(other_fields(y), score + y[..., -1, :], parameters)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        return self.likelihood.derivatives(other_fields(y), score + y[..., -1, :], parameters, order)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores."""
        return self.likelihood.tilted(other_fields(y), mean + y[..., -1, :], variance, parameters)

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the target, of scores that have their offsets."""
        return self.likelihood.predict(mean, variance, parameters, None if y is None else other_fields(y))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return self.likelihood.noise_variance(other_fields(y), parameters)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the first field of a target for every score, with the offset of `y`, or none."""
        if y is None:
            return self.likelihood.sample(score, parameters, rng)
        own: Any = other_fields(y)
        return self.likelihood.sample(score + y[..., -1, :], parameters, rng, own)
