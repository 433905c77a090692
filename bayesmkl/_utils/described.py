"""Small files in JSON that say what a folder is, and in which layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["check_layout", "read_json"]

MOST_BYTES = 2**28  # of a description


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
    if path.exists() and not path.is_file():  # a pipe would never end
        raise ValueError(f"{str(path)!r} is no file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{str(path)!r} is too large for what it should be")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def check_layout(found: object, known: int, what: str, written_by: object = None) -> int:
    """Return the version of a layout; raise if it is none, or newer than what this package reads.

    Parameters
    ----------
    found : int
        What a file says; None in files from before layouts had versions, which is 1.
    known : int
        The newest version that is read.
    what : str
        The file, for messages.
    written_by : str, default=None
        The version of this package that wrote it, if the file says so.

    Examples
    --------
    >>> check_layout(None, 2, "'a'")
    1
    >>> try:
    ...     check_layout(3, 2, "'a.json'")
    ... except ValueError as error:
    ...     print(str(error)[:51])
    'a.json' was written by a newer bayesmkl in a newer
    """
    if found is None:
        return 1
    if type(found) is not int or found < 1:
        raise ValueError(
            f"{what} has the layout {found!r}, which is no version. It is damaged; write it again."
        )
    if found > known:
        by = "a newer bayesmkl" if written_by is None else f"bayesmkl {str(written_by)[:40]}"
        raise ValueError(
            f"{what} was written by {by} in a newer layout ({found}, this version reads up to {known}). Update "
            "bayesmkl."
        )
    return found
