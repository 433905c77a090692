"""Checks of scalar parameters; each error names the parameter, what was expected and what came."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

__all__ = ["check_choice", "check_integer", "check_number"]


def check_number(name: str, value: Any, low: float = -math.inf, inclusive: bool = False) -> float:
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
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < low or (value == low and not inclusive):
        bound = "" if low == -math.inf else f" {'>=' if inclusive else '>'} {low:g}"
        raise ValueError(f"`{name}` must be a finite number{bound}; got {value!r}.")
    return float(value)


def check_integer(name: str, value: Any, low: int) -> int:
    """Return `value` as an int if it is a whole number of at least `low`.

    Examples
    --------
    >>> check_integer("max_iter", 0, low=1)
    Traceback (most recent call last):
    ...
    ValueError: `max_iter` must be a whole number >= 1; got 0.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"`{name}` must be a whole number >= {low}; got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`.

    Examples
    --------
    >>> check_choice("predictive", "half", ("full", "paper"))
    Traceback (most recent call last):
    ...
    ValueError: `predictive` must be one of 'full', 'paper'; got 'half'.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value
