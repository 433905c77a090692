"""Tables in files: CSV, TSV and Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesmkl._utils.extras import require
from bayesmkl.datasets._text import MISSING, TextTable, as_object, numbers_of, other_separator, read_text

MOST_CLASSES = 10  # whole numbers with more different values than this are a quantity, not classes
PADDED = re.compile(r"\s*[+-]?0[0-9]+\s*")
UNNAMED = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__")
LOGICAL = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
PARQUET = "pyarrow.parquet", "pyarrow", "a Parquet file", "parquet"  # what `require` is asked for
LONGEST_LIST = 8  # names shown in a message
LONGEST_REASON = 300  # characters of what a reader says


def table_suffix(path: Path) -> str:
    """Return the kind of table by the suffix of `path`."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise ValueError(f"{str(path)!r} must be the name of a table, ending in {', '.join(SUFFIXES)}.")


def read_table(
    path: Path, labels: Sequence[str] = (), classes: Mapping[str, Sequence[Any] | None] | None = None
) -> pd.DataFrame:
    """Read a CSV, TSV or Parquet file.

    Parameters
    ----------
    path : Path
    labels : sequence of str
        Columns of a text file that hold labels, see `as_labels`. In others text that stands for numbers is numbers.
    classes : mapping of str to sequences of str or float, default=None
        The labels that are known of a column; those in the file are read as of their kind.

    Returns
    -------
    DataFrame
        With text as names, all different; columns without a name are called as pandas calls them.

    Raises
    ------
    ValueError
        If it cannot be read without a guess, with the line.
    FileNotFoundError
        If there is no such file.
    """
    suffix = table_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    parquet = require(*PARQUET) if suffix == ".parquet" else None
    try:
        if parquet is not None:
            _refuse_twice(parquet.read_schema(path).names)
            table = pd.read_parquet(path, engine="pyarrow")
            table.columns = [str(column) for column in table.columns]
            _refuse_twice(list(table.columns))
        else:
            separator = "\t" if "tsv" in suffix else ","
            table = _typed(read_text(path, separator), separator, labels, classes or {})
    except MemoryError:
        raise
    except Exception as error:  # whatever the readers stumble over: overflows, unknown types of columns
        said = " ".join(str(error).split())[:LONGEST_REASON].rstrip(".")
        raise ValueError(f"{str(path)!r} cannot be read as a {suffix} table: {said}.") from error
    if table.empty:
        raise ValueError(f"{str(path)!r} holds no rows; a header line and at least one row are needed.")
    return table.reset_index(drop=True)


def _typed(
    text: TextTable, separator: str, labels: Sequence[str], classes: Mapping[str, Sequence[Any] | None]
) -> pd.DataFrame:
    """Make numbers of the columns that hold them."""
    other = other_separator(text.names, separator)
    if other:
        raise ValueError(f"its only column is {text.names[0]!r}, which seems to be separated by {other}")
    found: dict[str, np.ndarray] = {}
    names = [name if name.strip() else f"Unnamed: {j}" for j, name in enumerate(text.names)]
    _refuse_twice(names)
    for name, given, column in zip(names, text.names, text.columns, strict=True):
        if name != given and len(column) and np.all(column == ""):
            continue  # what follows a separator at the end of every line
        found[name] = as_labels(column, classes.get(name)) if name in labels else _values(column)
    if all(values.dtype == object for values in found.values()):
        _refuse_header_inside(text)
    return pd.DataFrame(found)


def _values(column: np.ndarray) -> np.ndarray:
    numbers = numbers_of(column)
    if numbers is not None:
        return numbers
    words = column.tolist()
    return np.array([LOGICAL[word] for word in words]) if set(words) <= set(LOGICAL) else as_object(column)


def as_labels(column: np.ndarray, classes: Sequence[Any] | None = None) -> np.ndarray:
    """Return labels as numbers where these are written as the labels are, and as text otherwise.

    Quantities are numbers: those that are not whole, and more than `MOST_CLASSES` different ones. Zeros in front are
    of no quantity. Empty fields are None or NaN; words such as NA mean that only among numbers.

    Parameters
    ----------
    column : ndarray of text of shape (n_rows,)
    classes : sequence of str or float, default=None
        The labels that are known, of which these are.

    Examples
    --------
    >>> for texts in (["2", "10"], ["2", "02"], ["1.50", "2.25"], ["1.0", "1"], ["mild", "None"]):
    ...     print(as_labels(np.array(texts)))
    [ 2 10]
    ['2' '02']
    [1.5  2.25]
    ['1.0' '1']
    ['mild' 'None']
    """
    numbers = numbers_of(column)
    if numbers is None or (classes is not None and any(isinstance(label, str) for label in classes)):
        return as_object(column, missing=("",))
    if classes is not None:
        return numbers
    different = sorted(set(column.tolist()) - set(MISSING))
    padded = any(map(PADDED.fullmatch, different))
    values = np.unique(numbers[~np.isnan(numbers)])
    few = len(values) <= MOST_CLASSES and bool(np.all(values == np.round(values)))
    if padded or (few and not _are_written_alike(different)):
        return as_object(column)
    return numbers


def _are_written_alike(texts: Sequence[str]) -> bool:
    """Return whether whole numbers are all written as 1 is, or all as 1.0 is."""
    whole = all(re.fullmatch("0|-?[1-9][0-9]*", text) for text in texts)
    return whole or all(text == repr(float(text)) for text in texts)


def _refuse_twice(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"columns must have different names; more than one is called {named(twice)}")


def _refuse_header_inside(text: TextTable) -> None:
    """Raise for a header among the rows, which files that were joined have."""
    same = np.logical_and.reduce(
        [column == name for name, column in zip(text.names, text.columns, strict=True)]
    )
    if same.any():
        raise ValueError(
            f"row {np.flatnonzero(same)[0] + 1} below the header repeats it, as in files that were joined. Remove it"
        )


def unnamed_columns(names: Iterable[str]) -> list[str]:
    """Return the columns that a file has no name for, most of them row numbers that were saved with it."""
    return [name for name in names if not name.strip() or UNNAMED.fullmatch(name)]


def column_hint(column: str, table: pd.DataFrame) -> str:
    """Suggest columns of the table for a name that is none of them."""
    close = get_close_matches(column, table.columns, n=3)
    return f"did you mean {named(close)}?" if close else f"its columns are {named(list(table.columns))}."


def named(names: Sequence[str]) -> str:
    """List names in quotes, the first few of many."""
    return listed([repr(name) for name in names])


def listed(items: Sequence[str]) -> str:
    """List items, the first few of many."""
    shown = ", ".join(items[:LONGEST_LIST])
    return shown if len(items) <= LONGEST_LIST else f"{shown} and {len(items) - LONGEST_LIST} more"
