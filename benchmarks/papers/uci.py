"""Data sets of the papers by name: from the folder that BAYESMKL_DATA names, else from scikit-learn or OpenML.

`fetch` checks shape and class counts and puts the rows into one order that depends on their values alone, so that a
split by row number means the same rows whatever the source. The folder holds a file NAME/NAME.npz for each pack of
arrays below, or UCI's own wpbc.data, german.data-numeric and australian.dat.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, issparse
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from bayesmkl.datasets import load_diabetes, load_digits_views, load_iris, load_wdbc, load_wine

BUNDLED = {
    "wdbc": load_wdbc,
    "iris": load_iris,
    "wine": load_wine,
    "digits": load_digits_views,
    "diabetes": load_diabetes,
}
MFEAT_VIEWS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
NOMINAL = {"heart_statlog": [1, 2, 5, 6, 8, 10, 11, 12], "splice": list(range(60))}  # columns for `one_hot`
UCI_FILES = {"wpbc": "wpbc.data", "german_numeric": "german.data-numeric", "australian": "australian.dat"}


class Facts(NamedTuple):
    """True size of a set; papers print others in places (see the README)."""

    n_samples: int
    n_features: int
    counts: tuple[int, ...]  # samples of each class, in the order of `labels`
    openml: tuple[int, ...] = ()
    labels: tuple[int, ...] = (-1, 1)
    n_train: int = 0  # rows of the published training part


SETS = {
    "breast_wisconsin": Facts(683, 9, (444, 239), (15,)),  # the complete ones of 699 rows
    "breast_ljubljana": Facts(277, 9, (196, 81), (13,)),  # the complete ones of 286 rows
    "bupaliver": Facts(345, 6, (200, 145), (8,)),  # `selector` is the class, as in all papers
    "pima": Facts(768, 8, (500, 268), (37,)),
    "heart_statlog": Facts(270, 13, (150, 120), (53,)),
    "ionosphere": Facts(351, 33, (126, 225), (59,)),
    "sonar": Facts(208, 60, (97, 111), (40,)),
    "australian": Facts(690, 14, (383, 307), (40981,)),
    "ecoli": Facts(336, 7, (143, 77, 2, 2, 35, 20, 5, 52), (39,), tuple(range(8))),
    "glass": Facts(214, 9, (70, 76, 17, 13, 9, 29), (41,), (1, 2, 3, 5, 6, 7)),
    "wpbc": Facts(194, 33, (148, 46)),  # the complete ones of 198 rows; the first feature is the time
    "german_numeric": Facts(1000, 24, (300, 700)),  # +1 is a good credit
    "mushrooms": Facts(8124, 112, (4208, 3916), (24,)),
    "a9a": Facts(48842, 123, (37155, 11687), (1430,), n_train=32561),
    "mfeat": Facts(2000, 649, (200,) * 10, (12, 14, 16, 18, 20, 22), tuple(range(10))),
    "usps": Facts(
        9298, 256, (1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821), (41082,), tuple(range(10)), 7291
    ),
    "banana": Facts(5300, 2, (2924, 2376), (1460,)),
    "twonorm": Facts(7400, 20, (3697, 3703), (1507,)),
    "ringnorm": Facts(7400, 20, (3736, 3664), (1496,)),  # columns of mean 0 and variance 1
    "waveform": Facts(5000, 21, (3353, 1647)),
    "titanic": Facts(2201, 3, (1490, 711), (40704,)),
    "thyroid": Facts(215, 5, (150, 65), (40682,)),
    "splice": Facts(
        3175, 60, (1648, 1527), (46,)
    ),  # A, C, G, T = 0 to 3; rows with other letters are left out
    "image": Facts(2310, 18, (990, 1320), (36,)),
}


class Raw(NamedTuple):
    """A set as a source delivers it."""

    data: np.ndarray
    target: np.ndarray
    classes: np.ndarray | None = None  # behind a binary target


def fetch(name: str, *, subset: str = "all", one_hot: bool = False, return_X_y: bool = False) -> Any:
    """Load a set.

    Parameters
    ----------
    name : str
        A key of `SETS` or `BUNDLED`.
    subset : {"all", "train", "test"}
        Part of a9a or usps.
    one_hot : bool
        Replace each nominal column of heart_statlog or splice by an indicator per level.
    return_X_y : bool
        Return features and labels alone.

    Returns
    -------
    Bunch
        ``data``, ``target`` (binary sets: -1 and +1), ``name``, and where they exist ``views`` and
        ``target_multiclass`` (the classes behind a binary target).
    """
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=return_X_y)
    if name not in SETS:
        raise ValueError(f"unknown data set {name!r}; there are {', '.join([*BUNDLED, *SETS])}.")
    facts, raw = SETS[name], _read(name)
    _check(name, facts, raw)
    order = np.concatenate([_fixed_order(raw, rows) for rows in _parts(len(raw.target), facts.n_train)])
    rows = {"all": order, "train": order[: facts.n_train], "test": order[facts.n_train :]}[subset]
    X, y = raw.data[rows], raw.target[rows]
    if one_hot:
        X = _indicators(X, raw.data, NOMINAL[name])
    if return_X_y:
        return X, y
    found = Bunch(data=X, target=y, name=name)
    if raw.classes is not None:
        found.target_multiclass = raw.classes[rows]
    if name == "mfeat":
        ends = np.cumsum(list(MFEAT_VIEWS.values()))
        found.views = {
            view: list(range(end - n, end)) for (view, n), end in zip(MFEAT_VIEWS.items(), ends, strict=True)
        }
    return found


def _read(name: str) -> Raw:
    folder = os.environ.get("BAYESMKL_DATA")
    if folder and name in UCI_FILES and (Path(folder) / UCI_FILES[name]).is_file():
        return _uci_file(name, Path(folder) / UCI_FILES[name])
    if folder:
        pack, read = PACKS[name]
        with np.load(Path(folder) / pack / f"{pack}.npz", allow_pickle=False) as arrays:
            return read(arrays)
    if not SETS[name].openml:
        raise ValueError(
            f"{name!r} is not on OpenML: set BAYESMKL_DATA to a folder that holds "
            f"{UCI_FILES.get(name, PACKS[name][0] + '.npz')}."
        )
    return _openml(name)


def _check(name: str, facts: Facts, raw: Raw) -> None:
    found = (*raw.data.shape, *(int(np.sum(raw.target == label)) for label in facts.labels))
    expected = (facts.n_samples, facts.n_features, *facts.counts)
    if found != expected:
        raise ValueError(
            f"{name!r} must have (rows, features, rows of each class) {expected}; this copy has {found}."
        )
    if not np.isfinite(raw.data).all():
        raise ValueError(f"{name!r} has missing or infinite values.")
    if name == "australian" and raw.data[:, 1].max() > 100:
        warnings.warn(
            "this copy of 'australian' has lost the decimal points of A2, A3 and A7 (2208 for 22.08, but 7 for 7). "
            "Put UCI's australian.dat into the folder that BAYESMKL_DATA names.",
            UserWarning,
            stacklevel=3,
        )


def _parts(n_samples: int, n_train: int) -> list[np.ndarray]:
    return np.split(np.arange(n_samples), [n_train])


def _fixed_order(raw: Raw, rows: np.ndarray) -> np.ndarray:
    """Sort rows by their values in single precision, then undo the sorting by one fixed shuffle."""
    data, target = raw.data[rows].astype(np.float32), raw.target[rows]
    order = np.lexsort((target, *data.T[::-1]))
    return rows[order[np.random.RandomState(0).permutation(len(order))]]


def _indicators(X: np.ndarray, every: np.ndarray, nominal: list[int]) -> np.ndarray:
    columns = []
    for j in range(X.shape[1]):
        if j in nominal:
            columns += [(X[:, j] == level).astype(float) for level in np.unique(every[:, j])]
        else:
            columns.append(X[:, j])
    return np.column_stack(columns)


def _splice_codes(letters: np.ndarray, junctions: np.ndarray) -> Raw:
    codes = np.select([letters == base for base in "ACGT"], [0.0, 1.0, 2.0, 3.0], default=np.nan)
    known = ~np.isnan(codes).any(axis=1)
    return Raw(codes[known], np.where(junctions[known] == "N", -1, 1), junctions[known])


def _uci_file(name: str, path: Path) -> Raw:
    if name == "wpbc":  # number, outcome, time and 32 measurements
        table = pd.read_csv(path, header=None, na_values="?").dropna()
        return Raw(table.iloc[:, 2:].to_numpy(float), np.where(table[1].str.strip() == "R", 1, -1))
    table = np.loadtxt(path, ndmin=2)
    return Raw(table[:, :-1], np.where(table[:, -1] == 1.0, 1, -1))


# ------------------------------------------------------------------------------------------------- packs of arrays

Arrays = Mapping[str, np.ndarray]
IMAGE_CLASSES = np.array(["", "cement", "brickface", "grass", "foliage", "sky", "path", "window"])
IMAGE_POSITIVE = ["brickface", "foliage", "sky", "path"]
# positions of the alphabetical codes of tumor_size and inv_nodes in the order of the intervals
INTERVALS = {2: np.array([0, 2, 3, 4, 5, 6, 7, 8, 9, 1, 10]), 3: np.array([0, 4, 5, 6, 1, 2, 3])}


def _pair(data: str, target: str) -> Callable[[Arrays], Raw]:
    return lambda arrays: Raw(arrays[data].astype(float), arrays[target].astype(int))


def _wpbc(arrays: Arrays) -> Raw:
    complete = arrays["complete"]
    return Raw(arrays["X"][complete].astype(float), arrays["y"][complete].astype(int))


def _a9a(arrays: Arrays) -> Raw:
    parts = []
    for part in ("train", "test"):
        indices, starts = arrays[f"indices_{part}"], arrays[f"indptr_{part}"]
        parts.append(
            csr_array((np.ones(len(indices)), indices, starts), shape=(len(starts) - 1, 123)).toarray()
        )
    return Raw(np.vstack(parts), np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(int))


def _mfeat(arrays: Arrays) -> Raw:
    return Raw(np.hstack([arrays[view].astype(float) for view in MFEAT_VIEWS]), arrays["y"].astype(int))


def _usps(arrays: Arrays) -> Raw:
    data = np.vstack([arrays["X_train"], arrays["X_test"]]) / 1000
    return Raw(data, np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(int))


def _twonorm(arrays: Arrays) -> Raw:
    return Raw(arrays["twonorm_X"].astype(float), -arrays["twonorm_y"].astype(int))  # +1 as in `make_twonorm`


def _waveform(arrays: Arrays) -> Raw:
    classes = arrays["waveform3_y"].astype(int)
    # the file numbers classes 1 and 3 the other way round than the book
    return Raw(arrays["waveform3_X"].astype(float), np.where(classes == 2, 1, -1), 4 - classes)


def _breast_ljubljana(arrays: Arrays) -> Raw:
    raw = _pair("breast_cancer_ljubljana_X", "breast_cancer_ljubljana_y")(arrays)
    for column, positions in INTERVALS.items():
        raw.data[:, column] = positions[raw.data[:, column].astype(int)]
    return raw


def _thyroid(arrays: Arrays) -> Raw:
    diagnosis = np.array(["", "normal", "hyper", "hypo"])[arrays["thyroid_y3"]]
    return Raw(arrays["thyroid_X"].astype(float), np.where(diagnosis == "normal", -1, 1), diagnosis)


def _splice(arrays: Arrays) -> Raw:
    return _splice_codes(arrays["splice_X"].astype(str), arrays["splice_y"].astype(str))


def _image(arrays: Arrays) -> Raw:
    classes = IMAGE_CLASSES[arrays["image_segment_y7"]]
    return Raw(
        arrays["image_segment_X"].astype(float), np.where(np.isin(classes, IMAGE_POSITIVE), 1, -1), classes
    )


SMALL = (
    *("breast_wisconsin", "bupaliver", "pima", "heart_statlog", "ionosphere"),
    *("sonar", "australian", "ecoli", "glass"),
)
PACKS: dict[str, tuple[str, Callable[[Arrays], Raw]]] = {
    **{name: ("uci_small", _pair(f"{name}_X", f"{name}_y")) for name in SMALL},
    "wpbc": ("wpbc", _wpbc),
    "german_numeric": ("german_numeric", _pair("X", "y")),
    "mushrooms": ("mushrooms", _pair("X", "y")),
    "a9a": ("a9a", _a9a),
    "mfeat": ("mfeat", _mfeat),
    "usps": ("usps", _usps),
    "banana": ("raetsch_full", _pair("banana_X", "banana_y")),
    "titanic": ("raetsch_full", _pair("titanic_X", "titanic_y")),
    "ringnorm": ("raetsch_full", _pair("ringnorm_X_zscored", "ringnorm_y")),
    "twonorm": ("raetsch_full", _twonorm),
    "waveform": ("raetsch_full", _waveform),
    "breast_ljubljana": ("raetsch_full", _breast_ljubljana),
    "thyroid": ("raetsch_full", _thyroid),
    "splice": ("raetsch_full", _splice),
    "image": ("raetsch_full", _image),
}


# ---------------------------------------------------------------------------------------------------------- OpenML

# class labels as OpenML writes them (lower case, without quotes)
LABELS: dict[str, dict[str, int]] = {
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


def _openml(name: str) -> Raw:
    tables = [_download(name, data_id) for data_id in SETS[name].openml]
    table, labels = tables[0]
    if name == "mfeat":  # six tables with the same rows, 200 of each digit in turn
        target = np.repeat(np.arange(10), 200)
        if any(len(set(own[target == digit])) != 1 for _, own in tables for digit in range(10)):
            raise ValueError("'mfeat' on OpenML does not list its rows as 200 of each digit in turn.")
        return Raw(np.hstack([own.to_numpy(float) for own, _ in tables]), target)
    if name == "splice":
        letters = _as_text(table).iloc[:, -60:]
        return _splice_codes(letters.to_numpy(dtype=str), np.char.upper(labels))
    if name == "breast_wisconsin":
        complete = table.notna().all(axis=1).to_numpy()
        table, labels = table[complete], labels[complete]
    elif name in ("ionosphere", "image"):
        table = table.loc[:, table.nunique() > 1]
    elif name == "mushrooms":
        text = _as_text(table).drop(columns="stalk-root", errors="ignore")
        levels = {(c, level): text[c] == level for c in text for level in sorted(text[c].dropna().unique())}
        table = pd.DataFrame(levels)
    elif name == "breast_ljubljana":
        text = _as_text(table)
        complete = text.notna().all(axis=1).to_numpy()
        table, labels = text[complete].apply(_codes), labels[complete]
    X = table.to_numpy(float)
    if name == "usps":
        X = np.round(X, 3)
    elif name == "ringnorm":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    elif name == "twonorm":
        means = {label: X[labels == label].mean() for label in set(labels)}
        return Raw(X, np.where(labels == max(means, key=lambda label: means[label]), 1, -1))
    elif name == "image":
        return Raw(X, np.where(np.isin(labels, IMAGE_POSITIVE), 1, -1), labels)
    classes = None
    if name == "thyroid":
        classes = np.array([{"1": "normal", "2": "hyper", "3": "hypo"}[label] for label in labels])
    return Raw(X, np.array([LABELS[name][label] for label in labels.tolist()]), classes)


def _download(name: str, data_id: int) -> tuple[pd.DataFrame, np.ndarray]:
    target = "selector" if name == "bupaliver" else "default-target"
    bunch = fetch_openml(data_id=data_id, target_column=target, as_frame=name != "a9a", parser="auto")
    labels = pd.Series(np.asarray(bunch.target))
    if pd.api.types.is_numeric_dtype(labels):
        labels = labels.map(lambda value: f"{value:g}")
    text = labels.astype(str).str.strip().str.strip("'\"").str.lower().str.removesuffix(".0")
    table = bunch.data.toarray() if issparse(bunch.data) else bunch.data
    return pd.DataFrame(table), text.to_numpy(dtype=str)


def _as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return nominal columns as text without the quotes of the file format; ``?`` and missing become None."""

    def clean(value: Any) -> str | None:
        text = "?" if pd.isna(value) else str(value).strip().strip("'\"")
        return None if text == "?" else text

    names = {column: str(column).strip("'\"").split("%")[0].rstrip("?") for column in table.columns}
    return pd.DataFrame({names[c]: [clean(v) for v in table[c]] for c in table.columns}, dtype=object)


def _codes(column: pd.Series) -> pd.Series:
    levels = sorted(column.unique())
    if column.name in ("age", "tumor-size", "inv-nodes", "deg-malig"):
        levels.sort(key=lambda level: int(level.split("-")[0]))
    return column.map(levels.index).astype(float)
