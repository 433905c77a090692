r"""The best single kernel, chosen by cross-validation within the training samples.

.. math:: m^\star = \arg\max_m \frac{1}{F} \sum_{f=1}^F \operatorname{accuracy}_f(K_m)

All kernels see the same folds, and no kernel sees a test sample: Wang et al. (2014) call the method SVM(best). Of
kernels with equal accuracy the first is taken.
"""

from __future__ import annotations

import numpy as np

from bayesmkl.discriminative.global_weights.two_stage import (
    Folds,
    Selection,
    fold_accuracy,
    fold_scores,
    train_selected,
)
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.kernels.stacks.base import StoredStack


def fit_best_kernel(
    stack: StoredStack, targets: np.ndarray, inner: InnerProblem, folds: Folds, tol: float
) -> tuple[MKLResult, np.ndarray]:
    """Train on the kernel of highest accuracy in cross-validation.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
        Labels -1 and +1; one row per class where there are several.
    inner : InnerProblem
    folds : sequence of (ndarray, ndarray)
        Training and validation positions of every fold.
    tol : float
        Tolerance of the inner solver.

    Returns
    -------
    result : MKLResult
        Weight one for the chosen kernel.
    accuracies : ndarray of shape (n_kernels,)
        Mean over folds.
    """
    accuracies = np.array(
        [cross_validate_kernel(kernel, targets, inner, folds, tol) for kernel in stack.each()]
    )
    weights = np.zeros(stack.n_kernels)
    weights[np.argmax(accuracies)] = 1.0
    n_solves = stack.n_kernels * len(folds) * len(targets)
    return train_selected(stack, targets, inner, tol, Selection(weights, n_solves=n_solves)), accuracies


def cross_validate_kernel(
    kernel: np.ndarray, targets: np.ndarray, inner: InnerProblem, folds: Folds, tol: float
) -> float:
    """Return the mean accuracy of one kernel, shape (n_samples, n_samples), over the folds."""
    return fold_accuracy(fold_scores(kernel, targets, inner, folds, tol), targets, folds)
