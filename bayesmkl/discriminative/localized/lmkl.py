r"""Localized multiple kernel learning (Gönen and Alpaydın 2008, 2013).

Every kernel has a gate, a function of the sample that is learned together with an SVM:

.. math:: f(x) = \sum_m \eta_m(x) \langle w_m, \phi_m(x) \rangle + b, \qquad
   K_\eta(x, z) = \sum_m \eta_m(x) K_m(x, z) \, \eta_m(z) .

For gates with parameters :math:`V` the SVM on :math:`K_\eta` has an optimal value :math:`J(V)` and a signed dual
:math:`v`. There only the kernel depends on the parameters, so that

.. math:: \frac{\partial J}{\partial \eta_m(x_i)} = -v_i \, [K_m (v \circ \eta_m)]_i ,

which the gating carries on to :math:`V`. These are the published double sums, at a cost of one product per kernel.
:math:`J` is not convex: what is found is a point that descent from the start leads to.

Line numbers are those of algorithm 1 in Moeller et al. (2016).

Departures: the original sets gates below a threshold to zero while it searches, which makes :math:`J` jump; here
gates stay as they are. Its line search ends with the first step that pays less than the tolerance; here halving goes
on first. Beside it there are quasi-Newton steps (the default). Gradients are of all samples, as in
the original. With the epsilon-insensitive loss as inner problem this is the regression of 2013. Starts may be of
several kinds. With folds, gates are first compared with equal ones at samples that neither has seen.

References
----------
Gönen, M. and Alpaydın, E. (2008). Localized multiple kernel learning. ICML.

Gönen, M. and Alpaydın, E. (2013). Localized algorithms for multiple kernel learning. Pattern Recognition 46(3).

Moeller, J., Swaminathan, S. and Venkatasubramanian, S. (2016). A unified view of localized kernel learning. SDM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.units import SMALLEST, unit_of
from bayesmkl.discriminative.gating import FixedGating, Gating, equal_gates
from bayesmkl.discriminative.localized.by_success import (
    Folds,
    LDMKLOptions,
    SuccessOptions,
    Voters,
    fit_voters,
    gated_vote,
)
from bayesmkl.discriminative.problems import InnerProblem, InnerSolution, OnStep, silent
from bayesmkl.discriminative.svm.one_kernel import (
    NOT_HELD,
    OneKernel,
    coefficients_of,
    localized_kernel,
    takes_columns,
)
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

CLOSED = 1e-12  # of the largest gated kernel: kernels whose gates leave no more of them are passed over
OPEN = 1e-9  # relative: shares of 1/P up to rounding are no smaller
SOLVERS = ("lbfgs", "paper")
SHORTEST = 1e-3  # the original search tries no shorter move
TRIALS = 10  # of a quasi-Newton step; where as many find nothing better, rounding or noise is in the way

# takes training kernels, kernels of the validation samples and both positions; returns scores of the global model
# and of the local one
ScoreBoth = Callable[[DenseStack, DenseStack, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class LMKLOptions(NamedTuple):
    """Optimizer, number of starts, and stopping rule.

    Parameters
    ----------
    solver : {"lbfgs", "paper"}
        Quasi-Newton steps of SciPy's L-BFGS-B; or the original's: a unit step along the gradient, doubled while the
        objective falls, or else halved until it does, and on until it pays more than `tol`.
    tol : float
        Stop when a step lowers the objective by no more than this fraction of it.
    max_iter : int
        Maximum number of iterations from one start.
    n_init : int
        Random starts of every kind, of which the one that ends lowest is kept.
    inner_tol : float
        Tolerance of the SVMs in standard deviations of the target.
    """

    solver: str = "lbfgs"
    tol: float = 1e-3
    max_iter: int = 100
    n_init: int = 1
    inner_tol: float = 1e-4


class LMKLResult(NamedTuple):
    """Result of a fit.

    Parameters
    ----------
    gating : Gating, or what found the gates before the SVM
    gating_parameters : ndarray of shape (n_parameters,)
        Of the gating; NaN where equal gates were kept.
    gates : ndarray of shape (n_kernels, n_train)
    signed_dual : ndarray of shape (n_train,)
        Of voters, (n_kernels, n_train).
    intercept : float
        Of voters, (n_kernels,).
    duality_gap : float
        Of the SVM at the end.
    objective_history : ndarray of shape (n_iter + 1,)
        :math:`J` at the start that was kept and after each of its steps; it never rises.
    start_objectives : ndarray of shape (n_starts,)
        Result of each start.
    outcome : Outcome
    n_solves : int
        Number of SVMs trained, for all starts.
    voters : Voters or None
        SVMs of the single kernels, where they vote.
    """

    gating: Any
    gating_parameters: np.ndarray
    gates: np.ndarray
    signed_dual: np.ndarray
    intercept: Any
    duality_gap: float
    objective_history: np.ndarray
    start_objectives: np.ndarray
    outcome: Outcome
    n_solves: int
    voters: Voters | None = None

    @property
    def is_local(self) -> bool:
        """Return whether the gates are the gating's, and not equal ones that were kept."""
        return not np.isnan(self.gating_parameters).any()

    def gates_at(self, features: np.ndarray) -> np.ndarray:
        """Return the gates at rows of features, (n_kernels, n_rows)."""
        return self.gating.gates(self.gating_parameters, features)


class Comparison(NamedTuple):
    """Samples to hold out, and how scores are judged.

    Parameters
    ----------
    folds : sequence of (ndarray, ndarray)
        Training and validation positions.
    errors : callable
        Takes targets and scores of the validation samples and returns an error for each.
    rng : Generator
        Draws what fits in the folds draw.
    """

    folds: Folds
    errors: Callable[[np.ndarray, np.ndarray], np.ndarray]
    rng: np.random.Generator


class _Problem(NamedTuple):
    """What gates are learned from."""

    stack: Any  # a Stack, or columns of a bank for an inner problem that takes them
    target: np.ndarray
    features: np.ndarray
    inner: InnerProblem
    options: LMKLOptions


class GatedFit(NamedTuple):
    """The SVM at given parameters, with the gradient of its optimal value."""

    parameters: np.ndarray
    gates: np.ndarray
    solution: InnerSolution
    gradient: np.ndarray

    @property
    def objective(self) -> float:
        """The optimal value."""
        return self.solution.objective


def fit_lmkl(
    stack: Stack,
    target: np.ndarray,
    gate_features: np.ndarray,
    inner: InnerProblem,
    gating: Gating,
    options: LMKLOptions = LMKLOptions(),  # noqa: B008
    *,
    rng: np.random.Generator,
    others: Sequence[Gating] = (),
    comparison: Comparison | None = None,
    on_step: OnStep = silent,
) -> LMKLResult:
    """Learn gates and SVM together.

    Parameters
    ----------
    stack : Stack
        Training kernels; columns of a bank only for an `inner` that is solved from columns.
    target : ndarray of shape (n_train,)
        Labels -1 and +1, or a real target where `inner` takes one.
    gate_features : ndarray of shape (n_train, n_features)
        Features that the gates are functions of.
    inner : InnerProblem
    gating : Gating
    options : LMKLOptions
    rng : Generator
        Draws the starts.
    others : sequence of Gating
        The same gates, started in other ways.
    comparison : Comparison, optional
        Keep equal gates unless gates are better at the validation samples; for problems that take a matrix.
    on_step : callable, optional
        Takes the number of steps done, in all starts, and a line of status.

    Examples
    --------
    Two features, each of which decides on one side of zero of a third:

    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.libsvm import Hinge
    >>> from bayesmkl.discriminative.gating import SoftmaxGating
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> rng = np.random.default_rng(0)
    >>> a, b, side = rng.normal(size=(3, 80))
    >>> target = np.where(np.where(side > 0, a, b) > 0, 1.0, -1.0)
    >>> stack = DenseStack(np.stack([np.outer(a, a), np.outer(b, b)]))
    >>> result = fit_lmkl(stack, target, side[:, None], Hinge(1.0), SoftmaxGating(), rng=rng)
    >>> scores = predict_lmkl(result, stack, result.gates_at(side[:, None]))
    >>> bool(np.mean(np.sign(scores) == target) > 0.95)
    True
    >>> bool(result.gates[0, side > 1].min() > 0.9), bool(result.gates[0, side < -1].max() < 0.1)
    (True, True)
    """
    problem, kinds = _Problem(stack, target, gate_features, inner, options), (gating, *others)
    if comparison is None:
        return _learn(problem, kinds, rng, on_step)
    helps, n_parameters, n_solves = _compare(problem, kinds, comparison)
    result = _learn(problem, kinds, rng, on_step) if helps else _keep_equal(problem, n_parameters)
    return result._replace(n_solves=n_solves + result.n_solves)


def _learn(
    problem: _Problem,
    kinds: Sequence[Gating],
    rng: np.random.Generator,
    on_step: OnStep = silent,
) -> LMKLResult:
    """Descend from every start and keep the lowest end."""
    options, descents, n_solves = problem.options, list[tuple[Descent, Gating]](), 0
    n_starts = options.n_init * len(kinds)
    for start in range(n_starts):
        gating = kinds[start % len(kinds)]
        evaluate = _Evaluator(problem, gating)
        first = evaluate(gating.init(problem.features, problem.stack.n_kernels, rng))
        n_before = sum(len(done.history) - 1 for done, _ in descents)
        report = partial(_report, on_step, n_before, f"start {start + 1} of {n_starts}")
        found = descend(evaluate, first, options.solver, options.tol, options.max_iter, report)
        descents.append((found, gating))
        n_solves += evaluate.n_solves
    best, gating = min(descents, key=lambda pair: pair[0].end.objective)
    ends, outcome = [descent.end.objective for descent, _ in descents], best.outcome
    # SVMs of a fixed accuracy hide what is lower by less than their gap
    blind = takes_columns(problem.inner) and best.end.solution.gap > options.tol * abs(best.end.objective)
    if outcome is Outcome.NOT_IMPROVING and blind:
        outcome = Outcome.CONVERGED
    return _result(gating, best.end, best.history, ends, outcome, n_solves)


def _result(
    gating: Any,
    end: GatedFit,
    history: Sequence[float],
    ends: Sequence[float],
    outcome: Outcome = Outcome.CONVERGED,
    n_solves: int = 1,
) -> LMKLResult:
    dual, intercept, _, gap = end.solution
    values = np.array(history), np.array(ends)
    return LMKLResult(gating, end.parameters, end.gates, dual, intercept, gap, *values, outcome, n_solves)


# ------------------------------------------------------------- comparison with equal gates at held-out samples


def local_weights_help(
    comparison: Comparison, stack: Stack, target: np.ndarray, score_both: ScoreBoth
) -> bool:
    """Return whether local weights lower the errors at held-out samples by more than one standard error.

    Parameters
    ----------
    comparison : Comparison
    stack : Stack
        Training kernels.
    target : ndarray of shape (n_train,)
    score_both : callable
        Fits both models in a fold; see `ScoreBoth`.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([-1.0, 1.0, -1.0, 1.0])
    >>> halves = [(np.array([0, 1]), np.array([2, 3])), (np.array([2, 3]), np.array([0, 1]))]
    >>> wrong = Comparison(halves, lambda y, f: (y * f <= 0.0).astype(float), np.random.default_rng(0))
    >>> stack = DenseStack(np.ones((1, 4, 4)))
    >>> local_weights_help(wrong, stack, target, lambda K, K_new, train, new: (-target[new], target[new]))
    True
    >>> local_weights_help(wrong, stack, target, lambda K, K_new, train, new: (target[new], target[new]))
    False
    """
    gains = []
    for train, validated in comparison.folds:
        square, rows = (_cut(stack, part, train) for part in (train, validated))
        scores = score_both(square, rows, train, validated)
        global_errors, local_errors = (comparison.errors(target[validated], f) for f in scores)
        gains.append(global_errors - local_errors)
    gain = np.concatenate(gains)
    return bool(gain.mean() > gain.std() / np.sqrt(gain.size))


def _cut(stack: Stack, rows: np.ndarray, columns: np.ndarray) -> DenseStack:
    """Return some rows and columns of all kernels, in C order, which products need to be fast."""
    kernels = np.empty((stack.n_kernels, len(rows), len(columns)))
    for part, kernel in zip(kernels, stack.each(), strict=True):
        np.take(kernel[rows], columns, axis=1, out=part, mode="clip")  # three times as fast as np.ix_
    return DenseStack(kernels)


def _compare(problem: _Problem, kinds: Sequence[Gating], comparison: Comparison) -> tuple[bool, int, int]:
    r"""Compare gates with equal ones, :math:`1/\sqrt P`, whose kernel is the mean of all kernels.

    Returns whether gates help, their number of parameters, and the number of SVMs trained.
    """
    n_parameters = n_solves = 0

    def score_both(
        square: DenseStack, rows: DenseStack, train: np.ndarray, validated: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        nonlocal n_parameters, n_solves
        part = problem._replace(stack=square, target=problem.target[train], features=problem.features[train])
        learned = _learn(part, kinds, comparison.rng)
        n_parameters = learned.gating_parameters.size
        equal = _keep_equal(part, n_parameters)
        n_solves += learned.n_solves + equal.n_solves
        gates = learned.gates_at(problem.features[validated])
        return predict_lmkl(equal, rows, equal.gates[:, :1]), predict_lmkl(learned, rows, gates)

    helps = local_weights_help(comparison, problem.stack, problem.target, score_both)
    return helps, n_parameters, n_solves


def _keep_equal(problem: _Problem, n_parameters: int) -> LMKLResult:
    """Train the SVM on the mean of the kernels."""
    stack, target = problem.stack, problem.target
    gating = equal_gates(stack.n_kernels)
    gates = gating.gates(np.zeros(0), target[:, None])
    result = fit_at_gates(stack, target, problem.inner, gating, gates, problem.options)
    return result._replace(gating_parameters=np.full(n_parameters, np.nan))


# ------------------------------------------------------------------------- gates found before, votes, predictions


def fit_at_gates(
    stack: Stack,
    target: np.ndarray,
    inner: InnerProblem,
    gating: Any,
    gates: np.ndarray,
    options: LMKLOptions = LMKLOptions(),  # noqa: B008
) -> LMKLResult:
    """Train the SVM at gates that were found before.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    target : ndarray of shape (n_train,)
    inner : InnerProblem
    gating : Gating, or what found the gates
        Where the gates come from; only passed on.
    gates : ndarray of shape (n_kernels, n_train)
    options : LMKLOptions
    """
    problem = _Problem(stack, target, np.zeros((len(target), 0)), inner, options)
    fit = _Evaluator(problem, FixedGating(lambda _: gates.T))(np.zeros(0))
    return _result(gating, fit, [fit.objective], [fit.objective])


def add_voters(
    result: LMKLResult, kernels: Sequence[OneKernel], target: np.ndarray, C: float, tol: float
) -> LMKLResult:
    r"""Train an SVM per kernel where its gate is open, for a vote in place of the SVM on the gated kernel.

    Gates are taken as shares, :math:`\pi_m(x) = \eta_m(x) / \sum_h \eta_h(x)`, and the SVM of kernel `m` sees the
    samples with :math:`\pi_m \ge 1/P`: lines 5 to 7 of LD-MKL (Moeller et al. 2016), at any gates.

    Parameters
    ----------
    result : LMKLResult
    kernels : sequence of OneKernel
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    C : float
    tol : float
        LibSVM's tolerance.
    """
    shares = shares_of(result.gates)
    selected = shares >= (1.0 - OPEN) / len(shares)
    voters = fit_voters(kernels, target, shares, selected, LDMKLOptions(success=SuccessOptions(C=C, tol=tol)))
    duals, intercepts = coefficients_of(voters.svms, len(target))
    n_solves = result.n_solves + voters.n_solves
    return result._replace(voters=voters, signed_dual=duals, intercept=intercepts, n_solves=n_solves)


def shares_of(gates: np.ndarray) -> np.ndarray:
    """Return gates that sum to one at every sample, equal ones where all are zero.

    Examples
    --------
    >>> import numpy as np
    >>> shares_of(np.array([[3.0, 0.0], [1.0, 0.0]]))
    array([[0.75, 0.5 ],
           [0.25, 0.5 ]])
    """
    total = gates.sum(axis=0)
    return np.where(total > 0.0, gates / np.where(total > 0.0, total, 1.0), 1.0 / len(gates))


def predict_lmkl(result: LMKLResult, stack: Stack, gates: np.ndarray) -> np.ndarray:
    r"""Return the scores :math:`\sum_m \eta_m(x) \sum_i v_i \eta_m(x_i) K_m(x_i, x) + b`, or the vote.

    Parameters
    ----------
    result : LMKLResult
    stack : Stack
        Kernels between rows and training samples.
    gates : ndarray of shape (n_kernels, n_rows)
        At the rows.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    if result.voters is not None:
        matrices = list(stack.each())
        return gated_vote([NOT_HELD] * len(gates), result.voters.svms, matrices, shares_of(gates))
    products = stack.apply((result.gates * result.signed_dual)[..., None])
    return (gates * products).sum(axis=0) + result.intercept


def gate_slopes(stack: Stack, gates: np.ndarray, signed_dual: np.ndarray) -> np.ndarray:
    r"""Return :math:`\partial J / \partial \eta_m(x_i) = -v_i [K_m (v \circ \eta_m)]_i`, shape (n_kernels, n_train).

    Parameters
    ----------
    stack : Stack
        Symmetric kernels.
    gates : ndarray of shape (n_kernels, n_train)
    signed_dual : ndarray of shape (n_train,)
    """
    gated = gates * signed_dual
    support, used = np.flatnonzero(signed_dual), np.flatnonzero(gates.any(axis=1))
    slopes = np.zeros_like(gates)
    if isinstance(stack, DenseStack) and len(used) < len(gates):
        for m, kernel in zip(used, stack.each(used), strict=True):
            slopes[m] = -signed_dual * np.vecdot(kernel, gated[m])
    else:
        slopes[:, support] = -signed_dual[support] * stack.apply_rows(support, gated[..., None])
    return slopes


class _Evaluator:
    """Train the SVM at one parameter array after the other."""

    def __init__(self, problem: _Problem, gating: Gating) -> None:
        self.n_solves = 0
        self._stack, self._target, self._features, self._inner, options = problem
        self._gating, self._tol = gating, options.inner_tol * (float(self._target.std()) or 1.0)
        self._diagonal = self._stack.diagonal()

    def __call__(self, parameters: np.ndarray, enough: float = np.inf) -> GatedFit:
        """Return the fit; where its objective is at least `enough`, no gradient (NaN)."""
        gates = self._gating.gates(parameters, self._features)
        left = (gates**2 * self._diagonal).max(axis=1)  # of every kernel; no entry is larger
        acting = np.where((left > CLOSED * left.max())[:, None], gates, 0.0)
        kernel = localized_kernel(self._stack, acting[None], self._inner)  # lines 2 and 3
        solution = self._inner.solve(kernel, self._target, self._tol)  # line 4
        self.n_solves += 1
        if solution.objective >= enough:
            return GatedFit(parameters, gates, solution, np.full(parameters.shape, np.nan))
        slopes = gate_slopes(self._stack, acting, solution.signed_dual)
        return GatedFit(
            parameters, gates, solution, self._gating.pullback(parameters, self._features, slopes)
        )


def _report(on_step: OnStep, n_before: int, start: str, n_done: int, at: GatedFit) -> None:
    support = np.count_nonzero(at.solution.signed_dual)
    on_step(n_before + n_done, f"{start}, objective {at.objective:.6g}, {support} support vectors")


# ----------------------------------------------------------------------------------------------------- descent


Point = Any  # with `parameters`, `objective` and `gradient`


class Descent(NamedTuple):
    """Result of a descent.

    Parameters
    ----------
    end : Point
        The last accepted point, the lowest of them.
    history : list of float
        Objectives of the start and of all accepted points.
    outcome : Outcome
    """

    end: Any
    history: list[float]
    outcome: Outcome


Evaluate = Callable[..., Point]
Accept = Callable[[Point], bool]


def descend(
    evaluate: Evaluate,
    start: Point,
    solver: str,
    tol: float,
    max_iter: int,
    report: Callable[[int, Any], None] = lambda n_done, at: None,
) -> Descent:
    """Take steps down from `start` until one lowers the objective by no more than `tol` times its size.

    A point has `parameters`, `objective` and `gradient`. There are two ways down, which accept only points below the
    last one. "lbfgs": quasi-Newton steps of SciPy's L-BFGS-B, without bounds. "paper": the line search of Gönen and
    Alpaydın (2008), along the gradient by one, further by doubling while the objective falls, or back by halving
    until it does, and on until a move lowers it by more than the tolerance.

    Parameters
    ----------
    evaluate : callable
        Takes parameters, and for "paper" a value from which on a point counts as no lower, so that no more than that
        need be found out; returns a point.
    start : Point
    solver : {"lbfgs", "paper"}
    tol : float
    max_iter : int
        Maximum number of accepted steps.
    report : callable, optional
        Takes the number of steps done and the point that was accepted.

    Returns
    -------
    Descent

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> def evaluate(x, enough=np.inf):
    ...     return SimpleNamespace(parameters=x, objective=1.0 + float(x @ x), gradient=2.0 * x)
    >>> descent = descend(evaluate, evaluate(np.array([3.0, 4.0])), "paper", tol=1e-3, max_iter=20)
    >>> np.round(descent.history, 6), descent.outcome.converged
    (array([26.,  2.,  1.]), True)
    """
    history, end = [start.objective], [start]
    if not start.parameters.size:
        return Descent(start, history, Outcome.CONVERGED)

    def accept(new: Point) -> bool:
        """Record a step; return whether it lowered the objective by no more than the tolerance."""
        history.append(new.objective)
        end[0] = new
        report(len(history) - 1, new)
        return _pays_little(history[-2], history[-1], tol)

    search = _quasi_newton if solver == "lbfgs" else partial(_doubling, tol)
    outcome = search(evaluate, start, max_iter, accept)
    if outcome is Outcome.NOT_IMPROVING and SHORTEST * _steepness(end[0]) <= tol * abs(history[-1]):
        outcome = Outcome.CONVERGED  # a short move did not promise more than the tolerance
    return Descent(end[0], history, outcome)


def _quasi_newton(evaluate: Evaluate, start: Point, max_iter: int, accept: Accept) -> Outcome:
    """Run L-BFGS-B; an iterate is the point evaluated last, unless that lies above the one before."""
    last, lowest, n_accepted, settled = start, start.objective, 0, False
    unit = unit_of(max(abs(start.objective), float(np.abs(start.gradient).max(initial=0.0))))

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal last
        if not np.array_equal(parameters, last.parameters):
            last = evaluate(parameters.copy())
        gradient = last.gradient / unit
        gradient[np.abs(gradient) < SMALLEST] = 0.0  # their squares are, and steps would be divided by them
        return last.objective / unit, gradient

    def callback(intermediate_result: OptimizeResult) -> None:
        nonlocal lowest, n_accepted, settled
        objective(intermediate_result.x)
        if last.objective > lowest:  # its search ended with a warning, or looked again at what is noisy
            raise StopIteration
        lowest, n_accepted, settled = last.objective, n_accepted + 1, accept(last)
        if settled:
            raise StopIteration

    steps = {"maxiter": max_iter, "maxfun": np.iinfo(np.int32).max, "maxls": TRIALS}
    limits = {**steps, "ftol": 0.0, "gtol": 0.0}
    minimize(objective, start.parameters, jac=True, method="L-BFGS-B", callback=callback, options=limits)
    if settled:
        return Outcome.CONVERGED
    return Outcome.MAX_ITER if n_accepted >= max_iter else Outcome.NOT_IMPROVING


def _doubling(tol: float, evaluate: Evaluate, at: Point, max_iter: int, accept: Accept) -> Outcome:
    """Move by one along the gradient, further while the objective falls, and back until a move pays.

    A unit move may cross a valley and end a little lower on its other side. Such a step is accepted, as the last one,
    only if no shorter move lowers the objective by more than the tolerance.
    """
    for _ in range(max_iter):
        if _steepness(at) == 0.0:
            return Outcome.NOT_IMPROVING
        direction, length = -at.gradient / _steepness(at), 1.0
        lowest = _further(evaluate, at, direction)
        while _pays_little(at.objective, lowest.objective, tol) and length >= 2.0 * SHORTEST:
            length *= 0.5
            new = evaluate(at.parameters + length * direction, lowest.objective)
            lowest = new if new.objective < lowest.objective else lowest
        if lowest is at:
            return Outcome.NOT_IMPROVING
        at = lowest
        if accept(at):
            return Outcome.CONVERGED
    return Outcome.MAX_ITER


def _further(evaluate: Evaluate, at: Point, direction: np.ndarray) -> Any:
    """Move by one, and by twice as much as long as the objective falls."""
    origin, length = at.parameters, 1.0
    while (new := evaluate(origin + length * direction, at.objective)).objective < at.objective:
        at, length = new, 2.0 * length
    return at


def _pays_little(before: float, after: float, tol: float) -> bool:
    """Return whether a step lowers the objective by no more than the tolerance."""
    return before - after <= tol * abs(after)


def _steepness(at: Point) -> float:
    return float(np.linalg.norm(at.gradient))
