r"""The factors of the variational posterior, and the updates and bound terms that all BEMKL models share.

Common generative story (Gönen 2012, §3; normal distributions by mean and variance)::

    λ_i ~ Gamma,  a_i | λ_i ~ N(0, 1/λ_i)                  weights over training samples
    g_mi | a    ~ N(k_mi' a, 1/υ)                          intermediate outputs, one row per kernel
    γ ~ Gamma,  b | γ ~ N(0, 1/γ);  ω_m ~ Gamma, e_m | ω_m ~ N(0, 1/ω_m)
    f_i | b,e,g ~ N(e' g_i + b, 1/ε)                       latent score (classification) or target (regression)

The paper has υ = ε = 1 in classification. Gamma distributions are given by concentration (shape) and rate;
the paper's second parameter is a scale, the reciprocal of the rate.

`WeightCovariance` is the covariance of q(b, e) for `many_kernels`, in parts. `Dirichlet` and `SpikeSlab` are priors
on the kernel weights that other Bayesian formulations use. BEMKL gives every weight e_m a normal distribution whose
precision has a Gamma prior, which keeps every update in closed form; they do not, and a model that has one is
sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.acceleration import CovarianceCoordinate
from bayesmkl._numerics.arrays import Array, is_numpy, namespace, special_functions
from bayesmkl._numerics.linalg import DiagonalPlusLowRank, bordered, plus_diagonal, spd_inverse
from bayesmkl.kernels.stacks.base import Stack

LOG_2PI = math.log(2.0 * math.pi)
# The acceleration measures this many intermediate outputs, or those of this many samples if that is more.
PROBED_ENTRIES, PROBED = 2**13, 16

# What finds q(G), and q(b, e), with the parameters of `update_intermediate` and `update_readout`.
IntermediateUpdate = Callable[..., tuple[Any, Any]]
ReadoutUpdate = Callable[[Any, Any, Any, Any], Any]


class Gamma(NamedTuple):
    """Gamma distribution by concentration (shape) and rate (1 / scale).

    Parameters
    ----------
    concentration : float or ndarray of any shape
        Shape of the distribution, positive.
    rate : float or ndarray of the shape of `concentration`
        The reciprocal of the scale, positive.

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
        xp = namespace(self.rate)
        concentration = xp.asarray(self.concentration, dtype=self.rate.dtype)
        return special_functions(self.rate).digamma(concentration) - xp.log(self.rate)

    @property
    def mean_reciprocal(self) -> Any:
        """Expectation of the reciprocal; needs a concentration above one."""
        return self.rate / (self.concentration - 1.0)

    def bound(self, prior: Gamma) -> Any:
        """Return ``E[log prior] + entropy``, summed: this factor's own share of the ELBO.

        Parameters
        ----------
        prior : Gamma
            Concentration and rate of the prior, one for all entries of this factor or one for each.

        Returns
        -------
        float
            In nats; minus the Kullback-Leibler divergence from the prior, at most 0.
        """
        return -gamma_divergence(self.concentration, self.rate, prior.concentration, prior.rate).sum()


class Gaussian(NamedTuple):
    """Multivariate normal distribution; `log_det` is the log determinant of `cov`.

    Shapes: mean (d,), cov (d, d). Several independent ones have a leading axis in all three fields.
    """

    mean: Any
    cov: Any
    log_det: Any

    @classmethod
    def from_moments(cls, mean: Array, cov: Array) -> Gaussian:
        """Build the factor from mean and covariance alone."""
        return cls(mean, cov, namespace(cov).linalg.slogdet(cov)[1])

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        return self.cov.diagonal(axis1=-2, axis2=-1)

    @property
    def square(self) -> Any:
        """Elementwise second moments, shaped as the mean."""
        return self.mean**2 + self.variance

    @property
    def each(self) -> list[Gaussian]:
        """The distributions along a leading axis, or the one."""
        return [self] if self.mean.ndim == 1 else [Gaussian(*own) for own in zip(*self, strict=True)]

    @property
    def log_folds(self) -> float:
        """Log of what the prior's density is, relative to that over all of space: nothing is cut off here."""
        return 0.0

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return NumPy draws of one distribution, shape (n_draws, d).

        The Cholesky factor is that of the correlation matrix: pruned kernels have variances far below the rounding
        errors of the others.
        """
        if isinstance(self.cov, WeightCovariance):
            return self.mean + self.cov.draw(n_draws, rng)
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
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.mean.shape[-1])

    @property
    def entropy(self) -> Any:
        """Entropy of all columns together, in nats."""
        xp, n_samples = namespace(self.mean), self.n_samples
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
        return xp.broadcast_to(self.cov.diagonal(axis1=-2, axis2=-1)[..., None], self.mean.shape)

    @property
    def total_cov(self) -> Any:
        """Sum over samples of the covariances."""
        return self.mean.shape[-1] * self.cov

    def squared_distance(self, projection: Array) -> Any:
        """``E (g_mi - projection_mi)²``, summed over kernels and samples."""
        residual = self.mean - projection
        spread = self.mean.shape[-1] * self.cov.trace(axis1=-2, axis2=-1)
        return (residual * residual).sum(axis=(-2, -1)) + spread


class ReadoutMoments(NamedTuple):
    """Moments of q(b, e) that the updates need."""

    intercept: Any  # E[b]
    weights: Any  # E[e], (n_kernels,)
    weights_square: Any  # E[e e^T], (n_kernels, n_kernels)
    intercept_weights: Any  # E[b e], (n_kernels,)


def readout_moments(mean: Array, cov: Array) -> ReadoutMoments:
    """Split mean and covariance of q(b, e), intercept first, into the moments that the updates use."""
    moment = mean[:, None] * mean[None, :] + cov
    return ReadoutMoments(mean[0], mean[1:], moment[1:, 1:], moment[0, 1:])


def project(stack: Stack, dual: Array) -> Any:
    """Return ``K_m a``, (n_kernels, n_samples)."""
    return stack.apply(dual)


def adjoin(stack: Stack, intermediate: Array) -> Any:
    """Return ``sum_m K_m' g_m``, (n_train,)."""
    return stack.adjoint(intermediate)


# --------------------------------------------------------------------------------------------- updates, §4.1


def update_precision(prior: Gamma, square: Array) -> Gamma:
    """Update q(λ), q(γ), q(ω): the precision of zero-mean normal variables with second moments `square` (§4.1)."""
    return Gamma(prior.concentration + 0.5, prior.rate + 0.5 * square)


def update_noise_precision(prior: Gamma, error: Array, size: Array | float) -> Gamma:
    """Update q(υ), q(ε) of regression: the precision of `size` residuals with expected squared sum `error`."""
    return Gamma(prior.concentration + 0.5 * size, prior.rate + 0.5 * error)


def update_dual(
    gram: Array, pull: Array, sample_precision: Array, intermediate_precision: Array | float
) -> Gaussian:
    """Update q(a), equation (3).

    Parameters
    ----------
    gram : array of shape (n_train, n_train)
        ``stack.gram()`` of the training kernels.
    pull : array of shape (n_train,)
        ``stack.adjoint(E[G])``, all that q(a) needs of the intermediate outputs.
    sample_precision : array of shape (n_train,)
        E[λ].
    intermediate_precision : float
        E[υ], 1/σ_g² in classification.
    """
    cov, log_det = spd_inverse(plus_diagonal(gram, sample_precision, intermediate_precision), overwrite=True)
    return Gaussian(intermediate_precision * (cov @ pull), cov, log_det)


def update_intermediate(
    stack: Stack,
    dual_mean: Array,
    latent: Array,
    readout: Array,
    readout_cov: Array,
    intermediate_precision: Array | float,
    latent_precision: Array | float,
) -> tuple[Any, IntermediateOutputs]:
    """Update q(G), §4.1, display after (3).

    A stack that evaluates its kernels whenever they are needed does so once: with the kernels of some samples at
    hand, E[G] of these is multiplied by them at once, which `carry` asks for next.

    Parameters
    ----------
    stack : stack of training kernels
    dual_mean : array of shape (n_train,)
        E[a].
    latent : array of shape (n_samples,)
        E[f] (classification) or the target (regression).
    readout, readout_cov : arrays of shape (1 + n_kernels,) and (1 + n_kernels, 1 + n_kernels)
        Mean and covariance of q(b, e).
    intermediate_precision, latent_precision : float
        E[υ] and E[ε].

    Returns
    -------
    projection : array of shape (n_kernels, n_samples)
        ``K_m E[a]``.
    intermediate : IntermediateOutputs
    """
    moments = readout_moments(readout, readout_cov)
    precision = plus_diagonal(moments.weights_square, intermediate_precision, latent_precision)
    cov, log_det = spd_inverse(precision, overwrite=True)
    # cov (υ projection + ε (E[e] f' - E[b e] 1')), where the second part needs no product of matrices
    mixing = intermediate_precision * cov
    slope, offset = (latent_precision * (cov @ each) for each in (moments.weights, moments.intercept_weights))
    from_scores = slope[:, None] * latent - offset[:, None]
    projection, mean = stack.apply_and_adjoin(dual_mean, mixing, from_scores)
    return projection, IntermediateOutputs(mean, cov, log_det)


def readout_design(intermediate: IntermediateOutputs) -> Any:
    """Return E of ``[1; G] [1; G]^T``, which equation (4) adds to the prior precisions (erratum: E[G G^T]).

    Of `many_kernels`, q(G) itself: there is no such matrix.
    """
    if isinstance(intermediate.cov, DiagonalPlusLowRank):
        return intermediate
    mean, n_samples = intermediate.mean, intermediate.n_samples
    return bordered(n_samples, mean.sum(axis=1), mean @ mean.T + n_samples * intermediate.cov)


def readout_target(intermediate: IntermediateOutputs, latent: Array) -> Any:
    """``[1; E[G]] E[f]``, the linear term of equation (4)."""
    xp = namespace(latent)
    return xp.concatenate([latent.sum(keepdims=True), intermediate.mean @ latent])


def readout_equation(
    intermediate: IntermediateOutputs, latent: Array, latent_precision: Array | float
) -> tuple[Any, Any, Any]:
    """Return design and linear term of equation (4), and the factor of both that is left to `update_readout`."""
    return readout_design(intermediate), readout_target(intermediate, latent), latent_precision


def readout_precision(intercept: Gamma, kernel: Gamma) -> Any:
    """``[E[γ], E[ω]]``, shape (n_outputs + n_kernels,)."""
    xp = namespace(kernel.rate)
    return xp.concatenate([xp.reshape(intercept.mean, (-1,)), kernel.mean])


def update_readout(
    design: Array, target: Array, prior_precision: Array, latent_precision: Array | float
) -> Gaussian:
    """Update q(b, e), equation (4).

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
    cov, log_det = spd_inverse(plus_diagonal(design, prior_precision, latent_precision), overwrite=True)
    return Gaussian(latent_precision * (cov @ target), cov, log_det)


def latent_mean(intermediate: IntermediateOutputs, readout: Gaussian) -> Any:
    """Return the expected score ``E[e]' E[g_i] + E[b]`` of every sample, shape (n_samples,)."""
    return readout.mean[1:] @ intermediate.mean + readout.mean[0]


# --------------------------------------------------------------------------------------------- acceleration


def probe(intermediate: Array) -> Any:
    """Return E[G] of samples at regular distances, of all of them where these are few.

    A carry holds `pull` = ``sum_m K_m' E[g_m]``, from which the next sweep starts, and this. No update reads it: it
    measures for the acceleration how far E[G] is from being fixed, which its projection `pull` does not tell.
    """
    n_probed = max(PROBED, PROBED_ENTRIES // intermediate.shape[-2])
    return intermediate[..., :: -(-intermediate.shape[-1] // n_probed)]


def probe_scale(intermediate: Any) -> Any:
    """Return the reciprocal scale of a probe: root precisions of its kernels, times root weights of samples."""
    variance = probe(intermediate.variance)
    distance = -(-intermediate.mean.shape[-1] // variance.shape[-1])  # from one probed sample to the next
    return distance**0.5 / namespace(intermediate.mean).sqrt(variance)


def readout_cov_scale(readout: Gaussian) -> Any:
    """Return the reciprocal scale of log standard deviations and correlations: 1 for all that are measured."""
    if isinstance(readout.cov, WeightCovariance):
        return np.ones(len(readout.mean))
    xp = namespace(readout.mean)
    flat = xp.ones((CovarianceCoordinate.size(readout.cov),), dtype=readout.mean.dtype)
    return xp.ones_like(CovarianceCoordinate.measure(flat, readout.cov))


# ------------------------------------------------------------------------------------------ bound terms, (2)


class PrecisionMoments(NamedTuple):
    """First moments of a noise precision: of itself and of its logarithm."""

    mean: Any
    log_mean: Any


UNIT_PRECISION = PrecisionMoments(1.0, 0.0)


def known_precision(like: Array, value: Array | float) -> PrecisionMoments:
    """Return the moments of a precision that is known, in the namespace of `like`."""
    xp = namespace(like)
    return PrecisionMoments(value, xp.log(xp.asarray(value, dtype=like.dtype)))


def expected_zero_mean(square: Array, precision: Gamma) -> Any:
    """``E[log N(x; 0, 1/precision)]``, summed, for x with second moments `square`."""
    return 0.5 * (precision.log_mean - LOG_2PI - precision.mean * square).sum()


def expected_residual(error: Array, size: Array | float, precision: PrecisionMoments | Gamma) -> Any:
    """``E[log N(residual; 0, 1/precision)]`` over `size` residuals with expected squared sum `error`.

    With one error per output, each of `size` residuals, it is summed over them.
    """
    return (0.5 * (size * (precision.log_mean - LOG_2PI) - precision.mean * error)).sum()


def intermediate_error(
    intermediate: IntermediateOutputs, projection: Array, gram: Array, dual: Gaussian
) -> Any:
    """``E ||g_mi - k_mi' a||²``, summed over kernels and samples."""
    return intermediate.squared_distance(projection) + namespace(gram).vdot(gram, dual.cov)


def score_error(
    scores: Array, intermediate: IntermediateOutputs, readout: Gaussian, design: Array | None = None
) -> Any:
    """``E (scores_i - e' g_i - b)²``, summed over samples; every term of it is non-negative.

    `design` is `readout_design` of the intermediate outputs, which vary independently of (b, e), where it is at hand.
    """
    if design is None:
        design = readout_design(intermediate)
    weights, residual = readout.mean[1:], scores - latent_mean(intermediate, readout)
    from_scores = (intermediate.score_weight * residual * residual).sum()
    if isinstance(readout.cov, WeightCovariance):
        from_readout = readout.cov.design_product
    else:
        from_readout = namespace(design).vdot(readout.cov, design)
    return from_scores + from_readout + intermediate.n_samples * (weights @ (intermediate.cov @ weights))


# ---------------------------------------------------------------------------- covariance of q(b, e) for many kernels


class WeightCovariance(NamedTuple):
    """Covariance of q(b, e), in parts: the counterpart of a matrix (1 + n_kernels, 1 + n_kernels), intercept first.

    ``covariance @ x``, ``covariance[rows, columns]``, ``diagonal`` and ``np.asarray`` are those of an array.
    """

    weights: DiagonalPlusLowRank  # C, of e
    first_order: DiagonalPlusLowRank  # C₁
    variance: np.ndarray  # (1 + n_kernels,), of b and e
    cross: np.ndarray  # (n_kernels,), of b with e
    slope: np.ndarray  # (n_kernels,): E[b | e] falls by slope' e
    intercept_variance: float  # of b given e
    design_product: (
        float  # sum of the entries of `readout_design` times those of this, by the equation for it
    )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.variance), len(self.variance)

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        cross = self.cross if other.ndim == 1 else self.cross[:, None]
        top = self.variance[0] * other[:1] + (self.cross @ other[1:])[None]
        return np.concatenate([top, cross * other[:1] + self.weights @ other[1:]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        dense = bordered(self.variance[0], self.cross, np.asarray(self.weights))
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def diagonal(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> np.ndarray:
        """Return the variances; the parameters of the array method are of no use here."""
        return self.variance

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws of a normal distribution of mean zero with this covariance, (n_draws, 1 + n_kernels)."""
        weights = self.weights.draw(n_draws, rng)
        noise = np.sqrt(self.intercept_variance) * rng.standard_normal(n_draws)
        return np.column_stack([noise - weights @ self.slope, weights])


class WeightCovarianceCoordinate:
    """Coordinates of a `WeightCovariance`: log standard deviations, and the correlations of b with e.

    The rest is not mixed but kept: an update has little of it, and any start is a valid one.
    """

    @staticmethod
    def forward(value: WeightCovariance) -> np.ndarray:
        """Return the vector that is mixed."""
        scale = np.sqrt(value.variance)
        return np.concatenate([np.log(scale), value.cross / (scale[0] * scale[1:])])

    @staticmethod
    def size(like: WeightCovariance) -> int:
        """Return the length of `forward`."""
        return 2 * len(like.variance) - 1

    @staticmethod
    def backward(vector: np.ndarray, like: WeightCovariance) -> WeightCovariance:
        """Put mixed values into the latest covariance."""
        scale = np.exp(vector[: len(like.variance)])
        return like._replace(variance=scale * scale, cross=vector[len(scale) :] * scale[0] * scale[1:])

    @staticmethod
    def measure(vector: np.ndarray, like: WeightCovariance) -> np.ndarray:
        """Return the log standard deviations."""
        return vector[: len(like.variance)]


def cov_of_weights(cov: np.ndarray | WeightCovariance, n_outputs: int) -> Any:
    """Return the covariance of e, of that of q(b, e) with `n_outputs` intercepts."""
    return cov.weights if isinstance(cov, WeightCovariance) else cov[n_outputs:, n_outputs:]


# ------------------------------------------------------------------------------------------- priors on kernel weights


class Dirichlet(NamedTuple):
    """Kernel weights on the simplex: non-negative, with sum one.

    Parameters
    ----------
    concentration : float or array of shape (n_kernels,), default=1.0
        Positive. One is uniform on the simplex, smaller values favor few kernels, larger ones favor equal weights.

    References
    ----------
    Girolami, M. and Rogers, S. (2005). Hierarchic Bayesian models for kernel learning. ICML.

    Damoulas, T. and Girolami, M. A. (2008). Probabilistic multi-class multi-kernel learning: on protein fold
    recognition and remote homology detection. Bioinformatics 24(10).

    Examples
    --------
    >>> Dirichlet(concentration=0.5)
    Dirichlet(concentration=0.5)
    """

    concentration: Any = 1.0


class SpikeSlab(NamedTuple):
    """Kernel weights e_m = s_m w_m that are zero unless a Bernoulli switch is on.

    The switch is s_m ~ Bernoulli(inclusion), the weight w_m ~ N(0, scale²), all of them independent.

    Parameters
    ----------
    inclusion : float or array of shape (n_kernels,), default=0.5
        Prior probability, strictly between 0 and 1, that a kernel is used.
    scale : float or array of shape (n_kernels,), default=1.0
        Standard deviation of the weight of a kernel that is used; positive.

    References
    ----------
    Titsias, M. K. and Lázaro-Gredilla, M. (2011). Spike and slab variational inference for multi-task and multiple
    kernel learning. NeurIPS.

    Examples
    --------
    >>> SpikeSlab(inclusion=0.2)
    SpikeSlab(inclusion=0.2, scale=1.0)
    """

    inclusion: Any = 0.5
    scale: Any = 1.0


# ---------------------------------------------------------------------------------- divergence of Gamma distributions


LARGE = 16.0  # from this shape on four terms of Stirling's series are exact to rounding
SERIES = ((1, 1 / 12), (3, -1 / 360), (5, 1 / 1260), (7, -1 / 1680))  # powers of 1/a and their factors


def gamma_divergence(shape: Array, rate: Array, prior_shape: Array | float, prior_rate: Array | float) -> Any:
    r"""Return the Kullback-Leibler divergence of gamma distributions from others, in nats, shaped as `rate`.

    It is exact also where shapes are huge and nearly the same. For shapes :math:`a` and rates :math:`b`,

    .. math:: KL\bigl(G(a_q, b_q) \,\|\, G(a_p, b_p)\bigr)
       = \underbrace{\log\Gamma(a_p) - \log\Gamma(a_q) - (a_p - a_q)\,\psi(a_q)}_{D(a_p, a_q)}
       + a_p (r - \log(1 + r)) + (a_q - a_p)\, r, \qquad r = \frac{b_p}{b_q} - 1 .

    The two parts are never negative and small where the distributions are alike, but made of terms of the order of
    :math:`a \log a`. For large shapes Stirling's series takes those out of `D`: with its remainder
    :math:`S(a) = \frac{1}{12a} - \frac{1}{360a^3} + \dots` and :math:`u = a_p / a_q - 1`,

    .. math:: D = (a_p - \tfrac12) \log(1 + u) - a_q u + \tfrac{u}{2} + S(a_p) - S(a_q) - (a_p - a_q)\, S'(a_q) .

    Parameters
    ----------
    shape : float or array
    rate : array
    prior_shape, prior_rate : float or array

    Examples
    --------
    >>> import numpy as np
    >>> gamma_divergence(2.0, np.array([4.0, 8.0]), 2.0, 4.0).round(4)
    array([0.    , 0.3863])
    >>> (1e9 * gamma_divergence(1e10, np.array([1e10]), 1e10, 1e10 + 10)).round(4)
    array([5.])
    """
    xp = namespace(rate)
    shape, prior_shape, prior_rate = (
        xp.asarray(value, dtype=rate.dtype) for value in (shape, prior_shape, prior_rate)
    )
    change = (prior_rate - rate) / rate
    from_rates = (
        prior_shape * (change - _log_ratio(prior_rate, rate, change)) + (shape - prior_shape) * change
    )
    if is_numpy(rate) and np.ndim(shape) == np.ndim(prior_shape) == 0:
        return _divergence_of_numbers(float(prior_shape), float(shape)) + from_rates
    return _shape_divergence(prior_shape, shape) + from_rates


def _log_ratio(top: Array | float, bottom: Array, change: Array) -> Any:
    """Return ``log(top / bottom)``, by their relative `change` where that is small."""
    xp = namespace(change)
    near = xp.abs(change) < 0.5
    return xp.where(near, xp.log1p(xp.where(near, change, 0.0)), xp.log(top) - xp.log(bottom))


@lru_cache(maxsize=64)
def _divergence_of_numbers(a: float, b: float) -> Any:
    """Return ``D(a, b)`` of two numbers: shapes of most factors are the same in every sweep."""
    return _shape_divergence(np.asarray(a), np.asarray(b))


def _shape_divergence(a: Array | float, b: Array) -> Any:
    """Return ``D(a, b)``."""
    xp, special = namespace(b), special_functions(b)
    plain = special.gammaln(a) - special.gammaln(b) - (a - b) * special.digamma(b)
    large = xp.minimum(a, b) > LARGE
    a, b = xp.where(large, a, LARGE), xp.where(large, b, LARGE)
    change = (a - b) / b
    stirling: Any = (a - 0.5) * _log_ratio(a, b, change) - b * change + 0.5 * change
    for power, factor in SERIES:
        stirling = stirling + factor * (a**-power - b**-power + power * (a - b) * b ** -(power + 1))
    return xp.where(large, stirling, plain)
