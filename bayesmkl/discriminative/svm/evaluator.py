r"""Repeated solves of the same SVMs at changing kernel weights, at the cost of what changed.

Methods that optimize kernel weights ask for :math:`J(d)` and its gradient :math:`-\tfrac12 S_m` at dozens of weights.
With many kernels, solving the SVMs is the small part of that: passes over all kernels cost more. Remembered from one
weight vector to the next are

* the last two combined kernels: :math:`K(d + sD) = K(d) + s K(D)`, so that only kernels whose weight moved are read,
  and none on a line through two known points;
* the kernels between support vectors: :math:`S_m = v^\top K_m v` needs no other entries;
* :math:`S_m` of kernels without weight that are far from getting one: they are looked at every few solutions;
* the tolerance of the inner solver, which is loose far from the optimum and follows the outer gap from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import WeightedFit
from bayesmkl.discriminative.svm.moving import MovingCombination, ShrinkingQuadratics
from bayesmkl.kernels.stacks.base import StoredStack

OnStep = Callable[[int, str], None] | None
LONGER = 1.5  # updates of weights after each that lowered the objective
FIRST_TOL, LAST_TOL = 1e-2, 1e-7  # of the inner solver, in standard deviations of the target


class Goal(NamedTuple):
    r"""Objective of a method over the kernel weights, and its tolerance.

    Parameters
    ----------
    objective : callable
        Takes a WeightedFit and returns the value of the outer problem there, from below: inner gaps add to it.
    gap : callable
        Takes a WeightedFit and returns the distance of its objective from the dual value of its signed duals (or what
        measures stationarity, where there is no dual), without inner gaps.
    tol : float
        Largest gap, relative to the objective.
    inner_share : float
        Share of the gap, or of what is allowed of it, that inner problems may take.
    certified : bool
        Whether the gap is one: then every dual value bounds the minimum, wherever it was found.
    gradient : callable
        Takes a WeightedFit and returns the gradient of the objective; that of :math:`J` by default.
    """

    objective: Callable[[WeightedFit], float]
    gap: Callable[[WeightedFit], float]
    tol: float
    inner_share: float = 0.1
    certified: bool = True
    gradient: Callable[[WeightedFit], np.ndarray] = lambda fit: -0.5 * fit.quadratics


class Evaluator:
    """Inner problems at weights that move.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    goal : Goal

    Attributes
    ----------
    n_solves : int
        Inner problems that were solved.
    """

    def __init__(self, stack: StoredStack, targets: np.ndarray, inner: InnerProblem, goal: Goal) -> None:
        self.goal, self.n_solves = goal, 0
        self._targets, self._inner = targets, inner
        self._combination, self._quadratics = MovingCombination(stack), ShrinkingQuadratics(stack)
        self._allowed = np.inf  # the smallest of all allowed inner gaps until now
        self._bound, self._promise = -np.inf, -np.inf  # largest dual value, and what seems to be one
        self._promising: WeightedFit | None = None
        self._refreshed: list[WeightedFit] = []  # the last two
        scale = float(targets.std(axis=1).max()) or 1.0
        self._tol, self._last_tol = FIRST_TOL * scale, LAST_TOL * scale

    def __call__(self, kernel_weights: np.ndarray) -> WeightedFit:
        """Solve the inner problem of every task as accurately as the goal asks.

        Quadratics of kernels without weight may be out of date; `refresh` looks at them again.
        """
        return self.complete(self.value(kernel_weights))

    def value(self, kernel_weights: np.ndarray) -> WeightedFit:
        """Do the same without quadratics (they are NaN), as accurately as was asked for until now."""
        fit = self._solve(kernel_weights)
        while self._tighten_for(fit):
            fit = self._solve(kernel_weights)
        return fit

    def complete(self, fit: WeightedFit) -> WeightedFit:
        """Add the quadratics to a `value`."""
        while True:
            fit = fit._replace(quadratics=self._sums(fit, everywhere=False))
            gap, objective = self.goal.gap(fit), self.goal.objective(fit)
            allowed = self.goal.inner_share * max(gap, self.goal.tol * abs(objective))
            self._allowed = min(self._allowed, allowed)
            if objective - gap > self._promise:
                self._promise, self._promising = objective - gap, fit
            if not self._tighten_for(fit):
                return fit
            fit = self._solve(fit.kernel_weights)

    def refresh(self, fit: WeightedFit) -> WeightedFit:
        """Return `fit` with the quadratics of all kernels up to date."""
        for known in self._refreshed:
            if known.solutions is fit.solutions:
                return known
        fit = fit._replace(quadratics=self._sums(fit, everywhere=True))
        self._refreshed = [*self._refreshed[-1:], fit]
        return fit

    def gap(self, fit: WeightedFit) -> float:
        """Return the distance of the objective at `fit` from the largest dual value that was met."""
        fit = self.refresh(fit)
        if not self.goal.certified:
            return self.goal.gap(fit) + fit.inner_gap
        if self._promising is not None:
            promising, self._promise, self._promising = self.refresh(self._promising), -np.inf, None
            self.raise_bound(self.goal.objective(promising) - self.goal.gap(promising))
        self.raise_bound(self.goal.objective(fit) - self.goal.gap(fit))
        return self.upper(fit) - self._bound

    def upper(self, fit: WeightedFit) -> float:
        """Return the objective at `fit` from above: errors of the SVMs do not make it smaller."""
        return self.goal.objective(fit) + fit.inner_gap

    def raise_bound(self, dual_value: float) -> None:
        """Note a lower bound of the minimum."""
        self._bound = max(self._bound, dual_value)

    def is_optimal(self, fit: WeightedFit) -> bool:
        """Return whether the goal is reached, by stored quadratics first, then by updated ones."""
        objective = self.goal.objective(fit)
        allowed = self.goal.tol * abs(self.upper(fit))
        distance = objective - max(self._bound, self._promise) if self.goal.certified else self.goal.gap(fit)
        return distance + fit.inner_gap <= allowed and self.gap(fit) <= allowed

    def status(self, fit: WeightedFit) -> str:
        """Return a line on where the search stands."""
        objective = self.goal.objective(fit)
        return f"objective {objective:.6g}, relative gap {self.goal.gap(fit) / (abs(objective) or 1.0):.1e}"

    def tighten(self, factor: float = 0.1) -> bool:
        """Lower the inner tolerance; false if it was as low as rounding permits."""
        before, self._tol = self._tol, max(self._last_tol, self._tol * factor)
        return self._tol < before

    def _tighten_for(self, fit: WeightedFit) -> bool:
        excess = fit.inner_gap / max(self._allowed, np.finfo(float).tiny)
        return excess > 1.0 and self.tighten(min(0.3, 0.5 / excess))

    def _solve(self, kernel_weights: np.ndarray) -> WeightedFit:
        kernel = self._kernel(kernel_weights)
        solutions = tuple(self._inner.solve(kernel, target, self._tol) for target in self._targets)
        self.n_solves += len(solutions)
        objective = sum(solution.objective for solution in solutions)
        return WeightedFit(kernel_weights, objective, np.full(kernel_weights.shape, np.nan), solutions)

    def _kernel(self, kernel_weights: np.ndarray) -> np.ndarray:
        return self._combination(kernel_weights)

    def _sums(self, fit: WeightedFit, everywhere: bool) -> np.ndarray:
        quadratics = self._quadratics.refresh if everywhere else self._quadratics
        return quadratics(signed_duals(fit), fit.kernel_weights)


def signed_duals(fit: WeightedFit) -> np.ndarray:
    """Return the duals of all tasks, shape (n_tasks, n_samples)."""
    return np.stack([solution.signed_dual for solution in fit.solutions])


def descend_spectrally(
    evaluate: Evaluator,
    project: Callable[[np.ndarray], np.ndarray],
    weights: np.ndarray,
    max_iter: int,
    on_step: OnStep = None,
    certify: Callable[[WeightedFit], bool] = lambda fit: False,
) -> tuple[WeightedFit, list[float], Outcome]:
    """Minimize by spectral projected gradients; where their errors stop the search, SVMs are solved more accurately.

    Parameters
    ----------
    evaluate : Evaluator
    project : callable
        Projection on the feasible weights.
    weights : ndarray of shape (n_kernels,)
        Where to start.
    max_iter : int
    on_step : callable, optional
    certify : callable, optional
        Looks harder whether a WeightedFit is optimal, where the objective no longer falls.

    Returns
    -------
    fit : WeightedFit
    history : list of float
    outcome : Outcome
    """
    patience = _Patience(0.1 * evaluate.goal.tol)

    def function(kernel_weights: np.ndarray) -> tuple[float, np.ndarray, WeightedFit]:
        fit = evaluate(kernel_weights)
        return evaluate.upper(fit), evaluate.goal.gradient(fit), fit

    def is_done(fit: WeightedFit) -> bool:
        is_over = patience.is_over(evaluate.goal.objective(fit))
        return evaluate.is_optimal(fit) or (is_over and certify(fit))

    def note(n_done: int, _: float, fit: WeightedFit) -> None:
        if on_step is not None:
            on_step(len(history) + n_done, evaluate.status(fit))

    history: list[float] = []
    while True:
        options = SPGOptions(max_iter=max_iter - len(history), tol=0.0)
        found = minimize_spg(function, project, weights, options, is_done, note)
        history, weights = history + list(found.history), found.point
        fit, outcome = evaluate.refresh(found.payload), found.outcome
        if outcome is Outcome.NOT_IMPROVING and certify(fit):
            outcome = Outcome.CONVERGED
        if outcome is not Outcome.NOT_IMPROVING or len(history) >= max_iter or not evaluate.tighten():
            history[-1] = evaluate.upper(fit)  # the best point need not be the last one
            return fit, history, outcome


class _Patience:
    """Detector of stagnation: no decrease by a share of the objective for some steps, then for twice as many, ..."""

    def __init__(self, share: float, n_steps: int = 10) -> None:
        self._share, self._n_steps, self._waited, self._best = share, n_steps, 0, np.inf

    def is_over(self, objective: float) -> bool:
        if objective < self._best - self._share * abs(objective):
            self._best, self._waited = objective, 0
        self._waited += 1
        if self._waited < self._n_steps:
            return False
        self._n_steps, self._waited = 2 * self._n_steps, 0
        return True


def alternate(
    evaluate: Evaluator,
    update: Callable[[WeightedFit, float], np.ndarray],
    weights: np.ndarray,
    max_iter: int,
    on_step: OnStep = None,
) -> tuple[WeightedFit, list[float], Outcome]:
    """Alternate SVMs and closed-form weight updates; the objective falls, down to the errors of the SVMs.

    Updates grow longer as long as the objective falls; one that raises it is taken back, and the next is as long as
    the closed form says.

    Parameters
    ----------
    evaluate : Evaluator
    update : callable
        Takes a WeightedFit and the length of a step, and returns the next kernel weights: for 1 those of the closed
        form, which do not raise the objective.
    weights : ndarray of shape (n_kernels,)
        Where to start.
    max_iter : int
    on_step : callable, optional

    Returns
    -------
    fit : WeightedFit
    history : list of float
    outcome : Outcome
    """
    at = evaluate(weights)
    history, length = [evaluate.upper(at)], 1.0
    while not evaluate.is_optimal(at):
        if len(history) > max_iter:
            return evaluate.refresh(at), history, Outcome.MAX_ITER
        new = evaluate(update(at, length))
        value = evaluate.upper(new)
        if value < history[-1]:
            at, length = new, LONGER * length
            history.append(value)
            if on_step is not None:
                on_step(len(history) - 1, evaluate.status(at))
        elif length > 1.0:
            length = 1.0
        elif evaluate.tighten():
            at = evaluate(at.kernel_weights)
        else:
            return evaluate.refresh(at), history, Outcome.NOT_IMPROVING
    return evaluate.refresh(at), history, Outcome.CONVERGED
