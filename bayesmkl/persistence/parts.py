"""Traversal of a model down to its last attribute."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


_PLAIN = (str, bytes, int, float, np.generic)


def every_part(value: object) -> Iterator[Any]:
    """Yield every object in a model once, the outer ones first."""
    yield from (part for _, part in _walk(value, ""))


def faults(model: BaseEstimator, name: str) -> Iterator[tuple[str, str]]:
    """Find objects that a file could name but not restore: (where it is, what it is and what to do)."""
    for place, part in _walk(model, name):
        if (fault := _fault(part)) is not None:
            yield place, fault


def labels_of_index(part: object) -> np.ndarray | None:
    """Return the labels of an index of pandas as an array, if they are text or numbers; None of anything else.

    Transformers of scikit-learn hold the names of columns so, where they give frames.

    Examples
    --------
    >>> import pandas as pd
    >>> labels_of_index(pd.Index(["age", "sex"])), labels_of_index(pd.RangeIndex(2))
    (array(['age', 'sex'], dtype=object), array([0, 1]))
    >>> labels_of_index(pd.Series(["age"])) is labels_of_index(pd.Index([("a", 1)])) is None
    True
    """
    is_of_pandas = type(part).__module__.partition(".")[0] == "pandas"
    if not is_of_pandas or type(part).__name__ not in ("Index", "RangeIndex"):
        return None
    labels = part.tolist()  # type: ignore[attr-defined]
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, dtype=object)
    return np.array(labels) if all(type(label) in (bool, int, float) for label in labels) else None


def in_one_piece(part: object) -> np.ndarray | None:
    """Return an array whose columns are apart from each other in memory with the columns next to each other.

    Files hold all others row by row, and products of what is read back would differ in the last digit.

    Examples
    --------
    >>> part = np.asfortranarray(np.eye(3))[:2]
    >>> in_one_piece(part).strides, in_one_piece(np.eye(3)[:, :2]) is None
    ((8, 16), True)
    """
    if not isinstance(part, np.ndarray) or part.ndim < 2 or part.dtype.kind not in "biufc":
        return None
    if part.flags.c_contiguous or part.flags.f_contiguous or list(part.strides) != sorted(part.strides):
        return None
    return np.asfortranarray(part)


def plain_slice(part: slice) -> slice:
    """Return a slice whose numbers are Python's, as those of a view may be NumPy's: JSON has no others.

    Examples
    --------
    >>> plain_slice(slice(np.int64(2), None))
    slice(2, None, None)
    """
    ends = (part.start, part.stop, part.step)
    return slice(*(int(end) if isinstance(end, np.integer) else end for end in ends))


def _fault(part: object) -> str | None:
    if isinstance(part, (types.FunctionType, type)):
        return _not_importable(part)
    if isinstance(part, types.ModuleType):
        return f"the module {part.__name__!r}, which no file keeps. Leave out what holds it."
    if type(part).__module__.partition(".")[0] == "pandas":
        if labels_of_index(part) is not None:
            return None
        return f"a pandas {type(part).__name__}, which skops cannot keep. Pass a NumPy array or a list."
    fault = _not_importable(type(part))
    return None if fault is None else f"an object of {fault}"


def _walk(value: object, place: str) -> Iterator[tuple[str, Any]]:
    """Yield all parts and where they are, each once."""
    seen: set[int] = set()
    left = [(place, value)]
    while left:
        place, value = left.pop()
        if id(value) in seen or value is None or isinstance(value, _PLAIN):
            continue
        seen.add(id(value))
        yield place, value
        left.extend(reversed(list(_parts(value, place))))


def _parts(value: object, place: str) -> Iterator[tuple[str, Any]]:
    closed = isinstance(value, (types.FunctionType, types.ModuleType, type))
    if closed or type(value).__module__.partition(".")[0] == "pandas":
        return
    if isinstance(value, Mapping):
        yield from ((f"{place}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            yield from ((f"{place}[{i}]", part) for i, part in enumerate(value.ravel()))
    elif isinstance(value, (list, tuple, set)):
        names = getattr(value, "_fields", None)
        for i, part in enumerate(value):
            yield f"{place}.{names[i]}" if names else f"{place}[{i}]", part
    elif isinstance(value, functools.partial):
        yield from (
            (f"{place}.func", value.func),
            (f"{place}.args", value.args),
            (f"{place}.keywords", value.keywords),
        )
    elif isinstance(value, types.MethodType):
        yield f"{place}.__self__", value.__self__
    elif hasattr(value, "__dict__"):
        state = value.__getstate__()  # what files hold of it
        kept = state if isinstance(state, dict) else vars(value)
        yield from ((f"{place}.{name}", part) for name, part in kept.items())


def _not_importable(named: type | types.FunctionType) -> str | None:
    kind, name = "class" if isinstance(named, type) else "function", named.__qualname__
    remedy = "Define it at the top level of a module that can be imported where the model is loaded."
    if named.__name__ == "<lambda>":
        return f"a lambda, which has no name to be found by. Give it one with `def`. {remedy}"
    if "." in name:
        return f"the {kind} {name!r}, which is defined inside another one. {remedy}"
    if named.__module__ in ("__main__", "__mp_main__"):
        return f"the {kind} {name!r} of a script or notebook. {remedy}"
    return None
