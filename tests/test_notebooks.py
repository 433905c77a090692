"""Notebooks are whole, without outputs, and the same in their two forms; the build of the pages runs them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jupytext
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.md"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_of(path):
    """Return the cells as Python: without lines for the notebook alone, such as ``%matplotlib inline``."""
    cells = [cell.source for cell in jupytext.read(path).cells if cell.cell_type == "code"]
    return [re.sub(r"^%matplotlib inline$", "", cell, flags=re.MULTILINE) for cell in cells]


def test_all_notebooks_are_among_the_pages():
    listed = re.findall(
        r"^notebooks/(\w+)$", (FOLDER.parent / "docs" / "notebooks.md").read_text(), re.MULTILINE
    )
    assert [path.stem for path in NOTEBOOKS] == listed


@every_notebook
def test_both_forms_say_the_same(path):
    notebook, script = jupytext.read(path), jupytext.read(path.with_suffix(".py"))
    cells = [
        [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in one.cells]
        for one in (notebook, script)
    ]
    assert cells[0] == cells[1], "run `make notebooks`"
    assert notebook.metadata["kernelspec"] == script.metadata["kernelspec"]


@every_notebook
def test_there_are_no_outputs(path):
    assert not [cell for cell in jupytext.read(path).cells if cell.get("outputs")]
    assert "data:image" not in path.read_text(encoding="utf-8")


@every_notebook
def test_functions_are_short_and_warnings_stay_on(path):
    code = "\n".join(code_of(path))
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef):
            assert node.body[-1].end_lineno - node.body[0].lineno < 5, node.name
    assert not re.search(r"filterwarnings|simplefilter|\bexcept\b|catch_warnings|%%capture", code)


@every_notebook
def test_the_last_cell_checks_the_conclusion(path):
    checks = ast.parse(code_of(path)[-1]).body
    assert len(checks) >= 3
    assert any(isinstance(node, ast.Assert) for node in checks)
    assert jupytext.read(path).cells[-1].metadata["tags"] == ["hide-cell"]


@every_notebook
def test_nothing_private_is_used(path):
    for name in re.findall(r"\bbayesmkl(?:\.\w+)+", "\n".join(code_of(path))):
        assert "._" not in name
