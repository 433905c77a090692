"""Results that come one by one: a line of JSON each, appended, so that a run continues where a file ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["append", "done", "read"]


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
