"""Two stages: kernel weights by a criterion of their own, then one SVM on the combined kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.inner import InnerProblem, InnerSolution
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.training import Training
from bayesmkl.kernels.alignment import frobenius_gram
from bayesmkl.kernels.stacks.base import StoredStack

Folds = Sequence[tuple[np.ndarray, np.ndarray]]  # training and validation positions


class Selection(NamedTuple):
    """Kernel weights, and the record of their optimization.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
    objective_history : tuple of float
        Of the criterion; empty where it has none that is minimized.
    duality_gap : float
        Of the criterion, NaN where it has none.
    outcome : Outcome
    n_solves : int
        Number of SVMs trained.
    """

    kernel_weights: np.ndarray
    objective_history: tuple[float, ...] = ()
    duality_gap: float = np.nan
    outcome: Outcome = Outcome.CONVERGED
    n_solves: int = 0


def train_selected(
    stack: StoredStack, targets: np.ndarray, inner: InnerProblem, tol: float, selection: Selection
) -> MKLResult:
    """Train the SVM or classifier of every task with the selected kernel weights.

    Where the criterion has no objective, the history holds that of the SVMs.
    """
    solutions = solve_tasks(stack.combine(selection.kernel_weights), targets, inner, tol)
    history = selection.objective_history or (sum(solution.objective for solution in solutions),)
    return MKLResult(
        kernel_weights=selection.kernel_weights,
        signed_dual=np.stack([solution.signed_dual for solution in solutions]),
        intercept=np.array([solution.intercept for solution in solutions]),
        objective_history=np.array(history),
        duality_gap=selection.duality_gap,
        outcome=selection.outcome,
        n_solves=selection.n_solves + len(solutions),
    )


def solve_tasks(
    kernel: np.ndarray, targets: np.ndarray, inner: InnerProblem, tol: float
) -> tuple[InnerSolution, ...]:
    """Solve the inner problem of every task on one kernel of shape (n_samples, n_samples)."""
    return tuple(inner.solve(kernel, target, tol) for target in targets)


def fold_scores(
    kernel: np.ndarray, targets: np.ndarray, inner: InnerProblem, folds: Folds, tol: float
) -> list[np.ndarray]:
    """Return the scores of the validated samples of every fold, (n_tasks, n_validated), from one kernel.

    A class that is alone among the training samples of a fold always wins.
    """
    found = []
    for train, validated in folds:
        square, rows = kernel[np.ix_(train, train)], kernel[np.ix_(validated, train)]
        found.append(np.stack([_scores(square, target[train], rows, inner, tol) for target in targets]))
    return found


def fold_accuracy(scores: Sequence[np.ndarray], targets: np.ndarray, folds: Folds) -> float:
    """Return the mean over folds of the share of validated samples that `fold_scores` assign to their class."""
    pairs = zip(scores, folds, strict=True)
    return float(np.mean([np.mean(_decide(s) == _decide(targets[:, rows])) for s, (_, rows) in pairs]))


def _scores(
    square: np.ndarray, target: np.ndarray, rows: np.ndarray, inner: InnerProblem, tol: float
) -> np.ndarray:
    if np.all(target == target[0]):
        return np.full(len(rows), target[0])
    svm = inner.solve(square, target, tol)
    return rows @ svm.signed_dual + svm.intercept


def _decide(scores: np.ndarray) -> np.ndarray:
    """Return the side of zero for one task, the task of the highest score for several."""
    return scores[0] > 0.0 if len(scores) == 1 else scores.argmax(axis=0)


def shares(scores: np.ndarray) -> np.ndarray:
    """Return nonnegative scores, negative ones cut to zero, divided by their sum; uniform if nothing is left.

    Examples
    --------
    >>> import numpy as np
    >>> shares(np.array([3.0, 1.0, -1.0])), shares(np.zeros(2))
    (array([0.75, 0.25, 0.  ]), array([0.5, 0.5]))
    """
    positive = np.maximum(scores, 0.0)
    largest = positive.max()
    if not largest > 0.0:
        return np.full(len(scores), 1.0 / len(scores))
    relative = positive / largest
    return relative / relative.sum()


def with_gram(training: Training, needed: bool, center: bool = False) -> Training:
    """Add the Frobenius products of (centered) kernels if they are needed."""
    if not needed:
        return training
    return training._replace(gram=frobenius_gram(training.stack, center, training.weights.counts))
