r"""LD-MKL: votes of SVMs of single kernels, gated by their expected success.

Algorithm 3 of Moeller, Swaminathan and Venkatasubramanian (2016). Gates are the softmax of regressions of success;
every kernel's SVM is trained on the samples where its gate is above :math:`1/m`, or on all of them, and

.. math:: \bar f_i(x) = \sum_j \alpha_{ij} y_j g_i(x_j)\, \kappa_i(x_j, x), \qquad
   f(x) = \sum_i g_i(x) \tanh \bar f_i(x)

(their eqs. 6 and 7). No kernel matrix is needed, nor a last SVM on all kernels together.

What the paper leaves open, as options:

* Eq. 6 has no bias although SVMs of LibSVM have one. ``bias="keep"`` adds it, ``"drop"`` leaves it out as printed,
  ``"refit"`` (default) averages :math:`y_k - \bar f_i(x_k)` over the free support vectors; where there are none, it
  keeps LibSVM's.
  With the squared hinge loss every support vector is free, with margin :math:`1 - \alpha_k / C` instead of one.
* Gates on support vectors break the balance :math:`\sum_j \alpha_j y_j = 0` and move the scores. ``sv_gate="none"``
  (default) votes with the SVMs as they are trained, ``"paper"`` is eq. 6.
* Values in (0, 1) make a flat softmax, :math:`(1, 0) \to (.73, .27)`: it can be taken at ``outputs / temperature``.
* What regressions see is not said. Where several kernels are offered, that whose gated vote is right most often at
  validation samples is taken; of equal ones the last.
* Where many kernels succeed about equally often gates are nearly flat, and which of them are above :math:`1/m` is
  decided by less than the accuracy of the regressions. Few samples are left to some SVMs, of unequal classes, and the
  vote can be of one class everywhere. ``threshold=0.0`` (default) keeps all samples: the first SVMs vote, and
  gates act in the vote alone. ``"paper"`` is :math:`1/m`.
* "Above :math:`1/m`" is empty for one kernel and for identical ones: the threshold itself counts as above. Ties are
  not rare otherwise. Where a support vector of the regression is free, its value is 0 or 1 up to exactly the width of
  the tube, the same for many kernels: values are equal if they are so up to twice LibSVM's tolerance. With `strict`
  they have to be above, as printed.
* Samples above the threshold may be of one class, or fewer than two: then the first SVM is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from bayesmkl.discriminative.localized.success import (
    OWN,
    Offer,
    SuccessOptions,
    VoterOptions,
    best_vote,
    fit_success,
    fit_voters,
    gate_outputs,
)
from bayesmkl.discriminative.svm.one_kernel import SVM, OneKernel

PAPER = "paper"  # the threshold 1 / n_kernels
TIE = 2.0  # of LibSVM's tolerance: regressions that differ by less may be equal


class LDMKLOptions(NamedTuple):
    """Options that the paper leaves open; see the module's documentation.

    Parameters
    ----------
    sv_gate : {"none", "paper"}
    bias : {"refit", "keep", "drop"}
    temperature : float
        Of the softmax, above 0; 1 is the paper's.
    threshold : float or "paper"
        Least gate of the samples that an SVM is trained on again; 0 keeps all of them, "paper" is :math:`1/m`.
    success : SuccessOptions
        SVMs of the single kernels.
    squared_hinge : bool
        Whether their loss is the squared hinge; it decides which support vectors are free.
    strict : bool
        Whether gates have to be above the threshold: no sample whose gate is equal to it, exactly or up to the
        tolerance, is kept.
    """

    sv_gate: str = "none"
    bias: str = "refit"
    temperature: float = 1.0
    threshold: float | str = 0.0
    success: SuccessOptions = SuccessOptions()
    squared_hinge: bool = False
    strict: bool = False

    @property
    def voters(self) -> VoterOptions:
        """What the SVMs that vote need of them."""
        return VoterOptions(self.sv_gate, self.bias, self.success.C, self.success.tol, self.squared_hinge)


class LDMKLResult(NamedTuple):
    """A fitted LD-MKL.

    Parameters
    ----------
    svms : tuple of SVM
        The voters, one per kernel, with gates on their support vectors where asked for.
    gate_svms : tuple of SVM
        Regressions of success, one per kernel.
    gates : ndarray of shape (n_kernels, n_train)
        At the training samples; they sum to one.
    success : ndarray of shape (n_kernels, n_train)
        1 where the first SVM of a kernel is right, 0 elsewhere.
    n_selected : ndarray of shape (n_kernels,)
        Samples above the threshold.
    retrained : ndarray of bool of shape (n_kernels,)
        False where the samples above the threshold are of one class, and the first SVM was kept.
    n_solves : int
        Number of SVMs trained.
    chosen : int
        Position of the kernels that the regressions see among those offered.
    """

    svms: tuple[SVM, ...]
    gate_svms: tuple[SVM, ...]
    gates: np.ndarray
    success: np.ndarray
    n_selected: np.ndarray
    retrained: np.ndarray
    n_solves: int
    chosen: int = 0

    @property
    def support(self) -> np.ndarray:
        """Positions of the samples that support any of the voters."""
        return np.unique(np.concatenate([svm.support for svm in self.svms]))


def fit_ldmkl(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    options: LDMKLOptions = LDMKLOptions(),  # noqa: B008
    offer: Offer = OWN,
    *,
    on_step: Callable[[int, str], None] | None = None,
) -> LDMKLResult:
    """Learn gates from the success of single kernels, and SVMs on the samples where their gate is open.

    Parameters
    ----------
    kernels : sequence of OneKernel
        Precomputed or native ones.
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    options : LDMKLOptions
    offer : Offer
    on_step : callable, optional
        Called with the number of finished steps, three per kernel, and a status.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.localized.success import gated_vote
    >>> from bayesmkl.discriminative.svm.native import native_kernel
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.where(X[:, 0] * (X[:, 1] > 0) > 0.2, 1.0, -1.0)
    >>> kernels = [native_kernel(Linear(), X), native_kernel(Gaussian(width=1.0), X)]
    >>> fit_ldmkl(kernels, y, LDMKLOptions(threshold="paper")).n_selected
    array([ 7, 59])
    >>> fit_ldmkl(kernels, y, LDMKLOptions(threshold="paper", strict=True)).n_selected
    array([ 1, 53])
    >>> result = fit_ldmkl(kernels, y)
    >>> result.n_selected
    array([60, 60])
    >>> rows = [kernel.rows(X[:5]) for kernel in kernels]
    >>> y[:5], gated_vote(kernels, result.svms, rows, ldmkl_gates(kernels, result, rows)).round(1)
    (array([-1.,  1., -1.,  1., -1.]), array([-0.8, -0.2, -0.9,  0.9, -0.9]))
    """

    def choose(scored: np.ndarray, values: Sequence[np.ndarray]) -> int:
        return best_vote(scored, values, target, options.temperature)

    compare = choose if len(offer.kernels) > 1 else None
    first = fit_success(
        kernels, target, options.success, offer, choose=compare, on_step=on_step
    )  # lines 1 to 3
    gates = softmax(first.outputs / options.temperature, axis=0)  # line 4
    selected = _above_threshold(first.outputs, options)
    steps = None if on_step is None else lambda m: on_step(2 * len(kernels) + m, "voters")
    voters = fit_voters(kernels, target, gates, selected, options.voters, first.svms, on_step=steps)
    return LDMKLResult(
        voters.svms,
        first.gate_svms,
        gates,
        first.success,
        selected.sum(axis=1),
        voters.retrained,
        first.n_solves + voters.n_solves,
        first.chosen,
    )


def ldmkl_gates(
    gate_kernels: Sequence[OneKernel],
    result: LDMKLResult,
    rows: Sequence[np.ndarray],
    temperature: float = 1.0,
) -> np.ndarray:
    """Return the gates at rows of the gate kernels, shape (n_kernels, n_rows); they sum to one."""
    return softmax(gate_outputs(gate_kernels, result.gate_svms, rows) / temperature, axis=0)


def _above_threshold(outputs: np.ndarray, options: LDMKLOptions) -> np.ndarray:
    """Compare gates with the threshold on the scale of the regressions, where the tolerance is."""
    share = 1.0 / len(outputs) if isinstance(options.threshold, str) else options.threshold
    if share == 0.0:
        return np.ones(outputs.shape, dtype=bool)
    level = options.temperature * (np.log(share) + logsumexp(outputs / options.temperature, axis=0))
    if options.strict:
        return outputs > level + TIE * options.success.tol
    return outputs >= level - TIE * options.success.tol
