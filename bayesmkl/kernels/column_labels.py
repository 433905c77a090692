"""Labels of columns, of whatever type: those of later frames are compared with those of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayesmkl._utils.typing import Samples

Label = str | int | float | bool | tuple[Any, ...] | None
LISTED = 5


def column_labels(X: Any) -> list[Label] | None:
    """Return the labels of the columns of a DataFrame as plain values; None of what has none.

    scikit-learn remembers names that are text; these are whole numbers, tuples and dates as well.

    Parameters
    ----------
    X : object
        A pandas or polars DataFrame, or a row source; anything else has no labels.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.kernels.column_labels import column_labels
    >>> column_labels(pd.DataFrame([[1.0, 2.0]], columns=[("left", 3), ("right", 4)]))
    [('left', 3), ('right', 4)]
    """
    is_table = hasattr(X, "dtypes") or getattr(type(X), "is_row_source", False)
    if not is_table or getattr(X, "columns", None) is None:
        return None
    return [_plain(label) for label in X.columns]


def _plain(label: Any) -> Label:
    """Return a label that files hold without its library; what is no plain value as its text."""
    if isinstance(label, tuple):
        return tuple(_plain(part) for part in label)
    value = label.item() if hasattr(label, "item") else label
    is_plain = value is None or isinstance(value, str | int | float | bool)
    return value if is_plain and value == value else f"{type(label).__name__} {label}"


def have_same_columns(given: Sequence[Label] | None, trained: Sequence[Label] | None) -> bool:
    """Return whether columns are those of training, as far as both have labels.

    The labels 0, 1, ... of a frame that was given none count as no labels beside text.

    Examples
    --------
    >>> from bayesmkl.kernels.column_labels import have_same_columns
    >>> have_same_columns([1, 0], [0, 1]), have_same_columns([0, 1], ["radius", "texture"])
    (False, True)
    """
    if given is None or trained is None:
        return True
    given, trained = list(given), list(trained)
    return given == trained or any(
        are_default(one) and all(isinstance(label, str) for label in other)
        for one, other in ((given, trained), (trained, given))
    )


def are_default(labels: Sequence[Label]) -> bool:
    """Return whether labels are 0, 1, ..., as pandas gives them to columns without any.

    Examples
    --------
    >>> are_default([0, 1, 2]), are_default([1, 2, 3])
    (True, False)
    """
    return list(labels) == list(range(len(labels)))


def refuse_other_columns(X: Samples, trained: Sequence[Label] | None, name: str = "X") -> None:
    """Raise for a frame whose columns are not those of training, in their order.

    Parameters
    ----------
    X : object
        A DataFrame; anything else passes.
    trained : sequence of labels or None
        Those that `column_labels` returned when fitting.
    name : str, default="X"
        Name of the argument, for messages.

    Raises
    ------
    ValueError
        With what is new, what is missing, or that the order is another one.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.kernels.column_labels import refuse_other_columns
    >>> refuse_other_columns(pd.DataFrame([[1.0, 2.0]], columns=[20, 10]), [10, 20])
    Traceback (most recent call last):
        ...
    ValueError: `X`: The feature names should match those that were passed during fit; they come in another order. ...
    """
    given = column_labels(X)
    if given is None or trained is None or have_same_columns(given, trained):
        return
    new = [label for label in given if label not in trained]
    missing = [label for label in trained if label not in given]
    found = [f"unseen at fit time: {_listed(new)}"] * bool(new)
    found += [f"seen at fit time, yet now missing: {_listed(missing)}"] * bool(missing)
    raise ValueError(
        f"`{name}`: The feature names should match those that were passed during fit; "
        f"{'; '.join(found) or 'they come in another order'}. Select the columns by their labels in the order of "
        "training, or pass an array, `.to_numpy()`, where the labels mean nothing."
    )


def refuse_shuffled_rows(X: Samples, columns: list[Label]) -> None:
    """Raise for a square frame of kernels whose rows are the samples of its columns in another order.

    Parameters
    ----------
    X : object
        A pandas DataFrame; anything else passes.
    columns : list of labels
        Its `column_labels`.

    Raises
    ------
    ValueError
        If its index holds the labels of its columns, but not in their order.
    """
    rows = getattr(X, "index", None)
    if rows is None or callable(rows):
        return
    rows = [_plain(label) for label in rows]
    if rows != columns and len(rows) == len(columns) and set(rows) == set(columns):
        raise ValueError(
            "`X` must hold the kernel of the same samples in rows and columns; its index has the labels of its "
            "columns in another order. Bring the columns into the order of the rows and of `y`: `X[X.index]`."
        )


def _listed(labels: Sequence[Label]) -> str:
    more = ", ..." if len(labels) > LISTED else ""
    return ", ".join(repr(label) for label in labels[:LISTED]) + more
