"""Priors of what a likelihood brings, as functions of independent standard normal coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Mapped(NamedTuple):
    """Values of coordinates, and the function that pulls a gradient by the values back to the coordinates."""

    values: np.ndarray
    pull: Callable[[np.ndarray], np.ndarray]


class LogNormal(NamedTuple):
    r"""Log-normal parameters of a likelihood: :math:`\phi = \phi_0 + \mathrm{median}\, e^{s u}`.

    Parameters
    ----------
    median : float, default=0.3
        Of the parameter, such as the standard deviation of noise, in units of the standardized target.
    log_std : float, default=1.5
        Standard deviation `s` of the logarithm.
    least : float, default=1e-4
        :math:`\phi_0`, below which the parameter does not fall: targets without noise would drive it beyond the
        digits that there are.

    Examples
    --------
    >>> LogNormal(median=0.3, log_std=1.0).parameters(np.array([0.0, 1.0])).values.round(4)
    array([0.3001, 0.8156])
    """

    median: float = 0.3
    log_std: float = 1.5
    least: float = 1e-4

    def parameters(self, coordinates: np.ndarray) -> Mapped:
        """Return the parameters of some coordinates.

        Parameters
        ----------
        coordinates : ndarray of shape (n_coordinates,)
            Standard normal under the prior.

        Returns
        -------
        Mapped
            Parameters of the same shape, and what pulls a gradient by them back to the coordinates.
        """
        above = self.median * np.exp(self.log_std * coordinates)
        return Mapped(self.least + above, lambda gradient: self.log_std * above * gradient)
