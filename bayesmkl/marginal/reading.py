r"""Read-outs of draws of hyperparameters: scores, predictions, shares of kernels, leave-one-out densities.

All of it is exact given hyperparameters and the sites of `bayesmkl.marginal.evidence`, and averaged over
equally likely draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayesmkl.kernels.stacks.base import KernelRows
from bayesmkl.marginal.conditioning import Conditioned, Sites, cavity, condition
from bayesmkl.marginal.hyperposterior import Draws, Hypermodel, evaluate

__all__ = ["HyperDraws", "ScoreMoments", "leave_one_out", "part_draws", "resample", "score_moments", "shares"]

TOL = 1e-4  # of the sites of draws that are kept


class HyperDraws(NamedTuple):
    """Equally likely draws of hyperparameters, with the sites of the training samples.

    Attributes
    ----------
    kernel_weights : ndarray of shape (n_draws, n_kernels)
    parameters : ndarray of shape (n_draws, n_outputs, n_parameters)
        Of the likelihood.
    site_precision, site_linear : ndarray of shape (n_draws, n_outputs, n_samples)
    coordinates : ndarray of shape (n_draws, n_coordinates)
    """

    kernel_weights: np.ndarray
    parameters: np.ndarray
    site_precision: np.ndarray
    site_linear: np.ndarray
    coordinates: np.ndarray

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.kernel_weights)


class ScoreMoments(NamedTuple):
    """Mean and variance of scores given hyperparameters, each of shape (n_draws, n_outputs, n_rows)."""

    mean: np.ndarray
    variance: np.ndarray


def resample(model: Hypermodel, draws: Draws, n_draws: int, rng: np.random.Generator) -> HyperDraws:
    """Draw equally likely hyperparameters from weighted ones, systematically, and find their sites to the end."""
    steps = (rng.random() + np.arange(n_draws)) / n_draws
    chosen = np.minimum(np.searchsorted(np.cumsum(draws.weights), steps), len(draws.weights) - 1)
    once, positions = np.unique(chosen, return_inverse=True)
    points = [evaluate(model, draws.coordinates[i], draws.points[i].sites, tol=TOL)[0] for i in once]
    values = [model.values(draws.coordinates[i]) for i in once]
    fields = (
        np.array([weights for weights, _ in values]),
        np.array([parameters for _, parameters in values]),
        np.array([[sites.precision for sites in point.sites] for point in points]),
        np.array([[sites.linear for sites in point.sites] for point in points]),
        draws.coordinates[once],
    )
    return HyperDraws(*(field[positions] for field in fields))


def score_moments(
    model: Hypermodel,
    draws: HyperDraws,
    rows: KernelRows,
    diagonal: np.ndarray,
    kernels: np.ndarray | None = None,
) -> ScoreMoments:
    """Return moments of scores at new rows, or of the part that some kernels have in them.

    Parameters
    ----------
    model : Hypermodel
    draws : HyperDraws
    rows : KernelRows
        Kernels of new rows against the training samples.
    diagonal : ndarray of shape (n_kernels, n_rows)
        Similarities of new rows to themselves.
    kernels : ndarray of bool, of shape (n_kernels,), optional
        Kernels of the part, without the intercept; None: all kernels and the intercept.
    """
    shape = (draws.n_draws, len(model.targets), rows.n_rows)
    mean, variance = np.empty(shape), np.empty(shape)
    for d, weights in enumerate(draws.kernel_weights):
        part = weights if kernels is None else weights * kernels
        cross = model.covariance.cross(rows, part, weights)
        prior = model.covariance.variance(rows, diagonal, part)
        if kernels is None:
            cross = cross + model.covariance.intercept_std**2
            prior = prior + model.covariance.intercept_std**2
        for k, posterior in enumerate(_posteriors(model, draws, d)):
            scaled = cross * posterior.root
            mean[d, k] = cross @ posterior.dual
            variance[d, k] = prior - np.einsum("ij,ij->i", scaled @ posterior.inverse, scaled)
    return ScoreMoments(mean, np.maximum(variance, 0.0))


def part_draws(model: Hypermodel, draws: HyperDraws, rng: np.random.Generator) -> np.ndarray:
    r"""Draw the parts of all kernels in the training scores, (n_draws, n_outputs, n_kernels, n_samples).

    By Matheron's rule: a draw from the prior, corrected by what the sites say of it, :math:`f_m +
    \operatorname{Cov}(f_m, f) S B^{-1} (S^{-1} \tilde\nu - S f - z)` with `f` the sum of the parts and `z`
    normal.
    """
    n_outputs, n_samples = model.targets.shape
    prior = model.covariance.draw_parts(rng, draws.n_draws * n_outputs)
    prior = np.moveaxis(prior, -1, 0).reshape(draws.n_draws, n_outputs, -1, n_samples)
    found = np.empty_like(prior)
    for d, weights in enumerate(draws.kernel_weights):
        for k, posterior in enumerate(_posteriors(model, draws, d)):
            parts = weights[:, None] * prior[d, k]
            score = parts.sum(axis=0) + model.covariance.intercept_std * rng.standard_normal()
            surprise = (
                draws.site_linear[d, k] / posterior.root
                - posterior.root * score
                - rng.standard_normal(n_samples)
            )
            residual = posterior.root * (posterior.inverse @ surprise)
            found[d, k] = parts + model.covariance.shift_parts(weights, residual)
    return found


def shares(parts: np.ndarray) -> np.ndarray:
    r"""Return the shares of kernels in the score, :math:`\operatorname{Cov}(f_m, f) / \operatorname{Var}(f)`.

    Covariances are over training samples, and summed over outputs. Shares of a draw sum to one; a small part
    can be negative.

    Parameters
    ----------
    parts : ndarray of shape (n_draws, n_outputs, n_kernels, n_samples)

    Returns
    -------
    ndarray of shape (n_draws, n_kernels)
    """
    around = parts - parts.mean(axis=-1, keepdims=True)
    total = around.sum(axis=2)
    covariance = np.einsum("dkmi,dki->dm", around, total)
    return covariance / covariance.sum(axis=1, keepdims=True)


def leave_one_out(model: Hypermodel, draws: HyperDraws) -> np.ndarray:
    r"""Return :math:`\log p(y_i \mid y_{-i})` of every output and sample, (n_outputs, n_samples).

    Given hyperparameters it is the normalizer of the cavity. Those of the fit to all samples are weighted for
    the fit to the others by the inverse of that density, so that its inverse is averaged.
    """
    log_densities = np.empty((draws.n_draws, *model.targets.shape))
    for d in range(draws.n_draws):
        for k, posterior in enumerate(_posteriors(model, draws, d)):
            mean, precision = cavity(posterior, Sites(draws.site_precision[d, k], draws.site_linear[d, k]))
            tilted = model.likelihood.tilted(model.targets[k], mean, 1.0 / precision, draws.parameters[d, k])
            log_densities[d, k] = tilted.log_normalizer
    return np.log(draws.n_draws) - logsumexp(-log_densities, axis=0)


def _posteriors(model: Hypermodel, draws: HyperDraws, d: int) -> list[Conditioned]:
    """Return the scores of every output given one draw."""
    matrix = model.covariance.matrix(draws.kernel_weights[d])
    sites = zip(draws.site_precision[d], draws.site_linear[d], strict=True)
    return [condition(matrix, Sites(*own)) for own in sites]
