"""Kernels or distances in a folder, with labels and splits: one layout for all.

====================================================  ================================================================
File                                                  Content
====================================================  ================================================================
``kernels.npy``                                       array (n_kernels, n_samples, n_samples); or
``kernel_01.npy``, ``kernel_02.npy``, ...             one matrix (n_samples, n_samples) each, in the order of the
                                                      numbers; ``.csv`` (no header) instead of ``.npy`` will do; or
``kernels.mat``                                       variable ``kernels``, (n_samples, n_samples, n_kernels) or as
                                                      above; may hold ``labels`` and ``splits`` as well
``distances.npy``, ``distance_01.npy``, ...           the same for distances
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
from scipy.sparse import issparse
from sklearn.utils import Bunch

from bayesmkl._utils.files import as_path, load_array
from bayesmkl._utils.validation import shown
from bayesmkl.datasets._tables import as_labels, named
from bayesmkl.datasets._text import TextTable, numbers_in, read_text

_LABELS = (
    "and labels.csv (header `label`, one label per line), with splits.csv where the splits are published"
)
_STACK = "(n_kernels, n_samples, n_samples)"
LAYOUT = {
    "kernels": f"kernels.npy {_STACK} or kernel_01.npy, kernel_02.npy, ..., {_LABELS}",
    "distances": f"distances.npy {_STACK} or distance_01.npy, distance_02.npy, ..., {_LABELS}",
}
_PARTS = ("train", "test")
Folder = tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]] | None]


def _find_data(folder: Path, content: str) -> list[Path]:
    """Return the files that hold the kernels or distances; none where there is no such data."""
    whole = [file for suffix in (".npy", ".mat") if (file := folder / f"{content}{suffix}").is_file()]
    numbered = re.compile(rf"{content[:-1]}_(\d+)\.(npy|csv)")
    files = sorted(folder.glob(f"{content[:-1]}_*"))
    single = sorted((int(match[1]), file) for file in files if (match := numbered.fullmatch(file.name)))
    numbers = [number for number, _ in single]
    if len(whole) > 1 or (whole and single):
        raise ValueError(
            f"{_which(folder, [*whole, *(file for _, file in single)])} Remove all forms but one."
        )
    for number, (first, file), (second, other) in zip(numbers, single, single[1:], strict=False):
        if first == second:
            raise ValueError(f"{_which(folder, [file, other])} Both are number {number}; remove one.")
    lacking = sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if single else []
    if lacking:
        raise ValueError(
            f"{str(folder)!r} has {content} {numbers[0]} to {numbers[-1]}, but none with number {lacking[0]}. Copy "
            "the file, or number those that are there without gaps."
        )
    return whole or [file for _, file in single]


def _which(folder: Path, files: list[Path]) -> str:
    """Say that files would all be the same thing."""
    names = ", ".join(file.name for file in files[:3]) + (", ..." if len(files) > 3 else "")
    return f"{str(folder)!r} holds {names}, and nothing says which of them count."


def load_kernels(folder: str | os.PathLike[str], content: str = "kernels", return_X_y: bool = False) -> Any:
    r"""Load kernel matrices of your own, with labels and splits, from a folder.

    Parameters
    ----------
    folder : path
        With the matrices in one of these forms: ``kernels.npy``, an array (n_kernels, n_samples, n_samples);
        ``kernel_01.npy``, ``kernel_02.npy``, ... or the same as ``.csv`` without a header, one matrix each, in the
        order of their numbers; ``kernels.mat`` with the variable ``kernels``, (n_samples, n_samples, n_kernels).
        Where there are as many kernels as samples, the order is the one in which all matrices are symmetric.
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
        entries are not finite real numbers; if there are several forms of the same, or a number is left out; if a
        label is missing, or a split has no sample to train or to test on.
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
    X, y, splits = _read_folder(path, content)
    return (X, y) if return_X_y else Bunch(data=X, target=y, splits=splits)


def _read_folder(path: Path, content: str) -> Folder:
    folder = str(path)
    files = _find_data(path, content)
    if not files:
        raise FileNotFoundError(f"{folder!r} must hold {LAYOUT[content]}.")
    held: dict[str, Any] = {}
    if files[0].suffix == ".mat":
        held = _read_mat(files[0], content)
    elif len(files) == 1 and files[0].stem == content:
        held = {content: _read_matrix(files[0])}
    else:
        held = {content: _stacked(files)}
    X = _samples_first(held[content], files[0])
    _check_finite(X, folder, content)
    y = _labels(path, held)
    if len(y) != len(X):
        raise ValueError(f"{folder!r} has {content} of {len(X)} samples, but {len(y)} labels.")
    return X, y, _splits(path, held, len(y))


def _read_matrix(file: Path) -> np.ndarray:
    try:
        if file.suffix == ".npy":
            return _real(load_array(file))
        return numbers_in(read_text(file, header=False).columns)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{str(file)!r} cannot be read as numbers: {error}") from error


def _real(found: Any) -> np.ndarray:
    """Return real numbers in double precision; raise for other objects."""
    array = np.asarray(found)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"it holds entries of type {array.dtype}, not real numbers")
    return array.astype(np.float64)


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
    is_mat = file.suffix == ".mat"
    if is_mat and stack.ndim == 2:  # MATLAB drops the last axis of one kernel
        stack = stack[:, :, None]
    first = stack.ndim == 3 and stack.shape[1] == stack.shape[2]
    last = stack.ndim == 3 and stack.shape[0] == stack.shape[1]
    if stack.size == 0 or not (first or last):
        raise ValueError(
            f"{str(file)!r} must hold matrices (n_samples, n_samples) among all samples, training and test, of one "
            f"or more kernels: {_STACK}; got shape {stack.shape}. One matrix alone is kernel_01.npy."
        )
    if first and last:  # as many kernels as samples: their symmetry says which axis is which
        of_first, of_last = (
            np.allclose(stack, np.swapaxes(stack, *axes), equal_nan=True) for axes in ((1, 2), (0, 1))
        )
        first = not is_mat if of_first == of_last else of_first
    return np.moveaxis(stack, 0, 2) if first else stack


def _read_mat(file: Path, content: str) -> dict[str, Any]:
    try:
        found = scipy.io.loadmat(file, chars_as_strings=True)
    except Exception as error:  # of damaged files the reader raises what it may
        raise ValueError(f"{str(file)!r} cannot be read ({error}). Save it with -v7, or as .npy.") from error
    if content not in found:
        names = ", ".join(name for name in found if not name.startswith("__"))
        raise ValueError(f"{str(file)!r} must have the variable `{content}`; it has {names}.")
    try:
        values = found[content]
        held = {content: _real(values.toarray() if issparse(values) else values)}
    except ValueError as error:
        raise ValueError(
            f"{str(file)!r} must have an array of numbers `{content}`, (n_samples, n_samples, n_kernels): {error}."
        ) from error
    return held | {name: _texts(found[name]) for name in ("labels", "splits") if name in found}


def _texts(values: Any) -> np.ndarray:
    """Return the entries of a cell array as such, and texts without the blanks that fill them up."""
    array = np.asarray(values)
    if array.dtype == object:
        entries = [np.asarray(entry).ravel() for entry in array.ravel()]
        array = np.array([entry[0] if len(entry) == 1 else None for entry in entries], dtype=object).reshape(
            array.shape
        )
        if all(isinstance(entry, str) for entry in array.flat):
            array = array.astype(str)
    return np.char.rstrip(array) if array.dtype.kind == "U" else array


def _check_finite(X: np.ndarray, folder: str, content: str) -> None:
    if not np.isfinite(X).all():
        raise ValueError(
            f"{folder!r} has {int((~np.isfinite(X)).sum())} numbers in its {content} that are not finite."
        )


def _labels(path: Path, held: dict[str, Any]) -> np.ndarray:
    files = [file for name in ("labels.csv", "labels.npy") if (file := path / name).is_file()]
    if len(files) > 1:
        raise ValueError(f"{_which(path, files)} Remove one.")
    if files and "labels" in held:
        raise ValueError(
            f"{str(path)!r} has labels twice: in {files[0].name}, and beside the numbers. Remove one."
        )
    if not files and "labels" not in held:
        raise FileNotFoundError(f"{str(path)!r} has no labels.csv (header `label`, one label per line).")
    where = str(files[0] if files else path)
    if not files:
        labels = np.asarray(held["labels"])
    elif files[0].suffix == ".npy":
        try:
            labels = np.asarray(load_array(files[0]))
        except (OSError, EOFError, ValueError) as error:
            raise ValueError(
                f"{where!r} cannot be read as numbers or texts ({error}). Save labels with np.save(file, "
                "np.asarray(labels, dtype=str))."
            ) from error
    else:
        names, columns = _read_words(files[0])
        if names != ["label"]:
            raise ValueError(
                f"{where!r} must have one column, `label`; got {named(names)}. The first line is the header."
            )
        labels = as_labels(columns[0])
        labels = labels.astype(str) if labels.dtype == object and not pd.isna(labels).any() else labels
    if labels.ndim == 0 or max(labels.shape, default=0) != labels.size:
        raise ValueError(f"{where!r} must hold a label per sample, (n_samples,); got shape {labels.shape}.")
    missing = int(pd.isna(labels).sum())
    if missing:
        raise ValueError(f"{where!r} has {missing} empty labels.")
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"{where!r} must hold labels that are numbers or texts; got type {labels.dtype}.")
    return labels.ravel()


def _splits(path: Path, held: dict[str, Any], n_samples: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    file = path / "splits.csv"
    if file.is_file() and "splits" in held:
        raise ValueError(
            f"{str(path)!r} has splits twice: in {file.name}, and beside the numbers. Remove one."
        )
    if file.is_file():
        table = np.array([column.tolist() for column in _read_words(file).columns]).T
        unknown = sorted(set(np.unique(table)) - {*_PARTS, ""})
        if unknown:
            raise ValueError(f"{str(file)!r} must hold `train`, `test` or nothing; got {str(unknown[0])!r}.")
        parts = np.where(table == "train", 1, np.where(table == "test", 2, 0))
    elif "splits" in held:
        parts = np.asarray(held["splits"])
        other = parts[~np.isin(parts, (0, 1, 2))]
        if other.size:
            raise ValueError(
                f"{str(path)!r}: `splits` must hold 1 (train), 2 (test) and 0; got {shown(other.ravel()[0].item())}."
            )
        parts = parts.T if len(parts) == 1 else parts
    else:
        return None
    if parts.ndim != 2 or len(parts) != n_samples:
        raise ValueError(
            f"{str(path)!r} must have splits of shape (n_samples, n_splits), with {n_samples} samples as the labels; "
            f"got shape {parts.shape}."
        )
    splits = [(np.flatnonzero(column == 1), np.flatnonzero(column == 2)) for column in parts.T]
    for number, (train, test) in enumerate(splits, 1):
        if not len(train) or not len(test):
            raise ValueError(
                f"{str(path)!r}: split {number} has {len(train)} samples to train on and {len(test)} to test on; "
                "both are needed."
            )
    return splits
