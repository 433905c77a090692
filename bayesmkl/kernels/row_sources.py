"""Samples that are read in blocks: what is checked in them, and how a bank learns from them."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from bayesmkl._utils.typing import Samples
from bayesmkl.kernels.bank import KernelBank

__all__ = ["check_rows", "fit_bank_to_rows", "is_row_source"]

SAMPLES_PER_LANDMARK = 50  # rows that landmarks are learned from
FEW_ROWS = 1000  # read where the landmarks are given
BLOCK_ENTRIES = 2**20


def is_row_source(X: Samples) -> bool:
    """Return whether `X` is a table that is read in blocks, as `bayesmkl.datasets.open_rows` opens it."""
    return getattr(type(X), "is_row_source", False) is True


def check_rows(X: Any, bank: KernelBank | None = None) -> None:
    """Read a row source once and refuse what kernels cannot be evaluated on.

    Parameters
    ----------
    X : row source
    bank : KernelBank, default=None
        Fitted: the rows must have the columns that it saw.

    Raises
    ------
    ValueError
        For no rows, other columns, and NaN or infinity, with the row and the column.
    """
    if len(X) == 0:
        raise ValueError(f"`X` must have rows; got {X!r}.")
    if bank is not None:
        _check_columns(X, bank)
    first = 0
    for block in X.blocks(max(1, BLOCK_ENTRIES // X.shape[1])):
        finite = np.isfinite(block)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            name = column if X.columns is None else repr(X.columns[column])
            value = "NaN" if np.isnan(block[row, column]) else "infinity"
            raise ValueError(
                f"`X`: row {first + row} of {X!r} has {value} in column {name}. Leave such rows out, or fill them in."
            )
        first += len(block)


def _check_columns(X: Any, bank: KernelBank) -> None:
    names = getattr(bank, "feature_names_in_", None)
    if X.shape[1] != bank.n_features_in_:
        raise ValueError(
            f"`X` must have the {bank.n_features_in_} columns of training; got {X!r}. Choose them when the table is "
            "opened, `open_rows(path, columns=...)`."
        )
    if names is not None and X.columns is not None and list(names) != X.columns:
        raise ValueError(
            f"`X` must have the columns of training, {', '.join(names[:6])}, ..., in this order; got "
            f"{', '.join(X.columns[:6])}, .... Name them when the table is opened, `open_rows(path, columns=...)`."
        )


def fit_bank_to_rows(bank: KernelBank, X: Any) -> KernelBank:
    """Fit a bank with landmarks to a row source, from a bounded sample of its rows.

    Parameters
    ----------
    bank : KernelBank
        With `landmarks`; its `random_state` draws the sample.
    X : row source
        All rows are checked, and 50 per landmark are learned from.

    Returns
    -------
    bank : KernelBank
        Its `X_train_` are the landmarks: training samples are not kept.

    Raises
    ------
    ValueError
        For a bank without landmarks, and as `check_rows` does.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.datasets import open_rows
    >>> from bayesmkl.kernels import KernelBank
    >>> rows = open_rows(np.random.default_rng(0).normal(size=(1000, 3)))
    >>> fit_bank_to_rows(KernelBank(landmarks=8), rows).basis_.shape
    (8, 3)
    """
    if bank.landmarks is None:
        raise ValueError(
            f"`landmarks` must be given where `X` is read in blocks, {X!r}: without them every sample is compared "
            "with all others. Use KernelBank(landmarks=256), or read all rows, `rows[:]`."
        )
    check_rows(X)
    counted = isinstance(bank.landmarks, Integral)
    n_sample = SAMPLES_PER_LANDMARK * max(1, bank.landmarks) if counted else FEW_ROWS
    sample: Any = X.sample(min(len(X), n_sample), bank.random_state or 0)
    if X.columns is not None:
        import pandas as pd

        sample = pd.DataFrame(sample, columns=X.columns)
    bank.fit(sample)
    bank.X_train_ = bank.basis_
    bank.present_ = np.ones((len(bank.views_), len(bank.basis_)), dtype=bool)
    return bank
