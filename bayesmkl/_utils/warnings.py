"""Warnings that point at the user's line, and warnings recorded or held back in one thread only.

``warnings.catch_warnings`` changes the filters of the whole process: where two threads are inside at once, the one
records what the other issues, and the last to leave restores the filters of the other's block for good. The blocks
here change the filters once for all threads and restore them when the last one has left; what a warning is worth is
decided by the thread that issues it.
"""

from __future__ import annotations

import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TextIO


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, however deep inside it the reason was found.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("too hot", UserWarning)
    >>> print(caught[0].message, caught[0].category.__name__)
    too hot UserWarning
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("bayesmkl."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class _Before(NamedTuple):
    """Settings outside the blocks."""

    catcher: Any  # restores it
    filters: list[Any]


# A handler of the warnings of this thread: returns whether it took the warning that it is called with.
_Taker = Callable[[warnings.WarningMessage], bool]
_TAKERS: ContextVar[tuple[_Taker, ...]] = ContextVar("bayesmkl_warnings", default=())
_LOCK = threading.Lock()
_BEFORE: list[_Before] = []  # of the first block that is open, one or none
_SHOW: list[Callable[..., None]] = [warnings.showwarning]  # what showed warnings before
_N_OPEN = [0]
_SHOWN: set[tuple[str, type, str, int]] = set()


@contextmanager
def recording_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Record every warning of this thread, whatever the filters say; threads started inside may share the list.

    Examples
    --------
    >>> import warnings
    >>> with recording_warnings() as caught:
    ...     warnings.warn("too hot")
    >>> [str(warning.message) for warning in caught]
    ['too hot']
    """
    caught: list[warnings.WarningMessage] = []

    def record(warning: warnings.WarningMessage) -> bool:
        caught.append(warning)
        return True

    with _taking(record):
        yield caught


@contextmanager
def holding_back(*categories: type[Warning]) -> Iterator[None]:
    """Drop the warnings of some categories that this thread issues; the others go where they went before.

    Around calls of other libraries that run in threads and catch warnings there, it keeps the filters of the process
    safe from them, even without a category.

    Examples
    --------
    >>> import warnings
    >>> with holding_back(UserWarning):
    ...     warnings.warn("too hot", UserWarning)
    """
    with _taking(lambda warning: issubclass(warning.category, categories)):
        yield


@contextmanager
def _taking(taker: _Taker) -> Iterator[None]:
    with _LOCK:
        if not _N_OPEN[0]:
            catcher = warnings.catch_warnings()
            filters = list(warnings.filters)
            catcher.__enter__()
            if warnings.showwarning is not _dispatch:  # another library's block may have brought it back
                _SHOW[0] = warnings.showwarning
            _BEFORE.append(_Before(catcher, filters))
            warnings.showwarning = _dispatch
            warnings.simplefilter("always")  # last, and taken back first: other threads warn meanwhile
        _N_OPEN[0] += 1
    token = _TAKERS.set((taker, *_TAKERS.get()))
    try:
        yield
    finally:
        _TAKERS.reset(token)
        with _LOCK:
            _N_OPEN[0] -= 1
            if not _N_OPEN[0]:
                _BEFORE[0].catcher.__exit__(None, None, None)
                _BEFORE.clear()
                _SHOWN.clear()


def _dispatch(
    message: Any,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Offer a warning to this thread's blocks, from the inner to the outer ones, and else do what was done before."""
    warning = warnings.WarningMessage(message, category, filename, lineno, file, line)
    if any(taker(warning) for taker in _TAKERS.get()):
        return
    filters = _BEFORE[0].filters if _BEFORE else warnings.filters  # the last block may just have been left
    action = _action(warning, filters)
    if action == "error":
        raise message
    key = (str(message), category, filename, lineno)
    if action == "ignore" or (action != "always" and key in _SHOWN):
        return
    _SHOWN.add(key)
    _SHOW[0](message, category, filename, lineno, file, line)


def _action(warning: warnings.WarningMessage, filters: Any) -> str:
    """Return the action of the filters for a warning; its module is known by its file only."""
    modules = [name for name, module in list(sys.modules.items()) if _file_of(module) == warning.filename]
    for action, text, category, module, line in filters:
        if (
            issubclass(warning.category, category)
            and _matches(text, str(warning.message))
            and (module is None or any(_matches(module, name) for name in modules))
            and line in (0, warning.lineno)
        ):
            return action
    return warnings.defaultaction  # type: ignore[attr-defined]


def _matches(pattern: re.Pattern[str] | None, text: str) -> bool:
    """Return whether a pattern of a filter matches: None always, a str (of Python's filters) if it is equal."""
    return pattern is None or (pattern == text if isinstance(pattern, str) else bool(pattern.match(text)))


def _file_of(module: object) -> Any:
    return getattr(module, "__dict__", {}).get("__file__")
