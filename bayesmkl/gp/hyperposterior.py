r"""Posterior of hyperparameters, and draws by adaptive importance sampling.

Everything happens in the coordinates of `bayesmkl.gp.hyperpriors`, in which the prior is N(0, I) and the
log posterior is

.. math:: \log p(u \mid y) = \log p(y \mid w(u), \phi(u)) - \tfrac12 u^\top u + \text{const} .

Draws come from multivariate t densities, the first around the mode with the curvature there, each further one
with mean and covariance of all draws so far. They are quasi-random, which makes posterior means about half as noisy.
Every draw is weighted by the mixture of all densities that were drawn from, and the weights are Pareto smoothed;
their `k` says whether so many draws are enough.

Of many coordinates with widths among them, the first density is not that around the mode, which may have little of
the mass, but the one whose slopes are those of the log posterior where it draws (Cai et al. 2024).

Of many kernels the curvature at the mode is the expected one, the Fisher information of their weights. It is `F F'`
with few columns, beside the prior's one: data that are few tell few directions from each other. They are found by a
randomized eigendecomposition (Halko, Martinsson and Tropp 2011), which takes products of the information with some
directions alone: one sum of all kernels for each, and a Frobenius product with all.

References
----------
Cai, D., Modi, C., Pillaud-Vivien, L., Margossian, C. C., Gower, R. M., Blei, D. M. and Saul, L. K. (2024). Batch and
match: black-box variational inference with a score-based divergence. ICML.

Giordano, R., Ingram, M. and Broderick, T. (2024). Black box variational inference with a deterministic objective:
faster, more accurate, and even more black box. JMLR 25(18).

Halko, N., Martinsson, P.-G. and Tropp, J. A. (2011). Finding structure with randomness: probabilistic algorithms for
constructing approximate matrix decompositions. SIAM Review 53, 217-288.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import logsumexp, ndtri
from scipy.stats import chi2, multivariate_t, qmc

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.psis import smooth_weights
from bayesmkl.gp.conditioning import Conditioned, Sites
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.evidence import Evidence, Height, exact_evidence, exact_height
from bayesmkl.gp.hyperpriors import WeightPrior, WithDesign
from bayesmkl.gp.landmarks import Remainder
from bayesmkl.outcomes.base import Likelihood

LEAST_COV = 1e-3  # of a coordinate, in later rounds
DRAWS_PER_COORDINATE = 20.0  # effective ones that moments take to be half trusted
LEAST_DF = 12.0  # of the densities that are drawn from
EDGE = 1e-12  # of the unit cube, where a normal quantile is not finite
DF_PER_COORDINATE = (
    0.75  # with fewer, the scale that all coordinates have in common varies more than their density
)


class Proposal(NamedTuple):
    """A multivariate t density."""

    mean: np.ndarray
    cov: np.ndarray

    @property
    def df(self) -> float:
        """Degrees of freedom."""
        return max(LEAST_DF, DF_PER_COORDINATE * len(self.mean))

    def log_density(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the log density at some coordinates, (n_draws, n_coordinates)."""
        if not len(self.mean):  # the data say nothing in any direction
            return np.zeros(len(coordinates))
        return np.atleast_1d(multivariate_t.logpdf(coordinates, self.mean, self.cov, self.df))

    def sequence(self, rng: np.random.Generator) -> qmc.Sobol:
        """Return scrambled Sobol points, which this density and those adapted from it draw by, one by one."""
        return qmc.Sobol(len(self.mean) + 1, seed=rng)

    def draw(self, n_draws: int, rng: np.random.Generator, sequence: qmc.Sobol) -> np.ndarray:
        """Draw by the next points of a sequence, one coordinate of which is that of the scale; closest first."""
        cube = sequence.random(2 ** max(n_draws - 1, 0).bit_length())[:n_draws]
        cube = np.clip(cube, EDGE, 1.0 - EDGE)
        scale = np.sqrt(chi2.ppf(cube[:, -1:], self.df) / self.df)
        steps = ndtri(cube[:, :-1]) @ np.linalg.cholesky(self.cov).T / scale
        return self.mean + steps[np.argsort((steps**2).sum(axis=1))]

    def adapted(self, coordinates: np.ndarray, weights: np.ndarray) -> Proposal:
        """Return the density with the moments of weighted draws, or as near to it as so many draws are good for."""
        ess, mean = 1.0 / (weights**2).sum(), weights @ coordinates
        around = coordinates - mean
        least = np.minimum(LEAST_COV, np.diag(self.cov))  # of many samples little is left of the noise's
        cov = (around * weights[:, None]).T @ around + np.diag(least)
        trust = ess / (ess + DRAWS_PER_COORDINATE * len(mean))
        return self._replace(
            mean=self.mean + trust * (mean - self.mean), cov=self.cov + trust * (cov - self.cov)
        )

    def matched(self, coordinates: np.ndarray, slopes: np.ndarray, rate: float) -> Proposal:
        r"""Return the density whose slopes are next to those of the posterior, or a step of this `rate` towards it.

        The closed form is that of algorithm 1 of Cai et al. (2024): :math:`\Sigma U \Sigma + \Sigma = V`.

        Parameters
        ----------
        coordinates : ndarray of shape (n_draws, n_coordinates)
            Draws from this density as a normal one.
        slopes : ndarray of shape (n_draws, n_coordinates)
            Of the log posterior there.
        rate : float
        """
        share, center, slope = rate / (1.0 + rate), coordinates.mean(axis=0), slopes.mean(axis=0)
        of_slopes = rate * np.cov(slopes.T, bias=True) + share * np.outer(slope, slope)
        off = self.mean - center
        spread = rate * np.cov(coordinates.T, bias=True) + share * np.outer(off, off)
        lower = np.linalg.cholesky(self.cov + spread)
        values, vectors = np.linalg.eigh(lower.T @ of_slopes @ lower)
        half = lower @ vectors * np.sqrt(2.0 / (1.0 + np.sqrt(1.0 + 4.0 * np.maximum(values, 0.0))))
        cov = half @ half.T
        return self._replace(mean=self.mean + share * (cov @ slope - off), cov=cov)


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
        return cls(mean - basis @ center, basis, Proposal(center, np.diag(variances)))

    def log_density(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the log density at some coordinates, (n_draws, n_coordinates)."""
        n_outside, variance = self.basis.shape[0] - self.basis.shape[1], self.scale**2
        log_height = -0.5 * n_outside * np.log(2.0 * np.pi * variance)
        inside = self.within.log_density(coordinates @ self.basis)
        return inside + log_height - 0.5 * self._squares(coordinates) / variance

    def sequence(self, rng: np.random.Generator) -> qmc.Sobol:
        """Return points to draw by in the span."""
        return self.within.sequence(rng)

    def draw(self, n_draws: int, rng: np.random.Generator, sequence: qmc.Sobol) -> np.ndarray:
        """Draw by Sobol points in the span, the closest first, and by chance outside of it."""
        inside = self.within.draw(n_draws, rng, sequence)
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


N_DIRECTIONS = 64  # that the information is multiplied by
N_PRODUCTS = 2  # with each of them
STEP = 1e-3  # of differences of weights
NOTABLE = 0.05  # curvature beside the prior's one; what is less is left to the importance weights
LEAST = 1e-10  # of the largest eigenvalue, below which there is nothing


def expected_factors(
    covariance: Additive,
    weights: np.ndarray,
    prior: WeightPrior,
    coordinates: np.ndarray,
    posteriors: Sequence[Conditioned],
) -> np.ndarray:
    """Return `F` with `F F'` what the expected curvature is above the prior's one, (n_coordinates, n_factors).

    Parameters
    ----------
    covariance : Additive
    weights : ndarray of shape (n_weights,)
        As it takes them.
    prior : WeightPrior
        Of the weights of kernels alone.
    coordinates : ndarray of shape (n_coordinates,)
        Those of these weights.
    posteriors : sequence of Conditioned
        Scores of every output there.

    Notes
    -----
    What is not found is below the smallest eigenvalue that is, and is that of directions of which the data say less.
    """
    n_kernels = covariance.stack.n_kernels
    mapped = prior.weights(coordinates)
    n_directions = min(N_DIRECTIONS, len(coordinates))
    directions = np.random.default_rng(0).standard_normal((n_directions, len(coordinates)))
    product = directions
    for _ in range(N_PRODUCTS):
        directions = np.linalg.qr(product.T)[0].T
        ahead, back = (
            np.array([prior.weights(coordinates + step * own).values for own in directions])
            for step in (STEP, -STEP)
        )
        moved = (ahead - back) / (2.0 * STEP)
        informed = np.zeros((n_directions, n_kernels))
        for posterior in posteriors:
            within = posterior.root[:, None] * posterior.inverse_root
            informed += covariance.informed(weights, within, moved)
        product = np.array([mapped.pull(own) for own in informed])
    values, vectors = np.linalg.eigh(0.5 * (directions @ product.T + product @ directions.T))
    kept = values > LEAST * max(values.max(), 1e-300)
    return product.T @ (vectors[:, kept] / np.sqrt(values[kept]))


class Spread(NamedTuple):
    """A covariance that is one but in the span of a few orthogonal directions.

    Attributes
    ----------
    basis : ndarray of shape (n_coordinates, n_directions)
        Orthonormal columns.
    variances : ndarray of shape (n_directions,)
    """

    basis: np.ndarray
    variances: np.ndarray

    def matrix(self) -> np.ndarray:
        """Return the covariance, (n_coordinates, n_coordinates)."""
        return np.eye(len(self.basis)) + (self.basis * (self.variances - 1.0)) @ self.basis.T


def spread_of(factors: np.ndarray, rest: np.ndarray, least: float) -> Spread:
    """Return the inverse of a curvature: by factors of the first coordinates, by its columns of the last ones.

    Parameters
    ----------
    factors : ndarray of shape (n_first, n_factors)
        `F` with `F F'` what the curvature of the first coordinates is above one.
    rest : ndarray of shape (n_coordinates, n_rest)
        Its columns of the last coordinates.
    least : float
        The smallest curvature there may be.
    """
    n_first, n_coordinates = len(factors), len(rest)
    above = rest.copy()
    above[n_first:] -= np.eye(rest.shape[1])
    above[n_first:] = 0.5 * (above[n_first:] + above[n_first:].T)
    n_rest = n_coordinates - n_first
    spanned = np.zeros((n_coordinates, factors.shape[1] + 2 * n_rest))
    spanned[:n_first, : -n_rest or None] = np.hstack([factors, above[:n_first]])
    spanned[n_first:, spanned.shape[1] - n_rest :] = np.eye(n_rest)
    basis = np.linalg.qr(spanned)[0]
    inner = factors.T @ basis[:n_first]
    product = above @ basis[n_first:]
    product[:n_first] += factors @ inner
    product[n_first:] += above[:n_first].T @ basis[:n_first]
    values, vectors = np.linalg.eigh(basis.T @ product)
    kept = np.abs(values) > NOTABLE
    return Spread(basis @ vectors[:, kept], 1.0 / np.maximum(1.0 + values[kept], least))


MANY = 200  # coordinates, beyond which the curvature of weights is expected, in few directions
SEVERAL = 8  # kernels, which are read once for several covariances of scores
MATRIX_ENTRIES = 2**23  # of these, 64 MB
CLOSE = 1e-4  # tolerance of sites on the way to the mode
LOOSE = 6e-2  # tolerance of sites for an evidence without gradient: what it lacks counts squared
ROOM = 2**28  # bytes of factors that are kept
ROUND = 64  # draws from one density
FEWEST = 64  # draws that a Pareto distribution and an error are read from
MOST_OF_CHAINS = 1000  # hyperparameters, beyond which there are no chains
GOOD_K = 0.5  # k-hat below which the tail has a variance
LARGEST_K = 0.7  # k-hat of importance weights that can be relied on
EFFICIENT = 0.5  # of draws that are worth many
HOPELESS_DRAWS = 10.0  # effective ones below which a k-hat of one is no accident
HOPELESS_K = 1.0  # k-hat from which on weights have no mean, so that more of them are as bad
LARGEST_RHAT = 1.05  # of chains that are short, and start where they belong
FIXED, STEPS, FEW_STEPS = 8, 30, 15  # normal numbers and steps of the climb with independent densities
WIDEST = 2.0  # log standard deviation of these, where the prior has zero
BATCH, PER_COORDINATE, RATE = 32, 12, 0.03  # of the fit to slopes of the log posterior
WIDER = 1.2  # covariance of the first density than that of the curvature
LEAST_DRAWS = 40.0  # effective ones
ENDS = (0.03, 0.97)  # probabilities below the ends of intervals
UNTOLD = 0.1  # of squared distances in directions of which the data say nothing
SMOOTHER = 0.6  # errors of shares of scores than those of prior variances: draws at a point differ
MOST_UNKNOWN = 0.01  # weight of points whose evidence is not known


class Hypermodel(NamedTuple):
    """All that is not inferred.

    Attributes
    ----------
    covariance : Additive
    likelihood : Likelihood
    targets : ndarray of shape (n_outputs, n_samples) or (n_outputs, n_fields, n_samples)
        Labels -1 and +1, or numbers. Outputs share the kernel weights; each has parameters of the likelihood of
        its own.
    weight_prior : WeightPrior
    parameter_prior : ParameterPriors
        Or what a model that maps coordinates to parameters itself reads.
    evidence : callable
        `exact_evidence`, `ep_evidence`, `laplace_evidence` or `student_evidence`.
    remainder : Remainder, optional
        What the evidence lacks where samples are pseudo-samples.
    power : float
        Of the evidence of all outputs; below one where these are classes and share their labels.
    """

    covariance: Additive
    likelihood: Likelihood
    targets: np.ndarray
    weight_prior: WeightPrior
    parameter_prior: Any
    evidence: Callable[..., Evidence]
    remainder: Remainder | None = None
    power: float = 1.0

    @property
    def kernel_prior(self) -> Any:
        """Prior of the kernel weights alone, without what a design has beside them."""
        prior = self.weight_prior
        return prior.kernel_prior if isinstance(prior, WithDesign) else prior

    def with_kernel_prior(self, prior: WeightPrior) -> Hypermodel:
        """Return the model with another prior of the kernel weights; what a design has stays."""
        whole = self.weight_prior
        return self._replace(
            weight_prior=whole._replace(kernel_prior=prior) if isinstance(whole, WithDesign) else prior
        )

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
        return self.weights(coordinates), self.parameters(coordinates)

    def weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Return kernel weights, and what a design has beside them."""
        return self.weight_prior.weights(coordinates[: self.n_weights]).values

    def parameters(self, coordinates: np.ndarray) -> np.ndarray:
        """Return parameters of the likelihood, (n_outputs, n_parameters)."""
        found: np.ndarray = self.parameter_prior.parameters(self._of_outputs(coordinates)).values
        return found

    def _of_outputs(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the coordinates of the parameters of every output, (n_outputs, n_parameters)."""
        return coordinates[self.n_weights :].reshape(len(self.targets), len(self.likelihood.names))

    def pull(self, coordinates: np.ndarray, by_weights: np.ndarray, by_parameters: np.ndarray) -> np.ndarray:
        """Pull a gradient by what `values` returns back to the coordinates."""
        weights = self.weight_prior.weights(coordinates[: self.n_weights])
        parameters = self.parameter_prior.parameters(self._of_outputs(coordinates))
        return np.concatenate([weights.pull(by_weights), parameters.pull(by_parameters).ravel()])

    def log_prior(self, coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        r"""Return the log prior density and its gradient, the density without :math:`(2 \pi)^{-d/2}`."""
        return -0.5 * float(coordinates @ coordinates), -coordinates


class Point(NamedTuple):
    """Log posterior and log evidence at some coordinates, with sites of every output to start from.

    `found` is what these are of, kept while there is room; else None.
    """

    log_density: float
    log_evidence: float
    sites: tuple[Sites, ...]
    converged: bool
    found: tuple[Evidence | Height, ...] | None = None


class Mode(NamedTuple):
    """The most probable coordinates, the inverse of the curvature there, and how many evaluations that took.

    Or the mean and covariance of a normal density next to the posterior, see `gather`. Of more than 200 coordinates
    the covariance is a `Spread`.
    """

    coordinates: np.ndarray
    cov: Any
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
        Of the model in nats, hyperparameters integrated out; NaN of chains.
    pareto_k : float
        :math:`\hat k` of the weights before smoothing; NaN of chains.
    ess : float
        Effective number of draws: :math:`1 / \sum_j w_j^2`, or the smallest of all coordinates of chains.
    rhat : float
        The largest :math:`\hat R` of all coordinates; NaN where there are not several chains.
    included : bool ndarray of shape (n_chains, n_sweeps, n_kernels)
        Which kernels are in after every sweep of chains over sets of kernels; else empty.
    """

    coordinates: np.ndarray
    weights: np.ndarray
    points: tuple[Point, ...]
    log_evidence: float
    pareto_k: float
    ess: float
    rhat: float = np.nan
    included: np.ndarray = np.empty((0, 0, 0), dtype=bool)

    @property
    def unconverged(self) -> float:
        """Weight of the draws whose sites did not converge, so that their evidence is not to be believed."""
        return float(self.weights @ [not point.converged for point in self.points])

    @property
    def are_chains(self) -> bool:
        """Whether they are not importance draws, which know the evidence of the model."""
        return bool(np.isnan(self.log_evidence))

    @property
    def outcome(self) -> Outcome:
        """How drawing ended: whether chains agree, or weights have a light tail, and draws are worth enough."""
        enough = self.ess >= LEAST_DRAWS
        if self.are_chains:
            return Outcome.MIXED if enough and not self.rhat > LARGEST_RHAT else Outcome.NOT_MIXED
        return Outcome.WEIGHTED if enough and self.pareto_k <= LARGEST_K else Outcome.NOT_WEIGHTED

    @property
    def converged(self) -> bool:
        """Whether drawing ended well, and the evidence of nearly all draws is known."""
        return self.outcome.converged and self.unconverged < MOST_UNKNOWN

    def advice(self, drawn: str, smaller: str) -> str | None:
        """Return what to do about these draws of what is `drawn`, or None if all went well.

        `smaller`, scale or rate, is what a prior should have where the evidence is not known.
        """
        n_draws = len(self.weights)
        if self.outcome is Outcome.NOT_MIXED:
            return (
                f"finished before the chains of its {drawn} agreed: the largest R-hat is {self.rhat:.3f} (at most "
                f"{LARGEST_RHAT}), and {n_draws} draws are worth {np.floor(self.ess):.0f} (at least "
                f"{LEAST_DRAWS:.0f}). Increase `n_points` of `inference`, or its `n_warmup`."
            )
        if not self.outcome.converged:
            return (
                f"could not sample its {drawn} reliably: k-hat is {self.pareto_k:.2f} (at most {LARGEST_K}), and "
                f"{n_draws} points are worth {np.floor(self.ess):.0f} draws (at least {LEAST_DRAWS:.0f}), so "
                f"intervals are unreliable. {remedy_of_weights(self.pareto_k, self.coordinates.shape[1])}"
            )
        if not self.converged:
            return (
                f"could not compute the evidence for {100 * self.unconverged:.0f} % of its posterior, because "
                'expectation propagation did not converge there. Use approximation="laplace" in `inference`, or a '
                f"`kernel_prior` with a smaller {smaller}."
            )
        return None


def remedy_of_weights(pareto_k: float, n_coordinates: int = 0) -> str:
    """Say what to do about importance weights whose tail is too heavy, or that are too few.

    Examples
    --------
    >>> remedy_of_weights(0.8)
    'Increase `n_points` of `inference`: four times as many are usually enough.'
    """
    if pareto_k < HOPELESS_K:
        return "Increase `n_points` of `inference`: four times as many are usually enough."
    if n_coordinates > MOST_OF_CHAINS:
        return (
            "Compare fits of several seeds, or use fewer kernels: with a k-hat of 1, more points do not help."
        )
    return 'Use sampler="nuts" of `inference`: with a k-hat of 1 or more, more points do not help.'


def covariance_matrices(model: Hypermodel, weights: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the covariance of the training scores at some weights; many kernels are read once for several.

    Parameters
    ----------
    model : Hypermodel
    weights : ndarray of shape (n, n_weights)
        See `Hypermodel.values`.
    """
    stack = model.covariance.stack
    few = stack.n_kernels < SEVERAL or stack.learned or stack.n_train**2 * 2 > MATRIX_ENTRIES
    step = 1 if few else MATRIX_ENTRIES // stack.n_train**2
    for first in range(0, len(weights), step):
        own = weights[first] if few else weights[first : first + step]
        with np.errstate(all="ignore"):
            yield from [model.covariance.matrix(own)] if few else model.covariance.matrix(own)


def evaluate(
    model: Hypermodel,
    coordinates: np.ndarray,
    start: tuple[Sites, ...] | None,
    matrix: np.ndarray | None = None,
    **tol: float,
) -> tuple[Point, list[Evidence]]:
    """Return the log posterior, and the evidence of every output that it is made of.

    Parameters
    ----------
    model : Hypermodel
    coordinates : ndarray of shape (n_coordinates,)
    start : tuple of Sites, optional
        Of a point nearby.
    matrix : ndarray of shape (n_samples, n_samples), optional
        Covariance at the coordinates, if it is known.
    **tol : float
        Tolerance of the sites, `tol`; the default is that of the evidence.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where weights are so large that no digits are left.
    """
    matrix = _matrix_of(model, model.weights(coordinates)) if matrix is None else matrix
    return _point_of(model, coordinates, matrix, start, model.evidence, tol)


def evaluate_height(
    model: Hypermodel,
    coordinates: np.ndarray,
    start: tuple[Sites, ...] | None,
    matrix: np.ndarray | None = None,
    spare: bool = False,
    **tol: float,
) -> tuple[Point, list[Evidence | Height]]:
    """Do what `evaluate` does, without what gradients are made of.

    `matrix` is the covariance at the coordinates, if it is known, and overwritten if it is `spare`.
    """
    evidence = exact_height if model.evidence is exact_evidence else model.evidence
    options = tol | _of_memory(model, matrix is None or spare)
    matrix = _matrix_of(model, model.weights(coordinates)) if matrix is None else matrix
    return _point_of(model, coordinates, matrix, start, evidence, options)


def _matrix_of(model: Hypermodel, weights: np.ndarray) -> np.ndarray:
    """Return the covariance of the training scores, without warnings where weights are too large for it."""
    with np.errstate(all="ignore"):
        return model.covariance.matrix(weights)


def _of_memory(model: Hypermodel, spare: bool) -> dict[str, Any]:
    """Return the option to overwrite a covariance that is `spare`, of those evidences that need it once."""
    return {"overwrite": spare and len(model.targets) == 1} if model.evidence is exact_evidence else {}


def _point_of(
    model: Hypermodel,
    coordinates: np.ndarray,
    matrix: np.ndarray,
    start: tuple[Sites, ...] | None,
    evidence: Callable[..., Any],
    options: dict[str, Any],
) -> tuple[Point, list[Any]]:
    parameters = model.parameters(coordinates)
    try:
        with np.errstate(all="ignore"):
            found = [
                evidence(model.likelihood, y, matrix, own, None if start is None else start[k], **options)
                for k, (y, own) in enumerate(zip(model.targets, parameters, strict=True))
            ]
    except np.linalg.LinAlgError:
        if start is None or options.get("overwrite"):
            raise
        return _point_of(model, coordinates, matrix, None, evidence, options)
    log_evidence = float(sum(output.log_evidence for output in found))
    converged = all(output.converged for output in found)
    astray = not (converged and np.isfinite(log_evidence))
    if astray and start is not None and evidence is not exact_height:  # other sites may lead there
        return _point_of(model, coordinates, matrix, None, evidence, options)
    if model.remainder is not None:
        log_evidence += model.remainder(model.weights(coordinates), parameters)[0]
    if not np.isfinite(log_evidence):
        raise np.linalg.LinAlgError("the evidence is not finite")
    log_evidence *= model.power
    log_density = log_evidence + model.log_prior(coordinates)[0]
    sites = tuple(output.sites if output.updated is None else output.updated for output in found)
    return Point(log_density, log_evidence, sites, converged), found


def evaluate_slope(
    model: Hypermodel, coordinates: np.ndarray, start: tuple[Sites, ...] | None, **tol: float
) -> tuple[Point, np.ndarray]:
    """Return the log posterior and its gradient; see `evaluate`."""
    weights, options = model.weights(coordinates), tol | _of_memory(model, True)
    matrix = _matrix_of(model, weights)
    point, found = _point_of(model, coordinates, matrix, start, model.evidence, options)
    adjoint, *more = (output.by_covariance(overwrite=True) for output in found)
    for other in more:
        adjoint += other
    by_weights = model.covariance.pull(weights, adjoint)
    by_parameters = np.stack([output.by_parameters for output in found])
    if model.remainder is not None:
        _, of_weights, of_parameters = model.remainder(weights, model.parameters(coordinates))
        by_weights, by_parameters = by_weights + of_weights, by_parameters + of_parameters
    slope = model.power * model.pull(coordinates, by_weights, by_parameters)
    return point, slope + model.log_prior(coordinates)[1]


def draw_importance(
    model: Hypermodel,
    mode: Mode,
    n_draws: int,
    rng: np.random.Generator,
    report: Callable[[int, str], None] | None = None,
    share_mcse: float = 0.0,
) -> Draws:
    """Draw from t densities that adapt to the posterior, and weight by the mixture of them all.

    Fewer draws are the first of more: each 64 are from a density of their own, by the next points of one sequence.

    Parameters
    ----------
    model : Hypermodel
    mode : Mode
        The first density is around it.
    n_draws : int
        At most so many while `share_mcse` is not reached; up to twice as many while k-hat is above one half, or .7
        where it is reached or draws are worth more than half of their number, or they are worth less than 50. Not
        where k-hat is above one and they are worth less than 10, unless they are those of many kernels.
    rng : numpy.random.Generator
    report : callable, optional
        Is told how many draws there are, and what their weights are like.
    share_mcse : float
        Monte Carlo error of shares and of the ends of their intervals that is small enough, see `share_error`.
    """
    density: Any
    if isinstance(mode.cov, Spread):
        density = WideProposal.around(mode.coordinates, mode.cov.basis, WIDER * mode.cov.variances)
        metric = None
    else:
        density, metric = Proposal(mode.coordinates, WIDER * mode.cov), _metric(mode.cov)
    sequence, proposals, sizes = density.sequence(rng), [], []
    coordinates = np.empty((0, len(mode.coordinates)))
    shares: list[np.ndarray] = []
    points: list[Point] = []
    drawn_at: list[float] = []  # log densities of draws by what they were drawn from
    pareto_k, ess, error, room = np.inf, 0.0, np.inf, ROOM

    def enough() -> bool:
        n_drawn = len(points)
        # weights that differ so little may look heavy-tailed by chance
        few_differ = ess >= EFFICIENT * n_drawn or (n_drawn >= n_draws and error < share_mcse)
        known = pareto_k < (LARGEST_K if few_differ else GOOD_K) and ess >= LEAST_DRAWS
        if n_drawn < n_draws:
            return n_drawn >= FEWEST and known and error < share_mcse
        hopeless = pareto_k >= HOPELESS_K and ess < HOPELESS_DRAWS and metric is not None
        return known or hopeless or n_drawn >= 2 * n_draws

    while not enough():
        left = n_draws - len(points)
        new = density.draw(min(ROUND, left if left > 0 else left + n_draws), rng, sequence)
        drawn_at.extend(density.log_density(new))
        proposals.append(density)
        sizes.append(len(new))
        coordinates = np.vstack([coordinates, new])
        of_kernels = np.array([model.weights(u) for u in new])
        shares.append(_prior_shares(model, of_kernels))
        for u, matrix in zip(new, covariance_matrices(model, of_kernels), strict=True):
            near = _nearest(u, coordinates[: len(points)], points, mode, metric)
            try:
                point, found = evaluate_height(model, u, near.sites, matrix, spare=True, tol=LOOSE)
                room -= len(found) * matrix.nbytes
                points.append(point._replace(found=tuple(found)) if room >= 0 else point)
            except np.linalg.LinAlgError:
                points.append(Point(-np.inf, -np.inf, near.sites, False))
            if report is not None:
                report(len(points), "")
        mixture = logsumexp(
            [of.log_density(coordinates) for of in proposals], axis=0, b=np.array(sizes)[:, None]
        ) - np.log(len(points))
        log_density = np.array([point.log_density for point in points])
        log_ratios = log_density - mixture
        log_weights, shape = smooth_weights(log_ratios)
        pareto_k = float(shape)
        weights = np.exp(log_weights - logsumexp(log_weights))
        ess = float(1.0 / (weights**2).sum())
        error = SMOOTHER * share_error(np.vstack(shares), weights)
        density = density.adapted(coordinates, weights)
    of_prior = -0.5 * coordinates.shape[1] * np.log(2.0 * np.pi)  # which the log posterior leaves out
    # later densities were fitted to earlier draws and are too high there: the evidence takes each draw's own one
    log_evidence = float(logsumexp(log_density - drawn_at) - np.log(len(points)) + of_prior)
    return Draws(coordinates, weights, tuple(points), log_evidence, pareto_k, ess)


class Slopes:
    """Slopes of a log posterior, with sites of the latest point to start from."""

    def __init__(self, model: Hypermodel, sites: tuple[Sites, ...] | None) -> None:
        self.model, self.sites, self.n_evaluations = model, sites, 0

    def at(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log posteriors at some coordinates, minus infinity where they are not known, and their slopes."""
        heights, slopes = np.full(len(coordinates), -np.inf), np.zeros_like(coordinates)
        for i, u in enumerate(coordinates):
            self.n_evaluations += 1
            try:
                point, slopes[i] = evaluate_slope(self.model, u, self.sites, tol=CLOSE)
                heights[i], self.sites = point.log_density, point.sites
            except np.linalg.LinAlgError:
                continue
        return heights, slopes


def climb_bound(
    of_model: Slopes, mean: np.ndarray, sds: np.ndarray, rng: np.random.Generator, n_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return means and standard deviations of independent normal densities that have most of the posterior's mass.

    They climb the lower bound of the evidence, with the same few standard normal numbers throughout (Giordano, Ingram
    and Broderick 2024):

    .. math:: \max_{m, s} \frac1n \sum_i \log p(m + s \circ z_i \mid y) + \sum_j \log s_j .

    Of many coordinates the mode may be that of a function which follows the noise: high and narrow, with little mass.
    """
    size = len(mean)
    normal = ndtri(np.clip(qmc.Sobol(size, seed=rng).random(FIXED), EDGE, 1.0 - EDGE))

    def bound(at: np.ndarray) -> tuple[float, np.ndarray]:
        sds = np.exp(at[size:])
        heights, slopes = of_model.at(at[:size] + sds * normal)
        gradient = np.concatenate([slopes.mean(axis=0), (slopes * normal).mean(axis=0) * sds + 1.0])
        return -float(heights.mean() + at[size:].sum()), -gradient

    start, options = np.concatenate([mean, np.log(sds)]), {"maxiter": n_steps}
    bounds = [(None, None)] * size + [(None, WIDEST)] * size
    found = optimize.minimize(bound, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return found[:size], np.exp(found[size:])


def gather(model: Hypermodel, mode: Mode, rng: np.random.Generator) -> Mode:
    """Return a normal density next to the posterior where its mass is, in place of the one around the mode.

    Beginning with independent densities, mean and covariance are fitted to slopes of the log posterior at their own
    draws.

    Parameters
    ----------
    model : Hypermodel
    mode : Mode
        Where the climb begins.
    rng : numpy.random.Generator
    """
    size, of_model = len(mode.coordinates), Slopes(model, mode.point.sites)
    mean, sds = climb_bound(of_model, mode.coordinates, np.sqrt(np.diag(mode.cov)), rng, STEPS)
    density = Proposal(mean, np.diag(sds**2))
    for k in range(-(-PER_COORDINATE * size // BATCH)):
        lower = np.linalg.cholesky(density.cov)
        drawn = density.mean + rng.standard_normal((BATCH, size)) @ lower.T
        heights, slopes = of_model.at(drawn)
        known = np.isfinite(heights)
        if known.sum() < BATCH // 2:
            break
        density = density.matched(drawn[known], slopes[known], RATE * drawn.size / (k + 1.0))
    n_evaluations = mode.n_evaluations + of_model.n_evaluations
    try:
        point, _ = evaluate_height(model, density.mean, of_model.sites)
    except np.linalg.LinAlgError:
        return mode._replace(n_evaluations=n_evaluations)
    return Mode(density.mean, density.cov, point, n_evaluations + 1, mode.converged)


def share_error(shares: np.ndarray, weights: np.ndarray, point: np.ndarray | None = None) -> float:
    """Return the largest Monte Carlo error of means of shares and of the ends of their intervals of 94 %.

    It is that of independent points with these weights, of which quasi-random ones have half to all. An end is as
    uncertain as the probability below it.

    Parameters
    ----------
    shares : ndarray of shape (n_draws, n_shares)
    weights : ndarray of shape (n_draws,)
        They sum to one.
    point : ndarray of int, of shape (n_draws,), optional
        To which point a draw belongs. None: each to its own.

    Examples
    --------
    >>> shares = np.linspace(0.0, 1.0, 101)[:, None]
    >>> round(share_error(shares, np.full(101, 1.0 / 101)), 3)  # the mean's; the ends have 0.017
    0.029
    """

    def sd(around: np.ndarray) -> float:
        own = weights * around
        return float(np.linalg.norm(own if point is None else np.bincount(point, own)))

    largest = 0.0
    for own in shares.T:
        order = np.argsort(own)
        below, ordered = np.cumsum(weights[order]), own[order]
        largest = max(largest, sd(own - weights @ own))
        for level in ENDS:
            end = ordered[min(np.searchsorted(below, level), len(own) - 1)]
            step = sd((own <= end) - level)
            lower, upper = np.interp([level - step, level + step], below, ordered)
            largest = max(largest, 0.5 * float(upper - lower))
    return largest


def _prior_shares(model: Hypermodel, weights: np.ndarray) -> np.ndarray:
    """Return what groups of kernels have of the variance of scores under the prior, (n_draws, n_groups)."""
    squares = model.covariance.split(weights.T)[0].T ** 2
    shares: np.ndarray = squares / np.maximum(squares.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return shares @ members(model.kernel_prior, shares.shape[1])


def members(prior: Any, n_kernels: int) -> np.ndarray:
    """Return which kernels are of which group under a prior, mostly of views, (n_kernels, n_groups)."""
    group = getattr(getattr(prior, "kernel_prior", prior), "group", np.arange(n_kernels))
    return np.eye(int(group.max()) + 1)[group]


def equally_likely(weights: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw indices with given probabilities, systematically: each as often as it has draws, up or down to one.

    Examples
    --------
    >>> equally_likely(np.array([0.25, 0.75]), 4, np.random.default_rng(0))
    array([0, 1, 1, 1])
    """
    steps = (rng.random() + np.arange(n_draws)) / n_draws
    return np.minimum(np.searchsorted(np.cumsum(weights), steps), len(weights) - 1)


def _metric(cov: np.ndarray) -> np.ndarray:
    """Return the curvature above the prior's one, by which scores differ, and a little of the distance itself."""
    values, vectors = np.linalg.eigh(cov)
    found: np.ndarray = (vectors * (np.maximum(1.0 / values - 1.0, 0.0) + UNTOLD)) @ vectors.T
    return found


def _nearest(
    u: np.ndarray,
    coordinates: np.ndarray,
    points: list[Point],
    mode: Mode,
    metric: np.ndarray | None,
) -> Point:
    """Return the point whose scores are next to those of some coordinates; of many the latest."""
    if not points:
        return mode.point
    if metric is None:
        return points[-1]
    around = coordinates - u
    return points[int(np.argmin(np.vecdot(around @ metric, around)))]
