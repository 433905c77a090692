"""Kernels, distances or features in a folder, with labels and splits: one layout for all.

====================================================  ================================================================
File                                                  Content
====================================================  ================================================================
``kernels.npy``                                       array (n_kernels, n_samples, n_samples); or
``kernel_01.npy``, ``kernel_02.npy``, ...             one matrix (n_samples, n_samples) each, in the order of the
                                                      numbers; ``.csv`` (no header) instead of ``.npy`` will do; or
``kernels.mat``                                       variable ``kernels``, (n_samples, n_samples, n_kernels) or as
                                                      above; may hold ``labels`` and ``splits`` as well
``distances.npy``, ``distance_01.npy``, ...           the same for distances
``features.npy``, ``.csv``, ``.svmlight``, ``.mat``   table (n_samples, n_features); ``.csv`` with a header line,
                                                      ``.svmlight`` with the labels in it
``labels.csv``                                        header ``label``, then a label (number or text) per line; or
                                                      ``labels.npy``, or the variable ``labels`` (n_samples,)
``splits.csv``                                        optional: a column per split with its name as header; ``train``,
                                                      ``test`` or nothing in the line of each sample; or the variable
                                                      ``splits`` (n_samples, n_splits) with 1, 2 and 0
====================================================  ================================================================
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from bayesmkl._utils.files import as_path, load_array
from bayesmkl._utils.validation import shown
from bayesmkl.datasets._tables import as_labels, named, unnamed_columns
from bayesmkl.datasets._text import TextTable, numbers_in, read_text

__all__ = ["LAYOUT", "find_data", "load_kernels", "read_folder"]

_LABELS = (
    "and labels.csv (header `label`, one label per line), with splits.csv where the splits are published"
)
_STACK = "(n_kernels, n_samples, n_samples)"
LAYOUT = {
    "kernels": f"kernels.npy {_STACK} or kernel_01.npy, kernel_02.npy, ..., {_LABELS}",
    "distances": f"distances.npy {_STACK} or distance_01.npy, distance_02.npy, ..., {_LABELS}",
    "features": f"features.npy (n_samples, n_features), or .csv or .svmlight, {_LABELS}",
}
_SUFFIXES = {"kernels": (".npy", ".mat"), "distances": (".npy", ".mat")}
_TABLE_SUFFIXES = (".npy", ".csv", ".svmlight", ".mat")
_PARTS = ("train", "test")
Folder = tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]] | None]


def find_data(folder: Path, content: str) -> list[Path]:
    """Return the files that hold the kernels, distances or features; none where there is no such data."""
    for suffix in _SUFFIXES.get(content, _TABLE_SUFFIXES):
        if (folder / f"{content}{suffix}").is_file():
            return [folder / f"{content}{suffix}"]
    numbered = re.compile(rf"{content[:-1]}_(\d+)\.(npy|csv)")
    files = sorted(folder.glob(f"{content[:-1]}_*")) if content != "features" else []
    found = {int(match[1]): file for file in files if (match := numbered.fullmatch(file.name))}
    return [found[number] for number in sorted(found)]


def load_kernels(folder: str | os.PathLike[str], content: str = "kernels", return_X_y: bool = False) -> Any:
    r"""Load kernel matrices of your own, with labels and splits, from a folder.

    Parameters
    ----------
    folder : path
        With the matrices in one of these forms: ``kernels.npy``, an array (n_kernels, n_samples, n_samples);
        ``kernel_01.npy``, ``kernel_02.npy``, ... or the same as ``.csv`` without a header, one matrix each, in the
        order of their numbers; ``kernels.mat`` with the variable ``kernels``, (n_samples, n_samples, n_kernels).
        Rows and columns are all samples, those to train on and those to test on. Beside them ``labels.csv``, with the
        header ``label`` and a number or text per line, or ``labels.npy``, or ``labels`` in the ``.mat`` file; and
        ``splits.csv`` if there are splits, a column with a header each, whose lines hold ``train``, ``test`` or
        nothing (in the ``.mat`` file: ``splits`` with 1, 2 and 0).
    content : {"kernels", "distances"}, default="kernels"
        With "distances" the files have that name, and hold distances: apply a function such as
        :math:`\exp(-d / s)` to make kernels of them.
    return_X_y : bool, default=False
        Return ``(X, y)`` alone.

    Returns
    -------
    data : Bunch
        ``data``: ndarray of shape (n_samples, n_samples, n_kernels), as estimators with ``kernels="precomputed"``
        take it; ``target``: ndarray of shape (n_samples,); ``splits``: list of pairs of positions (train, test), or
        None where there are none.

    Raises
    ------
    FileNotFoundError
        If there are no matrices or labels; the message says which files can hold them.
    ValueError
        If a file cannot be read, matrices are not square or of different sizes, the numbers of samples differ, or
        entries are not finite.
    TypeError
        If `folder` is no path.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from bayesmkl.datasets import load_iris, load_kernels
    >>> from bayesmkl.discriminative import SimpleMKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[50:], y[50:]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.save(Path(place) / "kernels.npy", [X[:, :2] @ X[:, :2].T, X[:, 2:] @ X[:, 2:].T])
    ...     np.save(Path(place) / "labels.npy", y)
    ...     data = load_kernels(place)
    >>> data.data.shape, data.splits is None
    ((100, 100, 2), True)
    >>> train, test = np.arange(0, 100, 2), np.arange(1, 100, 2)
    >>> model = SimpleMKLClassifier("precomputed").fit(data.data[np.ix_(train, train)], data.target[train])
    >>> bool(model.score(data.data[np.ix_(test, train)], data.target[test]) > 0.9)
    True
    """
    if not isinstance(content, str) or content not in ("kernels", "distances"):
        raise ValueError(f"`content` must be 'kernels' or 'distances'; got {shown(content)}.")
    if not isinstance(return_X_y, bool | np.bool_):
        raise ValueError(f"`return_X_y` must be True or False; got {shown(return_X_y)}.")
    path = as_path("folder", folder)
    if not path.is_dir():
        raise FileNotFoundError(f"`folder`: there is no folder {str(path)!r}.")
    X, y, splits = read_folder(path, content)
    return (X, y) if return_X_y else Bunch(data=X, target=y, splits=splits)


def read_folder(path: Path, content: str = "kernels") -> Folder:
    """Read a folder of the layout above.

    Parameters
    ----------
    path : Path
    content : {"kernels", "distances", "features"}

    Returns
    -------
    tuple
        X of shape (n_samples, n_samples, n_kernels), or (n_samples, n_features); labels; the splits of the folder, if
        any.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing, or shapes do not go together.
    """
    folder = str(path)
    files = find_data(path, content)
    if not files:
        raise FileNotFoundError(f"{folder!r} must hold {LAYOUT[content]}.")
    held: dict[str, Any] = {}
    if files[0].suffix == ".mat":
        held = _read_mat(files[0], content)
    elif files[0].suffix == ".svmlight":
        table, labels = load_svmlight_file(str(files[0]))
        held = {content: table.toarray(), "labels": labels}
    elif content == "features":
        held = {content: _read_matrix(files[0], header=True)}
    elif len(files) == 1 and files[0].stem == content:
        held = {content: _read_matrix(files[0])}
    else:
        held = {content: _stacked(files)}
    X = held[content] if content == "features" else _samples_first(held[content], files[0])
    _check_finite(X, folder, content)
    y = _labels(path, held)
    if len(y) != len(X):
        raise ValueError(f"{folder!r} has {content} of {len(X)} samples, but {len(y)} labels.")
    return X, y, _splits(path, held, len(y))


def _read_matrix(file: Path, header: bool = False) -> np.ndarray:
    try:
        if file.suffix == ".npy":
            return np.asarray(load_array(file), dtype=np.float64)
        names, columns = read_text(file, header=header)
        nameless = unnamed_columns(names)
        if nameless:
            raise ValueError(
                f"it has columns without a name: {named(nameless)}. Remove them if they number the rows"
            )
        return numbers_in(columns)
    except ValueError as error:
        raise ValueError(f"{str(file)!r} cannot be read as numbers: {error}") from error


def _read_words(file: Path) -> TextTable:
    try:
        return read_text(file)
    except ValueError as error:
        raise ValueError(f"{str(file)!r} cannot be read: {error}.") from error


def _stacked(files: list[Path]) -> np.ndarray:
    matrices = [_read_matrix(file) for file in files]
    for file, matrix in zip(files, matrices, strict=True):
        if matrix.shape != matrices[0].shape:
            raise ValueError(
                f"{str(file)!r} has shape {matrix.shape}, but {files[0].name} has {matrices[0].shape}; all must be "
                "(n_samples, n_samples)."
            )
    return np.stack(matrices)


def _samples_first(stack: np.ndarray, file: Path) -> np.ndarray:
    """Return (n_samples, n_samples, n_kernels) from that or from kernels first."""
    if stack.ndim == 3 and stack.shape[1] == stack.shape[2]:
        return np.moveaxis(stack, 0, 2)
    if stack.ndim == 3 and stack.shape[0] == stack.shape[1]:
        return stack
    raise ValueError(
        f"{str(file)!r} must hold matrices (n_samples, n_samples) among all samples, training and test; got shape "
        f"{stack.shape}."
    )


def _read_mat(file: Path, content: str) -> dict[str, Any]:
    try:
        found = scipy.io.loadmat(file)
    except (NotImplementedError, ValueError) as error:
        raise ValueError(f"{str(file)!r} cannot be read ({error}). Save it with -v7, or as .npy.") from error
    if content not in found:
        names = ", ".join(name for name in found if not name.startswith("__"))
        raise ValueError(f"{str(file)!r} must have the variable `{content}`; it has {names}.")
    held = {name: found[name] for name in ("labels", "splits") if name in found}
    return {content: np.asarray(found[content], dtype=np.float64), **held}


def _check_finite(X: np.ndarray, folder: str, content: str) -> None:
    if not np.isfinite(X).all():
        raise ValueError(
            f"{folder!r} has {int((~np.isfinite(X)).sum())} numbers in its {content} that are not finite."
        )


def _labels(path: Path, held: dict[str, Any]) -> np.ndarray:
    if (path / "labels.csv").is_file():
        names, columns = _read_words(path / "labels.csv")
        if names != ["label"]:
            raise ValueError(f"{str(path / 'labels.csv')!r} must have one column, `label`; got {names}.")
        labels = as_labels(columns[0])
        missing = int(pd.isna(labels).sum())
        if missing:
            raise ValueError(f"{str(path / 'labels.csv')!r} has {missing} empty labels.")
        return labels.astype(str) if labels.dtype == object else labels
    if (path / "labels.npy").is_file():
        return load_array(path / "labels.npy").ravel()
    if "labels" in held:
        return np.asarray(held["labels"]).ravel()
    raise FileNotFoundError(f"{str(path)!r} has no labels.csv (header `label`, one label per line).")


def _splits(path: Path, held: dict[str, Any], n_samples: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    file = path / "splits.csv"
    if file.is_file():
        table = np.array([column.tolist() for column in _read_words(file).columns]).T
        unknown = sorted(set(np.unique(table)) - {*_PARTS, ""})
        if unknown:
            raise ValueError(f"{str(file)!r} must hold `train`, `test` or nothing; got {str(unknown[0])!r}.")
        parts = np.where(table == "train", 1, np.where(table == "test", 2, 0))
    elif "splits" in held:
        parts = np.asarray(held["splits"], dtype=int)
    else:
        return None
    if len(parts) != n_samples:
        raise ValueError(f"{str(path)!r} has splits of {len(parts)} samples, but {n_samples} labels.")
    return [(np.flatnonzero(column == 1), np.flatnonzero(column == 2)) for column in parts.T]
