r"""Read-outs of draws of hyperparameters: scores, predictions, shares of kernels, leave-one-out densities.

All of it is exact given hyperparameters and the sites of `bayesmkl.gp.evidence`, and averaged over
equally likely draws.

What every kernel adds to the training scores is drawn some kernels at a time. By Matheron's rule a draw from the
posterior is one from the prior, corrected by what the sites say of it,

.. math:: f_m + \operatorname{Cov}(f_m, f)\, r , \qquad r = S B^{-1} (S^{-1} \tilde\nu - S f - z) ,

`f` the sum of all parts and `z` normal. So parts are gone through twice: for their sum, and, once the residuals are
known, for what each of them has in common with the score. Where they take much memory they are drawn anew the second
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linprog
from scipy.special import logsumexp

from bayesmkl.gp.conditioning import Cavity, Conditioned, Factored, Sites, cavity, condition, factorize
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.effects import DesignRows
from bayesmkl.gp.hyperposterior import (
    Draws,
    Hypermodel,
    covariance_matrices,
    equally_likely,
    evaluate,
)
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes.base import Likelihood, Repeated, copies_of, of_one_copy

KEPT = 2**30  # bytes of parts that are kept for the second time
AT_ONCE = 2**25  # bytes of parts that are in work


class PriorParts:
    """Draws of the functions of all kernels from their prior, the same whenever they are asked for.

    Parameters
    ----------
    covariance : Additive
    n_draws, n_outputs : int
    rng : numpy.random.Generator
        Its state is that after all draws where they are kept, else what it was.

    Raises
    ------
    numpy.linalg.LinAlgError
        With the position of a kernel that is not positive semidefinite; while parts are drawn.
    """

    def __init__(self, covariance: Additive, n_draws: int, n_outputs: int, rng: np.random.Generator) -> None:
        self.covariance = covariance
        self.shape = n_draws, n_outputs, covariance.stack.n_train
        self._rng = rng
        n_kernels, of_all = covariance.stack.n_kernels, part_bytes(covariance, n_draws * n_outputs)
        step = n_kernels if covariance.stack.learned else max(1, AT_ONCE * n_kernels // of_all)
        self._groups = [np.arange(m, min(m + step, n_kernels)) for m in range(0, n_kernels, step)]
        is_kept = of_all <= KEPT or len(self._groups) == 1
        self._kept = list(self._draw(rng)) if is_kept else None

    def __iter__(self) -> Iterator[tuple[np.ndarray, Additive, np.ndarray]]:
        """Yield positions of some kernels, their covariance, and ([n_tasks, ]n_kernels, n_samples, n_functions)."""
        return iter(self._draw(deepcopy(self._rng)) if self._kept is None else self._kept)

    def _draw(self, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, Additive, np.ndarray]]:
        n_functions = self.shape[0] * self.shape[1]
        for kernels in self._groups:
            own = self.covariance if len(self._groups) == 1 else self.covariance.of_kernels(kernels)
            try:
                drawn = own.draw_parts(rng, n_functions)
            except np.linalg.LinAlgError as error:
                raise np.linalg.LinAlgError(int(kernels[error.args[0]])) from error
            yield kernels, own, drawn

    def total(self, weights: np.ndarray, point: np.ndarray) -> np.ndarray:
        """Return the sums of the parts of all kernels, (n_draws, n_outputs, n_samples).

        Parameters
        ----------
        weights : ndarray of shape (n_points, n_weights)
            As the covariance takes them.
        point : ndarray of int, of shape (n_draws,)
            Which of them a draw has.
        """
        found = np.zeros(self.shape)
        for kernels, own, drawn in self:
            for here, of_these in self._by_weights(own, kernels, weights, point):
                if own.stack.learned:  # draws are functions from here on
                    outputs = np.arange(self.shape[1])
                    own.color(of_these, drawn, (here[:, None] * self.shape[1] + outputs).ravel())
                found[here] += self._weigh(own, of_these, drawn, here).sum(axis=2)
        return found

    def corrected(
        self, weights: np.ndarray, point: np.ndarray, residuals: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield positions of some kernels and of some draws, and their parts.

        These are of shape (n_draws, n_outputs, n_kernels, n_samples).

        Parameters
        ----------
        weights, point
            As those of `total`.
        residuals : ndarray of shape (n_draws, n_outputs, n_samples)
            See `bayesmkl.gp.conditioning.Conditioned.residuals`.
        """
        n_outputs = self.shape[1]
        for kernels, own, drawn in self:
            for here, of_these in self._by_weights(own, kernels, weights, point):
                parts = self._weigh(own, of_these, drawn, here)
                tall = residuals[here].reshape(-1, self.shape[2])
                each = np.repeat(of_these, n_outputs, axis=0) if of_these.ndim == 2 else of_these
                shift = own.shift_parts(each, tall.T)
                parts += np.moveaxis(shift.reshape(*shift.shape[:2], -1, n_outputs), (2, 3), (0, 1))
                yield kernels, here, parts

    def _by_weights(
        self, own: Additive, kernels: np.ndarray, weights: np.ndarray, point: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield draws, and their weights of some kernels: one by one where all draws can be had together."""
        of_kernels, of_groups, *of_others = self.covariance.split(weights.T)
        rest = of_groups if own.effects is not None else of_groups[:0]
        chosen = np.concatenate([of_kernels[kernels], rest, *of_others]).T
        if own.tasks is None and not own.stack.learned:
            yield np.arange(len(point)), chosen[point]
            return
        for at in range(len(weights)):
            yield np.flatnonzero(point == at), chosen[at]

    def _weigh(self, own: Additive, weights: np.ndarray, drawn: np.ndarray, here: np.ndarray) -> np.ndarray:
        """Return parts of some draws from those of unit weight, (n_draws, n_outputs, n_kernels, n_samples)."""
        n_draws, n_outputs, _ = self.shape
        split = drawn.reshape(*drawn.shape[:-1], n_draws, n_outputs)
        if len(here) < n_draws:
            split = split[..., here, :]
        parts = [own.weigh_parts(weights, np.moveaxis(split[..., k], -1, 0)) for k in range(n_outputs)]
        return parts[0][:, None] if n_outputs == 1 else np.stack(parts, axis=1)


def part_bytes(covariance: Additive, n_functions: int) -> Any:
    """Return what draws of the functions of all kernels take, one for every output of every draw."""
    n_tasks = 1 if covariance.tasks is None else covariance.tasks.n_tasks
    return 8 * covariance.stack.n_kernels * covariance.stack.n_train * n_functions * n_tasks


CROSS_ENTRIES = 2**21  # of the covariances that are made at once
SINGLE_ENTRIES = 2**24  # of those that are kept, of single precision
MOST_POINTS = 64  # of posteriors of many kernels, whose covariances are kept
MOST_LEARNED = 256  # posteriors of kernels whose widths are inferred, each with kernels of its own
TOL = 3e-2  # of the sites of points that are kept, in standard deviations of scores
LEAST_VARIANCE = 1e-10  # of the largest of a direction of moments, below which it is rounding error
ROUNDING = 5e-4  # of variances of scores, that is 6e-5 of probabilities
ROUNDED_SAMPLES = 8  # whose variances are compared
LEAST_PROBABILITY = 1e-9  # of a point, below which a linear program means zero


class HyperDraws(NamedTuple):
    """Equally likely draws, of which those of hyperparameters are few different points.

    Attributes
    ----------
    kernel_weights : ndarray of shape (n_points, n_kernels)
    parameters : ndarray of shape (n_points, n_outputs, n_parameters)
        Of the likelihood.
    site_precision, site_linear : ndarray of shape (n_points, n_outputs, n_samples)
        Of the training samples.
    cavity_mean, cavity_variance : ndarray of shape (n_points, n_outputs, n_samples)
        Of every score given all samples but its own.
    point : ndarray of int, of shape (n_draws,)
        Position of the hyperparameters of a draw.
    shares : ndarray of shape (n_draws, n_kernels)
        Of a draw of the scores; see `shares`.
    score : ndarray of shape (n_draws, n_outputs, n_samples)
        That draw of the training scores, the intercept included.
    group_std : ndarray of shape (n_points, n_terms)
        Standard deviations of the coefficients of groups.
    effects : ndarray of shape (n_draws, n_outputs, n_effects)
        That draw's coefficients of covariates, which are standardized, and of the levels of groups.
    task_values : ndarray of shape (n_points, n_values)
        Standard deviations and correlations of tasks; see `bayesmkl.gp.effects.Tasks`.
    task_shares : ndarray of shape (n_draws, n_tasks, n_kernels)
        The same as `shares` over the samples of every task.
    units : ndarray of shape (n_kernels,)
        Units of kernels, and
    covariances : ndarray of single precision of shape (n_points, n_samples, n_samples)
        prior covariances of the training scores, where so many kernels take long to be evaluated anew; else empty.
    predictive : ndarray of shape (n_points,)
        Probabilities of the points in predictions of new rows, most of them zero, see `likely_points`; empty where
        predictions are made from all points.
    log_widths : ndarray of shape (n_points, n_values)
        Logs of widths of kernels that are inferred, in units of their prior's median, kernel after kernel.
    variances : ndarray of shape (n_draws, n_outputs, n_kernels + n_views + 1)
        Of that draw's parts over the training samples: those of kernels, of views, and of all of them together; empty
        where they were not asked for.
    included : bool ndarray of shape (n_chains, n_sweeps, n_kernels)
        Which kernels are in after every sweep of chains over sets of kernels, of which `point` has some; else empty.
    coordinates : ndarray of shape (n_points, n_coordinates)
        The points in the coordinates of `bayesmkl.gp.hyperpriors`, in which the prior is standard normal.
    """

    kernel_weights: np.ndarray
    parameters: np.ndarray
    site_precision: np.ndarray
    site_linear: np.ndarray
    cavity_mean: np.ndarray
    cavity_variance: np.ndarray
    point: np.ndarray
    shares: np.ndarray
    score: np.ndarray
    group_std: np.ndarray
    effects: np.ndarray
    task_values: np.ndarray = np.empty((0, 0))
    task_shares: np.ndarray = np.empty((0, 0, 0))
    units: np.ndarray = np.empty(0)
    covariances: np.ndarray = np.empty((0, 0, 0), dtype=np.float32)
    predictive: np.ndarray = np.empty(0)
    log_widths: np.ndarray = np.empty((0, 0))
    variances: np.ndarray = np.empty((0, 0, 0))
    included: np.ndarray = np.empty((0, 0, 0), dtype=bool)
    coordinates: np.ndarray = np.empty((0, 0))

    @property
    def weights(self) -> np.ndarray:
        """Kernel weights, with standard deviations of groups, values of tasks and log widths, (n_points, n)."""
        rest = [own.reshape(len(self.kernel_weights), -1) for own in (self.task_values, self.log_widths)]
        return np.concatenate([self.kernel_weights, self.group_std, *rest], axis=1)

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.point)

    @property
    def probability(self) -> np.ndarray:
        """Posterior probabilities of the points, (n_points,)."""
        return np.bincount(self.point, minlength=len(self.kernel_weights)) / self.n_draws

    @property
    def of_predictions(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and probabilities of the points that predictions are made from."""
        probability = self.predictive if len(self.predictive) else self.probability
        points = np.flatnonzero(probability)
        return points, probability[points]

    def matrix(self, covariance: Additive, at: int) -> np.ndarray:
        """Return the prior covariance of the training scores at a point, the one that was kept if there is one."""
        if len(self.covariances):
            return self.covariances[at].astype(float)
        found: np.ndarray = covariance.matrix(self.weights[at])
        return found

    def conditioned(self, covariance: Additive, at: int) -> list[Conditioned]:
        """Return the training scores of every output given the sites of a point."""
        matrix = self.matrix(covariance, at)
        return [condition(matrix, own) for own in self._sites(at)]

    def factorized(
        self, covariance: Additive, points: np.ndarray, precision: type[np.floating] = np.float64
    ) -> Iterator[list[Factored]]:
        """Yield as much of the same as predictions need of some points, in single or double precision."""
        is_kept, n_train = len(self.covariances) > 0, self.site_precision.shape[-1]
        entries = CROSS_ENTRIES if precision == np.float64 else SINGLE_ENTRIES
        step = 1 if is_kept else max(1, entries // n_train**2)
        for some in (points[first : first + step] for first in range(0, len(points), step)):
            matrices = (
                [self.matrix(covariance, some[0])]
                if is_kept
                else covariance.matrix(self.weights[some], precision)
            )
            for at, matrix in zip(some, matrices, strict=True):
                of_outputs, single = self._sites(at), matrix.astype(precision, copy=False)
                yield [factorize(single, own, overwrite=len(of_outputs) == 1) for own in of_outputs]

    def precision_of_predictions(self, covariance: Additive) -> type[np.floating]:
        """Return single precision, if variances of scores have digits enough at the point where fewest are left."""
        points, _ = self.of_predictions
        worst = points[
            np.argmax((self.weights[points] ** 2).sum(axis=1) * self.site_precision[points].max((1, 2)))
        ]
        matrix = self.matrix(covariance, worst)
        some = np.linspace(0, len(matrix) - 1, ROUNDED_SAMPLES, dtype=int)
        cross, prior = matrix[some], matrix[some, some]
        for own in self._sites(worst):
            try:
                single = factorize(matrix.astype(np.float32), own).explained(cross)
            except np.linalg.LinAlgError:
                return np.float64
            double = factorize(matrix, own).explained(cross)
            if (np.abs(single - double) > ROUNDING * (prior - double)).any():
                return np.float64
        return np.float32

    def _sites(self, at: int) -> list[Sites]:
        return [Sites(*own) for own in zip(self.site_precision[at], self.site_linear[at], strict=True)]


class LeftOut(NamedTuple):
    """Log densities of samples that are left out with all their outputs.

    Attributes
    ----------
    each : ndarray of shape (n_outputs, n_samples)
        Of every output alone.
    joint : ndarray of shape (n_samples,)
        Of all outputs together, whose densities depend on the same hyperparameters.
    log_weights : ndarray of shape (n_points, n_samples)
        Log posterior probabilities of the points without a sample.
    """

    each: np.ndarray
    joint: np.ndarray
    log_weights: np.ndarray


class Reading(NamedTuple):
    r"""What is read from the training samples.

    Attributes
    ----------
    draws : HyperDraws
    left_out : LeftOut
    dual : ndarray of shape (n_outputs, [n_tasks, ]n_kernels, n_samples)
        Posterior means of weights :math:`a_m` of training samples: the mean score of a new sample is
        :math:`\\sum_m k_m^\top a_m + b`. Every task has its own.
    intercept : ndarray of shape (n_outputs,)
        Posterior mean of `b`.
    effects : ndarray of shape (n_outputs, n_effects)
        Posterior mean coefficients of covariates and levels of groups.
    """

    draws: HyperDraws
    left_out: LeftOut
    dual: np.ndarray
    intercept: np.ndarray
    effects: np.ndarray


class ScoreMoments(NamedTuple):
    """Mean and variance of scores given hyperparameters, each of shape (n_points, n_outputs, n_rows).

    `parameters`, (n_points, n_outputs, n_parameters), are those of the likelihood; `probability`, (n_points,), sums
    to one.
    """

    mean: np.ndarray
    variance: np.ndarray
    parameters: np.ndarray
    probability: np.ndarray


def read(
    model: Hypermodel,
    weighted: Draws,
    prior: PriorParts,
    rng: np.random.Generator,
    on_point: Callable[[int, str], None] | None = None,
    views: Sequence[str] | None = None,
) -> Reading:
    """Draw equally likely hyperparameters from weighted ones, systematically, and read all that they say.

    Parameters
    ----------
    model : Hypermodel
    weighted : Draws
    prior : PriorParts
        Draws of parts of unit weight: one for each draw of the result.
    rng : numpy.random.Generator
    on_point : callable, optional
        Called with the number of points that were read, and an empty status.
    views : sequence of str, optional
        View of every kernel; None: variances of parts are not needed.
    """
    covariance = model.covariance
    n_draws, n_outputs, n_samples = prior.shape
    n_kernels = covariance.stack.n_kernels
    units = np.empty(0) if covariance.stack.storage == "dense" else covariance.units
    are_many = len(units) > 0
    most = MOST_POINTS if are_many else MOST_LEARNED if covariance.stack.learned else n_draws
    n_few = min(n_draws, most)
    chosen = equally_likely(weighted.weights, n_few, rng)[np.arange(n_draws) * n_few // n_draws]
    # in random order, so that neighbors say nothing of each other
    points, point = np.unique(rng.permutation(chosen), return_inverse=True)
    values = [model.values(weighted.coordinates[i]) for i in points]
    weights = np.array([own for own, _ in values])
    shape = len(points), n_outputs, n_samples
    site_precision, site_linear, cavity_mean, cavity_variance, duals = np.empty((5, *shape))
    effects, tasks = covariance.effects, covariance.tasks
    n_effects, n_tasks = 0 if effects is None else len(effects.term), 0 if tasks is None else tasks.n_tasks
    kernel_weights, group_std, task_values, log_widths = (part.T for part in covariance.split(weights.T))
    draws = HyperDraws(
        kernel_weights,
        np.array([parameters for _, parameters in values]),
        site_precision,
        site_linear,
        cavity_mean,
        cavity_variance,
        point,
        np.empty((n_draws, n_kernels)),
        prior.total(weights, point),
        group_std,
        np.empty((n_draws, n_outputs, n_effects)),
        task_values,
        np.empty((n_draws, n_tasks, n_kernels)),
        units,
        np.empty((len(points) if are_many else 0, n_samples, n_samples), dtype=np.float32),
        log_widths=log_widths,
        included=weighted.included,
        coordinates=weighted.coordinates[points],
    )
    left_out, taken_out = np.empty((2, *shape))
    residuals, of_parts = np.empty((2, n_draws, n_outputs, n_samples))
    normal = draw_normal(covariance, residuals.shape, rng)
    matrices = covariance_matrices(model, weights)
    for at, (i, (own_weights, parameters), matrix) in enumerate(zip(points, values, matrices, strict=True)):
        here = np.flatnonzero(point == at)
        if on_point is not None:
            on_point(at, "")
        if are_many:
            draws.covariances[at] = matrix
        known: Any = weighted.points[i]
        found: Any = known.found or evaluate(model, weighted.coordinates[i], known.sites, matrix, tol=TOL)[1]
        for k, (output, own) in enumerate(zip(found, parameters, strict=True)):
            posterior, sites = output.posterior, output.sites
            if isinstance(posterior, Factored):
                posterior = posterior.completed(matrix)
            draws.site_precision[at, k], draws.site_linear[at, k] = sites.precision, sites.linear
            copies = copies_of(model.likelihood, model.targets[k])
            left = cavity(posterior, sites.power(1.0 / copies))
            draws.cavity_mean[at, k], draws.cavity_variance[at, k] = left.mean, 1.0 / left.precision
            left_out[at, k], taken_out[at, k] = leave_out(model.likelihood, model.targets[k], left, own)
            duals[at, k] = posterior.dual
            of_prior = draws.score[here, k], normal[here, k]
            drawn = draw_scores(covariance, own_weights, posterior, sites, matrix, *of_prior)
            residuals[here, k], of_parts[here, k], draws.score[here, k], draws.effects[here, k] = drawn
    variances = _read_shares(model, draws, prior.corrected(weights, point, residuals), of_parts, views)
    draws = draws._replace(variances=variances)
    if model.remainder is not None:
        draws = draws._replace(score=model.remainder.evenly(draws.score))
    without = average_left_out(draws.probability, left_out, model.power * taken_out)
    mean_duals = draws.probability[:, None, None] * duals
    dual = np.array([covariance.part_duals(weights, mean_duals[:, k]) for k in range(n_outputs)])
    intercept = covariance.intercept_std**2 * mean_duals.sum(axis=(0, 2))
    mean_effects = np.zeros((n_outputs, n_effects))
    if effects is not None:
        mean_effects = np.einsum("tj,tkj->kj", effects.stds(group_std) ** 2, mean_duals @ effects.basis)
    return Reading(draws, without, dual, intercept, mean_effects)


def _read_shares(
    model: Hypermodel,
    draws: HyperDraws,
    corrected: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]],
    of_parts: np.ndarray,
    views: Sequence[str] | None,
) -> np.ndarray:
    """Set the shares of draws from parts of kernels, some at a time, and from the sum of all; return `variances`.

    Parameters
    ----------
    model : Hypermodel
    draws : HyperDraws
    corrected : iterator
        See `PriorParts.corrected`.
    of_parts : ndarray of shape (n_draws, n_outputs, n_samples)
        The sums of all parts.
    views : sequence of str, optional
        See `read`.
    """
    _, _, counts = of_one_copy(model.likelihood, model.targets[0])
    counts = np.broadcast_to(counts, of_parts.shape[-1:])
    tasks, remainder = model.covariance.tasks, model.remainder
    if remainder is not None:
        of_parts = remainder.evenly(of_parts)
    of_tasks = [] if tasks is None else [np.flatnonzero(tasks.task == t) for t in range(tasks.n_tasks)]
    total = _around(of_parts, counts)
    totals = [_around(of_parts[..., own], counts[own]) for own in of_tasks]
    names, n_kernels = list(dict.fromkeys(views or ())), draws.shares.shape[1]
    member = np.array([[view == name for view in views or ()] for name in names], dtype=bool)
    last = [int(np.flatnonzero(own)[-1]) for own in member]
    variances = np.zeros((*of_parts.shape[:2], n_kernels + len(names) + 1 if names else 0))
    sums: dict[int, np.ndarray] = {}  # of views whose kernels are not all drawn at a time
    for kernels, here, drawn in corrected:
        parts = drawn if remainder is None else remainder.evenly(drawn)
        for m, kernel in enumerate(kernels if names else []):
            variances[here, :, kernel] = _variance(parts[:, :, m], counts)
        for v, own in enumerate(member):
            if not own[kernels].any():  # none of these kernels is of the view
                continue
            part = parts[:, :, own[kernels]].sum(axis=2)
            if own[kernels].sum() < own.sum():
                part += sums.setdefault(v, np.zeros_like(of_parts))[here]
                sums[v][here] = part
            if last[v] in kernels:
                variances[here, :, n_kernels + v] = _variance(part, counts)
        draws.shares[np.ix_(here, kernels)] = np.einsum("dkmi,dki->dm", parts, total[here])
        for t, (own, total_of_task) in enumerate(zip(of_tasks, totals, strict=True)):
            shared = np.einsum("dkmi,dki->dm", parts[..., own], total_of_task[here])
            draws.task_shares[here[:, None], t, kernels] = shared
    if names:
        variances[..., -1] = _variance(of_parts, counts)
    if remainder is not None:  # variances of what is independent of all that is known
        alone = (draws.kernel_weights**2 * remainder.unexplained)[draws.point]
        draws.shares[...] += of_parts.shape[1] * counts.sum() * alone
        if names:
            variances += np.column_stack([alone, alone @ member.T, alone.sum(axis=1)])[:, None]
    draws.shares[...] = _of_variance(draws.shares)
    draws.task_shares[...] = _of_variance(draws.task_shares)
    return variances


def draw_normal(covariance: Additive, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw what `draw_scores` takes for scores of some shape, (..., 1 + n_effects + n_samples)."""
    n_effects = 0 if covariance.effects is None else len(covariance.effects.term)
    return rng.standard_normal((*shape[:-1], 1 + n_effects + shape[-1]))


def draw_scores(
    covariance: Additive,
    weights: np.ndarray,
    posterior: Conditioned,
    sites: Sites,
    matrix: np.ndarray,
    prior: np.ndarray,
    normal: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Draw the scores of one output from what kernels add to them under the prior, and the effects in them.

    Intercept and effects are drawn, and corrected as `bayesmkl.gp.reading` says, like the parts of kernels.

    Parameters
    ----------
    covariance : Additive
    weights : ndarray of shape (n_kernels,), or more
        See `Additive`.
    posterior : Conditioned
    sites : Sites
    matrix : ndarray of shape (n_samples, n_samples)
        Prior covariance of the scores.
    prior : ndarray of shape (n_draws, n_samples)
        Draws of the sum of the parts of all kernels.
    normal : ndarray of shape (n_draws, 1 + n_effects + n_samples)
        Standard normal: of the intercept, effects, and noise. They do not depend on the point of a draw, so
        that rounding errors, which differ between machines, stay small.

    Returns
    -------
    residuals : ndarray of shape (n_draws, n_samples)
        By which parts of kernels are corrected.
    of_parts : ndarray of shape (n_draws, n_samples)
        The sum of these.
    scores : ndarray of shape (n_draws, n_samples)
    effects : ndarray of shape (n_draws, n_effects)
        Coefficients.
    """
    n_samples = prior.shape[1]
    intercept, effects, noise = np.split(normal, [1, normal.shape[1] - n_samples], axis=1)
    intercept = covariance.intercept_std * intercept
    basis, std = np.empty((n_samples, 0)), np.empty(0)
    if covariance.effects is not None:
        basis, std = covariance.effects.basis, covariance.effects.stds(covariance.split(weights)[1])
    effects = std * effects
    scores = prior + intercept + effects @ basis.T
    residuals = posterior.residuals(sites, scores, noise)
    scores = scores + residuals @ matrix
    intercept = intercept + covariance.intercept_std**2 * residuals.sum(axis=1, keepdims=True)
    effects += std**2 * (residuals @ basis)
    return residuals, scores - intercept - effects @ basis.T, scores, effects


def shares_of_parts(
    covariance: Additive,
    weights: np.ndarray,
    draws: HyperDraws,
    chosen: np.ndarray,
    sample_weight: Any,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the shares of other parts of the same scores, (n_chosen, n_kernels).

    Parameters
    ----------
    covariance : Additive
        Of the training scores, as the sum of the covariances of these parts.
    weights : ndarray of shape (n_points, n_weights)
        Of these parts at the points of the draws.
    draws : HyperDraws
    chosen : ndarray of int, of shape (n_chosen,)
        Positions of the draws whose hyperparameters are taken.
    sample_weight : ndarray of shape (n_samples,) or 1.0
        How often samples count.
    rng : numpy.random.Generator
    """
    points, point = np.unique(draws.point[chosen], return_inverse=True)
    weights, n_outputs = weights[points], draws.parameters.shape[1]
    prior = PriorParts(covariance, len(chosen), n_outputs, rng)
    score = prior.total(weights, point)
    residuals, of_parts = np.empty((2, *score.shape))
    normal = draw_normal(covariance, score.shape, rng)
    for at, i in enumerate(points):
        here, matrix = np.flatnonzero(point == at), covariance.matrix(weights[at])
        for k, sites in enumerate(draws._sites(i)):
            given, of_prior = condition(matrix, sites), (score[here, k], normal[here, k])
            drawn = draw_scores(covariance, weights[at], given, sites, matrix, *of_prior)
            residuals[here, k], of_parts[here, k] = drawn[:2]
    total = _around(of_parts, np.broadcast_to(sample_weight, of_parts.shape[-1:]))
    found = np.empty((len(chosen), covariance.stack.n_kernels))
    for kernels, here, parts in prior.corrected(weights, point, residuals):
        found[np.ix_(here, kernels)] = np.einsum("dkmi,dki->dm", parts, total[here])
    return _of_variance(found)


def leave_out(
    likelihood: Likelihood, y: np.ndarray, left: Cavity, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return :math:`\log p(y_i \mid y_{-i})` given hyperparameters, (n_samples,): the normalizers of cavities.

    And those of what was left out of the evidence, which is another power of the density where weights are below one.
    """
    inner, fields, _ = of_one_copy(likelihood, y)
    found = inner.tilted(fields, left.mean, 1.0 / left.precision, parameters).log_normalizer
    if not (isinstance(likelihood, Repeated) and likelihood.is_fractional):
        return found, found
    return found, likelihood.tilted(y, left.mean, 1.0 / left.precision, parameters).log_normalizer


def log_positive(targets: np.ndarray, log_of_own: np.ndarray) -> np.ndarray:
    """Return log probabilities of the label +1, from those of the own labels, -1 and +1."""
    return np.where(targets > 0.0, log_of_own, log_complement(log_of_own))


def log_complement(log_probability: np.ndarray) -> np.ndarray:
    """Return the log probability of what is left."""
    return np.log(-np.expm1(np.minimum(log_probability, -np.finfo(float).tiny)))


def average_left_out(
    probability: np.ndarray, log_densities: np.ndarray, taken_out: np.ndarray | None = None
) -> LeftOut:
    """Average leave-one-out densities over hyperparameters.

    Points are weighted for the fit to the other samples: by the inverse of the density of the one that is left out.

    Parameters
    ----------
    probability : ndarray of shape (n_points,)
    log_densities : ndarray of shape (n_points, n_outputs, n_samples)
        Of left-out targets, given the hyperparameters of a point.
    taken_out : ndarray of shape (n_points, n_outputs, n_samples), optional
        What the evidence is larger by with the target, if that is not its log density.
    """
    taken_out = log_densities if taken_out is None else taken_out
    log_weights = np.log(probability)[:, None] - taken_out.sum(axis=1)
    log_weights = log_weights - logsumexp(log_weights, axis=0)
    joint = logsumexp(log_weights + log_densities.sum(axis=1), axis=0)
    return LeftOut(logsumexp(log_weights[:, None] + log_densities, axis=0), joint, log_weights)


def shares(parts: np.ndarray, sample_weight: Any = 1.0) -> np.ndarray:
    r"""Return the shares of kernels in the score, :math:`\operatorname{Cov}(f_m, f) / \operatorname{Var}(f)`.

    Covariances are over training samples, and summed over outputs. Shares of a draw sum to one; a small part
    can be negative. Of a score that is the same everywhere all kernels have the same share. Where
    samples lack views, parts there are draws of what is not known like all others.

    Parameters
    ----------
    parts : ndarray of shape (n_draws, n_outputs, n_kernels, n_samples)
    sample_weight : ndarray of shape (n_samples,) or 1.0
        How often samples count.

    Returns
    -------
    ndarray of shape (n_draws, n_kernels)
    """
    total = _around(parts.sum(axis=2), np.broadcast_to(sample_weight, parts.shape[-1:]))
    return _of_variance(np.einsum("dkmi,dki->dm", parts, total))


def _around(total: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return scores around their means, times how often samples count: their products with parts are covariances."""
    return counts * (total - (total @ (counts / counts.sum()))[..., None])


def _variance(functions: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return variances over samples, the last axis, that count so often."""
    return np.einsum("...i,...i->...", functions, _around(functions, counts / counts.sum()))


def _of_variance(covariance: np.ndarray) -> np.ndarray:
    """Return covariances of parts with their sum, along the last axis, relative to its variance."""
    variance = covariance.sum(axis=-1, keepdims=True)
    alike = np.full_like(covariance, 1.0 / covariance.shape[-1])
    return np.divide(covariance, variance, out=alike, where=variance > 0.0)


def likely_points(draws: HyperDraws, n_points: int, sample_weight: Any = 1.0) -> np.ndarray:
    r"""Return probabilities of the points, (n_points,), of which at most so many are not zero.

    A linear program finds as many points as it has constraints: means over them are those over all points, of as many
    directions as there can be, in which points differ most. These are principal directions of the means and variances
    of scores whose own sample is left out, which are predictions, of their squares, and of the hyperparameters.

    Parameters
    ----------
    draws : HyperDraws
    n_points : int
        At least two.
    sample_weight : ndarray of shape (n_samples,) or 1.0
        How often samples count.

    Returns
    -------
    ndarray of shape (n_points,)
        Empty if there are no more points than that.
    """
    probability = draws.probability
    if len(probability) <= n_points:
        return np.empty(0)
    mean, variance, root = draws.cavity_mean, draws.cavity_variance, np.sqrt(sample_weight)
    blocks = [root * mean, root * variance, root * (mean**2 + variance)]
    blocks += [f(values) for values in (draws.weights, draws.parameters) for f in (np.abs, np.square)]
    root, gram = np.sqrt(probability), np.zeros((len(probability), len(probability)))
    for block in blocks:
        around = block.reshape(len(probability), -1)
        around = root[:, None] * (around - probability @ around)
        gram += around @ around.T / max((around**2).sum(), np.finfo(float).tiny)
    last = len(probability) - 1
    values, vectors = eigh(gram, subset_by_index=[last - n_points + 2, last])
    directions = vectors[:, values > LEAST_VARIANCE * values[-1]].T / root
    constraints = np.vstack([np.ones(len(probability)), directions])
    cost = (directions**2).sum(
        axis=0
    )  # central points, and one solution: fits that differ by rounding have the same
    found = linprog(cost, A_eq=constraints, b_eq=constraints @ probability, method="highs-ds")
    if found.status:
        return np.empty(0)
    chosen = np.where(found.x > LEAST_PROBABILITY, found.x, 0.0)
    return chosen / chosen.sum()


def score_moments(
    covariance: Additive,
    draws: HyperDraws,
    rows: Stack,
    diagonal: np.ndarray,
    design_rows: DesignRows | None = None,
    posteriors: list[list[Factored]] | None = None,
) -> ScoreMoments:
    """Return moments of scores at new rows.

    Parameters
    ----------
    covariance : Additive
    draws : HyperDraws
    rows : Stack
        Kernels of new rows against the training samples.
    diagonal : ndarray of shape (n_kernels, n_rows)
        Similarities of new rows to themselves.
    design_rows : DesignRows, optional
        Effects and tasks of the new rows, where the covariance has some.
    posteriors : list of list of Factored, optional
        The training scores of every output at the points that predictions are made from, where they are known.
    """
    points, probability = draws.of_predictions
    parameters, weights, part = draws.parameters[points], draws.weights[points], draws.kernel_weights[points]
    mean, variance = np.empty((2, *parameters.shape[:2], rows.n_rows))
    intercept = covariance.intercept_std**2
    precision = np.float64 if not posteriors else posteriors[0][0].upper.dtype.type
    crosses = _crosses(covariance, rows, part, weights, precision)
    for i, (at, cross) in enumerate(zip(points, crosses, strict=True)):
        prior = covariance.variance(rows, diagonal, part[i], weights[i])
        if covariance.tasks is not None and design_rows is not None and design_rows.task is not None:
            cross = cross * covariance.tasks.cross(design_rows.task, draws.task_values[at])
            prior = prior * covariance.tasks.variance(design_rows.task, draws.task_values[at])
        cross += intercept
        prior = prior + intercept
        if covariance.effects is not None and design_rows is not None:
            cross += covariance.effects.cross(design_rows, draws.group_std[at])
            prior += covariance.effects.variance(design_rows, draws.group_std[at])
        found = next(draws.factorized(covariance, points[i : i + 1])) if posteriors is None else posteriors[i]
        if rows.n_rows >= rows.n_train:  # then inverses of factors pay at once, and later if they are kept
            found[:] = [posterior.inverted() for posterior in found]
        for k, posterior in enumerate(found):
            mean[i, k] = cross @ posterior.dual
            variance[i, k] = prior - posterior.explained(cross)
    return ScoreMoments(mean, np.maximum(variance, 0.0), parameters, probability)


def _crosses(
    covariance: Additive,
    rows: Stack,
    part: np.ndarray,
    weights: np.ndarray,
    precision: type[np.floating],
) -> Iterator[np.ndarray]:
    """Yield covariances with the training scores, (n_rows, n_samples), of points one after the other.

    Several are made at once, since each takes a read of all kernels.
    """
    learns = bool(covariance.stack.learned)  # then every point has kernels of its own
    step = 1 if learns else max(1, CROSS_ENTRIES // (rows.n_rows * covariance.stack.n_train))
    for some in (slice(first, first + step) for first in range(0, len(weights), step)):
        yield from covariance.cross(rows, part[some], weights[some], precision)
