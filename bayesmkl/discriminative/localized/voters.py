"""One SVM per kernel, trained where the gate of its kernel is open, and the vote of all.

Lines 5 to 7 of algorithm 3 of Moeller, Swaminathan and Venkatasubramanian (2016), eqs. 6 and 7, at any gates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl.discriminative.svm.libsvm import FREE
from bayesmkl.discriminative.svm.one_kernel import SVM, OneKernel, one_class, scores

SV_GATE = ("none", "paper")
BIAS = ("refit", "keep", "drop")


class VoterOptions(NamedTuple):
    """Coefficients, intercepts and training of the SVMs.

    Parameters
    ----------
    sv_gate : {"none", "paper"}
        Whether coefficients are times the gates of their support vectors (eq. 6).
    bias : {"refit", "keep", "drop"}
        Intercepts that the gated coefficients leave; see `ldmkl`.
    C, tol : float
        Penalty of slack, and LibSVM's tolerance.
    squared_hinge : bool
        Whether the loss is the squared hinge; it decides which support vectors are free.
    """

    sv_gate: str = "none"
    bias: str = "refit"
    C: float = 1.0
    tol: float = 1e-3
    squared_hinge: bool = False


class Voters(NamedTuple):
    """One SVM per kernel.

    Parameters
    ----------
    svms : tuple of SVM
        With gates on their support vectors where asked for.
    retrained : ndarray of bool of shape (n_kernels,)
        False where the samples that were selected are of one class, and the SVM is that of all samples.
    n_solves : int
        Number of SVMs trained.
    """

    svms: tuple[SVM, ...]
    retrained: np.ndarray
    n_solves: int


def fit_voters(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    gates: np.ndarray,
    selected: np.ndarray,
    options: VoterOptions = VoterOptions(),  # noqa: B008
    first: Sequence[SVM] | None = None,
    *,
    on_step: Callable[[int], None] | None = None,
) -> Voters:
    """Train an SVM per kernel on the samples that are selected for it (lines 5 to 7).

    Parameters
    ----------
    kernels : sequence of OneKernel
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    gates : ndarray of shape (n_kernels, n_train)
    selected : ndarray of bool of shape (n_kernels, n_train)
    options : VoterOptions
    first : sequence of SVM, optional
        SVMs of the kernels on all samples; trained where they are needed by default.
    on_step : callable, optional
        Called with the number of finished voters.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel
    >>> x = np.array([-1.0, -0.8, 0.8, 1.0])
    >>> selected = np.array([[True, True, True, True], [True, True, False, False]])
    >>> kernels = [PrecomputedKernel(np.outer(x, x))] * 2
    >>> fit_voters(kernels, np.sign(x), np.full((2, 4), 0.5), selected).retrained
    array([ True, False])
    """
    retrained = np.array([_is_trainable(target[chosen]) for chosen in selected])
    voters, n_solves = [], 0
    for m, kernel in enumerate(kernels):
        subset = np.flatnonzero(selected[m]) if retrained[m] and not selected[m].all() else None
        if first is not None and subset is None:
            svm = first[m]
        else:
            svm = kernel.classify(target, options.C, options.tol, subset)  # line 6
            n_solves += 1
        voters.append(_voter(kernel, svm, target, gates[m], options))  # line 7
        if on_step is not None:
            on_step(m + 1)
    return Voters(tuple(voters), retrained, n_solves)


def gated_vote(
    kernels: Sequence[OneKernel], svms: Sequence[SVM], rows: Sequence[np.ndarray], row_gates: np.ndarray
) -> np.ndarray:
    """Return the gated vote at rows (eq. 7), shape (n_rows,), strictly between -1 and 1 where gates sum to one.

    Parameters
    ----------
    kernels : sequence of OneKernel
    svms : sequence of SVM
    rows : sequence of ndarray
        One per kernel.
    row_gates : ndarray of shape (n_kernels, n_rows)
    """
    votes = [scores(*three) for three in zip(kernels, svms, rows, strict=True)]
    return (row_gates * np.tanh(np.stack(votes))).sum(axis=0)


def _is_trainable(target: np.ndarray) -> bool:
    return len(target) > 1 and not one_class(target)


def _voter(kernel: OneKernel, svm: SVM, target: np.ndarray, gates: np.ndarray, options: VoterOptions) -> SVM:
    """Gate the support vectors (eq. 6) and set the bias that they leave."""
    voter = svm
    if options.sv_gate == "paper":
        voter = voter._replace(coef=svm.coef * gates[svm.support])
    if options.bias == "drop":
        return voter._replace(intercept=0.0)
    alpha, C = np.abs(svm.coef), options.C
    free = alpha > FREE * C
    if not options.squared_hinge:
        free &= alpha < (1.0 - FREE) * C
    if options.bias == "keep" or not free.any():
        return voter
    margins = 1.0 - alpha[free] / C if options.squared_hinge else 1.0
    at = svm.support[free]
    without = scores(kernel, voter._replace(intercept=0.0), kernel.training_rows[at])
    return voter._replace(intercept=float(np.mean(target[at] * margins - without)))
