r"""Read-outs of draws of hyperparameters: scores, predictions, shares of kernels, leave-one-out densities.

All of it is exact given hyperparameters and the sites of `bayesmkl.marginal.evidence`, and averaged over
equally likely draws.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayesmkl.kernels.stacks.base import KernelRows
from bayesmkl.marginal.conditioning import Cavity, Conditioned, Sites, cavity, condition
from bayesmkl.marginal.covariances import Covariance
from bayesmkl.marginal.effects import DesignRows
from bayesmkl.marginal.hyperposterior import Draws, Hypermodel, equally_likely, evaluate
from bayesmkl.marginal.likelihoods import Likelihood, Repeated, copies_of, of_one_copy

__all__ = [
    "HyperDraws",
    "LeftOut",
    "Reading",
    "ScoreMoments",
    "average_left_out",
    "draw_parts",
    "leave_out",
    "log_complement",
    "log_positive",
    "read",
    "score_moments",
    "shares",
]

TOL = 1e-2  # of the sites of points that are kept, in standard deviations of scores


class HyperDraws(NamedTuple):
    """Equally likely draws, of which those of hyperparameters are few different points.

    Attributes
    ----------
    kernel_weights : ndarray of shape (n_points, n_kernels)
    parameters : ndarray of shape (n_points, n_outputs, n_parameters)
        Of the likelihood.
    site_precision, site_linear : ndarray of shape (n_points, n_outputs, n_samples)
        Of the training samples.
    cavity_mean, cavity_variance : ndarray of shape (n_points, n_outputs, n_samples)
        Of every score given all samples but its own.
    point : ndarray of int, of shape (n_draws,)
        Position of the hyperparameters of a draw.
    shares : ndarray of shape (n_draws, n_kernels)
        Of a draw of the scores; see `shares`.
    score : ndarray of shape (n_draws, n_outputs, n_samples)
        That draw of the training scores, the intercept included.
    group_std : ndarray of shape (n_points, n_terms)
        Standard deviations of the coefficients of groups.
    effects : ndarray of shape (n_draws, n_outputs, n_effects)
        That draw's coefficients of covariates, which are standardized, and of the levels of groups.
    task_values : ndarray of shape (n_points, n_values)
        Standard deviations and correlations of tasks; see `bayesmkl.marginal.tasks.Tasks`.
    task_shares : ndarray of shape (n_draws, n_tasks, n_kernels)
        The same as `shares` over the samples of every task.
    """

    kernel_weights: np.ndarray
    parameters: np.ndarray
    site_precision: np.ndarray
    site_linear: np.ndarray
    cavity_mean: np.ndarray
    cavity_variance: np.ndarray
    point: np.ndarray
    shares: np.ndarray
    score: np.ndarray
    group_std: np.ndarray
    effects: np.ndarray
    task_values: np.ndarray = np.empty((0, 0))
    task_shares: np.ndarray = np.empty((0, 0, 0))

    @property
    def weights(self) -> np.ndarray:
        """Kernel weights, with standard deviations of groups and values of tasks after them, (n_points, n)."""
        of_tasks = self.task_values.reshape(len(self.kernel_weights), -1)
        return np.concatenate([self.kernel_weights, self.group_std, of_tasks], axis=1)

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.point)

    @property
    def probability(self) -> np.ndarray:
        """Posterior probabilities of the points, (n_points,)."""
        return np.bincount(self.point, minlength=len(self.kernel_weights)) / self.n_draws


class LeftOut(NamedTuple):
    """Log densities of samples that are left out with all their outputs.

    Attributes
    ----------
    each : ndarray of shape (n_outputs, n_samples)
        Of every output alone.
    joint : ndarray of shape (n_samples,)
        Of all outputs together, whose densities depend on the same hyperparameters.
    log_weights : ndarray of shape (n_points, n_samples)
        Log posterior probabilities of the points without a sample.
    """

    each: np.ndarray
    joint: np.ndarray
    log_weights: np.ndarray


class Reading(NamedTuple):
    r"""What is read from the training samples.

    Attributes
    ----------
    draws : HyperDraws
    left_out : LeftOut
    dual : ndarray of shape (n_outputs, [n_tasks, ]n_kernels, n_samples)
        Posterior means of weights :math:`a_m` of training samples: the mean score of a new sample is
        :math:`\\sum_m k_m^\top a_m + b`. Every task has its own.
    intercept : ndarray of shape (n_outputs,)
        Posterior mean of `b`.
    effects : ndarray of shape (n_outputs, n_effects)
        Posterior mean coefficients of covariates and levels of groups.
    """

    draws: HyperDraws
    left_out: LeftOut
    dual: np.ndarray
    intercept: np.ndarray
    effects: np.ndarray


class ScoreMoments(NamedTuple):
    """Mean and variance of scores given hyperparameters, each of shape (n_points, n_outputs, n_rows).

    `parameters`, (n_points, n_outputs, n_parameters), are those of the likelihood; `probability`, (n_points,), sums
    to one.
    """

    mean: np.ndarray
    variance: np.ndarray
    parameters: np.ndarray
    probability: np.ndarray


def read(model: Hypermodel, weighted: Draws, prior_parts: np.ndarray, rng: np.random.Generator) -> Reading:
    """Draw equally likely hyperparameters from weighted ones, systematically, and read all that they say.

    Parameters
    ----------
    model : Hypermodel
    weighted : Draws
    prior_parts : ndarray of shape (n_draws, n_outputs, [n_tasks, ]n_kernels, n_samples)
        Draws of parts of unit weight, from the covariance's `draw_parts`: one for each draw of the result.
    rng : numpy.random.Generator
    """
    n_draws, n_outputs, *of_parts = prior_parts.shape
    n_kernels, n_samples = of_parts[-2:]
    chosen = equally_likely(weighted.weights, n_draws, rng)
    # in random order, so that neighbors say nothing of each other
    points, point = np.unique(rng.permutation(chosen), return_inverse=True)
    values = [model.values(weighted.coordinates[i]) for i in points]
    shape = len(points), n_outputs, n_samples
    site_precision, site_linear, cavity_mean, cavity_variance = np.empty((4, *shape))
    effects, tasks = model.covariance.effects, model.covariance.tasks
    n_effects, n_tasks = 0 if effects is None else len(effects.term), 0 if tasks is None else tasks.n_tasks
    kernel_weights, group_std, task_values = (
        np.array(own) for own in zip(*(model.covariance.split(weights) for weights, _ in values), strict=True)
    )
    draws = HyperDraws(
        kernel_weights,
        np.array([parameters for _, parameters in values]),
        site_precision,
        site_linear,
        cavity_mean,
        cavity_variance,
        point,
        np.empty((n_draws, n_kernels)),
        np.empty((n_draws, n_outputs, n_samples)),
        group_std,
        np.empty((n_draws, n_outputs, n_effects)),
        task_values,
        np.empty((n_draws, n_tasks, n_kernels)),
    )
    left_out, taken_out = np.empty((2, *shape))
    _, _, counts = of_one_copy(model.likelihood, model.targets[0])
    dual, intercept = np.zeros((n_outputs, *of_parts)), np.zeros(n_outputs)
    mean_effects = np.zeros((n_outputs, n_effects))
    for at, (i, (weights, parameters)) in enumerate(zip(points, values, strict=True)):
        here = np.flatnonzero(point == at)
        _, found = evaluate(model, weighted.coordinates[i], weighted.points[i].sites, tol=TOL)
        parts = np.empty((len(here), n_outputs, n_kernels, n_samples))
        for k, (output, own) in enumerate(zip(found, parameters, strict=True)):
            posterior, sites = output.posterior, output.sites
            draws.site_precision[at, k], draws.site_linear[at, k] = sites.precision, sites.linear
            copies = copies_of(model.likelihood, model.targets[k])
            left = cavity(posterior, sites.power(1.0 / copies))
            draws.cavity_mean[at, k], draws.cavity_variance[at, k] = left.mean, 1.0 / left.precision
            left_out[at, k], taken_out[at, k] = leave_out(model.likelihood, model.targets[k], left, own)
            probability = len(here) / n_draws
            dual[k] += probability * model.covariance.part_duals(weights, posterior.dual)
            intercept[k] += probability * model.covariance.intercept_std**2 * posterior.dual.sum()
            if effects is not None:
                variance = effects.stds(group_std[at]) ** 2
                mean_effects[k] += probability * variance * (posterior.dual @ effects.basis)
            parts[:, k], draws.score[here, k], draws.effects[here, k] = draw_parts(
                model.covariance, weights, posterior, sites, prior_parts[here, k], rng
            )
        alone: Any = 0.0
        if model.remainder is not None:
            alone, parts = weights**2 * model.remainder.unexplained, model.remainder.evenly(parts)
        draws.shares[here] = shares(parts, counts, alone)
        for t in range(n_tasks):
            own_samples = np.flatnonzero(tasks.task == t)  # type: ignore[union-attr]
            own_counts = counts if np.ndim(counts) == 0 else counts[own_samples]
            draws.task_shares[here, t] = shares(parts[..., own_samples], own_counts)
    if model.remainder is not None:
        draws = draws._replace(score=model.remainder.evenly(draws.score))
    without = average_left_out(draws.probability, left_out, taken_out)
    return Reading(draws, without, dual, intercept, mean_effects)


def draw_parts(
    covariance: Covariance,
    weights: np.ndarray,
    posterior: Conditioned,
    sites: Sites,
    prior: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Draw the parts of all kernels in the training scores of one output, the scores, and the effects in them.

    By Matheron's rule: a draw from the prior, corrected by what the sites say of it, :math:`f_m +
    \operatorname{Cov}(f_m, f) S B^{-1} (S^{-1} \tilde\nu - S f - z)` with `f` the sum of the parts and `z`
    normal. Intercept and effects are corrected alike.

    Parameters
    ----------
    covariance : Covariance
    weights : ndarray of shape (n_kernels,), or more
        See `Covariance`.
    posterior : Conditioned
    sites : Sites
    prior : ndarray of shape (n_draws, [n_tasks, ]n_kernels, n_samples)
        Draws of parts of unit weight.
    rng : numpy.random.Generator

    Returns
    -------
    parts : ndarray of shape (n_draws, n_kernels, n_samples)
    scores : ndarray of shape (n_draws, n_samples)
    effects : ndarray of shape (n_draws, n_effects)
        Coefficients.
    """
    parts = covariance.weigh_parts(weights, prior)
    n_draws, _, n_samples = parts.shape
    intercept = covariance.intercept_std * rng.standard_normal((n_draws, 1))
    noise = rng.standard_normal((n_draws, n_samples))
    basis, std = np.empty((n_samples, 0)), np.empty(0)
    if covariance.effects is not None:
        basis, std = covariance.effects.basis, covariance.effects.stds(covariance.split(weights)[1])
    effects = std * rng.standard_normal((n_draws, len(std)))
    residuals = posterior.residuals(sites, parts.sum(axis=1) + intercept + effects @ basis.T, noise)
    parts += np.moveaxis(covariance.shift_parts(weights, residuals.T), -1, 0)
    intercept = intercept + covariance.intercept_std**2 * residuals.sum(axis=1, keepdims=True)
    effects += std**2 * (residuals @ basis)
    return parts, parts.sum(axis=1) + intercept + effects @ basis.T, effects


def leave_out(
    likelihood: Likelihood, y: np.ndarray, left: Cavity, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return :math:`\log p(y_i \mid y_{-i})` given hyperparameters, (n_samples,): the normalizers of cavities.

    And those of what was left out of the evidence, which is another power of the density where weights are below one.
    """
    inner, fields, _ = of_one_copy(likelihood, y)
    found = inner.tilted(fields, left.mean, 1.0 / left.precision, parameters).log_normalizer
    if not (isinstance(likelihood, Repeated) and likelihood.is_fractional):
        return found, found
    return found, likelihood.tilted(y, left.mean, 1.0 / left.precision, parameters).log_normalizer


def log_positive(targets: np.ndarray, log_of_own: np.ndarray) -> np.ndarray:
    """Return log probabilities of the label +1, from those of the own labels, -1 and +1."""
    return np.where(targets > 0.0, log_of_own, log_complement(log_of_own))


def log_complement(log_probability: np.ndarray) -> np.ndarray:
    """Return the log probability of what is left."""
    return np.log(-np.expm1(np.minimum(log_probability, -np.finfo(float).tiny)))


def average_left_out(
    probability: np.ndarray, log_densities: np.ndarray, taken_out: np.ndarray | None = None
) -> LeftOut:
    """Average leave-one-out densities over hyperparameters.

    Points are weighted for the fit to the other samples: by the inverse of the density of the one that is left out.

    Parameters
    ----------
    probability : ndarray of shape (n_points,)
    log_densities : ndarray of shape (n_points, n_outputs, n_samples)
        Of left-out targets, given the hyperparameters of a point.
    taken_out : ndarray of shape (n_points, n_outputs, n_samples), optional
        What the evidence is larger by with the target, if that is not its log density.
    """
    taken_out = log_densities if taken_out is None else taken_out
    log_weights = np.log(probability)[:, None] - taken_out.sum(axis=1)
    log_weights = log_weights - logsumexp(log_weights, axis=0)
    joint = logsumexp(log_weights + log_densities.sum(axis=1), axis=0)
    return LeftOut(logsumexp(log_weights[:, None] + log_densities, axis=0), joint, log_weights)


def shares(parts: np.ndarray, sample_weight: Any = 1.0, alone: Any = 0.0) -> np.ndarray:
    r"""Return the shares of kernels in the score, :math:`\operatorname{Cov}(f_m, f) / \operatorname{Var}(f)`.

    Covariances are over training samples, and summed over outputs. Shares of a draw sum to one; a small part
    can be negative. Of a score that is the same everywhere all kernels have the same share. Where
    samples lack views, parts there are draws of what is not known like all others.

    Parameters
    ----------
    parts : ndarray of shape (n_draws, n_outputs, n_kernels, n_samples)
    sample_weight : ndarray of shape (n_samples,) or 1.0
        How often samples count.
    alone : ndarray of shape (n_kernels,) or 0.0
        Variances of parts that are independent of all that `parts` has, and of each other.

    Returns
    -------
    ndarray of shape (n_draws, n_kernels)
    """
    counts = np.broadcast_to(sample_weight, parts.shape[-1:])
    around = parts - (parts @ (counts / counts.sum()))[..., None]
    total = counts * around.sum(axis=2)
    covariance = np.einsum("dkmi,dki->dm", around, total) + parts.shape[1] * counts.sum() * alone
    variance = covariance.sum(axis=1, keepdims=True)
    alike = np.full_like(covariance, 1.0 / covariance.shape[1])
    return np.divide(covariance, variance, out=alike, where=variance > 0.0)


def score_moments(
    covariance: Covariance,
    draws: HyperDraws,
    rows: KernelRows,
    diagonal: np.ndarray,
    kernels: np.ndarray | None = None,
    design_rows: DesignRows | None = None,
) -> ScoreMoments:
    """Return moments of scores at new rows, or of the part that some kernels have in them.

    Parameters
    ----------
    covariance : Covariance
    draws : HyperDraws
    rows : KernelRows
        Kernels of new rows against the training samples.
    diagonal : ndarray of shape (n_kernels, n_rows)
        Similarities of new rows to themselves.
    kernels : ndarray of bool, of shape (n_kernels,), optional
        Kernels of the part, without the intercept; None: all kernels, the intercept, and effects.
    design_rows : DesignRows, optional
        Effects and tasks of the new rows, where the covariance has some.
    """
    shape = (*draws.parameters.shape[:2], rows.n_rows)
    mean, variance = np.empty(shape), np.empty(shape)
    intercept = covariance.intercept_std**2 if kernels is None else 0.0
    for at, (weights, own) in enumerate(zip(draws.weights, draws.kernel_weights, strict=True)):
        part = own if kernels is None else own * kernels
        cross = covariance.cross(rows, part, own)
        prior = covariance.variance(rows, diagonal, part)
        if covariance.tasks is not None and design_rows is not None and design_rows.task is not None:
            cross = cross * covariance.tasks.cross(design_rows.task, draws.task_values[at])
            prior = prior * covariance.tasks.variance(design_rows.task, draws.task_values[at])
        cross, prior = cross + intercept, prior + intercept
        if covariance.effects is not None and design_rows is not None and kernels is None:
            cross += covariance.effects.cross(design_rows, draws.group_std[at])
            prior += covariance.effects.variance(design_rows, draws.group_std[at])
        matrix = covariance.matrix(weights)
        for k, sites in enumerate(zip(draws.site_precision[at], draws.site_linear[at], strict=True)):
            posterior = condition(matrix, Sites(*sites))
            mean[at, k] = cross @ posterior.dual
            variance[at, k] = prior - posterior.explained(cross)
    variance = np.maximum(variance, 0.0)
    return ScoreMoments(mean, variance, draws.parameters, draws.probability)
