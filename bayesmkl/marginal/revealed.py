r"""What scores would be if an absent view were measured, over the points that it may turn out to be.

The point is one of those that training samples have, with the probabilities that the other views give them
(`bayesmkl.marginal.unknown_points`). At the point of sample `j` the score of a new sample has the moments of the sum
of its other parts and of the view's part there, jointly. Sample `j` itself is left out, whose target has told more of
the function at this point than is known of it at a new one:

.. math:: E_{-j}[g] = E[g] + \frac{\operatorname{Cov}(g, f_j)}{\operatorname{Var} f_j} (\mu_{-j} - E[f_j]), \qquad
   \operatorname{Var}_{-j} g = \operatorname{Var} g + \frac{\operatorname{Cov}(g, f_j)^2}{(\operatorname{Var} f_j)^2}
   (\sigma_{-j}^2 - \operatorname{Var} f_j) .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl.marginal.conditioning import Cavity, Conditioned

__all__ = ["PartRows", "revealed_moments"]


class PartRows(NamedTuple):
    """Parts of scores: covariances with the training scores, (n_rows, n_samples), and variances, (n_rows,)."""

    cross: np.ndarray
    prior: np.ndarray


def revealed_moments(
    posterior: Conditioned,
    covariance: np.ndarray,
    left: Cavity,
    others: PartRows,
    points: PartRows,
    samples: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances of the scores of rows at every point of a view, (n_rows, n_points).

    Parameters
    ----------
    posterior : Conditioned
    covariance : ndarray of shape (n_samples, n_samples)
        Of the training scores.
    left : Cavity
        Of the training scores.
    others : PartRows
        All that is known of the rows but the view.
    points : PartRows
        The view's part at its points.
    samples : ndarray of int, of shape (n_points,)
        Training samples that have the points.
    """
    told = posterior.root[:, None] * posterior.inverse_root
    of_rows, of_points = others.cross @ told, points.cross @ told
    mean = (others.cross @ posterior.dual)[:, None] + points.cross @ posterior.dual
    explained = (of_rows**2).sum(axis=1)[:, None] + (of_points**2).sum(axis=1) + 2.0 * of_rows @ of_points.T
    variance = others.prior[:, None] + points.prior - explained
    of_samples = covariance[samples] @ told
    shared = others.cross[:, samples] + points.cross[np.arange(len(samples)), samples]
    shared -= of_rows @ of_samples.T + np.einsum("ij,ij->i", of_points, of_samples)
    slope = shared / posterior.variance[samples]
    mean = mean + slope * (left.mean - posterior.mean)[samples]
    variance = variance + slope**2 * (1.0 / left.precision - posterior.variance)[samples]
    return mean, np.maximum(variance, 0.0)
