"""Results that come one by one: a line of JSON each, appended, so that a run continues where a file ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["append", "chosen_rows", "completed", "done", "gap", "read"]


def read(path: Path) -> list[dict[str, Any]]:
    """All cells done so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def done(path: Path) -> set[tuple[str, int, str]]:
    """Set, split and model of these; other processes may append, too."""
    return {(row["set"], row["split"], row["model"]) for row in read(path)}


def append(path: Path, row: dict[str, Any]) -> None:
    """Write one more."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def chosen_rows(rows: list[dict[str, Any]], name: str, model: str) -> list[dict[str, Any]]:
    """Cells of a model on a set that did not fail."""
    return [row for row in rows if (row["set"], row["model"]) == (name, model) and "failure" not in row]


def gap(rows: list[dict[str, Any]], name: str, model: str, other: str, key: str) -> tuple[float, float]:
    """Mean difference of a score on common splits, and its standard error, NaN of a single split."""
    one, two = ({row["split"]: row[key] for row in chosen_rows(rows, name, each)} for each in (model, other))
    gaps = np.array([one[number] - two[number] for number in sorted(one.keys() & two.keys())])
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else float("nan")
    return float(gaps.mean()), error


def completed(
    units: Iterable[tuple[Any, ...]],
    compute: Callable[..., Any],
    path: Path | None = None,
    part: str | None = None,
) -> dict[tuple[Any, ...], Any]:
    """Return the result of every unit; read those that `path` has, append the others to it.

    With ``part="2/8"`` only the second of every eight missing units is computed, and only those that are done are
    returned: processes and machines share a study that way, and their files one after the other are one file.
    """
    found = {tuple(row["unit"]): row["result"] for row in read(path)} if path else {}
    missing = [unit for unit in units if unit not in found]
    if part is not None:
        position, n_parts = (int(number) for number in part.split("/"))
        missing = missing[position - 1 :: n_parts]
    for unit in missing:
        found[unit] = compute(*unit)
        if path:
            append(path, {"unit": unit, "result": found[unit]})
    return found
