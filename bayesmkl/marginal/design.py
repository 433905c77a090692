"""Columns of the samples that are no features of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmkl._utils.validation import shown
from bayesmkl.kernels.bank import CheckedTable, KernelBank
from bayesmkl.kernels.column_labels import column_labels
from bayesmkl.kernels.views import positions_of, views_without

__all__ = ["Design", "apart_from_design", "check_design", "check_known"]


@dataclass(frozen=True)
class Design:
    """What columns of `X` mean to a model that are no features of its kernels.

    They are left out of the views of a bank, unless these name them.

    Parameters
    ----------
    offset_column : str or int, default=None
        Name or position of a column that is added to the score as it is: the log of the time or the number of units
        that counts are from (their exposure), or a known part of a target.

    Examples
    --------
    >>> from bayesmkl.marginal import Design, GPMKLRegressor
    >>> model = GPMKLRegressor(likelihood="poisson", design=Design(offset_column="log_years"))
    """

    offset_column: str | int | None = None


def check_design(design: Any, precomputed: bool) -> None:
    """Raise for what is no design, and for one of precomputed kernels, which have no columns of features."""
    if design is None:
        return
    if not isinstance(design, Design):
        raise ValueError(
            f"`design` must be None or a Design, such as Design(offset_column=0); got {shown(design)}."
        )
    if precomputed:
        raise ValueError(
            "`design` must be None with precomputed kernels, whose columns are training samples; got "
            f"{design!r}. Pass samples and a bank, `kernels=KernelBank(...)`."
        )


def check_known(name: str, values: np.ndarray) -> np.ndarray:
    """Return a column of validated samples; raise where it is NaN, which stands for absent views alone."""
    unknown = np.flatnonzero(np.isnan(values))
    if len(unknown):
        raise ValueError(
            f"`X`: the column of `{name}` is NaN in {len(unknown)} of {len(values)} samples, the first in row "
            f"{unknown[0]}. It is no part of a view that may be missing: fill it in, or leave these samples out."
        )
    return values


def apart_from_design(
    bank: KernelBank, X: Any, design: Design | None, n_features: int
) -> tuple[KernelBank, int | None]:
    """Let the views of an unfitted bank leave the columns of a design out, unless they name theirs.

    Parameters
    ----------
    bank : KernelBank
        Is returned with other `views`.
    X : array, DataFrame or CheckedTable of shape (n_samples, n_features)
        Validated samples.
    design : Design or None
    n_features : int
        Number of columns of `X`.

    Returns
    -------
    bank : KernelBank
    offset_column : int or None

    Raises
    ------
    ValueError
        If `X` does not have the column, or no other is left for the kernels.
    """
    if design is None or design.offset_column is None:
        return bank, None
    labels: Sequence[Any] | None = X.labels if isinstance(X, CheckedTable) else column_labels(X)
    columns = positions_of("offset_column", design.offset_column, n_features, labels)
    if len(columns) != 1:
        raise ValueError(f"`offset_column` must name one column; got {shown(design.offset_column)}.")
    views = views_without(bank.views, columns, n_features, labels)
    if not views:
        raise ValueError(
            f"`offset_column` must leave columns of `X` to the kernels; got {shown(design.offset_column)}, the only "
            "one. Append features."
        )
    return bank.set_params(views=views), int(columns[0])
