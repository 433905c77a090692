"""Algorithms of the registered methods are pure numerics, and none imports another; import-linter checks the rest."""

from __future__ import annotations

import importlib
import tomllib
from itertools import permutations
from pathlib import Path

import grimp
import pytest

from bayesmkl.discriminative.method import PACKAGE
from bayesmkl.discriminative.methods import METHODS

ALGORITHMS = [f"{PACKAGE}.{method.algorithm}" for method in METHODS]
PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("bayesmkl", include_external_packages=True, cache_dir=None)


def test_algorithms_of_methods_are_pure_numerics(imports):
    """They import none of the packages that the contract for their helpers forbids."""
    contracts = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (forbidden,) = (
        set(contract["forbidden_modules"])
        for contract in contracts
        if contract["name"] == "discriminative algorithms are pure numerics"
    )
    assert {"sklearn", "matplotlib", "pandas"} <= forbidden
    for module in ALGORITHMS:
        found = imports.find_modules_directly_imported_by(module)
        assert "numpy" in found
        assert not found & forbidden, module


def test_no_algorithm_imports_another_not_even_through_others(imports):
    assert len(ALGORITHMS) == len(set(ALGORITHMS)) >= 20
    for one, other in permutations(ALGORITHMS, 2):
        chain = imports.find_shortest_chain(importer=one, imported=other)
        assert chain is None, " imports ".join(chain)


def test_models_are_imported_from_their_package():
    """Users import the pure functions as ``from bayesmkl.bemkl import binary``, wherever the modules are."""
    for name in ("binary", "regression", "multiclass", "multioutput", "multitask", "ordinal", "censored"):
        assert getattr(importlib.import_module("bayesmkl.bemkl"), name).sweep.__module__.endswith(
            f"models.{name}"
        )
