r"""Repeated solves of the same SVMs at changing kernel weights, at the cost of what changed.

Methods that optimize kernel weights ask for :math:`J(d)` and its gradient :math:`-\tfrac12 S_m` at dozens of weights.
With many kernels, solving the SVMs is the small part of that: passes over all kernels cost more. Remembered from one
weight vector to the next are

* the last two combined kernels: :math:`K(d + sD) = K(d) + s K(D)`, so that only kernels whose weight moved are read,
  and none on a line through two known points;
* the kernels between support vectors: :math:`S_m = v^\top K_m v` needs no other entries;
* :math:`S_m` of kernels without weight that are far from getting one: they are looked at every few solutions;
* the tolerance of the inner solver, which is loose far from the optimum and follows the outer gap from there.

Cutting planes below :math:`J` on the simplex, where gradients cannot go on.

Every feasible dual gives :math:`J(d) \ge \ell - \tfrac12 d^\top S` for all :math:`d`, with :math:`\ell` its linear
part, and so the minimum over the simplex of the largest of some such planes, a linear program, bounds that of
:math:`J` (Kelley 1960). Where :math:`J` has a kink, that of one dual alone says little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas
from scipy.optimize import linprog

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl.discriminative.problems import InnerProblem, OnStep, WeightedFit, outer_gap, silent
from bayesmkl.kernels.stacks.base import Stack

ROUNDING = 1e-14  # weights that differ by less, relative to the largest, are the same
LARGEST_ERROR = 1e5  # of a combined kernel that was not summed afresh, relative to one that was
LARGEST_SHARE = 0.6  # of the samples: with more support vectors little is gained by copying their kernels
LARGEST_WASTE = 1.5  # samples that were met, per support vector
LARGEST_COPY = 0.7  # of the samples that were met: their kernels take half of the memory of all
EARLY, AGE = 3, 20  # all kernels are looked at in the first calls, then in every twentieth
NEAR = 0.8  # of the largest quadratic: kernels above may soon get a weight


class _Known(NamedTuple):
    """A combined kernel, or the share of one in a sum."""

    weights: np.ndarray
    kernel: np.ndarray
    error: float  # bound of its rounding errors, in units of rounding and of the entries of a kernel


class _Plan(NamedTuple):
    """A way to combine: a sum of known kernels, and the weights that are still missing then."""

    known: list[tuple[float, np.ndarray]]
    missing: np.ndarray
    error: float


class MovingCombination:
    """``stack.combine`` of weights that differ little, or lie on one line, from call to call."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._last: list[_Known] = []  # two of them
        self._spare = np.empty((stack.n_rows, stack.n_train))  # memory of an older one

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """Return the combined kernel; it must not be written to, and is overwritten three calls later."""
        if self._last and np.array_equal(weights, self._last[-1].weights):
            return self._last[-1].kernel
        largest = LARGEST_ERROR * np.abs(weights).sum()
        plans = [plan for plan in self._plans(weights) if plan.error <= largest]
        plan = min(plans, key=lambda plan: np.count_nonzero(plan.missing))
        kernel = self._carry_out(plan)
        self._spare = self._last[0].kernel if len(self._last) == 2 else np.empty_like(kernel)
        self._last = [*self._last[-1:], _Known(weights.copy(), kernel, plan.error)]
        return kernel

    def _plans(self, weights: np.ndarray) -> list[_Plan]:
        fresh = float(np.abs(weights).sum())
        plans = [_Plan([], weights, fresh)]
        plans += [_Plan([(1.0, k.kernel)], weights - k.weights, k.error + fresh) for k in self._last]
        if len(self._last) == 2:
            first, second = self._last
            direction = second.weights - first.weights
            s = _position(weights - first.weights, direction)
            known = [(1.0 - s, first.kernel), (s, second.kernel)]
            error = abs(1.0 - s) * first.error + abs(s) * second.error + fresh
            plans.append(_Plan(known, weights - first.weights - s * direction, error))
        small = ROUNDING * np.abs(weights).max()
        return [p._replace(missing=np.where(np.abs(p.missing) <= small, 0.0, p.missing)) for p in plans]

    def _carry_out(self, plan: _Plan) -> np.ndarray:
        moved, known = np.flatnonzero(plan.missing), plan.known
        if 2 * moved.size > plan.missing.size:
            kernel, moved = self._stack.combine(plan.missing), moved[:0]
        elif known:
            kernel, known = np.multiply(known[0][1], known[0][0], out=self._spare), known[1:]
        else:
            kernel = self._spare
            kernel.fill(0.0)
        for factor, other in known:
            _add_to(kernel, factor, other)
        # one pass over each of them; selecting them for `combine` would copy them first
        for m, other in zip(moved, self._stack.each(moved), strict=True):
            _add_to(kernel, plan.missing[m], other)
        return kernel


def _add_to(kernel: np.ndarray, factor: float, other: np.ndarray) -> None:
    """Add ``factor * other`` to `kernel` in place, without a temporary array."""
    blas.daxpy(other.reshape(-1), kernel.reshape(-1), a=factor)


def _position(move: np.ndarray, direction: np.ndarray) -> float:
    """Return the position on a line on which most weights agree; a few may have left it."""
    moving = direction != 0.0
    return float(np.median(move[moving] / direction[moving])) if moving.any() else 0.0


class SupportQuadratics:
    """``stack.quadratic`` of sparse vectors, from copies of the kernels between their support vectors.

    Support vectors are met in groups; each holds its rows of the kernels, up to and including its own columns. Of a
    symmetric kernel that is all, and a new support vector costs only its own row.
    """

    def __init__(self, stack: Stack, kernels: np.ndarray | None = None) -> None:
        self._stack, self._kernels = stack, kernels  # positions, or None for all
        self._n_kernels = stack.n_kernels if kernels is None else kernels.size
        self._met = np.zeros(0, dtype=np.intp)
        self._groups: list[tuple[int, np.ndarray]] = []  # number of samples met before, rows of them

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``sum_c vectors[c] @ K_m @ vectors[c]`` for vectors of shape (n_tasks, n_train)."""
        support = np.flatnonzero(vectors.any(axis=0))
        if support.size > LARGEST_SHARE * self._stack.n_train:
            return self._frobenius(vectors.T @ vectors)
        self._meet(support)
        known, total = vectors[:, self._met], np.zeros(self._n_kernels)
        for before, rows in self._groups:
            upto = before + rows.shape[1]
            products = known[:, before:upto].T @ known[:, :upto]
            products[:, :before] *= 2.0  # the same entries above the diagonal
            total += rows.reshape(self._n_kernels, -1) @ products.reshape(-1)
        return total

    def _frobenius(self, products: np.ndarray) -> np.ndarray:
        if self._kernels is None:
            return self._stack.frobenius(products)
        return np.array(
            [np.vdot(kernel, products) for kernel in self._stack.each(self._kernels)]
        )  # copies nothing

    def among(self, positions: np.ndarray) -> SupportQuadratics:
        """Return the same for some of all kernels."""
        part = SupportQuadratics(self._stack, positions)
        part._met, part._groups = self._met, [(before, rows[positions]) for before, rows in self._groups]
        return part

    def _meet(self, support: np.ndarray) -> None:
        new = np.setdiff1d(support, self._met)
        most = min(LARGEST_WASTE * support.size, LARGEST_COPY * self._stack.n_train)
        if self._met.size + new.size > most:
            self._met, self._groups, new = self._met[:0], [], support
        if new.size:
            before, self._met = self._met.size, np.concatenate([self._met, new])
            self._groups.append((before, self._stack.entries(new, self._met, self._kernels)))


class ShrinkingQuadratics:
    """Quadratics of all kernels, those that will hardly get a weight from some solutions ago."""

    def __init__(self, stack: Stack) -> None:
        self._everywhere = SupportQuadratics(stack)
        self._somewhere = self._everywhere
        self._active = np.ones(stack.n_kernels, dtype=bool)
        self._last = np.zeros(stack.n_kernels)
        self._n_refreshed = self._age = 0

    def __call__(self, vectors: np.ndarray, kernel_weights: np.ndarray) -> np.ndarray:
        """Return the quadratics, all up to date whose kernel has a weight."""
        self._age += 1
        if self._n_refreshed < EARLY or self._age >= AGE or kernel_weights[~self._active].any():
            return self.refresh(vectors, kernel_weights)
        quadratics = self._last.copy()
        quadratics[self._active] = self._somewhere(vectors)
        return quadratics

    def refresh(self, vectors: np.ndarray, kernel_weights: np.ndarray) -> np.ndarray:
        """Look at all kernels, and choose those to look at next."""
        self._n_refreshed, self._age = self._n_refreshed + 1, 0
        self._last = self._everywhere(vectors)
        self._active = (kernel_weights > 0.0) | (self._last >= NEAR * self._last.max())
        if 2 * np.count_nonzero(self._active) > self._active.size:
            self._active[:] = True
            self._somewhere = self._everywhere
        elif self._n_refreshed >= EARLY:
            self._somewhere = self._everywhere.among(np.flatnonzero(self._active))
        return self._last


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
    stack : Stack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    goal : Goal

    Attributes
    ----------
    n_solves : int
        Inner problems that were solved.
    """

    def __init__(self, stack: Stack, targets: np.ndarray, inner: InnerProblem, goal: Goal) -> None:
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
    on_step: OnStep = silent,
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
    on_step: OnStep = silent,
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
            on_step(len(history) - 1, evaluate.status(at))
        elif length > 1.0:
            length = 1.0
        elif evaluate.tighten():
            at = evaluate(at.kernel_weights)
        else:
            return evaluate.refresh(at), history, Outcome.NOT_IMPROVING
    return evaluate.refresh(at), history, Outcome.CONVERGED


NEARBY = 1e-2, 1e-4  # how far from a kink other duals are looked for, at most and at least
MOST_PLANES, LEAST_RISE = 20, 0.05  # of the bound, relative to what is missing
OF_PLANES = 1e-10  # violations that the solver accepts, the least that it can be asked for


def goal_on_simplex(tol: float) -> Goal:
    """Return :math:`J` as the goal, with the gap of one dual, and the largest relative gap."""
    return Goal(lambda fit: fit.objective, lambda fit: outer_gap(fit, 1.0) - fit.inner_gap, tol)


def certify_by_planes(evaluate: Evaluator) -> Callable[[WeightedFit], bool]:
    """Return what `descend_spectrally` asks on the simplex, where the objective no longer falls."""

    def certify(fit: WeightedFit) -> bool:
        look_around(evaluate, fit)
        return evaluate.is_optimal(fit)

    return certify


def look_around(evaluate: Evaluator, at: WeightedFit) -> WeightedFit:
    r"""Raise the bound, and find a better point, where :math:`J` has a kink: there, one of many duals says little.

    The minimum over the simplex of the largest of their planes bounds that of :math:`J`. Planes are added
    on the way to this minimum, close to the best point, as long as that helps.
    """
    best, bound, reach = evaluate.refresh(at), -np.inf, NEARBY[0]
    planes = [best]
    for _ in range(MOST_PLANES):
        before, (bound, lowest) = bound, lowest_point(planes)
        evaluate.raise_bound(bound)
        missing = best.objective + best.inner_gap - bound
        if missing <= evaluate.goal.tol * abs(best.objective):
            break
        new = evaluate.refresh(evaluate((1.0 - reach) * best.kernel_weights + reach * lowest))
        planes.append(new)
        if new.objective < best.objective:
            best = new
        elif bound - before < LEAST_RISE * missing:
            reach *= 0.1
        if reach < NEARBY[1]:
            break
    return best


def lowest_point(planes: Sequence[WeightedFit]) -> tuple[float, np.ndarray]:
    """Minimize the largest of some planes over the simplex; return a lower bound of the minimum, and the weights.

    Parameters
    ----------
    planes : sequence of WeightedFit
        Inner solutions with the quadratics of all kernels up to date.

    Examples
    --------
    Two planes that are 1 at one kernel and 0 at the other meet halfway:

    >>> import numpy as np
    >>> weights = np.array([0.5, 0.5])
    >>> bound, lowest = lowest_point([WeightedFit(weights, 0.5, np.array(s), ()) for s in ([0.0, 2.0], [2.0, 0.0])])
    >>> round(bound, 6), lowest.round(6)
    (0.5, array([0.5, 0.5]))
    """
    slopes = -0.5 * np.stack([fit.quadratics for fit in planes])
    offsets = np.array([fit.objective + 0.5 * fit.kernel_weights @ fit.quadratics for fit in planes])
    unit = float(np.abs(offsets).max()) or 1.0  # the tolerances of the solver are absolute
    n_kernels = slopes.shape[1]
    found = linprog(
        np.r_[np.zeros(n_kernels), 1.0],  # the weights, and the height above which all planes lie
        A_ub=np.hstack([slopes / unit, -np.ones((len(planes), 1))]),
        b_ub=-offsets / unit,
        A_eq=np.r_[np.ones(n_kernels), 0.0][None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n_kernels + [(None, None)],
        options={"primal_feasibility_tolerance": OF_PLANES, "dual_feasibility_tolerance": OF_PLANES},
    )
    shares = np.maximum(-found.ineqlin.marginals, 0.0)
    shares /= shares.sum()  # any mean of the planes is a bound, also with the rounding of the solver
    return float(shares @ offsets + (shares @ slopes).min()), project_simplex(found.x[:-1])
