"""Splits of data with few samples or few labels of a class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

__all__ = ["FewLabeled", "SpreadFolds"]


class SpreadFolds(BaseCrossValidator):
    """Stratified folds; a class with fewer samples than folds is spread over as many folds as it has samples.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    n_used : int, optional
        Test only the first so many of them; the parts to train on stay as large as they are.
    random_state : int

    Notes
    -----
    A fold without which only one class is left to train on (the only sample of a class is in it) is skipped.

    Examples
    --------
    >>> y = np.array([0] * 8 + [1] * 2)
    >>> [int(y[test].sum()) for _, test in SpreadFolds(5).split(y, y)]
    [0, 0, 0, 1, 1]
    """

    def __init__(self, n_splits: int = 5, n_used: int | None = None, random_state: int = 0) -> None:
        self.n_splits, self.n_used, self.random_state = n_splits, n_used, random_state

    def get_n_splits(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Return how many folds `split` yields for these labels."""
        if y is None:
            return self.n_splits if self.n_used is None else self.n_used
        return sum(1 for _ in self.split(X, y))

    def split(
        self, X: ArrayLike | None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
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
    """Random draws of some samples of each class, of which a few are to train on and the others to test on.

    Parameters
    ----------
    n_splits : int
        Number of draws.
    n_labeled : int
        Samples of each class to train on.
    n_per_class : int
        Samples of each class in all.
    random_state : int
    """

    def __init__(self, n_splits: int, n_labeled: int, n_per_class: int, random_state: int = 0) -> None:
        self.n_splits, self.n_labeled, self.n_per_class = n_splits, n_labeled, n_per_class
        self.random_state = random_state

    def get_n_splits(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Return the number of draws."""
        return self.n_splits

    def split(
        self, X: ArrayLike | None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows to train on and rows to test on."""
        y = np.asarray(y)
        classes = [np.flatnonzero(y == label) for label in np.unique(y)]
        for k in range(self.n_splits):
            rng = np.random.default_rng((self.random_state, k))
            drawn = [rng.permutation(rows)[: self.n_per_class] for rows in classes]
            train = np.concatenate([rows[: self.n_labeled] for rows in drawn])
            yield train, np.concatenate([rows[self.n_labeled :] for rows in drawn])
