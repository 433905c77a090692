r"""A Gaussian process given normal sites: the one factorization that every inference of scores comes down to.

With scores :math:`f \sim N(0, C)` and sites :math:`t_i(f_i) \propto \exp(\tilde\nu_i f_i - \tilde\tau_i f_i^2 /
2)`, Rasmussen and Williams (2006, §3.6.3) work with :math:`B = I + S C S`, :math:`S =
\operatorname{diag}(\tilde\tau)^{1/2}`, whose eigenvalues are at least one whatever the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.linalg import (
    invert_factor,
    multiply_inverse,
    solve_factor,
    spd_factor,
    spd_inverse_root,
    square_of_root,
)

LEAST_PRECISION = 1e-100
LITTLE = 1e-6  # variance of a score in units of the variance of its site; nine digits are left of it


class Sites(NamedTuple):
    r"""Normal sites, one per sample, each of shape (n_samples,)."""

    precision: np.ndarray  # tilde tau
    linear: np.ndarray  # tilde nu

    def power(self, exponent: Any) -> Sites:
        """Return the sites to a power: the product of so many copies, or one of them."""
        return Sites(self.precision * exponent, self.linear * exponent)


class Conditioned(NamedTuple):
    r"""Scores given sites.

    Attributes
    ----------
    mean, variance : ndarray of shape (n_samples,)
        Of every score.
    dual : ndarray of shape (n_samples,)
        :math:`\alpha` with :math:`C \alpha` the mean; at new samples the mean is their covariance times it.
    half_log_det : float
        :math:`\frac12 \log |B|`.
    root : ndarray of shape (n_samples,)
        The diagonal of :math:`S`.
    inverse_root : ndarray of shape (n_samples, n_samples)
        Upper triangular :math:`V` with :math:`V V^\top = B^{-1}`.
    """

    mean: np.ndarray
    variance: np.ndarray
    dual: np.ndarray
    half_log_det: np.floating
    root: np.ndarray
    inverse_root: np.ndarray

    @property
    def shrinkage(self) -> np.ndarray:
        r""":math:`R = S B^{-1} S`; at new samples the covariance is lower by :math:`C_* R C_*^\top`."""
        return self.take_shrinkage(overwrite=False)

    def take_shrinkage(self, overwrite: bool = True) -> np.ndarray:
        """Return the shrinkage, made in the memory of the inverse root, which is lost, if it may be."""
        out = self.inverse_root if overwrite else None
        return square_of_root(np.multiply(self.root[:, None], self.inverse_root, out=out))

    def within(self, columns: np.ndarray) -> np.ndarray:
        r"""Return `W` with :math:`W^\top W = Z^\top R Z`, of some columns `Z`, (n_samples, n_columns)."""
        return self.inverse_root.T @ (self.root[:, None] * columns)

    def remain(self, vector: np.ndarray) -> np.ndarray:
        """Return :math:`(I - R C) v`, in the form in which no digits cancel."""
        return self.root * self.solve(vector / self.root)

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """Return :math:`B^{-1}` times vectors, the columns of `vectors`."""
        found: np.ndarray = self.inverse_root @ (self.inverse_root.T @ vectors)
        return found

    def residuals(self, sites: Sites, scores: np.ndarray, noise: np.ndarray) -> np.ndarray:
        r"""Return what turns draws from the prior into draws given the sites, by Matheron's rule.

        A draw of anything is corrected by its covariance with the scores times these, :math:`S B^{-1} (S^{-1}
        \tilde\nu - S f - z)`.

        Parameters
        ----------
        sites : Sites
        scores : ndarray of shape (n_draws, n_samples)
            Draws :math:`f` of the scores from the prior.
        noise : ndarray of shape (n_draws, n_samples)
            Standard normal :math:`z`.
        """
        surprise = sites.linear / self.root - self.root * scores - noise
        return self.root * self.solve(surprise.T).T

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """Return the part of prior variances that the sites explain, of scores with the covariances `cross`.

        `cross` are covariances with the training scores, (n_rows, n_samples).
        """
        within = (cross * self.root) @ self.inverse_root
        found: np.ndarray = np.einsum("ij,ij->i", within, within)
        return found


class Factored(NamedTuple):
    r"""Scores given sites as far as predictions and an evidence without gradient need them.

    Attributes
    ----------
    dual, half_log_det, root
        As those of `Conditioned`.
    upper : ndarray of shape (n_samples, n_samples)
        Cholesky factor of :math:`B`, perhaps of single precision; below its diagonal is anything.
    is_inverse : bool
        Whether that is the inverse of the factor instead, with which many rows take half of the time.
    """

    dual: np.ndarray
    half_log_det: np.floating
    root: np.ndarray
    upper: np.ndarray
    is_inverse: bool = False

    def inverted(self) -> Factored:
        """Return the same with the inverse of the factor."""
        return self if self.is_inverse else self._replace(upper=invert_factor(self.upper), is_inverse=True)

    def completed(self, covariance: np.ndarray) -> Conditioned:
        """Return all that `condition` finds; the factor must have double precision."""
        mean, inverse_root = covariance @ self.dual, np.triu(invert_factor(self.upper))
        return _conditioned(mean, self.dual, self.half_log_det, self.root, inverse_root, covariance)

    def within(self, columns: np.ndarray) -> np.ndarray:
        r"""Return `W` with :math:`W^\top W = Z^\top R Z`, of some columns `Z`, (n_samples, n_columns)."""
        return self._solve(self.root[:, None] * columns)

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """Return the part of prior variances that the sites explain, as `Conditioned.explained` does."""
        within = self._solve((cross * self.root).T).T
        found: np.ndarray = np.vecdot(within, within)
        return found

    def _solve(self, columns: np.ndarray) -> np.ndarray:
        """Solve in the place of the columns, which must be a copy."""
        solve = multiply_inverse if self.is_inverse else solve_factor
        return solve(self.upper, columns, overwrite=True)


class Cavity(NamedTuple):
    """Every score given all sites but its own, each of shape (n_samples,)."""

    mean: np.ndarray
    precision: np.ndarray


def cavity(posterior: Conditioned, sites: Sites) -> Cavity:
    """Take every site out of the distribution of its own score (Rasmussen and Williams, eq. 3.56)."""
    precision = 1.0 / posterior.variance - sites.precision
    return Cavity((posterior.mean / posterior.variance - sites.linear) / precision, precision)


def condition(
    covariance: np.ndarray, sites: Sites, last: Conditioned | None = None, overwrite: bool = False
) -> Conditioned:
    """Condition scores on sites.

    Parameters
    ----------
    covariance : ndarray of shape (n_samples, n_samples)
    sites : Sites
        With precisions that are not negative.
    last : Conditioned, optional
        What nobody needs any more; the memory of its inverse root is taken.
    overwrite : bool
        Whether that of the covariance may be taken, in C order. Means and variances then come from the sites, with
        as many digits as those have around the scores: not where sites say little.
    """
    root = np.sqrt(np.maximum(sites.precision, LEAST_PRECISION))
    memory = covariance if overwrite else None if last is None else last.inverse_root.T
    inverse_root, log_det, pull = spd_inverse_root(
        _balanced(covariance, root, memory), sites.linear / root, overwrite=True
    )
    dual = root * pull
    mean = (sites.linear - dual) / root**2 if overwrite else covariance @ dual
    return _conditioned(mean, dual, -0.5 * log_det, root, inverse_root, None if overwrite else covariance)


def factorize(covariance: np.ndarray, sites: Sites, overwrite: bool = False) -> Factored:
    """Condition scores on sites without variances and without an inverse, in half of the time.

    All in the precision of the covariance, single or double. The factor may `overwrite` it, in C order.
    """
    root = np.sqrt(np.maximum(sites.precision, LEAST_PRECISION)).astype(covariance.dtype)
    upper, log_det, pull = spd_factor(
        _balanced(covariance, root, covariance if overwrite else None), sites.linear / root, overwrite=True
    )
    return Factored(root * pull, -0.5 * log_det, root, upper)


def _conditioned(
    mean: np.ndarray,
    dual: np.ndarray,
    half_log_det: np.floating,
    root: np.ndarray,
    inverse_root: np.ndarray,
    covariance: np.ndarray | None,
) -> Conditioned:
    """Return scores given sites with their variances; without a covariance these are right where sites say much."""
    # S Σ S = I - B^-1, whose digits cancel where the sites say little
    told = 1.0 - np.einsum("ij,ij->i", inverse_root, inverse_root)
    posterior = Conditioned(mean, told / root**2, dual, half_log_det, root, inverse_root)
    rows = np.flatnonzero(told < LITTLE)
    if covariance is not None and len(rows):
        posterior.variance[rows] = covariance[rows, rows] - posterior.explained(covariance[rows])
    return posterior


def _balanced(covariance: np.ndarray, root: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return :math:`B = I + S C S`, in the memory `out`."""
    balanced = np.multiply(covariance, root, out=out)
    balanced *= root[:, None]
    np.einsum("ii->i", balanced)[...] += 1.0
    return balanced
