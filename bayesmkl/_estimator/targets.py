"""Validation of labels and targets, with errors that name `y`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from bayesmkl._utils.given import as_array, check_magnitude, check_numbers
from bayesmkl._utils.typing import Label, Targets
from bayesmkl._utils.validation import shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.kernels.geometry import weighted_median
from bayesmkl.kernels.sparse import SparseTable

WHOLE = 2.0**53  # whole numbers beyond it are not all floats
MOST_COPIES = 0.05  # per sample: up to this many, intervals are as wide as without them
UNITS = "Standardize it, or express it in other units."


def check_targets(
    y: Targets,
    n_samples: int,
    estimator: str,
    *,
    numeric: bool = False,
    several: bool = False,
    mark: Label | None = None,
) -> np.ndarray:
    """Return targets as an array, one for each sample.

    Parameters
    ----------
    y : array-like of shape (n_samples,), or (n_samples, n_outputs) if `several`
    n_samples : int
        Rows of `X`.
    estimator : str
        Its name.
    numeric : bool
        Whether real numbers are wanted, not labels.
    several : bool
        Whether a target may have columns.
    mark : label or None
        Stands for "no label".

    Raises
    ------
    ValueError, TypeError
        Naming `y`.

    Examples
    --------
    >>> check_targets(["a", None, "b"], 3, "SVC")
    Traceback (most recent call last):
    ...
    ValueError: `y` must give every sample a label; 1 of 3 are missing (None or NaN). ...
    """
    if y is None:
        raise ValueError(
            f"`y` must hold one {'number' if numeric else 'label'} per sample. This {estimator} estimator requires y "
            "to be passed, but the target y is None."
        )
    values = _numbers(y) if numeric else check_labels(y, mark)
    if values.ndim > (2 if several else 1) and values.shape[1:] != (1,):
        wanted = "(n_samples,) or (n_samples, n_columns)" if several else "(n_samples,)"
        raise ValueError(
            f"`y` must be of shape {wanted} for {estimator}: y should be a 1d array; got {values.shape}."
        )
    if len(values) != n_samples:
        raise ValueError(
            f"`X` and `y` have inconsistent numbers of samples: {[n_samples, len(values)]}. Each row of `X` needs "
            "one entry of `y`."
        )
    if several:
        return values
    return np.ascontiguousarray(values) if values.ndim == 1 else column_or_1d(values, warn=True)


def _numbers(y: Targets) -> np.ndarray:
    """Return real targets that are finite and neither huge nor tiny."""
    array = check_numbers("y", y)
    if is_missing(array).any():
        raise ValueError(
            f"`y` must be finite: y contains NaN; {int(is_missing(array).sum())} of {array.size} values are missing. "
            "Leave these samples out."
        )
    with np.errstate(over="ignore"):  # what is too large for a float64 is infinite
        values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("`y` must be finite: y contains infinity. Leave these samples out.")
    check_magnitude("y", values, UNITS)
    return values


def is_missing(values: np.ndarray) -> np.ndarray:
    """Return which entries are None, NaN, NaT or pandas' NA.

    Examples
    --------
    >>> is_missing(np.array(["a", None, float("nan")], dtype=object))
    array([False,  True,  True])
    """
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    import pandas as pd

    return np.asarray(pd.isna(values))


def check_labels(y: Targets, mark: Label | None = None) -> np.ndarray:
    """Return labels as an array: text, whole numbers or booleans, all of one kind and none missing.

    `mark`, which stands for "no label", may be of another kind.

    Examples
    --------
    >>> check_labels(np.array([True, False], dtype=object))
    array([ True, False])
    """
    array = as_array("y", y)
    absent = is_missing(array)
    if absent.any():
        raise ValueError(
            f"`y` must give every sample a label; {int(absent.sum())} of {array.size} are missing (None or NaN). "
            "Leave these samples out, or mark them where the estimator has an `unlabeled_label`."
        )
    if array.dtype.kind == "O":
        marked = np.array([mark is not None and value == mark for value in array.ravel().tolist()])
        plain_labels(array.ravel()[~marked])
        return array if marked.any() else plain_labels(array)
    return plain_labels(array)


def plain_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels of objects as an array of their own kind; refuse what is no label.

    Examples
    --------
    >>> plain_labels(np.array([1, "a"], dtype=object))
    Traceback (most recent call last):
    ...
    ValueError: `y` must hold labels of one kind (Unknown label type); got 1 and 'a'. Make all of them text, or ...
    """
    if labels.dtype.kind == "O":
        labels = _of_one_kind(labels)
    kind = labels.dtype.kind
    if kind == "c":
        raise ValueError("`y` must hold labels. Complex data not supported: recode them as text or numbers.")
    if kind not in "biufU":
        raise TypeError(
            f"`y` must hold labels that are text, whole numbers or booleans; got {shown(labels.flat[0])} of type "
            f"{labels.dtype}. Recode them."
        )
    if kind == "f":
        if np.isinf(labels).any():
            raise ValueError(
                "`y` must hold labels: y contains infinity. Leave these samples out, or recode them."
            )
        wide = labels.astype(np.float64)
        whole = (wide == np.floor(wide)) & (np.abs(wide) <= WHOLE)
        if not whole.all():
            raise ValueError(
                f"`y` must hold class labels; got {labels[~whole].flat[0]:g} (Unknown label type: continuous). Use a "
                "regressor for real targets, or recode them as whole numbers or text."
            )
    return labels


def _of_one_kind(labels: np.ndarray) -> np.ndarray:
    """Turn objects that are all text, all booleans or all numbers into an array of that type."""
    values = labels.ravel().tolist()
    kinds = [_kind(value) for value in values]
    different = dict(zip(kinds, values, strict=True))
    if len(different) > 1:
        one, other = list(different.values())[:2]
        raise ValueError(
            f"`y` must hold labels of one kind (Unknown label type); got {shown(one)} and {shown(other)}. Make all "
            "of them text, or all of them numbers."
        )
    array = np.array(values).reshape(labels.shape) if different else labels.astype(float)
    if "other" in different or array.dtype.kind == "O":
        raise ValueError(
            "`y` must hold labels that are text, whole numbers or booleans (Unknown label type); got "
            f"{shown(values[0])} of type {type(values[0]).__name__}. Recode them."
        )
    return array


def _kind(label: object) -> str:
    """Name what a label is; whole numbers and others are of one kind."""
    if isinstance(label, bool | np.bool_):
        return "boolean"
    if isinstance(label, int | float | np.integer | np.floating):
        return "number"
    return "text" if isinstance(label, str) else "other"


def location_and_scale(
    y: np.ndarray, normalize: bool, sample_weight: np.ndarray | None = None
) -> tuple[float | np.ndarray, float | np.ndarray]:
    """Return mean and standard deviation of every target: 0 and 1 if not standardized, deviation 1 if constant.

    Samples count as often as `sample_weight`, (n_samples,), says.

    Examples
    --------
    >>> location_and_scale(np.array([1.0, 3.0]), True)
    (2.0, 1.0)
    """
    mean, scale = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
    if normalize:
        mean = np.average(y, axis=0, weights=sample_weight)
        scale = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=sample_weight))
        scale = np.where(scale > 0.0, scale, 1.0)
    return (float(mean), float(scale)) if y.ndim == 1 else (mean, scale)


def near_the_median(y: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return weights of samples of one target, zero of those more than ten median distances from its median.

    These are 6.7 standard deviations of normal targets: where none is grossly wrong, all count. So they do where half
    of the targets are equal.

    Examples
    --------
    >>> near_the_median(np.array([1.0, 2.0, 3.0, 4.0, 1e9]))
    array([1., 1., 1., 1., 0.])
    """
    counts = np.ones(len(y)) if sample_weight is None else sample_weight
    distance = np.abs(y - weighted_median(y, counts))
    usual = weighted_median(distance, counts)
    return counts * (distance <= 10.0 * usual) if usual > 0.0 else counts


def warn_of_copies(
    model: Any, X: Any, y: np.ndarray, counts: np.ndarray | None = None, exact: np.ndarray | None = None
) -> None:
    """Warn where many samples repeat others, features and target alike, under noise of unknown size.

    Two targets of the same features differ by noise alone, and copies do not differ. Real repetitions do: as long as
    more samples repeat the features of others with another target, equal ones may be due to rounding.

    Parameters
    ----------
    model : BaseMKL
        With its bank, which has validated samples; None with precomputed kernels, which are `X`.
    X : array-like of shape (n_samples, ...)
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
    counts : ndarray of shape (n_samples,), optional
        How often samples count.
    exact : ndarray of bool, of shape (n_samples,), optional
        Samples whose targets are numbers, not intervals of them.
    """
    rows = np.asarray(X) if model.kernel_bank_ is None else model.kernel_bank_.X_train_
    if len(rows) != len(y):  # a source of rows was read in parts
        return
    if isinstance(rows, SparseTable):
        table = rows.values
        keys = [table.indices[i:j].tobytes() + table.data[i:j].tobytes() for i, j in pairwise(table.indptr)]
    else:
        keys = [row.tobytes() for row in rows]
    found: dict[bytes, list[Any]] = {}
    for i in range(len(y)) if exact is None else np.flatnonzero(exact):
        own = found.setdefault(keys[i], [-1.0, set()])
        own[0] += 1.0 if counts is None else counts[i]
        own[1].add(y[i].tobytes())
    same = sum(excess for excess, targets in found.values() if len(targets) == 1)
    different = sum(excess for excess, _ in found.values()) - same
    if same > max(MOST_COPIES * len(found), different):
        warn_user(
            f"{same:.0f} of {len(y)} samples repeat another one, features and target "
            "alike. Copies look like measurements without noise: the noise is underestimated, and intervals are too "
            "narrow. Keep one of each, such as by `DataFrame.drop_duplicates`.",
            UserWarning,
        )
