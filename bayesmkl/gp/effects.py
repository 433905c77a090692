r"""What a design adds: effects of covariates and groups beside the kernels' parts, and tasks that share kernels.

.. math:: f = \sum_m w_m g_m + b + \sum_j \beta_j z_j + \sum_t s_t \sum_l u_{tl} h_{tl},
   \qquad \beta_j \sim N(0, \sigma_\beta^2), \qquad u_{tl} \sim N(0, 1) ,

where :math:`z_j` are standardized covariates; :math:`h_{tl}` says which samples are of level `l` of a group, times a
standardized covariate if term `t` is a random slope; and the standard deviations :math:`s_t` are inferred with the
kernel weights. All effects are columns of one basis :math:`\Phi` with independent normal coefficients, so that they
add :math:`\Phi \operatorname{diag}(\sigma^2) \Phi^\top` to the covariance of the scores.

Tasks share their kernels, whose functions are correlated between tasks. With :math:`t_i` the task of sample `i`,
kernel `m` adds :math:`w_m g_m(x_i, t_i)` to the score, where

.. math:: \operatorname{Cov}(g_m(x, t), g_m(x', t')) = B_{tt'} K_m(x, x') / c_m, \qquad B_{tt'} = s_t s_{t'} R_{tt'} ,

the intrinsic coregionalization of Bonilla, Chai and Williams (2008). `R` is a correlation matrix: 0 between tasks
that share no more than the weights of the kernels, 1 between tasks with the same function. :math:`s_t` are
the standard deviations of tasks relative to each other. Both are inferred with the kernel weights. Where several
outcomes of the same samples are partly observed, every outcome that is known is a row, and the outcome its task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl.gp.hyperpriors import FARTHEST, Mapped
from bayesmkl.outcomes.base import joined

SCALE_LOG_STD = 0.5  # of the standard deviations of tasks relative to each other
JITTER = 1e-10  # of their variances, to factorize covariances of tasks that are perfectly correlated


def n_pairs(n_tasks: int) -> int:
    """Return the number of pairs of tasks."""
    return n_tasks * (n_tasks - 1) // 2


def _pairs(n_tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the tasks of every pair, the later one first: (1, 0), (2, 0), (2, 1), ..."""
    return np.tril_indices(n_tasks, -1)


class Tasks(NamedTuple):
    r"""Covariance of the tasks that training samples are of.

    Its `values` are the standard deviations :math:`s_t`, then the correlations of pairs, (1, 0), (2, 0), (2, 1), ...

    Attributes
    ----------
    task : ndarray of int, of shape (n_samples,)
        Position of the task of every sample.
    n_tasks : int
    """

    task: np.ndarray
    n_tasks: int

    @property
    def n_values(self) -> int:
        """Number of values."""
        return self.n_tasks + n_pairs(self.n_tasks)

    def covariance(self, values: np.ndarray) -> np.ndarray:
        """Return `B`, (n_tasks, n_tasks)."""
        std, rho = values[: self.n_tasks], values[self.n_tasks :]
        return std[:, None] * std * correlations(rho, self.n_tasks)

    def matrix(self, values: np.ndarray) -> np.ndarray:
        """Return covariances of the tasks of training samples, (n_samples, n_samples)."""
        return self.cross(self.task, values)

    def cross(self, task: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return covariances of the tasks of rows with those of training samples, (n_rows, n_samples)."""
        return self.covariance(values)[task][:, self.task]

    def variance(self, task: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return variances of the tasks of rows, (n_rows,)."""
        return values[task] ** 2

    def pull(self, values: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
        """Return the gradient by the values of what has the symmetric gradient `adjoint` by `matrix`."""
        member = (self.task[:, None] == np.arange(self.n_tasks)).astype(float)
        by_covariance = member.T @ adjoint @ member
        std, rho = values[: self.n_tasks], values[self.n_tasks :]
        of_each = by_covariance * correlations(rho, self.n_tasks)
        later, earlier = _pairs(self.n_tasks)
        of_pairs = 2.0 * (by_covariance * std[:, None] * std)[later, earlier]
        return np.concatenate([2.0 * of_each @ std, of_pairs])

    def factor(self, values: np.ndarray) -> np.ndarray:
        """Return rows `A` with which `A A^T` is `matrix`, (n_samples, n_tasks)."""
        own = self.covariance(values)
        jitter = JITTER * np.diag(own)
        return np.linalg.cholesky(own + np.diag(jitter))[self.task]


def correlations(rho: Array, n_tasks: int) -> Any:
    """Return the matrix of the correlations of pairs, (..., n_tasks, n_tasks).

    Examples
    --------
    >>> import numpy as np
    >>> correlations(np.array([0.5, 0.1, -0.2]), 3)
    array([[ 1. ,  0.5,  0.1],
           [ 0.5,  1. , -0.2],
           [ 0.1, -0.2,  1. ]])
    """
    later, earlier = _pairs(n_tasks)
    places = np.zeros((len(later), n_tasks, n_tasks))
    places[np.arange(len(later)), later, earlier] = places[np.arange(len(later)), earlier, later] = 1.0
    return namespace(rho).tensordot(rho, places, 1) + np.eye(n_tasks)


class TaskPrior(NamedTuple):
    r"""Prior of the values of `Tasks`, as a function of standard normal coordinates.

    Standard deviations are log-normal with median one. Correlation matrices are uniform (Lewandowski, Kurowicka and
    Joe 2009); with `equal` all pairs have the same correlation, uniform between :math:`-1 / (T - 1)` and one, which
    are the values that `T` tasks can have.

    Attributes
    ----------
    n_tasks : int
    equal : bool
    """

    n_tasks: int
    equal: bool

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return self.n_tasks + (1 if self.equal else n_pairs(self.n_tasks))

    def values(self, coordinates: np.ndarray) -> Mapped:
        """Return the values of some coordinates: those of standard deviations, then those of correlations."""
        std = np.exp(SCALE_LOG_STD * coordinates[: self.n_tasks])
        rho = (self._equal if self.equal else self._free)(coordinates[self.n_tasks :])
        return joined([Mapped(std, lambda gradient: SCALE_LOG_STD * std * gradient), rho])

    def _equal(self, coordinates: np.ndarray) -> Mapped:
        """Return the same correlation for all pairs."""
        least = -1.0 / (self.n_tasks - 1)
        (partial,), (slope,) = _symmetric_beta(coordinates, 1.0)[::2]  # uniform on (-1, 1)
        half = 0.5 * (1.0 - least)
        values = np.full(n_pairs(self.n_tasks), 1.0 - half * (1.0 - partial))
        return Mapped(values, lambda gradient: np.array([half * slope * gradient.sum()]))

    def _free(self, coordinates: np.ndarray) -> Mapped:
        r"""Return correlations from partial ones, :math:`(1 + r) / 2` of which are Beta variables.

        With the Cholesky factor :math:`L_{ij} = r_{ij} \prod_{k < j} (1 - r_{ik}^2)^{1/2}` of `R` in terms of partial
        correlations given the tasks before both.
        """
        later, earlier = _pairs(self.n_tasks)
        shapes = 0.5 * (self.n_tasks - earlier)
        partial, rest, slope = _symmetric_beta(coordinates, shapes)
        root, r = np.zeros((2, self.n_tasks, self.n_tasks))
        left = np.ones((self.n_tasks, self.n_tasks))  # products of the square roots so far
        r[later, earlier] = partial
        remains = np.ones_like(r)
        remains[later, earlier] = rest
        for i in range(self.n_tasks):
            left[i, 1 : i + 1] = np.sqrt(np.cumprod(remains[i, :i]))
            root[i, :i], root[i, i] = r[i, :i] * left[i, :i], left[i, i]
        values = (root @ root.T)[later, earlier]

        def pull(gradient: np.ndarray) -> np.ndarray:
            by_pair = np.zeros_like(root)
            by_pair[later, earlier] = gradient
            by_root = (by_pair + by_pair.T) @ root
            by_partial = by_root * left  # of each entry by its own partial correlation
            for i in range(self.n_tasks):
                after = np.append(np.cumsum((by_root * root)[i, i::-1])[::-1], 0.0)
                by_partial[i, :i] -= after[1 : i + 1] * r[i, :i] / remains[i, :i]
            return by_partial[later, earlier] * slope

        return Mapped(values, pull)


def _symmetric_beta(coordinates: np.ndarray, shape: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `2 B - 1` of normal coordinates, with `B` from a Beta(shape, shape); one minus its square; its slope."""
    u = np.clip(coordinates, -FARTHEST, FARTHEST)
    lower, upper = (special.betaincinv(shape, shape, special.ndtr(side)) for side in (u, -u))
    log_density = (shape - 1.0) * (np.log(lower) + np.log(upper)) - special.betaln(shape, shape)
    slope = 2.0 * np.exp(-0.5 * u**2 - log_density) / np.sqrt(2.0 * np.pi)
    return lower - upper, 4.0 * lower * upper, slope * (u == coordinates)


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

    def matrix(self, group_std: np.ndarray) -> np.ndarray:
        """Return what effects add to the covariance of the training scores, (n_samples, n_samples)."""
        return self.grams[0] + np.tensordot(group_std**2, self.grams[1:], 1)

    def pull(self, group_std: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
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
