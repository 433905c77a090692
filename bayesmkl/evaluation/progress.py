"""Progress of a comparison, with the time that is left, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["cell_progress"]


@contextmanager
def cell_progress(show: bool) -> Iterator[Callable[[dict[str, Any], int, int], None] | None]:
    """Yield a callback ``(row, cells done, all cells)`` that draws a bar on stderr; None if there is no terminal."""
    if not (show and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("comparing", total=None)

    def report(row: dict[str, Any], done: int, total: int) -> None:
        what = f"{row['dataset']}, split {row['split']}: {row['model']}"
        bar.update(task, description=what, completed=done, total=total, refresh=True)

    with bar:
        yield report
