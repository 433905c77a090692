"""Command line and output that all benchmarks share."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["GENERATED", "ROOT", "STATIC", "finish", "markdown_table", "mean_and_std", "parser"]

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "docs" / "_generated"  # tables that docs/performance.md includes
STATIC = ROOT / "docs" / "_static"  # figures


def parser(doc: str) -> argparse.ArgumentParser:
    """Parser with the options that every benchmark has."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--fast", action="store_true", help="short form on bundled or synthetic data, under 15 s"
    )
    options.add_argument("--json", type=Path, metavar="PATH", help="also write the numbers to this file")
    options.add_argument("--docs", action="store_true", help="also write the table (and figure) into docs/")
    return options


def markdown_table(headers: list[str], rows: list[list[Any]]) -> str:
    """Markdown table; the first column to the left, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in [headers, *rows]]
    widths = [max(len(row[j]) for row in cells) for j in range(len(headers))]
    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]

    def line(row: list[str]) -> str:
        padded = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(cells[0]), line(rule), *(line(row) for row in cells[1:])])


def mean_and_std(values: Any, digits: int = 2) -> str:
    """ "mean ± standard deviation" over replications."""
    values = np.asarray(values, dtype=float)
    spread = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def finish(options: argparse.Namespace, name: str, text: str, numbers: dict[str, Any]) -> None:
    """Print the result, and write it where the options say."""
    print(text)
    if options.docs:
        GENERATED.mkdir(parents=True, exist_ok=True)
        (GENERATED / f"{name}.inc").write_text(text + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
