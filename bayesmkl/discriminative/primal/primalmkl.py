r"""PrimalMKL: multiple kernel learning in the primal (Hao, Yuan, Yang & Chen 2012).

The problem (eqs. 9 and 10, with the bias inside the loss and the factor one half on both terms), for :math:`p = 1`:

.. math:: \min_{d, \alpha, b} \; F = \tfrac12 \lambda\, \alpha^\top K(d)\, \alpha + \sum_i \ell_i(f_i),
   \qquad f = K(d)\,\alpha + b, \quad K(d) = \sum_m d_m K_m, \quad d \ge 0, \; \|d\|_p \le 1 .

Departures. The paper calls the problem biconvex and proves that limit points are stationary (Proposition 3). In
:math:`d` alone, with the inner problem at its optimum, it is convex, so that a stationary point with canonical
coefficients is a global minimum, and the duality gap certifies it: that gap is the stopping rule of all three schemes
for the weights. "spg" and "closed" solve the inner problem in full at each step; "paper" is Algorithm 1, one step for
it and then Algorithm 4 for the weights, from uniform weights instead of random ones. Any :math:`p \ge 1` takes the
place of the simplex, and tasks may share their weights: their objectives add up.

LapMKL: semi-supervised multiple kernel learning on a graph (Hao et al. 2012, section 4).

Of `n` samples the first `l` have labels; a graph over all of them has the Laplacian :math:`L`. With
:math:`f = \sum_m d_m f_m + b` and the squared hinge loss, eq. (16) is

.. math:: \min_{d \in S, f, b} \; \tfrac12 \Big\{ \gamma_A \sum_m d_m \|f_m\|^2 + \gamma_I \sum_m d_m f_m^\top L f_m
   + \sum_{i \le l} \max(0, 1 - y_i f(x_i))^2 \Big\} .

Two solvers, with :math:`\rho = \gamma_I / \gamma_A`:

* `deform`, exact. For given weights the inner minimum of (16) is attained at
  :math:`\alpha_m = (I + \rho L K_m)^{-1} v`, with one vector :math:`v` that is zero on unlabeled samples. The
  regularizer is then :math:`\tfrac12 \gamma_A v^\top \tilde K v` with
  :math:`\tilde K_m = K_m (I + \rho L K_m)^{-1}`. So (16) is supervised learning on the labeled rows and columns of
  the deformed kernels, convex in `d`.
* `share`, eq. (18). All :math:`f_m = K_m \alpha` share one :math:`\alpha`. With
  :math:`G_m = \gamma_A K_m + \gamma_I K_m L K_m` the best one for slacks :math:`e` is
  :math:`\alpha = G^{-1} K_{\cdot l}\, e`: supervised learning with the kernel
  :math:`K_{l \cdot} G^{-1} K_{\cdot l}`. As :math:`K^\top G^{-1} K` is jointly convex in :math:`(K, G)`, it is at
  most :math:`\tilde K_{ll} / \gamma_A`, so that (18) is never below (16); they agree for one kernel and for
  :math:`\gamma_I = 0`. (18) is not convex in `d`: only a stationary point is found.

Departures from the paper: sums of losses run over labeled samples, and the squared hinge loss is meant in (18); the
weights follow spectral projected gradients of the exactly minimized inner problem in place of alternation, since one
preconditioner for all kernels does not exist (:math:`\sum_m d_m K_m L K_m` is no multiple of :math:`K`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.linalg

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl.discriminative.primal.solve import (
    Direction,
    Gradient,
    PrimalLoss,
    PrimalProblem,
    PrimalState,
    SquaredHinge,
    canonical,
    gradient_at,
    objective,
    state_at,
    take_step,
)
from bayesmkl.discriminative.problems import (
    InnerSolution,
    MKLResult,
    OnStep,
    WeightedFit,
    dual_norm,
    gather,
    lp_weights,
    projection_for,
    result_of,
    silent,
)
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack


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


def solve_all(
    stack: Stack,
    targets: np.ndarray,
    inner: PrimalLoss,
    weights: np.ndarray,
    tol: float,
    starts: tuple[InnerSolution, ...] | None = None,
) -> WeightedFit:
    """Solve the inner problem of every task at `weights`, each from its last solution."""
    return gather(stack, weights, inner.solve_each(stack.combine(weights), targets, tol, starts))


CERTAIN = 1e-6  # relative duality gap up to which rounding, not an unsolved inner problem, may be the reason


class Trace:
    """Objectives after every update, the largest dual value that was met, and the stopping rule."""

    def __init__(self, fit: WeightedFit, reg: float, options: PrimalMKLOptions, on_step: OnStep) -> None:
        self.reg, self.options, self.on_step = reg, options, on_step
        self.bound = -np.inf
        self.see(fit)
        self.objectives = [primal_value(fit)]

    @property
    def n_updates(self) -> int:
        """Number of updates of the weights so far."""
        return len(self.objectives) - 1

    def see(self, fit: WeightedFit) -> None:
        """Take the dual value at the coefficients of `fit`: a bound of the optimum, wherever they come from."""
        moved = fit.kernel_weights @ fit.quadratics - dual_norm(fit.quadratics, self.options.p_norm)
        self.bound = max(self.bound, fit.objective + 0.5 * float(moved))

    def add(self, fit: WeightedFit) -> None:
        """Record an update of the weights."""
        self.see(fit)
        self.objectives.append(primal_value(fit))
        gap = self.gap(fit) / max(abs(fit.objective), 1e-300)
        self.on_step(self.n_updates, f"relative duality gap {gap:.1e}")

    def finish(self, fit: WeightedFit) -> None:
        """Take the inner problems, solved in full at the last weights, for those of the last update."""
        self.see(fit)
        self.objectives[-1] = min(self.objectives[-1], primal_value(fit))

    def gap(self, fit: WeightedFit) -> float:
        """Return the duality gap, in standard form."""
        return max(primal_value(fit) - self.bound, 0.0)

    def is_finished(self, fit: WeightedFit) -> bool:
        """Compare the gap with the primal value: a poor dual one may be far below zero, and large."""
        return self.gap(fit) <= self.options.tol * abs(primal_value(fit))

    def contradicts(self, fit: WeightedFit) -> bool:
        """Return whether weights that cannot be improved come from inner problems that are far from solved."""
        return self.gap(fit) > max(self.options.tol, CERTAIN) * abs(primal_value(fit))

    def result(self, fit: WeightedFit, outcome: Outcome, n_solves: int) -> MKLResult:
        """Return the fit of the last update with its history."""
        self.see(fit)
        history = self.reg * np.array(self.objectives)
        return result_of(fit, history.tolist(), outcome, n_solves, self.reg * self.gap(fit))


def primal_value(fit: WeightedFit) -> float:
    """Return the objective of the solutions of `fit`, in standard form."""
    return fit.objective + fit.inner_gap


WEIGHT_SCHEMES = ("spg", "closed", "paper")
INNER_SHARE = 0.1  # share of the tolerance left to the inner problems
TIGHTER = 1e-2  # inner problems are solved this much better when their errors stop the search for weights
FINEST = 1e-12  # tolerance of the inner problems beyond which there is only rounding
SMALLEST_START = 1e-3  # share of uniform weights in a warm start, as closed-form updates keep zeros
STEEPEST = 1e30  # Lipschitz constant of Algorithm 4 beyond which only rounding is left


def fit_primalmkl(
    stack: Stack,
    targets: np.ndarray,
    inner: PrimalLoss,
    options: PrimalMKLOptions,
    start: np.ndarray | None = None,
    on_step: OnStep = silent,
) -> MKLResult:
    """Learn kernel weights that all tasks share, and one learner per task.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : SquaredHinge, Squared, Huber or OneClass
    options : PrimalMKLOptions
    start : ndarray of shape (n_kernels,), optional
        Weights to begin with; uniform by default.
    on_step : callable, optional
        Takes the number of updates done and a line for people.

    Returns
    -------
    MKLResult
        Its objective never rises from one update to the next.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.primal.solve import SquaredHinge
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> x = np.linspace(-1.0, 1.0, 20)
    >>> stack = DenseStack(np.stack([np.outer(x, x), np.outer(x**2, x**2)]))
    >>> found = fit_primalmkl(stack, np.sign(x)[None], SquaredHinge(0.1), PrimalMKLOptions())
    >>> found.kernel_weights.round(6), found.outcome.name
    (array([1., 0.]), 'CONVERGED')
    """
    uniform = np.full(stack.n_kernels, stack.n_kernels ** (-1.0 / options.p_norm))
    weights = uniform if start is None else (1.0 - SMALLEST_START) * start + SMALLEST_START * uniform
    scheme = {"spg": _by_spg, "closed": _by_closed_form, "paper": _by_algorithm_1}[options.weights]
    return scheme(stack, targets, inner, options, weights, on_step)


# ------------------------------------------------------------------------- inner problems solved at every step


def _by_spg(
    stack: Stack,
    targets: np.ndarray,
    inner: PrimalLoss,
    options: PrimalMKLOptions,
    weights: np.ndarray,
    on_step: OnStep,
) -> MKLResult:
    """Run projected spectral gradients on :math:`J(d)`, with a monotone line search."""
    inner_tol = INNER_SHARE * options.tol
    fit = solve_all(stack, targets, inner, weights, inner_tol)
    trace = Trace(fit, inner.reg, options, on_step)
    n_solves = len(targets)

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray, WeightedFit]:
        nonlocal fit
        fit = solve_all(stack, targets, inner, point, inner_tol, fit.solutions)
        trace.see(fit)
        return fit.objective, -0.5 * fit.quadratics, fit

    while True:
        found = minimize_spg(
            evaluate,
            projection_for(options.p_norm),
            weights,
            SPGOptions(max_iter=options.max_iter - trace.n_updates, tol=0.0, memory=1),
            finished=trace.is_finished,
            on_step=lambda _, __, accepted: trace.add(accepted),
        )
        n_solves += found.n_evaluations * len(targets)
        outcome = found.outcome
        if outcome is Outcome.CONVERGED and trace.contradicts(found.payload):
            outcome = Outcome.NOT_IMPROVING
        blurred = found.payload.inner_gap > INNER_SHARE * options.tol * abs(found.value)
        if outcome is not Outcome.NOT_IMPROVING or not blurred or inner_tol <= FINEST:
            trace.finish(found.payload)
            return trace.result(found.payload, outcome, n_solves)
        inner_tol, weights = TIGHTER * inner_tol, found.point


def _by_closed_form(
    stack: Stack,
    targets: np.ndarray,
    inner: PrimalLoss,
    options: PrimalMKLOptions,
    weights: np.ndarray,
    on_step: OnStep,
) -> MKLResult:
    r"""Alternate inner problems and :math:`d_m \propto \|w_m\|^{2/(p+1)}`: block coordinate descent."""
    fit = solve_all(stack, targets, inner, weights, INNER_SHARE * options.tol)
    trace = Trace(fit, inner.reg, options, on_step)
    while not trace.is_finished(fit) and trace.n_updates < options.max_iter:
        block_norms = fit.kernel_weights * np.sqrt(np.maximum(fit.quadratics, 0.0))
        weights = lp_weights(block_norms, options.p_norm)
        fit = solve_all(stack, targets, inner, weights, INNER_SHARE * options.tol, fit.solutions)
        trace.add(fit)
    outcome = Outcome.CONVERGED if trace.is_finished(fit) else Outcome.MAX_ITER
    return trace.result(fit, outcome, (trace.n_updates + 1) * len(targets))


# ------------------------------------------------------------------------------------------- Algorithm 1


def _by_algorithm_1(
    stack: Stack,
    targets: np.ndarray,
    inner: PrimalLoss,
    options: PrimalMKLOptions,
    weights: np.ndarray,
    on_step: OnStep,
) -> MKLResult:
    """Alternate one step for the inner problems with Algorithm 4 for the weights."""
    problems = [inner.problem(target) for target in targets]
    nothing = np.zeros(stack.n_train)
    states = [state_at(problem, nothing, nothing) for problem in problems]  # line 1
    memories: list[Any] = [None] * len(problems)
    kernel = stack.combine(weights)
    fit, gradients = _certify(stack, kernel, problems, states, weights)
    trace = Trace(fit, inner.reg, options, on_step)
    while trace.n_updates < options.max_iter:
        if trace.is_finished(fit):  # instead of line 6
            final = solve_all(stack, targets, inner, weights, INNER_SHARE * options.tol, fit.solutions)
            if trace.is_finished(final):
                break
        for c, problem in enumerate(problems):  # lines 5 to 10
            memory = _in_new_metric(kernel, memories[c]) if inner.solver == "pcg" else None
            states[c], memories[c] = take_step(kernel, problem, inner.solver, states[c], gradients[c], memory)
        caches = [stack.apply(state.alpha) for state in states]  # line 11
        weights = _update_weights(problems, states, caches, weights, options)  # line 12
        states = [
            state_at(problem, state.alpha, weights @ cache)
            for problem, state, cache in zip(problems, states, caches, strict=True)
        ]
        kernel = stack.combine(weights)  # line 4
        fit, gradients = _certify(stack, kernel, problems, states, weights)
        trace.add(fit)
    else:
        final = solve_all(stack, targets, inner, weights, INNER_SHARE * options.tol, fit.solutions)
    trace.finish(final)
    outcome = Outcome.CONVERGED if trace.is_finished(final) else Outcome.MAX_ITER
    return trace.result(final, outcome, (trace.n_updates + 1) * len(problems))


def _certify(
    stack: Stack,
    kernel: np.ndarray,
    problems: list[PrimalProblem],
    states: list[PrimalState],
    weights: np.ndarray,
) -> tuple[WeightedFit, list[Any]]:
    """Return objective and duality gap of unfinished solutions, from their canonical coefficients."""
    gradients = [gradient_at(kernel, *pair) for pair in zip(problems, states, strict=True)]
    solutions = []
    for problem, state, gradient in zip(problems, states, gradients, strict=True):
        found, _ = canonical(problem, state, gradient)
        solutions.append(found._replace(gap=objective(problem, state) / problem.reg - found.objective))
    return gather(stack, weights, tuple(solutions)), gradients


def _update_weights(
    problems: list[PrimalProblem],
    states: list[PrimalState],
    caches: list[np.ndarray],
    weights: np.ndarray,
    options: PrimalMKLOptions,
) -> np.ndarray:
    r"""Minimize :math:`F(\alpha, b, \cdot)` by Algorithm 4, from the cached :math:`K_m \alpha` of all tasks."""
    reg = problems[0].reg
    penalties = 0.5 * reg * np.sum([c @ s.alpha for c, s in zip(caches, states, strict=True)], axis=0)

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = float(penalties @ point), penalties.copy()
        for problem, state, cache in zip(problems, states, caches, strict=True):
            scores = point @ cache + state.intercept
            value += problem.loss.value(scores)
            gradient += cache @ problem.loss.slopes(scores)
        return value, gradient

    return minimize_nesterov(function, options.p_norm, weights, INNER_SHARE * options.tol)


def _in_new_metric(kernel: np.ndarray, memory: tuple[Gradient, Direction] | None) -> Any:
    """Give the last direction of conjugate gradients its product with the kernel of the new weights."""
    if memory is None:
        return None
    gradient, direction = memory
    return gradient, direction._replace(product=kernel @ direction.alpha)


def minimize_nesterov(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    p_norm: float,
    start: np.ndarray,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> np.ndarray:
    r"""Minimize a convex function of kernel weights by Nesterov's method (Algorithm 4).

    Departures from the printed algorithm: a duality gap decides when to stop, not an absolute change of the weights;
    the majorization of line 13 is tested at the projected point, where it has to hold, not at the point before
    projection; the last point is returned; and the momentum starts again whenever the function would rise, so that it
    never does.

    Parameters
    ----------
    function : callable
        Takes a point, also outside the set, and returns value and gradient.
    p_norm : float
        The set: the simplex for 1, else :math:`\|d\|_p \le 1, d \ge 0`.
    start : ndarray
        A point of the set.
    tol : float
        Stop when the gap, :math:`\max_{d'} \nabla f(d)^\top (d - d')` over the set, is at most this share of the
        value.
    max_iter : int

    Returns
    -------
    ndarray
        Where the function is not larger than at `start`.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([0.8, 0.4])
    >>> square = lambda x: (0.5 * (x - target) @ (x - target), x - target)
    >>> minimize_nesterov(square, 1.0, np.array([0.5, 0.5]))
    array([0.7, 0.3])
    """
    project = projection_for(p_norm)
    point = previous = start
    value, _ = function(start)
    old_momentum, momentum, lipschitz = 0.0, 1.0, 1.0  # line 2
    for _ in range(max_iter):
        ahead = point + (old_momentum - 1.0) / momentum * (point - previous)  # line 5
        ahead_value, gradient = function(ahead)
        while True:  # lines 6 to 16
            new = project(ahead - gradient / lipschitz)
            step = new - ahead
            new_value, new_gradient = function(new)
            bound = ahead_value + float(gradient @ step) + 0.5 * lipschitz * float(step @ step)
            if new_value <= bound or lipschitz > STEEPEST:
                break
            lipschitz *= 2.0
        if new_value > value:  # restart from the last point, which guarantees descent
            if np.array_equal(ahead, point):
                break
            previous, old_momentum, momentum = point, 0.0, 1.0
            continue
        previous, point, value = point, new, new_value
        old_momentum, momentum = momentum, 0.5 + 0.5 * np.sqrt(1.0 + 4.0 * momentum**2)  # line 17
        gap = float(new_gradient @ new) + dual_norm(-new_gradient, p_norm)
        if gap <= tol * abs(new_value) or lipschitz > STEEPEST:  # instead of line 9
            break
    return point


Model = TypeVar("Model", "Deformed", "Shared")
INNER_TOL = 1e-9
# Added to G(d) in units of its mean diagonal: it is singular where K(d) is. The larger ones for kernels that are
# positive semidefinite up to rounding only.
RIDGES = (1e-10, 1e-8, 1e-6)


class LapMKLOptions(NamedTuple):
    r"""Optimization of the weights.

    Parameters
    ----------
    p_norm : float
        Weights lie on the simplex for 1, and in the ball :math:`\|d\|_p \le 1` otherwise.
    tol : float
        Stop when the duality gap of (16), or the decrease of (18) that its gradient promises over the whole set of
        weights, is at most this share of the objective.
    max_iter : int
    """

    p_norm: float = 1.0
    tol: float = 1e-3
    max_iter: int = 200


class Graph(NamedTuple):
    r"""Labeled samples, graph over all samples, and its regularization.

    Parameters
    ----------
    laplacian : ndarray or sparse array of shape (n_samples, n_samples)
    labeled : ndarray of shape (n_labeled,)
        Positions of the labeled samples.
    gamma_ambient, gamma_intrinsic : float
        :math:`\gamma_A > 0` and :math:`\gamma_I \ge 0`.
    """

    laplacian: Any
    labeled: np.ndarray
    gamma_ambient: float
    gamma_intrinsic: float


Solutions = tuple[InnerSolution, ...]  # one per task, over the labeled samples


class Evaluation(NamedTuple):
    """The objective at given kernel weights, minimized over everything else."""

    kernel_weights: np.ndarray  # (n_kernels,)
    objective: float
    gradient: np.ndarray  # (n_kernels,)
    inner_gap: float
    solutions: Solutions


def fit_lapmkl(
    model: Model,
    targets: np.ndarray,
    options: LapMKLOptions,
    start: np.ndarray | None = None,
    on_step: OnStep = silent,
) -> MKLResult:
    r"""Learn kernel weights and the coefficients of all samples.

    Parameters
    ----------
    model : Deformed or Shared
        Eq. (16) by `deform`, or eq. (18) by `share`.
    targets : ndarray of shape (n_tasks, n_labeled)
        Labels -1 and +1.
    options : LapMKLOptions
    start : ndarray of shape (n_kernels,), optional
        Kernel weights; uniform by default.
    on_step : callable, optional
        Takes the number of iterations and a status.

    Returns
    -------
    MKLResult
        `signed_dual` holds the coefficients: one :math:`\alpha_m` per kernel for (16), of shape (n_tasks, n_kernels,
        n_samples), and :math:`\alpha` of shape (n_tasks, n_samples) for (18), which has no `duality_gap` (NaN).
    """
    project, p_norm = projection_for(options.p_norm), options.p_norm
    first = project(np.full(model.n_kernels, model.n_kernels ** (-1.0 / p_norm)) if start is None else start)
    at = opening = model.evaluate(first, targets)
    scale, n_evaluations = max(opening.objective, np.finfo(float).tiny), 1

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray, Evaluation]:
        nonlocal at, n_evaluations
        if np.array_equal(point, first):
            at = opening
        else:
            at, n_evaluations = model.evaluate(point, targets, at.solutions), n_evaluations + 1
        return at.objective / scale, at.gradient / scale, at

    def note(n_done: int, _: float, accepted: Evaluation) -> None:
        on_step(n_done, f"gap {_gap(accepted, p_norm):.1e}")

    found = minimize_spg(
        evaluate,
        project,
        first,
        SPGOptions(max_iter=options.max_iter, tol=0.0),
        finished=lambda accepted: _gap(accepted, p_norm) <= options.tol * accepted.objective,
        on_step=note,
    )
    best: Evaluation = found.payload
    return MKLResult(
        kernel_weights=best.kernel_weights,
        signed_dual=model.coefficients(best),
        intercept=np.array([solution.intercept for solution in best.solutions]),
        objective_history=scale * np.array(found.history),
        duality_gap=_gap(best, p_norm) if isinstance(model, Deformed) else np.nan,
        outcome=found.outcome,
        n_solves=len(targets) * n_evaluations,
    )


def _gap(at: Evaluation, p_norm: float) -> float:
    return first_order_gap(at.kernel_weights, at.gradient, p_norm) + at.inner_gap


def first_order_gap(kernel_weights: np.ndarray, gradient: np.ndarray, p_norm: float) -> float:
    """Return the largest decrease that the gradient promises over all weights; for convex (16) the duality gap."""
    reach = dual_norm(-gradient, p_norm)
    return float(gradient @ kernel_weights) + (reach if p_norm == 1.0 else max(reach, 0.0))


# ------------------------------------------------------------------------------------- eq. (16): deformed kernels


class Deformed(NamedTuple):
    """Eq. (16) as supervised learning on the labeled part of the deformed kernels."""

    stack: DenseStack  # K~_m at labeled rows and columns, (n_kernels, n_labeled, n_labeled)
    propagators: np.ndarray  # labeled columns of (I + rho L K_m)^-1, (n_kernels, n_samples, n_labeled)
    gamma_ambient: float

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.stack.n_kernels

    def evaluate(
        self, kernel_weights: np.ndarray, targets: np.ndarray, starts: Solutions | None = None
    ) -> Evaluation:
        """Solve the inner problems; in standard form they are (16) divided by gamma_A."""
        gamma = self.gamma_ambient
        solutions = SquaredHinge(gamma).solve_each(
            self.stack.combine(kernel_weights), targets, INNER_TOL, starts
        )
        fit = gather(self.stack, kernel_weights, solutions)
        return Evaluation(
            kernel_weights,
            gamma * fit.objective,
            -0.5 * gamma * fit.quadratics,
            gamma * fit.inner_gap,
            fit.solutions,
        )

    def coefficients(self, at: Evaluation) -> np.ndarray:
        """Return alpha_m = (I + rho L K_m)^-1 v, shape (n_tasks, n_kernels, n_samples)."""
        return np.stack([self.propagators @ solution.signed_dual for solution in at.solutions])


def deform(stack: Stack, graph: Graph) -> Deformed:
    """Deform all kernels by the graph, one LU factorization each.

    Parameters
    ----------
    stack : Stack
        Kernels among all samples, (n_kernels, n_samples, n_samples).
    graph : Graph
    """
    ratio = graph.gamma_intrinsic / graph.gamma_ambient
    selected = np.eye(stack.n_train)[:, graph.labeled]
    propagators = np.empty((stack.n_kernels, *selected.shape))
    deformed = np.empty((stack.n_kernels, len(graph.labeled), len(graph.labeled)))
    for m, kernel in enumerate(stack.each()):
        system = ratio * (graph.laplacian @ kernel)
        system.flat[:: stack.n_train + 1] += 1.0
        propagators[m] = scipy.linalg.lu_solve(scipy.linalg.lu_factor(system, overwrite_a=True), selected)
        block = kernel[graph.labeled] @ propagators[m]
        deformed[m] = 0.5 * (block + block.T)
    return Deformed(DenseStack(deformed), propagators, graph.gamma_ambient)


# ---------------------------------------------------------------------------------- eq. (18): shared coefficients


class Shared(NamedTuple):
    """Eq. (18) as supervised learning with one kernel that depends on the weights."""

    stack: Stack  # K_m, (n_kernels, n_samples, n_samples)
    rows: Stack  # K_m at rows of the labeled samples, (n_kernels, n_labeled, n_samples)
    penalties: Stack  # K_m + rho K_m L K_m, (n_kernels, n_samples, n_samples)
    graph: Graph

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.stack.n_kernels

    def evaluate(
        self, kernel_weights: np.ndarray, targets: np.ndarray, starts: Solutions | None = None
    ) -> Evaluation:
        """Minimize over (alpha, b); the gradient is the partial derivative of (18) there."""
        effective, factor, half = self._effective_kernel(kernel_weights)
        solutions = SquaredHinge(1.0).solve_each(effective, targets, INNER_TOL, starts)
        alphas = [self._expand(factor, half, solution) for solution in solutions]
        laplacian, labeled, ambient, intrinsic = self.graph
        gradient = np.zeros(self.n_kernels)
        for solution, alpha, parts in zip(solutions, alphas, _products(self.stack, alphas), strict=True):
            # 1/2 alpha' G_m alpha + sum_i (f_i - y_i) (K_m alpha)_i at margin errors, whose dual is y_i - f_i
            edges = np.einsum("mi,im->m", parts, laplacian @ parts.T)
            gradient += 0.5 * (ambient * (parts @ alpha) + intrinsic * edges)
            gradient -= parts[:, labeled] @ solution.signed_dual
        objective = sum(solution.objective for solution in solutions)
        inner_gap = sum(solution.gap for solution in solutions)
        return Evaluation(kernel_weights, objective, gradient, inner_gap, solutions)

    def coefficients(self, at: Evaluation) -> np.ndarray:
        """Return alpha = G^-1 K_l' e, shape (n_tasks, n_samples)."""
        _, factor, half = self._effective_kernel(at.kernel_weights)
        return np.stack([self._expand(factor, half, solution) for solution in at.solutions])

    def _effective_kernel(self, kernel_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return K_l G^-1 K_l', the factor C of G / gamma_A = C C', and C^-1 K_l'."""
        rows = self.rows.combine(kernel_weights)
        factor = _factor(self.penalties.combine(kernel_weights))
        half = scipy.linalg.solve_triangular(factor, rows.T, lower=True, check_finite=False)
        return half.T @ half / self.graph.gamma_ambient, factor, half

    def _expand(self, factor: np.ndarray, half: np.ndarray, solution: InnerSolution) -> np.ndarray:
        """Return G^-1 K_l' e."""
        right = half @ solution.signed_dual / self.graph.gamma_ambient
        return scipy.linalg.solve_triangular(factor, right, lower=True, trans="T", check_finite=False)


def share(stack: Stack, graph: Graph) -> Shared:
    """Pose the problem of (18).

    Parameters
    ----------
    stack : Stack
        Kernels among all samples, (n_kernels, n_samples, n_samples).
    graph : Graph
    """
    ratio = graph.gamma_intrinsic / graph.gamma_ambient
    penalties = np.empty((stack.n_kernels, stack.n_train, stack.n_train))
    edges = _roughness_of_each(stack, graph.laplacian)
    for penalty, kernel, edge in zip(penalties, stack.each(), edges, strict=True):
        np.add(np.multiply(edge, ratio, out=penalty), kernel, out=penalty)
    rows = DenseStack(np.ascontiguousarray(stack.entries(graph.labeled, np.arange(stack.n_train))))
    return Shared(stack, rows, DenseStack(penalties), graph)


def _roughness_of_each(stack: Stack, laplacian: Any) -> Iterator[np.ndarray]:
    """Yield K_m L K_m, the penalties along edges."""
    for kernel in stack.each():
        product = kernel @ (laplacian @ kernel)
        yield 0.5 * (product + product.T)


def _products(stack: Stack, vectors: list[np.ndarray]) -> list[np.ndarray]:
    """Return the products of all kernels with each vector, (n_kernels, n_samples)."""
    if len(vectors) == 1:
        return [stack.apply(vectors[0])]
    return list(np.moveaxis(stack.apply(np.stack(vectors, axis=1)), -1, 0))


def _factor(regularizer: np.ndarray) -> np.ndarray:
    """Return the lower factor of G with the smallest ridge that makes it positive definite; it takes G's place.

    LAPACK wants columns first, and overwrites the lower triangle of what it sees: the upper one of G, which is
    symmetric, so that the lower one is left for the next ridge.
    """
    diagonal = regularizer.diagonal().copy()
    for ridge in RIDGES:
        regularizer.flat[:: len(diagonal) + 1] = diagonal + ridge * diagonal.mean()
        with contextlib.suppress(np.linalg.LinAlgError):
            return scipy.linalg.cho_factor(regularizer.T, lower=True, overwrite_a=True, check_finite=False)[0]
        upper = np.triu_indices(len(diagonal), 1)
        regularizer[upper] = regularizer.T[upper]
    raise ValueError(
        'The combined kernel is zero or not positive semidefinite, which `solver="paper"` needs. '
        'Use `indefinite="clip"`, or `solver="deformed"`.'
    )
