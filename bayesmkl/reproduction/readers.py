"""Readers of kernels, distances or features that users bring: one layout of a folder for all sets.

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

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_svmlight_file
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.files import load_array
from bayesmkl.datasets._tables import as_labels, named, unnamed_columns
from bayesmkl.datasets._text import TextTable, numbers_in, read_text
from bayesmkl.evaluation.study import Data

__all__ = ["LAYOUT", "DistanceKernels", "find_data", "read_user_data"]

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


def find_data(folder: Path, content: str) -> list[Path]:
    """Return the files that hold the kernels, distances or features; none where there is no such data."""
    for suffix in _SUFFIXES.get(content, _TABLE_SUFFIXES):
        if (folder / f"{content}{suffix}").is_file():
            return [folder / f"{content}{suffix}"]
    numbered = re.compile(rf"{content[:-1]}_(\d+)\.(npy|csv)")
    files = sorted(folder.glob(f"{content[:-1]}_*")) if content != "features" else []
    found = {int(match[1]): file for file in files if (match := numbered.fullmatch(file.name))}
    return [found[number] for number in sorted(found)]


def read_user_data(folder: str, content: str = "kernels", unit_trace: bool = False) -> Data:
    """Read a folder of the layout above.

    Parameters
    ----------
    folder : str
    content : {"kernels", "distances", "features"}
    unit_trace : bool
        Divide each kernel by its trace over all samples.

    Returns
    -------
    Data
        X of shape (n_samples, n_samples, n_kernels), or (n_samples, n_features); the splits of the folder, if any.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing, or shapes do not go together.
    """
    path = Path(folder)
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
    if unit_trace:
        X = X / np.einsum("iik->k", X)
    y = _labels(path, held)
    if len(y) != len(X):
        raise ValueError(f"{folder!r} has {content} of {len(X)} samples, but {len(y)} labels.")
    return Data(X, y, splits=_splits(path, held, len(y)))


class DistanceKernels(TransformerMixin, BaseEstimator):
    r"""Turn a stack of distances into kernels :math:`\exp(-d / s)`, :math:`s` the mean of training pairs.

    The rule of Gönen (2012, section 6.2.2) for the distance matrices of the flower sets; a step before an estimator
    with ``kernels="precomputed"``.

    Attributes
    ----------
    scales_ : ndarray of shape (n_kernels,)
        Mean distance over pairs of different training samples.

    Examples
    --------
    >>> import numpy as np
    >>> distances = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])[:, :, None]
    >>> kernels = DistanceKernels().fit(distances)
    >>> kernels.scales_
    array([2.])
    >>> kernels.transform(distances[:1])[0, :, 0].round(4)
    array([1.    , 0.6065, 0.2231])
    """

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> DistanceKernels:
        """Learn the scales from distances among training samples, (n_train, n_train, n_kernels)."""
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 3 or X.shape[0] != X.shape[1]:
            raise ValueError(f"`X` must be distances of shape (n_train, n_train, n_kernels); got {X.shape}.")
        off_diagonal = X.sum(axis=(0, 1)) - np.einsum("iik->k", X)
        mean = off_diagonal / max(len(X) * (len(X) - 1), 1)
        self.scales_ = np.where(mean > 0.0, mean, 1.0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the kernels of distances to the training samples, (n_rows, n_train, n_kernels)."""
        check_is_fitted(self, "scales_")
        return np.exp(-np.asarray(X, dtype=np.float64) / self.scales_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.three_d_array = True
        return tags


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
