r"""SAMKL: kernels that are switched on or off for each sample (Liu, Wang, Zhang and Yin 2014).

.. math:: \min_{H, \tau, \gamma \in \Delta, \omega, b} \; \tfrac12 \sum_p \frac{\|\omega_p\|^2}{\gamma_p}
   + C \sum_i \max\Big(0, 1 - \frac{y_i f_i}{\tau_i}\Big), \qquad
   f_i = \sum_p h_{ip} \langle \omega_p, \phi_p(x_i) \rangle + b, \qquad
   \tau_i = \frac{\sum_p h_{ip} \|\omega_p\|}{\sum_p \|\omega_p\|},

with at most :math:`m_0` switches of a sample that differ from :math:`h_0` (eqs. 11 and 12). Three steps alternate
(algorithm 1): kernel weights and SVM at given switches (eq. 13), the fewest kernels that keep the slack of every
sample (eq. 15), its margin :math:`\tau_i` (eq. 16). With :math:`\beta = \alpha / \tau` and :math:`v = \beta \circ y`
the first step is multiple kernel learning on the simplex, :math:`K(\gamma, H) = \sum_p \gamma_p\, h_p h_p^\top \circ
K_p`, around an SVM that asks sample `i` for the margin :math:`\tau_i` with penalty :math:`C / \tau_i`.

Departures from the paper:

* Its algorithm stops as soon as the objective does not fall and keeps what it has then. Nothing makes the objective
  fall: the third step may raise it. Here the best solution of eq. 13 is kept, and all that is returned belongs to it:
  the patterns for prediction are the switches that it was trained with, not those chosen after it.
* Eq. 15 may switch off all kernels with a weight for a sample, so that :math:`\tau_i = 0` divides by zero. Here one
  of them stays on. :math:`\tau_i` is at least 0.001.
* A kernel that :math:`h_0` switches off has :math:`\omega_p = 0` from the first step on, contributes nothing and is
  never switched on: the alternation from :math:`h_0` is that on the kernels of :math:`h_0`.

Eq. 15 sees the label of its sample, so the objective can fall far below that of any model that does not see it and
says nothing about new samples: whether switches help is for held-out samples to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale
from bayesmkl.discriminative.problems import InnerSolution, OnStep, WeightedFit, outer_gap, silent
from bayesmkl.discriminative.svm.evaluator import (
    Evaluator,
    certify_by_planes,
    descend_spectrally,
    goal_on_simplex,
)
from bayesmkl.discriminative.svm.libsvm import solve_svm
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

RULES = ("surest", "one-versus-rest")
TIES = ("smallest", "largest", "random")
TOLERANCE = 1e-8  # relative, of the requirement, which the previous switches meet up to rounding only
SMALLEST_MARGIN = 1e-3  # of tau; the penalty of a violation grows to 1000 C there
FIRST_TOL, LAST_TOL = 1e-3, 1e-9  # of the SVM, in units of the scores
INNER_SHARE = 0.1  # share of the duality gap left to the SVM
PATIENCE = 50  # updates of the weights after which a kink is what keeps the gap of one dual from closing


class SAMKLOptions(NamedTuple):
    """Parameters of the model, and stopping rule.

    Parameters
    ----------
    C : float
        Regularization parameter: penalty of margin violations.
    max_switches : int
        How many switches of a sample may differ from the initial ones (:math:`m_0`).
    initial_switches : ndarray of bool of shape (n_kernels,), optional
        Kernels that are on at first (:math:`h_0`); all by default.
    tol : float
        Stop when an alternation lowers the objective by less than this, relatively, or raises it.
    max_iter : int
        Maximum number of solutions of eq. 13.
    gap_tol : float
        Duality gap, relative to the objective, at which a solution of eq. 13 is good enough.
    max_iter_weights : int
        Maximum number of updates of the kernel weights in one solution of eq. 13.
    ties : {"smallest", "largest", "random"}
        Which of several solutions of eq. 15 is taken; see `choose_switches`.
    """

    C: float = 1.0
    max_switches: int = 1
    initial_switches: Sequence[bool] | np.ndarray | None = None
    tol: float = 1e-4
    max_iter: int = 20
    gap_tol: float = 1e-2
    max_iter_weights: int = 500
    ties: str = "largest"


class SAMKLResult(NamedTuple):
    r"""The best solution of eq. 13 and the switches and margins that it was trained with.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
        :math:`\gamma`.
    switches : ndarray of bool of shape (n_kernels, n_samples)
        :math:`H`.
    margins : ndarray of shape (n_samples,)
        :math:`\tau`.
    signed_dual : ndarray of shape (n_samples,)
        :math:`v = \alpha \circ y / \tau`.
    intercept : float
    norms : ndarray of shape (n_kernels,)
        :math:`\|\omega_p\|`.
    objective_history : ndarray of shape (n_iter,)
        Values of eq. 13, one per alternation; the smallest is that of the result.
    duality_gap : float
        Of eq. 13 at the result, absolute.
    outcome : Outcome
    n_solves : int
        Number of SVMs trained.
    """

    kernel_weights: np.ndarray
    switches: np.ndarray
    margins: np.ndarray
    signed_dual: np.ndarray
    intercept: float
    norms: np.ndarray
    objective_history: np.ndarray
    duality_gap: float
    outcome: Outcome
    n_solves: int

    @property
    def gates(self) -> np.ndarray:
        """Gates of the training samples, (n_kernels, n_samples)."""
        return switch_gates(self.kernel_weights, self.switches)[0]

    @property
    def patterns(self) -> np.ndarray:
        """Return the different switches of training samples, (n_patterns, n_kernels) of bool."""
        return np.unique(self.switches.T, axis=0)


def fit_samkl(
    stack: Stack,
    target: np.ndarray,
    options: SAMKLOptions = SAMKLOptions(),  # noqa: B008
    rng: np.random.Generator | None = None,
    on_step: OnStep = silent,
) -> SAMKLResult:
    """Alternate between kernel weights, switches and margins (algorithm 1).

    Parameters
    ----------
    stack : Stack
        Training kernels.
    target : ndarray of shape (n_samples,)
        Labels -1 and +1.
    options : SAMKLOptions
    rng : Generator, optional
        Draws for ``options.ties="random"``; seeded with 0 by default.
    on_step : callable, optional
        Takes the number of alternations done and a line of status.

    Returns
    -------
    SAMKLResult

    Examples
    --------
    Each of two kernels knows the labels of one half of the samples and gets the others wrong.

    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> target = np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    >>> told = target * [[1, 1, 1, 1, -0.4, -0.4, -0.4, -0.4], [-0.4, -0.4, -0.4, -0.4, 1, 1, 1, 1]]
    >>> stack = DenseStack(told[:, :, None] * told[:, None, :])
    >>> result = fit_samkl(stack, target, SAMKLOptions(C=10.0, max_switches=1))
    >>> result.switches.astype(int)
    array([[1, 1, 1, 1, 0, 0, 0, 0],
           [0, 0, 0, 0, 1, 1, 1, 1]])
    """
    given = options.initial_switches
    initial = np.ones(stack.n_kernels, dtype=bool) if given is None else np.asarray(given, dtype=bool)
    switches = np.repeat(initial[:, None], stack.n_train, axis=1)  # lines 1 to 3
    margins = np.ones(stack.n_train)
    weights = initial / initial.sum()
    rng = np.random.default_rng(0) if rng is None else rng
    best: tuple[WeightsStep, np.ndarray, np.ndarray] | None = None
    history: list[float] = []
    n_solves, outcome = 0, Outcome.MAX_ITER
    for n_done in range(options.max_iter):
        step = solve_weights(stack, target, switches, margins, options, weights)  # line 5
        history.append(step.objective)
        n_solves += step.n_solves
        on_step(n_done + 1, f"objective {step.objective:.6g}, {1.0 - switches.mean():.0%} switched off")
        if best is None or step.objective < best[0].objective:
            best = step, switches, margins
        if _has_settled(history, options.tol):  # line 11
            outcome = Outcome.CONVERGED
            break
        switches = update_switches(  # lines 6 to 8
            step, target, switches, margins, initial, options.max_switches, options.ties, rng
        )
        margins, weights = update_margins(switches, step.norms), step.kernel_weights  # line 9
    assert best is not None
    step, switches, margins = best
    return SAMKLResult(
        kernel_weights=step.kernel_weights,
        switches=switches,
        margins=margins,
        signed_dual=step.solution.signed_dual,
        intercept=step.solution.intercept,
        norms=step.norms,
        objective_history=np.array(history),
        duality_gap=step.gap,
        outcome=outcome if step.outcome.converged else step.outcome,
        n_solves=n_solves,
    )


def _has_settled(history: list[float], tol: float) -> bool:
    """Return whether the last alternation lowered the objective by little, or raised it."""
    return len(history) > 1 and history[-2] - history[-1] <= tol * history[-1]


def update_switches(
    step: WeightsStep,
    target: np.ndarray,
    switches: np.ndarray,
    margins: np.ndarray,
    initial: np.ndarray,
    max_switches: int,
    ties: str = "largest",
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    r"""Switch on the fewest kernels that keep the slack of every sample (eq. 15).

    In terms of the contributions :math:`c_{ip} = y_i \gamma_p [K_p (v \circ h_p)]_i` the constraint is
    :math:`\sum_p h_{ip} c_{ip} \ge \tau_i (1 - \xi_i) - y_i b`, with :math:`\tau_i (1 - \xi_i) = \min(\tau_i, y_i
    f_i)`.

    Parameters
    ----------
    step : WeightsStep
        The solution of eq. 13 at `switches` and `margins`.
    target : ndarray of shape (n_samples,)
    switches : ndarray of bool of shape (n_kernels, n_samples)
    margins : ndarray of shape (n_samples,)
    initial : ndarray of bool of shape (n_kernels,)
    max_switches : int
    ties, rng
        As in `choose_switches`.

    Returns
    -------
    ndarray of bool of shape (n_kernels, n_samples)
        Of the fewest kernels for a sample at least one has a weight; where no choice within the budget is left then,
        the initial switches.
    """
    contributions = target * step.kernel_weights[:, None] * step.products
    pushed = target * step.solution.intercept
    reached = (contributions * switches).sum(axis=0) + pushed  # y f
    required = np.minimum(margins, reached) - pushed
    chosen = choose_switches(contributions, required, initial, max_switches, switches, ties, rng)
    empty = np.flatnonzero(step.norms @ chosen == 0.0)
    if empty.size:
        contributions, required = _hold_one(contributions[:, empty], required[empty], step.norms)
        back = np.repeat(initial[:, None], empty.size, axis=1)
        chosen[:, empty] = choose_switches(contributions, required, initial, max_switches, back, ties, rng)
    return chosen


def update_margins(switches: np.ndarray, norms: np.ndarray) -> np.ndarray:
    r"""Return the share of the margin that belongs to the kernels that are on (eq. 16).

    .. math:: \tau_i = \frac{\sum_p h_{ip} \|\omega_p\|}{\sum_p \|\omega_p\|}

    Parameters
    ----------
    switches : ndarray of bool of shape (n_kernels, n_samples)
    norms : ndarray of shape (n_kernels,)
        :math:`\|\omega_p\|`.

    Returns
    -------
    ndarray of shape (n_samples,)
        At least `SMALLEST_MARGIN`; exactly 1 where no kernel with a weight is off.

    Examples
    --------
    >>> import numpy as np
    >>> update_margins(np.array([[True, True, False], [True, False, False]]), np.array([3.0, 1.0]))
    array([1.   , 0.75 , 0.001])
    """
    total = norms.sum()
    if total == 0.0:
        return np.ones(switches.shape[1])
    return np.maximum(1.0 - norms @ ~switches / total, SMALLEST_MARGIN)


def _hold_one(
    contributions: np.ndarray, required: np.ndarray, norms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Make one kernel with a weight indispensable, that which contributes most: no other one does better."""
    held = np.argmax(np.where(norms[:, None] > 0.0, contributions, -np.inf), axis=0)
    bonus = 1.0 + np.abs(contributions).sum(axis=0) + np.abs(required)  # more than all others bring together
    contributions[held, np.arange(held.size)] += bonus
    return contributions, required + bonus


def initial_support(stack: Stack, target: np.ndarray, options: SAMKLOptions) -> np.ndarray:
    """Return which kernels get a weight before any is switched: initial switches for a sparser model.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    target : ndarray of shape (n_samples,)
    options : SAMKLOptions

    Returns
    -------
    ndarray of bool of shape (n_kernels,)

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> target = np.array([1.0, 1.0, -1.0, -1.0])
    >>> stack = DenseStack(np.stack([np.outer(target, target), np.eye(4)]))
    >>> initial_support(stack, target, SAMKLOptions())
    array([ True, False])
    """
    switches = np.ones((stack.n_kernels, stack.n_train), dtype=bool)
    equal = np.full(stack.n_kernels, 1.0 / stack.n_kernels)
    step = solve_weights(stack, target, switches, np.ones(stack.n_train), options, equal)
    return step.kernel_weights > 0.0


def check_options(options: SAMKLOptions, n_kernels: int | None = None) -> None:
    """Raise for options that are invalid for any kernels, or for `n_kernels` of them.

    Examples
    --------
    >>> check_options(SAMKLOptions(C=-1.0))
    Traceback (most recent call last):
    ...
    ValueError: `C` must be a finite number > 0; got -1.0.
    >>> check_options(SAMKLOptions(max_switches=5), n_kernels=3)
    Traceback (most recent call last):
    ...
    ValueError: `max_switches` must be at most the number of kernels, 3; got 5. ...
    """
    check_scale("C", options.C)
    check_number("gap_tol", options.gap_tol, low=0.0)
    check_number("tol", options.tol, low=0.0, inclusive=True)
    for name, low in (("max_switches", 0), ("max_iter", 1), ("max_iter_weights", 1)):
        check_integer(name, getattr(options, name), low=low)
    if n_kernels is None:
        return
    if options.max_switches > n_kernels:
        raise ValueError(
            f"`max_switches` must be at most the number of kernels, {n_kernels}; got {options.max_switches}. "
            "Pass 0 to keep all samples on the initial kernels."
        )
    initial = np.ones(n_kernels) if options.initial_switches is None else np.asarray(options.initial_switches)
    if initial.shape != (n_kernels,) or not np.isin(initial, (0, 1)).all() or not initial.any():
        raise ValueError(
            f"`initial_switches` must be None or {n_kernels} booleans, one per kernel, at least one of them true; "
            f"got {options.initial_switches!r}. None switches all kernels on."
        )


# ------------------------------------------------------------------- switches at given contributions (eq. 15)


def choose_switches(
    contributions: np.ndarray,
    requirements: np.ndarray,
    initial: np.ndarray,
    max_switches: int,
    previous: np.ndarray,
    ties: str = "largest",
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    r"""Switch on as few kernels as each sample needs, exactly and for all samples at once.

    Given what every kernel contributes to the margin of a sample, :math:`c_p`, and how much it needs in all,
    :math:`R`, this is eq. 15,

    .. math:: \min_{h \in \{0, 1\}^m} \|h\|_1 \quad\text{subject to}\quad \sum_p h_p c_p \ge R,
       \quad \|h - h_0\|_1 \le m_0 .

    Which kernels are switched does not matter to the objective and the budget, only how many of those that are on
    in :math:`h_0` (off) and of the others (on). For given numbers the sum is largest if the smallest
    contributions go and the largest come. So it is enough to sort both groups and to compare numbers: :math:`O(m
    \log m)` without a budget, where an enumeration takes :math:`2^m`.

    Many choices may be equally small, and the paper leaves to its solver which one is taken. The label of the
    sample is known here: the largest sum keeps the kernels that speak most for it, and drops those that speak
    against it.

    Parameters
    ----------
    contributions : ndarray of shape (n_kernels, n_samples)
        :math:`c_p` of every sample, of any sign.
    requirements : ndarray of shape (n_samples,)
        :math:`R` of every sample.
    initial : ndarray of bool of shape (n_kernels,)
        The switches :math:`h_0` that all samples stay near.
    max_switches : int
        How many switches :math:`m_0` of a sample may differ from `initial`.
    previous : ndarray of bool of shape (n_kernels, n_samples)
        Kept by samples that nothing within the budget satisfies.
    ties : {"smallest", "largest", "random"}
        Which of several choices of as many kernels is taken. "largest": that with the largest sum of contributions.
        "smallest": kernels leave one after the other, each time the one that contributes most among those that the
        requirement can do without, which for one kernel is the smallest sum. "random": the same with any of those.
    rng : Generator, optional
        Draws for "random"; seeded with 0 by default.

    Returns
    -------
    ndarray of bool of shape (n_kernels, n_samples)

    Notes
    -----
    The numbers of kernels that leave and enter are those of the largest sum, and of equal ones the fewest changes,
    for all `ties`. Kernels that enter are those that contribute most. Of equal contributions those of kernels that
    come first leave.

    Examples
    --------
    >>> import numpy as np
    >>> contributions = np.array([[0.7], [0.6], [-0.2], [0.0]])
    >>> on = np.ones(4, dtype=bool)
    >>> choose_switches(contributions, np.array([0.5]), on, 2, np.ones((4, 1), dtype=bool))[:, 0]
    array([ True,  True, False, False])
    >>> choose_switches(contributions, np.array([0.5]), on, 4, np.ones((4, 1), dtype=bool))[:, 0]
    array([ True, False, False, False])
    >>> choose_switches(contributions, np.array([0.5]), on, 1, np.ones((4, 1), dtype=bool), "smallest")[:, 0]
    array([ True, False,  True,  True])
    """
    on, off = np.flatnonzero(initial), np.flatnonzero(~initial)
    ranked_on, leave_order = _ranked(contributions[on].T, len(on))
    smallest_on = ranked_on[:, :max_switches]
    smallest_off, enter_order = _ranked(-contributions[off].T, max_switches)
    lost = _running_sums(smallest_on)  # P_A(i): sum of the i smallest that are on, (n_samples, i)
    gained = _running_sums(-smallest_off)  # Q_B(j): sum of the j largest that are off, (n_samples, j)
    allowed = contributions[on].sum(axis=0) - requirements + TOLERANCE * np.maximum(1.0, np.abs(requirements))

    leaving, entering = _best_numbers(lost, gained, allowed, max_switches)
    feasible = leaving >= 0
    switches = np.repeat(initial[:, None], len(requirements), axis=1)
    if ties != "largest":
        draws = None if ties == "smallest" else np.random.default_rng(0) if rng is None else rng
        spare = allowed + np.take_along_axis(gained, entering[:, None], axis=1)[:, 0]
        leave_order = _leaving_first(ranked_on, leave_order, leaving, spare, draws)
    _flip(switches, on[leave_order], leaving)
    _flip(switches, off[enter_order], entering)
    return np.where(feasible, switches, previous)


def _best_numbers(
    lost: np.ndarray, gained: np.ndarray, allowed: np.ndarray, max_switches: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many kernels leave and how many enter, for every sample; -1 leave where nothing is feasible."""
    n_samples = len(allowed)
    leaving, entering = np.full(n_samples, -1), np.zeros(n_samples, dtype=np.intp)
    samples, total = np.arange(n_samples), np.zeros(n_samples)
    for j in range(gained.shape[1]):
        n_on = min(max_switches - j, lost.shape[1] - 1) + 1
        # P_A falls, then rises: the feasible numbers are an interval, which need not begin at zero
        feasible = lost[:, :n_on] <= (allowed + gained[:, j])[:, None]
        i = n_on - 1 - np.argmax(feasible[:, ::-1], axis=1)
        sums = gained[:, j] - lost[samples, i]
        fewer, as_many = i - j > leaving - entering, i - j == leaving - entering
        better = (leaving < 0) | fewer | (as_many & (sums > total))
        chosen = feasible.any(axis=1) & better
        leaving, entering = np.where(chosen, i, leaving), np.where(chosen, j, entering)
        total = np.where(chosen, sums, total)
    return leaving, entering


def _ranked(values: np.ndarray, n_ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest `n_ranks` of each row in rising order, and where they are; equal ones as they come."""
    order = np.argsort(values, axis=1, kind="stable")[:, :n_ranks]
    return np.take_along_axis(values, order, axis=1), order


def _running_sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of the first 0, 1, 2, ... entries of each row."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def _leaving_first(
    values: np.ndarray,
    order: np.ndarray,
    numbers: np.ndarray,
    spare: np.ndarray,
    draws: np.random.Generator | None,
) -> np.ndarray:
    """Return `order` with the kernels that leave moved to the front of each row.

    `values` rise along each row, `numbers` of them leave, and their sum is at most `spare`. Each is the largest with
    which the smallest of the others are within it, or any of these where `draws` chooses.
    """
    taken, lost = np.zeros(values.shape, dtype=bool), np.zeros(len(values))
    for n_done in range(max(0, int(numbers.max(initial=0)))):
        rows = np.flatnonzero(n_done < numbers)
        left, of_rows = ~taken[rows], values[rows]
        rank, needed = np.cumsum(left, axis=1), (numbers[rows] - n_done)[:, None]
        others = np.where(left & (rank < needed), of_rows, 0.0).sum(axis=1, keepdims=True)
        smallest = others + np.where(left & (rank == needed), of_rows, 0.0).sum(axis=1, keepdims=True)
        sums = np.where(rank < needed, smallest, others + of_rows)  # with each, and the smallest beside it
        fits = left & ((sums <= (spare - lost)[rows, None]) | (rank <= needed))
        preferred = np.arange(1, values.shape[1] + 1) if draws is None else draws.random(fits.shape)
        chosen = np.argmax(np.where(fits, preferred, 0.0), axis=1)
        taken[rows, chosen] = True
        lost[rows] += values[rows, chosen]
    return np.take_along_axis(order, np.argsort(~taken, axis=1, kind="stable"), axis=1)


def _flip(switches: np.ndarray, order: np.ndarray, numbers: np.ndarray) -> None:
    """Flip the first `numbers` of the kernels in each row of `order`, (n_samples, n_ranks), in place."""
    ranks = np.arange(order.shape[1])
    samples, flipped = np.nonzero(ranks < numbers[:, None])
    kernels = order[samples, flipped]
    switches[kernels, samples] ^= True


# ------------------------------------------------------------ kernel weights and SVM at given switches (eq. 13)


class WeightsStep(NamedTuple):
    r"""A solution of eq. 13: kernel weights and SVM at given switches and margins.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
        :math:`\gamma`.
    solution : InnerSolution
        The SVM; its signed dual is :math:`v = \beta \circ y`.
    products : ndarray of shape (n_kernels, n_samples)
        :math:`K_p (v \circ h_p)`.
    quadratics : ndarray of shape (n_kernels,)
        :math:`S_p = (v \circ h_p)^\top K_p (v \circ h_p)`.
    gap : float
        Duality gap, that of the SVM included.
    n_solves : int
        Number of SVMs trained.
    outcome : Outcome
    """

    kernel_weights: np.ndarray
    solution: InnerSolution
    products: np.ndarray
    quadratics: np.ndarray
    gap: float
    n_solves: int = 1
    outcome: Outcome = Outcome.CONVERGED

    @property
    def objective(self) -> float:
        """Value of eq. 13."""
        return self.solution.objective

    @property
    def norms(self) -> np.ndarray:
        r"""Lengths :math:`\|\omega_p\|` of the normals."""
        return self.kernel_weights * np.sqrt(np.maximum(self.quadratics, 0.0))


class _Margins(NamedTuple):
    """The SVM of eq. 13: a margin and a penalty of its own for every sample."""

    C: float
    margins: np.ndarray

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        linear = None if np.all(self.margins == 1.0) else self.margins
        return solve_svm(kernel, target, self.C / self.margins, tol, linear)


def solve_weights(
    stack: Stack,
    target: np.ndarray,
    switches: np.ndarray,
    margins: np.ndarray,
    options: SAMKLOptions,
    start: np.ndarray,
) -> WeightsStep:
    r"""Find kernel weights and SVM at given switches and margins (eq. 13).

    .. math:: \min_{\gamma \in \Delta} \max_\beta \; \tau^\top \beta - \tfrac12 v^\top K(\gamma, H) v
       \quad\text{with } v = \beta \circ y, \; y^\top \beta = 0, \; 0 \le \beta_i \le C / \tau_i,

    a convex function of :math:`\gamma` with gradient :math:`-\tfrac12 S_p`, by spectral projected gradients; at
    a kink, cutting planes follow (`svm.evaluator`).

    Parameters
    ----------
    stack : Stack
        Training kernels.
    target : ndarray of shape (n_samples,)
        Labels -1 and +1.
    switches : ndarray of bool of shape (n_kernels, n_samples)
    margins : ndarray of shape (n_samples,)
        :math:`\tau`, positive.
    options : SAMKLOptions
        Of these `C`, `gap_tol` and `max_iter_weights`.
    start : ndarray of shape (n_kernels,)
        First kernel weights.

    Returns
    -------
    WeightsStep
    """
    gates, all_on = switches.astype(np.float64), bool(switches.all())
    combine = stack.combine if all_on else lambda d: stack.combine_gated(d[:, None] * gates, gates)
    inner, n_solves, tol, n_steps, weights = _Margins(options.C, margins), 0, FIRST_TOL, 0, start

    def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray, WeightsStep]:
        nonlocal tol, n_solves
        while True:
            solution = inner.solve(combine(weights), target, tol)
            n_solves += 1
            if solution.gap <= INNER_SHARE * options.gap_tol * abs(solution.objective) or tol <= LAST_TOL:
                step = _step_at(stack, switches, weights, solution)
                return step.objective, -0.5 * step.quadratics, step
            tol = max(LAST_TOL, 0.1 * tol)

    most = min(options.max_iter_weights, PATIENCE)
    while True:
        found = minimize_spg(
            evaluate,
            project_simplex,
            weights,
            SPGOptions(max_iter=most - n_steps, tol=0.0),
            finished=lambda step: step.gap <= options.gap_tol * abs(step.objective),
        )
        step, weights, n_steps = found.payload, found.point, n_steps + len(found.history) - 1
        if found.outcome is not Outcome.NOT_IMPROVING or tol <= LAST_TOL:
            break
        tol = max(LAST_TOL, 0.1 * tol)  # the line search reached the errors of the SVMs
    if found.outcome.converged or options.max_iter_weights <= PATIENCE:
        return step._replace(n_solves=n_solves, outcome=found.outcome)
    # most likely at a kink: cutting planes
    switched = (of[:, None] * kernel * of for of, kernel in zip(gates, stack.each(), strict=True))
    kernels = stack if all_on else DenseStack(np.stack(list(switched)))
    search = Evaluator(kernels, target[None], inner, goal_on_simplex(options.gap_tol))
    certify, n_left = certify_by_planes(search), options.max_iter_weights - n_steps
    fit, _, outcome = descend_spectrally(search, project_simplex, weights, n_left, certify=certify)
    best = evaluate(fit.kernel_weights)[2]
    best = best if best.objective < step.objective else step
    gap = search.gap(WeightedFit(best.kernel_weights, best.objective, best.quadratics, (best.solution,)))
    return best._replace(gap=gap, n_solves=n_solves + search.n_solves, outcome=outcome)


def _step_at(stack: Stack, switches: np.ndarray, weights: np.ndarray, solution: InnerSolution) -> WeightsStep:
    """Add products, quadratics, and the gap of this one dual to a solution."""
    duals = solution.signed_dual * switches
    products = stack.apply(duals[:, :, None])
    quadratics = (duals * products).sum(axis=1)
    gap = outer_gap(WeightedFit(weights, solution.objective, quadratics, (solution,)), 1.0)
    return WeightsStep(weights, solution, products, quadratics, gap)


# ---------------------------------------------------------------------- patterns for new samples (section 4.2)


class Inference(NamedTuple):
    """Scores of new samples, and the kernels that they were given.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    switches : ndarray of bool of shape (n_kernels, n_rows)
    """

    scores: np.ndarray
    switches: np.ndarray


def infer_switches(
    stack: Stack, result: SAMKLResult, rule: str = "surest", normalize: bool = False
) -> Inference:
    r"""Score new samples with the training pattern that suits them best.

    Parameters
    ----------
    stack : Stack
        Kernels of n_rows new samples with the training samples.
    result : SAMKLResult
    rule : {"surest", "one-versus-rest"}
        The pattern with the largest :math:`|s_h|` (eq. 17), positive if two are equal, or with the largest
        :math:`s_h` (eq. 18).
    normalize : bool
        Divide :math:`s_h` by :math:`\tau(h)`, as the definition of the margin does (eq. 6), where eqs. 17 and 18
        do not.

    Returns
    -------
    Inference

    Notes
    -----
    Patterns that leave no kernel with a weight say nothing about a sample and are passed over, unless no other one is
    there. Of several patterns with equal scores, the first in the order of `result.patterns` is reported.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> target = np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    >>> told = target * [[1, 1, 1, 1, -0.4, -0.4, -0.4, -0.4], [-0.4, -0.4, -0.4, -0.4, 1, 1, 1, 1]]
    >>> stack = DenseStack(told[:, :, None] * told[:, None, :])
    >>> result = fit_samkl(stack, target, SAMKLOptions(C=10.0, max_switches=1))
    >>> new = np.array([[2.0, -0.5], [0.5, -1.5]])  # what the kernels know of two new samples
    >>> inference = infer_switches(DenseStack(new[:, :, None] * told[:, None, :]), result)
    >>> inference.scores.round(3), inference.switches.astype(int)
    (array([ 1.  , -0.75]), array([[1, 0],
           [0, 1]]))
    """
    check_choice("rule", rule, RULES)
    patterns = result.patterns
    informative = patterns @ result.norms > 0.0
    patterns = patterns[informative] if informative.any() else patterns
    contributions = stack.apply((result.signed_dual * result.switches)[:, :, None])
    scores = (
        patterns * result.kernel_weights
    ) @ contributions + result.intercept  # s_h, (n_patterns, n_rows)
    if normalize:
        scores /= update_margins(patterns.T, result.norms)[:, None]
    best = np.argmax(scores, axis=0)
    if rule == "surest":
        worst, rows = np.argmin(scores, axis=0), np.arange(stack.n_rows)
        best = np.where(scores[best, rows] >= -scores[worst, rows], best, worst)
    return Inference(np.take_along_axis(scores, best[None], axis=0)[0], patterns[best].T)


def switch_gates(kernel_weights: np.ndarray, switches: np.ndarray) -> np.ndarray:
    r"""Return the one gate component :math:`\sqrt{\gamma_p} h_p(x)` that makes :math:`K(\gamma, H)`.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
    switches : ndarray of bool of shape (n_kernels, n_rows)

    Returns
    -------
    ndarray of shape (1, n_kernels, n_rows)

    Examples
    --------
    >>> import numpy as np
    >>> switch_gates(np.array([0.25, 0.75]), np.array([[True, False], [True, True]])).round(3)
    array([[[0.5  , 0.   ],
            [0.866, 0.866]]])
    """
    return (np.sqrt(kernel_weights)[:, None] * switches)[None]
