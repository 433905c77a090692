"""Base class of localized methods: tasks, gates and gating matrices, scores and fitted attributes.

An estimator learns one result per task (two classes: one; more: one per class, against the rest) and reads from it
what users see. Features that gates depend on are columns of `X` with a bank, or passed as `gate_features`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator import BaseMKL, encode_labels, most_probable, step_progress
from bayesmkl._estimator.gate_features import (
    bank_apart,
    check_gate_columns,
    refuse_gate_features,
)
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.base import ALL_LABELED, refuse_missing_labels
from bayesmkl.discriminative.estimators.checked import (
    ACTIVE,
    INDEFINITE,
    SUPPORT,
    OnStep,
    bank_errors,
    check_definite,
    clip_rows,
    position_of,
    store_convergence,
    warn_unless_converged,
)
from bayesmkl.discriminative.estimators.solvers import warn_of_stopped
from bayesmkl.discriminative.gating import combine_components, gates_of_components, gating_matrix
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

if TYPE_CHECKING:
    from bayesmkl.discriminative.inner import InnerProblem


ROWS_AT_ONCE = 500  # whose answers are compared


class Rows(NamedTuple):
    """Kernels and gate features of some samples.

    Parameters
    ----------
    kernels : Any
        Their kernels against the training samples: a KernelRows, or what the estimator's `_row_parts` gives.
    features : ndarray of shape (n_rows, n_gate_features) or None
        Features that gates are functions of.
    """

    kernels: Any
    features: Any


class LocalFit(NamedTuple):
    """Result for one task, in the fields that all localized methods have.

    Parameters
    ----------
    gates : ndarray of shape (n_kernels, n_train)
    signed_dual : ndarray of shape (n_train,), or (n_kernels, n_train) for one SVM per kernel, (n_tasks, n_train)
        for tasks that share a result
    intercept : float, or ndarray of shape (n_kernels,) or (n_tasks,)
    objective_history : ndarray of shape (n_iter,)
    duality_gap : float
    outcome : Outcome
    n_solves : int
    """

    gates: np.ndarray
    signed_dual: np.ndarray
    intercept: Any
    objective_history: np.ndarray
    duality_gap: float
    outcome: Outcome
    n_solves: int


class BaseLocalized(BaseMKL):
    """One result per task, and kernels whose weights depend on the samples."""

    PATH_PARAMETER = "C"  # what to change where a fit stalls
    ONE_ANSWER = (
        ""  # what to do where all training samples get one; without it, only data and `C` lead to that
    )

    indefinite: str
    gate_columns: Any = None  # of methods whose gates are no functions of features
    tol: float
    max_iter: int = 1  # of methods that do not iterate
    verbose: int
    clipping_: Any
    classes_: np.ndarray  # of classifiers
    results_: tuple[Any, ...]
    gates_: np.ndarray
    gate_columns_: np.ndarray | None  # where gates are functions of features
    dual_coef_: np.ndarray
    intercept_: Any

    # ------------------------------------------------------------------------------------------------ hooks

    def _inner(self, report: Callable[[float], None] | None = None) -> Any:
        """Return the SVM, which may `report` gaps that it leaves; None where the algorithm has its own."""
        return None

    def _learn_task(self, training: Rows, target: np.ndarray, inner: InnerProblem, on_step: OnStep) -> Any:
        """Return the algorithm's result for a target of shape (n_train,)."""
        raise NotImplementedError

    def _groups(self, targets: np.ndarray) -> Sequence[np.ndarray]:
        """Return the targets of each result; a method whose tasks share weights gives several to one."""
        return list(targets)

    def _describe(self, result: Any, stopped: bool) -> LocalFit:
        """Return the result in the fields that all methods have; `stopped` if `_inner` reported gaps."""
        raise NotImplementedError

    def _train_components(self, result: Any) -> np.ndarray:
        """Return the gate components at the training samples, (n_components, n_kernels, n_train)."""
        return result.gates[None]

    def _components(self, result: Any, rows: Rows) -> np.ndarray:
        """Return the gate components at rows, (n_components, n_kernels, n_rows)."""
        raise NotImplementedError

    def _scores_at(self, result: Any, rows: Rows) -> np.ndarray:
        """Return the scores of rows, (n_rows,), or (n_tasks, n_rows) where tasks share a result."""
        raise NotImplementedError

    def _kernel_at(self, result: Any, rows: Rows) -> np.ndarray:
        """Return the combined kernel of rows, (n_rows, n_train)."""
        return combine_components(
            rows.kernels, self._components(result, rows), self._train_components(result)
        )

    def _gating(self, row_components: np.ndarray, column_components: np.ndarray, kernel: int) -> np.ndarray:
        """Return the gating matrix of one kernel from the components of rows and columns."""
        return gating_matrix(row_components, column_components, kernel)

    def _gate_features(
        self, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
    ) -> Any:
        """Return the features of the gates, (n_rows, n_gate_features); None where they need nothing."""
        return None

    _refuse_gate_features = refuse_gate_features

    def _most_steps(self) -> int:
        """Return the largest number of steps of a task, for the progress bar."""
        return int(self.max_iter)

    def _training_rows(self, training: Rows, part: slice) -> Rows:
        """Return some of the training samples as rows to score."""
        features = None if training.features is None else training.features[part]
        return Rows(training.kernels.rows(part), features)

    def _doubts(self, training: Rows, targets: np.ndarray) -> list[str]:
        """Return reasons to warn about a fit to classes, as parts of one sentence."""
        return doubt_one_answer(self, training, targets) if self.ONE_ANSWER else []

    def _remedy(self) -> str:
        return self.ONE_ANSWER

    def _warn_unless_converged(self, results: Sequence[LocalFit]) -> None:
        warn_unless_converged(self, results)

    # ---------------------------------------------------------------------------------------------- fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("indefinite", self.indefinite, INDEFINITE)
        check_gate_columns(self.gate_columns, self._is_precomputed())
        self._inner()

    def _new_bank(self, X: Samples | None = None) -> KernelBank:
        return bank_apart(self, super()._new_bank(X), X)

    def _check_kernels(self, stack: DenseStack, known_psd: np.ndarray | None) -> DenseStack:
        return check_definite(self, stack, known_psd, bank_errors(self, stack))

    def _row_stack(self, X: Samples) -> DenseStack:
        return clip_rows(self, super()._row_stack(X))

    def _blocks(self, X: np.ndarray, kernels: np.ndarray) -> Iterator[DenseStack]:
        for stack in super()._blocks(X, kernels):
            yield clip_rows(self, stack, kernels)

    def _fit_classes(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> None:
        """Fit a classifier, and issue one warning with the reasons against it."""
        self._check_parameters()  # first: a mistake in them costs no time
        refuse_missing_labels(y, "a label", ALL_LABELED)
        self._refuse_gate_features(gate_features, not self._is_precomputed())
        kernels, y = self._fit_stack(X, y)
        self.classes_, targets = encode_labels(y)
        training = self._fit_local(kernels, targets, gate_features)
        if doubts := self._doubts(training, targets):
            warn_user(f"{type(self).__name__} {', and '.join(doubts)}. {self._remedy()}", UserWarning)

    def _fit_local(self, kernels: DenseStack, targets: np.ndarray, gate_features: ArrayLike | None) -> Rows:
        """Learn task by task, store the results, and return the training samples."""
        X = None if self.kernel_bank_ is None else self.kernel_bank_.X_train_
        training = Rows(kernels, self._gate_features(X, gate_features, targets.shape[1], fitting=True))
        stopped: list[float] = []
        inner, total, results = self._inner(stopped.append), self._most_steps(), []
        for target in self._groups(targets):
            with (
                step_progress(self.verbose > 0, type(self).__name__, total, "step") as on_step,
                blas_threads_for(targets.shape[1]),
            ):
                results.append(self._learn_task(training, target, inner, on_step))
        self._store_local(results, bool(stopped))
        warn_of_stopped(self, stopped)
        return training

    def _store_local(self, results: list[Any], stopped: bool) -> None:
        """Set the fitted attributes, with a leading class axis where there are several tasks."""
        fits = [self._describe(result, stopped) for result in results]
        several = len(fits) > 1
        self.results_ = tuple(results)
        duals = np.stack([fit.signed_dual for fit in fits])
        intercepts = np.stack([fit.intercept for fit in fits])
        gates = np.stack([fit.gates.T for fit in fits])
        self.gates_ = gates if several else gates[0]
        self.dual_coef_ = duals if several else duals[0]
        self.intercept_ = intercepts if several else intercepts[0]
        if np.ndim(self.intercept_) == 0:
            self.intercept_ = float(self.intercept_)
        counted = np.abs(duals) > SUPPORT * np.abs(duals).max(initial=0.0)
        self.support_ = np.flatnonzero(counted.any(axis=tuple(range(counted.ndim - 1))))
        self.support_fraction_ = len(self.support_) / duals.shape[-1]
        self.n_active_kernels_ = int((gates > ACTIVE * gates.max(initial=0.0)).any(axis=(0, 1)).sum())
        store_convergence(self, fits)
        self._warn_unless_converged(fits)

    # ----------------------------------------------------------------------------------------------- results

    def _row_parts(self, X: Samples, gate_features: ArrayLike | None = None) -> Iterator[Rows]:
        """Cut rows into parts whose kernels fit into memory."""
        check_is_fitted(self, "results_")
        rows = self._validate_rows(X)
        self._refuse_gate_features(gate_features, self.kernel_bank_ is not None)
        with_features = rows if self.kernel_bank_ is not None else None
        features = self._gate_features(with_features, gate_features, len(rows), fitting=False)
        first = 0
        for stack in self._blocks(rows, np.arange(self.n_kernels_in_)):
            part = slice(first, first + stack.n_rows)
            yield Rows(stack, None if features is None else features[part])
            first = part.stop

    def _scores_local(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Return scores of shape (n_tasks, n_rows)."""
        return self._scores_of_parts(self._row_parts(X, gate_features))

    def _scores_of_parts(self, parts: Iterable[Rows]) -> np.ndarray:
        scores = [
            np.concatenate([np.atleast_2d(self._scores_at(result, rows)) for result in self.results_])
            for rows in parts
        ]
        return np.concatenate(scores, axis=1)

    def _components_local(
        self, X: Samples | None, gate_features: ArrayLike | None = None
    ) -> list[np.ndarray]:
        """Return the components of every task at rows, or at the training samples where `X` is None."""
        check_is_fitted(self, "results_")
        if X is None:
            return [self._train_components(result) for result in self.results_]
        parts = [
            [self._components(result, rows) for result in self.results_]
            for rows in self._row_parts(X, gate_features)
        ]
        return [np.concatenate(of_result, axis=2) for of_result in zip(*parts, strict=True)]

    def _gates_local(self, X: Samples | None, gate_features: ArrayLike | None = None) -> np.ndarray:
        return self._of_tasks([gates_of_components(c) for c in self._components_local(X, gate_features)])

    def _gating_local(
        self, rows: list[np.ndarray], columns: list[np.ndarray], kernel: int | str
    ) -> np.ndarray:
        position = position_of(self, kernel)
        return self._of_tasks([self._gating(*pair, position) for pair in zip(rows, columns, strict=True)])

    def _combined_local(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        parts = [
            [self._kernel_at(result, rows) for result in self.results_]
            for rows in self._row_parts(X, gate_features)
        ]
        return self._of_tasks([np.concatenate(of_result) for of_result in zip(*parts, strict=True)])

    def _of_tasks(self, arrays: list[np.ndarray]) -> np.ndarray:
        return arrays[0] if len(arrays) == 1 else np.stack(arrays)

    def _decide(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Return the scores of rows, (n_rows,), or (n_rows, n_classes) for more than two classes."""
        scores = self._scores_local(X, gate_features)
        return scores[0] if len(scores) == 1 else scores.T

    def _choose(self, scores: np.ndarray) -> np.ndarray:
        return self.classes_[most_probable(scores)]


def doubt_one_answer(model: BaseLocalized, training: Rows, targets: np.ndarray) -> list[str]:
    """Return the reason for a warning if all training samples are predicted as one class."""
    answer = _only_answer(model, training)
    if answer is None:
        return []
    of_class = targets[answer] > 0.0 if len(targets) > 1 else (targets[0] > 0.0) == answer
    return [
        f"predicts {model.classes_[answer : answer + 1].tolist()[0]!r} for all training samples, of which "
        f"{of_class.mean():.0%} are of that class"
    ]


def _only_answer(model: BaseLocalized, training: Rows) -> int | None:
    """Return the position of the class that all training samples get, None as soon as there are two."""
    n_samples, found = model.dual_coef_.shape[-1], set()
    step = -(-n_samples // ROWS_AT_ONCE)
    for first in range(step):
        rows = model._training_rows(training, slice(first, None, step))  # labels may be sorted
        scores = model._scores_of_parts([rows])
        found.update(most_probable(scores[0] if len(scores) == 1 else scores.T).tolist())
        if len(found) > 1:
            return None
    return found.pop()
