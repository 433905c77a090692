"""Missing values in columns of a design, which stand for nothing: no view is without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from bayesmkl.gp.group_labels import is_given
from bayesmkl.kernels.views import column_labels, column_names, positions_of


def refuse_missing(name: Any, missing: np.ndarray) -> None:
    """Raise where a column of a design is missing.

    Parameters
    ----------
    name : object
        Name of the column.
    missing : ndarray of bool, of shape (n_samples,)

    Examples
    --------
    >>> refuse_missing("age", np.array([False, True]))
    Traceback (most recent call last):
    ...
    ValueError: `X` must have no missing values (NaN, None) in the columns of `design`; got 1 in 'age', ...
    """
    if missing.any():
        raise ValueError(
            f"`X` must have no missing values (NaN, None) in the columns of `design`; got {int(missing.sum())} in "
            f"{name!r}, the first in row {int(missing.argmax())}. They are no part of a view that may be missing: "
            "fill them in, or leave these rows out."
        )


def columns_in(X: Any, named: Iterable[tuple[str, Any]]) -> Iterator[tuple[Any, np.ndarray]]:
    """Go through names and values of columns of samples that are not validated yet.

    What is no table, or has no such columns, has none: that is said where samples and names are checked.

    Parameters
    ----------
    X : array-like, DataFrame
        Samples.
    named : iterable of (str, str or int or sequence)
        Arguments, and the columns that they name.

    Yields
    ------
    name : object
    values : ndarray of shape (n_samples,)

    Examples
    --------
    >>> [(name, values.tolist()) for name, values in columns_in([[1, 2], [3, 4]], [("group_columns", 1)])]
    [('x1', [2, 4])]
    """
    is_frame = hasattr(X, "dtypes")
    try:
        table = X if is_frame else np.asarray(X)
        labels = column_labels(X) if is_frame else None
        n_features = len(X.columns) if is_frame else table.shape[1]
        found = [
            j
            for name, given in named
            if is_given(given)
            for j in positions_of(name, given, n_features, labels)
        ]
    except (ValueError, TypeError, IndexError):
        return
    names = column_names(n_features, labels)
    for j in found:
        column = table[:, j] if not is_frame else X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]
        yield names[j], np.asarray(column)


def check_columns(X: Any, named: Iterable[tuple[str, Any]]) -> None:
    """Raise where columns of samples that are not validated yet are missing; parameters are those of `columns_in`."""
    for name, values in columns_in(X, named):
        refuse_missing(name, np.asarray(pd.isna(values)))
