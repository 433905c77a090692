"""Base of the SwMKL and LD-MKL estimators: kernels for LibSVM, features of the gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale, shown
from bayesmkl.discriminative.estimators.checked import SINGLE_PRECISION
from bayesmkl.discriminative.estimators.localized import FeatureGatedClassifier, LocalFit, Rows
from bayesmkl.discriminative.estimators.solvers import SVMChoice
from bayesmkl.discriminative.localized.success import Folds, SuccessOptions
from bayesmkl.discriminative.svm.by_columns import ByColumns
from bayesmkl.discriminative.svm.machines import (
    OneKernel,
    PrecomputedKernel,
    precomputed_kernels,
    row_blocks,
)
from bayesmkl.discriminative.svm.native import NativeKernel, native_kernels
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.quality.checks import describe_indefinite, indefinite_kernels
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["SuccessGated"]

GATE_TARGETS = ("train", "cv")
MOST_FOLDS = 5
NOT_HELD = PrecomputedKernel(np.zeros((0, 0)))  # the training kernel, where only rows are scored


class SuccessGated(SVMChoice, FeatureGatedClassifier):
    """Gates that are regressions of the successes of single kernels.

    Kernels that LibSVM has are left to it, and no kernel matrix is formed; others are matrices.
    """

    C: float
    gate_targets: str
    gate_kernel: Any
    gate_C: float
    gate_epsilon: float
    gate_subsample: int | None
    tol: float
    random_state: Any
    gate_bank_: KernelBank | None

    # ------------------------------------------------------------------------------------------- parameters

    def _options(self) -> Any:
        """Check the parameters and return the options of the algorithm."""
        raise NotImplementedError

    def _success_options(self) -> SuccessOptions:
        self._inner()
        check_choice("gate_targets", self.gate_targets, GATE_TARGETS)
        own = isinstance(self.gate_kernel, str) and self.gate_kernel == "own"
        if not own and not isinstance(self.gate_kernel, Kernel):
            raise ValueError(
                f'`gate_kernel` must be "own" or a kernel such as Gaussian(width=1); got {self.gate_kernel!r}.'
            )
        if isinstance(self.gate_kernel, Kernel):
            _check_kernel(self.gate_kernel)
        limit = self.gate_subsample
        return SuccessOptions(
            C=check_scale("C", self.C),
            gate_C=check_scale("gate_C", self.gate_C),
            gate_epsilon=check_scale("gate_epsilon", self.gate_epsilon, zero=True),
            gate_subsample=None if limit is None else check_integer("gate_subsample", limit, low=2),
            tol=check_number("tol", self.tol, low=0.0),
        )

    # ---------------------------------------------------------------------------------------------- fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options()
        if self.gate_columns is not None and not isinstance(self.gate_kernel, Kernel):
            raise ValueError(
                '`gate_columns` must be None with `gate_kernel="own"`, where gates see the kernels only; got '
                f"{shown(self.gate_columns)}. Give them a kernel: `gate_kernel=Gaussian(width=1)`."
            )

    def _fit_stack(self, X: Any, y: Any, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Return kernels one by one, as objects on which machines can be trained."""
        if self._is_precomputed():
            stack, y = super()._fit_stack(X, y, **check_y)
            return precomputed_kernels(stack), y
        bank, y = self._fit_bank(X, y, **check_y)
        native = native_of(bank)
        if native is not None:
            self._check_among_some(BankColumns(bank, 0.0))
            return native, y
        stack = self._check_kernels(DenseStack(bank.train_stack()), bank.kernels_known_psd_)
        return precomputed_kernels(stack), y

    def _gate_features(self, X: np.ndarray | None, gate_features: Any, n_rows: int, fitting: bool) -> Any:
        """Return what `gate_kernel` is a function of, or None where gates see the kernels themselves."""
        if isinstance(self.gate_kernel, Kernel):
            features = super()._gate_features(X, gate_features, n_rows, fitting)
            if fitting:
                self.gate_bank_ = KernelBank([self.gate_kernel], normalize=None).fit(features)
            return features
        if gate_features is not None:
            raise ValueError(
                '`gate_features` must be None with `gate_kernel="own"`, where gates see the kernels only; got an '
                f"array of shape {np.shape(gate_features)}. Give them a kernel: `gate_kernel=Gaussian(width=1)`."
            )
        if fitting:
            self.gate_bank_ = None
        return None

    def _gate_kernels(self) -> Sequence[OneKernel] | None:
        """Return the training kernel of the gates, once per kernel, or None where gates see the kernels."""
        bank = self.gate_bank_
        if bank is None:
            return None
        native = native_of(bank)
        if native is not None:
            return [native[0]] * self.n_kernels_in_
        stack = bank.train_stack()
        found = indefinite_kernels(stack, bank.kernels_known_psd_, SINGLE_PRECISION)
        if found:
            described = describe_indefinite(stack, list(bank.kernel_names_), found)
            raise ValueError(f"`gate_kernel` must be positive semidefinite; got {described}. A Gaussian is.")
        return [PrecomputedKernel(stack[0])] * self.n_kernels_in_

    def _draws(self, target: np.ndarray) -> tuple[Folds | None, np.random.Generator]:
        """Return the folds whose validation samples tell successes, and what draws further."""
        rng = self._rng()
        if self.gate_targets == "train":
            return None, rng
        smallest = int(min(np.sum(target > 0.0), np.sum(target < 0.0)))
        if smallest < 2:
            raise ValueError(
                '`gate_targets` must be "train" where a class has a single sample; got "cv", which trains and '
                "validates on every class. Leave the class out, or add samples."
            )
        n_folds, seed = min(MOST_FOLDS, smallest), int(rng.integers(2**31))
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return list(splitter.split(np.zeros((len(target), 1)), target)), rng

    def _trainable(self, kernels: Sequence[OneKernel]) -> Sequence[OneKernel]:
        """Return the kernels with classifiers by the solver that was asked for."""
        return kernels if self.svm == "libsvm" else [ByColumns(kernel, self._inner()) for kernel in kernels]

    def _outcome(self) -> Outcome:
        """Say whether all machines so far reached their tolerance; LibSVM's do."""
        return Outcome.MAX_ITER if getattr(self, "_stopped", None) else Outcome.CONVERGED

    def _warn_unless_converged(self, results: Sequence[LocalFit]) -> None:
        """Leave it to SVMChoice, which knows the machines that stopped early."""

    # ----------------------------------------------------------------------------------------------- results

    def _training_rows(self, kernels: Any, features: Any, part: slice) -> Rows:
        return Rows([kernel.training_rows[part] for kernel in kernels], features)

    def _voting(self) -> Sequence[OneKernel]:
        """Return the kernels as they are needed to score rows."""
        native = native_of(self.kernel_bank_)
        return [NOT_HELD] * self.n_kernels_in_ if native is None else native

    def _row_parts(self, X: Any, gate_features: Any = None) -> Iterator[Rows]:
        """Native kernels take all rows at once, unless the kernel of the gates is a matrix."""
        native = native_of(getattr(self, "kernel_bank_", None))
        if native is None:
            for rows in super()._row_parts(X, gate_features):
                yield Rows(list(rows.kernels.each()), rows.features)
            return
        X = self._validate_rows(X)
        features = self._gate_features(X, gate_features, len(X), fitting=False)
        bank = self.gate_bank_
        held = 1 if bank is None or native_of(bank) is not None else len(bank.X_train_)
        for part in row_blocks(len(X), held):
            yield Rows([k.rows(X[part]) for k in native], None if features is None else features[part])

    def _gate_arguments(
        self, result: Any, rows: Rows
    ) -> tuple[Sequence[OneKernel], Any, Sequence[np.ndarray]]:
        """Return the kernels that gates see, the result, and the rows in the form of each of the kernels."""
        bank = self.gate_bank_
        if bank is None:
            return self._voting(), result, rows.kernels
        native = native_of(bank)
        kernel: OneKernel
        if native is None:
            kernel, of_rows = NOT_HELD, bank.evaluate(rows.features)[0]
        else:
            kernel, of_rows = native[0], native[0].rows(rows.features)
        return [kernel] * self.n_kernels_in_, result, [of_rows] * self.n_kernels_in_


def _check_kernel(kernel: Kernel) -> None:
    """Refuse a kernel whose own parameters are wrong."""
    try:
        kernel.check_parameters()
    except ValueError as error:
        raise ValueError(f"`gate_kernel`: {error}") from error


def native_of(bank: KernelBank | None) -> Sequence[NativeKernel] | None:
    """Return the kernels of a bank in LibSVM's form, if it has all of them and none can be indefinite."""
    return None if bank is None or not np.all(bank.kernels_known_psd_) else native_kernels(bank)
