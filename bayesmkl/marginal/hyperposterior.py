r"""Posterior of hyperparameters: its mode, and draws by adaptive importance sampling.

Everything happens in the coordinates of `bayesmkl.marginal.hyperpriors`, in which the prior is N(0, I) and the
log posterior is

.. math:: \log p(u \mid y) = \log p(y \mid w(u), \phi(u)) - \tfrac12 u^\top u + \text{const} .

Draws come from multivariate t densities, the first around the mode with the curvature there, each further one
with mean and covariance of all draws so far. Every draw is weighted by the mixture of all densities that were
drawn from, and the weights are Pareto smoothed; their `k` says whether so many draws are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from bayesmkl._numerics.psis import smooth_weights
from bayesmkl.marginal.conditioning import Sites
from bayesmkl.marginal.covariances import Covariance
from bayesmkl.marginal.evidence import Evidence
from bayesmkl.marginal.hyperpriors import LogNormal, WeightPrior
from bayesmkl.marginal.likelihoods import Likelihood

__all__ = [
    "Draws",
    "Hypermodel",
    "Mode",
    "Point",
    "draw_importance",
    "evaluate",
    "evaluate_slope",
    "find_mode",
]

START = 0.3  # of every coordinate, above the median
STEP = 0.1  # of the finite differences of the gradient at the mode
LEAST_CURVATURE = 0.3  # of a coordinate; the prior alone has one
LEAST_COV = 1e-3  # of a coordinate, in later rounds
DF = 6.0  # of the densities that are drawn from
CLOSE = 1e-4  # tolerance of sites on the way to the mode
LOOSE = 1e-2  # tolerance of sites for an evidence without gradient: what it lacks counts squared


class Hypermodel(NamedTuple):
    """All that is not inferred.

    Attributes
    ----------
    covariance : Covariance
    likelihood : Likelihood
    targets : ndarray of shape (n_outputs, n_samples)
        Labels -1 and +1, or numbers. Outputs share the kernel weights; each has parameters of the likelihood of
        its own.
    weight_prior : WeightPrior
    parameter_prior : LogNormal
    evidence : callable
        `exact_evidence`, `ep_evidence` or `laplace_evidence`.
    """

    covariance: Covariance
    likelihood: Likelihood
    targets: np.ndarray
    weight_prior: WeightPrior
    parameter_prior: LogNormal
    evidence: Callable[..., Evidence]

    @property
    def n_weights(self) -> int:
        """Number of coordinates of the kernel weights."""
        return self.weight_prior.n_coordinates(self.covariance.stack.n_kernels)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return self.n_weights + len(self.targets) * len(self.likelihood.names)

    def values(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return kernel weights, and parameters of the likelihood of shape (n_outputs, n_parameters)."""
        weights = self.weight_prior.weights(coordinates[: self.n_weights]).values
        parameters = self.parameter_prior.parameters(coordinates[self.n_weights :]).values
        return weights, parameters.reshape(len(self.targets), -1)


class Point(NamedTuple):
    """Log posterior and log evidence at some coordinates, with the sites of every output."""

    log_density: float
    log_evidence: float
    sites: tuple[Sites, ...]
    converged: bool


class Mode(NamedTuple):
    """The most probable coordinates, the inverse of the curvature there, and how many evaluations that took."""

    coordinates: np.ndarray
    cov: np.ndarray
    point: Point
    n_evaluations: int
    converged: bool


class Draws(NamedTuple):
    r"""Weighted draws of hyperparameters.

    Attributes
    ----------
    coordinates : ndarray of shape (n_draws, n_coordinates)
    weights : ndarray of shape (n_draws,)
        They sum to one.
    points : tuple of Point
        What was found at each draw.
    log_evidence : float
        Of the model in nats, hyperparameters integrated out.
    pareto_k : float
        :math:`\hat k` of the weights before smoothing.
    ess : float
        Effective number of draws, :math:`1 / \sum_j w_j^2`.
    """

    coordinates: np.ndarray
    weights: np.ndarray
    points: tuple[Point, ...]
    log_evidence: float
    pareto_k: float
    ess: float

    @property
    def n_unconverged(self) -> int:
        """Number of draws whose sites did not converge, so that their evidence is not to be believed."""
        return sum(not point.converged for point in self.points)


def evaluate(
    model: Hypermodel, coordinates: np.ndarray, start: tuple[Sites, ...] | None, **tol: float
) -> tuple[Point, list[Evidence]]:
    """Return the log posterior, and the evidence of every output that it is made of.

    Parameters
    ----------
    model : Hypermodel
    coordinates : ndarray of shape (n_coordinates,)
    start : tuple of Sites, optional
        Of a point nearby.
    **tol : float
        Tolerance of the sites, `tol`; the default is that of the evidence.
    """
    weights, parameters = model.values(coordinates)
    matrix = model.covariance.matrix(weights)
    found = [
        model.evidence(model.likelihood, y, matrix, own, None if start is None else start[k], **tol)
        for k, (y, own) in enumerate(zip(model.targets, parameters, strict=True))
    ]
    log_evidence = float(sum(output.log_evidence for output in found))
    log_density = log_evidence - 0.5 * float(coordinates @ coordinates)
    converged = all(bool(output.converged) for output in found)
    return Point(log_density, log_evidence, tuple(output.sites for output in found), converged), found


def evaluate_slope(
    model: Hypermodel, coordinates: np.ndarray, start: tuple[Sites, ...] | None, **tol: float
) -> tuple[Point, np.ndarray]:
    """Return the log posterior and its gradient; see `evaluate`."""
    point, found = evaluate(model, coordinates, start, **tol)
    weights = model.weight_prior.weights(coordinates[: model.n_weights])
    parameters = model.parameter_prior.parameters(coordinates[model.n_weights :])
    by_weights = model.covariance.pull(weights.values, sum(output.by_covariance() for output in found))
    by_parameters = np.concatenate([output.by_parameters for output in found])
    return point, np.concatenate([weights.pull(by_weights), parameters.pull(by_parameters)]) - coordinates


def find_mode(
    model: Hypermodel, start: np.ndarray | None = None, max_iter: int = 200, tol: float = 1e-6
) -> Mode:
    """Climb to the mode by L-BFGS, and measure the curvature there by differences of gradients."""
    latest: list[Point] = []

    def negative(coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            point, gradient = evaluate_slope(
                model, coordinates, latest[-1].sites if latest else None, tol=CLOSE
            )
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(coordinates)
        latest[:] = [point]
        return -point.log_density, -gradient

    at = np.full(model.n_coordinates, START) if start is None else start
    found = optimize.minimize(
        negative, at, jac=True, method="L-BFGS-B", options={"maxiter": max_iter, "ftol": tol}
    )
    point, _ = evaluate(model, found.x, latest[-1].sites)
    directions = STEP * np.eye(len(found.x))
    below, above = (
        np.array([evaluate_slope(model, found.x + sign * d, point.sites, tol=CLOSE)[1] for d in directions])
        for sign in (-1.0, 1.0)
    )
    curvature = (below - above) / (2.0 * STEP)
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    cov = (vectors / np.maximum(values, LEAST_CURVATURE)) @ vectors.T
    n_evaluations = found.nfev + 2 * len(found.x) + 1
    return Mode(found.x, cov, point, n_evaluations, bool(found.success) and point.converged)


def draw_importance(
    model: Hypermodel,
    mode: Mode,
    n_draws: int,
    rng: np.random.Generator,
    n_rounds: int = 4,
) -> Draws:
    """Draw from t densities that adapt to the posterior, and weight by the mixture of them all.

    Parameters
    ----------
    model : Hypermodel
    mode : Mode
        The first density is around it.
    n_draws : int
        In all rounds together.
    rng : numpy.random.Generator
    n_rounds : int, default=4
        Densities that are drawn from. With `n_draws` // `n_rounds` of 25 and more, Pareto smoothing has a tail.
    """
    proposals = [multivariate_t(mode.coordinates, mode.cov, df=DF)]
    coordinates: list[np.ndarray] = []
    points: list[Point] = []
    for _ in range(n_rounds):
        drawn = proposals[-1].rvs(n_draws // n_rounds, rng).reshape(-1, len(mode.coordinates))
        drawn = drawn[np.argsort(((drawn - mode.coordinates) ** 2).sum(axis=1))]
        for u in drawn:
            near = _nearest(u, coordinates, points) or mode.point
            points.append(evaluate(model, u, near.sites, tol=LOOSE)[0])
            coordinates.append(u)
        everything = np.array(coordinates)
        mixture = logsumexp([proposal.logpdf(everything) for proposal in proposals], axis=0) - np.log(
            len(proposals)
        )
        log_ratios = np.array([point.log_density for point in points]) - mixture
        log_weights, k = smooth_weights(log_ratios)
        weights = np.exp(log_weights - logsumexp(log_weights))
        mean = weights @ everything
        around = everything - mean
        cov = (around * weights[:, None]).T @ around + LEAST_COV * np.eye(len(mean))
        proposals.append(multivariate_t(mean, cov, df=DF))
    of_prior = -0.5 * everything.shape[1] * np.log(2.0 * np.pi)  # which the log posterior leaves out
    log_evidence = float(logsumexp(log_ratios) - np.log(len(log_ratios)) + of_prior)
    return Draws(everything, weights, tuple(points), log_evidence, float(k), float(1.0 / (weights**2).sum()))


def _nearest(u: np.ndarray, coordinates: list[np.ndarray], points: list[Point]) -> Point | None:
    if not coordinates:
        return None
    return points[int(np.argmin([((u - other) ** 2).sum() for other in coordinates]))]
