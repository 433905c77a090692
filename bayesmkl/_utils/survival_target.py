"""Times to an event in a structured array: censored, truncated, or known to an interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.given import as_array, is_frame, is_missing
from bayesmkl._utils.validation import shown

ENTRY, LOWER, UPPER = "entry", "lower", "upper"
FORMS = (
    "a DataFrame with a column of the event (true and false, or 1 and 0) and one of the time, two such columns, or "
    "a structured array of shape (n_samples,) with a boolean field (whether the event was seen) and a field of "
    "numbers (time to the event or to censoring), or with the fields 'lower' and 'upper' of an interval; either may "
    "have a field 'entry' too (time at which a subject came under observation)"
)
REMEDY = 'Make one by `np.rec.fromarrays([event, time], names="event,time")`.'


class SurvivalTimes(NamedTuple):
    """Bounds of the times to an event: it happened after `lower`, at `upper` at the latest.

    An event that was seen has ``lower == upper``; one that is right censored has an infinite `upper`, one that is
    left censored a `lower` of zero. A sample is among the data because its event was after `entry`.
    """

    lower: np.ndarray  # (n_samples,), at least `entry`, finite
    upper: np.ndarray  # (n_samples,), positive, at least `lower` and above `entry`
    entry: np.ndarray  # (n_samples,), 0 where observation began with the clock


class EventTimes(NamedTuple):
    """Times at which the event was seen, or until which it was not."""

    event: np.ndarray  # (n_samples,) of bool
    time: np.ndarray  # (n_samples,), not negative


class _Fields(NamedTuple):
    """Fields of a structured array by what they are, as float64; `event` is None where there are intervals."""

    event: np.ndarray | None
    lower: np.ndarray  # the time itself where there is an event field
    upper: np.ndarray
    entry: np.ndarray


def are_times(y: object) -> bool:
    """Return whether targets have fields, as times to an event do, whatever these hold.

    Examples
    --------
    >>> import numpy as np
    >>> are_times(np.rec.fromarrays([[True], [2.0]], names="died,years")), are_times([1, 2])
    (True, False)
    """
    return np.asarray(y).dtype.names is not None


def survival_times(y: object, name: str = "y") -> SurvivalTimes:
    """Return what a structured array says of the times to an event, for estimators.

    Parameters
    ----------
    y : structured array of shape (n_samples,), or DataFrame or array of shape (n_samples, 2)
        A boolean field, True where the event was seen, and a field of numbers, the time to it or to censoring, both
        of any name and in any order; or two fields of numbers named ``lower`` and ``upper``. In both forms one more
        field of numbers named ``entry`` is the time from which on a subject was observed (left truncation). Columns
        of a DataFrame or an array are fields, too, and the event may be 1 and 0.
    name : str, default="y"
        Name of the argument, for messages.

    Returns
    -------
    SurvivalTimes
        Bounds of the times and the times of entry, in the unit of `y`.

    Raises
    ------
    ValueError
        If `y` is no such array, holds NaN or negative times, an event at time zero, bounds in the wrong order, an
        entry that is not before the event, or no sample whose event is known to have happened.
    TypeError
        If `y` is a sparse matrix or a table that is evaluated when asked.

    Examples
    --------
    >>> y = np.array([(True, 2.0), (False, 5.0)], dtype=[("died", bool), ("years", float)])
    >>> survival_times(y)
    SurvivalTimes(lower=array([2., 5.]), upper=array([ 2., inf]), entry=array([0., 0.]))
    >>> y = np.array([(1.0, 2.0, 0.5)], dtype=[("lower", float), ("upper", float), ("entry", float)])
    >>> survival_times(y)
    SurvivalTimes(lower=array([1.]), upper=array([2.]), entry=array([0.5]))
    """
    fields = _read(name, y)
    found = SurvivalTimes(fields.lower, fields.upper, fields.entry)
    zero = np.flatnonzero(found.upper == 0.0)
    if len(zero):
        raise ValueError(
            f"`{name}` must hold events after time zero; got an event at 0 for sample {zero[0]} ({len(zero)} in "
            "all). Give it the time that the record allows, such as half a day, or leave it out."
        )
    if np.isinf(found.upper).all():
        raise _all_censored(name, len(found.upper))
    return found


def event_and_time(y: object, name: str = "y", all_censored: bool = False) -> EventTimes:
    """Return events and times of a structured array without intervals, for metrics.

    Parameters
    ----------
    y : structured array of shape (n_samples,)
        A boolean and a field of numbers, as for :func:`survival_times`.
    name : str, default="y"
        Name of the argument, for messages.
    all_censored : bool, default=False
        Whether there need not be an event.

    Returns
    -------
    EventTimes
        Whether each event was seen, and the times, in the unit of `y`.

    Raises
    ------
    ValueError
        If `y` is no such array, holds NaN or negative times, has intervals or times of entry, or no event.
    TypeError
        If `y` is a sparse matrix or a table that is evaluated when asked.

    Examples
    --------
    >>> event_and_time(np.array([(2.0, True), (5.0, False)], dtype=[("years", float), ("died", bool)]))
    EventTimes(event=array([ True, False]), time=array([2., 5.]))
    """
    fields = _read(name, y)
    if fields.event is None:
        event = fields.lower == fields.upper
        if not (event | np.isinf(fields.upper)).all():
            first = int(np.flatnonzero(~event & np.isfinite(fields.upper))[0])
            raise ValueError(
                f"`{name}` must hold times that are exact or right censored; got the interval "
                f"({fields.lower[first]:g}, {fields.upper[first]:g}] for sample {first}. Pass a boolean field and a "
                "field of times; for intervals that are short beside the follow-up, their middles will do."
            )
    else:
        event = fields.event
    if fields.entry.any():
        raise ValueError(
            f"`{name}` must hold subjects that were observed from time zero on; got a field 'entry' with up to "
            f"{fields.entry.max():g}. Leave the field out to score the times as they are."
        )
    if not (all_censored or event.any()):
        raise _all_censored(name, len(event))
    return EventTimes(event, fields.lower)


def _read(name: str, y: object) -> _Fields:
    """Sort the fields of `y` by name and type, and check their values."""
    array = _structured(name, y)
    columns = {field: array[field] for field in array.dtype.names or ()}
    entry = _numbers(name, ENTRY, columns.pop(ENTRY)) if ENTRY in columns else np.zeros(len(array))
    if set(columns) == {LOWER, UPPER} and all(column.dtype.kind != "b" for column in columns.values()):
        lower, upper = (_numbers(name, field, columns[field], field == UPPER) for field in (LOWER, UPPER))
        _refuse(name, lower > upper, "bounds with 'lower' at most 'upper'", (lower, upper))
        late = (entry > lower) | ((entry >= upper) & (entry > 0.0))
        _refuse(name, late, "times of 'entry' before the bounds", (entry, lower))
        return _Fields(None, lower, upper, entry)
    flags = [field for field, column in columns.items() if column.dtype.kind == "b"]
    others = [field for field in columns if field not in flags]
    if len(flags) != 1 or len(others) != 1:
        types = ", ".join(f"{field!r} ({column.dtype})" for field, column in columns.items())
        raise ValueError(
            f"`{name}` must be {FORMS}; got {len(flags)} boolean and {len(others)} other fields: {types}. Convert "
            f"the one of the event, `event == code` with the code of a seen event, and leave others out. {REMEDY}"
        )
    event, time = columns[flags[0]].astype(bool), _numbers(name, others[0], columns[others[0]])
    _refuse(
        name, (entry >= time) & (entry > 0.0), "times of 'entry' before the event or censoring", (entry, time)
    )
    return _Fields(event, time, np.where(event, time, np.inf), entry)


def _structured(name: str, y: object) -> np.ndarray:
    y = _with_fields(name, y)
    if isinstance(y, np.ma.MaskedArray):
        raise ValueError(
            f"`{name}` must be {FORMS}; got a masked array. Leave masked samples out and pass `.data`."
        )
    array = as_array(name, y)
    if array.dtype.names is None or array.ndim != 1:
        raise ValueError(
            f"`{name}` must be {FORMS}; got an array of {array.dtype} of shape {array.shape}. {REMEDY}"
        )
    if not len(array):
        raise ValueError(f"`{name}` must hold at least one sample; got none.")
    return array


def _with_fields(name: str, y: object) -> object:
    """Return a structured array of a DataFrame, or of two columns of which one holds nothing but 0 and 1.

    Examples
    --------
    >>> _with_fields("y", np.array([[2.5, 1.0], [4.0, 0.0]]))
    array([(2.5,  True), (4. , False)], dtype=[('0', '<f8'), ('1', '?')])
    """
    if isinstance(y, np.ma.MaskedArray) or not (is_frame(y) or isinstance(y, np.ndarray | list | tuple)):
        return y
    if is_frame(y):
        frame: Any = y
        columns = {str(label): np.asarray(frame[label]) for label in frame.columns}
    else:
        if isinstance(y, tuple) and len(y) == 2 and all(np.ndim(one) == 1 and len(one) != 2 for one in y):
            y = list(zip(*y, strict=True))  # (event, time)
        try:
            array = np.asarray(y)
        except ValueError:
            return y  # an error of `as_array`
        fields = array.dtype.names
        if fields is not None:
            flag = [] if {LOWER, UPPER} <= set(fields) else _binary({k: array[k] for k in fields})
            if len(flag) != 1 or not len(array):
                return y
            return array.astype([(k, bool if k in flag else array.dtype[k]) for k in fields])
        if array.ndim != 2 or array.shape[1] < 2:
            return y
        columns = {str(j): array[:, j] for j in range(array.shape[1])}
    for label, values in columns.items():
        missing = is_missing(values)
        if missing.any():
            raise ValueError(
                f"`{name}` must have no missing values; got {int(missing.sum())} in {label!r}, the first for sample "
                f"{int(missing.argmax())}. Leave these samples out."
            )
        columns[label] = np.array(values.tolist()) if values.dtype.kind == "O" else values
    if not {LOWER, UPPER} <= set(columns):
        flags = any(values.dtype.kind == "b" for values in columns.values())
        binary = _binary(columns)
        if len(binary) == 1:
            columns[binary[0]] = columns[binary[0]].astype(bool)
        elif not flags:
            few = [(label, np.unique(values)) for label, values in columns.items() if label != ENTRY]
            codes = [
                (label, values) for label, values in few if len(values) == 2 or values.dtype.kind in "US"
            ]
            hint = f" Is {codes[0][0]!r} the event, with {codes[0][1][:4].tolist()}?" if codes else ""
            raise ValueError(
                f"`{name}` must have one column of the event, of true and false or 1 and 0; got "
                f"{'none' if not binary else ' and '.join(map(repr, binary))} among {', '.join(map(repr, columns))}."
                f"{hint} Make it boolean, `event == code` with the code of a seen event."
            )
    found = np.empty(len(next(iter(columns.values()))), dtype=[(k, v.dtype) for k, v in columns.items()])
    for label, values in columns.items():
        found[label] = values
    return found


def _binary(columns: Mapping[str, np.ndarray]) -> list[str]:
    """Return the columns that hold nothing but 0 and 1, unless there are columns of true and false."""
    if any(values.dtype.kind == "b" for values in columns.values()):
        return []
    return [
        label
        for label, values in columns.items()
        if label != ENTRY and values.dtype.kind in "iuf" and np.isin(values, (0, 1)).all()
    ]


def _numbers(name: str, field: str, column: np.ndarray, infinite: bool = False) -> np.ndarray:
    """Return a field of times as float64; infinity stands for right censoring in `upper` alone."""
    if column.dtype.kind not in "iuf" or column.ndim != 1:
        raise ValueError(
            f"`{name}` must hold numbers in its field {field!r}; got {column.dtype} of shape {column.shape}. {REMEDY}"
        )
    times = column.astype(np.float64)
    wrong = np.isnan(times) | (times < 0.0) | (np.isinf(times) & (not infinite))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"`{name}` must hold {'' if infinite else 'finite '}times >= 0 in its field {field!r}; got "
            f"{times[first]:g} for sample {first} ({np.count_nonzero(wrong)} in all). Leave these samples out, or "
            "measure time from the beginning of observation."
        )
    return times


def _refuse(name: str, wrong: np.ndarray, expected: str, values: tuple[np.ndarray, np.ndarray]) -> None:
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        pair = tuple(float(value[first]) for value in values)
        raise ValueError(
            f"`{name}` must hold {expected}; got {shown(pair)} for sample {first} ({np.count_nonzero(wrong)} in "
            "all). Correct these samples or leave them out."
        )


def _all_censored(name: str, n_samples: int) -> ValueError:
    return ValueError(
        f"`{name}` must hold at least one event; got {n_samples} censored times. Is the boolean field True where the "
        "event was seen, rather than where it was censored?"
    )
