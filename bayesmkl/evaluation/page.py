"""Blocks of a report, and the page of HTML or the Markdown that they make.

A block is a text, which is a paragraph; a list of texts, or a dict of names and values; or one of the classes below.
All text is escaped, since names, messages and configurations come from data. Style and pictures are inside the
page, whose own security policy forbids everything else.
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd

from bayesmkl import __version__
from bayesmkl._utils.files import as_path, written_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = "–"
MOST_ROWS = 100  # of a table of Markdown
SHORT = 12  # rows of a table that cannot be folded
NUMBER = re.compile(r"[+-]?\d[\d.]*(e[+-]\d+)?( %| ±.*| \(.*| to .*|\?)?")  # as tables show them


class Heading(NamedTuple):
    """The name of a piece."""

    text: str


class Printed(NamedTuple):
    """Lines that are aligned already."""

    lines: Sequence[str]


class Rows(NamedTuple):
    """A table; a long one is folded in HTML.

    Parameters
    ----------
    frame : DataFrame
        The first column names the row.
    label : str
        What it is a table of, and with hyphens its id in the page.
    """

    frame: pd.DataFrame
    label: str


class Drawing(NamedTuple):
    """A picture as SVG, which Markdown leaves to the page of HTML."""

    image: bytes
    caption: str

    @classmethod
    def of(cls, axes: Axes, caption: str) -> Drawing:
        """Draw the figure of some axes, and close it; the same figure gives the same bytes."""
        import matplotlib.pyplot as plt

        figure: Any = axes.figure
        drawn = io.BytesIO()
        # labels wider than their axes are cut off unless they are named
        labels = [axis.label for ax in figure.axes if ax.get_visible() for axis in (ax.xaxis, ax.yaxis)]
        artists = [*figure.get_default_bbox_extra_artists(), *labels]
        try:
            with mpl.rc_context({"svg.hashsalt": "bayesmkl", "svg.fonttype": "path"}):
                figure.savefig(
                    drawn,
                    format="svg",
                    bbox_inches="tight",
                    bbox_extra_artists=artists,
                    metadata={"Date": None},
                )
        finally:
            plt.close(figure)
        return cls(drawn.getvalue(), caption)


Block = str | list[str] | dict[str, Any] | Heading | Printed | Rows | Drawing


def number(value: float | np.number, digits: int = 3) -> str:
    """Write a number for reading: integers whole, others with `digits` decimals, fewer from ten on."""
    if isinstance(value, int | np.integer):
        return str(value)
    value = float(value)
    if not math.isfinite(value):
        return MISSING if math.isnan(value) else str(value)
    if value == 0.0:
        return "0"
    size = abs(value)
    if size >= 1e5 or size < 0.5 * 10**-digits:
        return f"{value:.2e}"
    return f"{value:.{max(digits - max(math.floor(math.log10(size)), 0), 0)}f}"


def plain(name: str) -> str:
    """Turn a name into one that an id may have."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def worded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with heads in words."""
    return frame.rename(columns=lambda name: str(name).removeprefix("n_").replace("_", " "))


def shown(value: object) -> str:
    """Return a value as text; what is no text or number as JSON."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return number(value)
    if value is None:
        return MISSING
    return str(value) if isinstance(value, str | bool) else json.dumps(value, ensure_ascii=False, default=str)


def _items(block: list[str] | dict[str, Any]) -> list[str]:
    """Return the texts of a list, or of the pairs that have a value."""
    if isinstance(block, list):
        return block
    known = {name.replace("_", " "): value for name, value in block.items() if value is not None}
    return [f"{name}: {shown(value)}" for name, value in known.items()]


# ------------------------------------------------------------------------------------------------------------ HTML


def html(block: Block) -> str:
    """Write a block as HTML."""
    match block:
        case Heading(text):
            return f"<h3>{escape(text)}</h3>"
        case Printed(lines):
            return f'<pre class="printed" tabindex="0">{escape(chr(10).join(lines))}</pre>'
        case Drawing(image, caption):
            source, said = base64.b64encode(image).decode("ascii"), escape(caption)
            figure = f'<img src="data:image/svg+xml;base64,{source}" alt="{said}">'
            attributes = f'class="scroll" tabindex="0" role="region" aria-label="{said}"'
            return f'<figure {attributes}>{figure}</figure><p class="note">{said}</p>'
        case Rows(frame, label):
            return _table(frame, label)
        case dict() | list():
            return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in _items(block))}</ul>"
        case _:
            return f"<p>{escape(block)}</p>"


def _table(frame: pd.DataFrame, label: str) -> str:
    """Write a table, its numbers to the right."""
    columns, heads = [], []
    for k, (name, column) in enumerate(frame.items()):
        cells = [shown(value) for value in column.tolist()]
        numeric = k > 0 and any(NUMBER.fullmatch(text) for text in cells)
        kind = ' class="number"' if numeric else ""
        heads.append(f'<th scope="col"{kind}>{escape(str(name))}</th>')
        tag = "td" if k else "th"
        start = f"<{tag}{kind}>" if k else '<th scope="row">'
        columns.append([f"{start}{escape(text)}</{tag}>" for text in cells])
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    made = (
        f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">'
        f'<table id="{plain(label)}"><thead><tr>{"".join(heads)}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )
    if len(frame) <= SHORT:
        return made
    return f"<details><summary>{escape(label)}: {len(frame)} rows</summary>{made}</details>"


def page(title: str, facts: str, parts: Mapping[str, Sequence[Block]]) -> str:
    """Return a page of HTML.

    Parameters
    ----------
    title, facts : str
        Head, and a line below it.
    parts : mapping of str to sequence of Block
        Sections by their names; the first word of each is its anchor.
    """
    anchors = {name: plain(name.split()[0].lower()) for name in parts}
    links = "".join(f'<li><a href="#{anchors[name]}">{escape(name)}</a></li>' for name in parts)
    sections = "".join(
        f'<section id="{anchors[name]}"><h2>{escape(name)}</h2>{"".join(map(html, blocks))}</section>'
        for name, blocks in parts.items()
    )
    style = (files(__package__) / "page.css").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="bayesmkl {__version__}">
<title>{escape(title)}</title><style>{style}</style></head>
<body><main><h1>{escape(title)}</h1><p class="facts">{escape(facts)}</p>
<nav aria-label="parts"><ul>{links}</ul></nav>
{sections}</main></body></html>
"""


# -------------------------------------------------------------------------------------------------------- Markdown


def markdown(block: Block) -> str:
    """Write a block as Markdown; of tables the first hundred rows."""
    match block:
        case Heading(text):
            return f"### {inline(text)}"
        case Printed(lines):
            fence = "```"
            while any(fence in line for line in lines):
                fence += "`"
            return "\n".join([f"{fence}text", *lines, fence])
        case Drawing(_, caption):
            return f"*Picture in the page of HTML: {inline(caption)}*"
        case Rows(frame):
            return _markdown_table(frame)
        case dict() | list():
            return "\n".join(f"- {inline(text)}" for text in _items(block))
        case _:
            return inline(block)


def _markdown_table(frame: pd.DataFrame) -> str:
    first = frame.head(MOST_ROWS)
    numeric = [pd.api.types.is_numeric_dtype(first[name]) for name in first.columns]
    rows = [list(first.columns), *first.astype(object).to_numpy().tolist()]
    lines = [f"| {' | '.join(inline(shown(v)).replace('|', chr(92) + '|') for v in row)} |" for row in rows]
    lines.insert(1, f"| {' | '.join('---:' if n else '---' for n in numeric)} |")
    if len(frame) > MOST_ROWS:
        lines += ["", f"The first {MOST_ROWS} of {len(frame)} rows."]
    return "\n".join(lines)


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


class ModelReport:
    """Result of :func:`report_model`: printed, it is Markdown; it writes itself as one page of HTML.

    Parameters
    ----------
    title : str
        Head of the page.
    facts : str
        One line that says what was fitted to what.
    parts : dict of str to list of Block
        Sections by their names: texts are paragraphs, lists of texts lists, dicts names and values.

    Examples
    --------
    >>> from bayesmkl.evaluation import ModelReport
    >>> print(ModelReport("Cells", "40 samples", {"Summary": ["All is well."]}))
    # Cells
    <BLANKLINE>
    40 samples
    <BLANKLINE>
    ## Summary
    <BLANKLINE>
    All is well.
    """

    def __init__(self, title: str, facts: str, parts: Mapping[str, Sequence[Block]]) -> None:
        self.title = title
        self.facts = facts
        self.parts = parts

    def __str__(self) -> str:
        pieces = [f"# {inline(self.title)}", inline(self.facts)]
        for name, blocks in self.parts.items():
            pieces += [f"## {name}", *map(markdown, blocks)]
        return "\n\n".join(pieces)

    def __repr__(self) -> str:
        return f"ModelReport({self.title!r}, parts={list(self.parts)})"

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one page that needs no other file.

        Parameters
        ----------
        path : path-like
            Where to; a page that is there is replaced, at once and only when the new one is complete.

        Returns
        -------
        pathlib.Path
            `path`.

        Raises
        ------
        TypeError
            If `path` is no path.
        ValueError
            If nothing can be written there.
        """
        return self._write(path, page(self.title, self.facts, self.parts))

    def write_markdown(self, path: str | os.PathLike[str]) -> Path:
        """Write Markdown, without pictures.

        Parameters
        ----------
        path : path-like
            Where to; a file that is there is replaced, as by `write_html`.

        Returns
        -------
        pathlib.Path
            `path`.

        Raises
        ------
        TypeError
            If `path` is no path.
        ValueError
            If nothing can be written there.
        """
        return self._write(path, f"{self}\n")

    def _write(self, path: str | os.PathLike[str], text: str) -> Path:
        path = as_path("path", path)
        with written_beside(path) as beside:
            beside.write_text(text, encoding="utf-8")
        return path
