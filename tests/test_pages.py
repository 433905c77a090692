"""Modules, classes, files, tests and sections of benchmarks that pages name exist."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import bayesmkl
from bayesmkl import bemkl, discriminative, gp, kernels

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = Path(bayesmkl.__file__).parent  # which need not be below ROOT
BUILT = {"_build", "_templates", "notebooks", "gallery", "generated"}  # by Sphinx
PAGES = [
    str(path.relative_to(DOCS))
    for path in sorted(DOCS.rglob("*.md"))
    if not BUILT & set(path.relative_to(DOCS).parts)
]
FENCE = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)


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


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES)
def test_dotted_names_exist(page):
    names = [
        re.sub(r"^~|\(.*", "", q) for q in quoted(page) if re.fullmatch(r"~?bayesmkl(\.\w+)+(\(.*\))?", q)
    ]
    for name in names:
        resolved(name)


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES)
def test_estimators_and_parameters_of_classes_exist(page):
    pattern = re.compile(r"([A-Z]\w*[a-z]\w*)(?:\((\w+)=.*\))?")
    modules = (bayesmkl, bemkl, discriminative, kernels, gp)
    for name, parameter in (match.groups() for match in map(pattern.fullmatch, quoted(page)) if match):
        owner = next((module for module in modules if name in module.__all__), None)
        assert owner or not re.search(r"(MKL|LapSVM).*(Classifier|Regressor|OneClass|Survival)$", name), name
        if owner and parameter:
            assert parameter in inspect.signature(getattr(owner, name)).parameters, f"{name}({parameter}=)"


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES)
def test_files_tests_and_sections_of_benchmarks_exist(page):
    for path in (
        q for q in quoted(page) if re.fullmatch(r"(bayesmkl|benchmarks|docs|examples|tests)/[\w/.-]+", q)
    ):
        if not path.startswith("docs/_build"):
            assert ((PACKAGE.parent if path.startswith("bayesmkl/") else ROOT) / path).exists(), path
    for path, _, test in (q.partition("::") for q in quoted(page) if "::" in q):
        assert re.search(rf"^def {test}\(", source_of(ROOT / path), re.MULTILINE), test
    for script, sections in re.findall(
        r"`(benchmarks/\w+\.py)`((?:,| and|\s|`--section \w+`)*)", text_of(page)
    ):
        for section in re.findall(r"--section (\w+)", sections):
            assert f"--section {section} " in source_of(ROOT / script), f"{script} {section}"
