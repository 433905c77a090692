"""Columns of a design in tables: taken as they are, where all others are standardized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import StandardScaler

from bayesmkl.gp import Design
from bayesmkl.gp.group_labels import is_given


def design_columns(design: Design | None) -> list[Any]:
    """Return the columns that a design names, each once.

    Examples
    --------
    >>> from bayesmkl.gp import Design
    >>> design_columns(Design(covariate_columns=["age", "sex"], group_columns="site"))
    ['age', 'sex', 'site']
    """
    if design is None:
        return []
    named = [design.offset_column, design.covariate_columns, design.precision_column]
    found = [column for given in named if is_given(given) for column in listed(given)]
    return list(dict.fromkeys([*found, *group_columns(design)]))


def group_columns(design: Design | None) -> list[Any]:
    """Return the columns of groups and tasks, which may be text."""
    named = [] if design is None else [design.group_columns, design.task_column]
    return [column for given in named if is_given(given) for column in listed(given)]


def listed(given: Any) -> list[Any]:
    """Return one name or position of a column as a list of it, and several as a list."""
    return list(given) if isinstance(given, list | tuple) else [given]


def standardizer(design: Design | None, others: Sequence[Any] = ()) -> BaseEstimator:
    """Return the first step of a pipeline: columns of zero mean and unit variance, but for those of a design.

    These come first, and keep their units: an effect is that of one unit, and a site is a site. So do `others`.
    """
    scaler = StandardScaler().set_output(transform="pandas")  # views may name columns
    return beside_design(scaler, design, others)


def beside_design(encoder: BaseEstimator, design: Design | None, others: Sequence[Any] = ()) -> BaseEstimator:
    """Return what encodes all columns but those of a design and `others`, which come first, as they are."""
    kept = [*design_columns(design), *others]
    if not kept:
        return encoder
    beside = ColumnTransformer(
        [("design", "passthrough", kept)], remainder=encoder, verbose_feature_names_out=False
    )
    return beside.set_output(transform="pandas")
