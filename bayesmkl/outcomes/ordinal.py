"""Likelihood of grades."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl.outcomes.base import (
    Derivatives,
    Likelihood,
    Predicted,
    Tilted,
    no_parameters,
)
from bayesmkl.outcomes.intervals import LAWS, Along, log_mass_slopes
from bayesmkl.outcomes.priors import LogNormal

LAW = LAWS["normal"]


@fulfil_docs(Likelihood)
class OrdinalProbit(NamedTuple):
    r"""Grades by which cut points a noisy score lies between: :math:`P(y_i \le k \mid f_i) = \Phi(b_k - f_i)`.

    Grades are 0 to n_levels - 1. Cut points have the mean zero, as the intercept moves all of them; what is inferred
    are their distances, :math:`b_k - b_{k - 1}`.

    Parameters
    ----------
    n_levels : int, default=2
        Number of grades.
    distance_prior : LogNormal, default=LogNormal(0.7, 1.0)
        Of the distances, in units of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> grades = np.array([0.0, 1.0, 2.0])
    >>> np.exp(OrdinalProbit(3).log_density(grades, np.zeros(3), np.array([2.0]))).round(4)
    array([0.1587, 0.6827, 0.1587])
    """

    n_levels: int = 2
    distance_prior: LogNormal = LogNormal(0.7, 1.0)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(f"distance_{number}" for number in range(self.n_levels - 2))

    @property
    def priors(self) -> tuple[LogNormal, ...]:
        """Priors of the parameters."""
        return (self.distance_prior,) * (self.n_levels - 2)

    def cut_slopes(self) -> np.ndarray:
        """Return derivatives of the cut points by their distances.

        Returns
        -------
        ndarray of shape (n_levels - 1, n_levels - 2)
            What a unit of each distance adds to each cut point.
        """
        below = np.tril(np.ones((self.n_levels - 1, self.n_levels - 2)), -1)
        return below - below.mean(axis=0)

    def cuts(self, parameters: Array) -> list[Any]:
        """Return the cut points.

        Parameters
        ----------
        parameters : array of shape (n_levels - 2, ...)
            Distances of the cut points.

        Returns
        -------
        list of n_levels - 1 arrays of shape (...,)
            Cut points, ascending.
        """
        nothing = 0.0 * parameters.sum(axis=0)
        return [
            sum((slope * own for slope, own in zip(row, parameters, strict=True)), nothing)
            for row in self.cut_slopes()
        ]

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log probability of every grade."""
        lower, upper = self._ends(y, score, parameters)
        return log_mass_slopes(LAW, lower, upper, [(0.0, 0.0)])[0].value

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log probability."""
        found, own = self._slopes(y, score, 1.0, parameters)
        return Derivatives(
            -found.first,
            found.second,
            -found.third,
            _stacked(score, [each.moved for each in own]),
            _stacked(score, [-each.first_moved for each in own]),
            _stacked(score, [each.second_moved for each in own]),
        )

    def _slopes(self, y: Array, score: Array, scale: Any, parameters: Array) -> tuple[Along, list[Along]]:
        """Return derivatives of the log probability with all ends scaled: by a shift, and by every distance."""
        lower, upper = (end * scale for end in self._ends(y, score, parameters))
        directions: list[tuple[Any, Any]] = [
            (self._pick(y - 1.0, list(by)) * scale, self._pick(y, list(by)) * scale)
            for by in self.cut_slopes().T
        ]
        found, *own = log_mass_slopes(LAW, lower, upper, [(0.0, 0.0), *directions])
        return found, own

    def _ends(self, y: Array, score: Array, parameters: Array) -> tuple[Any, Any]:
        """Return the cut points below and above every grade, from the score."""
        xp, cuts = namespace(score), self.cuts(parameters)
        lower = xp.where(y < 0.5, -xp.inf, self._pick(y - 1.0, cuts) - score)
        upper = xp.where(y > self.n_levels - 1.5, xp.inf, self._pick(y, cuts) - score)
        return lower, upper

    def _pick(self, number: Array, values: list[Any]) -> Any:
        """Return the value with each number, zero where there is none."""
        xp = namespace(number)
        return sum(xp.where(number == at, 1.0, 0.0) * value for at, value in enumerate(values))

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the probability over normal scores: noise and score are one normal variable."""
        xp = namespace(mean)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        found, own = self._slopes(y, mean, scale, parameters)
        by_distance = _stacked(mean, [each.moved for each in own])
        return Tilted(found.value, -found.first * scale, found.second * scale**2, by_distance)

    def log_probabilities(self, mean: Array, variance: Array, parameters: Array) -> Any:
        """Return log probabilities of all grades under normal scores.

        Parameters
        ----------
        mean, variance : array of shape (...,)
            Mean and variance of every score.
        parameters : array of shape (n_levels - 2, ...)
            Distances of the cut points.

        Returns
        -------
        array of shape (n_levels, ...)
            Logarithms of probabilities, which sum to one over the grades.
        """
        xp = namespace(mean)
        nothing = xp.zeros_like(mean)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        ends = [-xp.inf + nothing, *((cut - mean) * scale for cut in self.cuts(parameters)), xp.inf + nothing]
        return xp.stack(
            [log_mass_slopes(LAW, lower, upper, [(0.0, 0.0)])[0].value for lower, upper in pairwise(ends)]
        )

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the grade, as a number."""
        p = namespace(mean).exp(self.log_probabilities(mean, variance, parameters))
        grade = namespace(mean).arange(self.n_levels).reshape(-1, *(1,) * mean.ndim)
        average = (grade * p).sum(axis=0)
        return Predicted(average, ((grade - average) ** 2 * p).sum(axis=0))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.ones(parameters.shape[1:])

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a grade for every score."""
        noisy = score + rng.standard_normal(score.shape)
        return sum((noisy > cut).astype(float) for cut in self.cuts(parameters))


def _stacked(score: Array, by_parameters: list[Any]) -> Any:
    """Return derivatives by the parameters as one array, also where there are none."""
    return namespace(score).stack(by_parameters) if by_parameters else no_parameters(score)
