r"""Result of SAMKL, and patterns of switches for new samples (Liu et al. 2014, section 4.2).

Which kernels are good for a new sample is inferred together with its label: among the patterns
:math:`\mathcal{H}` of the training samples,

.. math:: s_h(x) = \sum_p h_p \gamma_p \sum_j v_j h_{jp} K_p(x, x_j) + b,

the pattern with the largest :math:`|s_h(x)|` wins (eq. 17), or, when a class is compared to others, the largest
:math:`s_h(x)` (eq. 18). The rules differ for two classes: the first one looks for the surest pattern, the second one
for that in favor of the class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.validation import check_choice
from bayesmkl.kernels.stacks.base import StoredStack

RULES = ("surest", "one-versus-rest")
SMALLEST_MARGIN = 1e-3  # of tau; the penalty of a violation grows to 1000 C there


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
    def patterns(self) -> np.ndarray:
        """Return the different switches of training samples, (n_patterns, n_kernels) of bool."""
        return np.unique(self.switches.T, axis=0)


class Inference(NamedTuple):
    """Scores of new samples, and the kernels that they were given.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    switches : ndarray of bool of shape (n_kernels, n_rows)
    """

    scores: np.ndarray
    switches: np.ndarray


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


def infer_switches(
    stack: StoredStack, result: SAMKLResult, rule: str = "surest", normalize: bool = False
) -> Inference:
    r"""Score new samples with the training pattern that suits them best.

    Parameters
    ----------
    stack : StoredStack
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
    >>> from bayesmkl.discriminative.localized.samkl import SAMKLOptions, fit_samkl
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
