"""Numbers of the README and of the guides come from code that runs, or from a committed result that the page shows.

A number in prose has to stand, as exactly as it is written, in a block, a name or a formula of the page, in a table
that the page includes from `docs/_generated`, or in the claims of the benchmark that wrote it. What else there is has
its reason in `ELSEWHERE`; a pair there is of two numbers of the page whose difference it is. Read are decimal
fractions, and whole numbers with a unit.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
from helpers import ROOT

_spec = importlib.util.spec_from_file_location("words", ROOT / "docs" / "words.py")
words = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(words)

DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / "README.md", DOCS / "index.md", DOCS / "getting_started.md", DOCS / "scoreboard.md"),
    *sorted((DOCS / "guide").glob("*.md")),
]
NUMBER = re.compile(
    r"(?<![\w.,/^-])[-−]?(?:\d+\.\d+|\.\d+)(?![\w.]*\d)"
    r"|(?<![\w.,/^-])\d+(?= (?:%|ms|s|seconds?|minutes?|hours?|times|nats?|MB|GB|points?)\b|\s%)"
)
SHOWN = {"README.md": ("scoreboard",)}  # tables of another page that it quotes
VERSION, OPTION, EXACT = "version", "default of an option", "arithmetic"
STANDARD_ERROR = "standard error of a difference, of benchmarks/results/outcomes_cells.jsonl"
ELSEWHERE: dict[str, dict[str, str | tuple[str, str]]] = {
    "README.md": {"3.11": VERSION},
    "getting_started.md": {"3.11": VERSION},
    "cluster.md": {"1.6": VERSION},
    "coming_from.md": {"0.4": VERSION},
    "command_line.md": {"94": OPTION, "30": OPTION},
    "designs.md": {".44": "examples/repeated_measurements.py", ".25": "examples/repeated_measurements.py"},
    "kernels.md": {"6.1": "section of a paper", "320": EXACT},
    "outcomes.md": {
        ".012": (".1384", ".1267"),
        ".004": (".1565", ".1528"),
        ".002": (".1291", ".1267"),
        ".009": (".1384", ".1291"),
        ".0005": (".1570", ".1565"),
        ".003": ("5.4407", "5.4382"),
        ".007": (".7245", ".7176"),
        ".001": STANDARD_ERROR,
    },
    "posterior.md": {"94": OPTION, "3.12": VERSION},
    "robustness.md": {"1.9": VERSION, "2000": "benchmarks/fuzz.py"},
    "scaling.md": {"3.3": EXACT, "512": "bayesmkl.bemkl.inference.padding"},
    "survival.md": {"95": OPTION},
}


def numbers_in(text: str) -> set[float]:
    return {float(found) for found in re.findall(r"\d*\.\d+|\d+", text)}


def sources_of(page: Path) -> set[float]:
    """Return the numbers of blocks, names, formulas and included tables of a page."""
    text = page.read_text(encoding="utf-8")
    fences = [fence[0] for fence in words.FENCE.finditer(text)]
    inline = re.findall(r"`[^`\n]+`|\$[^$\n]+\$", words.FENCE.sub("", text))
    found = numbers_in("\n".join(fences + inline))
    names = [Path(name).stem for name in re.findall(r"{include} (\S+\.inc)$", text, re.MULTILINE)]
    for name in (*names, *SHOWN.get(page.name, ())):
        found |= numbers_in((DOCS / "_generated" / f"{name}.inc").read_text(encoding="utf-8"))
        results = ROOT / "benchmarks" / "results" / f"{name}.json"
        if results.exists():
            claims = json.loads(results.read_text(encoding="utf-8"))
            found |= numbers_in(json.dumps(claims.get("claims", "") if isinstance(claims, dict) else ""))
    return found


def is_in(number: str, sources: set[float]) -> bool:
    """Whether a number, or as many percent, is there once it is rounded as it is written."""
    value, unit = float(number.lstrip("-−")), 10.0 ** -len(number.partition(".")[2])
    return any(min(abs(one - value), abs(100.0 * one - value)) <= 0.5000001 * unit for one in sources)


def strays(page: Path) -> list[str]:
    """Return the numbers in prose that come from nowhere, with their lines."""
    prose = words.prose_of(page.read_text(encoding="utf-8"))
    sources, elsewhere = sources_of(page), ELSEWHERE.get(page.name, {})
    return [
        f"{page.relative_to(ROOT)}:{prose.count(chr(10), 0, found.start()) + 1}: {found[0]}"
        for found in NUMBER.finditer(prose)
        if found[0] not in elsewhere and not is_in(found[0], sources)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_numbers_in_prose_come_from_somewhere(page):
    assert not strays(page)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name in ELSEWHERE], ids=lambda page: page.name
)
def test_differences_are_those_of_two_numbers_of_the_page(page):
    sources = sources_of(page)
    for number, pair in ELSEWHERE[page.name].items():
        if isinstance(pair, tuple):
            assert all(is_in(one, sources) for one in pair), pair
            assert is_in(number, {abs(float(pair[0]) - float(pair[1]))}), number


def test_exceptions_are_needed_and_name_what_exists():
    for page in PAGES:
        prose = words.prose_of(page.read_text(encoding="utf-8"))
        written = {found[0] for found in NUMBER.finditer(prose)}
        for number, kind in ELSEWHERE.get(page.name, {}).items():
            assert number in written, f"{page.name}: {number} is not there any more"
            path = re.search(r"(examples|benchmarks)/[\w/]+\.\w+", str(kind))
            assert path is None or (ROOT / path[0]).exists(), kind
    assert {name for name in ELSEWHERE} <= {page.name for page in PAGES}


def test_scoreboard_of_the_readme_is_the_committed_one():
    """Every row of the README's table, number by number, against the row of the model in the results."""
    names = {
        "GPMKL, all defaults": "GPMKL, auto bank",
        "BEMKL, all defaults": "BEMKL, auto bank",
        "random forest": "random forest",
        "logistic regression": "logistic or ridge regression",
        "SimpleMKL, sigmoid": "SimpleMKL, sigmoid",
    }
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = (
        (DOCS / "_generated" / "scoreboard.inc").read_text(encoding="utf-8").partition("### Regression")[0]
    )
    for shown, name in names.items():
        (row,) = re.findall(rf"^\| {shown} \| (.*) \|$", readme, re.MULTILINE)
        (full,) = re.findall(rf"^\| {name} +\| +(.*)\|$", table, re.MULTILINE)
        cells = [cell.strip() for cell in full.split("|")]
        loss, rank, ece, accuracy, seconds = (float(cells[k]) for k in (0, 4, 7, 8, 11))
        printed = [float(cell.removesuffix(" %")) for cell in row.split(" | ")]
        assert printed == [round(loss, 3), rank, accuracy, ece, seconds], shown


def test_a_number_from_nowhere_is_seen(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        "An accuracy of .971, or 97 %, in 12 seconds.\n\n```text\n0.9712\n```\n", encoding="utf-8"
    )
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert strays(page) == ["page.md:1: 12"]
