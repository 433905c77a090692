"""HTML from Python values: text is escaped wherever it is not markup made here."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY_ELEMENTS = {"br", "img", "link", "meta"}
MISSING = "–"
OPEN_UP_TO = 100  # rows of a long table that are shown without a click


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Cell(NamedTuple):
    """Text of a table cell, and the number that it is sorted by (NaN: none, always last)."""

    shown: Any
    value: float | None = None
    kind: str = ""


class Column(NamedTuple):
    """Head of a column; `title` explains it to who points at it."""

    head: Any
    numeric: bool = True
    title: str = ""
    descending: bool = False  # the order of the first click


def text_of(child: object) -> str:
    """Return markup as it is and everything else escaped."""
    return child if isinstance(child, Markup) else escape(str(child))


def join(children: Iterable[Any]) -> Markup:
    """Put children one after another; all but markup is escaped."""
    return Markup("".join(text_of(child) for child in children))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element; ``class_`` and ``data_value`` stand for class and data-value, None leaves one out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in EMPTY_ELEMENTS else f"{join(children)}</{name}>"
    return Markup(f"<{name}{written}>{end}")


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


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Any]], label: str, identity: str | None = None
) -> Markup:
    """Return a table whose columns sort by a click on their heads; numbers by their full value.

    Parameters
    ----------
    columns : sequence of Column
        Heads. The first one names the row.
    rows : iterable of sequences
        One entry per column: a Cell, a number (NaN: missing), or text.
    label : str
        Description of the table, for screen readers.
    identity : str, default=None
        Its id in the page.
    """
    heads = [
        tag(
            "th",
            tag("button", column.head, type="button"),
            scope="col",
            class_="number" if column.numeric else None,
            title=column.title or None,
            data_first="descending" if column.descending else None,
        )
        for column in columns
    ]
    body = [
        tag(
            "tr",
            *(
                _cell(entry, column, position)
                for position, (entry, column) in enumerate(zip(row, columns, strict=True))
            ),
        )
        for row in rows
    ]
    inner = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), id=identity, class_="sortable")
    return tag("div", inner, class_="scroll", role="region", aria_label=label, tabindex=0)


def _cell(entry: Any, column: Column, position: int) -> Markup:
    if not isinstance(entry, Cell):
        is_number = column.numeric and isinstance(entry, (int, float, np.number))
        entry = Cell(number(entry), float(entry)) if is_number else Cell(entry)
    value = None
    if entry.value is not None:
        value = "" if math.isnan(entry.value) else repr(float(entry.value))
    kind = " ".join(filter(None, ["number" if column.numeric else "", entry.kind]))
    return tag(
        "th" if position == 0 else "td",
        entry.shown,
        scope="row" if position == 0 else None,
        data_value=value,
        class_=kind or None,
    )


def choices(identity: str, choosers: Mapping[str, tuple[str, Sequence[str]]], n_rows: int) -> Markup:
    """Return menus that show only some rows of the table `identity`.

    Parameters
    ----------
    identity : str
        Id of the table.
    choosers : mapping of str to (str, sequence of str)
        By the label of a menu: the columns it looks at, as text ("1 2": in either), and the entries to choose from.
    n_rows : int
        Rows of the table.
    """
    menus = []
    for label, (columns, entries) in choosers.items():
        options = [tag("option", "all", value=""), *(tag("option", entry, value=entry) for entry in entries)]
        menus.append(tag("label", f"{label} ", tag("select", *options, data_columns=columns)))
    shown = tag("output", f"{n_rows} of {n_rows} rows", aria_live="polite")
    return tag("div", *menus, shown, class_="filters", data_table=identity)


def folded(content: Markup, summary: str, n_rows: int) -> Markup:
    """Return content that opens by a click where it is long."""
    return tag("details", tag("summary", summary), content, open="" if n_rows <= OPEN_UP_TO else None)


def counted(size: int, what: str) -> str:
    """Write a number of things."""
    return f"{size} {what}" if size == 1 else f"{size} {what}s"


def plain(name: str) -> str:
    """Turn a name into one that an id may have."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def picture(figure: Figure, alternative: str) -> Markup:
    """Return a figure as an image inside the page; the same figure gives the same bytes."""
    drawn = io.BytesIO()
    # labels wider than their axes are cut off unless they are named
    labels = [axis.label for ax in figure.axes if ax.get_visible() for axis in (ax.xaxis, ax.yaxis)]
    artists = [*figure.get_default_bbox_extra_artists(), *labels]
    with mpl.rc_context({"svg.hashsalt": "bayesmkl", "svg.fonttype": "path"}):
        figure.savefig(
            drawn, format="svg", bbox_inches="tight", bbox_extra_artists=artists, metadata={"Date": None}
        )
    content = base64.b64encode(drawn.getvalue()).decode("ascii")
    image = tag("img", src=f"data:image/svg+xml;base64,{content}", alt=alternative)
    return tag("figure", image, class_="scroll", tabindex=0, role="region", aria_label=alternative)
