"""Conversion of user arrays to real numbers, with errors that name the argument.

Whatever NumPy would turn into numbers in silence (text such as "1.5", dates, the values under a mask) is refused too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from bayesmkl._utils.units import LARGEST, SMALLEST
from bayesmkl._utils.validation import shown

NOT_NUMBERS = {"U": "text", "S": "bytes", "M": "dates", "m": "time differences", "V": "a structured array"}
# What makes a table of a query: of Spark, polars, Dask and Ibis.
EVALUATE = ("toPandas", "collect", "compute", "execute")


def as_array(name: str, values: object) -> np.ndarray:
    """Return `values` as an array of at least one dimension, of any type.

    Examples
    --------
    >>> as_array("y", ["a", "b"])
    array(['a', 'b'], dtype='<U1')
    >>> as_array("y", [[1], [2, 3]])
    Traceback (most recent call last):
    ...
    ValueError: `y` must be an array; the rows of what came have different lengths.
    """
    if sparse.issparse(values):
        raise TypeError(
            f"`{name}` must be a dense array; got a sparse {type(values).__name__}. Use `.toarray()`."
        )
    if isinstance(values, np.ma.MaskedArray):
        n_masked = int(np.ma.getmaskarray(values).sum())
        if n_masked:
            raise ValueError(
                f"`{name}` must not have masked entries; {n_masked} of {values.size} are. Leave these samples out, "
                "or fill them, `.filled(value)`."
            )
        values = values.data
    refuse_unevaluated(name, values)
    try:
        array = np.asarray(values)
    except TypeError as error:
        raise TypeError(f"`{name}` must be an array; got a {type(values).__name__}: {error}") from error
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be an array; the rows of what came have different lengths."
        ) from error
    if array.ndim == 0:
        raise ValueError(f"`{name}` must be an array; got {shown(values)}.")
    return array


def refuse_unevaluated(name: str, values: object) -> None:
    """Raise for queries that stand for a table, classes of tables, and Arrow's batches.

    Examples
    --------
    >>> import polars
    >>> refuse_unevaluated("X", polars.LazyFrame({"a": [1.0]}))
    Traceback (most recent call last):
    ...
    TypeError: `X` must be a table in memory; got a LazyFrame, which is evaluated when asked. Use `.collect()`.
    """
    if isinstance(values, type):
        raise TypeError(f"`{name}` must be an array; got the class {values.__name__}.")
    kind = type(values)  # no attribute of the query itself, which may be work
    if kind.__name__ == "RecordBatch":  # scikit-learn would not compare the names of its columns
        raise TypeError(f"`{name}` must be an array or a table; got a RecordBatch. Use `pa.table(batch)`.")
    evaluate = next((method for method in EVALUATE if hasattr(kind, method)), None)
    if evaluate and hasattr(kind, "columns"):
        raise TypeError(
            f"`{name}` must be a table in memory; got a {kind.__name__}, which is evaluated when asked. Use "
            f"`.{evaluate}()`."
        )


def is_frame(values: object) -> bool:
    """Return whether values are a DataFrame of pandas or polars."""
    return hasattr(values, "columns") and hasattr(values, "dtypes")


def check_numbers(name: str, values: object) -> np.ndarray:
    """Return `values` as an array, of objects where they were objects, if it holds real numbers, NaN or None.

    Examples
    --------
    >>> check_numbers("X", [["1.5"]])
    Traceback (most recent call last):
    ...
    ValueError: `X` must hold numbers; got text. Convert or encode it first.
    """
    array = as_array(name, values)
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(
            f"`{name}` must hold real numbers. Complex data not supported: pass real and imaginary parts as columns."
        )
    if kind in NOT_NUMBERS:
        raise ValueError(f"`{name}` must hold numbers; got {NOT_NUMBERS[kind]}. Convert or encode it first.")
    if kind == "O":
        strange = next((value for value in array.flat if not _is_number(value)), None)
        if strange is not None:
            raise (ValueError if isinstance(strange, str | bytes) else TypeError)(
                f"`{name}` must hold numbers; got an entry {shown(strange)} of type {type(strange).__name__} (an "
                "argument must be no string or other object but a number). Convert, encode or leave it out."
            )
    return array


def finite_numbers(name: str, values: object) -> np.ndarray:
    """Return `values` as an array of float64 if it holds finite real numbers.

    Examples
    --------
    >>> finite_numbers("y_prob", [0.5, np.nan])
    Traceback (most recent call last):
    ...
    ValueError: `y_prob` must hold finite numbers; got NaN or infinity.
    """
    array = check_numbers(name, values).astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must hold finite numbers; got NaN or infinity.")
    return array


def check_weights(values: object, n_samples: int, name: str = "sample_weight") -> np.ndarray | None:
    """Return weights of samples, or None where there are none or all of them are one.

    Examples
    --------
    >>> check_weights([2, 0, 1], 3), check_weights([1, 1], 2)
    (array([2., 0., 1.]), None)
    >>> check_weights([1, -1], 2)
    Traceback (most recent call last):
    ...
    ValueError: `sample_weight` must hold no negative weight; got -1 for sample 1. A weight of zero leaves ...
    """
    if values is None:
        return None
    weights = finite_numbers(name, values)
    if weights.shape != (n_samples,):
        raise ValueError(
            f"`{name}` must hold one weight for each of the {n_samples} samples; got shape {weights.shape}."
        )
    if weights.min() < 0.0:
        i = int(weights.argmin())
        raise ValueError(
            f"`{name}` must hold no negative weight; got {weights[i]:g} for sample {i}. A weight of zero leaves a "
            "sample out."
        )
    if not weights.any():
        raise ValueError(f"`{name}` must hold a weight above zero; all {n_samples} weights are zero.")
    check_magnitude(name, weights, "Multiply all by one factor: only their ratios and `C` matter.")
    return None if np.all(weights == 1.0) else weights


def check_magnitude(name: str, values: np.ndarray, remedy: str) -> None:
    """Raise for numbers whose squares overflow, or all vanish.

    Examples
    --------
    >>> check_magnitude("y", np.array([0.0, -1e200]), "Use other units.")
    Traceback (most recent call last):
    ...
    ValueError: `y` must have a largest magnitude between 1e-100 and 1e+100, or be zero; got 1e+200. Use other units.
    """
    size = max(abs(float(values.min(initial=0.0))), abs(float(values.max(initial=0.0))))
    if size != 0.0 and not SMALLEST <= size <= LARGEST:
        raise ValueError(
            f"`{name}` must have a largest magnitude between {SMALLEST:g} and {LARGEST:g}, or be zero; got "
            f"{size:.3g}. {remedy}"
        )


@contextmanager
def naming(name: str, values: object = None, nan_remedy: str = "") -> Iterator[None]:
    """Name the argument in errors of a validation that do not; say where it is not finite, and what to do.

    Parameters
    ----------
    name : str
        Of the argument.
    values : object, optional
        What is validated, to say where NaN and infinity are; None leaves the words of the validation.
    nan_remedy : str
        Is added where there is NaN.

    Examples
    --------
    >>> with naming("X"):
    ...     raise ValueError("Found array with 0 samples.")
    Traceback (most recent call last):
    ...
    ValueError: `X`: Found array with 0 samples.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # sums over all entries look for infinities
            yield
    except (TypeError, ValueError) as error:
        found = re.match(rf"Input {name} contains (NaN|infinity)", str(error))
        if found and values is not None:
            remedy = "Fill them in, or leave these rows or columns out."
            remedy += f" {nan_remedy}" if nan_remedy and found[1] == "NaN" else ""
            where = _places(values, np.isnan if found[1] == "NaN" else np.isinf)
            raise ValueError(f"`{name}` must be finite. {found[0]}{where}. {remedy}") from error
        if re.search(rf"\b{name}\b", str(error)):
            raise
        raise type(error)(f"`{name}`: {error}") from error


def _places(values: Any, is_wrong: Callable[[np.ndarray], np.ndarray]) -> str:
    """Say where an array or a frame has wrong numbers, as ", in column 'b' (2 of 30 rows, the first row 4)"."""
    try:
        array = np.asarray(
            values.to_numpy(dtype=float, na_value=np.nan) if hasattr(values, "columns") else values,
            dtype=float,
        )
    except (TypeError, ValueError, AttributeError):
        return ""
    wrong = np.asarray(is_wrong(array))
    if array.ndim != 2 or not wrong.any():
        return f": {int(wrong.sum())} of {wrong.size} values"
    names = list(values.columns) if hasattr(values, "columns") else range(array.shape[1])
    columns = [repr(names[j]) for j in np.flatnonzero(wrong.any(axis=0)).tolist()]
    first = columns if len(columns) <= 4 else [*columns[:3], f"{len(columns) - 3} others"]
    rows = np.asarray(wrong.any(axis=1))
    counts = f"{int(rows.sum())} of {len(rows)} rows, the first row {int(rows.argmax())}"
    return f", in column{'s' * (len(columns) > 1)} {', '.join(first)} ({counts})"


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, Real | Decimal | np.bool_)


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
