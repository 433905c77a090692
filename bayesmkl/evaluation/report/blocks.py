"""Blocks of a report: paragraphs, tables and figures that write themselves as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from bayesmkl.evaluation.report.markup import (
    Column,
    Markup,
    choices,
    folded,
    join,
    number,
    picture,
    table,
    tag,
)
from bayesmkl.evaluation.report.page import pairs, text_of_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 100  # of a table of Markdown


class Block(Protocol):
    """A piece of a report."""

    def html(self) -> Markup:
        """Write HTML."""
        ...

    def markdown(self) -> str:
        """Write Markdown."""
        ...


class Heading(NamedTuple):
    """The name of a piece."""

    text: str

    def html(self) -> Markup:
        """Write HTML."""
        return tag("h3", self.text)

    def markdown(self) -> str:
        """Write Markdown."""
        return f"### {inline(self.text)}"


class Paragraph(NamedTuple):
    """A paragraph of text."""

    text: str

    def html(self) -> Markup:
        """Write HTML."""
        return tag("p", self.text)

    def markdown(self) -> str:
        """Write Markdown."""
        return inline(self.text)


class Items(NamedTuple):
    """A list of texts."""

    texts: Sequence[str]

    def html(self) -> Markup:
        """Write HTML."""
        return tag("ul", *(tag("li", text) for text in self.texts))

    def markdown(self) -> str:
        """Write Markdown."""
        return "\n".join(f"- {inline(text)}" for text in self.texts)


class Printed(NamedTuple):
    """Lines that are aligned already."""

    lines: Sequence[str]

    def html(self) -> Markup:
        """Write HTML."""
        return tag("pre", "\n".join(self.lines), class_="printed", tabindex=0)

    def markdown(self) -> str:
        """Write Markdown."""
        fence = "```"
        while any(fence in line for line in self.lines):
            fence += "`"
        return "\n".join([f"{fence}text", *self.lines, fence])


class Facts(NamedTuple):
    """Names and values; None is left out."""

    values: Mapping[str, Any]

    def html(self) -> Markup:
        """Write HTML."""
        return pairs(self.values)

    def markdown(self) -> str:
        """Write Markdown."""
        known = {name.replace("_", " "): v for name, v in self.values.items() if v is not None}
        return "\n".join(f"- {inline(name)}: {inline(str(text_of_value(v)))}" for name, v in known.items())


class Rows(NamedTuple):
    """A table, whose columns are sorted by a click in HTML.

    Parameters
    ----------
    frame : DataFrame
        The first column names the row.
    label : str
        What it is a table of.
    identity : str, default=None
        Id in the page, for `menus`.
    menus : mapping of str to str
        Columns by the label of a menu that chooses among their values.
    fold : str, default=None
        Summary of a long table that opens by a click.
    """

    frame: pd.DataFrame
    label: str
    identity: str | None = None
    menus: Mapping[str, str] = {}
    fold: str | None = None

    def html(self) -> Markup:
        """Write HTML."""
        frame, names = self.frame, list(self.frame.columns)
        heads = [Column(name, pd.api.types.is_numeric_dtype(frame[name])) for name in names]
        rows = frame.astype(object).itertuples(index=False, name=None)
        made = table(heads, rows, self.label, self.identity)
        if self.menus and self.identity is not None:
            choosers = {
                label: (str(names.index(column)), list(dict.fromkeys(map(str, frame[column]))))
                for label, column in self.menus.items()
            }
            made = join([choices(self.identity, choosers, len(frame)), made])
        return made if self.fold is None else folded(made, self.fold, len(frame))

    def markdown(self) -> str:
        """Write Markdown, at most the first hundred rows."""
        first = self.frame.head(MOST_ROWS)
        lines = [f"| {' | '.join(map(_in_cell, first.columns))} |"]
        numeric = [pd.api.types.is_numeric_dtype(first[name]) for name in first.columns]
        lines.append(f"| {' | '.join('---:' if n else '---' for n in numeric)} |")
        for row in first.astype(object).itertuples(index=False, name=None):
            lines.append(f"| {' | '.join(map(_in_cell, row))} |")
        if len(self.frame) > MOST_ROWS:
            lines += ["", f"The first {MOST_ROWS} of {len(self.frame)} rows."]
        return "\n".join(lines)


class Drawing(NamedTuple):
    """A picture, which Markdown leaves to the page of HTML."""

    image: Markup
    caption: str

    @classmethod
    def of(cls, axes: Axes, caption: str) -> Drawing:
        """Draw the figure of some axes, and close it."""
        import matplotlib.pyplot as plt

        figure: Any = axes.figure
        try:
            return cls(picture(figure, caption), caption)
        finally:
            plt.close(figure)

    def html(self) -> Markup:
        """Write HTML."""
        return join([self.image, tag("p", self.caption, class_="note")])

    def markdown(self) -> str:
        """Write Markdown."""
        return f"*Picture in the page of HTML: {inline(self.caption)}*"


def _in_cell(value: object) -> str:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return inline(number(value) if is_number else str(value)).replace("|", "\\|")  # type: ignore[arg-type]


def inline(text: str) -> str:
    r"""Return text in one line of Markdown, without markup.

    Examples
    --------
    >>> print(inline("a_b\n<b>"))
    a\_b \<b\>
    """
    found = " ".join(text.split())
    for mark in "\\`*_<>[]":
        found = found.replace(mark, f"\\{mark}")
    return found
