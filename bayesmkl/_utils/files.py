"""Atomic writing of files, reading of arrays in several threads, and the layout of files."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from bayesmkl._utils.validation import shown

PARTIAL = ".part"  # end of the names of files that are being written
NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
SPACE = "Free some space, or choose a folder on another disk."
# NumPy parses the header of a file as Python. Before Python 3.11.8 and 3.12.2 the parser counts its depth for all
# threads together, and two of them may make it fail with a SystemError (python/cpython#106905).
READING_ARRAYS = threading.RLock()


def load_array(file: Path, mmap_mode: Any = None) -> Any:
    """Return the array of an ``.npy`` file, which may be read in several threads at once."""
    with READING_ARRAYS:
        return np.load(file, mmap_mode=mmap_mode, allow_pickle=False)


def is_partial(path: Path) -> bool:
    """Return whether a file is what a killed process left of `written_beside`."""
    return re.fullmatch(rf"\..+\.[0-9a-f]{{8}}\{PARTIAL}", path.name) is not None


@contextmanager
def written_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a name in the same folder to write to, and rename it to `path` once all is well.

    Whatever happens before, `path` keeps its content. A process that is killed leaves a file with a name of its own,
    which :func:`is_partial` knows.

    Raises
    ------
    ValueError
        If `path` cannot be a file.
    OSError
        If it cannot be written, for example because the disk is full: with its name and the remedy.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayesmkl._utils.files import written_beside
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_beside(f"{folder}/table.csv") as beside:
    ...         _ = beside.write_text("a,b")
    ...     [path.name for path in Path(folder).iterdir()]
    ['table.csv']
    """
    target = as_path("path", path)
    if target.is_dir() or not target.parent.is_dir():
        problem = "is a folder" if target.is_dir() else "is in a folder that does not exist"
        raise ValueError(f"`path` must be a file in an existing folder; {str(target)!r} {problem}.")
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError as error:
        if error.errno not in NO_SPACE and error.filename != str(beside):
            raise
        raise not_written(f"`path`: {str(target)!r}", error) from error
    finally:
        with suppress(OSError):  # where nothing may be written, not even what is absent can be removed
            beside.unlink(missing_ok=True)


def not_written(what: str, error: OSError) -> OSError:
    """Return an error of the same kind that says in words what could not be written, and what to do.

    Examples
    --------
    >>> print(not_written("`path`: 'model.skops'", OSError(errno.ENOSPC, "No space left on device")))
    `path`: 'model.skops' could not be written: No space left on device. Nothing was changed. Free some space, or
    choose a folder on another disk.
    """
    reason = os.strerror(error.errno) if error.errno else str(error)
    remedy = f" {SPACE}" if error.errno in NO_SPACE else ""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        remedy = " Choose a folder that you may write to."
    told = type(error)(f"{what} could not be written: {reason}. Nothing was changed.{remedy}")
    told.errno = error.errno
    return told


def as_path(name: str, value: object) -> Path:
    """Return a path that was given as text or as a path.

    Examples
    --------
    >>> as_path("path", None)
    Traceback (most recent call last):
    ...
    TypeError: `path` must be a str or a path; got None.
    """
    if isinstance(value, bytes) or not isinstance(value, str | os.PathLike):
        raise TypeError(f"`{name}` must be a str or a path; got {shown(value)}.")
    return Path(value)


def read_json(path: Path) -> Any:
    """Read a JSON file; any fault of it is a ValueError or an OSError.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "about.json"
    ...     _ = path.write_text('{"format": "numbers", "version": 2}')
    ...     read_json(path)
    {'format': 'numbers', 'version': 2}
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def check_layout(found: object, known: int, what: str, written_by: object = None) -> None:
    """Raise if a file has another layout than the one that this package reads.

    Parameters
    ----------
    found : int
        What the file says.
    known : int
        The layout that is read.
    what : str
        The file, for messages.
    written_by : str, default=None
        The version of this package that wrote it, if the file says so.

    Examples
    --------
    >>> try:
    ...     check_layout(3, 2, "'a.json'", "9.0")
    ... except ValueError as error:
    ...     print(error)
    'a.json' has layout 3, written by bayesmkl 9.0, and this version reads layout 2: fit again with this version, ...
    """
    if found != known:
        by = "" if written_by is None else f", written by bayesmkl {str(written_by)[:40]},"
        layout = "no layout" if found is None else f"layout {found!r}"
        raise ValueError(
            f"{what} has {layout}{by} and this version reads layout {known}: fit again with this version, or read it "
            "with the one that wrote it."
        )
