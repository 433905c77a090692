r"""Average slopes of what views add to the score, along their features.

The average :math:`s_j = \sum_r p_r\, \partial_j f(x_r)` of the slopes of a view's part :math:`f = \sum_m w_m g_m` is
one more number that is normal with the training scores. Given hyperparameters and sites

.. math:: E[s_j] = c_j^\top \alpha, \qquad \operatorname{Var} s_j = v_j - c_j^\top R\, c_j , \qquad
    c_j = \sum_m \frac{w_m^2}{c_m} \sum_r p_r\, \partial_j k_m(x_r, \cdot), \quad
    v_j = \sum_m \frac{w_m^2}{c_m} \sum_{rs} p_r p_s\, \partial_j \partial'_j k_m(x_r, x_s) .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.reading import HyperDraws


class KernelSlopes(NamedTuple):
    """Average slopes of functions of one kernel of unit weight, along the features of its view.

    Attributes
    ----------
    cross : ndarray of shape (n_features, n_samples)
        Covariances with the function at the training samples.
    variance : ndarray of shape (n_features,)
    """

    cross: np.ndarray
    variance: np.ndarray


def draw_slopes(
    covariance: Additive, draws: HyperDraws, views: list[list[KernelSlopes]], rng: np.random.Generator
) -> np.ndarray:
    """Draw average slopes, each on its own, at every draw of the hyperparameters.

    Parameters
    ----------
    covariance : Additive
        Of the training scores.
    draws : HyperDraws
    views : list of list of KernelSlopes
        Of the kernels of every view, in the order of the kernels.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_draws, n_outputs, n_features)
        Features of all views, one view after the other.
    """
    counts = np.cumsum([len(kernels) for kernels in views])[:-1]
    n_features = sum(len(kernels[0].variance) for kernels in views)
    n_outputs = draws.parameters.shape[1]
    mean, std = np.empty((2, len(draws.kernel_weights), n_outputs, n_features))
    for at in np.unique(draws.point):
        sizes = np.split(draws.kernel_weights[at] ** 2 / np.asarray(covariance.units), counts)
        pairs = list(zip(sizes, views, strict=True))
        cross = np.concatenate([sum(w * k.cross for w, k in zip(*pair, strict=True)) for pair in pairs])
        prior = np.concatenate([sum(w * k.variance for w, k in zip(*pair, strict=True)) for pair in pairs])
        for k, posterior in enumerate(draws.conditioned(covariance, at)):
            mean[at, k] = cross @ posterior.dual
            std[at, k] = np.sqrt(np.maximum(prior - posterior.explained(cross), 0.0))
    shape = draws.n_draws, n_outputs, n_features
    return mean[draws.point] + std[draws.point] * rng.standard_normal(shape)
