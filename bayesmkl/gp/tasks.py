r"""Tasks that share their kernels: functions of every kernel that are correlated between tasks.

With :math:`t_i` the task of sample `i`, kernel `m` adds :math:`w_m g_m(x_i, t_i)` to the score, where

.. math:: \operatorname{Cov}(g_m(x, t), g_m(x', t')) = B_{tt'} K_m(x, x') / c_m, \qquad B_{tt'} = s_t s_{t'} R_{tt'} ,

the intrinsic coregionalization of Bonilla, Chai and Williams (2008). `R` is a correlation matrix: 0 between tasks
that share no more than the weights of the kernels, 1 between tasks with the same function. :math:`s_t` are
the standard deviations of tasks relative to each other. Both are inferred with the kernel weights. Where several
outcomes of the same samples are partly observed, every outcome that is known is a row, and the outcome its task.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl.gp.hyperpriors import FARTHEST, Mapped

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

    def covariance(self, values: Array) -> Any:
        """Return `B`, (n_tasks, n_tasks)."""
        std, rho = values[: self.n_tasks], values[self.n_tasks :]
        return std[:, None] * std * correlations(rho, self.n_tasks)

    def matrix(self, values: Array) -> Any:
        """Return covariances of the tasks of training samples, (n_samples, n_samples)."""
        return self.cross(self.task, values)

    def cross(self, task: np.ndarray, values: Array) -> Any:
        """Return covariances of the tasks of rows with those of training samples, (n_rows, n_samples)."""
        return self.covariance(values)[task][:, self.task]

    def variance(self, task: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return variances of the tasks of rows, (n_rows,)."""
        return values[task] ** 2

    def pull(self, values: Array, adjoint: Array) -> Any:
        """Return the gradient by the values of what has the symmetric gradient `adjoint` by `matrix`."""
        xp = namespace(adjoint)
        member = xp.asarray((self.task[:, None] == np.arange(self.n_tasks)).astype(float))
        by_covariance = member.T @ adjoint @ member
        std, rho = values[: self.n_tasks], values[self.n_tasks :]
        of_each = by_covariance * correlations(rho, self.n_tasks)
        later, earlier = _pairs(self.n_tasks)
        of_pairs = 2.0 * (by_covariance * std[:, None] * std)[later, earlier]
        return xp.concatenate([2.0 * of_each @ std, of_pairs])

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

        def pull(gradient: np.ndarray) -> np.ndarray:
            return np.concatenate(
                [SCALE_LOG_STD * std * gradient[: self.n_tasks], rho.pull(gradient[self.n_tasks :])]
            )

        return Mapped(np.concatenate([std, rho.values]), pull)

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
