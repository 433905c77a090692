"""Kernel bank: kernel functions on views of a table, with learned scales, as a stack of kernels."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesmkl._utils.given import check_weights, naming
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.settings import all_or_nothing, methods_with_own_settings
from bayesmkl._utils.typing import Index, Samples, Targets
from bayesmkl._utils.validation import check_choice, check_flag, check_integer
from bayesmkl.kernels.adapters import NAMED, all_take_sparse, as_kernels
from bayesmkl.kernels.base import Kernel, check_range, check_take_sparse, fit_kernel
from bayesmkl.kernels.compose import BankAlgebra, per_view, placed, read_by_view
from bayesmkl.kernels.functions import Linear
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.landmarks import SELECTIONS, landmarks_of_bank
from bayesmkl.kernels.normalize import (
    Center,
    Normalizer,
    check_normalize,
    fit_normalizers,
    move_origin,
    normalized_kernel,
)
from bayesmkl.kernels.presence import column_means, present_views, with_means
from bayesmkl.kernels.slopes import Flat, Scaled, Slopes, normalized_slopes
from bayesmkl.kernels.sparse import columns_of, is_sparse, validate_sparse
from bayesmkl.kernels.tables import MISSING, ColumnPlan, is_agreement, kernels_by_kind, read_frame
from bayesmkl.kernels.together import Together, ViewKernels
from bayesmkl.kernels.views import (
    TOGETHER,
    View,
    check_samples,
    column_labels,
    column_names,
    refuse_other_columns,
    resolve_views,
)

MANY_LINEAR = 256  # kernels from which on linear ones are held by their features
SURELY_THERE = 2**26  # bytes that are allocated without a check of available memory
REMEDY = (
    "Compare samples with landmarks, KernelBank(landmarks=256), or use fewer samples or kernels. BEMKL estimators "
    'can hold kernels in less memory: storage="compressed", "float32" or "streamed".'
)


# Where the points that have a view are among all rows and columns of a kernel; None: all of them have it.
Place = tuple[np.ndarray, ...] | None


class CheckedTable(NamedTuple):
    """Training samples that an estimator has validated, so that its bank does not do it again."""

    values: Any  # array or SparseTable of shape (n_train, n_features), float64
    feature_names: np.ndarray | None  # scikit-learn's, of columns whose names are text
    labels: list[Any] | None  # `column_labels`
    plan: ColumnPlan | None = None  # what columns of a DataFrame are
    samples: Any = None  # as they came, for views that are functions of them

    @property
    def codes(self) -> np.ndarray | None:
        """Kinds of columns, see `ColumnPlan.codes`."""
        return None if self.plan is None else self.plan.codes()


@methods_with_own_settings
class KernelBank(TransformerMixin, BankAlgebra):
    """Evaluate several kernels on several views of the same samples.

    Parameters
    ----------
    kernels : "auto", "adaptive", "paper", kernel, callable, str, a list of these, or dict, default="auto"
        * "auto": for numbers, Gaussian kernels of half, once and twice the median distance between training samples
          in the view, and a linear kernel; for categories and booleans of a DataFrame, `Overlap`.
        * "adaptive": for numbers, a Gaussian kernel with a width for each column, which GPMKL infers, and a linear
          kernel; for categories and booleans, `Overlap`.
        * "paper": Gaussian kernels of width 2^-3, ..., 2^6 and polynomials ``(x.z + 1)^q`` of degree 1, 2, 3.
        * kernel objects such as ``Gaussian(width=2)``;
        * callables ``(X, Z) -> array of shape (n_rows, n_train)``; each entry must only depend on its two rows;
        * the names "additive_chi2", "chi2", "cosine", "laplacian", "linear", "polynomial", "rbf" and
          "sigmoid" of :mod:`sklearn.metrics.pairwise`, at their default parameters;
        * kernels of :mod:`sklearn.gaussian_process`, evaluated as ``kernel(X, Z)``, so that a ``WhiteKernel``
          term adds nothing.

        All of these are evaluated on every view. A dict ``{view name: kernel or list of kernels}`` gives each view
        its own kernels: ``{"fingerprint": Tanimoto(), "expression": [Gaussian(relative_width=1), Linear()]}``. It
        needs an entry for every view, in any order.
    views : "all", "each", "all+each", "types" or dict, default="all"
        The columns of each view. "all": one view of all columns. "each": one view per column. "all+each": both.
        "types": a view of numbers and a view of categories. A dict ``{view name: columns}`` defines views by names
        (of a pandas or polars DataFrame), patterns of names such as ``"gene_*"``, positions, a slice, a boolean mask,
        or a function of `X` that returns these, such as scikit-learn's ``make_column_selector``. Whole numbers are
        positions; they raise an error if a DataFrame has them as labels of other columns.
    normalize : "spherical", "trace", "center", None, a sequence of these, or dict, default="spherical"
        * "spherical": unit self-similarity, ``k(x, z) / sqrt(k(x, x) k(z, z))``. A sample without any
          self-similarity (a row of zeros under a linear kernel) gets a row of zeros.
        * "trace": divide by the mean training self-similarity.
        * "center": move the origin of the feature space to the training mean, ``HKH``.

        A sequence is applied in order, usually ``("center", "spherical")``. A dict needs an entry for every view, as
        for `kernels`.
    missing_views : {"error", "keep", "impute"}, default="error"
        What NaN means. "error": raise an error. "keep": a sample lacks a view if all columns of the view are NaN; its
        rows and columns are then NaN in the kernels on that view. A view with the same columns is then missing too;
        NaN in some but not all columns of any view raises an error. "impute": as "keep", but NaN in some
        columns of a view is replaced by the means of the training samples. The gate columns of a kernel must be known
        for samples that have its view. A missing category counts as its own category, unless the whole view is
        missing.
    scale : bool, default=False
        Whether to standardize numbers for the kernels, by means and standard deviations of the training samples, as
        StandardScaler does. Counts, codes and positions (views with `Tanimoto`, `Overlap`, `Precomputed`,
        `FromDistance` or a chi2 kernel), categories and booleans stay unchanged. Estimators without `kernels`
        standardize. Not for sparse matrices.
    landmarks : int or array-like of shape (n_landmarks, n_features), default=None
        Number of landmarks, or the landmarks themselves. Samples are compared with landmarks instead of all training
        samples, so that time and memory grow in proportion to the number of samples. None: the training samples.
        BEMKL estimators, GPMKLClassifier and GPMKLRegressor accept landmarks; discriminative estimators do not.
    landmark_selection : {"kmeans", "random"}, default="kmeans"
        How landmarks are selected. "kmeans": centers of clusters of the training samples. "random": distinct training
        samples; use it for kernels that are meaningless at points between samples.
    random_state : int, default=None
        Seed of the choice of landmarks. None uses a fixed seed.

    Attributes
    ----------
    kernel_names_ : list of str
        Unique names of the kernels, such as "gaussian(width=2) · mean radius".
    kernel_views_ : list of str
        The view of each kernel, in the order of `views`. Kernels of one view are neighbors, in the order of
        `kernels`.
    view_positions_ : ndarray of int of shape (n_kernels_,)
        Position of the view of each kernel in `views_`; -1 for the part "views together".
    n_kernels_ : int
        Number of kernels: views times kernel functions, unless views have their own kernels.
    kernels_known_psd_ : ndarray of shape (n_kernels_,)
        Whether each kernel is positive semidefinite by its formula and needs no test.
    views_ : list of View
        Name and column positions of each view.
    kernels_ : list of Kernel
        The fitted kernel functions.
    normalizers_ : list of list
        The fitted normalizations of each kernel.
    present_ : ndarray of bool of shape (n_views, n_train)
        The training samples that have each view.
    X_train_ : ndarray of shape (n_train, n_features_in_)
        The training data, after imputation. The stack of kernels is not kept.
    column_means_ : ndarray of shape (n_features_in_,) or None
        Means that ``missing_views="impute"`` puts into columns; otherwise None.
    basis_ : ndarray of shape (n_basis, n_features_in_)
        Points that rows are compared with: `landmarks_`, or `X_train_` without landmarks.
    landmarks_ : ndarray of shape (n_landmarks, n_features_in_) or None
        The landmarks in use.
    n_features_in_ : int
        Number of columns of the training data.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the training data was a DataFrame with column names.
    column_plan_ : ColumnPlan or None
        Types of the columns of a DataFrame: booleans, categories and grades, with their levels. None for an array.
    locations_, scales_ : ndarray of shape (n_features_in_,) or None
        Values that `scale` subtracts from columns and divides them by; None without it.
    column_labels_ : list or None
        Labels of the columns of a DataFrame as plain values: text, whole numbers or tuples. Later DataFrames must
        have the same labels. None for an array.

    Notes
    -----
    All statistics (normalization, scales of distances) come from the training samples that have the view, and apply
    to every later row. With a `sample_weight` of two, a sample counts twice in these statistics. Training kernels are
    exactly symmetric for all kernel functions of this package. The bank does not check the quality of its kernels;
    estimators do so once per fit.

    Landmarks replace the training samples everywhere. Statistics come from the landmarks too, because centering by
    the training mean would need all similarities among training samples, a cost that grows with their square. Views
    of landmarks have the same columns as views of samples, so all kernels share their landmarks.

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

    Choose columns of a DataFrame by patterns, including categories:

    >>> import pandas as pd
    >>> table = pd.DataFrame(X, columns=["g_1", "g_2", "age"]).assign(sex=["f", "m"] * 10)
    >>> bank = KernelBank(views={"genes": "g_*", "clinic": ["age", "sex"]}, scale=True).fit(table)
    >>> bank.kernel_names_[-2:]
    ['linear · clinic', 'overlap · clinic']

    Give each view its own kernels:

    >>> bank = KernelBank(
    ...     {"left": [Gaussian(relative_width=1), Linear()], "right": "linear"},
    ...     views={"left": [0, 1], "right": 2},
    ...     normalize={"left": "spherical", "right": ("center", "trace")},
    ... )
    >>> bank.fit(X).kernel_names_
    ['gaussian(1 median) · left', 'linear · left', 'linear · right']
    >>> bank.set_params(kernels__right=Gaussian(width=2)).fit(X).kernel_names_[-1]
    'gaussian(width=2) · right'
    """

    X_train_: Any
    locations_: Any
    scales_: Any
    _nan_remedy = ""  # of estimators
    _with_together = False  # whether a fit appends the part "views together"; estimators say so

    def __init__(
        self,
        kernels: Any = "auto",
        views: str | Mapping[str, Any] = "all",
        normalize: str | Sequence[str] | Mapping[str, Any] | None = "spherical",
        missing_views: str = "error",
        *,
        scale: bool = False,
        landmarks: Any = None,
        landmark_selection: str = "kmeans",
        random_state: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.normalize = normalize
        self.missing_views = missing_views
        self.scale = scale
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
        """Learn columns, kernel scales and normalizations from training data, without storing a training kernel.

        "spherical" and "trace" only need self-similarities; "center" passes over all rows, block by block. (A
        `FromDistance` with a scale to learn is the exception: it needs all training distances at once.)

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_train, n_features)
            Training samples: numbers, with NaN only if `missing_views` allows it. A sparse matrix is never copied to
            a dense one; `Linear`, `Cosine`, `Tanimoto`, `Gaussian`, `Polynomial` and their products accept it.
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
        self, X: Samples, y: Targets | None = None, sample_weight: ArrayLike | None = None
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
            that takes dense arrays.
        """
        return np.moveaxis(self._learn(X, True, sample_weight), 0, -1)

    def transform(self, X: Samples) -> np.ndarray:
        """Return the kernels between the rows of `X` and the training samples, or the landmarks.

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
        n_train, landmarks = (X.values if isinstance(X, CheckedTable) else X).shape[0], self.landmarks
        rows = np.shape(landmarks) or (1,)
        n_basis = n_train if landmarks is None else landmarks if isinstance(landmarks, Integral) else rows[0]
        functions = [own for _, own in self.kernels_on(X)]
        return sum(map(len, functions)) + self._needs_room(functions), n_train, int(n_basis)

    def kernels_on(self, X: Any) -> list[tuple[View, list[tuple[Kernel, np.ndarray]]]]:
        """Return the views of samples, and for each the kernels that it gets with the columns that they see.

        Parameters
        ----------
        X : array, DataFrame or row source of shape (n_train, n_features)
            Training samples; only their columns are looked at.

        Returns
        -------
        list of (View, list of (Kernel, ndarray of int))
            Unfitted.
        """
        if not isinstance(X, CheckedTable):
            X = CheckedTable(X, None, column_labels(X), ColumnPlan.learn(X), X)
        views = resolve_views(self.views, X.values.shape[1], X.labels, X.samples, X.codes)
        return list(zip(views, self._functions(views, X.codes), strict=True))

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
        is_new, X = options.get("reset", True), read_frame(X)
        check_samples(X, may_be_sparse=True, may_be_text=True)
        trained = None if is_new else self.X_train_
        if is_new:
            self.column_plan_ = ColumnPlan.learn(X)
        if issparse(X) or is_sparse(trained):
            self.column_labels_: list[Any] | None = None
            return validate_sparse(self, X, trained, **options)
        samples, X = X, self.encode(X)
        is_strict = self.missing_views == "error" and self.column_plan_ is None
        finite = True if is_strict else "allow-nan"
        with naming("X", X):
            values = validate_data(self, X, dtype=np.float64, order="C", ensure_all_finite=finite, **options)
        if not is_new:
            self.check_columns(X)
            return values
        self.column_labels_ = column_labels(X)
        return CheckedTable(values, None, self.column_labels_, self.column_plan_, samples)

    def encode(self, X: Any) -> Any:
        """Return samples as a table of numbers.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Arrays are returned as they are.

        Returns
        -------
        array or DataFrame of shape (n_rows, n_features)
            With codes in the place of yes and no, grades and categories.
        """
        if self.column_plan_ is None:
            return X
        used = self._used_columns() if hasattr(self, "kernels_") else None
        return self.column_plan_.encode(X, self.missing_views != "error", used)

    def _used_columns(self) -> np.ndarray:
        """Return the positions of the columns that kernels and gates see, in order."""
        gates = [kernel.gate_columns for kernel in self.kernels_]
        return np.unique(np.concatenate([*(view.columns for view in self.views_), *gates]))

    def _take(self, table: CheckedTable) -> Any:
        """Learn the columns of a table that was validated, and return a copy of its values."""
        self.n_features_in_ = table.values.shape[1]
        if table.feature_names is not None:
            self.feature_names_in_ = table.feature_names
        self.column_labels_, self.column_plan_ = table.labels, table.plan
        return table.values.copy() if is_sparse(table.values) else np.array(table.values, order="C")

    def check_columns(self, X: Samples) -> None:
        """Raise an error if a DataFrame has other columns than in `fit`, or another order of columns.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Data without labels is not checked.

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
        read_by_view("kernels", self.kernels, as_kernels)
        check_flag("scale", self.scale)
        # a copy: the caller may change theirs
        table: Any = X if isinstance(X, CheckedTable) else self._validate(X, copy=True)
        samples, codes, X_train = None, None, table  # of sparse samples
        if isinstance(table, CheckedTable):
            X_train = self._take(X) if isinstance(X, CheckedTable) else table.values
            samples, codes = table.samples, table.codes
        weights = None if sample_weight is None else check_weights(sample_weight, len(X_train))
        if weights is not None and self.landmarks is not None:
            raise ValueError(
                "`sample_weight` must be None with `landmarks`, because all statistics are those of the "
                "landmarks. Compare with all training samples (`landmarks=None`)."
            )
        views = resolve_views(self.views, self.n_features_in_, self.column_labels_, samples, codes)
        if self.column_plan_ is not None:
            for view in views:
                self.column_plan_.refuse(view.columns, "", ["yes or no", "categories"])
        functions = self._functions(views, codes)
        normalize = per_view("normalize", given_normalize, views)
        kernels: list[Kernel] = []
        self.own_columns_: dict[int, np.ndarray] = {}
        for view, own in zip(views, functions, strict=True):
            for function, columns in own:
                if columns is not view.columns:
                    self.own_columns_[len(kernels)] = columns
                kernels.append(
                    placed(function, View(view.name, columns), self.n_features_in_, self.column_labels_)
                    if function.has_gates
                    else copy.copy(function)
                )
        if is_sparse(X_train):
            check_take_sparse(kernels, self.missing_views)
        if self.column_plan_ is not None:
            gates = np.concatenate([np.empty(0, int), *(kernel.gate_columns for kernel in kernels)])
            self.column_plan_.refuse(gates, "columns of Gate", ["yes or no"], "Make them numbers.")
        for columns in [*(view.columns for view in views), *(kernel.gate_columns for kernel in kernels)]:
            check_range("X", X_train[:, columns])
        self.views_, self.kernels_, self.column_means_ = views, kernels, None
        if self.missing_views == "impute":
            self.column_means_ = column_means(X_train, weights)
        X_train = self.imputed(X_train)
        self._standardize(X_train, views, functions, codes, weights)
        landmarks = None if self.landmarks is None else landmarks_of_bank(self, X_train)
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
        for view, present in zip(views, self.present_, strict=True):
            if not present.any():
                raise ValueError(
                    f"`X`: all training samples lack the view {view.name!r}. Leave it out of `views`."
                )
        self.kernels_known_psd_ = np.array([kernel.known_psd for kernel in kernels])
        return self._fit_kernels(normalize, keep, weights, self._needs_room(functions))

    def _fit_kernels(
        self, normalize: list[tuple[str, ...]], keep: bool, weights: np.ndarray | None, more: bool
    ) -> np.ndarray:
        """Fit kernels and normalizations to the basis; return the training kernels if they are to `keep`.

        `normalize` are the normalizations of each view; `more` says whether the part "views together" comes last.
        """
        self.normalizers_: list[list[Normalizer]] = []
        basis, together = self.basis_, keep and self.landmarks_ is None
        shape = self.n_kernels_ + more, len(self.X_train_), len(basis)
        if keep and 8 * math.prod(shape) > SURELY_THERE:
            what = f"a stack of {shape[0]} kernels of {shape[1]} x {shape[2]} entries"
            require_memory(8 * math.prod(shape), what, REMEDY)
        stack = np.empty((shape[0] if together else 0, len(basis), len(basis)))
        for m, kernel, geometry, place in self._evaluations(basis):
            steps = normalize[self.view_positions_[m]]
            counts = weights if weights is None or place is None else weights[place[1][0]]
            with naming_kernel(self.kernel_names_[m]):
                fit_kernel(kernel, geometry.Z, counts)
                values = None if not together else stack[m] if place is None else np.empty(geometry.shape)
                self.normalizers_.append(fit_steps(steps, kernel, geometry, counts, values))
                if values is not None and place is not None:
                    put_present(values, place, stack[m])
        if more:
            stack = self._append_together(stack, weights)
        return self.evaluate(self.X_train_) if keep and not together else stack

    def _functions(
        self, views: Sequence[View], codes: np.ndarray | None
    ) -> list[list[tuple[Kernel, np.ndarray]]]:
        """Return the kernel functions of each view, with the columns that they see."""

        def read(given: Any, name: str) -> tuple[list[Kernel], bool]:
            listed = given if isinstance(given, list | tuple) else [given]
            return as_kernels(given, name), any(isinstance(one, str) and one in NAMED for one in listed)

        given = per_view("kernels", read_by_view("kernels", self.kernels, read), views)
        return [kernels_by_kind(*own, view, codes) for own, view in zip(given, views, strict=True)]

    def _standardize(
        self,
        X: Any,
        views: Sequence[View],
        functions: list[list[tuple[Kernel, np.ndarray]]],
        codes: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> None:
        """Learn what columns of numbers are measured in, if they are to be standardized."""
        self.locations_ = self.scales_ = None
        if not self.scale:
            return
        if is_sparse(X):
            raise ValueError(
                "`scale` must be False for sparse samples, because standardization would make them dense. "
                "Divide columns by their standard deviations, as MaxAbsScaler does by their maxima."
            )
        is_scaled = np.zeros(X.shape[1], dtype=bool)
        for view in views:
            is_scaled[view.columns] = True
        for own in functions:
            for function, columns in own:
                is_scaled[columns] &= not function.takes_units
        is_scaled &= True if codes is None else codes == 0
        self.locations_, self.scales_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if is_scaled.any():
            with np.errstate(invalid="ignore"):  # of columns without values, which an error names later
                scaler = StandardScaler().fit(X[:, is_scaled], sample_weight=weights)
            self.locations_[is_scaled], self.scales_[is_scaled] = scaler.mean_, scaler.scale_

    def seen(self, X: Any, columns: np.ndarray, rows: np.ndarray | None = None) -> Any:
        """Return the columns of validated rows that kernels compare, standardized if the bank standardizes.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows.
        columns : ndarray of int
            Positions of the columns.
        rows : ndarray of bool, of shape (n_rows,), optional
            Those that are wanted.

        Returns
        -------
        ndarray of shape (n_wanted, n_columns)
            Values as kernels compare them.
        """
        values = columns_of(X, columns, rows)
        return values if self.scales_ is None else (values - self.locations_[columns]) / self.scales_[columns]

    def columns_seen(self, m: int) -> np.ndarray:
        """Return the positions of the columns of its view that a kernel sees.

        Parameters
        ----------
        m : int
            Position of the kernel.

        Returns
        -------
        ndarray of int, of shape (n_columns,)
            Categories for `Overlap`, numbers for the others, where a view has both.
        """
        own = self.own_columns_.get(m)
        return self.views_[self.view_positions_[m]].columns if own is None else own

    def numbers_of_views(self) -> list[np.ndarray]:
        """Return the positions of the columns of each view that its kernels compare as numbers.

        Returns
        -------
        list of ndarray of int
            Empty of a view whose kernels all compare categories by agreement.
        """
        smooth = ((m for m in own if not is_agreement(self.kernels_[m])) for own in self.kernels_of_views())
        return [next(map(self.columns_seen, own), np.empty(0, dtype=int)) for own in smooth]

    def _needs_room(self, functions: Sequence[Sequence[tuple[Kernel, np.ndarray]]]) -> bool:
        """Return whether kernels of views get the part "views together" after them.

        Not if so many are all linear: they are held by their features, of which products of views have too many.
        """
        several, all_of = sum(map(bool, functions)) > 1, [one for own in functions for one, _ in own]
        linear = len(all_of) >= MANY_LINEAR and all(type(one) is Linear for one in all_of)
        return self._with_together and several and not linear

    def _append_together(self, stack: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Append the part "views together", if two views vary; return training kernels with it, if there are any."""

        def kernels() -> Iterator[tuple[int, np.ndarray]]:
            yield from enumerate(stack[:-1])
            if not len(stack):
                yield from ((m, kernel) for m, kernel, _ in self.each_with_diagonal(self.basis_))

        own = ViewKernels.learn(kernels, self.view_positions_, weights)
        if not own.are_several:
            return stack[:-1]
        if len(stack):
            stack[-1] = own.product((m, kernel, kernel.diagonal()) for m, kernel in kernels())[0]
        part = Together(copy.copy(self), own)
        self.kernels_, self.normalizers_ = [*self.kernels_, part], [*self.normalizers_, []]
        self.kernel_names_, self.kernel_views_ = (
            [*own, TOGETHER] for own in (self.kernel_names_, self.kernel_views_)
        )
        self.view_positions_ = np.append(self.view_positions_, -1)
        self.kernels_known_psd_ = np.append(self.kernels_known_psd_, part.known_psd)
        self.n_kernels_ += 1
        return stack

    @property
    def has_together(self) -> bool:
        """Whether the last kernel is the part "views together"."""
        return isinstance(self.kernels_[-1], Together)

    @property
    def basis_(self) -> np.ndarray:
        """Training points or landmarks that rows are compared with, one row each."""
        return self.X_train_ if self.landmarks_ is None else self.landmarks_

    def stack_bytes(self, n_rows: int) -> int:
        """Return the memory in bytes of all kernels between a number of rows and the basis points.

        Parameters
        ----------
        n_rows : int
            Number of rows.

        Returns
        -------
        int
            8 for every entry.
        """
        return 8 * self.n_kernels_ * n_rows * len(self.basis_)

    def landmark_similarity(self) -> np.ndarray | None:
        """Return the mean self-similarity of the landmarks.

        Returns
        -------
        ndarray of shape (n_kernels,) or None
            After normalization; None without landmarks.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For landmarks without the gate columns of a kernel.
        """
        check_is_fitted(self, "normalizers_")
        return None if self.landmarks_ is None else self.train_diagonal().mean(axis=1)

    def kernels_of_views(self) -> list[range]:
        """Return the positions of the kernels of each view, which are neighbors.

        Returns
        -------
        list of range
            One for each view.
        """
        views = self.view_positions_[: self.n_kernels_ - self.has_together]
        first = np.searchsorted(views, np.arange(len(self.views_) + 1)).tolist()
        return [range(start, stop) for start, stop in pairwise(first)]

    def are_centered(self) -> bool:
        """Return whether all kernels are centered.

        Returns
        -------
        bool
            False where "center" is not among the normalizations of some view.
        """
        kernels = self.normalizers_[: self.n_kernels_ - self.has_together]
        return all(any(isinstance(one, Center) for one in own) for own in kernels)

    def centering_errors(self) -> np.ndarray:
        """Return bounds on the rounding errors that centering leaves in the kernels.

        Returns
        -------
        ndarray of shape (n_kernels,)
            In units of the mean centered self-similarity; 0 without centering. Above 1e-6 digits are lost: nearly all
            of the kernel was common to all samples, as it is for features far from zero. `Linear` and `Polynomial`
            lose none where "center" comes before "spherical".

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, "normalizers_")
        return np.array(
            [
                max((one.lost for one in own if isinstance(one, Center)), default=0.0)
                for own in self.normalizers_
            ]
        )

    def train_stack(self) -> np.ndarray:
        """Evaluate the training kernels again and return them.

        Returns
        -------
        ndarray of shape (n_kernels, n_train, n_basis)
            In C order.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a kernel has values that are not finite.
        """
        check_is_fitted(self, "normalizers_")
        return self.evaluate(self.X_train_)

    def train_diagonal(self) -> np.ndarray:
        """Return the self-similarities of the basis points.

        Returns
        -------
        ndarray of shape (n_kernels, n_basis)
            After normalization; NaN where a view is absent.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For points without the gate columns of a kernel.
        """
        check_is_fitted(self, "normalizers_")
        diagonals = np.full((self.n_kernels_, len(self.basis_)), np.nan)
        for m, kernel, geometry, place in self._evaluations(self.basis_):
            diagonal = normalized_kernel(kernel, self.normalizers_[m]).diagonal(geometry.Z)
            for normalizer in self.normalizers_[m]:
                diagonal = normalizer.train_diagonal(diagonal)
            diagonals[m, slice(None) if place is None else place[1][0]] = diagonal
        return diagonals

    def evaluate(self, X: np.ndarray, kernels: np.ndarray | None = None) -> np.ndarray:
        """Do what `row_stack` does for rows that were validated before.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.
        kernels : ndarray of int, of shape (n_wanted,), optional
            Positions of the kernels that are wanted, in ascending order; all of them by default.

        Returns
        -------
        ndarray of shape (n_wanted, n_rows, n_basis)
            In C order.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        wanted = range(self.n_kernels_) if kernels is None else [int(m) for m in kernels]
        places = {m: place for place, m in enumerate(wanted)}
        stack = np.empty((len(places), len(X), len(self.basis_)))
        for m, kernel, geometry, place in self._evaluations(X):
            if m in places:
                self._write(m, kernel, geometry, place, stack[places[m]])
        return stack

    def rows_and_diagonal(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the kernels of rows that were validated before, and the similarities of rows to themselves.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.

        Returns
        -------
        stack : ndarray of shape (n_kernels, n_rows, n_basis)
            In C order.
        diagonal : ndarray of shape (n_kernels, n_rows)
            After normalization; NaN where a view is absent.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        stack = np.empty((self.n_kernels_, len(X), len(self.basis_)))
        diagonals = np.full((self.n_kernels_, len(X)), np.nan)
        for m, kernel, geometry, place in self._evaluations(X):
            diagonal = self._write(m, kernel, geometry, place, stack[m], True)
            diagonals[m, slice(None) if place is None else place[0][:, 0]] = diagonal
        return stack, diagonals

    def rows_and_diagonals(
        self, X: np.ndarray, counts: Sequence[int]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield the kernels between validated rows and the first basis points, whose number depends on the kernel.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data and all views.
        counts : sequence of int, of length n_kernels
            Number of basis points of every kernel.

        Yields
        ------
        m : int
            Position of the kernel.
        rows : ndarray of shape (n_rows, n_points)
            Normalized.
        diagonal : ndarray of shape (n_rows,)
            Similarities of rows to themselves.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        centered = [any(isinstance(one, Center) for one in own) for own in self.normalizers_]  # on all points
        centered[-1] |= self.has_together
        sizes = [len(self.basis_) if centered[m] else count for m, count in enumerate(counts)]
        needed = [max(sizes[m] for m in own) for own in self.kernels_of_views()]
        for m, kernel, geometry, place in self._evaluations(X, needed):
            if sizes[m] < len(geometry.Z):
                geometry = PairwiseGeometry(geometry.X, geometry.Z[: sizes[m]])
            values = np.empty(geometry.shape)
            diagonal = self._write(m, kernel, geometry, place, values, True)
            yield m, values[:, : counts[m]], diagonal

    def train_kernels(self) -> Iterator[np.ndarray]:
        """Evaluate the training kernels again and yield them one by one.

        All of them use the same array, so copy a kernel that you want to keep before you request the next one.

        Yields
        ------
        ndarray of shape (n_train, n_basis)
            Kernel after kernel, normalized.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a kernel has values that are not finite.
        """
        check_is_fitted(self, "normalizers_")
        yield from (kernel for _, kernel, _ in self.each_with_diagonal(self.X_train_))

    def each_with_diagonal(self, X: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield the kernels of validated rows one by one, with similarities of rows to themselves.

        All of them come in the same array.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.

        Yields
        ------
        m : int
            Position of the kernel.
        rows : ndarray of shape (n_rows, n_basis)
            Normalized; NaN where a view is absent.
        diagonal : ndarray of shape (n_rows,)
            Likewise.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        out = np.empty((len(X), len(self.basis_)))
        for m, kernel, geometry, place in self._evaluations(X):
            diagonal = np.full(len(X), np.nan)
            there = slice(None) if place is None else place[0][:, 0]
            diagonal[there] = self._write(m, kernel, geometry, place, out, True)
            yield m, out, diagonal

    def slopes(self, X: np.ndarray) -> Iterator[tuple[View, Slopes | Flat | None]]:
        """Yield the derivatives of every kernel by the numbers of its view, between rows and the basis points.

        Those of kernels that compare the categories beside them are zero. The part "views together" comes without.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data and all views.

        Yields
        ------
        view : View
        slopes : Slopes, Flat or None
            By the columns of `numbers_of_views`; None of a kernel whose widths a model infers.

        Raises
        ------
        ValueError
            For a kernel that has no derivatives, or none with a formula.
        """
        own: PairwiseGeometry | None = None
        self._refuse_gates_of_own_views()
        numbers = self.numbers_of_views()
        if not any(map(len, numbers)):
            raise ValueError(f"kernel {self.kernel_names_[0]!r} has no slopes, since it compares categories.")
        for m, kernel, geometry, _ in self._evaluations(X):
            if isinstance(kernel, Together):
                return
            view, own_numbers = self.views_[self.view_positions_[m]], numbers[self.view_positions_[m]]
            columns = self.columns_seen(m)
            if is_agreement(kernel) and not np.isin(columns, own_numbers).any():
                yield view, Flat(geometry.shape, len(own_numbers))
                continue
            if own is None or own.X is not geometry.X:  # kernels of one view share distances
                own = geometry if geometry.X is geometry.Z else PairwiseGeometry(geometry.X, geometry.X)
            found = normalized_slopes(kernel, self.normalizers_[m], geometry, own)
            if found is None and getattr(kernel, "learns", None) is None:
                raise ValueError(
                    f"kernel {self.kernel_names_[m]!r} has no slopes. Use the kernels Gaussian, Linear and "
                    "Polynomial, whose functions have slopes with a formula."
                )
            if found is not None and self.scales_ is not None:
                found = Scaled(found, 1.0, self.scales_[columns])
            yield view, found

    def _refuse_gates_of_own_views(self) -> None:
        for m, kernel in enumerate(self.kernels_):
            view = self.views_[self.view_positions_[m]]
            if np.isin(kernel.gate_columns, view.columns).any():
                raise ValueError(
                    f"kernel {self.kernel_names_[m]!r} has no slopes: a gate column is one of its view. Leave it out "
                    "of `views`; slopes are then those at the gate column of each sample."
                )

    def columns_of(self, m: int) -> np.ndarray:
        """Return the columns that a kernel sees.

        Parameters
        ----------
        m : int
            Position of the kernel.

        Returns
        -------
        ndarray of int, of shape (n_columns,)
            Positions of those of its view, and of gate columns.
        """
        return np.concatenate([self.columns_seen(m), self.kernels_[m].gate_columns])

    def imputed(self, X: np.ndarray) -> np.ndarray:
        """Return validated rows, with means in place of missing parts of a view.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            The rows themselves unless ``missing_views="impute"`` and there is such a part.

        Raises
        ------
        ValueError
            For a column without a mean, which is NaN for all training samples.
        """
        if self.column_plan_ is not None:
            X = self._with_missing(X)
        return X if self.column_means_ is None else with_means(X, self.views_, self.column_means_)

    def _with_missing(self, X: np.ndarray) -> np.ndarray:
        """Return rows with the code of a missing category where the view is not missing as a whole.

        NaN in columns that are used is an error where no view may be missing.
        """
        plan: Any = self.column_plan_
        missing = np.isnan(X)
        if self.missing_views == "error":
            used = self._used_columns()
            if missing[:, used].any():
                names = np.array(column_names(self.n_features_in_, self.column_labels_), dtype=object)
                with naming("X", pd.DataFrame(X[:, used], columns=names[used]), self._nan_remedy):
                    raise ValueError("Input X contains NaN.")
            return X
        missing[:, plan.codes() != 2] = False
        if not missing.any():
            return X
        for view in self.views_:
            missing[np.ix_(np.isnan(X[:, view.columns]).all(axis=1), view.columns)] = False
        return np.where(missing, MISSING, X)

    def _write(
        self,
        m: int,
        kernel: Kernel,
        geometry: PairwiseGeometry,
        place: Place,
        out: np.ndarray,
        with_diagonal: bool = False,
    ) -> np.ndarray:
        """Evaluate and normalize one kernel into `out`, (n_rows, n_basis); return the similarities to themselves."""
        values, diagonal = out if place is None else np.empty(geometry.shape), np.empty(0)
        if len(values):
            kernel = normalized_kernel(kernel, self.normalizers_[m])
            with naming_kernel(self.kernel_names_[m]):
                if isinstance(kernel, Together):  # both at once
                    values[...], diagonal = kernel.rows(geometry.X)
                    return diagonal
                kernel.evaluate(geometry, values)
                check_finite(values)
                if with_diagonal or self.normalizers_[m]:
                    diagonal = check_finite(kernel.diagonal(geometry.X))
                for normalizer in self.normalizers_[m]:
                    diagonal = normalizer.apply(values, diagonal)
        if place is not None:
            put_present(values, place, out)
        return diagonal

    def _present(self, X: np.ndarray) -> np.ndarray:
        """Return the mask of present views, (n_views, n_rows)."""
        if self.missing_views == "error":
            return np.ones((len(self.views_), len(X)), dtype=bool)
        return present_views(X, self.views_)

    def _evaluations(
        self, X: np.ndarray, needed: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Kernel, PairwiseGeometry, Place]]:
        """Go through the kernels view by view; those of one view share distances and inner products.

        Of a view the first basis points are `needed`; None: all of them.
        """
        is_basis = X is self.basis_ and needed is None
        of_basis = self.present_ if self.landmarks_ is None else self._present(self.basis_)
        of_rows = of_basis if is_basis else self._present(X)
        for v, (rows, columns) in enumerate(zip(of_rows, of_basis, strict=True)):
            first = slice(None) if needed is None else slice(needed[v])
            columns = columns[first]
            place = None if rows.all() and columns.all() else np.ix_(rows, columns)
            found: dict[tuple[bytes, bytes], PairwiseGeometry] = {}  # by own columns and gate columns
            for m in np.flatnonzero(self.view_positions_ == v).tolist():
                own, gates = self.columns_seen(m), self.kernels_[m].gate_columns
                narrow, wide = (own.tobytes(), b""), (own.tobytes(), gates.tobytes())
                if narrow not in found:
                    basis = self.seen(self.basis_[first], own, columns)
                    points = basis if is_basis else self.seen(X, own, rows)
                    found[narrow] = PairwiseGeometry(points, basis)
                if wide not in found:
                    of_basis_gates = self._gates_of(self.basis_[first], m, columns)
                    of_rows_gates = of_basis_gates if is_basis else self._gates_of(X, m, rows)
                    found[wide] = found[narrow].with_columns(of_rows_gates, of_basis_gates)
                yield m, self.kernels_[m], found[wide], place
        if self.has_together:  # which sees all columns, whatever is absent
            rows = self.basis_ if is_basis else X
            yield self.n_kernels_ - 1, self.kernels_[-1], PairwiseGeometry(rows, self.basis_), None

    def _gates_of(self, X: np.ndarray, m: int, present: np.ndarray) -> np.ndarray:
        """Return the gate columns of rows that have the view of a kernel; raise where some lack them."""
        values = self.seen(X, self.kernels_[m].gate_columns)[present]
        lacking = np.isnan(values)
        if lacking.any():
            row, which = np.argwhere(lacking)[0]
            names = column_names(self.n_features_in_, self.column_labels_)
            raise ValueError(
                f"`X` must have the gate columns of samples that have the view {self.kernel_views_[m]!r}; got NaN in "
                f"{names[self.kernels_[m].gate_columns[which]]!r}, first in row {np.flatnonzero(present)[row]}. "
                "Impute it, or leave these samples out."
            )
        return values


def put_present(values: np.ndarray, place: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    """Copy the kernel of the points that have its view to its places in that of all points, NaN elsewhere."""
    out.fill(np.nan)
    out[place] = values


def check_finite(values: np.ndarray) -> np.ndarray:
    """Return values of a kernel; raise where they are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            "its values are not all finite. Scale the features of `X`, lower a polynomial degree, "
            "or look for a division by zero in your own kernel."
        )
    return values


@contextmanager
def naming_kernel(name: str) -> Iterator[None]:
    """Name the kernel in errors about values; that of values which are not finite comes in place of NumPy's."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except ValueError as error:
        raise ValueError(f"kernel {name!r}: {error}") from error


def fit_steps(
    normalize: tuple[str, ...],
    kernel: Kernel,
    geometry: PairwiseGeometry,
    weights: np.ndarray | None,
    values: np.ndarray | None,
) -> list[Normalizer]:
    """Return the normalizations of a training kernel; write the normalized one into `values`, (n_train, n_train).

    Without `values` they are learned from rows, and the kernel is never held.
    """
    train = geometry.Z
    kernel, moved = move_origin(normalize, kernel, train, weights)
    if values is not None:
        kernel.evaluate(geometry, values)
        check_finite(values)
    if not normalize:
        return []
    diagonal = check_finite(kernel.diagonal(train))
    return fit_normalizers(normalize, partial(_rows, kernel, train), diagonal, moved, weights, values)


def _rows(kernel: Kernel, train: np.ndarray, index: Index) -> np.ndarray:
    """Return rows of the training kernel before normalization, (n_rows, n_train)."""
    rows = train[index]
    is_whole = rows.shape == train.shape and not is_sparse(train) and np.may_share_memory(rows, train)
    geometry = PairwiseGeometry(train if is_whole else rows, train)
    out = np.empty(geometry.shape)
    kernel.evaluate(geometry, out)
    return check_finite(out)
