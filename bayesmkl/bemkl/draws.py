r"""Draws from a posterior, whichever inference made them, in one shape.

Draws that leave this module are aligned: (a, e) and (-a, -e) are the same model, and of the two mirror images the one
is kept whose kernel weights have a positive inner product with the leading eigenvector of E[e e'], which itself
points to a positive sum. The rule does not depend on the order of kernels, draws or chains.

**Kernel shares** say how much of the score each kernel makes, on a scale that the model identifies. The weights (a,
e) are known only up to a common sign and, weakly, a scale: (c a, e / c) fits as well as (a, e). The spread of each
kernel's part of the score, ``sd_i(e_m k_mi' a)``, is free of both. Shares are these spreads divided by their sum.
Where several outputs share the weights, the spread of a kernel's part is that of all their scores, the root of its
mean variance over outputs.

**Densities of the collapsed model.** With the precisions λ, γ, ω, the intermediate outputs G and the latent scores
integrated out of the story in `moments`,

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
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, poch, xlogy

from bayesmkl._numerics.arrays import Array
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import LOG_2PI, Dirichlet, Gamma, Gaussian, SpikeSlab
from bayesmkl.bemkl.nonnegative import CutOffNormals, NonnegativeReadout
from bayesmkl.kernels.stacks.base import Stack


class PosteriorDraws(NamedTuple):
    """Draws of the parameters; all arrays start with the axes (n_chains, n_draws).

    A field that the model or the prior does not have is None. Where several outputs share the kernel weights, all but
    e, ω and s have an axis of outputs after these two.
    """

    kernel_weights: np.ndarray  # e, (n_chains, n_draws, n_kernels)
    intercept: np.ndarray  # b
    dual: np.ndarray  # a, (n_chains, n_draws, n_train)
    kernel_precision: Any = None  # ω, (n_chains, n_draws, n_kernels); None under priors without precisions
    intercept_precision: Any = None  # γ
    sample_precision: Any = None  # λ, (n_chains, n_draws, n_train)
    intermediate_precision: Any = None  # υ, regression
    noise_precision: Any = None  # ε, regression
    kernel_inclusion: Any = None  # s, (n_chains, n_draws, n_kernels), spike and slab

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.kernel_weights.shape[0]

    @property
    def n_draws(self) -> int:
        """Draws in each chain."""
        return self.kernel_weights.shape[1]

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.kernel_weights.shape[-1]

    @property
    def has_outputs(self) -> bool:
        """Whether there is an axis of outputs."""
        return self.intercept.ndim == self.kernel_weights.ndim

    def outputs(self) -> list[PosteriorDraws]:
        """Return the draws of every output, without the axis of outputs; all have the same kernel weights."""
        if not self.has_outputs:
            return [self]
        axis, names = self.intercept.ndim - 1, ("kernel_weights", "kernel_precision", "kernel_inclusion")
        shared: dict[str, Any] = {name: getattr(self, name) for name in names}
        nothing: dict[str, Any] = dict.fromkeys(names)
        own = self._replace(**nothing)
        return [
            own.map(lambda values, c=c: np.take(values, c, axis))._replace(**shared)
            for c in range(self.intercept.shape[axis])
        ]

    def flat(self) -> PosteriorDraws:
        """Return the draws of all chains in a row: every array starts with the one axis n_chains * n_draws."""
        return self.map(lambda values: values.reshape(-1, *values.shape[2:]))

    def map(self, function: Callable[..., Any]) -> PosteriorDraws:
        """Apply `function` to every array."""
        arrays: Any = (None if values is None else function(values) for values in self)
        return PosteriorDraws(*arrays)


def align_signs(draws: PosteriorDraws) -> PosteriorDraws:
    """Mirror draws (a, e) to (-a, -e) where that brings them to the side of the others.

    Examples
    --------
    >>> e = np.array([[[2.0, 1.0], [-2.0, -0.9]]])
    >>> aligned = align_signs(PosteriorDraws(e, np.zeros((1, 2)), np.ones((1, 2, 3))))
    >>> aligned.kernel_weights[0, 1], aligned.dual[0, 1]
    (array([2. , 0.9]), array([-1., -1., -1.]))
    """
    weights = draws.kernel_weights.reshape(-1, draws.n_kernels)
    reference = np.linalg.eigh(weights.T @ weights)[1][:, -1]
    reference = reference if reference.sum() >= 0.0 else -reference
    mirrored = draws.kernel_weights @ reference < 0.0
    sign = np.where(mirrored, -1.0, 1.0)[..., None]
    of_dual = sign[..., None] if draws.has_outputs else sign
    return draws._replace(kernel_weights=sign * draws.kernel_weights, dual=of_dual * draws.dual)


def draw_precisions(draws: PosteriorDraws, priors: Priors, rng: np.random.Generator) -> PosteriorDraws:
    """Add draws of λ, γ and (under a Gamma prior) ω to draws of a, b and e.

    Given its variable x, a precision with the prior Gamma(c, r) is Gamma(c + 1/2, r + x²/2), independent of all else.
    """

    def draw(prior: Gamma, values: np.ndarray) -> np.ndarray:
        return rng.gamma(prior.concentration + 0.5, 1.0 / (prior.rate + 0.5 * values**2))

    return draws._replace(
        sample_precision=draw(priors.sample, draws.dual),
        intercept_precision=draw(priors.intercept, draws.intercept),
        kernel_precision=draw(priors.kernel, draws.kernel_weights)
        if isinstance(priors.kernel, Gamma)
        else None,
    )


def variational_draws(state: Any, n_draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Draw one chain from the factors of a variational posterior; the mirror image is the posterior's own.

    Parameters
    ----------
    state : State
        With several outputs the draws have an axis of them.
    n_draws : int
    rng : numpy.random.Generator
    """

    def gamma(factor: Gamma) -> np.ndarray:
        rate = np.asarray(factor.rate)
        return rng.gamma(np.asarray(factor.concentration), 1.0 / rate, size=(n_draws, *rate.shape))[None]

    readout = state.readout.draw(n_draws, rng)
    if state.dual.mean.ndim == 1:
        intercept, weights, dual = readout[:, 0], readout[:, 1:], state.dual.draw(n_draws, rng)
    else:
        intercept, weights = np.split(readout, [len(state.dual.mean)], axis=1)
        dual = np.stack([own.draw(n_draws, rng) for own in state.dual.each], axis=1)
    draws = PosteriorDraws(
        weights[None],
        intercept[None],
        dual[None],
        gamma(state.kernel_precision),
        gamma(state.intercept_precision),
        gamma(state.sample_precision),
    )
    if state.noise_precision is None:
        return draws
    return draws._replace(
        intermediate_precision=gamma(state.intermediate_precision),
        noise_precision=gamma(state.noise_precision),
    )


# ------------------------------------------------------------------------------------------------------ kernel shares


N_DRAWS = 200


def share_draws(stack: Stack, dual: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the shares of given parameters.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    dual : array of shape (n_draws, n_train) or (n_outputs, n_draws, n_train)
    weights : array of shape (n_draws, n_kernels)

    Returns
    -------
    array of shape (n_draws, n_kernels)
        Every row sums to one (a row without any spread is uniform).
    """
    outputs = dual if dual.ndim == 3 else dual[None]
    variances = [stack.spread(draws.T).variance.T for draws in outputs]
    spread = np.sqrt(np.mean(variances, axis=0)) * np.abs(weights)
    total = spread.sum(axis=1, keepdims=True)
    uniform = np.full_like(spread, 1.0 / spread.shape[1])
    return np.divide(spread, total, out=uniform, where=total > 0.0)


def kernel_shares(
    stack: Stack, dual: Gaussian, readout: Gaussian, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and standard deviations of the shares, by Monte Carlo over q(a) q(e); means sum to one.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    dual, readout : Gaussian
        q(a), with a leading axis if there are several outputs, and q(b, e), all intercepts first.
    rng : numpy.random.Generator
    """
    draws = np.stack([output.draw(N_DRAWS, rng) for output in dual.each])
    shares = share_draws(stack, draws, readout.draw(N_DRAWS, rng)[:, len(draws) :])
    return shares.mean(axis=0), shares.std(axis=0, ddof=1)


def share_of_each(stack: Stack, draws: PosteriorDraws) -> np.ndarray:
    """Return the shares of draws with one leading axis, (n_draws, n_kernels)."""
    outputs = draws.outputs()
    dual = np.stack([own.dual for own in outputs]) if draws.has_outputs else draws.dual
    return share_draws(stack, dual, draws.kernel_weights)


def shares_of_draws(stack: Stack, draws: PosteriorDraws) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and standard deviations of the shares over draws with one leading axis."""
    shares = share_of_each(stack, draws)
    return shares.mean(axis=0), shares.std(axis=0, ddof=1)


# ----------------------------------------------------------------------------------- densities of the collapsed model


class NonnegativeGamma(Gamma):
    """Gamma prior on the precisions of half-normal variables: those of kernel weights that are not negative."""


def score_means(stack: Stack, draws: PosteriorDraws) -> np.ndarray:
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
    for law, own in zip(state.dual.each, draws.outputs(), strict=True):
        total = total + _log_normal(law, own.dual)
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
    law = readout.weights
    if isinstance(law, CutOffNormals):
        linear, precision = law.location / law.scale**2, np.diag(law.scale**-2.0)
    else:
        linear, precision = law.linear, law.precision
    mean, cov, entropy = law.moments()

    def exponent(moment: np.ndarray, square: Array) -> Any:
        return moment @ linear - 0.5 * square

    # the entropy is log Z less the mean of the exponent
    log_z = entropy + exponent(mean, (precision * (np.outer(mean, mean) + cov)).sum())
    return exponent(weights, ((weights @ precision) * weights).sum(axis=1)) - log_z


def _log_normal(law: Gaussian, values: np.ndarray) -> np.ndarray:
    std = np.sqrt(
        law.variance
    )  # pruned kernels: the correlation matrix is well scaled, the covariance is not
    root = np.linalg.cholesky(law.cov / np.outer(std, std))
    standard = np.linalg.solve(root, ((values - law.mean) / std).T)
    log_det = 2.0 * (np.log(std).sum() + np.log(np.diag(root)).sum())
    return -0.5 * ((standard**2).sum(axis=0) + len(std) * LOG_2PI + log_det)
