r"""Fisher information of kernel weights in their coordinates: the curvature to expect at the mode of many.

It is `F F'` with few columns, beside the prior's one: data that are few tell few directions from each other. They are
found by a randomized eigendecomposition (Halko, Martinsson and Tropp 2011), which takes products of
the information with some directions alone: one sum of all kernels for each, and a Frobenius product with all.

References
----------
Halko, N., Martinsson, P.-G. and Tropp, J. A. (2011). Finding structure with randomness: probabilistic algorithms for
constructing approximate matrix decompositions. SIAM Review 53, 217-288.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl.gp.conditioning import Conditioned
from bayesmkl.gp.covariances import Covariance
from bayesmkl.gp.hyperpriors import WeightPrior

N_DIRECTIONS = 32  # that the information is multiplied by
N_PRODUCTS = 2  # with each of them
STEP = 1e-3  # of differences of weights
NOTABLE = 0.05  # curvature beside the prior's one; what is less is left to the importance weights
LEAST = 1e-10  # of the largest eigenvalue, below which there is nothing


def expected_factors(
    covariance: Covariance,
    weights: np.ndarray,
    prior: WeightPrior,
    coordinates: np.ndarray,
    posteriors: Sequence[Conditioned],
) -> np.ndarray:
    """Return `F` with `F F'` what the expected curvature is above the prior's one, (n_coordinates, n_factors).

    Parameters
    ----------
    covariance : Covariance
        Whose parts are independent.
    weights : ndarray of shape (n_weights,)
        As it takes them.
    prior : WeightPrior
        Of the weights of kernels alone.
    coordinates : ndarray of shape (n_coordinates,)
        Those of these weights.
    posteriors : sequence of Conditioned
        Scores of every output there.

    Notes
    -----
    What is not found is below the smallest eigenvalue that is, and is that of directions of which the data say less.
    """
    n_kernels = covariance.stack.n_kernels
    mapped = prior.weights(coordinates)
    n_directions = min(N_DIRECTIONS, len(coordinates))
    directions = np.random.default_rng(0).standard_normal((n_directions, len(coordinates)))
    product = directions
    for _ in range(N_PRODUCTS):
        directions = np.linalg.qr(product.T)[0].T
        ahead, back = (
            np.array([prior.weights(coordinates + step * own).values for own in directions])
            for step in (STEP, -STEP)
        )
        moved = (ahead - back) / (2.0 * STEP)
        informed = np.zeros((n_directions, n_kernels))
        for posterior in posteriors:
            within = posterior.root[:, None] * posterior.inverse_root
            informed += covariance.informed(weights, within, moved)
        product = np.array([mapped.pull(own) for own in informed])
    values, vectors = np.linalg.eigh(0.5 * (directions @ product.T + product @ directions.T))
    kept = values > LEAST * max(values.max(), 1e-300)
    return product.T @ (vectors[:, kept] / np.sqrt(values[kept]))


class Spread(NamedTuple):
    """A covariance that is one but in the span of a few orthogonal directions.

    Attributes
    ----------
    basis : ndarray of shape (n_coordinates, n_directions)
        Orthonormal columns.
    variances : ndarray of shape (n_directions,)
    """

    basis: np.ndarray
    variances: np.ndarray

    def matrix(self) -> np.ndarray:
        """Return the covariance, (n_coordinates, n_coordinates)."""
        return np.eye(len(self.basis)) + (self.basis * (self.variances - 1.0)) @ self.basis.T


def spread_of(factors: np.ndarray, rest: np.ndarray, least: float) -> Spread:
    """Return the inverse of a curvature: by factors of the first coordinates, by its columns of the last ones.

    Parameters
    ----------
    factors : ndarray of shape (n_first, n_factors)
        `F` with `F F'` what the curvature of the first coordinates is above one.
    rest : ndarray of shape (n_coordinates, n_rest)
        Its columns of the last coordinates.
    least : float
        The smallest curvature there may be.
    """
    n_first, n_coordinates = len(factors), len(rest)
    above = rest.copy()
    above[n_first:] -= np.eye(rest.shape[1])
    above[n_first:] = 0.5 * (above[n_first:] + above[n_first:].T)
    n_rest = n_coordinates - n_first
    spanned = np.zeros((n_coordinates, factors.shape[1] + 2 * n_rest))
    spanned[:n_first, : -n_rest or None] = np.hstack([factors, above[:n_first]])
    spanned[n_first:, spanned.shape[1] - n_rest :] = np.eye(n_rest)
    basis = np.linalg.qr(spanned)[0]
    inner = factors.T @ basis[:n_first]
    product = above @ basis[n_first:]
    product[:n_first] += factors @ inner
    product[n_first:] += above[:n_first].T @ basis[:n_first]
    values, vectors = np.linalg.eigh(basis.T @ product)
    kept = np.abs(values) > NOTABLE
    return Spread(basis @ vectors[:, kept], 1.0 / np.maximum(1.0 + values[kept], least))
