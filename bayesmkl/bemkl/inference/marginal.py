r"""BEMKL with everything but its kernel weights integrated out: draws of e, then of all else given e.

With precisions λ = 1 and γ that are known, a, b, the intermediate outputs and the scores are normal given e (and the
noise in regression), so that the scores of the training samples are a Gaussian process,

.. math:: f \sim N\bigl(0, \; K_e K_e^\top + \sigma_g^2 e^\top e \, I + \gamma^{-1} 1 1^\top\bigr),
   \qquad K_e = \sum_m e_m K_m ,

and the posterior of e, which has P coordinates in the place of N + P + 1, follows from the evidence of labels or
targets under it: exact in regression, by expectation propagation or Laplace's approximation in classification. Given
e, draws of (a, b) come from their normal distribution under the sites of that approximation. Outputs that share e
have scores of their own, whose log evidences are summed.

In regression targets know the variance of all noise together, :math:`s^2 = 1/ε + e^\top e / υ`, and nothing else of
υ and ε: of these one or the other makes most of it, and their joint posterior has two arms with little between. So
log s² is drawn with e, its prior is integrated over the split between the two parts, and the split is drawn given e
and s².

Two priors differ from those of the paper. A precision of its own for every entry of a would have to be drawn with e:
λ and γ are known, the means of their priors (`known_precisions`). And the prior of e is narrower by :math:`\sqrt P`:
the more kernels, the smaller each weight, so that the prior of the score does not grow with their number.

e and -e are the same model. Importance sampling counts every draw on both sides, so that one mode is enough where
the posterior of some weights lies around zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import gammaln, logsumexp

from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.options import Marginal
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl.models.all_models import Problem
from bayesmkl.bemkl.models.moments import LOG_2PI, Gamma
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.marginal.covariances import Weighted
from bayesmkl.marginal.evidence import Evidence, ep_evidence, exact_evidence, laplace_evidence
from bayesmkl.marginal.hyperposterior import (
    Draws,
    Hypermodel,
    Mode,
    draw_importance,
    equally_likely,
    evaluate,
)
from bayesmkl.marginal.hyperpriors import ParameterPriors, StudentT
from bayesmkl.marginal.likelihoods import Gaussian, Probit
from bayesmkl.marginal.modes import START, find_mode

__all__ = [
    "MarginalDraws",
    "SignedWeights",
    "WeightsAndNoise",
    "WeightsAndTotalNoise",
    "draw_duals",
    "fit_marginal",
    "hypermodel_of",
    "known_precisions",
]

Report = Callable[[int, str], None] | None

KNOWN = 1e8  # concentration of a Gamma prior on a precision that is known, to 1e-4 of it
N_STARTS = 3  # of the climb to the mode, with different signs of the weights
LARGEST = 30.0  # log precision in absolute value: beyond, only the prior matters
FARTHEST = 60.0  # log odds of 1/ε in all noise
STEP, FINE_STEP = 0.25, 0.05  # of these log odds, to sum over them and to draw them
SMOOTH = 20.0  # sum of concentrations of the priors of υ and ε up to which sums over such steps are integrals
SMALLEST = 1e-24  # of e'e
TOL = 1e-2  # of sites that draws of a and b are conditioned on, in standard deviations of a score
EVIDENCES = {"ep": ep_evidence, "laplace": laplace_evidence}
REMEDY = "Use fewer samples, or a smaller `n_draws` of `inference`."


def known_precisions(priors: Any, n_kernels: int) -> Any:
    """Return the priors of marginal inference: precisions of a and b are known, weights e smaller by root P.

    Known precisions are the means of their priors, and a Gamma prior of so large a concentration that nothing else is
    likely stands for each. In all other respects the model is that of the other inferences.

    Parameters
    ----------
    priors : NamedTuple
        With the Gamma priors `sample`, `intercept` and `kernel`.
    n_kernels : int

    Raises
    ------
    ValueError
        If the prior of the sample weights' precisions does not have the mean one.

    Examples
    --------
    >>> from bayesmkl.bemkl.models.binary import BinaryPriors
    >>> priors = known_precisions(BinaryPriors(intercept=Gamma(2.0, 1.0)), n_kernels=4)
    >>> priors.intercept, priors.kernel
    (Gamma(concentration=100000000.0, rate=50000000.0), Gamma(concentration=1.0, rate=0.25))
    """
    c, r = priors.sample
    if not np.isclose(c, r, rtol=1e-6):
        raise ValueError(
            "`sample_prior` must be a Gamma with concentration and rate equal, and so the mean 1, with "
            f'inference="marginal"; got Gamma({c:g}, {r:g}). Sample weights have the precision 1 there, and the '
            "scale of the score is that of the kernel weights: see `kernel_prior`."
        )

    def known(prior: Gamma) -> Gamma:
        return Gamma(KNOWN, KNOWN * prior.rate / prior.concentration)

    kernel = Gamma(priors.kernel.concentration, priors.kernel.rate / n_kernels)
    return priors._replace(sample=known(priors.sample), intercept=known(priors.intercept), kernel=kernel)


class SignedWeights(Hypermodel):
    """Kernel weights of labels: e and -e are the same model."""

    __slots__ = ()

    def mirror(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the coordinates of -e."""
        mirrored = coordinates.copy()
        mirrored[..., : self.n_weights] *= -1.0
        return mirrored


class NoisePriors(NamedTuple):
    """Gamma priors on υ and ε of every output."""

    intermediate: Gamma
    noise: Gamma


class WeightsAndNoise(SignedWeights):
    r"""Kernel weights of targets, with log υ and log ε of each: noise has the variance :math:`1/ε + e^\top e / υ`.

    For priors that leave little doubt of one of the two. The covariance of the scores has no part of the intermediate
    outputs' own.
    """

    __slots__ = ()

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return self.n_weights + 2 * len(self.targets)

    def values(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return kernel weights, and the standard deviation of the noise of every output, (n_outputs, 1)."""
        weights = self.weight_prior.weights(coordinates[: self.n_weights]).values
        known, noise = 1.0 / self.precisions(coordinates)
        return weights, np.sqrt(noise + weights @ weights * known)[:, None]

    def parameters(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the standard deviation of the noise of every output, (n_outputs, 1)."""
        return self.values(coordinates)[1]

    def precisions(self, coordinates: np.ndarray) -> np.ndarray:
        """Return υ and ε of every output, (2, n_outputs)."""
        return np.exp(np.clip(coordinates[self.n_weights :].reshape(2, -1), -LARGEST, LARGEST))

    def pull(self, coordinates: np.ndarray, by_weights: np.ndarray, by_parameters: np.ndarray) -> np.ndarray:
        """Pull a gradient by what `values` returns back to the coordinates."""
        weights = self.weight_prior.weights(coordinates[: self.n_weights])
        known, noise = 1.0 / self.precisions(coordinates)
        square = weights.values @ weights.values
        by_variance = 0.5 * by_parameters[:, 0] / np.sqrt(noise + square * known)
        by_weights = by_weights + 2.0 * (by_variance @ known) * weights.values
        return np.concatenate([weights.pull(by_weights), -square * known * by_variance, -noise * by_variance])

    def draw_precisions(self, coordinates: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw υ and ε of every output given some coordinates, (n_draws, 2, n_outputs): they are known."""
        return np.broadcast_to(self.precisions(coordinates), (n_draws, 2, len(self.targets)))

    def log_prior(self, coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        r"""Return the log prior density and its gradient, the density without :math:`(2 \pi)^{-d/2}`."""
        own, of_precisions = coordinates[: self.n_weights], coordinates[self.n_weights :].reshape(2, -1)
        total, slope = -0.5 * float(own @ own), [-own]
        for log_precision, (c, r) in zip(of_precisions, self.parameter_prior, strict=True):
            weighted = r * np.exp(np.minimum(log_precision, LARGEST))
            constant = c * np.log(r) - gammaln(c) + 0.5 * LOG_2PI
            total += float((constant + c * log_precision - weighted).sum())
            slope.append(c - weighted)
        return total, np.concatenate(slope)


class _LogOdds(NamedTuple):
    """Log odds of 1/ε in all noise, and the logarithms of its part and of that of e'e/υ."""

    values: np.ndarray
    log_own: np.ndarray
    log_other: np.ndarray

    @classmethod
    def of_step(cls, step: float) -> _LogOdds:
        values = np.arange(-FARTHEST, FARTHEST, step)
        return cls(values, -np.logaddexp(0.0, -values), -np.logaddexp(0.0, values))


LOG_ODDS, FINE_LOG_ODDS = _LogOdds.of_step(STEP), _LogOdds.of_step(FINE_STEP)


class WeightsAndTotalNoise(WeightsAndNoise):
    """Kernel weights of targets, with log s² of each: how s² splits into 1/ε and e'e/υ is integrated out.

    Given e, log ε and log υ are log s² and the log odds z of the two parts with a Jacobian of one.
    """

    __slots__ = ()

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return self.n_weights + len(self.targets)

    def values(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return kernel weights, and the standard deviation of the noise of every output, (n_outputs, 1)."""
        weights = self.weight_prior.weights(coordinates[: self.n_weights]).values
        return weights, self._std(coordinates)[:, None]

    def parameters(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the standard deviation of the noise of every output, (n_outputs, 1)."""
        return self.values(coordinates)[1]

    def pull(self, coordinates: np.ndarray, by_weights: np.ndarray, by_parameters: np.ndarray) -> np.ndarray:
        """Pull a gradient by what `values` returns back to the coordinates."""
        weights = self.weight_prior.weights(coordinates[: self.n_weights])
        by_log_variance = 0.5 * self._std(coordinates) * by_parameters[:, 0]
        return np.concatenate([weights.pull(by_weights), by_log_variance])

    def log_prior(self, coordinates: np.ndarray) -> tuple[float, np.ndarray]:
        r"""Return the log prior density and its gradient, the density without :math:`(2 \pi)^{-d/2}`."""
        own = coordinates[: self.n_weights]
        weights = self.weight_prior.weights(own)
        log_terms, by_known, by_noise = self._splits(coordinates, LOG_ODDS)
        highest = log_terms.max(axis=1)
        terms = np.exp(log_terms - highest[:, None])
        sums = terms.sum(axis=1)
        by_known, by_noise = (terms * by_known).sum(axis=1) / sums, (terms * by_noise).sum(axis=1) / sums
        constant = np.log(STEP) + 0.5 * LOG_2PI
        total = -0.5 * float(own @ own) + float((highest + np.log(sums) + constant).sum())
        by_weights = 2.0 * by_known.sum() / _square(weights.values) * weights.values
        return total, np.concatenate([weights.pull(by_weights) - own, -by_known - by_noise])

    def draw_precisions(self, coordinates: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw υ and ε of every output given some coordinates, (n_draws, 2, n_outputs)."""
        log_square = np.log(_square(self.values(coordinates)[0]))
        drawn = np.empty((n_draws, 2, len(self.targets)))
        log_terms, _, _ = self._splits(coordinates, FINE_LOG_ODDS)
        for k, (log_variance, own) in enumerate(zip(coordinates[self.n_weights :], log_terms, strict=True)):
            log_odds = rng.choice(FINE_LOG_ODDS.values, n_draws, p=np.exp(own - logsumexp(own)))
            log_odds += FINE_STEP * (rng.random(n_draws) - 0.5)
            drawn[:, 0, k] = np.logaddexp(0.0, log_odds) + log_square - log_variance
            drawn[:, 1, k] = np.logaddexp(0.0, -log_odds) - log_variance
        return np.exp(np.clip(drawn, -LARGEST, LARGEST))

    def _splits(
        self, coordinates: np.ndarray, log_odds: _LogOdds
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log prior densities along log odds, and slopes by log υ and log ε, (n_outputs, n_nodes)."""
        log_variance = coordinates[self.n_weights :, None]
        log_known = np.log(_square(self.values(coordinates)[0])) - log_odds.log_other - log_variance
        log_noise = -log_odds.log_own - log_variance
        (c, r), (d, s) = self.parameter_prior
        by_known = c - r * np.exp(np.minimum(log_known, LARGEST))
        by_noise = d - s * np.exp(np.minimum(log_noise, LARGEST))
        constant = c * np.log(r) - gammaln(c) + d * np.log(s) - gammaln(d) - c - d
        return constant + c * log_known + d * log_noise + by_known + by_noise, by_known, by_noise

    def _std(self, coordinates: np.ndarray) -> np.ndarray:
        """Return s of every output."""
        return np.exp(0.5 * np.clip(coordinates[self.n_weights :], -LARGEST, LARGEST))


def _square(weights: np.ndarray) -> float:
    """Return e'e, and not zero."""
    return max(float(weights @ weights), SMALLEST)


class MarginalDraws(NamedTuple):
    """Draws of all parameters, and the draws of the kernel weights alone that they were made of."""

    parameters: PosteriorDraws
    weights: Draws
    n_evaluations: int  # of the evidence


def hypermodel_of(problem: Any, approximation: str) -> SignedWeights:
    """Return the model of the kernel weights, and in regression the noise precisions, of a problem.

    Parameters
    ----------
    problem : BinaryProblem, RegressionProblem, MulticlassProblem or MultioutputProblem
        With the priors of `known_precisions`.
    approximation : {"ep", "laplace"}
        Of the evidence of labels.
    """
    priors, targets = problem.priors, np.atleast_2d(problem.y)
    c, r = priors.kernel
    prior = StudentT(2.0 * c, float(np.sqrt(r / c)))
    intercept_std = float(np.sqrt(priors.intercept.rate / priors.intercept.concentration))
    if hasattr(priors, "noise"):
        covariance, noise = Weighted(problem.stack, 0.0, intercept_std), NoisePriors(*priors[3:])
        is_smooth = noise.intermediate.concentration + noise.noise.concentration <= SMOOTH
        kind = WeightsAndTotalNoise if is_smooth else WeightsAndNoise
        return kind(covariance, Gaussian(), targets, prior, noise, exact_evidence)
    covariance = Weighted(problem.stack, float(problem.intermediate_precision) ** -0.5, intercept_std)
    likelihood = Probit(float(problem.margin))
    return SignedWeights(
        covariance, likelihood, targets, prior, ParameterPriors(()), EVIDENCES[approximation]
    )


def fit_marginal(
    problem: Problem, options: Marginal, rng: np.random.Generator, report: Report = None
) -> MarginalDraws:
    """Draw kernel weights from their marginal posterior, then all else given each.

    Parameters
    ----------
    problem : BinaryProblem, RegressionProblem, MulticlassProblem or MultioutputProblem
        With the priors of `known_precisions`.
    options : Marginal
    rng : numpy.random.Generator
    report : callable, optional
        Is told how many points there are, by importance sampling.

    Returns
    -------
    MarginalDraws
        One chain of `n_draws` equally likely draws by importance sampling, in random order; by NUTS as many chains as
        it had, of as many draws together.

    Raises
    ------
    MemoryError
        If draws would not fit into memory, before anything is computed.
    """
    n_outputs, n_train = problem.y.size // problem.y.shape[-1], problem.stack.n_train
    n_bytes = 32.0 * options.n_draws * n_outputs * n_train
    require_memory(n_bytes, f"{options.n_draws} draws of {n_outputs * n_train} sample weights", REMEDY)
    model = hypermodel_of(problem, options.approximation)
    with blas_threads_for(n_train):
        mode, n_evaluations = _highest_mode(model, rng)
        if options.sampler == "nuts":
            from bayesmkl.marginal.chains import draw_chains

            counts = options.n_points, options.n_chains, options.n_warmup
            weights = draw_chains(model, mode, *counts, rng)
            per_chain = -(-options.n_draws // options.n_chains)
            n_points = len(weights.weights) // options.n_chains
            first = n_points * np.arange(options.n_chains)[:, None]
            chosen = first + np.arange(per_chain) * n_points // per_chain
        else:
            weights = draw_importance(model, mode, options.n_points, rng, report)
            chosen = rng.permutation(equally_likely(weights.weights, options.n_draws, rng))[None]
        draws = _draw_rest(problem, model, weights, chosen, rng)
    return MarginalDraws(draws, weights, n_evaluations + len(weights.weights))


def _highest_mode(model: SignedWeights, rng: np.random.Generator) -> tuple[Mode, int]:
    """Climb from weights of equal and of random signs; return the mode with most probability around it."""
    modes = []
    for k in range(N_STARTS):
        start = np.full(model.n_coordinates, START)
        if k > 0:
            start[: model.n_weights] *= rng.choice([-1.0, 1.0], model.n_weights)
        modes.append(find_mode(model, start))
    best = max(modes, key=lambda mode: mode.point.log_density + 0.5 * np.linalg.slogdet(mode.cov)[1])
    return best, sum(mode.n_evaluations for mode in modes)


def _draw_rest(
    problem: Any, model: SignedWeights, weights: Draws, chosen: np.ndarray, rng: np.random.Generator
) -> PosteriorDraws:
    """Draw a and b given the kernel weights of `chosen` points, (n_chains, n_draws)."""
    outputs, flat = problem.y.shape[:-1], chosen.ravel()
    n_draws, n_outputs, n_train = len(flat), len(model.targets), problem.stack.n_train
    kernel_weights = np.empty((n_draws, problem.stack.n_kernels))
    dual, intercept = np.empty((n_draws, n_outputs, n_train)), np.empty((n_draws, n_outputs))
    precisions, covariance = np.empty((n_draws, 2, n_outputs)), cast(Weighted, model.covariance)
    for i in np.unique(flat):
        here, coordinates = np.flatnonzero(flat == i), weights.coordinates[i]
        kernel_weights[here], _ = model.values(coordinates)
        _, found = evaluate(model, coordinates, weights.points[i].sites, tol=TOL)
        for k, evidence in enumerate(found):
            dual[here, k], intercept[here, k] = draw_duals(
                covariance, kernel_weights[here[0]], evidence, len(here), rng
            )
        if isinstance(model, WeightsAndNoise):
            precisions[here] = model.draw_precisions(coordinates, len(here), rng)

    def shaped(values: np.ndarray, *shape: int) -> np.ndarray:
        return values.reshape(*chosen.shape, *shape)

    draws = PosteriorDraws(
        shaped(kernel_weights, -1), shaped(intercept, *outputs), shaped(dual, *outputs, n_train)
    )
    if not isinstance(model, WeightsAndNoise):
        return draws
    return draws._replace(
        intermediate_precision=shaped(precisions[:, 0], *outputs),
        noise_precision=shaped(precisions[:, 1], *outputs),
    )


def draw_duals(
    covariance: Weighted, weights: np.ndarray, evidence: Evidence, n_draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    r"""Draw sample weights a and the intercept b of one output, given kernel weights and normal sites.

    By Matheron's rule: a draw from the prior, corrected by what the sites say of its scores, :math:`a +
    K_e^\top S B^{-1} (S^{-1} \tilde\nu - S f - z)` with `f` the scores of the draw and `z` normal.

    Parameters
    ----------
    covariance : Weighted
    weights : ndarray of shape (n_kernels,)
    evidence : Evidence
    n_draws : int
    rng : numpy.random.Generator

    Returns
    -------
    dual : ndarray of shape (n_draws, n_train)
    intercept : ndarray of shape (n_draws,)
    """
    mixed = covariance.stack.combine(weights)
    size, std = covariance.intermediate_std * np.linalg.norm(weights), covariance.intercept_std
    dual, intercept = rng.standard_normal((n_draws, mixed.shape[1])), std * rng.standard_normal(n_draws)
    alone, noise = rng.standard_normal((2, n_draws, len(mixed)))
    scores = dual @ mixed.T + size * alone + intercept[:, None]
    residuals = evidence.posterior.residuals(evidence.sites, scores, noise)
    return dual + residuals @ mixed, intercept + std**2 * residuals.sum(axis=1)
