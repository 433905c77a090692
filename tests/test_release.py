"""What is released agrees with itself: version, citation, changelog, archives."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from importlib.metadata import metadata

import pytest
import yaml
from helpers import ROOT, from_source
from packaging.requirements import Requirement

import bayesmkl

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_citation_agrees_with_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == bayesmkl.__version__
    assert citation["license"] == PROJECT["project"]["license"] == metadata("bayesmkl")["License-Expression"]
    assert citation["keywords"] == PROJECT["project"]["keywords"]
    assert [one["name"] for one in citation["authors"]] == [
        one["name"] for one in PROJECT["project"]["authors"]
    ]
    assert {"message", "title"} <= citation.keys()


def test_changelog_begins_with_this_version_or_the_next():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^## (\S+) \((.*)\)$", text, re.MULTILINE)[:2]
    released = second if first[1] == "unreleased" else first
    assert released[0] == bayesmkl.__version__.removesuffix(".dev0")


def test_conda_recipe_asks_for_what_the_package_declares():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == bayesmkl.__version__
    assert recipe["source"] == {"path": ".."}
    assert recipe["about"]["summary"] == PROJECT["project"]["description"]
    assert recipe["about"]["license"] == PROJECT["project"]["license"]
    on_python312 = {"python_version": "3.12", "python_full_version": "3.12.0"}
    declared = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    declared = [one for one in declared if one.marker is None or one.marker.evaluate(on_python312)]
    names = {one.name: {"matplotlib": "matplotlib-base"}.get(one.name, one.name) for one in declared}
    expected = {f"{names[one.name]} {one.specifier}" for one in declared}
    assert set(recipe["requirements"]["run"]) == expected | {"python >=3.12"}
    builds = {f"{one.name} {one.specifier}" for one in map(Requirement, PROJECT["build-system"]["requires"])}
    assert set(recipe["requirements"]["host"]) == builds | {"pip", "python >=3.12"}
    extras = {extra for one in declared for extra in one.extras}
    assert extras <= {"matplotlib", "xarray", "h5py"}  # which are required besides


@pytest.mark.heavy
@from_source
def test_source_archive_holds_what_tests_and_pages_need(tmp_path):
    build = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    tops = {name.partition("/")[0] for name in names}
    listed = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert listed <= tops
    assert tops <= listed | {"PKG-INFO", "pyproject.toml", ".gitignore"}
    assert {
        "bayesmkl/py.typed",
        "tests/fixtures/survival.json",
        "docs/conf.py",
        "docs/_static/readme.png",
    } <= names
    assert not [name for name in names if "__pycache__" in name or "_build" in name.split("/")]
    results = {name.split("results/")[1].split("/")[0] for name in names if "/results/" in name}
    assert results == {"reference_posteriors"}
