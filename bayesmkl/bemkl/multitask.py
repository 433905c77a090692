r"""Multitask BEMKL: tasks with samples and kernels of their own, and related kernel weights (Gönen 2012, §7).

Model: every task t is a `model` of one output, a classification or a regression, over the same n_kernels
views but with its own samples, kernels, λ_t, a_t, G_t, γ_t and b_t (and f_t, or υ_t and ε_t),

    g_tmi | a_t ~ N(k_tmi' a_t, 1/υ_t),      f_ti | b_t, e_t, g_ti ~ N(e_t' g_ti + b_t, 1/ε_t).

The paper ends with the thought of "a multitask learning method by enforcing similarity between the kernel weights of
different tasks". Here they are spread around common weights, and the data say how closely:

    ω_m ~ Gamma,   e_m | ω_m ~ N(0, 1/ω_m),      τ ~ Gamma,   e_t | e, τ ~ N(e, I/τ).

For τ -> ∞ all tasks share one set of weights (`model` of several outputs where they have the same samples). For
τ -> 0 they are separate: each is the model of one task with all ω_m held at τ. The posterior is approximated by
Π_t [q(λ_t) q(a_t) q(G_t) q(γ_t) (q(f_t) or q(υ_t) q(ε_t))] q(ω) q(τ) q(e, b_1, e_1, .., b_T, e_T), whose last
factor is one normal distribution: were e a factor of its own, the limit of shared weights would not be
reached. `sweep` sets every factor once to its optimum given the others; the bound `elbo` never falls.

The prior of τ matters. Under a nearly flat one the approximation lets τ grow even for tasks that have nothing in
common, which then predict worse than on their own. Gamma(1, 1) holds the spread 1/√E[τ] at 1/√(1 + T n_kernels / 2)
or above, Gamma(1, r) about √r times higher, r = 10 being a careful choice where tasks may be unrelated. Weights much
smaller than that, as in a regression with much intermediate noise 1/υ_t, are hardly tied.

A sample that lacks some tasks is simply absent from them.

**The joint posterior of the weights.** Every task t has an intercept b_t and kernel weights e_t of its own; the
common weights e tie the tasks together::

    ω_m ~ Gamma,  e_m | ω_m ~ N(0, 1/ω_m),   τ ~ Gamma,  e_t | e, τ ~ N(e, I/τ),
    γ_t ~ Gamma,  b_t | γ_t ~ N(0, 1/γ_t)

q(e, b_1, e_1, .., b_T, e_T) is one normal distribution. Nothing is lost by writing it as q(e) Π_t q(b_t, e_t | e),
since tasks know of each other only through e. With the precision A and the linear term r that equation (4) has for
task t in blocks over b_t and e_t, without a prior on e_t, integrating b_t out leaves

    B_t = A_ee - A_eb A_be / A_bb,    s_t = r_e - A_eb r_b / A_bb,
    q(e_t | e) = N(W_t (s_t + τ e), W_t),                          W_t = (B_t + τ I)^-1,
    q(e)       = N(C Σ_t τ W_t s_t, C),     C^-1 = diag(ω) + Σ_t Λ_t,    Λ_t = τ W_t B_t = (B_t^-1 + I/τ)^-1.

Λ_t is what task t knows of e: a mean of the tasks' own weights B_t^-1 s_t in which precisions Λ_t are the weights.
All are functions of B_t, taken through its eigenvalues β, so that τ β / (τ + β) is as exact for τ -> ∞, where the
tasks share their weights, as for τ -> 0, where they are on their own. One task costs O(n_kernels³), whatever T is.

The common weights are the mean of the tasks' own weights ê_t = B_t^-1 s_t, those that its samples alone support, in
which every task counts by its precision Λ_t,

    E[e] = C Σ_t Λ_t ê_t,    C^-1 = diag(E[ω]) + Σ_t Λ_t,    influence of task t: tr(C Λ_t) / n_kernels,

and the influences of all tasks and of the prior, tr(C diag(E[ω])) / n_kernels, sum to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.acceleration import (
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
)
from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.linalg import spd_inverse
from bayesmkl.bemkl import model
from bayesmkl.bemkl.model import Carry, Problem, State, output_bound, precisions
from bayesmkl.bemkl.moments import (
    Gamma,
    Gaussian,
    PrecisionMoments,
    expected_residual,
    expected_zero_mean,
    readout_design,
    readout_target,
    update_noise_precision,
    update_precision,
)
from bayesmkl.kernels.stacks.dense import DenseStack


class MultitaskProblem(NamedTuple):
    """Data and priors of a fit, constant during it.

    Instead of a prior, `task_prior` may be a known precision τ: where it exceeds all that data say of the weights,
    tasks share them. The prior of ω is the one that all tasks have.
    """

    tasks: tuple[Problem, ...]  # each of one output: labels or numbers
    task_prior: Gamma | PrecisionMoments = Gamma(1.0, 1.0)  # of τ


class MultitaskState(NamedTuple):
    """The factors of the posterior."""

    tasks: tuple[State, ...]  # each with its marginal q(b_t, e_t)
    kernel_precision: Gamma  # q(ω), (n_kernels,)
    task_precision: Gamma | PrecisionMoments  # q(τ), or the known τ
    readout: TaskReadouts  # q(e) Π_t q(b_t, e_t | e)


class MultitaskCarry(NamedTuple):
    """State that a sweep reads from the previous one; the parts of the tasks follow each other."""

    dual_square: Any  # E[a²], (total n_train,)
    intermediate_precision: Any  # E[υ], (n_regressions,)
    noise_precision: Any  # E[ε], (n_regressions,)
    pull: Any  # sum_m K_m' E[g_m], (total n_train,)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b_t, e_t)], (n_tasks, 1 + n_kernels)
    readout_cov: Any  # their covariances
    common_square: Any  # E[e²], (n_kernels,)
    distance: Any  # sum_t E ||e_t - e||²
    latent: Any  # E[f], (total n_samples of the classifications,)


class TaskCovariances(Coordinate):
    """`CovarianceCoordinate` for every task."""

    @staticmethod
    def forward(value: Array) -> Any:
        """Split every covariance into log standard deviations and correlations."""
        return namespace(value).concatenate([CovarianceCoordinate.forward(cov) for cov in value])

    @staticmethod
    def backward(vector: Array, like: Array) -> Any:
        """Assemble the covariances."""
        pairs = zip(vector.reshape(like.shape[0], -1), like, strict=True)
        return namespace(vector).stack([CovarianceCoordinate.backward(part, cov) for part, cov in pairs])

    @staticmethod
    def size(like: Array) -> int:
        """Return the length of `forward`."""
        return int(like.shape[0] * CovarianceCoordinate.size(like[0]))

    @staticmethod
    def measure(vector: Array, like: Array) -> Any:
        """Return the measured coordinates of every covariance."""
        pairs = zip(vector.reshape(like.shape[0], -1), like, strict=True)
        return namespace(vector).concatenate([CovarianceCoordinate.measure(part, cov) for part, cov in pairs])


COORDINATES = MultitaskCarry(
    LogCoordinate,
    LogCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
    Coordinate,
    Coordinate,
    TaskCovariances,
    LogCoordinate,
    LogCoordinate,
    Coordinate,
)


def init(problem: MultitaskProblem, noise: Array) -> MultitaskCarry:
    """Start every task as `model.init` does, from unit kernel weights; the common ones too.

    Parameters
    ----------
    problem : MultitaskProblem
    noise : array of shape (total n_samples,)
        That of `model.init`, one task after the other.
    """
    tasks = problem.tasks
    noises = _split(noise, [task.y.shape[0] for task in tasks])
    starts = [model.init(*pair) for pair in zip(tasks, noises, strict=True)]
    weights = starts[0].readout[1:]
    return _joined(starts, 2.0 * weights, len(tasks) * weights.sum())


def carry(problem: MultitaskProblem, state: MultitaskState) -> MultitaskCarry:
    """Return the carry of `state` for the next sweep."""
    starts = [model.carry(*pair) for pair in zip(problem.tasks, state.tasks, strict=True)]
    return _joined(starts, state.readout.common.square, state.readout.distance)


def scales(state: MultitaskState) -> MultitaskCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    common, distance, tau = state.readout.common.square, state.readout.distance, state.task_precision
    ones = namespace(common).ones_like
    # nothing reads the distance if τ is known
    root_counts = tau.concentration**0.5 if isinstance(tau, Gamma) else 0.0
    return _joined(list(map(model.scales, state.tasks)), 0.5 * ones(common), root_counts * ones(distance))


def _joined(parts: list[Carry], common_square: Array, distance: Array) -> MultitaskCarry:
    """Put the parts of the tasks, one after the other, into one carry."""
    xp = namespace(common_square)

    def flat(name: str) -> Any:
        return xp.concatenate([getattr(part, name).reshape(-1) for part in parts])

    return MultitaskCarry(
        flat("dual_square"),
        flat("intermediate_precision"),
        flat("noise_precision"),
        flat("pull"),
        xp.concatenate([part.probe for part in parts], axis=1),
        xp.stack([part.readout for part in parts]),
        xp.stack([part.readout_cov for part in parts]),
        common_square,
        distance,
        flat("latent"),
    )


def _split(values: Array, sizes: list[int]) -> list[Any]:
    """Cut the last axis into the parts of the tasks."""
    ends = list(accumulate(sizes, initial=0))
    return [values[..., start:end] for start, end in pairwise(ends)]


def _starts(problem: MultitaskProblem, start: MultitaskCarry) -> list[Carry]:
    """Give every task its part of the carry."""
    tasks, empty = problem.tasks, start.pull[:0]
    sizes = [task.stack.n_train for task in tasks]
    n_latent = [0 if task.outcome.is_observed else task.y.shape[0] for task in tasks]
    n_noises = [int(task.outcome.has_noise) for task in tasks]
    parts = zip(
        _split(start.dual_square, sizes),
        _split(start.intermediate_precision, n_noises),
        _split(start.noise_precision, n_noises),
        _split(start.pull, sizes),
        start.readout,
        start.readout_cov,
        _split(start.latent, n_latent),
        strict=True,
    )
    return [
        Carry(square, _number(upsilon), _number(epsilon), pull, empty, mean, cov, empty, latent)
        for square, upsilon, epsilon, pull, mean, cov, latent in parts
    ]


def _number(values: Array) -> Any:
    """Return the one of an array, or an empty array as it is."""
    return values[0] if len(values) else values


def sweep(problem: MultitaskProblem, start: MultitaskCarry) -> tuple[MultitaskState, Any]:
    """Update every factor once, the kernel weights of all tasks together, and return the state with its ELBO."""
    tasks, starts, n_kernels = problem.tasks, _starts(problem, start), start.common_square.shape[0]
    found = [model.update_outputs(*pair) for pair in zip(tasks, starts, strict=True)]
    owns, projections = zip(*found, strict=True)
    kernel_precision = update_precision(tasks[0].priors.kernel, start.common_square)  # q(ω)
    task_precision = problem.task_prior  # q(τ) where it is not known
    if isinstance(task_precision, Gamma):
        task_precision = update_noise_precision(task_precision, start.distance, len(tasks) * n_kernels)
    scores = [
        (task.y if task.outcome.is_observed else own.latent, precisions(task, own)[1])
        for task, own in zip(tasks, starts, strict=True)
    ]
    readout = update_task_readouts(  # q(e, b_1, e_1, .., b_T, e_T)
        _evidence(owns, scores), kernel_precision.mean, task_precision.mean
    )
    parts = zip(tasks, starts, owns, projections, readout.marginals, strict=True)
    scored = [model.update_scores(*part) for part in parts]  # q(f_t), or q(υ_t) and q(ε_t)
    state = MultitaskState(tuple(one for one, *_ in scored), kernel_precision, task_precision, readout)
    return state, elbo(problem, state, [tuple(own) for _, *own in scored])


def _evidence(tasks: Sequence[Any], scores: list[tuple[Any, Any]]) -> TaskEvidence:
    """Evaluate equation (4) of every task, from E[f] and E[ε]."""
    xp = namespace(tasks[0].dual.mean)
    pairs = list(zip(tasks, scores, strict=True))
    return task_evidence(
        xp.stack([epsilon * readout_design(task.intermediate) for task, (_, epsilon) in pairs]),
        xp.stack([epsilon * readout_target(task.intermediate, latent) for task, (latent, epsilon) in pairs]),
        xp.stack([task.intercept_precision.mean for task in tasks]),
    )


def evidence_of(problem: MultitaskProblem, state: MultitaskState) -> TaskEvidence:
    """Return the likelihood terms of every task for its kernel weights."""
    scores = [
        (
            task.y if one.latent is None else one.latent.mean,
            1.0 if one.noise_precision is None else one.noise_precision.mean,
        )
        for task, one in zip(problem.tasks, state.tasks, strict=True)
    ]
    return _evidence(state.tasks, scores)


def elbo(
    problem: MultitaskProblem, state: MultitaskState, errors: list[tuple[Any, ...]] | None = None
) -> Any:
    """Return the evidence lower bound in nats.

    Parameters
    ----------
    problem : MultitaskProblem
    state : MultitaskState
        Any state, not only a fixed point.
    errors : list of tuple, optional
        `model.errors` of every task where they are at hand.
    """
    readout, tau, prior = state.readout, state.task_precision, problem.task_prior
    # tasks know the marginals of the readout
    tasks = [one._replace(readout=own) for one, own in zip(state.tasks, readout.marginals, strict=True)]
    if errors is None:
        errors = [model.errors(*pair) for pair in zip(problem.tasks, tasks, strict=True)]
    parts = zip(problem.tasks, tasks, errors, strict=True)
    n_weights = len(tasks) * readout.common.mean.shape[0]
    return (
        sum(output_bound(task, one, *own) for task, one, own in parts)
        + state.kernel_precision.bound(problem.tasks[0].priors.kernel)
        + expected_zero_mean(readout.common.square, state.kernel_precision)  # E[log p(e | ω)]
        + (tau.bound(prior) if isinstance(prior, Gamma) and isinstance(tau, Gamma) else 0.0)
        + expected_residual(readout.distance, n_weights, tau)  # E[log p(e_1, .., e_T | e, τ)]
        + readout.entropy
    )


# ----------------------------------------------------------------------------------------------- weights of the tasks


class TaskReadouts(NamedTuple):
    """q(e) Π_t q(b_t, e_t | e): every task's intercept and kernel weights, and the common weights."""

    common: Gaussian  # q(e)
    given: Gaussian  # q(b_t, e_t | e = E[e]), one per task, intercept first
    slope: Any  # (n_tasks, 1 + n_kernels, n_kernels), of E[b_t, e_t | e] in e

    @property
    def mean(self) -> Any:
        """E[(b_t, e_t)], shape (n_tasks, 1 + n_kernels)."""
        return self.given.mean

    @property
    def cov(self) -> Any:
        """Covariance of every task's (b_t, e_t), shape (n_tasks, 1 + n_kernels, 1 + n_kernels)."""
        return self.given.cov + self.slope @ self.common.cov @ self.slope.mT

    @property
    def distance(self) -> Any:
        """``sum_t E ||e_t - e||²``."""
        xp, n_kernels = namespace(self.mean), self.common.mean.shape[0]
        shift = self.mean[:, 1:] - self.common.mean
        apart = self.slope[:, 1:] - xp.eye(n_kernels, dtype=shift.dtype)
        from_given = xp.trace(self.given.cov[:, 1:, 1:], axis1=1, axis2=2).sum()
        return (shift * shift).sum() + from_given + ((apart @ self.common.cov) * apart).sum()

    @property
    def entropy(self) -> Any:
        """Entropy of the joint distribution in nats."""
        return self.common.entropy + self.given.entropy

    @property
    def marginals(self) -> list[Gaussian]:
        """q(b_t, e_t) of every task, intercept first."""
        return Gaussian.from_moments(self.mean, self.cov).each


class TaskEvidence(NamedTuple):
    """Likelihood terms of every task for its intercept and kernel weights."""

    intercept_precision: Any  # A_bb, (n_tasks,)
    intercept_pull: Any  # r_b / A_bb, (n_tasks,)
    intercept_slope: Any  # -A_be / A_bb, (n_tasks, n_kernels)
    pull: Any  # s, (n_tasks, n_kernels)
    values: Any  # eigenvalues of B, (n_tasks, n_kernels)
    vectors: Any  # and its eigenvectors, in columns

    def weights_matrix(self, values: Array) -> Any:
        """Return the matrices with eigenvalues `values` and the eigenvectors of B."""
        return (self.vectors * values[:, None, :]) @ self.vectors.mT

    def information(self, task_precision: Array | float) -> Any:
        """Return Λ_t, the precision that every task adds to q(e), shape (n_tasks, n_kernels, n_kernels)."""
        return self.weights_matrix(task_precision * self.values / (task_precision + self.values))


def task_evidence(design: Array, target: Array, intercept_precision: Array) -> TaskEvidence:
    """Integrate the intercepts out of the quadratic form of equation (4).

    Parameters
    ----------
    design : array of shape (n_tasks, 1 + n_kernels, 1 + n_kernels)
        `moments.readout_design` of every task, times E[ε_t].
    target : array of shape (n_tasks, 1 + n_kernels)
        `moments.readout_target`, times E[ε_t].
    intercept_precision : array of shape (n_tasks,)
        E[γ_t].
    """
    xp = namespace(design)
    of_intercept = design[:, 0, 0] + intercept_precision
    slope: Any = -design[:, 0, 1:] / of_intercept[:, None]
    schur = design[:, 1:, 1:] + design[:, 1:, :1] * slope[:, None, :]
    values, vectors = xp.linalg.eigh(0.5 * (schur + schur.mT))
    values = xp.where(values < 0.0, 0.0, values)  # rounding; keeps NaN
    pull = target[:, 1:] + slope * target[:, :1]
    return TaskEvidence(of_intercept, target[:, 0] / of_intercept, slope, pull, values, vectors)


def update_task_readouts(
    evidence: TaskEvidence, kernel_precision: Array, task_precision: Array
) -> TaskReadouts:
    """Update q(e) and q(b_t, e_t | e): equation (4) for all tasks at once.

    Parameters
    ----------
    evidence : TaskEvidence
    kernel_precision : array of shape (n_kernels,)
        E[ω].
    task_precision : scalar
        E[τ].
    """
    xp, sums = namespace(evidence.pull), task_precision + evidence.values
    within = evidence.weights_matrix(1.0 / sums)  # W
    shrink = evidence.weights_matrix(task_precision / sums)  # τ W
    information = evidence.information(task_precision).sum(axis=0)
    cov, log_det = spd_inverse(xp.diag(kernel_precision) + information)
    common = Gaussian(cov @ (shrink @ evidence.pull[..., None]).sum(axis=0)[:, 0], cov, log_det)
    weights = (within @ evidence.pull[..., None])[..., 0] + shrink @ common.mean
    intercepts = evidence.intercept_pull + (evidence.intercept_slope * weights).sum(axis=1)
    row = evidence.intercept_slope[:, None, :]
    cross = row @ within
    corner = 1.0 / evidence.intercept_precision[:, None, None] + cross @ row.mT
    given_cov = xp.concatenate(
        [xp.concatenate([corner, cross], axis=2), xp.concatenate([cross.mT, within], axis=2)], axis=1
    )
    given_log_det = -xp.log(evidence.intercept_precision) - xp.log(sums).sum(axis=1)
    given = Gaussian(xp.concatenate([intercepts[:, None], weights], axis=1), given_cov, given_log_det)
    return TaskReadouts(common, given, xp.concatenate([row @ shrink, shrink], axis=1))


def influence_of_tasks(problem: MultitaskProblem, state: MultitaskState) -> np.ndarray:
    """Return how far each task determines the common weights; one minus their sum is the influence of the prior."""
    information = evidence_of(problem, state).information(float(state.task_precision.mean))
    cov = np.linalg.inv(np.diag(state.kernel_precision.mean) + information.sum(axis=0))
    return (information @ cov).trace(axis1=1, axis2=2) / len(cov)


def observed_part(stack: DenseStack, present: np.ndarray, has_landmarks: bool = False) -> DenseStack:
    """Return the stack of the samples of one task, those where `present` is true, against each other or landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> stack = DenseStack(np.arange(9.0).reshape(1, 3, 3))
    >>> observed_part(stack, np.array([True, False, True])).kernels
    array([[[0., 2.],
            [6., 8.]]])
    """
    rows = stack.rows(present)
    return rows if has_landmarks else DenseStack(np.ascontiguousarray(rows.columns(present)))
