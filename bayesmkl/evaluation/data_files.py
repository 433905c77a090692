"""Arrays and tables in a folder, for other processes: types and values as they are, and no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesmkl._utils.extras import require
from bayesmkl._utils.files import load_array

__all__ = ["read_values", "write_values"]

PARTS = "parts.json"
MASKED = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)
PLAIN = {str, int, float, bool, type(None)}  # JSON holds these exactly


def write_values(values: Mapping[str, Any], folder: Path) -> None:
    """Write arrays, tables, lists, text and numbers to a folder that is there; `read_values` reads them.

    Raises
    ------
    TypeError
        For objects of other types, by name.
    OSError
        If there is no room.
    """
    writer = _Writer(folder)
    parts = {name: writer.put(name, value) for name, value in values.items()}
    (folder / PARTS).write_text(json.dumps(parts), encoding="utf-8")


def read_values(folder: Path) -> dict[str, Any]:
    """Read what `write_values` wrote; arrays that stand alone stay on disk, where processes share them."""
    parts = json.loads((folder / PARTS).read_text(encoding="utf-8"))
    return {name: _read(part, folder, mapped=True) for name, part in parts.items()}


class _Writer:
    """Counter of the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.n_files = folder, 0

    def file(self, ending: str) -> Path:
        self.n_files += 1
        return self.folder / f"{self.n_files}.{ending}"

    def put(self, where: str, value: object) -> Any:
        """Return the JSON form of a value, with its numbers in files."""
        if type(value) in PLAIN:
            return value
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            return {"scalar": self._array(np.asarray(value))}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.put(where, item) for item in value]}
        if isinstance(value, pd.DataFrame):
            return self._table(where, value)
        if type(value) is np.ndarray and not value.dtype.hasobject:
            return {"array": self._array(value)}
        if type(value) is np.ndarray and value.dtype == object:
            return {"objects": self._objects(where, value.ravel().tolist()), "shape": value.shape}
        raise TypeError(
            f"`{where}` holds {type(value).__name__}, which no other process can be handed. Use `n_jobs=1`, or give "
            "numbers, text and categories."
        )

    def _array(self, array: np.ndarray) -> str:
        file = self.file("npy")
        np.save(file, array, allow_pickle=False)
        return file.name

    def _objects(self, where: str, values: list[Any]) -> Any:
        kinds = set(map(type, values))
        if len(kinds) == 1 and issubclass(type(values[0]), np.generic):
            return {"array": self._array(np.array(values))}
        return values if kinds <= PLAIN else [self.put(where, value) for value in values]

    def _table(self, where: str, table: pd.DataFrame) -> dict[str, Any]:
        kinds = set(table.dtypes)
        if len(kinds) == 1 and isinstance(kind := next(iter(kinds)), np.dtype) and not kind.hasobject:
            columns: Any = {"array": self._array(table.to_numpy())}
        else:
            columns = [self._column(where, table.iloc[:, j]) for j in range(table.shape[1])]
        labels = [self._labels(where, labels) for labels in (table.index, table.columns)]
        return {"table": columns, "index": labels[0], "columns": labels[1]}

    def _labels(self, where: str, labels: pd.Index) -> dict[str, Any]:
        names = [self.put(where, name) for name in labels.names]
        if isinstance(labels, pd.RangeIndex):
            return {"range": [labels.start, labels.stop, labels.step], "names": names}
        levels = [labels.get_level_values(k) for k in range(labels.nlevels)]
        parts = [self._column(where, level) for level in levels]
        return {"levels": parts, "names": names, "multi": isinstance(labels, pd.MultiIndex)}

    def _column(self, where: str, column: pd.Series | pd.Index) -> Any:
        if isinstance(column.dtype, np.dtype):
            return self.put(where, np.asarray(column))
        kind = column.dtype
        if isinstance(kind, pd.StringDtype):
            values = np.asarray(column.array, dtype=object)
            return {"text": [None if pd.isna(value) else value for value in values], "of": _form_of(kind)}
        if isinstance(kind, pd.CategoricalDtype):
            categories = self._labels(where, kind.categories)
            return {
                "codes": self._array(np.asarray(column.array.codes)),
                "categories": categories,
                "ordered": bool(kind.ordered),
            }
        if isinstance(column.array, MASKED):
            mask = np.asarray(column.array.isna())
            held: Any = column.array
            values = held.to_numpy(dtype=held.dtype.numpy_dtype, na_value=False)
            place = [type(column.array) is masked for masked in MASKED].index(True)
            return {"masked": self._array(values), "mask": self._array(mask), "place": place}
        require(
            "pyarrow.parquet", "pyarrow", f"`{where}` with a column of {kind} and `n_jobs` above 1", "parquet"
        )
        file = self.file("parquet")
        pd.DataFrame({"column": column.array}).to_parquet(file)
        return {"column": file.name}


def _read(part: object, folder: Path, mapped: bool = False) -> Any:
    if not isinstance(part, dict):
        return part
    match part:
        case {"array": name}:
            return np.asarray(load_array(folder / name, mmap_mode="r" if mapped else None))
        case {"scalar": name}:
            return load_array(folder / name)[()]
        case {"list": items}:
            return [_read(item, folder) for item in items]
        case {"tuple": items}:
            return tuple(_read(item, folder) for item in items)
        case {"objects": values, "shape": shape}:
            held = _read(values, folder)
            return _of_objects(
                held if isinstance(held, np.ndarray) else [_read(v, folder) for v in held], shape
            )
        case {"text": values, "of": (storage, missing)}:
            return pd.array(values, dtype=pd.StringDtype(storage, na_value=np.nan if missing else pd.NA))
        case {"masked": values, "mask": mask, "place": place}:
            return MASKED[place](np.array(load_array(folder / values)), np.array(load_array(folder / mask)))
        case {"codes": codes, "categories": categories, "ordered": ordered}:
            kind = pd.CategoricalDtype(_read_labels(categories, folder), ordered)
            return pd.Categorical.from_codes(np.asarray(load_array(folder / codes)), dtype=kind)
        case {"column": name}:
            return pd.read_parquet(folder / name)["column"].array
    table = part["table"]
    index, columns = (_read_labels(part[axis], folder) for axis in ("index", "columns"))
    if isinstance(table, dict):
        return pd.DataFrame(_read(table, folder), index, columns, copy=False)
    read = pd.DataFrame({j: _read(column, folder) for j, column in enumerate(table)}, index)
    read.columns = columns
    return read


def _form_of(kind: pd.StringDtype) -> tuple[str, bool]:
    """Return where pandas keeps text, and whether a missing one is NaN."""
    return kind.storage, kind.na_value is not pd.NA


def _of_objects(values: np.ndarray | Sequence[object], shape: list[int]) -> np.ndarray:
    """Return an array of objects as they are, also where these are lists or arrays."""
    found = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        found[k] = value
    return found.reshape(shape)


def _read_labels(part: dict[str, Any], folder: Path) -> pd.Index:
    names = [_read(name, folder) for name in part["names"]]
    if "range" in part:
        start, stop, step = part["range"]
        return pd.RangeIndex(start, stop, step, name=names[0])
    levels = [_read(level, folder) for level in part["levels"]]
    if part["multi"]:
        return pd.MultiIndex.from_arrays(levels, names=names)
    level = levels[0]
    kind = object if isinstance(level, np.ndarray) and level.dtype == object else None
    return pd.Index(level, dtype=kind, name=names[0])
