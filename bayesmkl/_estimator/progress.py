"""Progress of a long fit, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["sweep_progress"]

PATIENCE_SECONDS = 2.0  # shorter fits show nothing


@contextmanager
def sweep_progress(show: bool, label: str, max_iter: int) -> Iterator[Callable[[int, float], None] | None]:
    """Yield a callback ``(n_sweeps, elbo)`` that draws a progress bar on stderr once a fit takes over two seconds.

    Parameters
    ----------
    show : bool
        False, or stderr not being a terminal, yields None.
    label : str
        What is being fitted.
    max_iter : int
        Full length of the bar.
    """
    if not (show and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("sweep {task.completed:.0f} of at most {task.total:.0f} · ELBO {task.fields[elbo]:.4f}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    started = time.monotonic()
    task = progress.add_task(label, total=max_iter, elbo=float("nan"))

    def report(n_sweeps: int, elbo: float) -> None:
        if not progress.live.is_started and time.monotonic() - started > PATIENCE_SECONDS:
            progress.start()
        progress.update(task, completed=n_sweeps, elbo=elbo)

    try:
        yield report
    finally:
        progress.stop()
