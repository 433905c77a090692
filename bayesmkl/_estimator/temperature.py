r"""Temperature of class probabilities: one number that makes all of them flatter or sharper (Guo et al. 2017).

Probabilities are raised to the power of :math:`1 / T` and normalized again; the order of the classes stays. `T` is
learned from held-out probabilities, as the one of the highest posterior density under a normal prior of its logarithm
around zero: where all held-out labels are the most probable ones, these alone would ask for :math:`T = 0`. Of two
classes it is the most likely one from 1 on: they may be made flatter, as where views say nothing, and not sharper.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

PRIOR_STD = 0.3  # of the log temperature
FARTHEST, N_GRID = 8.0, 65  # how many of them are searched, on either side, and where the search starts from


def tempered(log_probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return log probabilities at a temperature; the last axis is that of the classes."""
    if temperature == 1.0:  # to the last digit
        return log_probabilities
    powers = log_probabilities / temperature
    return powers - logsumexp(powers, axis=-1, keepdims=True)


def find_temperature(
    log_probabilities: np.ndarray,
    truth: np.ndarray,
    sample_weight: np.ndarray | float = 1.0,
    sharpen: bool = True,
) -> float:
    r"""Return the temperature of held-out probabilities, :math:`\arg\max_T \sum_i \log p_T(y_i) + \log p(T)`.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_samples, n_classes)
        Of samples that were left out.
    truth : ndarray of int of shape (n_samples,)
        Columns of their labels.
    sample_weight : ndarray of shape (n_samples,) or float, default=1.0
        How often samples count.
    sharpen : bool, default=True
        Whether `T` may be below 1. If not, it is the one of maximum likelihood from 1 on, without a prior.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger (2017), On calibration of modern neural networks, ICML, §4.2.
    """
    of_samples = np.arange(len(truth))

    def loss(u: float) -> float:
        own = tempered(log_probabilities, np.exp(u))[of_samples, truth]
        doubt = 0.5 * (u / PRIOR_STD) ** 2 if sharpen else 0.0
        return doubt - float((sample_weight * own).sum())

    lowest = -FARTHEST if sharpen else 0.0
    grid = np.linspace(lowest, FARTHEST, N_GRID) * PRIOR_STD  # the loss is convex in 1 / T, not in log T
    best = int(np.argmin([loss(u) for u in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, N_GRID - 1)]
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-8}).x
    if not sharpen and loss(0.0) <= loss(found):
        return 1.0  # to the last digit
    return float(np.exp(found))
