"""Kernel matrices that users have: as a kernel on positions of samples, and as one array for estimators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.given import check_numbers, refuse_unevaluated
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.validation import shown
from bayesmkl.kernels.base import KERNEL, Kernel
from bayesmkl.kernels.distance import positions_in
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.stacks.dense import DenseStack


class SharedKernels:
    """Kernels of shape (n_rows, n_train, n_kernels) whose parts are copied where their entries are needed.

    `bayesmkl.kernels.NamedKernels.shared` returns them, for ``kernels="precomputed"`` in cross-validation and grid
    searches of scikit-learn, which cut a part out for every fit.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_samples, n_samples)
        Of all samples, in memory that nothing writes to.
    rows, train : ndarray of int
        Samples of this part.
    known : dict
        What was computed of the kernels of all samples: the last weights with their sum, and by the names of kernels
        whether SVMs may be trained on them. All parts have it in common.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import stack_kernels
    >>> kernels = stack_kernels([np.eye(3), np.ones((3, 3))]).shared
    >>> part = kernels[np.ix_([0, 2], [1, 2])]
    >>> part, np.asarray(part)[:, :, 0]
    (<2 shared kernels of 2 x 2 samples>, array([[0., 0.],
           [0., 1.]]))
    """

    ndim = 3
    dtype = np.dtype(np.float64)

    def __init__(
        self, kernels: np.ndarray, rows: np.ndarray, train: np.ndarray, known: dict[Any, Any]
    ) -> None:
        self.whole, self.rows, self.train, self.known = kernels, rows, train, known

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, training samples and kernels."""
        return len(self.rows), len(self.train), len(self.whole)

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return len(self.whole)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        n_rows, n_train, n_kernels = self.shape
        return f"<{n_kernels} shared kernels of {n_rows} x {n_train} samples>"

    def __getitem__(self, index: Any) -> SharedKernels:
        """Return a part: ``kernels[rows]``, or of rows and columns, ``kernels[np.ix_(rows, train)]``."""
        parts = index if isinstance(index, tuple) else (index, slice(None))
        try:
            rows, train = (one if isinstance(one, slice) else np.asarray(one).ravel() for one in parts)
            return SharedKernels(self.whole, self.rows[rows], self.train[train], self.known)
        except (IndexError, ValueError) as error:
            raise IndexError(
                f"{self!r} is indexed by samples, `kernels[rows]` or `kernels[np.ix_(rows, train)]`; got "
                f"{shown(index)}. Index `np.asarray(kernels)` otherwise."
            ) from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a copy of the entries, (n_rows, n_train, n_kernels), contiguous with kernels first."""
        part = np.empty((len(self.whole), len(self.rows), len(self.train)))
        for own, kernel in zip(part, self.whole, strict=True):
            self._part(kernel, own)
        return np.moveaxis(part, 0, -1).astype(dtype or np.float64, copy=False)

    def __reduce__(self) -> Any:
        return SharedKernels, (self.whole, self.rows, self.train, {})

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the kernels, (n_rows, n_train), a part of that of all samples."""
        last = self.known.get("sum")
        if last is None or not np.array_equal(last[0], weights):
            self.known["sum"] = last = weights.copy(), DenseStack(self.whole).combine(weights)
        return self._part(last[1])

    def _part(self, matrix: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the entries of this part of a matrix of all samples, in half the time of one index of both."""
        return np.take(matrix[self.rows], self.train, axis=1, out=out, mode="clip")  # all are in bounds


# Matrices that were found to be symmetric and finite, which nobody writes to: a fit asks three times.
CHECKED: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()
REMEDY = "Use fewer kernels or samples, or a bank of kernels, which holds them in less memory."


@fill_docs(KERNEL)
class Precomputed(Kernel):
    """Look up similarities in a matrix, for samples that are not rows of numbers, such as strings and graphs.

    The view of the kernel is one column with the position of each sample in the matrix, counted from zero, or NaN for
    samples that lack the view. The matrix must contain all samples, including those to predict. In this way a kernel
    of any library can be combined with kernels on features. You can split a table with that column, and use it in
    pipelines, searches and comparisons, like any other table. If a localized method uses the columns of the table as
    gates, name the other columns with ``gate_columns``, because positions carry no information.

    Parameters
    ----------
    matrix : array-like of shape (n_samples, n_samples)
        Symmetric matrix with the similarities of all samples. Estimators, not this class, test whether its training
        part is positive semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Precomputed
    >>> words = ["gene", "genes", "cell"]
    >>> matrix = np.array([[len({*a} & {*b}) for b in words] for a in words])
    >>> Precomputed(matrix)(np.array([[2]]), np.array([[0], [1]]))  # letters that words share
    array([[1., 1.]])
    """

    label = "precomputed"
    known_psd = False  # nothing is known of a matrix
    takes_units = True

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __deepcopy__(self, memo: dict[int, Any]) -> Precomputed:
        """Return a kernel that later changes of the matrix leave as it is; its own copies share its matrix."""
        copied, matrix = copy(self), _without_labels(self.matrix)
        if not isinstance(matrix, np.ndarray) or matrix.flags.writeable or not matrix.flags.owndata:
            matrix = deepcopy(matrix, memo)
        if isinstance(matrix, np.ndarray):
            matrix.flags.writeable = False
        copied.matrix = matrix
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """Return what files hold: an array in the place of a DataFrame."""
        return super().__getstate__() | {"matrix": _without_labels(self.matrix)}

    def __sklearn_clone__(self) -> Precomputed:
        """Return an unfitted copy."""
        return type(self)(deepcopy(self).matrix)

    def check_parameters(self) -> None:
        """Raise for what is no symmetric matrix of finite numbers.

        Raises
        ------
        ValueError
            For other shapes, and entries that are not finite or not symmetric.
        TypeError
            For a sparse matrix, or entries that are no numbers.
        """
        if CHECKED.get(id(self.matrix)) is self.matrix:
            return
        check_numbers("matrix", self.matrix)
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise ValueError(f"`matrix` must have shape (n_samples, n_samples); got {matrix.shape}.")
        if not np.isfinite(matrix).all():
            raise ValueError(
                "`matrix` must have finite entries; got NaN or infinity. Samples without the view have NaN in the "
                "column of positions."
            )
        if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * float(np.abs(matrix).max())):
            raise ValueError(
                "`matrix` must be symmetric; it is not. If that is rounding, use (matrix + matrix.T) / 2."
            )
        if isinstance(self.matrix, np.ndarray) and not self.matrix.flags.writeable:
            CHECKED[id(self.matrix)] = self.matrix

    def fit(self, X: Any, y: Any = None, sample_weight: np.ndarray | None = None) -> Precomputed:
        """Check the matrix and the positions.

        Parameters
        ----------
        X : array-like of shape (n_train, 1)
            Positions of training samples in the matrix.
        y : None
            Ignored.
        sample_weight : ndarray of shape (n_train,), default=None
            Ignored: nothing is learned.

        Returns
        -------
        self : Precomputed
            The kernel itself.

        Raises
        ------
        ValueError
            For a matrix that is none, and for what are no positions in it.
        """
        super().fit(X)
        self._positions(np.asarray(X))
        return self

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s

        Raises
        ------
        ValueError
            For what are no positions in the matrix.
        """
        matrix = np.asarray(self.matrix)
        out[...] = matrix[np.ix_(self._positions(geometry.X), self._positions(geometry.Z))]

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Entries of the matrix's diagonal.

        Raises
        ------
        ValueError
            For what are no positions in the matrix.
        """
        return np.asarray(self.matrix).diagonal()[self._positions(X)].astype(np.float64)

    def _positions(self, X: np.ndarray) -> np.ndarray:
        return positions_in("matrix", X, len(np.asarray(self.matrix)))


def _without_labels(matrix: Any) -> Any:
    """Return a DataFrame as an array, and anything else as it is."""
    return matrix.to_numpy() if hasattr(matrix, "columns") and hasattr(matrix, "to_numpy") else matrix


class NamedKernels(NamedTuple):
    """Kernels of the same samples and what they are called."""

    values: np.ndarray  # (n_rows, n_train, n_kernels), a view of an array with kernels first
    names: list[str]  # for `kernel_names`

    @property
    def shared(self) -> SharedKernels:
        """The values for cross-validation and grid searches, whose folds are copied where their entries are needed.

        Values that are not read-only, as those of `stack_kernels` are, are copied once.

        Raises
        ------
        ValueError
            Unless rows and training samples are the same.
        """
        kernels = np.moveaxis(self.values, -1, 0)
        n_kernels, n_rows, n_train = kernels.shape
        if n_rows != n_train:
            raise ValueError(
                f"`values` must hold kernels of shape (n_train, n_train) to be shared; got {n_kernels} of "
                f"{n_rows} x {n_train}."
            )
        if kernels.flags.writeable:
            kernels = kernels.copy()
            kernels.flags.writeable = False
        return SharedKernels(kernels, np.arange(n_rows), np.arange(n_train), {})


def stack_kernels(matrices: Any) -> NamedKernels:
    """Stack kernel matrices for estimators with ``kernels="precomputed"``.

    Samples are the first axis of the result, so indexing, cross-validation and grid searches of scikit-learn split it
    like a table.

    Parameters
    ----------
    matrices : dict of str to matrix, list, or array of shape (n_kernels, n_rows, n_train)
        Each matrix is an array or a DataFrame of the same shape (n_rows, n_train). Columns are the training samples,
        and rows are samples of any set. DataFrames must have the same labels in the same order.

    Returns
    -------
    NamedKernels
        The array of shape (n_rows, n_train, n_kernels) and the names, by default "kernel 0", "kernel 1" and so on.
        The array is read-only; its `shared` is for cross-validation and grid searches with many kernels.

    Raises
    ------
    ValueError
        If there are no matrices, matrices have different shapes or labels, two names are the same as text, or an
        entry is not a matrix of numbers.
    TypeError
        For other objects, and sparse matrices.
    MemoryError
        If the array does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier
    >>> from bayesmkl.kernels import stack_kernels
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> kernels = stack_kernels({"left": np.outer(X[:, 0], X[:, 0]), "right": np.outer(X[:, 1], X[:, 1])})
    >>> kernels.values.shape
    (40, 40, 2)
    >>> model = BEMKLClassifier("precomputed", kernel_names=kernels.names).fit(kernels.values, X[:, 0] > 0)
    >>> max(zip(abs(model.kernel_weights_), model.kernel_names_))[1]
    'left'
    """
    refuse_unevaluated("matrices", matrices)
    names, given = _named(matrices)
    if not given:
        raise ValueError("`matrices` must hold at least one kernel; got none.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"`matrices` must have different names; {twice!r} comes {names.count(twice)} times.")
    first: tuple[str, Any] | None = None
    arrays: list[np.ndarray] = []
    for name, matrix in zip(names, given, strict=True):
        what = f"matrices[{name!r}]"
        check_numbers(what, matrix)
        array = np.asarray(matrix)
        if array.ndim != 2 or array.size == 0:
            raise ValueError(f"`{what}` must have shape (n_rows, n_train); got {array.shape}.")
        if arrays and array.shape != arrays[0].shape:
            raise ValueError(
                f"`matrices` must all have one shape; got {arrays[0].shape} for {names[0]!r} and {array.shape} for "
                f"{name!r}. They compare the same rows with the same training samples."
            )
        if hasattr(matrix, "index") and hasattr(matrix, "columns"):
            labels = list(matrix.index), list(matrix.columns)
            if first is not None and labels != first[1]:
                raise ValueError(
                    f"`matrices` must have the same labels in the same order; those of {name!r} are not those of "
                    f"{first[0]!r}. Reorder it, `matrix.loc[rows, columns]`."
                )
            first = first or (name, labels)
        arrays.append(array)
    shape = (len(arrays), *arrays[0].shape)
    require_memory(8 * math.prod(shape), f"{shape[0]} kernels of {shape[1]} x {shape[2]} entries", REMEDY)

    values = np.empty(shape)
    for own, array in zip(values, arrays, strict=True):
        own[...] = array.astype(np.float64, copy=False)
    values.flags.writeable = False
    return NamedKernels(np.moveaxis(values, 0, -1), names)


def _named(matrices: Any) -> tuple[list[str], list[Any]]:
    if isinstance(matrices, Mapping):
        return [str(name) for name in matrices], list(matrices.values())
    if isinstance(matrices, np.ndarray) and matrices.ndim != 3:
        raise ValueError(
            f"`matrices` must have shape (n_kernels, n_rows, n_train) where it is an array; got {matrices.shape}."
        )
    if isinstance(matrices, (str, bytes)) or not isinstance(matrices, Iterable):
        raise TypeError(f"`matrices` must be a dict or list of matrices, or an array; got {shown(matrices)}.")
    given = list(matrices)
    return [f"kernel {m}" for m in range(len(given))], given
