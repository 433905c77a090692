"""Tables in files: CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesmkl._utils.extras import require

# What stands for no value, as pandas has it.
MISSING = (
    "",
    *("#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "n/a"),
    *("NULL", "null", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MOST_CLASSES = 10  # whole numbers with more different values than this are a quantity, not classes
PADDED = re.compile(r"\s*[+-]?0[0-9]+\s*")
UNNAMED = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__")
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
PARQUET = "pyarrow.parquet", "pyarrow", "a Parquet file", "parquet"  # what `require` is asked for
# Numbers are read to the last digit, as pandas does without being told from 3.1 on.
IS_EXACT = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
EXACT: Any = {} if IS_EXACT else {"float_precision": "round_trip"}
LONGEST_LIST = 8  # names shown in a message
LONGEST_REASON = 300  # characters of what a reader says


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
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError("it is in UTF-16. Save it as UTF-8")
    if data[:2] in (b"PK", b"\x1f\x8b"):
        raise ValueError("it is compressed, or a spreadsheet. Save it as text, or give it its own ending")
    if b"\0" in data:
        line = 1 + data.count(b"\n", 0, data.index(0))
        raise ValueError(f"line {line} has a NUL byte. The file is damaged, or no text in UTF-8")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"line {line} is no text in UTF-8 (byte {data[error.start]:#x}). Save the file as UTF-8"
        ) from error
    return data


def first_row(data: bytes, separator: str = ",") -> list[str]:
    """Return the fields of the first line that is not empty, and check that all lines have as many.

    pandas alone would fill shorter lines with missing values.

    Raises
    ------
    ValueError
        If lines have different numbers of fields, or a quote is never closed; with the line.
    """
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    reader, first, line = csv.reader(text, delimiter=separator, strict=True), list[str](), 1
    try:
        for row in reader:
            first = first or row
            if row and len(row) != len(first):
                other = other_separator(first, separator)
                remedy = "Look for a separator without quotes, a title, row names without a header, or a file cut off"
                if len(row) > len(first) and row[-1] == "":
                    remedy = f"It ends in {separator!r}: remove that from every line that has it"
                elif other:
                    remedy = f"The first line seems to be separated by {other}"
                raise ValueError(
                    f"line {line} has {len(row)} fields and the first line {len(first)}. {remedy}"
                )
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"from line {line} on quotes do not pair ({error}). Close the one that is open, or double those inside "
            "of quotes"
        ) from error
    if not first:
        raise ValueError("it is empty")
    return first


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
            table = _read_text(bytes_of_text(path), "\t" if "tsv" in suffix else ",", labels, classes or {})
    except MemoryError:
        raise
    except Exception as error:  # whatever the readers stumble over: overflows, unknown types of columns
        said = " ".join(str(error).split())[:LONGEST_REASON].rstrip(".")
        raise ValueError(f"{str(path)!r} cannot be read as a {suffix} table: {said}.") from error
    if table.empty:
        raise ValueError(f"{str(path)!r} holds no rows; a header line and at least one row are needed.")
    return table.reset_index(drop=True)


def _read_text(
    data: bytes, separator: str, labels: Sequence[str], classes: Mapping[str, Sequence[Any] | None]
) -> pd.DataFrame:
    header = first_row(data, separator)
    if other := other_separator(header, separator):
        raise ValueError(f"its only column is {header[0]!r}, which seems to be separated by {other}")
    _refuse_twice([name for name in header if name])
    form: Any = {"sep": separator, "index_col": False, "encoding": "utf-8-sig"}
    form["skip_blank_lines"] = len(header) > 1  # in a single column they are rows without a value
    table = pd.read_csv(io.BytesIO(data), low_memory=False, **EXACT, **form)
    form |= {"dtype": str, "keep_default_na": False}
    texts = pd.read_csv(io.BytesIO(data), usecols=lambda name: name in labels, **form).astype(object)
    table = table.astype(dict.fromkeys(table.select_dtypes(["object", "string"]), object))  # text of any kind
    # What follows a separator at the end of every line.
    table = table.drop(columns=[name for name in unnamed_columns(table) if table[name].isna().all()])
    if all(map(pd.api.types.is_object_dtype, table.dtypes)):
        again = np.flatnonzero((table == list(table)).all(axis=1))
        if len(again):
            raise ValueError(
                f"row {again[0] + 1} below the header repeats it, as in files that were joined. Remove it"
            )
    return table.assign(**{name: as_labels(texts[name], table[name], classes.get(name)) for name in texts})


def as_labels(texts: pd.Series, values: pd.Series, classes: Sequence[Any] | None = None) -> pd.Series:
    """Return labels as numbers where these are written as the labels are, and as text otherwise.

    Quantities are numbers: those that are not whole, and more than `MOST_CLASSES` different ones. Zeros in front are
    of no quantity. Empty fields are missing; words such as NA mean that only among numbers.

    Parameters
    ----------
    texts : Series of str
        As they are written.
    values : Series
        What pandas makes of them.
    classes : sequence of str or float, default=None
        The labels that are known, of which these are.

    Examples
    --------
    >>> for texts in (["2", "10"], ["2", "02"], ["1.50", "2.25"], ["1.0", "1"], ["mild", "None"]):
    ...     values = pd.read_csv(io.StringIO("|".join(["x", *texts])), lineterminator="|")["x"]
    ...     print(as_labels(pd.Series(texts, dtype=object), values).to_list())
    [2, 10]
    ['2', '02']
    [1.5, 2.25]
    ['1.0', '1']
    ['mild', 'None']
    """
    is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
    if not is_number or any(isinstance(label, str) for label in classes or ()):
        return texts.where(texts != "", None)
    if classes is not None:
        return values
    known = values.dropna().unique()
    different = texts[values.notna()].unique().tolist()
    padded = any(map(PADDED.fullmatch, different))
    few = len(known) <= MOST_CLASSES and bool(np.all(known == np.round(known)))
    return (
        texts.where(values.notna(), None) if padded or (few and not _are_written_alike(different)) else values
    )


def _are_written_alike(texts: Sequence[str]) -> bool:
    """Return whether whole numbers are all written as 1 is, or all as 1.0 is."""
    whole = all(re.fullmatch("0|-?[1-9][0-9]*", text) for text in texts)
    return whole or all(text == repr(float(text)) for text in texts)


def _refuse_twice(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"columns must have different names; more than one is called {named(twice)}")


def unnamed_columns(names: Iterable[str]) -> list[str]:
    """Return the columns that a file has no name for, most of them row numbers that were saved with it."""
    return [name for name in names if not name.strip() or UNNAMED.fullmatch(name)]


def named(names: Sequence[str]) -> str:
    """List names in quotes, the first few of many."""
    return listed([repr(name) for name in names])


def listed(items: Sequence[str]) -> str:
    """List items, the first few of many."""
    shown = ", ".join(items[:LONGEST_LIST])
    return shown if len(items) <= LONGEST_LIST else f"{shown} and {len(items) - LONGEST_LIST} more"
