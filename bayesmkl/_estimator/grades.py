"""Grades, classes with an order, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._estimator.targets import check_labels
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import shown


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
