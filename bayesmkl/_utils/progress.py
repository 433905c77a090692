"""Progress of long fits and of comparisons, on a terminal and in notebooks that have widgets."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing import parent_process

LONG = 5.0  # seconds; what will take less shows nothing
SOON = 0.5  # seconds after which the rate of steps tells how long all will take
DRAWING = threading.Lock()  # two bars at once would write over each other


def announce(show: bool, text: str) -> None:
    """Write a line to stderr if that is a terminal, or a notebook, and `show`."""
    if show and _is_watched():
        sys.stderr.write(text + "\n")


def _is_watched() -> bool:
    """Return whether stderr is a terminal, or a notebook in which a bar can be drawn."""
    if sys.stderr.isatty():
        return True
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return type(shell).__name__ == "ZMQInteractiveShell" and find_spec("ipywidgets") is not None


@contextmanager
def _alone(show: bool) -> Iterator[bool]:
    """Yield whether to draw: somebody watches, and nothing is drawn around this."""
    mine = show and _is_watched() and parent_process() is None and DRAWING.acquire(blocking=False)
    try:
        yield mine
    finally:
        if mine:
            DRAWING.release()


@contextmanager
def step_progress(
    show: bool, label: str, n_steps: int, unit: str
) -> Iterator[Callable[[int, str], None] | None]:
    """Yield a callback ``(steps done, status)`` that draws a bar on stderr for what will take over five seconds.

    Parameters
    ----------
    show : bool
        False, or stderr being neither a terminal nor a notebook, yields None.
    label : str
        What is being done.
    n_steps : int
        Full length of the bar.
    unit : str
        What a step is called: "sweep", "step".
    """
    with _alone(show) as mine:
        if not mine:
            yield None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(
                unit + " {task.completed:.0f} of at most {task.total:.0f}{task.fields[status]} · left"
            ),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task, begun = progress.add_task(label, total=n_steps, status=" · starting"), time.perf_counter()
        patience = threading.Timer(LONG, progress.start)  # the first step may be long: NUTS compiles
        patience.daemon = True
        patience.start()

        def report(done: int, status: str) -> None:
            progress.update(task, completed=done, status=f" · {status}" if status else "")
            passed = time.perf_counter() - begun
            if not progress.live.is_started and passed > SOON and passed * n_steps > LONG * done:
                progress.start()

        try:
            yield report
        finally:
            patience.cancel()
            patience.join()
            progress.stop()
