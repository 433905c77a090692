"""Wrappers of methods: settings of NumPy and scikit-learn inside them, and attributes restored if a fit raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn import config_context

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


def all_or_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that sets attributes, so that an error or an interrupt takes all of them back.

    Attributes have to be replaced, not changed in place. The method runs under the settings of `own_settings`, which
    need no wrapper of their own.

    Examples
    --------
    >>> class Model:
    ...     @all_or_nothing
    ...     def fit(self, value):
    ...         self.half_ = value
    ...         self.whole_ = 1 / value
    ...         return self
    >>> model = Model().fit(2)
    >>> model.fit(0)
    Traceback (most recent call last):
    ...
    ZeroDivisionError: division by zero
    >>> model.half_, model.whole_
    (2, 0.5)
    """

    @own_settings
    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    guarded.has_own_settings = True  # type: ignore[attr-defined]
    return guarded
