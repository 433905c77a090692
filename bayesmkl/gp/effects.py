r"""Linear effects in the score beside the kernels' parts: covariates, and groups with a variance of their own.

.. math:: f = \sum_m w_m g_m + b + \sum_j \beta_j z_j + \sum_t s_t \sum_l u_{tl} h_{tl},
   \qquad \beta_j \sim N(0, \sigma_\beta^2), \qquad u_{tl} \sim N(0, 1) ,

where :math:`z_j` are standardized covariates; :math:`h_{tl}` says which samples are of level `l` of a group, times a
standardized covariate if term `t` is a random slope; and the standard deviations :math:`s_t` are inferred with the
kernel weights. All effects are columns of one basis :math:`\Phi` with independent normal coefficients, so that they
add :math:`\Phi \operatorname{diag}(\sigma^2) \Phi^\top` to the covariance of the scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace


class DesignRows(NamedTuple):
    """What a design says of new rows.

    Attributes
    ----------
    basis : ndarray of shape (n_rows, n_effects)
        Multipliers of the coefficients.
    unseen : ndarray of shape (n_rows, n_terms)
        Squared multipliers of the coefficients of levels that no training sample is of.
    task : ndarray of int, of shape (n_rows,), or None
        Position of the task of every row.
    """

    basis: np.ndarray
    unseen: np.ndarray
    task: np.ndarray | None = None


class Effects(NamedTuple):
    r"""Effects in the scores of the training samples.

    Attributes
    ----------
    basis : array of shape (n_samples, n_effects)
        :math:`\Phi`, covariates first, then the levels of every term.
    covariate_std : float
        :math:`\sigma_\beta`.
    term : array of int, of shape (n_effects,)
        Position of the term that a column is a level of; -1 of covariates.
    grams : array of shape (1 + n_terms, n_samples, n_samples)
        :math:`\sigma_\beta^2 \Phi_0 \Phi_0^\top` of covariates, and :math:`\Phi_t \Phi_t^\top` of every term.
    """

    basis: Any
    covariate_std: float
    term: Any
    grams: Any

    @classmethod
    def of(cls, basis: np.ndarray, covariate_std: float, term: np.ndarray) -> Effects:
        """Return the effects of a basis."""
        blocks = [basis[:, term == t] for t in range(-1, term.max() + 1)]
        grams = np.array([block @ block.T for block in blocks])
        grams[0] *= covariate_std**2
        return cls(basis, covariate_std, term, grams)

    @property
    def n_terms(self) -> int:
        """Number of standard deviations that are inferred."""
        return len(self.grams) - 1

    @property
    def n_covariates(self) -> int:
        """Number of covariates."""
        return int((self.term < 0).sum())

    def stds(self, group_std: np.ndarray) -> np.ndarray:
        """Return prior standard deviations of the coefficients, (n_effects,); those of terms are (..., n_terms)."""
        every = np.concatenate(
            [group_std, np.full((*np.shape(group_std)[:-1], 1), self.covariate_std)], axis=-1
        )
        return every[..., self.term]

    def matrix(self, group_std: Array) -> Any:
        """Return what effects add to the covariance of the training scores, (n_samples, n_samples)."""
        return self.grams[0] + namespace(group_std).tensordot(group_std**2, self.grams[1:], 1)

    def pull(self, group_std: Array, adjoint: Array) -> Any:
        """Return the gradient by standard deviations of what has the gradient `adjoint` by the covariance."""
        return 2.0 * group_std * (self.grams[1:] * adjoint).sum(axis=(1, 2))

    def cross(self, rows: DesignRows, group_std: np.ndarray) -> np.ndarray:
        """Return the covariance of effects in the scores of new rows with the training scores."""
        return (rows.basis * self.stds(group_std) ** 2) @ self.basis.T

    def variance(self, rows: DesignRows, group_std: np.ndarray) -> np.ndarray:
        """Return the prior variance of effects in the scores of new rows."""
        return rows.basis**2 @ self.stds(group_std) ** 2 + rows.unseen @ group_std**2

    @property
    def columns(self) -> list[np.ndarray]:
        """Positions of the coefficients of every covariate, and of every term."""
        covariates = [np.array([j]) for j in range(self.n_covariates)]
        return [*covariates, *(np.flatnonzero(self.term == t) for t in range(self.n_terms))]

    def each(self, rows: DesignRows, group_std: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield what `cross` and `variance` are sums of: those of every covariate, and of every term."""
        square = self.stds(group_std) ** 2
        for number, own in enumerate(self.columns):
            basis, t = rows.basis[:, own], number - self.n_covariates
            variance = basis**2 @ square[own]
            if t >= 0:
                variance = variance + rows.unseen[:, t] * group_std[t] ** 2
            yield (basis * square[own]) @ self.basis[:, own].T, variance
