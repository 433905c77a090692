"""Problem, posterior and carry of multitask BEMKL (`multitask`).

Tasks differ in size and kind, so a problem and a posterior hold one part for each. A carry holds arrays only, which
the loop mixes: there the parts of the tasks follow each other.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from bayesmkl._numerics.acceleration import Coordinate, CovarianceCoordinate
from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.truncated_normal import TruncatedMoments
from bayesmkl.bemkl.models.moments import Gamma, Gaussian, IntermediateOutputs, PrecisionMoments
from bayesmkl.bemkl.models.tasks import TaskReadouts
from bayesmkl.kernels.stacks.base import KernelStack

__all__ = [
    "LabelState",
    "LabelTask",
    "MultitaskCarry",
    "MultitaskPriors",
    "MultitaskProblem",
    "MultitaskState",
    "TargetState",
    "TargetTask",
    "TaskCovariances",
    "TaskStart",
    "join",
    "split",
    "task_starts",
]


class MultitaskPriors(NamedTuple):
    """Gamma priors on the precisions of a, b, e, of the tasks' weights around e, and of the noise of regression.

    Instead of a prior, `task` may be a known precision τ: where it exceeds all that data say of the weights, tasks
    share them.
    """

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)
    task: Gamma | PrecisionMoments = Gamma(1.0, 1.0)
    intermediate: Gamma = Gamma(1.0, 1.0)
    noise: Gamma = Gamma(1.0, 1.0)


class LabelTask(NamedTuple):
    """A classification."""

    stack: KernelStack  # training kernels of the task
    gram: Any  # sum_m K_m' K_m, (n_train, n_train)
    y: Any  # (n_samples,) of -1.0 and +1.0
    margin: Any  # ν
    intermediate_precision: Any  # 1/σ_g²


class TargetTask(NamedTuple):
    """A regression."""

    stack: KernelStack
    gram: Any
    y: Any  # (n_samples,)


class MultitaskProblem(NamedTuple):
    """Data and priors of a fit, constant during it."""

    tasks: tuple[LabelTask | TargetTask, ...]
    priors: MultitaskPriors


class LabelState(NamedTuple):
    """The factors of a classification alone."""

    sample_precision: Gamma  # q(λ), (n_train,)
    dual: Gaussian  # q(a)
    intermediate: IntermediateOutputs  # q(G)
    intercept_precision: Gamma  # q(γ)
    latent: TruncatedMoments  # q(f)


class TargetState(NamedTuple):
    """The factors of a regression alone."""

    sample_precision: Gamma  # q(λ), (n_train,)
    intermediate_precision: Gamma  # q(υ)
    noise_precision: Gamma  # q(ε)
    dual: Gaussian  # q(a)
    intermediate: IntermediateOutputs  # q(G)
    intercept_precision: Gamma  # q(γ)


class MultitaskState(NamedTuple):
    """The factors of the posterior."""

    tasks: tuple[LabelState | TargetState, ...]
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


class TaskStart(NamedTuple):
    """The part of one task, with what is known in its kind of task filled in."""

    dual_square: Any
    intermediate_precision: Any
    noise_precision: Any
    pull: Any
    readout: Any
    readout_cov: Any
    latent: Any


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


def join(parts: list[Any], like: Array) -> Any:
    """Put the parts of the tasks, possibly of none, into one array."""
    return namespace(like).concatenate([like.reshape(-1)[:0], *parts])


def split(values: Array, sizes: list[int]) -> list[Any]:
    """Cut the last axis into the parts of the tasks."""
    ends = list(accumulate(sizes, initial=0))
    return [values[..., start:end] for start, end in pairwise(ends)]


def task_starts(problem: MultitaskProblem, start: MultitaskCarry) -> list[TaskStart]:
    """Give every task its part of the carry."""
    tasks = problem.tasks
    sizes = [task.stack.n_train for task in tasks]
    dual_squares, pulls = split(start.dual_square, sizes), split(start.pull, sizes)
    latents = iter(split(start.latent, [task.y.shape[0] for task in tasks if isinstance(task, LabelTask)]))
    noises = zip(start.intermediate_precision, start.noise_precision, strict=True)
    parts = []
    for t, task in enumerate(tasks):
        if isinstance(task, LabelTask):
            (upsilon, epsilon), latent = (task.intermediate_precision, 1.0), next(latents)
        else:
            (upsilon, epsilon), latent = next(noises), task.y
        shared = start.readout[t], start.readout_cov[t], latent
        parts.append(TaskStart(dual_squares[t], upsilon, epsilon, pulls[t], *shared))
    return parts
