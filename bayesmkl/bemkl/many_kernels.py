r"""Updates of q(G) and q(b, e) for many more kernels P than samples N, without P x P matrices.

The updates of `moments` hold two dense P x P covariances that feed each other, E the expectation of e and C its
covariance,

    Σ = Cov(g_i) = (υ I + ε (E E' + C))⁻¹,       C = (diag E[ω] + ε N Σ + ε G H G')⁻¹,    H = I - (ε/β) 1 1',

where β = E[γ] + ε N, and b has been integrated out. G, of N columns, makes C a diagonal plus a matrix of rank N, if
Σ is a diagonal plus something short. It is not quite: Σ has C in it, that has Σ in it, and so on. But what is not on
the diagonal of ε C is small next to υ. With Λ the diagonal of C⁻¹ without G,

    ε / (Λ_m υ) = ε / (υ E[ω_m] + ε N (1 - ...)) <= 1 / (N - 1)

at a fixed point, for whatever data and precisions: a weight that N samples speak of is not known worse than by their
noise. So C off its diagonal has a part of at most δ = 1/(N - 1) in Σ, and what C would be without that part of Σ,

    C₁ = (diag E[ω] + ε N (D - κ u u') + ε G H G')⁻¹,     u = D E,  κ = ε / (1 + ε E' D E),

differs from C by at most 4/27 δ of Λ⁻¹, where Σ = D - κ u u' + ... by Woodbury. Here

    Σ = (υ I + ε (E E' + C₁))⁻¹,    C = (diag E[ω] + ε N Σ + ε G H G')⁻¹,

a diagonal plus N + 2 columns, and one plus 2 N + 2 (`low_rank`). q(b, e) is the exact optimum given q(G), and the
bound is that of these very factors. q(G) has C₁ where the dense update has C: its covariance lowers the bound by no
more than N/4 |ε (C - C₁) / υ|², less than 1/(100 N²) nats. (The diagonal of C alone in the place of C₁ would cost up
to 1/4 nats, and move shares in the fifth digit.)

An update takes O(P N²) operations, and O(P N) numbers.

Problems are those of `model`, of one output; carries and states have a `WeightCovariance` for the covariance of
q(b, e), and states a `DiagonalPlusLowRank` for that of q(G).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl._numerics.linalg import DiagonalPlusLowRank, gram_of
from bayesmkl.bemkl import model
from bayesmkl.bemkl.moments import Gaussian, IntermediateOutputs, WeightCovariance, WeightCovarianceCoordinate
from bayesmkl.kernels.stacks.base import Stack

MANY = 3  # kernels for every sample from which on this takes less time than P x P matrices, as measured
LEAST = 1000  # kernels; of fewer, P x P matrices are small
COORDINATES = model.COORDINATES._replace(readout_cov=WeightCovarianceCoordinate)
elbo, scales = model.elbo, model.scales


def sweep(problem: model.Problem, start: model.Carry) -> tuple[model.State, Any]:
    """Update every factor once, q(b, e) and q(G) by the updates below; return the state with its ELBO."""
    return model.sweep(problem, start, update_readout, update_intermediate)


def init(problem: model.Problem, magnitude: np.ndarray) -> model.Carry:
    """Return the start of `model`, with weights that are uncorrelated."""
    start = model.init(problem, magnitude)
    return start._replace(readout_cov=_uncorrelated(start.readout_cov))


def carry(problem: model.Problem, state: model.State) -> model.Carry:
    """Return what the next sweep needs of a state, which may be one of `model`."""
    start = model.carry(problem, state)
    known = isinstance(start.readout_cov, WeightCovariance)
    return start if known else start._replace(readout_cov=_uncorrelated(start.readout_cov))


def _uncorrelated(cov: np.ndarray) -> WeightCovariance:
    """Return a start with the variances of a matrix, and of its correlations those of b alone."""
    n_kernels, variance = len(cov) - 1, cov.diagonal().copy()
    diagonal = DiagonalPlusLowRank(variance[1:], np.zeros((n_kernels, 1)), np.zeros((1, 1)))
    return WeightCovariance(
        diagonal, diagonal, variance, cov[0, 1:].copy(), np.zeros(n_kernels), variance[0], np.nan
    )


def update_intermediate(
    stack: Stack,
    dual_mean: np.ndarray,
    latent: np.ndarray,
    readout: np.ndarray,
    readout_cov: WeightCovariance,
    intermediate_precision: float,
    latent_precision: float,
) -> tuple[np.ndarray, IntermediateOutputs]:
    """Update q(G) as `moments.update_intermediate` does, by Woodbury's identity.

    Parameters
    ----------
    stack, dual_mean, latent, readout, intermediate_precision, latent_precision
        As there.
    readout_cov : WeightCovariance

    Returns
    -------
    projection : ndarray of shape (n_kernels, n_samples)
        ``K_m E[a]``.
    intermediate : IntermediateOutputs
        With a `DiagonalPlusLowRank` for `cov`, whose first column of factors is u.
    """
    weights, known = readout[1:], readout_cov.first_order
    middle = latent_precision * _diagonal_blocks(np.ones((1, 1)), known.middle)
    cov, log_det = DiagonalPlusLowRank(
        intermediate_precision + latent_precision * known.base,
        np.column_stack([weights, known.factors]),
        middle,
    ).inverse()
    projection = stack.apply(dual_mean)
    mean = cov @ (intermediate_precision * projection)
    intercept_weights = readout[0] * weights + readout_cov.cross  # E[b e]
    mean += (latent_precision * (cov @ weights))[:, None] * latent
    mean -= (latent_precision * (cov @ intercept_weights))[:, None]
    return projection, IntermediateOutputs(mean, cov, log_det)


def update_readout(
    design: IntermediateOutputs, target: np.ndarray, prior_precision: np.ndarray, latent_precision: float
) -> Gaussian:
    """Update q(b, e), equation (4), as `moments.update_readout` does, by Woodbury's identity.

    Parameters
    ----------
    design : IntermediateOutputs
        q(G), whose moments make the matrix that `moments.readout_design` otherwise returns.
    target, prior_precision, latent_precision
        As there.

    Returns
    -------
    Gaussian
        With a `WeightCovariance` for `cov`.
    """
    outputs, cov, n_samples = design.mean, design.cov, design.n_samples
    of_intercept = prior_precision[0] + latent_precision * n_samples  # β
    slope = (latent_precision / of_intercept) * outputs.sum(axis=1)
    base = prior_precision[1:] + latent_precision * n_samples * cov.base
    factors = np.concatenate([outputs, cov.factors], axis=1)
    centered = latent_precision * (np.eye(n_samples) - latent_precision / of_intercept)  # ε H
    middle = _diagonal_blocks(centered, latent_precision * n_samples * cov.middle)
    gram = gram_of(base, factors)
    weights, log_det = DiagonalPlusLowRank(base, factors, middle).inverse(gram)
    mean = weights @ (latent_precision * target[1:] - slope * (latent_precision * target[0]))
    intercept = latent_precision * target[0] / of_intercept - slope @ mean
    cross = -(weights @ slope)
    variance = np.concatenate([[1.0 / of_intercept - slope @ cross], weights.diagonal()])
    product = (len(variance) - prior_precision @ variance) / latent_precision
    found = WeightCovariance(
        weights,
        _first_order(base, factors, centered, latent_precision, cov, gram),
        variance,
        cross,
        slope,
        1.0 / of_intercept,
        float(product),
    )
    return Gaussian(np.concatenate([[intercept], mean]), found, log_det - np.log(of_intercept))


def _first_order(
    base: np.ndarray,
    factors: np.ndarray,
    centered: np.ndarray,
    latent_precision: float,
    cov: DiagonalPlusLowRank,
    gram: np.ndarray,
) -> DiagonalPlusLowRank:
    """Return C₁; the first columns of `factors` are G and u."""
    n_samples, u = len(centered), cov.factors[:, 0]
    size = n_samples + 1
    # κ = ε / (1 + ε E' D E), and u = D E: the rank-one part alone is that of the inverse of D^-1 + ε E E'
    kappa = latent_precision / (1.0 + latent_precision * (u @ (u / cov.base)))
    middle = _diagonal_blocks(centered, np.full((1, 1), -latent_precision * n_samples * kappa))
    return DiagonalPlusLowRank(base, factors[:, :size], middle).inverse(gram[:size, :size])[0]


def _diagonal_blocks(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return a matrix of two blocks on the diagonal."""
    size = len(first)
    blocks = np.zeros((size + len(last),) * 2)
    blocks[:size, :size], blocks[size:, size:] = first, last
    return blocks
