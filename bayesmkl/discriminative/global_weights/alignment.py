r"""Kernel weights from alignments with the target, then one SVM on the combined kernel.

With the target matrix :math:`T = \frac1C \sum_{c=1}^C y_c y_c^\top` over the tasks that share weights
(:math:`yy^\top` for one task) and centered kernels :math:`K^c = HKH`:

* ratio (Qiu and Lane 2009; Wang et al. 2014, eq. 16): :math:`\eta_m \propto \langle K_m, T \rangle / \|K_m\|_F`;
* convex (He, Chang and Xie 2008; Wang et al. 2014, eq. 17): :math:`\min_{\eta \in \Delta} \|\sum_m \eta_m K_m -
  T\|_F^2`;
* align (Cortes, Mohri and Rostamizadeh 2012): :math:`\eta_m \propto \langle K_m^c, T \rangle / \|K_m^c\|_F`;
* alignf (same): :math:`\max_{\eta \ge 0} \langle K_\eta^c, T \rangle / \|K_\eta^c\|_F`, that is, :math:`\eta \propto
  \arg\min_{v \ge 0} v^\top M v - 2 v^\top a` with :math:`M_{mh} = \langle K_m^c, K_h^c \rangle`, :math:`a_m = \langle
  K_m^c, T \rangle`.

Departures: weights sum to one in all four (the paper of align and alignf has length one), so that :math:`C` means
what it means with uniform weights; a target is divided by its root mean square in `convex`, which changes nothing for
labels and makes regression targets comparable with kernels of unit diagonal; the SVM sees the kernels uncentered.

With weights :math:`w_i` of the samples, sample `i` stands for :math:`w_i` equal ones: products become
:math:`\langle K, T \rangle = \sum_{ij} w_i w_j K_{ij} T_{ij}`, and :math:`K^c = HKH^\top` with
:math:`H = I - 1 w^\top / \sum_i w_i`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.simplex import solve_nonnegative_qp, solve_simplex_qp
from bayesmkl.discriminative.global_weights.two_stage import Selection, shares, train_selected
from bayesmkl.discriminative.inner import InnerProblem, InnerSolution
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.kernels.alignment import frobenius_gram, frobenius_norms, target_products
from bayesmkl.kernels.stacks.base import StoredStack

METHODS = ("ratio", "convex", "align", "alignf")
CENTERED = ("align", "alignf")
WITH_GRAM = ("convex", "alignf")
CONSTANT = 1e-12  # of the mean self-similarity: what rounding leaves of a variance


class AlignmentOptions(NamedTuple):
    """Kind of alignment, and the tolerance of the SVM.

    Parameters
    ----------
    method : {"ratio", "convex", "align", "alignf"}
    tol : float
        Tolerance of the inner solver.
    """

    method: str = "alignf"
    tol: float = 1e-3


class InUnitVariance(NamedTuple):
    """An SVM on the kernel divided by its variance: `C` is relative to the variance of the samples."""

    inner: InnerProblem
    counts: np.ndarray | None = None  # how often samples count in the variance

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve, and return the dual and the objective for the kernel as it is."""
        variance = kernel_variance(kernel, self.counts)
        found = self.inner.solve(kernel / variance, target, tol)
        return InnerSolution(
            found.signed_dual / variance, found.intercept, found.objective / variance, found.gap / variance
        )


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


def fit_alignment(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: AlignmentOptions,
    gram: np.ndarray | None = None,
    counts: np.ndarray | None = None,
) -> MKLResult:
    """Align the kernels with the target, then train one SVM per task.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    options : AlignmentOptions
    gram : ndarray of shape (n_kernels, n_kernels), optional
        `frobenius_gram` of the stack, of centered kernels for alignf, where the caller has it.
    counts : ndarray of shape (n_samples,), optional
        How often samples count in the alignment; once by default.
    """
    selection = select_by_alignment(stack, targets, options.method, gram, counts)
    return train_selected(stack, targets, inner, options.tol, selection)


def select_by_alignment(
    stack: StoredStack,
    targets: np.ndarray,
    method: str,
    gram: np.ndarray | None = None,
    counts: np.ndarray | None = None,
) -> Selection:
    """Return the kernel weights of one of the four methods."""
    center = method in CENTERED
    products = target_products(stack, targets, center, counts) / len(targets)  # a
    if method not in WITH_GRAM:
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
