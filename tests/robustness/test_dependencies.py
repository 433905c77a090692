"""Everything that the package imports is declared, fits what is declared, and has a license that asks nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import dependencies
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bayesmkl

pytestmark = pytest.mark.family("supply chain")

RUNTIME = {canonicalize_name(one.name): one for one in dependencies.declared()}
OPTIONAL = {"dask", "distributed", "scikit-posthocs", "baycomp", "pyarrow"}  # asked for where they are used


def imported():
    """Return the packages of others that the modules of this one import, with one module each."""
    found = {}
    package = Path(bayesmkl.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
                top = name.split(".")[0]
                if top not in sys.stdlib_module_names and top != "bayesmkl":
                    found[top] = path.relative_to(package)
    return found


@pytest.mark.heavy
def test_what_is_imported_is_declared():
    installed, known = packages_distributions(), RUNTIME.keys() | OPTIONAL
    found = imported()
    assert {"numpy", "sklearn", "jax"} <= found.keys()
    names = {module: {canonicalize_name(name) for name in installed.get(module, ())} for module in found}
    undeclared = {module: found[module] for module in found if names[module] and not names[module] & known}
    assert not undeclared, "where they are imported"


def test_versions_fit_and_licenses_are_permissive():
    needed = dependencies.needed(dependencies.declared())
    assert len(needed) > len(RUNTIME)
    for held in needed.values():
        assert held.fits, f"{held.asked_by} asks for {held.name}{held.specifier}, installed is {held.version}"
        assert dependencies.is_permissive(held.license), (held.name, held.license)


def test_an_audit_that_looked_nothing_up_says_so(tmp_path, capsys):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({"dependencies": [{"name": "numpy", "skip_reason": "not found"}]}))
    assert dependencies.audit(path) == 0
    assert "NOT CHECKED" in capsys.readouterr().out
    known = {"name": "numpy", "version": "1", "vulns": [{"id": "CVE-1"}]}
    path.write_text(json.dumps({"dependencies": [known, {"name": "scipy", "version": "1", "vulns": []}]}))
    assert dependencies.audit(path) == 1
    assert (
        "VULNERABLE numpy 1: CVE-1\nknown vulnerabilities: 1 (2 packages looked up)"
        in capsys.readouterr().out
    )


def test_the_script_prints_constraints_for_pip():
    done = subprocess.run(
        [sys.executable, Path(dependencies.__file__), "lowest"], capture_output=True, text=True, check=True
    )
    names = {Requirement(line).name for line in done.stdout.splitlines()}
    assert {one.name for one in RUNTIME.values()} | {"pytest", "dask", "baycomp"} <= names
    assert "bayesmkl" not in names
