r"""Posterior of hyperparameters, and draws by adaptive importance sampling.

Everything happens in the coordinates of `bayesmkl.gp.hyperpriors`, in which the prior is N(0, I) and the
log posterior is

.. math:: \log p(u \mid y) = \log p(y \mid w(u), \phi(u)) - \tfrac12 u^\top u + \text{const} .

Draws come from multivariate t densities, the first around the mode with the curvature there, each further one
with mean and covariance of all draws so far. They are quasi-random, which makes posterior means about half as noisy.
Every draw is weighted by the mixture of all densities that were drawn from, and the weights are Pareto smoothed;
their `k` says whether so many draws are enough. Where u and -u are the same model, densities are those of draws with
either sign, and moments are taken on one side of the mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.psis import smooth_weights
from bayesmkl.gp.conditioning import Sites
from bayesmkl.gp.covariances import Covariance
from bayesmkl.gp.evidence import Evidence, Height, exact_evidence, exact_height
from bayesmkl.gp.hyperpriors import WeightPrior, WithDesign
from bayesmkl.gp.information import Spread
from bayesmkl.gp.landmarks import Remainder
from bayesmkl.gp.proposals import Proposal, WideProposal
from bayesmkl.outcomes.base import Likelihood

MANY = 200  # coordinates, beyond which the curvature of weights is expected, in few directions
MATRIX_ENTRIES = 2**23  # of covariances of scores that are made at once of more than 200 kernels, 64 MB
CLOSE = 1e-4  # tolerance of sites on the way to the mode
LOOSE = 3e-2  # tolerance of sites for an evidence without gradient: what it lacks counts squared
N_ROUNDS = 4  # densities that are drawn from, and as many again where their weights have a heavy tail
MOST_OF_CHAINS = 1000  # hyperparameters, beyond which there are no chains
GOOD_K = 0.5  # k-hat below which the tail has a variance
LARGEST_K = 0.7  # k-hat of importance weights that can be relied on
HOPELESS_K = 1.0  # k-hat from which on weights have no mean, so that more of them are as bad
LARGEST_RHAT = 1.05  # of chains that are short, and start where they belong
LEAST_DRAWS = 50.0  # effective ones
MOST_UNKNOWN = 0.01  # weight of points whose evidence is not known


class Hypermodel(NamedTuple):
    """All that is not inferred.

    Attributes
    ----------
    covariance : Covariance
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
    """

    covariance: Covariance
    likelihood: Likelihood
    targets: np.ndarray
    weight_prior: WeightPrior
    parameter_prior: Any
    evidence: Callable[..., Evidence]
    remainder: Remainder | None = None

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
        weights = self.weight_prior.weights(coordinates[: self.n_weights]).values
        return weights, self.parameters(coordinates)

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

    def mirror(self, coordinates: np.ndarray) -> np.ndarray | None:
        """Return coordinates that say the same of the data, those at -w for w, or None if there are none."""
        return None


class Point(NamedTuple):
    """Log posterior and log evidence at some coordinates, with the sites of every output."""

    log_density: float
    log_evidence: float
    sites: tuple[Sites, ...]
    converged: bool


class Mode(NamedTuple):
    """The most probable coordinates, the inverse of the curvature there, and how many evaluations that took.

    Of more than 200 coordinates that is a `Spread`, where parts of the score are independent.
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
    """

    coordinates: np.ndarray
    weights: np.ndarray
    points: tuple[Point, ...]
    log_evidence: float
    pareto_k: float
    ess: float
    rhat: float = np.nan

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
                f"finished with importance weights of a heavy tail: k-hat is {self.pareto_k:.2f} (at most "
                f"{LARGEST_K}), and {n_draws} points are worth {np.floor(self.ess):.0f} draws (at least "
                f"{LEAST_DRAWS:.0f}). {remedy_of_weights(self.pareto_k, self.coordinates.shape[1])}"
            )
        if not self.converged:
            return (
                f"does not know the evidence of {100 * self.unconverged:.0f} % of its posterior, where expectation "
                'propagation did not converge. Use approximation="laplace" in `inference`, or a `kernel_prior` with '
                f"a smaller {smaller}."
            )
        return None


def remedy_of_weights(pareto_k: float, n_coordinates: int = 0) -> str:
    """Say what to do about importance weights whose tail is too heavy, or that are too few.

    Examples
    --------
    >>> remedy_of_weights(0.8)
    'Increase `n_points` of `inference`: four times as many are mostly enough.'
    """
    if pareto_k < HOPELESS_K:
        return "Increase `n_points` of `inference`: four times as many are mostly enough."
    if n_coordinates > MOST_OF_CHAINS:
        return (
            "Compare fits of several seeds, or use fewer kernels: with a k-hat of 1, more points are as bad."
        )
    return 'Use sampler="nuts" of `inference`: with a k-hat of 1 or more, more points are as bad.'


def covariance_matrices(model: Hypermodel, coordinates: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the covariance of the training scores at some coordinates; many kernels are read once for several.

    Parameters
    ----------
    model : Hypermodel
    coordinates : ndarray of shape (n, n_coordinates)
    """
    stack = model.covariance.stack
    few = stack.n_kernels <= MANY or stack.n_train**2 * 2 > MATRIX_ENTRIES
    step = 1 if few else MATRIX_ENTRIES // stack.n_train**2
    for first in range(0, len(coordinates), step):
        weights = np.array([model.values(u)[0] for u in coordinates[first : first + step]])
        with np.errstate(all="ignore"):
            yield from [model.covariance.matrix(weights[0])] if few else model.covariance.matrix(weights)


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
    weights, parameters = model.values(coordinates)
    if matrix is None:
        with np.errstate(all="ignore"):
            matrix = model.covariance.matrix(weights)
    return _point_of(model, coordinates, matrix, parameters, start, model.evidence, tol)


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
    evidence: Callable[..., Any] = model.evidence
    options = tol | _of_memory(model, matrix is None or spare)
    if evidence is exact_evidence:
        evidence = exact_height
    if matrix is not None:
        parameters = model.parameters(coordinates)
    else:
        weights, parameters = model.values(coordinates)
        with np.errstate(all="ignore"):
            matrix = model.covariance.matrix(weights)
    return _point_of(model, coordinates, matrix, parameters, start, evidence, options)


def _of_memory(model: Hypermodel, spare: bool) -> dict[str, Any]:
    """Return the option to overwrite a covariance that is `spare`, of those evidences that need it once."""
    return {"overwrite": spare and len(model.targets) == 1} if model.evidence is exact_evidence else {}


def _point_of(
    model: Hypermodel,
    coordinates: np.ndarray,
    matrix: np.ndarray,
    parameters: np.ndarray,
    start: tuple[Sites, ...] | None,
    evidence: Callable[..., Any],
    options: dict[str, Any],
) -> tuple[Point, list[Any]]:
    with np.errstate(all="ignore"):
        found = [
            evidence(model.likelihood, y, matrix, own, None if start is None else start[k], **options)
            for k, (y, own) in enumerate(zip(model.targets, parameters, strict=True))
        ]
    log_evidence = float(sum(output.log_evidence for output in found))
    converged = all(bool(output.converged) for output in found)
    astray = not (converged and np.isfinite(log_evidence))
    if astray and start is not None and evidence is not exact_height:  # other sites may lead there
        return _point_of(model, coordinates, matrix, parameters, None, evidence, options)
    if model.remainder is not None:
        log_evidence += model.remainder(model.values(coordinates)[0], parameters)[0]
    if not np.isfinite(log_evidence):
        raise np.linalg.LinAlgError("the evidence is not finite")
    log_density = log_evidence + model.log_prior(coordinates)[0]
    return Point(log_density, log_evidence, tuple(output.sites for output in found), converged), found


def evaluate_slope(
    model: Hypermodel, coordinates: np.ndarray, start: tuple[Sites, ...] | None, **tol: float
) -> tuple[Point, np.ndarray]:
    """Return the log posterior and its gradient; see `evaluate`."""
    weights, parameters = model.values(coordinates)
    with np.errstate(all="ignore"):
        matrix = model.covariance.matrix(weights)
    options = tol | _of_memory(model, True)
    point, found = _point_of(model, coordinates, matrix, parameters, start, model.evidence, options)
    adjoint, *more = (output.by_covariance(overwrite=True) for output in found)
    for other in more:
        adjoint += other
    by_weights = model.covariance.pull(weights, adjoint)
    by_parameters = np.stack([output.by_parameters for output in found])
    if model.remainder is not None:
        _, of_weights, of_parameters = model.remainder(weights, parameters)
        by_weights, by_parameters = by_weights + of_weights, by_parameters + of_parameters
    return point, model.pull(coordinates, by_weights, by_parameters) + model.log_prior(coordinates)[1]


def draw_importance(
    model: Hypermodel,
    mode: Mode,
    n_draws: int,
    rng: np.random.Generator,
    report: Callable[[int, str], None] | None = None,
) -> Draws:
    """Draw from t densities that adapt to the posterior, and weight by the mixture of them all.

    Parameters
    ----------
    model : Hypermodel
    mode : Mode
        The first density is around it.
    n_draws : int
        In four rounds together; up to twice as many while k-hat is not below one half, or they are worth less than 50
        draws. With 100 and more, Pareto
        smoothing has a tail in every round.
    rng : numpy.random.Generator
    report : callable, optional
        Is told how many draws there are, and what their weights are like.
    """
    proposals: list[Any] = [
        WideProposal.around(mode.coordinates, *mode.cov)
        if isinstance(mode.cov, Spread)
        else Proposal(mode.coordinates, mode.cov, model.mirror)
    ]
    coordinates = np.empty((0, len(mode.coordinates)))
    points: list[Point] = []
    pareto_k, ess = np.inf, 0.0
    while len(proposals) <= N_ROUNDS or (
        (pareto_k >= GOOD_K or ess < LEAST_DRAWS) and len(proposals) <= 2 * N_ROUNDS
    ):
        new = proposals[-1].draw(n_draws // N_ROUNDS, rng)
        several = model.covariance.stack.n_kernels > MANY
        matrices = covariance_matrices(model, new) if several else [None] * len(new)
        coordinates = np.vstack([coordinates, new])
        for u, matrix in zip(new, matrices, strict=True):
            near = _nearest(u, coordinates[: len(points)], points, mode, model)
            try:
                points.append(evaluate_height(model, u, near.sites, matrix, spare=True, tol=LOOSE)[0])
            except np.linalg.LinAlgError:
                points.append(Point(-np.inf, -np.inf, near.sites, False))
            if report is not None:
                report(len(points), "")
        mixture = logsumexp([proposal.log_density(coordinates) for proposal in proposals], axis=0)
        log_ratios = np.array([point.log_density for point in points]) - mixture + np.log(len(proposals))
        log_weights, found = smooth_weights(log_ratios)
        pareto_k = float(found)
        weights = np.exp(log_weights - logsumexp(log_weights))
        ess = float(1.0 / (weights**2).sum())
        proposals.append(proposals[-1].adapted(coordinates, weights))
    of_prior = -0.5 * coordinates.shape[1] * np.log(2.0 * np.pi)  # which the log posterior leaves out
    log_evidence = float(logsumexp(log_ratios) - np.log(len(log_ratios)) + of_prior)
    return Draws(coordinates, weights, tuple(points), log_evidence, pareto_k, ess)


def equally_likely(weights: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw indices with given probabilities, systematically: each as often as it has draws, up or down to one.

    Examples
    --------
    >>> equally_likely(np.array([0.25, 0.75]), 4, np.random.default_rng(0))
    array([0, 1, 1, 1])
    """
    steps = (rng.random() + np.arange(n_draws)) / n_draws
    return np.minimum(np.searchsorted(np.cumsum(weights), steps), len(weights) - 1)


def _nearest(
    u: np.ndarray, coordinates: np.ndarray, points: list[Point], mode: Mode, model: Hypermodel
) -> Point:
    """Return the point next to some coordinates; of many, where none is near, the latest."""
    if not points:
        return mode.point
    if len(u) > MANY:
        return points[-1]
    distance, mirrored = ((coordinates - u) ** 2).sum(axis=1), model.mirror(u)
    if mirrored is not None:
        distance = np.minimum(distance, ((coordinates - mirrored) ** 2).sum(axis=1))
    return points[int(np.argmin(distance))]
