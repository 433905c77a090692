"""Data of the BEMKL paper's tables 2 to 5 as their publishers distribute them; and one column of a set of table 1.

Every function takes the folder of one set and returns kernels or distances among all samples, training and test. A
folder of the layout of :mod:`readers` is read as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from sklearn.preprocessing import StandardScaler

from bayesmkl.datasets import fetch
from bayesmkl.datasets._text import read_numbers
from bayesmkl.evaluation.study import Data
from bayesmkl.kernels import KernelBank, Polynomial
from bayesmkl.reproduction.readers import find_data, read_user_data

__all__ = [
    "CALTECH101_LAYOUT",
    "FLOWERS17_LAYOUT",
    "FLOWERS102_LAYOUT",
    "PROTEIN_LAYOUT",
    "caltech101",
    "flowers17",
    "flowers102",
    "protein",
    "repeated",
    "wpbc_without_time",
]

FLOWERS17_LAYOUT = (
    "distancematrices17gcfeat06.mat, distancematrices17itfeat08.mat and datasplits.mat, as published"
)
FLOWERS17_DISTANCES = {
    "distancematrices17gcfeat06.mat": ("D_colourgc", "D_shapegc", "D_texturegc"),
    "distancematrices17itfeat08.mat": ("D_hog", "D_hsv", "D_siftint", "D_siftbdy"),
}
FLOWERS17_CLASSES, FLOWERS17_SPLITS = 17, 3
FLOWERS102_LAYOUT = "distancematrices102.mat, imagelabels.mat and setid.mat, as published"
FLOWERS102_DISTANCES = ("Dhsv", "Dhog", "Dsiftint", "Dsiftbdy")
CALTECH101_LAYOUT = (
    "for each kernel the published .mat file of the training samples and that of the test samples, the names of the "
    "latter last in the alphabet (a variable `matrix` each, training samples as rows), and beside this folder "
    "cal101-meta with meta-15-1.mat to meta-15-3.mat"
)
PROTEIN_LAYOUT = (
    "a pair of tables NAME_train.csv and NAME_test.csv without headers for each of the representations, and their "
    "labels, one per line, in label_train.csv and label_test.csv (all names may begin with the same words)"
)


def wpbc_without_time(name: str, **options: Any) -> Data:
    """Load wpbc without its first feature, the time that belongs to the outcome: 32 features are left."""
    X, y = fetch(name, return_X_y=True, **options)
    return Data(np.asarray(X)[:, 1:], y)


def repeated(data: Data, n_splits: int) -> Data:
    """Return data whose only split is there several times, for models that differ by their seed."""
    return data._replace(splits=n_splits * list(data.splits or ()))


def protein(folder: str, n_splits: int = 1) -> Data:
    """Read the protein folds: quadratic kernels ``(x.z + 1)^2`` of unit diagonal on every representation.

    Parameters
    ----------
    folder : str
        See `PROTEIN_LAYOUT`.
    n_splits : int, default=1
        How often the one published split is repeated.

    Returns
    -------
    Data
        X of shape (n_train + n_test, n_train + n_test, n_representations), training samples first. Features are
        standardized by the training samples.
    """
    path = Path(folder)
    if find_data(path, "kernels"):
        return repeated(read_user_data(folder), n_splits)
    tables = {file.name[: -len("_train.csv")]: file for file in sorted(path.glob("*_train.csv"))}
    label = next((name for name in tables if name.endswith("label")), None)
    views = [name for name in tables if name != label]
    if label is None or not views:
        raise FileNotFoundError(f"{folder!r} must hold {PROTEIN_LAYOUT}.")
    parts = [(_table(tables[name]), _table(path / f"{name}_test.csv")) for name in views]
    y_train, y_test = _table(tables[label]).ravel(), _table(path / f"{label}_test.csv").ravel()
    for name, (first, second) in zip(views, parts, strict=True):
        if (len(first), len(second)) != (len(y_train), len(y_test)):
            raise ValueError(
                f"{folder!r}: {name} has {len(first)} training and {len(second)} test samples, but there are "
                f"{len(y_train)} and {len(y_test)} labels."
            )
    stack = np.stack([_quadratic(*part) for part in parts], axis=2)
    split = (np.arange(len(y_train)), len(y_train) + np.arange(len(y_test)))
    return repeated(Data(stack, np.concatenate([y_train, y_test]).astype(int), splits=[split]), n_splits)


def flowers17(folder: str) -> Data:
    """Read the distances of Flowers17 and its three splits; training and validation samples are for training."""
    path = Path(folder)
    if find_data(path, "distances"):
        return read_user_data(folder, "distances")
    found = {
        name: matrix
        for file, names in FLOWERS17_DISTANCES.items()
        for name, matrix in _variables(path / file, names, FLOWERS17_LAYOUT).items()
    }
    numbers = range(1, FLOWERS17_SPLITS + 1)
    names = [f"{part}{k}" for k in numbers for part in ("trn", "val", "tst")]
    sets = _variables(path / "datasplits.mat", names, FLOWERS17_LAYOUT)
    splits = [_split(sets[f"trn{k}"], sets[f"val{k}"], sets[f"tst{k}"]) for k in numbers]
    X = _stacked(found, folder)
    # images in order of class
    labels = np.repeat(np.arange(1, FLOWERS17_CLASSES + 1), len(X) // FLOWERS17_CLASSES)
    return Data(X, labels, splits=splits)


def flowers102(folder: str) -> Data:
    """Read the distances of Flowers102 and its split; training and validation samples are for training."""
    path = Path(folder)
    if find_data(path, "distances"):
        return read_user_data(folder, "distances")
    found = _variables(path / "distancematrices102.mat", FLOWERS102_DISTANCES, FLOWERS102_LAYOUT)
    labels = _variables(path / "imagelabels.mat", ("labels",), FLOWERS102_LAYOUT)["labels"].ravel()
    sets = _variables(path / "setid.mat", ("trnid", "valid", "tstid"), FLOWERS102_LAYOUT)
    split = _split(sets["trnid"], sets["valid"], sets["tstid"])
    return Data(_stacked(found, folder), labels.astype(int), splits=[split])


def caltech101(folder: str) -> Data:
    """Read the kernels of one of the splits of Caltech101, each of which has images of its own.

    Parameters
    ----------
    folder : str
        Such as ``caltech101/cal101-ker-15-1``, see `CALTECH101_LAYOUT`.

    Returns
    -------
    Data
        Training images first. Kernels between test images are not published and zero here; nothing reads them.
    """
    path = Path(folder)
    if find_data(path, "kernels"):
        return read_user_data(folder)
    files = sorted(path.glob("*.mat"))
    number = path.name.rsplit("-", maxsplit=1)[-1]
    meta = path.parent / "cal101-meta" / f"meta-15-{number}.mat"
    if not files or len(files) % 2:
        raise FileNotFoundError(f"{folder!r} must hold {CALTECH101_LAYOUT}; it has {len(files)} .mat files.")
    classes = _variables(meta, ("trainImageClasses", "testImageClasses"), CALTECH101_LAYOUT)
    y_train, y_test = (classes[f"{part}ImageClasses"].ravel().astype(int) for part in ("train", "test"))
    n_train, n_kernels = len(y_train), len(files) // 2
    X = np.zeros((n_train + len(y_test), n_train + len(y_test), n_kernels))
    for m, (of_train, of_test) in enumerate(zip(files[:n_kernels], files[n_kernels:], strict=True)):
        square = _matrix(of_train, (n_train, n_train))
        cross = _matrix(of_test, (n_train, len(y_test)))
        X[:n_train, :n_train, m] = 0.5 * (square + square.T)
        X[:n_train, n_train:, m], X[n_train:, :n_train, m] = cross, cross.T
    split = (np.arange(n_train), n_train + np.arange(len(y_test)))
    return Data(X, np.concatenate([y_train, y_test]), splits=[split])


def _variables(file: Path, names: Iterable[str], layout: str) -> dict[str, np.ndarray]:
    """Read variables of a MATLAB file."""
    if not file.is_file():
        raise FileNotFoundError(f"{str(file)!r} is not there; the folder must hold {layout}.")
    try:
        found = scipy.io.loadmat(file, variable_names=list(names))
    except NotImplementedError as error:
        raise ValueError(f"{str(file)!r} cannot be read ({error}). Save it with -v7.") from error
    absent = [name for name in names if name not in found]
    if absent:
        raise ValueError(f"{str(file)!r} has no variable {', '.join(absent)}.")
    return {name: np.asarray(found[name], dtype=np.float64) for name in names}


def _matrix(file: Path, shape: tuple[int, int]) -> np.ndarray:
    matrix = _variables(file, ("matrix",), CALTECH101_LAYOUT)["matrix"]
    if matrix.shape != shape:
        raise ValueError(
            f"{str(file)!r} has a matrix of shape {matrix.shape}; the labels make {shape}, training samples as rows."
        )
    return matrix


def _split(train: np.ndarray, validation: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn MATLAB's numbers of samples, from 1, into positions."""
    train = np.concatenate([train.ravel(), validation.ravel()])
    return np.sort(train.astype(int) - 1), np.sort(test.ravel().astype(int) - 1)


def _stacked(distances: dict[str, np.ndarray], folder: str) -> np.ndarray:
    shapes = {name: matrix.shape for name, matrix in distances.items()}
    n_samples = next(iter(shapes.values()))[0]
    wrong = [name for name, shape in shapes.items() if shape != (n_samples, n_samples)]
    if wrong:
        raise ValueError(
            f"{folder!r}: {wrong[0]} has shape {shapes[wrong[0]]} instead of {(n_samples,) * 2}."
        )
    return np.stack(list(distances.values()), axis=2)


def _table(file: Path) -> np.ndarray:
    if not file.is_file():
        raise FileNotFoundError(f"{str(file)!r} is not there; the folder must hold {PROTEIN_LAYOUT}.")
    try:
        return read_numbers(file)
    except ValueError as error:
        raise ValueError(f"{str(file)!r} cannot be read as numbers without a header: {error}") from error


def _quadratic(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return one kernel among all samples, (n_train + n_test, n_train + n_test)."""
    scaled = StandardScaler().fit(train).transform(np.concatenate([train, test]))
    return KernelBank([Polynomial(degree=2)], normalize="spherical").fit_transform(scaled)[:, :, 0]
