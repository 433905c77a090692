"""Sums or products of kernels with any regularizer of their weights (GMKL)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl._numerics.spectral_gradient import spectral_step
from bayesmkl._utils.validation import shown
from bayesmkl.discriminative.problems import InnerProblem, MKLResult, WeightedFit, result_of, silent
from bayesmkl.discriminative.svm.evaluator import (
    Evaluator,
    Goal,
    MovingCombination,
    descend_spectrally,
    signed_duals,
)
from bayesmkl.discriminative.weights import OnStep, Start, Training, WeightRule, one_of
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

REGULARIZERS = ("l1", "uniform")
INNER_SHARE = 0.02  # share of the gap left to the SVMs
SUFFICIENT = 1e-4  # Armijo's share of the predicted decrease
SHORTEST = 1e-12  # relative to the first step, where a line search gives up

Regularizer = Callable[[np.ndarray], Any]


def _check_regularizer(name: str, regularizer: Any) -> Any:
    is_name = isinstance(regularizer, str) and regularizer in REGULARIZERS
    if not is_name and (not callable(regularizer) or isinstance(regularizer, type)):
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, REGULARIZERS))}, or a function that takes "
            f"kernel weights and returns a value and its gradient; got {shown(regularizer)}."
        )
    return regularizer


@dataclass(eq=False, repr=False)
class GMKL(WeightRule):
    r"""Generalized multiple kernel learning: sums or products of kernels, any regularizer (Varma and Babu 2009).

    .. math:: \min_{d \ge 0} \; T(d) = J(d) + r(d), \qquad
       K(d) = \sum_m d_m K_m \quad\text{or}\quad K(d) = K_1^{d_1} \circ \dots \circ K_P^{d_P}

    Parameters
    ----------
    regularizer : {"l1", "uniform"} or callable, default="l1"
        "l1" is :math:`\sum_m d_m`. "uniform" is :math:`\tfrac12 \|d - 1/P\|^2` with weights on the simplex, which
        Wang et al. (2014) compare with. A callable takes weights of shape (n_kernels,) and returns :math:`r(d)` and
        its gradient; both must be finite for all :math:`d \ge 0`.
    combination : {"sum", "product"}, default="sum"
        How kernels are combined. A product needs kernels whose entries are positive.
    solver : {"spg", "pg"}, default="spg"
        Spectral projected gradients (Jain, Vishwanathan and Varma 2012), or projected gradients with a monotone line
        search (Varma and Babu 2009).
    tol : float, default=1e-3
        Largest duality gap, or measure of stationarity where there is none, relative to the objective.
    max_iter : int, default=1000
        Maximum number of updates of the kernel weights.

    Notes
    -----
    with :math:`J` the optimal value of the SVM on :math:`K(d)` and powers entry by entry, so that a product of
    Gaussian kernels of single features is one Gaussian kernel with a width for each of them. Its gradient is
    :math:`\nabla r_m - \tfrac12 v^\top \frac{\partial K}{\partial d_m} v`, where :math:`\partial K / \partial d_m` is
    :math:`K_m` or :math:`\log K_m \circ K(d)`. Two ways down: projected gradients with a line search, as in the
    paper, and spectral projected gradients (Jain, Vishwanathan and Varma 2012, SPG-GMKL).

    Regularizers: :math:`\sum_m d_m` (Varma and Babu); :math:`\tfrac12 \|d - 1/P\|^2` on the simplex, the one that
    Wang et al. (2014) compare with; or any function. For sums both of the first two make the problem convex and have
    a dual value, hence a duality gap: with :math:`\ell = J + \tfrac12 d^\top S` the linear part of the SVM's dual,

    .. math:: \ell \min\big(1, \sqrt{2 / \max_m S_m}\big) \qquad\text{and}\qquad
       \ell + \min_{d' \in \Delta} \tfrac12 \big(\|d' - 1/P\|^2 - d'^\top S\big) .

    Otherwise the loop stops at a stationary point: :math:`\sum_m d_m |\nabla_m T| - \|d\|_1 \min(0, \min_m \nabla_m
    T)` small. Products are not convex in `d`, and the point that is found depends on the start.

    Departures: every line search starts at the spectral length; inner tolerances follow the gap (both papers have
    rules of their own).

    Examples
    --------
    >>> from bayesmkl.discriminative import GMKL, MKLRegressor
    >>> MKLRegressor(weights=GMKL(combination="product"))
    MKLRegressor(weights=GMKL(combination='product'))
    """

    CHECKS: ClassVar = {
        "regularizer": _check_regularizer,
        "combination": one_of("sum", "product"),
        "solver": one_of("spg", "pg"),
    }

    regularizer: str | Regularizer = "l1"
    combination: str = "sum"
    solver: str = "spg"
    tol: float = 1e-3
    max_iter: int = 1000

    @property
    def is_sum(self) -> bool:
        """Whether kernels are added up."""
        return self.combination == "sum"

    def check_kernels(self, stack: Stack, names: np.ndarray, fitting: bool) -> None:
        """Raise for entries of which a product cannot be taken: below zero, and zeros among training samples."""
        if self.is_sum:
            return
        refused = [kernel <= 0.0 if fitting else kernel < 0.0 for kernel in stack.each()]
        found = np.flatnonzero([entries.any() for entries in refused])
        if found.size:
            m = found[0]
            (kernel,) = stack.each([m])
            more = f", and {found.size - 1} more kernels" if found.size > 1 else ""
            raise ValueError(
                f'`combination="product"` needs kernels with {"positive" if fitting else "nonnegative"} entries: '
                f"kernel {names[m]!r} has {np.count_nonzero(refused[m])} others, down to {kernel.min():.3g}{more}. "
                'Use Gaussian or Laplacian kernels, wider ones if they underflow to zero, or `combination="sum"`.'
            )

    def combine(self, stack: Stack, kernel_weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum, or the product of powers."""
        return (super().combine if self.is_sum else combine_product)(stack, kernel_weights)

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Minimize :math:`T` over nonnegative weights, over the simplex with the regularizer "uniform"."""
        stack = training.stack
        regularize, project, gap = _parts(self)

        def gradient(fit: WeightedFit) -> np.ndarray:
            return regularize(fit.kernel_weights)[1] - 0.5 * fit.quadratics

        def objective(fit: WeightedFit) -> float:
            return fit.objective + regularize(fit.kernel_weights)[0]

        goal = Goal(
            objective,
            lambda fit: gap(fit, objective(fit), gradient(fit)),
            self.tol,
            INNER_SHARE,
            certified=isinstance(self.regularizer, str) and self.combination == "sum",
            gradient=gradient,
        )
        evaluator = Evaluator if self.combination == "sum" else _ProductEvaluator
        evaluate = evaluator(stack, targets, svm, goal)
        weights = project(np.full(stack.n_kernels, 1.0 / stack.n_kernels) if start is None else start)
        descend = descend_spectrally if self.solver == "spg" else _descend
        fit, history, outcome = descend(evaluate, project, weights, self.max_iter, on_step)
        duality_gap = evaluate.gap(fit) if goal.certified else np.nan
        return result_of(fit, history, outcome, evaluate.n_solves, duality_gap)


# ------------------------------------------------------------------------------------------------ regularizers


def _parts(
    rule: GMKL,
) -> tuple[Regularizer, Callable[[np.ndarray], np.ndarray], Callable[..., float]]:
    """Return value and gradient, projection on the feasible weights, and gap without the inner one."""
    convex = rule.combination == "sum"
    if rule.regularizer == "l1":
        return _l1, _nonnegative, _gap_l1 if convex else _stationarity
    if rule.regularizer == "uniform":
        return _uniform, project_simplex, _gap_uniform if convex else _stationarity_on_simplex
    return _checked(rule.regularizer), _nonnegative, _stationarity


def _nonnegative(weights: np.ndarray) -> np.ndarray:
    return np.maximum(weights, 0.0)


def _l1(weights: np.ndarray) -> tuple[float, np.ndarray]:
    return float(weights.sum()), np.ones_like(weights)


def _uniform(weights: np.ndarray) -> tuple[float, np.ndarray]:
    difference = weights - 1.0 / weights.size
    return 0.5 * float(difference @ difference), difference


def _checked(regularizer: Any) -> Regularizer:
    """Check that a regularizer returns a number and a gradient."""

    def regularize(weights: np.ndarray) -> tuple[float, np.ndarray]:
        returned = regularizer(weights.copy())
        try:
            value, gradient = returned
            value, gradient = float(value), np.asarray(gradient, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`regularizer` must return a number and its gradient; got {shown(returned)}."
            ) from error
        if gradient.shape != weights.shape or not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise ValueError(
                "`regularizer` must return a finite value and a finite gradient of shape "
                f"{weights.shape} for kernel weights >= 0; got {value} and a gradient of shape {gradient.shape}"
                f"{'' if np.isfinite(gradient).all() else ' that is not finite'}. "
                "Is it defined where a weight is zero?"
            )
        return value, gradient

    return regularize


def _gap_l1(fit: WeightedFit, objective: float, _: np.ndarray) -> float:
    """Shrink the dual until all of its quadratics are at most 2."""
    linear = _linear_part(fit)
    return objective - linear * min(1.0, float(np.sqrt(2.0 / max(fit.quadratics.max(), 2.0))))


def _gap_uniform(fit: WeightedFit, objective: float, _: np.ndarray) -> float:
    """Return the weights of the dual function: the projection of ``1/P + S/2`` on the simplex."""
    center = np.full(fit.kernel_weights.shape, 1.0 / fit.kernel_weights.size)
    nearest = project_simplex(center + 0.5 * fit.quadratics)
    move = nearest - center
    return objective - _linear_part(fit) - 0.5 * float(move @ move - nearest @ fit.quadratics)


def _linear_part(fit: WeightedFit) -> float:
    return fit.objective + 0.5 * float(fit.kernel_weights @ fit.quadratics)


def _stationarity(fit: WeightedFit, _: float, gradient: np.ndarray) -> float:
    """Return the change of the objective, to first order, by weights that move by their own size."""
    weights = fit.kernel_weights
    return float(weights @ np.abs(gradient) - weights.sum() * min(0.0, float(gradient.min())))


def _stationarity_on_simplex(fit: WeightedFit, _: float, gradient: np.ndarray) -> float:
    """Return the change of the objective, to first order, on the way to the best corner."""
    return float(gradient @ fit.kernel_weights - gradient.min())


# ---------------------------------------------------------------------------------------------------- products


def combine_product(stack: Stack, kernel_weights: np.ndarray) -> np.ndarray:
    """Return the product of powers of the kernels, entry by entry.

    Parameters
    ----------
    stack : Stack
        Of entries at least zero.
    kernel_weights : ndarray of shape (n_kernels,)

    Returns
    -------
    ndarray of shape (n_rows, n_train)

    Examples
    --------
    >>> import numpy as np
    >>> stack = DenseStack(np.array([[[4.0]], [[5.0]], [[0.0]]]))
    >>> combine_product(stack, np.array([0.5, 1.0, 0.0]))
    array([[10.]])
    """
    active = np.flatnonzero(kernel_weights)
    with np.errstate(divide="ignore"):  # of zero: where the Gaussian kernel of a new sample underflows
        logarithms = DenseStack(np.log(stack.select(active).columns(slice(None))))
    return np.exp(logarithms.combine(kernel_weights[active]))


class _ProductEvaluator(Evaluator):
    """Kernel products of GMKL: the logarithms of the kernels add up."""

    def __init__(self, stack: Stack, *rest: Any) -> None:
        super().__init__(stack, *rest)
        self._logarithms = DenseStack(np.log(stack.columns(slice(None))))
        self._combination = MovingCombination(self._logarithms)

    def _kernel(self, kernel_weights: np.ndarray) -> np.ndarray:
        return np.exp(super()._kernel(kernel_weights))

    def _sums(self, fit: WeightedFit, everywhere: bool) -> np.ndarray:
        duals = signed_duals(fit)
        return self._logarithms.frobenius(self._kernel(fit.kernel_weights) * (duals.T @ duals))


# ------------------------------------------------------------------------------------------------ optimization


def _descend(
    evaluate: Evaluator,
    project: Callable[[np.ndarray], np.ndarray],
    weights: np.ndarray,
    max_iter: int,
    on_step: OnStep = silent,
) -> tuple[WeightedFit, list[float], Outcome]:
    """Run projected gradients (Varma and Babu 2009, algorithm 1): the objective falls in every step."""
    at = evaluate.refresh(evaluate(weights))
    history = [evaluate.upper(at)]
    step = 1.0 / max(
        float(np.abs(project(weights - evaluate.goal.gradient(at)) - weights).max()), np.finfo(float).tiny
    )
    while not evaluate.is_optimal(at):
        if len(history) > max_iter:
            return at, history, Outcome.MAX_ITER
        new = _search(evaluate, at, project, step)
        if new is not None:
            before, at = at, evaluate.refresh(evaluate.complete(new))
            move = at.kernel_weights - before.kernel_weights
            step = spectral_step(move, evaluate.goal.gradient(at) - evaluate.goal.gradient(before))
            history.append(evaluate.upper(at))
            on_step(len(history) - 1, evaluate.status(at))
        elif evaluate.tighten():
            at = evaluate.refresh(evaluate(at.kernel_weights))
        else:
            return at, history, Outcome.NOT_IMPROVING
    return at, history, Outcome.CONVERGED


def _search(
    evaluate: Evaluator,
    at: WeightedFit,
    project: Callable[[np.ndarray], np.ndarray],
    longest: float,
) -> WeightedFit | None:
    """Halve the step until the objective falls sufficiently (Armijo, along the projection)."""
    value, gradient, step = evaluate.upper(at), evaluate.goal.gradient(at), longest
    while step > SHORTEST * longest:
        weights = project(at.kernel_weights - step * gradient)
        predicted = float(gradient @ (at.kernel_weights - weights))
        new = evaluate.value(weights)
        if 0.0 < SUFFICIENT * predicted <= value - evaluate.upper(new):
            return new
        step *= 0.5
    return None
