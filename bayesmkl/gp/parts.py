r"""Parts of the scores of new samples: what kernels, the intercept and effects add, jointly.

Given hyperparameters and sites, the parts :math:`f_m` of a new sample are jointly normal,

.. math:: E[f_m] = c_m^\top \alpha, \qquad \operatorname{Cov}(f_m, f_n) = \delta_{mn} v_m - c_m^\top R \, c_n ,

where :math:`c_m` is the covariance of part `m` with the training scores and :math:`v_m` its prior variance. Their sum
has the moments of the score.

If an absent view were measured, its point would be one of those that training samples have, with the probabilities
that the other views give them (`bayesmkl.gp.unknown_points`). At the point of sample `j` the score of a new
sample has the moments of the sum of its other parts and of the view's part there, jointly; those of other absent
views are then what is expected of them given this one too. Sample `j` itself is left out, whose target has told more
of the function at this point than is known of it at a new one:

.. math:: E_{-j}[g] = E[g] + \frac{\operatorname{Cov}(g, f_j)}{\operatorname{Var} f_j} (\mu_{-j} - E[f_j]), \qquad
   \operatorname{Var}_{-j} g = \operatorname{Var} g + \frac{\operatorname{Cov}(g, f_j)^2}{(\operatorname{Var} f_j)^2}
   (\sigma_{-j}^2 - \operatorname{Var} f_j) .

Slopes along features are averaged. The average :math:`s_j = \sum_r p_r\, \partial_j f(x_r)` of the slopes of a
view's part :math:`f = \sum_m w_m g_m` is one more number that is normal with the training scores. Given
hyperparameters and sites

.. math:: E[s_j] = c_j^\top \alpha, \qquad \operatorname{Var} s_j = v_j - c_j^\top R\, c_j , \qquad
    c_j = \sum_m \frac{w_m^2}{c_m} \sum_r p_r\, \partial_j k_m(x_r, \cdot), \quad
    v_j = \sum_m \frac{w_m^2}{c_m} \sum_{rs} p_r p_s\, \partial_j \partial'_j k_m(x_r, x_s) .
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesmkl.gp.conditioning import Cavity, Conditioned
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.effects import DesignRows
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.learned import Points


def draw_new_parts(
    covariance: Additive,
    draws: HyperDraws,
    chosen: np.ndarray,
    rows: Stack,
    diagonal: np.ndarray,
    groups: np.ndarray,
    rng: np.random.Generator,
    design_rows: DesignRows | None = None,
) -> np.ndarray:
    """Draw the parts of the scores of new rows; the rows are drawn independently given hyperparameters.

    Parameters
    ----------
    covariance : Additive
    draws : HyperDraws
    chosen : ndarray of int, of shape (n_chosen,)
        Positions of the draws whose hyperparameters are taken.
    rows : Stack
        Kernels of new rows against the training samples.
    diagonal : ndarray of shape (n_kernels, n_rows)
        Similarities of new rows to themselves.
    groups : ndarray of bool, of shape (n_groups, n_kernels)
        Kernels of every part.
    rng : numpy.random.Generator
    design_rows : DesignRows, optional
        Effects and tasks of the new rows, where the covariance has some.

    Returns
    -------
    ndarray of shape (n_chosen, n_outputs, n_parts, n_rows)
        Parts are those of `groups`, the intercept, covariates, and terms of groups.
    """
    n_outputs, point = draws.parameters.shape[1], draws.point[chosen]
    found: np.ndarray = np.empty(0)
    for at in np.unique(point):
        here = np.flatnonzero(point == at)
        pairs = prior_parts(covariance, draws, at, rows, diagonal, groups, design_rows)
        cross, prior = (np.array(values) for values in zip(*pairs, strict=True))
        if not found.size:
            found = np.empty((len(chosen), n_outputs, *prior.shape))
        for k, posterior in enumerate(draws.conditioned(covariance, at)):
            mean, cov = joint_moments(posterior, cross, prior)
            values, vectors = np.linalg.eigh(cov)
            root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
            normal = rng.standard_normal((prior.shape[1], prior.shape[0], len(here)))
            found[here, k] = mean + np.moveaxis(root @ normal, (0, 1, 2), (2, 1, 0))
    return found


def mean_parts(
    covariance: Additive,
    draws: HyperDraws,
    rows: Stack,
    diagonal: np.ndarray,
    groups: np.ndarray,
    design_rows: DesignRows | None = None,
) -> np.ndarray:
    """Return posterior means of the parts of new rows over the points of predictions, (n_outputs, n_parts, n_rows).

    Parameters as in `draw_new_parts`. Where kernels are the same at all points, weights of training samples say it.
    """
    total: Any = 0.0
    for at, probability in zip(*draws.of_predictions, strict=True):
        pairs = prior_parts(covariance, draws, at, rows, diagonal, groups, design_rows)
        cross = np.array([own for own, _ in pairs])
        duals = [posterior.dual for posterior in next(draws.factorized(covariance, np.array([at])))]
        total = total + probability * np.array([cross @ dual for dual in duals])
    return np.asarray(total)


def joint_moments(
    posterior: Conditioned, cross: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return means of parts, (n_parts, n_rows), and their covariances in every row, (n_rows, n_parts, n_parts).

    Parameters
    ----------
    posterior : Conditioned
    cross : ndarray of shape (n_parts, n_rows, n_samples)
        Covariances of parts with the training scores.
    prior : ndarray of shape (n_parts, n_rows)
        Prior variances of parts, which are independent.
    """
    told = np.moveaxis((cross * posterior.root) @ posterior.inverse_root, 0, 1)
    cov = -told @ told.mT
    np.einsum("rpp->rp", cov)[...] += prior.T
    return cross @ posterior.dual, cov


def prior_parts(
    covariance: Additive,
    draws: HyperDraws,
    at: int,
    rows: Stack,
    diagonal: np.ndarray,
    groups: np.ndarray,
    design_rows: DesignRows | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield covariances with the training scores, (n_rows, n_samples), and variances, of every part.

    Parameters as in `draw_new_parts`; `at` is the position of the hyperparameters.
    """
    own, weights = draws.kernel_weights[at], draws.weights[at]
    task = None if design_rows is None or covariance.tasks is None else design_rows.task
    for group in groups:
        cross = covariance.cross(rows, own * group, weights)
        prior = covariance.variance(rows, diagonal, own * group, weights)
        if task is not None:
            cross = cross * covariance.tasks.cross(task, draws.task_values[at])  # type: ignore[union-attr]
            prior = prior * covariance.tasks.variance(task, draws.task_values[at])  # type: ignore[union-attr]
        yield cross, prior
    variance = covariance.intercept_std**2
    yield np.full((rows.n_rows, covariance.stack.n_train), variance), np.full(rows.n_rows, variance)
    if covariance.effects is not None and design_rows is not None:
        yield from covariance.effects.each(design_rows, draws.group_std[at])


class PartRows(NamedTuple):
    """Parts of scores: covariances with the training scores, (n_rows, n_samples), and variances, (n_rows,)."""

    cross: np.ndarray
    prior: np.ndarray


def revealed_moments(
    posterior: Conditioned,
    covariance: np.ndarray,
    left: Cavity,
    others: PartRows,
    points: PartRows,
    lacks: np.ndarray,
    samples: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances of the scores of rows at every point of a view, (n_rows, n_points).

    Parameters
    ----------
    posterior : Conditioned
    covariance : ndarray of shape (n_samples, n_samples)
        Of the training scores.
    left : Cavity
        Of the training scores.
    others : PartRows
        All that is known of the rows but the view.
    points : PartRows
        The view's part at its points, and what parts of other absent views gain there: covariances of each,
        (n_parts, n_points, n_samples), and variances of their sum, (n_rows, n_points).
    lacks : ndarray of bool, of shape (n_rows, n_parts)
        Which of these a row has.
    samples : ndarray of int, of shape (n_points,)
        Training samples that have the points.
    """
    told = posterior.root[:, None] * posterior.inverse_root
    of_rows, of_points, of_samples = others.cross @ told, points.cross @ told, covariance[samples] @ told
    mean = (others.cross @ posterior.dual)[:, None] + lacks @ (points.cross @ posterior.dual)
    squares = np.einsum("uji,wji->uwj", of_points, of_points)
    explained = (of_rows**2).sum(axis=1)[:, None] + np.einsum("ru,uwj,rw->rj", lacks, squares, lacks)
    for own, lack in zip(of_points, lacks.T, strict=True):
        explained += 2.0 * lack[:, None] * (of_rows @ own.T)
    variance = others.prior[:, None] + points.prior - explained
    shared = points.cross[:, np.arange(len(samples)), samples] - np.einsum(
        "uji,ji->uj", of_points, of_samples
    )
    shared = others.cross[:, samples] - of_rows @ of_samples.T + lacks @ shared
    slope = shared / posterior.variance[samples]
    mean = mean + slope * (left.mean - posterior.mean)[samples]
    variance = variance + slope**2 * (1.0 / left.precision - posterior.variance)[samples]
    return mean, np.maximum(variance, 0.0)


class KernelSlopes(NamedTuple):
    """Average slopes of functions of one kernel of unit weight, along the features of its view.

    Attributes
    ----------
    cross : ndarray of shape (n_features, n_samples)
        Covariances with the function at the training samples.
    variance : ndarray of shape (n_features,)
    """

    cross: np.ndarray
    variance: np.ndarray


class LearnedSlopes(NamedTuple):
    """The same of a kernel whose widths are inferred.

    Attributes
    ----------
    points : Points
        See `bayesmkl.kernels.stacks.learned`.
    values : slice
        Its log widths among those of all kernels.
    factors : ndarray of shape (n_rows,)
        Parts of rows in averages.
    """

    points: Points
    values: slice
    factors: np.ndarray

    def at(self, log_widths: np.ndarray) -> KernelSlopes:
        """Return average slopes at log widths of all kernels."""
        points, q, own = self.points, self.factors, log_widths[self.values]
        kernel, of_rows = points.evaluate(own), points._replace(train=points.rows).evaluate(own)
        X, Z, rates = points.rows, points.train, np.exp(-2.0 * own)
        cross = rates * (Z * (q @ kernel)[:, None] - kernel.T @ (q[:, None] * X))
        weighted = of_rows @ q * q
        squares = 2.0 * (weighted @ X**2 - np.einsum("rj,rj->j", q[:, None] * X, of_rows @ (q[:, None] * X)))
        return KernelSlopes(
            self._by_column(cross).T, self._by_column(rates * (weighted.sum() - rates * squares), 2)
        )

    def over_train(self, log_widths: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """Return slopes in every row of a function with weights of training samples, (n_rows, n_columns)."""
        own = log_widths[self.values]
        kernel = self.points.evaluate(own)
        slopes = kernel @ (dual[:, None] * self.points.train) - self.points.rows * (kernel @ dual)[:, None]
        return self._by_column(np.exp(-2.0 * own) * slopes)

    def _by_column(self, values: np.ndarray, power: int = 1) -> np.ndarray:
        """Return what is known of features in units of their widths for all columns, in their own units."""
        seen = np.isfinite(self.points.medians)
        found = np.zeros((*values.shape[:-1], len(seen)))
        found[..., seen] = values / self.points.medians[seen] ** power
        return found


def draw_slopes(
    covariance: Additive,
    draws: HyperDraws,
    views: list[list[KernelSlopes | LearnedSlopes]],
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw average slopes, each on its own, at every draw of the hyperparameters.

    Parameters
    ----------
    covariance : Additive
        Of the training scores.
    draws : HyperDraws
    views : list of list of KernelSlopes or LearnedSlopes
        Of the kernels of every view, in the order of the kernels.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_draws, n_outputs, n_features)
        Features of all views, one view after the other.
    """
    *counts, n_kernels = np.cumsum([len(kernels) for kernels in views])  # others have no slopes
    log_widths = draws.log_widths.reshape(len(draws.kernel_weights), -1)
    n_features = sum(
        len(own.variance) for own in (_slopes_at(kernels[0], log_widths[0]) for kernels in views)
    )
    n_outputs = draws.parameters.shape[1]
    mean, std = np.empty((2, len(draws.kernel_weights), n_outputs, n_features))
    for at in np.unique(draws.point):
        units = covariance.at(log_widths[at])[1]
        sizes = np.split((draws.kernel_weights[at] ** 2 / np.asarray(units))[:n_kernels], counts)
        fixed = [[_slopes_at(kernel, log_widths[at]) for kernel in kernels] for kernels in views]
        pairs = list(zip(sizes, fixed, strict=True))
        cross = np.concatenate([sum(w * k.cross for w, k in zip(*pair, strict=True)) for pair in pairs])
        prior = np.concatenate([sum(w * k.variance for w, k in zip(*pair, strict=True)) for pair in pairs])
        for k, posterior in enumerate(draws.conditioned(covariance, at)):
            mean[at, k] = cross @ posterior.dual
            std[at, k] = np.sqrt(np.maximum(prior - posterior.explained(cross), 0.0))
    shape = draws.n_draws, n_outputs, n_features
    return mean[draws.point] + std[draws.point] * rng.standard_normal(shape)


def _slopes_at(kernel: KernelSlopes | LearnedSlopes, log_widths: np.ndarray) -> KernelSlopes:
    return kernel.at(log_widths) if isinstance(kernel, LearnedSlopes) else kernel


def mean_slopes(covariance: Additive, draws: HyperDraws, kernel: LearnedSlopes) -> np.ndarray:
    """Return posterior mean slopes of a part in every row, (n_outputs, n_rows, n_columns)."""
    total: Any = 0.0
    for at, probability in zip(*draws.of_predictions, strict=True):
        m, widths = kernel.points.kernel, draws.log_widths[at]
        factor = probability * draws.kernel_weights[at, m] ** 2 / covariance.at(widths)[1][m]
        duals = [posterior.dual for posterior in next(draws.factorized(covariance, np.array([at])))]
        total = total + factor * np.array([kernel.over_train(widths, dual) for dual in duals])
    return np.asarray(total)
