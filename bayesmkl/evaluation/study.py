"""What is compared: data sets, models, splits of the samples, and groups that splits keep in one piece."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import (
    BaseCrossValidator,
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.utils.multiclass import type_of_target

from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.typing import Samples, Splits
from bayesmkl._utils.validation import shown
from bayesmkl._utils.warnings import holding_back, warn_user
from bayesmkl.datasets._bundled import load_named
from bayesmkl.gp import Design
from bayesmkl.gp.design import is_given, refuse_missing
from bayesmkl.kernels.views import column_labels, column_names, positions_of

STRATIFIED = (StratifiedKFold, StratifiedGroupKFold, StratifiedShuffleSplit, RepeatedStratifiedKFold)
REMEDY = (
    "Pass `groups`, the labels of what splits should keep together, or as `cv` a splitter that takes no groups, such "
    "as KFold(5, shuffle=True)"
)


class Data(NamedTuple):
    """Samples and labels of a data set."""

    X: Any  # (n_samples, n_features), a DataFrame, or (n_samples, n_samples, n_kernels)
    y: np.ndarray  # (n_samples,), structured where it holds times to an event
    groups: np.ndarray | None = None  # (n_samples,)
    splits: list[tuple[np.ndarray, np.ndarray]] | None = None  # rows to train on and to test on
    weights: np.ndarray | None = None  # (n_samples,), of samples in fits


def bundled(name: str) -> Data:
    """Load a data set of the package by its name."""
    return Data(*load_named(name))


class ModelSpec(NamedTuple):
    """A model to compare.

    Parameters
    ----------
    estimator : estimator
        Not fitted.
    param_grid : dict or list of dict, default=None
        What to try in a cross-validation inside the training part, as for ``GridSearchCV``.
    """

    estimator: BaseEstimator
    param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None

    def new(self, seed: int, inner_cv: Splits, inner_scoring: str | None) -> BaseEstimator:
        """Return an estimator to fit, whose open random states are set to `seed`."""
        model = clone(self.estimator)
        states = [n for n in model.get_params() if n == "random_state" or n.endswith("__random_state")]
        model.set_params(**{n: seed for n in states if model.get_params()[n] is None})
        if self.param_grid is None:
            return model
        return GridSearchCV(model, self.param_grid, cv=inner_cv, scoring=inner_scoring)

    def describe(self) -> str:
        """Describe what determines the model, as text: long arrays are shortened, functions named at most."""
        grid = "" if self.param_grid is None else f"; grid {text_of(self.param_grid)}"
        return text_of(self.estimator) + grid


def text_of(value: Any) -> str:
    """Return a representation for people, without the addresses of objects; hashes tell values apart.

    Estimators show the parameters that differ from their defaults.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> text_of({"svm": SVC(C=2.0), "widths": [1, 2]})
    "{'svm': SVC(C=2.0), 'widths': [1, 2]}"
    """
    return re.sub(r"\s+", " ", re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


# --------------------------------------------------------------------------------------------------------- splits


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


def grouped_splits(
    cv: Splits | None, data: Data, models: Mapping[str, ModelSpec], random_state: int, classifier: bool
) -> tuple[list[tuple[np.ndarray, np.ndarray]], tuple[int, ...], dict[str, str]]:
    """Return the splits, the group columns of designs that they keep together, and what is to be said of groups.

    A number of folds keeps the groups of designs together, if no others are given. Splitters are handed them, and use
    them or not.
    """
    found, whose = None, "groups"
    if data.groups is None:
        try:
            found = groups_of_designs(models, data.X)
        except ValueError:
            if isinstance(cv, (int, np.integer)):
                raise
        if found is not None:
            data, whose = data._replace(groups=found.labels), " and ".join(map(repr, found.names))
    ignoring = () if found is None else (UserWarning,)  # splitters that take no groups say so
    with holding_back(*ignoring):
        splits = splits_of(cv, data, random_state, classifier)
    if data.groups is None:
        return splits, (), {}
    groups = data.groups
    together = not any(np.intersect1d(groups[train], groups[test]).size for train, test in splits)
    said = "together in every split" if together else "on both sides of splits"
    columns = found.columns if found is not None and together else ()
    return splits, columns, {"groups": f"{len(np.unique(groups))} by {whose}, {said}"}


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
    _check_parts(found, event_and_time(data.y).event if are_times(data.y) else None)
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


def _check_parts(splits: list[tuple[np.ndarray, np.ndarray]], event: np.ndarray | None) -> None:
    """Raise where there is nothing to learn from, or to score; warn where both parts share samples."""
    if not splits:
        raise ValueError("`cv` must give at least one pair (train, test) of rows; got none.")
    for k, split in enumerate(splits):
        for part, rows in zip(("training", "test"), split, strict=True):
            if not len(rows):
                raise ValueError(
                    f"`cv` must leave samples in both parts of every split; split {k} has no {part} samples."
                )
            if event is not None and not event[rows].any():
                raise ValueError(
                    f"`cv` must leave events in both parts of every split; got split {k}, whose {len(rows)} {part} "
                    f"samples are all censored ({int(event.sum())} of {len(event)} samples have the event). Use "
                    "fewer folds; a number of folds spreads the events over them."
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


# --------------------------------------------------------------------------------------------- groups of designs


class DesignGroups(NamedTuple):
    """Group columns that models name in a data set.

    Parameters
    ----------
    columns : tuple of int
        Positions, ascending.
    names : tuple of str
    labels : ndarray of int, of shape (n_samples,)
        See `labels_of`.
    """

    columns: tuple[int, ...]
    names: tuple[str, ...]
    labels: np.ndarray


def groups_of_designs(models: Mapping[str, ModelSpec], X: Samples) -> DesignGroups | None:
    """Find the group columns that models name, or None where no model does.

    The designs of their estimators count, in pipelines and grids too. Names and positions of columns are those of
    `X`, (n_samples, n_features), whatever pipelines do to them. Models that name different groups, or columns that
    `X` does not have, are a ValueError.
    """
    named = {name: list(_group_columns(spec)) for name, spec in models.items()}
    if not any(named.values()) or len(np.shape(X)) != 2:
        return None
    n_features, labels = np.shape(X)[1], column_labels(X)
    found: dict[str, tuple[int, ...]] = {}
    for name, several in named.items():
        for wanted in several:
            try:
                columns = tuple(sorted(positions_of("group_columns", wanted, n_features, labels).tolist()))
            except ValueError as error:
                raise ValueError(
                    f"`models`: the groups in the design of {name!r} are no columns of `X`: {error} {REMEDY}."
                ) from error
            if found.setdefault(name, columns) != columns:
                raise _different({name: sorted({*map(str, several)})})
    called = column_names(n_features, labels)
    if len(set(found.values())) > 1:
        raise _different({name: [called[j] for j in columns] for name, columns in found.items()})
    columns = next(iter(found.values()))
    return DesignGroups(columns, tuple(called[j] for j in columns), labels_of(X, columns))


def labels_of(X: Samples, columns: Sequence[int]) -> np.ndarray:
    """Return numbers of what has to stay together, (n_samples,), so that no group of any column is torn apart.

    Samples that share a group in one of the columns, which are positions, are together, and so are those that others
    connect: subjects at the same site, or groups that are crossed. A missing group is a ValueError.

    Examples
    --------
    Sites "a" and "b" share subject 2:

    >>> import pandas as pd
    >>> from bayesmkl.evaluation.study import labels_of
    >>> labels_of(pd.DataFrame({"site": ["a", "a", "b", "c"], "subject": [1, 2, 2, 3]}), [0, 1]).tolist()
    [0, 0, 0, 1]
    """
    n_samples, rows, groups, n_groups = np.shape(X)[0], [], [], 0
    names = column_names(np.shape(X)[1], column_labels(X))
    for j in columns:
        values = X.iloc[:, j].to_numpy() if isinstance(X, pd.DataFrame) else np.asarray(X)[:, j]
        codes, levels = pd.factorize(values, sort=True)
        refuse_missing(names[j], codes < 0)
        if len(columns) == 1:
            return codes
        rows.append(np.arange(n_samples))
        groups.append(n_samples + n_groups + codes)
        n_groups += len(levels)
    size = n_samples + n_groups
    ends = np.concatenate(rows), np.concatenate(groups)
    _, label = connected_components(coo_matrix((np.ones(len(ends[0])), ends), (size, size)), directed=False)
    return np.unique(label[:n_samples], return_inverse=True)[1]


def _group_columns(spec: ModelSpec) -> Iterator[Any]:
    """Go through the group columns that an estimator and its grid name."""
    grids = [spec.param_grid] if isinstance(spec.param_grid, Mapping) else spec.param_grid or []
    tried = [value for grid in grids for values in grid.values() for value in values]
    for value in [spec.estimator, *tried]:
        held = value.get_params().values() if hasattr(value, "get_params") else [value]
        for one in held:
            if isinstance(one, Design) and is_given(one.group_columns):
                yield one.group_columns


def _different(named: Mapping[str, Sequence[str]]) -> ValueError:
    return ValueError(
        f"`models` must name the same groups in their designs, for splits that keep these together; got "
        f"{dict(named)}. {REMEDY}."
    )
