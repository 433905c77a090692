r"""Updates and bound terms of several outputs that share their kernel weights (Gönen 2012, §5.1).

Every output c, a class, a label or a real-valued target, has its own λ_c, a_c, G_c, γ_c, b_c and its own score or
target f_c; ω and e belong to all of them::

    g_cmi | a_c ~ N(k_mi' a_c, 1/υ_c),     f_ci | b, e, g ~ N(e' g_ci + b_c, 1/ε_c)

q(b, e) is one normal distribution over all intercepts, then the kernel weights. Factors hold all outputs along a
leading axis: E[a] is (n_outputs, n_train), E[G] is (n_outputs, n_kernels, n_samples). A noise precision is a number
for all outputs or an array of shape (n_outputs,). With one output these are the updates of `moments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.linalg import spd_inverse
from bayesmkl.bemkl.models.absent_views import AbsentViews, CompletedOutputs, complete
from bayesmkl.bemkl.models.moments import (
    Gamma,
    Gaussian,
    IntermediateOutputs,
    PrecisionMoments,
    expected_residual,
)
from bayesmkl.kernels.stacks.base import Kernels, KernelStack

# q(G): one covariance for all samples, or one for every pattern of views that samples lack.
Intermediates = IntermediateOutputs | CompletedOutputs


class ReadoutParts(NamedTuple):
    """A vector over all intercepts and kernel weights, or blocks of a matrix over them."""

    intercepts: Any  # (n_outputs,): of a matrix, its diagonal
    weights: Any  # (n_kernels,) or (n_kernels, n_kernels)
    cross: Any = None  # (n_outputs, n_kernels), of a matrix


def readout_parts(values: Array, n_kernels: int) -> ReadoutParts:
    """Split the mean of q(b, e), or a matrix over (b, e), into what belongs to the intercepts and to the weights."""
    n_outputs = values.shape[0] - n_kernels
    if values.ndim == 1:
        return ReadoutParts(values[:n_outputs], values[n_outputs:])
    intercepts = namespace(values).diagonal(values)[:n_outputs]
    return ReadoutParts(intercepts, values[n_outputs:, n_outputs:], values[:n_outputs, n_outputs:])


def readout_of(output: int, readout: Gaussian, n_outputs: int) -> Gaussian:
    """Return the marginal q(b_c, e) of one output, intercept first, as NumPy arrays."""
    index = np.array([output, *range(n_outputs, len(readout.mean))])
    return Gaussian.from_moments(readout.mean[index], readout.cov[np.ix_(index, index)])


def project(stack: Kernels, duals: Array) -> Any:
    """Return ``K_m a_c`` for every output, (n_outputs, n_kernels, n_samples), reading the kernels once."""
    return namespace(duals).moveaxis(stack.apply(duals.T), -1, 0)


def adjoin(stack: KernelStack, intermediate: Array) -> Any:
    """Return ``sum_m K_m' g_cm`` for every output, (n_outputs, n_train), reading the kernels once."""
    return stack.adjoint(namespace(intermediate).moveaxis(intermediate, 0, -1)).T


# ------------------------------------------------------------------------------------------------------ updates


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
    stack: Kernels,
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
    xp, n_kernels = namespace(projection), projection.shape[1]
    upsilon, epsilon = (
        xp.asarray(value)[..., None, None] for value in (intermediate_precision, latent_precision)
    )
    moment = readout_parts(readout[:, None] * readout + readout_cov, n_kernels)
    weights = readout_parts(readout, n_kernels).weights
    if absent is not None:
        moments = (weights, moment.weights, moment.cross)
        return projection, complete(absent, projection, latent, moments, upsilon, epsilon)
    from_scores = weights[:, None] * latent[:, None, :] - moment.cross[..., None]
    eye = xp.eye(n_kernels, dtype=projection.dtype)
    cov, log_det = spd_inverse(upsilon * eye + epsilon * moment.weights)
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
    mean = readout_parts(readout.mean, intermediate.mean.shape[1])
    return mean.weights @ intermediate.mean + mean.intercepts[:, None]


# -------------------------------------------------------------------------------------------------- bound terms


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
    n_kernels = intermediate.mean.shape[1]
    cov = readout_parts(readout.cov, n_kernels)
    weights = readout_parts(readout.mean, n_kernels).weights
    residual = scores - latent_mean(intermediate, readout)
    spread = cov.weights @ intermediate.mean + 2.0 * cov.cross[..., None]
    weight = intermediate.score_weight
    from_readout = weight.sum(axis=1) * cov.intercepts
    from_readout = from_readout + (weight[:, None] * spread * intermediate.mean).sum(axis=(1, 2))
    weights_square = weights[:, None] * weights + cov.weights
    from_intermediate = (weights_square * intermediate.total_cov).sum(axis=(-2, -1))
    return (weight * residual * residual).sum(axis=1) + from_readout + from_intermediate


def score_bound(misfit: Array, intermediate: Intermediates, precision: PrecisionMoments | Gamma) -> Any:
    """``E[log p(f | b, e, G)]``, summed, where `misfit` is that of `score_error`."""
    bound = expected_residual(misfit, intermediate.n_samples, precision)
    if not isinstance(intermediate, CompletedOutputs):
        return bound
    weight = intermediate.score_weight
    return bound + 0.5 * namespace(weight).log(weight).sum()
