"""Models of partly labeled samples for comparisons: a search among parameters, and GLKS-SSL as an estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesmkl._estimator import split_labels
from bayesmkl._utils.typing import Label
from bayesmkl.discriminative import LapMKLClassifier, knn_laplacian
from bayesmkl.discriminative.estimators.lapmkl import label_withheld
from bayesmkl.discriminative.global_weights.glks import GLKSOptions, fit_glks, graph_kernel
from bayesmkl.kernels.cache import current_cache
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.reproduction.folds import SpreadFolds

__all__ = ["GLKSTransducer", "TransductiveSearch"]

PENALTIES = ("gamma_ambient", "gamma_intrinsic")  # of LapMKL


class TransductiveSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Choose parameters by how well labels that were withheld are found.

    Folds withhold labels, never samples: each candidate is fitted to all samples.

    Parameters
    ----------
    estimator : estimator
        With the parameter `unlabeled_label`, and `transduction_` once fitted.
    candidates : sequence of dict
        Parameters to try; the first of equally good ones wins.
    n_folds : int
        Of the labeled samples.
    random_state : int

    Attributes
    ----------
    best_estimator_, best_params_
        The winner, fitted with all labels.
    scores_ : ndarray of shape (n_candidates,)
        Share of withheld labels found.
    classes_ : ndarray of shape (n_classes,)
    transduction_ : ndarray of shape (n_samples,)
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        candidates: Sequence[Mapping[str, Any]],
        n_folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> TransductiveSearch:
        """Search, and fit the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels and marks.
        """
        y = np.asarray(y)
        labeled = np.flatnonzero(y != self.estimator.unlabeled_label)
        folds = list(SpreadFolds(self.n_folds, random_state=self.random_state).split(labeled, y[labeled]))
        self.scores_ = self._shares_found(X, y, labeled, folds)
        self.best_params_ = dict(self.candidates[int(np.argmax(self.scores_.round(9)))])
        self.best_estimator_ = self._fitted(X, y, self.best_params_)
        self.classes_, self.transduction_ = self.best_estimator_.classes_, self.best_estimator_.transduction_
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the winner's labels of the rows of `X`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    def _fitted(self, X: np.ndarray, y: np.ndarray, params: Mapping[str, Any]) -> Any:
        return clone(self.estimator).set_params(**params).fit(X, y)

    def _shares_found(
        self, X: np.ndarray, y: np.ndarray, labeled: np.ndarray, folds: list[Any]
    ) -> np.ndarray:
        """Return the share of withheld labels that each candidate finds."""
        if len(self.candidates) == 1:
            return np.array([np.nan])
        tested = np.concatenate([held for _, held in folds])
        if type(self.estimator) is LapMKLClassifier and len(np.unique(y[labeled])) == 2:
            found = self._label_by_penalties(X, y, folds)
        else:
            found = np.array(
                [self._label_withheld(X, y, params, labeled, folds) for params in self.candidates]
            )
        return (found[:, tested] == y[labeled[tested]]).mean(axis=1)

    def _label_by_penalties(self, X: np.ndarray, y: np.ndarray, folds: list[Any]) -> np.ndarray:
        """Do what `_label_withheld` does for all candidates; those that differ in penalties alone go together."""
        groups: dict[Any, list[int]] = {}
        for k, params in enumerate(self.candidates):
            others = tuple((name, id(value)) for name, value in params.items() if name not in PENALTIES)
            groups.setdefault(others, []).append(k)
        found = np.empty(
            (len(self.candidates), np.count_nonzero(y != self.estimator.unlabeled_label)), y.dtype
        )
        for some in groups.values():
            model = clone(self.estimator).set_params(**self.candidates[some[0]])
            given = {name: getattr(model, name) for name in PENALTIES}
            pairs = [tuple((given | dict(self.candidates[k]))[name] for name in PENALTIES) for k in some]
            found[some] = label_withheld(model, X, y, folds, pairs)
        return found

    def _label_withheld(
        self, X: np.ndarray, y: np.ndarray, params: Mapping[str, Any], labeled: np.ndarray, folds: list[Any]
    ) -> np.ndarray:
        """Return the labels of all labeled samples, each found without that of its fold, (n_labeled,)."""
        found = y[labeled].copy()
        for _, held in folds:
            partly = y.copy()
            partly[labeled[held]] = self.estimator.unlabeled_label
            found[held] = self._fitted(X, partly, params).transduction_[labeled[held]]
        return found


class GLKSTransducer(ClassifierMixin, BaseEstimator):
    """GLKS-SSL on graphs of several numbers of neighbors (:func:`bayesmkl.discriminative.glks_transduce`).

    It labels the samples that it was fitted to, and no others: `predict` gives each row the label of the nearest
    of these, of equally near ones that of an unlabeled sample.

    Parameters
    ----------
    gamma, constant : float
        As in ``glks_transduce``.
    n_neighbors : sequence of int
        One graph for each.
    distances : callable, default=None
        Function of the samples that returns their distances; Euclidean by default.
    unlabeled_label : label
        Mark of samples without a label.
    """

    def __init__(
        self,
        gamma: float = 1e-3,
        constant: float = 0.0,
        n_neighbors: Sequence[int] = tuple(range(1, 11)),
        distances: Callable[[np.ndarray], np.ndarray] | None = None,
        unlabeled_label: Label | None = 0,
    ) -> None:
        self.gamma = gamma
        self.constant = constant
        self.n_neighbors = n_neighbors
        self.distances = distances
        self.unlabeled_label = unlabeled_label

    def fit(self, X: np.ndarray, y: np.ndarray) -> GLKSTransducer:
        """Label the unlabeled samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels and marks.
        """
        X, y = validate_data(self, X, y)
        kernels = self._kernels(X)
        split = split_labels(y, self.unlabeled_label)
        result = fit_glks(DenseStack(kernels), split, GLKSOptions(self.gamma))
        self.classes_, self.transduction_ = result.classes, result.transduction
        self.kernel_weights_ = result.kernel_weights
        self._order = np.argsort(y != self.unlabeled_label, kind="stable")
        self._X = X
        return self

    def _kernels(self, X: np.ndarray) -> np.ndarray:
        """Return the kernels of the graphs with their constants, from the cache that is in use, if any."""
        cache, of = current_cache(), ("GLKS", X, tuple(self.n_neighbors), self.distances)
        if cache is None:
            return self._add_constants(*self._inverses(X))
        inverses = cache.derived(of, lambda _: self._inverses(X))
        if not self.constant:
            return inverses[0]
        return cache.derived((*of, self.constant), lambda _: self._add_constants(*inverses))

    def _add_constants(self, inverses: np.ndarray, components: np.ndarray) -> np.ndarray:
        return inverses + self.constant * (components[:, :, None] == components[:, None])

    def _inverses(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the inverses of the Laplacians, and the connected component of every sample in each graph."""
        distances = cdist(X, X) if self.distances is None else self.distances(X)
        laplacians = [knn_laplacian(distances, k, "precomputed") for k in self.n_neighbors]
        components = [connected_components(laplacian, directed=False)[1] for laplacian in laplacians]
        return np.stack([graph_kernel(laplacian) for laplacian in laplacians]), np.stack(components)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the labels of the nearest samples."""
        check_is_fitted(self, "transduction_")
        X = validate_data(self, X, reset=False)
        return self.transduction_[self._order][cdist(X, self._X[self._order]).argmin(axis=1)]
