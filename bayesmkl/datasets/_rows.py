"""Tables of numbers that need not fit into memory, read in blocks of rows.

An estimator whose bank has landmarks takes such a table as `X`, in `fit` and in `predict`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.extras import require
from bayesmkl._utils.files import as_path, load_array
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.tables import PARQUET
from bayesmkl._utils.typing import Index
from bayesmkl._utils.validation import check_integer, generator_of, shown

if TYPE_CHECKING:
    import os

    import pyarrow as pa


BLOCK_ROWS = 2**14  # rows that are read at once by default
COPIES = 2  # of a row group while it is read: Arrow's and the array
SMALLER = "Write the file with smaller row groups, `to_parquet(path, row_group_size=100_000)`."
TEXT = (".csv", ".tsv", ".txt", ".gz", ".json", ".jsonl")


def open_rows(
    path: str | os.PathLike[str] | np.ndarray, columns: Sequence[Any] | str | int | None = None
) -> RowSource:
    """Open a table of numbers without reading it.

    Parameters
    ----------
    path : path or ndarray of shape (n_rows, n_columns)
        A Parquet file (.parquet), which is read one row group at a time; a folder of such files with the same
        columns, which are read in the order of their names; an array on disk (.npy), which is memory-mapped; or an
        array, such as your own `numpy.memmap`.
    columns : sequence of str or int, default=None
        Columns to read, in this order: names in Parquet files, positions in an array. None: all.

    Returns
    -------
    rows : RowSource
        It has `shape`, ``len(rows)`` and the names in `columns`. ``rows[first:last]`` is an array,
        ``rows.blocks(size)`` goes through all rows, and ``rows.map(function)`` transforms every block when it is
        read.

    Raises
    ------
    ValueError
        If the file is a text file, columns are missing or do not hold numbers, or a file in a folder has other
        columns or types than the first one.
    FileNotFoundError
        If there is no such file, or the folder has no file that ends in .parquet.
    TypeError
        If `path` is neither a path nor an array.
    ImportError
        For a Parquet file without pyarrow, which is part of ``bayesmkl[parquet]``.

    Notes
    -----
    All numbers are float64. Missing numbers are NaN; estimators raise an error that names their row. A row group is
    the smallest part of a Parquet file that can be read, so write row groups of about 100 000 rows
    (``table.to_parquet(path, row_group_size=100_000)``). If the labels are a column of the files, read them in the
    same order by ``open_rows(folder, columns="label")[:].ravel()``. File names are sorted as text: part-2 comes after
    part-10.

    A fit reads the rows many times. Do not change the files while it runs.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from bayesmkl.datasets import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/table.npy", np.arange(12.0).reshape(6, 2))
    ...     rows = open_rows(f"{folder}/table.npy")
    ...     rows.shape, rows[1:3].tolist(), [len(block) for block in rows.blocks(4)]
    ((6, 2), [[2.0, 3.0], [4.0, 5.0]], [4, 2])
    """
    wanted = [columns] if isinstance(columns, (str, int)) else columns
    if wanted is not None and (not isinstance(wanted, Sequence | np.ndarray) or len(wanted) == 0):
        raise ValueError(
            f"`columns` must be different columns, by name or position, or None; got {shown(columns)}."
        )
    if isinstance(path, np.ndarray):
        return _ArrayRows(path, wanted, f"an array of shape {path.shape}")
    file = as_path("path", path)
    if file.is_dir():
        files = sorted(one for one in file.iterdir() if one.suffix.lower() == ".parquet" and one.is_file())
        if not files:
            raise FileNotFoundError(
                f"`path`: there is no file that ends in .parquet in the folder {str(file)!r}."
            )
        return _ParquetRows(files, wanted, f"the {len(files)} files of {file.name!r}")
    suffix = file.suffix.lower()
    if suffix in TEXT:
        raise ValueError(
            f"`path` must be a .parquet or .npy file; got {file.name!r}. Text files cannot be read in blocks. "
            "Convert it once, as by pandas.read_csv(path, index_col=False).to_parquet(new_path) if memory allows."
        )
    if suffix not in (".parquet", ".npy"):
        raise ValueError(f"`path` must be a .parquet or .npy file, or an array; got {file.name!r}.")
    if not file.is_file():
        raise FileNotFoundError(f"`path`: there is no file {str(file)!r}.")
    if suffix == ".parquet":
        return _ParquetRows([file], wanted, repr(file.name))
    try:
        return _ArrayRows(load_array(file, mmap_mode="r"), wanted, repr(file.name))
    except ValueError as error:
        raise ValueError(f"`path`: {file.name!r} is not an array of numbers: {error}") from error


class RowSource(ABC):
    """Table of numbers whose rows are read when they are needed; create it with `open_rows`.

    Parameters
    ----------
    shape : tuple of int
        Number of rows and of columns.
    columns : list of str or None
        Names of the columns, where there are names.
    origin : str
        Description of the source of the rows, for messages.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of columns.
    columns : list of str or None
        Names of the columns, where there are names.
    ndim : int
        2.
    dtype : numpy.dtype
        Type of the numbers, float64.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.datasets import open_rows
    >>> rows = open_rows(np.arange(12.0).reshape(6, 2), columns=[1])
    >>> rows
    <6 rows of 1 columns of an array of shape (6, 2)>
    >>> rows.map(np.sqrt)[-2:]
    array([[3.        ],
           [3.31662479]])
    """

    ndim = 2
    dtype = np.dtype(np.float64)
    is_row_source = True  # by which estimators know it

    def __init__(self, shape: tuple[int, int], columns: list[str] | None, origin: str) -> None:
        self.shape, self.columns, self.origin = shape, columns, origin

    @abstractmethod
    def read(self, first: int, last: int) -> np.ndarray:
        """Return some rows as an array.

        Parameters
        ----------
        first : int
            Position of the first row.
        last : int
            Position after the last row.

        Returns
        -------
        ndarray of shape (last - first, n_columns)
            In float64 and C order.
        """

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self.shape[0]} rows of {self.shape[1]} columns of {self.origin}>"

    def __getitem__(self, index: Index) -> np.ndarray:
        """Return rows as an array: of a slice, of positions, or of a boolean mask."""
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step == 1:
                return self.read(first, max(first, last))
            return self._gather(np.arange(first, last, step))
        positions = np.asarray(index)
        if positions.dtype == bool and positions.shape == (len(self),):
            return self._gather(np.flatnonzero(positions))
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise TypeError(
                "rows are taken by a slice, by a list of positions or by a boolean mask with an entry per row; got "
                f"{index!r}. Columns are chosen when the table is opened, `open_rows(path, columns=...)`."
            )
        return self._gather(np.where(positions < 0, positions + len(self), positions))

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            f"`X` is a table that is read in blocks, {self!r}. BEMKL estimators with landmarks accept it as it is; "
            "for other uses, `rows[:]` reads all of it into memory, and `rows.map(function)` transforms its blocks."
        )

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[np.ndarray]:
        """Yield all rows in order, `size` of them at a time.

        Parameters
        ----------
        size : int, default=16384
            Maximum number of rows of a block.

        Yields
        ------
        ndarray of shape (n_rows, n_columns)
            The next rows.

        Raises
        ------
        ValueError
            If `size` is not a whole number of at least 1.
        """
        size = check_integer("size", size, low=1)
        for first in range(0, len(self), size):
            yield self.read(first, min(first + size, len(self)))

    def sample(self, n_rows: int, random_state: int = 0) -> np.ndarray:
        """Return distinct random rows, in the order of the table.

        Parameters
        ----------
        n_rows : int
            Number of rows to draw, at most all.
        random_state : int, default=0
            Seed of the draw, or a generator.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            The rows.

        Raises
        ------
        ValueError
            If `n_rows` is not a whole number from 1 to the number of rows, or `random_state` no seed.
        """
        if not 1 <= check_integer("n_rows", n_rows, low=1) <= len(self):
            raise ValueError(f"`n_rows` must be at most the number of rows, {len(self)}; got {n_rows}.")
        drawn = generator_of("random_state", random_state).choice(len(self), n_rows, replace=False)
        return self._gather(np.sort(drawn))

    def map(self, function: Callable[[np.ndarray], Any]) -> RowSource:
        """Return the same rows, transformed by `function` whenever a block of them is read.

        Parameters
        ----------
        function : callable
            Function that maps an array (n_rows, n_columns) to one with the same number of rows. Each row of the
            result must only depend on its own row. An example is the `transform` of a scaler that was fitted to all
            blocks by `partial_fit`.

        Returns
        -------
        RowSource
            The transformed rows. It keeps the names of the columns if their number stays the same.

        Raises
        ------
        TypeError
            If `function` is not callable.
        ValueError
            If it does not give an array of numbers with as many rows as it gets.
        """
        if not callable(function):
            raise TypeError(f"`function` must be a function of an array of rows; got {shown(function)}.")
        return _MappedRows(self, function)

    def _gather(self, positions: np.ndarray) -> np.ndarray:
        """Read rows at positions in any order, block by block."""
        if len(positions) and (positions.min() < 0 or positions.max() >= len(self)):
            raise IndexError(f"positions must be from 0 to {len(self) - 1}; got {positions}.")
        order = np.argsort(positions, kind="stable")
        found, done = np.empty((len(positions), self.shape[1])), 0
        while done < len(order):
            first = int(positions[order[done]]) // BLOCK_ROWS * BLOCK_ROWS
            last = min(first + BLOCK_ROWS, len(self))
            here = order[done : done + int(np.searchsorted(positions[order[done:]], last))]
            found[here] = self.read(first, last)[positions[here] - first]
            done += len(here)
        return found


class _ArrayRows(RowSource):
    """Rows of an array, mostly of one that is on disk."""

    def __init__(self, values: np.ndarray, columns: Sequence[Any] | None, origin: str) -> None:
        if values.ndim != 2 or values.dtype.kind not in "biuf":
            raise ValueError(
                "`path` must hold numbers in two dimensions, rows and columns; got "
                f"shape {values.shape} of {values.dtype} in {origin}."
            )
        every = range(values.shape[1])
        for column in () if columns is None else columns:
            if isinstance(column, bool) or column not in every:
                raise ValueError(
                    f"`columns` of an array must be positions from 0 to {len(every) - 1}; got {column!r}."
                )
        self._values, self._columns = values, slice(None) if columns is None else np.array(columns, np.intp)
        super().__init__((len(values), len(every if columns is None else columns)), None, origin)

    def read(self, first: int, last: int) -> np.ndarray:
        return np.array(self._values[first:last][:, self._columns], dtype=np.float64, order="C")


class _ParquetRows(RowSource):
    """Rows of Parquet files, one after another; the last row group that was read is kept."""

    def __init__(self, files: Sequence[Path], columns: Sequence[Any] | None, origin: str) -> None:
        parquet = require(*PARQUET)
        self._groups: list[tuple[Path, int]] = []  # in the order of their rows
        sizes: list[int] = []
        known: dict[str, Any] = {}  # types of the columns of the first file
        for file in files:
            try:
                with parquet.ParquetFile(file) as opened:
                    metadata, schema = opened.metadata, opened.schema_arrow
            except Exception as error:  # whatever Arrow stumbles over
                raise ValueError(
                    f"`path`: {file.name!r} is not a readable Parquet file: {str(error)[:200]}"
                ) from error
            names = _numeric_columns(schema, columns, file.name)
            types = {name: schema.field(name).type for name in names}
            if types != (known := known or types):
                raise ValueError(
                    f"`path`: {file.name!r} must have the columns and types of {files[0].name!r}; got "
                    f"{shown(_differing(types, known))} for {shown(_differing(known, types))}. Write all files "
                    "alike, or choose columns that they share, `open_rows(folder, columns=[...])`."
                )
            self._groups += [(file, group) for group in range(metadata.num_row_groups)]
            sizes += [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._sizes = np.array(sizes, dtype=np.intp)
        self._ends = np.cumsum(self._sizes)
        self._kept: tuple[int, np.ndarray] = (-1, np.empty((0, len(known))))
        super().__init__((sum(sizes), len(known)), list(known), origin)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_kept": (-1, np.empty((0, self.shape[1])))}

    def read(self, first: int, last: int) -> np.ndarray:
        parts, group = [], int(np.searchsorted(self._ends, first, side="right"))
        while first < last:
            values, start = self._group(group), self._ends[group] - self._sizes[group]
            parts.append(values[first - start : last - start])
            first, group = int(self._ends[group]), group + 1
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]))

    def _group(self, group: int) -> np.ndarray:
        if self._kept[0] == group:
            return self._kept[1]
        self._kept = (-1, np.empty((0, self.shape[1])))  # before the next one comes
        (file, own), shape = self._groups[group], (int(self._sizes[group]), self.shape[1])
        what = f"row group {own} of {file.name!r}, {shape[0]} rows of {shape[1]} columns,"
        require_memory(COPIES * 8 * shape[0] * shape[1], what, SMALLER)
        with require(*PARQUET).ParquetFile(file) as opened:
            table = opened.read_row_group(own, columns=self.columns, use_threads=False)
        if table.num_rows != shape[0]:
            raise ValueError(
                f"`path`: {file.name!r} has changed since it was opened. Open the table again, once it "
                "stays as it is."
            )
        values = np.empty(shape)
        for j, name in enumerate(self.columns or []):
            values[:, j] = table.column(name).cast("float64", safe=False).to_numpy()
        self._kept = (group, values)
        return values


def _differing(types: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {kind}" for name, kind in types.items() if others.get(name) != kind]


def _numeric_columns(schema: pa.Schema, columns: Sequence[Any] | None, file: str) -> list[str]:
    """Return the names of the columns that are wanted, all of which hold numbers."""
    from pyarrow import types

    there = [name for name in schema.names if not name.startswith("__index_level_")]  # of pandas
    names = there if columns is None else [str(name) for name in columns]
    missing = [name for name in names if name not in there]
    if missing or not names or len(set(names)) < len(names):
        raise ValueError(
            f"`columns` must be different columns of {file!r}, which has {', '.join(map(repr, there[:12]))}"
            f"{', ...' if len(there) > 12 else ''}; got {missing or names}."
        )
    for name in names:
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(
                f"`columns`: {name!r} of {file!r} holds {kind}, not numbers. Leave it out, "
                "`open_rows(path, columns=[...])`, or write it as numbers."
            )
    return names


class _MappedRows(RowSource):
    """Rows that a function changes when they are read."""

    def __init__(self, source: RowSource, function: Callable[[np.ndarray], Any]) -> None:
        self._source, self._function = source, function
        n_columns = self._apply(source.read(0, min(1, len(source)))).shape[1]
        names = source.columns if n_columns == source.shape[1] else None
        super().__init__((len(source), n_columns), names, source.origin)

    def read(self, first: int, last: int) -> np.ndarray:
        return self._apply(self._source.read(first, last))

    def _apply(self, rows: np.ndarray) -> np.ndarray:
        mapped = np.ascontiguousarray(check_numbers("function", self._function(rows)), dtype=np.float64)
        if mapped.ndim != 2 or len(mapped) != len(rows):
            raise ValueError(
                f"`function` must return an array with as many rows as it gets; got {mapped.shape} for {rows.shape}."
            )
        return mapped
