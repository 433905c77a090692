"""Checks of scalar parameters; each error names the parameter, what was expected and what came."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bayesmkl._utils.units import LARGEST, SMALLEST

LONGEST = 120  # characters of a value in a message
TOO_MANY = 2**63  # of anything


def shown(value: object) -> str:
    """Format a value for messages: all of it, or the beginning of a long one.

    Examples
    --------
    >>> shown("half"), shown(list(range(99)))[-8:]
    ("'half'", '31, 3...')
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def counted(size: int, what: str) -> str:
    """Write a number of things."""
    return f"{size} {what}" if size == 1 else f"{size} {what}s"


def check_number(name: str, value: object, low: float = -math.inf, inclusive: bool = False) -> float:
    """Return `value` as a float if it is a finite real number above `low` (or at it, if `inclusive`).

    Examples
    --------
    >>> check_number("margin", 1)
    1.0
    >>> check_number("margin", -1, low=0.0)
    Traceback (most recent call last):
    ...
    ValueError: `margin` must be a finite number > 0; got -1.
    """
    number = float_of(value)
    if not math.isfinite(number) or number < low or (number == low and not inclusive):
        bound = "" if low == -math.inf else f" {'>=' if inclusive else '>'} {low:g}"
        raise ValueError(f"`{name}` must be a finite number{bound}; got {shown(value)}.")
    return number


def float_of(value: object) -> float:
    """Return a real number as a float, NaN for anything else, infinity for what is too large.

    Examples
    --------
    >>> float_of(2), float_of("2"), float_of(10**400)
    (2.0, nan, inf)
    """
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_probability(name: str, value: Any) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    if not 0.0 < check_number(name, value) < 1.0:
        raise ValueError(f"`{name}` must be between 0 and 1; got {value!r}. 0.94 stands for 94 %.")
    return float(value)


def check_scale(name: str, value: object, zero: bool = False) -> float:
    """Return `value` as a float if it is a positive number (or zero, if that is allowed) that can be squared.

    Examples
    --------
    >>> check_scale("C", 1e200)
    Traceback (most recent call last):
    ...
    ValueError: `C` must lie between 1e-100 and 1e+100; got 1e+200. Give the data other units.
    """
    number = check_number(name, value, low=0.0, inclusive=zero)
    if number != 0.0 and not SMALLEST <= number <= LARGEST:
        raise ValueError(
            f"`{name}` must lie between {SMALLEST:g} and {LARGEST:g}{', or be 0' if zero else ''}; got {number:g}. "
            "Give the data other units."
        )
    return number


def scale_or_auto(name: str, value: object, zero: bool = False) -> float | None:
    """Return `value` as `check_scale` does; None for "auto".

    Examples
    --------
    >>> scale_or_auto("temperature", "auto"), scale_or_auto("temperature", 2)
    (None, 2.0)
    >>> scale_or_auto("temperature", "hot")
    Traceback (most recent call last):
    ...
    ValueError: `temperature` must be "auto" or a positive number; got 'hot'.
    """
    if not isinstance(value, str):
        return check_scale(name, value, zero)
    if value != "auto":
        allowed = "number of at least 0" if zero else "positive number"
        raise ValueError(f'`{name}` must be "auto" or a {allowed}; got {shown(value)}.')
    return None


def check_integer(name: str, value: object, low: int) -> int:
    """Return `value` as an int if it is a whole number of at least `low`.

    Examples
    --------
    >>> check_integer("max_iter", 0, low=1)
    Traceback (most recent call last):
    ...
    ValueError: `max_iter` must be a whole number >= 1; got 0.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or int(value) < low:
        raise ValueError(f"`{name}` must be a whole number >= {low}; got {shown(value)}.")
    if int(value) >= TOO_MANY:
        raise ValueError(f"`{name}` must be a whole number below 2**63; got {shown(value)}.")
    return int(value)


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`.

    Examples
    --------
    >>> check_choice("predictive", "half", ("full", "paper"))
    Traceback (most recent call last):
    ...
    ValueError: `predictive` must be one of 'full', 'paper'; got 'half'.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {shown(value)}.")
    return value


def check_flag(name: str, value: object) -> bool:
    """Return `value` as a bool if it is one, NumPy's included: "no" and 0 are not.

    Examples
    --------
    >>> check_flag("accelerate", "no")
    Traceback (most recent call last):
    ...
    ValueError: `accelerate` must be True or False; got 'no'.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False; got {shown(value)}.")
    return bool(value)


def check_label(name: str, value: object) -> None:
    """Check that a value can be the label of one sample, which a list of labels cannot; None is for no label.

    Examples
    --------
    >>> check_label("unlabeled_label", [0, 1])
    Traceback (most recent call last):
    ...
    ValueError: `unlabeled_label` must be a single label or None; got [0, 1].
    """
    if not isinstance(value, Hashable) or isinstance(value, tuple | frozenset | type):
        raise ValueError(f"`{name}` must be a single label or None; got {shown(value)}.")


def check_seed(name: str, value: object) -> None:
    """Check that a value seeds a random generator: a whole number, a generator, or None.

    Examples
    --------
    >>> check_seed("random_state", 1.5)
    Traceback (most recent call last):
    ...
    ValueError: `random_state` must be None, a whole number >= 0 or a numpy Generator or RandomState; got 1.5.
    """
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 0
    if not (value is None or is_number or isinstance(value, np.random.Generator | np.random.RandomState)):
        raise ValueError(
            f"`{name}` must be None, a whole number >= 0 or a numpy Generator or RandomState; got {shown(value)}."
        )


def generator_of(name: str, value: Any) -> np.random.Generator:
    """Return the generator that `value` seeds or is; see `check_seed`.

    Examples
    --------
    >>> generator_of("random_state", 3).integers(10)
    np.int64(8)
    """
    check_seed(name, value)
    if isinstance(value, np.random.RandomState):  # goes on where it stands; generators on it have no children
        return np.random.default_rng(value.randint(2**31, size=4))
    return np.random.default_rng(value)


def check_axes(name: str, value: object) -> None:
    """Check that a value is None or Axes of Matplotlib, which is not imported here.

    Examples
    --------
    >>> check_axes("ax", "left")
    Traceback (most recent call last):
    ...
    ValueError: `ax` must be None or Axes of Matplotlib, as `plt.subplots()[1]` is; got 'left'.
    """
    if value is not None and not (hasattr(value, "transAxes") and hasattr(value, "plot")):
        raise ValueError(
            f"`{name}` must be None or Axes of Matplotlib, as `plt.subplots()[1]` is; got {shown(value)}."
        )


def check_folds(name: str, value: object) -> None:
    """Check that a value is a number of folds, a splitter, or a list of (training, validation) positions.

    Examples
    --------
    >>> check_folds("cv", "5")
    Traceback (most recent call last):
    ...
    ValueError: `cv` must be a number of folds, a splitter of scikit-learn, or a list of (training, validation) ...
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if not 2 <= int(value) < TOO_MANY:
            raise ValueError(f"`{name}` must be at least 2 folds; got {shown(value)}.")
        return
    is_splitter = hasattr(value, "split") and not isinstance(value, str | bytes | type)
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | type)
    if not is_splitter and (not listed or (isinstance(value, Sequence) and not value)):
        raise ValueError(
            f"`{name}` must be a number of folds, a splitter of scikit-learn, or a list of (training, validation) "
            f"positions; got {shown(value)}."
        )


def check_grid(name: str, value: Any) -> None:
    """Check that a value is a mapping of parameters to lists of values, or a list of such mappings.

    Examples
    --------
    >>> check_grid("param_grid", {"C": 1.0})
    Traceback (most recent call last):
    ...
    ValueError: `param_grid` must map parameters to lists of values; got 1.0 for 'C'. One value is a list of one.
    """
    grids = [value] if isinstance(value, Mapping) else value
    listed = isinstance(grids, Sequence) and not isinstance(grids, str | bytes)
    if not listed or not grids or not all(isinstance(grid, Mapping) for grid in grids):
        raise ValueError(
            f"`{name}` must be a mapping of parameters to lists of values, or a list of such; got {shown(value)}."
        )
    for parameter, values in ((key, values) for grid in grids for key, values in grid.items()):
        several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
        if not several or len(values) == 0:
            raise ValueError(
                f"`{name}` must map parameters to lists of values; got {shown(values)} for {parameter!r}. One value "
                "is a list of one."
            )


def check_jobs(name: str, value: Any) -> None:
    """Check that a value is a number of processes for joblib: None, or a whole number but zero.

    Examples
    --------
    >>> check_jobs("n_jobs", 0)
    Traceback (most recent call last):
    ...
    ValueError: `n_jobs` must be None or a whole number other than 0, -1 for all cores; got 0.
    """
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < abs(int(value)) < TOO_MANY):
        raise ValueError(
            f"`{name}` must be None or a whole number other than 0, -1 for all cores; got {shown(value)}."
        )


def check_verbose(name: str, value: object) -> None:
    """Check that a value is a bool or a whole number of at least 0.

    Examples
    --------
    >>> check_verbose("verbose", "much")
    Traceback (most recent call last):
    ...
    ValueError: `verbose` must be a whole number >= 0; got 'much'.
    """
    if not isinstance(value, bool | np.bool_):
        check_integer(name, value, low=0)
