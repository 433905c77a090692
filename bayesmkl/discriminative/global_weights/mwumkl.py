r"""MWUMKL: multiple kernel learning by multiplicative weights, from single columns of the kernels.

Moeller, Raman, Venkatasubramanian and Saha (2014), "A geometric algorithm for scalable multiple kernel learning".
An SVM with the 2-norm soft margin looks for the two nearest points of the hulls of the classes.
With the kernels scaled to mean diagonal one and :math:`G_m = Y K_m Y + I / C`, all kernels together ask for

.. math:: s_\star^2 = \min_{\alpha \in H} \max_m \; \alpha^\top G_m \alpha, \qquad
   H = \{\alpha \ge 0,\ \textstyle\sum_{y_i = 1} \alpha_i = \sum_{y_i = -1} \alpha_i = \tfrac12\} ,

one player moving :math:`\alpha`, the other a distribution over the kernels. Every step adds the pair of samples
that answers best to the present distribution (the oracle; one column of every kernel per sample), and moves the
distribution towards the kernels whose form :math:`\alpha^\top G_m \alpha` is large. The matrix exponential of the
paper has a closed form: with :math:`\alpha` the sum of all answers, kernel `m` has the weight :math:`\sinh q_m`,
and :math:`q_m` is proportional to :math:`(\alpha^\top G_m \alpha)^{1/2}`. Nothing of size :math:`N \times N` is
formed.

In standard form this is the problem of the squared hinge loss,

.. math:: J = \min_{d, w, b} \tfrac12 \sum_m \|w_m\|^2 / d_m + \tfrac{C}{2} \sum_i \max(0, 1 - y_i f_i)^2
   = \frac{1}{2 s_\star^2} , \qquad d \ge 0,\ \textstyle\sum_m d_m = 1 .

Any :math:`\alpha \in H` bounds :math:`J` from below, by :math:`1 / (2 \max_m \alpha^\top G_m \alpha)`, and the
value of any function under any weights bounds it from above: together they give the duality gap.

Departures from the paper:

* Kernels are scaled by the mean of their diagonal, not by its sum, so that `C` means what it means in other
  methods; the paper's is `N` times ours. The width of the problem is taken from the diagonal, not from the trace:
  for kernels of unit diagonal it is :math:`\sqrt N` times smaller, which saves a factor `N` of the steps for the
  same bound.
* The distribution is normalized over the kernels alone; the paper's normalization also holds the eigenvectors in
  which no kernel has a part. Both lead the oracle to the same pairs.
* ``stopping="gap"`` stops as soon as the duality gap is at most `epsilon` of `J`. Its exponent,
  :math:`q_m = (2 \ln P / \epsilon) s_m / \max_h s_h` with :math:`s_m^2 = \alpha^\top G_m \alpha`, is the smallest
  whose smoothing of the maximum costs no more than `epsilon`. ``stopping="paper"`` has the paper's constant rate
  and number of steps.
* The function with the least primal value is returned, not the last one.
* Several tasks can share the kernels: their hulls are parts of one, with equal masses of both classes in every
  task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.problems import InnerSolution, MKLResult, OnStep, silent
from bayesmkl.kernels.stacks.base import KernelColumns
from bayesmkl.kernels.stacks.columns import ColumnCache

ROUNDING = 1e-9  # by which a lower bound may exceed an upper one
REPORT_EVERY = 100  # steps
MOST_STEPS = 50_000  # of an SVM on one kernel
CACHE_MB = 50.0  # of its columns
SELDOM = 8  # steps between its primal values


class MWUOptions(NamedTuple):
    r"""Loss, accuracy and budget.

    Parameters
    ----------
    C : float
        Factor of the squared hinge loss.
    epsilon : float
        Accuracy, between 0 and 1: of the objective ("gap"), or of :math:`s_\star` relative to the width ("paper").
    stopping : {"gap", "paper"}
    max_iter : int
        Maximum number of iterations.
    every : int
        Steps between primal values while the gap is above twice `epsilon`.
    """

    C: float = 1.0
    epsilon: float = 0.05
    stopping: str = "gap"
    max_iter: int = 50_000
    every: int = 1


class _Game(NamedTuple):
    """Constants of all iterations. Kernels without any self-similarity take no part."""

    stack: KernelColumns
    n_kernels: int  # those that take no part included
    targets: np.ndarray  # (n_tasks, n_samples)
    positive: np.ndarray  # where they are +1
    mean: np.ndarray  # of the labels, (n_tasks,)
    kept: np.ndarray  # positions of the kernels that take part, (n_kernels,)
    scales: np.ndarray  # their mean diagonals
    diagonals: np.ndarray  # theirs after scaling, (n_kernels, n_samples)
    ridge: float  # 1 / C


class _Sums(NamedTuple):
    """The sum of all answers; the arrays are updated in place."""

    dual: np.ndarray  # alpha, (n_tasks, n_samples)
    products: np.ndarray  # Y K_m Y alpha, (n_kernels, n_tasks, n_samples)
    forms: np.ndarray  # alpha' Y K_m Y alpha, summed over tasks, (n_kernels,)


class _Answer(NamedTuple):
    """Answer of the oracle to one distribution over the kernels."""

    shares: np.ndarray  # omega in sum_m omega_m G_m alpha, (n_kernels,)
    gradient: np.ndarray  # this sum, (n_tasks, n_samples); the paper's g is -1 times it
    bound: float  # lower bound of s
    task: int
    pair: tuple[int, int]  # the positive and the negative sample with the smallest gradient


class _Model(NamedTuple):
    """A function under certain weights of the scaled kernels, and its primal value."""

    weights: np.ndarray  # (n_kernels,)
    signed_dual: np.ndarray  # (n_tasks, n_samples)
    intercept: np.ndarray  # (n_tasks,)
    value: float


def fit_mwumkl(
    stack: KernelColumns,
    targets: np.ndarray,
    options: MWUOptions,
    on_step: OnStep = silent,
) -> MKLResult:
    r"""Learn kernel weights for tasks that share them.

    Parameters
    ----------
    stack : KernelColumns
        Training kernels, of which `columns` and `diagonal` are used.
    targets : ndarray of shape (n_tasks, n_samples)
        Labels -1 and +1.
    options : MWUOptions
    on_step : callable, optional
        Takes the number of steps done and their status.

    Returns
    -------
    MKLResult
        Weights of the kernels as they are: with mean diagonals :math:`r_m`, :math:`\sum_m d_m r_m = 1`. The history
        holds the least primal value so far. NOT_IMPROVING and NOT_FINITE mean that a kernel is not positive
        semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> X = np.array([[-1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [1.0, -1.0]])
    >>> stack = DenseStack(np.stack([np.outer(x, x) for x in X.T]))  # the first feature is the label
    >>> result = fit_mwumkl(stack, np.array([[-1.0, -1.0, 1.0, 1.0]]), MWUOptions(epsilon=0.01))
    >>> result.kernel_weights.round(2), result.outcome.converged
    (array([1., 0.]), True)
    """
    game, sums = _start(stack, targets, options.C)
    exponent, n_steps = _schedule(game, options)
    best, upper, history = None, np.inf, []
    task = 0  # no gradient yet: the first samples
    pair = int(game.positive[0].argmax()), int(game.positive[0].argmin())
    outcome = Outcome.MAX_ITER
    for step in range(1, options.max_iter + 1):
        _add_pair(game, sums, task, pair)
        forms = sums.forms + game.ridge * float((sums.dual**2).sum())  # alpha' G_m alpha
        if not forms.min() > 0.0:
            outcome = Outcome.NOT_FINITE
            break
        roots = np.sqrt(forms)
        upper = min(upper, float(roots.max()) / step)
        answer = _oracle(game, sums, roots, exponent(roots))
        task, pair = answer.task, answer.pair
        infeasible, lower = answer.bound > (1.0 + ROUNDING) * upper, _value_of_margin(upper)
        between = options.every < step < options.max_iter and step % options.every and not infeasible
        if best is not None and between and lower < (1.0 - 2.0 * options.epsilon) * best.value:
            history.append(best.value)
            continue
        model = _model(game, sums, answer)
        best = model if best is None or model.value < best.value else best
        history.append(best.value)
        gap = 1.0 - lower / best.value
        if infeasible or gap < -ROUNDING:
            outcome = Outcome.NOT_IMPROVING
            break
        if step % REPORT_EVERY == 0:
            on_step(step, f"relative gap {gap:.1e}")
        if gap <= options.epsilon if options.stopping == "gap" else step == n_steps:
            outcome = Outcome.CONVERGED
            break
    return _result(game, best, history, upper, outcome)


def _start(stack: KernelColumns, targets: np.ndarray, C: float) -> tuple[_Game, _Sums]:
    """Scale the kernels to mean diagonal one, and begin with an empty sum."""
    diagonals = np.asarray(stack.diagonal())
    scales = diagonals.mean(axis=1)
    kept = np.flatnonzero(scales > 0.0) if (scales > 0.0).any() else np.arange(len(scales))
    scales = np.where(scales > 0.0, scales, 1.0)[kept]
    scaled = diagonals[kept] / scales[:, None]
    positive = targets > 0
    mean = 2.0 * positive.mean(axis=1) - 1.0
    game = _Game(stack, len(diagonals), targets, positive, mean, kept, scales, scaled, 1.0 / C)
    products = np.zeros((len(kept), *targets.shape))
    return game, _Sums(np.zeros(targets.shape), products, np.zeros(len(kept)))


def _schedule(game: _Game, options: MWUOptions) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """Return the map from roots of the forms to exponents, and the largest number of steps."""
    if options.stopping == "gap":
        sharpness = 2.0 * math.log(max(len(game.kept), 2)) / options.epsilon
        return (lambda roots: sharpness * roots / roots.max()), options.max_iter
    width = math.sqrt(float(game.diagonals.max()) + 0.5 * game.ridge)  # 2 rho: the largest root of one pair
    rate = -math.log1p(-options.epsilon) / width
    return (lambda roots: rate * roots), math.ceil(2.0 * math.log(game.targets.size) / options.epsilon**2)


def _add_pair(game: _Game, sums: _Sums, task: int, pair: tuple[int, int]) -> None:
    """Add half of each sample of the pair to the sum: a change of rank two."""
    i, j = pair
    columns = np.asarray(game.stack.columns(list(pair)))[game.kept] / game.scales[:, None, None]
    move = 0.5 * game.targets[task] * (columns[:, :, 0] - columns[:, :, 1])
    products = sums.products[:, task]
    own = 0.5 * (move[:, i] + move[:, j])
    sums.forms[:] += products[:, i] + products[:, j] + own
    products += move
    sums.dual[task, i] += 0.5
    sums.dual[task, j] += 0.5


def _oracle(game: _Game, sums: _Sums, roots: np.ndarray, exponents: np.ndarray) -> _Answer:
    """Weight the kernels by sinh q, and find the pair that answers best (§4)."""
    largest = exponents.max()
    distribution = np.exp(exponents - largest) - np.exp(-exponents - largest)
    shares = distribution / distribution.sum() / roots
    gradient = np.dot(shares[None], sums.products.reshape(len(shares), -1)).reshape(sums.dual.shape)
    gradient += game.ridge * float(shares.sum()) * sums.dual
    of_positive = np.where(game.positive, gradient, np.inf)
    of_negative = np.where(game.positive, np.inf, gradient)
    bounds = 0.5 * (of_positive.min(axis=1) + of_negative.min(axis=1))
    task = int(bounds.argmin())
    pair = int(of_positive[task].argmin()), int(of_negative[task].argmin())
    return _Answer(shares, gradient, float(bounds[task]), task, pair)


def _model(game: _Game, sums: _Sums, answer: _Answer) -> _Model:
    """Scale the dual of every task to the end of its own hull problem, and compute the intercept.

    A task that no answer was about yet has the constant function.
    """
    total = float(answer.shares.sum())
    gradient = answer.gradient / total  # sum_m mu_m G_m alpha with weights mu of sum one
    parts = sums.dual * gradient
    of_positive = np.where(game.positive, parts, 0.0).sum(axis=1)
    of_negative = parts.sum(axis=1) - of_positive
    quadratic = of_positive + of_negative  # alpha' G alpha
    seen = quadratic > 0.0
    safe = np.where(seen, quadratic, 1.0)
    factor = sums.dual.sum(axis=1) / safe
    intercept = np.where(seen, (of_negative - of_positive) / safe, game.mean)
    scores = factor[:, None] * (gradient - game.ridge * sums.dual)  # y f without the intercept
    dual = factor[:, None] * sums.dual
    slack = np.maximum(0.0, 1.0 - scores - game.targets * intercept[:, None])
    value = 0.5 * float((dual * scores).sum()) + 0.5 / game.ridge * float((slack**2).sum())
    return _Model(answer.shares / total, game.targets * dual, intercept, value)


def _value_of_margin(s: float) -> float:
    """Return the objective J whose hulls are `2 s` apart."""
    return 0.5 / s**2


def _result(
    game: _Game, best: _Model | None, history: list[float], upper: float, outcome: Outcome
) -> MKLResult:
    weights = np.zeros(game.n_kernels)
    if best is None:
        uniform = np.full(len(game.kept), 1.0 / len(game.kept))
        best = _Model(uniform, np.zeros(game.targets.shape), np.zeros(len(game.targets)), np.nan)
    weights[game.kept] = best.weights / game.scales
    gap = best.value - _value_of_margin(upper)
    return MKLResult(weights, best.signed_dual, best.intercept, np.array(history), gap, outcome, len(history))


class _Kept:
    """A kernel as columns, those that were asked for last in memory."""

    def __init__(self, kernel: KernelColumns, n_samples: int, cache_mb: float) -> None:
        self.columns = ColumnCache(kernel.columns, n_samples, cache_mb).columns
        self.diagonal = kernel.diagonal


class MultiplicativeWeights(NamedTuple):
    r"""Classifier with squared hinge loss on one kernel: :math:`\ell_i(f) = \tfrac{C}{2} \max(0, 1 - y_i f)^2`.

    MWUMKL with one kernel (Moeller, Swaminathan and Venkatasubramanian 2016, section 5.2). It scales its kernel to
    mean diagonal one: with :math:`r` the mean diagonal of :math:`K`, the solution for :math:`K` and :math:`C` is that
    for :math:`K / r` and :math:`C r`, the dual and the objective divided by :math:`r`.

    Parameters
    ----------
    C : float
        Factor of the loss.
    epsilon : float
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of iterations; an SVM that needs more has a larger gap.
    cache_mb : float
        Memory for columns that are asked for again, in MB.
    report : callable, optional
        Takes the relative duality gap of an SVM that was stopped by `max_iter`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> x, y = np.array([-2.0, 1.0, 3.0]), np.array([-1.0, 1.0, 1.0])
    >>> solution = MultiplicativeWeights(C=10.0, epsilon=1e-3).solve(DenseStack(np.outer(x, x)[None]), y, tol=0.0)
    >>> scores = np.outer(x, x) @ solution.signed_dual + solution.intercept
    >>> np.round(scores, 2), round(solution.objective, 3)
    (array([-0.98,  0.98,  2.28]), 0.217)
    """

    C: float = 1.0
    epsilon: float = 0.05
    max_iter: int = MOST_STEPS
    cache_mb: float = CACHE_MB
    report: Callable[[float], None] | None = None

    @property
    def by_columns(self) -> bool:
        """The kernel is taken as columns."""
        return True

    def solve(self, kernel: KernelColumns, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve for a kernel given as columns and labels -1 and +1; `epsilon` is the tolerance, not `tol`."""
        scale = float(np.asarray(kernel.diagonal()).mean())
        scale = scale if scale > 0.0 else 1.0
        options = MWUOptions(self.C * scale, self.epsilon, max_iter=self.max_iter, every=SELDOM)
        result = fit_mwumkl(_Kept(kernel, len(target), self.cache_mb), target[None], options)
        primal = result.objective_history[-1] if result.n_solves else np.nan
        gap = float(max(result.duality_gap, 0.0) / scale)
        if self.report is not None and result.outcome is Outcome.MAX_ITER:
            self.report(gap * scale / primal)
        return InnerSolution(
            signed_dual=result.signed_dual[0] / scale,
            intercept=float(result.intercept[0]),
            objective=float(primal / scale - gap),
            gap=gap,
        )
