"""The folder of a comparison: finished cells survive whatever happens to the run."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from bayesmkl._utils.files import check_layout, is_partial, read_json, written_beside
from bayesmkl._utils.folders import held_folder
from bayesmkl.datasets._text import as_object, read_text

__all__ = ["ABOUT", "CELLS", "KEY", "RESULTS", "Journal", "held_run", "read_results", "table_of"]

FORMAT, VERSION = "bayesmkl-comparison", 4
KNOWN_OF_RUNS: dict[str, Any] = {
    "metrics": dict,
    "environment": dict,
    "random_state": int,
    "started": str,
    "seconds": (int, float),
}
ABOUT, RESULTS, CELLS = "about.json", "results.csv", "cells"
BEGUN = ".begun"  # end of the names of marks beside the files of cells
KEY = ("dataset", "model", "split")
COLUMNS = (
    *KEY,
    "n_samples",
    "n_train",
    "n_test",
    "seed",
    "fit_seconds",
    "predict_seconds",
    "kernel_seconds",
    "reused_seconds",
    "kernel_stacks",
    "peak_memory_mb",
    "support_fraction",
    "n_active_kernels",
    "kernel_shares",
    "converged",
    "best_params",
    "error",
    "note",
)
COUNTS = ("split", "n_samples", "n_train", "n_test", "seed")
TEXTS = ("dataset", "model", "kernel_shares", "best_params", "error", "note")
SINCE_4 = ("kernel_shares",)  # columns that earlier layouts do not have


class Journal:
    """Finished cells in a folder, one small file each, whole or not there.

    Parameters
    ----------
    folder : Path
        Exists already.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record(self, row: dict[str, Any]) -> None:
        """Keep a finished cell; one that is there already stays as it is."""
        key = row["dataset"], row["model"], row["split"]
        if self.read_cell(*key) is not None:
            return
        path = self._path(*key)
        path.parent.mkdir(exist_ok=True)
        with written_beside(path) as beside:
            beside.write_text(json.dumps(row), encoding="utf-8")

    def read_cell(self, dataset: str, model: str, split: int) -> dict[str, Any] | None:
        """Return a finished cell, or None."""
        row = _row_in(self._path(dataset, model, split))
        return row if row is not None and tuple(row[k] for k in KEY) == (dataset, model, split) else None

    def read(self) -> list[dict[str, Any]]:
        """Return all finished cells, of this run and of those that it continues."""
        rows: list[dict[Any, Any]] = []
        if (self.folder / RESULTS).exists():
            rows = read_results(self.folder / RESULTS).to_dict("records")
        seen = {tuple(row[k] for k in KEY) for row in rows}
        for path in sorted((self.folder / CELLS).glob("*.json")):
            row = _row_in(path)
            if row is not None and tuple(row[k] for k in KEY) not in seen:
                rows.append(row)
        return rows

    @contextmanager
    def begun(self, dataset: str, model: str, split: int) -> Iterator[None]:
        """Mark a cell as begun; the mark stays only if the process dies inside."""
        path = self._path(dataset, model, split).with_suffix(BEGUN)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def was_begun(self, dataset: str, model: str, split: int) -> bool:
        """Return whether a cell was begun by a process that has died of it, or with it."""
        path = self._path(dataset, model, split)
        return path.with_suffix(BEGUN).exists() and _row_in(path) is None

    def finish(self, cells: pd.DataFrame, about: dict[str, Any]) -> None:
        """Replace the files of single cells by one table, and write what is known about the run."""
        with written_beside(self.folder / RESULTS) as beside:
            # without quotes a carriage return, which messages may hold, would end the line
            returns = any(cells[name].str.contains("\r").any() for name in TEXTS)
            cells.to_csv(beside, index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)
        self.write_about(about)
        shutil.rmtree(self.folder / CELLS, ignore_errors=True)

    def write_about(self, about: dict[str, Any]) -> None:
        """Write what is known about the run."""
        kind = {"format": FORMAT, "version": VERSION}  # also of a run that an earlier version began
        text = json.dumps(kind | about | kind, indent=2, ensure_ascii=False)
        with written_beside(self.folder / ABOUT) as beside:
            beside.write_text(text + "\n", encoding="utf-8")

    def read_about(self) -> dict[str, Any]:
        """Return the description of the run.

        Raises
        ------
        ValueError
            If the folder is not that of a comparison.
        """
        path = self.folder / ABOUT
        try:
            about = read_json(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{str(self.folder)!r} is not the folder of a comparison: {error}.") from error
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"{str(path)!r} is not the {ABOUT} of a comparison.")
        environment = about.get("environment")
        by = environment.get("bayesmkl") if isinstance(environment, dict) else None
        check_layout(about.get("version"), VERSION, repr(str(path)), by)
        wrong = [key for key, kind in KNOWN_OF_RUNS.items() if not isinstance(about.get(key), kind)]
        if wrong:
            raise ValueError(
                f"{str(path)!r} is damaged: its {wrong[0]!r} is {str(about.get(wrong[0]))[:80]!r}."
            )
        return about

    def _path(self, dataset: str, model: str, split: int) -> Path:
        key = hashlib.blake2s(json.dumps([dataset, model, int(split)]).encode()).hexdigest()[:24]
        return self.folder / CELLS / f"{key}.json"


@contextmanager
def held_run(folder: Path) -> Iterator[None]:
    """Keep other runs away from the folder of a comparison, which is made if need be and never left empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the folder of a comparison cannot be {str(folder)!r}, which is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    with held_folder(folder):
        for path in folder.iterdir():
            if is_partial(path):  # of a run that was killed
                path.unlink()
        try:
            yield
        finally:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _row_in(path: Path) -> dict[str, Any] | None:
    """Read the file of a cell; one that is absent, or damaged by whatever, holds none."""
    with suppress(OSError, ValueError):
        row = read_json(path)
        if isinstance(row, dict) and _is_row(row):
            return row
    return None


def _is_row(row: dict[str, Any]) -> bool:
    """Return whether everything in the row of a cell is of its kind."""
    if not all(type(row.get(name)) is str for name in ("dataset", "model")):
        return False
    if not all(type(row.get(name)) is int for name in COUNTS):
        return False
    return all(
        value is None or isinstance(value, str if name in TEXTS else (int, float))
        for name, value in row.items()
    )


def table_of(
    rows: list[dict[str, Any]], metrics: list[str], order: list[tuple[str, str, int]]
) -> pd.DataFrame:
    """Make the table of all cells, in a given order, the same however they were computed."""
    by_key = {tuple(row[k] for k in KEY): row for row in rows}
    names = [*COLUMNS, *metrics]
    kept = [{name: by_key[key].get(name) for name in names} for key in order if key in by_key]
    table = pd.DataFrame(kept, columns=names)
    return _typed(table)


def read_results(path: Path) -> pd.DataFrame:
    """Read a table of cells."""
    try:
        names, columns = read_text(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is not the {RESULTS} of a comparison: {error}.") from error
    wrong = [name for name in COLUMNS if names.count(name) != 1 and (name in names or name not in SINCE_4)]
    if wrong:
        number = "two columns" if wrong[0] in names else "no column"
        raise ValueError(f"{str(path)!r} is not the {RESULTS} of a comparison: it has {number} {wrong[0]!r}.")
    # a set may be called "NA"
    table = pd.DataFrame(
        {name: as_object(column, ("",)) for name, column in zip(names, columns, strict=True)}
    )
    return _typed(table.assign(**{name: "" for name in SINCE_4 if name not in table}))


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    """Give every column its type: text is never missing, counts are whole, everything else is a number or NaN."""
    for name in table.columns:
        if name in TEXTS:
            table[name] = table[name].fillna("").astype(str).astype(object)
        elif name in COUNTS:
            table[name] = table[name].astype(int)
        else:
            table[name] = table[name].astype(float)  # of text too, to the last digit
    return table
