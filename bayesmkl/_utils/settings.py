"""Settings of NumPy and scikit-learn that hold inside this package, whatever the caller has set."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn import config_context

__all__ = ["CONFIG", "ERRSTATE", "methods_with_own_settings", "own_settings"]

ERRSTATE: dict[str, Any] = {"under": "ignore"}  # of NumPy
CONFIG: dict[str, Any] = {"transform_output": "default", "assume_finite": False}  # of scikit-learn

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")
_Class = TypeVar("_Class", bound=type)


def own_settings(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Wrap a function so that it runs under fixed settings.

    What is too small to be a number is zero: a weight of exp(-1000) is no error, even after
    ``np.seterr(all="raise")``. What overflows or divides by zero is reported as the caller asked for. scikit-learn
    hands over arrays, not frames, and looks for NaN and infinity.

    Examples
    --------
    >>> weight = own_settings(np.exp)
    >>> with np.errstate(all="raise"):
    ...     float(weight(-1000.0))
    0.0
    """

    @functools.wraps(function)
    def wrapped(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        with np.errstate(**ERRSTATE), config_context(**CONFIG):
            return function(*args, **kwargs)

    return wrapped


def methods_with_own_settings(cls: _Class) -> _Class:
    """Wrap the public methods that a class defines itself, and return the class."""
    for name, method in list(vars(cls).items()):
        is_public = isinstance(method, FunctionType) and not name.startswith("_")
        if is_public and not hasattr(method, "has_own_settings"):
            setattr(cls, name, own_settings(method))
    return cls
