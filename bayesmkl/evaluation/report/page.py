"""A page of HTML with everything inside: style, the script that sorts and filters tables, parts with links."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from bayesmkl import __version__
from bayesmkl.evaluation.report.markup import Markup, plain, tag


def page(title: str, facts: Markup, parts: Mapping[str, Markup]) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
    facts : Markup
        Stands between the title and the links to the parts.
    parts : mapping of str to Markup
        Sections by their names; the first word of each is its anchor.
    """
    anchors = {name: plain(name.split()[0].lower()) for name in parts}
    links = tag("ul", *(tag("li", tag("a", name, href=f"#{anchors[name]}")) for name in parts))
    sections = [tag("section", tag("h2", name), part, id=anchors[name]) for name, part in parts.items()]
    script = tag("script", Markup(_resource("page.js")))
    body = tag("body", tag("h1", title), facts, tag("nav", links, aria_label="parts"), *sections, script)
    return f"<!doctype html>\n{tag('html', _head(title), body, lang='en')}\n"


def pairs(facts: Mapping[str, Any]) -> Markup:
    """Return a table of names and values; None is left out."""
    rows = [
        tag("tr", tag("th", name.replace("_", " "), scope="row"), tag("td", text_of_value(value)))
        for name, value in facts.items()
        if value is not None
    ]
    return tag("div", tag("table", tag("tbody", *rows), class_="pairs"), class_="scroll")


def text_of_value(value: object, indent: int | None = None) -> Any:
    """Write what is no text or number as JSON."""
    if isinstance(value, str | int | float):
        return value
    return json.dumps(value, indent=indent, ensure_ascii=False, default=str)


def _head(title: str) -> Markup:
    digest = base64.b64encode(hashlib.sha256(_resource("page.js").encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"bayesmkl {__version__}"),
        tag("title", title),
        tag("style", Markup(_resource("page.css"))),
    )


def _resource(name: str) -> str:
    return (files("bayesmkl.evaluation.report") / name).read_text(encoding="utf-8")
