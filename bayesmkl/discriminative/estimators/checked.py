"""What all discriminative estimators share: checks and clipping of kernels, weights of classes, convergence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_scale, float_of, shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.quality import KernelQualityWarning, describe_indefinite, fit_clipping, judge_for_svm
from bayesmkl.kernels.stacks.base import KernelColumns, Stack
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes.labels import encode_labels

INDEFINITE = ("raise", "clip")
SINGLE_PRECISION = 1e-6  # of the Frobenius norm: what float32 leaves of a zero eigenvalue
CHECKED_SAMPLES = 200  # whose kernels are checked where whole kernels are never formed
ACTIVE = 1e-6  # of the largest weight: kernels above it count as active
SUPPORT = 1e-8  # of the largest coefficient: samples above it count as support
CACHE_MB = 100.0  # for columns of the kernels
ROUNDING = 1e-15  # of the entries of a kernel


def check_above_rounding(name: str, value: float, stack: KernelColumns) -> None:
    """Raise for a regularization that rounding errors of the kernels exceed, so that it has no effect."""
    smallest = ROUNDING * float(np.max(np.mean(stack.diagonal(), axis=-1)))
    if value < smallest:
        raise ValueError(
            f"`{name}` must be at least {smallest:.1e} with these kernels, because their rounding errors are "
            f"as large; got {value:g}. Raise it, or normalize the kernels."
        )


def check_below_one(name: str, value: Any, what: str, usual: float) -> float:
    """Return a positive number below one; `what` says what it is, and `usual` is proposed."""
    share = check_scale(name, value)
    if share >= 1.0:
        raise ValueError(f"`{name}` must be below 1, {what}; got {share:g}. Try {usual:g}.")
    return share


def check_tube(
    C: float | None, epsilon: float | None, weights: np.ndarray | None = None
) -> EpsilonInsensitive:
    """Return support vector regression with valid parameters; None is for what suits the target."""
    return EpsilonInsensitive(
        None if C is None else check_scale("C", C),
        None if epsilon is None else check_scale("epsilon", epsilon, zero=True),
        weights,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters(BaseMKL):
    """The parameters of all discriminative estimators: fields of dataclasses, which those of each method add to."""

    kernels: KernelBank | str | None = field(default=None, kw_only=False)
    indefinite: str = "raise"
    kernel_names: Sequence[str] | np.ndarray | None = None


class KernelMachine(KernelParameters):
    """Estimators that solve SVMs on kernels, which must be positive semidefinite, and store how they converged."""

    PATH_PARAMETER = "C"  # what `path` goes through, and what to change where a fit stalls
    tol: float = 0.0  # of methods without such a parameter
    max_iter: int
    verbose: int = 1
    clipping_: Any

    @property
    def _stopping(self) -> Any:
        """What has the parameters `tol` and `max_iter`."""
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("indefinite", self.indefinite, INDEFINITE)

    # --------------------------------------------------------------------------------------------- kernels

    def _centering_errors(self, stack: Stack) -> np.ndarray:
        """Bound the rounding errors that centering leaves in the kernels, (n_kernels,)."""
        bank = self.kernel_bank_
        return np.zeros(stack.n_kernels) if bank is None else bank.centering_errors()

    def _check_kernels(self, stack: DenseStack, known_psd: np.ndarray | None) -> DenseStack:
        """Reject or clip indefinite kernels: only without them are the problems of these methods convex.

        Those of `known_psd` need no test of definiteness; None tests all.
        """
        names = list(self.kernel_names_)
        kernels = stack.columns(slice(None))
        found, doubts = judge_for_svm(
            kernels, names, known_psd, SINGLE_PRECISION, self._centering_errors(stack)
        )
        if found and self.indefinite == "raise":
            raise ValueError(
                f"`X`: not positive semidefinite: {describe_indefinite(kernels, names, found)}. Leave such "
                'kernels out, or remove their negative eigenvalues with `indefinite="clip"`.'
            )
        if doubts:
            warn_user(doubts, KernelQualityWarning)
        self.clipping_ = fit_clipping(kernels, found) if found else None
        return self._clip(stack)

    def _clip(self, stack: DenseStack, kernels: np.ndarray | None = None) -> DenseStack:
        """Clip rows of kernels as the training kernels were; `kernels` are their positions."""
        if self.clipping_ is None:
            return stack
        return DenseStack(self.clipping_.apply(stack.columns(slice(None)), kernels))

    def _row_stack(self, X: Samples) -> DenseStack:
        return self._clip(super()._row_stack(X))

    def _blocks(self, X: np.ndarray, kernels: np.ndarray) -> Iterator[DenseStack]:
        for stack in super()._blocks(X, kernels):
            yield self._clip(stack, kernels)

    def _fit_columns(self, X: Samples, y: Targets, **check_y: Any) -> tuple[BankColumns, np.ndarray]:
        """Validate training data and fit the bank as `_fit_stack` does, but form no training kernel.

        Kernels among some of the samples stand for all where they are checked.
        """
        bank, y = self._fit_bank(X, y, **check_y)
        stack = BankColumns(bank, CACHE_MB)
        self._check_among_some(stack)
        return stack, y

    def _fit_bank(self, X: Samples, y: Any, **check_y: Any) -> tuple[KernelBank, np.ndarray]:
        """Validate training data and fit the bank."""
        table, y = self._fit_rows(X, y, check_y)
        bank = self._new_bank(table).fit(table)
        self.kernel_bank_, self.n_kernels_in_ = bank, bank.n_kernels_
        self.kernel_names_ = self._names(bank.kernel_names_)
        return bank, y

    def _check_among_some(self, stack: BankColumns) -> None:
        """Check the kernels among some training samples."""
        checked = np.linspace(0, stack.n_train - 1, min(stack.n_train, CHECKED_SAMPLES)).astype(int)
        self._check_kernels(stack.principal(checked.tolist()), stack.bank.kernels_known_psd_)

    # ------------------------------------------------------------------------------------------- results

    def _store_convergence(self, results: Sequence[Any]) -> None:
        """Set how the optimization of each result converged; attributes of several results are arrays or tuples."""
        one = len(results) == 1
        histories = [result.objective_history for result in results]
        outcomes, gaps = [r.outcome for r in results], [r.duality_gap for r in results]
        lengths, n_solves = [max(1, len(each)) for each in histories], [r.n_solves for r in results]
        self.objective_history_ = histories[0] if one else tuple(histories)
        self.outcome_ = outcomes[0] if one else tuple(outcomes)
        self.duality_gap_ = gaps[0] if one else np.array(gaps)
        self.n_iter_ = lengths[0] if one else np.array(lengths)
        self.n_solves_ = n_solves[0] if one else np.array(n_solves)
        self.converged_ = all(result.outcome.converged for result in results)

    def _warn_unless_converged(self, results: Sequence[Any]) -> None:
        """Issue one ConvergenceWarning with the largest gap."""
        unfinished = [result for result in results if not result.outcome.converged]
        tol, max_iter = self._stopping.tol, getattr(self._stopping, "max_iter", 1)
        if not unfinished or tol == 0.0:
            return
        scales = [max(abs(float(result.objective_history[-1])), 1e-300) for result in unfinished]
        gaps = [result.duality_gap / scale for result, scale in zip(unfinished, scales, strict=True)]
        gap = (
            f"a relative duality gap of {np.nanmax(gaps):.1e}"
            if np.isfinite(gaps).any()
            else "no certificate"
        )
        if any(result.outcome is Outcome.MAX_ITER for result in unfinished):
            what = f"stopped after max_iter={max_iter} steps with {gap}"
            remedy = "Increase `max_iter`, or `tol` if this is accurate enough."
        else:
            what = f"stopped with {gap}, because numerical errors of the SVMs hide further progress"
            simpler = "lower `C`" if self.PATH_PARAMETER == "C" else f"raise `{self.PATH_PARAMETER}`"
            remedy = f"Normalize the kernels, {simpler}, or raise `tol` if this is accurate enough."
        warn_user(f"{type(self).__name__} {what}, above tol={tol:g}. {remedy}", ConvergenceWarning)

    def _position_of(self, kernel: int | str) -> int:
        """Return the position of a kernel that is given by position or name."""
        if isinstance(kernel, str):
            found = np.flatnonzero(self.kernel_names_ == kernel)
            if found.size:
                return int(found[0])
        elif isinstance(kernel, int | np.integer) and -self.n_kernels_in_ <= kernel < self.n_kernels_in_:
            return int(kernel) % self.n_kernels_in_
        raise ValueError(
            f"`kernel` must be a position from 0 to {self.n_kernels_in_ - 1} or one of {list(self.kernel_names_)}; "
            f"got {kernel!r}."
        )


def check_class_weight(class_weight: Any) -> None:
    """Raise for what can be no weights of classes, whatever the classes are.

    Examples
    --------
    >>> check_class_weight({"rare": 0.0})
    Traceback (most recent call last):
    ...
    ValueError: `class_weight` must hold finite numbers > 0; got 0.0 for class 'rare'. To leave a class out, leave ...
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            '`class_weight` must be None, "balanced" or a dict of a weight for each class; got '
            f"{shown(class_weight)}. Weights of single samples are the `sample_weight` of `fit`."
        )
    for label, weight in class_weight.items():
        if not 0.0 < float_of(weight) < np.inf:
            raise ValueError(
                f"`class_weight` must hold finite numbers > 0; got {shown(weight)} for class {shown(label)}. To "
                "leave a class out, leave its samples out."
            )


def encode_counted(y: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return classes and targets of `encode_labels`; samples that do not count make no class, and are of none.

    Examples
    --------
    >>> encode_counted(np.array([2, 0, 1, 0]), np.array([0.0, 1.0, 3.0, 1.0]))
    (array([0, 1]), array([[-1., -1.,  1., -1.]]))
    """
    if counts is None:
        return encode_labels(y)
    kept = np.flatnonzero(counts)
    classes, encoded = encode_labels(np.asarray(y)[kept])
    targets = np.full((len(encoded), len(counts)), -1.0)
    targets[:, kept] = encoded
    return classes, targets


def weigh(
    class_weight: Any, classes: np.ndarray, y: np.ndarray, counts: np.ndarray | None
) -> np.ndarray | None:
    r"""Return factors of `C`, (n_samples,): `counts` times the weight of the class; None where all are one.

    "balanced" is :math:`W / (K W_c)`, with the sum :math:`W_c` of the counts of class `c`, their total `W`, and `K`
    classes.

    Examples
    --------
    >>> weigh("balanced", np.array([0, 1]), np.array([0, 1, 1, 1]), np.array([3.0, 1.0, 1.0, 1.0]))
    array([3., 1., 1., 1.])
    """
    if class_weight is None:
        return counts
    among = np.asarray(y)[:, None] == classes
    ones = np.ones(len(among)) if counts is None else counts
    if isinstance(class_weight, Mapping):
        factors = _of_classes(class_weight, classes)
    else:
        factors = ones.sum() / (len(classes) * (ones @ among))
    costs = ones * (among @ factors)
    return None if np.all(costs == 1.0) else costs


def _of_classes(class_weight: Mapping[Any, Any], classes: np.ndarray) -> np.ndarray:
    """Return the weight of each class, one where none is given; refuse labels that are likely misspelled."""
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    without = [label for label in labels if label not in class_weight]
    if unknown and without:
        raise ValueError(
            f"`class_weight` must name classes of `y`, {shown(labels)}; got {shown(unknown)}, and no weight for "
            f"{shown(without)}. Use the labels as they are in `y`."
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])
