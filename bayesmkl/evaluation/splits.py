"""Splits of the samples of a comparison: stratified for classes and events, with groups in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.utils.multiclass import type_of_target

from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.typing import Splits
from bayesmkl._utils.validation import shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.evaluation.study import Data

STRATIFIED = (StratifiedKFold, StratifiedGroupKFold, StratifiedShuffleSplit, RepeatedStratifiedKFold)


class ByEvent(BaseEstimator):
    """A stratified splitter of scikit-learn that keeps the share of events of survival times."""

    def __init__(self, splitter: Any) -> None:
        self.splitter = splitter

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return int(self.splitter.get_n_splits(X, y, groups))

    def split(self, X: Any, y: np.ndarray, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Go through the positions of training and test samples."""
        return self.splitter.split(np.zeros(len(y)), event_and_time(y).event.astype(int), groups)


def as_splitter(cv: Any, data: Data, random_state: int, classifier: bool) -> Any:
    """Turn `cv` into an object with ``split``, the same in every process.

    A number stands for shuffled folds, stratified for classes and by the event of survival times, which keep groups
    together where there are any. A splitter that shuffles without a seed gets `random_state`.
    """
    times = are_times(data.y)
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"`cv` must be at least 2 folds; got {cv}.")
        stratified = times or (classifier and type_of_target(data.y) in ("binary", "multiclass"))
        if data.groups is not None:
            kind = StratifiedGroupKFold if stratified else GroupKFold
        else:
            kind = StratifiedKFold if stratified else KFold
        cv = kind(int(cv), shuffle=True, random_state=random_state)
    elif isinstance(cv, BaseCrossValidator) or (hasattr(cv, "split") and hasattr(cv, "get_n_splits")):
        cv = deepcopy(cv)
        if getattr(cv, "random_state", 0) is None and getattr(cv, "shuffle", True):
            cv.random_state = random_state
    else:
        raise ValueError(
            f"`cv` must be a number of folds, a splitter of scikit-learn, pairs (train, test), or None; got {cv!r}."
        )
    return ByEvent(cv) if times and isinstance(cv, STRATIFIED) else cv


def splits_of(
    cv: Splits | None, data: Data, random_state: int, classifier: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the positions of training and test rows of all splits.

    Raises
    ------
    ValueError
        If `cv` is nothing to split by, or does not split these samples: it has more folds than there are groups or
        samples of a class, say, or leaves a part empty; or if survival times are split so that a part has no event.
    """
    if cv is None:
        if data.splits is None:
            raise ValueError(
                "`cv` is None, and the data come without splits. Give a number of folds or a splitter."
            )
        pairs: Any = data.splits
    else:
        _check_groups(cv, data)
        pairs = _pairs(as_splitter(cv, data, random_state, classifier), data)
    positions = np.arange(len(data.y))  # rows may be flags, or count from the end
    found = [(positions[train], positions[test]) for train, test in pairs]
    _check_parts(found)
    if are_times(data.y):
        _check_events(event_and_time(data.y).event, found)
    return found


def _pairs(splitter: Any, data: Data) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return what a splitter gives; raise where it cannot split these samples."""
    n_samples = len(data.y)
    try:
        pairs = splitter.split(data.X, data.y, data.groups)
        found = [(np.asarray(train), np.asarray(test)) for train, test in pairs]
        for rows in (rows for pair in found for rows in pair):
            np.empty(n_samples)[rows]
    except Exception as error:  # of the splitter, whoever wrote it
        remedy = "Use fewer folds, or a splitter that suits these data."
        if data.groups is None and "groups" in str(error):
            remedy = "Give `groups`, or with `datasets` (X, y, groups)."
        raise ValueError(
            f"`cv` must split the {n_samples} samples; got {shown(splitter)}, which says: {str(error).rstrip('.')}. "
            f"{remedy}"
        ) from error
    return found


def _check_parts(splits: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Raise where there is nothing to learn from, or to score; warn where both parts share samples."""
    if not splits:
        raise ValueError("`cv` must give at least one pair (train, test) of rows; got none.")
    for k, split in enumerate(splits):
        for part, rows in zip(("training", "test"), split, strict=True):
            if not len(rows):
                raise ValueError(
                    f"`cv` must leave samples in both parts of every split; split {k} has no {part} samples."
                )
    shared = [len(np.intersect1d(train, test)) for train, test in splits]
    if any(shared):
        k = int(np.argmax(np.array(shared) > 0))
        warn_user(
            f"`cv` tests on samples that it trains on, {shared[k]} of {len(splits[k][1])} in split {k}: such scores "
            "are no estimate for new samples. Use a splitter whose parts have no sample in common.",
            UserWarning,
        )


def _check_groups(cv: Any, data: Data) -> None:
    """Raise for more folds than groups."""
    if isinstance(cv, (int, np.integer)) and data.groups is not None:
        n_groups = len(np.unique(data.groups))
        if n_groups < cv:
            raise ValueError(
                f"`cv` must have no more folds than there are groups to keep together, {n_groups}; got {cv}. Use "
                "fewer folds, or a splitter that takes no groups, such as KFold(5, shuffle=True)."
            )


def _check_events(event: np.ndarray, splits: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Raise for parts in which all are censored: there is nothing to learn from, or to score."""
    for k, split in enumerate(splits):
        for part, rows in zip(("training", "test"), split, strict=True):
            if not event[rows].any():
                raise ValueError(
                    f"`cv` must leave events in both parts of every split; got split {k}, whose {len(rows)} {part} "
                    f"samples are all censored ({int(event.sum())} of {len(event)} samples have the event). Use "
                    "fewer folds; a number of folds spreads the events over them."
                )
