"""What SwMKL and LD-MKL have in common: kernels for LibSVM, kernels that gates see, folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.gate_features import features_of, refuse_gate_features
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale, shown
from bayesmkl.discriminative.estimators.checked import SINGLE_PRECISION, check_among_some, fit_bank
from bayesmkl.discriminative.estimators.localized import FeatureGatedClassifier, Rows
from bayesmkl.discriminative.folds import evenly_dealt
from bayesmkl.discriminative.localized.success import Offer, SuccessOptions
from bayesmkl.discriminative.svm.by_columns import ByColumns
from bayesmkl.discriminative.svm.native import NativeKernel, native_kernels
from bayesmkl.discriminative.svm.one_kernel import (
    NOT_HELD,
    InOrder,
    OneKernel,
    PrecomputedKernel,
    precomputed_kernels,
    row_blocks,
)
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.functions import Gaussian
from bayesmkl.kernels.quality import describe_indefinite, indefinite_kernels
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import DenseStack

GATE_TARGETS = ("auto", "cv", "train")
OWN, AUTO = "own", "auto"
WIDTHS = (0.5, 0.25)  # of Gaussians of named features, in median distances
N_FOLDS = 5


class BySuccess(FeatureGatedClassifier):
    """Classifiers whose gates are regressions of where SVMs of single kernels are right."""

    gate_targets: str
    gate_kernel: Any
    gate_C: float
    gate_epsilon: float
    gate_subsample: int | None
    gate_bank_: KernelBank | None

    # ------------------------------------------------------------------------------------------- parameters

    def _options(self) -> Any:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._options()
        if self.gate_columns is not None and self._sees_kernels_only():
            raise ValueError(
                '`gate_columns` must be None with `gate_kernel="own"`, where gates see the kernels only; got '
                f"{shown(self.gate_columns)}. Give them a kernel: `gate_kernel=Gaussian(width=1)`."
            )

    def _success_options(self) -> SuccessOptions:
        check_choice("gate_targets", self.gate_targets, GATE_TARGETS)
        named = isinstance(self.gate_kernel, str) and self.gate_kernel in (OWN, AUTO)
        if not named and not isinstance(self.gate_kernel, Kernel):
            raise ValueError(
                f'`gate_kernel` must be "auto", "own" or a kernel such as Gaussian(width=1); got '
                f"{self.gate_kernel!r}."
            )
        if isinstance(self.gate_kernel, Kernel):
            try:
                self.gate_kernel.check_parameters()
            except ValueError as error:
                raise ValueError(f"`gate_kernel`: {error}") from error
        limit = self.gate_subsample
        return SuccessOptions(
            C=check_scale("C", self.C),
            gate_C=check_scale("gate_C", self.gate_C),
            gate_epsilon=check_scale("gate_epsilon", self.gate_epsilon, zero=True),
            gate_subsample=None if limit is None else check_integer("gate_subsample", limit, low=2),
            tol=check_number("tol", self.tol, low=0.0),
            targets=self.gate_targets,
        )

    def _sees_kernels_only(self) -> bool:
        return isinstance(self.gate_kernel, str) and self.gate_kernel == OWN

    def _refuse_gate_features(self, gate_features: ArrayLike | None, has_samples: bool) -> None:
        """Raise for features of gates that see kernels, or columns of the samples."""
        if gate_features is not None and self._sees_kernels_only():
            raise ValueError(
                '`gate_features` must be None with `gate_kernel="own"`, where gates see the kernels only; got an '
                f"array of shape {np.shape(gate_features)}. Give them a kernel: `gate_kernel=Gaussian(width=1)`."
            )
        refuse_gate_features(self, gate_features, has_samples)

    def _warn_unless_converged(self, results: Sequence[Any]) -> None:
        """Warn of SVMs that stopped early alone: nothing else is iterated."""

    # ----------------------------------------------------------------------------------------------- fitting

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Return the training kernels one by one, as objects on which SVMs can be trained."""
        if self._is_precomputed():
            stack, y = super()._fit_stack(X, y, **check_y)
            return precomputed_kernels(stack), y
        bank, y = fit_bank(self, X, y, **check_y)
        native = native_of(bank)
        if native is not None:
            check_among_some(self, BankColumns(bank, 0.0))
            return native, y
        stack = self._check_kernels(DenseStack(bank.train_stack()), bank.kernels_known_psd_)
        return precomputed_kernels(stack), y

    def _gate_features(
        self, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
    ) -> np.ndarray | None:
        """Return the features of the gates, or None where they see the kernels themselves."""
        if fitting and not self._takes_features(X, gate_features):
            self.gate_bank_ = self.gate_columns_ = None
            return None
        if not fitting and self.gate_bank_ is None:
            return None
        features = features_of(self, X, gate_features, n_rows, fitting)
        if fitting:
            named = self.gate_columns is not None or X is None
            if named:
                self._refuse_constant(features)
            widths = WIDTHS if named else (1.0,)
            offered = [Gaussian(relative_width=width) for width in widths]
            given = isinstance(self.gate_kernel, Kernel)
            self.gate_bank_ = KernelBank([self.gate_kernel] if given else offered, normalize=None).fit(
                features
            )
        return features

    def _refuse_constant(self, features: np.ndarray) -> None:
        """Raise if no feature of the gates differs between training samples."""
        if (features != features[0]).any():
            return
        columns = self.gate_columns_
        given = "`gate_features`" if columns is None else f"`gate_columns` {shown(self.gate_columns)}"
        raise ValueError(
            f"{given} must differ between training samples, else gates are the same everywhere; got "
            f"{shown(features[0])} in all {len(features)}. Leave them out, or name other columns."
        )

    def _takes_features(self, X: np.ndarray | None, gate_features: ArrayLike | None) -> bool:
        """Return whether gates see features; "auto" leaves missing and constant ones, and none, to the kernels."""
        named = self.gate_columns is not None or gate_features is not None
        if isinstance(self.gate_kernel, Kernel) or named:
            return True
        bank = self.kernel_bank_
        if self.gate_kernel == OWN or X is None or bank is None or bank.missing_views != "error":
            return False
        return bool((X[0] != X).any())

    def _offers_own(self) -> bool:
        """Return whether gates that see the kernels themselves are the first candidate."""
        if self.gate_bank_ is None:
            return True
        auto = isinstance(self.gate_kernel, str) and self.gate_kernel == AUTO
        return auto and self.gate_columns_ is None and self.kernel_bank_ is not None

    def _offer(
        self, training: Rows, target: np.ndarray, inner: Any, tries: bool = False
    ) -> tuple[Sequence[OneKernel], Offer]:
        """Return the kernels to train on, and what gates may see; `tries` if what they see is tried in folds."""
        order = self._sorted_samples(training, target)
        kernels: Sequence[OneKernel]
        if self.svm == "libsvm":
            kernels = [InOrder(kernel, order) for kernel in training.kernels]
        else:
            kernels = [ByColumns(kernel, inner) for kernel in training.kernels]
        own = [kernels] if self._offers_own() else []
        seen = own + [[InOrder(kernel, order)] * self.n_kernels_in_ for kernel in self._kernels_of_features()]
        compares = len(seen) > 1 or (tries and not own)
        rng = self._rng()
        # folds are independent of the order of the training samples
        in_sample = self.gate_targets == "train" or (self.gate_targets == "auto" and self.gate_bank_ is None)
        folds = None if in_sample and not compares else evenly_dealt(order, target, N_FOLDS, rng)
        return kernels, Offer(seen, folds if folds is not None and len(folds) > 1 else None, rng, order)

    def _kernels_of_features(self) -> Sequence[OneKernel]:
        """Return the training kernels of features that gates may see."""
        bank = self.gate_bank_
        if bank is None:
            return []
        native = native_of(bank)
        if native is not None:
            return native
        stack = bank.train_stack()
        found = indefinite_kernels(stack, bank.kernels_known_psd_, SINGLE_PRECISION)
        if found:
            described = describe_indefinite(stack, list(bank.kernel_names_), found)
            raise ValueError(f"`gate_kernel` must be positive semidefinite; got {described}. A Gaussian is.")
        return [PrecomputedKernel(stack[0])]

    def _sorted_samples(self, training: Rows, target: np.ndarray) -> np.ndarray:
        """Return samples sorted by features of gates, those of kernels or values of precomputed ones, and labels."""
        if self.kernel_bank_ is not None:
            keys = [*self.kernel_bank_.X_train_.T]
        else:
            total = sum(kernel.training_rows for kernel in training.kernels)
            keys = [total.diagonal(), np.sort(total, axis=1).sum(axis=1)]
        if training.features is not None:
            keys = [*training.features.T, *keys]
        return np.lexsort((target, *keys[::-1]))

    def _outcome(self, stopped: bool) -> Outcome:
        return Outcome.MAX_ITER if stopped else Outcome.CONVERGED

    def _store_local(self, results: list[Any], stopped: bool) -> None:
        super()._store_local(results, stopped)
        names = [OWN] if self._offers_own() else []
        names += [] if self.gate_bank_ is None else list(self.gate_bank_.kernel_names_)
        chosen = [names[result.chosen] for result in results]
        self.gate_kernel_ = chosen if len(chosen) > 1 else chosen[0]

    # ----------------------------------------------------------------------------------------------- results

    def _training_rows(self, training: Rows, part: slice) -> Rows:
        features = None if training.features is None else training.features[part]
        return Rows([kernel.training_rows[part] for kernel in training.kernels], features)

    def _voting(self) -> Sequence[OneKernel]:
        """Return the kernels as they are needed to score rows."""
        native = native_of(self.kernel_bank_)
        return [NOT_HELD] * self.n_kernels_in_ if native is None else native

    def _row_parts(self, X: Samples, gate_features: ArrayLike | None = None) -> Iterator[Rows]:
        """Cut rows into parts; native kernels take all at once, unless the kernel of the gates is a matrix."""
        check_is_fitted(self, "results_")
        native = native_of(self.kernel_bank_)
        if native is None:
            for rows in super()._row_parts(X, gate_features):
                yield Rows(list(rows.kernels.each()), rows.features)
            return
        X = self._validate_rows(X)
        self._refuse_gate_features(gate_features, True)
        features = self._gate_features(X, gate_features, len(X), fitting=False)
        bank = self.gate_bank_
        held = 1 if bank is None or native_of(bank) is not None else len(bank.X_train_)
        for part in row_blocks(len(X), held):
            yield Rows([k.rows(X[part]) for k in native], None if features is None else features[part])

    def _seen(self, result: Any, rows: Rows) -> tuple[Sequence[OneKernel], Sequence[np.ndarray]]:
        """Return the kernels that gates see, and the rows in the form of each of the kernels."""
        bank, position = self.gate_bank_, result.chosen - int(self._offers_own())
        if position < 0 or bank is None:
            return self._voting(), rows.kernels
        native, n_kernels = native_of(bank), self.n_kernels_in_
        if native is None:
            return [NOT_HELD] * n_kernels, [bank.evaluate(rows.features)[position]] * n_kernels
        return [native[position]] * n_kernels, [native[position].rows(rows.features)] * n_kernels


def native_of(bank: KernelBank | None) -> Sequence[NativeKernel] | None:
    """Return the kernels of a bank in LibSVM's form, if it has all of them and none can be indefinite."""
    return None if bank is None or not np.all(bank.kernels_known_psd_) else native_kernels(bank)
