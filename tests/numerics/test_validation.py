"""Checks of scalar parameters: at both sides of every bound, and what the messages say."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from bayesmkl._utils import validation
from bayesmkl._utils.validation import (
    check_choice,
    check_integer,
    check_number,
    check_probability,
    generator_of,
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


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, True, np.bool_(True), "1", None, 1j, [1.0], np.array([1.0]), 10**400],
)
def test_what_is_no_finite_real_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^`x` must be a finite number; got "):
        check_number("x", value)


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


@pytest.mark.parametrize("value", [2, -3, 3.0, True, "3", None, np.float64(4.0)])
def test_what_is_no_whole_number_from_the_bound_on_is_refused(value):
    refused(lambda: check_integer("n", value, low=3), f"`n` must be a whole number >= 3; got {value!r}.")


def test_whole_numbers_that_no_machine_counts_to_are_refused():
    assert check_integer("n", 2**63 - 1, low=0) == 2**63 - 1
    refused(lambda: check_integer("n", 2**63, low=0), f"`n` must be a whole number below 2**63; got {2**63}.")


def test_choices_are_taken_literally():
    assert check_choice("rule", "b", ("a", "b")) == "b"
    for value in ("B", "", "ab", None, 1, ["a"]):
        refused(
            lambda value=value: check_choice("rule", value, ("a", "b")),
            f"`rule` must be one of 'a', 'b'; got {value!r}.",
        )


def test_messages_show_the_beginning_of_a_long_value():
    longest = validation.LONGEST
    assert validation.shown("x" * (longest - 2)) == repr("x" * (longest - 2))  # the quotes count
    text = validation.shown("y" * (longest - 1))
    assert text == "'" + "y" * (longest - 1) + "..."
    assert validation.shown(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"  # on one line


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_flags_are_bools_of_python_and_numpy(value):
    found = validation.check_flag("fast", value)
    assert type(found) is bool
    assert found == value


@pytest.mark.parametrize("value", [0, 1, 1.0, "True", None, np.array(True)])
def test_what_only_resembles_a_flag_is_refused(value):
    refused(lambda: validation.check_flag("fast", value), f"`fast` must be True or False; got {value!r}.")


@pytest.mark.parametrize(
    "value", [None, 0, np.int64(3), 2**80, np.random.default_rng(0), np.random.RandomState(0)]
)
def test_what_seeds_a_generator_passes(value):
    assert validation.check_seed("seed", value) is None


@pytest.mark.parametrize("value", [-1, 1.0, True, False, "0", [1], np.random])
def test_what_does_not_seed_a_generator_is_refused(value):
    message = "`seed` must be None, a whole number >= 0 or a numpy Generator or RandomState; got "
    with pytest.raises(ValueError, match=re.escape(message) + ".+\\.$"):
        validation.check_seed("seed", value)


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


@pytest.mark.parametrize("value", [None, "none", -1, 2.5, True, np.int64(3), np.str_("a")])
def test_what_can_be_a_label_passes(value):
    assert validation.check_label("unlabeled_label", value) is None


@pytest.mark.parametrize("value", [[0], (0, 1), frozenset({1}), {1}, int, np.ones(1)])
def test_what_cannot_be_one_label_is_refused(value):
    with pytest.raises(ValueError, match=r"^`unlabeled_label` must be a single label or None; got .+"):
        validation.check_label("unlabeled_label", value)


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


class Half:
    """One of the two attributes by which foreign objects are known."""

    def __init__(self, name):
        setattr(self, name, None)


class Whole:
    transAxes = plot = viz = map = split = None


@pytest.mark.parametrize(
    ("check", "names", "what"),
    [
        ("check_axes", ("transAxes", "plot"), "Axes of Matplotlib, as `plt.subplots()[1]` is"),
    ],
)
def test_foreign_objects_are_known_by_what_they_have(check, names, what):
    check = getattr(validation, check)
    check("given", None)
    check("given", Whole())
    for value in (*map(Half, names), 0, ""):
        refused(lambda value=value: check("given", value), f"`given` must be None or {what}; got {value!r}.")


@pytest.mark.parametrize(
    "value", [2, np.int64(5), Whole(), [([0], [1])], (x for x in [([0], [1])]), 2**63 - 1]
)
def test_folds_are_a_number_a_splitter_or_a_list(value):
    validation.check_folds("cv", value)


@pytest.mark.parametrize("value", [1, 0, -2, 2**63])
def test_fewer_than_two_folds_are_refused(value):
    refused(lambda: validation.check_folds("cv", value), f"`cv` must be at least 2 folds; got {value}.")


@pytest.mark.parametrize("value", [True, 2.0, "5", b"5", None, [], (), {"a": 1}, Whole, list])
def test_what_makes_no_folds_is_refused(value):
    refused(
        lambda: validation.check_folds("cv", value),
        "`cv` must be a number of folds, a splitter of scikit-learn, or a list of (training, validation) positions; "
        f"got {value!r}.",
    )


@pytest.mark.parametrize("value", [{"C": [1.0]}, [{"C": (1, 2)}, {"tol": np.ones(2)}], {}, ({"C": [1]},)])
def test_grids_map_parameters_to_lists(value):
    validation.check_grid("grid", value)


@pytest.mark.parametrize("value", [None, 1, "C", [], [{"C": [1]}, "C"], {1, 2}, b"a"])
def test_what_is_no_grid_is_refused(value):
    message = "`grid` must be a mapping of parameters to lists of values, or a list of such; got "
    refused(lambda: validation.check_grid("grid", value), f"{message}{value!r}.")


@pytest.mark.parametrize("values", [1.0, "abc", b"ab", [], np.ones(0), None])
def test_grids_of_single_values_are_refused(values):
    for grid in ({"tol": [1], "C": values}, [{"tol": [1]}, {"C": values}]):
        refused(
            lambda grid=grid: validation.check_grid("grid", grid),
            f"`grid` must map parameters to lists of values; got {values!r} for 'C'. One value is a list of one.",
        )


@pytest.mark.parametrize("value", [None, 1, -1, np.int64(4), 1 - 2**63, 2**63 - 1])
def test_numbers_of_processes_pass(value):
    validation.check_jobs("n_jobs", value)


@pytest.mark.parametrize("value", [0, True, False, 1.0, "all", 2**63, -(2**63)])
def test_what_is_no_number_of_processes_is_refused(value):
    refused(
        lambda: validation.check_jobs("n_jobs", value),
        f"`n_jobs` must be None or a whole number other than 0, -1 for all cores; got {value!r}.",
    )


def test_verbosity_is_a_flag_or_a_whole_number():
    for value in (True, False, np.True_, 0, 7):
        validation.check_verbose("verbose", value)
    for value in (-1, 0.5, None):
        refused(
            lambda value=value: validation.check_verbose("verbose", value),
            f"`verbose` must be a whole number >= 0; got {value!r}.",
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


def test_generators_are_those_of_their_seeds():
    given = np.random.default_rng(5)
    assert generator_of("seed", given) is given
    assert generator_of("seed", 5).random() == np.random.default_rng(5).random()
    assert generator_of("seed", None).random() != generator_of("seed", None).random()
    state = np.random.RandomState(3)
    words = np.random.RandomState(3).randint(2**31, size=4)
    assert generator_of("seed", state).random() == np.random.default_rng(words).random()
    assert generator_of("seed", state).random() != np.random.default_rng(words).random()  # it went on
    with pytest.raises(ValueError, match=r"^`seed` must be"):
        generator_of("seed", "five")
