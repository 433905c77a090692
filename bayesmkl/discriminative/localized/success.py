r"""Success regressions of single kernels: the first two steps of SwMKL and LD-MKL.

One support vector classifier :math:`f_i` per kernel says which samples the kernel gets right,
:math:`s_i(x_j) = \delta(y_j, f_i(x_j)) \in \{0, 1\}`, and a support vector regression :math:`g_i` of these successes
on the samples says where to expect them (lines 1 to 3 of algorithms 2 and 3 of Moeller, Swaminathan and
Venkatasubramanian 2016; Kannao and Guha 2015). Predictions of training samples are the paper's; a flexible kernel
gets all of them right, and then its gate is constant. Predictions in cross-validation avoid that.

:math:`\delta` is the indicator of a success, and nothing holds regressions to (0, 1): what their values need
is up to the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl.discriminative.svm.one_kernel import SVM, OneKernel, scores

__all__ = ["Folds", "Success", "SuccessOptions", "fit_success", "gate_outputs"]

Folds = Sequence[tuple[np.ndarray, np.ndarray]]


class SuccessOptions(NamedTuple):
    r"""SVMs of the first two steps; the defaults are LibSVM's.

    Parameters
    ----------
    C : float
        Loss factor of the classifiers.
    gate_C : float
        Loss factor of the regressions.
    gate_epsilon : float
        Deviations of a gate from 0 or 1 up to this cost nothing.
    gate_subsample : int or None
        Maximum number of samples that a regression is trained on, drawn at random; None takes all.
    tol : float
        LibSVM's tolerance.
    """

    C: float = 1.0
    gate_C: float = 1.0
    gate_epsilon: float = 0.1
    gate_subsample: int | None = None
    tol: float = 1e-3


class Success(NamedTuple):
    """Success of the single kernels.

    Parameters
    ----------
    svms : tuple of SVM
        Classifiers on all samples, one per kernel.
    success : ndarray of shape (n_kernels, n_train)
        1 where the classifier is right, 0 elsewhere.
    gate_svms : tuple of SVM
        Regressions of the successes, one per kernel.
    outputs : ndarray of shape (n_kernels, n_train)
        Values of the regressions at the training samples.
    n_solves : int
        Number of SVMs trained.
    """

    svms: tuple[SVM, ...]
    success: np.ndarray
    gate_svms: tuple[SVM, ...]
    outputs: np.ndarray
    n_solves: int


def fit_success(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    options: SuccessOptions = SuccessOptions(),  # noqa: B008
    gate_kernels: Sequence[OneKernel] | None = None,
    folds: Folds | None = None,
    rng: np.random.Generator | None = None,
    *,
    on_step: Callable[[int, str], None] | None = None,
) -> Success:
    """Train one classifier and one regression per kernel.

    Parameters
    ----------
    kernels : sequence of OneKernel
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    options : SuccessOptions
    gate_kernels : sequence of OneKernel, optional
        Kernels of the regressions, one per kernel; the same kernels by default.
    folds : sequence of (ndarray, ndarray), optional
        Training and validation positions. With them, successes are those at validation samples; without, those of
        the classifiers at their own training samples (the paper).
    rng : Generator, optional
        Draws the samples of ``options.gate_subsample``, the same for all kernels; seeded with 0 by default.
    on_step : callable, optional
        Called with the number of finished steps, two per kernel, and a status.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel
    >>> x, z = np.array([[-1.0, -0.8, 0.8, 1.0], [-2.0, -2.0, -1.0, 2.0]])
    >>> kernels = [PrecomputedKernel(np.outer(x, x)), PrecomputedKernel(np.outer(z, z))]
    >>> fit_success(kernels, np.array([-1.0, -1.0, 1.0, 1.0])).success
    array([[1., 1., 1., 1.],
           [1., 1., 0., 1.]])
    """
    svms, outputs = [], []
    for m, kernel in enumerate(kernels):  # line 1
        svms.append(kernel.classify(target, options.C, options.tol))
        outputs.append(
            scores(kernel, svms[m]) if folds is None else _validated(kernel, target, options, folds)
        )
        if on_step is not None:
            on_step(m + 1, "classifiers")
    success = ((np.stack(outputs) > 0.0) == (target > 0.0)).astype(np.float64)  # line 2

    gate_kernels = kernels if gate_kernels is None else gate_kernels
    subset = _subsample(len(target), options.gate_subsample, rng)
    gate_svms = []
    for m, kernel in enumerate(gate_kernels):  # line 3
        svm = kernel.regress(success[m], options.gate_C, options.gate_epsilon, options.tol, subset)
        gate_svms.append(svm)
        if on_step is not None:
            on_step(len(kernels) + m + 1, "gates")
    n_solves = len(kernels) * (2 + (0 if folds is None else len(folds)))
    fitted = gate_outputs(gate_kernels, gate_svms)
    return Success(tuple(svms), success, tuple(gate_svms), fitted, n_solves)


def gate_outputs(
    gate_kernels: Sequence[OneKernel],
    gate_svms: Sequence[SVM],
    rows: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """Return the regressions' values at rows, one array per kernel, or at the training samples.

    Returns
    -------
    ndarray of shape (n_kernels, n_rows)
    """
    of_kernels = [None] * len(gate_kernels) if rows is None else rows
    return np.stack([scores(*three) for three in zip(gate_kernels, gate_svms, of_kernels, strict=True)])


def _validated(kernel: OneKernel, target: np.ndarray, options: SuccessOptions, folds: Folds) -> np.ndarray:
    """Score every sample by an SVM that has not seen it."""
    outputs = np.empty(len(target))
    for train, validation in folds:
        svm = kernel.classify(target, options.C, options.tol, train)
        outputs[validation] = scores(kernel, svm, kernel.training_rows[validation])
    return outputs


def _subsample(n_samples: int, limit: int | None, rng: np.random.Generator | None) -> np.ndarray | None:
    if limit is None or limit >= n_samples:
        return None
    generator = np.random.default_rng(0) if rng is None else rng
    return np.sort(generator.choice(n_samples, limit, replace=False))
