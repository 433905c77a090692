"""Tables in text files: as many fields in every line, and every field as it stands there."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

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
