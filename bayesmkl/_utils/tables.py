"""Tables in files: CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesmkl._utils.extras import require

BLOCK = 2**18  # fields that are Python's texts at once
LARGEST_WHOLE = 2**63
WHOLE = re.compile(r"\+?[0-9]+|-0*[1-9][0-9]*")  # -0 is none: it has a sign
SIGNED_WORD = re.compile(r"\+[^0-9.]")  # which `float` would read: +inf
TEXT = np.dtypes.StringDType()
# What stands for no value, as pandas has it.
MISSING = (
    "",
    *("#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "n/a"),
    *("NULL", "null", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class TextTable(NamedTuple):
    """The fields of a file."""

    names: list[str]  # of the columns; none without a header
    columns: list[np.ndarray]  # of text


def read_text(path: Path, separator: str = ",", header: bool = True) -> TextTable:
    """Read a file, whole, into columns of text; those whose names end in .gz are unpacked.

    Empty lines are left out, where there is more than one column.

    Raises
    ------
    ValueError
        If lines have different numbers of fields, a quote is never closed, or the file is no text in UTF-8; with the
        line.
    """
    data = bytes_of_text(path)
    first = next((row for _, row in _rows(data, separator) if row), None)
    if first is None:
        raise ValueError("it is empty")
    table = _parsed(data, separator, len(first), header)
    return TextTable(first if header else [], list(table[1:].T if header else table.T))


def bytes_of_text(path: Path, most: int | None = None) -> bytes:
    """Read a file of text in UTF-8, with or without a mark at its beginning; .gz is unpacked.

    No more than `most` bytes are read and unpacked, so that a file of a stranger does not take all memory.

    Raises
    ------
    ValueError
        If it is anything else, with the line, or longer; gzip has other errors for what it cannot unpack.
    """
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        data = file.read(-1 if most is None else most + 1)
    if most is not None and len(data) > most:
        raise ValueError(f"it holds more than {most / 2**20:g} MB")
    _check_characters(data)
    return data


def numbers_of(column: np.ndarray, missing: Sequence[str] = MISSING) -> np.ndarray | None:
    """Return text as whole numbers, or as the nearest float64 with NaN for `missing`; None if it is anything else.

    Whole numbers that 64 bits do not hold are no numbers: identifiers have such, and would be rounded.

    Examples
    --------
    >>> numbers_of(np.array(["1", "-20"])), numbers_of(np.array(["0.1", " +3", "NA"]))
    (array([  1, -20]), array([0.1, 3. , nan]))
    >>> numbers_of(np.array(["1", "0x10"])), numbers_of(np.array(["1,5"])), numbers_of(np.array(["1_0"]))
    (None, None, None)
    """
    texts = [text.strip() for text in column.tolist()]
    absent = frozenset(missing)
    given = [text for text in texts if text not in absent]
    all_whole = all(map(WHOLE.fullmatch, given))
    if all_whole and any(len(text) > 18 and abs(int(text[:40])) >= LARGEST_WHOLE for text in given):
        return None
    if all_whole and len(given) == len(texts):
        return np.array(list(map(int, given)), dtype=np.int64)
    together = "".join(given)
    if not together.isascii() or "_" in together or ("+" in together and any(map(SIGNED_WORD.match, given))):
        return None
    try:
        real = np.array(list(map(float, given)), dtype=np.float64)
    except ValueError:
        return None
    found = np.full(len(texts), np.nan)
    found[[text not in absent for text in texts]] = real
    return found


def as_object(column: np.ndarray, missing: Sequence[str] = MISSING) -> np.ndarray:
    """Return text as an array of objects, with None for `missing`."""
    absent = frozenset(missing)
    return np.array([None if text in absent else text for text in column.tolist()], dtype=object)


def numbers_in(columns: Sequence[np.ndarray], missing: Sequence[str] = MISSING) -> np.ndarray:
    """Return columns of text as one table of float64, (n_rows, n_columns); raise for what is no number."""
    found = np.empty((len(columns[0]), len(columns)))
    for j, column in enumerate(columns):
        values = numbers_of(column, missing)
        if values is None:
            single = (text for text in column.tolist() if numbers_of(np.array([text]), missing) is None)
            raise ValueError(f"{next(single, 'a number beyond 64 bits')[:40]!r} is no number")
        found[:, j] = values
    return found


def _parsed(data: bytes, separator: str, n_columns: int, header: bool) -> np.ndarray:
    """Return all fields, (n_lines, n_columns)."""
    blocks: list[np.ndarray] = []
    rows: list[list[str]] = []
    for _, row in _rows(data, separator):
        if not row and (n_columns > 1 or not (rows or blocks)):
            continue
        if len(row or [""]) != n_columns:
            _refuse_lines(data, separator, n_columns, header)
        rows.append(row or [""])
        if len(rows) * n_columns > BLOCK:
            blocks.append(np.array(rows, dtype=TEXT))
            rows = []
    table = np.concatenate([*blocks, np.array(rows, dtype=TEXT).reshape(-1, n_columns)])
    # A quote that is never closed takes the rest of the file into the last field.
    last = table[-1, -1]
    if data.count(b'"') % 2 or "\n" in last or "\r" in last:
        _refuse_lines(data, separator, n_columns, header, strict=True)
    return table


def _rows(data: bytes, separator: str, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of every row, and its fields."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    reader, first = csv.reader(text, delimiter=separator, strict=strict), 1
    try:
        for row in reader:
            yield first, row
            first = reader.line_num + 1
    except csv.Error as error:
        if "field limit" in str(error):
            raise ValueError(
                f"line {first} has a field of more than {csv.field_size_limit()} characters. Close a quote that is "
                "open, or leave that column out"
            ) from error
        raise ValueError(
            f"from line {first} on quotes do not pair ({error}). Close the one that is open, or double those inside "
            "of quotes"
        ) from error


def _refuse_lines(data: bytes, separator: str, n_columns: int, header: bool, strict: bool = False) -> None:
    """Raise for the first line that has another number of fields, or a wrong quote."""
    named = "the header" if header else "the first line"
    names: list[str] | None = None
    for line, row in _rows(data, separator, strict):
        names = row if names is None and row else names
        if not row or len(row) == n_columns:
            continue
        other = other_separator(names or [], separator)
        if len(row) > n_columns and row[-1] == "":
            remedy = f"It ends in {separator!r}: remove that from every line that has it"
        elif other:
            remedy = f"{named.capitalize()} seems to be separated by {other}"
        else:
            remedy = (
                "Look for a separator without quotes, a title, row names without a header, or a file cut off"
            )
        raise ValueError(f"line {line} has {len(row)} fields and {named} {n_columns}. {remedy}")


def other_separator(names: Sequence[str], separator: str) -> str:
    """Return what seems to separate the columns of which but one was found, in words; empty if nothing does.

    Examples
    --------
    >>> other_separator(["x;y"], ","), other_separator(["x", "y;z"], ",")
    ('semicolons', '')
    """
    if len(names) != 1:
        return ""
    return next((word for mark, word in SEPARATORS.items() if mark != separator and mark in names[0]), "")


def _check_characters(data: bytes) -> None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError("it is in UTF-16. Save it as UTF-8")
    if data[:2] in (b"PK", b"\x1f\x8b"):
        raise ValueError("it is compressed, or a spreadsheet. Save it as text, or give it its own ending")
    if b"\0" in data:
        raise ValueError(
            f"line {_line_of(data, data.index(0))} has a NUL byte, at which a number would be cut. The file is "
            "damaged, or no text in UTF-8"
        )
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {_line_of(data, error.start)} is no text in UTF-8 (byte {data[error.start]:#x}). Save the "
                "file as UTF-8"
            ) from error


def _line_of(data: bytes, position: int) -> int:
    return 1 + (data.count(b"\n", 0, position) or data.count(b"\r", 0, position))


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
