"""The page on the architecture names what exists."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

import bayesmkl
from bayesmkl import bemkl, discriminative, kernels
from bayesmkl.discriminative.methods import METHODS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = Path(bayesmkl.__file__).parent  # which need not be below ROOT
PAGES = ("architecture.md",)
FENCE = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
SUFFIXES = (".py", ".md", ".rst", ".toml", ".png", "/")
OTHERS = {"DataFrame", "DataTree", "NamedTuple", "None"}  # names of others


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
    assert found
    for name, parameter in (match.groups() for match in found):
        assert name in classes() | OTHERS or name.endswith("Warning"), name
        if parameter:
            owner = next(module for module in (bemkl, discriminative, kernels) if hasattr(module, name))
            assert parameter in inspect.signature(getattr(owner, name)).parameters, f"{name}({parameter}=)"


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page):
    paths = [q for q in quoted(page) if "/" in q and " " not in q and q.endswith(SUFFIXES)]
    assert paths
    for path in paths:
        assert ((PACKAGE.parent if path.startswith("bayesmkl/") else ROOT) / path).exists(), path


@pytest.mark.parametrize("page", PAGES)
def test_links_have_an_end(page):
    for path, anchor in re.findall(r"\]\(([\w/.-]+)(?:#([^)]+))?\)", text_of(page)):
        target = DOCS / path
        assert target.exists(), path
        headings = re.findall(r"^#+ (.+)$", source_of(target), re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in slugs, f"{path}#{anchor}"


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


LIMITS = re.compile(
    r"^##+ (?:.*[Ll]imits|.*when not|What does not compare|What has no program|When a worker dies)$",
    re.MULTILINE,
)
REFERENCE = {"coming_from", "command_line", "compare_command", "files", "index", "robustness"}
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
