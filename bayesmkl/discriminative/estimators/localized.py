"""Base of the localized estimators: gates and gating matrices, scores by task, fitted attributes.

An estimator learns one result per task (two classes: one; more: one per class, against the rest) and reads from it
what users see. Features that gates depend on are columns of `X` with a bank, or passed as `gate_features`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator import encode_labels, step_progress
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.base import ALL_LABELED, refuse_missing_labels
from bayesmkl.discriminative.estimators.checked import ACTIVE, SUPPORT, CheckedKernels, OnStep
from bayesmkl.discriminative.estimators.gate_features import (
    apart_from_gates,
    check_gate_columns,
    check_gate_features,
    refuse_gate_features,
)
from bayesmkl.discriminative.gating import combine_components, gates_of_components, gating_matrix
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.column_labels import column_labels, refuse_other_columns

__all__ = [
    "BaseLocalized",
    "FeatureGatedClassifier",
    "FeatureGatedRegressor",
    "FeatureGates",
    "LocalFit",
    "LocalizedClassifier",
    "Rows",
]

ROWS_AT_ONCE = 500  # whose answers are compared


class Rows(NamedTuple):
    """What is known of some samples.

    Parameters
    ----------
    kernels : Any
        Their kernels against the training samples: a KernelRows, or what the estimator's `_row_parts` gives.
    features : ndarray of shape (n_rows, n_gate_features) or None
        What gates are functions of.
    """

    kernels: Any
    features: Any


class LocalFit(NamedTuple):
    """What was learned for one task, in the terms that all localized methods have.

    Parameters
    ----------
    gates : ndarray of shape (n_kernels, n_train)
    signed_dual : ndarray of shape (n_train,), or (n_kernels, n_train) for one machine per kernel, (n_tasks, n_train)
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


class BaseLocalized(CheckedKernels):
    """One result per task, and kernels whose weights depend on the samples."""

    verbose: int
    results_: tuple[Any, ...]
    gates_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: Any

    # ------------------------------------------------------------------------------------------------ hooks

    def _learn_task(
        self, kernels: Any, features: np.ndarray | None, target: np.ndarray, on_step: OnStep
    ) -> Any:
        """Return the algorithm's result for a target of shape (n_train,)."""
        raise NotImplementedError

    def _groups(self, targets: np.ndarray) -> Sequence[np.ndarray]:
        """Return the targets of each result; a method whose tasks share weights gives several to one."""
        return list(targets)

    def _describe(self, result: Any) -> LocalFit:
        """Return what the result says in the terms that all methods have."""
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

    def _gate_features(self, X: np.ndarray | None, gate_features: Any, n_rows: int, fitting: bool) -> Any:
        """Return what the gates are functions of, (n_rows, n_gate_features); None where they need nothing."""
        return None

    def _most_steps(self) -> int:
        """Return how many steps a task takes at most, for the progress bar."""
        return int(getattr(self, "max_iter", 1)) * int(getattr(self, "n_init", 1))

    # ---------------------------------------------------------------------------------------------- fitting

    def _fit_local(self, kernels: Any, targets: np.ndarray, gate_features: Any) -> None:
        """Learn task by task and store what was found."""
        X = None if self.kernel_bank_ is None else self.kernel_bank_.X_train_
        features = self._gate_features(X, gate_features, targets.shape[1], fitting=True)
        total = self._most_steps()
        results = []
        for target in self._groups(targets):
            with (
                step_progress(self.verbose > 0, type(self).__name__, total, "step") as on_step,
                blas_threads_for(targets.shape[1]),
            ):
                results.append(self._learn_task(kernels, features, target, on_step))
        self._store_local(results)

    def _store_local(self, results: list[Any]) -> None:
        """Set the fitted attributes, with a leading class axis where there are several tasks."""
        fits = [self._describe(result) for result in results]
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
        each: dict[str, list[Any]] = {
            "objective_history_": [fit.objective_history for fit in fits],
            "duality_gap_": [fit.duality_gap for fit in fits],
            "n_iter_": [max(1, len(fit.objective_history)) for fit in fits],
            "outcome_": [fit.outcome for fit in fits],
            "n_solves_": [fit.n_solves for fit in fits],
        }
        for name, values in each.items():
            as_tuple = name in ("objective_history_", "outcome_")
            setattr(self, name, (tuple(values) if as_tuple else np.array(values)) if several else values[0])
        self.converged_ = all(fit.outcome.converged for fit in fits)
        self._warn_unless_converged(fits)

    # ----------------------------------------------------------------------------------------------- results

    def _row_parts(self, X: Any, gate_features: Any = None) -> Iterator[Rows]:
        """Cut rows into parts whose kernels fit into memory."""
        check_is_fitted(self, "results_")
        rows = self._validate_rows(X)
        with_features = rows if self.kernel_bank_ is not None else None
        features = self._gate_features(with_features, gate_features, len(rows), fitting=False)
        first = 0
        for stack in self._blocks(rows, np.arange(self.n_kernels_in_)):
            part = slice(first, first + stack.n_rows)
            yield Rows(stack, None if features is None else features[part])
            first = part.stop

    def _scores_local(self, X: Any, gate_features: Any = None) -> np.ndarray:
        """Return scores of shape (n_tasks, n_rows)."""
        return self._scores_of_parts(self._row_parts(X, gate_features))

    def _scores_of_parts(self, parts: Iterable[Rows]) -> np.ndarray:
        scores = [
            np.concatenate([np.atleast_2d(self._scores_at(result, rows)) for result in self.results_])
            for rows in parts
        ]
        return np.concatenate(scores, axis=1)

    def _components_local(self, X: Any, gate_features: Any = None) -> list[np.ndarray]:
        """Return the components of every task at rows, or at the training samples where `X` is None."""
        check_is_fitted(self, "results_")
        if X is None:
            return [self._train_components(result) for result in self.results_]
        parts = [
            [self._components(result, rows) for result in self.results_]
            for rows in self._row_parts(X, gate_features)
        ]
        return [np.concatenate(of_result, axis=2) for of_result in zip(*parts, strict=True)]

    def _gates_local(self, X: Any, gate_features: Any = None) -> np.ndarray:
        return self._of_tasks([gates_of_components(c) for c in self._components_local(X, gate_features)])

    def _gating_local(
        self, rows: list[np.ndarray], columns: list[np.ndarray], kernel: int | str
    ) -> np.ndarray:
        position = self._position(kernel)
        return self._of_tasks([self._gating(*pair, position) for pair in zip(rows, columns, strict=True)])

    def _combined_local(self, X: Any, gate_features: Any = None) -> np.ndarray:
        parts = [
            [self._kernel_at(result, rows) for result in self.results_]
            for rows in self._row_parts(X, gate_features)
        ]
        return self._of_tasks([np.concatenate(of_result) for of_result in zip(*parts, strict=True)])

    def _of_tasks(self, arrays: list[np.ndarray]) -> np.ndarray:
        return arrays[0] if len(arrays) == 1 else np.stack(arrays)

    def gates(self, X: Any = None) -> np.ndarray:
        r"""Return how strongly each kernel acts at each sample.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels, default=None
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels). None is for the training samples.

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            :math:`\sqrt{\Gamma_m(x, x)}`; of more than two classes, (n_classes, n_rows, n_kernels).

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._gates_local(X)

    def gating_matrix(self, X: Any, Z: Any, kernel: int | str) -> np.ndarray:
        r"""Return :math:`\Gamma_m(x, z)`, by which values of one kernel are multiplied.

        Parameters
        ----------
        X, Z : array-like or DataFrame of shape (n_rows, n_features), or kernels
            Samples, as in `gates`; None is for the training samples.
        kernel : int or str
            Position or name.

        Returns
        -------
        ndarray of shape (n_rows_X, n_rows_Z)
            Of more than two classes, with a leading axis of length n_classes.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `kernel` is neither a position nor a name.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._gating_local(self._components_local(X), self._components_local(Z), kernel)

    def combined_kernel(self, X: Any) -> np.ndarray:
        r"""Return :math:`\sum_m \Gamma_m(x, z) K_m(x, z)` between the rows of `X` and the training samples.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Of more than two classes, (n_classes, n_rows, n_train).

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._combined_local(X)


class LocalizedClassifier(ClassifierMixin, BaseLocalized):
    """Classifiers whose gates need nothing but the kernels."""

    ONE_ANSWER = (
        ""  # what to do where all training samples get one; without it, only data and `C` lead to that
    )
    classes_: np.ndarray

    def _prepare(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        self._check_parameters()  # first: a mistake in them costs no time
        refuse_missing_labels(y, "a label", ALL_LABELED)
        kernels, y = self._fit_stack(X, y)
        self.classes_, targets = encode_labels(y)
        return kernels, targets

    def _fit_classes(self, X: Any, y: Any, gate_features: Any = None) -> None:
        kernels, targets = self._prepare(X, y)
        self._fit_local(kernels, targets, gate_features)
        if doubts := self._doubts(kernels, targets, gate_features):
            warn_user(f"{type(self).__name__} {', and '.join(doubts)}. {self._remedy()}", UserWarning)

    def _doubts(self, kernels: Any, targets: np.ndarray, gate_features: Any) -> list[str]:
        """Say what speaks against a fit, in parts of one sentence."""
        answer = self._only_answer(kernels, gate_features) if self.ONE_ANSWER else None
        if answer is None:
            return []
        of_class = targets[answer] > 0.0 if len(targets) > 1 else (targets[0] > 0.0) == answer
        return [
            f"predicts {self.classes_[answer : answer + 1].tolist()[0]!r} for all training samples, of which "
            f"{of_class.mean():.0%} are of that class"
        ]

    def _remedy(self) -> str:
        return self.ONE_ANSWER

    def _only_answer(self, kernels: Any, gate_features: Any) -> int | None:
        """Return the position of the class that all training samples get, None as soon as there are two."""
        n_samples, found = self.dual_coef_.shape[-1], set()
        X = None if self.kernel_bank_ is None else self.kernel_bank_.X_train_
        features = self._gate_features(X, gate_features, n_samples, fitting=False)
        step = -(-n_samples // ROWS_AT_ONCE)
        for first in range(step):
            part = slice(first, None, step)  # labels may be sorted
            rows = self._training_rows(kernels, None if features is None else features[part], part)
            scores = self._scores_of_parts([rows])
            found.update(_highest(scores[0] if len(scores) == 1 else scores.T).tolist())
            if len(found) > 1:
                return None
        return found.pop()

    def _training_rows(self, kernels: Any, features: Any, part: slice) -> Rows:
        return Rows(kernels.rows(part), features)

    def _decide(self, X: Any, gate_features: Any = None) -> np.ndarray:
        scores = self._scores_local(X, gate_features)
        return scores[0] if len(scores) == 1 else scores.T

    def _choose(self, scores: np.ndarray) -> np.ndarray:
        return self.classes_[_highest(scores)]

    def fit(self, X: Any, y: Any) -> Any:
        """Learn gates and classifier.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples,)
            Labels of at least two classes.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid parameters or data; the message names the argument and the remedy.
        TypeError
            If `X` or `y` is a sparse matrix, or holds other objects than numbers or labels.

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        UserWarning
            If a vote or inferred switches (LD-MKL, SAMKL) give all training samples one answer.
        KernelQualityWarning
            If kernels are near-identity, constant, duplicate, asymmetric or badly scaled.
        """
        self._fit_classes(X, y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the rows of `X`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Positive for ``classes_[1]`` in the binary case.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._decide(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of every row: the side of zero, or the highest score.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._choose(self._decide(X))


def _highest(scores: np.ndarray) -> np.ndarray:
    """Return the positions of the predicted classes: the side of zero, or the highest score."""
    return (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


class FeatureGates(BaseLocalized):
    """Gates that are functions of features, which precomputed kernels do not bring along."""

    gate_columns: Any
    gate_columns_: np.ndarray | None
    n_gate_features_: int

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_gate_columns(self.gate_columns, self._is_precomputed())

    def _bank_for(self, X: Any) -> KernelBank:
        """Return a bank whose views leave the columns of the gates out, unless they name them."""
        bank = super()._bank_for(X)
        self.gate_columns_ = apart_from_gates(bank, X, self.gate_columns, self.n_features_in_)
        return bank

    def _gate_features(self, X: np.ndarray | None, gate_features: Any, n_rows: int, fitting: bool) -> Any:
        """Return columns of `X`, or `gate_features` where kernels are precomputed."""
        if X is not None:
            refuse_gate_features(gate_features)
            features = X if self.gate_columns_ is None else X[:, self.gate_columns_]
            if fitting:
                self.n_gate_features_ = features.shape[1]
            return features
        if fitting:
            self.gate_columns_ = None
            self._gate_labels = column_labels(gate_features)
        if gate_features is None:
            raise ValueError(
                f"`gate_features` must be passed with precomputed kernels: the gates of {type(self).__name__} are "
                "functions of features, and got None. Pass an array of shape (n_samples, n_gate_features) to `fit` "
                'and to `predict`, or features and a bank, `kernels=KernelBank(...)`, instead of "precomputed".'
            )
        refuse_other_columns(gate_features, self._gate_labels, "gate_features")
        features = check_gate_features(gate_features, n_rows)
        if fitting:
            self.n_gate_features_ = features.shape[1]
        elif features.shape[1] != self.n_gate_features_:
            raise ValueError(
                f"`gate_features` must have {self.n_gate_features_} columns, as when fitting; got "
                f"{features.shape[1]}. Pass the same features as to `fit`."
            )
        return features

    def gates(self, X: Any = None, gate_features: Any = None) -> np.ndarray:
        r"""Return how strongly each kernel acts at each sample.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels, default=None
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels). None is for the training samples.
        gate_features : array-like of shape (n_rows, n_gate_features), default=None
            What the gates are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            :math:`\sqrt{\Gamma_m(x, x)}`; of more than two classes, (n_classes, n_rows, n_kernels).

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another shape.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._gates_local(X, gate_features)

    def gating_matrix(
        self, X: Any, Z: Any, kernel: int | str, *, gate_features: Any = None, gate_features_Z: Any = None
    ) -> np.ndarray:
        r"""Return :math:`\Gamma_m(x, z)`, by which values of one kernel are multiplied.

        Parameters
        ----------
        X, Z : array-like or DataFrame of shape (n_rows, n_features), or kernels
            Samples, as in `gates`; None is for the training samples.
        kernel : int or str
            Position or name.
        gate_features, gate_features_Z : array-like of shape (n_rows, n_gate_features), default=None
            What the gates at `X` and at `Z` are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows_X, n_rows_Z)
            Of more than two classes, with a leading axis of length n_classes.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another
            shape; or if `kernel` is neither a position nor a name.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        rows, columns = self._components_local(X, gate_features), self._components_local(Z, gate_features_Z)
        return self._gating_local(rows, columns, kernel)

    def combined_kernel(self, X: Any, gate_features: Any = None) -> np.ndarray:
        r"""Return :math:`\sum_m \Gamma_m(x, z) K_m(x, z)` between the rows of `X` and the training samples.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        gate_features : array-like of shape (n_rows, n_gate_features), default=None
            What the gates are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Of more than two classes, (n_classes, n_rows, n_train).

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another shape.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._combined_local(X, gate_features)


class FeatureGatedClassifier(FeatureGates, LocalizedClassifier):
    """Classifiers whose gates are functions of features."""

    def fit(self, X: Any, y: Any, gate_features: Any = None) -> Any:
        """Learn gates and classifier.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        gate_features : array-like of shape (n_samples, n_gate_features), default=None
            With ``kernels="precomputed"``, what the gates are functions of; columns of `X` otherwise.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid parameters or data; the message names the argument and the remedy.
        TypeError
            If `X`, `y` or `gate_features` is a sparse matrix, or holds other objects than numbers or labels.

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        UserWarning
            If a vote or inferred switches (LD-MKL, SAMKL) give all training samples one answer.
        KernelQualityWarning
            If kernels are near-identity, constant, duplicate, asymmetric or badly scaled.
        """
        self._fit_classes(X, y, gate_features)
        return self

    def decision_function(self, X: Any, gate_features: Any = None) -> np.ndarray:
        """Return the scores of the rows of `X`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        gate_features : array-like of shape (n_rows, n_gate_features), default=None
            What the gates are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Positive for ``classes_[1]`` in the binary case.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another shape.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._decide(X, gate_features)

    def predict(self, X: Any, gate_features: Any = None) -> np.ndarray:
        """Predict the class of every row: the side of zero, or the highest score.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        gate_features : array-like of shape (n_rows, n_gate_features), default=None
            What the gates are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another shape.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._choose(self._decide(X, gate_features))

    def score(self, X: Any, y: Any, sample_weight: Any = None, gate_features: Any = None) -> float:
        """Return the accuracy of the predictions for `X`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        y : array-like of shape (n_rows,)
            True labels.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.
        gate_features : array-like of shape (n_rows, n_gate_features), default=None
            What the gates are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        float
            Share of the rows whose class is right, from 0 to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another
            shape; or if `y` does not have a label for every row.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return float(accuracy_score(y, self.predict(X, gate_features), sample_weight=sample_weight))


class FeatureGatedRegressor(RegressorMixin, FeatureGates):
    """Regressors whose gates are functions of features."""

    def fit(self, X: Any, y: Any, gate_features: Any = None) -> Any:
        """Learn gates and regression function.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples,)
            Target, in any units; it is not standardized.
        gate_features : array-like of shape (n_samples, n_gate_features), default=None
            With ``kernels="precomputed"``, what the gates are functions of; columns of `X` otherwise.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid parameters or data; the message names the argument and the remedy.
        TypeError
            If `X`, `y` or `gate_features` is a sparse matrix, or holds other objects than numbers or labels.

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        KernelQualityWarning
            If kernels are near-identity, constant, duplicate, asymmetric or badly scaled.
        """
        self._check_parameters()
        kernels, y = self._fit_stack(X, y, y_numeric=True)
        self._fit_local(kernels, np.asarray(y, dtype=np.float64)[None], gate_features)
        return self

    def predict(self, X: Any, gate_features: Any = None) -> np.ndarray:
        """Predict the target of every row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        gate_features : array-like of shape (n_rows, n_gate_features), default=None
            What the gates are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows,)
            In the units of the training target.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another shape.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return self._scores_local(X, gate_features)[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, gate_features: Any = None) -> float:
        """Return the coefficient of determination of the predictions for `X`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        y : array-like of shape (n_rows,)
            True target.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.
        gate_features : array-like of shape (n_rows, n_gate_features), default=None
            What the gates are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        float
            :math:`R^2`: 1 at best, 0 for the mean of `y`, without lower bound.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
            numbers; or if `gate_features` are missing where they are needed, given where not, or of another
            shape; or if `y` does not have a number for every row.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """
        return float(r2_score(y, self.predict(X, gate_features), sample_weight=sample_weight))
