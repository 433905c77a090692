"""Orderly end of a command on Ctrl-C or a termination signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


class Terminated(BaseException):
    """The process was asked to end. No error of a model, and no Ctrl-C, after which samplers keep what they have."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


STOPS = (KeyboardInterrupt, Terminated)
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def stops_raise() -> Iterator[None]:
    """Raise where a signal would end the process at once, so that what is temporary is removed before.

    Signals with handlers of others, or ignored as by ``nohup``, stay as they are.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    taken = [s for s in SIGNALS if in_main_thread and signal.getsignal(s) == signal.SIG_DFL]

    def stop(number: int, _frame: FrameType | None) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_IGN)  # no second interrupt while the command ends
        raise Terminated(number)

    for one in taken:
        signal.signal(one, stop)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)


def told(stop: BaseException) -> tuple[str, int]:
    """Return the line about a stop, and the exit code: 128 and the number of the signal, as shells count.

    Examples
    --------
    >>> told(Terminated(15))
    ('terminated: stopped before the end. Every file is complete, or as it was.', 143)
    """
    word, number = (
        ("terminated", stop.number) if isinstance(stop, Terminated) else ("interrupted", signal.SIGINT)
    )
    what = " ".join(
        getattr(stop, "__notes__", ["stopped before the end. Every file is complete, or as it was."])
    )
    return f"{word}: {what}", 128 + int(number)
