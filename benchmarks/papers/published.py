"""Kernels and distances as their publishers distribute them: folders below the one that BAYESMKL_DATA names.

A folder in the layout of :func:`bayesmkl.datasets.load_kernels` is read as well. See the README for what each holds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler

from bayesmkl.datasets import load_kernels
from bayesmkl.kernels import KernelBank, Polynomial
from papers.core import Data


def folder_of(name: str) -> Path:
    """Return the folder of a set that cannot be downloaded by a program."""
    root = os.environ.get("BAYESMKL_DATA")
    if not root or not (Path(root) / name).is_dir():
        raise FileNotFoundError(
            f"set BAYESMKL_DATA to a folder that holds {name}/ (see benchmarks/papers/README.md)"
        )
    return Path(root) / name


def kernels_in(folder: Path, content: str = "kernels") -> Data | None:
    """Read a folder in the layout of ``load_kernels``, if it is one."""
    if not any([*folder.glob(f"{content}.*"), *folder.glob(f"{content[:-1]}_*")]):
        return None
    found = load_kernels(folder, content)
    return Data(found.data, found.target, found.splits)


def features_in(folder: Path) -> np.ndarray:
    """Read a table of features: features.npy, or features.csv with a header."""
    if (folder / "features.npy").is_file():
        return np.load(folder / "features.npy", allow_pickle=False)
    return pd.read_csv(folder / "features.csv").to_numpy(float)


def labels_in(folder: Path) -> np.ndarray:
    """Read labels.npy, or labels.csv with a header."""
    if (folder / "labels.npy").is_file():
        return np.load(folder / "labels.npy", allow_pickle=False)
    return pd.read_csv(folder / "labels.csv").iloc[:, 0].to_numpy()


def unit_trace(kernels: np.ndarray) -> np.ndarray:
    """Divide each kernel of (n_samples, n_samples, n_kernels) by its trace."""
    return kernels / np.einsum("iik->k", kernels)


def protein() -> Data:
    """Read the protein folds: kernels ``(x.z + 1)^2`` of unit diagonal on every standardized representation."""
    folder = folder_of("protein")
    if found := kernels_in(folder):
        return found
    parts = _protein_tables(folder)
    y_train, y_test = (table.ravel().astype(int) for table in parts.pop("label"))
    bank = KernelBank([Polynomial(degree=2)], normalize="spherical")
    stack = [
        bank.fit_transform(StandardScaler().fit(train).transform(np.concatenate([train, test])))[:, :, 0]
        for train, test in parts.values()
    ]
    split = (np.arange(len(y_train)), len(y_train) + np.arange(len(y_test)))
    return Data(np.stack(stack, axis=2), np.concatenate([y_train, y_test]), [split])


def protein_features() -> np.ndarray:
    """Read all representations side by side, training samples first."""
    folder = folder_of("protein")
    if kernels_in(folder):
        return features_in(folder)
    return np.hstack([np.concatenate(p) for name, p in _protein_tables(folder).items() if name != "label"])


def _protein_tables(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read NAME_train.csv and NAME_test.csv of all representations and of the labels."""
    found = {}
    for file in sorted(folder.glob("*_train.csv")):
        name = file.name.removesuffix("_train.csv")
        parts = [
            pd.read_csv(folder / f"{name}_{part}.csv", header=None).to_numpy(float)
            for part in ("train", "test")
        ]
        found["label" if name.endswith("label") else name] = (parts[0], parts[1])
    return found


def flowers17() -> Data:
    """Read the distances of Flowers17 and its three splits; training and validation samples are for training."""
    folder = folder_of("flowers17")
    if found := kernels_in(folder, "distances"):
        return found
    colors = scipy.io.loadmat(folder / "distancematrices17gcfeat06.mat")
    others = scipy.io.loadmat(folder / "distancematrices17itfeat08.mat")
    sets = scipy.io.loadmat(folder / "datasplits.mat")
    names = ("D_colourgc", "D_shapegc", "D_texturegc", "D_hog", "D_hsv", "D_siftint", "D_siftbdy")
    X = np.stack([np.asarray((colors | others)[name], float) for name in names], axis=2)
    splits = [_split(sets[f"trn{k}"], sets[f"val{k}"], sets[f"tst{k}"]) for k in (1, 2, 3)]
    return Data(X, np.repeat(np.arange(1, 18), len(X) // 17), splits)  # images in the order of their classes


def flowers102() -> Data:
    """Read the distances of Flowers102 and its split."""
    folder = folder_of("flowers102")
    if found := kernels_in(folder, "distances"):
        return found
    distances = scipy.io.loadmat(folder / "distancematrices102.mat")
    labels = scipy.io.loadmat(folder / "imagelabels.mat")["labels"].ravel().astype(int)
    sets = scipy.io.loadmat(folder / "setid.mat")
    X = np.stack(
        [np.asarray(distances[name], float) for name in ("Dhsv", "Dhog", "Dsiftint", "Dsiftbdy")], axis=2
    )
    return Data(X, labels, [_split(sets["trnid"], sets["valid"], sets["tstid"])])


def caltech101(number: int) -> Data:
    """Read the kernels of one split of Caltech101; those between test images are not published and zero here."""
    folder = folder_of(f"caltech101/cal101-ker-15-{number}")
    if found := kernels_in(folder):
        return found
    files = sorted(
        folder.glob("*.mat")
    )  # first all kernels of training samples, then those with test samples
    meta = scipy.io.loadmat(folder.parent / "cal101-meta" / f"meta-15-{number}.mat")
    y_train, y_test = (meta[f"{part}ImageClasses"].ravel().astype(int) for part in ("train", "test"))
    n, n_kernels = len(y_train), len(files) // 2
    X = np.zeros((n + len(y_test), n + len(y_test), n_kernels))
    for m, (of_train, of_test) in enumerate(zip(files[:n_kernels], files[n_kernels:], strict=True)):
        square, cross = (scipy.io.loadmat(file)["matrix"] for file in (of_train, of_test))
        X[:n, :n, m] = 0.5 * (square + square.T)
        X[:n, n:, m], X[n:, :n, m] = cross, cross.T
    return Data(X, np.concatenate([y_train, y_test]), [(np.arange(n), n + np.arange(len(y_test)))])


def _split(train: np.ndarray, validation: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn MATLAB's numbers of samples, from 1, into positions."""
    train = np.concatenate([train.ravel(), validation.ravel()])
    return np.sort(train.astype(int) - 1), np.sort(test.ravel().astype(int) - 1)


class DistanceKernels(TransformerMixin, BaseEstimator):
    r"""Turn a stack of distances into kernels :math:`\exp(-d / s)`, :math:`s` the mean of training pairs."""

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> DistanceKernels:
        """Learn the scales from distances among training samples, (n_train, n_train, n_kernels)."""
        off_diagonal = X.sum(axis=(0, 1)) - np.einsum("iik->k", X)
        mean = off_diagonal / max(len(X) * (len(X) - 1), 1)
        self.scales_ = np.where(mean > 0.0, mean, 1.0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the kernels of distances to the training samples, (n_rows, n_train, n_kernels)."""
        return np.exp(-np.asarray(X, dtype=np.float64) / self.scales_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.three_d_array = True
        return tags
