"""Labels, grades and targets: validation with errors that name `y`, and what models make of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target
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


def encode_labels(y: Targets) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and one row of targets -1 and +1 for every binary model.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of at least two classes.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted.
    targets : ndarray of shape (1, n_samples) or (n_classes, n_samples)
        Of two classes, the second is +1; of more, each has a row in which it is +1.

    Raises
    ------
    ValueError
        If `y` is not made of class labels, or holds one class only.

    Examples
    --------
    >>> encode_labels(["no", "yes", "no"])
    (array(['no', 'yes'], dtype='<U3'), array([[-1.,  1., -1.]]))
    """
    y = plain_labels(np.asarray(y))
    classes, codes = np.unique(y, return_inverse=True)
    if y.ndim != 1 or 2 * len(classes) > len(y):  # few different labels in one column need no more looks
        check_classification_targets(y)
    if len(classes) < 2:
        raise ValueError(
            f"`y` must hold at least two classes; got one class only: {classes.tolist()[0]!r}. "
            "Check how the training samples were selected."
        )
    positive = [1] if len(classes) == 2 else range(len(classes))
    return classes, np.array([np.where(codes == k, 1.0, -1.0) for k in positive])


class LabelSplit(NamedTuple):
    """Labels of which some are missing.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        As given.
    labeled : ndarray of shape (n_labeled,)
        Positions of samples with a label.
    classes : ndarray of shape (n_classes,)
    targets : ndarray of shape (n_tasks, n_labeled)
        -1 and +1: one task for two classes, one per class (one-versus-rest) for more.
    """

    labels: np.ndarray
    labeled: np.ndarray
    classes: np.ndarray
    targets: np.ndarray

    def transduce(self, scores: np.ndarray) -> np.ndarray:
        """Return the given labels, and predicted ones for the others from scores of shape (n_samples, n_tasks)."""
        codes = scores[:, 0] > 0.0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        found = self.classes[codes.astype(np.intp)]
        found[self.labeled] = self.labels[self.labeled]
        return found


def split_labels(y: Targets, unlabeled_label: Label | None) -> LabelSplit:
    """Find the labeled samples and encode their labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    unlabeled_label : label or None
        Mark of samples without a label; with None all samples have one.

    Raises
    ------
    ValueError
        If fewer than two labels remain beside `unlabeled_label`.

    Examples
    --------
    >>> split = split_labels([-1, 0, 1, -1], unlabeled_label=-1)
    >>> split.labeled, split.classes, split.targets
    (array([1, 2]), array([0, 1]), array([[-1.,  1.]]))
    """
    labels = np.asarray(y)
    if unlabeled_label is None:
        return LabelSplit(labels, np.arange(len(labels)), *encode_labels(labels))
    labeled, left = _find_labeled(labels, unlabeled_label)
    if len(left) < 2:
        raise ValueError(
            f"`y` must hold at least two labels besides `unlabeled_label`={unlabeled_label!r}; got {left}. If "
            f"{unlabeled_label!r} is a class, mark unlabeled samples by another label, or use "
            "`unlabeled_label=None` if there are none."
        )
    return LabelSplit(labels, labeled, *encode_labels(labels[labeled]))


def _find_labeled(labels: np.ndarray, unlabeled_label: Label | None) -> tuple[np.ndarray, list[Any]]:
    """Return the positions of samples with a label, and the different labels in the order of their appearance."""
    labeled = np.flatnonzero([label != unlabeled_label for label in labels.tolist()])
    return labeled, list(dict.fromkeys(labels[labeled].tolist()))


class ClassTargets(NamedTuple):
    """Classes or labels, and the targets of the models that tell them apart."""

    classes: np.ndarray  # (n_classes,), or the numbers of the labels
    targets: np.ndarray  # (n_outputs, n_samples) of -1 and +1, 0 where a sample has no label
    is_multilabel: bool = False


def class_targets(y: Any, unlabeled_label: Label | None = None) -> ClassTargets:
    """Encode classes, several labels per sample, or two classes with unlabeled samples.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Classes, or a matrix of 0 and 1 that says which labels a sample has.
    unlabeled_label : label or None
        Mark of samples without a label; exactly two classes must remain.

    Returns
    -------
    ClassTargets

    Raises
    ------
    ValueError
        If `y` is not made of class labels, holds one class only, one sample of one of two classes, or not exactly two
        classes besides `unlabeled_label`.

    Warns
    -----
    UserWarning
        If there is but one sample of some of more than two classes, or a label is had by no sample or by all.

    Examples
    --------
    >>> class_targets([1, -1, 0], unlabeled_label=-1)
    ClassTargets(classes=array([0, 1]), targets=array([[ 1.,  0., -1.]]), is_multilabel=False)
    """
    if type_of_target(y) == "multilabel-indicator":
        return _label_targets(y, unlabeled_label)
    y = column_or_1d(y, warn=True)
    if unlabeled_label is not None:
        return _partial_targets(y, unlabeled_label)
    classes, targets = encode_labels(y)
    counts = np.unique(y, return_counts=True)[1]
    rare = ", ".join(repr(label) for label in classes[counts < 2].tolist())
    advice = "Merge the class with another, leave the sample out, or stratify the split."
    if rare and len(classes) == 2:
        raise ValueError(
            f"`y` must hold at least two samples of every class; got one of {rare}, of {len(y)} samples. {advice}"
        )
    if rare:  # of one among more the others can be learned
        warn_user(
            f"`y` holds one sample only of {rare}: too little to learn a class from. {advice}", UserWarning
        )
    return ClassTargets(classes, targets)


def _partial_targets(y: np.ndarray, unlabeled_label: Label | None) -> ClassTargets:
    _, left = _find_labeled(y, unlabeled_label)
    if len(left) != 2:
        raise ValueError(
            f"`y` must hold exactly two labels besides `unlabeled_label`={unlabeled_label!r}; got {left}. "
            + (
                "Semi-supervised learning is for two classes: recode `y`, one class against the others. "
                if len(left) > 2
                else ""
            )
            + f"If {unlabeled_label!r} is a class, use `unlabeled_label=None`."
        )
    split = split_labels(y, unlabeled_label)
    targets = np.zeros((1, len(y)))
    targets[:, split.labeled] = split.targets
    return ClassTargets(split.classes, targets)


def _label_targets(y: Any, unlabeled_label: Label | None) -> ClassTargets:
    if unlabeled_label is not None:
        raise ValueError(
            f"`unlabeled_label` is for two classes, not for a matrix of labels; got {unlabeled_label!r}. Fit a model "
            "for each label that has unlabeled samples."
        )
    y = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    targets = np.where(y.T > 0, 1.0, -1.0)
    constant = [label for label, row in enumerate(targets) if abs(row.sum()) == len(row)]
    if constant:
        warn_user(
            f"`y` says the same of all {len(y)} samples for the labels {constant}: nothing can be learned about "
            "them. Leave their columns out.",
            UserWarning,
        )
    return ClassTargets(np.arange(len(targets)), targets, is_multilabel=True)


def most_probable(scores: np.ndarray) -> np.ndarray:
    """Return the positions of the classes that scores speak for.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Of the second of two classes against the first, or of every class.

    Examples
    --------
    >>> most_probable(np.array([-1.0, 2.0])), most_probable(np.array([[0.0, -1.0, 3.0]]))
    (array([0, 1]), array([2]))
    """
    return (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


class Grades(NamedTuple):
    """Grades of samples."""

    levels: np.ndarray  # (n_levels,), ascending
    codes: np.ndarray  # (n_samples,), their places among the levels, from 0


def given_levels(levels: Any, y: Targets) -> np.ndarray | None:
    """Return the grades in ascending order, of `levels` or of an ordered categorical; None if neither says it.

    Parameters
    ----------
    levels : sequence or None
        As users give them.
    y : array-like of shape (n_samples,)
        Grades, before they are validated.

    Raises
    ------
    ValueError
        If `levels` are not at least two different grades.

    Examples
    --------
    >>> given_levels(["low", "high"], ["high", "low"])
    array(['low', 'high'], dtype='<U4')
    """
    if levels is None:
        kind = getattr(y, "dtype", None)
        if not getattr(kind, "ordered", False):
            return None
        seen: Any = y
        levels = [level for level in kind.categories if level in set(seen)]  # type: ignore[union-attr]
    listed = isinstance(levels, Sequence | np.ndarray) or hasattr(levels, "to_list")
    found = check_labels(levels) if listed and not isinstance(levels, str | bytes) else np.zeros(0)
    if found.ndim != 1 or len(np.unique(found)) != len(found) or len(found) < 2:
        raise ValueError(
            f"`levels` must be None or at least two different grades in ascending order; got {shown(levels)}."
        )
    return found


def number_grades(levels: np.ndarray | None, y: np.ndarray) -> Grades:
    """Return the numbers of the grades of samples.

    Parameters
    ----------
    levels : ndarray of shape (n_levels,), or None
        Grades in ascending order; None takes those of `y` if they are numbers.
    y : ndarray of shape (n_samples,)
        Validated grades.

    Raises
    ------
    ValueError
        If grades are text without levels, there is only one, some are not among the levels, or a level has no sample.

    Examples
    --------
    >>> number_grades(np.array(["low", "high"]), np.array(["high", "low", "high"])).codes
    array([1, 0, 1])
    """
    if levels is None:
        levels = np.unique(y)
        if levels.dtype.kind not in "biuf":
            raise ValueError(
                f"`levels` must say the order of grades that are text; got None, and {shown(y.tolist()[0])} in `y`. "
                'Pass them in ascending order, such as `levels=["low", "middle", "high"]`.'
            )
    levels = _all_seen(levels, y)
    sorter = np.argsort(levels)
    return Grades(levels, sorter[np.searchsorted(levels, y, sorter=sorter)])


def _all_seen(levels: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the grades if they are those of the samples."""
    if len(levels) < 2:
        raise ValueError(
            f"`y` must hold at least two grades; got one class only: {levels.tolist()[0]!r}. Check how the training "
            "samples were selected."
        )
    unknown = np.setdiff1d(y, levels)
    if len(unknown):
        raise ValueError(
            f"`y` must hold grades of `levels`, {levels.tolist()}; got {unknown[:5].tolist()} too. Add them, or "
            "leave these samples out."
        )
    absent = np.setdiff1d(levels, y)
    if len(absent):
        raise ValueError(
            f"`y` must hold samples of every grade of `levels`; got none of {absent[:5].tolist()}, whose cut points "
            "nothing would tell. Leave it out of `levels`, or join it with its neighbor."
        )
    return levels
