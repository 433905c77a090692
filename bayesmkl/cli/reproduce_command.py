"""Command ``bayesmkl reproduce``: run a table of a paper, print it, keep its folder."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayesmkl._utils.files import written_beside
from bayesmkl._utils.progress import cell_progress
from bayesmkl._utils.validation import check_integer
from bayesmkl.cli.compare_command import duration
from bayesmkl.cli.report import notes_of_warnings, say
from bayesmkl.cli.stops import STOPS
from bayesmkl.evaluation.journal import held_run
from bayesmkl.reproduction import paper_tables
from bayesmkl.reproduction.printing import as_text, markdown
from bayesmkl.reproduction.run import Cost, Reproduction, find_table, reproduce
from bayesmkl.reproduction.tables import Setting

__all__ = ["part_of", "run_list", "run_reproduce"]

REPORT, TABLES = "report.html", "tables.md"
PIPED_WIDTH = 200  # columns without a terminal: rows say much
SECONDS_BETWEEN_LINES = 10.0
MOST_FAULTS = 8  # shown in a message


def run_list() -> None:
    """Print all tables, and whose data they need."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("table", "what", "data that you bring"):
        shown.add_column(name, overflow="fold")
    for name, table in paper_tables().items():
        folders = ", ".join(dict.fromkeys(need.name.partition("/")[0] for need in table.needs))
        shown.add_row(name, escape(table.title), folders or "–")
    _console().print(shown)


def part_of(text: str) -> tuple[int, int]:
    """Read K/N, which part of how many.

    Examples
    --------
    >>> part_of("3/8")
    (3, 8)
    """
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f"`part` must be K/N with K from 1 to N, such as 3/8; got {text!r}.")
    return int(found[1]), int(found[2])


def run_reproduce(name: str, setting: Setting, out: Path | None) -> None:
    """Run a table and print it; exit with code 1 if a cell of ours is empty."""
    table = find_table(name)
    if setting.splits is not None:
        check_integer("splits", setting.splits, low=1)
    folder = out or Path("reproduce") / (name + ("-fast" if setting.fast else ""))
    say(f"{table.title}\n{table.paper}\n\n{table.protocol}\n")
    with held_run(folder):
        try:
            with notes_of_warnings(), _progress() as progress:
                result = reproduce(name, setting, folder, progress, _say_cost)
        except STOPS as stop:
            stop.add_note(f"what is finished is kept in {folder}; the same command goes on from there.")
            raise
        for printed in result.printed:
            _print(printed.title, as_text(printed.frame))
        if result.printed:
            _write(result, folder)
    if setting.part[1] > 1:
        k, n = setting.part
        say(f"Part {k} of {n}: {folder}. When all are there, `bayesmkl merge` puts their folders together.")
    else:
        say(f"Results, report and this table: {folder}")
    for message in result.missing:
        typer.secho(f"left out: {message}", fg="yellow", err=True)
    if result.faults:
        more = len(result.faults) - MOST_FAULTS
        text = "\n".join([*result.faults[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])])
        typer.secho(f"error: the table is not complete.\n{text}", fg="red", err=True)
        raise typer.Exit(1)


def _say_cost(cost: Cost) -> None:
    """Say what the run will take, where it is more than a moment."""
    if cost.seconds > SECONDS_BETWEEN_LINES:
        typer.echo(
            f"estimate by the first fit: {cost.n_cells} cells, {cost.n_fits} fits, about {duration(cost.seconds)} on "
            "one processor",
            err=True,
        )


def _console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPED_WIDTH, highlight=False)


def _print(title: str, frame: pd.DataFrame) -> None:
    shown = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in frame.columns:
        is_number = all(cell[:1] in "+-–0123456789" for cell in frame[name])
        shown.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        shown.add_row(*(escape(cell) for cell in row))
    _console().print(shown)


def _write(result: Reproduction, folder: Path) -> None:
    """Write the report and the printed tables beside the results."""
    from bayesmkl.evaluation.report import write_report

    text = [f"# {result.table.title}", result.table.paper, result.table.protocol]
    for printed in result.printed:
        text += [f"## {printed.title}", markdown(as_text(printed.frame))]
    with written_beside(folder / TABLES) as beside:
        beside.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    write_report(result.comparison, folder / REPORT, title=result.table.title)


@contextmanager
def _progress() -> Iterator[Callable[[dict[str, Any], int, int], None]]:
    """Show a bar with the time that is left on a terminal, else a line at intervals."""
    start = last = time.monotonic()
    n_earlier: int | None = None  # cells of a run that was stopped

    def line(row: dict[str, Any], done: int, total: int) -> None:
        nonlocal last, n_earlier
        n_earlier, now = done - 1 if n_earlier is None else n_earlier, time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            left = duration((now - start) / (done - n_earlier) * (total - done))
            typer.echo(f"{done} of {total} cells, about {left} left", err=True)

    with cell_progress(True) as bar:
        yield bar or line
