"""The folder of a comparison: cells by content, the study that is the last view of them, and a table to read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesmkl._utils.files import check_layout, is_partial, not_written, read_json, written_beside
from bayesmkl._utils.folders import held_folder
from bayesmkl.datasets._tables import as_object, read_text
from bayesmkl.evaluation.cells import CELLS, COUNTS, TEXTS, CellStore, is_key, is_row

__all__ = [
    "ABOUT",
    "COLUMNS",
    "KEY",
    "RESULTS",
    "VERSION",
    "Journal",
    "cells_of_view",
    "held_run",
    "read_results",
    "table_of",
]

FORMAT, VERSION = "bayesmkl-comparison", 5
KNOWN_OF_RUNS: dict[str, Any] = {
    "metrics": dict,
    "environment": dict,
    "random_state": int,
    "started": str,
    "seconds": (int, float),
}
PART = {"dataset": str, "content": str, "splits": list, "scorers": dict, "cells": dict}  # of a view
ABOUT, RESULTS = "about.json", "results.csv"
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
    "n_iter",
    "n_solves",
    "kernel_shares",
    "converged",
    "best_params",
    "error",
    "note",
)
SINCE = ("kernel_shares", "n_iter", "n_solves")  # columns that earlier layouts do not have


class Journal:
    """Folder of a comparison.

    Parameters
    ----------
    folder : Path
        Exists already.

    Attributes
    ----------
    store : CellStore
        Its cells.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = CellStore(folder)

    def read(self) -> list[dict[str, Any]]:
        """Return the rows of all finished cells of the last study; of an earlier layout, of all that are there."""
        about = self.read_about()
        if "view" in about and self.store.folder.is_dir():
            found = (
                (cell, one, self.store.read(one.key)) for cell, one in cells_of_view(about["view"]).items()
            )
            return [cell.named(*names, one.scorers) for names, one, cell in found if cell is not None]
        return self._earlier_rows()

    def _earlier_rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table, and those of cells of a run that did not write it."""
        rows: list[dict[Any, Any]] = []
        if (self.folder / RESULTS).exists():
            rows = read_results(self.folder / RESULTS).to_dict("records")
        seen = {tuple(row[k] for k in KEY) for row in rows}
        for path in sorted((self.folder / CELLS).glob("*.json")):
            row = _row_in(path)
            if row is not None and tuple(row[k] for k in KEY) not in seen:
                rows.append(row)
        return rows

    def begin(self, about: dict[str, Any]) -> None:
        """Make a study the last one; the table of another goes."""
        with _named(self.folder):
            (self.folder / RESULTS).unlink(missing_ok=True)
        self.write_about(about)

    def finish(self, cells: pd.DataFrame, about: dict[str, Any]) -> None:
        """Write the table of all cells, and what is known about the run."""
        with written_beside(self.folder / RESULTS) as beside:
            # without quotes a carriage return, which messages may hold, would end the line
            returns = any(cells[name].str.contains("\r").any() for name in TEXTS)
            cells.to_csv(beside, index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)
        self.write_about(about)
        self.store.tidy()

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
        wrong += [] if _is_view(about.get("view", [])) else ["view"]
        if wrong:
            raise ValueError(
                f"{str(path)!r} is damaged: its {wrong[0]!r} is {str(about.get(wrong[0]))[:80]!r}."
            )
        return about

    def check_grows(self) -> dict[str, Any]:
        """Return the description of the last run; raise for a folder whose cells are not found by content.

        Raises
        ------
        ValueError
            If the folder is not that of a comparison, or of an earlier layout, or of cells that cannot be recognized.
        """
        about = self.read_about()
        if "view" not in about:
            raise ValueError(
                f"{str(self.folder)!r} was written by an earlier bayesmkl, which did not keep what tells its models "
                "and data from others. Comparison.load reads it. Nothing was changed; choose another folder to "
                "compute."
            )
        return about


class Shown(NamedTuple):
    """A cell under the names of a study."""

    key: str
    scorers: dict[str, str]


def cells_of_view(view: list[dict[str, Any]]) -> dict[tuple[str, str, int], Shown]:
    """Return the cells of studies in their order, by data set, model and split."""
    return {
        (part["dataset"], model, split): Shown(keys[split], part["scorers"])
        for part in view
        for split in range(len(part["splits"]))
        for model, keys in part["cells"].items()
        if keys[split] is not None
    }


def _is_view(view: object) -> bool:
    """Return whether everything in a view is of its kind."""
    return isinstance(view, list) and all(isinstance(part, dict) and _is_part(part) for part in view)


def _is_part(part: dict[str, Any]) -> bool:
    if not all(isinstance(part.get(name), kind) for name, kind in PART.items()):
        return False
    texts = [part["dataset"], part["content"], *part["splits"], *part["scorers"].values()]
    return all(isinstance(text, str) for text in texts) and all(
        isinstance(keys, list)
        and len(keys) == len(part["splits"])
        and all(key is None or (isinstance(key, str) and is_key(key)) for key in keys)
        for keys in part["cells"].values()
    )


@contextmanager
def held_run(folder: Path) -> Iterator[None]:
    """Keep other runs away from the folder of a comparison, which is made if need be and never left empty.

    What processes were writing when they were killed is removed: before, of earlier runs, and after, of its workers.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the folder of a comparison cannot be {str(folder)!r}, which is a file.")
    with _named(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with held_folder(folder):
        _remove_partial(folder)
        try:
            yield
        finally:
            _remove_partial(folder)
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Say in words why nothing can be written to a folder, and what to do."""
    try:
        yield
    except OSError as error:
        raise not_written(f"`folder`: {str(folder)!r}", error) from error


def _remove_partial(folder: Path) -> None:
    for path in (*folder.glob(".*"), *(folder / CELLS).glob(".*")):
        if is_partial(path):
            path.unlink(missing_ok=True)


def _row_in(path: Path) -> dict[str, Any] | None:
    """Read a cell of an earlier layout; one that is damaged by whatever holds none."""
    with suppress(OSError, ValueError):
        row = read_json(path)
        if isinstance(row, dict) and is_row(row):
            return row
    return None


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
    wrong = [name for name in COLUMNS if names.count(name) != 1 and (name in names or name not in SINCE)]
    if wrong:
        number = "two columns" if wrong[0] in names else "no column"
        raise ValueError(f"{str(path)!r} is not the {RESULTS} of a comparison: it has {number} {wrong[0]!r}.")
    # a set may be called "NA"
    table = pd.DataFrame(
        {name: as_object(column, ("",)) for name, column in zip(names, columns, strict=True)}
    )
    table = table.assign(**{name: "" if name in TEXTS else np.nan for name in SINCE if name not in table})
    return _typed(table[[*COLUMNS, *(name for name in names if name not in COLUMNS)]])


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
