r"""LapMKL: semi-supervised multiple kernel learning on a graph (Hao et al. 2012, section 4).

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

from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl.discriminative.primal.solve import SquaredHinge
from bayesmkl.discriminative.problems import InnerSolution, MKLResult, dual_norm, gather, projection_for
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

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
    on_step: Callable[[int, str], None] | None = None,
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
        if on_step is not None:
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
