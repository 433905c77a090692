"""The largest memory of a process, and fits in processes of their own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

MB = 1e6
STATUS = Path("/proc/self/status")


class Peak(NamedTuple):
    """Bytes; None where the operating system does not say."""

    added: int | None  # by the call, at most, to what the process had before
    process: int | None  # of the whole process, at most


def peak_of(function: Callable[[], Any]) -> tuple[Any, Peak]:
    """Call `function`, and return its result and the largest memory meanwhile.

    Linux counts for each program; `getrusage` begins with what the process that started it had.
    """
    if not STATUS.exists():
        return function(), Peak(None, None)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the largest memory is that of now
    before = _status("VmRSS:")
    result = function()
    most = _status("VmHWM:")
    return result, Peak(most - before, most)


def resident() -> int | None:
    """Return the memory of this process now, in bytes; None where the operating system does not say."""
    return _status("VmRSS:") if STATUS.exists() else None


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new process, which has nothing in memory but imports."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _status(key: str) -> int:
    lines = (line.split() for line in STATUS.read_text(encoding="utf-8").splitlines())
    return next(1024 * int(words[1]) for words in lines if words[0] == key)
