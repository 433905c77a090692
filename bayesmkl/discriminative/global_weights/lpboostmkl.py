r"""LP-β: SVMs of single kernels, combined by a linear program (Gehler and Nowozin 2009).

Every kernel has an SVM of its own, :math:`f_m`, which is trained first. Of scores in cross-validation,

.. math:: \max_{\beta \in \Delta,\, \xi \ge 0,\, \rho} \; \rho - \frac{1}{\nu n} \sum_i \xi_i
   \quad\text{subject to}\quad \sum_m \beta_m z_{mij} + \xi_i \ge \rho

finds weights for :math:`f = \sum_m \beta_m f_m`. The margins are :math:`z_{mi} = y_i f_m(x_i)` for two classes, and
:math:`z_{mij} = f_{m y_i}(x_i) - f_{mj}(x_i)` against every other class :math:`j`, with one :math:`\xi_i` per sample.

The dual weighs samples so that no kernel does well on them,

.. math:: \min_{u \ge 0,\, \gamma} \; \gamma \quad\text{subject to}\quad \sum_{ij} u_{ij} z_{mij} \le \gamma
   \;\text{ for all } m, \qquad \sum_j u_{ij} \le \frac{1}{\nu n}, \qquad \sum_{ij} u_{ij} = 1 .

At the optimum both are equal, :math:`\beta_m > 0` only where kernel `m` attains :math:`\gamma`, and at most a share
:math:`\nu` of the samples has a margin below :math:`\rho`. With :math:`\nu = 1` all samples weigh the same, and the
kernel of the largest mean margin gets all.

Departures: a sample that several folds validate counts several times. Each kernel may take its own `C` by accuracy in
the same folds, before the program; the paper chooses it beforehand, too. SVMs of kernels without weight are not
trained on all samples, as nothing asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative.folds import Folds
from bayesmkl.discriminative.global_weights.two_stage import fold_accuracy, fold_scores, solve_tasks
from bayesmkl.discriminative.problems import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.base import Stack


class MarginProgram(NamedTuple):
    r"""Solution of the linear program and of its dual.

    Parameters
    ----------
    kernel_weights : ndarray of shape (n_kernels,)
        :math:`\beta`, on the simplex.
    sample_weights : ndarray of shape (n_rows, n_rivals)
        :math:`u`, nonnegative with sum one.
    margin : float
        :math:`\rho`.
    objective : float
        :math:`\tfrac{1}{\nu n} \sum_i \xi_i - \rho` at the weights, lower is better.
    gap : float
        Its distance from the value of the dual at `sample_weights`, :math:`-\gamma`.
    """

    kernel_weights: np.ndarray
    sample_weights: np.ndarray
    margin: float
    objective: float
    gap: float


class LPBoostMKLResult(NamedTuple):
    r"""Result for the tasks that share kernel weights.

    Parameters
    ----------
    voters : MKLResult
        With `signed_dual` of shape (n_tasks, n_kernels, n_samples) and `intercept` of shape (n_tasks, n_kernels):
        coefficients of the SVM of every kernel, zero where it has no weight.
    C : ndarray of shape (n_kernels,)
        Loss factor of every kernel.
    margin : float
        :math:`\rho`.
    """

    voters: MKLResult
    C: np.ndarray
    margin: float


def fit_lpboostmkl(
    stack: Stack,
    targets: np.ndarray,
    folds: Folds,
    C_values: Sequence[float],
    nu: float,
    tol: float,
) -> LPBoostMKLResult:
    r"""Train SVMs in the folds, weigh the kernels by their scores, and train those with a weight on all samples.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
        Labels -1 and +1; several tasks are classes against the rest, +1 in one of them for every sample.
    folds : sequence of (ndarray, ndarray)
        Training and validation positions of every fold.
    C_values : sequence of float
        Loss factors that every kernel chooses from, by accuracy in the folds; the first of equal ones.
    nu : float
        :math:`\nu \in (0, 1]`, the largest share of samples below the margin.
    tol : float
        LibSVM's tolerance.
    """
    chosen = [_in_folds(kernel, targets, folds, C_values, tol) for kernel in stack.each()]
    C = np.array([best for best, _ in chosen])
    validated = np.concatenate([validation for _, validation in folds])
    margins = margins_of(np.stack([scores for _, scores in chosen]), targets[:, validated])
    found = maximize_margin(margins, nu)

    n_tasks, n_samples = targets.shape
    dual, intercept = np.zeros((n_tasks, stack.n_kernels, n_samples)), np.zeros((n_tasks, stack.n_kernels))
    kept = np.flatnonzero(found.kernel_weights)
    for m, kernel in zip(kept, stack.each(kept), strict=True):
        for c, svm in enumerate(solve_tasks(kernel, targets, Hinge(C[m]), tol)):
            dual[c, m], intercept[c, m] = svm.signed_dual, svm.intercept
    n_solves = n_tasks * (stack.n_kernels * len(C_values) * len(folds) + len(kept))
    voters = MKLResult(
        found.kernel_weights,
        dual,
        intercept,
        np.array([found.objective]),
        found.gap,
        Outcome.CONVERGED,
        n_solves,
    )
    return LPBoostMKLResult(voters, C, found.margin)


def margins_of(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    r"""Return the margins :math:`z` of every kernel.

    Parameters
    ----------
    scores : ndarray of shape (n_kernels, n_tasks, n_rows)
    targets : ndarray of shape (n_tasks, n_rows)

    Returns
    -------
    ndarray of shape (n_kernels, n_rows, n_rivals)
        With one rival for one task, ``n_tasks - 1`` for several.

    Examples
    --------
    >>> import numpy as np
    >>> margins_of(np.array([[[2.0, 1.0]]]), np.array([[1.0, -1.0]]))[0]
    array([[ 2.],
           [-1.]])
    >>> margins_of(np.array([[[2.0], [1.5], [-1.0]]]), np.array([[1.0], [-1.0], [-1.0]]))[0]
    array([[0.5, 3. ]])
    """
    if len(targets) == 1:
        return (targets[0] * scores[:, 0])[:, :, None]
    is_own = targets.T > 0.0  # (n_rows, n_tasks)
    by_row = np.swapaxes(scores, 1, 2)
    own, rivals = by_row[:, is_own], by_row[:, ~is_own].reshape(len(scores), len(is_own), -1)
    return own[:, :, None] - rivals


def maximize_margin(margins: np.ndarray, nu: float) -> MarginProgram:
    r"""Solve the linear program.

    Parameters
    ----------
    margins : ndarray of shape (n_kernels, n_rows, n_rivals)
    nu : float

    Examples
    --------
    The second kernel is better on average, and half of each is right on all samples:

    >>> import numpy as np
    >>> margins = np.array([[1.0, -0.5], [-0.5, 2.0]])[:, :, None]
    >>> maximize_margin(margins, nu=1.0).kernel_weights.tolist()
    [0.0, 1.0]
    >>> found = maximize_margin(margins, nu=0.5)
    >>> found.kernel_weights.round(3), round(found.margin, 3)
    (array([0.625, 0.375]), 0.438)
    """
    n_kernels, n_rows, n_rivals = margins.shape
    largest = float(np.abs(margins).max()) or 1.0  # the tolerances of the solver are absolute
    scaled = margins / largest
    n_pairs = n_rows * n_rivals
    of_row = sparse.csr_array(
        (np.ones(n_pairs), (np.arange(n_pairs), np.repeat(np.arange(n_rows), n_rivals)))
    )
    most = 1.0 / max(nu * n_rows, 1.0)  # weight of a sample, which cannot exceed that of all
    found = linprog(  # over beta, xi and rho
        np.r_[np.zeros(n_kernels), np.full(n_rows, most), -1.0],
        A_ub=sparse.hstack([-scaled.reshape(n_kernels, -1).T, -of_row, np.ones((n_pairs, 1))], format="csr"),
        b_ub=np.zeros(n_pairs),
        A_eq=np.r_[np.ones(n_kernels), np.zeros(n_rows + 1)][None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * (n_kernels + n_rows) + [(None, None)],
    )
    weights = np.maximum(found.x[:n_kernels], 0.0)
    weights /= weights.sum()
    sample_weights = np.maximum(-found.ineqlin.marginals, 0.0).reshape(n_rows, n_rivals)
    sample_weights /= sample_weights.sum()
    margin = largest * float(found.x[-1])
    short = np.maximum(margin - np.tensordot(weights, margins, 1).min(axis=1), 0.0)
    objective = most * float(short.sum()) - margin
    gamma = float(np.tensordot(margins, sample_weights, 2).max())
    return MarginProgram(weights, sample_weights, margin, objective, max(objective + gamma, 0.0))


def _in_folds(
    kernel: np.ndarray, targets: np.ndarray, folds: Folds, C_values: Sequence[float], tol: float
) -> tuple[float, np.ndarray]:
    """Return the best loss factor of one kernel, and the scores that it gives to the validated samples."""
    found = [fold_scores(kernel, targets, Hinge(C), folds, tol) for C in C_values]
    if len(found) == 1:
        return C_values[0], np.concatenate(found[0], axis=1)
    best = int(np.argmax([fold_accuracy(scores, targets, folds) for scores in found]))
    return C_values[best], np.concatenate(found[best], axis=1)
