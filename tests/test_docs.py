"""The documentation names what exists, and everything public is in it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import typer
from public_api import PUBLIC_MODULES, listed_names

import bayesmkl
import bayesmkl.cli

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_every_listed_name_exists_and_is_public():
    for module, name, _ in listed_names():
        assert name in importlib.import_module(module).__all__, f"{module}.{name} is listed but not public"


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_is_in_the_api_reference(module):
    listed = [getattr(importlib.import_module(owner), name) for owner, name, _ in listed_names()]
    public = importlib.import_module(module)
    missing = [
        name
        for name in public.__all__
        if not name.startswith("__") and not any(getattr(public, name) is entry for entry in listed)
    ]
    assert not missing, f"add to docs/api/index.rst, from {module}: {missing}"


def test_command_line_page_names_options_that_exist():
    commands = typer.main.get_command(bayesmkl.cli.app).commands
    options = {
        option for command in commands.values() for parameter in command.params for option in parameter.opts
    }
    page = (DOCS / "getting_started.md").read_text(encoding="utf-8").partition("## From the command line")[2]
    named = set(re.findall(r"(--[a-z][a-z-]*)", page)) - {"--help"}
    assert {"--target", "--method", "--data"} <= named <= options
    assert (
        {"demo", "fit", "compare"} <= set(re.findall(r"^bayesmkl (\w+)", page, re.MULTILINE)) <= set(commands)
    )
