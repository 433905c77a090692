"""Tables in files: CSV, TSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import pandas as pd

__all__ = ["LONGEST_LIST", "column_hint", "listed", "named", "read_table", "table_suffix"]

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
LONGEST_LIST = 8  # names shown in a message
LONGEST_REASON = 300  # characters of what a reader says


def table_suffix(path: Path) -> str:
    """Return which kind of table the name of `path` stands for."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise ValueError(f"{str(path)!r} must be the name of a table, ending in {', '.join(SUFFIXES)}.")


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV, TSV or Parquet file; column names become strings."""
    suffix = table_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        if suffix == ".parquet":
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(path, sep="\t" if "tsv" in suffix else ",")
    except MemoryError:
        raise
    except Exception as error:  # whatever the readers stumble over: overflows, unknown types of columns
        said = " ".join(str(error).split())[:LONGEST_REASON]
        raise ValueError(f"{str(path)!r} cannot be read as a {suffix} table: {said}") from error
    table.columns = [str(column) for column in table.columns]
    if table.empty:
        raise ValueError(f"{str(path)!r} holds no rows; a header line and at least one row are needed.")
    return table.reset_index(drop=True)


def column_hint(column: str, table: pd.DataFrame) -> str:
    """Say which columns of the table could be meant by a name that is none of them."""
    close = get_close_matches(column, table.columns, n=3)
    return f"did you mean {named(close)}?" if close else f"its columns are {named(list(table.columns))}."


def named(names: Sequence[str]) -> str:
    """List names in quotes, the first few of many."""
    return listed([repr(name) for name in names])


def listed(items: Sequence[str]) -> str:
    """List items, the first few of many."""
    shown = ", ".join(items[:LONGEST_LIST])
    return shown if len(items) <= LONGEST_LIST else f"{shown} and {len(items) - LONGEST_LIST} more"
