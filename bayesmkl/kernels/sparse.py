"""Sparse tables: rows of which most entries are zero, such as counts of words, compared without a dense copy."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn, TypeGuard

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from bayesmkl._utils.given import check_numbers, naming
from bayesmkl._utils.typing import Index

ROUNDING = 8 * np.finfo(np.float64).eps  # of squared distances, in units of the squared lengths
BLOCK_ENTRIES = 2**22  # of products with all training samples that are held twice, 32 MB


class SparseTable:
    """Rows that were validated, in SciPy's compressed form, with the length and the indexing of an array.

    Parameters
    ----------
    values : csr_array of shape (n_rows, n_columns)
        Finite, float64.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> table = SparseTable(sparse.csr_array(np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])))
    >>> len(table), table[1:].shape, table[[0, 2], :][:, np.array([1])].values.toarray().tolist()
    (3, (2, 2), [[2.0], [0.0]])
    """

    ndim = 2

    def __init__(self, values: sparse.csr_array) -> None:
        self.values = values

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values}

    @cached_property
    def transposed(self) -> sparse.csr_array:
        """Columns as rows, (n_columns, n_rows)."""
        return self.values.T.tocsr()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of what is not zero, and of its positions."""
        return self.values.data.nbytes + self.values.indices.nbytes + self.values.indptr.nbytes

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, index: Index | tuple[Any, Any]) -> SparseTable:
        """Return some rows, or some rows and columns; the same table where these are all columns."""
        if not isinstance(index, tuple):
            return SparseTable(self.values[index])
        rows, columns = index
        every = np.arange(self.shape[1])
        of_columns = self if np.array_equal(every[columns], every) else SparseTable(self.values[:, columns])
        return of_columns if isinstance(rows, slice) and rows == slice(None) else of_columns[rows]

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"`X` is sparse, but this needs a dense table of {self.shape[0]} x {self.shape[1]} entries. Fit "
            "the model to `X.toarray()`, or to fewer columns, for example from TruncatedSVD."
        )

    def copy(self) -> SparseTable:
        """Return a table that later changes of this one leave as it is."""
        return SparseTable(self.values.copy())

    def distinct(self) -> np.ndarray:
        """Return the positions of rows that equal no row before them, in ascending order."""
        seen: dict[tuple[bytes, bytes], int] = {}
        values = self.values.copy()
        values.sum_duplicates()
        values.eliminate_zeros()
        for i, (first, last) in enumerate(zip(values.indptr[:-1], values.indptr[1:], strict=True)):
            seen.setdefault((values.indices[first:last].tobytes(), values.data[first:last].tobytes()), i)
        return np.array(sorted(seen.values()), dtype=np.intp)

    def squared_norms(self) -> np.ndarray:
        """Return the squared length of each row, (n_rows,)."""
        return np.asarray(self.values.multiply(self.values).sum(axis=1)).ravel()


def is_sparse(X: object) -> TypeGuard[SparseTable]:
    """Return whether rows that were validated are sparse."""
    return isinstance(X, SparseTable)


def sparse_table(name: str, X: Any) -> sparse.csr_array:
    """Return a sparse matrix or array as real numbers in SciPy's compressed form.

    Examples
    --------
    >>> sparse_table("X", sparse.csc_matrix(np.eye(2, dtype=complex)))
    Traceback (most recent call last):
    ...
    ValueError: `X` must hold real numbers. Complex data not supported: pass real and imaginary parts as columns.
    """
    if X.ndim != 2:
        raise ValueError(f"`{name}` must have two dimensions, samples and columns; got shape {X.shape}.")
    check_numbers(name, np.empty(1, X.dtype))  # its type
    found = sparse.csr_array(X, dtype=np.float64)
    if not found.has_canonical_format:
        found = found.copy()
        found.sum_duplicates()  # of which a square would be wrong
    return found


def validate_sparse(model: Any, X: Any, trained: Any = None, **options: Any) -> SparseTable:
    """Do what scikit-learn's `validate_data` does with sparse rows, or with any where training samples are sparse.

    Parameters
    ----------
    model : estimator
        It learns, or has, the number of columns.
    X : sparse matrix or array-like of shape (n_rows, n_features)
    trained : array or SparseTable, optional
        Training samples of a model that is fitted.
    **options
        Of `validate_data`.
    """
    if trained is not None and not is_sparse(trained):
        raise TypeError("`X` must be a dense array, as in training; got a sparse one. Use `.toarray()`.")
    rows = sparse_table("X", X if sparse.issparse(X) else check_numbers("X", X))
    with naming("X"):
        return SparseTable(validate_data(model, rows, dtype=np.float64, accept_sparse="csr", **options))


def columns_of(X: Any, columns: np.ndarray, rows: np.ndarray | None = None) -> Any:
    """Return some columns of validated rows, contiguous; `rows`, a mask, says of which rows. Sparse ones have all."""
    if is_sparse(X):
        return X[:, columns]
    return np.ascontiguousarray(X[:, columns] if rows is None else X[:, columns][rows])


def dense_products(X: SparseTable, Z: SparseTable, out: np.ndarray | None = None) -> np.ndarray:
    """Return inner products of rows, (n_rows, n_train), from the entries that are not zero.

    Examples
    --------
    >>> table = SparseTable(sparse.csr_array(np.array([[0.0, 2.0], [1.0, 3.0]])))
    >>> dense_products(table, table)
    array([[ 4.,  6.],
           [ 6., 10.]])
    """
    found = np.empty((len(X), len(Z))) if out is None else out
    step = max(1, BLOCK_ENTRIES // max(1, len(Z)))
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        found[rows] = (X.values[rows] @ Z.transposed).toarray()
    return found


def sparse_distances(X: SparseTable, Z: SparseTable, out: np.ndarray | None = None) -> np.ndarray:
    r"""Return squared distances as :math:`\|x\|^2 - 2 x \cdot z + \|z\|^2`, (n_rows, n_train).

    They are off by rounding of the squared lengths, which is little where most entries are zero; those between equal
    rows are zero.

    Examples
    --------
    >>> table = SparseTable(sparse.csr_array(np.array([[0.0, 2.0], [1.0, 3.0]])))
    >>> sparse_distances(table, table)
    array([[0., 2.],
           [2., 0.]])
    """
    found = dense_products(X, Z, out)
    found *= -2.0
    lengths = np.add.outer(X.squared_norms(), Z.squared_norms())
    found += lengths
    found[found <= ROUNDING * lengths] = 0.0  # rows that are equal
    return found
