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

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.validation import check_integer, check_number, check_scale
from bayesmkl.discriminative.localized.patterns import SAMKLResult, update_margins
from bayesmkl.discriminative.localized.switched_weights import WeightsOptions, WeightsStep, solve_weights
from bayesmkl.discriminative.localized.switches import choose_switches
from bayesmkl.kernels.stacks.base import StoredStack


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


def fit_samkl(
    stack: StoredStack,
    target: np.ndarray,
    options: SAMKLOptions = SAMKLOptions(),  # noqa: B008
    start: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    on_step: Callable[[int, str], None] | None = None,
) -> SAMKLResult:
    """Alternate between kernel weights, switches and margins (algorithm 1).

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    target : ndarray of shape (n_samples,)
        Labels -1 and +1.
    options : SAMKLOptions
    start : ndarray of shape (n_kernels,), optional
        First kernel weights; equal ones for all kernels that are on at first by default.
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
    initial = _initial_switches(stack, options)
    switches = np.repeat(initial[:, None], stack.n_train, axis=1)  # lines 1 to 3
    margins = np.ones(stack.n_train)
    weights = _initial_weights(initial, start)
    rng = np.random.default_rng(0) if rng is None else rng
    convex = WeightsOptions(options.C, options.gap_tol, options.max_iter_weights)
    best: tuple[WeightsStep, np.ndarray, np.ndarray] | None = None
    history: list[float] = []
    n_solves, outcome = 0, Outcome.MAX_ITER
    for n_done in range(options.max_iter):
        step = solve_weights(stack, target, switches, margins, convex, weights)  # line 5
        history.append(step.objective)
        n_solves += step.n_solves
        if on_step is not None:
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


def _initial_switches(stack: StoredStack, options: SAMKLOptions) -> np.ndarray:
    if options.initial_switches is None:
        return np.ones(stack.n_kernels, dtype=bool)
    return np.asarray(options.initial_switches, dtype=bool)


def _initial_weights(initial: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """Return weights of the kernels that are on, equal ones where `start` has none for them."""
    weights = initial.astype(np.float64) if start is None else np.where(initial, start, 0.0)
    weights = weights if weights.any() else initial.astype(np.float64)
    return weights / weights.sum()


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


def _hold_one(
    contributions: np.ndarray, required: np.ndarray, norms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Make one kernel with a weight indispensable, that which contributes most: no other one does better."""
    held = np.argmax(np.where(norms[:, None] > 0.0, contributions, -np.inf), axis=0)
    bonus = 1.0 + np.abs(contributions).sum(axis=0) + np.abs(required)  # more than all others bring together
    contributions[held, np.arange(held.size)] += bonus
    return contributions, required + bonus


def initial_support(stack: StoredStack, target: np.ndarray, options: SAMKLOptions) -> np.ndarray:
    """Return which kernels get a weight before any is switched: initial switches for a sparser model.

    Parameters
    ----------
    stack : StoredStack
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
    convex = WeightsOptions(options.C, options.gap_tol, options.max_iter_weights)
    step = solve_weights(stack, target, switches, np.ones(stack.n_train), convex, equal)
    return step.kernel_weights > 0.0


def check_options(options: SAMKLOptions) -> None:
    """Raise for numbers that are invalid for any kernels.

    Examples
    --------
    >>> check_options(SAMKLOptions(C=-1.0))
    Traceback (most recent call last):
    ...
    ValueError: `C` must be a finite number > 0; got -1.0.
    """
    check_scale("C", options.C)
    check_number("gap_tol", options.gap_tol, low=0.0)
    check_number("tol", options.tol, low=0.0, inclusive=True)
    for name, low in (("max_switches", 0), ("max_iter", 1), ("max_iter_weights", 1)):
        check_integer(name, getattr(options, name), low=low)


def check_switch_options(options: SAMKLOptions, n_kernels: int) -> None:
    """Raise for a budget or initial switches that are invalid for `n_kernels` kernels.

    Examples
    --------
    >>> check_switch_options(SAMKLOptions(max_switches=5), n_kernels=3)
    Traceback (most recent call last):
    ...
    ValueError: `max_switches` must be at most the number of kernels, 3; got 5. ...
    """
    if options.max_switches > n_kernels:
        raise ValueError(
            f"`max_switches` must be at most the number of kernels, {n_kernels}; got {options.max_switches}. "
            "Pass 0 to keep all samples on the initial kernels."
        )
    if options.initial_switches is None:
        return
    initial = np.asarray(options.initial_switches)
    if initial.shape != (n_kernels,) or not np.isin(initial, (0, 1)).all() or not initial.any():
        raise ValueError(
            f"`initial_switches` must be None or {n_kernels} booleans, one per kernel, at least one of them true; "
            f"got {options.initial_switches!r}. None switches all kernels on."
        )
