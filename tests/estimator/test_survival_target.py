"""Structured arrays of times to an event: what they may be, and what is said of those that are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayesmkl._utils.survival_target import event_and_time, survival_times

EVENT = [("died", "?"), ("years", "f8")]


def rows(values, fields=EVENT):
    return np.array(values, dtype=fields)


@pytest.mark.parametrize(
    "fields",
    [EVENT, [("a", "?"), ("b", "f4")], [("event", "?"), ("time", "i8")], [("lower", "?"), ("upper", "f8")]],
)
def test_names_and_number_types_of_fields_do_not_matter(fields):
    y = rows([(True, 2), (False, 5)], fields)
    found = survival_times(y)
    np.testing.assert_array_equal(found.lower, [2.0, 5.0])
    np.testing.assert_array_equal(found.upper, [2.0, np.inf])
    np.testing.assert_array_equal(found.entry, [0.0, 0.0])
    assert all(part.dtype == np.float64 for part in found)
    event, time = event_and_time(y)
    assert event.dtype == np.bool_
    assert (event.tolist(), time.tolist()) == ([True, False], [2.0, 5.0])


def test_order_of_fields_does_not_matter():
    forwards = rows([(True, 2.0, 1.0), (False, 5.0, 0.0)], [*EVENT, ("entry", "f8")])
    backwards = rows([(1.0, 2.0, True), (0.0, 5.0, False)], [("entry", "f8"), ("years", "f8"), ("died", "?")])
    for one, other in zip(survival_times(forwards), survival_times(backwards), strict=True):
        np.testing.assert_array_equal(one, other)


def test_intervals_of_every_kind():
    # exact, right censored, left censored, interval, and an interval that begins where observation does
    bounds = [(2.0, 2.0, 0.0), (3.0, np.inf, 1.0), (0.0, 4.0, 0.0), (1.0, 2.0, 0.5), (1.0, 2.0, 1.0)]
    y = rows(bounds, [("lower", "f8"), ("upper", "f8"), ("entry", "f8")])
    for found, expected in zip(survival_times(y), np.transpose(bounds), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_metrics_take_intervals_without_width():
    y = rows([(2.0, 2.0), (3.0, np.inf)], [("lower", "f8"), ("upper", "f8")])
    assert event_and_time(y).event.tolist() == [True, False]
    assert event_and_time(y).time.tolist() == [2.0, 3.0]


def test_only_estimators_refuse_events_at_zero():
    y = rows([(True, 0.0), (False, 1.0)])
    assert event_and_time(y).time.tolist() == [0.0, 1.0]
    with pytest.raises(
        ValueError, match="`y` must hold events after time zero; got an event at 0 for sample 0"
    ):
        survival_times(y)
    with pytest.raises(ValueError, match="after time zero"):
        survival_times(rows([(0.0, 0.0)], [("lower", "f8"), ("upper", "f8")]))


def test_the_event_is_coded_by_1_and_0_in_a_structured_array_too():
    coded = survival_times(rows([(1, 2.5), (0, 4.0)], [("died", "i8"), ("days", "f8")]))
    for own, other in zip(coded, survival_times(rows([(True, 2.5), (False, 4.0)])), strict=True):
        np.testing.assert_array_equal(own, other)


def test_all_censored_where_that_is_allowed():
    y = rows([(False, 1.0), (False, 2.0)])
    assert not event_and_time(y, all_censored=True).event.any()
    for read in (event_and_time, survival_times):
        with pytest.raises(ValueError, match="`target` must hold at least one event; got 2 censored times"):
            read(y, "target")


INTERVAL = [("lower", "f8"), ("upper", "f8")]
ENTRY = [*EVENT, ("entry", "f8")]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 2.0], "a structured array .* got an array of float64 of shape"),
        (pd.DataFrame({"event": [1, 2], "time": [1.0, 2.0]}), "event == code"),
        (rows([[(True, 1.0)]]), "must be .* a structured array"),
        (rows([]), "at least one sample"),
        (np.ma.MaskedArray(rows([(True, 1.0)])), "masked"),
        (rows([(1.0, 1.0)], [("event", "f8"), ("time", "f8")]), "got 0 boolean and 2 other fields"),
        (rows([(1, 1.0)], [("event", "i8"), ("time", "f8")]), "event == code"),
        (rows([(True, True)], [("event", "?"), ("time", "?")]), "got 2 boolean and 0 other"),
        (rows([(True, 1.0, 2.0)], [*EVENT, ("age", "f8")]), "got 1 boolean and 2 other fields: .*'age'"),
        (rows([(True, "a")], [("event", "?"), ("time", "U1")]), "numbers in its field 'time'; got <U1"),
        (rows([(True, [1.0, 2.0])], [("event", "?"), ("time", "f8", 2)]), "numbers in its field 'time'"),
        (rows([(True, 1.0, True)], [*EVENT, ("entry", "?")]), "numbers in its field 'entry'"),
        (rows([(True, 1.0), (True, -3.0)]), "finite times >= 0 in its field 'years'; got -3 for sample 1"),
        (rows([(True, np.nan)]), "got nan for sample 0"),
        (rows([(True, np.inf)]), "got inf for sample 0"),
        (rows([(True, 2.0, 2.0)], ENTRY), "'entry' before the event or censoring; got \\(2.0, 2.0\\)"),
        (rows([(False, 2.0, 3.0)], ENTRY), "'entry' before"),
        (rows([(True, 2.0, -1.0)], ENTRY), ">= 0 in its field 'entry'"),
        (rows([(3.0, 2.0)], INTERVAL), "'lower' at most 'upper'; got \\(3.0, 2.0\\)"),
        (rows([(np.inf, np.inf)], INTERVAL), "finite times >= 0 in its field 'lower'"),
        (rows([(1.0, np.nan)], INTERVAL), "times >= 0 in its field 'upper'; got nan"),
        (rows([(1.0, 2.0, 1.5)], [*INTERVAL, ("entry", "f8")]), "'entry' before the bounds"),
        (rows([(2.0, 2.0, 2.0)], [*INTERVAL, ("entry", "f8")]), "'entry' before the bounds"),
    ],
)
@pytest.mark.parametrize("read", [survival_times, event_and_time])
def test_what_else_comes_is_named(read, y, message):
    with pytest.raises(ValueError, match=f"^`y` .*{message}"):
        read(y)


def test_metrics_refuse_intervals_and_entries():
    with pytest.raises(ValueError, match="exact or right censored; got the interval \\(1, 2\\] for sample 1"):
        event_and_time(rows([(3.0, 3.0), (1.0, 2.0)], INTERVAL))
    with pytest.raises(ValueError, match="observed from time zero on; got a field 'entry' with up to 1"):
        event_and_time(rows([(True, 2.0, 1.0)], ENTRY))
