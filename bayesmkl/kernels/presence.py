"""Missing views of samples, marked by NaN in features or in kernels.

A view is there or not. In a table of features all columns of an absent view are NaN; in a kernel the row and the
column of a sample that lacks its view are NaN. Algorithms get zeros in their place and a mask of what is present.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayesmkl._utils.validation import counted
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.views import View


def present_views(X: np.ndarray, views: Sequence[View]) -> np.ndarray:
    """Return the mask of present views.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        NaN marks what is missing.
    views : sequence of View of length n_views
        A view that shares columns with an absent one is absent as well, as far as its missing columns are those of
        absent views.

    Returns
    -------
    present : ndarray of bool of shape (n_views, n_rows)

    Raises
    ------
    ValueError
        For rows that lack a part of a view.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.presence import present_views
    >>> from bayesmkl.kernels.views import View
    >>> X = np.array([[1.0, 2.0, 3.0], [1.0, np.nan, np.nan]])
    >>> present_views(X, [View("left", np.array([0])), View("right", np.array([1, 2]))])
    array([[ True,  True],
           [ True, False]])
    """
    missing = np.isnan(X)
    present = np.ones((len(views), len(X)), dtype=bool)
    if not missing.any():
        return present
    unexplained = missing & ~_of_absent_views(missing, views)
    for v, view in enumerate(views):
        in_part = unexplained[:, view.columns].any(axis=1)
        if in_part.any():
            raise ValueError(
                _incomplete(view, in_part, whole=len(views) == 1 and len(view.columns) == X.shape[1])
            )
        present[v] = ~missing[:, view.columns].any(axis=1)
    return present


def _of_absent_views(missing: np.ndarray, views: Sequence[View]) -> np.ndarray:
    """Return the mask of entries of views that are absent as a whole, (n_rows, n_features)."""
    explained = np.zeros_like(missing)
    for view in views:
        explained[:, view.columns] |= missing[:, view.columns].all(axis=1, keepdims=True)
    return explained


def column_means(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the means of columns over what is not NaN, (n_features,); NaN where there is nothing.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    weights : ndarray of shape (n_rows,), optional
        How often rows count; None is once each.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.presence import column_means
    >>> column_means(np.array([[1.0, np.nan], [3.0, np.nan]]))
    array([ 2., nan])
    """
    there = ~np.isnan(X)
    counts = there if weights is None else there * weights[:, None]
    total, count = (np.where(there, X, 0.0) * counts).sum(axis=0), counts.sum(axis=0)
    return np.divide(total, count, out=np.full(X.shape[1], np.nan), where=count > 0)


def with_means(X: np.ndarray, views: Sequence[View], means: np.ndarray) -> np.ndarray:
    """Put means in the place of NaN in views that are not absent as a whole.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    views : sequence of View
    means : ndarray of shape (n_features,)
        Result of `column_means`, of training samples.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        `X` itself where there is nothing to do. NaN is left in absent views, and in columns that no view has.

    Raises
    ------
    ValueError
        For a column that has no mean.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.presence import with_means
    >>> from bayesmkl.kernels.views import View
    >>> X = np.array([[np.nan, 2.0, 3.0], [1.0, np.nan, np.nan]])
    >>> with_means(X, [View("left", np.array([0])), View("right", np.array([1, 2]))], np.array([5.0, 6.0, 7.0]))
    array([[nan,  2.,  3.],
           [ 1., nan, nan]])
    >>> with_means(X, [View("all", np.array([0, 1, 2]))], np.array([5.0, 6.0, 7.0]))
    array([[5., 2., 3.],
           [1., 6., 7.]])
    """
    missing = np.isnan(X)
    of_views = np.unique(np.concatenate([view.columns for view in views]))
    if not missing[:, of_views].any():
        return X
    partly = missing & ~_of_absent_views(missing, views)
    partly[:, np.setdiff1d(np.arange(X.shape[1]), of_views)] = False
    unknown = np.flatnonzero(partly.any(axis=0) & np.isnan(means))
    if len(unknown):
        raise ValueError(
            f"`X`: column {unknown[0]} is NaN for all training samples: it has no mean to impute. Leave it out of "
            "`views`."
        )
    return np.where(partly, means, X)


def check_some_view(present: np.ndarray | None) -> None:
    """Raise for samples without any view.

    `present` is of shape (n_views or n_kernels, n_rows); None: nothing is absent.
    """
    if present is None:
        return
    bare = np.flatnonzero(~present.any(axis=0))
    if len(bare):
        raise ValueError(
            f"`X`: all views of {counted(len(bare), 'sample')} are missing, the first in row {bare[0]}. "
            "Nothing is known about them: leave them out."
        )


def refuse_absent(name: str, present: np.ndarray, views: Sequence[View], remedy: str) -> None:
    """Raise for a view that all rows of the argument `name` lack; `present` is of shape (n_views, n_rows)."""
    for view, own in zip(views, present, strict=True):
        if not own.any():
            raise ValueError(
                f"{name} must have samples with the view {view.name!r}; got {len(own)} without it. {remedy}"
            )


def _incomplete(view: View, rows: np.ndarray, whole: bool) -> str:
    first, n_rows = np.flatnonzero(rows)[0], int(rows.sum())
    remedy = (
        "There is one view of all columns. Name the views that can be missing, `KernelBank(views={name: "
        "columns, ...})`, and impute within them."
        if whole
        else "A view must be complete or missing as a whole. Impute within the view, for example by means with "
        '`KernelBank(missing_views="impute")`, or split it into smaller views.'
    )
    return (
        f"`X`: {counted(n_rows, 'sample')} {'has' if n_rows == 1 else 'have'} NaN in some but not all columns of "
        f"view {view.name!r}, the first in row {first}. {remedy}"
    )


def stack_with_absent(
    kernels: np.ndarray,
    names: Sequence[str],
    train_present: np.ndarray | None = None,
    in_place: bool = False,
) -> DenseStack:
    """Replace NaN of absent samples by zeros and remember where they were.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_rows, n_train)
        The row of an absent query point is NaN, and so is the column of an absent training point.
    names : sequence of str of length n_kernels
        Names of the kernels in messages.
    train_present : ndarray of bool of shape (n_kernels, n_train), optional
        Training points that have what each kernel compares. None: the kernels are those of training, and tell.
    in_place : bool, default=False
        Whether `kernels` may be overwritten.

    Returns
    -------
    stack : DenseStack
        With ``present=None`` where all rows are there.

    Raises
    ------
    ValueError
        For NaN elsewhere, and for a kernel that no training point has.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.presence import stack_with_absent
    >>> first = np.array([[1.0, np.nan], [np.nan, np.nan]])
    >>> stack = stack_with_absent(np.stack([first, np.eye(2)]), ["first", "second"])
    >>> stack.kernels[0]
    array([[1., 0.],
           [0., 0.]])
    >>> stack.present
    array([[ True, False],
           [ True,  True]])
    """
    present = np.ones(kernels.shape[:2], dtype=bool)
    filled = kernels
    for m, name in enumerate(names):
        missing = np.isnan(kernels[m])
        if train_present is None and missing.all():
            raise ValueError(f"{name!r} is missing (NaN) for all training samples. Leave this kernel out.")
        if not missing.any() and (train_present is None or train_present[m].all()):
            continue
        absent = missing.all(axis=1)
        in_columns = absent if train_present is None else ~train_present[m]
        if not np.array_equal(missing, absent[:, None] | in_columns):
            raise ValueError(_misplaced(name, missing, absent, in_columns))
        present[m] = ~absent
        filled = kernels.copy() if filled is kernels and not in_place else filled
        filled[m][absent] = 0.0
        filled[m][:, in_columns] = 0.0
    return DenseStack(filled, None if present.all() else present)


def _misplaced(name: str, missing: np.ndarray, absent: np.ndarray, in_columns: np.ndarray) -> str:
    """Describe an entry where NaN contradicts the presence of its samples: NaN between present ones, or no NaN."""
    unexpected = np.argwhere(missing & ~absent[:, None] & ~in_columns)
    if len(unexpected):
        row, column = unexpected[0]
        return (
            f"`X`: {name!r} has NaN between samples that have it, at [{row}, {column}] for one. NaN marks a sample "
            "without this view, by all of its row and all of its column."
        )
    row, column = np.argwhere(~missing & in_columns)[0]
    return (
        f"`X`: {name!r} is not NaN at [{row}, {column}], although training sample {column} lacks the view. Are "
        "the training samples along the second axis the same, in the same order?"
    )


def centered(stack: DenseStack, center: np.ndarray) -> DenseStack:
    """Return kernels with their present rows measured from a center.

    Parameters
    ----------
    stack : DenseStack
    center : ndarray of shape (n_kernels, n_train)

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.presence import centered
    >>> stack = DenseStack(np.array([[[1.0, 2.0], [0.0, 0.0]]]), np.array([[True, False]]))
    >>> centered(stack, np.array([[1.0, 0.5]])).kernels[0, 0].tolist()
    [0.0, 1.5]
    """
    if not center.any():
        return stack
    kernels = stack.kernels - center[:, None]
    if stack.present is not None:
        kernels *= stack.present[:, :, None]
    return stack._replace(kernels=kernels)
