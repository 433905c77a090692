"""Lists of all discriminative methods for the pages, from their registry; `conf.py` writes them before a build."""

from __future__ import annotations

from pathlib import Path

import bayesmkl.discriminative
from bayesmkl.discriminative.method import PACKAGE, Method
from bayesmkl.discriminative.methods import METHODS

DOCS = Path(__file__).resolve().parent


def write_lists() -> None:
    """Write the files that `api/index.rst` and `algorithms/index.md` include."""
    for path, text in lists().items():
        target = DOCS / path
        if (
            not target.exists() or target.read_text(encoding="utf-8") != text
        ):  # what is the same is not read again
            target.write_text(text, encoding="utf-8")


def lists() -> dict[str, str]:
    """Return the text of every such file by its path."""
    return {
        "api/_methods.rst": api_list(),
        "algorithms/_global.md": overview("global"),
        "algorithms/_localized.md": overview("localized"),
        "algorithms/_pages.md": "\n".join(["```{toctree}", ":hidden:", "", *pages(), "```", ""]),
    }


def api_list() -> str:
    """Return the autosummary table of all public names: estimators in the order of the registry, then the others."""
    estimators = [name for method in METHODS for name in method.estimators]
    others = [name for name in bayesmkl.discriminative.__all__ if name not in estimators]
    names = "".join(f"   {name}\n" for name in estimators + others)
    return f".. currentmodule:: {PACKAGE}\n\n.. autosummary::\n   :toctree: generated\n\n{names}"


def overview(kind: str) -> str:
    """Return the table of the methods of a kind; methods of one page follow each other and name it once."""
    lines = ["| Page | Class | What it does | Convex | Cost of a fit |", "|---|---|---|---|---|"]
    page = ""
    for method in by_page(kind):
        link = "" if method.page == page else f"[]({method.page}.md)"
        lines.append(f"| {link} | {_roles(method)} | {method.does} | {method.convex} | {method.cost} |")
        page = method.page
    return "\n".join(lines) + "\n"


def by_page(kind: str) -> list[Method]:
    """Return the methods of a kind, those of one page together."""
    chosen = [method for method in METHODS if method.kind == kind]
    order = list(dict.fromkeys(method.page for method in chosen))
    return sorted(chosen, key=lambda method: order.index(method.page))


def pages() -> list[str]:
    """Return the pages of all methods."""
    return list(dict.fromkeys(method.page for kind in ("global", "localized") for method in by_page(kind)))


def _roles(method: Method) -> str:
    if method.estimators:
        return ", ".join(f"{{class}}`~{PACKAGE}.{name}`" for name in method.estimators)
    functions = [name for names in method.others.values() for name in names if name.islower()]
    return ", ".join(f"{{func}}`~{PACKAGE}.{name}`" for name in functions)
