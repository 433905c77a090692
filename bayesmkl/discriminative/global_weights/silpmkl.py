r"""Multiple kernel learning as a semi-infinite linear program (Sonnenburg, Rätsch, Schäfer and Schölkopf 2006).

.. math:: \max_{\theta, \beta \in \Delta} \; \theta \quad \text{subject to} \quad
   \sum_m \beta_m S_m(\alpha) \ge \theta \;\text{ for all }\; \alpha, \qquad
   S_m(\alpha) = \tfrac12 v^\top K_m v - 1^\top\alpha, \quad v = \alpha \circ y

with one constraint per feasible dual :math:`\alpha`: the problem of SimpleMKL, :math:`-\theta` being
:math:`\min_{\beta \in \Delta} J(\beta)`. Column generation (algorithm 1): the SVM at the present weights gives the
constraint that they violate most, a linear program over all constraints so far gives the next weights, and its value
bounds the optimum. The iteration ends at :math:`1 - S / \theta \le \epsilon`, :math:`S` being that of the best
weights so far.

Departures: :math:`S` is that of the best weights, not of the last ones; several tasks that share the weights add
their :math:`S_m`; SVMs are solved as accurately as the present duality gap needs; and no constraint is discarded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult, WeightedFit, outer_gap, result_of
from bayesmkl.discriminative.svm.cuts import lowest_point
from bayesmkl.discriminative.svm.evaluator import Evaluator, Goal, OnStep
from bayesmkl.kernels.stacks.base import StoredStack


class SILPMKLOptions(NamedTuple):
    """Stopping rule.

    Parameters
    ----------
    tol : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the kernel weights.
    """

    tol: float = 1e-3
    max_iter: int = 1000


def fit_silpmkl(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: SILPMKLOptions = SILPMKLOptions(),  # noqa: B008
    start: np.ndarray | None = None,
    on_step: OnStep = None,
) -> MKLResult:
    """Alternate SVMs and linear programs.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    options : SILPMKLOptions
    start : ndarray of shape (n_kernels,), optional
        First kernel weights; equal ones by default.
    on_step : callable, optional
        Takes the number of iterations done and a line of status.
    """
    goal = Goal(lambda fit: fit.objective, lambda fit: outer_gap(fit, 1.0) - fit.inner_gap, options.tol)
    evaluate = Evaluator(stack, targets, inner, goal)
    weights = np.full(stack.n_kernels, 1.0 / stack.n_kernels) if start is None else project_simplex(start)
    best = evaluate.refresh(evaluate(weights))
    cuts, history, outcome = [best], [_primal_value(best)], Outcome.CONVERGED
    while not evaluate.is_optimal(best):
        if len(history) > options.max_iter:
            outcome = Outcome.MAX_ITER
            break
        bound, weights = lowest_point(cuts)
        evaluate.raise_bound(bound)  # theta
        new = evaluate.refresh(evaluate(weights))
        is_cut_off = new.objective > bound and not np.array_equal(weights, cuts[-1].kernel_weights)
        cuts.append(new)
        if not is_cut_off and not evaluate.tighten():  # rounding of the solvers hides the rest
            outcome = Outcome.NOT_IMPROVING
            break
        best = min(best, new, key=_primal_value)
        history.append(_primal_value(best))
        if on_step is not None:
            on_step(len(history) - 1, evaluate.status(best))
    return result_of(best, history, outcome, evaluate.n_solves, evaluate.gap(best))


def _primal_value(fit: WeightedFit) -> float:
    return fit.objective + fit.inner_gap
