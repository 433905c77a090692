"""Command `bayesmkl compare`: run what is left of a study, and report."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from bayesmkl._utils.files import written_beside
from bayesmkl.cli.compare_config import read_config
from bayesmkl.cli.report import console, notes_of_warnings, say
from bayesmkl.cli.stops import STOPS
from bayesmkl.evaluation.compare import compare_models
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.report import write_report

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
    jobs = n_jobs if n_jobs is not None else jobs_of_config
    if jobs == 0:
        raise ValueError("n_jobs, or --jobs, must be a number of processes, or -1 for one per core; got 0.")
    text = config_file.read_text(encoding="utf-8")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"--out must be in a folder that exists; {str(out.absolute().parent)!r} does not.")
    there = len(list((out / "cells").glob("*.json")))
    if there:
        say(f"Continuing in {out}{os.sep}: {there} cells are there already.")
    options = study._asdict()
    options["datasets"] = {
        name: (data.X, data.y, data.groups, data.weights)
        for name, data in ((name, load()) for name, load in options["datasets"].items())
    }
    try:
        with notes_of_warnings():
            comparison = compare_models(
                **options, folder=out, n_jobs=jobs, retry_failed=retry_failed, verbose=1
            )
    except STOPS as stop:
        n_cells = len(list((out / "cells").glob("*.json")))
        stop.add_note(
            f"{n_cells} finished cells are kept in {out}{os.sep}. The same command continues there."
        )
        raise
    comparison.about["config"] = text
    write_report(comparison, out / REPORT)
    with written_beside(out / CONFIG) as beside:
        beside.write_text(text, encoding="utf-8")
    _tell(comparison, out)
    return bool((comparison.cells["error"] == "").any())


def _tell(comparison: Comparison, out: Path) -> None:
    """Print the scores, and what was written."""
    print_comparison(comparison)
    say(f"Written to {out}{os.sep}: {', '.join(sorted(path.name for path in out.iterdir()))}")
    say(f"Tables, plots and tests: {out / REPORT}")


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
