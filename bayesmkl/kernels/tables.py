"""Columns of a table: which are numbers, yes or no, categories or grades, and what kernels see of them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesmkl._utils.category_labels import match_labels, plain_label
from bayesmkl._utils.given import is_frame
from bayesmkl._utils.validation import shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.functions import Overlap
from bayesmkl.kernels.views import (
    NUMERIC_TYPES,
    Label,
    View,
    column_labels,
    refuse_other_columns,
)

UNSEEN, MISSING = -1.0, -2.0  # codes of categories that no training sample has, and of no category
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?$")
FEW_TEXTS = 20  # different texts that are categories, however few samples there are
REAL = (int, float, Decimal, np.number)
DATES = ("date", "timestamp", "period", "time")
ORDERED, FLAGS, CATEGORIES, NUMBERS, UNUSABLE = "grades", "yes or no", "categories", "numbers", "unusable"
EXPECTED = {FLAGS: "True and False", CATEGORIES: "categories", ORDERED: "grades", NUMBERS: "numbers"}
DAYS = (
    'Make a number of them, such as days since the first: `(X["{0}"] - X["{0}"].min()).dt.days`, or leave the column '
    "out of `views`."
)


class Column(NamedTuple):
    """What a column holds that has to be read before it is numbers.

    Attributes
    ----------
    position : int
    label : object
        Label of the column.
    kind : {"numbers", "yes or no", "categories", "grades", "unusable"}
    levels : tuple
        Plain labels of categories, those of grades in ascending order: they stand for 0, 1, ...
    why : str
        What is wrong with a column that cannot be used, and the remedy.
    """

    position: int
    label: Label
    kind: str
    levels: tuple[Any, ...] = ()
    why: str = ""


class ColumnPlan(NamedTuple):
    """What the columns of a table are, learned from the training samples; printed by `KernelBank` where it matters.

    Attributes
    ----------
    labels : list of labels
        Of all columns.
    columns : tuple of Column
        Those that do not hold plain numbers.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [31, 54, 47], "smoker": [True, False, True], "site": ["b", "a", None]})
    >>> plan = ColumnPlan.learn(frame)
    >>> [(column.label, column.kind, column.levels) for column in plan.columns]
    [('smoker', 'yes or no', (False, True)), ('site', 'categories', ('a', 'b'))]
    >>> plan.encode(frame.assign(smoker=[1, 0, 0], site=["A ", "c", None]))
       age  smoker  site
    0   31     1.0   0.0
    1   54     0.0  -1.0
    2   47     0.0  -2.0
    """

    labels: list[Label]
    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, X: Any) -> ColumnPlan | None:
        """Learn what the columns of a DataFrame are; None of anything else, and of columns of one name.

        Examples
        --------
        >>> ColumnPlan.learn(np.zeros((2, 2))) is None
        True
        """
        labels = column_labels(X) if is_frame(X) else None
        if labels is None or len(set(map(str, labels))) < len(labels):
            return None
        found = []
        for position, (label, dtype) in enumerate(zip(labels, X.dtypes, strict=True)):
            if _is_plain(dtype):
                continue
            kind, levels, why = _read(values_at(X, position), dtype, str(label))
            found.append(Column(position, label, kind, levels, why))
        return cls(labels, tuple(found))

    def encode(self, X: Any, keep_missing: bool = False, used: np.ndarray | None = None) -> Any:
        """Return a table of numbers: what is no number yet becomes a code, -1 of categories that are not known.

        Missing categories are NaN if they are to be kept, for samples that lack views, and a category of their own
        otherwise. Where `used` is given, other columns may hold anything: yes and no become 1 and 0 in a column that
        held numbers in training, anything else but numbers becomes NaN.

        Raises
        ------
        ValueError
            For columns that hold something else than in training, by name.
        """
        if not is_frame(X):
            text = next((column for column in self.columns if column.kind != FLAGS), None)
            if text is not None:
                raise ValueError(
                    f"`X` must be a DataFrame: its column {text.label!r} held {text.kind} in training, not numbers; "
                    f"got {type(X).__name__}."
                )
            return X
        if self.columns:
            refuse_other_columns(X, self.labels)
        read = {column.position for column in self.columns}
        dtypes, new = list(X.dtypes), dict[int, np.ndarray]()
        for position, (label, dtype) in enumerate(zip(self.labels, dtypes, strict=False)):
            if position not in read and not _is_plain(dtype):
                values = values_at(X, position)
                kind, _, _ = _read(values, dtype, str(label))
                if kind != NUMBERS and (used is None or position in used):
                    raise _changed(label, NUMBERS, (), _example(values))
                if kind == FLAGS:  # such as groups of a design, which were 0 and 1
                    flags = Column(position, label, FLAGS, (False, True), "")
                    new[position] = _encoded(flags, values, keep_missing)
                elif kind != NUMBERS:
                    new[position] = np.full(len(X), np.nan)
        new |= {c.position: _encoded(c, values_at(X, c.position), keep_missing) for c in self.columns}
        return with_columns(X, new) if new else X

    def codes(self) -> np.ndarray:
        """Return of all columns 0 for numbers and grades, 1 for yes or no, 2 for categories, 3 for no use."""
        found = np.zeros(len(self.labels), dtype=np.int8)
        for column in self.columns:
            found[column.position] = {FLAGS: 1, CATEGORIES: 2, UNUSABLE: 3}.get(column.kind, 0)
        return found

    def refuse(self, columns: Iterable[int], what: str, allowed: Sequence[str], remedy: str = "") -> None:
        """Raise for columns that are not of the kinds `allowed` for `what`, by name.

        Examples
        --------
        >>> plan = ColumnPlan.learn(pd.DataFrame({"sex": ["f", "m"]}))
        >>> plan.refuse([0], "`covariate_columns`", ["numbers"], "Write 0 and 1.")
        Traceback (most recent call last):
        ...
        ValueError: `covariate_columns` must hold numbers; got categories such as 'f' in 'sex'. Write 0 and 1.
        """
        by_position = {column.position: column for column in self.columns}
        for j in columns:
            column = by_position.get(int(j))
            if column is None or column.kind in (NUMBERS, ORDERED, *allowed):
                continue
            if column.kind == UNUSABLE:
                raise ValueError(f"`X`: the column {column.label!r} {column.why}")
            raise ValueError(
                f"{what} must hold {' or '.join(dict.fromkeys((NUMBERS, *allowed)))}; got "
                f"{column.kind} such as {column.levels[0]!r} in "
                f"{column.label!r}. {remedy}"
            )


# ---------------------------------------------------------------------------------------------- kernels of kinds


def kernels_by_kind(
    functions: Sequence[Kernel], is_named: bool, view: View, codes: np.ndarray | None
) -> list[tuple[Kernel, np.ndarray]]:
    """Return the kernels of a view, each with the columns that it sees.

    Categories, and columns of yes or no beside them, are compared by agreement: by `Overlap`, which "auto" has for
    them. All other kernels see the numbers. Where no kernel compares by agreement, yes and no are 1 and 0.

    Parameters
    ----------
    functions : sequence of Kernel
    is_named : bool
        Whether "auto" or "paper" stands for them, which have what the columns need.
    view : View
    codes : ndarray of int, or None
        Result of `ColumnPlan.codes`; None: all columns are numbers.

    Raises
    ------
    ValueError
        For categories that no kernel compares, and kernels without a column, by name.
    """
    own = np.zeros(0, dtype=np.int8) if codes is None else codes[view.columns]
    if not own.any():
        return [(function, view.columns) for function in functions]
    agreeing = [is_agreement(function) for function in functions]
    if is_named and not any(agreeing):
        functions, agreeing = [*functions, Overlap()], [*agreeing, True]
    numbers, categories = view.columns[own == 0], view.columns[own > 0]
    if not any(agreeing):
        if (own == 2).any():
            raise ValueError(
                f"`kernels` must compare the categories of the view {view.name!r} by agreement; got "
                f"{', '.join(function.label for function in functions)}. Add Overlap() to the kernels of this view, "
                'or leave them "auto".'
            )
        return [(function, view.columns) for function in functions]
    seen = [categories if is_so else numbers for is_so in agreeing]
    bare = [function.label for function, columns in zip(functions, seen, strict=True) if not len(columns)]
    if bare and not is_named:
        raise ValueError(
            f"`kernels` of the view {view.name!r} must have columns to compare; {bare[0]!r} has none, since "
            "all columns are categories or booleans. Leave it out."
        )
    return [pair for pair in zip(functions, seen, strict=True) if len(pair[1])]


def is_agreement(kernel: Kernel) -> bool:
    """Return whether a kernel compares its columns by agreement alone."""
    own = [factor for factor in kernel.factors() if not factor.has_gates]
    return bool(own) and all(isinstance(factor, Overlap) for factor in own)


# ------------------------------------------------------------------------------------------------------- columns


def read_frame(X: Any) -> Any:
    """Return a table of Arrow as a DataFrame, anything else as it is."""
    is_arrow = type(X).__module__.startswith("pyarrow") and hasattr(X, "to_pandas")
    return X.to_pandas() if is_arrow and hasattr(X, "column_names") else X


def values_at(X: Any, position: int) -> pd.Series:
    """Return the values of a column of any type; blank text is a missing one."""
    column = X.iloc[:, position] if hasattr(X, "iloc") else X[X.columns[position]]
    values = np.asarray(column)
    if values.dtype.kind not in "OUT":
        return pd.Series(values)
    known = [None if isinstance(value, str) and not value.strip() else value for value in values]
    return pd.Series(known, dtype=object)


def _is_plain(dtype: Any) -> bool:
    text = str(dtype).lower()
    return text.startswith(NUMERIC_TYPES) and not text.startswith("bool")


def with_columns(X: Any, new: Mapping[int, np.ndarray]) -> Any:
    """Return a pandas or polars DataFrame with other values in the columns at some positions."""
    names = list(X.columns)
    if hasattr(X, "with_columns"):
        return X.with_columns([type(X[names[j]])(names[j], values) for j, values in new.items()])
    X = X.copy(deep=False)
    for j, values in new.items():
        X[names[j]] = values
    return X


def _read(every: pd.Series, dtype: Any, name: str) -> tuple[str, tuple[Any, ...], str]:
    """Return the kind of a column, its levels, and what is wrong with it."""
    values, text = every.dropna(), str(dtype).lower()
    is_category = text.startswith(("categor", "enum", "dictionary"))
    if len(values) == 0:
        return NUMBERS, (), ""  # which are missing, and reported as such
    if getattr(dtype, "ordered", False) and is_category:
        return ORDERED, tuple(plain_label(level) for level in dtype.categories), ""
    if not is_category and (values.dtype.kind == "b" or _all_are(values, (bool, np.bool_))):
        return (FLAGS if len(values) == len(every) else CATEGORIES), (False, True), ""
    if not is_category and (values.dtype.kind in "iuf" or _all_are(values, REAL, (bool, complex))):
        return NUMBERS, (), ""
    if is_category or _all_are(values, str):
        levels = tuple(sorted({plain_label(value) for value in values}, key=str))
        why = "" if is_category else _why_no_categories(values, levels, name)
        return (UNUSABLE, (), why) if why else (CATEGORIES, levels, "")
    kinds = " and ".join(sorted({type(value).__name__ for value in values}))
    why = f"holds values of type {kinds}, such as {shown(values.iloc[0])}. Make all of them numbers or all text."
    if text.startswith(("timedelta", "duration")) or values.dtype.kind == "m":
        why = f'holds durations. Divide them by their unit: `X["{name}"] / pd.Timedelta(days=1)`.'
    elif (
        text.startswith(DATES) or values.dtype.kind == "M" or _all_are(values, (datetime.date, datetime.time))
    ):
        why = f"holds dates. {DAYS.format(name)}"
    return UNUSABLE, (), why


def _why_no_categories(values: pd.Series, levels: tuple[str, ...], name: str) -> str:
    """Return what is wrong with text as categories; empty if nothing is."""
    if len(levels) > 1 and all(map(ISO_DATE.match, levels)):
        return f"holds dates as text. Read them with `pd.to_datetime`. {DAYS.format(name)}"
    if len(levels) <= max(FEW_TEXTS, len(values) // 2):
        return ""
    what = f"holds {len(levels)} different texts, such as {shown(levels[0])}"
    if pd.to_numeric(values, errors="coerce").notna().all():
        return f'{what}: numbers that are text. Use `pd.to_numeric(X["{name}"])`.'
    return (
        f"{what}: an identifier, or free text. Leave it out, make numbers of it (TfidfVectorizer), or declare "
        f'categories, `X["{name}"].astype("category")`.'
    )


def _all_are(values: pd.Series, types: Any, but: Any = ()) -> bool:
    return all(isinstance(value, types) and not isinstance(value, but) for value in values)


def _example(values: pd.Series) -> Any:
    return next(iter(values.dropna()), None)


def _changed(label: Label, kind: str, levels: tuple[Any, ...], given: Any) -> ValueError:
    """Make the error for a column that holds something else than in training."""
    known = f" such as {levels[-1]!r}" if levels else ""
    remedy = (
        f'Replace them: `X["{label}"].map({{new: old, ...}})`, with the value of training for each new one, or leave '
        "cells empty (None)."
        if levels
        else f'Write numbers, as `pd.to_numeric(X["{label}"])` does of text.'
    )
    return ValueError(
        f"`X` must hold {EXPECTED[kind]}{known} in {label!r}, as in training; got {shown(given)}. {remedy}"
    )


def _encoded(column: Column, values: pd.Series, keep_missing: bool) -> np.ndarray:
    """Return the numbers that stand for the values of a column."""
    label, kind, levels = column.label, column.kind, column.levels
    if kind == UNUSABLE:  # which no kernel sees
        return np.zeros(len(values))
    known = values.notna().to_numpy()
    found = np.full(len(values), np.nan)
    if kind == NUMBERS:
        numbers = values[known]
        if not _all_are(numbers, REAL, (bool, complex)):
            raise _changed(label, kind, (), _example(numbers))
        found[known] = numbers.astype(np.float64)
        return found
    given = [plain_label(value) for value in values[known]]
    different = list(dict.fromkeys(given))
    places = dict(zip(different, match_labels(different, levels).tolist(), strict=True))
    unseen = [value for value, place in places.items() if place < 0]
    is_other = {isinstance(v, str) for v in different}.isdisjoint(isinstance(v, str) for v in levels)
    if unseen and (kind != CATEGORIES or (len(unseen) == len(different) and is_other)):
        raise _changed(label, kind, levels, unseen[0])
    if unseen and len(unseen) == len(different) and len(given) > 1:
        warn_user(
            f"`X` should hold categories of training in {label!r}, {shown(list(levels))}; got only unseen ones, "
            f"{shown(different)}, which match no known category. If they mean the same, spell them as in training.",
            UserWarning,
        )
    found[known] = [places[value] for value in given]
    if kind == CATEGORIES and not keep_missing:
        found[~known] = MISSING
    return found


def refuse_target(X: Any, y: Any, views: Sequence[View]) -> None:
    """Raise for a view with a column that is the target, by name and values.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [1.0, 2.0], "ill": [0, 1]})
    >>> refuse_target(frame, frame["ill"], [View("all", np.array([0, 1]))])
    Traceback (most recent call last):
    ...
    ValueError: `X` must not hold the target; its column 'ill' in the view 'all' is `y`. Leave it out of `X`, ...
    """
    if not is_frame(X) or not (hasattr(y, "name") or is_frame(y)):
        return
    targets = {str(label): y[label] for label in y.columns} if is_frame(y) else {str(y.name): y}
    names = [str(label) for label in X.columns]
    for view in views:
        for j in view.columns:
            target = targets.get(names[j])
            if target is not None and np.array_equal(np.asarray(values_at(X, j)), np.asarray(target)):
                raise ValueError(
                    f"`X` must not hold the target; its column {names[j]!r} in the view {view.name!r} is `y`. Leave "
                    f"it out of `X`, by `X.drop(columns={names[j]!r})`, and of `views` where they name it."
                )
