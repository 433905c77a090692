"""Files that are complete or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["is_partial", "written_beside"]

PARTIAL = ".part"  # end of the names of files that are being written


def is_partial(path: Path) -> bool:
    """Say whether a file is what a killed process left of `written_beside`."""
    return path.name.startswith(".") and path.suffix == PARTIAL


@contextmanager
def written_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a name in the same folder to write to, and rename it to `path` once all is well.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayesmkl._numerics.files import written_beside
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_beside(f"{folder}/table.csv") as beside:
    ...         _ = beside.write_text("a,b")
    ...     [path.name for path in Path(folder).iterdir()]
    ['table.csv']
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        problem = "is a folder" if target.is_dir() else "is in a folder that does not exist"
        raise ValueError(f"`path` must be a file in an existing folder; {str(target)!r} {problem}.")
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
