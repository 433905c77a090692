r"""The integer step of sample-adaptive multiple kernel learning, exact and for all samples at once.

Given what every kernel contributes to the margin of a sample, :math:`c_p`, and how much it needs in all, :math:`R`,
the fewest kernels are switched on (Liu et al. 2014, eq. 15):

.. math:: \min_{h \in \{0, 1\}^m} \|h\|_1 \quad\text{subject to}\quad \sum_p h_p c_p \ge R,
   \quad \|h - h_0\|_1 \le m_0 .

Which kernels are switched does not matter to the objective and the budget, only how many of those that are on in
:math:`h_0` (off) and of the others (on). For given numbers the sum is largest if the smallest contributions go and
the largest come. So it is enough to sort both groups and to compare numbers: :math:`O(m \log m)` without a budget,
where an enumeration takes :math:`2^m`.

Many choices may be equally small, and the paper leaves to its solver which one is taken. The label of the sample is
known here: the largest sum keeps the kernels that speak most for it, and drops those that speak against it.
"""

from __future__ import annotations

import numpy as np

TIES = ("smallest", "largest", "random")

TOLERANCE = 1e-8  # relative, of the requirement, which the previous switches meet up to rounding only


def choose_switches(
    contributions: np.ndarray,
    requirements: np.ndarray,
    initial: np.ndarray,
    max_switches: int,
    previous: np.ndarray,
    ties: str = "largest",
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    r"""Switch on as few kernels as each sample needs.

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
