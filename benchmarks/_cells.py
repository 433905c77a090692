"""Results that come one by one: a line of JSON each, appended, so that a run continues where a file ends; studies."""

from __future__ import annotations

import json
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _machine import measure
from _report import RESULTS, finish, parser
from threadpoolctl import threadpool_limits

Row = dict[str, Any]
Jobs = Iterator[tuple[str, int, str, Callable[[], Row]]]  # set, split, model, and what computes the cell


def run_study(
    doc: str | None,
    name: str,
    *,
    jobs: Callable[[Namespace], Jobs],
    report: Callable[[list[Row], Namespace], tuple[str, dict[str, Any]]],
    short: Callable[[], list[Row]],
    sets: Sequence[str] = (),
    **counts: int,
) -> None:
    """Run the cells of a study that its file does not have, then report.

    Parameters
    ----------
    doc : str
        What the command line says of the script.
    name : str
        Of tables and results.
    jobs : callable
        Cells in the order in which they run, by the options.
    report : callable
        Text and numbers of rows; what it claims of a short form is left out.
    short : callable
        Rows of the short form, of which nothing is kept.
    sets : sequence of str
        Among which ``--sets`` chooses.
    **counts : int
        Options and their defaults: how many splits, say.
    """
    options = parser(doc)
    for count, default in counts.items():
        options.add_argument(f"--{count}", type=int, default=default, help=f"(default {default})")
    options.add_argument("--sets", help='some of the sets, separated by ";"')
    options.add_argument("--models", default="", help="only models whose names hold this")
    cells = RESULTS / f"{name}_cells.jsonl"
    options.add_argument("--results", type=Path, default=cells, help="lines to append to and to report from")
    options.add_argument("--report", action="store_true", help="only report")
    chosen = options.parse_args()
    chosen.sets = chosen.sets.split(";") if chosen.sets else list(sets)
    if unknown := set(chosen.sets) - set(sets):
        options.error(f"--sets: unknown {', '.join(sorted(unknown))}; choose from {'; '.join(sets)}")
    machine = measure(chosen.fast)
    print(machine.report() + "\n")
    with threadpool_limits(1):
        if not (chosen.fast or chosen.report):
            _compute(jobs(chosen), chosen.results, chosen.models)
        rows = short() if chosen.fast else read(chosen.results)
    text, numbers = report(rows, chosen)
    without = {"claims": []} if chosen.fast else {}
    finish(chosen, name, text, {"machine": machine._asdict(), **numbers, **without})


def _compute(jobs: Jobs, path: Path, some: str) -> None:
    known = done(path)
    for *cell, compute in jobs:
        if some not in cell[2] or tuple(cell) in known:
            continue
        known = done(path)  # other processes may append, too
        if tuple(cell) not in known:
            row = compute()
            append(path, row)
            print(f"{cell[0]:<24} {cell[1]:>3} {row.get('seconds', 0.0):>7.1f} s  {cell[2]}", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    """All cells done so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def done(path: Path) -> set[tuple[str, int, str]]:
    """Set, split and model of these."""
    return {(row["set"], row["split"], row["model"]) for row in read(path)}


def append(path: Path, row: dict[str, Any]) -> None:
    """Write one more."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


@contextmanager
def told(row: Row, failure: str = "error") -> Iterator[None]:
    """Add warnings, and the failure, of what runs inside to a row: both are parts of the result."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            yield
        except Exception as error:
            row[failure] = f"{type(error).__name__}: {error}"[:300]
    kinds = [type(warning.message).__name__ for warning in caught]
    row["warnings"] = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def chosen_rows(rows: list[dict[str, Any]], name: str, model: str) -> list[dict[str, Any]]:
    """Cells of a model on a set that did not fail."""
    return [row for row in rows if (row["set"], row["model"]) == (name, model) and "failure" not in row]


def gap(rows: list[dict[str, Any]], name: str, model: str, other: str, key: str) -> tuple[float, float]:
    """Mean difference of a score on common splits, and its standard error, NaN of a single split."""
    one, two = ({row["split"]: row[key] for row in chosen_rows(rows, name, each)} for each in (model, other))
    gaps = np.array([one[number] - two[number] for number in sorted(one.keys() & two.keys())])
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else float("nan")
    return float(gaps.mean()), error
