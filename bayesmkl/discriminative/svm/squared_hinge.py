"""Support vector machine with squared slacks on one combined kernel, in the dual, solved by LibSVM."""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVC

from bayesmkl._utils.units import unit_of
from bayesmkl.discriminative.svm.libsvm import CACHE_MB, train

FINEST = 1e-5  # tolerance beyond which LibSVM's single precision decides
STEPS_PER_SAMPLE = 100  # about one is enough for most problems


def solve_squared_hinge(kernel: np.ndarray, target: np.ndarray, reg: float, tol: float = 1e-3) -> np.ndarray:
    r"""Solve an SVM with squared slacks, whose dual has no upper bounds and the kernel :math:`K + \lambda I`.

    Its objective, :math:`\tfrac12 \|w\|^2 + \tfrac1{2\lambda} \sum_i \xi_i^2`, is at most :math:`n / 2 \lambda`, so
    that no slack is above :math:`\sqrt n`, and no dual above :math:`\sqrt n / \lambda`; LibSVM's bound is twice
    that. Where it does not end, its last duals are returned.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
    target : ndarray of shape (n_samples,)
        Labels -1 and +1, both of them.
    reg : float
        :math:`\lambda > 0`.
    tol : float
        LibSVM's tolerance.

    Returns
    -------
    ndarray of shape (n_samples,)
        Signed duals, up to the accuracy of LibSVM.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-2.0, 1.0, 3.0])
    >>> solve_squared_hinge(np.outer(x, x), np.array([-1.0, 1.0, 1.0]), reg=0.1, tol=1e-5).round(3)
    array([-0.217,  0.217,  0.   ])
    """
    shifted = kernel.copy()
    np.einsum("ii->i", shifted)[:] += reg
    unit = unit_of(float(shifted.diagonal().max()))
    if unit != 1.0:
        shifted /= unit
    svm = SVC(
        kernel="precomputed",
        C=2.0 * np.sqrt(len(target)) * unit / reg,
        tol=max(tol, FINEST),
        max_iter=round(STEPS_PER_SAMPLE * len(target)),
        cache_size=CACHE_MB,
    )
    return train(svm, shifted, target, None)[0] / unit
