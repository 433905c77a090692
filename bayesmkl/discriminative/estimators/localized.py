"""Localized methods as scikit-learn estimators: tasks, gates and gating matrices, scores and fitted attributes.

An estimator learns one result per task (two classes: one; more: one per class, against the rest) and reads from it
what users see. Features that gates depend on are columns of `X` with a bank, or passed as `gate_features`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.gate_features import bank_apart, check_gate_columns, refuse_gate_features
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples, Seed, Targets
from bayesmkl._utils.validation import check_choice, check_scale
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.base import ALL_LABELED, refuse_missing_labels
from bayesmkl.discriminative.estimators.checked import (
    ACTIVE,
    SUPPORT,
    KernelMachine,
    check_below_one,
)
from bayesmkl.discriminative.estimators.shared_docs import DISCRIMINATIVE, GATED
from bayesmkl.discriminative.folds import evenly_dealt
from bayesmkl.discriminative.gating import combine_components, gates_of_components, gating_matrix
from bayesmkl.discriminative.global_weights.mwumkl import MOST_STEPS, MultiplicativeWeights
from bayesmkl.discriminative.localized.lmkl import Comparison
from bayesmkl.discriminative.problems import OnStep, silent
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.discriminative.svm.one_kernel import takes_columns
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes.labels import encode_labels, most_probable

SVMS = ("libsvm", "mwu")
N_FOLDS = 3  # of comparisons with gates that are the same for all samples
MOST_COMPARED = 400  # samples of these comparisons


class Rows(NamedTuple):
    """Kernels and gate features of some samples.

    Parameters
    ----------
    kernels : Any
        Their kernels against the training samples: a Stack, or what the estimator's `_row_parts` gives.
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


class BaseLocalized(KernelMachine):
    """One result per task, and kernels whose weights depend on the samples."""

    PER_TASK: tuple[str, ...] = ()  # fields of the results that are fitted attributes, too

    C: Any
    svm: str = "libsvm"  # of methods without a choice
    mwu_epsilon: float
    gate_columns: Any = None  # of methods whose gates are no functions of features
    classes_: np.ndarray  # of classifiers
    results_: tuple[Any, ...]
    gates_: np.ndarray
    gate_columns_: np.ndarray | None  # where gates are functions of features
    dual_coef_: np.ndarray
    intercept_: Any

    # ------------------------------------------------------------------------------------------------ hooks

    def _inner(self, report: Callable[[float], None] | None = None) -> Any:
        """Return the SVM of valid `C`, `svm` and `mwu_epsilon`; None where the algorithm has its own.

        With ``svm="mwu"`` the loss is the squared hinge, and `report` is told the relative duality gap wherever the
        solver takes too many steps.
        """
        C = check_scale("C", self.C)
        svm = check_choice("svm", self.svm, SVMS)
        epsilon = check_below_one("mwu_epsilon", self.mwu_epsilon, "a share of the objective", 0.05)
        return Hinge(C) if svm == "libsvm" else MultiplicativeWeights(C, epsilon, report=report)

    def _learn_task(self, training: Rows, target: np.ndarray, inner: Any, on_step: OnStep) -> Any:
        """Return the algorithm's result for a target of shape (n_train,)."""
        raise NotImplementedError

    def _groups(self, targets: np.ndarray) -> Sequence[np.ndarray]:
        """Return the targets of each result; a method whose tasks share weights gives several to one."""
        return list(targets)

    def _describe(self, result: Any, stopped: bool) -> Any:
        """Return the result with the fields of a `LocalFit`; `stopped` if `_inner` reported gaps."""
        return result

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

    def _held_out(
        self, labels: np.ndarray, errors: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> Comparison | None:
        """Return three folds of at most 400 samples and how to judge them; None where a class is too small."""
        rng = self._rng()
        keys = () if self.kernel_bank_ is None else self.kernel_bank_.X_train_.T[::-1]
        order = np.lexsort((labels, *keys)) if len(keys) else np.arange(len(labels))
        if len(order) > MOST_COMPARED:
            order = order[rng.choice(len(order), MOST_COMPARED, replace=False)]
        n_folds = min(N_FOLDS, *np.unique(labels[order], return_counts=True)[1])
        if n_folds < 2:
            return None
        return Comparison(evenly_dealt(order, labels, int(n_folds), rng), errors, rng)

    def _most_steps(self) -> int:
        """Return the largest number of steps of a task, for the progress bar."""
        return int(self.max_iter)

    # ---------------------------------------------------------------------------------------------- fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_gate_columns(self.gate_columns, self._is_precomputed())
        self._inner()

    def _new_bank(self, X: Samples | None = None) -> KernelBank:
        return bank_apart(self, super()._new_bank(X), X)

    def _fit_classes(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> None:
        """Fit a classifier."""
        self._check_parameters()  # first: a mistake in them costs no time
        refuse_missing_labels(y, "a label", ALL_LABELED)
        self._refuse_gate_features(gate_features, not self._is_precomputed())
        kernels, y = self._fit_stack(X, y)
        self.classes_, targets = encode_labels(y)
        self._fit_local(kernels, targets, gate_features)

    def _fit_stack(self, X: Samples, y: Targets, **check_y: Any) -> tuple[Any, np.ndarray]:
        """Fit the bank; for SVMs from columns, return columns that are evaluated on demand."""
        if takes_columns(self._inner()) and not self._is_precomputed() and self.indefinite != "clip":
            return self._fit_columns(X, y, **check_y)
        return super()._fit_stack(X, y, **check_y)

    def _fit_local(self, kernels: DenseStack, targets: np.ndarray, gate_features: ArrayLike | None) -> None:
        """Learn task by task, and store the results."""
        X = None if self.kernel_bank_ is None else self.kernel_bank_.X_train_
        training = Rows(kernels, self._gate_features(X, gate_features, targets.shape[1], fitting=True))
        stopped: list[float] = []
        inner, total, results = self._inner(stopped.append), self._most_steps(), []
        for target in self._groups(targets):
            with (
                step_progress(self.verbose > 0, type(self).__name__, total, "step") as on_step,
                blas_threads_for(targets.shape[1]),
            ):
                results.append(self._learn_task(training, target, inner, on_step or silent))
        self._store_local(results, bool(stopped))
        if stopped:
            warn_user(
                f"{type(self).__name__}: {len(stopped)} SVMs stopped after {MOST_STEPS} steps of multiplicative "
                f"weights with relative duality gaps up to {max(stopped):.1e}, above "
                f"mwu_epsilon={self.mwu_epsilon:g}. Lower `C`, raise `mwu_epsilon`, or use "
                '`svm="libsvm"`.',
                ConvergenceWarning,
            )

    def _store_local(self, results: list[Any], stopped: bool) -> None:
        """Set the fitted attributes, with a leading class axis where there are several tasks."""
        fits = [self._describe(result, stopped) for result in results]
        self.results_ = tuple(results)
        for name in self.PER_TASK:
            setattr(self, f"{name}_", self._of_tasks([getattr(result, name) for result in results]))
        duals = np.stack([fit.signed_dual for fit in fits])
        gates = np.stack([fit.gates.T for fit in fits])
        self.gates_, self.dual_coef_ = self._of_tasks(list(gates)), self._of_tasks(list(duals))
        self.intercept_ = self._of_tasks([fit.intercept for fit in fits])
        if np.ndim(self.intercept_) == 0:
            self.intercept_ = float(self.intercept_)
        counted = np.abs(duals) > SUPPORT * np.abs(duals).max(initial=0.0)
        self.support_ = np.flatnonzero(counted.any(axis=tuple(range(counted.ndim - 1))))
        self.support_fraction_ = len(self.support_) / duals.shape[-1]
        self.n_active_kernels_ = int((gates > ACTIVE * gates.max(initial=0.0)).any(axis=(0, 1)).sum())
        self._store_convergence(fits)
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
        scores = [
            np.concatenate([np.atleast_2d(self._scores_at(result, rows)) for result in self.results_])
            for rows in self._row_parts(X, gate_features)
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
        position = self._position_of(kernel)
        return self._of_tasks([self._gating(*pair, position) for pair in zip(rows, columns, strict=True)])

    def _combined_local(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        parts = [
            [self._kernel_at(result, rows) for result in self.results_]
            for rows in self._row_parts(X, gate_features)
        ]
        return self._of_tasks([np.concatenate(of_result) for of_result in zip(*parts, strict=True)])

    def _of_tasks(self, values: Sequence[Any]) -> Any:
        return values[0] if len(values) == 1 else np.stack(values)

    def _decide(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Return the scores of rows, (n_rows,), or (n_rows, n_classes) for more than two classes."""
        scores = self._scores_local(X, gate_features)
        return scores[0] if len(scores) == 1 else scores.T


@dataclass(eq=False, repr=False, kw_only=True)
class LocalizedParameters(BaseLocalized):
    """The parameters of all localized methods: fields of dataclasses, which those of each method add to."""

    C: Any = 1.0
    random_state: Seed | None = None
    verbose: int = 1


@fill_docs(DISCRIMINATIVE)
class LocalizedClassifier(ClassifierMixin, LocalizedParameters):
    """Classifiers whose gates need nothing but the kernels."""

    def fit(self, X: Samples, y: Targets) -> Any:
        """Learn gates and classifier.

        Parameters
        ----------
        %(X:training)s
        %(y:labels)s

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:y)s

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        %(KernelQualityWarning)s
        """
        self._fit_classes(X, y)
        return self

    def decision_function(self, X: Samples) -> np.ndarray:
        """Return the scores of the rows of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Positive for ``classes_[1]`` in the binary case.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._decide(X)

    def predict(self, X: Samples) -> np.ndarray:
        """Predict the class of every row: the side of zero, or the highest score.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        scores = self._decide(X)
        return self.classes_[most_probable(scores)]

    def gates(self, X: Samples | None = None) -> np.ndarray:
        r"""Return the gates of each kernel at each sample.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            :math:`\sqrt{\Gamma_m(x, x)}`; of more than two classes, (n_classes, n_rows, n_kernels).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._gates_local(X)

    def gating_matrix(self, X: Samples, Z: Samples, kernel: int | str) -> np.ndarray:
        r"""Return :math:`\Gamma_m(x, z)`, by which values of one kernel are multiplied.

        Parameters
        ----------
        %(X, Z)s
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
        %(ValueError:X)s
            Also if `kernel` is neither a position nor a name.
        %(TypeError:X)s
        """
        return self._gating_local(self._components_local(X), self._components_local(Z), kernel)

    def combined_kernel(self, X: Samples) -> np.ndarray:
        r"""Return :math:`\sum_m \Gamma_m(x, z) K_m(x, z)` between the rows of `X` and the training samples.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Of more than two classes, (n_classes, n_rows, n_train).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._combined_local(X)


@fill_docs(GATED)
class FeatureGatedClassifier(ClassifierMixin, LocalizedParameters):
    """Classifiers whose gates are functions of features."""

    n_gate_features_: int

    def fit(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> Any:
        """Learn gates and classifier.

        Parameters
        ----------
        %(X:training)s
        %(y:labels)s
        %(gate_features:training)s

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:gates)s

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        %(KernelQualityWarning)s
        """
        self._fit_classes(X, y, gate_features)
        return self

    def decision_function(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Return the scores of the rows of `X`.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Positive for ``classes_[1]`` in the binary case.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._decide(X, gate_features)

    def predict(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Predict the class of every row: the side of zero, or the highest score.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        scores = self._decide(X, gate_features)
        return self.classes_[most_probable(scores)]

    def score(
        self,
        X: Samples,
        y: Targets,
        sample_weight: ArrayLike | None = None,
        gate_features: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy of the predictions for `X`.

        Parameters
        ----------
        %(X)s
        y : array-like of shape (n_rows,)
            True labels.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.
        %(gate_features)s

        Returns
        -------
        float
            Share of the rows whose class is right, from 0 to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
            Also if `y` does not have a label for every row.
        %(TypeError:X)s
        """
        return float(accuracy_score(y, self.predict(X, gate_features), sample_weight=sample_weight))

    def gates(self, X: Samples | None = None, gate_features: ArrayLike | None = None) -> np.ndarray:
        r"""Return the gates of each kernel at each sample.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            :math:`\sqrt{\Gamma_m(x, x)}`; of more than two classes, (n_classes, n_rows, n_kernels).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._gates_local(X, gate_features)

    def gating_matrix(
        self,
        X: Samples,
        Z: Samples,
        kernel: int | str,
        *,
        gate_features: ArrayLike | None = None,
        gate_features_Z: ArrayLike | None = None,
    ) -> np.ndarray:
        r"""Return :math:`\Gamma_m(x, z)`, by which values of one kernel are multiplied.

        Parameters
        ----------
        %(X, Z)s
        kernel : int or str
            Position or name.
        gate_features, gate_features_Z : array-like of shape (n_rows, n_gate_features), default=None
            Features that the gates at `X` and at `Z` are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows_X, n_rows_Z)
            Of more than two classes, with a leading axis of length n_classes.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
            Also if `kernel` is neither a position nor a name.
        %(TypeError:X)s
        """
        rows, columns = self._components_local(X, gate_features), self._components_local(Z, gate_features_Z)
        return self._gating_local(rows, columns, kernel)

    def combined_kernel(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        r"""Return :math:`\sum_m \Gamma_m(x, z) K_m(x, z)` between the rows of `X` and the training samples.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Of more than two classes, (n_classes, n_rows, n_train).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._combined_local(X, gate_features)


@fill_docs(GATED)
class FeatureGatedRegressor(RegressorMixin, LocalizedParameters):
    """Regressors whose gates are functions of features."""

    n_gate_features_: int

    gates = FeatureGatedClassifier.gates
    gating_matrix = FeatureGatedClassifier.gating_matrix
    combined_kernel = FeatureGatedClassifier.combined_kernel

    def fit(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> Any:
        """Learn gates and regression function.

        Parameters
        ----------
        %(X:training)s
        %(y:target)s
        %(gate_features:training)s

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:gates)s

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        %(KernelQualityWarning)s
        """
        self._check_parameters()
        self._refuse_gate_features(gate_features, not self._is_precomputed())
        kernels, y = self._fit_stack(X, y, y_numeric=True)
        self._fit_local(kernels, np.asarray(y, dtype=np.float64)[None], gate_features)
        return self

    def predict(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Predict the target of every row.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,)
            In the units of the training target.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._scores_local(X, gate_features)[0]

    def score(
        self,
        X: Samples,
        y: Targets,
        sample_weight: ArrayLike | None = None,
        gate_features: ArrayLike | None = None,
    ) -> float:
        """Return the coefficient of determination of the predictions for `X`.

        Parameters
        ----------
        %(X)s
        y : array-like of shape (n_rows,)
            True target.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.
        %(gate_features)s

        Returns
        -------
        float
            :math:`R^2`: 1 at best, 0 for the mean of `y`, without lower bound.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
            Also if `y` does not have a number for every row.
        %(TypeError:X)s
        """
        return float(r2_score(y, self.predict(X, gate_features), sample_weight=sample_weight))


def are_wrong(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return 1 where scores are on the wrong side of zero, 0 elsewhere."""
    return ((scores > 0.0) != (labels > 0.0)).astype(np.float64)
