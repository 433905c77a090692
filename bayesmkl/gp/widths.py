r"""Prior of widths of Gaussian kernels, which are inferred with the kernel weights.

Log widths are relative to the median distance between two training points. Of a kernel with one width, :math:`v = s
u`, :math:`u \sim N(0, 1)`. Of one with a width for every feature, relevances :math:`e^{-2 v_j}` differ from each
other, and have the mean that they have in a kernel with one width,

.. math:: v_j = s_u u + \sigma e_j + \tfrac12 \log \Bigl( \frac1D \sum_k e^{-2 \sigma e_k} \Bigr),
   \qquad e_j \sim N(0, 1) ,

where :math:`s_u` is smaller below the median, in proportion to :math:`1 / D`, because a kernel that is narrow in all
of many features can explain noise: halving all widths makes :math:`2^D` regions of one. Without the last term
functions of many features would be rougher than those of few. The spread :math:`\sigma` is given. Inferred, the
evidence is about the same, and draws are worth less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.outcomes.base import Mapped, joined

LOG_STD = 0.8  # of the width of a view
NARROWER = 0.5  # of the common width of `D` features below the median, times `D`
SPREAD = 1.0  # of log widths of features


class WidthPrior(NamedTuple):
    """Prior of the log widths of some kernels, one kernel after the other.

    Attributes
    ----------
    kernels : tuple
        `bayesmkl.kernels.stacks.learned.Points`: every kernel has one width, or one for each feature.
    """

    kernels: tuple[Any, ...]

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return sum(n_coordinates_of(one) for one in self.kernels)

    def values(self, coordinates: np.ndarray) -> Mapped:
        """Return the log widths of some coordinates."""
        ends = np.cumsum([n_coordinates_of(one) for one in self.kernels])[:-1]
        return joined(
            [
                _of_features(own) if one.each else Mapped(LOG_STD * own, lambda gradient: LOG_STD * gradient)
                for one, own in zip(self.kernels, np.split(coordinates, ends), strict=True)
            ]
        )


def n_coordinates_of(kernel: Any) -> int:
    """Return how many coordinates the widths of a kernel have."""
    return 1 + kernel.n_values if kernel.each else 1


def _of_features(coordinates: np.ndarray) -> Mapped:
    """Return the log widths of the features of one view."""
    deviations = SPREAD * coordinates[1:]
    total = np.logaddexp.reduce(-2.0 * deviations)
    shares = np.exp(-2.0 * deviations - total)
    n_features = max(len(deviations), 1)
    std = LOG_STD if coordinates[0] > 0.0 else NARROWER / n_features

    def pull(gradient: np.ndarray) -> np.ndarray:
        of_all = gradient.sum()
        return np.concatenate([[std * of_all], SPREAD * (gradient - shares * of_all)])

    level = std * coordinates[0] + 0.5 * (total - np.log(n_features))
    return Mapped(level + deviations, pull)
