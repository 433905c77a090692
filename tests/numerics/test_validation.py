"""Checks of scalar parameters: at both sides of every bound, and what the messages say."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from bayesmkl._utils import validation
from bayesmkl._utils.validation import (
    check_integer,
    check_number,
    check_probability,
    scale_or_auto,
)


def refused(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("value", [2, 2.5, np.float32(0.1), np.int64(7), Fraction(1, 3), np.float64(-1e300)])
def test_real_numbers_become_floats_of_the_same_value(value):
    found = check_number("x", value)
    assert type(found) is float
    assert found == float(value)


def test_bounds_of_numbers_are_open_unless_they_are_inclusive():
    above = math.nextafter(0.5, 1.0)
    assert check_number("x", above, low=0.5) == above
    assert check_number("x", above, low=0.5, inclusive=True) == above
    assert check_number("x", 0.5, low=0.5, inclusive=True) == 0.5
    below = math.nextafter(0.5, 0.0)
    refused(lambda: check_number("x", 0.5, low=0.5), "`x` must be a finite number > 0.5; got 0.5.")
    refused(lambda: check_number("x", below, low=0.5), f"`x` must be a finite number > 0.5; got {below}.")
    refused(
        lambda: check_number("x", below, low=0.5, inclusive=True),
        f"`x` must be a finite number >= 0.5; got {below}.",
    )
    refused(
        lambda: check_number("x", math.nan, low=1e-7, inclusive=True),
        "`x` must be a finite number >= 1e-07; got nan.",
    )


@pytest.mark.parametrize("value", [3, 4, np.int8(3), np.uint64(2**40)])
def test_whole_numbers_from_the_bound_on_become_ints(value):
    found = check_integer("n", value, low=3)
    assert type(found) is int
    assert found == int(value)


def test_whole_numbers_that_no_machine_counts_to_are_refused():
    assert check_integer("n", 2**63 - 1, low=0) == 2**63 - 1
    refused(lambda: check_integer("n", 2**63, low=0), f"`n` must be a whole number below 2**63; got {2**63}.")


def test_scales_can_be_squared_and_zero_passes_where_it_means_something():
    for value in (1e-100, 1, 1e100):
        found = validation.check_scale("C", value)
        assert type(found) is float
        assert found == value
        assert 0.0 < found**2 < math.inf
        assert validation.check_scale("C", value, zero=True) == value
    assert validation.check_scale("C", 0, zero=True) == 0.0
    units = "Give the data other units."
    for value in (0.99e-100, 1.01e100):
        refused(
            lambda value=value: validation.check_scale("C", value),
            f"`C` must lie between 1e-100 and 1e+100; got {value:g}. {units}",
        )
    refused(
        lambda: validation.check_scale("C", 1e-300, zero=True),
        f"`C` must lie between 1e-100 and 1e+100, or be 0; got 1e-300. {units}",
    )
    refused(lambda: validation.check_scale("C", 0.0), "`C` must be a finite number > 0; got 0.0.")
    refused(
        lambda: validation.check_scale("C", -1.0, zero=True), "`C` must be a finite number >= 0; got -1.0."
    )


def test_generators_are_taken_and_seeds_make_them():
    given = np.random.default_rng(3)
    assert validation.generator_of("seed", given) is given
    drawn = np.random.default_rng(5).random(4)
    np.testing.assert_array_equal(validation.generator_of("seed", 5).random(4), drawn)
    old = np.random.RandomState(1)
    first, second = (validation.generator_of("seed", old).random(4) for _ in range(2))
    assert (first != second).all()  # the old generator goes on
    again = validation.generator_of("seed", np.random.RandomState(1)).random(4)
    np.testing.assert_array_equal(again, first)
    refused(
        lambda: validation.generator_of("seed", "a"),
        "`seed` must be None, a whole number >= 0 or a numpy Generator or RandomState; got 'a'.",
    )


@pytest.mark.parametrize("values", [1.0, "abc", b"ab", [], np.ones(0), None])
def test_grids_of_single_values_are_refused(values):
    for grid in ({"tol": [1], "C": values}, [{"tol": [1]}, {"C": values}]):
        refused(
            lambda grid=grid: validation.check_grid("grid", grid),
            f"`grid` must map parameters to lists of values; got {values!r} for 'C'. One value is a list of one.",
        )


def test_probabilities_lie_between_zero_and_one():
    assert check_probability("level", np.float32(0.5)) == 0.5
    assert type(check_probability("level", np.float32(0.5))) is float
    assert check_probability("level", 5e-324) == 5e-324
    assert check_probability("level", math.nextafter(1.0, 0.0)) < 1.0
    for value in (0, 0.0, 1, 1.0, 94):
        message = f"`level` must be between 0 and 1; got {value!r}. 0.94 stands for 94 %."
        refused(lambda value=value: check_probability("level", value), message)
    refused(lambda: check_probability("level", None), "`level` must be a finite number; got None.")


def test_scales_may_be_chosen():
    assert scale_or_auto("C", "auto") is None
    assert scale_or_auto("C", "auto", zero=True) is None
    assert scale_or_auto("C", 2) == 2.0
    assert scale_or_auto("C", 0, zero=True) == 0.0
    refused(lambda: scale_or_auto("C", 0), "`C` must be a finite number > 0; got 0.")
    refused(lambda: scale_or_auto("C", "AUTO"), "`C` must be \"auto\" or a positive number; got 'AUTO'.")
    message = "`C` must be \"auto\" or a number of at least 0; got 'hot'."
    refused(lambda: scale_or_auto("C", "hot", zero=True), message)
    with pytest.raises(ValueError, match=r"^`C` must lie between .*, or be 0; got 1e\+200"):
        scale_or_auto("C", 1e200, zero=True)
