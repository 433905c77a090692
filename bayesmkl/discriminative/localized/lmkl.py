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
on first. Beside it there are quasi-Newton steps (the default) and spectral ones. Gradients are of all samples, as in
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
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.gating import Gating, KernelGating, PenalizedGating
from bayesmkl.discriminative.inner import InnerProblem, InnerSolution
from bayesmkl.discriminative.localized.comparison import Comparison, local_weights_help
from bayesmkl.discriminative.localized.descent import SOLVERS, Descent, descend
from bayesmkl.discriminative.localized.fixed_gating import FixedGating, equal_gates
from bayesmkl.discriminative.localized.voters import VoterOptions, Voters, fit_voters, gated_vote
from bayesmkl.discriminative.svm.by_columns import localized_kernel, takes_columns
from bayesmkl.discriminative.svm.one_kernel import NOT_HELD, OneKernel
from bayesmkl.kernels.stacks.base import StoredStack, SymmetricStack
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = [
    "SOLVERS",
    "GatedFit",
    "LMKLOptions",
    "LMKLResult",
    "add_voters",
    "fit_at_gates",
    "fit_lmkl",
    "gate_slopes",
    "gates_at",
    "predict_lmkl",
]

OPEN = 1e-9  # relative: shares of 1/P up to rounding are no smaller


class LMKLOptions(NamedTuple):
    """Optimizer, number of starts, and stopping rule.

    Parameters
    ----------
    solver : {"lbfgs", "armijo", "paper"}
        Quasi-Newton steps of SciPy's L-BFGS-B; gradient steps of Barzilai and Borwein's length that go back until
        Armijo's condition holds; or the original's: a unit step along the gradient, doubled while the objective
        falls, or else halved until it does, and on until it pays more than `tol`.
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
    gating : Gating
    parameters : ndarray of shape (n_parameters,)
        Of the gating; NaN where equal gates were kept.
    gates : ndarray of shape (n_kernels, n_train)
    signed_dual : ndarray of shape (n_train,)
    intercept : float
    inner_gap : float
        Duality gap of the SVM at the end.
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

    gating: Gating | KernelGating
    parameters: np.ndarray
    gates: np.ndarray
    signed_dual: np.ndarray
    intercept: float
    inner_gap: float
    objective_history: np.ndarray
    start_objectives: np.ndarray
    outcome: Outcome
    n_solves: int
    voters: Voters | None = None

    @property
    def is_local(self) -> bool:
        """Return whether the gates are the gating's, and not equal ones that were kept."""
        return not np.isnan(self.parameters).any()


class GatedFit(NamedTuple):
    """The SVM at given parameters, with the gradient of its optimal value, both with the penalty of the gating."""

    parameters: np.ndarray
    gates: np.ndarray
    solution: InnerSolution
    objective: float
    gradient: np.ndarray


def fit_lmkl(
    stack: SymmetricStack,
    target: np.ndarray,
    gate_features: np.ndarray,
    inner: InnerProblem,
    gating: Gating,
    options: LMKLOptions = LMKLOptions(),  # noqa: B008
    *,
    rng: np.random.Generator,
    others: Sequence[Gating] = (),
    comparison: Comparison | None = None,
    on_step: Callable[[int, str], None] | None = None,
) -> LMKLResult:
    """Learn gates and SVM together.

    Parameters
    ----------
    stack : SymmetricStack
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
    >>> from bayesmkl.discriminative.localized.gatings import SoftmaxGating
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> rng = np.random.default_rng(0)
    >>> a, b, side = rng.normal(size=(3, 80))
    >>> target = np.where(np.where(side > 0, a, b) > 0, 1.0, -1.0)
    >>> stack = DenseStack(np.stack([np.outer(a, a), np.outer(b, b)]))
    >>> result = fit_lmkl(stack, target, side[:, None], Hinge(1.0), SoftmaxGating(), rng=rng)
    >>> scores = predict_lmkl(result, stack, side[:, None])
    >>> bool(np.mean(np.sign(scores) == target) > 0.95)
    True
    >>> bool(result.gates[0, side > 1].min() > 0.9), bool(result.gates[0, side < -1].max() < 0.1)
    (True, True)
    """
    kinds = (gating, *others)
    if comparison is None:
        return _learn(stack, target, gate_features, inner, kinds, options, rng, on_step)
    helps, n_parameters, n_solves = _compare(stack, target, gate_features, inner, kinds, options, comparison)
    if helps:
        result = _learn(stack, target, gate_features, inner, kinds, options, rng, on_step)
    else:
        result = _keep_equal(stack, target, inner, options, n_parameters)
    return result._replace(n_solves=n_solves + result.n_solves)


def _learn(
    stack: SymmetricStack,
    target: np.ndarray,
    gate_features: np.ndarray,
    inner: InnerProblem,
    kinds: Sequence[Gating],
    options: LMKLOptions,
    rng: np.random.Generator,
    on_step: Callable[[int, str], None] | None = None,
) -> LMKLResult:
    """Descend from every start and keep the lowest end."""
    descents: list[tuple[Descent, Gating]] = []
    n_starts, n_solves = options.n_init * len(kinds), 0
    for start in range(n_starts):
        gating = kinds[start % len(kinds)]
        evaluate = _Evaluator(stack, target, gate_features, inner, gating, options.inner_tol)
        first = evaluate(gating.init(gate_features, stack.n_kernels, rng))
        report = _reporter(on_step, sum(len(done.history) - 1 for done, _ in descents), start, n_starts)
        descents.append(
            (descend(evaluate, first, options.solver, options.tol, options.max_iter, report), gating)
        )
        n_solves += evaluate.n_solves
    best, gating = min(descents, key=lambda pair: pair[0].end.objective)
    end: GatedFit = best.end
    # SVMs of a fixed accuracy hide what is lower by less than their gap
    blind = takes_columns(inner) and end.solution.gap > options.tol * abs(end.objective)
    settled = best.outcome is Outcome.NOT_IMPROVING and blind
    return LMKLResult(
        gating=gating,
        parameters=end.parameters,
        gates=end.gates,
        signed_dual=end.solution.signed_dual,
        intercept=end.solution.intercept,
        inner_gap=end.solution.gap,
        objective_history=np.array(best.history),
        start_objectives=np.array([descent.end.objective for descent, _ in descents]),
        outcome=Outcome.CONVERGED if settled else best.outcome,
        n_solves=n_solves,
    )


def _compare(
    stack: SymmetricStack,
    target: np.ndarray,
    gate_features: np.ndarray,
    inner: InnerProblem,
    kinds: Sequence[Gating],
    options: LMKLOptions,
    comparison: Comparison,
) -> tuple[bool, int, int]:
    r"""Compare gates with equal ones, :math:`1/\sqrt P`, whose kernel is the mean of all kernels.

    Returns whether gates help, their number of parameters, and the number of SVMs trained.
    """
    n_parameters = n_solves = 0

    def score_both(
        square: DenseStack, rows: DenseStack, train: np.ndarray, validated: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        nonlocal n_parameters, n_solves
        learned = _learn(square, target[train], gate_features[train], inner, kinds, options, comparison.rng)
        n_parameters = learned.parameters.size
        equal = _keep_equal(square, target[train], inner, options, n_parameters)
        n_solves += learned.n_solves + equal.n_solves
        of_equal, of_learned = (
            predict_lmkl(result, rows, gate_features[validated]) for result in (equal, learned)
        )
        return of_equal, of_learned

    helps = local_weights_help(comparison, stack, target, score_both)
    return helps, n_parameters, n_solves


def _keep_equal(
    stack: SymmetricStack, target: np.ndarray, inner: InnerProblem, options: LMKLOptions, n_parameters: int
) -> LMKLResult:
    """Train the SVM on the mean of the kernels."""
    gating = equal_gates(stack.n_kernels)
    gates = gating.gates(np.zeros(0), target[:, None])
    result = fit_at_gates(stack, target, inner, gating, gates, options)
    return result._replace(parameters=np.full(n_parameters, np.nan))


def fit_at_gates(
    stack: SymmetricStack,
    target: np.ndarray,
    inner: InnerProblem,
    gating: Gating | KernelGating,
    gates: np.ndarray,
    options: LMKLOptions = LMKLOptions(),  # noqa: B008
) -> LMKLResult:
    """Train the SVM at gates that were found before.

    Parameters
    ----------
    stack : SymmetricStack
        Training kernels.
    target : ndarray of shape (n_train,)
    inner : InnerProblem
    gating : Gating or KernelGating
        Where the gates come from; only passed on.
    gates : ndarray of shape (n_kernels, n_train)
    options : LMKLOptions
    """
    given, none = FixedGating(lambda _: gates.T), np.zeros((len(target), 0))
    fit = _Evaluator(stack, target, none, inner, given, options.inner_tol)(np.zeros(0))
    return LMKLResult(
        gating=gating,
        parameters=np.zeros(0),
        gates=fit.gates,
        signed_dual=fit.solution.signed_dual,
        intercept=fit.solution.intercept,
        inner_gap=fit.solution.gap,
        objective_history=np.array([fit.objective]),
        start_objectives=np.array([fit.objective]),
        outcome=Outcome.CONVERGED,
        n_solves=1,
    )


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
    voters = fit_voters(kernels, target, shares, selected, VoterOptions(C=C, tol=tol))
    return result._replace(voters=voters, n_solves=result.n_solves + voters.n_solves)


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


def gates_at(result: LMKLResult, stack: StoredStack, gate_features: np.ndarray | None) -> np.ndarray:
    """Return the gates at rows, (n_kernels, n_rows), for `predict_lmkl`'s arguments."""
    if isinstance(result.gating, KernelGating):
        return result.gating.values(gate_features, stack)
    features = np.zeros((stack.n_rows, 0)) if gate_features is None else gate_features
    return result.gating.gates(result.parameters, features)


def predict_lmkl(result: LMKLResult, stack: StoredStack, gate_features: np.ndarray | None) -> np.ndarray:
    r"""Return the scores :math:`\sum_m \eta_m(x) \sum_i v_i \eta_m(x_i) K_m(x_i, x) + b`, or the vote.

    Parameters
    ----------
    result : LMKLResult
    stack : StoredStack
        Kernels between rows and training samples.
    gate_features : ndarray of shape (n_rows, n_features) or None
        None for gates that are no functions of features.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    gates = gates_at(result, stack, gate_features)
    if result.voters is not None:
        matrices = list(stack.each())
        return gated_vote([NOT_HELD] * len(gates), result.voters.svms, matrices, shares_of(gates))
    products = stack.apply((result.gates * result.signed_dual)[..., None])
    return (gates * products).sum(axis=0) + result.intercept


def gate_slopes(stack: SymmetricStack, gates: np.ndarray, signed_dual: np.ndarray) -> np.ndarray:
    r"""Return :math:`\partial J / \partial \eta_m(x_i) = -v_i [K_m (v \circ \eta_m)]_i`, shape (n_kernels, n_train).

    Parameters
    ----------
    stack : SymmetricStack
        Symmetric kernels.
    gates : ndarray of shape (n_kernels, n_train)
    signed_dual : ndarray of shape (n_train,)
    """
    gated = (gates * signed_dual)[..., None]
    support = np.flatnonzero(signed_dual)
    slopes = np.zeros_like(gates)
    slopes[:, support] = -signed_dual[support] * stack.apply_rows(support, gated)
    return slopes


class _Evaluator:
    """Train the SVM at one parameter array after the other."""

    def __init__(
        self,
        stack: SymmetricStack,
        target: np.ndarray,
        gate_features: np.ndarray,
        inner: InnerProblem,
        gating: Gating,
        inner_tol: float,
    ) -> None:
        self.n_solves = 0
        self._stack, self._target, self._features = stack, target, gate_features
        self._inner, self._gating = inner, gating
        self._tol = inner_tol * (float(target.std()) or 1.0)

    def __call__(self, parameters: np.ndarray, enough: float = np.inf) -> GatedFit:
        """Return the fit; where its objective is at least `enough`, only a bound of it and no gradient (NaN)."""
        gates = self._gating.gates(parameters, self._features)
        penalty, by_parameters = 0.0, np.zeros(parameters.shape)
        if isinstance(self._gating, PenalizedGating):
            penalty, by_parameters = self._gating.penalize(parameters, self._features.shape[1])
        kernel = localized_kernel(self._stack, gates[None], self._inner)  # lines 2 and 3
        limits = {"enough": enough - penalty} if takes_columns(self._inner) else {}
        solution = self._inner.solve(kernel, self._target, self._tol, **limits)  # line 4
        self.n_solves += 1
        objective = solution.objective + penalty
        if objective >= enough:
            return GatedFit(parameters, gates, solution, objective, np.full(parameters.shape, np.nan))
        slopes = gate_slopes(self._stack, gates, solution.signed_dual)
        gradient = self._gating.pullback(parameters, self._features, slopes) + by_parameters
        return GatedFit(parameters, gates, solution, objective, gradient)


def _reporter(
    on_step: Callable[[int, str], None] | None, n_before: int, start: int, n_init: int
) -> Callable[[int, GatedFit], None]:
    """Return the arguments of `on_step` for a step."""

    def report(n_done: int, at: GatedFit) -> None:
        if on_step is not None:
            support = np.count_nonzero(at.solution.signed_dual)
            on_step(
                n_before + n_done,
                f"start {start + 1} of {n_init}, objective {at.objective:.6g}, {support} support vectors",
            )

    return report
