"""Readers of files that the UCI Machine Learning Repository publishes and OpenML does not."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from bayesmkl.datasets._raw import Raw
from bayesmkl.datasets._table import Entry
from bayesmkl.datasets._text import numbers_in, read_text

__all__ = ["READABLE", "read_file", "where_to_get"]

READABLE = ("wpbc", "german_numeric", "australian")


def read_file(entry: Entry, path: str | PathLike) -> Raw:
    """Read one data set from the file that UCI publishes.

    Parameters
    ----------
    entry : Entry
        Its row of the table.
    path : path
        ``wpbc.data`` (comma-separated: id, outcome N or R, time, 32 measurements; ``?`` = missing),
        ``german.data-numeric`` (24 numbers and the class, 1 good or 2 bad) or ``australian.dat`` (14 numbers
        and the class, 0 or 1), both separated by blanks.

    Returns
    -------
    Raw
        Data and target, rows in the order of the file.

    Raises
    ------
    FileNotFoundError
        If ``path`` does not exist.
    ValueError
        If the file does not have that form.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"`path` must be an existing file; got {str(path)!r}. {where_to_get(entry)}")
    try:
        return _wpbc(path) if entry.name == "wpbc" else _blank_separated(entry, path)
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(
            f"`path` must be a file as the UCI repository publishes it; {str(path)!r} is not: {error}. "
            f"{where_to_get(entry)}"
        ) from error


def where_to_get(entry: Entry) -> str:
    """Describe the file and the page to download it from."""
    return (
        f'Download "{entry.uci_page}" from the UCI Machine Learning Repository and call '
        f'fetch("{entry.name}", path=...) with the path of that file.'
    )


def _wpbc(path: Path) -> Raw:
    columns = read_text(path, header=False).columns
    if len(columns) != 35:
        raise ValueError(f"found {len(columns)} comma-separated columns instead of 35")
    outcomes = np.array([outcome.strip() for outcome in columns[1].to_pylist()])
    if not set(outcomes) <= {"N", "R"}:
        raise ValueError(f"found the outcomes {sorted(set(outcomes.tolist()))} instead of N and R")
    data = numbers_in(columns[2:], missing=("?", ""))
    complete = ~np.isnan(data).any(axis=1)
    return Raw(data[complete], np.where(outcomes[complete] == "R", 1, -1))


def _blank_separated(entry: Entry, path: Path) -> Raw:
    table = np.loadtxt(path, ndmin=2)
    if table.shape[1] != entry.n_features + 1:
        raise ValueError(f"found {table.shape[1]} columns instead of {entry.n_features + 1}")
    positive = 1.0  # good credit (german_numeric, else 2), approved (australian, else 0)
    return Raw(table[:, :-1], np.where(table[:, -1] == positive, 1, -1))
