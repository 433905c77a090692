r"""The integer step of sample-adaptive multiple kernel learning, exact and for all samples at once.

Given what every kernel contributes to the margin of a sample, :math:`c_p`, and how much it needs in all, :math:`R`,
the fewest kernels are switched on (Liu et al. 2014, eq. 15):

.. math:: \min_{h \in \{0, 1\}^m} \|h\|_1 \quad\text{subject to}\quad \sum_p h_p c_p \ge R,
   \quad \|h - h_0\|_1 \le m_0 .

Which kernels are switched does not matter to the objective and the budget, only how many of those that are on in
:math:`h_0` (off) and of the others (on). For given numbers the sum is largest if the smallest contributions go and
the largest come. So it is enough to sort both groups and to compare numbers: :math:`O(m \log m)` without a budget,
where an enumeration takes :math:`2^m`.
"""

from __future__ import annotations

import numpy as np

__all__ = ["choose_switches"]

TOLERANCE = 1e-8  # relative, of the requirement, which the previous switches meet up to rounding only


def choose_switches(
    contributions: np.ndarray,
    requirements: np.ndarray,
    initial: np.ndarray,
    max_switches: int,
    previous: np.ndarray,
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

    Returns
    -------
    ndarray of bool of shape (n_kernels, n_samples)

    Notes
    -----
    Several choices may need the same number of kernels. Then the largest sum of contributions wins, then the fewest
    changes, then the kernels that come first.

    Examples
    --------
    >>> import numpy as np
    >>> contributions = np.array([[0.7], [0.6], [-0.2], [0.0]])
    >>> on = np.ones(4, dtype=bool)
    >>> choose_switches(contributions, np.array([0.5]), on, 2, np.ones((4, 1), dtype=bool))[:, 0]
    array([ True,  True, False, False])
    >>> choose_switches(contributions, np.array([0.5]), on, 4, np.ones((4, 1), dtype=bool))[:, 0]
    array([ True, False, False, False])
    """
    on, off = np.flatnonzero(initial), np.flatnonzero(~initial)
    smallest_on, leave_order = _ranked(contributions[on].T, max_switches)
    smallest_off, enter_order = _ranked(-contributions[off].T, max_switches)
    lost = _running_sums(smallest_on)  # P_A(i): sum of the i smallest that are on, (n_samples, i)
    gained = _running_sums(-smallest_off)  # Q_B(j): sum of the j largest that are off, (n_samples, j)
    allowed = contributions[on].sum(axis=0) - requirements + TOLERANCE * np.maximum(1.0, np.abs(requirements))

    leaving, entering = _best_numbers(lost, gained, allowed, max_switches)
    feasible = leaving >= 0
    switches = np.repeat(initial[:, None], len(requirements), axis=1)
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


def _flip(switches: np.ndarray, order: np.ndarray, numbers: np.ndarray) -> None:
    """Flip the first `numbers` of the kernels in each row of `order`, (n_samples, n_ranks), in place."""
    ranks = np.arange(order.shape[1])
    samples, flipped = np.nonzero(ranks < numbers[:, None])
    kernels = order[samples, flipped]
    switches[kernels, samples] ^= True
