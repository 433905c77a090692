"""What is compared: data sets, models, splits of the samples, and groups that splits keep in one piece."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
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
    check_cv,
)
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length

from bayesmkl._utils.given import as_array, check_weights
from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.typing import Samples, Splits, Targets
from bayesmkl._utils.validation import check_grid, shown
from bayesmkl._utils.warnings import holding_back, warn_user
from bayesmkl.datasets._bundled import load_named
from bayesmkl.evaluation.predictions import final_estimator, weight_argument
from bayesmkl.gp import Design
from bayesmkl.gp.design import is_given, refuse_missing
from bayesmkl.kernels.views import column_labels, column_names, positions_of

ONLY = "data"  # name of the data set that comes as X and y
STRATIFIED = (StratifiedKFold, StratifiedGroupKFold, StratifiedShuffleSplit, RepeatedStratifiedKFold)


class Data(NamedTuple):
    """Samples and labels of a data set."""

    X: Any  # (n_samples, n_features), a DataFrame, or (n_samples, n_samples, n_kernels)
    y: np.ndarray  # (n_samples,), structured where it holds times to an event
    groups: np.ndarray | None = None  # (n_samples,)
    weights: np.ndarray | None = None  # (n_samples,), of samples in fits


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


# ------------------------------------------------------------------------------------------------------- arguments


def check_weighted(models: Mapping[str, ModelSpec]) -> None:
    """Raise for models that would leave weights of samples out."""
    for name, spec in models.items():
        if weight_argument(spec.estimator) is None:
            kind = type(final_estimator(spec.estimator)).__name__
            raise ValueError(
                f"`sample_weight`: model {name!r} ({kind}) takes no weights in `fit`. Leave it out, or compare it "
                "without weights."
            )


def models_of(models: Mapping[str, Any]) -> dict[str, ModelSpec]:
    """Return models by name, checked."""
    if not isinstance(models, Mapping):
        raise ValueError(f"`models` must map names to models; got {shown(models)}.")
    specs = {name: _spec(name, model) for name, model in models.items()}
    _check_names("models", specs)
    return specs


def _spec(name: str, model: Any) -> ModelSpec:
    estimator, grid = model if isinstance(model, tuple) and len(model) == 2 else (model, None)
    if not isinstance(estimator, BaseEstimator) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"`models`: {name!r} must be an estimator or a pair (estimator, param_grid); got {estimator!r}."
        )
    if grid is not None:
        check_grid(f"models[{name!r}]", grid)
        grids = [grid] if isinstance(grid, Mapping) else grid
        unknown = [key for one in grids for key in one if key not in estimator.get_params()]
        if unknown:
            raise ValueError(
                f"`models`: the grid of {name!r} names {unknown[0]!r}, which is not one of its parameters."
            )
    return ModelSpec(estimator, grid)


def datasets_of(
    X: Any,
    y: Any,
    groups: ArrayLike | None,
    sample_weight: ArrayLike | None,
    datasets: Mapping[str, object] | Sequence[str] | str | None,
    cv: Splits | None,
) -> dict[str, Data]:
    """Return data sets by name, checked."""
    if (X is None) == (datasets is None):
        raise ValueError("give either `X` and `y`, or `datasets`.")
    if datasets is None:
        return {ONLY: _held(X, y, groups, sample_weight)}
    if groups is not None or sample_weight is not None or is_pairs(cv):
        raise ValueError(
            "`groups`, `sample_weight` and rows in `cv` belong to `X` and `y`. With `datasets`, give (X, y, groups, "
            "sample_weight) and a splitter."
        )
    if isinstance(datasets, str):
        datasets = [datasets]
    if not isinstance(datasets, Mapping | Sequence):
        raise ValueError(f"`datasets` must be names, or map names to data; got {shown(datasets)}.")
    if not isinstance(datasets, Mapping):
        twice = [name for k, name in enumerate(datasets) if name in datasets[:k]]
        if twice:
            raise ValueError(f"`datasets` names {twice[0]!r} twice.")
        datasets = {name: name for name in datasets}
    _check_names("datasets", datasets)
    return {name: _data(name, value) for name, value in datasets.items()}


def _check_names(kind: str, names: Iterable[object]) -> None:
    if not names:
        raise ValueError(f"`{kind}` must name at least one; got none.")
    wrong = [name for name in names if not isinstance(name, str) or not name.strip()]
    if wrong:
        raise ValueError(f"`{kind}` must have names of text; got {wrong[0]!r}.")


def _data(name: str, value: object) -> Data:
    if isinstance(value, str):
        return Data(*load_named(value))
    if isinstance(value, tuple) and len(value) in (2, 3, 4):
        return _held(*value)
    raise ValueError(
        f"`datasets`: {name!r} must be a name, (X, y), (X, y, groups) or (X, y, groups, sample_weight); got "
        f"{type(value).__name__}."
    )


def _held(
    X: Any,
    y: Targets,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Data:
    if y is None:
        several = " A dict of data sets goes to `datasets=`." if isinstance(X, Mapping) else ""
        raise ValueError(f"`y` must be given with `X`.{several}")
    if not isinstance(X, pd.DataFrame):
        X = X.to_pandas() if hasattr(type(X), "to_pandas") else as_array("X", X)
    y = as_array("y", y)
    if y.dtype.names is not None:
        fields = [(name, y.dtype[name]) for name in y.dtype.names]
        y = np.array(y.tolist(), dtype=fields)  # no record array
    elif any(value is None or value != value for value in y.ravel().tolist()):
        raise ValueError(
            "`y` must hold a label or target of every sample; got None or NaN. Leave these samples out."
        )
    groups = None if groups is None else as_array("groups", groups)
    if groups is not None and groups.shape != (len(y),):
        raise ValueError(
            f"`groups` must have one entry for each of the {len(y)} samples; got shape {groups.shape}."
        )
    check_consistent_length(X, y)
    return Data(X, y, groups, check_weights(sample_weight, len(y)))


def is_pairs(cv: object) -> TypeGuard[Iterable[tuple[ArrayLike, ArrayLike]]]:
    """Return whether `cv` lists rows."""
    return cv is not None and not hasattr(cv, "split") and hasattr(cv, "__iter__")


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
) -> tuple[list[tuple[np.ndarray, np.ndarray]], Data, dict[str, str]]:
    """Return the splits, the data with groups that inner splits keep together, and what is to be said of groups.

    A number of folds keeps the groups of designs together, if no others are given. Splitters are handed them, and use
    them or not.
    """
    found, whose, grouped = None, "groups", data
    if data.groups is None:
        try:
            found = groups_of_designs(models, data.X)
        except ValueError:
            if isinstance(cv, (int, np.integer)):
                raise
        if found is not None:
            grouped, whose = data._replace(groups=found[1]), found[0]
    ignoring = () if found is None else (UserWarning,)  # splitters that take no groups say so
    with holding_back(*ignoring):
        splits = splits_of(cv, grouped, random_state, classifier)
    groups = grouped.groups
    if groups is None:
        return splits, data, {}
    together = not any(np.intersect1d(groups[train], groups[test]).size for train, test in splits)
    said = "together in every split" if together else "on both sides of splits"
    about = {"groups": f"{len(np.unique(groups))} by {whose}, {said}"}
    return splits, grouped if together else data, about


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
    splitter = check_cv(cv) if is_pairs(cv) else as_splitter(cv, data, random_state, classifier)
    pairs = _pairs(splitter, data)
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
            if np.empty(n_samples)[rows].ndim != 1:
                raise ValueError("rows must be a list of positions")
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
            f"`cv` tests on samples that it trains on, {shared[k]} of {len(splits[k][1])} in split {k}, so scores "
            "would not estimate the error on new samples. Use a splitter whose parts have no sample in common.",
            UserWarning,
        )


# --------------------------------------------------------------------------------------------- groups of designs


def groups_of_designs(models: Mapping[str, ModelSpec], X: Samples) -> tuple[str, np.ndarray] | None:
    """Return the group columns that models name, in words, and numbers of their groups; None where no model does.

    The designs of their estimators count, in pipelines and grids too. Names and positions of columns are those of
    `X`, (n_samples, n_features), whatever pipelines do to them. Columns that `X` does not have are a ValueError.
    """
    if len(np.shape(X)) != 2:
        return None
    n_features, labels = np.shape(X)[1], column_labels(X)
    found: set[int] = set()
    for name, spec in models.items():
        for wanted in _group_columns(spec):
            try:
                found.update(positions_of("group_columns", wanted, n_features, labels).tolist())
            except ValueError as error:
                raise ValueError(
                    f"`models`: the groups in the design of {name!r} are not columns of `X`: {error} Pass "
                    "`groups`, the labels of what splits should keep together."
                ) from error
    columns, names = sorted(found), column_names(n_features, labels)
    return (" and ".join(repr(names[j]) for j in columns), labels_of(X, columns)) if columns else None


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
