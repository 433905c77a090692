"""Scripts of the gallery are short and link to pages that exist; `make docs` runs them. The other examples run."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_a_script_draws_one_labeled_figure(capfd):
    from matplotlib import pyplot

    pyplot.close("all")
    try:
        runpy.run_path(str(ROOT / "examples" / "gallery" / "plot_8_gates.py"))
        (number,) = pyplot.get_fignums()
        (ax,) = pyplot.figure(number).axes
        assert ax.get_title(loc="left")
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    finally:
        pyplot.close("all")
    assert capfd.readouterr().err == ""


@pytest.mark.heavy
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_in_an_empty_folder(script, tmp_path):
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
