"""Command line and output that all benchmarks share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _machine import measure

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
STATIC = ROOT / "docs" / "_static"  # figures
Row = list[Any] | str


class _Parser(argparse.ArgumentParser):
    """Refuses to keep the results of short forms."""

    def parse_args(self, *args: Any, **kwargs: Any) -> Any:
        options = super().parse_args(*args, **kwargs)
        if options.keep and options.fast:
            self.error("--keep needs the full run: leave out --fast.")
        return options


def parser(doc: str) -> argparse.ArgumentParser:
    """Parser with the options that every benchmark has."""
    options = _Parser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--fast", action="store_true", help="short form on bundled or synthetic data, under 15 s"
    )
    options.add_argument("--json", type=Path, metavar="PATH", help="also write the numbers to this file")
    options.add_argument(
        "--keep",
        action="store_true",
        help="also write the numbers into benchmarks/results/, and figures into docs/_static/",
    )
    return options


def begin(doc: str | None, **counts: int) -> argparse.Namespace:
    """Read the command line, with options for counts that have these defaults, and tell of the machine."""
    options = parser(doc)
    for name, default in counts.items():
        options.add_argument(f"--{name}", type=int, default=default, help=f"(default {default})")
    chosen = options.parse_args()
    chosen.machine = measure(chosen.fast)
    print(chosen.machine.report() + "\n")
    return chosen


def markdown_table(headers: Row, rows: Sequence[Row]) -> str:
    """Markdown table; the first column to the left, numbers to the right; texts of rows have bars between cells."""
    cells = [
        row.split(" | ") if isinstance(row, str) else [str(cell) for cell in row] for row in (headers, *rows)
    ]
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]

    def line(row: list[str]) -> str:
        padded = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(cells[0]), line(rule), *(line(row) for row in cells[1:])])


def claim(
    what: str, asked: float, measured: float | None, unit: str = "", at_least: bool = False
) -> dict[str, Any]:
    """One number that is asked for, beside what was measured: at most as much, or at least."""
    holds = measured is not None and bool(measured >= asked if at_least else measured <= asked)
    return {
        "what": what,
        "asked": f"at {'least' if at_least else 'most'} {asked:.3g}{unit}",
        "measured": "–" if measured is None else f"{measured:.3g}{unit}",
        "holds": holds,
    }


def finish(options: argparse.Namespace, name: str, text: str, numbers: dict[str, Any]) -> None:
    """Print the result, and write it where the options say, beside the machine if `begin` has measured it.

    What `claim` made is found under the key "claims" of `numbers`.
    """
    print(text)
    claims = numbers.get("claims", [])
    if claims:
        rows = [[c["what"], c["asked"], c["measured"], "yes" if c["holds"] else "NO"] for c in claims]
        print("\n" + markdown_table(["", "asked", "measured", "holds"], rows))
    machine = {"machine": options.machine._asdict()} if hasattr(options, "machine") else {}
    kept = {"command": _command(), "fast": options.fast, **machine, **numbers}
    if options.keep:
        _write(RESULTS / f"{name}.json", kept)
    if options.json:
        _write(options.json, kept)


def _command() -> str:
    """How this benchmark was called, without where its numbers go and come from."""
    script, *arguments = sys.argv
    if "--cells" in arguments:
        at = arguments.index("--cells")
        del arguments[at : at + 2]
    return " ".join(["python", f"benchmarks/{Path(script).name}", *(a for a in arguments if a != "--keep")])


def _write(path: Path, numbers: dict[str, Any]) -> None:
    path.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
