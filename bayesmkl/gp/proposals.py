"""Densities that hyperparameters are drawn from: multivariate t, which adapt to weighted draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import chi2, multivariate_t, qmc

LEAST_COV = 1e-3  # of a coordinate, in later rounds
DRAWS_PER_COORDINATE = 3.0  # effective ones that moments take to be half trusted
LEAST_DF = 6.0  # of the densities that are drawn from
EDGE = 1e-12  # of the unit cube, where a normal quantile is not finite
LOG_2 = float(np.log(2.0))
DF_PER_COORDINATE = (
    0.75  # with fewer, the scale that all coordinates have in common varies more than their density
)


class Proposal(NamedTuple):
    """A multivariate t density, or the mean of one and its mirror image."""

    mean: np.ndarray
    cov: np.ndarray
    mirror: Callable[[np.ndarray], np.ndarray | None]

    @property
    def df(self) -> float:
        """Degrees of freedom."""
        return max(LEAST_DF, DF_PER_COORDINATE * len(self.mean))

    def log_density(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the log density at some coordinates, (n_draws, n_coordinates)."""
        mirrored = self.mirror(coordinates)
        own = self._log_t(coordinates)
        return own if mirrored is None else np.logaddexp(own, self._log_t(mirrored)) - LOG_2

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw by scrambled Sobol points, one coordinate of which is that of the scale; the closest come first.

        Draws are of the t density: which side of the mirror they are on says nothing.
        """
        sequence = qmc.Sobol(len(self.mean) + 1, seed=rng)
        cube = np.clip(sequence.random_base2(max(n_draws - 1, 0).bit_length())[:n_draws], EDGE, 1.0 - EDGE)
        scale = np.sqrt(chi2.ppf(cube[:, -1:], self.df) / self.df)
        steps = ndtri(cube[:, :-1]) @ np.linalg.cholesky(self.cov).T / scale
        return self.mean + steps[np.argsort((steps**2).sum(axis=1))]

    def adapted(self, coordinates: np.ndarray, weights: np.ndarray) -> Proposal:
        """Return the density with the moments of weighted draws, or as near to it as so many draws are good for."""
        mirrored = self.mirror(coordinates)
        if mirrored is not None:  # each draw counts on both sides, as far as it belongs to this one
            here = expit(self._log_t(coordinates) - self._log_t(mirrored))
            coordinates = np.vstack([coordinates, mirrored])
            weights = np.concatenate([weights * here, weights * (1.0 - here)])
        ess, mean = 1.0 / (weights**2).sum(), weights @ coordinates
        around = coordinates - mean
        least = np.minimum(LEAST_COV, np.diag(self.cov))  # of many samples little is left of the noise's
        cov = (around * weights[:, None]).T @ around + np.diag(least)
        trust = ess / (ess + DRAWS_PER_COORDINATE * len(mean))
        return self._replace(
            mean=self.mean + trust * (mean - self.mean), cov=self.cov + trust * (cov - self.cov)
        )

    def _log_t(self, coordinates: np.ndarray) -> np.ndarray:
        if not len(self.mean):  # the data say nothing in any direction
            return np.zeros(len(coordinates))
        return np.atleast_1d(multivariate_t.logpdf(coordinates, self.mean, self.cov, self.df))


class WideProposal(NamedTuple):
    """A density that is normal with one variance but in the span of a few directions, where it is a t density.

    Few hundred draws say nothing of each of thousands of coordinates, but of this variance, and of those directions.

    Attributes
    ----------
    outside : ndarray of shape (n_coordinates,)
        Mean, without its part in the span.
    basis : ndarray of shape (n_coordinates, n_directions)
        Orthonormal columns.
    within : Proposal
        In the span.
    scale : float
        Standard deviation outside of it.
    """

    outside: np.ndarray
    basis: np.ndarray
    within: Proposal
    scale: float = 1.0

    @classmethod
    def around(cls, mean: np.ndarray, basis: np.ndarray, variances: np.ndarray) -> WideProposal:
        """Return the density around some coordinates."""
        center = mean @ basis
        return cls(mean - basis @ center, basis, Proposal(center, np.diag(variances), _no_mirror))

    def log_density(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the log density at some coordinates, (n_draws, n_coordinates)."""
        n_outside, variance = self.basis.shape[0] - self.basis.shape[1], self.scale**2
        log_height = -0.5 * n_outside * np.log(2.0 * np.pi * variance)
        inside = self.within.log_density(coordinates @ self.basis)
        return inside + log_height - 0.5 * self._squares(coordinates) / variance

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw by Sobol points in the span, the closest first, and by chance outside of it."""
        inside = self.within.draw(n_draws, rng)
        normal = self.scale * rng.standard_normal((n_draws, len(self.outside)))
        return self.outside + normal + (inside - normal @ self.basis) @ self.basis.T

    def adapted(self, coordinates: np.ndarray, weights: np.ndarray) -> WideProposal:
        """Return the density with the moments of weighted draws, as far as these are trusted."""
        ess, n_outside = 1.0 / (weights**2).sum(), self.basis.shape[0] - self.basis.shape[1]
        trust = ess / (ess + DRAWS_PER_COORDINATE)
        variance = weights @ self._squares(coordinates) / n_outside
        scale = float(np.sqrt(self.scale**2 + trust * (variance - self.scale**2)))
        return self._replace(within=self.within.adapted(coordinates @ self.basis, weights), scale=scale)

    def _squares(self, coordinates: np.ndarray) -> np.ndarray:
        """Return squared distances from the mean outside of the span, (n_draws,)."""
        square: np.ndarray = ((coordinates - self.outside) ** 2).sum(axis=1)
        return square - ((coordinates @ self.basis) ** 2).sum(axis=1)


def _no_mirror(coordinates: np.ndarray) -> None:
    return
