r"""Kernel weights and SVM at given switches: the convex step of sample-adaptive multiple kernel learning.

For switches :math:`H` and margins :math:`\tau` of the samples (Liu et al. 2014, eq. 13, in terms of
:math:`\beta = \alpha / \tau` and :math:`v = \beta \circ y`):

.. math:: \min_{\gamma \in \Delta} \max_\beta \; \tau^\top \beta - \tfrac12 v^\top K(\gamma, H) v
   \quad\text{with}\quad y^\top \beta = 0, \; 0 \le \beta_i \le C / \tau_i, \qquad
   K(\gamma, H) = \sum_p \gamma_p\, h_p h_p^\top \circ K_p .

That is multiple kernel learning on the simplex around an SVM that asks sample `i` for the margin :math:`\tau_i` at
penalty :math:`C / \tau_i`. Penalties alone, as weights of the samples, would solve another problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.discriminative.outer import WeightedFit, outer_gap
from bayesmkl.discriminative.svm.evaluator import (
    Evaluator,
    certify_by_planes,
    descend_spectrally,
    goal_on_simplex,
)
from bayesmkl.discriminative.svm.libsvm import solve_svm
from bayesmkl.kernels.stacks.base import StoredStack

FIRST_TOL, LAST_TOL = 1e-3, 1e-9  # of the SVM, in units of the scores
INNER_SHARE = 0.1  # share of the duality gap left to the SVM
PATIENCE = 50  # updates of the weights after which a kink is what keeps the gap of one dual from closing


class WeightsOptions(NamedTuple):
    """Penalty of margin violations, and stopping rules.

    Parameters
    ----------
    C : float
    tol : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the kernel weights.
    """

    C: float = 1.0
    tol: float = 1e-2
    max_iter: int = 500


class WeightsStep(NamedTuple):
    r"""A solution of eq. 13: kernel weights and SVM at given switches and margins.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
        :math:`\gamma`.
    solution : InnerSolution
        The SVM; its signed dual is :math:`v = \beta \circ y`.
    products : ndarray of shape (n_kernels, n_samples)
        :math:`K_p (v \circ h_p)`.
    quadratics : ndarray of shape (n_kernels,)
        :math:`S_p = (v \circ h_p)^\top K_p (v \circ h_p)`.
    gap : float
        Duality gap, that of the SVM included.
    n_solves : int
        Number of SVMs trained.
    outcome : Outcome
    """

    kernel_weights: np.ndarray
    solution: InnerSolution
    products: np.ndarray
    quadratics: np.ndarray
    gap: float
    n_solves: int = 1
    outcome: Outcome = Outcome.CONVERGED

    @property
    def objective(self) -> float:
        """Value of eq. 13."""
        return self.solution.objective

    @property
    def norms(self) -> np.ndarray:
        r"""Lengths :math:`\|\omega_p\|` of the normals."""
        return self.kernel_weights * np.sqrt(np.maximum(self.quadratics, 0.0))


class _Margins(NamedTuple):
    """The SVM of eq. 13: a margin and a penalty of its own for every sample."""

    C: float
    margins: np.ndarray

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        linear = None if np.all(self.margins == 1.0) else self.margins
        return solve_svm(kernel, target, self.C / self.margins, tol, linear)


class _SwitchedStack(NamedTuple):
    r"""The kernels :math:`h_p h_p^\top \circ K_p`, of which an `Evaluator` reads these."""

    stack: StoredStack
    switches: np.ndarray  # (n_kernels, n_train) of 0.0 and 1.0

    @property
    def n_kernels(self) -> int:
        return self.stack.n_kernels

    @property
    def n_rows(self) -> int:
        return self.stack.n_rows

    @property
    def n_train(self) -> int:
        return self.stack.n_train

    def combine(self, weights: np.ndarray) -> np.ndarray:
        return self.stack.combine_gated(weights[:, None] * self.switches, self.switches)

    def each(self, index: Iterable[int] | None = None) -> Iterator[np.ndarray]:
        index = range(self.n_kernels) if index is None else list(index)
        for m, kernel in zip(index, self.stack.each(index), strict=True):
            yield self.switches[m][:, None] * kernel * self.switches[m]

    def entries(self, rows: np.ndarray, columns: np.ndarray, kernels: np.ndarray | None = None) -> Any:
        switches = self.switches if kernels is None else self.switches[kernels]
        values = self.stack.entries(rows, columns, kernels)
        return switches[:, rows, None] * values * switches[:, None, columns]

    def frobenius(self, other: np.ndarray) -> np.ndarray:
        return np.array([np.vdot(kernel, other) for kernel in self.each()])


def solve_weights(
    stack: StoredStack,
    target: np.ndarray,
    switches: np.ndarray,
    margins: np.ndarray,
    options: WeightsOptions,
    start: np.ndarray,
) -> WeightsStep:
    r"""Find kernel weights and SVM at given switches and margins (eq. 13).

    .. math:: \min_{\gamma \in \Delta} \max_\beta \; \tau^\top \beta - \tfrac12 v^\top K(\gamma, H) v
       \quad\text{with } v = \beta \circ y, \; y^\top \beta = 0, \; 0 \le \beta_i \le C / \tau_i,

    a convex function of :math:`\gamma` with gradient :math:`-\tfrac12 S_p`, by spectral projected gradients; at
    a kink, cutting planes follow (`svm.evaluator`).

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    target : ndarray of shape (n_samples,)
        Labels -1 and +1.
    switches : ndarray of bool of shape (n_kernels, n_samples)
    margins : ndarray of shape (n_samples,)
        :math:`\tau`, positive.
    options : WeightsOptions
    start : ndarray of shape (n_kernels,)
        First kernel weights.

    Returns
    -------
    WeightsStep
    """
    kernels: Any = stack if switches.all() else _SwitchedStack(stack, switches.astype(np.float64))
    inner, n_solves, tol, n_steps, weights = _Margins(options.C, margins), 0, FIRST_TOL, 0, start

    def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray, WeightsStep]:
        nonlocal tol, n_solves
        while True:
            solution = inner.solve(kernels.combine(weights), target, tol)
            n_solves += 1
            if solution.gap <= INNER_SHARE * options.tol * abs(solution.objective) or tol <= LAST_TOL:
                step = _step_at(stack, switches, weights, solution)
                return step.objective, -0.5 * step.quadratics, step
            tol = max(LAST_TOL, 0.1 * tol)

    most = min(options.max_iter, PATIENCE)
    while True:
        found = minimize_spg(
            evaluate,
            project_simplex,
            weights,
            SPGOptions(max_iter=most - n_steps, tol=0.0),
            finished=lambda step: step.gap <= options.tol * abs(step.objective),
        )
        step, weights, n_steps = found.payload, found.point, n_steps + len(found.history) - 1
        if found.outcome is not Outcome.NOT_IMPROVING or tol <= LAST_TOL:
            break
        tol = max(LAST_TOL, 0.1 * tol)  # the line search reached the errors of the SVMs
    if found.outcome.converged or options.max_iter <= PATIENCE:
        return step._replace(n_solves=n_solves, outcome=found.outcome)
    # most likely at a kink: cutting planes
    search = Evaluator(kernels, target[None], inner, goal_on_simplex(options.tol))
    certify, n_left = certify_by_planes(search), options.max_iter - n_steps
    fit, _, outcome = descend_spectrally(search, project_simplex, weights, n_left, certify=certify)
    best = evaluate(fit.kernel_weights)[2]
    best = best if best.objective < step.objective else step
    gap = search.gap(WeightedFit(best.kernel_weights, best.objective, best.quadratics, (best.solution,)))
    return best._replace(gap=gap, n_solves=n_solves + search.n_solves, outcome=outcome)


def _step_at(
    stack: StoredStack, switches: np.ndarray, weights: np.ndarray, solution: InnerSolution
) -> WeightsStep:
    """Add products, quadratics, and the gap of this one dual to a solution."""
    duals = solution.signed_dual * switches
    products = stack.apply(duals[:, :, None])
    quadratics = (duals * products).sum(axis=1)
    gap = outer_gap(WeightedFit(weights, solution.objective, quadratics, (solution,)), 1.0)
    return WeightsStep(weights, solution, products, quadratics, gap)
