r"""Updates and bound terms of several outputs that share their kernel weights (Gönen 2012, §5.1).

Every output c, a class, a label or a real-valued target, has its own λ_c, a_c, G_c, γ_c, b_c and its own score or
target f_c; ω and e belong to all of them::

    g_cmi | a_c ~ N(k_mi' a_c, 1/υ_c),     f_ci | b, e, g ~ N(e' g_ci + b_c, 1/ε_c)

q(b, e) is one normal distribution over all intercepts, then the kernel weights. Factors hold all outputs along a
leading axis: E[a] is (n_outputs, n_train), E[G] is (n_outputs, n_kernels, n_samples). A noise precision is a number
for all outputs or an array of shape (n_outputs,). With one output these are the updates of `moments`.

**Samples that lack views.** An intermediate output g_mi exists without its kernel, only k_mi is unknown. Measured
from their means, the outputs of all views are taken as normal over the population, g_i ~ N(0, S), and what a sample
lacks (a) follows from what it has (o),

    g_ai | g_oi ~ N(B g_oi, C),      B = S_ao S_oo⁻¹,  C = S_aa - B S_oa.

With Λ = S⁻¹ and C = Λ_aa⁻¹ written into a matrix over all views, zero elsewhere, the outputs of all views have the
mean x_i = A g_oi, A = I - C Λ at the present views and zero at the absent ones, and the score is

    f_i | b, e, g_oi ~ N(e' x_i + b, (1 + ρ) / ε),      ρ / ε = E[e' C e]:

the absent outputs are integrated out, their mean in e' x_i and their spread in ρ (of targets; labels have ρ = 0, see
`missing`). Samples that lack the same views, one pattern, share A, ρ and the covariance of q(g_oi). Outputs
(classes, targets) have a matrix S of their own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.linalg import spd_inverse
from bayesmkl.bemkl.moments import (
    Gaussian,
    IntermediateOutputs,
)
from bayesmkl.kernels.presence import centered
from bayesmkl.kernels.stacks.base import Stack

# -------------------------------------------------------------------------------------------- samples that lack views


LOG_2PI = math.log(2.0 * math.pi)


class ViewMoments(NamedTuple):
    """Moments of the intermediate outputs of all views over the population, and the center of the kernels."""

    center: Any  # subtracted from the rows of the kernels, (n_kernels, n_train)
    mean: Any  # of the outputs after that, (n_outputs, n_kernels)
    cov: Any  # S, (n_outputs, n_kernels, n_kernels)

    def centered(self, stack: Any) -> Any:
        """Return a dense stack with its present rows measured from the center."""
        return centered(stack, self.center)


class Completion(NamedTuple):
    """Conditional moments of all views given the present ones, for every pattern."""

    slope: Any  # A, (n_outputs, n_patterns, n_kernels, n_kernels)
    cov: Any  # C, (n_outputs, n_patterns, n_kernels, n_kernels)


class AbsentViews(NamedTuple):
    """Missing views of every sample, and their conditional moments."""

    pattern: Any  # (n_samples,) integers
    counts: Any  # (n_patterns,) samples of each
    present: Any  # (n_patterns, n_kernels) of 0.0 and 1.0
    slope: Any  # A, (n_outputs, n_patterns, n_kernels, n_kernels)
    excess: Any  # ρ, (n_outputs, n_patterns)
    moments: ViewMoments

    @property
    def mask(self) -> Any:
        """1.0 where a sample has a view, (n_kernels, n_samples)."""
        return self.present[self.pattern].T


class CompletedOutputs(NamedTuple):
    """Moments of x_i under q(G), with one covariance per pattern; the counterpart of `IntermediateOutputs`."""

    mean: Any  # E[x], (n_outputs, n_kernels, n_samples); at present views E[g]
    cov: Any  # Cov[x], (n_outputs, n_patterns, n_kernels, n_kernels)
    log_det: Any  # of the covariance of g at present views, (n_outputs, n_patterns)
    absent: AbsentViews

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.mean.shape[2])

    @property
    def n_projected(self) -> Any:
        """Number of intermediate outputs, of one output, that follow a kernel."""
        return self.absent.counts @ self.absent.present.sum(axis=1)

    @property
    def entropy(self) -> Any:
        """Entropy of the present intermediate outputs, in nats."""
        size = self.mean.shape[0] * self.n_projected
        return 0.5 * (size * (1.0 + LOG_2PI) + (self.log_det @ self.absent.counts).sum())

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean; 1 at absent views."""
        absent = self.absent
        spread = namespace(self.cov).diagonal(self.cov, axis1=-2, axis2=-1)
        return (absent.present * spread + (1.0 - absent.present))[:, absent.pattern].mT

    @property
    def score_weight(self) -> Any:
        """Precision of the scores of incomplete samples, relative to complete ones, (n_outputs, n_samples)."""
        return 1.0 / (1.0 + self.absent.excess[:, self.absent.pattern])

    @property
    def total_cov(self) -> Any:
        """Weighted sum over samples of Cov[x], (n_outputs, n_kernels, n_kernels)."""
        weights = self.absent.counts / (1.0 + self.absent.excess)
        return (weights[..., None, None] * self.cov).sum(axis=1)

    def squared_distance(self, projection: Array) -> Any:
        """``E (g_cmi - projection_cmi)²``, summed over samples and the views that they have, (n_outputs,)."""
        residual = self.mean - projection
        return (self.absent.mask * (residual * residual + self.variance)).sum(axis=(1, 2))


def view_moments(state: Any) -> ViewMoments | None:
    """Return the moments that a posterior with absent views holds, or None."""
    intermediate = state.intermediate
    return intermediate.absent.moments if isinstance(intermediate, CompletedOutputs) else None


def view_patterns(present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct columns of `present`, (n_patterns, n_kernels), and which one every sample has.

    Parameters
    ----------
    present : bool array of shape (n_kernels, n_samples)

    Raises
    ------
    ValueError
        If a sample has no view at all.
    """
    without = np.flatnonzero(~present.any(axis=0))
    if len(without):
        raise ValueError(
            f"`X` must have at least one view of every sample; {len(without)} of {present.shape[1]} have none, "
            f"the first at index {without[0]}. Drop samples without any view."
        )
    patterns, index = np.unique(present, axis=1, return_inverse=True)
    return patterns.T.astype(np.float64), index.reshape(-1)


def completion(present: np.ndarray, cov: np.ndarray) -> Completion:
    """Compute the conditional moments of absent views given present ones, for every pattern.

    Parameters
    ----------
    present : array of shape (n_patterns, n_kernels), of 0.0 and 1.0
    cov : array of shape (n_outputs, n_kernels, n_kernels)
        S.
    """
    absent = 1.0 - present
    both = absent[:, :, None] * absent[:, None]
    precision, _ = spd_inverse(cov)  # Λ
    precision = precision[:, None]
    blocks = precision * both + present[:, :, None] * np.eye(present.shape[1])
    inverse, _ = spd_inverse(blocks.reshape(-1, *both.shape[1:]))
    spread = inverse.reshape(blocks.shape) * both  # C
    slope = (np.eye(present.shape[1]) - spread @ precision * absent[:, :, None]) * present[:, None]  # A
    return Completion(slope, spread)


def apply_by_pattern(matrices: np.ndarray, vectors: Array, pattern: np.ndarray) -> Any:
    """Multiply the vector of every sample by the matrix of its pattern, (n_outputs, n_samples, p).

    Parameters
    ----------
    matrices : array of shape (n_outputs, n_patterns, p, q)
    vectors : array of shape (n_outputs, n_samples, q)
    pattern : array of shape (n_samples,)
    """
    if not is_numpy(vectors):
        return (matrices[:, pattern] @ vectors[..., None])[..., 0]
    product = np.empty((*vectors.shape[:2], matrices.shape[2]))
    for number in range(
        matrices.shape[1]
    ):  # a product of matrices for each; gathered, they could be far too many
        rows = np.flatnonzero(pattern == number)
        product[:, rows] = vectors[:, rows] @ matrices[:, number].mT
    return product


def complete(
    absent: AbsentViews,
    projection: Array,
    latent: Array,
    weights: tuple[Any, Any, Any],
    upsilon: Array,
    epsilon: Array,
) -> CompletedOutputs:
    """Return q(g_oi) of every output and sample, and x_i.

    Parameters
    ----------
    absent : AbsentViews
    projection : array of shape (n_outputs, n_kernels, n_samples)
        ``K_m E[a_c]``, zero at absent views.
    latent : array of shape (n_outputs, n_samples)
        E[f] (classification) or the targets (regression).
    weights : tuple of arrays
        E[e], E[e e'] and, for every output, E[b_c e].
    upsilon, epsilon : arrays of shape (n_outputs or none, 1, 1)
        E[υ] and E[ε].
    """
    xp, (mean, square, cross) = namespace(projection), weights
    n_outputs, n_patterns, _, n_kernels = absent.slope.shape
    eye, pattern, slope = xp.eye(n_kernels, dtype=projection.dtype), absent.pattern, absent.slope
    noise = upsilon * xp.ones((n_outputs, 1, 1), dtype=projection.dtype)
    scale = epsilon / (1.0 + absent.excess)[..., None]  # (n_outputs, n_patterns, 1)
    # slopes are zero for absent views: their entries are independent of the others, and do not reach x
    precision = noise[..., None] * eye + scale[..., None] * (slope.mT @ square @ slope)
    flat, log_det = spd_inverse(precision.reshape(-1, n_kernels, n_kernels))
    cov = flat.reshape(precision.shape)
    of_absent = xp.log(noise[..., 0]) * (1.0 - absent.present).sum(axis=1)
    pull = apply_by_pattern(slope.mT, mean * latent[..., None] - cross[:, None], pattern)
    outputs = apply_by_pattern(slope @ cov, noise * projection.mT + scale[:, pattern] * pull, pattern)
    log_det = log_det.reshape(n_outputs, n_patterns) + of_absent
    return CompletedOutputs(outputs.mT, slope @ cov @ slope.mT, log_det, absent)


# ------------------------------------------------------------------------------------------------- several outputs

# q(G): one covariance for all samples, or one for every pattern of views that samples lack.
Intermediates = IntermediateOutputs | CompletedOutputs


def readout_of(output: int, readout: Gaussian, n_outputs: int) -> Gaussian:
    """Return the marginal q(b_c, e) of one output, intercept first, as NumPy arrays."""
    index = np.array([output, *range(n_outputs, len(readout.mean))])
    return Gaussian.from_moments(readout.mean[index], readout.cov[np.ix_(index, index)])


def project(stack: Stack, duals: Array) -> Any:
    """Return ``K_m a_c`` for every output, (n_outputs, n_kernels, n_samples), reading the kernels once."""
    return namespace(duals).moveaxis(stack.apply(duals.T), -1, 0)


def adjoin(stack: Stack, intermediate: Array) -> Any:
    """Return ``sum_m K_m' g_cm`` for every output, (n_outputs, n_train), reading the kernels once."""
    return stack.adjoint(namespace(intermediate).moveaxis(intermediate, 0, -1)).T


# ----------------------------------------------------------------------------------------------------- updates


def update_dual(
    gram: Array, pull: Array, sample_precision: Array, intermediate_precision: Array | float
) -> Gaussian:
    """Update q(a_c) of every output, equation (3).

    Parameters
    ----------
    gram : array of shape (n_train, n_train)
        ``stack.gram()`` of the training kernels.
    pull : array of shape (n_outputs, n_train)
        ``adjoin(stack, E[G])``, all that q(a_c) needs of the intermediate outputs.
    sample_precision : array of shape (n_outputs, n_train)
        E[λ].
    intermediate_precision : float or array of shape (n_outputs,)
        E[υ].
    """
    xp = namespace(gram)
    noise = xp.asarray(intermediate_precision)[..., None]
    diagonal = xp.eye(gram.shape[0], dtype=gram.dtype) * sample_precision[:, None, :]
    cov, log_det = spd_inverse(noise[..., None] * gram + diagonal)
    return Gaussian(noise * (cov @ pull[..., None])[..., 0], cov, log_det)


def update_intermediate(
    stack: Stack,
    duals: Array,
    latent: Array,
    readout: Array,
    readout_cov: Array,
    intermediate_precision: Array | float,
    latent_precision: Array | float,
    absent: AbsentViews | None = None,
) -> tuple[Any, Intermediates]:
    """Update q(G_c) of every output, §4.1; with the same precisions everywhere they share one covariance.

    Parameters
    ----------
    stack : stack of training kernels
    duals : array of shape (n_outputs, n_train)
        E[a_c].
    latent : array of shape (n_outputs, n_samples)
        E[f] (classification) or the targets (regression).
    readout, readout_cov : arrays of shape (d,) and (d, d), d = n_outputs + n_kernels
        Mean and covariance of q(b, e).
    intermediate_precision, latent_precision : float or array of shape (n_outputs,)
        E[υ] and E[ε].
    absent : AbsentViews, optional
        Missing views of the samples.

    Returns
    -------
    projection : array of shape (n_outputs, n_kernels, n_samples)
        ``K_m E[a_c]``.
    intermediate : Intermediates
    """
    projection = project(stack, duals)
    xp, (n_outputs, n_kernels, _) = namespace(projection), projection.shape
    upsilon, epsilon = (
        xp.asarray(value)[..., None, None] for value in (intermediate_precision, latent_precision)
    )
    moment, weights = readout[:, None] * readout + readout_cov, readout[n_outputs:]
    square, cross = moment[n_outputs:, n_outputs:], moment[:n_outputs, n_outputs:]
    if absent is not None:
        moments = (weights, square, cross)
        return projection, complete(absent, projection, latent, moments, upsilon, epsilon)
    from_scores = weights[:, None] * latent[:, None, :] - cross[..., None]
    eye = xp.eye(n_kernels, dtype=projection.dtype)
    cov, log_det = spd_inverse(upsilon * eye + epsilon * square)
    mean = cov @ (upsilon * projection + epsilon * from_scores)
    return projection, IntermediateOutputs(mean, cov, log_det)


def readout_design(intermediate: Intermediates, latent_precision: Array | float) -> Any:
    """Return the matrix that equation (4) adds to the prior precisions of all intercepts and the kernel weights.

    It is ``sum_ci ε_c E[x_ci x_ci']``, where x_ci has a one at the intercept of output c, and g_ci.
    """
    xp, mean = namespace(intermediate.mean), intermediate.mean
    n_outputs, _, n_samples = mean.shape
    epsilon = xp.broadcast_to(xp.asarray(latent_precision, dtype=mean.dtype), (n_outputs,))
    weight = xp.broadcast_to(intermediate.score_weight, (n_outputs, n_samples))
    weighted = weight[:, None] * mean
    totals = epsilon[:, None] * weighted.sum(axis=2)
    square = weighted @ mean.mT + intermediate.total_cov
    square = (epsilon[:, None, None] * square).sum(axis=0)
    top = xp.concatenate([xp.diag(epsilon * weight.sum(axis=1)), totals], axis=1)
    return xp.concatenate([top, xp.concatenate([totals.T, square], axis=1)])


def readout_target(intermediate: Intermediates, latent: Array, latent_precision: Array | float) -> Any:
    """Return ``sum_ci ε_c E[x_ci] E[f_ci]``, the linear term of equation (4)."""
    xp = namespace(latent)
    weighted = xp.asarray(latent_precision)[..., None] * intermediate.score_weight * latent
    weights = (intermediate.mean @ weighted[..., None]).sum(axis=0)[:, 0]
    return xp.concatenate([weighted.sum(axis=1), weights])


def readout_equation(
    intermediate: Intermediates, latent: Array, latent_precision: Array | float
) -> tuple[Any, Any, float]:
    """Return design and linear term of equation (4), and the factor of both that is left to `update_readout`."""
    design = readout_design(intermediate, latent_precision)
    return design, readout_target(intermediate, latent, latent_precision), 1.0


def latent_mean(intermediate: Intermediates, readout: Gaussian) -> Any:
    """Return the expected score ``E[e]' E[g_ci] + E[b_c]``, shape (n_outputs, n_samples)."""
    n_outputs = intermediate.mean.shape[0]
    return readout.mean[n_outputs:] @ intermediate.mean + readout.mean[:n_outputs, None]


# ------------------------------------------------------------------------------------------------- bound terms


def intermediate_error(intermediate: Intermediates, projection: Array, gram: Array, duals: Gaussian) -> Any:
    """``E ||g_cmi - k_mi' a_c||²``, summed over the samples of every kernel, shape (n_outputs,)."""
    from_duals = duals.cov.reshape(len(duals.mean), -1) @ gram.reshape(-1)
    return intermediate.squared_distance(projection) + from_duals


def score_error(
    scores: Array, intermediate: Intermediates, readout: Gaussian, design: Array | None = None
) -> Any:
    """``E (scores_ci - e' g_ci - b_c)²``, summed over samples by the weights of their scores, shape (n_outputs,).

    The design of `moments.score_error` is of no use here, where outputs are told apart.
    """
    n_outputs, cov = intermediate.mean.shape[0], readout.cov
    weights, of_weights = readout.mean[n_outputs:], cov[n_outputs:, n_outputs:]
    residual = scores - latent_mean(intermediate, readout)
    spread = of_weights @ intermediate.mean + 2.0 * cov[:n_outputs, n_outputs:, None]
    weight = intermediate.score_weight
    from_readout = weight.sum(axis=1) * namespace(cov).diagonal(cov)[:n_outputs]
    from_readout = from_readout + (weight[:, None] * spread * intermediate.mean).sum(axis=(1, 2))
    weights_square = weights[:, None] * weights + of_weights
    from_intermediate = (weights_square * intermediate.total_cov).sum(axis=(-2, -1))
    return (weight * residual * residual).sum(axis=1) + from_readout + from_intermediate
