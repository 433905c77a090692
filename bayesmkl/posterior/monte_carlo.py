r"""Monte Carlo standard errors of means and quantiles over draws: of an additive Gaussian process, or in chains.

Draws that have hyperparameters in common are not independent: they count as many as there are points, each with its
probability :math:`p_j`. With the deviations :math:`r_j` of the means of each point, the squared error of a mean is

.. math:: \sum_j p_j^2 r_j^2 .

Points of importance sampling are quasi-random, and what is linear in the logarithms of the hyperparameters comes out
nearly the same whatever the seed: :math:`r_j` are the residuals of a regression on them (control variates).
Points of chains say less than as many independent ones, by the ratio of their effective number. The error of a
quantile is that of the probability below it, divided by the density there (Woodruff 1952).

Draws in Markov chains count as many as their effective sample size says, of the quantity itself or of being below a
quantile; these errors are ArviZ's.

References: R. S. Woodruff (1952), Confidence intervals for medians and other position measures, Journal of the
American Statistical Association 47; A. B. Owen (2013), Monte Carlo theory, methods and examples, chapters 8 and 9.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.gp.reading import HyperDraws
from bayesmkl.posterior.fitted import FittedBEMKL

NEAR_ZERO = 0.01  # of its mean, below which a weight is zero as far as shares go
POINTS_PER_COLUMN = 3  # of a regression
PART_OF_TAIL = 0.5  # of a probability to either side of a quantile over which the density there is measured


class MonteCarlo(NamedTuple):
    """Links between draws.

    Attributes
    ----------
    point : ndarray of int, of shape (n_draws,)
        Position of the hyperparameters of each draw, from 0 to n_points - 1.
    known : ndarray of shape (n_points, n_columns)
        Functions of the hyperparameters whose means have next to no error; the first is constant.
    inflation : float
        How many points say as much as one independent point.
    """

    point: np.ndarray
    known: np.ndarray
    inflation: float

    def of_means(self, values: np.ndarray) -> np.ndarray:
        """Return standard errors of the means of (n_draws, n) values, (n,)."""
        counts = np.bincount(self.point, minlength=len(self.known))
        sums = np.zeros((len(counts), values.shape[1]))
        np.add.at(sums, self.point, values)
        root = np.sqrt(counts)[:, None]
        around, known = sums / root, self.known * root
        residual = around - known @ np.linalg.lstsq(known, around)[0]
        freedom = len(counts) / max(len(counts) - known.shape[1], 1)
        square = ((residual * root) ** 2).sum(axis=0) / len(self.point) ** 2
        return np.sqrt(freedom * self.inflation * square)

    def of_quantiles(self, values: np.ndarray, probability: float) -> np.ndarray:
        """Return standard errors of one quantile of each column of (n_draws, n) values, (n,)."""
        below = (values <= np.quantile(values, probability, axis=0)).astype(float)
        least = PART_OF_TAIL * min(probability, 1.0 - probability)
        found = np.empty(values.shape[1])
        for m, error in enumerate(self.of_means(below)):
            half = max(float(error), least)
            ends = np.clip([probability - half, probability + half], 0.0, 1.0)
            reach = float(np.diff(np.quantile(values[:, m], ends))[0])
            found[m] = error * reach / (ends[1] - ends[0])
        return found


def monte_carlo(fitted: FittedBEMKL, chosen: np.ndarray) -> MonteCarlo:
    """Say how draws of an additive Gaussian process are linked.

    Parameters
    ----------
    fitted : FittedBEMKL
    chosen : ndarray of int
        Positions of the draws that are used.
    """
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    kept, point = np.unique(draws.point[chosen], return_inverse=True)
    options, constant = estimator._inference(), np.ones((len(kept), 1))
    if np.isnan(estimator.pareto_k_):  # Markov chains
        return MonteCarlo(point, constant, max(1.0, options.n_points / estimator.ess_))
    weights = np.column_stack([draws.kernel_weights, draws.group_std])[kept]
    weights = weights + NEAR_ZERO * weights.mean(axis=0) + np.finfo(float).tiny
    parameters = draws.parameters[kept].reshape(len(kept), -1)
    of_tasks = draws.task_values.reshape(len(draws.kernel_weights), -1)[kept]
    known = np.column_stack([constant, np.log(weights), np.log(parameters), of_tasks])
    enough = len(kept) >= POINTS_PER_COLUMN * known.shape[1]
    return MonteCarlo(point, known if enough else constant, 1.0)


def errors_of_chains(values: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Monte Carlo standard errors of means, lower and upper quantiles, each of shape (n,).

    Parameters
    ----------
    values : array of shape (n_chains, n_draws, n)
        What does not move has no error.
    tail : float
        Probability below the lower quantile, and above the upper one.
    """
    from arviz_stats.base import array_stats

    moves = np.ptp(values, axis=(0, 1)) > 0.0
    moving = np.moveaxis(values[..., moves], -1, 0)
    errors = np.zeros((3, values.shape[-1]))
    if moves.any():
        errors[0, moves] = array_stats.mcse(moving)
        errors[1, moves] = array_stats.mcse(moving, method="quantile", prob=tail)
        errors[2, moves] = array_stats.mcse(moving, method="quantile", prob=1.0 - tail)
    return errors[0], errors[1], errors[2]
