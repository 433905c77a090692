"""Options of PrimalMKL, solutions at given weights, and the record of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.discriminative.outer import MKLResult, WeightedFit, dual_norm, gather, result_of
from bayesmkl.discriminative.primal.solve import Huber, OneClass, Squared, SquaredHinge
from bayesmkl.discriminative.svm.evaluator import signed_duals
from bayesmkl.discriminative.svm.moving import MovingCombination, ShrinkingQuadratics
from bayesmkl.kernels.stacks.base import StoredStack

InnerLoss = SquaredHinge | Squared | Huber | OneClass
OnStep = Callable[[int, str], None] | None


class PrimalMKLOptions(NamedTuple):
    """Optimization of kernel weights.

    Parameters
    ----------
    p_norm : float
    weights : {"spg", "closed", "paper"}
    tol : float
        Duality gap relative to the objective.
    max_iter : int
        Maximum number of updates of the weights.
    """

    p_norm: float = 1.0
    weights: str = "spg"
    tol: float = 1e-3
    max_iter: int = 500


class PrimalMKLResult(NamedTuple):
    r"""Weights, solutions, and the weights after every update.

    Parameters
    ----------
    result : MKLResult
        Objectives in the paper's scale, :math:`\lambda` times the standard form.
    weights_history : ndarray of shape (n_iter, n_kernels)
    """

    result: MKLResult
    weights_history: np.ndarray


def solve_all(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerLoss,
    weights: np.ndarray,
    tol: float,
    starts: tuple[InnerSolution, ...] | None = None,
) -> WeightedFit:
    """Solve the inner problem of every task at `weights`, each from its last solution."""
    kernel = stack.combine(weights)
    solutions = tuple(
        inner.solve(kernel, target, tol, start)
        for target, start in zip(targets, starts or (None,) * len(targets), strict=True)
    )
    return gather(stack, weights, solutions)


class Solver:
    """Inner problems at weights that move, at the cost of what changed (see `bayesmkl.discriminative.svm.evaluator`).

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerLoss
    """

    def __init__(self, stack: StoredStack, targets: np.ndarray, inner: InnerLoss) -> None:
        self._targets, self._inner = targets, inner
        self._combination, self._quadratics = MovingCombination(stack), ShrinkingQuadratics(stack)

    def __call__(
        self, weights: np.ndarray, tol: float, starts: tuple[InnerSolution, ...] | None = None
    ) -> WeightedFit:
        """Do what `solve_all` does; quadratics of kernels without weight may be out of date."""
        kernel = self._combination(weights)
        solutions = tuple(
            self._inner.solve(kernel, target, tol, start)
            for target, start in zip(self._targets, starts or (None,) * len(self._targets), strict=True)
        )
        fit = WeightedFit(weights, sum(s.objective for s in solutions), weights, solutions)
        return fit._replace(quadratics=self._quadratics(signed_duals(fit), weights))

    def refresh(self, fit: WeightedFit) -> WeightedFit:
        """Return `fit` with the quadratics of all kernels up to date."""
        return fit._replace(quadratics=self._quadratics.refresh(signed_duals(fit), fit.kernel_weights))


CERTAIN = 1e-6  # relative duality gap up to which rounding, not an unsolved inner problem, may be the reason


class Trace:
    """Objectives and weights after every update, the largest dual value that was met, and the stopping rule.

    `refresh` brings quadratics that are out of date up to date; None where none are. The dual values of such fits are
    promises, and looked at where they would end the search.
    """

    def __init__(
        self,
        fit: WeightedFit,
        reg: float,
        options: PrimalMKLOptions,
        on_step: OnStep,
        refresh: Callable[[WeightedFit], WeightedFit] | None = None,
    ) -> None:
        self.reg, self.options, self.on_step, self.refresh = reg, options, on_step, refresh
        self.bound = self.promise = -np.inf
        self.promising: WeightedFit | None = None
        self.see(fit)
        self.objectives, self.weights = [primal_value(fit)], [fit.kernel_weights]

    @property
    def n_updates(self) -> int:
        """Number of updates of the weights so far."""
        return len(self.objectives) - 1

    def see(self, fit: WeightedFit) -> None:
        """Take the dual value at the coefficients of `fit`: a bound of the optimum, wherever they come from."""
        value = self._dual_value(fit)
        if self.refresh is None:
            self.bound = max(self.bound, value)
        elif value > self.promise:
            self.promise, self.promising = value, fit

    def _dual_value(self, fit: WeightedFit) -> float:
        moved = fit.kernel_weights @ fit.quadratics - dual_norm(fit.quadratics, self.options.p_norm)
        return fit.objective + 0.5 * float(moved)

    def _keep_promise(self) -> None:
        if self.refresh is not None and self.promising is not None:
            self.bound = max(self.bound, self._dual_value(self.refresh(self.promising)))
            self.promise, self.promising = -np.inf, None

    def add(self, fit: WeightedFit) -> None:
        """Record an update of the weights."""
        self.see(fit)
        self.objectives.append(primal_value(fit))
        self.weights.append(fit.kernel_weights)
        if self.on_step is not None:
            gap = self.gap(fit) / max(abs(fit.objective), 1e-300)
            self.on_step(self.n_updates, f"relative duality gap {gap:.1e}")

    def finish(self, fit: WeightedFit) -> None:
        """Take the inner problems, solved in full at the last weights, for those of the last update."""
        self.see(fit)
        self.objectives[-1] = min(self.objectives[-1], primal_value(fit))

    def gap(self, fit: WeightedFit) -> float:
        """Return the duality gap, in standard form, by promises too."""
        return max(primal_value(fit) - max(self.bound, self.promise), 0.0)

    def certified_gap(self, fit: WeightedFit) -> float:
        """Return the duality gap."""
        self._keep_promise()
        if self.refresh is not None and self.gap(fit) > 0.0:
            self.bound = max(self.bound, self._dual_value(self.refresh(fit)))
        return self.gap(fit)

    def is_finished(self, fit: WeightedFit) -> bool:
        """Compare the gap with the primal value: a poor dual one may be far below zero, and large."""
        allowed = self.options.tol * abs(primal_value(fit))
        if self.gap(fit) > allowed:
            return False
        self._keep_promise()
        return self.gap(fit) <= allowed

    def contradicts(self, fit: WeightedFit) -> bool:
        """Return whether weights that cannot be improved come from inner problems that are far from solved."""
        return self.certified_gap(fit) > max(self.options.tol, CERTAIN) * abs(primal_value(fit))

    def result(self, fit: WeightedFit, outcome: Outcome, n_solves: int) -> PrimalMKLResult:
        """Return the fit of the last update with its history."""
        self.see(fit)
        history = self.reg * np.array(self.objectives)
        return PrimalMKLResult(
            result_of(fit, history.tolist(), outcome, n_solves, self.reg * self.certified_gap(fit)),
            np.stack(self.weights),
        )


def primal_value(fit: WeightedFit) -> float:
    """Return the objective of the solutions of `fit`, in standard form."""
    return fit.objective + fit.inner_gap
