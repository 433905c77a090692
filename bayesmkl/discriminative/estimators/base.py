"""Base classes of methods with one weight per kernel: tasks, fitted attributes and scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.base import check_targets
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.given import as_array, check_weights, is_missing
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_number, check_scale, shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.discriminative.estimators.checked import (
    ACTIVE,
    SINGLE_PRECISION,
    SUPPORT,
    KernelMachine,
    check_class_weight,
    encode_counted,
    weigh,
)
from bayesmkl.discriminative.estimators.shared_docs import DISCRIMINATIVE
from bayesmkl.discriminative.problems import OnStep, silent
from bayesmkl.discriminative.weights import Learned, SampleWeights, Training
from bayesmkl.kernels.geometry import mean_row
from bayesmkl.kernels.precomputed import SharedKernels
from bayesmkl.kernels.quality import KernelQualityWarning, judge_for_svm
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.views import check_samples
from bayesmkl.outcomes.labels import most_probable

ALL_LABELED = (
    "Leave these samples out, or use LapMKLClassifier, which takes unlabeled ones (`unlabeled_label`)."
)
MULTICLASS = ("one-versus-rest", "shared")


class RegularizationPath(NamedTuple):
    """Models for several values of one parameter, each started at the kernel weights of the previous one.

    Parameters
    ----------
    parameter : str
        Name of the parameter that changes: "C" or "reg".
    values : ndarray of shape (n_values,)
        In the order of the fits.
    models : tuple of estimator
        Fitted models, one per value. They share bank and kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SimpleMKLClassifier
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = SimpleMKLClassifier(KernelBank("linear", views="each", normalize="trace"))
    >>> path = model.path(X, X[:, 0] > 0, C_values=[0.01, 1.0])
    >>> path.parameter, path.values, path.kernel_weights.shape
    ('C', array([0.01, 1.  ]), (2, 3))
    >>> path.to_frame()["active_kernels"].tolist()
    [1, 2]
    """

    parameter: str
    values: np.ndarray
    models: tuple[Any, ...]

    @property
    def kernel_weights(self) -> np.ndarray:
        """Kernel weights along the path.

        Of shape (n_values, n_kernels), or (n_values, n_classes, n_kernels) where every class has its own.
        """
        return np.stack([model.kernel_weights_ for model in self.models])

    def to_frame(self) -> Any:
        """Return a table with one row per fit.

        Returns
        -------
        pandas.DataFrame
            One row per value, with the columns ``C`` or ``reg``, ``n_iter``, ``n_solves`` (inner problems solved),
            ``active_kernels``, ``support_fraction``, ``duality_gap`` and ``converged``. Iterations, problems and gaps
            are sums over classes where every class has kernel weights of its own.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                self.parameter: self.values,
                "n_iter": [int(np.sum(model.n_iter_)) for model in self.models],
                "n_solves": [int(np.sum(model.n_solves_)) for model in self.models],
                "active_kernels": [model.n_active_kernels_ for model in self.models],
                "support_fraction": [model.support_fraction_ for model in self.models],
                "duality_gap": [float(np.sum(model.duality_gap_)) for model in self.models],
                "converged": [model.converged_ for model in self.models],
            }
        )


@fill_docs(DISCRIMINATIVE)
class BaseDiscriminative(KernelMachine):
    """Kernel weights and a signed dual per task, found by `_learn` and stored here."""

    _takes_sparse = True
    _needs_sums_alone: Any = False  # of the kernels: nothing but their weighted sums

    kernel_weights_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: Any

    # ------------------------------------------------------------------------------------------------ hooks

    def _learn(self, training: Any, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep) -> Any:
        """Learn one set of kernel weights for tasks of shape (n_tasks, n_samples).

        `training` is what `_prepare` returned: the training kernels, with what all tasks share.
        """
        raise NotImplementedError

    def _combine(self, stack: Stack, kernel_weights: np.ndarray) -> np.ndarray:
        """Return the combined kernel of the rows of `stack`, (n_rows, n_train)."""
        return stack.combine(kernel_weights)

    def _shares_weights(self) -> bool:
        return False

    # ---------------------------------------------------------------------------------------------- fitting

    def _fit_stack(
        self, X: Samples, y: Targets, *, counts: np.ndarray | None = None, **check_y: Any
    ) -> tuple[Any, np.ndarray]:
        """Do what `BaseMKL._fit_stack` does; shared kernels of which sums are needed alone stay whole."""
        shared = self._take_shared(X, y) if self._needs_sums_alone else None
        return shared or super()._fit_stack(X, y, counts=counts, **check_y)

    def _is_shared(self, X: Any) -> bool:
        """Return whether `X` are parts of shared kernels, for an estimator on precomputed ones."""
        return self._is_precomputed() and isinstance(X, SharedKernels)

    def _take_shared(self, X: Any, y: Targets) -> Any:
        """Validate training targets, and kernels that are parts of shared ones; all of these are judged, once.

        Parts of kernels that are definite are so as well.

        Returns
        -------
        tuple of SharedKernels and ndarray, or None
            None for all else, indefinite kernels, those that are not square and those of one sample included.
        """
        if not self._is_shared(X) or len(X) < 2 or not np.array_equal(X.rows, X.train):
            return None
        several = self._takes_several_targets
        y = check_targets(y, len(X), type(self).__name__, numeric=not is_classifier(self), several=several)
        self.__dict__.pop("feature_names_in_", None)  # of a fit before
        self.n_features_in_, self._column_labels = len(X), None
        self.kernel_bank_, self.clipping_ = None, None
        self.kernel_names_ = self._names([f"kernel {m}" for m in range(X.n_kernels)])
        self.n_kernels_in_ = X.n_kernels
        names = tuple(self.kernel_names_)
        if names not in X.known:
            X.known[names] = judge_for_svm(X.whole, names, None, SINGLE_PRECISION)
        found, doubts = X.known[names]
        if found:
            return None
        if doubts:
            warn_user(doubts, KernelQualityWarning)
        return X, y

    def _fit_tasks(self, training: Any, targets: np.ndarray, start: np.ndarray | None = None) -> None:
        """Learn all tasks, together or one by one, and store the results.

        `start` holds kernel weights as in `kernel_weights_`, or is None.
        """
        most_steps = int(getattr(self._stopping, "max_iter", 1))
        groups = [targets] if self._shares_weights() else [target[None] for target in targets]
        starts = [None] * len(groups) if start is None else np.atleast_2d(start)
        found = []
        for group, begin in zip(groups, starts, strict=True):
            with (
                step_progress(self.verbose > 0, type(self).__name__, most_steps, "step") as on_step,
                blas_threads_for(targets.shape[-1]),
            ):
                found.append(self._learn(training, group, begin, on_step or silent))
        self._store(found, len(targets))

    def _store(self, found: Sequence[Any], n_tasks: int) -> None:
        """Set the fitted attributes, with a leading class axis where there are several."""
        results = [each.result if isinstance(each, Learned) else each for each in found]
        own_weights, several = len(results) > 1, n_tasks > 1
        weights = np.stack([result.kernel_weights for result in results])
        dual = np.concatenate([result.signed_dual for result in results])
        intercept = np.concatenate([result.intercept for result in results])
        self.kernel_weights_ = weights if own_weights else weights[0]
        self.dual_coef_ = dual if several else dual[0]
        self.intercept_ = intercept if several else float(intercept[0])
        self.support_ = np.flatnonzero((np.abs(dual) > SUPPORT * np.abs(dual).max(initial=0.0)).any(axis=0))
        self.support_fraction_ = len(self.support_) / dual.shape[-1]
        self.n_active_kernels_ = int((weights > ACTIVE * weights.max()).any(axis=0).sum())
        for name in found[0].more if isinstance(found[0], Learned) else ():
            values = [each.more[name] for each in found]
            setattr(self, f"{name}_", np.stack(values) if own_weights else values[0])
        self._store_convergence(results)
        self._warn_unless_converged(results)

    # ----------------------------------------------------------------------------------------------- results

    def _scores(self, X: Samples) -> np.ndarray:
        """Return scores of shape (n_tasks, n_rows), from the kernels that have a weight."""
        check_is_fitted(self, "kernel_weights_")
        used = np.flatnonzero(np.atleast_2d(self.kernel_weights_).any(axis=0))
        if self._needs_sums_alone and self.clipping_ is None and self._is_shared(X):
            shared: Any = X
            self._check_row_shape(shared.shape)
            scores = self._scores_of(shared)
            if np.isfinite(scores).all():
                return scores  # others: entries say why
        return np.concatenate([self._scores_of(stack, used) for stack in self._row_blocks(X, used)], axis=1)

    def _scores_of(self, stack: Stack, used: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the scores of the rows of a stack that holds the kernels at the positions `used`."""
        dual, weights = np.atleast_2d(self.dual_coef_), np.atleast_2d(self.kernel_weights_)[:, used]
        if len(weights) == 1:
            scores = dual @ self._combine(stack, weights[0]).T
        else:
            scores = np.stack([self._combine(stack, w) @ v for w, v in zip(weights, dual, strict=True)])
        return scores + np.atleast_1d(self.intercept_)[:, None]

    def _scores_of_each(self, X: Samples) -> np.ndarray:
        """Return what every kernel adds to the scores of rows, (n_tasks, n_kernels, n_rows)."""
        check_is_fitted(self, "kernel_weights_")
        every, intercept = np.arange(self.n_kernels_in_), np.atleast_1d(self.intercept_)[:, None]
        found = [
            np.stack(
                [self._scores_of(stack.select(m), m) - intercept for m in np.split(every, len(every))], axis=1
            )
            for stack in self._row_blocks(X, every)
        ]
        return np.concatenate(found, axis=2)

    def combined_kernel(self, X: Samples) -> np.ndarray:
        """Return the learned kernel between the rows of `X` and the training samples.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Or (n_classes, n_rows, n_train) where every class has kernel weights of its own.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        check_is_fitted(self, "kernel_weights_")
        stack = self._row_stack(X)
        if self.kernel_weights_.ndim == 1:
            return self._combine(stack, self.kernel_weights_)
        return np.stack([self._combine(stack, weights) for weights in self.kernel_weights_])

    def gates(self, X: Samples | None = None) -> np.ndarray:
        r"""Return the same gates for every row: :math:`\sqrt{d_m}`, the root of the kernel weights.

        In the notation of localized methods, whose gates depend on the sample.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            Or (n_classes, n_rows, n_kernels) where every class has kernel weights of its own.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        check_is_fitted(self, "kernel_weights_")
        n_rows = self.dual_coef_.shape[-1] if X is None else len(self._validate_rows(X))
        return np.repeat(np.sqrt(self.kernel_weights_)[..., None, :], n_rows, axis=-2)

    def gating_matrix(self, X: Samples, Z: Samples, kernel: int | str) -> np.ndarray:
        """Return the weight of one kernel for all pairs of rows.

        Parameters
        ----------
        %(X, Z)s
        kernel : int or str
            Position or name.

        Returns
        -------
        ndarray of shape (n_rows_X, n_rows_Z)
            Or with a leading axis of length n_classes where every class has kernel weights of its own.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
            Also if `kernel` is neither a position nor a name.
        %(TypeError:X)s
        """
        check_is_fitted(self, "kernel_weights_")
        position = self._position_of(kernel)
        return self.gates(X)[..., [position]] * np.swapaxes(self.gates(Z)[..., [position]], -1, -2)

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[Training, np.ndarray]:
        """Validate training data; return what tasks share, and the targets of all of them."""
        raise NotImplementedError

    def _fit_counted(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None, **check_y: Any
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Do what `_fit_stack` does with samples that count as their weights say, and return these, too."""
        if sample_weight is None:
            return *self._fit_stack(X, y, **check_y), None
        counts = check_weights(
            sample_weight, check_samples(X, may_be_sparse=self._may_be_sparse(), may_be_text=True)
        )
        stack, y = self._fit_stack(X, y, counts=counts, **check_y)
        if self.clipping_ is not None:
            raise ValueError(
                '`sample_weight` must be None where `indefinite="clip"` clips kernels, because eigenvalues cannot be '
                "weighted; got kernels that are not positive semidefinite. Leave them out, or repeat samples."
            )
        return stack, y, counts


@fill_docs(DISCRIMINATIVE)
class DiscriminativeClassifier(ClassifierMixin, BaseDiscriminative):
    """Classifiers: one task for two classes, one per class (one-versus-rest) for more."""

    multiclass: str
    class_weight: Any = None  # of methods without such a parameter
    classes_: np.ndarray

    def _shares_weights(self) -> bool:
        return check_choice("multiclass", self.multiclass, MULTICLASS) == "shared"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._shares_weights()
        check_class_weight(self.class_weight)

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[Training, np.ndarray]:
        self._check_parameters()  # first: a mistake in them costs no time
        refuse_missing_labels(y, "a label", ALL_LABELED)
        stack, y, counts = self._fit_counted(X, y, sample_weight)
        self.classes_, targets = encode_counted(y, counts)
        costs = weigh(self.class_weight, self.classes_, y, counts)
        return Training(stack, SampleWeights(counts, costs)), targets

    def fit(self, X: Samples, y: Targets) -> Any:
        """Learn kernel weights and classifier.

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
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._fit_tasks(*self._prepare(X, y))
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
        scores = self._scores(X)
        return scores[0] if len(scores) == 1 else scores.T

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
        scores = self.decision_function(X)
        return self.classes_[most_probable(scores)]


@fill_docs(DISCRIMINATIVE)
class DiscriminativeRegressor(RegressorMixin, BaseDiscriminative):
    """Regressors: one task, the target itself."""

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[Training, np.ndarray]:
        self._check_parameters()
        stack, y, counts = self._fit_counted(X, y, sample_weight, y_numeric=True)
        target = np.asarray(y, dtype=np.float64)
        if counts is not None:  # whatever else is written where nothing counts
            target = np.where(counts > 0.0, target, np.average(target, weights=counts))
        return Training(stack, SampleWeights(counts, counts)), target[None]

    def _centers_target(self) -> bool:
        """Return whether a constant added to the target changes nothing but the intercept."""
        return True

    def _fit_tasks(self, training: Training, targets: np.ndarray, start: np.ndarray | None = None) -> None:
        """Learn deviations from the mean, which the intercept takes."""
        mean = float(mean_row(targets.T, training.weights.counts)[0]) if self._centers_target() else 0.0
        super()._fit_tasks(training, targets - mean, start)
        self.intercept_ += mean

    def fit(self, X: Samples, y: Targets) -> Any:
        """Learn kernel weights and regression function.

        Parameters
        ----------
        %(X:training)s
        %(y:target)s

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
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._fit_tasks(*self._prepare(X, y))
        return self

    def predict(self, X: Samples) -> np.ndarray:
        """Predict the target of every row.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            In the units of the training target.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._scores(X)[0]


@fill_docs(DISCRIMINATIVE)
class NoveltyDetector(OutlierMixin, BaseDiscriminative):
    """Novelty detectors: one task without labels, and a threshold that a share of the training samples may set."""

    contamination: str | float
    offset_: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        share = self.contamination
        is_auto = isinstance(share, str) and share == "auto"
        if not is_auto and check_number("contamination", share, low=0.0) > 0.5:
            raise ValueError(f'`contamination` must be "auto" or a share of at most 0.5; got {share!r}.')

    def fit(self, X: Samples, y: Targets | None = None) -> Self:
        """Fit kernel weights and the one-class SVM.

        Parameters
        ----------
        %(X:training)s
        y : None
            Ignored.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:X)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._check_parameters()
        share = self.contamination
        stack, nothing = self._fit_stack(
            X, np.zeros(check_samples(X, may_be_sparse=self._may_be_sparse(), may_be_text=True))
        )
        self._fit_tasks(Training(stack), nothing[None])
        self.offset_ = -float(self.intercept_)
        if share != "auto":
            self.offset_ = float(np.quantile(self._scores_of(stack)[0] - self.intercept_, float(share)))
        return self

    def score_samples(self, X: Samples) -> np.ndarray:
        """Return the scores `s` of the rows of `X`, high for rows that resemble the training samples.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            High for what resembles the training samples; `offset_` is the threshold.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._scores(X)[0] - self.intercept_

    def decision_function(self, X: Samples) -> np.ndarray:
        """Return ``score_samples(X) - offset_``, negative for outliers.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Zero at the threshold `offset_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Samples) -> np.ndarray:
        """Return 1 for rows that resemble the training samples and -1 for outliers.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            1 or -1, as whole numbers.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)


def refuse_missing_labels(y: Targets, expected: str, remedy: str) -> None:
    """Check that no label is None or NaN; `expected` is what each sample must have, `remedy` what to do without."""
    if y is None:
        return  # which is refused with the samples
    labels = as_array("y", y)
    n_missing = int(is_missing(labels).sum())
    if n_missing:
        raise ValueError(
            f"`y` must give every sample {expected}; {n_missing} of {labels.size} are missing (None or NaN). {remedy}"
        )


def path_over_C(
    self: BaseDiscriminative,
    X: Samples,
    y: Targets,
    C_values: Sequence[float],
    sample_weight: ArrayLike | None = None,
) -> RegularizationPath:
    """Fit at several values of `C`, each from the kernel weights of the one before.

    Kernels are computed once, and a warm start needs fewer SVMs than a cold one. The optima are the same.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features), or kernels
        As in `fit`.
    y : array-like of shape (n_samples,)
        As in `fit`.
    C_values : sequence of float
        Positive numbers, in the order of the fits.
    sample_weight : array-like of shape (n_samples,), default=None
        As in `fit`.

    Returns
    -------
    RegularizationPath
        The values and one fitted estimator for each; this one stays unfitted.

    Raises
    ------
    TypeError
        If `C_values` is no list.
    ValueError
        If it is empty or holds anything but positive numbers; and as `fit` raises.
    """
    return _path(self, "C", X, y, C_values, sample_weight)


def path_over_reg(
    self: BaseDiscriminative, X: Samples, y: Targets, reg_values: Sequence[float]
) -> RegularizationPath:
    """Fit at several regularizations, each from the kernel weights of the one before.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features), or kernels
        As in `fit`.
    y : array-like of shape (n_samples,)
        As in `fit`.
    reg_values : sequence of float
        Values of `reg`, positive, in the order in which they are fitted.

    Returns
    -------
    RegularizationPath
        Its models share bank and kernels; this estimator is not fitted.

    Raises
    ------
    TypeError
        If `reg_values` is no list.
    ValueError
        If it is empty or holds anything but positive numbers; and as `fit` raises.
    """
    return _path(self, "reg", X, y, reg_values)


def _path(
    model: BaseDiscriminative,
    parameter: str,
    X: Samples,
    y: Targets,
    values: Sequence[float],
    sample_weight: ArrayLike | None = None,
) -> RegularizationPath:
    """Fit at every value in turn, each from the kernel weights of the one before."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise TypeError(f"`{parameter}_values` must be a list of numbers; got {shown(values)}.")
    values = [check_scale(f"{parameter}_values", value) for value in values]
    if not values:
        raise ValueError(f"`{parameter}_values` must hold at least one positive number; got none.")
    models: list[Any] = []
    prepared = clone(model)  # the given one stays as it is
    training, targets = prepared._prepare(X, y, sample_weight)
    for value in values:
        model = _fitted_copy(prepared).set_params(**{parameter: value})
        model._fit_tasks(training, targets, models[-1].kernel_weights_ if models else None)
        models.append(model)
    return RegularizationPath(parameter, np.array(values), tuple(models))


def _fitted_copy(model: BaseDiscriminative) -> Any:
    """Copy parameters and everything that `_prepare` learned; kernels and bank are shared."""
    copy = type(model)(**model.get_params(deep=False))
    copy.__dict__.update(model.__dict__)
    return copy
