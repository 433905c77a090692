"""Notebooks are listed among the pages, store outputs without errors, and run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_all_notebooks_are_among_the_pages():
    page = (FOLDER.parent / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert [path.stem for path in NOTEBOOKS] == re.findall(r"^notebooks/(\w+)$", page, re.MULTILINE)


@every_notebook
def test_a_notebook_is_valid_and_stores_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell["outputs"]]
    kinds = {output.get("name", output["output_type"]) for output in outputs}
    assert len(outputs) >= 5
    assert not kinds & {"stderr", "error"}
    assert "widgets" not in notebook.metadata  # bars of progress
    assert not any("widget" in kind for output in outputs for kind in output.get("data", {}))
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for cell in notebook.cells:
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            assert cell.metadata["mystnb"]["image"]["alt"].endswith("."), "figures need alt texts"
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 300_000


@pytest.mark.heavy
@every_notebook
def test_a_notebook_runs(path):
    """Its last cell checks what its text says."""
    runpy.run_path(str(FOLDER / "run.py"))["executed"](path)
