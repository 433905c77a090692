"""Commands `bayesmkl compare` and `bayesmkl merge`: run what is left of a study, or put several together; report."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from bayesmkl._utils.files import written_beside
from bayesmkl._utils.progress import cell_progress
from bayesmkl.cli.compare_config import read_config
from bayesmkl.cli.report import console, duration, notes_of_warnings, say
from bayesmkl.cli.stops import STOPS
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.journal import ABOUT, Journal, held_run
from bayesmkl.evaluation.merge import merge_comparisons
from bayesmkl.evaluation.report import write_report
from bayesmkl.evaluation.runner import run_study

__all__ = ["run_compare", "run_merge"]

SECONDS_BETWEEN_LINES = 10.0  # where progress goes to a file
DATASETS_PER_TABLE = 5
METRICS_SHOWN = 3
FAILURES_SHOWN = 5
REPORT = "report.html"
CONFIG = "config.toml"


def run_compare(config_file: Path, out: Path, n_jobs: int | None = None, retry_failed: bool = False) -> bool:
    """Run a comparison into a folder, or continue it there; return whether any model got through.

    Raises
    ------
    KeyboardInterrupt, Terminated
        With a note on what is kept.
    """
    study, jobs_of_config = read_config(config_file)
    study = study._replace(retry_failed=retry_failed)
    jobs = n_jobs if n_jobs is not None else jobs_of_config
    if jobs == 0:
        raise ValueError("n_jobs, or --jobs, must be a number of processes, or -1 for one per core; got 0.")
    text = config_file.read_text(encoding="utf-8")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"--out must be in a folder that exists; {str(out.absolute().parent)!r} does not.")
    with held_run(out):
        about = {"config": text}
        try:
            with notes_of_warnings(), cell_progress(True) as bar:
                lines = Lines(list(study.datasets))

                def there(rows: list[dict[str, Any]]) -> None:
                    if rows:
                        say(f"Continuing in {out}{os.sep}: {len(rows)} cells are there already.")
                    lines.begin(rows)

                comparison = run_study(study, out, jobs, progress=bar or lines, about=about, there=there)
        except STOPS as stop:
            stop.add_note(
                f"{len(_finished_cells(out))} finished cells are kept in {out}{os.sep}. The same command continues "
                "there."
            )
            raise
        write_report(comparison, out / REPORT)
        with written_beside(out / CONFIG) as beside:
            beside.write_text(text, encoding="utf-8")
    _tell(comparison, out)
    return bool((comparison.cells["error"] == "").any())


def run_merge(runs: list[Path], out: Path) -> None:
    """Write the cells of several comparisons into a new folder.

    Raises
    ------
    ValueError
        If there is something in the folder, if a run is not the folder of a comparison, or if a name means two
        things.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out must be a new or empty folder; {str(out)!r} is not. Nothing was written.")
    with notes_of_warnings():
        comparison = merge_comparisons(runs, out)
        write_report(comparison, out / REPORT)
    _tell(comparison, out)


def _tell(comparison: Comparison, out: Path) -> None:
    """Print the scores, and what was written."""
    print_comparison(comparison)
    say(f"Written to {out}{os.sep}: {', '.join(sorted(path.name for path in out.iterdir()))}")
    say(f"Tables, plots and tests: {out / REPORT}")


class Lines:
    """Progress without a terminal: a line per finished data set, and one at intervals.

    Parameters
    ----------
    datasets : list of str
        All data sets; they have equally many cells.
    """

    def __init__(self, datasets: list[str]) -> None:
        self.datasets = datasets
        self.begin([])

    def begin(self, earlier: list[dict[str, Any]]) -> None:
        """Start with the cells that an earlier run finished."""
        self.cells = Counter(row["dataset"] for row in earlier)
        self.n_failed = sum(row.get("error", "") != "" for row in earlier)
        self.n_earlier = len(earlier)
        self.start = self.last = time.monotonic()

    def __call__(self, row: dict[str, Any], done: int, total: int) -> None:
        """Count a finished cell."""
        self.cells[row["dataset"]] += 1
        self.n_failed += bool(row.get("error"))
        now = time.monotonic()
        complete = self.cells[row["dataset"]] * len(self.datasets) == total
        if not complete and now - self.last < SECONDS_BETWEEN_LINES:
            return
        self.last = now
        left = (now - self.start) / max(done - self.n_earlier, 1) * (total - done)
        parts = [f"{done} of {total} cells"]
        parts += [f"{self.n_failed} failed"] if self.n_failed else []
        parts += [f"about {duration(left)} left"] if done < total else []
        what = f"{row['dataset']} complete: " if complete else ""
        print(what + ", ".join(parts), file=sys.stderr, flush=True)  # noqa: T201


def print_comparison(comparison: Comparison) -> None:
    """Print mean and standard deviation of the first metrics, and what failed."""
    for metric in comparison.metrics[:METRICS_SHOWN]:
        for first in range(0, len(comparison.datasets), DATASETS_PER_TABLE):
            _print_scores(comparison, metric, comparison.datasets[first : first + DATASETS_PER_TABLE])
    if len(comparison.metrics) > METRICS_SHOWN:
        say(f"The report has also {', '.join(comparison.metrics[METRICS_SHOWN:])}.")
    failed = comparison.cells[comparison.cells["error"] != ""]
    if failed.empty:
        return
    note = f"[yellow]note:[/yellow] {len(failed)} of {len(comparison.cells)} cells failed:"
    stderr = console(stderr=True)
    stderr.print(note, soft_wrap=True)
    counts = Counter(zip(failed["model"], failed["dataset"], failed["error"], strict=True))
    for (model, dataset, error), n in list(counts.items())[:FAILURES_SHOWN]:
        stderr.print(f"  {escape(f'{model} on {dataset}, {n} x: {error}')}", soft_wrap=True)
    if len(counts) > FAILURES_SHOWN:
        stderr.print(f"  and {len(counts) - FAILURES_SHOWN} more; see the report.", soft_wrap=True)


def _print_scores(comparison: Comparison, metric: str, datasets: list[str]) -> None:
    better = "higher" if comparison.about["metrics"][metric] else "lower"
    say(f"{metric}, {better} is better: mean ± sd over the splits, * the best mean")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", overflow="fold")
    for dataset in datasets:
        table.add_column(escape(dataset), justify="right", overflow="fold")
    rows = {(row["model"], row["dataset"]): row for row in comparison.summary(metric).to_dict("records")}
    for model in comparison.models:
        table.add_row(escape(model), *(_cell(rows[model, dataset]) for dataset in datasets))
    console().print(table)


def _cell(row: dict[Any, Any]) -> str:
    if row["n"] == 0:
        return "failed" if row["failed"] else "-"
    std = "" if pd.isna(row["std"]) else f" ± {row['std']:.3f}"
    missing = f" ({row['failed']} failed)" if row["failed"] else ""
    return f"{'* ' if row['best'] else ''}{row['mean']:.4f}{std}{missing}"


def _finished_cells(out: Path) -> list[dict[str, Any]]:
    return Journal(out).read() if (out / ABOUT).is_file() else []
