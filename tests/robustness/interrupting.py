"""Interrupt a piece of work at any of its steps, in this process and always at the same one."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bayesmkl

PACKAGE = str(Path(bayesmkl.__file__).parent)


@contextmanager
def stopped_at_line(number: int, files: tuple[str, ...], error: BaseException | None) -> Iterator[list[int]]:
    """Raise `error` before the line of that number, counted over all lines of `files` that run inside.

    Yields a list that holds how many lines have run. With no error, all lines run.
    """
    count = [0]

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            count[0] += 1
            if error is not None and count[0] == number:
                sys.settrace(None)
                raise error
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


@contextmanager
def stopped_at_call(number: int, error: BaseException | None) -> Iterator[list[int]]:
    """Raise `error` at the call of that number of functions of the package."""
    count = [0]

    def profile(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            count[0] += 1
            if error is not None and count[0] == number:
                sys.setprofile(None)
                raise error

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def at_every_line(
    work: Callable[[], Any], files: tuple[str, ...], kind: type[BaseException], check: Callable[[bool], None]
) -> int:
    """Stop `work` before each of its lines in `files` in turn, and `check` what is left; return how many there were.

    `check` is told whether the work was finished nevertheless.
    """
    with stopped_at_line(0, files, None) as count:
        work()
    check(True)
    for number in range(1, count[0] + 1):
        finished = False
        try:
            with stopped_at_line(number, files, kind("stopped")):
                work()
                finished = True
        except kind as stop:
            traceback.clear_frames(stop.__traceback__)  # as if the process had gone on, or ended
        check(finished)
    return count[0]
