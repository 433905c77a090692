"""Transactional methods: attributes are restored if a fit raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import config_context

from bayesmkl._utils.settings import CONFIG, ERRSTATE

__all__ = ["all_or_nothing"]


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

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            with np.errstate(**ERRSTATE), config_context(**CONFIG):
                return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    guarded.has_own_settings = True  # type: ignore[attr-defined]
    return guarded
