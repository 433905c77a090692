"""Data sets from a local folder of .npz files (environment variable ``BAYESMKL_DATA``)."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from bayesmkl._utils.files import READING_ARRAYS
from bayesmkl.datasets._columns import MFEAT_VIEWS
from bayesmkl.datasets._raw import Raw, splice_codes

__all__ = ["read_folder"]

Arrays = Mapping[str, np.ndarray]

IMAGE_CLASSES = np.array(["", "cement", "brickface", "grass", "foliage", "sky", "path", "window"])

# Positions of the alphabetical level codes in interval order: tumor_size 0-4, 10-14, ..., 45-49, 5-9, 50-54;
# inv_nodes 0-2, 12-14, 15-17, 24-26, 3-5, 6-8, 9-11.
_INTERVAL_ORDER = {2: np.array([0, 2, 3, 4, 5, 6, 7, 8, 9, 1, 10]), 3: np.array([0, 4, 5, 6, 1, 2, 3])}


def read_folder(name: str, folder: Path) -> Raw:
    """Read one data set from ``folder``.

    Parameters
    ----------
    name : str
        Exact data set name.
    folder : Path
        Folder holding ``<pack>/<pack>.npz``.

    Returns
    -------
    Raw
        Data and target, rows in the order of the file.

    Raises
    ------
    FileNotFoundError
        If the file is not there.
    ValueError
        If it is no readable .npz file, needs pickle, or lacks an array.
    """
    pack, read = _READERS[name]
    path = folder / pack / f"{pack}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f'"{name}" needs the file {path}, which does not exist. BAYESMKL_DATA must name a folder '
            f"that holds {pack}/{pack}.npz; unset it to download the set instead."
        )
    try:
        with READING_ARRAYS, path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return read(arrays)
    except KeyError as error:
        raise ValueError(
            f'"{name}" needs an array that {path} lacks: {error.args[0]}. Replace the file, or unset '
            "BAYESMKL_DATA."
        ) from error
    except (zipfile.BadZipFile, EOFError, OSError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} must be a readable .npz file of plain arrays (pickled objects are never loaded); "
            f"{error}. Replace the file, or unset BAYESMKL_DATA."
        ) from error


def _pair(data: str, target: str) -> Callable[[Arrays], Raw]:
    def read(arrays: Arrays) -> Raw:
        return Raw(arrays[data].astype(float), arrays[target].astype(int))

    return read


def _wpbc(arrays: Arrays) -> Raw:
    complete = arrays["complete"]
    return Raw(arrays["X"][complete].astype(float), arrays["y"][complete].astype(int))


def _mushrooms(arrays: Arrays) -> Raw:
    names = [str(name) for name in arrays["feature_names"]]
    return Raw(arrays["X"].astype(float), arrays["y"].astype(int), names)


def _a9a(arrays: Arrays) -> Raw:
    parts = []
    for part in ("train", "test"):
        indices, starts = arrays[f"indices_{part}"], arrays[f"indptr_{part}"]
        ones = np.ones(len(indices))
        parts.append(csr_array((ones, indices, starts), shape=(len(starts) - 1, 123)).toarray())
    return Raw(np.vstack(parts), np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(int))


def _mfeat(arrays: Arrays) -> Raw:
    return Raw(np.hstack([arrays[view].astype(float) for view in MFEAT_VIEWS]), arrays["y"].astype(int))


def _usps(arrays: Arrays) -> Raw:
    data = np.vstack([arrays["X_train"], arrays["X_test"]]) / 1000
    return Raw(data, np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(int))


def _twonorm(arrays: Arrays) -> Raw:
    # The file's +1 is the class centered at -2/sqrt(20); ours is the one at +2/sqrt(20).
    return Raw(arrays["twonorm_X"].astype(float), -arrays["twonorm_y"].astype(int))


def _waveform(arrays: Arrays) -> Raw:
    classes = arrays["waveform3_y"].astype(int)
    # The file mixes h2 and h3 in class 1, h1 and h2 in class 3: the other way round than the book.
    return Raw(
        arrays["waveform3_X"].astype(float), np.where(classes == 2, 1, -1), target_multiclass=4 - classes
    )


def _breast_ljubljana(arrays: Arrays) -> Raw:
    raw = _pair("breast_cancer_ljubljana_X", "breast_cancer_ljubljana_y")(arrays)
    data = raw.data.copy()
    for column, positions in _INTERVAL_ORDER.items():
        data[:, column] = positions[data[:, column].astype(int)]
    return raw._replace(data=data)


def _thyroid(arrays: Arrays) -> Raw:
    diagnosis = np.array(["", "normal", "hyper", "hypo"])[arrays["thyroid_y3"]]
    return Raw(
        arrays["thyroid_X"].astype(float), np.where(diagnosis == "normal", -1, 1), target_multiclass=diagnosis
    )


def _splice(arrays: Arrays) -> Raw:
    return splice_codes(arrays["splice_X"].astype(str), arrays["splice_y"].astype(str))


def _flare(arrays: Arrays) -> Raw:
    table = arrays["flare_raw"]
    return Raw(table[:, :11], table[:, 11].astype("U1"))


def _image(arrays: Arrays) -> Raw:
    classes = IMAGE_CLASSES[arrays["image_segment_y7"]]
    target = np.where(np.isin(classes, ["brickface", "foliage", "sky", "path"]), 1, -1)
    return Raw(arrays["image_segment_X"].astype(float), target, target_multiclass=classes)


_READERS: dict[str, tuple[str, Callable[[Arrays], Raw]]] = {
    **{
        name: ("uci_small", _pair(f"{name}_X", f"{name}_y"))
        for name in [
            "breast_wisconsin",
            "bupaliver",
            "pima",
            "heart_statlog",
            "ionosphere",
            "sonar",
            "australian",
            "ecoli",
            "glass",
        ]
    },
    "wpbc": ("wpbc", _wpbc),
    "german_numeric": ("german_numeric", _pair("X", "y")),
    "mushrooms": ("mushrooms", _mushrooms),
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
    "flare": ("raetsch_full", _flare),
    "image": ("raetsch_full", _image),
}
