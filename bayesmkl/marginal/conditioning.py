r"""A Gaussian process given normal sites: the one factorization that every inference of scores comes down to.

With scores :math:`f \sim N(0, C)` and sites :math:`t_i(f_i) \propto \exp(\tilde\nu_i f_i - \tilde\tau_i f_i^2 /
2)`, Rasmussen and Williams (2006, §3.6.3) work with :math:`B = I + S C S`, :math:`S =
\operatorname{diag}(\tilde\tau)^{1/2}`, whose eigenvalues are at least one whatever the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.linalg import plus_diagonal, spd_inverse_and_solution

__all__ = ["Cavity", "Conditioned", "Sites", "cavity", "condition"]

LEAST_PRECISION = 1e-100


class Sites(NamedTuple):
    r"""Normal sites, one per sample, each of shape (n_samples,)."""

    precision: Any  # tilde tau
    linear: Any  # tilde nu


class Conditioned(NamedTuple):
    r"""Scores given sites.

    Attributes
    ----------
    mean, variance : array of shape (n_samples,)
        Of every score.
    dual : array of shape (n_samples,)
        :math:`\alpha` with :math:`C \alpha` the mean; at new samples the mean is their covariance times it.
    half_log_det : float
        :math:`\frac12 \log |B|`.
    root : array of shape (n_samples,)
        The diagonal of :math:`S`.
    inverse : array of shape (n_samples, n_samples)
        :math:`B^{-1}`.
    """

    mean: Any
    variance: Any
    dual: Any
    half_log_det: Any
    root: Any
    inverse: Any

    @property
    def shrinkage(self) -> Any:
        r""":math:`R = S B^{-1} S`; at new samples the covariance is lower by :math:`C_* R C_*^\top`."""
        return self.root[:, None] * self.inverse * self.root

    def remain(self, vector: Array) -> Any:
        """Return :math:`(I - R C) v`, in the form in which no digits cancel."""
        return self.root * (self.inverse @ (vector / self.root))


class Cavity(NamedTuple):
    """Every score given all sites but its own, each of shape (n_samples,)."""

    mean: Any
    precision: Any


def cavity(posterior: Conditioned, sites: Sites) -> Cavity:
    """Take every site out of the distribution of its own score (Rasmussen and Williams, eq. 3.56)."""
    precision = 1.0 / posterior.variance - sites.precision
    return Cavity((posterior.mean / posterior.variance - sites.linear) / precision, precision)


def condition(covariance: Array, sites: Sites) -> Conditioned:
    """Condition scores on sites.

    Parameters
    ----------
    covariance : array of shape (n_samples, n_samples)
    sites : Sites
        With precisions that are not negative.
    """
    xp = namespace(covariance)
    root = xp.sqrt(xp.maximum(sites.precision, LEAST_PRECISION))
    inverse, log_det, pull = spd_inverse_and_solution(
        _balanced(covariance, root), sites.linear / root, overwrite=True
    )
    variance = (
        xp.einsum("ij,ij,j->i", covariance, inverse, root) / root
    )  # no digits cancel where a site says little
    dual = root * pull
    return Conditioned(covariance @ dual, variance, dual, -0.5 * log_det, root, inverse)


def _balanced(covariance: Array, root: Array) -> Any:
    """Return :math:`B = I + S C S`."""
    balanced = covariance * root
    if not is_numpy(covariance):
        return plus_diagonal(root[:, None] * balanced, 1.0)
    balanced *= root[:, None]
    np.einsum("ii->i", balanced)[...] += 1.0
    return balanced
