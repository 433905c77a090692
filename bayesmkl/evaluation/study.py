"""Data sets and models of a comparison."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from bayesmkl._utils.given import check_weights
from bayesmkl._utils.typing import Splits
from bayesmkl.datasets._bundled import load_named


class Data(NamedTuple):
    """Samples and labels of a data set."""

    X: Any  # (n_samples, n_features), a DataFrame, or (n_samples, n_samples, n_kernels)
    y: np.ndarray  # (n_samples,), structured where it holds times to an event
    groups: np.ndarray | None = None  # (n_samples,)
    splits: list[tuple[np.ndarray, np.ndarray]] | None = None  # rows to train on and to test on
    weights: np.ndarray | None = None  # (n_samples,), of samples in fits


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
