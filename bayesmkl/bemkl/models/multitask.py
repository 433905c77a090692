r"""Multitask BEMKL: tasks with samples and kernels of their own, and related kernel weights (Gönen 2012, §7).

Model: every task t is a classification as in `binary` or a regression as in `regression`, over the same n_kernels
views but with its own samples, kernels, λ_t, a_t, G_t, γ_t and b_t (and f_t, or υ_t and ε_t),

    g_tmi | a_t ~ N(k_tmi' a_t, 1/υ_t),      f_ti | b_t, e_t, g_ti ~ N(e_t' g_ti + b_t, 1/ε_t).

The paper ends with the thought of "a multitask learning method by enforcing similarity between the kernel weights of
different tasks". Here they are spread around common weights, and the data say how closely:

    ω_m ~ Gamma,   e_m | ω_m ~ N(0, 1/ω_m),      τ ~ Gamma,   e_t | e, τ ~ N(e, I/τ).

For τ -> ∞ all tasks share one set of weights (`multiclass` and `multioutput` where they have the same samples). For
τ -> 0 they are separate: each is the model of one task with all ω_m held at τ. The posterior is approximated by
Π_t [q(λ_t) q(a_t) q(G_t) q(γ_t) (q(f_t) or q(υ_t) q(ε_t))] q(ω) q(τ) q(e, b_1, e_1, .., b_T, e_T), whose last
factor is one normal distribution (`tasks`): were e a factor of its own, the limit of shared weights would not be
reached. `sweep` sets every factor once to its optimum given the others; the bound `elbo` never falls.

The prior of τ matters. Under a nearly flat one the approximation lets τ grow even for tasks that have nothing in
common, which then predict worse than on their own. Gamma(1, 1) holds the spread 1/√E[τ] at 1/√(1 + T n_kernels / 2)
or above, Gamma(1, r) about √r times higher, r = 10 being a careful choice where tasks may be unrelated. Weights much
smaller than that, as in a regression with much intermediate noise 1/υ_t, are hardly tied.

A sample that lacks some tasks is simply absent from them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesmkl._numerics.acceleration import Coordinate, LogCoordinate, UnmeasuredCoordinate
from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl.bemkl.models.moments import (
    UNIT_PRECISION,
    Gamma,
    Gaussian,
    IntermediateOutputs,
    PrecisionMoments,
    expected_residual,
    expected_zero_mean,
    intermediate_error,
    known_precision,
    latent_mean,
    probe,
    probe_scale,
    readout_cov_scale,
    readout_design,
    readout_target,
    score_error,
    update_dual,
    update_intermediate,
    update_noise_precision,
    update_precision,
)
from bayesmkl.bemkl.models.task_parts import (
    LabelState,
    LabelTask,
    MultitaskCarry,
    MultitaskPriors,
    MultitaskProblem,
    MultitaskState,
    TargetState,
    TargetTask,
    TaskCovariances,
    TaskStart,
    join,
    split,
    task_starts,
)
from bayesmkl.bemkl.models.tasks import TaskEvidence, task_evidence, update_task_readouts

__all__ = [
    "COORDINATES",
    "STATE",
    "LabelState",
    "LabelTask",
    "MultitaskCarry",
    "MultitaskPriors",
    "MultitaskProblem",
    "MultitaskState",
    "TargetState",
    "TargetTask",
    "carry",
    "elbo",
    "evidence_of",
    "init",
    "scales",
    "step",
    "sweep",
]


def init(problem: MultitaskProblem, noise: Array) -> MultitaskCarry:
    """Start every task as `binary.init` or `regression.init` does, from unit kernel weights; the common ones too.

    Parameters
    ----------
    problem : MultitaskProblem
    noise : array of shape (total n_samples,)
        The magnitudes of the one, ones for the deterministic start, and the noise of the other, zeros for it.
    """
    tasks, like = problem.tasks, problem.tasks[0].y
    xp, n_kernels = namespace(like), tasks[0].stack.n_kernels
    ones, weights = (xp.ones((size,), dtype=like.dtype) for size in (len(tasks), n_kernels))
    latents, intermediates, intercepts = [], [], []
    for task, part in zip(tasks, split(noise, [task.y.shape[0] for task in tasks]), strict=True):
        if isinstance(task, LabelTask):
            latents.append(task.y * (task.margin + part))
            intermediates.append(weights[:, None] * latents[-1])
            intercepts.append(0.0 * ones[0])
        else:
            intercepts.append(task.y.mean())
            intermediates.append(weights[:, None] * (task.y - intercepts[-1] + part) / n_kernels)
    regressions = ones[len(latents) :]
    return MultitaskCarry(
        dual_square=xp.ones((sum(task.stack.n_train for task in tasks),), dtype=like.dtype),
        intermediate_precision=regressions,
        noise_precision=regressions,
        pull=_pulls(problem, intermediates),
        probe=xp.concatenate([probe(one) for one in intermediates], axis=1),
        readout=xp.concatenate([xp.stack(intercepts)[:, None], ones[:, None] * weights], axis=1),
        readout_cov=ones[:, None, None] * xp.eye(1 + n_kernels, dtype=like.dtype),
        common_square=2.0 * weights,
        distance=ones.sum() * weights.sum(),
        latent=join(latents, like),
    )


def _pulls(problem: MultitaskProblem, intermediates: list[Any]) -> Any:
    pairs = zip(problem.tasks, intermediates, strict=True)
    return namespace(intermediates[0]).concatenate([task.stack.adjoint(one) for task, one in pairs])


def carry(problem: MultitaskProblem, state: MultitaskState) -> MultitaskCarry:
    """Return the carry of `state` for the next sweep."""
    readout, xp = state.readout, namespace(state.readout.slope)
    labels, targets = _by_kind(state)
    intermediates = [task.intermediate.mean for task in state.tasks]
    return MultitaskCarry(
        xp.concatenate([task.dual.square for task in state.tasks]),
        join([task.intermediate_precision.mean.reshape(1) for task in targets], readout.slope),
        join([task.noise_precision.mean.reshape(1) for task in targets], readout.slope),
        _pulls(problem, intermediates),
        xp.concatenate([probe(one) for one in intermediates], axis=1),
        readout.mean,
        readout.cov,
        readout.common.square,
        readout.distance,
        join([task.latent.mean for task in labels], readout.slope),
    )


def _by_kind(state: MultitaskState) -> tuple[list[LabelState], list[TargetState]]:
    labels = [task for task in state.tasks if isinstance(task, LabelState)]
    return labels, [task for task in state.tasks if isinstance(task, TargetState)]


STATE = MultitaskState
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


def scales(state: MultitaskState) -> MultitaskCarry:
    """Return the reciprocal posterior scale of every measured coordinate."""
    readout, xp = state.readout, namespace(state.readout.slope)
    labels, targets = _by_kind(state)
    upsilon = [task.intermediate_precision.concentration**0.5 for task in targets]
    epsilon = [task.noise_precision.concentration**0.5 for task in targets]
    tau = state.task_precision
    root_counts = (
        tau.concentration**0.5 if isinstance(tau, Gamma) else 0.0
    )  # nothing reads the distance if τ is known
    return MultitaskCarry(
        0.5 * xp.concatenate([xp.ones_like(task.dual.mean) for task in state.tasks]),
        xp.asarray(upsilon, dtype=readout.slope.dtype),
        xp.asarray(epsilon, dtype=readout.slope.dtype),
        readout.slope.reshape(-1)[:0],
        xp.concatenate([probe_scale(task.intermediate) for task in state.tasks], axis=1),
        1.0 / xp.sqrt(readout.variance),
        xp.concatenate([readout_cov_scale(one) for one in readout.marginals]),
        0.5 * xp.ones_like(readout.common.square),
        xp.ones_like(readout.distance) * root_counts,
        join([xp.ones_like(task.latent.mean) for task in labels], readout.slope),
    )


class _Alone(NamedTuple):
    """Factors of one task that are updated before the kernel weights."""

    sample_precision: Gamma
    dual: Gaussian
    projection: Any  # K_m E[a], (n_kernels, n_samples)
    intermediate: IntermediateOutputs
    intercept_precision: Gamma


def sweep(problem: MultitaskProblem, start: MultitaskCarry) -> tuple[MultitaskState, Any]:
    """Update every factor once, the kernel weights of all tasks together, and return the state with its ELBO."""
    priors, n_kernels = problem.priors, start.common_square.shape[0]
    parts = task_starts(problem, start)
    alone = [_update_alone(task, priors, part) for task, part in zip(problem.tasks, parts, strict=True)]
    kernel_precision = update_precision(priors.kernel, start.common_square)  # q(ω)
    task_precision = _update_task_precision(  # q(τ)
        priors.task, start.distance, len(parts) * n_kernels
    )
    latents = [(part.latent, part.noise_precision) for part in parts]
    readout = update_task_readouts(  # q(e, b_1, e_1, .., b_T, e_T)
        _evidence(alone, latents), kernel_precision.mean, task_precision.mean
    )
    tasks = tuple(
        _finish(task, priors, one, marginal)
        for task, one, marginal in zip(problem.tasks, alone, readout.marginals, strict=True)
    )
    state = MultitaskState(tasks, kernel_precision, task_precision, readout)
    return state, elbo(problem, state, [one.projection for one in alone])


def _update_alone(task: LabelTask | TargetTask, priors: MultitaskPriors, start: TaskStart) -> _Alone:
    """Update q(λ_t), q(a_t), q(G_t) and q(γ_t), §4.1."""
    upsilon, epsilon = start.intermediate_precision, start.noise_precision
    sample_precision = update_precision(priors.sample, start.dual_square)
    dual = update_dual(task.gram, start.pull, sample_precision.mean, upsilon)
    projection, intermediate = update_intermediate(
        task.stack, dual.mean, start.latent, start.readout, start.readout_cov, upsilon, epsilon
    )
    intercept_square = start.readout[0] ** 2 + start.readout_cov[0, 0]
    intercept_precision = update_precision(priors.intercept, intercept_square)
    return _Alone(sample_precision, dual, projection, intermediate, intercept_precision)


def _finish(
    task: LabelTask | TargetTask, priors: MultitaskPriors, alone: _Alone, readout: Gaussian
) -> LabelState | TargetState:
    """Update q(f_t), or q(υ_t) and q(ε_t), given q(b_t, e_t)."""
    sample_precision, dual, projection, intermediate, intercept_precision = alone
    if isinstance(task, LabelTask):
        latent = truncated_moments(latent_mean(intermediate, readout), task.y, task.margin)
        return LabelState(sample_precision, dual, intermediate, intercept_precision, latent)
    error = intermediate_error(intermediate, projection, task.gram, dual)
    upsilon = update_noise_precision(priors.intermediate, error, projection.size)
    misfit = score_error(task.y, intermediate, readout, readout_design(intermediate))
    epsilon = update_noise_precision(priors.noise, misfit, task.y.size)
    return TargetState(sample_precision, upsilon, epsilon, dual, intermediate, intercept_precision)


def _update_task_precision(prior: Gamma | PrecisionMoments, distance: Array, size: int) -> Any:
    """Update q(τ) where τ is not known."""
    return update_noise_precision(prior, distance, size) if isinstance(prior, Gamma) else prior


def _evidence(tasks: Any, latents: list[tuple[Any, Any]]) -> TaskEvidence:
    """Evaluate equation (4) of every task, from E[f] and E[ε]."""
    xp = namespace(tasks[0].dual.mean)
    pairs = list(zip(tasks, latents, strict=True))
    return task_evidence(
        xp.stack([epsilon * readout_design(task.intermediate) for task, (_, epsilon) in pairs]),
        xp.stack([epsilon * readout_target(task.intermediate, latent) for task, (latent, epsilon) in pairs]),
        xp.stack([task.intercept_precision.mean for task in tasks]),
    )


def evidence_of(problem: MultitaskProblem, state: MultitaskState) -> TaskEvidence:
    """Return the likelihood terms of every task for its kernel weights."""
    latents = [
        (one.latent.mean, 1.0) if isinstance(one, LabelState) else (task.y, one.noise_precision.mean)
        for task, one in zip(problem.tasks, state.tasks, strict=True)
    ]
    return _evidence(state.tasks, latents)


def step(problem: MultitaskProblem, state: MultitaskState) -> tuple[MultitaskState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))


def elbo(problem: MultitaskProblem, state: MultitaskState, projections: list[Any] | None = None) -> Any:
    """Return the evidence lower bound in nats.

    Parameters
    ----------
    problem : MultitaskProblem
    state : MultitaskState
        Any state, not only a fixed point.
    projections : list of arrays of shape (n_kernels, n_samples), optional
        ``K_m E[a_t]`` of every task where they are at hand.
    """
    priors, readout = problem.priors, state.readout
    if projections is None:
        pairs = zip(problem.tasks, state.tasks, strict=True)
        projections = [task.stack.apply(one.dual.mean) for task, one in pairs]
    parts = zip(problem.tasks, state.tasks, readout.marginals, projections, strict=True)
    n_weights, tau = len(state.tasks) * readout.common.mean.shape[0], state.task_precision
    return (
        sum(_task_bound(task, priors, one, *rest) for task, one, *rest in parts)
        + state.kernel_precision.bound(priors.kernel)
        + expected_zero_mean(readout.common.square, state.kernel_precision)  # E[log p(e | ω)]
        + (tau.bound(priors.task) if isinstance(priors.task, Gamma) and isinstance(tau, Gamma) else 0.0)
        + expected_residual(readout.distance, n_weights, tau)  # E[log p(e_1, .., e_T | e, τ)]
        + readout.entropy
    )


def _task_bound(
    task: LabelTask | TargetTask, priors: MultitaskPriors, state: Any, readout: Gaussian, projection: Array
) -> Any:
    """Return the terms for λ_t, a_t, G_t, γ_t, b_t, and f_t or y_t, υ_t and ε_t; without the entropy of q(b_t)."""
    error = intermediate_error(state.intermediate, projection, task.gram, state.dual)
    design = readout_design(state.intermediate)
    bound = (
        state.sample_precision.bound(priors.sample)
        + expected_zero_mean(state.dual.square, state.sample_precision)
        + state.dual.entropy
        + state.intermediate.entropy
        + state.intercept_precision.bound(priors.intercept)
        + expected_zero_mean(readout.square[0], state.intercept_precision)
    )
    if isinstance(task, LabelTask):
        precision = known_precision(projection, task.intermediate_precision)
        misfit = (
            score_error(state.latent.mean, state.intermediate, readout, design) + state.latent.variance.sum()
        )
        bound = (
            bound + expected_residual(misfit, task.y.shape[0], UNIT_PRECISION) + state.latent.entropy.sum()
        )
        return bound + expected_residual(error, projection.size, precision)
    misfit = score_error(task.y, state.intermediate, readout, design)
    return (
        bound
        + expected_residual(error, projection.size, state.intermediate_precision)
        + state.intermediate_precision.bound(priors.intermediate)
        + expected_residual(misfit, task.y.size, state.noise_precision)
        + state.noise_precision.bound(priors.noise)
    )
