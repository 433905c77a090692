"""The pages on errata, coverage and architecture name what exists, and say only what the published numbers say."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

import bayesmkl
from bayesmkl import bemkl, discriminative, kernels
from bayesmkl.discriminative.methods import METHODS
from bayesmkl.reproduction import localized, obmkl_rows, primalmkl, samkl

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = Path(bayesmkl.__file__).parent  # which need not be below ROOT
PAGES = ("errata.md", "coverage.md", "architecture.md")
FENCE = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
SUFFIXES = (".py", ".md", ".rst", ".toml", ".png", "/")
OTHERS = {"DataFrame", "DataTree", "NamedTuple", "None"}  # names of others
STATUSES = {
    "done": "",
    "no data": "the data cannot be had: ",
    "no method": "the source gives no method: ",
}  # and how remarks begin


class Row(NamedTuple):
    """A line of a table of the coverage page."""

    item: str
    status: str
    where: str
    remark: str


@cache
def text_of(page):
    return FENCE.sub("", (DOCS / page).read_text(encoding="utf-8"))


@cache
def source_of(path):
    return path.read_text(encoding="utf-8")


def quoted(page):
    """Return what stands in backticks, outside blocks of code."""
    return re.findall(r"`([^`]+)`", text_of(page))


def resolved(name):
    """Return the object of a dotted name; raise where there is none."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"there is no module in {name}")


@cache
def classes():
    """Return the names of all classes of the package, public or not."""
    return {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"^class (\w+)", source_of(path), re.MULTILINE)
    }


@cache
def contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c.get("containers") == ["bayesmkl"])
    return layers


def rows_of_coverage():
    lines = re.findall(r"^\|(.*)\|$", text_of("coverage.md"), re.MULTILINE)
    rows = [Row(*(cell.strip() for cell in line.split("|"))) for line in lines]
    return [row for row in rows if row.item != "Item" and set(row.item) != {"-"}]


def module_of(package, name):
    return any(package.rglob(f"{name}.py")) or (package / name / "__init__.py").exists()


# ------------------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize("page", PAGES)
def test_dotted_names_exist(page):
    names = [
        re.sub(r"^~|\(.*", "", q) for q in quoted(page) if re.fullmatch(r"~?bayesmkl(\.\w+)+(\(.*\))?", q)
    ]
    assert len(names) >= 5
    for name in names:
        resolved(name)


@pytest.mark.parametrize("page", PAGES)
def test_classes_and_their_parameters_exist(page):
    pattern = re.compile(r"([A-Z]\w*[a-z]\w*)(?:\((\w+)=.*\))?")
    found = [match for match in map(pattern.fullmatch, quoted(page)) if match]
    assert found or page == "errata.md"
    for name, parameter in (match.groups() for match in found):
        assert name in classes() | OTHERS or name.endswith("Warning"), name
        if parameter:
            owner = next(module for module in (bemkl, discriminative, kernels) if hasattr(module, name))
            assert parameter in inspect.signature(getattr(owner, name)).parameters, f"{name}({parameter}=)"


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page):
    paths = [q for q in quoted(page) if "/" in q and " " not in q and q.endswith(SUFFIXES)]
    assert paths or page == "errata.md"
    for path in paths:
        assert ((PACKAGE.parent if path.startswith("bayesmkl/") else ROOT) / path).exists(), path


@pytest.mark.parametrize("page", PAGES)
def test_tests_exist(page):
    for name in (q for q in quoted(page) if "::" in q):
        path, _, test = name.partition("::")
        assert re.search(rf"^def {test}\(", source_of(ROOT / path), re.MULTILINE), name


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page):
    tables = re.findall(
        r"^<!-- table (\S+) -->$", source_of(DOCS / "_templates" / "reproduction.md"), re.MULTILINE
    )
    for name in re.findall(r"bayesmkl reproduce ([a-z][\w-]*)", text_of(page)):
        assert name in tables, name
    for script, sections in re.findall(
        r"`(benchmarks/\w+\.py)`((?:,| and|\s|`--section \w+`)*)", text_of(page)
    ):
        for section in re.findall(r"--section (\w+)", sections):
            assert f"--section {section} " in source_of(ROOT / script), f"{script} {section}"


@pytest.mark.parametrize("page", PAGES)
def test_links_have_an_end(page):
    for path, anchor in re.findall(r"\]\(([\w/.-]+)(?:#([^)]+))?\)", text_of(page)):
        target = DOCS / path
        assert target.exists(), path
        headings = re.findall(r"^#+ (.+)$", source_of(target), re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in slugs, f"{path}#{anchor}"


# ------------------------------------------------------------------------------------------------------ coverage


def test_rows_have_a_status_and_say_where_or_why():
    rows = rows_of_coverage()
    assert len(rows) > 100
    for row in rows:
        assert row.status in STATUSES, row
        assert row.where, row
        assert row.remark or row.status == "done", row
        assert row.remark.startswith(STATUSES[row.status]), row


def test_done_is_shown_by_a_command_a_test_or_a_class():
    for row in rows_of_coverage():
        if row.status == "done":
            assert re.search(r"::test_|bayesmkl|benchmarks/|[a-z]=|[A-Z]\w+[a-z]|\w\.py|\w_\w", row.where), (
                row
            )


def test_every_table_that_can_be_repeated_is_listed():
    tables = re.findall(
        r"^<!-- table (\S+) -->$", source_of(DOCS / "_templates" / "reproduction.md"), re.MULTILINE
    )
    assert set(tables) == set(re.findall(r"bayesmkl reproduce ([\w-]+)", text_of("coverage.md")))


# -------------------------------------------------------------------------------------------------- architecture


def test_every_layer_is_described_and_drawn():
    layers = contract()
    packages = [name for layer in layers for name in layer.split(" | ")]
    described = re.findall(r"^\*\*`bayesmkl\.(\w+)`\*\*", text_of("architecture.md"), re.MULTILINE)
    assert sorted(described) == sorted(packages)
    drawing = source_of(DOCS / "pictures" / "architecture.py")
    drawn = re.findall(r'"([^"]+)"', drawing.partition("LAYERS = (")[2].partition(")")[0])
    assert drawn == layers[::-1]
    for name in packages:
        assert len(re.findall(rf'"{name}(?:\.\w+)?"', drawing)) >= 1 + (" | " not in drawing), name


def test_modules_of_layers_exist():
    paragraphs = re.findall(
        r"^\*\*`bayesmkl\.(\w+)`\*\*(.*?)(?=^\*\*|^## )", text_of("architecture.md"), re.MULTILINE | re.DOTALL
    )
    n_modules = 0
    for layer, paragraph in paragraphs:
        package = PACKAGE / layer
        for name in re.findall(r"`([a-z_]\w*)`", paragraph):
            if module_of(package, name):
                n_modules += 1
            else:
                assert hasattr(importlib.import_module(f"bayesmkl.{layer}"), name), f"{layer}: {name}"
    assert n_modules > 90


def test_every_discriminative_method_is_registered():
    folder = PACKAGE / "discriminative"
    algorithms = {
        path.stem
        for room in ("global_weights", "primal", "localized")
        for path in (folder / room).glob("*.py")
    }
    estimators = {path.stem for path in (folder / "estimators").glob("*.py")}
    named = {method.algorithm.rpartition(".")[2] for method in METHODS if method.estimators}
    assert (algorithms & estimators) - {"__init__", "success"} == named


def test_contracts_are_those_of_the_stacks():
    """The table names every contract and what it adds to those that it is made of."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .*\|$", text_of("architecture.md"), re.MULTILINE))
    base = importlib.import_module("bayesmkl.kernels.stacks.base")
    contracts = {
        name: one for name, one in vars(base).items() if isinstance(one, type) and Protocol in one.__bases__
    }
    assert len(contracts) == 6
    for name, contract in contracts.items():
        own = {member for member in vars(contract) if not member.startswith("_")}
        assert own == set(re.findall(r"`(\w+)`", rows[name])) - set(contracts), name


# ------------------------------------------------------- published numbers that errata hold against the text


def test_swmkl_is_not_the_fastest_on_one_of_the_small_sets():
    seconds = {name: localized.SECONDS[name] for name in ("breast", "diabetes", "german", "liver")}
    fastest = {name: localized.LOCALIZED[row.index(min(row))] for name, row in seconds.items()}
    assert fastest == {"breast": "LD-MKL", "diabetes": "SwMKL", "german": "SwMKL", "liver": "SwMKL"}


def test_a_localized_method_has_more_support_points_than_all_global_ones():
    german = dict(zip(localized.ALL, localized.SUPPORT["german"], strict=True))
    assert german["C-LMKL"][0] > max(german[name][0] for name in ("MWUMKL", "Uniform", "GMKL"))


def test_abmkl_convex_has_fewer_active_kernels_than_obmkl_qp():
    *_, (qp, _) = obmkl_rows.TABLE_4["OBMKL(qp)"]
    *_, (convex, _) = obmkl_rows.TABLE_4["ABMKL(convex)"]
    *_, (uniform, _) = obmkl_rows.TABLE_4["RBMKL"]
    assert (qp, convex, uniform) == (2.3, 1.7, 21.0)


def test_gmkl_selects_more_kernels_on_liver_than_five_features_make():
    row = dict(zip(primalmkl.METHODS_2, primalmkl.PUBLISHED_2["liver"], strict=True))
    assert row["GMKL"][2] == 6.0


def test_widths_repeat_and_improvements_are_rounded():
    assert len(primalmkl.WIDTHS) == 31
    gains = [round(row[0][0] - row[1][0], 1) for _, row in samkl.SUBCELLULAR.values()]
    assert gains == [2.9, 2.6, 1.5]  # printed: 3.0, 2.5 and 1.5


LIMITS = re.compile(
    r"^##+ (?:.*[Ll]imits|.*when not|What does not compare|What has no program|When a worker dies)$",
    re.MULTILINE,
)
REFERENCE = {"coming_from", "command_line", "compare_command", "files", "index", "reproducing", "robustness"}
ABOUT_LIMITS = {"trust"}  # from its first line on


@pytest.mark.parametrize(
    "page",
    [page for page in sorted((DOCS / "guide").glob("*.md")) if page.stem not in REFERENCE],
    ids=lambda page: page.stem,
)
def test_guides_say_what_one_gets_show_code_and_name_limits(page):
    text = page.read_text(encoding="utf-8")
    before = text.partition("\n## ")[0].partition("```")[0]
    assert len(before.split()) > 20, "what does one get?"
    (first, *_) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert text[: text.index(first)].count("\n") < 50, "the first lines that run come late"
    assert page.stem in ABOUT_LIMITS or LIMITS.search(text), "where are its limits?"
