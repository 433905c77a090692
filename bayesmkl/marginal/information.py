"""Fisher information of kernel weights in their coordinates: the curvature to expect at the mode of many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayesmkl.marginal.conditioning import Conditioned
from bayesmkl.marginal.covariances import Covariance
from bayesmkl.marginal.hyperpriors import WeightPrior

__all__ = ["expected_curvature"]


def expected_curvature(
    covariance: Covariance, prior: WeightPrior, coordinates: np.ndarray, posteriors: Sequence[Conditioned]
) -> np.ndarray | None:
    """Return the expected curvature of minus the log posterior, (n_coordinates, n_coordinates), or None.

    Parameters
    ----------
    covariance : Covariance
        None is returned where it has no `information`.
    prior : WeightPrior
        Its own curvature is one.
    coordinates : ndarray of shape (n_coordinates,)
        Those of the weights.
    posteriors : sequence of Conditioned
        Scores of every output there.
    """
    mapped = prior.weights(coordinates)
    slopes = np.array([mapped.pull(row) for row in np.eye(len(mapped.values))])  # of weights by coordinates
    curvature = np.eye(len(coordinates))
    for posterior in posteriors:
        within = posterior.root[:, None] * posterior.inverse_root  # V with V V' = R
        information = covariance.information(mapped.values, within)
        if information is None:
            return None
        curvature += slopes.T @ information @ slopes
    return curvature
