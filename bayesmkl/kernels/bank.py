"""Kernel bank: kernel functions on views of a table, with learned scales, as a stack of kernels."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesmkl._utils.given import check_weights, naming
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.settings import all_or_nothing, methods_with_own_settings
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer
from bayesmkl.kernels.adapters import all_take_sparse, as_kernels
from bayesmkl.kernels.base import check_range, check_take_sparse
from bayesmkl.kernels.cache import current_cache
from bayesmkl.kernels.column_labels import column_labels, refuse_other_columns
from bayesmkl.kernels.compose import BankAlgebra, per_view, placed, read_by_view
from bayesmkl.kernels.fitted import (
    FittedKernels,
    fit_kernel,
    fit_training,
    learn_by_rows,
    naming_kernel,
    put_present,
)
from bayesmkl.kernels.landmarks import SELECTIONS, landmarks_of_bank
from bayesmkl.kernels.normalize import Normalizer, check_normalize
from bayesmkl.kernels.presence import column_means
from bayesmkl.kernels.sparse import is_sparse, validate_sparse
from bayesmkl.kernels.views import check_samples, resolve_views

SURELY_THERE = 2**26  # bytes that are allocated without a check of available memory
REMEDY = (
    "Compare samples with landmarks, KernelBank(landmarks=256), or use fewer samples or kernels. BEMKL estimators "
    'can hold kernels in less memory: storage="compressed", "float32" or "streamed".'
)


class CheckedTable(NamedTuple):
    """Training samples that an estimator has validated, so that its bank does not do it again."""

    values: Any  # array or SparseTable of shape (n_train, n_features), float64
    feature_names: np.ndarray | None  # scikit-learn's, of columns whose names are text
    labels: list[Any] | None  # `column_labels`


@methods_with_own_settings
class KernelBank(FittedKernels, TransformerMixin, BankAlgebra):
    """Evaluate several kernels on several views of the same samples.

    Parameters
    ----------
    kernels : "auto", "paper", kernel, callable, str, a list of these, or dict, default="auto"
        * "auto": Gaussian kernels of half, once and twice the median distance between training samples in the view,
          and a linear kernel.
        * "paper": Gaussian kernels of width 2^-3, ..., 2^6 and polynomials ``(x.z + 1)^q`` of degree 1, 2, 3.
        * kernel objects such as ``Gaussian(width=2)``;
        * callables ``(X, Z) -> array of shape (n_rows, n_train)``, each entry a function of the two rows
          alone;
        * the names "additive_chi2", "chi2", "cosine", "laplacian", "linear", "polynomial", "rbf" and
          "sigmoid" of :mod:`sklearn.metrics.pairwise`, at their default parameters;
        * kernels of :mod:`sklearn.gaussian_process`, evaluated as ``kernel(X, Z)``, so that a ``WhiteKernel``
          term adds nothing.

        All of these are evaluated on every view. A dict ``{view name: kernel or list of kernels}`` gives each view
        its own, ``{"fingerprint": Tanimoto(), "expression": [Gaussian(relative_width=1), Linear()]}``. It has an
        entry for every view, in any order.
    views : "all", "each", "all+each" or dict, default="all"
        The columns that kernels see: all of them, each on its own, or both; or ``{view name: columns}``,
        where columns are names (of a pandas or polars DataFrame), positions, a slice, a boolean mask, or one
        name or position. Whole numbers are positions; they are refused where a DataFrame has them as labels of
        other columns.
    normalize : "spherical", "trace", "center", None, a sequence of these, or dict, default="spherical"
        * "spherical": unit self-similarity, ``k(x, z) / sqrt(k(x, x) k(z, z))``. A sample without any
          self-similarity (a row of zeros under a linear kernel) gets a row of zeros.
        * "trace": divide by the mean training self-similarity.
        * "center": move the origin of the feature space to the training mean, ``HKH``.

        A sequence is applied in order, usually ``("center", "spherical")``. A dict has an entry for every view, as
        that of `kernels`.
    missing_views : {"error", "keep", "impute"}, default="error"
        Meaning of NaN. "error": raise an error. "keep": all columns of a view are NaN in samples that lack the view,
        and rows and columns of such samples are NaN in the kernels on that view. A view that shares those columns
        is absent as well; where other views have NaN in some but not all of their columns, that is an error.
        "impute": as "keep", but NaN in some columns of a view is replaced by the means of the training samples. The
        gate columns of a kernel must be known for samples that have its view.
    landmarks : int or array-like of shape (n_landmarks, n_features), default=None
        Points that samples are compared with in place of the training samples, so that time and memory grow in
        proportion to the number of samples: how many of them, or the points themselves. None: the training samples.
        BEMKL estimators take them, GPMKLClassifier and GPMKLRegressor; discriminative ones do not.
    landmark_selection : {"kmeans", "random"}, default="kmeans"
        Selection of a number of landmarks. "kmeans": centers of clusters of the training samples. "random":
        training samples, all different, for kernels that mean nothing between samples.
    random_state : int, default=None
        Seed of the choice of landmarks; None is a fixed seed.

    Attributes
    ----------
    kernel_names_ : list of str
        Such as "gaussian(width=2) · mean radius", all different.
    kernel_views_ : list of str
        The view of each kernel, in the order of `views`. Kernels of one view are neighbors, in the order of
        `kernels`.
    view_positions_ : ndarray of int of shape (n_kernels_,)
        Position of the view of each kernel in `views_`.
    n_kernels_ : int
        Number of kernels: views times kernel functions, unless views have their own.
    kernels_known_psd_ : ndarray of shape (n_kernels_,)
        Kernels that are positive semidefinite by their formula and need no test.
    views_ : list of View
        Name and column positions of each view.
    kernels_ : list of Kernel
        The fitted kernel functions.
    normalizers_ : list of list
        The fitted normalizations of each kernel.
    present_ : ndarray of bool of shape (n_views, n_train)
        The training samples that have each view.
    X_train_ : ndarray of shape (n_train, n_features_in_)
        The training data, with means where they were imputed. The stack itself is not kept.
    column_means_ : ndarray of shape (n_features_in_,) or None
        What ``missing_views="impute"`` puts into columns; else None.
    basis_ : ndarray of shape (n_basis, n_features_in_)
        Points that rows are compared with: `landmarks_`, or `X_train_` itself where there are none.
    landmarks_ : ndarray of shape (n_landmarks, n_features_in_) or None
        The landmarks in use.
    n_features_in_ : int
        Number of columns seen by `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, where `fit` saw a DataFrame whose columns have names.
    column_labels_ : list or None
        Labels of the columns of a DataFrame as plain values, be they text, whole numbers or tuples; those of later
        frames must be the same. None after an array.

    Notes
    -----
    All statistics (normalization, scales of distances) come from the training samples that have the view and are
    applied to every later row. Training kernels are exactly symmetric for all kernel functions of this package.
    With a `sample_weight` they count as often as it says; a weight of two is the same sample twice.
    Doubtful kernels are not judged here but once per fit by
    `bayesmkl.kernels.quality.check_kernel_stack`.

    With landmarks they stand for the training samples everywhere: statistics come from the landmarks, since centering
    by the training mean would take all similarities among training samples, a cost that grows with their square. A
    view of a landmark is made of the same columns as that of a sample, so that all kernels share their landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, KernelBank, Linear
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> bank = KernelBank([Gaussian(width=2), Linear()], views={"left": [0, 1], "right": 2})
    >>> bank.fit_transform(X).shape
    (20, 20, 4)
    >>> bank.kernel_names_
    ['gaussian(width=2) · left', 'linear · left', 'gaussian(width=2) · right', 'linear · right']
    >>> bank.transform(X[:5]).shape
    (5, 20, 4)
    >>> KernelBank(Linear(), landmarks=8).fit_transform(X).shape
    (20, 8, 1)

    Banks can be added, and multiplied by a kernel:

    >>> (bank + KernelBank(Linear(), views={"all": [0, 1, 2]}) * Gaussian()).fit(X).kernel_names_[-1]
    'linear × gaussian(width=1) · all'

    Views with kernels of their own:

    >>> bank = KernelBank(
    ...     {"left": [Gaussian(relative_width=1), Linear()], "right": "linear"},
    ...     views={"left": [0, 1], "right": 2},
    ...     normalize={"left": "spherical", "right": ("center", "trace")},
    ... )
    >>> bank.fit(X).kernel_names_
    ['gaussian(1 median) · left', 'linear · left', 'linear · right']
    >>> bank.set_params(kernels__right=Gaussian(width=2), kernels__right__width=3).fit(X).kernel_names_[-1]
    'gaussian(width=3) · right'
    """

    def __init__(
        self,
        kernels: Any = "auto",
        views: str | Mapping[str, Any] = "all",
        normalize: str | Sequence[str] | Mapping[str, Any] | None = "spherical",
        missing_views: str = "error",
        *,
        landmarks: Any = None,
        landmark_selection: str = "kmeans",
        random_state: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.normalize = normalize
        self.missing_views = missing_views
        self.landmarks = landmarks
        self.landmark_selection = landmark_selection
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing_views in ("keep", "impute")
        tags.input_tags.sparse = self.missing_views == "error" and all_take_sparse(self.kernels)
        return tags

    @all_or_nothing
    def fit(self, X: Samples, y: Targets | None = None, sample_weight: ArrayLike | None = None) -> KernelBank:
        """Learn columns, kernel scales and normalizations from training data, without holding a training kernel.

        "spherical" and "trace" need self-similarities alone; "center" passes over all rows, block by block. (A
        `FromDistance` with a scale to learn is the exception: it takes all training distances at once.)

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_train, n_features)
            Training samples; numbers, NaN only where `missing_views` says so. Of a sparse matrix no dense copy is
            made; `Linear`, `Cosine`, `Tanimoto`, `Gaussian`, `Polynomial` and their products take one.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_train,), default=None
            How often each sample counts in these statistics, at least zero; None is once.

        Returns
        -------
        self : KernelBank
            The fitted bank.

        Raises
        ------
        ValueError
            For a parameter that is not of those above, `X` that holds no real numbers (NaN where `missing_views` does
            not allow it) or a view that no sample has, and for a kernel with values that are not finite; the message
            names it. For weights that are negative or all zero, or with `landmarks`.
        TypeError
            If `kernels` holds what is no kernel, or `X` holds other objects than numbers, or is sparse for a kernel
            that takes dense arrays.
        """
        self._learn(X, False, sample_weight)
        return self

    @all_or_nothing
    def fit_transform(
        self,
        X: Samples,
        y: Targets | None = None,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> np.ndarray:
        """Fit and return the training kernels, evaluating each of them once.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_train, n_features)
            Training samples.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_train,), default=None
            How often each sample counts in statistics, at least zero; None is once.
        **fit_params : dict
            No others are known.

        Returns
        -------
        stack : ndarray of shape (n_train, n_basis, n_kernels)
            `n_basis` is the number of landmarks, or of training samples without landmarks. A view of an array that
            is contiguous with kernels first: ``np.moveaxis(stack, -1, 0)`` copies nothing.

        Raises
        ------
        ValueError
            For a parameter that is not of those above, `X` that holds no real numbers (NaN where `missing_views` does
            not allow it) or a view that no sample has, and for a kernel with values that are not finite; the message
            names it. For weights that are negative or all zero, or with `landmarks`.
        TypeError
            If `kernels` holds what is no kernel, or `X` holds other objects than numbers, or is sparse for a kernel
            that takes dense arrays; for other `fit_params`.
        """
        if fit_params:
            raise TypeError(
                f"KernelBank takes no fit parameters but `sample_weight`; got {sorted(fit_params)}."
            )
        cache = current_cache()
        if cache is None:
            return np.moveaxis(self._learn(X, True, sample_weight), 0, -1)
        given = X if sample_weight is None else (X, np.asarray(sample_weight))
        return np.moveaxis(cache.training(self, given, lambda: self._learn(X, True, sample_weight)), 0, -1)

    def transform(self, X: Samples) -> np.ndarray:
        """Compare the rows of `X` with the training samples, or with the landmarks.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_rows, n_features)
            Query points, with the columns of the training data; sparse only where these were.

        Returns
        -------
        stack : ndarray of shape (n_rows, n_basis, n_kernels)
            A view of an array that is contiguous with kernels first.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, holds no real numbers, or NaN or infinity where
            none may be; or if a kernel has values that are not finite.
        TypeError
            If `X` holds other objects than numbers, or is sparse where training samples were not.
        """
        return np.moveaxis(self.row_stack(X), 0, -1)

    def training_shape(self, X: Any) -> tuple[int, int, int]:
        """Return the shape of the training kernels of `X`, before anything is computed.

        Parameters
        ----------
        X : array, DataFrame or row source of shape (n_train, n_features)
            Training samples; only their number and columns are looked at.

        Returns
        -------
        tuple of int
            (n_kernels, n_train, n_basis).

        Raises
        ------
        ValueError
            If `kernels` or `views` is not of those above, `views` names columns that `X` does not have, or `kernels`
            is a dict of other views.
        TypeError
            If `kernels` holds what is no kernel.
        """
        is_checked = isinstance(X, CheckedTable)
        n_train, n_features = X.values.shape if is_checked else X.shape
        labels = X.labels if is_checked else column_labels(X)
        views, landmarks = resolve_views(self.views, n_features, labels), self.landmarks
        n_basis = (
            n_train if landmarks is None else landmarks if isinstance(landmarks, Integral) else len(landmarks)
        )
        functions = per_view("kernels", read_by_view("kernels", self.kernels, as_kernels), views)
        return sum(map(len, functions)), n_train, int(n_basis)

    def row_stack(self, X: Samples) -> np.ndarray:
        """Return the kernels between the rows of `X` and the basis points with kernels first.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_rows, n_features)
            Query points, with the columns of the training data; sparse only where these were.

        Returns
        -------
        stack : ndarray of shape (n_kernels, n_rows, n_basis)
            In C order.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, holds no real numbers, or NaN or infinity where
            none may be; or if a kernel has values that are not finite.
        TypeError
            If `X` holds other objects than numbers, or is sparse where training samples were not.
        """
        check_is_fitted(self, "normalizers_")
        return self.evaluate(self.imputed(self._validate(X, reset=False)))

    def _validate(self, X: Samples, **options: Any) -> Any:
        finite = True if self.missing_views == "error" else "allow-nan"
        check_samples(X, may_be_sparse=True)
        trained = None if options.get("reset", True) else self.X_train_
        if issparse(X) or is_sparse(trained):
            self.column_labels_ = None
            return validate_sparse(self, X, trained, **options)
        with naming("X", X):
            values = validate_data(self, X, dtype=np.float64, order="C", ensure_all_finite=finite, **options)
        if options.get("reset", True):
            self.column_labels_ = column_labels(X)
        else:
            self.check_columns(X)
        return values

    def _take(self, table: CheckedTable) -> Any:
        """Learn the columns of a table that was validated, and return a copy of its values."""
        self.n_features_in_ = table.values.shape[1]
        if table.feature_names is not None:
            self.feature_names_in_ = table.feature_names
        self.column_labels_ = table.labels
        return table.values.copy() if is_sparse(table.values) else np.array(table.values, order="C")

    def check_columns(self, X: Samples) -> None:
        """Raise for a frame with other columns than `fit` saw, or in another order, whatever their labels are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            What has no labels passes.

        Raises
        ------
        ValueError
            With the labels that are new or missing.
        """
        refuse_other_columns(X, self.column_labels_)

    def _learn(self, X: Samples, keep: bool, sample_weight: ArrayLike | None = None) -> np.ndarray:
        given_normalize = read_by_view("normalize", self.normalize, check_normalize)
        check_choice("missing_views", self.missing_views, ("error", "keep", "impute"))
        check_choice("landmark_selection", self.landmark_selection, SELECTIONS)
        if self.random_state is not None:
            check_integer("random_state", self.random_state, low=0)
        given_kernels = read_by_view("kernels", self.kernels, as_kernels)
        # a copy: the caller may change theirs
        X_train = self._take(X) if isinstance(X, CheckedTable) else self._validate(X, copy=True)
        weights = None if sample_weight is None else check_weights(sample_weight, len(X_train))
        if weights is not None and self.landmarks is not None:
            raise ValueError(
                "`sample_weight` must be None with `landmarks`, from which all statistics are taken. Compare with "
                "all training samples (`landmarks=None`)."
            )
        views = resolve_views(self.views, self.n_features_in_, self.column_labels_)
        functions = per_view("kernels", given_kernels, views)
        normalize = per_view("normalize", given_normalize, views)
        kernels = [
            placed(function, view, self.n_features_in_, self.column_labels_)
            if function.has_gates
            else copy.copy(function)
            for view, own in zip(views, functions, strict=True)
            for function in own
        ]
        if is_sparse(X_train):
            check_take_sparse(kernels, self.missing_views)
        for columns in [*(view.columns for view in views), *(kernel.gate_columns for kernel in kernels)]:
            check_range("X", X_train[:, columns])
        self.views_, self.column_means_ = views, None
        if self.missing_views == "impute":
            self.column_means_ = column_means(X_train, weights)
            X_train = self.imputed(X_train)
        landmarks = None if self.landmarks is None else landmarks_of_bank(self, X_train, views, kernels)
        self.view_positions_ = np.repeat(np.arange(len(views)), [len(own) for own in functions])
        self.kernel_views_ = [views[v].name for v in self.view_positions_]
        labels = [
            f"{kernel.label} · {view}" for kernel, view in zip(kernels, self.kernel_views_, strict=True)
        ]
        seen: Counter[str] = Counter()
        self.kernel_names_ = []
        for label in labels:  # the second "linear · all" is "linear · all #2"
            seen[label] += 1
            self.kernel_names_.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
        self.n_kernels_ = len(kernels)
        self.kernels_, self.X_train_, self.landmarks_ = kernels, X_train, landmarks
        self.present_ = self._present(X_train)
        if not self.present_.all():
            self._refuse_empty_views()
        stack = self._fit_kernels(normalize, keep, weights)
        self.kernels_known_psd_ = np.array([kernel.known_psd for kernel in kernels])
        return stack

    def _fit_kernels(
        self, normalize: list[tuple[str, ...]], keep: bool, weights: np.ndarray | None
    ) -> np.ndarray:
        """Fit kernels and normalizations to the basis; return the training kernels if they are to `keep`.

        `normalize` are the normalizations of each view.
        """
        self.normalizers_: list[list[Normalizer]] = []
        basis, together = self.basis_, keep and self.landmarks_ is None
        shape = self.n_kernels_, len(self.X_train_), len(basis)
        if keep and 8 * math.prod(shape) > SURELY_THERE:
            what = f"a stack of {shape[0]} kernels of {shape[1]} x {shape[2]} entries"
            require_memory(8 * math.prod(shape), what, REMEDY)
        stack = np.empty((self.n_kernels_ if together else 0, len(basis), len(basis)))
        for m, kernel, geometry, place in self._evaluations(basis):
            steps = normalize[self.view_positions_[m]]
            counts = weights if weights is None or place is None else weights[place[1][0]]
            with naming_kernel(self.kernel_names_[m]):
                fit_kernel(kernel, geometry.Z, counts)
                if not together:
                    self.normalizers_.append(learn_by_rows(steps, kernel, geometry.Z, counts))
                    continue
                values = stack[m] if place is None else np.empty(geometry.shape)
                self.normalizers_.append(fit_training(steps, kernel, geometry, values, counts))
                if place is not None:
                    put_present(values, place, stack[m])
        return self.evaluate(self.X_train_) if keep and not together else stack

    def _refuse_empty_views(self) -> None:
        for view, present in zip(self.views_, self.present_, strict=True):
            if not present.any():
                raise ValueError(
                    f"`X`: all training samples lack the view {view.name!r}. Leave it out of `views`."
                )


SAMPLES_PER_LANDMARK = 50  # rows that landmarks are learned from
FEW_ROWS = 1000  # read where the landmarks are given
BLOCK_ENTRIES = 2**20


def is_row_source(X: Samples) -> bool:
    """Return whether `X` is a table that is read in blocks, as `bayesmkl.datasets.open_rows` opens it."""
    return getattr(type(X), "is_row_source", False) is True


def check_rows(X: Any, bank: KernelBank | None = None) -> None:
    """Read a row source once and refuse what kernels cannot be evaluated on.

    Parameters
    ----------
    X : row source
    bank : KernelBank, default=None
        Fitted: the rows must have the columns that it saw.

    Raises
    ------
    ValueError
        For no rows, other columns, and NaN or infinity, with the row and the column.
    """
    if len(X) == 0:
        raise ValueError(f"`X` must have rows; got {X!r}.")
    if bank is not None:
        _check_columns(X, bank)
    first = 0
    for block in X.blocks(max(1, BLOCK_ENTRIES // X.shape[1])):
        finite = np.isfinite(block)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            name = column if X.columns is None else repr(X.columns[column])
            value = "NaN" if np.isnan(block[row, column]) else "infinity"
            raise ValueError(
                f"`X`: row {first + row} of {X!r} has {value} in column {name}. Leave such rows out, or fill them in."
            )
        first += len(block)


def _check_columns(X: Any, bank: KernelBank) -> None:
    names = getattr(bank, "feature_names_in_", None)
    if X.shape[1] != bank.n_features_in_:
        raise ValueError(
            f"`X` must have the {bank.n_features_in_} columns of training; got {X!r}. Choose them when the table is "
            "opened, `open_rows(path, columns=...)`."
        )
    if names is not None and X.columns is not None and list(names) != X.columns:
        raise ValueError(
            f"`X` must have the columns of training, {', '.join(names[:6])}, ..., in this order; got "
            f"{', '.join(X.columns[:6])}, .... Name them when the table is opened, `open_rows(path, columns=...)`."
        )


def fit_bank_to_rows(bank: KernelBank, X: Any) -> KernelBank:
    """Fit a bank with landmarks to a row source, from a bounded sample of its rows.

    Parameters
    ----------
    bank : KernelBank
        With `landmarks`; its `random_state` draws the sample.
    X : row source
        All rows are checked, and 50 per landmark are learned from.

    Returns
    -------
    bank : KernelBank
        Its `X_train_` are the landmarks: training samples are not kept.

    Raises
    ------
    ValueError
        For a bank without landmarks, and as `check_rows` does.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.datasets import open_rows
    >>> from bayesmkl.kernels import KernelBank
    >>> rows = open_rows(np.random.default_rng(0).normal(size=(1000, 3)))
    >>> fit_bank_to_rows(KernelBank(landmarks=8), rows).basis_.shape
    (8, 3)
    """
    if bank.landmarks is None:
        raise ValueError(
            f"`landmarks` must be given where `X` is read in blocks, {X!r}: without them every sample is compared "
            "with all others. Use KernelBank(landmarks=256), or read all rows, `rows[:]`."
        )
    check_rows(X)
    counted = isinstance(bank.landmarks, Integral)
    n_sample = SAMPLES_PER_LANDMARK * max(1, bank.landmarks) if counted else FEW_ROWS
    sample: Any = X.sample(min(len(X), n_sample), bank.random_state or 0)
    if X.columns is not None:
        import pandas as pd

        sample = pd.DataFrame(sample, columns=X.columns)
    bank.fit(sample)
    bank.X_train_ = bank.basis_
    bank.present_ = np.ones((len(bank.views_), len(bank.basis_)), dtype=bool)
    return bank
