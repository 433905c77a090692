"""Columns of objects, such as strings and graphs, and transformers that compare them with the training samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import shown

__all__ = ["ONE_COLUMN", "DistanceToTraining", "OneColumn", "column_of", "refused_row", "refused_text"]

LONGEST = 10_000  # characters of a string

ONE_COLUMN = entries(
    """
    X:train : array-like of shape (n_train,), or DataFrame of shape (n_train, 1)
        Training samples, one in a row, as the class takes them.
    X : array-like of shape (n_samples,), or DataFrame of shape (n_samples, 1)
        Samples, one in a row, as the class takes them.
    y : None
        Ignored.
    input_features : None
        Ignored.
    """
)


class OneColumn(TransformerMixin, BaseEstimator):
    """Transformer of one column of objects, with the tags that say so."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


@fill_docs(ONE_COLUMN)
class DistanceToTraining(OneColumn):
    """Transformer whose columns are distances to the training samples: a subclass reads rows and compares them."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Keep the training samples.

        Parameters
        ----------
        %(X:train)s
        %(y)s

        Returns
        -------
        self : object
            The transformer.

        Raises
        ------
        ImportError
            If the library that compares them is not installed.
        ValueError
            For parameters that are none, and rows that cannot be compared.
        """
        self._check_parameters()
        train = self._read(X, None)
        self._compare(train[:1], train[:1])  # is the library there?
        self.train_ = train
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Compare samples with the training samples.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        distances : ndarray of shape (n_samples, n_train)
            Distances to the training samples, for ``FromDistance("precomputed")``.

        Raises
        ------
        ImportError
            If the library that compares them is not installed.
        ValueError
            For rows that cannot be compared.
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return self._compare(self._read(X, self.train_), self.train_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns.

        Parameters
        ----------
        %(input_features)s

        Returns
        -------
        names : ndarray of str of shape (n_train,)
            "distance0" and so on.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return np.array([f"distance{j}" for j in range(len(self.train_))], dtype=object)

    def _check_parameters(self) -> None:
        raise NotImplementedError

    def _read(self, X: Any, train: Any) -> Any:
        raise NotImplementedError

    def _compare(self, rows: Any, train: Any) -> np.ndarray:
        raise NotImplementedError


def column_of(X: Any, objects: str) -> list[Any]:
    """Return the rows of one column; objects that have a length themselves stay whole.

    Examples
    --------
    >>> import numpy as np
    >>> column_of(np.array([["a"], ["b"]]), "strings")
    ['a', 'b']
    """
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, list | tuple):
        rows = list(X)
        if rows and all(isinstance(row, list | tuple) and len(row) == 1 for row in rows):
            rows = [row[0] for row in rows]
        shape = (len(rows),)
    else:
        values = np.asarray(X, dtype=object)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        shape, rows = values.shape, values.tolist()
    if len(shape) != 1 or not rows:
        raise ValueError(
            f"`X` must be one column of {objects}, of shape (n_samples,); got {shape}. In a ColumnTransformer, name "
            "the column alone."
        )
    return rows


def refused_text(text: Any, longest: int = LONGEST) -> str:
    """Return why something is no string to compare, or nothing.

    Examples
    --------
    >>> refused_text(""), refused_text("ACGT")
    ('it is empty', '')
    """
    if not isinstance(text, str):
        return f"it is of type {type(text).__name__}"
    if not text.strip():
        return "it is empty"
    if len(text) > longest:
        return f"it has {len(text)} characters, and more than {longest} are not read"
    return ""


def refused_row(row: int, given: Any, why: str, objects: str) -> ValueError:
    """Return the error that names a row."""
    return ValueError(
        f"`X` must hold {objects}; row {row} is {shown(given)}: {why}. Mend it, or leave this sample out."
    )
