r"""SVMs of single kernels: where they succeed (the first two steps of SwMKL and LD-MKL), and their gated vote.

One support vector classifier :math:`f_i` per kernel says which samples the kernel gets right,
:math:`s_i(x_j) = \delta(y_j, f_i(x_j)) \in \{0, 1\}`, and a support vector regression :math:`g_i` of these successes
on the samples says where to expect them (lines 1 to 3 of algorithms 2 and 3 of Moeller, Swaminathan and
Venkatasubramanian 2016; Kannao and Guha 2015). Predictions of training samples are the paper's; a flexible kernel
gets all of them right, and then its gate is constant. Predictions in cross-validation avoid that.

What regressions see may be chosen among several kernels. Regressions of the training part of every fold are then
evaluated at its validation part, and a method says by its own read-out, a vote or an SVM, which serve it best.

:math:`\delta` is the indicator of a success, and nothing holds regressions to (0, 1): what their values need
is up to the methods.

The vote is lines 5 to 7 of algorithm 3, eqs. 6 and 7, at any gates: one SVM per kernel, trained where the gate of its
kernel is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from bayesmkl.discriminative.svm.libsvm import FREE
from bayesmkl.discriminative.svm.one_kernel import SVM, OneKernel, one_class, scores

SV_GATE = ("none", "paper")
BIAS = ("refit", "keep", "drop")

Folds = Sequence[tuple[np.ndarray, np.ndarray]]
# takes scores of the single kernels, and values of the regressions of every candidate, all (n_kernels, n_train) and
# at validation samples; returns the position of the best candidate
Choose = Callable[[np.ndarray, Sequence[np.ndarray]], int]


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
    targets : {"cv", "train", "auto"}
        Whether successes are those at validation samples, where there are folds. "auto" takes those at training
        samples for regressions that see the kernel whose success they predict: a flexible kernel follows single
        training samples in both, and its gates would differ between training and new samples.
    """

    C: float = 1.0
    gate_C: float = 1.0
    gate_epsilon: float = 0.1
    gate_subsample: int | None = None
    tol: float = 1e-3
    targets: str = "cv"


class Offer(NamedTuple):
    """What regressions may see, and how samples are drawn.

    Parameters
    ----------
    kernels : sequence of sequences of OneKernel
        Candidates, each of one kernel for every kernel; none are the kernels themselves. Several need `folds` and
        somebody who chooses.
    folds : sequence of (ndarray, ndarray) or None
        Training and validation positions. With them, successes are those at validation samples; without, those of
        the classifiers at their own training samples (the paper).
    rng : Generator or None
        Draws the samples of `gate_subsample`, the same for all kernels; None is seeded with 0.
    order : ndarray of shape (n_train,) or None
        Samples in the order in which they are drawn from; None is that of the training samples.
    """

    kernels: Sequence[Sequence[OneKernel]] = ()
    folds: Folds | None = None
    rng: np.random.Generator | None = None
    order: np.ndarray | None = None


OWN = Offer()


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
    chosen : int
        Position of the kernels that the regressions see among those offered.
    """

    svms: tuple[SVM, ...]
    success: np.ndarray
    gate_svms: tuple[SVM, ...]
    outputs: np.ndarray
    n_solves: int
    chosen: int = 0


def fit_success(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    options: SuccessOptions = SuccessOptions(),  # noqa: B008
    offer: Offer = OWN,
    *,
    choose: Choose | None = None,
    on_step: Callable[[int, str], None] | None = None,
) -> Success:
    """Train one classifier and one regression per kernel.

    Parameters
    ----------
    kernels : sequence of OneKernel
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    options : SuccessOptions
    offer : Offer
    choose : callable, optional
        Chooses among the kernels that are offered; see `Choose`.
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
    folds, candidates = offer.folds, offer.kernels or [kernels]
    svms, outputs, held_out = [], [], []
    for m, kernel in enumerate(kernels):  # line 1
        svms.append(kernel.classify(target, options.C, options.tol))
        outputs.append(scores(kernel, svms[m]))
        if folds is not None:
            held_out.append(_validated(kernel, target, options, folds))
        if on_step is not None:
            on_step(m + 1, "classifiers")

    def success_of(gate_kernels: Sequence[OneKernel]) -> np.ndarray:
        """Return where classifiers are right (line 2)."""
        in_sample = options.targets == "train" or (options.targets == "auto" and gate_kernels is kernels)
        told = outputs if folds is None or in_sample else held_out
        return ((np.stack(told) > 0.0) == (target > 0.0)).astype(np.float64)

    subset = _subsample(len(target), options.gate_subsample, offer)
    n_solves = len(kernels) * (2 + (0 if folds is None else len(folds)))
    chosen = 0
    if choose is not None and folds is not None:
        values = [_values_held_out(seen, success_of(seen), options, folds, subset) for seen in candidates]
        chosen = choose(np.stack(held_out), values)
        n_solves += len(candidates) * len(kernels) * len(folds)
    gate_kernels = candidates[chosen]
    success = success_of(gate_kernels)
    gate_svms = []
    for m, kernel in enumerate(gate_kernels):  # line 3
        svm = kernel.regress(success[m], options.gate_C, options.gate_epsilon, options.tol, subset)
        gate_svms.append(svm)
        if on_step is not None:
            on_step(len(kernels) + m + 1, "gates")
    fitted = gate_outputs(gate_kernels, gate_svms)
    return Success(tuple(svms), success, tuple(gate_svms), fitted, n_solves, chosen)


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


def best_vote(
    scored: np.ndarray, values: Sequence[np.ndarray], target: np.ndarray, temperature: float
) -> int:
    """Return the candidate whose gated vote is right most often, of equally good ones the last; see `Choose`.

    Parameters
    ----------
    scored : ndarray of shape (n_kernels, n_train)
        Scores of the single kernels.
    values : sequence of ndarray of shape (n_kernels, n_train)
        Values of the regressions of every candidate.
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    temperature : float
        Of the softmax that makes gates of the values.

    Examples
    --------
    >>> import numpy as np
    >>> scored = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> best_vote(scored, [np.eye(2), np.eye(2)[::-1]], np.array([1.0, 1.0]), 0.1)
    0
    """
    votes = [(softmax(h / temperature, axis=0) * np.tanh(scored)).sum(axis=0) for h in values]
    right = [int(np.sum((vote > 0.0) == (target > 0.0))) for vote in votes]
    return len(right) - 1 - int(np.argmax(right[::-1]))


def _validated(kernel: OneKernel, target: np.ndarray, options: SuccessOptions, folds: Folds) -> np.ndarray:
    """Score every sample by an SVM that has not seen it."""
    outputs = np.empty(len(target))
    for train, validation in folds:
        svm = kernel.classify(target, options.C, options.tol, train)
        outputs[validation] = scores(kernel, svm, kernel.training_rows[validation])
    return outputs


def _values_held_out(
    gate_kernels: Sequence[OneKernel],
    success: np.ndarray,
    options: SuccessOptions,
    folds: Folds,
    subset: np.ndarray | None,
) -> np.ndarray:
    """Return values of regressions at samples that they have not seen, (n_kernels, n_train)."""
    values = np.empty_like(success)
    for train, validation in folds:
        some = train if subset is None else np.intersect1d(train, subset)
        some = some if some.size else train
        for m, kernel in enumerate(gate_kernels):
            svm = kernel.regress(success[m], options.gate_C, options.gate_epsilon, options.tol, some)
            values[m, validation] = scores(kernel, svm, kernel.training_rows[validation])
    return values


def _subsample(n_samples: int, limit: int | None, offer: Offer) -> np.ndarray | None:
    if limit is None or limit >= n_samples:
        return None
    rng = np.random.default_rng(0) if offer.rng is None else offer.rng
    drawn = rng.choice(n_samples, limit, replace=False)
    return np.sort(drawn if offer.order is None else offer.order[drawn])


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
