"""Two stages: kernel weights by a criterion of their own, then one SVM on the combined kernel.

Uniform weights, the best single kernel, alignments with the target, and with the empirical optimal kernel (OBMKL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import solve_nonnegative_qp, solve_simplex_qp
from bayesmkl._utils.typing import Splits
from bayesmkl._utils.validation import check_folds
from bayesmkl.discriminative.folds import Folds, stratified_folds
from bayesmkl.discriminative.problems import InnerProblem, InnerSolution, MKLResult, silent
from bayesmkl.discriminative.svm.libsvm import in_units
from bayesmkl.discriminative.weights import Learned, OnStep, Start, Training, WeightRule, one_of
from bayesmkl.kernels.alignment import (
    entrywise_bounds,
    frobenius_gram,
    frobenius_norms,
    optimal_entries,
    target_products,
)
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

CENTERED = ("align", "alignf")
CONSTANT = 1e-12  # of the mean self-similarity: what rounding leaves of a variance
ALTERNATING = ("aqp", "aqp-paper")
SWINGING = 0.9  # of the change two alternations before: with more, the weights swing
SUPPORT = 1e-8  # of the largest dual: samples below it do not enter (14)


class Selection(NamedTuple):
    """Kernel weights, and the record of their optimization.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
    objective_history : tuple of float
        Of the criterion; empty where it has none that is minimized.
    duality_gap : float
        Of the criterion, NaN where it has none.
    outcome : Outcome
    n_solves : int
        Number of SVMs trained.
    """

    kernel_weights: np.ndarray
    objective_history: tuple[float, ...] = ()
    duality_gap: float = np.nan
    outcome: Outcome = Outcome.CONVERGED
    n_solves: int = 0


def train_selected(
    stack: Stack, targets: np.ndarray, inner: InnerProblem, tol: float, selection: Selection
) -> MKLResult:
    """Train the SVM or classifier of every task with the selected kernel weights.

    Where the criterion has no objective, the history holds that of the SVMs.
    """
    solutions = solve_tasks(stack.combine(selection.kernel_weights), targets, inner, tol)
    history = selection.objective_history or (sum(solution.objective for solution in solutions),)
    return MKLResult(
        kernel_weights=selection.kernel_weights,
        signed_dual=np.stack([solution.signed_dual for solution in solutions]),
        intercept=np.array([solution.intercept for solution in solutions]),
        objective_history=np.array(history),
        duality_gap=selection.duality_gap,
        outcome=selection.outcome,
        n_solves=selection.n_solves + len(solutions),
    )


def solve_tasks(
    kernel: np.ndarray, targets: np.ndarray, inner: InnerProblem, tol: float
) -> tuple[InnerSolution, ...]:
    """Solve the inner problem of every task on one kernel of shape (n_samples, n_samples)."""
    return tuple(inner.solve(kernel, target, tol) for target in targets)


def fold_scores(
    kernel: np.ndarray, targets: np.ndarray, inner: InnerProblem, folds: Folds, tol: float
) -> list[np.ndarray]:
    """Return the scores of the validated samples of every fold, (n_tasks, n_validated), from one kernel.

    A class that is alone among the training samples of a fold always wins.
    """
    found = []
    for train, validated in folds:
        square, rows = kernel[np.ix_(train, train)], kernel[np.ix_(validated, train)]
        found.append(np.stack([_scores(square, target[train], rows, inner, tol) for target in targets]))
    return found


def fold_accuracy(scores: Sequence[np.ndarray], targets: np.ndarray, folds: Folds) -> float:
    """Return the mean over folds of the share of validated samples that `fold_scores` assign to their class."""
    pairs = zip(scores, folds, strict=True)
    return float(np.mean([np.mean(_decide(s) == _decide(targets[:, rows])) for s, (_, rows) in pairs]))


def _scores(
    square: np.ndarray, target: np.ndarray, rows: np.ndarray, inner: InnerProblem, tol: float
) -> np.ndarray:
    if np.all(target == target[0]):
        return np.full(len(rows), target[0])
    svm = inner.solve(square, target, tol)
    return rows @ svm.signed_dual + svm.intercept


def _decide(scores: np.ndarray) -> np.ndarray:
    """Return the side of zero for one task, the task of the highest score for several."""
    return scores[0] > 0.0 if len(scores) == 1 else scores.argmax(axis=0)


def shares(scores: np.ndarray) -> np.ndarray:
    """Return nonnegative scores, negative ones cut to zero, divided by their sum; uniform if nothing is left.

    Examples
    --------
    >>> import numpy as np
    >>> shares(np.array([3.0, 1.0, -1.0])), shares(np.zeros(2))
    (array([0.75, 0.25, 0.  ]), array([0.5, 0.5]))
    """
    positive = np.maximum(scores, 0.0)
    largest = positive.max()
    if not largest > 0.0:
        return np.full(len(scores), 1.0 / len(scores))
    relative = positive / largest
    return relative / relative.sum()


# ------------------------------------------------------------------------------- no criterion, or an accuracy


@dataclass(eq=False, repr=False)
class Uniform(WeightRule):
    r"""Uniform weights: one SVM on the mean of all kernels.

    .. math:: K = \frac{1}{P} \sum_{m=1}^P K_m

    Parameters
    ----------
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions, for numbers in standard deviations of
        the target.

    Notes
    -----
    The rule-based baseline of the field (Gönen and Alpaydın 2011, "RBMKL"). The mean instead of the sum only rescales
    :math:`C`.

    Examples
    --------
    >>> from bayesmkl.discriminative import MKLClassifier, Simple, Uniform
    >>> from sklearn.model_selection import GridSearchCV
    >>> search = GridSearchCV(MKLClassifier(), {"weights": [Uniform(), Simple()]})
    """

    shares_weights: ClassVar = True
    needs_sums_alone: ClassVar = True

    tol: float = 1e-3

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Train one SVM per task on the mean of the kernels."""
        weights = np.full(training.stack.n_kernels, 1.0 / training.stack.n_kernels)
        return train_selected(training.stack, targets, svm, self.tol * training.unit, Selection(weights))


def _check_cv(name: str, value: Any) -> Any:
    check_folds(name, value)
    return value


@dataclass(eq=False, repr=False)
class BestKernel(WeightRule):
    r"""The best single kernel, chosen by cross-validation within the training samples.

    .. math:: m^\star = \arg\max_m \frac{1}{F} \sum_{f=1}^F \operatorname{accuracy}_f(K_m)

    Parameters
    ----------
    cv : int, cross-validation generator or iterable, default=5
        Number of stratified, shuffled folds, or what scikit-learn takes for `cv`.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    random_state : int or None, default=None
        Seed of the folds. None is a fixed seed.

    Notes
    -----
    All kernels use the same folds, and none uses a test sample. Wang et al. (2014) call the method SVM(best). If
    kernels have equal accuracy, the first is taken. Models get `cv_scores_`, the mean accuracy of every kernel.

    Examples
    --------
    >>> from bayesmkl.discriminative import BestKernel, MKLClassifier
    >>> MKLClassifier(weights=BestKernel(cv=3))
    MKLClassifier(weights=BestKernel(cv=3))
    """

    CHECKS: ClassVar = {"cv": _check_cv}
    targets: ClassVar = ("labels",)
    counts_samples: ClassVar = False

    cv: Splits = 5
    tol: float = 1e-3
    random_state: int | None = None

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> Learned:
        """Train on the kernel of highest accuracy in cross-validation."""
        stack, folds = training.stack, stratified_folds(self.cv, self.random_state, targets)
        accuracies = np.array(
            [
                fold_accuracy(fold_scores(kernel, targets, svm, folds, self.tol), targets, folds)
                for kernel in stack.each()
            ]
        )
        weights = np.zeros(stack.n_kernels)
        weights[np.argmax(accuracies)] = 1.0
        selection = Selection(weights, n_solves=stack.n_kernels * len(folds) * len(targets))
        return Learned(train_selected(stack, targets, svm, self.tol, selection), {"cv_scores": accuracies})


# ---------------------------------------------------------------------------------- alignment with the target


@dataclass(eq=False, repr=False)
class Alignment(WeightRule):
    r"""Kernel weights from alignments with the target.

    With the target matrix :math:`T = \frac1C \sum_{c=1}^C y_c y_c^\top` over the tasks that share weights
    (:math:`yy^\top` for one task) and centered kernels :math:`K^c = HKH`:

    * ratio (Qiu and Lane 2009; Wang et al. 2014, eq. 16): :math:`\eta_m \propto \langle K_m, T \rangle / \|K_m\|_F`;
    * convex (He, Chang and Xie 2008; Wang et al. 2014, eq. 17): the minimum over convex combinations of
      :math:`\|\sum_m \eta_m K_m - T\|_F^2`;
    * align (Cortes, Mohri and Rostamizadeh 2012): :math:`\eta_m \propto \langle K_m^c, T \rangle / \|K_m^c\|_F`;
    * alignf (same): the maximum over :math:`\eta \ge 0` of :math:`\langle K_\eta^c, T \rangle / \|K_\eta^c\|_F`, that
      is, :math:`\eta \propto \arg\min_{v \ge 0} v^\top M v - 2 v^\top a` with
      :math:`M_{mh} = \langle K_m^c, K_h^c \rangle` and :math:`a_m = \langle K_m^c, T \rangle`.

    Parameters
    ----------
    method : {"ratio", "convex", "align", "alignf"}, default="alignf"
        "ratio": weights proportional to the alignment of each kernel. "convex": the convex combination nearest
        to the target matrix. "align": proportional to the centered alignment of each kernel. "alignf": the
        conic combination of highest centered alignment.
    tol : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions, for numbers in standard deviations of
        the target.

    Notes
    -----
    Departures: weights sum to one in all four (the paper of align and alignf has length one), so that :math:`C` means
    what it means with uniform weights; a target is divided by its root mean square in `convex`, which changes nothing
    for labels and makes regression targets comparable with kernels of unit diagonal; the SVM sees the kernels
    uncentered.

    With weights :math:`w_i` of the samples, sample `i` stands for :math:`w_i` equal ones: products become
    :math:`\langle K, T \rangle = \sum_{ij} w_i w_j K_{ij} T_{ij}`, and :math:`K^c = HKH^\top` with
    :math:`H = I - 1 w^\top / \sum_i w_i`.

    Centered alignment is blind to the constant part of a kernel: where a model has ``C=None``, `C` is relative to the
    variance of the samples in the feature space of the combined kernel.

    Examples
    --------
    >>> from bayesmkl.discriminative import Alignment, MKLClassifier
    >>> MKLClassifier(weights=Alignment("align"), C=None)
    MKLClassifier(C=None, weights=Alignment(method='align'))
    """

    CHECKS: ClassVar = {"method": one_of("ratio", "convex", "align", "alignf")}
    targets: ClassVar = ("labels", "numbers")
    relative_C: ClassVar = True

    method: str = "alignf"
    tol: float = 1e-3

    @property
    def centered(self) -> bool:
        """Whether alignments are those of centered kernels."""
        return self.method in CENTERED

    centers_target = centered

    def prepare(self, training: Training) -> Training:
        """Add the Frobenius products of (centered) kernels, which quadratic programs need."""
        if self.method not in ("convex", "alignf"):
            return training
        return training._replace(gram=frobenius_gram(training.stack, self.centered, training.weights.counts))

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Align the kernels with the target, then train one SVM per task."""
        stack, weights, gram, unit = training
        selection = select_by_alignment(stack, targets, self.method, gram, weights.counts)
        return train_selected(stack, targets, svm, self.tol * unit, selection)


class InUnitVariance(NamedTuple):
    """An SVM on the kernel divided by its variance: `C` is relative to the variance of the samples."""

    inner: InnerProblem
    counts: np.ndarray | None = None  # how often samples count in the variance

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve, and return the dual and the objective for the kernel as it is."""
        variance = kernel_variance(kernel, self.counts)
        return in_units(variance, self.inner.solve(kernel / variance, target, tol))


def kernel_variance(kernel: np.ndarray, counts: np.ndarray | None = None) -> float:
    r"""Return :math:`\operatorname{tr}(HKH) / N`, the variance of the samples in the feature space; 1 where it is 0.

    Samples count as often as `counts`, (n_samples,), say; None is once.

    Examples
    --------
    >>> import numpy as np
    >>> kernel_variance(3.0 * np.eye(2) + 7.0), kernel_variance(np.ones((2, 2)))
    (1.5, 1.0)
    """
    size = float(np.average(kernel.diagonal(), weights=counts))
    mean = kernel.mean() if counts is None else counts @ kernel @ counts / counts.sum() ** 2
    variance = size - float(mean)
    return variance if variance > CONSTANT * size else 1.0


def select_by_alignment(
    stack: Stack,
    targets: np.ndarray,
    method: str,
    gram: np.ndarray | None = None,
    counts: np.ndarray | None = None,
) -> Selection:
    """Return the kernel weights of one of the four methods."""
    center = method in CENTERED
    products = target_products(stack, targets, center, counts) / len(targets)  # a
    if method in ("ratio", "align"):
        norms = frobenius_norms(stack, center, counts)
        return Selection(shares(np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0.0)))
    gram = frobenius_gram(stack, center, counts) if gram is None else gram  # M
    if method == "convex":
        return nearest_combination(gram, products, targets, counts)
    return most_aligned(gram, products)


def nearest_combination(
    gram: np.ndarray, products: np.ndarray, targets: np.ndarray, counts: np.ndarray | None = None
) -> Selection:
    """Minimize the squared distance of a convex combination from the target matrix."""
    size = float(np.average(targets**2, axis=1, weights=counts).mean()) or 1.0  # 1 for labels
    linear = products / size
    weights, residual = solve_simplex_qp(gram, linear)
    counted = targets if counts is None else targets * counts
    squared_target = float(((counted @ targets.T / (size * len(targets))) ** 2).sum())  # ||T||^2
    distance = float(weights @ gram @ weights - 2.0 * linear @ weights) + squared_target
    return Selection(weights, (distance,), residual * float(np.abs(linear).max()))


def most_aligned(gram: np.ndarray, products: np.ndarray) -> Selection:
    """Maximize the alignment over conic combinations of centered kernels."""
    norms = np.sqrt(gram.diagonal())
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    # in units of each kernel's norm the matrix holds the alignments between kernels
    relative, _ = solve_nonnegative_qp(gram * scale * scale[:, None], products * scale)
    return Selection(shares(relative * scale))


# ------------------------------------------------------------------- alignment with the empirical optimal kernel


@dataclass(eq=False, repr=False)
class OptimalKernel(WeightRule):
    r"""OBMKL: weights by the empirical optimal kernel (Wang, Cai, Zhang, Bai, Cai and Zhang 2014).

    The empirical optimal kernel takes the largest kernel value of every pair within a class and the smallest of every
    pair between classes (eq. 8). Combinations of the kernels are drawn towards it:

    * ratio (eqs. 10, 11): :math:`\eta_m \propto A(K_m, K_{opti})`;
    * qp (eq. 12): :math:`\min_{\eta \in \Delta} \|\sum_m \eta_m K_m - K_{opti}\|_F^2`;
    * aqp (eqs. 13-15): the same for :math:`(\alpha\alpha^\top) \circ K_m` and :math:`(\alpha\alpha^\top) \circ
      K_{opti}`, in turn with :math:`\alpha`, the duals of an SVM on :math:`\sum_m \eta_m K_m`.

    Parameters
    ----------
    method : {"ratio", "qp", "aqp", "aqp-paper"}, default="qp"
        As above. "aqp" halves steps if weights swing; "aqp-paper" always takes full steps.
    tol : float, default=1e-4
        "aqp" stops when no weight changes by more than this; also the tolerance of LibSVM.
    max_iter : int, default=50
        Maximum number of alternations of "aqp".

    Notes
    -----
    Then one SVM is trained on the combined kernel, unweighted.

    Errata: (12), (14) and (17) print :math:`\eta \in_+^p` for :math:`\mathbb R_+^p`, and (15) "max min" for max. Eq.
    (4) is an equality only if every pair could choose weights of its own: :math:`K_{opti}` bounds the polarization of
    all combinations, and is indefinite in general, whatever §III says. It enters through Frobenius products only, so
    that (12) stays convex.

    Departures: negative alignments, possible where kernels have negative entries, count as zero in (10). The
    alternation of aqp has no common objective, and plain steps often swing between two sets of weights for ever; a
    step is halved whenever weights would change about as much as two alternations before, which keeps the fixed
    points; "aqp-paper" has plain steps. Tasks that share weights share one :math:`K_{opti}`, by equality of classes,
    and add up their (14).

    Weights :math:`w_i` of the samples count pairs :math:`w_i w_j` times in (10) and (12). Not so in (14): copies of a
    sample share its dual in no fixed way, so that the squares of their duals do not say how many they are.

    Examples
    --------
    >>> from bayesmkl.discriminative import MKLClassifier, OptimalKernel
    >>> MKLClassifier(weights=OptimalKernel("ratio"))
    MKLClassifier(weights=OptimalKernel(method='ratio'))
    """

    CHECKS: ClassVar = {"method": one_of("ratio", "qp", *ALTERNATING)}
    targets: ClassVar = ("labels",)

    method: str = "qp"
    tol: float = 1e-4
    max_iter: int = 50

    def prepare(self, training: Training) -> Training:
        """Refuse counted samples in alternations; add the Frobenius products of the kernels."""
        stack, counts = training.stack, training.weights.counts
        if counts is not None and self.method in ALTERNATING:
            raise ValueError(
                f'`sample_weight` must be None with `method="{self.method}"`, which weights pairs by dual '
                'coefficients, and copies of a sample may share these in many ways. Use "qp" or "ratio", or '
                "repeat samples."
            )
        if self.method == "ratio":
            return training
        return training._replace(gram=frobenius_gram(stack, sample_weights=counts))

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Find weights by the empirical optimal kernel, then train one SVM per task."""
        stack, (counts, _), gram, _ = training
        problem = Problem(stack, targets, svm, optimal_kernel(stack, targets), counts)
        selection = select_by_ratio(problem) if self.method == "ratio" else select_nearest(problem, gram)
        if self.method in ALTERNATING:
            selection = alternate(problem, selection.kernel_weights, self, on_step)
        return train_selected(stack, targets, svm, self.tol, selection)


class Problem(NamedTuple):
    """Data that all iterations share.

    Parameters
    ----------
    stack : Stack
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    optimal : ndarray of shape (n_samples, n_samples)
        The empirical optimal kernel.
    counts : ndarray of shape (n_samples,) or None
        How often samples count in (10) and (12).
    """

    stack: Stack
    targets: np.ndarray
    inner: InnerProblem
    optimal: np.ndarray
    counts: np.ndarray | None = None

    def counted(self) -> np.ndarray:
        """Return the empirical optimal kernel with every entry as often as it counts."""
        return self.optimal if self.counts is None else self.optimal * np.outer(self.counts, self.counts)


def optimal_kernel(stack: Stack, targets: np.ndarray) -> np.ndarray:
    """Return the empirical optimal kernel (8) of one task, or of one-versus-rest tasks by equality of classes."""
    codes = targets[0] if len(targets) == 1 else targets.argmax(axis=0)
    return optimal_entries(*entrywise_bounds(stack), codes[:, None] == codes)


def select_by_ratio(problem: Problem) -> Selection:
    """Weight the kernels by their alignment with the empirical optimal kernel (10), (11)."""
    norms = frobenius_norms(problem.stack, sample_weights=problem.counts)
    products = problem.stack.frobenius(problem.counted())
    return Selection(shares(np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0.0)))


def select_nearest(problem: Problem, gram: Any) -> Selection:
    """Minimize the squared distance of a convex combination from the empirical optimal kernel (12)."""
    linear = problem.stack.frobenius(problem.counted())
    weights, residual = solve_simplex_qp(gram, linear)
    distance = float(
        weights @ gram @ weights - 2.0 * linear @ weights + (problem.counted() * problem.optimal).sum()
    )
    return Selection(weights, (distance,), residual * float(np.abs(linear).max()))


def alternate(
    problem: Problem,
    weights: np.ndarray,
    rule: OptimalKernel,
    on_step: OnStep = silent,
) -> Selection:
    """Alternate the duals of (15) and the weights of (14), from the `weights` of (12) on."""
    history: list[float] = []
    changes, step = [np.inf, np.inf], 1.0
    outcome = Outcome.MAX_ITER
    for n_done in range(1, rule.max_iter + 1):
        svms = solve_tasks(problem.stack.combine(weights), problem.targets, problem.inner, rule.tol)
        history.append(sum(svm.objective for svm in svms))
        proposal = select_weighted(problem, [np.abs(svm.signed_dual) for svm in svms], weights)
        changes.append(float(np.abs(proposal - weights).max()))
        on_step(n_done, f"largest change of a weight {changes[-1]:.1e}")
        if changes[-1] <= rule.tol:
            outcome = Outcome.CONVERGED
            break
        if rule.method == "aqp" and changes[-1] > SWINGING * changes[-3]:
            step *= 0.5
        weights = weights + step * (proposal - weights)
    return Selection(weights, tuple(history), outcome=outcome, n_solves=len(history) * len(problem.targets))


def select_weighted(problem: Problem, alphas: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    r"""Minimize the distance with every pair weighted by its duals (14).

    The products are :math:`\sum_{ij} \alpha_i^2 \alpha_j^2 [K_m]_{ij} [K_h]_{ij}`: support vectors alone count, and
    the scale of :math:`\alpha` does not matter. Without any, `weights` stay.
    """
    n_kernels = problem.stack.n_kernels
    gram, linear = np.zeros((n_kernels, n_kernels)), np.zeros(n_kernels)
    largest = max(float(alpha.max()) for alpha in alphas)
    if largest == 0.0:
        return weights
    for alpha in alphas:
        support = np.flatnonzero(alpha > SUPPORT * largest)
        block = DenseStack(np.ascontiguousarray(problem.stack.rows(support).columns(support)))
        importance = (alpha[support] / largest) ** 2
        gram += frobenius_gram(block, sample_weights=importance)
        linear += block.frobenius(
            problem.optimal[np.ix_(support, support)] * np.outer(importance, importance)
        )
    return solve_simplex_qp(gram, linear)[0]
