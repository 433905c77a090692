r"""Gates by the expected success of each kernel: SwMKL, whose gates an SVM reads, and LD-MKL, where SVMs vote.

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

SwMKL: kernels weighted at every sample by their expected success (Kannao and Guha 2015).

Algorithm 2 of Moeller, Swaminathan and Venkatasubramanian (2016): the gates :math:`g_i` are regressions of where the
SVM of kernel `i` alone is right, and one more SVM is trained on

.. math:: \kappa(x, x') = \sum_i \frac{g_i(x)\, g_i(x')}{Z(x, x')}\, \kappa_i(x, x'), \qquad
   Z(x, x') = \sum_h g_h(x)\, g_h(x') .

Departures:

* Regressions leave (0, 1), and :math:`Z` can then be zero or negative: gates are clipped to ``[lowest_gate, 1]``.
* Regressions are close to one where a kernel is right and to the rate of chance where it is not, so that gates differ
  little. ``temperature`` takes their softmax in place of them, as LD-MKL does; None is the paper's. Of several
  kernels that are offered to the regressions, that with the most accurate last SVM in cross-validation is taken, of
  equally good ones the first. "auto" compares two temperatures, a soft and a sharp one, takes the soft one where
  regressions may also see the kernels themselves, and None where they do: those of a flexible kernel follow single
  training samples, and would decide at these alone.
* Division by :math:`Z` makes the kernel indefinite, not only its terms: ``psd="unit-norm"`` divides by
  :math:`\|g(x)\|\,\|g(x')\|` instead. That is :math:`\sum_i \hat g_i \kappa_i \hat g_i` with gates of unit length,
  positive semidefinite, and with the same diagonal. ``psd="paper"`` keeps :math:`Z`, and reports the smallest
  eigenvalue.

LD-MKL: votes of SVMs of single kernels, gated by their expected success.

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
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh
from scipy.special import logsumexp, softmax

from bayesmkl.discriminative.problems import InnerSolution, OnStep, silent
from bayesmkl.discriminative.svm.libsvm import FREE, solve_svm
from bayesmkl.discriminative.svm.one_kernel import (
    SVM,
    GatedKernel,
    OneKernel,
    classify_by_columns,
    one_class,
    row_blocks,
    scores,
)

SV_GATE = ("none", "paper")
BIAS = ("refit", "keep", "drop")
PSD = ("unit-norm", "paper")
AUTO = "auto"
SOFT, SHARP = 0.3, 0.05  # temperatures that "auto" compares
PAPER = "paper"  # the threshold 1 / n_kernels
TIE = 2.0  # of LibSVM's tolerance: regressions that differ by less may be equal

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
    tol : float
        LibSVM's tolerance.
    targets : {"cv", "train", "auto"}
        Whether successes are those at validation samples, where there are folds. "auto" takes those at training
        samples for regressions that see the kernel whose success they predict: a flexible kernel follows single
        training samples in both, and its gates would differ between training and new samples.
    order : ndarray of shape (n_train,) or None
        Order in which LibSVM sees the samples, on which its solutions depend up to its tolerance; None is that of the
        training samples.
    solver : InnerProblem or None
        Trains the classifiers from single columns of the kernels, in place of LibSVM; its accuracy replaces `tol`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel
    >>> rng = np.random.default_rng(0)
    >>> x, shuffled = rng.normal(size=40), rng.permutation(40)
    >>> y = np.where(x + rng.normal(size=40) > 0.0, 1.0, -1.0)
    >>> def train(x, y):
    ...     kernel = PrecomputedKernel(np.exp(-np.subtract.outer(x, x) ** 2))
    ...     return scores(kernel, SuccessOptions(tol=0.1, order=np.argsort(x)).classify(kernel, y))
    >>> bool(np.allclose(train(x, y)[shuffled], train(x[shuffled], y[shuffled]), rtol=0.0, atol=1e-12))
    True
    """

    C: float = 1.0
    gate_C: float = 1.0
    gate_epsilon: float = 0.1
    tol: float = 1e-3
    targets: str = "cv"
    order: np.ndarray | None = None
    solver: Any = None

    def classify(self, kernel: OneKernel, target: np.ndarray, subset: np.ndarray | None = None) -> SVM:
        """Train a classifier on one kernel, on all samples or on a subset."""
        if self.solver is not None:
            return classify_by_columns(kernel, target, self.solver._replace(C=self.C), self.tol, subset)
        return kernel.classify(target, self.C, self.tol, self._ordered(subset))

    def regress(self, kernel: OneKernel, success: np.ndarray, subset: np.ndarray | None = None) -> SVM:
        """Train a regression of success on one kernel, on all samples or on a subset."""
        return kernel.regress(success, self.gate_C, self.gate_epsilon, self.tol, self._ordered(subset))

    def _ordered(self, subset: np.ndarray | None) -> np.ndarray | None:
        if self.order is None or subset is None:
            return subset if self.order is None else self.order
        return self.order[np.isin(self.order, subset)]


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
        Draws the samples that candidates are compared on; None is seeded with 0.
    n_compared : int or None
        Number of samples that candidates are compared on, drawn at random; None takes all.
    """

    kernels: Sequence[Sequence[OneKernel]] = ()
    folds: Folds | None = None
    rng: np.random.Generator | None = None
    n_compared: int | None = None


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
    on_step: OnStep = silent,
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
    svms, outputs = [], []
    for m, kernel in enumerate(kernels):  # line 1
        svms.append(options.classify(kernel, target))
        outputs.append(scores(kernel, svms[m]))
        on_step(m + 1, "classifiers")
    compares = choose is not None and folds is not None
    some = _drawn(len(target), offer, options.order) if compares else None
    tried = folds if some is None or folds is None else [_within(fold, some) for fold in folds]
    classify = lambda m, train: options.classify(kernels[m], target, train)
    held_out = None if tried is None else _held_out(kernels, tried, classify)
    n_solves = len(kernels) * (2 + len(tried or ()) * (1 + len(candidates) * compares))

    def in_sample(seen: Sequence[OneKernel]) -> bool:
        return options.targets == "train" or (options.targets == "auto" and seen is kernels)

    def success_of(seen: Sequence[OneKernel]) -> np.ndarray:
        """Return where classifiers are right (line 2)."""
        told = np.stack(outputs) if held_out is None or in_sample(seen) else held_out
        return ((told > 0.0) == (target > 0.0)).astype(np.float64)

    def values_of(seen: Sequence[OneKernel]) -> np.ndarray:
        """Return regressions of successes at samples that they have not seen."""
        success = success_of(seen)
        return _held_out(seen, tried or (), lambda m, train: options.regress(seen[m], success[m], train))

    chosen = 0
    if choose is not None and held_out is not None:
        chosen = choose(held_out, [values_of(seen) for seen in candidates])
    gate_kernels = candidates[chosen]
    if some is not None and folds is not None and not in_sample(gate_kernels):
        held_out = _held_out(kernels, folds, classify)
        n_solves += len(kernels) * len(folds)
    success = success_of(gate_kernels)
    gate_svms = []
    for m, kernel in enumerate(gate_kernels):  # line 3
        gate_svms.append(options.regress(kernel, success[m]))
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


def _within(fold: tuple[np.ndarray, np.ndarray], some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    train, validation = (np.intersect1d(part, some) for part in fold)
    return train, validation


def _held_out(
    kernels: Sequence[OneKernel], folds: Folds, train_svm: Callable[[int, np.ndarray], SVM]
) -> np.ndarray:
    """Return values of SVMs at samples that they have not seen, (n_kernels, n_train), 0 at those in no fold.

    Takes what trains the SVM of a kernel, by its position, on samples.
    """
    values = np.zeros((len(kernels), len(kernels[0].training_rows)))
    for train, validation in folds:
        for m, kernel in enumerate(kernels):
            values[m, validation] = scores(kernel, train_svm(m, train), kernel.training_rows[validation])
    return values


def _drawn(n_samples: int, offer: Offer, order: np.ndarray | None) -> np.ndarray | None:
    """Return the samples to compare candidates on, None for all."""
    if offer.n_compared is None or offer.n_compared >= n_samples:
        return None
    rng = np.random.default_rng(0) if offer.rng is None else offer.rng
    drawn = rng.choice(n_samples, offer.n_compared, replace=False)
    return drawn if order is None else order[drawn]


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
    options: LDMKLOptions = LDMKLOptions(),  # noqa: B008
    first: Sequence[SVM] | None = None,
    *,
    on_step: OnStep = silent,
) -> Voters:
    """Train an SVM per kernel on the samples that are selected for it (lines 5 to 7).

    Parameters
    ----------
    kernels : sequence of OneKernel
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    gates : ndarray of shape (n_kernels, n_train)
    selected : ndarray of bool of shape (n_kernels, n_train)
    options : LDMKLOptions
        Of these `sv_gate`, `bias`, `squared_hinge`, and `C` and `tol` of `success`.
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
    retrained = np.array([len(np.unique(target[chosen])) > 1 for chosen in selected])
    voters, n_solves = [], 0
    for m, kernel in enumerate(kernels):
        subset = np.flatnonzero(selected[m]) if retrained[m] and not selected[m].all() else None
        if first is not None and subset is None:
            svm = first[m]
        else:
            svm = options.success.classify(kernel, target, subset)  # line 6
            n_solves += 1
        voters.append(_voter(kernel, svm, target, gates[m], options))  # line 7
        on_step(m + 1, "voters")
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
    return (row_gates * np.tanh(gate_outputs(kernels, svms, rows))).sum(axis=0)


def _voter(kernel: OneKernel, svm: SVM, target: np.ndarray, gates: np.ndarray, options: LDMKLOptions) -> SVM:
    """Gate the support vectors (eq. 6) and set the bias that they leave."""
    voter = svm
    if options.sv_gate == "paper":
        voter = voter._replace(coef=svm.coef * gates[svm.support])
    if options.bias == "drop":
        return voter._replace(intercept=0.0)
    alpha, C = np.abs(svm.coef), options.success.C
    free = alpha > FREE * C
    if not options.squared_hinge:
        free &= alpha < (1.0 - FREE) * C
    if options.bias == "keep" or not free.any():
        return voter
    margins = 1.0 - alpha[free] / C if options.squared_hinge else 1.0
    at = svm.support[free]
    without = scores(kernel, voter._replace(intercept=0.0), kernel.training_rows[at])
    return voter._replace(intercept=float(np.mean(target[at] * margins - without)))


# ------------------------------------------------------------------------------------------------------------ SwMKL


class SwMKLOptions(NamedTuple):
    """Normalization of the gates, and options of the success regressions.

    Parameters
    ----------
    psd : {"unit-norm", "paper"}
    lowest_gate : float
        Gates below this are raised to it.
    success : SuccessOptions
        SVMs of the single kernels; the last SVM has their `C` and `tol`.
    temperature : float, "auto" or None
        Of the softmax of the regressions; None takes them as they are.
    """

    psd: str = "unit-norm"
    lowest_gate: float = 1e-3
    success: SuccessOptions = SuccessOptions()
    temperature: float | str | None = None


class SwMKLResult(NamedTuple):
    """A fitted SwMKL.

    Parameters
    ----------
    signed_dual : ndarray of shape (n_train,)
    intercept : float
    gates : ndarray of shape (n_kernels, n_train)
        As they enter the kernel: clipped, and of unit length with ``psd="unit-norm"``.
    success : Success
        The SVMs of the single kernels, and the regressions.
    objective : float
        Dual value of the last SVM.
    gap : float
        Its primal minus its dual value; NaN with ``psd="paper"``, where the kernel is indefinite and there is no such
        bound.
    smallest_eigenvalue : float
        Of the combined kernel; NaN with ``psd="unit-norm"``, where none is negative, and where the kernel
        is not formed.
    temperature : float or None
        That of the gates.
    """

    signed_dual: np.ndarray
    intercept: float
    gates: np.ndarray
    success: Success
    objective: float
    gap: float
    smallest_eigenvalue: float
    temperature: float | None = None

    @property
    def chosen(self) -> int:
        """Position of the kernels that the regressions see among those offered."""
        return self.success.chosen

    @property
    def support(self) -> np.ndarray:
        """Positions of the last SVM's support vectors."""
        return np.flatnonzero(self.signed_dual)


def fit_swmkl(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    options: SwMKLOptions = SwMKLOptions(),  # noqa: B008
    offer: Offer = OWN,
    *,
    solve: Callable[[GatedKernel, np.ndarray], InnerSolution] | None = None,
    on_step: OnStep = silent,
) -> SwMKLResult:
    """Learn gates from the success of single kernels, then one SVM on the gated kernel.

    Parameters
    ----------
    kernels : sequence of OneKernel
        Precomputed or native ones.
    target : ndarray of shape (n_train,)
        Labels -1 and +1.
    options : SwMKLOptions
    offer : Offer
        Temperatures are compared where there are folds, and no `solve`.
    solve : callable, optional
        Trains the last SVM from single columns of the gated kernel, so that no kernel matrix is formed. By
        default the matrix is formed for LibSVM.
    on_step : callable, optional
        Called with the number of finished steps, two per kernel and the last SVM, and a status.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative.svm.native import native_kernel
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.where(X[:, 0] * (X[:, 1] > 0) > 0.2, 1.0, -1.0)
    >>> kernels = [native_kernel(Linear(), X), native_kernel(Gaussian(width=1.0), X)]
    >>> result = fit_swmkl(kernels, y)
    >>> rows = [kernel.rows(X[:5]) for kernel in kernels]
    >>> gates = swmkl_gates(kernels, result, rows, SwMKLOptions())
    >>> y[:5], swmkl_scores(kernels, result, rows, gates).round(1)
    (array([-1.,  1., -1.,  1., -1.]), array([-1.1, -0.1, -1.8,  1.3, -2.8]))
    """
    compares = solve is None and (offer.kernels or [kernels])[0] is not kernels
    compared = [_temperatures(options, seen is kernels, compares) for seen in offer.kernels or [kernels]]
    temperature = compared[0][0]

    def choose(scored: np.ndarray, values: Sequence[np.ndarray]) -> int:
        nonlocal temperature
        if solve is None and offer.folds is not None:
            chosen, temperature = _best_gates(kernels, target, options, values, compared, offer.folds)
        else:
            chosen = best_vote(scored, values, target, SOFT)
            temperature = compared[chosen][0]
        return chosen

    compare = choose if len(compared) > 1 or len(compared[0]) > 1 else None
    success = fit_success(
        kernels, target, options.success, offer, choose=compare, on_step=on_step
    )  # lines 1 to 3
    gates = _gates_from(success.outputs, options, temperature)
    gated = GatedKernel(tuple(kernels), gates[None], options.psd != "unit-norm")
    smallest = np.nan
    if solve is not None:
        solution = solve(gated, target)
    else:
        kernel = gated.dense()
        if options.psd != "unit-norm":
            smallest = smallest_eigenvalue(kernel)
        solution = _solve(kernel, target, options.success)  # line 4
    on_step(2 * len(kernels) + 1, "last SVM")
    gap = solution.gap if options.psd == "unit-norm" else np.nan
    dual, intercept, objective, _ = solution
    return SwMKLResult(dual, intercept, gates, success, objective, gap, smallest, temperature)


def swmkl_gates(
    gate_kernels: Sequence[OneKernel],
    result: SwMKLResult,
    rows: Sequence[np.ndarray],
    options: SwMKLOptions,
) -> np.ndarray:
    """Return the gates at rows of the gate kernels, shape (n_kernels, n_rows)."""
    outputs = gate_outputs(gate_kernels, result.success.gate_svms, rows)
    return _gates_from(outputs, options, result.temperature)


def swmkl_kernel(
    kernels: Sequence[OneKernel],
    train_gates: np.ndarray,
    rows: Sequence[np.ndarray],
    row_gates: np.ndarray,
    psd: str,
) -> np.ndarray:
    """Return the combined kernel of rows, shape (n_rows, n_train).

    Parameters
    ----------
    kernels : sequence of OneKernel
    train_gates : ndarray of shape (n_kernels, n_train)
    rows : sequence of ndarray
        One per kernel.
    row_gates : ndarray of shape (n_kernels, n_rows)
    psd : {"unit-norm", "paper"}
    """
    return GatedKernel(tuple(kernels), train_gates[None], psd != "unit-norm").block(rows, row_gates[None])


def swmkl_scores(
    kernels: Sequence[OneKernel],
    result: SwMKLResult,
    rows: Sequence[np.ndarray],
    row_gates: np.ndarray,
    psd: str = "unit-norm",
) -> np.ndarray:
    """Return the scores of rows with gates (n_kernels, n_rows), shape (n_rows,), in blocks of rows."""
    gated = GatedKernel(tuple(kernels), result.gates[None], psd != "unit-norm")
    support, out = result.support, np.empty(row_gates.shape[1])
    for part in row_blocks(len(out), len(support)):
        block = gated.block([of_all[part] for of_all in rows], row_gates[None, :, part], support)
        out[part] = block @ result.signed_dual[support]
    return out + result.intercept


def smallest_eigenvalue(kernel: np.ndarray) -> float:
    """Return the smallest eigenvalue of a symmetric matrix.

    Examples
    --------
    >>> import numpy as np
    >>> round(smallest_eigenvalue(np.array([[0.0, 2.0], [2.0, 0.0]])), 12)
    -2.0
    """
    return float(eigvalsh(kernel, subset_by_index=[0, 0])[0])


def _solve(kernel: np.ndarray, target: np.ndarray, options: SuccessOptions) -> InnerSolution:
    """Train the SVM on samples in a given order."""
    if (order := options.order) is None:
        return solve_svm(kernel, target, options.C, options.tol)
    solution = solve_svm(kernel[np.ix_(order, order)], target[order], options.C, options.tol)
    signed_dual = np.empty_like(solution.signed_dual)
    signed_dual[order] = solution.signed_dual
    return solution._replace(signed_dual=signed_dual)


def _temperatures(options: SwMKLOptions, own: bool, compares: bool) -> tuple[float | None, ...]:
    """Return the temperatures to compare for regressions that see the kernels themselves, or another one."""
    if not isinstance(options.temperature, str):
        return (options.temperature,)
    if own:
        return (None,)
    return (SHARP, SOFT) if compares else (SOFT,)


def _best_gates(
    kernels: Sequence[OneKernel],
    target: np.ndarray,
    options: SwMKLOptions,
    values: Sequence[np.ndarray],
    temperatures: Sequence[tuple[float | None, ...]],
    folds: Folds,
) -> tuple[int, float | None]:
    """Return candidate and temperature with which the last SVM is right most often at validation samples."""
    best, most = (0, temperatures[0][0]), -1
    for chosen, outputs in enumerate(values):
        for temperature in temperatures[chosen]:
            gates = _gates_from(outputs, options, temperature)
            kernel = GatedKernel(tuple(kernels), gates[None], options.psd != "unit-norm").dense()
            right = 0
            for train, validation in folds:
                labels = target[train]
                if one_class(labels):
                    right += int(np.sum(target[validation] == labels[0]))
                    continue
                svm = solve_svm(kernel[np.ix_(train, train)], labels, options.success.C, options.success.tol)
                scored = kernel[np.ix_(validation, train)] @ svm.signed_dual + svm.intercept
                right += int(np.sum((scored > 0.0) == (target[validation] > 0.0)))
            if right > most:
                best, most = (chosen, temperature), right
    return best


def _gates_from(outputs: np.ndarray, options: SwMKLOptions, temperature: float | None) -> np.ndarray:
    """Clip the regressions, or their softmax; with unit norm, divide by the length over the kernels."""
    outputs = outputs if temperature is None else softmax(outputs / temperature, axis=0)
    gates = np.clip(outputs, options.lowest_gate, 1.0)
    return gates / np.linalg.norm(gates, axis=0) if options.psd == "unit-norm" else gates


# ----------------------------------------------------------------------------------------------------------- LD-MKL


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
    on_step: OnStep = silent,
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
    >>> from bayesmkl.discriminative.localized.by_success import gated_vote
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
    steps: OnStep = lambda m, status: on_step(2 * len(kernels) + m, status)
    voters = fit_voters(kernels, target, gates, selected, options, first.svms, on_step=steps)
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
