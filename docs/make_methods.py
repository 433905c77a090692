"""List of the discriminative methods for the API reference; `conf.py` writes it before a build."""

from __future__ import annotations

from pathlib import Path

import bayesmkl.discriminative
from bayesmkl.discriminative.method import PACKAGE
from bayesmkl.discriminative.methods import METHODS

DOCS = Path(__file__).resolve().parent


def write_lists() -> None:
    """Write the file that `api/index.rst` includes."""
    for path, text in lists().items():
        target = DOCS / path
        if (
            not target.exists() or target.read_text(encoding="utf-8") != text
        ):  # what is the same is not read again
            target.write_text(text, encoding="utf-8")


def lists() -> dict[str, str]:
    """Return the text of every such file by its path."""
    return {"api/_methods.rst": api_list()}


def api_list() -> str:
    """Return the autosummary table of all public names: estimators in the order of the registry, then the others."""
    estimators = [name for method in METHODS for name in method.estimators]
    others = [name for name in bayesmkl.discriminative.__all__ if name not in estimators]
    names = "".join(f"   {name}\n" for name in estimators + others)
    return f".. currentmodule:: {PACKAGE}\n\n.. autosummary::\n   :toctree: generated\n\n{names}"
