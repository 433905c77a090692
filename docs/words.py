"""Word list of the documentation: private terms, and the words of the field that take their place.

python docs/words.py prints every private term with its place, and the median length of a sentence; it fails where
there is one. Read are the README, the pages, notebooks and gallery, and the docstrings, help and messages of the
package but for its inside, which users do not see. Not read are code, formulas, references and measured tables.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = {"_build", "_generated", "api", "gallery", "notebooks"}  # below docs, by programs
INSIDE = [
    "_numerics",
    "_utils",
    "bemkl/inference",
    "bemkl/models",
    "bemkl/reading",
    "discriminative/svm",
    "kernels/stacks",
]
WRITTEN_PAGES: set[str] = set()  # their templates are read

# pattern: what to write instead
TERMS = {
    r"(?<!vector )(?<!virtual )(?<!kernel )machines?\b(?!\s+learning|\s+precision)": "SVM; computer",
    r"prices?": "penalty, regularization parameter C, cost",
    r"the closed form|closed form (?:only|alone)": "variational posterior, VB",
    r"at some times|some (?:tens?|dozens?|hundreds?|thousands?)": "several times, about ten, a few hundred",
    r"honest\w*": "calibrated, valid",
    r"nothing to tell": "no difference",
    r"everybody": "all subjects",
    r"(?<!: )laws?(?! of succession| : )": "distribution",
    r"(?:most of the|missing|than their) spread": "standard deviation",
    r"rooms|(?:their|its|this) room": "subpackage",
    r"(?:plain|more|three|all|most|of|every|after) sweeps?|sweeps? (?:over all|of coordinate)": "iteration",
    r"transposed products?": "adjoint",
    r"level with": "no better and no worse than",
}
PATTERNS = {re.compile(rf"\b(?:{term})\b", re.IGNORECASE): instead for term, instead in TERMS.items()}

FENCE = re.compile(r"^(`{3,}|:{3,})[^\n]*\n.*?^\1 *$", re.MULTILINE | re.DOTALL)
NOT_PROSE = [
    FENCE,
    re.compile(r"^---\n.*?^---\n", re.MULTILINE | re.DOTALL),  # head of a notebook
    re.compile(
        r"^ *\.\. \[\d+\].*?(?=\n\s*\n|\Z|\n *\.\. \[)", re.MULTILINE | re.DOTALL
    ),  # references of docstrings
    re.compile(r"\$\$.*?\$\$|\$[^$\n]*(?:\n[^$\n]+)?\$", re.DOTALL),
    re.compile(r":math:`[^`]*`"),
    re.compile(r"``.*?``|`[^`]*`", re.DOTALL),
    re.compile(r"^ *(?:>>>|\.\.\.) .*$", re.MULTILINE),
    re.compile(r"^\(.*\)=$", re.MULTILINE),
    re.compile(r"(?<=\])\([^)\s]*\)"),
    re.compile(r"^ *(?:\*|-) .*\(\d{4}[a-z]?\)[.,].*(?:\n {2,}.*)*", re.MULTILINE),  # references of pages
]


class Text(NamedTuple):
    """Prose of a file, and the line where it begins."""

    path: Path
    line: int
    prose: str


def prose_of(text: str) -> str:
    """Blank code, formulas and references, line by line."""
    for pattern in NOT_PROSE:
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def pages() -> list[Path]:
    """Return the README, the changes, the pages and the notebooks."""
    docs = [
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not WRITTEN & set(path.relative_to(ROOT / "docs").parts) and path.name not in WRITTEN_PAGES
    ]
    templates = [ROOT / "docs" / "_templates" / name for name in sorted(WRITTEN_PAGES)]
    changes = [ROOT / "CHANGELOG.md", *sorted((ROOT / "changelog.d").glob("*.md"))]
    return [ROOT / "README.md", *changes, *docs, *templates, *sorted((ROOT / "notebooks").glob("*.md"))]


def texts_of_module(path: Path) -> Iterator[Text]:
    """Yield docstrings and other strings of three words and more."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 2:
            yield Text(path, node.lineno, prose_of(node.value))


def texts() -> Iterator[Text]:
    """Yield everything that users read."""
    for path in pages():
        yield Text(path, 1, prose_of(path.read_text(encoding="utf-8")))
    for folder in (ROOT / "bayesmkl", ROOT / "examples"):
        for path in sorted(folder.rglob("*.py")):
            if not any(path.is_relative_to(folder / inside) for inside in INSIDE):
                yield from texts_of_module(path)


def findings(text: Text) -> list[str]:
    """Return every private term of a text, with its place and what to write instead."""
    found = []
    for pattern, instead in PATTERNS.items():
        for match in pattern.finditer(re.sub(r"\n", " ", text.prose)):
            line = text.line + text.prose.count("\n", 0, match.start())
            found.append(f"{text.path.relative_to(ROOT)}:{line}: {match[0]!r}; write: {instead}")
    return found


def sentence_lengths(prose: str) -> list[int]:
    """Count the words of every sentence; tables, headings and lists' marks are none."""
    kept = re.sub(r"^(?:\||#|:|\+).*$", "\n", prose, flags=re.MULTILINE)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*[*-] )", kept)
    sentences = [one for paragraph in paragraphs for one in re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)]
    whole = (sentence for sentence in sentences if re.search(r"[.!?:]\s*$", sentence))
    counts = (len(re.findall(r"\w[\w'’.,-]*", sentence)) for sentence in whole)
    return [count for count in counts if count > 2]


def median_sentence() -> float:
    """Return the median number of words in a sentence of the pages."""
    return statistics.median(
        length for path in pages() for length in sentence_lengths(prose_of(path.read_text(encoding="utf-8")))
    )


if __name__ == "__main__":
    found = [line for text in texts() for line in findings(text)]
    print(
        *found, f"{len(found)} private terms; the median sentence has {median_sentence():.0f} words", sep="\n"
    )
    sys.exit(bool(found))
