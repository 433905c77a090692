r"""Sparse kernel learners with few basis samples, for several kernels (Keerthi, Chapelle & DeCoste 2006).

The scores use the kernel columns of a set `J` of samples only, the loss counts all samples:

.. math:: \min_{d, J, \beta, b} \; \tfrac12 \lambda\, \beta^\top K_{JJ}(d)\, \beta + \sum_i \ell_i(f_i),
   \qquad f = K_{\cdot J}(d)\, \beta + b, \quad |J| \le \text{max\_basis} .

In the features :math:`Z = K_{\cdot J} L^{-\top}` with :math:`K_{JJ} = L L^\top` the first term is
:math:`\tfrac12 \lambda \|\gamma\|^2`, and a new basis sample adds one column to :math:`Z`. Samples enter greedily.

Departures. The paper only names the method. Keerthi et al. score 59 random candidates by a search along their kernel
column; here all samples are scored, by the decrease that a Newton step of all coefficients promises, which needs no
random numbers. All kernels share :math:`\beta`, so that this problem, unlike the one over all samples, is not convex
in the weights and has no duality gap. A basis is selected at fixed weights, then the weights follow the gradient of
the objective at its best coefficients to a stationary point; a second basis is selected at these weights mixed with
uniform ones (a kernel without weight would not affect the selection), and so on while the objective falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.spectral_gradient import SPGOptions, SPGResult, minimize_spg
from bayesmkl.discriminative.outer import MKLResult, dual_norm, projection_for
from bayesmkl.discriminative.primal.primalmkl import OnStep, PrimalMKLOptions
from bayesmkl.discriminative.primal.solve import PrimalLoss, PrimalProblem, exact_step, intercept_shift
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

ROUNDS = 5  # most selections of a basis
MIXED = 0.1  # share of uniform weights while a basis is selected
DEPENDENT = 1e-8  # squared length outside the span of the basis, relative to the largest, that is rounding
EXACT = 1e-10  # largest derivative of a solved learner, relative to that of the losses
MAX_NEWTON = 100
RIDGE = 1e-10  # relative to the largest self-similarity: other weights may make the basis dependent


class BasisSVM(NamedTuple):
    """One learner: basis (n_basis,), `L`, features (n_samples, n_basis), coefficients, intercept, objective."""

    basis: np.ndarray
    lower: np.ndarray
    features: np.ndarray
    coef: np.ndarray
    intercept: float
    objective: float

    @property
    def scores(self) -> np.ndarray:
        """Return the scores of all training samples."""
        return self.features @ self.coef + self.intercept

    @property
    def beta(self) -> np.ndarray:
        """Return the coefficients of the kernel columns, (n_basis,)."""
        return scipy.linalg.solve_triangular(self.lower, self.coef, lower=True, trans="T")


class BasisMKLResult(NamedTuple):
    """Weights and solutions, the weights after every update, and the basis samples of every task."""

    result: MKLResult
    weights_history: np.ndarray
    basis: tuple[np.ndarray, ...]


class _Reduced(NamedTuple):
    """Solutions at given weights, their objective, and the first-order decrease that is left, relative to it."""

    kernel_weights: np.ndarray
    svms: tuple[BasisSVM, ...]
    objective: float
    slack: float


def fit_basis_mkl(
    stack: Stack,
    targets: np.ndarray,
    inner: PrimalLoss,
    options: PrimalMKLOptions,
    max_basis: int,
    start: np.ndarray | None = None,
    on_step: OnStep = None,
) -> BasisMKLResult:
    """Select a basis for every task and learn the kernel weights that all tasks share, in turns.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : SquaredHinge, Squared, Huber or OneClass
        Loss and regularization.
    options : PrimalMKLOptions
        The tolerance is the first-order decrease that is left, relative to the objective.
    max_basis : int
    start : ndarray of shape (n_kernels,), optional
        Weights to begin with; uniform by default.
    on_step : callable, optional
        Takes the number of updates done and a line for people.

    Returns
    -------
    BasisMKLResult
        Its objective never rises.
    """
    problems = [inner.problem(target) for target in targets]
    uniform = np.full(stack.n_kernels, stack.n_kernels ** (-1.0 / options.p_norm))
    weights = uniform if start is None else MIXED * uniform + (1.0 - MIXED) * start
    visited: list[_Reduced] = []  # the last one is the best
    n_solves = 0
    for _ in range(ROUNDS):
        kernel = stack.combine(weights)
        svms = tuple(grow(kernel, problem, _empty(problem), max_basis) for problem in problems)
        steps: list[_Reduced] = []
        found = _search_weights(stack, problems, svms, weights, options, steps.append)
        n_solves += found.n_evaluations * len(problems)
        if visited and found.value > (1.0 - options.tol) * visited[-1].objective:
            break
        outcome = found.outcome
        visited = [*visited, found.payload] if visited else steps or [found.payload]
        if on_step is not None:
            on_step(len(visited), f"objective {found.value:.6g}")
        weights = MIXED * uniform + (1.0 - MIXED) * found.payload.kernel_weights
    return _collect(visited, outcome, n_solves, stack.n_train)


def grow(kernel: np.ndarray, problem: PrimalProblem, svm: BasisSVM, size: int) -> BasisSVM:
    """Add basis samples to a learner until it has `size` of them, or none helps."""
    rest = kernel - svm.features @ svm.features.T  # the part that the basis does not span
    smallest = DEPENDENT * float(kernel.diagonal().max())
    while svm.basis.size < size:
        depth = rest.diagonal()
        gain = np.where(depth > smallest, _gains(problem, svm, rest), 0.0)
        best, n_basis = int(np.argmax(gain)), svm.basis.size
        if gain[best] <= 0.0:
            break
        feature = rest[:, best] / np.sqrt(depth[best])
        rest -= np.outer(feature, feature)
        grown = svm._replace(
            basis=np.append(svm.basis, best),
            lower=np.block([[svm.lower, np.zeros((n_basis, 1))], [svm.features[best], feature[best]]]),
            features=np.column_stack([svm.features, feature]),
            coef=np.append(svm.coef, 0.0),
        )
        svm = solve_in_features(problem, grown)
    return svm


def _gains(problem: PrimalProblem, svm: BasisSVM, rest: np.ndarray) -> np.ndarray:
    r"""Return the decrease that a Newton step of all coefficients promises for every candidate, (n_samples,).

    With :math:`R` the kernel outside the basis and :math:`h_j` the curvature of candidate `j` that the others leave,

    .. math:: \tfrac12 \Big(\sum_i \ell_i' R_{ij}\Big)^2 \Big/ \Big(\lambda R_{jj} + h_j\Big), \qquad
       h_j = R_{sj}^\top R_{sj} - R_{sj}^\top \tilde Z_s (\tilde Z_s^\top \tilde Z_s + \lambda \tilde I)^{-1}
       \tilde Z_s^\top R_{sj},

    :math:`\tilde Z` being the features and a constant, which is not penalized. Exact for the squared loss.
    """
    curved = problem.loss.curved(svm.scores)
    pull = problem.loss.slopes(svm.scores) @ rest
    active, known = rest[curved], np.column_stack([svm.features[curved], np.ones(curved.sum())])
    bend = np.square(active).sum(axis=0)
    if len(active):
        gram = known.T @ known
        gram[np.diag_indices(svm.coef.size)] += problem.reg
        overlap = known.T @ active
        bend -= (overlap * scipy.linalg.solve(gram, overlap, assume_a="pos")).sum(axis=0)
    floor = np.finfo(np.float64).tiny
    return 0.5 * pull**2 / np.maximum(problem.reg * rest.diagonal() + np.maximum(bend, 0.0), floor)


def solve_in_features(problem: PrimalProblem, svm: BasisSVM) -> BasisSVM:
    """Minimize over the coefficients of the features and the intercept by Newton's method with exact steps."""
    loss, reg, Z = problem.loss, problem.reg, svm.features
    coef, total = svm.coef, problem.reg * problem.total
    scores = Z @ coef
    intercept = intercept_shift(loss, scores, total)
    for _ in range(MAX_NEWTON):
        slopes = loss.slopes(scores + intercept)
        gradient = reg * coef + slopes @ Z
        if np.abs(gradient).max(initial=0.0) <= EXACT * np.abs(slopes).max() * np.abs(Z).sum():
            break
        active = Z[loss.curved(scores + intercept)]
        center = active.mean(axis=0) if len(active) else np.zeros_like(coef)
        hessian = (active - center).T @ (active - center) + reg * np.eye(coef.size)
        direction = -scipy.linalg.solve(hessian, gradient, assume_a="pos")
        change = Z @ direction
        shift = -float(center @ direction)
        linear = reg * float(coef @ direction) + total * shift
        step = exact_step(
            loss, scores + intercept, change + shift, linear, reg * float(direction @ direction)
        )
        if step == 0.0:
            break
        coef, scores = coef + step * direction, scores + step * change
        intercept = intercept_shift(loss, scores, total)
    value = 0.5 * reg * float(coef @ coef) + total * intercept + loss.value(scores + intercept)
    return svm._replace(coef=coef, intercept=intercept, objective=value)


def _collect(visited: list[_Reduced], outcome: Outcome, n_solves: int, n_samples: int) -> BasisMKLResult:
    best = visited[-1]
    signed_dual = np.zeros((len(best.svms), n_samples))
    for row, svm in zip(signed_dual, best.svms, strict=True):
        row[svm.basis] = svm.beta
    result = MKLResult(
        kernel_weights=best.kernel_weights,
        signed_dual=signed_dual,
        intercept=np.array([svm.intercept for svm in best.svms]),
        objective_history=np.array([reduced.objective for reduced in visited]),
        duality_gap=np.nan,
        outcome=outcome,
        n_solves=n_solves,
    )
    weights_history = np.stack([reduced.kernel_weights for reduced in visited])
    return BasisMKLResult(result, weights_history, tuple(np.sort(svm.basis) for svm in best.svms))


def _empty(problem: PrimalProblem) -> BasisSVM:
    n_samples = problem.loss.target.size
    nothing = BasisSVM(
        np.zeros(0, dtype=int), np.zeros((0, 0)), np.zeros((n_samples, 0)), np.zeros(0), 0.0, 0.0
    )
    return solve_in_features(problem, nothing)


def _search_weights(
    stack: Stack,
    problems: list[PrimalProblem],
    svms: tuple[BasisSVM, ...],
    weights: np.ndarray,
    options: PrimalMKLOptions,
    record: Callable[[_Reduced], None],
) -> SPGResult:
    """Lower the objective over the weights, with the basis fixed."""
    columns = [DenseStack(np.ascontiguousarray(stack.columns(svm.basis))) for svm in svms]
    latest = svms

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray, _Reduced]:
        nonlocal latest
        latest = tuple(
            solve_in_features(problem, _at_weights(part.combine(point), svm))
            for problem, part, svm in zip(problems, columns, latest, strict=True)
        )
        gradient = np.sum(
            [_weight_gradient(*each) for each in zip(problems, columns, latest, strict=True)], axis=0
        )
        value = sum(svm.objective for svm in latest)
        slack = dual_norm(np.maximum(-gradient, 0.0), options.p_norm) + float(point @ gradient)
        return value, gradient, _Reduced(point, latest, value, slack / max(abs(value), 1e-300))

    return minimize_spg(
        evaluate,
        projection_for(options.p_norm),
        weights,
        SPGOptions(max_iter=options.max_iter, tol=0.0, memory=1),
        finished=lambda reduced: reduced.slack <= options.tol,
        on_step=lambda _, __, reduced: record(reduced),
    )


def _at_weights(columns: np.ndarray, svm: BasisSVM) -> BasisSVM:
    """Express the learner in the features of another kernel, given by its basis columns (n_samples, n_basis)."""
    if not len(svm.basis):  # no sample lowers the objective: an intercept is all there is
        return svm
    block = columns[svm.basis]
    block = block + RIDGE * float(block.diagonal().max()) * np.eye(len(block))
    lower = np.linalg.cholesky(block)
    features = scipy.linalg.solve_triangular(lower, columns.T, lower=True).T
    return svm._replace(lower=lower, features=features, coef=lower.T @ svm.beta)


def _weight_gradient(problem: PrimalProblem, columns: Stack, svm: BasisSVM) -> np.ndarray:
    r"""Return :math:`\tfrac12\lambda\, \beta^\top K_{m,JJ} \beta + \ell'^\top K_{m,\cdot J}\beta` of every kernel."""
    scores = columns.apply(svm.beta)  # of every kernel alone
    penalty = scores[:, svm.basis] @ svm.beta
    return 0.5 * problem.reg * penalty + scores @ problem.loss.slopes(svm.scores)
