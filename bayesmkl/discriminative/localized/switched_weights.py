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

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.discriminative.svm.libsvm import solve_svm
from bayesmkl.kernels.stacks.base import StoredStack

__all__ = ["WeightsOptions", "WeightsStep", "solve_weights"]

FIRST_TOL, LAST_TOL = 1e-3, 1e-9  # of the SVM, in units of the scores
INNER_SHARE = 0.1  # share of the duality gap left to the SVM


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
    n_solves : int
        Number of SVMs trained.
    outcome : Outcome
    """

    kernel_weights: np.ndarray
    solution: InnerSolution
    products: np.ndarray
    quadratics: np.ndarray
    n_solves: int = 1
    outcome: Outcome = Outcome.CONVERGED

    @property
    def objective(self) -> float:
        """Value of eq. 13."""
        return self.solution.objective

    @property
    def gap(self) -> float:
        """Primal minus dual value, the gap of the SVM included."""
        outer = float(self.quadratics.max() - self.kernel_weights @ self.quadratics)
        return 0.5 * outer + self.solution.gap

    @property
    def norms(self) -> np.ndarray:
        r"""Lengths :math:`\|\omega_p\|` of the normals."""
        return self.kernel_weights * np.sqrt(np.maximum(self.quadratics, 0.0))


class _Switched(NamedTuple):
    """The problem of eq. 13."""

    stack: StoredStack
    target: np.ndarray
    switches: np.ndarray
    margins: np.ndarray
    C: float

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Return ``K(gamma, H)``."""
        if self.switches.all():
            return self.stack.combine(weights)
        gates = self.switches.astype(np.float64)
        return self.stack.combine_gated(weights[:, None] * gates, gates)

    def solve(self, weights: np.ndarray, tol: float) -> WeightsStep:
        """Train the SVM at given kernel weights."""
        linear = None if np.all(self.margins == 1.0) else self.margins
        solution = solve_svm(self.combine(weights), self.target, self.C / self.margins, tol, linear)
        duals = solution.signed_dual * self.switches
        products = self.stack.apply(duals[:, :, None])
        return WeightsStep(weights, solution, products, (duals * products).sum(axis=1))


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

    a convex function of :math:`\gamma` with gradient :math:`-\tfrac12 S_p`, by spectral projected gradients.

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
    problem = _Switched(stack, target, switches, margins, options.C)
    tol, n_solves, n_steps, weights = FIRST_TOL, 0, 0, start

    def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray, WeightsStep]:
        nonlocal tol, n_solves
        while True:
            step = problem.solve(weights, tol)
            n_solves += 1
            allowed = INNER_SHARE * options.tol * abs(step.objective)
            if step.solution.gap <= allowed or tol <= LAST_TOL:
                return step.objective, -0.5 * step.quadratics, step
            tol = max(LAST_TOL, 0.1 * tol)

    while True:
        found = minimize_spg(
            evaluate,
            project_simplex,
            weights,
            SPGOptions(max_iter=options.max_iter - n_steps, tol=0.0),
            finished=lambda step: step.gap <= options.tol * abs(step.objective),
        )
        weights, n_steps = found.point, n_steps + len(found.history) - 1
        if found.outcome is not Outcome.NOT_IMPROVING or tol <= LAST_TOL:
            return found.payload._replace(n_solves=n_solves, outcome=found.outcome)
        tol = max(LAST_TOL, 0.1 * tol)  # the line search reached the errors of the SVMs
