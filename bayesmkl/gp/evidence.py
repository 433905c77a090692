r"""Evidence of hyperparameters with scores integrated out, and its gradient by their covariance.

Exact for normal noise; for other likelihoods expectation propagation, or Laplace's approximation. Under Student t
noise expectation propagation starts from the sites of a variational bound. Each finds normal sites, so that
everything that is read from a fit afterwards is the same for all. Equations are those of Rasmussen and Williams
(2006), "RW".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from bayesmkl._numerics.acceleration import EMPTY, extrapolate, remember
from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl.gp.conditioning import (
    LEAST_PRECISION,
    Cavity,
    Conditioned,
    Factored,
    Sites,
    cavity,
    condition,
    factorize,
)
from bayesmkl.outcomes import Heteroscedastic, StudentT
from bayesmkl.outcomes.base import Likelihood, Repeated, Tilted, copies_of, of_one_copy


class Evidence(NamedTuple):
    r"""Log evidence at given hyperparameters.

    Attributes
    ----------
    log_evidence : float
        :math:`\log p(y \mid C, \phi)` in nats, or its approximation.
    by_parameters : ndarray of shape (n_parameters,)
        By the parameters of the likelihood.
    sites : Sites
    posterior : Conditioned
        Scores given the sites.
    n_steps : int
        Factorizations that were needed.
    converged : bool
    by_mode : tuple of two ndarrays of shape (n_samples,), or None
        Vectors `u` and `v`: the mode that Laplace expands around adds :math:`(u v^\top + v u^\top) / 2` to the
        gradient.
    updated : Sites, optional
        Sites one update nearer to the fixed point, to start from elsewhere.
    """

    log_evidence: float
    by_parameters: np.ndarray
    sites: Sites
    posterior: Conditioned
    n_steps: int
    converged: bool
    by_mode: tuple[np.ndarray, np.ndarray] | None = None
    updated: Sites | None = None

    def by_covariance(self, overwrite: bool = False) -> np.ndarray:
        r"""Return :math:`\partial / \partial C_{ij}`, entries taken as free, symmetric (RW, eq. 5.27 and 5.23).

        It may `overwrite` the inverse root of the posterior.
        """
        dual, found = self.posterior.dual, self.posterior.take_shrinkage(overwrite)
        products = (
            [(dual, dual)] if self.by_mode is None else [(dual, dual), self.by_mode, self.by_mode[::-1]]
        )
        found *= -0.5
        for u, v in products:
            dger(0.5, u, v, a=found.T, overwrite_a=1)
        return found


class Height(NamedTuple):
    """Log evidence without what its gradient is made of; fields are those of `Evidence`."""

    log_evidence: float
    sites: Sites
    posterior: Factored
    n_steps: int = 1
    converged: bool = True
    updated: None = None


EP_TOL = 1e-7  # largest change of a site, in standard deviations of its score
LAPLACE_TOL = 1e-9  # largest change of a score
MIXTURE_TOL = 1e-7  # largest change of a site's precision, in units of that of its score
NEAR_BOUND = 0.03  # the same, for sites from which expectation propagation goes on
MAX_STEPS = 200
MEMORY = 1  # steps that the next one is extrapolated from
NEAR = 0.03  # change of a site below which they are
LEAP = 3.0  # of the logarithm of a precision, farther than which it is not extrapolated
STALLED = 0.8  # of the last change: sites swing to and fro, as they do where scores are large
DAMPED = 0.5  # part of a step that is taken then
PATIENCE = 10  # steps, after which every step is one
LEVEL = 1e-11  # of a log density, below which two heights differ by rounding, and the longer step is taken
STEP_SIZES = (1.0, 0.5, 0.25, 0.0625, 0.0078125)


def exact_evidence(
    likelihood: Likelihood,
    y: np.ndarray,
    covariance: np.ndarray,
    parameters: np.ndarray,
    start: Sites | None = None,
    tol: float = 0.0,
    overwrite: bool = False,
) -> Evidence:
    """Return the evidence under normal noise (RW, eq. 5.8 and 5.9).

    It takes what the other two take; sites that are known need neither a start nor a tolerance. It may `overwrite`
    the covariance where only evidence and gradient are read, see `condition`.
    """
    at_zero = likelihood.derivatives(y, np.zeros(len(covariance)), parameters)
    sites = Sites(-at_zero.second, at_zero.first)
    posterior = condition(covariance, sites, overwrite=overwrite)
    number = y if y.ndim == 1 else y[0]
    height = likelihood.log_density(y, number, parameters).sum()
    log_evidence = height - 0.5 * number @ posterior.dual - posterior.half_log_det
    slopes = likelihood.derivatives(y, posterior.mean, parameters)
    expected = slopes.parameters + 0.5 * posterior.variance * slopes.second_parameters  # of a quadratic
    return Evidence(log_evidence, expected.sum(axis=1), sites, posterior, 1, True)


def exact_height(
    likelihood: Likelihood,
    y: np.ndarray,
    covariance: np.ndarray,
    parameters: np.ndarray,
    start: Sites | None = None,
    tol: float = 0.0,
    overwrite: bool = False,
) -> Height:
    """Return what `exact_evidence` does, without a gradient: one factorization and no inverse.

    It may `overwrite` the covariance.
    """
    at_zero = likelihood.derivatives(y, np.zeros(len(covariance)), parameters, 2)
    sites = Sites(-at_zero.second, at_zero.first)
    posterior = factorize(covariance, sites, overwrite)
    number = y if y.ndim == 1 else y[0]
    height = likelihood.log_density(y, number, parameters).sum()
    return Height(height - 0.5 * number @ posterior.dual - posterior.half_log_det, sites, posterior)


def ep_evidence(
    likelihood: Likelihood,
    y: np.ndarray,
    covariance: np.ndarray,
    parameters: np.ndarray,
    start: Sites | None = None,
    tol: float = EP_TOL,
) -> Evidence:
    """Return the evidence of expectation propagation (RW, eq. 3.65, and 5.27 for its gradient).

    It is stationary in the sites, so that what they lack to the fixed point counts squared. But for densities that
    widen their score: their sites, which have no width, and the gradient are a little off (log-logistic times with
    late entries).
    """

    def update(sites: Sites, spent: Conditioned | None = None) -> tuple[Conditioned, Cavity, Tilted, Sites]:
        posterior = condition(covariance, sites.power(copies), spent)
        mean, precision = without = cavity(posterior, sites)
        tilted = likelihood.tilted(y, mean, 1.0 / precision, parameters)
        scale = 1.0 + tilted.second / precision
        wanted = np.maximum(-tilted.second / scale, LEAST_PRECISION)  # densities may widen the score
        target = Sites(wanted, tilted.first + wanted * (mean + tilted.first / precision))
        return posterior, without, tilted, target

    n_samples = len(covariance)
    copies = copies_of(likelihood, y)  # whose sites are the same; below are those of one
    many = np.sqrt(copies)
    if start is None:
        nothing = np.zeros(n_samples)
        sites, n_steps = update(Sites(nothing, nothing))[-1], 2
    else:
        sites, n_steps = start.power(1.0 / copies), 1
    posterior, history, change = None, EMPTY, np.inf
    while True:
        posterior, (mean, precision), tilted, target = update(sites, posterior)
        sd, last = np.sqrt(posterior.variance), change
        moved, own = target.precision - sites.precision, target.linear - sites.linear
        change = np.maximum(np.abs(own - posterior.mean * moved) * sd, np.abs(moved) * sd**2).max()
        if not (change > tol and n_steps < MAX_STEPS):
            break
        size = DAMPED if change > STALLED * last or n_steps > PATIENCE else 1.0
        step = Sites(*(old + size * (new - old) for old, new in zip(sites, target, strict=True)))
        output, at = _flat(target), _flat(step)
        history = remember(history, output, output - _flat(sites), MEMORY)
        if change < NEAR and len(history.outputs) > MEMORY:
            mixed = extrapolate(history, np.concatenate([target.precision * sd**2 * many, sd * many]))
            leaps = np.abs(mixed - at)[:n_samples] > LEAP  # logarithms of precisions that are next to zero
            mixed = np.where(np.concatenate([leaps, leaps]), at, mixed)
            at = mixed if np.isfinite(mixed).all() else at
        sites, n_steps = Sites(np.exp(at[:n_samples]), at[n_samples:]), n_steps + 1
    total = precision + sites.precision
    of_sites = (
        tilted.log_normalizer
        + 0.5 * np.log1p(sites.precision / precision)
        - 0.5 * sites.linear**2 / total
        + precision / total * mean * (0.5 * sites.precision * mean - sites.linear)
    )
    every = sites.power(copies)
    log_evidence = (copies * of_sites).sum() - posterior.half_log_det + 0.5 * every.linear @ posterior.mean
    by_parameters = (copies * tilted.parameters).sum(axis=1)
    updated = target.power(copies)
    return Evidence(log_evidence, by_parameters, every, posterior, n_steps, change <= tol, updated=updated)


def laplace_evidence(
    likelihood: Likelihood,
    y: np.ndarray,
    covariance: np.ndarray,
    parameters: np.ndarray,
    start: Sites | None = None,
    tol: float = LAPLACE_TOL,
) -> Evidence:
    """Return Laplace's evidence (RW, eq. 3.32 by algorithm 3.1, and eq. 5.20 to 5.24 for its gradient)."""

    def height(score: np.ndarray, dual: np.ndarray) -> Any:
        return likelihood.log_density(y, score, parameters).sum(axis=-1) - 0.5 * (dual * score).sum(axis=-1)

    sizes = np.array(STEP_SIZES)[:, None]
    if start is None:
        score = dual = np.zeros(len(covariance))
        posterior, n_steps = None, 1
    else:
        posterior = condition(covariance, start)
        score, dual, n_steps = posterior.mean, posterior.dual, 2
    while True:
        slopes = likelihood.derivatives(y, score, parameters)
        precision = np.maximum(-slopes.second, LEAST_PRECISION)
        sites = Sites(precision, slopes.first + precision * score)
        posterior = condition(covariance, sites, posterior)
        change = np.abs(posterior.mean - score).max()
        if not (change > tol and n_steps < MAX_STEPS):
            break
        duals = dual + sizes * (posterior.dual - dual)
        scores = score + sizes * (posterior.mean - score)
        heights = height(scores, duals)
        highest = heights.max()
        best = np.argmax(heights >= highest - LEVEL * (1.0 + np.abs(highest)))  # the first of these
        score, dual, n_steps = scores[best], duals[best], n_steps + 1
    log_evidence = height(posterior.mean, posterior.dual) - posterior.half_log_det
    widens = slopes.second > -LEAST_PRECISION  # there the site has no width, whatever the hyperparameters
    by_mode = 0.5 * posterior.variance * np.where(widens, 0.0, slopes.third)
    pull = _follow(posterior, covariance, by_mode, -slopes.second)
    by_parameters = (
        slopes.parameters.sum(axis=1)
        + 0.5 * np.where(widens, 0.0, slopes.second_parameters) @ posterior.variance
        + slopes.first_parameters @ (covariance @ pull)
    )
    modes = (pull, slopes.first)
    return Evidence(log_evidence, by_parameters, sites, posterior, n_steps, change <= tol, modes)


def mixture_evidence(
    likelihood: StudentT | Heteroscedastic | Repeated,
    y: np.ndarray,
    covariance: np.ndarray,
    parameters: np.ndarray,
    start: Sites | None = None,
    tol: float = MIXTURE_TOL,
) -> Evidence:
    r"""Return a lower bound of the evidence under noise whose precision is a Gamma variable for each sample.

    Scores and precisions are independent under the variational posterior. With the best distribution of the
    precisions the bound is :math:`\sum_i \log p(r_i^2) - KL`, where :math:`r_i^2 = E[(y_i - f_i)^2]` and `KL` is the
    divergence of the scores from their prior; it is stationary in the sites, and these are always positive, where
    those of the mode are not (Tipping and Lawrence 2005, Variational inference for Student-t models).
    """
    each, fields, counts = of_one_copy(likelihood, y)  # below are sites of a sample that counts once
    noise: Any = each
    number, own = fields, parameters
    if isinstance(each, Heteroscedastic):
        noise, number, own = each.likelihood, fields[0], each.of_samples(fields, parameters)
    nothing = np.zeros(len(covariance))
    if start is None:
        precision = -noise.derivatives(nothing, nothing, own).second
        sites = Sites(precision, precision * number)
    else:
        sites = start.power(1.0 / counts)
    posterior, n_steps = None, 1
    while True:
        posterior = condition(covariance, sites.power(counts), posterior)
        square = (number - posterior.mean) ** 2 + posterior.variance
        distance = np.sqrt(square)
        precision = noise.derivatives(distance, nothing, own).first / distance
        change = (np.abs(precision - sites.precision) * posterior.variance).max()
        if not (change > tol and n_steps < MAX_STEPS):
            break
        sites, n_steps = Sites(precision, precision * number), n_steps + 1
    every = sites.power(counts)
    divergence = posterior.half_log_det + 0.5 * (
        posterior.mean @ posterior.dual - every.precision @ posterior.variance
    )
    bound = (counts * noise.log_density_of_square(square, own)).sum() - divergence
    by_samples = counts * noise.parameter_slopes_of_square(square, own)
    if isinstance(each, Heteroscedastic):
        by_samples = each.pull(fields, by_samples)
    by_parameters = by_samples.sum(axis=1)
    return Evidence(bound, by_parameters, every, posterior, n_steps, change <= tol)


def student_evidence(
    likelihood: StudentT | Heteroscedastic | Repeated,
    y: np.ndarray,
    covariance: np.ndarray,
    parameters: np.ndarray,
    start: Sites | None = None,
    tol: float = EP_TOL,
) -> Evidence:
    """Return the evidence of expectation propagation under Student t noise, which is not log-concave.

    It always starts near the sites of the bound and ignores `start`. From other sites it may end at another fixed
    point, whose evidence is wrong by many nats. The bound itself is no substitute: it is the looser the heavier the
    tails are, so that degrees of freedom and scale of the noise come out too large. The gradient is a few percent
    off where outliers have sites without a precision; draws are weighted by the evidence, which does not use it.
    Where expectation propagation does not converge its evidence may be anything, and the bound takes its place.
    """
    near = mixture_evidence(likelihood, y, covariance, parameters, tol=NEAR_BOUND)
    found = ep_evidence(likelihood, y, covariance, parameters, near.sites, tol)
    if found.converged:
        return found
    return near._replace(converged=found.converged, n_steps=found.n_steps, updated=found.updated)


def _follow(
    posterior: Conditioned, covariance: np.ndarray, vector: np.ndarray, curvature: np.ndarray
) -> np.ndarray:
    r"""Return :math:`(I + W C)^{-1} v`, by which a mode follows, with the curvature `W` of the densities themselves.

    Those that widen the score at the mode have a negative one, and a site without width.
    """
    if (curvature < 0.0).any():
        return np.linalg.solve(plus_diagonal(curvature[:, None] * covariance, 1.0), vector)
    return posterior.remain(vector)


def _flat(sites: Sites) -> np.ndarray:
    """Return sites as the vector that is accelerated, in which precisions stay positive."""
    return np.concatenate([np.log(np.maximum(sites.precision, LEAST_PRECISION)), sites.linear])
