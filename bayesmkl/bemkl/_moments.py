r"""The factors of the variational posterior, and the updates and bound terms that all BEMKL models share.

Common generative story (Gönen 2012, §3; normal distributions by mean and variance)::

    λ_i ~ Gamma,  a_i | λ_i ~ N(0, 1/λ_i)                  weights over training samples
    g_mi | a    ~ N(k_mi' a, 1/υ)                          intermediate outputs, one row per kernel
    γ ~ Gamma,  b | γ ~ N(0, 1/γ);  ω_m ~ Gamma, e_m | ω_m ~ N(0, 1/ω_m)
    f_i | b,e,g ~ N(e' g_i + b, 1/ε)                       latent score (classification) or target (regression)

The paper has υ = ε = 1 in classification. Gamma distributions are given by concentration (shape) and rate;
the paper's second parameter is a scale, the reciprocal of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import namespace, special_functions
from bayesmkl._numerics.linalg import spd_inverse

__all__ = [
    "UNIT_PRECISION",
    "Gamma",
    "Gaussian",
    "IntermediateOutputs",
    "PrecisionMoments",
    "ReadoutUpdate",
    "expected_residual",
    "intermediate_error",
    "intermediate_scale",
    "known_precision",
    "latent_mean",
    "readout_cov_scale",
    "readout_design",
    "readout_precision",
    "readout_target",
    "score_error",
    "shared_bound",
    "update_dual",
    "update_intermediate",
    "update_noise_precision",
    "update_precision",
    "update_readout",
]

LOG_2PI = math.log(2.0 * math.pi)

# What finds q(b, e), with the parameters of `update_readout`.
ReadoutUpdate = Callable[[Any, Any, Any, Any], Any]


class Gamma(NamedTuple):
    """Gamma distribution by concentration (shape) and rate (1 / scale).

    Examples
    --------
    >>> Gamma(2.0, 4.0).mean
    0.5
    """

    concentration: Any
    rate: Any

    @property
    def mean(self) -> Any:
        """Expectation."""
        return self.concentration / self.rate

    @property
    def log_mean(self) -> Any:
        """Expectation of the logarithm."""
        return _digamma(self.rate, self.concentration) - namespace(self.rate).log(self.rate)

    @property
    def mean_reciprocal(self) -> Any:
        """Expectation of the reciprocal; needs a concentration above one."""
        return self.rate / (self.concentration - 1.0)

    def bound(self, prior: Gamma) -> Any:
        """Return ``E[log prior] + entropy``, summed: this factor's own share of the ELBO."""
        xp, special = namespace(self.rate), special_functions(self.rate)
        concentration = xp.asarray(self.concentration, dtype=self.rate.dtype)
        rate = xp.asarray(prior.rate, dtype=self.rate.dtype)
        shape = xp.asarray(prior.concentration, dtype=self.rate.dtype)
        log_prior = shape * xp.log(rate) - special.gammaln(shape) + (shape - 1.0) * self.log_mean
        entropy = (
            concentration
            - xp.log(self.rate)
            + special.gammaln(concentration)
            + (1.0 - concentration) * special.digamma(concentration)
        )
        return (log_prior - rate * self.mean + entropy).sum()


class Gaussian(NamedTuple):
    """Multivariate normal distribution; `log_det` is the log determinant of `cov`.

    Shapes: mean (d,), cov (d, d). Several independent ones have a leading axis in all three fields.
    """

    mean: Any
    cov: Any
    log_det: Any

    @classmethod
    def from_moments(cls, mean: Any, cov: Any) -> Gaussian:
        """Build the factor from mean and covariance alone."""
        return cls(mean, cov, namespace(cov).linalg.slogdet(cov)[1])

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        return namespace(self.cov).diagonal(self.cov, axis1=-2, axis2=-1)

    @property
    def square(self) -> Any:
        """Elementwise second moments, shaped as the mean."""
        return self.mean**2 + self.variance

    @property
    def log_folds(self) -> float:
        """Log of what the prior's density is, relative to that over all of space: nothing is cut off here."""
        return 0.0

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return NumPy draws of one distribution, shape (n_draws, d).

        The Cholesky factor is that of the correlation matrix: pruned kernels have variances far below the rounding
        errors of the others.
        """
        std = np.sqrt(self.variance)
        root = np.linalg.cholesky(self.cov / np.outer(std, std))
        return self.mean + std * (rng.standard_normal((n_draws, len(std))) @ root.T)

    @property
    def entropy(self) -> Any:
        """Entropy in nats, of all distributions together."""
        return 0.5 * (self.mean.size * (1.0 + LOG_2PI) + namespace(self.mean).sum(self.log_det))


class IntermediateOutputs(NamedTuple):
    """q(G): independent columns g_i with one shared covariance.

    Shapes: mean (n_kernels, n_samples), cov (n_kernels, n_kernels); `log_det` is that of `cov`. With several outputs
    the mean has a leading axis of them; the covariance has one too unless all outputs share it.
    """

    mean: Any
    cov: Any
    log_det: Any

    @property
    def entropy(self) -> Any:
        """Entropy of all columns together, in nats."""
        xp, n_samples = namespace(self.mean), self.mean.shape[-1]
        log_dets = xp.broadcast_to(self.log_det, self.mean.shape[:-2])
        return 0.5 * (self.mean.size * (1.0 + LOG_2PI) + n_samples * log_dets.sum())

    @property
    def n_projected(self) -> int:
        """Number of intermediate outputs, of one output, that follow a kernel: all of them."""
        return int(self.mean.shape[-2] * self.mean.shape[-1])

    @property
    def score_weight(self) -> Any:
        """Precision of a sample's score, relative to that of a sample with all views: one."""
        return namespace(self.mean).ones((1, self.mean.shape[-1]), dtype=self.mean.dtype)

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        xp = namespace(self.mean)
        return xp.diagonal(self.cov, axis1=-2, axis2=-1)[..., None] * xp.ones_like(self.mean)

    @property
    def total_cov(self) -> Any:
        """Sum over samples of the covariances."""
        return self.mean.shape[-1] * self.cov

    def squared_distance(self, projection: Any) -> Any:
        """``E (g_mi - projection_mi)²``, summed over kernels and samples."""
        residual = self.mean - projection
        spread = self.mean.shape[-1] * namespace(self.cov).trace(self.cov, axis1=-2, axis2=-1)
        return (residual * residual).sum(axis=(-2, -1)) + spread


class ReadoutMoments(NamedTuple):
    """What the updates need of q(b, e)."""

    intercept: Any  # E[b]
    weights: Any  # E[e], (n_kernels,)
    weights_square: Any  # E[e e^T], (n_kernels, n_kernels)
    intercept_weights: Any  # E[b e], (n_kernels,)


def _digamma(like: Any, value: Any) -> Any:
    return special_functions(like).digamma(namespace(like).asarray(value, dtype=like.dtype))


def readout_moments(mean: Any, cov: Any) -> ReadoutMoments:
    """Split mean and covariance of q(b, e), intercept first, into the moments that the updates use."""
    moment = mean[:, None] * mean[None, :] + cov
    return ReadoutMoments(mean[0], mean[1:], moment[1:, 1:], moment[0, 1:])


# ---------------------------------------------------------------------------------------------- updates, §4.1


def update_precision(prior: Gamma, square: Any) -> Gamma:
    """q(λ), q(γ), q(ω): the precision of zero-mean normal variables with second moments `square` (§4.1)."""
    return Gamma(prior.concentration + 0.5, prior.rate + 0.5 * square)


def update_noise_precision(prior: Gamma, error: Any, size: Any) -> Gamma:
    """q(υ), q(ε) of regression: the precision of `size` residuals with expected squared sum `error`."""
    return Gamma(prior.concentration + 0.5 * size, prior.rate + 0.5 * error)


def update_dual(
    stack: Any, gram: Any, intermediate: Any, sample_precision: Any, intermediate_precision: Any
) -> Gaussian:
    """q(a), equation (3).

    Parameters
    ----------
    stack : KernelStack
        Training kernels.
    gram : array of shape (n_train, n_train)
        ``stack.gram()``.
    intermediate : array of shape (n_kernels, n_samples)
        E[G].
    sample_precision : array of shape (n_train,)
        E[λ].
    intermediate_precision : float
        E[υ], 1/σ_g² in classification.
    """
    xp = namespace(gram)
    precision = intermediate_precision * gram + xp.diag(sample_precision)
    cov, log_det = spd_inverse(precision)
    return Gaussian(intermediate_precision * (cov @ stack.adjoint(intermediate)), cov, log_det)


def update_intermediate(
    projection: Any,
    latent: Any,
    readout: Any,
    readout_cov: Any,
    intermediate_precision: Any,
    latent_precision: Any,
) -> IntermediateOutputs:
    """q(G), §4.1.

    Parameters
    ----------
    projection : array of shape (n_kernels, n_samples)
        ``K_m E[a]``.
    latent : array of shape (n_samples,)
        E[f] (classification) or the target (regression).
    readout, readout_cov : arrays of shape (1 + n_kernels,) and (1 + n_kernels, 1 + n_kernels)
        Mean and covariance of q(b, e).
    intermediate_precision, latent_precision : float
        E[υ] and E[ε].
    """
    xp = namespace(projection)
    moments = readout_moments(readout, readout_cov)
    eye = xp.eye(projection.shape[0], dtype=projection.dtype)
    precision = intermediate_precision * eye + latent_precision * moments.weights_square
    cov, log_det = spd_inverse(precision)
    pull = moments.weights[:, None] * latent[None, :] - moments.intercept_weights[:, None]
    return IntermediateOutputs(
        cov @ (intermediate_precision * projection + latent_precision * pull), cov, log_det
    )


def readout_design(intermediate: IntermediateOutputs) -> Any:
    """E of ``[1; G] [1; G]^T``: the matrix that equation (4) adds to the prior precisions (erratum: E[G G^T])."""
    xp = namespace(intermediate.mean)
    n_samples = intermediate.mean.shape[1]
    totals = intermediate.mean.sum(axis=1)
    square = intermediate.mean @ intermediate.mean.T + n_samples * intermediate.cov
    top = xp.concatenate([xp.full((1,), float(n_samples), dtype=totals.dtype), totals])
    return xp.concatenate([top[None, :], xp.concatenate([totals[:, None], square], axis=1)])


def readout_target(intermediate: IntermediateOutputs, latent: Any) -> Any:
    """``[1; E[G]] E[f]``, the linear term of equation (4)."""
    xp = namespace(latent)
    return xp.concatenate([latent.sum(keepdims=True), intermediate.mean @ latent])


def readout_precision(intercept: Gamma, kernel: Gamma) -> Any:
    """``[E[γ], E[ω]]``, shape (n_outputs + n_kernels,)."""
    xp = namespace(kernel.rate)
    return xp.concatenate([xp.reshape(intercept.mean, (-1,)), kernel.mean])


def update_readout(design: Any, target: Any, prior_precision: Any, latent_precision: Any) -> Gaussian:
    """q(b, e), equation (4).

    Parameters
    ----------
    design : array of shape (1 + n_kernels, 1 + n_kernels)
        `readout_design`.
    target : array of shape (1 + n_kernels,)
        `readout_target`.
    prior_precision : array of shape (1 + n_kernels,)
        E[γ], then E[ω].
    latent_precision : float
        E[ε].
    """
    cov, log_det = spd_inverse(latent_precision * design + namespace(design).diag(prior_precision))
    return Gaussian(latent_precision * (cov @ target), cov, log_det)


def latent_mean(intermediate: IntermediateOutputs, readout: Gaussian) -> Any:
    """Return the expected score ``E[e]' E[g_i] + E[b]`` of every sample, shape (n_samples,)."""
    return readout.mean[1:] @ intermediate.mean + readout.mean[0]


# ---------------------------------------------------------------------------------------------- acceleration


def intermediate_scale(intermediate: Any) -> Any:
    """Reciprocal scale of E[G] for the acceleration, root precision of its kernel, shaped as E[G]."""
    return 1.0 / namespace(intermediate.mean).sqrt(intermediate.variance)


def readout_cov_scale(readout: Gaussian) -> Any:
    """Reciprocal scale of log standard deviations and correlations: 1 for all, flat."""
    size = readout.mean.shape[0]
    return namespace(readout.mean).ones((size + size * size,), dtype=readout.mean.dtype)


# ------------------------------------------------------------------------------------------- bound terms, (2)


class PrecisionMoments(NamedTuple):
    """First moments of a noise precision: of itself and of its logarithm."""

    mean: Any
    log_mean: Any


UNIT_PRECISION = PrecisionMoments(1.0, 0.0)


def known_precision(like: Any, value: Any) -> PrecisionMoments:
    """Moments of a precision that is known, in the namespace of `like`."""
    xp = namespace(like)
    return PrecisionMoments(value, xp.log(xp.asarray(value, dtype=like.dtype)))


def expected_zero_mean(square: Any, precision: Gamma) -> Any:
    """``E[log N(x; 0, 1/precision)]``, summed, for x with second moments `square`."""
    return 0.5 * (precision.log_mean - LOG_2PI - precision.mean * square).sum()


def expected_residual(error: Any, size: Any, precision: PrecisionMoments | Gamma) -> Any:
    """``E[log N(residual; 0, 1/precision)]`` over `size` residuals with expected squared sum `error`.

    With one error per output, each of `size` residuals, it is summed over them.
    """
    return (0.5 * (size * (precision.log_mean - LOG_2PI) - precision.mean * error)).sum()


def intermediate_error(intermediate: IntermediateOutputs, projection: Any, gram: Any, dual: Gaussian) -> Any:
    """``E ||g_mi - k_mi' a||²``, summed over kernels and samples."""
    return intermediate.squared_distance(projection) + (gram * dual.cov).sum()


def score_error(scores: Any, intermediate: IntermediateOutputs, readout: Gaussian) -> Any:
    """``E (scores_i - e' g_i - b)²``, summed over samples; every term of it is non-negative."""
    n_samples = intermediate.mean.shape[1]
    residual = scores - latent_mean(intermediate, readout)
    spread = readout.cov[1:, 1:] @ intermediate.mean + 2.0 * readout.cov[1:, :1]
    from_readout = n_samples * readout.cov[0, 0] + (spread * intermediate.mean).sum()
    weights_square = readout_moments(readout.mean, readout.cov).weights_square
    return (residual * residual).sum() + from_readout + n_samples * (weights_square * intermediate.cov).sum()


def shared_bound(
    priors: Any, state: Any, error: Any, intermediate_precision: PrecisionMoments | Gamma
) -> Any:
    """Terms of the ELBO for λ, a, G, γ, b, ω and e: their expected log priors plus their entropies.

    Parameters
    ----------
    priors : NamedTuple
        With the Gamma priors `sample`, `intercept` and `kernel`.
    state : NamedTuple
        With the factors `sample_precision`, `dual`, `intermediate`, `intercept_precision`, `kernel_precision`
        and `readout`.
    error : scalar, or array of shape (n_outputs,)
        `intermediate_error` of the state.
    intermediate_precision : PrecisionMoments or Gamma
        υ, known (classification) or with its factor (regression).
    """
    square, n_kernels = state.readout.square, state.intermediate.mean.shape[-2]
    n_intercepts = square.shape[0] - n_kernels  # one for every output
    return (
        state.sample_precision.bound(priors.sample)
        + expected_zero_mean(state.dual.square, state.sample_precision)
        + state.dual.entropy
        + expected_residual(error, state.intermediate.n_projected, intermediate_precision)
        + state.intermediate.entropy
        + state.intercept_precision.bound(priors.intercept)
        + expected_zero_mean(square[:n_intercepts], state.intercept_precision)
        + state.kernel_precision.bound(priors.kernel)
        + expected_zero_mean(square[n_intercepts:], state.kernel_precision)
        + state.readout.log_folds
        + state.readout.entropy
    )
