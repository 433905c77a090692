"""Data sets of several classes, their views, and how they are split (study of classes)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from papers.uci import fetch
from scipy.fft import dctn
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from bayesmkl.kernels import Gaussian, KernelBank

FOLDS = 10
LEAST = 10  # samples of a class; smaller classes are left out, so that every fold has all of them
SETS = ("iris", "wine", "glass", "ecoli", "digits", "mfeat")
BUNDLED = ("iris", "wine", "digits")
DIGITS = 400  # of 1797 samples
ORIENTATIONS = 8


class ClassSet(NamedTuple):
    """Samples, and the columns of their views; None where all columns are one view."""

    X: np.ndarray
    y: np.ndarray
    views: dict[str, np.ndarray] | None = None


class Part(NamedTuple):
    """A training and a test part, features scaled by the training part, and where the test samples came from."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    test: np.ndarray


def load(name: str, n_samples: int | None = None) -> ClassSet:
    """Read a set; of digits 400 samples, or `n_samples` of any, drawn with the shares of its classes."""
    views = None
    if name == "digits":
        images, y = load_digits(return_X_y=True)
        X, views = digit_views(images.reshape(-1, 8, 8))
        n_samples = n_samples or DIGITS
    elif name in ("iris", "wine"):
        X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    else:
        found = fetch(name)
        X, y = found["data"], found["target"]
        views = found["views"] if name == "mfeat" else None
    labels, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, labels[counts >= LEAST])
    X, y = X[kept], y[kept]
    if n_samples is not None and n_samples < len(y):
        rows = train_test_split(np.arange(len(y)), train_size=n_samples, stratify=y, random_state=0)[0]
        X, y = X[rows], y[rows]
    return ClassSet(X, y, views)


def digit_views(images: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Five views of digits of 8 x 8 pixels, as the columns of one table.

    The pixels; sums of every row and column; means of the 16 blocks of 2 x 2; lengths of gradients in every
    quadrant, summed by their direction (8 of them); and the 16 lowest frequencies of the cosine transform.

    Parameters
    ----------
    images : ndarray of shape (n_samples, 8, 8)

    Returns
    -------
    X : ndarray of shape (n_samples, 144)
    views : dict of str to ndarray
        Columns of each view.
    """
    n_samples = len(images)
    found = {
        "pixels": images,
        "profiles": np.concatenate([images.sum(axis=1), images.sum(axis=2)], axis=1),
        "blocks": images.reshape(n_samples, 4, 2, 4, 2).mean(axis=(2, 4)),
        "gradients": _directions(images),
        "frequencies": dctn(images, axes=(1, 2), norm="ortho")[:, :4, :4],
    }
    tables = [view.reshape(n_samples, -1) for view in found.values()]
    ends = np.cumsum([table.shape[1] for table in tables])
    columns = np.split(np.arange(ends[-1]), ends[:-1])
    return np.concatenate(tables, axis=1), dict(zip(found, columns, strict=True))


def _directions(images: np.ndarray) -> np.ndarray:
    """Lengths of gradients by quadrant and direction, (n_samples, 2, 2, 8)."""
    down, right = np.gradient(images, axis=(1, 2))
    turn = np.arctan2(down, right) / (2.0 * np.pi) % 1.0
    direction = np.round(turn * ORIENTATIONS).astype(int) % ORIENTATIONS
    lengths = np.hypot(down, right)[..., None] * np.eye(ORIENTATIONS)[direction]
    return lengths.reshape(len(images), 2, 4, 2, 4, ORIENTATIONS).sum(axis=(2, 4))


def split(data: ClassSet, train: np.ndarray, test: np.ndarray) -> Part:
    """Standardize features, and scale each view to median distance 1, both by the training part."""
    scaler = StandardScaler().fit(data.X[train])
    X, X_test = scaler.transform(data.X[train]), scaler.transform(data.X[test])
    for columns in (data.views or {}).values():
        median = np.median(pdist(X[:, columns]))
        X[:, columns] /= median
        X_test[:, columns] /= median
    return Part(X, data.y[train], X_test, data.y[test], test)


def parts(name: str, data: ClassSet, repeat: int, n_folds: int = FOLDS) -> Iterator[Part]:
    """Yield the folds of a cross-validation; of mfeat, one random half against the other."""
    rows = np.arange(len(data.y))
    if name == "mfeat":
        yield split(data, *train_test_split(rows, train_size=0.5, stratify=data.y, random_state=repeat))
        return
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=repeat).split(data.X, data.y):
        yield split(data, train, test)


def bank_of(data: ClassSet) -> KernelBank:
    """Build the 13 kernels of the BEMKL paper on all features, or one Gaussian on each view, as wide as its median.

    Views are scaled to median distance 1 before.
    """
    return (
        KernelBank("paper") if data.views is None else KernelBank(Gaussian(width=1.0), views=dict(data.views))
    )
