"""Stratified folds of the training samples, for methods that train SVMs in cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv

from bayesmkl._utils.typing import Seed, Splits
from bayesmkl._utils.validation import check_integer
from bayesmkl._utils.warnings import holding_back

Folds = Sequence[tuple[np.ndarray, np.ndarray]]  # training and validation positions


def evenly_dealt(order: np.ndarray, labels: np.ndarray, n_folds: int, rng: np.random.Generator) -> Folds:
    """Deal the samples of every label over folds that depend on `order` only, not on that of the samples.

    Parameters
    ----------
    order : ndarray of shape (n_dealt,)
        The samples to deal, sorted by what is known of them.
    labels : ndarray of shape (n_samples,)
        Labels, or a constant.
    n_folds : int
        Number of folds; of the largest class as many as there are samples, where these are fewer.
    rng : Generator
        Shuffles.
    """
    shuffled, fold = order[rng.permutation(len(order))], np.full(len(labels), -1)
    for label in np.unique(labels):
        of_class = shuffled[labels[shuffled] == label]
        fold[of_class] = np.arange(len(of_class)) % n_folds
    dealt = np.unique(fold[order])
    return [(np.flatnonzero((fold != f) & (fold >= 0)), np.flatnonzero(fold == f)) for f in dealt]


def stratified_folds(cv: Splits, random_state: Seed | None, targets: np.ndarray) -> Folds:
    """Return training and validation positions of every fold.

    Parameters
    ----------
    cv : int, cross-validation generator or iterable
        Number of stratified, shuffled folds, or what scikit-learn takes.
    random_state : int, Generator, RandomState or None
        Seed of the folds; None is 0.
    targets : ndarray of shape (n_tasks, n_samples)
        Labels -1 and +1; several tasks are classes against the rest.
    """
    labels = (targets[0] > 0.0).astype(int) if len(targets) == 1 else targets.argmax(axis=0)
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        n_folds = check_integer("cv", cv, low=2)
        most = int(np.bincount(labels).max())
        if most < n_folds:
            raise ValueError(
                f"`cv` must not exceed the number of samples of the largest class; got cv={n_folds} with classes "
                f"of at most {most}. Use fewer folds."
            )
        seed = 0 if random_state is None else random_state
        if isinstance(seed, np.random.Generator):  # which scikit-learn does not take
            seed = int(seed.integers(2**31))
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        with holding_back(UserWarning):  # a class with fewer samples than folds is in fewer folds
            return list(splitter.split(labels, labels))
    return list(check_cv(cv, labels, classifier=True).split(np.zeros((len(labels), 1)), labels))
