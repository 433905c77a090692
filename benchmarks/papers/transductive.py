"""Models of partly labeled samples, and splits with few labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import BaseCrossValidator

from bayesmkl.discriminative import glks_transduce, knn_laplacian


class SpreadFolds(BaseCrossValidator):
    """Stratified folds; a class with fewer samples than folds is spread over as many as it has samples.

    Only the first `n_used` folds are tested. A fold that leaves one class alone to train on is skipped.
    """

    def __init__(self, n_splits: int = 5, n_used: int | None = None, random_state: int = 0) -> None:
        self.n_splits, self.n_used, self.random_state = n_splits, n_used, random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return how many folds `split` yields."""
        return sum(1 for _ in self.split(X, y)) if y is not None else self.n_used or self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows to train on and rows to test on."""
        y = np.asarray(y)
        rng = np.random.default_rng(self.random_state)
        fold = np.empty(len(y), dtype=int)
        offset = 0
        for label in np.unique(y):
            members = rng.permutation(np.flatnonzero(y == label))
            fold[members] = (offset + np.arange(len(members))) % self.n_splits
            offset += len(members)
        for k in range(self.n_splits)[: self.n_used]:
            train = np.flatnonzero(fold != k)
            if len(np.unique(y[train])) > 1:
                yield train, np.flatnonzero(fold == k)


class FewLabeled(BaseCrossValidator):
    """Random draws of `n_per_class` samples of each class: `n_labeled` to train on, the others to test on."""

    def __init__(self, n_splits: int, n_labeled: int, n_per_class: int, random_state: int = 0) -> None:
        self.n_splits, self.n_labeled, self.n_per_class = n_splits, n_labeled, n_per_class
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of draws."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows to train on and rows to test on."""
        y = np.asarray(y)
        classes = [np.flatnonzero(y == label) for label in np.unique(y)]
        for k in range(self.n_splits):
            rng = np.random.default_rng((self.random_state, k))
            drawn = [rng.permutation(rows)[: self.n_per_class] for rows in classes]
            train = np.concatenate([rows[: self.n_labeled] for rows in drawn])
            yield train, np.concatenate([rows[self.n_labeled :] for rows in drawn])


class TransductiveSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Choose parameters by how well labels that were withheld are found; the first of equally good ones wins.

    Folds withhold labels, never samples: each candidate is fitted to all samples.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        candidates: Sequence[Mapping[str, Any]],
        n_folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.estimator, self.candidates = estimator, candidates
        self.n_folds, self.random_state = n_folds, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> TransductiveSearch:
        """Search, and fit the winner; `y` holds labels and marks."""
        y = np.asarray(y)
        labeled = np.flatnonzero(y != self.estimator.unlabeled_label)
        folds = list(SpreadFolds(self.n_folds, random_state=self.random_state).split(labeled, y[labeled]))
        self.scores_ = self._shares_found(X, y, labeled, folds)
        self.best_params_ = dict(self.candidates[int(np.argmax(self.scores_.round(9)))])
        self.best_estimator_ = self._fitted(X, y, self.best_params_)
        self.classes_, self.transduction_ = self.best_estimator_.classes_, self.best_estimator_.transduction_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the winner's labels of the rows of `X`."""
        return self.best_estimator_.predict(X)

    def _fitted(self, X: np.ndarray, y: np.ndarray, params: Mapping[str, Any]) -> Any:
        return clone(self.estimator).set_params(**params).fit(X, y)

    def _shares_found(
        self, X: np.ndarray, y: np.ndarray, labeled: np.ndarray, folds: list[Any]
    ) -> np.ndarray:
        """Return the share of withheld labels that each candidate finds."""
        if len(self.candidates) == 1:
            return np.array([np.nan])
        found = np.array([self._label_withheld(X, y, params, labeled, folds) for params in self.candidates])
        tested = np.concatenate([held for _, held in folds])
        return (found[:, tested] == y[labeled[tested]]).mean(axis=1)

    def _label_withheld(
        self, X: np.ndarray, y: np.ndarray, params: Mapping[str, Any], labeled: np.ndarray, folds: list[Any]
    ) -> np.ndarray:
        """Return the labels of all labeled samples, each found without that of its fold."""
        found = y[labeled].copy()
        for _, held in folds:
            partly = y.copy()
            partly[labeled[held]] = self.estimator.unlabeled_label
            found[held] = self._fitted(X, partly, params).transduction_[labeled[held]]
        return found


class GLKSTransducer(ClassifierMixin, BaseEstimator):
    """GLKS-SSL on graphs of several numbers of neighbors (:func:`bayesmkl.discriminative.glks_transduce`).

    It labels the samples that it was fitted to: `predict` gives each row the label of the nearest of these, of
    equally near ones that of an unlabeled sample. `distances` is a function of the samples; Euclidean by default.
    """

    def __init__(
        self,
        gamma: float = 1e-3,
        constant: float = 0.0,
        n_neighbors: Sequence[int] = tuple(range(1, 11)),
        distances: Callable[[np.ndarray], np.ndarray] | None = None,
        unlabeled_label: Any = 0,
    ) -> None:
        self.gamma, self.constant, self.n_neighbors = gamma, constant, n_neighbors
        self.distances, self.unlabeled_label = distances, unlabeled_label

    def fit(self, X: np.ndarray, y: np.ndarray) -> GLKSTransducer:
        """Label the unlabeled samples."""
        distances = cdist(X, X) if self.distances is None else self.distances(X)
        laplacians = [knn_laplacian(distances, k, "precomputed") for k in self.n_neighbors]
        result = glks_transduce(
            laplacians, y, unlabeled_label=self.unlabeled_label, gamma=self.gamma, constant=self.constant
        )
        self.classes_, self.transduction_ = result.classes, result.transduction
        self.kernel_weights_ = result.kernel_weights
        self._order = np.argsort(y != self.unlabeled_label, kind="stable")
        self._X = X
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the labels of the nearest samples."""
        return self.transduction_[self._order][cdist(X, self._X[self._order]).argmin(axis=1)]
