r"""Densities of the collapsed model, for draws from any posterior.

With the precisions λ, γ, ω, the intermediate outputs G and the latent scores integrated out of the story in
`_moments`,

.. math:: a_i, b, e_m \sim t_{2c}\bigl(0, \sqrt{r / c}\bigr), \qquad
   f_i \mid a, b, e \sim N(m_i, s^2), \quad m_i = \sum_m e_m k_{mi}^\top a + b, \quad
   s^2 = \frac{1}{\varepsilon} + \frac{e^\top e}{\upsilon},

with Gamma(c, r) the prior of the precision, :math:`\log p(y_i \mid a, b, e) = \log\Phi((y_i m_i - \nu)/s)` in
classification (where ε = 1 and 1/υ = σ_g²) and :math:`y_i \sim N(m_i, s^2)` in regression.

All functions take draws with one leading axis (``PosteriorDraws.flat()``) and return arrays that start with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr, xlogy

from bayesmkl.bemkl._moments import LOG_2PI, Gamma, Gaussian
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.kernel_priors import Dirichlet
from bayesmkl.bemkl.regression import RegressionProblem

__all__ = [
    "log_gamma",
    "log_label",
    "log_likelihood",
    "log_prior",
    "log_prior_terms",
    "log_student",
    "log_variational",
    "score_means",
    "score_scales",
]

BLOCK_SIZE = 2**24  # draws are taken in blocks, so that (n_kernels, n_rows, block) stays near this size


def score_means(stack: Any, draws: PosteriorDraws) -> np.ndarray:
    """Return m, the mean score of every draw at the query points of `stack`, shape (n_draws, n_rows)."""
    weights, block = draws.kernel_weights, max(1, BLOCK_SIZE // (stack.n_kernels * stack.n_rows))
    means = np.empty((len(weights), stack.n_rows))
    for start in range(0, len(weights), block):
        part = slice(start, start + block)
        means[part] = np.einsum("sm,mis->si", weights[part], stack.apply(draws.dual[part].T))
    return means + draws.intercept[:, None]


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


def log_label(mean: np.ndarray, scale: np.ndarray, margin: float) -> np.ndarray:
    """Return ``log P(y f > margin)`` for y = -1 and +1 along a last axis that is added to the shape of `mean`.

    The two do not sum to one: a score within the margin belongs to no label.
    """
    sides = np.stack([-mean - margin, mean - margin], axis=-1)
    return log_ndtr(sides / scale[..., None, None])


def log_likelihood(problem: Any, draws: PosteriorDraws, means: np.ndarray | None = None) -> np.ndarray:
    """Return ``log p(y_i | a, b, e)`` of the training samples, shape (n_draws, n_samples).

    Parameters
    ----------
    problem : BinaryProblem or RegressionProblem
    draws : PosteriorDraws
    means : array of shape (n_draws, n_samples), optional
        `score_means` where they are at hand.
    """
    means = score_means(problem.stack, draws) if means is None else means
    if isinstance(problem, RegressionProblem):
        scale = score_scales(draws)[:, None]
        return -0.5 * (((problem.y - means) / scale) ** 2 + LOG_2PI) - np.log(scale)
    scale = score_scales(draws, problem.intermediate_precision)[:, None]
    return log_ndtr((problem.y * means - problem.margin) / scale)


def log_student(prior: Gamma, values: np.ndarray) -> np.ndarray:
    """Return the log density of zero-mean normal variables whose precisions have the prior Gamma(c, r).

    Examples
    --------
    >>> from scipy.stats import t
    >>> bool(np.isclose(log_student(Gamma(1.5, 3.0), 2.0), t(3.0, scale=2.0**0.5).logpdf(2.0)))
    True
    """
    c, r = prior.concentration, prior.rate
    normalizer = gammaln(c + 0.5) - gammaln(c) + c * math.log(r) - 0.5 * LOG_2PI
    return normalizer - (c + 0.5) * np.log(r + 0.5 * np.square(values))


def log_prior(problem: Any, draws: PosteriorDraws) -> np.ndarray:
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
        "kernel_weights": _log_kernel_prior(priors.kernel, draws),
        "intercept": log_student(priors.intercept, draws.intercept),
        "dual_coef": log_student(priors.sample, draws.dual).sum(axis=1),
    }
    if isinstance(problem, RegressionProblem):
        terms["intermediate_precision"] = log_gamma(priors.intermediate, draws.intermediate_precision)
        terms["noise_precision"] = log_gamma(priors.noise, draws.noise_precision)
    return terms


def _log_kernel_prior(prior: Any, draws: PosteriorDraws) -> np.ndarray:
    weights = draws.kernel_weights
    if isinstance(prior, Gamma):
        return log_student(prior, weights).sum(axis=1)
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
    readout = np.column_stack([draws.intercept, draws.kernel_weights])
    total = _log_normal(state.dual, draws.dual) + _log_normal(state.readout, readout)
    if draws.noise_precision is not None:
        total = total + log_gamma(state.intermediate_precision, draws.intermediate_precision)
        total = total + log_gamma(state.noise_precision, draws.noise_precision)
    return total


def _log_normal(law: Gaussian, values: np.ndarray) -> np.ndarray:
    std = np.sqrt(
        law.variance
    )  # pruned kernels: the correlation matrix is well scaled, the covariance is not
    root = np.linalg.cholesky(law.cov / np.outer(std, std))
    standard = np.linalg.solve(root, ((values - law.mean) / std).T)
    log_det = 2.0 * (np.log(std).sum() + np.log(np.diag(root)).sum())
    return -0.5 * ((standard**2).sum(axis=0) + len(std) * LOG_2PI + log_det)
