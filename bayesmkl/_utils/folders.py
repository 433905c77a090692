"""Folders locked by one process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, folders are shared at the user's risk
    fcntl = None  # type: ignore[assignment]

__all__ = ["lock", "lock_if_possible"]


def lock(path: Path) -> Callable[[], None] | None:
    """Lock a file or folder and return what unlocks it; None if another process, or another call, has it.

    The system unlocks it when the process ends, however it ends.

    Raises
    ------
    OSError
        If there is no such file, or the system or the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(path))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return _Unlock(descriptor)


def lock_if_possible(path: Path) -> Callable[[], None] | None:
    """Do what `lock` does, and nothing where there are no locks."""
    try:
        return lock(path)
    except OSError:
        return lambda: None


class _Unlock:
    """Finalizer of a descriptor, which closes it once: when it is called, or when it can no longer be called."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor: int | None = descriptor

    def __call__(self) -> None:
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    __del__ = __call__
