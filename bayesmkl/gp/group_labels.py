"""Columns of a DataFrame that name groups by text or flags, and numbers for these in validated samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.category_labels import match_labels, plain_label
from bayesmkl.kernels.views import column_labels, positions_of

LARGEST_WHOLE = 2**53  # up to which floats have every whole number


class GroupLabels(NamedTuple):
    """Text labels of a column of groups, in ascending order: they stand for 0, 1, ... in validated samples."""

    column: Any  # label of the column
    labels: tuple[Any, ...]


def learn_groups(wanted: Any, X: Any, argument: str = "group_columns") -> tuple[GroupLabels, ...]:
    """Return the labels in columns of a DataFrame that hold text, or numbers that floats confuse.

    `argument` is what names the columns.

    Raises
    ------
    ValueError
        For columns that `X` does not have.
    """
    labels = column_labels(X) if hasattr(X, "dtypes") else None
    if labels is None or not is_given(wanted):
        return ()
    columns = positions_of(argument, wanted, len(labels), labels)
    names = list(X.columns)
    chosen = [
        names[j] for j in columns if names.count(names[j]) == 1
    ]  # others are refused where names are checked
    return tuple(
        GroupLabels(column, tuple(sorted(set(_labels(values)), key=str)))
        for column, values in ((column, np.asarray(X[column])) for column in chosen)
        if _needs_labels(values)
    )


def number_groups(X: Any, known: Sequence[GroupLabels]) -> Any:
    """Replace text in group columns by numbers, -1 where no known label has its value.

    Raises
    ------
    ValueError
        For what is no DataFrame where labels were text, and for labels of another kind.
    """
    if not hasattr(X, "dtypes"):
        text = [own.column for own in known if not _are_flags(own.labels)]
        if text:
            raise ValueError(
                f"`X` must be a DataFrame: its column {text[0]!r} held text in training; got {type(X).__name__}."
            )
        return X
    for column, labels in known:
        if column not in list(X.columns):
            continue  # what is missing is said where columns are checked
        values = np.asarray(X[column])
        given = _labels(values)
        codes = match_labels(given, labels)
        # floats may be numbers that stand for labels
        unknown = values.dtype.kind != "f" and given and codes.max() < 0
        if unknown and _kinds(given).isdisjoint(_kinds(labels)):
            raise of_other_kind(column, labels[0], given[0])
        X = with_column(X, column, codes.astype(float))
    return X


def of_other_kind(column: Any, known: Any, given: Any) -> ValueError:
    """Make the error for labels of a column that are of another kind than in training.

    Examples
    --------
    >>> raise of_other_kind("site", 1, "north")
    Traceback (most recent call last):
    ...
    ValueError: `X` must hold labels in 'site' as in training, such as 1; got 'north'. Replace them: ...
    """
    return ValueError(
        f"`X` must hold labels in {column!r} as in training, such as {known!r}; got {given!r}. Replace them: "
        f"`X[{column!r}].map({{new: old, ...}})`, with the label of training for each new one."
    )


def _needs_labels(values: np.ndarray) -> bool:
    """Return whether values are no numbers, or whole ones that are not told apart in double precision."""
    if values.dtype.kind not in "iu":
        return values.dtype.kind != "f"
    return bool(len(values)) and max(abs(int(values.min())), abs(int(values.max()))) > LARGEST_WHOLE


def _are_flags(labels: Sequence[Any]) -> bool:
    """Return whether labels are true and false, for which 1 and 0 stand."""
    return all(isinstance(label, bool) for label in labels)


def _kinds(labels: Sequence[Any]) -> set[bool]:
    """Return whether some labels are text, and whether some are not."""
    return {isinstance(label, str) for label in labels}


def _labels(values: np.ndarray) -> list[Any]:
    """Return labels of groups as plain values."""
    return [plain_label(value) for value in values]


def with_column(X: Any, column: Any, values: np.ndarray) -> Any:
    """Return a pandas or polars DataFrame with other values in a column."""
    if hasattr(X, "with_columns"):
        return X.with_columns(type(X[column])(column, values))
    X = X.copy()
    X[column] = values
    return X


def is_given(columns: Any) -> bool:
    """Return whether columns are named at all."""
    return columns is not None and (np.ndim(columns) == 0 or len(columns) > 0)
