"""The tables of the five papers, each described once: data, models, protocol and published numbers."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from bayesmkl.reproduction.tables import PaperTable

__all__ = ["PAPERS", "paper_tables"]

PAPERS = ("bemkl", "samkl", "localized", "obmkl", "primalmkl", "lapmkl")


def paper_tables(papers: Iterable[str] = PAPERS) -> Mapping[str, PaperTable]:
    """Return the tables of papers by name, in their order."""
    tables: dict[str, PaperTable] = {}
    for paper in papers:
        tables |= importlib.import_module(f"{__name__}.{paper}").TABLES
    return tables
