r"""Densities of the collapsed model, for draws from any posterior.

With the precisions λ, γ, ω, the intermediate outputs G and the latent scores integrated out of the story in
`moments`,

.. math:: a_i, b, e_m \sim t_{2c}\bigl(0, \sqrt{r / c}\bigr), \qquad
   f_i \mid a, b, e \sim N(m_i, s^2), \quad m_i = \sum_m e_m k_{mi}^\top a + b, \quad
   s^2 = \frac{1}{\varepsilon} + \frac{e^\top e}{\upsilon},

with Gamma(c, r) the prior of the precision, :math:`\log p(y_i \mid a, b, e) = \log\Phi((y_i m_i - \nu)/s)` in
classification (where ε = 1 and 1/υ = σ_g²) and :math:`y_i \sim N(m_i, s^2)` in regression. Of grades it is
:math:`\log(\Phi((c_k - m_i)/s) - \Phi((c_{k-1} - m_i)/s))`, at the cut points of the problem; of censored targets the
same of the ends of an interval.

All functions take draws with one leading axis (``PosteriorDraws.flat()``) and return arrays that start with it.

Outputs that share e are independent given a, b and e: likelihoods and score moments are those of one output
(``PosteriorDraws.outputs()``), priors and variational densities those of all of them, where e counts once. Weights
that are not negative are half Student t variables.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaln, poch, xlogy

from bayesmkl._numerics.arrays import Array
from bayesmkl.bemkl.models.kernel_priors import Dirichlet, SpikeSlab
from bayesmkl.bemkl.models.model import Problem
from bayesmkl.bemkl.models.moments import LOG_2PI, Gamma, Gaussian
from bayesmkl.bemkl.models.nonnegative import CutOffNormals, NonnegativeReadout
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.kernels.stacks.base import Kernels


class NonnegativeGamma(Gamma):
    """Gamma prior on the precisions of half-normal variables: those of kernel weights that are not negative."""


def score_means(stack: Kernels, draws: PosteriorDraws) -> np.ndarray:
    """Return m, the mean score of every draw at the query points of `stack`, shape (n_draws, n_rows)."""
    return stack.weighted_products(draws.dual.T, draws.kernel_weights) + draws.intercept[:, None]


def score_scales(draws: PosteriorDraws, intermediate_precision: float | None = None) -> np.ndarray:
    """Return s, the standard deviation of the score around its mean, shape (n_draws,).

    Parameters
    ----------
    draws : PosteriorDraws
    intermediate_precision : float, optional
        1/σ_g² of a classifier; in regression υ and ε are drawn.
    """
    square = (draws.kernel_weights**2).sum(axis=-1)
    if draws.noise_precision is None:
        return np.sqrt(1.0 + square / intermediate_precision)
    return np.sqrt(1.0 / draws.noise_precision + square / draws.intermediate_precision)


def log_likelihood(
    problem: Problem,
    draws: PosteriorDraws,
    means: np.ndarray | None = None,
    scales: np.ndarray | None = None,
) -> np.ndarray:
    """Return ``log p(y_i | a, b, e)`` of the training samples, shape (n_draws, n_samples).

    Parameters
    ----------
    problem : Problem
        Of one output. Unlabeled samples, with y = 0, are known to have a label: ``P(|f| > margin)``. Cut points of
        grades must be known.
    draws : PosteriorDraws
    means : array of shape (n_draws, n_samples), optional
        `score_means` where they are at hand.
    scales : array that broadcasts with `means`, optional
        `score_scales` where they are at hand.
    """
    means = score_means(problem.stack, draws) if means is None else means
    if scales is None:
        scales = score_scales(draws, problem.intermediate_precision)[:, None]
    return problem.outcome.log_density(problem.y, means, scales)


def log_student(prior: Gamma, values: np.ndarray) -> np.ndarray:
    """Return the log density of zero-mean normal variables whose precisions have the prior Gamma(c, r).

    Examples
    --------
    >>> from scipy.stats import t
    >>> bool(np.isclose(log_student(Gamma(1.5, 3.0), 2.0), t(3.0, scale=2.0**0.5).logpdf(2.0)))
    True
    """
    c, r = prior.concentration, prior.rate
    normalizer = float(np.log(poch(c, 0.5))) - 0.5 * (math.log(r) + LOG_2PI)
    return normalizer - (c + 0.5) * np.log1p(0.5 * np.square(values) / r)  # no digits cancel where c is large


def log_prior(problem: Problem, draws: PosteriorDraws) -> np.ndarray:
    """Return the log prior density of (a, b, e), and of (υ, ε) in regression, shape (n_draws,).

    Under a spike-and-slab prior the density of e is that of its switches and of the weights that are on.
    """
    return sum(log_prior_terms(problem, draws).values(), start=np.zeros(len(draws.intercept)))


def log_prior_terms(problem: Any, draws: PosteriorDraws) -> dict[str, np.ndarray]:
    """Return the terms of `log_prior`, each of shape (n_draws,), by what they are the priors of.

    These are ``kernel_weights``, ``intercept`` and ``dual_coef``; in regression also ``intermediate_precision`` and
    ``noise_precision``.
    """
    priors = problem.priors
    terms = {
        "kernel_weights": log_weights_prior(priors.kernel, draws),
        "intercept": _summed(log_student(priors.intercept, draws.intercept)),
        "dual_coef": _summed(log_student(priors.sample, draws.dual)),
    }
    if draws.noise_precision is not None:
        terms["intermediate_precision"] = _summed(
            log_gamma(priors.intermediate, draws.intermediate_precision)
        )
        terms["noise_precision"] = _summed(log_gamma(priors.noise, draws.noise_precision))
    return terms


def _summed(values: np.ndarray) -> np.ndarray:
    """Sum over all axes but that of the draws."""
    return values.reshape(len(values), -1).sum(axis=1)


def log_weights_prior(prior: Gamma | Dirichlet | SpikeSlab, draws: PosteriorDraws) -> np.ndarray:
    """Return the log prior density of e, shape (n_draws,)."""
    weights = draws.kernel_weights
    if isinstance(prior, Gamma):
        folds = weights.shape[1] * math.log(2.0) if isinstance(prior, NonnegativeGamma) else 0.0
        return log_student(prior, weights).sum(axis=1) + folds
    if isinstance(prior, Dirichlet):
        c = np.broadcast_to(prior.concentration, weights.shape[1:])
        return xlogy(c - 1.0, weights).sum(axis=1) + gammaln(c.sum()) - gammaln(c).sum()
    slab = -0.5 * ((weights / prior.scale) ** 2 + LOG_2PI) - np.log(prior.scale)
    on = draws.kernel_inclusion > 0
    return np.where(on, np.log(prior.inclusion) + slab, np.log1p(-np.asarray(prior.inclusion))).sum(axis=1)


def log_gamma(law: Gamma, values: np.ndarray) -> np.ndarray:
    """Return the log density of Gamma variables."""
    c, r = law.concentration, np.asarray(law.rate)
    return c * np.log(r) - gammaln(c) + (c - 1.0) * np.log(values) - r * values


def log_variational(state: Any, draws: PosteriorDraws) -> np.ndarray:
    """Return the log density of (a, b, e), and of (υ, ε) in regression, under a variational posterior."""
    total = log_readout(state.readout, np.column_stack([draws.intercept, draws.kernel_weights]))
    if state.dual.mean.ndim == 1:
        total = total + _log_normal(state.dual, draws.dual)
    else:
        for fields, own in zip(zip(*state.dual, strict=True), draws.outputs(), strict=True):
            total = total + _log_normal(Gaussian(*fields), own.dual)
    if draws.noise_precision is not None:
        total = total + _summed(log_gamma(state.intermediate_precision, draws.intermediate_precision))
        total = total + _summed(log_gamma(state.noise_precision, draws.noise_precision))
    return total


def log_readout(readout: Gaussian | NonnegativeReadout, values: np.ndarray) -> np.ndarray:
    """Return the log density of (b, e) under q, for values of shape (n_draws, n_outputs + n_kernels)."""
    if not isinstance(readout, NonnegativeReadout):
        return _log_normal(readout, values)
    n_outputs = len(readout.slope)
    mean = readout.mean[:n_outputs] + (values[:, n_outputs:] - readout.mean[n_outputs:]) @ readout.slope.T
    misfit = (values[:, :n_outputs] - mean) ** 2 / readout.intercept_variance
    log_b = -0.5 * (misfit + np.log(readout.intercept_variance) + LOG_2PI).sum(axis=1)
    return log_b + log_weights(readout, values[:, n_outputs:])


def log_weights(readout: Gaussian | NonnegativeReadout, weights: np.ndarray) -> np.ndarray:
    """Return the log density of e under q, its marginal in q(b, e), for weights of shape (n_draws, n_kernels)."""
    if not isinstance(readout, NonnegativeReadout):
        n_kernels = weights.shape[1]
        mean, cov = readout.mean[-n_kernels:], readout.cov[-n_kernels:, -n_kernels:]
        return _log_normal(Gaussian.from_moments(mean, cov), weights)
    law, (linear, precision) = readout.weights, weights_quadratic(readout, weights.shape[1])
    mean, cov, entropy = law.moments()

    def exponent(moment: np.ndarray, square: Array) -> Any:
        return moment @ linear - 0.5 * square

    # the entropy is log Z less the mean of the exponent
    log_z = entropy + exponent(mean, (precision * (np.outer(mean, mean) + cov)).sum())
    return exponent(weights, ((weights @ precision) * weights).sum(axis=1)) - log_z


def weights_quadratic(
    readout: Gaussian | NonnegativeReadout, n_kernels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return h and P of the density of e under q, which is proportional to ``exp(h' e - e' P e / 2)``."""
    if not isinstance(readout, NonnegativeReadout):
        precision = np.linalg.inv(readout.cov[-n_kernels:, -n_kernels:])
        return precision @ readout.mean[-n_kernels:], precision
    law = readout.weights
    if isinstance(law, CutOffNormals):
        return law.location / law.scale**2, np.diag(law.scale**-2.0)
    return law.linear, law.precision


def _log_normal(law: Gaussian, values: np.ndarray) -> np.ndarray:
    std = np.sqrt(
        law.variance
    )  # pruned kernels: the correlation matrix is well scaled, the covariance is not
    root = np.linalg.cholesky(law.cov / np.outer(std, std))
    standard = np.linalg.solve(root, ((values - law.mean) / std).T)
    log_det = 2.0 * (np.log(std).sum() + np.log(np.diag(root)).sum())
    return -0.5 * ((standard**2).sum(axis=0) + len(std) * LOG_2PI + log_det)
