"""Data sets by name: from scikit-learn, a local folder, OpenML or a file."""

from __future__ import annotations

import os
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from bayesmkl._utils.files import as_path
from bayesmkl._utils.validation import check_flag
from bayesmkl.datasets._bundled import load_diabetes, load_digits_views, load_iris, load_wdbc, load_wine
from bayesmkl.datasets._columns import CATEGORICAL, MFEAT_VIEWS, feature_names
from bayesmkl.datasets._folder import read_folder
from bayesmkl.datasets._names import look_up
from bayesmkl.datasets._openml import read_openml
from bayesmkl.datasets._raw import Raw, check_raw, in_fixed_order, make_bunch
from bayesmkl.datasets._survival import load_gbsg2, load_lung
from bayesmkl.datasets._table import Entry
from bayesmkl.datasets._text import numbers_in, read_text

__all__ = ["READABLE", "fetch", "read_file", "where_to_get"]

_LOADERS = {
    "wdbc": load_wdbc,
    "iris": load_iris,
    "wine": load_wine,
    "digits": load_digits_views,
    "diabetes": load_diabetes,
    "gbsg2": load_gbsg2,
    "lung": load_lung,
}
_GENERATORS = ("twonorm", "ringnorm", "waveform")
READABLE = ("wpbc", "german_numeric", "australian")


def fetch(
    name: str,
    *,
    subset: str = "all",
    one_hot: bool = False,
    path: str | PathLike | None = None,
    data_home: str | PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Bunch | tuple[Any, Any]:
    """Load a data set by its exact name, with its true shape and class counts checked.

    Parameters
    ----------
    name : str
        A name of :func:`list_datasets`.
    subset : {"all", "train", "test"}, default="all"
        Which part of a set published in two parts (``a9a``, ``usps``); "all" has the training part first.
    one_hot : bool, default=False
        Replace each categorical column by one 0/1 column per level (sets that have any: ``heart_statlog``,
        ``australian``, ``breast_ljubljana``, ``splice``, ``flare``).
    path : path or None, default=None
        File as the UCI repository publishes it, for ``wpbc``, ``german_numeric`` and ``australian``.
    data_home : path or None, default=None
        Folder in which downloads are kept; None is scikit-learn's own.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Return the data as a DataFrame with feature names and the target as a Series.

    Returns
    -------
    Bunch
        ``data`` (n_samples, n_features), dense float64 (text for ``flare`` unless ``one_hot``); ``target``
        (binary sets: -1 and +1; ``target_names[i]`` names the i-th of ``np.unique(target)``; survival: a structured
        array of ``event`` and ``time``);
        ``feature_names``, ``target_names``, ``DESCR``, ``name``; where it applies ``views`` (name -> columns:
        ``digits``, ``mfeat``), ``n_train`` (``a9a``, ``usps`` with ``subset="all"``) and
        ``target_multiclass`` (the classes behind a binary target).

    Raises
    ------
    ValueError
        If ``name`` is unknown or could mean several sets, an option does not apply to the set, or the data
        differ in shape or class counts from the published set.
    OSError
        If the download fails.
    FileNotFoundError
        If `path`, or the folder that the environment variable ``BAYESMKL_DATA`` names, does not have the file.
    TypeError
        If `path` or `data_home` is no path.

    Notes
    -----
    Sets that scikit-learn or this package ships come from there. For the others, in this order: the file ``path``;
    the folder that the environment variable ``BAYESMKL_DATA`` names, if set; OpenML, into a cache.

    Copies of a set list the same rows in different orders. The rows of every set not shipped by scikit-learn
    come in one fixed, shuffled order that depends on their values only, so that a split by row number means
    the same rows whatever the source. Splits by row number of the original files do not apply to it.

    Examples
    --------
    >>> from bayesmkl.datasets import fetch
    >>> fetch("wdbc").data.shape
    (569, 30)
    >>> fetch("liver")
    Traceback (most recent call last):
        ...
    ValueError: `name` must be an exact data set name; 'liver' could mean "bupaliver" (BUPA liver disorders).
    """
    entry = look_up(name)
    for flag, value in (("one_hot", one_hot), ("return_X_y", return_X_y), ("as_frame", as_frame)):
        check_flag(flag, value)
    for place, given in (("path", path), ("data_home", data_home)):
        if given is not None:
            as_path(place, given)
    _check_options(entry, subset, one_hot, path)
    if entry.bundled:
        return _LOADERS[entry.name](return_X_y=return_X_y, as_frame=as_frame)
    raw, origin = _read(entry, path, data_home)
    check_raw(raw, entry, origin)
    _warn_if_damaged(entry, raw, origin)
    raw = in_fixed_order(raw, entry.n_train)

    names = raw.feature_names or feature_names(entry.name) or []
    data, names = _one_hot(raw.data, names, CATEGORICAL[entry.name]) if one_hot else (raw.data, names)
    rows = {"all": slice(None), "train": slice(entry.n_train), "test": slice(entry.n_train, None)}[subset]
    return make_bunch(
        entry,
        data[rows],
        raw.target[rows],
        names,
        return_X_y=return_X_y,
        as_frame=as_frame,
        **_extras(entry, raw, subset),
    )


def _check_options(entry: Entry, subset: str, one_hot: bool, path) -> None:
    if subset not in ("all", "train", "test"):
        raise ValueError(f'`subset` must be "all", "train" or "test"; got {subset!r}.')
    if subset != "all" and not entry.n_train:
        raise ValueError(
            f'`subset` must be "all" for "{entry.name}", which is published in one part; got {subset!r}. '
            "Split it with sklearn.model_selection.train_test_split."
        )
    if one_hot and entry.name not in CATEGORICAL:
        raise ValueError(
            f'`one_hot` must be False for "{entry.name}", which has no categorical columns left to '
            f"encode; got True. Sets that have them: {', '.join(CATEGORICAL)}."
        )
    if path is not None and entry.name not in READABLE:
        raise ValueError(
            f'`path` must be None for "{entry.name}"; got {str(path)!r}. Files are read for '
            f"{', '.join(READABLE)}; other sets come from scikit-learn, OpenML or the folder named by "
            "BAYESMKL_DATA."
        )


def _read(entry: Entry, path, data_home) -> tuple[Raw, str]:
    """Read from the file, the local folder or OpenML, and say which it was."""
    if path is not None:
        return read_file(entry, path), str(path)
    folder = os.environ.get("BAYESMKL_DATA")
    if folder:
        return read_folder(entry.name, Path(folder)), folder
    if entry.openml:
        return read_openml(entry, data_home), entry.source
    if entry.uci_page:
        raise ValueError(
            f'`path` must be given for "{entry.name}", which is not on OpenML. {where_to_get(entry)}'
        )
    generate = f", or draw a fresh sample with make_{entry.name}" if entry.name in _GENERATORS else ""
    raise ValueError(
        f'"{entry.name}" cannot be downloaded: set the environment variable BAYESMKL_DATA to a folder '
        f"that holds the data files{generate}."
    )


def _warn_if_damaged(entry: Entry, raw: Raw, origin: str) -> None:
    if entry.name == "australian" and raw.data[:, 1].max() > 100:  # A2 runs from 13.75 to 80.25
        warnings.warn(
            f'"australian" as read from {origin} has lost the decimal points of A2, A3 and A7 (2208 for '
            "22.08, but 7 for 7), so that these columns are not usable. Read UCI's file: "
            'fetch("australian", path="australian.dat").',
            UserWarning,
            stacklevel=3,
        )


def _extras(entry: Entry, raw: Raw, subset: str) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if raw.target_multiclass is not None:
        extras["target_multiclass"] = raw.target_multiclass
    if entry.n_train and subset == "all":
        extras["n_train"] = entry.n_train
    if entry.name == "mfeat":
        starts = np.cumsum([0, *MFEAT_VIEWS.values()])
        extras["views"] = {view: list(range(starts[i], starts[i + 1])) for i, view in enumerate(MFEAT_VIEWS)}
    return extras


def _one_hot(data: np.ndarray, names: list[str], categorical: list[str]) -> tuple[np.ndarray, list[str]]:
    """Expand each categorical column in place into one 0/1 column per level; others become numbers."""
    columns, expanded = [], []
    for j, name in enumerate(names):
        if name in categorical:
            for level in np.unique(data[:, j]):
                columns.append((data[:, j] == level).astype(float))
                expanded.append(f"{name}={level if isinstance(level, str) else format(level, 'g')}")
        else:
            columns.append(data[:, j].astype(float))
            expanded.append(name)
    return np.column_stack(columns), expanded


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
    outcomes = np.array([outcome.strip() for outcome in columns[1].tolist()])
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
