"""Cells of a comparison: keys by content, and the folder or the memory that keeps them."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import pickle
import platform
import site
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import get_config

from bayesmkl import __version__
from bayesmkl._utils.files import READING_ARRAYS, check_layout, not_written, read_json, written_beside
from bayesmkl._utils.hashing import content_hash

FORMAT, VERSION = "bayesmkl-comparison", 7
OF_ONE_CALL = "new"  # start of the keys of cells that no other call finds; no hash has an n
ABOUT, RESULTS, CELLS = "about.json", "results.csv", "cells"
PACKAGES = ("numpy", "scipy", "scikit-learn", "jax", "numpyro", "pandas", "joblib")
COMPUTE_NOTHING = ("joblib", "platform")  # in the environment
IMPORTED_AS = {"sklearn": "scikit-learn"}
# Settings of scikit-learn that change what the same models compute.
SETTINGS = ("transform_output", "enable_metadata_routing", "array_api_dispatch")
PARTS = ("row", "scores", "about")  # of the file of a cell
COUNTS = ("split", "n_samples", "n_train", "n_test", "seed")
TEXTS = ("dataset", "model", "kernel_shares", "best_params", "error", "note")
COLUMNS = (  # of the table of cells, before the metrics
    *("dataset", "model", *COUNTS),
    *("fit_seconds", "predict_seconds", "peak_memory_mb", "support_fraction", "n_active_kernels", "n_iter"),
    *("kernel_shares", "converged", "best_params", "error", "note"),
)

# ------------------------------------------------------------------------------------------------------------- keys


class Content(NamedTuple):
    """Hash of a value, and versions of the packages that it comes from, which the hash holds too.

    The hash is empty if the value holds a function or class that no installed package defines, whose code no hash
    tells apart.
    """

    digest: str
    packages: dict[str, str]


def content_of(value: object) -> Content:
    """Hash a model, a scorer or another setting of a comparison, with what it is computed by.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> len(content_of(SVC()).digest), content_of(lambda model, X, y: 0.0).digest
    (32, '')
    """
    visitor = _Visitor()
    try:
        visitor.dump(value)
        packages = visitor.versions()
        settings = {name: option for name, option in get_config().items() if name in SETTINGS}
        computing = {name: v for name, v in environment(packages).items() if name not in COMPUTE_NOTHING}
        return Content(content_hash((value, computing, settings)), packages)
    except Exception:  # cannot be pickled, or is not installed
        return Content("", visitor.versions())


class _Visitor(pickle.Pickler):
    """Goes through all that a value holds, and stops at what no installed package defines."""

    def __init__(self) -> None:
        super().__init__(_Nowhere())
        self.packages: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        module = getattr(value, "__module__", None)
        if isinstance(module, str):
            if not _is_installed(module):
                raise pickle.PicklingError(module)
            self.packages.add(module.partition(".")[0])
        return NotImplemented

    def versions(self) -> dict[str, str]:
        """Return the versions of the packages seen that have one."""
        found = {}
        for name in sorted(self.packages - sys.stdlib_module_names - {"bayesmkl"}):
            with suppress(Exception):
                found[IMPORTED_AS.get(name, name)] = str(sys.modules[name].__version__)
        return found


class _Nowhere:
    def write(self, content: bytes) -> int:
        return len(content)


def _is_installed(module: str) -> bool:
    """Return whether a module is part of Python, of this package or of an installed one."""
    package = module.partition(".")[0]
    if package == "bayesmkl":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return package in sys.stdlib_module_names - {"__main__"} if file is None else _is_in_sites(file)


@lru_cache(maxsize=4096)
def _is_in_sites(file: str) -> bool:
    return any(Path(file).resolve().is_relative_to(folder) for folder in _sites())


@lru_cache(maxsize=1)
def _sites() -> frozenset[Path]:
    known = sysconfig.get_paths()
    folders = [known[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return frozenset(
        Path(folder).resolve() for folder in (*folders, *site.getsitepackages(), site.getusersitepackages())
    )


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    return {
        "bayesmkl": __version__ + SOURCE,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "platform": platform.platform(),
    }


def _own_source() -> str:
    """Return the hash of this package where it is no installed one, but is being written."""
    folder = Path(__file__).parents[1]
    if _is_in_sites(__file__):
        return ""
    found = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*.py")):
        found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return f"+source.{found.hexdigest()}"


SOURCE = _own_source()  # as it was loaded


def environment(packages: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the versions of numerical libraries and of further packages, and the system."""
    return dict(packages or {}) | _environment()


# ------------------------------------------------------------------------------------------------------------ cells


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
        Facts and costs by name, see `Comparison.cells`.
    scores : dict of str to float
        By the hash of the metric.
    kept : Kept or None
        Predictions; of a cell that was read from a folder, `Store.kept` reads them.
    about : dict
        What is known of the predictions in a folder, or why they are ``left_out``.
    """

    key: str
    row: dict[str, Any]
    scores: dict[str, float]
    kept: Kept | None = None
    about: Mapping[str, Any] = MappingProxyType({})

    @property
    def failed(self) -> bool:
        """Whether the model failed."""
        return bool(self.row.get("error"))

    def named(self, name: tuple[str, str, int], scorers: Mapping[str, str]) -> dict[str, Any]:
        """Return the row of a comparison in which the cell has these names."""
        names = dict(zip(("dataset", "model", "split"), name, strict=True))
        scores = {metric: self.scores.get(digest, math.nan) for metric, digest in scorers.items()}
        return self.row | names | scores


class Store:
    """Finished cells in the folder of a comparison, or in memory.

    Parameters
    ----------
    folder : Path, default=None
        Exists already.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = None if folder is None else folder / CELLS
        self._cells: dict[str, Cell] = {}

    def read(self, key: str) -> Cell | None:
        """Return a finished cell; None where there is none, or its file is damaged."""
        if self.folder is None:
            return self._cells.get(key)
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = read_json(self._path(key))
            row, scores, about = (dict(found[name]) for name in PARTS)
            known = {name: value for name, value in row.items() if value is not None} | scores
            right = all(
                isinstance(value, str if name in TEXTS else int | float) for name, value in known.items()
            )
            if right and all(type(row[name]) is int for name in COUNTS if name != "split"):
                return Cell(key, row, scores, None, about)
        return None

    def write(self, cell: Cell) -> None:
        """Keep a cell in the place of the one with its key."""
        if self.folder is None:
            self._cells[cell.key] = cell
            return
        self.folder.mkdir(exist_ok=True)
        if cell.kept is not None:
            with written_beside(self._path(cell.key, ".npz")) as beside, beside.open("wb") as file:
                np.savez_compressed(file, **cell.kept.arrays)  # type: ignore[arg-type]
            cell = cell._replace(kept=None, about=cell.kept.about)
        elif "left_out" in cell.about:
            self._path(cell.key, ".npz").unlink(missing_ok=True)
        content = {name: dict(getattr(cell, name)) for name in PARTS}
        with written_beside(self._path(cell.key)) as beside:
            beside.write_text(json.dumps(content), encoding="utf-8")

    def kept(self, key: str) -> Kept:
        """Return the predictions of a cell; raise NotKeptError if it keeps none."""
        cell = self.read(key)
        if cell is None:
            raise NotKeptError("its file is not there")
        if cell.kept is not None:
            return cell.kept
        if "offers" not in cell.about:
            raise NotKeptError(cell.about.get("left_out", "it keeps no predictions"))
        path = self._path(key, ".npz")
        unreadable = suppress(OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError)
        with unreadable, READING_ARRAYS, path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return Kept({name: found[name] for name in found.files}, dict(cell.about))
        raise NotKeptError(f"{str(path)!r} is {'damaged' if path.exists() else 'gone'}")

    def remove_of_one_call(self) -> None:
        """Remove the cells of an earlier call that no other call finds."""
        for path in () if self.folder is None else self.folder.glob(f"{OF_ONE_CALL}*"):
            path.unlink(missing_ok=True)

    def n_kept(self) -> int:
        """Return how many cells of the folder keep predictions."""
        return 0 if self.folder is None else sum(1 for _ in self.folder.glob("*.npz"))

    def _path(self, key: str, ending: str = ".json") -> Path:
        if self.folder is None or not key.isalnum():
            raise ValueError(f"{key[:80]!r} is not the key of a cell.")
        return self.folder / f"{key}{ending}"


# ------------------------------------------------------------------------------------------------- the folder's files


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Write what is known about the last run of a folder."""
    text = json.dumps({"format": FORMAT, "version": VERSION} | about, indent=2, ensure_ascii=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with written_beside(folder / ABOUT) as beside:
            beside.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise not_written(f"`folder`: {str(folder)!r}", error) from error


def read_about(folder: Path) -> dict[str, Any]:
    """Return what is known about the last run of a folder.

    Raises
    ------
    ValueError
        If the folder is not that of a comparison, or of another version.
    """
    path = folder / ABOUT
    try:
        about = read_json(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(folder)!r} is not the folder of a comparison: {error}.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} is not the {ABOUT} of a comparison.")
    check_layout(
        about.get("version"), VERSION, repr(str(folder)), dict(about.get("environment") or {}).get("bayesmkl")
    )
    about["keys"] = [tuple(key) for key in about["keys"]]
    return {name: value for name, value in about.items() if name not in ("format", "version")}


def write_table(folder: Path, cells: pd.DataFrame) -> None:
    """Write the table of all cells, for people and other programs."""
    with written_beside(folder / RESULTS) as beside:
        cells.to_csv(beside, index=False, quoting=csv.QUOTE_NONNUMERIC)


def table_of(rows: list[dict[str, Any]], metrics: Iterable[str]) -> pd.DataFrame:
    """Make the table of cells: text is never missing, counts are whole, everything else is a number or NaN."""
    names = [*COLUMNS, *metrics]
    table = pd.DataFrame([{name: row.get(name) for name in names} for row in rows], columns=names)
    for name in names:
        if name in TEXTS:
            table[name] = table[name].fillna("").astype(str).astype(object)
        else:
            table[name] = table[name].astype(int if name in COUNTS else float)
    return table
