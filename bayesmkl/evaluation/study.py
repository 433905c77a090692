"""Specification of a comparison: data sets, models, splits and metrics, all of them small to send."""

from __future__ import annotations

import errno
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from bayesmkl._utils.content import ContentHasher
from bayesmkl._utils.given import check_weights
from bayesmkl._utils.typing import Splits
from bayesmkl.datasets._bundled import load_named
from bayesmkl.evaluation.data_files import read_values, write_values

__all__ = [
    "Data",
    "DataRef",
    "ModelSpec",
    "Study",
    "bundled",
    "content_of",
    "from_file",
    "in_memory",
    "label_columns",
    "several_of",
    "spool",
    "spooled",
    "text_of",
    "times_of",
]


class Data(NamedTuple):
    """Samples and labels of a data set."""

    X: Any  # (n_samples, n_features), a DataFrame, or (n_samples, n_samples, n_kernels)
    y: np.ndarray  # (n_samples,), structured where it holds times to an event
    groups: np.ndarray | None = None  # (n_samples,)
    splits: list[tuple[np.ndarray, np.ndarray]] | None = None  # rows to train on and to test on
    weights: np.ndarray | None = None  # (n_samples,), of samples in fits


class DataRef:
    """A data set by the function that loads it and its options: small enough to send to any worker.

    Parameters
    ----------
    load : callable
        Function of a module, which returns :class:`Data`.
    **options
        What it is called with; text and numbers.
    """

    def __init__(self, load: Callable[..., Data], **options: Any) -> None:
        self.load, self.options = load, options
        self.content: str | None = None  # hash of the data, once they have been seen

    def __call__(self) -> Data:
        """Load the data; where their `content` is known, once per process while they are in use.

        Raises
        ------
        ValueError
            If other data are loaded than those whose content is known.
        """
        if self.content is None or self.load is in_memory:
            return self.load(**self.options)
        return _loaded(_Known(self))

    def known(self, data: Data, content: dict[str, str]) -> DataRef:
        """Return a reference to what this one has loaded, which is not loaded again in this process."""
        ref = DataRef(self.load, **self.options)
        ref.content = _one(content)
        if self.load is not in_memory:
            _loaded(_Known(ref, data))
        return ref

    def describe(self) -> dict[str, Any]:
        """Return the source of the data, as text and numbers."""
        if self.load is in_memory:
            return {"content": self.content}
        plain = (str, int, float, bool, type(None))
        options = {name: v if isinstance(v, plain) else text_of(v) for name, v in self.options.items()}
        return {"source": self.load.__name__.lstrip("_"), **options}


def _one(content: dict[str, str]) -> str:
    return ContentHasher()(content)


class _Known:
    """A reference that equals others of the same content."""

    def __init__(self, ref: DataRef, data: Data | None = None) -> None:
        self.ref, self.data = ref, data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.ref.content == other.ref.content

    def __hash__(self) -> int:
        return hash(self.ref.content)


@lru_cache(maxsize=2)
def _loaded(known: _Known) -> Data:
    if known.data is not None:
        return known.data
    data = known.ref.load(**known.ref.options)
    if known.ref.load is not spooled and _one(content_of(data)) != known.ref.content:
        raise ValueError(
            f"`datasets`: {known.ref.describe()} gives other data here than where the comparison was begun. Give all "
            "processes the same files, or give X and y."
        )
    return data


def content_of(data: Data, name: str = "data") -> dict[str, str]:
    """Hash samples, labels, groups and weights; raise NoContentError for objects that have no content."""
    hashed = ContentHasher()
    parts = {"X": data.X, "y": data.y, "groups": data.groups}
    if data.weights is not None:
        parts["weights"] = data.weights
    return {part: hashed(values, f"datasets[{name!r}].{part}") for part, values in parts.items()}


def bundled(name: str) -> Data:
    """Load a data set of the package by its name."""
    return Data(*load_named(name))


def from_file(
    path: str,
    target: str | Sequence[str],
    drop: Iterable[str] = (),
    group: str | None = None,
    quantity: bool = False,
    event: str | None = None,
    weight: str | None = None,
) -> Data:
    """Read a table.

    `group` names a column whose samples stay together in every split, `weight` that of their weights in fits. With
    `quantity`, the target is one, however its numbers are written. With `event`, a column of 0 and 1 or of true and
    false, it is the time to the event or to censoring. Several targets are columns of numbers.
    """
    from bayesmkl.datasets._tables import read_table

    targets = [target] if isinstance(target, str) else list(target)
    table = read_table(Path(path), label_columns(targets, group, quantity or event is not None))
    roles = {"target": targets, "drop": list(drop)}
    roles |= {
        role: [c for c in [column] if c]
        for role, column in (("group", group), ("event", event), ("weight", weight))
    }
    for role, columns in roles.items():
        absent = [column for column in columns if column not in table.columns]
        if absent:
            raise ValueError(
                f"`{role}` must name a column of {str(path)!r}; got {absent[0]!r}. Its columns are "
                f"{', '.join(map(repr, table.columns[:8]))}{', ...' if len(table.columns) > 8 else ''}."
            )
    X = table.drop(columns=[column for columns in roles.values() for column in columns])
    groups = None if group is None else table[group].to_numpy()
    weights = None if weight is None else check_weights(table[weight], len(table), "weight")
    if event is not None:
        return Data(X, times_of(table, targets[0], event), groups, weights=weights)
    if len(targets) == 1:
        return Data(X, table[targets[0]].to_numpy(), groups, weights=weights)
    return Data(X, several_of(table, targets), groups, weights=weights)


def several_of(table: pd.DataFrame, targets: Sequence[str]) -> np.ndarray:
    """Return several targets of each sample as columns of numbers."""
    for target in targets:
        if not pd.api.types.is_numeric_dtype(table[target]):  # truth values are
            raise ValueError(
                "`target` must name columns of numbers where it names several, quantities or labels that are 0 or 1; "
                f"got {target!r}, which holds {table[target].dtype}."
            )
    whole = all(kind.kind in "biu" for kind in table[list(targets)].dtypes)
    return table[list(targets)].to_numpy().astype(int if whole else float)


def times_of(table: pd.DataFrame, target: str, event: str) -> np.ndarray:
    """Return events and times as a structured array."""
    seen, time = table[event], table[target]
    if seen.isna().any() or not set(seen.tolist()) <= {0, 1}:
        other = next(value for value in seen.tolist() if value not in (0, 1))
        raise ValueError(
            f"`event` must name a column of 0 and 1, or of true and false: whether the event was seen; got {other!r} "
            f"in {event!r}. Code it so."
        )
    if not pd.api.types.is_numeric_dtype(time):
        raise ValueError(
            f"`target` must name a column of numbers, the times, where `event` is given; got {target!r}, which holds "
            f"{time.dtype}."
        )
    found = np.empty(len(table), dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = seen.astype(bool), time
    return found


def label_columns(targets: Sequence[str], group: str | None, quantity: bool = False) -> list[str]:
    """Return the columns of a table that hold labels; several targets are numbers."""
    return (list(targets) if len(targets) == 1 and not quantity else []) + ([] if group is None else [group])


def in_memory(data: Data) -> Data:
    """Return data that are there already."""
    return data


def spooled(folder: str) -> Data:
    """Read what :func:`spool` wrote."""
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(
            f"this worker sees no folder {folder!r} with the data of the comparison. Give data sets by name or by "
            "a file that all workers see, or point TMPDIR to a folder that they share."
        )
    return Data(**read_values(path))


def spool(data: Data, folder: Path, content: str | None = None) -> DataRef:
    """Write data to an empty folder and return a small reference to them.

    Raises
    ------
    OSError
        If there is no room for them.
    TypeError
        If there are objects in them that no file keeps as they are.
    """
    try:
        folder.mkdir(parents=True)
        write_values(data._asdict(), folder)
    except OSError as error:
        reason = os.strerror(error.errno or errno.ENOSPC)  # NumPy does not say why it wrote less
        raise OSError(
            f"the data of the comparison could not be written to {str(folder)!r}, where its processes read them: "
            f"{reason}. Free some space, let TMPDIR name a folder on another disk, or use `n_jobs=1`."
        ) from error
    if content is not None and _one(content_of(spooled(str(folder)))) != content:
        raise TypeError(
            "the data of the comparison cannot be handed to other processes as they are: a file gives other values "
            "or types back. Use `n_jobs=1`, or give numbers, text and categories."
        )
    ref = DataRef(spooled, folder=str(folder))
    ref.content = content
    return ref


class ModelSpec:
    """A model to compare.

    Parameters
    ----------
    estimator : estimator
        Not fitted.
    param_grid : dict or list of dict, default=None
        What to try in a cross-validation inside the training part, as for ``GridSearchCV``.
    transductive : bool, default=False
        Fit all rows, with the labels of test rows replaced by the estimator's ``unlabeled_label``.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        transductive: bool = False,
    ) -> None:
        self.estimator, self.param_grid, self.transductive = estimator, param_grid, transductive

    def new(self, seed: int, inner_cv: Splits, inner_scoring: str | None) -> BaseEstimator:
        """Return an estimator to fit, whose open random states are set to `seed`."""
        model = clone(self.estimator)
        states = [n for n in model.get_params() if n == "random_state" or n.endswith("__random_state")]
        model.set_params(**{n: seed for n in states if model.get_params()[n] is None})
        if self.param_grid is None:
            return model
        return GridSearchCV(model, self.param_grid, cv=inner_cv, scoring=inner_scoring)

    def describe(self) -> str:
        """Describe what determines the model, as text: long arrays are shortened, functions named at most."""
        parts = [text_of(self.estimator)]
        if self.param_grid is not None:
            parts.append(f"grid {text_of(self.param_grid)}")
        return "; ".join([*parts, "transductive"] if self.transductive else parts)


class Study(NamedTuple):
    """Data sets x models x splits, and their metrics."""

    datasets: Mapping[str, DataRef]
    models: Mapping[str, ModelSpec]
    cv: Any = 5  # splitter with an integer random_state, number of folds, or None: the splits of the data
    scoring: Any = None
    inner_cv: Any = 5
    inner_scoring: str | None = None
    random_state: int = 0
    unavailable: str = "raise"  # metrics that a model cannot give: "raise" or "nan"
    keep_predictions: bool | float = True  # of cells that are computed now; a number is a limit in MiB
    keys: Mapping[str, str] = {}  # of models and metrics that have no content: texts that stand for them
    retry_failed: bool = False  # compute cells again that are there and failed

    def describe(self) -> dict[str, Any]:
        """Describe what determines the results, as text: different studies can read the same."""
        return {
            "datasets": list(self.datasets),
            "models": {name: spec.describe() for name, spec in self.models.items()},
            "cv": text_of(self.cv),
            "scoring": text_of(self.scoring),
            "inner_cv": text_of(self.inner_cv),
            "inner_scoring": text_of(self.inner_scoring)
            if callable(self.inner_scoring)
            else self.inner_scoring,
            "random_state": int(self.random_state),
            "unavailable": self.unavailable,
        }


def text_of(value: Any) -> str:
    """Return a representation for people, without the addresses of objects; hashes tell values apart.

    Estimators show the parameters that differ from their defaults.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> text_of({"svm": SVC(C=2.0), "widths": [1, 2]})
    "{'svm': SVC(C=2.0), 'widths': [1, 2]}"
    """
    if isinstance(value, BaseEstimator) and not isinstance(value, type):
        defaults = inspect.signature(type(value)).parameters
        shown = {name: text_of(given) for name, given in value.get_params(deep=False).items()}
        changed = [
            f"{n}={t}" for n, t in shown.items() if n not in defaults or t != repr(defaults[n].default)
        ]
        return f"{type(value).__name__}({', '.join(changed)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in value.items()) + "}"
    if type(value) in (list, tuple):
        inside = ", ".join(text_of(item) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return re.sub(r"\s+", " ", re.sub(r" at 0x[0-9a-f]+", "", repr(value)))
