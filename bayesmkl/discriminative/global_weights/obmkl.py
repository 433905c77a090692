r"""OBMKL: kernel weights by the empirical optimal kernel (Wang, Cai, Zhang, Bai, Cai and Zhang 2014).

The empirical optimal kernel takes the largest kernel value of every pair within a class and the smallest of every
pair between classes (eq. 8). Combinations of the kernels are drawn towards it:

* ratio (eqs. 10, 11): :math:`\eta_m \propto A(K_m, K_{opti})`;
* qp (eq. 12): :math:`\min_{\eta \in \Delta} \|\sum_m \eta_m K_m - K_{opti}\|_F^2`;
* aqp (eqs. 13-15): the same for :math:`(\alpha\alpha^\top) \circ K_m` and :math:`(\alpha\alpha^\top) \circ
  K_{opti}`, in turn with :math:`\alpha`, the duals of an SVM on :math:`\sum_m \eta_m K_m`.

Then one SVM is trained on the combined kernel, unweighted.

Errata: (12), (14) and (17) print :math:`\eta \in_+^p` for :math:`\mathbb R_+^p`, and (15) "max min" for max. Eq. (4)
is an equality only if every pair could choose weights of its own: :math:`K_{opti}` bounds the polarization of all
combinations, and is indefinite in general, whatever §III says. It enters through Frobenius products only, so that
(12) stays convex.

Departures: negative alignments, possible where kernels have negative entries, count as zero in (10). The alternation
of aqp has no common objective, and plain steps often swing between two sets of weights for ever; a step is halved
whenever weights would change about as much as two alternations before, which keeps the fixed points; "aqp-paper" has
plain steps. Tasks that share weights share one :math:`K_{opti}`, by equality of classes, and add up their (14).

Weights :math:`w_i` of the samples count pairs :math:`w_i w_j` times in (10) and (12). Not so in (14): copies of a
sample share its dual in no fixed way, so that the squares of their duals do not say how many they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import solve_simplex_qp
from bayesmkl.discriminative.global_weights.two_stage import (
    Selection,
    shares,
    solve_tasks,
    train_selected,
)
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.kernels.alignment import entrywise_bounds, frobenius_gram, frobenius_norms, optimal_entries
from bayesmkl.kernels.stacks.base import StoredStack
from bayesmkl.kernels.stacks.dense import DenseStack

METHODS = ("ratio", "qp", "aqp", "aqp-paper")
WITH_GRAM = METHODS[1:]
ALTERNATING = METHODS[2:]
SWINGING = 0.9  # of the change two alternations before: with more, the weights swing
SUPPORT = 1e-8  # of the largest dual: samples below it do not enter (14)


class OBMKLOptions(NamedTuple):
    """Variant, and stopping rule of its alternation.

    Parameters
    ----------
    method : {"ratio", "qp", "aqp", "aqp-paper"}
        The last takes plain steps.
    tol : float
        aqp stops when no weight changes by more; also the tolerance of the SVMs.
    max_iter : int
        Maximum number of alternations of aqp.
    """

    method: str = "qp"
    tol: float = 1e-4
    max_iter: int = 50


def fit_obmkl(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: OBMKLOptions,
    gram: np.ndarray | None = None,
    on_step: Callable[[int, str], None] | None = None,
    counts: np.ndarray | None = None,
) -> MKLResult:
    """Find weights by the empirical optimal kernel, then train one SVM per task.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
        Labels -1 and +1; one row per class where there are several.
    inner : InnerProblem
    options : OBMKLOptions
    gram : ndarray of shape (n_kernels, n_kernels), optional
        `frobenius_gram` of the stack, where the caller has it.
    on_step : callable, optional
        Called after every alternation with their number and a word about it.
    counts : ndarray of shape (n_samples,), optional
        How often samples count in (10) and (12); once by default.
    """
    problem = Problem(stack, targets, inner, optimal_kernel(stack, targets), counts)
    if options.method == "ratio":
        selection = select_by_ratio(problem)
    else:
        selection = select_nearest(
            problem, frobenius_gram(stack, sample_weights=counts) if gram is None else gram
        )
    if options.method in ALTERNATING:
        selection = alternate(problem, selection.kernel_weights, options, on_step)
    return train_selected(stack, targets, inner, options.tol, selection)


class Problem(NamedTuple):
    """Data that all iterations share.

    Parameters
    ----------
    stack : StoredStack
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    optimal : ndarray of shape (n_samples, n_samples)
        The empirical optimal kernel.
    counts : ndarray of shape (n_samples,) or None
        How often samples count in (10) and (12).
    """

    stack: StoredStack
    targets: np.ndarray
    inner: InnerProblem
    optimal: np.ndarray
    counts: np.ndarray | None = None

    def counted(self) -> np.ndarray:
        """Return the empirical optimal kernel with every entry as often as it counts."""
        return self.optimal if self.counts is None else self.optimal * np.outer(self.counts, self.counts)


def optimal_kernel(stack: StoredStack, targets: np.ndarray) -> np.ndarray:
    """Return the empirical optimal kernel (8) of one task, or of one-versus-rest tasks by equality of classes."""
    codes = targets[0] if len(targets) == 1 else targets.argmax(axis=0)
    return optimal_entries(*entrywise_bounds(stack), codes[:, None] == codes)


def select_by_ratio(problem: Problem) -> Selection:
    """Weight the kernels by their alignment with the empirical optimal kernel (10), (11)."""
    norms = frobenius_norms(problem.stack, sample_weights=problem.counts)
    products = problem.stack.frobenius(problem.counted())
    return Selection(shares(np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0.0)))


def select_nearest(problem: Problem, gram: np.ndarray) -> Selection:
    """Minimize the squared distance of a convex combination from the empirical optimal kernel (12)."""
    linear = problem.stack.frobenius(problem.counted())
    weights, residual = solve_simplex_qp(gram, linear)
    distance = float(
        weights @ gram @ weights - 2.0 * linear @ weights + (problem.counted() * problem.optimal).sum()
    )
    return Selection(weights, (distance,), residual * float(np.abs(linear).max()))


def alternate(
    problem: Problem,
    weights: np.ndarray,
    options: OBMKLOptions,
    on_step: Callable[[int, str], None] | None = None,
) -> Selection:
    """Alternate the duals of (15) and the weights of (14), from the `weights` of (12) on."""
    history: list[float] = []
    changes, step = [np.inf, np.inf], 1.0
    outcome = Outcome.MAX_ITER
    for n_done in range(1, options.max_iter + 1):
        svms = solve_tasks(problem.stack.combine(weights), problem.targets, problem.inner, options.tol)
        history.append(sum(svm.objective for svm in svms))
        proposal = select_weighted(problem, [np.abs(svm.signed_dual) for svm in svms], weights)
        changes.append(float(np.abs(proposal - weights).max()))
        if on_step is not None:
            on_step(n_done, f"largest change of a weight {changes[-1]:.1e}")
        if changes[-1] <= options.tol:
            outcome = Outcome.CONVERGED
            break
        if options.method == "aqp" and changes[-1] > SWINGING * changes[-3]:
            step *= 0.5
        weights = weights + step * (proposal - weights)
    return Selection(weights, tuple(history), outcome=outcome, n_solves=len(history) * len(problem.targets))


def select_weighted(problem: Problem, alphas: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    r"""Minimize the distance with every pair weighted by its duals (14).

    The products are :math:`\sum_{ij} \alpha_i^2 \alpha_j^2 [K_m]_{ij} [K_h]_{ij}`: support vectors alone count, and
    the scale of :math:`\alpha` does not matter. Without any, `weights` stay.
    """
    n_kernels = problem.stack.n_kernels
    gram, linear = np.zeros((n_kernels, n_kernels)), np.zeros(n_kernels)
    largest = max(float(alpha.max()) for alpha in alphas)
    if largest == 0.0:
        return weights
    for alpha in alphas:
        support = np.flatnonzero(alpha > SUPPORT * largest)
        block = DenseStack(np.ascontiguousarray(problem.stack.rows(support).columns(support)))
        importance = (alpha[support] / largest) ** 2
        gram += frobenius_gram(block, sample_weights=importance)
        linear += block.frobenius(
            problem.optimal[np.ix_(support, support)] * np.outer(importance, importance)
        )
    return solve_simplex_qp(gram, linear)[0]
