"""Views: the columns of the data that each kernel sees, and their labels, of whatever type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from bayesmkl._utils.given import check_numbers, is_frame, refuse_unevaluated
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import shown

Label = str | int | float | bool | tuple[Any, ...] | None
LISTED = 5  # labels in messages
# Names that tables of views have for other rows: all views, what they do not explain, functions of several views.
ALL_VIEWS, NOISE, TOGETHER = "all views", "not explained", "views together"
# How the column types of pandas, polars and Arrow begin where they hold plain numbers.
NUMERIC_TYPES = ("int", "uint", "float", "double", "bool", "decimal")


class View(NamedTuple):
    """A named group of columns."""

    name: str
    columns: np.ndarray  # their positions, (n_columns,)


class _Labels(NamedTuple):
    """Labels of columns, for many of them to be looked up."""

    position: dict[Any, int]  # of the first column that has a label
    only_count: bool  # 0, 1, ..., which are no names


def resolve_views(
    views: str | Mapping[str, Any],
    n_features: int,
    labels: Sequence[Any] | None,
    samples: Any = None,
    codes: np.ndarray | None = None,
) -> list[View]:
    """Turn the `views` argument of a bank into named groups of column positions.

    Parameters
    ----------
    views : "all", "each", "all+each", "types", mapping of view name to columns, or list of View
        Columns are feature names, patterns of names, positions, a slice, a boolean mask, a single name or position,
        or a function of the samples that returns one of these, such as ``make_column_selector``. A list is resolved
        already.
    n_features : int
        Number of columns of the data.
    labels : sequence of length n_features or None
        Column labels of a DataFrame; without them, or if they only count, columns are called x0, x1, ...
    samples : DataFrame or array, optional
        What functions are called with.
    codes : ndarray of int, of shape (n_features,), optional
        Kinds of columns, for "types": zero of numbers. None: all are numbers.

    Returns
    -------
    views : list of View
        In the order in which kernels are made.

    Raises
    ------
    ValueError
        For anything that does not name columns of the data.

    Examples
    --------
    >>> from bayesmkl.kernels.views import resolve_views
    >>> resolve_views({"size": [0, 2], "shape": slice(3, None)}, 5, None)
    [View(name='size', columns=array([0, 2])), View(name='shape', columns=array([3, 4]))]
    >>> resolve_views({"genes": "g_*"}, 3, ["g_1", "age", "g_2"])
    [View(name='genes', columns=array([0, 2]))]
    """
    if isinstance(views, str) and views == "types":
        is_number = np.ones(n_features, dtype=bool) if codes is None else codes == 0
        both = (View("numbers", np.flatnonzero(is_number)), View("categories", np.flatnonzero(~is_number)))
        return [view for view in both if len(view.columns)]
    whole = [View("all", np.arange(n_features))]
    each = [View(name, np.array([j])) for j, name in enumerate(column_names(n_features, labels))]
    if isinstance(views, str) and views in ("all", "each", "all+each"):
        return {"all": whole, "each": each, "all+each": whole + each}[views]
    if isinstance(views, list) and views and all(isinstance(view, View) for view in views):
        return views
    if not isinstance(views, Mapping):
        raise ValueError(
            f'`views` must be "all", "each", "all+each", "types" or a mapping {{view name: columns}}; got {views!r}.'
        )
    if not views:
        raise ValueError(
            '`views` must name at least one view; got an empty mapping. Use "all" for all columns.'
        )
    names = [str(name) for name in views]
    if len(set(names)) < len(names):
        raise ValueError(f"`views` must have different names; got {names}.")
    refuse_names_of_rows("views", names)
    prepared = _prepared(labels)
    resolved = []
    for name, wanted in views.items():
        given = wanted(samples) if callable(wanted) and samples is not None else wanted
        columns = _columns_of(f"views[{name!r}]", given, n_features, prepared)
        first = np.sort(np.unique(columns, return_index=True)[1])  # a column counts once
        resolved.append(View(str(name), columns[first]))
    _refuse_overlap(resolved, list(views.values()), labels)
    return resolved


def refuse_names_of_rows(name: str, views: Iterable[str]) -> None:
    """Raise for views that are called as other rows of tables of views are."""
    taken = sorted({ALL_VIEWS, NOISE, TOGETHER}.intersection(views))
    if taken:
        raise ValueError(f"`{name}` must not have the name {taken[0]!r}, a row of tables. Rename the view.")


def _refuse_overlap(resolved: Sequence[View], given: Sequence[Any], labels: Sequence[Any] | None) -> None:
    """Raise for patterns that take columns of another view, where nobody names them."""
    patterns = [view for view, wanted in zip(resolved, given, strict=True) if _has_pattern(wanted, labels)]
    for view in patterns:
        for other in resolved:
            shared: Any = np.intersect1d(view.columns, other.columns) if other is not view else []
            if len(shared):
                raise ValueError(
                    f"`views` must not share columns by a pattern; {view.name!r} and {other.name!r} both "
                    f"have {column_names(len(labels or ()), labels)[shared[0]]!r}. Use a narrower pattern, "
                    "or list the names of columns that belong to both."
                )


def _has_pattern(wanted: Any, labels: Sequence[Any] | None) -> bool:
    items = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list | tuple) else []
    return any(isinstance(item, str) and _is_pattern(item) and item not in (labels or ()) for item in items)


def _is_pattern(item: str) -> bool:
    return any(letter in item for letter in "*?[")


def column_names(n_features: int, labels: Sequence[Any] | None) -> list[str]:
    """Return what columns are called: x0, x1, ... without labels, or if these only count.

    Examples
    --------
    >>> from bayesmkl.kernels.views import column_names
    >>> column_names(2, None), column_names(2, ["age", 7])
    (['x0', 'x1'], ['age', '7'])
    """
    if labels is None or are_default(labels):
        return [f"x{j}" for j in range(n_features)]
    return [str(label) for label in labels]


def views_without(
    views: str | Mapping[str, Any],
    left_out: np.ndarray,
    n_features: int,
    labels: Sequence[Any] | None,
    codes: np.ndarray | None = None,
    samples: Any = None,
) -> Mapping[Any, Any] | list[View]:
    """Leave columns out of the views that do not name theirs, but have a pattern or a function.

    Parameters
    ----------
    views : "all", "each", "all+each" or mapping of view name to columns
        As in `resolve_views`. A mapping that names its columns is returned as it is.
    left_out : ndarray of int, of shape (n_left_out,)
        Positions of columns.
    n_features : int
        Number of columns of the data.
    labels : sequence of length n_features or None
        Column labels of a DataFrame.
    codes : ndarray of int, optional
    samples : DataFrame or array, optional
        As in `resolve_views`.

    Returns
    -------
    mapping of view name to columns, or list of View
        For `resolve_views`. The list may be empty.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.views import views_without
    >>> views_without("each", np.array([1]), 3, None)
    [View(name='x0', columns=array([0])), View(name='x2', columns=array([2]))]
    """
    named = set()
    if isinstance(views, Mapping):
        named = {
            str(name)
            for name, wanted in views.items()
            if not callable(wanted) and not _has_pattern(wanted, labels)
        }
        if len(named) == len(views):
            return views
    resolved = resolve_views(views, n_features, labels, samples, codes)
    kept = [
        view if view.name in named else view._replace(columns=np.setdiff1d(view.columns, left_out))
        for view in resolved
    ]
    return [view for view in kept if len(view.columns)]


def positions_of(name: str, wanted: Any, n_features: int, labels: Sequence[Any] | None) -> np.ndarray:
    """Return the positions of columns that are given by names, positions, a slice or a boolean mask.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    wanted : str, int, slice or sequence of str, int or bool
        The columns.
    n_features : int
        Number of columns of the data.
    labels : sequence of length n_features or None
        Column labels of a DataFrame.

    Returns
    -------
    ndarray of int, of shape (n_columns,)
        In the order in which they were given.

    Raises
    ------
    ValueError
        For anything that does not name columns of the data.

    Examples
    --------
    >>> from bayesmkl.kernels.views import positions_of
    >>> positions_of("gate_columns", ["hour", 0], 3, ["left", "right", "hour"])
    array([2, 0])
    """
    return _columns_of(name, wanted, n_features, _prepared(labels))


def _prepared(labels: Sequence[Any] | None) -> _Labels | None:
    if labels is None:
        return None
    position: dict[Any, int] = {}
    for j, label in enumerate(labels):
        position.setdefault(label, j)
    return _Labels(position, are_default(labels))


def _columns_of(name: str, wanted: Any, n_features: int, labels: _Labels | None) -> np.ndarray:
    if isinstance(wanted, slice):
        if any(isinstance(bound, str) for bound in (wanted.start, wanted.stop)):
            raise ValueError(
                f"`{name}` must be a slice of positions; got {wanted!r}. List the names instead."
            )
        try:
            columns = np.arange(n_features)[wanted]
        except TypeError as error:
            raise ValueError(f"`{name}` must be a slice of positions; got {wanted!r}.") from error
    else:
        items = [wanted] if _is_one(wanted) else list(wanted)
        if items and all(isinstance(item, (bool, np.bool_)) for item in items):
            if len(items) != n_features:
                raise ValueError(
                    f"`{name}` is a mask of length {len(items)}; it needs one entry for each of the "
                    f"{n_features} columns of `X`."
                )
            columns = np.flatnonzero(items)
        else:
            found = [j for item in items for j in _positions(name, item, n_features, labels)]
            columns = np.array(
                list(dict.fromkeys(found)) if len(items) < len(found) else found, dtype=np.intp
            )
    if len(columns) == 0:
        raise ValueError(f"`{name}` selects no column; got {wanted!r}. Give it columns or leave it out.")
    return columns


def _is_one(wanted: Any) -> bool:
    try:
        return np.ndim(wanted) == 0
    except ValueError:  # lists of different lengths in a list
        return False


def _positions(name: str, item: Any, n_features: int, labels: _Labels | None) -> list[int]:
    """Return the position of a column, or of those whose names match a pattern."""
    is_name = labels is None or labels.only_count or not isinstance(item, str) or item in labels.position
    if is_name or not _is_pattern(item):
        return [_position(name, item, n_features, labels)]
    known: Any = labels.position  # type: ignore[union-attr]
    found = [j for label, j in known.items() if isinstance(label, str) and fnmatchcase(label, item)]
    if not found:
        raise ValueError(
            f"`{name}` has the pattern {item!r}, which matches no column of `X`; these are {shown(list(known))}."
        )
    return found


def _position(name: str, item: Any, n_features: int, labels: _Labels | None) -> int:
    if isinstance(item, str):
        if labels is None or labels.only_count:
            raise ValueError(
                f"`{name}` names the column {item!r}, but `X` has no column names. "
                "Pass a DataFrame, or give the column's position."
            )
        if item not in labels.position:
            close = get_close_matches(item, [label for label in labels.position if isinstance(label, str)])
            hint = (
                f"did you mean {', '.join(map(repr, close))}?"
                if close
                else f"the columns are {shown(list(labels.position))}."
            )
            raise ValueError(f"`{name}` names the column {item!r}, which `X` does not have; {hint}")
        return labels.position[item]
    is_position = isinstance(item, Integral) and not isinstance(item, bool)
    if is_position and labels is not None and labels.position.get(item, item) != item:
        counting = "views count" if name.startswith("views") else f"`{name}` counts"
        raise ValueError(
            f"`{name}` has {item!r}, which is the label of the column at position {labels.position[item]} of "
            f"`X`, while {counting} positions. Give columns names that are text, `X.columns.astype(str)`, or pass an "
            "array."
        )
    if is_position and -n_features <= int(item) < n_features:
        return int(item) % n_features
    raise ValueError(
        f"`{name}` must hold column names or positions from 0 to {n_features - 1}; got {item!r}."
    )


def check_samples(X: Any, name: str = "X", may_be_sparse: bool = False, may_be_text: bool = False) -> int:
    """Check that a value is a table of real numbers, and return its number of rows.

    Shapes, NaN and infinity are left to scikit-learn.

    Parameters
    ----------
    X : object
        An array, lists of lists, a pandas or polars DataFrame.
    name : str
        Name of the argument, for messages.
    may_be_sparse : bool, default=False
        Whether SciPy's sparse matrices and arrays pass.
    may_be_text : bool, default=False
        Whether columns of a DataFrame may hold anything, which is looked at where they are read.

    Raises
    ------
    ValueError, TypeError
        For text, dates, complex numbers, masked entries, sparse matrices, other objects, and columns of one name.

    Examples
    --------
    >>> from bayesmkl.kernels.views import check_samples
    >>> check_samples([["1.5"], ["2.5"]])
    Traceback (most recent call last):
    ...
    ValueError: `X` must hold numbers; got text. Convert or encode it first.
    """
    if may_be_sparse and issparse(X):
        return X.shape[0]
    refuse_unevaluated(name, X)
    if not is_frame(X):
        return len(check_numbers(name, X))
    names = list(X.columns)
    twice = [column for column, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"`{name}` must have columns of different names; {str(twice[0])!r} comes {names.count(twice[0])} times. "
            "Rename them, or pass an array."
        )
    if not may_be_text:
        refuse_text_columns(X, name)
    return len(X)


def refuse_text_columns(X: Any, name: str = "X") -> None:
    """Raise for columns of a pandas or polars DataFrame that hold no numbers, naming them.

    Parameters
    ----------
    X : object
        Anything but a DataFrame passes.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    ValueError
        For text, dates and other columns that are not numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.kernels.views import refuse_text_columns
    >>> refuse_text_columns(pd.DataFrame({"radius": [1.0], "site": ["left"]}))
    Traceback (most recent call last):
        ...
    ValueError: `X` must hold numbers; column 'site' does not. Encode it first, for example ...
    """
    if not is_frame(X):
        return
    text = [
        str(column)
        for column, dtype in zip(X.columns, X.dtypes, strict=True)
        if not str(dtype).lower().startswith(NUMERIC_TYPES) and not _holds_numbers(np.asarray(X[column]))
    ]
    if text:
        which = f"column {text[0]!r} does" if len(text) == 1 else f"columns {', '.join(map(repr, text))} do"
        raise ValueError(
            f"`{name}` must hold numbers; {which} not. Encode it first, for example with OneHotEncoder in a "
            "ColumnTransformer, or leave it out."
        )


def _holds_numbers(values: np.ndarray) -> bool:
    if values.dtype.kind == "O":  # numbers and missing values, which are reported as such later
        if all(value is None for value in values.flat):
            return True
        return not any(isinstance(v, (str, bytes)) for v in values.flat) and any(
            isinstance(v, Real) for v in values.flat
        )
    return values.dtype.kind in "biuf"


# ------------------------------------------------------------------------------------------ labels of columns


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
    >>> from bayesmkl.kernels.views import column_labels
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
    >>> from bayesmkl.kernels.views import have_same_columns
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
    >>> from bayesmkl.kernels.views import refuse_other_columns
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
