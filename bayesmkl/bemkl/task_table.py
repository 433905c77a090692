"""Samples, tasks and targets of multitask estimators in one form.

Either `y` has a column for every task, with gaps where a sample lacks it, or every sample belongs to one task, which
`tasks` names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, column_or_1d

from bayesmkl._utils.given import as_array, check_magnitude, check_numbers, is_missing, naming
from bayesmkl._utils.typing import Targets
from bayesmkl.outcomes.labels import plain_labels
from bayesmkl.outcomes.numbers import UNITS


class TaskTable(NamedTuple):
    """Targets of all samples in all tasks.

    Parameters
    ----------
    names : ndarray of shape (n_tasks,)
    values : ndarray of shape (n_samples, n_tasks)
        Anything where the sample lacks the task.
    present : ndarray of bool, of shape (n_samples, n_tasks)
    is_single : bool
        Whether `y` was one vector without names of tasks: one task, whose results are vectors too.
    """

    names: np.ndarray
    values: np.ndarray
    present: np.ndarray
    is_single: bool = False

    @property
    def samples(self) -> list[np.ndarray]:
        """Positions of the samples of every task."""
        return [np.flatnonzero(column) for column in self.present.T]


def target_table(y: Targets, tasks: ArrayLike | None = None) -> TaskTable:
    """Arrange real targets; NaN marks a task that a sample lacks.

    Parameters
    ----------
    y : array-like of shape (n_samples, n_tasks) or (n_samples,)
    tasks : array-like of shape (n_samples,), optional
        With `y` of one dimension, the task of every sample.

    Examples
    --------
    >>> table = target_table([[1.0, np.nan], [2.0, 3.0]])
    >>> table.samples
    [array([0, 1]), array([1])]
    >>> target_table([1.0, 2.0], ["b", "a"]).samples
    [array([1]), array([0])]
    """
    _refuse_none(y)
    values = check_numbers("y", y)
    with naming("y"):
        values = check_array(
            values, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan", input_name="y"
        )
        if values.ndim == 1:
            check_array(values, ensure_2d=False, input_name="y")
    return _table(y, values, np.isfinite(values), tasks)


def label_table(y: Targets, tasks: ArrayLike | None = None) -> TaskTable:
    """Arrange class labels; None and NaN mark a task that a sample lacks.

    Parameters
    ----------
    y : array-like of shape (n_samples, n_tasks) or (n_samples,)
    tasks : array-like of shape (n_samples,), optional
        With `y` of one dimension, the task of every sample.

    Examples
    --------
    >>> label_table([[1, np.nan], [0, 1]]).present
    array([[ True, False],
           [ True,  True]])
    """
    _refuse_none(y)
    values = as_array("y", y)
    with naming("y"):
        if values.dtype.kind == "f":
            check_array(values, ensure_2d=False, ensure_all_finite="allow-nan", input_name="y")
        if values.ndim != 2:
            values = column_or_1d(values)
    present = ~is_missing(values)
    if values.ndim == 1 and not present.all():
        raise ValueError(
            f"`y` must hold a label for every sample where it is one vector; {np.sum(~present)} of {len(present)} "
            "are missing. Leave these samples out."
        )
    return _table(y, values, present, tasks)


def _refuse_none(y: Targets) -> None:
    if y is None:
        raise ValueError(
            "`y` must hold the targets of all tasks. This estimator requires y to be passed, but the target y is "
            "None."
        )


def _table(y: Targets, values: np.ndarray, present: np.ndarray, tasks: ArrayLike | None) -> TaskTable:
    if tasks is None:
        if values.ndim == 1:
            return TaskTable(np.array([0]), values[:, None], present[:, None], is_single=True)
        names = getattr(y, "columns", None)
        return TaskTable(np.arange(values.shape[1]) if names is None else np.asarray(names), values, present)
    if values.ndim == 2:
        raise ValueError(
            f"`tasks` is for a `y` of shape (n_samples,); got `y` of shape {values.shape}, whose columns are "
            "tasks already. Leave `tasks` out."
        )
    tasks = _task_names(tasks)
    if len(tasks) != len(values):
        raise ValueError(
            f"`y` and `tasks` have inconsistent numbers of samples: {[len(values), len(tasks)]}. Name one task per "
            "entry of `y`."
        )
    names, codes = np.unique(tasks, return_inverse=True)
    member = codes[:, None] == np.arange(len(names))
    return TaskTable(names, np.broadcast_to(values[:, None], member.shape), member)


def _task_names(tasks: ArrayLike) -> np.ndarray:
    with naming("tasks"):
        names = column_or_1d(as_array("tasks", tasks if hasattr(tasks, "dtype") else _as_objects(tasks)))
    if is_missing(names).any():
        raise ValueError(
            f"`tasks` must name the task of every sample; {np.sum(is_missing(names))} of {len(names)} are missing."
        )
    if any(isinstance(name, Collection) and not isinstance(name, str) for name in names.tolist()):
        raise ValueError("`tasks` must hold a name for every sample, text or a number; got lists of them.")
    if len({type(name) for name in names.tolist()}) > 1:
        raise ValueError("`tasks` must hold names of one kind, all strings or all numbers.")
    return np.array(names.tolist())


def _as_objects(tasks: ArrayLike) -> Any:
    """Keep names as objects: NumPy turns 1 and "a" into two strings."""
    return np.asarray(tasks, dtype=object) if isinstance(tasks, list | tuple) else tasks


def codes_of(tasks: ArrayLike, names: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the positions of `tasks` among the `names` of fitted tasks.

    Examples
    --------
    >>> codes_of(["b", "a", "b"], np.array(["a", "b"]), 3)
    array([1, 0, 1])
    """
    asked = _task_names(tasks)
    if len(asked) != n_rows:
        raise ValueError(
            f"`tasks` must name one task for each of the {n_rows} rows of `X`; got {len(asked)} names."
        )
    position = {name: code for code, name in enumerate(names.tolist())}
    unknown = sorted({name for name in asked.tolist() if name not in position}, key=str)
    if unknown:
        raise ValueError(
            f"`tasks` must name tasks of the training samples, {_few(names.tolist())}; got {_few(unknown)}."
        )
    return np.array([position[name] for name in asked.tolist()])


def _few(names: list[Any], most: int = 5) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def task_targets(table: TaskTable) -> list[np.ndarray]:
    """Return the real targets of every task.

    Examples
    --------
    >>> task_targets(target_table([1.0, 2.0, 5.0, 6.0], ["b", "a", "b", "a"]))
    [array([2., 6.]), array([1., 5.])]
    """
    parts = []
    for name, column, rows in zip(table.names.tolist(), table.values.T, table.samples, strict=True):
        if len(rows) < 2:
            raise ValueError(
                f"`y` must hold at least two values for every task; task {name!r} has "
                f"{'one sample' if len(rows) else 'no samples'}. Leave it out."
            )
        check_magnitude("y", column[rows], UNITS)
        parts.append(column[rows])
    return parts


def task_labels(table: TaskTable) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the two classes of every task, sorted, and its labels as -1 and +1.

    Examples
    --------
    >>> task_labels(label_table(["no", "yes", "yes", "no"]))
    ([array(['no', 'yes'], dtype='<U3')], [array([-1.,  1.,  1., -1.])])
    """
    classes, targets = [], []
    for name, column, rows in zip(table.names.tolist(), table.values.T, table.samples, strict=True):
        task = "`y`" if table.is_single else f"`y`: task {name!r}"
        if not len(rows):
            raise ValueError(f"{task} has no samples. Leave it out.")
        labels = plain_labels(column[rows])
        values, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if len(values) > 2:
            raise ValueError(
                f"{task} has {len(values)} classes, {_few(values.tolist())}. Only binary classification is "
                "supported. Recode it, one class against the others in a task of its own, or mark samples that lack "
                "the task by NaN or None."
            )
        if len(values) < 2:
            raise ValueError(
                f"{task} has one class only, {values.tolist()[0]!r}, in {len(rows)} samples. Leave it out, or check "
                "how the training samples were selected."
            )
        if counts.min() < 2:
            raise ValueError(
                f"{task} has one sample of class {values.tolist()[counts.argmin()]!r}, which is too few to "
                "learn from. Leave the task out, or stratify the split."
            )
        classes.append(values)
        targets.append(np.where(codes == 1, 1.0, -1.0))
    return classes, targets
