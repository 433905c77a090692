"""Transactional fit: attributes are restored if it raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["all_or_nothing"]


def all_or_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that sets attributes, so that an error or an interrupt takes all of them back.

    Attributes have to be replaced, not changed in place.

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

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return guarded
