"""Run notebooks and store their outputs in them; stop at the first error, and at anything on stderr.

python notebooks/run.py                     all of them
python notebooks/run.py 01_quickstart.ipynb
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent


def is_progress(output: nbformat.NotebookNode) -> bool:
    """Return whether an output is a progress bar, which slow machines draw and fast ones do not, or its empty end."""
    data = output.get("data", {"text/plain": "lines"})
    return "application/vnd.jupyter.widget-view+json" in data or data.get("text/plain") == ""


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with new outputs, without anything that differs between two runs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=600, record_timing=False, resources={"metadata": {"path": FOLDER}}
    ).execute()
    notebook.metadata.pop("language_info", None)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell["outputs"] = [output for output in cell["outputs"] if not is_progress(output)]
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise RuntimeError(f"{path.name} wrote to stderr: {output['text']}")
            if "execution_count" in output:
                output["execution_count"] = None
        if cell.cell_type == "code":
            cell["execution_count"] = None
    return notebook


def run(path: Path) -> None:
    """Replace the outputs of a notebook."""
    nbformat.write(executed(path), path)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.name for path in FOLDER.glob("*.ipynb")):
        print(name, flush=True)
        run(FOLDER / name)
