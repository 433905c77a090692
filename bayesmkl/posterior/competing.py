r"""Probabilities of classes that compete: which of several normal scores with one variance is the largest.

Given a, b and e the scores of a sample under the multinomial probit model are independent, :math:`f_c \sim
N(m_c, s^2)`. In units of s, with :math:`\nu` the margin,

.. math:: P(f_c > f_d + \nu \;\; \forall d \ne c) = \int \varphi(t - m_c) \prod_{d \ne c} \Phi(t - m_d - \nu) \; dt .

All classes share the product over d, less its own factor: one grid over t serves them all, at the cost of a single
class. The integrands are smooth and vanish at both ends, for which the trapezoidal rule is as good as it gets.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

LOG_2PI = float(np.log(2.0 * np.pi))
REACH = 6.0  # of the grid beyond where an integrand can have its maximum
STEP = 0.45  # at most; integrands are normal densities of a standard deviation above 0.3, cut off smoothly
BLOCK_SIZE = 2**22  # numbers in a temporary array over all nodes


def log_class_probabilities(scores: np.ndarray, margin: np.ndarray | float) -> np.ndarray:
    """Return the log probability of every class to exceed all others by the margin.

    Parameters
    ----------
    scores : array of shape (n_classes, n_draws, n_samples)
        Means, in units of the standard deviation.
    margin : array that broadcasts with (n_draws, n_samples)
        In the same units.

    Returns
    -------
    array of shape (n_draws, n_samples, n_classes)
        Without a margin the probabilities sum to one.

    Examples
    --------
    >>> probabilities = np.exp(log_class_probabilities(np.zeros((3, 1, 1)), 0.0))
    >>> probabilities.round(6)
    array([[[0.333333, 0.333333, 0.333333]]])
    """
    n_classes, *shape = scores.shape
    flat, margins = scores.reshape(n_classes, -1), np.broadcast_to(margin, shape).ravel()
    # the mode of a class lies between its own score and the largest of the others, hardly below their middle
    low, high = 0.5 * (flat.min(axis=0) + flat.max(axis=0)) - REACH, flat.max(axis=0) + margins + REACH
    found = np.empty((flat.shape[1], n_classes))
    order = np.argsort(high - low)  # so that a block needs about the same number of nodes throughout
    for block in np.array_split(order, _n_blocks(n_classes, high - low)):
        found[block] = _trapezoidal(flat[:, block], margins[block], low[block], high[block]).T
    return found.reshape(*shape, n_classes)


def _n_blocks(n_classes: int, width: np.ndarray) -> int:
    return int(np.ceil(n_classes * (width / STEP).sum() / BLOCK_SIZE))


def _trapezoidal(
    scores: np.ndarray, margin: np.ndarray | float, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Integrate on a uniform grid from `low` to `high`, for scores of shape (n_classes, n)."""
    n_nodes = int(np.ceil((high - low).max() / STEP)) + 1
    step = (high - low) / (n_nodes - 1)
    away = (low + step * np.arange(n_nodes)[:, None]) - scores[:, None, :]  # (n_classes, n_nodes, n)
    log_below = log_ndtr(away - margin)
    others = log_below.sum(axis=0) - log_below
    return np.logaddexp.reduce(others - 0.5 * (away**2 + LOG_2PI), axis=1) + np.log(step)
