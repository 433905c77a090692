"""Groups that models name in their designs, for splits that keep them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from bayesmkl._utils.typing import Samples
from bayesmkl.evaluation.study import ModelSpec
from bayesmkl.gp import Design
from bayesmkl.gp.group_labels import is_given
from bayesmkl.gp.missing_columns import refuse_missing
from bayesmkl.kernels.views import column_labels, column_names, positions_of

REMEDY = (
    "Pass `groups`, the labels of what splits should keep together, or as `cv` a splitter that takes no groups, such "
    "as KFold(5, shuffle=True)"
)


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
    >>> from bayesmkl.evaluation.design_groups import labels_of
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


def stay_together(groups: np.ndarray, splits: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Return whether no group has samples on both sides of a split."""
    return not any(np.intersect1d(groups[train], groups[test]).size for train, test in splits)


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
