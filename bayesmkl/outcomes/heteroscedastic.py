"""Noise whose standard deviation is not the same for all samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl.outcomes.base import Derivatives, Likelihood, Predicted, Tilted
from bayesmkl.outcomes.priors import LogNormal
from bayesmkl.outcomes.regression import Gaussian, StudentT


@fulfil_docs(Likelihood)
class Heteroscedastic(NamedTuple):
    r"""Noise with the standard deviation :math:`\phi_{t_i} / \sqrt{\lambda_i}` of a task and a known precision.

    The fields of a target are its number, the position :math:`t_i` of its task, and the precision :math:`\lambda_i`
    relative to other samples: of a mean of `n` measurements it is `n`.

    Parameters
    ----------
    likelihood : Gaussian or StudentT
        Of a number, whose first parameter is the scale of the noise; other parameters are the same for all samples.
    tasks : tuple of str, default=()
        Names of the tasks, each with a scale of its own; none, if all samples are of the same task.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.outcomes import Gaussian, Heteroscedastic
    >>> likelihood = Heteroscedastic(Gaussian(), ("north", "south"))
    >>> likelihood.names
    ('noise_std[north]', 'noise_std[south]')
    >>> zero_in_the_south_from_four = np.array([[0.0], [1.0], [4.0]])
    >>> likelihood.log_density(zero_in_the_south_from_four, np.zeros(1), np.array([1.0, 2.0])).round(4)
    array([-0.9189])
    """

    likelihood: Gaussian | StudentT
    tasks: tuple[str, ...] = ()

    @property
    def n_scales(self) -> int:
        """Number of scales."""
        return max(len(self.tasks), 1)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters; those of scales name the task."""
        first, *rest = self.likelihood.names
        return *((f"{first}[{task}]" for task in self.tasks) if self.tasks else (first,)), *rest

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        first, *rest = self.likelihood.priors
        return *(first,) * self.n_scales, *rest

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every target."""
        return self.likelihood.log_density(y[..., 0, :], score, self.of_samples(y, parameters))

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        own = self.of_samples(y, parameters)
        found = self.likelihood.derivatives(y[..., 0, :], score, own, order)
        by_parameters = {
            name: self.pull(y, getattr(found, name))
            for name in ("parameters", "first_parameters", "second_parameters")
            if getattr(found, name) is not None
        }
        return found._replace(**by_parameters)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores."""
        found = self.likelihood.tilted(y[..., 0, :], mean, variance, self.of_samples(y, parameters))
        return found._replace(parameters=self.pull(y, found.parameters))

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of targets, whose other fields are those of `y`."""
        assert y is not None
        return self.likelihood.predict(mean, variance, self.of_samples(y, parameters))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the mean variance of the noise of the samples."""
        own = self.of_samples(y, parameters[..., None])
        return self.likelihood.noise_variance(y[0], own).mean(axis=-1)

    def cdf(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, parameters: np.ndarray
    ) -> np.ndarray:
        """Return the probability of targets below `y` under normal scores.

        Parameters
        ----------
        y : ndarray of shape (3, n_samples)
            Targets.
        mean, variance : ndarray of shape (n_samples,)
            Mean and variance of every score.
        parameters : ndarray of shape (n_parameters,)
            Parameters of the likelihood.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probabilities.
        """
        return self.likelihood.cdf(y[0], mean, variance, self.of_samples(y, parameters))

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the number of a target for every score, with task and precision of `y`."""
        assert y is not None
        return self.likelihood.sample(score, self.of_samples(y, parameters), rng)

    def of_samples(self, y: Array, parameters: Array) -> Any:
        """Return the parameters of every sample, of the likelihood of numbers.

        Parameters
        ----------
        y : array of shape (3, n_samples), or with more axes in front
            Targets, of which only the last two fields are read.
        parameters : array of shape (n_parameters,), or with axes of which the last, of length one, is that of samples
            Parameters.

        Returns
        -------
        array of shape (1 or 2, ..., n_samples)
            Scale of the noise, and what else there is.
        """
        xp, n_scales = namespace(parameters), self.n_scales
        task, precision = _of_first(y)[-2].astype(int), _of_first(y)[-1]
        scales = parameters[:n_scales]
        scales = scales[task] if scales.ndim == 1 else xp.moveaxis(scales[..., 0], 0, -1)[..., task]
        scales = scales / xp.sqrt(precision)
        rest = [xp.broadcast_to(one, scales.shape) for one in parameters[n_scales:]]
        return xp.stack([scales, *rest])

    def pull(self, y: Array, by_samples: Array) -> Any:
        """Pull slopes by the parameters of samples back to the parameters, (n_parameters, n_samples).

        Parameters
        ----------
        y : array of shape (3, n_samples)
            Targets.
        by_samples : array of shape (1 or 2, n_samples), or with axes of scores after the first
            Slopes by what `of_samples` returns.

        Returns
        -------
        array of shape (n_parameters, n_samples), or with axes of scores after the first
            Slopes by every parameter; those by the scale of another task are zero.
        """
        xp = namespace(by_samples)
        task, precision = _of_first(y)[-2].astype(int), _of_first(y)[-1]
        by_scale = by_samples[0] / xp.sqrt(precision)
        each = [xp.where(task == t, by_scale, 0.0) for t in range(self.n_scales)]
        return xp.stack([*each, *by_samples[1:]])


def _of_first(y: Any) -> Any:
    """Return the targets of the first output: all outputs have the same tasks and precisions."""
    return y[(0,) * (y.ndim - 2)]
