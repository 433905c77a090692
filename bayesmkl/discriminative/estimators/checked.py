"""Training kernels that were checked, clipped where asked for, or evaluated column by column; rows to predict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from bayesmkl._estimator import BaseMKL
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.given import naming
from bayesmkl._utils.validation import check_choice, check_scale
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.quality.checks import (
    check_kernel_stack,
    describe_indefinite,
    indefinite_kernels,
    refuse_unusable,
)
from bayesmkl.kernels.quality.clip import fit_clipping
from bayesmkl.kernels.stacks.base import KernelColumns
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["ACTIVE", "SUPPORT", "CheckedKernels", "OnStep", "check_above_rounding", "check_tube"]

OnStep = Callable[[int, str], None] | None
SINGLE_PRECISION = 1e-6  # of the Frobenius norm: what float32 leaves of a zero eigenvalue
CHECKED_SAMPLES = 200  # whose kernels are checked where whole kernels are never formed
ACTIVE = 1e-6  # of the largest weight: kernels above it count as active
SUPPORT = 1e-8  # of the largest coefficient: samples above it count as support


ROUNDING = 1e-15  # of the entries of a kernel


def check_above_rounding(name: str, value: float, stack: KernelColumns) -> None:
    """Refuse a regularization that rounding errors of the kernels exceed, so that it has no effect."""
    smallest = ROUNDING * float(np.max(np.mean(stack.diagonal(), axis=-1)))
    if value < smallest:
        raise ValueError(
            f"`{name}` must be at least {smallest:.1e} with these kernels, whose rounding errors are as large; got "
            f"{value:g}. Raise it, or normalize the kernels."
        )


def check_tube(C: Any, epsilon: Any) -> EpsilonInsensitive:
    """Return support vector regression with valid parameters; None is for what suits the target."""
    return EpsilonInsensitive(
        None if C is None else check_scale("C", C),
        None if epsilon is None else check_scale("epsilon", epsilon, zero=True),
    )


class CheckedKernels(BaseMKL):
    """From `X` to kernels that a discriminative method can be trained on."""

    indefinite: str
    tol: float = 0.0  # of methods that have no iteration to stop
    max_iter: int = 1
    clipping_: Any

    PATH_PARAMETER = (
        "C"  # the regularization: what `path` goes through, and what to change where a fit stalls
    )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("indefinite", self.indefinite, ("raise", "clip"))

    def _check_kernels(self, stack: DenseStack, known_psd: Any) -> DenseStack:
        """Refuse or clip indefinite kernels: the problems below are convex without them only."""
        policy = self.indefinite
        names = list(self.kernel_names_)
        kernels = stack.columns(slice(None))
        refuse_unusable(kernels, names, known_psd)
        found = indefinite_kernels(kernels, known_psd, SINGLE_PRECISION)
        if found and policy == "raise":
            raise ValueError(
                f"`X`: not positive semidefinite: {describe_indefinite(kernels, names, found)}. Leave such "
                'kernels out, or remove their negative eigenvalues with `indefinite="clip"`.'
            )
        lost = self._centering_errors(stack)
        check_kernel_stack(kernels, names, known_psd=known_psd, definiteness=False, lost=lost)
        self.clipping_ = fit_clipping(kernels, found) if found else None
        return self._clipped(stack)

    def _centering_errors(self, stack: DenseStack) -> np.ndarray:
        """Bound the rounding errors that centering leaves in the kernels, that of the bank or of the method."""
        bank = self.kernel_bank_
        return np.zeros(stack.n_kernels) if bank is None else bank.centering_errors()

    def _fit_columns(self, X: Any, y: Any, cache_mb: float, **check_y: Any) -> tuple[BankColumns, np.ndarray]:
        """Validate training data and fit the bank as `_fit_stack` does, but form no training kernel.

        Kernels among some of the samples stand for all where they are checked.
        """
        bank, y = self._fit_bank(X, y, **check_y)
        stack = BankColumns(bank, cache_mb)
        self._check_among_some(stack)
        return stack, y

    def _fit_bank(self, X: Any, y: Any, **check_y: Any) -> tuple[KernelBank, np.ndarray]:
        """Validate training data and fit the bank."""
        y = self._check_data(X, y, check_y)
        with naming("X"):
            _, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, **check_y)
        bank = self._bank_for(X).fit(X)
        self.kernel_bank_, self.n_kernels_in_ = bank, bank.n_kernels_
        self.kernel_names_ = self._names(bank.kernel_names_)
        return bank, y

    def _check_among_some(self, stack: BankColumns) -> None:
        checked = np.linspace(0, stack.n_train - 1, min(stack.n_train, CHECKED_SAMPLES)).astype(int)
        self._check_kernels(stack.principal(checked.tolist()), stack.bank.kernels_known_psd_)

    def _warn_unless_converged(self, results: Sequence[Any]) -> None:
        """Issue one ConvergenceWarning with the largest gap."""
        unfinished = [result for result in results if not result.outcome.converged]
        if not unfinished or self.tol == 0.0:
            return
        scales = [max(abs(float(result.objective_history[-1])), 1e-300) for result in unfinished]
        gaps = [result.duality_gap / scale for result, scale in zip(unfinished, scales, strict=True)]
        gap = (
            f"a relative duality gap of {np.nanmax(gaps):.1e}"
            if np.isfinite(gaps).any()
            else "no certificate"
        )
        if any(result.outcome is Outcome.MAX_ITER for result in unfinished):
            what = f"stopped after max_iter={self.max_iter} steps with {gap}"
            remedy = "Increase `max_iter`, or `tol` if this is accurate enough."
        else:
            what = f"stopped with {gap}, where errors of the machines inside hide further progress"
            simpler = "lower `C`" if self.PATH_PARAMETER == "C" else f"raise `{self.PATH_PARAMETER}`"
            remedy = f"Normalize the kernels, {simpler}, or raise `tol` if this is accurate enough."
        warn_user(f"{type(self).__name__} {what}, above tol={self.tol:g}. {remedy}", ConvergenceWarning)

    def _row_stack(self, X: Any) -> DenseStack:
        return self._clipped(super()._row_stack(X))

    def _blocks(self, X: np.ndarray, kernels: np.ndarray) -> Iterator[DenseStack]:
        for stack in super()._blocks(X, kernels):
            yield self._clipped(stack, kernels)

    def _clipped(self, stack: DenseStack, positions: Any = None) -> DenseStack:
        """Clip kernels, those at `positions` of all, as the training kernels were."""
        if self.clipping_ is None:
            return stack
        return DenseStack(self.clipping_.apply(stack.columns(slice(None)), positions))

    def _position(self, kernel: int | str) -> int:
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
