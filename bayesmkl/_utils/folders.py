"""Folders locked by one process: of long runs, and of scratch files."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, folders are shared at the user's risk
    fcntl = None  # type: ignore[assignment]

__all__ = ["held_folder", "lock", "lock_if_possible", "scratch_folder"]

SCRATCH = "bayesmkl-"  # start of the names of folders below that of temporary files
OWNER = ".bayesmkl-owner"  # file in them that the owner has locked, and that says on which computer it runs
HELD: ContextVar[frozenset[tuple[int, int]]] = ContextVar("HELD", default=frozenset())


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Keep other runs away from a folder as long as this process lives; inside, it can be held once more.

    Raises
    ------
    ValueError
        If another process, or another thread, holds it.
    """
    found = folder.stat()
    key = (found.st_dev, found.st_ino)
    if key in HELD.get():
        yield
        return
    unlock = lock_if_possible(folder)
    if unlock is None:
        raise ValueError(f"another run is writing to {str(folder)!r}. Wait for it, or choose another folder.")
    before = HELD.set(HELD.get() | {key})
    try:
        yield
    finally:
        HELD.reset(before)
        unlock()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for temporary files that vanishes afterwards; after ``kill -9``, with the next one that is made.

    Examples
    --------
    >>> with scratch_folder() as folder:
    ...     _ = (folder / "X.npy").write_bytes(b"")
    >>> folder.exists()
    False
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    with ExitStack() as last:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH))
        last.callback(shutil.rmtree, folder, ignore_errors=True)
        fresh = folder / f"{OWNER}.new"
        fresh.write_text(platform.node(), encoding="utf-8")
        unlock = lock_if_possible(fresh)  # before it has the name that others look for
        if unlock is not None:
            last.callback(unlock)
        fresh.rename(folder / OWNER)
        yield folder


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


def _remove_abandoned(parent: Path) -> None:
    """Remove scratch folders of this user and computer whose owner is gone."""
    if fcntl is None:
        return
    for folder in parent.glob(f"{SCRATCH}*"):
        with suppress(OSError):  # owned by another process, or removed meanwhile
            _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    owner = folder / OWNER
    if folder.is_symlink() or folder.lstat().st_uid != os.getuid() or owner.is_symlink():
        return
    if not owner.is_file() or owner.read_text(encoding="utf-8") != platform.node():
        return
    unlock = lock(owner)
    if unlock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        unlock()
