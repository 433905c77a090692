r"""Uniform weights: one SVM on the mean of all kernels.

.. math:: K = \frac{1}{P} \sum_{m=1}^P K_m

The rule-based baseline of the field (Gönen and Alpaydın 2011, "RBMKL"). The mean instead of the sum only rescales
:math:`C`.
"""

from __future__ import annotations

import numpy as np

from bayesmkl.discriminative.global_weights.two_stage import Selection, train_selected
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.kernels.stacks.base import StoredStack


def fit_uniform(stack: StoredStack, targets: np.ndarray, inner: InnerProblem, tol: float) -> MKLResult:
    """Train one SVM per task on the mean of the kernels.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    inner : InnerProblem
    tol : float
        Tolerance of the inner solver.
    """
    weights = np.full(stack.n_kernels, 1.0 / stack.n_kernels)
    return train_selected(stack, targets, inner, tol, Selection(weights))
