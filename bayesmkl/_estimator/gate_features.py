"""Features that gates are functions of: columns of the samples, or an array beside precomputed kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from bayesmkl._utils.given import naming
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import shown
from bayesmkl.kernels.bank import CheckedTable, KernelBank
from bayesmkl.kernels.views import (
    check_samples,
    column_labels,
    positions_of,
    refuse_other_columns,
    views_without,
)


def check_gate_columns(gate_columns: Sequence[str | int] | np.ndarray | None, precomputed: bool) -> None:
    """Raise for columns of precomputed kernels, which have no features."""
    if gate_columns is not None and precomputed:
        raise ValueError(
            "`gate_columns` must be None with precomputed kernels, whose columns are training samples; got "
            f"{shown(gate_columns)}. Pass the features as `gate_features` to `fit` and to `predict`, or samples and "
            "a bank, `kernels=KernelBank(...)`."
        )


def bank_apart(model: Any, bank: KernelBank, X: Samples | None) -> KernelBank:
    """Let the views of a model's unfitted bank leave the columns of its gates out, unless they name theirs.

    Sets `gate_columns_`, the positions of `gate_columns`, where there are such.

    Raises
    ------
    ValueError
        If `X` does not have the columns, some come twice, or none is left for the kernels.
    """
    asked = model.gate_columns
    if X is None or asked is None:
        return bank
    n_features = model.n_features_in_
    labels = X.labels if isinstance(X, CheckedTable) else column_labels(X)
    columns = positions_of("gate_columns", asked, n_features, labels)
    if len(np.unique(columns)) < len(columns):
        raise ValueError(f"`gate_columns` must name each column once; got {shown(asked)}.")
    if isinstance(X, CheckedTable) and X.plan is not None:
        X.plan.refuse(columns, "`gate_columns`", ["yes or no"], "Make numbers of them.")
    codes, samples = (X.codes, X.samples) if isinstance(X, CheckedTable) else (None, X)
    views = views_without(bank.views, columns, n_features, labels, codes, samples)
    if not views and len(columns) == n_features:
        raise ValueError(
            f"`gate_columns` must leave columns of `X` to the kernels; got all {n_features}. Name the columns of the "
            "kernels, `KernelBank(views={name: columns})`, which may be the same. With None, gates use all columns."
        )
    model.gate_columns_ = columns
    return bank.set_params(views=views)


def features_of(
    model: Any, X: np.ndarray | None, gate_features: ArrayLike | None, n_rows: int, fitting: bool
) -> np.ndarray:
    """Return columns of `X`, or `gate_features` where kernels are precomputed, (n_rows, n_gate_features).

    Fitting sets `n_gate_features_` of the model, and its `gate_columns_` where `bank_apart` found none.
    """
    if fitting and (X is None or model.gate_columns is None):
        model.gate_columns_ = None
    if X is not None:
        plan = model.kernel_bank_.column_plan_
        if plan is not None and model.gate_columns_ is None:
            every = range(X.shape[1])
            plan.refuse(every, "columns that gates see", ["yes or no"], "Name others in `gate_columns`.")
        features = X if model.gate_columns_ is None else X[:, model.gate_columns_]
        if fitting:
            model.n_gate_features_ = features.shape[1]
        return features
    if fitting:
        model._gate_labels = column_labels(gate_features)
    if gate_features is None:
        raise ValueError(
            f"`gate_features` must be passed with precomputed kernels: the gates of {type(model).__name__} are "
            "functions of features, and got None. Pass an array of shape (n_samples, n_gate_features) to `fit` "
            'and to `predict`, or features and a bank, `kernels=KernelBank(...)`, instead of "precomputed".'
        )
    refuse_other_columns(gate_features, model._gate_labels, "gate_features")
    check_samples(gate_features, "gate_features")
    if np.ndim(gate_features) == 1:
        gate_features = np.asarray(gate_features)[:, None]
    with naming("gate_features"):
        features = check_array(gate_features, dtype=np.float64, input_name="gate_features")
    if len(features) != n_rows:
        raise ValueError(
            f"`gate_features` must have one row for each of the {n_rows} rows of `X`; got {len(features)}."
        )
    if fitting:
        model.n_gate_features_ = features.shape[1]
    elif features.shape[1] != model.n_gate_features_:
        raise ValueError(
            f"`gate_features` must have {model.n_gate_features_} columns, as when fitting; got "
            f"{features.shape[1]}. Pass the same features as to `fit`."
        )
    return features


def refuse_gate_features(model: Any, gate_features: ArrayLike | None, has_samples: bool) -> None:
    """Raise for features of gates beside samples."""
    if has_samples and gate_features is not None:
        raise ValueError(
            "`gate_features` must be None with kernels made from samples; got "
            f"{type(gate_features).__name__}. Append these features to `X` as columns and name them by the "
            "parameter `gate_columns`, such as `gate_columns=[-1]`; kernels do not use them."
        )
