"""Numbers of README, guides and algorithm pages come from code that runs, or from a committed result that is shown.

A number in prose has to stand, as exactly as it is written, in a block, a name or a formula of the page, in a table
that the page includes from `docs/_generated` or quotes, or in the claims of the benchmark that wrote it. What else
there is has its reason in `ELSEWHERE`: a constant of the code as `module:expression`, arithmetic after `=`, both of
which are evaluated; a pair of two numbers of the page whose difference it is; a test or a script. Read are decimal
fractions, and whole numbers with a unit; numbers of sections, algorithms and equations of papers are not.
"""

from __future__ import annotations

import importlib
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
    *sorted(path for path in (DOCS / "algorithms").glob("*.md") if not path.name.startswith("_")),
]
# Sections, algorithms and equations of papers and books: §4.1, section 5.3, algorithm 3.5, (3.65), (5.20 to 5.24).
PLACE = re.compile(
    r"§§? ?\d+(?:\.\d+)*(?:(?:, | to |–| and )\d+\.\d+)*"
    r"|\b[Ss]ections? \d+\.\d+(?:(?:, | to |–| and )\d+\.\d+)*"
    r"|\b[Aa]lgorithms? \d+\.\d+"
    r"|(?<=\()[1-9]\.\d\d?(?:(?:, | to |–)[1-9]\.\d\d?)*(?=\))"
    r"|(?<=\(algorithm 3\.1, )3\.32(?=\))"
)
NUMBER = re.compile(
    r"(?<![\w.,/^-])[-−]?(?:\d+\.\d+|\.\d+)(?![\w.]*\d)"
    r"|(?<![\w.,/^-])\d+(?= (?:%|ms|s|seconds?|minutes?|hours?|times|nats?|MB|GB|points?)\b|\s%)"
)
SHOWN = {  # tables of another page that it quotes; of the papers, by the command that repeats them
    "README.md": ("scoreboard",),
    "algorithms/ldmkl.md": ("localized_scale",),
    "algorithms/lmkl.md": ("localized_defaults",),
    "algorithms/obmkl.md": (
        "global_obmkl",
        *(f"reproduce obmkl-{t}" for t in ("table2", "table4", "figure1")),
    ),
    "algorithms/outcomes_bemkl.md": ("outcomes",),
    "algorithms/primalmkl.md": ("global_primal", "reproduce primalmkl-table1", "reproduce primalmkl-table2"),
}
VERSION, OPTION = "version", "default of an option"
STANDARD_ERROR = "standard error of a difference, of benchmarks/results/outcomes_cells.jsonl"
ELSEWHERE: dict[str, dict[str, str | tuple[str, str]]] = {
    "README.md": {"3.11": VERSION},
    "getting_started.md": {"3.11": VERSION},
    "cluster.md": {"1.6": VERSION},
    "coming_from.md": {"0.4": VERSION},
    "command_line.md": {"94": OPTION, "30": OPTION},
    "designs.md": {".44": "examples/repeated_measurements.py", ".25": "examples/repeated_measurements.py"},
    "kernels.md": {"320": "= 1000 * 200**2 * 8 / 1e6"},
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
    "scaling.md": {
        "3.3": "= 16 * 100_000 * 256 * 8 / 1e9",
    },
    "survival.md": {"95": OPTION},
    "algorithms/alignment.md": {
        ".53": "= 1.0 / 1.9",
        "64": "bayesmkl.kernels.alignment:CHUNK_BYTES / 2**20",
    },
    "algorithms/bemkl.md": {
        "64": "bayesmkl.bemkl.inference.newton:LEAST_ENTRIES * 8 / 2**20",
        "1.03": "bayesmkl.posterior.refine:LARGEST_RHAT",
        ".1": "bayesmkl.bemkl.estimators.scale_choice:SCALES[0]",
        ".3": "bayesmkl.bemkl.estimators.scale_choice:SCALES[1]",
    },
    "algorithms/gpmkl.md": {"128": "bayesmkl.marginal.estimators.completion:BLOCK_ENTRIES * 8 / 2**20"},
    "algorithms/index.md": {"512": "bayesmkl._utils.options:Marginal().n_points"},
    "algorithms/likelihoods.md": {
        "65": "bayesmkl.marginal.likelihoods.base:N_NODES",
        "8.5": "bayesmkl.marginal.likelihoods.base:REACH",
        "6.7": "= 10 * 0.67448975",
    },
    "algorithms/missing_views.md": {"0.05": "bayesmkl.bemkl.inference.missing_views:SETTLED"},
    "algorithms/multinomial.md": {"0.15": "tests/bemkl/test_multinomial_numpyro.py"},
    "algorithms/multitask.md": {
        "0.12": "= (0.3 / (1 + 5 * 8 / 2)) ** 0.5",
        "0.22": "= (1 / (1 + 5 * 8 / 2)) ** 0.5",
        "0.69": "= (10 / (1 + 5 * 8 / 2)) ** 0.5",
    },
    "algorithms/outcomes_bemkl.md": {".002": (".1291", ".1267"), ".004": (".1570", ".1528")},
    "algorithms/swmkl.md": {
        "0.7": "= 0.5**0.5",
        "0.3": "bayesmkl.discriminative.localized.swmkl:SOFT",
        "0.05": "bayesmkl.discriminative.localized.swmkl:SHARP",
    },
}


def name_of(page: Path) -> str:
    """Return the name of a page, with that of its folder where another page has the same."""
    return f"algorithms/{page.name}" if page.parent.name == "algorithms" else page.name


def numbers_in(text: str) -> set[float]:
    return {float(found) for found in re.findall(r"\d*\.\d+|\d+", text)}


def prose_without_places(page: Path) -> str:
    """Return the prose of a page, line by line, with numbers of sections and equations blanked."""
    prose = words.prose_of(page.read_text(encoding="utf-8"))
    return PLACE.sub(lambda found: " " * len(found[0]), prose)


def sources_of(page: Path) -> set[float]:
    """Return the numbers of blocks, names, formulas and included tables of a page."""
    text = page.read_text(encoding="utf-8")
    fences = [fence[0] for fence in words.FENCE.finditer(text)]
    inline = re.findall(r"`[^`\n]+`|\$[^$\n]+\$", words.FENCE.sub("", text))
    found = numbers_in("\n".join(fences + inline))
    names = [Path(name).stem for name in re.findall(r"{include} (\S+\.inc)$", text, re.MULTILINE)]
    for name in (*names, *SHOWN.get(name_of(page), ())):
        found |= numbers_in(table_of(name))
        results = ROOT / "benchmarks" / "results" / f"{name}.json"
        if results.exists():
            claims = json.loads(results.read_text(encoding="utf-8"))
            found |= numbers_in(json.dumps(claims.get("claims", "") if isinstance(claims, dict) else ""))
    return found


def table_of(name: str) -> str:
    """Return what a benchmark wrote, or what the page of the papers has of one of their tables."""
    table = name.removeprefix("reproduce ")
    if name == table:
        return (DOCS / "_generated" / f"{name}.inc").read_text(encoding="utf-8")
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    (start,) = re.finditer(rf"^`{table}`: ", page, re.MULTILINE)
    following = re.compile(r"^(`[a-z]+-[a-z]+\w+`: |## )", re.MULTILINE).search(page, start.end())
    return page[start.end() : following.start() if following else None]


def is_in(number: str, sources: set[float]) -> bool:
    """Whether a number, or as many percent, is there once it is rounded as it is written."""
    value, unit = float(number.lstrip("-−")), 10.0 ** -len(number.partition(".")[2])
    return any(min(abs(one - value), abs(100.0 * one - value)) <= 0.5000001 * unit for one in sources)


def strays(page: Path) -> list[str]:
    """Return the numbers in prose that come from nowhere, with their lines."""
    prose = prose_without_places(page)
    sources, elsewhere = sources_of(page), ELSEWHERE.get(name_of(page), {})
    return [
        f"{page.relative_to(ROOT)}:{prose.count(chr(10), 0, found.start()) + 1}: {found[0]}"
        for found in NUMBER.finditer(prose)
        if found[0] not in elsewhere and not is_in(found[0], sources)
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_numbers_in_prose_come_from_somewhere(page):
    assert not strays(page)


@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) in ELSEWHERE], ids=name_of)
def test_differences_are_those_of_two_numbers_of_the_page(page):
    sources = sources_of(page)
    for number, pair in ELSEWHERE[name_of(page)].items():
        if isinstance(pair, tuple):
            assert all(is_in(one, sources) for one in pair), pair
            assert is_in(number, {abs(float(pair[0]) - float(pair[1]))}), number


@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) in ELSEWHERE], ids=name_of)
def test_numbers_of_the_code_and_of_arithmetic_are_these(page):
    for number, kind in ELSEWHERE[name_of(page)].items():
        if isinstance(kind, str) and (found := re.match(r"(bayesmkl[\w.]+):|= ", kind)):
            names = {} if found[1] is None else vars(importlib.import_module(found[1]))
            value = eval(kind[found.end() :], dict(names))
            assert is_in(number, {float(value)}), f"{number} is {value}: {kind}"


def test_exceptions_are_needed_and_name_what_exists():
    for page in PAGES:
        prose = prose_without_places(page)
        written = {found[0] for found in NUMBER.finditer(prose)}
        for number, kind in ELSEWHERE.get(name_of(page), {}).items():
            assert number in written, f"{page.name}: {number} is not there any more"
            path = re.search(r"(examples|benchmarks|tests)/[\w/]+\.\w+", str(kind))
            assert path is None or (ROOT / path[0]).exists(), kind
    assert {name for name in ELSEWHERE} <= {name_of(page) for page in PAGES}


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
