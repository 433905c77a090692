"""Kernels as covariances of functions, of landmarks and of samples that lack views: what estimators share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from bayesmkl._estimator.base import LEAST_ROWS, Holding, resolve_storage
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_flag, shown
from bayesmkl.gp.estimators.settings import NamedPriors, Parameters, is_spike_slab, warn_of_unlearned
from bayesmkl.gp.landmarks import PseudoSamples
from bayesmkl.gp.unknown_points import CompletedKernels, KernelCenters, find_centers
from bayesmkl.kernels.adapters import some_learn
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factored import LinearStack
from bayesmkl.kernels.stacks.learned import with_learned
from bayesmkl.kernels.stacks.of_bank import linear_rows, linear_stack
from bayesmkl.kernels.stacks.packed import pack
from bayesmkl.kernels.together import ViewKernels
from bayesmkl.kernels.views import TOGETHER, refuse_names_of_rows

BLOCK_ENTRIES = 2**24  # of the kernels of new rows that are held at once, 128 MB


class CompletingMKL(Parameters):
    """Center kernels and complete them where samples may lack views."""

    _takes_missing_views = True
    _takes_sparse = True
    _learns_widths = True
    _MISSING_VIEWS: ClassVar[dict[str, str]] = {"error": "error", "integrate": "keep", "impute": "impute"}
    _needs_some_view = False  # a score without any part is the intercept

    KERNEL_PRIORS: ClassVar[NamedPriors]  # what names of priors stand for

    training_kernels_: np.ndarray | None
    kernel_centers_: KernelCenters | None = None
    predictability_: np.ndarray | None = None
    sample_weight_: np.ndarray | None = None  # of the samples that count
    pseudo_samples_: PseudoSamples | None = None  # where samples are compared with landmarks
    together_: ViewKernels | None = None  # of precomputed kernels

    def _may_be_sparse(self) -> bool:
        return super()._may_be_sparse() and self.design is None  # which reads columns

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.missing_views == "impute" and self._is_precomputed():
            raise ValueError(
                '`missing_views` must be "error" or "integrate" with precomputed kernels, which have no columns to '
                'impute; got "impute". Pass samples and a bank, `kernels=KernelBank(...)`.'
            )
        check_flag("together", self.together)
        if self.kernel_views is not None and not self._is_precomputed():
            raise ValueError(
                "`kernel_views` must be None with a bank, which names the views of its kernels; got "
                f"{shown(self.kernel_views)}. Use `KernelBank(views=...)`."
            )

    def _new_bank(self, X: Any = None) -> KernelBank:
        bank = super()._new_bank(X)
        bank._with_together = self.together
        return bank

    @property
    def _has_together(self) -> bool:
        """Whether the last kernel is the part "views together"."""
        bank = self.kernel_bank_
        return self.together_ is not None if bank is None else bank.has_together

    def _names(self, default: Sequence[str]) -> np.ndarray:
        own = [name for name in default if name != TOGETHER]
        return np.append(super()._names(own), default[len(own) :])

    def _kernel_views(self) -> list[str]:
        """Return the view of every kernel, also of the part "views together"; each is its own if nobody named any."""
        if self.kernel_bank_ is not None:
            return list(self.kernel_bank_.kernel_views_)
        names = [str(name) for name in self.kernel_names_]
        own = names if self.kernel_views is None else [str(view) for view in self.kernel_views]
        return own + names[len(own) :]

    def _fit_precomputed(self, X: Any, y: Any, check: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        kernels, y = super()._fit_precomputed(X, y, check)
        views = self.kernel_names_ if self.kernel_views is None else self.kernel_views
        if np.shape(views) != (len(kernels),):
            raise ValueError(
                f"`kernel_views` must name the view of each of {len(kernels)} kernels; got {shown(views)}."
            )
        names, members = np.unique([str(view) for view in views], return_inverse=True)
        refuse_names_of_rows("kernel_views", names.tolist())
        if not self.together or len(names) < 2:
            return kernels, y
        order = np.argsort(members, kind="stable")
        own = ViewKernels.learn(lambda: ((m, kernels[m]) for m in order), members, self.sample_weight_)
        if own.are_several:
            self.together_, self.kernel_names_ = own, np.append(self.kernel_names_, [TOGETHER])
        return self._with_products(kernels), y

    def _kernels_of(self, X: np.ndarray) -> np.ndarray:
        return self._with_products(super()._kernels_of(X))

    def _with_products(self, kernels: np.ndarray) -> np.ndarray:
        """Append the part "views together" to precomputed kernels, if there is one."""
        own = self.together_
        if own is None:
            return kernels
        order, there = np.argsort(own.views, kind="stable"), np.argmax(own.shares > 0.0, axis=1)[own.views]
        # of similarities of rows to themselves nothing is known but where there are none
        part, _ = own.product((m, kernels[m], 0.0 * kernels[m][:, there[m]]) for m in order)
        return np.concatenate([kernels, part[None]])

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[DenseStack, np.ndarray]:
        """Do what all estimators do; where samples may lack views, center the kernels and complete them."""
        self.kernel_centers_ = self.predictability_ = self.together_ = None
        stack, y = super()._fit_stack(X, y, storage=self._storage(), **check_y)
        if self._learns:
            warn_of_unlearned(self.kernel_bank_)  # type: ignore[arg-type]
        if self.present_ is None:
            return self._with_learned(stack), y
        self.kernel_centers_ = find_centers(stack, self.sample_weight_)
        completed = self._completed(self.kernel_centers_.rows(stack), None)
        self.predictability_ = completed.told
        return completed.training, y

    def _completed(self, centered: DenseStack, told: np.ndarray | None) -> CompletedKernels:
        """Return covariances of functions from centered training kernels, zero where a view is absent."""
        bank, n_kernels = self.kernel_bank_, centered.n_kernels
        if bank is not None:
            views = bank.view_positions_
        else:  # kernels that are absent together are of one view
            own = n_kernels - self._has_together
            views = np.unique(np.asarray(self.present_)[:own], axis=0, return_inverse=True)[1].ravel()
            views = np.append(views, np.full(n_kernels - own, -1))
        spread = self.kernel_centers_.spread  # type: ignore[union-attr]
        return CompletedKernels(centered, spread, views, told, self.sample_weight_)

    def _completed_training(self) -> CompletedKernels:
        """Return covariances of functions where samples may lack views."""
        centers, present = self.kernel_centers_, self.present_
        assert centers is not None
        assert present is not None
        if self.kernel_bank_ is not None:
            stack = centers.rows(self._stack_of(self.kernel_bank_.train_stack()))
        elif present.all():
            stack = DenseStack(self.training_kernels_)
        else:
            there = present[:, :, None] & present[:, None, :]
            stack = DenseStack(self.training_kernels_ * there, present)
        return self._completed(stack, self.predictability_)

    def _completed_rows(
        self, X: np.ndarray, completed: CompletedKernels | None = None
    ) -> Iterator[tuple[DenseStack, np.ndarray]]:
        """Yield covariances of blocks of validated rows with the training samples, and their variances.

        Variances of precomputed kernels are not known: they are taken as those of the training samples on average.
        """
        completed = self._completed_training() if completed is None else completed
        bank, centers = self.kernel_bank_, self.kernel_centers_
        assert centers is not None
        if bank is None:
            stack = centers.rows(self._stack_of_precomputed(X))
            yield completed.rows(stack, np.repeat(centers.spread[:, None], stack.n_rows, axis=1))
            return
        size = max(1, BLOCK_ENTRIES // (bank.n_kernels_ * len(bank.basis_)))
        for first in range(0, len(X), size):
            kernels, diagonal = bank.rows_and_diagonal(X[first : first + size])
            stack = self._stack_of(kernels)
            yield completed.rows(centers.rows(stack), centers.diagonal(stack, diagonal))

    def _storage(self) -> Holding:
        """Return one dense array, or of many kernels one triangle of each or common features; with landmarks none."""
        is_proposed = is_spike_slab(
            self.kernel_prior, self.KERNEL_PRIORS
        )  # each kernel, again and again, by chains
        if is_proposed or self._is_precomputed() or self._learns or self.missing_views != "error":
            return Holding()
        return Holding("auto", may_pack=True)

    def _stored_training(self) -> Stack:
        """Return the training kernels, as they were given or evaluated anew."""
        if self.kernel_centers_ is not None:
            return self._completed_training().training
        if self.training_kernels_ is not None:
            return DenseStack(self.training_kernels_)
        if self.pseudo_samples_ is not None:
            return DenseStack(self.pseudo_samples_.matrices())
        return self._evaluated_training()

    def _evaluated_training(self) -> Stack:
        """Return the training kernels of the bank as a fit holds them."""
        bank, shared = self.kernel_bank_, self._shared_training()
        assert bank is not None
        if shared is not None:
            return shared
        if self._holding().kind == "packed":
            return pack(bank.train_kernels(), bank.n_kernels_)
        return self._with_learned(DenseStack(bank.train_stack()))

    @property
    def _learns(self) -> bool:
        """Whether widths of some kernels are inferred."""
        if self.kernels is None:
            return some_learn(self._default_kernels)
        return isinstance(self.kernels, KernelBank) and some_learn(self.kernels.kernels)

    def _with_learned(self, stack: Any, X: np.ndarray | None = None) -> Any:
        """Return a stack of all kernels of the bank with what it takes to infer widths; see `with_learned`."""
        return with_learned(stack, self.kernel_bank_, X) if self._learns else stack

    def _shared_training(self) -> LinearStack | None:
        """Return the training kernels of the bank where a fit holds them by features that they have in common."""
        if self.kernel_bank_ is None or self.kernel_centers_ is not None or not self._holding().may_share:
            return None
        return linear_stack(self.kernel_bank_)

    def _holding(self) -> Holding:
        """Return how a fit holds the training kernels of the bank, without landmarks."""
        bank: Any = self.kernel_bank_
        shape = bank.n_kernels_, len(bank.X_train_), len(bank.X_train_)
        return resolve_storage(self._storage(), shape, is_square=bank.landmarks_ is None, is_source=False)

    def _blocks(self, X: np.ndarray, kernels: np.ndarray) -> Iterator[Any]:
        """Cut validated rows into blocks; see `_row_blocks`."""
        shared = self._shared_training()
        if shared is None:
            yield from super()._blocks(X, kernels)
            return
        for rows in self._shared_blocks(X, shared):
            yield rows if len(kernels) == rows.n_kernels else rows.select(kernels)

    def _shared_blocks(self, X: np.ndarray, shared: LinearStack) -> Iterator[LinearStack]:
        """Cut validated rows into blocks of kernels that are held as the training kernels are."""
        bank: Any = self.kernel_bank_
        size = max(LEAST_ROWS, BLOCK_ENTRIES // max(bank.n_kernels_, bank.n_features_in_))
        for first in range(0, len(X), size):
            yield linear_rows(bank, shared, X[first : first + size])

    def _rows(self, X: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield kernels of blocks of validated rows, and similarities of rows to themselves.

        Those of precomputed kernels are not known: they are taken as those of the training samples on average.
        """
        if self.kernel_centers_ is not None:
            yield from self._completed_rows(X)
            return
        bank = self.kernel_bank_
        if bank is None:
            stack = self._stack_of_precomputed(X)
            mean = self._stored_training().diagonal().mean(axis=1)
            yield stack, np.repeat(mean[:, None], stack.n_rows, axis=1)
            return
        shared = self._shared_training()
        if shared is not None:
            for rows in self._shared_blocks(X, shared):
                yield rows, rows.self_similarity()
            return
        width = len(bank.basis_) if self.pseudo_samples_ is None else self.pseudo_samples_.n_pseudo
        size = max(LEAST_ROWS, BLOCK_ENTRIES // (bank.n_kernels_ * width))
        for first in range(0, len(X), size):
            kernels, diagonal = bank.rows_and_diagonal(X[first : first + size])
            if self.pseudo_samples_ is not None:
                kernels = self.pseudo_samples_.rows(kernels)
            yield self._with_learned(DenseStack(kernels), X[first : first + size]), diagonal
