r"""Predictions, kernel shares and kernel weights of the tasks of `multitask`.

The common weights are the mean of the tasks' own weights ê_t = B_t^-1 s_t, those that its samples alone support, in
which every task counts by its precision Λ_t (`tasks`),

    E[e] = C Σ_t Λ_t ê_t,    C^-1 = diag(E[ω]) + Σ_t Λ_t,    influence of task t: tr(C Λ_t) / n_kernels,

and the influences of all tasks and of the prior, tr(C diag(E[ω])) / n_kernels, sum to one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.bemkl.models.multitask import MultitaskProblem, MultitaskState, evidence_of
from bayesmkl.bemkl.reading.predict import ScoreMoments, predict_score
from bayesmkl.bemkl.reading.shares import KernelShares, kernel_shares
from bayesmkl.kernels.stacks.dense import DenseStack


class CommonWeights(NamedTuple):
    """The common kernel weights, those of the tasks, and the influence of each task on the former."""

    mean: np.ndarray  # E[e], (n_kernels,)
    cov: np.ndarray  # (n_kernels, n_kernels)
    task_mean: np.ndarray  # E[e_t], (n_tasks, n_kernels)
    task_std: np.ndarray  # likewise
    influence: np.ndarray  # (n_tasks,), non-negative; one minus their sum is the influence of the prior
    spread: float  # E[τ]^-1/2, the typical distance of one weight of a task from the common one

    @property
    def std(self) -> np.ndarray:
        """Posterior standard deviations of the common weights, shape (n_kernels,)."""
        return np.sqrt(self.cov.diagonal())


def common_weights(problem: MultitaskProblem, state: MultitaskState) -> CommonWeights:
    """Report the common kernel weights, those of the tasks, and how far these determine them."""
    readout, precision = state.readout, float(state.task_precision.mean)
    information = evidence_of(problem, state).information(precision)
    cov = np.linalg.inv(np.diag(state.kernel_precision.mean) + information.sum(axis=0))
    influence = (information @ cov).trace(axis1=1, axis2=2) / len(cov)
    mean, std = readout.mean[:, 1:], np.sqrt(readout.variance[:, 1:])
    return CommonWeights(readout.common.mean, readout.common.cov, mean, std, influence, precision**-0.5)


def predict_task(
    problem: MultitaskProblem, state: MultitaskState, task: int, stack: DenseStack, rule: str = "full"
) -> ScoreMoments:
    """Return mean and variance of the score ``b_t + e_t' g`` of new samples in one task.

    Parameters
    ----------
    problem : MultitaskProblem
    state : MultitaskState
    task : int
    stack : DenseStack
        Kernels of the new samples (rows) against the training samples of this task.
    rule : {"full", "paper"}
        See `predict`.
    """
    one: Any = state.tasks[task]
    given: Any = problem.tasks[task]
    if one.intermediate_precision is None:
        variance = 1.0 / given.intermediate_precision
    else:
        variance = one.intermediate_precision.mean_reciprocal
    return predict_score(stack, one.dual, state.readout.marginals[task], variance, rule)


def task_shares(
    problem: MultitaskProblem, state: MultitaskState, rng: np.random.Generator
) -> list[KernelShares]:
    """Return the kernel shares of every task, over its own training samples."""
    parts = zip(problem.tasks, state.tasks, state.readout.marginals, strict=True)
    return [kernel_shares(task.stack, one.dual, readout, rng) for task, one, readout in parts]


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
