"""Download of data sets from OpenML, in the form of the table.

OpenML lists attributes under its own names and codes classes in its own way; each recipe below says what is
done about it. The caller then compares shape and class counts with the table, so that a changed copy cannot
slip in.
"""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPException
from os import PathLike

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.datasets import fetch_openml

from bayesmkl._utils.warnings import holding_back
from bayesmkl.datasets._raw import Raw, splice_codes
from bayesmkl.datasets._table import Entry

__all__ = ["read_openml"]

# Class labels as OpenML writes them (lower case, quotes stripped) -> ours.
_LABELS: dict[str, dict[str, int]] = {
    "breast_wisconsin": {"benign": -1, "malignant": 1},
    "breast_ljubljana": {"no-recurrence-events": -1, "recurrence-events": 1},
    "bupaliver": {"1": 1, "2": -1},
    "pima": {"tested_negative": -1, "tested_positive": 1},
    "heart_statlog": {"absent": -1, "present": 1},
    "ionosphere": {"b": -1, "g": 1},
    "sonar": {"rock": -1, "mine": 1},
    "australian": {"0": -1, "1": 1},
    "ecoli": {"cp": 0, "im": 1, "iml": 2, "ims": 3, "imu": 4, "om": 5, "oml": 6, "pp": 7},
    "glass": {
        "build wind float": 1,
        "build wind non-float": 2,
        "vehic wind float": 3,
        "vehic wind non-float": 4,
        "containers": 5,
        "tableware": 6,
        "headlamps": 7,
    },
    "mushrooms": {"e": -1, "p": 1},
    "a9a": {"-1": -1, "1": 1},
    "usps": {str(digit + 1): digit for digit in range(10)},
    "banana": {"1": -1, "-1": -1, "2": 1},
    "ringnorm": {"1": 1, "2": -1},
    "titanic": {"0": -1, "-1": -1, "1": 1},
    "thyroid": {"1": -1, "2": 1, "3": 1},
}

_INTERVALS = ("age", "tumor-size", "inv-nodes", "deg-malig")  # of breast_ljubljana: levels that have an order


def read_openml(entry: Entry, data_home: str | PathLike | None) -> Raw:
    """Download (or read from the cache) one data set.

    Parameters
    ----------
    entry : Entry
        Its row of the table, with the OpenML ids.
    data_home : path or None
        Cache folder; None is scikit-learn's.

    Returns
    -------
    Raw
        Data and target, rows in OpenML's order.

    Raises
    ------
    OSError
        If the download fails.
    ValueError
        If the table that arrives has labels or columns that its recipe does not know.
    """
    tables = [_download(entry, data_id, data_home) for data_id in entry.openml]
    if entry.name == "mfeat":
        return _mfeat(tables)
    return _RECIPES.get(entry.name, _numeric)(entry.name, *tables[0])


def _download(entry: Entry, data_id: int, data_home) -> tuple[pd.DataFrame, np.ndarray]:
    """Return features and class labels (text, lower case) of one OpenML table."""
    try:
        # of retries, and of a cache that it calls invalid where there is no network
        with holding_back(RuntimeWarning, UserWarning):
            bunch = fetch_openml(
                data_id=data_id,
                data_home=data_home,
                target_column="selector" if entry.name == "bupaliver" else "default-target",
                as_frame=entry.name != "a9a",  # sparse on OpenML
                parser="auto",
            )
    except (OSError, HTTPException, ValueError) as error:
        raise OSError(
            f'could not download "{entry.name}" (OpenML data set {data_id}): {error}. Check the network, '
            "or set the environment variable BAYESMKL_DATA to a folder that holds the data files."
        ) from error
    table = bunch.data.toarray() if issparse(bunch.data) else bunch.data
    return pd.DataFrame(table), _as_text(bunch.target)


def _as_text(labels) -> np.ndarray:
    values = pd.Series(np.asarray(labels))
    if pd.api.types.is_numeric_dtype(values):
        values = values.map(lambda value: f"{value:g}")
    text = values.astype(str).str.strip().str.strip("'\"").str.lower().str.removesuffix(".0")
    return text.to_numpy(dtype=str)


def _coded(name: str, labels: np.ndarray) -> np.ndarray:
    codes = _LABELS[name]
    unknown = sorted(set(labels.tolist()) - set(codes))
    if unknown:
        raise ValueError(
            f'"{name}" as read from OpenML has the class labels {unknown}, expected only '
            f"{sorted(codes)}: the copy there has changed. Set BAYESMKL_DATA to a folder that holds the "
            "checked files."
        )
    return np.array([codes[label] for label in labels.tolist()])


def _as_numbers(name: str, table: pd.DataFrame) -> np.ndarray:
    try:
        return table.astype(float).to_numpy()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'"{name}" as read from OpenML has a column that is not numeric ({error}): the copy there '
            "has changed. Set BAYESMKL_DATA to a folder that holds the checked files."
        ) from error


def _text_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return nominal columns as text without the file format's quotes; ``?`` and missing become None."""
    columns = {str(column).strip("'\"").split("%")[0].rstrip("?"): table[column] for column in table.columns}
    return pd.DataFrame(
        {name: [_text_or_none(v) for v in values] for name, values in columns.items()}, dtype=object
    )


def _text_or_none(value) -> str | None:
    text = "?" if pd.isna(value) else str(value).strip().strip("'\"")
    return None if text == "?" else text


def _numeric(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    return Raw(_as_numbers(name, table), _coded(name, labels))


def _complete_rows(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    complete = table.notna().all(axis=1).to_numpy()
    return _numeric(name, table[complete], labels[complete])


def _varying_columns(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    return _numeric(name, table.loc[:, table.nunique() > 1], labels)


def _mushrooms(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    text = _text_table(table).drop(columns="stalk-root", errors="ignore")
    blocks = {f"{c}_{level}": text[c] == level for c in text for level in sorted(text[c].dropna().unique())}
    data = pd.DataFrame(blocks)
    return Raw(data.to_numpy(dtype=float), _coded(name, labels), list(data.columns))


def _breast_ljubljana(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    text = _text_table(table)
    complete = text.notna().all(axis=1).to_numpy()
    text = text[complete]
    codes = []
    for column in text:
        levels = sorted(text[column].unique())
        if column in _INTERVALS:
            levels = sorted(levels, key=lambda level: int(level.split("-")[0]))
        codes.append(text[column].map(levels.index).to_numpy(dtype=float))
    return Raw(np.column_stack(codes), _coded(name, labels[complete]))


def _usps(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    return Raw(np.round(_as_numbers(name, table), 3), _coded(name, labels))


def _ringnorm(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    data = _as_numbers(name, table)
    return Raw((data - data.mean(axis=0)) / data.std(axis=0), _coded(name, labels))


def _twonorm(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    # Which of the labels 1 and 2 sits at +2/sqrt(20) is read off the class means.
    data = _as_numbers(name, table)
    means = {label: data[labels == label].mean() for label in set(labels)}
    return Raw(data, np.where(labels == max(means, key=lambda label: means[label]), 1, -1))


def _thyroid(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    raw = _numeric(name, table, labels)
    names = {"1": "normal", "2": "hyper", "3": "hypo"}
    return raw._replace(target_multiclass=np.array([names[label] for label in labels]))


def _splice(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    letters = _text_table(table).iloc[:, -60:]  # before them the name of the sequence, where it is kept
    return splice_codes(letters.to_numpy(dtype=str), np.char.upper(labels))


def _image(name: str, table: pd.DataFrame, labels: np.ndarray) -> Raw:
    raw = Raw(_as_numbers(name, table.loc[:, table.nunique() > 1]), labels)
    target = np.where(np.isin(labels, ["brickface", "foliage", "sky", "path"]), 1, -1)
    return raw._replace(target=target, target_multiclass=labels)


def _mfeat(tables: list[tuple[pd.DataFrame, np.ndarray]]) -> Raw:
    """Join the six tables, which list the same numerals in the same order, 200 of each digit from 0 to 9."""
    data = np.hstack([_as_numbers("mfeat", table) for table, _ in tables])
    target = np.repeat(np.arange(10), 200)
    for _, labels in tables:
        if len(labels) != 2000 or any(len(set(labels[target == digit])) != 1 for digit in range(10)):
            raise ValueError(
                '"mfeat" as read from OpenML does not list its 2000 rows as 200 of each digit in turn, '
                "so that the six views cannot be joined. Set BAYESMKL_DATA to a folder that holds the "
                "checked files."
            )
    return Raw(data, target)


_RECIPES: dict[str, Callable[[str, pd.DataFrame, np.ndarray], Raw]] = {
    "breast_wisconsin": _complete_rows,
    "ionosphere": _varying_columns,
    "mushrooms": _mushrooms,
    "breast_ljubljana": _breast_ljubljana,
    "usps": _usps,
    "ringnorm": _ringnorm,
    "twonorm": _twonorm,
    "thyroid": _thyroid,
    "splice": _splice,
    "image": _image,
}
