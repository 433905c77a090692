"""Data and methods of the SAMKL paper: kernels of unit trace, pairs of protein folds, kernels with gate features.

LMKL alone needs features besides the kernels. They travel as further slices of the stack, each the same in all
columns; :class:`WithGateFeatures` takes the stack apart.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from bayesmkl.datasets import make_corrupted
from bayesmkl.datasets._text import read_numbers
from bayesmkl.discriminative import (
    LpMKLClassifier,
    SAMKLClassifier,
    SimpleMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.evaluation.study import Data, DataRef
from bayesmkl.reproduction.bemkl_files import protein
from bayesmkl.reproduction.readers import find_data, read_user_data
from bayesmkl.reproduction.standins import synthetic_features, synthetic_kernels
from bayesmkl.reproduction.tables import PaperSet, Setting, references, set_name

__all__ = [
    "NORMALIZED",
    "PAPER",
    "WithGateFeatures",
    "convex",
    "corrupted",
    "halves_of_classes",
    "of_unit_trace",
    "protein_and_features",
    "protein_pair",
    "protein_stand_in",
    "switching",
    "unit_trace_stand_in",
    "wanted_fast",
    "with_features",
]

PER_CLASS = 15  # training and test samples of Caltech-101
STAND_IN_PER_CLASS, STAND_IN_CLASSES, STAND_IN_KERNELS = 16, 16, 12
PAPER = "X. Liu, L. Wang, J. Zhang and J. Yin (2014), Sample-adaptive multiple kernel learning, AAAI"
GAP = 1e-2  # relative duality gap of all convex problems, the default of SAMKL
NORMALIZED = "scores divided by τ"


class WithGateFeatures(ClassifierMixin, BaseEstimator):
    """A classifier whose gates are functions of features, which come with the kernels in one stack.

    Parameters
    ----------
    estimator : estimator
        With ``kernels="precomputed"``, and `gate_features` as an argument of its methods.
    n_kernels : int
        The first slices are kernels. The others are features: ``X[i, :, n_kernels + k]`` is feature k of row i.
    """

    def __init__(self, estimator: BaseEstimator, n_kernels: int) -> None:
        self.estimator, self.n_kernels = estimator, n_kernels

    def fit(self, X: np.ndarray, y: np.ndarray) -> WithGateFeatures:
        """Fit the estimator to kernels (n_samples, n_samples, n_kernels) and features (n_samples, n_features)."""
        kernels, features = self._apart(X)
        self.estimator_ = clone(self.estimator).fit(kernels, y, gate_features=features)
        for name in ("classes_", "support_fraction_", "n_active_kernels_", "converged_"):
            setattr(self, name, getattr(self.estimator_, name))
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the scores of rows, (n_rows,) or (n_rows, n_classes)."""
        check_is_fitted(self, "estimator_")
        kernels, features = self._apart(X)
        return self.estimator_.decision_function(kernels, gate_features=features)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the labels of rows, (n_rows,)."""
        check_is_fitted(self, "estimator_")
        kernels, features = self._apart(X)
        return self.estimator_.predict(kernels, gate_features=features)

    def _apart(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return X[:, :, : self.n_kernels], X[:, 0, self.n_kernels :]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.three_d_array = True
        return tags


def with_features(kernels: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Append features (n_samples, n_features) to kernels (n_samples, n_samples, n_kernels).

    Examples
    --------
    >>> import numpy as np
    >>> with_features(np.ones((3, 3, 2)), np.arange(6.0).reshape(3, 2))[1, :, 2:]
    array([[2., 3.],
           [2., 3.],
           [2., 3.]])
    """
    columns = np.broadcast_to(features[:, None, :], (*kernels.shape[:2], features.shape[1]))
    return np.concatenate([kernels, columns], axis=2)


def divided_by_trace(kernels: np.ndarray) -> np.ndarray:
    """Divide each kernel of (n_samples, n_samples, n_kernels) by its trace."""
    return kernels / np.einsum("iik->k", kernels)


# ----------------------------------------------------------------------------------------------- kernels of table 2


def of_unit_trace(folder: str) -> Data:
    """Read kernels; each is divided by its trace over all samples."""
    data = read_user_data(folder)
    return data._replace(X=divided_by_trace(data.X))


def halves_of_classes(folder: str) -> Data:
    """Read kernels of unit trace whose split has 15 training and 15 test samples of each class."""
    data = of_unit_trace(folder)
    for split in data.splits or []:
        for name, rows in zip(("training", "test"), split, strict=True):
            counts = np.unique(data.y[rows], return_counts=True)[1]
            if (counts != PER_CLASS).any():
                raise ValueError(
                    f"{folder!r} must have {PER_CLASS} {name} samples of each class; it has from {counts.min()} to "
                    f"{counts.max()}."
                )
    return data


def unit_trace_stand_in(n_samples: int, n_kernels: int, n_classes: int, n_splits: int | None = None) -> Data:
    """Return synthetic kernels of unit trace."""
    data = synthetic_kernels(n_samples, n_kernels, n_classes, n_splits=n_splits)
    return data._replace(X=divided_by_trace(data.X))


# ---------------------------------------------------------------------------------------------------- protein folds


def protein_and_features(folder: str) -> Data:
    """Read the kernels of all folds, after a look at the features, which LMKL needs."""
    data = protein(folder)
    features = protein_features(folder)
    if len(features) != len(data.y):
        raise ValueError(f"{folder!r} has features of {len(features)} samples, but {len(data.y)} labels.")
    return data


def protein_features(folder: str) -> np.ndarray:
    """Read all representations side by side, (n_samples, n_features), training samples first."""
    path = Path(folder)
    if find_data(path, "kernels"):
        return read_user_data(folder, "features").X
    names = [file.name[: -len("_train.csv")] for file in sorted(path.glob("*_train.csv"))]
    return np.hstack(
        [
            np.concatenate([read_numbers(path / f"{name}_{part}.csv") for part in ("train", "test")])
            for name in names
            if not name.endswith("label")
        ]
    )


def protein_stand_in() -> Data:
    """Return synthetic kernels of as many folds as the paper has at most, with a split into halves."""
    n_samples = STAND_IN_PER_CLASS * STAND_IN_CLASSES
    return synthetic_kernels(n_samples, STAND_IN_KERNELS, STAND_IN_CLASSES, n_splits=1)


@lru_cache(maxsize=1)
def _protein(folder: str | None) -> tuple[Data, np.ndarray]:
    if folder is not None:
        return protein(folder), protein_features(folder)
    data = protein_stand_in()
    return data, synthetic_features(len(data.y), 4, STAND_IN_CLASSES).X


def protein_pair(first: int, second: int, features: bool, folder: str | None = None) -> Data:
    """Return the samples of two folds and their part of the split; kernels have unit trace.

    Parameters
    ----------
    first, second : int
        Numbers of the folds, the smallest label being 1.
    features : bool
        Append features, as :func:`with_features` does.
    folder : str or None
        None is the stand-in.
    """
    data, table = _protein(folder)
    labels = np.unique(data.y)[[first - 1, second - 1]]
    rows = np.flatnonzero(np.isin(data.y, labels))
    kernels = divided_by_trace(data.X[np.ix_(rows, rows)])
    X = with_features(kernels, table[rows]) if features else kernels
    train, test = (data.splits or [])[0]
    splits = [(np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test)))]
    return Data(X, data.y[rows], splits=splits)


# -------------------------------------------------------------------------------------------------- corrupted kernels


def corrupted(
    name: str, corruption: str, fraction: float, n_samples: int, features: bool = False, seed: int = 0
) -> Data:
    """Draw kernels that are useless for some samples, :func:`bayesmkl.datasets.make_corrupted`."""
    sample = make_corrupted(n_samples, corruption=corruption, fraction=fraction, random_state=seed)
    return Data(with_features(sample.kernels, sample.data) if features else sample.kernels, sample.target)


def convex(C: float = 1.0) -> dict[str, Any]:
    """Return the estimators of table 2 for kernels, but for SAMKL."""
    found: dict[str, Any] = {"SimpleMKL": SimpleMKLClassifier("precomputed", C=C, tol=GAP)}
    for p_norm in (2, 4, 8):
        found[f"LpMKL, p = {p_norm}"] = LpMKLClassifier("precomputed", C=C, p_norm=float(p_norm), tol=GAP)
    return found | {"UMKL": UniformMKLClassifier("precomputed", C=C)}


def switching(max_switches: int, C: float = 1.0) -> dict[str, Any]:
    """Return SAMKL as published, and with scores divided by the margins of their patterns."""
    published: dict[str, Any] = {"ties": "largest", "fallback": False, "gap_tol": GAP}
    plain = SAMKLClassifier("precomputed", C=C, max_switches=max_switches, **published)
    return {"SAMKL": plain, "SAMKL, normalized": clone(plain).set_params(normalize=True)}


def wanted_fast(sets: tuple[PaperSet, ...], names: tuple[str, ...], setting: Setting) -> dict[str, DataRef]:
    """Return the references of all sets, or of the named ones in a fast run."""
    found = references(sets, setting)
    if not setting.fast or setting.sets is not None:
        return found
    return {label: reference for label, reference in found.items() if set_name(label) in names}
