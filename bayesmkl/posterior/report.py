"""Sections of a diagnosis, and their printed form."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from bayesmkl.posterior.axes import shorten

WIDTH = 96
VERDICTS = ("good", "skipped", "caution", "bad")  # the worst last


class Section(NamedTuple):
    """One part of a diagnosis."""

    key: str
    title: str
    values: dict[str, Any]  # numbers, arrays and texts; by class name first where there are several models
    lines: list[str]  # of the report, at most WIDTH characters each
    verdict: str  # one of VERDICTS
    advice: str  # what it means and what to do


def skipped(key: str, title: str, advice: str) -> Section:
    """Return a section without numbers, which says why there are none."""
    return Section(key, title, {}, [], "skipped", advice)


def of_models(values: dict[str, Any]) -> dict[str, Any]:
    """Return values by the name of the model they are of, or those of the only model."""
    return values if len(values) > 1 else next(iter(values.values()))


def worst(verdicts: Sequence[str]) -> str:
    """Return the verdict that decides.

    Examples
    --------
    >>> worst(["good", "bad", "caution"])
    'bad'
    """
    return max(verdicts, key=VERDICTS.index)


def line_of_text(text: str) -> list[str]:
    """Wrap a paragraph."""
    return textwrap.wrap(text, WIDTH, break_long_words=False)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], first_width: int = 44) -> list[str]:
    r"""Align rows under a header: the first column to the left, numbers to the right.

    Examples
    --------
    >>> print("\n".join(table(["", "mean", "n"], [["share", 0.25, 100]])))
             mean    n
    share    0.25  100
    """
    texts = [[_text(cell) for cell in row] for row in rows]
    texts = [[shorten(row[0], first_width), *row[1:]] for row in texts]
    widths = [max(map(len, column)) for column in zip(header, *texts, strict=True)]
    widths[0] = max(widths[0], 6)

    def joined(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        return (
            first + "".join("  " + c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))
        ).rstrip()

    return [joined(header), *map(joined, texts)]


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return "-" if cell != cell else f"{cell:.3g}" if abs(cell) < 1000 else f"{cell:.0f}"
    return str(cell)


def render(title: str, about: Sequence[str], sections: Sequence[Section]) -> str:
    """Write a report as text."""
    blocks = ["\n".join([title, "=" * len(title), *about])]
    for section in sections:
        heading = f"{section.title}: {section.verdict.upper()}"
        blocks.append("\n".join([heading, "-" * len(heading), *section.lines, *_advice(section)]))
    return "\n\n".join(blocks)


def _advice(section: Section) -> list[str]:
    return textwrap.wrap(section.advice, WIDTH, initial_indent="-> ", subsequent_indent="   ")
