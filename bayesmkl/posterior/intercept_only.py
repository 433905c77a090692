r"""BEMKL without any kernel: intercepts alone, with exact evidence and predictions.

Without kernels every output has the score :math:`f_i \sim N(b, 1)`, or the target :math:`y_i \sim N(b,
1/\varepsilon)`, with the priors of the model on the precision of `b` and on ε. The precisions integrate out in closed
form, so that `b` is Student t and what is left is an integral over one variable,

.. math:: p(y) = \int p(y \mid b)\, p(b)\, db ,

which the trapezoidal rule takes in :math:`u` with :math:`b = \hat b + s \sinh u`, from the mode far into the tails of
Student t. Outputs have intercepts of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp
from scipy.stats import t as student

from bayesmkl.bemkl.moments import LOG_2PI, Gamma

STEPS = np.linspace(-12.0, 12.0, 1001)
NEAR = np.linspace(-8.0, 8.0, 1601)  # intercepts of scores, of which one is next to the mode


class InterceptOnly(NamedTuple):
    """One output without kernels.

    Attributes
    ----------
    log_evidence : float
        Of its targets, in nats.
    left_out : ndarray of shape (n_samples, 2) or (n_samples,)
        Log probabilities of scores beyond the margin, below and above, or the log density of the target, by the
        samples of the other folds.
    """

    log_evidence: float
    left_out: np.ndarray


def intercept_only(problem: Any, folds: Sequence[np.ndarray]) -> list[InterceptOnly]:
    """Return evidence and predictions of every output of a problem, as if it had no kernels.

    Parameters
    ----------
    problem : Problem
    folds : sequence of array of int
        Samples that are left out together; each sample is in one of them.
    """
    prior = problem.priors.intercept
    if problem.outcome.has_noise:
        return [_of_numbers(y, prior, problem.priors.noise, folds) for y in np.atleast_2d(problem.y)]
    return [_of_labels(y, prior, float(problem.outcome.margin), folds) for y in np.atleast_2d(problem.y)]


def _of_labels(y: np.ndarray, prior: Gamma, margin: float, folds: Sequence[np.ndarray]) -> InterceptOnly:
    n_above, n_below = int((y > 0.0).sum()), int((y < 0.0).sum())

    def sides(b: np.ndarray) -> np.ndarray:
        return log_ndtr(np.stack([-b - margin, b - margin]))

    counts = np.array([n_below, n_above])
    center = NEAR[np.argmax(counts @ sides(NEAR) + _log_prior(NEAR, prior))]
    b, log_volume = _nodes(center, 1.0 / np.sqrt(len(y)))
    each, log_weight = sides(b), log_volume + _log_prior(b, prior)
    left_out = np.empty((len(y), 2))
    for fold in folds:
        others = counts - [(y[fold] < 0.0).sum(), (y[fold] > 0.0).sum()]
        log_posterior = others @ each + log_weight
        left_out[fold] = logsumexp(each + log_posterior, axis=1) - logsumexp(log_posterior)
    return InterceptOnly(float(logsumexp(counts @ each + log_weight)), left_out)


def _of_numbers(y: np.ndarray, prior: Gamma, noise: Gamma, folds: Sequence[np.ndarray]) -> InterceptOnly:
    c, r = noise

    def log_density(n: int, squares: np.ndarray) -> np.ndarray:
        """Return the log density of n targets, ε integrated out, by their sum of squared distances from b."""
        constant = c * np.log(r) - gammaln(c) + gammaln(c + 0.5 * n) - 0.5 * n * LOG_2PI
        return constant - (c + 0.5 * n) * np.log(r + 0.5 * squares)

    n, mean = len(y), y.mean()
    b, log_volume = _nodes(mean, np.sqrt((2.0 * r + n * y.var()) / n) / np.sqrt(n))
    squares, log_weight = n * y.var() + n * (mean - b) ** 2, log_volume + _log_prior(b, prior)
    left_out = np.empty(n)
    for fold in folds:
        own = (y[fold, None] - b) ** 2
        others = squares - own.sum(axis=0)
        base = logsumexp(log_density(n - len(fold), others) + log_weight)
        left_out[fold] = logsumexp(log_density(n - len(fold) + 1, others + own) + log_weight, axis=1) - base
    return InterceptOnly(float(logsumexp(log_density(n, squares) + log_weight)), left_out)


def _log_prior(b: np.ndarray, prior: Gamma) -> np.ndarray:
    """Return the log density of a normal variable whose precision is Gamma."""
    return student.logpdf(b, 2.0 * prior.concentration, scale=np.sqrt(prior.rate / prior.concentration))


def _nodes(center: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes of the integral, and logs of their weights."""
    log_volume = np.log(scale * (STEPS[1] - STEPS[0])) + np.log(np.cosh(STEPS))
    return center + scale * np.sinh(STEPS), log_volume
