"""Cells by content: one file of facts and scores under the hash of all that decides them, and one of predictions."""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.files import READING_ARRAYS, check_layout, read_json, written_beside

__all__ = [
    "CELLS",
    "COUNTS",
    "TEXTS",
    "Cell",
    "CellStore",
    "Kept",
    "MemoryStore",
    "NotKeptError",
    "is_key",
    "is_row",
]

CELLS = "cells"  # folder in that of a comparison
FORMAT, VERSION = "bayesmkl-cell", 1
BEGUN = ".begun"  # end of the names of marks beside the files of cells
PARTS = ("row", "scores", "environment", "predictions")
NEEDED, ABOUT = {"rows", "y", "predict"}, {"offers", "task", "ranks", "objects"}  # of predictions
MOST_IN_MEMORY = 2**30  # bytes of the predictions of all cells without a folder
TOO_MANY = "the predictions of all cells are too many for the memory."
LARGEST = 2**32  # bytes that the predictions of a cell may say they take
COUNTS = ("split", "n_samples", "n_train", "n_test", "seed")
TEXTS = ("dataset", "model", "kernel_shares", "best_params", "error", "note")


class NotKeptError(ValueError):
    """Something was asked of a cell that it does not keep."""


class Kept(NamedTuple):
    """Predictions of the test rows of a cell.

    Parameters
    ----------
    arrays : dict of str to ndarray
        By name; without objects.
    about : dict
        Plain values: what the model ``offers``, its ``task``, whether its decision function ``ranks`` classes, and
        which arrays were of ``objects``.
    """

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]


class Cell(NamedTuple):
    """A finished cell.

    Parameters
    ----------
    key : str
        Hash of all that decides it.
    row : dict
        Facts and costs by name, see `Comparison.cells`; the names of data set and model are those of the study that
        computed it.
    scores : dict of str to float
        By the hash of the metric.
    environment : dict of str to str
        Versions and system of the process that computed it.
    kept : Kept or None
        Predictions; of a cell that was read, the store has them.
    predictions : dict
        What the store says of them: ``digest`` and ``bytes`` of their file, or why they are ``left_out``.
    """

    key: str
    row: dict[str, Any]
    scores: dict[str, float]
    environment: dict[str, str]
    kept: Kept | None = None
    predictions: Mapping[str, Any] = MappingProxyType({})

    @property
    def failed(self) -> bool:
        """Whether the model failed."""
        return bool(self.row.get("error"))

    def has(self, scorers: Mapping[str, str]) -> bool:
        """Return whether all scores are there; a model that failed has none."""
        return self.failed or set(scorers.values()) <= set(self.scores)

    def named(self, dataset: str, model: str, split: int, scorers: Mapping[str, str]) -> dict[str, Any]:
        """Return the row of a comparison in which the cell has these names."""
        scores = {name: self.scores.get(digest, math.nan) for name, digest in scorers.items()}
        names = {"dataset": dataset, "model": model, "split": split}
        return self.row | names | {"key": self.key, "environment": self.environment} | scores


class CellStore:
    """Finished cells in a folder, each whole or not there.

    Parameters
    ----------
    folder : Path
        Of a comparison; exists already.

    Attributes
    ----------
    damaged : dict of str to str
        By key, what was found to be wrong so far.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / CELLS
        self.damaged: dict[str, str] = {}

    def read(self, key: str) -> Cell | None:
        """Return a finished cell; None where it is absent, or not what was written.

        Raises
        ------
        ValueError
            If a newer version of this package has written it.
        """
        path = self.path(key)
        try:
            found = read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.damaged[key] = str(error)
            return None
        if isinstance(found, dict) and found.get("format") == FORMAT:
            check_layout(found.get("version"), VERSION, repr(str(path)))
        try:
            return _cell_in(found, key)
        except NotKeptError as error:
            self.damaged[key] = str(error)
            return None

    def is_intact(self, cell: Cell) -> bool:
        """Return whether the predictions of a cell, if their file is there, are what was written."""
        path = self.path(cell.key, ".npz")
        if "digest" not in cell.predictions or not path.is_file():  # left out, where a folder is shared
            return True
        if _digest(path.read_bytes()) != cell.predictions["digest"]:
            self.damaged[cell.key] = "its predictions are not what was written"
            return False
        return True

    def _has_intact(self, cell: Cell) -> bool:
        """Return whether the predictions of a cell are there as they were written."""
        there = "digest" in cell.predictions and self.path(cell.key, ".npz").is_file()
        return there and self.is_intact(cell)

    def write(self, cell: Cell) -> Cell:
        """Keep a cell; what is there already stays, and gets scores and predictions that it does not have.

        In the place of one that failed comes the new one.
        """
        there = self.read(cell.key)
        self._make_folder()
        if there is not None and not there.failed:
            scores = cell.scores | there.scores
            lacks = cell.kept is not None and not self._has_intact(there)
            if set(scores) == set(there.scores) and not lacks:
                return there
            note = there.row["note"] or cell.row.get("note", "")
            merged = there.row | {"note": note}
            cell = cell._replace(row=merged, scores=scores, environment=there.environment)
            if "digest" in there.predictions and not lacks:
                cell = cell._replace(kept=None, predictions=there.predictions)
        if cell.kept is not None:
            content = _packed(cell.kept.arrays)
            with written_beside(self.path(cell.key, ".npz")) as beside:
                beside.write_bytes(content)
            about = cell.kept.about | {"digest": _digest(content), "bytes": len(content)}
            cell = cell._replace(kept=None, predictions=about)
        content_of = {"format": FORMAT, "version": VERSION, **cell._asdict()}
        content_of["predictions"] = dict(cell.predictions)
        del content_of["kept"]
        with written_beside(self.path(cell.key)) as beside:
            beside.write_text(json.dumps({**content_of, "checksum": _checksum(content_of)}), encoding="utf-8")
        self.damaged.pop(cell.key, None)
        return cell

    def kept(self, cell: Cell) -> Kept:
        """Return the predictions of a cell.

        Raises
        ------
        NotKeptError
            If it keeps none, or their file is gone or is not what was written.
        """
        if cell.kept is not None:
            return cell.kept
        if "digest" not in cell.predictions:
            raise NotKeptError(cell.predictions.get("left_out", "it keeps no predictions"))
        path = self.path(cell.key, ".npz")
        try:
            content = path.read_bytes() if path.is_file() else None
        except OSError as error:
            raise NotKeptError(f"{str(path)!r} cannot be read: {error}") from error
        if content is None:
            raise NotKeptError(f"{str(path)!r} is gone")
        if _digest(content) != cell.predictions["digest"]:
            self.damaged[cell.key] = "its predictions are not what was written"
            raise NotKeptError(f"{str(path)!r} is not what was written")
        kept = Kept(_unpacked(content, path), dict(cell.predictions))
        if not (NEEDED.issubset(kept.arrays) and ABOUT.issubset(kept.about)):
            raise NotKeptError(f"{str(path)!r} holds no predictions")
        return kept

    @contextmanager
    def begun(self, key: str) -> Iterator[None]:
        """Mark a cell as begun; the mark stays only if the process dies inside."""
        path = self.path(key, BEGUN)
        self._make_folder()
        path.touch()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def was_begun(self, key: str) -> bool:
        """Return whether a cell was begun by a process that has died of it, or with it."""
        return self.path(key, BEGUN).exists() and self.read(key) is None

    def tidy(self) -> None:
        """Remove the marks of cells that are finished."""
        for path in self.folder.glob(f"*{BEGUN}"):
            if path.with_suffix(".json").exists():
                path.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except FileExistsError as error:
            raise ValueError(
                f"{str(self.folder)!r} must be a folder, that of the cells of a comparison; it is a file. Remove it."
            ) from error

    def path(self, key: str, ending: str = ".json") -> Path:
        """Return the file of a cell."""
        if not is_key(key):
            raise ValueError(f"{key[:80]!r} is no key of a cell.")
        return self.folder / f"{key}{ending}"


def _cell_in(found: Any, key: str) -> Cell:
    """Return the cell that a file describes; raise NotKeptError for what is none, or was changed."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise NotKeptError("it is no cell")
    if found.pop("checksum", None) != _checksum(found):
        raise NotKeptError("it is not what was written")
    parts: list[Any] = [found.get(name) for name in PARTS]
    row, scores, environment, predictions = parts
    if found.get("key") != key or not all(isinstance(part, dict) for part in parts):
        raise NotKeptError("it is another cell")
    if not is_row(row) or not all(isinstance(value, int | float) for value in scores.values()):
        raise NotKeptError("its values are of other kinds")
    return Cell(key, row, scores, environment, None, predictions)


class MemoryStore:
    """Finished cells of a comparison without a folder; predictions beyond a GiB in all are not kept."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self.cells: dict[str, Cell] = {}
        self.damaged: dict[str, str] = {}

    def read(self, key: str) -> Cell | None:
        """Return a finished cell, or None."""
        return self.cells.get(key)

    def is_intact(self, cell: Cell) -> bool:
        """Return True: nobody edits what is in memory."""
        return True

    def write(self, cell: Cell) -> Cell:
        """Keep a cell."""
        arrays = {} if cell.kept is None else cell.kept.arrays
        self.n_bytes += sum(array.nbytes for array in arrays.values())
        if arrays and self.n_bytes > MOST_IN_MEMORY:
            cell = cell._replace(kept=None, predictions={"left_out": f"{TOO_MANY} Give a `folder`"})
        self.cells[cell.key] = cell
        return cell

    def kept(self, cell: Cell) -> Kept:
        """Return the predictions of a cell; raise NotKeptError if it keeps none."""
        if cell.kept is None:
            raise NotKeptError(cell.predictions.get("left_out", "it keeps no predictions"))
        return cell.kept


def is_key(text: str) -> bool:
    """Return whether a text can be a key, which is the name of a file."""
    return text.isascii() and text.replace("-", "").isalnum()


def is_row(row: dict[str, Any]) -> bool:
    """Return whether everything in the row of a cell is of its kind."""
    if not all(type(row.get(name)) is str for name in ("dataset", "model")):
        return False
    if not all(type(row.get(name)) is int for name in COUNTS):
        return False
    return all(
        value is None or isinstance(value, str if name in TEXTS else (int, float))
        for name, value in row.items()
    )


def _checksum(content: dict[str, Any]) -> str:
    """Return the hash of a description without its checksum, however it is written."""
    return _digest(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    # `savez_compressed` of NumPy 2.1 cannot be kept from writing pickles
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _unpacked(content: bytes, path: Path) -> dict[str, np.ndarray]:
    with suppress(ValueError, KeyError, zipfile.BadZipFile, OSError), READING_ARRAYS:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size <= LARGEST:
            with np.load(io.BytesIO(content), allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
    raise NotKeptError(f"{str(path)!r} holds no predictions")
